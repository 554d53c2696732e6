"""Exact draws of `round(t·C)` for noise C whose parts are first-order chains (`linalg/chain.py`).

Every normal z is a real number of which 64 bits are drawn (`rounding.py`): floats ẑ and B with |ẑ − z| ≤ B. The chains
are computed from them in floats with a running bound E on the error of every running sum. Where `t·(Ĉ ± E)` rounds to
one integer, that integer is the draw. If any of them does not, more bits are drawn for all z of the axis and the chains
are computed in ball arithmetic, until all are decided. The draw is a function of the real numbers alone: its
distribution is exactly that of rounded normal noise with the chains' covariance.

**The bound.** u = 2⁻⁵³. R, which accumulates over the whole axis, is computed in pairs of floats: each operation on
positive numbers errs by less than 2⁻¹⁰⁰ relatively, so that n < 2⁴⁰ steps of five and the final rounding to a float err
by less than 2u. Then κ, φ, ψ = 1 − φ and σ err by less than 12u relatively. `C_i = C_{i−1} + (σ_i z_i − ψ_i C_{i−1})`
is accumulated in pairs as well, so that only its step errs; an earlier error is multiplied by φ_i < 1:

    E_i = φ E_{i−1} + σ B + 16u (σ|ẑ| + ψ|Ĉ_{i−1}|) + 2⁻¹⁰⁰|Ĉ_i|,

computed in floats and enlarged by 2⁻³⁰ at each step, which covers the rounding of the bound itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from flint import arb, fmpz
from numpy.typing import NDArray

from residua.errors import PrivacyError
from residua.linalg.arrays import Floats, Integers
from residua.linalg.chain import OrderedNoise
from residua.noise.entropy import Entropy, SystemEntropy, take
from residua.noise.rounding import MOST_WORDS
from residua.noise.samplers import NORMAL
from residua.noise.table import precision, table

GUARD_BITS = 128
_BLOCK = 1 << 18  # normals at a time
UNDECIDED = 2.0**-50  # from the middle between two integers, beyond the bound: covers the comparison's own rounding


def rounded_ordered(noise: OrderedNoise, grid: int, axes: int, *, _entropy: Entropy | None = None) -> Integers:
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
    if grid < 1 or grid & (grid - 1):
        raise PrivacyError(f"grid={grid!r} is not a power of two; give one.")
    source = SystemEntropy() if _entropy is None else _entropy
    n, parts = noise.path.size, len(noise.poles)
    draws = np.empty((axes, n), dtype=np.int64)
    stiff = stiffness_of(noise)
    together = max(_BLOCK // (parts * (n + 1)), 1)  # short axes are drawn many at a time
    for start in range(0, axes, together):
        block = draws[start : start + together]
        normals = Normals(source, (len(block), parts, n + 1))
        sums, bounds = float_sums(noise, stiff, normals)
        scaled = sums * grid
        block[:] = np.rint(scaled)
        decided = np.abs(scaled - block) < 0.5 - bounds * grid * (1 + 2.0**-30) - UNDECIDED  # False for NaN
        for axis in np.flatnonzero(~decided.all(axis=1)).tolist():
            block[axis] = _refined(noise, grid, normals, axis)
    return draws


def exactly_ordered(noise: OrderedNoise, grid: int, *, _entropy: Entropy | None = None) -> Integers:
    """One axis of `rounded_ordered`, all of it in ball arithmetic: slow, the judge of the floats, (n,)."""
    source = SystemEntropy() if _entropy is None else _entropy
    return _refined(noise, grid, Normals(source, (1, len(noise.poles), noise.path.size + 1)), 0)


def stiffness_of(noise: OrderedNoise) -> Floats:
    """R of every part, right to 2u relatively, (parts, n)."""
    found = np.empty((len(noise.poles), noise.path.size))
    path = noise.path
    kernels()[0](path.links, path.right, path.values, noise.q, noise.poles, found)
    return found


class Normals:
    """Standard normals of which only as many bits are drawn as are needed, (axes, parts, numbers)."""

    def __init__(self, source: Entropy, shape: tuple[int, int, int]) -> None:
        self.shape = shape
        self._source = source
        self._words = take(source, math.prod(shape))
        self._more: dict[int, tuple[int, int]] = {}  # where 64 bits did not suffice: the bits, and how many

    @classmethod
    def kept(cls, source: Entropy, words: NDArray[np.uint64], more: Mapping[int, tuple[int, int]]) -> Normals:
        """Normals of one axis that were drawn before, (parts, numbers), and what was drawn of them beyond 64 bits."""
        found = cls.__new__(cls)
        found.shape = (1, *words.shape)
        found._source, found._words, found._more = source, words.ravel(), dict(more)
        return found

    @property
    def more(self) -> dict[int, tuple[int, int]]:
        """Where 64 bits did not suffice: the bits of that normal, and how many."""
        return dict(self._more)

    def floats(self) -> tuple[Floats, Floats]:
        """The numbers as floats, and how far each may be off, (axes, parts, numbers) each."""
        words = self._words
        z, bounds = table(NORMAL).evaluate(words)
        for i in np.flatnonzero(~np.isfinite(bounds)).tolist():  # one in 131,072
            v, bits = self._more.get(i, (int(words[i]) >> 1, 64))
            known = i in self._more
            while bounds[i] > 1e-14:
                if not known:
                    v, bits = v << 64 | int(take(self._source, 1)[0]), bits + 64
                known = False
                with precision(bits + GUARD_BITS):
                    ball = _normal(v, bits)
                    z[i] = float(ball.mid()) if ball.is_finite() else 0.0
                    bounds[i] = float(abs(ball - arb(z[i])).upper()) * (1 + 2.0**-30) if ball.is_finite() else np.inf
            self._more[i] = v, bits
        return np.where(words & np.uint64(1), -z, z).reshape(self.shape), bounds.reshape(self.shape)

    def balls(self, axis: int, part: int, words: int) -> list[arb]:
        """The numbers of a part as balls, from this many words of each at least, at the working precision."""
        found, count = [], self.shape[2]
        first = (axis * self.shape[1] + part) * count
        for i, word in enumerate(self._words[first : first + count].tolist(), start=first):
            v, bits = self._more.get(i, (word >> 1, 64))
            while bits < 64 * words:
                v, bits = v << 64 | int(take(self._source, 1)[0]), bits + 64
            self._more[i] = v, bits
            found.append(-_normal(v, bits) if word & 1 else _normal(v, bits))
        return found


def float_sums(noise: OrderedNoise, stiff: Floats, normals: Normals) -> tuple[Floats, Floats]:
    """Running sums in floats and the bounds on their errors, (axes, n) each."""
    path = noise.path
    sums, bounds = np.zeros((2, normals.shape[0], path.size))
    z, b = normals.floats()
    kernels()[1](path.left, path.values, noise.q, noise.poles, noise.weights, stiff, z, b, sums, bounds)
    return sums, bounds


def _refined(noise: OrderedNoise, grid: int, normals: Normals, axis: int) -> Integers:
    """The draws of one axis in ball arithmetic, with as many more bits of every normal as they need."""
    for words in range(2, MOST_WORDS):
        with precision(64 * words + GUARD_BITS):
            found = _ball_sums(noise, grid, [normals.balls(axis, j, words) for j in range(len(noise.poles))])
        if all(each is not None for each in found):
            return np.array([int(each) for each in found], dtype=np.int64)  # type: ignore[arg-type]
    raise PrivacyError(f"{MOST_WORDS} random words did not settle one draw: the entropy source is broken, replace it")


def _ball_sums(noise: OrderedNoise, grid: int, normals: list[list[arb]]) -> list[fmpz | None]:
    """To which integer each `t·C_i` rounds, all of its ball; None where that is open."""
    return [(grid * each + arb(0.5)).floor().unique_fmpz() for each in ball_chains(noise, normals)]


def ball_chains(noise: OrderedNoise, normals: list[list[arb]]) -> list[arb]:
    """The running sums of noise as balls, from the normals of each part; of fewer normals the first ones, (n,)."""
    path, n, count = noise.path, noise.path.size, len(normals[0]) - 1
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


def _normal(v: int, bits: int) -> arb:
    """A ball that holds the quantiles of all tail probabilities that begin with these bits."""
    unit = arb(2) ** -bits
    if not v:
        return arb("+/- inf")  # nothing is known yet: everything stays open, and more bits come
    return NORMAL.quantile(v * unit).union(NORMAL.quantile((v + 1) * unit))


def _compile() -> tuple[Callable[..., Any], Callable[..., Any]]:
    from residua.compiling import compiled

    made: Any = compiled  # without fastmath, as the proof asks

    @made
    def plus(a, b, c, d):  # type: ignore[no-untyped-def]
        """(a + b) + (c + d), all pairs with the small part second."""
        s = a + c
        t = s - a
        e = (a - (s - t)) + (c - t) + (b + d)
        high = s + e
        return high, e - (high - s)

    @made
    def product(a, c):  # type: ignore[no-untyped-def]
        """a c exactly, as a pair (Dekker)."""
        p = a * c
        t = 134217729.0 * a
        ah = t - (t - a)
        al = a - ah
        t = 134217729.0 * c
        ch = t - (t - c)
        cl = c - ch
        return p, ((ah * ch - p) + ah * cl + al * ch) + al * cl

    @made
    def times(a, b, c, d):  # type: ignore[no-untyped-def]
        p, e = product(a, c)
        e += a * d + b * c
        high = p + e
        return high, e - (high - p)

    @made
    def over(a, b, c, d):  # type: ignore[no-untyped-def]
        first = a / c
        p, e = times(first, 0.0, c, d)
        r, s = plus(a, b, -p, -e)
        second = r / c
        p, e = times(second, 0.0, c, d)
        r, s = plus(r, s, -p, -e)
        high = first + second
        return high, (second - (high - first)) + r / c

    @made
    def stiff(links, right, values, q, poles, out):  # type: ignore[no-untyped-def]
        n = q.size
        for j in range(poles.size):
            a, b = over(1.0, 0.0, right, 0.0)
            for i in range(n - 1, -1, -1):
                out[j, i] = a + b
                if i > 0:
                    k, e = over(poles[j], 0.0, q[i], 0.0)
                    k, e = plus(values, 0.0, k, e)
                    c, d = times(k, e, a, b)
                    k, e = plus(k, e, a, b)
                    c, d = over(c, d, k, e)
                    a, b = over(1.0, 0.0, links[i - 1], 0.0)
                    a, b = plus(a, b, c, d)

    @made
    def one(left, values, q, p, a, stiffness, z, b, out, bounds):  # type: ignore[no-untyped-def]
        u, more = 2.0**-53, 1.0 + 2.0**-30
        k = values + p / q[0]
        extra = np.sqrt(a * left / (1.0 + left * k * stiffness[0] / (k + stiffness[0])))
        factor = extra * z[q.size]
        spread = (extra * b[q.size] + 16.0 * u * abs(factor)) * more if left > 0.0 else 0.0
        c = low = m = error = slack = 0.0
        for i in range(q.size):
            k = values + p / q[i]
            t = 1.0 / (k + stiffness[i])
            psi, phi, sigma = stiffness[i] * t, k * t, np.sqrt(a * t)
            step = sigma * z[i] - psi * c
            error = (phi * error + sigma * b[i] + 16.0 * u * (sigma * abs(z[i]) + psi * abs(c))) * more
            c, low = plus(c, low, step, 0.0)
            error += 2.0**-100 * abs(c)
            slack = (phi * slack + 16.0 * u * (phi * m + psi)) * more  # of m
            m = phi * m + psi
            part, bound = c, error + 2.0 * u * abs(c)
            if left > 0.0:
                part += factor * m
                bound += spread * m + abs(factor) * slack + 4.0 * u * abs(factor * m)
            out[i] += part
            bounds[i] = (bounds[i] + bound + 2.0 * u * (abs(part) + abs(out[i]))) * more

    @made
    def sums(left, values, q, poles, weights, stiffness, z, b, out, bounds):  # type: ignore[no-untyped-def]
        for axis in range(out.shape[0]):
            for j in range(poles.size):
                p, a = poles[j], weights[j]
                one(left, values, q, p, a, stiffness[j], z[axis, j], b[axis, j], out[axis], bounds[axis])

    return stiff, sums


@lru_cache(maxsize=1)
def kernels() -> tuple[Callable[..., Any], Callable[..., Any]]:
    """The loops, compiled on first use (importing does nothing)."""
    return _compile()
