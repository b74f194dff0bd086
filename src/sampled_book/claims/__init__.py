"""The ledger's claims and the checks that compute their status."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import yaml

from .finding import Finding

PATH = Path(__file__).resolve().parents[3] / "book" / "claims.yml"
#: Modules of checks, by name.
MODULES = {
    name: import_module(f"{__name__}.{name}")
    for name in (
        *("candidates", "corrected", "corrections", "curves", "decoys", "errors", "formulas"),
        *("movielens", "popularity", "published", "samplers", "survey", "toy"),
    )
}


@dataclass(frozen=True)
class Source:
    """Where a claim is printed."""

    key: str
    section: str
    place: str = ""


@dataclass(frozen=True)
class Claim:
    """One entry of the ledger.

    `source` is where it is published first, `other_sources` other places. `claim` is in our words;
    `published` is the number, formula or order that the check compares with. `check` names the
    function that computes our value, as "module.name", `args` its further arguments. `chapter` is
    the label of the chapter that explains it.
    """

    id: str
    source: Source
    claim: str
    published: str
    check: str
    chapter: str
    args: Mapping[str, Any]
    other_sources: tuple[Source, ...] = ()


@cache
def load(path: Path = PATH) -> tuple[Claim, ...]:
    """Read the claims, in the order of the file; a table gives one for each of its cells."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the first is in C, where it was built
    entries = yaml.load(path.read_text(encoding="utf-8"), loader)
    return tuple(
        Claim(
            source=Source(**entry.pop("source")),
            other_sources=tuple(Source(**source) for source in entry.pop("also", [])),
            **{"args": {}} | entry,
        )
        for table in entries
        for entry in _entries(table)
    )


def _entries(table: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """One entry for each cell of a table; an entry without cells is itself."""
    if "cells" not in table:
        yield table
        return
    axes, words, cells = table.pop("axes"), table.pop("words"), table.pop("cells")
    for keys, cell in _leaves(cells, len(axes)):
        names = dict(zip(axes, keys, strict=True))
        for key in keys:
            names |= words.get(key, {})
        entry = _fill(table, names)
        entry["id"] = re.sub("[^a-z0-9]+", "-", entry["id"].lower().replace("@", ""))
        cell = cell if isinstance(cell, dict) else {"published": cell}
        yield entry | cell | {"args": entry["args"] | cell.get("args", {})}


def _leaves(nested: Any, depth: int) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The values `depth` mappings deep, each with the keys that lead to it."""
    if depth == 0:
        yield (), nested
        return
    for key, inner in nested.items():
        for keys, value in _leaves(inner, depth - 1):
            yield (key, *keys), value


def _fill(template: Any, names: Mapping[str, str]) -> Any:
    """The template with each name in braces replaced in all its texts."""
    if isinstance(template, dict):
        return {key: _fill(value, names) for key, value in template.items()}
    if isinstance(template, list):
        return [_fill(value, names) for value in template]
    return template.format_map(names) if isinstance(template, str) else template


def check(claim: Claim) -> Finding:
    """Compute the finding of a claim."""
    finding = find(claim.check)(claim.published, **claim.args)
    if not isinstance(finding, Finding):
        raise TypeError(f"check {claim.check} must return a Finding, got {finding!r}")
    return finding


def find(name: str) -> Any:
    """The check named "module.function"; an error says that there is none."""
    module, _, function = name.partition(".")
    return getattr(MODULES[module], function)
