"""Variances and covariances over a tree that is crossed with short attributes, from precisions alone.

The residual on a set S of short attributes is measured in every node; its covariance is that of the tree, with the
set's own precisions, times the centring matrices of S. So each fact is a sum over S of one about the tree times one
about each short attribute.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from residua.errors import PlanError
from residua.linalg.arrays import Floats
from residua.linalg.tree import Solved
from residua.plans.tree.nesting import Nesting
from residua.plans.tree.order import Order
from residua.plans.tree.rows import AnyRows, Nodes, Runs, TreeRows

_MOST_ENTRIES = 2**28  # of coefficients over nodes


@dataclass(frozen=True, eq=False)
class SetFacts:
    """How accurately one set of short attributes is known in every node.

    Args:
        nesting: the levels.
        members: the short attributes' positions, increasing.
        start: the finest measured level.
        precisions: of each level from `start` to the root: one number, or one per node; of the finest one per parent.
    """

    nesting: Nesting
    members: tuple[int, ...]
    start: int
    precisions: tuple[Floats, ...]

    @cached_property
    def solved(self) -> Solved:
        """Least squares over the tree; nodes of the finest level with one parent are alike."""
        tree = self.nesting.tree(range(self.start, self.nesting.root + 1), alike=True)
        return tree.solved(self.precisions)

    @cached_property
    def order(self) -> Order | None:
        """What is known of prefixes and ranges; None where what was measured is coarser than values."""
        return Order(self.nesting, self.solved) if self.start == 0 else None

    def of_nodes(self, level: int, what: Sequence[Floats]) -> Floats:
        """Something of every node of a level, (nodes,)."""
        found = what[level - self.start]
        if level == self.start and level < self.nesting.root:
            return found[self.nesting.parents[level]]
        return found

    def measured(self) -> list[int]:
        """The levels that are measured."""
        return [self.start + k for k, each in enumerate(self.precisions) if each.any()]

    def precisions_of(self, level: int) -> Floats:
        """The precision of every node of a level, (nodes,)."""
        sizes = self.solved.tree.sizes
        return self.of_nodes(level, [np.broadcast_to(p, n) for p, n in zip(self.precisions, sizes, strict=True)])

    def variances(self, rows: TreeRows) -> Floats:
        """The variance of what is asked along the tree, (rows,); infinite where it is finer than what was measured."""
        if isinstance(rows, Nodes):
            if rows.level < self.start:
                return np.full(rows.count(self.nesting), np.inf)
            return rows.picked(self.of_nodes(rows.level, self.solved.V))
        if isinstance(rows, Runs) and self.order is not None:
            return self.order.ranges(*rows.ends()) if rows.ranges else self.order.prefixes()
        found = self.injected(rows)
        return (
            np.full(rows.count(self.nesting), np.inf)
            if found is None
            else np.diagonal(self.covariances(rows, rows)).copy()
        )

    def mean_variance(self, rows: TreeRows) -> float:
        """The mean variance of what is asked along the tree."""
        if isinstance(rows, Nodes) and rows.chosen is None and rows.level == self.start < self.nesting.root:
            return float(self.solved.V[0] @ self.solved.tree.many) / self.nesting.sizes[self.start]
        if isinstance(rows, Runs) and rows.ranges and self.order is not None:
            return self.order.sum_over_ranges() / rows.count(self.nesting)
        return float(self.variances(rows).mean())

    def injected(self, rows: TreeRows) -> tuple[int, Floats] | None:
        """What is asked as coefficients of the nodes of one level, (nodes, rows); None where it is too fine."""
        if isinstance(rows, Nodes):
            if rows.level < self.start:
                return None
            size, count = self.nesting.sizes[rows.level], rows.count(self.nesting)
            _require_room(size, count)
            found = np.zeros((size, count))
            found[np.arange(size) if rows.chosen is None else rows.chosen, np.arange(count)] = 1.0
            return rows.level, found
        _require_room(self.nesting.sizes[0], rows.count(self.nesting))
        rows = AnyRows(rows.given()) if isinstance(rows, Runs) else rows
        if self.start == 0:
            return 0, rows.given.T
        onto = self.nesting.between(0, self.start)
        first = np.zeros((self.nesting.sizes[self.start], len(rows.given)))
        first[onto] = rows.given.T
        apart = np.abs(first[onto] - rows.given.T).max(axis=0)
        rounding = 1e-12 * np.abs(rows.given).max(axis=1, initial=0.0)
        return (self.start, first) if (apart <= rounding).all() else None

    def covariances(self, first: TreeRows, second: TreeRows) -> Floats:
        """Covariances of what is asked along the tree, (rows, rows).

        With coefficients A of nodes and `Ā = Σ_children k A` of a parent they are
        `A_root B_root V_root + Σ_children z (A − Ā)(B − B̄)`, from level to level.
        """
        one, other = self.injected(first), self.injected(second)
        if one is None or other is None:
            return np.full((first.count(self.nesting), second.count(self.nesting)), np.inf)
        A, B = (np.zeros((self.nesting.sizes[self.start], each[1].shape[1])) for each in (one, other))
        total = np.zeros((A.shape[1], B.shape[1]))
        low = min(one[0], other[0])
        for level in range(self.start, self.nesting.root + 1):
            if level < low:
                A, B = (np.zeros((self.nesting.sizes[level + 1], each.shape[1])) for each in (A, B))
                continue
            A = A + one[1] if level == one[0] else A
            B = B + other[1] if level == other[0] else B
            if level == self.nesting.root:
                break
            k, z = self.of_nodes(level, self.solved.k), self.of_nodes(level, self.solved.z)
            parent = self.nesting.parents[level]
            A_up, B_up = (_pushed(each * k[:, None], parent, self.nesting.sizes[level + 1]) for each in (A, B))
            total += ((A - A_up[parent]) * z[:, None]).T @ (B - B_up[parent])
            A, B = A_up, B_up
        return total + float(self.solved.V[-1][0]) * (A.T @ B)


def _pushed(values: Floats, parent: np.ndarray, size: int) -> Floats:
    """Sums over children, (parents, rows)."""
    found = np.zeros((size, values.shape[1]))
    np.add.at(found, parent, values)
    return found


def _require_room(nodes: int, rows: int) -> None:
    if nodes * rows > _MOST_ENTRIES:
        raise PlanError(
            f"{rows:,} rows over {nodes:,} nodes are too many for a matrix; ask for coarser levels or fewer queries."
        )


def coefficient(members: tuple[int, ...], asked: Sequence[int], sizes: Sequence[int]) -> float:
    """What a set S contributes to the variance of a cell of the marginal on A: `Π_S (1 − 1/n) Π_{A∖S} 1/n²`."""
    inside = math.prod(1.0 - 1.0 / sizes[i] for i in members)
    return inside * math.prod(1.0 / sizes[i] ** 2 for i in asked if i not in members)
