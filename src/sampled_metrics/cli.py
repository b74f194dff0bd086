"""The command line: estimate, compare, published, plan, rank and audit.

Tables go to standard output or to files, which appear under their names only when complete.
Progress, warnings and notes of what a table leaves out go to the error stream, and so does the one
sentence that says what is wrong with an input, with exit status 2. What a command needs is imported
when it runs, so that ``--help`` answers at once.
"""

from __future__ import annotations

import argparse
import os
import sys
import textwrap
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from ._files import FORMATS, replacing

if TYPE_CHECKING:
    import pandas as pd

    from .bounds.assumption import Assumption
    from .log.compact import Log
    from .results import Comparison, Estimates, Result

_LONGEST = 1_000  # characters of an error or a warning
_SUFFIXES = {".json": "json", ".csv": "csv", ".md": "markdown", ".txt": "table"}

#: What a log may be.
LOG = 'a file, a folder of files, a pattern in quotes such as "log/*.parquet", or "bundled"'

#: For each command what it does, what else is to be said, and an example that works as pasted.
COMMANDS = {
    "estimate": (
        "Estimate exact metrics from a sampled evaluation.",
        "The table has for each recommender and metric what was reported, an estimate with its "
        "standard error, all exact values that the sample leaves possible, and what a sentence may "
        "quote.",
        "sampled-metrics estimate bundled --metrics recall@10 ndcg@10 ap auc",
    ),
    "compare": (
        "Say which recommender beats which, and under what assumption.",
        "A sentence for each pair says who beats whom, with the assumption and the warrant of the "
        "verdict, or what would settle it. The table has the reported difference, the corrected "
        "one, and the exact differences that the sample leaves possible. The chance that any "
        "verdict on the log's pairs by this metric is wrong is at most 1 less the confidence, if "
        "the verdict's assumption holds. This is proved for users drawn from a population at "
        "random, and for its exact metrics. A verdict with no assumption on the ranks holds for "
        "the log's own users, too.",
        "sampled-metrics compare bundled --metric ndcg@10",
    ),
    "published": (
        "Read a published table: what its averages leave possible, and whether they can be.",
        "The table has for each method and metric what is printed, and all exact values that the "
        "printed numbers leave possible, their digits and the draws of the negatives counted: "
        "with no assumption on the ranks, if near the top deeper ranks have fewer users, and if "
        "there are at most 4 times fewer from one doubling of the rank to the next. All ranges are "
        "proved. The last column is a guess. A row that cannot be is named.",
        "sampled-metrics example toy\nsampled-metrics published toy/table.csv --n-items 480 "
        "--n-negatives 50 --users 300 --no-replacement",
    ),
    "plan": (
        "Find how many negatives or users an evaluation needs.",
        "Needed are as many as make the verdict on two recommenders right with the given "
        "probability; the last row of each pair says what it costs to rank all items instead. The "
        "recommenders' true ranks are taken to be as evenly distributed as a log allows.",
        "sampled-metrics plan --n-items 100000 --users 5000 --metric ndcg@10 --from bundled",
    ),
    "rank": (
        "Rank held-out items exactly, so that nobody needs to sample.",
        "Items are ranked by factors among all items that their user was not trained on, in "
        "blocks, by one process or by a cluster. The user's other held-out items are counted, too, "
        "and in columns of their own; --among irrelevant leaves them out.",
        "sampled-metrics example toy\nsampled-metrics rank --users toy/U.npy --items toy/V.npy "
        "--train toy/train.npz --test toy/test.csv -o toy/ranks.csv",
    ),
    "audit": (
        "Test whether logged negatives are what they claim to be.",
        "They should be uniform over the candidates, as many for each user, without positives and "
        "without duplicates.",
        "sampled-metrics example toy\nsampled-metrics audit toy/negatives.csv --n-items 500 "
        "--positives toy/positives.csv",
    ),
    "example": (
        "Write a folder of small files to try the other commands on.",
        "They are factors, a training set, held-out items, negatives and a log.",
        "sampled-metrics example toy\nsampled-metrics estimate toy/log.csv --n-items 480 "
        "--n-negatives 50 --no-replacement",
    ),
}

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
    """A parser whose errors are one sentence, said like all others."""

    def error(self, message: str) -> NoReturn:
        missing = message.removeprefix("the following arguments are required: ")
        if missing != message:
            message = f"{missing} is missing: {self.prog} --help shows an example"
        raise ValueError(message)


class _Files:
    """The files that a command writes: all of them appear, complete, or none."""

    def __init__(self) -> None:
        self._open = ExitStack()
        self._targets: set[Path] = set()

    def add(self, given: Path, inputs: Sequence[str | Path | None] = ()) -> Path:
        """Make sure that a file can be written, and return the path to write to meanwhile."""
        target = given.resolve()
        if target.exists() and not target.is_file():
            raise ValueError(f"{given} must be a file to write to, not a folder or a device")
        if target in self._targets:
            raise ValueError(f"{given} is named for two outputs")
        if any(name is not None and Path(name).resolve() == target for name in inputs):
            raise ValueError(f"{given} is an input, and would be overwritten")
        try:
            part = self._open.enter_context(replacing(target))
        except OSError as problem:
            raise ValueError(f"{given} cannot be written: {problem.strerror}") from None
        self._targets.add(target)
        return part

    def __enter__(self) -> _Files:
        return self

    def __exit__(self, *problem: Any) -> None:
        self._open.__exit__(*problem)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command.

    Parameters
    ----------
    argv : sequence of str, optional
        The words after the name of the program; those it was called with if omitted.

    Returns
    -------
    int
        The exit status: 0, 2 for bad input, 130 if interrupted, 141 if the reader of the output
        has gone.

    Examples
    --------
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
    try:
        arguments = _parser().parse_args(argv)
        quiet = getattr(arguments, "quiet", True)
        arguments.progress = not quiet
        with _warnings_as_lines(), _Files() as files:
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
        print(f"error: {_sentence(problem)}", file=sys.stderr)
        return 2
    return 0


def _estimate(arguments: argparse.Namespace, files: _Files) -> None:
    from . import evaluation

    if arguments.all and arguments.estimators:
        raise ValueError(
            f"--all must be left out beside --estimators, got {' '.join(arguments.estimators)}"
        )
    log, table, page = _opened(arguments, files)
    options = {"confidence": arguments.confidence, "progress": arguments.progress}
    found = evaluation.estimate(
        log,
        arguments.metrics,
        estimators="all" if arguments.all else arguments.estimators,
        assumption=_assumed(arguments),
        identification=not arguments.no_identification,
        efficiency=arguments.efficiency,
        **options,
    )
    if page is not None:
        pairs = len(log.recommenders) > 1
        verdicts = {
            name: evaluation.compare(log, name, assumption=_assumed(arguments), **options)
            for name in (found.frame["metric"].unique() if pairs else [])
        }
        if not pairs:
            alone = "verdicts are left out: there is one recommender only"
            found = replace(found, notes=(*found.notes, alone))
        _write_report(page, found, verdicts, log, arguments)
    _show(found, table, arguments)


def _assumed(arguments: argparse.Namespace) -> Assumption | str | None:
    if arguments.assume == "geometric":
        from .bounds.assumption import Assumption

        return Assumption(geometric=True)
    return None if arguments.assume == "nothing" else str(arguments.assume)


def _compare(arguments: argparse.Namespace, files: _Files) -> None:
    from . import evaluation

    log, table, page = _opened(arguments, files)
    options = {"confidence": arguments.confidence, "progress": arguments.progress}
    options["assumption"] = _assumed(arguments)
    chosen = {} if arguments.estimator is None else {"estimator": arguments.estimator}
    found = evaluation.compare(log, arguments.metric, **options, **chosen)
    if page is not None:
        estimates = evaluation.estimate(log, [arguments.metric], **options)
        (name,) = estimates.frame["metric"].unique()
        _write_report(page, estimates, {name: found}, log, arguments)
    _show(found, table, arguments)


def _published(arguments: argparse.Namespace, files: _Files) -> None:
    from .published_tables import published
    from .results import Orders

    _kind(arguments)
    table = None
    if arguments.output is not None:
        table = files.add(Path(arguments.output), [arguments.table])
    found = published(
        arguments.table,
        n_items=arguments.n_items,
        n_negatives=arguments.n_negatives,
        users=arguments.users,
        replacement=arguments.replacement,
        metrics=arguments.metrics,
        assumption=_assumed(arguments),
        confidence=arguments.confidence,
    )
    _show(Orders(found.orders, notes=found.notes) if arguments.orders else found, table, arguments)


def _plan(arguments: argparse.Namespace, files: _Files) -> None:
    from . import planning
    from .metrics import metric
    from .protocol import Protocol
    from .results import Plan, Result

    log, table, page = _opened(arguments, files)
    n_items, users, most = arguments.n_items, arguments.users, arguments.max_negatives
    if n_items is None:
        rows = log.counts["count"]
        n_items = round(float((log.counts["n_items"] * rows).sum() / rows.sum()))
    if users is None:
        users = log.n_users
    if most is None:
        most = max(1, min(1_000, n_items - 1))
    negatives = int(log.counts["n_negatives"].min())
    ranks = planning.fitted(log, n_items, progress=arguments.progress)
    of = metric(arguments.metric)
    options: dict[str, Any] = {
        "estimators": arguments.estimators or list(planning.ESTIMATORS),
        "progress": arguments.progress,
    }
    protocol = Protocol(n_items, negatives, replacement=log.replacement)

    def plans() -> Plan:
        levels = {"confidence": arguments.confidence, "max_negatives": most}
        levels |= {"budget": arguments.budget, "sequential": arguments.sequential}
        return planning.for_all(ranks, of, protocol, users, **levels, **options)

    def curves() -> pd.DataFrame:
        import pandas as pd

        steps = [replace(protocol, n_negatives=m) for m in planning.steps(most)]
        grids: list[tuple[Any, Any]] = [(steps, users), (protocol, planning.around(users))]
        parts = [planning.for_pairs(planning.curve, ranks, of, *grid, **options) for grid in grids]
        return pd.concat(parts).drop_duplicates(ignore_index=True)

    planned = None if arguments.curve and page is None else plans()
    found = planned if planned and not arguments.curve else Result(curves())
    most_drawn = int(log.counts["n_negatives"].max())
    notes: tuple[str, ...] = ()
    if negatives < most_drawn:
        notes = (
            f"users have {negatives:,} to {most_drawn:,} negatives: true ranks are fitted to "
            f"{negatives:,} of each, and the plan is for as many",
        )
    if page is not None:
        from .report import html as report

        facts = _facts(log, arguments) | {
            "metric": of.label,
            "planned": f"{users:,} users, {n_items:,} items, {negatives:,} negatives",
            "confidence": f"{arguments.confidence:g}",
        }
        assert planned is not None
        drawn = found.frame if arguments.curve else curves()
        page.write_text(report.of_plan(planned, drawn, facts), encoding="utf-8")
    _show(replace(found, notes=notes), table, arguments)


def _rank(arguments: argparse.Namespace, files: _Files) -> None:
    from .metrics import metric
    from .ranking.files import rank

    if arguments.format and arguments.output:
        raise ValueError(
            f"--format must be left out beside --output, got {arguments.format}: the extension of "
            "OUTPUT, .csv or .parquet, says what to write"
        )
    for name in arguments.metrics or ():
        metric(name)
    found = rank(
        arguments.users,
        arguments.items,
        arguments.test,
        arguments.train,
        score=arguments.score,
        item_bias=arguments.item_bias,
        relative_tolerance=arguments.tolerance,
        among=arguments.among,
        output=arguments.output,
        cluster=arguments.cluster,
        progress=arguments.progress,
    )
    several = int((found.frame["n_relevant"] > 1).sum())
    said = "are counted as candidates" if arguments.among == "all" else "are no candidates"
    note = f"the user's other held-out items {said} ({several:,} rows have some)"
    if arguments.output is not None:
        print(
            f"{len(found.frame):,} ranks in {arguments.output}" + (f": {note}" if several else "")
        )
        if not arguments.metrics:
            return
        arguments.output = None  # its name says how ranks are written, not what is printed
    _show(found.metrics(arguments.metrics) if arguments.metrics else found, None, arguments)
    if several and not arguments.quiet:
        print(f"note: {note}", file=sys.stderr)


def _audit(arguments: argparse.Namespace, files: _Files) -> None:
    from .auditing import audit

    table = None
    _kind(arguments)
    if arguments.output is not None:
        table = files.add(Path(arguments.output), [arguments.negatives, arguments.positives])
    found = audit(
        arguments.negatives,
        arguments.n_items,
        arguments.positives,
        n_negatives=arguments.n_negatives,
        replacement=arguments.replacement,
        level=arguments.level,
    )
    _show(found, table, arguments)


def _example(arguments: argparse.Namespace, files: _Files) -> None:
    """Files of a small evaluation that fit together."""
    from tempfile import TemporaryDirectory

    import numpy as np
    import pandas as pd
    import scipy.sparse as sp

    from ._validate import integer
    from .ranking.exact import exact_ranks

    folder, n_users, n_items, m = Path(arguments.folder), 300, 500, 50
    target = folder.resolve()
    if os.path.lexists(folder):
        raise ValueError(f"{folder} exists already: name a folder to make")
    rng = np.random.default_rng(integer(arguments.seed, "seed", 0))
    taste, items = rng.normal(size=(n_users, 8)), rng.normal(size=(n_items, 8))
    order = np.argsort(-(taste @ items.T + rng.gumbel(size=(n_users, n_items))), axis=1)
    test, train = order[:, 0], order[:, 1:21]
    rest = [rng.permutation(np.setdiff1d(np.arange(n_items), row[:21]))[:m] for row in order]
    users = np.arange(n_users)
    seen = sp.csr_array((np.ones(train.size), (np.repeat(users, 20), train.ravel())),
                        shape=(n_users, n_items))  # fmt: skip
    rows = []
    for name, noise in (("A", 0.5), ("B", 1.5)):
        scores = (taste + noise * rng.normal(size=taste.shape)) @ items.T
        lists = np.take_along_axis(scores, np.column_stack([test, np.stack(rest)]), axis=1)
        found = exact_ranks(lists, np.zeros(n_users, dtype=int), None)
        table = {"recommender": name, "user": users, "n_better": found.n_better}
        rows.append(pd.DataFrame(table | {"n_tied": found.n_tied}))
    known = np.column_stack([test, train])
    log = pd.concat(rows)
    tables = {
        "log.csv": log,
        "table.csv": _printed(log),
        "test.csv": pd.DataFrame({"user": users, "item": test}),
        "negatives.csv": pd.DataFrame({"user": np.repeat(users, m), "item": np.concatenate(rest)}),
        "positives.csv": pd.DataFrame({"user": np.repeat(users, 21), "item": known.ravel()}),
    }
    target.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=target.parent, prefix=".") as scratch:
        part = Path(scratch) / "whole"  # with the permissions of any new folder
        part.mkdir()
        for file, frame in tables.items():
            frame.to_csv(part / file, index=False, lineterminator="\n")
        np.save(part / "U.npy", taste)
        np.save(part / "V.npy", items)
        sp.save_npz(part / "train.npz", seen)
        part.rename(target)
    print(f"{folder}: {', '.join(sorted(path.name for path in folder.iterdir()))}")


def _printed(log: pd.DataFrame) -> pd.DataFrame:
    """The table that a paper would print of a log without ties to speak of."""
    import pandas as pd

    from .metrics import metric

    table = {"method": list(log["recommender"].unique())}
    for name in ("HR@1", "HR@5", "HR@10", "NDCG@5", "NDCG@10", "MRR"):
        values = metric(name)(log["n_better"] + 1)
        means = pd.Series(values).groupby(log["recommender"].to_numpy(), sort=False).mean()
        table[name] = [f"{value:.4f}" for value in means]
    return pd.DataFrame(table)


def _opened(arguments: argparse.Namespace, files: _Files) -> tuple[Log, Path | None, Path | None]:
    """The log, and where to write the table and the report, made sure of before any work."""
    from .log.sources import files as files_of
    from .metrics import metric

    for name in getattr(arguments, "metrics", None) or [arguments.metric]:
        metric(name)
    files_of_log = files_of(arguments.log)
    inputs = [] if files_of_log is None else files_of_log.paths
    _kind(arguments)
    table = None if arguments.output is None else files.add(Path(arguments.output), inputs)
    page = None
    if arguments.report is not None:
        from .report.html import import_figures

        page = files.add(Path(arguments.report), inputs)
        import_figures()
    return _log(arguments), table, page


def _log(arguments: argparse.Namespace) -> Log:
    from .log.read import read_log

    sizes = {"n_items": arguments.n_items, "n_negatives": arguments.n_negatives}
    said = {
        "replacement": arguments.replacement,
        "shared_negatives": arguments.shared_negatives or None,
    }
    if arguments.command != "plan":
        return read_log(arguments.log, **sizes, **said)
    # A plan may be for another catalogue than that of the log, if the log has its own.
    sizes["n_items"] = None
    try:
        return read_log(arguments.log, **sizes, **said)
    except ValueError as problem:
        if arguments.n_items is None or not str(problem).startswith("n_items is needed"):
            raise
    sizes["n_items"] = arguments.n_items
    return read_log(arguments.log, **sizes, **said)


def _facts(log: Log, arguments: argparse.Namespace) -> dict[str, object]:
    """What a report says that it was made from."""
    from .results import printable

    sizes = {name: sorted({int(log.counts[name].min()), int(log.counts[name].max())})
             for name in ("n_items", "n_negatives")}  # fmt: skip
    return {
        "log": arguments.log,
        "recommenders": ", ".join(map(printable, log.recommenders)),
        "users": log.n_users,
        "rows": int(log.counts["count"].sum()),
        "items": " to ".join(f"{size:,}" for size in sizes["n_items"]),
        "negatives": " to ".join(f"{size:,}" for size in sizes["n_negatives"])
        + (", with replacement" if log.replacement else ", without replacement"),
    }


def _write_report(
    page: Path,
    estimates: Estimates,
    verdicts: Mapping[str, Comparison],
    log: Log,
    arguments: argparse.Namespace,
) -> None:
    from .report import html as report

    facts = _facts(log, arguments) | {"confidence": f"{arguments.confidence:g}"}
    text = report.of_estimates(estimates, verdicts, facts)
    page.write_text(text, encoding="utf-8")


def _kind(arguments: argparse.Namespace) -> str:
    """The format that is asked for, or that the name of the output ends in."""
    suffix = "" if arguments.output is None else Path(arguments.output).suffix.lower()
    if arguments.format is None and suffix not in ("", *_SUFFIXES):
        raise ValueError(
            f"--format is missing: the extension of {arguments.output} does not say what to write, "
            f"as {', '.join(_SUFFIXES)} do"
        )
    return arguments.format or _SUFFIXES.get(suffix, "table")


def _show(found: Result, output: Path | None, arguments: argparse.Namespace) -> None:
    """Print or write a table, and say what it leaves out on the error stream.

    Columns that do not help the eye are left to the other formats.
    """
    from .results import formatted

    kind = _kind(arguments)
    for note in found.notes:
        print(f"note: {note}", file=sys.stderr)
    if kind == "table":
        text = replace(found, notes=()).summary()
    else:
        text = formatted(found.shown if kind == "markdown" else found.frame, kind)
    if output is None:
        if sys.stdout is None:  # what Python makes of a stream that the shell closed
            raise ValueError("standard output is closed: name a file to write to")
        sys.stdout.write(text)
    else:
        output.write_text(text, encoding="utf-8")


@contextmanager
def _warnings_as_lines() -> Iterator[None]:
    """Say each warning once, on a line of its own."""
    said = set()

    def show(message: Warning | str, *_: object, **__: object) -> None:
        from ._validate import shortened

        line = shortened(" ".join(str(message).split()), _LONGEST)
        if line not in said:
            print(f"warning: {line}", file=sys.stderr)
        said.add(line)

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.simplefilter("ignore", FutureWarning)
        warnings.showwarning = show
        yield


def _sentence(problem: BaseException) -> str:
    """What is wrong, on one line."""
    if isinstance(problem, MemoryError):
        return "there is not enough memory for this"
    if isinstance(problem, OSError) and problem.strerror:
        named = "" if problem.filename is None else f"{problem.filename}: "
        return f"{named}{problem.strerror}"
    from ._validate import shortened
    from .results import printable

    return shortened(printable(str(problem)), _LONGEST) or type(problem).__name__


def _parser() -> _Parser:
    from importlib.metadata import version

    parser = _Parser(
        prog="sampled-metrics",
        description="What a sampled evaluation says about the exact metrics of recommenders.",
        epilog="sampled-metrics COMMAND --help shows the options of a command and an example.",
    )
    parser.add_argument("--version", action="version", version=version("sampled-metrics"))
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    made = {}
    for name, (what, more, example) in COMMANDS.items():
        shown = "".join(f"  {line}\n" for line in example.splitlines())
        log = _LOG + "\n" if name in ("estimate", "compare", "plan") else ""
        log = _TABLE + "\n" if name == "published" else log
        made[name] = commands.add_parser(
            name, help=what, description=textwrap.fill(f"{what} {more}", 78),
            epilog=f"{log}example:\n{shown}", formatter_class=argparse.RawDescriptionHelpFormatter,
        )  # fmt: skip
        made[name].set_defaults(run=globals()[f"_{name}"])
    _add_estimation(made["estimate"], made["compare"], made["plan"])
    _add_estimate_options(made["estimate"], made["compare"])
    _add_published_options(made["published"])
    _add_plan_options(made["plan"])
    _add_rank_options(made["rank"])
    _add_audit_options(made["audit"])
    made["example"].add_argument("folder", metavar="FOLDER", help="folder to make")
    made["example"].add_argument("--seed", type=_whole, default=1, help="default: 1")
    for name in ("estimate", "compare", "published", "plan", "rank", "audit"):
        made[name].add_argument("--quiet", action="store_true", help="show no progress")
    return parser


def _add_estimation(*parsers: argparse.ArgumentParser) -> None:
    """What every command that reads a log takes."""
    for parser in parsers:
        if parser.prog.endswith(" plan"):
            parser.add_argument("--from", dest="log", metavar="LOG", required=True, help=LOG)
            parser.add_argument(
                "--n-items", type=_whole, metavar="N",
                help="candidates of each user in the planned evaluation, the relevant item "
                "included; also of the log, if it has no column of this name",
            )  # fmt: skip
        else:
            parser.add_argument("log", metavar="LOG", help=LOG)
            parser.add_argument(
                "--n-items", type=_whole, metavar="N",
                help="candidates of each user, the relevant items included, if the log has no "
                "column of this name",
            )  # fmt: skip
        parser.add_argument(
            "--n-negatives", type=_whole, metavar="M",
            help="sampled negatives of each user, if the log has no column of this name",
        )  # fmt: skip
        parser.add_argument(
            "--replacement", action=argparse.BooleanOptionalAction,
            help="whether one user's negatives may repeat; --no-replacement also where duplicates "
            "were removed; needed unless LOG says it, as bundled and exact ranks do",
        )  # fmt: skip
        parser.add_argument(
            "--shared-negatives", action="store_true",
            help="users share their negatives, such as one list for all: no range or verdict is "
            "proved then",
        )  # fmt: skip
        parser.add_argument(
            "--confidence", type=_number, default=0.95, metavar="P",
            help="probability of the right verdict to reach; default: 0.95"
            if parser.prog.endswith(" plan")
            else "of intervals and verdicts; default: 0.95",
        )  # fmt: skip
        _add_output_options(parser)
        parser.add_argument(
            "--report", metavar="HTML", help="also write a page with tables, figures and verdicts"
        )


def _add_estimate_options(
    estimate: argparse.ArgumentParser, compare: argparse.ArgumentParser
) -> None:
    estimate.add_argument(
        "--metrics", nargs="+", metavar="NAME", default=["recall@10", "ndcg@10", "ap", "auc"],
        help="such as recall@10 ndcg@10 ap auc, which is the default",
    )  # fmt: skip
    estimate.add_argument(
        "--estimators", nargs="+", metavar="NAME",
        help="a row for each of these, such as naive monotone bias-variance, instead of one row "
        "for each recommender and metric",
    )  # fmt: skip
    estimate.add_argument(
        "--all", action="store_true",
        help="a row for every estimator that the log allows and that has an interval",
    )  # fmt: skip
    for parser in (estimate, compare):
        _add_assume(parser, "geometric")
    estimate.add_argument(
        "--no-identification", action="store_true",
        help="leave out what is possible, which takes the longest",
    )  # fmt: skip
    estimate.add_argument(
        "--efficiency", action="store_true",
        help="say how many times as wide each range is as a lower bound for every method",
    )  # fmt: skip
    compare.add_argument("--metric", required=True, metavar="NAME", help="such as ndcg@10")
    compare.add_argument(
        "--estimator", metavar="NAME", help="what the corrected difference is computed with"
    )


def _add_assume(parser: argparse.ArgumentParser, *more: str) -> None:
    moreover = ", or moreover that they are a mixture of geometric distributions" if more else ""
    parser.add_argument(
        "--assume", choices=("decreasing", *more, "nothing"), default="decreasing",
        help="what may be assumed of the true ranks near the top: that deeper ranks have fewer "
        f"users, which is the default{moreover}, or nothing",
    )  # fmt: skip


def _add_published_options(published: argparse.ArgumentParser) -> None:
    published.add_argument("table", metavar="TABLE", help="a CSV file")
    for name, metavar, what in (
        ("--n-items", "N", "candidates of each user, the held-out item included"),
        ("--n-negatives", "M", "sampled negatives of each user"),
        ("--users", "U", "users that are averaged over"),
    ):
        said = f"{what}, if the table has no column of this name"
        published.add_argument(name, type=_whole, metavar=metavar, help=said)
    drawn = published.add_mutually_exclusive_group(required=True)
    drawn.add_argument(
        "--replacement", action="store_true", help="negatives were drawn with replacement"
    )
    drawn.add_argument(
        "--no-replacement", dest="replacement", action="store_false",
        help="negatives were drawn without replacement, or duplicates were removed",
    )  # fmt: skip
    published.add_argument(
        "--metrics", nargs="+", metavar="NAME",
        help="exact metrics to bound; default: those of the table",
    )  # fmt: skip
    published.add_argument(
        "--orders", action="store_true",
        help="show instead, for each two methods, whether the table tells which is better",
    )  # fmt: skip
    _add_assume(published)
    published.add_argument(
        "--confidence", type=_number, default=0.95, metavar="P",
        help="how often, at least, all that is said of a data set is right; default: 0.95",
    )  # fmt: skip
    _add_output_options(published)


def _add_plan_options(plan: argparse.ArgumentParser) -> None:
    plan.add_argument("--metric", required=True, metavar="NAME", help="such as ndcg@10")
    plan.add_argument(
        "--users", type=_whole, metavar="U",
        help="users of the planned evaluation; default: those of the log",
    )  # fmt: skip
    plan.add_argument(
        "--estimators", nargs="+", metavar="NAME",
        help="some of naive, rank estimate, monotone, bias-variance; default: all of them",
    )  # fmt: skip
    plan.add_argument(
        "--max-negatives", type=_whole, metavar="M",
        help="most negatives to consider; default: 1000",
    )  # fmt: skip
    plan.add_argument(
        "--budget", type=_whole, metavar="S",
        help="scores that may be computed for each recommender: also show how they are best "
        "divided into users and negatives",
    )  # fmt: skip
    plan.add_argument(
        "--sequential", action="store_true",
        help="also show what a race is expected to take: sampled_metrics.race in Python, which "
        "ranks all items for users in random order until the verdict is proved",
    )  # fmt: skip
    plan.add_argument(
        "--curve", action="store_true",
        help="show the probability of the right verdict by negatives and by users instead",
    )  # fmt: skip


def _add_rank_options(rank: argparse.ArgumentParser) -> None:
    scores = ("dot", "cosine", "euclidean")
    rows = "(.npy, .npz, .parquet, .zarr or .csv: users and items are the numbers of rows, from 0)"
    rank.add_argument("--users", required=True, metavar="FILE", help=f"factors of users {rows}")
    rank.add_argument("--items", required=True, metavar="FILE", help=f"factors of items {rows}")
    rank.add_argument(
        "--train", metavar="FILE",
        help="items that are no candidates: a CSV or Parquet file with columns user and item, or "
        "users by items, non-zero (.npz of SciPy's save_npz)",
    )  # fmt: skip
    rank.add_argument(
        "--test", required=True, metavar="FILE",
        help="held-out items: a CSV or Parquet file with columns user and item",
    )  # fmt: skip
    rank.add_argument(
        "--score", choices=scores, default="dot",
        help="the product of factors, the cosine of their angle, or their distance, the smallest "
        "of which is the best; default: dot",
    )  # fmt: skip
    rank.add_argument(
        "--item-bias", metavar="FILE", help="what is added to each item's score, one number a row"
    )
    rank.add_argument(
        "--tolerance", type=_number, default=0.0, metavar="T",
        help="scores that differ by less than this part of the held-out item's are tied; default: "
        "0, products then being compared without rounding",
    )  # fmt: skip
    rank.add_argument(
        "--cluster", metavar="ADDRESS",
        help="count on a Dask cluster: the address of its scheduler, or local:N for N processes; "
        "a command that was killed goes on where it was when it is given again",
    )  # fmt: skip
    rank.add_argument(
        "--among", choices=("all", "irrelevant"), default="all",
        help="whether a user's other held-out items are candidates, as they are by default, or "
        "each item is ranked among the irrelevant ones alone",
    )  # fmt: skip
    rank.add_argument(
        "--metrics", nargs="+", metavar="NAME",
        help="print these metrics of the ranks, with standard errors, instead of the ranks",
    )  # fmt: skip
    rank.add_argument("--format", choices=FORMATS, help="default: table, if there is no OUTPUT")
    rank.add_argument(
        "-o", "--output", metavar="OUTPUT",
        help="write the ranks to a .csv or .parquet file, or to a folder of Parquet files",
    )  # fmt: skip


def _add_audit_options(audit: argparse.ArgumentParser) -> None:
    audit.add_argument("negatives", metavar="NEGATIVES", help="a file with columns user and item")
    audit.add_argument(
        "--n-items", type=_whole, required=True, metavar="N",
        help="size of the catalogue, whose items are 0 to N - 1",
    )  # fmt: skip
    audit.add_argument(
        "--positives", metavar="FILE",
        help="items of a user that must not be among the negatives: columns user and item",
    )  # fmt: skip
    audit.add_argument(
        "--n-negatives", type=_whole, metavar="M",
        help="how many each user is said to have; default: as many as one another",
    )  # fmt: skip
    audit.add_argument(
        "--replacement", action=argparse.BooleanOptionalAction,
        help="whether one user's negatives may repeat; default: what the negatives show",
    )  # fmt: skip
    audit.add_argument(
        "--level", type=_number, default=0.05, metavar="P",
        help="probability of a false alarm among all checks; default: 0.05",
    )  # fmt: skip
    _add_output_options(audit)


def _add_output_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--format", choices=FORMATS, help="default: table, or what the name of OUTPUT ends in"
    )
    parser.add_argument("-o", "--output", metavar="OUTPUT", help="write the table to a file")


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


if __name__ == "__main__":
    sys.exit(main())
