"""What a paper can take over: the paragraph on methods, and tables in LaTeX with captions."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

import sampled_metrics as sm
from sampled_metrics.designs.track_record import benchmark
from sampled_metrics.report.paper import CITATION

pytestmark = pytest.mark.words

ROOT = Path(__file__).resolve().parents[3]


def frame_of(n_users, **columns):
    """Ranks 1, 2, 3, 1, ... of A, and 2, 3, 1, ... of B, for as many users."""
    ranks = np.arange(2 * n_users) % 3
    names = np.repeat(["A_1", "B & %"], n_users)
    users = np.tile(np.arange(n_users), 2)
    counts = {"n_better": ranks, "n_tied": 0}
    return pd.DataFrame({"recommender": names, "user": users, **counts, **columns})


@pytest.fixture(scope="module")
def estimates():
    return sm.estimate("bundled", ["ndcg@10", "auc"])


def test_a_paragraph_states_the_evaluation_and_its_warrants(estimates):
    paragraph = estimates.methods()
    assert "\n" not in paragraph
    for fact in (
        "We evaluated X, Y and Z on 6,040 users.",
        "among 100 distinct negatives, drawn uniformly from the 1,393 to 3,687 candidates",
        "We estimated NDCG@10 and AUC on all candidates; "
        "estimator: learned prior (NDCG@10); naive (AUC).",
        f"The prior was learned from the exact ranks of {benchmark()} (Sampled Metrics).",
        "The 95% intervals are valid with any number of users, for NDCG@10, if deeper ranks have",
        "; valid with any number of users, for AUC, whatever the ranks.",
        "The typical ranges are a track record, calibrated on the benchmark of Sampled Metrics: "
        f"{benchmark()}.",
    ):
        assert fact in paragraph
    assert paragraph.endswith(f"Software: {CITATION}.")


def test_exact_ranks_are_called_exact():
    rows = frame_of(60, n_candidates=50, n_relevant=1)
    result = sm.compare(rows, "ndcg@10")
    assert "ranked among all 50 candidates. We computed NDCG@10 of these exact ranks, without" in (
        result.methods()
    )
    assert "on 60 users, ranked among all 50 candidates; 95" in result.to_latex()


def test_a_biased_estimator_is_not_called_unbiased():
    log = sm.read_log(frame_of(60), n_items=50, n_negatives=9, replacement=True)
    result = sm.estimate(log, ["ndcg@10"], estimator="naive")
    paragraph = result.methods()
    assert "estimator: naive." in paragraph
    assert "no bias" not in paragraph
    assert "among 9 negatives (with replacement), drawn uniformly from the 50 cand" in paragraph
    chosen = sm.compare(log, "ndcg@10", estimator="naive").methods()
    assert "estimator: naive." in chosen
    assert "no bias" not in chosen
    assert "with replacement" in result.to_latex()


def test_a_caption_states_what_the_table_needs(estimates):
    caption = re.search(r"\\caption\{(.*)\}", estimates.to_latex(label="tab:a"))
    assert caption
    assert caption[1].startswith(
        "NDCG@10 and AUC of X, Y and Z on 6,040 users, from 100 distinct negatives among 1,393 to "
        "3,687 candidates; 95\\% intervals are valid with any number of users, for NDCG@10, if"
    )
    assert r"\label{tab:a}" in estimates.to_latex(label="tab:a")
    assert estimates.to_latex(caption="").startswith(r"\begin{tabular}")
    assert r"\caption{Own.}" in estimates.to_latex(caption="Own.")


def test_the_package_is_cited_as_in_its_citation_file():
    content = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    (author,) = content["authors"]
    year = re.search(r"Copyright \(c\) (\d+)", (ROOT / "LICENSE").read_text(encoding="utf-8"))
    assert year
    expected = [author["name"], content["title"], f"version {content['version']}", year[1]]
    assert ", ".join(expected) == CITATION
