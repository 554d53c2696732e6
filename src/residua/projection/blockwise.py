"""Projection of releases of blockwise plans over many cells: tables of their sets, never all cells together.

The variables are the coordinates of all blocks (`plans/levels/`); a table is not negative where its cells, linear in
the coordinates of the blocks below it, are not. The distance is the release's own: `Σ_b ‖R r_b + S r_below − y_b‖²`,
each block over the variance of its noise. Tables agree with each other, as coordinates are shared; that some dataset
has all of them is not required.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from residua.domain.facts import Fact, shown
from residua.errors import PlanError
from residua.linalg.arrays import Booleans, Floats, Integers, along
from residua.plans.blockwise.plan import BlockwisePlan
from residua.plans.cells import MOST_COLUMNS
from residua.plans.levels import AttributeLevels, Block, below, dimensions, in_coordinates, places, shape_of, told_apart
from residua.projection.interior import TablePiece, nearest_tables
from residua.projection.problem import Fit, Progress, ProjectionProblem
from residua.workload import AttributeQueries, Workload

_MOST_ENTRIES = 2**27  # of the matrices of all tables
_SPREAD = 1e-7  # of a fact with empty cells


@dataclass(frozen=True, eq=False)
class BlockwiseTables(Fit):
    """What the projection of a release of a blockwise plan found.

    Args:
        axes: the levels of each attribute.
        blocks: the blocks, smallest first.
        Others as for `Fit`; kept are the coordinates of all blocks, one after the other.
    """

    fills: ClassVar[bool] = True

    axes: tuple[AttributeLevels, ...]
    blocks: tuple[Block, ...]

    @cached_property
    def spans(self) -> dict[Block, Integers]:
        """Where each block's coordinates stand."""
        return spans_of(self.axes, self.blocks)

    def supports(self, members: Sequence[int]) -> bool:
        """Whether there are coordinates of all these attributes together, at their finest levels."""
        return finest_block(self.axes, members) in self.spans

    def marginal(self, members: Sequence[int]) -> Floats:
        """The marginal on these attributes; what no query tells apart is shared out evenly."""
        tensor = self._table(members, [self.axes[i].depth for i in members])
        for axis, i in enumerate(members):
            tensor = self.axes[i].values(tensor, axis)
        return tensor

    def of_term(self, term: Sequence[tuple[int, AttributeQueries]]) -> Floats:
        """What a product asks, from the table at the levels that it tells apart, (rows, …)."""
        tensor, firsts = self._classes([i for i, _ in term], [told_apart(rows.matrix()) for _, rows in term])
        for axis, ((_, rows), first) in enumerate(zip(term, firsts, strict=True)):
            tensor = along(rows.matrix()[:, first], tensor, axis)
        return tensor

    def of_queries(self, workload: Workload) -> Floats:
        """The answers to queries of some attributes, from the table at the levels that they tell apart, (queries,)."""
        rows = workload.matrix.toarray().reshape(-1, *workload.shape)
        classes = [told_apart(np.moveaxis(rows, k, -1).reshape(-1, rows.shape[k])) for k in range(1, rows.ndim)]
        tensor, firsts = self._classes(workload.attributes, classes)
        return np.asarray(rows[np.ix_(np.arange(len(rows)), *firsts)].reshape(len(rows), -1) @ tensor.ravel())

    def _classes(self, members: Sequence[int], classes: Sequence[Integers]) -> tuple[Floats, list[Integers]]:
        """The table at the levels that tell these classes apart, and one value of each class.

        Raises:
            PlanError: the projection does not hold it.
        """
        levels = [self.axes[i].level_within(own) for i, own in zip(members, classes, strict=True)]
        block = tuple((i, level) for i, level in zip(members, levels, strict=True) if level)
        if None in levels or block not in self.spans:
            raise PlanError("the projection does not tell what is asked; the release it is made from must.")
        depths = [level or 0 for level in levels]
        tensor, firsts = self._table(members, depths), []
        for axis, (i, level) in enumerate(zip(members, depths, strict=True)):
            tensor = along(self.axes[i].inverses[level], tensor, axis)
            firsts.append(self.axes[i].firsts_of(level))
        return tensor, firsts

    def _table(self, members: Sequence[int], levels: Sequence[int]) -> Floats:
        """The coordinates of a table at some levels, one axis per attribute."""
        table = tuple(zip(members, levels, strict=True))
        flat = np.zeros(math.prod(shape_of(self.axes, table)))
        for block in below(table):
            flat[places(self.axes, table, block)] = self.array[self.spans[block]]
        return flat.reshape(shape_of(self.axes, table))


class BlockwiseProblem(ProjectionProblem):
    """Projection of releases of a blockwise plan; observed are its measurements over their noise, (rows,)."""

    plan: BlockwisePlan
    in_metrics = ("covariance",)
    no_other = "over many cells, queries that tie attributes are projected by their covariance; leave metric out."

    def __post_init__(self) -> None:
        if self.plan.domain.impossible:
            raise PlanError(
                "releases of queries that tie attributes together are projected without impossible cells over more "
                f"than {MOST_COLUMNS:,} cells; declare the domain without them, or plan over fewer attributes."
            )
        for fact in self.terms.facts:
            if finest_block(self.plan.axes, fact.members) not in self._spans:
                raise PlanError(
                    f"known: the release has no table on {shown(self.plan.domain, fact.members)}, so that nothing in "
                    "it can be made to agree; leave the fact out, or release a table that holds these attributes."
                )

    # ---- blocks and tables

    @cached_property
    def _blocks(self) -> tuple[Block, ...]:
        """The blocks of which everything below is measured."""
        plan = self.plan
        measured = {block for block, tau in zip(plan.blocks_of, plan.precisions.tolist(), strict=True) if tau > 0}
        return tuple(block for block in plan.blocks_of if measured.issuperset(below(block)))

    @cached_property
    def _spans(self) -> dict[Block, Integers]:
        return spans_of(self.plan.axes, self._blocks)

    @property
    def _size(self) -> int:
        """How many coordinates there are."""
        return sum(len(own) for own in self._spans.values())

    def _by_block(self, observed: Floats) -> Iterator[tuple[Block, Floats]]:
        """What was observed of each block, smallest first."""
        ends = np.cumsum([len(self._rows[block]) for block in self._blocks])[:-1]
        return zip(self._blocks, np.split(observed, ends), strict=True)

    @cached_property
    def _tables(self) -> tuple[Block, ...]:
        """The largest blocks."""
        lower = {one for block in self._blocks for one in below(block)[:-1]}
        return tuple(block for block in self._blocks if block not in lower)

    @cached_property
    def _rows(self) -> dict[Block, Floats]:
        """What is measured of each block, over the standard deviation of its noise, (rows, coordinates below)."""
        axes, known = self.plan.axes, {}
        rows = {}
        for block in self._blocks:
            own = self.plan.rows_of(block)
            key = (own, *((axes[i], level) for i, level in block))
            if key not in known:
                inside = in_coordinates(axes, block, own.rows / own.unit)
                known[key] = inside[:, np.concatenate([places(axes, block, each) for each in below(block)])]
            rows[block] = known[key] / math.sqrt(self.plan.variance_of[block])
        return rows

    def _at(self, block: Block) -> Integers:
        """Where the coordinates of a block and all below it stand, in the order of its rows."""
        return np.concatenate([self._spans[each] for each in below(block)])

    @cached_property
    def _pieces(self) -> list[TablePiece]:
        """The tables; each block's precision counts in one of them."""
        axes = self.plan.axes
        if sum(math.prod(shape_of(axes, table)) ** 2 for table in self._tables) > _MOST_ENTRIES:
            raise PlanError("the tables of this release are too large to be projected together; publish it as it is.")
        seen: set[Block] = set()
        pieces = []
        for table in self._tables:
            listed = below(table)
            order = np.concatenate([places(axes, table, block) for block in listed])
            cells = np.ones((1, 1))
            for i, level in table:
                cells = np.asarray(np.kron(cells, axes[i].inverses[level]), dtype=np.float64)
            square = np.zeros((len(order), len(order)))
            where = spans_of(axes, listed)
            for block in listed:
                if block not in seen:
                    seen.add(block)
                    at = np.concatenate([where[each] for each in below(block)])
                    square[np.ix_(at, at)] += self._rows[block].T @ self._rows[block]
            pieces.append(TablePiece(self._at(table), cells[:, order], square))
        return pieces

    @property
    def left_out(self) -> tuple[tuple[int, ...], ...]:
        """The attributes of tables that the release is about without telling all their cells."""
        lost = {tuple(i for i, _ in block) for block in self.plan.blocks_of if block not in self._spans}
        return tuple(sorted(lost - {tuple(i for i, _ in block) for block in self._blocks}))

    # ---- the work

    def read(self, estimator: Any) -> Floats:
        """What was measured of each block, over the standard deviation of its noise."""
        variances = self.plan.variance_of
        return np.concatenate([estimator.measured[block] / math.sqrt(variances[block]) for block in self._blocks])

    def noise(self, random: np.random.Generator) -> Floats:
        """Of variance one."""
        return random.standard_normal(int(self.cells))

    def seen(self, fit: Fit) -> Floats:
        """What would be measured without noise."""
        return np.concatenate([self._rows[block] @ fit.array[self._at(block)] for block in self._blocks])

    def _start(self) -> tuple[Floats, Booleans]:
        """Coordinates to begin at, an even table with what the facts say, and which are free.

        A fact with empty cells leaves the tables no room inside; a ten-millionth of it is spread evenly.
        """
        start, free = np.zeros(self._size), np.ones(self._size, dtype=bool)
        for fact in self.terms.facts:
            for block, values in self._told(fact).items():
                start[self._spans[block]], free[self._spans[block]] = values, False
        return start, free

    def _told(self, fact: Fact) -> dict[Block, Floats]:
        """The coordinates of the blocks that a fact tells."""
        axes = self.plan.axes
        table = tuple((i, axes[i].depth) for i in fact.members)
        tensor = self._inside(fact).reshape([axes[i].size for i in fact.members])
        for axis, i in enumerate(fact.members):
            merged = np.zeros((axes[i].starts[-1], axes[i].size))
            merged[axes[i].finest, np.arange(axes[i].size)] = 1.0
            tensor = along(axes[i].bases[-1] @ merged, tensor, axis)
        flat = tensor.ravel()
        return {block: flat[places(axes, table, block)] for block in below(table) if block in self._spans}

    @staticmethod
    def _inside(fact: Fact) -> Floats:
        values = np.asarray(fact.values, dtype=np.float64)
        return values if values.min() > 0 else (1.0 - _SPREAD) * values + _SPREAD * values.mean()

    def _missed(self) -> float:
        """How far the tables are from the facts at most, in counts."""
        return max((float(np.abs(self._inside(fact) - fact.values).max()) for fact in self.terms.facts), default=0.0)

    def solve(self, observed: Floats, progress: Progress | None = None) -> BlockwiseTables:
        """The nearest tables that meet the terms."""
        start, free = self._start()
        g = np.zeros(len(start))
        for block, own in self._by_block(observed):
            g[self._at(block)] += self._rows[block].T @ own
        if free[0]:  # the total, which nothing tells: some positive number to begin at
            start[0] = max(float(self.unprojected(observed).array[0]), 1.0)
        even = observed - self.seen(self.fit_of(start, 0.0, 0.0))
        enough = self.terms.tolerance * max(1.0, min(float(even @ even), float(len(observed))))
        coordinates, gap, negative = nearest_tables(
            self._pieces, g, start, free, nonnegative=self.terms.nonnegative, enough=enough, progress=progress
        )
        return self.fit_of(coordinates, gap, max(negative, self._missed()))

    def unprojected(self, observed: Floats) -> BlockwiseTables:
        """The estimates of the release themselves: block by block, from the smallest up."""
        coordinates = np.zeros(self._size)
        for block, y in self._by_block(observed):
            rows, own = self._rows[block], len(self._spans[block])
            rest = y - rows[:, :-own] @ coordinates[self._at(block)[:-own]]
            coordinates[self._spans[block]] = np.linalg.solve(rows[:, -own:], rest)
        return self.fit_of(coordinates, 0.0, 0.0)

    def fit_of(self, array: Floats, gap: float, infeasibility: float) -> BlockwiseTables:
        """The fit that a saved projection keeps."""
        if array.shape != (self._size,):
            raise ValueError("the coordinates do not fit the plan; they belong to another projection")
        return BlockwiseTables(array, gap, infeasibility, self.plan.axes, self._blocks)

    # ---- the metric

    @property
    def cells(self) -> float:
        """How many measurements there are."""
        return float(sum(len(rows) for rows in self._rows.values()))

    def error(self, fit: Fit, truth: Fit) -> float:
        """The mean absolute difference over the cells of all tables."""
        apart = [np.abs(piece.cells @ (fit.array - truth.array)[piece.at]) for piece in self._pieces]
        return float(np.concatenate(apart).mean())


def spans_of(axes: Sequence[AttributeLevels], blocks: Sequence[Block]) -> dict[Block, Integers]:
    """Where the coordinates of each block stand, one block after the other."""
    ends = np.cumsum([0, *(dimensions(axes, block) for block in blocks)]).tolist()
    return {block: np.arange(ends[k], ends[k + 1]) for k, block in enumerate(blocks)}


def finest_block(axes: Sequence[AttributeLevels], members: Sequence[int]) -> Block:
    """The block of all these attributes at their finest levels."""
    return tuple((i, axes[i].depth) for i in members if axes[i].depth)
