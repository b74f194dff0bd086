"""Runs over one sub-corpus that serves all queries.

Retrieval test collections are often cut to a sub-corpus: every document that is relevant to some
query, and a sample of the others. All queries then share their negatives, so this is no
:class:`~sampled_metrics.Log`, whose negatives are independent between users.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._validate import FloatArray, IntArray, integer, shortened
from . import pooled

if TYPE_CHECKING:
    import pandas as pd

#: Orders over which tied documents are averaged.
N_ORDERS = 16


class Order(NamedTuple):
    """One order of the sub-corpus for a query; arrays over its relevant documents, best first."""

    position: IntArray
    """Place among the kept documents, from 1."""
    n_above: IntArray
    """Sampled documents above."""
    gain: FloatArray
    """Relevance, above 0."""
    n_better: IntArray
    """For each sampled document, how many relevant ones are above it."""


@dataclass(frozen=True, eq=False)
class SubCorpus:
    """Systems that ranked one sub-corpus for each query.

    Attributes
    ----------
    corpus_size : int
        Documents of the corpus.
    n_kept : int
        Documents of the sub-corpus that were kept on purpose, all relevant ones among them.
    n_sampled : int
        Its other documents, a uniform sample without replacement of the rest of the corpus.
    queries : tuple of str
    orders : mapping of str to list of list of Order
        For each system and query the order of the sub-corpus, or several that break ties at random.
    notes : tuple of str
        What the reader left out, and whether the sample looks like a pool.
    larger : tuple of int
        Further sizes of the corpus, in order, to estimate metrics for.
    own_id : ndarray of int, optional
        If queries are documents, and so no candidates of their own: the index of each among the
        sampled documents, `n_sampled` if it was kept, or -1 if it was not ranked.
    """

    corpus_size: int
    n_kept: int
    n_sampled: int
    queries: tuple[str, ...]
    orders: Mapping[str, list[list[Order]]] = field(repr=False)
    notes: tuple[str, ...] = ()
    larger: tuple[int, ...] = ()
    own_id: IntArray | None = field(default=None, repr=False)

    @property
    def systems(self) -> tuple[str, ...]:
        return tuple(self.orders)

    @property
    def n_others(self) -> int:
        """Documents of the corpus that the sample was drawn from."""
        return self.corpus_size - self.n_kept

    def without_own(self, query: int) -> tuple[int, int]:
        """`n_others` and `n_sampled` of a query, without the query itself."""
        if self.own_id is None or self.own_id[query] == self.n_sampled:
            return self.n_others, self.n_sampled
        return self.n_others - 1, self.n_sampled - int(self.own_id[query] >= 0)


def sub_corpus(
    rows: pd.DataFrame,
    judged: pd.DataFrame,
    corpus_size: int | Sequence[int],
    kept_documents: Collection[object],
    origin: str,
    queries_are_documents: bool | None = None,
) -> SubCorpus:
    """The runs of `rows`, checked to rank one sub-corpus for every query.

    `rows` has the columns system, query, document and score, `judged` query, document and rel
    above 0.
    """
    import pandas as pd

    relevant = judged[judged["rel"] > 0]
    codes, documents = pd.factorize(rows["document"])
    size, *larger = _corpus_sizes(corpus_size, len(documents), origin)
    queries = pd.unique(rows["query"])
    code_of = dict(zip(map(str, documents), range(len(documents)), strict=True))
    own_id = np.array([code_of.get(str(query), -1) for query in queries])
    own_id = own_id if queries_are_documents else np.full_like(own_id, -1)
    _check_lists(rows.assign(document=codes), [size, *larger], own_id, documents, origin)
    _check_answered(queries, relevant, origin)
    is_kept = _is_kept(documents, relevant, kept_documents, own_id, origin)
    is_answered = relevant["query"].isin(queries)
    gains = _gains(relevant[is_answered], documents, origin)
    orders = {}
    for name, run in rows.assign(document=codes).groupby("system", sort=False, observed=True):
        by_query = run.groupby("query", sort=False, observed=True).indices
        missing = [query for query in queries if query not in by_query]
        if missing:
            raise ValueError(
                f"every system must rank the same queries, got none of query {_name(missing[0])} "
                f"by {_name(name)}"
            )
        code, score = run["document"].to_numpy(), run["score"].to_numpy()
        orders[str(name)] = [
            _orders(
                _scores(code[by_query[q]], score[by_query[q]], documents, own_id[i], q, origin),
                is_kept, own_id[i], *gains[q], i,
            )
            for i, q in enumerate(queries)
        ]  # fmt: skip
    left_out = relevant.loc[~is_answered, "query"].nunique()
    note = f"{left_out:,} queries of the qrels are left out: {origin} does not rank for them"
    n_kept = int(is_kept.sum())
    n_sampled = len(documents) - n_kept
    excess = pooled.excess(orders, n_kept, n_sampled)
    notes = (note,) * bool(left_out)
    notes += (pooled.NOTE.format(excess, pooled.LIMIT),) * (excess > pooled.LIMIT)
    names = tuple(map(str, queries))
    sampled_id = np.append((np.cumsum(~is_kept) - 1) * ~is_kept + n_sampled * is_kept, -1)[own_id]
    return SubCorpus(
        size,
        n_kept,
        n_sampled,
        names,
        orders,
        notes,
        tuple(larger),
        sampled_id if queries_are_documents else None,
    )


def without_own(
    rows: pd.DataFrame, judged: pd.DataFrame, queries_are_documents: bool | None, origin: str
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Runs and judgements, without those of a query as its own document if queries are documents.

    If nobody says whether they are, runs are refused that mostly begin with the query's own id.
    Equal ids alone say nothing: queries and documents may both be numbered from 1, or a query may
    have the number of its answer.
    """
    is_own, is_own_judged = _own(rows), _own(judged)
    if queries_are_documents:
        return rows[~is_own], judged[~is_own_judged]
    if queries_are_documents is not None or not is_own.any():
        return rows, judged
    answered = judged.loc[is_own_judged & (judged["rel"] > 0), "query"].astype(str)
    is_own &= ~np.asarray(rows["query"].astype(str).isin(answered))
    best = rows.groupby(["system", "query"], sort=False, observed=True)["score"].transform("max")
    n_first = int((is_own & (rows["score"] == best)).sum())
    if n_first > 1 and 2 * n_first > is_own.sum():
        raise ValueError(
            f"{origin} ranks the document with the query's own id first in {n_first:,} of the "
            f"{is_own.sum():,} lists that hold it: if queries are documents of the corpus, say "
            "queries_are_documents=True (--queries-are-documents), so that none is its own "
            "candidate; else say False (--no-queries-are-documents)"
        )
    return rows, judged


def _own(table: pd.DataFrame) -> Any:
    """Whether the document of each row has the id of its query."""
    query, document = (table[name].astype("category").cat for name in ("query", "document"))
    code = query.categories.astype(str).get_indexer(document.categories.astype(str))
    return np.asarray(code[document.codes] == query.codes.to_numpy())


def _corpus_sizes(corpus_size: int | Sequence[int], n_documents: int, origin: str) -> list[int]:
    """Sizes of the corpus in order, checked to exceed the ranked documents."""
    is_text = isinstance(corpus_size, str)
    is_several = isinstance(corpus_size, Sequence) and not is_text and len(corpus_size) > 0
    all_sizes: Any = corpus_size if is_several else (corpus_size,)
    sizes = sorted({integer(size, "corpus_size", 2) for size in all_sizes})
    if sizes[0] < n_documents:
        raise ValueError(
            f"corpus_size must be at least the {n_documents:,} documents that {origin} ranks, got "
            f"{sizes[0]:,}"
        )
    return sizes


def _check_lists(
    rows: pd.DataFrame, sizes: list[int], own_id: IntArray, documents: pd.Index, origin: str
) -> None:
    """Refuse runs that rank the whole corpus, or an own block of documents for some queries."""
    n_documents, n_systems = len(documents), rows["system"].nunique()
    lists = rows.groupby(["system", "query"], sort=False, observed=True)["document"]
    if len(rows) == n_systems * int((n_documents - (own_id >= 0)).sum()):
        if sizes == [n_documents]:
            raise ValueError(
                f"corpus_size must exceed the {n_documents:,} documents that {origin} ranks: with "
                "all documents ranked the reported metrics are exact"
            )
        return
    blocks = {frozenset(codes) for _, codes in lists}
    if 1 < len(blocks) < rows["query"].nunique() and sum(map(len, blocks)) == n_documents:
        raise ValueError(
            f"{origin} must rank one sub-corpus for all queries, got {len(blocks):,} blocks of "
            "documents with none in common, as where each query is ranked among the others of its "
            "batch: if blocks are a random partition, readers.from_scores(rows, block=) reads them"
        )


def _check_answered(queries: Any, relevant: pd.DataFrame, origin: str) -> None:
    """Refuse a query without a relevant document."""
    answered = set(relevant["query"])
    without = [query for query in queries if query not in answered]
    if without:
        raise ValueError(
            f"each query must have a relevant document in the qrels, got none for query "
            f"{_name(without[0])} ({len(without)} of {len(queries)} queries): leave such queries "
            f"out of {origin}"
        )


def _is_kept(
    documents: pd.Index,
    relevant: pd.DataFrame,
    kept_documents: Collection[object],
    own_id: IntArray,
    origin: str,
) -> np.ndarray:
    """Which documents of the sub-corpus were kept on purpose; the others are the sample.

    Queries that are documents were kept if all are there; otherwise they were drawn like others.
    """
    is_kept = documents.isin(relevant["document"]) | documents.isin(list(kept_documents))
    is_kept[own_id[own_id >= 0]] |= bool((own_id >= 0).all())
    absent = [document for document in kept_documents if document not in documents]
    if absent:
        raise ValueError(
            f"kept must hold documents of the sub-corpus, got {_name(absent[0])}, which {origin} "
            "does not rank"
        )
    n_kept, n_relevant = int(is_kept.sum()), relevant["document"].nunique()
    if len(documents) - n_kept - bool((~is_kept[own_id[own_id >= 0]]).any()) < 2:
        raise ValueError(
            f"the sub-corpus must hold at least 2 sampled documents, got {len(documents) - n_kept} "
            f"beside {n_kept:,} that were kept on purpose ({n_relevant:,} of them relevant to a "
            "query): without a sample the rest of the corpus stays unknown, so rank a uniform "
            "sample of the documents that are relevant to no query as well, or leave queries out "
            f"of both {origin} and the qrels, so that fewer documents are relevant"
        )
    return is_kept


def _gains(
    relevant: pd.DataFrame, documents: pd.Index, origin: str
) -> dict[Any, tuple[IntArray, FloatArray]]:
    """For each query its relevant documents, as codes, and their relevance."""
    import pandas as pd

    codes = documents.get_indexer(pd.Index(relevant["document"]))
    if (codes < 0).any():
        row = relevant.iloc[int(np.argmax(codes < 0))]
        raise ValueError(
            f"{origin} must rank every relevant document, got none of document "
            f"{_name(row['document'])} of query {_name(row['query'])} ({(codes < 0).sum()} of "
            f"{len(codes)} are missing): keep them all in the sub-corpus and score each; without "
            "their judgements instead, the value is neither a bound nor an estimate"
        )
    rel = relevant["rel"].to_numpy(float)
    rows = relevant.groupby("query", sort=False, observed=True).indices
    return {query: (codes[index], rel[index]) for query, index in rows.items()}


def _scores(
    code: IntArray, score: FloatArray, documents: pd.Index, own_id: int, query: Any, origin: str
) -> FloatArray:
    """The scores of all documents for a query; any for the query itself, with the code `own_id`."""
    counts = np.bincount(code, minlength=len(documents))
    counts[own_id] += own_id >= 0
    if (counts > 1).any():
        raise ValueError(
            f"a document must have one score for a query, got document "
            f"{_name(documents[int(np.argmax(counts > 1))])} twice for query {_name(query)} in "
            f"{origin}"
        )
    if (counts == 0).any():
        if str(query) in map(str, documents[counts == 0]) and (counts == 0).sum() == 1:
            raise ValueError(
                f"{origin} must rank the whole sub-corpus for each query, but query "
                f"{_name(query)} lacks the document with its own id: if queries are documents of "
                "the corpus, say queries_are_documents=True, or --queries-are-documents"
            )
        raise ValueError(
            f"{origin} must rank the whole sub-corpus for each query, got {code.size:,} of its "
            f"{len(documents):,} documents for query {_name(query)}: of a run that was cut at k "
            "only this follows, that a metric with a cutoff up to k is on the whole corpus at most "
            "what it is here; for more, score all of them (mteb 2: task._top_k = len(corpus); "
            "sentence-transformers: map_at_k=[len(corpus)]). If each list holds the first "
            "documents of the whole corpus, say of_all=True, or --of-all"
        )
    scores = np.full(len(documents), score[0])
    scores[code] = score
    return scores


def _orders(
    scores: FloatArray,
    is_kept: np.ndarray,
    own_id: int,
    relevant: IntArray,
    gain: FloatArray,
    seed: int,
) -> list[Order]:
    """One order of the documents, or `N_ORDERS` if a relevant document is tied.

    The query itself, with the code `own_id` unless that is -1, is no candidate and comes last.
    """
    is_own = np.arange(scores.size) == own_id
    is_tied = any((scores == scores[code]).sum() > 1 for code in relevant)
    # Rotated keys: in the orders together each document takes its turn at all places of a tie.
    key = np.random.default_rng(seed).random(scores.size) if is_tied else np.zeros(scores.size)
    n_orders, orders = N_ORDERS if is_tied else 1, []
    for i in range(n_orders):
        order = np.lexsort(((key + i / n_orders) % 1.0, -scores, is_own))
        rank = np.empty(order.size, dtype=np.int64)
        rank[order] = np.arange(order.size)
        kept_above = np.cumsum(is_kept[order]) - is_kept[order]
        best_first = np.argsort(rank[relevant])
        ranks = rank[relevant][best_first]
        orders.append(
            Order(
                position=kept_above[ranks] + 1,
                n_above=ranks - kept_above[ranks],
                gain=gain[best_first],
                n_better=np.searchsorted(ranks, rank[~is_kept]),
            )
        )
    return orders


def _name(value: object) -> str:
    return shortened(str(value))
