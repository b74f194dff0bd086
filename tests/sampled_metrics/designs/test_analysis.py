"""A log's design is chosen once, and a new design is one class and its registration."""

import pandas as pd
import pytest

import sampled_metrics as sm
from sampled_metrics import designs
from sampled_metrics.designs.exact import ExactAnalysis
from sampled_metrics.designs.uniform import UniformAnalysis
from sampled_metrics.designs.weighted import NAboveAnalysis
from sampled_metrics.log.compact import Log

ROWS = pd.DataFrame(
    {
        "recommender": ["A"] * 40 + ["B"] * 40,
        "user": [*range(40)] * 2,
        "n_better": [1, 2, 3, 4] * 10 + [9, 7, 8, 6] * 10,
        "n_tied": 0,
    }
)
SIZES = {"n_items": 101, "n_negatives": 9}
LOGS = {
    UniformAnalysis: sm.read_log(ROWS, **SIZES, replacement=False),
    ExactAnalysis: sm.read_log(ROWS, n_items=10, n_negatives=9, replacement=False),
    NAboveAnalysis: sm.read_log(ROWS.assign(n_above=30.0), **SIZES, replacement=True),
}


@pytest.mark.parametrize("analysis", LOGS)
def test_each_design_has_its_analysis(analysis):
    request = designs.Request([sm.metric("auc")])
    assert type(designs.analysis_of(LOGS[analysis], request)) is analysis


class FirstHalf(UniformAnalysis):
    """A design for the test: a log of which only the first half of the users counts."""

    @classmethod
    def takes(cls, log):
        return isinstance(log, Log) and log.recommenders == ("A", "B") and log.n_users == 40

    def __init__(self, log, request):
        half = log.frame[log.frame["user"] < 20]
        super().__init__(sm.read_log(half, replacement=False), request)


def test_a_new_design_is_one_class_and_its_place_in_the_list(monkeypatch):
    half = sm.read_log(ROWS[ROWS["user"] < 20], **SIZES, replacement=False)
    expected = sm.estimate(half, ["auc"]), sm.compare(half, "auc")
    monkeypatch.setattr(designs, "DESIGNS", [FirstHalf, *designs.DESIGNS])
    log = LOGS[UniformAnalysis]
    for result, of_half in zip(
        (sm.estimate(log, ["auc"]), sm.compare(log, "auc")), expected, strict=True
    ):
        pd.testing.assert_frame_equal(result.frame, of_half.frame)
