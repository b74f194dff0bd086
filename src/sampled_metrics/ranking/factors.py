"""Counts of a shard of the catalogue by products of factors, without a matrix of all scores."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._validate import FloatArray, IntArray
from .exact import score_counts


def factor_counts(
    users: NDArray[Any],
    shard: NDArray[Any],
    own_items: NDArray[Any],
    score: str,
    owners: IntArray,
    own_columns: IntArray,
    seen: sp.csr_array,
    names: IntArray,
) -> IntArray:
    """:func:`~.ranking.exact.score_counts` for a product of factors, a row for each of `users`.

    `own_items` (k, d) are the factors of the held-out items. The processor and the shape of the
    matrices choose the order of a sum, so that equal items may have scores that differ by a
    rounding error. Products are therefore summed in double precision, and scores that are closer
    than its rounding error tie.
    """
    user_factors, item_factors = as_products(users, shard, score)
    own_factors = as_products(users[:0], own_items, score)[1]
    own_users = user_factors[owners]
    with np.errstate(all="ignore"):
        own_scores = np.einsum("ij,ij->i", own_users, own_factors)
        longest = np.maximum(_norms(own_factors), _norms(item_factors).max(initial=0.0))
        # Higham, Accuracy and Stability of Numerical Algorithms, chapter 3; 8 more units for the
        # cosines' division and the distances' squares.
        unit = (user_factors.shape[1] + 8) * np.finfo(np.float64).eps
        margin = unit * _norms(own_users) * longest
    margin[~(np.isfinite(own_scores) & np.isfinite(margin))] = 0.0

    def products(rows: IntArray, columns: slice) -> FloatArray:
        with np.errstate(all="ignore"):
            return np.asarray(user_factors[rows] @ item_factors[columns].T)

    return score_counts(products, own_scores, owners, own_columns, seen, names, margin)


def as_products(
    users: NDArray[Any], items: NDArray[Any], score: str
) -> tuple[FloatArray, FloatArray]:
    """Factors whose inner products order each user's items by a score.

    The cosine with a zero vector is 0. Since :math:`-|u - v|^2 / 2 = u v - |v|^2 / 2 - |u|^2 / 2`
    and the last term is the same for all items of a user, one more factor orders items by Euclidean
    distance.
    """
    user_factors, item_factors = (np.asarray(x, dtype=np.float64) for x in (users, items))
    if score == "cosine":
        lengths = _norms(item_factors)[:, np.newaxis]
        item_factors = item_factors / np.where(lengths > 0, lengths, 1.0)
    if score == "euclidean":
        half_squares = np.square(item_factors).sum(axis=1) / 2
        user_factors = np.column_stack([user_factors, np.ones(len(user_factors))])
        item_factors = np.column_stack([item_factors, -half_squares])
    return user_factors, item_factors


def _norms(matrix: FloatArray) -> FloatArray:
    return np.asarray(np.sqrt(np.einsum("ij,ij->i", matrix, matrix)))
