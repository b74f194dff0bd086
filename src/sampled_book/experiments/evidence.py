"""What a sampled evaluation of real recommenders would have said, and each correction of it.

For recommenders whose true ranks are known (:mod:`sampled_book.data.benchmark`) the expectation and
the variance of every correction that is a fixed vector are sums over users, so nothing is
simulated: :func:`exact`. The verdicts of :func:`~sampled_metrics.compare` are taken from drawn
logs: :func:`drawn`.
``python -m sampled_book.experiments.evidence`` computes it all for data sets that the benchmark
ranked.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtr

from sampled_metrics import _confidence, estimators, evaluation, priors
from sampled_metrics._validate import FloatArray, as_written
from sampled_metrics.bounds.assumption import DECREASING, assumption_name, top_ranks
from sampled_metrics.estimators import Estimator
from sampled_metrics.log.compact import Log
from sampled_metrics.log.read import read_log
from sampled_metrics.metrics import metric
from sampled_metrics.protocol import Protocol
from sampled_metrics.ranking.intervals import RankIntervals

from ..data import benchmark, bundle
from ..data.bundled_log import simulate
from ..display.tables import Lookup, Table
from . import protocols
from .theory import HANDFUL, moments, users_behind

BUNDLE = benchmark.BUNDLE / "evidence"
METRICS = ("recall@10", "ndcg@10", "ap", "auc", "recall@50")
SIZES = (20, 100, 500)
#: Metrics that verdicts are drawn for, and on how many logs for a number of negatives; else one.
JUDGED = ("recall@10", "ndcg@10")
DRAWS = {100: 5}
#: With more negatives `protocols.effects` takes minutes and says little more.
MOST_EFFECTS = 100
#: Least bias has no correct digits with more negatives.
MOST_LEAST = 20
FITTED_PRIOR = "bias-variance, fitted prior"
#: Bias-variance with a weight of the variance that is larger than the default.
STEADY, STEADY_GAMMA = "bias-variance, gamma 0.1", 0.1
#: What decides a pair, from nothing assumed to no verdict: the name, and the word of tables.
UNDECIDED = _confidence.UNDECIDED
ASSUMPTIONS = {
    _confidence.NONE: "no assumption",
    assumption_name(DECREASING): assumption_name(DECREASING),
    UNDECIDED: UNDECIDED,
}
#: A random order is no recommender whose place anybody doubts.
FLOOR = protocols.FLOOR
SEED = 12
#: Standard errors on either side of an interval, for 95% of many users.
_REACH = 1.959963984540054
#: Differences of means below this are none.
_ROUNDING = 1e-12
_BLOCK = 1 << 22  # probabilities held at a time


# --- exact expectations and variances -------------------------------------------------------------


def corrections(
    metric_name: str, protocol: Protocol, n_users: int, prior: estimators.Prior
) -> dict[str, Estimator]:
    """The corrections of a metric that are vectors, by the names that `estimate` prints.

    `prior` is that of "bias-variance, fitted prior". Gamma is `default_gamma` of the users.
    """
    gamma = estimators.default_gamma(n_users)
    names = [name for name in estimators.NAMES if name != "least bias"]
    if protocol.n_negatives <= MOST_LEAST:
        names.append("least bias")
    estimator_by_name = {
        name: estimators.by_name(name, metric_name, protocol, gamma=gamma) for name in names
    }
    estimator_by_name[STEADY] = estimators.bias_variance(metric_name, protocol, STEADY_GAMMA)
    estimator_by_name[FITTED_PRIOR] = estimators.bias_variance(metric_name, protocol, gamma, prior)
    return estimator_by_name


def exact(
    ranks: Mapping[str, RankIntervals],
    n_negatives: int,
    replacement: bool,
    metrics: Sequence[str] = METRICS,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Errors of each correction and its verdicts on pairs, in expectation, as two tables.

    Every recommender has negatives of its own. Corrections take the mean number of candidates. The
    fitted prior is the maximum entropy fit to the expected sample of all recommenders; its own
    noise, small where many recommenders share it, is left out.

    Errors: exact; bias; sd from evaluation to evaluation, the users given; rmse; error, the
    standard error that the users' spread shows; covered, the probability that the 95% interval
    holds the exact metric, users drawn like these. Pairs, without `FLOOR`: users that the order
    rests on; wrong, the probability that one evaluation of these users orders them wrongly (one
    half if level); said_right and said_wrong, the probabilities that the 95% interval of the
    difference lies on either side of 0. Probabilities of pairs are by the normal distribution.
    """
    names = list(ranks)
    sizes = ranks[names[0]].n_candidates
    protocol = Protocol(round(float(sizes.mean())), n_negatives, replacement=replacement)
    prior = priors.maximum_entropy(expected_counts(ranks, protocol), protocol).mass
    correction_values = {
        (metric_name, name): estimator.values
        for metric_name in metrics
        for name, estimator in corrections(metric_name, protocol, sizes.size, prior).items()
    }
    vectors = np.column_stack(list(correction_values.values()))
    corrected_moments = moments(list(ranks.values()), vectors, n_negatives, replacement)
    values = {
        metric_name: {name: intervals.evaluate(metric_name) for name, intervals in ranks.items()}
        for metric_name in metrics
    }
    users_by_pair = {
        (metric_name, a, b): users_behind(values[metric_name][a], values[metric_name][b])
        for metric_name in metrics
        for a, b in _pairs(names)
    }
    errors, pairs = [], []
    for column, (metric_name, name) in enumerate(correction_values):
        mean, between = corrected_moments.mean[:, column], corrected_moments.between[column]
        within_variance = corrected_moments.within[:, column]
        truth = {name: float(of_users.mean()) for name, of_users in values[metric_name].items()}
        for i, recommender in enumerate(names):
            error = float(np.sqrt((within_variance[i] + between[i, i]) / sizes.size))
            exact_value = truth[recommender]
            bias, sd = mean[i] - exact_value, float(np.sqrt(within_variance[i] / sizes.size))
            half_width = _REACH * error
            covered = _chance(bias + half_width, error) - _chance(bias - half_width, error)
            rmse = float(np.hypot(bias, sd))
            row = metric_name, name, recommender, exact_value, bias, sd, rmse, error, covered
            errors.append(row)
        for a, b in _pairs(names):
            i, j = names.index(a), names.index(b)
            gap = truth[a] - truth[b]
            expected_lead = float(np.sign(gap) * (mean[i] - mean[j]))
            noise = within_variance[i] + within_variance[j]
            spread = between[i, i] + between[j, j] - 2.0 * between[i, j]
            sd = float(np.sqrt(noise / sizes.size))
            half_width = _REACH * float(np.sqrt((noise + max(spread, 0.0)) / sizes.size))
            probabilities = [
                _chance(lead - half_width, sd, if_zero=0.0)
                for lead in (expected_lead, -expected_lead)
            ]
            difference = 0.0 if abs(expected_lead) < _ROUNDING else float(mean[i] - mean[j])
            wrong = _chance(-expected_lead, sd)
            users = users_by_pair[metric_name, a, b]
            pair = metric_name, name, a, b, gap, users, difference, wrong, *probabilities
            pairs.append(pair)
    columns = ["metric", "estimator", "recommender", "exact", "bias", "sd", "rmse", "error"]
    pair_columns = ["metric", "estimator", "first", "second", "exact", "users", "expected"]
    return (
        pd.DataFrame(errors, columns=[*columns, "covered"]),
        pd.DataFrame(pairs, columns=[*pair_columns, "wrong", "said_right", "said_wrong"]),
    )


def _chance(mean: float, sd: float, if_zero: float = 0.5) -> float:
    """That a normal variable is above 0; `if_zero` if it is always 0."""
    if sd > _ROUNDING:
        return float(ndtr(mean / sd))
    return float(mean > 0) if abs(mean) > _ROUNDING else if_zero


def _pairs(names: Sequence[str]) -> list[tuple[str, str]]:
    return list(combinations([name for name in names if name != FLOOR], 2))


def expected_counts(ranks: Mapping[str, RankIntervals], protocol: Protocol) -> FloatArray:
    """How many users of all recommenders are expected at each sampled rank.

    As the corrections take it, all have the mean number of candidates; ranks are scaled to it.
    """
    items = int(protocol.n_items)
    users = np.sum([_histogram(intervals, items) for intervals in ranks.values()], axis=0)
    occupied = np.flatnonzero(users)
    blocks = np.array_split(occupied, 1 + occupied.size * protocol.n_negatives // _BLOCK)
    expected_counts = [users[block] @ protocol.pmf(block + 1) for block in blocks if block.size]
    return np.asarray(np.sum(expected_counts, axis=0))


def _histogram(ranks: RankIntervals, items: int) -> FloatArray:
    """Users at each of the ranks 1..items, ties spread evenly; others' ranks scaled to these."""
    scale = (items - 1) / np.maximum(ranks.n_candidates - 1, 1)
    first = np.rint(scale * ranks.n_better).astype(np.int64)
    last = np.rint(scale * (ranks.n_better + ranks.n_tied)).astype(np.int64)
    share = 1.0 / (last - first + 1.0)
    steps = np.bincount(first, share, items + 1) - np.bincount(last + 1, share, items + 1)
    return np.asarray(np.maximum(np.cumsum(steps[:-1]), 0.0))


# --- the shape of the true ranks ------------------------------------------------------------------


def users_by_doubling(ranks: Mapping[str, RankIntervals]) -> pd.DataFrame:
    """Users with their item at each doubling of the rank (1, 2-3, 4-7, ...), ties spread evenly.

    `first` is the doubling's first rank, `per_rank` users per rank.
    """
    rows = []
    for name, intervals in ranks.items():
        items = int(intervals.n_candidates.max())
        size = np.full_like(intervals.n_candidates, items)
        unscaled = RankIntervals(intervals.n_better, intervals.n_tied, size)
        below = np.concatenate([[0.0], np.cumsum(_histogram(unscaled, items))])  # up to a rank
        for first in (1 << power for power in range(items.bit_length())):
            last = min(2 * first - 1, items)
            users = below[last] - below[first - 1]
            per_rank = users / (last - first + 1)
            rows.append((name, first, users, per_rank))
    return pd.DataFrame(rows, columns=["recommender", "first", "users", "per_rank"])


def shapes(ranks: Mapping[str, RankIntervals], n_negatives: int) -> pd.DataFrame:
    """Whether the true ranks have the shape that verdicts assume.

    For each recommender: head, the number of top ranks that the assumption is about; decreasing,
    whether no doubling among them has more users per rank than the one before; rise, the largest
    excess over the doubling before in standard errors (2 or less may be chance).
    """
    rows = []
    for name, table in users_by_doubling(ranks).groupby("recommender", sort=False):
        items = float(ranks[str(name)].n_candidates.mean())
        head = top_ranks(round(items), n_negatives)
        top_rows = table[table["first"] <= head]
        size = top_rows["first"].to_numpy(float)
        users = top_rows["users"].to_numpy()
        per_rank = users / size
        variance = np.maximum(users, 1.0) / size**2
        excess = np.diff(per_rank) / np.sqrt(variance[1:] + variance[:-1])
        rise = float(max(excess.max(initial=0.0), 0.0))
        rows.append((name, head, bool((excess <= 0).all()), rise))
    columns = ["recommender", "head", "decreasing", "rise"]
    return pd.DataFrame(rows, columns=columns)


# --- drawn logs -----------------------------------------------------------------------------------


def drawn(
    ranks: Mapping[str, RankIntervals],
    n_negatives: int,
    metric_name: str,
    seed: int = SEED,
    tell: Callable[[str], object] = str,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Verdicts of :func:`~sampled_metrics.compare` on one drawn log, and the
    identification intervals, beside the exact values.

    Negatives are drawn without replacement for each user and recommender. Verdicts have a row for
    each pair but those of `FLOOR`; the assumption is a key of `ASSUMPTIONS`. Intervals have a row
    for each recommender and assumption ("nothing" or "decreasing"). `tell` reports progress.
    """
    judged, log = _log(ranks, n_negatives, seed)
    truth = {
        name: float(intervals.evaluate(metric_name).mean()) for name, intervals in judged.items()
    }
    tell("compare")
    verdicts = []
    for row in evaluation.compare(log, metric_name).frame.to_dict("records"):
        a, b = row["first"], row["second"]
        gap = truth[a] - truth[b]
        right, assumption_key = decided_order(row, gap)
        verdicts.append((a, b, gap, row["reported"], assumption_key, right))
    interval_rows = []
    for assumption in (None, "decreasing"):
        tell(f"possible, {assumption}")
        frame = evaluation.estimate(log, [metric_name], assumption=assumption).frame
        for name, *ends in frame[["recommender", "possible_low", "possible_high"]].to_numpy():
            interval_rows.append((name, assumption or "nothing", truth[name], *ends))
    columns = ["first", "second", "exact", "reported", "assumption", "right"]
    return (
        pd.DataFrame(verdicts, columns=columns),
        pd.DataFrame(interval_rows, columns=["recommender", "assumed", "exact", "low", "high"]),
    )


def decided_order(row: Mapping[Hashable, Any], gap: float) -> tuple[bool | None, str]:
    """Whether a row of a comparison has the order of the exact difference, and its assumption.

    Missing and `UNDECIDED` without a verdict by a theorem.

    >>> row = {"first": "A", "verdict": "A probably beats B", "warrant": "track record"}
    >>> decided_order(row | {"assumption": "like the benchmark"}, 0.1)
    (None, 'undecided')
    """
    if row["warrant"] != _confidence.THEOREM:
        return None, UNDECIDED
    is_first = row["verdict"].startswith(f"{row['first']} ")
    return bool(is_first == (gap > 0) and gap != 0), str(row["assumption"])


def _log(
    ranks: Mapping[str, RankIntervals], n_negatives: int, seed: int
) -> tuple[dict[str, RankIntervals], Log]:
    """All recommenders but `FLOOR`, and a log of them, without replacement."""
    judged = {name: intervals for name, intervals in ranks.items() if name != FLOOR}
    rng = np.random.default_rng([seed, n_negatives])
    return judged, read_log(simulate(judged, n_negatives, rng), replacement=False)


# --- the bundle -----------------------------------------------------------------------------------

KINDS = ("errors", "pairs", "verdicts", "possible", "effects", "fewer")


def run(
    name: str,
    ranks: Mapping[str, RankIntervals],
    folder: Path,
    sizes: Sequence[int] = SIZES,
    tell: Callable[[str], object] = str,
) -> None:
    """Compute the tables of a data set and write each after every part, so that a run resumes.

    "errors" and "pairs" are from :func:`exact`, "verdicts" and "possible" from :func:`drawn` on
    `DRAWS` logs, "effects" and "fewer" from `protocols`. Numbers of negatives that a user's
    candidates do not allow are left out.
    """
    most_negatives = int(next(iter(ranks.values())).n_candidates.min()) - 1
    feasible_sizes = [size for size in sizes if size <= most_negatives]
    if not feasible_sizes:
        raise ValueError(
            f"{name} must have users with more than {min(sizes)} candidates, got "
            f"{most_negatives + 1}"
        )
    tasks: list[tuple[dict[str, Any], tuple[str, ...], Callable[[], Any]]] = []
    for m in feasible_sizes:
        for replacement in (False, True):
            exact_cell = {"m": m, "replacement": replacement}
            tasks.append((exact_cell, KINDS[:2], partial(exact, ranks, m, replacement)))
    for m in feasible_sizes:
        if m <= MOST_EFFECTS:
            tasks.append(({"m": m}, KINDS[4:], partial(_of_protocols, ranks, m)))
        for metric_name, draw in product(JUDGED, range(DRAWS.get(m, 1))):
            log = {"m": m, "metric": metric_name, "draw": draw}
            tasks.append((log, KINDS[2:4], partial(drawn, ranks, m, metric_name, SEED + draw)))
    for cell, kinds, compute in tasks:
        stored = {kind: _kept(folder / f"{name}.{kind}.csv.gz", cell) for kind in kinds}
        if all(is_stored for _, is_stored in stored.values()):
            continue
        tell(", ".join(f"{key} {value}" for key, value in cell.items()))
        for kind, table in zip(kinds, compute(), strict=True):
            merged = pd.concat([stored[kind][0], table.assign(**cell)], ignore_index=True)
            write(folder / f"{name}.{kind}.csv.gz", merged)


def _of_protocols(ranks: Mapping[str, RankIntervals], m: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    return protocols.effects(ranks, m), protocols.fewer_users(ranks, m)


def _kept(path: Path, cell: Mapping[str, Any]) -> tuple[pd.DataFrame, bool]:
    """What a file has of other cells, and whether it has this one."""
    if not path.exists():
        return pd.DataFrame(), False
    table = pd.read_csv(path)
    in_cell = np.logical_and.reduce([table[key] == value for key, value in cell.items()])
    return table[~in_cell], bool(in_cell.any())


def write(path: Path, table: pd.DataFrame) -> Path:
    """Write a table with numbers to five digits."""
    return bundle.write_table(path, table, 5)


def bundled(
    kind: str, names: Sequence[str] | None = None, folder: str | Path = BUNDLE
) -> pd.DataFrame:
    """A table of one kind (see `run`) computed before, of some data sets or all, with column
    data; `folder` is where the command's ``--output`` wrote, by default the package's own.
    """
    if kind not in KINDS:
        raise ValueError(f"kind must be one of {', '.join(KINDS)}, got {as_written(kind)}")
    root = Path(folder)
    available = [path.name.split(".")[0] for path in sorted(root.glob(f"*.{kind}.csv.gz"))]
    order = [name for name in benchmark.DATA if name in available]
    chosen = names or [*order, *(name for name in available if name not in order)]
    tables = []
    for name in chosen:
        if name not in available:
            raise FileNotFoundError(
                f"{root} has no evidence of {as_written(name)}: it must be one of "
                f"{', '.join(available)}"
            )
        table = pd.read_csv(root / f"{name}.{kind}.csv.gz")
        table.insert(0, "data", name)
        tables.append(table)
    return pd.concat(tables, ignore_index=True)


def every(kind: str, folder: str | Path = "") -> pd.DataFrame:
    """A table of the package's data sets and of those in a folder of ranks, whose evidence is in
    its folder "evidence".
    """
    tables = [bundled(kind)]
    if folder:
        folder_names = [
            name for name, location in benchmark.every(folder).items() if location == Path(folder)
        ]
        other_rows = tables[0][~tables[0]["data"].isin(folder_names)]
        tables = [other_rows, bundled(kind, folder_names, Path(folder) / "evidence")]
    return pd.concat(tables, ignore_index=True)


# --- what follows from it -------------------------------------------------------------------------


def settled_pairs(pairs: pd.DataFrame) -> pd.DataFrame:
    """The pairs whose exact order rests on a handful of users at least."""
    return pairs[pairs["users"] >= HANDFUL]


def naive_orders(pairs: pd.DataFrame) -> pd.DataFrame:
    """How often the reported order is wrong, by data, metric, m and replacement: `reversed` pairs
    are wrong in expectation; `wrong` is the mean probability that one evaluation orders a pair
    wrongly.
    """
    naive = settled_pairs(pairs[pairs["estimator"] == "naive"])
    is_reversed = naive["expected"] * naive["exact"] < 0
    groups = naive.assign(reversed=is_reversed).groupby(
        ["data", "metric", "m", "replacement"], sort=False
    )
    summary = groups.agg(
        pairs=("wrong", "size"), reversed=("reversed", "sum"), wrong=("wrong", "mean")
    )
    return summary.reset_index()


def by_correction(errors: pd.DataFrame, pairs: pd.DataFrame) -> pd.DataFrame:
    """Each correction's errors over recommenders, and its verdicts over the `settled_pairs`.

    By data, metric, m, replacement and estimator: bias, the mean absolute one; rmse, the root of
    the mean square; share, rmse over the mean exact metric; covered; wrong, said_right and
    said_wrong.
    """
    keys = ["data", "metric", "m", "replacement", "estimator"]
    squares = errors.assign(bias=errors["bias"].abs(), square=errors["rmse"] ** 2)
    groups = squares.groupby(keys, sort=False)
    summary = groups[["bias", "square", "exact", "covered"]].mean()
    summary["rmse"] = np.sqrt(summary.pop("square"))
    summary["share"] = summary["rmse"] / summary.pop("exact")
    orders = settled_pairs(pairs).groupby(keys, sort=False)[["wrong", "said_right", "said_wrong"]]
    return summary.join(orders.mean()).reset_index()


def by_assumption(verdicts: pd.DataFrame) -> pd.DataFrame:
    """How many pairs each assumption decides, and how many of these wrongly, over all logs, by
    data, metric and m.
    """
    wrong = verdicts["right"].eq(False)
    groups = verdicts.assign(wrong=wrong).groupby(["data", "metric", "m", "assumption"], sort=False)
    return groups.agg(pairs=("wrong", "size"), wrong=("wrong", "sum")).reset_index()


def decided(verdicts: pd.DataFrame) -> pd.DataFrame:
    """The part of the pairs that each assumption decides, over all data sets and logs, as text,
    with the wrong verdicts if there are any. By metric and m.

    >>> decided(bundled("verdicts")).columns.tolist()
    ['no assumption', 'decreasing at the top', 'undecided']
    """
    counts = (
        by_assumption(verdicts).groupby(["metric", "m", "assumption"])[["pairs", "wrong"]].sum()
    )
    share = counts["pairs"] / counts.groupby(["metric", "m"])["pairs"].transform("sum")
    words = [
        f"{part:.1%}" + (f" ({wrong} of {pairs} wrong)" if wrong else "")
        for part, pairs, wrong in zip(share, counts["pairs"], counts["wrong"], strict=True)
    ]
    spelled = pd.Series(words, counts.index).unstack("assumption")
    return columns_by_assumption(spelled, "0.0%")


def columns_by_assumption(table: pd.DataFrame, missing: str) -> pd.DataFrame:
    """The columns of a table by assumption, in the order of `ASSUMPTIONS` and with its words.

    >>> table = pd.DataFrame({"undecided": ["3"], "none": ["2"]})
    >>> columns_by_assumption(table, "0").iloc[0].tolist()
    ['2', '0', '3']
    """
    ordered = table.fillna(missing).reindex(columns=list(ASSUMPTIONS), fill_value=missing)
    return ordered.rename(columns=ASSUMPTIONS).rename_axis(columns=None)


def lookup(name: str, folder: str | Path = "") -> Lookup:
    """Tables of each correction's errors and verdicts, by data set, metric and number of negatives,
    for a reader to choose from.
    """
    errors, pairs, verdicts = (every(metric_name, folder) for metric_name in KINDS[:3])
    errors, pairs = (table[~table["replacement"]] for table in (errors, pairs))
    keys = ["data", "metric", "m"]
    orders = {
        tuple(row[column] for column in keys): row for row in naive_orders(pairs).to_dict("records")
    }
    judged = by_assumption(verdicts).groupby(keys)
    tables: dict[tuple[str, ...], Table] = {}
    for key, rows in by_correction(errors, pairs).groupby(keys, sort=False):
        data_set, metric_name, m = map(str, key)
        label = metric(metric_name).label
        caption = f"{data_set}, {label}, {m} negatives."
        if tuple(key) in orders:  # some pair is told apart
            order = orders[tuple(key)]
            caption += (
                f" The reported order is the wrong one in expectation for {order['reversed']} of "
                f"{order['pairs']} pairs."
            )
        if key in judged.groups:
            verdict_rows = judged.get_group(key).set_index("assumption")
            words = verdict_rows["pairs"].rename(ASSUMPTIONS)
            counts = ", ".join(f"{count} {name}" for name, count in words.items())
            logs = DRAWS.get(int(m), 1)
            caption += f" Verdicts on {'one log' if logs == 1 else f'{logs} logs'}: {counts}; "
            caption += f"{verdict_rows['wrong'].sum()} of them wrong."
        chances = {"Order": 1.0 - rows["wrong"], "Right": rows["said_right"]}
        columns = {"Correction": rows["estimator"], "RMSE": rows["rmse"], "Bias": rows["bias"]}
        columns |= {"Covers": rows["covered"], **chances, "Wrong": rows["said_wrong"]}
        formats = {"RMSE": ".4f", "Bias": ".4f"} | dict.fromkeys(
            ["Covers", "Order", "Right", "Wrong"], ".0%"
        )
        tables[data_set, label, m] = Table(pd.DataFrame(columns), "", caption, formats)
    return Lookup(name, ["Data set", "Metric", "Negatives"], tables)


# --- the command ----------------------------------------------------------------------------------


def main(argv: Sequence[str] | None = None) -> int:
    """Compute the evidence of data sets whose ranks the benchmark has, and write it.

    The exit status is 2 if there are no such ranks.
    """
    parser = bundle.parser("sampled_book.experiments.evidence", main.__doc__)
    parser.add_argument("--data", nargs="+", help="names; default: the six, or a folder's")
    parser.add_argument("--ranks", type=Path, help="folder of the ranks; default: the package's")
    parser.add_argument("--sizes", nargs="+", type=int, default=list(SIZES), help="negatives")
    arguments = parser.parse_args(argv)
    ranks_folder = arguments.ranks or benchmark.BUNDLE
    output = arguments.output or (
        BUNDLE if arguments.ranks is None else arguments.ranks / "evidence"
    )

    def write() -> None:
        known = benchmark.names_in(ranks_folder) if arguments.ranks else list(benchmark.DATA)
        for name in arguments.data or known:
            ranks = benchmark.ranks(name, ranks_folder)
            run(name, ranks, output, arguments.sizes, bundle.timed(name))

    return bundle.run(write)


if __name__ == "__main__":
    sys.exit(main())
