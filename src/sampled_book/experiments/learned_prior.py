"""Learn the library's prior over rank distributions from the benchmark's exact ranks.

:func:`learn` is an EM algorithm over the exact ranks of the benchmark's recommenders. Each source
weighs the same, and Student weights keep a few unusual data sets and recommenders from inflating
the covariances. ``python -m sampled_book.experiments.learned_prior`` computes it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sampled_metrics import learned_prior
from sampled_metrics._validate import FloatArray
from sampled_metrics.learned_prior import Cells, Counts, Posterior, Prior
from sampled_metrics.numerics.distributions import spread_ties
from sampled_metrics.ranking.intervals import RankIntervals

from ..data import benchmark, bundle, sources
from .protocols import FLOOR

NAME = "sampled_book.experiments.learned_prior"
#: Degrees of freedom of the Student weights.
FREEDOM = 4.0
#: How often distributions are fitted to the exact ranks; and rounds of EM for each such fit, in
#: which log-likelihoods are quadratic. Further ones change no digit that is stored.
ROUNDS, INNER_ROUNDS = 4, 100
#: Where the library keeps what it reads, and the prior's file there.
LIBRARY, FILE = Path(learned_prior.__file__).parent / "data", "learned_prior.json"
#: Recommenders with a mean of their own in the prior: those that read sequences, or popularity.
FAMILY_OF = dict.fromkeys(("Markov chain", "SASRec", "GRU4Rec"), "sequential")
FAMILY_OF["Popular"] = "popularity"
#: The neural ones among them.
NEURAL = ("SASRec", "GRU4Rec")
#: The source of the log that comes with the library.
BUNDLED = "movielens"
#: Digits that are stored.
DIGITS = 6
_SIZE = len(learned_prior.KNOTS) - 1


# --- learning -------------------------------------------------------------------------------------


def exact_counts(ranks: Mapping[str, RankIntervals]) -> Counts:
    """The exact ranks of a data set's recommenders as counts in cells, ties shared evenly."""
    parts = {name: part for name, part in ranks.items() if name != FLOOR}
    sizes = next(iter(parts.values())).n_candidates
    cells = Cells(round(float(sizes.mean())))
    users = []
    for part in parts.values():
        first = np.minimum(part.n_better + 1, cells.items)
        last = np.minimum(part.n_better + part.n_tied + 1, cells.items)
        by_rank = spread_ties(first - 1, last - first, np.ones(first.size), cells.items)
        users.append(np.add.reduceat(by_rank, cells.first - 1))
    one_group = np.zeros(cells.first.size, dtype=np.int64)
    return Counts([*parts], cells, one_group, np.eye(cells.first.size), np.array(users))


def learn(counts_by_data: Mapping[str, Counts], group_of: Mapping[str, str]) -> Prior:
    """The prior under which the exact ranks of these data sets are most likely.

    Groups weigh the same, so do the data sets of a group, and the recommenders of a data set.
    """
    families = {
        name: [FAMILY_OF.get(recommender, "") for recommender in part.names]
        for name, part in counts_by_data.items()
    }
    groups = [group_of[name] for name in counts_by_data]
    n_groups = len({*groups})
    weights = [1.0 / groups.count(group) / n_groups for group in groups]
    none = {family: np.zeros(_SIZE) for family in sorted({*FAMILY_OF.values()})}
    prior = Prior(np.zeros(_SIZE), 4.0 * np.eye(_SIZE), 4.0 * np.eye(_SIZE), none)
    for _ in range(ROUNDS):
        fits = [
            learned_prior.fit(counts, prior.of(families[name]))
            for name, counts in counts_by_data.items()
        ]
        slopes = [
            learned_prior.log_posterior(fit.counts, prior, fit.theta, fit.shared)[1:]
            for fit in fits
        ]
        for _ in range(INNER_ROUNDS):
            of_data = [prior.of(part) for part in families.values()]
            moved = [_moved(*parts) for parts in zip(of_data, fits, slopes, strict=True)]
            prior = _maximised(prior, moved, weights, [*families.values()], groups)
    return prior


def _moved(prior: Prior, fit: Posterior, slopes: tuple[FloatArray, FloatArray]) -> Posterior:
    """The posterior by another prior, log-likelihoods being quadratic around the former mode."""
    step = learned_prior.newton_step(prior, fit.theta, fit.shared, *slopes)
    return Posterior(fit.counts, fit.theta + step.theta, fit.shared + step.shared, *step[3:])


def _maximised(
    prior: Prior,
    fits: Sequence[Posterior],
    weights: Sequence[float],
    families: Sequence[Sequence[str]],
    groups: Sequence[str],
) -> Prior:
    """The M-step: the means, and the covariances with Student weights."""
    between_inverse, within_inverse = np.linalg.inv(prior.between), np.linalg.inv(prior.within)
    mean, between, within = np.zeros(_SIZE), np.zeros((_SIZE, _SIZE)), np.zeros((_SIZE, _SIZE))
    total, of_family = 0.0, dict[str, dict[str, list[FloatArray]]]()
    for fit, weight, names, group in zip(fits, weights, families, groups, strict=True):
        expected = prior.of(names).mean
        square = np.outer(fit.shared, fit.shared) + fit.shared_covariance
        scale = (FREEDOM + _SIZE) / (FREEDOM + float((between_inverse * square).sum()))
        mean += weight * scale * (prior.mean + fit.shared)
        total += weight * scale
        between += weight * scale * square
        own = fit.theta - expected - fit.shared
        for part, name in zip(fit.theta - prior.mean - fit.shared, names, strict=True):
            of_family.setdefault(name, {}).setdefault(group, []).append(part)
        moved = fit.response - np.eye(_SIZE)
        squares = own[:, :, np.newaxis] * own[:, np.newaxis] + fit.conditional
        squares = squares + moved @ fit.shared_covariance @ moved.transpose(0, 2, 1)
        distances = np.einsum("jk,ijk->i", within_inverse, squares)
        scales = (FREEDOM + _SIZE) / (FREEDOM + distances)
        within += weight * np.einsum("i,ijk->jk", scales, squares) / len(own)
    added = {
        name: np.mean([np.mean(parts, axis=0) for parts in of_family[name].values()], axis=0)
        if name in of_family
        else zero
        for name, zero in prior.families.items()
    }
    return Prior(mean / total, between, within, added)


def content(counts_by_data: Mapping[str, Counts]) -> dict[str, Any]:
    """What the library stores: the prior, and the data sets and sources behind it.

    For the log that comes with the library there is a prior without that log's source.
    """
    groups = group_by_data()
    rest = {name: part for name, part in counts_by_data.items() if groups[name] != BUNDLED}
    return {
        "made_by": NAME,
        "data": sorted(counts_by_data),
        "sources": sorted({groups[name] for name in counts_by_data}),
        "recommenders": sum(len(part.names) for part in counts_by_data.values()),
        **rounded(learn(counts_by_data, groups)),
        "without": {BUNDLED: rounded(learn(rest, groups))},
    }


def rounded(prior: Prior) -> dict[str, Any]:
    """The numbers of a prior as stored; of covariances the lower triangles."""
    lower = np.tril_indices(_SIZE)
    parts = {"mean": prior.mean, "between": prior.between[lower], "within": prior.within[lower]}

    def digits(values: FloatArray) -> list[float]:
        return [float(f"{value:.{DIGITS}g}") for value in values]

    families = {name: digits(added) for name, added in prior.families.items()}
    return {name: digits(values) for name, values in parts.items()} | {"families": families}


def group_by_data() -> dict[str, str]:
    """The source of each data set."""
    listed = sources.table()
    return dict(zip(listed["name"], listed["group"], strict=True))


def bundled_counts() -> dict[str, Counts]:
    """The exact ranks of the benchmark's data sets, in cells."""
    return {name: exact_counts(ranks_of(name)) for name in benchmark.names_in()}


def priors_without(groups: Iterable[str]) -> Iterator[tuple[str, Prior]]:
    """Each source, with the prior learned from all other sources of the benchmark."""
    counts, group_of = bundled_counts(), group_by_data()
    for group in groups:
        rest = {name: part for name, part in counts.items() if group_of[name] != group}
        yield group, learn(rest, group_of)


def ranks_of(name: str, folder: Path = benchmark.BUNDLE) -> dict[str, RankIntervals]:
    """The exact ranks of a data set's recommenders, with neural ones that read sequences."""
    ranks = dict(benchmark.ranks(name, folder))
    if (folder / "neural" / f"{name}.npz").exists():
        neural = benchmark.ranks(name, folder / "neural")
        ranks |= {name: neural[name] for name in NEURAL if name in neural}
    return ranks


def main(argv: Sequence[str] | None = None) -> int:
    """Learn the prior from the benchmark's exact ranks, and write it where the library reads it."""
    parser = bundle.parser(NAME, main.__doc__)
    arguments = parser.parse_args(argv)

    def write() -> list[Path]:
        content_by_name = content(bundled_counts())
        return [bundle.write_json((arguments.output or LIBRARY) / FILE, content_by_name)]

    return bundle.run(write)


if __name__ == "__main__":
    sys.exit(main())
