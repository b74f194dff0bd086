"""The column n_above of a log whose negatives were drawn with known probabilities.

A negative drawn with probability 1/50 stands for 50 items. The sum of these numbers over the
negatives above a held-out item estimates without bias how many irrelevant items of the catalogue
are above it, for any design that can draw each of them (horvitz1952). So every metric linear in the
true rank is estimated without bias; of the metrics here, that is only AUC. Recall@10 of the
estimated rank is biased unless all items are drawn.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from .._validate import FloatArray, floats


def counts_above(positive: ArrayLike, negatives: ArrayLike, inclusion: ArrayLike) -> FloatArray:
    """Estimate how many irrelevant items of the catalogue are above each held-out item.

    This is the Horvitz-Thompson estimator: each negative above the item counts as one over its
    inclusion, and a tied one as half of that.

    Parameters
    ----------
    positive : array_like of float, shape (rows,)
        Score of each held-out item.
    negatives : array_like of float, shape (rows, m)
        Scores of its negatives; NaN where a row has fewer.
    inclusion : array_like of float, shape (rows, m)
        Expected number of times that each is among the negatives, above 0, from
        :meth:`Protocol.inclusion <sampled_metrics.Protocol.inclusion>`: m times the probability of
        a draw if an item drawn twice appears twice in the row, otherwise the probability of being
        drawn at all.

    Returns
    -------
    ndarray of float, shape (rows,)
        At least 0; the column n_above of :func:`~sampled_metrics.read_log`.

    Raises
    ------
    ValueError
        If shapes differ, a positive is NaN, or an inclusion is not above 0.

    See Also
    --------
    sampled_metrics.Protocol.inclusion : From the weights of a sampler.

    Examples
    --------
    Two negatives are above: one that is in half of all samples, and one in a hundredth of them.

    >>> counts_above([0.7], [[0.9, 0.8, 0.1]], [[0.5, 0.01, 0.2]])
    array([102.])
    """
    positives, scores, inclusions = (
        floats(values, name)
        for values, name in (
            (positive, "positive"), (negatives, "negatives"), (inclusion, "inclusion"),
        )
    )  # fmt: skip
    if scores.ndim != 2 or positives.shape != scores.shape[:1] or inclusions.shape != scores.shape:
        raise ValueError(
            "negatives and inclusion must have a row for each positive and the same shape, got "
            f"{scores.shape}, {inclusions.shape} and {positives.shape}"
        )
    if np.isnan(positives).any():
        raise ValueError(f"positive must not be NaN, got one in row {np.isnan(positives).argmax()}")
    is_present = ~np.isnan(scores)
    is_invalid = is_present & ~((inclusions > 0) & np.isfinite(inclusions))
    if is_invalid.any():
        raise ValueError(
            f"inclusion must be > 0 where there is a negative, got {inclusions[is_invalid][0]}"
        )
    above = (scores > positives[:, np.newaxis]) + 0.5 * (scores == positives[:, np.newaxis])
    weights = np.divide(1.0, inclusions, out=np.zeros(inclusions.shape), where=is_present)
    return np.asarray((above * weights).sum(axis=1))
