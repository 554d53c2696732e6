"""Exact draws of `round(s·X)`: a float decides nearly all of them, ball arithmetic the rest.

A draw is a real number with endless binary digits, of which only as many are drawn as its rounding needs.
Sixty-four random bits give a sign and an interval for the tail probability, hence one for |s·X|. If a float
with a proven error bound (`table.py`) shows that the whole interval rounds to one integer, that integer is
the draw. If not, more random bits are appended to the same number and the interval is computed in ball
arithmetic, until it does. The result is a function of the real number alone, so its distribution is exact. A
tie would need all digits and has probability zero; a cell is [k − 1/2, k + 1/2).

Random bits come from the operating system, and nowhere else.
"""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Sequence
from fractions import Fraction
from typing import Protocol, TypeAlias

import numpy as np
from flint import arb, fmpq, fmpz, fmpz_poly

from residua.errors import PrivacyError
from residua.linalg.arrays import Array, Floats, Integers, Words
from residua.noise.table import QuantileTable, Tail, precision, table


class Entropy(Protocol):
    """A source of independent, uniform 64-bit words."""

    def words(self, count: int) -> Words:
        """Return `count` fresh words, shape (count,)."""


class SystemEntropy:
    """The operating system's cryptographic generator.

    Guarantee:
        It has no state in this process: there is no seed to set, to repeat, or to share across a fork.

    Example:
        >>> SystemEntropy().words(3).shape
        (3,)
    """

    def words(self, count: int) -> Words:
        """Return `count` fresh words, shape (count,)."""
        return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)


def take(entropy: Entropy, count: int) -> Words:
    """Take `count` words and check that all arrived: a short answer would be broadcast, and words reused."""
    words = entropy.words(count)
    if words.shape != (count,) or words.dtype != np.uint64:
        raise PrivacyError(
            f"the entropy source returned {words.dtype} of shape {words.shape} where {count} words of uint64 "
            "were asked for; correct its words() method"
        )
    return words


Scale: TypeAlias = int | float
ScaleLike: TypeAlias = Scale | Sequence[Scale] | Array

SMALLEST, LARGEST = 0.5, 2.0**40

_REMEDY = "give an int, a float, or an array of int64 or float64, from 1/2 to 2^40"


def checked_scales(scale: ScaleLike) -> Floats:
    """Scales as floats, each the rational number that was given.

    Guarantee:
        A scale that is tiny, negative, infinite or NaN is refused: it never means no noise.

    Raises:
        PrivacyError: A scale is outside [1/2, 2⁴⁰] or not a number whose exact value is known.

    Example:
        >>> checked_scales(3)
        array(3.)
    """
    try:
        given = np.asarray(scale)
    except ValueError as error:
        raise PrivacyError(f"scale is ragged; {_REMEDY}") from error
    if given.dtype.kind not in "iuf" or given.dtype.itemsize > 8:
        raise PrivacyError(f"scale of type {given.dtype} has no exact value here; {_REMEDY}")
    floats = given.astype(np.float64)
    refused = floats[~((floats >= SMALLEST) & (floats <= LARGEST))]  # also NaN
    if refused.size:
        raise PrivacyError(f"scale {refused[0]} is out of range; {_REMEDY}")
    return floats


Size: TypeAlias = int | Sequence[int]

BLOCK = 1 << 15  # draws at a time: their words and floats stay in the second-level cache
MOST_WORDS = 64
_GUARD_BITS = 128  # of a ball beyond the random bits: 40 for the scale, the rest so that its radius never matters


def rounded(tail: Tail, scale: ScaleLike, size: Size, entropy: Entropy | None) -> Integers:
    """Draw `round(s·X)`, X distributed by `tail`, in memory for the result and one block."""
    scales, shape = checked_scales(scale), _shape(size)
    if shape[: scales.ndim] != scales.shape:
        raise PrivacyError(
            f"scale has shape {scales.shape}, which is not how size {shape} begins; "
            "give one scale, or one for each index of the leading axes"
        )
    each, cells = scales.ravel(), math.prod(shape[scales.ndim :])  # so many draws in a row share a scale
    source = SystemEntropy() if entropy is None else entropy
    quantiles = table(tail)
    draws = np.empty(shape, dtype=np.int64)
    flat = draws.reshape(-1)
    for start in range(0, flat.size, BLOCK):
        block = flat[start : start + BLOCK]
        words = take(source, block.size)
        undecided = _decide(quantiles, words, _floats(each, start, block.size, cells), block)
        for i in undecided.tolist():
            block[i] = refine(tail, Fraction(float(each[(start + i) // cells])), int(words[i]), source)
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


def _decide(quantiles: QuantileTable, words: Words, scale: Floats | float, draws: Integers) -> Integers:
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


def _floats(scales: Floats, start: int, count: int, cells: int) -> Floats | float:
    """Return the scales of the draws from `start` on, shape (count,), or one float if one holds for all."""
    if scales.size == 1:
        return float(scales[0])
    return scales[np.arange(start, start + count) // cells]


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


def rounded_normal(scale: ScaleLike, size: Size, *, _entropy: Entropy | None = None) -> Integers:
    """Draw `round(s·z)`, z standard normal, exactly.

    P(k) = Φ((k + 1/2)/s) − Φ((k − 1/2)/s). An integer plus such a draw is the rounding of the integer plus
    normal noise of standard deviation s: a post-processing of the continuous Gaussian mechanism, with all
    its guarantees.

    Guarantee:
        The distribution is exact for every scale, given that the operating system's bits are
        uniform. A scale that is tiny, negative, infinite or NaN is refused: it never means no noise.

    Args:
        scale: Standard deviation s before rounding, from 1/2 to 2⁴⁰: an int, a float (taken as
            the dyadic rational it is), or an array of them that matches the leading axes of `size`, for a
            batch of tables each with its own.
        size: Shape of the result.

    Returns:
        Independent draws, int64, shape `size`.

    Raises:
        PrivacyError: `scale` is out of range or has no exact value, or does not match `size`.

    Reference: Haney, Desfontaines, Hartman, Shrestha, Hay (2022), "Precision-based attacks and interval
        refining"; here the interval is that of the rounded quantile.

    Example:
        >>> rounded_normal(1000, (2, 3)).shape
        (2, 3)
        >>> rounded_normal(float("nan"), 5)
        Traceback (most recent call last):
        ...
        residua.errors.PrivacyError: scale nan is out of range; ...
    """
    return rounded(NORMAL, scale, size, _entropy)


def _survival(x: arb) -> arb:
    return (x / arb(2).sqrt()).erfc() / 2


def _quantile(p: arb) -> arb:
    return arb(2).sqrt() * (2 * p).erfcinv()


def _taylor(p: arb, order: int) -> list[arb]:
    """Return |f⁽ⁿ⁾(p)|/n!: with z = f(p) it is Pₙ(z) / (n! φ(z)ⁿ), P₁ = 1 and Pₙ₊₁ = Pₙ′ + n z Pₙ.

    By induction from f′ = −1/φ(f) and φ′ = −zφ. The Pₙ have no negative coefficient and z ≥ 0, hence the
    signs.
    """
    z = _quantile(p)
    density = (-z * z / 2).exp() / (2 * arb.pi()).sqrt()
    terms, P, power = [z], fmpz_poly([1]), arb(1)
    for n in range(1, order + 1):
        power = power * n * density
        terms.append(P(z) / power)
        P = P.derivative() + fmpz_poly([0, n]) * P
    return terms


NORMAL = Tail("normal", _survival, _quantile, _taylor)


def rounded_laplace(scale: ScaleLike, size: Size, *, _entropy: Entropy | None = None) -> Integers:
    """Draw `round(s·x)`, x standard Laplace with density exp(−|x|)/2, exactly.

    P(0) = 1 − exp(−1/(2s)) and P(±k) = exp(−k/s) sinh(1/(2s)). An integer plus such a draw is the rounding
    of the integer plus Laplace noise of scale s (standard deviation s√2): a post-processing of the
    continuous mechanism.

    Guarantee:
        The distribution is exact for every scale, given that the operating system's bits are
        uniform. A scale that is tiny, negative, infinite or NaN is refused: it never means no noise.

    Args:
        scale: Scale s before rounding, from 1/2 to 2⁴⁰: an int, a float (taken as the dyadic
            rational it is), or an array of them that matches the leading axes of `size`.
        size: Shape of the result.

    Returns:
        Independent draws, int64, shape `size`.

    Raises:
        PrivacyError: `scale` is out of range or has no exact value, or does not match `size`.

    Example:
        >>> rounded_laplace([10, 1000], (2, 3)).shape
        (2, 3)
    """
    return rounded(LAPLACE, scale, size, _entropy)


def _survival_of_laplace(x: arb) -> arb:
    return (-x).exp() / 2


def _quantile_of_laplace(p: arb) -> arb:
    return -(2 * p).log()


def _taylor_of_laplace(p: arb, order: int) -> list[arb]:
    """Return |f⁽ⁿ⁾(p)|/n! = 1/(n pⁿ) for f = −log 2p; the signs alternate."""
    return [_quantile_of_laplace(p), *(1 / (n * p**n) for n in range(1, order + 1))]


LAPLACE = Tail("Laplace", _survival_of_laplace, _quantile_of_laplace, _taylor_of_laplace)
