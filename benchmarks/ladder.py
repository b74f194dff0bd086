"""Which verdicts each rung of the ladder gives on recommenders whose exact ranks are known.

    .venv/bin/python benchmarks/ladder.py [--draws 5] [--sizes 20 100 500] [--seed 1]

For each number of negatives evaluations of the bundled recommenders are drawn, X, Y and Z with
6,040 users and the four of the decoy study with 943, and all pairs within each set are compared at
95% confidence. A verdict is wrong if the exact metric of the same users says the opposite. Also
printed: how often what is possible for one recommender holds its exact metric.
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd

from sampled_book.bundled_log import simulate
from sampled_book.fits import recommender_sets
from sampled_metrics import evaluation
from sampled_metrics.io.logs import read_log
from sampled_metrics.metrics import metric


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--sizes", type=int, nargs="+", default=[20, 100, 500])
    parser.add_argument("--metrics", nargs="+", default=["recall@10", "ndcg@10"])
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    verdicts, ranges = [], []
    for (of_set, ranks), size, draw in (
        (item, size, draw)
        for item in recommender_sets().items()
        for size in given.sizes
        for draw in range(given.draws)
    ):
        rng = np.random.default_rng([given.seed, size, draw])
        log = read_log(simulate(ranks, size, rng), replacement=False)
        for name in given.metrics:
            of = metric(name)
            exact = {who: float(each.evaluate(of).mean()) for who, each in ranks.items()}
            compared = evaluation.compare(log, of).frame
            for row in compared.to_dict("records"):
                gap = exact[row["first"]] - exact[row["second"]]
                said = 0 if row["verdict"] == evaluation.UNKNOWN else 1
                said *= 1 if row["verdict"].startswith(f"{row['first']} ") else -1
                verdicts.append(
                    {
                        "set": of_set,
                        "metric": name,
                        "m": size,
                        "pair": f"{row['first']}, {row['second']}",
                        "rung": "steepness" if "times" in row["rung"] else row["rung"] or "unknown",
                        "wrong": bool(said * gap < 0),
                    }
                )
            for shape in (None, "decreasing"):
                found = evaluation.estimate(log, [of], shape=shape)
                for row in found.frame.to_dict("records"):
                    value = exact[row["recommender"]]
                    ranges.append(
                        {
                            "set": of_set,
                            "metric": name,
                            "m": size,
                            "assumed": shape or "nothing",
                            "held": row["possible_low"] <= value <= row["possible_high"],
                            "width": row["possible_high"] - row["possible_low"],
                        }
                    )
        print(f"{of_set}, m = {size}, draw {draw + 1} of {given.draws}", flush=True)
    frame = pd.DataFrame(verdicts)
    shares = frame.groupby(["set", "metric", "m"])["rung"].value_counts(normalize=True).unstack()
    wrong = frame[frame["rung"] != "unknown"].groupby("rung")["wrong"].agg(["sum", "count"])
    held = pd.DataFrame(ranges).groupby(["set", "metric", "m", "assumed"])
    print("\nShare of pairs decided, by the rung that decides them:")
    print(shares.fillna(0.0).round(2).to_string())
    print("\nWrong verdicts, of how many:")
    print(wrong.to_string())
    print("\nWhat is possible: how often it holds the exact metric, and its median width:")
    print(held.agg({"held": ["mean", "count"], "width": "median"}).round(3).to_string())
    print("\nBy pair:")
    by_pair = frame.groupby(["metric", "m", "pair"])["rung"]
    print(by_pair.agg(lambda rungs: rungs.mode()[0]).unstack("m").to_string())


if __name__ == "__main__":
    main()
