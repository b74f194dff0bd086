"""Appendices are numbered by letter, and so is what they hold."""

from __future__ import annotations

from docutils import nodes

from sampled_book.display import appendices


class Environment:
    """The parts of Sphinx's environment that hold numbers, for one chapter and one appendix."""

    def __init__(self) -> None:
        self.all_docs = {"book/01_metrics": 0, "book/B_table3": 0}
        self.titles = {page: nodes.title() for page in self.all_docs}
        self.tocs = {page: nodes.bullet_list("", nodes.reference()) for page in self.all_docs}
        self.toc_secnumbers = {"book/01_metrics": {"": (1,)}}
        self.toc_fignumbers = {
            "book/01_metrics": {"table": {"tbl-one": (1, 1)}},
            "book/B_table3": {"table": {"tbl-late": (4,), "tbl-early": (3,)}, "figure": {}},
        }


def test_an_appendix_gets_its_letter_and_a_chapter_keeps_its_number():
    env = Environment()
    assert appendices.number_appendices(None, env) == ["book/B_table3"]
    assert env.toc_secnumbers == {"book/01_metrics": {"": (1,)}, "book/B_table3": {"": ("B",)}}
    assert env.toc_fignumbers["book/01_metrics"] == {"table": {"tbl-one": (1, 1)}}
    assert env.toc_fignumbers["book/B_table3"]["table"] == {
        "tbl-early": ("B", 1),
        "tbl-late": ("B", 2),
    }
    assert [title.get("secnumber") for title in env.titles.values()] == [None, ("B",)]
    (entry,) = env.tocs["book/B_table3"].children
    assert entry["secnumber"] == ("B",)
