"""From one guarantee to another, for any mechanism, where a theorem goes; each rounds against us.

    PureDP ──► ZCDP ──► ApproxDP (a Gaussian mechanism has better: ApproxDP.of_pcost)
       ├─────────────► ApproxDP
       └─────► GDP
    GDP ─────► ZCDP
       └─────────────► ApproxDP (exact)

No arrow leaves ApproxDP, for one point of its curve bounds neither rho nor mu; and we know of no theorem from
ZCDP to GDP.
"""

import math
from fractions import Fraction

from flint import arb, ctx, fmpq

from residua.privacy.curves import epsilon_of, epsilon_of_rho
from residua.privacy.exact import root_up, round_up
from residua.privacy.guarantees import GDP, ZCDP, ApproxDP, PureDP

_LARGE_EPSILON = 1000  # beyond, a bound that needs no long arithmetic


def pure_to_zcdp(guarantee: PureDP) -> ZCDP:
    """Every `epsilon`-DP mechanism is `epsilon²/2`-zCDP.

    Guarantee: never below `epsilon²/2`.

    Reference: Bun and Steinke (2016), Proposition 1.4.

    Example:
        >>> pure_to_zcdp(PureDP(epsilon=1.0))
        ZCDP(rho=0.5)
    """
    return ZCDP(round_up(Fraction(guarantee.epsilon) ** 2 / 2))


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
        mantissa, exponent = square.upper().man_exp()
    exact = int(mantissa) * Fraction(2) ** int(exponent)
    return Fraction(-(-exact.numerator * 2**200 // exact.denominator), 2**200)


def pure_to_gdp(guarantee: PureDP) -> GDP:
    """Every `epsilon`-DP mechanism is `mu`-GDP with `mu = 2 Φ⁻¹(e^ε/(1 + e^ε))`; see `pure_to_gdp_pcost`.

    Guarantee: never below the true value.

    Example:
        >>> pure_to_gdp(PureDP(epsilon=1.0))
        GDP(mu=1.2320...)
    """
    return GDP(root_up(pure_to_gdp_pcost(Fraction(guarantee.epsilon))))


def pure_to_approx(guarantee: PureDP, delta: float) -> ApproxDP:
    """Every `epsilon`-DP mechanism is `(epsilon, delta)`-DP for every delta, by definition.

    Guarantee: epsilon is unchanged.

    Example:
        >>> pure_to_approx(PureDP(epsilon=1.0), delta=1e-9)
        ApproxDP(epsilon=1.0, delta=1e-09)
    """
    return ApproxDP(guarantee.epsilon, delta)


def gdp_to_zcdp(guarantee: GDP) -> ZCDP:
    """Every `mu`-GDP mechanism, Gaussian or not, is `mu²/2`-zCDP.

    By Blackwell's theorem its outputs on two neighbours are a post-processing of N(0, 1) and N(mu, 1), and
    post-processing does not raise the Rényi divergence, which between these two is `α mu²/2`.

    Guarantee: never below `mu²/2`.

    Reference: Dong, Roth and Su (2022), arXiv:1905.02383, Theorem 2.10 (Blackwell).

    Example:
        >>> gdp_to_zcdp(GDP(mu=1.0))
        ZCDP(rho=0.5)
    """
    return ZCDP(round_up(Fraction(guarantee.mu) ** 2 / 2))


def gdp_to_approx(guarantee: GDP, delta: float) -> ApproxDP:
    """Every `mu`-GDP mechanism has the (epsilon, delta) curve of the Gaussian one, and the converse holds.

    Guarantee: never below the true epsilon; where that is 0, the smallest positive float stands for it.

    Raises:
        PrivacyError: when delta does not lie strictly between 0 and 1.

    Reference: Dong, Roth and Su (2022), arXiv:1905.02383, Corollary 2.13.

    Example:
        >>> gdp_to_approx(GDP(mu=1.0), delta=1e-6)
        ApproxDP(epsilon=4.886554..., delta=1e-06)
    """
    return ApproxDP(max(epsilon_of(guarantee.mu, delta), math.ulp(0.0)), delta)


def zcdp_to_approx_for_any_mechanism(guarantee: ZCDP, delta: float) -> ApproxDP:
    """Every `rho`-zCDP mechanism is `(epsilon, delta)`-DP with the epsilon of its best Rényi order.

    `epsilon = min over α > 1 of  α rho + (ln(1/delta) − ln α) / (α − 1) + ln(1 − 1/α)`, which is below the
    familiar `rho + 2 √(rho ln(1/delta))`. It is above the exact Gaussian curve: for a Gaussian mechanism use
    `ApproxDP.of_pcost`.

    Guarantee: every α gives a true epsilon. The order is searched in floats and may be slightly off its best;
    the epsilon at the order found is computed in ball arithmetic and rounded up.

    Raises:
        PrivacyError: when delta does not lie strictly between 0 and 1.

    Reference: Canonne, Kamath and Steinke (2020), arXiv:2004.00010v4, Proposition 12.

    Example:
        >>> zcdp_to_approx_for_any_mechanism(ZCDP(rho=0.5), delta=1e-6)
        ApproxDP(epsilon=5.2215..., delta=1e-06)
    """
    return ApproxDP(max(epsilon_of_rho(guarantee.rho, delta), math.ulp(0.0)), delta)
