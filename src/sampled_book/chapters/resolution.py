"""The appendix on resolution: components that a sample preserves and that a correction keeps."""

from __future__ import annotations

from collections.abc import Iterable

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from sampled_metrics import Metric, Protocol, estimators, metric
from sampled_metrics._validate import FloatArray

from ..display import figures
from ..display.tables import Texts, scientific
from .correcting import root_mean_squares


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
    left_ax.set(xlabel="degree", ylabel="share", title="preserved by sampling", xscale="log")
    right_ax.set(xlabel="degree", title=f"kept by corrections, m = {n_negatives}")
    return figure


def least_bias_size(metric_or_name: Metric | str, n_items: int, n_negatives: int) -> float:
    """Root mean square of the values of the least-bias estimator, for a uniform prior and negatives
    drawn without replacement.

    >>> least = estimators.least_bias("ap", Protocol(50, 5, replacement=False))
    >>> bool(np.isclose(least_bias_size("ap", 50, 5), np.sqrt((least.values**2).mean())))
    True
    """
    coefficients = components(metric_or_name, n_items, n_negatives)
    return float(np.sqrt((coefficients**2 / visible(n_items, n_negatives)).sum()))


def texts(metric_or_name: Metric | str, n_items: int, n_negatives: int, replacement: bool) -> Texts:
    """The numbers in the text of the appendix.

    >>> numbers = texts("ap", 1_000, 20, True)
    >>> numbers["half"], numbers["twice"], numbers["noise_low"] > numbers["noise_more"]
    (158, 40, True)
    """
    parsed_metric, m = metric(metric_or_name), n_negatives
    exact = parsed_metric.vector(n_items)
    resolved = components(parsed_metric, n_items, m)
    half = next(size for size in range(10, 400) if visible(10**9, size)[10] >= 0.5)
    falling = estimators.monotone(parsed_metric, Protocol(n_items, m, replacement=replacement))
    found: Texts = {
        "m": m,
        "target": parsed_metric.label,
        "left": float(np.sqrt((exact**2).mean() - (resolved**2).sum())),
        "spread": float(exact.std()),
        "size": scientific(least_bias_size(parsed_metric, n_items, m)),
        "steps": int(np.unique(falling.values.round(9)).size),
        "lowest": float(falling.values.min()),
        "highest": float(falling.values.max()),
        "degree_high": (np.sqrt(m * np.log(1e2)), ".0f"),
        "degree_low": (np.sqrt(m * np.log(1e3)), ".0f"),
        "half": half,
        "half_rule": (100 / np.log(2), ".0f"),
        "twice": 2 * m,
    }
    for key, size, gamma in (("low", m, 1e-4), ("more", 2 * m, 1e-2)):
        drawn = Protocol(n_items, size, replacement=replacement)
        corrected = estimators.bias_variance(parsed_metric, drawn, gamma)
        ((found[f"bias_{key}"], found[f"noise_{key}"]),) = root_mean_squares([corrected])
    return found
