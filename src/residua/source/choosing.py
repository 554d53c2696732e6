"""Which records of a person are counted: a random choice that depends on that person's records and a key alone.

A person's records are put in order by a keyed hash of (person, codes, ordinal among the person's equal records), and
taken in that order as long as no limit is broken. Neither other persons, nor the order of rows, nor how rows are cut
into batches plays a part; nor which engine delivers them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from residua.errors import SourceError
from residua.source.bound import Bound

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
    """

    held: NDArray[np.int64]
    lost: NDArray[np.int64]
    dropped: int

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
        return Loss(self.held + other.held, self.lost + other.lost, self.dropped + other.dropped)

    def __repr__(self) -> str:
        return "Loss(confidential)"


def chosen(
    persons: Words, codes: Any, weights: NDArray[np.int64] | None, bound: Bound
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Which rows are counted, and how often each, of rows that are complete by person.

    Guarantee: what is chosen of a person, as a multiset of codes, is a function of that person's rows and the key.

    Args:
        persons: the hash of each row's person (`person_hashes`), (rows, 2).
        codes: a row of codes for each attribute, in the order of the domain, none negative, (attributes, rows).
        weights: how many records each row stands for, one when not given.
        bound: how many may be chosen.

    Returns:
        Numbers of rows, each with other codes or of another person, and how many records are counted for it.

    Raises:
        SourceError: a person with 2^24 records or more that are all alike.
    """
    rows, counts, _ = chosen_packed(packed(persons, codes, weights, bound), bound, weighted=weights is not None)
    return rows, counts


def packed(persons: Words, codes: Any, weights: NDArray[np.int64] | None, bound: Bound) -> Words:
    """Rows as 64-bit numbers: the person (two), the codes, and the weight if there is one, (rows, 2 + words [+ 1])."""
    rows = np.zeros((len(persons), 2 + bound.words + (weights is not None)), dtype=np.uint64)
    rows[:, :2] = persons
    for place, (word, factor, _) in zip(bound.order, bound.places, strict=True):
        rows[:, 2 + word] += np.asarray(codes[place]).astype(np.uint64) * np.uint64(factor)
    if weights is not None:
        rows[:, -1] = weights.astype(np.uint64)
    return rows


def unpacked(rows: Words, bound: Bound) -> list[NDArray[np.int32]]:
    """The codes of packed rows, a column per attribute, in the order of the domain."""
    found: list[Any] = [None] * len(bound.order)
    for place, (word, factor, size) in zip(bound.order, bound.places, strict=True):
        found[place] = (rows[:, 2 + word] // np.uint64(factor) % np.uint64(size)).astype(np.int32)
    return found


def chosen_packed(rows: Words, bound: Bound, *, weighted: bool) -> tuple[NDArray[np.int64], NDArray[np.int64], Loss]:
    """As `chosen`, of packed rows; and what was left out."""
    from residua.source.choosing_kernel import choose  # loads Numba

    order = np.argsort(rows[:, 0], kind="stable")
    held, lost = np.zeros(MOST_TOLD + 1, np.int64), np.zeros(MOST_TOLD + 1, np.int64)
    at, counts = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64)
    k0, k1 = bound.record_key
    found, dropped = choose(
        rows, order, bound.words, weighted, bound.records, bound.limited, MOST_EQUAL, k0, k1, at, counts, held, lost
    )
    if found < 0:
        raise SourceError(
            f"a person has {MOST_EQUAL:,} records or more that are alike; correct the weights, or leave them out."
        )
    return at[:found], counts[:found], Loss(held, lost, int(dropped))
