"""The commands: what their help shows works, what they write parses, what is wrong is one line."""

import csv
import html
import io
import json
import os
import platform
import re
import shlex
import subprocess
import sys
import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sampled_metrics import evaluation
from sampled_metrics.cli import COMMANDS, main
from sampled_metrics.log import read as logs
from sampled_metrics.log.read import read_log
from sampled_metrics.ranking.intervals import RankIntervals
from sampled_metrics.report import html as report
from sampled_metrics.report.text import formatted
from sampled_metrics.results import Result
from tests.reference import bundled_ranks, write_log

pytestmark = pytest.mark.words

FACTORS = "--user-factors toy/U.npy --item-factors toy/V.npy"
FEW = ["--metrics", "auc", "--no-identification"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder to work in."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def log(folder):
    """A small log of two recommenders in the folder."""
    rng = np.random.default_rng(1)
    rows = [
        {"recommender": name, "user": user, "rank": int(rng.binomial(20, share)) + 1}
        for name, share in (("A", 0.1), ("B", 0.5))
        for user in range(40)
    ]
    path = folder / "log.csv"
    pd.DataFrame(rows).to_csv(path, index=False)
    return path


SIZES = ["--n-items", "200", "--n-negatives", "20", "--replacement"]


def refused(arguments, capsys):
    """The sentence that a command ends with; it has written nothing else."""
    status = main(arguments)
    stdout, stderr = capsys.readouterr()
    assert status == 2, stderr
    assert stdout == ""
    assert re.fullmatch(r"error: .+\n", stderr), stderr
    return stderr


def help_of(command, capsys):
    capsys.readouterr()
    assert main([command, "--help"]) == 0
    return capsys.readouterr().out


ROOT = Path(__file__).resolve().parents[2]
PAGES = ["README.md", "book/chapters/09_your_log.md"]


def shown_in(page):
    """The command lines that stand in the fenced blocks of a page."""
    text = (ROOT / page).read_text(encoding="utf-8").replace("\\\n", " ")
    blocks = re.findall(r"^```\w*\n(.*?)^```$", text, flags=re.M | re.S)
    lines = [line for block in blocks for line in block.splitlines()]
    return [line for line in lines if line.startswith("sampled-metrics ")]


def words_of(line):
    program, *words = shlex.split(line)
    assert program == "sampled-metrics"
    return words


EXAMPLES = [line for command in COMMANDS.values() for line in command.example.splitlines()]
SHOWN = [*EXAMPLES, *(line for page in PAGES for line in shown_in(page))]
#: Of lines with the same words in another order, the last: argparse takes them in any.
LINES = list({frozenset(words_of(line)): line for line in SHOWN}.values())


@pytest.fixture
def small_log(monkeypatch, tmp_path_factory):
    """A bundled log of a hundred users, and of catalogues and samples a tenth as large."""
    bundle = tmp_path_factory.mktemp("bundle")
    small = {
        name: RankIntervals(
            ranks.n_better[:100] // 10, ranks.n_tied[:100] // 10, 370 + np.arange(100) % 3
        )
        for name, ranks in bundled_ranks().items()
    }
    monkeypatch.setattr(logs, "BUNDLED_NEGATIVES", 10)
    write_log(small, 10, bundle)
    exact_values = {
        name: {recommender: ranks.evaluate(name).mean() for recommender, ranks in small.items()}
        for name in ("recall@10", "ndcg@10", "auc")
    }
    (bundle / "exact.json").write_text(json.dumps(exact_values), encoding="utf-8")
    monkeypatch.setattr(logs, "BUNDLE", bundle)


@pytest.mark.matrix
@pytest.mark.exhaustive
@pytest.mark.parametrize("line", LINES)
@pytest.mark.usefixtures("small_log")
def test_what_help_and_pages_show_works_as_pasted(line, folder, capsys):
    words = words_of(line)
    if words[0] != "example" and "toy/" in line:
        assert "sampled-metrics example toy" in LINES
        assert main(["example", "toy"]) == 0
        capsys.readouterr()
    assert main(words) == 0, capsys.readouterr().err
    stdout, stderr = capsys.readouterr()
    assert stdout.strip()
    assert "error" not in stderr


def test_a_page_shows_every_command():
    pages = [
        *PAGES,
        *(f"book/library/{path.name}" for path in (ROOT / "book/library").glob("*.md")),
    ]
    shown = {page: {words_of(line)[0] for line in shown_in(page)} for page in pages}
    assert all(shown[page] for page in PAGES)
    assert set().union(*shown.values()) == set(COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_fits_a_terminal(command, capsys):
    text = help_of(command, capsys)
    example = text.split("example:\n")[1]
    for line in text.replace(example, "").splitlines():
        assert len(line) <= 100, line


def test_help_does_not_wait_for_the_numerical_libraries():
    code = "import sys, sampled_metrics.cli; print(sorted({'scipy', 'pandas'} & set(sys.modules)))"
    completed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert completed.stdout == "[]\n"


@pytest.mark.processes
def test_it_runs_as_a_program(log):
    start = [sys.executable, "-m", "sampled_metrics"]
    completed = subprocess.run(
        [*start, "estimate", "log.csv", *SIZES, *FEW, "--format", "csv"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert completed.returncode == 0, completed.stderr
    assert len(completed.stdout.splitlines()) == 3
    assert completed.stderr == ""
    completed = subprocess.run([*start, "estimate", "none.csv"], capture_output=True, text=True)
    assert completed.returncode == 2
    assert completed.stdout == ""
    assert completed.stderr.startswith("error: none.csv ")


@pytest.mark.processes
def test_the_reader_of_the_output_may_leave(folder):
    code = (
        "import os, sys; from sampled_metrics.cli import main; r, w = os.pipe(); os.close(r); "
        f"os.dup2(w, 1); sys.exit(main(['estimate', 'bundled', *{FEW}]))"
    )
    completed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert completed.returncode == 141
    assert "Traceback" not in completed.stderr
    assert "error" not in completed.stderr


def test_an_interruption_is_no_traceback(log, monkeypatch, capsys):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(evaluation, "estimate", interrupted)
    assert main(["estimate", "log.csv", *SIZES, "-o", "out.csv"]) == 130
    assert capsys.readouterr().err == "interrupted\n"
    assert sorted(path.name for path in log.parent.iterdir()) == ["log.csv"]


@pytest.mark.parametrize("kind", ["json", "csv"])
def test_formats_hold_every_digit(kind, log, capsys):
    assert main(["estimate", "log.csv", *SIZES, *FEW, "--format", kind]) == 0
    stdout = capsys.readouterr().out
    rows = json.loads(stdout) if kind == "json" else list(csv.DictReader(io.StringIO(stdout)))
    read = read_log(log, n_items=200, n_negatives=20, replacement=True)
    frame = evaluation.estimate(read, ["auc"], identification=False).frame
    assert list(rows[0]) == list(frame.columns)
    assert [row["recommender"] for row in rows] == frame["recommender"].tolist()
    assert [float(row["estimate"]) for row in rows] == frame["estimate"].tolist()


def strict(text):
    """The rows of a text by a parser that refuses Infinity and NaN, as other languages do."""

    def refuse(constant):
        raise AssertionError(f"not JSON: {constant}")

    return json.loads(text, parse_constant=refuse)


#: A command of each kind with a table.
TABLES = [
    "estimate toy/log.csv TOY --metrics auc rr --no-identification",
    "estimate toy/log.csv TOY --metrics auc --estimator monotone",
    "compare toy/log.csv TOY --metric auc",
    "gate toy/old.csv toy/new.csv TOY --metric auc",
    "published toy/table.csv TOY --users 300",
    "plan --from toy/log.csv TOY --metric auc",
    f"rank {FACTORS} --test toy/test.csv",
    "audit toy/negatives.csv --n-items 500",
]


def test_json_is_read_by_a_strict_parser(folder, capsys):
    assert main(["example", "toy"]) == 0
    for line in TABLES:
        words = line.replace("TOY", "--n-items 480 --n-negatives 50 --no-replacement").split()
        capsys.readouterr()
        assert main([*words, "--format", "json", "--quiet"]) in (0, 1, 3)
        assert strict(capsys.readouterr().out), line
    frame = pd.DataFrame({"a": [np.inf, -np.inf], "b": [np.float32(np.inf), None]})
    frame = frame.astype({"b": object}).assign(c=[pd.NaT, pd.NA])
    nothing = {"a": None, "b": None, "c": None}
    assert strict(formatted(frame, "json")) == [nothing, nothing]


def test_what_a_table_leaves_out_is_said_beside_it(folder, capsys):
    rows = {"user": [1, 2, 3], "rank": [1, 2, 3], "n_items": [11, 5, 5], "n_negatives": [9, 3, 3]}
    pd.DataFrame(rows).to_csv("log.csv", index=False)
    words = ["estimate", "log.csv", "--metrics", "ap", "--format", "json"]
    assert main([*words, "--no-replacement", "--report", "page.html"]) == 0
    stderr = capsys.readouterr().err
    page = (folder / "page.html").read_text(encoding="utf-8")
    notes = stderr.splitlines()
    assert "note: verdicts are left out: there is one recommender only" in notes
    for note in notes:
        assert f"<li>{note.removeprefix('note: ')}.</li>" in html.unescape(page)


def test_a_missing_value_is_null_and_an_empty_cell():
    frame = pd.DataFrame(
        {"a": [1.0, np.nan], "b": pd.array([None, 2], dtype="Int64"), "c": [True, False]}
    )
    assert json.loads(formatted(frame, "json")) == [
        {"a": 1.0, "b": None, "c": True}, {"a": None, "b": 2, "c": False},
    ]  # fmt: skip
    assert formatted(frame, "csv") == "a,b,c\n1.0,,True\n,2,False\n"
    assert formatted(frame, "markdown").splitlines()[2:] == [
        "| 1.0000 |  | yes |", "|  | 2 | no |",
    ]  # fmt: skip


def test_a_table_is_in_line_and_names_cannot_break_it():
    frame = pd.DataFrame({"name": ["a|b", "c\x1b[2J\nd"], "n": [1, 20_000]})
    lines = formatted(frame, "table").splitlines()
    assert len(lines) == 3
    assert [len(line) for line in lines] == [len(lines[0])] * 3
    assert "\x1b" not in lines[2]
    assert r"a\|b" in formatted(frame, "markdown")
    with pytest.raises(ValueError, match="kind must be one of"):
        formatted(frame, "xml")


def test_the_suffix_of_the_output_is_its_format(log, capsys):
    for name, start in (
        ("t.json", "["),
        ("t.csv", "recommender,"),
        ("t.md", "| rec"),
        ("t", "rec"),
    ):
        assert main(["estimate", "log.csv", *SIZES, *FEW, "-o", name]) == 0
        assert (log.parent / name).read_text(encoding="utf-8").startswith(start)
    assert capsys.readouterr().out == ""
    mask = os.umask(0)
    os.umask(mask)
    assert (log.parent / "t.csv").stat().st_mode & 0o777 == 0o666 & ~mask


def test_ranks_may_count_from_zero(folder, capsys):
    ranks = np.arange(60) % 11
    pd.DataFrame({"user": range(60), "rank": ranks}).to_csv("zero.csv", index=False)
    words = ["estimate", "zero.csv", *SIZES, "--metrics", "rr", "--no-identification", "--quiet"]
    assert main([*words, "--format", "csv", "--first-rank", "0"]) == 0
    (row,) = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert float(row["reported"]) == pytest.approx((1 / (1 + ranks)).mean(), abs=1e-15)
    assert "--first-rank 0" in refused(words, capsys)


#: A line of words, in which LOG stands for the log and its sizes, and what the error says.
WRONG = [
    ("", "COMMAND is missing: sampled-metrics --help"),
    ("guess", "invalid choice"),
    ("estimate", "LOG is missing: sampled-metrics estimate --help"),
    ("estimate none.csv", "none.csv cannot be read"),
    ("estimate log.csv --replacement", "n_items is needed"),
    ("estimate UNSAID", "replacement is missing: say whether"),
    ("compare UNSAID --metric ap", "(replacement=True, --replacement)"),
    ("plan --from UNSAID --metric ap", "sampled-metrics audit"),
    ("compare bundled --replacement --metric ap", "False for the bundled"),
    ("estimate LOG --confidence x", "must be a number, got 'x'"),
    ("estimate log.csv --n-items 200.5", "must be a whole number, got '200.5'"),
    ("estimate LOG --format xml", "invalid choice: 'xml'"),
    ("compare LOG", "--metric is missing: sampled-metrics compare --help"),
    ("published LOG --replacement", "log.csv needs a column of a metric"),
    ("published log.csv --replacement -o log.csv", "would be overwritten"),
    ("plan --metric ap", "--from is missing"),
    ("plan --from LOG --metric ap --users 99999999999999999999", "--users must"),
    ("estimate LOG -o out.parquet", "the extension of out.parquet does not say"),
    ("compare LOG --metric ap -o out.html", "--format is missing"),
    ("estimate LOG --shared-negatives", "--no-identification leaves the ranges out"),
    ("compare LOG --metric ap --shared-negatives", "estimate with --no-identification says"),
    (
        "rank --user-factors u --item-factors v --test t -o r --format=csv",
        "--format must be left out beside --output",
    ),
    ("rank --user-factors log.csv --item-factors log.csv --test log.csv", "log.csv"),
    (f"rank {FACTORS} --test t --name ''", "--name must be printable text that is not"),
    (f"rank {FACTORS} --test t --name 'a\nb'", r"not empty, got 'a\nb'"),
]


@pytest.mark.some(12)
@pytest.mark.parametrize(("line", "said"), WRONG)
def test_what_is_wrong_is_said_in_one_sentence(line, said, log, capsys):
    line = line.replace("LOG", " ".join(["log.csv", *SIZES])).replace(
        "UNSAID", " ".join(["log.csv", *SIZES[:4]])
    )
    assert said in refused(shlex.split(line), capsys)


def test_a_folder_of_files_is_a_log_and_none_of_them_is_overwritten(log, capsys):
    assert main(["estimate", "log.csv", *SIZES, *FEW]) == 0
    expected = capsys.readouterr().out
    rows = pd.read_csv(log)
    Path("parts").mkdir()
    for name, part in (("0", rows.iloc[:9]), ("1", rows.iloc[9:])):
        part.to_csv(f"parts/{name}.csv", index=False)
    for source in ("parts", "parts/*.csv"):
        assert main(["estimate", source, *SIZES, *FEW]) == 0
        assert capsys.readouterr().out == expected
        message = refused(["estimate", source, *SIZES, *FEW, "-o", "parts/1.csv"], capsys)
        assert "parts/1.csv is an input, and would be overwritten" in message


def test_a_closed_output_is_said_in_one_sentence(log, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    assert main(["estimate", "log.csv", *SIZES, *FEW]) == 2
    assert capsys.readouterr().err == (
        "error: standard output is closed: name a file to write to\n"
    )


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("no/such/place.html", "No such file or directory"),
        (".", "a folder or a device"),
        (os.devnull, "a folder or a device"),
        ("log.csv", "is an input, and would be overwritten"),
        ("out.csv", "is named for two outputs"),
    ],
)
def test_an_output_that_cannot_be_written_is_named_before_any_work(
    name, said, log, monkeypatch, capsys
):
    monkeypatch.setattr(evaluation, "estimate", None)  # calling it would raise another error
    before = log.read_bytes()
    arguments = ["estimate", "log.csv", *SIZES, "-o", "out.csv", "--report", name]
    assert said in refused(arguments, capsys)
    assert sorted(path.name for path in log.parent.iterdir()) == ["log.csv"]
    assert log.read_bytes() == before


def test_without_matplotlib_there_is_no_report(log, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    arguments = ["estimate", "log.csv", *SIZES, *FEW, "--report", "out.html"]
    assert "needs matplotlib" in refused(arguments, capsys)
    assert not (log.parent / "out.html").exists()


def test_nothing_partial_is_left_and_what_was_there_stays(log, monkeypatch, capsys):
    (log.parent / "out.html").write_text("before", encoding="utf-8")

    def broken(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(report, "of_estimates", broken)
    arguments = ["estimate", "log.csv", *SIZES, *FEW, "-o", "out.csv", "--report", "out.html"]
    assert refused(arguments, capsys) == "error: No space left on device\n"
    assert sorted(path.name for path in log.parent.iterdir()) == ["log.csv", "out.html"]
    assert (log.parent / "out.html").read_text(encoding="utf-8") == "before"


def test_the_version_is_what_a_report_of_a_bug_needs(capsys):
    assert main(["--version"]) == 0
    own, python, others = capsys.readouterr().out.splitlines()
    assert own == f"sampled-metrics {version('sampled-metrics')}"
    assert python.startswith(f"Python {platform.python_version()} on ")
    assert others.split(", ")[0] == f"numpy {np.__version__}"
    assert re.search(r", scipy [\d.]+, pandas [\d.]+", others)


def test_a_warning_is_a_line_and_said_once(log, monkeypatch, capsys):
    estimates = Result(pd.DataFrame({"recommender": ["A"], "value": [0.5]}))

    def warned(*_, **__):
        for _ in range(2):
            warnings.warn("of two\nlines", stacklevel=2)
        return estimates

    monkeypatch.setattr(evaluation, "estimate", warned)
    assert main(["estimate", "log.csv", *SIZES]) == 0
    assert capsys.readouterr().err == "warning: of two lines\n"


def test_estimate_has_one_row_for_each_recommender_and_metric(log, capsys):
    words = ["estimate", "log.csv", *SIZES, "--metrics", "ap", "auc", "--format", "json"]
    rows_by_option = {}
    for options in ((), ("--estimator", "naive"), ("--assume", "nothing")):
        assert main([*words, *options]) == 0
        rows_by_option[options[-1:]] = json.loads(capsys.readouterr().out)
    rows = rows_by_option[()]
    pairs = [(row["recommender"], row["metric"]) for row in rows]
    assert pairs == [("A", "ap"), ("A", "auc"), ("B", "ap"), ("B", "auc")]
    naive = {
        (row["recommender"], row["metric"]): row["estimate"] for row in rows_by_option[("naive",)]
    }
    assert [naive[pair] for pair in pairs] == [row["reported"] for row in rows]
    widths = [
        [row["possible_high"] - row["possible_low"] for row in table]
        for table in (rows, rows_by_option[("nothing",)])
    ]
    assert widths[0][0] < widths[1][0]
    assert widths[0][1] == widths[1][1]  # nothing needs to be assumed of AUC
    compared = ["compare", "log.csv", *SIZES, "--metric", "recall@20", "--format", "json"]
    for assumed in ("decreasing", "nothing"):
        assert main([*compared, "--assume", assumed]) == 0
        (row,) = json.loads(capsys.readouterr().out)
        widths.append(row["possible_high"] - row["possible_low"])
    assert widths[2] < widths[3]


def test_plan_for_the_catalogue_of_the_log_or_another(log, capsys):
    options = ["--metric", "ap", "--estimators", "naive", "--users", "30", "--max-negatives", "50"]
    assert main(["plan", "--from", "log.csv", *SIZES, *options, "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["estimator"] for row in rows] == ["naive", "exact"]
    assert rows[1]["scores_by_negatives"] == 30 * 200
    pd.read_csv(log).assign(n_items=200, n_negatives=20).to_csv("own.csv", index=False)
    command = ["plan", "--from", "own.csv", "--replacement", *options, "--format", "json"]
    assert main(command) == 0
    assert json.loads(capsys.readouterr().out) == rows
    assert main([*command, "--n-items", "5000"]) == 0
    assert json.loads(capsys.readouterr().out)[1]["scores_by_negatives"] == 30 * 5000


def test_rank_agrees_with_sorting(folder, capsys):
    assert main(["example", "toy"]) == 0
    words = f"rank {FACTORS} --test toy/test.csv -o ranks.csv"
    assert main(words.split()) == 0
    scores = np.load("toy/U.npy") @ np.load("toy/V.npy").T
    test, ranks = pd.read_csv("toy/test.csv"), pd.read_csv("ranks.csv")
    order = np.argsort(-scores[test["user"]], axis=1)
    places = np.argmax(order == test["item"].to_numpy()[:, None], axis=1)
    assert ranks["n_better"].tolist() == places.tolist()
    assert sorted(path.name for path in folder.iterdir()) == ["ranks.csv", "toy"]


def test_compare_reads_the_named_ranks_of_several_recommenders(folder, capsys):
    assert main(["example", "toy"]) == 0
    for name in ("ranks", "plain"):
        Path(name).mkdir()
    words = f"rank {FACTORS} --train toy/train.npz --test toy/test.csv"
    for score in ("dot", "cosine"):
        options = [*words.split(), "--score", score]
        assert main([*options, "--name", score.upper(), "-o", f"ranks/{score}.csv"]) == 0
        assert main([*options, "-o", f"plain/{score}.csv"]) == 0
        named, plain = (pd.read_csv(f"{folder}/{score}.csv") for folder in ("ranks", "plain"))
        assert next(iter(named)) == "recommender"
        assert set(named.pop("recommender")) == {score.upper()}
        pd.testing.assert_frame_equal(named, plain)
    capsys.readouterr()
    for log in ("ranks", "ranks/*.csv"):
        assert main(["compare", log, "--metric", "ndcg@10"]) == 0
        assert "DOT beats COSINE on NDCG@10 (95% confidence, " in capsys.readouterr().out
    assert main(["compare", "plain", "--metric", "ndcg@10"]) == 2
    problem = capsys.readouterr().err
    assert "no column recommender" in problem
    assert "--name NAME" in problem


def test_rank_prints_metrics_of_ties_and_sets(folder, capsys):
    # Scores of whole numbers are tied often; user 0 has two held-out items, and 1 and 2 have one.
    np.save("U.npy", np.eye(3))
    scores = np.array([[3, 2, 2, 1, 1, 0], [5, 5, 5, 1, 0, 0], [1, 2, 3, 4, 5, 6]])
    np.savetxt("V.csv", scores.T, delimiter=",", fmt="%d")
    np.savez("V.npz", scores.T.astype(float))
    held = {"user": [0, 0, 1, 2], "item": [1, 3, 0, 5]}
    pd.DataFrame(held).to_csv("test.csv", index=False)
    words = ["rank", "--user-factors", "U.npy", "--test", "test.csv", "--metrics", "recall@2", "rr"]
    # User 0: ranks 2 or 3, and 4 or 5. User 1: 1, 2 or 3. User 2: 1.
    expected = {
        "recall@2": ((1 / 2) / 2 + 2 / 3 + 1) / 3,
        "rr": ((1 / 2 + 1 / 3) / 2 + (1 + 1 / 2 + 1 / 3) / 3 + 1) / 3,
    }
    for items in ("V.csv", "V.npz"):
        capsys.readouterr()
        assert main([*words, "--item-factors", items, "--format", "csv", "--quiet"]) == 0
        table = pd.read_csv(io.StringIO(capsys.readouterr().out)).set_index("metric")
        assert table["value"].to_dict() == pytest.approx(expected)
    assert table["users"].tolist() == [3, 3]
    lazily = ["--stop-at", "2", "--candidates", "test.csv", "--format", "csv", "--quiet"]
    capsys.readouterr()
    assert main([*words[:-1], "--item-factors", "V.csv", *lazily]) == 0
    table = pd.read_csv(io.StringIO(capsys.readouterr().out)).set_index("metric")
    assert table["value"].to_dict() == pytest.approx({"recall@2": expected["recall@2"]})
    assert "stop_at" in refused(
        [*words, "--item-factors", "V.csv", "--candidates", "test.csv"], capsys
    )
    assert main([*words, "--item-factors", "V.csv", "-o", "ranks.csv", "--quiet"]) == 0
    assert "4 ranks in ranks.csv" in (stdout := capsys.readouterr().out)
    assert "recall@2  0.6389" in stdout
    assert "up to 2 held-out items" in refused(["estimate", "ranks.csv"], capsys)
    assert "recall@z" in refused([*words[:-1], "recall@z", "--item-factors", "V.csv"], capsys)
    for items, content in (("no.csv", None), ("V2.csv", "a,b\n"), ("V2.npz", "x")):
        if content is not None:
            Path(items).write_text(content, encoding="utf-8")
        assert items in refused([*words, "--item-factors", items], capsys)


def test_estimate_takes_exact_ranks(folder, capsys):
    assert main(["example", "toy"]) == 0
    words = f"rank {FACTORS} --train toy/train.npz --test toy/test.csv"
    assert main([*words.split(), "-o", "ranks.csv", "--metrics", "ndcg@10"]) == 0
    printed = capsys.readouterr().out
    assert main(["estimate", "ranks.csv", "--metrics", "ndcg@10", "--format", "csv"]) == 0
    (row,) = pd.read_csv(io.StringIO(capsys.readouterr().out)).to_dict("records")
    assert f"{row['reported']:.4f}" in printed
    # Every negative was drawn: what was reported is the exact metric.
    assert row["estimate"] == row["reported"]
    assert row["possible_low"] < row["reported"] < row["possible_high"]
    with pytest.raises(ValueError, match="replacement must be False for the exact ranks"):
        read_log("ranks.csv", replacement=True)


def test_an_error_is_no_longer_than_a_screen(log, capsys):
    Path("wide.csv").write_text("x" * 3_000_000 + ",user\n1,2\n", encoding="utf-8")
    for words in (
        ["estimate", "wide.csv", *SIZES],
        ["estimate", "log.csv", "--format", "x" * 10**6],
    ):
        assert len(refused(words, capsys)) < 1_100


def test_the_example_fits_together(folder, capsys):
    assert main(["example", "toy"]) == 0
    log = read_log("toy/log.csv", n_items=480, n_negatives=50, replacement=False)
    assert log.recommenders == ("A", "B")
    negatives, positives = (pd.read_csv(f"toy/{name}.csv") for name in ("negatives", "positives"))
    assert (negatives.groupby("user")["item"].nunique() == 50).all()
    assert negatives.merge(positives).empty
    capsys.readouterr()
    assert "exists already" in refused(["example", "toy"], capsys)


def test_the_example_prints_a_table_of_its_log(folder, capsys):
    assert main(["example", "toy"]) == 0
    printed_table = pd.read_csv("toy/table.csv", index_col="method")
    log = pd.read_csv("toy/log.csv")
    hits = (log["n_better"] < 10).groupby(log["recommender"]).mean()
    assert (printed_table["HR@10"] - hits).abs().max() <= 5e-5
    sizes = ["--n-items", "480", "--n-negatives", "50", "--users", "300", "--no-replacement"]
    capsys.readouterr()
    assert main(["published", "toy/table.csv", *sizes, "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert len(rows) == 12
    assert all(row["low"] <= row["guess"] <= row["high"] for row in rows)
    assert main(["published", "toy/table.csv", *sizes, "--orders"]) == 0
    assert "ndcg@10  A or B: undecided" in capsys.readouterr().out


@pytest.mark.processes
def test_names_that_the_terminal_cannot_show_are_no_error(log):
    text = log.read_text(encoding="utf-8").replace("A,", "Ä,")
    log.write_text(text, encoding="utf-8")
    completed = subprocess.run(
        [sys.executable, "-m", "sampled_metrics", "estimate", "log.csv", *SIZES, *FEW],
        capture_output=True, check=False, env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )  # fmt: skip
    assert completed.returncode == 0, completed.stderr
    assert rb"\xc4" in completed.stdout
