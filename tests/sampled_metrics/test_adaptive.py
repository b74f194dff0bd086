"""Designs against enumeration, exact rational arithmetic and what fixed samples would tell."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations, product
from math import comb, log

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from sampled_metrics import Adaptive, Protocol, estimators, metric, priors
from sampled_metrics.estimators import bias_variance
from sampled_metrics.evaluation import estimate
from sampled_metrics.log.read import read_log
from tests.reference import exact_pmf

SEED = 11


def outcome(sequence: tuple[int, ...], rank: int, stages: tuple[int, ...]) -> tuple[int, int]:
    """Negatives drawn and negatives above, by the rule as one would carry it out."""
    for drawn in stages:
        above = sum(item < rank for item in sequence[:drawn])
        if above:
            break
    return drawn, above


def by_enumeration(n: int, first: int, m_max: int, rank: int, replacement: bool) -> list[Fraction]:
    """Probabilities of the outcomes, from every equally likely order of draws."""
    design = Adaptive(n, first, m_max, replacement=replacement)
    other_items = [item for item in range(1, n + 1) if item != rank]
    orders = list(
        product(other_items, repeat=m_max) if replacement else permutations(other_items, m_max)
    )
    outcomes = [outcome(order, rank, design.stages) for order in orders]
    drawn, above = (counts.tolist() for counts in design.outcomes)
    assert set(outcomes) <= set(zip(drawn, above, strict=True))
    return [
        Fraction(outcomes.count(counts), len(orders)) for counts in zip(drawn, above, strict=True)
    ]


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize(("n", "first", "most"), [(5, 1, 4), (6, 2, 5), (6, 1, 3), (5, 3, 3)])
def test_distribution_and_cost_by_enumeration(
    n: int, first: int, most: int, replacement: bool
) -> None:
    design = Adaptive(n, first, most, replacement=replacement)
    for rank in range(1, n + 1):
        expected = by_enumeration(n, first, most, rank, replacement)
        pmf = design.pmf(rank)
        assert pmf == pytest.approx([float(p) for p in expected], rel=1e-12, abs=1e-15)
        with np.errstate(divide="ignore"):
            assert design.logpmf(rank) == pytest.approx(np.log(pmf), rel=1e-12, abs=1e-12)
        scores = sum(
            p * (m + 1) for p, m in zip(expected, design.outcomes[0].tolist(), strict=True)
        )
        assert float(design.cost(rank)) == pytest.approx(float(scores), rel=1e-12)


@pytest.mark.parametrize("replacement", [True, False])
def test_distribution_in_whole_numbers(replacement: bool) -> None:
    # The rounds one after another, in exact arithmetic, with numbers that underflow.
    n, rank = 3_001, 1_801
    design = Adaptive(n, 50, 700, replacement=replacement)
    above, pool = rank - 1, n - 1
    drawn_by_outcome, above_by_outcome = design.outcomes
    for i in (0, 1, 40, 300, 301, 302, 650, 700):
        n_drawn, x = int(drawn_by_outcome[i]), int(above_by_outcome[i])
        n_before = ([0] + [m for m in design.stages if m < n_drawn])[-1]
        if replacement:
            p_none_before = Fraction(pool - above, pool) ** n_before
            n_new = n_drawn - n_before
            share = Fraction(above, pool)
            p_last = comb(n_new, x) * share**x * (1 - share) ** (n_new - x)
        else:
            p_none_before = Fraction(comb(pool - above, n_before), comb(pool, n_before))
            remaining = pool - n_before
            p_last = Fraction(
                comb(above, x) * comb(remaining - above, n_drawn - n_before - x),
                comb(remaining, n_drawn - n_before),
            )
        exact = p_none_before * p_last
        expected = log(exact.numerator) - log(exact.denominator)
        assert float(design.logpmf(rank)[i]) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("replacement", [True, False])
def test_draws(replacement: bool) -> None:
    design = Adaptive(60, 4, 20, replacement=replacement)
    for rank in (1, 3, 20, 60):
        drawn, above = design.draw(np.full(100_000, rank), SEED)
        outcome_pairs = list(zip(*(values.tolist() for values in design.outcomes), strict=True))
        codes, counts = np.unique(drawn * 100 + above, return_counts=True)
        count_by_code = dict(zip(codes.tolist(), counts.tolist(), strict=True))
        observed = np.array([count_by_code.pop(m * 100 + x, 0) for m, x in outcome_pairs])
        assert not count_by_code
        expected = design.pmf(rank) * 100_000
        assert (observed[expected == 0] == 0).all()
        # Outcomes that are expected less than five times are put together.
        rare = expected < 5
        groups = np.append(expected[~rare], expected[rare].sum() + 1e-300)
        observed_groups = np.append(observed[~rare], observed[rare].sum())
        statistic = ((observed_groups - groups) ** 2 / groups)[groups > 1].sum()
        freedom = max(int((groups > 1).sum()) - 1, 1)
        assert stats.chi2.sf(statistic, freedom) > 1e-4


def test_one_round_is_a_fixed_sample() -> None:
    design, protocol = Adaptive(200, 30, 30), Protocol(200, 30)
    ranks = np.arange(1, 201)
    assert design.pmf(ranks) == pytest.approx(protocol.pmf(ranks), rel=1e-12)
    assert (design.cost(ranks) == 31).all()
    estimator = bias_variance("ndcg@5", design, 0.02)
    assert estimator.values == pytest.approx(
        estimators.bias_variance("ndcg@5", protocol, 0.02).values
    )


@pytest.mark.parametrize("replacement", [True, False])
def test_outcomes_tell_as_much_as_the_largest_sample(replacement: bool) -> None:
    # The columns for `most` fixed negatives are combinations of the outcomes' columns.
    design = Adaptive(40, 2, 7, replacement=replacement)
    ranks = np.arange(1, 41)
    adaptive_pmf = design.pmf(ranks)
    fixed_pmf = Protocol(40, 7, replacement=replacement).pmf(ranks)
    solution = np.linalg.lstsq(adaptive_pmf, fixed_pmf, rcond=None)[0]
    assert adaptive_pmf @ solution == pytest.approx(fixed_pmf, abs=1e-11)
    assert np.linalg.matrix_rank(adaptive_pmf) == design.most + 1


def test_one_place_for_each_user_has_the_distribution_of_ranks_and_coins_that_of_one_rank() -> None:
    # Items 0 and 1 tie with the relevant one, items 2 and 3 are below it: ranks 1, 2 and 3.
    design = Adaptive(n_items=5, first=1, most=2)
    places: dict[tuple[int, int], Fraction] = {}
    coins: dict[tuple[int, int], Fraction] = {}

    def count(counts: dict[tuple[int, int], Fraction], above: tuple[bool, bool], n: int) -> None:
        outcome = (1, 1) if above[0] else (2, int(above[1]))
        counts[outcome] = counts.get(outcome, Fraction(0)) + Fraction(1, n)

    for draws in product(range(4), repeat=2):
        for order in permutations([-1, 0, 1]):
            before = order[: order.index(-1)]
            count(places, (draws[0] in before, draws[1] in before), 16 * 6)
        for toss in product([True, False], repeat=2):
            count(coins, (draws[0] < 2 and toss[0], draws[1] < 2 and toss[1]), 16 * 4)
    outcomes = list(zip(*(column.tolist() for column in design.outcomes), strict=True))
    pmf = design.pmf([1, 2, 3])
    assert [float(places[one]) for one in outcomes] == pytest.approx(pmf.mean(axis=0))
    assert [float(coins[one]) for one in outcomes] == pytest.approx(pmf[1])


@pytest.mark.parametrize("replacement", [True, False])
def test_least_bias_is_that_of_the_largest_sample(replacement: bool) -> None:
    design = Adaptive(60, 2, 8, replacement=replacement)
    protocol, ranks = Protocol(60, 8, replacement=replacement), np.arange(1, 61)
    fixed_estimator = estimators.least_bias("recall@5", protocol)
    estimator = bias_variance("recall@5", design, 0.0)
    assert estimator.expected(ranks) == pytest.approx(fixed_estimator.expected(ranks), abs=1e-8)


def test_posterior_mean() -> None:
    # With gamma 1 the value of an outcome is the mean of the metric over the ranks it comes from.
    n, ndcg = 30, metric("ndcg@4")
    design = Adaptive(n, 2, 6, replacement=False)
    columns = np.array([[float(p) for p in _rational(design, rank)] for rank in range(1, n + 1)])
    exact = ndcg(np.arange(1, n + 1))
    expected = exact @ columns / columns.sum(axis=0)
    estimator = bias_variance(ndcg, design, 1.0)
    assert estimator.values == pytest.approx(expected, rel=1e-9)
    assert estimator(design.places(*design.outcomes)) == pytest.approx(expected, rel=1e-9)
    prior = {2: 0.5, 9: 0.5}
    prior_rows = np.array([1, 8])
    is_possible = columns[prior_rows].sum(axis=0) > 0
    values = bias_variance(ndcg, design, 1.0, prior).values[is_possible]
    posterior_means = (
        exact[prior_rows] @ columns[prior_rows] / columns[prior_rows].sum(axis=0).clip(1e-300)
    )[is_possible]
    assert values == pytest.approx(posterior_means, rel=1e-9, abs=1e-12)


def _rational(design: Adaptive, rank: int) -> list[Fraction]:
    """The rounds in turn, by the law of each."""
    probabilities, p_undecided = {}, Fraction(1)
    above, pool, n_before = rank - 1, design.n_items - 1, 0
    for n_drawn in design.stages:
        size = n_drawn - n_before
        pmf = (
            exact_pmf(pool - n_before + 1, size, above + 1, False)
            if p_undecided
            else [p_undecided] * (size + 1)
        )
        for x, p in enumerate(pmf):
            probabilities[n_drawn, x] = p_undecided * p
        p_undecided *= pmf[0]
        n_before = n_drawn
    drawn, above_counts = (counts.tolist() for counts in design.outcomes)
    return [probabilities[pair] for pair in zip(drawn, above_counts, strict=True)]


def test_correction_minimises_what_it_says() -> None:
    design, gamma, n = Adaptive(80, 3, 12), 0.05, 80
    ranks = np.arange(1, n + 1)
    estimator = bias_variance("ap", design, gamma)

    def criterion(values: np.ndarray) -> float:
        pmf = design.pmf(ranks)
        mean = pmf @ values
        variance = pmf @ values**2 - mean**2
        return float(((mean - 1 / ranks) ** 2 + gamma * variance).mean())

    least_criterion = criterion(estimator.values)
    rng = np.random.default_rng(SEED)
    for _ in range(20):
        assert (
            criterion(estimator.values + 0.01 * rng.normal(size=estimator.values.size))
            > least_criterion
        )
    pmf = design.pmf(ranks)
    assert estimator.variance(ranks) == pytest.approx(
        pmf @ estimator.values**2 - (pmf @ estimator.values) ** 2, abs=1e-12
    )


def test_a_cut_off_beyond_the_sample() -> None:
    # Its jump lies where ranks are summed by quadrature: against sums over all ranks.
    adaptive_estimator = bias_variance("recall@300", Adaptive(3_000, 4, 20), 0.05)
    pmf = Adaptive(3_000, 4, 20).pmf(np.arange(1, 3_001))
    matrix = 0.95 * pmf.T @ pmf + 0.05 * np.diag(pmf.sum(axis=0))
    values = np.linalg.solve(matrix, pmf[:300].sum(axis=0))
    assert adaptive_estimator.values == pytest.approx(values, rel=1e-7, abs=1e-10)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Adaptive(100, 0, 10), "first must be"),
        (lambda: Adaptive(100, 20, 10), "most must be"),
        (lambda: Adaptive(100, 20, 100, replacement=False), "most must be <= 99"),
        (lambda: Adaptive(np.array([5, 6]), 2, 3), "one catalogue size"),
        (lambda: Adaptive(100, 5, 20).pmf(101), "rank must be"),
        (lambda: bias_variance("ap", Adaptive(100, 5, 20), -1.0), "gamma must be"),
        (lambda: bias_variance("ap", Adaptive(100, 5, 20), 0.1, [0.5, 0.5]), "prior must have"),
        (lambda: bias_variance("ap", Adaptive(100, 5, 20), 0.1)(21), "outcomes must be <= 20"),
        (lambda: Adaptive(100, 5, 20).places(10, 0), r"got 10 and 0"),
        (lambda: priors.maximum_entropy([1] * 21, Adaptive(100, 5, 20), 0.0), "weight must be"),
        (lambda: priors.maximum_entropy([0] * 21, Adaptive(100, 5, 20)), "at least one user"),
        (lambda: priors.maximum_entropy([1] * 20, Adaptive(100, 5, 20)), r"shape \(21,\)"),
        (lambda: estimators.naive("ap", Adaptive(100, 5, 20)), "fixed number of negatives"),
        (lambda: estimators.rank_estimate("ap", Adaptive(100, 5, 20)), "fixed number"),
    ],
)
def test_bad_input(make, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        make()


def test_no_one_takes_an_adaptive_log_for_a_fixed_one() -> None:
    # Corrected as a fixed sample it would come out far too low: see the book's chapter on designs.
    design = Adaptive(1_000, 50, 400, replacement=False)
    ranks = np.append(np.arange(1, 31).repeat(10), np.arange(31, 1_001))
    drawn, above = design.draw(ranks, SEED)
    rows = pd.DataFrame({"user": np.arange(ranks.size), "rank": above + 1, "n_negatives": drawn})
    with pytest.raises(ValueError, match="n_negatives must not depend on n_better"):
        estimate(read_log(rows, n_items=1_000, replacement=False), metrics=["recall@10"])


def test_maximum_entropy_of_a_fixed_sample() -> None:
    design, protocol = Adaptive(300, 12, 12), Protocol(300, 12)
    above = protocol.draw(np.arange(1, 301).repeat(2) // 2 + 1, SEED) - 1
    counts = np.bincount(above, minlength=13)
    fit = priors.maximum_entropy(counts, design)
    assert (np.bincount(design.places(12, above), minlength=13) == counts).all()
    expected = priors.maximum_entropy(counts, protocol)
    assert fit.mass == pytest.approx(expected.mass, rel=1e-9, abs=0)
    assert fit.log_likelihood == pytest.approx(expected.log_likelihood, rel=1e-12)
    assert fit.marginal == pytest.approx(expected.marginal, rel=1e-9)


@pytest.mark.parametrize("replacement", [True, False])
def test_maximum_entropy_has_the_best_criterion(replacement: bool) -> None:
    design = Adaptive(200, 4, 30, replacement=replacement)
    ranks = np.append(np.arange(1, 21).repeat(5), np.arange(21, 201))
    drawn, above = design.draw(ranks, SEED)
    outcomes = design.places(drawn, above)
    fit = priors.maximum_entropy(np.bincount(outcomes, minlength=design.n_outcomes), design)
    assert fit.certified
    pmf = design.pmf(np.arange(1, 201))[:, outcomes]
    weight = np.sqrt(ranks.size)

    def criterion(mass: np.ndarray) -> float:
        return float(np.log(mass @ pmf).sum() - weight * (mass @ np.log(mass)))

    assert fit.log_likelihood == pytest.approx(np.log(fit.mass @ pmf).sum())
    rng, best = np.random.default_rng(SEED), criterion(fit.mass)
    for _ in range(50):
        moved = fit.mass * np.exp(0.05 * rng.normal(size=200))
        assert criterion(moved / moved.sum()) < best + ranks.size * 1e-6
    # The likelihood is that of fixed samples, but for a constant.
    fixed = sum(
        np.log(fit.mass @ Protocol(200, int(m), replacement=replacement).pmf(
            np.arange(1, 201), counts=[int(x)])).sum()
        for m, x in zip(drawn, above, strict=True)
    )  # fmt: skip
    uniform = np.full(200, 1 / 200)
    fixed_uniform = sum(
        np.log(uniform @ Protocol(200, int(m), replacement=replacement).pmf(
            np.arange(1, 201), counts=[int(x)])).sum()
        for m, x in zip(drawn, above, strict=True)
    )  # fmt: skip
    gained = fit.log_likelihood - np.log(uniform @ pmf).sum()
    assert fixed - fixed_uniform == pytest.approx(gained, rel=1e-9)
