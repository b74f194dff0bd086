"""Checks of what the papers say about metrics as functions of the rank (figures 1 and 3)."""

from __future__ import annotations

import itertools

import numpy as np

from sampled_metrics import Protocol, metric
from sampled_metrics.estimators import naive

from ..experiments.theory import counterexample
from .finding import Finding, Trial, by_metric, judge, judged, read_list

N_ITEMS = 10_000  # of figures 1 to 3
METRICS = ("auc", "ap", "ndcg", "recall@10")  # of figures 1 to 3


def _spent_beyond(values: np.ndarray, rank: int) -> float:
    """Share of the drop from the first to the last rank that lies beyond `rank`."""
    return float((values[rank - 1] - values[-1]) / (values[0] - values[-1]))


def _beyond(rank: int) -> dict[str, float]:
    """That share for each of the metrics examined."""
    return {kind: _spent_beyond(metric(kind).vector(N_ITEMS), rank) for kind in METRICS}


def top_heavy(published: str, rank: int = 100, at_most: float = 0.1) -> Finding:
    """The metrics, as in "ap, ndcg", that spend nearly all their range on the first ranks.

    AUC, AP, NDCG and Recall@10 are examined; the others must not be top heavy.
    """
    share = _beyond(rank)
    text = by_metric(share, ".1%")
    heavy = {kind for kind, value in share.items() if value <= at_most}
    named = set(read_list(published))
    return judged(f"share of the range beyond rank {rank}: {text}", heavy == named)


def sharpest_at_the_top(published: str) -> Finding:
    """The metric whose value falls by the largest factor from one rank to the next."""
    vectors = {kind: metric(kind).vector(N_ITEMS) for kind in METRICS}
    first = {kind: vector[0] / vector[1] for kind, vector in vectors.items()}
    with np.errstate(divide="ignore", invalid="ignore"):
        anywhere = {k: float(np.nanmax((v[:-1] / v[1:])[:100])) for k, v in vectors.items()}
    shown = by_metric(first, ".3g")
    cut = max(anywhere, key=lambda kind: anywhere[kind])
    last_ranks = {kind: np.argmax(vectors[kind] == 0) for kind in METRICS}
    text = f"{metric(cut).label} falls to 0 after rank {last_ranks[cut]}, the sharpest decay of all"
    return judge(
        Trial(text, cut == published),
        Trial(
            f"factor from rank 1 to rank 2: {shown}",
            max(first, key=lambda kind: first[kind]) == published,
            "decay is measured at the top, from rank 1 to rank 2",
        ),
    )


def least_position_aware(published: str, rank: int = 100) -> Finding:
    """The metric that spends the smallest share of its range on the first ranks."""
    share = {kind: 1 - beyond for kind, beyond in _beyond(rank).items()}
    text = by_metric(share, ".1%")
    least = min(share, key=lambda kind: share[kind])
    return judged(f"share of the range within the first {rank} ranks: {text}", least == published)


def _expected(kind: str, m: int, ranks: np.ndarray | None = None) -> np.ndarray:
    true_ranks = np.arange(1, N_ITEMS + 1) if ranks is None else ranks
    return np.asarray(naive(metric(kind), Protocol(N_ITEMS, m)).expected(true_ranks))


def less_top_heavy(published: str, kind: str, m: int) -> Finding:
    """Sampled, a metric spends more of its range beyond the first 10 ranks than exactly."""
    exact = _spent_beyond(metric(kind).vector(N_ITEMS), 10)
    sampled = _spent_beyond(_expected(kind, m), 10)
    verdict = "less" if sampled > 2 * exact else "as much or more"
    return judged(
        f"share of the range beyond rank 10: {exact:.1%} exactly, {sampled:.1%} sampled",
        verdict == published,
    )


def smooth(published: str, m: int) -> Finding:
    """The largest step between neighbouring ranks of the expected metric `published`."""
    exact = float(-np.diff(metric(published).vector(N_ITEMS)).min())
    sampled = float(-np.diff(_expected(published, m)).min())
    text = f"largest step between neighbouring ranks {exact:.4g} exactly, {sampled:.2g} sampled"
    return judged(text, exact == 1 and sampled < 0.01)


def unchanged_by_sampling(published: str, sizes: list[int]) -> Finding:
    """The metrics, of AUC, AP, NDCG and Recall@10, whose expectation no sample size changes."""
    ranks = np.unique(np.geomspace(1, N_ITEMS, 60).astype(int))

    def is_unchanged(kind: str, m: int) -> bool:
        exact = metric(kind)(ranks, N_ITEMS)
        return np.allclose(_expected(kind, m, ranks), exact, rtol=1e-12, atol=0)

    unchanged = [kind for kind in METRICS if all(is_unchanged(kind, m) for m in sizes)]
    shown = ", ".join(metric(kind).label for kind in unchanged)
    return judged(f"only {shown} is unchanged at every m tried", unchanged == [published])


def becomes_linear(published: str, sizes: list[int]) -> Finding:
    """The largest distance of each expected metric from the line between its ends falls with m."""
    ranks = np.unique(np.linspace(1, N_ITEMS, 400).astype(int))
    worst = []
    for m in sizes:
        bends = []
        for kind in read_list(published):
            curve = _expected(kind, m, ranks)
            curve = (curve - curve[-1]) / (curve[0] - curve[-1])
            bends.append(float(np.abs(curve - (N_ITEMS - ranks) / (N_ITEMS - 1)).max()))
        worst.append(max(bends))
    text = ", ".join(f"{bend:.3f} at m = {m}" for bend, m in zip(worst, sizes, strict=True))
    falls = all(b < a for a, b in itertools.pairwise(worst)) and worst[-1] < 1e-12
    return judged(f"largest distance from a line: {text}", falls)


def large_bias(published: str, kind: str) -> Finding:
    """The bias at the rank where it is largest, with so many samples."""
    m = int(published)
    ranks = np.arange(1, 1_001)  # the ranks that figure 3 shows
    bias = naive(metric(kind), Protocol(N_ITEMS, m)).bias(ranks)
    peak = int(np.abs(bias).argmax())
    return judged(
        f"bias of {metric(kind).label} up to {bias[peak]:+.3f}, at rank {ranks[peak]}",
        abs(bias[peak]) > 0.25,
    )


def mean_bias_falls(published: str, kind: str, sizes: list[int], n_items: int = 2_000) -> Finding:
    """More samples reduce the bias: at every rank, or else on average over the ranks."""
    ranks = np.arange(1, n_items + 1)
    bias = np.abs([naive(metric(kind), Protocol(n_items, m)).bias(ranks) for m in sizes])
    grows = np.argwhere(np.diff(bias, axis=0) > 1e-9)
    means = bias.mean(axis=1)
    text = ", ".join(f"{mean:.3f} at m = {m}" for mean, m in zip(means, sizes, strict=True))
    falls = bool((np.diff(means) < 0).all()) and published == "reduces"
    if not grows.size:
        return judged(f"smaller at every rank; on average {text}", falls)
    i, r = (int(index) for index in grows[-1])
    larger = f"{bias[i, r]:.3f} at m = {sizes[i]}, {bias[i + 1, r]:.3f} at m = {sizes[i + 1]}"
    return judge(
        Trial(f"with replacement it grows at rank {ranks[r]}: {larger}", False),
        Trial(f"mean absolute bias {text}", falls, "bias is averaged over the ranks"),
    )


def bias_grows_with_catalogue(published: str, kind: str, m: int, sizes: list[int]) -> Finding:
    """With the sample kept, a larger catalogue means a larger bias at every rank it adds to."""
    ranks = np.arange(1, min(sizes) + 1)
    bias = np.abs([naive(metric(kind), Protocol(n, m)).bias(ranks) for n in sizes])
    falls = np.argwhere(np.diff(bias, axis=0) < -1e-9)
    means = ", ".join(f"{b.mean():.3f} at n = {n:,}" for b, n in zip(bias, sizes, strict=True))
    return judged(f"mean absolute bias {means}", not falls.size and published == "increases")


def variance_falls_with_instances(published: str, kind: str, m: int) -> Finding:
    """The variance of the average over D independent instances is one instance's over D."""
    protocol = Protocol(N_ITEMS, m)
    estimator = naive(metric(kind), protocol)
    draws = estimator(protocol.draw(np.full(25, 100), 0, (4_000, 25))).mean(axis=1)
    ratio = float(estimator.variance(100)) / float(draws.var(ddof=1))
    # The standard error of the ratio is about sqrt(2 / 4000).
    return judged(
        f"25 instances: variance {ratio:.1f} times smaller",
        published == "decreases" and abs(ratio / 25 - 1) < 3 * np.sqrt(2 / 4_000),
    )


def inconsistent(published: str) -> Finding:
    """Sampling reverses the order of two recommenders in expectation, for each of these metrics."""
    counterexamples = []
    for kind in read_list(published):
        case = counterexample(metric(kind), n_items=6)
        if case is None:
            return judged(f"{metric(kind).label} has no counterexample of up to 6 items", False)
        counterexamples.append(
            f"{metric(kind).label}: n = {case.protocol.n_items}, {case.better} against {case.worse}"
        )
    return judged("counterexamples, " + "; ".join(counterexamples), True)


def consistent(published: str) -> Finding:
    """No pair of recommenders is reversed, with 1 to n - 1 negatives and catalogues up to 6."""
    for replacement in (True, False):
        case = counterexample(metric(published), n_items=6, replacement=replacement)
        if case is not None:
            text = f"{case.better} and {case.worse} at m = {case.protocol.n_negatives}"
            return judged(f"{metric(published).label} reverses {text}", False)
    return judged("no reversal for n up to 6, under both laws", True)


def exceeds_true_rank(published: str, rank: int, n_items: int, m: int) -> Finding:
    """The sampled rank is below the true one, always; or else on average, beyond rank 1."""
    protocol = Protocol(n_items, m)
    above = float(protocol.sf(rank)[rank - 1]) if rank <= m else 0.0
    mean = float(protocol.mean(rank))
    certain = float(protocol.pmf(1)[0])
    ranks = np.arange(2, n_items + 1)
    lower = bool((protocol.mean(ranks) < ranks).all())
    stated = Trial(
        f"P(sampled rank > {rank}) = {above:.2g} at true rank {rank}, m = {m}, n = {n_items:,}",
        published == "always" and above == 0 and certain == 0,
    )
    on_average = Trial(
        f"the mean is below the true rank at every rank from 2 on ({mean:.3f} at rank {rank})",
        published == "always" and lower,
        "it is meant on average, at true ranks beyond 1 and with fewer than n - 1 negatives",
    )
    note = (
        "At true rank 1 the sampled rank is 1 as well; without replacement it is never above the "
        "true one."
    )
    return judge(stated, on_average, note=note)
