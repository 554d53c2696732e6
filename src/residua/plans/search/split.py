"""How to split epsilon over measured marginals, and which to begin with; `exchanges` goes on from there.

Measuring marginal A with Laplace noise of scale `1/ε_A` has variance `2/ε_A²` per cell and costs ε_A; all cost `Σ ε_A`.
Least squares over all measured tables gives residual S the precision

    τ_S = Σ_{A ⊇ S} ε_A²/2 · Π_{i∈A∖S} 1/n_i,

and a cell of marginal B the variance `Σ_{S⊆B} κ_S/τ_S Π_{i∈B∖S} 1/n_i²`, exactly (docs/notation.md). If every
asked marginal were answered from its own table alone, the best split for a weighted total `Σ m_A · 2/ε_A²` would be the
cube-root rule `ε_A ∝ m_A^(1/3)`, in closed form. With pooling the loss is convex in `ε_A²` but the budget is not, so
the rule is a start, and a quasi-Newton descent goes on from it: it ends in a local optimum, in which many sets are
dropped. What is proven is the lower bound: a Laplace plan of epsilon has `Σ ε_A²/2 ≤ ε²/2`, so it is no better
than the best Gaussian plan of that pcost.

Reference: matrix-mechanism, Proposition 4; the pooling is in docs/notation.md, Residual spaces.

To begin with: those marginals that were asked for, the largest of them, everything below, or joint tables of several.

With an L1 budget a joint table can be cheaper than its parts: two binary attributes at `ε/2` each have variance
`8/ε²` per cell, their joint table at ε gives both margins variance `4/ε²`.

Which marginals to measure: one set left out, added, merged or exchanged at a time, while that helps.

The descent of a split drops sets but never takes one up, and ends in the nearest of many local optima. From
there: leave a set out, put two together into their joint table, exchange one for a set above or below it, or measure
one more; split epsilon again, and keep what is better, until nothing is. How many are looked at and tried is bounded
by the number of sets, so that thousands of them take seconds and no more memory than a few splits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import blake2b

import numpy as np

from residua.linalg.arrays import Booleans, Floats, Integers
from residua.linalg.lattice import SetFamily, closure
from residua.plans.saddle import smooth_maximum
from residua.plans.search.strategies import Slopes, lowest
from residua.plans.solver.closed_form import MarginalGame
from residua.workload import Workload

_MOST_JOINT = 2**12  # cells of a joint table of several asked sets
_OPEN = 24  # groups that one more set may join
_MOST_GROUPED = 4096  # asked sets up to which groups are looked for
_FEW = 8  # attributes up to which every set of them may be measured


def families(workload: Workload) -> tuple[SetFamily, list[tuple[int, ...]]]:
    """The sets that may be measured, downward closed, and the joint tables among them that look promising."""
    groups = _grouped(workload)
    used = sorted({i for row in _asked(workload) for i in row})
    sizes = workload.domain.sizes
    extra = [np.array([group], dtype=np.int32).reshape(1, -1) for group in groups]
    if used and len(used) <= _FEW and math.prod(int(sizes[i]) for i in used) <= _MOST_JOINT:
        extra.append(np.array([used], dtype=np.int32))
    if not extra:
        return workload.lattice, []
    return closure([*workload.lattice.levels, *extra], len(sizes)), groups


def starts(
    workload: Workload, lattice: SetFamily, groups: list[tuple[int, ...]], numbers: Integers, masses: Floats
) -> Iterator[tuple[str, Floats]]:
    """Named first splits, (sets,): the cube-root rule on several choices of sets."""
    rule = np.zeros(len(lattice))
    rule[numbers] = np.cbrt(masses)
    yield "asked marginals", rule
    maximal = np.zeros(len(lattice))
    weight = np.zeros(len(lattice))
    weight[numbers] = masses
    places = np.concatenate([lattice.find(level) for level in workload.lattice.levels])[workload.lattice.is_maximal]
    maximal[places] = np.cbrt(np.maximum(weight[places], masses.min()))
    if (maximal > 0).sum() < len(numbers) or not set(places.tolist()) <= set(numbers.tolist()):
        yield "largest marginals", maximal
    below = np.where(rule > 0, rule, 0.3 * rule.max())
    if (rule == 0).any():
        yield "all sets", below
    if groups:
        joint = np.zeros(len(lattice))
        for group in groups:
            joint[int(lattice.find(np.array([group], dtype=np.int32).reshape(1, -1))[0])] = 1.0
        yield "joint tables", joint


def _asked(workload: Workload) -> list[tuple[int, ...]]:
    rows = list(workload.lattice)
    return [rows[number] for number in workload.numbers.tolist()]


def _grouped(workload: Workload) -> list[tuple[int, ...]]:
    """Asked sets packed greedily into joint tables, while `Σ_groups (Σ masses · dilution)^(1/3)` falls."""
    if len(workload) > _MOST_GROUPED:
        return []
    sizes = [int(n) for n in workload.domain.sizes]
    groups: list[tuple[frozenset[int], list[tuple[frozenset[int], float]]]] = []
    order = sorted(
        zip(_asked(workload), workload.weights * workload.cells, strict=True), key=lambda pair: -len(pair[0])
    )
    merged = False
    for row, mass in order:
        item = [(frozenset(row), float(mass))]
        best, gain = -1, 0.0
        for place in range(max(0, len(groups) - _OPEN), len(groups)):
            joint, items = groups[place]
            union = joint | item[0][0]
            if math.prod(sizes[i] for i in union) > _MOST_JOINT:
                continue
            saved = _root(joint, items, sizes) + _root(item[0][0], item, sizes) - _root(union, items + item, sizes)
            if saved > gain * (1 + 1e-12) + 1e-12:
                best, gain = place, saved
        if best < 0:
            groups.append((item[0][0], item))
            continue
        joint, items = groups[best]
        merged = merged or not item[0][0] <= joint
        groups[best] = (joint | item[0][0], items + item)
    return [tuple(sorted(joint)) for joint, _ in groups] if merged else []


def _root(joint: frozenset[int], items: list[tuple[frozenset[int], float]], sizes: list[int]) -> float:
    """Cube root of what a joint table's items lose at epsilon 1."""
    return math.cbrt(sum(mass * math.prod(sizes[i] for i in joint - row) for row, mass in items))


_SHARPNESS = (6.0, 40.0)  # orders of the norm that stands for a maximum, one after the other
_LEAST = 1e-7  # of an even share: a set is never quite dropped while others may still come to rely on it
_DROPPED = 1e-3  # of an even share: what is measured less than this is not measured


@dataclass(frozen=True, eq=False)
class EpsilonSplit:
    """The loss of a split of epsilon, for `Σ ε_A = 1`.

    Args:
        lattice: sets that may be measured, and all below them.
        sizes: how many values each attribute has, (attributes,).
        numbers: the asked sets, (asked,).
        masses: what a cell variance of each is multiplied by, (asked,).
        worst: whether the largest counts instead of the sum.
        slopes: any other loss of what counts, and how it grows with each.
    """

    lattice: SetFamily
    sizes: Integers
    numbers: Integers
    masses: Floats
    worst: bool
    slopes: Slopes | None = None
    coefficients: MarginalGame = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "coefficients", MarginalGame(self.lattice, self.sizes))

    def precisions(self, shares: Floats) -> Floats:
        """τ_S of every set, (sets,)."""
        return self.lattice.sum_over_supersets(shares**2 / 2, 1.0 / self.sizes)

    def loss(self, shares: Floats) -> float:
        """The loss when these shares, scaled to sum 1, are spent; infinite if an asked set cannot be answered."""
        values = self._values(self.precisions(shares / shares.sum()))
        if self.slopes is not None:
            return self.slopes(values)[0] if np.isfinite(values).all() else math.inf
        return float(values.max() if self.worst else values.sum())

    def improved(self, shares: Floats, rounds: int = 400) -> Floats:
        """A split at least as good, by descent; sets with a share of 0 stay out."""
        used = np.flatnonzero(shares > 0)
        x = shares[used] / (float(shares.sum()) / len(used))
        for sharpness in _SHARPNESS if self.worst else (1.0,):
            bounds, options = [(_LEAST, None)] * len(used), {"ftol": 1e-9, "gtol": 1e-9, "maxcor": 20}
            _, x = lowest(self._objective(used, sharpness), [x], bounds, maxiter=rounds, **options)
            x = x / x.mean()
        best = np.zeros(len(shares))
        best[used] = np.where(x > _DROPPED, x, 0.0)
        if not np.isfinite(self.loss(best)):
            best[used] = x
        best /= best.sum()
        return best if self.loss(best) <= self.loss(shares) else shares / shares.sum()

    def _objective(self, used: Integers, sharpness: float) -> Slopes:
        def objective(x: Floats) -> tuple[float, Floats]:
            shares = np.zeros(len(self.lattice))
            shares[used] = x
            tau = self.precisions(shares)
            total = float(x.sum())
            values = self._values(tau) * total**2  # as if they added up to 1: losses of variances have no other scale
            if self.slopes is not None and np.isfinite(values).all():
                value, slope = self.slopes(values)
            elif self.worst:
                value, slope = smooth_maximum(values, sharpness)
            else:
                value, slope = float(values.sum()), np.ones(len(values))
            weights = np.zeros(len(self.lattice))
            weights[self.numbers] = self.masses * slope
            pull = self.coefficients.cost * self.coefficients.importance(weights)
            with np.errstate(divide="ignore", invalid="ignore"):
                pull = np.where(pull != 0, pull / tau**2, 0.0)
            gradient = -shares * self.lattice.sum_over_subsets(pull, 1.0 / self.sizes)
            gradient = gradient[used] * total**2 + 2 * float(slope @ values) / total
            return float(np.log(value)), gradient / value

        return objective

    def _values(self, tau: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            return np.asarray(self.masses * self.coefficients.variances(1.0 / tau)[self.numbers])


Sets = frozenset[int]
_GAIN = 1e-4  # relative: what is worth an exchange
_FEW_ROUNDS, _ROUNDS = 12, 60  # of descent after each, and after those that are kept
_MOST_TRIES = 250
_MOST_WORK = 40_000  # sets of the lattice times tries: beyond, planning would take more than seconds
_MOST_PAIRS = 300_000  # pairs of sets looked at for each kind of exchange: all of them up to some hundred sets


def exchanged(
    split: EpsilonSplit, shares: Floats, told: Callable[[float], None] | None = None, most: int = _MOST_TRIES
) -> Floats:
    """A split at least as good: no single exchange improves it, or as many were tried as time allows.

    Args:
        split: what it is judged by.
        shares: of every set of the lattice, (sets,).
        told: called after every try with the least loss so far.
        most: how many are tried at most.
    """
    tries = min(_MOST_WORK // len(split.lattice), _MOST_TRIES, most)
    rows = [frozenset(row) for row in split.lattice]
    best, least = shares, split.loss(shares)
    seen: set[bytes] = set()
    improved = True
    while improved:
        improved = False
        used = best > 0
        even = float(best.sum()) / int(used.sum())
        for out, into in _exchanges(split, used, rows):
            trial = best.copy()
            trial[out] = 0.0
            trial[into] = max([even, *best[out].tolist()])
            chosen = blake2b(np.packbits(trial > 0).tobytes(), digest_size=16).digest()
            if chosen in seen:
                continue
            seen.add(chosen)
            if not tries:
                return best
            tries -= 1
            trial = split.improved(trial, _FEW_ROUNDS)
            improved = split.loss(trial) < least * (1 - _GAIN)
            if improved:
                best = split.improved(trial, _ROUNDS)
                least = split.loss(best)
            if told:
                told(least)
            if improved:
                break
    return best


def _exchanges(split: EpsilonSplit, used: Booleans, rows: list[Sets]) -> Iterator[tuple[list[int], list[int]]]:
    """What to leave out, and what to measure instead, by number; every asked set can be answered afterwards."""
    known = {row: number for number, row in enumerate(rows)}
    chosen = np.flatnonzero(used).tolist()
    alone = _alone(split, used)
    for one in chosen:
        if not alone[one] and len(chosen) > 1:
            yield [one], []
    pairs = 0
    for place, one in enumerate(chosen):
        for other in chosen[:place]:
            joint = known.get(rows[one] | rows[other])
            if joint is not None:
                yield [one, other], [joint]
        pairs += place
        if pairs > _MOST_PAIRS:
            break
    unused = np.flatnonzero(~used).tolist()
    for place, one in enumerate(chosen):
        if place * len(unused) > _MOST_PAIRS:
            break
        for other in unused:
            if rows[one] < rows[other] or (rows[other] < rows[one] and alone[other] == alone[one]):
                yield [one], [other]
    for other in unused:
        yield [], [other]


def _alone(split: EpsilonSplit, used: Booleans) -> Integers:
    """How many asked sets below each set are answered by one measured set alone, (sets,).

    A measured set can be left out if there are none; or exchanged for one below it that has them all.
    """
    ones = np.ones(len(split.sizes))
    covering = split.lattice.sum_over_supersets(used.astype(np.float64), ones)
    asked = np.zeros(len(used))
    asked[split.numbers] = covering[split.numbers] < 1.5
    return np.rint(split.lattice.sum_over_subsets(asked, ones)).astype(np.int64)
