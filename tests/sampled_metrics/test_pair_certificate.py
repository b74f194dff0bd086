"""Certificates of pairs: what proves a difference is accepted, and what was altered is refused."""

import itertools
import json
from fractions import Fraction
from math import comb

import numpy as np
import pandas as pd
import pytest

import sampled_metrics as sm
from sampled_metrics import verify
from sampled_metrics.cli import main
from sampled_metrics.evaluation import certificates

from .test_certificate import altered, less, more, status


def rows_of(n=200, m=20, users=1_000, replacement=True, tied=0, names="AB", lead=0.5):
    """Users' sampled ranks with recommenders of which the first ones are better."""
    rng, frames = np.random.default_rng(0), []
    for place, name in enumerate(names):
        power = (1.0 + lead) ** (1.0 - place)
        true = np.floor((n + 1) ** (rng.random(users) ** power)).astype(int)
        better = sm.Protocol(n, m, replacement=replacement).draw(true, rng) - 1
        ties = np.minimum(rng.integers(0, tied + 1, users), m - better)
        columns = {"recommender": name, "user": range(users), "n_better": better, "n_tied": ties}
        frames.append(pd.DataFrame(columns))
    return pd.concat(frames)


def compared(metric="ndcg@10", assumption="decreasing", n=200, m=20, replacement=True, **options):
    rows = rows_of(n, m, replacement=replacement, **options)
    log = sm.read_log(rows, n_items=n, n_negatives=m, replacement=replacement)
    return sm.compare(log, metric, assumption=assumption)


def written(comparison, first, second):
    return json.loads(certificates.encoded_pair(comparison, first, second))


@pytest.fixture(scope="module")
def found():
    return written(compared(), "A", "B")


@pytest.mark.parametrize("assumption", [None, "decreasing"])
@pytest.mark.parametrize("metric", ["ndcg@10", "ndcg", "rr", "ap@5", "recall@1", "precision@50",
                                    "accuracy"])  # fmt: skip
def test_a_pair_verifies_and_its_range_is_the_printed_one(metric, assumption):
    for replacement, tied in ((True, 3), (False, 2)):
        comparison = compared(metric, assumption, replacement=replacement, tied=tied)
        row = comparison.frame.iloc[0]
        found, reverse = (written(comparison, *pair) for pair in (("A", "B"), ("B", "A")))
        low, high = map(float, found["range"])
        width = row["possible_high"] - row["possible_low"]
        assert low <= row["possible_low"] <= row["possible_high"] <= high
        assert high - low <= 1.02 * width + 2e-9
        assert [-high, -low] == [float(end) for end in reverse["range"]]
        assert status(found) == status(reverse) == 0


@pytest.mark.parametrize(("n", "m", "replacement"), [(3, 1, False), (3, 2, True), (30, 28, False)])
def test_small_catalogues(n, m, replacement):
    found = written(compared("rr", n=n, m=m, replacement=replacement), "A", "B")
    assert status(found) == 0


def test_the_pairs_of_a_log_share_the_error():
    comparison = compared(names="ABC", lead=3.0)
    found = written(comparison, "A", "C")
    assert float(found["settings"]["alpha"]) <= 0.05 / 6
    assert comparison.verdicts["A", "C"] == "A beats C"
    assert float(found["range"][0]) > 0
    assert status(found) == 0


def test_what_was_altered_is_refused(found):
    assert status(found) == 0
    assert status(altered(found, "range", 0, value=lambda low: f"{float(low) + 0.01:.9f}")) == 1
    assert status(altered(found, "range", 1, value=lambda high: f"{float(high) - 0.01:.9f}")) == 1
    assert status(altered(found, "settings", "alpha", value="0.026")) == 1
    assert status(altered(found, "settings", "n_items", value=600)) == 1
    assert status(altered(found, "settings", "decreasing_to_rank", value=5)) == 1
    for bet in range(len(found["bets"])):
        assert status(altered(found, "bets", bet, "bound", value=less)) == 1
        assert status(altered(found, "bets", bet, "slope", value="-1")) == 1
        assert status(altered(found, "bets", bet, "function", 3, value="-0.5")) == 1
        everywhere = lambda values: [more(value) for value in values]  # noqa: E731
        assert status(altered(found, "bets", bet, "function", value=everywhere)) == 1
    for stake in range(0, len(found["stakes"]), 20):
        assert status(altered(found, "stakes", stake, 0, value="0.99")) == 1  # sum above 1
        assert status(altered(found, "stakes", stake, 0, value="-0.1")) == 1
        assert status(altered(found, "stakes", stake, 1, value="99")) == 1  # negative sums


def test_altered_joint_counts_are_refused(found):
    swapped = [[*row[2:4], *row[:2], row[4]] for row in found["counts"]]
    assert status(altered(found, "counts", value=swapped)) == 1
    best = next(i for i, row in enumerate(found["counts"]) if row[:4] == [0, 0, 0, 0])
    assert status(altered(found, "counts", best, 0, value=19)) == 1
    assert status(altered(found, "counts", best, 3, value=20)) == 1  # tied with all
    worst = [row[2] for row in found["counts"]].index(20)
    assert status(altered(found, "counts", worst, 4, value=0)) == 1


@pytest.mark.parametrize(("path", "value"), [
    (("counts", 0), [0, 0, 5]), (("counts", 0, 2), 21), (("counts", 0, 4), -1), (("counts",), []),
    (("settings", "recommenders"), ["A"]), (("settings", "recommenders"), ["A", "B", "C"]),
    (("settings", "recommenders"), None), (("settings", "recommenders"), ["A", 1]),
    (("settings", "recommenders"), "AB"), (("settings", "recommenders"), ["A", "A"]),
    (("stakes", 0, 2, 0), True), (("stakes", 0, 2, 0), -1), (("counts", 0, 4), True),
    (("stakes", 0, 2), [0, 99]), (("stakes", 0, 2), [0, "7"]), (("stakes", 0), ["1", "0"]),
    (("stakes", 0, 1), 0.5), (("range",), ["1", "0"]), (("range",), ["0"]),
])  # fmt: skip
def test_malformed_files_have_status_2(found, path, value, tmp_path, capsys):
    file = tmp_path / "cert.json"
    file.write_text(json.dumps(altered(found, *path, value=value)))
    assert verify.main(str(file)) == 2
    assert "Error" in capsys.readouterr().err


def test_a_stake_that_is_not_on_a_low_and_a_high_bet_counts_for_nothing(found):
    for change in (lambda i, _: [i], lambda i, j: [i, j, i], lambda i, _: [i, i]):
        stakes = [[weight, constant, change(*bets)] for weight, constant, bets in found["stakes"]]
        assert status(altered(found, "stakes", value=stakes)) == 1
    # Of a pair turned round, the same sums of bets prove the same range.
    turned = [[*row[2:4], *row[:2], row[4]] for row in found["counts"]]
    ends = [f"{-float(end):.9f}" for end in found["range"][::-1]]
    assert status(altered(altered(found, "counts", value=turned), "range", value=ends)) == 0


@pytest.mark.parametrize("replacement", [True, False])
def test_sums_of_bets_have_the_claimed_expectation_at_each_two_ranks(replacement):
    """In fractions: whatever the joint distribution, it is a mixture of pairs of true ranks."""
    n, m = 12, 4
    found = written(compared("rr", None, n=n, m=m, replacement=replacement), "A", "B")
    assert status(found) == 0
    means = []
    for bet in found["bets"]:
        means.append([])
        for above in range(n):
            share = Fraction(above, n - 1)
            ways = [
                comb(m, x) * share**x * (1 - share) ** (m - x)
                if replacement
                else Fraction(comb(above, x) * comb(n - 1 - above, m - x), comb(n - 1, m))
                for x in range(m + 1)
            ]
            values = map(Fraction, bet["function"])
            means[-1].append(sum(h * way for h, way in zip(values, ways, strict=True)))
    for _, constant, (i, j) in found["stakes"]:
        first, second = found["bets"][i], found["bets"][j]
        assert {first["end"], second["end"]} == {"low", "high"}
        s, t = Fraction(first["slope"]), Fraction(second["slope"])
        least = t * min(map(Fraction, first["function"]))
        least += s * min(map(Fraction, second["function"]))
        assert least > Fraction(constant) > 0
        sign = 1 if first["end"] == "low" else -1
        bound = t * Fraction(first["bound"]) + s * Fraction(second["bound"])
        for a, b in itertools.product(range(n), repeat=2):
            difference = Fraction(1, a + 1) - Fraction(1, b + 1)
            assert t * means[i][a] + s * means[j][b] <= bound + sign * s * t * difference


def test_the_wealth_is_that_of_fractions():
    """At each end: alpha times the weighted sum of products over users reaches 1, but barely."""
    found = written(compared("rr", None, n=12, m=4, users=60), "A", "B")
    checked = verify.Certificate(found)
    for side, end in zip((1, -1), found["range"], strict=True):
        wealth = Fraction(0)
        for weight, constant, (i, j) in found["stakes"]:
            first, second = found["bets"][i], found["bets"][j]
            if (first["end"] == "low") != (side == 1):
                continue
            s, t = Fraction(first["slope"]), Fraction(second["slope"])
            mean = t * Fraction(first["bound"]) + s * Fraction(second["bound"])
            mean += side * s * t * Fraction(end) - Fraction(constant)
            product = Fraction(weight)
            for x, _, y, _, users in found["counts"]:
                value = t * Fraction(first["function"][x]) + s * Fraction(second["function"][y])
                product *= ((value - Fraction(constant)) / mean) ** users
            wealth += product
        exact = Fraction(found["settings"]["alpha"]) * wealth
        computed = Fraction(checked._wealth(side, verify.Decimal(end)))
        assert exact * (1 - Fraction(1, 10**20)) <= computed <= exact


def test_names_of_a_pair_are_quoted_one_by_one(found):
    names = ['A" minus that of "B', "C\u202e"]
    claim = verify.Certificate(altered(found, "settings", "recommenders", value=names)).check()
    assert claim.startswith(
        r'the metric of "A\" minus that of \"B" minus that of "C\u202e" is in ' + found["range"][0]
    )


def test_what_is_out_of_scope_is_named():
    with pytest.raises(ValueError, match="auc"):
        written(compared("auc"), "A", "B")
    with pytest.raises(ValueError, match="'decreasing' or none"):
        written(compared(assumption=sm.Assumption(steepness=4.0)), "A", "B")
    with pytest.raises(ValueError, match="all negatives"):
        written(compared(n=21, replacement=False), "A", "B")
    with pytest.raises(ValueError, match="sampled ranks of A and Z"):
        written(compared(), "A", "Z")
    with pytest.raises(ValueError, match=r"printable characters only, got \['A', '.x1b'\]"):
        written(compared(names="A\x1b"), "A", "\x1b")


def test_a_result_and_the_command_write_the_same_file(tmp_path, capsys):
    path = compared().certificate(tmp_path / "cert.json", "A", "B")
    rows, file = tmp_path / "log.csv", tmp_path / "written.json"
    rows_of().to_csv(rows, index=False)
    options = "--n-items 200 --n-negatives 20 --replacement --metric ndcg@10 --quiet"
    command = ["certificate", str(rows), *options.split(), "--out", str(file)]
    assert main([*command, "--pair", "A", "B"]) == 0
    assert 'the metric of "A" minus that of "B" is in ' in capsys.readouterr().out
    assert file.read_bytes() == path.read_bytes()
    assert main([*command, "--pair", "A", "B", "--recommender", "A"]) == 2
    assert "not allowed with" in capsys.readouterr().err
