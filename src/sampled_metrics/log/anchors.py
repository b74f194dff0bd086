"""Anchors of a log: users whose held-out item was ranked among all items, in the order drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from .._validate import FloatArray, IntArray, as_intp, as_written, shortened
from ..metrics import Metric
from ..metrics import metric as parsed
from .columns import key_of, refuse_first, whole
from .compact import ANCHOR_COLUMNS, AnchorRanks, Log

if TYPE_CHECKING:
    import pandas as pd

_COUNTS = ("rank", "n_better", "n_tied", "n_chosen", "n_chosen_better")
_MISSING = (
    "anchors is missing: name the metrics by which the anchors were drawn, such as "
    "anchors='ndcg@10' (--anchors ndcg@10)"
)


def checked(frame: pd.DataFrame, origin: str, anchors: object) -> pd.DataFrame:
    """The rows of a log with anchors."""
    if anchors is None:
        raise ValueError(_MISSING)
    for absent, present in (ANCHOR_COLUMNS, ANCHOR_COLUMNS[::-1]):
        if absent not in frame:
            raise ValueError(
                f"{origin} must have a column {absent} beside {present}: anchors need their exact "
                "rank, and the order in which they were drawn"
            )
    for name in ("count", "n_above", "instance", "item"):
        if name in frame:
            raise ValueError(f"{origin} must have no column {name} beside exact_rank")
    # A CSV file with text elsewhere has empty text where an anchor is not.
    frame = frame.assign(**{name: frame[name].mask(frame[name] == "") for name in ANCHOR_COLUMNS})
    is_anchor, is_drawn = (frame[name].notna().to_numpy() for name in ANCHOR_COLUMNS)
    pair_message = "a row must have both exact_rank and draw, or neither, but one is missing"
    refuse_first(is_anchor != is_drawn, origin, lambda _: pair_message)
    counts = frame[[name for name in _COUNTS if name in frame]]
    unknown = counts.isna().any(axis=1).to_numpy() & is_anchor
    count_message = "an anchor must be a user of the log, with its counts, but these are missing"
    refuse_first(unknown, origin, lambda _: count_message)
    return frame


def attached(log: Log, frame: pd.DataFrame, origin: str, anchors: Any) -> Log:
    """The log with the anchors of the rows that it was read from."""
    if log.sizes is not None:
        raise ValueError(f"{origin} must have one row for each user beside exact_rank")
    several = [anchors] if isinstance(anchors, (str, Metric)) else anchors
    metrics = tuple(metric if isinstance(metric, Metric) else parsed(metric) for metric in several)
    is_anchor = frame["exact_rank"].notna().to_numpy()
    exact, draw = (
        whole(frame.assign(**{name: frame[name].where(is_anchor, 1)}), name, 1, origin)
        for name in ANCHOR_COLUMNS
    )
    user, recommender = (
        np.broadcast_to(key_of(frame, name, origin).codes, len(frame))
        for name in ("user", "recommender")
    )
    above, items = known_above(log)[recommender, user], column(log, "n_items")[recommender, user]
    refuse_first(
        is_anchor & ((exact <= above) | (exact > items)),
        origin,
        lambda row: (
            f"exact_rank must be >= {above[row] + 1}, with {above[row]} scored items above, and <= "
            f"n_items = {items[row]}, got {exact[row]}"
        ),
    )
    users, ranks = [], []
    for index, name in enumerate(log.recommenders):
        rows = np.flatnonzero(is_anchor & (recommender == index))
        rows = rows[np.argsort(draw[rows], kind="stable")]
        if not np.array_equal(draw[rows], np.arange(1, rows.size + 1)) or not rows.size:
            raise ValueError(
                f"draw must number the anchors of {shortened(name)} from 1 without a gap or a "
                f"repetition, got {as_written(draw[rows].tolist())} in {origin}"
            )
        users.append(user[rows])
        ranks.append(exact[rows])
        if not np.array_equal(users[0], users[-1]):
            raise ValueError(
                "recommenders must have the same anchors, with the same draw, but "
                f"{shortened(log.recommenders[0])} and {shortened(name)} differ: draw the anchors "
                "from one log of both"
            )
    return replace(log, anchors=AnchorRanks(metrics, users[0], np.array(ranks)))


def known_above(log: Log) -> IntArray:
    """For each recommender and user how many distinct items are known to be above the relevant one.

    All chosen items above count. Negatives drawn with replacement may be the same one.
    """
    return column(log, "n_chosen_better") + np.minimum(
        column(log, "n_better"), 1 if log.replacement else np.inf
    ).astype(np.int64)


def bounds(log: Log, metric: Metric) -> FloatArray:
    """The largest value that users may have, shape (recommenders, users)."""
    return metric(known_above(log) + 1, column(log, "n_items"))


def sizes(log: Log, metrics: Sequence[Metric]) -> FloatArray:
    """What anchors are drawn by: a user's largest bound over recommenders and metrics."""
    return np.asarray(np.max([bounds(log, metric).max(axis=0) for metric in metrics], axis=0))


def column(log: Log, name: str) -> IntArray:
    """A column of each recommender's users, which must be the same; 0 if the log has none."""
    if log.sizes is not None or log.weights is not None or not log.paired:
        raise ValueError("a log must have one row for each user to have anchors")
    if len(log.recommenders) > 1:
        log.check_same_users()
    column = log.kinds.get(name, np.zeros(log.kinds["position"].size, dtype=np.int64))
    present = log.codes[0] > 0  # a range of users may have gaps
    return np.array([column[as_intp(codes[present]) - 1] for codes in log.codes], dtype=np.int64)
