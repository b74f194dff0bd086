"""What the library's track record says of kinds of recommenders that it was not calibrated on.

Their exact ranks are in folders beside the benchmark's: a neural recommender, predictors of
ratings, and near-twins (versions of one model). Each evaluation has one such recommender and
others of the same data set; near-twins are compared with each other.
``python -m sampled_book.experiments.judged_kinds`` judges them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pandas as pd

from sampled_metrics import metric
from sampled_metrics.designs import Request, analysis_of, track_record
from sampled_metrics.designs.values import LEARNED
from sampled_metrics.log.compact import Log
from sampled_metrics.ranking.intervals import RankIntervals

from ..data import benchmark, bundle
from .learned_prior import FAMILY_OF, NEURAL, ranks_of
from .protocols import FLOOR
from .track_record import GROUP, drawn

#: Folders of ranks beside the benchmark's own.
KINDS = ("neural", "ratings", "twins")
METRICS = ("recall@10", "ndcg@10")
N_NEGATIVES = 100
#: Evaluations with each recommender.
DRAWS = 10
FILE = benchmark.BUNDLE / "evidence" / "judged_kinds.csv.gz"


#: An evaluation: its data set, the ranks that it has, and which of these are of the kind.
Evaluation = tuple[str, dict[str, RankIntervals], set[str]]


def evaluations(kind: str, folder: Path) -> Iterator[Evaluation]:
    """The evaluations of a kind, `DRAWS` of each recommender or pair of twins."""
    for path in sorted((folder / kind).glob("*.npz")):
        name = path.stem
        special = {
            key: part
            for key, part in benchmark.ranks(name, folder / kind).items()
            if key not in NEURAL
        }
        if not special:  # only those that are in the record
            continue
        known = ranks_of(name, folder) if kind == "neural" else {}
        ranks = {key: part for key, part in known.items() if key != FLOOR} | special
        rng = np.random.default_rng([crc32(f"{kind} {name}".encode())])
        for _ in range(DRAWS):
            groups = [[one, *others_of(one, [*ranks], rng)] for one in special]
            for group in twins(special) if kind == "twins" else groups:
                yield name, {key: ranks[key] for key in group}, {*group} & {*special}


def others_of(one: str, names: Sequence[str], rng: np.random.Generator) -> list[str]:
    """Two random recommenders beside one."""
    rest = [name for name in names if name != one]
    return [str(name) for name in rng.choice(rest, min(GROUP - 1, len(rest)), replace=False)]


def twins(ranks: Mapping[str, RankIntervals]) -> list[list[str]]:
    """Each version of a model, whose name has a comma, beside the model."""
    return [[name.partition(",")[0], name] for name in ranks if "," in name]


def judged(log: Log, ranks: Mapping[str, RankIntervals], special: set[str]) -> list[dict[str, Any]]:
    """What the record says of a log: a row for each range, and for each pair with a special one.

    `score` is how many scales of its error an exact value is from its estimate, as logarithms.

    `said`: whether there is a range, or a verdict; `right`: whether it holds, or the order of the
    estimates is right. `known`: whether the pair is in the record's scope.
    """
    rows: list[dict[str, Any]] = []
    for name in METRICS:
        parsed = metric(name)
        # Of another family by their names, predictors of ratings would get no range to judge.
        families = {key: FAMILY_OF.get(key, "other") for key in ranks}
        analysis: Any = analysis_of(log, Request([parsed], family=families))
        record, _ = analysis.record(parsed, LEARNED)
        exact = {key: float(part.evaluate(name).mean()) for key, part in ranks.items()}
        paired = analysis._paired(parsed, LEARNED)
        for key in sorted(special):  # a set has another order in each process
            mean = paired.means[key]
            low, high = analysis._typical(parsed, record, key, mean, [])
            said = bool(np.isfinite(low))
            names = {"metric": name, "what": "range", "first": key, "second": ""}
            error = float(track_record.spread(mean.error / mean.value))
            score = abs(np.log(max(exact[key], 1.0 / mean.users) / mean.value)) / error
            judged_range = {"known": said, "said": said, "right": low <= exact[key] <= high}
            rows.append(names | judged_range | {"score": score})
        for first, second in paired.differences:
            if exact[first] == exact[second] or not {first, second} & special:
                continue
            strength = analysis._strength((first, second), paired, record, [])
            lead = paired.differences[first, second].value
            names = {"metric": name, "what": "pair", "first": first, "second": second}
            known, said = bool(np.isfinite(strength)), strength >= record.decided
            is_right = lead * (exact[first] - exact[second]) > 0
            rows.append(names | {"known": known, "said": said, "right": is_right, "score": np.nan})
    return rows


def counted(folder: Path = benchmark.BUNDLE) -> pd.DataFrame:
    """The rows of :func:`judged` for all kinds, with the kind and the data set."""
    tables = []
    for kind in KINDS:
        for draw, (name, ranks, special) in enumerate(evaluations(kind, folder)):
            rng = np.random.default_rng([crc32(kind.encode()), draw])
            rows = judged(drawn(ranks, N_NEGATIVES, False, rng), ranks, special)
            tables.append(pd.DataFrame(rows).assign(kind=kind, data=name, draw=draw))
    return pd.concat(tables, ignore_index=True)


def bundled() -> pd.DataFrame:
    """The rows that were computed before."""
    return pd.read_csv(FILE, keep_default_na=False, na_values={"score": [""]})


def main(argv: Sequence[str] | None = None) -> int:
    """Judge all recommenders of other kinds by the library's track record, and write the rows."""
    parser = bundle.parser("sampled_book.experiments.judged_kinds", main.__doc__)
    arguments = parser.parse_args(argv)
    output = (arguments.output or FILE.parent) / FILE.name
    return bundle.run(lambda: [bundle.write_table(output, counted(), 5)])


if __name__ == "__main__":
    sys.exit(main())
