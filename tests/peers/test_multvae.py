"""Mult-VAE in PyTorch: its layers, its loss, the negatives, and what it learns."""

from itertools import product

import numpy as np
import pytest
import torch
from torch.distributions import Multinomial, Normal, kl_divergence

from sampled_book.data import benchmark, multvae, neural
from sampled_book.data.sequences import Sequences

N_ITEMS = 40


@pytest.fixture
def data():
    """Users who like the items of one half alone; a few items are liked by most of these."""
    rng = np.random.default_rng(7)
    weights = 1.0 / np.arange(1, N_ITEMS // 2 + 1)
    return Sequences.from_users(
        [
            rng.choice(N_ITEMS // 2, rng.integers(6, 12), False, weights / weights.sum())
            + user % 2 * (N_ITEMS // 2)
            for user in range(150)
        ]
    )


def settings(**changed):
    return neural.SETTINGS["MultiVAE"] | {"width": 30, "sparse_width": 20, "latent": 10} | changed


@pytest.fixture
def model():
    torch.manual_seed(3)
    model = multvae.Network(N_ITEMS, settings()).eval()
    for weights in model.parameters():  # larger than at the start, so that all layers count
        torch.nn.init.normal_(weights, std=0.4)
    return model


def by_hand(model, history):
    """Mean and standard deviation of a user's latent vector."""
    arrays = {name: part.detach().numpy() for name, part in model.named_parameters()}
    shown = history / np.linalg.norm(history)
    hidden = np.tanh(shown @ arrays["first.weight"] + arrays["first_bias"])
    both = arrays["to_latent.weight"] @ hidden + arrays["to_latent.bias"]
    return both[:10], np.exp(both[10:] / 2)


def logits_by_hand(model, latent):
    arrays = {name: part.detach().numpy() for name, part in model.named_parameters()}
    hidden = np.tanh(arrays["to_hidden.weight"] @ latent + arrays["to_hidden.bias"])
    return arrays["last.weight"] @ hidden + arrays["last_bias.weight"][:, 0]


def test_the_loss_is_the_multinomial_likelihood_and_the_divergence(model, data):
    histories = data.matrix[[4, 0, 17]].astype(np.float32)
    torch.manual_seed(5)
    noise = torch.randn(3, 10).numpy()
    expected = []
    for history, drawn in zip(histories.toarray(), noise, strict=True):
        mean, spread = by_hand(model, history)
        logits = torch.from_numpy(logits_by_hand(model, mean + spread * drawn))
        likelihood = Multinomial(int(history.sum()), logits=logits).log_prob(torch.tensor(history))
        orders = torch.lgamma(torch.tensor(history.sum() + 1.0))  # no weight enters their number
        latent = Normal(torch.tensor(mean), torch.tensor(spread))
        divergence = kl_divergence(latent, Normal(0.0, 1.0)).sum()
        expected.append(float(0.3 * divergence - likelihood + orders))
    torch.manual_seed(5)
    found = multvae.loss(model, histories, *multvae.candidates([], None, 0, N_ITEMS), 0.3)
    assert found.item() == pytest.approx(np.mean(expected), rel=1e-5)


def test_scores_are_those_of_the_mean(model, data):
    users = np.array([3, 0, 17])
    for row, user in zip(multvae.scored(model, data, users), users, strict=True):
        mean, _ = by_hand(model, data.matrix[[user]].toarray()[0])
        assert np.allclose(row, logits_by_hand(model, mean), atol=1e-5)


def test_a_share_of_the_items_is_hidden_while_it_learns(model, data):
    histories = data.matrix[[4]]
    mean, _ = model.posterior(histories)
    means = {tuple(model.train().posterior(histories)[0][0].tolist()) for _ in range(9)}
    assert len(means) > 1
    assert tuple(mean[0].tolist()) not in means


def test_the_sum_over_negatives_has_no_bias(monkeypatch):
    scores, weights = np.array([0.3, -1.0, 2.0, 0.5]), torch.tensor([1.0, 4.0, 3.0, 2.0])
    own, mean = np.array([2]), 0.0
    for drawn in product(range(4), repeat=2):
        given = torch.tensor(drawn)
        monkeypatch.setattr(torch, "multinomial", lambda *_, given=given, **__: given)
        items, log_weights = multvae.candidates(own, weights, 2, 4)
        assert set(items) == {2, *drawn}
        rest = np.where(items == 2, 0.0, log_weights.numpy())
        chance = np.prod(weights.numpy()[list(drawn)] / 10)
        mean += chance * np.exp(scores[items] + rest).sum()
    assert mean == pytest.approx(np.exp(scores).sum(), rel=1e-5)


def test_the_loss_of_many_negatives_is_that_of_all_items(model, data):
    histories = data.matrix[[4, 0, 17]].astype(np.float32)
    weights = torch.arange(1.0, N_ITEMS + 1, dtype=torch.float64)
    losses = []
    for chances in (None, weights):
        own = np.unique(histories.indices)
        chosen = multvae.candidates(own, chances, 200_000, N_ITEMS)
        torch.manual_seed(1)
        losses.append(multvae.loss(model, histories, *chosen, 0.2).item())
    assert losses[0] == pytest.approx(losses[1], rel=0.01)


@pytest.mark.parametrize("changed", [{}, {"full_softmax_items": 5}])
def test_it_learns_which_items_go_together(data, changed):
    learnt, held_out = data.without_last(1)
    trained = multvae.learn(learnt, **settings(**changed))
    model, known = trained.scores.args
    assert known is learnt
    assert model.last.sparse == bool(changed)
    users = np.arange(data.n_users)
    entries = {"MultiVAE": neural.ENTRIES["MultiVAE"], "Popular": benchmark.RECOMMENDERS["Popular"]}
    scores = {"MultiVAE": trained, "Popular": entries["Popular"].learn(learnt)}
    values = {
        name: benchmark.place(entry, scores[name], learnt, held_out, users)
        .evaluate("ndcg@10")
        .mean()
        for name, entry in entries.items()
    }
    assert values["MultiVAE"] > 1.3 * values["Popular"]
    facts = trained.facts["training"]["validation ndcg@10"]
    assert facts["best"] > 1.3 * facts["Popular"]
