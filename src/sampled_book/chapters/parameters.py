"""The parameters of a chapter: declared once, checked, and shown as a table.

A chapter begins with a cell tagged ``parameters`` that holds plain literals, each with a comment::

    n_items = 10_000  # size of the catalogue
    n_negatives = 99  # negatives drawn per instance
    levels = [0.1, 0.5]  # quantiles to draw
    metrics = ["ndcg@10", "ap"]  # metrics to compare
    law = "binomial"  # law of the draws

and goes on with a cell that checks them, and returns the table that the reader sees::

    from sampled_book.chapters.parameters import Choice, Integer, ListOf, MetricName, Real, check

    check(
        globals(),
        n_items=Integer("size of the catalogue", 2, 10**9, unit="items"),
        n_negatives=lambda: Integer("negatives drawn per instance", 1, n_items - 1, unit="items"),
        levels=ListOf(Real("quantiles to draw", 0, 1), at_most=5),
        metrics=ListOf(MetricName("metrics to compare"), at_most=6),
        law=Choice("law of the draws", ["binomial", "hypergeometric"]),
    )

A bound that depends on another parameter stands behind a ``lambda``, which is called once the
parameters before it are known to be right.

A parameter that is unknown, of another type or out of range raises a `ParameterError`: one sentence
that names it.  That is how a rerun with a misspelt name stops, since papermill itself would define
the foreign name and go on with the default.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sampled_metrics.metrics import metric

_LITERALS = (int, float, str, bool, list, dict, tuple, type(None))
# What IPython itself keeps in the namespace of a notebook: its history, and Python's own dunders.
_IPYTHON = re.compile(r"In|Out|_+|__\w+|_i{1,3}|_i?\d+|_[dio]h|_exit_code")
_CHECKED = "__parameters_checked__"


class ParameterError(ValueError):
    """A parameter of a chapter is unknown, missing, of another type or out of range."""


@dataclass(frozen=True)
class Parameter:
    """What a chapter declares about one parameter.

    `allowed` names the values it may take, as the end of the sentence "it must be ...".
    """

    meaning: str
    allowed: str
    accepts: Callable[[object], bool]
    unit: str = ""


class Integer(Parameter):
    """A whole number from `low` to `high`, both included.

    >>> Integer("size of the catalogue", 2, 10**9).allowed
    'a whole number from 2 to 1,000,000,000'
    """

    def __init__(self, meaning: str, low: int, high: int, unit: str = "") -> None:
        def accepts(value: object) -> bool:
            return type(value) is int and low <= value <= high

        super().__init__(meaning, f"a whole number from {low:,} to {high:,}", accepts, unit)


class Real(Parameter):
    """A number from `low` to `high`, both included; a whole number will do, NaN will not.

    >>> Real("confidence", 0, 1).accepts(float("nan"))
    False
    """

    def __init__(self, meaning: str, low: float, high: float) -> None:
        def accepts(value: object) -> bool:
            return type(value) in (int, float) and low <= value <= high  # type: ignore[operator]

        super().__init__(meaning, f"a number from {low:,g} to {high:,g}", accepts)


class Flag(Parameter):
    """True or False.

    >>> Flag("draw with replacement").accepts(1)
    False
    """

    def __init__(self, meaning: str) -> None:
        super().__init__(meaning, "True or False", lambda value: isinstance(value, bool))


class Choice(Parameter):
    """One of a few values.

    >>> Choice("law of the draws", ["binomial", "hypergeometric"]).allowed
    "one of 'binomial', 'hypergeometric'"
    """

    def __init__(self, meaning: str, options: Collection[str | int | float]) -> None:
        def accepts(value: object) -> bool:
            return any(type(value) is type(option) and value == option for option in options)

        super().__init__(meaning, "one of " + ", ".join(map(repr, options)), accepts)


class File(Parameter):
    """The path of a file that exists, or an empty string for what the chapter has by itself.

    >>> File("table of ranks").accepts("")
    True
    """

    _kind, _exists = "file", staticmethod(Path.is_file)

    def __init__(self, meaning: str) -> None:
        def accepts(value: object) -> bool:
            return isinstance(value, str) and (value == "" or self._exists(Path(value)))

        super().__init__(meaning, f"the path of a {self._kind}, or '' for what is bundled", accepts)


class Folder(File):
    """The path of a folder that exists, or an empty string for what the chapter has by itself.

    >>> Folder("ranks of your own").accepts("no such folder")
    False
    """

    _kind, _exists = "folder", staticmethod(Path.is_dir)


class MetricName(Parameter):
    """A name that `sampled_metrics.metric` understands.

    >>> MetricName("metric to compare").accepts("NDCG@10")
    True
    """

    def __init__(self, meaning: str) -> None:
        def accepts(value: object) -> bool:
            try:
                return isinstance(value, str) and metric(value) is not None
            except ValueError:
                return False

        super().__init__(meaning, "the name of a metric, such as 'ndcg@10'", accepts)


class ListOf(Parameter):
    """A list of `at_least` to `at_most` values of one kind, all different if `distinct`.

    >>> ListOf(Integer("sample sizes", 1, 500), at_most=3).allowed
    'a list of 1 to 3 different values, each a whole number from 1 to 500'
    """

    def __init__(
        self, element: Parameter, at_least: int = 1, at_most: int = 20, distinct: bool = True
    ) -> None:
        def accepts(value: object) -> bool:
            return (
                isinstance(value, list)
                and at_least <= len(value) <= at_most
                and all(map(element.accepts, value))
                and (not distinct or len(set(value)) == len(value))
            )

        length = f"{at_least} to {at_most}" if at_least < at_most else f"{at_least}"
        values = "different values" if distinct else "values"
        allowed = f"a list of {length} {values}, each {element.allowed}"
        super().__init__(element.meaning, allowed, accepts, element.unit)


@dataclass(frozen=True)
class ParameterTable:
    """The checked parameters of a chapter; a notebook shows it as a table."""

    declared: Mapping[str, Parameter]
    values: Mapping[str, object]

    def _repr_markdown_(self) -> str:
        header = ["Parameter", "Meaning", "Unit", "Allowed", "In this run"]
        rows = [header, ["---"] * len(header)]
        for name, parameter in self.declared.items():
            meaning, unit = parameter.meaning, parameter.unit or "–"
            rows.append([f"`{name}`", meaning, unit, parameter.allowed, f"`{self.values[name]!r}`"])
        return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def check(
    namespace: MutableMapping[str, object],
    /,
    same_length: Sequence[str] = (),
    **declared: Parameter | Callable[[], Parameter],
) -> ParameterTable:
    """Check the parameters in a notebook's ``globals()`` against the chapter's declarations; the
    table of the parameters with their values. `same_length` names lists that go together.
    """
    known: dict[str, Parameter] = {}
    for name, declaration in declared.items():
        if name not in namespace:
            raise ParameterError(f"{name} is missing from the cell tagged 'parameters'")
        known[name] = declaration if isinstance(declaration, Parameter) else declaration()
        if not known[name].accepts(namespace[name]):
            allowed = known[name].allowed
            raise ParameterError(f"{name} is {namespace[name]!r}, but must be {allowed}")
    if len({len(namespace[name]) for name in same_length}) > 1:  # type: ignore[arg-type]
        raise ParameterError(f"{', '.join(same_length)} must be lists of the same length")
    if not namespace.get(_CHECKED):
        for name, value in namespace.items():
            if type(value) in _LITERALS and not _IPYTHON.fullmatch(name):
                refuse_unknown(name, list(declared))
    namespace[_CHECKED] = True
    return ParameterTable(known, {name: namespace[name] for name in declared})


def refuse_unknown(name: str, declared: Sequence[str]) -> None:
    """Raise a `ParameterError` unless `name` is one of the declared parameters.

    >>> refuse_unknown("n_item", ["n_items", "seed"])
    Traceback (most recent call last):
    sampled_book.chapters.parameters.ParameterError: unknown parameter n_item (did you mean \
n_items?), this chapter takes n_items, seed
    """
    if name in declared:
        return
    close_names = difflib.get_close_matches(name, declared, n=1)
    hint = f" (did you mean {close_names[0]}?)" if close_names else ""
    allowed = ", ".join(declared) or "no parameters"
    raise ParameterError(f"unknown parameter {name}{hint}, this chapter takes {allowed}")
