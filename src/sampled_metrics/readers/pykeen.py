"""Ranks held by an evaluator of PyKEEN, and the averages that it returns."""

from __future__ import annotations

import re
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .._validate import IntArray, as_written, integer, integers
from ..numerics.arrays import fetched, on_host

if TYPE_CHECKING:
    import pandas as pd

#: PyKEEN metrics that `published` can use, and their usual names.
_PUBLISHED = {
    "hits_at_": "HR@",
    "inverse_harmonic_mean_rank": "MRR",
    "adjusted_arithmetic_mean_rank_index": "AUC",
}
#: How PyKEEN ranks ties.
_POLICIES = ("optimistic", "realistic", "pessimistic")
#: Ties of more places count as ties of so many, which leaves the range a little wider.
_TIED = 100_000


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
    pykeen_metrics : From the averages that ``evaluate`` returns.

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


def pykeen_metrics(results: Any, *, side: str = "both", method: str = "method") -> pd.DataFrame:
    """Convert the averages that PyKEEN's ``evaluate`` returned to a row of a published table.

    Parameters
    ----------
    results : pykeen.evaluation.RankBasedMetricResults, or mapping of str to float
        What ``evaluate`` returned, or its ``to_flat_dict()``, with the same number of sampled
        negatives for all triples.
    side : {"both", "head", "tail"}
    method : str
        Name of the row.

    Returns
    -------
    DataFrame
        For :func:`~sampled_metrics.published`: columns method and, as far as present, HR@k, MRR and
        AUC, as text with six decimals. AUC is (1 + adjusted mean rank index) / 2. Give `published`
        the number of ranks as `users`: two per triple for "both".

    Raises
    ------
    ValueError
        If there is no such metric with this side.

    See Also
    --------
    pykeen : Read the ranks, if you still have the evaluator.
    sampled_metrics.published : Bound exact metrics from the row that this function returns.

    Notes
    -----
    A metric of PyKEEN's "realistic" rank, the mean of an item's places among its ties, is not the
    metric averaged over ties, which is meant here. That average lies between the metrics of the
    "pessimistic" and the "optimistic" rank; cells are ranges such as "0.250000 to 0.300000" where
    these differ. Realistic ranks alone leave a wide range: a hit may be half a hit, and a miss too.

    Examples
    --------
    >>> results = {"both.optimistic.hits_at_10": 0.75, "both.realistic.hits_at_10": 0.75,
    ...            "both.pessimistic.hits_at_10": 0.5, "both.realistic.count": 402.0,
    ...            "both.realistic.adjusted_arithmetic_mean_rank_index": 0.5}
    >>> pykeen_metrics(results, method="TransE")
       method                 HR@10       AUC
    0  TransE  0.500000 to 0.750000  0.750000
    """
    import pandas as pd

    flat = results.to_flat_dict() if hasattr(results, "to_flat_dict") else dict(results)
    ranges: dict[str, tuple[float, float]] = {}
    for key, value in flat.items():
        key_side, _, suffix = str(key).partition(".")
        policy, _, name = suffix.partition(".")
        for prefix, metric in _PUBLISHED.items():
            cutoff = name.removeprefix(prefix)
            is_named = name == prefix or (prefix.endswith("_") and re.fullmatch("[0-9]+", cutoff))
            if key_side == side and policy in _POLICIES and is_named:
                column = metric + (cutoff if name != prefix else "")
                low, high = _averaged(metric, policy, float(value))
                ends = ranges.get(column, (0.0, 1.0))
                ranges[column] = max(low, ends[0]), min(high, ends[1])
    if not ranges:
        raise ValueError(
            f"results must hold a metric of side {as_written(side)}, got "
            f"{', '.join(list(flat)[:3]) or 'none'}"
        )
    row = {"method": method}
    for column, ends in ranges.items():
        row[column] = " to ".join(dict.fromkeys(f"{end:.6f}" for end in ends))
    return pd.DataFrame([row])


def _averaged(metric: str, policy: str, value: float) -> tuple[float, float]:
    """Range of a metric averaged over ties, given that of the ranks of a policy.

    The places of a tie are symmetric about its realistic rank, the mean place. So at least half of
    them are hits if it is one, and at most half if not. The reciprocal is convex, so that of the
    mean rank is the smaller; it is furthest off for a tie from the first place on.

    >>> _averaged("MRR", "realistic", 2 / 3)  # places 1 and 2
    (0.6666666666666666, 0.75)
    """
    if metric == "AUC":
        value = (1 + value) / 2
    if policy == "optimistic":
        return 0.0, value
    if policy == "pessimistic":
        return value, 1.0
    if metric == "AUC":  # linear in the rank
        return value, value
    if metric == "MRR":
        places = np.arange(1.0, _TIED + 1)
        means = np.cumsum(1.0 / places) / places
        mean_ranks = (places + 1) / 2
        # Concave in the reciprocal rank, so that it bounds the mean over users as well.
        return value, float(np.interp(value, 1 / mean_ranks[::-1], means[::-1]))
    return value / 2, (1 + value) / 2


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
