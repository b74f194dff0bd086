"""Whether the other documents of a sub-corpus are a uniform sample, or what models ranked high.

A run over a pool shows no more than ranks within it, which any corpus may have. But a sub-corpus
also keeps the documents that are relevant to other queries, and these were not chosen for the query
at hand. In a uniform sample the other documents stand above a query's best relevant document about
as often, or less often, since what is relevant to one query is rarely far from all others. In a
pool they do so more often, because some were chosen as the query's first documents.

If the documents of both kinds are exchangeable, the number x of sampled ones among the T above the
best relevant document has the mean T m / (m + K), for m sampled and K relevant to other queries.
Queries are weighted by 1 / sqrt(T), so that those with a relevant document near the top count.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from .sub_corpus import Order

#: Standard errors above which a note is given.
LIMIT = 2.6

NOTE = (
    "the sampled documents stand above the relevant ones too often for a uniform sample, compared "
    "with documents that are relevant to other queries (by {:.1f} standard errors; a note is given "
    "from {:g}): corpora that keep what models ranked high look so, as do some with many hubs; if "
    "models chose documents of this one, neither estimates nor ranges hold, and the exact value is "
    "at most the reported one, on every metric but AUC"
)


def excess(orders: Mapping[str, list[list[Order]]], n_kept: int, n_sampled: int) -> float:
    """By how many standard errors sampled documents are above relevant ones too often.

    The variance is the sum of one over documents and one over queries.
    """
    n_queries = len(next(iter(orders.values())))
    by_query, by_document = np.zeros(n_queries), np.zeros(n_sampled)
    for by_system in orders.values():
        for query, tied in enumerate(by_system):
            for order in tied:
                x = float(order.n_above[0])
                total = x + order.position[0] - 1
                if total > 0:
                    expected = total * n_sampled / (n_sampled + n_kept - order.gain.size)
                    weight = 1.0 / (np.sqrt(total) * len(tied) * len(orders))
                    by_query[query] += weight * (x - expected)
                    by_document += weight * (order.n_better == 0)
    n_documents = n_sampled + n_kept
    variance = n_sampled * n_kept / n_documents * by_document.var(ddof=1)
    variance += n_queries * by_query.var(ddof=1) if n_queries > 1 else np.inf
    return float(by_query.sum() / np.sqrt(variance)) if variance > 0 else 0.0
