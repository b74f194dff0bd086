"""Building each estimator, against least squares on a matrix with a row for every rank."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from scipy.optimize import nnls

from sampled_metrics import Protocol, estimators, metric

NDCG = metric("ndcg@10")
GAMMA = 0.1
SIZES = [10**4, 10**5, 10**6, 10**7, 10**9]
#: Largest matrix of the dense formula, in bytes; solving takes a few times as much.
FITS = 2**27

OURS: dict[str, Callable[..., estimators.Estimator]] = {
    "rank estimate": estimators.rank_estimate,
    "monotone": partial(estimators.monotone, nonnegative=True),
    "bias-variance": partial(estimators.bias_variance, gamma=GAMMA),
}


def design(protocol: Protocol) -> tuple[np.ndarray, np.ndarray]:
    """The paper's A and b (krichene2020, eq. 23) for a uniform prior: a row for every rank."""
    n, m = int(protocol.n_items), protocol.n_negatives
    law = np.empty((n, m + 1))
    for part in np.array_split(np.arange(n), max(1, n * (m + 1) >> 16)):
        law[part] = protocol.pmf(part + 1)
    return law / np.sqrt(n), NDCG.vector(n) / np.sqrt(n)


def dense_bias_variance(protocol: Protocol) -> np.ndarray:
    a, b = design(protocol)
    marginal = a.sum(axis=0) / np.sqrt(int(protocol.n_items))
    rows = np.vstack([np.sqrt(1 - GAMMA) * a, np.diag(np.sqrt(GAMMA * marginal))])
    target = np.append(b / np.sqrt(1 - GAMMA), np.zeros(marginal.size))
    return np.asarray(np.linalg.lstsq(rows, target, rcond=None)[0])


def normal_equations(protocol: Protocol) -> np.ndarray:
    """The formula as the paper prints it (krichene2020, eq. 26)."""
    a, b = design(protocol)
    marginal = a.sum(axis=0) / np.sqrt(int(protocol.n_items))
    return np.linalg.solve((1 - GAMMA) * a.T @ a + np.diag(GAMMA * marginal), a.T @ b)


def dense_monotone(protocol: Protocol) -> np.ndarray:
    a, b = design(protocol)
    steps = nnls(np.cumsum(a, axis=1), b, maxiter=30 * a.shape[1])[0]
    return np.asarray(np.cumsum(steps[::-1])[::-1])


DENSE: dict[tuple[str, str], Callable[[Protocol], np.ndarray]] = {
    ("monotone", "dense"): dense_monotone,
    ("bias-variance", "dense"): dense_bias_variance,
    ("bias-variance", "dense, solve"): normal_equations,
}


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize("m", [100, 1_000])
def test_build(measure: Callable[..., None], name: str, n: int, m: int) -> None:
    call = partial(OURS[name], NDCG, Protocol(n, m))
    # Nothing of an earlier round, or of another estimator, may be left to build upon.
    clear = estimators._forget
    rounds = 7 if m == 100 else 3
    measure("estimators", f"{name}, m = {m}", "ours", n, call, clear, rounds)


@pytest.mark.parametrize(
    ("n", "m"),
    [(n, m) for n in SIZES for m in (100, 1_000) if 8 * n * (m + 1) <= FITS],
)
@pytest.mark.parametrize(("name", "way"), DENSE)
def test_dense(measure: Callable[..., None], name: str, way: str, n: int, m: int) -> None:
    call = partial(DENSE[name, way], Protocol(n, m))
    measure("estimators", f"{name}, m = {m}", way, n, call, rounds=3)
