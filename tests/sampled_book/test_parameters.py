"""The check of a chapter's parameters: what it accepts, and how it refuses the rest."""

import math

import pytest

from sampled_book.chapters.parameters import (
    Choice,
    File,
    Flag,
    Integer,
    ListOf,
    MetricName,
    ParameterError,
    Real,
    check,
)

pytestmark = pytest.mark.words

SIZE = Integer("size of the catalogue", 2, 1000, unit="items")


@pytest.mark.parametrize(
    ("parameter", "good", "bad"),
    [
        (SIZE, [2, 1000], [1, 1001, 2.0, "2", True, None, [2]]),
        (Real("share", 0, 1), [0, 1, 0.5], [-0.1, 1.1, math.nan, math.inf, True, "0.5", None]),
        (Flag("with replacement"), [True, False], [0, 1, "True", None]),
        (Choice("law", ["a", "b"]), ["a", "b"], ["c", "A", None, 1, ["a"]]),
        (Choice("base", [2, 10]), [2, 10], [2.0, True, "2"]),
        (MetricName("metric"), ["ap", "NDCG@10", "recall@5"], ["ndgc@10", "ap@0", "", 5, None]),
        (ListOf(SIZE, at_most=2), [[2], [3, 2]], [[], [2, 3, 4], [2, 2], [1], 2, (2, 3), "23"]),
        (ListOf(SIZE), [[*range(2, 22)]], [[*range(2, 23)]]),
        (ListOf(SIZE, 2, 2, distinct=False), [[2, 2], [3, 2]], [[2], [2, 2, 2], [2, 1], "22"]),
    ],
)
def test_kinds_accept_their_values_and_no_others(parameter, good, bad):
    for value in good:
        assert parameter.accepts(value), value
    for value in bad:
        assert not parameter.accepts(value), value


@pytest.mark.parametrize(
    ("namespace", "sentence"),
    [
        ({"n_items": 1}, "n_items is 1, but must be a whole number from 2 to 1,000"),
        ({"n_items": "9"}, "n_items is '9', but must be a whole number from 2 to 1,000"),
        ({}, "n_items is missing from the cell tagged 'parameters'"),
        (
            {"n_items": 9, "n_itens": 5},
            "unknown parameter n_itens (did you mean n_items?), this chapter takes n_items",
        ),
        ({"n_items": 9, "zzz": None}, "unknown parameter zzz, this chapter takes n_items"),
        ({"n_items": 9, "_hidden": [1]}, "unknown parameter _hidden, this chapter takes n_items"),
    ],
)
def test_a_bad_parameter_is_refused_with_a_sentence_that_names_it(namespace, sentence):
    with pytest.raises(ParameterError) as refusal:
        check(namespace, n_items=SIZE)
    assert str(refusal.value) == sentence


def test_what_is_no_literal_or_belongs_to_ipython_is_not_foreign():
    namespace = {
        "n_items": 9,
        "math": math,
        "check": check,
        "__name__": "__main__",
        "_": "",
        "___": "",
        "_i": "n_items = 9",
        "_i3": "n_items = 9",
        "_ih": [""],
        "_oh": {},
        "_dh": [],
        "_exit_code": 0,
        "In": [""],
        "Out": {},
    }
    assert dict(check(namespace, n_items=SIZE).values) == {"n_items": 9}


def test_a_cell_run_again_tolerates_what_the_chapter_defined_since_but_still_checks_values():
    namespace = {"n_items": 9}
    check(namespace, n_items=SIZE)
    namespace["total"] = 5
    assert check(namespace, n_items=SIZE).values["n_items"] == 9
    namespace["n_items"] = 0
    with pytest.raises(ParameterError, match="n_items is 0"):
        check(namespace, n_items=SIZE)


def test_the_table_names_meaning_unit_range_and_value():
    table = check({"n_items": 9, "law": "a"}, n_items=SIZE, law=Choice("law of draws", ["a", "b"]))
    assert table._repr_markdown_().splitlines() == [
        "| Parameter | Meaning | Unit | Allowed | In this run |",
        "| --- | --- | --- | --- | --- |",
        "| `n_items` | size of the catalogue | items | a whole number from 2 to 1,000 | `9` |",
        "| `law` | law of draws | – | one of 'a', 'b' | `'a'` |",
    ]


def test_a_file_is_one_that_exists_or_none(tmp_path):
    path = tmp_path / "ranks.csv"
    kind = File("table of ranks")
    with pytest.raises(ParameterError, match=r"ranks is .*, but must be the path of a file, or ''"):
        check({"ranks": str(path)}, ranks=kind)
    path.touch()
    for good in (str(path), ""):
        assert check({"ranks": good}, ranks=kind).values["ranks"] == good
    assert not kind.accepts(str(tmp_path))
    assert not kind.accepts(None)
