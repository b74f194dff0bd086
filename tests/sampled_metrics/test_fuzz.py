"""No input of the commands leads to a traceback, to a silent NaN, or to half a file.

Each example runs a command in this process. It ends with status 0 and a table of numbers, or with
status 2 and one sentence; either way nothing is left in its folder but what it was asked for.
"""

import contextlib
import io
import os
import re
import warnings
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sampled_metrics import readers
from sampled_metrics.cli import main
from sampled_metrics.log.compact import COLUMNS
from sampled_metrics.log.read import read_log

pytestmark = pytest.mark.words

QUICK = ["--estimator", "naive", "--no-identification", "--metrics", "ndcg@3"]
TYPICAL = ["typical_low", "typical_high"]
IDENTIFIED = ["possible_low", "possible_high", "assumption", "warrant", "quote"]
SIZES = ["--n-items", "50", "--n-negatives", "5"]


@contextlib.contextmanager
def folder(**files):
    """A folder of its own to work in, with these files."""
    before = Path.cwd()
    with TemporaryDirectory() as name:
        for file, content in files.items():
            Path(name, file.replace("_", ".")).write_bytes(content)
        os.chdir(name)
        try:
            yield Path(name)
        finally:
            os.chdir(before)


def run(*argv):
    """Status, standard output and error stream of a command."""
    stdout, stderr = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
        status = main(list(argv))
    return status, stdout.getvalue(), stderr.getvalue()


def check(*argv, missing=()):
    """Run a command with its table as CSV; the status is 0 or 2, and all is as it says."""
    if "--no-identification" in argv:
        missing = [*TYPICAL, *IDENTIFIED]
    files = sorted(Path.cwd().iterdir())
    status, stdout, stderr = run(*argv, "--format", "csv")
    assert sorted(Path.cwd().iterdir()) == files
    assert "Traceback" not in stderr
    if status == 2:
        assert stdout == ""
        assert re.fullmatch(
            r"(warning: .+\n)*error: [^\n]+\n|usage: (.|\n)+: error: [^\n]+\n", stderr
        )
        assert "np." not in stderr
        return None
    assert status == 0
    table = pd.read_csv(io.StringIO(stdout), keep_default_na=False)
    assert len(table)
    for row in table.to_dict("records"):
        for key, value in row.items():
            if key == "assumption" and value == "none":
                continue
            if key not in missing and isinstance(value, (str, float)):
                assert str(value).lower() not in ("nan", "inf", "-inf", "", "none", "<na>"), row
    return table


def one_sentence(refusal):
    """A refusal is a line, and shows values as they are written."""
    assert "\n" not in str(refusal)
    assert "np." not in str(refusal)


ODD = [
    "", " ", "0", "1", "2", "3", "5", "6", "-1", "1.0", "1.5", "1e0", "1e400", "-0", "nan", "NaN",
    "inf", "NA", "None", "null", "True", "1,5", '"1"', '"', "'", "é", "\x00", "٣", "1_0", "0x1",
    "9223372036854775807", "9223372036854775808", "1" * 40, "user", "#", "=1+1", "\ufeff1", "a\tb",
]  # fmt: skip
NAMES = [*COLUMNS, "rank", "item", "Rank", "users", "model", "", " user", "user_id", "n_item"]


@st.composite
def tables(draw, names=NAMES, odd=ODD):
    """The text of a table with plausible columns, most cells plausible, too."""
    core = draw(st.sampled_from([["user", "rank"], ["user", "n_better", "n_tied"], []]))
    header = [*core, *draw(st.lists(st.sampled_from(names), max_size=4))]
    cell = st.integers(0, 7).map(str) | st.sampled_from(odd)
    rows = draw(st.lists(st.lists(cell, min_size=len(header), max_size=len(header)), max_size=6))
    if draw(st.integers(0, 9)) == 0:
        rows.append(draw(st.lists(cell, max_size=6)))
    separator = draw(st.sampled_from([",", ",", ",", ";", "\t"]))
    end = draw(st.sampled_from(["\n", "\n", "\r\n", ""]))
    return "\n".join(separator.join(row) for row in [header, *rows]) + end


@given(tables() | st.text(max_size=80))
@example("user,rank\n1,1\n2,2\n")
@example("user,rank\n1,1\n")
@example("user,rank\n1,inf\n")
@example("user,n_better,n_tied\n1,5,0\n2,0,5\n")
def test_estimate_takes_any_text(text):
    with folder(log_csv=text.encode("utf-8", "surrogatepass")):
        check("estimate", "log.csv", *SIZES, *QUICK)


@given(st.binary(max_size=120))
@example(b"\x1f\x8b")
@example(b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03")
@example(b"PAR1")
@example(b"user,rank\n1,\xff\n")
def test_estimate_takes_any_bytes(content):
    with folder(log_csv=content, log_parquet=content):
        check("estimate", "log.csv", *SIZES, *QUICK)
        check("estimate", "log.parquet", *SIZES, *QUICK)


def parquet():
    rows = pd.DataFrame({"user": range(30), "rank": np.arange(30) % 6 + 1, "item": "film"})
    content = io.BytesIO()
    rows.to_parquet(content, index=False)
    return content.getvalue()


@settings(max_examples=2 * settings.default.max_examples)
@given(st.data())
def test_a_parquet_file_cut_short_or_altered_is_refused_or_right(data):
    pytest.importorskip("pyarrow")
    content = bytearray(parquet())
    if data.draw(st.booleans()):
        del content[data.draw(st.integers(0, len(content) - 1)) :]
    else:
        for _ in range(data.draw(st.integers(1, 3))):
            content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    with folder(log_parquet=bytes(content)):
        check("estimate", "log.parquet", *SIZES, *QUICK)


#: Columns that no table should have where names or numbers are meant, and some that it may.
ODD_COLUMNS = {
    "lists": [[1], [2, 3]],
    "records": [{"a": [1]}, {"a": [2] * 10**4}],
    "bytes": [b"1", b"\xff" * 10**5],
    "times": pd.to_datetime([1, 2]),
    "spans": pd.to_timedelta([1, 2]),
    "truths": [True, False],
    "decimals": [Decimal("1.5"), Decimal("2e30")],
    "categories": pd.Categorical(["a", None]),
    "long": ["x" * 10**6, "9" * 310],
    "missing": [None, None],
    "floats": [np.inf, 1e300],
    "unsigned": np.array([1, 2**64 - 1], dtype=np.uint64),
}


@pytest.mark.some(2)
@pytest.mark.parametrize("odd", ODD_COLUMNS)
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_columns_of_any_type_end_in_a_sentence_of_sane_length(odd, suffix):
    if suffix == "parquet":
        pytest.importorskip("pyarrow")
    rows = {"recommender": "A", "user": [1, 2], "item": [3, 4], "instance": 0, "n_items": 50}
    rows = pd.DataFrame(rows | {"n_negatives": 5, "rank": [1, 2]})
    counts = rows.drop(columns="rank").assign(n_better=1, n_tied=0)
    audited = rows[["user", "item"]]
    cases = [("estimate", rows, key) for key in [*rows, "another"]]
    cases += [("estimate", counts, key) for key in ("n_better", "n_tied")]
    cases += [("audit", audited, key) for key in audited]
    for command, table, key in cases:
        content = io.BytesIO()
        getattr(table.assign(**{key: ODD_COLUMNS[odd]}), f"to_{suffix}")(content, index=False)
        with folder(**{f"log_{suffix}": content.getvalue()}):
            options = QUICK if command == "estimate" else ["--n-items", "50"]
            status, stdout, stderr = run(command, f"log.{suffix}", *options)
        assert status in (0, 2)
        assert (status == 2) == (not stdout)
        assert all(len(line) < 400 for line in stderr.splitlines()), stderr
        if status == 2:
            assert stderr.splitlines()[-1].startswith("error: "), stderr
        if key in ("rank", "n_items", "n_negatives", "n_better", "n_tied"):
            assert status == 2


whole = st.integers(-(2**70), 2**70) | st.integers(0, 12) | st.sampled_from([2**31, 2**53, 2**62])
value = st.one_of(
    whole, st.floats(), st.none(), st.booleans(), st.text(max_size=3), st.just(pd.NA), st.just(())
)


@st.composite
def frames(draw):
    """Data frames of any objects, or of numbers of one kind, in the columns of a log."""
    names = ["user", *draw(st.sampled_from([["rank"], ["n_better", "n_tied"]]))]
    names += draw(st.lists(st.sampled_from(NAMES), max_size=3, unique=True))
    size = draw(st.integers(0, 5))
    columns = []
    for _ in names:
        cells = draw(st.sampled_from([value, st.integers(0, 6), st.integers(0, 6)]))
        kind = draw(st.sampled_from([None, object, "Int64", float, "category"]))
        column = pd.Series(draw(st.lists(cells, min_size=size, max_size=size)), dtype=object)
        with contextlib.suppress(TypeError, ValueError, OverflowError, Warning):
            column = column if kind is None else column.astype(kind)
        columns.append(column)
    frame = pd.concat(columns, axis=1) if size else pd.DataFrame(columns=range(len(names)))
    frame.columns = pd.Index(names)
    return frame


@settings(max_examples=2 * settings.default.max_examples)
@given(frames(), st.integers(-1, 20) | st.none(), st.integers(-1, 12) | st.none())
def test_read_log_returns_whole_numbers_or_a_sentence(frame, n_items, n_negatives):
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            log = read_log(frame, n_items=n_items, n_negatives=n_negatives, replacement=True)
        for warning in caught:
            one_sentence(warning.message)
    except ValueError as refusal:
        one_sentence(refusal)
        return
    assert len(log.frame) == len(frame) > 0
    counts = log.frame.drop(columns=["recommender", "user"])
    assert (counts.dtypes == np.int64).all()
    assert (counts.to_numpy() >= 0).all()
    assert (counts["n_better"] + counts["n_tied"] <= counts["n_negatives"]).all()
    assert not log.frame.isna().any(axis=None)


@st.composite
def logs(draw, sizes=(4, 8, 33, 100, 3_000)):
    """Rows of a log that is in order, the size of its catalogue and its number of negatives."""
    m = draw(st.sampled_from([1, 2, 5, 30]))
    n = draw(st.sampled_from(sizes).filter(lambda n: n > m + 2))
    ranks = st.integers(1, m + 1)
    users = draw(st.integers(2, 8))
    is_constant = draw(st.booleans())
    columns = {}
    for name in draw(st.sampled_from([["A"], ["A", "B"], ["A", "B", 'é, \n"<b>']])):
        columns[name] = [draw(ranks)] * users if is_constant else draw(
            st.lists(ranks, min_size=users, max_size=users)
        )  # fmt: skip
    table = pd.DataFrame(columns).rename_axis("user").melt(
        ignore_index=False, var_name="recommender", value_name="rank"
    )  # fmt: skip
    return table.reset_index(), n, m


METRICS = ["auc", "recall@1", "ndcg@10", "ndcg", "ap", "rr", "precision@5", "hit@3", "accuracy"]


@given(logs(), st.sampled_from(METRICS), st.booleans())
def test_every_estimate_of_a_log_in_order_is_a_number(log, metric, replacement):
    rows, n, m = log
    sizes = ["--n-items", str(n), "--n-negatives", str(m)]
    draw_option = ["--replacement" if replacement else "--no-replacement"]
    with folder(log_csv=rows.to_csv(index=False).encode()):
        # No log here has the users of the benchmark.
        words = "estimate", "log.csv", *sizes, *draw_option, "--metrics", metric
        table = check(*words, missing=TYPICAL)
        if table is not None:
            low, high = (table[f"possible_{end}"].astype(float) for end in ("low", "high"))
            assert (low <= high).all()
        check(*words, "--estimator", "monotone", "--no-identification")


@given(logs(sizes=(10**9, 2**31, 2**50, 2**60)), st.sampled_from(METRICS))
def test_estimates_of_the_largest_catalogues_are_numbers_or_refused(log, metric):
    rows, n, m = log
    sizes = ["--n-items", str(n), "--n-negatives", str(m), "--replacement"]
    sizes.append("--no-identification")
    with folder(log_csv=rows.to_csv(index=False).encode()):
        for name in ["naive", "rank estimate", "least bias", "monotone", "bias-variance"]:
            check("estimate", "log.csv", *sizes, "--metrics", metric, "--estimator", name)


@given(logs(), st.sampled_from(METRICS))
def test_every_comparison_of_a_log_in_order_is_one_or_a_sentence(log, metric):
    rows, n, m = log
    sizes = ["--n-items", str(n), "--n-negatives", str(m), "--replacement"]
    with folder(log_csv=rows.to_csv(index=False).encode()):
        status, stdout, stderr = run(
            "compare", "log.csv", *sizes, "--metric", metric, "--format", "csv"
        )
    assert "Traceback" not in stderr
    assert status in (0, 2)
    if status == 0:
        table = pd.read_csv(io.StringIO(stdout), keep_default_na=False)
        decided = table["verdict"] != "undecided"
        # Only these say nothing where there is nothing to say.
        for name in ("assumption", "warrant"):
            assert ((table[name] != "") == decided).all(), stdout
        beside_no_proof = ["favoured", "users_needed"]
        assert (table.loc[decided, beside_no_proof] == "").all(axis=None), stdout
        # No log here has the users of the benchmark.
        assert (table["probability"] == "").all(), stdout
        favoured = table["favoured"] != ""
        assert (favoured <= (table["student_low"] != "")).all(), stdout
        columns = [
            "reported",
            "estimate",
            "standard_error",
            "possible_low",
            "possible_high",
            "detectable",
        ]
        numbers = table[columns].astype(float)
        assert np.isfinite(numbers.to_numpy()).all(), stdout
        low, high = numbers["possible_low"], numbers["possible_high"]
        assert (((low >= 0) | (high <= 0)) | ~decided).all(), stdout
        assert (((low <= 0) & (high >= 0)) | decided).all(), stdout


AUDITED = ["user", "item", "score", "Item"]


@given(tables(AUDITED), tables(AUDITED), st.sampled_from(["2", "10", "0", "-3", "1e3", str(2**63)]))
def test_audit_takes_any_text(negatives, positives, n_items):
    with folder(negatives_csv=negatives.encode(), positives_csv=positives.encode()):
        check("audit", "negatives.csv", "--n-items", n_items)
        check("audit", "negatives.csv", "--n-items", n_items, "--positives", "positives.csv")


def saved(save, *arguments):
    content = io.BytesIO()
    save(content, *arguments)
    return content.getvalue()


@settings(max_examples=2 * settings.default.max_examples)
@given(st.data())
def test_rank_takes_any_files(data):
    rng = np.random.default_rng(1)
    files = {
        "U_npy": saved(np.save, rng.normal(size=(4, 3))),
        "V_npy": saved(np.save, rng.normal(size=(9, 3)).astype(np.float32)),
        "train_npz": saved(sp.save_npz, sp.csr_array(np.eye(4, 9))),
        "test_csv": b"user,item\n0,5\n3,6\n0,7\n",
    }
    name = data.draw(st.sampled_from(sorted(files)))
    content = bytearray(files[name])
    kind = data.draw(st.sampled_from(["cut", "alter", "replace"]))
    if kind == "cut":
        del content[data.draw(st.integers(0, len(content) - 1)) :]
    elif kind == "alter":
        position = data.draw(st.integers(0, len(content) - 1))
        content[position] = data.draw(st.integers(0, 255))
    else:
        content = bytearray(
            data.draw(
                st.binary(max_size=80)
                | tables(["user", "item"]).map(str.encode)
                | st.sampled_from(
                    [saved(np.save, np.full((4, 3), odd)) for odd in (np.nan, np.inf, 1e308, 1j)]
                    + [saved(np.save, np.zeros(shape)) for shape in ((0, 3), (4, 0), (), (4,))]
                    + [saved(np.savez, np.zeros(3))]
                )
            )
        )
    words = "--user-factors U.npy --item-factors V.npy --test test.csv --train train.npz"
    with folder(**files | {name: bytes(content)}):
        check("rank", *words.split())


@given(tables(["q", "0", "d", "1"]) | st.text(alphabet="q0d1 \t\n.-e", max_size=60))
def test_a_run_of_any_text_is_read_or_refused(text):
    with folder(run_txt=text.replace(",", " ").encode(), qrels_txt=b"1 0 2 1\n3 0 4 1\n"):
        for names in (("run.txt", "qrels.txt"), ("qrels.txt", "run.txt")):
            try:
                table = readers.trec(*names)
            except ValueError as refusal:
                one_sentence(refusal)
            else:
                assert not table.isna().any(axis=None)
