"""Runs and relevance judgements in the text formats of TREC."""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import json
import warnings
import zlib
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from .._files import named
from .._validate import as_written, shortened
from ..log.columns import refuse_twice
from ..log.formats import refuse_impressions
from ..log.query_values import TopLists, top_lists
from ..log.sub_corpus import SubCorpus, sub_corpus, without_own
from ..log.tables import files
from .candidates import KEY, judged_run, nested, real_column

if TYPE_CHECKING:
    import pandas as pd

_RUN = ["user", "Q0", "item", "rank", "score", "recommender"]
#: The header of a file of judgements of BEIR.
_BEIR = [b"query-id", b"corpus-id", b"score"]
#: Columns of a log in the words of retrieval.
QUERY = {"recommender": "system", "user": "query", "item": "document"}


@overload
def trec(run: str | Path | Sequence[str | Path], qrels: str | Path) -> pd.DataFrame: ...


@overload
def trec(
    run: str | Path | Sequence[str | Path],
    qrels: str | Path,
    *,
    corpus_size: int | Sequence[int],
    kept: Collection[str] = (),
    queries_are_documents: bool | None = None,
) -> SubCorpus: ...


@overload
def trec(
    run: str | Path | Sequence[str | Path],
    qrels: str | Path,
    *,
    corpus_size: int | Sequence[int] | None = None,
    queries_are_documents: bool | None = None,
    of_all: Literal[True],
) -> TopLists: ...


def trec(
    run: str | Path | Sequence[str | Path],
    qrels: str | Path,
    *,
    corpus_size: int | Sequence[int] | None = None,
    kept: Collection[str] = (),
    queries_are_documents: bool | None = None,
    of_all: bool = False,
) -> pd.DataFrame | SubCorpus | TopLists:
    """Read a run and relevance judgements in the text formats of TREC.

    Parameters
    ----------
    run : str, Path or sequence of these
        Lines ``qid Q0 docid rank score tag``, separated by white space, of a file (also .gz), a
        folder of files, a pattern such as ``"runs/*.txt"``, or a list. As in trec_eval, documents
        are ordered by score and the rank is ignored; equal scores are kept as ties. The tag names
        the recommender. Or columns ``qid docid score``, or JSON, as ranx, BEIR and mteb save it:
        query to document to score, or to documents, best first. The file's name is then the tag.
    qrels : str or Path
        Lines ``qid 0 docid rel``, or ``qid docid rel`` (below BEIR's header or without), or
        JSON; also .gz. A document is relevant if rel is above 0, and irrelevant if not judged.
    corpus_size : int or sequence of int, optional
        Documents of the whole corpus, if the run ranks one sub-corpus for all queries: every
        document that is relevant to some query, and a uniform sample of the others. With several
        sizes, of which the smallest may be the number of documents that were ranked,
        :func:`~sampled_metrics.estimate` has a row for each.
    kept : collection of str
        With `corpus_size`, documents of the sub-corpus that were kept on purpose although they are
        relevant to no query, such as judged ones. All others count as sampled.
    queries_are_documents : bool, optional
        Whether the document with a query's own id is the query (ArguAna, Quora), and no candidate.
    of_all : bool, optional
        Whether lists are cut from the whole corpus: metrics up to their end are exact.

    Returns
    -------
    DataFrame
        As from :func:`from_scores`; user is the qid and item the docid, both text. With
        `corpus_size` a sub-corpus, which :func:`~sampled_metrics.estimate` and
        :func:`~sampled_metrics.compare` take, as they do lists with `of_all`.

    Raises
    ------
    ValueError
        If a file cannot be read, a line has other fields, a score or rel is not a number, a
        document appears twice, or a relevant document is not in the run. With `corpus_size` also
        if a query lacks documents or has no relevant one, or most lists begin with its own id.

    Warns
    -----
    UserWarning
        If two files have the same tag for a query: recommenders are then named by their files.

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
    rows, origin = _runs(run, Path(qrels))
    judged = _judged(qrels)
    if corpus_size is None and not of_all:
        return judged_run(rows, judged.loc[judged["rel"] > 0, ["user", "item"]], origin)
    rows["score"] = real_column(rows, "score", origin)
    rows, judged = rows.rename(columns=QUERY), judged.rename(columns=QUERY)
    rows, judged = without_own(rows, judged, queries_are_documents, origin)
    if of_all:
        return top_lists(rows, judged, origin)
    assert corpus_size is not None
    rows, judged = (table.astype({"query": str, "document": str}) for table in (rows, judged))
    rows["system"] = rows["system"].astype(str)
    return sub_corpus(rows, judged, corpus_size, kept, origin, queries_are_documents)


def versions(
    runs: Mapping[str, str | Path], qrels: str | Path, queries_are_documents: bool | None = None
) -> TopLists:
    """Runs of one system each over the whole corpus, under the names that they are given here."""
    import pandas as pd

    tables = []
    for name, path in runs.items():
        rows, origin = _runs(path, Path(qrels))
        if rows["recommender"].nunique() > 1:
            several = ", ".join(map(str, rows["recommender"].unique()[:5]))
            raise ValueError(f"{origin} must have one system, got {several}")
        rows["score"] = real_column(rows, "score", origin)
        tables.append(rows.astype({"user": str, "item": str}).assign(recommender=name))
    judged = _judged(qrels).rename(columns=QUERY)
    rows = pd.concat(tables, ignore_index=True).rename(columns=QUERY)
    rows, judged = without_own(rows, judged, queries_are_documents, "the runs")
    return top_lists(rows, judged, "the runs")


def _judged(qrels: str | Path) -> pd.DataFrame:
    data = _text(qrels)
    header, _, rest = data.lstrip().partition(b"\n")
    if header.lower().replace(b"_", b"-").split() == _BEIR:
        judged = _lines(qrels, ["user", "item", "rel"], b"\n" + rest)
    else:
        judged = _lines(qrels, ["user", "0", "item", "rel"], data)
    judged["rel"] = real_column(judged, "rel", str(qrels))
    refuse_twice(judged, ["user", "item"], str(qrels))
    return judged


def _runs(run: str | Path | Sequence[str | Path], qrels: Path) -> tuple[pd.DataFrame, str]:
    """The lines of all files but the qrels, which may lie beside them, and a name for errors."""
    import pandas as pd

    run_files = files(run, any_suffix=True)
    if run_files is None:
        raise ValueError(f"run must name a file or more, got {as_written(run)}")
    paths = [path for path in run_files.paths if path == run or path.resolve() != qrels.resolve()]
    tables = [_lines(path, _RUN) for path in paths]
    if len(tables) == 1:
        return tables[0], str(paths[0])
    pairs = pd.concat([table[["recommender", "user"]].drop_duplicates() for table in tables])
    if pairs.astype(str).duplicated().any():
        tag = shortened(str(pairs.loc[pairs.astype(str).duplicated(), "recommender"].iloc[0]))
        warnings.warn(f"files share the tag {tag}: recommenders are named by files", stacklevel=3)
        for path, table in zip(paths, tables, strict=True):
            table["recommender"] = _tag(path)
    return pd.concat(tables, ignore_index=True), run_files.name


def _tag(path: str | Path) -> str:
    """The name of a file without its endings."""
    name = Path(path).name.removesuffix(".gz")
    return name.rpartition(".")[0] or name


def _text(path: str | Path) -> bytes:
    """The text of a file, unpacked, without a byte-order mark."""
    try:
        data = Path(path).read_bytes()
        data = gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
        data.decode()
    except (OSError, EOFError, zlib.error, ValueError) as problem:  # ValueError: not UTF-8
        reason = (
            getattr(problem, "strerror", None)
            or "it is not text in UTF-8, nor .gz of that: save a run as text or JSON"
        )
        raise ValueError(f"{named(path)} cannot be read: {reason}") from None
    refuse_impressions(path, data[:4_096])
    if b"\0" in data:  # as in UTF-16; parsers treat it differently
        raise ValueError(f"{named(path)} cannot be read: it holds the character NUL")
    return data.removeprefix(codecs.BOM_UTF8).translate(bytes.maketrans(b"\v\f\r", b"   "))


def _lines(path: str | Path, names: list[str], data: bytes | None = None) -> pd.DataFrame:
    """The fields of each line, separated by white space; labels as categories."""
    import pandas as pd

    data = _text(path) if data is None else data
    value = "rel" if "rel" in names else "score"
    if data.lstrip()[:1] == b"{":
        return _of_json(Path(path), data, value)
    if len(data.lstrip().partition(b"\n")[0].split()) == 3:  # as Elliot writes recommendations
        names = ["user", "item", value]
    columns = [name for name in (*KEY, "score", "rel") if name in names]

    is_valid = False
    with suppress(ValueError):  # a line has too many fields, or there is none
        frame = pd.read_csv(
            io.BytesIO(data),
            sep=r"\s+",
            header=None,
            names=[*names, "beyond"],
            dtype=object,  # faster than text in Arrow's layout
            na_filter=False,
            quoting=csv.QUOTE_NONE,
        )
        is_malformed = (frame[names[-1]] == "") | (frame["beyond"] != "")
        is_valid = not frame.empty and not is_malformed.any()
    if not is_valid:
        raise ValueError(_malformed(path, data, names))
    frame = frame[columns].astype(dict.fromkeys({*KEY} & {*columns}, "category"))
    if "score" in columns:
        texts = frame["score"].to_numpy(dtype=object)
        # `real_column` reads long numbers exactly, and names what is not a number.
        with suppress(ValueError):
            numbers = texts.astype(np.float64)
            if (np.abs(numbers) < 2**53).all() and not any("_" in text for text in texts):
                frame["score"] = numbers
    return frame if "recommender" in frame else frame.assign(recommender=_tag(path))


def _malformed(path: str | Path, data: bytes, names: list[str]) -> str:
    """The first line with other fields, or that there is none."""
    for number, line in enumerate(data.split(b"\n"), start=1):
        if len(line.split()) not in (0, len(names)):
            fields = f"{len(names)} fields ({' '.join(names)})"
            return f"{path} must have lines of {fields}, got {len(line.split())} in line {number}"
    return f"{path} must hold one line or more, got none"


def _of_json(path: Path, data: bytes, value: str) -> pd.DataFrame:
    """Rows of a mapping of queries to scores or grades by document, or to lists of documents.

    mteb wraps it in mappings of a subset and a split, beside one that names the model.
    """
    try:
        content = json.loads(data)
    except ValueError as problem:
        raise ValueError(f"{named(path)} cannot be read as JSON: {problem}") from None
    content.pop("mteb_model_meta", None)
    while content and all(map(_is_wrapped, content.values())):
        if len(content) > 1:
            raise ValueError(f"{named(path)} must hold one subset and split, got {list(content)}")
        (content,) = content.values()
    frame = nested(content, "run" if value == "score" else "qrels", value)
    if frame.empty:
        raise ValueError(f"{named(path)} must map each query to its documents, got none")
    return frame.astype({"user": str, "item": str}).assign(recommender=_tag(path))


def _is_wrapped(content: Any) -> bool:
    """Whether a mapping holds rankings, and no scores."""
    return isinstance(content, Mapping) and all(
        isinstance(ranking, dict | list) for ranking in content.values()
    )
