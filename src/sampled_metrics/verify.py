"""Check the certificate of a range: ``python verify.py cert.json``, with nothing else installed.

Exit status 0: proved; 1: a claim does not hold; 2: malformed. Decimals are rounded outwards.
Proof. A bet is a function h > 0 of the sampled rank x. Its certificate y and slope s satisfy

    E[h(x) | r] <= y + s M(r)    (for bets on the low end; y - s M(r) for the high end)

at each true rank r; or, if ranks are assumed to decrease down to rank L, on average over the ranks
1 to j for each j <= L, and at each r > L. If the mean metric of N users is at most c, the product
over users of h(x) / (y + s c) has an expectation of at most 1, by the inequality of arithmetic and
geometric means. So has the wealth: a sum of such products with weights that sum to at most 1. By
Markov's inequality it reaches 1 / alpha with a probability of at most alpha.
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
TINY = Decimal("1e-25")  # more than the rounding, to the nearest, of logarithms and exponentials
KEYS = "recommender metric k n_items n_negatives replacement confidence alpha decreasing_to_rank"


class RefusedError(Exception):
    """A claim of the certificate does not hold."""


class Certificate:
    """A certificate from JSON; ValueError or the like if it is malformed."""

    def __init__(self, content: Any) -> None:
        named, keys = content["settings"], "format settings counts range bets"
        _require(content["format"] == FORMAT and content.keys() == {*keys.split(" ")})
        values = [named[key] for key in KEYS.split(" ")]
        name, self.kind, k, self.n, self.m, self.replacement, *numbers, self.top = values
        _require(len(named) == len(values) and type(name) is str)
        self.counts, self.k = content["counts"], self.n if k is None else k
        whole = [self.n, self.m, self.top, self.k, *(each for row in self.counts for each in row)]
        _require(all(type(each) is int and 0 <= each <= 10**9 for each in whole))
        _require(type(self.replacement) is bool and self.top <= self.n >= 2)
        _require(0 < self.m <= (10**9 if self.replacement else self.n - 1))
        plain, cut = ("auc", "accuracy"), ("precision", "recall", "hit")
        _require(self.kind in ("ap", "ndcg", "rr", *(plain if k is None else cut)) and self.k > 0)
        self.pool, self.last = self.n - 1, 1 if self.kind == "accuracy" else min(self.k, self.n)
        self.confidence, self.alpha = map(_number, numbers)
        self.users = sum(users for _, _, users in self.counts)
        self.low, self.high = map(_number, content["range"])
        sign, names = {"low": 1, "high": -1}, ("weight", "slope", "bound")
        self.bets, self.functions, self.bends = list[Any](), list[Any](), list[Any]()
        for bet in content["bets"]:
            self.bets.append((sign[bet["end"]], *(_number(bet[name]) for name in names)))
            h = [*map(_number, bet["function"])]
            bends = [abs(h[x] - 2 * h[x + 1] + h[x + 2]) for x in range(self.m - 1)]
            self.functions.append(h)
            self.bends.append([*accumulate(bends[::-1], max)][::-1])  # at a place or later
        _require(self.users > 0 and all(row[0] + row[1] <= self.m for row in self.counts))
        _require({len(h) for h in self.functions} == {self.m + 1})
        self.expected, self.bend = (lru_cache(1 << 14)(f) for f in (self._expected, self._bend))

    def metric(self, above: int, context: Context) -> Decimal:
        """The metric of an item with so many items above it, rounded as `context` says."""
        rank, tiny = above + 1, TINY if context is UP else -TINY
        with localcontext(context):
            if self.kind == "auc" or rank > self.last:
                return Decimal(self.pool - above) / self.pool if self.kind == "auc" else ZERO
            if self.kind == "ndcg" and rank > 1:
                return (Decimal(2).ln() + tiny) / (Decimal(rank + 1).ln() - tiny)
            return 1 / Decimal({"ap": rank, "rr": rank, "precision": self.k}.get(self.kind, 1))

    def _means(self, functions: list[Any], above: int, m: int, pool: int) -> list[Decimal]:
        """Upper bounds of expected functions of how many of m draws are above; in context UP."""
        first, last, back = max(0, m - pool + above), min(m, above), self.replacement
        if back:
            first, last = m * (above == pool), m * (above > 0)
        pmf = [Decimal(1)]  # up to a factor, with relative errors far below 1e-15
        for x in range(first, last):
            more, fewer = (above, pool - above) if back else (above - x, pool - above - m + x + 1)
            pmf.append(pmf[-1] * ((m - x) * more) / ((x + 1) * fewer))
        total = sum(pmf) * (1 - Decimal("1e-15"))
        return [sum(map(mul, pmf, h[first : last + 1]), ZERO) / total for h in functions]

    def _expected(self, above: int) -> list[Decimal]:
        """By how much each bet's expectation exceeds its bound; in context UP."""
        means = self._means(self.functions, above, self.m, self.pool)
        metric = {1: -self.metric(above, DOWN), -1: self.metric(above, UP)}
        rows = zip(means, self.bets, strict=True)
        return [mean - y + slope * metric[sign] for mean, (sign, _, slope, y) in rows]

    def _bend(self, above: int) -> list[Decimal]:
        """How curved each expectation is, from this rank on: its second difference is m (m - 1) /
        pool^2 times the expectation, with two draws less, of that of h; in context UP.
        """
        m, removed = self.m, 0 if self.replacement else 1
        scale = Decimal(m * (m - 1)) / (self.pool * (self.pool - removed))
        means = self._means(self.bends, above, max(m - 2, 0), self.pool - 2 * removed)
        return [scale * mean for mean in means]

    def excess(self, start: int, stop: int) -> list[Decimal]:
        """How far `expected` may be from its chord, the metric being convex; in context UP."""
        width = stop - start
        drop = self.metric(start, UP) - self.metric(start + 1, DOWN)
        drop = (drop - self.metric(stop - 1, DOWN) + self.metric(stop, UP)) * width / 4
        rows = zip(self.bend(start), self.bets, strict=True)
        return [c * width**2 / 8 + drop * s for c, (_, _, s, _) in rows]

    def check(self) -> None:
        """Raise RefusedError unless the range is proved; extreme values need no wealth."""
        is_valid = 0 < 2 * self.alpha <= 1 - self.confidence < 1 and 0 <= self.low <= self.high
        _require(is_valid, "alpha is too large for the confidence, or the range is empty")
        _require(min(map(min, self.functions)) > 0, "a function is not positive")
        _require(min(min(bet[1:3]) for bet in self.bets) >= 0, "a weight or a slope is negative")
        is_low = self.low <= self.metric(self.pool, DOWN) or self._wealth(1, self.low) >= 1
        is_high = self.high >= self.metric(0, UP) or self._wealth(-1, self.high) >= 1
        _require(is_low and is_high, f"wealth below 1 / alpha: low {is_low}, high {is_high}")
        with localcontext(UP):
            self._check_averages()
            self._check_ranks(self.top, self.last - 1)  # no chord crosses the cut-off
            self._check_ranks(max(self.top, self.last), self.pool)

    def _wealth(self, side: int, end: Decimal) -> Decimal:
        """Lower bound of alpha times the wealth on one side, against a mean metric of `end`."""
        total = weights = ZERO
        for (sign, weight, slope, y), h in zip(self.bets, self.functions, strict=True):
            with localcontext(UP):
                mean, weights = y + sign * slope * end, weights + (sign == side) * weight
            _require(mean > 0 and weights <= 1, "weights exceed 1, or a mean is negative")
            with localcontext(DOWN):
                log = -self.users * (mean.ln() + TINY)
                for above, tied, users in self.counts:
                    # Ties are broken at random; with replacement several may be copies of one item.
                    values, is_mean = h[above : above + tied + 1], tied < 2 or not self.replacement
                    value = sum(values, ZERO) / len(values) if is_mean else min(values)
                    log += users * (value.ln() - TINY)
                total += (sign == side) * self.alpha * weight * (log - TINY).exp()
        return total

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
    """Check a file, print what it proves with a digest, and return the exit status."""
    try:
        content = json.loads(Path(path).read_text("utf-8"))
        Certificate(content).check()
    except Exception as problem:  # all that a malformed file leads to
        print(f"{type(problem).__name__}: {problem}", file=sys.stderr)
        return 1 if isinstance(problem, RefusedError) else 2
    digest = hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode())
    print(f"{json.dumps(content['settings'])}\nthe metric is in {' to '.join(content['range'])}")
    print("proved: valid if the counts are genuine and the bets were fixed beforehand")
    print(f"sha256 {digest.hexdigest()}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
