"""How long a race is expected to take, for plans: its users and its scores."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import hypergeom

from .._validate import FloatArray, IntArray
from ..metrics import Metric
from ..numerics.staking import FIRST_ITEMS, OWN_ITEMS, batches, stakes

#: Grids of a metric and of a difference, and numbers of grid points for the remaining users' mean
#: difference (-1 to 0) and for the users.
METRICS, DIFFERENCES = np.arange(501) / 500, np.arange(-500, 501) / 500
_MEANS, _TIMES = 64, 400


def rebinned(masses: FloatArray, values: ArrayLike, grid: ArrayLike) -> FloatArray:
    """Move a distribution to a grid that covers it, without changing its mean (linear binning).

    Examples
    --------
    >>> rebinned(np.array([0.5, 0.5]), [0.0, 0.25], [0.0, 0.2, 0.4, 0.6])
    array([0.5  , 0.375, 0.125, 0.   ])
    """
    points, positions = np.asarray(grid), np.asarray(values)
    lower_index = np.clip(np.searchsorted(points, positions, side="right") - 1, 0, points.size - 2)
    share = np.clip(
        (positions - points[lower_index]) / (points[lower_index + 1] - points[lower_index]),
        0.0,
        1.0,
    )
    lower_masses = np.bincount(lower_index, masses * (1.0 - share), minlength=points.size)
    return np.asarray(
        lower_masses + np.bincount(lower_index + 1, masses * share, minlength=points.size)
    )


def expected_users(pmf: FloatArray, n_users: int, error_rate: float) -> int:
    """Users until a race of two recommenders is expected to end, at most all of them.

    The log wealth of each stake is assumed to grow at its expected rate. `pmf` has the
    probabilities of a user's differences -1, -0.998, ..., 1; `error_rate` is the type I error of
    one of the pair's two null hypotheses. Let D be the mean difference over all N users, in favour
    of the better recommender. After t users the sum is about D t. If the better recommender
    were not better over all users, the remaining users would have a mean difference of at most
    mu = -D t / (N - t). The result is the end of the batch in which the wealth reaches 1 /
    `error_rate`.

    >>> pmf = np.zeros(1_001)
    >>> pmf[[0, 500, 1_000]] = 0.2, 0.5, 0.3
    >>> expected_users(pmf, 10_000, 0.025)
    500
    """
    pmf = pmf if pmf @ DIFFERENCES > 0 else pmf[::-1]
    mean, (values, pmf) = float(pmf @ DIFFERENCES), (DIFFERENCES[pmf > 0], pmf[pmf > 0])
    shares, bound_grid = stakes(n_users), np.linspace(-1.0, 0.0, _MEANS + 1)
    growth = [
        [pmf @ np.log1p(share * (values - bound)) for bound in bound_grid] for share in shares
    ]
    last_time = n_users / (1.0 + mean)  # from here on the remaining users cannot reverse the order
    times = np.unique(
        np.append(np.geomspace(1.0, last_time, _TIMES), np.arange(1.0, min(last_time, _TIMES)))
    )
    mean_bounds = -mean * times / (n_users - times)
    rates = np.stack([np.interp(mean_bounds, bound_grid, stake_growth) for stake_growth in growth])
    log_wealth = np.logaddexp.reduce(np.cumsum(rates * np.diff(times, prepend=0.0), axis=1), axis=0)
    is_decided = log_wealth - np.log(shares.size) >= -np.log(error_rate)
    end_time = times[np.argmax(is_decided)] if is_decided.any() else last_time
    return next(stop for _, stop in batches(n_users) if stop >= min(end_time, n_users))


def expected_scores(metric: Metric, above: ArrayLike, n_items: int) -> FloatArray:
    """Expected scores for a user, by the number of items that outscore the best test item.

    The items come in random order, in rounds as large as all earlier rounds together. With a
    cut-off k, a round is scored unless k items that outscore the test item came before it.
    """
    higher: IntArray = np.asarray(above)
    k = metric.cutoff
    total, start, size = np.full(higher.shape, float(OWN_ITEMS)), 0, FIRST_ITEMS
    while start < n_items:
        size = min(size, n_items - start)
        drawn = hypergeom.cdf(k - 1, n_items - 1, higher, start) if k is not None and start else 1.0
        total += size * drawn
        start += size
        size = start
    return total
