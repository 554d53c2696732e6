"""Plans with Laplace noise over runs of one attribute's ordered values, and everything that follows without data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from residua.domain import Domain, domain_of_settings
from residua.linalg.arrays import Floats, Integers
from residua.plans.axis.along import AlongPlan
from residua.plans.axis.rows import crossed_rows
from residua.plans.blocks import Blocks
from residua.plans.bodies import (
    asked_of_body,
    asked_to_body,
    check_claims,
    head_of_body,
    head_to_body,
)
from residua.plans.candidates import Candidate, candidates_of_body, candidates_to_body, tried
from residua.plans.noise import LAPLACE, Noise
from residua.plans.runs.blocks import RunsBlocks
from residua.plans.runs.reading import RunsReading
from residua.plans.runs.shape import Shape
from residua.plans.runs.solved import Solved
from residua.plans.runs.totals import Totals, totals
from residua.privacy import AddRemove, Guarantee, Unit
from residua.privacy.exact import round_up
from residua.workload import AttributeQueries, Workload


@dataclass(frozen=True, eq=False)
class RunsPlan(AlongPlan):
    """Ordered values divided into runs, these into runs again, and rows measured over the parts of every run.

    A tree of counts measures the parts themselves; here a run measures them and overlapping sums of neighbours, the
    same in all runs of a level ("identity plus" on blocks).

    Guarantee: measuring this plan satisfies `guarantee` for `unit`; no unbiased linear mechanism with Laplace noise has
    a loss below this one's by more than a factor `1 + gap`.

    Args:
        domain: what the table may hold.
        attribute: the position of the ordered attribute.
        strategies: the rows of each level from fine to coarse, whole numbers, (rows, parts).
        scales: the noise scale of each level, (levels,).
        guarantee: what measuring the plan guarantees.
        unit: whom it protects.
        workload: what was asked for.
        objective: what the plan was optimised for, in words.
        gap: how far from the best possible it may be.
        candidates: the strategies that were tried, best first; the first is the one measured.
        lower_bound: no plan with Laplace noise has a smaller loss at this budget; loose; 0 when nothing is proven.
    """

    kinds: ClassVar[tuple[str, ...]] = ("pure runs",)

    domain: Domain
    attribute: int
    strategies: tuple[Integers, ...]
    scales: Floats
    guarantee: Guarantee | None
    unit: Unit = field(default_factory=AddRemove)
    workload: Workload | None = None
    objective: str = ""
    gap: float = np.inf
    candidates: tuple[Candidate, ...] = ()
    lower_bound: float = 0.0

    def __post_init__(self) -> None:
        for array in (*self.strategies, self.scales):
            array.setflags(write=False)

    @property
    def noise(self) -> Noise:
        """Laplace."""
        return LAPLACE

    @cached_property
    def shape(self) -> Shape:
        """The runs of its values."""
        return Shape(self.size, tuple(int(R.shape[1]) for R in self.strategies))

    @cached_property
    def solved(self) -> Solved:
        """How accurately sums of values are known, the rounding of noise included."""
        deviations = np.sqrt(self.noise.variance(self.scales))
        return Solved(self.shape, tuple(R / s for R, s in zip(self.strategies, deviations.tolist(), strict=True)))

    @cached_property
    def totals(self) -> Totals:
        """The variances of all prefixes, of all ranges and of all values, added up."""
        return totals(self.solved)

    # ---- cost

    @cached_property
    def pcost(self) -> float:
        """`epsilon²` for one record added or removed."""
        return round_up(Fraction(self.epsilon) ** 2)

    @cached_property
    def unit_pcost(self) -> float:
        """`epsilon²` for the plan's unit of protection."""
        return round_up(Fraction(self.unit_epsilon) ** 2)

    @cached_property
    def epsilon(self) -> float:
        """What the noise costs for one record added or removed, rounded up."""
        return round_up(self.blocks.cost(AddRemove()))

    @cached_property
    def unit_epsilon(self) -> float:
        """What the noise costs the plan's unit of protection, rounded up."""
        return round_up(self.blocks.cost(self.unit))

    # ---- accuracy

    def _term_variance(self, asked: dict[int, AttributeQueries]) -> float:
        """The mean variance of a term's queries; of prefixes, ranges and values in closed form."""
        along = asked.get(self.attribute)
        totals = {"values": self.totals.values, "prefixes": self.totals.prefixes, "ranges": self.totals.ranges}
        if len(asked) == 1 and along is not None and along.along in totals:
            return totals[along.along] / along.rows
        rows, answered = crossed_rows(asked, self.attribute, self.size)
        return float(self.solved.row_variances(rows).mean()) if answered.all() else float(np.inf)

    def row_variances(self, rows: csr_array) -> Floats:
        """The variance of each combination of running sums, rounding included, (rows,)."""
        return self.solved.row_variances(rows)

    def row_covariances(self, first: csr_array, second: csr_array) -> Floats:
        """Covariances of combinations of running sums, rounding included."""
        return self.solved.covariance(first, second)

    # ---- measuring

    def compile(self) -> RunsBlocks:
        """The rows as they are."""
        domain = self.domain
        return RunsBlocks(
            domain.sizes, domain.names, self.attribute, self.shape, self.strategies, self.scales, domain.drops
        )

    def saved_blocks(self, arrays: Mapping[str, NDArray[Any]]) -> RunsBlocks:
        """As compiled."""
        return self.compile()

    def reading(self, blocks: Blocks, measurements: NDArray[Any]) -> RunsReading:
        """Estimates by least squares over the runs."""
        assert isinstance(blocks, RunsBlocks)
        return RunsReading(self, blocks, measurements)

    def scaled(self, factor: float) -> RunsPlan:
        """The same plan with its precision multiplied by a number."""
        return self.replaced(scales=self.scales / np.sqrt(factor))

    # ---- what people are shown

    @property
    def remarks(self) -> tuple[tuple[str, str], ...]:
        """How the runs are measured, and what else was tried."""
        levels = " · ".join(
            f"{count:,} × {len(R)} rows over {R.shape[1]}"
            for count, R in zip(self.shape.counts[::-1], self.strategies[::-1], strict=True)
        )
        told = ("Runs", f"of {self.name!r}: {levels} parts; {self.blocks.cells:,} integers are measured")
        return (told, *super().remarks, *tried(self.candidates, self.gap))

    def __repr__(self) -> str:
        return (
            f"RunsPlan({self.size:,} values of {self.name!r} in runs on {len(self.scales)} levels, "
            f"epsilon={self.epsilon:.6g}, {self.guarantee!r}, gap={self.gap:.2g})"
        )

    # ---- files

    def to_body(self) -> dict[str, Any]:
        """The plan as plain values."""
        return {
            **head_to_body("pure runs", self),
            "attribute": self.attribute,
            "strategies": [R.tolist() for R in self.strategies],
            "scales": self.scales.tolist(),
            **asked_to_body(self.workload, "asked"),
            "candidates": candidates_to_body(self.candidates),
            "lower_bound": self.lower_bound,
        }

    @classmethod
    def of_body(cls, body: dict[str, Any]) -> RunsPlan:
        """The plan that plain values describe; every invariant is checked again."""
        domain = domain_of_settings(body["domain"])
        bound = float(body["lower_bound"])
        if not bound >= 0:
            raise ValueError("its lower bound means nothing")
        if not 0 <= int(body["attribute"]) < len(domain):
            raise ValueError("it measures an attribute that the domain lacks")
        made = cls(
            domain,
            int(body["attribute"]),
            tuple(_whole(rows) for rows in body["strategies"]),
            np.array(body["scales"], dtype=np.float64),
            **head_of_body(body),
            workload=asked_of_body(domain, body, "asked"),
            candidates=candidates_of_body(body["candidates"]),
            lower_bound=bound,
        )
        check_claims(made)  # prices it: the verifier checks every array
        if not all(np.isfinite(level.u).all() and (level.u > 0).all() for level in made.solved.levels):
            raise ValueError("its rows do not tell the values")
        return made


def _whole(rows: Any) -> Integers:
    if not all(isinstance(entry, int) for row in rows for entry in row):
        raise ValueError("its rows are not whole numbers")
    found = np.array(rows, dtype=np.int64)
    if found.ndim != 2:
        raise ValueError("its rows are no matrix")
    return found
