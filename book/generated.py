"""Pages that are written when the book is built: one for each public name, and the commands."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from importlib.metadata import metadata
from pathlib import Path

import nbformat
import yaml
from sphinx.util.rst import escape

from sampled_metrics import cli


def add_pages(folder: Path) -> None:
    """Add the generated pages to a copy of the book."""
    reference, commands = folder / "book" / "api.md", folder / "book" / "commands.md"
    if reference.exists():
        reference.with_suffix("").mkdir()
        for name in public_names(reference.read_text(encoding="utf-8")):
            path = reference.with_suffix("") / f"{file_of(name)}.md"
            path.write_text(page_of(name), encoding="utf-8")
    if commands.exists():
        text = commands.read_text(encoding="utf-8")
        commands.write_text(text + command_sections(), encoding="utf-8")


def outline(folder: Path) -> str:
    """Return the pages by title, as ``llms.txt``: Markdown for programs that read the site."""
    toc = yaml.safe_load((folder / "_toc.yml").read_text(encoding="utf-8"))
    lines = ["# Sampled Metrics", "", f"> {metadata('sampled-metrics')['Summary']}."]
    for part in toc.get("parts", []):
        lines += ["", f"## {part['caption']}", ""]
        for page in (chapter["file"] for chapter in part["chapters"]):
            lines.append(f"- [{title_of(folder / page)}]({page}.html)")
    return "\n".join(lines) + "\n"


def title_of(page: Path) -> str:
    """Return the title of a page, a notebook's or a text's, without roles."""
    text = page.with_suffix(".md")
    if text.exists():
        source = text.read_text(encoding="utf-8")
    else:
        notebook = nbformat.read(page.with_suffix(".ipynb"), as_version=4)
        source = "\n".join(c.source for c in notebook.cells if c.cell_type == "markdown")
    title = re.search(r"(?m)^# (.+)$", source)
    if title is None:
        raise ValueError(f"{page} has no title")
    return re.sub(r"\{[^}]*\}`([^`]*)`", r"\1", title[1])


def public_names(reference: str) -> list[str]:
    """Return the names in the tables of the reference, less the name of the package."""
    tables = re.findall(r"(?s)\.\. autosummary::.*?```", reference)
    return [name for table in tables for name in re.findall(r"(?m)^   ([A-Za-z]\S*)$", table)]


def file_of(name: str) -> str:
    """Return the name of a page's file, different from all others on any file system.

    >>> file_of("interval"), file_of("Interval")
    ('interval', 'Interval-class')
    """
    return f"{name}-class" if name.rpartition(".")[2][0].isupper() else name


def page_of(name: str) -> str:
    """Return the page of a public name, which Sphinx fills with its docstring.

    It is an orphan: the tables of the reference lead to it, and not the navigation.
    """
    last = name.rpartition(".")[2]
    kind, options = "function", ""
    if last[0].isupper():
        kind, options = ("exception", "") if last.endswith("Error") else ("class", _MEMBERS)
    directive = f".. auto{kind}:: sampled_metrics.{name}\n{options}"
    return f"---\norphan: true\n---\n\n# sm.{name}\n\n```{{eval-rst}}\n{directive}```\n"


_MEMBERS = "   :members:\n   :inherited-members:\n   :special-members: __call__\n"


def command_sections() -> str:
    """Return a section for each command: what it does, what it reads, its options, an example."""
    return "".join(
        f"\n(command-{name})=\n## sampled-metrics {name}\n\n```{{eval-rst}}\n"
        + "\n\n".join(_section(name, parser))
        + "\n```\n"
        for name, parser in cli._parser().commands.items()
    )


def _section(name: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    command = cli.COMMANDS[name]
    yield _prose(f"{command.summary} {command.details}")
    if command.input_format:
        yield from map(_prose, command.input_format.strip().split("\n\n"))
    yield "For example:"
    yield ".. code-block:: sh\n\n   " + command.example.replace("\n", "\n   ")
    yield f".. program:: sampled-metrics {name}"
    formatter = argparse.HelpFormatter(name)
    for action in parser._actions:
        if action.dest != "help":
            option = formatter._format_action_invocation(action)
            yield f".. option:: {option}\n\n   {_prose(formatter._expand_help(action))}"


def _prose(text: str) -> str:
    """Text of the help as reStructuredText on one line: options and quoted words as code."""
    parts = re.split(r'((?<!\w)--?[a-z][\w-]*|"[^"]*")', " ".join(text.split()))
    return "".join(
        f"``{part.strip(chr(34))}``" if index % 2 else escape(part)
        for index, part in enumerate(parts)
    )
