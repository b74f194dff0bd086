"""A thousand logs each: false alarms of the audit, and estimates from weighted negatives.

    .venv/bin/python benchmarks/negatives.py [--logs 1000]

Clean logs are uniform, with and without replacement, with positives, from small to middling sizes.
A false alarm is any alarm at level 0.05, or a sampler that is named otherwise. Weighted logs go
through `sm.read_log` and `sm.estimate`, row by row as a user's would.
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd
import scipy.sparse as sp

import sampled_metrics as sm
from sampled_book.experiments import samplers

#: Users, items and negatives of the clean logs, in turn.
SIZES = [(40, 3_000, 3), (150, 120, 12), (300, 1_000, 50), (60, 400, 100)]


def clean(seed: int) -> tuple[np.ndarray, int, sp.csr_array, bool]:
    n_users, n_items, m = SIZES[seed % len(SIZES)]
    replacement = seed // len(SIZES) % 2 == 1
    rng = np.random.default_rng((1, seed))
    liking = rng.permutation(1 / (1 + np.arange(n_items)))
    known = rng.random((n_users, n_items)) < np.minimum(3 * liking, 0.7)
    lists = [rng.choice(np.flatnonzero(~own), m, replace=replacement) for own in known]
    return np.array(lists), n_items, sp.csr_array(known), replacement


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--logs", type=int, default=1_000)
    logs = parser.parse_args().logs
    alarms, misnamed, checks = 0, 0, {}
    for seed in range(logs):
        *given, replacement = clean(seed)
        found = sm.audit(*given, replacement=replacement)
        alarms += bool(found.alarms)
        misnamed += not found.sampler.endswith("uniform")
        for check in found.alarms:
            checks[check] = checks.get(check, 0) + 1
    print(f"clean logs {logs}: with an alarm {alarms} {checks}, named otherwise {misnamed}")
    for way in ("replacement", "distinct", "collapsed"):
        drawn = samplers.weighted(way, n_logs=logs, seed=21)
        values, inside = [], 0
        for naive, estimated in zip(drawn.naive, drawn.estimated, strict=True):
            rows = pd.DataFrame({"user": range(naive.size), "n_better": 0, "n_tied": 0})
            rows["n_above"] = 299 * (1 - estimated)
            log = sm.read_log(rows, n_items=300, n_negatives=20, replacement=True)
            auc = sm.estimate(log, ["auc"]).frame.iloc[0]
            values.append(auc["estimate"])
            inside += auc["possible_low"] <= drawn.exact <= auc["possible_high"]
        error = np.std(values, ddof=1) / np.sqrt(logs)
        away = (np.mean(values) - drawn.exact) / error
        print(
            f"{way}: AUC {drawn.exact:.4f}, reported {drawn.naive.mean():.4f}, estimate's bias "
            f"{away:.1f} standard errors, coverage {inside / logs:.3f}"
        )


if __name__ == "__main__":
    main()
