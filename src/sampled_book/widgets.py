"""What the widgets of the book read: ranks, and what a sample leaves possible.

``python -m sampled_book.widgets`` writes both beside the scripts, in book/_static/widgets.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from sampled_metrics import Protocol, estimators, metric
from sampled_metrics.identification import IncompatibleError, Shape, interval
from sampled_metrics.io.files import put

from .datasets import bundled_ranks

#: Where the scripts of the widgets are.
FOLDER = Path(__file__).parents[2] / "book/_static/widgets"
#: What one may assume of the users near the top of the list, the weakest first.
SHAPES = (None, Shape(), Shape(steepness=4.0), Shape(steepness=2.0))
METRICS = ("recall@10", "ndcg@10")
NEGATIVES = (100, 300, 1_000)


def ranks() -> dict[str, Any]:
    """The bundled ranks as the scripts read them, users in the order of their candidates.

    Returns
    -------
    dict
        Under "n" the candidates of each user, as differences from the user before; under the name
        of each recommender "better" and "tied".

    Examples
    --------
    >>> found = ranks()
    >>> found["n"][0], len(found["Z"]["tied"])
    (1393, 6040)
    """
    intervals = bundled_ranks()
    candidates = next(iter(intervals.values())).n_candidates
    by_size = np.argsort(candidates, kind="stable")
    found: dict[str, Any] = {"n": np.diff(candidates[by_size], prepend=0).tolist()}
    for name, each in intervals.items():
        counts = {"better": each.n_better, "tied": each.n_tied}
        found[name] = {key: count[by_size].tolist() for key, count in counts.items()}
    return found


def possible(n_negatives: int, name: str, seed: int = 16) -> dict[str, Any]:
    """What one log leaves possible of each bundled recommender, and what a million users would.

    Parameters
    ----------
    n_negatives : int
        Drawn with replacement for each user, as in the chapter on what a sample cannot tell.
    name : str
        Of the metric.
    seed : int
        Of ties and negatives.

    Returns
    -------
    dict
        Under the name of each recommender "exact" and "reported"; under "log" and "million" a pair
        of ends for each of :data:`SHAPES`: None for one that the sample contradicts, and those of
        the weaker assumption, which hold all the more, where the solver certifies no others. The
        million's sampled ranks are distributed just as expected.

    Examples
    --------
    >>> found = possible(20, "recall@10")["Z"]
    >>> low, high = found["log"][0]
    >>> low <= found["exact"] <= high
    True
    """
    rng, of, found = np.random.default_rng(seed), metric(name), {}
    intervals = bundled_ranks()
    n = round(float(next(iter(intervals.values())).n_candidates.mean()))
    protocol = Protocol(n, n_negatives, replacement=True)
    for recommender, each in intervals.items():
        true = np.minimum(each.ranks("random", rng), n)
        counts = np.bincount(protocol.draw(true, rng) - 1, minlength=n_negatives + 1)
        every, users = np.unique(true, return_counts=True)
        shares = users @ protocol.pmf(every) / true.size
        reported = estimators.naive(of, protocol).values
        ends: dict[str, list[list[float] | None]] = {"log": [], "million": []}
        for shape in SHAPES:
            for key, sample, size in (("log", counts, None), ("million", shares, 1e6)):
                found_ends = None
                with suppress(IncompatibleError):
                    one = interval(sample, protocol, of, users=size, shape=shape)
                    pair = [round(one.low, 5), round(one.high, 5)]
                    found_ends = pair if one.certified or not ends[key] else ends[key][-1]
                ends[key].append(found_ends)
        found[recommender] = {
            "exact": round(float(of(true, n).mean()), 5),
            "reported": round(float(reported @ counts / true.size), 5),
            **ends,
        }
    return found


def write(folder: Path = FOLDER) -> list[Path]:
    """Write ``ranks.js`` and ``possible.js``, each beside the old one and then renamed.

    They are scripts that assign, since a page that is opened from a file may load no JSON.

    Returns
    -------
    list of Path
        The files written.
    """
    ranges = {name: {str(m): possible(m, name) for m in NEGATIVES} for name in METRICS}
    contents = {"ranks": ranks(), "possible": ranges}
    return [put(folder / f"{name}.js", script(name, each)) for name, each in contents.items()]


def script(name: str, content: Any) -> bytes:
    """What a file of data holds.

    Examples
    --------
    >>> script("ranks", {"n": [1, 2]})
    b'window.sampledMetrics.ranks = {"n":[1,2]};\\n'
    """
    return (
        f"window.sampledMetrics.{name} = {json.dumps(content, separators=(',', ':'))};\n".encode()
    )


if __name__ == "__main__":
    for path in write():
        print(path)
