"""Checks of what the papers say of other work: how large samples and catalogues are, what is known.

Sizes of catalogues are those of the data sets of the papers cited there; the claims list them.
"""

from __future__ import annotations

import re
from math import log10
from pathlib import Path

import numpy as np

from .finding import Finding, Printed, Trial, judge, judged, listed, read_list
from .study import REPRODUCED, expected_with

BIBLIOGRAPHY = Path(__file__).resolve().parents[3] / "book" / "references.bib"
UNITS = {"k": 1e3, "M": 1e6}


def _size(text: str) -> float:
    """Parse "17k" or "2M"."""
    return float(text.strip()[:-1]) * UNITS[text.strip()[-1]]


def catalogue_sizes(published: str, items: dict[str, int]) -> Finding:
    """Catalogues rounded as printed, as in "4k, 2M"; `items` says which data sets they are of."""
    claimed = read_list(published)
    unmatched = claimed.copy()
    for size in items.values():
        fits = [c for c in unmatched if Printed.parse(c[:-1]).rounds_from(size / UNITS[c[-1]])]
        if fits:
            unmatched.remove(fits[0])
    text = listed(items, ",")
    return judged(
        f"{text}; without one of ours: {', '.join(unmatched) or 'none'}",
        not unmatched,
        unsettled="it is of data sets of others, of which we have no count",
    )


def orders_of_magnitude(published: str, samples: dict[int, str]) -> Finding:
    """By how many orders of magnitude samples are smaller than catalogues, as in "2" or more.

    `samples` has the sizes of the catalogues, as in "4k, 2M", for each number of negatives.
    """
    ratios = [_size(n) / m for m, sizes in samples.items() for n in sizes.split(",")]
    least, claimed = log10(min(ratios)), int(published)
    text = f"{min(ratios):.0f} to {max(ratios):,.0f} times smaller, 10^{least:.1f} or more"
    return judge(
        Trial(text, least >= claimed),
        Trial(text, round(least) >= claimed, "orders of magnitude are rounded to whole numbers"),
    )


def usual_catalogue(published: str, sizes: str) -> Finding:
    """The median of the catalogues that the paper names, in words such as "tens of thousands"."""
    middle = float(np.median([_size(size) for size in sizes.split(",")]))
    words = {3: "thousands", 4: "tens of thousands", 5: "hundreds of thousands", 6: "millions"}
    magnitude = words[int(log10(middle))]
    return judged(f"median {middle:,.0f} of the sizes named: {magnitude}", magnitude == published)


def explored_before(published: str, year: int, others: list[str]) -> Finding:
    """Whether sampling during evaluation had been "explored" or "not explored" by a year.

    `others` are the works, in the book's bibliography, that look at what it does to results.
    """
    before = []
    for key in others:
        entry = BIBLIOGRAPHY.read_text(encoding="utf-8").partition(f"{{{key},")[2]
        authors, published_in = (
            re.findall(rf"^  {field}\s*=\s*\{{(.+)\}}", entry, re.MULTILINE)[0]
            for field in ("author", "year")
        )
        if int(published_in) < year:
            names = " and ".join(name.split()[-1] for name in authors.split(" and "))
            before.append(f"{names} ({published_in})")
    verdict = "explored" if before else "not explored"
    text = f"{verdict}, by {', '.join(before)}" if before else verdict
    return judged(
        text,
        verdict == published,
        note="What random decoys do to the values of metrics and to comparisons is its subject.",
        unsettled="it is said to the best of the authors' knowledge, which ours is no measure of",
    )


def same_set_up(published: str, listed: int, cell: str) -> Finding:
    """Whether Y's Recall@10 of Table 3 is that of so many negatives in the set-up of He et al.

    `listed` is how many negatives the list has that is published with the split.
    """
    printed = Printed.parse(cell)

    def trial(m: int, setting: str) -> Trial:
        value = 100 * expected_with(m, "Y", REPRODUCED, "recall@10")
        # Of 100 runs with a standard deviation of 0.22 the average is known to 0.02.
        fits = m == int(published) and printed.z(value, 0.022) < 3
        return Trial(f"Recall@10 of Y is {value:.2f} with {m} negatives", fits, setting)

    return judge(
        trial(listed, ""),
        trial(
            int(published),
            f"{published} negatives are drawn anew for each run, where the list published with the "
            f"split has {listed}, the same for all",
        ),
        note="Data and split are the same: ranks from them give Table 3.",
    )
