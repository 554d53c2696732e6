"""The best precisions where the most expensive of several changes of the data counts, not one price for each block.

A change j costs `Σ_b c_jb τ_b`. For weights y on the changes, `c̄ = Σ_j y_j c_j`, the least `Σ_b u_b/τ_b` at a mean cost
of 1 is `(Σ_b √(u_b c̄_b))²`, by `τ_b ∝ √(u_b/c̄_b)`: no precisions that cost 1 at most are better. The best weights
maximise `2 Σ_b √(u_b c̄_b) − Σ_j y_j`, concave: `τ_b = √(u_b/c̄_b)` then costs 1 at most, and exactly 1 where a change
has weight. Newton's method with a barrier, `y_j (1 − cost_j) = μ`, finds them; blocks of one kind cost the same shares
of their prices, so that there are as many terms as kinds. Where changes are many, few of them bind: those are weighed,
and what turns out to cost more is added.

*A record is replaced.* Two cells that agree on exactly the attributes in E cost
`2 Σ_{S≠∅} c_S τ_S (1 − Π_{i∈S∖E} r_i)`, `r_i = −1/(n_i − 1)` for the plain residual and the least there is for other
strategies (`product/set_price.py`). The number of records does not change: the total is free, and measured far more
precisely than all else.

Attributes that are alike (as many values, and as important: `alike`) count by how many of them differ, so that k
attributes in a few classes of m_c have `Π (m_c + 1)` patterns, not 2^k. Of all sets with t of m such attributes, d of
which differ, the product of the ratios is on average `Σ_h C(d, h) C(m−d, t−h) r^h / C(m, t)`; sums over all patterns
are one pass per class. Where patterns are too many even so, they are not weighed: two cells that are drawn at random
have nothing in common on average, so that block S ≠ ∅ costs `2 c_S τ_S`. That bounds every plan; the worst pattern
costs little more where attributes are many (`product/balanced.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from residua.linalg.arrays import Floats, Integers
from residua.linalg.lattice import SetFamily
from residua.plans.saddle import Solution

_SETTLED = 1e-5  # the loss of a response is within this of the best
_STEPS, _CENTRE, _BOUNDARY = 100, 0.15, 0.95  # of Newton; by how much μ falls; how far towards 0 a step goes
_FEW, _OUTER = 120, 40  # changes that are all weighed at once; rounds of adding more
_NEARLY = 1e-3  # of the cost: what a change lacks that may bind
_FREE, _FELT = 2.0**14, 1e-5  # how much more precise than all else a total is that is free; of the loss: what it adds
_SUMS_ALIKE, _ALIKE = 1e-9, 2.0**-43  # weights, and sums of them, that differ by less, relatively, are the same


@dataclass(frozen=True, eq=False)
class PatternSpending:
    """The best way to spend a budget of 1 where the most expensive change counts.

    Args:
        prices: what every block costs where all of it changes, (blocks,).
        kinds: of which kind it is, (blocks,); blocks of one kind that matter alike have one precision, to the digit.
        changes: how many there are.
        paid: what is paid for each kind ↦ what each change costs, (kinds,) ↦ (changes,).
        rows: some changes ↦ which share of each kind's prices they cost, (some,) ↦ (some, kinds).
        every: whether these are all changes that there are, not one drawn at random.
    """

    prices: Floats
    kinds: Integers
    changes: int
    paid: Callable[[Floats], Floats]
    rows: Callable[[Integers], Floats]
    every: bool = True
    _last: list[Integers] = field(default_factory=list, init=False)  # the changes that were weighed at last

    def costs(self, precisions: Floats) -> Floats:
        """What each change costs, (changes,)."""
        return self.paid(self._summed(self.prices * precisions))

    def respond(self, u: Floats) -> tuple[Floats, float, float]:
        """The noise variances of least loss at cost 1, (blocks,), that loss, and what no others can beat.

        Args:
            u: how much noise on each block matters, (blocks,); infinite noise where it does not at all.
        """
        best = self._weighed(self._summed(np.sqrt(u * self.prices)))
        free = (u > 0) & (self.prices * best.plan[self.kinds] <= 0)
        paid = np.where((u > 0) & ~free, best.plan[self.kinds], 0.0)
        precisions = np.divide(np.sqrt(u), np.sqrt(self.prices) * paid, out=np.zeros(len(u)), where=paid > 0)
        counts = np.maximum(self._summed(np.ones(len(u))), 1.0)
        together = (self._summed(precisions) / counts)[self.kinds]
        precisions = np.where(np.abs(together - precisions) <= _SUMS_ALIKE * precisions, together, precisions)
        precisions[free] = np.maximum(u[free] / (_FELT * best.loss), _FREE * float(precisions.max()))
        with np.errstate(divide="ignore"):
            return 1.0 / precisions, best.loss * (1.0 + _FELT), best.bound

    def value(self, u: Floats) -> float:
        """What no choice can beat."""
        return self.respond(u)[2]

    def _summed(self, values: Floats) -> Floats:
        return np.bincount(self.kinds, weights=values).astype(np.float64)

    def _weighed(self, sums: Floats) -> Solution:
        """The best `√c̄` of each kind, (kinds,), by weights on the changes that bind; 0 for what is free."""
        every = np.arange(self.changes)
        if self.changes <= _FEW:
            return _climbed(self.rows(every), sums)
        chosen = self._last[-1] if self._last else np.linspace(0, self.changes - 1, _FEW).astype(np.int64)
        solution = Solution()
        for _ in range(_OUTER):
            best = _climbed(self.rows(chosen), sums)
            costs = self.paid(np.divide(sums, best.plan, out=np.zeros(len(sums)), where=best.plan > 0))
            largest = max(float(costs.max()), 1.0)
            solution.offer(best.loss * largest, best.plan * largest)
            solution.prove(best.bound, best.proof)
            if solution.gap <= _SETTLED:
                break
            most = np.argpartition(-costs, _FEW // 4)[: _FEW // 4]
            chosen = np.union1d(chosen[costs[chosen] > 1.0 - _NEARLY], most[costs[most] > 1.0 - _NEARLY])
        self._last[:] = [chosen]
        return solution


def _climbed(rows: Floats, sums: Floats) -> Solution:
    """The best `√c̄` of each kind at cost 1, (kinds,), for changes with these shares, (changes, kinds).

    Args:
        rows: shares of the prices of each kind.
        sums: `Σ √(u · price)` over the blocks of each kind, (kinds,).
    """
    best, felt = Solution(), (sums > 0) & (rows > 0).any(axis=0)
    R, U, n = rows[:, felt], sums[felt], len(rows)
    y = np.full(n, (float(U @ np.sqrt(R.mean(axis=0))) ** 2) / n)
    z = np.zeros(n)
    for _ in range(_STEPS):
        mean = y @ R
        root, T = np.sqrt(mean), float(U @ np.sqrt(mean))
        x = R @ (U / root)
        plan = np.zeros(len(sums))
        plan[felt] = root * float(x.max())
        best.rounds += 1
        best.offer((T * float(x.max())), plan)
        best.prove(T * T / float(y.sum()), y / float(y.sum()))
        if best.gap <= _SETTLED / 4:
            break
        z = np.maximum(z, np.maximum(1.0 - x, 1e-3 * T / (n * y))) if not z.any() else z
        mu = _CENTRE * float(y @ z) / n
        K = (R * (0.5 * U / (mean * root))) @ R.T
        K[np.diag_indices(n)] += z / y
        scale = 1.0 / np.sqrt(np.diagonal(K))
        step = scale * np.linalg.solve(K * scale * scale[:, None] + 1e-13 * np.eye(n), scale * (x - 1.0 + mu / y))
        slack = mu / y - z - z / y * step
        y = y + min(1.0, _BOUNDARY / max(float((-step / y).max()), 1e-300)) * step
        z = z + min(1.0, _BOUNDARY / max(float((-slack / z).max()), 1e-300)) * slack
    return best


def replacing(
    lattice: SetFamily, costs: Floats, ratios: Floats, weights: Floats | None = None, *, most: int, removable: bool
) -> PatternSpending:
    """What replacing one record costs, as the verifier prices it.

    Args:
        lattice: the sets.
        costs: what each costs a record that is added, with noise of variance 1, (sets,).
        ratios: r_i, (attributes,).
        weights: how important each is, by which attributes are alike, (sets,); if left out, none are.
        most: the logarithm of the number of patterns up to which all are tried.
        removable: whether a record may also be removed, which costs what adding one does.
    """
    classes, prices = alike(lattice, costs, ratios, weights), 2.0 * costs
    shape = [len(each) + 1 for each in classes]
    patterns = math.prod(shape)
    if patterns > 2**most:
        rows = np.append(0.0, np.ones(len(costs) - 1))[None]
        rows = np.vstack([rows, np.full(len(costs), 0.5)]) if removable else rows
        each = np.arange(len(costs))
        return PatternSpending(prices, each, len(rows), lambda paid: rows @ paid, lambda some: rows[some], False)
    kinds = _Kinds.of(lattice, classes)
    factors = [_differing(len(each), float(ratios[each[0]]), n) for each, n in zip(classes, kinds.most, strict=True)]
    types = math.prod(n + 1 for n in kinds.most)

    def paid(spent: Floats) -> Floats:
        changing = np.pad(
            np.append(0.0, spent[1:]), (0, types - len(spent))
        )  # the total, far more than all else, is not
        each = float(changing.sum()) - _passes(changing, factors)
        return np.append(each, float(spent.sum()) / 2.0) if removable else each

    def rows_of(some: Integers) -> Floats:
        removed = some == patterns
        met = np.ones((len(some), 1))
        places = np.unravel_index(np.where(removed, 0, some), shape) if shape else ()
        for at, factor in zip(places, factors, strict=True):
            met = (met[:, :, None] * factor[at][:, None, :]).reshape(len(some), -1)
        return np.where(removed[:, None], 0.5, 1.0 - met)[:, : int(kinds.numbers.max()) + 1]

    return PatternSpending(prices, kinds.numbers, patterns + removable, paid, rows_of)


@dataclass(frozen=True, eq=False)
class _Kinds:
    """Of which kind every set is: how many attributes it has of each class, the first class counting most.

    Args:
        numbers: the kinds, (sets,).
        most: how many of each class a set has at most, (classes,).
    """

    numbers: Integers
    most: list[int]

    @classmethod
    def of(cls, lattice: SetFamily, classes: Sequence[Integers]) -> _Kinds:
        counts = np.zeros((len(classes), len(lattice)), dtype=np.int64)
        for row, each in zip(counts, classes, strict=True):
            own = np.isin(np.arange(lattice.attributes), each)
            row[:] = np.concatenate([own[level].sum(axis=1) for level in lattice.levels])
        most, strides = counts.max(axis=1, initial=0).tolist(), np.ones(len(classes), dtype=np.int64)
        for c in range(len(classes) - 1, 0, -1):
            strides[c - 1] = strides[c] * (most[c] + 1)
        return cls(strides @ counts, most)

    def complete(self, counts: Sequence[int], weights: Floats) -> bool:
        """Whether all sets of a kind are there, if one is, and weigh the same; each class has so many attributes."""
        weighed = weights > 0
        numbers, places = np.unique(self.numbers[weighed], return_inverse=True)
        largest = np.zeros(len(numbers))
        np.maximum.at(largest, places, weights[weighed])
        members = zip(*np.unravel_index(numbers, [most + 1 for most in self.most]), strict=True)
        whole = [math.prod(map(math.comb, counts, map(int, each))) for each in members]
        same = weights[weighed] >= largest[places] * (1.0 - _ALIKE)
        return bool(same.all()) and np.bincount(places).tolist() == whole


def alike(lattice: SetFamily, costs: Floats, ratios: Floats, weights: Floats | None = None) -> list[Integers]:
    """Classes of attributes that can be exchanged, as far as these prices and weights go.

    Those can, whose ratios and sums of weights agree, where then all sets of a kind weigh the same; otherwise, each is
    a class of its own. Attributes that cost nothing are in none.
    """
    used = np.array([i for i, (with_i, _) in enumerate(lattice.covers) if (costs[with_i] > 0).any()], dtype=np.int64)
    if weights is not None and len(used):
        sums = np.array([float(weights[lattice.covers[i][0]].sum()) for i in used])
        order = np.lexsort((sums, ratios[used]))
        apart = np.diff(sums[order]) > _SUMS_ALIKE * sums[order][1:]
        apart |= np.diff(ratios[used][order]) > _ALIKE
        classes = np.split(used[order], np.flatnonzero(apart) + 1)
        counts = [len(each) for each in classes]
        if len(classes) < len(used) and _Kinds.of(lattice, classes).complete(counts, np.where(costs > 0, weights, 0.0)):
            return classes
    return list(used[:, None])


def _differing(n: int, ratio: float, most: int) -> Floats:
    """The mean product of ratios over all sets of t of n attributes, d of which differ, (n + 1, most + 1)."""
    rows = [
        [
            sum(math.comb(d, h) * math.comb(n - d, t - h) * ratio**h for h in range(t + 1)) / math.comb(n, t)
            for t in range(most + 1)
        ]
        for d in range(n + 1)
    ]
    return np.array(rows)


def _passes(values: Floats, factors: Sequence[Floats]) -> Floats:
    """The Kronecker product of small matrices times a vector, one at a time, the first counting most."""
    for factor in factors:
        values = (factor @ values.reshape(factor.shape[1], -1)).T.ravel()
    return values
