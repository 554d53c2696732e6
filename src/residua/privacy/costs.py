"""The unit of protection: which change to the data a guarantee hides, and what that costs, in every currency.

A plan knows `pcost`, the cost of adding or removing one record: `max_i Γ_ii`. A unit turns it into the cost
of the change it protects. That cost is linear in Γ: a planner that may spend `budget` on the unit divides it
by `unit.scaled(1, replace_pcost=ratio)`; `ratio` is its plan's replace_pcost / pcost, or None if unknown.

A person adds `z`, a sum of at most K unit vectors, with at most l_i of them in each value of a limited attribute i. All
that a price needs to know of the limits is how many ordered pairs of records (each with itself included) can agree on
attributes B: records are in groups that agree, of at most `l = min_{i∈B} l_i`, and a sum of squares of at most K in
groups of at most l is largest with as many full groups as there are: `D_B = q l² + r²` with `K = q l + r`.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import InitVar, dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any, Protocol, SupportsIndex, runtime_checkable

from residua.errors import PlanError, PrivacyError, kind_of, named
from residua.language import mark, say
from residua.linalg.arrays import Integers
from residua.privacy.exact import Pcost, epsilon_of, nonnegative, probability, root_up, round_up

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

    def scaled(self, pcost: Pcost, replace_pcost: Pcost | None = None) -> Fraction:
        """The cost to this unit of a plan that costs `pcost` for one record added or removed."""


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
            return say("adding or removing one record")
        return say("adding or removing a person with at most {n} records", n=str(self.records))


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
        return say("changing one record to any other value")


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
        shown = named(records) if name == "records" else kind_of(records)
        raise PrivacyError(f"{name} must be an integer of at least 1, not {shown}; give the most records a person has.")
    if count > _MOST_RECORDS:
        raise PrivacyError(f"{name} must be at most {_MOST_RECORDS:,}; give the most records a person has.")
    return count


@dataclass(frozen=True)
class Person:
    """A person joins or leaves, with all their records, of which at most `records` are counted.

    The bound is enforced: a source names the column that says whose each record is (`person=`), and the measuring step
    counts at most that many of each person's records.

    Args:
        records: the most records of one person that are counted; an integer from 1 to 2^40.
        one_per: attributes in each of whose values a person has at most one counted record (one a month, say).
        per: attribute → the most counted records of a person in each of its values.

    Raises:
        PrivacyError: when an argument is anything else.

    Reference: docs/privacy.md.

    Example:
        >>> print(Person(records=12, one_per="month"))
        adding or removing a person, with at most 12 records, at most 1 in each value of 'month'
        >>> Person(records=12, per={"month": 1}) == Person(records=12, one_per=["month"])
        True
    """

    records: int
    one_per: InitVar[str | Sequence[str] | None] = None
    per: Mapping[str, int] | tuple[tuple[str, int], ...] = ()

    def __post_init__(self, one_per: str | Sequence[str] | None) -> None:
        object.__setattr__(self, "records", record_count(self.records))
        object.__setattr__(self, "per", _limits(one_per, self.per, self.records))

    @property
    def limits(self) -> dict[str, int]:
        """Attribute → the most counted records in each of its values; only those that say more than `records`."""
        return dict(self.per)

    @property
    def contribution(self) -> Contribution:
        """So many records, and so many in each value of the limited attributes."""
        return Contribution(self.records, tuple(self.limits.items()))

    def scaled(self, pcost: Pcost, replace_pcost: Pcost | None = None) -> Fraction:
        """At most `k² pcost`, as for any k records; a plan that knows its sets is priced more tightly."""
        return self.records**2 * _cost("pcost", pcost)

    def __str__(self) -> str:
        words = mark("adding or removing a person, with at most {n} records")
        words = mark("adding or removing a person, with at most 1 record") if self.records == 1 else words
        each = (say(", at most {most} in each value of {name}", most=k, name=repr(i)) for i, k in self.limits.items())
        return say(words, n=str(self.records)) + "".join(each)


def _limits(
    one_per: str | Sequence[str] | None, per: Mapping[str, int] | tuple[tuple[str, int], ...], records: int
) -> tuple[tuple[str, int], ...]:
    """The limits by attribute, sorted; those that the bound on all records implies are left out."""
    ones = () if one_per is None else (one_per,) if isinstance(one_per, str) else one_per
    if not isinstance(ones, Sequence) or not all(isinstance(name, str) and name for name in ones):
        raise PrivacyError(f"one_per={named(one_per)} is no attribute; name an attribute, or a list of them.")
    try:
        limits = dict(per)
    except (TypeError, ValueError):
        raise PrivacyError(f"per={named(per)} is not a mapping; give attribute → most records in each value.") from None
    if not all(isinstance(name, str) and name for name in limits):
        raise PrivacyError(f"per={named(per)} names something that is no attribute; give attribute → most records.")
    both = [name for name in ones if name in limits]
    if both:
        raise PrivacyError(f"{both[0]!r} is in both one_per and per; name it in one of them.")
    limits = {name: record_count(most, "a number of per") for name, most in limits.items()} | dict.fromkeys(ones, 1)
    return tuple(sorted((name, most) for name, most in limits.items() if most < records))


# ---- what a person can do to the tables of a domain


@dataclass(frozen=True)
class Reach:
    """What a person can have in the tables of a domain.

    Args:
        records: K, the most records.
        limits: positions of limited attributes → the most records in each of their values, less than K.
    """

    records: int
    limits: Mapping[int, int]

    def agreeing(self, attributes: Iterable[int]) -> int:
        """`D_B`: the most ordered pairs of a person's records that agree on these attributes, limited ones and others.

        Example:
            >>> person = Reach(12, {0: 1, 1: 5})
            >>> person.agreeing([0]), person.agreeing([1]), person.agreeing([2])
            (12, 54, 144)
        """
        most = min((self.limits[i] for i in attributes if i in self.limits), default=self.records)
        full, rest = divmod(self.records, most)
        return full * most**2 + rest**2


def reach_of(unit: Unit, names: Sequence[str], sizes: Integers) -> Reach | None:
    """What the unit's person can have in tables with these attributes; None if records change instead.

    Fewer records than the unit allows, where an attribute has too few values for them.

    Raises:
        PlanError: the unit limits an attribute that is not among the names.
    """
    contribution = unit.contribution
    if contribution is None:
        return None
    places = {name: i for i, name in enumerate(names)}
    lacking = [name for name, _ in contribution.limits if name not in places]
    if lacking:
        raise PlanError(f"the unit limits records per value of {lacking[0]!r}, which is no attribute of the domain.")
    limits = {places[name]: most for name, most in contribution.limits}
    records = min([contribution.records, *(most * int(sizes[i]) for i, most in limits.items())])
    return Reach(records, {i: most for i, most in limits.items() if most < records})


def by_cells(unit: Unit) -> bool:
    """Whether a unit costs what its most expensive cell does, times a number: then cells are added up one by one."""
    return unit.contribution is not None and not unit.contribution.limits


# ---- what people are shown: one cost in every currency, pcost, rho, mu, and epsilon at several deltas

DELTAS = (1e-6, 1e-9, 1e-12)
_PRINTED = Context(prec=5, rounding=ROUND_CEILING)


@dataclass(frozen=True)
class Currencies:
    """What a Gaussian mechanism of this pcost guarantees, in every currency.

    `rho = pcost/2`, `mu = √pcost`, and epsilon from the exact Gaussian curve, `mu` rounded up first.

    Guarantee: every figure, printed or not, is at least its true value. A cost of 0 is 0 in all of them.

    Args:
        pcost: finite and at least 0; kept exactly.
        deltas: the probabilities at which epsilon is stated, each strictly between 0 and 1, none twice.

    Raises:
        PrivacyError: when pcost or a delta is anything else.

    Reference: Balle and Wang (2018), Theorem 8.

    Example:
        >>> print(describe(1))
        pcost 1, rho 0.5, mu 1, epsilon 4.8866 at delta 1e-06, 6.174 at delta 1e-09, 7.2385 at delta 1e-12
    """

    pcost: Fraction
    deltas: tuple[float, ...] = DELTAS

    def __post_init__(self) -> None:
        deltas = tuple(probability("deltas", delta, "give probabilities such as 1e-9") for delta in self.deltas)
        if len(set(deltas)) < len(deltas):
            raise PrivacyError(f"deltas must differ from each other, not {named(deltas)}; leave out the repeated one.")
        object.__setattr__(self, "pcost", _exact(self.pcost))
        object.__setattr__(self, "deltas", deltas)

    @property
    def rho(self) -> float:
        """The zCDP parameter, rounded up."""
        return round_up(self.pcost / 2)

    @property
    def mu(self) -> float:
        """The GDP parameter, rounded up."""
        return root_up(self.pcost)

    @cached_property
    def epsilons(self) -> tuple[float, ...]:
        """Epsilon at each of the deltas, rounded up."""
        return tuple(epsilon_of(self.mu, delta) if self.pcost else 0.0 for delta in self.deltas)

    def to_dict(self) -> dict[str, float | list[dict[str, float]]]:
        """The same for JSON, in the order of printing."""
        curve = [{"delta": d, "epsilon": e} for d, e in zip(self.deltas, self.epsilons, strict=True)]
        return {"pcost": round_up(self.pcost), "rho": self.rho, "mu": self.mu, "approx_dp": curve}

    def __str__(self) -> str:
        parts = [f"pcost {printed(round_up(self.pcost))}, rho {printed(self.rho)}, mu {printed(self.mu)}"]
        pairs = zip(self.deltas, self.epsilons, strict=True)
        curve = [f"{printed(epsilon)} at delta {delta:g}" for delta, epsilon in pairs]
        return ", ".join(parts + (["epsilon " + ", ".join(curve)] if curve else []))


def describe(pcost: Pcost, deltas: Iterable[float] = DELTAS) -> Currencies:
    """What a Gaussian mechanism of this pcost guarantees, in every currency.

    Example:
        >>> describe(0.25, deltas=[1e-9]).to_dict()
        {'pcost': 0.25, 'rho': 0.125, 'mu': 0.5, 'approx_dp': [{'delta': 1e-09, 'epsilon': 2.9...}]}
    """
    return Currencies(_exact(pcost), tuple(deltas))


def _exact(pcost: Pcost) -> Fraction:
    return nonnegative("pcost", pcost, "give the largest diagonal entry of a privacy cost matrix")


def stated(guarantee: object, receipt: Mapping[str, Any]) -> str:
    """The guarantee of a whole release: with a number of records left out, it costs more than its plan promises."""
    if guarantee is None:
        return "no cost"
    if "left_out_most" not in receipt:
        return brief(guarantee)
    if "epsilon" in receipt:
        return f"PureDP(epsilon={printed(float(receipt['epsilon']))})"
    return f"ZCDP(rho={printed(describe(receipt['pcost']).rho)})"


def brief(guarantee: object, *, up: bool = True) -> str:
    """A guarantee as written in Python, its figures to six digits.

    Args:
        guarantee: the guarantee.
        up: round figures up, which promises less; down for what is left to spend.

    Example:
        >>> from residua.privacy import ZCDP
        >>> brief(ZCDP(0.013886418000000003)), brief(ZCDP(0.49999999999999994)), brief(ZCDP(0.1234567), up=False)
        ('ZCDP(rho=0.0138865)', 'ZCDP(rho=0.5)', 'ZCDP(rho=0.123456)')
    """
    context = Context(prec=6, rounding=ROUND_CEILING if up else ROUND_FLOOR)
    return re.sub(r"\d+\.\d+(e-?\d+)?", lambda figure: repr(float(context.create_decimal(figure[0]))), repr(guarantee))


def printed(number: float) -> str:
    """Five digits, rounded up as the figure itself is: 4.88655 is not printed as 4.8865."""
    return f"{float(_PRINTED.create_decimal(Decimal(repr(number)))):.5g}"
