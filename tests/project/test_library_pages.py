"""What the pages of the library show works as shown, and the reference leaves nothing out."""

import ast
import doctest
import importlib
import inspect
import re
import shlex
from dataclasses import dataclass
from pathlib import Path

import pytest

import generated
from sampled_metrics.cli import COMMANDS, main

ROOT = Path(__file__).resolve().parents[2]
LABORATORY = "book/library/laboratory.md"
#: Every page of the library but the laboratory's, the two that are read first at the head.
TUTORIALS = ["book/library/start.md", "book/library/decide.md"]
TUTORIALS += sorted(
    path
    for file in (ROOT / "book/library").glob("*.md")
    if (path := f"book/library/{file.name}") not in [*TUTORIALS, LABORATORY]
)
REFERENCE = ["book/api.md", "book/commands.md", LABORATORY]

#: Lines of `sh` blocks that are not run: they change the environment that the tests run in.
NOT_RUN = ["pip install ."]
#: What is run in tests/peers, with the libraries that it is about.
PEERS = "{code-block} python"
#: The fixture of tests/peers/conftest.py that runs the blocks of a page.
PEER_FIXTURES = {"book/library/libraries.md": "shown", "book/library/loop.md": "added"}
#: The solution of an exercise, or a box: prose.
PROSE = "{admonition} "
#: How a block begins that names what the page is found by.
INDEX = "{index} ! "
#: How a block begins that shows a file.
FILE = "{code-block} text"


@dataclass(frozen=True)
class Block:
    """A fenced block: what follows the fence, what is inside, and the line it begins at."""

    kind: str
    text: str
    line: int


def blocks_of(text):
    """The fenced blocks of a page; a fence that is not closed is an error."""
    lines = iter(enumerate(text.splitlines(keepends=True), start=1))
    for number, line in lines:
        if not line.lstrip().startswith(("```", "~~~", ":::")):
            continue
        assert line.startswith("```"), (
            f"line {number}: blocks begin with three backticks, unindented"
        )
        kind, inside = line[3:].strip(), []
        for _, inner in lines:
            if inner == "```\n":
                break
            inside.append(inner)
        else:
            raise AssertionError(f"line {number}: the block is not closed")
        yield Block(kind, "".join(inside), number)


def page(path):
    return (ROOT / path).read_text(encoding="utf-8")


def commands_of(block):
    """The lines of a shell block, those that a backslash continues being one."""
    return [line for line in block.text.replace("\\\n", " ").splitlines() if line.strip()]


def write(block):
    """Write the file that a block shows under the name in its caption."""
    match = re.fullmatch(r":caption: ([\w.-]+)\n\n(.*)", block.text, flags=re.S)
    assert match, f"line {block.line}: a file is shown with its name as caption"
    Path(match[1]).write_text(match[2], encoding="utf-8")


def begun_by_peers(path):
    """How the blocks of a page begin that tests in tests/peers run, by a fixture of the page."""
    calls = re.compile(rf'\b{PEER_FIXTURES.get(path, "none")}\(\s*"([^"]+)"')
    files = sorted((ROOT / "tests/peers").glob("test_*.py"))
    return [begins for file in files for begins in calls.findall(file.read_text(encoding="utf-8"))]


def run_by_peers(path, block):
    return any(map(block.text.startswith, begun_by_peers(path)))


class Page:
    """Runs the blocks of one page, one after the other, in the current folder."""

    def __init__(self, capsys, path="page"):
        self.capsys, self.names = capsys, {"__name__": "__main__"}
        self.path = path
        self.printed = None

    def run(self, block):
        if block.kind == "text":
            assert self.printed is not None, f"line {block.line}: no command is before this output"
            assert block.text == self.printed, f"line {block.line}"
            self.printed = None
            return
        self.printed = None
        if block.kind == "sh":
            self.printed = self.shell(block)
        elif block.kind == "python":
            self.python(block)
        elif block.kind == FILE:
            write(block)
        elif block.kind == PEERS:
            self.elsewhere(block)
        elif block.kind.startswith(PROSE):
            assert ">>>" not in block.text, f"line {block.line}: the code of a box is not run"
        elif block.kind.startswith(INDEX):
            assert block.text == "", f"line {block.line}"
        else:
            raise AssertionError(
                f"line {block.line}: blocks of {block.kind or 'no kind'} are not run"
            )

    def shell(self, block):
        """Run the commands of a block and return what the last one printed."""
        printed = None
        for line in commands_of(block):
            if line in NOT_RUN:
                continue
            program, *words = shlex.split(line)
            assert program == "sampled-metrics", f"line {block.line}: {line}"
            self.capsys.readouterr()
            status = main(words)
            printed, problems = self.capsys.readouterr()
            assert status == 0, f"line {block.line}: {problems}"
            assert "warning" not in problems, f"line {block.line}: {problems}"
        return printed

    def python(self, block):
        test = doctest.DocTestParser().get_doctest(block.text, self.names, "page", None, block.line)
        assert test.examples, f"line {block.line}: Python is shown with its prompts"
        messages = []
        doctest.DocTestRunner().run(test, out=messages.append, clear_globs=False)
        assert not messages, "".join(messages)
        self.names = test.globs

    def elsewhere(self, block):
        """A test in tests/peers runs the block, and this is Python of three lines."""
        assert run_by_peers(self.path, block), f"line {block.line}: no test of tests/peers runs it"
        nodes = ast.walk(ast.parse(block.text))
        names = {node.attr for node in nodes if isinstance(node, ast.Attribute)}
        assert names, f"line {block.line}"
        assert len(block.text.splitlines()) == 3, f"line {block.line}"


@pytest.mark.pages
@pytest.mark.parametrize("path", TUTORIALS)
def test_every_block_of_a_page_runs_and_prints_what_is_shown(path, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    running = Page(capsys, path)
    kinds = [running.run(block) or block.kind for block in blocks_of(page(path))]
    assert {"sh", "python", PEERS} & set(kinds)


@pytest.mark.parametrize("path", PEER_FIXTURES)
def test_the_tests_of_other_libraries_each_run_one_block_of_the_page(path):
    blocks = [block.text for block in blocks_of(page(path)) if block.kind == PEERS]
    for begins in begun_by_peers(path):
        assert sum(text.startswith(begins) for text in blocks) == 1, begins
    assert len(set(begun_by_peers(path))) == len(blocks) > 4


def roles(path):
    """The kinds and targets of the links into the reference on a page."""
    links = re.findall(r"\{py:(\w+)\}`(?:[^`<]*<)?~?([\w.]+)>?`", page(path))
    assert len(links) == page(path).count("{py:")
    return links


def named(target):
    """The module, class, function or method of a dotted name: what the name means in code."""
    path, *parts = target.split(".")
    thing = importlib.import_module(path)
    for part in parts:
        path = f"{path}.{part}"
        if not hasattr(thing, part):
            importlib.import_module(path)
        thing = getattr(thing, part)
    return thing


@pytest.mark.parametrize("path", [*TUTORIALS, *REFERENCE])
def test_every_link_into_the_reference_leads_to_something(path):
    for kind, target in roles(path):
        assert named(target) is not None, target
        assert (kind == "mod") == inspect.ismodule(named(target)), target


def test_the_page_of_the_commands_says_what_their_help_says(monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "10000")  # no help text is wrapped
    whole = re.sub(r"\\(.)|(?<!`)``(?!`)", r"\1", generated.command_sections())
    sections = dict(re.findall(r"(?ms)^## sampled-metrics (\w+)$(.*?)^```$", whole))
    assert sections.keys() == COMMANDS.keys()
    for name, section in sections.items():
        shown = re.findall(r"(?m)^\.\. option:: (.+)\n\n   (.+)$", section)
        assert main([name, "--help"]) == 0
        text = capsys.readouterr().out.replace('"', "")
        printed = re.findall(r"(?m)^  (\S.*?)(?: |\n) +(\S.*)$", text.split("\nexample:")[0])
        assert shown == [row for row in printed if row[0] != "-h, --help"], name
        assert COMMANDS[name].example in section.replace("\n   ", "\n")
