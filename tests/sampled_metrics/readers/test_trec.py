"""Runs of TREC against counting row by row, and against splitting each line."""

import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sampled_metrics.readers import trec
from sampled_metrics.readers.trec import _lines

from .counts import as_dict

RUN = """\
q1 Q0 d1 1 3.5 bm25
q1 Q0 d2 2 3.5 bm25
q1 Q0 d3 9 1e1 bm25

q2\tQ0\td1  1 -1 bm25
q2 Q0 d7 2 -2 bm25\r
"""


def write(folder, **files):
    for name, text in files.items():
        (folder / name).write_text(text, newline="")
    return [folder / name for name in files]


def test_a_trec_run_is_ordered_by_its_scores(tmp_path):
    paths = write(tmp_path, run=RUN, qrels="q1 0 d2 1\nq1 0 d3 0\nq2 0 d7 2\nq2 0 d1 -1\n")
    assert as_dict(trec(*paths)) == {
        ("bm25", "q1", "d2"): (1, 1, 2),
        ("bm25", "q2", "d7"): (1, 0, 1),
    }


def test_each_tag_of_a_trec_run_is_a_recommender(tmp_path):
    run = "q Q0 a 1 2 one\nq Q0 b 2 1 one\nq Q0 a 1 1 two\nq Q0 b 2 2 two\n"
    assert as_dict(trec(*write(tmp_path, run=run, qrels="q 0 a 1"))) == {
        ("one", "q", "a"): (0, 0, 1),
        ("two", "q", "a"): (1, 0, 1),
    }


QRELS = "q1 0 d2 1\nq1 0 d3 0\nq2 0 d7 2\nq2 0 d1 -1\n"
BEIR = "query-id\tcorpus-id\tscore\nq1\td2\t1\nq1\td3\t0\nq2\td7\t2\nq2\td1\t-1\n"


def test_several_runs_are_a_folder_a_pattern_or_a_list_and_may_be_packed(tmp_path):
    runs = tmp_path / "runs"
    runs.mkdir()
    paths = write(runs, **{"one.txt": RUN, "two.run": RUN.replace("bm25", "e5")})
    (runs / "two.run.gz").write_bytes(gzip.compress(paths[1].read_bytes()))
    paths[1].unlink()
    qrels, beir, beside = write(tmp_path, qrels=QRELS, beir=BEIR, **{"runs/qrels.txt": QRELS})
    (tmp_path / "beir.gz").write_bytes(gzip.compress(beir.read_bytes()))
    right = {
        (tag, *key): counts
        for tag in ("bm25", "e5")
        for key, counts in {("q1", "d2"): (1, 1, 2), ("q2", "d7"): (1, 0, 1)}.items()
    }
    for run, judgements in (
        (runs, beside),
        (f"{runs}/*o*", qrels),
        ([runs / "one.txt", runs / "two.run.gz"], beir),
        ([f"{runs}/o*", runs / "two.run.gz"], tmp_path / "beir.gz"),
    ):
        assert as_dict(trec(run, judgements)) == right


def test_json_of_mteb_or_ranx_and_lists_are_the_run_that_they_hold(tmp_path):
    scores = {"q1": {"d1": 3.5, "d2": 3.5, "d3": 10.0}, "q2": {"d1": -1.0, "d7": -2.0}}
    grades = {"q1": {"d2": 1, "d3": 0}, "q2": {"d7": 2, "d1": -1}}
    mteb = {"mteb_model_meta": {"model_name": "m"}, "default": {"test": scores}}
    lists = {"q1": ["d3", "d1", "d2"], "q2": ["d1", "d7"]}
    texts = {"mteb": mteb, "ranx": scores, "ids": lists, "qrels": grades,
             "relevant": {"q1": ["d2"], "q2": ["d7"]}}  # fmt: skip
    files = {f"{name}.json": json.dumps(content) for name, content in texts.items()}
    files["elliot.tsv"] = "q1\td1\t3.5\nq1\td2\t3.5\nq1\td3\t10\nq2\td1\t-1\nq2\td7\t-2\n"
    paths = dict(zip([*texts, "elliot"], write(tmp_path, **files), strict=True))
    right = {("q1", "d2"): (1, 1, 2), ("q2", "d7"): (1, 0, 1)}
    for name, counts in [("mteb", right), ("ranx", right), ("elliot", right),
                         ("ids", {**right, ("q1", "d2"): (2, 0, 2)})]:  # fmt: skip
        for qrels in ("qrels", "relevant"):
            found = as_dict(trec(paths[name], paths[qrels]))
            assert found == {(name, *key): value for key, value in counts.items()}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"q1": [{"id": "d1"}]}', "run must list ids of documents, got {'id': 'd1'}"),
        ('{"q1": 3}', "must map each query to a mapping of documents, got int"),
        ('{"q1": {"d1', "cannot be read as JSON: Unterminated string"),
        ('{"a": {"q": {"d": 1}}, "b": {"q": {"d": 1}}}', "must hold one subset and split, got"),
    ],
)
def test_json_that_is_no_run_is_refused(tmp_path, text, message):
    with pytest.raises(ValueError, match=message):
        trec(*write(tmp_path, **{"run.json": text, "qrels": QRELS}))


def test_runs_that_share_their_tag_are_named_by_their_files(tmp_path):
    paths = write(tmp_path, **{"a.txt": RUN, "b.txt": RUN.replace("3.5", "4", 1)})
    (qrels,) = write(tmp_path, qrels=QRELS)
    with pytest.warns(UserWarning, match="files share the tag bm25: recommenders are named"):
        counts = as_dict(trec(paths, qrels))
    assert counts[("a", "q1", "d2")] == (1, 1, 2)
    assert counts[("b", "q1", "d2")] == (2, 0, 2)
    first, second = RUN.split("\n\n")
    parts = write(tmp_path, one=first + "\n", two=second)
    assert set(as_dict(trec(parts, qrels))) == {("bm25", "q1", "d2"), ("bm25", "q2", "d7")}


@pytest.mark.parametrize(
    ("run", "qrels", "message"),
    [
        (RUN, "q1 0 d9 1\n", "run must hold every relevant item, got none of item d9 of user q1"),
        (RUN, "q9 0 d1 1\n", r"item d1 of user q9 \(1 of 1 are missing for bm25\)"),
        (RUN + "q2 Q0 d1 3 0 bm25\n", "q2 0 d7 1\n", "run must have .* user q2, item d1 twice"),
        (RUN, "q2 0 d7 1\nq2 0 d7 0", "qrels must have .* user q2, item d7 twice"),
        (RUN + "q2 Q0 d8 3 bm25\n", "q2 0 d7 1\n", "lines of 6 fields .* got 5 in line 7"),
        (RUN, "q2 d7\n", "lines of 4 fields .* got 2 in line 1"),
        (RUN + "q2 Q0 d8 3 high bm25\n", "q2 0 d7 1\n", "score must be a number, got 'high'"),
        (RUN, "q2 0 d7 0\n", "there must be a relevant item to rank in .*run, got none"),
        ("\n", "q2 0 d7 0\n", "run must hold one line or more, got none"),
        (RUN, "q2 0 d\0 1\n", "qrels cannot be read: it holds the character NUL"),
        (RUN, "query-id\tcorpus-id\tscore\nq1 0 d2 1\n", "lines of 3 fields .* got 4 in line 2"),
    ],
)
def test_a_bad_trec_file_is_refused_in_one_sentence(tmp_path, run, qrels, message):
    with pytest.raises(ValueError, match=message) as refusal:
        trec(*write(tmp_path, run=run, qrels=qrels))
    assert "\n" not in str(refusal.value)


fields = st.text("ab1é_.\x1c\u2003-", min_size=1, max_size=20) | st.sampled_from(
    ["x" * 32, "x" * 33, "x" * 63 + "é", "x" * 64, "x" * 65, "x" * 64 + "y" * 2, "7", "07", "7.0"]
)


blanks = st.text(" \t\r\v\f", min_size=1, max_size=3)


@given(st.lists(st.tuples(*[fields] * 4, blanks, st.sampled_from(["\n", " \n\n", "\r\n"]))))
def test_lines_are_those_that_splitting_them_one_by_one_finds(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("trec") / "lines"
    names = ["user", "Q0", "item", "rel"]
    text = "".join(blank.join(["", *row]) + end for *row, blank, end in rows)
    path.write_bytes(text.encode())
    if not rows:
        with pytest.raises(ValueError, match="must hold one line or more"):
            _lines(path, names)
        return
    table = _lines(path, names)
    for column_index, name in enumerate(names):
        if name in ("user", "item"):
            assert table[name].tolist() == [row[column_index] for row in rows]
    if table["rel"].dtype == float:
        assert table["rel"].tolist() == [float(row[3]) for row in rows]
    else:
        assert table["rel"].tolist() == [row[3] for row in rows]
    path.write_bytes(text.encode() + b"\n" + b" a b c")
    line = text.count("\n") + 2
    with pytest.raises(ValueError, match=f"lines of 4 fields .* got 3 in line {line}$"):
        _lines(path, names)


@pytest.mark.parametrize(
    ("scores", "better"),
    [
        (["9007199254740993", "9007199254740992"], 1),  # alike as floats
        (["1e308", "9e307"], 1),
        (["0." + "3" * 40, "0." + "3" * 9], 1),
        (["-0.0", "0"], 0),
        (["-inf", "-1e308"], 0),
    ],
)
def test_scores_of_trec_keep_their_order(tmp_path, scores, better):
    run = "".join(f"q Q0 {name} 1 {score} t\n" for name, score in zip("ab", scores, strict=True))
    frame = trec(*write(tmp_path, run=run, qrels="q 0 b 1\n"))
    assert frame["n_better"].tolist() == [better]
    assert frame["n_tied"].tolist() == [int(scores[0] == "-0.0")]


def test_a_trec_file_that_cannot_be_read_is_refused(tmp_path):
    with pytest.raises(ValueError, match="absent cannot be read: No such file"):
        trec(tmp_path / "absent", tmp_path / "absent")
    (tmp_path / "run").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValueError, match="run cannot be read: it is not text in UTF-8"):
        trec(tmp_path / "run", tmp_path / "absent")
