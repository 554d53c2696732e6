"""What pieces along one attribute cost, from the pieces alone, never less than the truth: what the verifier asks.

A record is in one cell: it pays each piece what that says of its value of the attribute
(`Piece.record_costs`), and these add up. Normal noise is priced by squared norms, Laplace noise by absolute ones. What
a piece says in floats is enlarged by its proven error, and the sum by its own rounding.

Two cells that agree on the short attributes E share `Σ_T r_T A_T[i, j]` of Γ, `r_T = Π_{i∈T∖E} −1/(n_i − 1)`: where no
entry of A is negative, replacing a record costs no more than `2 (largest + Σ_{r_T<0} −r_T largest_T)`, the worst over
patterns E; where one may be, or there are too many patterns, four times the largest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import product

import numpy as np

from residua.errors import VerificationError
from residua.linalg.arrays import Floats, Integers
from residua.plans.operators.contract import Piece, RecordCosts
from residua.plans.verifier import FEWEST_RECORDS, WORD

_MOST_SHORT = 8  # short attributes: 2^8 patterns of agreement, each over all sets


def most_records(pieces: Sequence[Piece]) -> int:
    """How many records may be counted before a measurement could leave 64 bits."""
    return min((WORD - 2**56) // piece.largest for piece in pieces)


def checked(pieces: Sequence[Piece], attribute: int, sizes: Integers) -> list[RecordCosts]:
    """What one record costs each piece, all of them of attributes of the domain, with noise of one kind.

    Raises:
        VerificationError: they are not.
    """
    if not pieces:
        raise VerificationError("the plan has nothing to measure; what it answers is already known.")
    if not 0 <= attribute < len(sizes) or len({piece.operator.noise.gaussian for piece in pieces}) > 1:
        raise VerificationError("the pieces do not belong together; plan again.")
    for piece in pieces:
        if any(not 0 <= i < len(sizes) for i in piece.members):
            raise VerificationError("a set names an attribute that the domain lacks; plan again.")
        own = tuple(int(sizes[i]) for i in piece.members)
        if piece.sizes != own or attribute in piece.members or list(piece.members) != sorted(set(piece.members)):
            raise VerificationError("a set is not made of other attributes of the domain; plan again.")
    if most_records(pieces) < FEWEST_RECORDS:
        raise VerificationError("the grid is so fine that numbers could overflow; plan again.")
    return [piece.record_costs(int(sizes[attribute])) for piece in pieces]


def largest(costs: Sequence[RecordCosts]) -> Fraction:
    """What a record costs in the most expensive cell."""
    even = sum((each.even for each in costs), Fraction(0))
    uneven = [each.uneven for each in costs if each.uneven is not None]
    if not uneven:
        return even
    total: Floats = np.zeros(1)
    for each in uneven:
        total = total + each
    error = max(each.error for each in costs)
    return even + Fraction(float(total.max())) * (1 + error) * (1 + Fraction(len(uneven) + 4, 2**52))


def opposed(pieces: Sequence[Piece], costs: Sequence[RecordCosts], sizes: Integers, most_of_one: Fraction) -> Fraction:
    """A bound on `−Γ_ij` for any two cells."""
    short = sorted({i for piece in pieces for i in piece.members})
    if any(each.opposed for each in costs) or len(short) > _MOST_SHORT:
        return most_of_one
    most = [largest([each]) for each in costs]
    worst = Fraction(0)
    for agree in product((False, True), repeat=len(short)):
        apart = {i for i, same in zip(short, agree, strict=True) if not same}
        ratios = [
            math.prod((Fraction(-1, max(int(sizes[i]) - 1, 1)) for i in piece.members if i in apart), start=Fraction(1))
            for piece in pieces
        ]
        worst = max(worst, sum((-r * cost for r, cost in zip(ratios, most, strict=True) if r < 0), Fraction(0)))
    return worst
