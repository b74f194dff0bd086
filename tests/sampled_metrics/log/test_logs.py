"""Logs: what is read is what was written, and bad input is named in one sentence."""

import bz2
import gzip
import lzma
import os
import pickle
import subprocess
import sys
import warnings
from decimal import Decimal
from fractions import Fraction
from functools import partial

import numpy as np
import pandas as pd
import pytest

from sampled_metrics.log import tables as _tables
from sampled_metrics.log.compact import COLUMNS
from sampled_metrics.log.read import read_log
from sampled_metrics.readers import from_scores, trec

pytestmark = pytest.mark.words

SIZES = {"n_items": 50, "n_negatives": 9, "replacement": True}


def rows(**columns):
    return pd.DataFrame({"user": [1, 2], "rank": [3, 10]}).assign(**columns)


def test_one_row_a_user_keeps_its_counts():
    log = read_log(rows(), **SIZES)
    assert list(log.frame.columns) == list(COLUMNS)
    expected = {"recommender": "recommender", "user": [1, 2], "n_better": [2, 9], "n_tied": 0}
    for name, column in (
        expected | {"position": 1, "n_relevant": 1, "n_items": 50, "n_negatives": 9}
    ).items():
        assert (log.frame[name] == column).all(), name
    assert log.replacement


def test_rows_of_a_user_are_ranked_together_in_order_of_rank():
    table = pd.DataFrame({"user": ["a", "b", "a", "a"], "rank": [5, 1, 2, 12], "item": range(4)})
    frame = read_log(table, **SIZES).frame
    assert frame["user"].tolist() == ["a", "a", "a", "b"]
    assert frame["position"].tolist() == [1, 2, 3, 1]
    assert frame["n_relevant"].tolist() == [3, 3, 3, 1]
    assert frame["n_better"].tolist() == [1, 3, 9, 0]


def test_rows_of_different_instances_are_ranked_apart():
    table = pd.DataFrame({"user": [1, 1, 1], "instance": ["p", "q", "q"], "rank": [3, 3, 1]})
    frame = read_log(table, **SIZES).frame
    assert frame["n_relevant"].tolist() == [1, 2, 2]
    assert frame["n_better"].tolist() == [2, 0, 1]
    assert frame["instance"].tolist() == [0, 1, 1]


def test_recommenders_keep_the_order_of_the_file_and_users_are_sorted():
    table = pd.DataFrame({"recommender": ["z", "a", "z", "a"], "user": [2, 2, 1, 1], "rank": 1})
    log = read_log(table, **SIZES)
    assert log.recommenders == ("z", "a")
    assert log.frame["user"].tolist() == [1, 2, 1, 2]


def test_the_order_of_rows_and_of_columns_does_not_matter():
    log = read_log("bundled")
    shuffled = log.frame.drop(columns=["position", "n_relevant", "instance"]).sample(
        frac=1, random_state=3
    )[["n_tied", "n_items", "user", "recommender", "n_negatives", "n_better"]]
    shuffled_frame = read_log(shuffled, replacement=False).frame
    sort_keys = ["recommender", "user"]
    pd.testing.assert_frame_equal(
        shuffled_frame.sort_values(sort_keys, ignore_index=True).drop(columns="instance"),
        log.frame.sort_values(sort_keys, ignore_index=True).drop(columns="instance"),
    )


COUNTED = pd.DataFrame(
    {"user": [5, 5, 3], "item": [1, 2, 1], "rank": [1, 4, 2], "count": [7, 7, 2]}
)
BAD_TABLES = {
    "no user": (rows().rename(columns={"user": "u"}), "there is no user"),
    "no rank": (rows().drop(columns="rank"), "there is no rank"),
    "misnamed": (rows().rename(columns={"rank": "rank_of"}), "is it 'rank_of'"),
    "misspelt": (rows(n_item=[5, 5]), "did you mean 'n_items'"),
    "half of the counts": (pd.DataFrame({"user": [1], "n_better": [0]}), "there is no n_tied"),
    "rank and counts": (rows(n_better=0, n_tied=0), "either a column rank or n_better"),
    "no rows": (rows().iloc[:0], "one row or more"),
    "rank 0": (rows(rank=[0, 1]), "rank must be >= 1, got 0 in row 1"),
    "rank beyond": (rows(rank=[1, 11]), r"rank must be <= 10, with 9 negatives, got 11 in row 2"),
    "fraction": (rows(rank=[1, 2.5]), "whole number >= 1, got .*2.5.* in row 2"),
    "NaN": (rows(rank=[1, np.nan]), "whole number >= 1, got .*nan.* in row 2"),
    "text": (rows(rank=["1", "best"]), "got 'best' in row 2"),
    "no user named": (rows(user=["a", None]), "user must not be missing, as it is in row 2"),
    "empty name": (rows(recommender=["A", " "]), "recommender must not be missing"),
    "too many above": (
        pd.DataFrame({"user": [1], "n_better": [5], "n_tied": [5]}),
        r"n_better \+ n_tied must be <= n_negatives = 9, got 5 \+ 5",
    ),
    "same rank": (rows(user=1, rank=4), "different ranks: rank 4 occurs again in row 2"),
    "row twice": (
        pd.DataFrame({"user": [1, 1], "n_better": [4, 4], "n_tied": [0, 0]}),
        "rows must be distinct: one is repeated in row 2",
    ),
    "item twice": (rows(user=1, item="i"), "once in an instance: item i occurs again in row 2"),
    "other n_items": (rows(n_items=[50, 51]), "n_items must agree with the column"),
    "mixed in an instance": (
        rows(user=1, n_items=[50, 50], n_negatives=[9, 10]),
        "n_negatives must agree with the column n_negatives, got 9 and 10 in row 2",
    ),
    "two users": (rows(user_id=1), "has the columns .*, which may each be the user"),
    "counts differ": (COUNTED.assign(count=[7, 6, 2]), "count must be the same for all rows of a"),
    "count 0": (COUNTED.assign(count=[7, 7, 0]), "count must be >= 1, got 0 in row 3 of the log"),
    "too large": (COUNTED.assign(count=2**52), r"counts must sum to <= 2\*\*53, got 1.351e\+16 in"),
    "no users": (COUNTED.drop(columns="user"), "there is no user"),
}


@pytest.mark.parametrize(("table", "message"), BAD_TABLES.values(), ids=BAD_TABLES)
def test_a_bad_table_is_refused_in_one_sentence(table, message):
    with pytest.raises(ValueError, match=message) as caught:
        read_log(table, **SIZES)
    assert "\n" not in str(caught.value)


TWO_MODELS = {"user": [1, 2, 1, 2], "rank": [1, 2, 3, 4]}


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"user_id": "user", "model": "recommender"}, "model as recommender, user_id as user"),
        ({"userId": "user", "Algo": "recommender", "Rank": "rank"}, "Algo as recommender"),
        ({"user_id:token": "user", "System": "recommender"}, "user_id:token as user"),
        ({"qid": "user", "run": "recommender", "sampled_rank": "rank"}, "sampled_rank as rank"),
        ({"uid": "user", "METHOD": "recommender", "docid": "item"}, "docid as item"),
    ],
)
@pytest.mark.parametrize("file", [False, True])
def test_the_names_of_other_libraries_are_understood_and_said(columns, said, file, tmp_path):
    table = pd.DataFrame({**TWO_MODELS, "recommender": ["1", "1", "02", "02"], "item": 5})
    if "item" not in columns.values():
        table = table.drop(columns="item")
    expected = read_log(table, **SIZES)
    assert expected.recommenders == ("1", "02")  # text also where it looks like numbers
    source = table.rename(columns={key: name for name, key in columns.items()})
    if file:
        source.to_csv(tmp_path / "log.csv", index=False)
        source = tmp_path / "log.csv"
    with pytest.warns(UserWarning, match=said) as warned:
        log = read_log(source, **SIZES)
    assert len(warned) == 1
    pd.testing.assert_frame_equal(log.frame, expected.frame)


def test_what_is_left_out_is_named():
    with pytest.warns(UserWarning, match="^the log: columns fold, note left out$"):
        read_log(rows(fold=1, note="a"), **SIZES)
    wide_table = pd.concat(
        [rows(), pd.DataFrame("x", index=[0, 1], columns=["c" * 9**4] * 900)], axis=1
    )
    with pytest.warns(UserWarning, match="and 892 more left out") as warned:
        read_log(wide_table, **SIZES)
    assert len(str(warned[0].message)) < 700


def test_a_log_that_was_read_can_be_read_again_in_silence():
    items = pd.DataFrame({"user": [1, 1, 2], "item": ["i", "j", "i"], "rank": [1, 4, 2]})
    log = read_log(items, **SIZES)
    pd.testing.assert_frame_equal(read_log(log.frame, replacement=True).frame, log.frame)
    named_otherwise = log.frame.drop(columns="instance")
    pd.testing.assert_frame_equal(read_log(named_otherwise, replacement=True).frame, log.frame)


@pytest.mark.parametrize("share", [1.0, 0.9])
def test_recommenders_under_a_name_that_nobody_knows_are_not_pooled(share):
    rng = np.random.default_rng(1)
    pooled = pd.DataFrame(
        {"user": np.tile(np.arange(40), 3), "variant": np.repeat(["a", "b", "c"], 40)}
    ).assign(rank=rng.permuted(np.tile([1, 4, 8], (40, 1)), axis=1).T.ravel())
    pooled = pooled.sample(frac=share, random_state=1)
    with (
        pytest.warns(UserWarning, match="column variant left out"),
        pytest.raises(ValueError, match="differ in the column variant: rename it to"),
    ):
        read_log(pooled, **SIZES)
    # The same where a recommender was trained several times.
    left_out = pytest.warns(UserWarning, match="column variant left out")
    with left_out, pytest.raises(ValueError, match="the column variant"):
        read_log(pooled.assign(recommender="A"), **SIZES)
    assert len(read_log(pooled.rename(columns={"variant": "item"}), **SIZES).frame) == len(pooled)


def test_several_rows_of_a_user_are_said_to_be_read_as_relevant_items():
    table = pd.DataFrame({"user": [1, 1, 2, 3], "rank": [1, 3, 2, 2]})
    with pytest.warns(UserWarning, match="up to 2 rows of a user are read as relevant items"):
        assert read_log(table, **SIZES).frame["n_relevant"].tolist() == [2, 2, 1, 1]
    read_log(table.assign(item=[5, 6, 5, 7]), **SIZES)
    read_log(table.assign(instance=0), **SIZES)
    # Films under another name are no recommenders: many of them, few for each user.
    films = table.assign(film=["p", "q", "r", "s"])
    left_out = pytest.warns(UserWarning, match="column film left out")
    with left_out, pytest.warns(UserWarning, match="up to 2 rows of a user"):
        read_log(films, **SIZES)


NO_NUMBERS = [
    10**309, -(10**309), 10**5000, "9" * 310, "1e400", "-", "1_0", "٣", "1.2.3", [1], (1,), {1},
    {}, [], {"a": [1]}, np.array([1, 2]), b"1", True, np.True_, 1j, Decimal("2.5"),
    Decimal("Infinity"), Decimal("sNaN"), Fraction(1, 3), np.nan, np.inf, None, pd.NA, pd.NaT,
    pd.Timestamp(1), np.datetime64(1, "ns"), pd.Timedelta(1), pd.Period("2020"),
    pd.Interval(0, 1), int, object(), pd.DataFrame({"a": [1, 2]}), "x" * 10**6, list(range(10**5)),
]  # fmt: skip


@pytest.mark.parametrize("value", NO_NUMBERS, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("key", ["rank", "n_items", "n_better"])
def test_what_is_no_whole_number_is_refused_with_row_and_value(key, value):
    table = pd.DataFrame({"user": [1, 2, 3], "n_items": 50, "n_negatives": 9, "n_tied": 0})
    table = table.drop(columns="n_tied" if key == "rank" else []).assign(rank=1)
    if key == "n_better":
        table = table.rename(columns={"rank": "n_better"})
    elif key == "n_items":
        table = table.drop(columns="n_tied")
    column = np.empty(3, dtype=object)
    column[:] = [12, "3", 1]
    column[1] = value
    with pytest.raises(
        ValueError, match=f"^{key} must be .*, got .+ in row 2 of the log$"
    ) as caught:
        read_log(table.assign(**{key: column}), replacement=True)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    "column",
    [
        ["3", "10"], [3.0, 10.0], [Decimal(3), Decimal(10)], pd.Categorical([3, 10]),
        pd.array([3, 10], dtype="Int64"), pd.array(["3", "1e1"], dtype="string"),
        np.array([3, 10], dtype=np.float16), np.array([3, 10], dtype=np.uint64),
        pd.Series([np.int8(3), Fraction(10)], dtype=object), pd.arrays.SparseArray([3, 10]),
    ],
    ids=lambda column: str(getattr(column, "dtype", type(column[0]).__name__)),
)  # fmt: skip
def test_whole_numbers_of_any_type_are_read(column):
    assert read_log(rows(rank=column), **SIZES).frame["n_better"].tolist() == [2, 9]


@pytest.mark.parametrize("value", [[1], {"a": 1}, np.array([1]), {1}, (), int])
@pytest.mark.parametrize("key", ["recommender", "user", "instance", "item"])
def test_a_name_is_a_number_or_text(key, value):
    column = np.empty(2, dtype=object)
    column[0], column[1] = "a", value
    with pytest.raises(ValueError, match=f"{key} must be a number or text, got .* in row 2 of the"):
        read_log(rows().assign(**{key: column}), **SIZES)


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        (rows(), {"n_negatives": 9}, "n_items is needed"),
        (rows(), {"n_items": 50}, "n_negatives is needed"),
        (rows(), {"n_items": 1, "n_negatives": 9}, "n_items must be a whole number in"),
        (rows(), {"n_items": 50.0, "n_negatives": 9}, "n_items must be a whole number"),
        (rows(), {"n_items": 50, "n_negatives": 0}, "n_negatives must be a whole number in"),
        (rows(), {"n_items": 10, "n_negatives": 10, "replacement": False}, "must be <= 9"),
        (rows(), {"n_items": 2**40, "n_negatives": 2**30}, r"must be < 2\*\*61"),
        (rows(), {**SIZES, "replacement": "no"}, "replacement must be True or False"),
        (rows(), {**SIZES, "shared_negatives": "no"}, "shared_negatives must be True or False"),
        (rows(), {**SIZES, "fixed_sample_size": "yes"}, "fixed_sample_size must be True or False"),
        (rows(), {**SIZES, "first_rank": 2}, r"first_rank must be a whole number in .0, 1., got 2"),
        ("bundled", {"n_items": 3_706, "replacement": None}, "n_items must agree with the column"),
        ("bundled", {}, "replacement must be False for the bundled log"),
        (3, {}, "a file or a data frame, got int"),
        ([1, 2], {}, "a file or a data frame, got list"),
        ("missing.csv", {}, "cannot be read"),
        ("null\0.csv", {}, "cannot be read"),
    ],
)
def test_a_bad_option_is_refused_in_one_sentence(source, options, message):
    with pytest.raises(ValueError, match=message):
        read_log(source, **({"replacement": True} | options))


def test_ranks_may_count_from_0(tmp_path):
    table = pd.DataFrame({"user": [1, 2, 3], "sampled_rank": [0, 9, 3]})
    table.to_csv(tmp_path / "log.csv", index=False)
    options = {"n_items": 50, "n_negatives": 9, "replacement": True}
    for source in (table, tmp_path / "log.csv", table.set_axis(["user", "position"], axis=1)):
        log = read_log(source, first_rank=0, **options)
        assert log.frame["n_better"].tolist() == [0, 9, 3]
    with pytest.raises(ValueError, match=r"rank must be >= 1, got 0 .* first_rank=0"):
        read_log(table.set_axis(["user", "rank"], axis=1), **options)
    with pytest.raises(ValueError, match="first_rank must be left out without a column rank"):
        read_log(table.assign(n_better=1, n_tied=0).iloc[:, [0, 2, 3]], first_rank=0, **options)


def test_how_negatives_were_drawn_is_said_by_the_reader_or_by_the_user():
    scores = pd.DataFrame({"user": 1, "item": [*"abc"], "score": [2, 3, 1], "relevant": [1, 0, 0]})
    distinct = from_scores(scores)
    for table in (distinct, pd.concat([distinct, distinct.assign(recommender="B")])):
        assert not read_log(table, n_items=9).replacement
    with pytest.raises(ValueError, match="must be False for the log, whose candidates are dist"):
        read_log(distinct, n_items=9, replacement=True)
    repeated = from_scores(pd.concat([scores, scores.iloc[1:2]]), duplicates="keep")
    for table in (repeated, rows()):
        sizes = {} if "n_negatives" in table else {"n_negatives": 9}
        with pytest.raises(ValueError, match="replacement is missing: say whether one user's neg"):
            read_log(table, n_items=50, **sizes)
        for replacement in (True, False):
            log = read_log(table, n_items=50, **sizes, replacement=replacement)
            assert log.replacement is replacement


def test_a_catalogue_must_hold_more_than_the_relevant_items():
    table = pd.DataFrame({"user": [1, 1, 1], "rank": [1, 2, 3]})
    with pytest.raises(ValueError, match="above the number of relevant items, 3, got 3"):
        read_log(table, n_items=3, n_negatives=5, replacement=True)


def test_items_tell_rows_apart_that_are_alike():
    table = pd.DataFrame({"user": [1, 1], "item": ["i", "j"], "n_better": 4, "n_tied": 0})
    assert read_log(table, **SIZES).frame["n_relevant"].tolist() == [2, 2]


@pytest.mark.some(6)
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "empty file"),
        (b"user,rank\n", "one row or more"),
        (b"user,rank\n1,3\n2,1", "cut short"),
        (b"user,rank\n1,3\n2\n", "rank must be a whole number >= 1, got '' in row 2"),
        (b"user,rank\n1,3\n2,1,7\n", "must be a CSV file"),
        (b"user,rank\n1,\n", "rank must be a whole number >= 1, got '' in row 1"),
        (b'user,rank\n"1,3\n', "must be a CSV file"),
        (b"user,user,rank\n1,1,3\n", "must have one column user"),
        (gzip.compress(b"user,rank\n1,3\n", mtime=0)[:-9], "must be a CSV file"),
        (b'{"user": 1, "rank": 3}\n{"user": 2, "ra', "must be a JSON file"),
        ("user,rank\n1,3\n".encode("utf-16"), "a null character, as in UTF-16"),
        ("user,rank\n\u00fc,3\n".encode("latin-1"), "not UTF-8, from byte 11 on"),
        (b"user;rank\n1;3,0\n", "rank must be a whole number >= 1, got '3,0' in row 1"),
        (b"user,rank\n1,1,0\n2,2,0\n", "3 fields for 2 names"),
        (b"user,rank\n1,2\n2," + b"3" * 40_000_000 + b"\n", "more than 2,000,000 bytes in line 3"),
        (b"user,rank" + b",x" * 20_000 + b"\n", "20,002 columns: keep the columns of a log"),
    ],
)
def test_a_bad_csv_file_is_refused_in_one_sentence(tmp_path, content, message):
    path = tmp_path / "log.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message) as caught:
        read_log(path, **SIZES)
    assert "\n" not in str(caught.value)


UUIDS = [f"8c3bce87-3eb3-49ef-ae77-d54d4fff7e4{i}" for i in range(4)]


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("log.tsv", lambda frame, path: frame.to_csv(path, sep="\t", index=False)),
        ("log.csv.gz", lambda frame, path: frame.to_csv(path, sep=";", index=False)),
        ("log.jsonl", lambda frame, path: frame.to_json(path, orient="records", lines=True)),
        ("log.json", lambda frame, path: frame.to_json(path, orient="records")),
        ("log.jsonl.gz", lambda frame, path: frame.to_json(path, orient="records", lines=True)),
    ],
)
def test_other_formats_are_read_as_the_frame(tmp_path, name, write):
    frame = pd.DataFrame({"user": [4, 7, 9, 11], "rank": [3, 1, 4, 1], "name": [*"abcd"]})
    for users in (frame["user"], UUIDS, ["2020-01-01", "1e3", "0x3", "007"]):
        rows = frame.assign(user=users).rename(columns={"name": "item"})
        write(rows, tmp_path / name)
        read = read_log(tmp_path / name, **SIZES).frame
        expected = read_log(rows, **SIZES).frame
        assert read["user"].astype(str).tolist() == expected["user"].astype(str).tolist()
        assert read["n_better"].tolist() == expected["n_better"].tolist()


def test_an_array_of_ranks_has_one_for_each_user(tmp_path):
    path = tmp_path / "ranks.npy"
    np.save(path, np.array([3, 1, 4]))
    assert read_log(path, **SIZES).frame["n_better"].tolist() == [2, 0, 3]
    np.save(path, np.ones((2, 3), dtype=int))
    with pytest.raises(ValueError, match=r"a rank for each user, got an array of shape \(2, 3\)"):
        read_log(path, **SIZES)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(ValueError, match="must be a whole array of numbers"):
        read_log(path, **SIZES)
    np.save(path, np.array([None, "a"], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="must be a whole array of numbers"):
        read_log(path, **SIZES)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("log.xlsx", b"PK\x03\x04\x14\x00" + b"x" * 30),
        ("log.csv.bz2", bz2.compress(b"user,rank\n1,3\n")),
        ("log.csv.xz", lzma.compress(b"user,rank\n1,3\n")),
        ("log.csv.zst", bytes.fromhex("28b52ffd2400")),
        ("log.pkl", pickle.dumps({"user": [1]})),
    ],
)
def test_a_format_that_is_not_read_is_refused(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    message = rf"{name} must be a CSV file, got: (a null character|text that is not UTF-8)"
    with pytest.raises(ValueError, match=message):
        read_log(tmp_path / name, **SIZES)


@pytest.mark.parametrize("line", ["7 [3,1,2]", "7\tU1\t11/15/2019 8:55:22 AM\tN3\tN5-1 N9-0"])
def test_impressions_are_named(tmp_path, line):
    path = tmp_path / "file.txt"
    path.write_text(line)
    for read in (partial(read_log, path, **SIZES), partial(trec, path, path, corpus_size=9)):
        with pytest.raises(ValueError, match="must be a log or a run, got impressions as in MIND"):
            read()


def test_what_can_be_read_only_once_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", os.devnull):
        with pytest.raises(ValueError, match="must be a file, got a folder, a pipe or a device"):
            read_log(path, **SIZES)


def test_a_file_without_its_library_is_one_sentence_and_a_frame_needs_none(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    rows().to_csv(tmp_path / "log.csv", index=False)
    with pytest.raises(ImportError, match="pip install duckdb"):
        read_log(tmp_path / "log.csv", **SIZES)
    assert read_log(rows(), **SIZES).n_users == 2


def attempt(source, **options):
    """The log, or the message of the error that is allowed; warnings are sentences, too."""
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            log = read_log(source, **({"replacement": True} | options))
        assert all(
            "\n" not in str(warning.message) and len(str(warning.message)) < 400
            for warning in warned
        )
        return log, ""
    except ValueError as problem:
        return None, str(problem)


PLAIN = pd.DataFrame(
    {
        "recommender": np.repeat(["z", "b, c"], 6),
        "user": np.tile([3, 2, 40, 5, 6, 7], 2),
        "rank": np.arange(12) % 10 + 1,
    }
)
#: Logs that are read from files as from frames, and refused in the same words.
PARTS = {
    "in order": PLAIN,
    "mixed up": PLAIN.sample(frac=1, random_state=1),
    "large numbers": PLAIN.assign(user=PLAIN["user"] + 2**40),
    "several items": PLAIN.assign(user=[1, 2, 1, 2, 3, 3] * 2, item=range(12)),
    "more in the end": PLAIN.assign(user=[1, 2, 3, 4, 5, 5, 1, 2, 4, 4, 4, 4]),
    "one item": PLAIN.assign(item=range(12), instance=1),
    "several ties": PLAIN.drop(columns="rank").assign(
        user=1, n_better=[3, 2, 1] * 4, n_tied=[0, 1, 2, 3] * 3
    ),
    "several, another column": PLAIN.assign(user=[1, 2, 1, 2, 3, 3] * 2, note=1),
    "several, ranked apart": PLAIN.assign(user=1, instance=range(12)),
    "several, two sizes": PLAIN.assign(user=1, n_items=[50, 60] * 6),
    "several, few items": PLAIN.assign(user=[1, 2, 1, 2, 1, 1] * 2, n_items=4),
    "several, beyond": PLAIN.assign(user=[1, 2, 1, 2, 1, 1] * 2, rank=range(4, 16)),
    "an item twice": PLAIN.assign(user=1, item=[*range(11), 7]),
    "the same rank": PLAIN.assign(user=1, rank=5),
    "counts": PLAIN.drop(columns="rank").assign(n_better=2, n_tied=[0, 1, 3] * 4),
    "text": PLAIN.assign(user=[*"abcdef"] * 2),
    "sizes": PLAIN.assign(n_items=[50, 60, 70, 80, 90, 99] * 2),
    "rank 0": PLAIN.assign(rank=range(12)),
    "beyond": PLAIN.assign(rank=range(1, 13)),
    "few items": PLAIN.assign(n_items=[50, 60, 70, 1, 90, 99] * 2),
    "no name": PLAIN.assign(user=[*"abcde", " "] * 2),
    "another column": PLAIN.assign(note=range(12)),
    "numbers, then text": PLAIN.assign(user=[*range(11), "x"]),
    "numbers, then a fraction": PLAIN.assign(rank=[*range(1, 10), 1, 1, "2.5"]),
    "names that are numbers": PLAIN.assign(recommender=["007"] * 6 + ["7"] * 6),
    "an item in letters twice": PLAIN.assign(user=1, item=[*"abcdefgabcda"]),
    "instances in letters": PLAIN.assign(user=[1, 2, 1, 2, 3, 3] * 2, instance=[*"xxxyzy"] * 2),
    "several under another name": PLAIN.assign(user=[1, 1, 1, 2, 2, 2] * 2, variant=[*"abc"] * 4),
    "no recommender": PLAIN[:6].drop(columns="recommender"),
    "missing numbers": PLAIN.assign(rank=[1, 2, None] * 4),
    "missing users": PLAIN.assign(user=[1, 2, 3, 4, 5, None] * 2),
    "counts of users": PLAIN.assign(count=3),
    "n_above": PLAIN.assign(n_above=PLAIN["rank"] / 2),
    "an option that differs": PLAIN.assign(n_negatives=[9, 8] * 6),
    "truth values": PLAIN.assign(user=[True, False] * 6, item=range(12)),
}


@pytest.mark.some(17)
@pytest.mark.parametrize(
    "value",
    ["0x3", "0B11", "0o3", "1_000", "１", "25e-1", "1e0", "1e2", " 3 ", "+3", "-3", "3.0", "03",
     "nan", "inf", "Infinity", "true"],
)  # fmt: skip
@pytest.mark.parametrize(("first", "filler"), [("2", 0), ("2", 30_000), ("2.0", 0)])
def test_a_number_in_a_file_is_read_or_refused_as_the_same_text_in_a_frame(
    tmp_path, value, first, filler
):
    ranks = [first] * (1 + filler) + [value]
    table = pd.DataFrame({"user": range(len(ranks)), "rank": ranks})
    table.to_csv(tmp_path / "log.csv", index=False)
    file_log, file_refusal = attempt(tmp_path / "log.csv", **SIZES)
    frame_log, refusal = attempt(table, **SIZES)
    file_refusal = file_refusal.replace(str(tmp_path / "log.csv"), "the log").replace(
        "got 2.5 ", "got '25e-1' "
    )
    assert file_refusal == refusal
    if frame_log is not None:
        pd.testing.assert_frame_equal(file_log.counts, frame_log.counts)


def test_users_named_like_numbers_of_another_base_are_text(tmp_path):
    (tmp_path / "log.csv").write_text("user,rank\n0x1,1\n1,2\n0b1,3\n")
    assert read_log(tmp_path / "log.csv", **SIZES).frame["user"].tolist() == ["0b1", "0x1", "1"]


@pytest.mark.some(13)
@pytest.mark.parametrize("case", PARTS)
@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "parquet"])
def test_a_file_is_read_or_refused_as_a_frame(tmp_path, monkeypatch, case, suffix):
    monkeypatch.setattr(_tables, "_ROWS", 5)
    table, path = PARTS[case], tmp_path / f"log.{suffix}"
    if suffix == "parquet":
        pytest.importorskip("pyarrow")
        if case in ("numbers, then text", "numbers, then a fraction"):
            table = table.astype({"user": object, "rank": object}).astype(str)
        table.to_parquet(path, index=False, row_group_size=5)
        frame = pd.read_parquet(path)
    else:
        table.to_csv(path, index=False)
        frame = pd.read_csv(path, keep_default_na=False, dtype={"recommender": str})
    options = {"n_items": None if "n_items" in table else 50, "n_negatives": 9}
    frame_log, refusal = attempt(frame, **options)
    file_log, file_refusal = attempt(path, **options)
    assert file_refusal.replace(str(path), "the log") == refusal
    if frame_log is not None:
        pd.testing.assert_frame_equal(file_log.counts, frame_log.counts)
        assert repr(file_log) == repr(frame_log)
        assert file_log.recommenders == frame_log.recommenders
        users = [log.frame["user"].astype(str).tolist() for log in (file_log, frame_log)]
        assert users[0] == users[1]
        frames = [log.frame.drop(columns="user") for log in (file_log, frame_log)]
        pd.testing.assert_frame_equal(*frames)


def test_a_log_that_cannot_be_sorted_is_refused_in_a_sentence(tmp_path, monkeypatch):
    small = {"memory_limit": "20MB", "max_temp_directory_size": "0KB"}
    monkeypatch.setattr(_tables, "_SETTINGS", _tables._SETTINGS | small)
    users = np.random.default_rng(1).permutation(np.repeat(np.arange(300_000), 4))
    table = pd.DataFrame({"user": users, "item": np.arange(users.size)})
    table["rank"] = table.groupby("user").cumcount() + 1
    table.to_csv(tmp_path / "log.csv", index=False)
    with pytest.raises(ValueError, match=r"must have room for its rows in .*TMPDIR"):
        read_log(tmp_path / "log.csv", **SIZES)


def test_counts_belong_to_users():
    log = read_log(COUNTED, **SIZES)
    assert log.frame[["user", "count"]].to_numpy().tolist() == [[3, 2], [5, 7], [5, 7]]
    assert log.counts[["n_better", "position", "count"]].to_numpy().tolist() == [
        [0, 1, 7],
        [1, 1, 2],
        [2, 2, 7],
    ]
    assert log.n_users == 9
    assert repr(log).startswith("Log(recommenders=1, users=9, rows=16,")
    reread_log = read_log(log.frame.drop(columns="instance").assign(item=[1, 1, 2]), **SIZES)
    pd.testing.assert_frame_equal(reread_log.frame, log.frame)


def test_rows_without_users_have_users_of_their_own():
    table = pd.DataFrame({"recommender": [*"aab"], "rank": [1, 4, 1], "count": [3, 1, 2]})
    log = read_log(table, **SIZES)
    assert log.frame["n_relevant"].tolist() == [1, 1, 1]
    assert log.n_users == 4


#: Rows of two recommenders in several files, and of which file the third one's row 2 is.
FILES = ("recommender=a/x", "recommender=a/y", "recommender=b/x")


def partitioned(folder, table, suffix):
    """A table as engines write it: a folder for each recommender, with parts and a mark."""
    parts = (table.iloc[:3], table.iloc[3:6], table.iloc[6:])
    for name, part in zip(FILES, parts, strict=True):
        path = folder / f"{name}.{suffix}"
        path.parent.mkdir(parents=True, exist_ok=True)
        file_rows = part.drop(columns="recommender")
        file_rows.to_parquet(path, index=False) if suffix == "parquet" else file_rows.to_csv(
            path, index=False
        )
    (folder / "_SUCCESS").touch()
    return folder


@pytest.mark.some(2)
@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "parquet"])
def test_a_folder_a_pattern_and_a_list_are_one_log(tmp_path, monkeypatch, suffix):
    if suffix == "parquet":
        pytest.importorskip("pyarrow")
    monkeypatch.setattr(_tables, "_ROWS", 2)
    table = PLAIN.assign(recommender=np.repeat(["a", "b"], 6), rank=[*range(1, 10), 3, 2, 1])
    folder = partitioned(tmp_path / "log", table, suffix)
    expected = read_log(table, **SIZES)
    log = read_log(folder, **SIZES)
    pd.testing.assert_frame_equal(log.frame, expected.frame)
    paths = [tmp_path / f"{i}.{suffix}" for i in range(2)]
    for path, part in zip(paths, (table.iloc[:7], table.iloc[7:]), strict=True):
        (part.to_parquet if suffix == "parquet" else part.to_csv)(path, index=False)
    for source in (f"{tmp_path}/?.{suffix}", paths, list(map(str, paths))):
        pd.testing.assert_frame_equal(read_log(source, **SIZES).frame, expected.frame)
    part_paths = [folder / f"{name}.{suffix}" for name in FILES]  # without what the folders say
    with pytest.raises(ValueError, match="ranked together must have different ranks"):
        read_log([part_paths[0], part_paths[0]], **SIZES)
    partitioned(folder, table.assign(rank=[*range(1, 8), -1, *[1] * 4]), suffix)
    with pytest.raises(ValueError, match=r"rank must be >= 1, got -1 in row 2 of .*b.x\."):
        read_log(folder, **SIZES)
    partitioned(folder, table.assign(rank=[*range(1, 8), 11, *[1] * 4]), suffix)
    with pytest.raises(ValueError, match=r"rank must be <= 10, .* got 11 in row 2 of .*b.x\."):
        read_log(folder, **SIZES)


@pytest.mark.parametrize("types", [["int32", "int64"], ["int16", "float64"], ["int64", "str"]])
def test_files_whose_columns_differ_in_type_or_order_are_one_log(tmp_path, types):
    pytest.importorskip("pyarrow")
    first, second = PLAIN[:7].astype({"user": types[0]}), PLAIN[7:].astype({"user": types[1]})
    first.to_parquet(tmp_path / "a.parquet", index=False)
    second[["rank", "user", "recommender"]].to_parquet(tmp_path / "b.parquet", index=False)
    log, expected = read_log(tmp_path, **SIZES), read_log(PLAIN, **SIZES)
    pd.testing.assert_frame_equal(log.counts, expected.counts)
    assert log.frame["user"].astype(float).sum() == PLAIN["user"].sum()


def test_a_table_of_arrow_is_read_as_a_frame():
    arrow = pytest.importorskip("pyarrow")
    log, expected = (read_log(table, **SIZES) for table in (arrow.Table.from_pandas(PLAIN), PLAIN))
    pd.testing.assert_frame_equal(log.frame, expected.frame)


def test_files_without_rows_or_with_other_columns_are_refused(tmp_path):
    with pytest.raises(ValueError, match=r"must hold files .parquet, .csv or .csv.gz, got none"):
        read_log(tmp_path, **SIZES)
    with pytest.raises(ValueError, match=r"must hold files .parquet, .csv or .csv.gz, got none"):
        read_log(f"{tmp_path}/*.csv", **SIZES)
    rows().to_csv(tmp_path / "a.csv", index=False)
    rows(note=1).to_csv(tmp_path / "b.csv", index=False)
    with pytest.raises(ValueError, match="files of a log must have the same columns, got"):
        read_log(tmp_path, **SIZES)
    with pytest.raises(ValueError, match="cannot be read"):
        read_log([tmp_path / "a.csv", tmp_path / "c.csv"], **SIZES)


#: Logs that Dask holds in parts.
DASK = {
    "in order": PLAIN,
    "mixed up": PLAIN.sample(frac=1, random_state=1),
    "categories": PLAIN.astype({"recommender": "category"}),
    "another column": PLAIN.assign(note=[*"abcdef"] * 2),
    "text": PLAIN.assign(user=[*"abcdef"] * 2),
    "several items": PLAIN.assign(user=[1, 2, 1, 2, 3, 3] * 2, item=range(12)),
    "counts": PLAIN.assign(count=3),
    "rank 0": PLAIN.assign(rank=[*range(1, 12), 0]),
    "beyond": PLAIN.assign(rank=range(1, 13)),
}


@pytest.mark.some(6)
@pytest.mark.parametrize("case", DASK)
@pytest.mark.parametrize("rows_at_once", [2, 100])
def test_a_frame_of_dask_is_read_as_one_of_pandas(monkeypatch, case, rows_at_once):
    dask = pytest.importorskip("dask.dataframe")  # the lowest versions have none
    monkeypatch.setattr(_tables, "_ROWS", rows_at_once)
    table = DASK[case].reset_index(drop=True)
    pandas_log, refusal = attempt(table, n_items=50, n_negatives=9)
    dask_log, dask_refusal = attempt(
        dask.from_pandas(table, npartitions=5), n_items=50, n_negatives=9
    )
    assert dask_refusal == refusal
    if pandas_log is not None:
        pd.testing.assert_frame_equal(dask_log.frame, pandas_log.frame)
        pd.testing.assert_frame_equal(dask_log.counts, pandas_log.counts)


@pytest.mark.some(2)
@pytest.mark.processes
@pytest.mark.parametrize("suffix", ["csv", "csv.gz", "parquet"])
def test_pandas_is_imported_when_a_frame_is_asked_for_and_not_before(tmp_path, suffix):
    if suffix == "parquet":
        pytest.importorskip("pyarrow")
    if int(pytest.importorskip("duckdb").__version__.split(".")[0]) < 2:
        pytest.skip("DuckDB 1 imports pandas itself where a query has parameters")
    path = tmp_path / f"log.{suffix}"
    table = pd.DataFrame({"recommender": [*"BABA"], "user": [1, 1, 2, 2], "rank": [3, 1, 2, 7]})
    table.to_parquet(path) if suffix == "parquet" else table.to_csv(path, index=False)
    code = (
        "import sys, sampled_metrics as sm\n"
        "log = sm.read_log(sys.argv[1], n_items=50, n_negatives=9, replacement=True)\n"
        "print(log.recommenders, log.n_users, 'pandas' in sys.modules)\n"
        "print(len(log.frame), 'pandas' in sys.modules)\n"
    )
    process = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True
    )
    assert process.stdout == "('B', 'A') 2 False\n4 True\n"
