"""The best precisions for the nodes of trees, and a bound on what any linear Gaussian mechanism can do instead.

A problem has parts: one for each set S of short attributes that the tree is crossed with (the residual on S in every
node), with a tree of its own depth and the cost κ_S of one record. NestedShares of different parts are independent, and
a record pays `Σ_S κ_S Σ τ` over the nodes on its way to the root. In each part every leaf pays the same, so parts are
solved one by one and share the budget in proportion to `√(loss / κ)`.

The bound holds for all mechanisms: relabelling the values of short attributes changes nothing that is asked, so some
best Γ is a sum of its parts Γ_S; with weights q of the leaves, `Σ_S κ_S Σ_i q_i (Γ_S)_ii ≤ 1` gives
`Σ_S tr(G_S Γ_S⁻¹) ≥ (Σ_S √κ_S tr (Q^½ G_S Q^½)^½)²`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from residua.linalg.arrays import Floats
from residua.linalg.tree import Levels, NestedTree, root_diagonal, spectrum
from residua.plans.saddle import Answer, Progress, Solution, ascend, simplices
from residua.plans.solver.ordered import cached_root

Each = Literal["node", "level"]
Over = Literal["nodes", "levels"]
_ROOT_ERROR = 1e-6
_ROUNDS = 200
_LARGEST_ROUNDS = 600
_BOUND_ROUNDS = 12
_EVERY = 25  # rounds between two looks at the bound
_LEAST = 1e-12  # of the budget: the least precision of a level


@dataclass(frozen=True, eq=False)
class TreePart:
    """What is measured of one set of short attributes.

    Args:
        cost: κ, what one record pays per precision.
        tree: its nodes.
        start: which level of the base tree its leaves are.
    """

    cost: float
    tree: NestedTree
    start: int


@dataclass(frozen=True)
class Wanted:
    """Tables of all nodes of one level.

    Args:
        level: of the base tree.
        weight: of the variance of one node's table, summed over its cells and all terms that ask for it.
        target: what the variance of each cell is compared with.
        sets: which parts it needs, and how much of the variance of each is in one cell.
    """

    level: int
    weight: float
    target: float
    sets: tuple[tuple[int, float], ...]


@dataclass(frozen=True, eq=False)
class NestedProblem:
    """Parts and what is wanted of them.

    Args:
        base: the tree of all asked levels; leaves of one parent are kept once.
        parts: what is measured.
        wanted: the tables.
    """

    base: NestedTree
    parts: tuple[TreePart, ...]
    wanted: tuple[Wanted, ...]

    def weights(self, each: Sequence[Any]) -> list[Levels]:
        """The weight of every node of every part, from one (or one per node) for each cell of what is wanted."""
        weights = [[np.zeros(1) for _ in range(part.tree.depth)] for part in self.parts]
        for wanted, weight in zip(self.wanted, each, strict=True):
            for number, share in wanted.sets:
                at = wanted.level - self.parts[number].start
                weights[number][at] = weights[number][at] + share * weight
        return weights

    def variances(self, levels: Sequence[Sequence[Floats]]) -> list[Floats]:
        """The variance of a cell of each node that is wanted, from those of the nodes of each part's levels."""
        return [
            np.asarray(sum(share * levels[n][wanted.level - self.parts[n].start] for n, share in wanted.sets))
            for wanted in self.wanted
        ]


@dataclass(frozen=True, eq=False)
class NestedShares:
    """The precisions of one part, every leaf of which pays 1 in all, as shares: what a node keeps of what is left.

    Args:
        tree: the nodes.
        each: whether nodes or levels have shares of their own.
        shares: of each level, from 0 to 1; 1 for leaves.
    """

    tree: NestedTree
    each: Each
    shares: tuple[Floats, ...]

    @classmethod
    def even(cls, tree: NestedTree, each: Each) -> NestedShares:
        """The same precision for all levels."""
        shares = [np.full(n if each == "node" else 1, 1.0 / (k + 1)) for k, n in enumerate(tree.sizes)]
        return cls(tree, each, tuple(shares))

    @property
    def precisions(self) -> Levels:
        """Of each level: one number, or one per node."""
        left: Floats = np.ones(1)
        precisions: Levels = []
        for level in range(self.tree.depth - 1, -1, -1):
            precisions.insert(0, left * self.shares[level])
            left = left * (1.0 - self.shares[level])
            if level and len(left) > 1:
                left = left[self.tree.parents[level - 1]]
        return precisions

    def improved(self, slopes: Levels) -> NestedShares:
        """One round: where more for a node (or level) is worth more than more for all below it, it gets more."""
        tree, shares = self.tree, list(self.shares)
        slopes = slopes if self.each == "node" else [part.sum(keepdims=True) for part in slopes]
        below = slopes[0]
        for level in range(1, tree.depth):
            size = tree.sizes[level]
            rest = np.bincount(tree.parents[level - 1], weights=below, minlength=size) if self.each == "node" else below
            own, share = slopes[level], shares[level]
            below = share * own + (1.0 - share) * rest
            kept, handed = share * np.sqrt(own), (1.0 - share) * np.sqrt(rest)
            shares[level] = np.clip(kept / (kept + handed), _LEAST, 1.0 - 1e-9)
        return NestedShares(tree, self.each, tuple(shares))


def best_total(problem: NestedProblem, each: Each, tolerance: float, step: Progress | None = None) -> Solution:
    """The least weighted sum of variances: of each part and level the precision, one for all or one per node."""
    weights = problem.weights([np.array([wanted.weight]) for wanted in problem.wanted])
    precisions, slopes, losses = [], [], []
    for number, (part, own) in enumerate(zip(problem.parts, weights, strict=True)):
        levels = _settled(NestedShares.even(part.tree, "level"), own, 0.1 * tolerance)
        kept = levels
        if each == "node":
            shares = [np.full(n, float(share[0])) for n, share in zip(part.tree.sizes, levels.shares, strict=True)]
            kept = _settled(NestedShares(part.tree, "node", tuple(shares)), own, 0.1 * tolerance)
        solved = part.tree.solved(kept.precisions)
        precisions.append(kept.precisions)
        slopes.append(solved.slopes(own))
        losses.append(part.tree.total(own, solved.V))
        if step:
            step(number + 1, float("inf"))
    budget = shared_budget(problem.parts, losses)
    loss = float(sum(value / p for value, p in zip(losses, budget, strict=True)))
    q = sum(
        slope[0] / part.tree.many * np.sqrt(part.cost / value)
        for part, slope, value in zip(problem.parts, slopes, losses, strict=True)
        if part.start == 0
    )
    bound = lower_bound(problem, weights, np.asarray(q), target=loss / (1.0 + 0.1 * tolerance))
    scaled = tuple([p * level for level in levels] for p, levels in zip(budget, precisions, strict=True))
    return Solution(scaled, loss, bound)


def _settled(start: NestedShares, weights: Levels, tolerance: float) -> NestedShares:
    """Rounds until they bring nothing more."""
    before, now = np.inf, start
    for _ in range(_ROUNDS):
        solved = now.tree.solved(now.precisions)
        loss = now.tree.total(weights, solved.V)
        if before - loss < 0.1 * tolerance * loss:
            break
        before, now = loss, now.improved(solved.slopes(weights))
    return now


def best_largest(
    problem: NestedProblem, each: Each, over: Over, tolerance: float, step: Progress | None = None
) -> Solution:
    """The least largest `variance / target`, of single nodes, or of the means of levels.

    Nature moves weight to where variances are large, precisions follow by one round each; the best of both is kept.
    """
    base, parts, targets = problem.base, problem.parts, [wanted.target for wanted in problem.wanted]
    # How many nodes each one kept stands for; nature's weights are those of all of them.
    many = [base.many if each.level == 0 else np.ones(base.sizes[each.level]) for each in problem.wanted]
    cuts = np.cumsum([len(m) for m in many])[:-1]
    first = next(n for n, part in enumerate(parts) if part.start == 0)
    now, count, bound = [NestedShares.even(part.tree, each) for part in parts], 0, 0.0

    def answer(theta: Floats) -> Answer:
        nonlocal now, count, bound
        count += 1
        per_node = [own / m / t for own, m, t in zip(np.split(theta, cuts), many, targets, strict=True)]
        weights = problem.weights(per_node)
        solved = [one.tree.solved(one.precisions) for one in now]
        slopes = [one.slopes(own) for one, own in zip(solved, weights, strict=True)]
        losses = [part.tree.total(own, one.V) for part, own, one in zip(parts, weights, solved, strict=True)]
        budget = shared_budget(parts, losses)
        variances = problem.variances([[v / p for v in one.V] for one, p in zip(solved, budget, strict=True)])
        ratios = [v / t for v, t in zip(variances, targets, strict=True)]
        if over == "levels":
            ratios = [np.full(len(r), float(r @ m) / m.sum()) for r, m in zip(ratios, many, strict=True)]
        largest = max(float(r.max()) for r in ratios)
        if count % _EVERY == 0:
            goal = largest / (1.0 + 0.5 * tolerance)
            bound = max(bound, lower_bound(problem, weights, slopes[first][0] / base.many, rounds=3, target=goal))
        levels = [[p * level for level in one.precisions] for one, p in zip(now, budget, strict=True)]
        now = [one.improved(slope) for one, slope in zip(now, slopes, strict=True)]
        return Answer(bound, largest, np.concatenate(ratios) / largest, levels)

    start = np.concatenate([m / m.sum() / len(many) for m in many])
    normalised = simplices([len(start)], 1e-7 / len(start))
    return ascend(answer, start, normalised, tolerance, _LARGEST_ROUNDS, power=1.0, progress=step)


def shared_budget(parts: Sequence[TreePart], losses: Sequence[float]) -> Floats:
    """How much precision each part gets at privacy cost 1, from its loss at precision 1, (parts,)."""
    costs = np.array([part.cost for part in parts])
    roots = np.sqrt(costs * np.array(losses))
    return np.asarray(roots / roots.sum() / costs)


def lower_bound(
    problem: NestedProblem, weights: Sequence[Levels], q: Floats, *, rounds: int = _BOUND_ROUNDS, target: float
) -> float:
    """The best bound found from weights q of the leaves, (leaves of the base,), improved for some rounds.

    Args:
        problem: the parts.
        weights: how much the variance of each node of each part matters; positive for leaves.
        q: any positive weights; good ones are the slopes of a good plan.
        rounds: how often they are improved.
        target: a bound that is good enough.
    """
    base = problem.base

    def normalised(shares: Floats) -> Floats:
        q = shares / base.many
        q = np.maximum(q, q.max() * 1e-9)  # keeps the spectrum, and the number of poles, small
        return np.asarray(q * base.many / float(q @ base.many))

    def answer(shares: Floats) -> Answer:
        masses = base.masses(shares / base.many)
        ratios, total = np.zeros(len(shares)), 0.0
        for part, own in zip(problem.parts, weights, strict=True):
            mass = np.asarray(masses[part.start])
            root = cached_root(*spectrum(part.tree, own, mass), _ROOT_ERROR)
            diagonal = root_diagonal(part.tree, own, mass, root) * np.sqrt(part.cost)
            total += float(diagonal @ part.tree.many) / (1.0 + 2.0 * root.error)
            ratio = diagonal / mass
            for level in range(part.start - 1, -1, -1):
                ratio = ratio[base.parents[level]]
            ratios += ratio
        return Answer(total**2, target, ratios / total)

    return ascend(answer, normalised(q * base.many), normalised, 0.0, rounds).bound
