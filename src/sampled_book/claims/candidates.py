"""Checks of what is said of LLMRank's candidate lists, and of its printed averages of NDCG."""

from __future__ import annotations

import pandas as pd

from sampled_metrics._confidence import CONFIDENCE

from ..experiments.candidates import add_share_ranked, bundled_lists, published_table
from .finding import Finding, Trial, judge, judged, read_list


def _count(text: str) -> int:
    return int(text.replace(",", ""))


def users_listed(published: str, name: str) -> Finding:
    """How many different lists the users have."""
    users = bundled_lists()[name]["users"]
    return judged(f"{users:,} users with a list", users == _count(published))


def drawn_at_random(published: str, name: str, level: float = 1.0 - CONFIDENCE) -> Finding:
    """Whether a list has so many candidates, drawn uniformly from all items without replacement.

    No list may have an item twice, and the test of uniformity may not raise the alarm at `level`.
    """
    summary = bundled_lists()[name]
    p_value = summary["audit"]["items"]
    text = (
        f"{summary['listed']} candidates, {summary['repeated']:,} of them twice in a list, "
        f"p-value of uniformity {p_value:.2g}"
    )
    uniform = p_value > level
    size_agrees = summary["listed"] == _count(published)
    return judged(text, size_agrees and uniform and not summary["repeated"])


def ranked_among(published: str, picture: str) -> Finding:
    """Whether a picture's averages can be of lists of so many, each with its test item in it.

    Otherwise some test items had no rank, and they can be if these count as 0.
    """
    averages = add_share_ranked(published_table().query("picture == @picture"))
    averages.index = pd.Index(averages["method"] + " on " + averages["dataset"])
    columns = {k: f"NDCG@{k}" for k in (1, 5, 10, 20)}
    last_cutoff = max(k for k in columns if k <= _count(published))
    is_longer = any(
        (averages[columns[k]] != averages[columns[last_cutoff]]).any()
        for k in columns
        if k > last_cutoff
    )
    is_possible = not is_longer and not (averages["least"] > 1).any()
    incomplete = averages.loc[averages["most"] < 1, "most"]
    text = "every test item may have had a rank"
    if is_longer:
        text = f"some ranks are beyond {published}"
    elif len(incomplete):
        rows = ", ".join(f"{row} {share:.0%}" for row, share in incomplete.items())
        text = f"of the test items at most so many had a rank: {rows}"
    return judge(
        Trial(text, is_possible and incomplete.empty),
        Trial(text, is_possible, "a test item that an answer leaves out counts as 0"),
        note="The published code ranks what an answer leaves out behind all items.",
    )


def challenged(published: str, picture: str, method: str, others: list[str]) -> Finding:
    """Which of the others a method leads by some printed average on every data set."""
    rows = published_table().query("picture == @picture").set_index(["dataset", "method"])
    values = rows.filter(like="NDCG").apply(lambda column: column.str.rstrip("%").astype(float))
    method_values = values.xs(method, level="method")
    led = [
        rival
        for rival in others
        if (method_values > values.xs(rival, level="method")).any(axis=1).all()
    ]
    return judged(f"ahead of {', '.join(led) or 'none'}", led == read_list(published))
