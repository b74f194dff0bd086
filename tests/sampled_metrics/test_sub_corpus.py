"""Runs over one sub-corpus: by enumeration of all samples, and by removing documents from runs."""

from dataclasses import replace
from fractions import Fraction
from itertools import combinations, pairwise

import numpy as np
import pandas as pd
import pytest
from mpmath import mpf, quad
from scipy.special import gammaln
from scipy.stats import t as student

import sampled_metrics as sm
from sampled_metrics.cli import main
from sampled_metrics.designs import corpus_values
from sampled_metrics.designs.jackknife import evaluated

METRICS = ["recall@2", "hit@1", "rr", "ndcg@3", "ndcg", "ap", "ap@3", "precision@2", "auc"]
OTHERS, SAMPLED = 6, 3
QRELS = {"q1": {"r1": 1}, "q2": {"r1": 1, "r2": 1}, "q3": {"r3": 1}}
KEPT = ["r1", "r2", "r3"]
SAMPLES = list(combinations([f"s{i}" for i in range(OTHERS)], SAMPLED))


def corpus(seed):
    """Scores of all 9 documents for each query; s0 is a hub, above most documents of all."""
    rng = np.random.default_rng(seed)
    documents = [*KEPT, *(f"s{i}" for i in range(OTHERS))]
    bonus = np.where(np.array(documents) == "s0", 1.5, 0.0)
    return {
        query: dict(zip(documents, (rng.normal(size=9) + bonus).tolist(), strict=True))
        for query in QRELS
    }


def cut(run, documents):
    return {q: {d: scores[d] for d in documents} for q, scores in run.items()}


def ranks_of(scores, relevant):
    """True ranks of the relevant documents, best first, and the numbers of kept ones above."""
    order = sorted(scores, key=scores.get, reverse=True)
    ranks = sorted(order.index(document) + 1 for document in relevant)
    kept = [sum(d in KEPT for d in order[: rank - 1]) for rank in ranks]
    return ranks, kept


def slow_estimate(run, sampled, metric, values, rows):
    """The mean over queries of the values, in exact fractions, by sorting."""
    total = Fraction(0)
    for query, scores in run.items():
        kept_scores = {d: scores[d] for d in (*KEPT, *sampled)}
        n_relevant = len(QRELS[query])
        ranks, kept = ranks_of(kept_scores, QRELS[query])
        for j, (rank, above) in enumerate(zip(ranks, kept, strict=True), start=1):
            place = values.positions.tolist().index(above + 1)
            value = Fraction(float(rows[place, min(rank - 1 - above, rows.shape[1] - 1)]))
            total += value * Fraction(float(factor_by_definition(metric, j, n_relevant)))
            if metric.base == "auc":
                total += Fraction(1, n_relevant) * (1 + Fraction(j, 9 - n_relevant))
    return total / len(run)


def factor_by_definition(metric, j, n_relevant):
    """A term of the metric at the best rank it can have, divided by its function of the rank."""
    if metric.base == "auc":
        return 1 / (n_relevant * (9 - n_relevant))
    if metric.k is not None and metric.k < j:  # any rank that counts gives the factor: take j = 1
        return {"ap": j / min(n_relevant, metric.k)}.get(
            metric.base, factor_by_definition(metric, 1, n_relevant) * (metric.base != "hit")
        )
    function = {"ap": 1 / j, "rr": 1 / j, "ndcg": 1 / np.log2(j + 1)}.get(metric.base, 1)
    return metric.term(j, j, n_relevant) / function


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", METRICS)
def test_all_samples_of_a_tiny_corpus(name, seed, monkeypatch):
    """Jackknife, its variance and both ends of the range, over all 20 samples of 3 of 6.

    The theorem is for values that do not depend on the sample, so there is one steepness.
    """
    monkeypatch.setattr(corpus_values, "STEEPNESSES", (2.0,))
    metric, run = sm.metric(name), corpus(seed)
    truth = np.mean([metric.of_set(ranks_of(scores, QRELS[q])[0], 9) for q, scores in run.items()])
    estimates, variances, ends = [], [], []
    for sample in SAMPLES:
        sub = sm.readers.ranx(cut(run, [*KEPT, *sample]), QRELS, corpus_size=9, kept=KEPT)
        assert (sub.n_kept, sub.n_sampled, sub.n_others) == (3, SAMPLED, OTHERS)
        (system,) = evaluated(sub, metric, 0.3).values()
        values = corpus_values.values(metric, OTHERS, 2, [1, 2, 3], 3, 2.0, 0.3)
        for column, rows in enumerate(values.rows):
            left = [
                slow_estimate(run, [s for s in sample if s != d], metric, values, rows)
                for d in sample
            ]
            found = system.by_document[:, column]
            assert np.allclose(found, [float(value) for value in left], atol=1e-12)
            mean = sum(left) / SAMPLED
            assert system.means[column] == pytest.approx(float(mean), abs=1e-12)
            # The textbook's factors: (m - 1) / m and the share that is not sampled.
            factor = Fraction(SAMPLED - 1, SAMPLED) * (1 - Fraction(SAMPLED, OTHERS))
            variance = factor * sum((t - mean) ** 2 for t in left)
            if column == 0:
                estimates.append(mean)
                variances.append(variance)
                least = max(float(variance), system.floors[:, 0].sum())
                assert system.error == pytest.approx(np.sqrt(least), abs=1e-12)
        ends.append(np.split(system.means[1:], 2))
    centre = sum(estimates) / len(SAMPLES)
    true_variance = sum((t - centre) ** 2 for t in estimates) / len(SAMPLES)
    assert sum(variances) / len(SAMPLES) >= true_variance
    low, high = np.mean(ends, axis=0)
    assert (low - 1e-9 <= truth).all()
    assert (truth <= high + 1e-9).all()
    if name == "auc":
        assert float(centre) == pytest.approx(truth)


@pytest.mark.parametrize("steepness", [1.0, 3.0])
@pytest.mark.parametrize("name", ["recall@3", "ndcg@4", "rr"])
def test_middle_values_solve_their_normal_equations(name, steepness):
    n_others, n_sampled = 40, 8
    pmf = sm.Protocol(n_others + 1, n_sampled, replacement=False).pmf(np.arange(1, n_others + 2))
    found = corpus_values.values(
        sm.metric(name), n_others, n_sampled, [1, 3, 5], 50, steepness, 0.05
    )
    for row, position in enumerate((1, 3, 5)):
        # The prior is the integral of rank to the power -s from half a rank before to half after,
        # and a twentieth of that to the power -1.
        edges = [mpf(position) + b - mpf(1) / 2 for b in range(n_others + 2)]
        parts = [
            [quad(lambda r, s=s: r**-s, ends) for ends in pairwise(edges)] for s in (steepness, 1)
        ]
        steep, tail = ([weight / sum(weights) for weight in weights] for weights in parts)
        prior = np.array([float(0.95 * steep[b] + 0.05 * tail[b]) for b in range(n_others + 1)])
        exact = sm.metric(name)(np.arange(n_others + 1) + position, n_others + position)
        matrix = 0.95 * (pmf.T * prior) @ pmf + 0.05 * np.diag(prior @ pmf)
        expected = np.linalg.solve(matrix, pmf.T @ (prior * exact))
        np.testing.assert_allclose(found.rows[0, row], expected, atol=1e-9)


@pytest.mark.parametrize("name", ["recall@10", "ndcg@100", "rr", "ndcg"])
@pytest.mark.parametrize("steepness", [0.5, 2.0])
def test_ends_bound_the_metric_at_every_rank(name, steepness):
    """Also at the ranks that are no nodes of the prior, by another hypergeometric distribution."""
    n_others, n_sampled, positions = 1_500, 200, np.array([1, 4, 30])
    metric = sm.metric(name)
    values = corpus_values.values(metric, n_others, n_sampled, positions, 100, steepness)
    above = np.arange(n_others + 1)
    b, x = above[:, np.newaxis], np.arange(n_sampled + 1)

    def log_ways(total, chosen):
        return gammaln(total + 1.0) - gammaln(chosen + 1.0) - gammaln(total - chosen + 1.0)

    rest, missed = n_others - b, n_sampled - x
    ways = log_ways(b, np.minimum(x, b)) + log_ways(rest, np.minimum(missed, rest))
    pmf = np.where((x <= b) & (missed <= rest), np.exp(ways - log_ways(n_others, n_sampled)), 0.0)
    np.testing.assert_allclose(pmf.sum(axis=1), 1.0)
    # The last count stands for all larger ones.
    rows = values.rows[:, :, np.minimum(x, values.rows.shape[2] - 1)]
    for place, k in enumerate(positions):
        exact = metric.unscaled(above + k)
        lows, highs = np.split(rows[1:, place] @ pmf.T, 2)
        assert (lows <= exact + 2e-4).all()
        assert (highs >= exact - 2e-4).all()
        assert (highs - lows)[:, above > 1_000].max() < 0.1  # not everything is possible


def large(n_documents=300, n_sampled=60, n_queries=30, seed=0, shifts=(2.5, 0.5)):
    """A corpus of which each query has one relevant document, and runs over a sub-corpus."""
    rng = np.random.default_rng(seed)
    others = n_queries + rng.choice(n_documents - n_queries, n_sampled, replace=False)
    documents = [f"d{i}" for i in (*range(n_queries), *others)]
    runs = {}
    for name, shift in zip("AB", shifts, strict=True):
        scores = rng.normal(size=(n_queries, len(documents)))
        scores[:, :n_queries] += shift * np.eye(n_queries)
        runs[name] = {
            f"q{q}": dict(zip(documents, row.tolist(), strict=True)) for q, row in enumerate(scores)
        }
    return runs, {f"q{q}": {f"d{q}": 1} for q in range(n_queries)}


def test_verdicts_and_words():
    sub = sm.readers.ranx(*large(shifts=(6.0, -1.0)), corpus_size=300)
    comparison = sm.compare(sub, "ndcg@10")
    assert comparison.verdicts == {("A", "B"): "A beats B"}
    text = comparison.summary()
    assert "A beats B on NDCG@10 (large sample, whatever the ranks)." in text
    assert "leaves no trace" in text
    estimates = sm.estimate(sub, ["ndcg@10", "recall@10"]).frame
    assert estimates["recommender"].tolist() == ["A", "A", "B", "B"]
    assert (estimates["possible_low"] <= estimates["estimate"]).all()
    assert (estimates["possible_high"] >= estimates["estimate"]).all()
    equal = sm.compare(sm.readers.ranx(*large(shifts=(1, 1)), corpus_size=300), "ndcg@10")
    assert "A or B on NDCG@10: undecided." in equal.summary()
    assert "300 documents" in comparison.to_html()


def test_an_undecided_lead_has_its_record():
    runs, qrels = large(2_000, 400, 40, seed=2, shifts=(2.5, 2.2))
    found = sm.compare(sm.readers.ranx(runs, qrels, corpus_size=2_000), "ndcg@10")
    row = found.frame.iloc[0]
    assert 0.02 <= row["reported"] < 0.05
    assert (row["verdict"], row["favoured"], row["probability"]) == ("undecided", "A", 0.89)
    assert "undecided; A leads, right for these queries in 89% of pairs with" in found.sentences[0]
    # The record has no samples of less than a tenth.
    larger = sm.compare(sm.readers.ranx(runs, qrels, corpus_size=9_000), "ndcg@10")
    assert larger.frame["favoured"].tolist() == [""]


def test_a_system_against_itself_differs_by_nothing():
    runs, qrels = large()
    runs["B"] = {q: dict(reversed(scores.items())) for q, scores in runs["A"].items()}
    for scores in (*runs["A"].values(), *runs["B"].values()):
        scores |= {d: round(score) for d, score in scores.items()}  # many ties
    frame = sm.compare(sm.readers.ranx(runs, qrels, corpus_size=300), "recall@10").frame
    assert frame[["reported", "estimate", "standard_error"]].to_numpy() == pytest.approx(0)
    assert frame["possible_low"].item() <= 0 <= frame["possible_high"].item()


def test_ties_count_as_if_broken_at_random():
    """The relevant documents, each tied with all 40 sampled ones, take all 41 places as often."""
    documents = [f"d{i}" for i in range(41)]
    run = {f"q{q}": dict.fromkeys(documents, 1.0) for q in range(200)}
    sub = sm.readers.ranx(run, {q: {"d0": 1} for q in run}, corpus_size=400)
    reported = sm.estimate(sub, ["rr", "recall@10"]).frame["reported"]
    assert reported.tolist() == pytest.approx([np.mean(1 / np.arange(1, 42)), 10 / 41], abs=0.02)


def test_graded_relevance_is_the_gain():
    run = {q: {"a": 4.0, "b": 3.0, "c": 2.0, "x": 3.5, "y": 1.0} for q in ("q1", "q2")}
    qrels = {q: {"a": 1, "b": 0, "c": 3} for q in run}
    sub = sm.readers.ranx(run, qrels, corpus_size=50)
    # a is first, and c the fourth.
    ideal = 3 + 1 / np.log2(3)
    reported = sm.estimate(sub, ["ndcg"]).frame["reported"].item()
    assert reported == pytest.approx((1 + 3 / np.log2(5)) / ideal)
    assert (sub.n_kept, sub.n_sampled) == (2, 3)
    assert sm.readers.ranx(run, qrels, corpus_size=50, kept=["b"]).n_kept == 3


def written(folder, runs, qrels):
    """Files of TREC with each run, with all of them, and with judgements of more queries."""
    lines = {
        name: "".join(
            f"{q} Q0 {d} 0 {float(score)!r} {name}\n"
            for q, scores in run.items()
            for d, score in scores.items()
        )
        for name, run in runs.items()
    }
    judged = "".join(f"{q} 0 {d} {rel}\n" for q, docs in qrels.items() for d, rel in docs.items())
    for name, text in (lines | {"run": "".join(lines.values()), "qrels": judged}).items():
        (folder / name).write_text(text)
    return [str(folder / name) for name in (*lines, "run", "qrels")]


def test_files_of_trec_and_mappings_are_read_alike(tmp_path):
    runs, qrels = large(n_queries=5)
    *paths, both, judged = written(tmp_path, runs, qrels | {"q9": {"d7": 1}, "q8": {"d999": 1}})
    expected = sm.estimate(sm.readers.ranx(runs, qrels, corpus_size=300), ["recall@10"])
    for run in (paths, both):
        sub = sm.readers.trec(run, judged, corpus_size=300)
        assert sub.notes[0].startswith("2 queries of the qrels are left out")
        found = sm.estimate(sub, ["recall@10"])
        assert found.frame["reported"].tolist() == expected.frame["reported"].tolist()
        assert found.frame["recommender"].tolist() == ["A", "B"]


def change_score(score):
    return lambda runs, qrels: runs["A"]["q0"].update(d0=score)


def broken(change, **options):
    runs, qrels = large(n_documents=30, n_sampled=6, n_queries=3)
    change(runs, qrels)
    return sm.readers.ranx(runs, qrels, **({"corpus_size": 30} | options))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda runs, qrels: runs["A"]["q1"].popitem(), "got 8 of its 9 documents for query q1"),
        (lambda runs, qrels: runs["B"].pop("q2"), "same queries, got none of query q2 by B"),
        (lambda runs, qrels: qrels.pop("q0"), r"got none for query q0 \(1 of 3 queries\)"),
        (lambda runs, qrels: qrels["q0"].update(d0=0), "got none for query q0"),
        (lambda runs, qrels: qrels["q0"].update(z=1), "got none of document z of query q0"),
        (lambda runs, qrels: qrels["q0"].update(z=1), "neither a bound nor an estimate"),
        (lambda runs, qrels: qrels["q0"].update(dict.fromkeys(runs["A"]["q0"], 1)),
         r"got 0 beside 9 that were kept on purpose \(9 of them relevant .* rank a uniform sample"),
        (change_score(float("nan")), "score must be a number, got nan"),
        (lambda runs, qrels: runs["A"].update(q0=3), "must map each query to a mapping"),
    ],
)  # fmt: skip
def test_runs_that_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        broken(change)


def test_queries_ranked_within_blocks_are_named_and_estimated_without_ranges():
    n, size = 1200, 200
    rng = np.random.default_rng(1)
    embedded = rng.normal(size=(n, 12))
    scores = embedded @ (embedded + 1.1 * rng.normal(size=(n, 12))).T
    blocks = [range(q // size * size, q // size * size + size) for q in range(n)]
    run = {q: dict(zip(block, scores[q, block], strict=True)) for q, block in enumerate(blocks)}
    for corpus_size in (n, 2 * n):
        with pytest.raises(ValueError, match=r"6 blocks of documents .*from_scores\(rows, block="):
            sm.readers.ranx(run, {q: q for q in run}, corpus_size=corpus_size)
    cut_run = {f"q{q}": dict(list(run[q].items())[: 10 + q % 2]) for q in run}
    with pytest.raises(ValueError, match="must rank the whole sub-corpus for each query, got 10"):
        sm.readers.ranx(cut_run, {q: next(iter(cut_run[q])) for q in cut_run}, corpus_size=66)
    rows = [(q, d, s, d == q) for q, values in run.items() for d, s in values.items()]
    frame = pd.DataFrame(rows, columns=["user", "item", "score", "relevant"])
    log = sm.read_log(sm.readers.from_scores(frame), n_items=n)
    estimate = sm.estimate(log, ["rr"], identification=False).frame["estimate"].item()
    ranks = (scores > scores.diagonal()[:, None]).sum(axis=1) + 1
    assert estimate == pytest.approx((1 / ranks).mean(), abs=0.03)


def query_documents(seed, all_kept):
    """Scores of 400 documents for the first 30, whose answers are the next 30, and those ranked.

    Queries are kept, or drawn like any other document.
    """
    rng = np.random.default_rng(seed)
    embedded = rng.normal(size=(400, 8))
    embedded[30:60] = embedded[:30] + 0.9 * rng.normal(size=(30, 8))
    scores = embedded[:30] @ embedded.T
    np.fill_diagonal(scores, 99.0)
    drawn = rng.choice(np.delete(np.arange(400), slice(0 if all_kept else 30, 60)), 90, False)
    return scores, np.concatenate([np.arange(0 if all_kept else 30, 60), drawn])


def runs_of(scores, ranked):
    """The run with each query's own document, and without it, and the qrels."""
    full = {f"d{q}": {f"d{d}": row[d] for d in ranked} for q, row in enumerate(scores)}
    left = {q: {d: s for d, s in run.items() if d != q} for q, run in full.items()}
    return full, left, {f"d{q}": f"d{q + 30}" for q in range(30)}


@pytest.mark.parametrize("all_kept", [True, False])
def test_queries_that_are_documents_are_no_candidates(all_kept):
    scores, ranked = query_documents(3, all_kept)
    full, left, qrels = runs_of(scores, ranked)
    hint = "queries_are_documents=True"
    with pytest.raises(ValueError, match="own id first in .*" + hint):
        sm.readers.ranx(full, qrels, corpus_size=400)
    with pytest.raises(ValueError, match="lacks the document with its own id.*" + hint):
        sm.readers.ranx(left, qrels, corpus_size=400)
    frames = []
    for run in (full, left):
        corpus = sm.readers.ranx(run, qrels, corpus_size=400, queries_are_documents=True)
        assert corpus.n_kept == (60 if all_kept else 30)
        frames.append(sm.estimate(corpus, ["rr", "auc"]).frame)
    pd.testing.assert_frame_equal(*frames)
    own = np.arange(400) == np.arange(30)[:, None]
    above = (scores > scores[range(30), range(30, 60)][:, None]) & ~own
    reported = frames[0].set_index("metric")["reported"]
    assert reported["rr"] == pytest.approx((1 / (1 + above[:, ranked].sum(axis=1))).mean())
    pool = (~own[:, ranked]).sum(axis=1) - 1
    assert reported["auc"] == pytest.approx(1 - (above[:, ranked].sum(axis=1) / pool).mean())


@pytest.mark.parametrize("all_kept", [True, False])
def test_estimates_without_own_documents_are_unbiased(all_kept):
    errors, misses = [], 0
    for seed in range(40):
        scores, ranked = query_documents(seed, all_kept)
        corpus = sm.readers.ranx(
            *runs_of(scores, ranked)[::2], corpus_size=400, queries_are_documents=True
        )
        above = (scores > scores[range(30), range(30, 60)][:, None]).sum(axis=1) - 1
        row = sm.estimate(corpus, ["auc"]).frame.iloc[0]
        exact = 1 - above.mean() / 398
        errors.append(row["estimate"] - exact)
        misses += not row["possible_low"] <= exact <= row["possible_high"]
    assert abs(np.mean(errors)) < 3 * np.std(errors) / np.sqrt(40)
    assert misses <= 6


def test_own_documents_that_are_drawn_change_the_sample_of_one_query():
    """The mean over d of the estimate without document d, each by its definition."""
    scores, ranked = query_documents(1, False)
    corpus = sm.readers.ranx(
        *runs_of(scores, ranked)[::2], corpus_size=400, queries_are_documents=True
    )
    found = evaluated(corpus, sm.metric("auc"))["system"]
    drawn, exact = ranked[30:], []
    for d in drawn:
        values = []
        for q, row in enumerate(scores):
            sample = drawn[(drawn != d) & (drawn != q)]
            kept_above = (row[30:60] > row[q + 30]).sum()
            share = (row[sample] > row[q + 30]).mean()
            values.append(1 - (kept_above + share * (400 - 30 - 1)) / 398)
        exact.append(np.mean(values))
    assert sum(drawn < 30) > 1
    np.testing.assert_allclose(np.sort(found.by_document[:, 0]), np.sort(exact), atol=1e-12)


def test_the_command_leaves_own_documents_out(tmp_path, capsys):
    scores, ranked = query_documents(3, True)
    full, _, qrels = runs_of(scores, ranked)
    _, run, judged = written(tmp_path, {"A": full}, {q: {d: 1} for q, d in qrels.items()})
    files = [run, "--qrels", judged]
    options = ["--corpus-size", "400", "--metrics", "rr"]
    assert main(["estimate", *files, *options]) == 2
    assert "--queries-are-documents" in capsys.readouterr().err
    assert main(["estimate", *files, *options, "--queries-are-documents"]) == 0
    corpus = sm.readers.ranx(full, qrels, corpus_size=400, queries_are_documents=True)
    assert sm.estimate(corpus, ["rr"]).frame["quote"].item() in capsys.readouterr().out
    lists = ["--of-all", "--queries-are-documents", "--metrics", "rr"]  # of 149 documents each
    assert main(["estimate", *files, *lists, "-o", str(tmp_path / "found.csv")]) == 0
    reported = sm.estimate(corpus, ["rr"]).frame["reported"].item()
    assert pd.read_csv(tmp_path / "found.csv")["reported"].item() == pytest.approx(reported)


def test_ranks_that_contradict_a_uniform_sample_are_refused():
    # The second document of each of 90 queries is its own, whose number no other query has.
    rng, documents = np.random.default_rng(2), [f"d{d}" for d in range(400)]
    judged = {f"d{q}": f"d{q + 90}" for q in range(90)}
    run = {
        q: dict(zip(documents, rng.normal(size=400), strict=True)) | {q: 99.0, right: 98.0}
        for q, right in judged.items()
    }
    corpus = sm.readers.ranx(run, judged, corpus_size=1_000, queries_are_documents=False)
    for act in (lambda: sm.estimate(corpus, ["ndcg@10"]), lambda: sm.estimate(corpus, ["auc"])):
        with pytest.raises(ValueError, match=r"contradict a uniform .*queries_are_documents=True"):
            act()
    corpus = sm.readers.ranx(run, judged, corpus_size=1_000, queries_are_documents=True)
    assert sm.estimate(corpus, ["rr"]).frame["reported"].item() == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"corpus_size": 8}, "at least the 9 documents that run ranks, got 8"),
        ({"corpus_size": 9}, "must exceed the 9 documents"),
        ({"corpus_size": 30.5}, "corpus_size must be a whole number"),
        ({"corpus_size": []}, r"corpus_size must be a whole number >= 2, got \[\]"),
        ({"kept": ["z"]}, "kept must hold documents of the sub-corpus, got z"),
    ],
)
def test_options_that_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        broken(lambda runs, qrels: None, **options)


def alone():
    runs, qrels = large()
    return sm.readers.ranx(runs["A"], qrels, corpus_size=300)


def of_lines(folder, *lines):
    (folder / "run").write_text("".join(f"q Q0 {line} A\n" for line in lines))
    (folder / "qrels").write_text("q 0 a 1\n")
    return sm.readers.trec(folder / "run", folder / "qrels", corpus_size=9)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda path: of_lines(path, "a 1 2", "b 2 1", "c 2 0", "b 3 1"), "document b twice for"),
        (
            lambda path: sm.estimate(of_lines(path, "a 1 2", "b 2 1", "c 2 0"), ["rr"]),
            "2 queries or more, got 1",
        ),
        (lambda _: sm.compare(alone(), "rr"), "2 systems or more, got system alone"),
        (lambda _: sm.estimate(alone(), ["rr"], gamma=0), "gamma must be"),
        (lambda _: sm.estimate(alone(), "rr", estimator="naive"), "left out for a sub-corpus"),
    ],
)
def test_calls_that_are_refused(tmp_path, call, message):
    with pytest.raises(ValueError, match=message):
        call(tmp_path)


def test_a_curve_has_the_estimates_for_each_size():
    runs, qrels = large(n_queries=8, n_documents=100, n_sampled=12)
    sizes = (1_000, 20, 100)
    curve = sm.readers.ranx(runs, qrels, corpus_size=sizes)
    found = sm.estimate(curve, ["ndcg@10", "auc"])
    assert found.frame["documents"].tolist() == [20, 100, 1_000] * 4
    for size in (100, 1_000):
        alone = sm.estimate(sm.readers.ranx(runs, qrels, corpus_size=size), ["ndcg@10", "auc"])
        part = found.frame[found.frame["documents"] == size].reset_index(drop=True)
        columns = ["recommender", "metric", "reported", "standard_error"]
        pd.testing.assert_frame_equal(part[columns], alone.frame[columns])
        # Ends move only outwards, so that the metric falls as the corpus grows.
        assert (part["possible_low"] <= alone.frame["possible_low"]).all()
        assert (part["possible_high"] >= alone.frame["possible_high"]).all()
    falling = found.frame[found.frame["metric"] == "ndcg@10"]
    for _, part in falling.groupby("recommender"):
        for column in ("estimate", "possible_low", "possible_high"):
            assert (np.diff(part[column]) <= 1e-12).all()
    assert "of this one are like a uniform sample" in found.notes[1]
    with pytest.raises(ValueError, match="must be one number to compare systems, got 20, 100, 1,0"):
        sm.compare(curve, "auc")


def test_a_corpus_that_was_ranked_in_full_is_exact():
    """For these queries; for others Student's interval of the differences of two systems holds."""
    runs, qrels = large(n_queries=8, n_documents=20, n_sampled=12)
    curve = sm.readers.ranx(runs, qrels, corpus_size=[20, 50])
    row = sm.estimate(curve, ["rr"]).frame.iloc[0]
    ranks = [
        1 + sum(score > scores[f"d{q}"] for score in scores.values())
        for q, scores in enumerate(runs["A"].values())
    ]
    mean = (1 / np.array(ranks)).mean()
    columns = ["reported", "estimate", "possible_low", "possible_high"]
    assert row[columns].tolist() == pytest.approx([mean] * 4)
    whole = evaluated(replace(curve, larger=()), sm.metric("rr"))
    difference = whole["A"].minus(whole["B"])
    values = difference.by_query[:, 0]
    interval = student.interval(
        0.95, values.size - 1, values.mean(), values.std(ddof=1) / values.size**0.5
    )
    assert difference.range(0.95) == pytest.approx([values.mean()] * 2)
    assert difference.range(0.95, population=True) == pytest.approx(interval)


def test_the_most_common_document_above_is_named():
    """s stands above the relevant document of three queries of four, t of one."""
    run = {f"q{i}": {"r": 2.0, "s": 3.0 - 2 * (i == 0), "t": 3.0 * (i == 0)} for i in range(4)}
    sub = sm.readers.ranx(run, {q: {"r": 1} for q in run}, corpus_size=[103, 100_000])
    note = sm.estimate(sub, ["rr"]).notes[0]
    assert "does so for 75% of the queries" in note
    assert "with probability over 99%" in note


def test_typical_ranges_are_for_runs_like_those_of_the_benchmark():
    runs, qrels = large(n_documents=700, n_sampled=100, n_queries=90)
    sizes = [190, 700, 1_090, 1_091]
    metrics = ["ndcg@10", "recall@100", "recall@5", "rr"]
    found = sm.estimate(sm.readers.ranx({"A": runs["A"]}, qrels, corpus_size=sizes), metrics)
    typical = found.frame[found.frame["typical_low"].notna()]
    assert typical["metric"].tolist() == ["ndcg@10"] * 2 + ["recall@100"] * 2
    assert typical["documents"].tolist() == [700, 1_090] * 2
    assert list(found.shown)[:6] == [
        *("recommender", "metric", "documents", "reported", "estimate", "typical")
    ]
    row = typical.iloc[0]
    assert row["typical_low"] == pytest.approx(row["estimate"] - 3 * row["standard_error"])
    high = min(row["estimate"] + 3 * row["standard_error"], row["possible_high"])
    assert row["typical_high"] == pytest.approx(high)
    assert found.notes[-1].startswith("typical ranges are for ndcg@k")
    assert "track record of" in " ".join(found.summary().split())
    assert "The typical ranges are three standard errors on each side" in found.methods()
    fewer = {query: runs["A"][query] for query in list(qrels)[:19]}
    few = sm.estimate(sm.readers.ranx(fewer, qrels, corpus_size=700), ["ndcg@10"])
    assert few.frame["typical_low"].isna().all()
    assert "typical:" not in few.summary()


def test_the_commands(tmp_path, capsys):
    runs, qrels = large(shifts=(6.0, -1.0))
    *_, run, judged = written(tmp_path, runs, qrels)
    page = str(tmp_path / "page.html")
    options = ["--qrels", judged, "--corpus-size", "300", "--quiet"]
    assert main(["compare", run, "--metric", "ndcg@10", *options]) == 0
    assert capsys.readouterr().out.startswith("A beats B on NDCG@10 (large sample")
    metrics = ["--metrics", "recall@10", "--report", page]
    assert main(["estimate", run, *metrics, *options, "--format", "csv"]) == 0
    assert "\nA,recall@10,1.0," in capsys.readouterr().out
    assert "A beats B" in (tmp_path / "page.html").read_text()
    options = ["--qrels", judged, "--corpus-size", "90", "300", "9000"]
    assert main(["estimate", run, *metrics, *options]) == 0
    captured = capsys.readouterr()
    assert captured.out.startswith("recommender  metric     documents  reported")
    assert "verdicts are left out: there are several corpora" in captured.err
    for words, said in (
        (options, "--corpus-size must be one number"),
        (options[:2], "--corpus-size is missing"),
        ([*options[:4], "--n-items", "9"], "--n-items must be left out"),
    ):
        assert main(["compare", run, "--metric", "rr", *words]) == 2
        assert said in capsys.readouterr().err


def slow_excess(runs, qrels, documents):
    """The excess of sampled documents above the relevant one, by loops over a run without ties."""
    kept = {d for judged in qrels.values() for d in judged}
    sampled = [d for d in documents if d not in kept]
    by_query, by_document = [], dict.fromkeys(sampled, 0.0)
    for query, judged in qrels.items():
        gap = 0.0
        for run in runs.values():
            best = max(run[query][d] for d in judged)
            above = [d for d in documents if run[query][d] > best]
            x, others = len(set(above) - kept), len(kept - set(judged))
            if above:
                weight = 1 / (len(above) ** 0.5 * len(runs))
                gap += weight * (x - len(above) * len(sampled) / (len(sampled) + others))
                for d in set(above) - kept:
                    by_document[d] += weight
        by_query.append(gap)
    variance = len(by_query) * np.var(by_query, ddof=1)
    share = len(sampled) * len(kept) / (len(sampled) + len(kept))
    return sum(by_query) / (variance + share * np.var([*by_document.values()], ddof=1)) ** 0.5


def looks_pooled(corpus):
    return [note for note in corpus.notes if "too often for a uniform sample" in note]


def test_a_pool_that_is_said_to_be_uniform_is_noted():
    """Scores without structure: the first 5 of each query's others, or as many at random."""
    rng, n_queries, depth = np.random.default_rng(3), 40, 5
    scores = rng.normal(size=(n_queries, 4_000))
    scores[:, :n_queries] += 2.5 * np.eye(n_queries)
    first = np.argsort(-scores[:, n_queries:], axis=1)[:, :depth] + n_queries
    pool = np.unique(first)
    qrels = {f"q{q}": {f"d{q}": 1} for q in range(n_queries)}

    def run_over(others):
        documents = [*range(n_queries), *others]
        return {
            f"q{q}": {f"d{d}": float(scores[q, d]) for d in documents} for q in range(n_queries)
        }

    uniform = n_queries + rng.choice(4_000 - n_queries, pool.size, replace=False)
    assert not looks_pooled(sm.readers.ranx(run_over(uniform), qrels, corpus_size=4_000))
    run = run_over(pool)
    (note,) = looks_pooled(sm.readers.ranx(run, qrels, corpus_size=4_000))
    excess = slow_excess({"A": run}, qrels, list(run["q0"]))
    assert f"by {excess:.1f} standard errors" in note
    assert note in sm.estimate(sm.readers.ranx(run, qrels, corpus_size=4_000), ["rr"]).notes
