"""Scores of true edges among false ones, as the evaluators of OGB and TGB take them.

Each prediction is a row of a log with one relevant item. Other true edges are not candidates, so
the number of candidates differs between rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._validate import IntArray, as_written, integers
from ..log.inspection import drawn
from ..numerics.arrays import fetched, on_host

if TYPE_CHECKING:
    import pandas as pd

#: Scores compared per block.
_BLOCK = 1 << 22


def link_prediction(
    y_pred_pos: Any,
    y_pred_neg: Any,
    *,
    filtered: Any = None,
    historical: Any = None,
    uniform: Any = None,
    block: ArrayLike | None = None,
    n_items: ArrayLike | None = None,
    recommender: str = "recommender",
) -> pd.DataFrame:
    """Count the false edges that scored above each true edge, and the same.

    Parameters
    ----------
    y_pred_pos : array_like or tensor, shape (n_edges,)
        Score of each true edge, higher is better.
    y_pred_neg : array_like or tensor, shape (n_edges, m) or (m,), or list of n_edges lists
        Scores of the negatives of each edge, as for the MRR of OGB and TGB; lists may differ in
        length. A single row is shared by all edges, as for OGB's Hits@k.
    filtered : array_like or tensor of bool, shape (n_edges, m), or list of n_edges lists, optional
        True for negatives that are edges, and so not candidates.
    historical : as `filtered`, or int or array_like of int, shape (n_edges,), optional
        True for earlier partners of an edge's first node, up to half of TGB's lists, or
        their number if they are the first ones of each list, as TGB's are. They are not uniform,
        so only the other negatives are used: the log is about nodes that are no earlier partners.
    uniform : as `historical`, optional
        True for negatives that were drawn uniformly, or their number if they are the first ones of
        each list, where the others were drawn in proportion to the degree, as half of DGL-KE's may
        be. Only the uniform ones are used, since the others say little of the nodes that they miss.
    block : array_like, shape (n_edges,), optional
        A label of the list that edges share, as in a batch: errors and intervals are over lists.
    n_items : int or array_like of int, shape (n_edges,), optional
        Candidates of each edge: the nodes left after filtering, and without earlier partners where
        these are left out, the true one included. If omitted, tell :func:`~.read_log`.
    recommender : str

    Returns
    -------
    DataFrame
        For :func:`~.read_log`: columns recommender, user (number of the edge, from 0), n_better,
        n_tied, n_negatives and, if given, n_items. Tell `read_log` whether negatives may repeat,
        which scores do not show (TGB's are distinct). ``attrs["shared_negatives"]`` says whether
        one row was given, or many edges have nearly the same scores as another. Tell `read_log` of
        shared nodes whose scores differ between edges.

    Raises
    ------
    ValueError
        If shapes do not match, a score is NaN or not a number, or an edge has no negative that is
        used.

    See Also
    --------
    pykeen : From an evaluator of PyKEEN.

    Notes
    -----
    For ties, OGB's MRR and TGB's metrics take the mean of the first and the last rank
    ("realistic"), OGB's Hits@k the last rank. A log keeps ties, and estimates average over their
    order. If all edges share one list of negatives, its random error does not average out over
    edges, and standard errors do not include it.

    Examples
    --------
    Two true edges with three negatives each; the second ties with one of them:

    >>> link_prediction([0.9, 0.4], [[0.1, 0.5, 0.3], [0.4, 0.8, 0.2]], n_items=[50, 48])
       recommender  user  n_better  n_tied  n_negatives  n_items
    0  recommender     0         0       0            3       50
    1  recommender     1         1       1            3       48
    """
    import pandas as pd

    positives = _scores(y_pred_pos, "y_pred_pos")
    if positives.ndim != 1 or not positives.size:
        raise ValueError(f"y_pred_pos must have shape (n_edges,), got {positives.shape}")
    lists = _negatives(y_pred_neg)
    if isinstance(lists, np.ndarray) and lists.ndim == 1:
        masks = {"filtered": filtered, "historical": historical, "uniform": uniform}
        for name, mask in masks.items():
            if mask is not None:
                raise ValueError(f"{name} must be omitted where all edges share their negatives")
        columns, is_shared = _among_shared(positives, lists), positives.size > 1
    else:
        if len(lists) != positives.size:
            raise ValueError(
                f"y_pred_neg must have a row for each of {positives.size} edges, got {len(lists)}"
            )
        lists, is_left_out = _left_out(lists, filtered, historical, uniform)
        columns = _among_own(positives, lists, is_left_out)
        is_shared = _is_shared(lists, is_left_out)
    frame = pd.DataFrame(
        {"recommender": recommender, "user": np.arange(positives.size)} | columns,
    )
    if (frame["n_negatives"] == 0).any():
        edge = int(np.argmax(frame["n_negatives"] == 0))
        raise ValueError(f"y_pred_neg must hold a negative for each edge, got none for edge {edge}")
    if n_items is not None:
        frame["n_items"] = _checked_items(n_items, positives.size)
    if block is not None:
        if np.shape(block) != positives.shape:
            raise ValueError(
                f"block must have a label for each of {positives.size} edges, got shape "
                f"{np.shape(block)}"
            )
        frame["block"] = np.asarray(block)
    frame.attrs["shared_negatives"] = is_shared and block is None
    return frame


def _left_out(lists: Any, filtered: Any, historical: Any, uniform: Any) -> tuple[Any, Any]:
    """Lists of negatives with a mask of those left out; ragged ones without them, and no mask."""
    mask = None if filtered is None else _mask(filtered, lists, "filtered")
    for name, values in (("historical", historical), ("uniform", uniform)):
        if values is not None:
            excluded = _mask(_first(values, lists, name), lists, name)
            excluded = list(map(np.logical_not, excluded)) if name == "uniform" else excluded
            mask = excluded if mask is None else list(map(np.logical_or, mask, excluded))
    if isinstance(lists, list) and mask is not None:
        return [row[~left_out] for row, left_out in zip(lists, mask, strict=True)], None
    return lists, None if mask is None else np.asarray(mask)


def _checked_items(n_items: Any, n_edges: int) -> Any:
    items = integers(n_items, "n_items", 2)
    if items.shape not in ((), (n_edges,)):
        raise ValueError(
            f"n_items must be one number or one for each of {n_edges} edges, got shape "
            f"{items.shape}"
        )
    return items


def _is_shared(lists: NDArray[Any] | list[NDArray[Any]], mask: NDArray[np.bool_] | None) -> bool:
    """Whether edges have nearly the same scores of negatives as others, which then are the same.

    Lists whose scores depend on the edge do not show it.
    """
    if isinstance(lists, np.ndarray) and mask is None:
        score, size = lists.ravel(), np.full(len(lists), lists.shape[1])
    else:
        rows = (
            list(lists) if mask is None else [row[~m] for row, m in zip(lists, mask, strict=True)]
        )
        score, size = np.concatenate(rows), np.array([row.size for row in rows])
    code = np.unique(score, return_inverse=True)[1].ravel()
    edge = np.repeat(np.arange(size.size), size)
    n_different = np.unique(edge * np.int64(code.size) + code).size
    if 2 * n_different < code.size:  # few values: equal ones are not the same nodes
        return False
    return drawn(edge, code)[1]


def _scores(values: Any, name: str) -> NDArray[Any]:
    """Scores as an array of real numbers without NaN."""
    try:
        scores = on_host(values)
    except ValueError:  # rows of unequal length
        scores = np.asarray(None)
    if scores.dtype.kind not in "iuf":
        raise ValueError(f"{name} must hold real numbers, got {as_written(values)}")
    if scores.dtype.kind == "f" and np.isnan(scores).any():
        nan_index = np.unravel_index(int(np.argmax(np.isnan(scores))), scores.shape)
        raise ValueError(f"{name} must not be NaN, got one for edge {int(nan_index[0])}")
    return scores


def _negatives(values: Any) -> NDArray[Any] | list[NDArray[Any]]:
    """Scores of negatives as an array, or as a list of arrays if lengths differ."""
    lists = fetched(values)
    if isinstance(lists, Sequence) and not isinstance(lists, str) and len(lists):
        rows = [on_host(row) for row in lists]
        if all(row.ndim == 1 for row in rows) and len({row.size for row in rows}) > 1:
            return [
                row if row.dtype.kind in "iuf" or row.size else row.astype(float) for row in rows
            ]
        lists = rows if rows[0].ndim else lists
    scores = np.asarray(lists)
    if scores.dtype.kind not in "iuf" or scores.ndim not in (1, 2):
        raise ValueError(
            f"y_pred_neg must have shape (n_edges, m) or (m,), got {scores.shape} of {scores.dtype}"
        )
    return scores


def _first(values: Any, lists: NDArray[Any] | list[NDArray[Any]], name: str) -> Any:
    """A mask of the first negatives of each list, if their number is given; else the mask."""
    try:
        numbers = on_host(values)
    except ValueError:  # masks of unequal length
        return values
    if numbers.ndim > 1 or numbers.dtype.kind not in "iuf":
        return values
    numbers = integers(numbers, name, 0)
    if numbers.shape not in ((), (len(lists),)):
        raise ValueError(
            f"{name} must be one number or one for each of {len(lists)} edges, got shape "
            f"{numbers.shape}"
        )
    numbers = np.broadcast_to(numbers, len(lists))
    return [np.arange(len(row)) < n for row, n in zip(lists, numbers, strict=True)]


def _mask(
    values: Any, lists: NDArray[Any] | list[NDArray[Any]], name: str
) -> list[NDArray[np.bool_]]:
    """One mask for each list."""
    rows = fetched(values)
    masks = [on_host(row) for row in rows] if np.iterable(rows) else []
    sizes = [row.shape for row in lists]
    if [row.shape for row in masks] != sizes or any(row.dtype != bool for row in masks):
        raise ValueError(
            f"{name} must be True or False for each of y_pred_neg, in lists as long as its own, "
            f"got {as_written(values)}"
        )
    return masks


def _among_shared(positives: NDArray[Any], shared: NDArray[Any]) -> dict[str, IntArray]:
    """Counts among one list of negatives for all edges, by binary search."""
    ordered = np.sort(_scores(shared, "y_pred_neg"))
    n_at_most, n_below = (
        np.searchsorted(ordered, positives, side=side) for side in ("right", "left")
    )
    return {
        "n_better": ordered.size - n_at_most,
        "n_tied": n_at_most - n_below,
        "n_negatives": np.full(positives.size, ordered.size),
    }


def _among_own(
    positives: NDArray[Any],
    lists: NDArray[Any] | list[NDArray[Any]],
    is_filtered: NDArray[np.bool_] | None,
) -> dict[str, IntArray]:
    """Counts among each edge's own negatives, in blocks of edges."""
    counts = np.zeros((3, positives.size), dtype=np.int64)
    if isinstance(lists, list):
        for edge, row in enumerate(lists):
            _refuse_nan(row, edge)
            counts[:, edge] = (
                (row > positives[edge]).sum(),
                (row == positives[edge]).sum(),
                row.size,
            )
    else:
        block_size = max(1, _BLOCK // max(1, lists.shape[1]))
        for start in range(0, positives.size, block_size):
            block = slice(start, start + block_size)
            is_candidate = (
                np.ones(lists[block].shape, bool) if is_filtered is None else ~is_filtered[block]
            )
            negatives = lists[block]
            _refuse_nan(np.where(is_candidate, negatives, 0), start)
            for count, compare in zip(counts, (np.greater, np.equal), strict=False):
                count[block] = (
                    compare(negatives, positives[block, np.newaxis]) & is_candidate
                ).sum(axis=1)
            counts[2, block] = is_candidate.sum(axis=1)
    return dict(zip(("n_better", "n_tied", "n_negatives"), counts, strict=True))


def _refuse_nan(values: NDArray[Any], edge: int) -> None:
    """Refuse NaN in the scores of the edges from number `edge` on."""
    if values.dtype.kind not in "iuf":
        raise ValueError(f"y_pred_neg must hold real numbers, got dtype {values.dtype}")
    is_nan = np.isnan(np.atleast_2d(values))
    if is_nan.any():
        nan_edge = edge + int(np.argmax(is_nan.any(axis=1)))
        raise ValueError(f"y_pred_neg must not be NaN, got one for edge {nan_edge}")
