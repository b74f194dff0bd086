"""What `plan` promises beside what `compare` then says.

    python benchmarks/plans.py [--draws 40] [--seed 1] [--output benchmarks/plans.csv]

Ten pairs of real recommenders, each with its own metric, negatives and users. The users' true
ranks, scaled to one catalogue size, are the population: an evaluation draws users from it with
replacement, and negatives for each recommender, with replacement too. `plan` is asked twice: with
the true ranks, and with one evaluation of the same size as a pilot log. It promises the probability
of the right order by the bias-variance estimator. `compare` then judges each evaluation.
`tests/sampled_book/test_promises.py` holds what the documentation says of it against the file.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import pandas as pd

import sampled_metrics as sm
from sampled_book.data import benchmark, datasets
from sampled_metrics.log.compact import Log

FILE = Path(__file__).with_name("plans.csv")
ESTIMATOR = "bias-variance"


class Setting(NamedTuple):
    """A pair of a data set, and how it is evaluated; "movielens" has the book's X, Y and Z."""

    data: str
    first: str
    second: str
    metric: str
    negatives: int
    users: int


SETTINGS = (
    Setting("movielens", "X", "Z", "ndcg@10", 100, 5_000),
    Setting("movielens", "Y", "Z", "ndcg@10", 100, 5_000),
    Setting("ml-100k", "Recent cosine", "Popular", "ndcg@10", 100, 1_000),
    Setting("ml-100k", "EASE", "Item cosine", "recall@10", 200, 1_000),
    Setting("lastfm", "EASE", "Markov chain", "ndcg@10", 200, 1_000),
    Setting("lastfm", "RP3beta", "Item BM25", "recall@10", 100, 1_000),
    Setting("ml-1m", "EASE", "BPR", "ndcg@10", 100, 5_000),
    Setting("beauty", "Markov chain", "BPR", "ndcg@10", 100, 20_000),
    Setting("sports", "EASE", "PureSVD", "recall@10", 200, 20_000),
    Setting("yelp", "User cosine", "Popular", "ndcg@10", 200, 10_000),
)


def true_ranks(setting: Setting, rng: np.random.Generator) -> tuple[dict[str, np.ndarray], int]:
    """The true ranks of the same users by both recommenders, in one catalogue; and its size."""
    movielens = setting.data == "movielens"
    intervals = datasets.bundled_ranks() if movielens else benchmark.ranks(setting.data)
    pair = {name: intervals[name] for name in (setting.first, setting.second)}
    n_items = round(float(pair[setting.first].n_candidates.mean()))
    ranks = {}
    for name, part in pair.items():
        above = part.n_better + rng.integers(0, part.n_tied + 1)
        share = above / np.maximum(part.n_candidates - 1, 1)
        ranks[name] = 1 + np.rint((n_items - 1) * share).astype(np.int64)
    return ranks, n_items


def drawn(
    ranks: dict[str, np.ndarray], protocol: sm.Protocol, n_users: int, rng: np.random.Generator
) -> Log:
    """One evaluation of so many users."""
    chosen = rng.integers(next(iter(ranks.values())).size, size=n_users)
    table = pd.DataFrame({name: protocol.draw(part[chosen], rng) for name, part in ranks.items()})
    rows = table.melt(var_name="recommender", value_name="rank", ignore_index=False)
    sizes = {"n_items": protocol.n_items, "n_negatives": protocol.n_negatives}
    return sm.read_log(rows.reset_index(names="user"), **sizes, replacement=True)


def promised(setting: Setting, data: Any, *protocol: sm.Protocol) -> float:
    """The probability of the right order."""
    sizes = {"n_users": setting.users, "max_negatives": setting.negatives}
    plan = sm.plan(data, setting.metric, *protocol, **sizes, estimators=ESTIMATOR)
    return float(plan.frame.set_index("estimator").at[ESTIMATOR, "probability"])


def judged(setting: Setting, log: Log, better: str) -> dict[str, bool]:
    """What compare says of one evaluation."""
    row = sm.compare(log, setting.metric).frame.iloc[0]
    ahead = setting.first if row["estimate"] > 0 else setting.second
    return {
        "order, got": ahead == better,
        "theorem, got": row["warrant"] == "theorem",
        "track record, got": row["warrant"] == "track record",
        "wrong": row["warrant"] != "" and not str(row["verdict"]).startswith(f"{better} "),
    }


def measured(setting: Setting, draws: int, seed: int) -> dict[str, object]:
    """The line of the table for one setting."""
    rng = np.random.default_rng([seed, crc32("/".join(map(str, setting)).encode())])
    ranks, n_items = true_ranks(setting, rng)
    protocol = sm.Protocol(n_items, setting.negatives)
    exact = {name: sm.metric(setting.metric)(part, n_items).mean() for name, part in ranks.items()}
    better = max(exact, key=exact.__getitem__)
    known = promised(setting, ranks, protocol)
    pilot = drawn(ranks, protocol, setting.users, rng)
    logs = (drawn(ranks, protocol, setting.users, rng) for _ in range(draws))
    return {
        **setting._asdict(),
        "better": better,
        "ratio": exact[better] / min(exact.values()),
        "order, true ranks": known,
        "order, pilot log": promised(setting, pilot),
        **pd.DataFrame([judged(setting, log, better) for log in logs]).mean(),
    }


def markdown(table: pd.DataFrame) -> str:
    """The table as Markdown; shares to the nearest percent."""
    heads = ["data", "pair (ratio of the exact metrics)", "metric", "negatives", "users"]
    heads += ["right order, plan from true ranks", "plan from a log", "compare"]
    heads += ["decided by a theorem", "by track record", "wrong"]
    lines = [f"| {' | '.join(heads)} |", "| --- | --- | --- |" + " ---: |" * (len(heads) - 3)]
    for row in table.to_dict("records"):
        other = row["second"] if row["better"] == row["first"] else row["first"]
        shares = [f"{value:.0%}" for value in list(row.values())[8:]]
        words = [row["data"], f"{row['better']} over {other} ({row['ratio']:.2f})", row["metric"]]
        words += [f"{row['negatives']:,}", f"{row['users']:,}", *shares]
        lines.append("| " + " | ".join(words) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--draws", type=int, default=40, help="evaluations of each pair")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--output", type=Path, help="file of the table")
    given = parser.parse_args()
    table = pd.DataFrame([measured(setting, given.draws, given.seed) for setting in SETTINGS])
    if given.output:
        table.to_csv(given.output, index=False, float_format="%.6g")
    print(f"\n{markdown(table)}")


if __name__ == "__main__":
    main()
