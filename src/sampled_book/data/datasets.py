"""MovieLens: fetching, checking and reading it; and the ranks bundled with the package.

Files are read from the folder named by the environment variable ``SAMPLED_METRICS_DATA`` where
it is set, and are downloaded once into the user's cache folder where it is not. Either way a
file that is missing, truncated or altered is refused. The layout of the folder is

    ncf-ml-1m/ml-1m.train.rating, ml-1m.test.rating, ml-1m.test.negative
    ml-100k/u.data    ml-1m/ratings.dat    ml-10m/ratings.dat
    s3rec/Beauty.txt, s3rec/LastFM.txt, s3rec/Sports_and_Outdoors.txt, s3rec/Yelp.txt

MovieLens may not be redistributed, so none of it is bundled; ranks computed from it are.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import warnings
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import NDArray

from sampled_metrics._validate import IntArray, as_written, integers
from sampled_metrics.ranking.intervals import RankIntervals

from . import bundle

FOLDER_VARIABLE = "SAMPLED_METRICS_DATA"
#: Users of MovieLens 1M, from the first, whose times the facts of `bundled_counts` rest on.
TIMED_USERS = 2998
#: Where the bundled files are.
BUNDLE = Path(__file__).parent
#: What makes a RankIntervals, in order.
_COUNTS = ["n_better", "n_tied", "n_candidates"]

# The split of He et al. (2017), at the commit that last touched the repository.
_NCF_URL = (
    "https://raw.githubusercontent.com/hexiangnan/neural_collaborative_filtering/"
    "4aab159e81c44b062c091bdaed0ab54ac632371f/Data/"
)
_NCF_USERS, _NCF_ITEMS, _NCF_PAIRS = 6040, 3706, 994_169
_NCF_FILES = {  # name: (git blob id, what it holds)
    "ml-1m.train.rating": (
        "31ba384fd58dac8fbd09d2dfc6616431f3563ab5",
        "994,169 pairs of 6,040 users and 3,706 items",
    ),
    "ml-1m.test.rating": (
        "1b79e03c96710c3b0c35deb19155ef74f7965a02",
        "one held-out item for each of 6,040 users",
    ),
    "ml-1m.test.negative": (
        "c82844fb99d021f94751a6f915a230a1e8b8da92",
        "99 negatives for each of 6,040 users",
    ),
}
_NCF_PAIRS_SHA256 = "3936bdbc79d13e58eee5f1f82ef438d4c594b33fd4d1e06378176e54837052a2"

_NCF_MOVIES_SHA256 = "88b3ad7930dc74b80b16b2618d95490d4933b4d8b0e62e63ee9b29eea36fae40"


@dataclass(frozen=True)
class _Release:
    """One release of MovieLens: where it is, and what its ratings must be."""

    archive: str
    archive_sha256: str
    member: str
    local: str
    separator: bytes
    n_ratings: int
    n_users: int
    n_items: int
    sha256: str | None = None  # of the member
    pairs_sha256: str | None = None  # of its (user, movie) pairs, sorted

    def __str__(self) -> str:
        return f"{self.n_ratings:,} ratings of {self.n_items:,} movies by {self.n_users:,} users"


_MOVIELENS_URL = "https://files.grouplens.org/datasets/movielens/"
_RELEASES = {
    "100k": _Release(
        "ml-100k.zip",
        "50d2a982c66986937beb9ffb3aa76efe955bf3d5c6b761f4e3a7cd717c6a3229",
        "ml-100k/u.data",
        "ml-100k/u.data",
        b"\t",
        100_000,
        943,
        1_682,
        sha256="06416e597f82b7342361e41163890c81036900f418ad91315590814211dca490",
    ),
    "1m": _Release(
        "ml-1m.zip",
        "a6898adb50b9ca05aa231689da44c217cb524e7ebd39d264c56e2832f2c54e20",
        "ml-1m/ratings.dat",
        "ml-1m/ratings.dat",
        b"::",
        1_000_209,
        6_040,
        3_706,
        # Computed from the split of He et al.: its training and its held-out pairs are all pairs.
        pairs_sha256="414f71c0128acf54c84b9e58ae31621f2d40cc64a7c78959ac6f0a95a3487f30",
    ),
    "10m": _Release(
        "ml-10m.zip",
        "813c411ccb6122564edfe752e7f80c4dcc5aa25fa94c93622f6877a7ba252862",
        "ml-10M100K/ratings.dat",
        "ml-10m/ratings.dat",
        b"::",
        10_000_054,
        69_878,
        10_677,
    ),
}


@dataclass(frozen=True, eq=False)
class Split:
    """A leave-one-out split: each user's training items and one item held out.

    `train` (n_users, n_items) is 1 where the user has the item in training; `held_out` (n_users,)
    is never one of these; `negatives` (n_users, n_negatives) are the items among which published
    sampled evaluations ranked it.
    """

    train: sp.csr_array
    held_out: IntArray
    negatives: IntArray

    @property
    def n_users(self) -> int:
        """Number of users."""
        return int(self.train.shape[0])

    @property
    def n_items(self) -> int:
        """Number of items in the catalogue."""
        return int(self.train.shape[1])

    @property
    def listed_as_negative(self) -> NDArray[np.bool_]:
        """Whether each user's held-out item stands in the user's own list of negatives."""
        return np.asarray((self.negatives == self.held_out[:, None]).any(axis=1))


def ncf_split() -> Split:
    """The MovieLens 1M split of He et al. (2017), which krichene2020, section 6, uses: 6,040 users,
    3,706 items, 994,169 training pairs, 99 negatives for each user. Users and items are numbered
    from 0 as in the split's files.
    """
    content = {}
    for name, (blob, label) in _NCF_FILES.items():
        path = _ncf_file(name)
        content[name] = _read(path, label)
        if name != "ml-1m.train.rating":  # its lines may come in any order: see _ncf_pairs
            _check_blob(content[name], blob, path)
    held_out, negatives = (
        pd.read_csv(io.BytesIO(content[name]), sep="\t", header=None).iloc[:, 1:]
        for name in ("ml-1m.test.rating", "ml-1m.test.negative")
    )
    pairs = _ncf_pairs(content["ml-1m.train.rating"], "ml-1m.train.rating")
    train = sp.csr_array(
        (np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(_NCF_USERS, _NCF_ITEMS)
    )
    train.sort_indices()
    return Split(train, held_out[1].to_numpy(np.int64), negatives.to_numpy(np.int64))


def ncf_movie_ids() -> IntArray:
    """MovieLens' own movie id of each item of :func:`ncf_split`, shape (3706,). The split numbers
    movies in the order in which the file of MovieLens 1M first mentions them. Read from
    ``ncf-ml-1m/movie_ids.csv`` where the local folder has it.
    """
    folder = _local_folder()
    listed = folder / "ncf-ml-1m" / "movie_ids.csv" if folder else None
    if listed is not None and listed.exists():
        ids = pd.read_csv(listed, index_col="item").sort_index()["movie_id"]
    else:
        ids = movielens("1m")["item"].drop_duplicates()
    lines = "".join(f"{movie}\n" for movie in ids).encode()
    _check_digest(lines, _NCF_MOVIES_SHA256, str(listed or "MovieLens 1M"), "3,706 movie ids")
    return ids.to_numpy(np.int64)


def movielens(
    release: Literal["100k", "1m", "10m"], path: str | Path | None = None
) -> pd.DataFrame:
    """The ratings of a MovieLens release in the order of its file: user, item (MovieLens' own ids,
    from 1), rating (0.5 to 5), timestamp (seconds since 1970).

    `path` names a file in the release's format to read instead (``u.data`` with tabs for 100K,
    ``ratings.dat`` with ``::`` for the others). It may hold a part of the release, so only its form
    is checked.
    """
    if release not in _RELEASES:
        allowed = ", ".join(_RELEASES)
        raise ValueError(f"release must be one of {allowed}, got {as_written(release)}")
    expected = _RELEASES[release]
    if path is not None:
        return _parse_ratings(_read(Path(path), "ratings"), expected.separator, str(path))
    folder = _local_folder()
    if folder is None:
        source, content = expected.archive, _fetch_member(expected)
    else:
        local = folder / expected.local
        source, content = str(local), _read(local, str(expected))
    if expected.sha256 is not None:
        _check_digest(content, expected.sha256, source, str(expected))
    ratings = _parse_ratings(content, expected.separator, source)
    sizes = (len(ratings), ratings["user"].nunique(), ratings["item"].nunique())
    if sizes != (expected.n_ratings, expected.n_users, expected.n_items):
        raise ValueError(
            f"{source} must hold {expected}, got {sizes[0]:,}, {sizes[2]:,} and {sizes[1]:,}: it "
            "is truncated or altered"
        )
    if expected.pairs_sha256 is not None:
        pairs = ratings[["user", "item"]].to_numpy()
        _check_digest(
            _sorted_lines(pairs), expected.pairs_sha256, f"pairs of {source}", str(expected)
        )
    return ratings


def first_ratings() -> pd.DataFrame:
    """Ratings of the first `TIMED_USERS` users of MovieLens 1M, from
    ``ml-1m-first-2999-users/ratings.dat`` in the local folder, else from the whole release.
    """
    folder = _local_folder()
    part = folder / "ml-1m-first-2999-users" / "ratings.dat" if folder else None
    ratings = movielens("1m", part if part is not None and part.exists() else None)
    return ratings[ratings["user"] <= TIMED_USERS]


def several_at_last_timestamp(ratings: pd.DataFrame) -> pd.Series:
    """Whether "the last item" is ambiguous, by user: several items at the last timestamp."""
    return _last_items(ratings).groupby("user").size() > 1


def _last_items(ratings: pd.DataFrame) -> pd.DataFrame:
    """The rows that share their user's last timestamp."""
    last = ratings.groupby("user")["timestamp"].transform("max")
    return ratings[ratings["timestamp"] == last]


def count_facts(split: Split, ratings: pd.DataFrame | None = None) -> dict[str, tuple[int, int]]:
    """Count the facts of :func:`bundled_counts` from the data; ratings are those of the first 2,998
    users of MovieLens 1M, by default from :func:`first_ratings`.
    """
    ratings = first_ratings() if ratings is None else ratings
    several = several_at_last_timestamp(ratings)
    last = _last_items(ratings)
    last = last[last["user"].map(several)]
    users = last["user"].drop_duplicates()
    held_out = ncf_movie_ids()[split.held_out[users - 1]]  # MovieLens counts users from 1
    listed = split.listed_as_negative
    picks = {
        "first_in_file": last.drop_duplicates("user"),
        "last_in_file": last.drop_duplicates("user", keep="last"),
        "lowest_id": last.sort_values(["user", "item"]).drop_duplicates("user"),
        "highest_id": last.sort_values(["user", "item"]).drop_duplicates("user", keep="last"),
    }
    counts = {
        "held_out_among_own_negatives": (int(listed.sum()), len(listed)),
        "several_at_last_timestamp": (int(several.sum()), len(several)),
    }
    for name, picked in picks.items():
        n_matching = int((picked["item"].to_numpy() == held_out).sum())
        counts[f"held_out_is_{name}_of_several"] = (n_matching, len(held_out))
    return counts


def bundled_ranks() -> dict[str, RankIntervals]:
    """Rank intervals of recommenders X, Y and Z of krichene2020 on MovieLens 1M, of 6,040 users in
    the order of :func:`ncf_split`.
    """
    return {name: r for (name, v), r in bundled_variants().items() if v == "as reproduced"}


def bundled_seeds() -> list[RankIntervals]:
    """Recommender X of :func:`bundled_ranks` from ten random starts, its own the first."""
    bundle = bundled_variants().items()
    return [r for (name, v), r in bundle if name == "X" and re.match("as reproduced|seed", v)]


def bundled_variants() -> dict[tuple[str, str], RankIntervals]:
    """:func:`bundled_ranks` under each setting that krichene2020 leaves open, by recommender and
    variant, in the order of `recommenders.VARIANTS`.
    """
    with np.load(BUNDLE / "ranks.npz") as bundle:
        names = bundle["names"].tolist()
        counts = [bundle[name].astype(np.int64) for name in _COUNTS]
    named_counts = zip(names, *counts, strict=True)
    return {(name, variant): RankIntervals(*rows) for (name, variant), *rows in named_counts}


def read_ranks(path: str | Path) -> dict[str, RankIntervals]:
    """Ranks of your own recommenders from a CSV file, in the form of :func:`bundled_ranks`.

    A row for each recommender and user, with columns recommender, user, n_better, n_tied and
    n_candidates in any order; other columns are ignored. Every recommender has the same users, each
    with one n_candidates of at least 2. Raises ValueError otherwise.
    """
    try:
        table = pd.read_csv(path, dtype={"recommender": str})
    except FileNotFoundError:
        raise FileNotFoundError(f"{path} is missing: it must hold a table of ranks") from None
    except ValueError as problem:
        raise ValueError(f"{path} must hold a table of ranks, got: {problem}") from None
    missing = [name for name in ("recommender", "user", *_COUNTS) if name not in table]
    if missing:
        raise ValueError(f"{path} must have a column {missing[0]}, got {', '.join(table.columns)}")
    for name, low in zip(_COUNTS, (0, 0, 2), strict=True):
        table[name] = integers(table[name].to_numpy(), name, low)
    RankIntervals(*table[_COUNTS].to_numpy().T)  # refuses what cannot be
    wide = table.groupby("user")
    sizes = table.groupby("recommender").size()
    if len(sizes) < 2:
        raise ValueError(f"{path} must hold at least two recommenders, got {len(sizes)}")
    if table.duplicated(["recommender", "user"]).any() or (wide.size() != len(sizes)).any():
        raise ValueError(f"{path} must hold one row for each of its recommenders and users")
    if (wide["n_candidates"].nunique() > 1).any():
        raise ValueError(f"{path} must give a user the same n_candidates for every recommender")
    table["user"] = pd.factorize(table["user"], sort=True)[0]
    return {
        str(name): RankIntervals(*rows.sort_values("user")[_COUNTS].to_numpy().T)
        for name, rows in table.groupby("recommender", sort=False)
    }


def bundled_counts() -> dict[str, tuple[int, int]]:
    """Facts about the split of He et al. that need data which the package may not carry, as (count,
    out of).

    ``held_out_among_own_negatives``: users whose published negatives hold their held-out item.
    ``several_at_last_timestamp``: users, of the first 2,998, who rated several movies at their last
    timestamp. ``held_out_is_..._of_several``: users among these whose held-out movie is the one
    that a simple rule picks from them.
    """
    counts = json.loads((BUNDLE / "counts.json").read_text(encoding="utf-8"))
    return {name: (count, total) for name, (count, total) in counts.items()}


def write_bundle(
    ranks: Mapping[tuple[str, str], RankIntervals],
    counts: Mapping[str, tuple[int, int]],
    seed: int,
    folder: Path,
) -> list[Path]:
    """Write the files that the `bundled_` functions read; `seed` is that of recommender X."""
    table: dict[str, Any] = {
        name: np.array([getattr(r, name) for r in ranks.values()], np.uint16) for name in _COUNTS
    }
    names, seeds = np.array(list(ranks)), np.array(seed)
    written = bundle.write_arrays(folder / "ranks.npz", names=names, seed=seeds, **table)
    return [written, bundle.write_json(folder / "counts.json", counts)]


def _local_folder() -> Path | None:
    folder = os.environ.get(FOLDER_VARIABLE)
    return Path(folder) if folder else None


def _ncf_file(name: str) -> Path:
    """Path of a file of the split: in the local folder, or in the cache after a download."""
    folder = _local_folder()
    if folder is not None:
        return folder / "ncf-ml-1m" / name
    cached = _downloads().os_cache("sampled-metrics") / name
    if cached.exists() and _blob_id(cached.read_bytes()) != _NCF_FILES[name][0]:
        cached.unlink()  # pooch checks no git blob id, so it would take the file as it is
    return _retrieve(_NCF_URL, name, git_blob=_NCF_FILES[name][0])


def published_file(folder_url: str, name: str, local: str, git_blob: str) -> bytes:
    """A published file, from the local folder (at `local`) or downloaded from `folder_url`, which
    ends in a slash; it is checked by its git blob id.

    >>> published_file(
    ...     "https://example.org/", "lists.txt", "lists", "5ec1154"
    ... )  # doctest: +SKIP
    """
    folder = _local_folder()
    path = folder / local / name if folder else _retrieve(folder_url, name, git_blob=git_blob)
    content = _read(path, f"{name} of {folder_url}")
    _check_blob(content, git_blob, path)
    return content


def local_file(local: str, name: str, git_blob: str) -> bytes:
    """A file of the local folder (at `local`) that cannot be downloaded by itself; it is checked by
    its git blob id.

    >>> local_file("npl", "doc-text", "28dca70")  # doctest: +SKIP
    """
    folder = _local_folder()
    if folder is None or not (folder / local / name).exists():
        raise FileNotFoundError(
            f"{local}/{name} is needed: name the folder that has it in {FOLDER_VARIABLE}"
        )
    content = (folder / local / name).read_bytes()
    _check_blob(content, git_blob, folder / local / name)
    return content


def _downloads() -> Any:
    """The library that downloads; where the data are at hand nobody needs it."""
    with warnings.catch_warnings():
        # In a notebook without widgets this import says that its bar will be one of text: it may.
        warnings.filterwarnings("ignore", "IProgress not found")
        import pooch
    return pooch


def _retrieve(
    folder_url: str, name: str, sha256: str | None = None, git_blob: str | None = None
) -> Path:
    """Path of a file in the cache, downloaded if need be; pooch renames it there once checked."""
    pooch = _downloads()
    fetch = pooch.HTTPDownloader(progressbar=True)

    def download(url: str, output_file: str, caller: Any) -> None:
        try:
            fetch(url, output_file, caller)
        except OSError as problem:
            raise ConnectionError(
                f"{url} could not be downloaded ({type(problem).__name__}): try again, or name a "
                f"folder that has the data in {FOLDER_VARIABLE}"
            ) from None
        if git_blob is not None:
            _check_blob(Path(output_file).read_bytes(), git_blob, url)

    known_hash = f"sha256:{sha256}" if sha256 else None
    cache = pooch.os_cache("sampled-metrics")
    return Path(pooch.retrieve(folder_url + name, known_hash, name, cache, downloader=download))


def _fetch_member(release: _Release) -> bytes:
    """The ratings file inside a release's archive, which is downloaded where the cache lacks it."""
    archive = _retrieve(_MOVIELENS_URL, release.archive, sha256=release.archive_sha256)
    with zipfile.ZipFile(archive) as opened:
        return opened.read(release.member)


def _read(path: Path, expected: str) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise FileNotFoundError(
            f"{path} is missing: it must hold {expected} (unset {FOLDER_VARIABLE} to download it)"
        ) from None


def _blob_id(content: bytes) -> str:
    """The name git gives a file's content."""
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def _check_blob(content: bytes, expected: str, source: object) -> None:
    blob = _blob_id(content)
    if blob != expected:
        raise ValueError(
            f"{source} must have git blob id {expected}, got {blob} ({len(content):,} bytes): it "
            "is truncated or altered"
        )


def _check_digest(content: bytes, expected: str, source: str, label: str) -> None:
    digest = hashlib.sha256(content).hexdigest()
    if digest != expected:
        raise ValueError(
            f"{source} must hold {label} with sha256 {expected}, got {digest}: truncated or altered"
        )


def _sorted_lines(pairs: NDArray[np.int64]) -> bytes:
    """Pairs as lines `user<TAB>item`, sorted as numbers."""
    ordered = pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))]
    return (
        pd.DataFrame(ordered)
        .to_csv(sep="\t", header=False, index=False, lineterminator="\n")
        .encode()
    )


def _ncf_pairs(content: bytes, source: str) -> NDArray[np.int64]:
    """Training pairs, shape (994169, 2); the file's order, ratings and times do not matter."""
    label = _NCF_FILES["ml-1m.train.rating"][1]
    try:
        frame = pd.read_csv(
            io.BytesIO(content), sep="\t", header=None, usecols=[0, 1], dtype=np.int64
        )
    except ValueError as problem:
        raise ValueError(f"{source} must hold {label}, got an unreadable file: {problem}") from None
    pairs = frame.to_numpy()
    if len(pairs) != _NCF_PAIRS:
        raise ValueError(f"{source} must hold {label}, got {len(pairs):,}: truncated or altered")
    _check_digest(_sorted_lines(pairs), _NCF_PAIRS_SHA256, f"pairs of {source}", label)
    return pairs


def _parse_ratings(content: bytes, separator: bytes, source: str) -> pd.DataFrame:
    """Ratings from a file's bytes; pandas reads a one-character separator ten times faster."""
    types = {"user": np.int64, "item": np.int64, "rating": np.float64, "timestamp": np.int64}
    try:
        if not content.endswith(b"\n"):
            raise ValueError("the last line is cut off")
        if content.count(separator) != 3 * content.count(b"\n"):
            raise ValueError("a line does not have these four fields")
        ratings = pd.read_csv(
            io.BytesIO(content.replace(separator, b"\t")),
            sep="\t",
            header=None,
            names=list(types),
            dtype=types,
            index_col=False,
        )
        if not ratings["rating"].between(0.5, 5).all():
            raise ValueError("a rating is not in [0.5, 5]")
    except ValueError as problem:
        shown = separator.decode().replace("\t", "<tab>").join(types)
        raise ValueError(f"{source} must hold lines {shown}, got: {problem}") from None
    return ratings
