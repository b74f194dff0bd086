"""Neural recommenders, trained and ranked exactly on data sets of the benchmark.

``python -m sampled_book.data.neural`` computes rank intervals of the same users, candidates and
order as :mod:`~sampled_book.data.benchmark`; ``benchmark.ranks(name, BUNDLE)`` reads them.
:mod:`~sampled_book.data.sasrec` is SASRec and GRU4Rec. RecBole gives Mult-VAE's layers, initial
weights, loss and scores; the loop that trains it is ours: Adam on one thread, from one seed.
Bundled ranks of SASRec whose `versions` name RecBole are of an earlier training by RecBole, and are
kept because its validation NDCG@10 was higher.

Mult-VAE learns from all but the last two items of each user. After each round, of whole epochs and
at least `ROUND` steps, it ranks the validation items as the benchmark's tuning does. It stops once
NDCG@10 has not risen for `PATIENCE` rounds, or when its processor time is over; the weights of the
best round are kept. The other recommenders learn again with the validation items; Mult-VAE does
not. As with the others, these items belong to the user's history when the test items are ranked:
the model is given them, and they are no candidates.
"""

from __future__ import annotations

import copy
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from sampled_metrics._validate import IntArray

from . import benchmark, bundle
from .benchmark_recommenders import RECOMMENDERS, SEED, Entry, Scores
from .sequences import Sequences

NAME = "sampled_book.data.neural"
BUNDLE = benchmark.BUNDLE / "neural"
#: Steps between two looks at the validation items, at least; and looks without a rise before a
#: model stops.
ROUND, PATIENCE = 50, 10
#: Processor time of a model, in minutes.
MINUTES = 5.0
LIBRARIES = ("numpy", "scipy", "torch")
#: Data sets in order of time: those with at most 300,000 interactions, the smaller first, then
#: one of each other source.
DATA = (
    *("amazon_digitalmusic", "brightkite", "lastfm", "foursquare_nyc", "amazon_office"),
    *("retailrocket", "amazon_grocery", "ml-100k", "ml_latest_small", "delicious_tags"),
    *("tmall_sessions", "amazon_hin", "beauty", "amazon18_instruments", "amazon_videogames"),
    *("tags_math_sx", "gowalla", "sports", "taobao", "yelp", "nowplaying"),
)
#: What each model is given, Mult-VAE by RecBole's names; all else is RecBole's default.
SETTINGS: dict[str, dict[str, float]] = {
    "SASRec": {
        "width": 64,
        "blocks": 2,
        "heads": 2,
        "length": 50,
        "dropout": 0.3,
        "tokens": 800,
        "learning_rate": 0.002,
        "full_softmax_items": 1_600,
        "negatives": 768,
        "dense_items": 16_000,  # above, the items' vectors learn by sparse Adam
        "sparse_learning_rate": 0.01,
        "last_epochs": 2,
    },
    "GRU4Rec": {
        "width": 64,
        "recurrent": 1,
        "length": 50,
        "dropout": 0.3,
        "tokens": 800,
        "learning_rate": 0.002,
        "full_softmax_items": 1_600,
        "negatives": 768,
        "dense_items": 16_000,
        "sparse_learning_rate": 0.01,
        "last_epochs": 2,
    },
    "MultiVAE": {
        "latent_dimension": 128,
        "dropout_prob": 0.5,
        "anneal_cap": 0.2,
        "total_anneal_steps": 200_000,
        "learning_rate": 0.001,
        "train_batch_size": 256,
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


@dataclass(frozen=True)
class _Catalogue:
    """What a model of RecBole asks of its data set; users are numbered from 0."""

    data: Sequences

    def num(self, field: str) -> int:
        """Number of users, or of items and the one that fills rows."""
        return self.data.n_users if field == "user_id" else self.data.n_items + 1

    def history_item_matrix(self) -> tuple[Any, Any, Any]:
        """Each user's items, their values and their number."""
        import torch

        longest = int(np.diff(self.data.starts).max())
        items, sizes = latest(self.data, np.arange(self.data.n_users), longest)
        history = torch.from_numpy(items)
        return history, (history > 0).float(), torch.from_numpy(sizes)


def _model(data: Sequences, settings: Mapping[str, float]) -> Any:
    """Mult-VAE of RecBole with its initial weights."""
    import torch
    from recbole.config import Config
    from recbole.model.general_recommender import MultiVAE

    given = {**settings, "use_gpu": False, "state": "ERROR", "train_neg_sample_args": None}
    with patch.object(sys, "argv", sys.argv[:1]):  # RecBole would read our options as its own
        config = Config(model="MultiVAE", dataset="benchmark", config_dict=given)
    torch.autograd.set_detect_anomaly(False)  # a module of RecBole turns this check on, for all
    return MultiVAE(config, _Catalogue(data))


# --- training -------------------------------------------------------------------------------------


def until_no_rise(
    train: Callable[[], int],
    value: Callable[[], float],
    keep: Callable[[], None],
    is_enough: Callable[[float, int], bool],
    minutes: float = np.inf,
) -> dict[str, Any]:
    """Train in rounds, each of so many epochs as `train` says, and keep the round of the highest
    value; how the training ended. `is_enough` is asked with the highest value and the rounds since.
    """
    start = time.process_time()
    values: list[float] = []
    epochs, ended_by = [0], ""
    while not ended_by:
        epochs.append(epochs[-1] + train())
        values.append(value())
        best = int(np.argmax(values))
        if best == len(values) - 1:
            keep()
        if is_enough(values[best], len(values) - 1 - best):
            ended_by = "no rise"
        elif time.process_time() - start >= 60 * minutes:
            ended_by = "time"
    return {
        "epochs": epochs[-1],
        "best epoch": epochs[best + 1],
        f"validation {benchmark.TUNED_BY}": {
            "best": round(values[best], 5),
            "final": round(values[-1], 5),
        },
        "ended by": ended_by,
        "processor seconds": round(time.process_time() - start, 1),
    }


def validation(data: Sequences) -> Callable[[Callable[[Sequences], Scores]], float]:
    """The value on the validation items, each user's last of `data`, of what learns from the
    others.
    """
    train, held_out = data.without_last(1)
    users = benchmark.tuning_users(np.arange(train.n_users))
    entry = Entry(learn, {}, tolerance=0.0)

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


def _scores(model: Any, data: Sequences) -> Scores:
    """Scores of Mult-VAE that knows these histories."""
    import torch

    model.build_histroy_items(_Catalogue(data))

    def scores(users: IntArray) -> NDArray[np.float32]:
        with torch.no_grad():
            values = model.eval().full_sort_predict({model.USER_ID: torch.from_numpy(users)})
        return np.asarray(values.reshape(users.size, -1)[:, 1:].numpy())

    return scores


def _train_round(model: Any, optimizer: Any, size: int, rng: np.random.Generator) -> int:
    """Whole epochs until `ROUND` steps are taken, each user once in each; how many they were."""
    import torch

    model.train()
    steps, epochs, n_users = 0, 0, model.n_users
    while steps < ROUND:
        for rows in np.array_split(rng.permutation(n_users), -(-n_users // size)):
            optimizer.zero_grad()
            model.calculate_loss({model.USER_ID: torch.from_numpy(rows)}).backward()
            optimizer.step()
            steps += 1
        epochs += 1
    return epochs


def learn(data: Sequences, **settings: float) -> Trained:
    """Train Mult-VAE; `data` holds the validation items as each user's last."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    train, _ = data.without_last(1)
    model = _model(train, settings)
    optimizer = torch.optim.Adam(model.parameters(), lr=settings["learning_rate"])
    size, rng = int(settings["train_batch_size"]), np.random.default_rng(SEED)
    value = validation(data)
    weights: dict[str, Any] = {}
    facts = until_no_rise(
        lambda: _train_round(model, optimizer, size, rng),
        lambda: value(partial(_scores, model)),
        lambda: weights.update(copy.deepcopy(model.state_dict())),
        lambda _, rounds_since: rounds_since >= PATIENCE,
        MINUTES,
    )
    model.load_state_dict(weights)
    versions = {label: version(label) for label in ("torch", "recbole")}
    facts["minutes at most"] = MINUTES
    return Trained(_scores(model, data), {"training": facts, "versions": versions})


def _learn_sequential(data: Sequences, **settings: float) -> Scores:
    from .sasrec import learn as learn_in_order  # with PyTorch, which not all environments have

    return learn_in_order(data, **settings)


#: Models as recommenders of the benchmark, each with one value of every setting.
ENTRIES = {
    name: Entry(learner, {key: (value,) for key, value in SETTINGS[name].items()}, 0.0, by_time)
    for name, learner, by_time in (
        ("SASRec", _learn_sequential, True),
        ("GRU4Rec", _learn_sequential, True),
        ("MultiVAE", learn, False),
    )
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

    The exit status is 2 if the data, PyTorch or RecBole cannot be had.
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
