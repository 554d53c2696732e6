"""How running sums are drawn one from others, exactly: in floats, in pairs of floats and in balls.

Every running sum is drawn given two others and a hub, `C_m = α C_a + β C_b + γ h + σ z` with α + β + γ = 1: along a
path (`linalg/path.py`) from left to right, given the one before it, `β = 0`, `γ = ψ`; with nested groups
(`linalg/conductances.py`) between the ends of an interval, where from the root of the tree to a leaf there are
`2 (log₂ n + levels)` steps at most. What is computed is `C_a + (β (C_b − C_a) + γ (h − C_a) + σ z)`, the sum in pairs.

**The bound in floats.** u = 2⁻⁵³, δ = 2⁻¹⁰⁰. What accumulates over a whole axis is computed in pairs of floats, each
operation on positive numbers erring by less than δ relatively (`kernels.py`). Along a path R errs by less than
`(8n + 64) δ`: six operations per step, and κR/(κ + R) passes on no more than its share of earlier errors; rounded to a
float by less than 2u as long as n < 2⁴⁰, so that κ, ψ and σ err by less than 12u. With nested groups, by the argument
of `linalg/conductances.py` with δ in place of u, all springs and their sums err by less than `(44n + 64) δ`, quotients
of two by less than `η/2`, `η = 192 (n + 16) δ`: rounded to floats, β, γ and σ by less than 2u. In a step the factors
err by 12u, differences and what is left of their pairs by 2u, a product by u, two additions by 2u. With |ẑ − z| ≤ B,

    E_m = α E_a + β E_b + γ E_h + σ B + 24u (β (|Ĉ_b| + |Ĉ_a|) + γ (|ĥ| + |Ĉ_a|) + σ|ẑ|) + δ|Ĉ_m| + 2⁻⁴⁰⁰,

computed in floats, α as `1 − β − γ + 2⁻⁴⁸`, and enlarged by 2⁻³⁰ at each step, which covers the rounding of the bound
itself. The last term covers underflow: springs across long intervals may be next to nothing. A product that underflows
errs by less than 2⁻⁹⁰⁰; springs that are left when vertices are taken out change by no more than those they are made
from, all their sums t are at least 2⁻²⁰⁰, and Ĉ is below 2¹⁰⁰: with n < 2⁴⁰ that is less than 2⁻⁵⁰⁰
(`plans/operators/correlated_price.py` admits no other numbers).

**In pairs** the same holds with η in place of 24u: half of it for the factors, the rest, more than 1500δ, for a step.
With B from two words (`table.py`), E is about 2⁻⁶⁷ of 10⁵ values: one axis in 10¹³ stays open then.
"""

from __future__ import annotations

import math

import numpy as np
from flint import arb

from residua.linalg.arrays import Floats, Integers
from residua.linalg.conductances import AxisNoise, NestedNoise
from residua.linalg.path import OrderedNoise
from residua.noise.kernels import float_sums, nested_factors, pair_factors, pair_sums, stiff

Stars = list[tuple[arb, arb, arb]]  # k, c and g of every step: what draws it to C_a, to C_b and to the hub


def order_of(noise: AxisNoise, count: int) -> tuple[Integers, Integers, Integers]:
    """a, m and b of every step, −1 for the running sum of nothing, (count,) each; of a path the first ones alone."""
    if isinstance(noise, NestedNoise):
        tree = noise.queries.nesting
        return tree.low, tree.cut, tree.high
    before = np.arange(-1, count - 1)
    return before, before + 1, before


def pair_factors_of(noise: AxisNoise, part: int, count: int) -> Floats:
    """β, γ and σ of the steps of a part in pairs, (3, 2, count + 1); σ of the hub comes last."""
    factors, p, a = np.empty((3, 2, count + 1)), float(noise.poles[part]), float(noise.weights[part])
    if isinstance(noise, NestedNoise):
        low, cut, high, _, *springs = noise.queries.arguments
        room = np.empty((6, noise.size))
        nested_factors(low, cut, high, noise.queries.first, *springs, noise.q, p, a, room, factors)
    else:
        path = noise.queries
        pair_factors(path.links, path.left, path.right, path.values, noise.q, p, a, factors)
    return factors


def float_factors_of(noise: AxisNoise, part: int, count: int) -> Floats:
    """The same in floats, (3, count + 1)."""
    if isinstance(noise, NestedNoise):
        return np.asarray(pair_factors_of(noise, part, count).sum(axis=1))
    path, p, a = noise.queries, float(noise.poles[part]), float(noise.weights[part])
    R, factors = np.empty(noise.size), np.zeros((3, count + 1))
    stiff(path.links, path.right, path.values, noise.q, p, R)
    springs, R = path.values + p / noise.q[:count], R[:count]
    t = 1.0 / (springs + R)
    factors[1, :count], factors[2, :count] = R * t, np.sqrt(a * t)
    factors[2, count] = math.sqrt(a * path.left / (1.0 + path.left * springs[0] * R[0] / (springs[0] + R[0])))
    return factors


def add_floats(noise: AxisNoise, factors: Floats, z: Floats, b: Floats, sums: Floats, bounds: Floats) -> None:
    """Adds one part to running sums and to the bounds on their errors, (axes, n) each, from normals, (axes, n + 1)."""
    count = sums.shape[1]
    float_sums(*order_of(noise, count), factors, z, b, sums, bounds, np.empty((3, count + 1)))


def add_pairs(
    noise: AxisNoise, factors: Floats, z: Floats, low: Floats, b: Floats, sums: Floats, bounds: Floats
) -> None:
    """Adds one part to running sums in pairs, (axes, 2, n), and to the bounds on their errors, (axes, n)."""
    count, eta = sums.shape[2], 192.0 * (noise.size + 16) * 2.0**-100
    pair_sums(*order_of(noise, count), eta, factors, z, low, b, sums, bounds, np.empty((3, count + 1)))


def ball_sums(noise: AxisNoise, normals: list[list[arb]]) -> list[arb]:
    """The running sums of noise as balls, from the normals of each part; of fewer normals the first ones, (n,)."""
    count = len(normals[0]) - 1
    order = list(zip(*(each.tolist() for each in order_of(noise, count)), strict=True))
    total = [arb(0)] * count
    for z, pole, weight in zip(normals, noise.poles.tolist(), noise.weights.tolist(), strict=True):
        own = arb(pole)
        stars, variance = _nested_stars(noise, own) if isinstance(noise, NestedNoise) else _path_stars(noise, own)
        root, hub = arb(weight).sqrt(), z[count] * variance.sqrt() if variance else arb(0)
        sums = [arb(0)] * (count + 1)  # the last one is C_{−1}
        for (a, m, b), (k, c, g), each in zip(order, stars, z, strict=False):
            t = k + c + g
            sums[m] = (k * sums[a] + c * sums[b] + g * hub) / t + each / t.sqrt()
        total = [one + root * each for one, each in zip(total, sums, strict=False)]
    return total


def _path_stars(noise: OrderedNoise, pole: arb) -> tuple[Stars, arb]:
    """The steps of a part in order, and the variance of the hub."""
    path, nothing = noise.queries, arb(0)
    springs = [arb(path.values) + pole / arb(each) for each in noise.q.tolist()]
    stiff = [1 / arb(path.right)]
    for spring, link in zip(springs[:0:-1], path.links.tolist()[::-1], strict=True):
        stiff.append(1 / arb(link) + spring * stiff[-1] / (spring + stiff[-1]))
    stars = [(spring, nothing, R) for spring, R in zip(springs, stiff[::-1], strict=True)]
    k, _, R = stars[0]
    return stars, arb(path.left) / (1 + arb(path.left) * k * R / (k + R))


def _nested_stars(noise: NestedNoise, pole: arb) -> tuple[Stars, arb]:
    """The same in the tree's order."""
    network, n = noise.queries, noise.size
    low, cut, high = (each.tolist() for each in network.arguments[:3])
    q, grounds, values, chords = ([arb(x) for x in each.tolist()] for each in (noise.q, *network.arguments[4:]))
    springs = [value + pole / each for value, each in zip(values, q, strict=True)]
    inside: Stars = [(arb(0), arb(0), arb(0))] * n
    stars: Stars = list(inside)
    for s in range(n - 1, 0, -1):
        a, m, b = low[s], cut[s], high[s]
        k, from_a, to_m = (springs[m], arb(0), arb(0)) if m == a + 1 else inside[s + 1]
        c, from_m, to_b = (springs[b], arb(0), arb(0)) if b == m + 1 else inside[s + m - a]
        g = to_m + grounds[m] + from_m
        t = k + c + g
        inside[s] = (k * c / t + chords[s], from_a + k * g / t, to_b + c * g / t)
        stars[s] = (k, c, g)
    k, from_a, to_b = inside[1]
    g = to_b + grounds[n - 1]
    stars[0] = (k, arb(0), g)
    first = network.first
    return stars, arb(0) if math.isinf(first) else 1 / (arb(first) + from_a + k * g / (k + g))
