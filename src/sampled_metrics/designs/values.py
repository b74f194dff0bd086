"""Values that each estimator gives the rows of a log, and their means over users."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, cached_property, partial

import numpy as np

from .. import estimators as corrections
from .. import learned_prior
from .._validate import FloatArray, IntArray
from ..metrics import Metric
from ..numerics.distributions import pmf_table
from ..protocol import Protocol, thinned
from .fits import Fits
from .sample import ProtocolClass, Sample, UserMean

#: The posterior mean under the prior learned from the benchmark.
LEARNED = "learned prior"
#: Corrections fitted to the log itself.
FITTED = ("bias-variance, fitted prior", "maximum entropy")
#: Names of all corrections.
ESTIMATORS = (LEARNED, *corrections.NAMES, *FITTED)
#: AUC from the Horvitz-Thompson estimates n_above (horvitz1952).
WEIGHTED = "n_above"
#: Biases below this share of the largest value are rounding errors.
_UNBIASED = 1e-9

#: Interpolation error allowed, as a share of the largest value.
_TOLERANCE = 1e-9
#: Catalogue sizes at which the monotone correction is computed.
_MONOTONE_SIZES = 32
#: Table entries held at once.
_BLOCK = 1 << 21

#: Maps a protocol to the values of an estimator, (n_relevant, m + 1).
Build = Callable[[Protocol], FloatArray]
#: Maps catalogue sizes to values, (sizes, n_relevant, m + 1).
AtSizes = Callable[[IntArray], FloatArray]
#: Interpolates values over sizes.
Between = Callable[[AtSizes, IntArray], AtSizes]


class Values:
    """Values that each estimator gives the rows of a sample; `gamma` is for bias-variance.

    `metrics` are those that bias-variance will be computed for: together they take little longer
    than one. `families` has that of each recommender, for the learned prior.
    """

    def __init__(
        self,
        sample: Sample,
        gamma: float,
        metrics: Sequence[Metric] = (),
        families: Sequence[str] | None = None,
    ) -> None:
        self.families = families or [""] * len(sample.names)
        self.sample, self.gamma, self.fits = sample, gamma, Fits(sample)
        self._metrics, self._built = list(metrics), dict[tuple[Metric, Protocol], FloatArray]()
        self._unbiased: dict[Metric, bool] = {}
        self._by_fitted = cache(partial(self.fits.bias_variance, gamma=gamma))
        self.learned = cache(self._learned)

    def means(self, metric: Metric, estimator: str) -> dict[str, UserMean]:
        """Estimates of a metric for all recommenders."""
        if estimator == LEARNED:
            logarithms, covariance = self.learned(metric)
            values, errors = np.exp(logarithms), np.sqrt(np.diag(covariance))
            return {
                name: UserMean(float(value), self.sample.users[name], float(value * error), {})
                for name, value, error in zip(self.sample.names, values, errors, strict=True)
            }
        if estimator == FITTED[0]:
            return self._by_fitted_prior(metric)
        if estimator in FITTED:
            return {
                recommender: self._plugged_in(metric, recommender)
                for recommender in self.sample.names
            }
        row_values = self.by_row(metric, estimator)
        return {
            recommender_name: self.sample.mean({recommender_name: row_values}, users)
            for recommender_name, users in self.sample.users.items()
        }

    @cached_property
    def not_learned(self) -> str:
        """Why the learned prior is not for the log; empty if it is."""
        if self.sample.log.shared_negatives:
            return "all users share their negatives"
        is_several = int(self.sample.relevant.max()) > 1 or not self.sample.one_row_per_user
        return "a user has several held-out items" if is_several else ""

    @cached_property
    def _posterior(self) -> learned_prior.Posterior:
        sample = self.sample
        columns = sample.better, sample.tied, sample.negatives, sample.items
        counts = learned_prior.counted(sample.counts, *columns, sample.replacement)
        prior = learned_prior.learned("movielens" if sample.log.exact_values else "")
        return learned_prior.fit(counts, prior.of(self.families))

    def _learned(self, metric: Metric) -> tuple[FloatArray, FloatArray]:
        """Logarithms of the estimates by the learned prior, and the covariance of their errors."""
        return self._posterior.logarithms(metric)

    def learned_error(
        self, metric: Metric, first: str, second: str, *, scaled: bool = False
    ) -> float:
        """The error of the difference of two logarithms by the learned prior.

        Of the values themselves if `scaled`.
        """
        logarithms, covariance = self.learned(metric)
        pair = [self.sample.names.index(name) for name in (first, second)]
        weights = np.exp(logarithms[pair]) if scaled else np.ones(2)
        weights[1] *= -1.0
        return float(np.sqrt(weights @ covariance[np.ix_(pair, pair)] @ weights))

    def by_row(self, metric: Metric, estimator: str) -> FloatArray:
        """Values of each kind by an estimator that is not fitted to the log."""
        if estimator == "naive":
            return self.naive(metric)
        if estimator == WEIGHTED:
            sample = self.sample
            share_above = sample.log.kinds["n_above"] / (sample.items - sample.relevant)
            return np.asarray((1.0 - share_above) / sample.relevant)
        return self.looked_up(
            self._build(metric, estimator), _BETWEEN.get(estimator, _by_polynomial)
        )

    def _build(self, metric: Metric, estimator: str) -> Build:
        """A function from protocols to the values of an estimator."""

        def build(protocol: Protocol) -> FloatArray:
            if estimator != "bias-variance":
                return np.atleast_2d(corrections.by_name(estimator, metric, protocol).values)
            if (metric, protocol) not in self._built:
                for built_metric in dict.fromkeys([metric, *self._metrics]):
                    estimator_values = corrections.bias_variance(
                        built_metric, protocol, self.gamma
                    ).values
                    self._built[built_metric, protocol] = np.atleast_2d(estimator_values)
            return self._built[metric, protocol]

        return build

    def _plugged_in(self, metric: Metric, recommender: str) -> UserMean:
        """The metric of fitted priors."""
        row_values = self._of_thinned(metric, self.fits.plugged_in(metric, recommender))
        return self.sample.mean({recommender: row_values}, self.sample.users[recommender])

    def _by_fitted_prior(self, metric: Metric) -> dict[str, UserMean]:
        """Bias-variance with a prior fitted to all recommenders together.

        A user contributes by the values of its own sampled ranks, and by the influence of its ranks
        under every recommender on the prior.
        """
        sample, means = self.sample, {}
        tables, influences = self._by_fitted(metric)
        row_values = self.looked_up(_of_places(metric, tables.__getitem__))
        for recommender, users in sample.users.items():
            value = float(sample.counts[recommender] @ row_values) / users
            row_influences = self._of_thinned(metric, influences[recommender] * users)
            by_name = dict.fromkeys(sample.names, row_influences)
            if sample.log.same_users:
                by_name[recommender] = row_influences + row_values
                means[recommender] = sample.mean(by_name, users, value)
            else:  # users of other recommenders contribute too
                by_name[recommender] = row_influences + (row_values - value / sample.relevant)
                error = sample.error(by_name, users, 0.0)
                means[recommender] = UserMean(value, users, error, by_name)
        return means

    def _of_thinned(self, metric: Metric, place_values: FloatArray) -> FloatArray:
        """Values of rows from those for the smallest number of negatives, over random subsets."""
        fewest = place_values.shape[1] - 1
        build = _of_places(metric, lambda m: place_values @ thinned(m, fewest).T)
        return self.looked_up(build)

    def looked_up(self, build: Build, between: Between | None = None) -> FloatArray:
        """Values of each kind, looked up in tables for its protocol."""
        row_values = np.empty(self.sample.better.size)
        for protocol_class in self.sample.classes:
            for block, size_index, table in _tables(build, between, protocol_class, self.sample):
                rows = protocol_class.rows[block]
                row_values[rows] = self._from_table(table, size_index, rows)
        return row_values

    def _from_table(self, table: FloatArray, size_index: IntArray, rows: IntArray) -> FloatArray:
        """Values of kinds of row from a table for their sizes, (sizes, n_relevant, m + 1).

        Ties with negatives get their mean value, by prefix sums.
        """
        sample, (_, relevant, n_columns) = self.sample, table.shape
        table_line, flat = size_index * relevant + sample.position[rows] - 1, table.ravel()
        first_entry, tied = table_line * n_columns + sample.better[rows], sample.tied[rows]
        sums = np.zeros((*table.shape[:2], n_columns + 1))
        np.cumsum(table, axis=2, out=sums[:, :, 1:])
        begin = first_entry + table_line  # `sums` has one more column
        means = (sums.ravel()[begin + tied + 1] - sums.ravel()[begin]) / (tied + 1)
        row_values = np.where(tied == 0, flat[first_entry], means)
        order = np.argsort(rows)
        for kinds, pmf in sample.tied_relevant(rows):
            tied_index = order[np.searchsorted(rows, kinds, sorter=order)]
            row_values[tied_index] = (
                flat[first_entry[tied_index][:, np.newaxis] + np.arange(pmf.size)] @ pmf
            )
        return np.asarray(row_values)

    def naive(self, metric: Metric) -> FloatArray:
        """Naive values of each kind; ties with negatives get their mean value.

        If n_negatives differs between users, tables of all ranks may be much longer than the ranks
        that occur; then only these are computed.
        """
        sample = self.sample
        n_entries = sum(
            protocol_class.n_relevant * (protocol_class.n_negatives + 1)
            for protocol_class in sample.classes
        )
        row_values = np.empty(sample.better.size)
        if int((sample.tied + 1).sum()) > n_entries:
            for protocol_class in sample.classes:
                table = _naive_table(metric, protocol_class.n_negatives, protocol_class.n_relevant)[
                    np.newaxis
                ]
                row_values[protocol_class.rows] = self._from_table(
                    table, np.zeros_like(protocol_class.size), protocol_class.rows
                )
            return row_values
        for relevant in sample.relevant_numbers[0].tolist():
            relevant_rows = np.flatnonzero(sample.relevant == relevant)
            ends = np.cumsum(sample.tied[relevant_rows] + 1)
            cuts = np.searchsorted(ends, np.arange(_BLOCK, ends[-1], _BLOCK), side="right")
            for rows in filter(len, np.split(relevant_rows, cuts)):
                starts, row, above, shares = sample.broken_ties(rows)
                j = sample.position[row]
                values = metric.term(above + j, j, relevant, sample.negatives[row] + relevant)
                row_values[rows] = np.add.reduceat(values * shares, starts)
        return row_values

    def span(self, metric: Metric) -> tuple[float, float]:
        """The least and largest naive value that a user can have.

        Metrics decrease in the rank, so these have all relevant items last or first.
        """
        low, high = np.inf, -np.inf
        for relevant in self.sample.relevant_numbers[0].tolist():
            negatives = np.unique(self.sample.negatives[self.sample.relevant == relevant])
            j = np.arange(1, relevant + 1)[:, np.newaxis]
            for m in np.array_split(negatives, 1 + negatives.size * relevant // _BLOCK):
                last = metric.term(m + j, j, relevant, m + relevant).sum(axis=0)
                first = metric.term(j, j, relevant, m + relevant).sum(axis=0)
                low, high = min(low, float(last.min())), max(high, float(first.max()))
        return low, high

    def unbiased(self, metric: Metric) -> bool:
        """Whether the naive metric equals the exact one in expectation, at all true ranks.

        True for AUC, which is linear in the rank, as is the expected sampled rank; and for users
        with all negatives, whose sampled ranks are exact.
        With replacement copies of an item share a place, which matters if the values are not linear
        in the sampled rank. Then none is unbiased if there are two irrelevant items or more.
        """
        if metric not in self._unbiased:
            self._unbiased[metric] = metric.linear or all(
                is_unbiased(
                    metric,
                    self.sample.protocol(
                        size, protocol_class.n_negatives, protocol_class.n_relevant
                    ),
                )
                for protocol_class in self.sample.classes
                if not self.sample.is_whole(protocol_class)
                for size in protocol_class.sizes[
                    np.linspace(0, protocol_class.sizes.size - 1, 5).astype(np.intp)
                ].tolist()
            )
        return self._unbiased[metric]


def _naive_table(metric: Metric, m: int, relevant: int) -> FloatArray:
    """The metric of each sampled rank, (relevant, m + 1)."""
    j = np.arange(1, relevant + 1)[:, np.newaxis]
    return np.asarray(metric.term(np.arange(m + 1) + j, j, relevant, m + relevant))


def _of_places(metric: Metric, place_values: Callable[[int], FloatArray]) -> Build:
    """Values weighted by the metric, from unweighted ones for a number of negatives."""

    def build(protocol: Protocol) -> FloatArray:
        relevant = protocol.n_relevant
        weight = float(metric.term(1, 1, relevant, relevant + 1))
        return np.asarray(weight * place_values(protocol.n_negatives)[:relevant])

    return build


def is_unbiased(metric: Metric, protocol: Protocol) -> bool:
    """Whether the naive metric equals the exact one in expectation, at all true ranks.

    The expectation is a polynomial of degree m in the rank. Two different ones differ at one of the
    Chebyshev points, so these are checked, and both ends, and the jump of the metric.
    """
    pool, relevant, m = int(protocol.pool), protocol.n_relevant, protocol.n_negatives
    angles = np.linspace(0.0, np.pi, int(4 * np.pi * np.sqrt(m)) + 2)
    jump = np.clip([(metric.k or 1) - 1, metric.k or 1], 0, pool)
    points = np.round(0.5 * pool * (1.0 - np.cos(angles)))
    above = np.append(jump, np.unique(points)).astype(np.int64)  # most metrics differ at the jump
    values, j = _naive_table(metric, m, relevant), np.arange(1, relevant + 1)[:, np.newaxis]
    tolerance = _UNBIASED * float(metric.term(j, j, relevant, protocol.n_items).max())
    for block in np.array_split(above, 2 + above.size * (m + 1) // _BLOCK):
        expected = values @ pmf_table(m, block, pool, protocol.replacement).T
        exact = metric.term(block + j, j, relevant, protocol.n_items)
        if np.abs(expected - exact).max(initial=0.0) >= tolerance:
            return False
    return True


def _tables(
    build: Build, between: Between | None, protocol_class: ProtocolClass, sample: Sample
) -> Iterator[tuple[slice, IntArray, FloatArray]]:
    """Values for all sizes of a class, block by block; `between` is None if sizes do not matter.

    Yields the slice of the class's rows, the index of each row's size, and the table,
    (sizes, n_relevant, m + 1).
    """

    def exact(sizes: IntArray) -> FloatArray:
        n_negatives, n_relevant = protocol_class.n_negatives, protocol_class.n_relevant
        return np.stack(
            [build(sample.protocol(n, n_negatives, n_relevant)) for n in sizes.tolist()]
        )

    if between is None:
        yield (
            slice(None),
            np.zeros(protocol_class.rows.size, dtype=np.int64),
            exact(protocol_class.sizes[:1]),
        )
        return
    at_sizes = between(exact, protocol_class.sizes)
    length = max(1, _BLOCK // (protocol_class.n_relevant * (protocol_class.n_negatives + 1)))
    for start in range(0, protocol_class.sizes.size, length):
        block = slice(*np.searchsorted(protocol_class.size, [start, start + length]).tolist())
        yield (
            block,
            protocol_class.size[block] - start,
            at_sizes(protocol_class.sizes[start : start + length]),
        )


def _by_size(exact: AtSizes, sizes: IntArray) -> AtSizes:
    """Values computed at every size, without interpolation."""
    return exact


def _by_polynomial(exact: AtSizes, sizes: IntArray) -> AtSizes:
    """Interpolate values by a polynomial in the logarithm of the size.

    Nodes are Chebyshev points rounded to whole numbers, doubled until values at three sizes in
    between are right; if that needs as many nodes as sizes, nothing is interpolated.
    """
    count = 12
    test_sizes = sizes[np.linspace(0, sizes.size - 1, 5).round().astype(np.intp)[1:4]]
    expected: FloatArray | None = None
    while 2 * count < sizes.size:
        expected = exact(test_sizes) if expected is None else expected
        nodes = _nodes(sizes, 0.5 * (1.0 - np.cos(np.pi * (np.arange(count) + 0.5) / count)))
        polynomial = _barycentric(np.log(nodes), exact(nodes))
        error = np.abs(polynomial(np.log(test_sizes)) - expected).max()
        if error <= _TOLERANCE * np.abs(expected).max():
            return lambda query_sizes: polynomial(np.log(query_sizes))
        count *= 2
    return exact


def _nodes(sizes: IntArray, points: FloatArray) -> IntArray:
    """Whole numbers near points of [0, 1] mapped to the range of log sizes."""
    low, high = np.log(sizes[[0, -1]])
    return np.unique(np.round(np.exp(low + points * (high - low))).astype(np.int64))


def _barycentric(nodes: FloatArray, values: FloatArray) -> Callable[[FloatArray], FloatArray]:
    """The polynomial through values at nodes, by the barycentric formula (berrut2004).

    `scipy.interpolate` has it, but takes longer to import than this takes to compute.
    """
    gaps = 4.0 * np.subtract.outer(nodes, nodes) / (nodes[-1] - nodes[0])
    np.fill_diagonal(gaps, 1.0)
    weights = 1.0 / gaps.prod(axis=1)

    def at(points: FloatArray) -> FloatArray:
        distances = np.subtract.outer(points, nodes)
        is_node = distances == 0
        shares = np.where(is_node, 1.0, weights / np.where(is_node, 1.0, distances))
        shares[is_node.any(axis=1)] = is_node[is_node.any(axis=1)]
        return np.tensordot(shares / shares.sum(axis=1, keepdims=True), values, 1)

    return at


def _by_lines(exact: AtSizes, sizes: IntArray) -> AtSizes:
    """Interpolate values linearly in the logarithm of the size, for the monotone correction.

    It has many nearly optimal solutions and jumps between them from size to size. A convex
    combination of two is monotone too, and nearly optimal.
    """
    if sizes.size <= _MONOTONE_SIZES:
        return exact
    nodes = _nodes(sizes, np.linspace(0.0, 1.0, _MONOTONE_SIZES))
    values, log_nodes = exact(nodes), np.log(nodes)

    def at(points: IntArray) -> FloatArray:
        x = np.log(points)
        lower = np.clip(np.searchsorted(log_nodes, x, side="right") - 1, 0, nodes.size - 2)
        share = ((x - log_nodes[lower]) / (log_nodes[lower + 1] - log_nodes[lower]))[
            :, np.newaxis, np.newaxis
        ]
        return np.asarray((1.0 - share) * values[lower] + share * values[lower + 1])

    return at


#: Interpolation for estimators that are not smooth in the catalogue size.
_BETWEEN: dict[str, Between] = {"rank estimate": _by_size, "monotone": _by_lines}
