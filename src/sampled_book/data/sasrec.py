"""SASRec (Kang and McAuley, 2018) and GRU4Rec (Hidasi et al., 2016) in PyTorch, on one thread.

They differ in what turns a user's items into a vector: blocks of self-attention or, if `recurrent`
is set, gated recurrent units. Training takes one to three minutes of one processor on most sets.

A user's items are read in windows, with a loss at each position. In catalogues of at most
`full_softmax_items` items the loss is the cross-entropy of all items. In larger ones a batch shares
negatives, drawn in proportion to the square root of the items' users, and the loss corrects for
their probabilities. Batches hold windows of about the same length, so that hardly any position is
empty.

The model learns from all but the last two items of each user until the NDCG@10 of the validation
items has stopped to rise. While that is below Popular's, it has five times as long. The best
weights then learn for two more epochs, with the validation items included, as the benchmark's other
recommenders learn again with them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from sampled_metrics._validate import IntArray

from .benchmark import TUNED_BY
from .benchmark_recommenders import RECOMMENDERS, SEED
from .neural import Trained, latest, until_no_rise, validation, windows
from .sequences import Sequences

#: Steps between two looks at the validation items at least; looks without a rise, and steps at
#: least, before the training stops; how many times as many of both while it is below Popular.
ROUND, PATIENCE, LEAST, LONGER = 100, 3, 600, 5


# --- what a model is shown ------------------------------------------------------------------------


def batches(
    data: Sequences, settings: Mapping[str, float], rng: np.random.Generator
) -> Iterator[tuple[IntArray, IntArray]]:
    """Windows of similar length, with about `tokens` items together, in random order."""
    length = int(settings["length"])
    inputs, targets = windows(data, length, int(rng.integers(length)))
    sizes = (inputs > 0).sum(axis=1)
    order = np.lexsort([rng.random(sizes.size), sizes])
    part = np.cumsum(sizes[order]) // settings["tokens"]
    parts = np.split(order, np.flatnonzero(np.diff(part)) + 1)
    for turn in rng.permutation(len(parts)):
        rows, longest = parts[turn], sizes[parts[turn]].max()
        yield inputs[rows, :longest], targets[rows, :longest]


# --- the model ------------------------------------------------------------------------------------


def network(n_items: int, settings: Mapping[str, float]) -> Any:
    """The layers with their initial weights; items are numbered from 1."""
    width, dropout = int(settings["width"]), settings["dropout"]
    blocks: Any = nn.GRU(width, width, batch_first=True)
    if not settings.get("recurrent"):
        block = nn.TransformerEncoderLayer(
            width, int(settings["heads"]), width, dropout, batch_first=True, norm_first=True
        )
        blocks = nn.ModuleList([copy.deepcopy(block) for _ in range(int(settings["blocks"]))])
    layers = {
        "item_vectors": nn.Embedding(n_items + 1, width, sparse=n_items > settings["dense_items"]),
        "place_vectors": nn.Embedding(int(settings["length"]), width),
        "first": nn.Sequential(nn.LayerNorm(width), nn.Dropout(dropout)),
        "blocks": blocks,
        "last": nn.LayerNorm(width),
    }
    for layer in [layers["item_vectors"], layers["place_vectors"], *layers["blocks"].modules()]:
        if isinstance(layer, nn.Embedding | nn.Linear):
            nn.init.normal_(layer.weight, std=0.02)
    return nn.ModuleDict(layers)


def states(model: Any, shown: Any) -> Any:
    """A vector for each position of some windows, from the items up to it alone."""
    if isinstance(model["blocks"], nn.GRU):  # the order of the items says their places
        return model["last"](model["blocks"](model["first"](model["item_vectors"](shown)))[0])
    length = shown.shape[1]
    is_later = torch.ones(length, length, dtype=torch.bool).triu(1)
    vectors = model["first"](model["item_vectors"](shown) + model["place_vectors"].weight[:length])
    for block in model["blocks"]:
        vectors = block(vectors, src_mask=is_later)
    return model["last"](vectors)


def sampled_softmax(scores: Any, negative_scores: Any, is_same: Any, log_expected: Any) -> Any:
    """Mean cross-entropy, with the sum over all items estimated from negatives.

    `scores` (positions,) are of the next items, `negative_scores` (positions, negatives) of the
    negatives, `is_same` where a negative is the next item. Each other negative stands for as many
    items as one over the expected number of times that it is drawn, `log_expected` (negatives,): so
    the sum has no bias.
    """
    corrected = (negative_scores - log_expected).masked_fill(is_same, -torch.inf)
    total = torch.cat([scores[:, None], corrected], dim=1).logsumexp(dim=1)
    return (total - scores).mean()


def loss(
    model: Any, inputs: IntArray, targets: IntArray, weights: Any = None, negatives: int = 0
) -> Any:
    """The loss of a batch; `weights` (n_items,) are proportional to the chances of negatives, and
    None if all items count.
    """
    wanted = torch.from_numpy(targets)
    vectors = states(model, torch.from_numpy(inputs))[wanted > 0]
    wanted = wanted[wanted > 0]
    items = model["item_vectors"]
    if weights is None:
        return nn.functional.cross_entropy(vectors @ items.weight[1:].T, wanted - 1)
    drawn = torch.multinomial(weights, negatives, replacement=True)
    log_expected = (negatives * weights[drawn] / weights.sum()).log()
    scores, others = (vectors * items(wanted)).sum(dim=1), vectors @ items(drawn + 1).T
    return sampled_softmax(scores, others, drawn + 1 == wanted[:, None], log_expected)


# --- training -------------------------------------------------------------------------------------


def scored(model: Any, data: Sequences, users: IntArray) -> NDArray[np.float32]:
    """Scores of all items for some users with these histories, shape (users, n_items)."""
    shown, sizes = latest(data, users, model["place_vectors"].num_embeddings)
    with torch.no_grad():
        vectors = states(model.eval(), torch.from_numpy(shown[:, : sizes.max()]))
        last = vectors[torch.arange(users.size), sizes - 1]
        return np.asarray((last @ model["item_vectors"].weight[1:].T).numpy())


def seeded() -> np.random.Generator:
    """Set PyTorch to one thread and the benchmark's seed; a generator with the same seed."""
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)  # tiny numbers take many times as long
    torch.manual_seed(SEED)
    return np.random.default_rng(SEED)


def negative_weights(data: Sequences, settings: Mapping[str, float]) -> Any:
    """The square root of the items' users before the validation items, or None if all items count
    in the loss.
    """
    if data.n_items <= settings["full_softmax_items"]:
        return None
    counts = np.bincount(data.without_last(1)[0].items, minlength=data.n_items)
    return torch.from_numpy(np.sqrt(np.maximum(counts, 1)))


def _optimizers(model: Any, settings: Mapping[str, float], share: float = 1.0) -> list[Any]:
    """Adam, and sparse Adam for the items where they are many."""
    layers = [layer for layer in model.modules() if getattr(layer, "sparse", False)]
    sparse = [layer.weight for layer in layers]
    others = [part for part in model.parameters() if all(part is not one for one in sparse)]
    optimizers: list[Any] = [torch.optim.Adam(others, lr=share * settings["learning_rate"])]
    if sparse:
        items_rate = share * settings["sparse_learning_rate"]
        optimizers.append(torch.optim.SparseAdam(sparse, lr=items_rate))
    return optimizers


def fit(
    model: Any,
    data: Sequences,
    settings: Mapping[str, float],
    losses: Callable[[Sequences], Iterable[Any]],
    scored: Callable[[Any, Sequences, IntArray], NDArray[Any]],
) -> Trained:
    """Train a model; `data` holds the validation items as each user's last. `losses` gives those of
    the batches of an epoch, each computed when it is asked for.
    """
    train, _ = data.without_last(1)
    value, best, steps = validation(data), {}, 0
    popular = value(RECOMMENDERS["Popular"].learn)

    def epoch(known: Sequences, optimizers: Sequence[Any]) -> None:
        nonlocal steps
        model.train()
        for batch_loss in losses(known):
            model.zero_grad()
            batch_loss.backward()
            for optimizer in optimizers:
                optimizer.step()
            steps += 1

    def train_round(optimizers: Sequence[Any]) -> int:
        end, epochs = steps + ROUND, 0
        while steps < end:
            epoch(train, optimizers)
            epochs += 1
        return epochs

    def is_enough(highest: float, rounds_since: int) -> bool:
        times = 1 if highest > popular else LONGER
        return steps >= times * LEAST and rounds_since >= times * PATIENCE

    facts = until_no_rise(
        partial(train_round, _optimizers(model, settings)),
        lambda: value(lambda known: partial(scored, model, known)),
        lambda: best.update(copy.deepcopy(model.state_dict())),
        is_enough,
    )
    facts |= {"steps": steps}
    facts[f"validation {TUNED_BY}"]["Popular"] = round(popular, 5)
    model.load_state_dict(best)
    optimizers = _optimizers(model, settings, 0.5)
    for _ in range(int(settings["last_epochs"])):
        epoch(data, optimizers)
    known_facts = {"training": facts, "versions": {"torch": version("torch")}}
    return Trained(partial(scored, model, data), known_facts)


def learn(data: Sequences, **settings: float) -> Trained:
    """Train SASRec or GRU4Rec; `data` holds the validation items as each user's last."""
    rng = seeded()
    model, weights = network(data.n_items, settings), negative_weights(data, settings)

    def losses(known: Sequences) -> Iterator[Any]:
        for inputs, targets in batches(known, settings, rng):
            yield loss(model, inputs, targets, weights, int(settings["negatives"]))

    return fit(model, data, settings, losses, scored)
