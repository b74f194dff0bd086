"""The experiment of ekstrand2017: four recommenders on MovieLens, judged among random decoys.

Users are divided into five sets. Five ratings of each user of a set are test ratings; all other
ratings are training ratings. The recommenders learn from these and score every item, and what is
kept is where each test item stands among the items that its user has not rated, ties being kept
open (:class:`sampled_metrics.RelevantSets`). From that the expectation of every
metric among any number of random decoys follows, and no decoy is drawn.

``python -m sampled_book.data.study`` computes it all from the ratings, by LensKit (the extra
``study``), and writes the files that :func:`bundled_study` reads; ``--check`` compares instead.
MovieLens may not be redistributed: the files hold places, counts and means, no ratings, and no ids
of users or items.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from sampled_metrics._files import put
from sampled_metrics._validate import FloatArray, IntArray, as_written, integer
from sampled_metrics.metrics import Metric
from sampled_metrics.relevant_sets import RelevantSets

from ..experiments.theory import Standing, expected_gain
from . import _lenskit, bundle, datasets
from .division import N_TEST, Division, split

RECOMMENDERS = tuple(_lenskit.SETTINGS)
#: Seed of the split; the paper gives none.
SPLIT_SEED = 2017
#: Lengths of the lists whose nDCG is computed as in the authors' software.
LISTS = (10, 25, 100)
#: Seeds of the recommenders that have one; the places that are kept are those of the first.
SEEDS = (0, 1, 2, 3, 4)
_SHARED = ("n_irrelevant", "weight_total")  # the same for every recommender
_ARRAYS = ("popularity", "part", "item_counts")
_BLOCK = 256  # users whose scores are held at a time


@dataclass(frozen=True, eq=False, repr=False)
class WeighedSets(RelevantSets):
    """Where test items stand, with the total weights of the decoys above and level, and of all."""

    weight_better: IntArray
    weight_tied: IntArray
    weight_total: IntArray

    @property
    def by_weight(self) -> RelevantSets:
        """The same for decoys drawn by weight with replacement: weights in place of numbers.

        The copies of a decoy that is level with a test item are placed each by itself.
        """
        weights = self.weight_better, self.weight_tied, self.level, self.weight_total
        return RelevantSets(*weights)


_PLACES = tuple(field.name for field in fields(WeighedSets))


# --- where the test items stand -------------------------------------------------------------------


def place(
    scores: ArrayLike,
    test_items: ArrayLike,
    rated: ArrayLike,
    popularity: ArrayLike,
    relative_tolerance: float = 0.0,
) -> WeighedSets:
    """Places of each user's test items among the items that the user has not rated.

    `scores` and `rated` have shape (n_users, n_items), higher scores are better; `rated` items, in
    training or test, are not decoys, while an item masked by a score of minus infinity is.
    `popularity` (n_items,), the training ratings, weighs the decoys. Neighbouring scores in a
    user's order are level if they differ by at most `relative_tolerance` of the larger, and so are
    all scores in a chain of such pairs; infinite scores are level with their equals only.
    """
    table, items, is_rated = np.asarray(scores), np.asarray(test_items), np.asarray(rated, bool)
    levels = _levels(table, relative_tolerance)
    test_levels = np.take_along_axis(levels, items, axis=1)
    better, tied, weight_better, weight_tied = (np.empty_like(items) for _ in range(4))
    float_weights = np.asarray(popularity, dtype=np.float64)
    for column, item_level in enumerate(test_levels.T):
        is_above = (levels < item_level[:, None]) & ~is_rated
        is_level = (levels == item_level[:, None]) & ~is_rated
        better[:, column], tied[:, column] = is_above.sum(axis=1), is_level.sum(axis=1)
        weight_better[:, column] = is_above @ float_weights
        weight_tied[:, column] = is_level @ float_weights
    return WeighedSets(
        n_better=better,
        n_tied=tied,
        level=_levels(-test_levels),
        n_irrelevant=(~is_rated).sum(axis=1),
        weight_better=weight_better,
        weight_tied=weight_tied,
        weight_total=(~is_rated @ float_weights).astype(np.int64),
    )


def _levels(scores: NDArray[Any], relative_tolerance: float = 0.0) -> IntArray:
    """Dense place of each score in its row: 0 the best, level scores alike."""
    order = np.argsort(scores, axis=1)[:, ::-1]
    ordered = np.take_along_axis(scores, order, axis=1)
    has_gap = ordered[:, :-1] > ordered[:, 1:]
    if relative_tolerance:
        float_scores = np.asarray(ordered, dtype=np.float64)
        high, low = float_scores[:, :-1], float_scores[:, 1:]
        with np.errstate(all="ignore"):  # what is infinite is level with its equals alone
            is_close = high - low <= relative_tolerance * np.maximum(np.abs(high), np.abs(low))
        has_gap &= ~(is_close & np.isfinite(high) & np.isfinite(low))
    places = np.zeros(scores.shape, dtype=np.int64)
    places[:, 1:] = np.cumsum(has_gap, axis=1)
    levels = np.empty_like(places)
    np.put_along_axis(levels, order, places, axis=1)
    return levels


Scorer = Callable[[str, pd.DataFrame, IntArray, int, int], FloatArray]


def place_all(
    sets: Division, recommender: str, seed: int, scorer: Scorer = _lenskit.scores
) -> tuple[WeighedSets, IntArray]:
    """Places of all test items under a recommender of `RECOMMENDERS`, and their training ratings,
    shape (n_users, n_test). `scorer` maps (recommender, training ratings, users, n_items, seed)
    to scores, shape (n_users, n_items).
    """
    placed, popular = [], []
    for part in range(sets.n_sets):
        train = sets.training(part)
        counts = np.bincount(train["item"], minlength=sets.n_items)
        in_part = sets.part == part
        users, items = sets.users[in_part], sets.test_items[in_part]
        table = scorer(recommender, train, users, sets.n_items, seed)
        rows = pd.Series(np.arange(len(users)), index=users)
        user_ratings = sets.ratings[sets.ratings["user"].isin(users)]
        rated = np.zeros(table.shape, dtype=bool)
        rated[rows[user_ratings["user"]], user_ratings["item"]] = True
        tolerance = _lenskit.TIE_TOLERANCE[recommender]
        placed += [
            place(table[block], items[block], rated[block], counts, tolerance)
            for block in (slice(start, start + _BLOCK) for start in range(0, len(users), _BLOCK))
        ]
        popular.append(counts[items])
    return _stacked(placed), np.concatenate(popular)


def _stacked(parts: Sequence[WeighedSets]) -> WeighedSets:
    return WeighedSets(
        **{name: np.concatenate([getattr(part, name) for part in parts]) for name in _PLACES}
    )


# --- what needs the ratings themselves ------------------------------------------------------------


def rank_effectiveness(
    level: IntArray, gains: FloatArray, discount: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """How well a recommender orders the test items alone, by the users' own ratings.

    This is the protocol that ekstrand2017 recommends ("Conclusion"), TestItems in bellogin2011.
    `level` (n_users, n_test) is the place of each test item among them, 0 the best, equal for level
    ones; `gains` are the ratings, `discount` that of ranks 1 to n_test. Returns each user's NDCG,
    an exact mean over the random order of level items, and the share of concordant pairs with
    unequal ratings, level ones counting half; NaN for a user without such a pair.
    """
    is_level = level[:, :, None] == level[:, None, :]
    mean_gains = (is_level * gains[:, None, :]).sum(axis=2) / is_level.sum(axis=2)
    order = np.argsort(level, axis=1, kind="stable")
    discounted_gains = np.take_along_axis(mean_gains, order, axis=1) @ discount
    ideal = -np.sort(-gains, axis=1) @ discount
    rated = np.sign(gains[:, :, None] - gains[:, None, :])
    ranked = np.sign(level[:, None, :] - level[:, :, None])
    pairs = (rated != 0).sum(axis=(1, 2))
    agree = ((rated * ranked + 1) / 2 * (rated != 0)).sum(axis=(1, 2))
    with np.errstate(invalid="ignore"):
        return discounted_gains / ideal, agree / pairs


def software_discounts(length: int) -> FloatArray:
    """Discounts of ranks 1 to `length` in LensKit 3, the authors' software: 1 / max(1, log2(rank)),
    as in jarvelin2002, so that ranks 1 and 2 count alike. This package's NDCG has 1 / log2(rank
    + 1).
    """
    return np.asarray(1 / np.maximum(1.0, np.log2(np.arange(1, integer(length, "length", 1) + 1))))


def decoy_grid(most: int, size: int = 40) -> IntArray:
    """Numbers of decoys from 5 to `most`, about evenly spaced in their logarithm.

    >>> decoy_grid(1000, 5)
    array([   5,   19,   71,  266, 1000])
    """
    return np.unique(np.geomspace(5, integer(most, "most", 5), size).round().astype(np.int64))


def _mean_and_error(values: FloatArray) -> list[float]:
    """Mean over users and its standard error, those without a value being left out."""
    valid_values = values[~np.isnan(values)]
    error = valid_values.std(ddof=1) / np.sqrt(valid_values.size)
    return [float(valid_values.mean()), float(error)]


def _software_curves(places: Mapping[str, WeighedSets], gains: FloatArray) -> dict[str, Any]:
    """nDCG as the authors' software has it, at a grid of decoys and with all unrated items."""
    pool = next(iter(places.values())).n_irrelevant
    grid = decoy_grid(int(pool.max()))
    curves: dict[str, Any] = {"decoys": grid.tolist()}
    for length in LISTS:
        discounts = software_discounts(length)
        curves[f"ndcg@{length}"] = {
            name: [
                _mean_and_error(expected_gain(sets, gains, discounts, np.minimum(n, pool)))
                for n in [*grid, int(pool.max())]
            ]
            for name, sets in places.items()
        }
    return curves


def _effectiveness(places: Mapping[str, WeighedSets], gains: FloatArray) -> dict[str, Any]:
    """Rank effectiveness of each recommender, of random order, and the differences of all pairs."""
    ours = 1 / np.log2(np.arange(2, gains.shape[1] + 2))
    discounts = {"ndcg": ours, "software ndcg": software_discounts(gains.shape[1])}
    levels = {name: sets.level for name, sets in places.items()}
    levels["random order"] = np.zeros_like(next(iter(levels.values())))
    summaries: dict[str, Any] = {}
    for kind in ("ndcg", "software ndcg", "concordant pairs"):
        discount, measure_index = discounts.get(kind, ours), int(kind == "concordant pairs")
        values = {
            name: rank_effectiveness(level, gains, discount)[measure_index]
            for name, level in levels.items()
        }
        summaries[kind] = {name: _mean_and_error(value) for name, value in values.items()}
        summaries[f"{kind}, difference"] = {
            f"{first} - {second}": _mean_and_error(values[first] - values[second])
            for first, second in combinations(values, 2)
        }
    return summaries


# --- the study ------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Study:
    """The experiment on one data set.

    `sets`: where the test items of each test user rank under each recommender, weighed by training
    ratings; users are in random order, set after set, the same for every recommender. `popularity`
    (n_users, n_test): training ratings of each test item. `part` (n_users,): the set of each test
    user, from 0. `item_counts` (n_items,): ratings of each item in the whole data set, the most
    rated first (figure 1 of the paper). `facts`: ``ratings``, ``users``, ``items`` (Table 1);
    ``left_out``, users with too few ratings; ``spread``, `statistics` of the places for each
    of `SEEDS`; ``software``, nDCG as in the authors' software, [mean, standard error] for each
    number of ``decoys`` (or all of a user's unrated items where these are fewer);
    ``effectiveness``, the same of the test items alone, and paired differences.
    """

    sets: Mapping[str, WeighedSets]
    popularity: IntArray
    part: IntArray
    item_counts: IntArray
    facts: Mapping[str, Any]

    @property
    def recommenders(self) -> tuple[str, ...]:
        """Names of the recommenders, in the order of the paper."""
        return tuple(self.sets)

    @property
    def n_users(self) -> int:
        """Number of test users."""
        return len(self.part)

    @property
    def n_irrelevant(self) -> IntArray:
        """Items that each user has not rated: what decoys are drawn from."""
        return next(iter(self.sets.values())).n_irrelevant


def standing(
    sets: Mapping[str, WeighedSets],
    metric: Metric,
    n_decoys: int | None = None,
    *,
    weighted: bool = False,
) -> Standing:
    """The order of recommenders by a metric, in expectation over `n_decoys` distinct decoys (all of
    a user's unrated items where these are fewer or none are given), or over decoys drawn by
    their number of ratings with replacement if `weighted`.
    """
    return standings(sets, [metric], n_decoys, weighted=weighted)[0]


def standings(
    sets: Mapping[str, WeighedSets],
    metrics: Sequence[Metric],
    n_decoys: int | None = None,
    *,
    weighted: bool = False,
) -> list[Standing]:
    """The :func:`standing` by each of several metrics, which takes little longer than by one."""
    lists = sorted({metric.k for metric in metrics if metric.k is not None})
    all_metrics = [*metrics, *(Metric("hit", k) for k in lists)]
    values_by_name: dict[str, Sequence[FloatArray]] = {}
    for name, places in sets.items():
        if n_decoys is None:
            values_by_name[name] = [places.evaluate(metric) for metric in all_metrics]
        elif weighted:
            drawn = places.by_weight.expected(all_metrics, n_decoys, replacement=True)
            values_by_name[name] = [*drawn]
        else:
            pool = places.n_irrelevant
            values_by_name[name] = [*places.expected(all_metrics, np.minimum(n_decoys, pool))]

    def rows(metric_index: int) -> dict[str, FloatArray]:
        return {name: values[metric_index] for name, values in values_by_name.items()}

    return [
        Standing.from_values(
            rows(i), None if metric.k is None else rows(len(metrics) + lists.index(metric.k))
        )
        for i, metric in enumerate(metrics)
    ]


def conduct(
    sets: Division,
    *,
    seeds: Sequence[int] = SEEDS,
    scorer: Scorer = _lenskit.scores,
    progress: Callable[[str], object] = str,
) -> Study:
    """Conduct the experiment; the places of the first seed are kept. `scorer` is as in
    :func:`place_all`; `progress` is called with a description of the next step.
    """
    places: dict[str, WeighedSets] = {}
    spread: dict[str, dict[str, list[float]]] = {}
    for name in RECOMMENDERS:
        for seed in seeds if name in _lenskit.SEEDED else seeds[:1]:
            progress(f"{name}, seed {seed}")
            seed_places, popularity = place_all(sets, name, seed, scorer)
            places.setdefault(name, seed_places)
            for kind, value in statistics(seed_places).items():
                spread.setdefault(name, {}).setdefault(kind, []).append(value)
    progress("nDCG with ratings")
    ratings = sets.ratings
    facts = {
        "ratings": len(ratings),
        "users": int(ratings["user"].nunique()),
        "items": sets.n_items,
        "left_out": len(sets.left_out),
        "spread": spread,
        "software": _software_curves(places, sets.gains),
        "effectiveness": _effectiveness(places, sets.gains),
    }
    item_counts = -np.sort(-np.bincount(ratings["item"]))
    return Study(places, popularity, sets.part, item_counts, facts)


def statistics(places: WeighedSets) -> dict[str, float]:
    """Two numbers by which two runs of a recommender are compared. ``auc``: mean share of the
    unrated items below a test item, level ones counting half. ``log rank``: mean logarithm of
    one plus the number above it, likewise.
    """
    above = places.n_better + places.n_tied / 2
    return {
        "auc": float(1 - (above / places.n_irrelevant[:, None]).mean()),
        "log rank": float(np.log1p(above).mean()),
    }


def differences(fresh: Study, stored: Study) -> list[str]:
    """A sentence for each difference between a study computed again and the kept one.

    Popular and PersMean must come out the same to the last place. Item-Item and FunkSVD must be as
    near to the kept ones as other seeds: each of `statistics` within four standard deviations of
    the kept seeds (each with its first seed).
    """

    def kept(study: Study) -> Iterator[tuple[str, Any]]:
        for name in ("ratings", "users", "items", "left_out"):
            yield name, study.facts[name]
        for name in _ARRAYS:
            yield name, getattr(study, name)
        for name in [name for name in stored.recommenders if name not in _lenskit.SEEDED]:
            for column in _PLACES:
                yield f"{name}: {column}", getattr(study.sets[name], column)
            for group in ("software", "effectiveness"):
                for kind, values in study.facts[group].items():
                    if name in values:
                        yield f"{name}: {group}, {kind}", values[name]

    messages = [
        f"{quantity} must be as it is kept, got another"
        for (quantity, ours), (_, old) in zip(kept(fresh), kept(stored), strict=True)
        if np.shape(ours) != np.shape(old) or not np.allclose(ours, old)
    ]
    for name in _lenskit.SEEDED:
        fresh_statistics = statistics(fresh.sets[name])
        for kind, seeds in stored.facts["spread"][name].items():
            reach = 1e-9 + 4 * float(np.std(seeds, ddof=1))
            value = fresh_statistics[kind]
            if abs(value - seeds[0]) > reach:
                limit = f"within {reach:.2g} of {seeds[0]:.6f}"
                messages.append(f"{name}: {kind} must be {limit}, got {value:.6f}")
    return messages


# --- the bundle -----------------------------------------------------------------------------------


def bundled_study(data: str = "ml-100k", folder: str | Path | None = None) -> Study:
    """The study of a data set, computed before: "ml-100k" (MovieLens 100K), "ml-1m-2998" (the first
    2,998 users of MovieLens 1M), or another from a `folder` that ``python -m
    sampled_book.data.study --output`` wrote.
    """
    directory = datasets.BUNDLE if folder is None else Path(folder)
    try:
        facts = json.loads((directory / "decoys.json").read_text(encoding="utf-8"))["data"]
        with np.load(directory / "decoys.npz") as bundle:
            arrays = {name: bundle[name].astype(np.int64) for name in bundle.files}
    except FileNotFoundError as problem:
        raise FileNotFoundError(f"{problem.filename} is missing: it must hold a study") from None
    if data not in facts:
        raise ValueError(f"data must be one of {', '.join(facts)}, got {as_written(data)}")
    shared = {name: arrays[f"{data}/{name}"] for name in _SHARED}
    per_recommender = [name for name in _PLACES if name not in _SHARED]
    sets = {
        name: WeighedSets(
            **shared, **{column: arrays[f"{data}/{name}/{column}"] for column in per_recommender}
        )
        for name in facts[data]["spread"]
    }
    popularity, part, item_counts = (arrays[f"{data}/{name}"] for name in _ARRAYS)
    return Study(sets, popularity, part, item_counts, facts[data])


def write_study(studies: Mapping[str, Study], folder: Path) -> list[Path]:
    """Write the files that :func:`bundled_study` reads, each atomically; their paths."""
    arrays: dict[str, Any] = {}
    for data, study in studies.items():
        for name in _ARRAYS:
            arrays[f"{data}/{name}"] = getattr(study, name)
        for recommender, sets in study.sets.items():
            for name in _PLACES:
                part = "" if name in _SHARED else f"{recommender}/"
                arrays[f"{data}/{part}{name}"] = getattr(sets, name)
    packed_arrays: dict[str, Any] = {
        name: counts.astype(np.min_scalar_type(counts.max())) for name, counts in arrays.items()
    }
    facts = {
        "split_seed": SPLIT_SEED,
        "seeds": list(SEEDS),
        "settings": _lenskit.SETTINGS,
        "data": {data: _rounded(study.facts) for data, study in studies.items()},
    }
    written = bundle.write_arrays(folder / "decoys.npz", **packed_arrays)
    return [written, put(folder / "decoys.json", _lines(facts).encode())]


def _rounded(facts: Any) -> Any:
    """The same with numbers to twelve digits, enough to compare and fewer to carry."""
    if isinstance(facts, Mapping):
        return {name: _rounded(value) for name, value in facts.items()}
    if isinstance(facts, list):
        return [_rounded(value) for value in facts]
    return float(f"{facts:.12g}") if isinstance(facts, float) else facts


def _lines(value: Any, indent: str = "") -> str:
    """JSON with a line for each entry of a mapping, and each list in one line."""
    if not isinstance(value, Mapping):
        return json.dumps(value)
    inner = indent + " "
    entries = (f"{inner}{json.dumps(k)}: {_lines(v, inner)}" for k, v in value.items())
    return "{\n" + ",\n".join(entries) + f"\n{indent}}}" + ("" if indent else "\n")


# --- the command ----------------------------------------------------------------------------------

#: Test users in each set where they are not all (ekstrand2017).
USERS_PER_SET = {"ml-10m": 5000}
#: The data sets that come with the package.
BUNDLED = ("ml-100k", "ml-1m-2998")


def _ratings(data: str) -> pd.DataFrame:
    if data == "ml-1m-2998":
        return datasets.first_ratings()
    return datasets.movielens(data.removeprefix("ml-"))  # type: ignore[arg-type]


def _conduct_all(names: Iterable[str], seeds: Sequence[int]) -> dict[str, Study]:
    studies = {}
    for data in names:
        sets = split(_ratings(data), SPLIT_SEED, users_per_set=USERS_PER_SET.get(data))
        if len(sets.left_out):
            left_out = f"{len(sets.left_out):,} users with fewer than {N_TEST} ratings"
            print(f"{data}: {left_out} are left out", file=sys.stderr)
        tell = partial(print, f"{data}:", file=sys.stderr, flush=True)
        studies[data] = conduct(sets, seeds=seeds, scorer=_lenskit.scores, progress=tell)
    return studies


def main(argv: Sequence[str] | None = None) -> int:
    """Compute the study and write it, or compare it with the one that is kept.

    The exit status is 2 if it cannot be computed, and 1 if it differs.
    """
    parser = bundle.parser("sampled_book.data.study", main.__doc__, "compare with what is there")
    parser.add_argument(
        "--data",
        nargs="+",
        choices=[*BUNDLED, "ml-1m", "ml-10m"],
        default=list(BUNDLED),
        help="data sets to study; default: those that come with the package",
    )
    options = parser.parse_args(argv)
    folder = options.output or datasets.BUNDLE
    if not options.check and options.output is None and set(options.data) != set(BUNDLED):
        parser.error("give an --output folder for data sets other than those of the package")

    def compare() -> list[str]:
        stored = {data: bundled_study(data, folder) for data in options.data}
        studies = _conduct_all(options.data, SEEDS[:1])
        with TemporaryDirectory() as temporary:  # as they would be read
            write_study(studies, Path(temporary))
            return [
                f"{data}: {difference}"
                for data in options.data
                for difference in differences(bundled_study(data, temporary), stored[data])
            ]

    return bundle.run(
        lambda: write_study(_conduct_all(options.data, SEEDS), folder),
        compare if options.check else None,
        "The study came out as it is kept.",
    )


if __name__ == "__main__":
    sys.exit(main())
