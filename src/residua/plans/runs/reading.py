"""Estimates from measurements of runs: least squares, one pass up and one down, all else is sums of values."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from residua.errors import PlanError
from residua.linalg.arrays import Floats, Integers
from residua.plans.axis.rows import rows_of
from residua.plans.cells import Grouping
from residua.plans.reading import Answerable, Combination, Reading
from residua.plans.runs.blocks import RunsBlocks
from residua.plans.runs.intervals import laplace_widths
from residua.workload import Workload

_PART = 4_000_000  # integers read at once


@dataclass(frozen=True, eq=False)
class RunsReading(Reading):
    """Estimates of ordered values.

    Args:
        plan: the plan.
        blocks: what was measured.
        measurements: the noisy integers, (cells,).
    """

    plan: Any
    blocks: RunsBlocks
    measurements: Integers

    @property
    def summary(self) -> str:
        """What was measured, in words."""
        counts = " · ".join(f"{count:,}" for count in self.blocks.shape.counts[::-1])
        return f"{self.blocks.cells:,} integers over {counts} runs of {self.plan.name!r}."

    @cached_property
    def values(self) -> Floats:
        """The estimate of every value, (n,)."""
        up = [self._up(0, None)]
        for level in range(1, len(self.blocks.shape.parts)):
            up.append(self._up(level, up[-1].sum(axis=1)))
        total = up[-1].sum(axis=1)
        for number in range(len(up) - 1, -1, -1):
            shares = self.plan.solved.levels[number].a[self.blocks.shape.kind_of(number)]
            total = (up[number] + shares * (total - up[number].sum(axis=1))[:, None]).ravel()
        return np.asarray(total[self.blocks.shape.filled().ravel()])

    def _up(self, number: int, below: Floats | None) -> Floats:
        """The parts of every run by what is measured inside it, (runs, parts)."""
        shape, level = self.blocks.shape, self.plan.solved.levels[number]
        R, kinds = self.blocks.strategies[number], shape.kind_of(number)
        variance = self.plan.noise.variance(float(self.blocks.scales[number]))
        found = np.empty((len(kinds), shape.parts[number]))
        start, step = self.blocks.starts[number], max(_PART // len(R), 1)
        for low in range(0, len(kinds), step):
            high = min(low + step, len(kinds))
            y = np.asarray(self.measurements[start + low * len(R) : start + high * len(R)], dtype=np.float64)
            told = y.reshape(-1, len(R)) @ (R / variance)
            for kind in shape.kinds(number):
                here = kinds[low:high] == kind
                own = told[here]
                if below is not None:
                    own = own + below.reshape(-1, shape.parts[number])[low:high][here] * level.below[kind]
                found[low:high][here] = own @ level.C[kind]
        return found

    @cached_property
    def _sums(self) -> Floats:
        return np.cumsum(self.values)

    def marginal(self, positions: tuple[int, ...]) -> Floats:
        """The counts of the values, or the total."""
        found: Floats = self.plan.table_along(positions, self.values, self._sums[-1])
        return found

    def answers(self, workload: Workload) -> tuple[Floats, Floats]:
        """Estimates and variances of every query, (queries,) each."""
        rows, answered = rows_of(workload, self.plan.attribute)
        if not answered.all():
            raise PlanError(f"only {self.plan.name!r} was measured; plan for a workload that asks for the rest.")
        return np.asarray(rows @ self._sums), self.plan.solved.row_variances(rows)

    def combination(self, combination: Combination) -> tuple[float, float]:
        """Estimate and variance of a linear combination of cells."""
        row = self.plan.combined_row(combination)
        return float((row @ self._sums)[0]), float(self.plan.solved.row_variances(row)[0])

    def widths(self, asked: Answerable, confidence: float, together: float) -> float | Floats:
        """From what each measurement contributes to each answer, or bounds of it."""
        return laplace_widths(self.plan, self.blocks, asked, confidence, together)

    def whitened(self) -> tuple[Grouping, Floats, Floats]:
        """Laplace noise is not normal."""
        raise PlanError(f"{self.plan!r} has Laplace noise; give releases with Gaussian noise.")
