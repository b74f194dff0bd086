"""PyKEEN: its evaluators' ranks and metrics, and what we read of them (`make test-graphs`)."""

import logging
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from pykeen.datasets import Nations
from pykeen.evaluation import RankBasedEvaluator, SampledRankBasedEvaluator
from pykeen.models import DistMult, MarginalDistributionBaseline
from pykeen.training import SLCWATrainingLoop
from pykeen.triples import TriplesFactory

from sampled_book.experiments import graphs
from sampled_metrics import readers
from sampled_metrics.ranking.exact import exact_ranks
from sampled_metrics.ranking.intervals import RankIntervals

logging.getLogger("pykeen").setLevel(logging.ERROR)


@pytest.fixture(scope="module")
def data():
    return Nations()


@pytest.fixture(scope="module", params=["counts", "learns"])
def model(request, data):
    """One with many equal scores, and one with none."""
    if request.param == "counts":
        made = MarginalDistributionBaseline(triples_factory=data.training)
        made.register_buffer("none", torch.zeros(0))
        return made
    return DistMult(triples_factory=data.training, embedding_dim=8, random_seed=3)


def evaluated(evaluator, model, data):
    known = [data.training.mapped_triples, data.validation.mapped_triples]
    options = {"additional_filter_triples": known, "batch_size": 64, "use_tqdm": False}
    return evaluator.evaluate(model, data.testing.mapped_triples, **options)


def intervals(rows):
    return RankIntervals(rows["n_better"], rows["n_tied"], rows["n_negatives"] + 1)


NAMES = {"rr": "mrr", "hit@1": "hits@1", "hit@3": "hits@3", "hit@10": "hits@10"}


def test_metrics_of_the_ranks_are_those_of_pykeen_under_each_tie_policy(model, data):
    evaluator = RankBasedEvaluator(clear_on_finalize=False)
    results = evaluated(evaluator, model, data)
    places = intervals(readers.pykeen(evaluator))
    for ties in ("optimistic", "realistic", "pessimistic"):
        for ours, theirs in NAMES.items():
            reported = results.get_metric(f"both.{ties}.{theirs}")
            assert places.evaluate(ours, ties).mean() == pytest.approx(reported, abs=1e-6)
    mine = graphs.adjustments(places)
    for ours, theirs in (("AMR", "amr"), ("AMRI", "amri"), ("z", "z_arithmetic_mean_rank")):
        assert mine[ours] == pytest.approx(results.get_metric(theirs), rel=1e-5, abs=1e-5), ours


def test_ranks_are_those_among_what_is_not_known_to_be_true(model, data):
    evaluator = RankBasedEvaluator(clear_on_finalize=False)
    evaluated(evaluator, model, data)
    rows = readers.pykeen(evaluator)
    test = data.testing.mapped_triples
    parts = (data.training, data.validation, data.testing)
    true = {tuple(t) for part in parts for t in part.mapped_triples.tolist()}
    for target, column in (("head", 0), ("tail", 2)):
        scores = model.predict(hrt_batch=test, target=target).detach().numpy()
        others = []
        for triple in test.tolist():
            ends = [[*triple[:column], e, *triple[column + 1 :]] for e in range(data.num_entities)]
            here = {e for e, end in enumerate(ends) if tuple(end) in true}
            others.append(sorted(here - {triple[column]}))
        places = exact_ranks(scores, test[:, column].numpy(), others)
        own = rows[rows["instance"] == target]
        assert (own["n_better"].to_numpy() == places.n_better).all()
        assert (own["n_tied"].to_numpy() == places.n_tied).all()
        assert (own["n_items"].to_numpy() == places.n_candidates).all()


def sampled(data, n_negatives, seed=1):
    import random

    random.seed(seed)  # PyKEEN draws by it
    known = [data.training.mapped_triples, data.validation.mapped_triples]
    return SampledRankBasedEvaluator(
        evaluation_factory=data.testing,
        additional_filter_triples=known,
        num_negatives=n_negatives,
        clear_on_finalize=False,
    )


def test_a_sampled_evaluation_in_the_three_lines_of_the_how_to(data, naive, shown):
    model = DistMult(triples_factory=data.training, embedding_dim=8, random_seed=3)
    evaluator = sampled(data, 1)
    results = evaluated(evaluator, model, data)
    known = [data.training.mapped_triples, data.validation.mapped_triples]
    ran = shown("rows = readers.pykeen", ["rr", "hit@1", "auc"], evaluator=evaluator, known=known)
    auc = (1 + results.get_metric("amri")) / 2
    expected = {"rr": results.get_metric("mrr"), "hit@1": results.get_metric("hits@1"), "auc": auc}
    assert naive(ran["found"]) == pytest.approx(expected, abs=1e-6)
    full = RankBasedEvaluator(clear_on_finalize=False)
    evaluated(full, model, data)
    assert (ran["rows"]["n_items"] == readers.pykeen(full)["n_items"]).all()


def test_negatives_that_pykeen_repeats_are_refused(data):
    model = DistMult(triples_factory=data.training, embedding_dim=8, random_seed=3)
    evaluator = sampled(data, 10)
    evaluated(evaluator, model, data)
    with pytest.raises(ValueError, match="PyKEEN repeats them then"):
        readers.pykeen(evaluator)


def test_the_bundled_ranks_of_the_baseline_are_those_of_pykeen():
    for graph in graphs.GRAPHS:
        fresh, kept = graphs.compute(graph, "Frequency")[0], graphs.ranks(graph)["Frequency"]
        assert np.array_equal(fresh.n_better, kept.n_better)
        assert np.array_equal(fresh.n_tied, kept.n_tied)
        assert np.array_equal(fresh.n_candidates, kept.n_candidates)


@pytest.fixture(scope="module")
def towns():
    """Triples of 300 entities, mostly within one of 15 groups: too many for negatives to repeat."""
    rng = np.random.default_rng(5)
    heads = rng.integers(0, 300, 4000)
    tails = (heads % 15 + 15 * rng.integers(0, 20, 4000)) % 300
    tails = np.where(rng.random(4000) < 0.2, rng.integers(0, 300, 4000), tails)
    triples = np.unique(np.column_stack([heads, rng.integers(0, 2, 4000), tails]), axis=0)
    whole = TriplesFactory.from_labeled_triples(triples.astype(str))
    training, validation, testing = whole.split([0.8, 0.1, 0.1], random_state=1)
    return SimpleNamespace(training=training, validation=validation, testing=testing)


def test_loop_reports_all_entities_and_sampled_ones_of_a_trained_model(
    towns, added, column, corrected
):
    model = DistMult(triples_factory=towns.training, embedding_dim=16, random_seed=3)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    loop = SLCWATrainingLoop(model=model, triples_factory=towns.training, optimizer=optimizer)
    loop.train(triples_factory=towns.training, num_epochs=15, use_tqdm=False)
    names = {"rr": "mrr", "hit@10": "hits@10"}

    def both(evaluator, known):
        results = evaluated(evaluator, model, towns)
        found = added("rows = readers.pykeen", evaluator=evaluator, known=known)["found"]
        reported = {ours: results.get_metric(theirs) for ours, theirs in names.items()}
        # PyKEEN adds reciprocal ranks in single precision.
        assert column(found, "reported") == pytest.approx(reported, abs=1e-7)
        return found, reported

    found, exact = both(RankBasedEvaluator(clear_on_finalize=False), None)
    assert column(found, "estimate") == column(found, "reported")
    known = [towns.training.mapped_triples, towns.validation.mapped_triples]
    found, reported = both(sampled(towns, 50), known)
    corrected(found, exact)
    assert reported["rr"] > exact["rr"] + 0.05
