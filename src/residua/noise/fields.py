"""Exact draws of noise that is correlated along two axes at once: `round(t·C)`, C running sums along both.

Noise with covariance `Σ₁ ⊗ Σ₂` is a sum over pairs of parts of both axes. For each part of the first, rows of normals
go through the chains of the second (`correlated.py`), and what comes out takes the place of the normals of the first:
each number with the bound on its error that the next chain begins with. Where a rounding stays open, all normals get a
second word, and the same chains are computed in pairs of floats, or in the end in ball arithmetic (`refining.py`).
"""

from __future__ import annotations

import numpy as np

from residua.errors import PrivacyError
from residua.linalg.arrays import Booleans, Floats, Integers
from residua.linalg.nested_noise import AxisNoise
from residua.noise.correlated import float_factors, float_sums, require_grid, rounded_where_decided
from residua.noise.normals import GUARD_BITS, Normals
from residua.noise.refining import rounded_ball
from residua.noise.samplers import MOST_WORDS, Entropy, SystemEntropy
from residua.noise.steps import add_floats, add_pairs, ball_sums, pair_factors_of
from residua.noise.table import precision


def rounded_field(
    first: AxisNoise, second: AxisNoise, grid: int, fields: int, *, _entropy: Entropy | None = None
) -> Integers:
    """Draw `round(t·C)`, C the running sums along both axes of noise with covariance `Σ₁ ⊗ Σ₂`, exactly.

    Guarantee:
        The joint distribution of the draws is exact, given that the operating system's bits are uniform.

    Args:
        first: the noise along the first axis; its floats are taken as the dyadic rationals they are.
        second: the noise along the second.
        grid: t, a power of two.
        fields: how many independent fields to draw.

    Returns:
        int64, (fields, n₁, n₂).

    Raises:
        PrivacyError: the grid is not a power of two.
    """
    require_grid(grid)
    source = SystemEntropy() if _entropy is None else _entropy
    n, m = first.size, second.size
    draws = np.empty((fields, n, m), dtype=np.int64)
    factors = float_factors(first, n), float_factors(second, m)
    for field in range(fields):
        sums, bounds = np.zeros((2, m, n))
        normals = []
        for part in range(len(first.poles)):
            own = Normals(source, (n + 1, len(second.poles), m + 1))
            normals.append(own)
            z, b = (np.ascontiguousarray(each.T) for each in float_sums(second, own, factors[1]))  # (m, n + 1)
            add_floats(first, factors[0][part], z, b, sums, bounds)
        across = np.empty((m, n), dtype=np.int64)
        is_open = rounded_where_decided(grid, sums, bounds, across)
        if is_open.any():
            _refined(first, second, grid, normals, across, is_open)
        draws[field] = across.T
    return draws


def exact_field(first: AxisNoise, second: AxisNoise, grid: int, *, _entropy: Entropy) -> Integers:
    """One field of `rounded_field`, all of it in ball arithmetic: slow, the judge of the floats, (n₁, n₂)."""
    shape = (first.size + 1, len(second.poles), second.size + 1)
    return _judged(first, second, grid, [Normals(_entropy, shape) for _ in first.poles]).T


def _refined(
    first: AxisNoise, second: AxisNoise, grid: int, normals: list[Normals], draws: Integers, is_open: Booleans
) -> None:
    """Decides the open draws of a field in place, in pairs of floats or else in balls, (n₂, n₁)."""
    from residua.noise.kernels import round_pairs

    sums, bounds = _pair_sums(first, second, normals)
    still = is_open.copy()
    for column in range(second.size):
        round_pairs(float(grid), sums[column], bounds[column], draws[column], still[column])
    if still.any():
        draws[still] = _judged(first, second, grid, normals)[still]


def _pair_sums(first: AxisNoise, second: AxisNoise, normals: list[Normals]) -> tuple[Floats, Floats]:
    """Running sums along both axes in pairs of floats, (n₂, 2, n₁), and the bounds on their errors, (n₂, n₁)."""
    n, m = first.size, second.size
    sums, bounds = np.zeros((m, 2, n)), np.zeros((m, n))
    factors = [pair_factors_of(second, j, m) for j in range(len(second.poles))]
    for part, own in enumerate(normals):
        inner, errors = np.zeros((n + 1, 2, m)), np.zeros((n + 1, m))
        for row in range(n + 1):
            at = slice(row, row + 1)
            for j in range(len(second.poles)):
                z, low, b = (each[None] for each in own.pairs(row, j))
                add_pairs(second, factors[j], z, low, b, inner[at], errors[at])
        z, low, b = (np.ascontiguousarray(each.T) for each in (inner[:, 0], inner[:, 1], errors))
        add_pairs(first, pair_factors_of(first, part, n), z, low, b, sums, bounds)
    return sums, bounds


def _judged(first: AxisNoise, second: AxisNoise, grid: int, normals: list[Normals]) -> Integers:
    """A field in ball arithmetic, with as many more bits of every normal as it needs, (n₂, n₁)."""
    n, m = first.size, second.size
    for words in range(2, MOST_WORDS):
        with precision(64 * words + GUARD_BITS):
            inner = [
                [
                    ball_sums(second, [own.balls(row, j, words) for j in range(len(second.poles))])
                    for row in range(n + 1)
                ]
                for own in normals
            ]
            draws = [
                [
                    rounded_ball(grid, each)
                    for each in ball_sums(first, [[rows[row][column] for row in range(n + 1)] for rows in inner])
                ]
                for column in range(m)
            ]
        if all(each is not None for line in draws for each in line):
            return np.array(draws, dtype=np.int64)
    raise PrivacyError(f"{MOST_WORDS} random words did not settle one draw: the entropy source is broken, replace it")
