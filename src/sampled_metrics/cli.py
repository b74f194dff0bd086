"""The command line: estimate, compare, published, plan, rank, audit and example.

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

from ._confidence import CONFIDENCE
from ._files import FORMATS, SUFFIXES, OutputFiles

if TYPE_CHECKING:
    from .adaptive import Adaptive
    from .bounds.assumption import Assumption
    from .log.compact import Log
    from .log.sub_corpus import SubCorpus
    from .results import Result

_LONGEST = 1_000  # characters of an error or a warning

#: The forms of a log, for the help.
LOG = 'a file, a folder of files, a pattern in quotes such as "log/*.parquet", or "bundled"'

_LOG = """\
LOG is a CSV or Parquet file with a row for each held-out item: recommender, user and rank (among
the sampled negatives, 1 the best) or, better, n_better and n_tied, the negatives that scored
higher and the same; item, or instance, where a user has several; n_items and n_negatives where
users differ in them. Names such as model and user_id are understood, and what is left out is
named. "bundled" is a log that comes with the package: three recommenders on MovieLens 1M, with
100 negatives for each film.

Metrics are auc, recall@K, precision@K, hit@K, ndcg@K, ap@K and rr@K (the last three also without
@K) and accuracy. hr and hitrate mean hit, mrr means rr, map means ap. Where a user has R relevant
items, hit and rr look at the best of them; ap@K divides by min(R, K) as RecBole does, where
trec_eval, ranx and RecTools divide by R; and the ideal of ndcg@K has min(R, K) items, where that
of RecTools has K by default, so that its ndcg@10 is 4.54 times smaller for one relevant item.

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

    0 is success, 2 bad input, 130 an interrupt, 141 a closed pipe (such as to ``head``).

    >>> main(["estimate", "bundled", "--metrics", "auc", "--estimators", "naive",
    ...       "--no-identification", "--format", "csv"])  # doctest: +ELLIPSIS
    recommender,metric,estimator,value,standard_error,low,high,users
    X,auc,naive,0.891...
    Y,auc,naive,...
    Z,auc,naive,...
    0
    """
    if hasattr(sys.stdout, "reconfigure"):  # a name that the terminal cannot show is no error
        sys.stdout.reconfigure(errors="backslashreplace")
    parser, arguments = _parser(), argparse.Namespace()
    try:
        parser.parse_args(argv, arguments)
        arguments.progress = not getattr(arguments, "quiet", True)
        with _warnings_as_lines(), OutputFiles() as files:
            arguments.run(arguments, files)
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
    return 0


def _estimate(arguments: argparse.Namespace, files: OutputFiles) -> None:
    from . import evaluation

    if arguments.all and arguments.estimators:
        raise ValueError(
            f"--all must be left out beside --estimators, got {' '.join(arguments.estimators)}"
        )
    log, table_path, page_path = _opened(arguments, files)
    given = _given(arguments, "confidence progress")
    options, estimators = given | {"assumption": _assumption(arguments)}, arguments.estimators
    if arguments.all or estimators:
        estimates: Any = evaluation.estimate_each(
            log, arguments.metrics, estimators=estimators or "all", **given
        )
    else:
        estimates = evaluation.estimate(
            log,
            arguments.metrics,
            identification=not arguments.no_identification,
            efficiency=arguments.efficiency,
            **options,
        )
        if arguments.certificate is not None:
            path = files.add(Path(arguments.certificate), [arguments.log])
            estimates.certificate(path, None, arguments.recommender)
    if page_path is not None:
        from .report import pages

        estimates = pages.with_verdicts(estimates, log, **options)
        _write_page(page_path, estimates, arguments)
    _show(estimates, table_path, arguments)


def _compare(arguments: argparse.Namespace, files: OutputFiles) -> None:
    from . import evaluation

    log, table_path, page_path = _opened(arguments, files)
    options = _given(arguments, "confidence progress") | {"assumption": _assumption(arguments)}
    estimator_option = {} if arguments.estimator is None else {"estimator": arguments.estimator}
    comparison = evaluation.compare(log, arguments.metric, **options, **estimator_option)
    if page_path is not None:
        from .report import pages

        _write_page(page_path, pages.with_estimates(comparison, log, **options), arguments)
    _show(comparison, table_path, arguments)


def _published(arguments: argparse.Namespace, files: OutputFiles) -> None:
    from .published_tables import published
    from .results import Orders

    table_path = _table(arguments, files, [arguments.table])
    tables = published(
        arguments.table,
        assumption=_assumption(arguments),
        **_given(arguments, "n_items n_negatives users replacement metrics confidence"),
    )
    result = Orders(tables.orders, notes=tables.notes) if arguments.orders else tables
    _show(result, table_path, arguments)


def _plan(arguments: argparse.Namespace, files: OutputFiles) -> None:
    from .log_plans import curve_log, plan
    from .results import Result

    log, table_path, page_path = _opened(arguments, files)
    options = _given(arguments, "n_items n_users max_negatives progress")
    if arguments.estimators:
        options["estimators"] = arguments.estimators
    if arguments.curve and page_path is None:
        _show(curve_log(log, arguments.metric, **options), table_path, arguments)
        return
    options |= _given(arguments, "confidence budget sequential")
    planned = plan(log, arguments.metric, curves=page_path is not None, **options)
    if page_path is not None:
        _write_page(page_path, planned, arguments)
    shown = Result(planned.curves, notes=planned.notes) if arguments.curve else planned
    _show(shown, table_path, arguments)


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
    options = _given(arguments, "score item_bias relative_tolerance among output cluster progress")
    ranks = rank(**_given(arguments, "users items test train name"), **options)
    n_several = int((ranks.frame["n_relevant"] > 1).sum())
    counted = "are counted as candidates" if arguments.among == "all" else "are no candidates"
    note = f"the user's other held-out items {counted} ({n_several:,} rows have some)"
    if arguments.output is not None:
        summary = f"{len(ranks.frame):,} ranks in {arguments.output}"
        print(f"{summary}: {note}" if n_several else summary)
        if not arguments.metrics:
            return
        arguments.output = None  # its name says how ranks are written, not what is printed
    _show(ranks.metrics(arguments.metrics) if arguments.metrics else ranks, None, arguments)
    if n_several and not arguments.quiet:
        print(f"note: {note}", file=sys.stderr)


def _audit(arguments: argparse.Namespace, files: OutputFiles) -> None:
    from .auditing import audit

    table_path = _table(arguments, files, [arguments.negatives, arguments.positives])
    result = audit(
        arguments.negatives,
        arguments.n_items,
        arguments.positives,
        **_given(arguments, "n_negatives replacement confidence"),
    )
    _show(result, table_path, arguments)


def _example(arguments: argparse.Namespace, files: OutputFiles) -> None:
    from .example import write_example

    paths = write_example(arguments.folder, arguments.seed)
    print(f"{arguments.folder}: {', '.join(path.name for path in paths)}")


def _given(arguments: argparse.Namespace, names: str) -> dict[str, Any]:
    """The options with the same names as the library function's arguments."""
    return {name: getattr(arguments, name) for name in names.split()}


def _assumption(arguments: argparse.Namespace) -> Assumption | str | None:
    if arguments.assume == "geometric":
        from .bounds.assumption import Assumption

        return Assumption(geometric=True)
    return None if arguments.assume == "nothing" else str(arguments.assume)


def _opened(
    arguments: argparse.Namespace, files: OutputFiles
) -> tuple[Any, Path | None, Path | None]:
    """The log and the paths of table and page, checked before any work."""
    from .log.sources import files as files_of
    from .metrics import metric

    for name in getattr(arguments, "metrics", None) or [arguments.metric]:
        metric(name)
    log_files = files_of(arguments.log)
    inputs = [] if log_files is None else log_files.paths
    table_path, page_path = _table(arguments, files, inputs), None
    if arguments.report is not None:
        from .report.figures import import_figures

        page_path = files.add(Path(arguments.report), inputs)
        import_figures()
    if getattr(arguments, "qrels", None) or getattr(arguments, "corpus_size", None):
        return _sub_corpus(arguments), table_path, page_path
    return _log(arguments), table_path, page_path


def _sub_corpus(arguments: argparse.Namespace) -> SubCorpus:
    from .readers import trec

    for name, flag in (("qrels", "--qrels"), ("corpus_size", "--corpus-size")):
        if getattr(arguments, name) is None:
            raise ValueError(f"{flag} is missing: a run over one sub-corpus is read with it")
    for name in ("n_items", "n_negatives", "replacement", "adaptive"):
        if getattr(arguments, name) is not None:
            raise ValueError(f"--{name.replace('_', '-')} must be left out beside --qrels")
    return trec(arguments.log, arguments.qrels, corpus_size=arguments.corpus_size)


def _log(arguments: argparse.Namespace) -> Log:
    from .log.columns import SizeMissingError
    from .log.read import read_log

    options = _given(arguments, "n_negatives replacement")
    options["shared_negatives"] = arguments.shared_negatives or None
    options["fixed_sample_size"] = arguments.fixed_sample_size
    if arguments.adaptive:
        options |= {"replacement": None, "protocol": _design(arguments)}
        return read_log(arguments.log, **options)
    if arguments.command == "plan":
        # A plan may be for another catalogue than that of the log, if the log has its own.
        try:
            return read_log(arguments.log, n_items=None, **options)
        except SizeMissingError as problem:
            if arguments.n_items is None or problem.column != "n_items":
                raise
    return read_log(arguments.log, n_items=arguments.n_items, **options)


def _design(arguments: argparse.Namespace) -> Adaptive:
    from .adaptive import Adaptive

    for name, flag in (("n_items", "--n-items"), ("replacement", "--replacement")):
        if getattr(arguments, name) is None:
            raise ValueError(f"{flag} is missing: a log of an adaptive design is read with it")
    return Adaptive(arguments.n_items, *arguments.adaptive, replacement=arguments.replacement)


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
    with_source = replace(result, source={"log": arguments.log, **result.source})
    page_path.write_text(with_source.to_html(), encoding="utf-8")


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


def _parser() -> _Parser:
    from importlib.metadata import version

    parser = _Parser(
        prog="sampled-metrics",
        description="What a sampled evaluation says about the exact metrics of recommenders.",
        epilog="sampled-metrics COMMAND --help shows the options of a command and an example.",
    )
    parser.add_argument("--version", action="version", version=version("sampled-metrics"))
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
        add = partial(_add, parsers[name])
        command.add_options(add)
        if name != "example":
            add("--quiet", "show no progress")
    return parser


def _add(parser: argparse._ActionsContainer, name: str, help_text: str, **options: Any) -> None:
    """Add an option, given as in its help: ``--users U``, ``--metrics NAME...``, ``--quiet``.

    An option with a one-letter metavar is a whole number; P (confidence) and T (tolerance) are
    real. Two words are two whole numbers.
    """
    flag, _, metavar = name.partition(" ")
    if " " in metavar:
        parser.add_argument(flag, help=help_text, nargs=2, metavar=(*metavar.split(),), type=_whole)
        return
    if metavar.endswith("..."):
        options |= {"nargs": "+"}
    if metavar:
        options |= {"metavar": metavar.removesuffix("...")}
    elif flag.startswith("-") and not {"choices", "action"} & set(options):
        options |= {"action": "store_true"}
    elif not flag.startswith("-"):
        options |= {"metavar": flag}
        flag = flag.lower()
    if len(metavar) == 1:
        options |= {"type": _number if metavar in "PT" else _whole}
    flags = flag.split(",")
    parser.add_argument(*flags, help=help_text, **options)


# fmt: off
def _estimate_options(add: partial[None]) -> None:
    _log_options(add)
    add("--metrics NAME...", "such as recall@10 ndcg@10 ap auc, which is the default",
        default=["recall@10", "ndcg@10", "ap", "auc"])
    add("--estimators NAME...", "a row for each of these, such as naive monotone bias-variance, "
        "instead of one row for each recommender and metric")
    add("--all", "a row for every estimator that the log allows and that has an interval")
    _assume_option(add, "geometric")
    add("--no-identification", "leave out what is possible, which takes the longest")
    add("--certificate JSON", "also write the proved range of the one metric to a file that "
        "python -m sampled_metrics.verify checks, or verify.py alone")
    add("--recommender NAME", "which recommender's range, where the log has several")
    add("--efficiency",
        "say how many times as wide each range is as a lower bound for every method")


def _compare_options(add: partial[None]) -> None:
    _log_options(add)
    _assume_option(add, "geometric")
    _metric_option(add)
    add("--estimator NAME", "what the corrected difference is computed with")


def _published_options(add: partial[None]) -> None:
    if_missing = "if the table has no column of this name"
    add("TABLE", "a CSV file")
    add("--n-items N", f"candidates of each user, the held-out item included, {if_missing}")
    add("--n-negatives M", f"sampled negatives of each user, {if_missing}")
    add("--users U", f"users that are averaged over, {if_missing}")
    add_replacement = partial(_add, add.args[0].add_mutually_exclusive_group(required=True))
    add_replacement("--replacement", "negatives were drawn with replacement")
    add_replacement("--no-replacement",
          "negatives were drawn without replacement, or duplicates were removed",
          dest="replacement", action="store_false")
    add("--metrics NAME...", "exact metrics to bound; default: those of the table")
    add("--orders",
        "show instead, for each two methods, whether the table tells which is better")
    _assume_option(add)
    _output_options(add, "how often, at least, all that is said of a data set is right")


def _plan_options(add: partial[None]) -> None:
    _log_options(add, plan=True)
    _metric_option(add)
    add("--users U", "users of the planned evaluation; default: those of the log", dest="n_users")
    add("--estimators NAME...",
        "some of naive, rank estimate, monotone, bias-variance; default: all of them")
    add("--max-negatives M", "most negatives to consider; default: 1000")
    add("--budget S", "scores that may be computed for each recommender: also show how they are "
        "best divided into users and negatives")
    add("--sequential", "also show what a race is expected to take: sampled_metrics.race in "
        "Python, which ranks all items for users in random order until the verdict is proved")
    add("--curve", "show the probability of the right verdict by negatives and by users instead")


def _rank_options(add: partial[None]) -> None:
    forms = "(.npy, .npz, .parquet, .zarr or .csv: users and items are the numbers of rows, from 0)"
    add("--users FILE", f"factors of users {forms}", required=True)
    add("--items FILE", f"factors of items {forms}", required=True)
    add("--train FILE", "items that are no candidates: a CSV or Parquet file with columns user and "
        "item, or users by items, non-zero (.npz of SciPy's save_npz)")
    add("--test FILE", "held-out items: a CSV or Parquet file with columns user and item",
        required=True)
    add("--score", "the product of factors, the cosine of their angle, or their distance, the "
        "smallest of which is the best; default: dot",
        choices=("dot", "cosine", "euclidean"), default="dot")
    add("--item-bias FILE", "what is added to each item's score, one number a row")
    add("--tolerance T", "scores that differ by less than this part of the held-out item's are "
        "tied; default: 0, products then being compared without rounding", default=0.0,
        dest="relative_tolerance")
    add("--cluster ADDRESS", "count on a Dask cluster: the address of its scheduler, or local:N "
        "for N processes; a command that was killed goes on where it was when it is given again")
    add("--among", "whether a user's other held-out items are candidates, as they are by default, "
        "or each item is ranked among the irrelevant ones alone",
        choices=("all", "irrelevant"), default="all")
    add("--name NAME", "the recommender, which becomes the first column of the ranks, so that "
        "compare reads several outputs together")
    add("--metrics NAME...",
        "print these metrics of the ranks, with standard errors, instead of the ranks")
    add("--format", "default: table, if there is no OUTPUT", choices=FORMATS)
    add("-o,--output OUTPUT",
        "write the ranks to a .csv or .parquet file, or to a folder of Parquet files")


def _audit_options(add: partial[None]) -> None:
    add("NEGATIVES", "a file with columns user and item")
    add("--n-items N", "size of the catalogue, whose items are 0 to N - 1", required=True)
    add("--positives FILE",
        "items of a user that must not be among the negatives: columns user and item")
    add("--n-negatives M",
        "how many each user is said to have; default: as many as one another")
    add("--replacement", "whether one user's negatives may repeat; default: what the negatives "
        "show", action=argparse.BooleanOptionalAction)
    _output_options(add, "probability of no false alarm in any check")


def _example_options(add: partial[None]) -> None:
    add("FOLDER", "folder to make")
    add("--seed", "default: 1", type=_whole, default=1, action="store")


def _log_options(add: partial[None], *, plan: bool = False) -> None:
    """The options of every command that reads a log."""
    if plan:
        add("--from LOG", LOG, dest="log", required=True)
        add("--n-items N", "candidates of each user in the planned evaluation, the relevant item "
            "included; also of the log, if it has no column of this name")
    else:
        add("LOG", LOG)
        add("--qrels FILE", "relevance judgements of TREC: LOG is a TREC run that ranks, for each "
            "query, one sub-corpus of the relevant documents and a sample of the others")
        add("--corpus-size N", "documents of the whole corpus; needed beside --qrels")
        add("--n-items N", "candidates of each user, the relevant items included, if the log has "
            "no column of this name")
    add("--n-negatives M",
        "sampled negatives of each user, if the log has no column of this name")
    add("--replacement", "whether one user's negatives may repeat; --no-replacement also where "
        "duplicates were removed; needed unless LOG says it, as bundled and exact ranks do",
        action=argparse.BooleanOptionalAction)
    add("--adaptive FIRST MOST", "FIRST negatives were drawn for each user, and doubled up to MOST "
        "while none was above the item: the log says in n_negatives how many they were in the end")
    add("--shared-negatives", "users share their negatives, such as one list for all: no range or "
        "verdict is proved then")
    add("--fixed-sample-size", "the number of negatives of each user was chosen before ranking, or "
        "at random: accept a log that looks as if samples were doubled because of their ranks")
    _output_options(
        add, "probability of the right verdict to reach" if plan else "of intervals and verdicts")
    add("--report HTML", "also write a page with tables, figures and verdicts")


def _assume_option(add: partial[None], *extras: str) -> None:
    geometric = ", or moreover that they are a mixture of geometric distributions" if extras else ""
    add("--assume", "what may be assumed of the true ranks near the top: that deeper ranks have "
        f"fewer users, which is the default{geometric}, or nothing",
        choices=("decreasing", *extras, "nothing"), default="decreasing")


def _metric_option(add: partial[None]) -> None:
    add("--metric NAME", "such as ndcg@10", required=True)


def _output_options(add: partial[None], confidence: str) -> None:
    add("--confidence P", f"{confidence}; default: {CONFIDENCE}", default=CONFIDENCE)
    add("--format", "default: table, or what the name of OUTPUT ends in", choices=FORMATS)
    add("-o,--output OUTPUT", "write the table to a file")


@dataclass(frozen=True)
class _Command:
    """A command, the texts of its help, and an example that works as pasted."""

    run: Callable[[argparse.Namespace, OutputFiles], None]
    add_options: Callable[[partial[None]], None]
    summary: str
    details: str
    example: str
    input_format: str = ""


#: In the order of the help.
COMMANDS = {
    "estimate": _Command(_estimate, _estimate_options,
        "Estimate exact metrics from a sampled evaluation.",
        "The table has for each recommender and metric what was reported, an estimate, the typical "
        "range (by the track record of such estimates on real recommenders), the proved range of "
        "all exact values that are consistent with the sample, and what a sentence may quote.",
        "sampled-metrics estimate bundled --metrics recall@10 ndcg@10 ap auc",
        _LOG,
    ),
    "compare": _Command(_compare, _compare_options,
        "Say which recommender beats which, and under what assumption.",
        "A sentence for each pair says who beats whom, with the warrant and the assumption of the "
        "verdict, or what would prove it. The table has the reported difference, the corrected "
        "one, and the proved range of the exact difference. The chance that any proved verdict on "
        "the log's pairs by this metric is wrong is at most 1 less the confidence, if the "
        "verdict's assumption holds, for users drawn from a population at random and for its exact "
        "metrics. With no assumption on the ranks it holds for the log's own users, too. Where "
        "nothing is proved, the track record of such estimates on real recommenders gives odds.",
        "sampled-metrics compare bundled --metric ndcg@10",
        _LOG,
    ),
    "published": _Command(_published, _published_options,
        "Read a published table: what its averages leave possible, and whether they can be.",
        "The table has for each method and metric what is printed, and all exact values that the "
        "printed numbers leave possible, their digits and the draws of the negatives counted: "
        "with no assumption on the ranks, if near the top deeper ranks have fewer users, and if "
        "there are at most 4 times fewer from one doubling of the rank to the next. All ranges are "
        "proved. The last column is a guess. A row that cannot be is named.",
        "sampled-metrics example toy\nsampled-metrics published toy/table.csv --n-items 480 "
        "--n-negatives 50 --users 300 --no-replacement",
        _TABLE,
    ),
    "plan": _Command(_plan, _plan_options,
        "Find how many negatives or users an evaluation needs.",
        "Needed are as many as make the verdict on two recommenders right with the given "
        "probability; the last row of each pair says what it costs to rank all items instead. The "
        "recommenders' true ranks are taken to be as evenly distributed as a log allows.",
        "sampled-metrics plan --n-items 100000 --users 5000 --metric ndcg@10 --from bundled",
        _LOG,
    ),
    "rank": _Command(_rank, _rank_options,
        "Rank held-out items exactly, so that nobody needs to sample.",
        "Items are ranked by factors among all items that their user was not trained on, in "
        "blocks, by one process or by a cluster. The user's other held-out items are counted, too, "
        "and in columns of their own; --among irrelevant leaves them out.",
        "sampled-metrics example toy\nsampled-metrics rank --users toy/U.npy --items toy/V.npy "
        "--train toy/train.npz --test toy/test.csv -o toy/ranks.csv",
    ),
    "audit": _Command(_audit, _audit_options,
        "Test whether logged negatives are what they claim to be.",
        "They should be uniform over the candidates, as many for each user, without positives and "
        "without duplicates.",
        "sampled-metrics example toy\nsampled-metrics audit toy/negatives.csv --n-items 500 "
        "--positives toy/positives.csv",
    ),
    "example": _Command(_example, _example_options,
        "Write a folder of small files to try the other commands on.",
        "They are factors, a training set, held-out items, negatives and a log.",
        "sampled-metrics example toy\nsampled-metrics estimate toy/log.csv --n-items 480 "
        "--n-negatives 50 --no-replacement",
    ),
}
# fmt: on


def _whole(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a whole number, got {text[:40]!r}") from None


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number, got {text[:40]!r}") from None
