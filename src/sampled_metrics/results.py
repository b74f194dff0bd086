"""What the practitioner's verbs return: a table, with what it was made with and what it leaves out.

A result prints as the command line prints it, shows as a table in a notebook, and gives its rows
as a data frame, a page of HTML, or a table for a paper; estimates and comparisons draw a figure.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pandas as pd

from .io.files import FORMATS

if TYPE_CHECKING:
    from matplotlib.figure import Figure


#: What LaTeX takes for something else.
_LATEX = str.maketrans(
    {c: rf"\{c}" for c in "&%$#_{}"}
    | {"~": r"\textasciitilde ", "^": r"\textasciicircum ", "\\": r"\textbackslash "}
)


def text(value: object) -> str:
    """Write a value for the eye: four decimals, thousands marked, nothing for a missing one.

    Examples
    --------
    >>> [text(v) for v in (0.25, -2e-6, 0.0, 12_000, True, None, float("nan"), "B beats A")]
    ['0.2500', '-2.0e-06', '0.0000', '12,000', 'yes', '', '', 'B beats A']
    """
    if value is None or value is pd.NA or (isinstance(value, float) and np.isnan(value)):
        return ""
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    if isinstance(value, (int, np.integer)):
        return f"{value:,}"
    if isinstance(value, float):  # NumPy's are too
        small = value != 0 and abs(value) < 5e-4
        return f"{value:.1e}" if small else f"{value + 0.0:.4f}"  # no negative zero
    return printable(str(value))


def printable(name: str) -> str:
    """Put a name on one line and replace what no page or terminal should be sent.

    Examples
    --------
    >>> printable("SVD \\x1b[31m\\n50")
    'SVD �[31m 50'
    """
    return re.sub(
        r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]", "\ufffd", " ".join(name.split())
    )


def formatted(frame: pd.DataFrame, kind: str = "table") -> str:
    """Write a table as text.

    Parameters
    ----------
    frame : pandas.DataFrame
    kind : {"table", "json", "csv", "markdown"}
        Columns in line for the eye; a list of objects, with null for what is missing; with every
        digit; or a table of Markdown.

    Returns
    -------
    str

    Raises
    ------
    ValueError
        If `kind` is none of these.

    Examples
    --------
    >>> frame = pd.DataFrame({"estimator": ["naive", "monotone"], "value": [0.25, float("nan")]})
    >>> print(formatted(frame), end="")
    estimator   value
    naive      0.2500
    monotone
    >>> print(formatted(frame, "json"), end="")
    [
    {"estimator": "naive", "value": 0.25},
    {"estimator": "monotone", "value": null}
    ]
    """
    if kind not in FORMATS:
        raise ValueError(f"kind must be one of {', '.join(FORMATS)}, got {kind!r}")
    if kind == "csv":
        return str(frame.to_csv(index=False, lineterminator="\n"))
    if kind == "json":
        plain = frame.astype(object).where(frame.notna(), None).to_dict("records")
        rows = [json.dumps(row, default=lambda value: value.item()) for row in plain]
        return "[\n" + ",\n".join(rows) + "\n]\n"
    right = [_is_number(column) for _, column in frame.items()]
    cells = [list(map(str, frame.columns))]
    cells += [[text(value) for value in row] for row in frame.itertuples(index=False, name=None)]
    if kind == "markdown":
        cells = [[cell.replace("|", "\\|") for cell in row] for row in cells]
        cells.insert(1, ["---:" if r else ":---" for r in right])
        return "".join(f"| {' | '.join(row)} |\n" for row in cells)
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for row in cells:
        padded = [c.rjust(w) if r else c.ljust(w)
                  for c, w, r in zip(row, widths, right, strict=True)]  # fmt: skip
        lines.append("  ".join(padded).rstrip() + "\n")
    return "".join(lines)


def _is_number(column: pd.Series) -> bool:
    return pd.api.types.is_numeric_dtype(column) and column.dtype != bool


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """A table, what it was made with, and what is to be said beside it.

    Attributes
    ----------
    frame : pandas.DataFrame
        The table; its columns are documented where it is made.
    settings : mapping of str to object
        What the table was made with.
    notes : tuple of str
        What the table leaves out, and why, in sentences.

    Examples
    --------
    >>> found = Result(pd.DataFrame({"check": ["items"], "p_value": [0.25]}), notes=("a note",))
    >>> print(found.summary(), end="")
    check  p_value
    items   0.2500
    note: a note
    >>> print(found.to_latex(caption="A check."))  # doctest: +ELLIPSIS
    \\begin{table}
    \\caption{A check.}
    ...
    >>> found.to_html().count("<td")
    2
    """

    frame: pd.DataFrame
    settings: Mapping[str, object] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    #: Columns that are for programs more than for the eye.
    hidden: ClassVar[Sequence[str]] = ()

    def summary(self) -> str:
        """The table and the notes as the command line prints them."""
        notes = "".join(f"note: {note}\n" for note in self.notes)
        return formatted(self.frame.drop(columns=list(self.hidden))) + notes

    def __repr__(self) -> str:
        return self.summary().rstrip("\n")

    def _repr_html_(self) -> str:
        from . import html

        said = ", ".join(f"{name} {text(value)}" for name, value in self.settings.items())
        return html.table(self.frame.drop(columns=list(self.hidden)), said, self.notes)

    def to_html(self) -> str:
        """A page of its own, with figures and definitions where there are some.

        Raises
        ------
        ImportError
            If it has figures, and matplotlib is not installed.
        """
        from . import html

        return html.page(type(self).__name__, self._repr_html_())

    def to_latex(self, caption: str | None = None, label: str | None = None) -> str:
        """The table for a paper, with the rules of the LaTeX package booktabs.

        Parameters
        ----------
        caption, label : str, optional
            Of the table, the caption as LaTeX; it is a bare ``tabular`` without them.
        """
        shown = self.frame.drop(columns=list(self.hidden))
        sides = "".join("r" if _is_number(shown[name]) else "l" for name in shown)
        head = [str(name).replace("_", " ") for name in shown]
        rows = [head, *([text(v) for v in row] for row in shown.itertuples(index=False, name=None))]
        lines = [" & ".join(cell.translate(_LATEX) for cell in row) + r" \\" for row in rows]
        table = [r"\begin{tabular}{" + sides + "}", r"\toprule", lines[0], r"\midrule",
                 *lines[1:], r"\bottomrule", r"\end{tabular}"]  # fmt: skip
        if caption is not None or label is not None:
            said = [rf"\caption{{{caption}}}"] if caption is not None else []
            said += [rf"\label{{{label}}}"] if label is not None else []
            table = [r"\begin{table}", *said, *table, r"\end{table}"]
        return "\n".join(table) + "\n"


@dataclass(frozen=True, eq=False, repr=False)
class Estimates(Result):
    """What :func:`~sampled_metrics.evaluation.estimate` returns.

    Examples
    --------
    >>> import sampled_metrics as sm
    >>> found = sm.estimate("bundled", ["auc"], estimators=["naive"], identification=False)
    >>> found
    recommender  metric  estimator   value  standard_error     low    high  users
    X            auc     naive      0.8920          0.0020  0.8881  0.8958  6,040
    Y            auc     naive      0.8522          0.0024  0.8475  0.8568  6,040
    Z            auc     naive      0.7481          0.0033  0.7416  0.7546  6,040
    >>> print(found.to_latex().splitlines()[4])
    X & auc & naive & 0.8920 & 0.0020 & 0.8881 & 0.8958 & 6,040 \\\\
    """

    def to_html(self) -> str:
        from . import html

        return html.of_estimates(self.frame, {}, self.settings, self.notes)

    def plot(self) -> Figure:
        """The page's figure.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        from . import html

        return html.estimates_figures(self.frame)


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Result):
    """What :func:`~sampled_metrics.evaluation.compare` returns.

    Examples
    --------
    >>> import sampled_metrics as sm
    >>> rows = pd.DataFrame({"recommender": ["A"] * 99 + ["B"] * 99, "user": [*range(99)] * 2,
    ...                      "rank": [1] * 99 + [10] * 99})
    >>> log = sm.read_log(rows, n_items=1_000, n_negatives=9)
    >>> sm.compare(log, "auc").verdicts
    {('A', 'B'): 'A beats B'}
    """

    hidden: ClassVar[Sequence[str]] = ("warning",)

    @property
    def verdicts(self) -> dict[tuple[str, str], str]:
        """The verdict on each pair."""
        rows = self.frame[["first", "second", "verdict"]].itertuples(index=False, name=None)
        return {(first, second): verdict for first, second, verdict in rows}

    def to_html(self) -> str:
        from . import html

        return html.of_comparison(self.frame, self.settings, self.notes)

    def plot(self) -> Figure:
        """The page's figure.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        from . import html

        return html.comparison_figure(self.frame, text(self.settings["metric"]))


@dataclass(frozen=True, eq=False, repr=False)
class Plan(Result):
    """What :func:`~sampled_metrics.planning.plan` returns.

    Examples
    --------
    >>> import sampled_metrics as sm
    >>> better, worse = {2: 0.3, 500: 0.7}, {30: 0.6, 500: 0.4}
    >>> protocol = sm.Protocol(1_000, 100)
    >>> found = sm.plan(better, worse, "ndcg@10", protocol, 50, estimators=["bias-variance"])
    >>> found.frame[["estimator", "negatives_needed", "users_needed"]]
           estimator  negatives_needed  users_needed
    0  bias-variance                33             8
    1          exact              <NA>             9
    """


@dataclass(frozen=True, eq=False, repr=False)
class Audit(Result):
    """What :func:`~sampled_metrics.auditing.audit` returns.

    Examples
    --------
    >>> import sampled_metrics as sm
    >>> "duplicates" in sm.audit([[1, 2], [2, 2]], 80).alarms  # an item twice
    True
    """

    @property
    def alarms(self) -> tuple[str, ...]:
        """The checks that raise an alarm."""
        return tuple(self.frame.loc[self.frame["alarm"], "check"])


@dataclass(frozen=True, eq=False, repr=False)
class Ranks(Result):
    """What :func:`~sampled_metrics.io.readers.rank_files` returns: the exact rank of each item."""
