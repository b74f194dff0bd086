"""Metrics of each query that nobody has to correct: values by query, and lists of the whole corpus.

A list of the first k documents of the whole corpus has exact metrics at k and less. Where a
relevant document is not listed, its rank is beyond k: deeper metrics lie between the value with
that document at the end and the value with it right after the list.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from .._validate import FloatArray, IntArray, as_written, shortened
from ..metrics import Metric, OtherMetric, factors
from ..metrics import metric as parsed
from .columns import listed, meaning, refuse_twice
from .tables import files, loaded

if TYPE_CHECKING:
    import pandas as pd

#: Names of a column of data sets, and of a column that names the metric of each value.
_DATASETS, _LONG = {"dataset", "task", "task_name"}, {"metric", "measure"}
#: Names of a column of queries in Ragas and deepeval.
_QUESTIONS = ["user_input", "question", "input"]
_POOLED = (
    "most lists end with their last relevant document: if judged documents alone were listed, "
    "the whole corpus has others above them, and the values are too high"
)


@dataclass(frozen=True, eq=False)
class QueryValues:
    """Values of metrics for the queries that all systems answered.

    Attributes
    ----------
    queries : tuple of str
    values : mapping of metric name to mapping of system to ndarray, shape (queries,)
        The only key is "" if the caller names the metric.
    datasets : ndarray of int, shape (queries,), optional
        The data set of each query, as an index into `dataset_names`.
    notes : tuple of str
        What the reader left out.
    weights : ndarray of float, shape (queries,), optional
        What a query counts in the mean, 1 on average; by default all count the same.
    strata : ndarray of int, shape (queries,), optional
        The data sets that the weights balance.
    """

    queries: tuple[str, ...]
    values: Mapping[str, Mapping[str, FloatArray]] = field(repr=False)
    datasets: IntArray | None = None
    dataset_names: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    weights: FloatArray | None = field(default=None, repr=False)
    strata: IntArray | None = field(default=None, repr=False)
    #: What holds of all values, and of those that lie between two.
    note: ClassVar[str] = (
        "the values are exact for these queries; the intervals are for the population that the "
        "queries were drawn from"
    )
    between: ClassVar[str] = (
        "{} needs ranks beyond the end of a list: the value of these queries lies between its "
        "lowest and its highest"
    )
    #: What was ranked, if lists were given.
    ranked: ClassVar[str] = ""

    @property
    def systems(self) -> tuple[str, ...]:
        return tuple(next(iter(self.values.values())))

    def bounds(self, metric: Metric) -> dict[str, FloatArray]:
        """For each system the lowest and highest value of each query, shape (2, queries)."""
        if metric.name not in self.values and "" not in self.values:
            raise ValueError(
                f"metric must be one of {', '.join(self.values)}, got {metric.name}: the table has "
                "no other values"
            )
        of_metric = self.values.get(metric.name, self.values.get("", {}))
        return {name: np.array([values, values]) for name, values in of_metric.items()}

    def on(self, rows: IntArray) -> QueryValues:
        """Some of the queries."""
        return replace(
            self,
            queries=tuple(np.array(self.queries, dtype=object)[rows]),
            values={
                name: {system: values[rows] for system, values in by_system.items()}
                for name, by_system in self.values.items()
            },
            datasets=None,
        )

    def by_dataset(self) -> dict[str, QueryValues]:
        """The queries of each data set with two or more; empty if the table has one alone."""
        if self.datasets is None:
            return {}
        members = [np.flatnonzero(self.datasets == i) for i in range(len(self.dataset_names))]
        return {
            name: self.on(rows)
            for name, rows in zip(self.dataset_names, members, strict=True)
            if rows.size > 1
        }

    def mean_of_datasets(self) -> QueryValues:
        """All queries, weighted so that each data set counts the same."""
        assert self.datasets is not None
        sizes = np.bincount(self.datasets)
        weights = len(self.queries) / (sizes.size * sizes[self.datasets])
        return replace(self, datasets=None, weights=weights, strata=self.datasets)


@dataclass(frozen=True, eq=False)
class TopLists(QueryValues):
    """The first documents of the whole corpus for each query, in order.

    `values` is empty. `gains` has the relevance of all relevant documents of each query, above 0;
    `listed` for each system and query the ranks and the relevance of those that are listed, in
    order; `lengths` the documents listed.
    """

    gains: Sequence[FloatArray] = field(default=(), repr=False)
    listed: Mapping[str, Sequence[tuple[IntArray, FloatArray]]] = field(
        default_factory=dict, repr=False
    )
    lengths: Mapping[str, IntArray] = field(default_factory=dict, repr=False)
    ranked: ClassVar[str] = "first documents of the whole corpus"

    @property
    def systems(self) -> tuple[str, ...]:
        return tuple(self.listed)

    def bounds(self, metric: Metric) -> dict[str, FloatArray]:
        if metric.linear:
            raise ValueError(
                f"metric must look at the top of the list, got {metric.name}: what is not listed "
                "decides it"
            )
        bounds = {}
        for name, lists in self.listed.items():
            ends = np.empty((2, len(lists)))
            for query, (ranks, gains) in enumerate(lists):
                ends[:, query] = _ends(metric, ranks, gains, self.gains[query],
                                       int(self.lengths[name][query]))  # fmt: skip
            bounds[name] = ends
        return bounds


@dataclass(frozen=True, eq=False)
class Retrieved(TopLists):
    """Documents that a retriever chose, with all relevant ones: the others can only be above."""

    note: ClassVar[str] = (
        "candidates were retrieved, and not drawn: a value of the whole corpus is at most the "
        "reported one for these queries; only ranking the whole corpus gives more"
    )
    between: ClassVar[str] = ""
    ranked: ClassVar[str] = "documents of a retriever, and the relevant ones"

    def bounds(self, metric: Metric) -> dict[str, FloatArray]:
        return {
            name: np.array([np.zeros_like(high), high])
            for name, (_, high) in super().bounds(metric).items()
        }


def retrieved(candidates: pd.DataFrame, origin: str) -> Retrieved:
    """Scored candidates with their relevance; equal scores count as if a relevant item came first.

    `candidates` has the columns recommender, user, item, score and relevant.
    """
    names = {"recommender": "system", "user": "query", "item": "document", "relevant": "rel"}
    rows = candidates.rename(columns=names).sort_values("rel", ascending=False, kind="stable")
    judged = rows[rows["rel"]].drop_duplicates(["query", "document"])
    lists = top_lists(rows, judged, origin)
    notes = tuple(note for note in lists.notes if note != _POOLED)
    return Retrieved(**{**vars(lists), "notes": notes})


def _ends(
    metric: Metric, ranks: IntArray, gains: FloatArray, all_gains: FloatArray, length: int
) -> tuple[float, float]:
    """The value if no other relevant document follows, and if the others follow at once."""
    missing = np.sort(all_gains)[::-1].tolist()
    for gain in gains:
        missing.remove(gain)
    ordered = np.append(gains, missing)
    weights = factors(metric, ordered)
    terms = metric.unscaled(np.append(ranks, length + 1 + np.arange(len(missing))), weights)
    return float(terms[: ranks.size].sum()), float(terms.sum())


def top_lists(rows: pd.DataFrame, judged: pd.DataFrame, origin: str) -> TopLists:
    """Runs of the whole corpus, cut at some rank, with their judgements.

    `rows` has the columns system, query, document and score, `judged` query, document and rel.
    Equal scores keep the order of the rows.
    """
    refuse_twice(rows, ["system", "query", "document"], origin)
    ordered = rows.iloc[np.argsort(-rows["score"].to_numpy(float), kind="stable")]
    of_query = ordered.groupby(["system", "query"], sort=False, observed=True)
    sizes: Iterable[Any] = of_query.size().items()
    length_of = {(str(system), query): n for (system, query), n in sizes}
    gains = _gains(judged[judged["rel"] > 0])
    systems = [*dict.fromkeys(system for system, _ in length_of)]
    common = [query for query in gains if all((name, query) in length_of for name in systems)]
    if len(common) < 2:
        raise ValueError(
            f"{origin} must rank for 2 queries or more that have a relevant document in the qrels, "
            f"got {len(common)}"
        )
    n_others = len({query for _, query in length_of}.union(gains)) - len(common)
    notes = _left_out(len(common), n_others, "are in every run and have a relevant document")
    lists = _listed(ordered.assign(rank=of_query.cumcount() + 1), gains, systems, common)
    lengths = {name: np.array([length_of[name, query] for query in common]) for name in systems}
    all_gains = [np.array([*gains[query].values()]) for query in common]
    notes += _doubts(lists, lengths, all_gains)
    return TopLists(
        tuple(map(str, common)), {}, notes=notes, gains=all_gains, listed=lists, lengths=lengths
    )


def _left_out(n_queries: int, n_others: int, reason: str) -> tuple[str, ...]:
    """A note if queries are left out."""
    note = f"{n_queries:,} queries {reason}; {n_others:,} others are left out"
    return (note,) * bool(n_others)


def _gains(relevant: pd.DataFrame) -> dict[Any, dict[Any, float]]:
    """The relevance of the documents of each query."""
    gains: dict[Any, dict[Any, float]] = {}
    for query, document, gain in relevant[["query", "document", "rel"]].itertuples(index=False):
        gains.setdefault(query, {})[document] = float(gain)
    return gains


def _listed(
    ordered: pd.DataFrame,
    gains: Mapping[Any, Mapping[Any, float]],
    systems: Sequence[str],
    queries: Sequence[Any],
) -> dict[str, list[tuple[IntArray, FloatArray]]]:
    """The ranks of the relevant documents of each list, and their relevance."""
    found: dict[Any, list[tuple[int, float]]] = {
        (name, query): [] for name in systems for query in queries
    }
    is_candidate = ordered["document"].isin(
        {each for of_query in gains.values() for each in of_query}
    )
    columns = (ordered.loc[is_candidate, name] for name in ("system", "query", "document", "rank"))
    for system, query, document, rank in zip(*columns, strict=True):
        gain, key = gains.get(query, {}).get(document), (str(system), query)
        if gain is not None and key in found:
            found[key].append((rank, gain))
    return {
        name: [
            (np.array([rank for rank, _ in found[name, query]], dtype=np.int64),
             np.array([gain for _, gain in found[name, query]]))
            for query in queries
        ]
        for name in systems
    }  # fmt: skip


def _doubts(
    lists: Mapping[str, Sequence[tuple[IntArray, FloatArray]]],
    lengths: Mapping[str, IntArray],
    gains: Sequence[FloatArray],
) -> tuple[str, ...]:
    """A note if no list holds a relevant document, or most hold all, one of them at the end."""
    if not any(ranks.size for of_system in lists.values() for ranks, _ in of_system):
        return ("no list holds a relevant document: do run and qrels write ids alike?",)
    ends = [
        ranks.size == of_query.size and ranks[-1] == length
        for name, of_system in lists.items()
        for (ranks, _), length, of_query in zip(of_system, lengths[name], gains, strict=True)
    ]
    return (_POOLED,) * bool(np.mean(ends) > 0.5)


def named(name: object, tabular: Any, problem: ValueError) -> Metric:
    """The metric that a table of values by query has under a name that is not declared.

    A table with a column for each system may be of any metric, unless the name looks misspelt.
    """
    if isinstance(tabular, QueryValues):
        is_known = bool({name, ""} & {*tabular.values})
    else:
        names = [*tabular.columns] if hasattr(tabular, "columns") else _columns_of(tabular)
        is_long = bool(_LONG & {str(column).lower() for column in names})
        is_known = isinstance(name, str) and _may_be_values(names, {name}) and (
            is_long or name in names or not re.search("did you mean|cut-off", str(problem))
        )  # fmt: skip
    if not is_known:
        raise problem
    return OtherMetric(str(name))


def query_values(tabular: Any, metrics: Sequence[Metric]) -> QueryValues | None:
    """The values of a table by query, or None if it is another table.

    A long table has a column for the system and one for each metric, or columns metric and value; a
    wide one has a column for each system, and holds the only metric that was asked for.
    """
    names = [*tabular.columns] if hasattr(tabular, "columns") else _columns_of(tabular)
    if not _may_be_values(names, {metric.name for metric in metrics}):
        return None
    frame, origin = loaded(tabular, "the table")
    roles = _roles(names)
    frame = frame.mask(frame == "")  # a missing value in CSV
    tables = _tables(frame.rename(columns=roles), metrics, origin)
    has_datasets = "dataset" in roles.values()
    return None if _are_counts(tables) else _of_tables(tables, has_datasets, origin)


def _may_be_values(names: Sequence[Any], requested: set[str]) -> bool:
    """Whether a table with these columns is one by query, and no log."""
    meanings = [
        "user" if role == "query" else meaning(name) for name, role in _roles(names).items()
    ]
    is_log = "hit" in names or {*meanings} - {"user", "recommender", None}
    if meanings.count("user") != 1 or is_log:
        return False
    named = requested & {*_metrics_of(names, requested)}
    is_long = bool(_LONG & {str(name).lower() for name in names} or named)
    return is_long or ("recommender" not in meanings and len(requested) == 1)


def _metrics_of(names: Iterable[Any], requested: set[str]) -> dict[str, Any]:
    """The columns that are called like metrics, or as asked, by the name of the metric."""
    return {name: label for label in names if (name := _metric_name(label, requested)) is not None}


def _tables(
    frame: pd.DataFrame, metrics: Sequence[Metric], origin: str
) -> Mapping[str, pd.DataFrame]:
    """A table of queries by systems for each metric."""
    key = [name for name in ("dataset", "query") if name in frame]
    requested = {metric.name for metric in metrics}
    if _LONG & {str(name).lower() for name in frame}:
        return _of_long(frame, key, origin, requested)
    by_metric = _metrics_of(frame.columns, requested)
    if requested & {*by_metric}:
        return {name: _by_system(frame, key, column, origin) for name, column in by_metric.items()}
    refuse_twice(frame, key, origin)
    return {"": frame.set_index(key).select_dtypes("number")}


def _roles(names: Sequence[Any]) -> dict[Any, Any]:
    """What columns are called here; a question is a query that has no other column."""
    roles = {"user": "query", "recommender": "system"}
    is_asked = not any(meaning(name) == "user" for name in names)
    by_name = dict.fromkeys(_DATASETS, "dataset") | dict.fromkeys(is_asked * _QUESTIONS, "query")
    return {name: by_name.get(str(name).lower(), roles.get(meaning(name) or "", name))
            for name in names}  # fmt: skip


def _are_counts(tables: Mapping[str, pd.DataFrame]) -> bool:
    """Whether a wide table holds ranks or counts, or nothing."""
    numbers = next(iter(tables.values())).to_numpy(dtype=float)
    is_whole = bool((np.rint(numbers) == numbers).all())
    return "" in tables and (numbers.size == 0 or (is_whole and numbers.max() > 1))


def _of_long(
    frame: pd.DataFrame, key: list[str], origin: str, requested: set[str]
) -> dict[str, pd.DataFrame]:
    """A table of queries by systems for each metric that a column names."""
    column, value = (
        next((name for name in frame if str(name).lower() in choices), None)
        for choices in (_LONG, {"value", "score"})
    )
    if value is None:
        raise ValueError(f"{origin} must have a column value, got {listed(frame.columns)}")
    metric_names = frame[column].map(partial(_metric_name, requested=requested))
    if requested - {*metric_names}:
        raise ValueError(
            f"metric must be one of {origin}, got {', '.join(sorted(requested - {*metric_names}))} "
            f"and there {listed(frame[column].unique())}"
        )
    return {
        name: _by_system(frame[metric_names == name], key, value, origin)
        for name in metric_names.dropna().unique()
    }


def _columns_of(tabular: Any) -> list[Any]:
    """The columns of files; none of what is no file."""
    paths = None if tabular == "bundled" else files(tabular)
    if paths is None:
        return []
    with paths.opened() as table:
        return [*table.columns]


def _metric_name(name: object, requested: set[str]) -> str | None:
    """The name of a metric as we write it, if a column's name is one, or one that is asked for."""
    if name in requested:
        return str(name)
    try:
        return parsed(str(name)).name
    except ValueError:
        return None


def _by_system(frame: pd.DataFrame, key: list[str], value: Any, origin: str) -> pd.DataFrame:
    """Queries by systems."""
    rows = frame if "system" in frame else frame.assign(system="system")
    refuse_twice(rows, [*key, "system"], origin)
    values: pd.DataFrame = rows.set_index([*key, "system"])[value].unstack(sort=False)
    return values


def _of_tables(tables: Mapping[str, pd.DataFrame], has_datasets: bool, origin: str) -> QueryValues:
    """Checked values of the queries that have all of them."""
    import pandas as pd

    joint = pd.concat(tables, axis=1, join="outer")
    is_complete = joint.notna().all(axis=1)
    complete = joint[is_complete]
    if len(complete) < 2:
        raise ValueError(
            f"{origin} must have 2 queries or more with a value of every system, got "
            f"{len(complete)}"
        )
    numbers = complete.to_numpy(dtype=float)
    outside = (numbers < 0) | (numbers > 1) | ~np.isfinite(numbers)
    if outside.any():
        row, column = np.argwhere(outside)[0]
        raise ValueError(
            f"values must be in [0, 1], got {as_written(float(numbers[row, column]))} of "
            f"{shortened(str(complete.columns[column][1]))} in {origin}: divide percent by 100"
        )
    notes = _left_out(len(complete), int((~is_complete).sum()), "have a value of every system")
    codes, names = None, tuple[str, ...]()
    if has_datasets:
        codes, labels = pd.factorize(complete.index.get_level_values("dataset"))
        names = tuple(map(str, labels))
    return QueryValues(
        tuple(map(str, complete.index)),
        {
            name: {str(key): complete[name][key].to_numpy(dtype=float) for key in table.columns}
            for name, table in tables.items()
        },
        codes if len(names) > 1 else None,
        names,
        notes,
    )
