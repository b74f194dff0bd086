"""The recommenders of the benchmark: how each learns from sequences, and the settings it tries."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import svds

from sampled_metrics._validate import IntArray

if TYPE_CHECKING:
    from .sequences import Sequences

SEED = 12
#: EASE inverts a matrix of items by items, so it is tuned among the most popular ones alone, and
#: left out where there are too many for a matrix of float32 in `DENSE_BYTES`. Of data sets whose
#: users are drawn it takes fewer items: 25,000 take a core a quarter of an hour.
EASE_ITEMS, EASE_MOST_ITEMS, EASE_MOST_DRAWN = 6_000, 30_000, 15_000
#: No dense matrix of items by items may be larger.
DENSE_BYTES = 4_000_000_000
#: Data sets with more interactions have the smaller grids.
LARGE = 200_000
#: Scores closer than this part of each other are level where sums of float64 are compared.
TOLERANCE = 1e-11
#: Scores of some users (by number) for all items.
Scores = Callable[[IntArray], NDArray[Any]]


def _linear(histories: sp.csr_array, weights: Any) -> Scores:
    """Sums of weights over a history."""
    if (
        sp.issparse(weights)
        and weights.nnz > 0.05 * np.prod(weights.shape)
        and _fits(*weights.shape)
    ):
        weights = weights.toarray()
    if sp.issparse(weights):
        return lambda users: (histories[users] @ weights).toarray()
    return lambda users: histories[users] @ weights


def _fits(rows: int, columns: int) -> bool:
    """Whether a dense matrix of float64 may be held."""
    return 8 * rows * columns <= DENSE_BYTES


def _neighbours(matrix: sp.csr_array, neighbours: int, kind: str = "Cosine") -> sp.csr_array:
    """Similarities of the columns of a matrix, for each its nearest, by the library implicit."""
    from implicit import nearest_neighbours
    from implicit.utils import ParameterWarning

    model = getattr(nearest_neighbours, f"{kind}Recommender")(K=neighbours, num_threads=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ParameterWarning)  # of its own weights, in another format
        model.fit(sp.csr_matrix(matrix), show_progress=False)
    return sp.csr_array(model.similarity)


def popular(data: Sequences) -> Scores:
    """How many users have the item."""
    counts = np.bincount(data.items, minlength=data.n_items).astype(float)
    return lambda users: np.tile(counts, (users.size, 1))


def random(data: Sequences) -> Scores:
    """A random order for each user."""
    return lambda users: np.random.default_rng([SEED, users[0]]).random((users.size, data.n_items))


def item_cosine(data: Sequences, neighbours: int) -> Scores:
    """Item-based: cosines, each history item with its nearest items."""
    return _linear(data.matrix, _neighbours(data.matrix, neighbours))


def item_bm25(data: Sequences, neighbours: int) -> Scores:
    """Item-based: similarities of BM25 weights (implicit's defaults)."""
    return _linear(data.matrix, _neighbours(data.matrix, neighbours, "BM25"))


def user_cosine(data: Sequences, neighbours: int) -> Scores:
    """User-based: cosines of the user's nearest users, summed over those who have the item."""
    nearest = _neighbours(sp.csr_array(data.matrix.T), neighbours)
    return _linear(nearest, data.matrix)


def ease(data: Sequences, l2: float) -> Scores:
    """EASE (Steck, 2019), by LensKit, in float32."""
    from lenskit.data import from_interactions_df
    from lenskit.knn import EASEScorer
    from lenskit.training import TrainingOptions

    users = np.repeat(np.arange(data.n_users), np.diff(data.starts))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of pandas, about LensKit's use of it
        frame = pd.DataFrame({"user_id": users, "item_id": data.items})
        dataset = from_interactions_df(frame)
    model = EASEScorer(regularization=l2)
    model.train(dataset, TrainingOptions(environment={"LK_EASE_SOLVER": "scipy"}))
    learnt = np.unique(data.items)  # in whose order the library's weights must be
    if not np.array_equal(model.items.numbers(learnt), np.arange(learnt.size)):
        raise RuntimeError("LensKit numbers items in another order than theirs")
    histories = sp.csr_array(data.matrix[:, learnt], dtype=np.float32)
    if learnt.size == data.n_items:
        return _linear(histories, model.weights)

    def scores(block_users: IntArray) -> NDArray[np.float32]:
        block_scores = np.zeros((block_users.size, data.n_items), np.float32)
        block_scores[:, learnt] = histories[block_users] @ model.weights
        return block_scores

    return scores


def _factors(model: Any, data: Sequences) -> Scores:
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, "blas"):  # the library warns of nested threads otherwise
        model.fit(sp.csr_matrix(data.matrix, dtype=np.float32), show_progress=False)
    users, items = model.user_factors, model.item_factors
    return lambda block_users: users[block_users] @ items.T


def als(
    data: Sequences, alpha: float, regularization: float, seed: int = SEED, factors: int = 64
) -> Scores:
    """Alternating least squares on implicit feedback (Hu et al., 2008), by implicit."""
    from implicit.als import AlternatingLeastSquares

    model = AlternatingLeastSquares(
        factors=factors,
        alpha=alpha,
        regularization=regularization,
        iterations=15,
        num_threads=1,
        random_state=seed,
    )
    return _factors(model, data)


def bpr(data: Sequences, regularization: float, seed: int = SEED, iterations: int = 60) -> Scores:
    """Bayesian personalised ranking (Rendle et al., 2009), 64 factors, by implicit."""
    from implicit.bpr import BayesianPersonalizedRanking

    model = BayesianPersonalizedRanking(
        factors=64,
        learning_rate=0.05,
        regularization=regularization,
        iterations=iterations,
        num_threads=1,
        random_state=seed,
    )
    return _factors(model, data)


def pure_svd(data: Sequences, factors: int) -> Scores:
    """The matrix of zeros and ones, of lower rank (Cremonesi et al., 2010), by SciPy."""
    matrix = data.matrix
    start = np.random.default_rng(SEED).random(min(matrix.shape))
    items = svds(matrix, k=min(factors, min(matrix.shape) - 1), v0=start)[2]
    users = matrix @ items.T
    return lambda block_users: users[block_users] @ items


def rp3beta(data: Sequences, alpha: float, beta: float) -> Scores:
    """A random walk of three steps, less popularity (Paudel et al., 2016)."""
    matrix = data.matrix
    by_user, by_item = (np.maximum(matrix.sum(axis=axis), 1) for axis in (1, 0))
    to_items = sp.csr_array(sp.diags_array(by_user**-alpha) @ matrix)
    to_users = sp.csr_array(sp.diags_array(by_item**-alpha) @ matrix.T)
    less_popular = sp.diags_array(by_item**-beta)
    if not _fits(data.n_items, data.n_items):  # step by step, without a matrix of items by items
        last_step = sp.csr_array(to_items @ less_popular)
        return lambda users: ((matrix[users] @ to_users) @ last_step).toarray()
    walk = to_users @ to_items @ less_popular
    return _linear(matrix, sp.csr_array(walk))


def markov(data: Sequences, smoothing: float) -> Scores:
    """What came next after the user's last item, counted, plus a share of popularity."""
    ends = data.starts[1:] - 1
    inner = np.delete(np.arange(data.items.size), ends[ends >= data.starts[:-1]])
    steps = sp.csr_array(
        (np.ones(inner.size), (data.items[inner], data.items[inner + 1])),
        shape=(data.n_items, data.n_items),
    )
    share = smoothing * np.bincount(data.items, minlength=data.n_items) / data.items.size
    last = data.items[ends]
    return lambda users: np.asarray(steps[last[users]].toarray() + share)


def recent_cosine(data: Sequences, decay: float, neighbours: int) -> Scores:
    """Item-based, each history item with `decay` of the weight of the next one."""
    return _linear(data.aged(decay), _neighbours(data.matrix, neighbours))


@dataclass(frozen=True)
class Entry:
    """How a recommender learns, and the values of each setting: all combinations are tried."""

    learn: Callable[..., Scores]
    grid: Mapping[str, Sequence[float]]
    tolerance: float = TOLERANCE  # 0 where scores are rounded to float32
    by_time: bool = False
    tuned_items: int | None = None  # how many of the most popular items it is tuned among
    small_grid: Mapping[str, Sequence[float]] | None = None  # where a data set is large
    most_items: int | None = None  # left out where there are more
    most_drawn_items: int | None = None  # the same where users are drawn

    def grid_for(self, data: Sequences) -> Mapping[str, Sequence[float]]:
        """The values that are tried on a data set."""
        is_small = data.n_ranked is None or data.items.size <= LARGE
        return self.grid if self.small_grid is None or is_small else self.small_grid

    def untuned(self) -> Entry:
        """The same recommender with the first value of each setting, on every data set.

        >>> RECOMMENDERS["RP3beta"].untuned().grid
        {'alpha': (0.6,), 'beta': (0.2,)}
        """
        first = {setting: (values[0],) for setting, values in self.grid.items()}
        return replace(self, grid=first, small_grid=None)

    def takes(self, data: Sequences) -> bool:
        """Whether it can be computed: the order in time is known, and items are not too many."""
        has_order = data.in_order or not self.by_time
        most = self.most_items if data.n_ranked is None else self.most_drawn_items
        return has_order and (most is None or data.n_items <= most)


NEAREST = {"neighbours": (20, 100, 500)}
NEAREST_FEW = {"neighbours": (100, 500)}
#: Name of each recommender.
RECOMMENDERS: dict[str, Entry] = {
    "Popular": Entry(popular, {}),
    "Random": Entry(random, {}),
    "Item cosine": Entry(item_cosine, NEAREST, small_grid=NEAREST_FEW),
    "Item BM25": Entry(item_bm25, NEAREST, small_grid=NEAREST_FEW),
    "User cosine": Entry(user_cosine, NEAREST, small_grid=NEAREST_FEW),
    "RP3beta": Entry(
        rp3beta,
        {"alpha": (0.6, 1.0), "beta": (0.2, 0.5, 0.8)},
        small_grid={"alpha": (0.6,), "beta": (0.2, 0.5, 0.8)},
    ),
    "PureSVD": Entry(pure_svd, {"factors": (16, 64, 128)}, small_grid={"factors": (64, 128)}),
    "Markov chain": Entry(markov, {"smoothing": (1.0, 100.0, 10_000.0)}, by_time=True),
    "Recent cosine": Entry(
        recent_cosine,
        {"decay": (0.5, 0.8, 0.95), "neighbours": (100, 500)},
        by_time=True,
        small_grid={"decay": (0.5, 0.8, 0.95), "neighbours": (500,)},
    ),
    "ALS": Entry(
        als,
        {"alpha": (1.0, 10.0), "regularization": (1.0, 10.0, 50.0)},
        tolerance=0.0,
        small_grid={"alpha": (1.0, 10.0), "regularization": (10.0,)},
    ),
    "BPR": Entry(
        bpr,
        {"regularization": (0.001, 0.01, 0.05)},
        tolerance=0.0,
        small_grid={"regularization": (0.01, 0.05)},
    ),
    "EASE": Entry(
        ease,
        {"l2": (30.0, 100.0, 300.0, 1000.0)},
        tolerance=0.0,
        tuned_items=EASE_ITEMS,
        small_grid={"l2": (100.0, 1000.0)},
        most_items=EASE_MOST_ITEMS,
        most_drawn_items=EASE_MOST_DRAWN,
    ),
}
