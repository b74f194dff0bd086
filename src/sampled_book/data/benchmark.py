"""Recommenders that people use, tuned and ranked exactly on data sets that people use.

``python -m sampled_book.data.benchmark`` computes the rank intervals that :func:`ranks` reads. A
data set is a line of `DATA`, or a file or folder of sequences given on the command line: one user a
line, first the user, then the items in order of time, numbers or words. The last item of a user is
the test item, the one before it the validation item; of an item that comes back only the first time
counts, and a user with fewer than three items is left out. A recommender is a line of
`RECOMMENDERS` with its grid. The setting with the highest NDCG@10 of the validation items is taken,
and the recommender learns again, from the validation items too, before the test items are ranked. A
user's own items are no candidates; every other item of the catalogue is.
"""

from __future__ import annotations

import contextlib
import json
import platform
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from sampled_metrics._validate import IntArray, as_written
from sampled_metrics.ranking.exact import exact_ranks
from sampled_metrics.ranking.intervals import RankIntervals

from . import bundle, datasets
from .benchmark_recommenders import RECOMMENDERS, Entry, Scores
from .benchmark_recommenders import SEED as SEED

NAME = "sampled_book.data.benchmark"
BUNDLE = datasets.BUNDLE / "benchmark"
#: The metric that settings are chosen by, and of how many users at most.
TUNED_BY, TUNED_ON = "ndcg@10", 2_000

#: Scores that are held at a time.
_BLOCK_SCORES = 1 << 21
#: Upper ends of the bins of :func:`in_bins`: 0, and 256 from 10⁻⁶ to 1, each 5.6% above the last.
_BINS = np.concatenate([[0.0], np.geomspace(1e-6, 1.0, 256)])


@dataclass(frozen=True, eq=False)
class Sequences:
    """Users' items in order of time: `items`, numbered from 0, of the first user, then of the
    second, ...; `starts` (n_users + 1,) where each user's items start. `in_order` is False where
    the order in time is unknown: recommenders that go by it are left out.
    """

    items: IntArray
    starts: IntArray
    n_items: int
    in_order: bool = True

    @classmethod
    def from_users(cls, users: Iterable[Sequence[Any]], *, in_order: bool = True) -> Sequences:
        """From numbers or words for items; no repeated ones, and no users with fewer than three."""
        distinct_items = [list(dict.fromkeys(user_items)) for user_items in users]
        long_enough = [user_items for user_items in distinct_items if len(user_items) >= 3]
        if not long_enough:
            raise ValueError("users must have three items at least, got none that has")
        ids, items = np.unique(np.concatenate(long_enough), return_inverse=True)
        starts = np.concatenate([[0], np.cumsum([len(user_items) for user_items in long_enough])])
        return cls(items, starts, ids.size, in_order)

    @property
    def n_users(self) -> int:
        """Number of users."""
        return self.starts.size - 1

    @cached_property
    def matrix(self) -> sp.csr_array:
        """Users by items, 1 where the user has the item."""
        return self.aged(1.0)

    def aged(self, decay: float) -> sp.csr_array:
        """Users by items: a user's last item has weight 1, each before it `decay` of the next."""
        age = np.repeat(self.starts[1:], np.diff(self.starts)) - 1 - np.arange(self.items.size)
        weighted_matrix = sp.csr_array(
            (decay**age, self.items.copy(), self.starts), shape=(self.n_users, self.n_items)
        )
        weighted_matrix.sort_indices()
        return weighted_matrix

    def without_last(self, n: int) -> tuple[Sequences, IntArray]:
        """The sequences less the last `n` items of each, and the first item that was cut."""
        sizes = np.diff(self.starts) - n
        is_kept = np.arange(self.items.size) < np.repeat(self.starts[1:] - n, sizes + n)
        starts = np.concatenate([[0], np.cumsum(sizes)])
        held_out = self.items[self.starts[1:] - n]
        return Sequences(self.items[is_kept], starts, self.n_items, self.in_order), held_out

    def among(self, items: IntArray) -> Sequences:
        """The same users with these items alone, numbered in their order."""
        number = np.full(self.n_items, -1)
        number[items] = np.arange(items.size)
        is_among = number[self.items] >= 0
        starts = np.concatenate([[0], np.cumsum(is_among)])[self.starts]
        return Sequences(number[self.items[is_among]], starts, items.size, self.in_order)


# --- the data sets --------------------------------------------------------------------------------


def read_sequences(path: Path) -> Sequences:
    """Sequences of a file: one user a line, the user, then items in order of time, any words."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise ValueError(f"{path} must be text in UTF-8, got other bytes") from None
    return _parsed(text, str(path))


def _parsed(text: str, source: str) -> Sequences:
    users: list[list[Any]] = [line.split()[1:] for line in text.splitlines()]
    with contextlib.suppress(ValueError):  # words stay words
        users = [[int(item) for item in words] for words in users]
    try:
        return Sequences.from_users(users)
    except ValueError as problem:
        raise ValueError(f"{source} must hold a user and items on each line: {problem}") from None


def sequence_files(path: Path) -> dict[str, Path]:
    """The files of sequences at a path, by name of the data set: itself, or a folder's.

    In a folder each ``.txt`` is one, but for those whose name ends in ``_sample``: S3-Rec keeps
    the negatives of its evaluations there.
    """
    files = sorted(path.glob("*.txt")) if path.is_dir() else [path]
    file_by_name = {file.stem.lower(): file for file in files if not file.stem.endswith("_sample")}
    if not file_by_name or not all(file.is_file() for file in file_by_name.values()):
        raise FileNotFoundError(f"{path} must be a file of sequences or a folder of .txt files")
    return file_by_name


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
    return _parsed(content.decode(), name)


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


def settings_of(entry: Entry) -> list[dict[str, float]]:
    """All combinations of a grid."""
    return [dict(zip(entry.grid, values, strict=True)) for values in product(*entry.grid.values())]


def tune(entry: Entry, data: Sequences) -> tuple[dict[str, float], dict[str, float]]:
    """The settings that rank the validation items best, and the value of each combination tried.

    `data` holds the validation items as each user's last. Of many users a random part is ranked.
    """
    tried = settings_of(entry)
    if len(tried) == 1:
        return tried[0], {}
    train, held_out = data.without_last(1)
    users = np.arange(train.n_users)
    if entry.tuned_items is not None and entry.tuned_items < data.n_items:
        counts = np.bincount(train.items, minlength=data.n_items)
        items = np.sort(np.argsort(-counts, kind="stable")[: entry.tuned_items])
        users = np.flatnonzero(np.isin(held_out, items))
        train, held_out = train.among(items), np.searchsorted(items, held_out)
    if users.size > TUNED_ON:
        users = np.sort(np.random.default_rng(SEED).choice(users, TUNED_ON, replace=False))
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

    The third is what :func:`shares_above` has. Users are in a random order, the same for every
    recommender. `settings` are tuned if not given.
    """
    start = time.process_time()
    learnt, held_out = data.without_last(1)
    chosen, tried = tune(entry, learnt) if settings is None else (dict(settings), {})
    tuned = time.process_time()
    scores = entry.learn(learnt, **chosen)
    trained = time.process_time()
    users = np.random.default_rng(SEED).permutation(data.n_users)
    intervals = place(entry, scores, learnt, held_out, users)
    seconds = {
        "tuning": tuned - start,
        "training": trained - tuned,
        "ranking": time.process_time() - trained,
    }
    provenance = {
        "settings": chosen,
        f"validation {TUNED_BY}": {name: round(value, 5) for name, value in tried.items()},
        "grid": {name: list(values) for name, values in entry.grid.items()},
        "processor seconds": {name: round(value, 2) for name, value in seconds.items()},
    }
    return intervals, provenance, in_bins(*popularity_above(entry, scores, learnt, held_out, users))


# --- the bundle -----------------------------------------------------------------------------------


def ranks(name: str, folder: str | Path | None = None) -> dict[str, RankIntervals]:
    """Rank intervals of each recommender on a data set, computed before; all have the same users,
    in one random order. `folder` is where the command's ``--output`` wrote, by default the
    package's own; it may hold data sets that are not in `DATA`.
    """
    directory = BUNDLE if folder is None else Path(folder)
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


def facts(name: str, folder: str | Path | None = None) -> dict[str, Any]:
    """Provenance of the ranks of a data set: its size, settings, seconds, seeds and versions."""
    directory = BUNDLE if folder is None else Path(folder)
    return dict(json.loads((directory / f"{name}.json").read_text(encoding="utf-8")))


def shares_above(name: str, folder: str | Path | None = None) -> pd.DataFrame:
    """Share of the catalogue's popularity above the test items, in bins: columns recommender, share
    and users. A negative that is drawn in proportion to the items' users ranks above a user's
    test item with this probability.
    """
    path = (BUNDLE if folder is None else Path(folder)) / f"{name}.shares.csv.gz"
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing: python -m {NAME} writes it")
    return pd.read_csv(path)


def every(folder: str | Path = "") -> dict[str, Path]:
    """Folders of the ranks of each data set: the package's, then those of `folder`."""
    folder_by_name = dict.fromkeys(DATA, BUNDLE)
    if folder:
        data_names = sorted(path.stem for path in Path(folder).glob("*.npz"))
        if not data_names:
            raise FileNotFoundError(
                f"{folder} must hold ranks that python -m {NAME} wrote, got none"
            )
        folder_by_name |= dict.fromkeys(data_names, Path(folder))
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
    bundle.write_json(folder / f"{name}.json", provenance)
    bundle.write_arrays(folder / f"{name}.npz", **packed_arrays)
    if shares:
        table = pd.concat(
            [part.assign(recommender=recommender_name) for recommender_name, part in shares.items()]
        )
        table = table[["recommender", "share", "users"]]
        bundle.write_table(folder / f"{name}.shares.csv.gz", table, 4)


def shape(data: Sequences) -> dict[str, int]:
    """Users, items and interactions of a data set."""
    return {"users": data.n_users, "items": data.n_items, "interactions": data.items.size}


def run(
    name: str, data: Sequences, folder: Path, command: str, tell: Callable[[str], object]
) -> None:
    """Compute the ranks of a data set, each recommender's being written as it comes.

    What the folder has of the same data and grids is not computed again.
    """
    intervals: dict[str, RankIntervals] = {}
    shares: dict[str, pd.DataFrame] = {}
    provenance: dict[str, Any] = shape(data) | {
        "command": command,
        "seed": SEED,
        "in order": data.in_order,
        "tuned on users": TUNED_ON,
        "python": platform.python_version(),
        "versions": {label: version(label) for label in ("numpy", "scipy", "implicit", "lenskit")},
        "recommenders": {},
    }
    if (folder / f"{name}.npz").exists():
        old = facts(name, folder)
        if all(old[key] == value for key, value in shape(data).items()):
            old_intervals, provenance["recommenders"] = ranks(name, folder), old["recommenders"]
            intervals = {label: old_intervals[label] for label in provenance["recommenders"]}
        if (folder / f"{name}.shares.csv.gz").exists():
            shares_by_recommender = shares_above(name, folder).groupby("recommender", sort=False)
            shares = {
                str(label): part for label, part in shares_by_recommender if label in intervals
            }
    for recommender, entry in RECOMMENDERS.items():
        if entry.by_time and not data.in_order:
            continue
        grid = {setting: list(values) for setting, values in entry.grid.items()}
        known_facts = provenance["recommenders"].get(recommender, {})
        if known_facts.get("grid") != grid:
            intervals[recommender], known_facts, shares[recommender] = compute(entry, data)
            provenance["recommenders"][recommender] = known_facts
        elif recommender not in shares:  # the ranks are there
            shares[recommender] = compute(entry, data, known_facts["settings"])[2]
        else:
            continue
        write(name, intervals, provenance, shares, folder)
        tell(f"{name}, {recommender}: {known_facts}")


#: What ``--check`` computes again: without a seed and in seconds.
CHECKED = {
    "lastfm": ("Popular", "Item cosine", "User cosine", "RP3beta", "Markov chain", "Recent cosine"),
    "ml-100k": ("Popular", "Item cosine", "RP3beta", "Markov chain", "Recent cosine"),
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


def main(argv: Sequence[str] | None = None) -> int:
    """Tune the recommenders, rank the test items and write the ranks, or compare some with them.

    The exit status is 2 if the data cannot be had, and 1 if the ranks differ.
    """
    arguments = sys.argv[1:] if argv is None else list(argv)
    parser = bundle.parser(NAME, main.__doc__, "compare a part with what is there")
    parser.add_argument(
        "--data",
        nargs="+",
        default=list(DATA),
        help=f"of {', '.join(DATA)}, or a file or folder of sequences; default: the six",
    )
    options = parser.parse_args(arguments)
    folder = options.output or BUNDLE

    def readers() -> dict[str, Callable[[], Sequences]]:
        chosen: dict[str, Callable[[], Sequences]] = {}
        for source in options.data:
            if source in DATA:
                chosen[source] = DATA[source]
                continue
            if options.output is None:
                parser.error("give an --output folder for data sets other than the package's")
            files = sequence_files(Path(source))
            chosen |= {name: partial(read_sequences, path) for name, path in files.items()}
        return chosen

    def write() -> None:
        for name, read in readers().items():
            command = " ".join([f"python -m {NAME}", *arguments])
            run(name, read(), folder, command, partial(print, flush=True))

    def compare() -> list[str]:
        chosen = readers()
        return [
            sentence
            for name in CHECKED
            if name in chosen
            for sentence in differences(name, chosen[name](), CHECKED[name], folder)
        ]

    return bundle.run(
        write,
        compare if options.check else None,
        "The ranks of the benchmark came out as they are kept.",
        "study",
    )


if __name__ == "__main__":
    sys.exit(main())
