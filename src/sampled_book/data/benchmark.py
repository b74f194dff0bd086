"""Recommenders that people use, tuned and ranked exactly on data sets that people use.

``python -m sampled_book.data.benchmark`` computes the rank intervals that :func:`ranks` reads. A
data set is a line of `DATA`, one of the folder ``recommenders`` beside them
(:mod:`~sampled_book.data.sources`), or a file or folder of sequences given on the command line:
one user a line, first the user, then the items in order of time, numbers or words. The last item
of a user is the test item, the one before it the validation item; of an item that comes back only
the first time counts, and a user with fewer than three items is left out. A recommender is a line
of `RECOMMENDERS` with its grid. The setting with the highest NDCG@10 of the validation items is
taken, and the recommender learns again, from the validation items too, before the test items are
ranked. A user's own items are no candidates; every other item of the catalogue is.
"""

from __future__ import annotations

import json
import platform
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from sampled_metrics._validate import IntArray, as_written
from sampled_metrics.ranking.exact import exact_ranks
from sampled_metrics.ranking.intervals import RankIntervals

from . import bundle, datasets, sources
from .benchmark_recommenders import RECOMMENDERS, Entry, Scores
from .benchmark_recommenders import SEED as SEED
from .sequences import Sequences, parsed, read_sequences, sequence_files

NAME = "sampled_book.data.benchmark"
BUNDLE = datasets.BUNDLE / "benchmark"
#: The metric that settings are chosen by, and of how many users at most.
TUNED_BY, TUNED_ON = "ndcg@10", 2_000
#: Libraries whose versions are kept beside the ranks.
LIBRARIES = ("numpy", "scipy", "implicit", "lenskit")

#: Scores that are held at a time.
_BLOCK_SCORES = 1 << 21
#: Upper ends of the bins of :func:`in_bins`: 0, and 256 from 10⁻⁶ to 1, each 5.6% above the last.
_BINS = np.concatenate([[0.0], np.geomspace(1e-6, 1.0, 256)])


# --- the data sets --------------------------------------------------------------------------------


#: Sequences of S3-Rec (zhou2020): name, git blob id.
_S3REC_URL = "https://raw.githubusercontent.com/RUCAIBox/CIKM2020-S3Rec/master/data/"
_S3REC_FILES = {
    "Beauty.txt": "a29773026846d857ec8176cb25f37b23ecf20155",
    "LastFM.txt": "3c46bd58d4c8582d0496fe42570af06d977b58db",
    "Sports_and_Outdoors.txt": "50a7023ca502b42eb0e840c603abda6e851b2018",
    "Yelp.txt": "d0f642c11487b3bcb515249d676aa1e37a1bb99e",
}


def _s3rec(name: str) -> Sequences:
    content = datasets.published_file(_S3REC_URL, name, "s3rec", _S3REC_FILES[name])
    return parsed(content.decode(), name)


def _movielens_100k() -> Sequences:
    """In order of time; of one user's ratings with one time, in the order of the file."""
    ratings = datasets.movielens("100k").sort_values(["user", "timestamp"], kind="stable")
    return Sequences.from_users(
        [user_items.tolist() for _, user_items in ratings.groupby("user")["item"]]
    )


def _movielens_1m() -> Sequences:
    """The split of He et al.: the held-out item is last, before it a random one of the others.

    The order of the training items is not in the split's files as they are here.
    """
    split, rng = datasets.ncf_split(), np.random.default_rng(SEED)
    train = [rng.permutation(split.train[[user]].indices) for user in range(split.n_users)]
    users = [[*row, last] for row, last in zip(train, split.held_out, strict=True)]
    return Sequences.from_users(users, in_order=False)


#: Name of each data set, and what reads it.
DATA: dict[str, Callable[[], Sequences]] = {
    "ml-100k": _movielens_100k,
    "lastfm": partial(_s3rec, "LastFM.txt"),
    "ml-1m": _movielens_1m,
    "beauty": partial(_s3rec, "Beauty.txt"),
    "sports": partial(_s3rec, "Sports_and_Outdoors.txt"),
    "yelp": partial(_s3rec, "Yelp.txt"),
}


#: Recall@10 among all items as printed, by source: key of the bibliography -> method -> text.
#: shehzad2025 has another split of the same users; in recbole1290 SASRec learns by cross-entropy.
REPORTED: dict[str, dict[str, dict[str, str]]] = {
    "ml-100k": {
        "shehzad2025": {
            "TopPop": "0.087",
            "ItemkNN": "0.141",
            "UserkNN": "0.110",
            "RP3β": "0.174",
            "EASE": "0.185",
        }
    },
    "lastfm": {"zhou2020": {"PopRec": "0.0440", "SASRec": "0.0688", "S3-Rec": "0.0743"}},
    "beauty": {
        "zhou2020": {"PopRec": "0.0152", "SASRec": "0.0605", "S3-Rec": "0.0647"},
        "recbole1290": {"SASRec": "0.083"},
    },
    "sports": {
        "zhou2020": {"PopRec": "0.0094", "SASRec": "0.0350", "S3-Rec": "0.0385"},
        "recbole1290": {"SASRec": "0.048"},
    },
    "yelp": {"zhou2020": {"PopRec": "0.0099", "SASRec": "0.0274", "S3-Rec": "0.0341"}},
}


# --- tuning and ranking ---------------------------------------------------------------------------


def place(
    entry: Entry, scores: Scores, data: Sequences, held_out: IntArray, users: IntArray
) -> RankIntervals:
    """Rank intervals of the held-out items of some users, their own items being no candidates."""
    return exact_ranks(
        lambda block: scores(users[block]),
        held_out[users],
        data.matrix[users],
        relative_tolerance=entry.tolerance,
    )


def popularity_above(
    entry: Entry, scores: Scores, data: Sequences, held_out: IntArray, users: IntArray
) -> NDArray[Any]:
    """Share of the popularity of their candidates above some users' held-out items, shape (2,
    users): with the ties of the held-out item below it and above it. An item weighs as much as
    it has users; the held-out item itself does not count.
    """
    weights = np.bincount(data.items, minlength=data.n_items).astype(float)
    shares = np.empty((2, users.size))
    size = max(1, _BLOCK_SCORES // data.n_items)
    for block in (slice(start, start + size) for start in range(0, users.size, size)):
        block_users = users[block]
        block_scores = np.asarray(scores(block_users))
        test_items = held_out[block_users]
        test_scores = np.take_along_axis(block_scores, test_items[:, np.newaxis], axis=1)
        reach = entry.tolerance * np.abs(test_scores)
        candidates = np.tile(weights, (block_users.size, 1))
        candidates[data.matrix[block_users].nonzero()] = 0.0
        np.put_along_axis(candidates, test_items[:, np.newaxis], 0.0, axis=1)
        total = np.maximum(candidates.sum(axis=1), 1.0)  # 0 where there are no others
        for row, is_above in enumerate(
            (block_scores > test_scores + reach, block_scores >= test_scores - reach)
        ):
            shares[row, block] = (candidates * is_above).sum(axis=1) / total
    return np.clip(shares, 0.0, 1.0)


def in_bins(low: ArrayLike, high: ArrayLike) -> pd.DataFrame:
    """Users by share, in bins, a user's share being uniform from low to high; the mean share of
    each bin that is not empty. Bins are narrow relative to their shares, so that a smooth
    function of the share has the right mean to three digits.
    """
    first, last = np.asarray(low, dtype=float), np.asarray(high, dtype=float)
    spread = np.where(last > first, last - first, 1.0)
    users, sums = np.empty(_BINS.size), np.empty(_BINS.size)
    for i, edge in enumerate(_BINS):
        below_edge = np.where(last > first, np.clip((edge - first) / spread, 0, 1), first <= edge)
        users[i] = below_edge.sum()
        sums[i] = (below_edge * (first + np.minimum(edge, last)) / 2).sum()
    users_per_bin = np.diff(users, prepend=0.0)
    is_filled = users_per_bin > 1e-9
    shares = np.diff(sums, prepend=0.0)[is_filled] / users_per_bin[is_filled]
    return pd.DataFrame({"share": shares, "users": users_per_bin[is_filled]})


def settings_of(grid: Mapping[str, Sequence[float]]) -> list[dict[str, float]]:
    """All combinations of a grid."""
    return [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]


def tuning_users(users: IntArray) -> IntArray:
    """The users whose validation items are ranked: of many a random part."""
    if users.size <= TUNED_ON:
        return users
    return np.sort(np.random.default_rng(SEED).choice(users, TUNED_ON, replace=False))


def tune(entry: Entry, data: Sequences) -> tuple[dict[str, float], dict[str, float]]:
    """The settings that rank the validation items best, and the value of each combination tried.

    `data` holds the validation items as each user's last. Of many users a random part is ranked.
    """
    tried = settings_of(entry.grid_for(data))
    if len(tried) == 1:
        return tried[0], {}
    train, held_out = data.without_last(1)
    users = np.arange(train.n_users)
    if entry.tuned_items is not None and entry.tuned_items < data.n_items:
        counts = np.bincount(train.items, minlength=data.n_items)
        items = np.sort(np.argsort(-counts, kind="stable")[: entry.tuned_items])
        users = np.flatnonzero(np.isin(held_out, items))
        train, held_out = train.among(items), np.searchsorted(items, held_out)
    users = tuning_users(users)
    values = []
    for settings in tried:
        intervals = place(entry, entry.learn(train, **settings), train, held_out, users)
        values.append(float(intervals.evaluate(TUNED_BY).mean()))
    named = {
        ", ".join(f"{k} {v:g}" for k, v in s.items()): v for s, v in zip(tried, values, strict=True)
    }
    return tried[int(np.argmax(values))], named


def compute(
    entry: Entry, data: Sequences, settings: Mapping[str, float] | None = None
) -> tuple[RankIntervals, dict[str, Any], pd.DataFrame]:
    """Rank intervals of every user's last item, how they came about, and the shares above.

    The third is what :func:`shares_above` has, without rows where not all users are ranked. Users
    are in a random order, the same for every recommender. `settings` are tuned if not given.
    """
    start = time.process_time()
    learnt, held_out = data.without_last(1)
    chosen, tried = tune(entry, learnt) if settings is None else (dict(settings), {})
    tuned = time.process_time()
    scores = entry.learn(learnt, **chosen)
    trained = time.process_time()
    users = np.random.default_rng(SEED).permutation(data.n_users)[: data.n_ranked]
    intervals = place(entry, scores, learnt, held_out, users)
    seconds = {
        "tuning": tuned - start,
        "training": trained - tuned,
        "ranking": time.process_time() - trained,
    }
    provenance = {
        "settings": chosen,
        f"validation {TUNED_BY}": {name: round(value, 5) for name, value in tried.items()},
        "grid": {name: list(values) for name, values in entry.grid_for(data).items()},
        "processor seconds": {name: round(value, 2) for name, value in seconds.items()},
        **getattr(scores, "facts", {}),  # how the training ended, where it may end early
    }
    shares = np.empty((2, 0))
    if data.n_ranked is None:
        shares = popularity_above(entry, scores, learnt, held_out, users)
    return intervals, provenance, in_bins(*shares)


# --- the bundle -----------------------------------------------------------------------------------


def ranks(name: str, folder: str | Path = BUNDLE) -> dict[str, RankIntervals]:
    """Rank intervals of each recommender on a data set, computed before; all have the same users,
    in one random order. `folder` is where the command's ``--output`` wrote, by default the
    package's own; it may hold data sets that are not in `DATA`.
    """
    directory = Path(folder)
    try:
        with np.load(directory / f"{name}.npz") as bundle:
            arrays = {key: bundle[key].astype(np.int64) for key in bundle.files}
    except FileNotFoundError:
        raise FileNotFoundError(
            f"{directory} has no ranks of {as_written(name)}: it must be one of "
            f"{', '.join(sorted(path.stem for path in directory.glob('*.npz')))}"
        ) from None
    items = arrays.pop("n_candidates")
    names = [key.removesuffix("/n_better") for key in arrays if key.endswith("/n_better")]
    return {
        recommender: RankIntervals(
            arrays[f"{recommender}/n_better"], arrays[f"{recommender}/n_tied"], items
        )
        for recommender in names
    }


def facts(name: str, folder: str | Path = BUNDLE) -> dict[str, Any]:
    """Provenance of the ranks of a data set: its size, settings, seconds, seeds and versions."""
    return dict(json.loads((Path(folder) / f"{name}.json").read_text(encoding="utf-8")))


def shares_above(name: str, folder: str | Path = BUNDLE) -> pd.DataFrame:
    """Share of the catalogue's popularity above the test items, in bins: columns recommender, share
    and users. A negative that is drawn in proportion to the items' users ranks above a user's
    test item with this probability.
    """
    path = Path(folder) / f"{name}.shares.csv.gz"
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing: python -m {NAME} writes it")
    return pd.read_csv(path)


def names_in(folder: str | Path = BUNDLE) -> list[str]:
    """The data sets whose ranks are in a folder."""
    names = sorted(path.stem for path in Path(folder).glob("*.npz"))
    if not names:
        raise FileNotFoundError(f"{folder} must hold ranks that python -m {NAME} wrote, got none")
    return names


def every(folder: str | Path = "") -> dict[str, Path]:
    """Folders of the ranks of each data set: the package's, then those of `folder`."""
    folder_by_name = dict.fromkeys(DATA, BUNDLE)
    if folder:
        folder_by_name |= dict.fromkeys(names_in(folder), Path(folder))
    return folder_by_name


def write(
    name: str,
    intervals: Mapping[str, RankIntervals],
    provenance: Mapping[str, Any],
    shares: Mapping[str, pd.DataFrame],
    folder: Path,
) -> None:
    """Write what :func:`ranks`, :func:`facts` and :func:`shares_above` read."""
    arrays: dict[str, Any] = {}
    for recommender, places in intervals.items():
        arrays["n_candidates"] = places.n_candidates
        arrays[f"{recommender}/n_better"] = places.n_better
        arrays[f"{recommender}/n_tied"] = places.n_tied
    packed_arrays: dict[str, Any] = {
        key: counts.astype(np.min_scalar_type(counts.max())) for key, counts in arrays.items()
    }
    bundle.write_arrays(folder / f"{name}.npz", **packed_arrays)
    if shares:
        table = pd.concat(
            [part.assign(recommender=recommender_name) for recommender_name, part in shares.items()]
        )
        table = table[["recommender", "share", "users"]]
        bundle.write_table(folder / f"{name}.shares.csv.gz", table, 4)
    bundle.write_json(folder / f"{name}.json", provenance)  # last: it says what is there


def shape(data: Sequences) -> dict[str, int]:
    """Users, items and interactions of a data set."""
    return {"users": data.n_users, "items": data.n_items, "interactions": data.items.size}


def run(
    name: str,
    data: Sequences,
    folder: Path,
    command: str,
    tell: Callable[[str], object],
    untuned: bool = False,
    entries: Mapping[str, Entry] | None = None,
    libraries: Sequence[str] = LIBRARIES,
) -> None:
    """Compute the ranks of a data set, each recommender's being written as it comes.

    `entries` has the recommenders by name, by default `RECOMMENDERS`.
    What the folder has of the same data and grids is not computed again. Where not all users are
    ranked nothing is written that another run would give otherwise, so seconds are told alone.
    """
    intervals: dict[str, RankIntervals] = {}
    shares: dict[str, pd.DataFrame] = {}
    entries = RECOMMENDERS if entries is None else entries
    provenance = described(data, command, untuned, libraries)
    if (folder / f"{name}.json").exists():
        old = facts(name, folder)
        if old.get("untuned", False) != untuned:
            kinds = ("untuned", "tuned") if untuned else ("tuned", "untuned")
            raise ValueError(
                f"{folder} must hold {kinds[0]} recommenders only, got {kinds[1]} ones on {name}: "
                "give another --output folder"
            )
        if all(old.get(key) == provenance[key] for key in _DATA_FACTS if key in provenance):
            old_intervals, provenance["recommenders"] = ranks(name, folder), old["recommenders"]
            intervals = {label: old_intervals[label] for label in provenance["recommenders"]}
        if (folder / f"{name}.shares.csv.gz").exists():
            shares_by_recommender = shares_above(name, folder).groupby("recommender", sort=False)
            shares = {
                str(label): part for label, part in shares_by_recommender if label in intervals
            }
    for recommender, tuned in entries.items():
        entry = tuned.untuned() if untuned else tuned
        if not entry.takes(data):
            continue
        grid = {setting: list(values) for setting, values in entry.grid_for(data).items()}
        known_facts = provenance["recommenders"].get(recommender, {})
        if known_facts.get("grid") != grid:
            intervals[recommender], known_facts, part = compute(entry, data)
        else:
            continue
        tell(f"{name}, {recommender}: {known_facts}")
        if data.n_ranked is None:
            shares[recommender] = part
        else:
            known_facts.pop("processor seconds")
        provenance["recommenders"][recommender] = known_facts
        intervals = _in_turn(intervals)
        provenance["recommenders"] = _in_turn(provenance["recommenders"])
        write(name, intervals, provenance, shares, folder)


def _in_turn(named: Mapping[str, Any]) -> dict[str, Any]:
    """By recommender in the order of `RECOMMENDERS`, in whichever they came."""
    turns = {name: turn for turn, name in enumerate(RECOMMENDERS)}
    return {
        name: named[name] for name in sorted(named, key=lambda name: turns.get(name, len(turns)))
    }


#: Facts that are the same where the same data were ranked.
_DATA_FACTS = ("users", "items", "interactions", "in order", "ranked users")


def described(
    data: Sequences, command: str, untuned: bool = False, libraries: Sequence[str] = LIBRARIES
) -> dict[str, Any]:
    """How ranks of a data set come about, before any are there."""
    tuning: dict[str, Any] = {"untuned": True} if untuned else {"tuned on users": TUNED_ON}
    ranked = {} if data.n_ranked is None else {"ranked users": min(data.n_ranked, data.n_users)}
    return {
        **shape(data),
        **ranked,
        "command": command,
        "seed": SEED,
        "in order": data.in_order,
        **tuning,
        "python": platform.python_version(),
        "versions": {label: version(label) for label in libraries},
        "recommenders": {},
    }


#: What ``--check`` computes again: without a seed and in seconds.
CHECKED = {
    "lastfm": ("Popular", "Item cosine", "User cosine", "RP3beta", "Markov chain", "Recent cosine"),
    "ml-100k": ("Popular", "Item cosine", "RP3beta", "Markov chain", "Recent cosine"),
    "mafengwo": ("Popular", "Item cosine", "User cosine", "RP3beta"),
    "foursquare_nyc": ("Popular", "RP3beta", "Markov chain"),
}


def differences(name: str, data: Sequences, recommenders: Sequence[str], folder: Path) -> list[str]:
    """Compute ranks again with the kept settings; a sentence for each difference from the kept
    ones.
    """
    stored_ranks, provenance = ranks(name, folder), facts(name, folder)
    messages = resized(name, provenance, shape(data))
    for recommender in recommenders if not messages else ():
        settings = provenance["recommenders"][recommender]["settings"]
        fresh, *_ = compute(RECOMMENDERS[recommender], data, settings)
        old = stored_ranks[recommender]
        count = moved(fresh, old)
        if count or (fresh.n_candidates != old.n_candidates).any():
            messages.append(f"{name}, {recommender}: ranks differ for {count:,} users")
    return messages


def resized(name: str, provenance: Mapping[str, Any], sizes: Mapping[str, int]) -> list[str]:
    """A sentence for each size of a data set that has changed.

    >>> resized("toy", {"users": 1090}, {"users": 7})
    ['toy: users must be 1,090, got 7']
    """
    return [
        f"{name}: {key} must be {provenance[key]:,}, got {value:,}"
        for key, value in sizes.items()
        if provenance[key] != value
    ]


def moved(fresh: RankIntervals, old: RankIntervals) -> int:
    """How many rank intervals differ.

    >>> moved(RankIntervals([0, 1], [0, 0], [4, 4]), RankIntervals([0, 1], [0, 1], [4, 4]))
    1
    """
    return int(((fresh.n_better != old.n_better) | (fresh.n_tied != old.n_tied)).sum())


def chosen(
    given: Sequence[str] | None,
) -> tuple[dict[str, Callable[[], Sequences]], dict[str, sources.Source], bool, list[str]]:
    """What reads each data set of the command line, and the sources of those with an index;
    whether all are the package's; a sentence for each that cannot be used.
    """
    known, problems = sources.local()
    if given is None:
        return dict(DATA), known, True, problems
    if not known.keys() & set(given):
        problems = []
    readers: dict[str, Callable[[], Sequences]] = {}
    found: dict[str, sources.Source] = {}
    is_own = False
    for name in given:
        if name in DATA:
            readers[name] = DATA[name]
        elif name in known:
            found[name] = known[name]
        elif (Path(name) / sources.INDEX).is_file():
            is_own = True
            own_sources, own_problems = sources.read_index(Path(name))
            found |= own_sources
            problems += own_problems
        else:
            is_own = True
            files = sequence_files(Path(name))
            readers |= {label: partial(read_sequences, path) for label, path in files.items()}
    return readers, found, not is_own, problems


def _rank_source(source: sources.Source, folder: Path, untuned: bool) -> None:
    """Compute the ranks of one source."""
    from threadpoolctl import threadpool_limits  # on any number of threads the same rounding

    with threadpool_limits(1):
        data = source.read()
        left_out = source.counts[0] - data.n_users
        if left_out:
            print(f"{source.name}: {left_out:,} users with fewer than three items left out")
        command = f"python -m {NAME} --data {source.name}{' --untuned' * untuned}"
        run(source.name, data, folder, command, partial(print, flush=True), untuned=untuned)


def main(argv: Sequence[str] | None = None) -> int:
    """Tune the recommenders, rank the test items and write the ranks, or compare some with them.

    The exit status is 2 if the data cannot be had, and 1 if the ranks differ.
    """
    arguments = sys.argv[1:] if argv is None else list(argv)
    parser = bundle.parser(NAME, main.__doc__, "compare a part with what is there")
    parser.add_argument(
        "--data",
        nargs="+",
        help=f"of {', '.join(DATA)}, of the folder {sources.FOLDER} beside them, or a file or "
        "folder of sequences; default: those that are there",
    )
    parser.add_argument(
        "--untuned",
        action="store_true",
        help="take the first value of each setting, and tune nothing",
    )
    options = parser.parse_args(arguments)
    folder = options.output or BUNDLE
    if options.untuned and options.output is None:
        parser.error("give an --output folder for --untuned: the package holds tuned recommenders")

    def write() -> None:
        readers, found, is_bundled, problems = chosen(options.data)
        if not is_bundled and options.output is None:
            parser.error("give an --output folder for data sets other than the package's")
        command = " ".join([f"python -m {NAME}", *arguments])
        for name, read in readers.items():
            data = read()
            if options.untuned:  # all users all the same, without shares above and seconds
                data = replace(data, n_ranked=data.n_users)
            run(name, data, folder, command, partial(print, flush=True), untuned=options.untuned)
        for source in found.values():
            try:
                _rank_source(source, folder, options.untuned)
            except (OSError, ValueError) as problem:
                problems.append(str(problem))
        if problems:
            raise ValueError("; ".join(problems))

    def compare() -> list[str]:
        readers, found, *_ = chosen(options.data)
        readers |= {source.name: source.read for source in found.values()}
        return [
            sentence
            for name in CHECKED
            if name in readers
            for sentence in differences(name, readers[name](), CHECKED[name], folder)
        ]

    return bundle.run(
        write,
        compare if options.check else None,
        "The ranks of the benchmark came out as they are kept.",
        "study",
    )


if __name__ == "__main__":
    sys.exit(main())
