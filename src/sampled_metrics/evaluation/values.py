"""Values that each estimator gives the rows of a log, and their means over users."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from .. import estimators as corrections
from .._validate import FloatArray, IntArray
from ..metrics import Metric
from ..numerics.distributions import law
from ..protocol import Design, fixed, thinned
from .fits import Fits
from .sample import ProtocolClass, Sample, UserMean

#: Corrections fitted to the log itself.
FITTED = ("bias-variance, fitted prior", "maximum entropy", "maximum likelihood")
#: Names of all corrections.
ESTIMATORS = (*corrections.NAMES, *FITTED)
#: Those that adaptive designs have.
ADAPTIVE = ("bias-variance", *FITTED)
#: AUC from the Horvitz-Thompson estimates n_above (horvitz1952).
WEIGHTED = "n_above"
#: Biases below this are rounding errors.
_UNBIASED = 1e-9

#: Interpolation error allowed, as a share of the largest value.
_TOLERANCE = 1e-9
#: Catalogue sizes at which the monotone correction is computed.
_MONOTONE_SIZES = 32
#: Table entries held at once.
_BLOCK = 1 << 21

#: Maps a protocol to the values of an estimator, (n_relevant, m + 1).
Build = Callable[[Design], FloatArray]
#: Maps catalogue sizes to values, (sizes, n_relevant, m + 1).
AtSizes = Callable[[IntArray], FloatArray]
#: Interpolates values over sizes.
Between = Callable[[AtSizes, IntArray], AtSizes]


class Values:
    """Values that each estimator gives the rows of a sample; `gamma` is for bias-variance.

    `wanted` are the metrics that bias-variance will be computed for: together they take little
    longer than one.
    """

    def __init__(self, sample: Sample, gamma: float, wanted: Sequence[Metric] = ()) -> None:
        self.sample, self.gamma, self.fits = sample, gamma, Fits(sample)
        self._wanted, self._built = list(wanted), dict[tuple[Metric, Design], FloatArray]()
        self._unbiased: dict[Metric, bool] = {}

    def means(self, of: Metric, name: str, leave_out: bool = False) -> dict[str, UserMean]:
        """Estimates of a metric for all recommenders.

        Empty if `leave_out` is set and double precision cannot represent the estimator's values.
        """
        if name == FITTED[0]:
            return self._by_fitted_prior(of)
        if name in FITTED:
            return {
                recommender: self._plugged_in(of, name, recommender)
                for recommender in self.sample.names
            }
        try:
            each = self.by_row(of, name)
        except corrections.IllConditionedError:
            if leave_out:
                return {}
            raise
        return {who: self.sample.mean({who: each}, n) for who, n in self.sample.users.items()}

    def default(self, of: Metric) -> str:
        """The default estimator of a metric; empty if there is none."""
        log = self.sample.log
        if log.weighted:
            return WEIGHTED if of.linear and "n_above" in log.kinds else ""
        return "naive" if self.unbiased(of) else "bias-variance"

    def by_row(self, of: Metric, name: str) -> FloatArray:
        """Values of each kind by an estimator that is not fitted to the log."""
        if name == "naive":
            return self.naive(of)
        if name == WEIGHTED:
            sample = self.sample
            above = sample.log.kinds["n_above"] / (sample.items - sample.relevant)
            return np.asarray((1.0 - above) / sample.relevant)
        return self.looked_up(self._build(of, name), _BETWEEN.get(name, _by_polynomial))

    def _build(self, of: Metric, name: str) -> Build:
        """A function from protocols to the values of an estimator."""

        def build(protocol: Design) -> FloatArray:
            if name != "bias-variance":
                return np.atleast_2d(corrections.by_name(name, of, fixed(protocol, name)).values)
            if (of, protocol) not in self._built:
                for each in dict.fromkeys([of, *self._wanted]):
                    made = corrections.bias_variance(each, protocol, self.gamma).values
                    self._built[each, protocol] = np.atleast_2d(made)
            return self._built[of, protocol]

        return build

    def _plugged_in(self, of: Metric, name: str, recommender: str) -> UserMean:
        """The metric of fitted priors; with a standard error if they are smooth in the users."""
        each = self._of_thinned(of, self.fits.plugged_in(of, name, recommender))
        mean = self.sample.mean({recommender: each}, self.sample.users[recommender])
        if name == "maximum likelihood":  # its support jumps, so it has no derivative
            return UserMean(mean.value, mean.users, np.nan, {})
        return mean

    def _by_fitted_prior(self, of: Metric) -> dict[str, UserMean]:
        """Bias-variance with a prior fitted to all recommenders together.

        A user contributes by the values of its own sampled ranks, and by the influence of its ranks
        under every recommender on the prior.
        """
        sample, found = self.sample, {}
        values, influences = self.fits.bias_variance(of, self.gamma)
        each = self.looked_up(_of_places(of, values.__getitem__))
        for recommender, users in sample.users.items():
            value = float(sample.counts[recommender] @ each) / users
            moves = self._of_thinned(of, influences[recommender] * users)
            parts = dict.fromkeys(sample.names, moves)
            if sample.log.same_users:
                parts[recommender] = moves + each
                found[recommender] = sample.mean(parts, users, value)
            else:  # users of other recommenders contribute too
                parts[recommender] = moves + (each - value / sample.relevant)
                error = sample.error(parts, users, 0.0)
                found[recommender] = UserMean(value, users, error, parts)
        return found

    def _of_thinned(self, of: Metric, places: FloatArray) -> FloatArray:
        """Values of rows from those for the smallest number of negatives, over random subsets."""
        fewest = places.shape[1] - 1
        build = _of_places(of, lambda m: places @ thinned(m, fewest).T)
        return self.looked_up(build)

    def looked_up(self, build: Build, between: Between | None = None) -> FloatArray:
        """Values of each kind, looked up in tables for its protocol."""
        out = np.empty(self.sample.better.size)
        for one in self.sample.classes:
            for part, at, table in _tables(build, between, one, self.sample):
                rows = one.rows[part]
                out[rows] = self._from_table(table, at, rows)
        return out

    def _from_table(self, table: FloatArray, at: IntArray, rows: IntArray) -> FloatArray:
        """Values of kinds of row from a table for their sizes, (sizes, n_relevant, m + 1).

        Ties with negatives get their mean value, by prefix sums.
        """
        sample, (_, relevant, columns) = self.sample, table.shape
        line, flat = at * relevant + sample.position[rows] - 1, table.ravel()
        first, tied = line * columns + sample.better[rows], sample.tied[rows]
        sums = np.zeros((*table.shape[:2], columns + 1))
        np.cumsum(table, axis=2, out=sums[:, :, 1:])
        begin = first + line  # `sums` has one more column
        means = (sums.ravel()[begin + tied + 1] - sums.ravel()[begin]) / (tied + 1)
        out = np.where(tied == 0, flat[first], means)
        order = np.argsort(rows)
        for kinds, chances in sample.tied_relevant(rows):
            here = order[np.searchsorted(rows, kinds, sorter=order)]
            out[here] = flat[first[here][:, np.newaxis] + np.arange(chances.size)] @ chances
        return np.asarray(out)

    def naive(self, of: Metric) -> FloatArray:
        """Naive values of each kind; ties with negatives get their mean value.

        If n_negatives differs between users, tables of all ranks may be much longer than the ranks
        that occur; then only these are computed. Adaptive designs have no naive values: the better
        the rank, the more negatives it is among.
        """
        sample = self.sample
        if sample.design is not None:
            return np.full(sample.better.size, np.nan)
        entries = sum(one.n_relevant * (one.n_negatives + 1) for one in sample.classes)
        out = np.empty(sample.better.size)
        if int((sample.tied + 1).sum()) > entries:
            for one in sample.classes:
                table = _naive_table(of, one.n_negatives, one.n_relevant)[np.newaxis]
                out[one.rows] = self._from_table(table, np.zeros_like(one.size), one.rows)
            return out
        for relevant in sample.relevant_numbers[0].tolist():
            of_number = np.flatnonzero(sample.relevant == relevant)
            ends = np.cumsum(sample.tied[of_number] + 1)
            cuts = np.searchsorted(ends, np.arange(_BLOCK, ends[-1], _BLOCK), side="right")
            for rows in filter(len, np.split(of_number, cuts)):
                starts, row, above, shares = sample.broken_ties(rows)
                j = sample.position[row]
                values = of.term(above + j, j, relevant, sample.negatives[row] + relevant)
                out[rows] = np.add.reduceat(values * shares, starts)
        return out

    def span(self, of: Metric) -> tuple[float, float]:
        """The least and largest naive value that a user can have.

        Metrics decrease in the rank, so these have all relevant items last or first.
        """
        low, high = np.inf, -np.inf
        for relevant in self.sample.relevant_numbers[0].tolist():
            negatives = np.unique(self.sample.negatives[self.sample.relevant == relevant])
            j = np.arange(1, relevant + 1)[:, np.newaxis]
            for m in np.array_split(negatives, 1 + negatives.size * relevant // _BLOCK):
                last = of.term(m + j, j, relevant, m + relevant).sum(axis=0)
                first = of.term(j, j, relevant, m + relevant).sum(axis=0)
                low, high = min(low, float(last.min())), max(high, float(first.max()))
        return low, high

    def unbiased(self, of: Metric) -> bool:
        """Whether the naive metric equals the exact one in expectation, at all true ranks.

        True for AUC, which is linear in the rank, as is the expected sampled rank; and for users
        with all negatives, whose sampled ranks are exact. Adaptive designs have no naive metric.
        """
        if self.sample.design is not None:
            return False
        if of not in self._unbiased:
            self._unbiased[of] = of.linear or all(
                is_unbiased(of, self.sample.protocol(size, one.n_negatives, one.n_relevant))
                for one in self.sample.classes
                if not self.sample.is_whole(one)
                for size in one.sizes[np.linspace(0, one.sizes.size - 1, 5).astype(int)].tolist()
            )
        return self._unbiased[of]


def _naive_table(of: Metric, m: int, relevant: int) -> FloatArray:
    """The metric of each sampled rank, (relevant, m + 1)."""
    j = np.arange(1, relevant + 1)[:, np.newaxis]
    return np.asarray(of.term(np.arange(m + 1) + j, j, relevant, m + relevant))


def _of_places(of: Metric, places: Callable[[int], FloatArray]) -> Build:
    """Values weighted by the metric, from unweighted ones for a number of negatives."""

    def build(protocol: Design) -> FloatArray:
        relevant = protocol.n_relevant
        weight = float(of.term(1, 1, relevant, relevant + 1))
        return np.asarray(weight * places(protocol.n_negatives)[:relevant])

    return build


def is_unbiased(of: Metric, protocol: Design) -> bool:
    """Whether the naive metric equals the exact one in expectation, at all true ranks.

    The expectation is a polynomial of degree m in the rank. Two different ones differ at one of the
    Chebyshev points, so these are checked, and both ends, and the jump of the metric.
    """
    pool, relevant, m = int(protocol.pool), protocol.n_relevant, protocol.n_negatives
    angles = np.linspace(0.0, np.pi, int(4 * np.pi * np.sqrt(m)) + 2)
    jump = np.clip([(of.k or 1) - 1, of.k or 1], 0, pool)
    above = np.unique(np.append(np.round(0.5 * pool * (1.0 - np.cos(angles))), jump))
    above = above.astype(np.int64)
    expected = _naive_table(of, m, relevant) @ law(m, above, pool, protocol.replacement).T
    j = np.arange(1, relevant + 1)[:, np.newaxis]
    exact = of.term(above + j, j, relevant, protocol.n_items)
    return bool(np.abs(expected - exact).max() < _UNBIASED)


def _tables(
    build: Build, between: Between | None, one: ProtocolClass, sample: Sample
) -> Iterator[tuple[slice, IntArray, FloatArray]]:
    """Values for all sizes of a class, block by block; `between` is None if sizes do not matter.

    Yields the slice of the class's rows, the index of each row's size, and the table,
    (sizes, n_relevant, m + 1).
    """

    def exact(sizes: IntArray) -> FloatArray:
        drawn, relevant = one.n_negatives, one.n_relevant
        return np.stack([build(sample.protocol(n, drawn, relevant)) for n in sizes.tolist()])

    if between is None:
        yield slice(None), np.zeros(one.rows.size, dtype=np.int64), exact(one.sizes[:1])
        return
    at_sizes = between(exact, one.sizes)
    length = max(1, _BLOCK // (one.n_relevant * (one.n_negatives + 1)))
    for start in range(0, one.sizes.size, length):
        part = slice(*np.searchsorted(one.size, [start, start + length]).tolist())
        yield part, one.size[part] - start, at_sizes(one.sizes[start : start + length])


def _by_size(exact: AtSizes, sizes: IntArray) -> AtSizes:
    """Values computed at every size, without interpolation."""
    return exact


def _by_polynomial(exact: AtSizes, sizes: IntArray) -> AtSizes:
    """Interpolate values by a polynomial in the logarithm of the size.

    Nodes are Chebyshev points rounded to whole numbers, doubled until values at three sizes in
    between are right; if that needs as many nodes as sizes, nothing is interpolated.
    """
    count = 12
    tests = sizes[np.linspace(0, sizes.size - 1, 5).round().astype(int)[1:4]]
    expected: FloatArray | None = None
    while 2 * count < sizes.size:
        expected = exact(tests) if expected is None else expected
        nodes = _nodes(sizes, 0.5 * (1.0 - np.cos(np.pi * (np.arange(count) + 0.5) / count)))
        polynomial = _barycentric(np.log(nodes), exact(nodes))
        error = np.abs(polynomial(np.log(tests)) - expected).max()
        if error <= _TOLERANCE * np.abs(expected).max():
            return lambda at: polynomial(np.log(at))
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
        away = np.subtract.outer(points, nodes)
        hit = away == 0
        shares = np.where(hit, 1.0, weights / np.where(hit, 1.0, away))
        shares[hit.any(axis=1)] = hit[hit.any(axis=1)]
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
    values, logs = exact(nodes), np.log(nodes)

    def at(points: IntArray) -> FloatArray:
        x = np.log(points)
        left = np.clip(np.searchsorted(logs, x, side="right") - 1, 0, nodes.size - 2)
        share = ((x - logs[left]) / (logs[left + 1] - logs[left]))[:, np.newaxis, np.newaxis]
        return np.asarray((1.0 - share) * values[left] + share * values[left + 1])

    return at


#: Interpolation for estimators that are not smooth in the catalogue size.
_BETWEEN: dict[str, Between] = {"rank estimate": _by_size, "monotone": _by_lines}
