"""Matrix plans: any linear queries, measured through an integer strategy on the cells that queries tell apart."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from residua.domain import Domain, Label
from residua.domain.conditions import code_of
from residua.errors import PlanError
from residua.linalg.arrays import Array, Booleans, Floats, Integers, keep_fixed
from residua.plans.cells import Grouping
from residua.plans.contract import Plan
from residua.plans.matrix.measurements import MatrixMeasurements, column_sum, some_person
from residua.plans.matrix.space import MatrixEstimator, MeasuredSpace
from residua.plans.measurements import Measurements
from residua.plans.noise import LAPLACE, NORMAL, Noise
from residua.plans.statements import integers_of_body, tried
from residua.privacy import ReplaceOne
from residua.privacy.costs import by_cells, reach_of
from residua.workload.files import positions_of_body

REFINED = ", in the refined order"  # of a plan whose privacy profile is the least, lexicographically
_ALIKE = 1e-2  # relative: cells that pay as much up to this pay alike


@dataclass(frozen=True, eq=False)
class MatrixPlan(MeasuredSpace, Plan):
    """What is measured: `y = B x + round(s z)` on the merged cells of some attributes, z independent noise.

    Answers are least squares: the covariance of `W x̂` is `W (BᵀB)⁺ Wᵀ` times the variance of one measurement's
    noise, whatever its distribution. For Laplace noise that is `2 Δ²/ε² · W (BᵀB)⁻¹ Wᵀ` with `Δ = sensitivity`.

    Guarantee: measuring this plan is within `guarantee` for the unit of protection `unit`; it costs at most
    `unit_pcost` (with Laplace noise, `unit_epsilon`).

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
        bias: what answers may be off by systematically, per record, as a root mean square over the queries; 0 unless
            an approximate plan was asked for.
        noise: the distribution of z.
        candidates: with Laplace noise, the strategies that were tried, best first; the first is the one measured.
        lower_bound: no strategy with Laplace noise has a smaller loss at this budget; 0 when nothing is proven. It is
            the L2 optimum's, at least the singular value bound, and it is loose: the best strategies known for
            ranges lie at 2.5 to 4.5 times it, and `gap` says so.

    Reference: matrix-mechanism, Propositions 3 and 4; fitness-for-use.
    """

    kinds: ClassVar[tuple[str, ...]] = ("dense", "pure")

    attributes: tuple[int, ...]
    columns: Integers
    strategy: Integers
    scale: float
    noise: Noise = NORMAL

    def __post_init__(self) -> None:
        keep_fixed(self, "columns", "strategy", dtype=np.int64)
        if self.columns.shape != (math.prod(self.shape),):
            raise PlanError(
                f"columns has shape {self.columns.shape}; give one for each of {math.prod(self.shape)} cells."
            )
        if self.strategy.ndim != 2 or self.columns.max(initial=-1) != self.strategy.shape[1] - 1:
            raise PlanError("the strategy does not fit the cells; it belongs to another plan.")

    # ---- cost

    @property
    def empty(self) -> bool:
        """Whether no row has an entry."""
        return not self.strategy.any()

    @cached_property
    def slack(self) -> float:
        """By how much, relative, `unit_pcost` can be above what the unit really costs; 0 where it is exact."""
        reach = reach_of(self.unit, self.domain.names, self.domain.sizes)
        if reach is None or by_cells(self.unit) or self.noise == LAPLACE or not self.pcost:
            return 0.0
        some = some_person(self.strategy / self.scale, self._cells, self.domain.sizes, reach)
        return max(self.unit_pcost / some - 1.0, 0.0)

    @property
    def _cells(self) -> Grouping:
        return Grouping(self.attributes, self.columns)

    @property
    def sensitivity(self) -> float:
        """`Δ`: the largest column sum of absolute values of the strategy, whose largest coefficient counts as 1.

        So 1 for noise on cells and 3 for a binary tree over four of them; the integers measured are a multiple.
        """
        return float(column_sum(self.strategy)) / self._largest

    @cached_property
    def profile(self) -> Floats:
        """The privacy profile: what the plan costs a person in each cell, an array with one axis per attribute."""
        B = self.strategy.astype(np.float64)
        sums = (B**2).sum(axis=0) if self.noise == NORMAL else np.abs(B).sum(axis=0) ** 2
        return np.asarray(np.append(sums / self.scale**2, 0.0)[self.columns].reshape(self.shape))

    def cell_pcost(self, cell: Mapping[str, Label]) -> float:
        """What the plan costs a person with these values of the plan's attributes.

        Example: `plan.cell_pcost({"age": 30, "sex": "Female"})`.
        """
        if not isinstance(cell, Mapping) or set(cell) != set(self.names):
            raise PlanError(f"cell must give a value for each of {', '.join(self.names)}.")
        return float(self.profile[tuple(code_of(name, self.domain[name], cell[name]) for name in self.names)])

    def free(self, tolerance: float = 1e-6) -> Booleans:
        """Cells with budget left: more queries on them alone cost nothing, an array with one axis per attribute."""
        return np.asarray(self.profile < self.pcost * (1 - tolerance))

    @cached_property
    def gamma(self) -> Floats:
        """The privacy cost matrix on the merged cells, `BᵀB/s²`, (columns, columns)."""
        B = self.strategy.astype(np.float64) / self.scale
        return np.asarray(B.T @ B)

    # ---- accuracy

    @property
    def remarks(self) -> tuple[tuple[str, str], ...]:
        """How much is measured, and which strategies were tried."""
        rows, columns = self.strategy.shape
        measured = ("Measured", f"{rows:,} combinations of {columns:,} groups of cells")
        return (measured, *tried(self.candidates, self.gap), *self._advice, *super().remarks)

    @property
    def _advice(self) -> tuple[tuple[str, str], ...]:
        """That a plan for targets may cost most cells less, where not all pay the same."""
        pays = self.profile[self.profile > 0]
        if "with targets" not in self.objective or REFINED in self.objective or self.noise != NORMAL or not pays.size:
            return ()
        if pays.min() > (1 - _ALIKE) * self.pcost:
            return ()
        return (("Profile", "not all cells pay alike; form=rs.Matrix(refined=True) meets the same targets and, at no "
                            "loss, costs the others the least"),)  # fmt: skip

    @property
    def space(self) -> MatrixPlan:
        """The plan itself."""
        return self

    # ---- measuring

    def compile(self) -> MatrixMeasurements:
        """The plan's own strategy."""
        sizes, drops, names = self.domain.sizes, self.domain.drops, self.domain.names
        return MatrixMeasurements(
            sizes, self.attributes, self.columns, self.strategy, self.scale, self.noise, drops, names
        )

    poses = "a histogram"

    def estimator(self, measurements: Measurements, noisy: Array) -> MatrixEstimator:
        """Least squares."""
        return MatrixEstimator(self, measurements, noisy)

    @property
    def measured_attributes(self) -> tuple[int, ...]:
        """Positions of the attributes whose cells are told apart."""
        return self.attributes

    # ---- algebra

    def over_cells(self) -> tuple[Grouping, Floats]:
        """The strategy over its noise scale."""
        if self.noise != NORMAL:
            return super().over_cells()
        return self._cells, self.strategy / self.scale

    def laplace_rows(self) -> tuple[Grouping, Floats]:
        """The strategy over its noise scale."""
        return self._cells, self.strategy / self.scale

    def scaled(self, factor: float) -> Self:
        """The same plan with its precision multiplied by a number."""
        return self.replaced(scale=self.scale / math.sqrt(factor))

    # ---- files

    @property
    def kind(self) -> str:
        """By its noise."""
        return "dense" if self.noise == NORMAL else "pure"

    def kept(self) -> dict[str, Any]:
        """The strategy, over which cells, and the noise scale."""
        return {
            "attributes": list(self.attributes),
            "columns": self.columns.tolist(),
            "strategy": self.strategy.tolist(),
            "scale": self.scale,
        }

    @classmethod
    def of_kept(cls, domain: Domain, body: dict[str, Any], stated: dict[str, Any]) -> MatrixPlan:
        """The plan that plain values describe."""
        if not float(body["scale"]) > 0 or min(body["columns"], default=0) < -1:
            raise ValueError("its noise scale means nothing, or a cell belongs to no column")
        return cls(
            domain,
            positions_of_body(domain, body["attributes"]),
            integers_of_body(body["columns"]),
            # A plan with nothing left to measure has no rows, but columns all the same.
            integers_of_body(body["strategy"] or np.zeros((0, max(body["columns"]) + 1), dtype=np.int64)),
            float(body["scale"]),
            LAPLACE if body["kind"] == "pure" else NORMAL,
            **stated,
        )

    def __repr__(self) -> str:
        rows, cells = self.strategy.shape
        cost = f"epsilon={self.epsilon:.6g}" if self.noise == LAPLACE else ""
        # A plan for records that are changed knows their number: adding or removing one would cost far more.
        cost = cost or f"pcost={self.unit_pcost if isinstance(self.unit, ReplaceOne) else self.pcost:.6g}"
        return f"MatrixPlan({rows:,} × {cells:,}, {cost}, {self.guarantee!r}, gap={self.gap:.2g})"
