"""What one's own sampled evaluation says of the exact metrics, and of who beats whom.

A correction is a vector over the sampled ranks, so each row of a log has a number, and the
users' spread of these numbers is the standard error: it holds the users that happened to be
evaluated and the negatives that happened to be drawn. What no spread shows is the bias;
:mod:`sampled_metrics.identification` bounds it, and no verdict is given without that bound.
"""

from __future__ import annotations

import difflib
import numbers
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pandas as pd
from scipy.interpolate import BarycentricInterpolator
from scipy.special import gammaln, stdtr, stdtrit
from tqdm import tqdm

from . import estimators as corrections
from . import identification, priors
from ._all_ranks import MOST_ITEMS, all_ranks
from ._validate import FloatArray, IntArray
from .consistency import Verdict
from .estimators import Estimator
from .logs import Log
from .metrics import Metric
from .metrics import metric as parsed
from .protocol import Protocol

#: The corrections that are fitted to the log itself.
FITTED = ("bias-variance, fitted prior", "maximum entropy", "maximum likelihood")
#: All corrections, by the names that the tables print.
ESTIMATORS = ("naive", "rank estimate", "least bias", "monotone", "bias-variance", *FITTED)
#: The verdict where neither recommender is known to beat the other.
CANNOT_TELL = "this sample cannot tell"

#: Sizes of the catalogue that a correction is computed at are added until it is right between
#: them to this share of its largest value.
_TOLERANCE = 1e-9
#: Refits of maximum likelihood to resampled users, for its standard error, and their seed.
_REFITS, _REFIT_SEED = 20, 1
#: Differences below this share of the largest value are rounding, and none.
_ROUNDING = 1e-13
#: Sizes for the monotone correction, whose values jump from size to size.
_MONOTONE_SIZES = 32
#: Entries of a table of values for several sizes, or of random orders, held at once.
_BLOCK = 1 << 21

#: From one protocol to the values of an estimator, a row for each position.
_Build = Callable[[Protocol], FloatArray]
#: From sizes of the catalogue to values, (sizes, n_relevant, m + 1).
_Between = Callable[[IntArray], FloatArray]


def estimate(
    log: Log,
    metrics: Sequence[str | Metric],
    *,
    estimators: Sequence[str] | None = None,
    gamma: float | None = None,
    confidence: float = 0.95,
    identification: bool = True,
    progress: bool = False,
) -> pd.DataFrame:
    """Estimate the exact metrics of every recommender of a log, by every correction.

    The value of a user is the mean over the user's instances, that of an instance the sum over
    its relevant items; ties with sampled negatives are averaged over their random order. The
    estimate is the mean over users.

    Parameters
    ----------
    log : Log
        From :func:`~sampled_metrics.logs.read_log`; two users or more for each recommender.
    metrics : sequence of str or Metric
    estimators : sequence of str, optional
        Of `ESTIMATORS`; if omitted all that the log allows but "maximum likelihood", whose
        standard error takes refits. "least bias" is then left out where it has no correct digits
        (from about 40 negatives on), and those in `FITTED` where users differ in n_negatives,
        have several relevant items or more than 20 million candidates. "bias-variance, fitted
        prior" takes as prior the maximum entropy fit to all recommenders together. Where n_items
        differs, priors are fitted for its mean, rounded.
    gamma : float, optional
        Weight of the variance in "bias-variance", with either prior: above 0, and finite. One
        over the root of the number of users if omitted. For users that may all be alike
        :func:`~sampled_metrics.estimators.choose_gamma` has 1 / users, which leaves less bias
        and more noise; the biases of users that differ cancel in part.
    confidence : float
        Of the intervals, in (0, 1).
    identification : bool
        Whether to add the identification intervals, which take most of the time.
    progress : bool
        Whether to show a progress bar.

    Returns
    -------
    pandas.DataFrame
        Columns recommender, metric, estimator, value, standard_error, low, high and users (int).
        The standard error is that of a mean over users drawn at random, each with negatives of
        its own; low and high are Student's interval with users - 1 degrees of freedom. They hold
        the expectation of the estimator, and know nothing of its bias. The row with estimator
        "identification" does: low and high hold the exact metric whatever the distribution of
        the true ranks; its value and its standard error are missing. See
        :func:`~sampled_metrics.identification.interval`.

    Raises
    ------
    ValueError
        If a name is unknown, there is no metric or one user only, `gamma` or `confidence` is out
        of range, or an estimator is named that the log does not allow.

    Warns
    -----
    RuntimeWarning
        If "least bias" is named and has no correct digits.

    Examples
    --------
    >>> from sampled_metrics.logs import read_log
    >>> table = estimate(read_log("bundled"), ["auc"], estimators=["naive"], identification=False)
    >>> table[["recommender", "value", "standard_error"]].round(4)
      recommender   value  standard_error
    0           X  0.8920          0.0020
    1           Y  0.8522          0.0024
    2           Z  0.7481          0.0033
    """
    sample = _Sample(log)
    wanted, level = _metrics(metrics), _confidence(confidence)
    values = _Values(sample, _gamma(gamma, sample))
    names = _estimators(estimators, sample)
    rows = []
    steps = len(wanted) * (len(names) + identification * len(sample.names))
    with tqdm(total=steps, desc="estimate", unit="table", disable=not progress) as bar:
        for of in wanted:
            for name in names:
                for recommender, found in values.of(of, name, estimators is None).items():
                    row = (found.value, *_student(found, level)[:3])
                    rows.append((of.name, recommender, name, *row, found.per_user.size))
                bar.update()
            for recommender in sample.names if identification else ():
                users = sample.users[recommender].size
                ends = sample.interval(recommender, of, level)
                rows.append((of.name, recommender, "identification", np.nan, np.nan, *ends, users))
                bar.update()
    columns = ["metric", "recommender", "estimator", "value", "standard_error", "low", "high"]
    table = pd.DataFrame(rows, columns=[*columns, "users"])
    by_recommender = table["recommender"].map(sample.names.index)
    by_metric = table["metric"].map([of.name for of in wanted].index)
    table = table.iloc[np.lexsort((by_recommender, by_metric))].reset_index(drop=True)
    return table[["recommender", "metric", *table.columns[2:]]]


def compare(
    log: Log,
    metric: str | Metric,
    *,
    estimator: str | None = None,
    gamma: float | None = None,
    confidence: float = 0.95,
    progress: bool = False,
) -> pd.DataFrame:
    """Say of each pair of recommenders which one beats the other, or that the log cannot tell.

    A verdict needs two things. The corrected difference has to be significant: Holm's adjusted
    p-value, over all pairs, is at most 1 - confidence. And the bias has to be out of the
    question: the identification intervals of the two recommenders are disjoint, and in the same
    order. All intervals hold together with the given confidence, so that the chance of a wrong
    verdict among all pairs is at most 1 - confidence, whatever the true ranks are. Where the
    estimator is as good as unbiased at every true rank (its bias in a difference is at most a
    tenth of the standard error, as for AUC) the first is enough.

    Parameters
    ----------
    log : Log
        With the same users for every recommender.
    metric : str or Metric
    estimator : str, optional
        Of `ESTIMATORS`, but for "maximum likelihood". If omitted the naive one where that is
        unbiased at every true rank, as for AUC, and else "bias-variance".
    gamma : float, optional
        As for :func:`estimate`.
    confidence : float
        In (0, 1).
    progress : bool
        Whether to show a progress bar.

    Returns
    -------
    pandas.DataFrame
        For each pair the columns first, second; naive and corrected: difference of the means,
        first less second; standard_error, of the corrected one, from the users' own differences;
        low, high: Student's interval for it; probability: that an evaluation of as many users
        finds the sign of the corrected difference, if its expectation is what was found here and
        unbiased (0.5 is a coin); p_value, adjusted by Holm; separate (bool): whether the
        identification intervals are; verdict: "A beats B", "B beats A" with their names, or
        `CANNOT_TELL`; warning: empty, or that the naive metric says the opposite.

    Raises
    ------
    ValueError
        If there are fewer than two recommenders, they have not the same users, and as
        :func:`estimate`.

    Examples
    --------
    >>> from sampled_metrics.logs import read_log
    >>> true = np.repeat([1, 90, 20, 500], 50)  # two ranks from A, and two from B
    >>> ranks = Protocol(1_000, 9).draw(true, np.random.default_rng(1))
    >>> names, users = ["A"] * 100 + ["B"] * 100, [*range(100)] * 2
    >>> rows = pd.DataFrame({"recommender": names, "user": users, "rank": ranks})
    >>> log = read_log(rows, n_items=1_000, n_negatives=9)
    >>> compare(log, "auc").loc[0, "verdict"], compare(log, "recall@10").loc[0, "verdict"]
    ('A beats B', 'this sample cannot tell')
    """
    sample = _Sample(log)
    (of,), level = _metrics([metric]), _confidence(confidence)
    values = _Values(sample, _gamma(gamma, sample))
    _same_users(sample)
    (name,) = _estimators([estimator or "bias-variance"], sample)
    if name == "maximum likelihood":
        raise ValueError(f"estimator must have a standard error for differences, got {name!r}")
    steps = len(sample.names) + 2
    with tqdm(total=steps, desc="compare", unit="table", disable=not progress) as bar:
        naive = values.of(of, "naive")
        any_one = naive[sample.names[0]]
        if estimator is None and values.worst_bias(of, any_one, any_one) < 1e-9:
            name = "naive"
        corrected = values.of(of, name)
        bar.update(2)
        intervals = {}
        for recommender in sample.names:  # by Bonferroni all of them hold together
            joint = 1.0 - (1.0 - level) / len(sample.names)
            intervals[recommender] = sample.interval(recommender, of, joint)
            bar.update()
    rows = []
    for one, two in combinations(sample.names, 2):
        a, b = corrected[one], corrected[two]
        difference = _difference(a.value, b.value)
        paired = _Found(difference, _difference(a.per_user, b.per_user), a.build)
        error, low, high, p = _student(paired, level)
        naively = _difference(naive[one].value, naive[two].value)
        found = (naively, difference, error, low, high)
        rows.append((one, two, *found, _probability(difference, error, a.per_user.size), p))
    columns = ["first", "second", "naive", "corrected", "standard_error", "low", "high"]
    table = pd.DataFrame(rows, columns=[*columns, "probability", "p_value"])
    table["p_value"] = _holm(table["p_value"].to_numpy())
    pairs = list(combinations(sample.names, 2))
    apart = [_apart(intervals[one], intervals[two]) for one, two in pairs]
    bias = [values.worst_bias(of, corrected[one], corrected[two]) for one, two in pairs]
    sign = np.sign(table["corrected"]).where(table["p_value"] <= 1.0 - level, 0)
    safe = (bias <= 0.1 * table["standard_error"]) | (sign == apart)
    table["separate"] = np.not_equal(apart, 0)
    table["verdict"] = [
        _verdict(s, *pair) for s, pair in zip(sign.where(safe, 0), pairs, strict=True)
    ]
    opposite = table["naive"] * table["corrected"] < 0
    ahead = table["first"].where(table["naive"] > 0, table["second"])
    text = f"naive {of.name} says the opposite: " + ahead + " ahead"
    table["warning"] = text.where(opposite, "")
    return table


@dataclass(frozen=True, eq=False)
class _Found:
    """The estimate for one recommender, its users' values, and the estimator that gave them."""

    value: float
    per_user: FloatArray
    build: _Build
    error: float | None = None  # where it is not that of the mean of `per_user`


@dataclass(frozen=True, eq=False)
class _Class:
    """The rows whose instances share everything of the protocol but the size of the catalogue.

    Attributes
    ----------
    n_negatives, n_relevant : int
    rows : ndarray of int, shape (k,)
        In order of their size.
    sizes : ndarray of int
        The different sizes, in order.
    size : ndarray of int, shape (k,)
        Which of them each row has.
    """

    n_negatives: int
    n_relevant: int
    rows: IntArray
    sizes: IntArray
    size: IntArray


class _Sample:
    """The rows of a log as arrays, the users they belong to, and their classes."""

    def __init__(self, log: Log) -> None:
        if not isinstance(log, Log):
            raise ValueError(f"log must be a Log, as read_log makes it, got {type(log).__name__}")
        frame, self.names, self.replacement = log.frame, log.recommenders, log.replacement
        self.better, self.tied, self.position, self.relevant, self.items, self.negatives = (
            frame[name].to_numpy(dtype=np.int64)
            for name in ("n_better", "n_tied", "position", "n_relevant", "n_items", "n_negatives")
        )
        self.instance = frame["instance"].to_numpy(dtype=np.int64)
        self.user, self.labels = pd.factorize(frame["user"])
        recommender, _ = pd.factorize(frame["recommender"])
        ends = np.append(0, np.cumsum(np.bincount(recommender))).tolist()
        self.rows = {name: slice(*at) for name, at in zip(self.names, pairwise(ends), strict=True)}
        self.users = {
            name: np.flatnonzero(np.bincount(self.user[rows])) for name, rows in self.rows.items()
        }
        for name, users in self.users.items():
            if users.size < 2:
                raise ValueError(f"users must be 2 or more for a standard error, got 1 of {name}")

    @cached_property
    def classes(self) -> list[_Class]:
        """A class for each number of negatives and of relevant items."""
        kind = self.negatives * (int(self.relevant.max()) + 1) + self.relevant
        codes, kinds = pd.factorize(kind, sort=True)
        found = []
        for code in range(len(kinds)):
            rows = np.flatnonzero(codes == code) if len(kinds) > 1 else np.arange(kind.size)
            sizes, size = np.unique(self.items[rows], return_inverse=True)
            if sizes.size > 1:
                order = np.argsort(size, kind="stable")
                rows, size = rows[order], size[order]
            first = rows[0]
            m, relevant = int(self.negatives[first]), int(self.relevant[first])
            found.append(_Class(m, relevant, rows, sizes, size))
        return found

    @cached_property
    def shared(self) -> tuple[IntArray, IntArray, IntArray]:
        """Rows whose item is tied with negatives and other relevant items; place, and how many.

        Two relevant items with the same negatives above and level have the same score.
        """
        same = np.zeros(self.instance.size + 1, dtype=bool)
        same[1:-1] = (
            (np.diff(self.instance) == 0)
            & (np.diff(self.better) == 0)
            & (np.diff(self.tied) == 0)
            & (self.tied[1:] > 0)
        )
        rows = np.flatnonzero(same[1:] | same[:-1])
        run = np.cumsum(~same[rows]) - 1
        many = np.bincount(run)[run] if rows.size else run
        starts = np.flatnonzero(~same[rows])
        return rows, np.arange(rows.size) - starts[run] + 1, many

    def protocol(self, of: _Class, size: int) -> Protocol:
        """The protocol of the instances of a class that have a size of the catalogue."""
        return Protocol(size, of.n_negatives, self.replacement, of.n_relevant)

    def by_user(self, recommender: str, values: FloatArray) -> FloatArray:
        """Mean over each user's instances of the sum of the rows' values."""
        rows = self.rows[recommender]
        users = self.users[recommender]
        if users.size == values.size and (np.diff(self.user[rows]) > 0).all():
            return values
        weights = self.instance_weights(recommender)
        return np.asarray(np.bincount(self.user[rows], values * weights)[users])

    def instance_weights(self, recommender: str) -> FloatArray:
        """For each row 1 over the number of instances of its user."""
        rows = self.rows[recommender]
        first = np.append(True, np.diff(self.instance[rows]) != 0)
        instances = np.bincount(self.user[rows][first])
        return np.asarray(1.0 / instances[self.user[rows]])

    def counts(self, recommender: str, of: _Class, size: int | None = None) -> FloatArray:
        """Users at each sampled rank, ties spread evenly; shape (n_relevant, m + 1)."""
        span = self.rows[recommender]
        rows = of.rows
        if size is not None:
            rows = rows[slice(*np.searchsorted(of.size, [size, size + 1]).tolist())]
        rows = rows[(rows >= span.start) & (rows < span.stop)]
        weights = self.instance_weights(recommender)[rows - span.start]
        better, tied, j = self.better[rows], self.tied[rows], self.position[rows] - 1
        steps = np.zeros((of.n_relevant, of.n_negatives + 2))
        np.add.at(steps, (j, better), weights / (tied + 1))
        np.add.at(steps, (j, better + tied + 1), -weights / (tied + 1))
        return np.asarray(np.maximum(np.cumsum(steps, axis=1)[:, :-1], 0.0))

    def interval(self, recommender: str, of: Metric, confidence: float) -> tuple[float, float]:
        """Identification interval of a recommender."""
        counts, protocols = [], []
        for one in self.classes:
            for i, size in enumerate(one.sizes.tolist()):
                found = self.counts(recommender, one, i)
                if found.any():
                    counts.append(found[0] if one.n_relevant == 1 else found)
                    protocols.append(self.protocol(one, size))
        try:
            whole = identification.interval(counts, protocols, of, confidence)
        except identification.IncompatibleError:
            raise ValueError(
                f"the sampled ranks of {recommender} are none that such a sample leads to, "
                "whatever the true ranks are: check n_items, n_negatives and replacement"
            ) from None
        return whole.low, whole.high


class _Values:
    """The values that each estimator gives the rows of a sample."""

    def __init__(self, sample: _Sample, gamma: float) -> None:
        self.sample, self.gamma = sample, gamma
        self._fitted: dict[tuple[str, ...], priors.FittedPrior] = {}
        self._refitted: dict[str, list[priors.FittedPrior]] = {}

    def of(self, of: Metric, name: str, leave_out: bool = False) -> dict[str, _Found]:
        """Estimates of a metric for all recommenders by a named estimator.

        None if `leave_out` and the estimator has no correct digits.
        """
        names = self.sample.names
        if name in FITTED[1:]:
            return {recommender: self._plugged_in(of, name, recommender) for recommender in names}
        build, way = self._build(of, name)
        try:
            with warnings.catch_warnings():
                if leave_out and name == "least bias":
                    warnings.simplefilter("error", RuntimeWarning)
                worth = self.worth(build, way)
        except RuntimeWarning:
            return {}
        found = {}
        for recommender, rows in self.sample.rows.items():
            per_user = self.sample.by_user(recommender, worth[rows])
            found[recommender] = _Found(float(per_user.mean()), per_user, build)
        return found

    def _build(self, of: Metric, name: str) -> tuple[_Build, str]:
        """How the estimator is made, and how it depends on the size of the catalogue."""
        gamma = self.gamma
        if name == FITTED[0]:
            fit, protocol = self._fit("maximum entropy", *self.sample.names)
            return _constant(
                corrections.bias_variance(of, protocol, gamma, _prior(fit))
            ), "constant"
        ways: dict[str, tuple[Callable[[Protocol], Estimator], str]] = {
            "naive": (lambda protocol: corrections.naive(of, protocol), "constant"),
            "rank estimate": (lambda protocol: corrections.rank_estimate(of, protocol), "each"),
            "least bias": (lambda protocol: corrections.least_bias(of, protocol), "smooth"),
            "monotone": (lambda protocol: corrections.monotone(of, protocol), "lines"),
            "bias-variance": (
                lambda protocol: corrections.bias_variance(of, protocol, gamma),
                "smooth",
            ),
        }
        make, way = ways[name]
        return lambda protocol: np.atleast_2d(make(protocol).values), way

    def _plugged_in(self, of: Metric, name: str, recommender: str) -> _Found:
        """The metric of a fitted prior, and the users' values of its linear expansion.

        To first order in the shares of the sampled ranks, maximum entropy is bias-variance with
        gamma = weight / users and the fit itself as its prior. With the fit of maximum
        likelihood as its prior, bias-variance has the plug-in value as its mean over the sample,
        whatever gamma is; but that fit jumps, and its error is that of refits.
        """
        fit, protocol = self._fit(name, recommender)
        assert isinstance(protocol.n_items, int)
        value = priors.plug_in(fit, of, protocol.n_items)
        gamma = _weight(self.sample.users[recommender].size) / self.sample.users[recommender].size
        build = _constant(corrections.bias_variance(of, protocol, gamma, _prior(fit)))
        rows = self.sample.rows[recommender]
        per_user = self.sample.by_user(recommender, self.worth(build, "constant", rows))
        error = None
        if name == "maximum likelihood":
            refits = [priors.plug_in(p, of, protocol.n_items) for p in self._refits(recommender)]
            error = float(np.std(refits, ddof=1))
        return _Found(value, per_user, build, error)

    def _refits(self, recommender: str) -> list[priors.FittedPrior]:
        """Maximum likelihood for users drawn from the recommender's, with replacement."""
        if recommender not in self._refitted:
            (one,) = self.sample.classes
            _, protocol = self._fit("maximum likelihood", recommender)
            counts = self.sample.counts(recommender, one)[0]
            users, rng = self.sample.users[recommender].size, np.random.default_rng(_REFIT_SEED)
            drawn = rng.multinomial(users, counts / counts.sum(), _REFITS)
            self._refitted[recommender] = [priors.maximum_likelihood(c, protocol) for c in drawn]
        return self._refitted[recommender]

    def _fit(self, name: str, *recommenders: str) -> tuple[priors.FittedPrior, Protocol]:
        """The distribution of true ranks fitted to the sampled ranks of some recommenders."""
        (one,) = self.sample.classes
        protocol = self.sample.protocol(one, round(float(self.sample.items.mean())))
        key = (name, *recommenders)
        if key not in self._fitted:
            counts = np.sum([self.sample.counts(r, one)[0] for r in recommenders], axis=0)
            if name == "maximum likelihood":
                self._fitted[key] = priors.maximum_likelihood(counts, protocol)
            else:
                weight = _weight(counts.sum())
                self._fitted[key] = priors.maximum_entropy(counts, protocol, weight)
        return self._fitted[key], protocol

    def worth(self, build: _Build, way: str, span: slice = slice(None)) -> FloatArray:
        """The value of each row in `span`."""
        sample = self.sample
        out = np.empty(sample.better.size)
        for one in sample.classes:
            for part, at, table in _tables(build, way, one, sample):
                rows = one.rows[part]
                if span != slice(None):
                    inside = (rows >= span.start) & (rows < span.stop)
                    rows, at = rows[inside], at[inside]
                out[rows] = self._looked_up(table, at, rows)
        return out[span]

    def _looked_up(self, table: FloatArray, at: IntArray, rows: IntArray) -> FloatArray:
        """Values of rows from a table for their sizes, (sizes, n_relevant, m + 1)."""
        sample, (_, relevant, columns) = self.sample, table.shape
        start = at * relevant + sample.position[rows] - 1
        first = sample.better[rows]
        out: FloatArray = table.ravel()[start * columns + first]
        tied = np.flatnonzero(sample.tied[rows])
        if tied.size:
            sums = np.zeros((*table.shape[:2], columns + 1))
            np.cumsum(table, axis=2, out=sums[:, :, 1:])
            begin = start[tied] * (columns + 1) + first[tied]
            more = sample.tied[rows[tied]]
            out[tied] = (sums.ravel()[begin + more + 1] - sums.ravel()[begin]) / (more + 1)
        where, place, many = sample.shared
        if where.size and (both := np.isin(rows, where)).any():
            at_row = np.searchsorted(where, rows[both])
            kinds = np.column_stack([sample.tied[rows[both]], place[at_row], many[at_row]])
            kinds, kind = np.unique(kinds, axis=0, return_inverse=True)
            for i, (length, *order) in enumerate(kinds.tolist()):
                here = np.flatnonzero(both)[kind.ravel() == i]
                law = _among_ties(length, *order)
                entries = (start[here] * columns + first[here])[:, np.newaxis]
                out[here] = table.ravel()[entries + np.arange(length + 1)] @ law
        return out

    def worst_bias(self, of: Metric, first: _Found, second: _Found) -> float:
        """The largest bias that the difference of two estimates can have, whoever the users are.

        Over all true ranks, and at five sizes of the catalogue from the smallest to the largest.
        """
        worst = 0.0
        for one in self.sample.classes:
            at = np.unique(np.linspace(0, one.sizes.size - 1, 5).round().astype(int))
            for size in one.sizes[at].tolist():
                protocol = self.sample.protocol(one, size)
                a, b = (_extremes(found.build(protocol), of, protocol) for found in (first, second))
                worst = max(worst, a[1] - b[0], b[1] - a[0])
        return worst


def _prior(fit: priors.FittedPrior) -> dict[int, float]:
    """A fitted distribution as a prior, of few ranks: beyond 1,024, of one in each percent."""
    if isinstance(fit.mass, dict):
        return fit.mass
    ranks = np.arange(1.0, fit.mass.size + 1)
    bucket = np.where(ranks <= 1024, ranks, 1024 + np.floor(np.log(ranks / 1024) * 100)).astype(int)
    mass = np.bincount(bucket, fit.mass)
    middle = np.bincount(bucket, fit.mass * ranks)[mass > 0] / mass[mass > 0]
    rank = np.round(middle).astype(int)
    return dict(zip(rank.tolist(), (mass[mass > 0] / mass.sum()).tolist(), strict=True))


def _constant(estimator: Estimator) -> _Build:
    """The same values whatever the protocol."""
    values = np.atleast_2d(estimator.values)
    return lambda protocol: values


def _tables(
    build: _Build, way: str, one: _Class, sample: _Sample
) -> Iterator[tuple[slice, IntArray, FloatArray]]:
    """Values for all sizes of a class, block by block.

    Yields which of its rows have these sizes, which size each has, and the table of values,
    (sizes, n_relevant, m + 1).
    """

    def made(sizes: IntArray) -> FloatArray:
        return np.stack([build(sample.protocol(one, size)) for size in sizes.tolist()])

    if way == "constant":
        yield slice(None), np.zeros(one.rows.size, dtype=np.int64), made(one.sizes[:1])
        return
    between = {"each": _every, "smooth": _interpolated, "lines": _straight}[way](made, one.sizes)
    length = max(1, _BLOCK // (one.n_relevant * (one.n_negatives + 1)))
    for start in range(0, one.sizes.size, length):
        sizes = one.sizes[start : start + length]
        part = slice(*np.searchsorted(one.size, [start, start + length]).tolist())
        yield part, one.size[part] - start, between(sizes)


def _every(made: _Between, sizes: IntArray) -> _Between:
    return made


def _interpolated(made: _Between, sizes: IntArray) -> _Between:
    """Values at any of the sizes by a polynomial in the logarithm of the size.

    Its nodes, Chebyshev's rounded to whole numbers, are doubled until it is right at three sizes
    in between; where that takes as many nodes as there are sizes, nothing is interpolated.
    """
    count = 10
    test = sizes[np.linspace(0, sizes.size - 1, 5).round().astype(int)[1:4]]
    low, high = np.log(sizes[[0, -1]])
    wanted: FloatArray | None = None
    while 2 * count < sizes.size:
        wanted = made(test) if wanted is None else wanted
        points = 0.5 * (1.0 - np.cos(np.pi * (np.arange(count) + 0.5) / count))
        nodes = np.unique(np.round(np.exp(low + points * (high - low))).astype(np.int64))
        polynomial = BarycentricInterpolator(np.log(nodes), made(nodes))
        error = np.abs(polynomial(np.log(test)) - wanted).max()
        if error <= _TOLERANCE * np.abs(wanted).max():
            return lambda at: np.asarray(polynomial(np.log(at)))
        count *= 2
    return made


def _straight(made: _Between, sizes: IntArray) -> _Between:
    """Values at any of the sizes by straight lines in the logarithm of the size.

    Of many nearly equal solutions the monotone correction is one or another, from size to size;
    what lies between two of them is monotone too, and as nearly right.
    """
    if sizes.size <= _MONOTONE_SIZES:
        return made
    low, high = np.log(sizes[[0, -1]])
    points = np.linspace(low, high, _MONOTONE_SIZES)
    nodes = np.unique(np.round(np.exp(points)).astype(np.int64))
    values, logs = made(nodes), np.log(nodes)

    def between(at: IntArray) -> FloatArray:
        x = np.log(at)
        left = np.clip(np.searchsorted(logs, x, side="right") - 1, 0, nodes.size - 2)
        share = ((x - logs[left]) / (logs[left + 1] - logs[left]))[:, np.newaxis, np.newaxis]
        return np.asarray((1.0 - share) * values[left] + share * values[left + 1])

    return between


def _among_ties(tied: int, place: int, many: int) -> FloatArray:
    """Law of the tied negatives above the `place`-th best of `many` tied relevant items."""
    above = np.arange(tied + 1)

    def log_ways(n: IntArray | int, k: IntArray | int) -> FloatArray:
        left = np.subtract(n, k)
        return np.asarray(gammaln(np.add(n, 1)) - gammaln(np.add(k, 1)) - gammaln(left + 1))

    before = log_ways(above + place - 1, above)
    after = log_ways(tied - above + many - place, tied - above)
    return np.asarray(np.exp(before + after - log_ways(tied + many, tied)))


def _extremes(values: FloatArray, of: Metric, protocol: Protocol) -> tuple[float, float]:
    """Smallest and largest bias that a user's value can have, over all true ranks."""
    pool, relevant = int(protocol.pool), protocol.n_relevant
    above = np.arange(pool + 1)
    law = all_ranks(pool, protocol.n_negatives, protocol.replacement)
    low = high = 0.0
    for j, row in enumerate(values, start=1):
        exact = of.term(above + j, j, relevant, protocol.n_items)
        bias = law.expected(row) - exact
        low, high = low + float(bias.min()), high + float(bias.max())
    return low, high


def _student(found: _Found, level: float) -> tuple[float, float, float, float]:
    """Standard error of a mean over users, Student's interval and two-sided p-value against 0."""
    users, value = found.per_user.size, found.value
    error = found.error
    if error is None:
        error = float(np.std(found.per_user, ddof=1) / np.sqrt(users))
        if error <= _ROUNDING * float(np.abs(found.per_user).max()):
            error = 0.0
    reach = float(stdtrit(users - 1, 0.5 + level / 2)) * error
    if error == 0:
        return error, value, value, float(value == 0)
    p = 2.0 * float(stdtr(users - 1, -abs(value) / error))
    return error, value - reach, value + reach, p


def _difference(first: Any, second: Any) -> Any:
    """First less second, and exactly 0 where they differ by rounding."""
    scale = max(float(np.abs(first).max()), float(np.abs(second).max()))
    found = np.subtract(first, second)
    return np.where(np.abs(found) <= _ROUNDING * scale, 0.0, found)[()]


def _weight(users: float) -> float:
    """What a nat of entropy is worth in nats of likelihood."""
    return float(np.sqrt(users))


def _holm(p: FloatArray) -> FloatArray:
    """p-values adjusted for being several (holm1979)."""
    order = np.argsort(p, kind="stable")
    out = np.empty_like(p)
    steps = p[order] * np.arange(p.size, 0, -1)
    out[order] = np.minimum(np.maximum.accumulate(steps), 1.0)
    return out


def _probability(difference: float, error: float, users: int) -> float:
    """Chance that an evaluation like this one finds the sign of a difference."""
    if difference == 0:
        return 0.5
    return Verdict(exact=difference, expected=difference, sd=error, n_users=users).probability


def _apart(first: tuple[float, float], second: tuple[float, float]) -> int:
    """1 if the first interval is all above the second, -1 if below, 0 if they overlap."""
    return int(first[0] > second[1]) - int(first[1] < second[0])


def _verdict(sign: int, first: str, second: str) -> str:
    if sign == 0:
        return CANNOT_TELL
    better, worse = (first, second) if sign > 0 else (second, first)
    return f"{better} beats {worse}"


def _same_users(sample: _Sample) -> None:
    """Refuse a log whose recommenders cannot be compared user by user."""
    if len(sample.names) < 2:
        raise ValueError(
            f"recommenders must be 2 or more to be compared, got {', '.join(sample.names)} only"
        )
    first = sample.names[0]
    for name in sample.names[1:]:
        apart = np.setxor1d(sample.users[first], sample.users[name])
        if apart.size:
            raise ValueError(
                f"recommenders must have the same users to be compared, but {first} and {name} "
                f"differ in {apart.size}, such as {sample.labels[apart[0]]}"
            )


def _metrics(given: Sequence[str | Metric]) -> list[Metric]:
    if isinstance(given, (str, Metric)):
        given = [given]
    wanted = dict.fromkeys(of if isinstance(of, Metric) else parsed(of) for of in given)
    if not wanted:
        raise ValueError("metrics must hold one metric or more, got none")
    return list(wanted)


def _estimators(given: Sequence[str] | None, sample: _Sample) -> list[str]:
    """The estimators asked for, or all that the sample allows."""
    one_law = len(sample.classes) == 1 and sample.classes[0].n_relevant == 1
    if given is None:
        fitted = one_law and int(sample.items.max()) <= MOST_ITEMS
        return [name for name in ESTIMATORS[:-1] if fitted or name not in FITTED]
    names = list(dict.fromkeys([given] if isinstance(given, str) else given))
    for name in names:
        if name not in ESTIMATORS:
            near = difflib.get_close_matches(str(name), ESTIMATORS, n=1, cutoff=0.0)[0]
            raise ValueError(f"estimator {name!r} is unknown: did you mean {near!r}?")
        if name in FITTED and not one_law:
            raise ValueError(
                f"estimator {name!r} is for logs with one relevant item and one number of "
                "negatives for all users"
            )
    if not names:
        raise ValueError("estimators must hold one name or more, got none")
    return names


def _gamma(given: float | None, sample: _Sample) -> float:
    if given is None:
        return 1.0 / float(np.sqrt(max(users.size for users in sample.users.values())))
    if not isinstance(given, numbers.Real) or not 0 < given < np.inf:
        raise ValueError(f"gamma must be a finite number > 0, got {given!r}")
    return float(given)


def _confidence(given: float) -> float:
    if not isinstance(given, numbers.Real) or not 0 < given < 1:
        raise ValueError(f"confidence must be a number in (0, 1), got {given!r}")
    return float(given)
