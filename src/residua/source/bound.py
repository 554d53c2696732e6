"""Which records of a person are counted: at most so many, by a choice that depends on that person's records and a key.

A person's records are put in order by a keyed hash of (person, codes, ordinal among the person's equal records), and
taken in that order as long as no limit is broken. Neither other persons, nor the order of rows, nor how rows are cut
into batches plays a part; nor which engine delivers them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from residua.domain import Domain
from residua.errors import SourceError
from residua.privacy import Person
from residua.source.accumulate import FlatTables, add_plainly
from residua.source.person_kernel import choose

KEY_BYTES = 32
_WORD = 2**64


@dataclass(frozen=True, repr=False)
class PersonBound:
    """At most `records` records of a person, and at most so many in each value of some attributes.

    Args:
        records: the most records of one person that are counted.
        limits: place of an attribute in the domain → the most counted records in each of its values.
        order: the attributes' places in the order of their names: how a domain is written does not matter.
        sizes: how many values each attribute of the domain has.
        key: the secret that decides which records are counted, 32 bytes.
        spare: the most records of a person that are counted as left out.
        left_out: the tables in which these are counted, if that is wanted.
    """

    records: int
    limits: tuple[tuple[int, int], ...]
    order: tuple[int, ...]
    sizes: tuple[int, ...]
    key: bytes = field(repr=False)
    spare: int = 0
    left_out: FlatTables | None = field(default=None, compare=False)

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
        places, word, factor = np.empty((len(self.order), 3), dtype=np.int64), 0, 1
        for row, place in enumerate(self.order):
            size = self.sizes[place]
            if factor * size > _WORD // 2:  # factors fit signed numbers
                word, factor = word + 1, 1
            places[row] = word, factor, size
            factor *= size
        return places

    @property
    def words(self) -> int:
        """How many 64-bit numbers hold a record's codes."""
        return int(self.places[-1, 0]) + 1 if len(self.order) else 0

    @cached_property
    def limited(self) -> NDArray[np.int64]:
        """The limits, for the kernel: word, factor, size, most of each, (limits, 4)."""
        rows = [(*self.places[self.order.index(place)].tolist(), most) for place, most in self.limits]
        return np.array(rows, dtype=np.int64).reshape(-1, 4)


def bound_of(unit: Person, domain: Domain, key: bytes) -> PersonBound:
    """The bound that a unit of protection puts on the counting of a domain.

    Raises:
        SourceError: the unit limits an attribute that the domain lacks.
    """
    assert len(key) == KEY_BYTES
    absent = [name for name in unit.limits if name not in domain]
    if absent:
        raise SourceError(
            f"the unit limits records in each value of {absent[0]!r}, which is no attribute of the domain; declare it "
            "there, or leave the limit out."
        )
    summed = [name for name in unit.limits if domain[name].summed]
    if summed:
        raise SourceError(f"the unit limits records in each value of {summed[0]!r}, an amount; leave the limit out.")
    order = tuple(sorted(range(len(domain)), key=lambda place: domain.names[place]))
    limits = tuple((domain.position(name), most) for name, most in unit.limits.items())
    sizes = tuple(attribute.coded for attribute in domain.attributes.values())
    return PersonBound(unit.records, limits, order, sizes, key)


Words = NDArray[np.uint64]
MOST_EQUAL = 2**24  # records of one person that are alike: each is hashed
MOST_TOLD = 2**16  # records of a person, beyond which persons are no longer told apart by how many they have


@dataclass(frozen=True, eq=False, repr=False)
class Loss:
    """What a bound left out, for the curator's eyes and for counts with noise; what is printed of it holds no number.

    Args:
        held: how many persons have 0, 1, 2, … records, the last: that many or more, (MOST_TOLD + 1,).
        lost: how many persons lost 0, 1, 2, … records, the last: that many or more, (MOST_TOLD + 1,).
        dropped: how many records were left out in all.
        tables: those of `PersonBound.left_out`, of no more than `spare` records of a person, (cells,); 0 of none.
    """

    held: NDArray[np.int64]
    lost: NDArray[np.int64]
    dropped: int
    tables: NDArray[np.int64] = field(default_factory=lambda: np.zeros(1, np.int64))

    @staticmethod
    def none() -> Loss:
        """Of no person."""
        return Loss(np.zeros(MOST_TOLD + 1, np.int64), np.zeros(MOST_TOLD + 1, np.int64), 0)

    @staticmethod
    def of_persons_apart(persons: int) -> Loss:
        """Of so many persons with one record each, which is counted."""
        held, lost = np.zeros(MOST_TOLD + 1, np.int64), np.zeros(MOST_TOLD + 1, np.int64)
        held[1] = lost[0] = persons
        return Loss(held, lost, 0)

    def __add__(self, other: Loss) -> Loss:
        dropped, tables = self.dropped + other.dropped, self.tables + other.tables
        return Loss(self.held + other.held, self.lost + other.lost, dropped, tables)

    def __repr__(self) -> str:
        return "Loss(confidential)"


def packed(persons: Words, codes: Any, weights: NDArray[np.int64] | None, bound: PersonBound) -> Words:
    """Rows as 64-bit numbers: the person (two), the codes, and the count if there is one, (rows, 2 + words [+ 1])."""
    rows = np.zeros((len(persons), 2 + bound.words + (weights is not None)), dtype=np.uint64)
    rows[:, :2] = persons
    for place, (word, factor, _) in zip(bound.order, bound.places, strict=True):
        rows[:, 2 + word] += np.asarray(codes[place]).astype(np.uint64) * np.uint64(factor)
    if weights is not None:
        rows[:, -1] = weights.astype(np.uint64)
    return rows


def unpacked(rows: Words, bound: PersonBound) -> list[NDArray[np.int32]]:
    """The codes of packed rows, a column per attribute, in the order of the domain."""
    codes: list[Any] = [None] * len(bound.order)
    for place, (word, factor, size) in zip(bound.order, bound.places, strict=True):
        codes[place] = (rows[:, 2 + word] // np.uint64(factor) % np.uint64(size)).astype(np.int32)
    return codes


def chosen_packed(
    rows: Words, bound: PersonBound, *, weighted: bool
) -> tuple[NDArray[np.int64], NDArray[np.int64], Loss]:
    """Which rows are counted, how often each, and what was left out, of packed rows that are complete by person.

    Guarantee: what is chosen of a person, as a multiset of codes, is a function of that person's rows and the key.

    Returns:
        Numbers of rows, each with other codes or of another person; how many records are counted for it; the loss.

    Raises:
        SourceError: a person with 2^24 records or more that are all alike.
    """
    order = np.argsort(rows[:, 0], kind="stable")
    held, lost = np.zeros(MOST_TOLD + 1, np.int64), np.zeros(MOST_TOLD + 1, np.int64)
    at, counts = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
    room = len(rows) if bound.spare else 0
    left_at, left_counts = np.empty(room, np.int64), np.empty(room, np.int64)
    chosen_by = (rows, order, bound.words, weighted, bound.records, bound.limited, MOST_EQUAL, *bound.record_key)
    taken, dropped, left = choose(*chosen_by, at, counts, held, lost, bound.spare, left_at, left_counts)
    if taken < 0:
        raise SourceError(
            f"a person has {MOST_EQUAL:,} records or more that are alike; correct the counts, or leave them out."
        )
    loss = Loss(held, lost, int(dropped))
    if bound.left_out is not None:
        tables = np.zeros(int(bound.left_out.cells.sum()), np.int64)
        codes = np.array(unpacked(rows[left_at[:left]], bound)).astype(np.uint32)
        add_plainly(bound.left_out, codes, left, left_counts[:left], tables)
        loss = replace(loss, tables=tables)
    return at[:taken], counts[:taken], loss
