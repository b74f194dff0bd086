"""SASRec and GRU4Rec in PyTorch: loss, negatives, what a position sees, and training."""

from itertools import product

import numpy as np
import pytest
import torch

from sampled_book.data import benchmark, neural, sasrec
from sampled_book.data.sequences import Sequences

N_ITEMS = 20


@pytest.fixture
def data():
    """Users whose items come in one order, from one place in it or another."""
    rng = np.random.default_rng(7)
    return Sequences.from_users(
        [(rng.integers(N_ITEMS) + np.arange(rng.integers(6, 15))) % N_ITEMS for _ in range(60)]
    )


def settings(name="SASRec", **changed):
    return neural.SETTINGS[name] | changed


@pytest.fixture(params=["SASRec", "GRU4Rec"])
def model(request):
    torch.manual_seed(3)
    model = sasrec.network(N_ITEMS, settings(request.param)).eval()
    for weights in model.parameters():  # larger than at the start, so that all layers count
        torch.nn.init.normal_(weights, std=0.3)
    return model


def test_the_loss_is_the_mean_cross_entropy_of_filled_positions(model):
    inputs, targets = np.array([[3, 1, 7], [2, 5, 0]]), np.array([[1, 7, 20], [5, 9, 0]])
    items = model["item_vectors"].weight.detach().numpy()
    losses = []
    for row, nexts in zip(inputs, targets, strict=True):
        vectors = sasrec.states(model, torch.from_numpy(row[None]))[0].detach().numpy()
        for vector, wanted in zip(vectors, nexts, strict=True):
            chances = np.exp([vector @ items[item] for item in range(1, N_ITEMS + 1)])
            if wanted:
                losses.append(-np.log(chances[wanted - 1] / chances.sum()))
    assert len(losses) == 5
    assert sasrec.loss(model, inputs, targets).item() == pytest.approx(np.mean(losses), rel=1e-5)


@pytest.mark.parametrize("negatives", [1, 2, 3])
def test_the_sum_over_negatives_has_no_bias(negatives):
    scores, chances, wanted = np.array([0.3, -1.0, 2.0, 0.5]), np.array([0.1, 0.4, 0.3, 0.2]), 2
    mean = 0.0
    for drawn in product(range(4), repeat=negatives):
        index = list(drawn)
        loss = sasrec.sampled_softmax(
            torch.tensor(scores[[wanted]]),
            torch.tensor(scores[index])[None],
            torch.tensor(index)[None] == wanted,
            torch.tensor(np.log(negatives * chances[index])),
        )
        mean += np.prod(chances[index]) * np.exp(loss.item() + scores[wanted])
    assert mean == pytest.approx(np.exp(scores).sum())


def test_the_loss_of_many_negatives_is_that_of_all_items(model):
    torch.manual_seed(1)
    inputs, targets = np.array([[3, 1, 7], [2, 5, 0]]), np.array([[1, 7, 20], [5, 9, 0]])
    weights = torch.arange(1.0, N_ITEMS + 1, dtype=torch.float64)
    sampled = sasrec.loss(model, inputs, targets, weights, 200_000).item()
    assert sampled == pytest.approx(sasrec.loss(model, inputs, targets).item(), rel=0.01)


def test_a_position_sees_the_items_up_to_it_alone(model):
    row = torch.tensor([[4, 9, 2, 6, 1]])
    states = sasrec.states(model, row)
    for place in range(5):
        changed = row.clone()
        changed[0, place] = 17
        is_same = (sasrec.states(model, changed) - states).abs().amax(dim=2)[0] < 1e-5
        assert is_same.tolist() == [later < place for later in range(5)]


def test_scores_of_a_user_do_not_depend_on_the_users_beside(model, data):
    together = sasrec.scored(model, data, np.arange(data.n_users))
    for user in (0, 7, 59):
        history = data.items[data.starts[user] : data.starts[user + 1]] + 1
        last = sasrec.states(model, torch.from_numpy(history[None]))[0, -1].detach().numpy()
        expected = model["item_vectors"].weight.detach().numpy()[1:] @ last
        assert np.allclose(together[user], expected, atol=1e-4)


def test_batches_have_each_window_once_and_hardly_an_empty_position(data):
    given = settings(length=5, tokens=40)
    parts = list(sasrec.batches(data, given, np.random.default_rng(1)))
    offset = int(np.random.default_rng(1).integers(5))
    for column, whole in enumerate(neural.windows(data, 5, offset)):
        rows = [row[row > 0].tolist() for part in parts for row in part[column]]
        assert sorted(rows) == sorted(row[row > 0].tolist() for row in whole)
    assert all(np.count_nonzero(inputs) <= 40 + 5 for inputs, _ in parts)
    positions = sum(inputs.size for inputs, _ in parts)
    assert positions < 1.1 * sum(np.count_nonzero(inputs) for inputs, _ in parts)


@pytest.mark.parametrize("name", ["SASRec", "GRU4Rec"])
@pytest.mark.parametrize("changed", [{}, {"full_softmax_items": 5, "dense_items": 5}])
def test_it_learns_the_order_of_items(data, name, changed):
    learnt, held_out = data.without_last(1)
    trained = sasrec.learn(learnt, **settings(name, **changed))
    model, known = trained.scores.args
    assert known is learnt
    assert model["item_vectors"].sparse == bool(changed)
    users = np.arange(data.n_users)
    intervals = benchmark.place(neural.ENTRIES[name], trained, learnt, held_out, users)
    assert intervals.evaluate("ndcg@10").mean() > 0.9
    facts = trained.facts["training"]
    assert facts["steps"] >= sasrec.LEAST
    assert facts["validation ndcg@10"]["best"] > 0.9 > facts["validation ndcg@10"]["Popular"]


@pytest.mark.parametrize(("popular", "looks"), [(0.1, 3), (0.3, 9)])
def test_a_model_below_popular_is_trained_longer(data, monkeypatch, popular, looks):
    values = iter([popular, *[0.2] * 100])
    monkeypatch.setattr(sasrec, "validation", lambda _: lambda _: next(values))
    for name, value in {"ROUND": 1, "PATIENCE": 2, "LEAST": 1, "LONGER": 4}.items():
        monkeypatch.setattr(sasrec, name, value)
    trained = sasrec.learn(data, **settings(tokens=10_000))
    assert trained.facts["training"]["epochs"] == looks
    assert trained.facts["training"]["validation ndcg@10"]["Popular"] == popular
