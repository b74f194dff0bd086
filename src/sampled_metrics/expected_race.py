"""Approximate how many users and scores a race needs, before anything is scored.

The log wealth of each stake is assumed to grow at its expected rate. Let D be the mean difference
of the two metrics over all N users, in favour of the better recommender. After t users the sum is
about D t. If the better recommender were not better over all users, the remaining users would have
a mean difference of at most -D t / (N - t), the mu in the module ``sequential``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import hypergeom

from ._validate import FloatArray, IntArray
from .metrics import Metric
from .sequential import _FIRST, _OWN, _batches, _stakes

#: Numbers of grid steps: for a metric from 0 to 1, for the mean difference of the remaining users
#: from -1 to 0, and for the number of users.
_STEPS, _MEANS, _TIMES = 500, 64, 400


def on_grid(masses: FloatArray, values: FloatArray, low: float = 0.0) -> FloatArray:
    """Move a distribution on `low` to 1 to an even grid, without changing its mean.

    Examples
    --------
    >>> on_grid(np.array([0.5, 0.5]), np.array([0.0, 0.251]))[[0, 125, 126]]
    array([0.5 , 0.25, 0.25])
    """
    place = np.clip((values - low) * _STEPS, 0.0, (1.0 - low) * _STEPS)
    last = round((1.0 - low) * _STEPS)
    left = np.minimum(place.astype(np.int64), last - 1)
    share = place - left
    lower = np.bincount(left, masses * (1.0 - share), minlength=last + 1)
    return np.asarray(lower + np.bincount(left + 1, masses * share, minlength=last + 1))


def users(law: FloatArray, n_users: int, error: float) -> int:
    """Users until a race of two recommenders is expected to end, at most all of them.

    Parameters
    ----------
    law : ndarray of float, shape (2 * 500 + 1,)
        Distribution of a user's difference on an even grid from -1 to 1, from :func:`on_grid`.
    n_users : int
        All users of the race.
    error : float
        The type I error of one of the pair's two null hypotheses.

    Returns
    -------
    int
        The number of users at the end of the batch in which the wealth reaches 1 / `error`.

    Examples
    --------
    >>> law = on_grid(np.array([0.3, 0.2, 0.5]), np.array([1.0, -1.0, 0.0]), -1.0)
    >>> users(law, 10_000, 0.025)
    500
    """
    values = np.arange(-_STEPS, _STEPS + 1) / _STEPS
    law = law if law @ values > 0 else law[::-1]
    mean, (values, law) = float(law @ values), (values[law > 0], law[law > 0])
    shares, left = _stakes(n_users), np.linspace(-1.0, 0.0, _MEANS + 1)
    growth = [[law @ np.log1p(share * (values - at)) for at in left] for share in shares]
    last = n_users / (1.0 + mean)  # from here on the remaining users cannot reverse the order
    times = np.unique(np.append(np.geomspace(1.0, last, _TIMES), np.arange(1.0, min(last, _TIMES))))
    reached = -mean * times / (n_users - times)
    rates = np.stack([np.interp(reached, left, each) for each in growth])
    wealth = np.logaddexp.reduce(np.cumsum(rates * np.diff(times, prepend=0.0), axis=1), axis=0)
    enough = wealth - np.log(shares.size) >= -np.log(error)
    until = times[np.argmax(enough)] if enough.any() else last
    return next(stop for _, stop in _batches(n_users) if stop >= min(until, n_users))


def scores(metric: Metric, above: ArrayLike, n_items: int) -> FloatArray:
    """Expected scores for a user, by the number of items that outscore the best test item.

    The items come in random order, in rounds as large as all earlier rounds together. With a
    cut-off k, a round is scored unless k items that outscore the test item came before it.

    Parameters
    ----------
    metric : Metric
    above : array_like of int
    n_items : int

    Returns
    -------
    ndarray of float

    Examples
    --------
    >>> from sampled_metrics.metrics import metric
    >>> scores(metric("ndcg@10"), [9, 100, 900], 1_000).round()
    array([1004.,  145.,   20.])
    """
    higher: IntArray = np.asarray(above)
    k = metric.cutoff
    total, start, size = np.full(higher.shape, float(_OWN)), 0, _FIRST
    while start < n_items:
        size = min(size, n_items - start)
        drawn = hypergeom.cdf(k - 1, n_items - 1, higher, start) if k is not None and start else 1.0
        total += size * drawn
        start += size
        size = start
    return total
