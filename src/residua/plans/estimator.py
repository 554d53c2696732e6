"""How estimates are read off measurements: what every form offers once its plan was measured."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from residua.errors import PlanError
from residua.linalg.arrays import Floats
from residua.linalg.lattice import Group
from residua.plans.cells import Grouping
from residua.plans.questions import combined
from residua.plans.tails import width
from residua.workload import Term, Workload, applied

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


class Estimator(ABC):
    """Estimates from measurements: unbiased, of least variance, and consistent with each other."""

    plan: Any  # as it was really measured, the rounding of noise to integers included
    noisy: NDArray[Any]  # the noisy integers, (cells,); of plans measured in many groups, (many, cells)

    @property
    @abstractmethod
    def summary(self) -> str:
        """What was measured, in words."""

    @abstractmethod
    def marginal(self, positions: tuple[int, ...]) -> Floats:
        """The estimate of a marginal, attributes in the domain's order, (…, n_1, …, n_k).

        What no measurement sees counts as zero: the plan says whether cells, or queries of them, are unbiased.
        """

    def of_term(self, term: Term) -> Floats:
        """The estimates of a table of queries, (…, rows_1, …, rows_k), from the marginal on its attributes."""
        return applied(term, self.marginal(tuple(i for i, _ in term)), first=self.noisy.ndim - 1)

    def estimates(self, workload: Workload) -> Floats:
        """The estimate of every query, whether it can be answered or not, (…, queries)."""
        many = self.noisy.shape[:-1]
        if workload.in_parts:
            estimates = np.empty((*many, workload.queries))
            for part, places in workload.placed():
                estimates[..., places] = self.estimates(part)
            return estimates
        if not workload.tabular:
            return np.asarray(self.marginal(workload.attributes).reshape(*many, -1) @ workload.matrix.T)
        tables = [self.of_term(term).reshape(*many, -1) for term in workload.terms()]
        return tables[0] if len(tables) == 1 else np.concatenate(tables, axis=-1)

    def answers(self, workload: Workload) -> tuple[Floats, Floats]:
        """Estimates and variances of every query of a workload, (queries,) each.

        Raises:
            PlanError: a query cannot be answered.
        """
        variances = self.plan.variances(workload)
        if not np.isfinite(variances).all():
            raise PlanError("the release does not answer all these queries; plan for a workload that asks for them.")
        return self.estimates(workload), variances

    def combination(self, combination: Combination) -> tuple[float, float]:
        """Estimate and variance of a linear combination of cells.

        Raises:
            PlanError: it cannot be answered.
        """
        variance = float(self.plan.combination_variance(combination))
        parts = combined(self.plan.domain, combination)
        return sum(float((self.marginal(members) * part).sum()) for members, part in parts.items()), variance

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
