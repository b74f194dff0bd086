"""Designs at equal cost: against loops over items, draws, and the bundle."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from sampled_book.data import benchmark
from sampled_book.data.benchmark_recommenders import pure_svd
from sampled_book.data.sequences import Sequences
from sampled_book.experiments import designs
from sampled_metrics import Protocol, estimators, metric
from sampled_metrics.estimators import bias_variance
from tests.data import needs_data

SEED = 5


def test_split_ranks_item_by_item() -> None:
    rng = np.random.default_rng(SEED)
    data = Sequences.from_users([rng.choice(30, 6, replace=False) for _ in range(40)])
    users = rng.permutation(40)[:25]
    split = designs.split_ranks(data, 5, users, 8, 2)
    learnt, held_out = data.without_last(1)
    scores = pure_svd(learnt, 5)(np.arange(40))
    right = np.linalg.svd(learnt.matrix.toarray(), full_matrices=False)[2]
    rough = learnt.matrix.toarray() @ right[:2].T @ right[:2]
    counts = np.bincount(learnt.items, minlength=data.n_items)

    for row, user in zip(split.itertuples(), users, strict=True):
        seen = set(learnt.items[learnt.starts[user] : learnt.starts[user + 1]].tolist())
        test = int(held_out[user])
        negatives = [i for i in range(data.n_items) if i not in seen and i != test]
        above = [i for i in negatives if scores[user, i] > scores[user, test]]
        popular = sorted(negatives, key=lambda i: (-counts[i], i))[:8]
        nearest = sorted(negatives, key=lambda i: -rough[user, i])[:8]
        assert row.above == len(above)
        assert row.popular == len(set(above) & set(popular))
        assert row.search == len(set(above) & set(nearest))


def test_what_is_left_over_by_bayes() -> None:
    rng = np.random.default_rng(SEED)
    rows, values = rng.dirichlet(np.ones(4), 6), rng.random(6)
    weights = rng.dirichlet(np.ones(6))
    total = 0.0
    for outcome in range(4):
        posterior = weights * rows[:, outcome] / (weights @ rows[:, outcome])
        mean = posterior @ values
        total += (weights @ rows[:, outcome]) * (posterior @ (values - mean) ** 2)
    assert designs.unexplained_variance(rows, values, weights) == pytest.approx(total)


def test_designs_by_draws() -> None:
    # A thousand evaluations of the same users by each design.
    n, n_whole, n_rest, metric_name, n_draws = 400, 12, 20, "ndcg@10", 1_000
    rng = np.random.default_rng(SEED)
    above = np.minimum((rng.pareto(0.5, 60) * 3).astype(int), n - 1 - n_whole)
    inside = np.minimum(rng.binomial(above, 0.6), n_whole)
    split = pd.DataFrame({"above": above, "popular": inside // 2, "search": inside})
    table = designs.by_design(split, n, metric_name, n_whole, n_rest).set_index("design")
    exact = metric(metric_name)(above + 1, n).mean()
    gamma = estimators.default_gamma(60)
    stratified = designs.stratified_values(metric_name, n, n_whole, n_rest, gamma)
    protocol = Protocol(n, n_whole + n_rest, replacement=False)
    fixed = bias_variance(metric_name, protocol, gamma)
    averages: dict[str, list[float]] = {"fixed": [], "search": []}
    for _ in range(n_draws):
        averages["fixed"].append(float(fixed(protocol.draw(above + 1, rng)).mean()))
        others = above - inside
        drawn = rng.hypergeometric(others, n - 1 - n_whole - others, n_rest)
        averages["search"].append(float(stratified[inside, drawn].mean()))
    for name, values in averages.items():
        sd = table.loc[name, "sd"]
        assert np.mean(values) - exact == pytest.approx(
            table.loc[name, "bias"], abs=4 * sd / np.sqrt(n_draws)
        )
        assert np.std(values) == pytest.approx(sd, rel=0.1)
    trusted = metric(metric_name)(inside + 1, n).mean() - exact
    assert table.loc["search, trusted", "bias"] == pytest.approx(trusted)
    assert table["left"].between(0, 1).all()
    assert table.loc["search", "left"] <= table.loc["search, trusted", "left"] + 1e-12


@needs_data
def test_strata_come_out_as_they_are_kept() -> None:
    data, facts = benchmark.DATA["ml-100k"](), benchmark.facts("ml-100k")
    users = np.random.default_rng(benchmark.SEED).permutation(data.n_users)[: designs.USERS]
    factors = int(facts["recommenders"]["PureSVD"]["settings"]["factors"])
    split = designs.split_ranks(data, factors, users, designs.WHOLE, designs.COARSE)
    bundled = designs.strata("ml-100k")
    assert (split != bundled).any(axis=1).mean() < 0.001  # scores may differ in their last digit
    # The ranks are those of the benchmark, but for ties.
    places = benchmark.ranks("ml-100k")["PureSVD"]
    low, high = places.n_better, places.n_better + places.n_tied
    assert ((bundled["above"] >= low) & (bundled["above"] <= high)).mean() > 0.999


@pytest.mark.parametrize("of", ["recall@3", "ndcg@4", "ap", "auc"])
def test_stratified_values_by_enumeration(of: str) -> None:
    # Seven of the other items in the rest, three in the stratum; every sample of two.
    gamma, samples = 0.1, list(combinations(range(7), 2))
    above = [[sum(item < rest for item in sample) for sample in samples] for rest in range(8)]
    pmf = np.array([np.bincount(counts, minlength=3) / len(samples) for counts in above])
    made = designs.stratified_values(of, 11, 3, 2, gamma)

    def objective(values: np.ndarray, exact: np.ndarray) -> float:
        mean = pmf @ values
        return float(np.mean((mean - exact) ** 2 + gamma * (pmf @ values**2 - mean**2)))

    for inside in range(4):
        exact = metric(of)(1 + inside + np.arange(8), 11)
        least = objective(made[inside], exact)
        for step in np.vstack([np.eye(3), -np.eye(3)]):
            assert objective(made[inside] + 1e-3 * step, exact) > least
