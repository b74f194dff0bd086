"""Designs against enumeration, exact rational arithmetic and what fixed samples would tell."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, permutations, product
from math import comb, log

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from sampled_metrics import Adaptive, Protocol, Stratified, estimators, metric, priors
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


def by_enumeration(n: int, first: int, most: int, rank: int, replacement: bool) -> list[Fraction]:
    """Probabilities of the outcomes, from every equally likely order of draws."""
    design = Adaptive(n, first, most, replacement=replacement)
    others = [item for item in range(1, n + 1) if item != rank]
    orders = list(product(others, repeat=most) if replacement else permutations(others, most))
    found = [outcome(order, rank, design.stages) for order in orders]
    drawn, above = (each.tolist() for each in design.outcomes)
    assert set(found) <= set(zip(drawn, above, strict=True))
    return [Fraction(found.count(each), len(orders)) for each in zip(drawn, above, strict=True)]


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize(("n", "first", "most"), [(5, 1, 4), (6, 2, 5), (6, 1, 3), (5, 3, 3)])
def test_distribution_and_cost_by_enumeration(
    n: int, first: int, most: int, replacement: bool
) -> None:
    design = Adaptive(n, first, most, replacement=replacement)
    for rank in range(1, n + 1):
        expected = by_enumeration(n, first, most, rank, replacement)
        found = design.pmf(rank)
        assert found == pytest.approx([float(p) for p in expected], rel=1e-12, abs=1e-15)
        with np.errstate(divide="ignore"):
            assert design.logpmf(rank) == pytest.approx(np.log(found), rel=1e-12, abs=1e-12)
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
    drawn, found = design.outcomes
    for i in (0, 1, 40, 300, 301, 302, 650, 700):
        now, x = int(drawn[i]), int(found[i])
        before = ([0] + [m for m in design.stages if m < now])[-1]
        if replacement:
            none = Fraction(pool - above, pool) ** before
            new = now - before
            share = Fraction(above, pool)
            last = comb(new, x) * share**x * (1 - share) ** (new - x)
        else:
            none = Fraction(comb(pool - above, before), comb(pool, before))
            left = pool - before
            last = Fraction(
                comb(above, x) * comb(left - above, now - before - x), comb(left, now - before)
            )
        exact = none * last
        expected = log(exact.numerator) - log(exact.denominator)
        assert float(design.logpmf(rank)[i]) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("replacement", [True, False])
def test_draws(replacement: bool) -> None:
    design = Adaptive(60, 4, 20, replacement=replacement)
    for rank in (1, 3, 20, 60):
        drawn, found = design.draw(np.full(100_000, rank), SEED)
        columns = list(zip(*(each.tolist() for each in design.outcomes), strict=True))
        codes, counts = np.unique(drawn * 100 + found, return_counts=True)
        seen = dict(zip(codes.tolist(), counts.tolist(), strict=True))
        observed = np.array([seen.pop(m * 100 + x, 0) for m, x in columns])
        assert not seen
        expected = design.pmf(rank) * 100_000
        assert (observed[expected == 0] == 0).all()
        # Outcomes that are expected less than five times are put together.
        rare = expected < 5
        groups = np.append(expected[~rare], expected[rare].sum() + 1e-300)
        seen_groups = np.append(observed[~rare], observed[rare].sum())
        statistic = ((seen_groups - groups) ** 2 / groups)[groups > 1].sum()
        freedom = max(int((groups > 1).sum()) - 1, 1)
        assert stats.chi2.sf(statistic, freedom) > 1e-4


def test_one_round_is_a_fixed_sample() -> None:
    design, protocol = Adaptive(200, 30, 30), Protocol(200, 30)
    ranks = np.arange(1, 201)
    assert design.pmf(ranks) == pytest.approx(protocol.pmf(ranks), rel=1e-12)
    assert (design.cost(ranks) == 31).all()
    found = bias_variance("ndcg@5", design, 0.02)
    assert found.values == pytest.approx(estimators.bias_variance("ndcg@5", protocol, 0.02).values)


@pytest.mark.parametrize("replacement", [True, False])
def test_outcomes_tell_as_much_as_the_largest_sample(replacement: bool) -> None:
    # The columns for `most` fixed negatives are combinations of the outcomes' columns.
    design = Adaptive(40, 2, 7, replacement=replacement)
    ranks = np.arange(1, 41)
    ours = design.pmf(ranks)
    fixed = Protocol(40, 7, replacement=replacement).pmf(ranks)
    solution = np.linalg.lstsq(ours, fixed, rcond=None)[0]
    assert ours @ solution == pytest.approx(fixed, abs=1e-11)
    assert np.linalg.matrix_rank(ours) == design.most + 1


@pytest.mark.parametrize("replacement", [True, False])
def test_least_bias_is_that_of_the_largest_sample(replacement: bool) -> None:
    design = Adaptive(60, 2, 8, replacement=replacement)
    protocol, ranks = Protocol(60, 8, replacement=replacement), np.arange(1, 61)
    fixed = estimators.least_bias("recall@5", protocol)
    found = bias_variance("recall@5", design, 0.0)
    assert found.expected(ranks) == pytest.approx(fixed.expected(ranks), abs=1e-8)


def test_posterior_mean() -> None:
    # With gamma 1 the value of an outcome is the mean of the metric over the ranks it comes from.
    n, of = 30, metric("ndcg@4")
    design = Adaptive(n, 2, 6, replacement=False)
    columns = np.array([[float(p) for p in _rational(design, rank)] for rank in range(1, n + 1)])
    exact = of(np.arange(1, n + 1))
    expected = exact @ columns / columns.sum(axis=0)
    found = bias_variance(of, design, 1.0)
    assert found.values == pytest.approx(expected, rel=1e-9)
    assert found(design.places(*design.outcomes)) == pytest.approx(expected, rel=1e-9)
    prior = {2: 0.5, 9: 0.5}
    at = np.array([1, 8])
    possible = columns[at].sum(axis=0) > 0
    told = bias_variance(of, design, 1.0, prior).values[possible]
    wanted = (exact[at] @ columns[at] / columns[at].sum(axis=0).clip(1e-300))[possible]
    assert told == pytest.approx(wanted, rel=1e-9, abs=1e-12)


def _rational(design: Adaptive, rank: int) -> list[Fraction]:
    """The rounds in turn, by the law of each."""
    out, left = {}, Fraction(1)
    above, pool, before = rank - 1, design.n_items - 1, 0
    for now in design.stages:
        size = now - before
        law = exact_pmf(pool - before + 1, size, above + 1, False) if left else [left] * (size + 1)
        for x, p in enumerate(law):
            out[now, x] = left * p
        left *= law[0]
        before = now
    drawn, found = (each.tolist() for each in design.outcomes)
    return [out[pair] for pair in zip(drawn, found, strict=True)]


def test_correction_minimises_what_it_says() -> None:
    design, gamma, n = Adaptive(80, 3, 12), 0.05, 80
    ranks = np.arange(1, n + 1)
    found = bias_variance("ap", design, gamma)

    def criterion(values: np.ndarray) -> float:
        rows = design.pmf(ranks)
        mean = rows @ values
        variance = rows @ values**2 - mean**2
        return float(((mean - 1 / ranks) ** 2 + gamma * variance).mean())

    least = criterion(found.values)
    rng = np.random.default_rng(SEED)
    for _ in range(20):
        assert criterion(found.values + 0.01 * rng.normal(size=found.values.size)) > least
    assert found.mse(ranks).mean() == pytest.approx(
        (found.bias(ranks) ** 2 + found.variance(ranks)).mean()
    )
    rows = design.pmf(ranks)
    assert found.variance(ranks) == pytest.approx(
        rows @ found.values**2 - (rows @ found.values) ** 2, abs=1e-12
    )


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize("of", ["recall@3", "ndcg@4", "ap", "auc"])
def test_stratified_by_enumeration(of: str, replacement: bool) -> None:
    # Seven of the other items in the rest, three in the stratum; every sample of two.
    design, gamma = Stratified(11, 3, 2, replacement=replacement), 0.1
    found = bias_variance(of, design, gamma)
    samples = list(product(range(7), repeat=2) if replacement else combinations(range(7), 2))
    for whole in range(4):
        seen = np.array([
            [sum(item < rest for item in sample) for sample in samples] for rest in range(8)
        ])  # fmt: skip
        rows = np.array([np.bincount(each, minlength=3) / len(samples) for each in seen])
        exact = metric(of)(1 + whole + np.arange(8), 11)
        matrix = (1 - gamma) * rows.T @ rows + gamma * np.diag(rows.sum(axis=0))
        values = np.linalg.solve(matrix, rows.T @ exact)
        mean = rows @ values
        rest = np.arange(8)
        true = whole + rest + 1, np.full(8, whole + 1)
        assert found.expected(*true) == pytest.approx(mean, abs=1e-10)
        assert found.bias(*true) == pytest.approx(mean - exact, abs=1e-10)
        assert found.variance(*true) == pytest.approx(rows @ values**2 - mean**2, abs=1e-10)
        assert found(whole + np.array([1, 2, 3]), whole + 1) == pytest.approx(values, abs=1e-9)


def test_a_cut_off_beyond_the_sample() -> None:
    # Its jump lies where ranks are summed by quadrature: against sums over all ranks.
    design = Stratified(3_000, 40, 5)
    found = bias_variance("recall@60", design, 0.05)
    rows = Protocol(2_960, 5).pmf(np.arange(1, 2_961))
    matrix = 0.95 * rows.T @ rows + 0.05 * np.diag(rows.sum(axis=0))
    for whole in (0, 17, 40):
        exact = (np.arange(1, 2_961) + whole <= 60).astype(float)
        values = np.linalg.solve(matrix, rows.T @ exact)
        assert found.values[whole] == pytest.approx(values, rel=1e-8, abs=1e-12)
    adaptive = bias_variance("recall@300", Adaptive(3_000, 4, 20), 0.05)
    rows = Adaptive(3_000, 4, 20).pmf(np.arange(1, 3_001))
    matrix = 0.95 * rows.T @ rows + 0.05 * np.diag(rows.sum(axis=0))
    values = np.linalg.solve(matrix, rows[:300].sum(axis=0))
    assert adaptive.values == pytest.approx(values, rel=1e-7, abs=1e-10)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Adaptive(100, 0, 10), "first must be"),
        (lambda: Adaptive(100, 20, 10), "most must be"),
        (lambda: Adaptive(100, 20, 100, replacement=False), "most must be <= 99"),
        (lambda: Adaptive(np.array([5, 6]), 2, 3), "one catalogue size"),
        (lambda: Adaptive(100, 5, 20).pmf(101), "rank must be"),
        (lambda: Stratified(100, 99, 5), "n_ranked must be"),
        (lambda: Stratified(100, 90, 10, replacement=False), "n_negatives must be <= 9"),
        (lambda: Stratified(np.array([5, 6]), 2, 3), "one catalogue size"),
        (lambda: bias_variance("ap", Adaptive(100, 5, 20), -1.0), "gamma must be"),
        (lambda: bias_variance("ap", Adaptive(100, 5, 20), 0.1, [0.5, 0.5]), "prior must have"),
        (lambda: bias_variance("ap", Adaptive(100, 5, 20), 0.1)(21), "outcomes must be <= 20"),
        (lambda: Adaptive(100, 5, 20).places(10, 0), r"got \(10, 0\)"),
        (lambda: priors.maximum_entropy([1] * 21, Adaptive(100, 5, 20), 0.0), "weight must be"),
        (lambda: priors.maximum_entropy([0] * 21, Adaptive(100, 5, 20)), "at least one user"),
        (lambda: priors.maximum_entropy([1] * 20, Adaptive(100, 5, 20)), r"shape \(21,\)"),
        (lambda: priors.maximum_entropy([1] * 21, Stratified(100, 5, 20)), "got Stratified"),
        (lambda: bias_variance("ap", Stratified(100, 5, 20), 0.1)(7, 7), r"in \[1, 6\], got 7"),
        (lambda: bias_variance("ap", Stratified(100, 5, 20), 0.1)(5, 6), "ranks must be >= 6"),
        (lambda: bias_variance("ap", Stratified(100, 5, 20), 0.1).bias(1, 2), "rank must be >= 2"),
        (lambda: bias_variance("ap", Stratified(100, 5, 20), 0.1).bias(97, 2), "must be <= 96"),
        (lambda: estimators.naive("ap", Adaptive(100, 5, 20)), "fixed number of negatives"),
        (lambda: estimators.rank_estimate("ap", Adaptive(100, 5, 20)), "fixed number"),
        (lambda: estimators.monotone("ap", Stratified(100, 5, 20)), "fixed number"),
    ],
)
def test_bad_input(make, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        make()


def test_no_one_takes_an_adaptive_log_for_a_fixed_one() -> None:
    # Corrected as a fixed sample it would come out far too low: see the book's chapter on designs.
    design = Adaptive(1_000, 50, 400, replacement=False)
    ranks = np.append(np.arange(1, 31).repeat(10), np.arange(31, 1_001))
    drawn, found = design.draw(ranks, SEED)
    rows = pd.DataFrame({"user": np.arange(ranks.size), "rank": found + 1, "n_negatives": drawn})
    with pytest.raises(ValueError, match="n_negatives must not depend on n_better"):
        estimate(read_log(rows, n_items=1_000, replacement=False), metrics=["recall@10"])


def test_maximum_entropy_of_a_fixed_sample() -> None:
    design, protocol = Adaptive(300, 12, 12), Protocol(300, 12)
    above = protocol.draw(np.arange(1, 301).repeat(2) // 2 + 1, SEED) - 1
    counts = np.bincount(above, minlength=13)
    found = priors.maximum_entropy(counts, design)
    assert (np.bincount(design.places(12, above), minlength=13) == counts).all()
    expected = priors.maximum_entropy(counts, protocol)
    assert found.mass == pytest.approx(expected.mass, rel=1e-9, abs=0)
    assert found.log_likelihood == pytest.approx(expected.log_likelihood, rel=1e-12)
    assert found.marginal == pytest.approx(expected.marginal, rel=1e-9)


@pytest.mark.parametrize("replacement", [True, False])
def test_maximum_entropy_has_the_best_criterion(replacement: bool) -> None:
    design = Adaptive(200, 4, 30, replacement=replacement)
    ranks = np.append(np.arange(1, 21).repeat(5), np.arange(21, 201))
    drawn, above = design.draw(ranks, SEED)
    outcomes = design.places(drawn, above)
    fitted = priors.maximum_entropy(np.bincount(outcomes, minlength=design.n_outcomes), design)
    assert fitted.certified
    rows = design.pmf(np.arange(1, 201))[:, outcomes]
    weight = np.sqrt(ranks.size)

    def criterion(mass: np.ndarray) -> float:
        return float(np.log(mass @ rows).sum() - weight * (mass @ np.log(mass)))

    assert fitted.log_likelihood == pytest.approx(np.log(fitted.mass @ rows).sum())
    rng, best = np.random.default_rng(SEED), criterion(fitted.mass)
    for _ in range(50):
        moved = fitted.mass * np.exp(0.05 * rng.normal(size=200))
        assert criterion(moved / moved.sum()) < best + ranks.size * 1e-6
    # The likelihood is that of fixed samples, but for a constant.
    fixed = sum(
        np.log(fitted.mass @ Protocol(200, int(m), replacement=replacement).pmf(
            np.arange(1, 201), counts=[int(x)])).sum()
        for m, x in zip(drawn, above, strict=True)
    )  # fmt: skip
    even = np.full(200, 1 / 200)
    fixed_even = sum(
        np.log(even @ Protocol(200, int(m), replacement=replacement).pmf(
            np.arange(1, 201), counts=[int(x)])).sum()
        for m, x in zip(drawn, above, strict=True)
    )  # fmt: skip
    gained = fitted.log_likelihood - np.log(even @ rows).sum()
    assert fixed - fixed_even == pytest.approx(gained, rel=1e-9)
