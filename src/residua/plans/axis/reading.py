"""Estimates along an axis: the measured running sums, and differences of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from residua.errors import PlanError
from residua.linalg.arrays import Floats, Integers
from residua.plans.axis.rows import rows_of
from residua.plans.cells import Grouping
from residua.plans.reading import Combination, Reading
from residua.workload import Workload


@dataclass(frozen=True, eq=False)
class AxisReading(Reading):
    """Estimates from running sums on a grid.

    Args:
        plan: the plan as it was measured.
        measurements: running sums, (n,).
    """

    plan: Any
    measurements: Integers

    @property
    def summary(self) -> str:
        """What was measured, in words."""
        return f"{len(self.measurements):,} running sums of {self.plan.name!r}, with noise correlated along them."

    @cached_property
    def _sums(self) -> Floats:
        return np.asarray(self.measurements / self.plan.grid)

    def marginal(self, positions: tuple[int, ...]) -> Floats:
        """The counts of the values, or the total."""
        found: Floats = self.plan.table_along(positions, np.diff(self._sums, prepend=0.0), self._sums[-1])
        return found

    def answers(self, workload: Workload) -> tuple[Floats, Floats]:
        """Estimates and variances of every query, (queries,) each."""
        rows, answered = rows_of(workload, self.plan.attribute)
        if not answered.all():
            raise PlanError(f"only {self.plan.name!r} was measured; plan for a workload that asks for the rest.")
        return np.asarray(rows @ self._sums), self.plan.row_variances(rows)

    def combination(self, combination: Combination) -> tuple[float, float]:
        """Estimate and variance of a linear combination of cells."""
        row = self.plan.combined_row(combination)
        return float((row @ self._sums)[0]), self.plan.combination_variance(combination)

    def running(self, position: int, q: float) -> tuple[Floats, Floats] | None:
        """From passes along the axis."""
        if position != self.plan.attribute:
            return None
        return self._sums - q * self._sums[-1], self.plan.beside_total(q)

    def whitened(self) -> tuple[Grouping, Floats, Floats]:
        """Cells, rows and measurements whose noise is independent with variance 1."""
        grouping, rows = self.plan.over_cells()
        return grouping, rows, rows @ np.diff(self._sums, prepend=0.0)
