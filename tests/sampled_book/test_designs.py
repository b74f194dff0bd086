"""Designs at equal cost: against sums over all ranks, loops over items, draws, and the bundle."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pandas as pd
import pytest

from sampled_book.data import benchmark
from sampled_book.data.benchmark_recommenders import pure_svd
from sampled_book.data.sequences import Sequences
from sampled_book.experiments import designs
from sampled_book.experiments.designs import Stratified
from sampled_metrics import Adaptive, Protocol, estimators, metric, priors
from sampled_metrics.estimators import bias_variance
from sampled_metrics.ranking.intervals import RankIntervals
from tests.data import needs_data

SEED = 5


def test_population_spreads_ties() -> None:
    places = RankIntervals([0, 2, 2, 4], [0, 0, 1, 0], [5, 4, 5, 5])
    assert designs.population(places) == pytest.approx([1 / 4, 0, 3 / 8, 1 / 8, 1 / 4])


def some_places(n: int, users: int) -> RankIntervals:
    rng = np.random.default_rng(SEED)
    above = np.minimum((rng.pareto(0.3, users) * 3).astype(np.int64), n - 1)
    return RankIntervals(above, np.zeros(users, dtype=np.int64), np.full(users, n))


def test_errors_are_sums_over_all_ranks() -> None:
    # Ranks are grouped far from the top: against every rank by itself.
    n, users = 5_000, 400
    places = some_places(n, users)
    [row] = designs.compared({"one": places}, 10, 80, ["ndcg@10"], [0.01]).to_dict("records")
    ranks = places.n_better + 1
    assert row["exact"] == pytest.approx(metric("ndcg@10")(ranks, n).mean())
    design = Adaptive(n, 10, 80, replacement=False)
    assert row["scores"] == pytest.approx(design.cost(ranks).mean(), rel=1e-6)
    assert row["m"] == int(np.ceil(design.cost(ranks).mean() - 1))
    protocol = Protocol(n, row["m"], replacement=False)
    squares: dict[str, list[float]] = {"adaptive": [], "fixed": []}
    for gamma in (0.05, 0.01):
        adaptive = bias_variance("ndcg@10", design, gamma)
        fixed = bias_variance("ndcg@10", protocol, gamma)
        for name, estimator in (("adaptive", adaptive), ("fixed", fixed)):
            bias, variance = estimator.bias(ranks).mean(), estimator.variance(ranks).mean() / users
            squares[name].append(bias**2 + variance)
            if gamma == 0.05:
                assert row[f"{name}_bias"] == pytest.approx(bias, rel=1e-3, abs=1e-6)
                assert row[f"{name}_sd"] == pytest.approx(np.sqrt(variance), rel=1e-3)
    ratio = squares["adaptive"][0] / squares["fixed"][0]
    assert row["ratio"] == pytest.approx(ratio, rel=1e-2)
    assert row["ratio_best"] == pytest.approx(
        min(squares["adaptive"]) / min(squares["fixed"]), rel=1e-2
    )


def test_the_bundle_has_every_recommender_and_comes_out_again() -> None:
    bundled = designs.bundled()
    for name in benchmark.DATA:
        for first, max_negatives in designs.DESIGNS:
            rows = bundled[
                (bundled["data"] == name)
                & (bundled["first"] == first)
                & (bundled["most"] == max_negatives)
            ]
            assert set(rows["recommender"]) == set(benchmark.ranks(name))
            assert set(rows["metric"]) == set(designs.METRICS)
    two = {name: benchmark.ranks("lastfm")[name] for name in ("Popular", "EASE")}
    recomputed = designs.compared(two, 20, 320, gammas=[0.01])
    old = bundled[(bundled["data"] == "lastfm") & (bundled["first"] == 20)]
    old = old[old["recommender"].isin(two)].sort_values(["recommender", "metric"])
    recomputed = recomputed.sort_values(["recommender", "metric"])
    for column in ("exact", "scores", "adaptive_bias", "adaptive_sd", "fixed_sd", "ratio"):
        assert recomputed[column].to_numpy() == pytest.approx(
            old[column].to_numpy(), rel=1e-3, abs=1e-7
        )


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


def test_the_design_that_costs_as_much() -> None:
    above = np.array([0, 3, 20, 400, 900])
    design = designs.adaptive_of_cost(above, 2_000, 200.0)
    larger = Adaptive(2_000, design.first + 1, 16 * (design.first + 1), replacement=False)
    assert design.cost(above + 1).mean() <= 200.0 < larger.cost(above + 1).mean()


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
    design = designs.adaptive_of_cost(above, n, 33)
    adaptive = bias_variance(metric_name, design, gamma)
    strata = Stratified(n, n_whole, n_rest, replacement=False)
    stratified = bias_variance(metric_name, strata, gamma)
    protocol = Protocol(n, n_whole + n_rest, replacement=False)
    fixed = bias_variance(metric_name, protocol, gamma)
    averages: dict[str, list[float]] = {"fixed": [], "adaptive": [], "search": []}
    for _ in range(n_draws):
        averages["fixed"].append(float(fixed(protocol.draw(above + 1, rng)).mean()))
        averages["adaptive"].append(
            float(adaptive(design.places(*design.draw(above + 1, rng))).mean())
        )
        drawn = strata.rest.draw(above - inside + 1, rng)
        averages["search"].append(float(stratified(inside + drawn, inside + 1).mean()))
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


def test_fits_to_logs_come_out_as_they_are_kept() -> None:
    bundled = designs.bundled_fits()
    for name, logs in designs.FITTED.items():
        rows = bundled[bundled["data"] == name]
        assert set(rows["recommender"]) == set(benchmark.ranks(name))
        assert set(rows["seed"]) == set(range(logs))
    ranks = {"Popular": benchmark.ranks("lastfm")["Popular"]}
    row = designs.fitted(ranks, *designs.DESIGNS[0], [1], ["ndcg@10"]).iloc[0]
    old = bundled.query("data == 'lastfm' and recommender == 'Popular' and seed == 1")
    old = old[old["metric"] == "ndcg@10"].iloc[0]
    for column in ("exact", "adaptive", "fixed"):
        assert row[column] == pytest.approx(old[column], abs=2e-6)


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize("of", ["recall@3", "ndcg@4", "ap", "auc"])
def test_stratified_by_enumeration(of: str, replacement: bool) -> None:
    # Seven of the other items in the rest, three in the stratum; every sample of two.
    design, gamma = Stratified(11, 3, 2, replacement=replacement), 0.1
    estimator = bias_variance(of, design, gamma)
    samples = list(product(range(7), repeat=2) if replacement else combinations(range(7), 2))
    for stratum_above in range(4):
        above_counts = np.array([
            [sum(item < rest for item in sample) for sample in samples] for rest in range(8)
        ])  # fmt: skip
        pmf = np.array([np.bincount(counts, minlength=3) / len(samples) for counts in above_counts])
        exact = metric(of)(1 + stratum_above + np.arange(8), 11)
        matrix = (1 - gamma) * pmf.T @ pmf + gamma * np.diag(pmf.sum(axis=0))
        values = np.linalg.solve(matrix, pmf.T @ exact)
        mean = pmf @ values
        rest = np.arange(8)
        true_ranks = stratum_above + rest + 1, np.full(8, stratum_above + 1)
        assert estimator.expected(*true_ranks) == pytest.approx(mean, abs=1e-10)
        assert estimator.bias(*true_ranks) == pytest.approx(mean - exact, abs=1e-10)
        assert estimator.variance(*true_ranks) == pytest.approx(
            pmf @ values**2 - mean**2, abs=1e-10
        )
        assert estimator(stratum_above + np.array([1, 2, 3]), stratum_above + 1) == pytest.approx(
            values, abs=1e-9
        )


def test_a_cut_off_beyond_the_sample_of_a_stratified_design() -> None:
    # Its jump lies where ranks are summed by quadrature: against sums over all ranks.
    design = Stratified(3_000, 40, 5)
    estimator = bias_variance("recall@60", design, 0.05)
    pmf = Protocol(2_960, 5).pmf(np.arange(1, 2_961))
    matrix = 0.95 * pmf.T @ pmf + 0.05 * np.diag(pmf.sum(axis=0))
    for stratum_above in (0, 17, 40):
        exact = (np.arange(1, 2_961) + stratum_above <= 60).astype(float)
        values = np.linalg.solve(matrix, pmf.T @ exact)
        assert estimator.values[stratum_above] == pytest.approx(values, rel=1e-8, abs=1e-12)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Stratified(100, 99, 5), "n_ranked must be"),
        (lambda: Stratified(100, 90, 10, replacement=False), "n_negatives must be <= 9"),
        (lambda: Stratified(np.array([5, 6]), 2, 3), "one catalogue size"),
        (lambda: priors.maximum_entropy([1] * 21, Stratified(100, 5, 20)), "got Stratified"),
        (lambda: bias_variance("ap", Stratified(100, 5, 20), 0.1)(7, 7), r"in \[1, 6\], got 7"),
        (lambda: bias_variance("ap", Stratified(100, 5, 20), 0.1)(5, 6), "ranks must be >= 6"),
        (lambda: bias_variance("ap", Stratified(100, 5, 20), 0.1).bias(1, 2), "rank must be >= 2"),
        (lambda: bias_variance("ap", Stratified(100, 5, 20), 0.1).bias(97, 2), "must be <= 96"),
        (lambda: estimators.monotone("ap", Stratified(100, 5, 20)), "fixed number"),
    ],
)
def test_bad_strata(make, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        make()
