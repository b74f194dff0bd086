"""What one sample leaves possible, against general solvers on programmes of the same size."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import linprog, minimize

from sampled_metrics import Protocol, metric
from sampled_metrics.bounds import identification

NDCG = metric("ndcg@10")


def sample(n: int, m: int, users: int = 6_000) -> tuple[np.ndarray, Protocol]:
    """Counts of sampled ranks of users whose true ranks are long-tailed."""
    rng, protocol = np.random.default_rng(12), Protocol(n_items=n, n_negatives=m)
    true = 1 + np.floor((n - 1) * rng.beta(0.4, 2.0, users)).astype(int)
    return np.bincount(protocol.draw(true, rng) - 1, minlength=m + 1).astype(float), protocol


def by_bands(counts: np.ndarray, protocol: Protocol) -> tuple[float, float]:
    """The ends by HiGHS if each cumulative share is within its binomial interval, all at 95%."""
    n, m, users = int(protocol.n_items), protocol.n_negatives, int(counts.sum())
    above = np.cumsum(counts)[:-1]
    error = 0.025 / m
    low = np.nan_to_num(stats.beta.ppf(error, above, users - above + 1))
    high = np.nan_to_num(stats.beta.ppf(1 - error, above + 1, users - above), nan=1.0)
    law = np.cumsum(protocol.pmf(np.arange(1, n + 1)), axis=1)[:, :-1].T
    given = {"A_ub": np.vstack([law, -law]), "b_ub": np.append(high, -low)}
    given |= {"A_eq": np.ones((1, n)), "b_eq": np.ones(1)}
    values = NDCG.vector(n)
    ends = [sign * linprog(sign * values, method="highs", **given).fun for sign in (1.0, -1.0)]
    return ends[0], ends[1]


def by_slsqp(counts: np.ndarray, protocol: Protocol) -> tuple[float, float]:
    """The ends of the same interval by SLSQP: the metric where the likelihood is at its bound."""
    n = int(protocol.n_items)
    law, values, users = protocol.pmf(np.arange(1, n + 1)), NDCG.vector(n), counts.sum()

    def fall(p: np.ndarray) -> float:
        return float(-(counts / users) @ np.log(np.maximum(p @ law, 1e-12)))

    def slope(p: np.ndarray) -> np.ndarray:
        return np.asarray(-law @ (counts / users / np.maximum(p @ law, 1e-12)))

    whole = {"type": "eq", "fun": lambda p: p.sum() - 1.0, "jac": lambda p: np.ones(n)}
    options = {"x0": np.full(n, 1.0 / n), "bounds": [(0.0, 1.0)] * n, "method": "SLSQP"}
    best = minimize(fall, jac=slope, constraints=[whole], **options).fun
    near = {
        "type": "ineq",
        "fun": lambda p: best + stats.chi2.ppf(0.95, 1) / (2.0 * users) - fall(p),
        "jac": lambda p: -slope(p),
    }
    ends = [
        minimize(
            lambda p, sign=sign: sign * float(p @ values),
            jac=lambda p, sign=sign: sign * values,
            constraints=[whole, near],
            **options,
        ).fun
        for sign in (1.0, -1.0)
    ]
    return float(ends[0]), -float(ends[1])


@pytest.mark.parametrize("way", ["ours", "ours, decreasing", "HiGHS, bands", "SLSQP"])
@pytest.mark.parametrize(("n", "m"), [(60, 8), (3_706, 100)])
def test_interval(measure: Callable[..., None], n: int, m: int, way: str) -> None:
    if way == "SLSQP" and n > 60:
        pytest.skip("takes hours")
    counts, protocol = sample(n, m)
    calls: dict[str, Callable[[], object]] = {
        "ours": lambda: identification.interval(counts, protocol, NDCG),
        "ours, decreasing": lambda: identification.interval(
            counts, protocol, NDCG, assumption=identification.Assumption()
        ),
        "HiGHS, bands": lambda: by_bands(counts, protocol),
        "SLSQP": lambda: by_slsqp(counts, protocol),
    }

    def clear() -> None:
        identification._at_ranks.cache_clear()
        identification._mixed.cache_clear()

    measure("identification", f"one interval, m = {m}", way, n, calls[way], clear, 3)
