"""Matrix plans: any linear queries, measured through an integer strategy on the cells that queries tell apart."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from residua.domain import Domain, Label
from residua.domain.conditions import code_of
from residua.errors import PlanError, WorkloadError
from residua.linalg.arrays import Array, Booleans, Floats, Integers, keep_fixed, largest_entry
from residua.linalg.lattice import batches
from residua.plans.cells import Grouping
from residua.plans.contract import Plan
from residua.plans.estimator import as_workload
from residua.plans.matrix.estimator import MatrixEstimator, first_cells
from residua.plans.matrix.measurements import MatrixMeasurements, column_sum, some_person
from residua.plans.measurements import Measurements
from residua.plans.noise import LAPLACE, NORMAL, Noise
from residua.plans.statements import integers_of_body, tried
from residua.plans.tolerances import SUPPORT_TOLERANCE
from residua.privacy import ReplaceOne
from residua.privacy.costs import by_cells, reach_of
from residua.quoting import Term
from residua.workload import Workload
from residua.workload.files import positions_of_body
from residua.workload.pieces import MOST_CELLS

REFINED = ", in the refined order"  # of a plan whose privacy profile is the least, lexicographically
_BATCH = 2**22
_ALIKE = 1e-2  # relative: cells that pay as much up to this pay alike


@dataclass(frozen=True, eq=False)
class MatrixPlan(Plan):
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
        """`(AᵀA)⁻¹` on the merged cells, its pseudo-inverse if not all are measured, (columns, columns).

        A is the strategy in units of its largest coefficient, as for `sensitivity`.
        """
        _, s, Vt = self.factors
        return np.asarray((Vt.T * (self._largest / s) ** 2) @ Vt)

    @property
    def _largest(self) -> float:
        """The largest coefficient of the integer strategy: what counts as 1."""
        return float(largest_entry(self.strategy)) or 1.0

    @property
    def shape(self) -> tuple[int, ...]:
        """How many values each of the attributes has."""
        return tuple(int(self.domain.sizes[i]) for i in self.attributes)

    @property
    def names(self) -> tuple[str, ...]:
        """The attributes whose cells are told apart."""
        return tuple(self.domain.names[i] for i in self.attributes)

    def _variances(self, workload: Workload) -> Floats:
        """The variance of every query of a workload, (queries,); infinite where it cannot be answered."""
        asked = self.asked(workload)
        _, s, _ = self.factors
        variances = np.full(asked.queries, np.inf)
        for rows, inside, good in self._projected(asked):
            variances[rows[good]] = ((inside[good] / s) ** 2).sum(axis=1) * self.noise_variance
        return variances

    def _covariance(self, first: Workload, second: Workload) -> Floats:
        """Covariances between the queries of two workloads, (queries, queries).

        Raises:
            PlanError: a query cannot be answered.
        """
        a, b = self.coordinates(first), self.coordinates(second)
        return np.asarray((a / self.factors[1]) @ (b / self.factors[1]).T * self.noise_variance)

    def _paired(self, first: Term, second: Term, crossed: tuple[int, ...]) -> Floats:
        """Covariances place by place; see `residua.quoting.Answering`."""
        order = list(first.rows)
        moved = [order.index(i) for i in (*(i for i in order if i not in crossed), *crossed)]
        lead = len(order) - len(crossed)
        parts = []
        for term in (first, second):
            paired = (self.coordinates(term.workload) / self.factors[1]).reshape(*term.shape, -1)
            paired = paired.transpose(*moved, len(order))
            parts.append(paired.reshape(*paired.shape[:lead], -1, paired.shape[-1]))
        one, two = parts
        paired = np.matmul(one, np.swapaxes(two, -1, -2)) if crossed else (one * two).sum(axis=-1)[..., 0]
        return np.asarray(paired * self.noise_variance)

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

    def asked(self, workload: Workload | Sequence[str]) -> Workload:
        """Any workload, or the marginal on some attributes, as explicit queries."""
        try:
            return as_workload(self.domain, workload)[0].listed()
        except WorkloadError as problem:
            raise PlanError(str(problem)) from None

    def _required(self, workload: Workload) -> list[tuple[Integers, Floats, Booleans]]:
        parts = list(self._projected(workload))
        if not all(good.all() for _, _, good in parts):
            raise PlanError("this plan does not answer all of these queries; plan for a workload that asks for them.")
        return parts

    def _spread(self, others: tuple[int, ...]) -> tuple[tuple[int, ...], Integers | None]:
        """Our attributes and these, and the column of each of their cells; None if there are too many."""
        attributes = tuple(sorted({*self.attributes, *others}))
        if math.prod(int(self.domain.sizes[i]) for i in attributes) > MOST_CELLS:
            return attributes, None
        return attributes, Grouping(self.attributes, self.columns).over(attributes, self.domain.sizes)

    def _projected(self, workload: Workload) -> Iterator[tuple[Integers, Floats, Booleans]]:
        """Batches of (rows, coordinates in the measured space, which rows lie in it)."""
        attributes, columns = self._spread(workload.attributes)
        if columns is None:  # too many cells to list: such queries tell more apart than any matrix plan
            yield (
                np.arange(workload.queries),
                np.zeros((workload.queries, len(self.factors[1]))),
                np.zeros(workload.queries, bool),
            )
            return
        wide = workload.over(attributes)
        first = first_cells(columns)
        Vt = self.factors[2]
        for part in batches(workload.queries, wide.shape[1], _BATCH):
            rows, full = np.arange(workload.queries)[part], wide[part].toarray()
            merged = full[:, first]
            apart = full - np.append(merged, np.zeros((len(rows), 1)), axis=1)[:, columns]  # −1 is the last: nothing
            inside = merged @ Vt.T
            outside = np.linalg.norm(merged - inside @ Vt, axis=1)
            size = np.linalg.norm(merged, axis=1)
            yield rows, inside, (outside <= SUPPORT_TOLERANCE * size) & (np.abs(apart).max(axis=1, initial=0.0) == 0)

    # ---- what people are shown

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
