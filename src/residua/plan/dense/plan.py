"""Dense plans: any linear queries, measured through an integer strategy on the cells that queries tell apart."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from residua.domain import Domain, Label
from residua.errors import PlanError
from residua.plan.base import Plan
from residua.plan.dense.space import MeasuredSpace
from residua.privacy import AddRemove, Guarantee, ReplaceOne, Unit
from residua.workload import Explicit

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
_ROUNDING_VARIANCE = 1.0 / 12.0


@dataclass(frozen=True, eq=False)
class DensePlan(MeasuredSpace, Plan):
    """What is measured: `y = B x + round(s z)` on the merged cells of some attributes.

    Guarantee: measuring this plan costs at most `unit_pcost`, within `guarantee`, for the unit of protection `unit`.

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

    # ---- cost

    @cached_property
    def _diagonal(self) -> Floats:
        return np.asarray((self.strategy.astype(np.float64) ** 2).sum(axis=0) / self.scale**2)

    @cached_property
    def pcost(self) -> float:
        """`max diag Γ`: the privacy cost for one record added or removed."""
        return float(self._diagonal.max(initial=0.0))

    @cached_property
    def unit_pcost(self) -> float:
        """The privacy cost for the plan's unit of protection."""
        return float(self.unit.scaled(self.pcost, self.replacement if isinstance(self.unit, ReplaceOne) else None))

    @cached_property
    def replacement(self) -> float:
        """The largest cost of replacing one record by another."""
        if not self.pcost:
            return 0.0
        gram = self.gamma
        diagonal = np.diag(gram)
        pairs = diagonal[:, None] + diagonal[None, :] - 2 * gram
        # A record changed to a cell nobody asks about, or to a value that is left out, is a record removed.
        unasked = float(diagonal.max()) if (self.columns < 0).any() or self.domain.drops else 0.0
        return max(float(pairs.max()), unasked)

    @cached_property
    def profile(self) -> Floats:
        """The privacy profile: what the plan costs a person in each cell, an array with one axis an attribute."""
        padded = np.append(self._diagonal, 0.0)
        return np.asarray(padded[self.columns].reshape(self.shape))

    def cell_pcost(self, cell: Mapping[str, Label]) -> float:
        """What the plan costs a person with these values of the plan's attributes.

        Example: `plan.cell_pcost({"age": 30, "sex": "Female"})`.
        """
        from residua.plan.residual.covariance import codes

        at = codes(self.domain, cell)
        if set(at) != set(self.attributes):
            raise PlanError(f"cell must give a value for each of {', '.join(self.names)}.")
        return float(self.profile[tuple(at[i] for i in self.attributes)])

    def free(self, tolerance: float = 1e-6) -> NDArray[np.bool_]:
        """Cells with budget left: more queries on them alone cost nothing, an array with one axis an attribute."""
        return np.asarray(self.profile < self.pcost * (1 - tolerance))

    # ---- accuracy

    @cached_property
    def gamma(self) -> Floats:
        """The privacy cost matrix on the merged cells, `BᵀB/s²`, (columns, columns)."""
        B = self.strategy.astype(np.float64) / self.scale
        return np.asarray(B.T @ B)

    @cached_property
    def factors(self) -> tuple[Floats, Floats, Floats]:
        """Singular values and vectors of B within its numerical rank: (rows, r), (r,), (r, columns)."""
        U, s, Vt = np.linalg.svd(self.strategy.astype(np.float64), full_matrices=False)
        rank = int((s > s.max(initial=0.0) * 1e-12).sum())
        return U[:, :rank], s[:rank], Vt[:rank]

    @property
    def noise_variance(self) -> float:
        """The variance of the noise on each measurement, its rounding included."""
        return self.scale**2 + _ROUNDING_VARIANCE

    # ---- algebra

    def derivation(self, other: Plan) -> tuple[Floats, Floats]:
        """How another plan is computed from this one: A and C with `B_other = A B` and `I = A Aᵀ + C Cᵀ`.

        For measurements divided by their noise scales: the other's are distributed as `A y + C z`, z standard normal.

        Raises:
            PlanError: this plan does not answer the other.

        Reference: common-mechanism, Lemma 3.2.
        """
        from residua.plan.algebra import derivation

        return derivation(self, other)

    # ---- files and plumbing

    def save(self, path: str | Path) -> None:
        """Writes the plan to a JSON file that `Plan.load` reads."""
        from residua.plan.storage import save_plan

        save_plan(self, Path(path))

    def replaced(self, **changes: Any) -> DensePlan:
        """The same plan with some fields changed."""
        return replace(self, **changes)

    def __repr__(self) -> str:
        rows, cells = self.strategy.shape
        return f"DensePlan({rows:,} × {cells:,}, pcost={self.pcost:.6g}, {self.guarantee!r}, gap={self.gap:.2g})"
