"""Exact draws of `round(t·C)` for noise C whose parts are first-order chains (`linalg/path.py`), or trees of them.

Every normal z is a real number of which 64 bits are drawn at first (`normals.py`): floats ẑ and B with |ẑ − z| ≤ B. The
chains are computed from them in floats with a running bound E on the error of every running sum. Where `t·(Ĉ ± E)`
rounds to one integer, that integer is the draw. An axis on which any of them does not is refined: all its normals get
64 bits more, and the same chains are computed in pairs of floats; what stays open then, practically never, in ball
arithmetic with as many bits as it takes. The draw is a function of the real numbers alone: its distribution is exactly
that of rounded normal noise with the chains' covariance.

Noise that is correlated along two axes at once, with covariance `Σ₁ ⊗ Σ₂`, is a sum over pairs of parts of both. For
each part of the first, rows of normals go through the chains of the second, and what comes out takes the place of the
normals of the first (`Across`): each number with the bound on its error that the next chain begins with.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from flint import arb

from residua.errors import PrivacyError, named
from residua.linalg.arrays import Booleans, Floats, Integers, Words
from residua.linalg.conductances import AxisNoise
from residua.linalg.path import OrderedNoise
from residua.noise.kernels import round_pairs
from residua.noise.normals import GUARD_BITS, Bits, Normals
from residua.noise.samplers import MOST_WORDS, Entropy, SystemEntropy, take
from residua.noise.steps import add_floats, add_pairs, ball_sums, float_factors_of, pair_factors_of
from residua.noise.table import precision

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
        rounded_sums(noise, grid, Normals(source, (len(block), parts, n + 1)), block, factors)
    return draws


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
    across = np.empty((fields, second.size, first.size), dtype=np.int64)
    factors = float_factors(first, first.size), float_factors(second, second.size)
    for draws in across:
        rounded_sums(first, grid, Across(first, second, source, factors[1]), draws, factors[0])
    return across.transpose(0, 2, 1)


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
        raise PrivacyError(f"grid={named(grid)} is not a power of two; give one.")


def rounded_where_decided(grid: int, sums: Floats, bounds: Floats, draws: Integers) -> Booleans:
    """Rounds all running sums; which of them may round to another integer, of the same shape."""
    scaled = sums * grid
    np.rint(scaled, out=sums)
    draws[:] = sums
    return ~(np.abs(scaled - sums) < 0.5 - bounds * grid * (1 + 2.0**-30) - UNDECIDED)  # so that NaN stays open


def float_factors(noise: AxisNoise, count: int) -> list[Floats]:
    """The factors of the steps of every part, (3, count + 1) each."""
    return [float_factors_of(noise, part, count) for part in range(len(noise.poles))]


def float_sums(noise: AxisNoise, normals: Numbers, factors: list[Floats] | None = None) -> tuple[Floats, Floats]:
    """Running sums in floats and the bounds on their errors, (axes, n) each; of fewer normals the first ones."""
    axes, _, numbers = normals.shape
    sums, bounds = np.zeros((2, axes, numbers - 1))
    for part in range(len(noise.poles)):
        own = float_factors_of(noise, part, numbers - 1) if factors is None else factors[part]
        add_floats(noise, own, *normals.floats(part), sums, bounds)
    return sums, bounds


# ---- what floats leave open


def rounded_sums(
    noise: AxisNoise, grid: int, normals: Numbers, draws: Integers, factors: list[Floats] | None = None
) -> None:
    """Rounds the running sums of normals into `draws`, (axes, n), with as many more bits of these as that needs."""
    sums, bounds = float_sums(noise, normals, factors)
    is_open = rounded_where_decided(grid, sums, bounds, draws)
    if is_open.any():
        refined(noise, grid, normals, draws, is_open)


def refined(noise: AxisNoise, grid: int, normals: Numbers, draws: Integers, is_open: Booleans) -> None:
    """Decides the open draws, (axes, n), in place: in pairs of floats, and in balls where those fail."""
    axes = np.flatnonzero(is_open.any(axis=1)).tolist()
    for axis, sums, bounds in zip(axes, *pair_sums(noise, normals, axes), strict=True):
        still = is_open[axis].copy()
        round_pairs(float(grid), sums, bounds, draws[axis], still)
        if still.any():
            draws[axis, still] = judged(noise, grid, normals, axis)[still]


def pair_sums(noise: AxisNoise, normals: Numbers, axes: list[int]) -> tuple[Floats, Floats]:
    """Running sums in pairs of floats, (axes, 2, n), and the bounds on their errors, (axes, n), of some axes."""
    count = normals.shape[2] - 1
    sums, bounds = np.zeros((len(axes), 2, count)), np.zeros((len(axes), count))
    for part in range(len(noise.poles)):
        factors = pair_factors_of(noise, part, count)
        for place, axis in enumerate(axes):
            z, low, b = (each[None] for each in normals.pairs(axis, part))
            at = slice(place, place + 1)
            add_pairs(noise, factors, z, low, b, sums[at], bounds[at])
    return sums, bounds


def judged(noise: AxisNoise, grid: int, normals: Numbers, axis: int) -> Integers:
    """The draws of one axis in ball arithmetic, (n,)."""
    for words in range(2, MOST_WORDS):
        with precision(64 * words + GUARD_BITS):
            sums = ball_sums(noise, [normals.balls(axis, part, words) for part in range(len(noise.poles))])
            nearest = [(grid * each + arb(0.5)).floor().unique_fmpz() for each in sums]  # None: the ball is too wide
        draws = [int(each) for each in nearest if each is not None]
        if len(draws) == len(nearest):
            return np.array(draws, dtype=np.int64)
    raise PrivacyError(f"{MOST_WORDS} random words did not settle one draw: the entropy source is broken, replace it")


class Across:
    """Running sums along a second axis in the place of the normals of a first one, (n₂, parts, n₁ + 1).

    Args:
        first: the noise along the first axis.
        second: that along the second.
        source: of the bits of the normals.
        factors: of the steps along the second axis, in floats.
    """

    def __init__(self, first: AxisNoise, second: AxisNoise, source: Entropy, factors: list[Floats]) -> None:
        parts, rows = len(first.poles), first.size + 1
        self.shape = (second.size, parts, rows)
        self._second, self._factors = second, factors
        self._normals = [Normals(source, (rows, len(second.poles), second.size + 1)) for _ in range(parts)]
        self._pairs: dict[int, tuple[Floats, Floats]] = {}
        self._balls: dict[tuple[int, int], list[list[arb]]] = {}

    def floats(self, part: int) -> tuple[Floats, Floats]:
        """The numbers of a part as floats, and how far each may be off, (n₂, n₁ + 1) each."""
        sums, bounds = float_sums(self._second, self._normals[part], self._factors)
        return np.ascontiguousarray(sums.T), np.ascontiguousarray(bounds.T)

    def pairs(self, axis: int, part: int) -> tuple[Floats, Floats, Floats]:
        """The numbers of a part as pairs of floats, and how far each may be off, (n₁ + 1,)."""
        if part not in self._pairs:
            self._pairs[part] = pair_sums(self._second, self._normals[part], list(range(self.shape[2])))
        sums, bounds = self._pairs[part]
        return sums[:, 0, axis].copy(), sums[:, 1, axis].copy(), bounds[:, axis].copy()

    def balls(self, axis: int, part: int, words: int) -> list[arb]:
        """The numbers of a part as balls, from this many words of each normal at least, at the working precision."""
        if (part, words) not in self._balls:
            own, chains = self._normals[part], range(len(self._second.poles))
            rows = ([own.balls(row, j, words) for j in chains] for row in range(self.shape[2]))
            self._balls[part, words] = [ball_sums(self._second, row) for row in rows]
        return [row[axis] for row in self._balls[part, words]]


Numbers = Normals | Across


# ---- as an axis grows


@dataclass(frozen=True, eq=False, repr=False)
class Drawn:
    """The normals drawn so far. Confidential.

    Args:
        words: 64 bits of each: the first column is drawn before all periods, (parts, 1 + periods).
        more: what was drawn beyond 64 bits.
    """

    words: Words
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
) -> tuple[Integers, Drawn]:
    """`round(t·C)` of all periods drawn, exactly, (periods,), and the normals with all bits that this needed.

    Guarantee: the number of a period never changes when later ones are drawn; all together have the distribution of
    `rounded_ordered`.
    """
    source = entropy or SystemEntropy()
    count = drawn.periods
    order = [*range(1, count + 1), 0]
    more = {(part, (column - 1) % (count + 1)): bits for (part, column), bits in drawn.more.items()}
    normals = Normals.kept(source, drawn.words[:, order], more)
    draws = np.empty((1, count), dtype=np.int64)
    rounded_sums(noise, grid, normals, draws)
    kept = {(part, order[number]): bits for (part, number), bits in normals.more.items()}
    return draws[0], Drawn(drawn.words, kept)
