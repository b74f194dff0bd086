"""Recommenders X, Y and Z of krichene2020, section 9, and the command that bundles their ranks.

The paper leaves settings open that move its Table 3; here each is a field, so that
``dataclasses.replace(Y, divide=True)`` is the same recommender under another reading.
``python -m sampled_book.data.recommenders`` ranks the held-out items of the MovieLens 1M split by
every recommender in `VARIANTS` and writes the files that :mod:`sampled_book.data.datasets` reads.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, Protocol

import numpy as np
import scipy.sparse as sp
from tqdm import tqdm

from sampled_metrics._validate import FloatArray
from sampled_metrics.metrics import metric
from sampled_metrics.ranking.exact import ScoreBlocks, exact_ranks
from sampled_metrics.ranking.intervals import RankIntervals

from . import bundle, bundled_log, datasets

#: Equal scores of Y and Z may differ in float64 by their rounding, which is below 1e-12 of their
#: size (a sum of at most 2,313 positive terms), and on MovieLens 1M no unequal ones are closer
#: than 6e-9: any tolerance in between finds the same ties on every machine.
TIE_TOLERANCE = 1e-11


class Recommender(Protocol):
    """What learns from a 0/1 matrix of users and items and scores items for users."""

    def scores(self, train: sp.csr_array) -> ScoreBlocks:
        """Scores of all items, a block of users at a time: slice -> (users, n_items)."""


@dataclass(frozen=True)
class ItemBased:
    """Item-based collaborative filtering (krichene2020, eqs 27-30).

    The similarity of items i and j is the cosine of their columns of the training matrix to the
    power of `exponent`, q > 0 (eq. 27). All but the nearest `neighbours` are set to zero (eq. 28;
    None keeps all, ties go to the lower number) and each row is scaled to unit L2 norm (eq. 29).
    The score of i is the sum of its row over the user's history (the numerator of eq. 30). The
    denominator, the sum of the row, cancels the scaling of eq. 29; Table 3 was computed without it
    (`divide`).

    `keep`: whether each history item j keeps its nearest items i ("column") or each scored item i
    its nearest history items j ("row"). The paper's k' = 10 reads as "row"; its Table 3 was
    computed by column. `self_neighbour`: whether an item is its own neighbour. Training items are
    not candidates, so its own similarity never adds to a score; it adds to the norm and takes up a
    neighbour's place.
    """

    exponent: float
    neighbours: int | None = None
    keep: Literal["column", "row"] = "column"
    self_neighbour: bool = True
    divide: bool = False

    def weights(self, train: sp.csr_array) -> FloatArray:
        """Weight of each history item j (column) in the score of each item i (row). Dense, so for
        catalogues of some ten thousand items at most. A row is zero where the item has no
        neighbour.
        """
        counts = (train.T @ train).toarray().astype(np.float64)
        degrees = counts.diagonal().copy()
        if not self.self_neighbour:
            np.fill_diagonal(counts, 0.0)
        weights = _ratio(counts, np.sqrt(np.outer(degrees, degrees))) ** self.exponent
        if self.neighbours is not None:
            weights *= self._nearest(counts, degrees)
        weights = _ratio(weights, np.sqrt((weights**2).sum(axis=1, keepdims=True)))
        if self.divide:
            weights = _ratio(weights, weights.sum(axis=1, keepdims=True))
        return weights

    def _nearest(self, counts: FloatArray, degrees: FloatArray) -> FloatArray:
        """1 where `keep` keeps the similarity of i and j, 0 elsewhere."""
        # Within a column the order of cosines is that of counts^2 / degree, a quotient of whole
        # numbers: correctly rounded, it is equal in float64 just where it is equal exactly.
        order = np.argsort(-_ratio(counts**2, degrees[:, None]), axis=0, kind="stable")
        nearest = np.zeros_like(counts)
        np.put_along_axis(nearest, order[: self.neighbours], 1.0, axis=0)
        return nearest if self.keep == "column" else nearest.T

    def scores(self, train: sp.csr_array) -> ScoreBlocks:
        """Scores of all items, a block of users at a time: slice -> (users, n_items)."""
        columns = np.ascontiguousarray(self.weights(train).T)
        return lambda users: train[users] @ columns  # sums in order of item, without BLAS


@dataclass(frozen=True)
class MatrixFactorisation:
    """Implicit matrix factorisation by alternating least squares, as in krichene2020, section 9.

    The paper minimises, over user and item vectors V with predictions y,

        sum over H of (y - 1)^2  +  alpha * sum over U x I of y^2  +  lambda * ||V||^2,

    whereas the library `implicit` minimises, with confidence c and regularisation mu,

        sum over H of c (z - 1)^2  +  sum over (U x I) less H of z^2  +  mu * ||W||^2.

    Divide the paper's loss by alpha. An observed pair then costs (y - 1)^2 / alpha + y^2, which is
    c (y - t)^2 plus a constant, with c = 1 + 1/alpha and t = 1 / (1 + alpha) = 1 / (alpha c). Let y
    = t z, so V = sqrt(t) W, and divide by t^2: this is the second loss with

        c = 1 + 1/alpha,    mu = lambda / (alpha t) = lambda (1 + 1/alpha).

    Scores are scaled by t alone, so ranks stay. The paper's alpha = 0.2 and lambda = 10 become c =
    6 and mu = 60. It gives neither the seed of the initial factors nor the iterations; 15 is the
    library's default.
    """

    n_factors: int = 16
    alpha: float = 0.2
    regularization: float = 10.0
    seed: int = 0
    iterations: int = 15

    @property
    def confidence(self) -> float:
        """c, which `implicit` calls alpha."""
        return 1.0 + 1.0 / self.alpha

    @property
    def library_regularization(self) -> float:
        """mu, which `implicit` calls regularization."""
        return self.regularization * self.confidence

    def factors(self, train: sp.csr_array) -> tuple[FloatArray, FloatArray]:
        """User and item factors, (n_users, n_factors) and (n_items, n_factors), in float32. The
        same for any number of threads; another processor may round differently, which after the
        iterations moves some ranks.
        """
        try:
            from implicit.als import AlternatingLeastSquares
            from threadpoolctl import threadpool_limits
        except ImportError:
            raise ImportError(
                "recommender X needs the library implicit: pip install 'sampled-metrics[ranks]'"
            ) from None
        with threadpool_limits(1, "blas"):  # the library warns of nested threads otherwise
            model = AlternatingLeastSquares(
                factors=self.n_factors,
                alpha=self.confidence,
                regularization=self.library_regularization,
                iterations=self.iterations,
                random_state=self.seed,
            )
            model.fit(sp.csr_matrix(train, dtype=np.float32), show_progress=False)
        return model.user_factors.astype(np.float64), model.item_factors.astype(np.float64)

    def scores(self, train: sp.csr_array) -> ScoreBlocks:
        """Scores of all items, a block of users at a time: slice -> (users, n_items)."""
        users, items = self.factors(train)
        return lambda block: users[block] @ items.T


def _ratio(numerator: FloatArray, denominator: FloatArray) -> FloatArray:
    """Quotient, 0 where the denominator is 0."""
    quotient = np.zeros(np.broadcast_shapes(numerator.shape, denominator.shape))
    return np.divide(numerator, denominator, out=quotient, where=denominator > 0)


#: Recommenders X, Y and Z of krichene2020, section 9, under the settings that give its Table 3.
X = MatrixFactorisation(seed=0)
Y = ItemBased(exponent=3)
Z = ItemBased(exponent=1, neighbours=10, keep="column", self_neighbour=False)

#: Name of the variants under which X, Y and Z are the ones above.
REPRODUCED = "as reproduced"
#: Name of the variants that rank all items, the user's training items too.
UNMASKED = "training items ranked too"
#: (recommender, variant) -> recommender, for each setting that the paper leaves open.
VARIANTS: dict[tuple[str, str], Recommender] = {
    ("X", REPRODUCED): X,
    ("Y", REPRODUCED): Y,
    ("Z", REPRODUCED): Z,
    ("Y", "as printed"): replace(Y, divide=True),
    ("Y", "item not its own neighbour"): replace(Y, self_neighbour=False),
    ("Z", "as printed"): replace(Z, keep="row", self_neighbour=True, divide=True),
    ("Z", "divided"): replace(Z, divide=True),
    ("Z", "item its own neighbour"): replace(Z, self_neighbour=True),
    ("Z", "neighbours by row"): replace(Z, keep="row"),
    ("X", UNMASKED): X,
    ("Y", UNMASKED): Y,
    ("Z", UNMASKED): Z,
    **{("X", f"seed {seed}"): replace(X, seed=seed) for seed in range(1, 10)},
}
#: Those whose ranks :func:`differences` looks at: X by its first seed alone.
COMPARED = [key for key in VARIANTS if key[0] != "X" or key[1] == REPRODUCED]


def rank_variant(recommender: str, variant: str, split: datasets.Split) -> RankIntervals:
    """Rank intervals of a split's held-out items, one per user, under one entry of `VARIANTS`."""
    scores = VARIANTS[recommender, variant].scores(split.train)
    train = None if variant == UNMASKED else split.train
    tolerance = 0.0 if recommender == "X" else TIE_TOLERANCE
    return exact_ranks(scores, split.held_out, train, relative_tolerance=tolerance)


def differences(
    ranks: Mapping[tuple[str, str], RankIntervals], counts: Mapping[str, tuple[int, int]]
) -> list[str]:
    """A sentence for each difference between ranks computed again and the bundled ones.

    Those of Y and Z must be the same. X starts from random factors and rounds in float32, so its
    mean metrics must be within four standard deviations of those of the ten bundled seeds.
    """
    bundled = datasets.bundled_variants()
    messages = [
        f"{name} must be {kept_pair}, got {counts.get(name)}"
        for name, kept_pair in datasets.bundled_counts().items()
        if counts.get(name) != kept_pair
    ]
    seeds = datasets.bundled_seeds()
    for (name, variant), fresh in ranks.items():
        old, label = bundled[name, variant], f"{name}, {variant}"
        columns = ["n_candidates"] if name == "X" else ["n_candidates", "n_better", "n_tied"]
        moved = [c for c in columns if not np.array_equal(getattr(fresh, c), getattr(old, c))]
        if moved:
            messages.append(f"{label}: {moved[0]} must be as it is bundled, got another")
        elif name == "X" and variant == REPRODUCED:
            messages += [f"{label}: {text}" for text in _beyond_seeds(fresh, seeds)]
    return messages


def _beyond_seeds(fresh: RankIntervals, seeds: Sequence[RankIntervals]) -> list[str]:
    """The metrics whose mean is more than four standard deviations of the seeds' from theirs."""
    messages = []
    for kind in ("recall@10", "ndcg@10", "ap", "auc"):
        value, *seed_means = (r.evaluate(metric(kind), "mean").mean() for r in (fresh, *seeds))
        centre, reach = float(np.mean(seed_means)), 4 * float(np.std(seed_means, ddof=1))
        if not abs(value - centre) <= reach:
            messages.append(f"{kind} must be within {reach:.2g} of {centre:.6f}, got {value:.6f}")
    return messages


def main(argv: Sequence[str] | None = None) -> int:
    """Compute the bundled ranks and write them, or compare them with those that are bundled.

    The exit status is 2 if the data cannot be had, and 1 if the ranks differ.
    """
    parser = bundle.parser(
        "sampled_book.data.recommenders", main.__doc__, "compare instead of writing"
    )
    options = parser.parse_args(argv)

    def computed() -> tuple[dict[tuple[str, str], RankIntervals], dict[str, tuple[int, int]]]:
        split = datasets.ncf_split()
        counts = datasets.count_facts(split)
        keys = [key for key in VARIANTS if key in COMPARED or not options.check]
        shown = tqdm(keys, desc="ranks", unit="variant")
        return {key: rank_variant(*key, split) for key in shown}, counts

    def write() -> list[Path]:
        variants, counts = computed()
        folder = options.output or datasets.BUNDLE
        reproduced = {name: r for (name, variant), r in variants.items() if variant == REPRODUCED}
        written = datasets.write_bundle(variants, counts, X.seed, folder)
        return [*written, bundled_log.write_bundled_log(reproduced, folder)]

    return bundle.run(
        write,
        (lambda: differences(*computed())) if options.check else None,
        "The ranks of X, Y and Z came out as they are bundled.",
    )


if __name__ == "__main__":
    sys.exit(main())
