"""Checks of what is said of negatives drawn by popularity, against uniform ones and all items.

They rest on the four recommenders and two data sets of the bundled study, in expectation.
"""

from __future__ import annotations

from functools import cache
from itertools import combinations, pairwise, product

from sampled_metrics import metric

from ..data.study import standings
from ..experiments.theory import Standing
from .finding import OWN_RUNS, Finding, Trial, judge, read_list
from .popularity import study

DATA = ("ml-100k", "ml-1m-2998")
#: What each way is called in a claim.
WAYS = {"uniform": False, "popularity": True}


@cache
def _stands(
    data: str, kinds: tuple[str, ...], n: int | None, weighted: bool = False
) -> dict[str, Standing]:
    wanted = [metric(kind) for kind in kinds]
    found = standings(study(data).sets, wanted, n, weighted=weighted)
    return dict(zip(kinds, found, strict=True))


def _turned(first: Standing, second: Standing) -> str:
    """A pair whose order is clear in both standings and differs, or an empty text."""
    for one, two in combinations(first.means, 2):
        if first.order(one, two) * second.order(one, two) < 0:
            return f"{one} and {two}"
    return ""


def inconsistent_with_all(published: str, kinds: list[str], n: int) -> Finding:
    """Ways to draw so many negatives that turn an order of all items around, in some case."""
    found, cases = [], []
    for way, weighted in WAYS.items():
        for data, kind in product(DATA, kinds):
            some, every = (_stands(data, (*kinds,), *how) for how in ((n, weighted), (None,)))
            pair = _turned(some[kind], every[kind])
            if pair:
                found.append(way)
                cases.append(f"{way} turns {pair} by {metric(kind).label} on {data}")
                break
    return judge(Trial("; ".join(cases) or "no order is turned", found == read_list(published)))


def inconsistent_over_sizes(published: str, kinds: list[str], sizes: list[int]) -> Finding:
    """Ways to draw negatives that order recommenders otherwise for another number of them."""
    found, cases = [], []
    for way, weighted in WAYS.items():
        for data, kind, (few, many) in product(DATA, kinds, combinations(sizes, 2)):
            one, two = (_stands(data, (*kinds,), size, weighted) for size in (few, many))
            pair = _turned(one[kind], two[kind])
            if pair:
                found.append(way)
                cases.append(
                    f"{way}: {pair} between {few} and {many} by {metric(kind).label} on {data}"
                )
                break
    return judge(
        Trial("; ".join(cases) or "no order is turned", found == read_list(published)),
        unsettled=OWN_RUNS,
    )


def in_order(published: str, kind: str, n: int) -> Finding:
    """Whether each recommender's value falls from one way to the next, as in "uniform > all"."""
    ways = read_list(published, ">")
    falls, shown = True, []
    for data in DATA:
        values = [
            _stands(data, (kind,), None if way == "all" else n, WAYS.get(way, False))[kind].means
            for way in ways
        ]
        for name in values[0]:
            along = [each[name] for each in values]
            falls &= all(b < a for a, b in pairwise(along))
            shown.append(f"{name} {' > '.join(f'{value:.3f}' for value in along)}")
    text = f"{metric(kind).label} on {DATA[0]}: {', '.join(shown[: len(shown) // 2])}"
    return judge(Trial(text, falls))
