"""The check of a chapter's parameters: what it accepts, and how it refuses the rest."""

import ast
import math
from functools import cache
from pathlib import Path

import jupytext
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
CHAPTERS = {p.stem: p for p in (Path(__file__).parents[2] / "book/chapters").glob("*_*.md")}


def chapter_values(chapter):
    """The parameters in a chapter's own cell."""
    cells = jupytext.read(CHAPTERS[chapter]).cells
    (source,) = [c.source for c in cells if "parameters" in c.metadata.get("tags", [])]
    values = {}
    exec(source, {}, values)
    return values


@cache
def chapter_check(chapter):
    """A chapter's own check of its parameters, compiled, and the names that it uses."""
    sources = [cell.source for cell in jupytext.read(CHAPTERS[chapter]).cells]
    (tree,) = [ast.parse(source) for source in sources if "= check(" in source]
    (call,) = [n.value for n in tree.body if ast.unparse(n).partition(" = ")[2][:6] == "check("]
    used = {node.id for node in ast.walk(call) if isinstance(node, ast.Name)}
    names = {}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and used & {n.asname or n.name for n in node.names}:
            exec(ast.unparse(node), names)
    return compile(ast.Expression(call), chapter, "eval"), names


def check_of_chapter(chapter, values):
    """What a chapter's own check makes of these values."""
    call, names = chapter_check(chapter)
    return eval(call, names | values)


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
    hidden = dict.fromkeys(["__name__", "_", "___", "_i", "_i3"], "n_items = 9")
    hidden |= {"_ih": [""], "_oh": {}, "_dh": [], "_exit_code": 0, "In": [""], "Out": {}}
    namespace = {"n_items": 9, "math": math, "check": check, **hidden}
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


def test_lists_that_go_together_are_of_one_length():
    kind = ListOf(SIZE, distinct=False)
    assert check({"a": [2, 2], "b": [3, 4]}, same_length=["a", "b"], a=kind, b=kind)
    with pytest.raises(ParameterError, match=r"^a, b must be lists of the same length$"):
        check({"a": [2, 2], "b": [3]}, same_length=["a", "b"], a=kind, b=kind)


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_chapter_takes_its_own_values_and_refuses_others(chapter):
    values = chapter_values(chapter)
    assert dict(check_of_chapter(chapter, values).values) == values
    with pytest.raises(ParameterError, match=r"^unknown parameter anything"):
        check_of_chapter(chapter, values | {"anything": 1})
    for name in values:
        with pytest.raises(ParameterError, match=f"^{name} is <object .*, but must be "):
            check_of_chapter(chapter, values | {name: object()})


@pytest.mark.parametrize(
    ("chapter", "changed", "sentence"),
    [
        ("01_metrics", {"ranks_a": [1]}, "ranks_a, ranks_b, ranks_c must be lists of the same"),
        ("01_metrics", {"n_items": 200}, "ranks_b is .* from 1 to 200$"),
        (
            "03_sampled_rank",
            {"n_items": 500, "rank": 5, "n_negatives": 500},
            "n_negatives is 500, but must be a whole number from 10 to 499$",
        ),
        ("N_several_items", {"n_items": 3_000}, "pair is .* from 1 to 3,000$"),
        ("09_your_log", {"n_items": 50, "n_negatives": 50}, "n_negatives is 50, .* from 0 to 49$"),
    ],
)
def test_parameters_that_do_not_go_together_are_refused(chapter, changed, sentence):
    with pytest.raises(ParameterError, match=sentence):
        check_of_chapter(chapter, chapter_values(chapter) | changed)
