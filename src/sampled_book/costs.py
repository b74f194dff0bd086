"""What an evaluation says of a metric for the same number of scores, exact or sampled."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from sampled_metrics import Metric
from sampled_metrics.relevant_sets import RelevantSets


def at_equal_cost(sets: Mapping[str, RelevantSets], of: Metric, n_decoys: int) -> pd.DataFrame:
    """Errors of ranking all items for some users, and of sampling decoys for all of them.

    Both estimate the mean of the exact metric over the users of a study, with as many scores.

    Parameters
    ----------
    sets : mapping of str to RelevantSets
        The test items of the same users, by recommender.
    of : Metric
    n_decoys : int
        m, drawn without replacement, for each user; at most as many as there are.

    Returns
    -------
    pandas.DataFrame
        A row for each recommender: recommender, users (whose items can all be scored instead of
        the decoys and test items of all of them), exact (the mean itself), exact_error (root mean
        square error of the mean over so many users, drawn without replacement), sampled (the
        expected sampled metric), and sampled_error (its root mean square error, bias included, as
        an estimate of the exact one).

    Raises
    ------
    ValueError
        If the scores do not suffice for all items of one user.

    Examples
    --------
    Two users with one test item each and 1,000 other items, of which 3 and 15 are better. The items
    of one user take 1,001 scores, and the samples of both 1,002:

    >>> import sampled_metrics as sm
    >>> zero, n = np.zeros((2, 1), int), np.array([1000, 1000])
    >>> one = RelevantSets(np.array([[3], [15]]), zero, zero, n)
    >>> found = at_equal_cost({"A": one}, sm.metric("recall@10"), 500).round(3)
    >>> found[["users", "exact", "exact_error", "sampled", "sampled_error"]].to_numpy().tolist()
    [[1.0, 0.5, 0.5, 0.925, 0.461]]
    """
    rows = []
    for name, places in sets.items():
        relevant = places.n_better.shape[1]
        drawn = np.minimum(n_decoys, places.n_irrelevant)
        exact, expected = places.evaluate(of), places.expected(of, drawn)
        scores = int((drawn + relevant).sum())
        users = min(round(scores / float(np.mean(places.n_irrelevant + relevant))), len(drawn))
        if users < 1:
            raise ValueError(
                f"n_decoys must be more to pay for all items of one user, got {n_decoys}"
            )
        n = exact.size
        spread = float(exact.var(ddof=1)) if n > 1 else 0.0
        bias = float(expected.mean() - exact.mean())
        noise = float(places.variance(of, drawn).mean()) / n
        rows.append(
            {
                "recommender": name,
                "users": users,
                "exact": float(exact.mean()),
                "exact_error": np.sqrt(spread / users * (1 - users / n)),
                "sampled": float(expected.mean()),
                "sampled_error": np.sqrt(bias**2 + noise),
            }
        )
    return pd.DataFrame(rows)
