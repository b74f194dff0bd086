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
from decimal import MAX_EMAX, MIN_EMIN, ROUND_CEILING, ROUND_FLOOR, Context, Decimal, localcontext
from functools import lru_cache
from itertools import accumulate
from operator import add, mul
from pathlib import Path
from typing import Any

UP = Context(prec=30, rounding=ROUND_CEILING, Emin=MIN_EMIN, Emax=MAX_EMAX)
DOWN = Context(prec=30, rounding=ROUND_FLOOR, Emin=MIN_EMIN, Emax=MAX_EMAX)
ZERO, FORMAT = Decimal(0), "sampled-metrics certificate 1"
TINY = Decimal("1e-25")  # more than the rounding, in any direction, of logarithms and powers
KEYS = "recommenders metric k n_items n_negatives replacement confidence alpha decreasing_to_rank"


class RefusedError(Exception):
    """A claim of the certificate does not hold."""


class Certificate:
    """A certificate from JSON; ValueError or the like if it is malformed."""

    def __init__(self, content: Any) -> None:
        values = [content["settings"][key] for key in KEYS.split(" ")]
        names, self.kind, k, self.n, self.m, self.replacement, *numbers, self.top = values
        self.name, self.is_pair = " less that of ".join(names), len(names) == 2
        _require((content["format"], len(content), len(content["settings"])) == (FORMAT, 6, 9))
        self.counts, self.k = content["counts"], self.n if k is None else k
        whole = [self.n, self.m, self.top, self.k, *(each for row in self.counts for each in row)]
        _require(all(type(each) is int and 0 <= each <= 10**9 for each in whole))
        own = ("auc", "accuracy") if k is None else ("precision", "recall", "hit")
        _require(self.replacement is True or (self.replacement is False and 0 < self.m < self.n))
        _require(self.kind in ("ap", "ndcg", "rr", *own) and self.top <= self.n >= 2 and self.k > 0)
        self.pool, self.last = self.n - 1, 1 if self.kind == "accuracy" else min(self.k, self.n)
        self.users, sizes = sum(row[-1] for row in self.counts), {len(row) for row in self.counts}
        _require(sizes == {5 if self.is_pair else 3} and 0 < len(names) <= 2 and self.users > 0)
        _require(all(sum(row[:2]) <= self.m >= sum(row[-3:-1]) for row in self.counts))
        self.confidence, self.alpha, self.low, self.high = map(_number, numbers + content["range"])
        sign, bets, places = {"low": 1, "high": -1}, content["bets"], range(self.m - 1)
        self.bets = [(sign[b["end"]], _number(b["slope"]), _number(b["bound"])) for b in bets]
        self.functions = functions = [[*map(_number, bet["function"])] for bet in bets]
        _require({len(h) for h in functions} == {self.m + 1} and self.low <= self.high)
        bends = [[abs(h[x] - 2 * h[x + 1] + h[x + 2]) for x in places] for h in functions]
        self.bends = [[*accumulate(bend[::-1], max)][::-1] for bend in bends]  # at a place or later
        self.stakes = [(_number(w), _number(d), indices) for w, d, indices in content["stakes"]]
        self.means = lru_cache(1 << 14)(self._means)

    def metric(self, above: int, context: Context) -> Decimal:
        """The metric of an item with so many items above it, rounded as `context` says."""
        rank, tiny = above + 1, TINY if context is UP else -TINY
        with localcontext(context):
            if self.kind == "auc" or rank > self.last:
                return Decimal(self.pool - above) / self.pool if self.kind == "auc" else ZERO
            if self.kind == "ndcg" and rank > 1:
                return (Decimal(2).ln() + tiny) / (Decimal(rank + 1).ln() - tiny)
            return 1 / Decimal({"ap": rank, "rr": rank, "precision": self.k}.get(self.kind, 1))

    def _means(self, above: int, less: int) -> list[Decimal]:
        """Upper bounds of expected functions or, with `less` = 2 draws less, of bends; in UP."""
        functions, m = self.bends if less else self.functions, max(self.m - less, 0)
        back, pool = self.replacement, self.pool - less * (not self.replacement)
        first = m * (above == pool) if back else max(0, m - pool + above)
        pmf = [Decimal(1)]  # up to a factor, with relative errors far below 1e-15
        for x in range(first, m):
            more, fewer = (above, pool - above) if back else (above - x, pool - above - m + x + 1)
            pmf.append(pmf[-1] * ((m - x) * more) / ((x + 1) * fewer))
        total = sum(pmf) * (1 - Decimal("1e-15"))
        return [sum(map(mul, pmf, h[first:]), ZERO) / total for h in functions]

    def expected(self, above: int) -> list[Decimal]:
        """By how much each bet's expectation exceeds its bound; in context UP."""
        metric = {1: -self.metric(above, DOWN), -1: self.metric(above, UP)}
        rows = zip(self.means(above, 0), self.bets, strict=True)
        return [mean - y + slope * metric[sign] for mean, (sign, slope, y) in rows]

    def excess(self, start: int, stop: int) -> list[Decimal]:
        """Bound of `expected` less its chord. E[h] bends m (m - 1) / pool^2 times E[bend of h]."""
        width, pairs = stop - start, self.pool * (self.pool - (not self.replacement))
        scale = Decimal(self.m * (self.m - 1)) / pairs * width**2 / 8
        drop = self.metric(start, UP) - self.metric(start + 1, DOWN)  # the metric is convex
        drop = (drop - self.metric(stop - 1, DOWN) + self.metric(stop, UP)) * width / 4
        rows = zip(self.means(start, 2), self.bets, strict=True)
        return [scale * bend + drop * slope for bend, (_, slope, _) in rows]

    def check(self) -> str:
        """The claim, or RefusedError; extreme values need no wealth."""
        _require(0 < 2 * self.alpha <= 1 - self.confidence < 1, "alpha is too large")
        _require(min(map(min, self.functions)) > 0, "a function is not positive")
        worst, best = self.metric(self.pool, DOWN), self.metric(0, UP)
        least, most = DOWN.fma(-self.is_pair, best, worst), UP.fma(-self.is_pair, worst, best)
        is_low = self.low <= least or self._wealth(1, self.low) >= 1
        is_high = self.high >= most or self._wealth(-1, self.high) >= 1
        _require(is_low and is_high, f"wealth below 1 / alpha: low {is_low}, high {is_high}")
        with localcontext(UP):
            self._check_averages()
            self._check_ranks(self.top, self.last - 1)  # no chord crosses the cut-off
            self._check_ranks(max(self.top, self.last), self.pool)
        ends, confidence = f"{self.low:f} to {self.high:f}", (100 * self.confidence).normalize()
        return f"the metric of {self.name} is in {ends}, with {confidence:f}% confidence"

    def _wealth(self, side: int, end: Decimal) -> Decimal:
        """Lower bound of alpha times the wealth on one side, against a mean metric of `end`."""
        wealth = weights = ZERO
        for weight, less, indices in self.stakes:
            signs, slopes, bounds = zip(*(self.bets[index] for index in indices), strict=True)
            if signs != ((side, -side) if self.is_pair else (side,)):
                continue  # this bet is on the other end
            scales = slopes[::-1] if self.is_pair else [1]
            with localcontext(UP):
                mean = sum(map(mul, scales, bounds), side * end * slopes[0] * scales[0] - less)
                weights, largest = weights + weight, mean**self.users * (1 + TINY)
            with localcontext(DOWN):
                lows = (min(self.functions[index]) for index in indices)
                least = min(mean, sum(map(mul, scales, lows), -less))
                _require(least > 0 <= min(weight, *slopes) and weights <= 1, "a stake is invalid")
                gain = self.alpha * weight / largest
                for *ranks, users in self.counts:
                    values = map(self._value, indices, ranks[::2], ranks[1::2])
                    gain *= sum(map(mul, scales, values), -less) ** users * (1 - TINY)
                wealth += gain
        return wealth

    def _value(self, index: int, above: int, tied: int) -> Decimal:
        """A bet's value for a user; ties are broken at random, or several may be of one item."""
        values = self.functions[index][above : above + tied + 1]
        return min(values) if self.replacement and tied > 1 else sum(values, ZERO) / len(values)

    def _check_ranks(self, first: int, last: int) -> None:
        """The inequality with each of `first` to `last` items above; in context UP."""
        runs = [(first, last)] if first <= last else []
        while runs:
            start, stop = runs.pop()
            ends = [*map(max, self.expected(start), self.expected(stop))]
            _require(max(ends) <= 0, f"a bound is too small at rank {start + 1} or {stop + 1}")
            if stop > start + 1 and max(map(add, ends, self.excess(start, stop))) > 0:
                runs += [(start, (start + stop) // 2), ((start + stop) // 2, stop)]

    def _check_averages(self) -> None:
        """The inequality on average over ranks 1 to j, for each j up to the top; in context UP."""
        start, width, sums = 0, 1, [ZERO] * len(self.bets)
        while start < self.top:
            until = self.last - 1 if start < self.last else self.pool
            width = max(1, min(width, self.top - start, until - start))
            stop = self.expected(min(start + width, self.pool))
            excess = self.excess(start, start + width) if width > 1 else [ZERO] * len(sums)
            rows = [*zip(sums, self.expected(start), stop, excess, strict=True)]
            most = max(total + width * (max(f, g, ZERO) + e) for total, f, g, e in rows)
            if width > 1 and (most > 0 or max(excess) * self.users > Decimal("0.005")):
                width //= 2  # the chord is too far from the expectations
                continue
            sums = [t + ((width + 1) * f + (width - 1) * g) / 2 + width * e for t, f, g, e in rows]
            start, width = start + width, 2 * width
            _require(max(sums) <= 0, f"a bound is too small for ranks 1 to {start}")


def _require(condition: bool, claim: str = "") -> None:
    if not condition:
        raise RefusedError(claim) if claim else ValueError("the file is not a certificate")


def _number(value: Any) -> Decimal:
    _require(bool(re.fullmatch(r"-?[0-9]{1,9}(\.[0-9]{1,18})?", value)))
    return Decimal(value)


def main(path: str) -> int:
    """Check a file, print its claim with a digest, and return the exit status."""
    try:
        content = json.loads(Path(path).read_text("utf-8"))
        claim = Certificate(content).check()
    except Exception as problem:  # all that a malformed file leads to
        print(f"{type(problem).__name__}: {problem}", file=sys.stderr)
        return 1 if isinstance(problem, RefusedError) else 2
    digest = hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode())
    print(f"{json.dumps(content['settings'])}\n{claim}")
    print("checked: a proof, valid if the counts are genuine and the bets were fixed beforehand")
    print(f"sha256 {digest.hexdigest()}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
