"""Matrix plans: any linear queries, measured through an integer strategy on the cells that queries tell apart."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from residua.domain import Domain, Label, domain_of_settings
from residua.errors import PlanError
from residua.linalg.arrays import Booleans, Floats, Integers
from residua.plans.bodies import check_claims, head_of_body, head_to_body, integers_of_body
from residua.plans.candidates import Candidate, candidates_of_body, candidates_to_body, tried
from residua.plans.cells import Grouping
from residua.plans.contract import Plan
from residua.plans.matrix.measurements import MatrixMeasurements
from residua.plans.matrix.price import column_sum, laplace_norm, limited_square, moved_columns, some_person
from residua.plans.matrix.space import MatrixEstimator, MeasuredSpace
from residua.plans.measurements import Measurements
from residua.plans.noise import LAPLACE, NORMAL, Noise
from residua.plans.persons import by_cells, most_records, reach_of
from residua.privacy import AddRemove, Guarantee, ReplaceOne, Unit
from residua.privacy.exact import round_up
from residua.workload import Workload
from residua.workload.files import positions_of_body, workload_of_body, workload_to_body


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

    domain: Domain
    attributes: tuple[int, ...]
    columns: Integers
    strategy: Integers
    scale: float
    guarantee: Guarantee | None
    unit: Unit = field(default_factory=AddRemove)
    workload: Workload | None = None
    objective: str = ""
    gap: float = np.inf
    bias: float = 0.0
    noise: Noise = NORMAL
    candidates: tuple[Candidate, ...] = ()
    lower_bound: float = 0.0

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

    @property
    def removable(self) -> bool:
        """Whether a replaced record may leave every table: for a cell nobody asks about, or a value left out."""
        return bool((self.columns < 0).any()) or self.domain.drops

    @cached_property
    def _diagonal(self) -> Floats:
        """What each column costs: `Σ_k B_kj²/s²`, or `(Σ_k |B_kj|/s)²` for Laplace noise, (columns,)."""
        B = self.strategy.astype(np.float64)
        sums = (B**2).sum(axis=0) if self.noise == NORMAL else np.abs(B).sum(axis=0) ** 2
        return np.asarray(sums / self.scale**2)

    @cached_property
    def pcost(self) -> float:
        """`max diag Γ`: the privacy cost for one record added or removed; `epsilon²` for Laplace noise."""
        return float(self._diagonal.max(initial=0.0)) if self.noise == NORMAL else round_up(Fraction(self.epsilon) ** 2)

    @cached_property
    def unit_pcost(self) -> float:
        """The privacy cost for the plan's unit of protection."""
        if self.noise == LAPLACE:
            return round_up(Fraction(self.unit_epsilon) ** 2)
        if by_cells(self.unit) or not self.pcost:
            return float(self.unit.scaled(self.pcost))
        reach = reach_of(self.unit, self.domain.names, self.domain.sizes)
        if reach is None:
            return float(self.unit.scaled(self.pcost, self.replacement))
        rows = self.strategy / self.scale
        return float(min(self.unit.scaled(self.pcost), limited_square(rows, self._cells, self.domain.sizes, reach)))

    @cached_property
    def slack(self) -> float:
        """By how much, relative, `unit_pcost` can be above what the unit really costs; 0 where it is exact."""
        if self.unit.contribution is None or by_cells(self.unit) or self.noise == LAPLACE or not self.pcost:
            return 0.0
        reach = reach_of(self.unit, self.domain.names, self.domain.sizes)
        assert reach is not None
        some = some_person(self.strategy / self.scale, self._cells, self.domain.sizes, reach)
        return max(self.unit_pcost / some - 1.0, 0.0)

    @property
    def _cells(self) -> Grouping:
        return Grouping(self.attributes, self.columns)

    @cached_property
    def replacement(self) -> float:
        """The largest cost of replacing one record by another."""
        if not self.pcost:
            return 0.0
        B = moved_columns(self.strategy) / self.scale
        gram = B.T @ B
        diagonal = np.diag(gram)
        pairs = diagonal[:, None] + diagonal[None, :] - 2 * gram
        # A record changed to a cell nobody asks about, or to a value that is left out, is a record removed.
        return max(float(pairs.max()), self.pcost if self.removable else 0.0)

    @property
    def sensitivity(self) -> float:
        """`Δ`: the largest column sum of absolute values of the integer strategy."""
        return float(column_sum(self.strategy))

    @cached_property
    def epsilon(self) -> float:
        """What Laplace noise costs for one record added or removed, rounded up."""
        return self._epsilon(AddRemove())

    @cached_property
    def unit_epsilon(self) -> float:
        """What Laplace noise costs the plan's unit of protection, rounded up."""
        return self._epsilon(self.unit)

    def _epsilon(self, unit: Unit) -> float:
        if self.noise != LAPLACE:
            return super().epsilon  # says that there is none
        records = most_records(unit, self.domain.names, self.domain.sizes)
        return round_up(laplace_norm(self.strategy, records, removable=self.removable) / Fraction(self.scale))

    @cached_property
    def profile(self) -> Floats:
        """The privacy profile: what the plan costs a person in each cell, an array with one axis per attribute."""
        padded = np.append(self._diagonal, 0.0)
        return np.asarray(padded[self.columns].reshape(self.shape))

    def cell_pcost(self, cell: Mapping[str, Label]) -> float:
        """What the plan costs a person with these values of the plan's attributes.

        Example: `plan.cell_pcost({"age": 30, "sex": "Female"})`.
        """
        if not isinstance(cell, Mapping) or set(cell) != set(self.names):
            raise PlanError(f"cell must give a value for each of {', '.join(self.names)}.")
        codes = []
        for name in self.names:
            labels = self.domain[name].labels
            if cell[name] not in labels:
                raise PlanError(
                    f"{name}={cell[name]!r} is not a value of the attribute {name!r}; see domain[{name!r}].labels."
                )
            codes.append(labels.index(cell[name]))
        return float(self.profile[tuple(codes)])

    def free(self, tolerance: float = 1e-6) -> Booleans:
        """Cells with budget left: more queries on them alone cost nothing, an array with one axis per attribute."""
        return np.asarray(self.profile < self.pcost * (1 - tolerance))

    @cached_property
    def gamma(self) -> Floats:
        """The privacy cost matrix on the merged cells, `BᵀB/s²`, (columns, columns)."""
        B = self.strategy.astype(np.float64) / self.scale
        return np.asarray(B.T @ B)

    # ---- accuracy

    @cached_property
    def factors(self) -> tuple[Floats, Floats, Floats]:
        """Singular values and vectors of B within its numerical rank: (rows, r), (r,), (r, columns)."""
        U, s, Vt = np.linalg.svd(self.strategy.astype(np.float64), full_matrices=False)
        rank = int((s > s.max(initial=0.0) * 1e-12).sum())
        return U[:, :rank], s[:rank], Vt[:rank]

    @property
    def noise_variance(self) -> float:
        """The variance of the noise on each measurement, its rounding included."""
        return self.noise.variance(self.scale)

    @cached_property
    def error_profile(self) -> Floats:
        """`(BᵀB)⁻¹` on the merged cells, its pseudo-inverse if not all are measured, (columns, columns)."""
        _, s, Vt = self.factors
        return np.asarray((Vt.T / s**2) @ Vt)

    @property
    def remarks(self) -> tuple[tuple[str, str], ...]:
        """How much is measured, and which strategies were tried."""
        rows, columns = self.strategy.shape
        measured = ("Measured", f"{rows:,} combinations of {columns:,} groups of cells")
        return (measured, *tried(self.candidates, self.gap), *super().remarks)

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

    def saved_measurements(self, arrays: Mapping[str, NDArray[Any]]) -> MatrixMeasurements:
        """The plan's own strategy."""
        return self.compile()

    poses = "a histogram"

    def estimator(self, measurements: Measurements, noisy: NDArray[Any]) -> MatrixEstimator:
        """Least squares."""
        return MatrixEstimator(self, noisy)

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

    def scaled(self, factor: float) -> Self:
        """The same plan with its precision multiplied by a number."""
        return self.replaced(scale=self.scale / math.sqrt(factor))

    # ---- files

    def to_body(self) -> dict[str, Any]:
        """The plan as plain values."""
        head = head_to_body("dense" if self.noise == NORMAL else "pure", self)
        body = {
            "kind": head["kind"],
            "domain": head["domain"],
            "attributes": list(self.attributes),
            "columns": self.columns.tolist(),
            "strategy": self.strategy.tolist(),
            "scale": self.scale,
            **head,
            "bias": self.bias,
            "workload": workload_to_body(self.workload),
        }
        if self.noise == NORMAL:
            return body
        return {**body, "candidates": candidates_to_body(self.candidates), "lower_bound": self.lower_bound}

    @classmethod
    def of_body(cls, body: dict[str, Any]) -> MatrixPlan:
        """The plan that plain values describe; every invariant is checked again."""
        domain = domain_of_settings(body["domain"])
        laplace = body["kind"] == "pure"
        scale, bias, bound = float(body["scale"]), float(body["bias"]), float(body["lower_bound"] if laplace else 0.0)
        if not (bias >= 0 and scale > 0 and bound >= 0):
            raise ValueError("its bias, noise scale or lower bound means nothing")
        if min(body["columns"], default=0) < -1:
            raise ValueError("a cell belongs to no column")
        plan = cls(
            domain=domain,
            attributes=positions_of_body(domain, body["attributes"]),
            columns=integers_of_body(body["columns"]),
            # A plan with nothing left to measure has no rows, but columns all the same.
            strategy=integers_of_body(body["strategy"] or np.zeros((0, max(body["columns"]) + 1), dtype=np.int64)),
            scale=scale,
            workload=workload_of_body(domain, body["workload"]),
            bias=bias,
            noise=LAPLACE if laplace else NORMAL,
            candidates=candidates_of_body(body["candidates"]) if laplace else (),
            lower_bound=bound,
            **head_of_body(body),
        )
        check_claims(plan)
        return plan

    def __repr__(self) -> str:
        rows, cells = self.strategy.shape
        cost = f"epsilon={self.epsilon:.6g}" if self.noise == LAPLACE else ""
        # A plan for records that are changed knows their number: adding or removing one would cost far more.
        cost = cost or f"pcost={self.unit_pcost if isinstance(self.unit, ReplaceOne) else self.pcost:.6g}"
        return f"MatrixPlan({rows:,} × {cells:,}, {cost}, {self.guarantee!r}, gap={self.gap:.2g})"
