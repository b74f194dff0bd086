"""A folder of small files that fit together, to try the commands and functions on."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import scipy.sparse as sp

from ._validate import integer
from .metrics import metric
from .ranking.exact import exact_ranks


def write_example(folder: str | Path, seed: int = 1) -> list[Path]:
    """Write factors, a training set, held-out items, negatives, a log and a published table.

    The evaluation has 300 users, 500 items, 20 training items and one held-out item for each user,
    and 50 distinct negatives. Recommender A is better than B.

    Parameters
    ----------
    folder : str or Path
        The folder to make, which appears when it is complete.
    seed : int

    Returns
    -------
    list of Path
        The files, by name: ``U.npy`` and ``V.npy``, the factors of users and items; ``train.npz``;
        ``test.csv``; ``negatives.csv``; ``positives.csv``; ``log.csv``, and its recommenders B and
        A alone in ``old.csv`` and ``new.csv``; and ``table.csv``.

    Raises
    ------
    ValueError
        If the folder exists, or the seed is below 0.

    Examples
    --------
    >>> with TemporaryDirectory() as scratch:
    ...     [path.name for path in write_example(f"{scratch}/toy")][:3]
    ['U.npy', 'V.npy', 'log.csv']
    """
    folder, n_users, n_items, m = Path(folder), 300, 500, 50
    target = folder.resolve()
    if os.path.lexists(folder):
        raise ValueError(f"{folder} exists already: name a folder to make")
    rng = np.random.default_rng(integer(seed, "seed", 0))
    user_factors, item_factors = rng.normal(size=(n_users, 8)), rng.normal(size=(n_items, 8))
    order = np.argsort(
        -(user_factors @ item_factors.T + rng.gumbel(size=(n_users, n_items))), axis=1
    )
    test, train = order[:, 0], order[:, 1:21]
    negatives = [rng.permutation(np.setdiff1d(np.arange(n_items), row[:21]))[:m] for row in order]
    users = np.arange(n_users)
    train_matrix = sp.csr_array((np.ones(train.size), (np.repeat(users, 20), train.ravel())),
                        shape=(n_users, n_items))  # fmt: skip
    rows = []
    for name, noise in (("A", 0.5), ("B", 1.5)):
        scores = (user_factors + noise * rng.normal(size=user_factors.shape)) @ item_factors.T
        candidate_scores = np.take_along_axis(
            scores, np.column_stack([test, np.stack(negatives)]), axis=1
        )
        ranks = exact_ranks(candidate_scores, np.zeros(n_users, dtype=np.int64), None)
        table = {"recommender": name, "user": users, "n_better": ranks.n_better}
        rows.append(pd.DataFrame(table | {"n_tied": ranks.n_tied}))
    positives = np.column_stack([test, train])
    log = pd.concat(rows)
    tables = {
        "log.csv": log,
        "new.csv": rows[0],
        "old.csv": rows[1],
        "table.csv": _published_table(log),
        "test.csv": pd.DataFrame({"user": users, "item": test}),
        "negatives.csv": pd.DataFrame(
            {"user": np.repeat(users, m), "item": np.concatenate(negatives)}
        ),
        "positives.csv": pd.DataFrame({"user": np.repeat(users, 21), "item": positives.ravel()}),
    }
    target.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=target.parent, prefix=".") as scratch:
        temporary_folder = Path(scratch) / "whole"  # with the permissions of any new folder
        temporary_folder.mkdir()
        for file, frame in tables.items():
            frame.to_csv(temporary_folder / file, index=False, lineterminator="\n")
        np.save(temporary_folder / "U.npy", user_factors)
        np.save(temporary_folder / "V.npy", item_factors)
        sp.save_npz(temporary_folder / "train.npz", train_matrix)
        temporary_folder.rename(target)
    return sorted(folder.iterdir())


def _published_table(log: pd.DataFrame) -> pd.DataFrame:
    """The table that a paper would print from the log."""
    table = {"method": list(log["recommender"].unique())}
    for name in ("HR@1", "HR@5", "HR@10", "NDCG@5", "NDCG@10", "MRR"):
        values = metric(name)(log["n_better"] + 1)
        means = pd.Series(values).groupby(log["recommender"].to_numpy(), sort=False).mean()
        table[name] = [f"{value:.4f}" for value in means]
    return pd.DataFrame(table)
