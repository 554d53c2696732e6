"""Running sums whose rounding floats leave open: computed again in pairs of floats, and in balls where those fail."""

from __future__ import annotations

import numpy as np
from flint import arb

from residua.errors import PrivacyError
from residua.linalg.arrays import Booleans, Floats, Integers
from residua.linalg.nested_noise import AxisNoise
from residua.noise.normals import GUARD_BITS, Normals
from residua.noise.samplers import MOST_WORDS
from residua.noise.steps import add_pairs, ball_sums, pair_factors_of
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


def judged(noise: AxisNoise, grid: int, normals: Normals, axis: int) -> Integers:
    """The draws of one axis in ball arithmetic, (n,)."""
    for words in range(2, MOST_WORDS):
        with precision(64 * words + GUARD_BITS):
            sums = ball_sums(noise, [normals.balls(axis, j, words) for j in range(len(noise.poles))])
            draws = [rounded_ball(grid, each) for each in sums]
        if all(each is not None for each in draws):
            return np.array(draws, dtype=np.int64)
    raise PrivacyError(f"{MOST_WORDS} random words did not settle one draw: the entropy source is broken, replace it")


def rounded_ball(grid: int, ball: arb) -> int | None:
    """To which integer `t·C` rounds, all of its ball; None where that is open."""
    nearest = (grid * ball + arb(0.5)).floor().unique_fmpz()
    return None if nearest is None else int(nearest)
