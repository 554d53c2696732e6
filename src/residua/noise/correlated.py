"""Exact draws of `round(t·C)` for noise C whose parts are first-order chains (`linalg/path.py`), or trees of them.

Every normal z is a real number of which 64 bits are drawn at first (`normals.py`): floats ẑ and B with |ẑ − z| ≤ B. The
chains are computed from them in floats with a running bound E on the error of every running sum. Where `t·(Ĉ ± E)`
rounds to one integer, that integer is the draw. An axis on which any of them does not is refined (`refining.py`): all
its normals get 64 bits more, and the same chains are computed in pairs of floats; what stays open then, practically
never, in ball arithmetic with as many bits as it takes. The draw is a function of the real numbers alone: its
distribution is exactly that of rounded normal noise with the chains' covariance.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from residua.errors import PrivacyError
from residua.linalg.arrays import Booleans, Floats, Integers
from residua.linalg.nested_noise import AxisNoise
from residua.linalg.path import OrderedNoise
from residua.noise.normals import Bits, Normals
from residua.noise.refining import judged, refined
from residua.noise.samplers import Entropy, SystemEntropy, take
from residua.noise.steps import add_floats, float_factors_of

_BLOCK = 1 << 18  # normals at a time
_KEPT = 1 << 26  # factors that are kept for the next axes
UNDECIDED = 2.0**-50  # from the middle between two integers, beyond the bound: covers the comparison's own rounding


def rounded_ordered(noise: AxisNoise, grid: int, axes: int, *, _entropy: Entropy | None = None) -> Integers:
    """Draw `round(t·C)`, C the running sums of noise along an axis, exactly.

    Guarantee:
        The joint distribution of the draws is exact, given that the operating system's bits are uniform.

    Args:
        noise: whose running sums; its floats are taken as the dyadic rationals they are.
        grid: t, a power of two, so that multiplying floats by it is exact.
        axes: how many independent axes to draw.

    Returns:
        int64, (axes, n).

    Raises:
        PrivacyError: the grid is not a power of two.
    """
    require_grid(grid)
    source = SystemEntropy() if _entropy is None else _entropy
    n, parts = noise.size, len(noise.poles)
    draws = np.empty((axes, n), dtype=np.int64)
    together = max(_BLOCK // (parts * (n + 1)), 1)  # short axes are drawn many at a time
    factors = float_factors(noise, n) if axes > together and 3 * parts * n <= _KEPT else None
    for start in range(0, axes, together):
        block = draws[start : start + together]
        normals = Normals(source, (len(block), parts, n + 1))
        sums, bounds = float_sums(noise, normals, factors)
        is_open = rounded_where_decided(grid, sums, bounds, block)
        for axis in np.flatnonzero(is_open.any(axis=1)).tolist():
            refined(noise, grid, normals, axis, block[axis], is_open[axis])
    return draws


def exactly_ordered(noise: AxisNoise, grid: int, *, _entropy: Entropy | None = None) -> Integers:
    """One axis of `rounded_ordered`, all of it in ball arithmetic: slow, the judge of the floats, (n,)."""
    source = SystemEntropy() if _entropy is None else _entropy
    return judged(noise, grid, Normals(source, (1, len(noise.poles), noise.size + 1)), 0)


def require_grid(grid: int) -> None:
    """Refuses a grid by which floats cannot be multiplied exactly.

    Raises:
        PrivacyError: it is not a power of two.
    """
    if grid < 1 or grid & (grid - 1):
        raise PrivacyError(f"grid={grid!r} is not a power of two; give one.")


def rounded_where_decided(grid: int, sums: Floats, bounds: Floats, draws: Integers) -> Booleans:
    """Rounds all running sums; which of them may round to another integer, of the same shape."""
    scaled = sums * grid
    np.rint(scaled, out=sums)
    draws[:] = sums
    return ~(np.abs(scaled - sums) < 0.5 - bounds * grid * (1 + 2.0**-30) - UNDECIDED)  # so that NaN stays open


def float_factors(noise: AxisNoise, count: int) -> list[Floats]:
    """The factors of the steps of every part, (3, count + 1) each."""
    return [float_factors_of(noise, part, count) for part in range(len(noise.poles))]


def float_sums(noise: AxisNoise, normals: Normals, factors: list[Floats] | None = None) -> tuple[Floats, Floats]:
    """Running sums in floats and the bounds on their errors, (axes, n) each; of fewer normals the first ones."""
    axes, _, numbers = normals.shape
    sums, bounds = np.zeros((2, axes, numbers - 1))
    for part in range(len(noise.poles)):
        own = float_factors_of(noise, part, numbers - 1) if factors is None else factors[part]
        add_floats(noise, own, *normals.floats(part), sums, bounds)
    return sums, bounds


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
    sums, bounds = float_sums(noise, normals)
    draws = np.empty((1, count), dtype=np.int64)
    is_open = rounded_where_decided(grid, sums, bounds, draws)
    if is_open.any():
        refined(noise, grid, normals, 0, draws[0], is_open[0])
    kept = {(part, order[number]): bits for (part, number), bits in normals.more.items()}
    return draws[0], Drawn(drawn.words, kept)
