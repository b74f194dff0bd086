"""Chapter 6: components of a metric in a sample, and errors of corrections by their weight."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from sampled_metrics import Metric, Protocol, estimators, metric
from sampled_metrics._validate import FloatArray
from sampled_metrics.estimators import Estimator

from ..display import figures
from ..display.tables import Frame, Texts
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


def visible(n_items: int, n_negatives: int) -> FloatArray:
    """Share of a metric's component of each degree, 0 to m, that a sample preserves: the squared
    singular values of the distribution of the sampled rank, for a uniform prior and negatives
    drawn without replacement.
    """
    k, m, n = np.arange(1, n_negatives + 1), n_negatives, n_items
    steps = (m + 1 - k) * (n + k) / ((m + 1 + k) * (n - k))
    return np.cumprod(np.append(1.0, steps))


def components(metric_or_name: Metric | str, n_items: int, degree: int) -> FloatArray:
    """Components of a metric along the Gram polynomials of degree 0 to `degree`, which are
    orthogonal over the ranks 1 to n and have mean square 1.
    """
    ranks = np.arange(1, n_items + 1)
    basis = np.polynomial.legendre.legvander(2 * (ranks - 1) / (n_items - 1) - 1, degree)
    gram = np.linalg.qr(basis)[0] * np.sqrt(n_items)
    coefficients = gram.T @ metric(metric_or_name)(ranks, n_items) / n_items
    return np.asarray(np.abs(coefficients))


def passed(share: ArrayLike, gamma: float) -> FloatArray:
    """Share of each component that remains in the expectation of a bias-variance correction."""
    share = np.asarray(share, dtype=float)
    return np.asarray(share / ((1 - gamma) * share + gamma))


def root_mean_square(estimator: Estimator) -> tuple[float, float]:
    """Root mean square bias and standard deviation for one user, over all true ranks."""
    (bias_and_sd,) = root_mean_squares([estimator])
    return bias_and_sd


def root_mean_squares(estimators: Iterable[Estimator]) -> list[tuple[float, float]]:
    """The same of several estimators of one protocol, whose distributions are computed once."""
    several = list(estimators)
    protocol = several[0].protocol
    assert isinstance(protocol.n_items, int)
    assert all(estimator.protocol == protocol for estimator in several)
    ranks = np.arange(1, protocol.n_items + 1)
    bias2, variance = np.zeros(len(several)), np.zeros(len(several))
    for part in np.array_split(ranks, len(ranks) * (protocol.n_negatives + 1) // 2**20 + 1):
        pmf = protocol.pmf(part)
        for i, estimator in enumerate(several):
            mean = pmf @ estimator.values
            bias2[i] += ((mean - estimator.metric(part, protocol.n_items)) ** 2).sum()
            variance[i] += (pmf * (estimator.values - mean[:, np.newaxis]) ** 2).sum()
    pairs = zip(np.sqrt(bias2 / ranks.size), np.sqrt(variance / ranks.size), strict=True)
    return [(float(bias), float(sd)) for bias, sd in pairs]


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


def spread(values: Iterable[float], form: str) -> str:
    """The least and the largest of some values, in words.

    >>> spread([0.25, -1.0, 2.0], "+.1f")
    '−1.0 to +2.0'
    """
    numbers = list(values)
    return f"{min(numbers):{form}} to {max(numbers):{form}}".replace("-", "\N{MINUS SIGN}")


def gamma_texts(errors: Frame, biases: Mapping[str, float]) -> Texts:
    """How far the rule gamma = 1/sqrt(users) is from the best weight. `errors` is from
    :func:`errors_by_gamma`; its rows include the weights of the rule, and the last other one is
    1. `biases` are of the uncorrected metric, by recommender.

    >>> columns = pd.MultiIndex.from_product([["A"], [100, 10_000]])
    >>> toy = pd.DataFrame([[0.3, 0.1], [0.2, 0.2], [0.4, 0.4]], [0.01, 0.1, 1.0], columns)
    >>> texts = gamma_texts(toy, {"A": -0.5})
    >>> texts["rule_errors"], texts["over_one"], round(texts["slope"][0], 2)
    ('10.0 to 10.0', (4.0, '.0f'), -0.5)
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
    rule_errors = [100 * at_rule[key] for key in at_rule.index if key[1] == users[-1]]
    return {
        "users": users[-1],
        "naive_errors": spread((100 * abs(bias) for bias in biases.values()), ".0f"),
        "rule_errors": spread(rule_errors, ".1f"),
        "slope": (float(np.polyfit(np.log(users), best.loc[users], 1)[0]), ".2f"),
        "over": (float((at_rule / errors.min()).max()), ".1f"),
        "over_one": (float((errors.loc[1.0] / errors.min()).max()), ".0f"),
    }


def plot_correction(
    corrections: Mapping[str, Estimator], parsed_metric: Metric, max_rank: int = 15
) -> Figure:
    """Plot the values of estimators at the first sampled ranks, and their expectation at each true
    rank.

    >>> ap = metric("ap")
    >>> made = {"uncorrected": estimators.naive(ap, Protocol(1_000, 20, replacement=True))}
    >>> [len(ax.lines) for ax in plot_correction(made, ap).axes]
    [1, 2]
    """
    protocol = next(iter(corrections.values())).protocol
    n = protocol.n_items
    assert isinstance(n, int)
    shown = np.arange(1, min(max_rank, protocol.n_negatives) + 1)
    grid = np.unique(np.geomspace(1, n, 150).round().astype(int))
    figure, (above, below) = figures.panels(2, 1, height=2.9)
    figures.curves(
        above, shown, {name: estimator(shown) for name, estimator in corrections.items()}
    )
    expected = {"exact": parsed_metric(grid, n)} | {
        name: estimator.expected(grid) for name, estimator in corrections.items()
    }
    positive = {k: np.where(v > 0, v, np.nan) for k, v in expected.items()}
    figures.curves(below, grid, positive)
    above.set(xlabel="sampled rank", ylabel="value reported", ylim=(-0.6, 1.1))
    below.set(xscale="log", yscale="log", ylim=(0.5 / n, 1.5))
    below.set(xlabel="true rank", ylabel="expected value")
    handles = below.get_legend_handles_labels()
    figure.legend(*handles, loc="outside upper center", ncols=4, fontsize=10)
    return figure


def plot_resolution(
    n_items: int, n_negatives: int, sizes: Iterable[int], gammas: Iterable[float]
) -> Figure:
    """Plot the share of each degree that samples preserve, and that corrections leave.

    >>> figure = plot_resolution(1_000, 20, [10, 20], [1.0, 0.1])
    >>> [text.get_text() for ax in figure.axes for text in ax.texts]
    ['m = 10', 'm = 20', 'γ = 1', 'γ = 0.1']
    """
    figure, (left_ax, right_ax) = figures.panels(1, 2, height=3.2, sharey=True)
    sorted_sizes = sorted(sizes)
    max_degree = int(3 * np.sqrt(sorted_sizes[-1]))
    text_style = {"fontsize": 10, "ha": "center", "bbox": {"fc": "w", "ec": "none", "pad": 0.5}}
    shades, heights = plt.get_cmap("plasma")([0.8, 0.6, 0.4, 0.2]), (0.8, 0.6, 0.4, 0.2)
    for m, shade, height in zip(sorted_sizes, shades, heights, strict=False):
        share = visible(n_items, m)[: max_degree + 1]
        left_ax.plot(np.arange(1, share.size), share[1:], color=shade)
        left_ax.text(
            max(int(np.searchsorted(-share, -height)), 1), height, f"m = {m}", **text_style
        )
    share = visible(n_items, n_negatives)[: int(4 * np.sqrt(n_negatives)) + 1]
    kept_shares = {f"BV {gamma:g}": passed(share, gamma) for gamma in gammas}
    figures.curves(right_ax, np.arange(share.size), kept_shares)
    for (name, values), height in zip(kept_shares.items(), heights[::-1], strict=False):
        degree = int(np.searchsorted(-values, -height))
        right_ax.text(degree, height, "γ = " + name[3:], **text_style)
    left_ax.set(xlabel="degree", ylabel="share", title="seen in a sample", xscale="log")
    right_ax.set(xlabel="degree", title=f"kept, m = {n_negatives}")
    return figure


def plot_gammas(errors: Frame) -> Figure:
    """Plot the error of an average against gamma, in percent, a panel for each recommender, with
    circles at the weights of the rule, which are among the rows.

    >>> columns = pd.MultiIndex.from_product([["A"], [100, 10_000]])
    >>> toy = pd.DataFrame([[0.3, 0.1], [0.2, 0.2], [0.4, 0.4]], [0.01, 0.1, 1.0], columns)
    >>> plot_gammas(toy).axes[0].get_title()
    'A'
    """
    users = list(dict.fromkeys(n_users for _, n_users in errors))
    names = list(dict.fromkeys(name for name, _ in errors))
    figure, axes = figures.panels(len(names), 1, height=2.4, sharex=True, squeeze=False)
    shown = errors.sort_index()
    for ax, name in zip(axes.flat, names, strict=True):
        drawn = {f"N = {n_users:,}": shown[name, n_users].to_numpy() for n_users in users}
        rules = {n_users: estimators.default_gamma(n_users) for n_users in users}
        rule = {
            f"N = {n_users:,}": (gamma, shown.loc[gamma, (name, n_users)].min())
            for n_users, gamma in rules.items()
        }
        figures.errors_by_gamma(ax, shown.index, drawn, rule)
        top = 3 * max(curve[-1] for curve in drawn.values())
        ax.set(title=name, ylabel="error, points", ylim=(None, top), xlabel="")
    axes[-1, 0].set_xlabel(r"$\gamma$")
    handles = axes[0, 0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside upper center", ncols=2)
    return figure


def gamma_exercises(parsed_metric: Metric, protocol: Protocol) -> Texts:
    """Negatives that half resolve degree 10, and twice the negatives against a higher gamma.

    >>> texts = gamma_exercises(metric("ap"), Protocol(1_000, 20, replacement=True))
    >>> texts["half"], texts["twice"], texts["noise_low"] > texts["noise_more"]
    (158, 40, True)
    """
    n, m = protocol.n_items, protocol.n_negatives
    half = next(size for size in range(10, 400) if visible(10**9, size)[10] >= 0.5)
    texts: Texts = {"half": half, "half_rule": (100 / np.log(2), ".0f"), "twice": 2 * m}
    for key, size, gamma in (("low", m, 1e-4), ("more", 2 * m, 1e-2)):
        drawn = Protocol(n, size, replacement=protocol.replacement)
        corrected = estimators.bias_variance(parsed_metric, drawn, gamma)
        texts[f"bias_{key}"], texts[f"noise_{key}"] = root_mean_square(corrected)
    return texts


def own_prior(
    metric_or_name: Metric | str, protocol: Protocol, ranks: Mapping[str, ArrayLike]
) -> Texts:
    """For how many recommenders their own ranks, as a prior of all at gamma = 1, give the exact
    order. The recommender itself is then estimated without bias.

    >>> own_prior("ap", Protocol(50, 5, replacement=True), {"A": [1, 2, 30], "B": [3, 40, 50]})
    {'right': '2 of 2'}
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
    return {"right": f"{n_right} of {len(ranks)}"}
