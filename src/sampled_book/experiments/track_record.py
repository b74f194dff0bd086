"""How close estimates came to exact metrics on real recommenders, and how often in their order.

The benchmark's recommenders have known exact ranks (:mod:`sampled_book.data.benchmark`). From these
``logs`` draws evaluations of three recommenders, and estimates each by a prior that was learned
without the recommenders' source. All sources together calibrate ranges and verdicts
(:mod:`~sampled_book.experiments.conformal`), which gives the library's track record.
:func:`left_out` tries it on each source that took no part.
``python -m sampled_book.experiments.track_record`` computes it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pandas as pd
from scipy.optimize import isotonic_regression

from sampled_metrics import learned_prior, metric, read_log
from sampled_metrics._validate import FloatArray, IntArray
from sampled_metrics.designs import track_record
from sampled_metrics.learned_prior import Prior
from sampled_metrics.log.compact import Log
from sampled_metrics.ranking.intervals import RankIntervals

from ..data import benchmark, bundle, sources
from .conformal import fewest_groups, quantile_over_groups, threshold_over_groups
from .learned_prior import FAMILY_OF, NEURAL, group_by_data, priors_without, ranks_of
from .left_out import counts_of, sampled_above
from .protocols import FLOOR

NAME = "sampled_book.experiments.track_record"
BUNDLE = benchmark.BUNDLE / "evidence"
METRICS = (
    *("recall@1", "recall@5", "recall@10", "recall@20", "recall@50"),
    *("ndcg@5", "ndcg@10", "ndcg@20", "ap"),
)
#: Numbers of negatives that are calibrated together, and how many evaluations are drawn with each,
#: from each data set.
LOGS = {(19, 20): 8, (49, 50): 8, (99, 100): 12, (199, 200): 8, (499, 500): 6, (999, 1_000): 4}
#: Recommenders in one evaluation.
GROUP = 3
#: Fewest users of an evaluation, where a data set has as many.
FEWEST_USERS = 500
#: The smaller share of the catalogue that is kept in some evaluations.
SHARE = 0.3
#: The number of negatives of half of the users in some evaluations, as a share of the others', and
#: the most negatives with which there are such evaluations.
FEWER_NEGATIVES, MOST_VARIED = 0.9, 200
#: Of typical ranges and verdicts.
CONFIDENCE = track_record.TYPICAL
#: At most so many of the verdicts are wrong, averaged over sources.
WRONG_VERDICTS = 0.015
#: Least strengths of the pairs whose share in the right order is counted together.
STRENGTHS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0, 6.0)
#: An evaluation.
LOG = ["data", "n_negatives", "draw"]


# --- drawn evaluations ----------------------------------------------------------------------------


def thinned(
    ranks: RankIntervals, users: np.ndarray, share: float, rng: np.random.Generator
) -> RankIntervals:
    """The ranks of some users in a catalogue that keeps a random share of the other candidates."""
    better, tied, items = ranks.n_better[users], ranks.n_tied[users], ranks.n_candidates[users]
    if share == 1:
        return RankIntervals(better, tied, items)
    kept = np.round((items - 1) * share).astype(np.int64)
    kept_better = rng.hypergeometric(better, items - 1 - better, kept)
    kept_tied = rng.hypergeometric(tied, items - 1 - better - tied, kept - kept_better)
    return RankIntervals(kept_better, kept_tied, kept + 1)


def drawn(
    ranks: Mapping[str, RankIntervals],
    n_negatives: int | IntArray,
    replacement: bool,
    rng: np.random.Generator,
) -> Log:
    """A log of sampled ranks, with negatives of its own for each user and recommender.

    `n_negatives` is one number or one for each user.
    """
    parts = []
    for name, part in ranks.items():
        others = part.n_candidates - 1
        if replacement:
            better = rng.binomial(n_negatives, part.n_better / others)
            below = np.maximum(others - part.n_better, 1)
            tied = rng.binomial(n_negatives - better, np.minimum(part.n_tied / below, 1.0))
        else:
            above, equal = part.n_better, part.n_tied
            better = rng.hypergeometric(above, others - above, n_negatives)
            tied = rng.hypergeometric(equal, others - above - equal, n_negatives - better)
        columns = {"n_better": better, "n_tied": tied, "n_items": part.n_candidates}
        rows = pd.DataFrame(columns | {"n_negatives": n_negatives, "recommender": name})
        parts.append(rows.assign(user=np.arange(better.size)))
    return read_log(pd.concat(parts), replacement=replacement)


@dataclass(frozen=True)
class Evaluation:
    """What is drawn before the negatives of an evaluation.

    Half of all evaluations have all users and the whole catalogue, half are drawn with replacement.
    """

    recommenders: tuple[str, ...]
    n_users: int
    share: float
    replacement: bool

    @classmethod
    def of(
        cls, ranks: Mapping[str, RankIntervals], n_negatives: int, draw: int, rng: Any
    ) -> Evaluation:
        everyone = next(iter(ranks.values())).n_better.size
        fewest = min(int(part.n_candidates.min()) for part in ranks.values()) - 1
        names = tuple(rng.choice(list(ranks), min(GROUP, len(ranks)), replace=False).tolist())
        if draw % 2 == 0:
            return cls(names, everyone, 1.0, draw % 4 == 2)
        n_users = int(np.exp(rng.uniform(np.log(min(FEWEST_USERS, everyone)), np.log(everyone))))
        is_thinned = rng.random() < 0.5 and round(fewest * SHARE) >= 1.2 * n_negatives
        return cls(names, n_users, SHARE if is_thinned else 1.0, draw % 4 == 3)


def logs(
    name: str, ranks: Mapping[str, RankIntervals], n_negatives: int, n_logs: int, prior: Prior
) -> Iterator[tuple[pd.DataFrame, pd.DataFrame]]:
    """The tables of :func:`compared` for each evaluation drawn from a data set."""
    judged = {key: part for key, part in ranks.items() if key != FLOOR}
    fewest = min(int(part.n_candidates.min()) for part in judged.values()) - 1
    for draw in range(n_logs if fewest >= 1.2 * n_negatives else 0):
        rng = np.random.default_rng([crc32(name.encode()), n_negatives, draw])
        evaluation = Evaluation.of(judged, n_negatives, draw, rng)
        everyone = next(iter(judged.values())).n_better.size
        users = np.sort(rng.choice(everyone, evaluation.n_users, replace=False))
        chosen = {
            key: thinned(judged[key], users, evaluation.share, rng)
            for key in evaluation.recommenders
        }
        numbers = np.full(users.size, n_negatives)
        if draw % 8 in (4, 5) and n_negatives <= MOST_VARIED:
            fewer = round(FEWER_NEGATIVES * n_negatives)
            numbers = rng.choice([fewer, n_negatives], users.size)
        estimates, differences = (
            table.assign(data=name, n_negatives=n_negatives, draw=draw)
            for table in compared(chosen, numbers, evaluation.replacement, prior, rng)
        )
        n_items = float(np.mean([part.n_candidates.mean() for part in chosen.values()]))
        yield estimates.assign(n_users=users.size, n_items=n_items), differences


def compared(
    ranks: Mapping[str, RankIntervals],
    negatives: IntArray,
    replacement: bool,
    prior: Prior,
    rng: np.random.Generator,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The estimates of one drawn log beside exact values, and the errors of their differences.

    Families are stated. The exact value is that of the log's own users. `first` is the share of
    users without a negative above. Errors, and those of differences, are of logarithms;
    `likeness` is the library's of two recommenders.
    """
    better = dict(zip(ranks, sampled_above(ranks, negatives, replacement, rng), strict=True))
    sizes = next(iter(ranks.values())).n_candidates
    families = [FAMILY_OF.get(name, "") for name in ranks]
    counts = counts_of(better, negatives, sizes, replacement)
    fit = learned_prior.fit(counts, prior.of(families))
    estimates, differences = [], []
    shares = np.array([above / negatives for above in better.values()])
    alike = likenesses(shares, negatives, None if replacement else sizes)
    for name in METRICS:
        parsed = metric(name)
        logarithms, covariance = fit.logarithms(parsed)
        errors = np.sqrt(np.diag(covariance))
        rows = zip(better.items(), np.exp(logarithms), errors, strict=True)
        for (recommender, above), estimate, error in rows:
            exact = float(ranks[recommender].evaluate(name).mean())
            first = float((above == 0).mean())
            estimates.append((name, recommender, exact, estimate, error, first))
        for i, j in combinations(range(len(better)), 2):
            variance = errors[i] ** 2 + errors[j] ** 2 - 2.0 * covariance[i, j]
            pair = list(better)[i], list(better)[j]
            differences.append((name, *pair, np.sqrt(variance), alike[i, j]))
    columns = ["metric", "recommender", "exact", "estimate", "error", "first"]
    pair_columns = ["metric", "first", "second", "error", "likeness"]
    return (
        pd.DataFrame(estimates, columns=columns),
        pd.DataFrame(differences, columns=pair_columns),
    )


def likenesses(shares: FloatArray, negatives: IntArray, sizes: IntArray | None) -> FloatArray:
    """Correlations of users' exact ranks, from their shares of negatives above, (k, users).

    The variance of sampling is taken out; it is that of draws with replacement without `sizes`.
    Missing where nothing is left.
    """
    left = 1.0 if sizes is None else 1.0 - negatives / (sizes - 1)
    noise = (left * shares * (1.0 - shares) / (negatives - 1)).mean(axis=1)
    covariance = np.cov(shares) - np.diag(noise)
    variances = np.diag(covariance)
    scale = np.sqrt(np.where(variances > 0, variances, np.nan))
    return np.asarray(covariance / scale / scale[:, np.newaxis])


def pairs_of(estimates: pd.DataFrame, differences: pd.DataFrame) -> pd.DataFrame:
    """Pairs of estimates in a log: their `strength`, and whether they are in the `right` order.

    Pairs with equal exact metrics are left out.
    """
    keys = [*LOG, "metric"]
    pairs = differences
    for side in ("first", "second"):
        columns = {name: f"{name}_{side}" for name in ("exact", "estimate")}
        part = estimates[[*keys, "recommender", *columns]]
        pairs = pairs.merge(part.rename(columns=columns | {"recommender": side}), on=[*keys, side])
    pairs = pairs[pairs["exact_first"] != pairs["exact_second"]]
    leads = pairs["estimate_first"] - pairs["estimate_second"]
    right = leads * (pairs["exact_first"] - pairs["exact_second"]) > 0
    lead = np.abs(np.log(pairs["estimate_first"] / pairs["estimate_second"]))
    groups = pairs["data"].map(group_by_data()) if "group" not in pairs else pairs["group"]
    reads_sequences = [pairs[side].map(FAMILY_OF).eq("sequential") for side in ("first", "second")]
    is_between = reads_sequences[0] != reads_sequences[1]
    strength = track_record.strength(lead, pairs["error"], pairs["likeness"], is_between)
    is_sequential = reads_sequences[0] | reads_sequences[1]
    return pairs.assign(group=groups, strength=strength, right=right, sequential=is_sequential)


def weights_of(table: pd.DataFrame) -> FloatArray:
    """Weights by which each group counts alike, in it each data set, and there each row."""
    in_set = table.groupby("data")["data"].transform("size")
    in_group = table.groupby("group")["data"].transform("nunique")
    return np.asarray(1.0 / in_set / in_group)


# --- calibration ----------------------------------------------------------------------------------


def by_group(table: pd.DataFrame, values: FloatArray) -> list[FloatArray]:
    """Values of the rows of a table, an array for each group in the order of their names."""
    groups = table["group"].to_numpy()
    return [values[groups == group] for group in np.unique(groups)]


def scores(estimates: pd.DataFrame) -> FloatArray:
    """How many errors each exact value is from its estimate, on the logarithmic scale.

    Values below one user in all count as one, as in a range.
    """
    exact = np.maximum(estimates["exact"], 1.0 / estimates["n_users"])
    return np.asarray(np.abs(np.log(exact / estimates["estimate"])) / spreads(estimates))


def spreads(estimates: pd.DataFrame) -> FloatArray:
    """The scale of each estimate's error: half the width of a range before calibration."""
    return track_record.spread(estimates["error"].to_numpy())


def reach(estimates: pd.DataFrame, confidence: float = CONFIDENCE) -> float:
    """The multiple of the scale for typical ranges, calibrated on these evaluations."""
    weights = by_group(estimates, weights_of(estimates))
    return quantile_over_groups(by_group(estimates, scores(estimates)), weights, confidence)


def threshold(pairs: pd.DataFrame, confidence: float = CONFIDENCE) -> float:
    """The least strength of a verdict, calibrated on these pairs."""
    strengths, wrong, weights = (
        by_group(pairs, values)
        for values in (pairs["strength"].to_numpy(), ~pairs["right"].to_numpy(), weights_of(pairs))
    )
    return threshold_over_groups(strengths, wrong, weights, 1.0 - confidence)


def least_sure(pairs: pd.DataFrame) -> float:
    """The least strength from which few verdicts are wrong, averaged over sources."""
    table = pairs.assign(weight=weights_of(pairs)).sort_values("strength", ascending=False)
    called = table["weight"].cumsum()
    wrong = (table["weight"] * ~table["right"]).cumsum()
    is_last = table["strength"] != table["strength"].shift(-1)
    allowed = table.loc[is_last & (wrong <= WRONG_VERDICTS * called), "strength"]
    return float(allowed.min()) if allowed.size else np.inf


def odds(pairs: pd.DataFrame) -> list[tuple[float, float, float]]:
    """Strengths, and from each to the next the share of pairs in order, averaged over groups.

    Shares are made to rise with the strength, and neighbours with the same share are joined. The
    third number is the share of the worst group.
    """
    table = pairs.assign(index=np.digitize(pairs["strength"], STRENGTHS) - 1)
    occupied, shares, counts = [], [], []
    for number, part in table.groupby("index"):
        by = _shares_by_group(part)
        occupied.append(int(str(number)))
        shares.append(by.mean())
        counts.append(by.size)
    rising = isotonic_regression(shares, weights=counts).x
    steps: list[tuple[float, float, float]] = []
    for level in np.unique(rising):
        joined = [place for place, other in zip(occupied, rising, strict=True) if other == level]
        by = _shares_by_group(table[table["index"].isin(joined)])
        most = track_record.MOST
        share, low = float(by.mean()), min(float(by.min()), most)
        steps.append((STRENGTHS[joined[0]], min(round(share, 3), most), np.floor(low * 1e3) / 1e3))
    return steps


def _shares_by_group(pairs: pd.DataFrame) -> pd.Series:
    """The share of pairs in the right order in each group, data sets alike."""
    return pairs.groupby(["group", "data"])["right"].mean().groupby("group").mean()


def judged_without(own: pd.DataFrame, pairs: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Estimates and pairs with one number of negatives, each judged without its own group.

    `multiple` is the multiple of the scale for ranges, `called` says which pairs get a verdict.
    """
    groups = own["group"].unique()
    multiples = {group: reach(own[own["group"] != group]) for group in groups}
    least = {group: decided(pairs[pairs["group"] != group]) for group in groups}
    called = pairs["strength"] >= pairs["group"].map(least)
    return own.assign(multiple=own["group"].map(multiples)), pairs.assign(called=called)


def left_out(estimates: pd.DataFrame, differences: pd.DataFrame, metric_name: str) -> pd.DataFrame:
    """Each group judged by a calibration without it, for a metric and each number of negatives.

    A row for each group: `holds`, the share of its typical ranges that hold the exact value;
    `called`, the share of its pairs with a verdict; `wrong`, the wrong ones as a share of all
    pairs; `verdicts` and `wrong_verdicts`, their numbers, and `sequential` and `wrong_sequential`
    those on pairs with a model that reads sequences; `width`, the median of a range's half
    width on the logarithmic scale.
    """
    estimates, pairs = of_metric(estimates, differences, metric_name)
    rows = []
    for m, estimates_at_m in estimates.groupby("up_to"):
        own, own_pairs = judged_without(estimates_at_m, pairs[pairs["up_to"] == m])
        for group, judged in own.groupby("group", sort=False):
            judged_pairs = own_pairs[own_pairs["group"] == group]
            row: dict[str, Any] = {"metric": metric_name, "n_negatives": m, "group": group}
            multiple = judged["multiple"].iloc[0]
            row["holds"] = float(weights_of(judged) @ (scores(judged) <= multiple))
            row["width"] = float(np.median(spreads(judged)) * multiple)
            called = judged_pairs["called"]
            wrong, weights = called & ~judged_pairs["right"], weights_of(judged_pairs)
            row |= {"called": float(weights @ called), "wrong": float(weights @ wrong)}
            row |= {"verdicts": int(called.sum()), "wrong_verdicts": int(wrong.sum())}
            in_order = judged_pairs["sequential"]
            row |= {"sequential": int(called[in_order].sum())}
            row |= {"wrong_sequential": int(wrong[in_order].sum())}
            rows.append(row)
    return pd.DataFrame(rows)


def decided(pairs: pd.DataFrame) -> float:
    """The least strength of a verdict, by both limits on errors."""
    return max(threshold(pairs), least_sure(pairs))


def observed(groups: pd.DataFrame) -> dict[str, int]:
    """Verdicts on the groups of :func:`left_out`, and the wrong ones; those on models that read
    sequences again.
    """
    names = {"verdicts": "verdicts", "wrong": "wrong_verdicts"}
    names |= {"sequential": "sequential", "wrong_sequential": "wrong_sequential"}
    return {name: int(groups[column].sum()) for name, column in names.items()}


def of_metric(
    estimates: pd.DataFrame, differences: pd.DataFrame, metric_name: str
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The estimates of a metric above 0, and their pairs.

    `up_to` is the largest number of negatives with which theirs is calibrated.
    """
    up_to = {m: numbers[-1] for numbers in LOGS for m in numbers}
    own, pairs = (
        table[table["metric"] == metric_name].assign(up_to=table["n_negatives"].map(up_to))
        for table in (estimates, differences)
    )
    own = own[own["estimate"] > 0]
    return own, pairs_of(own, pairs)


# --- the files ------------------------------------------------------------------------------------

KINDS = ("typical", "differences")


def bundled(kind: str, ranks_folder: Path = benchmark.BUNDLE) -> pd.DataFrame:
    """A table that was computed before, with groups: "typical", of estimates, or "differences"."""
    paths = sorted((ranks_folder / "evidence").glob(f"*.{kind}.csv.gz"))
    table = pd.concat([pd.read_csv(path) for path in paths], ignore_index=True)
    listed = pd.read_csv(ranks_folder / sources.TABLE.name, keep_default_na=False)
    return table.assign(group=table["data"].map(listed.set_index("name")["group"]))


def compute(
    name: str,
    ranks: Mapping[str, RankIntervals],
    prior: Prior,
    folder: Path,
    tell: Callable[[str], object],
) -> None:
    """Draw the evaluations of a data set and write their tables."""
    tables: dict[str, list[pd.DataFrame]] = {kind: [] for kind in KINDS}
    for m, n_logs in [(m, n_logs) for numbers, n_logs in LOGS.items() for m in numbers]:
        tell(f"{m} negatives")
        for both in logs(name, ranks, m, n_logs, prior):
            for kind, table in zip(KINDS, both, strict=True):
                tables[kind].append(table)
    for kind, parts in tables.items():
        bundle.write_table(folder / f"{name}.{kind}.csv.gz", pd.concat(parts), 5)


def _outwards(values: Any, digits: int) -> list[float]:
    """The smallest and the largest of some values, rounded outwards."""
    scale = 10.0**digits
    ends = np.floor(scale * np.min(values)) / scale, np.ceil(scale * np.max(values)) / scale
    return [float(end) for end in ends]


def stored(estimates: pd.DataFrame, differences: pd.DataFrame, most_times: float) -> dict[str, Any]:
    """The content of the library's ``track_record.json``.

    `most_times` is how many times as many candidates some users have as others.
    """
    metrics: dict[str, object] = {}
    for name in METRICS:
        own, pairs = of_metric(estimates, differences, name)
        by_negatives = []
        for up_to, part in own.groupby("up_to"):
            pairs_at_m = pairs[pairs["up_to"] == up_to]
            entry = {
                "negatives": [int(part["n_negatives"].min()), int(str(up_to))],
                "groups": int(part["group"].nunique()),
                "typical": _up(reach(part)),
                "decided": _up(decided(pairs_at_m)),
                "estimates": _outwards(part["estimate"], 4),
                "firsts": _outwards(part["first"], 2),
            }
            by_negatives.append(entry)
        metrics[name] = {
            "odds": odds(pairs),
            "observed": observed(left_out(estimates, differences, name)),
            "by_negatives": by_negatives,
        }
    measured = {
        "users": estimates["n_users"],
        "negatives for each user": estimates["n_negatives"],
        "candidates": estimates["n_items"],
        "times as many candidates for some users as for others": np.array([1.0, most_times]),
        "candidates for each negative": estimates["n_items"] / estimates["n_negatives"],
    }
    return {
        "made_by": NAME,
        "data": sorted({*estimates["data"]}),
        "sources": estimates["group"].nunique(),
        "recommenders": _recommenders(estimates),
        "neural": _recommenders(estimates[estimates["recommender"].isin(NEURAL)]),
        "logs": len(estimates[LOG].drop_duplicates()),
        "scope": {key: _outwards(values, 1) for key, values in measured.items()},
        "metrics": metrics,
    }


def _recommenders(estimates: pd.DataFrame) -> int:
    return int(estimates.groupby("data")["recommender"].nunique().sum())


def most_times_candidates(names: Sequence[str], folder: Path) -> float:
    """The most times as many candidates as another that a user of the same data set has."""
    sizes = [next(iter(benchmark.ranks(name, folder).values())).n_candidates for name in names]
    return max(float(part.max() / part.min()) for part in sizes)


def _up(value: float) -> float | None:
    """Rounded up to three decimals; None for infinity."""
    return float(np.ceil(1_000.0 * value) / 1_000.0) if np.isfinite(value) else None


def main(argv: Sequence[str] | None = None) -> int:
    """Draw evaluations of the benchmark's recommenders, and fit the library's track record.

    Ranks of a folder of one's own calibrate the bundled model; ``sources.csv`` there has the
    columns name and group. The exit status is 2 if there are no ranks.
    """
    parser = bundle.parser(NAME, main.__doc__)
    parser.add_argument("--data", nargs="+", help="names; default: all")
    parser.add_argument("--ranks", type=Path, help="folder of the ranks; default: the package's")
    parser.add_argument("--fit-only", action="store_true", help="fit to the tables of a former run")
    arguments = parser.parse_args(argv)
    folder = arguments.ranks or benchmark.BUNDLE
    record_file = Path(track_record.__file__).with_suffix(".json").name
    output = arguments.output or (arguments.ranks or Path(track_record.__file__).parent)

    def write() -> list[Path]:
        names = arguments.data or benchmark.names_in(folder)
        groups = group_by_data()
        used = sorted({groups[name] for name in names if name in groups})
        priors = {} if arguments.fit_only else dict(priors_without(used))
        for name in [] if arguments.fit_only else names:
            prior = priors.get(groups.get(name, ""), learned_prior.learned())
            ranks = ranks_of(name, folder)
            compute(name, ranks, prior, folder / "evidence", bundle.timed(name))
        estimates, differences = (bundled(kind, folder) for kind in KINDS)
        most_times = most_times_candidates(estimates["data"].unique().tolist(), folder)
        content = stored(estimates, differences, most_times)
        calibrating, fewest = content["sources"], fewest_groups(CONFIDENCE)
        if calibrating < fewest:
            print(
                f"no theorem: it takes {fewest} sources to calibrate, got {calibrating}", flush=True
            )
        return [bundle.write_json(output / record_file, content)]

    return bundle.run(write)


if __name__ == "__main__":
    sys.exit(main())
