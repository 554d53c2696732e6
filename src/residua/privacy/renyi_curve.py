"""The epsilon that zero-concentrated differential privacy promises at a delta, from its best Rényi order."""

import math
from fractions import Fraction

from flint import arb, ctx

from residua.privacy.exact import positive, probability, round_up

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
        mantissa, exponent = epsilon.upper().man_exp()
    upper = int(mantissa) * Fraction(2) ** int(exponent)
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
