"""M-hat: what an evaluation reports for each sampled rank, and its expectation.

An estimator is a vector over the sampled ranks; its expectations at all true ranks are P M-hat.
Nearly every paper reports `naive`, the metric of the sampled rank as if the sample were the
catalogue.
"""

from __future__ import annotations

import difflib
import numbers
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from ._validate import FloatArray, IntArray, as_written, integer, integers
from .metrics import Metric, reciprocal
from .metrics import metric as parsed
from .numerics import least_squares
from .numerics.distributions import log_hypergeometric
from .numerics.least_squares import IllConditionedError as IllConditionedError
from .numerics.least_squares import System, WeightedRows
from .numerics.quadrature import MARGIN, all_ranks
from .protocol import Protocol, one_size

#: A prior over the true ranks; see :func:`least_bias`.
Prior = ArrayLike | Mapping[int, float] | None

#: A prior as hashable tuples of ranks and probabilities.
_Points = tuple[tuple[int, ...], tuple[float, ...]]

#: With more outcomes than this, counts outside Bernstein's bounds are left out; each bound fails
#: with a probability of at most exp(-70), about 4e-31.
_WIDE, _RARE = 200, 70.0


@dataclass(frozen=True, eq=False, repr=False)
class Estimator:
    """A value for each sampled rank, judged under the protocol that produced it.

    Attributes
    ----------
    metric : Metric
        What it estimates.
    protocol : Protocol
        How negatives are sampled.
    values : ndarray of float, shape (m + 1,) or (n_relevant, m + 1)
        What it reports when 0, 1, ..., m sampled negatives are above the item. With several
        relevant items there is a row for each position among them, to be summed over the items.
    name : str

    See Also
    --------
    naive, rank_estimate, least_bias, bias_variance, monotone : The estimators of krichene2020.
    sampled_metrics.RelevantSets.expected : The same where items are tied.

    Examples
    --------
    >>> from sampled_metrics import metric
    >>> Estimator(metric("ap"), Protocol(n_items=1_000, n_negatives=2), [1.0, 0.3, 0.0], "my own")
    Estimator('my own', ap, Protocol(n_items=1000, n_negatives=2))
    """

    metric: Metric
    protocol: Protocol
    values: FloatArray
    name: str = "custom"

    def __post_init__(self) -> None:
        values = np.array(self.values, dtype=float)
        columns, positions = self.protocol.n_outcomes, self.protocol.n_relevant
        expected = (columns,) if positions == 1 else (positions, columns)
        if values.shape != expected:
            raise ValueError(f"values must have shape {expected}, got {values.shape}")
        values.setflags(write=False)
        object.__setattr__(self, "values", values)

    def __repr__(self) -> str:
        return f"Estimator({self.name!r}, {self.metric.name}, {self.protocol!r})"

    def __eq__(self, other: object) -> bool:
        return self._key == other._key if isinstance(other, Estimator) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[object, ...]:
        return self.name, self.metric, self.protocol, self.values.tobytes()

    def __call__(self, sampled_ranks: ArrayLike, position: ArrayLike = 1) -> FloatArray:
        """Reported value for each sampled rank.

        Parameters
        ----------
        sampled_ranks : array_like of int, shape (...)
            In [position, position + m].
        position : int or array_like of int
            As for :meth:`expected`.

        Raises
        ------
        ValueError
            If there is no such sampled rank.

        Examples
        --------
        >>> from sampled_metrics import metric
        >>> naive(metric("ap"), Protocol(n_items=100, n_negatives=4))([1, 2, 5])
        array([1. , 0.5, 0.2])
        """

        def report(ranks: ArrayLike, j: int) -> FloatArray:
            row = self._row(j)
            return np.asarray(row[integers(ranks, "sampled_ranks", j, j + row.size - 1) - j])

        return _by_position(report, sampled_ranks, position)

    def expected(self, rank: ArrayLike, position: ArrayLike = 1) -> FloatArray:
        """Exact expectation at each true rank: P M-hat (krichene2020, eq. 16).

        Parameters
        ----------
        rank : array_like of int, shape (...)
            True ranks; broadcasts with the protocol's `n_items`.
        position : int or array_like of int, shape (...)
            Place among the relevant items, in [1, n_relevant].

        Returns
        -------
        ndarray of float, shape (...)

        Raises
        ------
        ValueError
            If a rank is fractional or outside what the protocol allows.

        Examples
        --------
        >>> from sampled_metrics import metric
        >>> est = naive(metric("recall@10"), Protocol(n_items=10_000, n_negatives=99))
        >>> est.expected([1, 100, 1_000, 10_000]).round(3)
        array([1.   , 1.   , 0.466, 0.   ])
        """
        return _by_position(self._expected, rank, position)

    def _expected(self, rank: ArrayLike, j: int) -> FloatArray:
        row, protocol = self._row(j), self.protocol
        if row.size > _WIDE and row.all() and protocol.uniform:
            return _over_likely(protocol, rank, j, row)
        reach = int(np.max(np.nonzero(row)[0], initial=0)) + 1
        return self._joined([rows @ row[:reach] for rows in protocol.blocks(rank, j, reach)], rank)

    def variance(self, rank: ArrayLike, position: ArrayLike = 1) -> FloatArray:
        """Exact variance at each true rank, over the draws of negatives; arguments as `expected`.

        Examples
        --------
        >>> from sampled_metrics import metric
        >>> est = naive(metric("recall@10"), Protocol(n_items=10_000, n_negatives=99))
        >>> est.variance([1, 1_000]).round(3)
        array([0.   , 0.249])
        """
        return _by_position(self._variance, rank, position)

    def _variance(self, rank: ArrayLike, j: int) -> FloatArray:
        row, parts = self._row(j), []
        for rows in self.protocol.blocks(rank, j):
            mean = rows @ row
            parts.append(np.einsum("ij,ij->i", rows, (row - mean[:, np.newaxis]) ** 2))
        return self._joined(parts, rank)

    def bias(self, rank: ArrayLike, position: ArrayLike = 1) -> FloatArray:
        """Exact bias at each true rank: P M-hat - M; arguments as `expected`.

        Examples
        --------
        >>> from sampled_metrics import metric
        >>> est = naive(metric("recall@10"), Protocol(n_items=10_000, n_negatives=99))
        >>> est.bias([1, 100]).round(6)
        array([0., 1.])
        """
        relevant, items = self.protocol.n_relevant, np.asarray(self.protocol.n_items)
        exact = self.metric.smooth_term(np.asarray(rank), np.asarray(position), relevant, items)
        return self.expected(rank, position) - exact

    def _row(self, position: int) -> FloatArray:
        j = integer(position, "position", 1, self.protocol.n_relevant)
        return self.values if self.values.ndim == 1 else self.values[j - 1]

    def _joined(self, parts: list[FloatArray], rank: ArrayLike) -> FloatArray:
        shape = np.broadcast_shapes(np.shape(rank), np.shape(self.protocol.n_items))
        return np.concatenate(parts).reshape(shape) if parts else np.empty(shape)


def _by_position(
    function: Callable[[ArrayLike, int], FloatArray], rank: ArrayLike, position: ArrayLike
) -> FloatArray:
    """Apply a function of ranks and one position to arrays of ranks and positions."""
    if np.ndim(position) == 0:
        return function(rank, position)  # type: ignore[arg-type]
    ranks, positions = np.broadcast_arrays(rank, position)
    values = np.empty(ranks.shape)
    for j in np.unique(positions):
        values[positions == j] = function(ranks[positions == j], j)
    return values


def _over_likely(protocol: Protocol, rank: ArrayLike, position: int, row: FloatArray) -> FloatArray:
    """Expectation of `row` at each rank, without counts rarer than 1e-30.

    Where all values are nonzero these counts are below the rounding of the sum. Ranks with similar
    shares of items above are grouped, to share their likely counts.
    """
    above, m = protocol.above(rank, position), protocol.n_negatives
    ranks, items, above = np.broadcast_arrays(np.asarray(rank), protocol.n_items, above)
    share = above.ravel() / (items.ravel() - protocol.n_relevant)
    # Bernstein's inequality, which draws without replacement obey, too.
    deviation = _RARE / 3
    deviation = deviation + np.sqrt(deviation**2 + 2 * _RARE * m * share * (1 - share))
    low = np.floor(m * share - deviation).clip(0).astype(np.int64)
    high = np.ceil(m * share + deviation).clip(None, m).astype(np.int64)
    expectations, order = np.empty(share.size), np.argsort(share)
    for block in np.array_split(order, share.size // 128 + 1) if share.size else ():
        counts = np.arange(low[block].min(), high[block].max() + 1)
        sub = replace(protocol, n_items=items.ravel()[block])
        expectations[block] = sub.pmf(ranks.ravel()[block], position, counts) @ row[counts]
    return expectations.reshape(ranks.shape)


class _Naive(Estimator):
    """The naive estimator, with closed forms of its expectation."""

    def _expected(self, rank: ArrayLike, j: int) -> FloatArray:
        protocol = self.protocol
        if not protocol.uniform:
            return super()._expected(rank, j)
        if self.metric.linear:
            return self.metric.term(rank, j, protocol.n_relevant, protocol.n_items)
        has_no_cutoff = self.metric.k is None or self.metric.k > protocol.n_negatives
        if j == 1 and has_no_cutoff and self.metric.declaration.function is reciprocal:
            return np.asarray(_expected_average_precision(rank, protocol) * self._row(1)[0])
        return super()._expected(rank, j)


def naive(metric: Metric | str, protocol: Protocol) -> Estimator:
    """The sampled metric that everyone reports: M applied to the sampled rank.

    Parameters
    ----------
    metric : Metric or str
    protocol : Protocol

    Returns
    -------
    Estimator
        Its `values` are the metric of a list of ``m + n_relevant`` items. Its `expected` uses
        the closed forms of krichene2020: eq. 17 for AUC, eq. 18 for metrics with a cut-off
        (a sum of k terms), eq. 19 and its counterpart without replacement for AP.

    See Also
    --------
    bias_variance : The correction to use where the naive metric is biased.
    sampled_metrics.consistency.order_by_negatives : Whether the naive metric keeps an order.

    Examples
    --------
    >>> from sampled_metrics import metric
    >>> est = naive(metric("ap"), Protocol(n_items=10_000, n_negatives=99))
    >>> est.values[:3]
    array([1.        , 0.5       , 0.33333333])
    >>> est.expected([100]).round(4), metric("ap")([100])
    (array([0.6366]), array([0.01]))
    """
    metric = parsed(metric)
    m, n_relevant = protocol.n_negatives, protocol.n_relevant
    j = np.arange(1, n_relevant + 1)[:, np.newaxis]
    values = metric.term(np.arange(m + 1) + j, j, n_relevant, m + n_relevant)
    return _Naive(metric, protocol, values[0] if n_relevant == 1 else values, "naive")


def _expected_average_precision(rank: ArrayLike, protocol: Protocol) -> FloatArray:
    """Expectation of 1 / (1 + negatives above the best relevant item), in closed form.

    With replacement it is krichene2020, eq. 19, ``(1 - q**(m + 1)) / ((m + 1) p)``; without,
    ``n / (r (m + 1)) (1 - C(n - r, m + 1) / C(n, m + 1))``, which the paper does not give.
    Both are evaluated so that no digits cancel when few negatives are expected above the item.
    """
    above, pool = np.broadcast_arrays(protocol.above(rank), protocol.pool)
    draws = protocol.n_negatives + 1
    if protocol.replacement:
        with np.errstate(divide="ignore"):
            log_none = draws * np.where(
                2 * above < pool, np.log1p(-above / pool), np.log((pool - above) / pool)
            )
        mean = draws * above / pool
        return np.where(above == 0, 1.0, -np.expm1(log_none) / np.where(above == 0, 1.0, mean))
    log_none = _log_none_drawn(draws, above + 1, pool + 1)
    return np.asarray((pool + 1) / ((above + 1) * float(draws)) * -np.expm1(log_none))


def _log_none_drawn(draws: int, marked: IntArray, total: IntArray) -> FloatArray:
    """Log-probability that `draws` of `total` items, without replacement, miss all `marked` ones.

    Relative accuracy: near 1 it is a sum of logarithms of one sign, over the fewer of the draws and
    the marked items (their roles are symmetric).
    """
    log_probability = np.asarray(log_hypergeometric(np.array(0), draws, marked, total))
    rare = draws * marked < 0.1 * total
    smaller, larger = np.minimum(marked, draws)[rare], np.maximum(marked, draws)[rare]
    if smaller.size:
        log_none, remaining = np.zeros(smaller.shape), total[rare]
        for i in range(int(smaller.max())):
            log_none += np.where(
                i < smaller, np.log1p(-larger / np.maximum(remaining - i, larger + 1)), 0.0
            )
        log_probability[rare] = log_none
    return log_probability


def rank_estimate(metric: Metric | str, protocol: Protocol, rounding: str = "floor") -> Estimator:
    """The metric at an unbiased estimate of the true rank (krichene2020, eq. 20).

    With x negatives above the item the estimate is ``1 + (n - 1) x / m``; the j-th best of
    several relevant items adds the ``j - 1`` relevant ones above it.

    Parameters
    ----------
    metric : Metric or str
    protocol : Protocol
        With one catalogue size.
    rounding : {"floor", "linear"}
        What to do with an estimated rank that is no whole number: round it down, as in the
        paper's experiments, or interpolate the metric linearly.

    Returns
    -------
    Estimator

    Raises
    ------
    ValueError
        If `rounding` is neither, or the protocol holds several catalogue sizes.

    See Also
    --------
    bias_variance : The correction with less bias near the top.

    Examples
    --------
    >>> from sampled_metrics import metric
    >>> rank_estimate(metric("ap"), Protocol(n_items=101, n_negatives=4)).values[:3].round(4)
    array([1.    , 0.0385, 0.0196])
    """
    metric = parsed(metric)
    if rounding not in ("floor", "linear"):
        raise ValueError(f"rounding must be 'floor' or 'linear', got {as_written(rounding)}")
    n_items, m = one_size(protocol), protocol.n_negatives
    n_relevant = protocol.n_relevant
    floor_above, remainder = np.divmod(np.arange(m + 1, dtype=np.int64) * (n_items - n_relevant), m)
    rows = []
    for j in range(1, n_relevant + 1):
        row = metric.term(floor_above + j, j, n_relevant, n_items)
        if rounding == "linear":
            next_row = metric.term(
                np.minimum(floor_above + 1, n_items - n_relevant) + j, j, n_relevant, n_items
            )
            row = row + (remainder / m) * (next_row - row)
        rows.append(row)
    return Estimator(metric, protocol, _stacked(rows), f"rank estimate, {rounding}")


def least_bias(metric: Metric | str, protocol: Protocol, prior: Prior = None) -> Estimator:
    """The estimator with the least squared bias on average over a prior (krichene2020, eqs 21-23).

    Parameters
    ----------
    metric : Metric or str
    protocol : Protocol
        With one catalogue size.
    prior : None, array_like of float, shape (n,), or mapping of int to float, optional
        Probabilities of the true ranks: uniform if None; one for each rank; or those of the
        ranks that have any. With several relevant items a rank counts only the
        irrelevant items that negatives are drawn from: it runs over ``1..n - n_relevant + 1``.

    Returns
    -------
    Estimator

    Raises
    ------
    ValueError
        If the prior is of the wrong length, negative, not finite or does not sum to 1.
    IllConditionedError
        A ValueError, if double precision cannot hold the values. They grow with the number of
        negatives, to 1e11 at 50 and 1e26 at 100 for ``Recall@10``, and nearly cancel in the
        average. Rounded to 16 digits they would have a larger bias than the smallest possible one.
        This happens from about 40 negatives on, unless the metric is a polynomial of low degree
        in the rank, as AUC is. Use :func:`bias_variance` there.

    See Also
    --------
    bias_variance : A smaller variance for a little more bias.
    monotone : The least bias without rising values.

    Examples
    --------
    >>> from sampled_metrics import metric
    >>> est = least_bias(metric("auc"), Protocol(n_items=1_000, n_negatives=5))
    >>> est.values.round(6) + 0.0
    array([1. , 0.8, 0.6, 0.4, 0.2, 0. ])
    """
    metric = parsed(metric)
    return replace(bias_variance(metric, protocol, 0.0, prior), name="least bias")


def bias_variance(
    metric: Metric | str, protocol: Protocol, gamma: float, prior: Prior = None
) -> Estimator:
    """The estimator with the least squared bias plus gamma times variance (eqs 24-26).

    The mean of ``(P M_hat - M)**2 + gamma * variance`` over the prior is minimised. With gamma 0
    this is :func:`least_bias`; with gamma 1 it is the posterior mean of the metric. P is scaled by
    the prior and by the marginal distribution of the outcome, so that its singular values are
    at most 1. From gamma 1e-4 on the normal equations are then well-conditioned; below, the
    solution comes from the singular values, so that every gamma >= 0 is allowed.

    Parameters
    ----------
    metric : Metric or str
    protocol : Protocol
        With one catalogue size.
    gamma : float
        Weight of the variance, at least 0 and finite.
    prior : optional
        As for :func:`least_bias`.

    Returns
    -------
    Estimator

    Raises
    ------
    ValueError
        If `gamma` is negative or not finite, or as :func:`least_bias`.
    IllConditionedError
        As :func:`least_bias`, if `gamma` is 0 or nearly 0.

    See Also
    --------
    default_gamma : What gamma to take.
    sampled_metrics.estimate : The same for a log, with standard errors.

    Examples
    --------
    >>> from sampled_metrics import metric
    >>> est = bias_variance(metric("recall@10"), Protocol(1_000, 20), gamma=0.1)
    >>> est.values[:3].round(3)
    array([ 0.44 , -0.243, -0.047])
    """
    metric = parsed(metric)
    if not isinstance(gamma, numbers.Real) or not 0 <= gamma < np.inf:
        raise ValueError(f"gamma must be a finite number >= 0, got {as_written(gamma)}")
    name = f"bias-variance, gamma {gamma:g}"
    if prior is None and protocol.whole:
        return Estimator(metric, protocol, naive(metric, protocol).values, name)
    groups = _systems(metric, protocol, _checked_prior(prior, protocol))
    rows = [row for group in groups for row in least_squares.solve(group, float(gamma))]
    return Estimator(metric, protocol, _stacked(rows), name)


def monotone(
    metric: Metric | str, protocol: Protocol, nonnegative: bool = False, prior: Prior = None
) -> Estimator:
    """The least-bias estimator among those that never rise with the sampled rank.

    This is the constrained least squares (CLS) of krichene2020, section 5.2. It is solved exactly,
    by non-negative least squares in the steps between neighbouring values.

    Parameters
    ----------
    metric : Metric or str
    protocol : Protocol
        With one catalogue size.
    nonnegative : bool
        Also require that no value is below 0.
    prior : optional
        As for :func:`least_bias`.

    Returns
    -------
    Estimator

    Raises
    ------
    ValueError
        As :func:`least_bias`.

    See Also
    --------
    least_bias : The same without the constraint.

    Examples
    --------
    >>> from sampled_metrics import metric
    >>> est = monotone(metric("recall@10"), Protocol(1_000, 20), nonnegative=True)
    >>> bool((np.diff(est.values) <= 0).all()), float(est.values[-1])
    (True, 0.0)
    """
    metric = parsed(metric)
    name = "monotone, non-negative" if nonnegative else "monotone"
    if prior is None and protocol.whole:
        return Estimator(metric, protocol, naive(metric, protocol).values, name)
    groups = _systems(metric, protocol, _checked_prior(prior, protocol))
    rows = [system.decreasing(nonnegative) for group in groups for system in group]
    return Estimator(metric, protocol, _stacked(rows), name)


#: The estimators that :func:`by_name` makes, by the names that all tables print.
NAMES = ("naive", "rank estimate", "least bias", "monotone", "bias-variance")


def by_name(
    name: str, metric: Metric | str, protocol: Protocol, *, gamma: float | None = None
) -> Estimator:
    """Make an estimator from its name.

    Parameters
    ----------
    name : {"naive", "rank estimate", "least bias", "monotone", "bias-variance"}
        The function of this module that is called, with its defaults.
    metric : Metric or str
    protocol : Protocol
        With one catalogue size, but for "naive".
    gamma : float, optional
        Weight of the variance: needed by "bias-variance", and used by it alone. See
        :func:`default_gamma`.

    Returns
    -------
    Estimator

    Raises
    ------
    ValueError
        If the name is unknown (the nearest one is suggested), "bias-variance" has no `gamma`, and
        as the function that is called.

    See Also
    --------
    naive, rank_estimate, least_bias, monotone, bias_variance : The functions themselves.
    sampled_metrics.metric : A metric from its name.

    Examples
    --------
    >>> protocol = Protocol(n_items=1_000, n_negatives=20)
    >>> for name in ("naive", "rank estimate", "monotone"):
    ...     print(name, by_name(name, "recall@10", protocol).expected([1, 50]).round(2))
    naive [1. 1.]
    rank estimate [1.   0.37]
    monotone [0.38 0.13]
    """
    if known(name) == "bias-variance":
        if gamma is None:
            raise ValueError(
                "gamma is needed for 'bias-variance': give a number > 0, or default_gamma(n_users)"
            )
        return bias_variance(metric, protocol, gamma)
    makers: dict[str, Callable[[Metric | str, Protocol], Estimator]] = {
        "naive": naive,
        "rank estimate": rank_estimate,
        "least bias": least_bias,
        "monotone": monotone,
    }
    return makers[name](metric, protocol)


def known(name: str) -> str:
    """The name of an estimator, or ValueError if :func:`by_name` has none.

    >>> known("naive")
    'naive'
    """
    if name not in NAMES:
        similar = difflib.get_close_matches(str(name), NAMES, n=1)
        hint = f"did you mean {similar[0]!r}?" if similar else f"use one of {', '.join(NAMES)}"
        raise ValueError(f"estimator {as_written(name)} is unknown: {hint}")
    return name


def default_gamma(n_users: int) -> float:
    """Weight of the variance for an average over `n_users` whose true ranks are unknown.

    ``1 / sqrt(n_users)`` is a compromise. If all users had one true rank, the mean squared error of
    the average would be ``bias**2 + variance / n_users``, and ``1 / n_users`` the best weight. If
    they were independent draws from the prior, their biases would cancel, and the best weight would
    be 1. For the recommenders of MovieLens the best weight falls about like the square root
    (the chapter on correcting, in the book).

    Parameters
    ----------
    n_users : int
        At least 1.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If `n_users` is below 1.

    See Also
    --------
    bias_variance : The estimator that takes gamma.

    Examples
    --------
    >>> default_gamma(6_400)
    0.0125
    """
    return 1.0 / float(np.sqrt(integer(n_users, "n_users", 1)))


def _stacked(rows: list[FloatArray]) -> FloatArray:
    return rows[0] if len(rows) == 1 else np.stack(rows)


@lru_cache(maxsize=16)
def _systems(metric: Metric, protocol: Protocol, prior: _Points | None) -> list[list[System]]:
    """The least-squares problem of each position, in groups that share their nodes."""
    n_ranks, m = int(protocol.pool) + 1, protocol.n_negatives
    positions = np.arange(1, protocol.n_relevant + 1)
    cuts = np.zeros_like(positions) if metric.k is None else np.maximum(metric.k + 1 - positions, 0)
    # Ranks near both ends are summed exactly, so that a jump there needs no break.
    is_near_end = (cuts <= m + MARGIN) | (cuts >= n_ranks - (m + MARGIN))
    cuts = np.where(is_near_end | (prior is not None), 0, cuts)
    groups = []
    for group_positions in np.split(positions, np.flatnonzero(np.diff(cuts)) + 1):
        rows = _weighted(protocol, prior or int(cuts[group_positions[0] - 1]))
        items = np.asarray(protocol.n_items)
        targets = [
            metric.smooth_term(rows.nodes + (j - 1), j, protocol.n_relevant, items)
            for j in group_positions
        ]
        groups.append([System(rows, target) for target in targets])
    return groups


@lru_cache(maxsize=16)
def _weighted(protocol: Protocol, prior: _Points | int) -> WeightedRows:
    """P over a prior, or over uniform ranks with a jump of the metric after rank `prior`."""
    if isinstance(prior, int):
        n_ranks = int(protocol.pool) + 1
        nodes, weights = all_ranks(n_ranks, protocol.n_negatives, (prior,) if prior else ())
        return WeightedRows(nodes, weights / n_ranks, protocol)
    return WeightedRows(np.array(prior[0], dtype=float), np.array(prior[1]), protocol)


def _forget() -> None:
    """Clear the caches, as before measuring time."""
    _systems.cache_clear()
    _weighted.cache_clear()


def _checked_prior(prior: Prior, protocol: Protocol) -> _Points | None:
    """The ranks with positive probability in order, with these probabilities; None for None."""
    n_ranks = one_size(protocol) - protocol.n_relevant + 1
    if prior is None:
        return None
    if isinstance(prior, Mapping):
        prior_ranks = integers(list(prior), "ranks of the prior", 1, n_ranks)
        mass = np.array(list(prior.values()), dtype=float)
    else:
        mass = np.asarray(prior, dtype=float)
        prior_ranks = np.arange(1, n_ranks + 1)
        if mass.shape != (n_ranks,):
            raise ValueError(f"prior must have shape ({n_ranks},), got {mass.shape}")
    if not np.isfinite(mass).all() or (mass < 0).any():
        bad = mass[~(np.isfinite(mass) & (mass >= 0))]
        raise ValueError(f"prior must hold finite numbers >= 0, got {bad[0]}")
    if abs(mass.sum() - 1) > 1e-9:
        raise ValueError(f"prior must sum to 1, got a sum of {mass.sum()}")
    by_rank = np.argsort(prior_ranks)
    positive = by_rank[mass[by_rank] > 0]
    return tuple(prior_ranks[positive].tolist()), tuple(mass[positive].tolist())
