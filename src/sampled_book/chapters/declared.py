"""The parameters of the chapters: meaning, unit and valid values; the chapter's own cell holds the
values. Conditions between parameters are checked here too.
"""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import Any

from ..display import figures
from .parameters import (
    Choice,
    File,
    Flag,
    Integer,
    ListOf,
    MetricName,
    Parameter,
    ParameterError,
    ParameterTable,
    Real,
    check,
)

Values = MutableMapping[str, Any]
_SEED = (0, 2**32 - 1)
_OWN = File("your own table of ranks instead of the bundled one")
_COMPARED = ListOf(MetricName("metrics to compare"), at_most=4)
_SAMPLED: dict[str, Parameter] = {
    "ranks_csv": _OWN,
    "n_negatives": Integer("negatives sampled per user", 1, 500, "items"),
    "metrics": _COMPARED,
    "gammas": ListOf(Real("weights of the variance", 1e-4, 100), at_most=4),
}
_LISTS = ("ranks_a", "ranks_b", "ranks_c")


def _items(values: Values) -> int:
    """The number of items, as a bound of others; any where it is itself no such number."""
    n_items = values.get("n_items")
    return n_items if type(n_items) is int else 10**9


def _toy(values: Values, at_most: int) -> dict[str, Parameter]:
    top = _items(values)
    return {
        f"ranks_{name.lower()}": ListOf(
            Integer(f"ranks of one item per instance, for {name}", 1, top),
            at_most=at_most,
            distinct=False,
        )
        for name in "ABC"
    }


def _metrics(values: Values) -> dict[str, Parameter]:
    relevant = Integer("ranks of all relevant items of one instance", 1, _items(values))
    return {
        "n_items": Integer("items ranked for each instance", 200, 10**6, "items"),
        **_toy(values, 1_000),
        "relevant": ListOf(relevant, 1, 50),
        "cutoff": Integer("cut-off k of Precision, Recall and Hit Ratio", 1, 100, "ranks"),
    }


def _inconsistency(values: Values) -> dict[str, Parameter]:
    return {
        "n_items": Integer("items ranked for each instance", 20, 20_000, "items"),
        **_toy(values, 100),
        "metrics": ListOf(MetricName("the four metrics shown"), at_least=4, at_most=4),
        "n_negatives": Integer("negatives sampled for each instance", 1, 1_000, "items"),
        "repetitions": Integer("sampled evaluations to simulate", 100, 100_000, "runs"),
        "seed": Integer("seed of the simulation", *_SEED),
    }


def _sampled_rank(values: Values) -> dict[str, Parameter]:
    deepest = max(_items(values) // 50, 1)
    return {
        "n_items": Integer("items ranked, the relevant one included", 200, 10**6, "items"),
        "n_negatives": Integer("negatives sampled, fewer than the items", 10, 5_000, "items"),
        "rank": Integer("true rank of the item in the worked example", 1, deepest, "rank"),
        "metrics": ListOf(MetricName("metrics that are drawn"), at_most=4),
        "sample_sizes": ListOf(Integer("numbers of negatives that are drawn", 1, 10_000), 1, 5),
        "top": Integer("ranks shown, from the first, at most the items", 10, 10**6),
        "small_items": Integer("items of the catalogue in whole fractions", 4, 14, "items"),
    }


def _one_negative(values: Values) -> dict[str, Parameter]:
    toy = _toy(values, 1_000)
    return {
        "n_items": Integer("items ranked for each instance", 20, 50_000, "items"),
        "ranks_a": toy["ranks_a"],
        "ranks_c": toy["ranks_c"],
        "metrics": _COMPARED,
        "sample_sizes": ListOf(Integer("numbers of negatives compared", 1, 1_000), at_most=5),
        "small_items": Integer("items of the catalogue in whole fractions", 4, 14, "items"),
        "seed": Integer("seed of the draws", *_SEED),
    }


def _movielens(values: Values) -> dict[str, Parameter]:
    return {
        "ranks_csv": _OWN,
        "n_negatives": Integer("negatives sampled per user", 1, 1_300, "items"),
        "metrics": _COMPARED,
        "replacement": Flag("draw with replacement, where orders are judged"),
        "seed": Integer("seed of the ties", *_SEED),
    }


def _correcting(values: Values) -> dict[str, Parameter]:
    return {
        "n_items": Integer("items ranked, the relevant one included", 1_000, 20_000, "items"),
        "n_negatives": Integer("negatives sampled", 5, 200, "items"),
        "replacement": Flag("draw negatives with replacement"),
        "target": MetricName("metric to correct"),
        "ranks_csv": File("your own table of ranks instead of MovieLens"),
        "observed_metric": MetricName("metric of these users"),
        "n_users": ListOf(Integer("numbers of users compared", 1, 10**6), 2, 4),
        "seed": Integer("seed of the ties and of the simulation", *_SEED),
    }


def _corrected(values: Values) -> dict[str, Parameter]:
    return {
        **_SAMPLED,
        "gamma": Real("weight of the variance where m varies", 1e-4, 100),
        "confidence": Real("how often a verdict should be right", 0.5, 0.999),
        "seed": Integer("seed of the ties", *_SEED),
    }


def _several(values: Values) -> dict[str, Parameter]:
    pair_rank = Integer("ranks of the two relevant items in a figure", 1, _items(values), "rank")
    return {
        "n_items": Integer("items ranked, the relevant ones included", 1_000, 10**6, "items"),
        "n_negatives": Integer("negatives sampled", 2, 300, "items"),
        "replacement": Flag("draw negatives with replacement"),
        "sizes": ListOf(Integer("numbers of relevant items of the users drawn", 2, 20), 2, 6),
        "users": Integer("users with each number", 1, 20),
        "concentration": Real("how near the top their relevant items are", 1, 5),
        "gamma": Real("weight of the variance in the correction", 1e-6, 1),
        "pair": ListOf(pair_rank, 2, 2),
        "pair_negatives": Integer("negatives sampled there", 2, 60, "items"),
        "seed": Integer("seed of the users", *_SEED),
    }


def _your_log(values: Values) -> dict[str, Parameter]:
    return {
        "log": File("CSV or Parquet file with your log"),
        "n_items": Integer("candidates of each user, 0 if a column of the log", 0, 10**8, "items"),
        "n_negatives": Integer("negatives of each user, 0 if a column of the log", 0, 10**5),
        "replacement": Flag("whether negatives were drawn with replacement"),
        "metrics": ListOf(MetricName("metrics to estimate, the first in the figure"), 1, 4),
        "judged": ListOf(MetricName("metrics to compare by, the first to plan for"), 1, 4),
        "steepness": Real("times fewer users from one doubling of the rank to the next", 1, 100),
        "confidence": Real("of intervals, verdicts and plans", 0.5, 0.999),
        "plan_users": Integer("users of the planned evaluation", 2, 10**8, "users"),
        "plan_items": Integer("items of the planned evaluation", 200, 10**7, "items"),
        "max_negatives": Integer("most negatives to plan for", 10, 1_000, "items"),
    }


def _identification(values: Values) -> dict[str, Parameter]:
    return {
        "ranks_csv": _OWN,
        "n_negatives": Integer("negatives sampled per user", 2, 200, "items"),
        "replacement": Flag("draw negatives with replacement"),
        "metrics": ListOf(MetricName("metrics to bound, the first in the figures"), 1, 4),
        "confidence": Real("confidence of the intervals", 0.5, 0.999),
        "gammas": ListOf(Real("weights of the variance in bias-variance", 1e-4, 100), 1, 5),
        "sample_sizes": ListOf(Integer("numbers of negatives to compare", 2, 200, "items"), 1, 3),
        "user_counts": ListOf(Integer("numbers of users to compare", 10, 10**8, "users"), 2, 6),
        "verdict_sizes": ListOf(
            Integer("numbers of negatives of an evaluation that is to decide", 2, 2_000, "items"),
            2,
            7,
        ),
        "logs": Integer("logs to draw, to count misses and for the figure of bets", 2, 200),
        "seed": Integer("seed of the logs and of the ties", *_SEED),
    }


def _published(values: Values) -> dict[str, Parameter]:
    sets = ["Beauty", "Sports", "Toys", "Yelp", "LastFM"]
    return {
        "dataset": Choice("data set of S3-Rec's table that is shown", sets),
        "shown": Choice("metric that is shown", ["HR@5", "HR@10", "NDCG@5", "NDCG@10"]),
        "confidence": Real("how often all that is said of a data set holds", 0.5, 0.999),
    }


def _twenty(values: Values) -> dict[str, Parameter]:
    return {
        "ranks_csv": _OWN,
        "k": Integer("depth of the list that users see", 1, 100, "items"),
        "seed": Integer("seed of the order of ties", *_SEED),
    }


def _reduced(values: Values) -> dict[str, Parameter]:
    return {
        "lead": Real("lead of one system on the small corpus that is asked about", 0.001, 0.1),
        "n_queries": Integer("queries of the small evaluation", 10, 90, "queries"),
        "n_others": Integer(
            "uniform documents kept beside the relevant ones", 1, 9_600, "documents"
        ),
        "seed": Integer("seed of the draws of queries", *_SEED),
    }


def _one_sample(values: Values) -> dict[str, Parameter]:
    return {
        "small_others": Integer("documents of the populations that are enumerated", 8, 12),
        "small_sampled": Integer("of these in a sample", 4, 6, "documents"),
        "n_others": Integer("documents that the hub population is sampled from", 200, 5_000),
        "n_queries": Integer("queries of the hub population", 20, 400, "queries"),
        "draws": Integer("samples of NPL for each size", 2, 100),
        "seed": Integer("seed of the samples of NPL", *_SEED),
    }


#: For each chapter, by the name of its file without the number, what it declares.
CHAPTERS: dict[str, Callable[[Values], dict[str, Parameter]]] = {
    "metrics": _metrics,
    "inconsistency": _inconsistency,
    "sampled_rank": _sampled_rank,
    "one_negative": _one_negative,
    "movielens": _movielens,
    "correcting": _correcting,
    "corrected_movielens": _corrected,
    "several_items": _several,
    "your_log": _your_log,
    "identification": _identification,
    "published": _published,
    "twenty_candidates": _twenty,
    "reduced_corpora": _reduced,
    "one_sample": _one_sample,
}


def begin(namespace: Values, chapter: str) -> ParameterTable:
    """Check a chapter's parameters in the notebook's ``globals()``, and set matplotlib up for its
    figures; the table of the parameters. `chapter` is a key of :data:`CHAPTERS`.
    """
    table = check(namespace, **CHAPTERS[chapter](namespace))
    values = table.values
    lists = [values[name] for name in _LISTS if name in values]
    if len({len(ranks) for ranks in lists}) > 1 and len(lists) == len(_LISTS):  # type: ignore[arg-type]
        raise ParameterError("ranks_a, ranks_b and ranks_c must be lists of the same length")
    m, n = values.get("n_negatives"), values.get("n_items")
    if isinstance(m, int) and isinstance(n, int) and n and m >= n:
        raise ParameterError(f"n_negatives is {m}, but must be below n_items = {n}")
    figures.use_style()
    return table
