"""Plans along one ordered axis of up to millions of values, and everything that follows without data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from residua.domain import Domain, domain_of_settings
from residua.errors import PlanError
from residua.linalg.arrays import Floats
from residua.linalg.nested_noise import AxisNoise
from residua.linalg.path import over_running_sums
from residua.plans.axis.along import AlongPlan
from residua.plans.axis.asked import Asked, packed, unpacked
from residua.plans.axis.blocks import AxisBlocks
from residua.plans.axis.price import opposed, price
from residua.plans.axis.reading import AxisReading
from residua.plans.axis.rows import crossed_rows, terms_of
from residua.plans.blocks import Blocks
from residua.plans.bodies import (
    asked_of_body,
    asked_to_body,
    check_claims,
    head_of_body,
    head_to_body,
)
from residua.plans.cells import Grouping
from residua.plans.noise import ORDERED, ROUNDING_VARIANCE, Noise
from residua.privacy import AddRemove, Guarantee, Unit
from residua.privacy.exact import round_up
from residua.workload import AttributeQueries, Workload

_MOST_CELLS = 4096


@dataclass(frozen=True, eq=False)
class AxisPlan(AlongPlan):
    """`x + N` along one attribute, N normal with covariance `Σ_j a_j (G + p_j Q⁻¹)⁻¹`: the dense optimum in passes.

    Guarantee: measuring this plan satisfies `guarantee` for `unit`; no unbiased linear mechanism with Gaussian noise
    has a loss below this one's by more than a factor `1 + gap`, the finite number of poles included.

    Args:
        domain: what the table may hold.
        attribute: the position of the axis.
        asked: the queries whose Gram matrix shapes the noise.
        q: the weights of the cells, (n,).
        poles: p_j, (parts,).
        weights: a_j, (parts,).
        grid: what running sums are multiplied by before they are rounded, a power of two.
        guarantee: what measuring the plan guarantees.
        unit: whom it protects.
        workload: what was asked for.
        objective: what the plan was optimised for, in words.
        gap: how far from the best possible it may be.
    """

    kinds: ClassVar[tuple[str, ...]] = ("axis",)

    domain: Domain
    attribute: int
    asked: Asked
    q: Floats
    poles: Floats
    weights: Floats
    grid: int
    guarantee: Guarantee | None
    unit: Unit = field(default_factory=AddRemove)
    workload: Workload | None = None
    objective: str = ""
    gap: float = np.inf

    def __post_init__(self) -> None:
        for name in ("q", "poles", "weights"):  # priced once: what is drawn must stay what was priced
            values = np.array(getattr(self, name), dtype=np.float64)
            values.setflags(write=False)
            object.__setattr__(self, name, values)

    @property
    def noise(self) -> Noise:
        """Normal, correlated along the axis."""
        return ORDERED

    @cached_property
    def correlated(self) -> AxisNoise:
        """The noise per count, before rounding."""
        return self.asked.noise(self.q, self.poles, self.weights)

    # ---- cost

    @cached_property
    def pcost(self) -> float:
        """The privacy cost for one record added or removed."""
        return round_up(price(self.correlated))

    @property
    def unit_pcost(self) -> float:
        """The privacy cost for the plan's unit of protection."""
        return float(self.unit.scaled(self.pcost, 2 * (1 + opposed(self.correlated)) * self.pcost))

    # ---- accuracy

    def row_variances(self, rows: csr_array) -> Floats:
        """The variance of each combination of running sums, rounding included, (rows,)."""
        squares = np.asarray((rows * rows).sum(axis=1)).ravel()
        return self.correlated.row_variances(rows) + squares * (ROUNDING_VARIANCE / self.grid**2)

    def beside_total(self, q: float) -> Floats:
        """The variances of `C_j − q N`, C the running sums and N the last of them, rounding included, (n,)."""
        n = self.size
        last = np.zeros(n)
        last[-1] = 1.0
        shared = self.correlated.combined_with_all(last)
        found = self.correlated.variances()[0] + q**2 * shared[-1] - 2 * q * shared
        return np.asarray(found + (1 + q**2 - 2 * q * last) * (ROUNDING_VARIANCE / self.grid**2))

    def _term_variance(self, asked: dict[int, AttributeQueries]) -> float:
        """The mean variance of a term's queries; of all ranges in closed form."""
        along = asked.get(self.attribute)
        if len(asked) == 1 and along is not None and along.along == "ranges" and along.rows > 2**16:
            rounding = (2 - 2 / (along.size + 1)) * ROUNDING_VARIANCE / self.grid**2
            return self.correlated.sum_of_range_variances() / along.rows + rounding
        rows, answered = crossed_rows(asked, self.attribute, self.size)
        return float(self.row_variances(rows).mean()) if answered.all() else float(np.inf)

    def largest_variances(self, workload: Workload) -> Floats:
        """The largest variance of each term's queries, (terms,); of all ranges of a long axis a bound of it."""
        return np.array([self._largest_variance(asked) for asked, _ in terms_of(workload)])

    def _largest_variance(self, asked: dict[int, AttributeQueries]) -> float:
        along = asked.get(self.attribute)
        if len(asked) == 1 and along is not None and along.along == "ranges" and along.rows > 2**16:
            return float(self.correlated.largest_ranges()[0].max()) + 2 * ROUNDING_VARIANCE / self.grid**2
        rows, answered = crossed_rows(asked, self.attribute, self.size)
        return float(self.row_variances(rows).max()) if answered.all() else float(np.inf)

    def row_covariances(self, first: csr_array, second: csr_array) -> Floats:
        """Covariances of combinations of running sums, rounding included."""
        rounding = (first @ second.T).toarray() * (ROUNDING_VARIANCE / self.grid**2)
        return np.asarray(self.correlated.covariance(first, second) + rounding)

    # ---- measuring

    def compile(self) -> AxisBlocks:
        """Running sums on the grid."""
        return AxisBlocks(self.domain.sizes, self.attribute, self.correlated, self.grid)

    def saved_blocks(self, arrays: Mapping[str, NDArray[Any]]) -> AxisBlocks:
        """As compiled."""
        return self.compile()

    def reading(self, blocks: Blocks, measurements: NDArray[Any]) -> AxisReading:
        """Estimates from running sums."""
        return AxisReading(self, measurements)

    # ---- algebra

    def over_cells(self) -> tuple[Grouping, Floats]:
        """Rows L with `LᵀL = Γ`, of a short axis."""
        self.require_short()
        rows = csr_array(np.eye(self.size))
        covariance = self.correlated.covariance(over_running_sums(rows), over_running_sums(rows))
        lower = np.linalg.cholesky(covariance)
        return Grouping((self.attribute,), np.arange(self.size)), np.linalg.solve(lower, np.eye(self.size))

    def require_short(self) -> None:
        """Refuses an axis that is too long to be combined with other plans, or read with their releases.

        Raises:
            PlanError: it is.
        """
        if self.size > _MOST_CELLS:
            raise PlanError(
                f"an axis of {self.size:,} values is too long for a matrix; combine plans on short axes, or measure it "
                "by itself with rs.measure."
            )

    def scaled(self, factor: float) -> AxisPlan:
        """The same plan with its precision multiplied by a number."""
        return self.replaced(weights=self.weights / factor)

    # ---- what people are shown

    @property
    def remarks(self) -> tuple[tuple[str, str], ...]:
        """How the axis is measured, and whether its price is a bound alone."""
        parts = f"{self.size:,} values of {self.name!r}, noise correlated along them in {len(self.poles)} parts"
        return (("Axis", parts), *super().remarks)

    def __repr__(self) -> str:
        return (
            f"AxisPlan({self.size:,} values of {self.name!r}, {len(self.poles)} parts, pcost={self.pcost:.6g}, "
            f"{self.guarantee!r}, gap={self.gap:.2g})"
        )

    # ---- files

    def to_body(self) -> dict[str, Any]:
        """The plan as plain values; arrays as packed text."""
        return {
            **head_to_body("axis", self),
            "attribute": self.attribute,
            "asked": self.asked.to_body(),
            "q": packed(self.q),
            "poles": self.poles.tolist(),
            "weights": self.weights.tolist(),
            "grid": self.grid,
            **asked_to_body(self.workload),
        }

    @classmethod
    def of_body(cls, body: dict[str, Any]) -> AxisPlan:
        """The plan that plain values describe; every invariant is checked again."""
        domain = domain_of_settings(body["domain"])
        made = cls(
            domain,
            int(body["attribute"]),
            Asked.of_body(body["asked"]),
            unpacked(body["q"]),
            np.array(body["poles"], dtype=np.float64),
            np.array(body["weights"], dtype=np.float64),
            int(body["grid"]),
            workload=asked_of_body(domain, body),
            **head_of_body(body),
        )
        made.compile().price(made.unit)
        check_claims(made)
        return made
