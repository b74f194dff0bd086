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
        What the reader left out.
    larger : tuple of int
        Further sizes of the corpus, in order, to estimate metrics for.
    """

    corpus_size: int
    n_kept: int
    n_sampled: int
    queries: tuple[str, ...]
    orders: Mapping[str, list[list[Order]]] = field(repr=False)
    notes: tuple[str, ...] = ()
    larger: tuple[int, ...] = ()

    @property
    def systems(self) -> tuple[str, ...]:
        return tuple(self.orders)

    @property
    def n_others(self) -> int:
        """Documents of the corpus that the sample was drawn from."""
        return self.corpus_size - self.n_kept


def sub_corpus(
    rows: pd.DataFrame,
    judged: pd.DataFrame,
    corpus_size: int | Sequence[int],
    kept: Collection[object],
    source: str,
) -> SubCorpus:
    """The runs of `rows`, checked to rank one sub-corpus for every query.

    `rows` has the columns system, query, document and score, `judged` query, document and rel
    above 0.
    """
    import pandas as pd

    relevant = judged[judged["rel"] > 0]
    codes, documents = pd.factorize(rows["document"])
    n_documents = len(documents)
    is_text = isinstance(corpus_size, str)
    is_several = isinstance(corpus_size, Sequence) and not is_text and len(corpus_size) > 0
    sizes: Any = corpus_size if is_several else (corpus_size,)
    size, *larger = sorted({integer(one, "corpus_size", 2) for one in sizes})
    if size < n_documents:
        raise ValueError(
            f"corpus_size must be at least the {n_documents:,} documents that {source} ranks, got "
            f"{size:,}"
        )
    if size == n_documents and not larger:
        raise ValueError(
            f"corpus_size must exceed the {n_documents:,} documents that {source} ranks: with all "
            "documents ranked the reported metrics are exact"
        )
    queries = pd.unique(rows["query"])
    without = pd.Index(queries).difference(pd.Index(relevant["query"].unique()), sort=False)
    if len(without):
        raise ValueError(
            f"each query must have a relevant document in the qrels, got none for query "
            f"{_name(without[0])} ({len(without)} of {len(queries)} queries): leave such queries "
            f"out of {source}"
        )
    is_kept = documents.isin(relevant["document"]) | documents.isin(list(kept))
    absent = [document for document in kept if document not in documents]
    if absent:
        raise ValueError(
            f"kept must hold documents of the sub-corpus, got {_name(absent[0])}, which {source} "
            "does not rank"
        )
    n_sampled = int(n_documents - is_kept.sum())
    if n_sampled < 2:
        raise ValueError(
            f"the sub-corpus must hold at least 2 sampled documents, got {n_sampled} beside "
            f"{int(is_kept.sum()):,} that were kept on purpose"
        )
    is_answered = relevant["query"].isin(queries)
    answered = relevant[is_answered]
    places = documents.get_indexer(pd.Index(answered["document"]))
    if (places < 0).any():
        row = answered.iloc[int(np.argmax(places < 0))]
        raise ValueError(
            f"{source} must rank every relevant document, got none of document "
            f"{_name(row['document'])} of query {_name(row['query'])} ({(places < 0).sum()} of "
            f"{len(places)} are missing): the sub-corpus must keep them all"
        )
    gains = {
        query: (places[index], answered["rel"].to_numpy(float)[index])
        for query, index in answered.groupby("query", sort=False, observed=True).indices.items()
    }
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
                _scores(code[by_query[q]], score[by_query[q]], documents, q, source),
                is_kept, *gains[q], i,
            )
            for i, q in enumerate(queries)
        ]  # fmt: skip
    left_out = relevant.loc[~is_answered, "query"].nunique()
    note = f"{left_out:,} queries of the qrels are left out: {source} does not rank for them"
    return SubCorpus(
        size,
        int(is_kept.sum()),
        n_sampled,
        tuple(map(str, queries)),
        orders,
        (note,) * bool(left_out),
        tuple(larger),
    )


def _scores(
    code: IntArray, score: FloatArray, documents: pd.Index, query: object, source: str
) -> FloatArray:
    """The scores of all documents for a query."""
    counts = np.bincount(code, minlength=len(documents))
    if (counts > 1).any():
        raise ValueError(
            f"a document must have one score for a query, got document "
            f"{_name(documents[int(np.argmax(counts > 1))])} twice for query {_name(query)} in "
            f"{source}"
        )
    if (counts == 0).any():
        raise ValueError(
            f"{source} must rank the whole sub-corpus for each query, got {code.size:,} of its "
            f"{len(documents):,} documents for query {_name(query)}: a run that was cut, as at "
            "1,000 documents, does not say where the others stand"
        )
    scores = np.empty(len(documents), dtype=score.dtype)
    scores[code] = score
    return scores


def _orders(
    scores: FloatArray, is_kept: np.ndarray, relevant: IntArray, gain: FloatArray, seed: int
) -> list[Order]:
    """One order of the documents, or `N_ORDERS` if a relevant document is tied."""
    is_tied = any((scores == scores[place]).sum() > 1 for place in relevant)
    # Rotated keys: in the orders together each document takes its turn at all places of a tie.
    key = np.random.default_rng(seed).random(scores.size) if is_tied else np.zeros(scores.size)
    n_orders, orders = N_ORDERS if is_tied else 1, []
    for i in range(n_orders):
        order = np.lexsort(((key + i / n_orders) % 1.0, -scores))
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
