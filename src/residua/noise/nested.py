"""Running sums of noise with nested groups, for exact draws: in floats, in pairs of floats and in balls.

Every running sum is drawn between two others, `C_m = α C_a + β C_b + γ h + σ z` (`linalg/nested_noise.py`), with
α + β + γ = 1: errors of the three it is drawn from are averaged, not added, and from the root of the tree to a leaf
there are `2 (log₂ n + levels)` steps at most.

**The bound in floats.** u = 2⁻⁵³, δ = 2⁻¹⁰⁰. The factors come from springs, which are found in pairs of floats: each
operation on positive numbers errs by less than δ relatively (`kernels.py`), so that by the argument of
`linalg/conductances.py`, with δ in place of u, all springs and their sums err by less than `(44n + 64) δ`, quotients of
two by less than `η/2`, `η = 192 (n + 16) δ`: rounded to floats, α, β, γ and σ err by less than 2u as long as n < 2⁴⁰. A
product errs by u more, two additions by 2u. With |ẑ − z| ≤ B,

    E_m = α E_a + β E_b + γ E_h + σ B + 8u (α|Ĉ_a| + β|Ĉ_b| + γ|ĥ| + σ|ẑ|) + 2⁻⁴⁰⁰,

computed in floats and enlarged by 2⁻³⁰ at each step, which covers the rounding of the bound itself. The last term
covers underflow: springs across long intervals may be next to nothing. A product that underflows errs by less than
2⁻⁹⁰⁰; springs that are left when vertices are taken out change by no more than those they are made from, all their sums
t are at least 2⁻²⁰⁰, and Ĉ is below 2¹⁰⁰: with n < 2⁴⁰ that is less than 2⁻⁵⁰⁰
(`plans/operators/correlated_price.py` admits no other numbers).

**In pairs** the same holds with η in place of 8u: half of it for the factors, the rest, more than 1500δ, for a step.
"""

from __future__ import annotations

import math

import numpy as np
from flint import arb

from residua.linalg.arrays import Floats
from residua.linalg.nested_noise import NestedNoise


def pair_factors_of(noise: NestedNoise, part: int) -> Floats:
    """α, β, γ and σ of a part in pairs, in the tree's order, (4, 2, n + 1); σ of the hub comes last."""
    from residua.noise.kernels import nested_factors

    low, cut, high, _, *springs = noise.queries.arguments
    factors, room = np.empty((4, 2, noise.size + 1)), np.empty((6, noise.size))
    first, p, a = noise.queries.first, float(noise.poles[part]), float(noise.weights[part])
    nested_factors(low, cut, high, first, *springs, noise.q, p, a, room, factors)
    return factors


def float_factors_of(noise: NestedNoise, part: int) -> Floats:
    """The same, rounded to floats, (4, n + 1)."""
    return np.asarray(pair_factors_of(noise, part).sum(axis=1))


def add_floats(noise: NestedNoise, factors: Floats, z: Floats, b: Floats, sums: Floats, bounds: Floats) -> None:
    """Adds one part to running sums and to the bounds on their errors, (axes, n) each, from normals, (axes, n + 1)."""
    from residua.noise.kernels import float_sums

    tree = noise.queries.nesting
    float_sums(tree.low, tree.cut, tree.high, factors, z, b, sums, bounds, np.empty((2, noise.size + 1)))


def add_pairs(
    noise: NestedNoise, factors: Floats, z: Floats, low: Floats, b: Floats, sums: Floats, bounds: Floats
) -> None:
    """Adds one part to running sums in pairs, (axes, 2, n), and to the bounds on their errors, (axes, n)."""
    from residua.noise.kernels import pair_sums

    tree, eta = noise.queries.nesting, 192.0 * (noise.size + 16) * 2.0**-100
    pair_sums(tree.low, tree.cut, tree.high, eta, factors, z, low, b, sums, bounds, np.empty((3, noise.size + 1)))


def ball_sums(noise: NestedNoise, normals: list[list[arb]]) -> list[arb]:
    """The running sums of noise as balls, from the normals of each part, (n,)."""
    network, n = noise.queries, noise.size
    low, cut, high = (each.tolist() for each in network.arguments[:3])
    q, grounds, values, chords = ([arb(x) for x in each.tolist()] for each in (noise.q, *network.arguments[4:]))
    total = [arb(0)] * n
    for z, pole, weight in zip(normals, noise.poles.tolist(), noise.weights.tolist(), strict=True):
        springs = [value + arb(pole) / each for value, each in zip(values, q, strict=True)]
        inside: list[tuple[arb, arb, arb]] = [(arb(0), arb(0), arb(0))] * n
        stars: list[tuple[arb, arb, arb]] = [(arb(0), arb(0), arb(0))] * n
        for s in range(n - 1, 0, -1):
            a, m, b = low[s], cut[s], high[s]
            k, from_a, to_m = (springs[m], arb(0), arb(0)) if m == a + 1 else inside[s + 1]
            c, from_m, to_b = (springs[b], arb(0), arb(0)) if b == m + 1 else inside[s + m - a]
            g = to_m + grounds[m] + from_m
            t = k + c + g
            inside[s] = (k * c / t + chords[s], from_a + k * g / t, to_b + c * g / t)
            stars[s] = (k, c, g)
        k, from_a, to_b = inside[1]
        stars[0] = (k, arb(0), to_b + grounds[n - 1])
        root, hub = arb(weight).sqrt(), arb(0)
        if not math.isinf(network.first):
            g = to_b + grounds[n - 1]
            hub = z[n] / (arb(network.first) + from_a + k * g / (k + g)).sqrt()
        sums = [arb(0)] * (n + 1)  # the last one is C_{−1}
        for s in range(n):
            k, c, g = stars[s]
            t = k + c + g
            sums[cut[s]] = (k * sums[low[s]] + c * sums[high[s]] + g * hub) / t + z[s] / t.sqrt()
        total = [one + root * each for one, each in zip(total, sums[:n], strict=True)]
    return total
