"""What holds of all tests and doctests: one thread, the same cases, and their marks."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

# One thread, as the tests share out the cores themselves; read when numpy is first imported.
assert "numpy" not in sys.modules
for library in ("OPENBLAS_NUM", "OMP_NUM", "MKL_NUM", "VECLIB_MAXIMUM"):
    os.environ[f"{library}_THREADS"] = "1"

from hypothesis import settings  # noqa: E402

# Property tests draw the same cases every time, so that a failure can be repeated.
settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=60)
settings.load_profile("repeatable")
# The first of these cases, for runs on a second Python or kernel (--hypothesis-profile=some).
settings.register_profile("some", settings.get_profile("repeatable"), max_examples=20)

# What is about words, files and pages; all else is about numbers.
WORDS = [
    "test_build", "test_cli", "test_datasets", "test_docstrings", "test_fuzz", "test_html",
    "test_logs", "test_pairs", "test_parameters", "test_project", "test_readme", "test_tables",
]  # fmt: skip
# About numbers that no linear algebra went into, as a trace of the lines they run showed: on other
# processors they would be the same.
ALIKE = ["test_auditing", "test_figures", "test_metrics", "test_protocol", "test_ties"]
#: Tests that take seconds and find the same on any Python, kernel and version of a library: they
#: count what chance does, start other processes, or have twins that are run everywhere.
ONCE = {
    # by chance
    "test_intervals_of_sets_cover_the_expectation_of_the_fits",
    "test_intervals_of_the_best_of_several_hold_where_each_item_is_likeliest_at_the_top",
    "test_intervals_by_chance_hold_the_exact_metric_of_many_users_with_few_negatives",
    "test_probability_is_the_share_of_right_verdicts_of_simulated_evaluations",
    "test_the_shares_are_those_of_simulated_evaluations",
    "test_verdicts_keep_their_level",
    "test_95_percent_intervals_cover_their_expectation",
    "test_dropped_duplicates_are_no_false_alarm",
    "test_equal_recommenders_have_no_verdict",
    "test_false_alarms_come_at_the_stated_rate",
    "test_few_draws_in_a_large_catalogue_keep_the_level",
    "test_intervals_by_chance_hold_the_exact_metric_of_hostile_populations",
    "test_intervals_that_count_the_fitting_cover_the_expectation",
    "test_nothing_beside_a_verdict_contradicts_it",
    "test_other_populations_are_misjudged_in_at_most_5_percent",
    "test_ranges_hold_the_exact_metric_of_hostile_populations",
    "test_intervals_by_chance_hold_the_exact_metric_of_the_least_favourable",
    "test_intervals_by_chance_hold_the_exact_metric_where_the_shape_does",
    "test_intervals_of_hostile_populations_miss_in_at_most_5_percent",
    "test_ranges_miss_in_at_most_5_percent_where_catalogues_differ_in_size",
    "test_recommenders_equal_in_the_metric_are_rarely_parted_where_the_assumption_holds",
    "test_the_expectation_of_an_e_value_is_at_most_1",
    "test_the_expected_statistic_is_exact",
    "test_the_worse_of_two_recommenders_rarely_wins_where_catalogues_differ_in_size",
    "test_two_point_populations_are_misjudged_in_at_most_5_percent",
    "test_verdicts_are_right_or_not_given",
    # by processes of their own, or workers
    "test_a_function_ranks_arrays_of_dask",
    "test_dask_resumes_by_content_and_says_what_is_wrong",
    "test_a_cluster_whose_last_worker_died_is_given_up",
    "test_a_full_disk_is_one_sentence_and_loses_nothing",
    "test_a_killed_scheduler_is_said_and_the_next_run_goes_on",
    "test_a_worker_that_dies_while_rows_are_computed_loses_none",
    "test_arrays_of_dask_are_computed_by_rows",
    "test_the_command_counts_on_workers_of_its_own",
    "test_workers_killed_at_random_change_no_rank",
    # by looking at every case of what others look at some of
    "test_moments_by_enumeration_of_repeated_decoys",
    "test_ranges_hold_all_mixtures_over_all_sets",
    "test_small_blocks_give_the_same",
    "test_standard_errors_of_sets_are_those_of_leaving_out_one_user_and_fitting_anew",
    "test_variance_of_every_small_ranking",
    "test_what_help_and_pages_show_works_as_pasted",
    "test_a_table_fits_a_terminal",
    "test_compare_says_what_a_verdict_stands_on_before_its_numbers",
    "test_expectation_maximization_climbs_to_the_same_likelihood",
    "test_order_by_negatives_equals_trying_every_m",
    "test_standard_errors_are_those_of_leaving_out_one_user_and_fitting_anew",
    "test_steepness_is_the_largest_of_the_ladder_that_holds",
    "test_the_split_of_he_et_al_has_156_users_whose_held_out_item_is_a_negative",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--shown", type=Path, help="folder to write what is shown of results to")
    parser.addoption("--margins", type=Path, help="folder to note passed tests and margins in")


def pytest_configure(config: pytest.Config) -> None:
    if folder := config.getoption("--margins"):
        from tests.rounding.margins import Recorder

        config.pluginmanager.register(Recorder(folder))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.stem not in WORDS + ALIKE:
            item.add_marker("numerical")
        if getattr(item, "originalname", "") in ONCE:
            item.add_marker("once")


@pytest.fixture
def show(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Write a text to the folder named by --shown, where runs on several kernels are compared."""
    folder: Path | None = request.config.getoption("--shown")

    def to_folder(name: str, text: str) -> None:
        if folder:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")

    return to_folder
