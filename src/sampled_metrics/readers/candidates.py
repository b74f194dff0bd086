"""Checks and counts of candidates with scores, shared by all readers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .._validate import IntArray, as_written, shortened
from ..log.columns import item_of_user, labelled, refuse_first, refuse_twice, require_columns
from ..log.inspection import drawn

if TYPE_CHECKING:
    import pandas as pd

KEY = ["recommender", "user", "item"]
_LOG_ALL = "without its score its rank is unknown, so log all candidates"


def checked_candidates(rows: pd.DataFrame, origin: str) -> pd.DataFrame:
    """The rows, checked: recommender, user and item as categories, score, relevant as bool."""
    import pandas as pd

    require_columns(rows, ["user", "item", "score", "relevant"], origin)
    columns: dict[str, Any] = {
        key: _coded(rows, key, origin) for key in ("recommender", "user", "item")
    }
    columns["score"] = real_column(rows, "score", origin)
    columns["relevant"] = flags(rows, "relevant", origin)
    return pd.DataFrame(columns)


def flags(rows: pd.DataFrame, name: str, origin: str) -> NDArray[np.bool_]:
    """A column of truth values, or of 0 and 1."""
    values = real_column(rows, name, origin)
    refuse_first(
        ~np.isin(values, (0, 1)),
        origin,
        lambda row: f"{name} must be 0 or 1, got {as_written(rows[name].iloc[row])}",
    )
    return np.asarray(values == 1)


def _coded(rows: pd.DataFrame, key: str, origin: str) -> pd.Categorical[Any]:
    """A label column as a categorical, which sorts and joins faster."""
    import pandas as pd

    if key in rows and isinstance(rows[key].dtype, pd.CategoricalDtype):
        categorical = rows[key].cat
        is_text = all(isinstance(label, str) and label.strip() for label in categorical.categories)
        if is_text and (categorical.codes >= 0).all():
            return pd.Categorical(rows[key])
        rows = rows[[key]].astype(object)
    codes, labels = pd.factorize(np.asarray(labelled(rows, key, origin)))
    return pd.Categorical.from_codes(codes, pd.Index(labels))


def collapsed(table: pd.DataFrame) -> pd.DataFrame:
    """The rows without duplicates of an item; a relevant row wins over a negative."""
    n_scores = table.groupby(KEY, sort=False, observed=True)["score"].nunique()
    if (n_scores > 1).any():
        name, user, item = n_scores.index[n_scores > 1][0]
        raise ValueError(
            f"an item must have one score, got {n_scores.max()} for {item_of_user(user, item)} by "
            f"{shortened(str(name))}"
        )
    return table.sort_values("relevant", ascending=False, kind="stable").drop_duplicates(KEY)


def count_above(table: pd.DataFrame, origin: str) -> pd.DataFrame:
    """Count the negatives above and equal for each relevant row, in the order of the table."""
    import pandas as pd

    if not table["relevant"].any():
        raise ValueError(f"{origin} must hold a relevant item, got none")
    group = pd.factorize(_pairs_of(table, "recommender", "user"))[0]
    score = table["score"].to_numpy()
    if score.dtype.kind != "f":
        score = np.unique(score, return_inverse=True)[1]  # exact for large integers
    order = np.arange(group.size)
    is_descending = (score[1:] <= score[:-1]) | (group[1:] > group[:-1])
    if not (is_descending & (group[1:] >= group[:-1])).all():  # sorted lists skip the sort
        order = np.lexsort((-score, group))
        group, score = group[order], score[order]
    is_negative = ~table["relevant"].to_numpy()[order]
    before = np.concatenate(([0], np.cumsum(is_negative)))  # negatives before each row
    starts_group = np.append(True, group[1:] != group[:-1])
    starts_level = starts_group | np.append(True, score[1:] != score[:-1])
    first, level = (np.flatnonzero(is_start) for is_start in (starts_group, starts_level))
    relevant_rows = np.flatnonzero(~is_negative)
    groups, levels = (
        np.cumsum(is_start)[relevant_rows] - 1 for is_start in (starts_group, starts_level)
    )
    level_ends, group_ends = np.append(level[1:], len(table)), np.append(first[1:], len(table))
    counts = {
        "n_better": before[level][levels] - before[first][groups],
        "n_tied": before[level_ends][levels] - before[level][levels],
        "n_negatives": before[group_ends][groups] - before[first][groups],
    }
    keys = {key: np.asarray(table[key].array[order[relevant_rows]]) for key in KEY}
    frame = pd.DataFrame(keys | counts)
    frame.attrs["replacement"] = False  # repeated items are refused or removed, see `from_scores`
    frame.attrs |= _shown(table, order, group)
    return frame


def _shown(table: pd.DataFrame, order: IntArray, group: IntArray) -> dict[str, Any]:
    """What the negatives show of how they were drawn, for `read_log`: of all recommenders."""
    is_negative = ~table["relevant"].to_numpy()[order]
    item = table["item"].cat.codes.to_numpy()[order].astype(np.int64)
    recommender = table["recommender"].cat.codes.to_numpy()[order]
    shown, is_shared = [], False
    for code in np.unique(recommender):
        is_drawn = is_negative & (recommender == code)
        seen, is_alike = drawn(group[is_drawn], item[is_drawn])
        shown.append(seen)
        is_shared |= is_alike
    return {
        "shared_negatives": is_shared,
        "negatives": [
            min(seen.n_distinct for seen in shown), max(seen.most_often for seen in shown)
        ],
    }  # fmt: skip


def _pairs_of(table: pd.DataFrame, first: str, second: str) -> IntArray:
    """A unique number for each pair of labels in two categorical columns."""
    first_labels, second_labels = table[first].cat, table[second].cat
    numbers: IntArray = (
        first_labels.codes.to_numpy(np.int64) * len(second_labels.categories)
        + second_labels.codes.to_numpy()
    )
    return numbers


def judged_run(rows: pd.DataFrame, relevant: pd.DataFrame, origin: str) -> pd.DataFrame:
    """Counts of a run, after checking that it contains every relevant item of its users."""
    import pandas as pd

    if relevant.empty:
        raise ValueError(f"there must be a relevant item to rank in {origin}, got none")
    table = checked_candidates(rows.assign(relevant=False), origin)
    pairs, judged = _pairs_of(table, "user", "item"), _pairs_in(table, relevant)
    table["relevant"] = pd.Series(pairs).isin(judged).to_numpy()
    run = table["recommender"].cat
    for code, name in enumerate(run.categories):
        run_pairs = pairs if len(run.categories) == 1 else pairs[run.codes.to_numpy() == code]
        is_missing = ~pd.Series(judged).isin(run_pairs).to_numpy()
        if is_missing.any() and run_pairs.size:
            user, item = relevant[["user", "item"]].iloc[int(np.argmax(is_missing))]
            raise ValueError(
                f"{origin} must hold every relevant item, got none of {item_of_user(user, item)} "
                f"({is_missing.sum()} of {len(judged)} are missing for {shortened(str(name))}): "
                + (_other_type(table, user, item) or _LOG_ALL)
            )
    if len(run.categories) > 1 or not pd.Index(pairs).is_unique:
        refuse_twice(table, KEY, origin)
    return count_above(table, origin)


def scored_candidates(
    rows: pd.DataFrame, candidates: pd.DataFrame, origin: str, unscored: str
) -> pd.DataFrame:
    """Scores of the wanted candidates by each recommender, minus infinity if unscored."""
    import pandas as pd

    table = checked_candidates(rows.assign(relevant=False), origin)
    refuse_twice(table, KEY, origin)
    tables = []
    for name, run in table.groupby("recommender", sort=False, observed=True):
        pairs, candidate_pairs = _pairs_of(run, "user", "item"), _pairs_in(run, candidates)
        score = pd.Series(run["score"].to_numpy(), pairs).reindex(candidate_pairs)
        is_unscored = ~pd.Series(candidate_pairs).isin(pairs).to_numpy()
        if is_unscored.any():
            user, item = candidates.iloc[int(np.argmax(is_unscored))]
            lacks = f"got none of {item_of_user(user, item)} by {shortened(str(name))}"
            hint = _other_type(run, user, item)
            if hint or unscored == "refuse":
                raise ValueError(
                    f"{origin} must hold every candidate, {lacks} ({is_unscored.sum()} of "
                    f"{len(candidates)} are missing): "
                    + (hint or "ask for as many items as there are, or say unscored='tied last'")
                )
            _refuse_cut(run, candidates["user"][is_unscored], origin)
            score = score.astype(np.float64).mask(is_unscored, -np.inf)
        tables.append(candidates.assign(recommender=name, score=score.to_numpy()))
    return pd.concat(tables, ignore_index=True)


def _refuse_cut(run: pd.DataFrame, unscored_users: pd.Series, origin: str) -> None:
    """Refuse lists cut at the same length: items beyond the cut have scores we do not know."""
    import pandas as pd

    lengths = run["user"].value_counts()
    longest = int(lengths.max())
    list_lengths = lengths.reindex(pd.unique(unscored_users), fill_value=0)
    if run["item"].nunique() > longest and 2 * (list_lengths == longest).sum() >= list_lengths.size:
        raise ValueError(
            f"{origin} must hold what the model scored, got lists that were cut at {longest} "
            "items: an item beyond has a score, so ask for as many items as there are"
        )


def _pairs_in(table: pd.DataFrame, pairs: pd.DataFrame) -> IntArray:
    """The numbers of pairs (user, item) as in `_pairs_of`; -1 if not in the table."""
    import pandas as pd

    user, item = (
        table[key].cat.categories.get_indexer(pd.Index(np.asarray(pairs[key])))
        for key in ("user", "item")
    )
    numbers = user.astype(np.int64) * len(table["item"].cat.categories) + item
    return np.where((user < 0) | (item < 0), -1, numbers)


def _other_type(table: pd.DataFrame, user: object, item: object) -> str:
    """A hint if an id is present with another type, such as 1 and "1"."""
    for key, value in (("user", user), ("item", item)):
        labels = table[key].cat.categories
        if value not in labels and str(value) in labels.astype(str):
            id_type = "text" if isinstance(value, str) else "numbers"
            return (
                f"the ids of its {key}s are of another kind, and {id_type} in the relevant items: "
                "make both the same"
            )
    return ""


def real_column(frame: pd.DataFrame, key: str, origin: str) -> NDArray[Any]:
    """A column of numbers without NaN; whole numbers stay exact."""
    import pandas as pd

    column = frame[key]
    try:
        values = pd.to_numeric(column, errors="coerce")
    except OverflowError:  # a whole number too large for floats
        in_range = column.map(lambda value: None if _beyond(value) else value)
        values = pd.to_numeric(in_range, errors="coerce")
    if values.dtype.kind in "iu" and not values.hasnans:
        return values.to_numpy()
    if values.dtype.kind == "c":
        raise ValueError(f"{key} must be a number, got {as_written(column.iloc[0])} in {origin}")
    numbers = values.to_numpy(dtype=np.float64, na_value=np.nan)
    refuse_first(
        np.isnan(numbers),
        origin,
        lambda row: f"{key} must be a number, got {as_written(column.iloc[row])}",
    )
    return numbers


def _beyond(value: object) -> bool:
    """Whether a whole number is too large for a float."""
    return isinstance(value, int) and abs(value) > 2**1023


def nested(mapping: Any, name: str, value: str) -> pd.DataFrame:
    """Rows of a mapping of user to mapping of item to value."""
    import pandas as pd

    table = mapping.to_dict() if hasattr(mapping, "to_dict") else mapping
    if not isinstance(table, Mapping):
        raise ValueError(
            f"{name} must map each query to a mapping of documents, got {type(mapping).__name__}"
        )
    table = {user: _valued(documents, name, user) for user, documents in table.items()}
    rows = pd.DataFrame(
        [(user, item) for user, value_by_item in table.items() for item in value_by_item],
        columns=["user", "item"],
    )
    numbers = [number for value_by_item in table.values() for number in value_by_item.values()]
    rows[value] = pd.Series(numbers, dtype=object)  # pandas 2 refuses numbers too large for floats
    return rows


def _valued(documents: Any, name: str, query: object) -> Mapping[Any, Any]:
    """Documents with their values: those of a list of a run fall from the first on, else 1 each."""
    if isinstance(documents, Mapping):
        return documents
    if name == "run" and isinstance(documents, (list, tuple)):
        if any(isinstance(document, Mapping | list) for document in documents):
            raise ValueError(f"run must list ids of documents, got {as_written(documents[0])}")
        if len(set(documents)) < len(documents):
            raise ValueError(f"run must rank a document once, got one twice for query {query}")
        return {document: -rank for rank, document in enumerate(documents)}
    if name == "qrels" and isinstance(documents, (set, frozenset, list, tuple)):
        return dict.fromkeys(documents, 1)
    if name == "qrels" and isinstance(documents, (str, int)):
        return {documents: 1}
    raise ValueError(
        f"{name} must map each query to a mapping of documents, got {type(documents).__name__} "
        f"for query {shortened(str(query))}"
    )
