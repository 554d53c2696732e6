"""The best precisions where the most expensive of several changes of the data counts, not one price for each block.

A change j costs `Σ_b c_jb τ_b`. For weights y on the changes, `c̄ = Σ_j y_j c_j`, the least `Σ_b u_b/τ_b` at a mean cost
of 1 is `(Σ_b √(u_b c̄_b))²`, by `τ_b ∝ √(u_b/c̄_b)`: no precisions that cost 1 at most are better. Changes that cost more
than the mean gain weight until none does.

*A record is replaced.* Two cells that agree on exactly the attributes in E cost
`2 Σ_{S≠∅} c_S τ_S (1 − Π_{i∈S∖E} r_i)`, `r_i = −1/(n_i − 1)` for the plain residual and the least there is for other
strategies (`product/set_price.py`). The number of records does not change: the total is free, and measured far more
precisely than all else. Sums over 2^k patterns are k passes. With more attributes than the verifier tries all patterns
of, each block has one price, its own worst; what is proven then is about pairs of cells in which every attribute
differs with some probability.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from residua.linalg.arrays import Floats, Integers
from residua.linalg.lattice import SetFamily
from residua.plans.saddle import Acceleration, Answer, ascend, simplices

_SETTLED = 1e-5  # the loss of a response is within this of the best
_ROUNDS, _PLAIN_ROUNDS = 500, 2000  # accelerated, and in steps that cannot stall where these do
_LEAST_WEIGHT = 1e-6  # of an even share: a weight nearer to 0 makes acceleration erratic
_FREE, _FELT = 2.0**14, 1e-5  # how much more precise than all else a total is that is free; of the loss: what it adds
_PROBABILITIES = np.linspace(0.05, 1.0, 39)


@dataclass(frozen=True, eq=False)
class PatternSpending:
    """The best way to spend a budget of 1 where the most expensive change counts.

    Args:
        changes: how many there are.
        means: y ↦ c̄, what each block costs on average, (changes,) ↦ (blocks,).
        paid: τ ↦ what each change costs, (blocks,) ↦ (changes,).
    """

    changes: int
    means: Callable[[Floats], Floats]
    paid: Callable[[Floats], Floats]

    def respond(self, u: Floats) -> tuple[Floats, float, float]:
        """The noise variances of least loss at cost 1, (blocks,), that loss, and what no others can beat.

        Args:
            u: how much noise on each block matters, (blocks,); infinite noise where it does not at all.
        """

        def answer(y: Floats) -> Answer:
            mean = self.means(y)
            asked = (u > 0) & (mean > 0)
            root = np.sqrt(np.where(asked, u * mean, 0.0))
            T = float(root.sum())
            precisions = np.where(asked, root / np.where(asked, mean, 1.0), 0.0) / T
            costs = np.maximum(self.paid(precisions), 0.0)
            return Answer(T * T, T * T * float(costs.max()), costs, precisions / costs.max())

        normalised = simplices([self.changes], _LEAST_WEIGHT / self.changes)
        start = normalised(self._last[-1]) if self._last else np.full(self.changes, 1.0 / self.changes)
        best = ascend(answer, start, normalised, _SETTLED, _ROUNDS, memory=Acceleration())
        if best.gap > _SETTLED:
            best = ascend(answer, best.proof, normalised, _SETTLED, _PLAIN_ROUNDS, power=3.6, calm=2.0, best=best)
        self._last[:] = [best.proof]
        precisions = np.where(u > 0, best.plan, 0.0)
        free = (u > 0) & (precisions == 0)
        precisions[free] = np.maximum(u[free] / (_FELT * best.loss), _FREE * float(precisions.max()))
        with np.errstate(divide="ignore"):
            return 1.0 / precisions, best.loss * (1.0 + _FELT), best.bound

    def value(self, u: Floats) -> float:
        """What no choice can beat."""
        return self.respond(u)[2]

    @cached_property
    def _last(self) -> list[Floats]:
        """Where the last response ended: nature's weights move little from one to the next."""
        return []


def replacing(lattice: SetFamily, costs: Floats, ratios: Floats, most: int, *, removable: bool) -> PatternSpending:
    """What replacing one record costs, as the verifier prices it.

    Args:
        lattice: the sets.
        costs: what each costs a record that is added, with noise of variance 1, (sets,).
        ratios: r_i, (attributes,).
        most: attributes up to which all patterns are tried.
        removable: whether a record may also be removed, which costs what adding one does.
    """
    used = [i for i, (with_i, _) in enumerate(lattice.covers) if (costs[with_i] > 0).any()]
    if len(used) > most:
        worst = 2.0 * costs * np.append(0.0, 1.0 + np.maximum(lattice.maxima(-ratios)[1:], 0.0))
        rows = np.stack([worst, costs] if removable else [worst])
        return PatternSpending(len(rows), lambda y: y @ rows, lambda spent: rows @ spent)
    bit = np.zeros(lattice.attributes, dtype=np.int64)
    bit[used] = 2 ** np.arange(len(used) - 1, -1, -1)
    at = np.concatenate([bit[level].sum(axis=1) for level in lattice.levels]).astype(np.int64)
    patterns, factors = 2 ** len(used), [np.array([[1.0, ratios[i]], [1.0, 1.0]]) for i in used]
    twice = 2.0 * np.append(0.0, costs[1:])

    def means(y: Floats) -> Floats:
        met = _passes(y[:patterns], [factor.T for factor in factors])
        return np.asarray(twice * (met[0] - met[at]) + (y[-1] * costs if removable else 0.0))

    def paid(spent: Floats) -> Floats:
        shares: Floats = np.bincount(at, weights=spent * twice, minlength=patterns).astype(np.float64)
        each = float(shares.sum()) - _passes(shares, factors)
        return np.append(each, float(spent @ costs)) if removable else each

    return PatternSpending(patterns + removable, means, paid)


def _passes(values: Floats, factors: Sequence[Floats]) -> Floats:
    """The Kronecker product of small matrices times a vector, one at a time, the first counting most."""
    for factor in factors:
        values = (factor @ values.reshape(2, -1)).T.ravel()
    return values


def least_replacing(lattice: SetFamily, sizes: Integers, costs: Floats, u: Floats) -> float:
    """No plan of residuals whose replaced record costs 1 has a smaller `Σ u/τ`: every attribute differs by chance."""
    bounds, ratios = [], -1.0 / np.maximum(sizes - 1.0, 1.0)
    for chance in _PROBABILITIES.tolist():
        mean = 2.0 * costs * (1.0 - lattice.products(1.0 - chance + chance * ratios))
        bounds.append(float(np.sqrt(np.maximum(mean * u, 0.0)).sum()) ** 2)
    return max(bounds)
