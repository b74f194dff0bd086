"""Link prediction on three small graphs: exact ranks of models trained by PyKEEN, and samples.

``python -m sampled_book.experiments.graphs`` trains the models of `MODELS` on the graphs of
`GRAPHS`, which come with PyKEEN, and writes the ranks that :func:`ranks` reads. Each test triple is
predicted twice, its head and its tail, among all entities but those of which the triple is known to
be true ("filtered"): in training, validation or test. Settings are fixed beforehand and not tuned.
It needs an environment of its own, with the extra ``graphs``; nothing else here does.
"""

from __future__ import annotations

import platform
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from sampled_metrics._validate import FloatArray, IntArray, integer
from sampled_metrics.metrics import metric as parsed
from sampled_metrics.ranking.intervals import RankIntervals
from sampled_metrics.readers import pykeen

from ..data import benchmark, bundle, datasets
from .theory import of_users

BUNDLE = datasets.BUNDLE / "graphs"
SEED = 12
#: Name of each graph, and for how many epochs models learn it.
GRAPHS = {"nations": 60, "kinships": 30, "umls": 40}
#: How all but the first of the models learn: heads and tails among all entities, by cross-entropy.
BATCH, LEARNING_RATE = 512, 0.02


@dataclass(frozen=True)
class Entry:
    """A model of PyKEEN: its name there and its options."""

    model: str
    options: Mapping[str, int]


#: The first one counts: how often an entity stands with this relation, times how often it stands
#: with this other entity. The others have 16 numbers for each entity.
MODELS = {
    "Frequency": Entry("MarginalDistributionBaseline", {}),
    "TransE": Entry("TransE", {"embedding_dim": 16}),
    "DistMult": Entry("DistMult", {"embedding_dim": 16}),
    "ComplEx": Entry("ComplEx", {"embedding_dim": 8}),
    "RotatE": Entry("RotatE", {"embedding_dim": 8}),
}


# --- training and ranking -------------------------------------------------------------------------


def learn(entry: Entry, data: Any, epochs: int) -> Any:
    """A model of PyKEEN, trained on the training triples of one of its data sets."""
    import torch
    from pykeen.models import MarginalDistributionBaseline, model_resolver
    from torch.nn.functional import cross_entropy

    torch.set_num_threads(1)  # sums in another order are other sums
    options: dict[str, Any] = dict(entry.options)
    if not options:
        model = MarginalDistributionBaseline(triples_factory=data.training)
        model.register_buffer("none", torch.zeros(0))  # PyKEEN asks its parameters where it is
        return model
    options["random_seed"] = SEED
    model = model_resolver.make(entry.model, options, triples_factory=data.training)
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
    order, triples = torch.Generator().manual_seed(SEED), data.training.mapped_triples
    for _ in range(epochs):
        for batch in triples[torch.randperm(len(triples), generator=order)].split(BATCH):
            optimizer.zero_grad()
            tails, heads = model.score_t(batch[:, :2]), model.score_h(batch[:, 1:])
            loss = cross_entropy(tails, batch[:, 2]) + cross_entropy(heads, batch[:, 0])
            (loss + model.collect_regularization_term()).backward()
            optimizer.step()
            model.post_parameter_update()
    return model


def place(model: Any, data: Any) -> RankIntervals:
    """Rank intervals of the test triples, first all heads and then all tails, in a random order."""
    from pykeen.evaluation import RankBasedEvaluator

    evaluator = RankBasedEvaluator(clear_on_finalize=False)
    known_triples = [data.training.mapped_triples, data.validation.mapped_triples]
    test = data.testing.mapped_triples
    shuffled = test[np.random.default_rng(SEED).permutation(len(test))]
    evaluator.evaluate(
        model, shuffled, additional_filter_triples=known_triples, batch_size=256, use_tqdm=False
    )
    rows = pykeen(evaluator)
    better, tied, items = (rows[key].to_numpy() for key in ("n_better", "n_tied", "n_items"))
    return RankIntervals(better, tied, items)


def compute(graph: str, name: str) -> tuple[RankIntervals, dict[str, Any]]:
    """Train one model on one graph and rank: the ranks, and how they came about."""
    from pykeen.datasets import get_dataset

    data, entry = get_dataset(dataset=graph), MODELS[name]
    start = time.process_time()
    model = learn(entry, data, GRAPHS[graph])
    trained = time.process_time()
    intervals = place(model, data)
    seconds = {"training": trained - start, "ranking": time.process_time() - trained}
    return intervals, {
        "model": entry.model,
        "settings": settings(graph, name),
        "processor seconds": {key: round(value, 2) for key, value in seconds.items()},
    }


def settings(graph: str, name: str) -> dict[str, float]:
    """The settings of a model on a graph, empty for the one that counts."""
    options = dict(MODELS[name].options)
    if not options:
        return {}
    return options | {"epochs": GRAPHS[graph], "batch": BATCH, "learning rate": LEARNING_RATE}


def shape(graph: str) -> dict[str, int]:
    """Entities, relations and triples of a graph that comes with PyKEEN."""
    from pykeen.datasets import get_dataset

    data = get_dataset(dataset=graph)
    sizes = {"entities": data.num_entities, "relations": data.num_relations}
    parts = {"training": data.training, "validation": data.validation, "test": data.testing}
    return sizes | {name: part.num_triples for name, part in parts.items()}


def run(graph: str, folder: Path, command: str, tell: Callable[[str], object]) -> None:
    """Compute the ranks of all models on a graph."""
    provenance: dict[str, Any] = shape(graph) | {
        "command": command,
        "seed": SEED,
        "python": platform.python_version(),
        "versions": {package: version(package) for package in ("numpy", "pykeen", "torch")},
        "models": {},
    }
    intervals_by_model: dict[str, RankIntervals] = {}
    for name in MODELS:
        intervals_by_model[name], provenance["models"][name] = compute(graph, name)
        tell(f"{graph}, {name}: {provenance['models'][name]}")
    benchmark.write(graph, intervals_by_model, provenance, {}, folder)


# --- the bundle -----------------------------------------------------------------------------------


def ranks(graph: str, folder: str | Path = BUNDLE) -> dict[str, RankIntervals]:
    """Rank intervals of each model on a graph of `GRAPHS`, computed before.

    All models have the same predictions: the heads of the test triples in one random order, then
    their tails. `folder` is where the command's ``--output`` wrote.
    """
    return benchmark.ranks(graph, folder)


def facts(graph: str, folder: str | Path = BUNDLE) -> dict[str, Any]:
    """Provenance of the ranks of a graph: its size, settings, seconds, seed and versions."""
    return benchmark.facts(graph, folder)


# --- samples --------------------------------------------------------------------------------------


def negatives(places: RankIntervals, n_negatives: int) -> IntArray:
    """Negatives of each prediction: `n_negatives`, or all where filtering leaves fewer."""
    return np.minimum(integer(n_negatives, "n_negatives", 1), places.n_candidates - 1)


def expected(places: RankIntervals, n_negatives: int, metric: str) -> FloatArray:
    """Expectation of a sampled metric for each prediction, ties broken at random and negatives
    distinct; all of them where filtering leaves fewer.
    """
    parsed_metric, n_drawn = parsed(metric), negatives(places, n_negatives)
    expectations = np.empty(n_drawn.size)
    for m in np.unique(n_drawn).tolist():
        has_m = n_drawn == m
        pmf = of_users(places, has_m).sampled_pmf(m)
        expectations[has_m] = pmf @ parsed_metric.vector(m + 1)
    return expectations


def overview(metrics: Sequence[str], sizes: Sequence[int]) -> pd.DataFrame:
    """Each model's exact metrics and expected sampled metrics, by graph, metric and m."""
    rows = [
        (graph, name, metric, m, places.evaluate(metric).mean(), expected(places, m, metric).mean())
        for graph in GRAPHS
        for name, places in ranks(graph).items()
        for metric in metrics
        for m in sizes
    ]
    return pd.DataFrame(rows, columns=["graph", "model", "metric", "m", "exact", "sampled"])


def reversals(table: pd.DataFrame) -> pd.DataFrame:
    """One row for each pair of models in an overview that a sample orders wrongly in expectation:
    the model with the larger exact metric first, and both differences, first less second.
    """
    rows = []
    for keys, cell in table.groupby(["graph", "metric", "m"], sort=False):
        models = sorted(
            cell[["model", "exact", "sampled"]].to_numpy().tolist(), key=lambda m: -m[1]
        )
        for better, worse in combinations(models, 2):
            exact, sampled = better[1] - worse[1], better[2] - worse[2]
            if exact * sampled < 0:
                rows.append((*keys, better[0], worse[0], exact, sampled))
    names = ["graph", "metric", "m", "better", "worse", "exact", "sampled"]
    return pd.DataFrame(rows, columns=names)


def with_errors(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows of :func:`reversals` with the standard errors of both differences over test triples:
    "exact error" and "sampled error". The two predictions of a triple count as one value.
    """
    errors = []
    keys = ["graph", "metric", "m", "better", "worse"]
    for graph, metric, m, *names in rows[keys].to_numpy().tolist():
        better, worse = (ranks(graph)[name] for name in names)
        exact = better.evaluate(metric) - worse.evaluate(metric)
        sampled = expected(better, m, metric) - expected(worse, m, metric)
        # Heads come first and then tails, in the same order of triples.
        by_triple = np.array([exact, sampled]).reshape(2, 2, -1).mean(axis=1)
        errors.append(by_triple.std(axis=1, ddof=1) / np.sqrt(by_triple.shape[1]))
    columns = np.array(errors).reshape(-1, 2).T
    return rows.assign(**{"exact error": columns[0], "sampled error": columns[1]})


def adjusted(above: ArrayLike, n_negatives: ArrayLike) -> dict[str, float]:
    """PyKEEN's metrics that are adjusted for chance, from the mean rank.

    `above` counts the negatives above the true entity and half of those level with it. "AMR" is the
    mean rank over its value in random order, in (0, 2]; "AMRI" is 1 less the mean number above over
    its value in random order, in [-1, 1]; "z" is by how many standard deviations of a random
    order's mean rank the mean rank is better.
    """
    n_above, n_drawn = np.asarray(above, dtype=float), np.asarray(n_negatives, dtype=float)
    n_predictions = len(n_drawn)
    expected_above = n_drawn.sum() / 2
    spread = np.sqrt((((n_drawn + 1) ** 2 - 1) / 12).sum())
    return {
        "AMR": float((n_above.sum() + n_predictions) / (expected_above + n_predictions)),
        "AMRI": float(1 - n_above.sum() / expected_above),
        "z": float((expected_above - n_above.sum()) / spread),
    }


def adjustments(places: RankIntervals, n_negatives: int | None = None) -> dict[str, float]:
    """:func:`adjusted` of exact ranks, or of a sample in expectation."""
    above, pool = places.n_better + places.n_tied / 2, places.n_candidates - 1
    if n_negatives is None:
        return adjusted(above, pool)
    n_drawn = negatives(places, n_negatives)
    return adjusted(above * n_drawn / pool, n_drawn)


def main(argv: Sequence[str] | None = None) -> int:
    """Train the models and write their ranks.

    The exit status is 2 if PyKEEN or a folder is missing.
    """
    arguments = sys.argv[1:] if argv is None else list(argv)
    module = "sampled_book.experiments.graphs"
    parser = bundle.parser(module, main.__doc__)
    parser.add_argument(
        "--graphs", nargs="+", choices=list(GRAPHS), default=list(GRAPHS), help="default: all three"
    )
    options = parser.parse_args(arguments)
    folder = options.output or BUNDLE

    def write() -> None:
        command = " ".join([f"python -m {module}", *arguments])
        for graph in options.graphs:
            run(graph, folder, command, partial(print, flush=True))

    return bundle.run(write)


if __name__ == "__main__":
    sys.exit(main())
