"""What the chapters tabulate: a data frame, its caption and how its numbers are printed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from math import floor, log10
from numbers import Integral
from typing import Any

import pandas as pd

from sampled_metrics import _printed_ranges

#: A frame or a series: pandas' stubs cannot tell what its columns hold.
Frame = Any
#: Text values by their names, as `glued` takes them.
Texts = dict[str, Any]


@dataclass(frozen=True)
class Table:
    """A captioned, numbered table: MyST in the book, HTML in a notebook.

    `name` is the label that the text refers to, as in ``{numref}`tbl-toy` ``; the caption is MyST;
    `formats` has a format specification for each column of numbers. Other columns are printed by
    ``str``; the index is not shown.
    """

    frame: pd.DataFrame
    name: str
    caption: str
    formats: Mapping[str, str] = field(default_factory=dict)

    def _cells(self) -> list[list[str]]:
        """The table's text, row by row; a missing value is an empty cell."""
        columns = [
            [
                "" if pd.isna(value) else _cell(value, self.formats.get(str(name), ""))
                for value in self.frame[name]
            ]
            for name in self.frame.columns
        ]
        return [list(row) for row in zip(*columns, strict=True)]

    def _repr_markdown_(self) -> str:
        names = [str(name) for name in self.frame.columns]
        aligned = [
            "---:" if pd.api.types.is_numeric_dtype(self.frame[name]) else ":---"
            for name in self.frame.columns
        ]
        rows = [names, aligned, *self._cells()]
        lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
        # A fence of backticks could not hold a caption with a role: that has backticks itself.
        opening = [f"~~~{{table}} {' '.join(self.caption.split())}", f":name: {self.name}", ""]
        return "\n".join([*opening, *lines, "~~~"])

    def _repr_html_(self) -> str:
        shown = pd.DataFrame(self._cells(), columns=self.frame.columns)
        html: str = shown.to_html(index=False, border=0)
        return html.replace("<thead>", f"<caption>{self.caption}</caption><thead>", 1)


def _cell(value: object, form: str) -> str:
    """A number with its true minus sign; text as it is."""
    text = format(value, form)
    return text if isinstance(value, str) else text.replace("-", "\N{MINUS SIGN}")


@dataclass(frozen=True)
class Lookup:
    """Tables of which a reader chooses one; all are shown where no script runs.

    `name` identifies the element on the page; `asked` names the choices, as in ("Data set",
    "Metric"); `tables`, by choice, begin with the one shown first. Captions are plain text.
    """

    name: str
    asked: Sequence[str]
    tables: Mapping[tuple[str, ...], Table]

    def _repr_html_(self) -> str:
        choices = []
        for place, label in enumerate(self.asked):
            values = dict.fromkeys(key[place] for key in self.tables)
            options = "".join(f"<option>{escape(value)}</option>" for value in values)
            choices.append(f"<label>{escape(label)} <select>{options}</select></label>")
        parts = [
            f'<div data-chosen="{escape("|".join(key))}">{table._repr_html_()}</div>'
            for key, table in self.tables.items()
        ]
        script = _CHOOSE.replace("NAME", self.name)
        form = f"<form hidden>{' '.join(choices)}</form>"
        return f'<div class="lookup" id="{self.name}">{form}{"".join(parts)}</div>{script}'


#: Shows the choices, and of the tables the chosen one.
_CHOOSE = """<script>
(() => {
  const all = document.getElementById("NAME"), form = all.querySelector("form");
  const choose = () => {
    const chosen = [...form.querySelectorAll("select")].map((each) => each.value).join("|");
    all.querySelectorAll("[data-chosen]").forEach((each) => {
      each.hidden = each.dataset.chosen !== chosen;
    });
  };
  form.addEventListener("change", choose);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.hidden = false;
  choose();
})();
</script>"""


def between(low: float, high: float, digits: int = 3, *, signed: bool = False) -> str:
    """Format a range, rounded outwards, as the library does.

    >>> between(0.02766, 0.0281), between(-0.0123, 0.5, 2, signed=True)
    ('0.027 to 0.029', '−0.02 to +0.50')
    """
    return _printed_ranges.written(low, high, digits, signed=signed)


def _outwards(value: float, form: str, direction: str) -> float:
    """A bound rounded down or up to the digits of a format specification, such as ".1%"."""
    digits = int(form.strip("+,.f%")) + 2 * form.endswith("%")
    return {"down": _printed_ranges.down, "up": _printed_ranges.up}[direction](value, digits)


def scientific(value: float, digits: int = 1) -> str:
    """Format a number as a decimal times a power of ten, to `digits` significant digits.

    >>> scientific(2.9e-8), scientific(-0.01234, 3), scientific(1.2)
    ('3 × 10⁻⁸', '−1.23 × 10⁻²', '1')
    """
    factor, power = f"{value:.{digits - 1}e}".split("e")
    factor = factor.replace("-", "\N{MINUS SIGN}")
    if int(power) == 0:
        return factor
    raised = str(int(power)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
    return f"{factor} × 10{raised}"


def glued(**values: object) -> None:
    """Glue values for the text of a chapter, which shows each as ``{glue:text}`name` ``.

    Text is shown as it is, a whole number with thousands separators, any other number to three
    digits. A pair of a number and a format specification overrides that; a third item, "down" or
    "up", says which way a bound is rounded. Minus signs are true ones. An underscore in a name is a
    hyphen in the text.
    """
    from myst_nb import glue  # not everyone who makes a table has the book's tools

    for name, value in values.items():
        glue(name.replace("_", "-"), spelled(value), display=False)


def spelled(value: object) -> str:
    """A value as :func:`glued` shows it.

    >>> spelled("A > B"), spelled(1234.5), spelled((7, "d")), spelled((0.02766, ".1%", "down"))
    ('A > B', '1,234', '7', '2.7%')
    """
    number: Any
    number, form, *direction = value if isinstance(value, tuple) else (value, "")
    if direction:
        number = _outwards(number, form, *direction)
    if isinstance(number, str):
        return number
    if form or isinstance(number, Integral):
        text = format(number, form or ",d")
    elif number != 0 and not 1e-4 <= abs(number) < 1e7:
        text = scientific(number, 3)
    else:
        digits = max(2 - floor(log10(abs(number))), 0) if number else 0
        text = f"{number:,.{digits}f}"
    return text.replace("-", "\N{MINUS SIGN}")
