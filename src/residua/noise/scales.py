"""The scale of the noise, checked once and kept exactly."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from residua.errors import PrivacyError

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
