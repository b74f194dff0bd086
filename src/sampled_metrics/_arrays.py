"""Scores in arrays of other libraries, counted on the device where they are.

By the array API standard, which PyTorch, CuPy and JAX follow with the help of array-api-compat:
what comes back from the device is two whole numbers for each held-out item, not the scores.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._validate import IntArray

#: Scores that are on a device at a time.
_ENTRIES = 2**25


def namespace(values: Any) -> Any:
    """The functions for an array of another library, None for NumPy and whatever it takes.

    Raises
    ------
    ImportError
        If array-api-compat is not installed.

    Examples
    --------
    >>> namespace(np.ones(3)) is None
    True
    """
    if isinstance(values, (np.ndarray, np.generic)):
        return None
    known = type(values).__module__.split(".")[0] in ("torch", "cupy", "jax", "jaxlib")
    if not known and not hasattr(values, "__array_namespace__"):
        return None
    try:
        import array_api_compat
    except ImportError:
        raise ImportError(
            f"arrays of {type(values).__module__.split('.')[0]} need array-api-compat: install "
            "sampled-metrics[arrays]"
        ) from None
    return array_api_compat.array_namespace(values)


def fetched(values: Any) -> Any:
    """An array of a device as one of NumPy, and all else as it is: lists of any lengths, too.

    Examples
    --------
    >>> fetched([[1.5], [2.0, 3.0]])
    [[1.5], [2.0, 3.0]]
    """
    if hasattr(values, "detach"):
        return values.detach().cpu().numpy()
    if hasattr(values, "get") and type(values).__module__.startswith("cupy"):
        return values.get()
    return values


def on_host(values: Any) -> NDArray[Any]:
    """An array of any library as one of NumPy.

    Examples
    --------
    >>> on_host([1.5, 2.0])
    array([1.5, 2. ])
    """
    return np.asarray(fetched(values))


def like(values: Any, example: Any) -> Any:
    """An array of NumPy as one of another's library, on its device.

    Examples
    --------
    >>> like(np.ones(2), np.zeros(3))
    array([1., 1.])
    """
    xp = namespace(example)
    if xp is None:
        return np.asarray(values)
    import array_api_compat

    return xp.asarray(np.ascontiguousarray(values), device=array_api_compat.device(example))


def rows(values: Any, at: slice | IntArray) -> Any:
    """Some rows of a matrix of any library, where it is.

    Examples
    --------
    >>> rows(np.array([[1.0], [2.0]]), np.array([1, 1]))
    array([[2.],
           [2.]])
    """
    xp = namespace(values)
    if xp is None:
        return values[at]
    if isinstance(at, slice):
        return values[at, ...]
    return xp.take(values, like(at, values), axis=0)


def count(
    tile: Callable[[slice], Any],
    band: Any,
    excluded: tuple[IntArray, IntArray],
    n_items: int,
) -> IntArray:
    """`n_better` and `n_tied` of a block whose scores are in an array of another library.

    Parameters
    ----------
    tile : callable
        Scores of the block for a slice of items.
    band
        What counts as tied, as :mod:`~sampled_metrics.ranking.exact` keeps it.
    excluded : tuple of ndarray of int
        Rows and columns that are not counted.
    n_items : int

    Returns
    -------
    ndarray of int, shape (2, rows)

    Examples
    --------
    >>> from sampled_metrics.ranking.exact import _Band
    >>> band, none = _Band(np.array([0.5]), np.array([0.5])), np.zeros(0, int)
    >>> scores = np.array([[0.9, 0.5, 0.1]])
    >>> count(lambda columns: scores[:, columns], band, (none + 0, none), 3)
    array([[1],
           [1]])
    """
    n_rows = len(band.low)
    width = max(1, _ENTRIES // n_rows)
    counts = np.zeros((2, n_rows), dtype=np.int64)
    for start in range(0, n_items, width):
        columns = slice(start, min(start + width, n_items))
        scores = tile(columns)
        xp = namespace(scores) or np
        high, low = (like(end, scores)[:, None] for end in (band.high, band.low))
        hits = scores > high, scores >= low
        units = like(np.ones(1, np.int64), scores), like(np.zeros(1, np.int64), scores)
        counts += [on_host(xp.sum(xp.where(each, *units), axis=1)) for each in hits]
        within = (excluded[1] >= columns.start) & (excluded[1] < columns.stop)
        row, column = excluded[0][within], excluded[1][within] - start
        flat = row * (columns.stop - start) + column
        if flat.size:
            places = like(flat, scores)
            for each, total in zip(hits, counts, strict=True):
                masked = on_host(xp.take(xp.reshape(each, (-1,)), places))
                total -= np.bincount(row[masked], minlength=n_rows)
        if band.unclear is not None and band.unclear.any():
            open_ = xp.logical_and(hits[1], xp.logical_not(hits[0]))
            at = on_host(xp.nonzero(xp.reshape(open_, (-1,)))[0])
            at = at[~np.isin(at, flat)]
            row, column = np.divmod(at, columns.stop - start)
            wanted = band.unclear[row]
            counts += band.moved(row[wanted], start + column[wanted])
    counts[1] -= counts[0]
    return counts
