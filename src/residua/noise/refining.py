"""Running sums whose rounding floats leave open: computed again in pairs of floats, and in balls where those fail.

**The bound in pairs.** δ = 2⁻¹⁰⁰, the relative error of an operation (`kernels.py`). R errs by less than
`ε = (8n + 64) δ`: six operations per step, and κR/(κ + R) passes on no more than its share of earlier errors. κ + R, ψ
and σ then err by less than `η/2`, `η = 64 (n + 16) δ`, which leaves room for the products and sums of the step itself;
so with B from two words (`table.py`)

    E_i = φ E_{i−1} + σ B + η (σ|ẑ| + ψ|Ĉ_{i−1}|) + δ|Ĉ_i|,

enlarged as in `correlated.py`. Of 10⁵ values E is about 2⁻⁶⁷: one axis in 10¹³ stays open then.
"""

from __future__ import annotations

import numpy as np
from flint import arb

from residua.errors import PrivacyError
from residua.linalg.arrays import Booleans, Floats, Integers
from residua.linalg.nested_noise import AxisNoise, NestedNoise
from residua.noise import nested
from residua.noise.normals import GUARD_BITS, Normals
from residua.noise.samplers import MOST_WORDS
from residua.noise.table import precision


def refined(noise: AxisNoise, grid: int, normals: Normals, axis: int, draws: Integers, is_open: Booleans) -> None:
    """Decides the open draws of an axis, in place, with as many more bits of its normals as they need.

    Args:
        noise: whose running sums are drawn.
        grid: t.
        normals: as they were drawn; of fewer than the axis has values, the first ones.
        axis: which of them.
        draws: the integers, (n,).
        is_open: where they are not decided, (n,).
    """
    from residua.noise.kernels import round_pairs

    sums, bounds = pair_sums(noise, normals, axis)
    still = is_open.copy()
    round_pairs(float(grid), sums, bounds, draws, still)
    if still.any():
        draws[still] = judged(noise, grid, normals, axis)[still]


def pair_sums(noise: AxisNoise, normals: Normals, axis: int) -> tuple[Floats, Floats]:
    """Running sums in pairs of floats, (2, n), and the bounds on their errors, (n,)."""
    count = normals.shape[2] - 1
    sums, bounds = np.zeros((1, 2, count)), np.zeros((1, count))
    for part in range(len(noise.poles)):
        z, low, b = normals.pairs(axis, part)
        add_pairs(noise, pair_factors_of(noise, part, count), z[None], low[None], b[None], sums, bounds)
    return sums[0], bounds[0]


Factors = tuple[tuple[float, float], Floats, Floats] | Floats


def pair_factors_of(noise: AxisNoise, part: int, count: int) -> Factors:
    """The factor of the last normal, and ψ and σ of the first values, in pairs, (2, count); or what `nested.py` has."""
    from residua.noise.kernels import pair_factors

    if isinstance(noise, NestedNoise):
        return nested.pair_factors_of(noise, part)
    path, p, a = noise.queries, noise.poles[part], noise.weights[part]
    psi, sigma = np.empty((2, 2, count))
    extra = pair_factors(path.links, path.left, path.right, path.values, noise.q, p, a, psi, sigma)
    return extra, psi, sigma


def add_pairs(
    noise: AxisNoise, factors: Factors, z: Floats, low: Floats, b: Floats, sums: Floats, bounds: Floats
) -> None:
    """Adds one part to running sums in pairs, (axes, 2, n), and to the bounds on their errors, (axes, n)."""
    from residua.noise.kernels import pair_chains

    if isinstance(noise, NestedNoise):
        assert isinstance(factors, np.ndarray)
        nested.add_pairs(noise, factors, z, low, b, sums, bounds)
    else:
        eta = 64.0 * (noise.size + 16) * 2.0**-100
        pair_chains(eta, *factors, z, low, b, sums, bounds)


def judged(noise: AxisNoise, grid: int, normals: Normals, axis: int) -> Integers:
    """The draws of one axis in ball arithmetic, (n,)."""
    for words in range(2, MOST_WORDS):
        with precision(64 * words + GUARD_BITS):
            sums = ball_chains(noise, [normals.balls(axis, j, words) for j in range(len(noise.poles))])
            draws = [rounded_ball(grid, each) for each in sums]
        if all(each is not None for each in draws):
            return np.array(draws, dtype=np.int64)
    raise PrivacyError(f"{MOST_WORDS} random words did not settle one draw: the entropy source is broken, replace it")


def rounded_ball(grid: int, ball: arb) -> int | None:
    """To which integer `t·C` rounds, all of its ball; None where that is open."""
    nearest = (grid * ball + arb(0.5)).floor().unique_fmpz()
    return None if nearest is None else int(nearest)


def ball_chains(noise: AxisNoise, normals: list[list[arb]]) -> list[arb]:
    """The running sums of noise as balls, from the normals of each part; of fewer normals the first ones, (n,)."""
    if isinstance(noise, NestedNoise):
        return nested.ball_sums(noise, normals)
    path, n, count = noise.queries, noise.size, len(normals[0]) - 1
    q, links = [arb(x) for x in noise.q.tolist()], [arb(x) for x in path.links.tolist()]
    left, right, values = arb(path.left), arb(path.right), arb(path.values)
    total = [arb(0)] * count
    for z, pole, weight in zip(normals, noise.poles.tolist(), noise.weights.tolist(), strict=True):
        springs = [values + arb(pole) / each for each in q]
        stiff = [1 / right] * n
        for i in range(n - 2, -1, -1):
            stiff[i] = 1 / links[i] + springs[i + 1] * stiff[i + 1] / (springs[i + 1] + stiff[i + 1])
        root = arb(weight).sqrt()
        share = left / (1 + left * springs[0] * stiff[0] / (springs[0] + stiff[0]))
        factor = share.sqrt() * z[count] if path.left else arb(0)
        running, m = arb(0), arb(0)
        for i in range(count):
            whole = springs[i] + stiff[i]
            running = springs[i] / whole * running + z[i] / whole.sqrt()
            m = springs[i] / whole * m + stiff[i] / whole
            total[i] += root * (running + factor * m)
    return total
