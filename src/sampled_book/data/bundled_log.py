"""The log that comes with the library: one sampled evaluation of X, Y and Z."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from sampled_metrics.log.read import BUNDLE, BUNDLED_NEGATIVES
from sampled_metrics.ranking.intervals import RankIntervals

from ..checks import generator, integer
from . import bundle

BUNDLED_SEED = 20_200


def simulate(
    ranks: Mapping[str, RankIntervals], n_negatives: int, rng: int | np.random.Generator
) -> pd.DataFrame:
    """Draw the log of one sampled evaluation of known ranks, without replacement.

    Every row has negatives of its own, from the candidates other than the held-out item.

    Parameters
    ----------
    ranks : mapping of str to RankIntervals
        As from :func:`~sampled_book.data.datasets.bundled_ranks`.
    n_negatives : int
        From 1 to the smallest n_candidates less 1.

    Returns
    -------
    pandas.DataFrame
        What :func:`read_log` takes, with replacement=False: columns recommender, user, n_better,
        n_tied, n_items and n_negatives; users are numbered from 0.

    Raises
    ------
    ValueError
        If `n_negatives` is outside its range.

    Examples
    --------
    >>> ranks = {"A": RankIntervals([0, 90], [0, 4], [500, 480])}
    >>> simulate(ranks, 20, rng=2)
      recommender  user  n_better  n_tied  n_items  n_negatives
    0           A     0         0       0      500           20
    1           A     1         1       0      480           20
    """
    better, tied, items = (
        np.concatenate([getattr(each, name) for each in ranks.values()])
        for name in ("n_better", "n_tied", "n_candidates")
    )
    m = integer(n_negatives, "n_negatives", 1, int(items.min()) - 1)
    rng = generator(rng)
    above = rng.hypergeometric(better, items - 1 - better, m)
    level = rng.hypergeometric(tied, items - 1 - better - tied, m - above)
    users = [np.arange(each.n_better.size) for each in ranks.values()]
    names = np.repeat(list(ranks), [each.size for each in users])
    return pd.DataFrame(
        {
            "recommender": names,
            "user": np.concatenate(users),
            "n_better": above,
            "n_tied": level,
            "n_items": items,
            "n_negatives": m,
        }
    )


def write_bundled_log(ranks: Mapping[str, RankIntervals], folder: Path = BUNDLE) -> Path:
    """Write the log that ``read_log("bundled")`` reads, beside the old one and then renamed.

    Parameters
    ----------
    ranks : mapping of str to RankIntervals
        As from :func:`~sampled_book.data.datasets.bundled_ranks`; each recommender has the same
        users with the same numbers of candidates.

    Returns
    -------
    Path
        The file written.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from .datasets import bundled_ranks
    >>> with TemporaryDirectory() as folder:
    ...     write_bundled_log(bundled_ranks(), Path(folder)).name
    'log.npz'
    """
    rows = simulate(ranks, BUNDLED_NEGATIVES, BUNDLED_SEED)
    table: dict[str, Any] = {
        name: rows[name].to_numpy(dtype=np.uint16).reshape(len(ranks), -1)
        for name in ("n_better", "n_tied", "n_items")
    }
    table["n_items"] = table["n_items"][0]
    names, seed = np.array(list(ranks)), np.array(BUNDLED_SEED)
    return bundle.write_arrays(folder / "log.npz", names=names, seed=seed, **table)
