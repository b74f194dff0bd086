"""What chapters declare of their parameters, and the chapters' own cells, say the same."""

from pathlib import Path

import jupytext
import pytest

from sampled_book.chapters.declared import CHAPTERS, begin
from sampled_book.chapters.parameters import ParameterError

TEXTS = Path(__file__).parents[2] / "book" / "chapters"


def cell(chapter):
    """The cell of a chapter that holds its parameters, and the values in it."""
    (text,) = [*TEXTS.glob(f"[0-9][0-9]_{chapter}.md"), *TEXTS.glob(f"[A-Z]_{chapter}.md")]
    cells = jupytext.read(text).cells
    (source,) = [c.source for c in cells if "parameters" in c.metadata.get("tags", [])]
    values = {}
    exec(source, {}, values)
    return source, values


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_chapter_begins_with_its_own_values_and_no_others(chapter):
    _, values = cell(chapter)
    assert begin(dict(values), chapter).values == values
    with pytest.raises(ParameterError, match="unknown parameter anything"):
        begin(values | {"anything": 1}, chapter)
    for name in values:
        with pytest.raises(ParameterError, match=f"^{name} is "):
            begin(values | {name: object()}, chapter)


@pytest.mark.parametrize(
    ("chapter", "changed", "sentence"),
    [
        ("metrics", {"ranks_a": [1]}, "ranks_a, ranks_b and ranks_c must be lists of the same"),
        ("metrics", {"n_items": 200}, "ranks_b is .* from 1 to 200"),
        (
            "sampled_rank",
            {"n_items": 500, "rank": 5, "n_negatives": 500},
            "n_negatives is 500, but must be below n_items = 500",
        ),
        ("several_items", {"n_items": 3_000}, "pair is .* from 1 to 3,000"),
    ],
)
def test_parameters_that_do_not_go_together_are_refused(chapter, changed, sentence):
    with pytest.raises(ParameterError, match=sentence):
        begin(cell(chapter)[1] | changed, chapter)
