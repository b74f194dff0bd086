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
from .parts import Parts, fingerprint, with_name

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
    name: str | None = None,
) -> Ranks:
    """Exact ranks of test items, from factors in files or arrays, or from any scoring function.

    Parameters
    ----------
    users, items : file, array_like or int
        Matrices of shapes (n_users, n_factors) and (n_items, n_factors): an array, or a file of
        NumPy (``.npy``, or ``.npz`` with one array), Parquet, Zarr (a folder ``.zarr``) or CSV
        without a header. ``.npy`` files are mapped and ``.zarr`` read in slices, so that they may
        be larger than memory if both are float64 or both float32; other files are read whole. If
        `items` is None, `users` are the scores, shape (n_users, n_items). Dask arrays (in chunks of
        rows) are computed by blocks of users and shards of items, on the cluster if there is one.
        If `score` is a function, an int n stands for the numbers 0 to n - 1.
    test : DataFrame, or CSV or Parquet file
        Columns user and item: row numbers of the two matrices, from 0. A user may have several test
        items; other columns are ignored.
    train : DataFrame, file, sparse matrix or sequence of item lists, optional
        Items that are not candidates: a CSV or Parquet file or data frame with columns user and
        item; a SciPy sparse matrix or a file of one (``.npz``), shape (n_users, n_items), by its
        non-zero entries; or a list of items for each user.
    score : {"dot", "cosine", "euclidean"} or callable
        The inner product, the cosine of the angle, or the distance, whose smallest is best. A
        function takes some rows of `users` and of `items` and returns the matrix of their scores,
        as an array of NumPy, PyTorch, CuPy, JAX or another library of the array API standard.
        Products are compared without rounding, a function's scores exactly: give a tolerance if
        their last digits depend on the other rows in the call. The function is called twice on a
        few rows before the run, and refused unless both results are equal bit for bit.
    item_bias : file or array_like, optional
        Added to each item's score, shape (n_items,) or (n_items, 1). A bias of the user does not
        change ranks.
    relative_tolerance : float
        In [0, 1): scores this close count as tied, see
        :func:`~sampled_metrics.exact_ranks`.
    among : {"all", "irrelevant"}
        Whether a user's other test items are candidates. "all" ranks among all items outside the
        user's training items, as in a list shown to the user; "irrelevant" leaves the other test
        items out, like evaluations that rank one held-out item at a time.
    output : str or Path, optional
        A ``.csv`` or ``.parquet`` file, which appears when complete; or a folder (no suffix) of
        Parquet files, one for each block of users, in order of users.
    cluster : str or distributed.Client, optional
        Where to count: a Dask client, the address of a scheduler, or "local:N" for N processes on
        this machine. By default this process counts. Finished blocks are written at once, to the
        output folder or to the output's name with ``.parts`` added: if the call is killed and
        repeated with the same inputs, it continues after them. Paths must be valid on all workers,
        and a script must call this below ``if __name__ == "__main__":``, since processes import it.
    progress : bool
        Whether to show a progress bar.
    name : str, optional
        The recommender. It becomes a first column `recommender` of the frame and of `output`, so
        that :func:`~sampled_metrics.compare` can read the outputs of several recommenders together.

    Returns
    -------
    Ranks
        Its frame has a row for each row of `test`, in its order: user, item, n_better, n_tied,
        n_candidates (the item included), n_relevant (the user's test items), relevant_better and
        relevant_tied (those of them that score above this one, and the others that score the same);
        before these a column recommender, if `name` is given.
        Among "all", n_better and n_tied include these, and n_better + 1 is the item's rank. Among
        "irrelevant" they do not, as in a log and in
        :class:`~sampled_metrics.RelevantSets`.

    Raises
    ------
    ValueError
        If a file or an option is invalid, a user or an item is not in the matrices, a test row
        appears twice, a test item is a training item of its user, a factor or a score is NaN, a
        scoring function is random, `output` holds other blocks, `cluster` does not answer, or
        `name` is empty.
    ConnectionError
        If the scheduler is lost, or has no worker for five minutes. Finished blocks are kept if
        `output` is given, and the same call continues after them.

    See Also
    --------
    sampled_metrics.exact_ranks : Rank by a matrix of scores.
    sampled_metrics.race : Decide which recommender is better without all scores.

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

    By a function that prefers items whose number is near the user's:

    >>> def scores(users, items):
    ...     return -np.abs(items[np.newaxis, :] - users[:, np.newaxis])
    >>> rank(3, 500, pd.DataFrame({"user": [2], "item": [4]}), score=scores).frame["n_better"]
    0    3
    Name: n_better, dtype: int64
    """
    import pandas as pd

    if among not in ("all", "irrelevant"):
        raise ValueError(f"among must be 'all' or 'irrelevant', got {as_written(among)}")
    if name is not None and not (isinstance(name, str) and name.strip() and name.isprintable()):
        raise ValueError(f"name must be printable text that is not empty, got {as_written(name)}")
    write = _writer(output, [users, items, test, train, item_bias])
    job = Job.of(users, items, score, item_bias, relative_tolerance)
    rows, source = loaded(test, "test")
    shape = job.shape
    user, item = users_and_items(rows, source, shape)
    frame = pd.DataFrame({"user": user, "item": item})
    refuse_twice(frame, ["user", "item"], source)
    order = np.argsort(user, kind="stable")  # so that a user's scores are computed once
    seen = load_train(train, shape)
    by_user = frame.iloc[order].reset_index(drop=True)
    parts = None
    if output is not None and (cluster is not None or not Path(output).suffix):
        folder = Path(output) if not Path(output).suffix else Path(f"{output}.parts")
        options = (among,) if name is None else (among, name)
        parts = Parts(folder, fingerprint(job, by_user, seen, *options, cluster=cluster), name)
    ranks = ranked(
        job, by_user, seen, all_candidates=among == "all", parts=parts, cluster=cluster,
        progress=progress,
    )  # fmt: skip
    ranks = with_name(ranks.iloc[np.argsort(order, kind="stable")].reset_index(drop=True), name)
    write(ranks)
    if parts is not None and Path(str(output)).suffix:
        parts.remove()
    return Ranks(ranks, {"among": among})


def _writer(output: str | Path | None, inputs: list[Any]) -> Any:
    """A function that writes the result to `output`, which is checked before the work begins."""
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
    if path.resolve() in [
        Path(source).resolve() for source in inputs if isinstance(source, (str, Path))
    ]:
        raise ValueError(f"{path} is an input, and would be overwritten")
    if not path.parent.is_dir():
        raise ValueError(f"{path} cannot be written: its folder must exist")
    if path.exists() and not (path.is_file() if path.suffix else path.is_dir()):
        requirement = "a file to write to, not a folder or a device" if path.suffix else "a folder"
        raise ValueError(f"{path} must be {requirement}")
    if not os.access(path.parent, os.W_OK):
        raise ValueError(f"{path} cannot be written: Permission denied")
    if not path.suffix:
        return lambda frame: None  # blocks are written when finished

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
