"""What evaluations of link prediction leave behind, read into the frame of a log.

A true edge is ranked among false ones: its score stands against those of other ends of the edge.
:func:`link_prediction` counts in the arrays that the evaluators of OGB and TGB take, and
:func:`pykeen` takes the ranks that an evaluator of PyKEEN holds, with their ties. Each prediction
is a row of a log with one relevant item; what is true besides is no candidate, so the number of
candidates differs from row to row. :func:`pykeen_metrics` brings averages into the form that
:func:`~sampled_metrics.published_tables.published` takes. None of these libraries is imported; the
names are there in :mod:`sampled_metrics.readers`, too.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from .._arrays import fetched, on_host
from .._validate import IntArray, as_written, integer, integers

RankType = Literal["optimistic", "realistic", "pessimistic"]
#: Scores that are compared at a time.
_BLOCK = 1 << 22
#: Metrics of PyKEEN whose averages bound exact ones, and what papers call them.
_PRINTED = {
    "hits_at_": "HR@",
    "inverse_harmonic_mean_rank": "MRR",
    "adjusted_arithmetic_mean_rank_index": "AUC",
}


def link_prediction(
    y_pred_pos: Any,
    y_pred_neg: Any,
    *,
    filtered: Any = None,
    n_items: ArrayLike | None = None,
    recommender: str = "recommender",
) -> pd.DataFrame:
    """Scores of true edges and of the false ones that each is ranked among, as OGB and TGB do.

    Parameters
    ----------
    y_pred_pos : array_like or tensor, shape (n_edges,)
        Score of each true edge, higher is better.
    y_pred_neg : array_like or tensor, shape (n_edges, m) or (m,), or list of n_edges lists
        Scores of the negatives of each edge, as OGB's evaluators of MRR and TGB's take them. One
        row of them is shared by all edges, as in OGB's Hits@k. Lists may differ in length.
    filtered : array_like or tensor of bool, shape (n_edges, m), optional
        True for negatives that are edges, too, and therefore no candidates.
    n_items : int or array_like of int, shape (n_edges,), optional
        Candidates that an edge's negatives were drawn from, and the true one: those of all nodes
        that are left after filtering. If omitted tell :func:`sampled_metrics.read_log`.
    recommender : str

    Returns
    -------
    DataFrame
        What :func:`~sampled_metrics.read_log` takes: columns recommender, user (the number of the
        edge, from 0), n_better, n_tied, n_negatives and, where it is given, n_items. Whether
        negatives may repeat is not in their scores: tell `read_log` (TGB's are distinct).

    Raises
    ------
    ValueError
        If shapes do not match, a score is no number or NaN, or an edge has no negative.

    See Also
    --------
    pykeen : From an evaluator of PyKEEN.

    Notes
    -----
    For equal scores OGB's MRR and TGB's metrics take the mean of the first and the last rank
    ("realistic"), OGB's Hits@k the last one. A log keeps the tie, and estimates average over its
    order. All edges being ranked among one list, its draw does not average out over edges, and a
    standard error does not hold it.

    Examples
    --------
    Two true edges with three negatives each; the second is level with one of its own:

    >>> link_prediction([0.9, 0.4], [[0.1, 0.5, 0.3], [0.4, 0.8, 0.2]], n_items=[50, 48])
       recommender  user  n_better  n_tied  n_negatives  n_items
    0  recommender     0         0       0            3       50
    1  recommender     1         1       1            3       48
    """
    own = _scores(y_pred_pos, "y_pred_pos")
    if own.ndim != 1 or not own.size:
        raise ValueError(f"y_pred_pos must have shape (n_edges,), got {own.shape}")
    lists = _negatives(y_pred_neg)
    if isinstance(lists, np.ndarray) and lists.ndim == 1:
        if filtered is not None:
            raise ValueError("filtered must be omitted where all edges share their negatives")
        columns = _among_shared(own, lists)
    else:
        if len(lists) != own.size:
            raise ValueError(
                f"y_pred_neg must have a row for each of {own.size} edges, got {len(lists)}"
            )
        columns = _among_own(own, lists, _mask(filtered, lists))
    frame = pd.DataFrame(
        {"recommender": recommender, "user": np.arange(own.size)} | columns,
    )
    if (frame["n_negatives"] == 0).any():
        at = int(np.argmax(frame["n_negatives"] == 0))
        raise ValueError(f"y_pred_neg must hold a negative for each edge, got none for edge {at}")
    if n_items is not None:
        items = integers(n_items, "n_items", 2)
        if items.shape not in ((), (own.size,)):
            raise ValueError(
                f"n_items must be one number or one for each of {own.size} edges, got shape "
                f"{items.shape}"
            )
        frame["n_items"] = items
    return frame


def pykeen(evaluator: Any, *, known: Any = None, recommender: str = "recommender") -> pd.DataFrame:
    """Ranks that an evaluator of PyKEEN holds, with their ties: among all entities or sampled.

    Parameters
    ----------
    evaluator : pykeen.evaluation.RankBasedEvaluator or SampledRankBasedEvaluator
        Made with ``clear_on_finalize=False``, so that its ranks are still there after
        ``evaluator.evaluate(model, triples, ...)``.
    known : array_like or tensor of int, shape (n, 3), or a list of such, optional
        For sampled ranks: the triples that were filtered, heads first, such as the training and the
        validation triples. From these and the evaluated ones comes the number of candidates.
    recommender : str

    Returns
    -------
    DataFrame
        What :func:`~sampled_metrics.read_log` takes: columns recommender, user (the number of the
        triple, from 0), instance (head, tail or relation: which part was predicted), n_better,
        n_tied, n_negatives and, where they are known, n_items: the entities left after filtering,
        the true one included. Ranks among all of them have as many negatives, less one. Negatives
        are distinct: `read_log` finds that in ``attrs["replacement"]``.

    Raises
    ------
    ValueError
        If `evaluator` holds no ranks; if a triple's negatives repeat, as PyKEEN lets them where
        filtering leaves fewer entities than it draws; or if `known` is no list of triples, or is
        given for ranks among all entities.

    Warns
    -----
    UserWarning
        Where filtering leaves the true entity alone: such predictions are left out. PyKEEN counts
        them as ranked first.

    See Also
    --------
    pykeen_metrics : From what ``evaluate`` returns, which is averages.

    Notes
    -----
    A triple's two predictions are two instances of one user, so their mean counts, and standard
    errors know that they belong together. PyKEEN's metrics of side "both" are these means; ties
    get the mean of the first and the last rank ("realistic"), and here the mean of the metric.

    Examples
    --------
    After ``evaluator.evaluate(model, test, additional_filter_triples=[train])``:

    >>> rows = pykeen(evaluator, known=[train])  # doctest: +SKIP
    >>> log = read_log(rows)  # doctest: +SKIP
    """
    ranks, sizes = getattr(evaluator, "ranks", None), getattr(evaluator, "num_candidates", None)
    if not ranks or not sizes:
        raise ValueError(
            f"evaluator must hold ranks, got {type(evaluator).__name__} without: make it with "
            "clear_on_finalize=False, and evaluate"
        )
    sampled = hasattr(evaluator, "negative_samples")
    if known is not None and not sampled:
        raise ValueError("known must be omitted for ranks among all entities")
    parts = []
    for target in sorted(sizes):
        first, last, size = (
            np.concatenate([on_host(some) for some in batches]).astype(np.int64)
            for batches in (
                ranks[target, "optimistic"],
                ranks[target, "pessimistic"],
                sizes[target],
            )
        )
        part = pd.DataFrame({"recommender": recommender, "user": np.arange(first.size)})
        part["instance"] = target
        part["n_better"], part["n_tied"], part["n_negatives"] = first - 1, last - first, size - 1
        if sampled:
            _refuse_repeated(on_host(evaluator.negative_samples[target]), target)
            if known is not None:
                part["n_items"] = _left(evaluator, target, known, first.size)
        else:
            part["n_items"] = size
        parts.append(part)
    frame = pd.concat(parts, ignore_index=True)
    alone = frame["n_negatives"] == 0
    if alone.any():
        warnings.warn(
            f"{alone.sum()} of {len(frame)} predictions are left out: filtering leaves them no "
            "negative",
            UserWarning,
            stacklevel=2,
        )
        frame = frame[~alone].reset_index(drop=True)
    frame.attrs["replacement"] = False
    return frame


def pykeen_metrics(
    results: Any, *, side: str = "both", ties: RankType = "realistic", method: str = "method"
) -> pd.DataFrame:
    """Averages that an evaluation of PyKEEN returned, as a row of a published table.

    Parameters
    ----------
    results : pykeen.evaluation.RankBasedMetricResults, or mapping of str to float
        What ``evaluate`` returned for sampled negatives, all edges having as many, or its
        ``to_flat_dict()``.
    side : {"both", "head", "tail"}
    ties : {"realistic", "optimistic", "pessimistic"}
    method : str
        The row's name.

    Returns
    -------
    DataFrame
        What :func:`~sampled_metrics.published_tables.published` takes: columns method and those of
        HR@k, MRR and AUC that there are, as text to six digits. AUC is half of one more than the
        adjusted mean rank index. Tell `published` as `users` how many ranks were averaged over: for
        "both" two for each triple.

    Raises
    ------
    ValueError
        If there is no such metric of this side and tie policy.

    Examples
    --------
    >>> results = {"both.realistic.hits_at_10": 0.75, "both.realistic.count": 402.0,
    ...            "both.realistic.adjusted_arithmetic_mean_rank_index": 0.5}
    >>> pykeen_metrics(results, method="TransE")
       method     HR@10       AUC
    0  TransE  0.750000  0.750000
    """
    flat = results.to_flat_dict() if hasattr(results, "to_flat_dict") else dict(results)
    row: dict[str, str] = {"method": method}
    for key, value in flat.items():
        of_side, _, rest = str(key).partition(".")
        policy, _, name = rest.partition(".")
        if (of_side, policy) != (side, ties):
            continue
        for begins, shown in _PRINTED.items():
            cutoff = name.removeprefix(begins)
            if name == begins or (begins.endswith("_") and re.fullmatch("[0-9]+", cutoff)):
                column = shown + (cutoff if name != begins else "")
                row[column] = f"{(1 + value) / 2 if shown == 'AUC' else value:.6f}"
    if len(row) == 1:
        raise ValueError(
            f"results must hold a metric of side {as_written(side)} with ties {as_written(ties)}, "
            f"got {', '.join(list(flat)[:3]) or 'none'}"
        )
    return pd.DataFrame([row])


def _scores(values: Any, name: str) -> NDArray[Any]:
    """Scores as an array of real numbers, none of them NaN."""
    try:
        given = on_host(values)
    except ValueError:  # rows of unequal length
        given = np.asarray(None)
    if given.dtype.kind not in "iuf":
        raise ValueError(f"{name} must hold real numbers, got {as_written(values)}")
    if given.dtype.kind == "f" and np.isnan(given).any():
        at = np.unravel_index(int(np.argmax(np.isnan(given))), given.shape)
        raise ValueError(f"{name} must not be NaN, got one for edge {int(at[0])}")
    return given


def _negatives(values: Any) -> NDArray[Any] | list[NDArray[Any]]:
    """Scores of negatives as an array, or as a list of lists of different lengths."""
    given = fetched(values)
    if isinstance(given, Sequence) and not isinstance(given, str) and len(given):
        rows = [on_host(row) for row in given]
        if all(row.ndim == 1 for row in rows) and len({row.size for row in rows}) > 1:
            return [
                row if row.dtype.kind in "iuf" or row.size else row.astype(float) for row in rows
            ]
        given = rows if rows[0].ndim else given
    found = np.asarray(given)
    if found.dtype.kind not in "iuf" or found.ndim not in (1, 2):
        raise ValueError(
            f"y_pred_neg must have shape (n_edges, m) or (m,), got {found.shape} of {found.dtype}"
        )
    return found


def _mask(filtered: Any, lists: NDArray[Any] | list[NDArray[Any]]) -> NDArray[np.bool_] | None:
    if filtered is None:
        return None
    mask = on_host(filtered)
    shape = lists.shape if isinstance(lists, np.ndarray) else "lists of different lengths"
    if mask.dtype != bool or mask.shape != shape:
        raise ValueError(
            f"filtered must be True or False for each of y_pred_neg, {shape}, got {mask.dtype} of "
            f"shape {mask.shape}"
        )
    return mask


def _among_shared(own: NDArray[Any], shared: NDArray[Any]) -> dict[str, IntArray]:
    """Counts of one list of negatives for all edges."""
    ordered = np.sort(_scores(shared, "y_pred_neg"))
    above, level = (np.searchsorted(ordered, own, side=side) for side in ("right", "left"))
    return {
        "n_better": ordered.size - above,
        "n_tied": above - level,
        "n_negatives": np.full(own.size, ordered.size),
    }


def _among_own(
    own: NDArray[Any],
    lists: NDArray[Any] | list[NDArray[Any]],
    mask: NDArray[np.bool_] | None,
) -> dict[str, IntArray]:
    """Counts of each edge's own negatives, some edges at a time."""
    counts = np.zeros((3, own.size), dtype=np.int64)
    if isinstance(lists, list):
        for edge, row in enumerate(lists):
            _refuse_nan(row, edge)
            counts[:, edge] = (row > own[edge]).sum(), (row == own[edge]).sum(), row.size
    else:
        rows = max(1, _BLOCK // max(1, lists.shape[1]))
        for at in range(0, own.size, rows):
            some = slice(at, at + rows)
            kept = np.ones(lists[some].shape, bool) if mask is None else ~mask[some]
            negatives = lists[some]
            _refuse_nan(np.where(kept, negatives, 0), at)
            for count, compare in zip(counts, (np.greater, np.equal), strict=False):
                count[some] = (compare(negatives, own[some, np.newaxis]) & kept).sum(axis=1)
            counts[2, some] = kept.sum(axis=1)
    return dict(zip(("n_better", "n_tied", "n_negatives"), counts, strict=True))


def _refuse_nan(values: NDArray[Any], edge: int) -> None:
    """Refuse scores of the edges from a number on that are no numbers."""
    if values.dtype.kind not in "iuf":
        raise ValueError(f"y_pred_neg must hold real numbers, got dtype {values.dtype}")
    undefined = np.isnan(np.atleast_2d(values))
    if undefined.any():
        at = edge + int(np.argmax(undefined.any(axis=1)))
        raise ValueError(f"y_pred_neg must not be NaN, got one for edge {at}")


def _refuse_repeated(negatives: NDArray[Any], target: str) -> None:
    """Refuse negatives that PyKEEN repeated for want of others."""
    ordered = np.sort(negatives, axis=1)
    twice = (ordered[:, 1:] == ordered[:, :-1]).any(axis=1)
    if twice.any():
        raise ValueError(
            f"evaluator must have distinct negatives, got one twice for {twice.sum()} of "
            f"{len(twice)} triples ({target}): filtering left fewer entities than num_negatives = "
            f"{negatives.shape[1]}, and PyKEEN repeats them then"
        )


def _left(evaluator: Any, target: str, known: Any, size: int) -> IntArray:
    """Entities that are left to a sampled evaluator's triples, the true one included."""
    asked = np.array(list(evaluator.triple_to_index), dtype=np.int64)
    if len(asked) != size:
        raise ValueError(
            f"evaluator must have ranked each triple of its factory once, got {size} ranks of "
            f"{len(asked)} triples"
        )
    given = known if isinstance(known, (list, tuple)) else [known]
    tables = [integers(fetched(some), "known", 0) for some in given]
    if any(table.ndim != 2 or table.shape[1] != 3 for table in tables):
        raise ValueError(
            f"known must be triples, of shape (n, 3), got shapes {[t.shape for t in tables]}"
        )
    true = np.unique(np.concatenate([*tables, asked]), axis=0)
    column = {"head": 0, "relation": 1, "tail": 2}[target]
    rest = [at for at in range(3) if at != column]
    _, group = np.unique(
        np.concatenate([true[:, rest], asked[:, rest]]), axis=0, return_inverse=True
    )
    group = group.ravel()
    answers = np.bincount(group[: len(true)], minlength=group.max() + 1)
    entities = integer(evaluator.num_entities, "num_entities", 1)
    return entities - answers[group[len(true) :]] + 1
