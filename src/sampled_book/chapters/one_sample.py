"""The figure of the appendix on one sample for all queries."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from ..display import figures
from ..display.tables import Frame


def plot_coverage(coverage: Frame) -> Figure:
    """Plot :func:`~sampled_book.experiments.one_sample.coverage_table` against the share sampled.

    >>> import pandas as pd
    >>> rows = {"share": [0.1, 0.9], "hub": [0.1, 0.9], "none": [0.9, 0.9]}
    >>> figure = plot_coverage(pd.DataFrame(rows | {"range_hub": [1.0, 0.9]}))
    >>> [text.get_text() for text in figure.axes[0].texts]
    ['no hub', 'hub', 'hub, library', '95%']
    """
    figure, ax = figures.panels(height=3.2)
    share = coverage["share"]
    looks = {"no hub": ("none", "s--", "#767676"), "hub": ("hub", "o-", "black"),
             "hub, library": ("range_hub", "^:", "#4d4d4d")}  # fmt: skip
    for column, style, color in looks.values():
        ax.plot(share, coverage[column], style, color=color, ms=5)
    ax.plot([0, 1], [0, 1], color="#c4c4c4", linewidth=1, zorder=0)
    ax.axhline(0.95, color="#c4c4c4", linewidth=1, zorder=0)
    ax.set(xlabel="share of the documents that is sampled, $m/n$", ylabel="coverage",
           xlim=(0, 1), ylim=(0, 1.03))  # fmt: skip
    near = int(np.argmin(np.abs(share - 0.3)))
    first = coverage.iloc[0]
    names = {
        "no hub": ((share.iloc[near], coverage["none"].iloc[near]), (0, -16)),
        "hub": ((share.iloc[near], coverage["hub"].iloc[near]), (8, -12)),
        "hub, library": ((first["share"], first["range_hub"]), (46, -88)),
        "95%": ((1.0, 0.95), (4, -4)),
    }
    for name, (point, offset) in names.items():
        figures.note(ax, name, point, offset, fontsize=11, annotation_clip=False)
    return figure
