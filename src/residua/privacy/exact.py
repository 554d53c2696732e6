"""What a caller typed becomes an exact number; an exact number becomes a float, rounded the safe way."""

import math
import numbers
import sys
from fractions import Fraction

from residua.errors import PrivacyError

Pcost = float | Fraction
_ROOT_BITS = 128  # more than twice a float's 53: the root of a float's exact square comes back exact


def positive(name: str, value: object, remedy: str) -> float:
    """The float equal to `value`, or PrivacyError when it is not a finite number above zero."""
    number = _real(value)
    if number is None or not 0 < number < math.inf:
        raise PrivacyError(f"{name} must be a finite number above 0, not {value!r}; {remedy}.")
    return _same_float(name, number, remedy)


def probability(name: str, value: object, remedy: str) -> float:
    """The float equal to `value`, or PrivacyError when it does not lie strictly between zero and one."""
    number = _real(value)
    if number is None or not 0 < number < 1:
        raise PrivacyError(f"{name} must be a number between 0 and 1, both excluded, not {value!r}; {remedy}.")
    return _same_float(name, number, remedy)


def nonnegative(name: str, value: object, remedy: str) -> Fraction:
    """The rational equal to `value`, or PrivacyError when it is not a finite number of at least zero."""
    number = _real(value)
    if number is None or not 0 <= number <= sys.float_info.max:
        raise PrivacyError(f"{name} must be a finite number of at least 0, not {value!r}; {remedy}.")
    return Fraction(number)


def round_up(number: Fraction) -> float:
    """The smallest float at or above `number`; infinity when there is none."""
    try:
        nearest = float(number)
    except OverflowError:
        return math.inf if number > 0 else -sys.float_info.max
    return nearest if nearest >= number else math.nextafter(nearest, math.inf)


def round_down(number: Fraction) -> float:
    """The largest float at or below `number`; minus infinity when there is none."""
    return -round_up(-number)


def root_up(number: Fraction) -> float:
    """The smallest float whose square is at least `number`, which is not negative."""
    # Scaled by 4**shift the root is an integer of about _ROOT_BITS bits, and isqrt is exact.
    size = number.numerator.bit_length() - number.denominator.bit_length()
    shift = _ROOT_BITS - size // 2
    scaled = math.ceil(number * Fraction(4) ** shift)
    root = math.isqrt(scaled)
    root += root * root < scaled
    return round_up(root / Fraction(2) ** shift)


def _real(value: object) -> float | Fraction | None:
    """A number to compare and convert exactly; None for what is no real number (bool, text, None, NaN)."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return None
    if isinstance(value, numbers.Rational):
        return Fraction(int(value.numerator), int(value.denominator))  # NumPy integers become Python's
    return None if math.isnan(value) else float(value)


def _same_float(name: str, number: float | Fraction, remedy: str) -> float:
    # Rounding a budget down spends less, rounding a claim down lies: only the caller knows which it is.
    as_float = round_up(Fraction(number))
    if as_float != number:
        raise PrivacyError(f"{name} must be a number that a float holds exactly, not {number!r}; {remedy}.")
    return as_float
