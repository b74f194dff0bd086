"""Runs and relevance judgements in the text formats of TREC."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, overload

import numpy as np

from .._files import named
from ..log.columns import refuse_twice
from ..log.sub_corpus import SubCorpus, sub_corpus
from .candidates import KEY, judged_run, real_column

if TYPE_CHECKING:
    import pandas as pd

_RUN = ["user", "Q0", "item", "rank", "score", "recommender"]
#: Columns of a log in the words of retrieval.
QUERY = {"recommender": "system", "user": "query", "item": "document"}


@overload
def trec(run: str | Path, qrels: str | Path) -> pd.DataFrame: ...


@overload
def trec(
    run: str | Path | Sequence[str | Path],
    qrels: str | Path,
    *,
    corpus_size: int | Sequence[int],
    kept: Collection[str] = (),
) -> SubCorpus: ...


def trec(
    run: str | Path | Sequence[str | Path],
    qrels: str | Path,
    *,
    corpus_size: int | Sequence[int] | None = None,
    kept: Collection[str] = (),
) -> pd.DataFrame | SubCorpus:
    """Read a run and relevance judgements in the text formats of TREC.

    Parameters
    ----------
    run : str or Path
        Lines ``qid Q0 docid rank score tag``, separated by white space. As in trec_eval, documents
        are ordered by score and the rank is ignored; equal scores are kept as ties. The tag names
        the recommender; a file may hold several. With `corpus_size` several files are allowed.
    qrels : str or Path
        Lines ``qid 0 docid rel``. A document is relevant if rel is above 0, and irrelevant if it
        was not judged.
    corpus_size : int or sequence of int, optional
        Documents of the whole corpus, if the run ranks one sub-corpus for all queries: every
        document that is relevant to some query, and a uniform sample of the others. Each query must
        have all of its documents. With several sizes :func:`~sampled_metrics.estimate` has a row
        for each, so that one sees how a metric falls as the corpus grows. The smallest may be the
        number of documents that were ranked.
    kept : collection of str
        With `corpus_size`, documents of the sub-corpus that were kept on purpose although they are
        relevant to no query, such as judged ones. All others count as sampled.

    Returns
    -------
    DataFrame
        As from :func:`from_scores`; user is the qid and item the docid, both text. With
        `corpus_size` a sub-corpus, which :func:`~sampled_metrics.estimate` and
        :func:`~sampled_metrics.compare` take.

    Raises
    ------
    ValueError
        If a file cannot be read, a line has other fields, a score or rel is not a number, a
        document appears twice, or a relevant document is not in the run. With `corpus_size` also
        if it does not exceed the documents of the run, a query lacks documents or has no relevant
        one, or `kept` holds others.

    See Also
    --------
    sampled_metrics.readers.ranx : The same from mappings in memory.
    sampled_metrics.read_log : Read the rows that this function returns.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     run, qrels = Path(folder, "run"), Path(folder, "qrels")
    ...     _ = run.write_text("q1 Q0 d1 1 2.5 bm25\\nq1 Q0 d2 2 2.5 bm25\\nq1 Q0 d3 3 1 bm25\\n")
    ...     _ = qrels.write_text("q1 0 d2 1\\nq1 0 d3 0\\n")
    ...     trec(run, qrels)
      recommender user item  n_better  n_tied  n_negatives
    0        bm25   q1   d2         0       1            2
    """
    if corpus_size is not None:
        return _sub_corpus(run, qrels, corpus_size, kept)
    if not isinstance(run, (str, Path)):
        raise ValueError(f"run must be one file, unless there is a corpus_size, got {len(run)}")
    rows = _lines(run, _RUN)
    judged = _judged(qrels)
    return judged_run(rows, judged.loc[judged["rel"] > 0, ["user", "item"]], str(run))


def _judged(qrels: str | Path) -> pd.DataFrame:
    judged = _lines(qrels, ["user", "0", "item", "rel"])
    judged["rel"] = real_column(judged, "rel", str(qrels))
    refuse_twice(judged, ["user", "item"], str(qrels))
    return judged


def _sub_corpus(
    run: str | Path | Sequence[str | Path],
    qrels: str | Path,
    corpus_size: int | Sequence[int],
    kept: Collection[str],
) -> SubCorpus:
    import pandas as pd

    paths = [run] if isinstance(run, (str, Path)) else list(run)
    tables = [_lines(path, _RUN) for path in paths]
    for path, table in zip(paths, tables, strict=True):
        table["score"] = real_column(table, "score", str(path))
    if not tables:
        raise ValueError("run must name a file, got none")
    rows = pd.concat([table.astype(dict.fromkeys(KEY, str)) for table in tables])
    return sub_corpus(
        rows.rename(columns=QUERY), _judged(qrels).astype({"user": str, "item": str})
        .rename(columns=QUERY), corpus_size, kept, " and ".join(map(str, paths)),
    )  # fmt: skip


def _lines(path: str | Path, names: list[str]) -> pd.DataFrame:
    """The fields of each line, separated by white space; labels as categories."""
    import pandas as pd

    try:
        data = Path(path).read_bytes()
        data.decode()
    except (OSError, ValueError) as problem:  # ValueError: not UTF-8
        reason = getattr(problem, "strerror", None) or "it is not text in UTF-8"
        raise ValueError(f"{named(path)} cannot be read: {reason}") from None
    if b"\0" in data:  # as in UTF-16; parsers treat it differently
        raise ValueError(f"{named(path)} cannot be read: it holds the character NUL")
    data = data.translate(bytes.maketrans(b"\v\f\r", b"   "))
    columns = [name for name in (*KEY, "score", "rel") if name in names]

    is_valid = False
    with suppress(ValueError):  # a line has too many fields, or there is none
        frame = pd.read_csv(
            io.BytesIO(data),
            sep=r"\s+",
            header=None,
            names=[*names, "beyond"],
            dtype="str",
            na_filter=False,
            quoting=csv.QUOTE_NONE,
        )
        is_malformed = (frame[names[-1]] == "") | (frame["beyond"] != "")
        is_valid = not frame.empty and not is_malformed.any()
    if not is_valid:
        for number, line in enumerate(data.split(b"\n"), start=1):
            if len(line.split()) not in (0, len(names)):
                raise ValueError(
                    f"{path} must have lines of {len(names)} fields ({' '.join(names)}), got "
                    f"{len(line.split())} in line {number}"
                )
        raise ValueError(f"{path} must hold one line or more, got none")
    frame = frame[columns].astype(dict.fromkeys({*KEY} & {*columns}, "category"))
    if "score" in columns:
        texts = frame["score"].to_numpy(dtype=object)
        # `real_column` reads long numbers exactly, and names what is not a number.
        with suppress(ValueError):
            numbers = texts.astype(np.float64)
            if (np.abs(numbers) < 2**53).all() and not any("_" in text for text in texts):
                frame["score"] = numbers
    return frame
