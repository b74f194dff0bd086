"""Logs in which users have all negatives, whose ranks are exact."""

from math import sqrt

import numpy as np
import pandas as pd
import pytest

from sampled_metrics import evaluation, metric
from sampled_metrics.designs import ranges
from sampled_metrics.designs import values as row_values
from sampled_metrics.evaluation import UNDECIDED
from sampled_metrics.log.read import read_log
from sampled_metrics.numerics import betting
from tests.sampled_metrics.designs.logs import estimate


def exact_ranks(users, rng, ties=0):
    """A log of two recommenders with all negatives of each user, of whom no two have as many."""
    sizes = rng.permutation(np.arange(100, 100 + users))
    frames = []
    for name, index in (("A", 0.5), ("B", 0.51)):
        tied = rng.integers(0, ties + 1, users)
        better = np.minimum(rng.pareto(index, users).astype(np.int64), sizes - 1 - tied)
        rows = {"recommender": name, "user": np.arange(users), "n_better": better, "n_tied": tied}
        frames.append(pd.DataFrame(rows | {"n_items": sizes, "n_negatives": sizes - 1}))
    return pd.concat(frames)


def test_exact_ranks_are_read_as_they_are(monkeypatch):
    rows = exact_ranks(2_000, np.random.default_rng(5))
    log = read_log(rows, replacement=False)

    def refused(*arguments, **options):
        raise AssertionError("a table for each of 2,000 catalogues takes minutes")

    for module, name in (
        (row_values, "is_unbiased"),
        (row_values, "pmf_table"),
        (row_values.corrections, "by_name"),
        (ranges, "identified"),
    ):
        monkeypatch.setattr(module, name, refused)
    names = ["recall@10", "ndcg@10", "ap", "auc"]
    for row in estimate(log, names).itertuples():
        recommender_rows = rows[rows["recommender"] == row.recommender]
        user_values = metric(row.metric)(
            recommender_rows["n_better"].to_numpy() + 1, recommender_rows["n_items"].to_numpy()
        )
        assert row.reported == row.estimate == pytest.approx(user_values.mean(), rel=1e-12)
        assert row.standard_error == pytest.approx(
            user_values.std(ddof=1) / sqrt(user_values.size), rel=1e-9
        )
        least = metric(row.metric)(
            recommender_rows["n_items"].max(), recommender_rows["n_items"].max()
        )
        interval = betting.interval(user_values, float(least), 1.0, 0.05)
        assert (row.possible_low, row.possible_high) == pytest.approx(interval, abs=1e-9)
    for name in names:
        comparison = evaluation.compare(log, name)
        (row,) = comparison.frame.itertuples()
        assert row.verdict == UNDECIDED
        assert comparison.sentences[0].endswith(" users like these.")
