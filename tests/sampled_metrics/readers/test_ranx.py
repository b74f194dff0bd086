"""Mappings and objects of ranx."""

from types import SimpleNamespace

import pytest

from sampled_metrics.readers import ranx

from .counts import as_dict

SCORES = {"q1": {"d1": 0.5, "d2": 0.7, "d3": 0.5}, "q2": {"d1": 1.0, "d4": 2.0}}


JUDGED = {"q1": {"d1": 1, "d3": 0}, "q2": {"d1": 3}}


EXPECTED = {("bm25", "q1", "d1"): (1, 1, 2), ("bm25", "q2", "d1"): (1, 0, 1)}


def test_mappings_in_the_form_of_ranx():
    assert as_dict(ranx(SCORES, JUDGED, recommender="bm25")) == EXPECTED
    run = SimpleNamespace(to_dict=lambda: SCORES, name="bm25")
    assert as_dict(ranx(run, SimpleNamespace(to_dict=lambda: JUDGED))) == EXPECTED


def test_objects_of_ranx():
    library = pytest.importorskip("ranx")
    run, qrels = library.Run(SCORES, name="bm25"), library.Qrels(JUDGED)
    assert as_dict(ranx(run, qrels)) == EXPECTED
