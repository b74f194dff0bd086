"""Negatives as libraries draw them: low ids by enumeration."""

import csv
from itertools import product

import numpy as np
import pandas as pd
import pytest

import sampled_metrics as sm
from sampled_book.experiments import samplers


@pytest.mark.parametrize(("n", "m"), [(3, 1), (5, 2), (4, 2), (4, 3)])
def test_lowest_inclusion_equals_an_enumeration(n, m):
    counts = np.zeros(n)
    for draws in product(range(n), repeat=2 * m):
        counts[samplers.lowest(np.array(draws), m, np.zeros(n, dtype=bool))] += 1
    np.testing.assert_allclose(samplers.lowest_inclusion(n, m), counts / n ** (2 * m), atol=1e-12)


@pytest.mark.parametrize(("n", "m"), [(3, 1), (5, 2), (4, 2), (4, 3)])
def test_law_of_the_lowest_equals_an_enumeration(n, m):
    is_excluded = np.zeros(n, dtype=bool)
    lists = [samplers.lowest(np.array(d), m, is_excluded) for d in product(range(n), repeat=2 * m)]
    for marks in product([False, True], repeat=n):
        above = np.array(marks)
        counts = np.bincount([above[items].sum() for items in lists], minlength=m + 1)
        pmf = samplers.lowest_law(above, m)
        np.testing.assert_allclose(pmf, counts / n ** (2 * m), atol=1e-12)


@pytest.mark.parametrize("way", samplers.WAYS)
def test_draws_that_are_not_uniform_are_found(way):
    for seed in (1, 2):
        audited = sm.audit(*samplers.lists(way, seed))
        assert ("items" in audited.alarms) == samplers.WAYS[way]


def test_the_survey_has_a_commit_and_a_line_for_each_code():
    rows = pd.read_csv(samplers.SURVEYED)
    assert rows["name"].is_unique
    assert rows["commit"].str.fullmatch("[0-9a-f]{40}").all()
    assert rows["repo"].str.fullmatch(r"[\w.-]+/[\w.-]+").all()
    assert rows[["path", "evidence"]].notna().all(axis=None)
    samples = rows["default"] == "sampled"
    assert (rows.loc[samples, "option_sampled"] == "yes").all()


def test_defaults_of_surveyed_code_are_counted():
    counts = samplers.surveyed_defaults()
    paper = counts.loc["paper code"]
    with samplers.SURVEYED.open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["kind"] == "paper code"]
    assert paper["read"] == len(rows) == 38
    assert paper["sampled"] == sum(row["default"] == "sampled" for row in rows) == 11
    assert paper["all"] == 23
    assert paper["mixed"] == 3
    assert paper["neither"] == 1
    assert counts.loc["library", ["all", "sampled", "can sample"]].tolist() == [21, 5, 13]
