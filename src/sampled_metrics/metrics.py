"""M: the value of a ranking, as a function of the true ranks of its relevant items.

Every metric here is a sum over the relevant items of a *term*. A term depends only on the item's
rank and on its position j among the relevant items, 1 for the best. So expectations under sampling
are exact for several relevant items too.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from ._validate import FloatArray, IntArray, as_written, integer, integers

#: Whether each metric needs ("must"), takes ("may") or refuses ("no") a cut-off k.
CUTOFF = {
    "auc": "no",
    "precision": "must",
    "recall": "must",
    "ap": "may",
    "ndcg": "may",
    "rr": "may",
    "hit": "must",
    "accuracy": "no",
}
#: Names in RecBole, RecTools, ranx, trec_eval, ir_measures and PyKEEN, without "_" and "-".
_OTHER_NAMES = {
    "p": "precision",
    "r": "recall",
    "map": "ap",
    "mrr": "rr",
    "reciprank": "rr",
    "reciprocalrank": "rr",
    "inverseharmonicmeanrank": "rr",
    "h": "hit",
    "hits": "hit",
    "hr": "hit",
    "hitrate": "hit",
    "hitratio": "hit",
    "success": "hit",
    "ndcgcut": "ndcg",
}


@dataclass(frozen=True, repr=False)
class Metric:
    """A ranking metric; make one with :func:`metric`.

    Attributes
    ----------
    kind : str
        One of the keys of `CUTOFF`.
    k : int or None
        Cut-off, at least 1; None where the metric looks at the whole ranking.

    Raises
    ------
    ValueError
        If `kind` is unknown, or `k` is missing, below 1, fractional or not taken.

    See Also
    --------
    metric : A metric from its name.

    Examples
    --------
    >>> Metric("ndcg", 10)
    metric('ndcg@10')
    """

    kind: str
    k: int | None = None

    def __post_init__(self) -> None:
        if self.kind not in CUTOFF:
            canonical = _OTHER_NAMES.get(self.kind)
            suggestions = (
                [canonical] if canonical else difflib.get_close_matches(self.kind, CUTOFF, n=1)
            )
            hint = (
                f"did you mean {suggestions[0]!r}?"
                if suggestions
                else f"use one of {', '.join(CUTOFF)}"
            )
            raise ValueError(f"metric {as_written(self.kind)} is unknown: {hint}")
        if self.k is None and CUTOFF[self.kind] == "must":
            raise ValueError(f"metric {self.kind!r} needs a cut-off, as in '{self.kind}@10'")
        if self.k is not None and CUTOFF[self.kind] == "no":
            raise ValueError(f"metric '{self.kind}@{self.k}' has a cut-off: {self.kind} takes none")
        if self.k is not None:
            integer(self.k, "k", 1)

    @property
    def name(self) -> str:
        """The name that :func:`metric` parses back into this metric."""
        return self.kind if self.k is None else f"{self.kind}@{self.k}"

    @property
    def label(self) -> str:
        """The name as papers print it, for figures and tables."""
        label_by_kind = {
            "precision": "Precision",
            "recall": "Recall",
            "hit": "Hit",
            "accuracy": "Accuracy",
        }
        kind_label = label_by_kind.get(self.kind, self.kind.upper())
        return kind_label if self.k is None else f"{kind_label}@{self.k}"

    @property
    def linear(self) -> bool:
        """Whether the metric is linear in the true rank, so that sampling leaves it unbiased: AUC.

        Examples
        --------
        >>> metric("auc").linear, metric("ap").linear
        (True, False)
        """
        return self.kind == "auc"

    @property
    def best_only(self) -> bool:
        """Whether only the best of several relevant items counts.

        Examples
        --------
        >>> metric("hit@10").best_only, metric("recall@10").best_only
        (True, False)
        """
        return self.kind in ("hit", "rr", "accuracy")

    @property
    def cutoff(self) -> int | None:
        """The last rank that counts; None if all do.

        Examples
        --------
        >>> metric("accuracy").cutoff, metric("ndcg@10").cutoff, metric("rr").cutoff
        (1, 10, None)
        """
        return 1 if self.kind == "accuracy" else self.k

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
            raise ValueError("n_items is needed by auc, got None")
        return self._smooth_term(r, j, relevant, items)

    def _smooth_term(
        self,
        r: np.ndarray,
        j: np.ndarray,
        relevant: int,
        items: IntArray | None,
    ) -> FloatArray:
        """:meth:`term` without checks, continued smoothly to fractional ranks.

        >>> metric("ap")._smooth_term(np.array([2.5]), np.array(1), 1, None)
        array([0.4])
        """
        if self.kind == "auc":
            assert items is not None
            pool = items - relevant
            return np.asarray((pool - (r - j)) / (pool * float(relevant)))
        if self.kind == "ap":
            value = j / r
        elif self.kind == "ndcg":
            value = 1.0 / np.log2(r + 1.0)
        elif self.kind == "rr":
            value = (j == 1) / r
        elif self.kind in ("hit", "accuracy"):
            value = np.broadcast_to(j == 1, np.broadcast_shapes(r.shape, j.shape)).astype(float)
        else:
            value = np.ones(np.broadcast_shapes(r.shape, j.shape))
        k = self.cutoff
        if k is not None:
            value = np.where(r <= k, value, 0.0)
        return np.asarray(value / self._scale(relevant))

    def _scale(self, relevant: int) -> float:
        """Normalisation of the sum of terms: its best possible value, or k for precision."""
        reachable = relevant if self.k is None else min(relevant, self.k)
        if self.kind == "ndcg":
            return float(np.sum(1.0 / np.log2(np.arange(1, reachable + 1) + 1.0)))
        if self.kind == "ap":
            return float(reachable)
        if self.kind == "recall":
            return float(relevant)
        if self.kind == "precision" and self.k is not None:
            return float(self.k)
        return 1.0


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
        "recall@k", "ap", "ap@k", "ndcg", "ndcg@k", "rr", "rr@k", "hit@k" or "accuracy", with a
        whole k of at least 1. For one relevant item "rr" equals "ap", "hit@k" equals "recall@k" and
        "accuracy" equals "recall@1" (krichene2020, section 3.1).

        Other names are understood, too: "p" for precision, "r" for recall, "hr", "hits",
        "hit_rate", "hit_ratio" and "success" for hit, "map" for ap, "mrr" and "recip_rank" for rr,
        trec_eval's "P_10", "recall_10", "success_10" and "ndcg_cut_10", and "hits_at_10".

    Returns
    -------
    Metric

    Raises
    ------
    ValueError
        If the name is unknown (a near one is suggested), or its k is missing, below 1, fractional
        or not taken.

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


@lru_cache(maxsize=256)
def _named(name: str) -> Metric:
    """:func:`metric` of a string, cached."""
    trec_match = re.fullmatch(r"(.*[a-z])_([0-9]+)", name.strip().lower())  # such as ndcg_cut_10
    spelling = "@".join(trec_match.groups()) if trec_match else name.lower()
    spelling = re.sub(r"[_ ]at(@| +(?=[0-9]))", "@", spelling)  # such as hits_at_10
    kind, separator, cutoff = (part.strip() for part in spelling.partition("@"))
    if separator and not re.fullmatch(r"-?[0-9]{1,18}", cutoff):
        raise ValueError(
            f"k must be a whole number {'below 10**18' if cutoff.isdecimal() else '>= 1'}, got "
            f"{as_written(cutoff)} in metric {as_written(name)}"
        )
    kind = _OTHER_NAMES.get(re.sub(r"[_ -]", "", kind), kind)
    if not separator and CUTOFF.get(kind) == "must":
        raise ValueError(f"metric {as_written(name)} needs a cut-off, as in '{name.strip()}@10'")
    return Metric(kind, int(cutoff) if separator else None)
