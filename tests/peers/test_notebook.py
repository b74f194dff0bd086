"""A data frame in a notebook: what its cell shows."""

import io

import numpy as np
import pandas as pd
import pytest
from IPython.core.interactiveshell import InteractiveShell

CELL = """
import sampled_metrics as sm
log = sm.read_log(frame, n_items=300, n_negatives=50, replacement=True)
sm.estimate(log, ["ndcg@10"], identification=False)
"""


@pytest.fixture
def notebook():
    shell = InteractiveShell.instance()
    shell.display_formatter.active_types = shell.display_formatter.format_types  # as Jupyter does
    yield shell
    InteractiveShell.clear_instance()


def test_a_frame_is_shown_as_a_table_in_three_lines(notebook):
    rank = np.random.default_rng(3).integers(1, 52, 90)
    notebook.user_ns["frame"] = pd.DataFrame({"user": [f"u{n}" for n in range(90)], "rank": rank})
    shown = notebook.run_cell(CELL)
    assert shown.success
    html = notebook.display_formatter.format(shown.result)[0]["text/html"]
    ndcg = np.where(rank <= 10, 1 / np.log2(1 + rank), 0).mean()
    (table,) = pd.read_html(io.StringIO(html))
    assert table["reported"].tolist() == [pytest.approx(ndcg, abs=5e-5)]
    assert table["estimator"].tolist() == ["naive"]
