"""Noise along an axis drawn as the axis grows: one number at a time, each a function of normals drawn so far.

The chains of `linalg/path.py` go forward: the running sum of period k needs the normals of the periods up to k, and
one more of each part, drawn first. What is kept between periods is those normals, bit by bit; with them the noise of
every released number could be taken off it again, so that they are as confidential as the counts.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from residua.linalg.path import OrderedNoise
from residua.noise import correlated
from residua.noise.entropy import Entropy, SystemEntropy, take
from residua.noise.normals import Bits, Normals
from residua.noise.refining import refined


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
    count = drawn.periods
    order = [*range(1, count + 1), 0]
    more = {(part, (column - 1) % (count + 1)): bits for (part, column), bits in drawn.more.items()}
    normals = Normals.kept(source, drawn.words[:, order], more)
    sums, bounds = correlated.float_sums(noise, normals)
    found = np.empty((1, count), dtype=np.int64)
    is_open = correlated.rounded_where_decided(grid, sums, bounds, found)
    if is_open.any():
        refined(noise, grid, normals, 0, found[0], is_open[0])
    kept = {(part, order[number]): bits for (part, number), bits in normals.more.items()}
    return found[0], Drawn(drawn.words, kept)
