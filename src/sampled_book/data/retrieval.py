"""Eleven retrieval models that rank every document of a collection for every query.

The rankings of NPL and Cranfield are bundled; :func:`ranked` computes those of all seven
collections, with two more models that are made up from the judgements.

``python -m sampled_book.data.retrieval`` computes what :func:`bundled` reads, from the collections
in the folder that ``SAMPLED_METRICS_DATA`` names; ``--check`` compares instead of writing. No text
is bundled, and no scores: only where each document stands among the relevant ones.
"""

from __future__ import annotations

import lzma
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import svds
from scipy.special import ndtri

from sampled_metrics._validate import FloatArray, IntArray

from . import bundle, collections, datasets

BUNDLE = datasets.BUNDLE / "corpora"
#: Documents at the top of each model's list that are bundled by number, for pools.
TOP = 100
#: The share of bundled places that another machine may put otherwise: scores of latent semantic
#: analysis are rounded sums, and some are almost equal.
TOLERANCE = 0.001
#: Mean NDCG@10 of the two models that are made up from judgements.
STRONG = (0.82, 0.9)
#: Standard deviation of their noise, in units of normal quantiles of Fusion's ranks.
NOISE = 0.5
#: Queries that are drawn at random, by collection, so that all rankings fit in memory.
MOST_QUERIES = {"cosqa": 300}


@dataclass(frozen=True, eq=False)
class Runs:
    """How models rank one collection.

    `places` (models, queries, documents) counts the relevant documents that a model ranks above a
    document: all that a metric of binary relevance needs in any corpus that keeps the relevant
    documents. `top` (models, queries, k) holds the first documents of each list, `relevant` the
    relevant documents of each query. Documents are numbered in a random order, in which every model
    breaks ties.
    """

    models: tuple[str, ...]
    places: NDArray[np.unsignedinteger]
    top: NDArray[np.uint16]
    relevant: list[IntArray]

    @property
    def n_documents(self) -> int:
        """Documents of the collection."""
        return int(self.places.shape[2])


def terms(text: str) -> list[str]:
    """Words of a text in lower case, without stop words and without a plural's s.

    >>> terms("The FREQUENCIES of waves, losses and buses")
    ['frequency', 'wave', 'losse', 'buse']
    """
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    words = re.findall(r"[a-z]+", text.lower())
    return [_singular(word) for word in words if word not in ENGLISH_STOP_WORDS and len(word) > 1]


def _singular(word: str) -> str:
    """The S stemmer of Harman (1991)."""
    if word.endswith("ies") and not word.endswith(("eies", "aies")):
        return word[:-3] + "y"
    if word.endswith("es") and not word.endswith(("aes", "ees", "oes")):
        return word[:-1]
    if word.endswith("s") and not word.endswith(("us", "ss")):
        return word[:-1]
    return word


def counts(documents: list[str], queries: list[str]) -> tuple[sp.csr_array, sp.csr_array]:
    """How often each term of the documents is in each document, and in each query.

    >>> documents, queries = counts(["waves and wave", "tubes"], ["fast tubes"])
    >>> documents.toarray(), queries.toarray()
    (array([[0., 2.],
           [1., 0.]]), array([[1., 0.]]))
    """
    from sklearn.feature_extraction.text import CountVectorizer

    counter = CountVectorizer(analyzer=terms, dtype=np.float64)
    of_documents, of_queries = counter.fit_transform(documents), counter.transform(queries)
    return sp.csr_array(of_documents), sp.csr_array(of_queries)


def scores(documents: sp.csr_array, queries: sp.csr_array, largest: int = 300) -> dict[str, Any]:
    """Scores of all documents for all queries, (queries, documents), by the name of the model.

    `largest` is the number of dimensions of the largest latent semantic analysis.
    """
    from sklearn.preprocessing import normalize  # rows of length one; empty ones stay empty

    asked, weights = tf_idf(queries, documents), normalize(tf_idf(documents))
    found: dict[str, Any] = {"TF-IDF": _dense(normalize(asked) @ weights.T)}
    for k1, b in ((0.9, 0.4), (1.2, 0.75), (2.0, 0.0)):
        found[f"BM25 k1={k1} b={b}"] = _dense(queries @ bm25(documents, k1, b).T)
    found["Dirichlet"] = dirichlet(documents, queries)
    found["Jelinek-Mercer"] = _dense(queries @ jelinek_mercer(documents).T)
    left, values, right = _svd(weights, largest)
    for size in (20, 100, 300):
        k = min(size, largest)
        vectors = left[:, :k] * values[:k]
        found[f"LSA {size}"] = normalize(asked @ right[:k].T) @ normalize(vectors).T
    found["RM3"] = dirichlet(documents, feedback(documents, queries, found["Dirichlet"]))
    found["Fusion"] = fuse([found["BM25 k1=0.9 b=0.4"], found["LSA 300"]])
    return found


def tf_idf(matrix: sp.csr_array, documents: sp.csr_array | None = None) -> sp.csr_array:
    """(1 + log count) log(documents / documents that have the term)."""
    documents = matrix if documents is None else documents
    having = np.bincount(documents.indices, minlength=documents.shape[1])
    weighted = matrix.copy()
    weighted.data = (1 + np.log(matrix.data)) * np.log(documents.shape[0] / having[matrix.indices])
    return weighted


def bm25(documents: sp.csr_array, k1: float, b: float) -> sp.csr_array:
    """Weight of each term in each document, as Robertson and Zaragoza (2009) define it, with the
    idf of Lucene, which is never negative.
    """
    length, term = _lengths(documents), documents.indices
    having = np.bincount(term, minlength=documents.shape[1])
    idf = np.log(1 + (documents.shape[0] - having + 0.5) / (having + 0.5))
    norm = k1 * (1 - b + b * length / length.mean())
    weighted = documents.copy()
    count = documents.data
    weighted.data = idf[term] * count * (k1 + 1) / (count + norm[_rows(documents)])
    return weighted


def dirichlet(documents: sp.csr_array, queries: sp.csr_array, mu: float = 500.0) -> FloatArray:
    """Logarithm of the likelihood of a query, with Dirichlet smoothing (Zhai and Lafferty, 2004).

    A query may have weights in place of counts.
    """
    share, weighted = _shares(documents), documents.copy()
    weighted.data = np.log1p(documents.data / (mu * share[documents.indices]))
    of_length = np.log(mu / (mu + _lengths(documents)))
    lengths = np.asarray(queries.sum(axis=1)).ravel()
    return _dense(queries @ weighted.T) + np.outer(lengths, of_length)


def jelinek_mercer(documents: sp.csr_array, share_of_collection: float = 0.5) -> sp.csr_array:
    """Weights whose sum over a query's terms is the logarithm of its likelihood with Jelinek-Mercer
    smoothing, less what is the same for all documents.
    """
    share, weighted = _shares(documents), documents.copy()
    within = documents.data / _lengths(documents)[_rows(documents)]
    odds = (1 - share_of_collection) / share_of_collection
    weighted.data = np.log1p(odds * within / share[documents.indices])
    return weighted


def feedback(
    documents: sp.csr_array,
    queries: sp.csr_array,
    first_scores: FloatArray,
    n_documents: int = 10,
    n_terms: int = 20,
    share_of_query: float = 0.5,
) -> sp.csr_array:
    """Queries expanded from the first documents of a first ranking (RM3): half of the weight stays
    with the query, half goes to the likeliest terms of these documents.
    """
    language = documents.multiply(1 / np.maximum(_lengths(documents), 1)[:, None]).tocsr()
    expanded = []
    for row, score in zip(queries.toarray(), first_scores, strict=True):
        first = ordered(score)[:n_documents]
        likelihood = np.exp(score[first] - score[first[0]])
        relevance = (likelihood / likelihood.sum()) @ language[first].toarray()
        few = np.zeros_like(relevance)
        chosen = ordered(relevance)[:n_terms]
        few[chosen] = relevance[chosen] / relevance[chosen].sum()
        total = max(row.sum(), 1.0)
        expanded.append(share_of_query * row / total + (1 - share_of_query) * few)
    return sp.csr_array(np.array(expanded))


def fuse(several: list[FloatArray], constant: int = 60) -> FloatArray:
    """Reciprocal rank fusion (Cormack et al., 2009)."""
    ranks = (np.argsort(np.array([ordered(row) for row in part]), axis=1) for part in several)
    return np.asarray(sum(1 / (constant + 1 + rank) for rank in ranks))


def ordered(score: FloatArray) -> IntArray:
    """Documents from the best score on; of equal ones, that with the lower number first."""
    return np.argsort(-score, kind="stable")


def places_of(order: IntArray, relevant: IntArray) -> NDArray[np.unsignedinteger]:
    """For each document, how many relevant ones stand above it in an order of all documents.

    >>> places_of(np.array([3, 0, 2, 1]), np.array([0, 1]))
    array([0, 1, 1, 0], dtype=uint8)
    """
    is_relevant = np.isin(order, relevant)
    places = np.empty(order.size, dtype=np.min_scalar_type(relevant.size))
    places[order] = np.cumsum(is_relevant) - is_relevant
    return places


def strong(
    fusion: FloatArray,
    relevant: list[IntArray],
    ndcg: float,
    ease: FloatArray,
    rng: np.random.Generator,
) -> FloatArray:
    """Scores of a model that is made up from the judgements: no model of texts is behind it.

    It stands in for a trained model that is far better than the eleven. Its scores are the normal
    quantiles of Fusion's ranks plus normal noise, and each relevant document gets an exponential
    bonus times the `ease` of the query. Some relevant documents thus get almost no bonus, and some
    queries stay hard. The scale of all bonuses is found by bisection: mean NDCG@10 is at least
    `ndcg`, and barely above. These models agree with the judgements by construction, so no result
    about them says how good real models are.
    """
    n_documents = fusion.shape[1]
    ranks = np.argsort([ordered(row) for row in fusion], axis=1)
    base: FloatArray = ndtri(1 - (ranks + 0.5) / n_documents) + rng.normal(0, NOISE, fusion.shape)
    bonus = np.zeros_like(base)
    for row, documents, factor in zip(bonus, relevant, ease, strict=True):
        row[documents] = factor * rng.exponential(size=documents.size)
    low, high = 0.0, 100.0
    # Not down to the last digit, where a relevant document would end in a tie with another one.
    for _ in range(20):
        scale = (low + high) / 2
        if _mean_ndcg(base, bonus, scale, relevant) < ndcg:
            low = scale
        else:
            high = scale
    return base + high * bonus


def run(name: str, seed: int = 0, *, with_strong: bool = False) -> Runs:
    """Rank a collection of :data:`collections.NAMES` by all eleven models, and by two more that are
    made up from judgements (``strong``) if `with_strong`.
    """
    collection = collections.read(name)
    asked, of_queries = np.arange(len(collection.queries)), np.random.default_rng([seed, 0])
    if name in MOST_QUERIES:
        asked = np.sort(of_queries.permutation(asked.size)[: MOST_QUERIES[name]])
    order = np.random.default_rng(seed).permutation(len(collection.documents))
    number = np.argsort(order)
    relevant = [np.sort(number[collection.relevant[query]]) for query in asked]
    documents, queries = counts(
        [collection.documents[i] for i in order], [collection.queries[query] for query in asked]
    )
    found = scores(documents, queries)
    if with_strong:
        # Both models find the same queries hard, as trained models do.
        ease = of_queries.gamma(2, 0.5, asked.size)
        for index, ndcg in enumerate(STRONG, 1):
            rng = np.random.default_rng([seed, index])
            found[f"Strong {index}"] = strong(found["Fusion"], relevant, ndcg, ease, rng)
    all_places, all_top = [], []
    for matrix in found.values():
        # Rounded, so that sums of equal terms in another order are equal, too.
        orders = [ordered(row) for row in np.round(matrix, 9)]
        all_places.append(np.array([places_of(*p) for p in zip(orders, relevant, strict=True)]))
        all_top.append([order[:TOP] for order in orders])
    return Runs(tuple(found), np.array(all_places), np.array(all_top, dtype=np.uint16), relevant)


def ranked(name: str, cache: Path | None = None) -> Runs:
    """The rankings of a collection of :data:`collections.NAMES` by thirteen models: the eleven, and
    two strong ones that are made up from judgements (``strong``).

    They are computed from the texts, and kept in the folder `cache`, if one is named, for the next
    call. ``MOST_QUERIES`` says which collections are cut to fewer queries.

    >>> ranked("cisi").places.shape  # doctest: +SKIP
    (13, 76, 1460)
    """
    if cache is not None and (cache / f"{name}.npz").exists():
        with np.load(cache / f"{name}.npz") as arrays:
            return _runs(arrays, arrays["places"])
    runs = run(name, with_strong=True)
    if cache is not None:
        cache.mkdir(parents=True, exist_ok=True)
        bundle.write_arrays(cache / f"{name}.npz", **_arrays(runs, runs.places))
    return runs


def write(folder: Path = BUNDLE) -> Iterator[Path]:
    """Compute and write the bundle; the files, as they are written."""
    for name in collections.FILES:
        runs = run(name)
        # Half the size that numpy's own compression gives.
        places = np.frombuffer(lzma.compress(runs.places.tobytes(), preset=9), dtype=np.uint8)
        yield bundle.write_arrays(folder / f"{name}.npz", **_arrays(runs, places))


@cache
def bundled(name: str) -> Runs:
    """The bundled rankings of "npl" or "cranfield".

    >>> bundled("cranfield").places.shape
    (11, 225, 1400)
    """
    with np.load(BUNDLE / f"{name}.npz") as arrays:
        places = np.frombuffer(lzma.decompress(arrays["places"].tobytes()), dtype=np.uint8)
        return _runs(arrays, places)


def compare() -> list[str]:
    """A sentence for each collection whose rankings, computed anew, are not as bundled."""
    differences = []
    for name in collections.FILES:
        kept, anew = bundled(name), run(name)
        if kept.models != anew.models or kept.places.shape != anew.places.shape:
            differences.append(f"{name}: other models or documents")
            continue
        share = float(np.mean(kept.places != anew.places))
        if share > TOLERANCE:
            differences.append(f"{name}: {share:.2%} of the places differ")
    return differences


def _arrays(runs: Runs, places: NDArray[Any]) -> dict[str, Any]:
    """Arrays of a file of rankings, with places as they are stored."""
    return {
        "models": np.array(runs.models),
        "places": places,
        "top": runs.top,
        "relevant": np.concatenate(runs.relevant).astype(np.uint16),
        "sizes": np.array([of_query.size for of_query in runs.relevant], dtype=np.uint16),
    }


def _runs(arrays: Any, places: NDArray[np.unsignedinteger]) -> Runs:
    """The inverse of :func:`_arrays`, with places of any shape."""
    models = tuple(str(model) for model in arrays["models"])
    ends = np.concatenate([[0], np.cumsum(arrays["sizes"].astype(np.int64))])
    numbers = arrays["relevant"].astype(np.int64)
    return Runs(
        models,
        places.reshape(len(models), ends.size - 1, -1),
        arrays["top"],
        [numbers[first:last] for first, last in pairwise(ends)],
    )


def _mean_ndcg(
    base: FloatArray, bonus: FloatArray, scale: float, relevant: list[IntArray]
) -> float:
    """Mean NDCG@10 of ``base + scale * bonus``."""
    discounts = 1 / np.log2(np.arange(2, 12))
    values = []
    for row, extra, documents in zip(base, bonus, relevant, strict=True):
        others = np.sort(np.delete(row, documents))[-10:]
        best = np.sort(row[documents] + scale * extra[documents])[::-1][:10]
        ranks = np.arange(best.size) + others.size - np.searchsorted(others, best)
        values.append(discounts[ranks[ranks < 10]].sum() / discounts[: best.size].sum())
    return float(np.mean(values))


def _svd(matrix: sp.csr_array, k: int) -> tuple[FloatArray, FloatArray, FloatArray]:
    """The k largest singular values and their vectors, the largest first."""
    left, values, right = svds(matrix, k=k, v0=np.ones(min(matrix.shape)))
    largest_first = np.argsort(-values)
    return left[:, largest_first], values[largest_first], right[largest_first]


def _lengths(documents: sp.csr_array) -> FloatArray:
    """Terms of each document."""
    return np.asarray(documents.sum(axis=1), dtype=np.float64).ravel()


def _shares(documents: sp.csr_array) -> FloatArray:
    """Share of each term in the collection."""
    totals = np.asarray(documents.sum(axis=0), dtype=np.float64).ravel()
    return np.asarray(totals / totals.sum())


def _rows(matrix: sp.csr_array) -> IntArray:
    """The row of each stored value."""
    return np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))


def _dense(matrix: Any) -> FloatArray:
    return np.asarray(matrix.toarray(), dtype=np.float64)


def main(arguments: list[str] | None = None) -> int:
    """The command."""
    options = bundle.parser(
        "sampled_book.data.retrieval", __doc__, "compare with the bundled rankings"
    ).parse_args(arguments)
    return bundle.run(
        lambda: write(options.output or BUNDLE),
        compare if options.check else None,
        "All rankings are as bundled.",
        "book",
    )


if __name__ == "__main__":
    sys.exit(main())
