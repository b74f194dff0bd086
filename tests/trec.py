"""Files of TREC to read, for the tests and the benchmarks."""

from pathlib import Path

import numpy as np


def written(
    folder: Path, n_queries: int, rng: np.random.Generator, n_documents: int = 100
) -> tuple[Path, Path]:
    """Files of a run, some documents for each query in order of their scores, and of judgements."""
    run, qrels = [], []
    for query in range(n_queries):
        documents = rng.choice(100_000, n_documents, replace=False)
        scores = np.sort(rng.normal(size=n_documents))[::-1]
        held = documents[min(rng.geometric(0.05), n_documents) - 1]
        run += [
            f"q{query} Q0 doc{document} {rank} {score:.6f} bm25\n"
            for rank, (document, score) in enumerate(zip(documents, scores, strict=True), 1)
        ]
        qrels.append(f"q{query} 0 doc{held} 1\n")
    (folder / "run.trec").write_text("".join(run))
    (folder / "qrels.trec").write_text("".join(qrels))
    return folder / "run.trec", folder / "qrels.trec"
