"""Evaluations of the library RecBole: by its trainer, or from the scores of a batch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .._validate import as_written, real_scores
from ..numerics.arrays import fetched, on_host
from .candidates import judged_run

if TYPE_CHECKING:
    import pandas as pd


def recbole(
    trainer: Any, data: Any, *, recommender: str | None = None, **options: Any
) -> pd.DataFrame:
    """Evaluate a model of RecBole with its own trainer, and count negatives above for a log.

    Parameters
    ----------
    trainer : recbole.trainer.Trainer
        With any metrics and any topk.
    data : data loader of RecBole
        The validation or test data, with a mode such as uni100; mode full ranks all items.
    recommender : str, optional
        By default the model's name.
    **options
        For ``trainer.evaluate``, such as ``load_best_model=False``.

    Returns
    -------
    DataFrame
        As from :func:`from_scores`, with the columns instance (RecBole's row of the user) and
        n_items (the items that may be drawn as the user's negatives, and the relevant ones); user
        and item are the ids of the data files. RecBole stores scores by item, so that a negative
        drawn twice counts once. ``attrs["reported"]`` has what ``trainer.evaluate`` returned for
        the same negatives.

    Raises
    ------
    ValueError
        If negatives are drawn by popularity, or a score is NaN.

    See Also
    --------
    recbole_scores : From the scores of a batch, if you evaluate without the trainer.

    Notes
    -----
    Equal scores count as ties here. RecBole's top-k metrics break them in whatever order torch
    returns.

    Examples
    --------
    After RecBole's own ``create_dataset``, ``data_preparation`` and ``trainer.fit``:

    >>> rows = recbole(trainer, test_data)  # doctest: +SKIP
    >>> log = read_log(rows)  # doctest: +SKIP
    """
    import pandas as pd

    sampling = getattr(data, "neg_sample_args", None) or {}
    if sampling.get("distribution", "uniform") not in ("none", "uniform"):
        raise ValueError(
            f"data must have uniform negatives, got the distribution "
            f"{as_written(sampling['distribution'])}: set mode to uni100 or the like"
        )
    collector, dataset = trainer.eval_collector, data._dataset
    collect, batches, before = collector.eval_batch_collect, [], 0

    def keep(scores: Any, interaction: Any, positive_u: Any, positive_i: Any) -> None:
        nonlocal before
        users = on_host(interaction[dataset.uid_field])
        if users.size != len(scores):  # a row for each candidate, grouped by user
            users = pd.unique(users)
        counts = recbole_scores(scores, positive_u, positive_i)
        row = counts["user"].to_numpy()
        batches.append(counts.assign(user=users[row], instance=row + before))
        before += len(scores)
        collect(scores, interaction, positive_u, positive_i)

    collector.eval_batch_collect = keep
    try:
        reported = trainer.evaluate(data, **options)
    finally:
        collector.eval_batch_collect = collect
    frame = pd.concat(batches, ignore_index=True)
    frame["n_items"] = dataset.item_num - 1  # RecBole pads with item 0
    if hasattr(data._sampler, "datasets"):  # other samplers also draw the user's known items
        used_ids = data._sampler.used_ids
        relevant_items = frame.groupby("instance")["item"].agg(set)
        user = frame.groupby("instance")["user"].first()
        n_excluded = [
            len(used_ids[user_id] - items)
            for user_id, items in zip(user, relevant_items, strict=True)
        ]
        frame["n_items"] -= frame["instance"].map(pd.Series(n_excluded, relevant_items.index))
    for key, field in (("user", dataset.uid_field), ("item", dataset.iid_field)):
        frame[key] = dataset.id2token(field, frame[key].to_numpy())
    frame["recommender"] = recommender or trainer.config["model"]
    frame.attrs |= {"reported": dict(reported), "replacement": False}
    return frame


def recbole_scores(
    scores: Any, positive_u: Any, positive_i: Any, *, recommender: str = "recbole"
) -> pd.DataFrame:
    """Count negatives above from the scores of a batch in RecBole, with ties kept.

    Parameters
    ----------
    scores : array_like or tensor, shape (n_users, n_items)
        Minus infinity for items that are not candidates, as ``full_sort_scores`` returns them and
        as RecBole's collector receives them in full and in sampled evaluation.
    positive_u, positive_i : array_like or tensor of int, shape (n_relevant,)
        Row and column of each relevant item, as RecBole's data loaders return them.
    recommender : str

    Returns
    -------
    DataFrame
        As from :func:`from_scores`; user is the row and item the column. A negative drawn twice has
        one column and counts once.

    Raises
    ------
    ValueError
        If shapes do not match, a score is NaN, or a relevant item is not a candidate.

    See Also
    --------
    recbole : The same with RecBole's own trainer.
    sampled_metrics.read_log : Read the rows that this function returns.

    Examples
    --------
    >>> recbole_scores([[float("-inf"), 0.5, 0.7, 0.5]], [0], [1])
      recommender  user  item  n_better  n_tied  n_negatives
    0     recbole     0     1         1       1            2
    """
    import pandas as pd

    table = real_scores(fetched(scores))
    positives = [on_host(positive) for positive in (positive_u, positive_i)]
    are_indices = all(positive.ndim == 1 and positive.dtype.kind in "iu" for positive in positives)
    if not are_indices or positives[0].size != positives[1].size:
        raise ValueError("positive_u and positive_i must be lists of whole numbers, equally long")
    pairs = np.stack([positive.astype(np.int64) for positive in positives])
    if (pairs < 0).any() or (pairs >= np.array(table.shape)[:, None]).any():
        raise ValueError(
            f"positive_u and positive_i must be rows and columns of scores, of shape {table.shape}"
        )
    user, item = np.nonzero(table > -np.inf)
    rows = pd.DataFrame({"user": user, "item": item, "score": table[user, item]})
    rows["recommender"] = recommender
    relevant = pd.DataFrame(pairs.T, columns=["user", "item"]).drop_duplicates()
    return judged_run(rows, relevant, "scores")
