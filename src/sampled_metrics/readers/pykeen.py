"""Ranks held by an evaluator of PyKEEN."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .._validate import IntArray, integer, integers
from ..numerics.arrays import fetched, on_host

if TYPE_CHECKING:
    import pandas as pd


def pykeen(evaluator: Any, *, known: Any = None, recommender: str = "recommender") -> pd.DataFrame:
    """Read the ranks that an evaluator of PyKEEN holds, among all entities or among sampled ones.

    Parameters
    ----------
    evaluator : pykeen.evaluation.RankBasedEvaluator or SampledRankBasedEvaluator
        Made with ``clear_on_finalize=False``, so that it keeps its ranks after
        ``evaluator.evaluate(model, triples, ...)``.
    known : array_like or tensor of int, shape (n, 3), or a list of such, optional
        For sampled ranks: the triples that were filtered, heads first, such as training and
        validation triples. With the evaluated triples they give the number of candidates.
    recommender : str

    Returns
    -------
    DataFrame
        For :func:`~.read_log`: columns recommender, user (number of the triple, from 0), instance
        (head, tail or relation: the part that was predicted), n_better, n_tied, n_negatives and, if
        known, n_items: the entities left after filtering, the true one included. Ranks among all
        entities have n_items - 1 negatives. ``attrs["replacement"]`` tells `read_log` that
        negatives are distinct.

    Raises
    ------
    ValueError
        If `evaluator` holds no ranks; if a triple's negatives repeat, which happens in PyKEEN if
        filtering leaves fewer entities than it draws; or if `known` is not a list of triples, or is
        given for ranks among all entities.

    Warns
    -----
    UserWarning
        If filtering leaves only the true entity. Such predictions are left out; PyKEEN ranks them
        first.

    See Also
    --------
    link_prediction : From the scores of edges.

    Notes
    -----
    The two predictions of a triple are two instances of one user: their mean counts, and standard
    errors allow for their dependence. PyKEEN's metrics of side "both" are these means, but with the
    "realistic" rank for ties, the mean of the first and the last; here the metric is averaged.

    Examples
    --------
    After ``evaluator.evaluate(model, test, additional_filter_triples=[train])``:

    >>> rows = pykeen(evaluator, known=[train])  # doctest: +SKIP
    >>> log = read_log(rows)  # doctest: +SKIP
    """
    import pandas as pd

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
        columns = ranks[target, "optimistic"], ranks[target, "pessimistic"], sizes[target]
        first, last, size = (
            np.concatenate([on_host(batch) for batch in batches]).astype(np.int64)
            for batches in columns
        )
        part = pd.DataFrame({"recommender": recommender, "user": np.arange(first.size)})
        part["instance"] = target
        part["n_better"], part["n_tied"], part["n_negatives"] = first - 1, last - first, size - 1
        if sampled:
            _refuse_repeated(on_host(evaluator.negative_samples[target]), target)
            if known is not None:
                part["n_items"] = _candidates(evaluator, target, known, first.size)
        else:
            part["n_items"] = size
        parts.append(part)
    frame = pd.concat(parts, ignore_index=True)
    trivial = frame["n_negatives"] == 0
    if trivial.any():
        warnings.warn(
            f"{trivial.sum()} of {len(frame)} predictions are left out: filtering leaves them no "
            "negative",
            UserWarning,
            stacklevel=2,
        )
        frame = frame[~trivial].reset_index(drop=True)
    frame.attrs["replacement"] = False
    return frame


def _refuse_repeated(negatives: NDArray[Any], target: str) -> None:
    """Refuse repeated negatives, which PyKEEN makes if too few entities are left."""
    ordered = np.sort(negatives, axis=1)
    twice = (ordered[:, 1:] == ordered[:, :-1]).any(axis=1)
    if twice.any():
        raise ValueError(
            f"evaluator must have distinct negatives, got one twice for {twice.sum()} of "
            f"{len(twice)} triples ({target}): filtering left fewer entities than num_negatives = "
            f"{negatives.shape[1]}, and PyKEEN repeats them then"
        )


def _candidates(evaluator: Any, target: str, known_triples: Any, size: int) -> IntArray:
    """Candidates of each triple of a sampled evaluator, the true entity included."""
    evaluated = np.array(list(evaluator.triple_to_index), dtype=np.int64)
    if len(evaluated) != size:
        raise ValueError(
            f"evaluator must have ranked each triple of its factory once, got {size} ranks of "
            f"{len(evaluated)} triples"
        )
    known_parts = known_triples if isinstance(known_triples, (list, tuple)) else [known_triples]
    tables = [integers(fetched(part), "known", 0) for part in known_parts]
    if any(table.ndim != 2 or table.shape[1] != 3 for table in tables):
        raise ValueError(
            f"known must be triples, of shape (n, 3), got shapes {[t.shape for t in tables]}"
        )
    true_triples = np.unique(np.concatenate([*tables, evaluated]), axis=0)
    column = {"head": 0, "relation": 1, "tail": 2}[target]
    question_columns = [i for i in range(3) if i != column]
    _, questions = np.unique(
        np.concatenate([true_triples[:, question_columns], evaluated[:, question_columns]]),
        axis=0,
        return_inverse=True,
    )
    questions = questions.ravel()
    answers = np.bincount(questions[: len(true_triples)], minlength=questions.max() + 1)
    entities = integer(evaluator.num_entities, "num_entities", 1)
    return entities - answers[questions[len(true_triples) :]] + 1
