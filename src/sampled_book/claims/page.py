"""How the ledger shows claims: MyST text in cards, which a phone shows as well as a screen."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import groupby

import pandas as pd

from . import Claim, Source
from .finding import CONTRADICTED, NOT_HERE, REPRODUCED, UNSTATED, Z_LIMIT, Distance, Finding

#: Short names of the papers; the page says once what they stand for.
PAPERS = {
    "krichene2020": "KDD 2020",
    "krichene2022": "CACM 2022",
    "rendle2019": "arXiv 2019",
    "ekstrand2017": "FLAIRS 2017",
    "zhou2020": "CIKM 2020",
    "hou2024": "ECIR 2024",
    "dallmann2021": "RecSys 2021",
    "petrov2022": "RecSys 2022",
}
#: Statuses as a card shows them.
LABELS = {
    CONTRADICTED: "Contradicted",
    NOT_HERE: "Not reproduced here",
    UNSTATED: "Reproduced under an unstated setting",
    REPRODUCED: "Reproduced",
}

Findings = Mapping[str, Finding]


class Shown:
    """MyST text, rendered by a notebook."""

    def __init__(self, text: str) -> None:
        self.text = text

    def _repr_markdown_(self) -> str:
        return self.text


def cards(claims: Iterable[Claim], findings: Findings) -> Shown:
    """A card for each claim: the claim, the published and our value, status, and source."""
    return Shown("\n\n".join(_card(claim, findings[claim.id]) for claim in claims))


def by_setting(claims: Iterable[Claim], findings: Findings) -> Shown:
    """Claims that need a setting which the source does not state.

    First those with a setting of their own, then the others, folded by setting.
    """
    groups: dict[str, list[Claim]] = {}
    for claim in claims:
        groups.setdefault(findings[claim.id].setting, []).append(claim)
    single_claims = [group[0] for group in groups.values() if len(group) == 1]
    folds = [
        _fold(f"{_sentence(setting)} ({_count(group)})", group, findings, named=False)
        for setting, group in sorted(groups.items(), key=lambda item: -len(item[1]))
        if len(group) > 1
    ]
    return Shown("\n\n".join([cards(single_claims, findings).text, *folds]))


def by_section(claims: Iterable[Claim], findings: Findings) -> Shown:
    """The claims folded by paper and section."""
    papers = list(PAPERS)

    def section(claim: Claim) -> tuple[int, list[str]]:
        return papers.index(claim.source.key), claim.source.section.split(".")

    folds = []
    for (paper, numbers), part in groupby(sorted(claims, key=section), key=section):
        group = list(part)
        title = f"{PAPERS[papers[paper]]}, {_section('.'.join(numbers))} ({_count(group)})"
        folds.append(_fold(title, group, findings))
    return Shown("\n\n".join(folds))


def distances_by_table(claims: Iterable[Claim], findings: Findings) -> pd.DataFrame:
    """Counts of distances beyond 2 and 3, found and by chance, by table or figure and of all."""
    groups: dict[str, list[Distance]] = {}
    for claim in claims:
        if findings[claim.id].distances:
            column = claim.args.get("column")
            table = claim.source.place.partition(",")[0]
            part = "" if column is None else ", un" if column == "uncorrected" else ", "
            exact = ", exact" if claim.check == "movielens.exact_cell" else ""
            name = table + (f"{part}corrected" if part else exact)
            groups.setdefault(name, []).extend(findings[claim.id].distances)
    groups["all"] = [distance for group in groups.values() for distance in group]
    return pd.DataFrame(
        [
            {
                "where": name,
                "number": len(group),
                "> 2": sum(d.z > 2 for d in group),
                "by chance": sum(d.beyond_2 for d in group),
                "> 3": sum(d.z > Z_LIMIT for d in group),
                "by chance, > 3": sum(d.beyond_3 for d in group),
            }
            for name, group in groups.items()
        ]
    )


def _fold(title: str, claims: list[Claim], findings: Findings, named: bool = True) -> str:
    inside = "\n\n".join(_card(claim, findings[claim.id], named) for claim in claims)
    return f"````{{admonition}} {title}\n:class: dropdown\n\n{inside}\n````"


def _card(claim: Claim, finding: Finding, named: bool = True) -> str:
    """One claim; `named` says whether to name the setting it needs."""
    sentences = [f"Printed: `{claim.published}`."]
    if finding.holds:  # then the evidence says what is found
        sentences.append(f"Found: {_plain(finding.ours)}.")
    if finding.status == UNSTATED and named:
        sentences.append(f"**{LABELS[UNSTATED]}**: {_plain(finding.setting)}.")
    elif finding.status == NOT_HERE:
        sentences.append(f"**{LABELS[NOT_HERE]}**: {_plain(finding.unsettled)}.")
    else:
        sentences.append(f"**{LABELS[finding.status]}**.")
    sentences.append(_plain(finding.evidence))
    places = "; also ".join([_place(claim.source), *map(_place, claim.other_sources)])
    return "\n".join(
        [
            f'<span id="{claim.id}"></span>{_plain(claim.claim)}',
            f": {' '.join(sentences).rstrip()}",
            f": {places}. {{ref}}`{claim.chapter}`.",
        ]
    )


def _place(source: Source) -> str:
    parts = [PAPERS[source.key], _section(source.section), source.place]
    return _plain(", ".join(part for part in parts if part))


def _section(number: str) -> str:
    return f"section {number}" if number[0].isdigit() else f"“{number}”"


def _count(claims: list[Claim]) -> str:
    return "1 claim" if len(claims) == 1 else f"{len(claims)} claims"


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]


def _plain(text: str) -> str:
    """Text without Markdown in it."""
    return re.sub(r"([\\`*_{}\[\]<>$|#])", r"\\\1", text)
