"""Exact ranks of held-out items from files or arrays of factors, or from any function."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from .._files import named, replacing
from .._validate import as_written
from ..log.columns import refuse_twice
from ..log.sources import Tabular, loaded, need_pyarrow
from ..results import Ranks
from .blocks import ranked
from .inputs import ItemSets, load_train, users_and_items
from .job import Job, Score
from .parts import Parts, fingerprint

if TYPE_CHECKING:
    import pandas as pd


def rank(
    users: Any,
    items: Any,
    test: Tabular,
    train: Tabular | ItemSets | None = None,
    *,
    score: Score = "dot",
    item_bias: Any = None,
    relative_tolerance: float = 0.0,
    among: Literal["all", "irrelevant"] = "all",
    output: str | Path | None = None,
    cluster: Any = None,
    progress: bool = False,
) -> Ranks:
    """Exact ranks of test items, from files of factors or by any function that scores.

    Parameters
    ----------
    users, items : file, array_like or int
        A matrix each, shapes (n_users, n_factors) and (n_items, n_factors), as an array or a file
        of NumPy (``.npy``, or ``.npz`` with that array alone), Parquet, Zarr (a folder ``.zarr``)
        or CSV without a head. Files that end in .npy are mapped and those in .zarr read in slices,
        so that they may be larger than memory where both are float64 or both float32; others are
        read as a whole. If `items` is None, `users` are the scores themselves, shape (n_users,
        n_items). Arrays of Dask (``dask.array``, in chunks of rows) are computed by a block of
        users or a shard of items at a time; where there is a cluster its workers do, and keep the
        items' rows among them. A number stands for the numbers below it, where `score` is a
        function of them.
    test : DataFrame, or CSV or Parquet file
        Columns user and item: rows of the two matrices, counted from 0. A user may have several
        test items; other columns are left out.
    train : DataFrame, file, sparse matrix or sequence of item lists, optional
        Items that are no candidates: a CSV or Parquet file or a data frame with columns user and
        item, others being left out; a sparse matrix of SciPy or a file of one (``.npz``), shape
        (n_users, n_items), by its non-zero entries; or a list of items for each user.
    score : {"dot", "cosine", "euclidean"} or callable
        The inner product, the cosine of the angle, or the distance, whose smallest is the best. A
        function gets some rows of `users` and some of `items` and returns a matrix of all their
        scores, of NumPy, PyTorch, CuPy, JAX or another library of the array API standard. Products
        are compared without rounding; a function's scores as they are, so give it a tolerance if
        they depend in the last digits on what else is asked for. Before the run it is called twice
        for a few users and items, and refused unless both calls are equal bit for bit.
    item_bias : file or array_like, optional
        Added to each item's score, shape (n_items,) or (n_items, 1). A user's bias moves no rank.
    relative_tolerance : float
        In [0, 1): how far scores may be apart and still count as tied, as in
        :func:`~sampled_metrics.ranking.exact.exact_ranks`.
    among : {"all", "irrelevant"}
        Whether a user's other test items are candidates: "all" ranks among all items outside the
        user's training items, as in a list that a user would see; "irrelevant" leaves the user's
        other test items out, as evaluations do that rank one held-out item at a time.
    output : str or Path, optional
        A ``.csv`` or ``.parquet`` file to write the result to, which appears when complete, or a
        folder (a name without an ending) of Parquet files, one for each block of users, in order
        of users.
    cluster : str or distributed.Client, optional
        Where to count: a client of Dask, the address of a scheduler, or "local:N" for N processes
        on this machine. Blocks that are finished are written at once, to the folder or to one named
        after the output, ``.parts`` added: a call that was killed goes on after them when it is
        repeated with the same inputs. Each task opens files itself, so paths must hold on all
        workers, and a script must call this below ``if __name__ == "__main__":``, as processes
        import it. If omitted, this process counts.
    progress : bool
        Whether to show a progress bar.

    Returns
    -------
    Ranks
        Its frame has a row for each row of `test`, in its order: user, item, n_better, n_tied,
        n_candidates, n_relevant, relevant_better and relevant_tied. The last three are the user's
        test items, those that score above this one and the others that score the same. Among "all",
        as in :func:`~.ranking.exact.exact_ranks`, they are counted in n_better and n_tied too, and
        n_better + 1 is the item's rank. Among "irrelevant" they are not, and n_better is that of a
        log and of :class:`~sampled_metrics.relevant_sets.RelevantSets`. n_candidates includes the
        item itself.

    Raises
    ------
    ValueError
        If a file is not what it must be, a user or an item is not in the matrices, a row stands
        twice, a test item is one of the user's training items, a factor or a score is NaN, a
        scoring function gives other scores at another call, a word is none of those above, `output`
        has another suffix or holds other blocks, or `cluster` does not answer.
    ConnectionError
        If the scheduler of a cluster is lost, or there has been no worker for five minutes.
        Finished blocks are kept where `output` is given, and the same call goes on after them.

    Examples
    --------
    >>> import pandas as pd
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     paths = Path(folder, "U.npy"), Path(folder, "V.npy")
    ...     np.save(paths[0], np.ones((2, 1)))
    ...     np.save(paths[1], np.array([[3.0], [2.0], [2.0], [1.0]]))
    ...     ranks = rank(*paths, pd.DataFrame({"user": [1, 1], "item": [3, 1]}))
    >>> ranks.frame.iloc[:, 1:5]
       item  n_better  n_tied  n_candidates
    0     3         3       0             4
    1     1         1       1             4

    By a function, by which the items with numbers near the user's are the best:

    >>> def scores(users, items):
    ...     return -np.abs(items[np.newaxis, :] - users[:, np.newaxis])
    >>> rank(3, 500, pd.DataFrame({"user": [2], "item": [4]}), score=scores).frame["n_better"]
    0    3
    Name: n_better, dtype: int64
    """
    import pandas as pd

    if among not in ("all", "irrelevant"):
        raise ValueError(f"among must be 'all' or 'irrelevant', got {as_written(among)}")
    write = _writer(output, [users, items, test, train, item_bias])
    job = Job.of(users, items, score, item_bias, relative_tolerance)
    rows, source = loaded(test, "test")
    shape = job.shape
    user, item = users_and_items(rows, source, shape)
    frame = pd.DataFrame({"user": user, "item": item})
    refuse_twice(frame, ["user", "item"], source)
    order = np.argsort(user, kind="stable")  # a user's scores are needed once
    seen = load_train(train, shape)
    by_user = frame.iloc[order].reset_index(drop=True)
    parts = None
    if output is not None and (cluster is not None or not Path(output).suffix):
        folder = Path(output) if not Path(output).suffix else Path(f"{output}.parts")
        parts = Parts(folder, fingerprint(job, by_user, seen, among, cluster=cluster))
    result = ranked(
        job, by_user, seen, all_candidates=among == "all", parts=parts, cluster=cluster,
        progress=progress,
    )  # fmt: skip
    result = result.iloc[np.argsort(order, kind="stable")].reset_index(drop=True)
    write(result)
    if parts is not None and Path(str(output)).suffix:
        parts.remove()
    return Ranks(result, {"among": among})


def _writer(output: str | Path | None, inputs: list[Any]) -> Any:
    """A function that writes a frame to `output`, checked before the work begins."""
    if output is None:
        return lambda frame: None
    path = Path(output)
    if path.suffix.lower() not in (".csv", ".parquet", "") or len(path.name) > 240:
        raise ValueError(
            "output must end in .csv or .parquet, or name a folder without an ending, got "
            f"{named(repr(str(output)))}"
        )
    if path.suffix.lower() != ".csv":
        need_pyarrow()
    if path.resolve() in [Path(i).resolve() for i in inputs if isinstance(i, (str, Path))]:
        raise ValueError(f"{path} is an input, and would be overwritten")
    if not path.parent.is_dir():
        raise ValueError(f"{path} cannot be written: its folder must exist")
    if path.exists() and not (path.is_file() if path.suffix else path.is_dir()):
        wanted = "a file to write to, not a folder or a device" if path.suffix else "a folder"
        raise ValueError(f"{path} must be {wanted}")
    if not os.access(path.parent, os.W_OK):
        raise ValueError(f"{path} cannot be written: Permission denied")
    if not path.suffix:
        return lambda frame: None  # blocks were written as they came

    def write(frame: pd.DataFrame) -> None:
        try:
            with replacing(path) as beside:
                if path.suffix.lower() == ".csv":
                    frame.to_csv(beside, index=False)
                else:
                    frame.to_parquet(beside, index=False)
        except OSError as problem:
            raise ValueError(f"{path} cannot be written: {problem.strerror}") from None

    return write
