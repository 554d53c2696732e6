"""The laws that matter, in under a minute on two cores: what `bash scripts/test -m core` runs. The one place to say so.

A whole file, or some tests of it by name. `conftest.py` puts the mark; a test holds that every name is there.
"""

from __future__ import annotations

from pathlib import Path

HERE = Path(__file__).parent
ALL = ()

CORE: dict[str, tuple[str, ...]] = {
    # the shape of the tree, and pages made from it
    "test_architecture.py": ALL,
    "test_core.py": ALL,
    "test_docs.py": ALL,
    "test_public_names.py": ALL,
    "test_trust.py": ALL,
    # what is measured, and its price
    "laws/test_measurements_and_verifier.py": ALL,
    "laws/test_product_measurements.py": ALL,
    "laws/test_privacy_unit.py": ALL,
    "laws/test_person_prices.py": (
        "test_nobody_costs_more_than_the_price_and_the_price_is_no_more_than_k_squared",
        "test_a_plan_that_was_altered_is_not_measured",
    ),
    # every fact of every form against dense algebra
    "laws/test_residual_facts.py": (
        "test_pcost_is_every_diagonal_entry_of_gamma",
        "test_variances_of_a_workload",
        "test_covariances_within_and_between_marginals_in_any_order",
        "test_replacement_cost_is_the_worst_pair_of_cells",
    ),
    "laws/test_products.py": (
        "test_every_fact_of_a_plan_is_that_of_gamma",
        "test_single_queries_and_their_covariances",
    ),
    "laws/test_dense_plan.py": (
        "test_facts_equal_plain_linear_algebra",
        "test_replacement_cost_is_the_worst_pair",
        "test_files",
    ),
    "laws/test_pure_plans.py": (
        "test_the_price_is_what_the_noise_costs_the_unit",
        "test_pooled_variances_are_those_of_dense_least_squares",
        "test_pooled_estimates_are_dense_least_squares_and_agree",
    ),
    "laws/test_toy_form.py": ALL,
    # exact noise
    "laws/test_noise_rounding.py": (
        "test_words_at_a_boundary_give_the_reference_draw",
        "test_refinement_follows_the_bits_as_deep_as_needed",
        "test_each_row_has_its_own_scale",
        "test_no_seed_can_be_given",
        "test_every_word_is_fresh_and_from_the_system",
    ),
    # the ledger: sums, limits, crashes
    "laws/test_ledger.py": ALL,
    "conformance/test_ledger_processes.py": (
        "test_a_debit_that_returned_survives_kill_9_and_the_ledger_stays_readable",
        "test_processes_racing_for_the_last_budget_win_exactly_what_is_left",
    ),
    # from data to tables, every form and every engine
    "conformance/test_measure_and_release.py": ALL,
    "conformance/test_rehearsal.py": ("test_a_broken_library_fails_before_the_debit",),
    "laws/test_product_releases.py": (
        "test_what_is_measured_is_the_integer_matrix",
        "test_without_noise_every_table_is_the_true_one",
        "test_files_come_back_equal",
    ),
    "conformance/test_source_engines.py": ("test_every_engine_counts_the_same_records",),
    # at most k records of each person
    "laws/test_person_choice.py": (
        "test_what_is_counted_is_what_plain_python_chooses_in_any_order_of_rows",
        "test_datasets_that_differ_in_one_person_differ_in_what_is_chosen_of_that_person_alone",
    ),
}


def is_core(file: str, test: str) -> bool:
    """Whether a test is one of these; its file below `tests/`, its name without parameters."""
    return file in CORE and (not CORE[file] or test in CORE[file])


class CoreFiles:
    """A plugin of pytest for runs with `-m core`: opens no other file, which would take half as long as these tests."""

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Leaves out every file that has no core test."""
        if collection_path.is_dir():
            return None
        inside = collection_path.is_relative_to(HERE) and collection_path.relative_to(HERE).as_posix() in CORE
        return None if inside else True
