"""The log that comes with the library is what its seed draws."""

import numpy as np
import pytest
from scipy import stats

from sampled_book.data import bundled_log
from sampled_book.data.bundled_log import BUNDLED_SEED, simulate
from sampled_book.data.datasets import bundled_ranks
from sampled_metrics.log import read as logs
from sampled_metrics.log.compact import Log
from sampled_metrics.log.read import BUNDLED_NEGATIVES, read_log
from sampled_metrics.ranking.intervals import RankIntervals


def test_the_bundled_log_is_what_its_seed_draws(tmp_path):
    log = read_log("bundled")
    drawn = simulate(bundled_ranks(), BUNDLED_NEGATIVES, np.random.default_rng(BUNDLED_SEED))
    for name in drawn:
        assert (log.frame[name].to_numpy() == drawn[name].to_numpy()).all(), name
    assert not log.replacement
    assert isinstance(log, Log)
    written = bundled_log.write_bundled_log(bundled_ranks(), tmp_path)
    with np.load(written) as new, np.load(logs.BUNDLE / "log.npz") as old:
        assert new.files == old.files
        assert all((new[name] == old[name]).all() for name in new.files)
    assert (tmp_path / "exact.json").read_text() == (logs.BUNDLE / "exact.json").read_text()
    exact = bundled_ranks()["Z"].evaluate("ndcg@10").mean()
    assert log.exact_values["ndcg@10"]["Z"] == pytest.approx(exact, abs=1e-6)


def test_simulated_counts_have_the_multivariate_hypergeometric_law():
    ranks = {"r": RankIntervals(*np.full((20_000, 3), [3, 2, 9]).T)}
    rows = simulate(ranks, 4, np.random.default_rng(2))
    cells = [(a, t) for a in range(4) for t in range(3) if a + t <= 4 and 4 - a - t <= 3]
    pmf = [stats.multivariate_hypergeom.pmf([a, t, 4 - a - t], [3, 2, 3], 4) for a, t in cells]
    assert sum(pmf) == pytest.approx(1)
    counts = [((rows["n_better"] == a) & (rows["n_tied"] == t)).sum() for a, t in cells]
    assert stats.chisquare(counts, np.array(pmf) * len(rows)).pvalue > 1e-3
    with pytest.raises(ValueError, match=r"n_negatives must be a whole number in \[1, 8\]"):
        simulate(ranks, 9, np.random.default_rng(2))
