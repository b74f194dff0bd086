"""Runs and relevance judgements of the library ranx."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

from ..log.query_values import TopLists, top_lists
from ..log.sub_corpus import SubCorpus, sub_corpus, without_own
from .candidates import judged_run, nested, real_column
from .trec import QUERY

if TYPE_CHECKING:
    import pandas as pd


@overload
def ranx(run: Any, qrels: Any, *, recommender: str | None = None) -> pd.DataFrame: ...


@overload
def ranx(
    run: Any,
    qrels: Any,
    *,
    recommender: str | None = None,
    corpus_size: int | Sequence[int],
    kept: Collection[object] = (),
    queries_are_documents: bool | None = None,
) -> SubCorpus: ...


@overload
def ranx(
    run: Any, qrels: Any, *, recommender: str | None = None, of_all: Literal[True]
) -> TopLists: ...


def ranx(
    run: Any,
    qrels: Any,
    *,
    recommender: str | None = None,
    corpus_size: int | Sequence[int] | None = None,
    kept: Collection[object] = (),
    queries_are_documents: bool | None = None,
    of_all: bool = False,
) -> pd.DataFrame | SubCorpus | TopLists:
    """Read a ``Run`` and ``Qrels`` of the library ranx.

    Parameters
    ----------
    run : ranx.Run, or mapping of query to mapping of document to score
        The form of ``Run.to_dict()`` and ranx's JSON files, and of runs of pytrec_eval. With
        `corpus_size` also a mapping of system to such runs. A list of documents, best first, may
        stand for a mapping.
    qrels : ranx.Qrels, or mapping of query to mapping of document to relevance
        A document is relevant if its relevance is at least 1, as in ranx; with `corpus_size`, if
        it is above 0, as in trec_eval. A set or list of the relevant documents, or the one that is
        relevant, may stand for a mapping.
    recommender : str, optional
        By default the run's name.
    corpus_size, kept, queries_are_documents, of_all : optional
        As for :func:`trec`, if the runs rank one sub-corpus for all queries, or list the first
        documents of the whole corpus.

    Returns
    -------
    DataFrame
        As from :func:`from_scores`; user is the query and item the document. With `corpus_size` a
        sub-corpus, as from :func:`trec`.

    Raises
    ------
    ValueError
        If an argument has another type, a score is not a number, or a relevant document is not in
        the run, and as :func:`trec` with `corpus_size`.

    See Also
    --------
    sampled_metrics.readers.trec : The same from files in TREC's formats.
    sampled_metrics.read_log : Read the rows that this function returns.

    Examples
    --------
    >>> ranx({"q1": {"d1": 0.1, "d2": 0.9}}, {"q1": {"d1": 1}}, recommender="bm25")
      recommender user item  n_better  n_tied  n_negatives
    0        bm25   q1   d1         1       0            1

    The three documents are a sub-corpus of 100; d1 was kept, and the others are a sample:

    >>> run = {"q1": {"d1": 0.5, "d2": 0.9, "d3": 0.1}, "q2": {"d1": 0.8, "d2": 0.2, "d3": 0.3}}
    >>> judged = {"q1": {"d1": 1}, "q2": {"d1": 1}}
    >>> ranx(run, judged, recommender="bm25", corpus_size=100)
    SubCorpus(corpus_size=100, n_kept=1, n_sampled=2, queries=('q1', 'q2'), notes=(), larger=())
    """
    if corpus_size is not None or of_all:
        rows, judged = _runs(run, qrels, recommender)
        rows, judged = without_own(rows, judged, queries_are_documents, "run")
        if of_all:
            return top_lists(rows, judged, "run")
        assert corpus_size is not None
        return sub_corpus(rows, judged, corpus_size, kept, "run", queries_are_documents)
    rows = nested(run, "run", "score")
    rows["recommender"] = recommender or getattr(run, "name", None) or "recommender"
    judged = nested(qrels, "qrels", "relevance")
    judged["relevance"] = real_column(judged, "relevance", "qrels")
    return judged_run(rows, judged.loc[judged["relevance"] >= 1, ["user", "item"]], "run")


def _runs(run: Any, qrels: Any, recommender: str | None) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The rows of one run or several, and those of the judgements, in the words of retrieval."""
    import pandas as pd

    runs = {recommender or getattr(run, "name", None) or "system": run}
    if isinstance(run, Mapping):
        values = [value.to_dict() if hasattr(value, "to_dict") else value for value in run.values()]
        inner = [item for value in values if isinstance(value, Mapping) for item in value.values()]
        if any(isinstance(item, (Mapping, list, tuple)) for item in inner):
            runs = dict(run)
    tables = [nested(run, "run", "score").assign(recommender=name) for name, run in runs.items()]
    rows, judged = pd.concat(tables, ignore_index=True), nested(qrels, "qrels", "rel")
    if rows.empty:
        raise ValueError("run must rank a document for a query, got none")
    rows["score"] = real_column(rows, "score", "run")
    judged["rel"] = real_column(judged, "rel", "qrels")
    return rows.rename(columns=QUERY), judged.rename(columns=QUERY)
