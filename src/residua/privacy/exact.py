"""Exact numbers, rounded the safe way, and the exact curve of a Gaussian mechanism; bounds for other mechanisms.

What a caller typed becomes an exact number; an exact number becomes a float, rounded against us.

Conversions go where a theorem goes, and round against us: from PureDP to ZCDP and GDP, from GDP to ZCDP, and from all
three to ApproxDP. None leaves ApproxDP, for one point of its curve bounds neither rho nor mu; and we know of no theorem
from ZCDP to GDP.

A mechanism that is `mu`-GDP is `(epsilon, delta)`-DP exactly when

    delta >= Φ(mu/2 − epsilon/mu) − e^epsilon Φ(−mu/2 − epsilon/mu),

which rises with `mu` and falls with `epsilon`. Both terms are evaluated as balls that contain the true value
(Arb, through python-flint). They cancel, more so the smaller `mu` is; the working precision is doubled until
the ball decides. A comparison still undecided at the last precision counts as failed, which is the safe side.

Reference: Balle and Wang (2018), Theorem 8; Dong, Roth and Su (2022), arXiv:1905.02383, Corollary 2.13.
"""

from __future__ import annotations

import math
import numbers
import struct
import sys
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from flint import arb, ctx, fmpq

from residua.errors import PrivacyError, named

Pcost = float | Fraction
_ROOT_BITS = 128  # more than twice a float's 53: the root of a float's exact square comes back exact


def positive(name: str, value: object, remedy: str) -> float:
    """The float equal to `value`, or PrivacyError when it is not a finite number above zero."""
    number = _real(value)
    if number is None or not 0 < number < math.inf:
        raise PrivacyError(f"{name} must be a finite number above 0, not {named(value)}; {remedy}.")
    return _same_float(name, number, remedy)


def probability(name: str, value: object, remedy: str) -> float:
    """The float equal to `value`, or PrivacyError when it does not lie strictly between zero and one."""
    number = _real(value)
    if number is None or not 0 < number < 1:
        raise PrivacyError(f"{name} must be a number between 0 and 1, both excluded, not {named(value)}; {remedy}.")
    return _same_float(name, number, remedy)


def nonnegative(name: str, value: object, remedy: str) -> Fraction:
    """The rational equal to `value`, or PrivacyError when it is not a finite number of at least zero."""
    number = _real(value)
    if number is None or not 0 <= number <= sys.float_info.max:
        raise PrivacyError(f"{name} must be a finite number of at least 0, not {named(value)}; {remedy}.")
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


_PRECISIONS = tuple(128 << doublings for doublings in range(7))  # bits
_MU_MAX = 1e5  # from 1e6 on Arb's balls around erfc are too wide to decide anything
_EPSILON_MAX = 1e30  # at mu <= _MU_MAX every delta is below the smallest float long before; Arb's exp reaches it
_TINY = math.ulp(0.0)
_LARGE_EPSILON = 1000  # beyond, a bound that needs no long arithmetic


def delta_of(mu: float, epsilon: float) -> float:
    """The smallest delta a `mu`-GDP mechanism has at this epsilon.

    Guarantee: at least the true value, and no smaller float is (a true value below 5e-324 gives 5e-324). For
    mu above 1e5 it is 1.

    Args:
        mu: the GDP parameter, finite and above 0.
        epsilon: at least 0.

    Returns:
        A float in (0, 1].

    Raises:
        PrivacyError: for arguments out of range.

    Example:
        >>> delta_of(mu=1.0, epsilon=1.0)
        0.12693673750664397
    """
    mu = positive("mu", mu, "give a mu such as 1.0")
    # A rational that no float holds is rounded down, for that raises delta.
    epsilon = round_down(nonnegative("epsilon", epsilon, "give an epsilon such as 1.0"))
    if mu > _MU_MAX:
        return 1.0
    for bits in _PRECISIONS:
        with ctx.workprec(bits):
            ball = _curve(mu, epsilon)
            upper, lower = ball.upper(), ball.lower()
        # Asked before the ball becomes a rational, which for 2^-(10^19) would fill the memory.
        if upper <= arb(_TINY):
            return _TINY
        answer = min(1.0, round_up(rational(upper)))
        if lower > 0 and answer == round_up(rational(lower)):
            break
    return answer


def epsilon_of(mu: float, delta: float) -> float:
    """The smallest epsilon a `mu`-GDP mechanism has at this delta.

    Guarantee: at least the true value, and no smaller float is; 0.0 when delta suffices at epsilon 0. For mu
    above 1e5 it is the bound `mu²/2 + mu √(2 ln(1/delta))`, at most a thousandth above the truth.

    Args:
        mu: the GDP parameter, finite and above 0.
        delta: strictly between 0 and 1.

    Returns:
        A float of at least 0.

    Raises:
        PrivacyError: for arguments out of range.

    Example:
        >>> epsilon_of(mu=1.0, delta=1e-6)
        4.886554...
        >>> epsilon_of(mu=0.1, delta=0.5)
        0.0
    """
    mu = positive("mu", mu, "give a mu such as 1.0")
    delta = probability("delta", delta, "give a small probability such as 1e-9")
    # Bun and Steinke (2016), Proposition 1.3: this epsilon holds. The factor covers the rounding of floats.
    high = mu * (mu / 2 + math.sqrt(-2 * math.log(delta))) * (1 + 1e-12)
    if mu > _MU_MAX:
        return high
    if _holds(mu, 0.0, delta):
        return 0.0
    return _bisect(lambda epsilon: _holds(mu, epsilon, delta), fails=0.0, holds=high)


def mu_of(epsilon: float, delta: float) -> float:
    """The largest mu whose Gaussian mechanism is `(epsilon, delta)`-DP.

    Guarantee: at most the true value, and no larger float is (a true value above 1e5 gives 1e5).

    Args:
        epsilon: finite and above 0.
        delta: strictly between 0 and 1.

    Returns:
        A float above 0.

    Raises:
        PrivacyError: for arguments out of range.

    Example:
        >>> mu_of(epsilon=1.0, delta=1e-6)
        0.2367043...
    """
    epsilon = positive("epsilon", epsilon, "give an epsilon such as 1.0")
    delta = probability("delta", delta, "give a small probability such as 1e-9")
    if _holds(_MU_MAX, epsilon, delta):
        return _MU_MAX
    # delta(mu, epsilon) <= delta(mu, 0) = 2Φ(mu/2) − 1 < mu, so mu = delta always holds.
    return _bisect(lambda mu: _holds(mu, epsilon, delta), fails=_MU_MAX, holds=delta)


def _curve(mu: float, epsilon: float) -> Any:
    """A ball that contains delta(mu, epsilon), at the working precision."""
    # ctx is one for the process: another thread may change the precision, hence the width, never the truth.
    m, e = arb(mu), arb(min(epsilon, _EPSILON_MAX))
    root = arb(2).sqrt()
    ahead, behind = (e / m - m / 2) / root, (e / m + m / 2) / root
    return (ahead.erfc() - e.exp() * behind.erfc()) / 2


def _holds(mu: float, epsilon: float, delta: float) -> bool:
    """Whether delta(mu, epsilon) <= delta, for certain."""
    for bits in _PRECISIONS:
        with ctx.workprec(bits):
            ball = _curve(mu, epsilon)
            if ball <= arb(delta):
                return True
            if ball > arb(delta):
                return False
    return False


def _bisect(predicate: Callable[[float], bool], *, fails: float, holds: float) -> float:
    """The last float on the way from `holds` to `fails` (neither negative) at which the predicate holds."""
    # Non-negative floats are ordered as their bit patterns are: at most 63 steps, whatever the scale.
    bad, good = _bits(fails), _bits(holds)
    while abs(bad - good) > 1:
        middle = (bad + good) // 2
        if predicate(_float(middle)):
            good = middle
        else:
            bad = middle
    return _float(good)


def _bits(number: float) -> int:
    return int(struct.unpack("<q", struct.pack("<d", number))[0])


def _float(bits: int) -> float:
    return float(struct.unpack("<d", struct.pack("<q", bits))[0])


def rational(exact_ball: Any) -> Fraction:
    """The number that a ball without a radius is."""
    mantissa, exponent = exact_ball.man_exp()
    return int(mantissa) * Fraction(2) ** int(exponent)


_STEPS = 200
_SHRINK = (math.sqrt(5) - 1) / 2


def epsilon_of_rho(rho: float, delta: float) -> float:
    """An epsilon at which every `rho`-zCDP mechanism is `(epsilon, delta)`-DP, at least 0.

    `epsilon = min over α > 1 of  α rho + (ln(1/delta) − ln α) / (α − 1) + ln(1 − 1/α)`, which is below the
    familiar `rho + 2 √(rho ln(1/delta))`.

    Guarantee: every α gives a true epsilon. The order is searched in floats and may be slightly off its best;
    the epsilon at the order found is computed in ball arithmetic and rounded up.

    Raises:
        PrivacyError: for arguments out of range.

    Reference: Canonne, Kamath and Steinke (2020), arXiv:2004.00010v4, Proposition 12.

    Example:
        >>> epsilon_of_rho(0.5, delta=1e-6)
        5.2215...
    """
    rho = positive("rho", rho, "give a rho such as 0.5")
    delta = probability("delta", delta, "give a small probability such as 1e-9")
    excess = _best_order_minus_one(rho, delta)
    with ctx.workprec(256):
        x, r = arb(excess), arb(rho)
        order = 1 + x
        epsilon = order * r - (arb(delta).log() + x.log1p()) / x - (1 / x).log1p()
        upper = rational(epsilon.upper())
    # Below 0 the bound holds at epsilon 0 as well, because delta falls as epsilon rises.
    return max(round_up(upper), 0.0)


def _best_order_minus_one(rho: float, delta: float) -> float:
    """α − 1 that about minimises the epsilon above, by golden section on its logarithm."""

    def epsilon(log_excess: float) -> float:
        x = math.exp(log_excess)
        return (1 + x) * rho - (math.log(delta) + math.log1p(x)) / x - math.log1p(1 / x)

    # The familiar bound's order, 1 + √(ln(1/delta)/rho), lies near the best: search a factor e^20 around it.
    centre = 0.5 * (math.log(-math.log(delta)) - math.log(rho))
    low, high = max(centre - 20, -600.0), min(centre + 20, 600.0)
    for _ in range(_STEPS):
        left, right = high - _SHRINK * (high - low), low + _SHRINK * (high - low)
        if epsilon(left) < epsilon(right):
            high = right
        else:
            low = left
    return math.exp((low + high) / 2)


def pure_to_gdp_pcost(epsilon: Fraction) -> Fraction:
    """`mu²` for the least mu such that every `epsilon`-DP mechanism is `mu`-GDP, rounded up.

    The trade-off function of epsilon-DP, `f(α) = max(0, 1 − e^ε α, e^−ε (1 − α))`, joins (0, 1), (α*, α*) and (1, 0) by
    straight lines, with `α* = 1/(1 + e^ε)`. The Gaussian one `G(α) = Φ(Φ⁻¹(1 − α) − mu)` is convex with the same ends,
    so it lies below f everywhere as soon as `G(α*) ≤ α*`: a convex function lies below its chords. That is
    `mu ≥ 2 Φ⁻¹(1 − α*)`, and no smaller mu will do at α*. Hence `mu² = 8 erfc⁻¹(2/(1 + e^ε))²`.

    Guarantee: never below the true value.

    Reference: Dong, Roth and Su (2022), arXiv:1905.02383, Proposition 2.5 and Definition 2.6.

    Example:
        >>> float(pure_to_gdp_pcost(Fraction(1)))
        1.5179...
    """
    if epsilon <= 0:
        return Fraction(0)
    if epsilon > _LARGE_EPSILON:
        # Φ⁻¹(1 − p) ≤ √(2 ln 1/p), and ln(1/α*) ≤ ε + ln 2.
        return 8 * (epsilon + 1)
    with ctx.workprec(256 + 2 * int(epsilon)):
        e = arb(fmpq(epsilon.numerator, epsilon.denominator))
        square = 8 * (2 / (1 + e.exp())).erfcinv() ** 2
        exact = rational(square.upper())
    return Fraction(-(-exact.numerator * 2**200 // exact.denominator), 2**200)
