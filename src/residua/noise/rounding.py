"""Exact draws of `round(s·X)`: a float decides nearly all of them, ball arithmetic the rest.

A draw is a real number with endless binary digits, of which only as many are drawn as its rounding needs.
Sixty-four random bits give a sign and an interval for the tail probability, hence one for |s·X|. If a float
with a proven error bound (`table.py`) shows that the whole interval rounds to one integer, that integer is
the draw. If not, more random bits are appended to the same number and the interval is computed in ball
arithmetic, until it does. The result is a function of the real number alone, so its distribution is exact. A
tie would need all digits and has probability zero; a cell is [k − 1/2, k + 1/2).
"""

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from flint import arb, fmpq, fmpz
from numpy.typing import NDArray

from residua.errors import PrivacyError
from residua.noise.entropy import Entropy, SystemEntropy, take
from residua.noise.table import Table, Tail, precision, table

Scale: TypeAlias = int | float | Fraction
ScaleLike: TypeAlias = Scale | Sequence[Scale] | NDArray[Any]

SMALLEST = Fraction(1, 2)
LARGEST = Fraction(2**40)

_REMEDY = "give an int, a float, a Fraction, or an array of int64 or float64, from 1/2 to 2^40"


@dataclass(frozen=True)
class Scales:
    """One scale per leading index of a batch, or one for all.

    Attributes:
        floats: Nearest floats, shape (scales,), read-only.
        fractions: The exact values when they are not all floats, else None.
        shape: The shape in which the scales were given, () for one.
    """

    floats: NDArray[np.float64]
    fractions: tuple[Fraction, ...] | None
    shape: tuple[int, ...]

    def exact(self, row: int) -> Fraction:
        """Return the scale of `row` as the rational number it was given as."""
        return Fraction(float(self.floats[row])) if self.fractions is None else self.fractions[row]

    def cells(self, shape: tuple[int, ...]) -> int:
        """Return how many consecutive draws of an array of `shape` share a scale.

        Raises:
            PrivacyError: The scales do not match the leading axes of `shape`.
        """
        if shape[: len(self.shape)] != self.shape:
            raise PrivacyError(
                f"scale has shape {self.shape}, which is not how size {shape} begins; "
                "give one scale, or one for each index of the leading axes"
            )
        return math.prod(shape[len(self.shape) :])


def parse_scales(scale: ScaleLike) -> Scales:
    """Check `scale` and keep its exact value.

    Guarantee:
        A scale that is tiny, negative, infinite or NaN is refused: it never means no noise.

    Raises:
        PrivacyError: A scale is outside [1/2, 2⁴⁰] or not a number whose exact value is known.

    Example:
        >>> parse_scales(0.75).exact(0)
        Fraction(3, 4)
    """
    try:
        given = np.asarray(scale)
    except ValueError as error:
        raise PrivacyError(f"scale is ragged; {_REMEDY}") from error
    if given.dtype.kind in "iuf" and given.dtype.itemsize <= 8:
        floats, fractions = given.astype(np.float64).ravel(), None
        refused = floats[~((floats >= float(SMALLEST)) & (floats <= float(LARGEST)))]
        if refused.size:
            raise PrivacyError(f"scale {refused[0]} is out of range; {_REMEDY}")
    elif given.dtype.kind == "O":
        fractions = tuple(_exact(value) for value in given.ravel())
        floats = np.array([float(value) for value in fractions])
    else:
        raise PrivacyError(f"scale of type {given.dtype} has no exact value here; {_REMEDY}")
    floats.flags.writeable = False
    return Scales(floats, fractions, given.shape)


def _exact(value: object) -> Fraction:
    if isinstance(value, bool) or not isinstance(value, (int, float, Fraction)):
        raise PrivacyError(f"scale of type {type(value).__name__} has no exact value here; {_REMEDY}")
    if not SMALLEST <= value <= LARGEST:  # false for NaN
        raise PrivacyError(f"scale {value} is out of range; {_REMEDY}")
    return Fraction(value)


Size: TypeAlias = int | Sequence[int]

BLOCK = 1 << 15  # draws at a time: their words and floats stay in the second-level cache
MOST_WORDS = 64
_GUARD_BITS = 128  # of a ball beyond the random bits: 40 for the scale, the rest so that its radius never matters


def rounded(tail: Tail, scale: ScaleLike, size: Size, entropy: Entropy | None) -> NDArray[np.int64]:
    """Draw `round(s·X)`, X distributed by `tail`, in memory for the result and one block."""
    scales, shape = parse_scales(scale), _shape(size)
    cells = scales.cells(shape)
    source = SystemEntropy() if entropy is None else entropy
    quantiles = table(tail)
    draws = np.empty(shape, dtype=np.int64)
    flat = draws.reshape(-1)
    for start in range(0, flat.size, BLOCK):
        block = flat[start : start + BLOCK]
        words = take(source, block.size)
        undecided = _decide(quantiles, words, _floats(scales, start, block.size, cells), block)
        for i in undecided.tolist():
            block[i] = refine(tail, scales.exact((start + i) // cells), int(words[i]), source)
    return draws


def refine(tail: Tail, scale: Fraction, word: int, entropy: Entropy) -> int:
    """Finish one draw in ball arithmetic, beginning with `word` and appending words of `entropy` as needed.

    Guarantee:
        |draw| < 2⁵² for every scale up to 2⁴⁰: a tail probability of 4,096 bits or fewer has |X| < 2840.

    Raises:
        PrivacyError: 64 words did not suffice. With random bits the chance is below 2⁻³⁹⁰⁰.
    """
    v, bits = word >> 1, 64
    while bits < 64 * MOST_WORDS:
        with precision(bits + _GUARD_BITS):
            s, unit = arb(fmpq(scale.numerator, scale.denominator)), arb(2) ** -bits
            far = _nearest(s * tail.quantile(v * unit)) if v else None
            near = _nearest(s * tail.quantile((v + 1) * unit)) if far is not None else None
        if far is not None and far == near:
            return -int(far) if word & 1 else int(far)
        v, bits = v << 64 | int(take(entropy, 1)[0]), bits + 64
    raise PrivacyError(f"{MOST_WORDS} random words did not settle one draw: the entropy source is broken, replace it")


def _decide(
    quantiles: Table, words: NDArray[np.uint64], scale: NDArray[np.float64] | float, draws: NDArray[np.int64]
) -> NDArray[np.intp]:
    """Fill `draws` by floats and return the indices of those that the error bound leaves open."""
    z, bound = quantiles.evaluate(words)
    y = np.multiply(z, scale, out=z)
    nearest = np.rint(y)
    np.abs(np.subtract(y, nearest, out=y), out=y)
    np.subtract(0.5, np.multiply(bound, scale, out=bound), out=bound)
    draws[:] = nearest
    sign = (words & np.uint64(1)).view(np.int64)
    np.subtract(np.bitwise_xor(draws, -sign, out=draws), -sign, out=draws)  # two's complement: negate if the sign is 1
    return np.flatnonzero(~(y < bound))


def _floats(scales: Scales, start: int, count: int, cells: int) -> NDArray[np.float64] | float:
    """Return the scales of the draws from `start` on, shape (count,), or one float if one holds for all."""
    if scales.floats.size == 1:
        return float(scales.floats[0])
    return scales.floats[np.arange(start, start + count) // cells]


def _nearest(x: arb) -> fmpz | None:
    """Return the integer to which all of the ball `x` rounds, or None if it may round to several."""
    return (x + arb(0.5)).floor().unique_fmpz()


def _shape(size: Size) -> tuple[int, ...]:
    try:
        shape = tuple(operator.index(n) for n in (size if isinstance(size, Sequence) else (size,)))
    except TypeError as error:
        raise PrivacyError(f"size {size!r} is not a shape; give an int or a tuple of ints") from error
    if any(n < 0 for n in shape):
        raise PrivacyError(f"size {size!r} has a negative axis; give an int or a tuple of ints, none negative")
    return shape
