"""Metrics where scores are made: in a training loop, or of matrices of scores at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from .._validate import IntArray, as_intp, as_written, integer, integers
from ..log.columns import meaning, require_columns, whole_numbers
from ..log.inspection import refuse_batch, refuse_repeated, refuse_sample
from ..log.read import read_log
from ..log.tables import loaded
from ..metrics import Metric, metric
from ..numerics.arrays import namespace, on_host, rows
from ..protocol import Protocol
from ..ranking.counting import checked_scores
from ..ranking.exact import exact_ranks
from ..readers import from_scores, ranx, rectools
from .estimation import DEFAULT_METRICS, estimate

if TYPE_CHECKING:
    import pandas as pd

    from ..results import Estimates

#: One user: candidates, then how many irrelevant ones stand above and beside each relevant item.
_Kind = tuple[int, ...]  # flat, because nested tuples take longer to hash
#: Of each relevant item: its user's row, irrelevant candidates above, tied, and in all.
_Counts = tuple[IntArray, IntArray, IntArray, IntArray]
#: Names of columns that other software gives to those of readers and logs.
_NAMES = {
    "label": "relevant", "prediction": "score", "position": "rank",
    "y_true": "relevant", "y_pred": "score",
}  # fmt: skip


class RankMetric:
    """A ranking metric that is updated batch by batch, and reported with its range.

    The state counts the users with the same candidates, ranks and ties. Without a mask, and with
    one relevant item in each row, there are about as many such counts as columns, however many
    batches come. A mask, or several relevant items, may make each user a count of its own: about 12
    bytes when pickled, for one relevant item. States pickle, and those of several workers are
    merged.

    Parameters
    ----------
    metric : str or Metric
        As for :func:`~sampled_metrics.metric`.
    protocol : Protocol, optional
        How the negatives were drawn, if each row of scores has one relevant item and
        `protocol.n_negatives` negatives. Without it the rows hold the scores of all items.
    n_items : int, optional
        Without a protocol, the number of columns, to say that they are all items: whatever a mask
        leaves out, or has minus infinity, is then no sample's gap, and a square matrix no batch.
    blocks : bool
        Whether each batch is a block of a random partition of the items, each item once: a square
        matrix with the relevant items in its diagonal, and `protocol` draws all but one of its
        items, without replacement. Standard errors are then over blocks.
    family : str, optional
        As for :func:`~sampled_metrics.estimate`.

    Raises
    ------
    ValueError
        If there is no such metric, or the protocol is not uniform, with one relevant item and one
        catalogue size.

    See Also
    --------
    sampled_metrics.evaluate : The same for scores that are there at once.
    sampled_metrics.exact_ranks : Rank intervals of each user.

    Examples
    --------
    Three batches of scores of all 500 items. The relevant item is named by its column:

    >>> import numpy as np, sampled_metrics as sm
    >>> rng = np.random.default_rng(0)
    >>> ndcg = sm.RankMetric("ndcg@10")
    >>> for batch in range(3):
    ...     scores, target = rng.normal(size=(64, 500)), rng.integers(0, 500, 64)
    ...     scores[np.arange(64), target] += 2
    ...     ndcg.update(scores, target)
    >>> ndcg.compute().frame[["metric", "users", "estimate"]].round(3)
        metric  users  estimate
    0  ndcg@10    192     0.312

    The relevant item first, then 100 of the others:

    >>> order = np.argsort(np.arange(500) != target[:, np.newaxis], axis=1, kind="stable")
    >>> sampled = sm.RankMetric("ndcg@10", sm.Protocol(500, 100, replacement=False))
    >>> sampled.update(np.take_along_axis(scores, order[:, :101], axis=1), np.zeros(64, dtype=int))
    >>> sampled.compute().frame[["reported", "estimate"]].round(3)
       reported  estimate
    0     0.549     0.323
    """

    def __init__(
        self,
        metric_or_name: str | Metric,
        protocol: Protocol | None = None,
        *,
        n_items: int | None = None,
        blocks: bool = False,
        family: str | None = None,
    ) -> None:
        if blocks and (protocol is None or protocol.replacement):
            raise ValueError(
                "protocol must be given with blocks=True, and draw without replacement: "
                "Protocol(n, b - 1, replacement=False) for blocks of b of n items"
            )
        self.of_blocks: list[Counter[_Kind]] | None = [] if blocks else None
        self.metric = metric(metric_or_name)
        self.protocol, self.n_items = _checked_protocol(protocol), n_items
        self.kinds, self.family = Counter[_Kind](), family
        self.n_columns: int | None = None

    def update(self, scores: Any, targets: ArrayLike, mask: ArrayLike | None = None) -> None:
        """Add the users of a batch. After an error the state is as before.

        Parameters
        ----------
        scores : array, shape (n_users, n_columns)
            Higher is better. Ties are averaged over. An array of PyTorch, JAX or CuPy is counted on
            its device.
        targets : array_like, shape (n_users,) or (n_users, n_columns)
            The column of each user's relevant item; or, of all items, booleans that mark one or
            more relevant items in each row.
        mask : array_like of bool, shape (n_users, n_columns), optional
            False for items that are no candidates, such as those of the training set.

        Raises
        ------
        ValueError
            If shapes do not fit, earlier batches had other columns, a target is no column or is
            masked out, a score is NaN, a row has no relevant item or no irrelevant candidate, or,
            with a protocol, the columns are not its negatives and one more. Without `n_items` also
            if the rows seem to hold a sample of the items, a batch or the best k.
        """
        if self.of_blocks is not None:
            refuse_repeated(scores, targets, mask)
        counted = _counted(
            scores, targets, mask, self.protocol, self.n_items, self.of_blocks is not None
        )
        n_columns = np.shape(scores)[1]
        if n_columns != (self.n_columns or n_columns):
            raise ValueError(f"scores must have {self.n_columns} columns again, got {n_columns}")
        kinds = _kinds_of(*counted)
        if self.of_blocks is not None:
            self.of_blocks.append(kinds)
        self.kinds.update(kinds)  # += would look at all kinds again
        self.n_columns = n_columns

    def compute(self) -> Estimates:
        """Report the metric of all users so far, see :func:`~sampled_metrics.estimate`.

        Raises
        ------
        ValueError
            If there are fewer than two users.
        """
        if self.kinds.total() < 2:
            raise ValueError(f"update must have seen two users, got {self.kinds.total()}")
        if self.of_blocks is not None:
            log = _log_of_blocks(self.of_blocks, self.protocol)
        else:
            log = _log(self.kinds.items(), self.protocol)
        return estimate(log, [self.metric], family=self.family)

    def merge(self, other: RankMetric) -> None:
        """Add the users of another state, such as another worker's.

        Raises
        ------
        ValueError
            If its metric, its protocol or the number of its columns differs.
        """
        if not isinstance(other, RankMetric):
            raise ValueError(f"other must be a RankMetric, got {type(other).__name__}")
        if (self.of_blocks is None) != (other.of_blocks is None):
            raise ValueError("other must have the same blocks, True or False")
        for name in ("metric", "protocol", "n_columns"):
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine != theirs and not (name == "n_columns" and None in (mine, theirs)):
                raise ValueError(f"other must have the {name} {mine}, got {theirs}")
        self.kinds.update(other.kinds)
        if self.of_blocks is not None:
            self.of_blocks += other.of_blocks or []
        self.n_columns = self.n_columns or other.n_columns

    def reset(self) -> None:
        """Forget all users."""
        self.kinds.clear()
        self.of_blocks = None if self.of_blocks is None else []
        self.n_columns = None


def evaluate(
    scores: Any,
    targets: Any = None,
    protocol: Protocol | None = None,
    *,
    mask: ArrayLike | None = None,
    n_items: int | None = None,
    first_rank: Literal[0, 1] | None = None,
    metrics: Sequence[str | Metric] = DEFAULT_METRICS,
    **options: Any,
) -> Estimates:
    """Evaluate one or more recommenders from their scores or ranks of the same users.

    Scores of all items give exact ranks. Scores of a sample, and ranks, need `protocol`, because
    neither shows how the negatives were drawn. :ref:`How do I evaluate inside my training loop?
    <howto-loop>` lists what each form of scores needs.

    Parameters
    ----------
    scores : array, mapping, data frame or run
        Scores, shape (n_users, n_columns); ranks of one relevant item for each user; a mapping of
        recommenders to either; a frame with a row for each candidate (column score) or for each
        held-out item; a run of ranx, a mapping of user to item to score, or a mapping of
        recommenders to such runs; or recommendations of RecTools.
    targets : array_like, mapping, Qrels or data frame, optional
        Columns or booleans as for :meth:`RankMetric.update`, or the judgements of a run.
        Rows of pandas objects are brought into the order of the first one's index.
    protocol : Protocol, optional
        As for :class:`RankMetric`, or for :func:`~sampled_metrics.read_log`. Exact ranks among n
        items are ``Protocol(n, n - 1, replacement=False)``.
    mask : array_like of bool, optional
        As for :meth:`RankMetric.update`, the same for all recommenders.
    n_items : int, optional
        Items of the catalogue, for frames and runs without `protocol`. If each user has so many
        candidates, their ranks are exact. For matrices as for :class:`RankMetric`.
    first_rank : {0, 1}, optional
        The best rank. By default 1, but a column position, or another name of rank, needs it.
    metrics : sequence of str or Metric
        By default `DEFAULT_METRICS`.
    **options
        As for :func:`~sampled_metrics.estimate`.

    Returns
    -------
    Estimates
        Its `log` can be given to :func:`~sampled_metrics.compare`.

    Raises
    ------
    ValueError
        As for :meth:`RankMetric.update`, with the recommender's name, or for
        :func:`~sampled_metrics.read_log` and the readers; also if `protocol` or
        `first_rank` is missing, an argument does not belong to the form of `scores`, or
        recommenders have ranks of different numbers of users.

    See Also
    --------
    RankMetric : The same batch by batch.
    sampled_metrics.estimate : The same from a log.
    sampled_metrics.readers.from_scores : A table with a row for each candidate.

    Examples
    --------
    Ranks among 9 negatives, of which a framework kept the positions from 0:

    >>> import sampled_metrics as sm
    >>> nine = sm.Protocol(400, 9, replacement=False)
    >>> sm.evaluate([0, 3, 0, 1, 6], protocol=nine, first_rank=0, metrics=["auc"]).frame["estimate"]
    0    0.777778
    Name: estimate, dtype: float64
    """
    protocol = _checked_protocol(protocol)
    is_matrix = targets is not None and not _is_table(targets) and not _is_mapping(targets)
    for name, value in {"mask": mask, "first_rank": first_rank}.items():
        if value is not None and is_matrix != (name == "mask"):
            form = "a matrix of scores" if is_matrix else "other forms than a matrix of scores"
            raise ValueError(f"{name} must be left out with {form}, got {as_written(value)}")
    if is_matrix:
        frame = _of_matrices(scores, targets, mask, protocol, n_items)
        return estimate(read_log(frame, **_log_options(protocol)), metrics, **options)
    ranks = _by_recommender(scores) if targets is None else {}
    if any(hasattr(matrix, "tocoo") for matrix in ranks.values()):
        scores, n_items = _of_sparse_ranks(ranks, protocol, n_items, first_rank), None
        options["replacement"] = False
    table, notes = _of_rows(scores, targets, first_rank)
    if protocol is None and not {"n_negatives", "n_candidates"} & set(table.columns):
        exact = "Protocol(n, n - 1, replacement=False)"
        raise ValueError(f"protocol is needed for ranks: for exact ranks among n items {exact}")
    log = read_log(table, **_log_options(protocol, n_items, options.get("replacement")))
    result = estimate(log, metrics, **options)
    return replace(result, notes=(*result.notes, *notes))


def _is_mapping(value: Any) -> bool:
    """Whether it is a mapping, or an object that makes one of itself, such as ranx's."""
    if isinstance(value, Mapping):
        return True
    return hasattr(value, "to_dict") and not hasattr(value, "__array__")


def _of_matrices(
    scores: Any, targets: Any, mask: Any, protocol: Protocol | None, n_items: int | None
) -> pd.DataFrame:
    """Rows of a log from matrices of scores."""
    import pandas as pd

    several, targets, mask = _aligned(_by_recommender(scores), targets, mask)
    frames = []
    for name, matrix in several.items():
        try:
            counted = _counted(matrix, targets, mask, protocol, n_items)
        except ValueError as problem:
            prefix = f"{name}: " if isinstance(scores, Mapping) else ""
            raise ValueError(f"{prefix}{problem}") from problem
        frames.append(_frame(*counted, protocol).assign(recommender=str(name)))
    return pd.concat(frames)


def _of_sparse_ranks(
    several: Mapping[str, Any],
    protocol: Protocol | None,
    n_items: int | None,
    first_rank: int | None,
) -> pd.DataFrame:
    """Rows of a log from ranks among all items, as LightFM's predict_rank has them."""
    all_sparse = all(hasattr(ranks, "tocoo") for ranks in several.values())
    if n_items is None or protocol is not None or first_rank is None or not all_sparse:
        raise ValueError(
            "scores must be an array or a table, got a sparse matrix: ranks among all items, as of "
            "LightFM's predict_rank, take n_items and first_rank=0, and no protocol"
        )
    import pandas as pd

    tables = []
    for name, ranks in several.items():
        entries = ranks.tocoo()
        n_relevant = np.bincount(entries.row, minlength=ranks.shape[0])[entries.row]
        columns = {"user": entries.row, "item": entries.col, "rank": entries.data}
        sizes = {"n_items": n_items, "n_negatives": n_items - n_relevant}
        tables.append(pd.DataFrame({"recommender": str(name)} | columns | sizes))
    return pd.concat(tables, ignore_index=True)


def _of_rows(
    scores: Any, targets: Any, first_rank: int | None
) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Rows of a log from a table, from ranks or from runs; and notes."""
    if targets is None and isinstance(scores, Mapping):
        scores = _columns_or_users(scores)
    several = _by_recommender(scores)
    if targets is None:
        return table_of_ranks(scores if _is_table(scores) else _of_ranks(several), first_rank)
    rows: Any = (rectools if _is_table(targets) else _of_runs)(scores, targets)
    return rows, ()


def _by_recommender(scores: Any) -> Mapping[str, Any]:
    several = scores if isinstance(scores, Mapping) else {"model": scores}
    if not several:
        raise ValueError("scores must have a recommender, got none")
    return several


def _is_table(value: Any) -> bool:
    return hasattr(type(value), "columns")


def _columns_or_users(scores: Mapping[Any, Any]) -> Any:
    """A mapping of columns as a frame, one of users to ranks as a series; others as they are."""
    import pandas as pd

    if {"user", "rank"} <= set(scores):
        return pd.DataFrame(dict(scores))
    if scores and all(isinstance(rank, (int, float, np.number)) for rank in scores.values()):
        return pd.Series(dict(scores))
    return scores


def _aligned(
    several: Mapping[str, Any], targets: Any = None, mask: Any = None
) -> tuple[dict[str, Any], Any, Any]:
    """Objects of pandas with their rows in one order, by their index; others as they are."""
    import pandas as pd

    named = {f"scores of {name}": value for name, value in several.items()}
    named |= {"targets": targets, "mask": mask}
    first: Any = None
    for name, value in named.items():
        if not isinstance(value, (pd.Series, pd.DataFrame)):
            continue
        first = value.index if first is None else first
        if value.index.equals(first):
            continue
        if len(value) != len(first) or not first.is_unique or not first.isin(value.index).all():
            raise ValueError(
                f"{name} must have the users of the other arguments in its index, got "
                f"{as_written(value.index[0])} first, where they have {as_written(first[0])}: "
                "give arrays if the rows are in the same order"
            )
        named[name] = value.loc[first]
    *aligned, targets, mask = named.values()
    return dict(zip(several, aligned, strict=True)), targets, mask


def _of_runs(scores: Any, targets: Any) -> pd.DataFrame:
    """Rows of one run, or of a mapping of recommenders to runs."""
    import pandas as pd

    run: Any = next(iter(scores.values()), None) if isinstance(scores, Mapping) else None
    run = run.to_dict() if hasattr(run, "to_dict") else run
    if not isinstance(run, Mapping) or not isinstance(next(iter(run.values()), None), Mapping):
        return ranx(scores, targets)
    tables = [ranx(run, targets, recommender=str(name)) for name, run in scores.items()]
    table = pd.concat(tables, ignore_index=True)  # which drops attrs that differ
    n_distinct, most_often = zip(*(frame.attrs["negatives"] for frame in tables), strict=True)
    table.attrs = {
        "replacement": False,
        "shared_negatives": any(frame.attrs["shared_negatives"] for frame in tables),
        "negatives": [min(n_distinct), max(most_often)],
    }
    return table


def _of_ranks(several: Mapping[str, Any]) -> pd.DataFrame:
    import pandas as pd

    several = _aligned(several)[0]
    arrays = {str(name): on_host(ranks) for name, ranks in several.items()}
    shapes = [array.shape for array in arrays.values()]
    if len(shapes[0]) != 1 or len(set(shapes)) > 1:
        raise ValueError(
            f"scores without targets must be ranks of the same users, got {shapes}, where an array "
            "for each recommender is needed"
        )
    users = next((ranks.index for ranks in several.values() if isinstance(ranks, pd.Series)), None)
    ranks = pd.DataFrame(arrays, index=users).rename_axis("user")
    return ranks.melt(var_name="recommender", value_name="rank", ignore_index=False).reset_index()


def table_of_ranks(tabular: Any, first_rank: int | None) -> tuple[pd.DataFrame, tuple[str, ...]]:
    """Rows of a log from a long table, and notes on the columns that have other names."""
    frame, origin = loaded(tabular, "scores")
    keys = {name: _NAMES.get(str(name).lower()) or meaning(name) for name in frame.columns}
    present = {*frame.columns, "rank"} if "n_better" in frame.columns else {*frame.columns}
    renamed = {name: key for name, key in keys.items() if key and key not in present}
    if "rank" in renamed.values() and first_rank is None:
        raise ValueError("first_rank must be 0 or 1, the best position, got None")
    frame = frame.rename(columns=renamed)
    notes = tuple(f"column {name} was read as {key}" for name, key in renamed.items())
    if "score" in frame.columns:
        frame = from_scores(frame)
    if first_rank is not None:
        require_columns(frame, ["rank"], origin)
        first = integer(first_rank, "first_rank", 0, 1)
        frame = frame.assign(rank=whole_numbers(frame, "rank", first, origin) + 1 - first)
    return frame, notes


def _checked_protocol(protocol: Protocol | None) -> Protocol | None:
    if protocol is None:
        return None
    if not isinstance(protocol, Protocol) or not protocol.uniform:
        raise ValueError(f"protocol must be a Protocol of uniform draws, got {protocol!r}")
    if not isinstance(protocol.n_items, int) or protocol.n_relevant > 1:
        raise ValueError(f"protocol must have one n_items and one relevant item, got {protocol!r}")
    return protocol


def _counted(
    scores: Any,
    targets: Any,
    mask: Any,
    protocol: Protocol | None,
    n_items: int | None,
    blocks: bool = False,
) -> _Counts:
    """Count the irrelevant candidates above and beside each relevant item of a matrix."""
    matrix = _checked_matrix(scores, protocol, n_items)
    shape = tuple(matrix.shape)
    target_array = _target_array(targets, shape)
    candidates = None if mask is None else _checked_mask(mask, shape, protocol)
    if target_array.ndim == 2:
        counted = _several(matrix, target_array, candidates, protocol)
    else:
        counted = _single(matrix, target_array, candidates)
    user, *_, n_negatives = counted
    if not n_negatives.all():
        row = user[int(np.argmin(n_negatives))]
        raise ValueError(f"scores must have irrelevant candidates in each row, got none in {row}")
    if n_items is None and (protocol is None or protocol.n_items != shape[1]):
        if target_array.ndim == 1 and not blocks:
            refuse_batch(shape[1], target_array)
        if protocol is None:
            refuse_sample(matrix, target_array, candidates)
    return counted


def _checked_matrix(scores: Any, protocol: Protocol | None, n_items: int | None) -> Any:
    """Scores with a row for each user, and as many columns as the other arguments say."""
    if hasattr(scores, "tocsr"):
        raise ValueError(
            "scores must be an array with a score for each item, got a sparse matrix, which leaves "
            "the others' scores open: scores.toarray() makes them 0"
        )
    matrix: Any = scores if namespace(scores) is not None else np.asarray(scores)
    shape = tuple(matrix.shape)
    if len(shape) != 2 or not shape[0]:
        raise ValueError(f"scores must have a row for each user, one or more, got shape {shape}")
    if n_items is not None and (protocol is not None or n_items != shape[1]):
        raise ValueError(
            f"n_items must be the {shape[1]} columns of scores, without a protocol, got "
            f"{as_written(n_items)}: a sample of the items needs protocol instead"
        )
    if protocol is not None and shape[1] != int(protocol.n_negatives) + 1:
        raise ValueError(
            f"scores must have {int(protocol.n_negatives) + 1} columns, a relevant item and "
            f"{protocol.n_negatives} negatives, got {shape[1]}"
        )
    return matrix


def _checked_mask(mask: Any, shape: tuple[int, ...], protocol: Protocol | None) -> Any:
    candidates = on_host(mask)
    if candidates.shape != shape or candidates.dtype != bool:
        got = f"{candidates.dtype} of shape {candidates.shape}"
        raise ValueError(f"mask must be booleans of shape {shape}, got {got}")
    if protocol is not None:
        raise ValueError("mask must be left out with a protocol, whose candidates are all columns")
    return candidates


def _target_array(targets: Any, shape: tuple[int, ...]) -> Any:
    """Columns, or booleans that mark relevant items, of any form of targets."""
    if hasattr(targets, "tocsr"):
        return targets.toarray() != 0
    if isinstance(targets, Sequence) and any(isinstance(row, Sequence) for row in targets):
        sizes = {len(row) if isinstance(row, Sequence) else 1 for row in targets}
        if len(sizes) > 1:
            raise ValueError(
                "targets must be a column for each row of scores, or booleans of its shape, got "
                f"lists of {min(sizes)} to {max(sizes)} columns: mark the relevant items of each "
                "row with True"
            )
    array = on_host(targets)
    if array.shape == shape and array.dtype.kind in "iuf" and np.isin(array, (0, 1)).all():
        return array == 1
    return array


def _single(matrix: Any, target_array: Any, candidates: Any) -> _Counts:
    n_users, n_columns = tuple(matrix.shape)
    items, user = integers(target_array, "targets", 0, n_columns - 1), np.arange(n_users)
    if items.shape != (n_users,):
        rows_are = f"each of {n_users} rows of scores"
        raise ValueError(f"targets must be a column for {rows_are}, got shape {items.shape}")
    if candidates is not None and not candidates[user, items].all():
        row = int(np.argmin(candidates[user, items]))
        raise ValueError(f"mask must keep targets, got False for column {items[row]} in row {row}")
    ranks = exact_ranks(matrix, items, None if candidates is None else _sparse(~candidates))
    return user, ranks.n_better, ranks.n_tied, ranks.n_candidates - 1


def _several(matrix: Any, relevant: Any, candidates: Any, protocol: Protocol | None) -> _Counts:
    if relevant.shape != tuple(matrix.shape) or relevant.dtype != bool:
        raise ValueError(
            f"targets must be columns, or booleans of shape {tuple(matrix.shape)}, got "
            f"{relevant.dtype} of shape {relevant.shape}"
        )
    counts = relevant.sum(axis=1)
    is_wrong = (counts == 0) if protocol is None else (counts != 1)
    if is_wrong.any():
        row = int(np.argmax(is_wrong))
        form = "one item or more" if protocol is None else "one item, with a protocol,"
        raise ValueError(f"targets must mark {form} in each row, got {counts[row]} in row {row}")
    user, item = np.nonzero(relevant)
    left_out = relevant if candidates is None else relevant | ~candidates
    if candidates is not None and not candidates[user, item].all():
        row = user[int(np.argmin(candidates[user, item]))]
        raise ValueError(f"mask must keep relevant items, got False for one in row {row}")
    n_negatives = matrix.shape[1] - left_out.sum(axis=1)[user]
    excluded = left_out[user]
    excluded[np.arange(len(item)), item] = False  # an item is a candidate itself
    checked_scores(matrix, range(len(relevant)))  # names the user's row, not the item's
    ranks = exact_ranks(lambda block: rows(matrix, user[block]), item, _sparse(excluded))
    return user, ranks.n_better, ranks.n_tied, n_negatives


def _sparse(left_out: Any) -> Any:
    """Items that are no candidates, as a sparse matrix: faster than SciPy's conversion."""
    import scipy.sparse as sp

    indptr = np.concatenate(([0], np.cumsum(np.count_nonzero(left_out, axis=1))))
    row, column = np.divmod(np.flatnonzero(left_out), left_out.shape[1])
    return sp.csr_array((np.ones(row.size, bool), column, indptr), shape=left_out.shape)


def _kinds_of(
    user: IntArray, better: IntArray, tied: IntArray, n_negatives: IntArray
) -> Counter[_Kind]:
    """How many users there are of each kind."""
    edges, size = np.flatnonzero(np.diff(user, prepend=-1)), int(n_negatives.max()) + 1
    if edges.size == user.size and size**3 < 2**63:  # one relevant item each: a number for a kind
        code = (n_negatives.astype(np.int64, copy=False) * size + better) * size + tied
        code, count = np.unique(code, return_counts=True)
        above, beside = np.divmod(code, size)
        total, above = np.divmod(above, size)
        *kinds, counts = (part.tolist() for part in (total, above, beside, count))
        return Counter(dict(zip(zip(*kinds, strict=True), counts, strict=True)))
    pairs = list(zip(better.tolist(), tied.tolist(), strict=True))
    ends = [*edges[1:].tolist(), user.size]
    starts = zip(edges.tolist(), ends, n_negatives[edges].tolist(), strict=True)
    return Counter((n, *chain(*sorted(pairs[start:end]))) for start, end, n in starts)


def _log(kinds: Any, protocol: Protocol | None) -> Any:
    """A log of groups of users of one kind each."""
    table = [
        (kind, better, tied, n_negatives, count)
        for kind, ((n_negatives, *pairs), count) in enumerate(kinds)
        for better, tied in zip(pairs[::2], pairs[1::2], strict=True)
    ]
    user, better, tied, n_negatives, users = np.array(table, dtype=np.int64).T
    frame = _frame(user, better, tied, n_negatives, protocol).assign(recommender="model")
    return read_log(frame.assign(count=users), **_log_options(protocol))


def _log_of_blocks(of_blocks: Sequence[Counter[_Kind]], protocol: Protocol | None) -> Any:
    """A log with a row for each user of each block."""
    rows = [(block, *kind, count)
            for block, kinds in enumerate(of_blocks) for kind, count in kinds.items()]  # fmt: skip
    block, _, better, tied, count = np.repeat(rows, [row[-1] for row in rows], axis=0).T
    frame = _frame(np.arange(count.size), better, tied, count, protocol)
    return read_log(frame.assign(recommender="model", block=block), **_log_options(protocol))


def _frame(
    user: IntArray,
    better: IntArray,
    tied: IntArray,
    n_negatives: IntArray,
    protocol: Protocol | None,
) -> pd.DataFrame:
    """Rows of a log; without a protocol all irrelevant candidates were drawn."""
    import pandas as pd

    frame = pd.DataFrame({"user": user, "n_better": better, "n_tied": tied})
    if protocol is not None:
        return frame
    relevant = np.bincount(as_intp(user))
    item = np.arange(len(user)) - np.repeat(np.cumsum(relevant) - relevant, relevant)
    return frame.assign(item=item, n_negatives=n_negatives, n_items=n_negatives + relevant[user])


def _log_options(
    protocol: Protocol | None, n_items: int | None = None, replacement: bool | None = False
) -> dict[str, Any]:
    """Options of read_log: those of the protocol, or those given without one."""
    if protocol is None:
        return {"n_items": n_items, "replacement": replacement}
    if n_items is not None:
        raise ValueError(f"n_items must be left out with a protocol, got {as_written(n_items)}")
    names = ("n_items", "n_negatives", "replacement")
    return {name: getattr(protocol, name) for name in names}
