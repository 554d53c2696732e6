"""Standard normals of which only as many bits are drawn as are needed: as floats, as pairs of floats, as balls.

A normal begins with one word (`table.py`). Where that leaves a rounding open, all normals of its axis get a second word
(`table.py`), and in the end as many as it takes; what is beyond the tables (one in 131,072) is computed in balls
from the start. Bits that were drawn are kept: a normal is one real number, seen more and more closely.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from flint import arb

from residua.linalg.arrays import Floats, Words
from residua.noise.samplers import NORMAL, Entropy, take
from residua.noise.table import long_table, precision, table

GUARD_BITS = 128
_WORD = (1 << 64) - 1
_FLOAT, _PAIR = 1e-14, 1e-29  # how closely normals beyond the tables are computed

Bits = Mapping[tuple[int, int], tuple[int, int]]  # (part, number) → the bits of that normal, and how many


class Normals:
    """Standard normals, (axes, parts, numbers)."""

    def __init__(self, source: Entropy, shape: tuple[int, int, int]) -> None:
        self.shape = shape
        self._source = source
        self._words = take(source, shape[0] * shape[1] * shape[2]).reshape(shape)
        self._second: dict[tuple[int, int], Words] = {}  # of the parts of axes that needed them
        self._more: dict[tuple[int, int, int], tuple[int, int]] = {}  # beyond these: the bits, and how many

    @classmethod
    def kept(cls, source: Entropy, words: Words, more: Bits) -> Normals:
        """Normals of one axis that were drawn before, (parts, numbers), and what was drawn of them beyond 64 bits."""
        normals = cls.__new__(cls)
        normals.shape = (1, *words.shape)
        normals._source, normals._words, normals._second = source, words[None], {}
        normals._more = {(0, part, number): bits for (part, number), bits in more.items()}
        return normals

    @property
    def more(self) -> dict[tuple[int, int], tuple[int, int]]:
        """Of the first axis, where 64 bits did not suffice: the bits of that normal, and how many."""
        bits_of: dict[tuple[int, int], tuple[int, int]] = {}
        for (axis, part), words in self._second.items():
            if not axis:
                bits_of |= {(part, number): self._bits(0, part, number) for number in range(len(words))}
        return bits_of | {(part, number): bits for (axis, part, number), bits in self._more.items() if not axis}

    def floats(self, part: int) -> tuple[Floats, Floats]:
        """The numbers of a part as floats, and how far each may be off, (axes, numbers) each."""
        words = np.ascontiguousarray(self._words[:, part])
        z, bounds = (each.reshape(words.shape) for each in table(NORMAL).evaluate(words.ravel()))
        for axis, number in np.argwhere(~np.isfinite(bounds)).tolist():
            z[axis, number], _, bounds[axis, number] = self._beyond(axis, part, number, _FLOAT)
        return np.where(words & np.uint64(1), -z, z), bounds

    def pairs(self, axis: int, part: int) -> tuple[Floats, Floats, Floats]:
        """The numbers of a part as pairs of floats, from two words each, and how far each may be off, (numbers,)."""
        words = self._words[axis, part]
        z, low, bounds = long_table(NORMAL).evaluate(words, self._seconds(axis, part))
        for number in np.flatnonzero(~np.isfinite(bounds)).tolist():
            z[number], low[number], bounds[number] = self._beyond(axis, part, number, _PAIR)
        negative = words & np.uint64(1) > 0
        return np.where(negative, -z, z), np.where(negative, -low, low), bounds

    def balls(self, axis: int, part: int, words: int) -> list[arb]:
        """The numbers of a part as balls, from this many words of each at least, at the working precision."""
        balls = []
        for number, word in enumerate(self._words[axis, part].tolist()):
            ball = normal(*self._extended(axis, part, number, 64 * words))
            balls.append(-ball if word & 1 else ball)
        return balls

    def _seconds(self, axis: int, part: int) -> Words:
        """The second word of every number of a part, drawn when it is first asked for."""
        if (axis, part) not in self._second:
            words = take(self._source, self.shape[2]).copy()
            for (other, of, number), (v, bits) in self._more.items():
                if (other, of) == (axis, part):  # drawn before
                    words[number] = v >> bits - 128 & _WORD
            self._second[axis, part] = words
        return self._second[axis, part]

    def _bits(self, axis: int, part: int, number: int) -> tuple[int, int]:
        """All bits drawn of a number, and how many."""
        if (axis, part, number) in self._more:
            return self._more[axis, part, number]
        v = int(self._words[axis, part, number]) >> 1
        seconds = self._second.get((axis, part))
        return (v, 64) if seconds is None else (v << 64 | int(seconds[number]), 128)

    def _extended(self, axis: int, part: int, number: int, least: int) -> tuple[int, int]:
        """The bits of a number, this many at least."""
        v, bits = self._bits(axis, part, number)
        while bits < least:
            v, bits = v << 64 | int(take(self._source, 1)[0]), bits + 64
        self._more[axis, part, number] = v, bits
        return v, bits

    def _beyond(self, axis: int, part: int, number: int, wanted: float) -> tuple[float, float, float]:
        """A magnitude beyond the tables: a pair, and how far it (for a coarse one: its high part) may be off."""
        least = max(128, self._bits(axis, part, number)[1])
        while True:
            v, bits = self._extended(axis, part, number, least)
            with precision(bits + GUARD_BITS):
                ball = normal(v, bits)
                if ball.is_finite():
                    high = float(ball.mid())
                    low = float((ball - arb(high)).mid()) if wanted < _FLOAT else 0.0
                    bound = float(abs(ball - arb(high) - arb(low)).upper()) * (1 + 2.0**-30)
                    if bound <= wanted:
                        return high, low, bound
            least = bits + 64


def normal(v: int, bits: int) -> arb:
    """A ball that holds the quantiles of all tail probabilities that begin with these bits."""
    unit = arb(2) ** -bits
    if not v:
        return arb("+/- inf")  # nothing is known yet: everything stays open, and more bits come
    return NORMAL.quantile(v * unit).union(NORMAL.quantile((v + 1) * unit))
