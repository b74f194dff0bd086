"""How often intervals and tests find a difference over queries where its mean is 0.

Differences of two retrievers are skewed: most queries have none, and a few gain or lose all. Each
draw has 20, 60 or 200 queries. Beside our two intervals (the theorem's bets and the large-sample
test) stand Student's test, the percentile bootstrap, Fisher's randomization test by sign flips, and
the interval of evalstats if it is installed, all at 95%.
"""

from __future__ import annotations

import importlib.util

import numpy as np
import pandas as pd
from scipy import stats

import sampled_metrics as sm

SIZES, DRAWS, RESAMPLES, FLIPS = (20, 60, 200), 400, 500, 999
HAS_EVALSTATS = importlib.util.find_spec("evalstats") is not None


def rare(p):
    """A gain of 1 for a share `p` of the queries, and a small loss for all others."""
    return lambda rng, n: np.where(rng.random(n) < p, 1.0, -p / (1 - p))


def flips(p):
    """Gains and losses of 1, each for a share `p` of the queries."""
    return lambda rng, n: rng.choice([1.0, 0.0, -1.0], size=n, p=[p, 1 - 2 * p, p])


POPULATIONS = {
    "5% gain 1": rare(0.05),
    "2% gain 1": rare(0.02),
    "5% gain, 5% lose 1": flips(0.05),
    "20% gain, 20% lose 1": flips(0.2),
    "exponential, 0.1": lambda rng, n: np.minimum(rng.exponential(0.1, n), 1.0) - 0.1,
    "normal, 0.1": lambda rng, n: np.clip(rng.normal(0, 0.1, n), -1.0, 1.0),
}


def by_evalstats(wide):
    """The default interval of evalstats."""
    import evalstats

    long = wide.melt(var_name="model", value_name="score", ignore_index=False)
    data = evalstats.load_from(long.rename_axis("item").reset_index())
    return evalstats.compare(data, factors="model").to_frame()["pairwise"].iloc[0]


def fisher(values, rng):
    """The p-value of the mean among means of differences whose signs are flipped at random."""
    means = (2.0 * rng.integers(0, 2, (FLIPS, values.size)) - 1.0) @ values
    return (1 + (np.abs(means) >= abs(values.sum()) - 1e-9).sum()) / (1 + FLIPS)


def misses(values, rng, signs):
    """Whether each interval of the mean misses 0, or the test rejects it."""
    wide = pd.DataFrame({"A": np.maximum(values, 0), "B": np.maximum(-values, 0)})
    row = sm.compare(wide.rename_axis("query").reset_index(), "recall@10").frame.iloc[0]
    mean, error = values.mean(), values.std(ddof=1) / values.size**0.5
    half = stats.t.ppf(0.975, values.size - 1) * error
    resampled = rng.choice(values, size=(RESAMPLES, values.size)).mean(axis=1)
    ends = {
        "theorem": (row["possible_low"], row["possible_high"]),
        "large sample": (row["student_low"], row["student_high"]),
        "Student": (mean - half, mean + half),
        "bootstrap": tuple(np.quantile(resampled, [0.025, 0.975])),
    }
    if HAS_EVALSTATS:
        ends["evalstats"] = tuple(by_evalstats(wide)[["ci_low", "ci_high"]])
    missed = {name: not low <= 1e-12 or not high >= -1e-12 for name, (low, high) in ends.items()}
    return missed | {"Fisher": fisher(values, signs) <= 0.05}


def main():
    rng, signs, rows = np.random.default_rng(1), np.random.default_rng(2), []
    for name, draw in POPULATIONS.items():
        for n in SIZES:
            found = pd.DataFrame([misses(draw(rng, n), rng, signs) for _ in range(DRAWS)])
            shares = found.mean().map("{:.1%}".format)
            rows.append({"differences": name, "queries": n, **shares})
    print(pd.DataFrame(rows).to_string(index=False))


if __name__ == "__main__":
    main()
