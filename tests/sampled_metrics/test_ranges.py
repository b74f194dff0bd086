"""Ranges hold, as they are printed, all that they hold as numbers."""

import json
import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import sampled_metrics as sm
from sampled_metrics import _printed_ranges
from sampled_metrics.report.text import formatted
from sampled_metrics.results import Comparison, Estimates, Published

NUMBER = re.compile(r"[-\N{MINUS SIGN}+]?\d*\.\d+(?:e-?\d+)?")


def numbers(text):
    return [float(match.replace("\N{MINUS SIGN}", "-")) for match in NUMBER.findall(text)]


@given(st.floats(-1e4, 1e4), st.integers(0, 8))
@example(0.5, 3)
@example(0.1 + 0.2, 1)
@example(-1e-17, 3)
@example(1.0 - 1e-16, 3)
@example(0.02766, 3)
def test_ends_are_the_nearest_that_are_not_inside(value, digits):
    low, high = _printed_ranges.down(value, digits), _printed_ranges.up(value, digits)
    tolerance = 1e-9 * max(10.0**-digits, abs(value))
    assert low - tolerance <= value <= high + tolerance
    assert high - low <= 1.0000001 * 10.0**-digits
    assert value - low < 10.0**-digits
    assert high - value < 10.0**-digits
    assert "-0.000" not in f"{low:.3f} {high:.3f}" or low < 0
    if abs(value - round(value, digits)) < 1e-10 * 10.0**-digits:
        assert low == high == round(value, digits)


@given(st.floats(0, 1), st.floats(0, 1), st.booleans())
def test_what_is_written_holds_the_range(one, two, signed):
    low, high = sorted((one, two))
    first, last = numbers(_printed_ranges.written(low, high, signed=signed))
    assert first <= low + 1e-12
    assert last >= high - 1e-12


def shown_as(frame, kind, settings):
    """A result as a terminal, a paper and a notebook show it."""
    result = kind(pd.DataFrame(frame), settings)
    return repr(result), result.to_latex(), result._repr_html_()


@pytest.mark.parametrize(
    ("low", "high", "three", "four"),
    [
        (0.02766, 0.02811, ("0.027", "0.029"), ("0.0276", "0.0282")),
        (0.12344, 0.12346, ("0.123", "0.124"), ("0.1234", "0.1235")),
        (0.0001234, 0.0003412, ("0.000", "0.001"), ("0.0001", "0.0004")),
        (0.1 + 0.2, 0.5, ("0.300", "0.500"), ("0.3000", "0.5000")),
    ],
)
def test_tables_of_results_are_rounded_outwards(low, high, three, four):
    cells = {"recommender": ["A"], "metric": ["ap"], "estimate": [0.25], "standard_error": [0.25]}
    rows = {**cells, "reported": [0.25], "assumption": ["none"], "warrant": ["theorem"]}
    rows |= {"quote": [""], "users": [9]}
    for kind, other in (("typical", "possible"), ("possible", "typical")):
        ends = {f"{kind}_low": [low], f"{kind}_high": [high]}
        missing = {f"{other}_low": [np.nan], f"{other}_high": [np.nan]}
        for text in shown_as(rows | ends | missing, Estimates, {}):
            assert " to ".join(three) in text
    pair = {"first": ["A"], "second": ["B"], "reported": [0.25], "estimate": [0.25]}
    pair |= {"standard_error": [0.25], "possible_low": [-high], "possible_high": [high]}
    pair |= {"verdict": ["undecided"], "assumption": [""], "warrant": [""]}
    pair |= {"favoured": [""], "probability": [np.nan], "detectable": [0.25]}
    pair |= {"users_needed": [7]}
    for student in (np.nan, high / 2):
        pair |= {"student_low": [-student], "student_high": [student]}
        for text in shown_as(pair, Comparison, {"metric": "ap"}):
            assert f"\N{MINUS SIGN}{three[1]} to +{three[1]}" in text
            assert ("large sample" in text) == (not np.isnan(student))
    paper = {"method": ["A"], "metric": ["ap"], "printed": [0.25], "depth": [354]}
    paper |= {"low": [low], "high": [high]}
    for text in shown_as(paper | {"guess": [0.25]}, Published, {}):
        assert " to ".join(end[1:] for end in four) in text


def test_other_formats_keep_every_digit():
    frame = sm.estimate("bundled", ["auc"]).frame
    (row, *_) = json.loads(formatted(frame, "json"))
    assert (row["possible_low"], row["possible_high"]) == (
        frame["possible_low"][0],
        frame["possible_high"][0],
    )
