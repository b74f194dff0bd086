"""Ranks of two kinds of recommenders that are known to differ from the benchmark's.

*Rating predictors* are fitted to ratings and rank all items by the rating that they predict. They
learn all ratings but the last of each user in time. PersMean, Item-Item and FunkSVD are those of
:mod:`~sampled_book.data._lenskit`; a fourth, PersMean with damped means, is added, because without
damping a film with one rating of 5 comes first. *Near-twins* are BPR, ALS and RP3beta with the
settings that the benchmark chose, beside versions that differ little: another seed, one epoch more,
half the factors, a neighbouring setting.

``python -m sampled_book.data.other_kinds`` ranks both as :mod:`~sampled_book.data.benchmark` ranks
its recommenders. On a data set of the benchmark, test items, candidates and the order of users are
the benchmark's; ``ml-1m-2998``, the first 2,998 users of MovieLens 1M, is a data set of its own.
``benchmark.ranks(name, RATINGS)`` and ``benchmark.ranks(name, TWINS)`` read the ranks. Each kind
has a separate folder, so that nothing pools it with the benchmark.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp

from sampled_metrics._validate import FloatArray

from . import _lenskit, benchmark, bundle, datasets, sources
from .benchmark_recommenders import RECOMMENDERS, SEED, TOLERANCE, Entry, Scores
from .sequences import Sequences
from .study import Scorer

NAME = "sampled_book.data.other_kinds"
RATINGS, TWINS = benchmark.BUNDLE / "ratings", benchmark.BUNDLE / "twins"
#: Ratings that are added to each item's, all of them the mean rating, in the damped PersMean.
DAMPING = 5
PREDICTORS = ("PersMean", "PersMean, damped", "Item-Item", "FunkSVD")
#: Predictors without a seed, whose ranks ``--check`` computes again.
CHECKED = ("PersMean", "PersMean, damped")
#: The benchmark's data sets with near-twins, each from another source.
TWIN_DATA = (
    *("camra2011", "facebook_books", "filmtrust", "flixster_monti", "foursquare_nyc", "kuairec"),
    *("lastfm_hetrec", "mafengwo", "ml-100k", "yahoo_movies"),
)
#: Models that are compared with versions of themselves, and what a version adds to a setting.
TWIN_MODELS: Mapping[str, Mapping[str, tuple[str, float]]] = {
    "BPR": {"another seed": ("seed", 1), "one epoch more": ("iterations", 1)},
    "ALS": {"another seed": ("seed", 1), "half the factors": ("factors", -32)},
    "RP3beta": {"alpha higher by .05": ("alpha", 0.05)},
}
#: Settings that the benchmark does not tune.
FIXED = {"seed": SEED, "iterations": 60, "factors": 64}
#: Each recommender by name, and its settings.
Entries = Mapping[str, tuple[Entry, Mapping[str, Any]]]


#: Name of each data set with ratings, and what reads it.
RATED: dict[str, Callable[[], pd.DataFrame]] = {
    "ml-100k": partial(datasets.movielens, "100k"),
    "ml-1m-2998": datasets.first_ratings,
}


# --- rating predictors ----------------------------------------------------------------------------


def rated(ratings: pd.DataFrame) -> tuple[Sequences, sp.csr_array]:
    """Each user's items in order of time, and the ratings as a matrix of users and items."""
    ordered = ratings.sort_values(["user", "timestamp"], kind="stable")
    data = Sequences.from_users(items.tolist() for _, items in ordered.groupby("user")["item"])
    if data.items.size != len(ordered):
        raise ValueError(
            "each user must rate three items or more, and each of them once: of "
            f"{len(ordered):,} ratings only {data.items.size:,} can be used"
        )
    matrix = sp.csr_array(
        (ordered["rating"].to_numpy(float, copy=True), data.items.copy(), data.starts),
        shape=(data.n_users, data.n_items),
    )
    matrix.sort_indices()
    return data, matrix


def damped_means(train: pd.DataFrame, n_items: int) -> FloatArray:
    """Mean rating of each item together with `DAMPING` ratings of the mean of all."""
    mean = train["rating"].mean()
    counts = np.bincount(train["item"], minlength=n_items)
    sums = np.bincount(train["item"], train["rating"], minlength=n_items)
    return np.asarray((sums + DAMPING * mean) / (counts + DAMPING))


def _predicted(name: str, ratings: sp.csr_array, scorer: Scorer, data: Sequences) -> Scores:
    """Predicted ratings of all items, learnt from the ratings of `data`."""
    users = np.repeat(np.arange(data.n_users), np.diff(data.starts))
    train = pd.DataFrame({"user": users, "item": data.items, "rating": ratings[users, data.items]})
    if name == "PersMean, damped":  # a user's offset is the same for every item
        means = damped_means(train, data.n_items)
        return lambda block_users: np.tile(means, (block_users.size, 1))
    table = scorer(name, train, np.arange(data.n_users), data.n_items, SEED)
    return lambda block_users: table[block_users]


def predictors(
    ratings: sp.csr_array, names: Sequence[str] = PREDICTORS, scorer: Scorer = _lenskit.scores
) -> Entries:
    """Rating predictors as recommenders of the benchmark; `scorer` as in `study.place_all`."""
    settings: Mapping[str, Any] = {**_lenskit.SETTINGS, "PersMean, damped": {"damping": DAMPING}}
    tolerances = {**_lenskit.TIE_TOLERANCE, "PersMean, damped": TOLERANCE}
    return {
        name: (Entry(partial(_predicted, name, ratings, scorer), {}, tolerances[name]), known)
        for name in names
        for known in [settings[name] | ({"seed": SEED} if name in _lenskit.SEEDED else {})]
    }


# --- near-twins -----------------------------------------------------------------------------------


def twins(name: str) -> Entries:
    """The twins of a data set, with the settings that the benchmark chose for it."""
    tuned = benchmark.facts(name)["recommenders"]
    entries: dict[str, tuple[Entry, Mapping[str, Any]]] = {}
    for model, versions in TWIN_MODELS.items():
        entry, settings = RECOMMENDERS[model], tuned[model]["settings"]
        changes: dict[str, dict[str, float]] = {
            f"{model}, {version}": {setting: (FIXED | settings)[setting] + step}
            for version, (setting, step) in versions.items()
        }
        changes[model] = {}
        for label, changed in sorted(changes.items()):
            learn = partial(entry.learn, **{**settings, **changed})
            entries[label] = (replace(entry, learn=learn), {**settings, **changed})
    return entries


def _twin_readers() -> dict[str, Callable[[], Sequences]]:
    known = sources.local()[0]
    readers = benchmark.DATA | {name: source.read for name, source in known.items()}
    missing = [name for name in TWIN_DATA if name not in readers]
    if missing:
        raise FileNotFoundError(
            f"{datasets.FOLDER_VARIABLE} must name a folder with {sources.FOLDER}/{missing[0]}."
            "txt.gz, got none"
        )
    return {name: readers[name] for name in TWIN_DATA}


# --- the bundle -----------------------------------------------------------------------------------


def rank(
    name: str, data: Sequences, entries: Entries, folder: Path, *, untuned: bool = False
) -> Iterator[str]:
    """Rank the test items and write the ranks, unless they are there; a line for each recommender.

    A data set is written once all its recommenders are ranked, so one that was interrupted starts
    anew, and the same machine gives the same bytes.
    """
    data = replace(data, n_ranked=data.n_users)  # all, without the shares above
    provenance = benchmark.described(data, f"python -m {NAME}", untuned)
    provenance["recommenders"] = {
        label: {"settings": dict(settings)} for label, (_, settings) in entries.items()
    }
    if (folder / f"{name}.json").exists():
        old, varying = benchmark.facts(name, folder), ("command", "python", "versions")
        if all(old.get(key) == value for key, value in provenance.items() if key not in varying):
            yield f"{name} in {folder.name}: already there"
            return
    intervals = {}
    for label, (entry, _) in entries.items():
        intervals[label] = benchmark.compute(entry, data, {})[0]
        yield f"{name}, {label}: NDCG@10 {intervals[label].evaluate('ndcg@10').mean():.4f}"
    benchmark.write(name, intervals, provenance, {}, folder)


def differences(folder: Path) -> list[str]:
    """Rank by the predictors without a seed again; a sentence for each difference."""
    name = "ml-100k"
    data, ratings = rated(RATED[name]())
    stored, messages = benchmark.ranks(name, folder), []
    for label, (entry, _) in predictors(ratings, CHECKED).items():
        count = benchmark.moved(benchmark.compute(entry, data, {})[0], stored[label])
        if count:
            messages.append(f"{name}, {label}: ranks differ for {count:,} users")
    return messages


def main(argv: Sequence[str] | None = None) -> int:
    """Rank by rating predictors and by near-twins, or compare some of the former with their ranks.

    The ranks are written to the folders ratings and twins; a data set that is there is left out.
    The exit status is 2 if the data cannot be had, and 1 if the ranks differ.
    """
    options = bundle.parser(NAME, main.__doc__, "compare a part with what is there").parse_args(
        argv
    )
    folder = options.output or benchmark.BUNDLE

    def write() -> Iterator[str]:
        from threadpoolctl import threadpool_limits  # on any number of threads the same rounding

        with threadpool_limits(1):
            for name, read_ratings in RATED.items():
                data, ratings = rated(read_ratings())
                entries = predictors(ratings)
                yield from rank(name, data, entries, folder / RATINGS.name, untuned=True)
            for name, read in _twin_readers().items():
                yield from rank(name, read(), twins(name), folder / TWINS.name)

    return bundle.run(
        write,
        partial(differences, folder / RATINGS.name) if options.check else None,
        "The ranks of rating predictors came out as they are kept.",
        "study",
    )


if __name__ == "__main__":
    sys.exit(main())
