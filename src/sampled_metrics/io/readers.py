"""What evaluations leave behind, read into the data frame that :func:`~.logs.read_log` takes.

A library that ranks sampled candidates knows each candidate's score, and a log needs only how many
negatives scored above each relevant item and how many the same. :func:`from_scores` counts them;
:func:`trec`, :func:`ranx`, :func:`rectools`, :func:`recbole` and :func:`recbole_scores` bring what
their libraries return into its form, as :mod:`~sampled_metrics.io.links` does for links in graphs.
None of these libraries is imported. An item that a run does not hold has no score, so its rank is
unknown: a run cut off at its best items is refused unless every relevant item is among them. And
:func:`rank_files` ranks all items instead.
"""

from __future__ import annotations

import csv
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

from .._arrays import fetched, on_host
from .._sharded import Job, Parts, Score, fingerprint, ranked
from .._validate import IntArray, as_written, real_scores, shortened
from ..ranking import _as_csr
from ..results import Ranks
from ._columns import labelled, listed, need, whole_numbers
from ._sources import loaded, need_pyarrow
from .files import replacing
from .links import link_prediction as link_prediction
from .links import pykeen as pykeen
from .links import pykeen_metrics as pykeen_metrics

Duplicates = Literal["refuse", "keep", "collapse"]
Among = Literal["all", "irrelevant"]
Unscored = Literal["refuse", "tied last"]
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
        the catalogue is not in a table of candidates: give it to `read_log`. Candidates are
        distinct but after "keep": `read_log` finds that in ``attrs["replacement"]``, and in
        ``attrs["shared_negatives"]`` whether most users have a list of another user, which a CSV
        file does not hold.

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
    found = _counts(table, "the table")
    if duplicates == "keep":
        del found.attrs["replacement"]
    return found


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


def rectools(
    reco: Table,
    interactions: Table,
    candidates: Table | None = None,
    *,
    unscored: Unscored = "refuse",
) -> pd.DataFrame:
    """Recommendations and test interactions as the library RecTools has them.

    Parameters
    ----------
    reco : DataFrame, or CSV or Parquet file
        Columns user_id, item_id and score, or rank (1 the best) where there is no score; with
        several models a column model, too. It must hold all candidates, not the first k alone:
        ask the model for as many items as there are.
    interactions : DataFrame, or CSV or Parquet file
        The test interactions: columns user_id and item_id, others being left out. An item that
        stands twice counts once. Ids are numbers or text, of one kind in all tables.
    candidates : DataFrame, or CSV or Parquet file, optional
        The negatives that were drawn: columns user_id and item_id, with or without the test items.
        The other items of `reco` are left out then. By default its items are the candidates.
    unscored : {"refuse", "tied last"}
        What to do with candidates that a model did not score. "tied last" puts them below the
        others and level with each other, as with models that recommend only what is similar to
        what the user knows; it needs `candidates`.

    Returns
    -------
    DataFrame
        As from :func:`from_scores`.

    Raises
    ------
    ValueError
        If a column is missing, a row of `reco` stands twice, a candidate has no score under
        "refuse", or `reco` was cut at its best k items: under "tied last" that is where half of
        the lists that lack a candidate, or more, are as long as the longest, and differ.

    Examples
    --------
    >>> reco = pd.DataFrame({"user_id": 1, "item_id": [7, 8, 9], "rank": [1, 2, 3]})
    >>> rectools(reco, pd.DataFrame({"user_id": [1], "item_id": [8]}))
       recommender  user  item  n_better  n_tied  n_negatives
    0  recommender     1     8         1       0            2
    """
    names = {"user_id": "user", "item_id": "item", "model": "recommender"}
    given, source = loaded(reco, "reco")
    rows = given.rename(columns=names)
    need(rows, ["user", "item"], source, names)
    if "score" not in rows:
        if "rank" not in rows:
            raise ValueError(
                f"{source} must have a column score or rank, got {listed(given.columns)}"
            )
        rows["score"] = -_real(rows, "rank", source).astype(np.float64)
    tested, test_source = loaded(interactions, "interactions")
    tested = tested.rename(columns=names)
    need(tested, ["user", "item"], test_source, names)
    tested = tested[["user", "item"]].drop_duplicates()
    if unscored not in ("refuse", "tied last"):
        raise ValueError(f"unscored must be 'refuse' or 'tied last', got {as_written(unscored)}")
    if candidates is not None:
        drawn, drawn_source = loaded(candidates, "candidates")
        drawn = drawn.rename(columns=names)
        need(drawn, ["user", "item"], drawn_source, names)
        wanted = pd.concat([tested, drawn[["user", "item"]]]).drop_duplicates()
        rows = _among(rows, wanted, source, unscored)
    elif unscored == "tied last":
        raise ValueError("unscored must be 'refuse' without candidates: nobody knows how many tie")
    return _judge(rows, tested, source)


def recbole(
    trainer: Any, data: Any, *, recommender: str | None = None, **options: Any
) -> pd.DataFrame:
    """Evaluate a model of RecBole with its own trainer, and keep what a log needs.

    Parameters
    ----------
    trainer : recbole.trainer.Trainer
        Any metrics and any topk will do.
    data : data loader of RecBole
        The validation or test data, with mode uni100 or the like; mode full ranks all items.
    recommender : str, optional
        By default the model's name.
    **options
        For ``trainer.evaluate``, such as ``load_best_model=False``.

    Returns
    -------
    DataFrame
        As from :func:`from_scores`, with columns instance (the row that RecBole gave the user) and
        n_items (the items that the user's negatives may be, and the relevant ones); user and item
        are as in the data files. RecBole keeps scores by item, so that a negative that was drawn
        twice counts once. What ``trainer.evaluate`` returned,
        of the same negatives, is in ``attrs["reported"]``.

    Raises
    ------
    ValueError
        If negatives are drawn by popularity, or a score is NaN.

    See Also
    --------
    recbole_scores : From the scores of a batch, where you evaluate otherwise.

    Notes
    -----
    Equal scores are counted as ties here. In RecBole's metrics of the first k they are in the order
    in which torch happened to put them.

    Examples
    --------
    After RecBole's own ``create_dataset``, ``data_preparation`` and ``trainer.fit``:

    >>> rows = recbole(trainer, test_data)  # doctest: +SKIP
    >>> log = read_log(rows)  # doctest: +SKIP
    """
    drawn = getattr(data, "neg_sample_args", None) or {}
    if drawn.get("distribution", "uniform") not in ("none", "uniform"):
        raise ValueError(
            f"data must have uniform negatives, got the distribution "
            f"{as_written(drawn['distribution'])}: set mode to uni100 or the like"
        )
    collector, dataset = trainer.eval_collector, data._dataset
    collect, batches, before = collector.eval_batch_collect, [], 0

    def keep(scores: Any, interaction: Any, positive_u: Any, positive_i: Any) -> None:
        nonlocal before
        users = on_host(interaction[dataset.uid_field])
        if users.size != len(scores):  # a row for each candidate, those of a user together
            users = pd.unique(users)
        counts = recbole_scores(scores, positive_u, positive_i)
        row = counts["user"].to_numpy()
        batches.append(counts.assign(user=users[row], instance=row + before))
        before += len(scores)
        collect(scores, interaction, positive_u, positive_i)

    collector.eval_batch_collect = keep
    try:
        reported = trainer.evaluate(data, **options)
    finally:
        collector.eval_batch_collect = collect
    frame = pd.concat(batches, ignore_index=True)
    frame["n_items"] = dataset.item_num - 1  # the first one is none
    if hasattr(data._sampler, "datasets"):  # other samplers draw what the user knows, too
        used = data._sampler.used_ids
        own = frame.groupby("instance")["item"].agg(set)
        user = frame.groupby("instance")["user"].first()
        known = [len(used[u] - items) for u, items in zip(user, own, strict=True)]
        frame["n_items"] -= frame["instance"].map(pd.Series(known, own.index))
    for key, field in (("user", dataset.uid_field), ("item", dataset.iid_field)):
        frame[key] = dataset.id2token(field, frame[key].to_numpy())
    frame["recommender"] = recommender or trainer.config["model"]
    frame.attrs |= {"reported": dict(reported), "replacement": False}
    return frame


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
        As from :func:`from_scores`; user is the row and item the column. A negative that was
        drawn twice has one column, and counts once.

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
    table = real_scores(fetched(scores))
    given = [on_host(p) for p in (positive_u, positive_i)]
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
    users: Any,
    items: Any,
    test: Table,
    train: Table | None = None,
    *,
    score: Score = "dot",
    item_bias: Any = None,
    relative_tolerance: float = 0.0,
    among: Among = "all",
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
    train : DataFrame, or file, optional
        Items that are no candidates: a CSV or Parquet file or a data frame with columns user and
        item, others being left out, or a sparse matrix of SciPy (``.npz``), shape
        (n_users, n_items), by its non-zero entries.
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
        :func:`~sampled_metrics.ranking.exact_ranks`.
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
        as in :func:`~.ranking.exact_ranks`, they are counted in n_better and n_tied too, and
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

    By a function, by which the items with numbers near the user's are the best:

    >>> def scores(users, items):
    ...     return -np.abs(items[np.newaxis, :] - users[:, np.newaxis])
    >>> rank_files(3, 500, pd.DataFrame({"user": [2], "item": [4]}), score=scores).frame["n_better"]
    0    3
    Name: n_better, dtype: int64
    """
    if among not in ("all", "irrelevant"):
        raise ValueError(f"among must be 'all' or 'irrelevant', got {as_written(among)}")
    write = _writer(output, [users, items, test, train, item_bias])
    job = Job.of(users, items, score, item_bias, relative_tolerance)
    rows, source = loaded(test, "test")
    shape = job.shape
    user, item = _pairs(rows, source, shape)
    frame = pd.DataFrame({"user": user, "item": item})
    _refuse_twice(frame, ["user", "item"], source)
    order = np.argsort(user, kind="stable")  # a user's scores are needed once
    given = _load_train(train, shape)
    seen = None if given is None else _as_csr(given, *shape)
    by_user = frame.iloc[order].reset_index(drop=True)
    parts = None
    if output is not None and (cluster is not None or not Path(output).suffix):
        folder = Path(output) if not Path(output).suffix else Path(f"{output}.parts")
        parts = Parts(folder, fingerprint(job, by_user, seen, among, cluster=cluster))
    result = ranked(
        job, by_user, seen, together=among == "all", parts=parts, cluster=cluster, progress=progress
    )
    result = result.iloc[np.argsort(order, kind="stable")].reset_index(drop=True)
    write(result)
    if parts is not None and Path(str(output)).suffix:
        parts.remove()
    return Ranks(result, {"among": among})


def _pairs(rows: pd.DataFrame, source: str, shape: tuple[int, int]) -> tuple[IntArray, IntArray]:
    """Columns user and item, as rows of factors of these numbers."""
    need(rows, ["user", "item"], source)
    user, item = (whole_numbers(rows, key, 0, source) for key in ("user", "item"))
    for key, column, n_rows in zip(("user", "item"), (user, item), shape, strict=True):
        if column.max() >= n_rows:
            raise ValueError(
                f"{key} must be < {n_rows}, the rows of the {key} factors, got {column.max()} in "
                f"{source}"
            )
    return user, item


def _candidates(rows: pd.DataFrame, source: str) -> pd.DataFrame:
    """The rows, checked: recommender, user and item as codes, score, and relevant as bool."""
    need(rows, ["user", "item", "score", "relevant"], source)
    columns: dict[str, Any] = {
        key: _coded(rows, key, source) for key in ("recommender", "user", "item")
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
    return pd.DataFrame(columns)


def _coded(rows: pd.DataFrame, key: str, source: str) -> pd.Categorical[Any]:
    """A column of names or numbers, checked, as codes: they sort and match faster."""
    if key in rows and isinstance(rows[key].dtype, pd.CategoricalDtype):
        given = rows[key].cat
        text = all(isinstance(label, str) and label.strip() for label in given.categories)
        if text and (given.codes >= 0).all():
            return pd.Categorical(rows[key])
        rows = rows[[key]].astype(object)
    codes, labels = pd.factorize(np.asarray(labelled(rows, key, source)))
    return pd.Categorical.from_codes(codes, pd.Index(labels))


_KEY = ["recommender", "user", "item"]


def _collapsed(table: pd.DataFrame) -> pd.DataFrame:
    """The rows with each item once, as a relevant one if it is."""
    spread = table.groupby(_KEY, sort=False, observed=True)["score"].nunique()
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
    group = pd.factorize(_pairs_of(table, "recommender", "user"))[0]
    score = table["score"].to_numpy()
    if score.dtype.kind != "f":
        score = np.unique(score, return_inverse=True)[1]  # in order, however large they are
    order = np.arange(group.size)
    down = (score[1:] <= score[:-1]) | (group[1:] > group[:-1])
    if not (down & (group[1:] >= group[:-1])).all():  # as it is where lists are sorted
        order = np.lexsort((-score, group))
        group, score = group[order], score[order]
    negative = ~table["relevant"].to_numpy()[order]
    before = np.concatenate(([0], np.cumsum(negative)))  # negatives before each row
    new_group = np.append(True, group[1:] != group[:-1])
    new_level = new_group | np.append(True, score[1:] != score[:-1])
    first, level = (np.flatnonzero(new) for new in (new_group, new_level))
    own = np.flatnonzero(~negative)
    groups, levels = (np.cumsum(new)[own] - 1 for new in (new_group, new_level))
    level_ends, group_ends = np.append(level[1:], len(table)), np.append(first[1:], len(table))
    counts = {
        "n_better": before[level][levels] - before[first][groups],
        "n_tied": before[level_ends][levels] - before[level][levels],
        "n_negatives": before[group_ends][groups] - before[first][groups],
    }
    keys = {key: np.asarray(table[key].array[order[own]]) for key in _KEY}
    found = pd.DataFrame(keys | counts)
    found.attrs["replacement"] = False  # what is drawn twice stands twice, see `from_scores`
    # One number for each list of negatives: a sum of hashes does not depend on their order.
    hashes = pd.util.hash_array(table["item"].cat.codes.to_numpy()[order].astype(np.int64))
    lists = np.add.reduceat(np.where(negative, hashes, 0), first)
    recommender = table["recommender"].cat.codes.to_numpy()[order][first]
    again = pd.DataFrame({"recommender": recommender, "list": lists}).duplicated(keep=False)
    found.attrs["shared_negatives"] = bool(again.mean() > 0.5)
    return found


def _pairs_of(table: pd.DataFrame, first: str, second: str) -> IntArray:
    """A number for each pair of two coded columns."""
    one, two = table[first].cat, table[second].cat
    numbers: IntArray = one.codes.to_numpy(np.int64) * len(two.categories) + two.codes.to_numpy()
    return numbers


def _judge(rows: pd.DataFrame, relevant: pd.DataFrame, source: str) -> pd.DataFrame:
    """Counts of a run, once it is sure that every relevant item of its users is in it."""
    if relevant.empty:
        raise ValueError(f"there must be a relevant item to rank in {source}, got none")
    table = _candidates(rows.assign(relevant=False), source)
    pairs, judged = _pairs_of(table, "user", "item"), _known(table, relevant)
    table["relevant"] = pd.Series(pairs).isin(judged).to_numpy()
    run = table["recommender"].cat
    for code, name in enumerate(run.categories):
        here = pairs if len(run.categories) == 1 else pairs[run.codes.to_numpy() == code]
        missing = ~pd.Series(judged).isin(here).to_numpy()
        if missing.any() and here.size:
            user, item = relevant[["user", "item"]].iloc[int(np.argmax(missing))]
            raise ValueError(
                f"{source} must hold every relevant item, got none of {_pair(user, item)} "
                f"({missing.sum()} of {len(judged)} are missing for {shortened(str(name))}): "
                + (_alike(table, user, item) or _UNSCORED)
            )
    if len(run.categories) > 1 or not pd.Index(pairs).is_unique:
        _refuse_twice(table, _KEY, source)
    return _counts(table, source)


def _among(rows: pd.DataFrame, wanted: pd.DataFrame, source: str, unscored: str) -> pd.DataFrame:
    """The scores of these candidates by each recommender, infinitely low where there is none."""
    table = _candidates(rows.assign(relevant=False), source)
    _refuse_twice(table, _KEY, source)
    found = []
    for name, own in table.groupby("recommender", sort=False, observed=True):
        pairs, known = _pairs_of(own, "user", "item"), _known(own, wanted)
        score = pd.Series(own["score"].to_numpy(), pairs).reindex(known)
        without = ~pd.Series(known).isin(pairs).to_numpy()
        if without.any():
            user, item = wanted.iloc[int(np.argmax(without))]
            lacks = f"got none of {_pair(user, item)} by {shortened(str(name))}"
            other = _alike(own, user, item)
            if other or unscored == "refuse":
                raise ValueError(
                    f"{source} must hold every candidate, {lacks} ({without.sum()} of "
                    f"{len(wanted)} are missing): "
                    + (other or "ask for as many items as there are, or say unscored='tied last'")
                )
            _refuse_cut(own, wanted["user"][without], source)
            score = score.astype(np.float64).mask(without, -np.inf)
        found.append(wanted.assign(recommender=name, score=score.to_numpy()))
    return pd.concat(found, ignore_index=True)


def _refuse_cut(own: pd.DataFrame, lacking: pd.Series, source: str) -> None:
    """Refuse lists of a recommender that end at the same place, though not at the last item."""
    lengths = own["user"].value_counts()
    longest = int(lengths.max())
    of_lacking = lengths.reindex(pd.unique(lacking), fill_value=0)
    if own["item"].nunique() > longest and 2 * (of_lacking == longest).sum() >= of_lacking.size:
        raise ValueError(
            f"{source} must hold what the model scored, got lists that were cut at {longest} "
            "items: an item beyond has a score, so ask for as many items as there are"
        )


_UNSCORED = "without its score its rank is unknown, so log all candidates"


def _known(table: pd.DataFrame, pairs: pd.DataFrame) -> IntArray:
    """The numbers that pairs of user and item have in a coded table, -1 for those not in it."""
    user, item = (
        table[key].cat.categories.get_indexer(pd.Index(np.asarray(pairs[key])))
        for key in ("user", "item")
    )
    numbers = user.astype(np.int64) * len(table["item"].cat.categories) + item
    return np.where((user < 0) | (item < 0), -1, numbers)


def _alike(table: pd.DataFrame, user: object, item: object) -> str:
    """What to do where an id is there as another kind: 1 is not "1"."""
    for key, value in (("user", user), ("item", item)):
        labels = table[key].cat.categories
        if value not in labels and str(value) in labels.astype(str):
            there = "text" if isinstance(value, str) else "numbers"
            return (
                f"the ids of its {key}s are of another kind, and {there} in the relevant items: "
                "make both the same"
            )
    return ""


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
    """Fields of each line of a text file, separated by white space; all but numbers as codes."""
    try:
        data = Path(path).read_bytes()
        data.decode()
    except (OSError, ValueError) as problem:  # ValueError: not UTF-8
        reason = getattr(problem, "strerror", None) or "it is not text in UTF-8"
        raise ValueError(f"{_named(path)} cannot be read: {reason}") from None
    if b"\0" in data:  # as in UTF-16; parsers end a field at it, or leave it out
        raise ValueError(f"{_named(path)} cannot be read: it holds the character NUL")
    data = data.translate(bytes.maketrans(b"\v\f\r", b"   "))
    kept = [name for name in (*_KEY, "score", "rel") if name in names]

    whole = False
    with suppress(ValueError):  # a line has too many fields, or there is none
        frame = pd.read_csv(
            io.BytesIO(data),
            sep=r"\s+",
            header=None,
            names=[*names, "beyond"],
            dtype="str",
            na_filter=False,
            quoting=csv.QUOTE_NONE,
        )
        wrong = (frame[names[-1]] == "") | (frame["beyond"] != "")
        whole = not frame.empty and not wrong.any()
    if not whole:
        for number, own in enumerate(data.split(b"\n"), start=1):
            if len(own.split()) not in (0, len(names)):
                raise ValueError(
                    f"{path} must have lines of {len(names)} fields ({' '.join(names)}), got "
                    f"{len(own.split())} in line {number}"
                )
        raise ValueError(f"{path} must hold one line or more, got none")
    frame = frame[kept].astype(dict.fromkeys({*_KEY} & {*kept}, "category"))
    if "score" in kept:
        texts = frame["score"].to_numpy(dtype=object)
        with suppress(ValueError):  # no number: `_real` names it, and takes those of many digits
            numbers = texts.astype(np.float64)
            if (np.abs(numbers) < 2**53).all() and not any("_" in text for text in texts):
                frame["score"] = numbers
    return frame


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


def _load_factors(path: str | Path) -> Any:
    """A matrix of real numbers in a file of NumPy, mapped."""
    shown = _named(path)
    suffix = Path(path).suffix.lower()
    if suffix in (".csv", ".npz", ".parquet"):
        return _read_factors(path, suffix, shown)
    if suffix == ".zarr":
        return _open_zarr(path, shown)
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


def _read_factors(path: str | Path, suffix: str, shown: str) -> NDArray[Any]:
    """A matrix of real numbers in a CSV file without names of columns, or alone in an archive."""
    wanted = "one array, a matrix of numbers" if suffix == ".npz" else "rows of numbers"
    try:
        if suffix == ".csv":
            matrix = np.loadtxt(path, delimiter=",", ndmin=2)
        elif suffix == ".parquet":
            need_pyarrow()
            matrix = np.ascontiguousarray(pd.read_parquet(path).to_numpy())
        else:
            with np.load(path) as archive:
                (matrix,) = archive.values()
    except FileNotFoundError:
        raise ValueError(f"{shown} is missing: it must hold {wanted}") from None
    except Exception as problem:
        found = shortened(str(problem).split("\n")[0], 100)
        raise ValueError(f"{shown} must hold {wanted}, got: {found}") from None
    if matrix.ndim != 2 or matrix.dtype.kind not in "iuf" or not matrix.size:
        raise ValueError(f"{shown} must hold {wanted}, got shape {matrix.shape}")
    return np.asarray(matrix)


def _open_zarr(path: str | Path, shown: str) -> Any:
    """An array of Zarr, whose rows are read when they are asked for."""
    try:
        import zarr
    except ImportError:
        raise ImportError(f"{shown} needs Zarr: install zarr, or save an .npy file") from None
    try:
        matrix = zarr.open_array(str(path), mode="r")
    except Exception as problem:
        found = shortened(str(problem).split("\n")[0], 100)
        raise ValueError(f"{shown} must be an array of Zarr, got: {found}") from None
    if matrix.ndim != 2 or matrix.dtype.kind not in "iuf":
        found = f"shape {matrix.shape} of {matrix.dtype}"
        raise ValueError(f"{shown} must be an array of Zarr, a matrix of numbers, got {found}")
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
        rows, source = loaded(train, "train")
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
    if path.suffix.lower() not in (".csv", ".parquet", "") or len(path.name) > 240:
        raise ValueError(
            "output must end in .csv or .parquet, or name a folder without an ending, got "
            f"{_named(repr(str(output)))}"
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
