"""What a captioned table says to the book and to a notebook."""

import numpy as np
import pandas as pd
from markdown_it import MarkdownIt

from sampled_book.tables import Table

FRAME = pd.DataFrame({"Name": ["A", "B|C"], "AP": [0.25, np.nan]})


def test_a_caption_may_hold_a_role():
    text = Table(FRAME, "tbl-x", "Seen in\n{numref}`tbl-y`.")._repr_markdown_()
    (fence,) = MarkdownIt().parse(text)
    assert fence.type == "fence"
    assert fence.info == "{table} Seen in {numref}`tbl-y`."
    assert fence.content.startswith(":name: tbl-x\n\n| Name | AP |\n| :--- | ---: |\n")


def test_numbers_are_formatted_and_missing_ones_left_out():
    lines = Table(FRAME, "tbl-x", "Caption.", {"AP": ".3f"})._repr_markdown_().splitlines()
    assert lines[-3:] == ["| A | 0.250 |", "| B\\|C |  |", "~~~"]


def test_html_shows_the_caption_and_no_index():
    html = Table(FRAME, "tbl-x", "Caption.")._repr_html_()
    assert html.count("<caption>Caption.</caption>") == 1
    assert html.count("<th>") == 2
