"""The command line: one command for each question.

Tables go to standard output or to files, which appear under their names only when complete.
Progress, warnings and notes go to the error stream. So does the error message, one sentence, with
exit status 2. Each command imports its modules when it runs, so that ``--help`` answers at once.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NoReturn

from . import cli_options as options
from ._files import SUFFIXES, OutputFiles

if TYPE_CHECKING:
    from .log.compact import Log
    from .log.query_values import TopLists
    from .log.sub_corpus import SubCorpus
    from .results import Result

_LONGEST = 1_000  # characters of an error or a warning

_LOG = f"""\
LOG is a CSV or Parquet file with a row for each held-out item: recommender, user and rank (among
the sampled negatives, 1 the best) or, better, n_better and n_tied, the negatives that scored
higher and the same; item, or instance, where a user has several; n_items and n_negatives where
users differ in them. Names such as model and user_id are understood, and what is left out is
named. JSON lines are read, too, as are tabs or semicolons for commas, and a .npy file of ranks.
"bundled" is a log that comes with the package: three recommenders on MovieLens 1M, with 100
negatives for each film.

{options.METRICS}

hr and hits mean hit, mrr means rr, map means ap. Where a user has R relevant items, ap@k divides
by min(R, k) as RecBole does, where trec_eval, ranx and RecTools divide by R; and the ideal of
ndcg@k has min(R, k) items, where that of RecTools has k by default, so that its ndcg@10 is 4.54
times smaller for one relevant item.

"""

_TABLE = """\
TABLE is a CSV file with a row for each method: columns method, dataset where there are several, and
one for each metric, named as papers do (HR@10, Recall@10, NDCG@10, MRR). Numbers are taken as they
are printed, 0.250 or 25.0%, since the last digit says how far they were rounded. Columns n_items,
n_negatives and users may say what differs from row to row. Each user has one held-out item.

"""


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are one sentence, like those of the library."""

    #: The parsers of the commands.
    commands: Mapping[str, argparse.ArgumentParser] = MappingProxyType({})

    def error(self, message: str) -> NoReturn:
        missing = message.removeprefix("the following arguments are required: ")
        if missing != message:
            message = f"{missing} is missing: {self.prog} --help shows an example"
        raise ValueError(message)

    def in_options(self, sentence: str, arguments: argparse.Namespace) -> str:
        """Replace the names of arguments in a library's message by options."""
        for command, parser in self.commands.items():
            for action in parser._actions:
                for flag in [flag for flag in action.option_strings if flag.startswith("--")]:
                    name = flag.removeprefix("--no-").removeprefix("--").replace("-", "_")
                    setting = f"{name}={'False' if flag.startswith('--no-') else 'True'}"
                    if action.nargs == 0 and flag not in sentence:
                        sentence = sentence.replace(setting, flag)
                    is_set = getattr(arguments, action.dest, action.default) != action.default
                    if command == getattr(arguments, "command", None) and is_set:
                        argument = action.dest.removeprefix("no_")
                        sentence = re.sub(rf"^{argument}(?= must )", flag, sentence)
        return sentence


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return the exit status.

    0 is success, 2 bad input, 130 an interrupt, 141 a closed pipe (such as to ``head``). ``gate``
    returns 0, 1 or 3 for better, worse or undecided, and 1 stands for an alarm of ``--fail-on``.

    >>> main(["--version"])  # doctest: +ELLIPSIS
    sampled-metrics ...
    0
    """
    if hasattr(sys.stdout, "reconfigure"):  # a name that the terminal cannot show is no error
        sys.stdout.reconfigure(errors="backslashreplace")
    parser, arguments = _parser(), argparse.Namespace()
    try:
        parser.parse_args(argv, arguments)
        arguments.progress = not getattr(arguments, "quiet", True)
        with _warnings_as_lines(), OutputFiles() as files:
            status = arguments.run(arguments, files)
            sys.stdout.flush()
    except SystemExit as end:  # after --help and --version
        return end.code if isinstance(end.code, int) else 0
    except BrokenPipeError:  # the reader, such as head, has seen enough
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except (ValueError, OSError, ImportError, MemoryError) as problem:
        print(f"error: {_sentence(problem, parser, arguments)}", file=sys.stderr)
        return 2
    return status or 0


def _estimate(arguments: argparse.Namespace, files: OutputFiles) -> None:
    from . import evaluation

    log, table_path, page_path = _opened(arguments, files)
    options = _given(arguments, "confidence progress by estimator")
    options |= {"assumption": _assumption(arguments), "family": _family(arguments)}
    shown = {"population": arguments.population, "identification": not arguments.no_identification}
    estimates: Any = evaluation.estimate(log, arguments.metrics, **shown, **options)
    if page_path is not None:
        from .report import pages

        estimates = pages.with_verdicts(estimates, log, **options)
        _write_page(page_path, estimates, arguments)
    _show(estimates, table_path, arguments)


def _family(arguments: argparse.Namespace) -> str | dict[str, str] | None:
    """One family for all recommenders, or that of each, written NAME=FAMILY."""
    words = [word.rpartition("=") for word in arguments.family or []]
    if len(words) == 1 and not words[0][0]:
        return str(words[0][2])
    if unnamed := [family for name, _, family in words if not name]:
        raise ValueError(
            f"--family must be one family, or RECOMMENDER=FAMILY for each, got {unnamed[0]!r}"
        )
    return {name: family for name, _, family in words} or None


def _compare(arguments: argparse.Namespace, files: OutputFiles) -> None:
    from . import evaluation

    log, table_path, page_path = _opened(arguments, files)
    options = _given(arguments, "confidence progress by estimator")
    options |= {"assumption": _assumption(arguments), "family": _family(arguments)}
    comparison = evaluation.compare(log, arguments.metric, **options)
    if page_path is not None:
        from .report import pages

        _write_page(page_path, pages.with_estimates(comparison, log, **options), arguments)
    _show(comparison, table_path, arguments)


def _gate(arguments: argparse.Namespace, files: OutputFiles) -> int:
    from .gate import STATUS, gate

    table_path = _table(arguments, files, [arguments.old, arguments.new, arguments.qrels])
    if (arguments.qrels is None) == arguments.of_all:
        raise ValueError(
            "--qrels and --of-all must be given together: runs are compared if each lists the "
            "first documents of the whole corpus; compare takes those of a sub-corpus"
        )
    names = "n_items n_negatives replacement first_rank anchors confidence progress qrels margin"
    options = _given(arguments, f"{names} queries_are_documents")
    verdict, comparison = gate(
        arguments.old,
        arguments.new,
        arguments.metric,
        assumption=_assumption(arguments),
        **options,
    )
    _show(comparison, table_path, arguments)
    return STATUS[verdict]


def _published(arguments: argparse.Namespace, files: OutputFiles) -> int:
    from .published_tables import published
    from .results import Orders

    table_path = _table(arguments, files, [arguments.table])
    tables = published(
        arguments.table,
        assumption=_assumption(arguments),
        **_given(arguments, "n_items n_negatives users replacement metrics confidence"),
    )
    result = Orders(tables.orders, tables.settings, tables.notes) if arguments.orders else tables
    _show(result, table_path, arguments)
    return int(arguments.fail_on is not None and not tables.checks["together"].all())


def _plan(arguments: argparse.Namespace, files: OutputFiles) -> None:
    from .planning import plan

    log, table_path, page_path = _opened(arguments, files)
    names = "n_items n_users max_negatives progress confidence"
    names += " estimators" * bool(arguments.estimators)
    planned = plan(log, arguments.metric, **_given(arguments, names))
    if page_path is not None:
        _write_page(page_path, planned, arguments)
    _show(planned, table_path, arguments)


def _rank(arguments: argparse.Namespace, files: OutputFiles) -> None:
    from .metrics import metric
    from .ranking.files import rank

    if arguments.format and arguments.output:
        raise ValueError(
            f"--format must be left out beside --output, got {arguments.format}: the extension of "
            "OUTPUT, .csv or .parquet, says what to write"
        )
    for name in arguments.metrics or ():
        metric(name)
    options = _given(arguments, "score output cluster progress stop_at candidates")
    ranks = rank(**_given(arguments, "users items test train name"), **options)
    n_several = int((ranks.frame["n_relevant"] > 1).sum())
    note = f"the user's other held-out items are counted ({n_several:,} rows have some)"
    if arguments.output is not None:
        summary = f"{len(ranks.frame):,} ranks in {arguments.output}"
        print(f"{summary}: {note}" if n_several else summary)
        if not arguments.metrics:
            return
        arguments.output = None  # its name says how ranks are written, not what is printed
    _show(ranks.metrics(arguments.metrics) if arguments.metrics else ranks, None, arguments)
    if n_several and not arguments.quiet:
        print(f"note: {note}", file=sys.stderr)


def _anchors(arguments: argparse.Namespace, files: OutputFiles) -> None:
    from .evaluation import anchors
    from .log.read import read_log
    from .results import Result

    table_path = _table(arguments, files, [arguments.log])
    sizes = _given(arguments, "n_items n_negatives replacement first_rank anchors")
    log = read_log(arguments.log, **sizes)
    drawn = anchors(log, arguments.metric, **_given(arguments, "n seed"))
    # As text, so that no comma separates the thousands of a user's number.
    _show(Result(drawn.astype({"user": str})), table_path, arguments)


def _audit(arguments: argparse.Namespace, files: OutputFiles) -> int:
    from .auditing import audit

    table_path = _table(arguments, files, [arguments.negatives, arguments.positives])
    result = audit(
        arguments.negatives,
        arguments.n_items,
        arguments.positives,
        **_given(arguments, "n_negatives replacement confidence"),
    )
    _show(result, table_path, arguments)
    return int(arguments.fail_on is not None and bool(result.alarms))


def _example(arguments: argparse.Namespace, files: OutputFiles) -> None:
    from .example import write_example

    paths = write_example(arguments.folder, arguments.seed)
    line = f"{arguments.folder}: {', '.join(path.name for path in paths)}"
    print(textwrap.fill(line, 78, break_long_words=False, break_on_hyphens=False))


def _given(arguments: argparse.Namespace, names: str) -> dict[str, Any]:
    """The options with the same names as the library function's arguments."""
    return {name: getattr(arguments, name) for name in names.split()}


def _assumption(arguments: argparse.Namespace) -> str | None:
    return None if arguments.assume == "nothing" else str(arguments.assume)


def _opened(
    arguments: argparse.Namespace, files: OutputFiles
) -> tuple[Any, Path | None, Path | None]:
    """The log and the paths of table and page, checked before any work."""
    from .designs.options import checked_metrics
    from .log.tables import files as files_of

    names = getattr(arguments, "metrics", None) or arguments.metric
    names_of_runs = ("qrels", "corpus_size", "of_all", "queries_are_documents")
    is_run = any(getattr(arguments, name, None) for name in names_of_runs)
    is_log = is_run or arguments.first_rank is not None or arguments.replacement is not None
    is_log = is_log or arguments.command == "plan"
    metrics = checked_metrics(names, None if is_log else arguments.log)
    log_files = files_of(arguments.log, any_suffix=is_run)
    inputs = [] if log_files is None else log_files.paths
    table_path, page_path = _table(arguments, files, inputs), None
    if arguments.report is not None:
        from .report.figures import import_figures

        page_path = files.add(Path(arguments.report), inputs)
        import_figures()
    if is_run:
        return _run(arguments), table_path, page_path
    if not is_log:
        from .log.query_values import query_values

        values = query_values(arguments.log, metrics)
        if values is not None:
            return values, table_path, page_path
    return _log(arguments), table_path, page_path


def _run(arguments: argparse.Namespace) -> SubCorpus | TopLists:
    from .readers import trec

    if arguments.qrels is None:
        raise ValueError("--qrels is missing: runs are read with it")
    if arguments.corpus_size is None and not arguments.of_all:
        raise ValueError(
            "--corpus-size is missing: say how many documents the corpus has if the run ranks a "
            "sub-corpus, or --of-all if it lists the first documents of the whole corpus"
        )
    names = "n_items n_negatives replacement first_rank by anchors"
    for name in names.split():
        if getattr(arguments, name) is not None:
            raise ValueError(f"--{name.replace('_', '-')} must be left out beside --qrels")
    options = _given(arguments, "corpus_size queries_are_documents")
    if arguments.of_all:
        options["of_all"] = True
    run: SubCorpus | TopLists = trec(arguments.log, arguments.qrels, **options)
    return run


def _log(arguments: argparse.Namespace) -> Log:
    from .log.columns import SizeMissingError
    from .log.read import read_log

    options = _given(arguments, "n_negatives replacement first_rank anchors")
    options["shared_negatives"] = arguments.shared_negatives or None
    options["fixed_sample_size"] = arguments.fixed_sample_size
    if arguments.command != "plan":
        options["by"] = arguments.by
    if arguments.command == "plan":
        # A plan may be for another catalogue than that of the log, if the log has its own.
        try:
            return read_log(arguments.log, n_items=None, **options)
        except SizeMissingError as problem:
            if arguments.n_items is None or problem.column != "n_items":
                raise
    return read_log(arguments.log, n_items=arguments.n_items, **options)


def _table(
    arguments: argparse.Namespace, files: OutputFiles, inputs: Sequence[str | Path | None]
) -> Path | None:
    """The path to write the table to; None if it is printed."""
    _format(arguments)
    return None if arguments.output is None else files.add(Path(arguments.output), inputs)


def _format(arguments: argparse.Namespace) -> str:
    """The format asked for, or the one of the output's suffix."""
    suffix = "" if arguments.output is None else Path(arguments.output).suffix.lower()
    if arguments.format is None and suffix not in ("", *SUFFIXES):
        raise ValueError(
            f"--format is missing: the extension of {arguments.output} does not say what to write, "
            f"as {', '.join(SUFFIXES)} do"
        )
    return arguments.format or SUFFIXES.get(suffix, "table")


def _write_page(page_path: Path, result: Result, arguments: argparse.Namespace) -> None:
    with_facts = replace(result, facts={"log": arguments.log, **result.facts})
    page_path.write_text(with_facts.to_html(), encoding="utf-8")


def _show(result: Result, output_path: Path | None, arguments: argparse.Namespace) -> None:
    """Print or write a table, and its notes on the error stream."""
    for note in result.notes:
        print(f"note: {note}", file=sys.stderr)
    text = result.to_text(_format(arguments))
    if output_path is not None:
        output_path.write_text(text, encoding="utf-8")
    elif sys.stdout is None:  # what Python makes of a stream that the shell closed
        raise ValueError("standard output is closed: name a file to write to")
    else:
        sys.stdout.write(text)


@contextmanager
def _warnings_as_lines() -> Iterator[None]:
    """Print each warning once, on one line."""
    shown_lines = set()

    def show(message: Warning | str, *_: object, **__: object) -> None:
        from ._validate import shortened

        line = shortened(" ".join(str(message).split()), _LONGEST)
        if line not in shown_lines:
            print(f"warning: {line}", file=sys.stderr)
        shown_lines.add(line)

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("ignore", FutureWarning)
        warnings.showwarning = show
        yield


def _sentence(problem: BaseException, parser: _Parser, arguments: argparse.Namespace) -> str:
    """The error message on one line."""
    if isinstance(problem, MemoryError):
        return "there is not enough memory for this"
    if isinstance(problem, OSError) and problem.strerror:
        prefix = "" if problem.filename is None else f"{problem.filename}: "
        return f"{prefix}{problem.strerror}"
    from ._validate import printable, shortened

    sentence = parser.in_options(printable(str(problem)), arguments)
    return shortened(sentence, _LONGEST) or type(problem).__name__


class _Version(argparse.Action):
    """Prints what a report of a bug needs, and ends."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        import platform
        from importlib.metadata import version

        print("sampled-metrics", version("sampled-metrics"))
        print("Python", platform.python_version(), "on", platform.platform())
        print(", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "pandas")))
        parser.exit()


def _parser() -> _Parser:
    parser = _Parser(
        prog="sampled-metrics",
        description="What a sampled evaluation says about the exact metrics of recommenders.",
        epilog="sampled-metrics COMMAND --help shows the options of a command and an example.",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show versions and exit")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    parser.commands = parsers = {}
    for name, command in COMMANDS.items():
        code = "".join(f"  {line}\n" for line in command.example.splitlines())
        description = textwrap.fill(f"{command.summary} {command.details}", 78)
        parsers[name] = commands.add_parser(
            name, help=command.summary, description=description,
            epilog=f"{command.input_format}example:\n{code}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )  # fmt: skip
        parsers[name].set_defaults(run=command.run)
        add = partial(options.add_option, parsers[name])
        command.add_options(add)
        if name != "example":
            add("--quiet", "show no progress")
    return parser


@dataclass(frozen=True)
class _Command:
    """A command, the texts of its help, and an example that works as pasted."""

    run: Callable[[argparse.Namespace, OutputFiles], int | None]
    add_options: Callable[[partial[None]], None]
    summary: str
    details: str
    example: str
    input_format: str = ""


# fmt: off
#: In the order of the help.
COMMANDS = {
    "estimate": _Command(_estimate, options.estimate_options,
        "Estimate exact metrics from a sampled evaluation.",
        "The table has for each recommender and metric what was reported, an estimate, the typical "
        "range (by a track record, which the result names), the 95% interval of all "
        "exact values that are consistent with the sample, and what a sentence may quote.",
        "sampled-metrics estimate bundled --metrics recall@10 ndcg@10 ap auc",
        _LOG,
    ),
    "compare": _Command(_compare, options.compare_options,
        "Say which recommender beats which, and under what assumption.",
        "A sentence for each pair says who beats whom, with the confidence and the assumption of "
        "the verdict, or what would decide it. The table has the reported difference, the "
        "corrected one, and the 95% interval of the exact difference. The chance that any verdict "
        "with 95% confidence on the log's pairs by this metric is wrong is at most 5%, if the "
        "verdict's assumption holds, for users drawn from a population at random and for its exact "
        "metrics. A verdict whatever the ranks holds for the log's own users, too, and for them "
        "alone if it says so. Where a pair is undecided, the track record of such estimates says "
        "how often such orders were right; the result names the recommenders that it is of.",
        "sampled-metrics compare bundled --metric ndcg@10",
        _LOG,
    ),
    "gate": _Command(_gate, options.gate_options,
        "Say by the exit status whether a new recommender is better than the old one.",
        "Each log has one recommender, on the same users. The status is 0 if the new one is "
        "better, 1 if it is worse, 3 if neither can be said, and 2 after an error. What is printed "
        "names the confidence and the assumption of the verdict. A lead by track record is "
        "printed and decides nothing: the status is 3.",
        "sampled-metrics example toy\nsampled-metrics gate toy/old.csv toy/new.csv --metric "
        "ndcg@10 --n-items 480 --n-negatives 50 --no-replacement",
    ),
    "published": _Command(_published, options.published_options,
        "Bound the exact metrics behind a published table, and check its numbers.",
        "The table has for each method and metric what is published, and all exact values that the "
        "published numbers leave possible, their digits and the draws of the negatives counted: "
        "with no assumption on the ranks, and if near the top deeper ranks have fewer users. All "
        "ranges of a data set hold together with 95% confidence. The last column is a guess. A row "
        "that no ranks can give is named. A table of methods that ranked one corpus for all "
        "queries needs no options but columns queries, documents, of, and corpus, which says "
        "how its documents were chosen.",
        "sampled-metrics example toy\nsampled-metrics published toy/table.csv --n-items 480 "
        "--n-negatives 50 --users 300 --no-replacement",
        _TABLE,
    ),
    "plan": _Command(_plan, options.plan_options,
        "Find how many negatives or users an evaluation needs.",
        "Needed are as many as make the verdict on two recommenders right with the given "
        "probability; the last row of each pair is for ranking all items instead. The "
        "recommenders' true ranks are taken to be as evenly distributed as a log allows.",
        "sampled-metrics plan --n-items 100000 --users 5000 --metric ndcg@10 --from bundled",
        _LOG,
    ),
    "rank": _Command(_rank, options.rank_options,
        "Rank held-out items exactly, so that nobody needs to sample.",
        "Items are ranked by factors among all items that their user was not trained on, in "
        "blocks, by one process or by a cluster. The user's other held-out items are counted, too, "
        "and in columns of their own.",
        "sampled-metrics example toy\nsampled-metrics rank --user-factors toy/U.npy "
        "--item-factors toy/V.npy --train toy/train.npz --test toy/test.csv -o toy/ranks.csv",
    ),
    "anchors": _Command(_anchors, options.anchors_options,
        "Say whom to rank among all items next, where scores are expensive.",
        "Users are drawn in proportion to the largest value that the metric may have, given the "
        "scored items above. Rank all items for them, and add the columns draw, as printed, and "
        "exact_rank to LOG: estimate, compare and gate then take the option --anchors.",
        "sampled-metrics anchors bundled --metric ndcg@10 --n-anchors 200 --seed 1",
        _LOG,
    ),
    "audit": _Command(_audit, options.audit_options,
        "Test whether logged negatives are what they claim to be.",
        "They should be uniform over the candidates, as many for each user, without positives and "
        "without duplicates.",
        "sampled-metrics example toy\nsampled-metrics audit toy/negatives.csv --n-items 500 "
        "--positives toy/positives.csv",
    ),
    "example": _Command(_example, options.example_options,
        "Write a folder of small files to try the other commands on.",
        "They are factors, a training set, held-out items, negatives and a log.",
        "sampled-metrics example toy\nsampled-metrics estimate toy/log.csv --n-items 480 "
        "--n-negatives 50 --no-replacement",
    ),
}
# fmt: on
