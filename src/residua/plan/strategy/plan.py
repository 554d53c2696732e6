"""Plans that measure one integer matrix on merged cells: everything about them but the kind of noise and its price."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from residua.domain import Domain
from residua.errors import PlanError, WorkloadError
from residua.plan.base import Plan
from residua.privacy import AddRemove, Guarantee, Unit
from residua.workload import Explicit, Marginals, explicit, explicit_of_marginals, marginals

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Workload = Explicit | Marginals
RANK_TOLERANCE = 1e-9  # a query this close (relative) to the measured space is in it; else it is not answerable
_BATCH = 2**22


@dataclass(frozen=True, eq=False)
class StrategyPlan(Plan):
    """What is measured: `y = B x + round(s z)` on the merged cells of some attributes, z independent noise.

    Answers are least squares: the covariance of `W x̂` is `W (BᵀB)⁺ Wᵀ` times the variance of one measurement's
    noise, whatever its distribution.

    Args:
        domain: what the table may hold.
        attributes: positions of the attributes whose cells are told apart.
        columns: the column of B of each cell of those attributes, −1 for a cell nobody asks about, (cells,).
        strategy: B, whole numbers, (rows, columns).
        scale: s, the noise scale.
        guarantee: what measuring the plan guarantees.
        unit: whom it protects.
        workload: the queries that were asked.
        objective: what the plan was optimised for, in words.
        gap: proven bound on how far from optimal the plan is, relative; infinite when nothing is proven.
        bias: what answers may be off by systematically, a record, as a root mean square over the queries; 0 unless an
            approximate plan was asked for.
    """

    domain: Domain
    attributes: tuple[int, ...]
    columns: Integers
    strategy: Integers
    scale: float
    guarantee: Guarantee | None
    unit: Unit = field(default_factory=AddRemove)
    workload: Explicit | None = None
    objective: str = ""
    gap: float = np.inf
    bias: float = 0.0

    def __post_init__(self) -> None:
        for name in ("columns", "strategy"):
            array = np.array(getattr(self, name), dtype=np.int64)
            array.setflags(write=False)
            object.__setattr__(self, name, array)
        if self.columns.shape != (math.prod(self.shape),):
            raise PlanError(
                f"columns has shape {self.columns.shape}; give one for each of {math.prod(self.shape)} cells."
            )
        if self.strategy.ndim != 2 or self.columns.max(initial=-1) != self.strategy.shape[1] - 1:
            raise PlanError("the strategy does not fit the cells; it belongs to another plan.")

    @property
    def shape(self) -> tuple[int, ...]:
        """How many values each of the attributes has."""
        return tuple(int(self.domain.sizes[i]) for i in self.attributes)

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes whose cells are told apart."""
        return tuple(self.domain.names[i] for i in self.attributes)

    # ---- accuracy

    @cached_property
    def factors(self) -> tuple[Floats, Floats, Floats]:
        """Singular values and vectors of B within its numerical rank: (rows, r), (r,), (r, columns)."""
        U, s, Vt = np.linalg.svd(self.strategy.astype(np.float64), full_matrices=False)
        rank = int((s > s[0] * 1e-12).sum())
        return U[:, :rank], s[:rank], Vt[:rank]

    @property
    @abstractmethod
    def noise_variance(self) -> float:
        """The variance of the noise on each measurement, its rounding included."""

    def supports(self, workload: Workload | Sequence[str]) -> bool:
        """Whether all these queries (or the marginal on these attributes) can be answered without bias."""
        return bool(np.isfinite(self.variances(self.asked(workload))).all())

    def variance(self, attributes: Sequence[str]) -> Floats:
        """The variance of every cell of the marginal on these attributes, an array with one axis each.

        Raises:
            PlanError: the plan cannot answer this marginal.
        """
        names = tuple(attributes)
        found = self.variances(self.asked(names))
        if not np.isfinite(found).all():
            raise PlanError(
                f"this plan does not answer the marginal on {names!r}; plan for a workload that asks for it."
            )
        order = np.argsort(np.argsort(self.domain.positions(names)))
        shape = [int(self.domain.sizes[i]) for i in sorted(self.domain.positions(names))]
        return np.array(found.reshape(shape).transpose(order))

    def variances(self, workload: Workload) -> Floats:
        """The variance of every query of a workload, (queries,); infinite where it cannot be answered."""
        asked = self.asked(workload)
        _, s, _ = self.factors
        found = np.full(asked.queries, np.inf)
        for rows, inside, good in self._projected(asked):
            found[rows[good]] = ((inside[good] / s) ** 2).sum(axis=1) * self.noise_variance
        return found

    def covariance(self, workload: Workload, other: Workload | None = None) -> Floats:
        """Covariances of all queries of a workload, or between those of two, (queries, queries).

        Raises:
            PlanError: a query cannot be answered, or there are too many for a matrix.
        """
        first, second = self.asked(workload), self.asked(workload if other is None else other)
        if first.queries * second.queries > 2**27:
            raise PlanError(f"a covariance matrix of {first.queries:,} by {second.queries:,} queries is too large.")
        a, b = self.coordinates(first), self.coordinates(second)
        return np.asarray((a / self.factors[1]) @ (b / self.factors[1]).T * self.noise_variance)

    def coordinates(self, workload: Workload) -> Floats:
        """The queries in the orthonormal basis of the measured space (see `factors`), (queries, r).

        Raises:
            PlanError: a query cannot be answered without bias.
        """
        return np.vstack([inside for _, inside, _ in self._required(self.asked(workload))])

    def reconstruction(self, workload: Workload) -> Floats:
        """The matrix that turns measurements into the best unbiased answers, (queries, measurements)."""
        U, s, _ = self.factors
        return np.asarray((self.coordinates(workload) / s) @ U.T)

    def combination_variance(self, combination: Mapping[Sequence[str], ArrayLike]) -> float:
        """Variance of a linear combination of cells: attribute set → coefficients, an array over its cells."""
        return float(self.covariance(self.combined(combination))[0, 0])

    def combined(self, combination: Mapping[Sequence[str], ArrayLike]) -> Explicit:
        """A linear combination of cells as one query."""
        if not combination:
            raise PlanError("combination is empty; give coefficients for at least one marginal.")
        total = np.zeros(self.shape)
        for names, given in combination.items():
            positions = self.domain.positions(names)
            shape = tuple(int(self.domain.sizes[i]) for i in positions)
            coefficients = np.asarray(given, dtype=np.float64)
            if coefficients.shape != shape or not np.isfinite(coefficients).all():
                raise PlanError(f"the coefficients of {tuple(names)!r} must be finite and of shape {shape}.")
            if not set(positions) <= set(self.attributes):
                raise PlanError(f"this plan does not answer the marginal on {tuple(names)!r}; plan for it.")
            inner = coefficients.transpose(np.argsort(positions))
            wide = [n if i in positions else 1 for i, n in zip(self.attributes, self.shape, strict=True)]
            total = total + inner.reshape(wide)
        return explicit(self.domain, total.reshape(1, -1), attributes=self.names)

    # ---- files and plumbing

    def save(self, path: str | Path) -> None:
        """Writes the plan to a JSON file that `Plan.load` reads."""
        from residua.plan.storage import save_plan

        save_plan(self, Path(path))

    def replaced(self, **changes: Any) -> Self:
        """The same plan with some fields changed."""
        return replace(self, **changes)

    def asked(self, workload: Workload | Sequence[str]) -> Explicit:
        """Any workload, or the marginal on some attributes, as explicit queries."""
        if not isinstance(workload, Explicit | Marginals):
            workload = marginals(self.domain, [workload])
        if workload.domain != self.domain:
            raise PlanError("the plan and the workload are over different domains; declare one domain for both.")
        if isinstance(workload, Explicit):
            return workload
        try:
            return explicit_of_marginals(workload)
        except WorkloadError as problem:
            raise PlanError(str(problem)) from None

    def _required(self, workload: Explicit) -> list[tuple[Integers, Floats, NDArray[np.bool_]]]:
        parts = list(self._projected(workload))
        if not all(good.all() for _, _, good in parts):
            raise PlanError("this plan does not answer all of these queries; plan for a workload that asks for them.")
        return parts

    def _projected(self, workload: Explicit) -> Any:
        """Batches of (rows, coordinates in the measured space, which rows lie in it)."""
        if not set(workload.attributes) <= set(self.attributes):
            yield (
                np.arange(workload.queries),
                np.zeros((workload.queries, len(self.factors[1]))),
                np.zeros(workload.queries, bool),
            )
            return
        wide = workload.over(self.attributes)
        asked = self.columns >= 0
        first = first_cells(self.columns)
        Vt = self.factors[2]
        step = max(1, _BATCH // max(wide.shape[1], 1))
        for start in range(0, workload.queries, step):
            rows = np.arange(start, min(start + step, workload.queries))
            full = wide[rows].toarray()
            merged = full[:, first]
            apart = full - np.where(asked, merged[:, np.maximum(self.columns, 0)], 0.0)
            inside = merged @ Vt.T
            outside = np.linalg.norm(merged - inside @ Vt, axis=1)
            size = np.linalg.norm(merged, axis=1)
            yield rows, inside, (outside <= RANK_TOLERANCE * size) & (np.abs(apart).max(axis=1, initial=0.0) == 0)


def first_cells(columns: Integers) -> Integers:
    """For each column, the first of the cells it stands for, (columns,)."""
    asked = np.flatnonzero(columns >= 0)
    first = np.zeros(int(columns.max(initial=-1)) + 1, dtype=np.int64)
    first[columns[asked][::-1]] = asked[::-1]
    return first
