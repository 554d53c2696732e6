"""What a product plan really measures: one piece per set of short attributes, along one attribute; and its price.

A record is in one cell: it pays each piece what that says of its value of the attribute
(`Piece.record_costs`), and these add up. Normal noise is priced by squared norms, Laplace noise by absolute ones. What
a piece says in floats is enlarged by its proven error, and the sum by its own rounding.

Two cells that agree on the short attributes E share `Σ_T r_T A_T[i, j]` of Γ, `r_T = Π_{i∈T∖E} −1/(n_i − 1)`: where no
entry of A is negative, replacing a record costs no more than `2 (largest + Σ_{r_T<0} −r_T largest_T)`, the worst over
patterns E; where one may be, or there are too many patterns, four times the largest.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product
from typing import Any, Self

import numpy as np

from residua.errors import VerificationError
from residua.linalg.arrays import Array, Floats, Integers
from residua.linalg.lattice import Layout, layout_of_sets
from residua.plans.measurements import Batch, Measurements, holding
from residua.plans.noise import Noise
from residua.plans.operators.contract import Piece, RecordCosts
from residua.plans.product.set_price import contributed
from residua.plans.strategy import Plain
from residua.plans.verifier import FEWEST_RECORDS, POINT, WORD, Profile, even, rounded_up
from residua.privacy.costs import Reach

_MOST_SHORT = 8  # short attributes: 2^8 patterns of agreement, each over all sets


@dataclass(frozen=True, eq=False)
class PieceMeasurements(Measurements):
    """Integer measurements, piece after piece.

    Args:
        sizes: how many values each attribute has, (attributes,).
        attribute: the position of the attribute along which pieces are measured.
        pieces: what is measured of each set of short attributes.
        drops: whether changing a record may remove it from every table (a policy `drop`).
        names: what the attributes are called.
    """

    sizes: Integers
    attribute: int
    pieces: tuple[Piece, ...]
    drops: bool = False
    names: tuple[str, ...] = ()

    @property
    def noise(self) -> Noise:
        """That of the pieces."""
        return self.pieces[0].operator.noise

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Where the integers of each piece begin, and where they all end."""
        return tuple(np.cumsum([0, *(piece.cells for piece in self.pieces)]).tolist())

    @property
    def cells(self) -> int:
        """How many integers are measured."""
        return self.starts[-1]

    # ---- files, and estimates

    def of_piece(self, number: int, noisy: Array) -> Array:
        """What was measured of one piece."""
        return noisy[self.starts[number] : self.starts[number + 1]]

    def arrays(self) -> dict[str, Array]:
        """Grids and noise scales, piece after piece."""
        scales = [piece.scale_list for piece in self.pieces]
        grids = np.repeat([piece.grid for piece in self.pieces], [len(each) for each in scales])
        return {"grids": grids.astype(np.int64), "scales": np.concatenate(scales)}

    # ---- price

    @property
    def kin(self) -> Hashable:
        """Along one attribute, value by value: the most expensive one is not the same for all."""
        return type(self), self.attribute

    @cached_property
    def record_costs(self) -> list[RecordCosts]:
        """What one record costs each piece, all of them of attributes of the domain, with noise of one kind.

        Raises:
            VerificationError: they are not.
        """
        pieces, sizes = self.pieces, self.sizes
        if not pieces:
            raise VerificationError("the plan has nothing to measure; what it answers is already known.")
        if not 0 <= self.attribute < len(sizes) or len({piece.operator.noise.gaussian for piece in pieces}) > 1:
            raise VerificationError("the pieces do not belong together; plan again.")
        for piece in pieces:
            if any(not 0 <= i < len(sizes) for i in piece.members):
                raise VerificationError("a set names an attribute that the domain lacks; plan again.")
            own, members = tuple(int(sizes[i]) for i in piece.members), piece.members
            if piece.sizes != own or self.attribute in members or list(members) != sorted(set(members)):
                raise VerificationError("a set is not made of other attributes of the domain; plan again.")
        if self.most_records < FEWEST_RECORDS:
            raise VerificationError("the grid is so fine that numbers could overflow; plan again.")
        return [piece.record_costs(int(sizes[self.attribute])) for piece in pieces]

    def check(self) -> None:
        """Refuses pieces that do not fit the domain, noise that cannot be sampled exactly, and possible overflow."""
        _ = self.record_costs  # made once, and checked as they are made

    @classmethod
    def added(cls, several: Sequence[Self]) -> Fraction:
        """The most expensive value of the attribute, all pieces together."""
        return _largest([cost for each in several for cost in each.record_costs])

    @classmethod
    def replaced(cls, several: Sequence[Self]) -> Fraction:
        """`Γ_ii + Γ_jj − 2 Γ_ij`, by patterns of agreement; for Laplace noise as each piece says."""
        pieces = [piece for each in several for piece in each.pieces]
        costs = [cost for each in several for cost in each.record_costs]
        if not several[0].noise.gaussian:
            return sum((cost.replaced for cost in costs), Fraction(0))
        most = _largest(costs)
        return 2 * (most + _opposed(pieces, costs, several[0].sizes, most))

    @classmethod
    def limited(cls, several: Sequence[Self], reach: Reach) -> Fraction | None:
        """By pairs of records that agree on short attributes (`set_price.py`), piece by piece: operators may differ.

        No entry of an operator is larger than its largest diagonal entry. Limits along the attribute count for nothing.
        """
        if not several[0].noise.gaussian:
            return None
        total = Fraction(0)
        for piece, cost in (pair for each in several for pair in zip(each.pieces, each.record_costs, strict=True)):
            short = {i: Plain(n) for i, n in zip(piece.members, piece.sizes, strict=True)}
            total += contributed(reach, short, [(piece.members, math.ceil(_largest([cost]) * POINT))])
        return Fraction(math.ceil(total), POINT)

    def profile(self) -> Profile:
        """Nearly the same in every cell: the most expensive one stands for all; epsilon squared for Laplace noise."""
        return even(rounded_up(self.added([self])) ** (1 if self.noise.gaussian else 2))

    @property
    def most_records(self) -> int:
        """How many records may be counted before a measurement could leave 64 bits."""
        return min((WORD - 2**56) // piece.largest for piece in self.pieces)

    # ---- measuring

    def _table(self, piece: Piece) -> tuple[int, ...]:
        """The attributes of the table that a piece is made from."""
        along = (self.attribute,) if piece.operator.has_values else ()
        return tuple(sorted((*piece.members, *along)))

    @cached_property
    def counted(self) -> Layout:
        """The largest tables that pieces are made from."""
        return layout_of_sets({self._table(piece) for piece in self.pieces}, self.sizes, maximal=True)

    def _counts(self, number: int, tables: Integers) -> Integers:
        """The table of a piece, (n_1, …, n_k) or (n_1, …, n_k, n)."""
        wanted = self._table(self.pieces[number])
        table, members = holding(self.counted, tables, wanted)
        gone = tuple(axis for axis, i in enumerate(members) if i not in wanted)
        table = table.sum(axis=gone) if gone else table
        if self.attribute in wanted:
            table = np.moveaxis(table, wanted.index(self.attribute), -1)
        return np.asarray(table)

    def batches(self) -> Sequence[Batch]:
        """Those of the pieces."""
        return [
            Batch(self.starts[number] + start, scales, (number, which))
            for number, piece in enumerate(self.pieces)
            for start, scales, which in piece.batches()
        ]

    def correlation(self, batch: Batch) -> Any:
        """That of the piece."""
        number, which = batch.work
        return self.pieces[number].correlation(which)

    @property
    def drawn_at_once(self) -> int:
        """The most that a piece holds."""
        return max(piece.drawn_at_once for piece in self.pieces)

    def integers(self, batch: Batch, tables: Integers) -> Integers:
        """Some integers of a piece, exactly."""
        number, which = batch.work
        return np.asarray(self.pieces[number].integers(which, self._counts(number, tables)))

    # ---- estimates

    def simulated(self, random: np.random.Generator) -> Integers:
        """Noise like that of the measurements, (cells,): for forecasts, never for a release."""
        return np.concatenate([piece.simulated(random) for piece in self.pieces])


# ---- price


def _largest(costs: Sequence[RecordCosts]) -> Fraction:
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


def _opposed(pieces: Sequence[Piece], costs: Sequence[RecordCosts], sizes: Integers, most_of_one: Fraction) -> Fraction:
    """A bound on `−Γ_ij` for any two cells."""
    short = sorted({i for piece in pieces for i in piece.members})
    if any(each.opposed for each in costs) or len(short) > _MOST_SHORT:
        return most_of_one
    most = [_largest([each]) for each in costs]
    worst = Fraction(0)
    for agree in product((False, True), repeat=len(short)):
        apart = {i for i, same in zip(short, agree, strict=True) if not same}
        ratios = [
            math.prod((Fraction(-1, max(int(sizes[i]) - 1, 1)) for i in piece.members if i in apart), start=Fraction(1))
            for piece in pieces
        ]
        worst = max(worst, sum((-r * cost for r, cost in zip(ratios, most, strict=True) if r < 0), Fraction(0)))
    return worst
