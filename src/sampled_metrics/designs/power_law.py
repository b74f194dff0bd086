"""The top of the ranking as a power law, by which the track record judges corrected estimates.

Suppose that a share A (r / n)^b of users has rank r or better. Then the expected share of users
with fewer than x of m negatives above their item is

    A Gamma(x + b) Gamma(m + 1) / (Gamma(x) Gamma(m + 1 + b)),

so that the shares for x = 1 and x = 3 determine b and A. Corrections err most where b is small:
where as many users have their item among the very first as among the next ones, a sample sees
little of it. The value of a metric by the power law is no estimate that we report. How far it is
from the corrected estimate says how far either may be off.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammaln

from .._validate import FloatArray
from ..metrics import Metric
from ..numerics.distributions import pmf_table
from .sample import Sample


@dataclass(frozen=True)
class PowerLaw:
    """A share exp(`log_share`) (r / `items`)^`exponent` of users has rank r or better.

    `first` is the share of users without a negative above, which tells it from data without any.
    """

    exponent: float
    log_share: float
    items: int
    first: float

    @classmethod
    def fitted(cls, first: float, third: float, negatives: int, items: int) -> PowerLaw:
        """From the shares of users with no negative above, and with fewer than three.

        >>> from sampled_metrics import metric
        >>> law = PowerLaw.fitted(0.2, 0.3, 100, 10_000)
        >>> round(law.exponent, 3), round(law.value(metric("recall@10")), 3)
        (0.303, 0.111)
        """
        if not first > 0:
            return cls(np.nan, -np.inf, items, 0.0)
        # third / first = (1 + b) (2 + b) / 2
        exponent = 0.5 * (np.sqrt(1.0 + 8.0 * third / first) - 3.0)
        log_share = (
            np.log(first)
            + gammaln(negatives + 1.0 + exponent)
            - gammaln(negatives + 1.0)
            - gammaln(1.0 + exponent)
        )
        return cls(float(exponent), float(log_share), items, first)

    def value(self, metric: Metric) -> float:
        """The metric under the power law, at most its largest value."""
        if not self.first > 0:
            return 0.0
        last = min(metric.k or self.items, self.items)
        ranks = np.arange(1.0, last + 1.0)
        terms = metric.term(ranks, n_items=self.items)
        steps = terms - np.append(terms[1:], 0.0)
        shares = np.exp(self.log_share + self.exponent * np.log(ranks / self.items))
        return float(np.minimum(shares, 1.0) @ steps)


def fit(sample: Sample, recommender: str) -> PowerLaw:
    """The power law of a recommender's sampled ranks, thinned to the smallest number of negatives.

    Users have one relevant item each.
    """
    fewest = int(sample.negatives.min())
    ones = np.ones(sample.negatives.size)
    users, counts = 0.0, np.zeros(3)  # users in all, and those with 0, 1 and 2 negatives above
    for m in np.unique(sample.negatives).tolist():
        at_ranks = sample.at_ranks(recommender, m, ones)
        users += at_ranks.sum()
        counts += at_ranks @ pmf_table(fewest, np.arange(m + 1), m, False, 3)
    shares = np.cumsum(counts) / users
    return PowerLaw.fitted(float(shares[0]), float(shares[-1]), fewest, sample.mean_items)


def log_ratio(estimate: Any, extrapolated: Any) -> tuple[FloatArray, FloatArray]:
    """The logarithm of an estimate, and of the power law's value relative to it.

    Estimates can be 0 or less where few users have their item near the top. They count as a
    twentieth of the power law's value at least.
    """
    extrapolated = np.asarray(extrapolated, float)
    log_estimate = np.log(np.maximum(estimate, extrapolated / 20.0))
    return np.asarray(log_estimate), np.asarray(np.log(extrapolated) - log_estimate)
