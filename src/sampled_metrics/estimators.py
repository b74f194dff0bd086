"""M-hat: what an evaluation reports for each sampled rank, and what that means in expectation.

An estimator is a vector over the sampled ranks. Its expectation at a true rank is the sum of its
values, each times the probability of that sampled rank: P M-hat. `naive`, the metric applied to the
sampled rank as if the sample were the catalogue, is the one that everyone reports.
"""

from __future__ import annotations

import difflib
import numbers
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from ._validate import FloatArray, IntArray, as_written, integer, integers
from .metrics import Metric
from .metrics import metric as parsed
from .numerics import distributions, least_squares
from .numerics.distributions import log_hypergeometric, log_law
from .numerics.least_squares import IllConditionedError as IllConditionedError
from .numerics.least_squares import Law, System
from .numerics.quadrature import MARGIN, all_ranks
from .protocol import Protocol, drawn_alike, one_size

#: A prior over the true ranks; see :func:`least_bias`.
Prior = ArrayLike | Mapping[int, float] | None

#: Entries of the law held in memory at once.
_BLOCK = 1 << 20
#: From so many counts of negatives on, those that are too rare to matter are left out: those
#: outside bounds that hold but for 2 exp(-70), about 1e-30.
_WIDE, _RARE = 200, 70.0


@dataclass(frozen=True, eq=False, repr=False)
class Estimator:
    """A value for each sampled rank, judged under the protocol that produced the rank.

    Attributes
    ----------
    metric : Metric
        What it estimates.
    protocol : Protocol
        How negatives are sampled.
    values : ndarray of float, shape (m + 1,) or (n_relevant, m + 1)
        What it reports when 0, 1, ..., m sampled negatives are above the item; with several
        relevant items a row for each position among them, to be summed over the items.
    name : str

    See Also
    --------
    by_name : An estimator from its name.
    naive, rank_estimate, least_bias, bias_variance, monotone : The estimators of krichene2020.
    sampled_metrics.relevant_sets.RelevantSets.expected : The same where items are tied.

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
        columns, relevant = self.protocol.n_negatives + 1, self.protocol.n_relevant
        expected = (columns,) if relevant == 1 else (relevant, columns)
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

    def __call__(self, sampled_ranks: ArrayLike, position: int = 1) -> FloatArray:
        """Reported value for each sampled rank, in [position, position + m]; any shape.

        Raises
        ------
        ValueError
            If a sampled rank is outside that range.

        Examples
        --------
        >>> from sampled_metrics import metric
        >>> naive(metric("ap"), Protocol(n_items=100, n_negatives=4))([1, 2, 5])
        array([1. , 0.5, 0.2])
        """
        row = self._row(position)
        ranks = integers(
            sampled_ranks, "sampled_ranks", position, position + self.protocol.n_negatives
        )
        return np.asarray(row[ranks - position])

    def expected(self, rank: ArrayLike, position: int = 1) -> FloatArray:
        """Exact expectation at each true rank: P M-hat (krichene2020, eq. 16).

        Parameters
        ----------
        rank : array_like of int, shape (...)
            True ranks; broadcasts with the protocol's `n_items`.
        position : int
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
        row = self._row(position)
        if row.size > _WIDE and row.all():
            return self._over_likely(rank, position, lambda law, value: law @ value)
        reach = int(np.max(np.nonzero(row)[0], initial=0)) + 1
        parts = [each @ row[:reach] for each in self._law_blocks(rank, position, reach)]
        return self._joined(parts, rank)

    def variance(self, rank: ArrayLike, position: int = 1) -> FloatArray:
        """Exact variance at each true rank, over the draws of negatives; arguments as `expected`.

        Examples
        --------
        >>> from sampled_metrics import metric
        >>> est = naive(metric("recall@10"), Protocol(n_items=10_000, n_negatives=99))
        >>> est.variance([1, 1_000]).round(3)
        array([0.   , 0.249])
        """
        row = self._row(position)
        parts = []
        for each in self._law_blocks(rank, position, row.size):
            mean = each @ row
            parts.append(np.einsum("ij,ij->i", each, (row - mean[:, np.newaxis]) ** 2))
        return self._joined(parts, rank)

    def bias(self, rank: ArrayLike, position: int = 1) -> FloatArray:
        """Exact bias at each true rank: P M-hat - M; arguments as `expected`.

        Examples
        --------
        >>> from sampled_metrics import metric
        >>> est = naive(metric("recall@10"), Protocol(n_items=10_000, n_negatives=99))
        >>> est.bias([1, 100]).round(6)
        array([0., 1.])
        """
        exact = self.metric.term(rank, position, self.protocol.n_relevant, self.protocol.n_items)
        return self.expected(rank, position) - exact

    def mse(self, rank: ArrayLike, position: int = 1) -> FloatArray:
        """Exact mean squared error at each true rank: bias**2 + variance; arguments as `expected`.

        Examples
        --------
        >>> from sampled_metrics import metric
        >>> est = naive(metric("recall@10"), Protocol(n_items=10_000, n_negatives=99))
        >>> est.mse([1, 100]).round(6)
        array([0., 1.])
        """
        return np.asarray(self.bias(rank, position) ** 2 + self.variance(rank, position))

    def expected_of_set(self, ranks: ArrayLike) -> float:
        """Exact expectation for one instance with several relevant items.

        The metric is a sum over the items. So the distribution of each item's own sampled rank is
        enough, although these ranks depend on one another.

        Parameters
        ----------
        ranks : array_like of int, shape (n_relevant,)
            Their distinct true ranks, in any order.

        Raises
        ------
        ValueError
            If `ranks` is not a set of the protocol's `n_relevant` ranks.

        Examples
        --------
        >>> from sampled_metrics import metric
        >>> est = naive(metric("auc"), Protocol(n_items=10, n_negatives=3, n_relevant=2))
        >>> est.expected_of_set([3, 5]), metric("auc").of_set([3, 5], n_items=10)
        (0.6875, 0.6875)
        """
        ordered = self.protocol.checked_set(ranks)
        terms = [self.expected(rank, j) for j, rank in enumerate(ordered, start=1)]
        return float(np.sum(terms))

    def variance_of_set(self, ranks: ArrayLike) -> float:
        """Exact variance for one instance with several relevant items, over the draws of negatives.

        All items are ranked among one sample, so their terms are correlated. Every negative above
        one relevant item is equally likely to be above the next better item, too. The counts
        therefore form a Markov chain, and the sum of the terms so far is carried along it.

        Parameters
        ----------
        ranks : array_like of int, shape (n_relevant,)
            Their distinct true ranks, in any order.

        Raises
        ------
        ValueError
            If `ranks` is not a set of the protocol's `n_relevant` ranks.

        Examples
        --------
        Two neighbours have the same negatives above them. The standard deviation of their sum is
        twice that of one of them, and its variance twice the sum of the variances:

        >>> from sampled_metrics import metric
        >>> pair = naive(metric("auc"), Protocol(n_items=12, n_negatives=4, n_relevant=2))
        >>> pair.variance_of_set([6, 7]), float(pair.variance(6) + pair.variance(7, position=2))
        (0.0625, 0.03125)
        """
        ordered = drawn_alike(self.protocol).checked_set(ranks)
        replacement = self.protocol.replacement
        before, counts, so_far, total = 0, np.arange(1), np.zeros(1), 0.0
        for j, rank in enumerate(ordered, start=1):
            above, law = int(rank) - j, self.protocol.pmf(rank, j)
            # What is rarer than this adds nothing to 16 digits, and would cost most of the time.
            likely = np.flatnonzero(law > 1e-60)
            centred = (self._row(j) - law @ self._row(j))[likely]
            # Expected sum of the better items' terms, given the count above this one.
            carried = np.empty(likely.size)
            for part in np.array_split(np.arange(likely.size), likely.size**2 // _BLOCK + 1):
                given = likely[part, np.newaxis]
                carried[part] = np.exp(log_law(counts, given, before, above, replacement)) @ so_far
            total += float(law[likely] @ (centred * (centred + 2.0 * carried)))
            before, counts, so_far = above, likely, carried + centred
        return max(total, 0.0)

    def _row(self, position: int) -> FloatArray:
        j = integer(position, "position", 1, self.protocol.n_relevant)
        return self.values if self.values.ndim == 1 else self.values[j - 1]

    def _over_likely(
        self,
        rank: ArrayLike,
        position: int,
        of: Callable[[FloatArray, FloatArray], FloatArray],
    ) -> FloatArray:
        """A function of the law and the values at each rank, without counts rarer than 1e-30.

        They change a sum of values that are all of some size by less than its rounding. Ranks with
        similar shares of items above them come together, so that they share their likely counts.
        """
        row, m = self._row(position), self.protocol.n_negatives
        above = self.protocol.above(rank, position)
        ranks, items, above = np.broadcast_arrays(np.asarray(rank), self.protocol.n_items, above)
        share = above.ravel() / (items.ravel() - self.protocol.n_relevant)
        # Bernstein's inequality, which draws without replacement obey, too.
        far = _RARE / 3
        far = far + np.sqrt(far**2 + 2 * _RARE * m * share * (1 - share))
        low = np.floor(m * share - far).clip(0).astype(int)
        high = np.ceil(m * share + far).clip(None, m).astype(int)
        found, order = np.empty(share.size), np.argsort(share)
        for part in np.array_split(order, share.size // 128 + 1) if share.size else ():
            counts = np.arange(low[part].min(), high[part].max() + 1)
            sub = replace(self.protocol, n_items=items.ravel()[part])
            law = sub.pmf(ranks.ravel()[part], position, counts)
            found[part] = of(law, row[counts])
        return found.reshape(ranks.shape)

    def _law_blocks(self, rank: ArrayLike, position: int, width: int) -> Iterator[FloatArray]:
        """Probabilities of the first counts at each rank in turn, in blocks of bounded size."""
        above, protocol = self.protocol.above(rank, position), self.protocol
        if not protocol.uniform:
            yield protocol.pmf(np.ravel(rank), position, np.arange(width))
            return
        above, pool = (each.ravel() for each in np.broadcast_arrays(above, protocol.pool))
        rows = max(1, _BLOCK // width)
        for start in range(0, above.size, rows):
            part = slice(start, start + rows)
            given = protocol.n_negatives, above[part], pool[part], protocol.replacement
            yield distributions.law(*given, width)

    def _joined(self, parts: list[FloatArray], rank: ArrayLike) -> FloatArray:
        shape = np.broadcast_shapes(np.shape(rank), np.shape(self.protocol.n_items))
        return np.concatenate(parts).reshape(shape) if parts else np.empty(shape)


class _Naive(Estimator):
    """The naive estimator: the general sum is replaced by a closed form where there is one."""

    def expected(self, rank: ArrayLike, position: int = 1) -> FloatArray:
        if not self.protocol.uniform:
            return super().expected(rank, position)
        if self.metric.linear:
            return self.metric.term(rank, position, self.protocol.n_relevant, self.protocol.n_items)
        whole = self.metric.k is None or self.metric.k > self.protocol.n_negatives
        if position == 1 and whole and self.metric.kind in ("ap", "rr"):
            best = self._row(1)[0]
            return np.asarray(expected_average_precision(rank, self.protocol) * best)
        return super().expected(rank, position)


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
    m, relevant = protocol.n_negatives, protocol.n_relevant
    j = np.arange(1, relevant + 1)[:, np.newaxis]
    values = metric.term(np.arange(m + 1) + j, j, relevant, m + relevant)
    return _Naive(metric, protocol, values[0] if relevant == 1 else values, "naive")


def expected_average_precision(rank: ArrayLike, protocol: Protocol) -> FloatArray:
    """Expectation of 1 / (1 + negatives above the best relevant item), in closed form.

    With one relevant item this is expected sampled Average Precision. With replacement it is
    krichene2020, eq. 19, ``(1 - q**(m + 1)) / ((m + 1) p)``; without,
    ``n / (r (m + 1)) (1 - C(n - r, m + 1) / C(n, m + 1))``, which the paper does not give.
    Both are evaluated so that no digits cancel when few negatives are expected above the item.

    Parameters
    ----------
    rank : array_like of int, shape (...)
        True rank of the best relevant item; broadcasts with the protocol's `n_items`.
    protocol : Protocol

    Returns
    -------
    ndarray of float, shape (...)
        In (0, 1].

    Raises
    ------
    ValueError
        If a rank is outside what the protocol allows.

    See Also
    --------
    naive : Its `expected` uses this formula.

    Examples
    --------
    >>> float(expected_average_precision(3, Protocol(n_items=5, n_negatives=2)).round(6))
    0.583333
    >>> without = Protocol(n_items=5, n_negatives=2, replacement=False)
    >>> float(expected_average_precision(3, without).round(6))
    0.555556
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

    Accurate in relative terms: where the probability is near 1 it is a sum of like-signed
    logarithms, over the fewer of the draws and the marked items, which have the same role.
    """
    out = np.asarray(log_hypergeometric(np.array(0), draws, marked, total))
    rare = draws * marked < 0.1 * total
    few, many = np.minimum(marked, draws)[rare], np.maximum(marked, draws)[rare]
    if few.size:
        log_none, left = np.zeros(few.shape), total[rare]
        for i in range(int(few.max())):
            log_none += np.where(i < few, np.log1p(-many / np.maximum(left - i, many + 1)), 0.0)
        out[rare] = log_none
    return out


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
    items, relevant, m = one_size(protocol), protocol.n_relevant, protocol.n_negatives
    below, part = np.divmod(np.arange(m + 1) * (items - relevant), m)
    rows = []
    for j in range(1, relevant + 1):
        row = metric.term(below + j, j, relevant, items)
        if rounding == "linear":
            following = metric.term(np.minimum(below + 1, items - relevant) + j, j, relevant, items)
            row = row + (part / m) * (following - row)
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
        ranks that have any, as :func:`observed` gives them. With several relevant items a
        rank counts the irrelevant items only: it runs over ``1..n - n_relevant + 1``.

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
    the prior and by the marginal distribution of the sampled rank, so that its singular values are
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
    default_gamma, choose_gamma : What gamma to take.
    sampled_metrics.evaluation.estimate : The same for a log, with standard errors.

    Examples
    --------
    >>> from sampled_metrics import metric
    >>> est = bias_variance(metric("recall@10"), Protocol(1_000, 20), gamma=0.1)
    >>> est.values[:3].round(3)
    array([ 0.44 , -0.243, -0.047])
    """
    metric = parsed(metric)
    weight = _checked_gamma(gamma)
    rows = _solved(metric, protocol, prior, weight)
    return Estimator(metric, protocol, _stacked(rows), f"bias-variance, gamma {weight:g}")


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
    rows = [system.decreasing(nonnegative) for system in _systems(metric, protocol, prior)]
    name = "monotone, non-negative" if nonnegative else "monotone"
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
    """Return the name of an estimator as it is, or raise ValueError if :func:`by_name` has none.

    Examples
    --------
    >>> known("nave")
    Traceback (most recent call last):
    ...
    ValueError: estimator 'nave' is unknown: did you mean 'naive'?
    """
    if name not in NAMES:
        near = difflib.get_close_matches(str(name), NAMES, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"use one of {', '.join(NAMES)}"
        raise ValueError(f"estimator {as_written(name)} is unknown: {hint}")
    return name


def default_gamma(n_users: int) -> float:
    """Weight of the variance for an average over `n_users` whose true ranks are unknown.

    It is ``1 / sqrt(n_users)``, a compromise. If all users were alike, the mean squared error of
    the average would be ``bias**2 + variance / n_users``, and the best weight ``1 / n_users``. If
    they were independent draws from the estimator's prior, their biases would cancel, and the best
    weight would be 1. Real users are neither: for the recommenders of MovieLens the best weight
    falls about like the square root (chapters 6 and 16 of the book).

    Parameters
    ----------
    n_users : int
        At least 1.

    Raises
    ------
    ValueError
        If `n_users` is below 1.

    See Also
    --------
    choose_gamma : Where typical true ranks are known.
    bias_variance : The estimator that takes gamma.

    Examples
    --------
    >>> default_gamma(6_400)
    0.0125
    """
    return 1.0 / float(np.sqrt(integer(n_users, "n_users", 1)))


def choose_gamma(
    metric: Metric | str,
    protocol: Protocol,
    n_users: int,
    ranks: ArrayLike | None = None,
    prior: Prior = None,
) -> float:
    """The gamma whose average over `n_users` is expected to be closest to the exact average.

    The mean squared error of an average over N users is ``(mean bias)**2 + (mean variance) / N``.
    Given `ranks` like those of the users, say of a recommender that was ranked exactly, this error
    is minimised over gamma in [1e-12, 1]. Without `ranks`, gamma is that of :func:`default_gamma`.

    Parameters
    ----------
    metric : Metric or str
    protocol : Protocol
        With one catalogue size and one relevant item.
    n_users : int
        Evaluation users that the metric is averaged over, at least 1.
    ranks : array_like of int, optional
        True ranks that are typical of the users.
    prior : optional
        Prior of the estimator, as for :func:`least_bias`.

    Returns
    -------
    float
        In (0, 1].

    Raises
    ------
    ValueError
        If `n_users` is below 1, there are several relevant items, or a rank is out of range.

    See Also
    --------
    default_gamma : Where no true ranks are known.
    bias_variance : The estimator that takes gamma.

    Examples
    --------
    >>> from sampled_metrics import metric
    >>> protocol = Protocol(n_items=1_000, n_negatives=20)
    >>> choose_gamma(metric("ap"), protocol, n_users=100)
    0.1
    >>> few, many = (choose_gamma(metric("ap"), protocol, N, [1, 5, 30]) for N in (10, 10_000))
    >>> few > many
    True
    """
    metric = parsed(metric)
    users = integer(n_users, "n_users", 1)
    integer(drawn_alike(protocol).n_relevant, "n_relevant", 1, 1)
    if ranks is None:
        return default_gamma(users)
    shares = observed(ranks)
    at, share = np.array(list(shares)), np.array(list(shares.values()))
    exact = float(share @ metric(at, protocol.n_items))
    # The law at every rank once: its mean, and its mean products, give mean and variance of all.
    width, done = protocol.n_negatives + 1, 0
    mean, products = np.zeros(width), np.zeros((width, width))
    for law in naive(metric, protocol)._law_blocks(at, 1, width):
        weighted = share[done : done + len(law), np.newaxis] * law
        mean += weighted.sum(axis=0)
        products += weighted.T @ law
        done += len(law)

    def error(log_gamma: float) -> float:
        try:
            values = bias_variance(metric, protocol, 10.0**log_gamma, prior).values
        except IllConditionedError:
            return np.inf
        bias = float(mean @ values) - exact
        variance = float(mean @ values**2 - values @ products @ values)
        return bias**2 + max(variance, 0.0) / users

    # The error can have several minima: the best of a grid is refined between its neighbours.
    grid = np.linspace(-12, 0, 49)
    best = int(np.argmin([error(g) for g in grid]))
    bounds = float(grid[max(best - 1, 0)]), float(grid[min(best + 1, grid.size - 1)])
    from scipy.optimize import minimize_scalar  # takes as long to import as all the rest

    found = minimize_scalar(error, bounds=bounds, method="bounded", options={"xatol": 1e-3})
    return float(10.0 ** (found.x if found.fun < error(grid[best]) else grid[best]))


def observed(ranks: ArrayLike) -> dict[int, float]:
    """The prior that gives each true rank its share of the observed `ranks`.

    Parameters
    ----------
    ranks : array_like of int, at least one
        True ranks, 1 the best.

    Returns
    -------
    dict of int to float
        Its values sum to 1.

    Raises
    ------
    ValueError
        If there are none, or one is fractional or below 1.

    See Also
    --------
    sampled_metrics.priors.maximum_entropy : A prior from sampled ranks.

    Examples
    --------
    >>> observed([3, 1, 3, 8])
    {1: 0.25, 3: 0.5, 8: 0.25}
    """
    if np.size(ranks) == 0:
        raise ValueError("ranks must hold at least one rank, got none")
    values, counts = np.unique(integers(ranks, "ranks", 1), return_counts=True)
    return dict(zip(values.tolist(), (counts / counts.sum()).tolist(), strict=True))


def _stacked(rows: list[FloatArray]) -> FloatArray:
    return rows[0] if len(rows) == 1 else np.stack(rows)


def _checked_gamma(gamma: float) -> float:
    if not isinstance(gamma, numbers.Real) or not 0 <= gamma < np.inf:
        raise ValueError(f"gamma must be a finite number >= 0, got {as_written(gamma)}")
    return float(gamma)


def _systems(metric: Metric, protocol: Protocol, prior: Prior) -> list[System]:
    """The least-squares problem of each position among the relevant items."""
    ranks = one_size(protocol) - protocol.n_relevant + 1
    points = None if prior is None else _checked_prior(prior, ranks)
    return [system for group in _by_law(metric, protocol, points) for system in group]


def _solved(metric: Metric, protocol: Protocol, prior: Prior, gamma: float) -> list[FloatArray]:
    """The values of each position that minimise squared bias plus gamma times variance."""
    points = (
        None
        if prior is None
        else _checked_prior(prior, one_size(protocol) - protocol.n_relevant + 1)
    )
    found = (least_squares.solve(group, gamma) for group in _by_law(metric, protocol, points))
    return [row for rows in found for row in rows]


@lru_cache(maxsize=16)
def _by_law(
    metric: Metric, protocol: Protocol, prior: tuple[tuple[int, ...], tuple[float, ...]] | None
) -> list[list[System]]:
    """The systems of positions, in order, those together that have the same sums over the ranks."""
    items, relevant, m = one_size(protocol), protocol.n_relevant, protocol.n_negatives
    positions = np.arange(1, relevant + 1)
    cuts = np.full(relevant, 0) if metric.k is None else np.maximum(metric.k - positions + 1, 0)
    # All ranks near both ends are summed one by one, so that a jump there is none to heed.
    near = (cuts <= m + MARGIN) | (cuts >= items - relevant + 1 - (m + MARGIN))
    cuts = np.where(near | (prior is not None), 0, cuts)
    groups = []
    for some in np.split(positions, np.flatnonzero(np.diff(cuts)) + 1):
        cut = int(cuts[some[0] - 1])
        of = _law(items - relevant + 1, m, protocol.replacement, prior or cut)
        j = some[:, np.newaxis]
        targets = metric.term_between(of.nodes + (j - 1), j, relevant, np.array(items))
        groups.append([System(of, target) for target in targets])
    return groups


@lru_cache(maxsize=16)
def _law(
    ranks: int,
    m: int,
    replacement: bool,
    prior: tuple[tuple[int, ...], tuple[float, ...]] | int,
) -> Law:
    """The law over a prior, or over all ranks alike with a jump of the metric after one of them."""
    if isinstance(prior, int):
        nodes, weights = all_ranks(ranks, m, (prior,) if prior else ())
        weights = weights / ranks
    else:
        nodes, weights = np.array(prior[0], dtype=float), np.array(prior[1])
    return Law(nodes, weights, ranks - 1, m, replacement)


def _forget() -> None:
    """Drop what was kept of earlier estimators, as before a measurement."""
    _by_law.cache_clear()
    _law.cache_clear()


def _checked_prior(prior: Prior, ranks: int) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """The ranks that have a probability and the probabilities, in order of rank."""
    if isinstance(prior, Mapping):
        at = integers(list(prior), "ranks of the prior", 1, ranks)
        mass = np.array(list(prior.values()), dtype=float)
    else:
        mass = np.asarray(prior, dtype=float)
        at = np.arange(1, ranks + 1)
        if mass.shape != (ranks,):
            raise ValueError(f"prior must have shape ({ranks},), got {mass.shape}")
    if not np.isfinite(mass).all() or (mass < 0).any():
        bad = mass[~(np.isfinite(mass) & (mass >= 0))]
        raise ValueError(f"prior must hold finite numbers >= 0, got {bad[0]}")
    if abs(mass.sum() - 1) > 1e-9:
        raise ValueError(f"prior must sum to 1, got a sum of {mass.sum()}")
    by_rank = np.argsort(at)
    kept = by_rank[mass[by_rank] > 0]
    return tuple(at[kept].tolist()), tuple(mass[kept].tolist())
