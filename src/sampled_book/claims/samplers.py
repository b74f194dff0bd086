"""Checks of what is said of negatives drawn by popularity, against uniform ones and all items.

They rest on the four recommenders and two data sets of the bundled study, in expectation.
"""

from __future__ import annotations

from functools import cache
from itertools import combinations, pairwise, product

from sampled_metrics import metric

from ..data.study import standings
from ..experiments.theory import Standing
from .decoy_study import study
from .finding import OWN_RUNS, Finding, judged, read_list

DATA = ("ml-100k", "ml-1m-2998")
#: What each way is called in a claim.
WAYS = {"uniform": False, "popularity": True}
#: Two numbers of negatives, or one and all items.
Pair = tuple[int, int | None]


@cache
def _stands(
    data: str, kinds: tuple[str, ...], n: int | None, weighted: bool = False
) -> dict[str, Standing]:
    metrics = [metric(kind) for kind in kinds]
    stands = standings(study(data).sets, metrics, n, weighted=weighted)
    return dict(zip(kinds, stands, strict=True))


def _turned(first: Standing, second: Standing) -> str:
    """A pair whose order is clear in both standings and differs, or an empty text."""
    for first_name, second_name in combinations(first.means, 2):
        if first.order(first_name, second_name) * second.order(first_name, second_name) < 0:
            return f"{first_name} and {second_name}"
    return ""


def _that_turn(published: str, kinds: list[str], pairs: list[Pair], unsettled: str = "") -> Finding:
    """The ways to draw negatives by which two numbers of them, of any pair, differ in an order."""
    turning = {}
    for sampler, weighted in WAYS.items():
        for data, kind, pair in product(DATA, kinds, pairs):
            low, high = (_stands(data, (*kinds,), n, weighted) for n in pair)
            turned = _turned(low[kind], high[kind])
            if turned:
                between = "" if pair[1] is None else f" between {pair[0]} and {pair[1]}"
                turning[sampler] = f"{turned}{between} by {metric(kind).label} on {data}"
                break
    verb = ":" if unsettled else " turns"
    text = "; ".join(f"{sampler}{verb} {case}" for sampler, case in turning.items())
    return judged(text or "no order is turned", [*turning] == read_list(published), "", unsettled)


def inconsistent_with_all(published: str, kinds: list[str], n: int) -> Finding:
    """Ways to draw so many negatives that turn an order of all items around, in some case."""
    return _that_turn(published, kinds, [(n, None)])


def inconsistent_over_sizes(published: str, kinds: list[str], sizes: list[int]) -> Finding:
    """Ways to draw negatives that order recommenders otherwise for another number of them."""
    return _that_turn(published, kinds, [*combinations(sizes, 2)], OWN_RUNS)


def in_order(published: str, kind: str, n: int) -> Finding:
    """Whether each recommender's value falls from one way to the next, as in "uniform > all"."""
    samplers = read_list(published, ">")
    falls, shown = True, []
    for data in DATA:
        values = [
            _stands(data, (kind,), None if sampler == "all" else n, WAYS.get(sampler, False))[
                kind
            ].means
            for sampler in samplers
        ]
        for name in values[0]:
            name_means = [means[name] for means in values]
            falls &= all(b < a for a, b in pairwise(name_means))
            shown.append(f"{name} {' > '.join(f'{value:.3f}' for value in name_means)}")
    text = f"{metric(kind).label} on {DATA[0]}: {', '.join(shown[: len(shown) // 2])}"
    return judged(text, falls)
