"""A tree whose nodes are measured with given precisions: least squares, its variances, their slopes, all in two passes.

Level 0 holds the leaves, the last level the root alone. A node is the sum of its children. Leaves of one parent that
nothing tells apart may be kept once, with how many there are (`many`): plans need no more, whatever the number of
leaves. Every quantity is a list with one array per level; an array of one number stands for a whole level.

With precision τ of a node's own measurement, z is the variance of a node given all that is measured in and below it,
u that of the sum of its children, and V the variance given everything:

    u = Σ_children z,   z = 1 / (τ + 1/u),   V_root = z,   V_c = z_c (1 − k_c) + k_c² V_parent,   k_c = z_c / u_parent.

Nothing is ever subtracted that could cancel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from residua.linalg.arrays import Array, Floats
from residua.linalg.roots import InverseRoot

Levels = list[Floats]


@dataclass(frozen=True, eq=False)
class NestedTree:
    """Levels of nodes, each in one node of the next.

    Args:
        parents: for every level but the last the place of each node's parent in the next level.
        many: how many leaves each node of level 0 stands for.
    """

    parents: tuple[Array, ...]
    many: Floats

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """How many nodes each level has, leaves that are kept once counted once."""
        return (*(len(parent) for parent in self.parents), 1)

    @property
    def depth(self) -> int:
        """How many levels there are."""
        return len(self.parents) + 1

    def summed(self, level: int, values: Floats) -> Floats:
        """Sums over children of something of a level, leaves as often as there are, (nodes of the next level,)."""
        values = np.broadcast_to(values, self.sizes[level])
        if level == 0:
            values = values * self.many
        return _counted(self.parents[level], values, self.sizes[level + 1])

    def masses(self, leaves: Floats) -> Levels:
        """Sums of something of the leaves over the leaves below each node."""
        sums = [np.broadcast_to(leaves, self.sizes[0])]
        for level in range(self.depth - 1):
            sums.append(self.summed(level, sums[-1]))
        return sums

    def total(self, weights: Sequence[Floats], values: Sequence[Floats]) -> float:
        """`Σ_nodes weight · value`."""
        sized = zip(self.counted(weights), values, self.sizes, strict=True)
        return float(sum(own @ np.broadcast_to(v, n) for own, v, n in sized))

    def counted(self, weights: Sequence[Floats]) -> Levels:
        """Something of each node, of leaves times how many there are."""
        spread = [np.broadcast_to(w, n) for w, n in zip(weights, self.sizes, strict=True)]
        return [spread[0] * self.many, *spread[1:]]

    def solved(self, precisions: Sequence[Floats]) -> SolvedTree:
        """Variances when nodes are measured with these precisions, those of leaves positive."""
        z = [np.broadcast_to(1.0 / precisions[0], self.sizes[0])]
        u: Levels = [np.zeros(0)]
        for level in range(1, self.depth):
            u.append(self.summed(level - 1, z[-1]))
            z.append(1.0 / (precisions[level] + 1.0 / u[-1]))
        V: Levels = [z[-1]]
        k: Levels = [np.ones(1)]
        for level in range(self.depth - 2, -1, -1):
            parent = self.parents[level]
            share = z[level] / u[level + 1][parent]
            k.insert(0, share)
            V.insert(0, z[level] * (1.0 - share) + share**2 * V[0][parent])
        return SolvedTree(self, tuple(z), tuple(u), tuple(k), tuple(V))


@dataclass(frozen=True, eq=False)
class SolvedTree:
    """What least squares over a tree gives, as lists with one array per level.

    Args:
        tree: the tree.
        z: the variance of each node from what is measured in and below it.
        u: the variance of the sum of its children from what is measured below it; nothing for leaves.
        k: the share of a parent's change that goes to the node: `z / u_parent`; 1 for the root.
        V: the variance of each node from everything.
    """

    tree: NestedTree
    z: tuple[Floats, ...]
    u: tuple[Floats, ...]
    k: tuple[Floats, ...]
    V: tuple[Floats, ...]

    def slopes(self, weights: Sequence[Floats]) -> Levels:
        """`−∂/∂τ` of `Σ weight · V`, for each node; for leaves that are kept once, of all of them together.

        The two passes differentiated backwards: `tᵀ Γ⁻¹ G Γ⁻¹ t` of each node's indicator t.
        """
        tree = self.tree
        V_bar = tree.counted(weights)
        z_bar: Levels = [np.zeros(0)] * tree.depth
        u_bar: Levels = [np.zeros(0)] * tree.depth
        for level in range(tree.depth - 1):
            parent, k = tree.parents[level], self.k[level]
            above = (self.V[level + 1] / self.u[level + 1])[parent]
            z_bar[level] = V_bar[level] * (1.0 - 2.0 * k + 2.0 * k * above)
            pull = V_bar[level] * k**2
            size = tree.sizes[level + 1]
            u_bar[level + 1] = _counted(parent, pull * (1.0 - 2.0 * above), size)
            V_bar[level + 1] = V_bar[level + 1] + _counted(parent, pull, size)
        z_bar[-1] = V_bar[-1]
        for level in range(tree.depth - 1, 0, -1):
            u_bar[level] = u_bar[level] + z_bar[level] * (self.z[level] / self.u[level]) ** 2
            passed = u_bar[level][tree.parents[level - 1]]
            z_bar[level - 1] = z_bar[level - 1] + (passed * tree.many if level == 1 else passed)
        return [bar * z**2 for bar, z in zip(z_bar, self.z, strict=True)]


def _counted(parents: Array, weights: Floats, size: int) -> Floats:
    """Sums over children, (parents,)."""
    return np.asarray(np.bincount(parents, weights=weights, minlength=size), dtype=np.float64)


def root_diagonal(tree: NestedTree, weights: Sequence[Floats], q: Floats, root: InverseRoot) -> Floats:
    """The diagonal of the square root of `Q^½ (Σ_nodes weight · t tᵀ) Q^½`, by poles, (nodes of level 0,).

    Each resolvent `(S + p)⁻¹` is one rank-one change per node (Sherman and Morrison), up the tree and down again.

    Args:
        tree: the tree.
        weights: how much the variance of each node matters; positive for leaves.
        q: the weight of each leaf.
        root: `x^-½` on the spectrum of S, as poles.
    """
    diagonal = np.zeros(tree.sizes[0])
    for pole, factor in zip(root.poles.tolist(), root.weights.tolist(), strict=True):
        d = weights[0] * q + pole
        grown, h = np.broadcast_to(q / d, tree.sizes[0]), [np.zeros(0)]
        for level in range(1, tree.depth):
            h.append(tree.summed(level - 1, grown))
            grown = h[-1] / (1.0 + weights[level] * h[-1])
        down = np.zeros(1)
        for level in range(tree.depth - 1, 0, -1):
            damped = 1.0 + weights[level] * h[level]
            down = weights[level] / damped + down / damped**2
            down = down[tree.parents[level - 1]]
        diagonal += factor * (weights[0] * q / d + pole * q * down / d**2)
    return diagonal


def spectrum(tree: NestedTree, weights: Sequence[Floats], q: Floats) -> tuple[float, float]:
    """Bounds from below and above on the eigenvalues of `Q^½ (Σ_nodes weight · t tᵀ) Q^½`.

    It is at least its diagonal part, and no more than the sum over levels of what a level contributes: the largest
    `weight · mass` of its nodes.
    """
    masses = tree.masses(q)
    own = np.broadcast_to(weights[0] * q, tree.sizes[0])
    above = sum(float((w * m).max()) for w, m in zip(weights[1:], masses[1:], strict=True))
    return float(own.min()), float(own.max()) + above
