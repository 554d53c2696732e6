"""What a matrix plan really measures: one integer matrix on merged cells, and one noise scale; and what that costs.

Changing the data by z changes `B x` by `B z`. Normal noise of scale s hides a change of L2 norm c at a pcost of
`c²/s²`, Laplace noise a change of L1 norm c at `ε = c/s`. One record added or removed has `z = ±e_j`; k records at most
k times that; a record that is replaced has `z = e_i − e_j`. Limits on a person's records make normal noise cheaper
(`limited_square`); in L1 norm k records in different columns can cost k times as much as one, and do in a table.

Whole numbers and fractions, from the integers alone; every step is rounded up.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Self

import numpy as np

from residua.errors import PlanError, VerificationError
from residua.linalg.arrays import Array, Floats, Integers, column_norms, integer_product, largest_entry
from residua.linalg.lattice import Layout, layout_of_sets
from residua.plans.cells import MOST_COLUMNS, Grouping, refine
from residua.plans.measurements import Batch, Measurements, TableRows
from residua.plans.noise import NORMAL, Noise
from residua.plans.verifier import FEWEST_RECORDS, WORD, Profile, changed, even, require_scales, share
from residua.privacy.costs import Reach

_MOST_WORK = 2**31  # subtractions: beyond, twice the sensitivity stands for the most expensive replacement
_MOST_STEPS = 256
_MOST_PAIRED, _TOGETHER = 2**14, 2**8  # columns of which all pairs are compared, and how many at a time with all


@dataclass(frozen=True, eq=False)
class MatrixMeasurements(Measurements):
    """Integer measurements `y = B x + round(s z)` of the merged cells of some attributes, z independent noise.

    Args:
        sizes: how many values each attribute of the domain has, (attributes,).
        attributes: positions of the attributes whose cells are told apart.
        columns: the column of each of their cells, −1 for none, (cells,).
        strategy: B, whole numbers, (rows, columns).
        scale: s; a float is an exact rational.
        noise: the distribution of z.
        drops: whether changing a record may remove it from every table (a policy `drop`).
        names: what the attributes of the domain are called, for units of protection that limit some.
    """

    sizes: Integers
    attributes: tuple[int, ...]
    columns: Integers
    strategy: Integers
    scale: float
    noise: Noise = NORMAL
    drops: bool = False
    names: tuple[str, ...] = ()

    @property
    def cells(self) -> int:
        """How many integers are measured."""
        return len(self.strategy)

    def arrays(self) -> dict[str, Array]:
        """The noise scale; the strategy is in the plan itself."""
        return {"scales": np.array([self.scale])}

    # ---- price

    @property
    def removable(self) -> bool:
        """Whether a replaced record may leave every table: for a cell nobody asks about, or a value left out."""
        return bool((self.columns < 0).any()) or self.drops

    @cached_property
    def norms(self) -> list[int]:
        """The squared L2 norm of each column."""
        return column_norms(self.strategy)

    @property
    def _grouping(self) -> Grouping:
        return Grouping(self.attributes, self.columns)

    @property
    def kin(self) -> Hashable:
        """By noise."""
        return type(self), self.noise

    @classmethod
    def added(cls, several: Sequence[Self]) -> Fraction:
        """By L2 norms of columns for normal noise, by L1 norms for Laplace noise; of several, cell by cell."""
        if len(several) > 1:
            return super().added(several)
        (one,) = several
        if one.noise != NORMAL:
            return Fraction(column_sum(one.strategy)) / Fraction(one.scale)
        return max(one.norms) / Fraction(one.scale) ** 2

    @classmethod
    def replaced(cls, several: Sequence[Self]) -> Fraction:
        """The two columns that are farthest apart; of several over the cells of all, where they can be listed."""
        (one, *others) = several
        if one.noise != NORMAL:
            return sum((replacement_sum(each.strategy) / Fraction(each.scale) for each in several), Fraction(0))
        if not others:
            if one.strategy.shape[1] > _MOST_PAIRED:
                return 4 * cls.added([one])
            return replacement_square(moved_columns(one.strategy)) / Fraction(one.scale) ** 2
        listed = _listed(several)
        if listed is None:
            return sum((changed([each]) for each in several), Fraction(0))
        return replacement_square(np.vstack([moved_columns(rows) / scale for rows, scale in listed[1]]))

    @classmethod
    def limited(cls, several: Sequence[Self], reach: Reach) -> Fraction | None:
        """By pairs of columns, for normal noise; of several over the cells of all, where they can be listed."""
        one = several[0]
        if one.noise != NORMAL or (len(several) == 1 and one.strategy.shape[1] > MOST_COLUMNS):
            return None
        if len(several) == 1:
            whole = limited_square(one.strategy.astype(np.float64), one._grouping, one.sizes, reach)
            return whole / Fraction(one.scale) ** 2
        listed = _listed(several)
        if listed is None:
            return None
        grouping, parts = listed
        return limited_square(np.vstack([rows / scale for rows, scale in parts]), grouping, one.sizes, reach)

    def profile(self) -> Profile:
        """What each column costs; with Laplace noise, what the most expensive one does, squared."""
        if self.noise != NORMAL:
            return even(self.added([self]) ** 2)
        return Profile(self._grouping, np.array([share(norm, self.scale) for norm in self.norms], dtype=object), 0)

    @property
    def most_records(self) -> int:
        """How many records may be counted before a measurement could leave 64 bits."""
        return (WORD - 2**50) // max(largest_entry(self.strategy), 1)

    def check(self) -> None:
        """Refuses what is not integer, does not fit the cells, or whose noise cannot be sampled exactly."""
        for array in (self.strategy, self.columns):
            if not np.issubdtype(array.dtype, np.integer):
                raise VerificationError("a strategy is not made of whole numbers; only integers are measured.")
        if self.strategy.ndim != 2 or not self.strategy.any():
            raise VerificationError("the plan has nothing to measure; plan for a workload.")
        cells = math.prod(int(self.sizes[i]) for i in self.attributes)
        if (
            self.columns.shape != (cells,)
            or not -1 <= self.columns.min() <= self.columns.max() < self.strategy.shape[1]
        ):
            raise VerificationError("the strategy does not fit the cells; plan again.")
        require_scales(np.array([self.scale]))
        if self.most_records < FEWEST_RECORDS:
            raise VerificationError("a strategy's entries are so large that measurements could overflow; plan again.")

    @property
    def scales_of_rows(self) -> Floats:
        """The noise scale of every integer, (rows,)."""
        return np.full(self.cells, self.scale)

    # ---- measuring

    @cached_property
    def counted(self) -> Layout:
        """The one table that must be counted."""
        return layout_of_sets([self.attributes], self.sizes)

    def batches(self) -> Sequence[Batch]:
        """All rows at once."""
        return [Batch(0, np.array([self.scale]), None)]

    def integers(self, batch: Batch, tables: Integers) -> Integers:
        """`B x`, from the counts of the cells, (1, rows)."""
        return self._products(tables[None])

    @property
    def tables(self) -> Sequence[TableRows]:
        """All rows at once."""
        if self.noise != NORMAL:
            return super().tables
        return [TableRows(0, self.attributes, 0, self.cells, self.scale)]

    def of_tables(self, rows: TableRows, tables: Integers) -> Integers:
        """`B x` of each table."""
        return self._products(tables)

    def _products(self, tables: Integers) -> Integers:
        return integer_product(self._grouping.merged(tables, self.strategy.shape[1]), self.strategy.T)


def _listed(several: Sequence[MatrixMeasurements]) -> tuple[Grouping, list[tuple[Integers, float]]] | None:
    """The cells that several measurements distinguish together, and the rows and scale of each; None: too many."""
    try:
        cells = refine(several[0].sizes, [one._grouping for one in several])
    except PlanError:
        return None
    return cells, [(cells.lifted(one.strategy, which), one.scale) for which, one in enumerate(several)]


# ---- normal noise


def replacement_square(moved: Floats) -> Fraction:
    """`max_ij ‖B_i − B_j‖²`, from floating-point products widened by a bound on their rounding.

    Args:
        moved: B, all columns moved alike (`moved_columns`), (rows, columns); each entry off by a rounding at most.
    """
    squares, largest = np.einsum("ij,ij->j", moved, moved), 0.0
    for start in range(0, moved.shape[1], _TOGETHER):
        apart = squares - 2 * (moved[:, start : start + _TOGETHER].T @ moved)
        largest = max(largest, float((apart + squares[start : start + _TOGETHER, None]).max()))
    # An entry of a product of k terms is off by at most (k + 4)·2^-52 of the largest diagonal; four of them enter.
    slack = 4 * (len(moved) + 8) * Fraction(1, 2**52) * Fraction(float(squares.max()))
    return Fraction(largest) + slack


def moved_columns(B: Integers) -> Floats:
    """The columns of a strategy, all moved alike so that what they have in common is gone, (rows, columns).

    A strategy for records that are changed may know their number very well: its differences would drown in that.
    Nothing is rounded: entries too large for it are left where they are.
    """
    rows = B.astype(np.float64)
    return rows - rows[:, :1] if float(np.abs(rows).max(initial=0.0)) < 2.0**52 else rows


# ---- Laplace noise


def column_sum(B: Integers) -> int:
    """`max_j Σ_k |B_kj|`, exactly."""
    if len(B) and largest_entry(B) < 2**62 // len(B):
        return int(np.abs(B).sum(axis=0).max(initial=0))
    return max((sum(abs(int(b)) for b in column) for column in B.T), default=0)


def replacement_sum(B: Integers) -> int:
    """`max_ij ‖B_i − B_j‖₁`, exactly or, for many columns, `2 max_j ‖B_j‖₁`, which is never less."""
    norm = column_sum(B)
    rows, n = B.shape
    if rows * n * n > _MOST_WORK or largest_entry(B) >= 2**61 // max(rows, 1):
        return 2 * norm
    columns = np.ascontiguousarray(B.T)
    return max(int(np.abs(columns[j:] - columns[j]).sum(axis=1).max()) for j in range(n))


def limited_square(rows: Floats, grouping: Grouping, sizes: Integers, reach: Reach) -> Fraction:
    """The largest `‖B z‖²` over all z that a person can have, never less.

    From floating-point products, widened by a bound on their rounding.

    Args:
        rows: B over the columns, (rows, columns); each entry off by a rounding at most.
        grouping: the attributes whose cells are told apart, and the column of each cell, −1 for none.
        sizes: how many values each attribute of the domain has, (attributes,).
        reach: what the person can do.
    """
    gram = rows.T @ rows
    largest = float(np.diag(gram).max(initial=0.0))
    positive = np.maximum(gram, 0.0)
    columns = grouping.columns.reshape([int(sizes[i]) for i in grouping.attributes])
    bounds = [
        _met(positive, np.moveaxis(columns, axis, 0).reshape(int(sizes[i]), -1), reach.records, reach.limits[i])
        for axis, i in enumerate(grouping.attributes)
        if i in reach.limits
    ]
    squared = float(reach.records) ** 2
    # Each of K² entries is a product of k terms, off by at most (k + 4)·2^-52 of the largest; n are added, twice.
    slack = squared * largest * (len(rows) + 2 * max(columns.shape, default=1) + 16) * 2.0**-51
    return Fraction(min([squared * largest, *bounds])) + Fraction(slack)


def _met(positive: Floats, columns: Integers, records: int, limit: int) -> float:
    """The bound by one attribute: columns of the cells with each of its values, (values, cells), −1 for none."""
    cells = [np.unique(row[row >= 0]) for row in columns]
    meeting = np.stack([positive[:, each].max(axis=1, initial=0.0) for each in cells], axis=1)
    met = _largest(meeting, records, limit)
    return float(_largest(np.array([[met[each].max(initial=0.0) for each in cells]]), records, limit)[0])


def _largest(values: Floats, records: int, limit: int) -> Floats:
    """For each row the largest sum of K of its values, none more than l times, (rows,)."""
    full, rest = divmod(records, limit)
    ranked = -np.sort(-values, axis=1)
    following = ranked[:, full] * rest if rest else 0.0
    return np.asarray(limit * ranked[:, :full].sum(axis=1) + following)


# ---- accuracy: how loose the bound can be


def some_person(rows: Floats, grouping: Grouping, sizes: Integers, reach: Reach) -> float:
    """`‖B z‖²` of a person whose records are put one after another where they cost most beside those before.

    Never more than the true cost, to say how loose a bound on it can be.
    """
    gram = np.pad(rows.T @ rows, (0, 1))  # −1 is the last: a cell that costs nothing
    columns = grouping.columns
    codes = np.unravel_index(np.arange(len(columns)), [int(sizes[i]) for i in grouping.attributes] or [1])
    limited = [
        (code, np.full(int(sizes[i]), reach.limits[i]))
        for i, code in zip(grouping.attributes, codes, strict=False)
        if i in reach.limits
    ]
    step = -(-reach.records // _MOST_STEPS)
    left, total, met = reach.records, 0.0, np.zeros(len(gram))
    while left:
        room = np.minimum.reduce([np.full(len(columns), min(step, left)), *(free[code] for code, free in limited)])
        gains = room * (2.0 * met[columns] + room * gram[columns, columns])
        best = int(gains.argmax())
        if gains[best] <= 0.0:
            break
        count = int(room[best])
        total += float(gains[best])
        met += count * gram[columns[best]]
        left -= count
        for code, free in limited:
            free[code[best]] -= count
    return total
