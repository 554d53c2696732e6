"""Hierarchies over ordered cells: nested levels, each a partition, and the inverse of any weighting of them.

With weights ω of the levels, `K = Σ_l ω_l² H_lᵀH_l` is inverted from the leaves up, one rank per node: for a node
with `u = K⁻¹1` over its children and `σ = 1ᵀu`, its own weight takes `ω² uuᵀ/(1 + ω²σ)` away from the inverse and
scales u by `1/(1 + ω²σ)`.

Reference: matrix-mechanism, Figure 1 and §6.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from residua.linalg.arrays import Floats, Integers


@dataclass(frozen=True)
class Tree:
    """A tree over ordered cells: the root, its `branching` children, theirs, and so on; last the cells themselves.

    Example:
        >>> Tree(10, 3).counts
        [1, 3, 9, 10]
    """

    cells: int
    branching: int

    @property
    def counts(self) -> list[int]:
        """How many nodes each level has: 1, b, b², … and the cells."""
        found, nodes = [], 1
        while nodes < self.cells:
            found.append(nodes)
            nodes *= self.branching
        return [*found, self.cells]

    def owners(self, nodes: int) -> Integers:
        """The node that each cell belongs to, of a level of so many, (cells,)."""
        return np.arange(self.cells) * nodes // self.cells

    def levels(self) -> list[Floats]:
        """Each level as a 0/1 matrix (nodes, cells) that partitions the cells, root first."""
        return [(self.owners(nodes) == np.arange(nodes)[:, None]).astype(np.float64) for nodes in self.counts]

    def strategy(self, weights: Floats) -> Floats:
        """The levels times their weights, (nodes, cells); a level without weight is left out."""
        return np.vstack([w * part for w, part in zip(weights, self.levels(), strict=True) if w > 0])

    def inverse(self, squares: Floats) -> Floats:
        """`(Σ_l ω_l² H_lᵀH_l)⁻¹` from the squares of the levels' weights, (cells, cells)."""
        u = np.full(self.cells, 1.0 / squares[-1])
        M = np.diag(u)
        for nodes, w in zip(self.counts[-2::-1], squares[-2::-1], strict=True):
            owner = self.owners(nodes)
            first = first_of(owner)
            f = 1.0 / (1.0 + w * np.add.reduceat(u, first))
            for start, stop, scale in zip(first, np.append(first[1:], self.cells), f, strict=True):
                part = slice(start, stop)
                M[part, part] -= (w * scale) * np.outer(u[part], u[part])
            u = u * f[owner]
        return M


def hierarchy(cells: int, branching: int = 2) -> Floats:
    """All nodes of a tree over ordered cells, `H_n` of the paper for branching 2, (nodes, cells)."""
    return np.vstack(Tree(cells, branching).levels())


def branchings(cells: int) -> range:
    """Every branching that fits, each a tree of its own; n itself is the total and the cells.

    Example:
        >>> list(branchings(5))
        [2, 3, 4, 5]
    """
    return range(2, cells + 1)


def first_of(groups: Integers) -> Integers:
    """The first member of each group of equal neighbours."""
    return np.flatnonzero(np.diff(groups, prepend=-1))
