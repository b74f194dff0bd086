"""RecBole's Mult-VAE as the benchmark trains it: what it learns from, and its scores."""

import logging

import numpy as np
import pytest
import torch

from sampled_book.data import neural
from sampled_book.data.sequences import Sequences

USERS = 40


@pytest.fixture(autouse=True)
def _loggers():
    yield
    logging.getLogger().handlers.clear()


@pytest.fixture
def data():
    """Users whose items come in one order, from one place in it or another."""
    rng = np.random.default_rng(7)
    return Sequences.from_users(
        [(rng.integers(20) + np.arange(rng.integers(6, 15))) % 20 for _ in range(USERS)]
    )


def test_mult_vae_learns_from_all_but_two_items_and_ranks_with_all_but_one(data, monkeypatch):
    handed, made, models = [], neural._model, []

    def model_of(data, given):
        handed.append(data)
        models.append(made(data, given))
        return models[-1]

    monkeypatch.setattr(neural, "_model", model_of)
    monkeypatch.setattr(neural, "MINUTES", 0.0)
    learnt, _ = data.without_last(1)
    train, _ = data.without_last(2)
    trained = neural.learn(learnt, **neural.SETTINGS["MultiVAE"])
    assert [part.items.tolist() for part in handed] == [train.items.tolist()]
    assert trained.facts["training"]["ended by"] == "time"
    users = np.array([3, 0, 17])
    scores = trained(users)
    assert scores.shape == (3, data.n_items)
    # RecBole's own score of each user's items, of a history that holds the validation item
    (model,) = models
    for row, user in enumerate(users):
        history = learnt.items[learnt.starts[user] : learnt.starts[user + 1]]
        assert sorted(model.history_item_id[user].tolist())[-history.size :] == sorted(history + 1)
        shown = {model.USER_ID: torch.full((data.n_items,), user)}
        with torch.no_grad():
            own = model.predict({**shown, "item_id": torch.arange(data.n_items) + 1})
        assert np.allclose(scores[row], own.numpy(), atol=1e-5)
