"""The unit of protection: which change to the data a guarantee hides, and what it costs.

A plan knows `pcost`, the cost of adding or removing one record: `max_i Γ_ii`. A unit turns it into the cost
of the change it protects. That cost is linear in Γ: a planner that may spend `budget` on the unit divides it
by `unit.scaled(1, replace_pcost=ratio)`; `ratio` is its plan's replace_pcost / pcost, or None if unknown.
"""

import operator
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol, SupportsIndex, runtime_checkable

from residua.errors import PrivacyError
from residua.privacy.exact import Pcost, nonnegative

_MOST_RECORDS = 2**40  # the cost is their square; beyond, no budget allows anything


@dataclass(frozen=True)
class Contribution:
    """What one person can have in the data at most: so many records, and so many in each value of some attributes.

    Args:
        records: the most records of one person.
        limits: attributes and the most records of a person in each of their values.
    """

    records: int
    limits: tuple[tuple[str, int], ...] = ()


@runtime_checkable
class Unit(Protocol):
    """What every unit of protection states: what a person can do, and what a plan costs that person."""

    @property
    def contribution(self) -> Contribution | None:
        """What the person who joins or leaves has in the data at most; None if records change instead."""
        ...

    def scaled(self, pcost: Pcost, replace_pcost: Pcost | None = None) -> Fraction:
        """The cost to this unit of a plan that costs `pcost` for one record added or removed."""
        ...


@dataclass(frozen=True)
class AddRemove:
    """A person with at most `records` records joins or leaves; by default, one record is added or removed.

    The data change by `z = Σ e_i`, at most k terms, and `zᵀΓz <= k² max_i Γ_ii`, by the triangle
    inequality for the norm `√(zᵀΓz)`.

    Guarantee: `k² pcost`, exactly: it is reached by k records in the most expensive cell.

    Args:
        records: the most records one person has; an integer from 1 to 2^40.

    Raises:
        PrivacyError: when records is anything else.

    Reference: docs/privacy.md.

    Example:
        >>> AddRemove().scaled(1)
        Fraction(1, 1)
        >>> AddRemove(records=3).scaled(0.5)
        Fraction(9, 2)
        >>> print(AddRemove(records=3))
        adding or removing a person with at most 3 records
    """

    records: int = 1

    def __post_init__(self) -> None:
        object.__setattr__(self, "records", record_count(self.records))

    @property
    def contribution(self) -> Contribution:
        """So many records, anywhere."""
        return Contribution(self.records)

    def scaled(self, pcost: Pcost, replace_pcost: Pcost | None = None) -> Fraction:
        """The cost to a person with at most k records: `k² pcost`. What a replacement costs plays no part."""
        return self.records**2 * _cost("pcost", pcost)

    def __str__(self) -> str:
        if self.records == 1:
            return "adding or removing one record"
        return f"adding or removing a person with at most {self.records} records"


@dataclass(frozen=True)
class ReplaceOne:
    """One record is changed to any other value; the number of records is public.

    Its cost is `max_ij (e_i − e_j)ᵀ Γ (e_i − e_j) = max_ij Γ_ii + Γ_jj − 2 Γ_ij`. A plan that can compute it
    passes it as `replace_pcost`. Without it the bound is `4 pcost`: `Γ_ij >= −√(Γ_ii Γ_jj) >= −pcost`. It is
    reached when only the difference of two cells is measured: `Γ = [[1, −1], [−1, 1]]` has pcost 1, and a
    replacement costs 4. The factor 2 often quoted holds if `Γ_ij >= 0` for every pair; centring makes entries
    negative, so plans of marginals may exceed it, and it is not used here.

    Guarantee: never below the true cost, if neither `pcost` nor `replace_pcost` is. It covers one record per
    person: with several, replacing a person may also change how many records there are.

    Reference: docs/privacy.md.

    Example:
        >>> ReplaceOne().scaled(1)
        Fraction(4, 1)
        >>> ReplaceOne().scaled(1, replace_pcost=2)
        Fraction(2, 1)
        >>> print(ReplaceOne())
        changing one record to any other value
    """

    @property
    def contribution(self) -> None:
        """Nobody joins or leaves."""
        return None

    def scaled(self, pcost: Pcost, replace_pcost: Pcost | None = None) -> Fraction:
        """The cost to a person whose record is changed: `replace_pcost` if given, and `4 pcost` at most."""
        bound = 4 * _cost("pcost", pcost)
        return bound if replace_pcost is None else min(bound, _cost("replace_pcost", replace_pcost))

    def __str__(self) -> str:
        return "changing one record to any other value"


def _cost(name: str, value: Pcost) -> Fraction:
    return nonnegative(name, value, "give the cost as computed from a privacy cost matrix")


def record_count(records: SupportsIndex, name: str = "records") -> int:
    """A number of records of one person, as a unit of protection takes it.

    Raises:
        PrivacyError: when it is no integer from 1 to 2^40.
    """
    try:
        count = 0 if isinstance(records, bool) else operator.index(records)
    except TypeError:
        count = 0
    if count < 1:
        raise PrivacyError(
            f"{name} must be an integer of at least 1, not {records!r}; give the most records a person has."
        )
    if count > _MOST_RECORDS:
        raise PrivacyError(f"{name} must be at most {_MOST_RECORDS:,}; give the most records a person has.")
    return count
