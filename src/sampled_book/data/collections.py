"""Seven test collections: documents, queries, and the documents judged relevant to each query.

They are read from the folder that ``SAMPLED_METRICS_DATA`` names. NPL and Cranfield are laid out as
the collections of the University of Glasgow's information retrieval group unpack, the five of
:data:`TABLES` as three compressed tables each:

    npl/doc-text, npl/query-text, npl/rlv-ass
    cranfield/cran.all.1400, cranfield/cran.qry, cranfield/cranqrel
    retrieval/NAME/docs.tsv.gz, retrieval/NAME/queries.tsv.gz, retrieval/NAME/qrels.tsv.gz

Each file is checked by its git blob id. No text of them is bundled; places of documents of NPL and
Cranfield are.
"""

from __future__ import annotations

import gzip
import re
from dataclasses import dataclass

import numpy as np

from sampled_metrics._validate import IntArray

from . import datasets

#: Files of the two collections whose rankings are bundled, with their git blob ids.
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
#: Git blob ids of the documents, queries and judgements of the collections kept as tables.
TABLES = {
    "cisi": (
        "7d2f2b5f16afa55e240c1cd805cdbe9928315005",
        "143d2125ce06a81643821d0766a8fc36b4a571f3",
        "14baffffcfa01b0e00ca611ec67a8bcd9ad9bfdc",
    ),
    "lisa": (
        "c068b83d4ae775d86ce3638e12a72721418cc7ec",
        "c53407bef7a856066af443595e18f60118417900",
        "25e048a5e2ccb35af29753c140ecde28473766a6",
    ),
    "cystic_fibrosis": (
        "966aeafbc2155d073e7ca2c1646aa220bf2d2476",
        "8f4c3bbeb4350685110fc1fcd20b90c786a9ff73",
        "fd328cb2493eff82a9d7569b2d374fa822923a11",
    ),
    "nfcorpus_test": (
        "61b63a4f17f2e82f6565af349e8f1150e11a3ed1",
        "7371e9b7b90a2c973518386cd2328bd2b0d703d4",
        "543949adae9221295735a6517aeed34ff378cba4",
    ),
    "cosqa": (
        "81a8ca5817e737f3cb590b34bbb6a937468c6f8e",
        "5786f1928fb0c4f166aee29e9ddd709b54392a10",
        "f3b32b9e2ac86b44ad629c715cbddf7c00ca3ebc",
    ),
}
_TABLE_FILES = ("docs.tsv.gz", "queries.tsv.gz", "qrels.tsv.gz")
#: Every collection that :func:`read` reads.
NAMES = (*FILES, *TABLES)


@dataclass(frozen=True, eq=False)
class Collection:
    """Texts of documents and queries, and the relevant documents of each query, as positions in
    `documents`.
    """

    documents: list[str]
    queries: list[str]
    relevant: list[IntArray]


def read(name: str) -> Collection:
    """A collection of :data:`NAMES`, from files that are checked.

    >>> len(read("cranfield").documents)  # doctest: +SKIP
    1400
    """
    if name not in NAMES:
        raise ValueError(f"name must be one of {', '.join(NAMES)}, got {name!r}")
    if name in TABLES:
        return tables(
            *(
                gzip.decompress(datasets.local_file(f"retrieval/{name}", file, blob)).decode()
                for file, blob in zip(_TABLE_FILES, TABLES[name], strict=True)
            )
        )
    texts = [
        datasets.local_file(name, file, blob).decode("latin-1").replace("\r\n", "\n")
        for file, blob in FILES[name].items()
    ]
    return (npl if name == "npl" else cranfield)(*texts)


def tables(documents: str, queries: str, relevant: str) -> Collection:
    r"""Lines of tab-separated fields: number and text of a document, the same of a query, and a
    query's and a document's number with a grade. Grades above 0 are relevant, and a query without
    a relevant document is left out.

    >>> tables("a\tfast tubes\nb\tslow tubes\n", "1\tSLOW\n2\twaves\n", "1\tb\t2\n2\ta\t0\n")
    Collection(documents=['fast tubes', 'slow tubes'], queries=['SLOW'], relevant=[array([1])])
    """
    records, asked = (
        dict(line.split("\t") for line in text.split("\n")[:-1]) for text in (documents, queries)
    )
    position = {number: index for index, number in enumerate(records)}
    judged: dict[str, list[int]] = {number: [] for number in asked}
    for line in relevant.split("\n")[:-1]:
        query, document, grade = line.split("\t")
        if float(grade) > 0:
            judged[query].append(position[document])
    kept = [number for number, positions in judged.items() if positions]
    return Collection(
        list(records.values()),
        [asked[number] for number in kept],
        [np.unique(judged[number]) for number in kept],
    )


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
