"""Every claim of the ledger is checked, its status is looked at, and every check can fail."""

import inspect
import re
from fractions import Fraction
from itertools import product
from math import comb
from pathlib import Path

import pandas as pd
import pytest
from scipy import special, stats

from sampled_book.claims import MODULES, check, find, load, popularity
from sampled_book.claims.corrected import PAIRS, _counts
from sampled_book.claims.finding import (
    CONTRADICTED,
    NOT_HERE,
    REPRODUCED,
    STATUSES,
    UNSTATED,
    Finding,
    Printed,
    Trial,
    judge,
    printed_pair,
)
from sampled_book.claims.page import LABELS, by_section, by_setting, cards
from sampled_book.claims.study import COLUMNS, CORRECTED, METRICS
from sampled_book.data.study import Study
from sampled_metrics.relevant_sets import RelevantSets

CLAIMS = {claim.id: claim for claim in load()}
ROOT = Path(__file__).resolve().parents[3]

#: Claims that are not plainly reproduced. A change here is a change of what the book says of a
#: paper: look at the claim's evidence before editing it.
STATUS_FILE = Path(__file__).with_name("statuses.csv")
EXPECTED = pd.read_csv(STATUS_FILE, index_col="claim")["status"].to_dict()


@pytest.mark.pages
@pytest.mark.parametrize("claim", CLAIMS.values(), ids=CLAIMS)
def test_status_is_the_one_looked_at(claim, show):
    finding = check(claim)
    show(claim.id, "\n".join([finding.status, finding.ours, finding.setting, finding.evidence]))
    assert finding.status == EXPECTED.get(claim.id, REPRODUCED), finding


def test_expected_names_claims_of_the_ledger():
    assert set(EXPECTED) <= set(CLAIMS)


def test_the_start_page_counts_the_claims():
    page = " ".join((ROOT / "book/chapters/index.md").read_text(encoding="utf-8").split())
    words = (
        r"Of (\d+) that we checked, (\d+) hold as published, (\d+) only under a setting that the "
        r"paper does not state, and (\d+) do not"
    )
    (numbers,) = re.findall(words, page)
    counts = [
        sum(EXPECTED.get(name, REPRODUCED) == status for name in CLAIMS)
        for status in (REPRODUCED, UNSTATED)
    ]
    assert [int(number) for number in numbers] == [len(CLAIMS), *counts, len(CLAIMS) - sum(counts)]


def test_ids_are_unique():
    assert len(CLAIMS) == len(load())
    assert all(re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name) for name in CLAIMS)


def test_a_table_is_a_claim_for_each_of_its_cells(tmp_path):
    path = tmp_path / "claims.yml"
    path.write_text(
        """
- id: "t-{kind}-{side}"
  source: {key: k, section: "1", place: "{name}, {side}"}
  also: [{key: l, section: "2", place: "row {side}"}]
  claim: "{name} is so much."
  check: toy.times
  args: {kind: "{kind}", m: 9}
  chapter: c
  words: {recall@10: {name: Recall}, ap: {name: AP}}
  axes: [kind, side]
  cells:
    recall@10: {New X: "0.10", Y: {published: "2", args: {given: "3"}}}
    ap: {Y: "4"}
""",
        encoding="utf-8",
    )
    first, second, third = load(path)
    assert [first.id, second.id, third.id] == ["t-recall10-new-x", "t-recall10-y", "t-ap-y"]
    assert [first.published, second.published, third.published] == ["0.10", "2", "4"]
    assert [first.source.place, third.source.place] == ["Recall, New X", "AP, Y"]
    assert [first.other_sources[0].place, third.claim] == ["row New X", "AP is so much."]
    assert first.args == {"kind": "recall@10", "m": 9}
    assert second.args == {"kind": "recall@10", "m": 9, "given": "3"}


def test_sources_are_in_the_bibliography():
    text = (ROOT / "book" / "references.bib").read_text(encoding="utf-8")
    keys = set(re.findall(r"^@\w+\{(\w+),", text, flags=re.MULTILINE))
    assert {s.key for c in CLAIMS.values() for s in (c.source, *c.other_sources)} <= keys


def checks():
    """The names of all checks: the public functions that return a finding."""
    return {
        f"{name}.{function}"
        for name, module in MODULES.items()
        for function, value in vars(module).items()
        if inspect.isfunction(value)
        and value.__module__ == module.__name__
        and not function.startswith("_")
        and inspect.signature(value).return_annotation == "Finding"
    }


def test_every_check_is_used_and_exists():
    assert {claim.check for claim in CLAIMS.values()} == checks()


@pytest.mark.parametrize(
    ("name", "rows", "kinds"),
    [
        ("toy.exact_cell", "ABC", {"auc", "ap", "ndcg", "recall@10"}),
        ("toy.sampled_cell", "ABC", {"auc", "ap", "ndcg", "recall@10"}),
        ("movielens.exact_cell", "XYZ", {"auc", "ap", "ndcg@10", "recall@10"}),
    ],
)
def test_tables_are_complete(name, rows, kinds):
    cells = [(c.args["recommender"], c.args["kind"]) for c in CLAIMS.values() if c.check == name]
    assert sorted(cells) == sorted((row, kind) for row in rows for kind in kinds)


def test_sampled_columns_are_complete():
    def found(check_name, *args):
        claims = (claim for claim in CLAIMS.values() if claim.check == check_name)
        return sorted(tuple(claim.args[arg] for arg in args) for claim in claims)

    rows = found("corrected.sampled_cell", "recommender", "kind", "column")
    assert rows == sorted(product("XYZ", METRICS, COLUMNS))
    pairs = found("corrected.runs_in_order", "first", "second", "kind", "column")
    assert pairs == sorted((a, b, k, c) for (a, b), k, c in product(PAIRS, METRICS, COLUMNS))


def test_every_numbered_equation_is_there():
    numbers = {
        int(n)
        for claim in CLAIMS.values()
        if claim.source.key == "krichene2020"
        for n in re.findall(r"eq\. (\d+)", claim.source.place)
    }
    assert set(range(1, 27)) <= numbers


# --- every check can fail -----------------------------------------------------------------------

#: For each check a claim of the ledger and how to make it wrong: another printed value (or None
#: for the same) and other arguments.
WRONG = {
    "samplers.in_order": [("popularity-between", "popularity > uniform > all", {})],
    "samplers.inconsistent_over_sizes": [
        ("popularity-sizes-inconsistent", None, {"sizes": [100]})],
    "samplers.inconsistent_with_all": [("popularity-inconsistent", "uniform", {}),
        ("popularity-inconsistent", None, {"kinds": ["auc"]})],
    "candidates.challenged": [("llmrank-challenge", "Pop, BPRMF, SASRec", {})],
    "candidates.drawn_at_random": [("llmrank-random", "20", {}),
        ("llmrank-random", None, {"name": "pop"})],
    "candidates.ranked_among": [("llmrank-twenty-prompts", "10", {})],
    "candidates.users_listed": [("llmrank-users", "200", {})],
    "errors.agree_on_the_wrong": [("intro-low-variance-misleads", "8", {})],
    "errors.best_gamma": [("lower-gamma-preferable", "1", {})],
    "errors.better_estimate": [("abstract-better-estimate", None, {"kinds": ["auc"]})],
    "errors.bias_by_gamma": [("suggestions-lower-gamma", "higher", {})],
    "errors.bias_depends_less": [("intro-bias-alleviated", None, {"kinds": ["auc"]})],
    "corrected.closer_than_uncorrected": [("corrected-all-closer", None, {"kinds": ["auc"]}),
        ("corrected-all-closer", "uncorrected", {})],
    "corrected.closest": [("corrected-closest", "CLS, BV 0.1, BV 0.01", {})],
    "corrected.columns_in_order": [("corrected-x-y", "CLS, BV 0.1, BV 0.01, BV 0.001", {}),
        ("corrected-x-y", None, {"pairs": ["XZ"]})],
    "errors.cost_of_less_bias": [("suggestions-higher-variance", "lower variance", {})],
    "errors.indication": [("suggestions-indication", "weaker", {})],
    "errors.least_bias_observed": [("least-bias-observed", "low", {})],
    "errors.less_biased": [("rank-estimate-less-biased", "uncorrected", {}),
        ("rank-estimate-less-biased", None, {"kinds": ["auc"]})],
    "errors.low_bias_and_variance": [("cacm-low-bias-low-variance", "rank estimate", {})],
    "errors.metrics_in_state": [("cacm-uncorrected-1000", None, {"m": 1_000})],
    "errors.more_sources": [("suggestions-another-variance", "easier", {})],
    "errors.stronger_indication": [("suggestions-stronger", "BV 0.1", {}),
        ("suggestions-stronger", None, {"kinds": ["auc"]})],
    "errors.still_prone": [("suggestions-still-prone", "bias", {}),
        ("suggestions-still-prone", None, {"kinds": ["auc"]})],
    "corrected.equal_columns": [("rank-estimate-recall-ndcg", "recall@10 = ap", {}),
        ("rank-estimate-recall-ndcg", None, {"column": "CLS"})],
    "errors.error_is": [("suggestions-mostly-bias", "variance", {}),
        ("suggestions-mostly-bias", None, {"kinds": ["auc"]})],
    "corrected.exceptions": [("cacm-challenging-comparison", "Recall@10 X vs Y", {}),
        ("table4-all-but-one", None, {"column": "BV 0.01"})],
    "corrected.gammas_in_heads": [("gammas-kdd", "1.0, 0.1, 0.01, 0.01", {})],
    "errors.gains_from_users": [("users-help-corrected", "uncorrected", {}),
        ("users-help-corrected", None, {"kinds": ["auc"]})],
    "corrected.gammas_of_columns": [("gammas-cacm", "1.0, 0.1, 0.1, 0.001", {})],
    "corrected.in_order_with": [("fig6-bv-60", "40", {}),
        ("fig6-bv-60", None, {"column": "BV 1"})],
    "corrected.mistakes_resolved": [("table4-mistakes-resolved", "few", {})],
    "errors.monotone_not_needed": [("monotone-not-essential", "essential", {}),
        ("monotone-not-essential", None, {"column": "CLS"})],
    "corrected.more_effective": [("bv-higher-gains", "rank estimate > BV 0.1", {})],
    "corrected.most_effective": [("table4-most-effective", "BV 0.01", {})],
    "corrected.order_identified_better": [("corrected-order-better", None, {"kinds": ["auc"]})],
    "corrected.places_best": [("corrected-z-best", "Y", {}),
        ("corrected-z-best", None, {"kinds": ["auc"]})],
    "corrected.runs_in_order": [],  # every cell: see below
    "corrected.sampled_cell": [],  # every cell: see below
    "corrected.strictly_better": [("rank-estimate-strictly-better", None, {"column": "BV 0.1"})],
    "corrections.affine_with_one_negative": [("one-negative-corrected", "ap", {})],
    "corrections.bias_with_items": [("corrected-bias-grows-with-n", "decreases", {})],
    "corrections.bias_with_samples": [
        ("corrected-bias-falls-with-m", None, {"sizes": [100, 30, 10]})],
    "corrections.biased_by_rank_estimate": [
        ("rank-estimate-biased", "auc, ap, ndcg, recall@2", {})],
    "corrections.closer_in_expectation": [("fig4-closer", "none", {})],
    "corrections.criterion_improved": [("abstract-criteria", "bias", {})],
    "corrections.determined": [("least-squares-determined", "determined", {})],
    "corrections.general_case": [("conclusion-general-case", None, {"kinds": ["auc"]})],
    "corrections.high_variance": [("least-bias-high-variance", None, {"m": 1})],
    "corrections.in_aggregate": [("fig4-aggregate", "a problem", {})],
    "corrections.isotonic": [("monotone-isotonic", None, {"m": 5})],
    "corrections.least_bias_with_samples": [
        ("least-bias-falls-with-m", None, {"sizes": [10, 5, 2]})],
    "corrections.least_squares": [("eq22-solution", "(A.T * A + diag(c))**-1 * A.T * b", {}),
        ("eq23-matrix", "p(r) * P(r, s)", {}), ("eq23-target", "p(r) * M(r)", {}),
        ("eq25-solution", "(A.T * A + gamma * diag(c))**-1 * A.T * b", {}),
        ("eq25-marginal", "sum(P(r, s) for r in ranks)", {})],
    "corrections.monotone_constraint": [
        ("monotone-constraint-falling", "Mhat(s) > Mhat(s + 1)", {})],
    "corrections.objective": [("eq21-objective", "sum((E(r) - M(r))**2 for r in ranks)", {}),
        ("eq21-expanded", CLAIMS["eq21-expanded"].published.replace("**2", "**4"), {}),
        ("eq24-objective", CLAIMS["eq24-objective"].published.replace("+", "-"), {})],
    "corrections.objective_at": [("eq24-gamma-0", None, {"gamma": "1"}),
        ("eq24-gamma-1", None, {"gamma": "0"})],
    "corrections.oscillates": [("fig4-oscillating", "higher", {})],
    "corrections.posterior_mean": [
        ("eq26-average", "sum(P(r, s) * M(r) for r in ranks) / sum(P(r, s) for r in ranks)", {}),
        ("eq26-posterior", "sum(posterior(r, s) * M(r)**2 for r in ranks)", {})],
    "corrections.range_of_rank_estimate": [("rank-estimate-range", "0, n", {})],
    "corrections.rank_estimate": [("eq20-rank-estimate", "M(1 + (n - 1) * (s - 1) / (m + 1))", {}),
        ("eq20-linear", "M(1 + (n - 1) * (s - 1) // m)", {})],
    "corrections.rate": [("fig4-rate", "2%", {})],
    "corrections.unbiased_estimate": [("rank-unbiased-p", "(s - 1) / (m + 1)", {}),
        ("rank-unbiased-r", "1 + n * (s - 1) / m", {})],
    "corrections.unbiased_with": [("least-squares-not-unbiased", "1", {})],
    "curves.becomes_linear": [("fig3-linear-in-the-limit", None, {"sizes": [1, 2, 5]})],
    "curves.bias_grows_with_catalogue": [
        ("bias-grows-with-n", None, {"sizes": [8000, 2000, 500]})],
    "curves.consistent": [("auc-consistent", "ap", {})],
    "curves.exceeds_true_rank": [("always-underestimates", "sometimes", {})],
    "curves.inconsistent": [("intro-inconsistent", "ap, auc", {})],
    "curves.large_bias": [("fig3-ap-bias-at-1000", None, {"kind": "auc"})],
    "curves.least_position_aware": [("fig1-auc-least", "ndcg", {})],
    "curves.less_top_heavy": [("fig3-ap-less-top-heavy", None, {"kind": "auc"})],
    "curves.mean_bias_falls": [("bias-falls-with-m", None, {"sizes": [1000, 100, 10]})],
    "curves.sharpest_at_the_top": [("fig1-ap-sharpest", "ndcg", {})],
    "curves.smooth": [("fig3-recall-smooth", "ap", {})],
    "curves.top_heavy": [("fig1-top-heavy", "auc, ap, ndcg, recall@10", {})],
    "curves.unchanged_by_sampling": [("fig3-only-auc-unchanged", "ap", {})],
    "curves.variance_falls_with_instances": [("variance-falls-with-instances", "increases", {})],
    "decoys.below_the_adage": [("decoys-below-the-adage", "0.01%", {}),
        ("decoys-below-the-adage", None, {"sizes": [2, 100]})],
    "decoys.goodness_at": [("decoys-goodness-1000", "0.00006", {}),
        ("decoys-goodness-1000", None, {"n": 100})],
    "decoys.one_in": [("decoys-one-in-1000", "1 in 100K", {}),
        ("decoys-one-in-100", None, {"n": 1000})],
    "decoys.perfect_loses": [("decoys-perfect-loses", None, {"goodness": 1e-6}),
        ("decoys-perfect-loses", "rr, recall@2000", {})],
    "decoys.probably_clean": [("decoys-probably-clean", "< 0", {})],
    "decoys.required_goodness": [("decoys-required-goodness", "1 - c ** (1 / N)", {})],
    "decoys.one_at_a_time": [("one-plus-random-iterated", "other", {})],
    "decoys.users_differ": [("decoys-users-differ", None, {"correlation": 0.9})],
    "decoys.set_probability": [("decoys-none-good", None, {"event": "a good decoy"}),
        ("decoys-none-good", "1 - g ** N", {})],
    "decoys.size_depends_on": [("decoys-size-depends", "size", {})],
    "formulas.any_distribution": [("eq18-any-distribution", "cdf(k)", {})],
    "formulas.cdf_argument": [("rendle-cdf-argument", "consistent", {})],
    "formulas.cdf_linear": [("rendle-cdf-not-linear", "linear", {})],
    "formulas.consistency_of_pairs": [
        ("eq14-consistency", "(exact[A] > exact[B]) == (expected[A] < expected[B])", {})],
    "formulas.constant_at_first_rank": [("ap-at-rank-1", "1/2", {})],
    "formulas.constant_with_one_negative": [("m1-cutoff-constant", "ap", {})],
    "formulas.equal_metrics": [("reduction-rr", "rr = ndcg", {}),
        ("reduction-accuracy-recall", "accuracy = recall@2", {})],
    "formulas.equal_metrics_of_sets": [("rendle-hit-ratio", "hit@k = precision@k", {})],
    "formulas.equal_steps": [("fig1-auc-steps", None, {"kind": "ap"})],
    "formulas.expectation": [("eq16-expectation", "sum(p(i) * M(i) for i in upto(m))", {})],
    "formulas.expectation_depends_on": [("eq16-depends", "r, m", {})],
    "formulas.expected_metric": [("ap-through-auc", CLAIMS["rendle-eq30-constant"].published, {}),
        ("eq18-recall", "cdf(k)", {}), ("eq19-ap-first", None, {"replacement": False})],
    "formulas.graded_reversal": [("carries-over-to-grades", None, {"m": 4})],
    "formulas.mean_of_expectations": [("rendle-eq17-mean", "sum(E)", {})],
    "formulas.mean_over_instances": [("eq1-average", "sum(values) / (D - 1)", {})],
    "formulas.metric_of_rank": [("eq7-auc", "(n - r + 1) / n", {}),
        ("eq10-ap-k", "(r < k) / r", {}), ("eq13-ndcg", "1 / log2(r + 2)", {})],
    "formulas.metric_of_set": [
        ("eq2-auc-closed", "(n - (R + 1) / 2 - sum(ranks) / R) / (n - R)", {}),
        ("eq5-ap", CLAIMS["eq5-ap"].published.replace("min(R, k)", "R"), {}),
        ("eq6-ndcg", None, {"kind": "ap"})],
    "formulas.metrics_draw_together": [("intro-less-difference", "1, 2, 5, 10", {})],
    "formulas.one_draw": [("eq15-one-draw", "r / n", {})],
    "formulas.one_draw_at": [("eq15-ends", "1, 0", {})],
    "formulas.one_negative": [
        ("m1-linear", "r * (M(2) - M(1)) / (n - 1) + (n * M(1) + M(2)) / (n - 1)", {})],
    "formulas.prefers_first_position": [("m1-sign", "M(2) > M(1)", {})],
    "formulas.proportional_when_auc_power_small": [("ap-like-exact-far-down", "1 / r", {})],
    "formulas.rank_ratio": [("fig1-ndcg-ratio", "1.59", {}), ("fig1-ap-twice", "3", {})],
    "formulas.same_law_with_and_without": [("m1-replacement-irrelevant", "2", {})],
    "formulas.mean_sampled_rank": [("mean-rank-binomial", "m * (r - 1) / (n - 1)", {}),
        ("mean-rank-hypergeometric", "1 + m * (r - 1) / n", {})],
    "formulas.sampled_rank_law": [("law-binomial", None, {"replacement": False})],
    "formulas.samples_until_small": [("ap-many-samples", "1000", {})],
    "formulas.unbiased_auc": [("auc-unbiased-two-point", "(n - r + 1) / n", {})],
    "formulas.verdicts_agree": [("m1-same-verdict", "ap", {})],
    "movielens.best": [("fig5-z-best-in-top-10", "X", {}), ("sampled-x-best", None, {"m": None})],
    "movielens.bias_differs": [("intro-bias-depends-on-recommender", None, {"kinds": ["auc"]})],
    "movielens.bias_exceeds_spread": [("intro-high-bias-low-variance", None, {"kinds": ["auc"]})],
    "movielens.bottom_half_fewer_than": [("fig5-x-bottom-half", "200", {})],
    "movielens.dataset": [("ml1m-density", "4.48%", {})],
    "movielens.equations_give_table": [("section9-x", None, {"recommender": "Y"}),
        ("section9-x", "7.60, 3.76, 3.75, 90.13", {})],
    "movielens.exact_cell": [("table3-recall-y-exact", "8.85", {}),
        ("table3-recall-y-exact", None, {"kind": "ap"})],
    "movielens.inconsistent": [("table3-inconsistent", "recall@10, ndcg@10, ap, auc", {})],
    "movielens.intended_quantity": [("conclusion-intended-quantity", None, {"kind": "auc"})],
    "movielens.low_spread": [("sampled-low-deviation", "0.1%", {})],
    "movielens.much_better": [("sampled-x-much-better", "Y - Z > X - Y", {})],
    "movielens.n_ranks": [("users", "6041", {})],
    "movielens.negatives_needed": [("fig6-x-y-1000", "1100", {})],
    "movielens.order_of": [("exact-order", None, {"m": 100}),
        ("sampled-two-better", "X > Y", {"m": None})],
    "movielens.rank_distributions_differ": [("prior-depends-on-algorithm", "Y, Y", {})],
    "movielens.sampling_rate": [("sampling-rate-third", "1/2", {}),
        ("sampling-rate-third", None, {"m": 100})],
    "movielens.top_count": [("fig5-x-top-100", "2410", {}),
        ("fig5-x-top-100", None, {"top": 110})],
    "movielens.worst_bucket_more_than": [("fig5-z-worst-bucket", None, {"recommender": "X"}),
        ("fig5-z-worst-bucket", "2700", {})],
    "popularity.advantage_among": [("advantage-decreases", "increases", {})],
    "popularity.better_predictor": [("popularity-better-predictor", "worse", {})],
    "popularity.dataset": [("ml100k-density", "6.31%", {}),
        ("ml100k-ratings", None, {"what": "users"})],
    "popularity.density_of_row": [("ml10m-density", "1.35%", {}),
        ("ml20m-density", None, {"items": 26000})],
    "popularity.fraction_rises": [("fraction-rises", "down", {})],
    "popularity.inflection_by_fraction": [("inflection-fraction", "connected", {}),
        ("inflection-fraction", None, {"factor": 3.0})],
    "popularity.last_on_test_items": [("popularity-overemphasized", "PersMean", {})],
    "popularity.low_at": [("short-lists-few", "< 1/5", {})],
    "popularity.mostly_unpopular": [("items-not-popular", "> 9/10", {})],
    "popularity.no_rival": [("decoys-no-rival", "0.9", {})],
    "popularity.against_rated": [("goodness-1000-too-low", None, {"one_in": 100}),
        ("goodness-1000-too-low", "high", {"one_in": 300})],
    "popularity.cell_of_row": [("ml10m-ratings", "9M", {})],
    "popularity.clear_points": [("no-clear-points", "one", {}),
        ("no-clear-points", None, {"kinds": ["ndcg@10"]})],
    "popularity.enough_ratings": [("test-users-all", "21", {})],
    "popularity.mostly_unrated": [("pairs-mostly-unrated", "> 99/100", {})],
    "popularity.most_reliable": [("rank-effectiveness-reliable", "all items", {})],
    "popularity.other_question": [("rank-effectiveness-blind", "yes", {})],
    "popularity.popularity_bias": [("introduction-exacerbates", None, {"sizes": [5]})],
    "popularity.rank_consistent": [("metrics-rank-consistent", "always", {}),
        ("metrics-rank-consistent", None, {"kinds": ["recall@10", "precision@10"]})],
    "popularity.rated_per_user": [("users-rate-tens-to-hundreds", "100, 999", {})],
    "popularity.significant_by_metric": [("metrics-significance", "agree", {}),
        ("metrics-significance", None, {"kinds": ["recall@10", "precision@10"]})],
    "popularity.tested_more_often": [("popular-items-tested", "> 9/10", {})],
    "popularity.without_ratings": [("rank-effectiveness-unary", "0.9", {})],
    "popularity.noise_of_decoys": [("decoys-add-variance", "> 1/2", {})],
    "popularity.opposite_ways": [("absolute-proportional", "5", {})],
    "popularity.order_kept": [("order-kept", "sometimes", {"kinds": ["auc"]})],
    "popularity.peaks_at": [("short-lists-peak", "fewest", {})],
    "popularity.separates": [("popularity-separates", "> 9/10", {})],
    "popularity.similar_in_full_set": [("full-set-has-rivals", "300", {}),
        ("full-set-has-rivals", None, {"within": 0.01})],
    "popularity.significance_depends": [("significance-depends", "does not depend", {})],
    "popularity.similar_patterns": [("other-metrics-similar", None, {"at_least": 1.0})],
    "popularity.wider_than_at_the_ends": [("short-lists-1000", "5", {})],
    "published.belongs": [("s3rec-second-run-sports", "0.2375", {})],
    "published.best_cells": [("s3rec-best-sampled", "35", {})],
    "published.improvements": [("s3rec-improvements-sampled-beauty", None, {"dataset": "Sports"}),
        ("s3rec-improvements-sampled-yelp", "6.71, 1.82, 3.50, 0.26, 3.26, 4.07", {})],
    "survey.catalogue_sizes": [("sizes-with-100", "4k, 10k, 17k, 150k, 2M", {}),
        ("sizes-with-50", None, {"items": {"MovieLens 1M": 3706}})],
    "survey.explored_before": [("intro-not-explored", "explored", {"year": 2017})],
    "survey.orders_of_magnitude": [("orders-of-magnitude", "3", {})],
    "survey.same_set_up": [("ncf-identical", "101", {}),
        ("ncf-identical", None, {"cell": "56.61"})],
    "survey.usual_catalogue": [("intro-usual-catalogue", "millions", {})],
    "toy.alike_at_small_samples": [("m1-alike-in-figures", None, {"sizes": [1, 100]})],
    "toy.any_conclusion": [("fig2-any-conclusion", None, {"kind": "ndcg"})],
    "toy.bias_is_why": [("fig2-bias-is-why", None, {"kind": "auc"}),
        ("fig2-bias-is-why", "recommender", {})],
    "toy.bias_depends": [("fig2-bias-depends", None, {"kind": "auc"}),
        ("fig2-bias-depends", "recommender", {})],
    "toy.consistent_from": [("fig2-recall-5000", "2,000", {})],
    "toy.consistent_metrics": [("example-only-auc-consistent", "auc, ap", {})],
    "toy.disagrees": [("example-ndcg-recall-disagree", "ndcg, auc", {}),
        ("example-ndcg-recall-disagree", None, {"m": 9_000})],
    "toy.equal_values": [("example-a-equals-b", "A = C", {}),
        ("example-a-equals-b", None, {"kind": "ndcg"})],
    "toy.exact_cell": [],  # every cell: see below
    "toy.extreme": [("example-a-best-on-auc", "C", {}),
        ("example-c-lowest-sampled", None, {"m": None})],
    "toy.independent_of_sample_size": [("fig2-auc-independent", "ap", {})],
    "toy.laws_alike": [("without-replacement-similar", None, {"sizes": [9_999]})],
    "toy.similar_order": [("fig2-ndcg-similar", "auc", {})],
    "toy.most_sensitive": [("fig2-recall-most-sensitive", "ap", {})],
    "toy.order_changes": [("example-order-changes", None, {"kinds": ["ap", "auc"]}),
        ("example-order-changes", "slightly", {})],
    "toy.order_depends_on_sample_size": [("fig2-order-depends", "ap, recall@10", {})],
    "toy.order_of_three": [("fig2-ap-below-50", None, {"m": [1, 80]}),
        ("fig2-ap-near-500", "C > B > A", {})],
    "toy.pairs_in_order": [("example-no-indication", "1", {})],
    "toy.sampled_cell": [],  # every cell: see below
    "toy.times": [("example-c-ten-times-a", "11", {}),
        ("example-a-twice-b-sampled", None, {"m": None})],
}  # fmt: skip


def altered(name, published, args):
    """The finding of a claim that is made wrong; an `m` of None takes it away."""
    claim = CLAIMS[name]
    check_args = {key: value for key, value in {**claim.args, **args}.items() if value is not None}
    finding = find(claim.check)(claim.published if published is None else published, **check_args)
    assert isinstance(finding, Finding)
    return finding


def test_every_check_has_a_wrong_claim():
    assert set(WRONG) == checks()
    assert all(CLAIMS[name].check == check for check in WRONG for name, *_ in WRONG[check])


@pytest.mark.parametrize(
    ("name", "published", "args"), [case for cases in WRONG.values() for case in cases]
)
def test_a_wrong_claim_does_not_hold(name, published, args):
    assert not altered(name, published, args).holds


def cells(check_name):
    return [name for name, claim in CLAIMS.items() if claim.check == check_name]


@pytest.mark.parametrize("name", cells("toy.exact_cell"))
@pytest.mark.parametrize("units", [-1, 1])
def test_one_unit_off_contradicts_an_exact_cell(name, units):
    printed = Printed.parse(CLAIMS[name].published)
    off = printed.value + units * 10.0**-printed.decimals
    assert not altered(name, f"{off:.{printed.decimals}f}", {}).holds


@pytest.mark.parametrize("name", cells("toy.sampled_cell"))
def test_a_sampled_cell_far_off_is_contradicted(name):
    mean, spread = printed_pair(CLAIMS[name].published)
    unit = 10.0**-mean.decimals
    runs = CLAIMS[name].args["runs"]
    lowered = mean.value - 2 * unit - 6 * spread.value / runs**0.5
    widened = spread.value * 1.2 + 9 * unit
    for text in (f"{lowered:.3f} ± {spread.value:.3f}", f"{mean.value:.3f} ± {widened:.3f}"):
        assert not altered(name, text, {}).holds


@pytest.mark.parametrize("name", cells("movielens.exact_cell"))
@pytest.mark.parametrize("sign", [-1, 1])
def test_an_exact_cell_of_table_3_that_is_off_is_contradicted(name, sign):
    """By a unit of the last digit; by more where chance has a part: in Z's ties and X's start."""
    recommender, value = CLAIMS[name].args["recommender"], float(CLAIMS[name].published)
    off = {"X": 0.1 * value + 0.5, "Y": 0.01, "Z": 1.0 if value > 50 else 0.03}
    assert not altered(name, f"{value + sign * off[recommender]:.2f}", {}).holds


def off_by(name, in_mean, in_spread):
    """A cell of a sampled column of Table 3 with its two numbers moved."""
    mean, spread = printed_pair(CLAIMS[name].published)
    return f"{mean.value + in_mean:.2f} ± {spread.value + in_spread:.2f}"


@pytest.mark.parametrize("name", cells("corrected.sampled_cell"))
def test_a_sampled_cell_of_table_3_that_is_off_is_contradicted(name):
    mean, spread = printed_pair(CLAIMS[name].published)
    by_seed = 0.1 * mean.value + 0.5 if CLAIMS[name].args["recommender"] == "X" else 0.0
    # Downwards it takes more: some cells are lower without a setting that the table needs.
    rise, fall = (by_seed + 0.02 + runs * spread.value / 10 for runs in (8, 40))
    wide = 0.5 * spread.value + 0.02
    for text in (off_by(name, rise, 0), off_by(name, -fall, 0), off_by(name, 0, wide)):
        assert not altered(name, text, {}).holds, text


#: X moves with its seed, and AUC is nearly one number in all columns.
TELLING = [
    name
    for name in cells("corrected.sampled_cell")
    if CLAIMS[name].args["recommender"] != "X" and CLAIMS[name].args["kind"] != "auc"
]


@pytest.mark.parametrize("name", TELLING)
def test_a_sampled_cell_of_table_3_is_of_one_column_and_one_recommender(name):
    args = CLAIMS[name].args
    for column in set(COLUMNS) - {args["column"]}:
        assert not altered(name, None, {"column": column}).holds, column
    if args["column"] == "BV 0.001":  # whose spread covers what Y and Z differ by
        return
    counterpart = {"Y": "Z", "Z": "Y"}[args["recommender"]]
    assert not altered(name, None, {"recommender": counterpart}).holds


def test_what_x_is_given_is_what_table_3_prints():
    published_values = {claim.args["given"] for claim in CLAIMS.values() if "given" in claim.args}
    assert published_values == {CLAIMS["table3-auc-x-exact"].published}


@pytest.mark.parametrize("name", cells("corrected.runs_in_order"))
def test_a_cell_of_table_4_that_is_off_is_contradicted(name):
    count = int(CLAIMS[name].published)
    off = {0: 15, 100: 85}.get(count, count + 45 if count < 50 else count - 45)
    assert not altered(name, str(off), {}).holds


@pytest.mark.parametrize("column", CORRECTED)
def test_a_column_of_table_4_is_its_own(column):
    """For every column some cell cannot be that of the others."""
    for other_column in set(COLUMNS) - {column}:
        holds = [
            altered(name, None, {"column": other_column}).holds
            for name in cells("corrected.runs_in_order")
            if CLAIMS[name].args["column"] == column
        ]
        is_exempt = {column, other_column} == {
            "rank estimate",
            "CLS",
        }  # both see one sampled rank alone
        assert is_exempt or not all(holds), other_column


@pytest.mark.parametrize(
    ("name", "word"),
    [("least-squares-determined", "over-determined"),
     ("monotone-constraint-rising", "Mhat(s + 1) <= Mhat(s)"),
     ("monotone-isotonic", "constrained least squares"),
     ("cacm-challenging-comparison", "AP X vs Y"),
     ("rank-estimate-strictly-better", "9"), ("table3-auc-x-exact", "89.23"),
     ("intro-not-explored", "explored"), ("sizes-with-200", "17k"),
     ("section9-x", "7.60, 3.76, 3.75, 89.23"), ("order-kept", "sometimes"),
     ("decoys-goodness-1000", "0.0001"), ("s3rec-second-run-sports", "0.2875")],
)  # fmt: skip
def test_what_does_not_hold_would_hold_the_other_way(name, word):
    assert altered(name, word, {}).holds


@pytest.mark.parametrize("gap", [-0.5, 0.0, 0.48, 2.0])
def test_the_distance_of_a_count_is_that_of_its_exact_tail(gap):
    """Far out as well, where 1 less the other tail would be rounding."""
    binomial = stats.binom(100, special.ndtr(gap))
    for count in range(101):
        tail = 2 * min(binomial.cdf(count), binomial.sf(count - 1))
        distance = _counts((gap,))[0][count]
        assert distance == pytest.approx(-special.ndtri(min(tail, 1) / 2), abs=1e-9), count


# --- how a status follows from what was found ----------------------------------------------------


def test_a_finding_must_give_its_evidence():
    with pytest.raises(ValueError, match="needs evidence"):
        Finding("0.1", holds=False)
    with pytest.raises(ValueError, match="needs evidence"):
        Finding("0.1", holds=True, setting="another seed")
    with pytest.raises(ValueError, match="must show"):
        Finding("", holds=True)


def test_the_stated_setting_comes_first():
    with pytest.raises(ValueError, match="first trial"):
        judge(Trial("0.1", True, "another seed"))
    both_hold = judge(Trial("0.1", True), Trial("0.2", True, "another seed"))
    assert (both_hold.status, both_hold.ours) == (REPRODUCED, "0.1")
    second = judge(Trial("0.1", False), Trial("0.2", True, "another seed"))
    assert (second.status, second.ours, second.setting) == (UNSTATED, "0.2", "another seed")
    assert "0.1" in second.evidence
    neither = judge(Trial("0.1", False), Trial("0.2", False, "another seed"))
    assert neither.status == CONTRADICTED
    theirs = judge(Trial("0.1", False), unsettled="it is of the authors' own runs")
    assert (theirs.status, theirs.setting) == (NOT_HERE, "")
    assert judge(Trial("0.1", True), unsettled="it is of their own runs").status == REPRODUCED
    assert "0.1" in neither.evidence
    assert "0.2" in neither.evidence


@pytest.mark.parametrize(
    ("text", "low", "high"),
    [("0.990", 0.9895, 0.9905), ("~5,000", 4999.5, 5000.5), ("2", 1.5, 2.5)],
)
def test_a_printed_number_is_what_rounds_to_it(text, low, high):
    printed, step = Printed.parse(text), 1e-6 * (high - low)
    assert printed.rounds_from(low + step)
    assert printed.rounds_from(high - step)
    assert not printed.rounds_from(low - step)
    assert not printed.rounds_from(high + step)


def test_distance_in_standard_errors_leaves_out_the_rounding():
    printed = Printed.parse("0.50")
    assert printed.z(0.504, 0.01) == 0.0
    assert printed.z(0.525, 0.01) == pytest.approx(2.0)
    assert printed.z(0.6, 0.0) == float("inf")


# --- the page -------------------------------------------------------------------------------------


def test_a_rival_is_a_decoy_as_popular_as_the_test_item(monkeypatch):
    places = RelevantSets([[0, 2]], [[1, 3]], [[0, 1]], [8])
    monkeypatch.setattr(popularity, "study", lambda data: Study({"Popular": places}, *[places] * 4))
    pair = [Fraction(comb(8 - rivals, 3), comb(8, 3)) for rivals in (1, 5)]
    assert popularity._none_as_popular("", 3) == pytest.approx(float(sum(pair) / 2), rel=1e-12)
    assert popularity._none_as_popular("", 900) == 0  # all of them are decoys


def stub(status):
    return {
        CONTRADICTED: Finding("a tenth", False, evidence="We find a tenth."),
        NOT_HERE: Finding("a tenth", False, evidence="We find a tenth.", unsettled="their data"),
        UNSTATED: Finding("0.2", True, "another seed", "As stated: 0.1."),
        REPRODUCED: Finding("0.3", True),
    }[status]


@pytest.mark.parametrize(
    ("show", "status"),
    [*((show, s) for show in (cards, by_section) for s in STATUSES), (by_setting, UNSTATED)],
)
def test_the_page_shows_each_claim_once(show, status):
    claims = list(CLAIMS.values())
    text = show(claims, {claim.id: stub(status) for claim in claims})._repr_markdown_()
    assert sorted(re.findall(r'<span id="(.+?)">', text)) == sorted(CLAIMS)
    assert text.count(f"**{LABELS[status]}**") == len(claims)
    holds = status in (UNSTATED, REPRODUCED)
    assert text.count("Found: " if holds else "We find a tenth.") == len(claims)
    assert all(f"`{claim.published}`" in text for claim in claims)


def test_claims_point_at_chapters():
    chapters = Path(__file__).parents[3] / "book" / "chapters"
    labels = re.findall(
        r"(?m)^\((ch-[\w-]+)\)=$", "".join(map(Path.read_text, chapters.glob("*.md")))
    )
    assert {claim.chapter for claim in CLAIMS.values()} <= set(labels)
