"""The best precisions for the nodes of trees, and a bound on what any linear Gaussian mechanism can do instead.

A problem has parts: one for each set S of short attributes that the tree is crossed with (the residual on S in every
node), with a tree of its own depth and the cost κ_S of one record. Precisions of different parts are independent, and
a record pays `Σ_S κ_S Σ τ` over the nodes on its way to the root. In each part every leaf pays the same, so parts are
solved one by one and share the budget in proportion to `√(loss / κ)`.

The bound holds for all mechanisms: relabelling the values of short attributes changes nothing that is asked, so some
best Γ is a sum of its parts Γ_S; with weights q of the leaves, `Σ_S κ_S Σ_i q_i (Γ_S)_ii ≤ 1` gives
`Σ_S tr(G_S Γ_S⁻¹) ≥ (Σ_S √κ_S tr (Q^½ G_S Q^½)^½)²`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from residua.linalg.arrays import Floats
from residua.linalg.roots import InverseRoot, inverse_root
from residua.linalg.tree import Levels, NestedTree, SolvedTree, root_diagonal, spectrum
from residua.plans.saddle import POWER

Each = Literal["node", "level"]
Over = Literal["nodes", "levels"]
Step = Callable[[int, float], object]
_ROOT_ERROR = 1e-6
_ROUNDS = 200
_LARGEST_ROUNDS = 600
_BOUND_ROUNDS = 12
_EVERY = 25  # rounds between two looks at the bound
_LEAST = 1e-12  # of the budget: the least precision of a level


@dataclass(frozen=True, eq=False)
class Part:
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
        weight: of the variance of one node's table, summed over its cells.
        target: what the variance of each cell is compared with.
        sets: which parts it needs, and how much of the variance of each is in one cell.
        cells: how many cells the table of one node has.
    """

    level: int
    weight: float
    target: float
    sets: tuple[tuple[int, float], ...]
    cells: int


@dataclass(frozen=True, eq=False)
class Problem:
    """Parts and what is wanted of them.

    Args:
        base: the tree of all asked levels; leaves of one parent are kept once.
        parts: what is measured.
        wanted: the tables.
    """

    base: NestedTree
    parts: tuple[Part, ...]
    wanted: tuple[Wanted, ...]

    def weights(self, each: Sequence[Any]) -> list[Levels]:
        """The weight of every node of every part, from one (or one per node) for each cell of what is wanted."""
        found = [[np.zeros(1) for _ in range(part.tree.depth)] for part in self.parts]
        for wanted, weight in zip(self.wanted, each, strict=True):
            for number, share in wanted.sets:
                at = wanted.level - self.parts[number].start
                found[number][at] = found[number][at] + share * weight
        return found

    def variances(self, solved: Sequence[SolvedTree]) -> list[Floats]:
        """The variance of a cell of each node that is wanted."""
        return [
            np.asarray(sum(share * solved[n].V[wanted.level - self.parts[n].start] for n, share in wanted.sets))
            for wanted in self.wanted
        ]


@dataclass(frozen=True, eq=False)
class Precisions:
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
    def even(cls, tree: NestedTree, each: Each) -> Precisions:
        """The same precision for all levels."""
        shares = [np.full(n if each == "node" else 1, 1.0 / (k + 1)) for k, n in enumerate(tree.sizes)]
        return cls(tree, each, tuple(shares))

    @property
    def precisions(self) -> Levels:
        """Of each level: one number, or one per node."""
        left: Floats = np.ones(1)
        found: Levels = []
        for level in range(self.tree.depth - 1, -1, -1):
            found.insert(0, left * self.shares[level])
            left = left * (1.0 - self.shares[level])
            if level and len(left) > 1:
                left = left[self.tree.parents[level - 1]]
        return found

    def improved(self, slopes: Levels) -> Precisions:
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
        return Precisions(tree, self.each, tuple(shares))


@dataclass(frozen=True, eq=False)
class NestedSolution:
    """Precisions of all parts at privacy cost 1.

    Args:
        precisions: of each part, per level: one for a whole level, or one per node.
        loss: what was to be small.
        bound: no mechanism of privacy cost 1 has a smaller loss.
    """

    precisions: tuple[Levels, ...]
    loss: float
    bound: float


def best_total(problem: Problem, each: Each, tolerance: float, step: Step | None = None) -> NestedSolution:
    """The least weighted sum of variances."""
    weights = problem.weights([np.array([wanted.weight]) for wanted in problem.wanted])
    found, slopes, losses = [], [], []
    for number, (part, own) in enumerate(zip(problem.parts, weights, strict=True)):
        levels = _settled(Precisions.even(part.tree, "level"), own, 0.1 * tolerance)
        kept = levels
        if each == "node":
            shares = [np.full(n, float(share[0])) for n, share in zip(part.tree.sizes, levels.shares, strict=True)]
            kept = _settled(Precisions(part.tree, "node", tuple(shares)), own, 0.1 * tolerance)
        solved = part.tree.solved(kept.precisions)
        found.append(kept.precisions)
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
    scaled = tuple([p * level for level in levels] for p, levels in zip(budget, found, strict=True))
    return NestedSolution(scaled, loss, bound)


def _settled(start: Precisions, weights: Levels, tolerance: float) -> Precisions:
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
    problem: Problem, each: Each, over: Over, tolerance: float, step: Step | None = None
) -> NestedSolution:
    """The least largest `variance / target`, of single nodes, or of the means of levels.

    Nature moves weight to where variances are large, precisions follow by one round each; the best of both is kept.
    """
    sizes = [problem.base.sizes[wanted.level] for wanted in problem.wanted]
    many = [
        problem.base.many if wanted.level == 0 else np.ones(n) for wanted, n in zip(problem.wanted, sizes, strict=True)
    ]
    lam = [each_many / each_many.sum() / len(sizes) / each_many for each_many in many]
    now = [Precisions.even(part.tree, each) for part in problem.parts]
    best: tuple[float, Any] = (np.inf, None)
    bound, exponent = 0.0, 1.0
    q = 1.0 / np.full(problem.base.sizes[0], problem.base.many.sum())
    for count in range(1, _LARGEST_ROUNDS + 1):
        scaled = [weight / wanted.target for weight, wanted in zip(lam, problem.wanted, strict=True)]
        weights = problem.weights(scaled)
        solved = [one.tree.solved(one.precisions) for one in now]
        slopes = [one.slopes(own) for one, own in zip(solved, weights, strict=True)]
        losses = [part.tree.total(own, one.V) for part, own, one in zip(problem.parts, weights, solved, strict=True)]
        budget = shared_budget(problem.parts, losses)
        at_cost = [_Scaled(tuple(v / p for v in one.V)) for one, p in zip(solved, budget, strict=True)]
        ratios = [v / wanted.target for v, wanted in zip(problem.variances(at_cost), problem.wanted, strict=True)]  # type: ignore[arg-type]
        if over == "levels":
            ratios = [np.full(len(r), float(r @ m) / m.sum()) for r, m in zip(ratios, many, strict=True)]
        largest = max(float(r.max()) for r in ratios)
        if largest < best[0]:
            best = (largest, [[p * level for level in one.precisions] for one, p in zip(now, budget, strict=True)])
        if count % _EVERY == 0 or count == _LARGEST_ROUNDS:
            first = next(n for n, part in enumerate(problem.parts) if part.start == 0)
            q = slopes[first][0] / problem.base.many
            bound = max(bound, lower_bound(problem, weights, q, rounds=3, target=best[0] / (1.0 + 0.5 * tolerance)))
            if step:
                step(count, best[0] / bound - 1.0)
            if best[0] <= bound * (1.0 + tolerance):
                break
        lam = [weight * (r / largest) ** exponent for weight, r in zip(lam, ratios, strict=True)]
        mass = sum(float(weight @ m) for weight, m in zip(lam, many, strict=True))
        lam = [np.maximum(weight / mass, 1e-7 / m.sum() / len(lam)) for weight, m in zip(lam, many, strict=True)]
        mass = sum(float(weight @ m) for weight, m in zip(lam, many, strict=True))
        lam = [weight / mass for weight in lam]
        now = [one.improved(slope) for one, slope in zip(now, slopes, strict=True)]
    return NestedSolution(tuple(best[1]), best[0], bound)


@dataclass(frozen=True, eq=False)
class _Scaled:
    """Variances alone, of a part at its share of the budget."""

    V: tuple[Floats, ...]


def shared_budget(parts: Sequence[Part], losses: Sequence[float]) -> Floats:
    """How much precision each part gets at privacy cost 1, from its loss at precision 1, (parts,)."""
    costs = np.array([part.cost for part in parts])
    roots = np.sqrt(costs * np.array(losses))
    return np.asarray(roots / roots.sum() / costs)


def _root(least: float, most: float) -> InverseRoot:
    """`x^-½` on an interval or a larger one, so that few are ever made."""
    unit = _unit_root(math.ceil(math.log10(most / least)))
    return InverseRoot(unit.poles * most, unit.weights * math.sqrt(most), unit.error)


@lru_cache(maxsize=64)
def _unit_root(powers: int) -> InverseRoot:
    return inverse_root(10.0 ** -max(powers, 1), 1.0, _ROOT_ERROR)


def lower_bound(
    problem: Problem, weights: Sequence[Levels], q: Floats, rounds: int = _BOUND_ROUNDS, target: float = 0.0
) -> float:
    """The best bound found from weights q of the leaves, (leaves of the base,), improved for some rounds.

    Args:
        problem: the parts.
        weights: how much the variance of each node of each part matters; positive for leaves.
        q: any positive weights; good ones are the slopes of a good plan.
        rounds: how often they are improved.
        target: a bound that is good enough.
    """
    base, best, exponent = problem.base, 0.0, POWER
    for _ in range(rounds):
        q = np.maximum(q, q.max() * 1e-9)  # keeps the spectrum, and the number of poles, small
        q = q / float(q @ base.many)
        masses = base.masses(q)
        ratios, total = np.zeros(len(q)), 0.0
        for part, own in zip(problem.parts, weights, strict=True):
            mass = np.asarray(masses[part.start])
            root = _root(*spectrum(part.tree, own, mass))
            diagonal = root_diagonal(part.tree, own, mass, root) * np.sqrt(part.cost)
            total += float(diagonal @ part.tree.many) / (1.0 + 2.0 * root.error)
            ratio = diagonal / mass
            for level in range(part.start - 1, -1, -1):
                ratio = ratio[base.parents[level]]
            ratios += ratio
        if total**2 <= best * (1.0 + 1e-6):
            if exponent < 1.1:
                break
            exponent = 1.0
        best = max(best, total**2)
        if best >= target:
            break
        q = q * (ratios / total) ** exponent
    return best
