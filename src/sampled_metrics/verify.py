"""Check the certificate of a range: ``python verify.py cert.json``, with nothing else installed.

Exit status 0: a right proof; 1: a claim does not hold; 2: malformed. Decimals are rounded outwards.
Proof. A bet is a function h > 0 of the sampled rank x. Its certificate y and slope s satisfy

    E[h(x) | r] <= y + s M(r)    (for bets on the low end; y - s M(r) for the high end)

at each true rank r; or, if ranks are assumed to decrease down to rank L, on average over the ranks
1 to j for each j <= L, and at each r > L. For a pair a low and a high bet are added: however x and
x' depend on each other, E[s' h(x) + s h'(x') - d] <= s' y + s y' - d + s s' (M(r) - M(r')). If the
mean metric of N users is at most c, the product over users of h(x) / (y + s c) has an expectation
of at most 1, by the inequality of arithmetic and geometric means. So has the wealth, a weighted
mean of such products. By Markov's inequality it is 1 / alpha or more with probability <= alpha.
"""

import hashlib
import json
import re
import sys
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal, localcontext
from functools import lru_cache
from itertools import accumulate
from operator import add, mul
from pathlib import Path
from typing import Any

UP = Context(prec=30, rounding=ROUND_CEILING, Emin=MIN_EMIN, Emax=MAX_EMAX)
DOWN = Context(prec=30, rounding=ROUND_FLOOR, Emin=MIN_EMIN, Emax=MAX_EMAX)
ZERO = Decimal(0)
TINY = Decimal("1e-25")  # more than the rounding, in any direction, of logarithms and powers
LARGEST = 10**9  # of whole numbers
FORMAT = "sampled-metrics certificate 1"
CONTENT = ("format", "settings", "counts", "range", "bets", "stakes")
SETTINGS = ("recommenders", "metric", "k", "n_items", "n_negatives", "replacement",
            "confidence", "alpha", "decreasing_to_rank")  # fmt: skip
BET = ("end", "slope", "bound", "function")
METRICS_WITH_CUTOFF = ("ap", "ndcg", "rr", "precision", "recall", "hit")
METRICS_WITHOUT = ("ap", "ndcg", "rr", "auc", "accuracy")


class RefusedError(Exception):
    """A claim of the certificate does not hold."""


@dataclass(frozen=True)
class Bet:
    """A bet, with the numbers that its inequality needs."""

    sign: int
    """1 if it is on the low end of the range, -1 if on the high end."""
    slope: Decimal
    bound: Decimal
    function: list[Decimal]
    bends: list[Decimal]
    """The largest bend of the function, an absolute second difference, at a place or later."""


class Certificate:
    """A certificate from JSON; ValueError or the like if it is malformed."""

    def __init__(self, content: Any) -> None:
        _require_keys(content, CONTENT)
        _require(content["format"] == FORMAT)
        self._read_settings(content["settings"])
        self._read_counts(content["counts"])
        self.low, self.high = map(_number, content["range"])
        _require(self.low <= self.high)
        self.bets = [self._bet(row) for row in content["bets"]]
        _require(len(self.bets) > 0)
        self.stakes = [self._stake(row) for row in content["stakes"]]
        self.means = lru_cache(1 << 14)(self._means)

    def _read_settings(self, settings: Any) -> None:
        _require_keys(settings, SETTINGS)
        self.names, self.metric_name = settings["recommenders"], settings["metric"]
        _require(type(self.names) is list and all(type(name) is str for name in self.names))
        _require(len(self.names) in (1, 2) and len(set(self.names)) == len(self.names))
        self.is_pair = len(self.names) == 2

        self.n_items = _whole(settings["n_items"])
        self.n_negatives = _whole(settings["n_negatives"])
        self.replacement = settings["replacement"]
        _require(self.n_items >= 2 and type(self.replacement) is bool)
        _require(self.replacement or 0 < self.n_negatives < self.n_items)
        self.pool = self.n_items - 1  # items that can be above the held-out one

        has_cutoff = settings["k"] is not None
        _require(self.metric_name in (METRICS_WITH_CUTOFF if has_cutoff else METRICS_WITHOUT))
        self.k = _whole(settings["k"]) if has_cutoff else self.n_items
        _require(self.k > 0)
        # The metric is 0 from the next rank on, if it is not AUC.
        self.last = 1 if self.metric_name == "accuracy" else min(self.k, self.n_items)

        self.confidence, self.alpha = _number(settings["confidence"]), _number(settings["alpha"])
        self.top = _whole(settings["decreasing_to_rank"])
        _require(self.top <= self.n_items)

    def _read_counts(self, rows: Any) -> None:
        """Rows of negatives above and tied, for a pair those of either, and the users with them."""
        self.counts = [[_whole(number) for number in row] for row in rows]
        for row in self.counts:
            _require(len(row) == (5 if self.is_pair else 3))
            *ranks, _ = row
            most = max(map(add, ranks[::2], ranks[1::2]))
            _require(most <= self.n_negatives)
        self.users = sum(row[-1] for row in self.counts)
        _require(self.users > 0)

    def _bet(self, row: Any) -> Bet:
        _require_keys(row, BET)
        sign = {"low": 1, "high": -1}[row["end"]]
        function = [_number(value) for value in row["function"]]
        _require(len(function) == self.n_negatives + 1)
        triples = zip(function, function[1:], function[2:], strict=False)
        bends = [abs(before - 2 * value + after) for before, value, after in triples]
        later = [*accumulate(reversed(bends), max)]
        return Bet(sign, _number(row["slope"]), _number(row["bound"]), function, later[::-1])

    def _stake(self, row: Any) -> tuple[Decimal, Decimal, list[Bet]]:
        """A stake's weight, the constant that is subtracted, and its bets."""
        weight, less, indices = row
        _require(all(_whole(index) < len(self.bets) for index in indices))
        return _number(weight), _number(less), [self.bets[index] for index in indices]

    def metric(self, above: int, context: Context) -> Decimal:
        """The metric of an item with so many items above it, rounded as `context` says."""
        rank = above + 1
        tiny = TINY if context is UP else -TINY
        with localcontext(context):
            if self.metric_name == "auc":
                return Decimal(self.pool - above) / self.pool
            if rank > self.last:
                return ZERO
            if self.metric_name in ("ap", "rr"):
                return 1 / Decimal(rank)
            if self.metric_name == "precision":
                return 1 / Decimal(self.k)
            if self.metric_name == "ndcg" and rank > 1:
                return (Decimal(2).ln() + tiny) / (Decimal(rank + 1).ln() - tiny)
            return Decimal(1)

    def _means(self, above: int, less: int) -> list[Decimal]:
        """Upper bounds of expected functions or, with `less` = 2 draws less, of bends; in UP."""
        functions = [bet.bends if less else bet.function for bet in self.bets]
        m = max(self.n_negatives - less, 0)
        if self.replacement:
            pool = self.pool
            first = m if above == pool else 0
        else:
            pool = self.pool - less
            first = max(0, m - pool + above)
        pmf = [Decimal(1)]  # up to a factor, with relative errors far below 1e-15
        for x in range(first, m):
            if self.replacement:
                more, fewer = above, pool - above
            else:
                more, fewer = above - x, pool - above - m + x + 1
            pmf.append(pmf[-1] * ((m - x) * more) / ((x + 1) * fewer))
        total = sum(pmf) * (1 - Decimal("1e-15"))
        return [sum(map(mul, pmf, h[first:]), ZERO) / total for h in functions]

    def expected(self, above: int) -> list[Decimal]:
        """By how much each bet's expectation exceeds its bound; in context UP."""
        least, most = self.metric(above, DOWN), self.metric(above, UP)
        excesses = []
        for mean, bet in zip(self.means(above, 0), self.bets, strict=True):
            signed_metric = -least if bet.sign == 1 else most
            excesses.append(mean - bet.bound + bet.slope * signed_metric)
        return excesses

    def excess(self, start: int, stop: int) -> list[Decimal]:
        """Bound of `expected` less its chord. E[h] bends m (m - 1) / pool^2 times E[bend of h]."""
        width = stop - start
        pairs = self.pool * (self.pool if self.replacement else self.pool - 1)
        scale = Decimal(self.n_negatives * (self.n_negatives - 1)) / pairs * width**2 / 8
        # The metric is convex. It departs from its chord by at most a quarter of the width times
        # the difference of its first and its last step.
        first_step = self.metric(start, UP) - self.metric(start + 1, DOWN)
        last_step = self.metric(stop - 1, DOWN) - self.metric(stop, UP)
        drop = (first_step - last_step) * width / 4
        rows = zip(self.means(start, 2), self.bets, strict=True)
        return [scale * bend + drop * bet.slope for bend, bet in rows]

    def check(self) -> str:
        """The claim, or RefusedError."""
        _require(0 < 2 * self.alpha <= 1 - self.confidence < 1, "alpha is too large")
        positive = all(min(bet.function) > 0 for bet in self.bets)
        _require(positive, "a function is not positive")
        self._check_ends()
        with localcontext(UP):
            self._check_averages()
            # In two parts, so that no chord crosses the cut-off.
            self._check_ranks(self.top, self.last - 1)
            self._check_ranks(max(self.top, self.last), self.pool)
        return self._claim()

    def _claim(self) -> str:
        # In quotes and ASCII: no name reads as a claim or moves a terminal's cursor.
        names = " minus that of ".join(map(json.dumps, self.names))
        confidence = (100 * self.confidence).normalize()
        ends = f"{self.low:f} to {self.high:f}"
        return f"the metric of {names} is in {ends}, with {confidence:f}% confidence"

    def _check_ends(self) -> None:
        """Enough wealth at either end, or no metric beyond it."""
        least, most = self.metric(self.pool, DOWN), self.metric(0, UP)
        if self.is_pair:
            least, most = DOWN.subtract(least, most), UP.subtract(most, least)
        is_low = self.low <= least or self._wealth(1, self.low) >= 1
        is_high = self.high >= most or self._wealth(-1, self.high) >= 1
        end = "high" if is_low else "low"
        _require(is_low and is_high, f"{end} end: its bets win less than 1 / alpha times the stake")

    def _wealth(self, side: int, end: Decimal) -> Decimal:
        """Lower bound of alpha times the wealth on one side, against a mean metric of `end`."""
        signs = [side, -side] if self.is_pair else [side]
        wealth = weights = ZERO
        for weight, less, bets in self.stakes:
            if [bet.sign for bet in bets] != signs:
                continue  # this stake is on the other end
            weights = UP.add(weights, weight)
            _require(weight >= 0 and weights <= 1, "a stake is invalid")
            invested = DOWN.multiply(self.alpha, weight)
            wealth = DOWN.add(wealth, self._gain(invested, side * end, less, bets))
        return wealth

    def _gain(self, gain: Decimal, signed_end: Decimal, less: Decimal, bets: list[Bet]) -> Decimal:
        """A stake times, for each user, the value of its bets over their largest expectation."""
        slopes = [bet.slope for bet in bets]
        # Of a pair, each bet is multiplied by the slope of the other.
        scales = slopes[::-1] if self.is_pair else [Decimal(1)]
        with localcontext(UP):
            mean = signed_end * slopes[0] * scales[0] - less
            mean += sum(map(mul, scales, [bet.bound for bet in bets]))
            largest = mean**self.users * (1 + TINY)
        with localcontext(DOWN):
            least = sum(map(mul, scales, [min(bet.function) for bet in bets]), -less)
            _require(min(mean, least) > 0 and min(slopes) >= 0, "a stake is invalid")
            gain /= largest
            for *ranks, users in self.counts:
                values = map(self._value, bets, ranks[::2], ranks[1::2])
                gain *= sum(map(mul, scales, values), -less) ** users * (1 - TINY)
        return gain

    def _value(self, bet: Bet, above: int, tied: int) -> Decimal:
        """A bet's value for a user; ties are broken at random, or several may be of one item."""
        values = bet.function[above : above + tied + 1]
        if self.replacement and tied > 1:
            return min(values)
        return sum(values, ZERO) / len(values)

    def _check_ranks(self, first: int, last: int) -> None:
        """The inequality with each of `first` to `last` items above; in context UP."""
        runs = [(first, last)] if first <= last else []
        while runs:
            start, stop = runs.pop()
            ends = [*map(max, self.expected(start), self.expected(stop))]
            _require(max(ends) <= 0, f"a bound is too small at rank {start + 1} or {stop + 1}")
            if stop > start + 1 and max(map(add, ends, self.excess(start, stop))) > 0:
                middle = (start + stop) // 2
                runs += [(start, middle), (middle, stop)]

    def _check_averages(self) -> None:
        """The inequality on average over ranks 1 to j, for each j up to the top; in context UP."""
        start, width = 0, 1
        sums = [ZERO] * len(self.bets)
        while start < self.top:
            until = self.last - 1 if start < self.last else self.pool
            width = max(1, min(width, self.top - start, until - start))
            at_start = self.expected(start)
            at_stop = self.expected(min(start + width, self.pool))
            excess = self.excess(start, start + width) if width > 1 else [ZERO] * len(sums)
            rows = [*zip(sums, at_start, at_stop, excess, strict=True)]
            most = max(total + width * (max(f, g, ZERO) + e) for total, f, g, e in rows)
            if width > 1 and (most > 0 or max(excess) * self.users > Decimal("0.005")):
                width //= 2  # the chord is too far from the expectations
                continue
            sums = [t + ((width + 1) * f + (width - 1) * g) / 2 + width * e for t, f, g, e in rows]
            start, width = start + width, 2 * width
            _require(max(sums) <= 0, f"a bound is too small for ranks 1 to {start}")


def parsed(data: bytes) -> Any:
    """The content of a file, if every reader of JSON would find the same in it."""
    return json.loads(
        data.decode("utf-8"),
        object_pairs_hook=_without_duplicates,
        parse_int=_integer,
        parse_float=_refused,
        parse_constant=_refused,
    )


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object. Of two equal keys a person may see the first, and a program the last."""
    found = dict(pairs)
    _require(len(found) == len(pairs))
    return found


def _integer(text: str) -> int:
    _require(text.isascii())
    return int(text)


def _refused(text: str) -> Any:
    raise ValueError(f"{text} is no whole number")


def _require(condition: bool, claim: str = "") -> None:
    if not condition:
        raise RefusedError(claim) if claim else ValueError("the file is not a certificate")


def _require_keys(value: Any, keys: tuple[str, ...]) -> None:
    _require(type(value) is dict and set(value) == set(keys))


def _whole(value: Any) -> int:
    _require(type(value) is int and 0 <= value <= LARGEST)  # True is no number
    return int(value)


def _number(value: Any) -> Decimal:
    _require(bool(re.fullmatch(r"-?[0-9]{1,9}(\.[0-9]{1,18})?", value)))
    return Decimal(value)


def main(*paths: str) -> int:
    """Check a file, print its claim with the file's SHA-256, and return the exit status."""
    if len(paths) != 1:
        print("verify.py needs one file: python verify.py cert.json", file=sys.stderr)
        return 2
    try:
        data = Path(paths[0]).read_bytes()
        content = parsed(data)
        claim = Certificate(content).check()
    except Exception as problem:  # all that a malformed file leads to
        print(f"{type(problem).__name__}: {ascii(str(problem))[1:-1]}", file=sys.stderr)
        return 1 if isinstance(problem, RefusedError) else 2
    print(json.dumps(content["settings"]))
    print(claim)
    print("checked: valid if the counts are genuine and the bets were fixed before the evaluation")
    print(f"sha256 {hashlib.sha256(data).hexdigest()}")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
