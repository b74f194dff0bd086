"""Runs and relevance judgements in the text formats of TREC."""

from __future__ import annotations

import csv
import io
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .._files import named
from ..log.columns import refuse_twice
from .candidates import KEY, judged_run, real_column

if TYPE_CHECKING:
    import pandas as pd


def trec(run: str | Path, qrels: str | Path) -> pd.DataFrame:
    """Read a run and relevance judgements in the text formats of TREC.

    Parameters
    ----------
    run : str or Path
        Lines ``qid Q0 docid rank score tag``, separated by white space. As in trec_eval, documents
        are ordered by score and the rank is ignored; equal scores are kept as ties. The tag names
        the recommender; a file may hold several.
    qrels : str or Path
        Lines ``qid 0 docid rel``. A document is relevant if rel is above 0, and irrelevant if it
        was not judged.

    Returns
    -------
    DataFrame
        As from :func:`from_scores`; user is the qid and item the docid, both text.

    Raises
    ------
    ValueError
        If a file cannot be read, a line has other fields, a score or rel is not a number, a
        document appears twice, or a relevant document is not in the run.

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
    rows = _lines(run, ["user", "Q0", "item", "rank", "score", "recommender"])
    judged = _lines(qrels, ["user", "0", "item", "rel"])
    judged["rel"] = real_column(judged, "rel", str(qrels))
    refuse_twice(judged, ["user", "item"], str(qrels))
    return judged_run(rows, judged.loc[judged["rel"] > 0, ["user", "item"]], str(run))


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
