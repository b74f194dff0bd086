"""What a captioned table says to the book and to a notebook."""

import numpy as np
import pandas as pd
import pytest
from markdown_it import MarkdownIt

from sampled_book.display.tables import Table, glued

pytestmark = pytest.mark.words

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


def test_glued_numbers_get_hyphens_in_their_names_and_true_signs(monkeypatch):
    seen = {}
    monkeypatch.setattr("myst_nb.glue", lambda name, value, display: seen.update({name: value}))
    glued(n_items=10_000, bias=(-0.0127, "+.1%"), none=0.0, tiny=np.float64(-2.9e-8), who="A-B")
    assert seen == {
        "n-items": "10,000",
        "bias": "−1.3%",
        "none": "0",
        "tiny": "−2.90 × 10⁻⁸",
        "who": "A-B",
    }


def test_a_table_has_true_minus_signs_and_leaves_text_alone():
    frame = pd.DataFrame({"Name": ["rank-based"], "z": [-1.5]})
    assert (
        "| rank-based | −1.5 |" in Table(frame, "tbl-x", "Caption.", {"z": ".1f"})._repr_markdown_()
    )
