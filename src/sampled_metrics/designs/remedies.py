"""What would decide an undecided pair: more negatives, or ranking all items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from .. import priors
from .._printed_ranges import steps
from .._validate import FloatArray, IntArray
from ..bounds import bets, identification
from ..bounds.assumption import Assumption, assumption_name
from ..bounds.generators import hats
from ..metrics import Metric
from ..protocol import Protocol, fixed
from .fits import Fits
from .judging import Judgement, Pair, bet_weights
from .sample import difference

#: The most negatives tried for a verdict.
_MOST_NEGATIVES = 500


class Remedy(NamedTuple):
    """How many negatives would decide a pair, None if none of those tried; and ranking all items.

    `ranking_decides` is None where it is not known.
    """

    negatives: int | None = None
    ranking_decides: bool | None = None


class Population(NamedTuple):
    """A recommender's fitted true ranks, and the mean of the metric with its variance."""

    ranks: IntArray
    mass: FloatArray
    mean: float
    variance: float


def remedies(
    fits: Fits,
    metric: Metric,
    judgements: Mapping[Pair, Judgement],
    assumed: Assumption | None,
    confidence: float,
) -> dict[Pair, Remedy]:
    """What would decide undecided pairs if the fit to each sample were true.

    Evidence is its expectation, so that about half of the evaluations with so many negatives would
    decide. Users and fits stay the same.
    """
    pairs = [pair for pair, judgement in judgements.items() if not judgement.sign]
    if not pairs:
        return {}
    needed, weights = (
        identification.log_evidence_needed(confidence, len(judgements)),
        bet_weights(assumed),
    )
    populations = _populations(fits, metric, pairs)
    n_items = int(fits.mean_protocol(1).n_items)
    by_pair = {
        pair: Remedy(
            None, fits.fewest < n_items - 1 and _ranking_decides(populations, pair, needed)
        )
        for pair in pairs
    }
    for m in steps(min(_MOST_NEGATIVES, n_items - 2)):
        for assumption in dict.fromkeys((None, assumed)):
            name = assumption_name(assumption)
            open_pairs = [
                pair
                for pair in pairs
                if by_pair[pair] == (None, True) and judgements[pair].assumption == name
            ]
            if m > fits.fewest and open_pairs:
                protocol = fixed(fits.mean_protocol(m), "negatives_needed")
                users = fits.sample.users[open_pairs[0][0]]
                bet_evidence_needed = needed - np.log(weights[assumption])
                by_pair |= dict.fromkeys(
                    decided(
                        populations, protocol, metric, open_pairs, assumption, users,
                        bet_evidence_needed,
                    ),
                    Remedy(m, True),
                )  # fmt: skip
    return by_pair


def _populations(fits: Fits, metric: Metric, pairs: Sequence[Pair]) -> dict[str, Population]:
    """The population fitted to each recommender of some pairs."""
    (band,), populations = fits.bands(metric), {}
    n_items = int(fits.mean_protocol(1).n_items)
    for name in fits.sample.names:
        if any(name in pair for pair in pairs):
            fit = fits.prior("maximum entropy", band, name)
            ranks, mass = priors.condensed(np.asarray(fit.mass))
            exact = metric.term(ranks, 1, 1, n_items)
            mean = float(mass @ exact)
            variance = float(mass @ exact**2 - mean**2) / fits.sample.users[name]
            populations[name] = Population(ranks, mass, mean, variance)
    return populations


def _ranking_decides(populations: Mapping[str, Population], pair: Pair, needed: float) -> bool:
    """Whether bets decide with all items ranked: z**2 exceeds twice the evidence needed."""
    first, second = (populations[name] for name in pair)
    gap = abs(difference(first.mean, second.mean))
    return gap > 0 and gap**2 >= 2.0 * needed * (first.variance + second.variance)


def decided(
    populations: Mapping[str, Population],
    protocol: Protocol,
    metric: Metric,
    pairs: Sequence[Pair],
    assumption: Assumption | None,
    users: float,
    log_evidence_needed: float,
) -> list[Pair]:
    """The pairs that bets decide in expectation, if built for the true ranks."""
    assert isinstance(protocol.n_items, int)
    m = protocol.n_negatives
    parts = bets.partition(
        np.array([[m, 1, 1, protocol.n_items]]), np.ones(1), metric, protocol.replacement
    )
    if not parts.parts:
        return []
    names = list(dict.fromkeys(name for pair in pairs for name in pair))
    pmfs = {name: one.mass @ protocol.pmf(one.ranks) for name, one in populations.items()}
    # Mix in 1% of a uniform distribution, so that no sampled rank bankrupts a bet.
    guesses = (0.99 * np.array([pmfs[name] for name in names]) + 0.01 / (m + 1)) @ hats(m)
    built_bets = bets.build(
        parts, assumption, bets.SUM_NEED * log_evidence_needed, users, [guesses]
    )
    values = built_bets.values(bets.Rows(np.zeros(m + 1, dtype=np.int64), np.arange(m + 1)))
    sums = bets.Sums.of(built_bets, built_bets.certificates[:, 0], built_bets.certificates[:, 0])
    decided_pairs = []
    for pair in pairs:
        for first, second in (pair, pair[::-1]):
            bet_index = names.index(first) * len(names) + names.index(second)
            first_values, second_values = (
                values[sums.over[bet_index]],
                values[sums.under[bet_index]],
            )
            bet_sums = (
                np.add.outer(first_values, sums.ratio[bet_index] * second_values)
                - sums.less[bet_index]
            )
            growth = pmfs[first] @ np.log(bet_sums) @ pmfs[second] - np.log(sums.mean[bet_index])
            if users * growth >= log_evidence_needed:
                decided_pairs.append(pair)
                break
    return decided_pairs
