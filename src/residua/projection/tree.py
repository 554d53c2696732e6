"""Projection over a tree, from the root down: children that are not negative and add up to their parent.

The root's table is made non-negative with its total kept. Then every parent's counts are split among its children, cell
by cell: of all non-negative numbers that add up to the parent's, those nearest to the released ones, relative to their
variances. Coarse levels, the most accurate ones, are never changed for the sake of fine ones; solving for all levels at
once raises them instead, since negative cells are raised far more often than others are lowered (docs/hierarchies.md).
Each split is exact; together they are the nearest in no single metric, so that neither gap nor bound is stated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from residua.errors import PlanError
from residua.folders import let_go
from residua.linalg.arrays import Floats
from residua.plans.operators.nesting import Nesting, Nodes
from residua.plans.operators.tree import TreeNodes, nodes_of
from residua.plans.product.facts import coefficient
from residua.plans.product.plan import ProductPlan
from residua.projection.axis_kernels import split_among
from residua.projection.problem import MANY_CELLS, Fit, Progress, ProjectionProblem
from residua.release.base import Release
from residua.workload import AttributeQueries, Identity

_PART = 4_000_000  # numbers at a time


@dataclass(frozen=True, eq=False)
class Nested(Fit):
    """What the projection over a tree found: the tables of every level that anything is known of.

    Args:
        problem: which levels there are, and where their tables lie.
        Others as for `Fit`; kept are the tables of all levels, flat.
    """

    problem: TreeProblem

    def _level(self, members: Sequence[int]) -> int | None:
        """The coarsest level whose tables tell the marginal on these attributes."""
        attribute, short = self.problem.plan.attribute, self.problem.short
        levels = range(self.problem.first, 1 if attribute in members else len(short))
        return next((level for level in reversed(levels) if {*members} - {attribute} <= {*short[level]}), None)

    def supports(self, members: Sequence[int]) -> bool:
        """Whether the marginal on these attributes was asked for down to the values."""
        return self._level(members) is not None

    def marginal(self, members: Sequence[int]) -> Floats:
        """The marginal on these attributes (positions, increasing)."""
        level, attribute = self._level(members), self.problem.plan.attribute
        assert level is not None
        short = self.problem.short[level]
        tables = self.problem.tables(self.array, level).reshape(-1, *self.problem.sizes(level))
        gone = tuple(1 + k for k, i in enumerate(short) if i not in members)
        if attribute not in members:
            return np.asarray(tables.sum(axis=(0, *gone)))
        return np.moveaxis(tables.sum(axis=gone) if gone else tables, 0, sorted(members).index(attribute))


class TreeProblem(ProjectionProblem):
    """Projection of releases of a tree plan; observed are the tables of all levels, from the values to the root."""

    plan: ProductPlan
    bounded = False
    no_other = "a tree is projected from the root down; leave metric out."

    @classmethod
    def is_small(cls, plan: ProductPlan) -> bool:
        """Whether few numbers are measured."""
        return plan.measurements.cells <= MANY_CELLS

    def __post_init__(self) -> None:
        self.only_total("over a tree")
        if self.plan.domain.impossible:
            raise PlanError("releases over a tree cannot be projected with structural zeros; declare none.")
        for level, short in enumerate(self.short):
            known = [each for each in self.trees.values() if each.start <= level]
            if len(known) < 2 ** len([i for i in short if int(self.plan.domain.sizes[i]) > 1]):
                raise PlanError(
                    f"level {self.nesting.names[level] or level!r} has several tables that no larger one contains; a "
                    "tree is projected where each level has one table with all attributes: publish it as it is."
                )

    @property
    def nesting(self) -> Nesting:
        """The levels."""
        return next(iter(self.trees.values())).nesting

    @cached_property
    def trees(self) -> dict[tuple[int, ...], TreeNodes]:
        """The operators of all sets of short attributes."""
        return nodes_of(self.plan)

    @cached_property
    def short(self) -> tuple[tuple[int, ...], ...]:
        """The short attributes known on each level, increasing."""
        return tuple(
            tuple(sorted({i for members, each in self.trees.items() if each.start <= level for i in members}))
            for level in range(self.nesting.root + 1)
        )

    @cached_property
    def first(self) -> int:
        """The finest level of which anything is known."""
        return min(each.start for each in self.trees.values())

    def sizes(self, level: int) -> list[int]:
        """How many values the short attributes of a level have."""
        return [int(self.plan.domain.sizes[i]) for i in self.short[level]]

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Where the tables of each level begin among those observed, and where they end."""
        starts = [0]
        for level in range(self.nesting.root + 1):
            starts.append(
                starts[-1] + (self.nesting.sizes[level] * math.prod(self.sizes(level)) if level >= self.first else 0)
            )
        return tuple(starts)

    def observed(self, release: Release) -> Floats:
        """The released tables of all levels."""
        tables = self.read(release.estimator)
        let_go(release.noisy)
        return tables

    def read(self, estimator: Any) -> Floats:
        """The tables of all levels."""
        read = np.empty(self.starts[-1])
        for level in range(self.first, self.nesting.root + 1):
            asked: dict[int, AttributeQueries] = {
                i: Identity(int(self.plan.domain.sizes[i])) for i in self.short[level]
            }
            tables = self.tables(read, level)
            step = max(_PART // tables.shape[1], 1)
            for low in range(0, len(tables), step):
                some = Nodes(level, np.arange(low, min(low + step, len(tables))))
                part = estimator.along(asked, some, some.count(self.nesting))
                tables[low : low + step] = part.reshape(-1, tables.shape[1])
        return read

    def solve(self, observed: Floats, progress: Progress | None = None) -> Nested:
        """From the root down."""
        numbers = observed.copy()
        for level in range(self.nesting.root, self.first - 1, -1):
            if level == self.nesting.root:
                self._root(self.tables(numbers, level))
            else:
                self._split(self.tables(numbers, level), level, self.tables(numbers, level + 1))
            if progress is not None:
                progress(self.nesting.root - level + 1, math.inf)
        return self.fit_of(numbers, math.inf, 0.0)

    def tables(self, numbers: Floats, level: int) -> Floats:
        """The tables of a level, (nodes, cells), without copying."""
        return numbers[self.starts[level] : self.starts[level + 1]].reshape(self.nesting.sizes[level], -1)

    def _root(self, root: Floats) -> None:
        """The root's table, not negative, with its total, in place."""
        if self.terms.facts:
            cells, total = np.arange(root.size), np.full((1, 1), float(self.terms.facts[0].values))
            ends, ones = np.array([0, root.size]), np.ones(root.size)
            split_among(cells, ends, root.reshape(-1, 1), ones, total, self.terms.nonnegative)
        elif self.terms.nonnegative:
            np.maximum(root, 0.0, out=root)

    def _split(self, tables: Floats, level: int, above: Floats) -> None:
        """The children's tables, in place, such that they add up to their parents'."""
        gone = tuple(1 + k for k, i in enumerate(self.short[level + 1]) if i not in self.short[level])
        wanted = above.reshape(-1, *self.sizes(level + 1)).sum(axis=gone) if gone else above
        parent = self.nesting.parents[level]
        order = np.argsort(parent, kind="stable")
        offsets = np.searchsorted(parent[order], np.arange(self.nesting.sizes[level + 1] + 1))
        wanted = np.ascontiguousarray(wanted).reshape(len(wanted), -1)
        split_among(order, offsets, tables, self._variances(level), wanted, self.terms.nonnegative)

    def _variances(self, level: int) -> Floats:
        sizes, short = self.plan.domain.sizes.tolist(), self.short[level]
        parts = [
            coefficient(members, short, sizes) * each.of_nodes(level, each.solved.V)
            for members, each in self.trees.items()
            if each.start <= level
        ]
        return np.asarray(sum(parts))

    def unprojected(self, observed: Floats) -> Nested:
        """The released tables."""
        return self.fit_of(observed, math.inf, 0.0)

    def fit_of(self, array: Floats, gap: float, infeasibility: float) -> Nested:
        """The fit that a saved projection keeps."""
        if array.shape != (self.starts[-1],):
            raise ValueError("the counts do not fit the plan; they belong to another projection")
        return Nested(array, gap, infeasibility, self)

    def moved(self, observed: Floats, fit: Fit) -> float:
        """The squared distance over the tables of all levels."""
        square = 0.0
        for low in range(0, len(observed), _PART):  # part by part: there may be more than fit in memory twice
            apart = observed[low : low + _PART] - fit.array[low : low + _PART]
            square += float(apart @ apart)
        return square

    def seen(self, fit: Fit) -> Floats:
        """The tables of all levels."""
        return fit.array

    @property
    def cells(self) -> float:
        """The numbers of all levels."""
        return float(self.starts[-1])
