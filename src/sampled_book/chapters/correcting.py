"""The chapter on corrections: their expectations, and their errors by the weight gamma."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from sampled_metrics import Metric, Protocol, estimators, metric
from sampled_metrics.estimators import Estimator

from ..display import figures
from ..display.tables import Frame, Texts, between
from ..experiments.theory import observed

Makers = Mapping[str, Callable[[Metric, Protocol], Estimator]]


def methods(gammas: Iterable[float], nonnegative: bool = False) -> Makers:
    """The columns of tables 3 and 4 of krichene2020: a maker of each estimator, one bias-variance
    column for each gamma. `nonnegative` constrained least squares (CLS) reports no values below
    0.
    """
    makers: dict[str, Callable[[Metric, Protocol], Estimator]] = {
        "uncorrected": estimators.naive,
        "rank estimate": estimators.rank_estimate,
        "CLS": partial(estimators.monotone, nonnegative=nonnegative),
    }
    return makers | {
        f"BV {gamma:g}": partial(estimators.bias_variance, gamma=gamma) for gamma in gammas
    }


def root_mean_squares(estimators: Iterable[Estimator]) -> list[tuple[float, float]]:
    """Root mean square bias and standard deviation for one user, over all true ranks."""
    found = []
    for estimator in estimators:
        ranks = np.arange(1, int(np.max(estimator.protocol.n_items)) + 1)
        squares = (estimator.bias(ranks) ** 2).mean(), estimator.variance(ranks).mean()
        found.append((float(np.sqrt(squares[0])), float(np.sqrt(squares[1]))))
    return found


def errors_by_gamma(
    metric_or_name: Metric | str,
    protocol: Protocol,
    ranks: Mapping[str, ArrayLike],
    n_users: Iterable[int],
    gammas: ArrayLike,
) -> Frame:
    """Root mean squared error of the average of N users with ranks like the given ones: a row for
    each gamma, a column for each (recommender, N).
    """
    gamma_values = np.asarray(gammas, dtype=float)
    corrections = [
        estimators.bias_variance(metric(metric_or_name), protocol, gamma) for gamma in gamma_values
    ]
    vectors = np.stack([correction.values for correction in corrections])
    columns = {}
    for name, user_ranks in ranks.items():
        distinct_ranks, counts = np.unique(np.asarray(user_ranks), return_counts=True)
        pmf, shares = protocol.pmf(distinct_ranks), counts / counts.sum()
        mean = pmf @ vectors.T
        bias = shares @ mean - shares @ metric(metric_or_name)(distinct_ranks, protocol.n_items)
        variance = shares @ (pmf @ vectors.T**2 - mean**2)
        for users in n_users:
            columns[name, users] = np.sqrt(bias**2 + variance / users)
    frame = pd.DataFrame(columns, index=pd.Index(gamma_values, name="gamma"))
    frame.columns.names = ["recommender", "users"]
    return frame


def opening(
    metric_or_name: Metric | str, protocol: Protocol, ranks: Mapping[str, ArrayLike]
) -> Texts:
    """What the sampled metric expects for recommenders, in percent, and how far it is from the
    exact value, in points.

    >>> toy = {"A": [1, 2, 4], "B": [3, 40, 50]}
    >>> texts = opening("ap", Protocol(50, 5, replacement=True), toy)
    >>> texts["users"], texts["sampled_errors"]
    (3, '30 to 36')
    """
    parsed_metric = metric(metric_or_name)
    (n_users,) = {np.size(r) for r in ranks.values()}
    reported = estimators.naive(parsed_metric, protocol)
    exact = {u: 100 * float(parsed_metric(r, protocol.n_items).mean()) for u, r in ranks.items()}
    sampled = {u: 100 * float(reported.expected(r).mean()) for u, r in ranks.items()}
    gaps = [abs(sampled[u] - exact[u]) for u in ranks]
    texts: Texts = {"users": n_users, "sampled_errors": between(min(gaps), max(gaps), 0)}
    return texts | {f"sampled_{u.lower()}": (sampled[u], ".1f") for u in ranks}


def gamma_texts(errors: Frame) -> Texts:
    """How far the rule gamma = 1/sqrt(users) is from the best weight. `errors` is from
    :func:`errors_by_gamma`; its rows include the weights of the rule, and the last other one is
    1.

    >>> columns = pd.MultiIndex.from_product([["A"], [100, 10_000]])
    >>> toy = pd.DataFrame([[0.3, 0.1], [0.2, 0.2], [0.4, 0.4]], [0.01, 0.1, 1.0], columns)
    >>> texts = gamma_texts(toy)
    >>> texts["over"], texts["over_one"], round(texts["slope"][0], 2)
    ((1.0, '.1f', 'up'), (4.0, '.0f'), -0.5)
    """
    users = sorted({n_users for _, n_users in errors})
    rules = {n_users: estimators.default_gamma(n_users) for n_users in users}
    at_rule = pd.Series(
        {
            (name, n_users): errors.loc[rules[n_users], (name, n_users)].min()
            for name, n_users in errors
        }
    )
    best = np.log(errors.idxmin()).unstack(level=0).mean(axis=1)
    return {
        "slope": (float(np.polyfit(np.log(users), best.loc[users], 1)[0]), ".1f"),
        "over": (float((at_rule / errors.min()).max()), ".1f", "up"),
        "over_one": (float((errors.loc[1.0] / errors.min()).max()), ".0f"),
    }


def plot_correction(corrections: Mapping[str, Estimator], labels: Mapping[str, str]) -> Figure:
    """Plot the exact metric of estimators, and their expectation, at each true rank. `labels` are
    what to write on the curves of some in place of their names, which decide on their looks.

    >>> made = {"uncorrected": estimators.naive("ap", Protocol(1_000, 20, replacement=True))}
    >>> (ax,) = plot_correction(made, {"uncorrected": "sampled"}).axes
    >>> [line.get_label() for line in ax.lines], [text.get_text() for text in ax.texts]
    (['exact', 'uncorrected'], ['exact', 'sampled'])
    """
    first = next(iter(corrections.values()))
    n = first.protocol.n_items
    assert isinstance(n, int)
    grid = np.unique(np.geomspace(1, n, 150).round().astype(int))
    expected = {"exact": first.metric(grid, n)} | {
        name: estimator.expected(grid) for name, estimator in corrections.items()
    }
    figure, ax = figures.panels(height=3.4)
    figures.curves(ax, grid, expected)
    for line in ax.lines:
        line.set_marker("")  # names on the curves suffice
    # Each name stands where its curve is farthest from the next one: over the curve's own point.
    for (name, values), place in zip(expected.items(), (3, 100, 12), strict=False):
        i = int(np.searchsorted(grid, place))
        colour = figures.marks([name])[name]["color"]
        point = (grid[i], values[i])
        figures.note(ax, labels.get(name, name), point, (8, 4), color=colour, fontsize=12)
    ax.set(xscale="log", xlabel="true rank", ylabel=f"expected {first.metric.label}")
    return figure


def plot_gammas(errors: Frame) -> Figure:
    """Plot the error of an average against gamma, in points, a curve for each number of users: the
    root mean square over the recommenders. A star is at the least, and a circle at the weight of
    the rule, which is among the rows.

    >>> columns = pd.MultiIndex.from_product([["A"], [100, 10_000]])
    >>> toy = pd.DataFrame([[0.3, 0.1], [0.2, 0.2], [0.4, 0.4]], [0.01, 0.1, 1.0], columns)
    >>> [text.get_text() for text in plot_gammas(toy).axes[0].texts]
    ['100 users', '10,000 users']
    """
    shown = np.sqrt((errors.sort_index() ** 2).T.groupby(level=1).mean().T)
    drawn = {f"{n_users:,} users": shown[n_users].to_numpy() for n_users in shown}
    rules = {name: estimators.default_gamma(n) for name, n in zip(drawn, shown, strict=True)}
    at_rule = {
        name: (rules[name], float(shown.loc[rules[name], n].min()))
        for name, n in zip(drawn, shown, strict=True)
    }
    looks = figures.greys(drawn)
    figure, ax = figures.panels(height=3.8)
    figures.errors_by_gamma(ax, shown.index, drawn, at_rule, looks)
    for name, values in drawn.items():
        figures.note(ax, name, (shown.index[0], values[0]), (2, 6), color=looks[name]["color"])
    ticks = [1, 3, 10, 30, 100]
    ax.set_yticks(ticks, ticks)
    ax.minorticks_off()
    ax.set(xlabel=r"weight of the variance $\gamma$", ylabel="root mean square error, points")
    return figure


def own_prior(
    metric_or_name: Metric | str, protocol: Protocol, ranks: Mapping[str, ArrayLike]
) -> Texts:
    """For how many recommenders their own ranks, as a prior of all at gamma = 1, give the exact
    order. The recommender itself is then estimated without bias.

    >>> own_prior("ap", Protocol(50, 5, replacement=True), {"A": [1, 2, 30], "B": [3, 40, 50]})
    {'right': 2}
    """
    exact = {
        name: float(metric(metric_or_name)(r, protocol.n_items).mean()) for name, r in ranks.items()
    }
    exact_order, n_right = sorted(exact, key=lambda name: exact[name]), 0
    for prior, prior_ranks in ranks.items():
        estimator = estimators.bias_variance(metric_or_name, protocol, 1.0, observed(prior_ranks))
        means = {name: float(estimator.expected(r).mean()) for name, r in ranks.items()}
        assert np.isclose(means[prior], exact[prior], rtol=1e-9)
        n_right += sorted(means, key=lambda name: means[name]) == exact_order
    return {"right": n_right or "none"}
