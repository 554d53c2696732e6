"""Plans that measure one integer matrix on merged cells: everything about them but the kind of noise and its price."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from residua.domain import Domain
from residua.errors import PlanError
from residua.plans.contract import Plan
from residua.plans.matrix.space import Floats, Integers, MeasuredSpace
from residua.privacy import AddRemove, Guarantee, Unit
from residua.workload import Explicit


@dataclass(frozen=True, eq=False)
class StrategyPlan(MeasuredSpace, Plan):
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

    # ---- accuracy

    @cached_property
    def factors(self) -> tuple[Floats, Floats, Floats]:
        """Singular values and vectors of B within its numerical rank: (rows, r), (r,), (r, columns)."""
        U, s, Vt = np.linalg.svd(self.strategy.astype(np.float64), full_matrices=False)
        rank = int((s > s.max(initial=0.0) * 1e-12).sum())
        return U[:, :rank], s[:rank], Vt[:rank]
