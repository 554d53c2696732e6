"""Conversions that hold for any mechanism, and one cost told in every currency."""

import json
import math
from decimal import Decimal
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings, strategies as st

from residua.errors import PrivacyError
from residua.privacy import GDP, ZCDP, Currencies, PureDP, delta_of, describe, epsilon_of

moderate = st.floats(-4, 2).map(lambda power: 10.0**power)
deltas = st.floats(-30, -0.31).map(lambda power: 10.0**power)


def renyi(p: list[float], q: list[float], order: float) -> mpmath.mpf:
    terms = [mpmath.mpf(a) ** order * mpmath.mpf(b) ** (1 - order) for a, b in zip(p, q, strict=True)]
    return mpmath.log(mpmath.fsum(terms)) / (order - 1)


@given(moderate)
def test_pure_to_zcdp_is_the_smallest_float_not_below_half_the_square(epsilon: float) -> None:
    rho = PureDP(epsilon).rho
    assert Fraction(rho) >= Fraction(epsilon) ** 2 / 2 > Fraction(math.nextafter(rho, 0))


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 4.0])
@pytest.mark.parametrize("order", [1.0001, 1.5, 2.0, 8.0, 100.0])
def test_randomised_response_obeys_its_zcdp(epsilon: float, order: float) -> None:
    with mpmath.workdps(60):
        likely = 1 / (1 + mpmath.exp(-mpmath.mpf(epsilon)))
        divergence = renyi([likely, 1 - likely], [1 - likely, likely], mpmath.mpf(order))
        assert divergence <= PureDP(epsilon).rho * order


def test_pure_to_approx_keeps_epsilon() -> None:
    assert PureDP(0.7).epsilon_at(1e-9) == 0.7


@given(moderate)
def test_gdp_to_zcdp_is_the_smallest_float_not_below_half_the_square(mu: float) -> None:
    rho = GDP(mu).rho
    assert Fraction(rho) >= Fraction(mu) ** 2 / 2 > Fraction(math.nextafter(rho, 0))


@settings(deadline=None, max_examples=30)
@given(moderate, deltas)
def test_gdp_to_approx_is_the_exact_curve(mu: float, delta: float) -> None:
    epsilon = GDP(mu).epsilon_at(delta)
    assert delta_of(mu, epsilon) <= delta
    assert epsilon == epsilon_of(mu, delta)


def bound(order: mpmath.mpf, rho: float, delta: float) -> mpmath.mpf:
    """Canonne, Kamath and Steinke's delta solved for epsilon, kept in the paper's form."""
    factor = (1 - 1 / order) ** order / (order - 1)
    return order * mpmath.mpf(rho) + mpmath.log(factor / mpmath.mpf(delta)) / (order - 1)


def least_bound(rho: float, delta: float) -> mpmath.mpf:
    """The least bound over all orders: the best of a grid, then thirds of the interval around it."""
    at = lambda step: bound(1 + centre * mpmath.exp(step), rho, delta)  # noqa: E731
    centre = mpmath.sqrt(-mpmath.log(mpmath.mpf(delta)) / rho)
    middle = min((mpmath.mpf(k) / 2 for k in range(-20, 21)), key=at)
    low, high = middle - 1, middle + 1
    for _ in range(70):
        left, right = (2 * low + high) / 3, (low + 2 * high) / 3
        low, high = (low, right) if at(left) < at(right) else (left, high)
    return at(low)


@settings(deadline=None, max_examples=30)
@given(st.floats(-6, 3).map(lambda power: 10.0**power), deltas)
def test_zcdp_to_approx_is_the_best_order_rounded_up(rho: float, delta: float) -> None:
    epsilon = ZCDP(rho).epsilon_at(delta)
    with mpmath.workdps(60):
        familiar = mpmath.mpf(rho) + 2 * mpmath.sqrt(-rho * mpmath.log(mpmath.mpf(delta)))
        assert epsilon <= familiar
        least = least_bound(rho, delta)
        assert epsilon >= least
        assert epsilon == 0.0 if least <= 0 else epsilon <= least * (1 + mpmath.mpf(10) ** -9)


@settings(deadline=None, max_examples=40)
@given(st.floats(-6, 3).map(lambda power: 10.0**power), deltas)
def test_zcdp_to_approx_is_never_below_the_gaussian_curve(rho: float, delta: float) -> None:
    """The Gaussian mechanism is rho-zCDP, so a bound for every mechanism cannot be below its exact curve."""
    exact = GDP.of_pcost(ZCDP(rho).pcost_allowed()).epsilon_at(delta)
    assert ZCDP(rho).epsilon_at(delta) >= exact * (1 - 1e-15)


@pytest.mark.parametrize("rho", [0.01, 0.5, 5.0])
def test_zcdp_to_approx_agrees_with_dp_accounting(rho: float) -> None:
    from dp_accounting import rdp

    orders = [1 + 10 ** (k / 200) for k in range(-400, 601)]
    theirs, _ = rdp.compute_epsilon(orders, [rho * order for order in orders], 1e-9)
    assert ZCDP(rho).epsilon_at(1e-9) == pytest.approx(theirs, rel=1e-4)


@pytest.mark.parametrize("rho", [1e-300, 1e-20, 1.0, 1e20, 1e300])
@pytest.mark.parametrize("delta", [5e-324, 1e-30, 0.5, 1 - 2**-53])
def test_zcdp_to_approx_survives_extremes(rho: float, delta: float) -> None:
    epsilon = ZCDP(rho).epsilon_at(delta)
    with mpmath.workdps(60):
        familiar = mpmath.mpf(rho) + 2 * mpmath.sqrt(-rho * mpmath.log(mpmath.mpf(delta)))
        assert 0 <= epsilon <= max(familiar, math.ulp(0.0)) * (1 + 2**-50)


@pytest.mark.parametrize("delta", [0.0, 1.0, -0.1, math.nan, True, "x"])
def test_conversions_refuse_what_is_no_delta(delta: float) -> None:
    for convert in (
        lambda: ZCDP(1.0).epsilon_at(delta),
        lambda: GDP(1.0).epsilon_at(delta),
        lambda: PureDP(1.0).epsilon_at(delta),
    ):
        with pytest.raises(PrivacyError, match=r"^delta must be"):
            convert()


def curve(pcost: Fraction, epsilon: float) -> mpmath.mpf:
    with mpmath.workdps(100):
        m, e = mpmath.sqrt(mpmath.mpf(pcost.numerator) / pcost.denominator), mpmath.mpf(epsilon)
        return mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)


@settings(deadline=None, max_examples=30)
@given(st.builds(Fraction, st.integers(1, 10**12), st.integers(1, 10**12)))
def test_currencies_are_never_below_the_truth(pcost: Fraction) -> None:
    told = describe(pcost)
    assert told.pcost == pcost
    assert told.rho == ZCDP.of_pcost(pcost).rho
    assert told.mu == GDP.of_pcost(pcost).mu
    assert told.deltas == (1e-6, 1e-9, 1e-12)
    for delta, epsilon in zip(told.deltas, told.epsilons, strict=True):
        assert curve(pcost, epsilon) <= delta
    printed = str(told).replace(",", "").split()
    figures = {word: Decimal(value) for word, value in zip(printed[:6:2], printed[1:6:2], strict=True)}
    assert Fraction(figures["pcost"]) >= pcost
    assert Fraction(figures["rho"]) >= pcost / 2
    assert Fraction(figures["mu"]) ** 2 >= pcost
    for epsilon, word in zip(told.epsilons, printed[7::4], strict=True):
        assert Decimal(word) >= Decimal(epsilon)
        assert float(word) == pytest.approx(epsilon, rel=1e-4)


def test_currencies_go_to_json_and_back() -> None:
    told = describe(Fraction(1, 3), deltas=[1e-9])
    back = json.loads(json.dumps(told.to_dict()))
    assert list(back) == ["pcost", "rho", "mu", "approx_dp"]
    assert Fraction(back["pcost"]) >= Fraction(1, 3)
    assert back["approx_dp"] == [{"delta": 1e-9, "epsilon": told.epsilons[0]}]


def test_a_cost_of_nothing_is_zero_in_every_currency() -> None:
    told = describe(0)
    assert (told.rho, told.mu, told.epsilons) == (0.0, 0.0, (0.0, 0.0, 0.0))
    assert str(describe(0, deltas=[])) == "pcost 0, rho 0, mu 0"


@pytest.mark.parametrize("make", [describe, Currencies])
@pytest.mark.parametrize("pcost", [-1, math.nan, math.inf, True, "1", None])
def test_currencies_refuse_what_is_no_pcost(make, pcost: object) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(PrivacyError, match=r"^pcost must be a finite number of at least 0"):
        make(pcost)


def test_currencies_refuse_bad_deltas() -> None:
    with pytest.raises(PrivacyError, match=r"^deltas must be a number between 0 and 1"):
        describe(1, deltas=[1e-6, 1.0])
    with pytest.raises(PrivacyError, match=r"^deltas must differ"):
        describe(1, deltas=[1e-6, 1e-6])
