"""Corrections that are fitted to each sample, over a thousand simulated evaluations.

A correction that is a fixed vector has an exact bias and variance. One that is fitted to the
sample by itself has not, so evaluations are simulated, each with a generator of its own:
``numpy.random.default_rng([SEED, set, m, draw])``. ``python -m sampled_book.fits`` simulates
them all, in half an hour of one processor, and writes the file that :func:`bundled_fits` reads;
the tests repeat some and compare.
"""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from tqdm import tqdm

from sampled_metrics import estimators, priors
from sampled_metrics._validate import FloatArray, generator, integer
from sampled_metrics.io.files import put
from sampled_metrics.metrics import Metric, metric
from sampled_metrics.protocol import Protocol
from sampled_metrics.ranking import RankIntervals

from . import datasets, study

#: The corrections: the metric of the likeliest distribution of true ranks, that of the most even
#: one, and bias-variance with the latter, of all recommenders together, as its prior.
WAYS = ("likelihood", "entropy", "BV fitted")
SEED = 17
#: Numbers of negatives, metrics and draws of the evaluations that are bundled.
SIZES = (10, 30, 100)
METRICS = ("recall@10", "ndcg@10", "ap", "auc")
DRAWS = 1_000
#: Averages are kept as whole multiples of one over this: a tenth of a percent of their noise.
_SCALE = 30_000


def recommender_sets(data: str = "ml-100k") -> dict[str, dict[str, RankIntervals]]:
    """The recommenders compared: X, Y and Z of krichene2020, and those of the decoy study.

    Of each user's test items in the study, the first one is the relevant item.

    Parameters
    ----------
    data : str
        Data set of the study, as for :func:`sampled_book.study.bundled_study`.

    Returns
    -------
    dict of set to dict of recommender to RankIntervals
        The sets are "X, Y, Z" and "study".

    Raises
    ------
    ValueError
        If there is no study of that data set.

    Examples
    --------
    >>> {name: list(found) for name, found in recommender_sets().items()}["X, Y, Z"]
    ['X', 'Y', 'Z']
    """
    places = study.bundled_study(data).sets
    return {
        "X, Y, Z": datasets.bundled_ranks(),
        "study": {
            name: RankIntervals(each.n_better[:, 0], each.n_tied[:, 0], each.n_irrelevant + 1)
            for name, each in places.items()
        },
    }


def evaluation(
    recommenders: Mapping[str, RankIntervals],
    metrics: Sequence[Metric],
    n_negatives: int,
    rng: int | np.random.Generator,
) -> FloatArray:
    """What the fitted corrections report of one simulated evaluation.

    Negatives are drawn without replacement for every user and recommender, and ties broken at
    random; the corrections take the mean number of candidates for all users.

    Parameters
    ----------
    recommenders : mapping of str to RankIntervals
        Of the same users.
    metrics : sequence of Metric
    n_negatives : int
        From 1 to the smallest number of candidates less 1.
    rng : int or numpy.random.Generator

    Returns
    -------
    ndarray of float, shape (3, n_metrics, n_recommenders)
        In the order of `WAYS`.

    Raises
    ------
    ValueError
        If `n_negatives` is outside its range.

    Examples
    --------
    >>> toy = {"A": RankIntervals([0, 3, 9], [0, 0, 2], [50, 50, 50])}
    >>> evaluation(toy, [metric("auc")], 49, rng=0).shape
    (3, 1, 1)
    """
    rng = generator(rng)
    items = next(iter(recommenders.values())).n_candidates
    m = integer(n_negatives, "n_negatives", 1, int(items.min()) - 1)
    protocol = Protocol(round(float(items.mean())), m, replacement=False)
    counts = []
    for ranks in recommenders.values():
        above = ranks.ranks("random", rng) - 1
        drawn = rng.hypergeometric(above, ranks.n_candidates - 1 - above, m)
        counts.append(np.bincount(drawn, minlength=m + 1))
    n = int(protocol.n_items)
    prior = priors.maximum_entropy(np.sum(counts, axis=0), protocol).mass
    gamma = 1.0 / float(np.sqrt(items.size))
    likeliest = [priors.maximum_likelihood(each, protocol) for each in counts]
    evenest = [priors.maximum_entropy(each, protocol) for each in counts]
    found = np.empty((len(WAYS), len(metrics), len(counts)))
    for i, of in enumerate(metrics):
        values = estimators.bias_variance(of, protocol, gamma, prior).values
        found[0, i] = [priors.plug_in(fit, of, n) for fit in likeliest]
        found[1, i] = [priors.plug_in(fit, of, n) for fit in evenest]
        found[2, i] = [values @ each / each.sum() for each in counts]
    return found


def bundled_fits() -> pd.DataFrame:
    """Averages that the fitted corrections reported over a thousand simulated evaluations.

    Returns
    -------
    DataFrame
        Columns set and name, as in :func:`recommender_sets` of MovieLens 100K; m, one of `SIZES`;
        metric, one of `METRICS`; by, one of `WAYS`; draw, from 0; and value, within 0.00002.

    Examples
    --------
    >>> fits = bundled_fits()
    >>> int(fits["draw"].max()) + 1, sorted(fits["m"].unique().tolist())
    (1000, [10, 30, 100])
    """
    tables, sets = [], recommender_sets()
    with np.load(datasets.BUNDLE / "fits.npz") as bundle:
        for key in bundle.files:
            of_set, _, m = key.rpartition("/")
            names = list(sets[of_set])
            held = bundle[key]
            labels = (range(len(held)), WAYS, METRICS, names)
            index = pd.MultiIndex.from_product(labels, names=["draw", "by", "metric", "name"])
            rows = index.to_frame(index=False).assign(value=held.ravel() / _SCALE)
            tables.append(rows.assign(set=of_set, m=int(m)))
    columns = ["set", "m", "metric", "by", "name", "draw", "value"]
    return pd.concat(tables, ignore_index=True)[columns]


@cache
def _recommenders(place: int) -> dict[str, RankIntervals]:
    """One of the sets, read once by each process."""
    return list(recommender_sets().values())[place]


def _draw(task: tuple[int, int, int]) -> FloatArray:
    """One evaluation of a set, for a number of negatives."""
    place, m, draw = task
    rng = np.random.default_rng([SEED, place, m, draw])
    return evaluation(_recommenders(place), [metric(name) for name in METRICS], m, rng)


def _simulated() -> dict[str, FloatArray]:
    """All evaluations, by set and number of negatives."""
    sets = list(recommender_sets())
    cells = [(place, m) for place in range(len(sets)) for m in SIZES]
    tasks = [(place, m, draw) for place, m in cells for draw in range(DRAWS)]
    with ProcessPoolExecutor() as pool:
        done = pool.map(_draw, tasks, chunksize=5)
        values = list(tqdm(done, desc="fits", total=len(tasks), unit="evaluation"))
    parts = [values[i : i + DRAWS] for i in range(0, len(values), DRAWS)]
    return {
        f"{sets[place]}/{m}": np.array(part) for (place, m), part in zip(cells, parts, strict=True)
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Simulate the evaluations and write them."""
    parser = argparse.ArgumentParser(prog="sampled_book.fits", description=main.__doc__)
    parser.add_argument("--output", type=Path, help="folder of the file; default: the package's")
    folder = parser.parse_args(argv).output or datasets.BUNDLE
    packed = io.BytesIO()
    small = {key: np.round(v * _SCALE).astype(np.int16) for key, v in _simulated().items()}
    np.savez_compressed(packed, **small)  # type: ignore[arg-type]
    print(put(folder / "fits.npz", packed.getvalue()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
