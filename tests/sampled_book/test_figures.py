"""What the chapters' figures show is what they were given."""

import matplotlib.pyplot as plt
import numpy as np
import pytest

from sampled_book.display import figures
from sampled_metrics.report.figures import ESTIMATORS

pytestmark = pytest.mark.words


@pytest.fixture
def ax():
    figure, ax = figures.panels()
    yield ax
    plt.close(figure)


def test_curves_can_be_told_apart_without_colour(ax):
    figures.curves(ax, [1, 2], {str(i): [i, i] for i in range(6)})
    assert len({(str(line.get_linestyle()), line.get_marker()) for line in ax.lines}) == 6


def test_expected_curves_mark_exact_values(ax):
    expected = {"A": [0.3, 0.1], "B": [0.2, 0.15]}
    figures.expected_curves(ax, [1, 99], expected, {"A": 0.05, "B": 0.12})
    drawn = [(list(line.get_xdata()), list(line.get_ydata())) for line in ax.lines]
    assert drawn[:2] == [([1, 99], [0.3, 0.1]), ([1, 99], [0.2, 0.15])]
    # Wedges stand right of the axes, at the exact values.
    assert [y for x, (y,) in drawn[2:4]] == [0.05, 0.12]
    assert all(x[0] > 1 for x, _ in drawn[2:4])
    assert [line.get_color() for line in ax.lines[2:4]] == [m["color"] for m in figures.MARKS[:2]]
    assert ax.get_legend_handles_labels()[1] == ["A", "B"]


def test_intervals_are_lines_under_their_names_before_what_is_possible(ax):
    first = {"naive": (0.3, 0.2, 0.4), "monotone": (0.5, np.nan, np.nan)}
    figures.intervals(ax, {"A": first, "B": {"monotone": (0.1, 0.0, 0.2)}}, {"B": (0.0, 0.7)})
    texts = [label.get_text() for label in ax.get_yticklabels()]
    assert texts == ["A", "naive", "monotone", "B", "monotone"]
    assert [line.get_xydata().tolist() for line in ax.lines] == [[[0.3, 1]], [[0.5, 2]], [[0.1, 4]]]
    assert ax.lines[1].get_marker() == ax.lines[2].get_marker() != ax.lines[0].get_marker()
    assert [line.get_color() for line in ax.lines] == [
        ESTIMATORS[name]["color"] for name in ("uncorrected", "CLS", "CLS")
    ]
    drawn = [lines.get_segments()[0].tolist() for lines in ax.collections]
    assert drawn == [[[0.2, 1], [0.4, 1]], [], [[0.0, 4], [0.2, 4]]]
    (bar,) = ax.patches  # behind the name and the one estimator of B
    assert (bar.get_x(), bar.get_width()) == (0.0, 0.7)
    assert bar.get_y() < 3 < 4 < bar.get_y() + bar.get_height()
    assert ax.get_ylim()[0] > ax.get_ylim()[1]  # from top to bottom


def test_each_estimator_keeps_its_colour_and_exact_is_black(ax):
    two_marks = figures.marks(["CLS", "BV 0.1"])
    five_marks = figures.marks(["uncorrected", "BV 1", "CLS", "BV 0.1", "BV 0.09"])
    assert len({mark["color"] for mark in five_marks.values()}) == 5
    assert all(two_marks[name] == five_marks[name] for name in two_marks)
    assert len({m["marker"] for m in ESTIMATORS.values()}) == len(ESTIMATORS)
    figures.curves(ax, [1, 2], {"exact": [1, 0], "CLS": [np.nan, np.nan]})
    assert [line.get_color() for line in ax.lines] == ["black", two_marks["CLS"]["color"]]
    assert ax.lines[0].get_linestyle() == "-"
