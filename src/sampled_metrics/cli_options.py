"""The options of each command, declared once for the parser, its help and the page of commands."""

from __future__ import annotations

import argparse
import textwrap
from functools import partial
from typing import Any

from ._confidence import CONFIDENCE
from ._files import FORMATS
from .metrics import DECLARED

#: The forms of a log, for the help.
LOG = 'a file, a folder of files, a pattern in quotes such as "log/*.parquet", or "bundled"'

#: The names and meanings of metrics, for the help.
_MEANINGS = {" or ".join(entry.spellings(kind)): entry.meaning for kind, entry in DECLARED.items()}
METRICS = textwrap.fill(
    f"Metrics are {'; '.join(f'{names} ({meaning})' for names, meaning in _MEANINGS.items())}.",
    100, break_on_hyphens=False,
)  # fmt: skip


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


def add_option(
    parser: argparse._ActionsContainer, name: str, help_text: str, **options: Any
) -> None:
    """Add an option, given as in its help: ``--users U``, ``--metrics NAME...``, ``--quiet``.

    An option with a one-letter metavar is a whole number; P (confidence) is
    real.
    """
    flag, _, metavar = name.partition(" ")
    if metavar.endswith("..."):
        metavar, options = metavar.removesuffix("..."), options | {"nargs": "+"}
    if metavar:
        options |= {"metavar": metavar}
    elif flag.startswith("-") and not {"choices", "action"} & set(options):
        options |= {"action": "store_true"}
    elif not flag.startswith("-"):
        options |= {"metavar": flag}
        flag = flag.lower()
    if len(metavar) == 1:
        options |= {"type": _number if metavar == "P" else _whole}
    flags = flag.split(",")
    parser.add_argument(*flags, help=help_text, **options)


# fmt: off
def estimate_options(add: partial[None]) -> None:
    _log_options(add)
    add("--metrics NAME...", "such as recall@10 ndcg@10 ap auc, which is the default",
        default=["recall@10", "ndcg@10", "ap", "auc"])
    add("--estimator NAME", "what the estimate is computed with, such as naive or bias-variance")
    _family_option(add)
    _group_options(add)
    _assume_option(add)
    add("--population", "intervals from anchors are for the population of the users")
    add("--no-identification", "leave out what is possible, which takes the longest")


def compare_options(add: partial[None]) -> None:
    _log_options(add)
    _group_options(add)
    _assume_option(add)
    _metric_option(add, "...")
    add("--estimator NAME", "what the corrected difference is computed with")
    _family_option(add)


def _family_option(add: partial[None]) -> None:
    add("--family FAMILY...", "sequential, popularity or ratings, for all or as SASRec=sequential: "
        "the learned prior differs for models that read sequences or rank by popularity, and those "
        "that predict ratings get no typical range")


def _group_options(add: partial[None]) -> None:
    add("--by COLUMN", "a column of LOG with the group of each user, equal in all rows of a user: "
        "also a row for each group, with intervals that hold together")


def gate_options(add: partial[None]) -> None:
    add("OLD", "a CSV or Parquet file: a log of one recommender")
    add("NEW", "the log of the other one, with the same users and columns")
    _metric_option(add)
    add("--qrels FILE", "relevance judgements of TREC or BEIR: OLD and NEW are TREC runs")
    _of_all_option(add)
    _documents_option(add)
    add("--margin P", "pass if NEW is no worse than OLD by more than this; default: only if better")
    _design_options(add)
    _assume_option(add)
    _output_options(add, "of the verdict")


def published_options(add: partial[None]) -> None:
    if_missing = "if the table has no column of this name"
    add("TABLE", "a CSV file")
    add("--n-items N", "candidates of each user, the held-out item included, nearly as many for "
        f"all users, {if_missing}")
    add("--n-negatives M", f"sampled negatives of each user, {if_missing}")
    add("--users U", f"users that are averaged over, {if_missing}")
    add("--replacement", "whether one user's negatives may repeat; --no-replacement also where "
        "duplicates were removed; needed but for one corpus that all queries share",
        action=argparse.BooleanOptionalAction, default=None)
    add("--metrics NAME...", "exact metrics to bound; default: those of the table")
    add("--orders",
        "show instead, for each two methods, whether the table tells which is better")
    _assume_option(add)
    _fail_option(add, "a row whose numbers cannot belong together")
    _output_options(add, "how often, at least, all that is said of a data set is right")


def plan_options(add: partial[None]) -> None:
    _log_options(add, plan=True)
    _metric_option(add)
    add("--users U", "users of the planned evaluation; default: those of the log", dest="n_users")
    add("--estimators NAME...",
        "some of naive, rank estimate, monotone, bias-variance; default: all of them")
    add("--max-negatives M", "most negatives to consider; default: 1000")


def rank_options(add: partial[None]) -> None:
    forms = "(.npy, .npz, .parquet, .zarr or .csv: users and items are the numbers of rows, from 0)"
    add("--user-factors FILE", f"factors of users {forms}", dest="users", required=True)
    add("--item-factors FILE", f"factors of items {forms}", dest="items", required=True)
    add("--train FILE", "items that are no candidates: a CSV or Parquet file with columns user and "
        "item, or users by items, non-zero (.npz of SciPy's save_npz)")
    add("--test FILE", "held-out items: a CSV or Parquet file with columns user and item",
        required=True)
    add("--score", "the product of factors, the cosine of their angle, or their distance, the "
        "smallest of which is the best; default: dot",
        choices=("dot", "cosine", "euclidean"), default="dot")
    add("--stop-at K", "count a user's items no further once K items are above them: metrics up to "
        "K stay exact, and --metrics prints them")
    add("--candidates FILE", "with --stop-at, items to score first, written as those of --train")
    add("--cluster ADDRESS", "count on a Dask cluster: the address of its scheduler, or local:N "
        "for N processes")
    add("--name NAME", "the recommender, which becomes the first column of the ranks, so that "
        "compare reads several outputs together")
    add("--metrics NAME...",
        "print these metrics of the ranks, with standard errors, instead of the ranks")
    add("--format", "default: table, if there is no OUTPUT", choices=FORMATS)
    add("-o,--output OUTPUT",
        "write the ranks to a .csv or .parquet file")


def anchors_options(add: partial[None]) -> None:
    add("LOG", LOG)
    _metric_option(add, "...")
    add("--n-anchors N", "how many users to draw; decide before you see an exact rank",
        dest="n", required=True)
    add("--seed S", "of the random draw: choose it once", required=True)
    _design_options(add)
    _format_options(add)


def audit_options(add: partial[None]) -> None:
    add("NEGATIVES", "a file with columns user and item, or that of NCF or S3-Rec")
    add("--n-items N", "size of the catalogue, whose items are 0 to N - 1, or 1 to N",
        required=True)
    add("--positives FILE", "items of a user that must not be among the negatives: columns user "
        "and item, or NCF's ratings")
    add("--n-negatives M", "how many each user is said to have")
    add("--replacement", "whether one user's negatives may repeat; default: what the negatives "
        "show", action=argparse.BooleanOptionalAction)
    _fail_option(add, "negatives that are not what they should be")
    _output_options(add, "probability of no false alarm in any check")


def example_options(add: partial[None]) -> None:
    add("FOLDER", "folder to make")
    add("--seed", "default: 1", type=_whole, default=1, action="store")


def _log_options(add: partial[None], *, plan: bool = False) -> None:
    """The options of every command that reads a log."""
    if plan:
        add("--from LOG", LOG, dest="log", required=True)
    else:
        add("LOG", LOG)
        add("--qrels FILE", "relevance judgements of TREC or BEIR: LOG holds TREC runs that rank, "
            "for each query, one sub-corpus of the relevant documents and a sample of the others")
        add("--corpus-size N...", "documents of the whole corpus; needed beside --qrels; estimate "
            "takes several sizes, and shows how a metric falls as the corpus grows")
        _documents_option(add)
        _of_all_option(add)
    _design_options(add)
    add("--shared-negatives", "users share their negatives, such as one list for all: no theorem "
        "covers a range or verdict then")
    add("--fixed-sample-size", "the number of negatives of each user was chosen before ranking, or "
        "at random: accept a log that looks as if samples were enlarged because of their ranks")
    _output_options(
        add, "probability of the right verdict to reach" if plan else "of intervals and verdicts")
    add("--report HTML", "also write a page with tables, figures and verdicts")


def _documents_option(add: partial[None]) -> None:
    add("--queries-are-documents", "queries are documents of the corpus, as in ArguAna and Quora, "
        "and none is its own candidate", action=argparse.BooleanOptionalAction)


def _of_all_option(add: partial[None]) -> None:
    add("--of-all", "each list of the runs holds the first documents of the whole corpus: metrics "
        "up to its end are exact")


def _design_options(add: partial[None]) -> None:
    add("--n-items N", "candidates of each user, the relevant items included, if the log has no "
        "column of this name; plan takes it for the planned evaluation, too")
    add("--n-negatives M",
        "sampled negatives of each user, if the log has no column of this name")
    add("--replacement", "whether one user's negatives may repeat; --no-replacement also where "
        "duplicates were removed; needed unless LOG says it, as bundled and exact ranks do",
        action=argparse.BooleanOptionalAction)
    add("--anchors NAME...", "the metrics by which users with an exact_rank were drawn")
    add("--first-rank R", "the best rank in the log, 0 or 1; default: 1")


def _assume_option(add: partial[None]) -> None:
    add("--assume", "what may be assumed of the true ranks near the top: that deeper ranks have "
        "fewer users, which is the default, or nothing",
        choices=("decreasing", "nothing"), default="decreasing")


def _metric_option(add: partial[None], several: str = "") -> None:
    joint_note = "; with several, all verdicts and ranges hold together" if several else ""
    add(f"--metric NAME{several}", f"such as ndcg@10: {', '.join(_MEANINGS)}{joint_note}",
        required=True)


def _fail_option(add: partial[None], alarm: str) -> None:
    add("--fail-on WHAT", f"exit with status 1 at an alarm: {alarm}", choices=("alarm",))


def _output_options(add: partial[None], confidence: str) -> None:
    add("--confidence P", f"{confidence}; default: {CONFIDENCE}", default=CONFIDENCE)
    _format_options(add)


def _format_options(add: partial[None]) -> None:
    add("--format", "default: table, or what the name of OUTPUT ends in", choices=FORMATS)
    add("-o,--output OUTPUT", "write the table to a file")
# fmt: on
