"""The best weights of a hierarchy's levels, for a workload: as many unknowns as levels, and nothing of size n inverted.

Every cell is in one node of each level, so with weights ω ≥ 0, `Σ ω = 1`, the sensitivity is 1 and the loss is
`tr V K⁻¹`, `K = Σ_l ω_l² H_lᵀH_l`. The nodes being nested, K is inverted from the leaves up (see `trees`), and what of
the trace depends on ω are sums of V over pairs of nodes. Of the finest inner level, nodes of one parent and size count
alike, so that at most two per parent differ: an evaluation with its gradient costs O(nodes²) of the level above.

Reference: matrix-mechanism, §6; the recursion is our own.

Hierarchies over ordered cells: nested levels, each a partition, and the inverse of any weighting of them.

With weights ω of the levels, `K = Σ_l ω_l² H_lᵀH_l` is inverted from the leaves up, one rank per node: for a node
with `u = K⁻¹1` over its children and `σ = 1ᵀu`, its own weight takes `ω² uuᵀ/(1 + ω²σ)` away from the inverse and
scales u by `1/(1 + ω²σ)`.

Reference: matrix-mechanism, Figure 1 and §6.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from residua.linalg.arrays import Floats, Integers
from residua.plans.search.strategies import Judged, Slopes, Told, best_shares, smooth_maximum


@dataclass(frozen=True)
class BranchingTree:
    """A tree over ordered cells: the root, its `branching` children, theirs, and so on; last the cells themselves.

    Example:
        >>> BranchingTree(10, 3).counts
        [1, 3, 9, 10]
    """

    cells: int
    branching: int

    @property
    def counts(self) -> list[int]:
        """How many nodes each level has: 1, b, b², … and the cells."""
        counts, nodes = [], 1
        while nodes < self.cells:
            counts.append(nodes)
            nodes *= self.branching
        return [*counts, self.cells]

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
    return np.vstack(BranchingTree(cells, branching).levels())


def first_of(groups: Integers) -> Integers:
    """The first member of each group of equal neighbours."""
    return np.flatnonzero(np.diff(groups, prepend=-1))


_SHARPNESS = 24.0  # order of the norm that stands for a maximum while weights are optimised
_ROUNDS = 60
_TILTS = (0.0, 0.4, -0.4)  # how much heavier each level is than the one above, where a descent starts (logarithms)
_STEEPEST = 12.0  # bound on those logarithms' sum
_REFINED = 16  # trees whose weights are optimised for the largest variance, after all were for the total
_NOTHING = 1e-4  # a weight below this is none


@dataclass(frozen=True, eq=False)
class WeightedTree:
    """A tree, weights of its levels that sum to 1, the loss with them, and the loss with equal ones."""

    tree: BranchingTree
    weights: Floats
    loss: float
    plain: float


def weighted_trees(asked: Judged, told: Told | None = None) -> list[WeightedTree]:
    """The trees of every branching with optimised weights, best first.

    For the largest variance, weights are optimised for the total first, and then those of the most promising.

    Args:
        asked: what they are judged by.
        told: called after every tree with its loss; with infinity while another loss than the one asked is optimised.
    """
    sums = Sums(asked.gram)
    trees: list[WeightedTree] = []
    for branching in range(2, asked.cells + 1):  # n itself is the total and the cells
        tree = BranchingTree(asked.cells, branching)
        # Trees of three levels are many and change little from one to the next.
        near = [trees[-1].weights] if trees and len(trees[-1].weights) == len(tree.counts) == 3 else None
        trees.append(optimised(tree, total_loss(sums, tree), near))
        if told:
            told(math.inf if asked.worst else trees[-1].loss)
    trees.sort(key=lambda each: each.loss)
    if asked.worst:
        trees = [optimised(each.tree, worst_loss(asked, each.tree), [each.weights]) for each in trees[:_REFINED]]
        trees.sort(key=lambda each: each.loss)
    return trees


def optimised(tree: BranchingTree, loss: Slopes, starts: list[Floats] | None = None) -> WeightedTree:
    """The weights of a tree's levels after descents from some starts, or from several tilts of equal weights."""
    count = len(tree.counts)
    logits = [tilt * np.arange(count) for tilt in _TILTS]
    if starts is not None:
        logits = [np.log(np.maximum(start, _NOTHING)) for start in starts]
    omega = best_shares(loss, logits, _STEEPEST, _ROUNDS)
    omega[:-1][omega[:-1] < _NOTHING] = 0.0
    omega /= omega.sum()
    return WeightedTree(tree, omega, loss(omega**2)[0], loss(np.full(count, count**-2.0))[0])


def total_loss(sums: Sums, tree: BranchingTree) -> Slopes:
    """`tr V K⁻¹` and its gradient, as a function of the squares of the levels' weights, (levels,)."""
    pairs, diagonal, sizes, nodes, first = sums.base(tree)
    trace = float(np.trace(sums.V))
    counts = tree.counts[-3::-1]
    # The first item below of every node, for each inner level above the finest.
    starts = [first, *(np.arange(above) * tree.branching for _, above in pairwise(counts))]

    def loss(squares: Floats) -> tuple[float, Floats]:
        leaf, inner = float(squares[-1]), squares[-2::-1]
        R, q, sigma, count = pairs / leaf**2, diagonal / leaf**2, sizes / leaf, nodes
        value, kept = trace / leaf, []
        for place, w in enumerate(inner):
            f = 1.0 / (1.0 + w * sigma)
            kept.append((R, q, sigma, count, f))
            value -= float(w * (q @ f))
            if place + 1 < len(inner):
                R = _pooled(f[:, None] * R * f, starts[place])
                sigma = np.add.reduceat(count * sigma * f, starts[place])
                q, count = np.diagonal(R), np.ones(len(sigma))
        slope = np.zeros(len(squares))
        of_R, of_sigma = np.zeros((1, 1)), np.zeros(1)  # derivatives of the value by what the level above is made of
        for place in range(len(inner) - 1, -1, -1):
            R, q, sigma, count, f = kept[place]
            w = inner[place]
            repeats = np.diff(starts[place], append=len(f)) if place + 1 < len(inner) else np.full(1, len(f))
            of_R = np.repeat(np.repeat(of_R, repeats, axis=0), repeats, axis=1)
            of_sigma = np.repeat(of_sigma, repeats) * count
            of_f = of_sigma * sigma + 2 * ((R * of_R) @ f) - w * q
            slope[-2 - place] = -float(q @ f) - float((of_f * sigma * f) @ f)
            of_sigma = of_sigma * f - of_f * w * f * f
            of_R = f[:, None] * of_R * f
            if place:
                np.fill_diagonal(of_R, np.diagonal(of_R) - w * f)
        of_leaf = 2 * (float((of_R * pairs).sum()) - float(inner[0] * (diagonal @ f))) / leaf
        slope[-1] = -(trace + float(of_sigma @ sizes) + of_leaf) / leaf**2
        return value, slope

    return loss


def worst_loss(asked: Judged, tree: BranchingTree) -> Slopes:
    """The largest variance made smooth, and its gradient, as a function of the squares of the weights."""

    def loss(squares: Floats) -> tuple[float, Floats]:
        variances = np.maximum(asked.queries.diagonal(tree.inverse(squares)), 0.0)
        value, slope = smooth_maximum(variances, _SHARPNESS)
        return value, total_loss(Sums(asked.queries.gram(slope)), tree)(squares)[1]

    return loss


@dataclass(frozen=True, eq=False)
class Sums:
    """Sums of V over nodes of any tree."""

    V: Floats

    @cached_property
    def _prefix(self) -> Floats:
        n = len(self.V)
        prefix = np.zeros((n + 1, n + 1))
        np.cumsum(np.cumsum(self.V, axis=0), axis=1, out=prefix[1:, 1:])
        return prefix

    def base(self, tree: BranchingTree) -> tuple[Floats, Floats, Floats, Floats, Integers]:
        """What a tree's finest inner level needs. Its nodes of one parent and size are alike, and make one item.

        Returns:
            Sums of V over pairs of items, (items, items); over pairs of cells of one node, summed over the nodes of an
            item; cells of each node of an item; nodes of each item, (items,) each; and the first item of each parent.
        """
        nodes, n = tree.counts[-2], tree.cells
        owner = tree.owners(nodes)
        first = first_of(owner)
        stop = np.append(first[1:], n)
        P = self._prefix
        blocks = P[stop, stop] - P[first, stop] - P[stop, first] + P[first, first]
        # An item is a parent and one of two sizes.
        kinds: Integers
        kinds, item = np.unique((np.arange(nodes) // tree.branching) * (n + 1) + (stop - first), return_inverse=True)
        members = np.zeros((n, len(kinds)))
        members[np.arange(n), item[owner]] = 1.0  # O(n² items)
        sizes, counts = (kinds % (n + 1)).astype(np.float64), np.bincount(item).astype(np.float64)
        diagonal = np.bincount(item, blocks).astype(np.float64)
        return np.asarray(members.T @ (self.V @ members)), diagonal, sizes, counts, first_of(kinds // (n + 1))


def _pooled(matrix: Floats, first: Integers) -> Floats:
    """Sums over pairs of groups of neighbours, each given by its first member."""
    return np.asarray(np.add.reduceat(np.add.reduceat(matrix, first, axis=0), first, axis=1))
