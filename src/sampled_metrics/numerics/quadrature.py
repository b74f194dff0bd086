"""Sums over all true ranks from a few of them.

The probability of a sampled rank is a polynomial of degree m in the true rank, and metrics are
smooth beyond their cut-off. A Gauss rule for equally spaced points with K nodes sums polynomials of
degree 2K - 1 exactly. Stretches of ranks that double in length need few nodes each. So a sum over n
ranks costs O(m + sqrt(m) log n) evaluations, and n can be 1e9.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from scipy.linalg import eigh_tridiagonal

from .._validate import FloatArray

#: The first and the last m + MARGIN ranks are summed exactly.
MARGIN = 17


def gauss(low: int, high: int, count: int) -> tuple[FloatArray, FloatArray]:
    """Nodes and weights that sum a polynomial over the whole numbers low..high.

    Exact up to degree ``2 * count - 1`` (Gauss rule of the discrete Chebyshev polynomials); all
    whole numbers themselves if there are at most `count`.
    """
    size = high - low + 1
    if size <= count:
        return np.arange(low, high + 1, dtype=float), np.ones(max(size, 0))
    k = np.arange(1.0, count)
    beside = 0.5 * k * np.sqrt((size - k) * (size + k) / (4 * k * k - 1))
    # The nodes are symmetric: the square of the Jacobi matrix decouples into two blocks, and the
    # eigenvalues of the block with the first row are the squared distances from the middle.
    squares = np.append(0.0, beside**2) + np.append(beside**2, 0.0)
    squares, vectors = eigh_tridiagonal(squares[::2], beside[::2][: k.size // 2] * beside[1::2])
    offsets, weights = np.sqrt(np.maximum(squares, 0.0)), 0.5 * size * vectors[0] ** 2
    if count % 2:
        offsets[0], weights[0] = 0.0, 2.0 * weights[0]
    off_centre = slice(count % 2, None)
    offsets = np.append(-offsets[off_centre][::-1], offsets)
    return np.asarray((low + high) / 2 + offsets), np.append(weights[off_centre][::-1], weights)


def all_ranks(n: int, m: int, breaks: tuple[int, ...] = ()) -> tuple[FloatArray, FloatArray]:
    """Nodes and weights that sum P times a metric with jumps after `breaks` over 1..n."""
    margin = m + MARGIN
    if n <= 4 * margin:
        return np.arange(1.0, n + 1), np.ones(n)
    ends = sorted({0, *_panel_ends(n, margin), *(end for end in breaks if end < n), n})
    parts = []
    for low, high in pairwise(ends):
        at_an_end = high <= margin or low >= n - margin
        parts.append(gauss(low + 1, high, margin if at_an_end else _count(high, n, m)))
    return np.concatenate([x for x, _ in parts]), np.concatenate([w for _, w in parts])


def _panel_ends(n: int, margin: int) -> list[int]:
    """Last ranks of the panels: a margin at each end, and panels that double in length between."""
    ends = [margin]
    while 4 * ends[-1] < n:
        ends.append(2 * ends[-1])
    return [*ends, n - margin]


def _count(high: int, n: int, m: int) -> int:
    """Nodes for a panel that ends at rank `high`: enough to resolve P and the metric."""
    expected = m * min(1.0, high / n)
    return min(m + 20, 18 + int(8 * np.sqrt(expected)))
