"""M: the value of a ranking, as a function of the true ranks of its relevant items.

Every metric here is a sum over the relevant items of a *term*. A term depends only on the item's
rank and on its position j among the relevant items, 1 for the best. So expectations under sampling
are exact for several relevant items too.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from ._validate import FloatArray, IntArray, as_written, integer, integers


def _equal(position: np.ndarray) -> np.ndarray:
    return np.ones(np.shape(position))


def _best(position: np.ndarray) -> np.ndarray:
    return np.asarray(position == 1)


def _position(position: np.ndarray) -> np.ndarray:
    return position


def _hit(weight: np.ndarray | float, rank: np.ndarray) -> FloatArray:
    shape = np.broadcast_shapes(np.shape(weight), np.shape(rank))
    return np.broadcast_to(weight, shape).astype(float)


def reciprocal(weight: np.ndarray | float, rank: np.ndarray) -> FloatArray:
    """The function of the rank in Average Precision and Reciprocal Rank."""
    return np.asarray(weight / rank)


def _logarithmic(weight: np.ndarray | float, rank: np.ndarray) -> FloatArray:
    return np.asarray(weight / np.log2(rank + 1.0))


def _linear(weight: np.ndarray | float, rank: np.ndarray) -> FloatArray:
    return np.asarray(-np.multiply(weight, rank, dtype=float))


def _one(relevant: int, k: int | None) -> float:
    return 1.0


def _reachable(relevant: int, k: int | None) -> float:
    return float(relevant if k is None else min(relevant, k))


def _ideal(relevant: int, k: int | None) -> float:
    ranks = np.arange(1, int(_reachable(relevant, k)) + 1)
    return float(_logarithmic(1.0, ranks).sum())


@dataclass(frozen=True)
class Declaration:
    """All that is particular to a metric with any cut-off; every module reads it here.

    The relevant item at `rank`, the `position`-th best of `relevant` items, adds
    ``function(weight(position), rank) / scale(relevant, k)``, or 0 beyond the cut-off. With
    the function `_linear`, :meth:`Metric.smooth_term` maps ranks to the share of items below.
    """

    label: str
    """The name as papers print it."""
    meaning: str
    """One line of help."""
    function: Callable[[np.ndarray | float, np.ndarray], FloatArray]
    """What an item of a weight adds at a rank; it must not rise with the rank."""
    weight: Callable[[np.ndarray], np.ndarray] = _equal
    scale: Callable[[int, int | None], float] = _one
    cutoff: Literal["must", "may", "no"] = "no"
    """Whether the metric needs, takes or refuses a cut-off k."""
    last_rank: int | None = None
    """The cut-off of a metric that takes none but has one."""
    graded: bool = False
    """Whether an item's weight is its grade where items are graded, divided by the ideal sum."""
    is_hit_rate: bool = False
    """Whether the metric is the share of users with a hit, if each has one relevant item."""
    other_names: tuple[str, ...] = ()
    """Names elsewhere: RecBole, RecTools, ranx, trec_eval, ir_measures, PyKEEN; no "_" or "-"."""

    def spellings(self, base: str) -> tuple[str, ...]:
        """The forms of the metric's name.

        >>> DECLARED["ap"].spellings("ap")
        ('ap', 'ap@k')
        """
        with_cutoff = (f"{base}@k",)
        return {"no": (base,), "may": (base, *with_cutoff), "must": with_cutoff}[self.cutoff]


#: Each metric by its name without a cut-off, declared once.
DECLARED = {
    "auc": Declaration(
        "AUC", "share of the irrelevant items that are below a relevant one", _linear
    ),
    "precision": Declaration(
        "Precision", "relevant items in the top k, divided by k", _hit,
        scale=lambda relevant, k: float(k or 1), cutoff="must", other_names=("p",),
    ),
    "recall": Declaration(
        "Recall", "share of the relevant items that are in the top k", _hit,
        scale=lambda relevant, k: float(relevant), cutoff="must", is_hit_rate=True,
        other_names=("r",),
    ),
    "ap": Declaration(
        "AP", "average precision, the mean over relevant items of the precision at their ranks",
        reciprocal, _position, _reachable, cutoff="may", other_names=("map",),
    ),
    "ndcg": Declaration(
        "NDCG", "sum of 1 / log2(rank + 1), divided by its largest value", _logarithmic,
        scale=_ideal, cutoff="may", graded=True, other_names=("ndcgcut",),
    ),
    "rr": Declaration(
        "RR", "1 / rank of the best relevant item", reciprocal, _best, cutoff="may",
        other_names=("mrr", "reciprank", "reciprocalrank", "inverseharmonicmeanrank"),
    ),
    "hit": Declaration(
        "Hit", "1 if a relevant item is in the top k", _hit, _best, cutoff="must",
        is_hit_rate=True,
        other_names=("h", "hits", "hr", "hitrate", "hitratio", "success"),
    ),
    "accuracy": Declaration(
        "Accuracy", "1 if a relevant item is first", _hit, _best, last_rank=1
    ),
}  # fmt: skip
_BASE_BY_NAME = {name: base for base, entry in DECLARED.items() for name in entry.other_names}


@dataclass(frozen=True, repr=False)
class Metric:
    """A ranking metric; make one with :func:`metric`.

    Attributes
    ----------
    base : str
        The name without a cut-off, one of the keys of `DECLARED`.
    k : int or None
        Cut-off, at least 1; None where the metric looks at the whole ranking.

    Raises
    ------
    ValueError
        If `base` is unknown, or `k` is missing, below 1 or not taken.

    See Also
    --------
    metric : A metric from its name.

    Examples
    --------
    >>> Metric("ndcg", 10)
    metric('ndcg@10')
    """

    base: str
    k: int | None = None

    def __post_init__(self) -> None:
        declared = DECLARED.get(self.base)
        if declared is None:
            raise _unknown(self.base)
        if self.k is None:
            if declared.cutoff == "must":
                raise ValueError(f"metric {self.base!r} needs a cut-off, as in '{self.base}@10'")
        elif declared.cutoff == "no":
            raise ValueError(f"metric '{self.base}@{self.k}' has a cut-off: {self.base} takes none")
        else:
            integer(self.k, "k", 1)

    @property
    def declaration(self) -> Declaration:
        """All that is particular to such metrics."""
        return DECLARED[self.base]

    @property
    def name(self) -> str:
        """The name that :func:`metric` parses back into this metric."""
        return self.base + self._parameter

    @property
    def label(self) -> str:
        """The name as papers print it, for figures and tables."""
        return self.declaration.label + self._parameter

    @property
    def _parameter(self) -> str:
        return "" if self.k is None else f"@{self.k}"

    @property
    def linear(self) -> bool:
        """Whether the metric is linear in the true rank, so that sampling leaves it unbiased: AUC.

        Examples
        --------
        >>> metric("auc").linear, metric("ap").linear
        (True, False)
        """
        return self.declaration.function is _linear

    @property
    def best_only(self) -> bool:
        """Whether only the best of several relevant items counts.

        Examples
        --------
        >>> metric("hit@10").best_only, metric("recall@10").best_only
        (True, False)
        """
        return self.declaration.weight is _best

    @property
    def cutoff(self) -> int | None:
        """The last rank that counts; None if all do.

        Examples
        --------
        >>> metric("accuracy").cutoff, metric("ndcg@10").cutoff, metric("rr").cutoff
        (1, 10, None)
        """
        return self.declaration.last_rank or self.k

    def __repr__(self) -> str:
        return f"metric({self.name!r})"

    def __call__(self, ranks: ArrayLike, n_items: ArrayLike | None = None) -> FloatArray:
        """Value of rankings that hold one relevant item each (krichene2020, eqs 7-13).

        Parameters
        ----------
        ranks : array_like of int, any shape
            True ranks, 1 the best, at most `n_items`.
        n_items : int or array_like of int, optional
            Items ranked, the relevant one included, at least 2; broadcasts with `ranks`.
            Only AUC needs it; the others use it to check the ranks.

        Returns
        -------
        ndarray of float
            In [0, 1], of the broadcast shape.

        Raises
        ------
        ValueError
            If a rank is below 1, above `n_items`, fractional or NaN, if `n_items` is below 2, or
            if it is missing where AUC needs it.

        See Also
        --------
        of_set : The value of one ranking with several relevant items.
        vector : The values at all ranks.

        Examples
        --------
        >>> metric("ndcg@10")([1, 3, 11])
        array([1. , 0.5, 0. ])
        >>> metric("auc")([1, 3, 11], n_items=11)
        array([1. , 0.8, 0. ])
        """
        return self.term(ranks, n_items=n_items)

    def of_set(self, ranks: ArrayLike, n_items: int | None = None) -> float:
        """Value of one ranking that holds several relevant items (krichene2020, eqs 2-6).

        Parameters
        ----------
        ranks : array_like of int, shape (n_relevant,)
            The distinct true ranks of the relevant items, in any order.
        n_items : int, optional
            Items ranked, the relevant ones included; needed by AUC.

        Returns
        -------
        float
            In [0, 1].

        Raises
        ------
        ValueError
            If the set is empty or holds a rank twice, and as in calling the metric.

        See Also
        --------
        term : What each of the items adds.

        Examples
        --------
        >>> metric("ap").of_set([1, 4])
        0.75
        >>> metric("auc").of_set([3, 5], n_items=10)
        0.6875
        """
        ordered = relevant_set(ranks)
        total = ordered.size
        terms = self.term(ordered, np.arange(1, total + 1), total, n_items)
        return float(terms.sum())

    def vector(self, n_items: int) -> FloatArray:
        """The metric as the vector M over the true ranks 1..n_items, one relevant item.

        Parameters
        ----------
        n_items : int
            Items ranked, the relevant one included, at least 2.

        Returns
        -------
        ndarray of float, shape (n_items,)
            In [0, 1], never rising.

        Raises
        ------
        ValueError
            If `n_items` is below 2.

        Examples
        --------
        >>> metric("recall@2").vector(4)
        array([1., 1., 0., 0.])
        """
        size = integer(n_items, "n_items", 2)
        return self(np.arange(1, size + 1), n_items=size)

    def term(
        self,
        rank: ArrayLike,
        position: ArrayLike = 1,
        n_relevant: int = 1,
        n_items: ArrayLike | None = None,
    ) -> FloatArray:
        """What the relevant item at `rank` adds, being the `position`-th best of `n_relevant`.

        Summed over the relevant items of a ranking this is the metric (krichene2020, eqs 2-6;
        Reciprocal Rank and Hit Ratio look at the best relevant item only).

        Parameters
        ----------
        rank : array_like of int, any shape
            True rank of the item, at least `position`.
        position : int or array_like of int
            The item's place among the relevant ones, in [1, n_relevant]; broadcasts.
        n_relevant : int
            Relevant items in the ranking, at least 1.
        n_items : int or array_like of int, optional
            Items ranked, more than `n_relevant`; broadcasts; needed by AUC.

        Returns
        -------
        ndarray of float
            In [0, 1], of the broadcast shape.

        Raises
        ------
        ValueError
            If a rank is below its position, above ``n_items - (n_relevant - position)``,
            fractional or NaN, if `position` or `n_items` is out of range, or if `n_items` is
            missing where AUC needs it.

        Examples
        --------
        >>> metric("ap").term([1, 4], position=[1, 2], n_relevant=2)
        array([0.5 , 0.25])
        """
        relevant = integer(n_relevant, "n_relevant", 1)
        j = integers(position, "position", 1, relevant)
        items = None if n_items is None else integers(n_items, "n_items", relevant + 1)
        # The items behind this one include the relevant ones that come after it.
        r = integers(rank, "rank", 1, None if items is None else items - (relevant - j))
        if (r < j).any():
            raise ValueError(f"rank must be >= position, got rank {r.min()} for position {j.max()}")
        if self.linear and items is None:
            raise ValueError(f"n_items is needed by {self.base}, got None")
        return self.smooth_term(r, j, relevant, items)

    def smooth_term(
        self,
        r: np.ndarray,
        j: np.ndarray,
        relevant: int,
        items: IntArray | None,
    ) -> FloatArray:
        """:meth:`term` without checks, continued smoothly to fractional ranks.

        >>> metric("ap").smooth_term(np.array([2.5]), np.array(1), 1, None)
        array([0.4])
        """
        if self.linear:
            assert items is not None
            pool = items - relevant
            return np.asarray((pool - (r - j)) / (pool * float(relevant)))
        return np.asarray(self.unscaled(r, self.declaration.weight(j)) / self.scale(relevant))

    def unscaled(self, rank: np.ndarray, weight: np.ndarray | float = 1.0) -> FloatArray:
        """The declared function of the rank times a weight, 0 beyond the cut-off.

        >>> metric("ndcg@2").unscaled(np.array([1, 3]), 5.0)
        array([5., 0.])
        """
        value = self.declaration.function(weight, rank)
        k = self.cutoff
        return value if k is None else np.where(rank <= k, value, 0.0)

    def scale(self, n_relevant: int) -> float:
        """The divisor of the sum of terms: mostly its largest value.

        >>> metric("ap@2").scale(5), metric("recall@2").scale(5)
        (2.0, 5.0)
        """
        return self.declaration.scale(n_relevant, self.k)


def factors(metric: Metric, gain: FloatArray) -> FloatArray:
    """What the metric's function of the rank is multiplied by, for each document, the best first.

    The gain in NDCG is the relevance, as in trec_eval.
    """
    if metric.declaration.graded:
        ideal = np.sort(gain)[::-1][: metric.k]
        return np.asarray(gain / metric.unscaled(np.arange(1, ideal.size + 1), ideal).sum())
    weight = metric.declaration.weight(np.arange(1, gain.size + 1))
    return np.asarray(weight / metric.scale(gain.size))


def _unknown(base: str) -> ValueError:
    """The refusal of a name, with a near one."""
    same_base = _BASE_BY_NAME.get(base)
    similar = [same_base] if same_base else difflib.get_close_matches(base, DECLARED, n=1)
    hint = f"did you mean {similar[0]!r}?" if similar else f"use one of {', '.join(DECLARED)}"
    return ValueError(f"metric {as_written(base)} is unknown: {hint}")


def relevant_set(ranks: ArrayLike) -> np.ndarray:
    """The ranks of one ranking's relevant items, sorted; ValueError if none or not distinct.

    >>> relevant_set([5, 3])
    array([3, 5])
    """
    checked_ranks = integers(ranks, "ranks", 1) if np.size(ranks) else np.empty(0, dtype=np.int64)
    if checked_ranks.ndim != 1 or checked_ranks.size == 0:
        raise ValueError(
            f"ranks must be a non-empty list of ranks, got shape {checked_ranks.shape}"
        )
    ordered = np.sort(checked_ranks)
    duplicates = ordered[1:][ordered[1:] == ordered[:-1]]
    if duplicates.size:
        raise ValueError(f"ranks must be distinct, got {duplicates[0]} more than once")
    return ordered


def metric(name: str | Metric) -> Metric:
    """Make a metric from its name.

    Parameters
    ----------
    name : str or Metric
        A metric is returned as it is. A name is case-insensitive: "auc", "precision@k",
        "recall@k", "ap", "ap@k", "ndcg", "ndcg@k", "rr", "rr@k", "hit@k" or "accuracy", with
        a whole k of at least 1. For one relevant item "rr" equals "ap", "hit@k" equals "recall@k"
        and "accuracy" equals "recall@1" (krichene2020, section 3.1).

        Other names are understood, too: "p" for precision, "r" for recall, "hr", "hits",
        "hit_rate", "hit_ratio" and "success" for hit, "map" for ap, "mrr" and "recip_rank" for rr,
        trec_eval's "P_10", "recall_10", "success_10" and "ndcg_cut_10", and "hits_at_10".

    Returns
    -------
    Metric

    Raises
    ------
    ValueError
        If the name is unknown (a near one is suggested), or its k is missing, below 1 or not taken.

    Notes
    -----
    For one relevant item in each ranking, libraries differ in NDCG only: RecTools divides NDCG@k
    by the sum of ``1 / log2(i + 1)`` over i = 1..k unless `divide_by_achievable` is set, so that
    its ``NDCG@10`` is the one here divided by 4.54. For several relevant items, R of them:

    - *hit@k* is 1 if the best of them is in the top k, and *rr* looks at the best one only. That
      is what RecBole, RecTools, ranx and trec_eval (success, recip_rank) compute. Only *recall@k*
      counts them all.
    - *ap@k* divides by min(R, k), as RecBole does: 1 is reached by a perfect top k. trec_eval
      (map_cut), ranx and RecTools divide by R, or RecTools by k (`divide_by_k`).
    - *ndcg@k* divides by the sum over i = 1..min(R, k), as RecBole, ranx and trec_eval do.
    - *auc* is the mean over rankings. RecBole's auc pools the scores of all users instead.

    See Also
    --------
    sampled_metrics.RankIntervals.evaluate : A metric of exact ranks with ties.
    sampled_metrics.RelevantSets : Several relevant items with ties.

    Examples
    --------
    >>> metric("NDCG@10").name, metric("HR@10").name, metric("MRR").name
    ('ndcg@10', 'hit@10', 'rr')
    >>> metric("MAP@2").of_set([1, 4, 5])  # 1 / min(3, 2); trec_eval has 1 / 3
    0.5
    >>> metric("nddg@10")
    Traceback (most recent call last):
    ...
    ValueError: metric 'nddg' is unknown: did you mean 'ndcg'?
    """
    if isinstance(name, Metric):
        return name
    if not isinstance(name, str):
        raise ValueError(f"metric must be a name such as 'ndcg@10', got {as_written(name)}")
    return _named(name)


class OtherMetric(Metric):
    """A metric that a table of values by query names, and nothing here computes.

    >>> OtherMetric("faithfulness").label
    'faithfulness'
    """

    linear = False

    def __post_init__(self) -> None:
        """Any name is one."""

    @property
    def label(self) -> str:
        return self.base


def shown(name: str) -> Metric:
    """The metric of a result, whose name need not be declared."""
    try:
        return metric(name)
    except ValueError:
        return OtherMetric(name)


@lru_cache(maxsize=256)
def _named(name: str) -> Metric:
    """:func:`metric` of a string, cached."""
    trec_match = re.fullmatch(r"(.*[a-z])_([0-9]+)", name.strip().lower())  # such as ndcg_cut_10
    spelling = "@".join(trec_match.groups()) if trec_match else name.lower()
    spelling = re.sub(r"[_ ]at(@| +(?=[0-9]))", "@", spelling)  # such as hits_at_10
    base, separator, parameter = (part.strip() for part in spelling.partition("@"))
    base = _BASE_BY_NAME.get(re.sub(r"[_ -]", "", base), base)
    declared = DECLARED.get(base)
    if separator and not re.fullmatch(r"-?[0-9]{1,18}", parameter):
        raise ValueError(
            f"k must be a whole number {'below 10**18' if parameter.isdecimal() else '>= 1'}, got "
            f"{as_written(parameter)} in metric {as_written(name)}"
        )
    if not separator and declared is not None and declared.cutoff == "must":
        raise ValueError(f"metric {as_written(name)} needs a cut-off, as in '{name.strip()}@10'")
    return Metric(base, int(parameter) if separator else None)


#: The largest relative error of the benchmark's recommenders, where there is a depth.
DEPTH_ERROR = 0.07


def recall_depth(sampled: Metric, n_items: float, n_negatives: int) -> int | None:
    """The cut-off of the exact Recall that Recall of one item measures among uniform negatives.

    The item at that true rank has k negatives above it on average. None for other metrics, cut-offs
    and numbers of negatives than those that were tried on the benchmark.

    >>> recall_depth(metric("recall@10"), 3_541, 100), recall_depth(metric("recall@1"), 3_541, 100)
    (354, None)
    """
    k = sampled.k if sampled.declaration.is_hit_rate and sampled.k else 0
    if not (10 <= k <= 20 and 50 <= n_negatives <= min(n_items / 10, 1_000)):
        return None
    return round(k * (n_items - 1) / n_negatives)
