"""Exact draws of noise that is correlated along two axes at once: `round(t·C)`, C running sums along both.

Noise with covariance `Σ₁ ⊗ Σ₂` is a sum over pairs of parts of both axes. For each part of the first, rows of normals
go through the chains of the second (`correlated.py`), and what comes out takes the place of the normals of the first:
each number with the bound on its error that the next chain begins with. Where a rounding stays open, all normals get
more bits, and the same chains are computed in ball arithmetic.
"""

from __future__ import annotations

import numpy as np

from residua.errors import PrivacyError
from residua.linalg.arrays import Integers
from residua.linalg.chain import OrderedNoise
from residua.noise import correlated
from residua.noise.correlated import GUARD_BITS, Normals, ball_chains, float_sums, kernels, stiffness_of
from residua.noise.entropy import Entropy, SystemEntropy
from residua.noise.rounding import MOST_WORDS
from residua.noise.table import precision


def rounded_field(
    first: OrderedNoise, second: OrderedNoise, grid: int, fields: int, *, _entropy: Entropy | None = None
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
    if grid < 1 or grid & (grid - 1):
        raise PrivacyError(f"grid={grid!r} is not a power of two; give one.")
    source = SystemEntropy() if _entropy is None else _entropy
    n, m = first.path.size, second.path.size
    draws = np.empty((fields, n, m), dtype=np.int64)
    stiff = stiffness_of(first), stiffness_of(second)
    path = first.path
    for field in range(fields):
        sums, bounds = np.zeros((2, m, n))
        normals = []
        for part in range(len(first.poles)):
            own = Normals(source, (n + 1, len(second.poles), m + 1))
            normals.append(own)
            inner, errors = float_sums(second, stiff[1], own)  # (n + 1, m)
            z, b = (np.ascontiguousarray(each.T)[:, None, :] for each in (inner, errors))
            one = slice(part, part + 1)
            kernels()[1](
                path.left, path.values, first.q, first.poles[one], first.weights[one], stiff[0][one], z, b, sums, bounds
            )
        scaled = sums * grid
        found = np.rint(scaled)
        decided = np.abs(scaled - found) < 0.5 - bounds * grid * (1 + 2.0**-30) - correlated.UNDECIDED
        whole = found.astype(np.int64) if decided.all() else _refined(first, second, grid, normals)
        draws[field] = whole.T
    return draws


def exact_field(first: OrderedNoise, second: OrderedNoise, grid: int, *, _entropy: Entropy) -> Integers:
    """One field of `rounded_field`, all of it in ball arithmetic: slow, the judge of the floats, (n₁, n₂)."""
    shape = (first.path.size + 1, len(second.poles), second.path.size + 1)
    return _refined(first, second, grid, [Normals(_entropy, shape) for _ in first.poles]).T


def _refined(first: OrderedNoise, second: OrderedNoise, grid: int, normals: list[Normals]) -> Integers:
    """A field in ball arithmetic, with as many more bits of every normal as it needs, (n₂, n₁)."""
    from flint import arb

    n, m = first.path.size, second.path.size
    for words in range(2, MOST_WORDS):
        with precision(64 * words + GUARD_BITS):
            inner = [
                [
                    ball_chains(second, [own.balls(row, j, words) for j in range(len(second.poles))])
                    for row in range(n + 1)
                ]
                for own in normals
            ]
            found = [
                [
                    (grid * each + arb(0.5)).floor().unique_fmpz()
                    for each in ball_chains(first, [[rows[row][column] for row in range(n + 1)] for rows in inner])
                ]
                for column in range(m)
            ]
        if all(each is not None for line in found for each in line):
            return np.array([[int(each) for each in line if each is not None] for line in found], dtype=np.int64)
    raise PrivacyError(f"{MOST_WORDS} random words did not settle one draw: the entropy source is broken, replace it")
