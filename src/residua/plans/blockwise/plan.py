"""Blockwise plans: a strategy of its own for every block of attributes and levels, and what follows without data.

A block is some attributes, each at a level of its values (`plans/levels.py`); it measures integer rows over the cells
of their table, with its own precision. Rows of different blocks are independent of each other, so that cost and
variance are sums over blocks (`facts.py`) and plans that share rows combine block by block, elementwise on precisions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from residua.domain import Domain
from residua.errors import PlanError, VerificationError
from residua.language import mark
from residua.linalg.arrays import Array, Floats, Integers, keep_fixed
from residua.plans.algebra import ElementwiseAlgebra, priced
from residua.plans.blockwise.bounds import coordinates_of, gap_of_any
from residua.plans.blockwise.facts import BlockRows, BlockUncertainty
from residua.plans.blockwise.measurements import BlockwiseEstimator, BlockwiseMeasurements
from residua.plans.cells import MOST_COLUMNS, Grouping
from residua.plans.combining import register_closed
from residua.plans.contract import Plan
from residua.plans.levels import AttributeLevels, Block, below, rank, table_for
from residua.plans.measurements import Measurements
from residua.plans.noise import LARGEST_SCALE, SMALLEST_SCALE
from residua.plans.statements import integers_of_body
from residua.plans.tolerances import nearness
from residua.workload import Workload

_UP = 1.0 + 2.0**-46
BY_ROWS = ", by given rows"  # in the objective of a plan whose rows are another's
_SOON = 600  # coordinates of all blocks together, for which a proof against all plans takes a second or two


@dataclass(frozen=True, eq=False)
class BlockwisePlan(BlockUncertainty, Plan):
    """Integer rows for every block, and how precisely they are measured. Made by `rs.plan`.

    Guarantee: measuring this plan costs at most `unit_pcost`, within `guarantee`, for the unit of protection `unit`.

    Args:
        domain: what the table may hold.
        axes: the levels of each attribute of the domain.
        blocks_of: the blocks, smallest first, with all blocks below each.
        numbers: which of the strategies each block has.
        strategies: integer rows, each for blocks that are alike.
        precisions: `τ_b = 1/σ²` of each block's rows over their largest column norm, (blocks,); 0: not measured.
        guarantee: what measuring the plan guarantees; None when there is nothing to measure.
        unit: whom it protects.
        workload: what was asked, if anything.
        objective: what the plan was optimised for, in words.
        gap: proven bound on how far the plan is, relative, from the best that measures blocks of this plan's split one
            by one, or that measures the same rows where these were given; `gap_any` is against all plans whatever.
            Infinite when nothing is proven.
    """

    kinds: ClassVar[tuple[str, ...]] = ("blockwise",)

    axes: tuple[AttributeLevels, ...]
    blocks_of: tuple[Block, ...]
    numbers: tuple[int, ...]
    strategies: tuple[BlockRows, ...]
    precisions: Floats

    def __post_init__(self) -> None:
        if [axis.size for axis in self.axes] != self.domain.sizes.tolist():
            raise PlanError("the levels do not fit the domain; give one axis for each attribute.")
        listed = set(self.blocks_of)
        if list(self.blocks_of) != sorted(listed, key=rank) or not listed:
            raise PlanError("the blocks are not listed once each, smallest first.")
        for block in listed:
            if any(not 0 < level <= self.axes[i].depth for i, level in block if 0 <= i < len(self.axes)):
                raise PlanError("a block is at a level that its attribute lacks.")
            if list(dict(block)) != sorted(dict(block)) or len(dict(block)) < len(block):
                raise PlanError("the attributes of a block are not in order.")
            if not listed.issuperset(below(block)):
                raise PlanError("a block is listed without one below it.")
        if len(self.numbers) != len(listed) or not set(self.numbers) <= set(range(len(self.strategies))):
            raise PlanError("the strategies do not fit the blocks; give one for each.")
        keep_fixed(self, "precisions", dtype=np.float64)
        if self.precisions.shape != (len(listed),) or not (np.isfinite(self.precisions) & (self.precisions >= 0)).all():
            raise PlanError("precisions must be finite and not negative, one for each block.")

    @property
    def comparison_class(self) -> str:
        """What `gap` compares the plan with."""
        return (
            mark("the best plan that measures these rows")
            if self.objective.endswith(BY_ROWS)
            else mark("the best plan that measures block by block")
        )

    def rows_of(self, block: Block) -> BlockRows:
        """What is measured of a block."""
        return self.strategies[self._number[block]]

    @cached_property
    def _number(self) -> dict[Block, int]:
        return dict(zip(self.blocks_of, self.numbers, strict=True))

    # ---- cost

    @cached_property
    def pcost(self) -> float:
        """The privacy cost for one record added or removed: of the most expensive cell, or never less.

        Where there are too many cells to try all, each block counts at its own most expensive one.
        """
        table = table_for(self.axes, self.blocks_of)
        if table is None:
            return float(self.precisions.sum())
        costs = np.zeros(table.shape)
        for block, precision in zip(self.blocks_of, self.precisions.tolist(), strict=True):
            costs = costs + table.spread(block, self.rows_of(block).relative_norms * precision)
        return float(costs.max())

    @cached_property
    def unit_pcost(self) -> float:
        """The privacy cost for the plan's unit of protection."""
        apart = [
            own.apart / own.norm if block and own.norm else 0.0
            for block, own in ((block, self.rows_of(block)) for block in self.blocks_of)
        ]
        changed = min(float(self.precisions @ np.array(apart)), 4 * self.pcost)
        return float(self.unit.scaled(self.pcost, max(changed, self.pcost) if self.domain.drops else changed))

    @property
    def slack(self) -> float:
        """0 where a record is added or removed; infinite for others, of whom a bound alone is known."""
        reach = self.unit.contribution
        return math.inf if reach is None or reach.limits else 0.0

    # ---- accuracy

    @cached_property
    def gap_any(self) -> float:
        """Proven bound on how far the plan is from any linear Gaussian plan whatever; infinite on large domains."""
        if (
            self.workload is None
            or self.objective.removesuffix(BY_ROWS) != "TotalVariance"
            or self.unit_pcost != self.pcost
        ):
            return math.inf
        return gap_of_any(self.axes, self.workload, self.total_variance(self.workload) * self.pcost)

    @property
    def remarks(self) -> tuple[tuple[str, str], ...]:
        """How many blocks there are, how far any plan is, where soon known, and whether the price is a bound alone."""
        kinds = len(set(self.numbers))
        parts = (
            f"{len(self.blocks_of):,} blocks of attributes and levels, measured by {kinds:,} strategies of their own"
        )
        left = self._soon_known
        far = (("All plans", nearness(left, "the best of all plans")),) if math.isfinite(left) else ()
        return (("Measurements", parts), *far, *super().remarks)

    @property
    def _soon_known(self) -> float:
        """`gap_any` where that takes a second or two, else infinite."""
        soon = self.workload is not None and coordinates_of(self.axes, self.workload) <= _SOON
        return self.gap_any if soon else math.inf

    @property
    def details(self) -> dict[str, Any]:
        """How far any plan is, where soon known; that the price is a bound of unknown slack, where it is."""
        far = {"gap_any": self._soon_known} if math.isfinite(self._soon_known) else {}
        return {**far, **super().details}

    def __repr__(self) -> str:
        return (
            f"BlockwisePlan({len(self.blocks_of):,} blocks over {len(self.domain)} attributes, pcost={self.pcost:.6g}, "
            f"{self.guarantee!r}, gap={self.gap:.2g})"
        )

    # ---- measuring

    @cached_property
    def _measured(self) -> Integers:
        return np.flatnonzero(self.precisions > 0)

    def compile(self) -> BlockwiseMeasurements:
        """The rows, with noise rounded up."""
        if not len(self._measured):
            raise VerificationError("the plan has nothing to measure; what it answers is already known.")
        units = np.array([self.rows_of(self.blocks_of[k]).unit for k in self._measured])
        with np.errstate(over="ignore"):
            scales = units * np.sqrt(1.0 / self.precisions[self._measured]) * _UP
        if scales.max() > LARGEST_SCALE or scales.min() < SMALLEST_SCALE:
            raise VerificationError("a block's noise is outside what can be sampled exactly; change the budget.")
        return self._blocks(scales)

    def _blocks(self, scales: Floats) -> BlockwiseMeasurements:
        measured = tuple(self.blocks_of[k] for k in self._measured)
        rows = tuple(self.rows_of(block) for block in measured)
        return BlockwiseMeasurements(self.axes, measured, rows, scales, self.domain.drops, self.domain.names)

    def saved_measurements(self, arrays: Mapping[str, Array]) -> BlockwiseMeasurements:
        """The noise scales that a file keeps, with the plan's own rows."""
        return self._blocks(np.array(arrays["scales"], dtype=np.float64))

    poses = "blocks"
    shared = "rows"

    def estimator(self, blocks: Measurements, noisy: Array) -> BlockwiseEstimator:
        """Tables and answers from the blocks of their attributes."""
        assert isinstance(blocks, BlockwiseMeasurements)
        precisions = np.zeros(len(self.blocks_of))
        precisions[self._measured] = 1.0 / blocks.noise_variances
        return BlockwiseEstimator(self.replaced(precisions=precisions), blocks, noisy)

    @property
    def measured_attributes(self) -> tuple[int, ...]:
        """Positions of the attributes of which more than the total is measured."""
        return tuple(sorted({i for k in self._measured for i, _ in self.blocks_of[k]}))

    # ---- algebra

    def scaled(self, factor: float) -> Self:
        """The same plan with all its precisions multiplied by a number."""
        return self.replaced(precisions=self.precisions * factor)

    def value_rows(self, block: Block) -> Floats:
        """What is measured of a block, over its unit, as rows over the values of its attributes, (rows, cells)."""
        own = self.rows_of(block)
        rows = (own.rows / own.unit).reshape(len(own.rows), *(self.axes[i].count(level) for i, level in block))
        for axis, (i, level) in enumerate(block, start=1):
            rows = np.take(rows, self.axes[i].classes[level - 1], axis=axis)
        return np.asarray(rows.reshape(len(rows), -1))

    def over_cells(self) -> tuple[Grouping, Floats]:
        """The rows of all blocks over the cells of all attributes, each times the root of its precision.

        Raises:
            PlanError: too many cells for a matrix.
        """
        attributes = self.measured_attributes
        cells = math.prod(int(self.domain.sizes[i]) for i in attributes)
        if cells > MOST_COLUMNS:
            raise PlanError(
                f"a blockwise plan over {cells:,} cells can be combined with plans of other rows over at most "
                f"{MOST_COLUMNS:,}. Plans by the same rows combine over any number of cells: plan one like the other, "
                "with form=rs.Blockwise(like=other)."
            )
        rows_of_blocks = [np.zeros((0, cells))]
        for k in self._measured:
            rows = math.sqrt(float(self.precisions[k])) * self.value_rows(self.blocks_of[k])
            own = Grouping(tuple(i for i, _ in self.blocks_of[k]), np.arange(rows.shape[1]))
            rows_of_blocks.append(rows[:, own.over(attributes, self.domain.sizes)])
        return Grouping(attributes, np.arange(cells)), np.vstack(rows_of_blocks)

    # ---- files

    def kept(self) -> dict[str, Any]:
        """Levels, blocks and their rows."""
        return {
            "axes": [[own.tolist() for own in axis.classes] for axis in self.axes],
            "blocks": [[list(pair) for pair in block] for block in self.blocks_of],
            "numbers": list(self.numbers),
            "strategies": [own.rows.tolist() for own in self.strategies],
            "precisions": self.precisions.tolist(),
        }

    @classmethod
    def of_kept(cls, domain: Domain, body: dict[str, Any], stated: dict[str, Any]) -> BlockwisePlan:
        """The plan that plain values describe."""
        if len(body["axes"]) != len(domain):
            raise ValueError("it has not one axis for each attribute")
        axes = tuple(
            AttributeLevels(int(n), tuple(np.array(own, dtype=np.int64) for own in levels))
            for n, levels in zip(domain.sizes, body["axes"], strict=True)
        )
        blocks = tuple(tuple((int(i), int(level)) for i, level in block) for block in body["blocks"])
        if any(not 0 <= i < len(axes) for block in blocks for i, _ in block):
            raise ValueError("a block names an attribute the domain lacks")
        numbers = tuple(int(number) for number in body["numbers"])
        if set(numbers) != set(range(len(body["strategies"]))):
            raise ValueError("it has strategies for no block, or blocks without one")
        rows = tuple(BlockRows(integers_of_body(own)) for own in body["strategies"])
        plan = cls(domain, axes, blocks, numbers, rows, np.array(body["precisions"], dtype=np.float64), **stated)
        assert plan.splits  # refuses rows that do not fit
        return plan


def agree(plans: Sequence[object]) -> bool:
    """Whether these are blockwise plans with the same levels, and the same rows for the blocks that they share."""
    if not all(isinstance(plan, BlockwisePlan) for plan in plans):
        return False
    kin = [plan for plan in plans if isinstance(plan, BlockwisePlan)]
    if any(plan.axes != kin[0].axes for plan in kin):
        return False
    known: dict[Block, BlockRows] = {}
    for plan in kin:
        for block in plan.blocks_of:
            if known.setdefault(block, plan.rows_of(block)) != plan.rows_of(block):
                return False
    return True


def _aligned(plans: Sequence[BlockwisePlan]) -> tuple[BlockwisePlan, list[Floats]]:
    """The first plan with the blocks of all, and everyone's precisions."""
    rows: dict[Block, BlockRows] = {}
    for plan in plans:
        for block in plan.blocks_of:
            rows.setdefault(block, plan.rows_of(block))
    blocks = tuple(sorted(rows, key=rank))
    strategies = tuple(dict.fromkeys(rows[block] for block in blocks))
    places = {own: number for number, own in enumerate(strategies)}
    at = {block: k for k, block in enumerate(blocks)}
    precisions = []
    for plan in plans:
        own = np.zeros(len(blocks))
        own[[at[block] for block in plan.blocks_of]] = plan.precisions
        precisions.append(own)
    like = plans[0].replaced(
        blocks_of=blocks,
        numbers=tuple(places[rows[block]] for block in blocks),
        strategies=strategies,
        precisions=precisions[0],
        workload=None,
    )
    return like, precisions


def _with_precisions(like: BlockwisePlan, precisions: Floats, workload: Workload | None) -> BlockwisePlan:
    return like.replaced(precisions=precisions, workload=workload)


BLOCKWISE = ElementwiseAlgebra(_aligned, priced(_with_precisions))
register_closed(agree, BLOCKWISE)
