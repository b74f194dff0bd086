"""Groups of users by a column of a log, and the log of each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .._validate import as_intp, as_written, shortened
from .columns import key_of, labelled, refuse_first
from .compact import Log

if TYPE_CHECKING:
    import pandas as pd


def groups_of(frame: pd.DataFrame, by: str, origin: str) -> pd.Series:
    """The group of each user, by label; refuse gaps, and users with several groups."""
    import pandas as pd

    key = key_of(frame, by, origin)
    names = np.array([str(value) for value in key.values], dtype=object)[key.codes]
    row_groups = pd.Series(names, labelled(frame, "user", origin))
    groups = row_groups[~row_groups.index.duplicated()]
    first = groups.reindex(row_groups.index).to_numpy()
    refuse_first(
        names != first,
        origin,
        lambda row: (
            f"{by} must be the same in all rows of a user, since a user has one group, got "
            f"{as_written(first[row])} and {as_written(names[row])} for user "
            f"{shortened(str(row_groups.index[row]))}"
        ),
    )
    return groups.astype(pd.CategoricalDtype(list(dict.fromkeys(map(str, key.values))))).rename(by)


def by_group(log: Log) -> Iterator[tuple[str, Log]]:
    """The log of each group."""
    assert log.groups is not None
    for label in log.groups.cat.categories:
        yield label, selected(log, (log.groups == label).to_numpy())


def selected(log: Log, is_chosen: NDArray[np.bool_]) -> Log:
    """The log of some users, equal to a log that was read from their rows alone."""
    rows, sizes = [is_chosen] * len(log.codes), None
    if log.sizes is not None:
        rows = [np.repeat(is_chosen, as_intp(size)) for size in log.sizes]
        sizes = [size[is_chosen] for size in log.sizes]
    codes = [code[chosen] for code, chosen in zip(log.codes, rows, strict=True)]
    if sizes is not None and max(int(size.max(initial=0)) for size in sizes) <= 1:
        indices = [np.where(size > 0, size.cumsum(dtype=np.int64) - 1, -1) for size in sizes]
        codes = [
            np.append(code, code.dtype.type(0))[i] for code, i in zip(codes, indices, strict=True)
        ]
        sizes = None
    is_present = np.zeros(log.kinds["position"].size + 1, dtype=bool)
    is_present[np.concatenate(codes)] = True
    is_present[0] = False  # no row
    numbers = (np.cumsum(is_present) * is_present).astype(codes[0].dtype)
    return replace(
        log,
        users=np.asarray(log.users)[is_chosen],
        codes=[numbers[code] for code in codes],
        sizes=sizes,
        kinds={name: column[is_present[1:]] for name, column in log.kinds.items()},
        weights=None if log.weights is None else log.weights[is_chosen],
        exact_values={},
        groups=None,
    )
