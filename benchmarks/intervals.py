"""How often intervals and verdicts are wrong, where the true ranks are chosen to break them.

    python benchmarks/intervals.py --cells [NAME ...] [--logs 600] [--output after.csv]
                                   [--before before.csv]
    python benchmarks/intervals.py --search 300 [--compare] [--logs 600] [--output search.csv]

``--cells`` draws logs of named populations, all or those whose name contains one of the words, and
prints a Markdown table of the logs that missed. ``--search`` tries populations at random with a few
logs each, and draws fresh logs of the 20 that came nearest to a miss; with ``--compare``, pairs of
populations. Lines of a finished cell or population are kept in the file ``--output``, and a run
that is started again with the same seed goes on from there, if it asks for no more logs.

A log is missed if its interval does not hold the exact metric, or if it is refused although the
assumption is true. A pair is missed if it has a verdict that is wrong; one between equal metrics is
wrong, too. The limit is the number of misses that is exceeded in one of 1,000 runs if exactly 5% of
the intervals miss.

Some populations are drawn from anew for each log. In others, the *fixed* ones, all logs
have the same true ranks and each log has other negatives. We fix ranks only where nothing is
assumed, because an assumption is on the population.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pandas as pd
from scipy.stats import binom

from sampled_book.data import benchmark
from sampled_metrics import Protocol, compare, metric, read_log
from sampled_metrics.bounds.assumption import Assumption
from sampled_metrics.bounds.identification import IncompatibleError, interval

CONFIDENCE = 0.95
METRICS = ("recall@1", "recall@10", "ndcg@5", "ndcg@10", "ap", "rr")
#: Logs of each population, or pair, that the search looks at, and how many it draws anew.
FEW_LOGS, FEW_PAIRS, WORST = 30, 12, 20
#: At this confidence more verdicts are wrong, so that a few logs show which pairs are hostile.
ROUGH = 0.6


@dataclass(frozen=True, eq=False)
class Group:
    """Users who share one catalogue size.

    Attributes
    ----------
    n_items, users : int
    ranks : ndarray of int, shape (k,) or (k, 2)
        True ranks that they may have; in two columns those under A and B.
    shares : ndarray of float, shape (k,)
        How many of the users have them; they sum to 1.
    """

    n_items: int
    users: int
    ranks: np.ndarray
    shares: np.ndarray

    def fixed(self) -> np.ndarray:
        """The users at each of the ranks, as whole numbers."""
        upto = np.round(np.cumsum(self.shares) * self.users).astype(int)
        return np.diff(upto, prepend=0)


@dataclass(frozen=True, eq=False)
class Case:
    """A population, how it is sampled, and what is asked and assumed.

    Attributes
    ----------
    assumption : dict, optional
        Arguments of `Assumption`; nothing is assumed if None.
    fixed : bool
        Whether the true ranks are the same in every log.
    overlap : {"nested", "apart", "none"}
        Of a pair: whether A and B are ranked among the same negatives, and then whether the items
        above A's are above B's too, or others as far as possible.
    """

    name: str
    groups: tuple[Group, ...]
    m: int
    metric: str
    assumption: dict[str, Any] | None = None
    replacement: bool = True
    fixed: bool = False
    overlap: str = "none"

    @property
    def shape(self) -> Assumption | None:
        return None if self.assumption is None else Assumption(**self.assumption)

    @property
    def assumed(self) -> str:
        if self.assumption is None:
            return "none"
        if self.assumption.get("geometric"):
            return "geometric"
        steepness = self.assumption.get("steepness")
        head = self.assumption.get("head")
        more = f", at most {steepness:g} times per doubling" if steepness else ""
        return "decreasing" + (f", head {head:g}" if head else "") + more

    @property
    def paired(self) -> bool:
        return self.groups[0].ranks.ndim == 2

    def exact(self) -> np.ndarray:
        """The exact metric of the population, or of the fixed users; of a pair, both."""
        of, total = metric(self.metric), sum(group.users for group in self.groups)
        found: Any = 0.0
        for group in self.groups:
            each = group.fixed() if self.fixed else group.users * group.shares
            found = found + each @ of(group.ranks, n_items=group.n_items) / total
        return np.asarray(found)


# --- drawing --------------------------------------------------------------------------------------


def drawn_counts(case: Case, draws: int, rng: np.random.Generator) -> Iterator[list[np.ndarray]]:
    """Users with 0, 1, ..., m negatives above their item, an array for each group."""
    made: list[Callable[[], np.ndarray]] = []
    for group in case.groups:
        protocol = Protocol(group.n_items, case.m, replacement=case.replacement)
        users = group.fixed() if case.fixed else group.shares
        some = users > 0
        found = np.clip(protocol.pmf(group.ranks[some]), 0.0, None)
        if case.fixed:
            found, each = found / found.sum(axis=1, keepdims=True), users[some]
            made.append(lambda u=each, p=found: rng.multinomial(u, p).sum(axis=0))
        else:
            mixed = users[some] @ found
            mixed /= mixed.sum()
            made.append(lambda u=group.users, p=mixed: rng.multinomial(u, p))
    for _ in range(draws):
        yield [draw() for draw in made]


def negatives_above(
    above: np.ndarray, among: np.ndarray, m: np.ndarray, replacement: bool, rng: np.random.Generator
) -> np.ndarray:
    """How many of the m draws from the items that are left are above the held-out item."""
    if not replacement:
        return rng.hypergeometric(above, among - above, m)
    return rng.binomial(m, np.minimum(above / np.maximum(among, 1), 1.0))


def drawn_pairs(case: Case, draws: int, rng: np.random.Generator) -> Iterator[pd.DataFrame]:
    """The rows of two recommenders, with the number of users who have the same."""
    for _ in range(draws):
        parts = []
        for group in case.groups:
            each = group.fixed() if case.fixed else rng.multinomial(group.users, group.shares)
            above = np.repeat(group.ranks, each, axis=0) - 1
            parts.append(np.column_stack([np.full(len(above), group.n_items), above]))
        n, a, b = np.concatenate(parts).T
        among, m = n - 1, np.full(n.size, case.m)
        if case.overlap == "none":
            x, y = (negatives_above(one, among, m, case.replacement, rng) for one in (a, b))
        else:
            nested = case.overlap == "nested"
            both = np.minimum(a, b) if nested else np.maximum(a + b - among, 0)
            shared = negatives_above(both, among, m, case.replacement, rng)
            m, among = m - shared, among - both
            x = negatives_above(a - both, among, m, case.replacement, rng)
            y = negatives_above(b - both, among - (a - both), m - x, case.replacement, rng)
            x, y = x + shared, y + shared
        rows, users = np.unique(np.column_stack([n, x, y]), axis=0, return_counts=True)
        of = {"user": np.arange(users.size), "n_items": rows[:, 0], "count": users}
        both_of = (("A", rows[:, 1]), ("B", rows[:, 2]))
        yield pd.concat([pd.DataFrame({"recommender": k, "rank": 1 + v, **of}) for k, v in both_of])


# --- judging --------------------------------------------------------------------------------------


def interval_results(case: Case, draws: int, rng: np.random.Generator) -> pd.DataFrame:
    """A row for each log: its interval (empty if refused), and whether that misses."""
    exact, rows = float(case.exact()), []
    protocols = [Protocol(g.n_items, case.m, replacement=case.replacement) for g in case.groups]
    for counts in drawn_counts(case, draws, rng):
        try:
            found = interval(counts, protocols, case.metric, CONFIDENCE, assumption=case.shape)
            rows.append((found.low, found.high))
        except IncompatibleError:
            rows.append((np.nan, np.nan))
    table = pd.DataFrame(rows, columns=["low", "high"])
    table["refused"] = table["low"].isna()
    inside = (table["low"] <= exact + 1e-9) & (table["high"] >= exact - 1e-9)
    return table.assign(missed=~inside, exact=exact)


def comparison_results(
    case: Case, draws: int, rng: np.random.Generator, confidence: float = CONFIDENCE
) -> pd.DataFrame:
    """A row for each pair of logs: the range of the difference, and whether the verdict is wrong.

    A verdict that assumes a gentler fall than the case does is not counted, right or wrong.
    """
    first, second = case.exact()
    gap = first - second
    better = "A beats B" if gap > 1e-9 else "B beats A" if gap < -1e-9 else ""
    most = (case.assumption or {}).get("steepness", np.inf)
    rows = []
    for frame in drawn_pairs(case, draws, rng):
        log = read_log(frame, n_negatives=case.m, replacement=case.replacement)
        try:
            compared = compare(log, case.metric, assumption=case.shape, confidence=confidence)
            found = compared.frame.iloc[0]
        except IncompatibleError:
            rows.append((np.nan, np.nan, False, True, True))
            continue
        decided = "beats" in found["verdict"] and not found["steepness"] < most
        wrong = decided and found["verdict"] != better
        rows.append((found["possible_low"], found["possible_high"], decided, wrong, False))
    table = pd.DataFrame(rows, columns=["low", "high", "decided", "missed", "refused"])
    return table.assign(exact=gap)


def end_margin(table: pd.DataFrame) -> float:
    """How near the exact metric is to an end, in widths: low for a hostile population.

    An end at 0 or 1 does not count, since the exact metric cannot be beyond it. The score is the
    10% quantile over the logs.
    """
    width = np.maximum(table["high"] - table["low"], 1e-9)
    below = (table["exact"] - table["low"]).where(table["low"] > 1e-9, np.inf)
    above = (table["high"] - table["exact"]).where(table["high"] < 1.0 - 1e-9, np.inf)
    margin = np.minimum(below, above) / width
    margin = margin.where(~table["refused"], -10.0).clip(-10.0, 10.0)
    return float(margin.quantile(0.1, interpolation="lower"))


# --- named populations ----------------------------------------------------------------------------


def spikes(n: int, at: dict[int, float]) -> tuple[np.ndarray, np.ndarray]:
    """A few ranks of a catalogue and their shares; ranks beyond its end are its last."""
    ranks = np.minimum(np.array(list(at)), n)
    return ranks, np.array(list(at.values()))


def spread(n: int, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The first ranks of a catalogue with shares in proportion to weights."""
    some = weights[:n]
    return np.arange(1, some.size + 1), some / some.sum()


def partly_deep(
    n: int, head: tuple[np.ndarray, np.ndarray], share: float, last: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """A part of the users at one deep rank, by default the last, and the others as given."""
    ranks, shares = head
    return np.append(ranks, last or n), np.append((1.0 - share) * shares, share)


Ranks = Callable[[int], tuple[np.ndarray, np.ndarray]]


def groups_of(sizes: np.ndarray, users: int, ranks: Ranks) -> tuple[Group, ...]:
    """Users spread evenly over catalogue sizes, which may repeat."""
    each = users // sizes.size + (np.arange(sizes.size) < users % sizes.size)
    kinds, kind = np.unique(sizes, return_inverse=True)
    counts = np.bincount(kind, weights=each).astype(int)
    some = zip(kinds.tolist(), counts.tolist(), strict=True)
    return tuple(Group(n, count, *ranks(n)) for n, count in some if count)


def geometric_sizes(low: int, high: int, many: int) -> np.ndarray:
    return np.geomspace(low, high, many).round().astype(int)


def catalogue_sizes(data: str, users: int = 1_000) -> np.ndarray:
    """The numbers of candidates of evenly chosen users of a data set."""
    n = np.sort(next(iter(benchmark.ranks(data).values())).n_candidates)
    return n[np.round(np.linspace(0, n.size - 1, users)).astype(int)]


def less_histories(n: int = 1_000, users: int = 1_000) -> np.ndarray:
    """A catalogue less users' histories, whose median is 100 and the largest two thirds of it."""
    z = np.sort(np.random.default_rng(1).normal(size=users))
    return n - np.minimum(100 * np.exp(z), 2 * n // 3).round().astype(int)


def cells() -> list[Case]:
    """Hostile populations by name."""
    found: list[Case] = []

    def add(name: str, sizes: Any, users: int, ranks: Ranks, *args: Any, **kwargs: Any) -> None:
        found.append(Case(name, groups_of(np.atleast_1d(sizes), users, ranks), *args, **kwargs))

    def last(n: int) -> tuple[np.ndarray, np.ndarray]:
        return spikes(n, {11: 0.5, n: 0.5})

    wide = geometric_sizes(60, 300, 16)
    for many in (1, 2, 4, 8, 16):
        sizes = geometric_sizes(60, 300, many)
        word = f"{many} sizes from 60 to 300" if many > 1 else "n = 60"
        add(f"all at rank 11, {word}", sizes, 1_000,
            lambda n: spikes(n, {11: 1.0}), 10, "recall@10", fixed=True)  # fmt: skip
    eleven = "all at rank 11, 16 sizes from 60 to 300"
    add(f"{eleven}, 6,000 users", wide, 6_000, lambda n: spikes(n, {11: 1.0}), 10, "recall@10",
        fixed=True)  # fmt: skip
    add(f"{eleven}, distinct negatives", wide, 1_000, lambda n: spikes(n, {11: 1.0}), 10,
        "recall@10", replacement=False, fixed=True)  # fmt: skip
    for fixed in (False, True):
        more = ", fixed" if fixed else ""
        add(f"half at 11, half last, 16 sizes from 60 to 300{more}", wide, 1_000, last, 10,
            "ndcg@10", fixed=fixed)  # fmt: skip
    by_size = {int(n): 11 if i % 2 else int(n) for i, n in enumerate(wide)}
    add("all at 11 in every other of 16 sizes, last in the others", wide, 1_000,
        lambda n: spikes(n, {by_size[n]: 1.0}), 10, "ndcg@10", fixed=True)  # fmt: skip
    add("half at 11, half last, 1,000 items less histories", less_histories(), 1_000, last, 10,
        "ndcg@10")  # fmt: skip
    for data, title in (("ml-100k", "MovieLens 100K"), ("ml-1m", "MovieLens 1M")):
        add(f"half at 11, half last, sizes of {title}", catalogue_sizes(data), 1_000, last, 10,
            "ndcg@10")  # fmt: skip
    for of in ("recall@10", "ndcg@10"):
        for more, drawn in (("", True), (", distinct negatives", False)):
            add(f"half even to rank 5 n/m, half last, 16 sizes from 60 to 300{more}", wide, 1_000,
                lambda n: partly_deep(n, spread(n, np.ones(5 * n // 20)), 0.5), 20, of, {},
                replacement=drawn)  # fmt: skip
        for assumption in (None, {}):
            add("half even to rank 5 n/m, half last, n = 2,000", 2_000, 1_000,
                lambda n: partly_deep(n, spread(n, np.ones(5 * n // 20)), 0.5), 20, of,
                assumption)  # fmt: skip
        add("even over a list of 200, 150 negatives, 100,000 users", 200, 100_000,
            lambda n: spread(n, np.ones(n)), 150, of, {"head": 150.0})  # fmt: skip
    # Most users are just beyond the ranks that the assumption is about.
    for n, m, users in ((1_000_000, 99, 100_000), (60_000, 20, 100_000), (10_000_000, 99, 100_000)):
        beyond = 10 * n // m + 1
        add(f"10% in the first ten, 90% at rank {beyond:,} of {n:,}, {users:,} users", n, users,
            lambda n, r=beyond: partly_deep(n, spread(n, np.ones(10)), 0.9, r), m, "recall@10",
            {})  # fmt: skip
    add("even over 14 full doublings, n = 20,000, 30,000,000 users, distinct negatives", 20_000,
        30_000_000, lambda n: spread(n, np.ones(2**14 - 1)), 10, "recall@10", {"steepness": 1.0},
        replacement=False)  # fmt: skip
    add("halved at each doubling, n = 20,000, 1,000,000 users", 20_000, 1_000_000,
        lambda n: spread(n, 0.5 ** np.floor(np.log2(np.arange(1.0, n + 1)))), 10, "ndcg@10",
        {"steepness": 2.0})  # fmt: skip
    # One size: few users, and many.
    for users in (5, 10, 50, 2_000, 100_000):
        for fixed in (False, True):
            more = ", fixed" if fixed else ""
            add(f"half at 1, half at 11, n = 1,000, {users:,} users{more}", 1_000, users,
                lambda n: spikes(n, {1: 0.5, 11: 0.5}), 100, "recall@10", fixed=fixed)  # fmt: skip
    for n, m, users, at, of in (
        (1_000, 100, 300_000, {11: 0.91, 1: 0.09}, "recall@10"),
        (100, 20, 300_000, {11: 0.43, 5: 0.34, 99: 0.23}, "ndcg@5"),
        (200, 100, 300_000, {5: 0.89, 51: 0.11}, "rr"),
        (1_000, 20, 300_000, {39: 0.97, 1: 0.03}, "ap"),
        (100, 50, 3_000, {1: 0.64, 3: 0.27, 6: 0.09}, "ndcg@10"),
    ):
        text = ", ".join(f"{share:.0%} at {rank}" for rank, share in at.items())
        add(f"{text}, n = {n:,}, {users:,} users", n, users, lambda n, at=at: spikes(n, at), m,
            of)  # fmt: skip
    add("even, n = 1,000, 3,000 users", 1_000, 3_000, lambda n: spread(n, np.ones(n)), 10, "ndcg@5",
        {})  # fmt: skip
    add("even to rank 100, n = 200, 3,000 users, distinct negatives", 200, 3_000,
        lambda n: spread(n, np.ones(100)), 10, "recall@10", {}, replacement=False)  # fmt: skip
    add("shares falling as exp(-.018 r), n = 20,000, 10,000,000 users", 20_000, 10_000_000,
        lambda n: spread(n, np.exp(-0.018 * np.arange(n))), 99, "recall@10",
        {"geometric": True})  # fmt: skip
    add("shares falling as exp(-.018 r), n = 300, 1,000,000 users", 300, 1_000_000,
        lambda n: spread(n, np.exp(-0.018 * np.arange(n))), 5, "recall@10",
        {"geometric": True})  # fmt: skip
    # Pairs: A is never among the first ten, B sometimes is.
    for low, high, m, users, share in ((60, 300, 10, 1_000, 0.02), (300, 3_000, 50, 3_000, 0.002)):
        for many in (16, 1):
            sizes = geometric_sizes(low, high, many) if many > 1 else np.array([high])
            word = f"16 sizes from {low} to {high:,}" if many > 1 else f"{high:,} items"

            def both(n: int, s: float = share) -> tuple[np.ndarray, np.ndarray]:
                return np.array([[11, 1], [11, n]]), np.array([s, 1.0 - s])

            for overlap in ("none", "nested"):
                of = "A at 11, B {:g}% at 1 and the others last, {}, {} negatives"
                own = "own" if overlap == "none" else "shared"
                add(of.format(100 * share, word, own), sizes, users, both, m, "recall@10",
                    overlap=overlap)  # fmt: skip
    return found


# --- tables ---------------------------------------------------------------------------------------


def cell_row(case: Case, draws: int, seed: int) -> dict[str, Any]:
    """The line of the table for one case."""
    rng = np.random.default_rng([seed, crc32(f"{case.name}/{case.metric}/{case.assumed}".encode())])
    table = (comparison_results if case.paired else interval_results)(case, draws, rng)
    return {
        "cell": case.name,
        "assumption": case.assumed,
        "metric": f"compare, {case.metric}" if case.paired else case.metric,
        "m": case.m,
        "logs": draws,
        "missed": int(table["missed"].sum()),
        "refused": int(table["refused"].sum()),
        "limit": int(binom.ppf(0.999, draws, 1.0 - CONFIDENCE)),
        "width": float((table["high"] - table["low"]).mean()),
    }


def finished_rows(output: Path | None) -> pd.DataFrame:
    return pd.read_csv(output) if output and output.exists() else pd.DataFrame()


def append_row(output: Path | None, line: dict[str, Any]) -> None:
    if output:
        new = not output.exists()
        pd.DataFrame([line]).to_csv(output, mode="a", header=new, index=False, float_format="%.6g")


def formatted(value: Any) -> str:
    if isinstance(value, str):
        return value
    if pd.isna(value):
        return ""
    return f"{value:,.0f}" if value == round(value) else f"{value:.4f}"


def markdown(table: pd.DataFrame) -> str:
    """The table as Markdown, with names on the left and numbers on the right."""
    left = {"cell", "assumption", "metric"}
    lines = [list(table.columns), ["---" if c in left else "---:" for c in table.columns]]
    lines += [[formatted(value) for value in values] for values in table.itertuples(index=False)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def before_and_after(table: pd.DataFrame, before: pd.DataFrame) -> pd.DataFrame:
    """The misses and widths of two files, side by side; the limit is for the later one's logs."""
    names = ["cell", "assumption", "metric"]

    def misses(found: pd.DataFrame) -> list[str]:
        return [
            f"{missed} of {logs}" + (f", {refused} refused" if refused else "")
            for missed, logs, refused in zip(
                found["missed"], found["logs"], found["refused"], strict=True
            )
        ]

    earlier = before[[*names, "width"]].assign(before=misses(before))
    later = table[[*names, "m", "limit", "width"]].assign(after=misses(table))
    both = later.merge(earlier, on=names, how="left", suffixes=(" after", " before"))
    both["before"] = both["before"].fillna("")
    return both[[*names, "m", "before", "after", "limit", "width before", "width after"]]


def run_cells(given: argparse.Namespace) -> None:
    done, rows = finished_rows(given.output), []
    for case in cells():
        if given.cells and not any(word in case.name for word in given.cells):
            continue
        of = f"compare, {case.metric}" if case.paired else case.metric
        if len(done):
            same = (done["cell"] == case.name) & (done["metric"] == of)
            same &= (done["assumption"] == case.assumed) & (done["logs"] >= given.logs)
            if same.any():
                rows.append(done[same].iloc[-1].to_dict())
                continue
        start = time.process_time()
        rows.append(cell_row(case, given.logs, given.seed))
        append_row(given.output, rows[-1])
        took = time.process_time() - start
        refused = f" ({rows[-1]['refused']} refused)" if rows[-1]["refused"] else ""
        missed = f"{rows[-1]['missed']} of {given.logs}{refused}"
        print(f"{case.name}, {of}, {case.assumed}: {missed}, {took:.0f} s", flush=True)
    table = pd.DataFrame(rows)
    if given.before:
        table = before_and_after(table, pd.read_csv(given.before))
    print(f"\n{markdown(table)}")


# --- the search -----------------------------------------------------------------------------------


def random_rank(rng: np.random.Generator, n: int) -> int:
    """A rank, often one where a metric begins or ends."""
    special = [1, 2, 5, 6, 10, 11, max(n // 2, 1), n]
    found = rng.choice(special) if rng.random() < 0.6 else np.exp(rng.uniform(0.0, np.log(n)))
    return int(min(max(found, 1), n))


def random_ranks(rng: np.random.Generator) -> tuple[str, Ranks]:
    """True ranks of which nothing is assumed, and what they are called."""
    kind = str(rng.choice(["spikes", "spikes", "even", "power", "geometric", "relative"]))
    many, seed, where = int(rng.choice([1, 2, 2, 3, 5])), int(rng.integers(2**31)), rng.random()
    power, rate = rng.uniform(0.2, 3.0), np.exp(rng.uniform(np.log(1e-3), np.log(2.0)))
    share = rng.dirichlet(np.ones(many))

    def made(n: int) -> tuple[np.ndarray, np.ndarray]:
        same = np.random.default_rng(seed)  # as far as the size of the catalogue allows
        if kind == "even":
            return spread(n, np.ones(max(1, int(n**where))))
        if kind == "power":
            return spread(n, np.arange(1.0, n + 1) ** -power)
        if kind == "geometric":
            return spread(n, np.exp(-rate * np.arange(n)))
        if kind == "relative":
            return np.maximum(1, (n * same.random(many) ** 3).astype(int)), share
        return np.array([random_rank(same, n) for _ in range(many)]), share

    ranks, shares = made(200)
    if kind in ("spikes", "relative"):
        at = ", ".join(f"{p:.2f} at {r}" for r, p in zip(ranks, shares, strict=True))
        return f"{at} of 200", made  # other sizes have others
    number = {"even": where, "power": power, "geometric": rate}[kind]
    return f"{kind} {number:.3g}", made


def random_ranks_of_shape(rng: np.random.Generator, m: int, steepness: float) -> tuple[str, Ranks]:
    """True ranks that are decreasing near the top, and not too steep."""
    ends, few = rng.random(int(rng.integers(1, 5))), rng.dirichlet(np.ones(4))
    falls = np.where(rng.random(40) < 0.5, 1.0 / steepness, 1.0)
    beyond = rng.uniform(0.0, 0.95) if rng.random() < 0.6 else 0.0
    place, last = str(rng.choice(["next", "last", "random"])), rng.random()

    def made(n: int) -> tuple[np.ndarray, np.ndarray]:
        head = min(int(Assumption().head * n / m), n)
        if head < 2:  # nothing is assumed
            return spread(n, np.ones(1))
        if np.isfinite(steepness):  # even within each doubling
            doublings = np.floor(np.log2(np.arange(1.0, head + 1))).astype(int)
            weights = np.cumprod(falls)[doublings]
            if last < 0.5:  # nobody in the doubling that the head cuts off
                full = 2 ** int(np.log2(head + 1)) - 1
                weights = np.where(np.arange(head) < full, weights, 0.0)
        else:
            weights = np.zeros(head)
            for end, share in zip(ends, few, strict=False):
                at = max(1, round(head**end)) if end < 0.8 else head
                weights[:at] += share / at
        found = spread(n, weights)
        if head == n or not beyond:
            return found
        deep = {"next": head + 1, "last": n, "random": head + 1 + int(last * (n - head - 1))}
        return partly_deep(n, found, beyond, deep[place])

    kind = "steps of doublings" if np.isfinite(steepness) else f"{ends.size} even lists"
    return f"{kind}, {beyond:.2f} {place}", made


def moved_deep(found: tuple[np.ndarray, np.ndarray], n: int, m: int, share: float) -> Any:
    """Some users moved as deep as every assumption allows: the last rank, or all of the list."""
    ranks, shares = found
    head = min(int(Assumption().head * n / m), n)
    deep = np.arange(1, n + 1) if head == n else np.array([n])
    return np.append(ranks, deep), np.append((1.0 - share) * shares, share / deep.size + 0 * deep)


def coupled(first: Any, second: Any, order: str) -> tuple[np.ndarray, np.ndarray]:
    """Ranks under A and B of users in the same order, in the opposite one, or half of each."""
    if order == "half":
        both = [coupled(first, second, one) for one in ("same", "opposite")]
        return np.concatenate([r for r, _ in both]), 0.5 * np.concatenate([p for _, p in both])
    ends, sorted_ranks = [], []
    for sign, (ranks, shares) in ((1, first), (-1 if order == "opposite" else 1, second)):
        way = np.argsort(sign * ranks, kind="stable")
        ends.append(np.minimum(np.cumsum(shares[way]) / shares.sum(), 1.0))
        sorted_ranks.append(ranks[way])
    upto = np.unique(np.append(np.concatenate(ends), 1.0))
    shares = np.diff(upto, prepend=0.0)
    middle = upto - 0.5 * shares
    at = [np.minimum(np.searchsorted(end, middle), end.size - 1) for end in ends]
    return np.column_stack([r[k] for r, k in zip(sorted_ranks, at, strict=True)]), shares


def random_case(rng: np.random.Generator, paired: bool) -> Case:
    """A population, or two, with all that is asked of it; the assumption is true."""
    many = int(rng.choice([1, 1, 1, 2, 2, 4, 8, 16, 32]))
    low = np.exp(rng.uniform(np.log(20), np.log(2_000)))
    high = min(low * np.exp(rng.uniform(0.0, np.log(50))), 30_000)
    sizes = np.geomspace(low, high, many)
    sizes = np.unique(sizes.round().astype(int))
    replacement = bool(rng.random() < 0.6)
    m = max(1, round(np.exp(rng.uniform(0.0, np.log(200)))))
    m = m if replacement else min(m, int(sizes[0]) - 2)
    users = round(np.exp(rng.uniform(np.log(5), np.log(20_000 if paired else 300_000))))
    share = np.ones(sizes.size) if rng.random() < 0.6 else rng.dirichlet(np.ones(sizes.size))
    each = np.maximum((users * share / share.sum()).round().astype(int), 1)
    assumption = [None, None, {}, {"steepness": 2.0}][int(rng.integers(4))]
    fixed = assumption is None and bool(rng.random() < 0.5)
    kinds = 1 if rng.random() < 0.7 else sizes.size  # alike in all sizes, or not
    of, overlap = str(rng.choice(METRICS)), str(rng.choice(["none", "nested", "apart"]))
    order, equal = str(rng.choice(["same", "opposite", "half"])), bool(rng.random() < 0.6)

    def one() -> tuple[str, list[tuple[np.ndarray, np.ndarray]]]:
        if assumption is None:
            made = [random_ranks(rng) for _ in range(kinds)]
        else:
            steepness = assumption.get("steepness", np.inf)
            made = [random_ranks_of_shape(rng, m, steepness) for _ in range(kinds)]
        found = [made[i % kinds][1](int(n)) for i, n in enumerate(sizes)]
        return made[0][0] + (f" and {kinds - 1} others" if kinds > 1 else ""), found

    def case(name: str, ranks: list[Any], many: bool = False) -> Case:
        groups = [Group(int(n), int(u), *r) for n, u, r in zip(sizes, each, ranks, strict=True)]
        return Case(name, tuple(groups), m, of, assumption, replacement, fixed and many, overlap)

    text, ranks = one()
    if paired:
        other, below = one()
        exact = [float(case("", each_one).exact()) for each_one in (ranks, below)]
        if exact[0] > exact[1]:
            text, other, ranks, below, exact = other, text, below, ranks, exact[::-1]
        if equal:  # B, the better one, is made as bad as A
            deep = [moved_deep(r, int(n), m, 1.0) for n, r in zip(sizes, below, strict=True)]
            least = float(case("", deep).exact())
            gap = exact[1] - least
            part = min(max((exact[1] - exact[0]) / gap, 0.0), 1.0) if gap > 1e-12 else 0.0
            below = [moved_deep(r, int(n), m, part) for n, r in zip(sizes, below, strict=True)]
            other += ", made equal"
        ranks = [coupled(a, b, order) for a, b in zip(ranks, below, strict=True)]
        text = f"A {text}; B {other}; {order} order, {overlap} overlap"
    size = f"n {sizes[0]}" + (f" to {sizes[-1]} ({sizes.size})" if sizes.size > 1 else "")
    ways = (", distinct" if not replacement else "") + (", fixed" if fixed else "")
    return case(f"{size}, m {m}, {each.sum()} users{ways}: {text}", ranks, True)


def run_search(given: argparse.Namespace) -> None:
    done = finished_rows(given.output)
    scores = dict(zip(done["number"], done["score"], strict=True)) if len(done) else {}
    paired, total = given.compare, time.process_time()
    for i in range(given.search):
        if i in scores:
            continue
        start = time.process_time()
        case = random_case(np.random.default_rng([given.seed, i, paired]), paired)
        rng = np.random.default_rng([given.seed, i, paired, 1])
        if paired:
            table = comparison_results(case, FEW_PAIRS, rng, ROUGH)
            scores[i] = 1e-3 * end_margin(table) - float(table["missed"].mean())
        else:
            table = interval_results(case, FEW_LOGS, rng)
            scores[i] = end_margin(table)
        line = {"number": i, "score": scores[i], "missed": int(table["missed"].sum())}
        line |= {
            "seconds": time.process_time() - start,
            "assumption": case.assumed,
            "metric": case.metric,
        }
        append_row(given.output, {**line, "population": case.name})
        if i % 20 == 19:
            took = time.process_time() - total
            print(f"{i + 1} of {given.search} populations, {took:.0f} s", flush=True)
    worst = sorted((score, i) for i, score in scores.items() if i < given.search)[:WORST]
    again = given.output and given.output.with_suffix(".worst.csv")
    before, rows = finished_rows(again), []
    for _, i in worst:
        if len(before) and ((before["number"] == i) & (before["logs"] >= given.logs)).any():
            rows.append(before[before["number"] == i].iloc[-1].to_dict())
            continue
        case = random_case(np.random.default_rng([given.seed, i, paired]), paired)
        rows.append({"number": i, **cell_row(case, given.logs, given.seed + 1)})
        append_row(again, rows[-1])
        print(f"number {i}: {rows[-1]['missed']} of {given.logs}", flush=True)
    table = pd.DataFrame(rows)
    print(f"\n{markdown(table)}")
    print(f"\n{(table['missed'] > table['limit']).sum()} of {len(table)} are above the limit")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--cells", nargs="*", metavar="NAME", help="named populations")
    what.add_argument("--search", type=int, metavar="N", help="populations at random")
    parser.add_argument("--compare", action="store_true", help="search pairs of populations")
    parser.add_argument("--logs", type=int, default=600, help="fresh logs of each population")
    parser.add_argument("--output", type=Path, help="file to keep lines in, and to go on from")
    parser.add_argument("--before", type=Path, help="such a file of an earlier version's cells")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    if given.search:
        run_search(given)
    else:
        run_cells(given)


if __name__ == "__main__":
    main()
