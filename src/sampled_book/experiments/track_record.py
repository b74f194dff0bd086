"""How close estimates came to exact metrics on real recommenders, and how often in their order.

The benchmark's recommenders have known exact ranks (:mod:`sampled_book.data.benchmark`). From these
``logs`` draws evaluations of three recommenders. Data sets of `sources.FITTING_GROUPS` fit a model
of the error. Those of all other groups calibrate it (:mod:`~sampled_book.experiments.conformal`),
which gives the library's track record and its theorem about a new source. :func:`left_out` tries it
on each group that took no part. ``python -m sampled_book.experiments.track_record`` computes it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pandas as pd
from scipy.optimize import isotonic_regression, minimize
from scipy.special import log_ndtr

from sampled_metrics import metric, read_log
from sampled_metrics._validate import FloatArray, IntArray
from sampled_metrics.designs import power_law, track_record
from sampled_metrics.designs.sample import Sample
from sampled_metrics.designs.track_record import Case
from sampled_metrics.designs.values import FITTED, Values
from sampled_metrics.estimators import default_gamma
from sampled_metrics.log.compact import Log
from sampled_metrics.ranking.intervals import RankIntervals

from ..data import benchmark, bundle, sources
from .conformal import fewest_groups, quantile_over_groups, threshold_over_groups
from .protocols import FLOOR

NAME = "sampled_book.experiments.track_record"
BUNDLE = benchmark.BUNDLE / "evidence"
METRICS = (
    *("recall@1", "recall@5", "recall@10", "recall@20", "recall@50"),
    *("ndcg@5", "ndcg@10", "ndcg@20", "ap"),
)
#: How many evaluations are drawn with a number of negatives, from each data set.
LOGS = {20: 12, 50: 12, 100: 16, 200: 8, 500: 6, 1_000: 2}
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
    name: str, ranks: Mapping[str, RankIntervals], n_negatives: int, n_logs: int
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
        numbers: int | IntArray = n_negatives
        if draw % 8 in (4, 5) and n_negatives <= MOST_VARIED:
            fewer = round(FEWER_NEGATIVES * n_negatives)
            numbers = rng.choice([fewer, n_negatives], users.size)
        log = drawn(chosen, numbers, evaluation.replacement, rng)
        n_items = float(np.mean([part.n_candidates.mean() for part in chosen.values()]))
        estimates, differences = (
            table.assign(data=name, n_negatives=n_negatives, draw=draw)
            for table in compared(chosen, log)
        )
        yield estimates.assign(n_users=users.size, n_items=n_items), differences


def compared(ranks: Mapping[str, RankIntervals], log: Log) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The estimates of one drawn log beside exact values, and the errors of their differences.

    The exact value is that of the log's own users. `extrapolated` is the value by the power law of
    the recommender's top ranks, `exponent` its exponent, `first` the share without a negative
    above.
    """
    sample = Sample(log)
    values = Values(sample, default_gamma(log.n_users), [metric(name) for name in METRICS])
    laws = {name: power_law.fit(sample, name) for name in sample.names}
    estimates, differences = [], []
    for name in METRICS:
        parsed_metric = metric(name)
        means = values.means(parsed_metric, FITTED[0])
        for recommender, mean in means.items():
            exact, law = float(ranks[recommender].evaluate(name).mean()), laws[recommender]
            by_law = law.value(parsed_metric), law.exponent, law.first
            estimates.append((name, recommender, exact, mean.value, mean.error, *by_law))
        for first, second in combinations(means, 2):
            error = sample.mean(means[first].minus(means[second]), means[first].users).error
            differences.append((name, first, second, error))
    columns = ["metric", "recommender", "exact", "estimate", "error"]
    by_law_columns = ["extrapolated", "exponent", "first"]
    return (
        pd.DataFrame(estimates, columns=[*columns, *by_law_columns]),
        pd.DataFrame(differences, columns=["metric", "first", "second", "error"]),
    )


# --- the model of the error -----------------------------------------------------------------------


def case_of(table: pd.DataFrame, suffix: str = "") -> Case:
    """The estimates of a table as the model takes them."""
    columns = ("estimate", "extrapolated", "exponent", "error")
    estimate, extrapolated, exponent, error = (
        table[f"{name}{suffix}"].to_numpy(float) for name in columns
    )
    return Case(*power_law.log_ratio(estimate, extrapolated), exponent, error)


def with_law(estimates: pd.DataFrame) -> pd.DataFrame:
    """The estimates that have a power law: some user has no negative above."""
    return estimates[(estimates["first"] > 0) & (estimates["extrapolated"] > 0)]


def pairs_of(estimates: pd.DataFrame, differences: pd.DataFrame) -> pd.DataFrame:
    """Pairs of estimates in a log, with columns of both; `difference_error` is the error of their
    difference, `right` whether they are in order. Pairs with equal exact metrics are left out.
    """
    keys = [*LOG, "metric"]
    both = ["recommender", "exact", "estimate", "error", "extrapolated", "exponent"]
    pairs = differences.rename(columns={"error": "difference_error"})
    for side in ("first", "second"):
        columns = {name: f"{name}_{side}" for name in both[1:]} | {"recommender": side}
        pairs = pairs.merge(estimates[[*keys, *both]].rename(columns=columns), on=[*keys, side])
    pairs = pairs[pairs["exact_first"] != pairs["exact_second"]]
    leads = pairs["estimate_first"] - pairs["estimate_second"]
    gaps = pairs["exact_first"] - pairs["exact_second"]
    return pairs.assign(sign=np.sign(leads), right=leads * gaps > 0)


def weights_of(table: pd.DataFrame) -> FloatArray:
    """Weights by which each group counts alike, in it each data set, and there each row."""
    in_set = table.groupby("data")["data"].transform("size")
    in_group = table.groupby("group")["data"].transform("nunique")
    return np.asarray(1.0 / in_set / in_group)


@dataclass(frozen=True)
class Model:
    """The parameters of :class:`~track_record.Record` that are fitted."""

    centre: tuple[float, float]
    spread: tuple[float, float]
    of_pairs: tuple[float, float]

    def scores(self, estimates: pd.DataFrame) -> FloatArray:
        """How many spreads each exact value is from the centre, on a logarithmic scale.

        Values below one user in all count as one, as in a range.
        """
        case = case_of(estimates)
        exact = np.maximum(estimates["exact"].to_numpy(), 1.0 / estimates["n_users"].to_numpy())
        errors = np.log(exact) - track_record.log_centre(case, self.centre)
        return np.asarray(np.abs(errors) / track_record.spread(case, self.spread))

    def strengths(self, pairs: pd.DataFrame) -> FloatArray:
        first, second = case_of(pairs, "_first"), case_of(pairs, "_second")
        error, sign = pairs["difference_error"].to_numpy(), pairs["sign"].to_numpy()
        return track_record.strength(first, second, error, self.centre, self.of_pairs, sign)

    def half_widths(self, estimates: pd.DataFrame) -> FloatArray:
        """The spread of each estimate, which a typical range has on either side several times."""
        return track_record.spread(case_of(estimates), self.spread)


def fitted(estimates: pd.DataFrame, pairs: pd.DataFrame) -> Model:
    """The model of one metric by its evaluations, all groups alike.

    Errors have Student's distribution with four degrees of freedom, so that a few large ones count
    little. Orders are right with the normal probability of their strength.
    """
    case, weights = case_of(estimates), weights_of(estimates)
    # An exact value of 0 counts as a tenth of the estimate.
    least = np.exp(case.log_estimate) / 10.0
    logarithms = np.log(np.maximum(estimates["exact"].to_numpy(), least))

    def error_loss(parameters: FloatArray) -> float:
        centre = float(parameters[0]), float(parameters[1])
        scale = float(np.exp(parameters[2])), float(np.exp(parameters[3]))
        spread = track_record.spread(case, scale)
        z = (logarithms - track_record.log_centre(case, centre)) / spread
        return float(weights @ (np.log(spread) + 2.5 * np.log1p(z**2 / 4.0)))

    options = {"maxiter": 4_000, "maxfev": 4_000, "adaptive": True}
    start = np.array([0.5, 0.0, -0.5, -1.5])
    found = minimize(error_loss, start, method="Nelder-Mead", options=options).x
    centre, spread = (float(found[0]), float(found[1])), _pair(np.exp(found[2:]))
    pair_weights, signs = weights_of(pairs), np.where(pairs["right"], 1.0, -1.0)

    def order_loss(parameters: FloatArray) -> float:
        scale = float(np.exp(parameters[0])), float(np.exp(parameters[1]))
        model = Model(centre, spread, scale)
        return -float(pair_weights @ log_ndtr(signs * model.strengths(pairs)))

    of_pairs = np.exp(minimize(order_loss, [-0.3, -2.0], method="Nelder-Mead").x)
    return Model(_pair(centre), _pair(spread), _pair(of_pairs))


def _pair(values: Sequence[float]) -> tuple[float, float]:
    """Two numbers, rounded to three digits."""
    first, second = (float(f"{value:.3g}") for value in values)
    return first, second


# --- calibration ----------------------------------------------------------------------------------


def by_group(table: pd.DataFrame, values: FloatArray) -> list[FloatArray]:
    """Values of the rows of a table, an array for each group in the order of their names."""
    groups = table["group"].to_numpy()
    return [values[groups == group] for group in np.unique(groups)]


def reach(model: Model, estimates: pd.DataFrame, confidence: float = CONFIDENCE) -> float:
    """The multiple of the spread for typical ranges, calibrated on these evaluations."""
    weights = by_group(estimates, weights_of(estimates))
    return quantile_over_groups(by_group(estimates, model.scores(estimates)), weights, confidence)


def threshold(model: Model, pairs: pd.DataFrame, confidence: float = CONFIDENCE) -> float:
    """The least strength of a verdict, calibrated on these pairs."""
    wrong = by_group(pairs, ~pairs["right"].to_numpy())
    weights = by_group(pairs, weights_of(pairs))
    strengths = by_group(pairs, model.strengths(pairs))
    return threshold_over_groups(strengths, wrong, weights, 1.0 - confidence)


def odds(model: Model, pairs: pd.DataFrame) -> list[tuple[float, float, float]]:
    """Strengths, and from each to the next the share of pairs in order, averaged over groups.

    Shares are made to rise with the strength, and neighbours with the same share are joined. The
    third number is the share of the worst group.
    """
    index = np.digitize(model.strengths(pairs), STRENGTHS) - 1
    table = pairs.assign(index=index, weight=weights_of(pairs))[index >= 0]
    occupied, shares, counts = [], [], []
    for number, part in table.groupby("index"):
        by = _shares_by_group(part)
        occupied.append(int(str(number)))
        shares.append(by.mean())
        counts.append(by.size)
    if not occupied:
        return []
    rising = isotonic_regression(shares, weights=counts).x
    steps: list[tuple[float, float, float]] = []
    for level in np.unique(rising):
        joined = [place for place, other in zip(occupied, rising, strict=True) if other == level]
        by = _shares_by_group(table[table["index"].isin(joined)])
        most = track_record.MOST
        share, low = float(by.mean()), min(float(by.min()), most)
        steps.append((STRENGTHS[joined[0]], min(round(share, 3), most), np.floor(low * 1e3) / 1e3))
    return steps


def least_sure(model: Model, pairs: pd.DataFrame) -> float:
    """The least strength from which the share of right orders is enough for a verdict."""
    steps = odds(model, pairs)
    return min(
        (start for start, share, _ in steps if share >= track_record.VERDICT), default=np.inf
    )


def _shares_by_group(pairs: pd.DataFrame) -> pd.Series:
    """The share of pairs in the right order in each group, data sets alike."""
    return pairs.groupby(["group", "data"])["right"].mean().groupby("group").mean()


def is_fitting(table: pd.DataFrame) -> pd.Series:
    """Whether rows are of a group that fits the model."""
    return table["group"].isin(sources.FITTING_GROUPS)


def left_out(estimates: pd.DataFrame, differences: pd.DataFrame, metric_name: str) -> pd.DataFrame:
    """Each group judged by a calibration without it, for a metric and each number of negatives.

    A row for each group: `holds`, the share of its typical ranges that hold the exact value;
    `called`, the share of its pairs with a verdict; `wrong`, the wrong ones as a share of all
    pairs; `verdicts` and `wrong_verdicts`, their numbers; `fits`, whether the group fitted the
    model; `width`, the median of a range's half width on the logarithmic scale; `holds_90` and
    `width_90` for ranges at 90%.
    """
    estimates, pairs, model = _of_metric(estimates, differences, metric_name)
    sure = {
        group: least_sure(model, pairs[~is_fitting(pairs) & (pairs["group"] != group)])
        for group in estimates["group"].unique()
    }
    rows = []
    for m, own in estimates.groupby("n_negatives"):
        own_pairs = pairs[pairs["n_negatives"] == m]
        groups, pair_groups = own["group"], own_pairs["group"]
        for group in groups.unique():
            rest, pair_rest = own[groups != group], own_pairs[pair_groups != group]
            rest, pair_rest = rest[~is_fitting(rest)], pair_rest[~is_fitting(pair_rest)]
            judged, judged_pairs = own[groups == group], own_pairs[pair_groups == group]
            row: dict[str, Any] = {"metric": metric_name, "n_negatives": m, "group": group}
            row["fits"] = group in sources.FITTING_GROUPS
            scores, spreads = model.scores(judged), model.half_widths(judged)
            for suffix, confidence in (("", CONFIDENCE), ("_90", 0.9)):
                multiple = reach(model, rest, confidence)
                row[f"holds{suffix}"] = float(weights_of(judged) @ (scores <= multiple))
                row[f"width{suffix}"] = float(np.median(spreads) * multiple)
            least = max(threshold(model, pair_rest), sure[group])
            called = model.strengths(judged_pairs) >= least
            wrong, weights = called & ~judged_pairs["right"], weights_of(judged_pairs)
            row |= {"called": float(weights @ called), "wrong": float(weights @ wrong)}
            row |= {"verdicts": int(called.sum()), "wrong_verdicts": int(wrong.sum())}
            rows.append(row)
    return pd.DataFrame(rows)


def observed(groups: pd.DataFrame) -> dict[str, int]:
    """Verdicts on the groups of :func:`left_out` that calibrate, and the wrong ones."""
    calibrating = groups[~groups["fits"]]
    verdicts, wrong = calibrating["verdicts"].sum(), calibrating["wrong_verdicts"].sum()
    return {"verdicts": int(verdicts), "wrong": int(wrong)}


def _of_metric(
    estimates: pd.DataFrame, differences: pd.DataFrame, metric_name: str
) -> tuple[pd.DataFrame, pd.DataFrame, Model]:
    """The estimates and pairs of a metric, and the model that its fitting groups give.

    Without such groups the model is that of the bundled record.
    """
    own = with_law(estimates[estimates["metric"] == metric_name])
    pairs = pairs_of(own, differences[differences["metric"] == metric_name])
    if is_fitting(own).any():
        return own, pairs, fitted(own[is_fitting(own)], pairs[is_fitting(pairs)])
    bundled_record = track_record.record(metric_name, next(iter(LOGS)))
    return own, pairs, Model(*bundled_record[:3])


# --- the files ------------------------------------------------------------------------------------

KINDS = ("typical", "differences")


def bundled(kind: str, ranks_folder: Path = benchmark.BUNDLE) -> pd.DataFrame:
    """A table that was computed before, with groups: "typical", of estimates, or "differences"."""
    paths = sorted((ranks_folder / "evidence").glob(f"*.{kind}.csv.gz"))
    table = pd.concat([pd.read_csv(path) for path in paths], ignore_index=True)
    listed = pd.read_csv(ranks_folder / sources.TABLE.name, keep_default_na=False)
    return table.assign(group=table["data"].map(listed.set_index("name")["group"]))


def compute(
    name: str, ranks: Mapping[str, RankIntervals], folder: Path, tell: Callable[[str], object]
) -> None:
    """Draw the evaluations of a data set and write their tables."""
    tables: dict[str, list[pd.DataFrame]] = {kind: [] for kind in KINDS}
    for m, n_logs in LOGS.items():
        tell(f"{m} negatives")
        for both in logs(name, ranks, m, n_logs):
            for kind, table in zip(KINDS, both, strict=True):
                tables[kind].append(table)
    for kind, parts in tables.items():
        bundle.write_table(folder / f"{name}.{kind}.csv.gz", pd.concat(parts), 5)


def _outwards(values: Any, digits: int) -> list[float]:
    """The smallest and the largest of some values, rounded outwards."""
    scale = 10.0**digits
    ends = np.floor(scale * np.min(values)) / scale, np.ceil(scale * np.max(values)) / scale
    return [float(end) for end in ends]


def correlations(pairs: pd.DataFrame) -> FloatArray:
    """Of users' values under the two recommenders of each pair."""
    first, second = pairs["error_first"], pairs["error_second"]
    joint = first**2 + second**2 - pairs["difference_error"] ** 2
    return np.asarray(joint / (2.0 * first * second))


def stored(estimates: pd.DataFrame, differences: pd.DataFrame, most_times: float) -> dict[str, Any]:
    """The content of the library's ``track_record.json``.

    `most_times` is how many times as many candidates some users have as others.
    """
    metrics: dict[str, object] = {}
    for name in METRICS:
        own, pairs, model = _of_metric(estimates, differences, name)
        calibrating, calibrating_pairs = own[~is_fitting(own)], pairs[~is_fitting(pairs)]
        by_negatives = {}
        for m, part in own.groupby("n_negatives"):
            at_m, pairs_at_m = (
                table[table["n_negatives"] == m] for table in (calibrating, calibrating_pairs)
            )
            by_negatives[str(m)] = {
                "groups": int(at_m["group"].nunique()),
                "typical": _up(reach(model, at_m)),
                "decided": _up(threshold(model, pairs_at_m)),
                "estimates": _outwards(part["estimate"], 3),
                "firsts": _outwards(part["first"], 2),
                "exponents": _outwards(part["exponent"], 2),
                "correlation": _outwards(correlations(pairs[pairs["n_negatives"] == m]), 2)[1],
            }
        metrics[name] = {
            "centre": model.centre,
            "spread": model.spread,
            "of_pairs": model.of_pairs,
            "odds": odds(model, calibrating_pairs),
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
    groups, calibrating = {*estimates["group"]}, estimates[~is_fitting(estimates)]
    return {
        "made_by": NAME,
        "data": sorted({*estimates["data"]}),
        "groups": len(groups),
        "recommenders": _recommenders(estimates),
        "calibrating": calibrating["group"].nunique(),
        "calibrating_data": calibrating["data"].nunique(),
        "calibrating_recommenders": _recommenders(calibrating),
        "neural": 0,
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
    names = arguments.data or sorted(path.stem for path in folder.glob("*.npz"))

    def write() -> list[Path]:
        if not names:
            raise FileNotFoundError(
                f"{folder} must hold ranks that python -m {benchmark.NAME} wrote, got none"
            )
        for name in [] if arguments.fit_only else names:
            start = time.process_time()

            def tell(task: str, name: str = name, start: float = start) -> None:
                print(f"{name}, {task}, {time.process_time() - start:.0f} s", flush=True)

            compute(name, benchmark.ranks(name, folder), folder / "evidence", tell)
        estimates, differences = (bundled(kind, folder) for kind in KINDS)
        most_times = most_times_candidates(estimates["data"].unique().tolist(), folder)
        content = stored(estimates, differences, most_times)
        calibrating, fewest = content["calibrating"], fewest_groups(CONFIDENCE)
        if calibrating < fewest:
            print(
                f"no theorem: it takes {fewest} sources to calibrate, got {calibrating}", flush=True
            )
        return [bundle.write_json(output / record_file, content)]

    return bundle.run(write)


if __name__ == "__main__":
    sys.exit(main())
