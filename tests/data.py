"""Which tests need MovieLens (skipped where it is absent, except in CI), and simulated reports."""

import os

import pandas as pd
import pytest

from sampled_book.data.datasets import FOLDER_VARIABLE
from sampled_metrics import metric

needs_data = pytest.mark.skipif(
    not os.environ.get(FOLDER_VARIABLE) and not os.environ.get("CI"),
    reason=f"needs MovieLens in the folder that {FOLDER_VARIABLE} names",
)


def simulated(intervals, metrics, makers, protocol, repetitions, rng):
    """Simulated reports of evaluations: a row for each, a column as in `one_evaluation`."""
    metrics_by_label = {
        parsed_metric.label: parsed_metric for parsed_metric in map(metric, metrics)
    }
    columns = {}
    for name, rank_intervals in intervals.items():
        shape = repetitions, rank_intervals.n_candidates.size
        above = rank_intervals.n_better + rng.integers(rank_intervals.n_tied + 1, size=shape)
        below = rank_intervals.n_candidates - 1 - above
        drawn = rng.hypergeometric(above, below, protocol.n_negatives)
        for label, parsed_metric in metrics_by_label.items():
            for column, make in makers.items():
                columns[label, column, name] = (
                    make(parsed_metric, protocol).values[drawn].mean(axis=1)
                )
    return pd.DataFrame(columns)
