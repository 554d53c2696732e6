"""How little two cells can have in common where too many patterns of agreement are to be tried: a proven lower bound.

Block S costs `p_S`, and two cells have `f(x) = Σ_S p_S Π_{i∈S} x_i` in common, x_i = 1 where they agree on attribute i
and `r_i ≤ x_i ≤ 1` where they do not. f is linear in every x_i, so that it is least with each at r_i or at 1, and there
`x² = (1 + r) x − r` and `x³ = (1 + r + r²) x − r (1 + r)`.

With positive numbers a and β_t, blocks of two and three attributes are `β_t Π_{i∈S} a_i` and a rest e_S, no less than
`−e_S max_{i∈S} −r_i`, or `−|e_S|` where e_S < 0; β_t is 0 where a block of t is missing, which would be a rest, too.
What is not rest follows from sums, `s = Σ a x`, `P = Σ a² x²`, `T = Σ a³ x³`: `Σ_{i<j} a_i a_j x_i x_j = (s² − P)/2`
and, of three, `(s³ − 3 s P + 2 T)/6`. For s in an interval [s₀, s₁] that is at least linear in x, P and T being linear;
so, for every ν,

    f ≥ β₂/2 min s² + β₃/6 s₀³ + Σ_i min_{x_i} (linear − ν a_i x_i) + min(ν s₀, ν s₁) − rest,

with s₁ for s in the factor of P, which is not negative. Intervals that cover all s prove a bound; those with the least
are halved. It is valid for every a, β, ν and every division: these are sought in floats, in the second half of
this file, and what they prove is counted in fractions: whatever is found can only make it weaker.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from residua.errors import VerificationError
from residua.linalg.lattice import Set

Term = tuple[Fraction, Fraction, Fraction]  # p, a and r of an attribute
_BITS = 40  # of the numbers that are chosen, and of ratios, which are rounded down


def least_in_common(costs: Mapping[Set, int], ratios: Mapping[int, Fraction]) -> Fraction:
    """No more than `Σ_S cost_S Π_{i∈S} x_i` for any `r_i ≤ x_i ≤ 1`, r_i at least −1; sets are not empty.

    Raises:
        VerificationError: the intervals that were found do not cover all s.
    """
    place = {i: k for k, i in enumerate(sorted({i for row in costs for i in row}))}
    rows, unit = [[place[i] for i in row] for row in costs], max(costs.values())
    r = [Fraction(math.floor(min(ratios[i], Fraction(0)) * 2**_BITS), 2**_BITS) for i in place]
    strengths, beta = fitted(rows, [cost / unit for cost in costs.values()], len(place))
    for t in beta:  # whatever was fitted
        beta[t] *= sum(len(row) == t for row in rows) == math.comb(len(place), t)
    a, (two,), (three,) = (
        [Fraction(max(round(x * 2**_BITS), least), 2**_BITS) for x in each]
        for each, least in ((strengths, 1), ([beta[2]], 0), ([beta[3]], 0))
    )
    linear, rest = [Fraction(0)] * len(place), Fraction(0)
    for row, cost in zip(rows, costs.values(), strict=True):
        if len(row) == 1:
            linear[row[0]] += Fraction(cost, unit)
            continue
        e = Fraction(cost, unit) - {2: two, 3: three}.get(len(row), Fraction(0)) * math.prod(a[k] for k in row)
        rest += e * max(-r[k] for k in row) if e > 0 else -e
    terms = list(zip(linear, a, r, strict=True))
    intervals = sorted(divided(terms, beta[2], beta[3]))
    ends = [sum(x * y for _, x, y in terms), *(end for _, end, _ in intervals[:-1])]
    if sum(a) > intervals[-1][1] or any(each[0] > end for each, end in zip(intervals, ends, strict=True)):
        raise VerificationError("the sums of what two cells share are not all covered; this is a defect of residua.")
    return (min(_least(terms, two, three, *map(Fraction, each)) for each in intervals) - rest) * unit


def _least(terms: list[Term], *numbers: Fraction) -> Fraction:
    """What is proven for s from s₀ to s₁, without the rest, with β₂, β₃, s₀, s₁ and ν."""
    two, three, s0, s1, nu = numbers
    w = max(two / 2 + three * s1 / 2, Fraction(0))
    total = two / 2 * (0 if s0 <= 0 <= s1 else min(s0 * s0, s1 * s1)) + three / 6 * s0**3 + min(nu * s0, nu * s1)
    for linear, a, r in terms:
        c = linear - w * a * a * (1 + r) + three / 3 * a**3 * (1 + r + r * r) - nu * a
        total += min(c, c * r) + w * a * a * r - three / 3 * a**3 * r * (1 + r)
    return total


# ---- sought in floats: where the polynomial is least, about

_SPLITS = 300  # of intervals: the least of them is then within 1e-4 of all costs, or 1e-3 where three are crossed
_FAINTEST = -25.0  # of the logarithms of a: 1e-11 of the largest, so that quotients stay numbers

Interval = tuple[float, float, float]  # s₀, s₁ and ν


def fitted(rows: Sequence[Sequence[int]], costs: Sequence[float], n: int) -> tuple[list[float], dict[int, float]]:
    """a and β_t with `β_t Π a ≤ cost` for all sets of two or three, about, and near it if costs are products."""
    t = max((min(len(row), 3) for row in rows), default=1)
    logs = np.zeros(n)
    for row, cost in zip(rows, costs, strict=True):
        if len(row) == t:
            logs[list(row)] += math.log(cost)
    own, shared = math.comb(n - 1, t - 1), math.comb(n - 2, t - 2) if t > 1 else 0
    logs = (logs - shared * logs.sum() / (own + shared * (n - 1))) / max(own - shared, 1)
    a = np.exp(np.maximum(logs - logs.max(), _FAINTEST))
    least: dict[int, list[float]] = {2: [], 3: []}
    for row, cost in zip(rows, costs, strict=True):
        if len(row) in least:
            least[len(row)].append(cost / float(a[list(row)].prod()))
    return a.tolist(), {k: min(each, default=0.0) for k, each in least.items()}


def divided(terms: Sequence[Sequence[Any]], two: float, three: float) -> list[Interval]:
    """Intervals that cover all `s = Σ a x`, halved where least is proven, each with the best ν, from p, a and r."""
    p, b, least = np.array(terms, dtype=np.float64).T

    def proven(low: float, high: float) -> tuple[float, Interval]:
        w = max(two / 2 + three * high / 2, 0.0)
        c = p - w * b**2 * (1 + least) + three / 3 * b**3 * (1 + least + least**2)
        nus = np.append(c / b, 0.0)
        d = c - nus[:, None] * b
        bounds = np.minimum(d, d * least).sum(axis=1) + np.minimum(nus * low, nus * high)
        best = int(bounds.argmax())
        square = 0.0 if low <= 0 <= high else min(low * low, high * high)
        free = float((w * b**2 * least - three / 3 * b**3 * least * (1 + least)).sum())
        return float(bounds[best]) + free + two / 2 * square + three / 6 * low**3, (low, high, float(nus[best]))

    heap = [proven(math.floor(float(b @ least)) - 1.0, math.ceil(float(b.sum())) + 1.0)]
    for _ in range(_SPLITS):
        _, (low, high, _) = heapq.heappop(heap)
        middle = (low + high) / 2
        for each in (proven(low, middle), proven(middle, high)):
            heapq.heappush(heap, each)
    return [each for _, each in heap]
