"""What one person can do to the tables of a domain at most: how many records, and how many pairs of them agree.

A person adds `z`, a sum of at most K unit vectors, with at most l_i of them in each value of a limited attribute i. All
that a price needs to know of the limits is how many ordered pairs of records (each with itself included) can agree on
attributes B: records are in groups that agree, of at most `l = min_{i∈B} l_i`, and a sum of squares of at most K in
groups of at most l is largest with as many full groups as there are: `D_B = q l² + r²` with `K = q l + r`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from residua.errors import PlanError
from residua.linalg.arrays import Integers
from residua.plans.tolerances import PRICE_TOLERANCE
from residua.privacy import Unit


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


def most_records(unit: Unit, names: Sequence[str], sizes: Integers) -> int | None:
    """How many records of a person can be in tables with these attributes; None if a record is replaced."""
    reach = reach_of(unit, names, sizes)
    return None if reach is None else reach.records


def most_alike(unit: Unit, names: Sequence[str], sizes: Integers, attributes: Iterable[int]) -> int:
    """How many records of a person can have the same values of all these attributes; 0 if a record is replaced.

    So many count alike in every table of them, which no mechanism with pure DP can pay less for: what a bound rests on.
    """
    reach = reach_of(unit, names, sizes)
    return 0 if reach is None else min([reach.records, *(reach.limits.get(i, reach.records) for i in attributes)])


def by_cells(unit: Unit) -> bool:
    """Whether a unit costs what its most expensive cell does, times a number: then cells are added up one by one."""
    return unit.contribution is not None and not unit.contribution.limits


# ---- what people are shown


def price_remarks(unit: Unit, slack: float) -> tuple[tuple[str, str], ...]:
    """What people should know of a price that can be above what the unit really costs, with a heading."""
    if slack <= PRICE_TOLERANCE:
        return ()
    if math.isinf(slack):
        return (("Price", "a bound; what it really costs is not computed and may be much less"),)
    change = "replacing some record" if unit.contribution is None else "some person"
    return (("Price", f"at most {100 * slack:.2g}% above what {change} really costs"),)
