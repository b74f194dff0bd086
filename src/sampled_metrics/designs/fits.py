"""Priors fitted to the log itself, and their derivatives with respect to its users."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np

from .. import estimators, priors
from .._validate import FloatArray, IntArray, as_intp
from ..bounds.parts import MOST_NEGATIVES
from ..metrics import Metric
from ..numerics.all_ranks import MOST_ITEMS
from ..numerics.distributions import pmf_table
from ..protocol import Protocol, thinned_counts
from .sample import Sample


@dataclass(frozen=True)
class Stratum:
    """Places among the relevant items, `first` to `last`, that share a fitted prior.

    `weights` are the metric's weights of an item for each number of relevant items.
    """

    first: int
    last: int
    weights: tuple[float, ...]

    @property
    def positions(self) -> range:
        return range(self.first, self.last + 1)

    @property
    def rows(self) -> slice:
        """The rows of these positions in a table with a row for each position."""
        return slice(self.first - 1, self.last)


class Fits:
    """Priors fitted to sampled ranks, thinned to the smallest number of negatives of a user."""

    def __init__(self, sample: Sample) -> None:
        self.sample = sample
        self.fewest, self.most = int(sample.negatives.min()), int(sample.relevant.max())
        self.prior = cache(self._prior)
        self.expansion = cache(self._expansion)

    @cached_property
    def too_large(self) -> str:
        """Why no correction can be computed; empty if some can."""
        classes = [group for group in self.sample.classes if not self.sample.is_whole(group)]
        largest = max((group.n_negatives for group in classes), default=0)
        reason = (
            f"a user has {largest:,} negatives, and a correction is for {MOST_NEGATIVES:,} at most"
        )
        return reason if largest > MOST_NEGATIVES else ""

    @property
    def unfit(self) -> str:
        """Why priors cannot be fitted to the log; empty if they can."""
        if self.too_large:
            return self.too_large
        sample, mean_items = self.sample, self.sample.mean_items
        items, negatives = int(sample.items.max()), int(sample.negatives.max())
        if items > MOST_ITEMS:
            return f"a user has {items:,} items, and a fit is of {MOST_ITEMS:,} at most"
        if not sample.replacement and negatives >= mean_items:
            reason = "and a fit is for the mean of n_items"
            return f"a user has {negatives:,} negatives, {reason}, {mean_items:,}"
        return ""

    def strata(self, metric: Metric) -> list[Stratum]:
        """The positions that a metric uses: each of the first nine alone, then ever wider strata.

        The metric's term of an item is a weight, which depends on the number of relevant items,
        times a function of its position and rank. An average over rankings is therefore an average
        over weighted items, position by position, and needs only the distribution of the ranks at
        each position.
        """
        numbers = self.sample.relevant_numbers[0].tolist()
        last_position = min(1 if metric.best_only else metric.k or numbers[-1], numbers[-1])
        weights = tuple(
            float(metric.term(1, 1, n_relevant, n_relevant + 1)) for n_relevant in numbers
        )
        strata, first = [], 1
        while first <= last_position:
            last = min(first + max(first // 5, 1) - 1, last_position)
            strata.append(Stratum(first, last, weights))
            first = last + 1
        return strata

    def weights(self, stratum: Stratum) -> FloatArray:
        """The weight of each kind's items in a stratum; 0 outside it."""
        position = self.sample.position
        weights = np.array(stratum.weights)[self.sample.relevant_numbers[1]]
        in_stratum = (position >= stratum.first) & (position <= stratum.last)
        return np.asarray(np.where(in_stratum, weights, 0.0))

    def terms(self, metric: Metric, stratum: Stratum, above: IntArray) -> FloatArray:
        """Unweighted terms of a metric for the positions of a stratum and numbers above."""
        j = np.array(stratum.positions)[:, np.newaxis]
        n_items = self.sample.mean_items + stratum.last - 1
        terms = metric.term(above + j, j, stratum.last, n_items)
        return np.asarray(terms / metric.term(1, 1, stratum.last, n_items))

    def mean_protocol(self, n_negatives: int, n_relevant: int = 1) -> Protocol:
        """The protocol of a user with the mean catalogue size."""
        size = self.sample.mean_items + n_relevant - 1
        return self.sample.protocol(size, n_negatives, n_relevant)

    def _prior(self, stratum: Stratum, *recommenders: str) -> priors.FittedPrior:
        """The prior fitted to the sampled ranks of some recommenders."""
        counts = self.counts(stratum, *recommenders)
        return priors.maximum_entropy(counts, self.mean_protocol(self.fewest))

    def _expansion(self, stratum: Stratum, *recommenders: str) -> priors.Expansion:
        """The first-order expansion of the fit to some recommenders."""
        fit = self.prior(stratum, *recommenders)
        counts = self.counts(stratum, *recommenders)
        return priors.Expansion(fit, counts, self.mean_protocol(self.fewest))

    def counts(self, stratum: Stratum, *recommenders: str) -> FloatArray:
        """Users at each sampled rank, all thinned to the smallest number of negatives.

        Weighted items are scaled to their effective sample size (Kish), (sum w)^2 / sum w^2.
        """
        sample, weights = self.sample, self.weights(stratum)
        users_at_ranks = np.zeros(self.fewest + 1)
        for m in np.unique(sample.negatives).tolist():
            counts = np.sum(
                [sample.at_ranks(recommender, m, weights) for recommender in recommenders], axis=0
            )
            users_at_ranks += thinned_counts(counts, self.fewest)
        squares = sum(
            float(sample.counts[recommender] @ weights**2) for recommender in recommenders
        )
        return np.asarray(
            users_at_ranks * (users_at_ranks.sum() / squares / len(stratum.positions))
        )

    def plugged_in(self, metric: Metric, recommender: str) -> FloatArray:
        """Values of sampled ranks whose mean is the metric of a recommender's fitted priors.

        They include the influence of each user on the prior. Shape (n_relevant, m + 1), for items
        of weight 1 and the smallest number of negatives.
        """
        sample = self.sample
        values = np.zeros((self.most, self.fewest + 1))
        for stratum in self.strata(metric):
            weights = self.weights(stratum) * sample.counts[recommender]
            position_weights = np.bincount(as_intp(sample.position), weights, stratum.last + 1)[
                stratum.first : stratum.last + 1
            ]
            shares = position_weights / sample.users[recommender]
            if not shares.any():
                continue
            mass = self.prior(stratum, recommender).mass
            expansion = self.expansion(stratum, recommender)
            terms = self.terms(metric, stratum, np.arange(mass.size))
            values[stratum.rows] += (terms @ mass)[:, None]
            mean_terms = shares @ self.terms(metric, stratum, expansion.ranks - 1) / shares.sum()
            values[stratum.rows] += expansion.influence(mean_terms)
        return values

    def bias_variance(
        self, metric: Metric, gamma: float
    ) -> tuple[dict[int, FloatArray], dict[str, FloatArray]]:
        """Bias-variance with the maximum entropy fit to all recommenders as its prior.

        Returns tables of values, (n_relevant, m + 1), for each number of negatives; for each
        recommender the influence of any user's sampled ranks on its mean by way of the prior, of
        the same shape for the smallest number of negatives.
        """
        sample, names = self.sample, self.sample.names
        tables = {m: np.zeros((self.most, m + 1)) for m in np.unique(sample.negatives).tolist()}
        influences = np.zeros((len(names), self.most, self.fewest + 1))
        for stratum in self.strata(metric):
            expansion = self.expansion(stratum, *names)
            prior = dict(zip(expansion.ranks.tolist(), expansion.mass.tolist(), strict=True))
            exact = self.terms(metric, stratum, expansion.ranks - 1)
            slopes = np.zeros((expansion.ranks.size, len(names)))
            for m, table in tables.items():
                protocol = self.mean_protocol(m, stratum.last)
                estimator_values = estimators.bias_variance(metric, protocol, gamma, prior).values
                scale = float(metric.term(1, 1, stratum.last, protocol.n_items))
                rows = expansion.rows
                if m + 1 > rows.shape[1]:
                    rows = pmf_table(m, expansion.ranks - 1, protocol.pool, protocol.replacement)
                for j, exact_row in zip(stratum.positions, exact, strict=True):
                    table[j - 1] = np.atleast_2d(estimator_values)[j - 1] / scale
                    weights = self.weights(replace(stratum, first=j, last=j))
                    shares = [
                        sample.at_ranks(recommender, m, weights) / sample.users[recommender]
                        for recommender in names
                    ]
                    slopes += _slopes(
                        table[j - 1],
                        np.column_stack(shares),
                        rows,
                        expansion.mass,
                        exact_row,
                        gamma,
                    )
            weights = self.weights(stratum)
            total_weight = sum(float(counts @ weights) for counts in sample.counts.values())
            influences[:, stratum.rows] = (expansion.influence(slopes) / total_weight).T[:, None]
        return tables, dict(zip(names, influences, strict=True))


def _slopes(
    values: FloatArray,
    shares: FloatArray,
    rows: FloatArray,
    mass: FloatArray,
    exact: FloatArray,
    gamma: float,
) -> FloatArray:
    """Derivatives of means of bias-variance's values with respect to the prior, (k, several).

    The values v solve (1 - gamma) P'DPv + gamma diag(q) v = P'DM, with D = diag(p) and q = pP.
    `values` is v, (m + 1,); `shares` the distribution of sampled ranks for each mean, (m + 1,
    several); `rows` is P at the k ranks of the prior, (k, m + 1); `mass` is p and `exact` M there.
    """
    q = mass @ rows
    root_q = np.where(q > 0, np.sqrt(q), np.inf)  # a sampled rank of probability 0 has no users
    scaled = np.sqrt(mass)[:, np.newaxis] * rows / root_q
    system = (1.0 - gamma) * scaled.T @ scaled + gamma * np.eye(q.size)
    adjoint = np.linalg.solve(system, shares / root_q[:, np.newaxis]) / root_q[:, np.newaxis]
    residual = exact - (1.0 - gamma) * (rows @ values)
    variance_term = gamma * (rows @ (adjoint * values[:, np.newaxis]))
    return np.asarray((rows @ adjoint) * residual[:, np.newaxis] - variance_term)
