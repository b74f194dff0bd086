"""Counts of negatives above each relevant item, from a table of scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, overload

import numpy as np

from .._validate import as_written, shortened
from ..log.columns import item_of_user, labelled, refuse_twice, require_columns
from ..log.query_values import Retrieved, retrieved
from .candidates import KEY, checked_candidates, collapsed, count_above, flags

if TYPE_CHECKING:
    import pandas as pd

#: Fewest negatives, and users who lack one, and the share of users from which lists look retrieved.
_FEWEST, _MANY = 5, 0.2


@overload
def from_scores(
    rows: pd.DataFrame,
    *,
    duplicates: Literal["refuse", "keep", "collapse"] = "refuse",
    candidates: Literal["uniform"] | None = None,
    block: str | None = None,
) -> pd.DataFrame: ...


@overload
def from_scores(
    rows: pd.DataFrame,
    *,
    duplicates: Literal["refuse", "keep", "collapse"] = "refuse",
    candidates: Literal["retrieved"],
) -> Retrieved: ...


def from_scores(
    rows: pd.DataFrame,
    *,
    duplicates: Literal["refuse", "keep", "collapse"] = "refuse",
    candidates: Literal["uniform", "retrieved"] | None = None,
    block: str | None = None,
) -> pd.DataFrame | Retrieved:
    """Count how many negatives scored above each relevant item, from the scores of all candidates.

    Parameters
    ----------
    rows : DataFrame
        A row for each candidate of each user: columns user, item, score (higher is better, may be
        infinite) and relevant (True or 1 for held-out items, False or 0 for negatives); optionally
        recommender, and chosen (True or 1 for items of your choice that were all scored, such as
        a retriever's).
    duplicates : {"refuse", "keep", "collapse"}
        How to treat an item that appears twice among a user's candidates, as after drawing with
        replacement. "keep" counts every copy. "collapse" counts it once, like software that stores
        scores by item (NCF, RecBole); given their number, the distinct negatives are a sample
        without replacement. Neither counts a draw of the user's own relevant items as a negative:
        given their number, the other draws are uniform over the irrelevant items.
    candidates : {"uniform", "retrieved"}, optional
        How negatives came about: drawn uniformly, or the best of a retriever such as BM25, with
        the relevant items added. By default uniformly, unless the lists look retrieved.
    block : str, optional
        A column with the block of each user, if blocks partition the corpus at random, and each
        user is ranked among the items of its block.

    Returns
    -------
    DataFrame
        For :func:`~sampled_metrics.read_log`: a row for each relevant item with the columns
        recommender, user, item, n_better, n_tied and n_negatives (of the user; distinct ones after
        "collapse"). With chosen items, these counts are of the other negatives, n_chosen and
        n_chosen_better are those of the chosen ones, and ties are broken: the held-out item gets
        one random place among all items that score the same, by a fixed seed. Give the size of the
        catalogue to `read_log`. Except after "keep", ``attrs["replacement"]`` tells `read_log` that
        candidates are distinct.
        ``attrs["shared_negatives"]`` says whether users' negatives are nearly those of others.
        ``attrs["negatives"]`` has the number of different negatives, and of the draws of the most
        frequent one; `read_log` tests with them whether negatives are independent. A CSV file does
        not hold attrs. With ``candidates="retrieved"`` what :func:`~sampled_metrics.estimate`
        takes at once: on the whole corpus a metric is at most the reported one.

    Raises
    ------
    ValueError
        If a column, user or item is missing, a score is NaN or not a number, `relevant` is not 0 or
        1, an item appears twice under "refuse" or with two scores under "collapse", `duplicates` is
        unknown, a user has no relevant item, an item is both chosen and drawn, or so many users
        lack one negative that candidates may have been retrieved; or if blocks are no partition.

    See Also
    --------
    sampled_metrics.read_log : Read the rows that this function returns.

    Examples
    --------
    >>> import pandas as pd
    >>> rows = pd.DataFrame(
    ...     {"user": 7, "item": ["a", "b", "c", "c"], "score": [0.5, 0.9, 0.5, 0.5],
    ...      "relevant": [1, 0, 0, 0]}
    ... )
    >>> from_scores(rows, duplicates="collapse")[["item", "n_better", "n_tied", "n_negatives"]]
      item  n_better  n_tied  n_negatives
    0    a         1       1            2
    """
    import pandas as pd

    if duplicates not in ("refuse", "keep", "collapse"):
        raise ValueError(
            f"duplicates must be 'refuse', 'keep' or 'collapse', got {as_written(duplicates)}"
        )
    if not isinstance(rows, pd.DataFrame):
        raise ValueError(f"rows must be a data frame, got {type(rows).__name__}")
    table = checked_candidates(rows, "the table")
    if candidates not in (None, "uniform", "retrieved"):
        raise ValueError(
            f"candidates must be 'uniform' or 'retrieved', got {as_written(candidates)}"
        )
    if candidates == "retrieved":
        _refuse_without_relevant(table)
        return retrieved(table, "the table")
    if block is not None:
        return _in_blocks(rows, table, block)
    if "chosen" in rows:
        return _beside_chosen(table.assign(chosen=flags(rows, "chosen", "the table")), duplicates)
    counts = _counted(table, duplicates)
    if candidates is None:
        _refuse_retrieved(counts)
    return counts


def _in_blocks(rows: pd.DataFrame, table: pd.DataFrame, block: str) -> pd.DataFrame:
    """The counts of users within blocks that partition the items."""
    import pandas as pd

    require_columns(rows, [block], "the table")
    counts = _counted(table, "refuse")
    table = table.assign(block=np.asarray(labelled(rows, block, "the table")))
    items = table[["block", "item"]].drop_duplicates()
    if (is_repeated := items["item"].duplicated()).any():
        item = shortened(str(items.loc[is_repeated, "item"].iloc[0]))
        raise ValueError(
            f"blocks must partition the items, got {item} in several (of "
            f"{items['item'].nunique():,} items {is_repeated.sum():,} repeat): batches of "
            "interactions hold items by their popularity, and no estimate of all items follows"
        )
    of_user = table.groupby(KEY[:2], sort=False, observed=True)["block"]
    blocks, sizes = of_user.agg(["first", "nunique", "size"]), items["block"].value_counts()
    is_whole = blocks["size"].to_numpy() == sizes.reindex(blocks["first"]).to_numpy()
    if (blocks["nunique"] > 1).any() or not is_whole.all():
        user = blocks.index[(blocks["nunique"] > 1).to_numpy() | ~is_whole][0][1]
        raise ValueError(
            "each user must be ranked among all items of one block, got other items for user "
            f"{shortened(str(user))}"
        )
    counts.attrs = {"replacement": False}
    users = pd.MultiIndex.from_frame(counts[KEY[:2]])
    return counts.assign(block=blocks["first"].reindex(users).to_numpy())


def _refuse_retrieved(counts: pd.DataFrame) -> None:
    """Ask what the candidates are if many lists lack one, as if it were the relevant item."""
    users = counts.drop_duplicates(KEY[:2])["n_negatives"]
    is_fewer = users == users.min()
    is_odd = users.max() == users.min() + 1 > _FEWEST and is_fewer.sum() >= _FEWEST
    if is_odd and is_fewer.mean() >= _MANY:
        raise ValueError(
            f"candidates must be said, got {users.min():,} negatives of {is_fewer.sum():,} users "
            f"and {users.max():,} of the others, as if lists of {users.max():,} that a retriever "
            "found had the relevant item added where it was missing: say candidates='retrieved' "
            "if so, or candidates='uniform' if negatives were drawn at random"
        )


def _counted(table: pd.DataFrame, duplicates: str) -> pd.DataFrame:
    """The counts of checked rows."""
    if duplicates == "collapse":
        table = collapsed(table)
    if duplicates == "refuse":
        refuse_twice(table, KEY, "the table", ": say whether to keep or collapse duplicates")
    _refuse_without_relevant(table)
    if duplicates == "keep":  # a draw of the user's own relevant item is no negative
        held_out = table.loc[table["relevant"], KEY].assign(is_held_out=True)
        is_held_out = table.merge(held_out, on=KEY, how="left")["is_held_out"].notna().to_numpy()
        table = table[table["relevant"].to_numpy() | ~is_held_out]
    counts = count_above(table, "the table")
    if duplicates == "keep":
        del counts.attrs["replacement"]
    return counts


def _beside_chosen(table: pd.DataFrame, duplicates: str) -> pd.DataFrame:
    """The counts of the negatives and of the chosen items, with ties broken."""
    refuse_twice(table[table["relevant"]], KEY[:2], "the table", ": hold out one for each user")
    is_chosen = table.pop("chosen").to_numpy() & ~table["relevant"].to_numpy()
    twice = table[~is_chosen].merge(table[is_chosen], on=KEY)
    if len(twice):
        item = item_of_user(twice["user"].iloc[0], twice["item"].iloc[0])
        raise ValueError(f"a chosen item must not be drawn as a negative too, got {item}")
    if not (~is_chosen & ~table["relevant"].to_numpy()).any():
        raise ValueError(
            "the table must hold drawn negatives beside the chosen items, got none: say "
            "candidates='retrieved', by which a value of the whole corpus is at most the reported"
        )
    counts = _counted(table[~is_chosen], duplicates)
    chosen = _counted(table[is_chosen | table["relevant"].to_numpy()], "refuse")
    # A tied item is above with the quantile as probability, the held-out item's for both counts.
    rng = np.random.default_rng(0)
    quantile, names = rng.random(len(counts)), ["n_better", "n_tied", "n_negatives"]
    chosen = counts[KEY].merge(chosen, on=KEY, how="left", validate="1:1")[names]
    counts["n_better"] += rng.binomial(counts["n_tied"], quantile)
    counts["n_chosen_better"] = chosen["n_better"] + rng.binomial(chosen["n_tied"], quantile)
    counts["n_chosen"], counts["n_tied"] = chosen["n_negatives"], 0
    return counts


def _refuse_without_relevant(table: pd.DataFrame) -> None:
    """Refuse users without a relevant row, whose misses a metric would leave out."""
    users = table.groupby(KEY[:2], sort=False, observed=True)["relevant"].any()
    if users.any() and not users.all():
        name, user = users.index[~users.to_numpy()][0]
        raise ValueError(
            f"each user must have a relevant item among the candidates, got none for user "
            f"{shortened(str(user))} of {shortened(str(name))} ({(~users).sum():,} of "
            f"{len(users):,} users): if lists were cut at the best k, log all candidates, since a "
            "user whose item is missing is a miss; leave out users who have no held-out item"
        )
