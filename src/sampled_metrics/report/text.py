"""Results as text: values, tables, and the sentences for each type of result.

A result is printed as sentences, a table, further sentences and its notes. `PRINTED`, at the end,
says which functions write these for each type of result, and in which order.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from .. import _printed_ranges
from .._confidence import (
    CONFIDENCE,
    LARGE_SAMPLE,
    NONE,
    OF_USERS,
    THEOREM,
    TRACK_RECORD,
    UNDECIDED,
    WHATEVER,
    WHATEVER_OF_USERS,
    Assumed,
    percent,
    promise,
)
from .._files import FORMATS
from .._validate import as_written, printable
from ..bounds.assumption import FEWER_USERS
from ..designs import track_record
from ..metrics import DEPTH_ERROR, Metric
from ..metrics import shown as metric
from ..results import ALL, Audit, Comparison, Estimates, Orders, Plan, Published, Result
from .paragraphs import paragraphs


def text(value: object) -> str:
    """A value as text: four decimals, thousands separated, nothing for a missing one.

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


def formatted(frame: pd.DataFrame, kind: str = "table") -> str:
    """A table as aligned columns, JSON, CSV (every digit) or Markdown.

    In JSON a missing or infinite number is null, since JSON has no other word for them.

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
        rows = [
            json.dumps({name: _plain(value) for name, value in row.items()}, allow_nan=False)
            for row in frame.astype(object).to_dict("records")
        ]
        return "[\n" + ",\n".join(rows) + "\n]\n"
    right = [is_number(column) for _, column in frame.items()]
    cells = [list(map(str, frame.columns)), *cells_of(frame)]
    return _markdown(cells, right) if kind == "markdown" else _aligned(cells, right)


def _markdown(cells: list[list[str]], right: list[bool]) -> str:
    rows = [[cell.replace("|", "\\|") for cell in row] for row in cells]
    rows.insert(1, ["---:" if is_right else ":---" for is_right in right])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _aligned(cells: list[list[str]], right: list[bool]) -> str:
    columns = []
    for column, is_right in zip(zip(*cells, strict=True), right, strict=True):
        width = max(map(len, column))
        columns.append([cell.rjust(width) if is_right else cell.ljust(width) for cell in column])
    return "".join("  ".join(row).rstrip() + "\n" for row in zip(*columns, strict=True))


def _plain(value: Any) -> Any:
    """A cell as JSON has it; None if it is missing or infinite."""
    value = value.item() if isinstance(value, np.generic) else value
    is_finite = not isinstance(value, float) or np.isfinite(value)
    return value if is_finite and value is not pd.NA and value is not pd.NaT else None


def cells_of(frame: pd.DataFrame) -> list[list[str]]:
    return [[text(value) for value in row] for row in frame.itertuples(index=False, name=None)]


def is_number(column: pd.Series) -> bool:
    return pd.api.types.is_numeric_dtype(column) and column.dtype != bool


def confidence_of(result: Result) -> str:
    """The confidence of a result as a percentage."""
    return percent(_confidence_of(result))


def _confidence_of(result: Result) -> float:
    return float(result.settings.get("confidence", CONFIDENCE))


def made_with(result: Result) -> str:
    """The settings on one line."""
    return ", ".join(f"{name} {text(value)}" for name, value in result.settings.items())


def estimates_table(result: Estimates) -> pd.DataFrame:
    """Each range in one column, its ends rounded outwards."""
    ranges = ["typical_low", "typical_high", "possible_low", "possible_high"]
    student = ["student_low", "student_high"]
    table = result.frame.drop(columns=["standard_error", *ranges, *student], errors="ignore")
    if "group" not in table:
        table = table.drop(columns="users")
    if "highest" in table:
        table.insert(
            list(table).index("assumption"), LARGE_SAMPLE, _ranges_of(result.frame, "student")
        )
        if np.allclose(table["highest"], table["reported"], atol=1e-12):
            table = table.drop(columns="highest")
    typical = _ranges_of(result.frame, "typical") if "typical_low" in result.frame else []
    if any(typical):
        table.insert(list(table).index("estimate") + 1, "typical", typical)
    heading = _heading(result.frame["warrant"], result)
    table.insert(list(table).index("assumption"), heading, _ranges_of(result.frame))
    return table


def range_promises(result: Estimates | Comparison, metric_name: str | None = None) -> list[str]:
    """Assumption and warrant of the ranges, of one metric or of all."""
    if "assumed" not in result.settings:
        return []
    grounds = grounds_of(result, metric_name, str)
    headings = {
        THEOREM: _interval(result),
        LARGE_SAMPLE: f"large sample at {confidence_of(result)}",
    }
    lines = [f"{headings[warrant]}{scope}: {condition}" for warrant, scope, condition in grounds]
    lines += assuming(result) if grounds else []
    if str(result.facts.get("negatives", "")).endswith("all of them"):
        are_for = "intervals" if isinstance(result, Estimates) else "verdicts and intervals"
        lines.append(
            "all candidates are ranked: the estimates are exact for these users, and the "
            f"{are_for} are for the population that these users were drawn from"
        )
    rows = _of_metric(result.frame, metric_name)
    if "typical_low" in rows and rows["typical_low"].notna().any():
        record = result.settings.get("typical")
        lines.insert(0, f"typical: {record or track_record.typical_promise()}")
    for name, part in result.by_metric().items() if isinstance(result, Comparison) else ():
        if part.frame["probability"].notna().any():
            scope = f" for {name}" if "metric" in rows else ""
            promised = track_record.verdict_promise(metric(name))
            lines.append(f"track record{scope}: {promised}")
    return lines


def _of_metric(frame: pd.DataFrame, metric_name: str | None) -> pd.DataFrame:
    is_whole = metric_name is None or "metric" not in frame
    return frame if is_whole else frame[frame["metric"] == metric_name]


#: What some ranges rest on: their warrant, " for" what rows if not for all, and their condition.
_Ground = tuple[str, str, str]


def grounds_of(
    result: Result, metric_name: str | None, written: Callable[[str], str]
) -> list[_Ground]:
    """What the ranges rest on, of one metric or of all; `written` writes the names of metrics."""
    if "assumed" not in result.settings:
        return []
    if isinstance(result, Comparison):
        grounds: dict[tuple[str, str], list[str]] = {}
        for name, part in result.by_metric().items():
            grounds.setdefault(_comparison_ground(part), []).append(written(name))
        return [
            (warrant, f" for {', '.join(names)}" if len(grounds) > 1 else "", condition)
            for (warrant, condition), names in grounds.items()
        ]
    return _estimate_grounds(result, metric_name, written) if "warrant" in result.frame else []


def _estimate_grounds(
    result: Result, metric_name: str | None, written: Callable[[str], str]
) -> list[_Ground]:
    rows = _of_metric(result.frame, metric_name)
    rows = rows[rows["warrant"] != ""]
    groups = rows.groupby(["assumption", "warrant"], sort=False)
    grounds = []
    for (assumption, warrant), part in groups:
        scope = "" if groups.ngroups == 1 else f" for {_rows_named(part, rows, written)}"
        condition = _condition(str(assumption), result.settings["assumed"])
        grounds.append((str(warrant), scope, condition))
    return grounds


def _comparison_ground(result: Comparison) -> tuple[str, str]:
    assumed, warrant = result.settings["assumed"], str(result.settings["warrant"])
    condition, has_theorem = _condition("", assumed), result.frame["warrant"] == THEOREM
    if warrant != LARGE_SAMPLE and has_theorem.any() and assumed.conditions:
        confidence, otherwise = confidence_of(result), ""
        if not has_theorem.all():
            otherwise = f"; without a verdict at {confidence} confidence, {condition}"
        condition = f"under the assumption named in the verdict{otherwise}"
    return warrant, condition


def assuming(result: Result) -> list[str]:
    """What else than an assumption on the ranks the ranges rest on."""
    conditions = result.settings["assumed"].conditions
    phrases = [f"that {condition}" for condition in conditions if condition != FEWER_USERS]
    return [f"assuming {'; '.join(phrases)}"] if phrases else []


def _condition(assumption: str, assumed: Assumed) -> str:
    """What ranges under an assumption of this name assume of the ranks."""
    is_assumed = FEWER_USERS in assumed.conditions
    if assumption == OF_USERS or (assumed.of_users and not is_assumed):
        return WHATEVER_OF_USERS
    return f"if {FEWER_USERS}" if is_assumed and assumption != NONE else WHATEVER


def without_grounds(result: Estimates | Comparison) -> str:
    """The table without the columns that sentences and promises include."""
    columns = ["assumption", "warrant", "verdict"]
    return formatted(shown(result).drop(columns=columns, errors="ignore"))


#: Columns of a comparison that another column or a sentence includes.
_INCLUDED = [
    *("first", "second", "standard_error", "student_low", "student_high"),
    *("possible_low", "possible_high", "assumption", "warrant", "favoured"),
    *(
        "probability",
        "probability_low",
        "detectable",
        "users_needed",
    ),
]


def verdict_sentences(result: Comparison) -> list[str]:
    """The verdict on each pair, and what would decide it."""
    unit = next((unit for unit in ("queries", "anchors") if unit in result.facts), "users")
    return [
        _comparison_sentence(row, metric(name), _confidence_of(result), unit)
        for name, part in result.by_metric().items()
        for row in part.frame.to_dict("records")
    ]


def _comparison_sentence(
    row: Mapping[Hashable, Any], compared_metric: Metric, confidence: float, unit: str
) -> str:
    scope = f"on {compared_metric.label}"
    if "group" in row:
        group = printable(row["group"])
        scope += f" for all {unit}" if group == ALL else f" in the group '{group}'"
    remedy = f"To decide with {percent(confidence)} confidence, {_remedy(row, unit)}."
    if row["verdict"] != UNDECIDED:
        sentence = f"{_verdict(row, confidence, scope)}."
        if row["warrant"] != TRACK_RECORD:
            return sentence
        return f"{sentence} {remedy}"
    hint, favoured = "", printable(row["favoured"])
    if favoured and np.isnan(row["probability"]):
        hint = f"; Student's paired interval favours {favoured} ({LARGE_SAMPLE})"
    elif favoured:
        hint = f"; {favoured} leads, {_recorded(row)}"
    sentence = f"{pair_name(row, 'or')} {scope}: {UNDECIDED}{hint}."
    if np.isnan(row["detectable"]):
        return sentence
    detectable = f"This log can detect differences above about {row['detectable']:.3f}."
    return f"{sentence} {detectable} {remedy}"


def _remedy(row: Mapping[Hashable, Any], unit: str) -> str:
    """What would decide the order of a pair, in words: users alone if the estimate is unbiased."""
    if not pd.isna(row["users_needed"]):
        needed = _printed_ranges.up_to_two_digits(row["users_needed"])
        return f"evaluate about {needed:,} {unit} like these"
    is_biased = unit == "users" and pd.isna(row["student_low"])
    return "rank all items" if is_biased else f"evaluate more {unit}"


def _recorded(row: Mapping[Hashable, Any]) -> str:
    """How often the record had such an order right, rounded down to whole percents."""
    share, low = (np.floor(100.0 * row[name] + 1e-9) for name in ("probability", "probability_low"))
    if np.isnan(low):
        return (
            f"right for these queries in {share:.0f}% of pairs with such a lead (thirteen models "
            "of retrieval, none neural, on seven collections)"
        )
    return (
        f"right in {share:.0f}% of such cases, averaged over {track_record.sources()} sources; "
        f"{low:.0f}% at the worst"
    )


def comparison_table(result: Comparison) -> pd.DataFrame:
    """One column for a pair, an estimate with its error, and an interval; others as they are."""
    frame = result.winner_first()
    rows = frame.to_dict("records")
    cells = frame[[name for name in frame if name not in _INCLUDED]].copy()
    column = len({"group", "metric"} & {*cells})
    cells.insert(column, "difference", [f"{row['first']} minus {row['second']}" for row in rows])
    cells["reported"] = [_signed(row["reported"]) for row in rows]
    cells["estimate"] = [
        ""
        if np.isnan(row["estimate"])
        else f"{_signed(row['estimate'])} ± {row['standard_error']:.4f}"
        for row in rows
    ]
    heading = _heading(pd.Series(result.settings.get("warrant", ""), result.frame.index), result)
    cells.insert(column + 3, heading, _ranges_of(frame, signed=True))
    if heading != LARGE_SAMPLE and frame["student_low"].notna().any():
        cells.insert(column + 3, LARGE_SAMPLE, _ranges_of(frame, "student", signed=True))
    cells["verdict"] = [_verdict(row, _confidence_of(result)) for row in rows]
    return cells


def plan_sentences(result: Plan) -> list[str]:
    """What reaches the right order of each pair."""
    groups = result.frame.groupby(["first", "second"], sort=False)
    return [_plan_sentence(result, rows) for _, rows in groups]


def _plan_sentence(result: Plan, rows: pd.DataFrame) -> str:
    settings, exact = result.settings, rows.iloc[-1]
    n_users, order_text = settings["n_users"], "the right order with probability "
    order_text += f"{settings['confidence']:g}"
    alternatives = [
        (row[f"scores_by_{resource}"], row["estimator"], users, negatives)
        for row in rows.iloc[:-1].to_dict("records")
        for resource, users, negatives in (
            ("negatives", n_users, row["negatives_needed"]),
            ("users", row["users_needed"], settings["n_negatives"]),
        )
        if not pd.isna(row[f"scores_by_{resource}"])
    ]
    if alternatives:
        scores, estimator, users, negatives = min(alternatives)
        sampled = (
            f"{users:,} users with {negatives:,} negative{'s' * (negatives > 1)} each reach "
            f"{order_text} ({estimator}, {scores:,} scores)"
        )
        if pd.isna(exact["users_needed"]) or users < exact["users_needed"]:
            sampled += ", but only because its bias favours the better recommender here"
    else:
        sampled = (
            f"up to {settings['max_negatives']:,} negatives for {n_users:,} users, or "
            f"{settings['n_negatives']:,} for any number of users, do not reach {order_text}"
        )
    ranking = f"takes {exact['users_needed']:,} users ({exact['scores_by_users']:,} scores)"
    if pd.isna(exact["users_needed"]):
        ranking = "does not reach it with any number of users"
    scope = f"{pair_name(exact.to_dict())} on {metric(settings['metric']).label}"
    return f"{scope}: {sampled}; ranking all items {ranking}."


def plan_table(result: Plan) -> pd.DataFrame:
    """The table without the scores, which the sentences name."""
    return result.frame.drop(columns=["scores_by_negatives", "scores_by_users"])


def plan_promises(result: Plan, metric_name: str | None = None) -> list[str]:
    """What the probabilities of a plan are about."""
    return [
        "right order: the better recommender has the higher estimate. Probabilities are for true "
        "ranks distributed as assumed; compare says what a verdict takes"
    ]


def alarm_sentences(result: Audit) -> list[str]:
    """The checks that raise an alarm."""
    opening = [f"alarm: {', '.join(result.alarms)}" if result.alarms else "no alarm"]
    if "positives" in result.settings:
        opening.append(
            "users' own items are not given (--positives): items raise the alarm only for what "
            "these cannot explain"
        )
    return opening


def audit_checks(result: Audit) -> str:
    """The checks without their findings."""
    return formatted(result.frame.drop(columns="finding"))


def audit_findings(result: Audit, metric_name: str | None = None) -> list[str]:
    """What each check found."""
    checks = result.frame.to_dict("records")
    return [printable(f"{row['check']}: {row['finding']}") for row in checks]


def orders_table(result: Orders) -> pd.DataFrame:
    """The order of each two methods of a published table, with its confidence and condition."""
    table = result.frame.drop(columns=["first", "second", "assumption", "warrant"])
    rows = result.frame.to_dict("records")
    return table.assign(verdict=[_verdict(row, _confidence_of(result), "") for row in rows])


def published_table(result: Published) -> pd.DataFrame:
    """The range under each assumption in one column."""
    table = result.frame.copy()
    if "depth" in table and table["depth"].isna().all():
        table = table.drop(columns="depth")
    column_index = list(table).index("low")
    headings = {
        "": "in full" if "proves" in table else "no assumption",
        "_decreasing": "decreasing",
    }
    for end, heading in headings.items():
        if f"low{end}" in table:
            ends = zip(table.pop(f"low{end}"), table.pop(f"high{end}"), strict=True)
            # Four digits without the zero in front, as papers print metrics.
            written = [" to ".join(x.removeprefix("0") for x in _printed_ranges.ends(low, high, 4))
                       if low == low else "" for low, high in ends]  # fmt: skip
            table.insert(column_index, heading, written)
            column_index += 1
    return table.drop(columns="proves", errors="ignore")


def order_counts(result: Published) -> list[str]:
    """How many pairs of methods are decided, by data set and metric."""
    orders = result.orders
    if orders.empty:
        return []
    keys = [key for key in ("dataset", "metric") if key in orders]
    lines = []
    for group_key, rows in orders.groupby(keys, sort=False):
        scope = ", ".join(printable(str(key)) for key in group_key)
        settled = rows[rows["warrant"] != ""]
        groups = settled.groupby(["assumption", "warrant"], sort=False)
        counts = ", ".join(
            f"{len(part)} ({promise(str(assumption), str(warrant), _confidence_of(result))})"
            for (assumption, warrant), part in groups
        )
        settled_text = f"the order of {len(settled)} of {len(rows)} pairs of methods is decided"
        lines.append(f"{scope}: {settled_text}" + (f": {counts}" if counts else ""))
    return lines


def published_promises(result: Published, metric_name: str | None = None) -> list[str]:
    """What each column assumes."""
    if "proves" in result.frame:
        return [f"{name}: {meaning}" for name, meaning in result.settings.items()]
    sizes = "all columns: assuming that each user has n_items candidates, or nearly as many"
    words = []
    if result.frame["depth"].notna().any():
        words.append(
            "depth: the published number measures the metric of all items at this cut-off, in "
            f"expectation to within {DEPTH_ERROR:.0%} on the benchmark"
        )
    if "assumed" not in result.settings:
        return [*words, sizes]
    words += [f"decreasing: assuming {result.settings['assumed']}"]
    words += [
        f"ranges: all ranges of a data set hold together with {confidence_of(result)} confidence, "
        "each under the assumption of its column",
        sizes,
        "guess: the value if the true ranks are distributed as evenly as the published numbers "
        "allow; all others in the ranges fit as well",
    ]
    if result.frame.filter(like="low").isna().any(axis=None):
        words.append(
            "an empty range: no ranks that the column allows give the published numbers; a note "
            "says why"
        )
    return words


def pair_name(row: Mapping[Hashable, Any], joint: str = "and") -> str:
    """Two recommenders' names, printable and on one line."""
    return f"{printable(str(row['first']))} {joint} {printable(str(row['second']))}"


def _verdict(row: Mapping[Hashable, Any], confidence: float, scope: str | None = None) -> str:
    """A verdict with its confidence and condition; with the pair if undecided and with a scope."""
    if row["verdict"] == UNDECIDED:
        pair = "" if scope is None else f"{pair_name(row, 'or')}: "
        return " ".join(filter(None, [f"{pair}{UNDECIDED}", scope]))
    named = " ".join(filter(None, [printable(row["verdict"]), scope]))
    is_by_record = row["warrant"] == TRACK_RECORD
    ground = (
        _recorded(row) if is_by_record else promise(row["assumption"], row["warrant"], confidence)
    )
    return f"{named} ({ground})"


def _interval(result: Result) -> str:
    return f"{confidence_of(result)} interval"


def _heading(warrants: pd.Series, result: Result) -> str:
    """The heading of intervals: their confidence, or "large sample" if all are by that."""
    distinct = {warrant for warrant in warrants if warrant}
    return LARGE_SAMPLE if distinct == {LARGE_SAMPLE} else _interval(result)


def _ranges_of(frame: pd.DataFrame, name: str = "possible", signed: bool = False) -> list[str]:
    ends = zip(frame[f"{name}_low"], frame[f"{name}_high"], strict=True)
    return [_printed_ranges.written(low, high, signed=signed) for low, high in ends]


def _rows_named(part: pd.DataFrame, rows: pd.DataFrame, written: Callable[[str], str]) -> str:
    """The metrics of some rows; with recommenders where not all are included."""
    names = []
    for metric_name, metric_rows in part.groupby("metric", sort=False):
        is_complete = len(metric_rows) == (rows["metric"] == metric_name).sum()
        labels = metric_rows["recommender"].map(str)
        if "group" in metric_rows:
            labels += " (" + metric_rows["group"] + ")"
        name = written(str(metric_name))
        names.append(name if is_complete else f"{name} of {', '.join(map(printable, labels))}")
    return ", ".join(names)


def _signed(value: float, digits: int = 4) -> str:
    """A difference with its sign, and zero without one; nothing if it is missing."""
    if np.isnan(value):
        return ""
    written = f"{value:+.{digits}f}"
    return written.replace("-", "\u2212") if float(written) else f"{0:.{digits}f}"


def _frame(result: Result) -> pd.DataFrame:
    return result.frame


def _nothing(result: Result, metric_name: str | None = None) -> list[str]:
    return []


def _table(result: Result) -> str:
    return formatted(shown(result).rename(columns={"printed": "published"}))


class Printed(NamedTuple):
    """What writes a type of result: a page's table, sentences, promises, and a terminal's table.

    `order` is that of a terminal.
    """

    shown: Callable[[Any], pd.DataFrame] = _frame
    sentences: Callable[[Any], list[str]] = _nothing
    promises: Callable[[Any, str | None], list[str]] = _nothing
    table: Callable[[Any], str] = _table
    order: tuple[str, str, str] = ("sentences", "table", "promises")


PRINTED: dict[type[Result], Printed] = {
    Estimates: Printed(shown=estimates_table, promises=range_promises, table=without_grounds),
    Comparison: Printed(comparison_table, verdict_sentences, range_promises, without_grounds),
    Plan: Printed(
        shown=plan_table,
        sentences=plan_sentences,
        promises=plan_promises,
        order=("sentences", "promises", "table"),
    ),
    Orders: Printed(shown=orders_table),
    Audit: Printed(sentences=alarm_sentences, promises=audit_findings, table=audit_checks),
    Published: Printed(
        published_table, order_counts, published_promises, order=("table", "promises", "sentences")
    ),
}


def printed(result: Result) -> Printed:
    return PRINTED.get(type(result), Printed())


def shown(result: Result) -> pd.DataFrame:
    """The table as a page shows it."""
    return printed(result).shown(result)


def sentences(result: Result) -> list[str]:
    """The main findings."""
    return printed(result).sentences(result)


def promises(result: Result, metric_name: str | None = None) -> list[str]:
    """Definitions, assumptions and warrants."""
    return printed(result).promises(result, metric_name)


def summary(result: Result, *, notes: bool = True) -> str:
    """A result as a terminal shows it."""
    parts = {
        "sentences": paragraphs(sentences(result)),
        "table": printed(result).table(result),
        "promises": paragraphs(promises(result)),
    }
    noted = [f"note: {note}" for note in result.notes] if notes else []
    return "".join(parts[name] for name in printed(result).order) + paragraphs(noted)


def as_text(result: Result, kind: str) -> str:
    """The summary without notes for the kind table; else the table alone."""
    if kind == "table":
        return summary(result, notes=False)
    return formatted(shown(result) if kind == "markdown" else result.frame, kind)
