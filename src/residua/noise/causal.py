"""Noise along an axis drawn as the axis grows: one number at a time, each a function of normals drawn so far.

The chains of `linalg/chain.py` go forward: the running sum of period k needs the normals of the periods up to k, and
one more of each part, drawn first. What is kept between periods is those normals, bit by bit; with them the noise of
every released number could be taken off it again, so that they are as confidential as the counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from residua.errors import PrivacyError
from residua.linalg.chain import OrderedNoise
from residua.noise import correlated
from residua.noise.correlated import GUARD_BITS, Normals, ball_chains, kernels, stiffness_of
from residua.noise.entropy import Entropy, SystemEntropy, take
from residua.noise.rounding import MOST_WORDS
from residua.noise.table import precision

Bits = Mapping[tuple[int, int], tuple[int, int]]  # (part, column) → the bits of that normal, and how many


@dataclass(frozen=True, eq=False, repr=False)
class Drawn:
    """The normals drawn so far. Confidential.

    Args:
        words: 64 bits of each: the first column is drawn before all periods, (parts, 1 + periods).
        more: what was drawn beyond 64 bits.
    """

    words: NDArray[np.uint64]
    more: Bits = field(default_factory=dict)

    @property
    def periods(self) -> int:
        """Of how many periods normals were drawn."""
        return int(self.words.shape[1]) - 1

    def extended(self, entropy: Entropy | None = None) -> Drawn:
        """With the normals of one more period."""
        fresh = take(entropy or SystemEntropy(), len(self.words))
        return Drawn(np.column_stack([self.words, fresh]), self.more)

    def __repr__(self) -> str:
        return "Drawn(confidential)"


def begun(noise: OrderedNoise, entropy: Entropy | None = None) -> Drawn:
    """Before the first period."""
    return Drawn(take(entropy or SystemEntropy(), len(noise.poles)).reshape(-1, 1))


def rounded_so_far(
    noise: OrderedNoise, grid: int, drawn: Drawn, entropy: Entropy | None = None
) -> tuple[NDArray[np.int64], Drawn]:
    """`round(t·C)` of all periods drawn, exactly, (periods,), and the normals with all bits that this needed.

    Guarantee: the number of a period never changes when later ones are drawn; all together have the distribution of
    `rounded_ordered`.
    """
    source = entropy or SystemEntropy()
    count, parts = drawn.periods, len(noise.poles)
    order = [*range(1, count + 1), 0]
    place = {column: at for at, column in enumerate(order)}
    more = {part * (count + 1) + place[column]: bits for (part, column), bits in drawn.more.items()}
    normals = Normals.kept(source, drawn.words[:, order], more)
    path, stiff = noise.path, np.ascontiguousarray(stiffness_of(noise)[:, :count])
    z, b = normals.floats()
    sums, bounds = np.zeros((2, 1, count))
    kernels()[1](path.left, path.values, noise.q[:count], noise.poles, noise.weights, stiff, z, b, sums, bounds)
    scaled = sums[0] * grid
    found = np.rint(scaled)
    decided = np.abs(scaled - found) < 0.5 - bounds[0] * grid * (1 + 2.0**-30) - correlated.UNDECIDED
    whole = found.astype(np.int64) if decided.all() else _refined(noise, grid, normals, parts)
    kept = {(i // (count + 1), order[i % (count + 1)]): bits for i, bits in normals.more.items()}
    return whole, Drawn(drawn.words, kept)


def _refined(noise: OrderedNoise, grid: int, normals: Normals, parts: int) -> NDArray[np.int64]:
    from flint import arb

    for words in range(2, MOST_WORDS):
        with precision(64 * words + GUARD_BITS):
            sums = ball_chains(noise, [normals.balls(0, j, words) for j in range(parts)])
            found = [(grid * each + arb(0.5)).floor().unique_fmpz() for each in sums]
        if all(each is not None for each in found):
            return np.array([int(each) for each in found if each is not None], dtype=np.int64)
    raise PrivacyError(f"{MOST_WORDS} random words did not settle one draw: the entropy source is broken, replace it")
