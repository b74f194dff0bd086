"""What the functions return: a table with its settings and notes.

A result prints as on the command line, shows as a table in a notebook, and can be written as a
data frame, a page of HTML or LaTeX. This module holds the data; :mod:`sampled_metrics.report` has
the words and figures.
"""

# What `_later` returns has no type.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, get_type_hints

import numpy as np
import pandas as pd

from ._files import SUFFIXES, put
from ._validate import printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from .log.compact import Log

#: The name of the group of all users.
ALL = "all"


def _later(module: str, function: str) -> Callable[..., Any]:
    """A function of a result in a module that imports this one, looked up when it is called."""
    return getattr(import_module(f"sampled_metrics.{module}"), function)


def table_of(row: type[NamedTuple], rows: Iterable[tuple[Any, ...]]) -> pd.DataFrame:
    """A data frame of rows of one type; types with None become nullable columns."""
    frame = pd.DataFrame(list(rows), columns=list(row._fields))
    dtypes = {int | None: "Int64", float | None: "Float64", bool | None: "boolean"}
    hints = get_type_hints(row).items()
    return frame.astype({name: dtypes[hint] for name, hint in hints if hint in dtypes})


def facts_of(log: Log) -> dict[str, object]:
    """The facts about a log that the head of its page shows."""
    items, negatives = (
        " to ".join(f"{end:,}" for end in sorted({int(sizes.min()), int(sizes.max())}))
        for sizes in (log.counts["n_items"], log.counts["n_negatives"])
    )
    counts = log.counts
    design = ", ".join([log.protocol.drawn, *["shared by users"] * log.shared_negatives])
    drawn = f"with{'' if log.replacement else 'out'} replacement"
    n_irrelevant = counts["n_items"] - counts["n_relevant"]
    if not log.replacement and (counts["n_negatives"] == n_irrelevant).all():
        drawn = "all of them"
    return {
        "recommenders": ", ".join(map(printable, log.recommenders)),
        "users": log.n_users,
        "rows": int(counts["count"].sum()),
        "items": items,
        "negatives": f"{negatives}, {drawn}",
        **({} if design == "uniformly" else {"design": design}),
    }


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """A table, its settings and its notes.

    Attributes
    ----------
    frame : pandas.DataFrame
        The table. The function that returns the result documents its columns.
    settings : mapping of str to object
        The options that the table was computed with.
    notes : tuple of str
        What the table leaves out, and why, in sentences.
    facts : mapping of str to object
        What the page shows of the input; `settings` if empty.

    See Also
    --------
    Estimates, Comparison, Plan, Audit, Published, Ranks : The results of single functions.

    Examples
    --------
    >>> result = Result(pd.DataFrame({"check": ["items"], "p_value": [0.25]}), notes=("a note",))
    >>> print(result.summary(), end="")
    check  p_value
    items   0.2500
    note: a note
    >>> print(result.to_latex(caption="A check."))  # doctest: +ELLIPSIS
    \\begin{table}
    \\caption{A check.}
    ...
    """

    frame: pd.DataFrame
    settings: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    facts: Mapping[str, object] = field(default_factory=dict, kw_only=True)

    @property
    def shown(self) -> pd.DataFrame:
        """The table as it is printed: bounds rounded outwards, each range in one column."""
        return _later("report.text", "shown")(self)

    @property
    def sentences(self) -> list[str]:
        """The table in sentences, such as the verdict on each pair; may be empty."""
        return _later("report.text", "sentences")(self)

    def promises(self, metric: str | None = None) -> list[str]:
        """Assumption and warrant of the ranges in sentences, of all metrics or of the one named."""
        return _later("report.text", "promises")(self, metric)

    def summary(self) -> str:
        """The sentences, the table and the notes, as the command line prints them."""
        return _later("report.text", "summary")(self)

    def __repr__(self) -> str:
        return self.summary().rstrip("\n")

    def _repr_html_(self) -> str:
        return _later("report.html", "table")(self)

    def plot(self) -> Figure:
        """The figure of the result's page.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        TypeError
            If results of this type have no figure.
        """
        return _later("report.figures", "figure")(self)

    def to_html(self) -> str:
        """The page of the result, with its figures and definitions.

        Raises
        ------
        ImportError
            If the page has figures and matplotlib is not installed.
        """
        return _later("report.html", "page")(self)

    def to_latex(self, caption: str | None = None, label: str | None = None) -> str:
        """The table as LaTeX for a paper; it needs the package booktabs.

        Parameters
        ----------
        caption, label : str, optional
            LaTeX of the caption, and the label. By default the caption of estimates and comparisons
            states users, negatives, candidates, and the assumption, warrant and confidence of the
            ranges; other results have none. ``caption=""`` without a label gives a bare
            ``tabular``.
        """
        return _later("report.paper", "latex")(self, caption, label)

    def to_text(self, kind: str = "table") -> str:
        """The table as text.

        Parameters
        ----------
        kind : {"table", "json", "csv", "markdown"}
            "table" is the summary without the notes; the others are the table alone.

        Raises
        ------
        ValueError
            If `kind` is not one of these.
        """
        return _later("report.text", "as_text")(self, kind)

    def write(self, path: str | Path) -> Path:
        """Write a file, which appears under its name only when it is complete.

        Parameters
        ----------
        path : str or Path
            The suffix selects the format: ``.html`` the page, ``.tex`` LaTeX, ``.json``, ``.csv``
            or ``.md`` the table, ``.txt`` the summary without the notes.

        Returns
        -------
        Path

        Raises
        ------
        ValueError
            If the suffix is another one.
        ImportError
            As :meth:`to_html`.

        Examples
        --------
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     Result(pd.DataFrame({"a": [1]})).write(f"{folder}/table.csv").read_text()
        'a\\n1\\n'
        """
        suffix = Path(path).suffix.lower()
        writers: dict[str, Callable[[], str]] = {".html": self.to_html, ".tex": self.to_latex}
        if suffix not in (*SUFFIXES, *writers):
            suffixes = ", ".join((*writers, *SUFFIXES))
            raise ValueError(f"the name of the file must end in one of {suffixes}, got {path}")
        content = writers[suffix]() if suffix in writers else self.to_text(SUFFIXES[suffix])
        return put(Path(path), content.encode())


@dataclass(frozen=True, eq=False, repr=False)
class Estimates(Result):
    """The estimates of :func:`~sampled_metrics.estimate`.

    Attributes
    ----------
    comparisons : mapping of str to Comparison
        The verdicts on each metric that the page shows; empty unless they were added by
        ``with_verdicts``.
    log : Log, optional
        What was estimated from; None for a sub-corpus.

    See Also
    --------
    sampled_metrics.estimate : The function that returns it.

    Examples
    --------
    >>> import sampled_metrics as sm
    >>> sm.estimate("bundled", ["auc"])
    recommender  metric  reported  estimate  95% interval    quote
    X            auc       0.8920    0.8920  0.885 to 0.899  0.892 (0.885 to 0.899)
    Y            auc       0.8522    0.8522  0.844 to 0.860  0.852 (0.844 to 0.860)
    Z            auc       0.7481    0.7481  0.737 to 0.759  0.748 (0.737 to 0.759)
    95% interval: whatever the ranks
    note: here the exact value is known: auc is 0.8924, 0.8533, 0.7480 (X, Y, Z)
    """

    comparisons: Mapping[str, Comparison] = field(default_factory=dict, kw_only=True)
    log: Log | None = field(default=None, kw_only=True)

    def methods(self) -> str:
        """A paragraph for the methods section of a paper, as plain text.

        It says how many users, candidates and negatives there were, how the negatives were drawn,
        which estimator was used, what the ranges assume and why they are right, and how to cite the
        package. The package takes the design of the negatives from the log and from the options of
        :func:`~sampled_metrics.read_log`: check that it is yours.

        Examples
        --------
        A reviewer asks how the exact AUC was estimated:

        >>> import sampled_metrics as sm
        >>> from textwrap import fill
        >>> print(fill(sm.estimate("bundled", ["auc"]).methods(), 90))
        We evaluated X, Y and Z on 6,040 users. Each held-out item was ranked among 100 distinct
        negatives, drawn uniformly from the 1,393 to 3,687 candidates of each user. We estimated
        AUC on all candidates; estimator: naive. The naive metric is that of the sampled ranks;
        here it has no bias. The 95% intervals are valid with any number of users, whatever the
        ranks. Software: The Sampled Metrics authors, Sampled Metrics, version 0.1.0, 2026.
        """
        return _later("report.paper", "methods")(self)


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Result):
    """The verdicts of :func:`~sampled_metrics.compare`.

    Attributes
    ----------
    estimates : Estimates, optional
        The estimates that the page shows, if they were added by
        ``with_estimates``.
    parts : mapping of str to Comparison
        The comparison by each metric, if there are several.

    See Also
    --------
    sampled_metrics.compare : The function that returns it.

    Examples
    --------
    >>> import sampled_metrics as sm
    >>> rows = pd.DataFrame({"recommender": ["A"] * 99 + ["B"] * 99, "user": [*range(99)] * 2,
    ...                      "rank": [1] * 99 + [10] * 99})
    >>> log = sm.read_log(rows, n_items=1_000, n_negatives=9, replacement=True)
    >>> result = sm.compare(log, "auc")
    >>> result.verdicts
    {('A', 'B'): 'A beats B'}
    >>> result
    A beats B on AUC (95% confidence, whatever the ranks).
    difference  reported  estimate          large sample      95% interval
    A minus B   +1.0000   +1.0000 ± 0.0000  +1.000 to +1.000  +0.876 to +1.000
    95% interval: whatever the ranks
    """

    estimates: Estimates | None = field(default=None, kw_only=True)
    parts: Mapping[str, Comparison] = field(default_factory=dict, kw_only=True)

    def methods(self) -> str:
        """A paragraph for the methods section of a paper, as :meth:`Estimates.methods`."""
        return _later("report.paper", "methods")(self)

    def winner_first(self) -> pd.DataFrame:
        """The differences in the direction of the verdicts; those of undecided pairs as given."""
        frame = self.frame.copy()
        pairs = frame[["first", "second", "verdict"]].itertuples(index=False, name=None)
        is_reversed = np.array(
            [verdict in (f"{b} beats {a}", f"{b} probably beats {a}") for a, b, verdict in pairs]
        )
        ranges = [f"{name}_{end}" for name in ("student", "possible") for end in ("low", "high")]
        for column, counterpart in (("first", "second"), ranges[:2], ranges[2:]):
            swapped = frame.loc[is_reversed, [counterpart, column]].to_numpy(copy=True)
            frame.loc[is_reversed, [column, counterpart]] = swapped
        for name in ("reported", "estimate", *ranges):
            frame.loc[is_reversed, name] *= -1.0
        return frame

    @property
    def verdicts(self) -> dict[tuple[str, ...], str]:
        """The verdict on each pair; its names follow the group and metric, if several."""
        key = [name for name in ("group", "metric", "first", "second") if name in self.frame]
        rows = self.frame[[*key, "verdict"]].itertuples(index=False, name=None)
        return {tuple(names): verdict for *names, verdict in rows}

    def by_metric(self) -> Mapping[str, Comparison]:
        """The comparison by each metric."""
        return self.parts or {self.settings["metric"]: self}


@dataclass(frozen=True, eq=False, repr=False)
class Plan(Result):
    """The plan of :func:`~sampled_metrics.plan`, which documents the table.

    See Also
    --------
    sampled_metrics.plan : The function that returns it.

    Examples
    --------
    >>> import sampled_metrics as sm
    >>> populations = {"A": {2: 0.3, 500: 0.7}, "B": {30: 0.6, 500: 0.4}}
    >>> protocol = sm.Protocol(1_000, 100)
    >>> result = sm.plan(populations, "ndcg@10", protocol, 50, estimators=["bias-variance"])
    >>> result.frame[["estimator", "negatives_needed", "users_needed"]]
           estimator  negatives_needed  users_needed
    0  bias-variance                32            10
    1          exact              <NA>             7
    """


@dataclass(frozen=True, eq=False, repr=False)
class Audit(Result):
    """The checks of :func:`~sampled_metrics.audit`.

    See Also
    --------
    sampled_metrics.audit : The function that returns it.

    Examples
    --------
    >>> import sampled_metrics as sm
    >>> lists = [[1, 2], [2, 2]]  # an item twice
    >>> "duplicates" in sm.audit(lists, 80, replacement=False).alarms
    True
    """

    @property
    def alarms(self) -> tuple[str, ...]:
        """The checks that raise an alarm."""
        return tuple(self.frame.loc[self.frame["alarm"], "check"])


@dataclass(frozen=True, eq=False, repr=False)
class Ranks(Result):
    """The exact rank of each held-out item, from :func:`~sampled_metrics.rank`.

    See Also
    --------
    sampled_metrics.rank : The function that returns it.

    Examples
    --------
    Two users, whose items are at ranks 1 and 12 of 500:

    >>> rows = {"user": [0, 1], "item": [7, 9], "n_better": [0, 11], "n_tied": 0}
    >>> rows |= {"n_candidates": 500, "n_relevant": 1, "relevant_better": 0, "relevant_tied": 0}
    >>> Ranks(pd.DataFrame(rows)).metrics(["recall@10", "rr"])
    metric      value  standard_error  users
    recall@10  0.5000          0.5000      2
    rr         0.5417          0.4583      2
    """

    def metrics(self, names: Sequence[str]) -> Result:
        """The exact metrics, averaged over users; ties count as if broken at random.

        Parameters
        ----------
        names : sequence of str
            As for :func:`~sampled_metrics.metric`.

        Returns
        -------
        Result
            Columns metric, value, standard_error and users. The standard error takes the users as a
            random sample.

        Raises
        ------
        ValueError
            If a name is unknown, or there is only one user.
        """
        return _later("evaluation.exact_metrics", "of_ranks")(self, names)


@dataclass(frozen=True, eq=False, repr=False)
class Orders(Result):
    """The orders of a published table, one row for each pair of methods."""


@dataclass(frozen=True, eq=False, repr=False)
class Published(Result):
    """The bounds of :func:`~sampled_metrics.published`.

    Attributes
    ----------
    orders, checks : pandas.DataFrame
        The order of each two methods, and whether each row of the table is possible; see there.

    See Also
    --------
    sampled_metrics.published : The function that returns it.

    Examples
    --------
    NDCG@5 is at least HR@1, whatever the sampled ranks are:

    >>> import sampled_metrics as sm
    >>> rows = pd.DataFrame({"method": ["A"], "HR@1": ["0.300"], "NDCG@5": ["0.250"]})
    >>> sm.published(rows, n_items=500, n_negatives=99, users=1_000, replacement=False)
    method  metric  published  no assumption  decreasing  guess
    A       hit@1      0.3000
    A       ndcg@5     0.2500
    decreasing: assuming that deeper ranks have fewer users, down to rank 10 × items / negatives
    ranges: all ranges of a data set hold together with 95% confidence, each under the assumption of
    its column
    all columns: assuming that each user has n_items candidates, or nearly as many
    guess: the value if the true ranks are distributed as evenly as the published numbers allow; all
    others in the ranges fit as well
    an empty range: no ranks that the column allows give the published numbers; a note says why
    note: A: no list of sampled ranks has Hit@1 0.3 and NDCG@5 0.25 at once
    """

    orders: pd.DataFrame = field(default_factory=pd.DataFrame)
    checks: pd.DataFrame = field(default_factory=pd.DataFrame)

    def plot(self, metric: str | None = None) -> Figure:
        """Published numbers, guesses and bounds of one metric, by default the first of the table.

        Raises
        ------
        ValueError
            If the table has no such metric.
        ImportError
            If matplotlib is not installed.
        """
        return _later("report.figures", "published_figure")(self, metric)
