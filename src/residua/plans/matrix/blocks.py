"""What a matrix plan really measures: one integer matrix on merged cells, and one noise scale."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from residua.errors import PlanError, VerificationError
from residua.linalg.arrays import Integers
from residua.linalg.lattice import closure
from residua.linalg.layout import Layout, layout_of
from residua.linalg.modes import column_norms, largest_entry
from residua.plans.blocks import POINT, WORD, Batch, Blocks, Profile, even, require_scales, rounded_up
from residua.plans.cells import Grouping, refine
from residua.plans.composition import composed
from residua.plans.matrix.price import column_sum, limited_square, moved_columns, price
from residua.plans.noise import NORMAL, Noise
from residua.plans.persons import by_cells, reach_of
from residua.privacy import Unit

_FEWEST_RECORDS = 2**28


@dataclass(frozen=True, eq=False)
class MatrixBlocks(Blocks):
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

    def price(self, unit: Unit) -> Fraction:
        """What measuring costs this unit: by L2 norms of columns for normal noise, by L1 norms for Laplace noise."""
        self._check_form()
        reach = reach_of(unit, self.names, self.sizes)
        records = None if reach is None else reach.records
        whole = price(self.noise, self.strategy, self.scale, unit, records=records, removable=self.removable)
        if reach is None or not reach.limits or self.noise != NORMAL:
            return whole
        limited = limited_square(self.strategy.astype(np.float64), self._grouping, self.sizes, reach)
        return min(whole, rounded_up(limited / Fraction(self.scale) ** 2))

    @property
    def _grouping(self) -> Grouping:
        return Grouping(self.attributes, self.columns)

    @classmethod
    def price_together(cls, several: Sequence[Self], unit: Unit) -> Fraction:
        """Replacements and persons over the cells of all together, where they can be listed; else their sum."""
        apart = super().price_together(several, unit)
        if len(several) < 2 or by_cells(unit) or any(one.noise != NORMAL for one in several):
            return apart
        try:
            cells = refine(several[0].sizes, [one._grouping for one in several])
        except PlanError:
            return apart
        reach = reach_of(unit, several[0].names, several[0].sizes)
        if reach is not None:
            scaled = [cells.lifted(one.strategy, which) / one.scale for which, one in enumerate(several)]
            together = Grouping(cells.attributes, cells.columns)
            limited = limited_square(np.vstack(scaled), together, several[0].sizes, reach)
            return min(apart, rounded_up(limited))
        rows = np.vstack(
            [moved_columns(cells.lifted(one.strategy, which)) / one.scale for which, one in enumerate(several)]
        )
        gram = rows.T @ rows
        diagonal = np.diag(gram)
        largest = float((diagonal[:, None] + diagonal[None, :] - 2 * gram).max())
        pcost = composed(several[0].sizes, [one.profile() for one in several]).largest
        # An entry of a product of k terms is off by at most (k + 4)·2^-52 of the largest diagonal; four of them enter.
        slack = 4 * (len(rows) + 8) * Fraction(1, 2**52) * Fraction(float(diagonal.max()))
        unasked = pcost if (cells.columns < 0).any() or several[0].drops else Fraction(0)
        return unit.scaled(pcost, max(Fraction(largest) + slack, unasked))

    def profile(self) -> Profile:
        """What each column costs; with Laplace noise, what the most expensive one does, squared."""
        if self.noise != NORMAL:
            epsilon = Fraction(column_sum(self.strategy)) / Fraction(self.scale)
            cost = epsilon * epsilon
            return even(-(-cost.numerator * POINT // cost.denominator))
        numerator, denominator = self.scale.as_integer_ratio()
        upper, lower = denominator * denominator * POINT, numerator * numerator
        values = np.array([-(-norm * upper // lower) for norm in column_norms(self.strategy)], dtype=object)
        return Profile(self._grouping, values, 0)

    @property
    def most_records(self) -> int:
        """How many records may be counted before a measurement could leave 64 bits."""
        return (WORD - 2**50) // max(largest_entry(self.strategy), 1)

    def _check_form(self) -> None:
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
        if self.most_records < _FEWEST_RECORDS:
            raise VerificationError("a strategy's entries are so large that measurements could overflow; plan again.")

    # ---- measuring

    @cached_property
    def counted(self) -> Layout:
        """The one table that must be counted."""
        lattice = closure([np.array([self.attributes], dtype=np.int32).reshape(1, -1)], len(self.sizes))
        return layout_of(lattice, self.sizes, lattice.is_maximal)

    def batches(self) -> Sequence[Batch]:
        """All rows at once."""
        return [Batch(0, np.array([self.scale]), None)]

    def integers(self, batch: Batch, tables: Integers) -> Integers:
        """`B x`, from the counts of the cells, (1, rows)."""
        x = np.zeros(self.strategy.shape[1], dtype=np.int64)
        asked = self.columns >= 0
        np.add.at(x, self.columns[asked], tables[asked])
        return np.asarray((self.strategy @ x)[None, :])
