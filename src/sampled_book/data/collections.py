"""NPL and Cranfield, two collections of abstracts with queries and judged documents.

They are read from the folder that ``SAMPLED_METRICS_DATA`` names, laid out as the collections of
the University of Glasgow's information retrieval group unpack:

    npl/doc-text, npl/query-text, npl/rlv-ass
    cranfield/cran.all.1400, cranfield/cran.qry, cranfield/cranqrel

Each file is checked by its git blob id. No text of them is bundled; places of documents are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from sampled_metrics._validate import IntArray

from . import datasets

#: Files of each collection, with their git blob ids.
FILES = {
    "npl": {
        "doc-text": "28dca7099bd70825a2f4e0ee17125942c2799822",
        "query-text": "32a89a66e9427425361dd89b8ef3d294588acf0d",
        "rlv-ass": "f26fb82d30cc9a2343de17627bba7dff33622c46",
    },
    "cranfield": {
        "cran.all.1400": "ca70065a5933c4f87dc147d0de8ba673976ab3c2",
        "cran.qry": "e4e852acd4e0c44890d95f42db3964005e88934a",
        "cranqrel": "4ede078cd996aaa81ba71ff247cbdb63703fceac",
    },
}


@dataclass(frozen=True, eq=False)
class Collection:
    """Texts of documents and queries, and the relevant documents of each query, as positions in
    `documents`.
    """

    documents: list[str]
    queries: list[str]
    relevant: list[IntArray]


def read(name: str) -> Collection:
    """The collection "npl" or "cranfield", from files that are checked.

    >>> len(read("cranfield").documents)  # doctest: +SKIP
    1400
    """
    if name not in FILES:
        raise ValueError(f"name must be one of {', '.join(FILES)}, got {name!r}")
    texts = [
        datasets.local_file(name, file, blob).decode("latin-1").replace("\r\n", "\n")
        for file, blob in FILES[name].items()
    ]
    return (npl if name == "npl" else cranfield)(*texts)


def npl(documents: str, queries: str, relevant: str) -> Collection:
    r"""NPL: numbered records that end in a line with a slash. Some numbers may have no document;
    the positions follow those that have.

    >>> npl("1\nfast tubes\n   /\n3\nslow tubes\n   /\n", "1\nSLOW\n/\n", "1\n 3\n /\n")
    Collection(documents=['fast tubes', 'slow tubes'], queries=['SLOW'], relevant=[array([1])])
    """
    records, asked, judged = (_slashed(text) for text in (documents, queries, relevant))
    position = {number: index for index, number in enumerate(records)}
    return Collection(
        list(records.values()),
        list(asked.values()),
        [np.sort([position[int(i)] for i in judged[number].split()]) for number in asked],
    )


def cranfield(documents: str, queries: str, relevant: str) -> Collection:
    r"""Cranfield: records that begin with ``.I``, of which fields ``.T`` and ``.W`` are used (the
    text repeats the title, so a document is its text). Judgements number the queries by their
    order, and grades below 1 are not relevant.

    >>> texts = ".I 1\n.T\na wing\n.W\na wing .\n.I 2\n.W\na plate .\n", ".I 007\n.W\nwings ?\n"
    >>> cranfield(*texts, "1 1 2 \n1 2 -1\n")
    Collection(documents=['a wing .', 'a plate .'], queries=['wings ?'], relevant=[array([0])])
    """
    records, asked = _dotted(documents), _dotted(queries)
    judged: list[list[int]] = [[] for _ in asked]
    for line in relevant.splitlines():
        query, document, grade = map(int, line.split())
        if grade >= 1:
            judged[query - 1].append(document - 1)
    return Collection(records, asked, [np.unique(positions) for positions in judged])


def _slashed(text: str) -> dict[int, str]:
    """Records by their number, each ended by a line that holds a slash alone."""
    records = {}
    for part in re.split(r"^\s*/\s*$", text, flags=re.MULTILINE):
        number, _, content = part.strip().partition("\n")
        if number:
            records[int(number)] = content.strip()
    return records


def _dotted(text: str) -> list[str]:
    """The field ``.W`` of each record that begins with ``.I``, in order."""
    parts = re.split(r"^\.I .*$", text, flags=re.MULTILINE)[1:]
    return [part.partition("\n.W\n")[2].strip() for part in parts]
