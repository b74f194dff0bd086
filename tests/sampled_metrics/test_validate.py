"""What errors show of a value."""

from types import SimpleNamespace

import pandas as pd
import pytest

import sampled_metrics as sm
from sampled_metrics._validate import floats, integer, integers
from sampled_metrics.ranking.exact import exact_ranks
from sampled_metrics.readers import from_scores, ranx, recbole, rectools
from sampled_metrics.relevant_sets import RelevantSets

BIG, HUGE = "x" * 3_000_000, 10**400


@pytest.mark.parametrize(
    "call",
    [
        lambda: from_scores(pd.DataFrame({BIG: [1], "item": [1]})),
        lambda: from_scores(pd.DataFrame({"user": [BIG] * 2, "item": BIG, "score": 1,
                                          "relevant": 1})),
        lambda: from_scores(pd.DataFrame({"user": [BIG], "item": BIG, "score": BIG,
                                          "relevant": 1})),
        lambda: from_scores(pd.DataFrame({"user": [1, 2], "item": 1, "relevant": 1,
                                          "score": pd.Series([HUGE, "b"], dtype=object)})),
        lambda: ranx({BIG: {BIG: 0.1}}, {BIG: {"d": 1}}),
        lambda: rectools(pd.DataFrame({BIG: [1]}), pd.DataFrame()),
        lambda: recbole(None, SimpleNamespace(neg_sample_args={"distribution": BIG})),
        lambda: sm.rank(BIG, "V.npy", "test.csv"),
        lambda: exact_ranks([[1.0]], [0], [[HUGE]]),
        lambda: RelevantSets([[0] * 20_000], [[0] * 20_000], [range(0, 40_000, 2)], [9]),
        lambda: integers(10**5_000, "n", 0),
        lambda: integer(10**5_000, "n", 0, 9),
        lambda: floats([HUGE], "values"),
    ],
)  # fmt: skip
def test_what_is_shown_of_a_value_fits_a_sentence(call):
    with pytest.raises(ValueError, match=r" (must|cannot) ") as refusal:
        call()
    assert len(str(refusal.value)) < 500
    assert "\n" not in str(refusal.value)
