"""How often the default ranges hold the exact metric, in simulated logs.

    python benchmarks/default_intervals.py [--logs 200] [--output benchmarks/default_intervals.csv]

Populations are real recommenders of the benchmark, scaled to one catalogue size, and others that
are made to break a range. A log has 1,000 users drawn from the population, each with 100 negatives
with replacement. The range should hold the exact metric of the population; we also count how
often it holds the average over the log's own users. A log that is unlike the benchmark's has no
typical range. The file has a line for each range in each population: how many logs have it, and
the numbers of those that missed either. `tests/sampled_book/test_promises.py` holds the table of
the page "Decide and report" against it, and draws some logs again.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import numpy as np
import pandas as pd

import sampled_metrics as sm
from sampled_book.data import benchmark

FILE = Path(__file__).with_name("default_intervals.csv")
USERS, NEGATIVES, SEED = 1_000, 100, 1
METRIC = "ndcg@10"
#: The ranges, as the page names them.
NOTHING, DECREASING = "NDCG@10, whatever the ranks", "NDCG@10, if deeper ranks have fewer users"
TYPICAL = "NDCG@10, typical"
STUDENT, BET = "difference in AUC, large sample", "difference in AUC, whatever the ranks"
WHOSE = ("population", "own users")


class Population(NamedTuple):
    """Users who each have a true rank by A and, of a pair, by B; shape (k, 1) or (k, 2)."""

    name: str
    kind: str
    n_items: int
    ranks: np.ndarray


def real(data: str, *names: str) -> Population:
    intervals = benchmark.ranks(data)
    n_items = round(float(intervals[names[0]].n_candidates.mean()))
    columns = []
    for name in names:
        part = intervals[name]
        above = (part.n_better + part.n_tied / 2) / np.maximum(part.n_candidates - 1, 1)
        columns.append(1 + np.rint((n_items - 1) * above).astype(np.int64))
    return Population(f"{' and '.join(names)}, {data}", "real", n_items, np.column_stack(columns))


def populations() -> Iterator[Population]:
    """Single recommenders, then pairs, for which the range of the difference in AUC is counted."""
    data = ("ml-100k", "lastfm", "ml-1m", "beauty", "sports")
    yield from map(real, data, ("EASE", "Recent cosine", "BPR", "Markov chain", "ALS"))
    n = 2_000
    shapes = {
        "all at rank 11": [11],
        "half at 11, half last": [11, n],
        "even to rank 100, half last": [*range(1, 101), *[n] * 100],
        "even to rank 200": range(1, 201),
    }
    for name, ranks in shapes.items():
        kind = "hostile, decreasing" if name.startswith("even") else "hostile, not decreasing"
        yield Population(name, kind, n, np.array(ranks)[:, np.newaxis])
    yield real("ml-100k", "EASE", "Item cosine")
    yield real("beauty", "Markov chain", "BPR")
    first, last = np.ones(500, dtype=np.int64), np.r_[n, np.ones(499, dtype=np.int64)]
    pair = np.column_stack([first, last])
    yield Population("both first, but B last for one in 500", "hostile", n, pair)
    pair = np.column_stack([np.full(20, 500), np.r_[n, np.full(19, 500)]])
    yield Population("both at rank 500, but B last for one in 20", "hostile", n, pair)


def held(population: Population, number: int) -> list[tuple[str, bool, bool]]:
    """Of one log: each range, and whether it holds the population's metric and its own users'."""
    rng = np.random.default_rng([SEED, number, crc32(population.name.encode())])
    own = population.ranks[rng.integers(len(population.ranks), size=USERS)]
    protocol = sm.Protocol(population.n_items, NEGATIVES)
    pairs = zip("AB"[: own.shape[1]], own.T, strict=True)
    table = pd.DataFrame({name: protocol.draw(ranks, rng) for name, ranks in pairs})
    rows = table.melt(var_name="recommender", value_name="rank", ignore_index=False)
    sizes = {"n_items": population.n_items, "n_negatives": NEGATIVES}
    log = sm.read_log(rows.reset_index(names="user"), **sizes, replacement=True)
    is_pair = own.shape[1] == 2
    metric = sm.metric("auc" if is_pair else METRIC)
    exact = [metric(ranks, population.n_items).mean(axis=0) for ranks in (population.ranks, own)]
    if is_pair:
        row = sm.compare(log, metric).frame.iloc[0]
        ranges = {BET: (row, "possible"), STUDENT: (row, "student")}
        exact = [means[0] - means[1] for means in exact]
    else:
        row = sm.estimate(log, [metric]).frame.iloc[0]
        free = sm.estimate(log, [metric], assumption=None).frame.iloc[0]
        ranges = {NOTHING: (free, "possible"), DECREASING: (row, "possible")}
        if not np.isnan(row["typical_low"]):  # where the track record covers the log
            ranges[TYPICAL] = (row, "typical")
        exact = [float(means[0]) for means in exact]
    found = []
    for name, (columns, kind) in ranges.items():
        low, high = columns[f"{kind}_low"] - 1e-9, columns[f"{kind}_high"] + 1e-9
        found.append((name, bool(low <= exact[0] <= high), bool(low <= exact[1] <= high)))
    return found


def measured(population: Population, logs: int) -> pd.DataFrame:
    """A line for each range: the logs that missed the population's metric, and the users' own."""
    rows = [(number, *row) for number in range(logs) for row in held(population, number)]
    lines = []
    table = pd.DataFrame(rows, columns=["log", "range", *WHOSE])
    for name, part in table.groupby("range", sort=False):
        missed = {f"missed, {w}": " ".join(map(str, part.loc[~part[w], "log"])) for w in WHOSE}
        line = {"range": name, "users drawn from": population.name, "kind": population.kind}
        lines.append(line | {"logs": len(part)} | missed)
    return pd.DataFrame(lines)


def shares(lines: pd.DataFrame) -> pd.DataFrame:
    """The coverage of each line, from the logs that missed."""
    missed = {w: lines[f"missed, {w}"].fillna("").astype(str).str.split().str.len() for w in WHOSE}
    return lines.assign(**{w: 1 - count / lines["logs"] for w, count in missed.items()})


def markdown(lines: pd.DataFrame) -> str:
    """The table of the page: the lowest and highest coverage of some populations, rounded down."""
    with_shares = shares(lines)
    heads = ["Interval at 95%", "Users are drawn from", "Population's metric", "Own users' average"]
    rows = [f"| {' | '.join(heads)} |", "| :--- | :--- | ---: | ---: |"]
    for name, of_range in with_shares.groupby("range", sort=False):
        kinds = of_range["kind"] if name == DECREASING else of_range["kind"].str.split(",").str[0]
        for kind, part in of_range.groupby(kinds, sort=False):
            cells = []
            for whose in WHOSE:
                low, high = np.floor(100 * part[whose].agg(["min", "max"]) + 1e-9).astype(int)
                cells.append(f"{low}%" if low == high else f"{low}% to {high}%")
            pairs = " pairs" if name in (BET, STUDENT) else ""
            rows.append(f"| {name} | {len(part)} {kind}{pairs} | {' | '.join(cells)} |")
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--logs", type=int, default=200, help="logs of each population")
    parser.add_argument("--output", type=Path, help="file of the logs that missed")
    given = parser.parse_args()
    parts = [measured(population, given.logs) for population in populations()]
    lines = pd.concat(parts, ignore_index=True)
    if given.output:
        lines.to_csv(given.output, index=False, lineterminator="\n")
    columns = ["range", "users drawn from", "kind", *WHOSE]
    print(shares(lines)[columns].to_string(index=False, float_format="{:.3f}".format))
    print(f"\n{markdown(lines)}")


if __name__ == "__main__":
    main()
