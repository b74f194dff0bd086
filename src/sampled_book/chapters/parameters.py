"""The parameters of a chapter: declared once, checked, and shown as a table.

A chapter begins with a cell tagged ``parameters`` that holds plain literals, each with a comment::

    n_items = 10_000  # size of the catalogue
    n_negatives = 99  # negatives drawn per instance
    levels = [0.1, 0.5]  # quantiles to draw
    replacement = True  # draw negatives with replacement
    metrics = ["ndcg@10", "ap"]  # metrics to compare
    law = "binomial"  # law of the draws
    seed = 1  # seed of the simulation

and goes on with a cell that ends in the check, whose output is the table the reader sees::

    from .parameters import Choice, Flag, Integer, ListOf, MetricName, Real, check

    check(
        globals(),
        n_items=Integer("size of the catalogue", 2, 10**9, unit="items"),
        n_negatives=Integer("negatives drawn per instance", 1, 10**4, unit="items"),
        levels=ListOf(Real("quantiles to draw", 0, 1), at_most=5),
        replacement=Flag("draw negatives with replacement"),
        metrics=ListOf(MetricName("metrics to compare"), at_most=6),
        law=Choice("law of the draws", ["binomial", "hypergeometric"]),
        seed=Integer("seed of the simulation", 0, 2**32 - 1),
    )

A parameter that is unknown, of another type or out of range raises a `ParameterError`: one sentence
that names it.  That is how a rerun with a misspelt name stops, since papermill itself would define
the foreign name and go on with the default.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from sampled_metrics.metrics import metric

__all__ = [
    "Choice",
    "File",
    "Flag",
    "Integer",
    "ListOf",
    "MetricName",
    "Parameter",
    "ParameterError",
    "ParameterTable",
    "Real",
    "check",
]

_LITERALS = (int, float, str, bool, list, dict, tuple, type(None))
# What IPython itself keeps in the namespace of a notebook: its history, and Python's own dunders.
_IPYTHON = re.compile(r"In|Out|_+|__\w+|_i{1,3}|_i?\d+|_[dio]h|_exit_code")
_CHECKED = "__parameters_checked__"


class ParameterError(ValueError):
    """A parameter of a chapter is unknown, missing, of another type or out of range."""


class Parameter(Protocol):
    """What a chapter declares about one parameter."""

    @property
    def meaning(self) -> str:
        """What the parameter is, in a few words."""

    @property
    def unit(self) -> str:
        """The unit it is counted in, or an empty string."""

    @property
    def allowed(self) -> str:
        """The values it may take, as the end of the sentence "it must be ..."."""

    def accepts(self, value: object) -> bool:
        """Whether `value` is one of them."""


@dataclass(frozen=True)
class Integer:
    """A whole number from `low` to `high`, both included.

    >>> Integer("size of the catalogue", 2, 10**9).allowed
    'a whole number from 2 to 1,000,000,000'
    """

    meaning: str
    low: int
    high: int
    unit: str = ""

    @property
    def allowed(self) -> str:
        return f"a whole number from {self.low:,} to {self.high:,}"

    def accepts(self, value: object) -> bool:
        return type(value) is int and self.low <= value <= self.high


@dataclass(frozen=True)
class Real:
    """A number from `low` to `high`, both included; a whole number will do, NaN will not.

    >>> Real("confidence", 0, 1).accepts(float("nan"))
    False
    """

    meaning: str
    low: float
    high: float
    unit: str = ""

    @property
    def allowed(self) -> str:
        return f"a number from {self.low:,g} to {self.high:,g}"

    def accepts(self, value: object) -> bool:
        return type(value) in (int, float) and self.low <= value <= self.high  # type: ignore[operator]


@dataclass(frozen=True)
class Flag:
    """True or False.

    >>> Flag("draw with replacement").accepts(1)
    False
    """

    meaning: str
    unit: str = ""
    allowed: str = field(default="True or False", init=False)

    def accepts(self, value: object) -> bool:
        return isinstance(value, bool)


@dataclass(frozen=True)
class Choice:
    """One of a few values.

    >>> Choice("law of the draws", ["binomial", "hypergeometric"]).allowed
    "one of 'binomial', 'hypergeometric'"
    """

    meaning: str
    options: Sequence[str | int | float]
    unit: str = ""

    @property
    def allowed(self) -> str:
        return "one of " + ", ".join(map(repr, self.options))

    def accepts(self, value: object) -> bool:
        return any(type(value) is type(option) and value == option for option in self.options)


@dataclass(frozen=True)
class File:
    """The path of a file that exists, or an empty string for what the chapter has by itself.

    >>> File("table of ranks").accepts("")
    True
    """

    meaning: str
    unit: str = ""
    allowed: str = field(default="the path of a file, or '' for what is bundled", init=False)
    _exists = staticmethod(Path.is_file)

    def accepts(self, value: object) -> bool:
        return isinstance(value, str) and (value == "" or self._exists(Path(value)))


@dataclass(frozen=True)
class Folder(File):
    """The path of a folder that exists, or an empty string for what the chapter has by itself.

    >>> Folder("ranks of your own").accepts("no such folder")
    False
    """

    allowed: str = field(default="the path of a folder, or '' for what is bundled", init=False)
    _exists = staticmethod(Path.is_dir)


@dataclass(frozen=True)
class MetricName:
    """A name that `sampled_metrics.metric` understands.

    >>> MetricName("metric to compare").accepts("NDCG@10")
    True
    """

    meaning: str
    unit: str = ""
    allowed: str = field(default="the name of a metric, such as 'ndcg@10'", init=False)

    def accepts(self, value: object) -> bool:
        if not isinstance(value, str):
            return False
        try:
            metric(value)
        except ValueError:
            return False
        return True


@dataclass(frozen=True)
class ListOf:
    """A list of `at_least` to `at_most` values of one kind, all different if `distinct`.

    >>> ListOf(Integer("sample sizes", 1, 500), at_most=3).allowed
    'a list of 1 to 3 different values, each a whole number from 1 to 500'
    """

    element: Parameter
    at_least: int = 1
    at_most: int = 20
    distinct: bool = True

    @property
    def meaning(self) -> str:
        return self.element.meaning

    @property
    def unit(self) -> str:
        return self.element.unit

    @property
    def allowed(self) -> str:
        length = f"{self.at_least} to {self.at_most}"
        if self.at_least == self.at_most:
            length = f"{self.at_least}"
        values = "different values" if self.distinct else "values"
        return f"a list of {length} {values}, each {self.element.allowed}"

    def accepts(self, value: object) -> bool:
        return (
            isinstance(value, list)
            and self.at_least <= len(value) <= self.at_most
            and all(map(self.element.accepts, value))
            and (not self.distinct or len(set(value)) == len(value))
        )


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


def check(namespace: MutableMapping[str, object], /, **declared: Parameter) -> ParameterTable:
    """Check the parameters in a notebook's ``globals()`` against the chapter's declarations; the
    table of the parameters with their values.
    """
    for name, parameter in declared.items():
        if name not in namespace:
            raise ParameterError(f"{name} is missing from the cell tagged 'parameters'")
        if not parameter.accepts(namespace[name]):
            raise ParameterError(f"{name} is {namespace[name]!r}, but must be {parameter.allowed}")
    if not namespace.get(_CHECKED):
        for name, value in namespace.items():
            if type(value) in _LITERALS and not _IPYTHON.fullmatch(name):
                refuse_unknown(name, list(declared))
    namespace[_CHECKED] = True
    return ParameterTable(declared, {name: namespace[name] for name in declared})


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
