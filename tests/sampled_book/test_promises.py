"""What the documentation says of simulated promises is what the benchmarks' files hold."""

import importlib.util
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

ROOT = Path(__file__).resolve().parents[2]


def script(name):
    """A script of the folder benchmarks, which is no package."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def plans():
    return script("plans")


@pytest.mark.words
def test_plans_and_what_compare_says_are_those_of_the_file(plans):
    table = pd.read_csv(plans.FILE)
    text = (ROOT / "benchmarks/README.md").read_text(encoding="utf-8")
    assert plans.markdown(table) in text
    assert table["wrong"].sum() == 0


def test_a_plan_is_made_again_as_it_is_kept(plans):
    place = [setting.data for setting in plans.SETTINGS].index("lastfm")
    kept = pd.read_csv(plans.FILE).iloc[place]
    again = plans.measured(plans.SETTINGS[place], draws=1, seed=1)
    names = [name for name in again if name.endswith(("true ranks", "pilot log"))]
    assert len(names) == 2
    np.testing.assert_allclose([again[n] for n in names], kept[names].astype(float), rtol=1e-3)


@pytest.fixture(scope="module")
def default_intervals():
    return script("default_intervals")


@pytest.mark.words
def test_the_page_shows_the_coverage_of_the_file(default_intervals):
    lines = pd.read_csv(default_intervals.FILE)
    text = (ROOT / "book/library/guarantees.md").read_text(encoding="utf-8")
    assert default_intervals.markdown(lines) in text
    has_record = lines["range"] == default_intervals.TYPICAL
    assert set(lines.loc[~has_record, "logs"]) == {200}
    assert lines.loc[has_record, "logs"].min() >= 190  # a few logs are beyond the record
    shares = default_intervals.shares(lines).set_index(["range", "users drawn from"])["population"]
    assert shares[default_intervals.DECREASING, "half at 11, half last"] < 0.05
    assert shares[default_intervals.TYPICAL, "half at 11, half last"] == 0.0
    assert shares[default_intervals.STUDENT, "both first, but B last for one in 500"] < 0.95
    # More misses than this happen in one of 1,000 files if 5% of the logs miss.
    promised = lines["range"].isin([default_intervals.NOTHING, default_intervals.BET])
    promised |= (lines["range"] == default_intervals.DECREASING) & (
        lines["kind"] != "hostile, not decreasing"
    )
    least = 1.0 - binom.ppf(0.999, 200, 0.05) / 200
    assert (default_intervals.shares(lines)["population"][promised] >= least).all()


@pytest.mark.parametrize(
    ("name", "range_name", "whose"),
    [
        ("both first, but B last for one in 500", "STUDENT", "population"),
        ("even to rank 200", "DECREASING", "own users"),
        ("even to rank 100, half last", "TYPICAL", "population"),
    ],
)
def test_logs_drawn_again_miss_as_they_are_kept(default_intervals, name, range_name, whose):
    lines = pd.read_csv(default_intervals.FILE).set_index(["users drawn from", "range"])
    wanted = getattr(default_intervals, range_name)
    missed = set(map(int, lines.at[(name, wanted), f"missed, {whose}"].split()))
    held = min(set(range(200)) - missed)
    population = next(each for each in default_intervals.populations() if each.name == name)
    for number in (min(missed), held):
        rows = {row[0]: row[1:] for row in default_intervals.held(population, number)}
        assert rows[wanted][whose == "own users"] == (number == held)


@pytest.mark.simulation
@pytest.mark.parametrize("data", ["ml-100k", "ml-1m-2998"])
def test_ranges_of_several_items_begin_at_0_and_those_of_rating_predictors_miss(data):
    table = script("several").measured(data, seed=1)
    of_all, of_one = (table[table["items"] == items] for items in ("all", "one"))
    assert len(of_all) == len(of_one) == 8  # four recommenders, two metrics
    assert (of_all["low"] < 0.001).all()
    assert (of_all["assumption"] == "none").all()
    assert of_all["held"].all()
    assert (of_one["assumption"] == "decreasing at the top").all()
    # Three recommenders predict ratings: with two metrics and two data sets, twelve ranges.
    is_popular = of_one["recommender"] == "Popular"
    assert (is_popular == of_one["held"]).all()
    assert (~is_popular).sum() == 6
