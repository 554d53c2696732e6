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
are halved. It is valid for every a, β, ν and every division: these are sought in floats (`linalg/balance.py`), and what
they prove is counted here, in fractions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

from residua.errors import VerificationError
from residua.linalg.balance import divided, fitted
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
