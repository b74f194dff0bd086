"""The rules of "What to do instead", each tried on every data set of the benchmark and of a folder,
by their ranks and evidence.

A rule that chooses a correction or a number of negatives is made from all data sets but one and
tried on that one. The others are tried on each.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd

from sampled_metrics.metrics import metric

from ..data import benchmark
from ..experiments import evidence, protocols

#: What a rule says of each data set: words to show, and whether the rule holds there.
Found = dict[str, tuple[str, bool]]


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


def fewer_users(bench: Bench) -> Found:
    """All items for fewer users: fewer wrong verdicts than among negatives for as many scores."""
    fewer_wrong = bench.cell("fewer").set_index("data")["said_wrong"]
    naive = bench.cell("pairs").query("estimator == 'naive'")
    all_wrong = evidence.settled_pairs(naive).groupby("data")["said_wrong"].mean()
    return {
        name: (
            f"{fewer_wrong[name]:.1%} / {all_wrong[name]:.0%}",
            bool(fewer_wrong[name] < all_wrong[name]),
        )
        for name in bench.where
        if name in all_wrong.index
    }


def choice_of_negatives(bench: Bench) -> Found:
    """How negatives are drawn moves the report by more than a tenth."""
    outcomes = {}
    for name in bench.where:
        average = bench.means(name).mean()
        drawn = f"{bench.n_negatives} by popularity"
        ratio = average[drawn] / average[f"{bench.n_negatives} uniform"]
        outcomes[name] = f"× {ratio:.2f}", abs(ratio - 1) > 0.1
    return outcomes


def order(bench: Bench) -> Found:
    """Some pairs are in the wrong order in expectation."""
    orders = evidence.naive_orders(bench.cell("pairs")).set_index("data")
    return {
        str(name): (f"{row['reversed']} of {row['pairs']}", row["reversed"] > 0)
        for name, row in orders.to_dict("index").items()
    }


def enough(bench: Bench) -> Found:
    """As large a share of the catalogue as is enough on all other data sets is enough."""
    table = bench.tables["pairs"]
    orders = evidence.naive_orders(
        table[~table["replacement"] & (table["metric"] == bench.metric_name)]
    )
    share_rows = evidence.enough_negatives(orders, bench.candidates).set_index("data")
    return {
        str(name): (f"{row['share']:.1%}: {row['broken']} of {row['cells']}", row["broken"] == 0)
        for name, row in share_rows[share_rows["cells"] > 0].to_dict("index").items()
    }


def verdicts(bench: Bench) -> Found:
    """Of the verdicts that `compare` gives at most one in twenty is wrong."""
    decided = bench.cell("verdicts").dropna(subset="right")
    wrong = (~decided["right"].astype(bool)).groupby(decided["data"]).agg(["sum", "size"])
    return {
        str(name): (f"{row['sum']} of {row['size']}", 20 * row["sum"] <= row["size"])
        for name, row in wrong.to_dict("index").items()
    }


def correction(bench: Bench) -> Found:
    """The correction that errs least on all other data sets errs less than the naive metric."""
    summary = evidence.by_correction(bench.cell("errors"), bench.cell("pairs"))
    best_corrections = evidence.best_correction(summary, "rmse").set_index("data")
    return {
        str(name): (f"{row['value'] / row['naive']:.2f}", row["value"] < row["naive"])
        for name, row in best_corrections.to_dict("index").items()
    }


def good_items(bench: Bench, goodness: float = 0.01) -> Found:
    """Fewer negatives than the evaluation has hold no good item with 95% probability."""
    from ..experiments.decoys import largest_in_pool

    outcomes = {}
    for name, items in bench.candidates.items():
        max_decoys = largest_in_pool(round(goodness * items), round(items), 0.95)
        outcomes[name] = f"{max_decoys}", max_decoys < bench.n_negatives
    return outcomes


def popular(bench: Bench) -> Found:
    """Popular is nearer to the best among negatives than among all items."""
    outcomes = {}
    for name in bench.where:
        means = bench.means(name)[[f"{bench.n_negatives} uniform", protocols.ALL]]
        ratio_sampled, ratio_exact = (means.loc[protocols.POPULAR] / means.max()).to_numpy(float)
        outcomes[name] = (
            f"{ratio_sampled:.2f} / {ratio_exact:.2f}",
            bool(ratio_sampled > ratio_exact),
        )
    return outcomes


def ties(bench: Bench) -> Found:
    """Which of its ties comes first moves the report of some recommender by more than a tenth."""
    effects = bench.cell("effects").set_index("data")
    moved = (effects["first"] - effects["last"]) / effects["sampled"]
    max_moved = moved.groupby(level=0, sort=False).max()
    return {str(name): (f"{size:.0%}", bool(size > 0.1)) for name, size in max_moved.items()}


#: What each rule says in short, what is shown of a data set, and what tries it.
RULES: dict[str, tuple[str, Callable[[Bench], Found]]] = {
    "rank all items, for fewer users if need be": (
        "wrong verdicts: fewer users, all items / all users, negatives",
        fewer_users,
    ),
    "say how negatives are drawn": (
        "report by popularity, of the uniform one",
        choice_of_negatives,
    ),
    "do not trust the order": ("pairs in the wrong order in expectation", order),
    "choose the share of the catalogue": ("share, and cells that break it", enough),
    "quote the 95% interval": ("wrong verdicts of `compare`", verdicts),
    "fit the prior for the value": ("error, of the naive one", correction),
    "do not avoid good items by few negatives": ("largest clean sample at 1% good", good_items),
    "show Popular": ("Popular / best: negatives / all items", popular),
    "break ties at random": ("largest effect of ties", ties),
}


def tried(bench: Bench) -> pd.DataFrame:
    """Each rule on each data set: Rule, Shown (the content of the cells), a column for each data
    set with a dash where nothing can be said, and Holds, on how many of the others the rule
    does.
    """
    rows = []
    for rule, (shown, rule_function) in RULES.items():
        outcomes = rule_function(bench)
        row = {name: outcomes[name][0] if name in outcomes else "–" for name in bench.where}
        holds = sum(does_hold for _, does_hold in outcomes.values())
        rows.append({"Rule": rule, "Shown": shown} | row | {"Holds": f"{holds} of {len(outcomes)}"})
    return pd.DataFrame(rows)


# --- tables ---------------------------------------------------------------------------------------


def seconds(bench: Bench) -> pd.DataFrame:
    """Cost of exact ranking on each data set: processor seconds of all recommenders for Training
    (with tuning) and for Ranking all items, Share, their ratio, and Scores, how many times as
    many scores as one hundred negatives.
    """
    rows = []
    for name, path in bench.where.items():
        facts = benchmark.facts(name, path)
        spent = [
            seconds_by_stage["processor seconds"]
            for seconds_by_stage in facts["recommenders"].values()
        ]
        training = sum(
            seconds_by_stage["tuning"] + seconds_by_stage["training"] for seconds_by_stage in spent
        )
        ranking = sum(seconds_by_stage["ranking"] for seconds_by_stage in spent)
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
