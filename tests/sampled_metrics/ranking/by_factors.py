"""Rank held-out items by products of factors in memory, as `rank` does for each shard."""

import numpy as np

from sampled_metrics.ranking.factors import shard_counts
from sampled_metrics.ranking.inputs import as_csr
from sampled_metrics.ranking.intervals import RankIntervals
from sampled_metrics.ranking.job import as_products


def ranks_by_factors(users, items, held_out, train, owners=None):
    """The intervals of the items; `owners` are their rows of `users`, by default each its own."""
    users, items = as_products(np.asarray(users), np.asarray(items), "dot")
    owners = np.arange(len(users)) if owners is None else np.asarray(owners)
    held_out = np.asarray(held_out)
    seen = as_csr(train, len(users), len(items))
    better, tied = shard_counts(users, items, owners, items[held_out], held_out, seen)
    return RankIntervals(better, tied, len(items) - np.diff(seen.indptr)[owners])
