"""Negatives as libraries draw them: the survey of code."""

import csv

import pandas as pd

from sampled_book.experiments import samplers


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
