"""How many records of a person are counted, as the counting of one domain needs it; and that data and unit agree."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from residua.domain import Domain
from residua.errors import SourceError
from residua.privacy import Person, Unit
from residua.source.options import Options

KEY_BYTES = 32
_WORD = 2**64


@dataclass(frozen=True, repr=False)
class Bound:
    """At most `records` records of a person, and at most so many in each value of some attributes.

    Args:
        records: the most records of one person that are counted.
        limits: place of an attribute in the domain → the most counted records in each of its values.
        order: the attributes' places in the order of their names: how a domain is written does not matter.
        sizes: how many values each attribute of the domain has.
        key: the secret that decides which records are counted, 32 bytes.
    """

    records: int
    limits: tuple[tuple[int, int], ...]
    order: tuple[int, ...]
    sizes: tuple[int, ...]
    key: bytes = field(repr=False)

    def __repr__(self) -> str:
        return f"Bound({self.records}, confidential)"

    @property
    def person_key(self) -> tuple[np.uint64, np.uint64]:
        """The key that ids are hashed with."""
        words = np.frombuffer(self.key, dtype="<u8")
        return words[0], words[1]

    @property
    def record_key(self) -> tuple[np.uint64, np.uint64]:
        """The key that decides among a person's records."""
        words = np.frombuffer(self.key, dtype="<u8")
        return words[2], words[3]

    @cached_property
    def places(self) -> NDArray[np.int64]:
        """Where each attribute of `order` is packed: word, factor in it, size, (attributes, 3).

        A record's codes are digits of as few 64-bit numbers as hold them: equal numbers mean equal records.
        """
        found, word, factor = np.empty((len(self.order), 3), dtype=np.int64), 0, 1
        for row, place in enumerate(self.order):
            size = self.sizes[place]
            if factor * size > _WORD // 2:  # factors fit signed numbers
                word, factor = word + 1, 1
            found[row] = word, factor, size
            factor *= size
        return found

    @property
    def words(self) -> int:
        """How many 64-bit numbers hold a record's codes."""
        return int(self.places[-1, 0]) + 1 if len(self.order) else 0

    @cached_property
    def limited(self) -> NDArray[np.int64]:
        """The limits, for the kernel: word, factor, size, most of each, (limits, 4)."""
        rows = [(*self.places[self.order.index(place)].tolist(), most) for place, most in self.limits]
        return np.array(rows, dtype=np.int64).reshape(-1, 4)


def bound_of(unit: Unit, domain: Domain, key: bytes) -> Bound | None:
    """The bound that a unit of protection puts on the counting of a domain; none where it is no person.

    Raises:
        SourceError: the unit limits an attribute that the domain lacks.
    """
    if not isinstance(unit, Person):
        return None
    assert len(key) == KEY_BYTES
    absent = [name for name in unit.limits if name not in domain]
    if absent:
        raise SourceError(
            f"the unit limits records in each value of {absent[0]!r}, which is no attribute of the domain; declare it "
            "there, or leave the limit out."
        )
    order = tuple(sorted(range(len(domain)), key=lambda place: domain.names[place]))
    limits = tuple((domain.position(name), most) for name, most in unit.limits.items())
    sizes = tuple(int(size) for size in domain.sizes)
    return Bound(unit.records, limits, order, sizes, key)


def require_agreement(options: Options, unit: Unit, domain: Domain | None = None) -> None:
    """Refuses data whose records belong to persons under a unit that bounds none, and the other way round.

    Args:
        options: what is said of the records.
        unit: whom the budget protects.
        domain: what is counted, if that is known already: the person is not in it.

    Raises:
        SourceError: they do not agree.
    """
    named = ", ".join(map(repr, options.person))
    if options.person and not isinstance(unit, Person):
        raise SourceError(
            f"the data names a person column, {named}, but what is protected is {unit}, which bounds no person's "
            "records; plan with unit=rs.Person(records=…), or leave person out."
        )
    if isinstance(unit, Person) and not options.person:
        raise SourceError(
            f"what is protected is {unit}, but the data does not say whose each record is; name the column with "
            "person=…, or declare a bound that the data are known to keep with unit=rs.AddRemove(records=…)."
        )
    if domain is not None and options.person and all(name in domain for name in options.person):
        raise SourceError(f"column {named} says who the person is and cannot be counted as well; leave it out.")
