"""How long it takes to write and to check a certificate, and how large the file is.

Run as ``python benchmarks/certificates.py``; the table goes to standard output.
"""

from __future__ import annotations

import json
import time

import numpy as np
import pandas as pd

import sampled_metrics as sm
from sampled_metrics import verify
from sampled_metrics.evaluation import certificates

#: Items, negatives, users, replacement.
CASES = (
    (1_000, 20, 1_000, False),
    (100_000, 100, 6_000, False),
    (1_000_000, 100, 6_000, False),
    (1_000_000, 100, 45_000, True),
    (1_000_000, 1_000, 6_000, True),
    (1_000_000, 1_000, 6_000, False),
)


def log_of(n: int, m: int, users: int, replacement: bool) -> sm.Log:
    """A log whose users' true ranks have even logarithms."""
    true = np.floor((n + 1) ** np.random.default_rng(0).random(users)).astype(int)
    ranks = sm.Protocol(n, m, replacement=replacement).draw(true, 1)
    rows = pd.DataFrame({"recommender": "A", "user": range(users), "rank": ranks})
    return sm.read_log(rows, n_items=n, n_negatives=m, replacement=replacement)


def main() -> None:
    rows = []
    for n, m, users, replacement in CASES:
        log = log_of(n, m, users, replacement)
        for assumption in (None, sm.Assumption()):
            start = time.perf_counter()
            found = certificates.content(log, sm.metric("ndcg"), "A", assumption, 0.95)
            written = time.perf_counter()
            verify.Certificate(found).check()
            checked = time.perf_counter()
            row = {"n": n, "m": m, "users": users, "replacement": replacement}
            row |= {"assumption": "decreasing" if assumption else "none"}
            row |= {"write_s": round(written - start, 1), "check_s": round(checked - written, 1)}
            rows.append(row | {"kB": round(len(json.dumps(found)) / 1e3)})
    print(pd.DataFrame(rows).to_string(index=False))


if __name__ == "__main__":
    main()
