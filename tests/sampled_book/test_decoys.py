"""Random decoys: laws against fractions and enumeration, costs against simulation."""

from fractions import Fraction
from itertools import combinations, product
from math import comb, prod

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sampled_book.experiments import decoys
from sampled_metrics import metric
from sampled_metrics.ranking.intervals import RankIntervals


def beta_binomial(n, g, rho):
    """The law from Polya's urn: rising factorials of the Beta distribution's parameters."""
    if rho == 0:
        return [comb(n, x) * g**x * (1 - g) ** (n - x) for x in range(n + 1)]
    a, b = g * (1 / rho - 1), (1 - g) * (1 / rho - 1)

    def rising(start, times):
        return prod((start + i for i in range(times)), start=Fraction(1))

    return [comb(n, x) * rising(a, x) * rising(b, n - x) / rising(a + b, n) for x in range(n + 1)]


# --- laws -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("rho", [0, Fraction(1, 64), Fraction(1, 4), Fraction(7, 8)])
@pytest.mark.parametrize(
    "g", [0, Fraction(1, 1024), Fraction(1, 4), Fraction(1, 2), Fraction(7, 8)]
)
@pytest.mark.parametrize("n", [0, 1, 2, 9, 40])
def test_law_is_the_exact_one(n, g, rho):
    if g == 0:  # the Beta distribution's parameter would be 0
        expected = [Fraction(1)] + [Fraction(0)] * n
    else:
        expected = beta_binomial(n, Fraction(g), Fraction(rho))
    pmf = decoys.pmf(n, float(g), float(rho))
    assert pmf.shape == (n + 1,)
    np.testing.assert_allclose(pmf, [float(p) for p in expected], rtol=1e-12)


@pytest.mark.parametrize(
    ("n", "g", "rho"),
    [
        (10_000, 1e-12, 0.0),
        (10_000, 0.3, 0.0),
        (10_000, 0.3, 1e-9),
        (10_000, 0.01, 0.2),
        (2_000, 1e-200, 1e-3),
        (2_000, 0.5, 0.999),
    ],
)
def test_law_at_extremes_against_fifty_digits(n, g, rho):
    pmf = decoys.pmf(n, g, rho)
    assert pmf.sum() == pytest.approx(1, abs=1e-10)
    with mp.workdps(60):
        size, share, r = mp.mpf(n), mp.mpf(g), mp.mpf(rho)
        for x in {0, 1, 2, round(n * g), n // 2, n}:
            if rho:
                a, b = share * (1 / r - 1), (1 - share) * (1 / r - 1)
                logs = [mp.loggamma(v) for v in (x + a, n - x + b, a + b)]
                norm_logs = [mp.loggamma(v) for v in (n + a + b, a, b)]
                exact = mp.binomial(size, x) * mp.exp(mp.fsum(logs) - mp.fsum(norm_logs))
            else:
                exact = mp.binomial(size, x) * share**x * (1 - share) ** (n - x)
            if exact > 1e-280:
                assert pmf[x] == pytest.approx(float(exact), rel=1e-10)
            else:
                assert pmf[x] < 1e-279


@pytest.mark.parametrize(("n", "good", "pool"), [(0, 2, 5), (3, 0, 5), (3, 2, 5), (5, 4, 5)])
def test_law_in_pool_lists_every_choice(n, good, pool):
    counts = [sum(item < good for item in drawn) for drawn in combinations(range(pool), n)]
    expected = np.bincount(counts, minlength=n + 1) / len(counts)
    np.testing.assert_allclose(decoys.pmf_in_pool(n, good, pool), expected, rtol=1e-13, atol=1e-16)


# --- probabilities --------------------------------------------------------------------------------


def test_misclassified_is_one_less_the_probability_of_none():
    for n, g in product([0, 1, 7, 50], [Fraction(0), Fraction(1, 8), Fraction(3, 4), Fraction(1)]):
        assert float(decoys.misclassified(n, float(g))) == pytest.approx(float(1 - (1 - g) ** n))


@pytest.mark.parametrize(("n", "g"), [(1, 1e-300), (10**6, 1e-20), (10**9, 1e-12), (3, 1e-17)])
def test_misclassified_keeps_its_digits_where_it_is_tiny(n, g):
    with mp.workdps(350):
        exact = 1 - (1 - mp.mpf(g)) ** n
    assert float(decoys.misclassified(n, g)) == pytest.approx(float(exact), rel=1e-14)
    if n <= 10**4:
        assert decoys.at_least(decoys.pmf(n, g), 1) == pytest.approx(float(exact), rel=1e-13)


def test_at_least_and_share():
    pmf = decoys.pmf(100, 0.07)
    assert decoys.at_least(pmf, 0) == pytest.approx(1)
    assert decoys.at_least(pmf, 101) == 0
    # 0.07 * 100 is 7.000000000000001 in floating point; the share of 7 decoys is meant.
    assert decoys.at_least_share(pmf, 0.07) == decoys.at_least(pmf, 7)
    assert decoys.at_least_share(pmf, 0.071) == decoys.at_least(pmf, 8)
    assert decoys.at_least(pmf, 7) == pytest.approx(stats.binom.sf(6, 100, 0.07), rel=1e-12)


# --- limits ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 10, 100, 1000, 10**9])
@pytest.mark.parametrize("c", [1e-6, 0.5, 0.95, 0.999999999])
def test_largest_goodness_against_fifty_digits(n, c):
    with mp.workdps(50):
        exact = 1 - mp.mpf(c) ** (mp.mpf(1) / n)
    assert float(decoys.largest_goodness(n, c)) == pytest.approx(float(exact), rel=1e-14)


@settings(max_examples=100, deadline=None)
@given(hundredths=st.integers(1, 100), per_mille=st.integers(1, 999))
def test_largest_sample_is_exact(hundredths, per_mille):
    n = decoys.largest_sample(hundredths / 100, per_mille / 1000)
    bad, least = Fraction(100 - hundredths, 100), Fraction(per_mille, 1000)
    assert bad**n >= least > bad ** (n + 1)


@pytest.mark.parametrize("power", range(1, 9))
def test_largest_sample_where_the_quotient_is_whole(power):
    # 0.9^power has that many decimals: the confidence is reached exactly.
    assert decoys.largest_sample(0.1, float(Fraction(9, 10) ** power)) == power
    assert decoys.largest_sample(0.5, 0.5**power) == power
    assert decoys.largest_sample(0.01, float(Fraction(99, 100) ** power)) == power


@pytest.mark.parametrize("c", [0.05, 0.5, 0.9, 0.95, 0.3])
@pytest.mark.parametrize("pool", [1, 2, 10, 20, 33])
def test_largest_in_pool_tries_every_number(pool, c):
    for size in range(pool + 1):
        clean = [
            n_drawn
            for n_drawn in range(pool - size + 1)
            if Fraction(comb(pool - size, n_drawn), comb(pool, n_drawn)) >= Fraction(str(c))
        ]
        assert decoys.largest_in_pool(size, pool, c) == max(clean)


# --- cost -----------------------------------------------------------------------------------------

METRICS = ["auc", "precision@3", "recall@3", "ap", "ap@2", "ndcg", "ndcg@4", "rr", "hit@2"]


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.parametrize("n_test", [1, 2, 3])
def test_perfect_averages_over_every_arrangement(name, n_test):
    chosen_metric, n = metric(name), 5
    values = decoys.perfect(chosen_metric, n, n_test)
    for good in range(n + 1):
        sets = list(combinations(range(1, n_test + good + 1), n_test))
        set_values = [chosen_metric.of_set(list(ranks), n_items=n_test + n) for ranks in sets]
        assert values[good] == pytest.approx(np.mean(set_values), rel=1e-12)
        above = chosen_metric.of_set(list(range(good + 1, good + n_test + 1)), n_items=n_test + n)
        assert decoys.perfect(chosen_metric, n, n_test, "above")[good] == pytest.approx(
            above, rel=1e-12
        )


def test_loss_is_counted_from_the_value_without_good_decoys():
    # One test item fills a fifth of the top five, and less the further down it is.
    values = decoys.perfect(metric("precision@5"), 9, placement="above")
    assert values.tolist() == [0.2] * 5 + [0.0] * 5
    assert decoys.loss(decoys.pmf(9, 1), values) == pytest.approx(0.2)


def test_good_items_above_that_do_not_count_by_every_choice_of_them():
    chosen_metric, goodness = metric("ndcg@2"), 0.3
    ranks = RankIntervals([3, 1, 0], [0, 2, 0], [9, 9, 9])
    values = decoys.uncounted(ranks, chosen_metric, goodness)

    def expected(above):
        total = 0.0
        for chosen in product([True, False], repeat=above):
            chance = prod(goodness if good else 1 - goodness for good in chosen)
            total += chance * float(chosen_metric(np.array([1 + above - sum(chosen)]))[0])
        return total

    assert np.allclose(values, [expected(3), np.mean([expected(x) for x in (1, 2, 3)]), 1.0])
    assert np.allclose(decoys.uncounted(ranks, chosen_metric, 0.0), ranks.evaluate(chosen_metric))
