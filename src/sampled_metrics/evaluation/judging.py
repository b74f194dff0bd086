"""Verdicts on pairs of recommenders, and what would decide undecided pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .. import _confidence, priors
from .._validate import FloatArray, IntArray
from ..bounds import bets, identification
from ..bounds.assumption import Assumption, assumption_name
from ..bounds.generators import hats
from ..metrics import Metric
from ..numerics import betting
from ..protocol import Protocol, fixed, steps
from .ranges import compatible
from .sample import Sample, UserMean, difference
from .values import Values

#: The verdict on an undecided pair.
UNKNOWN = "unknown"
#: Limits tried on how many times fewer users there are per doubling of the rank.
STEEPNESS = (2.0, 3.0, 4.0, 8.0)
#: Multiples of the users for which bets are built to find the users needed, and the largest answer.
_MORE_USERS, _MOST_TIMES = (8.0, 64.0, 512.0), 1e6
#: The most negatives tried for a verdict.
_MOST_NEGATIVES = 500

Pair = tuple[str, str]


@dataclass(frozen=True)
class Judgement:
    """The verdict on a pair and the interval of its difference.

    `sign` is that of the difference, 0 if undecided; `low` and `high` bound the difference under
    `assumption` (with this `steepness`) and by `warrant`; `detectable` is roughly the smallest
    difference this log can show; `users_needed` such users would give a verdict.
    """

    sign: int
    low: float
    high: float
    assumption: str = _confidence.NONE
    warrant: str = _confidence.PROVED
    steepness: float = np.inf
    detectable: float = np.nan
    users_needed: int | None = None

    def verdict(self, first: str, second: str) -> str:
        if self.sign == 0:
            return UNKNOWN
        better, worse = (first, second) if self.sign > 0 else (second, first)
        return f"{better} beats {worse}"


def by_student(means: Mapping[Pair, UserMean], level: float) -> dict[Pair, Judgement]:
    """Student's test of the users' differences, with Holm's method over all pairs."""
    signs, remaining = dict.fromkeys(means, 0), len(means)
    p_values = {pair: mean.student(level)[2] for pair, mean in means.items()}
    for pair in sorted(means, key=p_values.__getitem__):
        if p_values[pair] > (1.0 - level) / remaining:
            break
        signs[pair] = 1 if means[pair].value > 0 else -1
        remaining -= 1
    found = {}
    for pair, mean in means.items():
        low, high, _ = mean.student(1.0 - (1.0 - level) / len(means))
        half = 0.5 * (high - low)
        warrant = _confidence.LARGE_SAMPLE
        found[pair] = Judgement(signs[pair], low, high, warrant=warrant, detectable=half)
    return found


def by_means(
    values: Values, of: Metric, naive: Mapping[str, UserMean], pairs: Sequence[Pair], level: float
) -> dict[Pair, Judgement]:
    """Bets on the users' differences of naive values, if these are unbiased."""
    least, most = values.span(of)
    span, found = most - least, {}
    for first, second in pairs:
        a, b = naive[first], naive[second]
        each, counts = values.sample.tally(a.minus(b))
        low, high = betting.interval(each, -span, span, (1.0 - level) / len(pairs), counts=counts)
        sign, half, needed = int(low > 0) - int(high < 0), 0.5 * (high - low), None
        gap = abs(difference(a.value, b.value))
        if not sign and gap and (times := (half / gap) ** 2) * a.users <= 1e12:
            # The detectable difference falls as 1/sqrt(users).
            needed = max(a.users + 1, int(np.ceil(a.users * times)))
        found[first, second] = Judgement(sign, low, high, detectable=half, users_needed=needed)
    return found


def bet_weights(assumed: Assumption | None) -> dict[Assumption | None, float]:
    """Assumptions in the order in which pairs are judged, and the weights of their bets.

    Those at most so many times per doubling share the last weight: verdicts are wrong only if the
    bets under the gentlest true one are.
    """
    if assumed is None:
        return {None: 1.0}
    if np.isfinite(assumed.steepness):
        return {None: 0.2, assumed: 0.8}
    gentler = [replace(assumed, steepness=steepness) for steepness in STEEPNESS]
    return {None: 0.2, assumed: 0.5} | dict.fromkeys(gentler, 0.3)


def by_bets(
    sample: Sample,
    of: Metric,
    pairs: list[Pair],
    assumed: Assumption | None,
    level: float,
    bar: Any,
) -> tuple[dict[Pair, Judgement], list[str]]:
    """Bets on sampled ranks, under no assumption and then under stronger ones; with notes."""
    judge, weights = Judge(sample, of, pairs, level), bet_weights(assumed)
    judged: dict[Pair, Judgement] = {}
    notes: list[str] = []
    unknown = pairs
    for assumption in dict.fromkeys((None, assumed)):
        last = assumption == assumed
        found, said = judge.under(assumption, unknown, weights[assumption], last=last)
        notes += said
        judged |= found
        unknown = [pair for pair in unknown if not judged[pair].sign]
        bar.update()
    # A steepness counts only if all gentler ones gave the verdict too. So it is wrong only if the
    # bets under the gentlest true one are wrong.
    for assumption in [*weights][2:]:
        found, _ = judge.under(assumption, unknown, weights[assumption], keep=False)
        judged |= {pair: one for pair, one in found.items() if one.sign}
        # A log that contradicts this steepness may be consistent with a larger one.
        unknown = [pair for pair in unknown if pair not in found or found[pair].sign]
    return judged, notes


class Judge:
    """Judges pairs by sums of bets on both recommenders of each user.

    Evidence under weaker assumptions is added to that under stronger ones, where it is valid too.
    The weights of the bets sum to 1, so that all intervals and verdicts hold together.
    """

    def __init__(self, sample: Sample, of: Metric, pairs: list[Pair], level: float) -> None:
        self.sample, self.level, self.metric = sample, level, of
        #: Log evidence that refutes a value, corrected for the number of pairs.
        self.needed = identification.need(level, len(pairs))
        #: Evidence under weaker assumptions, for each pair and its reverse.
        self.kept: dict[Pair, bets.Evidence] = {}

    def under(
        self,
        assumption: Assumption | None,
        pairs: list[Pair],
        weight: float,
        keep: bool = True,
        last: bool = False,
    ) -> tuple[dict[Pair, Judgement], list[str]]:
        """Judge pairs under an assumption, except those with a recommender that contradicts it.

        `keep`: add the evidence to that of later assumptions. `last`: also compute the users
        needed.
        """
        names = [name for name in self.sample.names if any(name in pair for pair in pairs)]
        checks, notes = len(self.sample.names) * (2 + len(STEEPNESS)), list[str]()
        parts = self.sample.partition(self.metric, assumption)
        names = compatible(self.sample, parts, assumption, names, self.level, notes, checks)
        pairs = [pair for pair in pairs if all(name in names for name in pair)]
        if not pairs:
            return {}, notes
        notes += self.sample.notes_on_thinning(assumption)
        evidence = {
            way: one.with_(self.kept.get(way))
            for way, one in self.evidence(assumption, pairs, weight).items()
        }
        if keep:
            self.kept |= evidence
        spans = {name: parts.span(self.sample.share(name)) for name in names}
        steepness = np.inf if assumption is None else assumption.steepness
        judged = {}
        for pair in pairs:
            ends = []
            for a, b in (pair, pair[::-1]):
                least = difference(spans[a][0], spans[b][1])
                most = difference(spans[a][1], spans[b][0])
                ends.append(evidence[a, b].end(1, self.needed, least, most))
            low, high = ends[0], 0.0 - ends[1]
            if low > high:  # the log contradicts the assumption
                continue
            judged[pair] = Judgement(
                sign=int(low > 0) - int(high < 0),
                low=low,
                high=high,
                assumption=assumption_name(assumption),
                steepness=steepness,
                detectable=0.5 * (high - low),
            )
        unknown = [pair for pair, one in judged.items() if not one.sign] if last else []
        for pair, needed in self._users_needed(assumption, unknown, weight).items():
            judged[pair] = replace(judged[pair], users_needed=needed)
        if assumption is None and len(judged) < len(pairs):
            raise ValueError(
                "the ranks contradict the protocol at any true ranks: check n_items, n_negatives "
                "and replacement"
            )
        return judged, notes

    def evidence(
        self,
        assumption: Assumption | None,
        pairs: Sequence[Pair],
        weight: float,
        times: float = 1.0,
    ) -> dict[Pair, bets.Evidence]:
        """Bets that the first metric of a pair is larger, and of its reverse.

        They are built for `times` the users.
        """
        sample, users = self.sample, self.sample.users[pairs[0][0]]
        parts = sample.partition(self.metric, assumption)
        made = bets.build(parts, assumption, bets.SUM_NEED * self.needed, users * times)
        each = made.values(sample.bet_rows)
        mean = {name: made.certificates @ sample.share(name) for pair in pairs for name in pair}
        found = {}
        for pair in pairs:
            for a, b in (pair, pair[::-1]):
                sums = bets.Sums.of(made, mean[a], mean[b])
                logs = np.empty(sums.slope.size)
                if sample.alone:
                    (first, second), counts = sample.log.joint_counts(a, b)
                choices = zip(sums.over, sums.under, sums.ratio, sums.less, strict=True)
                for at, (over, under, ratio, less) in enumerate(choices):
                    if sample.alone:  # codes count from 1
                        both = each[over, first - 1] + ratio * each[under, second - 1]
                        logs[at] = counts @ np.log(both - less)
                    else:
                        values = sample.log.sums({a: each[over], b: ratio * each[under]})
                        logs[at] = sum(n @ np.log(own - less) for own, n in values)
                ones = np.ones(logs.size, dtype=np.int64)
                found[a, b] = bets.Evidence.of(ones, sums.slope, sums.mean, logs, users, weight)
        return found

    def _users_needed(
        self, assumption: Assumption | None, pairs: Sequence[Pair], weight: float
    ) -> dict[Pair, int]:
        """How many such users would decide each pair, by bisection; no entry if no number would."""
        found: dict[Pair, int] = {}
        for times in _MORE_USERS if pairs else ():
            evidence = self.evidence(assumption, pairs, weight, times)
            enough = [
                way
                for way, one in evidence.items()
                if one.against(1, 0.0, _MOST_TIMES) >= self.needed
            ]
            for way in enough:
                if way[::-1] in enough:  # contradictory: too few users to extrapolate
                    continue
                pair, one = way if way in pairs else way[::-1], evidence[way]
                low, high = 1.0, _MOST_TIMES
                for _ in range(40):
                    middle = np.sqrt(low * high)
                    decides = one.against(1, 0.0, middle) >= self.needed
                    low, high = (low, middle) if decides else (middle, high)
                users = max(_two_digits(one.users[0] * high), int(one.users[0]) + 1)
                found[pair] = min(users, found.get(pair, users))
        return found


def _two_digits(users: float) -> int:
    """A number of users rounded up to two digits."""
    unit = int(10 ** max(np.floor(np.log10(users)) - 1.0, 0.0))
    return int(np.ceil(users / unit)) * unit


def negatives_needed(
    values: Values,
    of: Metric,
    judged: Mapping[Pair, Judgement],
    assumed: Assumption | None,
    level: float,
) -> dict[Pair, str]:
    """How many negatives would decide undecided pairs if the fit to each sample were true.

    Evidence is its expectation, so that about half of the evaluations with so many negatives would
    decide. Users and fits stay the same.
    """
    sample, fits = values.sample, values.fits
    pairs = [pair for pair, one in judged.items() if not one.sign]
    if sample.log.weighted or sample.design is not None:
        return {}
    if sample.whole:  # there are no more negatives
        return dict.fromkeys(pairs, "none")
    if not pairs or values.unbiased(of) or fits.most > 1 or fits.unfit:
        return {}
    (band,) = fits.bands(of)
    n_items = int(fits.mean_protocol(1).n_items)
    wanted, weights = identification.need(level, len(judged)), bet_weights(assumed)
    populations, means, variances = {}, {}, {}
    for name in (name for name in sample.names if any(name in pair for pair in pairs)):
        fit = fits.prior("maximum entropy", band, name)
        ranks, mass = populations[name] = priors.condensed(np.asarray(fit.mass))
        exact = of.term(ranks, 1, 1, n_items)
        means[name] = float(mass @ exact)
        variances[name] = float(mass @ exact**2 - means[name] ** 2) / sample.users[name]
    fewest = fits.fewest
    more = "all" if n_items - 2 <= _MOST_NEGATIVES else f">{_MOST_NEGATIVES}"
    needed = {}
    for a, b in pairs:
        variance, gap = variances[a] + variances[b], abs(difference(means[a], means[b]))
        # With all items ranked, bets decide if z**2 exceeds twice the evidence needed.
        enough = gap > 0 and gap**2 >= 2.0 * wanted * variance and fewest < n_items - 1
        needed[a, b] = more if enough else "none"
    for m in steps(min(_MOST_NEGATIVES, n_items - 2)):
        for assumption in dict.fromkeys((None, assumed)):
            name = assumption_name(assumption)
            open_pairs = [p for p in pairs if needed[p] == more and judged[p].assumption == name]
            if m > fewest and open_pairs:
                users = sample.users[open_pairs[0][0]]
                log_e = wanted - np.log(weights[assumption])
                protocol = fixed(fits.mean_protocol(m), "negatives_needed")
                for pair in decided(
                    populations, protocol, of, open_pairs, assumption, users, log_e
                ):
                    needed[pair] = str(m)
    return needed


def decided(
    populations: Mapping[str, tuple[IntArray, FloatArray]],
    protocol: Protocol,
    of: Metric,
    pairs: Sequence[Pair],
    assumption: Assumption | None,
    users: float,
    wanted: float,
) -> list[Pair]:
    """The pairs that bets decide in expectation, if built for the true ranks."""
    assert isinstance(protocol.n_items, int)
    m = protocol.n_negatives
    parts = bets.partition(
        np.array([[m, 1, 1, protocol.n_items]]), np.ones(1), of, protocol.replacement
    )
    if not parts.parts:
        return []
    names = list(dict.fromkeys(name for pair in pairs for name in pair))
    pmf = {name: mass @ protocol.pmf(ranks) for name, (ranks, mass) in populations.items()}
    # Mix in 1% of a uniform distribution, so that no sampled rank bankrupts a bet.
    guesses = (0.99 * np.array([pmf[name] for name in names]) + 0.01 / (m + 1)) @ hats(m)
    made = bets.build(parts, assumption, bets.SUM_NEED * wanted, users, [guesses])
    values = made.values(bets.Rows(np.zeros(m + 1, dtype=np.int64), np.arange(m + 1)))
    sums = bets.Sums.of(made, made.certificates[:, 0], made.certificates[:, 0])
    found = []
    for pair in pairs:
        for a, b in (pair, pair[::-1]):
            at = names.index(a) * len(names) + names.index(b)
            over, under = values[sums.over[at]], values[sums.under[at]]
            both = np.add.outer(over, sums.ratio[at] * under) - sums.less[at]
            growth = pmf[a] @ np.log(both) @ pmf[b] - np.log(sums.mean[at])
            if users * growth >= wanted:
                found.append(pair)
                break
    return found
