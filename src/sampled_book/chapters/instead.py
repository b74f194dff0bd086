"""Evidence for "What to do instead" from every data set of the benchmark and of a folder."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from sampled_metrics.metrics import metric

from ..data import benchmark
from ..experiments import evidence, protocols


class Bench:
    """The bundled ranks and evidence, with those of a folder (as for
    :func:`~sampled_book.experiments.evidence.every`), for "recall@10" or "ndcg@10" and 20 or 100
    negatives. Data sets whose users have too few candidates are left out.
    """

    def __init__(
        self, folder: str | Path = "", metric_or_name: str = "recall@10", n_negatives: int = 100
    ) -> None:
        self.metric_name, self.n_negatives = metric(metric_or_name).name, n_negatives
        tables = {kind: evidence.every(kind, folder) for kind in evidence.KINDS}
        data_names = set(tables["errors"].query("m == @n_negatives")["data"])
        self.where = {
            name: path for name, path in benchmark.every(folder).items() if name in data_names
        }
        self.tables = {kind: each[each["data"].isin(data_names)] for kind, each in tables.items()}
        ranks = {name: benchmark.ranks(name, path) for name, path in self.where.items()}
        self.candidates = {
            name: float(each[protocols.POPULAR].n_candidates.mean()) for name, each in ranks.items()
        }

    def cell(self, kind: str) -> pd.DataFrame:
        """The rows of a table with the metric and the number of negatives, without replacement."""
        table = self.tables[kind]
        in_cell = (table["metric"] == self.metric_name) & (table["m"] == self.n_negatives)
        return table[in_cell & ~table["replacement"]] if "replacement" in table else table[in_cell]

    def means(self, name: str) -> pd.DataFrame:
        """:func:`sampled_book.experiments.protocols.means` of a data set."""
        errors = self.tables["errors"]
        shares = benchmark.shares_above(name, self.where[name])
        return protocols.means(
            errors[errors["data"] == name], shares, self.metric_name, self.n_negatives
        )


def seconds(bench: Bench) -> pd.DataFrame:
    """Cost of exact ranking on each data set: processor seconds of all recommenders for Training
    (with tuning) and for Ranking all items, Share, their ratio, and Scores, how many times as
    many scores as one hundred negatives.
    """
    rows = []
    for name, path in bench.where.items():
        facts = benchmark.facts(name, path)
        spent = pd.DataFrame([r["processor seconds"] for r in facts["recommenders"].values()]).sum()
        training, ranking = spent["tuning"] + spent["training"], spent["ranking"]
        sizes = facts["users"], facts["items"]
        times = bench.candidates[name] / 101
        rows.append((name, *sizes, training, ranking, ranking / training, times))
    columns = ["Data", "Users", "Items", "Training", "Ranking", "Share", "Scores"]
    return pd.DataFrame(rows, columns=columns)


def moved(bench: Bench) -> pd.DataFrame:
    """Relative change of the report by one choice, averaged over recommenders: each other number of
    negatives, sampling by popularity, again (with replacement), and seed (one standard
    deviation).
    """
    table = bench.tables["errors"]
    naive_rows = table[(table["metric"] == bench.metric_name) & (table["estimator"] == "naive")]
    naive_rows = naive_rows[naive_rows["recommender"] != protocols.FLOOR]
    naive_rows = naive_rows.assign(report=naive_rows["exact"] + naive_rows["bias"])
    rows = []
    for name in bench.where:
        means = bench.means(name).mean()
        base = means.pop(f"{bench.n_negatives} uniform")
        means = means.drop(protocols.ALL) / base - 1
        cell_rows = naive_rows[
            (naive_rows["data"] == name) & (naive_rows["m"] == bench.n_negatives)
        ]
        with_replacement = cell_rows[cell_rows["replacement"]]["report"].mean() / base - 1
        seed = cell_rows[~cell_rows["replacement"]]["sd"].mean() / base
        changes = {
            str(key).removeprefix(f"{bench.n_negatives} "): change for key, change in means.items()
        }
        rows.append({"Data": name} | changes | {"again": with_replacement, "seed": seed})
    return pd.DataFrame(rows)


def most_tied(bench: Bench) -> pd.DataFrame:
    """The recommender of each data set whose report ties move most: how much higher it is with the
    test item first among its ties than with it last, relative to the mean of both, among
    negatives and among all.
    """
    effects = bench.cell("effects")
    effects = effects.assign(moved=(effects["first"] - effects["last"]) / effects["sampled"])
    rows = []
    for name, path in bench.where.items():
        data_effects = effects[effects["data"] == name]
        row = data_effects.sort_values("moved").iloc[-1]
        ranks = benchmark.ranks(name, path)[row["recommender"]]
        ends = [
            ranks.evaluate(bench.metric_name, ties).mean() for ties in ("optimistic", "pessimistic")
        ]
        among_all = (ends[0] - ends[1]) / ranks.evaluate(bench.metric_name).mean()
        rows.append((name, row["recommender"], row["moved"], among_all))
    return pd.DataFrame(rows, columns=["Data", "Recommender", "Among negatives", "Among all"])


def reversed_by(bench: Bench, name: str) -> pd.Series:
    """:func:`sampled_book.experiments.protocols.reversed_orders` of a data set."""
    pairs = bench.tables["pairs"]
    return protocols.reversed_orders(
        bench.means(name), pairs[pairs["data"] == name], bench.metric_name
    )
