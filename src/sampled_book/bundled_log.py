"""The log that comes with the library: one sampled evaluation of X, Y and Z."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from sampled_metrics._validate import generator, integer
from sampled_metrics.io.files import put
from sampled_metrics.io.logs import BUNDLE, BUNDLED_NEGATIVES

BUNDLED_SEED = 20_200


def simulate(ranks: pd.DataFrame, n_negatives: int, rng: int | np.random.Generator) -> pd.DataFrame:
    """Draw the log of one sampled evaluation of known ranks, without replacement.

    Every row has negatives of its own, from the candidates other than the held-out item.

    Parameters
    ----------
    ranks : pandas.DataFrame
        Columns recommender, user, n_better, n_tied and n_candidates, as
        :func:`~sampled_book.datasets.bundled_ranks` returns them.
    n_negatives : int
        From 1 to the smallest n_candidates less 1.
    rng : int or numpy.random.Generator

    Returns
    -------
    pandas.DataFrame
        What :func:`read_log` takes, with replacement=False: columns recommender, user, n_better,
        n_tied, n_items and n_negatives.

    Raises
    ------
    ValueError
        If `n_negatives` is outside its range.

    Examples
    --------
    >>> from .datasets import bundled_ranks
    >>> rows = simulate(bundled_ranks().head(3), 20, rng=1)
    >>> rows[["n_better", "n_tied", "n_items", "n_negatives"]]
       n_better  n_tied  n_items  n_negatives
    0         0       0     3654           20
    1         0       0     3578           20
    2         1       0     3656           20
    """
    better, tied, items = (
        ranks[name].to_numpy(dtype=np.int64) for name in ("n_better", "n_tied", "n_candidates")
    )
    m = integer(n_negatives, "n_negatives", 1, int(items.min()) - 1)
    rng = generator(rng)
    above = rng.hypergeometric(better, items - 1 - better, m)
    level = rng.hypergeometric(tied, items - 1 - better - tied, m - above)
    rows = ranks[["recommender", "user"]].reset_index(drop=True)
    return rows.assign(n_better=above, n_tied=level, n_items=items, n_negatives=m)


def write_bundled_log(ranks: pd.DataFrame, folder: Path = BUNDLE) -> Path:
    """Write the log that ``read_log("bundled")`` reads, beside the old one and then renamed.

    Parameters
    ----------
    ranks : pandas.DataFrame
        As :func:`~sampled_book.datasets.bundled_ranks`; each recommender has the same users,
        numbered from 0, with the same numbers of candidates.
    folder : Path

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
    names = np.array([str(name) for name in rows["recommender"].unique()])
    table: dict[str, Any] = {
        name: rows[name].to_numpy(dtype=np.uint16).reshape(len(names), -1)
        for name in ("n_better", "n_tied", "n_items")
    }
    table["n_items"] = table["n_items"][0]
    packed = io.BytesIO()
    np.savez_compressed(packed, names=names, seed=np.array(BUNDLED_SEED), **table)
    return put(folder / "log.npz", packed.getvalue())
