"""Exact ranks of held-out items from files or arrays of factors, or from any function."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._files import OutputFiles, named
from .._validate import as_written, integer
from ..log.columns import refuse_twice
from ..log.formats import need_pyarrow
from ..log.tables import Tabular, loaded
from ..results import Ranks
from .blocks import ranked, ranked_lazily
from .inputs import ItemSets, load_train, users_and_items
from .job import Job, Score

if TYPE_CHECKING:
    import pandas as pd


def rank(
    users: Any,
    items: Any,
    test: Tabular,
    train: Tabular | ItemSets | None = None,
    *,
    score: Score = "dot",
    output: str | Path | None = None,
    cluster: Any = None,
    progress: bool = False,
    name: str | None = None,
    stop_at: int | None = None,
    candidates: Tabular | ItemSets | None = None,
) -> Ranks:
    """Exact ranks of test items, from factors in files or arrays, or from any scoring function.

    :ref:`How do I rank all items instead? <howto-rank>` has examples, and the rules of a cluster.

    Parameters
    ----------
    users, items : file, array_like or int
        Matrices with a row for each user (each item): an array, or a file of NumPy, Parquet, Zarr
        or CSV without a header. If `items` is None, `users` are the scores, shape (n_users,
        n_items). If `score` is a function, an int n stands for the numbers 0 to n - 1.
    test : DataFrame, or CSV or Parquet file
        Columns user and item: row numbers of the two matrices, from 0; others are ignored.
    train : DataFrame, file, sparse matrix or sequence of item lists, optional
        Items that are not candidates: columns user and item; a SciPy sparse matrix or a file of one
        (``.npz``), shape (n_users, n_items), by its non-zero entries; or a list for each user.
    score : {"dot", "cosine", "euclidean"} or callable
        The inner product, the cosine, or the distance, whose smallest is best; or a function of
        some rows of `users` and of `items` that returns the matrix of their scores.
    output : str or Path, optional
        A ``.csv`` or ``.parquet`` file.
    cluster : str or distributed.Client, optional
        A Dask client, the address of a scheduler, or "local:N" for N processes here.
    progress : bool
        Whether to show a progress bar.
    name : str, optional
        The recommender, for a first column `recommender`.
    stop_at : int, optional
        Count no further once so many items are above a user's test items: metrics with a cut-off up
        to this number stay exact, and a column `stopped` says where. For a `score` that is
        expensive.
    candidates : as `train`, optional
        With `stop_at`, items of each user that are scored first, such as those of a cheap model.

    Returns
    -------
    Ranks
        A row for each row of `test`, with n_better, n_tied and n_candidates (the item included).

    Raises
    ------
    ValueError
        If a file or an option is invalid, a user or an item is not in the matrices, a test row
        appears twice or is a training item, a factor or a score is NaN, a scoring function is
        random, `cluster` does not answer, or `name` is empty.
    ConnectionError
        If the scheduler is lost.

    See Also
    --------
    sampled_metrics.exact_ranks : Rank by a matrix of scores.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> def near(users, items):
    ...     return -np.abs(items[np.newaxis, :] - users[:, np.newaxis])
    >>> rank(3, 500, pd.DataFrame({"user": [2], "item": [4]}), score=near).frame["n_better"].item()
    3
    """
    import pandas as pd

    if name is not None and not (isinstance(name, str) and name.strip() and name.isprintable()):
        raise ValueError(f"name must be printable text that is not empty, got {as_written(name)}")
    for option, value in (("output", output), ("cluster", cluster)):
        if stop_at is not None and value is not None:
            raise ValueError(f"{option} must be left out with stop_at")
    if candidates is not None and stop_at is None:
        raise ValueError("candidates must be left out without stop_at")
    inputs = [path for path in (users, items, test, train) if isinstance(path, (str, Path))]
    with OutputFiles() as files:
        write = _writer(output, files, inputs)
        job = Job.of(users, items, score)
        rows, origin = loaded(test, "test")
        shape = job.shape
        user, item = users_and_items(rows, origin, shape)
        frame = pd.DataFrame({"user": user, "item": item})
        refuse_twice(frame, ["user", "item"], origin)
        order = np.argsort(user, kind="stable")  # so that a user's scores are computed once
        seen = load_train(train, shape)
        by_user = frame.iloc[order].reset_index(drop=True)
        settings, notes = dict[str, int](), tuple[str, ...]()
        if stop_at is None:
            ranks = ranked(job, by_user, seen, cluster=cluster, progress=progress)
        else:
            stop_at = settings["stop_at"] = integer(stop_at, "stop_at", 1)
            first = load_train(candidates, shape)
            ranks, n_scores = ranked_lazily(job, by_user, seen, stop_at, first)
            n_all = ranks["user"].nunique() * shape[1]
            counted = f"{n_scores:,} scores, {n_scores / n_all:.0%} of all"
            notes = (f"{counted}, for metrics at {stop_at}",)
        ranks = ranks.iloc[np.argsort(order, kind="stable")].reset_index(drop=True)
        if name is not None:
            ranks.insert(0, "recommender", name)
        write(ranks)
    return Ranks(ranks, settings, notes)


def _writer(
    output: str | Path | None, files: OutputFiles, inputs: list[str | Path]
) -> Callable[[pd.DataFrame], None]:
    """What writes the ranks; the output is checked before the work begins."""
    if output is None:
        return lambda ranks: None
    path, suffix = Path(output), Path(output).suffix.lower()
    if suffix not in (".csv", ".parquet") or len(path.name) > 240:
        raise ValueError(f"output must end in .csv or .parquet, got {named(repr(str(output)))}")
    if suffix == ".parquet":
        need_pyarrow()
    writable = files.add(path, inputs)
    if suffix == ".csv":
        return lambda ranks: ranks.to_csv(writable, index=False)
    return lambda ranks: ranks.to_parquet(writable, index=False)
