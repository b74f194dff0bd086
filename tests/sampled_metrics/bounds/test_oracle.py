"""Printed intervals against sums over all true ranks, by definitions written out here.

A bet is a function h of the sampled rank whose mean is at most y + s M(r), or y - s M(r) for the
upper end, at each true rank r; or, if deeper ranks have fewer users, averaged over the ranks 1 to
j for each j near the top. Then the product over users of h / (y + s c) has a mean of at most 1 if
the metric is at most c. An end with 97.5% confidence is where the mean of such products is 40,
and 2% of the error is kept for a test of the assumption.
"""

import math

import numpy as np
import pandas as pd
import pytest

import sampled_metrics as sm
from sampled_metrics.bounds import bets
from sampled_metrics.bounds.generators import hats
from sampled_metrics.designs.sample import Sample

N_ITEMS, N_NEGATIVES, USERS = 60, 8, 250
#: What a bet must win at an end of a 95% interval: 40, and the rest for a test of the assumption.
WEALTH = 2 / (0.98 * 0.05)

#: The number of the metric's value at a true rank.
VALUES = {
    "recall@5": lambda r: float(r <= 5),
    "ndcg@10": lambda r: 1 / math.log2(r + 1) if r <= 10 else 0.0,
    "rr": lambda r: 1 / r,
    "ap@7": lambda r: 1 / r if r <= 7 else 0.0,
}
#: True ranks: few at the top, flat, all just beyond a cut-off, two groups, heavy top.
POPULATIONS = {
    "power": lambda u: np.floor((N_ITEMS + 1) ** u),
    "flat": lambda u: 1 + np.floor(N_ITEMS * u),
    "beyond": lambda u: np.full(u.shape, 11.0),
    "two groups": lambda u: np.where(u < 0.3, 2, 40),
    "top": lambda u: 1 + np.floor(N_ITEMS * u**4),
}


def pmf(rank, replacement):
    """Probabilities of 0 to N_NEGATIVES sampled negatives above an item of this rank."""
    above, pool, m = rank - 1, N_ITEMS - 1, N_NEGATIVES
    if replacement:
        share = above / pool
        return [math.comb(m, x) * share**x * (1 - share) ** (m - x) for x in range(m + 1)]
    ways = [math.comb(above, x) * math.comb(pool - above, m - x) for x in range(m + 1)]
    return [way / math.comb(pool, m) for way in ways]


def draw(population, replacement):
    """Negatives above each user's item, drawn without the package."""
    rng = np.random.default_rng(7)
    above = np.clip(POPULATIONS[population](rng.random(USERS)), 1, N_ITEMS).astype(int) - 1
    pool = N_ITEMS - 1
    if replacement:
        return rng.binomial(N_NEGATIVES, above / pool)
    return rng.hypergeometric(above, pool - above, N_NEGATIVES)


@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize("population", POPULATIONS)
@pytest.mark.parametrize("assumption", [None, "decreasing"])
def test_ends_are_where_bets_reach_their_evidence(population, assumption, replacement):
    better = draw(population, replacement)
    rows = pd.DataFrame({"user": range(USERS), "rank": better + 1})
    log = sm.read_log(rows, n_items=N_ITEMS, n_negatives=N_NEGATIVES, replacement=replacement)
    expectation = np.array([pmf(rank, replacement) for rank in range(1, N_ITEMS + 1)])
    frame = sm.estimate(log, [*VALUES], assumption=assumption).frame.set_index("metric")
    for name, value in VALUES.items():
        row = frame.loc[name]
        assumed = None if row["assumption"] == "none" else "decreasing"
        metric = np.array([value(rank) for rank in range(1, N_ITEMS + 1)])
        parts = Sample(log).partition(sm.metric(name), assumed)
        (part,) = parts.parts
        top = 0 if assumed is None else part.generators(assumed).top
        built = bets.build(parts, assumed, math.log(WEALTH), USERS)
        functions = built.functions[0] @ hats(N_NEGATIVES).T
        for sign, end in ((1, row["possible_low"]), (-1, row["possible_high"])):
            products = []
            for i in np.flatnonzero(built.sign == sign):
                slope, bound = built.slope[i], built.certificates[i, 0]
                excess = expectation @ functions[i] - bound - sign * slope * metric
                averages = np.cumsum(excess[:top]) / np.arange(1, top + 1)
                assert functions[i].min() > 0
                assert max([*averages, *excess[top:]]) <= 1e-9, (name, sign)
                gains = functions[i][better] / (bound + sign * slope * end)
                products.append(np.log(gains).sum())
            log_wealth = np.logaddexp.reduce(products) - math.log(len(products))
            # Distinct negatives leave a rank between one after those above, and before the others.
            worst = N_ITEMS if replacement else N_ITEMS - N_NEGATIVES + better
            best = 1 if replacement else better + 1
            known = [float(np.mean(metric[np.asarray(ranks) - 1])) for ranks in (worst, best)]
            if min(known) + 1e-9 < end < max(known) - 1e-9:
                # Fifty times as much where the bets leave no value at 95%.
                ratios = [math.exp(log_wealth) / WEALTH / times for times in (1, 50)]
                assert min(abs(ratio - 1) for ratio in ratios) < 0.01, (name, sign, ratios)
