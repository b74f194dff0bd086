"""Intervals over blocks of real rankings, against ranks counted block by block."""

import numpy as np
import pandas as pd
import pytest

from sampled_book.experiments import blocks
from tests.data import needs_data


def test_a_partition_ranks_each_query_among_its_block():
    rng = np.random.default_rng(2)
    score, relevant = rng.integers(0, 9, size=(12, 23)).astype(float), rng.integers(0, 23, 12)
    frame = blocks.log_of({"A": score}, relevant, 5, np.random.default_rng(3)).frame
    block = np.random.default_rng(3).permutation(np.arange(23) % 4)
    for row in frame.itertuples():
        own, members = relevant[row.user], score[row.user][block == block[relevant[row.user]]]
        assert row.n_better == (members > score[row.user, own]).sum()
        assert row.n_tied == (members == score[row.user, own]).sum() - 1
        assert row.n_negatives == members.size - 1


@needs_data
@pytest.mark.simulation
def test_intervals_hold_the_exact_value_and_errors_the_expectation():
    scores, relevant = blocks.ranked("cisi")
    values = blocks.exact(scores, relevant)
    ranks = 1 + (scores["TF-IDF"] > scores["TF-IDF"].diagonal()[:, None]).sum(axis=1)
    assert values["TF-IDF", "recall@10"] == pytest.approx((ranks <= 10).mean(), abs=0.002)
    frames = pd.concat(blocks.drawn(scores, relevant, 20, 60))
    found = blocks.summary(frames, values)
    assert (found["interval holds exact"] == 1).all()
    assert found["errors hold mean"].between(0.9, 1).all()
    assert found["error"].between(0.9, 1.5).all()
    # The page says so: the estimate is biased, and its errors do not hold the exact value.
    assert found["bias"].between(-0.21, 0).all()
    assert (found.loc[found["metric"] == "rr", "errors hold exact"] < 0.1).all()
