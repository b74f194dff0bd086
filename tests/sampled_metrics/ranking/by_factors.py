"""Rank held-out items by products of factors in memory, as `rank` does for each shard."""

import numpy as np

from sampled_metrics.ranking.factors import factor_counts
from sampled_metrics.ranking.inputs import as_csr
from sampled_metrics.ranking.intervals import RankIntervals


def ranks_by_factors(users, items, held_out, train, owners=None):
    """The intervals of the items; `owners` are their rows of `users`, by default each its own."""
    users, items, held_out = np.asarray(users), np.asarray(items), np.asarray(held_out)
    names = np.arange(len(users))
    owners = names if owners is None else np.asarray(owners)
    seen = as_csr(train, len(users), len(items))
    arguments = items[held_out], "dot", owners, held_out, seen, names
    better, tied = factor_counts(users, items, *arguments)
    return RankIntervals(better, tied, len(items) - np.diff(seen.indptr)[owners])
