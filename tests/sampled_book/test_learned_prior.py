"""The library's learned prior is what the laboratory learns, from the sources that it names."""

import json

import numpy as np
import pandas as pd
import pytest

from sampled_book.data import benchmark
from sampled_book.experiments import learned_prior as laboratory
from sampled_book.experiments import left_out
from sampled_metrics import learned_prior
from sampled_metrics.learned_prior import Cells
from sampled_metrics.ranking.intervals import RankIntervals


@pytest.fixture(scope="module")
def counts():
    return laboratory.bundled_counts()


def test_it_is_learned_anew_to_the_digits_stored(tmp_path, capsys):
    assert laboratory.main(["--output", str(tmp_path)]) == 0
    anew = json.loads((tmp_path / laboratory.FILE).read_text())
    kept = dict(learned_prior.stored())
    priors = [part["without"]["movielens"] for part in (anew, kept)]
    families = [part["families"] for part in (*priors, anew, kept)]
    assert families[0].keys() == {"popularity", "sequential"}
    for one, other in (families[:2], families[2:]):
        for family, added in one.items():
            np.testing.assert_allclose(added, other[family], rtol=2e-5)
    for one, other in ([anew, kept], priors):
        for key in ("mean", "between", "within"):
            np.testing.assert_allclose(one[key], other[key], rtol=2e-5)
    for key in ("data", "sources", "recommenders", "made_by"):
        assert anew[key] == kept[key]
    assert len(kept["sources"]) == 32


def test_counts_in_cells_are_of_all_users(counts):
    """With ties shared evenly, as the metrics of exact ranks share them."""
    part = counts["lastfm"]
    ranks = laboratory.ranks_of("lastfm")
    assert set(part.names) - set(benchmark.ranks("lastfm")) == {"SASRec", "GRU4Rec"}
    np.testing.assert_allclose(part.users.sum(axis=1), ranks["Popular"].n_better.size)
    for name, users in zip(part.names, part.users, strict=True):
        top = users[:10] / np.log2(np.arange(2, 12))
        exact = ranks[name].evaluate("ndcg@10").mean()
        assert top.sum() / users.sum() == pytest.approx(exact, rel=1e-9)


@pytest.mark.simulation
def test_learning_recovers_a_prior_that_draws_the_ranks():
    """From normal draws the Student weights leave the covariances an eighth short."""
    truth, rng = learned_prior.learned(), np.random.default_rng(3)
    drawn, group_of = {}, {}
    for number in range(120):
        cells = Cells(int(np.exp(rng.uniform(7, 10))))
        shared = rng.multivariate_normal(np.zeros(6), truth.between)
        own = rng.multivariate_normal(np.zeros(6), truth.within, size=4)
        ranks = {}
        for i, mass in enumerate(cells.masses(truth.mean + shared + own)):
            cell = rng.choice(mass.size, 2_000, p=mass)
            better = rng.integers(cells.first[cell] - 1, cells.last[cell])
            zero = np.zeros(2_000, dtype=np.int64)
            ranks[str(i)] = RankIntervals(better, zero, zero + cells.items)
        drawn[str(number)] = laboratory.exact_counts(ranks)
        group_of[str(number)] = str(number)
    prior = laboratory.learn(drawn, group_of)
    error = np.sqrt(np.diag(truth.between) / 120)
    assert (np.abs(prior.mean - truth.mean) < 3.5 * error).all()
    for name in ("between", "within"):
        ratio = np.linalg.solve(getattr(truth, name), getattr(prior, name)).trace() / 6
        assert 0.7 < ratio < 1.1


def test_sources_weigh_alike(counts):
    """A source that is there twice, as two data sets, counts once."""
    names = ["lastfm", "yelp", "ciao"]
    once = laboratory.learn({name: counts[name] for name in names}, {n: n for n in names})
    twice = {name: counts[name] for name in names} | {"copy": counts["ciao"]}
    again = laboratory.learn(twice, {n: n for n in names} | {"copy": "ciao"})
    for first, second in zip(once[:3], again[:3], strict=True):
        np.testing.assert_allclose(first, second, rtol=1e-6, atol=1e-9)
    for family, added in once.families.items():
        np.testing.assert_allclose(again.families[family], added, rtol=1e-5, atol=1e-9)


def test_a_source_left_out_is_judged_as_bundled(counts):
    """A prior that was not learned from a source gives the estimates that are kept of it."""
    groups = laboratory.group_by_data()
    rest = {name: part for name, part in counts.items() if groups[name] != groups["kuairec"]}
    assert len(rest) < len(counts)
    anew = left_out.judged("kuairec", benchmark.ranks("kuairec"), laboratory.learn(rest, groups))
    for table, kept in zip(anew, left_out.bundled(), strict=True):
        own = kept[kept["data"] == "kuairec"]
        table = table.sort_values(left_out._LOG, kind="stable")
        for column in table:
            if pd.api.types.is_float_dtype(table[column]):
                np.testing.assert_allclose(table[column], own[column], rtol=1e-3)
            elif column in ("right", "held"):  # another processor may turn a pair that is close
                assert np.abs(table[column].to_numpy() - own[column].to_numpy()).max() <= 1
            else:
                assert table[column].tolist() == own[column].tolist()


#: Largest errors of log(estimate / exact) and smallest shares of pairs in order, by negatives.
LIMITS = {"ndcg@10": {20: (0.42, 0.84), 50: (0.33, 0.855), 100: (0.27, 0.87), 500: (0.16, 0.91)},
          "recall@10": {100: (0.22, 0.89)}, "ap": {100: (0.26, 0.88)}}  # fmt: skip


def test_errors_on_sources_left_out():
    table = left_out.summary(*left_out.bundled()).set_index(["metric", "n_negatives"])
    for name, limits in LIMITS.items():
        for m, (rms, order) in limits.items():
            assert table.loc[(name, m), "rms"] <= rms
            assert table.loc[(name, m), "order"] >= order
    assert (table[["held", "pairs_held"]] > 0.8).all(axis=None)


def test_sources_weigh_alike_in_figures():
    estimates = pd.DataFrame(
        {
            "group": ["a", "a", "a", "b"],
            "data": ["a1", "a1", "a2", "b1"],
            "off": [1.0, 3.0, 4.0, -1.0],
            "held": [True, False, False, True],
        }
    )
    orders = estimates.assign(pairs=[4, 4, 4, 4], right=[4, 2, 1, 0], held=[4, 4, 4, 2])
    assert left_out.figures(estimates, orders) == pytest.approx(
        {
            "rms": np.sqrt(((5 + 16) / 2 + 1) / 2),
            "bias": ((2 + 4) / 2 - 1) / 2,
            "held": (0.25 + 1) / 2,
            "worst": 0.25,
            "order": ((0.75 + 0.25) / 2 + 0) / 2,
            "pairs_held": (1 + 0.5) / 2,
        }
    )
