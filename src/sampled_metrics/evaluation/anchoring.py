"""Which users to rank among all items next."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from .._validate import as_written, integer
from ..bounds.anchors import draw
from ..designs.options import checked_metrics
from ..log import anchors as log_anchors
from ..log.compact import Log
from ..metrics import Metric

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
