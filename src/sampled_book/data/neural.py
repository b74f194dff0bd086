"""Neural recommenders of RecBole, trained and ranked exactly on data sets of the benchmark.

``python -m sampled_book.data.neural`` computes rank intervals of the same users, candidates and
order as :mod:`~sampled_book.data.benchmark`; ``benchmark.ranks(name, BUNDLE)`` reads them. RecBole
gives each model's layers, initial weights, loss and scores. The loop that trains it is ours: Adam
on one thread, from one seed.

A model learns from all but the last two items of each user. After each round, of whole epochs and
at least `ROUND` steps, it ranks the validation items as the benchmark's tuning does. It stops once
NDCG@10 has not risen for `PATIENCE` rounds, or when its processor time is over; the weights of the
best round are kept. The benchmark's other recommenders learn again with the validation items; a
neural one does not. As with the others, these items belong to the user's history when the test
items are ranked: the model is given them, and they are no candidates.

RecBole's own trainer gives a sequential model one row for each position, with the items before it.
Here a row is a sequence and has a loss at each of its positions. Where a sequence fits into a
window the loss is the same, from many times fewer rows. A longer sequence is cut into windows,
elsewhere in each epoch.
"""

from __future__ import annotations

import copy
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from sampled_metrics._validate import IntArray

from . import benchmark, bundle
from .benchmark_recommenders import RECOMMENDERS, SEED, Entry
from .sequences import Sequences

NAME = "sampled_book.data.neural"
BUNDLE = benchmark.BUNDLE / "neural"
#: Steps between two looks at the validation items, at least; and looks without a rise before a
#: model stops.
ROUND, PATIENCE = 50, 10
#: Processor time of a model, in minutes.
MINUTES = 5.0
LIBRARIES = ("numpy", "scipy", "torch", "recbole")
#: Data sets in order of time with at most 150,000 interactions.
DATA = (
    "ml-100k",
    "ml_latest_small",
    "foursquare_nyc",
    "brightkite",
    "lastfm",
    "delicious_tags",
    "amazon_office",
    "retailrocket",
    "amazon_grocery",
    "amazon_digitalmusic",
)
#: What each model is given by RecBole's names; all else is RecBole's default. A step takes
#: `train_batch_size` windows of sequences, or users. Feed-forward layers of SASRec are as wide as
#: the others, and its dropout is 0.2, as its authors have them on MovieLens.
SETTINGS: dict[str, dict[str, float]] = {
    "SASRec": {
        "n_layers": 2,
        "n_heads": 2,
        "hidden_size": 64,
        "inner_size": 64,
        "hidden_dropout_prob": 0.2,
        "attn_dropout_prob": 0.2,
        "MAX_ITEM_LIST_LENGTH": 50,
        "learning_rate": 0.001,
        "train_batch_size": 32,
    },
    "MultiVAE": {
        "latent_dimension": 128,
        "dropout_prob": 0.5,
        "anneal_cap": 0.2,
        "total_anneal_steps": 200_000,
        "learning_rate": 0.001,
        "train_batch_size": 256,
    },
    "GRU4Rec": {
        "embedding_size": 64,
        "hidden_size": 128,
        "num_layers": 1,
        "dropout_prob": 0.3,
        "MAX_ITEM_LIST_LENGTH": 50,
        "learning_rate": 0.001,
        "train_batch_size": 32,
    },
}
DEFAULT = ("SASRec", "MultiVAE")


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


def _model(name: str, data: Sequences, settings: Mapping[str, float]) -> Any:
    """A model of RecBole with its initial weights."""
    import torch
    from recbole.config import Config
    from recbole.utils import get_model

    given = {**settings, "use_gpu": False, "state": "ERROR", "train_neg_sample_args": None}
    with patch.object(sys, "argv", sys.argv[:1]):  # RecBole would read our options as its own
        config = Config(model=name, dataset="benchmark", config_dict=given)
    kind = get_model(name)
    torch.autograd.set_detect_anomaly(False)  # a module of RecBole turns this check on, for all
    return kind(config, _Catalogue(data))


def _is_sequential(model: Any) -> bool:
    return hasattr(model, "ITEM_SEQ")


def _batches(
    model: Any, data: Sequences, size: int, rng: np.random.Generator
) -> Iterator[dict[str, Any]]:
    """Each user once, or each window, in random order."""
    import torch

    if _is_sequential(model):
        inputs, targets = windows(
            data, model.max_seq_length, int(rng.integers(model.max_seq_length))
        )
    order = rng.permutation(len(inputs) if _is_sequential(model) else data.n_users)
    for rows in np.array_split(order, -(-order.size // size)):
        if _is_sequential(model):
            wanted = torch.from_numpy(targets[rows])
            sizes = (wanted > 0).sum(dim=1)
            yield {
                model.ITEM_SEQ: torch.from_numpy(inputs[rows])[:, : sizes.max()],
                model.ITEM_SEQ_LEN: sizes,
                model.POS_ITEM_ID: wanted[wanted > 0],
            }
        else:
            yield {model.USER_ID: torch.from_numpy(rows)}


def _at_every_position(output: Any, last: Any) -> Any:
    """In place of `gather_indexes`, which takes the last position of each row."""
    import torch

    return output[torch.arange(output.shape[1]) <= last[:, None]]


# --- training -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Trained:
    """Scores of a model that knows these histories, and how its training ended."""

    model: Any
    data: Sequences
    facts: Mapping[str, Any]

    def __post_init__(self) -> None:
        if not _is_sequential(self.model):
            self.model.build_histroy_items(_Catalogue(self.data))

    def __call__(self, users: IntArray) -> NDArray[np.float32]:
        """Scores of all items for some users, shape (users, n_items)."""
        import torch

        model = self.model.eval()
        if _is_sequential(model):
            items, sizes = map(torch.from_numpy, latest(self.data, users, model.max_seq_length))
            shown = {model.ITEM_SEQ: items, model.ITEM_SEQ_LEN: sizes}
        else:
            shown = {model.USER_ID: torch.from_numpy(users)}
        with torch.no_grad():
            scores = model.full_sort_predict(shown).reshape(users.size, -1)
        return np.asarray(scores[:, 1:].numpy())


def _train_round(model: Any, optimizer: Any, batches: Callable[[], Iterator[Any]]) -> int:
    """Whole epochs until `ROUND` steps are taken; how many they were."""
    model.train()
    if _is_sequential(model):
        model.gather_indexes = _at_every_position
    steps, epochs = 0, 0
    while steps < ROUND:
        for batch in batches():
            optimizer.zero_grad()
            model.calculate_loss(batch).backward()
            optimizer.step()
            steps += 1
        epochs += 1
    if _is_sequential(model):
        del model.gather_indexes
    return epochs


def until_no_rise(
    train: Callable[[], int], value: Callable[[], float], keep: Callable[[], None], minutes: float
) -> dict[str, Any]:
    """Train in rounds, each of so many epochs as `train` says, and keep the round of the highest
    value; how the training ended.
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
        if len(values) - 1 - best >= PATIENCE:
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
        "minutes at most": minutes,
        "processor seconds": round(time.process_time() - start, 1),
    }


def learn(name: str, data: Sequences, *, minutes: float = MINUTES, **settings: float) -> Trained:
    """Train a model; `data` holds the validation items as each user's last."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    train, held_out = data.without_last(1)
    users = benchmark.tuning_users(np.arange(train.n_users))
    model = _model(name, train, settings)
    optimizer = torch.optim.Adam(model.parameters(), lr=settings["learning_rate"])
    size, rng = int(settings["train_batch_size"]), np.random.default_rng(SEED)
    entry, trained = entries([name])[name], Trained(model, train, {})
    weights: dict[str, Any] = {}

    def value() -> float:
        intervals = benchmark.place(entry, trained, train, held_out, users)
        return float(intervals.evaluate(benchmark.TUNED_BY).mean())

    facts = until_no_rise(
        lambda: _train_round(model, optimizer, partial(_batches, model, train, size, rng)),
        value,
        lambda: weights.update(copy.deepcopy(model.state_dict())),
        minutes,
    )
    model.load_state_dict(weights)
    return Trained(model, data, {"training": facts})


def entries(models: Sequence[str], minutes: float = MINUTES) -> dict[str, Entry]:
    """Models as recommenders of the benchmark, each with one value of every setting."""
    return {
        name: Entry(
            partial(learn, name, minutes=minutes),
            {setting: (value,) for setting, value in SETTINGS[name].items()},
            tolerance=0.0,
            by_time="MAX_ITEM_LIST_LENGTH" in SETTINGS[name],
        )
        for name in models
    }


def judge(name: str, data: Sequences, folder: Any) -> list[str]:
    """Add the NDCG@10 of the test items, Popular's beside it, to what is known of each model; a
    sentence for each model that is worse than Popular.
    """
    popular = benchmark.compute(RECOMMENDERS["Popular"], data)[0]
    baseline = float(popular.evaluate(benchmark.TUNED_BY).mean())
    facts, sentences = benchmark.facts(name, folder), []
    facts[f"test {benchmark.TUNED_BY} of Popular"] = round(baseline, 5)
    for model, intervals in benchmark.ranks(name, folder).items():
        value = float(intervals.evaluate(benchmark.TUNED_BY).mean())
        facts["recommenders"][model] |= {
            f"test {benchmark.TUNED_BY}": round(value, 5),
            "below Popular": value < baseline,
        }
        if value < baseline:
            sentences.append(f"{name}, {model}: NDCG@10 {value:.4f}, Popular has {baseline:.4f}")
    bundle.write_json(folder / f"{name}.json", facts)
    return sentences


def main(argv: Sequence[str] | None = None) -> int:
    """Train neural recommenders, rank the test items and write the ranks of each as it comes.

    The exit status is 2 if the data or RecBole cannot be had.
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
        default=DEFAULT,
        choices=tuple(SETTINGS),
        help=f"default: {' '.join(DEFAULT)}",
    )
    parser.add_argument(
        "--minutes",
        type=float,
        default=MINUTES,
        help="processor time after which a model stops, on one thread; default: %(default)g",
    )
    options = parser.parse_args(argv)
    folder = options.output or BUNDLE

    def write() -> Iterator[str]:
        readers, found, is_bundled, problems = benchmark.chosen(options.data)
        if not is_bundled and options.output is None:
            parser.error("give an --output folder for data sets other than the package's")
        readers |= {source.name: source.read for source in found.values()}
        turns = {name: turn for turn, name in enumerate(options.data)}
        known = entries(options.models, options.minutes)
        for name in sorted(readers, key=lambda name: turns.get(name, len(turns))):
            data = readers[name]()
            command = f"python -m {NAME} --data {name}"
            tell = partial(print, flush=True)
            benchmark.run(name, data, folder, command, tell, entries=known, libraries=LIBRARIES)
            yield from judge(name, data, folder)
        if problems:
            raise ValueError("; ".join(problems))

    return bundle.run(write)


if __name__ == "__main__":
    sys.exit(main())
