"""What evaluations leave behind, read into the data frame that :func:`~.logs.read_log` takes.

A library that ranks sampled candidates knows each candidate's score, and a log needs only how many
negatives scored above each relevant item and how many the same. :func:`from_scores` counts them;
:func:`trec`, :func:`ranx`, :func:`rectools`, :func:`recbole` and :func:`recbole_scores` bring what
their libraries return into its form. None of these libraries is imported. An item that a run does
not hold has no score, so its rank is unknown: a run cut off at its best items is refused unless
every relevant item is among them. And :func:`rank_files` ranks all items instead.
"""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import NDArray

from .._validate import IntArray, as_written, integer, real_scores, shortened
from ..ranking import exact_ranks_from_factors
from ..results import Ranks
from .files import replacing
from .logs import _labels, _listed, _loaded, _need, _need_pyarrow, _numbers

Duplicates = Literal["refuse", "keep", "collapse"]
Among = Literal["all", "irrelevant"]
#: A file or a data frame.
Table = str | Path | pd.DataFrame


def from_scores(rows: pd.DataFrame, *, duplicates: Duplicates = "refuse") -> pd.DataFrame:
    """Count how many negatives scored above each relevant item, from the scores of all candidates.

    Parameters
    ----------
    rows : DataFrame
        A row for each candidate of each user: columns user, item, score (higher is better,
        infinite ones allowed) and relevant (True or 1 for held-out items, False or 0 for
        negatives); optionally recommender.
    duplicates : {"refuse", "keep", "collapse"}
        What to do where an item stands twice among a user's candidates, as it may after negatives
        were drawn with replacement. "keep" counts each time; "collapse" counts it once, and a
        relevant item never as a negative. Software that keeps scores by item (NCF's, RecBole's)
        collapses; the law given how many negatives are left is then that without replacement.

    Returns
    -------
    DataFrame
        What :func:`~.logs.read_log` takes: columns recommender, user, item, n_better, n_tied and
        n_negatives, a row for each relevant item; n_negatives is the user's number of negatives,
        distinct ones after "collapse". Users without a relevant item are left out. The size of
        the catalogue is not in a table of candidates: give it to `read_log`.

    Raises
    ------
    ValueError
        If a column is missing, a user or an item is missing, a score is no number or NaN,
        `relevant` is not 0 or 1, `duplicates` is another word, an item stands twice under
        "refuse" or with two scores under "collapse", or there is no relevant item.

    Examples
    --------
    >>> rows = pd.DataFrame(
    ...     {"user": 7, "item": ["a", "b", "c", "c"], "score": [0.5, 0.9, 0.5, 0.5],
    ...      "relevant": [1, 0, 0, 0]}
    ... )
    >>> from_scores(rows, duplicates="collapse")[["item", "n_better", "n_tied", "n_negatives"]]
      item  n_better  n_tied  n_negatives
    0    a         1       1            2
    """
    if duplicates not in ("refuse", "keep", "collapse"):
        raise ValueError(
            f"duplicates must be 'refuse', 'keep' or 'collapse', got {as_written(duplicates)}"
        )
    if not isinstance(rows, pd.DataFrame):
        raise ValueError(f"rows must be a data frame, got {type(rows).__name__}")
    table = _candidates(rows, "the table")
    if duplicates == "collapse":
        table = _collapsed(table)
    if duplicates == "refuse":
        _refuse_twice(table, _KEY, "the table", ": say whether to keep or collapse duplicates")
    return _counts(table, "the table")


def trec(run: str | Path, qrels: str | Path) -> pd.DataFrame:
    """A run and relevance judgements in the text formats of TREC.

    Parameters
    ----------
    run : str or Path
        Lines ``qid Q0 docid rank score tag``, separated by white space. As in trec_eval the order
        is that of the scores, and the rank is not read; equal scores are kept as ties. The tag
        names the recommender, and one file may hold several.
    qrels : str or Path
        Lines ``qid 0 docid rel``. A document is relevant where rel is above 0; one that was not
        judged is not.

    Returns
    -------
    DataFrame
        As from :func:`from_scores`; user is the qid and item the docid, both text.

    Raises
    ------
    ValueError
        If a file cannot be read, a line has other fields, a score or rel is no number, a document
        stands twice, or a relevant document is not in the run.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     run, qrels = Path(folder, "run"), Path(folder, "qrels")
    ...     _ = run.write_text("q1 Q0 d1 1 2.5 bm25\\nq1 Q0 d2 2 2.5 bm25\\nq1 Q0 d3 3 1 bm25\\n")
    ...     _ = qrels.write_text("q1 0 d2 1\\nq1 0 d3 0\\n")
    ...     trec(run, qrels)
      recommender user item  n_better  n_tied  n_negatives
    0        bm25   q1   d2         0       1            2
    """
    rows = _lines(run, ["user", "Q0", "item", "rank", "score", "recommender"])
    judged = _lines(qrels, ["user", "0", "item", "rel"])
    judged["rel"] = _real(judged, "rel", str(qrels))
    _refuse_twice(judged, ["user", "item"], str(qrels))
    return _judge(rows, judged.loc[judged["rel"] > 0, ["user", "item"]], str(run))


def ranx(run: Any, qrels: Any, *, recommender: str | None = None) -> pd.DataFrame:
    """A ``Run`` and ``Qrels`` of the library ranx.

    Parameters
    ----------
    run : ranx.Run, or mapping of query to mapping of document to score
        The form that ``Run.to_dict()`` and ranx's JSON files have.
    qrels : ranx.Qrels, or mapping of query to mapping of document to relevance
        A document is relevant where its relevance is at least 1, ranx's own threshold.
    recommender : str, optional
        By default the run's name.

    Returns
    -------
    DataFrame
        As from :func:`from_scores`; user is the query and item the document.

    Raises
    ------
    ValueError
        If an argument is of another kind, a score is no number, or a relevant document is not in
        the run.

    Examples
    --------
    >>> ranx({"q1": {"d1": 0.1, "d2": 0.9}}, {"q1": {"d1": 1}}, recommender="bm25")
      recommender user item  n_better  n_tied  n_negatives
    0        bm25   q1   d1         1       0            1
    """
    rows = _nested(run, "run", "score")
    rows["recommender"] = recommender or getattr(run, "name", None) or "recommender"
    judged = _nested(qrels, "qrels", "relevance")
    judged["relevance"] = _real(judged, "relevance", "qrels")
    return _judge(rows, judged.loc[judged["relevance"] >= 1, ["user", "item"]], "run")


def rectools(reco: Table, interactions: Table) -> pd.DataFrame:
    """Recommendations and test interactions as the library RecTools has them.

    Parameters
    ----------
    reco : DataFrame, or CSV or Parquet file
        Columns user_id, item_id and score, or rank (1 the best) where there is no score; with
        several models a column model, too. It must hold all candidates that were ranked, not the
        first k alone: ask the model for as many.
    interactions : DataFrame, or CSV or Parquet file
        The test interactions: columns user_id and item_id, others being left out. An item that
        stands twice counts once.

    Returns
    -------
    DataFrame
        As from :func:`from_scores`.

    Raises
    ------
    ValueError
        If a column is missing, a row of `reco` stands twice, or a test item of a user is not
        among the user's recommendations.

    Examples
    --------
    >>> reco = pd.DataFrame({"user_id": 1, "item_id": [7, 8, 9], "rank": [1, 2, 3]})
    >>> rectools(reco, pd.DataFrame({"user_id": [1], "item_id": [8]}))
       recommender  user  item  n_better  n_tied  n_negatives
    0  recommender     1     8         1       0            2
    """
    names = {"user_id": "user", "item_id": "item", "model": "recommender"}
    given, source = _loaded(reco, "reco")
    rows = given.rename(columns=names)
    _need(rows, ["user", "item"], source, names)
    if "score" not in rows:
        if "rank" not in rows:
            raise ValueError(
                f"{source} must have a column score or rank, got {_listed(given.columns)}"
            )
        rows["score"] = -_real(rows, "rank", source).astype(np.float64)
    tested, test_source = _loaded(interactions, "interactions")
    tested = tested.rename(columns=names)
    _need(tested, ["user", "item"], test_source, names)
    return _judge(rows, tested[["user", "item"]].drop_duplicates(), source)


def recbole(
    struct: Any, *, n_negatives: int | None = None, recommender: str = "recbole"
) -> pd.DataFrame:
    """The data that RecBole collects for its metrics (``recbole.evaluator.collector.DataStruct``).

    RecBole writes the scores of a user's candidates into a row of all items, so that a negative
    that was drawn twice counts once: read the result with ``replacement=False``.

    Parameters
    ----------
    struct : DataStruct, or mapping
        What ``trainer.evaluator.evaluate`` is called with. Entry ``rec.topk``, shape
        (n_users, k + 1): whether each of the first k items is relevant, then the number of
        relevant items. Entry ``rec.meanrank``, shape (n_users, 3), collected for the metric GAUC:
        the second column is the number of candidates, the third that of the relevant ones. Set
        ``topk`` to all candidates, such as [101], and ``metrics`` to Recall and GAUC.
    n_negatives : int, optional
        Each user's number of distinct negatives, where there is no ``rec.meanrank``.
    recommender : str

    Returns
    -------
    DataFrame
        What :func:`~.logs.read_log` takes: columns recommender, user (the row's number), rank and
        n_negatives. Equal scores are in the order in which torch happened to put them.

    Raises
    ------
    ValueError
        If ``rec.topk`` is missing or of another form, if a user has relevant items beyond the
        first k, or if the number of negatives is in neither place or in both.

    Examples
    --------
    >>> struct = {"rec.topk": [[0, 1, 0, 1]], "rec.meanrank": [[2.0, 98, 1]]}
    >>> recbole(struct)
      recommender  user  instance  rank  n_negatives
    0     recbole     0         0     2           97
    """
    topk = _matrix(struct, "rec.topk", 2)
    hits, relevant = topk[:, :-1], topk[:, -1]
    if (relevant < 1).any() or not np.isin(hits, (0, 1)).all():
        raise ValueError(
            "rec.topk must hold 0 or 1 for each place, then the number of relevant items"
        )
    beyond = hits.sum(axis=1) != relevant
    if beyond.any():
        raise ValueError(
            f"rec.topk must hold every relevant item, got {relevant[beyond][0]:.0f} of which "
            f"{hits.sum(axis=1)[beyond][0]:.0f} are among the first {hits.shape[1]} in row "
            f"{np.argmax(beyond)}: set topk to the number of candidates"
        )
    negatives = _recbole_negatives(struct, relevant, n_negatives)
    user, place = np.nonzero(hits)
    return pd.DataFrame(
        {
            "recommender": recommender,
            "user": user,
            "instance": user,
            "rank": place + 1,
            "n_negatives": negatives[user],
        }
    )


def recbole_scores(
    scores: Any, positive_u: Any, positive_i: Any, *, recommender: str = "recbole"
) -> pd.DataFrame:
    """The scores of a batch in RecBole, with ties kept.

    Parameters
    ----------
    scores : array_like or tensor, shape (n_users, n_items)
        Minus infinity for what is not a candidate, as ``full_sort_scores`` returns it and as
        RecBole's collector gets it in full and in sampled evaluation.
    positive_u, positive_i : array_like or tensor of int, shape (n_relevant,)
        Row and column of each relevant item, as RecBole's data loaders return them.
    recommender : str

    Returns
    -------
    DataFrame
        As from :func:`from_scores`; user is the row and item the column. Read it with
        ``replacement=False``: a negative that was drawn twice has one column.

    Raises
    ------
    ValueError
        If shapes do not match, a score is NaN, or a relevant item is not a candidate.

    Examples
    --------
    >>> recbole_scores([[float("-inf"), 0.5, 0.7, 0.5]], [0], [1])
      recommender  user  item  n_better  n_tied  n_negatives
    0     recbole     0     1         1       1            2
    """
    table = real_scores(_on_cpu(scores))
    given = [np.asarray(_on_cpu(p)) for p in (positive_u, positive_i)]
    whole = all(p.ndim == 1 and p.dtype.kind in "iu" for p in given)
    if not whole or given[0].size != given[1].size:
        raise ValueError("positive_u and positive_i must be lists of whole numbers, equally long")
    pairs = np.stack([p.astype(np.int64) for p in given])
    if (pairs < 0).any() or (pairs >= np.array(table.shape)[:, None]).any():
        raise ValueError(
            f"positive_u and positive_i must be rows and columns of scores, of shape {table.shape}"
        )
    user, item = np.nonzero(table > -np.inf)
    rows = pd.DataFrame({"user": user, "item": item, "score": table[user, item]})
    rows["recommender"] = recommender
    relevant = pd.DataFrame(pairs.T, columns=["user", "item"]).drop_duplicates()
    return _judge(rows, relevant, "scores")


def rank_files(
    users: str | Path,
    items: str | Path,
    test: Table,
    train: Table | None = None,
    *,
    among: Among = "all",
    output: str | Path | None = None,
    progress: bool = False,
) -> Ranks:
    """Exact ranks of test items from files of factors.

    Parameters
    ----------
    users, items : str or Path
        Files of NumPy (``.npy``) with a matrix each, shapes (n_users, n_factors) and
        (n_items, n_factors). They are mapped, not read, so they may be larger than memory where
        both are float64 or both float32.
    test : DataFrame, or CSV or Parquet file
        Columns user and item: rows of the two matrices, counted from 0. A user may have several
        test items; other columns are left out.
    train : DataFrame, or file, optional
        Items that are no candidates: a CSV or Parquet file or a data frame with columns user and
        item, others being left out, or a sparse matrix of SciPy (``.npz``), shape
        (n_users, n_items), by its non-zero entries.
    among : {"all", "irrelevant"}
        Whether a user's other test items are candidates: "all" ranks among all items outside the
        user's training items, as in a list that a user would see; "irrelevant" leaves the user's
        other test items out, as evaluations do that rank one held-out item at a time.
    output : str or Path, optional
        A ``.csv`` or ``.parquet`` file to write the result to. It appears when complete.
    progress : bool
        Whether to show a progress bar.

    Returns
    -------
    Ranks
        Its frame has a row for each row of `test`, in its order: user, item, n_better, n_tied,
        n_candidates, n_relevant, relevant_better and relevant_tied. The last three are the user's
        test items, those that score above this one and the others that score the same. Among "all",
        as in :func:`~.ranking.exact_ranks`, they are counted in n_better and n_tied too, and
        n_better + 1 is the item's rank. Among "irrelevant" they are not, and n_better is that of a
        log and of :class:`~sampled_metrics.relevant_sets.RelevantSets`. n_candidates includes the
        item itself.

    Raises
    ------
    ValueError
        If a file is not what it must be, a user or an item is not in the matrices, a row stands
        twice, a test item is one of the user's training items, `among` is another word, or
        `output` has another suffix.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     paths = Path(folder, "U.npy"), Path(folder, "V.npy")
    ...     np.save(paths[0], np.ones((2, 1)))
    ...     np.save(paths[1], np.array([[3.0], [2.0], [2.0], [1.0]]))
    ...     found = rank_files(*paths, pd.DataFrame({"user": [1, 1], "item": [3, 1]}))
    >>> found.frame.iloc[:, 1:5]
       item  n_better  n_tied  n_candidates
    0     3         3       0             4
    1     1         1       1             4
    """
    if among not in ("all", "irrelevant"):
        raise ValueError(f"among must be 'all' or 'irrelevant', got {as_written(among)}")
    write = _writer(output, [users, items, test, train])
    factors, catalogue = (_load_factors(path) for path in (users, items))
    rows, source = _loaded(test, "test")
    shape = len(factors), len(catalogue)
    user, item = _pairs(rows, source, shape)
    frame = pd.DataFrame({"user": user, "item": item})
    _refuse_twice(frame, ["user", "item"], source)
    order = np.argsort(user, kind="stable")  # a user's scores are needed once
    found = exact_ranks_from_factors(
        factors,
        catalogue,
        item[order],
        _load_train(train, shape),
        users=user[order],
        progress=progress,
    )
    for name in ("n_better", "n_tied", "n_candidates"):
        frame.loc[order, name] = getattr(found, name)
    result = _with_relevant(frame.astype(np.int64))
    if among == "irrelevant":
        result["n_better"] -= result["relevant_better"]
        result["n_tied"] -= result["relevant_tied"]
        result["n_candidates"] -= result["n_relevant"] - 1
    write(result)
    return Ranks(result, {"among": among})


def _pairs(rows: pd.DataFrame, source: str, shape: tuple[int, int]) -> tuple[IntArray, IntArray]:
    """Columns user and item, as rows of factors of these numbers."""
    _need(rows, ["user", "item"], source)
    user, item = (_numbers(rows, key, 0, source) for key in ("user", "item"))
    for key, column, n_rows in zip(("user", "item"), (user, item), shape, strict=True):
        if column.max() >= n_rows:
            raise ValueError(
                f"{key} must be < {n_rows}, the rows of the {key} factors, got {column.max()} in "
                f"{source}"
            )
    return user, item


def _with_relevant(frame: pd.DataFrame) -> pd.DataFrame:
    """Add how many of the candidates above each test item, and level, are the user's others."""
    # Of two items of a user the one with fewer candidates above it is above.
    same = frame.groupby(["user", "n_better"])["item"].transform("size")
    above = frame.groupby("user")["n_better"].rank(method="min").astype(np.int64) - 1
    return frame.assign(
        n_relevant=frame.groupby("user")["item"].transform("size"),
        relevant_better=above,
        relevant_tied=same - 1,
    )


def _candidates(rows: pd.DataFrame, source: str) -> pd.DataFrame:
    """The rows, checked: recommender, user, item, score as float and relevant as bool."""
    _need(rows, ["user", "item", "score", "relevant"], source)
    columns: dict[str, Any] = {
        key: _labels(rows, key, source) for key in ("recommender", "user", "item")
    }
    columns["score"] = _real(rows, "score", source)
    relevant = _real(rows, "relevant", source)
    if not np.isin(relevant, (0, 1)).all():
        at = int(np.argmax(~np.isin(relevant, (0, 1))))
        raise ValueError(
            f"relevant must be 0 or 1, got {as_written(rows['relevant'].iloc[at])} in row "
            f"{at + 1} of {source}"
        )
    columns["relevant"] = relevant == 1
    return pd.DataFrame({key: np.asarray(column) for key, column in columns.items()})


_KEY = ["recommender", "user", "item"]


def _collapsed(table: pd.DataFrame) -> pd.DataFrame:
    """The rows with each item once, as a relevant one if it is."""
    spread = table.groupby(_KEY, sort=False)["score"].nunique()
    if (spread > 1).any():
        name, user, item = spread.index[spread > 1][0]
        raise ValueError(
            f"an item must have one score, got {spread.max()} for {_pair(user, item)} by "
            f"{shortened(str(name))}"
        )
    return table.sort_values("relevant", ascending=False, kind="stable").drop_duplicates(_KEY)


def _counts(table: pd.DataFrame, source: str) -> pd.DataFrame:
    """Counts for the relevant rows, in the order of recommenders and users in the table."""
    if not table["relevant"].any():
        raise ValueError(f"{source} must hold a relevant item, got none")
    group = table.groupby(["recommender", "user"], sort=False).ngroup().to_numpy()
    score = np.unique(table["score"], return_inverse=True)[1]  # in order, whatever their type
    order = np.lexsort((-score, group))
    table, group = table.iloc[order], group[order]
    score, negative = score[order], ~table["relevant"].to_numpy()
    before = np.concatenate(([0], np.cumsum(negative)))  # negatives before each row
    new_group = np.append(True, group[1:] != group[:-1])
    new_level = new_group | np.append(True, score[1:] != score[:-1])
    first, level = (np.flatnonzero(new) for new in (new_group, new_level))
    groups, levels = np.cumsum(new_group) - 1, np.cumsum(new_level) - 1
    level_ends, group_ends = np.append(level[1:], len(table)), np.append(first[1:], len(table))
    frame = table[_KEY].assign(
        n_better=before[level][levels] - before[first][groups],
        n_tied=before[level_ends][levels] - before[level][levels],
        n_negatives=before[group_ends][groups] - before[first][groups],
    )
    return frame[~negative].reset_index(drop=True)


def _judge(rows: pd.DataFrame, relevant: pd.DataFrame, source: str) -> pd.DataFrame:
    """Counts of a run, once it is sure that every relevant item of its users is in it."""
    if relevant.empty:
        raise ValueError(f"there must be a relevant item to rank in {source}, got none")
    pairs = pd.MultiIndex.from_frame(rows[["user", "item"]])
    judged = pd.MultiIndex.from_frame(relevant)
    table = _candidates(rows.assign(relevant=pairs.isin(judged)), source)
    for name, places in table.groupby("recommender", sort=False).indices.items():
        missing = ~judged.isin(pairs[places])
        if missing.any():
            user, item = judged[missing][0]
            raise ValueError(
                f"{source} must hold every relevant item, got none of {_pair(user, item)} "
                f"({missing.sum()} of {len(judged)} are missing for {shortened(str(name))}): "
                "without its score its rank is unknown, so log all candidates"
            )
    _refuse_twice(table, _KEY, source)
    return _counts(table, source)


def _real(frame: pd.DataFrame, key: str, source: str) -> NDArray[Any]:
    """A column of numbers, none of them NaN; whole ones are not rounded to floats."""
    column = frame[key]
    try:
        values = pd.to_numeric(column, errors="coerce")
    except OverflowError:  # a whole number beyond all floats
        known = column.map(lambda value: None if _beyond(value) else value)
        values = pd.to_numeric(known, errors="coerce")
    if values.dtype.kind in "iu" and not values.hasnans:
        return values.to_numpy()
    if values.dtype.kind == "c":
        raise ValueError(f"{key} must be a number, got {as_written(column.iloc[0])} in {source}")
    numbers = values.to_numpy(dtype=np.float64, na_value=np.nan)
    bad = np.isnan(numbers)
    if bad.any():
        at = int(np.argmax(bad))
        raise ValueError(
            f"{key} must be a number, got {as_written(frame[key].iloc[at])} in row {at + 1} of "
            f"{source}"
        )
    return numbers


def _beyond(value: object) -> bool:
    return isinstance(value, int) and abs(value) > 2**1023


def _refuse_twice(frame: pd.DataFrame, key: list[str], source: str, hint: str = "") -> None:
    twice = frame.duplicated(key)
    if twice.any():
        row = frame[twice].iloc[0]
        raise ValueError(
            f"an item must stand once for a user, got {_pair(row['user'], row['item'])} twice in "
            f"{source}{hint}"
        )


def _pair(user: object, item: object) -> str:
    return f"item {shortened(str(item))} of user {shortened(str(user))}"


def _lines(path: str | Path, names: list[str]) -> pd.DataFrame:
    """The fields of each line of a text file, separated by white space."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as problem:  # ValueError: not UTF-8
        reason = getattr(problem, "strerror", None) or "it is not text in UTF-8"
        raise ValueError(f"{_named(path)} cannot be read: {reason}") from None
    rows = []
    for number, line in enumerate(text.split("\n"), start=1):
        fields = line.split()
        if fields and len(fields) != len(names):
            raise ValueError(
                f"{path} must have lines of {len(names)} fields ({' '.join(names)}), got "
                f"{len(fields)} in line {number}"
            )
        if fields:
            rows.append(fields)
    if not rows:
        raise ValueError(f"{path} must hold one line or more, got none")
    return pd.DataFrame(rows, columns=names)


def _nested(given: Any, name: str, value: str) -> pd.DataFrame:
    """Rows of a mapping of user to mapping of item to value, or of what has `to_dict`."""
    table = given.to_dict() if hasattr(given, "to_dict") else given
    if not isinstance(table, Mapping) or not all(isinstance(v, Mapping) for v in table.values()):
        raise ValueError(
            f"{name} must map each query to a mapping of documents, got {type(given).__name__}"
        )
    rows = pd.DataFrame(
        [(user, item) for user, own in table.items() for item in own], columns=["user", "item"]
    )
    numbers = [number for own in table.values() for number in own.values()]
    rows[value] = pd.Series(numbers, dtype=object)  # pandas 2 takes no number beyond all floats
    return rows


def _on_cpu(values: Any) -> Any:
    return values.cpu() if hasattr(values, "cpu") else values


def _matrix(struct: Any, name: str, least: int) -> NDArray[Any]:
    """An entry of RecBole's data, as a matrix of at least `least` columns."""
    if not hasattr(struct, "__contains__") or name not in struct:
        raise ValueError(f"struct must have the entry {name}")
    try:
        matrix = np.asarray(_on_cpu(struct[name]), dtype=np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be a matrix of numbers") from None
    if matrix.ndim != 2 or matrix.shape[1] < least or not len(matrix):
        raise ValueError(f"{name} must have a row for each user, got shape {matrix.shape}")
    return matrix


def _recbole_negatives(struct: Any, relevant: NDArray[Any], n_negatives: int | None) -> IntArray:
    """Each user's number of distinct negatives."""
    if ("rec.meanrank" in struct) == (n_negatives is not None):
        raise ValueError("n_negatives is needed where struct has no rec.meanrank, and only there")
    if n_negatives is not None:
        return np.full(len(relevant), integer(n_negatives, "n_negatives", 1))
    means = _matrix(struct, "rec.meanrank", 3)
    if means.shape != (len(relevant), 3) or (means[:, 2] != relevant).any():
        raise ValueError("rec.meanrank must be of the same users as rec.topk")
    negatives: IntArray = (means[:, 1] - relevant).astype(np.int64)
    return negatives


def _load_factors(path: str | Path) -> NDArray[Any]:
    """A matrix of real numbers in a file of NumPy, mapped."""
    shown = _named(path)
    try:
        matrix = np.lib.format.open_memmap(path, mode="r")
    except FileNotFoundError:
        raise ValueError(f"{shown} is missing: it must be a .npy file with a matrix") from None
    except Exception as problem:  # the parser of a damaged header raises whatever it stumbles on
        found = _found(path, problem)
        raise ValueError(f"{shown} must be a .npy file with a matrix, got: {found}") from None
    if matrix.ndim != 2 or matrix.dtype.kind not in "iuf":
        found = f"shape {matrix.shape} of {matrix.dtype}"
        raise ValueError(f"{shown} must be a .npy file with a matrix of numbers, got {found}")
    return matrix


def _named(path: object) -> str:
    return shortened(str(path), 300)


def _found(path: str | Path, problem: Exception) -> str:
    """What a file is that should be one of NumPy's."""
    with suppress(OSError):
        with Path(path).open("rb") as file:
            begins = file.read(6)
        if not begins:
            return "an empty file"
        if begins.startswith(b"PK"):
            return "a .npz or another archive"
        if begins != b"\x93NUMPY":
            return "a file of another format"
    return shortened(str(problem).split("\n")[0], 100)


def _load_train(train: Table | None, shape: tuple[int, int]) -> sp.csr_array | None:
    """Training items as a matrix of users and items."""
    if train is None:
        return None
    if isinstance(train, pd.DataFrame) or Path(train).suffix.lower() not in (".npz", ".npy"):
        rows, source = _loaded(train, "train")
        pairs = _pairs(rows, source, shape)
        return sp.csr_array((np.ones(pairs[0].size), pairs), shape=shape)
    try:
        matrix = sp.csr_array(sp.load_npz(io.BytesIO(Path(train).read_bytes())))
        matrix.check_format(full_check=True)
    except FileNotFoundError:
        raise ValueError(f"{train} is missing: it must be a sparse matrix of SciPy") from None
    except Exception:  # so does the reader of a damaged archive
        raise ValueError(
            f"{train} must be a sparse matrix of SciPy (.npz), as scipy.sparse.save_npz writes it, "
            "or a CSV or Parquet file with columns user and item"
        ) from None
    return matrix


def _writer(output: str | Path | None, inputs: list[Any]) -> Any:
    """A function that writes a frame to `output`, checked before the work begins."""
    if output is None:
        return lambda frame: None
    path = Path(output)
    if path.suffix.lower() not in (".csv", ".parquet"):
        raise ValueError(f"output must end in .csv or .parquet, got {_named(repr(str(output)))}")
    if path.suffix.lower() == ".parquet":
        _need_pyarrow()
    if path.resolve() in [Path(i).resolve() for i in inputs if isinstance(i, (str, Path))]:
        raise ValueError(f"{path} is an input, and would be overwritten")
    if not path.parent.is_dir():
        raise ValueError(f"{path} cannot be written: its folder must exist")
    if path.exists() and not path.is_file():
        raise ValueError(f"{path} must be a file to write to, and is a folder or a device")
    if not os.access(path.parent, os.W_OK):
        raise ValueError(f"{path} cannot be written: Permission denied")

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
