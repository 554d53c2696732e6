"""How estimates are read off measurements: what every form offers once its plan was measured."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from residua.errors import PlanError
from residua.linalg.arrays import Floats
from residua.linalg.layout import Group
from residua.plans.cells import Grouping
from residua.plans.tails import width
from residua.workload import Workload

Combination = Mapping[Sequence[str], ArrayLike]
Answerable = tuple[str, ...] | Workload | Combination


@dataclass(frozen=True, eq=False)
class Clique:
    """One noisy measurement of a set of attributes: its residual, or rows of coefficients over its cells.

    Args:
        members: the attributes.
        values: what was measured, flat.
        stddev: of the noise.
        rows: the coefficients, (rows, cells); None for the table minus its mean along every axis.
    """

    members: tuple[int, ...]
    values: Floats
    stddev: float
    rows: Floats | None = None


class Reading(ABC):
    """Estimates from measurements: unbiased, of least variance, and consistent with each other."""

    plan: Any  # as it was really measured, the rounding of noise to integers included

    @property
    @abstractmethod
    def summary(self) -> str:
        """What was measured, in words."""

    @abstractmethod
    def marginal(self, positions: tuple[int, ...]) -> Floats:
        """The estimate of a marginal, attributes in the domain's order; the plan says whether it is unbiased."""

    @abstractmethod
    def answers(self, workload: Workload) -> tuple[Floats, Floats]:
        """Estimates and variances of every query of a workload, (queries,) each.

        Raises:
            PlanError: a query cannot be answered.
        """

    @abstractmethod
    def combination(self, combination: Combination) -> tuple[float, float]:
        """Estimate and variance of a linear combination of cells."""

    @abstractmethod
    def whitened(self) -> tuple[Grouping, Floats, Floats]:
        """Cells, rows and measurements whose noise is independent with variance 1.

        Raises:
            PlanError: too many cells, or noise that is not normal.
        """

    def cliques(self) -> list[Clique]:
        """What was measured of each set of attributes, each with its own independent normal noise.

        Raises:
            PlanError: measurements that are not of this kind.
        """
        raise PlanError("what was measured has no independent parts with normal noise, each of one set of attributes.")

    def all_marginals(self) -> Iterator[tuple[Group, slice, Floats]]:
        """Every marginal of a family of sets in batches of equal shape, streamed: (group, which tables, estimates).

        Raises:
            PlanError: the form, or its strategies, do not rebuild tables in batches.
        """
        raise PlanError("these measurements are not read in batches; read the tables with release.tables or estimates.")

    def running(self, position: int, q: float) -> tuple[Floats, Floats] | None:
        """Estimates and variances of `C_j − q N` for the running sums C of a long attribute, N the last, (n,) each.

        None where they are not read without a matrix.
        """
        return None

    def widths(self, asked: Answerable, confidence: float, together: float) -> float | Floats:
        """How many standard deviations intervals reach: one figure for all, or one for each number, flat.

        Normal noise here; NaN for a biased plan, whose intervals would not hold the truth.
        """
        reach = width(confidence, together)
        return float(np.nan) if self.plan.bias else reach
