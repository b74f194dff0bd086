"""What other libraries' evaluators make of the forty cases of ``sampled-metrics conformance``.

``python -m sampled_book.experiments.conformance`` tries the libraries that are installed, and
replaces their rows in the bundled table. No environment takes all of them: run it in several, with
``--libraries`` for those that count. ``make conformance`` runs it in the environment of
``make test-peers``. The bundled rows were computed on Python 3.11 after ``pip install``, into a
first environment, of::

    scikit-learn ranx ir_measures pytrec-eval-terrier torchmetrics ogb pykeen rectools cornac
    implicit "lenskit<2026"

and into a second, ``numpy<2``, ``torch`` and RecBole without its other requirements. RePlay
(``replay-rec``) was added to the first without its requirements, but with ``polars``.

Each adapter hands a case to the evaluator that the library documents, with its default options and
at double precision if it takes that. An adapter never breaks ties. A mapping from items
to scores cannot hold an item twice, and a matrix has no place for a relevant item without a score.
An adapter raises `NotImplementedError` for a metric that the library lacks, or for an input that
its evaluator cannot be given.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.metadata import distributions, version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from sampled_metrics.conformance import NOT_THERE, Evaluator, cases, conformance

from ..data import bundle

#: Where the bundled table is.
BUNDLE = Path(__file__).parents[1] / "data" / "conformance.csv"
#: Where in the libraries' source the results that are not exact come from.
SOURCES = BUNDLE.with_name("conformance_sources.csv")

_Scores = list[list[float]]
_Items = list[list[int]]


def bundled() -> pd.DataFrame:
    """What each library makes of each case: library, version, case, value and result.

    The result is one of those of :func:`~sampled_metrics.conformance.conformance`, or "not there"
    if the library lacks the metric or cannot be given the input.

    >>> found = bundled().set_index(["library", "case"])
    >>> found.loc[("scikit-learn", "constant scorer, ndcg"), "result"]
    'exact'
    """
    return pd.read_csv(BUNDLE)


def sources() -> pd.DataFrame:
    """Lines of the libraries' source that the results in :func:`bundled` come from.

    A row has the library, the kinds of cases that the line decides, separated by semicolons, what
    it does, and its address, or else the reason why there is none. The address names the tag of
    the version that was tried. Where no tag could be read, it names a commit whose file is the same
    as the released one, byte for byte. The lines were read by hand: check them when a version
    changes.

    >>> sources().set_index("behaviour").loc["NDCG: ideal of k relevant items", "library"]
    'rectools'
    """
    return pd.read_csv(SOURCES, keep_default_na=False)


def tried(library: str) -> pd.DataFrame:
    """The rows of :func:`bundled` of an installed library, computed now."""
    found = conformance(LIBRARIES[library])
    problem = found["error"]
    if (broken := problem.str.match("ImportError|ModuleNotFoundError")).any():
        raise ImportError(f"{library}: {problem[broken].iloc[0]}")
    return pd.DataFrame(
        {
            "library": library,
            "version": version(library),
            "case": found["case"],
            "value": found["value"],
            "result": found["result"],
        }
    )


def by_kind(table: pd.DataFrame) -> pd.DataFrame:
    """Results of each library and kind of case: a row for each library, a column for each kind.

    A cell such as "5 of 7: 2 worst place" says how many of the cases that the library can be asked
    have the exact answer, and what the others get; "not there" that it can be asked none.

    >>> by_kind(bundled()).loc["scikit-learn", "constant scorer"]
    '2 of 4: 2 worst place'
    """
    kinds = {case.name: case.kind for case in cases()}
    table = table.assign(kind=table["case"].map(kinds))
    table["result"] = table["result"].mask(_right(table), "right")
    cells = table.groupby(["library", "kind"])["result"].agg(_cell).unstack()
    order = [library for library in LIBRARIES if library in cells.index]
    return cells.loc[order, list(dict.fromkeys(kinds.values()))]


def _right(table: pd.DataFrame) -> pd.Series:
    """Whether a result is the exact answer, or a refusal of what has none."""
    answered = {case.name: case.answer is not None for case in cases()}
    refused = table["result"].eq("refused") & ~table["case"].map(answered).astype(bool)
    return table["result"].eq("exact") | refused


def _cell(results: pd.Series) -> str:
    asked = results[results != NOT_THERE]
    if asked.empty:
        return NOT_THERE
    others = asked[asked != "right"].value_counts().sort_index()
    named = ", ".join(f"{count} {result}" for result, count in others.items())
    return f"{(asked == 'right').sum()} of {len(asked)}" + (f": {named}" if named else "")


def write(folder: Path | None, libraries: Sequence[str]) -> list[Path]:
    """Try libraries and replace their rows in the bundled table; the path of the table."""
    parts = dict(iter(bundled().groupby("library"))) if BUNDLE.exists() else {}
    parts |= {library: tried(library) for library in libraries}
    table = pd.concat([parts[library] for library in LIBRARIES if library in parts])
    path = BUNDLE if folder is None else folder / BUNDLE.name
    return [bundle.write_table(path, table, digits=9)]


def installed() -> list[str]:
    """The libraries that can be tried here.

    >>> "scikit-learn" in installed()
    True
    """
    here = {distribution.name.lower().replace("_", "-") for distribution in distributions()}
    return [library for library in LIBRARIES if library in here]


def scikit_learn(scores: _Scores, items: _Items, relevant: _Items, metric: str) -> float:
    """`sklearn.metrics`, with a label for each candidate.

    Its documentation equates the label ranking average precision with the mean reciprocal rank if
    each user has one relevant item.
    """
    from sklearn import metrics

    name, k = _parts(metric)
    labels = _labels(items, relevant)
    single = bool((labels.sum(axis=1) == 1).all())
    if name == "ndcg":
        return float(metrics.ndcg_score(labels, scores, k=k))
    if metric == "rr" and single:
        return float(metrics.label_ranking_average_precision_score(labels, scores))
    if metric == "ap":
        return float(metrics.average_precision_score(labels, scores, average="samples"))
    if name == "auc":
        return float(metrics.roc_auc_score(labels, scores, average="samples"))
    if name == "hit" and single:
        classes = np.arange(labels.shape[1])
        held = labels.argmax(axis=1)
        return float(metrics.top_k_accuracy_score(held, scores, k=k, labels=classes))
    raise NotImplementedError(metric)


def ranx(scores: _Scores, items: _Items, relevant: _Items, metric: str) -> float:
    """`ranx.evaluate` of a Qrels and a Run; a user without a relevant item has no Qrels."""
    from ranx import Qrels, Run, evaluate

    names = {
        "ndcg": "ndcg", "rr": "mrr", "recall": "recall", "precision": "precision",
        "ap": "map", "hit": "hit_rate",
    }  # fmt: skip
    qrels, run = _judged(relevant), _run(scores, items)
    return float(evaluate(Qrels(qrels), Run(run), _named(names, metric, "@")))


def ir_measures(scores: _Scores, items: _Items, relevant: _Items, metric: str) -> float:
    """`ir_measures.calc_aggregate`, which chooses a provider of the measure itself."""
    import ir_measures as ir

    names = {
        "ndcg": "nDCG", "rr": "RR", "recall": "R", "precision": "P", "ap": "AP", "hit": "Success",
    }  # fmt: skip
    measure = ir.parse_measure(_named(names, metric, "@"))
    return float(ir.calc_aggregate([measure], _judged(relevant), _run(scores, items))[measure])


def pytrec_eval(scores: _Scores, items: _Items, relevant: _Items, metric: str) -> float:
    """`pytrec_eval.RelevanceEvaluator`: trec_eval, whose averages are over the judged users."""
    import pytrec_eval as trec

    names = {
        "ndcg@": "ndcg_cut", "rr": "recip_rank", "recall@": "recall", "precision@": "P",
        "ap": "map", "ap@": "map_cut", "hit@": "success",
    }  # fmt: skip
    name, k = _parts(metric)
    measure = names.get(name + "@" * (k is not None))
    if measure is None:
        raise NotImplementedError(metric)
    column = measure if k is None else f"{measure}_{k}"
    evaluator = trec.RelevanceEvaluator(
        _judged(relevant), {measure if k is None else f"{measure}.{k}"}
    )
    found = evaluator.evaluate(_run(scores, items))
    values = [user[column] for user in found.values()]
    return float(trec.compute_aggregated_measure(column, values))


def torchmetrics(scores: _Scores, items: _Items, relevant: _Items, metric: str) -> float:
    """The classes of `torchmetrics.retrieval`, in which `indexes` tells the users apart."""
    import torch
    from torchmetrics import retrieval

    classes = {
        "ndcg": retrieval.RetrievalNormalizedDCG, "rr": retrieval.RetrievalMRR,
        "recall": retrieval.RetrievalRecall, "precision": retrieval.RetrievalPrecision,
        "ap": retrieval.RetrievalMAP, "hit": retrieval.RetrievalHitRate,
        "auc": retrieval.RetrievalAUROC,
    }  # fmt: skip
    name, k = _parts(metric)
    labels = _labels(items, relevant)
    users = np.repeat(np.arange(len(scores)), [len(own) for own in scores])
    return float(
        classes[name](top_k=k)(
            torch.tensor(np.concatenate(scores)),
            torch.tensor(labels.ravel()),
            indexes=torch.tensor(users),
        )
    )


def ogb(scores: _Scores, items: _Items, relevant: _Items, metric: str) -> float:
    """`ogb.linkproppred.Evaluator` of the data set whose metric it is, one positive a user."""
    import torch
    from ogb.linkproppred import Evaluator

    # The data set that is evaluated by the metric, and the name of the result.
    evaluated = {
        "rr": ("ogbl-citation2", "mrr_list"), "hit@1": ("ogbl-citation2", "hits@1_list"),
        "hit@3": ("ogbl-citation2", "hits@3_list"), "hit@10": ("ogbl-citation2", "hits@10_list"),
        "auc": ("ogbl-vessel", "rocauc"),
    }  # fmt: skip
    if metric not in evaluated:
        raise NotImplementedError(metric)
    held, negatives = _held_and_negatives(scores, items, relevant)
    data_set, result = evaluated[metric]
    evaluator = Evaluator(data_set)
    if metric == "auc":  # of all pairs at once
        given = {"y_pred_pos": held, "y_pred_neg": negatives.ravel()}
    else:
        given = {"y_pred_pos": torch.tensor(held), "y_pred_neg": torch.tensor(negatives)}
    return float(np.mean(np.asarray(evaluator.eval(given)[result])))


def pykeen(scores: _Scores, items: _Items, relevant: _Items, metric: str) -> float:
    """`pykeen.evaluation.RankBasedEvaluator`, with its default, realistic ranks."""
    import torch
    from pykeen.evaluation import RankBasedEvaluator

    name, k = _parts(metric)
    if metric == "rr":
        key = "tail.realistic.inverse_harmonic_mean_rank"
    elif name == "hit":
        key = f"tail.realistic.hits_at_{k}"
    else:
        raise NotImplementedError(metric)
    held, _ = _held_and_negatives(scores, items, relevant)
    evaluator = RankBasedEvaluator()
    evaluator.process_scores_(
        hrt_batch=torch.zeros((len(held), 3), dtype=torch.long),
        target="tail",
        scores=torch.tensor(np.array(scores)),
        true_scores=torch.tensor(held)[:, None],
    )
    return float(evaluator.finalize().get_metric(key))


def implicit(scores: _Scores, items: _Items, relevant: _Items, metric: str) -> float:
    """`implicit.evaluation.ranking_metrics_at_k` of a model whose factors give the scores.

    Each user has a factor, in which the items' coordinates are the user's scores.
    """
    from implicit.als import AlternatingLeastSquares
    from implicit.evaluation import ranking_metrics_at_k
    from scipy.sparse import csr_matrix

    names = {"ndcg": "ndcg", "precision": "precision", "ap": "map", "auc": "auc"}
    name, k = _parts(metric)
    if name not in names:
        raise NotImplementedError(metric)
    _same_candidates(items)
    model = AlternatingLeastSquares(factors=len(scores), use_gpu=False, num_threads=1)
    model.user_factors = np.eye(len(scores), dtype=np.float32)
    model.item_factors = np.array(scores, dtype=np.float32).T.copy()
    shape = len(scores), len(items[0])
    pairs = [(user, item) for user, own in enumerate(relevant) for item in own]
    test = csr_matrix((np.ones(len(pairs)), tuple(zip(*pairs, strict=True))), shape=shape)
    at_k = ranking_metrics_at_k(
        model, csr_matrix(shape), test, K=k or shape[1], show_progress=False, num_threads=1
    )
    return float(at_k[names[name]])


def cornac(scores: _Scores, items: _Items, relevant: _Items, metric: str) -> float:
    """`cornac.eval_methods.ranking_eval` of a recommender that returns the scores."""
    from cornac import metrics
    from cornac.data import Dataset
    from cornac.eval_methods.base_method import ranking_eval
    from cornac.models import Recommender

    classes = {
        "ndcg": metrics.NDCG, "recall": metrics.Recall, "precision": metrics.Precision,
        "hit": metrics.HitRatio, "rr": metrics.MRR, "ap": metrics.MAP, "auc": metrics.AUC,
    }  # fmt: skip
    name, k = _parts(metric)
    if k is not None and name in ("rr", "ap"):
        raise NotImplementedError(metric)
    _same_candidates(items)
    n_users, n_items = len(scores), len(items[0])

    class Scored(Recommender):  # type: ignore[misc]
        def score(self, user_idx: int, item_idx: int | None = None) -> Any:
            return np.array(scores[user_idx])

    # A user of the training data has rated all items, so that all are known and none is seen.
    users = {user: user for user in range(n_users + 1)}
    catalogue = {item: item for item in range(n_items)}
    known = [(n_users, item, 1.0) for item in catalogue] + [(u, 0, 0.0) for u in range(n_users)]
    held = [(user, item, 1.0) for user, own in enumerate(relevant) for item in own]
    train = Dataset.build(known, global_uid_map=users, global_iid_map=catalogue)
    test = Dataset.build(held, global_uid_map=users, global_iid_map=catalogue)
    model = Scored("scored", trainable=False, verbose=False).fit(train)
    metric_of_library = classes[name]() if k is None else classes[name](k=k)
    averages, _ = ranking_eval(model, [metric_of_library], train, test)
    return float(averages[0])


def rectools(scores: _Scores, items: _Items, relevant: _Items, metric: str) -> float:
    """`rectools.metrics.calc_metrics`; it takes ranks, so that it cannot be asked of ties."""
    from rectools import metrics

    classes = {
        "ndcg": metrics.NDCG, "recall": metrics.Recall, "precision": metrics.Precision,
        "hit": metrics.HitRate, "rr": metrics.MRR, "ap": metrics.MAP, "auc": metrics.PartialAUC,
    }  # fmt: skip
    name, k = _parts(metric)
    if any(len(set(own)) < len(own) or np.isnan(own).any() for own in scores):
        raise NotImplementedError("ranks are given, and these scores have no ranks")
    columns = ["user_id", "item_id", "rank"]
    ranks = [
        (user, item, 1 + sum(score > own for score in scores[user]))
        for user, candidates in enumerate(items)
        for own, item in zip(scores[user], candidates, strict=True)
    ]
    held = [(user, item) for user, own in enumerate(relevant) for item in own]
    if k is None:  # all candidates, and for PartialAUC all negatives
        k = max(map(len, items)) - (name == "auc" and max(map(len, relevant)))
    found = metrics.calc_metrics(
        {metric: classes[name](k=k)},
        reco=pd.DataFrame(ranks, columns=columns),
        interactions=pd.DataFrame(held, columns=columns[:2]),
    )
    return float(found[metric])


def recbole(scores: _Scores, items: _Items, relevant: _Items, metric: str) -> float:
    """`recbole.evaluator`, as its trainer calls it: scores of items from 1 on, item 0 at minus
    infinity."""
    import torch
    from recbole.config import Config
    from recbole.evaluator import Collector, Evaluator

    names = {
        "ndcg": "NDCG", "rr": "MRR", "recall": "Recall", "precision": "Precision", "ap": "MAP",
        "hit": "Hit", "auc": "GAUC",
    }  # fmt: skip
    name, k = _parts(metric)
    _same_candidates(items)
    n_items = len(items[0])
    config = {
        "metrics": [names[name]], "topk": [k or n_items], "metric_decimal_place": 12,
        "eval_args": {"mode": "full"}, "device": "cpu",
    }  # fmt: skip
    padded = torch.tensor([[-np.inf, *own] for own in scores], dtype=torch.float64)
    pairs = [(user, item + 1) for user, own in enumerate(relevant) for item in own]
    if any(item > n_items for _, item in pairs):
        raise NotImplementedError("each item has a score")
    users, held = torch.tensor(pairs, dtype=torch.long).reshape(-1, 2).T
    Config.compatibility_settings(None)  # each of its runs begins so: names that NumPy has dropped
    collector = Collector(config)
    collector.eval_batch_collect(padded, None, users, held)
    found = Evaluator(config).evaluate(collector.get_data_struct())
    return float(next(iter(found.values())))


def replay(scores: _Scores, items: _Items, relevant: _Items, metric: str) -> float:
    """`replay.metrics` of data frames with a row for each candidate."""
    from replay import metrics

    classes = {
        "ndcg": metrics.NDCG, "rr": metrics.MRR, "recall": metrics.Recall, "hit": metrics.HitRate,
        "precision": metrics.Precision, "ap": metrics.MAP, "auc": metrics.RocAuc,
    }  # fmt: skip
    name, k = _parts(metric)
    users = range(len(scores))
    columns = ["query_id", "item_id", "rating"]
    rated = [
        (user, item, score)
        for user in users
        for item, score in zip(items[user], scores[user], strict=True)
    ]
    held = [(user, item) for user in users for item in relevant[user]]
    found = classes[name](k or max(map(len, items)))(
        pd.DataFrame(rated, columns=columns), pd.DataFrame(held, columns=columns[:2])
    )
    return float(next(iter(found.values())))


def lenskit(scores: _Scores, items: _Items, relevant: _Items, metric: str) -> float:
    """`lenskit.metrics.RunAnalysis` of lists of items with scores, which LensKit ranks."""
    from lenskit import metrics
    from lenskit.data import ItemList, ItemListCollection
    from lenskit.metrics.ranking import AveragePrecision

    classes = {
        "ndcg": metrics.NDCG, "rr": metrics.RecipRank, "recall": metrics.Recall,
        "precision": metrics.Precision, "hit": metrics.Hit, "ap": AveragePrecision,
    }  # fmt: skip
    name, k = _parts(metric)
    if name not in classes:
        raise NotImplementedError(metric)
    ranked, held = ItemListCollection(["user_id"]), ItemListCollection(["user_id"])
    for user, (own, candidates) in enumerate(zip(scores, items, strict=True)):
        ranked.add(ItemList(item_ids=candidates, scores=own).top_n(), user_id=user)
        held.add(ItemList(item_ids=relevant[user]), user_id=user)
    analysis = metrics.RunAnalysis(classes[name](n=k))
    return float(analysis.measure(ranked, held).list_summary()["mean"].iloc[0])


#: The adapters, by the libraries' names in the package index.
LIBRARIES: dict[str, Evaluator] = {
    "scikit-learn": scikit_learn,
    "torchmetrics": torchmetrics,
    "pytrec-eval-terrier": pytrec_eval,
    "ir-measures": ir_measures,
    "ranx": ranx,
    "recbole": recbole,
    "rectools": rectools,
    "replay-rec": replay,
    "cornac": cornac,
    "implicit": implicit,
    "lenskit": lenskit,
    "ogb": ogb,
    "pykeen": pykeen,
}


def _parts(metric: str) -> tuple[str, int | None]:
    name, _, cutoff = metric.partition("@")
    return name, int(cutoff) if cutoff else None


def _named(names: dict[str, str], metric: str, separator: str) -> str:
    name, k = _parts(metric)
    if name not in names:
        raise NotImplementedError(metric)
    return names[name] if k is None else f"{names[name]}{separator}{k}"


def _labels(items: _Items, relevant: _Items) -> Any:
    """A matrix of labels: 1 where a candidate is relevant."""
    return np.array(
        [[item in own for item in of] for of, own in zip(items, relevant, strict=True)], dtype=int
    )


def _run(scores: _Scores, items: _Items) -> dict[str, dict[str, float]]:
    """Scores by user and item, as TREC's files have them."""
    return {
        f"u{user}": dict(zip([f"d{item}" for item in items[user]], own, strict=True))
        for user, own in enumerate(scores)
    }


def _judged(relevant: _Items) -> dict[str, dict[str, int]]:
    """The relevant items by user; a user without one does not appear."""
    return {f"u{user}": {f"d{item}": 1 for item in own} for user, own in enumerate(relevant) if own}


def _held_and_negatives(scores: _Scores, items: _Items, relevant: _Items) -> tuple[Any, Any]:
    """The score of each user's one relevant item, and a matrix of those of all others."""
    if any(len(own) != 1 for own in relevant):
        raise NotImplementedError("one relevant item for each user")
    held, negatives = [], []
    for own, candidates, (item,) in zip(scores, items, relevant, strict=True):
        place = candidates.index(item)
        held.append(own[place])
        negatives.append(own[:place] + own[place + 1 :])
    return np.array(held), np.array(negatives)


def _same_candidates(items: _Items) -> None:
    """Refuse an item given twice where an item's number is its place."""
    if any(own != list(range(len(own))) for own in items):
        raise NotImplementedError("an item has one place")


def main(arguments: Sequence[str] | None = None) -> int:
    """Try the libraries that are installed on the forty cases, and replace their rows."""
    parser = bundle.parser("sampled_book.experiments.conformance", main.__doc__)
    parser.add_argument(
        "--libraries", nargs="+", choices=list(LIBRARIES), help="default: all that are installed"
    )
    options = parser.parse_args(arguments)
    return bundle.run(lambda: write(options.output, options.libraries or installed()))


if __name__ == "__main__":
    sys.exit(main())
