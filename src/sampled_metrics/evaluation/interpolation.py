"""Values of an estimator for many sizes of the catalogue, most of them interpolated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum

import numpy as np

from .._validate import FloatArray, IntArray
from ..protocol import Protocol
from .sample import ProtocolClass, Sample

#: Nodes are added until values between them are right to this share of the largest value.
_TOLERANCE = 1e-9
#: Sizes for the monotone correction, whose values jump from size to size.
_MONOTONE_SIZES = 32
#: Entries of a table of values for several sizes, or of random orders, held at once.
BLOCK = 1 << 21

#: From one protocol to the values of an estimator, a row for each position.
Build = Callable[[Protocol], FloatArray]
#: From sizes of the catalogue to values, (sizes, n_relevant, m + 1).
_AtSizes = Callable[[IntArray], FloatArray]


class Dependence(Enum):
    """How the values of an estimator depend on the size of the catalogue."""

    CONSTANT = "not at all"
    SMOOTH = "by a smooth function"
    JUMPS = "by jumps between nearly equal solutions"
    UNKNOWN = "computed at every size"


def tables(
    build: Build, dependence: Dependence, one: ProtocolClass, sample: Sample
) -> Iterator[tuple[slice, IntArray, FloatArray]]:
    """Values for all sizes of a class, block by block.

    Yields which of its rows have these sizes, which size each has, and the table of values,
    (sizes, n_relevant, m + 1).
    """

    def exact(sizes: IntArray) -> FloatArray:
        return np.stack([build(sample.protocol(one, size)) for size in sizes.tolist()])

    if dependence is Dependence.CONSTANT:
        yield slice(None), np.zeros(one.rows.size, dtype=np.int64), exact(one.sizes[:1])
        return
    at_sizes = exact
    if dependence is Dependence.SMOOTH:
        at_sizes = _by_polynomial(exact, one.sizes)
    elif dependence is Dependence.JUMPS:
        at_sizes = _by_lines(exact, one.sizes)
    length = max(1, BLOCK // (one.n_relevant * (one.n_negatives + 1)))
    for start in range(0, one.sizes.size, length):
        part = slice(*np.searchsorted(one.size, [start, start + length]).tolist())
        yield part, one.size[part] - start, at_sizes(one.sizes[start : start + length])


def _by_polynomial(exact: _AtSizes, sizes: IntArray) -> _AtSizes:
    """Values at any of the sizes by a polynomial in the logarithm of the size.

    Its nodes, Chebyshev's rounded to whole numbers, are doubled until it is right at three sizes
    in between; where that takes as many nodes as there are sizes, nothing is interpolated.
    """
    count = 12
    tests = sizes[np.linspace(0, sizes.size - 1, 5).round().astype(int)[1:4]]
    expected: FloatArray | None = None
    while 2 * count < sizes.size:
        expected = exact(tests) if expected is None else expected
        points = 0.5 * (1.0 - np.cos(np.pi * (np.arange(count) + 0.5) / count))
        nodes = _nodes(sizes, points)
        polynomial = _barycentric(np.log(nodes), exact(nodes))
        error = np.abs(polynomial(np.log(tests)) - expected).max()
        if error <= _TOLERANCE * np.abs(expected).max():
            return lambda at: polynomial(np.log(at))
        count *= 2
    return exact


def _nodes(sizes: IntArray, points: FloatArray) -> IntArray:
    """Whole numbers near points of [0, 1], stretched over the logarithms of the sizes."""
    low, high = np.log(sizes[[0, -1]])
    return np.unique(np.round(np.exp(low + points * (high - low))).astype(np.int64))


def _barycentric(nodes: FloatArray, values: FloatArray) -> Callable[[FloatArray], FloatArray]:
    """The polynomial through values at nodes, by the barycentric formula (berrut2004).

    `scipy.interpolate` has it, but takes longer to import than all of this takes to compute.
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


def _by_lines(exact: _AtSizes, sizes: IntArray) -> _AtSizes:
    """Values at any of the sizes by straight lines in the logarithm of the size.

    Of many nearly equal solutions the monotone correction is one or another, from size to size;
    what lies between two of them is monotone too, and as nearly right.
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
