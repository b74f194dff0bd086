"""The paper that describes the software: each of its numbers is recomputed, or allowed by name."""

import json
import re
from importlib.resources import files
from pathlib import Path

import pytest

import sampled_metrics as sm
from sampled_book.data import benchmark
from sampled_book.experiments import corpora
from sampled_book.experiments.track_record import FLOOR
from sampled_metrics.conformance import cases

pytestmark = pytest.mark.numerical

ROOT = Path(__file__).parents[2]
PAPER = (ROOT / "paper/paper.md").read_text()
BODY = PAPER.split("---\n", 2)[2]


def in_words(number: int) -> str:
    return {3: "three", 6: "six"}.get(number, f"{number:,}")


def sentences() -> dict[str, str]:
    """What the paper says, with its numbers recomputed."""
    reported = sm.estimate_each("bundled", ["recall@10"], estimators="naive").frame
    sampled = dict(zip(reported["recommender"], reported["value"], strict=True))
    exact = json.loads((files("sampled_metrics") / "data/exact.json").read_text())["recall@10"]
    users = int(reported["users"].iloc[0])
    pair = sm.compare("bundled", "recall@10").frame.set_index(["first", "second"]).loc[("X", "Z")]
    recommenders = sum(len(set(benchmark.ranks(name)) - {FLOOR}) for name in benchmark.every())
    scores = corpora.results()
    tasks = corpora.by_task(scores, "nano")
    models = corpora.both(scores, "nano")["model"].nunique()
    return {
        "sampled": "Recall@10 is {X:.1%} for X, {Y:.1%} for Y and {Z:.1%} for Z".format(**sampled),
        "exact": "it is {X:.1%}, {Y:.1%} and {Z:.1%}: the order is reversed".format(**exact),
        "users": f"for each of {users:,} users",
        "recommenders in the log": f"has {in_words(len(sampled))} recommenders",
        "verdict": f"{pair['favoured']} as the probable winner against X, with probability "
        f"{pair['probability']:.0%} by the track record",
        "benchmark": f"on {recommenders} recommenders and {in_words(len(benchmark.every()))} data",
        "corpora": f"On {len(tasks)} data sets for which the scores of {models} embedding models",
        "reversed": f"the order of {tasks['reversed'].sum()} of {tasks['pairs'].sum():,} pairs",
        "cases": f"on {len(list(cases()))} small cases",
    }


#: Numbers that are no results: parts of names, the usual number of negatives, digits, confidence.
NAMED = {"10", "1", "100", "50", "95"}


def test_every_number_is_recomputed() -> None:
    plain = " ".join(BODY.split())
    said = sentences()
    missing = {name: sentence for name, sentence in said.items() if sentence not in plain}
    assert not missing
    rest = re.sub(r"@[a-z]+\d{4}", "", plain)
    for sentence in said.values():
        rest = rest.replace(sentence, "")
    assert set(re.findall(r"\d[\d.,]*\d|\d", rest)) <= NAMED


def test_its_sources_are_in_the_bibliography() -> None:
    bibliography = (ROOT / "book/references.bib").read_text()
    cited = set(re.findall(r"@([a-z]+\d{4})", BODY))
    assert len(cited) >= 5
    assert [key for key in cited if f"{{{key}," not in bibliography] == []


def test_it_is_short() -> None:
    assert 600 < len(BODY.split()) < 1_000
