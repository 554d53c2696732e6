"""What a matrix plan really measures: one integer matrix on merged cells, and one noise scale."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from residua.errors import PlanError, VerificationError
from residua.linalg.arrays import Integers
from residua.linalg.lattice import Layout, layout_of_sets
from residua.linalg.modes import column_norms, integer_product, largest_entry
from residua.plans.cells import Grouping, refine
from residua.plans.matrix.price import column_sum, limited_square, moved_columns, replacement_square, replacement_sum
from residua.plans.measurements import Batch, Measurements, TableRows
from residua.plans.noise import NORMAL, Noise
from residua.plans.persons import Reach
from residua.plans.verifier import FEWEST_RECORDS, WORD, Profile, changed, even, require_scales, share


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

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The noise scale; the strategy is in the plan itself."""
        return {"scales": np.array([self.scale])}

    # ---- price

    @property
    def removable(self) -> bool:
        """Whether a replaced record may leave every table: for a cell nobody asks about, or a value left out."""
        return bool((self.columns < 0).any()) or self.drops

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
        return max(column_norms(one.strategy)) / Fraction(one.scale) ** 2

    @classmethod
    def replaced(cls, several: Sequence[Self]) -> Fraction:
        """The two columns that are farthest apart; of several over the cells of all, where they can be listed."""
        (one, *others) = several
        if one.noise != NORMAL:
            return sum((replacement_sum(each.strategy) / Fraction(each.scale) for each in several), Fraction(0))
        if not others:
            return replacement_square(moved_columns(one.strategy)) / Fraction(one.scale) ** 2
        listed = _listed(several)
        if listed is None:
            return sum((changed([each]) for each in several), Fraction(0))
        return replacement_square(np.vstack([moved_columns(rows) / scale for rows, scale in listed[1]]))

    @classmethod
    def limited(cls, several: Sequence[Self], reach: Reach) -> Fraction | None:
        """By pairs of columns, for normal noise; of several over the cells of all, where they can be listed."""
        one = several[0]
        if one.noise != NORMAL:
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
        values = [share(norm, self.scale) for norm in column_norms(self.strategy)]
        return Profile(self._grouping, np.array(values, dtype=object), 0)

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
    rows = [(cells.lifted(one.strategy, which), one.scale) for which, one in enumerate(several)]
    return Grouping(cells.attributes, cells.columns), rows
