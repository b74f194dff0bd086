"""What the chapters on corrections compute: what samples keep, errors, verdicts, Tables 3 and 4."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from itertools import combinations
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

from sampled_metrics import Metric, Protocol, estimators, metric
from sampled_metrics.consistency import sign
from sampled_metrics.estimators import Estimator
from sampled_metrics.ranking.exact import RankIntervals
from sampled_metrics.verdicts import Verdict

from ..display import figures

#: A frame or a series: pandas' stubs cannot tell what its columns hold.
Frame = Any

FloatArray = NDArray[np.float64]
Makers = Mapping[str, Callable[[Metric, Protocol], Estimator]]


def methods(gammas: Iterable[float], nonnegative: bool = False) -> Makers:
    """The columns of tables 3 and 4 of krichene2020: how each estimator is made.

    Parameters
    ----------
    gammas : iterable of float
        Weights of the variance, a column for each.
    nonnegative : bool
        Whether constrained least squares (CLS) must not report values below 0.

    Examples
    --------
    >>> list(methods([1, 0.1]))
    ['uncorrected', 'rank estimate', 'CLS', 'BV 1', 'BV 0.1']
    """
    made: dict[str, Callable[[Metric, Protocol], Estimator]] = {
        "uncorrected": estimators.naive,
        "rank estimate": estimators.rank_estimate,
        "CLS": partial(estimators.monotone, nonnegative=nonnegative),
    }
    return made | {f"BV {g:g}": partial(estimators.bias_variance, gamma=g) for g in gammas}


# --- what a sample keeps --------------------------------------------------------------------------


def visible(n_items: int, n_negatives: int) -> FloatArray:
    """Share of a metric's component of each degree, 0 to m, that a sample shows.

    The squares of the singular values of the distribution of the sampled rank, for a uniform prior
    and negatives drawn without replacement.

    Examples
    --------
    >>> visible(10_000, 3).round(3)
    array([1.   , 0.6  , 0.2  , 0.029])
    """
    k, m, n = np.arange(1, n_negatives + 1), n_negatives, n_items
    steps = (m + 1 - k) * (n + k) / ((m + 1 + k) * (n - k))
    return np.cumprod(np.append(1.0, steps))


def components(of: Metric | str, n_items: int, degree: int) -> FloatArray:
    """Components of a metric along the Gram polynomials of degree 0 to `degree`.

    The polynomials are orthogonal over the ranks 1 to n and have mean square 1.

    Examples
    --------
    >>> components("auc", 10_000, 2).round(6)
    array([0.5     , 0.288704, 0.      ])
    """
    ranks = np.arange(1, n_items + 1)
    basis = np.polynomial.legendre.legvander(2 * (ranks - 1) / (n_items - 1) - 1, degree)
    gram = np.linalg.qr(basis)[0] * np.sqrt(n_items)
    found = gram.T @ metric(of)(ranks, n_items) / n_items
    return np.asarray(np.abs(found))


def passed(share: ArrayLike, gamma: float) -> FloatArray:
    """Share of each component that is left in the expectation of a bias-variance correction.

    Examples
    --------
    >>> passed([1.0, 0.5], 1.0), passed([1.0, 0.5], 0.0)
    (array([1. , 0.5]), array([1., 1.]))
    """
    share = np.asarray(share, dtype=float)
    return np.asarray(share / ((1 - gamma) * share + gamma))


def root_mean_square(estimator: Estimator) -> tuple[float, float]:
    """Bias and standard deviation for one user, root mean squares over all true ranks.

    Examples
    --------
    >>> auc = estimators.naive(metric("auc"), Protocol(100, 5, replacement=True))
    >>> tuple(round(each, 3) for each in root_mean_square(auc))
    (0.0, 0.182)
    """
    (found,) = root_mean_squares([estimator])
    return found


def root_mean_squares(estimators: Iterable[Estimator]) -> list[tuple[float, float]]:
    """The same of several estimators of one protocol, whose distributions are computed once.

    Examples
    --------
    >>> protocol = Protocol(100, 5, replacement=True)
    >>> both = [estimators.naive(name, protocol) for name in ("auc", "ap")]
    >>> [tuple(round(each, 3) for each in found) for found in root_mean_squares(both)]
    [(0.0, 0.182), (0.401, 0.175)]
    """
    several = list(estimators)
    protocol = several[0].protocol
    assert isinstance(protocol.n_items, int)
    assert all(each.protocol == protocol for each in several)
    ranks = np.arange(1, protocol.n_items + 1)
    bias2, noise = np.zeros(len(several)), np.zeros(len(several))
    for part in np.array_split(ranks, len(ranks) * (protocol.n_negatives + 1) // 2**20 + 1):
        law = protocol.pmf(part)
        for i, each in enumerate(several):
            mean = law @ each.values
            bias2[i] += ((mean - each.metric(part, protocol.n_items)) ** 2).sum()
            noise[i] += (law * (each.values - mean[:, np.newaxis]) ** 2).sum()
    pairs = zip(np.sqrt(bias2 / ranks.size), np.sqrt(noise / ranks.size), strict=True)
    return [(float(bias), float(sd)) for bias, sd in pairs]


# --- errors of an average -------------------------------------------------------------------------


def errors_by_gamma(
    of: Metric | str,
    protocol: Protocol,
    ranks: Mapping[str, ArrayLike],
    n_users: Iterable[int],
    gammas: ArrayLike,
) -> Frame:
    """Root mean squared error of the average of N users with ranks like those given.

    Returns
    -------
    pandas.DataFrame
        A row for each gamma, a column for each (recommender, N).

    Examples
    --------
    >>> protocol = Protocol(1_000, 20, replacement=True)
    >>> found = errors_by_gamma("ap", protocol, {"A": [1, 5, 30]}, [10, 1_000], [0.01, 1])
    >>> found["A", 1_000].round(3).to_dict()
    {0.01: 0.23, 1.0: 0.34}
    """
    weights = np.asarray(gammas, dtype=float)
    made = [estimators.bias_variance(metric(of), protocol, g) for g in weights]
    vectors = np.stack([each.values for each in made])
    columns = {}
    for name, found in ranks.items():
        at, count = np.unique(np.asarray(found), return_counts=True)
        law, share = protocol.pmf(at), count / count.sum()
        mean = law @ vectors.T
        bias = share @ mean - share @ metric(of)(at, protocol.n_items)
        noise = share @ (law @ vectors.T**2 - mean**2)
        for users in n_users:
            columns[name, users] = np.sqrt(bias**2 + noise / users)
    frame = pd.DataFrame(columns, index=pd.Index(weights, name="gamma"))
    frame.columns.names = ["recommender", "users"]
    return frame


def spread(values: Iterable[float], form: str) -> str:
    """The least and the largest of some values, in words.

    Examples
    --------
    >>> spread([0.25, -1.0, 2.0], "+.1f")
    '−1.0 to +2.0'
    """
    found = list(values)
    return f"{min(found):{form}} to {max(found):{form}}".replace("-", "\N{MINUS SIGN}")


def gamma_told(errors: Frame, biases: Mapping[str, float]) -> dict[str, Any]:
    """How far the rule for gamma, one over the root of the users, is from the best weight.

    Parameters
    ----------
    errors : pandas.DataFrame
        As from :func:`errors_by_gamma`; among its rows are the weights of the rule, and the last
        of the others is the weight 1.
    biases : mapping of str to float
        Of the uncorrected metric, by recommender.

    Examples
    --------
    >>> columns = pd.MultiIndex.from_product([["A"], [100, 10_000]])
    >>> toy = pd.DataFrame([[0.3, 0.1], [0.2, 0.2], [0.4, 0.4]], [0.01, 0.1, 1.0], columns)
    >>> told = gamma_told(toy, {"A": -0.5})
    >>> told["rule_errors"], told["over_one"], round(told["slope"][0], 2)
    ('10.0 to 10.0', (4.0, '.0f'), -0.5)
    """
    users = sorted({k for _, k in errors})
    rules = {k: estimators.default_gamma(k) for k in users}
    at_rule = pd.Series({(u, k): errors.loc[rules[k], (u, k)].min() for u, k in errors})
    best = np.log(errors.idxmin()).unstack(level=0).mean(axis=1)
    most = [100 * at_rule[key] for key in at_rule.index if key[1] == users[-1]]
    return {
        "users": users[-1],
        "naive_errors": spread((100 * abs(each) for each in biases.values()), ".0f"),
        "rule_errors": spread(most, ".1f"),
        "slope": (float(np.polyfit(np.log(users), best.loc[users], 1)[0]), ".2f"),
        "over": (float((at_rule / errors.min()).max()), ".1f"),
        "over_one": (float((errors.loc[1.0] / errors.min()).max()), ".0f"),
    }


def draw_correction(made: Mapping[str, Estimator], of: Metric, most: int = 15) -> Figure:
    """Draw what estimators report at the first sampled ranks, and expect at each true rank.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> ap = metric("ap")
    >>> made = {"uncorrected": estimators.naive(ap, Protocol(1_000, 20, replacement=True))}
    >>> [len(ax.lines) for ax in draw_correction(made, ap).axes]
    [1, 2]
    >>> plt.close("all")
    """
    protocol = next(iter(made.values())).protocol
    n = protocol.n_items
    assert isinstance(n, int)
    shown = np.arange(1, min(most, protocol.n_negatives) + 1)
    grid = np.unique(np.geomspace(1, n, 150).round().astype(int))
    figure, (above, below) = figures.panels(2, 1, height=2.9)
    figures.curves(above, shown, {name: e(shown) for name, e in made.items()})
    expected = {"exact": of(grid, n)} | {name: e.expected(grid) for name, e in made.items()}
    seen = {k: np.where(v > 0, v, np.nan) for k, v in expected.items()}
    figures.curves(below, grid, seen)
    above.set(xlabel="sampled rank", ylabel="value reported", ylim=(-0.6, 1.1))
    below.set(xscale="log", yscale="log", ylim=(0.5 / n, 1.5))
    below.set(xlabel="true rank", ylabel="expected value")
    handles = below.get_legend_handles_labels()
    figure.legend(*handles, loc="outside upper center", ncols=4, fontsize=10)
    return figure


def draw_resolution(
    n_items: int, n_negatives: int, sizes: Iterable[int], gammas: Iterable[float]
) -> Figure:
    """Draw what samples show of each degree, and what corrections leave of it.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> figure = draw_resolution(1_000, 20, [10, 20], [1.0, 0.1])
    >>> [text.get_text() for ax in figure.axes for text in ax.texts]
    ['m = 10', 'm = 20', 'γ = 1', 'γ = 0.1']
    >>> plt.close(figure)
    """
    figure, (left, right) = figures.panels(1, 2, height=3.2, sharey=True)
    several = sorted(sizes)
    most = int(3 * np.sqrt(several[-1]))
    plain = {"fontsize": 10, "ha": "center", "bbox": {"fc": "w", "ec": "none", "pad": 0.5}}
    shades, heights = plt.get_cmap("plasma")([0.8, 0.6, 0.4, 0.2]), (0.8, 0.6, 0.4, 0.2)
    for m, shade, height in zip(several, shades, heights, strict=False):
        share = visible(n_items, m)[: most + 1]
        left.plot(np.arange(1, share.size), share[1:], color=shade)
        left.text(max(int(np.searchsorted(-share, -height)), 1), height, f"m = {m}", **plain)
    share = visible(n_items, n_negatives)[: int(4 * np.sqrt(n_negatives)) + 1]
    kept = {f"BV {g:g}": passed(share, g) for g in gammas}
    figures.curves(right, np.arange(share.size), kept)
    for (name, values), height in zip(kept.items(), heights[::-1], strict=False):
        at = int(np.searchsorted(-values, -height))
        right.text(at, height, "γ = " + name[3:], **plain)
    left.set(xlabel="degree", ylabel="share", title="seen in a sample", xscale="log")
    right.set(xlabel="degree", title=f"kept, m = {n_negatives}")
    return figure


def draw_gammas(errors: Frame) -> Figure:
    """Draw the error of an average against gamma, a panel for each recommender, the rule circled.

    Parameters
    ----------
    errors : pandas.DataFrame
        As from :func:`errors_by_gamma`, in percent; the weights of the rule are among its rows.

    Examples
    --------
    >>> import matplotlib.pyplot as plt
    >>> columns = pd.MultiIndex.from_product([["A"], [100, 10_000]])
    >>> toy = pd.DataFrame([[0.3, 0.1], [0.2, 0.2], [0.4, 0.4]], [0.01, 0.1, 1.0], columns)
    >>> draw_gammas(toy).axes[0].get_title()
    'A'
    >>> plt.close("all")
    """
    users = list(dict.fromkeys(k for _, k in errors))
    names = list(dict.fromkeys(name for name, _ in errors))
    figure, axes = figures.panels(len(names), 1, height=2.4, sharex=True, squeeze=False)
    shown = errors.sort_index()
    for ax, name in zip(axes.flat, names, strict=True):
        drawn = {f"N = {k:,}": shown[name, k].to_numpy() for k in users}
        rules = {k: estimators.default_gamma(k) for k in users}
        rule = {f"N = {k:,}": (g, shown.loc[g, (name, k)].min()) for k, g in rules.items()}
        figures.errors_by_gamma(ax, shown.index, drawn, rule)
        top = 3 * max(each[-1] for each in drawn.values())
        ax.set(title=name, ylabel="error, points", ylim=(None, top), xlabel="")
    axes[-1, 0].set_xlabel(r"$\gamma$")
    handles = axes[0, 0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside upper center", ncols=2)
    return figure


def gamma_exercises(of: Metric, protocol: Protocol) -> dict[str, Any]:
    """Negatives that half resolve degree 10, and twice the negatives against a higher gamma.

    Examples
    --------
    >>> told = gamma_exercises(metric("ap"), Protocol(1_000, 20, replacement=True))
    >>> told["half"], told["twice"], told["noise_low"] > told["noise_more"]
    (158, 40, True)
    """
    n, m = protocol.n_items, protocol.n_negatives
    half = next(size for size in range(10, 400) if visible(10**9, size)[10] >= 0.5)
    told: dict[str, Any] = {"half": half, "half_rule": (100 / np.log(2), ".0f"), "twice": 2 * m}
    for key, size, gamma in (("low", m, 1e-4), ("more", 2 * m, 1e-2)):
        drawn = Protocol(n, size, replacement=protocol.replacement)
        corrected = estimators.bias_variance(of, drawn, gamma)
        told[f"bias_{key}"], told[f"noise_{key}"] = root_mean_square(corrected)
    return told


def own_prior(
    of: Metric | str, protocol: Protocol, ranks: Mapping[str, ArrayLike]
) -> dict[str, Any]:
    """For how many of the recommenders their own ranks, as a prior, put all into the exact order.

    The weight of the variance is 1. The recommender itself is then estimated without bias.

    Examples
    --------
    >>> own_prior("ap", Protocol(50, 5, replacement=True), {"A": [1, 2, 30], "B": [3, 40, 50]})
    {'right': '2 of 2'}
    """
    level = {u: float(metric(of)(r, protocol.n_items).mean()) for u, r in ranks.items()}
    order, right = sorted(level, key=lambda u: level[u]), 0
    for prior, found in ranks.items():
        e = estimators.bias_variance(of, protocol, 1.0, estimators.observed(found))
        means = {u: float(e.expected(r).mean()) for u, r in ranks.items()}
        assert np.isclose(means[prior], level[prior], rtol=1e-9)
        right += sorted(means, key=lambda u: means[u]) == order
    return {"right": f"{right} of {len(ranks)}"}


# --- one evaluation and its verdict ---------------------------------------------------------------


def one_evaluation(
    intervals: Mapping[str, RankIntervals],
    metrics: Iterable[str],
    makers: Makers,
    protocol: Protocol,
) -> Frame:
    """Exact metric, and mean and standard deviation of what one evaluation reports.

    Negatives are drawn anew for each user and recommender, without replacement and from the user's
    own candidates; ties are broken at random. Nothing is simulated.

    Parameters
    ----------
    intervals : mapping of str to RankIntervals
    metrics : iterable of str
    makers : mapping of str to callable
        As from :func:`methods`.
    protocol : Protocol
        What the corrections are made for.

    Returns
    -------
    pandas.DataFrame
        Columns exact, mean, sd; a row for each (metric, column, recommender).

    Examples
    --------
    >>> toy = {"A": RankIntervals(n_better=[0, 9], n_tied=[0, 0], n_candidates=[50, 50])}
    >>> found = one_evaluation(toy, ["auc"], methods([]), Protocol(50, 5, replacement=True))
    >>> found.loc[("AUC", "rank estimate", "A")].round(3).to_dict()
    {'exact': 0.908, 'mean': 0.913, 'sd': 0.081}
    """
    chosen = [metric(name) for name in metrics]
    keys = [(of.label, column) for of in chosen for column in makers]
    vectors = np.array([make(of, protocol).values for of in chosen for make in makers.values()]).T
    rows = {}
    for name, found in intervals.items():
        law = found.sampled_pmf(protocol.n_negatives)
        mean = law @ vectors
        sd = np.sqrt((law @ vectors**2 - mean**2).clip(0).sum(axis=0)) / len(law)
        exact = {of.label: float(found.evaluate(of, "mean").mean()) for of in chosen}
        for (label, column), *values in zip(keys, mean.mean(axis=0), sd, strict=True):
            rows[label, column, name] = (exact[label], *values)
    frame = pd.DataFrame(rows, index=["exact", "mean", "sd"]).T
    frame.index.names = ["Metric", "Column", "Of"]
    return frame


def expected_by_negatives(
    of: Metric | str,
    ranks: Mapping[str, ArrayLike],
    n_items: ArrayLike,
    sizes: Iterable[int],
    gamma: float | None = None,
) -> Frame:
    """Expected metric, uncorrected or corrected by bias-variance, for numbers of negatives.

    Negatives are drawn without replacement from each user's own candidates; the correction is made
    for their rounded mean, with replacement, as in krichene2020.

    Parameters
    ----------
    of : Metric or str
    ranks : mapping of str to array_like of int, shape (n_users,)
    n_items : array_like of int, shape (n_users,)
    sizes : iterable of int
    gamma : float, optional
        Weight of the variance; uncorrected without.

    Examples
    --------
    >>> expected_by_negatives("auc", {"A": [1, 6]}, [11, 11], [1, 5])["A"].round(6).tolist()
    [0.75, 0.75]
    """
    chosen, items = metric(of), np.asarray(n_items)
    rows = {}
    for size in sizes:
        sampling = Protocol(items, int(size), replacement=False)
        made = estimators.naive(chosen, sampling)
        if gamma is not None:
            assumed = Protocol(round(items.mean()), int(size), replacement=True)
            vector = estimators.bias_variance(chosen, assumed, gamma).values
            made = Estimator(chosen, sampling, vector)
        rows[int(size)] = {u: float(made.expected(r).mean()) for u, r in ranks.items()}
    return pd.DataFrame(rows).T


def first_right(
    of: Metric | str,
    ranks: Mapping[str, ArrayLike],
    n_items: ArrayLike,
    expected: Frame,
    gamma: float,
) -> int | None:
    """Least number of negatives from which a correction has two recommenders in the exact order.

    Parameters
    ----------
    of, ranks, n_items, gamma
        As for :func:`expected_by_negatives`; the first two recommenders are compared.
    expected : pandas.DataFrame
        From there: the numbers of negatives at which it is looked for, and by bisection between
        two of them. None if not right at the last.

    Examples
    --------
    >>> ranks, items = {"A": [1, 30, 40], "B": [2, 3, 50]}, [50] * 3
    >>> expected = expected_by_negatives("auc", ranks, items, [2, 5], gamma=0.1)
    >>> first_right("auc", ranks, items, expected, gamma=0.1)
    2
    """
    both = dict(list(ranks.items())[:2])
    exact = [float(metric(of)(r, np.asarray(n_items)).mean()) for r in both.values()]

    def right(row: Frame) -> bool:
        return sign(*(row[name] for name in both)) == sign(*exact)

    sizes, held = list(expected.index), [right(row) for _, row in expected.iterrows()]
    if all(held):
        return int(sizes[0])
    if not held[-1]:
        return None
    wrong = max(i for i, each in enumerate(held) if not each)
    steps = range(sizes[wrong], sizes[wrong + 1] + 1)
    return steps[
        bisect_left(
            steps,
            True,
            key=lambda m: right(expected_by_negatives(of, both, n_items, [m], gamma).iloc[0]),
        )
    ]


def verdicts(found: Frame, n_users: int) -> Frame:
    """The verdict on each pair of recommenders, samples independent for the two.

    Parameters
    ----------
    found : pandas.DataFrame
        As from :func:`one_evaluation`.
    n_users : int

    Returns
    -------
    pandas.Series of Verdict
        By pair ("A, B"), metric and column.

    Examples
    --------
    >>> rows = pd.MultiIndex.from_tuples([("AP", "CLS", "A"), ("AP", "CLS", "B")])
    >>> toy = pd.DataFrame([(0.5, 0.4, 0.03), (0.4, 0.35, 0.04)], rows, ["exact", "mean", "sd"])
    >>> round(verdicts(toy, 100)["A, B", "AP", "CLS"].probability, 3)
    0.841
    """
    made = {}
    for (label, column), cell in found.groupby(level=[0, 1], sort=False):
        rows = cell.droplevel([0, 1])
        for a, b in combinations(rows.index, 2):
            gap = rows.loc[a] - rows.loc[b]
            sd = float(np.sqrt((rows.loc[[a, b], "sd"] ** 2).sum()))
            judged = Verdict(float(gap["exact"]), float(gap["mean"]), sd, n_users)
            made[f"{a}, {b}", label, column] = judged
    series = pd.Series(made)
    series.index.names = ["Pair", "Metric", "Column"]
    return series


def simulated(
    intervals: Mapping[str, RankIntervals],
    metrics: Iterable[str],
    makers: Makers,
    protocol: Protocol,
    repetitions: int,
    rng: np.random.Generator,
) -> Frame:
    """What so many evaluations report: a row for each, a column as in :func:`one_evaluation`.

    Examples
    --------
    >>> toy = {"A": RankIntervals(n_better=[0, 9], n_tied=[0, 0], n_candidates=[50, 50])}
    >>> arguments = ["auc"], methods([]), Protocol(50, 5, replacement=True)
    >>> simulated(toy, *arguments, 3, np.random.default_rng(1)).shape
    (3, 3)
    """
    chosen = {of.label: of for of in map(metric, metrics)}
    columns = {}
    for name, found in intervals.items():
        shape = repetitions, found.n_candidates.size
        above = found.n_better + rng.integers(found.n_tied + 1, size=shape)
        below = found.n_candidates - 1 - above
        drawn = rng.hypergeometric(above, below, protocol.n_negatives)
        for label, of in chosen.items():
            for column, make in makers.items():
                columns[label, column, name] = make(of, protocol).values[drawn].mean(axis=1)
    return pd.DataFrame(columns)


def printed_table_3() -> Frame:
    """Table 3 of krichene2020, in percent: mean and sd of 100 evaluations, as the ledger has them.

    Examples
    --------
    >>> printed_table_3().loc[("Recall@10", "BV 0.1", "Z")].tolist()
    [7.44, 0.24]
    """
    rows = {
        (metric(of["kind"]).label, of["column"], of["recommender"]): [*map(float, text.split("±"))]
        for text, of in _printed("sampled_cell")
    }
    return pd.DataFrame(rows, index=["mean", "sd"]).T


def printed_table_4() -> Frame:
    """Table 4 of krichene2020: of 100 evaluations those in the exact order, by pair.

    Examples
    --------
    >>> int(printed_table_4()["X, Y", "AP", "BV 0.1"])
    68
    """
    return pd.Series(
        {
            (f"{of['first']}, {of['second']}", metric(of["kind"]).label, of["column"]): int(text)
            for text, of in _printed("runs_in_order")
        }
    )


def distances(found: Frame, printed: Frame, starts: Frame) -> Frame:
    """How far printed means and spreads of 100 evaluations are from exact ones, in standard errors.

    Parameters
    ----------
    found : pandas.DataFrame
        As from :func:`one_evaluation`, in percent.
    printed : pandas.DataFrame
        As from :func:`printed_table_3`.
    starts : pandas.DataFrame
        As `found`, of recommender X from other random starts: the printed X is one more of them.

    Returns
    -------
    pandas.DataFrame
        Columns mean and sd, the rows of `found`; NaN where nothing is printed.

    Examples
    --------
    >>> key = pd.MultiIndex.from_tuples([("AP", "CLS", "Y")])
    >>> found, printed = (
    ...     pd.DataFrame([row], key, ["mean", "sd"]) for row in ([3.5, 0.07], [3.54, 0.06])
    ... )
    >>> distances(found, printed, found.iloc[:0]).round(1).iloc[0].tolist()
    [5.3, -1.7]
    """
    rounding = 0.01 / np.sqrt(12)
    told = printed.reindex(found.index)
    error, centre = np.hypot(found["sd"] / 10, rounding), found["mean"].copy()
    if len(starts):
        others = starts["mean"].groupby(level=[0, 1])
        size = others.size().iloc[0]
        x = found.index[found.index.get_level_values(2) == "X"]
        centre[x] = others.mean()[[key[:2] for key in x]].to_numpy()
        spread = others.std()[[key[:2] for key in x]].to_numpy() * np.sqrt(1 + 1 / size)
        error[x] = np.hypot(error[x], spread)
    of_sd = np.hypot(found["sd"] / np.sqrt(198), rounding)
    apart = {"mean": (told["mean"] - centre) / error, "sd": (told["sd"] - found["sd"]) / of_sd}
    return pd.DataFrame(apart)


def in_order(found: Frame, starts: Frame) -> Frame:
    """Share of the starts of X with which the expected order, or its best, is the exact one.

    Parameters
    ----------
    found, starts : pandas.DataFrame
        As for :func:`distances`; without starts X is the one of `found`.

    Returns
    -------
    pandas.DataFrame
        Columns order and best, a row for each (metric, column).

    Examples
    --------
    >>> rows = pd.MultiIndex.from_tuples([("AP", "CLS", "A"), ("AP", "CLS", "B")])
    >>> toy = pd.DataFrame([(0.5, 0.3), (0.4, 0.35)], rows, ["exact", "mean"])
    >>> in_order(toy, toy.iloc[:0]).loc[("AP", "CLS")].tolist()
    [0.0, 0.0]
    """
    rows = {}
    others = dict(list(starts.groupby(level=[0, 1], sort=False)))
    for key, cell in found.groupby(level=[0, 1], sort=False):
        ours = cell.droplevel([0, 1])
        trials = [ours]
        if key in others:
            rest = ours.drop("X")
            trials = [pd.concat([x.to_frame("X").T, rest]) for _, x in others[key].iterrows()]
        ends = [[t[by].sort_values().index.to_list() for by in ("exact", "mean")] for t in trials]
        held = [(exact == mean, exact[-1] == mean[-1]) for exact, mean in ends]
        rows[key] = np.mean(held, axis=0)
    return pd.DataFrame(rows, index=["order", "best"]).T


def as_grid(values: Frame, columns: Iterable[str]) -> Frame:
    """Values by pair, metric and column: a row for each pair and metric, in the order they come.

    Examples
    --------
    >>> keys = pd.MultiIndex.from_tuples([("X, Y", "AP", "CLS"), ("X, Y", "AP", "BV 1")])
    >>> as_grid(pd.Series([1, 2], keys), ["BV 1", "CLS"]).to_dict("index")
    {'AP  X, Y': {'BV 1': 2, 'CLS': 1}}
    """
    rows = {}
    for pair, label, _ in values.index:
        rows[f"{label}  {pair}"] = {c: values[pair, label, c] for c in columns}
    return pd.DataFrame(rows).T.infer_objects()


def draw_chances(chance: Frame, printed: Frame) -> Figure:
    """Draw how often verdicts are right, in percent, and below what was counted in print.

    Examples
    --------
    >>> toy = pd.DataFrame({"CLS": {"AP  X, Y": 0.9}})
    >>> [text.get_text() for text in draw_chances(toy, toy * 100).axes[0].texts]
    ['90\\n(90)']
    >>> plt.close("all")
    """
    texts = [
        [
            f"{100 * p:.0f}" + ("" if np.isnan(k) else f"\n({k:.0f})")
            for p, k in zip(*row, strict=True)
        ]
        for row in zip(chance.to_numpy(float), printed.to_numpy(float), strict=True)
    ]
    figure, ax = figures.panels(1, 1, height=0.62 + 0.54 * len(chance))
    figures.heat_map(ax, chance, texts, chance.index, chance.columns, (-0.15, 1.15))
    return figure


def brief(users: float) -> str:
    """A number of users in at most five characters, or that there is none.

    Examples
    --------
    >>> [brief(k) for k in (float("nan"), 2_108, 27_300, 3.2e6)]
    ['never', '2,108', '27k', '3M']
    """
    if users != users:
        return "never"
    if users < 1e4:
        return f"{users:,.0f}"
    return f"{users / 1e3:,.0f}k" if users < 1e6 else f"{users / 1e6:,.0f}M"


def draw_users(size: Frame) -> Figure:
    """Draw how many users each verdict needs.

    Examples
    --------
    >>> toy = pd.DataFrame({"CLS": {"AP  X, Y": 45_000.0}})
    >>> [text.get_text() for text in draw_users(toy).axes[0].texts]
    ['45k']
    >>> plt.close("all")
    """
    texts = [[brief(k) for k in row] for row in size.to_numpy(float)]
    figure, ax = figures.panels(1, 1, height=0.62 + 0.32 * len(size))
    shades = np.log10(size.to_numpy(float))
    figures.heat_map(ax, shades, texts, size.index, size.columns, (0, 6), "viridis_r")
    return figure


def chances_told(chance: Frame, printed: Frame, gammas: Sequence[float]) -> dict[str, Any]:
    """How often verdicts are right uncorrected and corrected, here and in print.

    Parameters
    ----------
    chance, printed : pandas.Series
        By pair, metric and column; the printed counts, of 100, are NaN where there are none.
    gammas : sequence of float
        Weights; the second is that of the text.

    Examples
    --------
    >>> columns = ["uncorrected", "rank estimate", "BV 1", "BV 0.1"]
    >>> keys = pd.MultiIndex.from_product([["X, Y"], ["AP"], columns])
    >>> chance, none = pd.Series([0.1, 0.3, 0.4, 0.9], keys), pd.Series([float("nan")] * 4, keys)
    >>> told = chances_told(chance, none, [1, 0.1])
    >>> told["best"], int(told["rank_better"]), told["above"]
    ((90.0, '.0f'), 1, '')
    """
    pair, label, _ = chance.index[0]
    here, low = chance[pair][label], f"BV {gammas[min(1, len(gammas) - 1)]:g}"
    keys = [key for key in dict.fromkeys(k[:2] for k in chance.index) if key[1] != "AUC"]
    better = [chance[(*key, "rank estimate")] > chance[(*key, "uncorrected")] for key in keys]
    names = ("above", "above_exact", "low_paper", "low_exact", "named", "strict")
    told: dict[str, Any] = dict.fromkeys(names, "")
    if printed.notna().any():
        counts, last = printed.unstack(), chance.index[-1][0]
        told = {
            "above": int((counts[low] > 90).sum()),
            "above_exact": int((chance.unstack()[low] > 0.9).sum()),
            "low_paper": int(counts[low].min()),
            "low_exact": (100 * chance[(*counts[low].idxmin(), low)], ".0f"),
            "named": int(counts.loc[(last, "AP"), low]) if (last, "AP") in counts.index else "",
            "strict": int((counts["rank estimate"] > counts["uncorrected"]).sum()),
        }
    return told | {
        "pair": pair.replace(", ", " and "),
        "label": label,
        "plain": (100 * here["uncorrected"], ".0f"),
        "rank": (100 * here["rank estimate"], ".0f"),
        "best": (float(100 * here.max()), ".0f"),
        "low": low,
        "cells": len(chance),
        "rank_better": sum(better),
        "rank_of": len(better),
    }


def table_told(apart: Frame, found: Frame, shares: Frame) -> dict[str, Any]:
    """How far printed means are from ours, where corrections are nearer, and which orders hold.

    Parameters
    ----------
    apart : pandas.DataFrame
        As from :func:`distances`.
    found : pandas.DataFrame
        As from :func:`one_evaluation`, in percent; the columns are in the order of the makers.
    shares : pandas.DataFrame
        As from :func:`in_order`.

    Examples
    --------
    >>> keys = [("AP", c, u) for c in ("uncorrected", "CLS") for u in "AB"]
    >>> rows = pd.MultiIndex.from_tuples(keys, names=["Metric", "Column", "Of"])
    >>> numbers = [(5, 9, 1), (4, 9.5, 1), (5, 5.5, 1), (4, 4.0, 1)]
    >>> toy = pd.DataFrame(numbers, rows, ["exact", "mean", "sd"])
    >>> apart = pd.DataFrame({"mean": [4.0, 0, 1, 1], "sd": [0.0, 1, -2, 0]}, rows)
    >>> told = table_told(apart, toy, in_order(toy, toy.iloc[:0]))
    >>> told["held"], told["far"], told["far_sd"], told["nearer"], told["wrong_plain"]
    (4, 1, (2.0, '.1f'), 2, 1)
    """
    held = apart.dropna()
    far, auc = held["mean"].abs(), held.index.get_level_values(0) == "AUC"
    order, best = shares["order"].unstack(), shares["best"].unstack()
    corrected = [column for column in order if column != "uncorrected"]
    off = (found["mean"] - found["exact"]).abs().unstack(level="Column")
    nearer = off[corrected].lt(off["uncorrected"] - 1e-9, axis=0)
    of_auc = nearer.index.get_level_values("Metric") == "AUC"
    return {
        "wrong_plain": int((order["uncorrected"] < 0.5).sum()),
        "n_metrics": len(order),
        "held": len(held),
        "far": int((far > 3).sum()),
        "far_auc": int((far > 3)[auc].sum()),
        "farthest": (float(far[~auc].max()), ".1f"),
        "others": int((~auc).sum()),
        "far_sd": (float(held["sd"].abs().max()), ".1f"),
        "best": (float(100 * best[corrected].drop("AUC", errors="ignore").min().min()), ".0f"),
        "nearer": int(nearer[~of_auc].to_numpy().sum()),
        "of_nearer": int(nearer[~of_auc].size),
        "auc_nearer": int(nearer[of_auc].to_numpy().sum()),
        "of_auc": int(nearer[of_auc].size),
    }


def draw_estimates(found: Frame, printed: Frame, columns: Sequence[str], label: str) -> Figure:
    """Draw what corrections say of each recommender by one metric, and what was printed.

    Parameters
    ----------
    found, printed : pandas.DataFrame
        As from :func:`one_evaluation` and :func:`printed_table_3`, in percent, with the same rows.
    columns : sequence of str
        The estimators, from left to right.
    label : str
        Of the metric.

    Examples
    --------
    >>> rows = pd.MultiIndex.from_tuples([("AP", "CLS", "A")])
    >>> toy = pd.DataFrame([(5.0, 4.0, 1.0)], rows, ["exact", "mean", "sd"])
    >>> draw_estimates(toy, toy[["mean", "sd"]], ["CLS"], "AP").axes[0].get_ylabel()
    'AP, percent'
    >>> plt.close("all")
    """
    ours = found.loc[label].unstack(level=0)
    told = printed.loc[label].unstack(level=0)["mean"]
    exact = {u: float(ours["exact"].loc[u].dropna().iloc[0]) for u in ours.index}
    drawn = {
        u: tuple(
            part.loc[u].reindex(columns).to_numpy() for part in (ours["mean"], ours["sd"], told)
        )
        for u in exact
    }
    figure, ax = figures.panels(1, 1, height=3.8)
    figures.estimates(ax, columns, drawn, exact)
    figures.beside(ax, exact, x=1.01)
    ax.set_ylabel(f"{label}, percent")
    ax.legend(loc="upper left", ncols=3)
    return figure


def draw_table_3(found: Frame, printed: Frame, apart: Frame, columns: Sequence[str]) -> Figure:
    """Draw Table 3: in each cell the printed mean above ours, coloured by their distance.

    Examples
    --------
    >>> rows = pd.MultiIndex.from_tuples([("AP", "CLS", "A")])
    >>> toy = pd.DataFrame([(4.0, 1.0)], rows, ["mean", "sd"])
    >>> draw_table_3(toy, toy + 0.5, toy, ["CLS"]).axes[0].texts[0].get_text()
    '4.50\\n4.00'
    >>> plt.close("all")
    """
    keys = list(dict.fromkeys((label, of) for label, _, of in found.index))
    ours, theirs, z = (
        np.array([[frame.at[(a, c, u), "mean"] for c in columns] for a, u in keys])
        for frame in (found, printed, apart)
    )
    texts = [
        [f"{a:.2f}" if np.isnan(b) else f"{b:.2f}\n{a:.2f}" for a, b in zip(*row, strict=True)]
        for row in zip(ours, theirs, strict=True)
    ]
    figure, ax = figures.panels(1, 1, height=0.62 + 0.54 * len(keys))
    figures.heat_map(ax, z, texts, [f"{a} {u}" for a, u in keys], columns, (-6, 6), "RdBu")
    return figure


def table_exercises(
    found: Frame, n_items: int, n_negatives: int, key: tuple[str, str, str]
) -> dict[str, Any]:
    """With or without replacement: CLS over the rank estimate of Recall@10, printed and computed.

    And the evaluations that one cell's mean, `key` of `found`, needs for an error of 0.1 percent.

    Examples
    --------
    >>> key = ("Recall@10", "CLS", "Y")
    >>> toy = pd.DataFrame([(4.0, 0.25)], pd.MultiIndex.from_tuples([key]), ["mean", "sd"])
    >>> told = table_exercises(toy, 3_659, 100, key)
    >>> told["two_values"], told["runs"]
    (366, 7)
    """
    with_, without = (
        estimators.monotone(
            metric("recall@10"), Protocol(n_items, n_negatives, replacement=way), nonnegative=True
        ).values[0]
        for way in (True, False)
    )
    told = printed_table_3().loc["Recall@10"]
    (a, a_sd), (b, b_sd) = told.loc[("CLS", "Y")], told.loc[("rank estimate", "Y")]
    ratio, noise = a / b, np.hypot(a_sd / a, b_sd / b) / 10
    sd = float(found.loc[key, "sd"])
    return {
        "two_values": (n_items - 1) // 10 + 1,
        "ratio": (ratio, ".4f"),
        "with_": (with_, ".4f"),
        "without": (without, ".4f"),
        "ratio_z": (abs(without - ratio) / (ratio * noise), ".1f"),
        "sd": (sd, ".2f"),
        "runs": int(np.ceil((sd / 0.1) ** 2)),
    }


def _printed(check: str) -> list[tuple[str, Mapping[str, str]]]:
    from .claims import load

    return [(c.published, c.args) for c in load() if c.check == f"corrected.{check}"]
