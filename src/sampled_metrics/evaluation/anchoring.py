"""Which users to rank among all items next."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from .._validate import FloatArray, as_written, integer
from ..bounds.anchors import Anchors, draw
from ..designs.options import checked_metrics
from ..log import anchors as log_anchors
from ..log.compact import Log
from ..metrics import Metric
from ..results import Result

#: Shares of all scores that a plan has rows for, and how often it draws users for a width.
_SHARES, _DRAWS = (0.02, 0.05, 0.1, 0.2, 0.4), 10
#: Tells the draw of anchors from other draws with the same seed.
_STREAM = 1956


def anchors(
    log: Log, metric: str | Metric | Sequence[str | Metric], n: int, seed: int
) -> pd.DataFrame:
    """Draw the users whose held-out item to rank among all items: anchors.

    A user is drawn in proportion to the largest value that the metric may have, given the scored
    items above: chosen ones, and sampled ones. Rank the item of each of them among all items; then
    :func:`~sampled_metrics.read_log` takes the exact ranks, and :func:`estimate` and
    :func:`compare` give intervals :ref:`whatever the ranks <howto-anchors>`.

    Parameters
    ----------
    log : Log
        With one row for each user and recommender.
    metric : str, Metric or sequence of these
        With several metrics or recommenders, a user is drawn in proportion to the largest value.
    n : int
        How many users to draw. Decide before you see an exact rank.
    seed : int
        Of the random draw: choose it once.

    Returns
    -------
    pandas.DataFrame
        The columns user and draw, which counts from 1. It has fewer than `n` rows if fewer users
        can have a positive value; their ranks give the exact metric.

    Raises
    ------
    ValueError
        If a user has several rows, recommenders have different users, or `n` is below 1.

    See Also
    --------
    sampled_metrics.read_log : Reads the log with the columns exact_rank and draw.

    Examples
    --------
    Only users with fewer than ten sampled items above can have a positive NDCG@10:

    >>> import sampled_metrics as sm
    >>> rows = pd.DataFrame({"user": range(5), "rank": [1, 40, 8, 60, 11]})
    >>> log = sm.read_log(rows, n_items=1_000, n_negatives=99, replacement=False)
    >>> sorted(sm.anchors(log, "ndcg@10", 3, seed=1)["user"])
    [0, 2]
    """
    if not isinstance(log, Log):
        raise ValueError(f"log must be what read_log returns, got {as_written(log)}")
    sizes = log_anchors.sizes(log, checked_metrics(metric))
    # A stream of its own: data that were simulated with the same seed must not decide who is drawn.
    stream = np.random.SeedSequence(integer(seed, "seed", 0), spawn_key=(_STREAM,))
    drawn = draw(sizes, integer(n, "n", 1), np.random.default_rng(stream))
    labels = np.asarray(log.users)[log.codes[0] > 0]
    return pd.DataFrame({"user": labels[drawn], "draw": np.arange(1, drawn.size + 1)})


def plan_of_chosen(log: Log, metric: Metric, confidence: float) -> Result:
    """Widths of intervals by anchors, and by fewer users, until all items where needed cost less.

    A user's value is the largest possible one times a ratio: one of the log's anchors, or 0 or 1.
    """
    bound, n_items = log_anchors.sizes(log, [metric]), log_anchors.column(log, "n_items")
    ratios = np.array([0.0, 1.0])
    distribution = "0 or as large as possible, as often, which is widest"
    if log.anchors is not None:
        users = log.anchors.users
        largest = np.maximum(bound[users], np.finfo(float).tiny)
        ratios = np.minimum(metric(log.anchors.ranks, n_items[:, users]) / largest, 1.0).ravel()
        distribution = "distributed as those of the anchors"
    rng = np.random.default_rng(_STREAM)
    values, rows = bound * rng.choice(ratios, bound.size), list[tuple[object, ...]]()

    def width(sizes: FloatArray, n: int) -> float:
        order = draw(sizes, n, rng)
        anchored = Anchors.of(values[order], sizes[np.newaxis], sizes, order)
        return float(np.subtract(*anchored.interval(1.0 - confidence)[::-1]))

    chosen, drawn = (log_anchors.column(log, name) for name in ("n_chosen", "n_negatives"))
    size, first = n_items.mean(), (1 + chosen + drawn).mean(axis=0)
    exact = int(np.where(bound > 0, n_items.mean(axis=0), first).sum())
    for scores in (int(share * size * bound.size) for share in _SHARES):
        n_anchors = int((scores - first.sum()) / size)
        if n_anchors > 1 and scores < exact:
            ways = (("anchors", bound, n_anchors), ("fewer users", bound**0, int(scores / size)))
            for way, sizes, n in ways:
                rows.append((way, n, scores, np.mean([width(sizes, n) for _ in range(_DRAWS)])))
    notes = [f"widths are for users whose values are {distribution}"] if rows else []
    cheap = "" if rows else ", and no interval from anchors costs less"
    notes.append(
        f"{metric.name} is exact for {exact / size / bound.size:.0%} of all scores, if the users "
        f"of the last row are ranked in full: no other user can have a value{cheap}"
    )
    rows.append(("exact", int((bound > 0).sum()), exact, 0.0))
    frame = pd.DataFrame(rows, columns=["way", "users", "scores", "width"])
    return Result(frame, {"metric": metric.name, "confidence": confidence}, tuple(notes))
