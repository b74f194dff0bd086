"""The recommenders of ekstrand2017 among random decoys, for the checks of its claims.

The paper does not define nDCG. The authors' software takes ratings for gains and discounts by
1 / max(1, log2(rank)), so both that and the nDCG of the chapter on metrics are tried.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sampled_metrics import metric

from ..data.study import BUNDLED, Study, bundled_study
from ..experiments.theory import Standing
from .finding import OWN_RUNS, Finding, Trial, judge, made_by

Floats = NDArray[np.float64]

PAIRS = "concordant pairs"  # how the test items alone are judged

SHORT = {"ml-100k": "100K", "ml-1m-2998": "1M"}
ORDER = ("Popular", "PersMean", "Item-Item", "FunkSVD")
RATED = ORDER[1:]  # those that use the ratings
FILTERS = ORDER[2:]  # the collaborative filters
#: Metrics of the paper in lists of 10, and those of longer lists.
SHORT_LISTS = tuple(f"{kind}@10" for kind in ("precision", "recall", "rr", "ap", "ndcg"))
LONG_LISTS = tuple(
    f"{kind}@{k}" for kind in ("precision", "recall", "rr", "ap", "ndcg") for k in (25, 100)
)
SOFTWARE = "nDCG takes ratings for gains and discounts by log2(rank), as the authors' software does"
IN_BOOK = "nDCG is that of the chapter on metrics"

#: Whether a claim holds in one case, and what to show of it.
Case = tuple[bool, str]


@cache
def study(data: str) -> Study:
    """The bundled study of a data set."""
    return bundled_study(data)


class Curves(NamedTuple):
    """A metric for each recommender at growing numbers of decoys, all unrated items the last."""

    decoys: NDArray[np.int64]
    values: dict[str, Floats]
    stands: list[Standing]

    def behind(self, name: str) -> Floats:
        """Popular's lead over a recommender."""
        return self.values["Popular"] - self.values[name]

    def fraction(self, name: str) -> Floats:
        """The fraction of Popular's value that a recommender has."""
        return np.asarray(self.values[name] / self.values["Popular"])

    def index_of(self, n: int) -> int:
        """Index of the number of decoys nearest to n, on a logarithmic scale."""
        return int(np.argmin(np.abs(np.log(self.decoys / n))))


@cache
def exact_curves(data: str, kinds: tuple[str, ...], step: int) -> dict[str, Curves]:
    """Expected metrics of this package, at every `step`-th of the bundled numbers of decoys."""
    bundled = study(data)
    pool = bundled.n_irrelevant
    grid = np.array(bundled.facts["software"]["decoys"])[::step]
    lists = sorted({metric(kind).k or 0 for kind in kinds})
    metrics = [metric(kind) for kind in kinds] + [metric(f"hit@{k}") for k in lists]
    table = {
        name: [sets.expected(metrics, np.minimum(n, pool)) for n in grid]
        + [np.array([sets.evaluate(each) for each in metrics])]
        for name, sets in bundled.sets.items()
    }
    curves_by_kind = {}
    for i, kind in enumerate(kinds):
        hit_index = len(kinds) + lists.index(metric(kind).k or 0)
        stands = [
            Standing.from_values(
                {name: rows[size_index][i] for name, rows in table.items()},
                {name: rows[size_index][hit_index] for name, rows in table.items()},
            )
            for size_index in range(len(grid) + 1)
        ]
        means = {name: np.array([each.means[name] for each in stands]) for name in table}
        curves_by_kind[kind] = Curves(np.append(grid, pool.max()), means, stands)
    return curves_by_kind


@cache
def curves(data: str, kind: str, definition: str = IN_BOOK) -> Curves:
    """Curves of a metric; under the software's definition only nDCG differs."""
    if definition == SOFTWARE and kind.startswith("ndcg"):
        facts = study(data).facts["software"]
        decoys = np.append(facts["decoys"], study(data).n_irrelevant.max())
        means = {name: np.array(v)[:, 0] for name, v in facts[kind].items()}
        stands = [standing_of_means(data, means, i) for i in range(len(decoys))]
        return Curves(decoys, means, stands)
    is_short = kind in SHORT_LISTS
    return exact_curves(data, SHORT_LISTS if is_short else LONG_LISTS, 2 if is_short else 6)[kind]


def standing_of_means(data: str, means: dict[str, Floats], size_index: int) -> Standing:
    """The standing from means alone: as values are in [0, 1], a difference rests on at least its
    sum over users.
    """
    users = {
        (a, b): int(abs(means[a][size_index] - means[b][size_index]) * study(data).n_users)
        for a, b in combinations(means, 2)
    }
    return Standing({name: float(row[size_index]) for name, row in means.items()}, users)


def on_both_definitions(case: Callable[[str, str], Case]) -> Finding:
    """Try a claim on both data sets under both definitions of nDCG, then under one, then on one."""
    outcomes = {
        (d, definition): case(d, definition) for d in BUNDLED for definition in (IN_BOOK, SOFTWARE)
    }

    def trial(setting: str, data: tuple[str, ...], definitions: tuple[str, ...]) -> Trial:
        keys = [(d, definition) for definition in definitions for d in data]
        texts = {
            definition: text_by_data({d: outcomes[d, definition][1] for d in data})
            for definition in definitions
        }
        if len(definitions) == 2 and texts[IN_BOOK] != texts[SOFTWARE]:
            shown = f"{texts[IN_BOOK]}; with the software's nDCG {texts[SOFTWARE]}"
        else:
            shown = texts[definitions[0]]
        return Trial(shown, all(outcomes[key][0] for key in keys), setting)

    all_definitions = (IN_BOOK, SOFTWARE)
    return judge(
        trial("", BUNDLED, all_definitions),
        trial(SOFTWARE, BUNDLED, (SOFTWARE,)),
        trial(IN_BOOK, BUNDLED, (IN_BOOK,)),
        *(trial(f"of the data sets, on {SHORT[d]} alone", (d,), all_definitions) for d in BUNDLED),
        unsettled=OWN_RUNS,
    )


def text_by_data(texts: Mapping[str, str]) -> str:
    return "; ".join(f"{SHORT[data]}: {text}" for data, text in texts.items())


def on_both_data_sets(case: Callable[[str], Case]) -> Trial:
    """Try a claim that does not depend on the definition of nDCG on both data sets."""
    outcomes = {data: case(data) for data in BUNDLED}
    text = text_by_data({data: shown for data, (_, shown) in outcomes.items()})
    return Trial(text, all(holds for holds, _ in outcomes.values()))


def check_of_each(unsettled: str = "") -> Callable[..., Callable[..., Finding]]:
    """Decorator: make a check of a case that does not depend on the definition of nDCG."""
    return made_by(lambda case: judge(on_both_data_sets(case), unsettled=unsettled))


def fraction_of(text: str) -> float:
    numerator, denominator = text.split("/")
    return int(numerator) / int(denominator)
