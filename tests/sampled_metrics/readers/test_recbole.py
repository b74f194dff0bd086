"""Scores of RecBole against counting row by row, and its trainer."""

from types import SimpleNamespace

import numpy as np
import pytest

from sampled_metrics.log.read import read_log
from sampled_metrics.readers import recbole, recbole_scores


def recbole_batch(rng, n_users=30, n_items=60, drawn=40):
    """What RecBole does with drawn negatives: scores of the candidates in a row of all items."""
    scores = np.full((n_users, n_items), -np.inf)
    positive = rng.integers(1, n_items, n_users)
    for user in range(n_users):
        negatives = rng.choice(np.delete(np.arange(1, n_items), positive[user] - 1), drawn)
        scores[user, negatives] = rng.permutation(n_items)[negatives]  # duplicates collapse
        scores[user, positive[user]] = n_items + 0.5 if user == 0 else rng.integers(n_items) + 0.5
    return scores, np.arange(n_users), positive


def test_scores_of_recbole_are_counted_row_by_row():
    scores, user, positive = recbole_batch(np.random.default_rng(4))
    frame = recbole_scores(scores, user, positive)
    distinct = np.isfinite(scores).sum(axis=1) - 1
    assert (frame["n_negatives"] == distinct).all()
    assert distinct.min() < distinct.max() < 40
    positive_scores = scores[user, positive][:, None]
    assert frame["n_better"].tolist() == (scores > positive_scores).sum(axis=1).tolist()
    assert frame["n_tied"].tolist() == ((scores == positive_scores).sum(axis=1) - 1).tolist()


class RecBole:
    """Of RecBole's trainer, collector and data what the reader asks for; tests/peers has them."""

    def __init__(self, batches, used_ids=None, distribution="uniform"):
        self.eval_collector, self.config = self, {"model": "BPR"}
        self.neg_sample_args = {"distribution": distribution}
        self._dataset, self.uid_field, self.iid_field, self.item_num = self, "uid", "iid", 61
        self._sampler = SimpleNamespace() if used_ids is None else self
        self.datasets, self.used_ids, self.batches, self.collected = [], used_ids, batches, []

    def id2token(self, field, ids):
        return np.array([f"{field[0]}{number}" for number in ids])

    def eval_batch_collect(self, *batch):
        self.collected.append(batch)

    def evaluate(self, data, load_best_model=True):
        for batch in self.batches:
            self.eval_collector.eval_batch_collect(*batch)
        return {"recall@10": 0.5, "loaded": load_best_model}


def test_a_trainer_of_recbole_evaluates_as_ever_and_its_scores_are_kept():
    rng = np.random.default_rng(4)
    batches, users = [], [[3, 8, 5], [4]]
    for user_ids in users:
        scores, row, positive = recbole_batch(rng, len(user_ids))
        candidates = np.isfinite(scores).sum(axis=1) if len(user_ids) > 1 else [1]
        tensor = SimpleNamespace(
            detach=lambda user_ids=user_ids, n_candidates=candidates: SimpleNamespace(
                cpu=lambda: SimpleNamespace(numpy=lambda: np.repeat(user_ids, n_candidates))
            )
        )
        batches.append((scores, {"uid": tensor}, row, positive))
    used = [set() for _ in range(9)]
    used[8] = {1, 2, int(batches[0][3][1])}
    library = RecBole(batches, used)
    frame = recbole(library, library, load_best_model=False)
    assert library.collected == batches
    assert frame.attrs["reported"] == {"recall@10": 0.5, "loaded": False}
    assert frame["user"].tolist() == ["u3", "u8", "u5", "u4"]
    assert frame["item"].tolist() == [f"i{item}" for batch in batches for item in batch[3]]
    assert frame["instance"].tolist() == [0, 1, 2, 3]
    assert frame["n_items"].tolist() == [60, 58, 60, 60]
    assert set(frame["recommender"]) == {"BPR"}
    assert len(read_log(frame, replacement=False).frame) == 4
    renamed_frame = recbole(RecBole(batches), library, recommender="again")
    assert set(renamed_frame["recommender"]) == {"again"}
    without = RecBole(batches)
    assert recbole(without, without)["n_items"].tolist() == [60] * 4


def test_negatives_that_recbole_draws_by_popularity_are_refused():
    library = RecBole([], distribution="popularity")
    with pytest.raises(ValueError, match="must have uniform negatives, got the distribution 'pop"):
        recbole(library, library)


@pytest.mark.parametrize(
    ("scores", "user", "item", "message"),
    [
        ([1.0, 2.0], [0], [1], r"scores must be a matrix of numbers, got shape \(2,\)"),
        ([[1.0, np.nan]], [0], [1], "scores must not be NaN"),
        ([[1.0, 2.0]], [0], [2], r"rows and columns of scores, of shape \(1, 2\)"),
        ([[1.0, 2.0]], [-1], [1], "rows and columns of scores"),
        ([[1.0, -np.inf]], [0], [1], "scores must hold every relevant item, got none of item 1"),
    ],
)
def test_bad_scores_of_recbole_are_refused_in_one_sentence(scores, user, item, message):
    with pytest.raises(ValueError, match=message) as refusal:
        recbole_scores(scores, user, item)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("pairs", [([0, 1], [1]), ([0.7], [1]), ([[0]], [[1]])])
def test_positives_of_recbole_are_pairs_of_whole_numbers(pairs):
    with pytest.raises(ValueError, match="positive_u and positive_i must be lists of whole"):
        recbole_scores([[1.0, 0.5], [2.0, 3.0]], *pairs)
