"""Neural recommenders, trained and ranked exactly on data sets of the benchmark.

``python -m sampled_book.data.neural`` computes rank intervals of the same users, candidates and
order as :mod:`~sampled_book.data.benchmark`; ``benchmark.ranks(name, BUNDLE)`` reads them.
:mod:`~sampled_book.data.sasrec` is SASRec and GRU4Rec, :mod:`~sampled_book.data.multvae` is
Mult-VAE, which reads no order. Bundled ranks of SASRec whose `versions` name RecBole are of an
earlier training by RecBole, and are kept because its validation NDCG@10 was higher.

A model learns from all but the last two items of each user, and its validation NDCG@10 says how
long, as the benchmark's tuning ranks the validation items. As with the other recommenders, these
items belong to the user's history when the test items are ranked: the model is given them, and they
are no candidates.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from sampled_metrics._validate import IntArray

from . import benchmark, bundle
from .benchmark_recommenders import RECOMMENDERS, Entry, Scores
from .sequences import Sequences

NAME = "sampled_book.data.neural"
BUNDLE = benchmark.BUNDLE / "neural"
LIBRARIES = ("numpy", "scipy", "torch")
#: Data sets in order of time: those with at most 300,000 interactions, the smaller first, then
#: one of each other source.
DATA = (
    *("amazon_digitalmusic", "brightkite", "lastfm", "foursquare_nyc", "amazon_office"),
    *("retailrocket", "amazon_grocery", "ml-100k", "ml_latest_small", "delicious_tags"),
    *("tmall_sessions", "amazon_hin", "beauty", "amazon18_instruments", "amazon_videogames"),
    *("tags_math_sx", "gowalla", "sports", "taobao", "yelp", "nowplaying"),
)
_IN_ORDER: dict[str, float] = {
    "width": 64,
    "length": 50,
    "dropout": 0.3,
    "tokens": 800,
    "learning_rate": 0.002,
    "full_softmax_items": 1_600,
    "negatives": 768,
    "dense_items": 16_000,  # above, the items' vectors learn by sparse Adam
    "sparse_learning_rate": 0.01,
    "last_epochs": 2,
}
#: What each model is given; the modules of the models say what it means.
SETTINGS: dict[str, dict[str, float]] = {
    "SASRec": {**_IN_ORDER, "blocks": 2, "heads": 2},
    "GRU4Rec": {**_IN_ORDER, "recurrent": 1},
    "MultiVAE": {
        "width": 600,
        "latent": 200,
        "dropout": 0.5,
        "cap": 0.2,
        "anneal_steps": 2_000,
        "users": 256,
        "learning_rate": 0.001,
        "full_softmax_items": 4_000,  # above, items' weights learn by sparse Adam
        "sparse_width": 300,
        "sparse_learning_rate": 0.003,
        "negatives": 768,
        "last_epochs": 2,
    },
}


# --- what a model is shown ------------------------------------------------------------------------


def windows(data: Sequences, length: int, offset: int = 0) -> tuple[IntArray, IntArray]:
    """Items, and the item that comes after each, in rows of at most `length`; 0 fills a row, and
    items are numbered from 1. A user's items are cut only where a row does not hold them: then the
    first row is shorter by `offset`.

    >>> data = Sequences.from_users([[5, 6, 7, 8], [8, 5, 6]])
    >>> windows(data, 2)[0].tolist(), windows(data, 2)[1].tolist()
    ([[1, 2], [3, 0], [4, 1]], [[2, 3], [4, 0], [1, 2]])
    """
    sizes = np.diff(data.starts)
    place = np.arange(data.items.size) - np.repeat(data.starts[:-1], sizes)
    is_input = place < np.repeat(sizes - 1, sizes)
    shifted = place + np.repeat(np.where(sizes - 1 > length, offset, 0), sizes)
    begins = is_input & ((place == 0) | (shifted % length == 0))
    position = np.flatnonzero(is_input)
    row = np.cumsum(begins)[position] - 1
    column = position - np.flatnonzero(begins)[row]
    inputs = np.zeros((np.count_nonzero(begins), length), dtype=np.int64)
    targets = np.zeros_like(inputs)
    inputs[row, column] = data.items[position] + 1
    targets[row, column] = data.items[position + 1] + 1
    return inputs, targets


def latest(data: Sequences, users: IntArray, length: int) -> tuple[IntArray, IntArray]:
    """The last items of some users in order, at most `length`, as rows of :func:`windows`; how
    many there are.
    """
    ends = data.starts[users + 1]
    sizes = np.minimum(ends - data.starts[users], length)
    column = np.arange(length)
    position = (ends - sizes)[:, np.newaxis] + column
    items = data.items[np.minimum(position, data.items.size - 1)] + 1
    return np.where(column < sizes[:, np.newaxis], items, 0), sizes


# --- training -------------------------------------------------------------------------------------


def until_no_rise(
    train: Callable[[], int],
    value: Callable[[], float],
    keep: Callable[[], None],
    is_enough: Callable[[float, int], bool],
) -> dict[str, Any]:
    """Train in rounds, each of so many epochs as `train` says, and keep the round of the highest
    value; how the training ended. `is_enough` is asked with the highest value and the rounds since.
    """
    start = time.process_time()
    values: list[float] = []
    epochs, best = [0], 0
    while not values or not is_enough(values[best], len(values) - 1 - best):
        epochs.append(epochs[-1] + train())
        values.append(value())
        best = int(np.argmax(values))
        if best == len(values) - 1:
            keep()
    return {
        "epochs": epochs[-1],
        "best epoch": epochs[best + 1],
        f"validation {benchmark.TUNED_BY}": {
            "best": round(values[best], 5),
            "final": round(values[-1], 5),
        },
        "processor seconds": round(time.process_time() - start, 1),
    }


def validation(data: Sequences) -> Callable[[Callable[[Sequences], Scores]], float]:
    """The value on the validation items, each user's last of `data`, of what learns from the
    others.
    """
    train, held_out = data.without_last(1)
    users = benchmark.tuning_users(np.arange(train.n_users))
    entry = Entry(_learn, {}, tolerance=0.0)

    def value(learned: Callable[[Sequences], Scores]) -> float:
        intervals = benchmark.place(entry, learned(train), train, held_out, users)
        return float(intervals.evaluate(benchmark.TUNED_BY).mean())

    return value


@dataclass(frozen=True)
class Trained:
    """Scores of all items for some users, and how the training ended."""

    scores: Scores
    facts: Mapping[str, Any]

    def __call__(self, users: IntArray) -> NDArray[Any]:
        """Scores, shape (users, n_items)."""
        return self.scores(users)


def _learn(module: str, data: Sequences, **settings: float) -> Scores:
    """Train by a module that has PyTorch, which not all environments have."""
    return cast("Scores", import_module(f".{module}", __package__).learn(data, **settings))


#: Models as recommenders of the benchmark, each with one value of every setting.
ENTRIES = {
    name: Entry(
        partial(_learn, "multvae" if name == "MultiVAE" else "sasrec"),
        {setting: (value,) for setting, value in given.items()},
        tolerance=0.0,
        by_time=name != "MultiVAE",
    )
    for name, given in SETTINGS.items()
}


def judge(name: str, data: Sequences, folder: Path) -> None:
    """Add the NDCG@10 of the test items, Popular's beside it, to what is known of each model."""
    popular = benchmark.compute(RECOMMENDERS["Popular"], data)[0]
    baseline = float(popular.evaluate(benchmark.TUNED_BY).mean())
    facts = benchmark.facts(name, folder)
    facts[f"test {benchmark.TUNED_BY} of Popular"] = round(baseline, 5)
    for model, intervals in benchmark.ranks(name, folder).items():
        value = float(intervals.evaluate(benchmark.TUNED_BY).mean())
        judged = {f"test {benchmark.TUNED_BY}": round(value, 5), "below Popular": value < baseline}
        facts["recommenders"][model] |= judged
    bundle.write_json(folder / f"{name}.json", facts)


def below_popular(folder: Path = BUNDLE) -> list[str]:
    """Models with a lower NDCG@10 of the test items than Popular, and on which data."""
    return [
        f"{model} on {path.stem}"
        for path in sorted(folder.glob("*.json"))
        for model, known in benchmark.facts(path.stem, folder)["recommenders"].items()
        if known["below Popular"]
    ]


def main(argv: Sequence[str] | None = None) -> int:
    """Train neural recommenders, rank the test items and write the ranks of each as it comes.

    The exit status is 2 if the data or PyTorch cannot be had.
    """
    parser = bundle.parser(NAME, main.__doc__)
    parser.add_argument(
        "--data",
        nargs="+",
        default=DATA,
        help=f"data sets as `python -m {benchmark.NAME}` takes them; default: {', '.join(DATA)}",
    )
    parser.add_argument(
        "--models",
        nargs="+",
        default=tuple(SETTINGS),
        choices=tuple(SETTINGS),
        help=f"default: {' '.join(SETTINGS)}",
    )
    options = parser.parse_args(argv)
    folder = options.output or BUNDLE

    def write() -> Iterator[str]:
        readers, found, is_bundled, problems = benchmark.chosen(options.data)
        if not is_bundled and options.output is None:
            parser.error("give an --output folder for data sets other than the package's")
        readers |= {source.name: source.read for source in found.values()}
        turns = {name: turn for turn, name in enumerate(options.data)}
        known = {model: ENTRIES[model] for model in options.models}
        for name in sorted(readers, key=lambda name: turns.get(name, len(turns))):
            data = readers[name]()
            command = f"python -m {NAME} --data {name}"
            tell = partial(print, flush=True)
            benchmark.run(name, data, folder, command, tell, entries=known, libraries=LIBRARIES)
            judge(name, data, folder)
        yield from (f"below Popular: {model}" for model in below_popular(folder))
        if problems:
            raise ValueError("; ".join(problems))

    return bundle.run(write)


if __name__ == "__main__":
    sys.exit(main())
