"""Certificates of ranges: what proves a range is accepted, and what was altered is refused."""

import ast
import hashlib
import json
import subprocess
import sys
from decimal import Decimal, localcontext
from fractions import Fraction
from math import comb
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import sampled_metrics as sm
from sampled_metrics import verify
from sampled_metrics.cli import main
from sampled_metrics.evaluation.certificates import content

DECREASING = sm.Assumption()


def log_of(n=200, m=20, users=1_000, replacement=True, seed=0, tied=0):
    rng = np.random.default_rng(seed)
    true = np.floor((n + 1) ** rng.random(users)).astype(int)
    better = sm.Protocol(n, m, replacement=replacement).draw(true, 1) - 1
    tied = np.minimum(rng.integers(0, tied + 1, users), m - better)
    rows = pd.DataFrame({"user": range(users), "n_better": better, "n_tied": tied})
    return sm.read_log(rows, n_items=n, n_negatives=m, replacement=replacement)


def certified(log, metric, assumption=None, confidence=0.95):
    return content(log, sm.metric(metric), log.recommenders, {assumption: 1.0}, confidence)


@pytest.fixture(scope="module")
def found():
    return certified(log_of(), "ndcg@10")


def status(found):
    """The exit status for a content, by way of text as in a file."""
    text = json.dumps(found)
    try:
        verify.Certificate(json.loads(text)).check()
    except verify.RefusedError:
        return 1
    return 0


@pytest.mark.parametrize("assumption", [None, DECREASING, sm.Assumption(head=2.0)])
@pytest.mark.parametrize("metric", ["ndcg@10", "ndcg", "rr", "ap@5", "recall@1", "precision@50",
                                    "accuracy", "hit@199"])  # fmt: skip
def test_a_certificate_verifies_and_its_range_is_the_printed_one(metric, assumption):
    for replacement, tied in ((True, 3), (False, 2)):
        log = log_of(replacement=replacement, tied=tied)
        found = certified(log, metric, assumption)
        row = sm.estimate(log, [metric], assumption=assumption).frame.iloc[0]
        low, high = map(float, found["range"])
        width = row["possible_high"] - row["possible_low"]
        assert low <= row["possible_low"] <= row["possible_high"] <= high
        assert high - low <= 1.01 * width + 2e-9
        assert status(found) == 0


@pytest.mark.parametrize(("n", "m", "replacement"), [(3, 1, False), (3, 2, True), (30, 28, False),
                                                     (50_000, 99, True)])  # fmt: skip
def test_small_and_large_catalogues(n, m, replacement):
    for assumption in (None, DECREASING):
        assert status(certified(log_of(n, m, 300, replacement), "rr", assumption)) == 0


@pytest.mark.parametrize("replacement", [True, False])
def test_expectations_are_bounded_at_every_rank_and_run_of_ranks(replacement):
    """Against exact sums: at each rank above, by less than 1e-12; and chords plus their excess."""
    found = certified(log_of(30, 7, 200, replacement), "ndcg")
    checked = verify.Certificate(found)
    bets, pool, m = found["bets"], 29, 7
    with localcontext(verify.UP):
        computed = [checked.expected(above) for above in range(30)]
        excess = {(a, b): checked.excess(a, b) for a in range(28) for b in range(a + 2, 30)}
    for bet, row in enumerate(bets):
        sign = 1 if row["end"] == "low" else -1
        exact = []
        for above in range(30):
            share = Fraction(above, pool)
            total = sum(
                Fraction(row["function"][x])
                * (
                    comb(m, x) * share**x * (1 - share) ** (m - x)
                    if replacement
                    else Fraction(comb(above, x) * comb(pool - above, m - x), comb(pool, m))
                )
                for x in range(m + 1)
            )
            metric = Fraction(1 / np.log2(above + 2.0))
            exact.append(total - Fraction(row["bound"]) - sign * Fraction(row["slope"]) * metric)
            assert -1e-12 < float(computed[above][bet] - Decimal(float(exact[-1]))) < 1e-12
        for (a, b), more in excess.items():
            for above in range(a, b + 1):
                chord = exact[a] + (exact[b] - exact[a]) * Fraction(above - a, b - a)
                assert abs(float(exact[above] - chord)) <= float(more[bet]) + 1e-12


def altered(found, *path, value):
    other = json.loads(json.dumps(found))
    *parents, last = path
    place = other
    for key in parents:
        place = place[key]
    place[last] = value(place[last]) if callable(value) else value
    return other


def more(text):
    return f"{float(text) * 1.02:.12f}"


def less(text):
    return f"{float(text) * 0.98:.12f}"


@pytest.mark.parametrize("assumption", [None, DECREASING])
def test_what_was_altered_is_refused(assumption):
    found = certified(log_of(), "ndcg@10", assumption)
    assert status(found) == 0
    assert status(altered(found, "range", 0, value=more)) == 1
    assert status(altered(found, "range", 1, value=less)) == 1
    assert status(altered(found, "settings", "alpha", value="0.026")) == 1
    assert status(altered(found, "settings", "confidence", value="0.99")) == 1
    for bet in range(len(found["bets"])):
        assert status(altered(found, "bets", bet, "bound", value=less)) == 1
        assert status(altered(found, "stakes", bet, 0, value="0.16")) == 1  # sum above 1
        assert status(altered(found, "stakes", bet, 0, value="-0.1")) == 1
        assert status(altered(found, "stakes", bet, 1, value="99")) == 1  # no longer positive
        assert status(altered(found, "bets", bet, "slope", value="-1")) == 1
        assert status(altered(found, "bets", bet, "function", 3, value="-0.5")) == 1
        everywhere = lambda values: [more(value) for value in values]  # noqa: E731
        assert status(altered(found, "bets", bet, "function", value=everywhere)) == 1
    assert status(altered(found, "settings", "n_items", value=600)) == 1
    assert status(altered(found, "settings", "k", value=30)) == 1
    assert status(altered(found, "settings", "k", value=None)) == 1


def test_altered_counts_lower_the_wealth_at_one_end(found):
    for index, (above, _, users) in enumerate(found["counts"]):
        if users > 5:
            assert status(altered(found, "counts", index, 2, value=users // 2)) == 1, above
    assert status(altered(found, "counts", 0, 0, value=19)) == 1  # those at the first rank
    assert status(altered(found, "counts", 0, 1, value=20)) == 1  # tied with all


def test_the_assumption_is_needed_for_what_it_proves():
    found = certified(log_of(), "ndcg@10", DECREASING)
    assert found["settings"]["decreasing_to_rank"] == 100
    for top in (0, 5, 50):
        assert status(altered(found, "settings", "decreasing_to_rank", value=top)) == 1


@pytest.mark.parametrize(("path", "value"), [
    (("format",), "another"), (("settings", "n_items"), 10.0), (("settings", "n_items"), 1),
    (("settings", "replacement"), 1), (("settings", "metric"), "gini"), (("settings", "k"), "10"),
    (("settings", "k"), 0), (("settings", "k"), True), (("settings", "alpha"), 0.02),
    (("settings", "alpha"), "1e-2"), (("settings", "alpha"), "NaN"),
    (("settings", "decreasing_to_rank"), -1), (("settings", "decreasing_to_rank"), 201),
    (("settings", "extra"), 1), (("counts",), []), (("counts",), [[1, 2]]), (("bets",), []),
    (("counts", 0, 0), 21), (("counts", 0, 2), -3), (("counts", 0, 2), "3"), (("range",), ["0"]),
    (("range", 0), "Infinity"), (("bets", 0, "end"), "middle"), (("bets", 0, "function"), ["1"]),
    (("stakes", 0, 0), "0.1" * 99), (("bets", 0), {}), (("settings",), []), (("stakes", 0), []),
    (("stakes", 0, 2), [99]), (("stakes", 0, 2), ["0"]), (("settings", "recommenders"), [1]),
    (("settings", "recommenders"), []), (("settings", "recommenders"), ["A", "B"]),
    (("settings", "recommenders"), ["A", "B", "C"]), (("counts", 0), [1, 2, 3, 4, 5]),
    (("settings", "recommenders"), "A"), (("extra",), 1), (("bets", 0, "extra"), 1),
    (("counts", 0, 2), True), (("counts", 0, 2), 3.0), (("counts", 0, 2), float("nan")),
    (("range", 0), float("inf")), (("range", 0), "\u0660.1"), (("range", 0), "0.1\n"),
    (("settings", "alpha"), True), (("settings", "metric"), "auc"), (("stakes", 0, 2, 0), True),
    (("stakes", 0, 2, 0), -1), (("settings", "replacement"), None),
    (("settings", "n_items"), 10**400), (("settings", "n_negatives"), 10**9 + 1),
    (("settings", "k"), 10**400), (("counts", 0, 2), 10**400), (("counts", 0, 1), -1),
    (("settings", "k"), "1\u0660"), (("settings", "alpha"), "\uff10.02"),
    (("settings", "confidence"), None), (("settings", "confidence"), "0.95e0"),
    (("settings", "n_items"), True), (("settings", "n_negatives"), False),
    (("settings", "decreasing_to_rank"), True), (("settings", "decreasing_to_rank"), 2.5),
    (("settings", "metric"), None), (("settings", "metric"), "f1"), (("settings", "metric"), []),
    (("settings", "k"), float("nan")), (("settings", "p"), 0.8),
    (("range",), ["0.5", "0.4"]), (("range", 1), True), (("range", 1), "1" * 400),
    (("bets", 0, "bound"), "NaN"), (("bets", 0, "bound"), 1), (("bets", 0, "slope"), "inf"),
    (("bets", 0, "slope"), "+1"), (("bets", 0, "function", 0), "nan"),
    (("bets", 0, "function", 0), 1.0), (("bets", 0, "function", 0), True),
    (("bets", 0, "function", 0), "\u0661.0"), (("bets", 0, "end"), True),
    (("stakes", 0, 0), "NaN"), (("stakes", 0, 1), "1e400"), (("stakes", 0, 2, 0), 10**400),
    (("stakes", 0, 2, 0), "0"), (("stakes",), None), (("bets",), None), (("counts", 0), None),
])  # fmt: skip
def test_malformed_files_have_status_2(found, path, value, tmp_path, capsys):
    file = tmp_path / "cert.json"
    file.write_text(json.dumps(altered(found, *path, value=value)))
    assert verify.main(str(file)) == 2
    assert "Error" in capsys.readouterr().err


@pytest.mark.parametrize("name", [
    "A less that of B", 'A" less that of "B',
    "A\x1b[1A\x1b[2K\rthe metric of A", "A\n\x1b[8m", "\x7f",
    "A\u202egnp.exe", "\u200f\u2066", "\ud800", "\x9b8m", "caf\u00e9", "",
])  # fmt: skip
def test_names_are_printed_in_quotes_and_escaped(found, name, tmp_path, capsys):
    file = tmp_path / "cert.json"
    for ensure_ascii in (True, name == "\ud800"):  # UTF-8 has no lone surrogates
        named = altered(found, "settings", "recommenders", value=[name])
        file.write_text(json.dumps(named, ensure_ascii=ensure_ascii), encoding="utf-8")
        assert verify.main(str(file)) == 0
        settings, claim, checked, digest = capsys.readouterr().out.splitlines()
        assert all(" " <= letter <= "~" for letter in settings + claim + checked + digest)
        assert json.loads(settings)["recommenders"] == [name]
        text = claim.removeprefix("the metric of ")
        read, end = json.JSONDecoder().raw_decode(text)  # the quotes end where the name does
        assert read == name
        assert text[end:].startswith(f" is in {found['range'][0]} to {found['range'][1]}, ")


def test_the_digest_is_that_of_the_bytes_of_the_file(found, tmp_path, capsys):
    file, digests = tmp_path / "cert.json", set()
    for indent in (None, 1):
        file.write_text(json.dumps(found, indent=indent))
        assert verify.main(str(file)) == 0
        digests.add(capsys.readouterr().out.split()[-1])
        assert hashlib.sha256(file.read_bytes()).hexdigest() in digests
    assert len(digests) == 2


def test_a_key_that_occurs_twice_has_status_2(found, tmp_path, capsys):
    file, text = tmp_path / "cert.json", json.dumps(found)
    for twice in (
        '{"range": ["0.900000000", "0.950000000"], ' + text[1:],
        '{"r\\u0061nge": ["0.900000000", "0.950000000"], ' + text[1:],
        text.replace('"n_items": 200', '"n_items": 200, "n_items": 200'),
        text.replace('"end": "low"', '"end": "high", "end": "low"', 1),
    ):
        assert json.loads(twice) == found
        file.write_text(twice)
        assert verify.main(str(file)) == 2
        assert capsys.readouterr().out == ""
    file.write_text(text)
    assert verify.main(str(file)) == 0


def test_messages_move_no_cursor(found, tmp_path, capsys):
    file = tmp_path / "cert\x1b[8m\u202e.json"
    assert verify.main(str(file)) == 2
    file.write_text(json.dumps(altered(found, "bets", 0, "end", value="\x1b[8m\u202e")))
    assert verify.main(str(file)) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert all(" " <= letter <= "~" or letter == "\n" for letter in shown.err)


def test_truncated_missing_and_deep_files_have_status_2(found, tmp_path):
    file = tmp_path / "cert.json"
    text = json.dumps(found)
    for part in ("", text[:1], text[: len(text) // 2], text[:-1], "[" * 100_000, "null", "[]"):
        file.write_text(part)
        assert verify.main(str(file)) == 2
    file.write_bytes(b"\xff\xfe")
    assert verify.main(str(file)) == 2
    assert verify.main(str(tmp_path / "missing.json")) == 2


def test_what_is_out_of_scope_is_named():
    n, m, users = 1_000, 20, 300
    rows = pd.DataFrame({"user": range(users), "rank": np.arange(users) % 21 + 1})

    def refused(match, metric="rr", assumption=None, log=None, **changes):
        log = log or sm.read_log(
            rows.assign(**changes), replacement=True,
            **{name: value for name, value in (("n_items", n), ("n_negatives", m))
               if name not in changes},
        )  # fmt: skip
        with pytest.raises(ValueError, match=match):
            certified(log, metric, assumption)

    refused("n_items must be the same", n_items=np.where(rows["user"] < 9, 900, 1_000))
    refused("n_negatives must be the same", n_negatives=np.where(rows["user"] < 9, 25, 20))
    refused("one row", user=rows["user"] // 2, item=rows["user"])
    refused("auc", metric="auc")
    refused("'decreasing' or none", assumption=sm.Assumption(steepness=4.0))
    refused("'decreasing' or none", assumption=sm.Assumption(geometric=True))
    refused("depend on the rank", metric="recall@1000")
    refused("50,000", assumption=DECREASING, log=log_of(users=50_000))
    refused("all negatives", log=log_of(30, 29, replacement=False))
    outcomes = rows.assign(rank=1, n_negatives=20)
    design = sm.Adaptive(n, 5, 20, replacement=True)
    refused("uniform and fixed", log=sm.read_log(outcomes, protocol=design))
    shared = sm.read_log(rows, n_items=n, n_negatives=m, replacement=True, shared_negatives=True)
    refused("share", log=shared)


def test_a_result_and_the_command_write_the_same_file(tmp_path, capsys):
    log = log_of()
    result = sm.estimate(log, ["ndcg@10", "rr", "auc"])
    with pytest.raises(ValueError, match=r"metric must be one of ndcg@10, rr, auc"):
        result.certificate(tmp_path / "cert.json")
    path = result.certificate(tmp_path / "cert.json", "ndcg@10")
    rows = tmp_path / "log.csv"
    counts = log.counts.loc[log.counts.index.repeat(log.counts["count"])]
    counts.assign(user=range(len(counts)), recommender=log.recommenders[0])[
        ["recommender", "user", "n_better", "n_tied"]
    ].to_csv(rows, index=False)
    written = tmp_path / "written.json"
    options = "--n-items 200 --n-negatives 20 --replacement --metric ndcg@10 --quiet --out"
    assert main(["certificate", str(rows), *options.split(), str(written)]) == 0
    assert "sha256" in capsys.readouterr().out
    assert written.read_bytes() == path.read_bytes()
    capsys.readouterr()
    assert verify.main(str(path)) == 0
    shown = capsys.readouterr().out
    assert "valid if the counts are genuine and the bets were fixed before the" in shown
    assert ", with 95% confidence\nchecked: valid if " in shown


def test_the_verifier_is_one_short_file_that_needs_the_standard_library_only():
    source = Path(verify.__file__).read_text(encoding="utf-8")
    assert len(source.splitlines()) <= 350
    imported = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            imported |= {name.name.partition(".")[0] for name in node.names}
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0
            imported.add(node.module.partition(".")[0])
    assert imported <= sys.stdlib_module_names


@pytest.mark.processes
def test_the_verifier_runs_alone(found, tmp_path):
    file, script = tmp_path / "cert.json", tmp_path / "verify.py"
    script.write_bytes(Path(verify.__file__).read_bytes())
    for other, expected in ((found, 0), (altered(found, "range", 0, value=more), 1), ({}, 2)):
        file.write_text(json.dumps(other))
        command = [sys.executable, "-I", "-S", str(script), str(file)]
        assert subprocess.run(command, capture_output=True, check=False).returncode == expected
    for paths in ((), (str(file), str(file))):
        command = [sys.executable, "-I", "-S", str(script), *paths]
        run = subprocess.run(command, capture_output=True, check=False, text=True)
        assert (run.returncode, run.stdout) == (2, "")
        assert run.stderr == "verify.py needs one file: python verify.py cert.json\n"


@pytest.mark.parametrize("top", [0, 2, 17, 40])
@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize("metric", [("rr", None), ("ap", 7), ("precision", 3), ("auc", None)])
def test_a_bound_is_accepted_just_above_the_largest_expectation_only(metric, replacement, top):
    """Random bets, whose largest expectation under the assumption is known in fractions."""
    n, m, rng, (kind, k) = 40, 6, np.random.default_rng(top), metric
    terms = {
        "rr": lambda r: Fraction(1, r),
        "ap": lambda r: Fraction(r <= 7, r),
        "precision": lambda r: Fraction(r <= 3, 3),
        "auc": lambda r: Fraction(n - r, n - 1),
    }
    for end in ("low", "high"):
        function = [f"{value:.3f}" for value in np.exp(rng.normal(size=m + 1))]
        slope = Fraction(int(rng.integers(0, 5_000)), 1_000)
        gains = []
        for r in range(1, n + 1):
            share = Fraction(r - 1, n - 1)
            ways = [
                comb(m, x) * share**x * (1 - share) ** (m - x)
                if replacement
                else Fraction(comb(r - 1, x) * comb(n - r, m - x), comb(n - 1, m))
                for x in range(m + 1)
            ]
            mean = sum(Fraction(value) * way for value, way in zip(function, ways, strict=True))
            gains.append(mean - (1 if end == "low" else -1) * slope * terms[kind](r))
        averages = [sum(gains[:j]) / j for j in range(1, top + 1)]
        largest = float(max([*averages, *gains[top:]]))
        for bound, expected in ((largest + 1e-9, 0), (largest - 1e-9, 1)):
            bet = {"end": end, "slope": f"{float(slope):.3f}", "bound": f"{bound:.12f}",
                   "function": function}  # fmt: skip
            settings = {"recommenders": ["A"], "metric": kind, "k": k, "n_items": n,
                        "n_negatives": m, "replacement": replacement, "confidence": "0.95",
                        "alpha": "0.025", "decreasing_to_rank": top}  # fmt: skip
            file = {"format": verify.FORMAT, "settings": settings, "counts": [[0, 0, 10**9]],
                    "range": ["0", "1"], "bets": [bet], "stakes": []}  # fmt: skip
            assert status(file) == expected
