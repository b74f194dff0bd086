"""RecBole's models as the benchmark trains them: what they learn from, loss and scores."""

import logging

import numpy as np
import pytest
import torch

from sampled_book.data import benchmark, neural
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


@pytest.mark.parametrize("name", neural.SETTINGS)
def test_a_model_learns_from_all_but_two_items_and_ranks_with_all_but_one(name, data, monkeypatch):
    handed, made = [], neural._model
    monkeypatch.setattr(
        neural, "_model", lambda name, data, given: handed.append(data) or made(name, data, given)
    )
    learnt, _ = data.without_last(1)
    train, _ = data.without_last(2)
    trained = neural.learn(name, learnt, minutes=0.0, **neural.SETTINGS[name])
    assert [part.items.tolist() for part in handed] == [train.items.tolist()]
    assert trained.data.items.tolist() == learnt.items.tolist()
    assert trained.facts["training"]["ended by"] == "time"
    users = np.array([3, 0, 17])
    scores = trained(users)
    assert scores.shape == (3, data.n_items)
    # RecBole's own score of each user's items, of a history that holds the validation item
    model = trained.model
    for row, user in enumerate(users):
        history = learnt.items[learnt.starts[user] : learnt.starts[user + 1]]
        if neural._is_sequential(model):
            shown = {
                model.ITEM_SEQ: torch.tensor(history + 1)[None].repeat(data.n_items, 1),
                model.ITEM_SEQ_LEN: torch.full((data.n_items,), history.size),
            }
        else:
            assert sorted(model.history_item_id[user].tolist())[-history.size :] == sorted(
                history + 1
            )
            shown = {model.USER_ID: torch.full((data.n_items,), user)}
        with torch.no_grad():
            own = model.predict({**shown, "item_id": torch.arange(data.n_items) + 1})
        assert np.allclose(scores[row], own.numpy(), atol=1e-5)


@pytest.mark.parametrize("name", ["SASRec", "GRU4Rec"])
def test_the_loss_of_windows_is_recboles_own_of_a_row_for_each_position(name, data):
    settings = neural.SETTINGS[name]
    model = neural._model(name, data, settings).eval()  # without dropout
    model.gather_indexes = neural._at_every_position
    (batch,) = neural._batches(model, data, USERS, np.random.default_rng(1))
    loss = model.calculate_loss(batch).item()
    del model.gather_indexes
    rows = []
    for user in range(data.n_users):
        items = (data.items[data.starts[user] : data.starts[user + 1]] + 1).tolist()
        rows += [(items[:end], items[end]) for end in range(1, len(items))]
    shown = np.zeros((len(rows), model.max_seq_length), dtype=np.int64)
    for row, (before, _) in zip(shown, rows, strict=True):
        row[: len(before)] = before
    own = model.calculate_loss(
        {
            model.ITEM_SEQ: torch.from_numpy(shown),
            model.ITEM_SEQ_LEN: torch.tensor([len(before) for before, _ in rows]),
            model.POS_ITEM_ID: torch.tensor([item for _, item in rows]),
        }
    ).item()
    assert loss == pytest.approx(own, rel=1e-5)


def test_sasrec_learns_the_order_of_items(data):
    entry = neural.entries(["SASRec"], minutes=0.3)["SASRec"]
    intervals, facts, _ = benchmark.compute(entry, data)
    assert intervals.evaluate("ndcg@10").mean() > 0.9
    assert facts["training"]["best epoch"] <= facts["training"]["epochs"]
