"""Users whose samples depend on each other or on what they showed get no range."""

from fractions import Fraction
from math import comb

import numpy as np
import pandas as pd
import pytest

from sampled_metrics.designs.sample import Sample
from sampled_metrics.log.read import read_log
from tests.sampled_metrics.designs.logs import estimate


@pytest.mark.parametrize("given", [True, False])
def test_a_poor_recommender_with_a_fixed_design_gets_a_range_if_the_design_is_said(given):
    rng = np.random.default_rng(1)
    numbers = rng.choice([50, 100], size=2_000)
    rows = pd.DataFrame({"user": np.arange(2_000), "n_negatives": numbers, "n_tied": 0})
    rows["n_better"] = rng.binomial(numbers, 0.5)  # each item is at rank 250 of 500
    log = read_log(rows, n_items=500, replacement=True, fixed_sample_size=given)
    if given:
        assert len(estimate(log, ["recall@10"])) == 1
        return
    with pytest.raises(ValueError, match=r"fixed_sample_size=True \(--fixed-sample-size\)"):
        estimate(log, ["recall@10"])


def enlarged(first, add, most, users, seed, obeyed=1.0):
    """A log whose samples were enlarged by `add` while no negative was above, mostly."""
    rng, rows = np.random.default_rng(seed), []
    for rank in np.minimum(1 + (rng.pareto(0.4, users) * 8).astype(int), 2_000):
        is_above, m = rng.permutation(1_999)[:most] < rank - 1, first
        while not is_above[:m].any() and m < most and rng.random() < obeyed:
            m = min(m + add, most)
        rows.append({"n_negatives": m, "n_better": int(is_above[:m].sum())})
    frame = pd.DataFrame(rows).assign(user=np.arange(users), n_tied=0)
    return read_log(frame, n_items=2_000, replacement=False)


@pytest.mark.parametrize(("users", "first", "add", "most"), [
    (150, 5, 5, 20), (300, 10, 10, 30), (60, 20, 20, 100), (400, 2, 1, 4), (300, 1, 1, 60),
])  # fmt: skip
def test_samples_enlarged_by_any_step_get_no_range(users, first, add, most):
    for seed in range(2):
        log = enlarged(first, add, most, users, seed)
        with pytest.raises(ValueError, match=r"negatives none had no negative above.*fixed_sample"):
            estimate(log, ["recall@10"], assumption=None)
        assert len(estimate(log, ["recall@10"], identification=False)) == 1


def test_a_few_samples_that_were_not_enlarged_do_not_hide_the_others():
    log = enlarged(5, 5, 20, 1_000, 1, obeyed=0.998)
    with pytest.raises(ValueError, match=r"of \d+ users of recommender with fewer than 20 "
                       r"negatives only \d had no negative above"):  # fmt: skip
        estimate(log, ["recall@10"], assumption=None)


def test_samples_enlarged_until_a_tied_negative_get_no_range():
    rows = pd.DataFrame({"user": range(90), "n_negatives": [20] * 40 + [40] * 50, "n_tied": 0})
    rows["n_better"] = [0] * 20 + [1] * 20 + [0] * 40 + [1] * 10
    rows.loc[:19, "n_tied"] = 1
    with pytest.raises(ValueError, match="of 40 users of recommender with fewer than 40 negatives"):
        estimate(read_log(rows, n_items=500, replacement=False), ["recall@10"])


@pytest.mark.parametrize("users", [30, 3_000])
@pytest.mark.parametrize("numbers", ["98 or 99", "a few 98", "collapsed", "history", "2 to 4"])
@pytest.mark.parametrize("recommender", ["good", "random", "half bad"])
def test_numbers_chosen_before_ranking_are_not_suspected(users, numbers, recommender):
    n, drawn = 2_000, {
        "98 or 99": lambda rng: rng.integers(98, 100, users),
        "a few 98": lambda rng: 99 - (rng.random(users) < 0.03),
        "collapsed": lambda rng: 100 - rng.poisson(3, users),
        "history": lambda rng: np.minimum(100, 4 * rng.geometric(0.05, users)),
        "2 to 4": lambda rng: rng.integers(2, 5, users),
    }  # fmt: skip
    ranked = {
        "good": lambda rng: np.minimum(1 + (rng.pareto(0.4, users) * 8).astype(int), n),
        "random": lambda rng: rng.integers(1, n + 1, users),
        "half bad": lambda rng: np.where(
            rng.random(users) < 0.5, n // 2, rng.integers(1, n + 1, users)
        ),
    }
    for seed in range(4):
        rng = np.random.default_rng(seed)
        m, rank = drawn[numbers](rng), ranked[recommender](rng)
        rows = pd.DataFrame({"user": range(users), "n_negatives": m, "n_tied": 0})
        rows["n_better"] = rng.hypergeometric(rank - 1, n - rank, m)
        sample = Sample(read_log(rows, n_items=n, replacement=False))
        sample.check_independent("")


def test_exact_ranks_among_different_numbers_are_not_suspected():
    numbers = np.arange(2, 1_002)  # nobody is first, and nothing was sampled
    rows = pd.DataFrame({"user": range(1_000), "n_negatives": numbers, "n_better": 2, "n_tied": 0})
    log = read_log(rows.assign(n_items=numbers + 1), replacement=False)
    assert estimate(log, ["recall@10"])["warrant"].tolist() == ["theorem"]


def test_the_error_rates_of_suspected_samples():
    """By fractions: whether k users drawn at random all have the largest number, and exp."""

    def suspected(fewer, most, first, m=20):
        rows = pd.DataFrame({"user": range(fewer + most), "n_tied": 0})
        rows["n_negatives"] = [m] * fewer + [2 * m] * most
        rows["n_better"] = [1] * fewer + [0] * first + [1] * (most - first)
        sample = Sample(read_log(rows, n_items=500, replacement=True))
        return sample.enlarged("recommender") is not None

    for fewer, most in ((20, 40), (40, 20), (30, 30)):
        for first in range(most + 1):
            share = Fraction(comb(most, first), comb(most + fewer, first))
            assert suspected(fewer, most, first) is (share < Fraction(1, 10**6))
    # 1 / (m + 1) of so many users is the number that a random recommender has first.
    for m, fewest in ((1, 28), (9, 139)):
        assert np.exp(-fewest / (m + 1)) < 1e-6 < np.exp(-(fewest - 1) / (m + 1))
        assert suspected(fewest, 1, 0, m)
        assert not suspected(fewest - 1, 1, 0, m)
