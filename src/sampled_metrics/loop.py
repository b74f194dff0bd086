"""Metrics where scores are made: in a training loop, or of matrices of scores at once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from ._arrays import namespace, on_host, rows
from ._validate import IntArray, integers
from .evaluation import DEFAULT_METRICS, estimate
from .log.read import read_log
from .metrics import Metric, metric
from .protocol import Protocol
from .ranking.counting import checked_scores
from .ranking.exact import exact_ranks

if TYPE_CHECKING:
    import pandas as pd

    from .results import Estimates

#: One user: candidates, then how many irrelevant ones stand above and beside each relevant item.
_Kind = tuple[int, tuple[tuple[int, int], ...]]


class RankMetric:
    """A ranking metric that is updated batch by batch, and reported with its range.

    The state counts the users with the same candidates, ranks and ties. Without a mask, and with
    one relevant item in each row, there are about as many such counts as columns, however many
    batches come. A mask, or several relevant items, may make each user a count of its own: about 16
    bytes when pickled. States pickle, and those of several workers are merged.

    Parameters
    ----------
    metric : str or Metric
        As for :func:`~sampled_metrics.metric`.
    protocol : Protocol, optional
        How the negatives were drawn, if each row of scores has one relevant item and
        `protocol.n_negatives` negatives. Without it the rows hold the scores of all items.

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
    0     0.549     0.302
    """

    def __init__(self, metric_or_name: str | Metric, protocol: Protocol | None = None) -> None:
        self.metric = metric(metric_or_name)
        self.protocol = _checked_protocol(protocol)
        self.kinds: Counter[_Kind] = Counter()
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
            with a protocol, the columns are not its negatives and one more.
        """
        counted = _counted(scores, targets, mask, self.protocol)
        n_columns = np.shape(scores)[1]
        if n_columns != (self.n_columns or n_columns):
            raise ValueError(
                f"scores must have {self.n_columns} columns as in earlier batches, got {n_columns}"
            )
        self.kinds += _kinds_of(*counted)
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
        return estimate(_log(self.kinds.items(), self.protocol), [self.metric])

    def merge(self, other: RankMetric) -> None:
        """Add the users of another state, such as another worker's.

        Raises
        ------
        ValueError
            If its metric, its protocol or the number of its columns differs.
        """
        if not isinstance(other, RankMetric):
            raise ValueError(f"other must be a RankMetric, got {type(other).__name__}")
        names = ["metric", "protocol"]
        if self.kinds and other.kinds:
            names.append("n_columns")
        for name in names:
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine != theirs:
                raise ValueError(f"other must have the {name} {mine}, got {theirs}")
        self.kinds += other.kinds
        self.n_columns = self.n_columns or other.n_columns

    def reset(self) -> None:
        """Forget all users."""
        self.kinds.clear()
        self.n_columns = None


def evaluate(
    scores: Any,
    targets: ArrayLike,
    protocol: Protocol | None = None,
    *,
    mask: ArrayLike | None = None,
    metrics: Sequence[str | Metric] = DEFAULT_METRICS,
    **options: Any,
) -> Estimates:
    """Evaluate one or more recommenders from their scores of the same users.

    Parameters
    ----------
    scores : array, shape (n_users, n_columns), or mapping of str to such arrays
        As for :meth:`RankMetric.update`; a mapping gives the recommenders' names.
    targets, mask
        As for :meth:`RankMetric.update`, the same for all recommenders.
    protocol : Protocol, optional
        As for :class:`RankMetric`.
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
        As for :meth:`RankMetric.update`, with the recommender's name.

    See Also
    --------
    RankMetric : The same batch by batch.
    sampled_metrics.readers.from_scores : A table with a row for each candidate.

    Examples
    --------
    >>> import numpy as np, sampled_metrics as sm
    >>> rng = np.random.default_rng(0)
    >>> noise, users = rng.normal(size=(2, 300, 400)), np.arange(300)
    >>> noise[0, users, 0] += 2
    >>> found = sm.evaluate({"new": noise[0], "old": noise[1]}, np.zeros(300, dtype=int))
    >>> found.frame.set_index(["recommender", "metric"])["estimate"].round(3)["new"]
    metric
    recall@10    0.497
    ndcg@10      0.297
    ap           0.252
    auc          0.918
    Name: estimate, dtype: float64
    >>> sm.compare(found.log, "ndcg@10").verdicts
    {('new', 'old'): 'new beats old'}
    """
    import pandas as pd

    protocol = _checked_protocol(protocol)
    several = scores if isinstance(scores, Mapping) else {"model": scores}
    if not several:
        raise ValueError("scores must have a recommender, got none")
    frames = []
    for name, matrix in several.items():
        try:
            counted = _counted(matrix, targets, mask, protocol)
        except ValueError as problem:
            if several is not scores:
                raise
            raise ValueError(f"{name}: {problem}") from problem
        frames.append(_frame(*counted, protocol).assign(recommender=str(name)))
    log = read_log(pd.concat(frames, ignore_index=True), **_design(protocol))
    return estimate(log, metrics, **options)


def _checked_protocol(protocol: Protocol | None) -> Protocol | None:
    if protocol is None:
        return None
    if not isinstance(protocol, Protocol) or not protocol.uniform:
        raise ValueError(f"protocol must be a Protocol of uniform draws, got {protocol!r}")
    if not isinstance(protocol.n_items, int) or protocol.n_relevant > 1:
        raise ValueError(f"protocol must have one n_items and one relevant item, got {protocol!r}")
    return protocol


def _counted(
    scores: Any, targets: ArrayLike, mask: ArrayLike | None, protocol: Protocol | None
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Of each relevant item: its user's row, irrelevant candidates above, tied, and in all."""
    matrix: Any = scores if namespace(scores) is not None else np.asarray(scores)
    shape = tuple(matrix.shape)
    if len(shape) != 2 or not shape[0]:
        raise ValueError(f"scores must have a row for each user, one or more, got shape {shape}")
    target_array, candidates = on_host(targets), None if mask is None else on_host(mask)
    if candidates is not None and (candidates.shape != shape or candidates.dtype != bool):
        raise ValueError(
            f"mask must be booleans of shape {shape}, got {candidates.dtype} of shape "
            f"{candidates.shape}"
        )
    if protocol is not None and shape[1] != int(protocol.n_negatives) + 1:
        raise ValueError(
            f"scores must have {int(protocol.n_negatives) + 1} columns, a relevant item and "
            f"{protocol.n_negatives} negatives, got {shape[1]}"
        )
    if protocol is not None and candidates is not None:
        raise ValueError("mask must be left out with a protocol, whose candidates are all columns")
    if target_array.ndim == 2:
        counted = _several(matrix, target_array, candidates, protocol)
    else:
        counted = _single(matrix, target_array, candidates)
    user, *_, n_negatives = counted
    if not n_negatives.all():
        row = user[int(np.argmin(n_negatives))]
        raise ValueError(
            f"scores must have an irrelevant candidate in each row, got none in row {row}"
        )
    return counted


def _single(
    matrix: Any, target_array: Any, candidates: Any
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    n_users, n_columns = tuple(matrix.shape)
    items, user = integers(target_array, "targets", 0), np.arange(n_users)
    if items.shape != (n_users,):
        raise ValueError(
            f"targets must be a column for each of {n_users} rows of scores, got shape "
            f"{items.shape}"
        )
    if items.max() >= n_columns:
        raise ValueError(f"targets must be < {n_columns}, the columns, got {items.max()}")
    if candidates is not None and not candidates[user, items].all():
        row = int(np.argmin(candidates[user, items]))
        raise ValueError(f"mask must keep targets, got False for column {items[row]} in row {row}")
    ranks = exact_ranks(matrix, items, None if candidates is None else _sparse(~candidates))
    return user, ranks.n_better, ranks.n_tied, ranks.n_candidates - 1


def _several(
    matrix: Any, relevant: Any, candidates: Any, protocol: Protocol | None
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    if relevant.shape != tuple(matrix.shape) or relevant.dtype != bool:
        raise ValueError(
            f"targets must be columns, or booleans of shape {tuple(matrix.shape)}, got "
            f"{relevant.dtype} of shape {relevant.shape}"
        )
    counts = relevant.sum(axis=1)
    if protocol is not None and (counts != 1).any():
        row = int(np.argmax(counts != 1))
        raise ValueError(
            f"targets must mark one item in each row with a protocol, got {counts[row]} in row "
            f"{row}"
        )
    if not counts.all():
        raise ValueError(
            f"targets must mark an item in each row, got none in row {counts.argmin()}"
        )
    user, item = np.nonzero(relevant)
    left_out = relevant if candidates is None else relevant | ~candidates
    if candidates is not None and not candidates[user, item].all():
        row = user[int(np.argmin(candidates[user, item]))]
        raise ValueError(f"mask must keep relevant items, got False for one in row {row}")
    n_negatives = matrix.shape[1] - left_out.sum(axis=1)[user]
    others = left_out[user]
    others[np.arange(len(item)), item] = False  # an item is a candidate itself
    checked_scores(matrix, range(len(relevant)))  # names the user's row, not the item's
    ranks = exact_ranks(lambda block: rows(matrix, user[block]), item, _sparse(others))
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
        code, count = np.unique((n_negatives * size + better) * size + tied, return_counts=True)
        above, beside = np.divmod(code, size)
        total, above = np.divmod(above, size)
        parts = (total.tolist(), above.tolist(), beside.tolist(), count.tolist())
        return Counter({(n, ((x, t),)): c for n, x, t, c in zip(*parts, strict=True)})
    pairs = list(zip(better.tolist(), tied.tolist(), strict=True))
    ends = [*edges[1:].tolist(), user.size]
    starts = zip(edges.tolist(), ends, n_negatives[edges].tolist(), strict=True)
    return Counter((n, tuple(sorted(pairs[start:end]))) for start, end, n in starts)


def _log(kinds: Any, protocol: Protocol | None) -> Any:
    """A log of groups of users of one kind each."""
    table = [
        (kind, better, tied, n_negatives, count)
        for kind, ((n_negatives, pairs), count) in enumerate(kinds)
        for better, tied in pairs
    ]
    columns = np.array(table, dtype=np.int64).T
    kind_index, above, beside, total, users = columns
    frame = _frame(kind_index, above, beside, total, protocol)
    frame = frame.assign(recommender="model", count=users)
    return read_log(frame, **_design(protocol))


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
    relevant = np.bincount(user)
    item = np.arange(len(user)) - np.repeat(np.cumsum(relevant) - relevant, relevant)
    return frame.assign(item=item, n_negatives=n_negatives, n_items=n_negatives + relevant[user])


def _design(protocol: Protocol | None) -> dict[str, Any]:
    return {"replacement": False} if protocol is None else {"protocol": protocol}
