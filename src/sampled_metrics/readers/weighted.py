"""The column n_above of a log whose negatives were drawn with known chances.

A negative that had a chance of 1 in 50 to be drawn stands for 50 items. The sum of that over the
negatives above a held-out item estimates how many irrelevant items of the whole catalogue are
above it, without bias, whatever the design is, as long as each item that may be above has a chance
(horvitz1952). So it estimates without bias whatever is linear in the true rank, which of the
metrics here is AUC alone. A metric of the estimated rank, such as Recall@10, is biased for any
number of negatives short of all. What other metrics may be follows from the counts and the weights
alone (:mod:`sampled_metrics.bounds.weighted`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from .._validate import FloatArray, floats


def counts_above(positive: ArrayLike, negatives: ArrayLike, inclusion: ArrayLike) -> FloatArray:
    """Estimate how many irrelevant items of the catalogue are above each held-out item.

    Each negative above it counts as one over its inclusion, and a tied one as half of that.

    Parameters
    ----------
    positive : array_like of float, shape (rows,)
        Score of each held-out item.
    negatives : array_like of float, shape (rows, m)
        Scores of its negatives; NaN where a row has fewer.
    inclusion : array_like of float, shape (rows, m)
        How often each of them is expected among the negatives, above 0, as
        :meth:`Protocol.inclusion <sampled_metrics.Protocol.inclusion>` says: m times the
        probability of a draw where an item drawn twice stands in the row twice, and otherwise the
        probability to be drawn at all.

    Returns
    -------
    ndarray of float, shape (rows,)
        At least 0; the column n_above of :func:`~sampled_metrics.log.read.read_log`.

    Raises
    ------
    ValueError
        If shapes differ, a positive is NaN, or an inclusion is not above 0.

    See Also
    --------
    sampled_metrics.Protocol.inclusion : From the weights of a sampler.

    Examples
    --------
    Two negatives are above: a popular item that is drawn 50 times of 100, and one drawn once.

    >>> counts_above([0.7], [[0.9, 0.8, 0.1]], [[0.5, 0.01, 0.2]])
    array([102.])
    """
    own, scores, chance = (
        floats(values, name)
        for values, name in (
            (positive, "positive"), (negatives, "negatives"), (inclusion, "inclusion"),
        )
    )  # fmt: skip
    if scores.ndim != 2 or own.shape != scores.shape[:1] or chance.shape != scores.shape:
        raise ValueError(
            "negatives and inclusion must have a row for each positive and the same shape, got "
            f"{scores.shape}, {chance.shape} and {own.shape}"
        )
    if np.isnan(own).any():
        raise ValueError(f"positive must not be NaN, got one in row {np.isnan(own).argmax()}")
    there = ~np.isnan(scores)
    bad = there & ~((chance > 0) & np.isfinite(chance))
    if bad.any():
        raise ValueError(f"inclusion must be > 0 where there is a negative, got {chance[bad][0]}")
    above = (scores > own[:, np.newaxis]) + 0.5 * (scores == own[:, np.newaxis])
    stands_for = np.divide(1.0, chance, out=np.zeros(chance.shape), where=there)
    return np.asarray((above * stands_for).sum(axis=1))
