"""Data of the book's widgets: ranks, and identification intervals of one log.

``python -m sampled_book.display.widgets`` writes both beside the scripts, in book/_static/widgets.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from sampled_metrics import (
    Protocol,
    _printed_ranges,
    compare,
    estimate,
    estimators,
    metric,
    read_log,
)
from sampled_metrics._files import put
from sampled_metrics.bounds.assumption import DECREASING
from sampled_metrics.bounds.identification import IncompatibleError, interval

from ..data.datasets import bundled_ranks

#: Where the scripts of the widgets are.
FOLDER = Path(__file__).parents[3] / "book/_static/widgets"
#: What one may assume of the users near the top of the list, the weakest first.
SHAPES = (None, DECREASING)
METRICS = ("recall@10", "ndcg@10")
NEGATIVES = (100, 300, 1_000)
#: The last that one may assume, which gives estimates and no verdict.
PRIOR = "bias-variance, fitted prior"
#: How often each user is drawn negatives for where there are to be a million users.
TIMES = 166


def ranks() -> dict[str, Any]:
    """The bundled ranks in the form of the scripts, users in the order of their candidates. "n" has
    the candidates of each user, as differences from the user before; each recommender has
    "better" and "tied".
    """
    intervals = bundled_ranks()
    candidates = next(iter(intervals.values())).n_candidates
    by_size = np.argsort(candidates, kind="stable")
    columns: dict[str, Any] = {"n": np.diff(candidates[by_size], prepend=0).tolist()}
    for name, rank_intervals in intervals.items():
        counts = {"better": rank_intervals.n_better, "tied": rank_intervals.n_tied}
        columns[name] = {key: count[by_size].tolist() for key, count in counts.items()}
    return columns


class Drawn(NamedTuple):
    """Ranks of the bundled recommenders under one name each, users in the same order."""

    protocol: Protocol
    true: dict[str, NDArray[np.int64]]
    sampled: dict[str, NDArray[np.int64]]


def drawn(n_negatives: int, seed: int = 16) -> Drawn:
    """Break ties and draw negatives with replacement, as in the appendix on identification."""
    rng, intervals = np.random.default_rng(seed), bundled_ranks()
    n = round(float(next(iter(intervals.values())).n_candidates.mean()))
    sample = Drawn(Protocol(n, n_negatives, replacement=True), {}, {})
    for recommender, rank_intervals in intervals.items():
        sample.true[recommender] = np.minimum(rank_intervals.ranks("random", rng), n)
        sample.sampled[recommender] = sample.protocol.draw(sample.true[recommender], rng)
    return sample


def fitted(
    name: str, protocol: Protocol, sampled: Mapping[str, NDArray[np.int64]]
) -> dict[str, dict[str, list[Any]]]:
    """Estimates from a prior that is fitted to a log, with sampled ranks (n_users,) by recommender;
    no verdicts.

    "value" is the estimate and Student's interval at 95%, which ignores its bias; "ahead" are the
    recommenders that it is likely ahead of, where the standard error of the difference leaves no
    doubt.

    >>> found = fitted("recall@10", *drawn(20)[::2])
    >>> low, high = found["X"]["value"][1:]
    >>> low < found["X"]["value"][0] < high
    True
    """
    parts = [
        pd.DataFrame({"recommender": recommender, "user": np.arange(ranks.size), "rank": ranks})
        for recommender, ranks in sampled.items()
    ]
    sizes: Any = {"n_items": protocol.n_items, "n_negatives": protocol.n_negatives}
    log = read_log(pd.concat(parts), replacement=protocol.replacement, **sizes)
    frame = estimate(log, [name], estimator=PRIOR, identification=False).frame
    reach = stats.t.ppf(0.975, frame["users"] - 1) * frame["standard_error"]
    estimates: dict[str, dict[str, list[Any]]] = {}
    for recommender, value, half in zip(
        frame["recommender"], frame["estimate"], reach, strict=True
    ):
        ends = [round(float(end), 12) for end in (value, value - half, value + half)]
        estimates[recommender] = {"value": ends, "ahead": []}
    judged: Any = compare(log, name, estimator=PRIOR, assumption=None).frame
    pair_rows = judged[["first", "second", "estimate", "standard_error"]].to_numpy().tolist()
    for first, second, difference, error in pair_rows:
        if abs(difference) > stats.t.ppf(0.975, sampled[first].size - 1) * error:
            ahead, behind = (first, second) if difference > 0 else (second, first)
            estimates[ahead]["ahead"].append(behind)
    return estimates


def priors(n_negatives: int, name: str, seed: int = 16) -> dict[str, Any]:
    """What :func:`fitted` says of the log and of a million users, under "log" and "million"."""
    protocol, true, sampled = drawn(n_negatives, seed)
    rng = np.random.default_rng(seed + 1)
    million = {
        recommender: protocol.draw(np.tile(ranks, TIMES), rng)
        for recommender, ranks in true.items()
    }
    return {"log": fitted(name, protocol, sampled), "million": fitted(name, protocol, million)}


def possible(n_negatives: int, name: str, seed: int = 16) -> dict[str, Any]:
    """Identification intervals of each bundled recommender from one log, and from a million users.

    For each recommender: "exact" and "reported"; under "log" and "million" a pair of ends for each
    of :data:`SHAPES`, None for one that the sample contradicts; under "prior" the result of
    :func:`fitted` for both. The million users' sampled ranks are distributed as expected.

    >>> found = possible(20, "recall@10")["Z"]
    >>> low, high = found["log"][0]
    >>> low <= found["exact"] <= high
    True
    """
    (protocol, ranks, sampled), parsed_metric, contents = drawn(n_negatives, seed), metric(name), {}
    assert isinstance(protocol.n_items, int)
    prior = priors(n_negatives, name, seed)
    for recommender, true in ranks.items():
        counts = np.bincount(sampled[recommender] - 1, minlength=n_negatives + 1)
        distinct_ranks, users = np.unique(true, return_counts=True)
        shares = users @ protocol.pmf(distinct_ranks) / true.size
        reported = estimators.naive(parsed_metric, protocol).values
        ends: dict[str, list[list[float] | None]] = {"log": [], "million": []}
        for assumption in SHAPES:
            for key, sample, size in (("log", counts, None), ("million", shares, 1e6)):
                end_pair = None
                with suppress(IncompatibleError):
                    options: Any = {"users": size, "assumption": assumption}
                    identified = interval(sample, protocol, parsed_metric, **options)
                    low, high = identified.low, identified.high
                    end_pair = [_printed_ranges.down(low, 5), _printed_ranges.up(high, 5)]
                ends[key].append(end_pair)
        contents[recommender] = {
            "exact": round(float(parsed_metric(true, protocol.n_items).mean()), 5),
            "reported": round(float(reported @ counts / true.size), 5),
            **ends,
            "prior": {size: estimates[recommender] for size, estimates in prior.items()},
        }
    return contents


def write(folder: Path = FOLDER) -> list[Path]:
    """Write ``ranks.js`` and ``possible.js``, each atomically; their paths. They are scripts that
    assign, since a page that is opened from a file may load no JSON.
    """
    ranges = {name: {str(m): possible(m, name) for m in NEGATIVES} for name in METRICS}
    contents = {"ranks": ranks(), "possible": ranges}
    return [put(folder / f"{name}.js", script(name, content)) for name, content in contents.items()]


def script(name: str, content: Any) -> bytes:
    r"""The content of a data script.

    >>> script("ranks", {"n": [1, 2]})
    b'window.sampledMetrics.ranks = {"n":[1,2]};\n'
    """
    return (
        f"window.sampledMetrics.{name} = {json.dumps(content, separators=(',', ':'))};\n".encode()
    )


if __name__ == "__main__":
    for path in write():
        print(path)
