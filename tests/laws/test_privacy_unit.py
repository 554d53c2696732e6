"""The unit of protection against every change it covers, tried one by one on small cost matrices."""

import dataclasses
import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, strategies as st

from residua.errors import PrivacyError
from residua.privacy import AddRemove, ReplaceOne, Unit

CELLS = 4
rows = st.lists(st.lists(st.integers(-5, 5), min_size=CELLS, max_size=CELLS), min_size=1, max_size=5)


def cost_matrix(strategy: list[list[int]]) -> np.ndarray:
    """Γ = BᵀB in whole numbers: Python integers, so exact."""
    B = np.array(strategy, dtype=object)
    return B.T @ B


def cost(gamma: np.ndarray, change: np.ndarray) -> int:
    return int(change @ gamma @ change)


def replacements(gamma: np.ndarray) -> int:
    unit = np.eye(CELLS, dtype=int).astype(object)
    return max(cost(gamma, unit[i] - unit[j]) for i, j in itertools.product(range(CELLS), repeat=2))


@given(rows, st.integers(1, 3))
def test_add_remove_is_the_worst_of_all_people_with_k_records(strategy: list[list[int]], records: int) -> None:
    gamma = cost_matrix(strategy)
    people = itertools.product(range(records + 1), repeat=CELLS)
    worst = max(cost(gamma, np.array(p, dtype=object)) for p in people if sum(p) <= records)
    assert AddRemove(records).scaled(int(max(gamma.diagonal()))) == worst


@given(rows)
def test_replace_one_is_never_below_any_replacement(strategy: list[list[int]]) -> None:
    gamma = cost_matrix(strategy)
    pcost, exact = int(max(gamma.diagonal())), replacements(gamma)
    assert ReplaceOne().scaled(pcost) >= exact
    assert ReplaceOne().scaled(pcost, replace_pcost=exact) == exact


@given(rows.map(lambda strategy: [[abs(entry) for entry in row] for row in strategy]))
def test_without_negative_entries_a_replacement_costs_at_most_double(strategy: list[list[int]]) -> None:
    gamma = cost_matrix(strategy)
    assert replacements(gamma) <= 2 * int(max(gamma.diagonal()))


def test_four_is_reached_and_two_is_not_enough_for_a_residual_plan() -> None:
    centred = [[1, -1, 0, 0], [-1, 1, 0, 0]]  # twice the residual of a two-valued attribute
    gamma = cost_matrix(centred)
    assert replacements(gamma) == 4 * int(max(gamma.diagonal())) == ReplaceOne().scaled(int(max(gamma.diagonal())))


@given(st.fractions(0, 1000), st.fractions(0, 1000), st.fractions(0, 10))
def test_cost_is_linear_in_the_plan(pcost: Fraction, replace_pcost: Fraction, factor: Fraction) -> None:
    for unit in (AddRemove(), AddRemove(4), ReplaceOne()):
        for replacement in (None, replace_pcost):
            more = None if replacement is None else factor * replacement
            assert unit.scaled(factor * pcost, more) == factor * unit.scaled(pcost, replacement)


def test_a_replacement_dearer_than_the_bound_counts_as_the_bound() -> None:
    assert ReplaceOne().scaled(1, replace_pcost=5) == 4
    assert ReplaceOne().scaled(1, replace_pcost=0) == 0


@pytest.mark.parametrize("unit", [AddRemove(), AddRemove(3), ReplaceOne()])
def test_units_are_frozen_values_with_a_name(unit: Unit) -> None:
    assert isinstance(unit, Unit)
    assert unit == dataclasses.replace(unit)  # type: ignore[type-var]
    assert str(unit).split()[0] in {"adding", "changing"}
    with pytest.raises(dataclasses.FrozenInstanceError):
        unit.records = 2  # type: ignore[attr-defined]


@pytest.mark.parametrize("records", [0, -1, True, 1.0, 1.5, "2", None, math.nan])
def test_what_is_no_number_of_records_is_refused(records: int) -> None:
    with pytest.raises(PrivacyError) as caught:
        AddRemove(records)
    assert str(caught.value).startswith(f"records must be an integer of at least 1, not {records!r}; give ")


def test_numpy_integers_count_records() -> None:
    assert type(AddRemove(np.int64(3)).records) is int


@pytest.mark.parametrize("value", [-1, math.nan, math.inf, True, "1"])
def test_units_refuse_what_is_no_cost(value: float) -> None:
    for unit in (AddRemove(), ReplaceOne()):
        with pytest.raises(PrivacyError, match=r"^pcost must be a finite number of at least 0"):
            unit.scaled(value)
    with pytest.raises(PrivacyError, match=r"^replace_pcost must be a finite number of at least 0"):
        ReplaceOne().scaled(1, replace_pcost=value)
