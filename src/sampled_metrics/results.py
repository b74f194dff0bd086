"""What the practitioner's verbs return: a table, with what it was made with and what it leaves out.

A result prints as the command line prints it, shows as a table in a notebook, and gives its rows
as a data frame, a page of HTML, or a table for a paper; all but ranks draw a figure.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from . import _ranges
from ._files import FORMATS
from ._promises import LARGE_SAMPLE, NONE, PROVED, promise
from ._validate import as_written

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def text(value: object) -> str:
    """Write a value for the eye: four decimals, thousands marked, nothing for a missing one.

    Examples
    --------
    >>> [text(v) for v in (0.25, -2e-6, 0.0, 12_000, True, None, float("nan"), "B beats A")]
    ['0.2500', '-2.0e-06', '0.0000', '12,000', 'yes', '', '', 'B beats A']
    """
    if value is None or value is pd.NA or (isinstance(value, float) and np.isnan(value)):
        return ""
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    if isinstance(value, (int, np.integer)):
        return f"{value:,}"
    if isinstance(value, float):  # NumPy's are too
        small = value != 0 and abs(value) < 5e-4
        return f"{value:.1e}" if small else f"{value + 0.0:.4f}"  # no negative zero
    return printable(str(value))


def printable(name: str) -> str:
    """Put a name on one line and replace what no page or terminal should be sent.

    Examples
    --------
    >>> printable("SVD \\x1b[31m\\n50")
    'SVD �[31m 50'
    """
    return re.sub(
        r"[\x00-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]", "\ufffd", " ".join(name.split())
    )


def formatted(frame: pd.DataFrame, kind: str = "table") -> str:
    """Write a table as text.

    Parameters
    ----------
    frame : pandas.DataFrame
    kind : {"table", "json", "csv", "markdown"}
        Columns in line for the eye; a list of objects, with null for what is missing; with every
        digit; or a table of Markdown.

    Returns
    -------
    str

    Raises
    ------
    ValueError
        If `kind` is none of these.

    Examples
    --------
    >>> frame = pd.DataFrame({"estimator": ["naive", "monotone"], "value": [0.25, float("nan")]})
    >>> print(formatted(frame), end="")
    estimator   value
    naive      0.2500
    monotone
    >>> print(formatted(frame, "json"), end="")
    [
    {"estimator": "naive", "value": 0.25},
    {"estimator": "monotone", "value": null}
    ]
    """
    if kind not in FORMATS:
        raise ValueError(f"kind must be one of {', '.join(FORMATS)}, got {as_written(kind)}")
    if kind == "csv":
        return str(frame.to_csv(index=False, lineterminator="\n"))
    if kind == "json":
        plain = frame.astype(object).where(frame.notna(), None).to_dict("records")
        rows = [json.dumps(row, default=lambda value: value.item()) for row in plain]
        return "[\n" + ",\n".join(rows) + "\n]\n"
    right = [_is_number(column) for _, column in frame.items()]
    cells = [list(map(str, frame.columns)), *_cells(frame)]
    if kind == "markdown":
        cells = [[cell.replace("|", "\\|") for cell in row] for row in cells]
        cells.insert(1, ["---:" if r else ":---" for r in right])
        return "".join(f"| {' | '.join(row)} |\n" for row in cells)
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for row in cells:
        padded = [c.rjust(w) if r else c.ljust(w)
                  for c, w, r in zip(row, widths, right, strict=True)]  # fmt: skip
        lines.append("  ".join(padded).rstrip() + "\n")
    return "".join(lines)


def _cells(frame: pd.DataFrame) -> list[list[str]]:
    return [[text(value) for value in row] for row in frame.itertuples(index=False, name=None)]


def _is_number(column: pd.Series) -> bool:
    return pd.api.types.is_numeric_dtype(column) and column.dtype != bool


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """A table, what it was made with, and what is to be said beside it.

    Attributes
    ----------
    frame : pandas.DataFrame
        The table; its columns are documented where it is made.
    settings : mapping of str to object
        What the table was made with.
    notes : tuple of str
        What the table leaves out, and why, in sentences.

    Examples
    --------
    >>> found = Result(pd.DataFrame({"check": ["items"], "p_value": [0.25]}), notes=("a note",))
    >>> print(found.summary(), end="")
    check  p_value
    items   0.2500
    note: a note
    >>> print(found.to_latex(caption="A check."))  # doctest: +ELLIPSIS
    \\begin{table}
    \\caption{A check.}
    ...
    >>> found.to_html().count("<td")
    2
    """

    frame: pd.DataFrame
    settings: Mapping[str, object] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def shown(self) -> pd.DataFrame:
        """The table as it is printed."""
        return self.frame

    def summary(self) -> str:
        """The table and the notes as the command line prints them."""
        return formatted(self.shown) + _as_notes(self.notes)

    def __repr__(self) -> str:
        return self.summary().rstrip("\n")

    def _repr_html_(self) -> str:
        from .report import html

        return html.table(self.shown, self._said(), self.notes)

    def to_html(self) -> str:
        """A page of its own, with figures and definitions where there are some.

        Raises
        ------
        ImportError
            If it has figures, and matplotlib is not installed.
        """
        from .report import html

        return html.of_table(type(self).__name__, self.shown, self._said(), self.notes)

    def _said(self) -> str:
        return ", ".join(f"{name} {text(value)}" for name, value in self.settings.items())

    def to_latex(self, caption: str | None = None, label: str | None = None) -> str:
        """The table for a paper, with the rules of the LaTeX package booktabs.

        Parameters
        ----------
        caption, label : str, optional
            Of the table, the caption as LaTeX; it is a bare ``tabular`` without them.
        """
        shown = self.shown
        heads = [str(name).replace("_", " ") for name in shown]
        sides = "".join("r" if _is_number(shown[name]) else "l" for name in shown)
        return pd.DataFrame(_cells(shown), columns=heads).to_latex(
            index=False, escape=True, column_format=sides, caption=caption, label=label
        )


@dataclass(frozen=True, eq=False, repr=False)
class Estimates(Result):
    """What :func:`~sampled_metrics.evaluation.estimate` returns.

    Examples
    --------
    >>> import sampled_metrics as sm
    >>> found = sm.estimate("bundled", ["auc"])
    >>> found
    recommender  metric  reported  estimate  standard_error  possible        quote
    X            auc       0.8920    0.8920          0.0020  0.885 to 0.899  0.8920 ± 0.0020
    Y            auc       0.8522    0.8522          0.0024  0.844 to 0.860  0.8522 ± 0.0024
    Z            auc       0.7481    0.7481          0.0033  0.737 to 0.759  0.7481 ± 0.0033
    possible: no assumption on the ranks; proved
    >>> row = found.to_latex().splitlines()[4].split(" & ")
    >>> row[5:8]
    ['0.885 to 0.899', 'none', 'proved']
    """

    @property
    def shown(self) -> pd.DataFrame:
        """The table as it is printed, ends rounded outwards and what is possible in one column."""
        if "possible_low" not in self.frame:
            table = self.frame.drop(columns="users", errors="ignore")
            for name, way in (("low", _ranges.down), ("high", _ranges.up)):
                if name in table:
                    table[name] = [_rounded(end, way) for end in table[name]]
            return table
        table = self.frame.drop(columns=["possible_low", "possible_high", "users"])
        if "shortest" in table:
            least = table.pop("shortest")
            width = self.frame["possible_high"] - self.frame["possible_low"]
            table["times_shortest"] = [
                "" if np.isnan(times) else f"{times:.1f}" for times in width / least
            ]
        ends = zip(self.frame["possible_low"], self.frame["possible_high"], strict=True)
        table.insert(5, "possible", [_ranges.written(low, high) for low, high in ends])
        return table

    def summary(self) -> str:
        """The table, what its ranges promise, and the notes, as the command line prints them."""
        table = self.shown.drop(columns=["assumption", "warrant"], errors="ignore")
        return formatted(table) + "".join(map(_wrapped, self.promises())) + _as_notes(self.notes)

    def promises(self, of: str | None = None) -> list[str]:
        """Assumption and warrant of the ranges, of all metrics or of one, in sentences."""
        if "assumed" not in self.settings or "warrant" not in self.frame:
            return []
        rows = self.frame if of is None else self.frame[self.frame["metric"] == of]
        rows = rows[rows["warrant"] != ""]
        groups = rows.groupby(["assumption", "warrant"], sort=False)
        lines = []
        for (assumption, warrant), part in groups:
            where = "" if groups.ngroups == 1 else f" for {_which(part, rows)}"
            lines.append(f"possible{where}: {promise(str(assumption), str(warrant))}")
        said, _, free = str(self.settings["assumed"]).partition("; nothing for ")
        if lines and said != "nothing" and of not in free.split(", "):
            lines.append(f"assuming {said}")
        return lines

    def to_html(self) -> str:
        from .report import html

        return html.of_estimates(self, {}, self.settings)

    def plot(self) -> Figure:
        """The page's figure.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        from .report import html

        return html.estimates_figures(self.frame)


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Result):
    """What :func:`~sampled_metrics.evaluation.compare` returns.

    Examples
    --------
    >>> import sampled_metrics as sm
    >>> rows = pd.DataFrame({"recommender": ["A"] * 99 + ["B"] * 99, "user": [*range(99)] * 2,
    ...                      "rank": [1] * 99 + [10] * 99})
    >>> log = sm.read_log(rows, n_items=1_000, n_negatives=9, replacement=True)
    >>> found = sm.compare(log, "auc")
    >>> found.verdicts
    {('A', 'B'): 'A beats B'}
    >>> found
    A beats B on AUC (no assumption on the ranks; proved).
    pair     reported  estimate          possible
    A and B  +1.0000   +1.0000 ± 0.0000  +0.876 to +1.000
    possible: no assumption on the ranks; proved
    """

    @property
    def verdicts(self) -> dict[tuple[str, str], str]:
        """The verdict on each pair."""
        rows = self.frame[["first", "second", "verdict"]].itertuples(index=False, name=None)
        return {(first, second): verdict for first, second, verdict in rows}

    @property
    def sentences(self) -> list[str]:
        """The verdict on each pair with what it rests on, or what would settle it."""
        return [self._sentence(row) for row in self.frame.to_dict("records")]

    def _sentence(self, row: dict[Hashable, Any]) -> str:
        from .metrics import metric

        of = metric(text(self.settings["metric"]))
        on = f"on {of.label}"
        if row["verdict"] != "unknown":
            stands = promise(row["assumption"], row["warrant"])
            return f"{printable(row['verdict'])} {on} ({stands})."
        pair = f"{printable(row['first'])} and {printable(row['second'])}"
        users, negatives = row["users_needed"], row["negatives_needed"]
        # Of AUC a sample has no bias: what is unknown is so for want of users.
        first = "more users" if of.linear and pd.isna(users) else "more negatives"
        ways = {"": first, "none": "", "all": "ranking all items"}
        if of.linear and not pd.isna(users):
            ways[""] = ""
        about = f"about {negatives} negatives".replace("about >", "more than ")
        more = [ways.get(negatives, about), "" if pd.isna(users) else f"about {users:,} users"]
        said = f"{' or '.join(filter(None, more))} would settle it"
        if not any(more):
            said = "with these users no number of negatives would settle it"
        likely = f" The estimate favours {printable(row['likely'])}." if row["likely"] else ""
        return (
            f"{pair} {on}: unknown; {said}. The log can show a difference of about "
            f"{row['shown']:.3f}.{likely}"
        )

    @property
    def shown(self) -> pd.DataFrame:
        """The table as it is printed."""
        f = self.frame
        both = zip(f["estimate"], f["standard_error"], strict=True)
        ends = zip(f["possible_low"], f["possible_high"], strict=True)
        return pd.DataFrame(
            {
                "pair": [f"{a} and {b}" for a, b in zip(f["first"], f["second"], strict=True)],
                "reported": [_signed(value, 4) for value in f["reported"]],
                "estimate": [f"{_signed(value, 4)} ± {error:.4f}" for value, error in both],
                "possible": [_ranges.written(a, b, signed=True) for a, b in ends],
                "verdict": [_stands(row) for row in f.to_dict("records")],
            }
        )

    def summary(self) -> str:
        """The verdicts in sentences, the table and the notes, as the command line prints them."""
        said = "".join(map(_wrapped, self.sentences))
        table = formatted(self.shown.drop(columns="verdict"))
        return said + table + "".join(map(_wrapped, self.promises())) + _as_notes(self.notes)

    def promises(self) -> list[str]:
        """Assumption and warrant of the ranges, in sentences."""
        if "assumed" not in self.settings:
            return []
        assumed, warrant = self.settings["assumed"], str(self.settings["warrant"])
        if warrant == LARGE_SAMPLE:
            return [f"possible: {promise(NONE, warrant)}", f"assuming {assumed}"]
        if assumed == "nothing":
            return [f"possible: {promise(NONE, warrant)}"]
        given = self.frame["verdict"] != "unknown"
        ways = ["under the assumption of the verdict"] if given.any() else []
        if not given.all():
            ways.append(f"without a verdict, assuming {assumed}" if ways else f"assuming {assumed}")
        return [f"possible: {'; '.join(ways)}; {warrant}"]

    def to_html(self) -> str:
        from .report import html

        return html.of_comparison(self, self.settings)

    def plot(self) -> Figure:
        """The page's figure.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        from .report import html

        return html.comparison_figure(self.frame, text(self.settings["metric"]))


def _which(part: pd.DataFrame, rows: pd.DataFrame) -> str:
    """The metrics of some rows, with the recommenders where not all are among them."""
    names = []
    for of, some in part.groupby("metric", sort=False):
        whole = len(some) == (rows["metric"] == of).sum()
        who = ", ".join(map(printable, some["recommender"]))
        names.append(f"{of}" if whole else f"{of} of {who}")
    return ", ".join(names)


def _stands(row: Mapping[Hashable, Any], unknown: str = "unknown") -> str:
    """A verdict with its assumption and its warrant."""
    if row["verdict"] == "unknown":
        return unknown
    return f"{row['verdict']} ({promise(row['assumption'], row['warrant'])})"


def _finely(low: float, high: float) -> str:
    """A range with four digits, as papers print them: without the zero in front."""
    if np.isnan(low):
        return ""
    return " to ".join(end.removeprefix("0") for end in _ranges.ends(low, high, 4))


def _rounded(end: float, way: Callable[[float, int], float]) -> float:
    """An end of an interval such that `text` writes all its digits."""
    small = 1e-300 < abs(end) < 5e-4
    return end if np.isnan(end) else way(end, 1 - int(np.floor(np.log10(abs(end)))) if small else 4)


def _signed(value: float, digits: int) -> str:
    """A difference with its sign, and zero without one."""
    written = f"{value:+.{digits}f}"
    return written.replace("-", "\u2212") if float(written) else f"{0:.{digits}f}"


def _wrapped(sentence: str) -> str:
    return "\n".join(textwrap.wrap(sentence, 96)) + "\n"


def _as_notes(notes: Sequence[str]) -> str:
    return "".join(_wrapped(f"note: {note}") for note in notes)


@dataclass(frozen=True, eq=False, repr=False)
class Plan(Result):
    """What :func:`~sampled_metrics.planning.plan` returns.

    Attributes
    ----------
    designs : pandas.DataFrame
        The cheapest evaluation of each kind with which the verdict is right often enough.
    limits : pandas.DataFrame
        How often any proved verdict can decide each pair.

    Examples
    --------
    >>> import sampled_metrics as sm
    >>> better, worse = {2: 0.3, 500: 0.7}, {30: 0.6, 500: 0.4}
    >>> protocol = sm.Protocol(1_000, 100)
    >>> found = sm.plan(better, worse, "ndcg@10", protocol, 50, estimators=["bias-variance"])
    >>> found.frame[["estimator", "negatives_needed", "users_needed"]]
           estimator  negatives_needed  users_needed
    0  bias-variance                33             8
    1          exact              <NA>             9
    """

    designs: pd.DataFrame = field(default_factory=pd.DataFrame)
    limits: pd.DataFrame = field(default_factory=pd.DataFrame)

    @property
    def sentences(self) -> list[str]:
        """The cheapest sampled evaluation that is enough for each pair, and what all items take."""
        return [self._sentence(*pair) for pair in self._pairs()] + self._limited()

    def _limited(self) -> list[str]:
        """How often any method can decide each pair, under the assumption that helps most."""
        if not len(self.limits):
            return []
        names = [name for name in ("first", "second") if name in self.limits]
        of, rows = self.limits.iloc[0], self.limits.assign(pair="the two")
        if names:
            rows["pair"] = rows["first"].map(printable) + " and " + rows["second"].map(printable)
        most = rows.groupby("pair", sort=False)["most_decided"].max().map(_percent)
        first, *others = (f"{pair} in {share}" for pair, share in most.items())
        return [
            f"With {of['negatives']:,} negatives, and {of['users']:,} users of its own for each "
            "recommender, no method that errs in at most 5% of evaluations decides more often than "
            "this: "
            f"{', '.join([f'{first} of evaluations', *others])}. It may assume that near the top "
            "deeper ranks have fewer users."
        ]

    @property
    def enough(self) -> str:
        """What the sentences call enough."""
        return (
            f"enough: the right order with probability {self.settings['confidence']:g}, if true "
            "ranks are distributed as assumed"
        )

    def promises(self) -> list[str]:
        """Definitions of the words *enough* and *race* in the sentences."""
        if not (self.frame["estimator"] == "race").any():
            return [self.enough]
        race = (
            f"race: proves the order of the exact metric over all {self.settings['n_users']:,} "
            f"users with confidence {self.settings['confidence']:g}; expected for users whose "
            "ranks by two recommenders are independent, and mostly shorter where they are not"
        )
        return [self.enough, race]

    def _pairs(self) -> Iterator[tuple[str, pd.DataFrame, pd.DataFrame]]:
        """Each pair with its rows and its designs."""
        names = ["first", "second"]
        if "first" not in self.frame:
            yield "", self.frame, self.designs
            return
        for pair, rows in self.frame.groupby(names, sort=False):
            own = self.designs
            if len(own):
                own = own[(own[names] == list(pair)).all(axis=1)].drop(columns=names)
            yield printable(" and ".join(map(str, pair))), rows.drop(columns=names), own

    def _sentence(self, pair: str, rows: pd.DataFrame, designs: pd.DataFrame) -> str:
        from .metrics import metric

        on = metric(text(self.settings["metric"])).label
        full = rows.iloc[-1]
        found = designs[designs["design"] != "full ranking"].dropna()
        if len(found):
            best = found.iloc[0]
            each = f"{best['negatives']:,}"
            if best["most"] > best["negatives"]:
                each += f" to {best['most']:,}"
            said = (
                f"{best['users']:,} users with {each} negatives each are enough on {on} "
                f"({best['estimator']}, {best['scores']:,} scores)"
            )
            if pd.isna(full["users_needed"]) or best["users"] < full["users_needed"]:
                said += ", but only as its bias favours the better one here"
        else:
            said = (
                f"no evaluation of up to {self.settings['n_users']:,} users with up to "
                f"{self.settings['max_negatives']:,} negatives is enough on {on}"
            )
        ranked = f"takes {full['users_needed']:,} users ({full['scores_by_users']:,} scores)"
        if pd.isna(full["users_needed"]):
            ranked = "would not be enough"
        said = f"{pair}{': ' if pair else ''}{said}; ranking all items {ranked}."
        race = rows[rows["estimator"] == "race"].dropna(subset="scores_by_users")
        if len(race):
            users, scores = race[["users_needed", "scores_by_users"]].astype(float).iloc[0]
            sizes = [float(str(self.settings[name])) for name in ("n_users", "n_items")]
            said += (
                f" A race is expected to rank about {users:,.0f} of {sizes[0]:,.0f} users, with "
                f"{100 * scores / sizes[0] / sizes[1]:.2g}% of the scores for ranking all items "
                "for all of them."
            )
        return said

    def summary(self) -> str:
        """The sentences, tables for each pair, and the notes, as the command line prints them."""
        said = "".join(map(_wrapped, [*self.sentences, *self.promises()]))
        for pair, rows, own in self._pairs():
            table = _plan_tables(rows.drop(columns="ties"))  # a tie is hardly ever likely
            below = f"cheapest:\n{formatted(own)}" if len(own) else ""
            said += "\n" + (f"{pair}:\n" if pair else "") + table + below
        return said + _as_notes(self.notes)

    def plot(self) -> Figure:
        """What each estimator needs, in negatives or in users, and what that costs in scores.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        from .report import html

        return html.plan_figure(self.frame)


def _percent(share: float) -> str:
    """A share as a percentage, rounded upwards."""
    return f"{np.ceil(100.0 * share - 1e-9):.0f}%"


@dataclass(frozen=True, eq=False, repr=False)
class Race(Result):
    """What :func:`~sampled_metrics.sequential.race` returns.

    Attributes
    ----------
    costs : pandas.DataFrame
        A row for each recommender: its mean metric over the users it was evaluated on, the number
        of these users, the scores computed, and their share of the scores for ranking all items
        for all users.

    Examples
    --------
    >>> row = {"first": "A", "second": "B", "verdict": "A beats B", "users": 640}
    >>> row |= {"assumption": "none", "warrant": "proved"}
    >>> costs = {"recommender": ["A", "B"], "scores": [900, 1_100], "share": [0.009, 0.011]}
    >>> settings = {"metric": "ndcg@10", "n_users": 1_000}
    >>> Race(pd.DataFrame([row]), settings, costs=pd.DataFrame(costs)).sentences
    ['A beats B on NDCG@10 (no assumption on the ranks; proved), by 640 of 1,000 users.']
    """

    costs: pd.DataFrame = field(default_factory=pd.DataFrame)

    @property
    def sentences(self) -> list[str]:
        """For each pair the verdict, and the number of users compared."""
        from .metrics import metric

        on, users = metric(text(self.settings["metric"])).label, self.settings["n_users"]
        found = []
        for row in self.frame.to_dict("records"):
            said = printable(str(row["verdict"]))
            if said == "unknown":
                said = printable(f"{row['first']} or {row['second']}") + ": unknown"
            said += f" on {on}"
            if row["verdict"] != "unknown":
                said += f" ({promise(row['assumption'], row['warrant'])})"
            found.append(f"{said}, by {row['users']:,} of {users:,} users.")
        return found

    def summary(self) -> str:
        """The sentences and the costs, as the command line prints them."""
        said = "".join(map(_wrapped, self.sentences))
        return f"{said}\n{formatted(self.costs)}" + _as_notes(self.notes)


def _plan_tables(rows: pd.DataFrame) -> str:
    """A plan as text, and how a budget is best divided below it."""
    best = [name for name in rows if str(name).startswith("best_")]
    below = formatted(rows[["estimator", *best]]) if best else ""
    return formatted(rows.drop(columns=best)) + below


@dataclass(frozen=True, eq=False, repr=False)
class Audit(Result):
    """What :func:`~sampled_metrics.auditing.audit` returns.

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

    @property
    def sampler(self) -> str:
        """What the negatives look like, in words: how they were drawn, as far as they show it."""
        return str(self.settings["sampler"])

    def summary(self) -> str:
        """The verdict, the table, what the checks found, and the notes, as the command does."""
        found = zip(self.frame["check"], self.frame["finding"], strict=True)
        said = "".join(_wrapped(printable(f"{check}: {finding}")) for check, finding in found)
        raised = f"alarm: {', '.join(self.alarms)}" if self.alarms else "no alarm"
        verdict = _wrapped(f"{raised}; the negatives look like: {self.sampler}")
        table = formatted(self.frame.drop(columns="finding"))
        return verdict + table + said + _as_notes(self.notes)

    def plot(self) -> Figure:
        """How odd each check found the negatives, and from where on it raises an alarm.

        Raises
        ------
        ImportError
            If matplotlib is not installed.
        """
        from .report import html

        return html.audit_figure(self.frame, float(str(self.settings["level"])))


@dataclass(frozen=True, eq=False, repr=False)
class Ranks(Result):
    """What :func:`~sampled_metrics.ranking.files.rank` returns: the exact rank of each item.

    Examples
    --------
    Two users, whose items are at ranks 1 and 12 of 500:

    >>> rows = {"user": [0, 1], "item": [7, 9], "n_better": [0, 11], "n_tied": 0}
    >>> rows |= {"n_candidates": 500, "n_relevant": 1, "relevant_better": 0, "relevant_tied": 0}
    >>> Ranks(pd.DataFrame(rows), {"among": "all"}).metrics(["recall@10", "rr"])
    metric      value  standard_error  users
    recall@10  0.5000          0.5000      2
    rr         0.5417          0.4583      2
    """

    def metrics(self, names: Sequence[str]) -> Result:
        """The exact metrics, averaged over users, ties over their random order.

        Parameters
        ----------
        names : sequence of str
            As for :func:`~sampled_metrics.metric`.

        Returns
        -------
        Result
            Its frame has the columns metric, value, standard_error and users; the standard error
            is of the average over users, who are taken as a sample.

        Raises
        ------
        ValueError
            If a name is no metric's, or there is one user only.
        """
        from .evaluation import estimate
        from .log.read import read_log

        # An evaluation that draws every negative once is exact.
        rows, others = self.frame, self.frame["n_relevant"] - 1
        together = self.settings.get("among", "all") == "all"
        items = rows["n_candidates"] + (0 if together else others)
        better, tied = (
            rows[name] - (rows[f"relevant_{name[2:]}"] if together else 0)
            for name in ("n_better", "n_tied")
        )
        log = rows[["user", "item"]].assign(
            n_better=better, n_tied=tied, n_items=items, n_negatives=items - others - 1
        )
        found = estimate(read_log(log, replacement=False), names, estimators=["naive"]).frame
        return Result(found[["metric", "value", "standard_error", "users"]], self.settings)


@dataclass(frozen=True, eq=False, repr=False)
class Orders(Result):
    """What a published table says of each two methods.

    Examples
    --------
    >>> row = {"metric": "auc", "first": "A", "second": "B", "verdict": "unknown"}
    >>> Orders(pd.DataFrame([row | {"assumption": "", "warrant": ""}]))
    metric  verdict
    auc     A or B: unknown
    """

    @property
    def shown(self) -> pd.DataFrame:
        """The table as it is printed, with assumption and warrant beside the verdict."""
        table = self.frame.drop(columns=["first", "second", "assumption", "warrant"])
        rows = self.frame.to_dict("records")
        said = [_stands(row, f"{row['first']} or {row['second']}: unknown") for row in rows]
        return table.assign(verdict=said)


@dataclass(frozen=True, eq=False, repr=False)
class Published(Result):
    """What :func:`~sampled_metrics.published_tables.published` returns.

    Attributes
    ----------
    orders, checks : pandas.DataFrame
        What is known of each two methods, and whether each row can be; described there.

    Examples
    --------
    NDCG@5 is at least HR@1, whatever the sampled ranks are:

    >>> import sampled_metrics as sm
    >>> rows = pd.DataFrame({"method": ["A"], "HR@1": ["0.300"], "NDCG@5": ["0.250"]})
    >>> sm.published(rows, n_items=500, n_negatives=99, users=1_000, replacement=False)
    method  metric  printed  no assumption  decreasing  at most 4x  guess
    A       hit@1    0.3000
    A       ndcg@5   0.2500
    decreasing: assuming that deeper ranks have fewer users, down to the rank with 10 negatives
    above it on average
    at most 4x: moreover at most 4 times fewer from one doubling to the next
    ranges: proved, each under the assumption of its column
    guess: if the true ranks are as even as the printed numbers allow
    note: A: no list of sampled ranks has Hit@1 0.3 and NDCG@5 0.25 at once
    """

    orders: pd.DataFrame = field(default_factory=pd.DataFrame)
    checks: pd.DataFrame = field(default_factory=pd.DataFrame)

    @property
    def shown(self) -> pd.DataFrame:
        """The table as it is printed, with both ends of what is possible in one column."""
        table, at = self.frame.copy(), list(self.frame).index("low")
        steeper = f"at most {self.settings.get('steepness'):g}x" if "low_steep" in table else ""
        heads = {"": "no assumption", "_decreasing": "decreasing", "_steep": steeper}
        for end, head in heads.items():
            if f"low{end}" in table:
                ends = zip(table.pop(f"low{end}"), table.pop(f"high{end}"), strict=True)
                table.insert(at, head, [_finely(low, high) for low, high in ends])
                at += 1
        return table

    @property
    def sentences(self) -> list[str]:
        """How many orders of two methods are settled, by data set and metric."""
        if self.orders.empty:
            return []
        keys = [key for key in ("dataset", "metric") if key in self.orders]
        said = []
        for of, rows in self.orders.groupby(keys, sort=False):
            where = ", ".join(printable(str(key)) for key in of)
            settled = rows[rows["warrant"] != ""]
            groups = settled.groupby(["assumption", "warrant"], sort=False)
            counts = ", ".join(f"{len(part)} ({promise(*map(str, key))})" for key, part in groups)
            many = f"{len(settled)} of {len(rows)} orders of two methods settled"
            said.append(f"{where}: {many}" + (f": {counts}" if counts else ""))
        return said

    def summary(self) -> str:
        """The table, how many orders are known, and the notes, as the command line prints them."""
        said = "".join(map(_wrapped, self.sentences))
        if "assumed" in self.settings:
            words = [f"decreasing: assuming {self.settings['assumed']}"]
            if "steepness" in self.settings:
                fold = f"at most {self.settings['steepness']:g}"
                words.append(f"{fold}x: moreover {fold} times fewer from one doubling to the next")
            words.append(f"ranges: {PROVED}, each under the assumption of its column")
            words.append("guess: if the true ranks are as even as the printed numbers allow")
            said = "".join(map(_wrapped, words)) + said
        return formatted(self.shown) + said + _as_notes(self.notes)

    def plot(self, metric: str | None = None) -> Figure:
        """What is printed and what is possible for one metric, the first if none is named.

        Raises
        ------
        ValueError
            If the table has no such metric.
        ImportError
            If matplotlib is not installed.
        """
        from .metrics import metric as parsed
        from .report import html

        of = self.frame["metric"].iloc[0] if metric is None else parsed(metric).name
        rows = self.frame[self.frame["metric"] == of]
        if rows.empty:
            raise ValueError(f"metric must be one of the table, got {as_written(metric)}")
        return html.published_figure(rows, parsed(of).label)
