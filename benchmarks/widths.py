"""How wide the intervals of the benchmark's recommenders are, and how that changed.

    python benchmarks/widths.py --output widths.csv [--before earlier.csv] [--negatives 100]
                                [--data ml-100k ...] [--draws 1] [--seed 1] [--shortest]

Each recommender of each data set gets one log per draw. All its users share one `n_items`, the
rounded mean of the data set, to which their true ranks are scaled; ties are broken at random. The
negatives are drawn with replacement. The logs depend on the seed, the names and the ranks alone, so
that two versions of the package judge the same logs. A refused log has an empty interval.

With ``--before`` the widths are divided by those of an earlier file, row by row. With
``--shortest`` they are divided by the least mean width that any interval with the same promise can
have at the population likeliest for the log.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from zlib import crc32

import numpy as np
import pandas as pd

from sampled_book.data import benchmark
from sampled_metrics import Protocol, metric
from sampled_metrics.bounds.assumption import Assumption
from sampled_metrics.bounds.identification import IncompatibleError, interval, shortest

METRICS = ("recall@10", "ndcg@10")
ASSUMPTIONS: dict[str, Assumption | None] = {"none": None, "decreasing": Assumption()}
#: What tells the rows of a file apart.
ROW = ["dataset", "recommender", "draw", "users", "n", "m", "metric", "assumption"]


def measured(data: str, m: int, draws: int, seed: int, bound: bool) -> pd.DataFrame:
    """The intervals of every recommender of a data set."""
    rows = []
    for name, found in benchmark.ranks(data).items():
        n = round(float(found.n_candidates.mean()))
        for draw in range(draws):
            rng = np.random.default_rng([seed, draw, m, crc32(f"{data}/{name}".encode())])
            above = found.n_better + rng.integers(0, found.n_tied + 1)
            above = np.rint((n - 1) * above / np.maximum(found.n_candidates - 1, 1)).astype(int)
            counts = np.bincount(rng.binomial(m, above / (n - 1)), minlength=m + 1)
            for of in METRICS:
                exact = float(metric(of)(above + 1, n).mean())
                for assumption, assumption in ASSUMPTIONS.items():
                    try:
                        one = interval(counts, Protocol(n, m), of, assumption=assumption)
                        ends = one.low, one.high
                    except IncompatibleError:
                        ends = np.nan, np.nan
                    least = (
                        shortest(counts, Protocol(n, m), of, assumption=assumption)
                        if bound
                        else np.nan
                    )
                    row = data, name, draw, above.size, n, m, of, assumption, *ends, exact, least
                    rows.append(row)
    return pd.DataFrame(rows, columns=[*ROW, "low", "high", "exact", "shortest"])


def summary(found: pd.DataFrame, before: pd.DataFrame | None) -> pd.DataFrame:
    """Logs, misses and widths by metric and assumption; ratios where there is an earlier file."""
    found = found.assign(width=found["high"] - found["low"], refused=found["low"].isna())
    inside = (found["low"] <= found["exact"] + 1e-9) & (found["high"] >= found["exact"] - 1e-9)
    found["missed"] = ~inside  # a refused log is missed, too
    of = {"logs": ("width", "size"), "missed": ("missed", "sum"), "refused": ("refused", "sum")}
    of["median width"] = "width", "median"
    if found["shortest"].notna().any():
        found["times"] = found["width"] / found["shortest"]
        of |= {
            "times the shortest, median": ("times", "median"),
            "90%": ("times", lambda x: x.quantile(0.9)),
            "largest": ("times", "max"),
        }
    if before is not None:
        earlier = before.assign(earlier=before["high"] - before["low"])[[*ROW, "earlier"]]
        rows = len(found)
        found = found.merge(earlier, on=ROW, validate="one_to_one")
        if len(found) < rows:
            print(f"{rows - len(found)} of {rows} rows are not in the earlier file")
        found["ratio"] = found["width"] / found["earlier"]
        of |= {
            "ratio, median": ("ratio", "median"),
            "ratio, 90%": ("ratio", lambda x: x.quantile(0.9)),
            "ratio, largest": ("ratio", "max"),
        }
    return found.groupby(["assumption", "metric"], sort=False).agg(**of)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--output", type=Path, help="file of all intervals")
    parser.add_argument("--before", type=Path, help="such a file of an earlier version")
    parser.add_argument("--data", nargs="+", default=list(benchmark.DATA))
    parser.add_argument("--negatives", type=int, default=100)
    parser.add_argument("--draws", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--shortest", action="store_true", help="the least widths possible, too")
    given = parser.parse_args()
    tables = []
    for data in given.data:
        start = time.process_time()
        tables.append(measured(data, given.negatives, given.draws, given.seed, given.shortest))
        print(f"{data}: {time.process_time() - start:.0f} s", flush=True)
    found = pd.concat(tables, ignore_index=True)
    if given.output:
        found.to_csv(given.output, index=False, float_format="%.9g")
    before = pd.read_csv(given.before) if given.before else None
    print(summary(found, before).to_string(float_format="{:.4f}".format))


if __name__ == "__main__":
    main()
