"""Noise along an ordered axis where a record is replaced, and what no plan is below: the number of records is public.

Replacing a record of cell k by one of cell l costs `Γ_kk + Γ_ll − 2 Γ_kl`, and the total is free. Noise whose entries
Γ_kl are not negative, and nearly 0 where cells lie in different halves of the axis, costs twice its largest diagonal
entry and hardly less: the total joins the halves. Noise that is shaped for ranges between running sums of ever more
weight towards the middle is like that: the cells on one side tell nothing of those on the other. The weights are a
curve of six numbers for prefixes and one for ranges, the same for any number of values; q follows (`ordered.py`). That
it is near the best is not assumed: it is proven for each plan.

**A bound for prefixes.** Weights `q_k q_l` on all pairs of cells k, l of different halves, where q adds up to 1 in
each, prove `total variance × cost ≥ f²`, f the trace of the root of what they make of the queries. What is even and
what is odd under reflection parts: f is that of the pencils `(Q − q qᵀ, A)` and `(Q + q qᵀ, A')` over half the cells,
A the Laplacian of a path with free ends, A' with a conductance of 2 to ground in the middle. Those are passes along
half the axis, and for each pole one correction of rank one. The rational function is at most `√x (1 + error)`
everywhere, so that f is never too large. Of an odd number of values no record has the middle one: a lower bound, by a
path in whose middle two queries are alike, with half that conductance.

**A bound for ranges.** With the total known, running sums lie on a cycle. All their differences, two by two (ranges
with fewer weights), and all pairs of cells look alike from everywhere on it: the best noise is circulant. Weights on
how far two cells lie apart prove `n (Σ_ω √m_ω)²`, m_ω what noise on frequency ω costs such pairs on average.
"""

from __future__ import annotations

import math

import numpy as np

from residua.linalg.arrays import Floats
from residua.linalg.path import Path
from residua.linalg.roots import inverse_root
from residua.machine import linalg
from residua.plans.operators.correlated import Asked, Ordered
from residua.plans.saddle import POWER, Answer, Progress, ascend, simplices
from residua.plans.solver.ordered import least_total

_ERROR = 1e-5  # of the rational function
_ROUNDS, _RANGE_ROUNDS = 100, 200
_NEAR, _RISES = 2e-3, 1e-6  # of a bound's own weights, which matter to second order; of a bound, in one round
# Logarithms of weights, by the distance t from the nearer end, 1 in the middle: beyond t at the ends themselves, over
# the number of values; times t; √t; sin πt, sin 2πt and sin 3πt.
CURVES = {
    "prefixes": (-0.501, 6.908, -1.144, -0.300, 0.010, 0.097),
    "ranges": (-2.513, 4.820, -0.151, 0.749, -0.019, 0.075),
}


def halved(n: int, kind: str, *, tolerance: float, step: Progress | None = None) -> Ordered:
    """The noise whose total variance of prefixes or ranges is nearly the least where a record is replaced.

    Args:
        n: how many values the axis has.
        kind: the name of a curve.
        tolerance: how evenly cells are to cost, relatively.
        step: is told how far it is.
    """
    ends, linear, root, *waves = CURVES[kind]
    t = np.minimum(np.arange(n + 1), n - np.arange(n + 1)) / (n / 2)
    logs = linear * t + root * np.sqrt(t)
    for k, height in enumerate(waves, start=1):
        logs += height * np.sin(k * np.pi * t)
    logs[[0, -1]] += ends + math.log(n)
    weights = np.exp(logs - logs.max()).astype(np.float32).astype(np.float64)
    return least_total(n, Asked(ends=tuple(weights.tolist())), tolerance=tolerance, step=step).noise


def least_prefixes(n: int, *, step: Progress | None = None) -> float:
    """No plan has a `total variance of prefixes × cost of a replaced record` below this."""
    h = n // 2
    if h < 2:
        return 0.0  # nothing is proven of so few
    even, odd = Path(np.ones(h - 1), 0.0, 0.0), Path(np.ones(h - 1), 0.0, 1.0 if n % 2 else 2.0)

    def answer(q: Floats) -> Answer:
        root = inverse_root(1.0 / (4.0 * float((1.0 / q).max())), float(odd.gram_diagonal @ q), error=_ERROR)
        levels = even.shares(q, root.poles, root.weights) + odd.shares(q, root.poles, root.weights)
        f = float(levels.sum()) - float(root.weights.sum())  # what is the same in all of a half is free
        levels = levels / q
        for p, a in zip(root.poles.tolist(), root.weights.tolist(), strict=True):
            m = _voltages(odd, q, p)
            met = float(q @ m)
            f += a * (met - float(q @ m**2)) / (1.0 + met)
            levels += a * (2.0 * m - m**2) / (1.0 + met)
        ratios = levels / float(levels @ q)
        bound = f / (1.0 + root.error)
        return Answer(bound**2, bound**2 * float(ratios.max()), ratios, q)

    start = 1.0 / np.sqrt(np.arange(1.0, h + 1.0))
    best = ascend(answer, start / start.sum(), simplices([h]), _NEAR, _ROUNDS, power=POWER, progress=step)
    return best.bound


def _voltages(path: Path, q: Floats, p: float) -> Floats:
    """`(Q + p A)⁻¹ q`, A the path's Laplacian, (n,)."""
    banded = np.zeros((2, len(q)))
    banded[0, 1:] = -p * path.links
    banded[1] = q
    banded[1, :-1] += p * path.links
    banded[1, 1:] += p * path.links
    banded[1, [0, -1]] += p * np.array([path.left, path.right])
    return np.asarray(linalg.solveh_banded(banded, q, check_finite=False))


def least_ranges(n: int) -> float:
    """No plan has a `total variance of all ranges × cost of a replaced record` below this."""
    frequencies = np.sin(np.pi * np.arange(1, n) / n) ** 2
    apart, best, last = np.full(n - 1, 1.0 / (n - 1)), 0.0, -math.inf
    for _ in range(_RANGE_ROUNDS):
        mean = (1.0 - np.fft.fft(np.append(0.0, apart)).real[1:]) / (2 * n * frequencies)
        root = np.sqrt(mean)
        best, last = max(best, n * float(root.sum()) ** 2), best
        if best - last < _RISES * best:
            break
        costs = np.fft.fft(np.append(0.0, 1.0 / (root * root.sum() * n * frequencies))).real
        apart = apart * (costs[0] - costs[1:]) ** 3
        apart /= apart.sum()
    return best
