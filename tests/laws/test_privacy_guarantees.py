"""Guarantees: what constructs, what is refused, and round trips that never gain privacy."""

import dataclasses
import math
from decimal import Decimal
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from residua.errors import PrivacyError
from residua.privacy import GDP, ZCDP, ApproxDP, Guarantee, PureDP
from residua.privacy.exact import root_up, round_down, round_up

budgets = st.floats(1e-150, 1e150)
rationals = st.builds(Fraction, st.integers(1, 10**30), st.integers(1, 10**30))
NOT_BUDGETS = [
    0, 0.0, -1.0, math.nan, math.inf, -math.inf, True, np.True_, "1", None, 1j, Decimal(1), 10**400,
    Fraction(1, 3), np.float64("nan"),
]  # fmt: skip
MAKERS = [
    ("rho", lambda value: ZCDP(rho=value)),
    ("mu", lambda value: GDP(mu=value)),
    ("epsilon", lambda value: ApproxDP(epsilon=value, delta=1e-9)),
    ("delta", lambda value: ApproxDP(epsilon=1.0, delta=value)),
    ("epsilon", lambda value: PureDP(epsilon=value)),
]


@pytest.mark.parametrize("value", NOT_BUDGETS, ids=lambda value: repr(value)[:12])
@pytest.mark.parametrize(("name", "make"), MAKERS)
def test_what_is_no_budget_is_refused_in_one_sentence(name: str, make, value: object) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(PrivacyError) as caught:
        make(value)
    message = str(caught.value)
    assert message.startswith(f"{name} must be a ")
    assert repr(value) in message
    assert "; give a budget such as " in message
    assert message.endswith(".")


@pytest.mark.parametrize("delta", [1, 1.0, 1.5, 1e300])
def test_a_delta_of_one_or_more_is_refused(delta: float) -> None:
    with pytest.raises(PrivacyError, match=r"^delta must be a number between 0 and 1"):
        ApproxDP(epsilon=1.0, delta=delta)


@pytest.mark.parametrize("value", [1, np.int64(1), np.float32(1), np.float64(1), Fraction(1)])
def test_numbers_of_any_kind_become_floats(value: float) -> None:
    for guarantee in (ZCDP(value), GDP(value), PureDP(value), ApproxDP(value, np.float32(0.5))):
        assert all(type(field) is float for field in dataclasses.astuple(guarantee))
    assert ZCDP(value) == ZCDP(1.0)


@pytest.mark.parametrize("guarantee", [ZCDP(1.0), GDP(1.0), ApproxDP(1.0, 0.1), PureDP(1.0)])
def test_guarantees_are_frozen_values(guarantee: Guarantee) -> None:
    assert isinstance(guarantee, Guarantee)
    assert hash(guarantee) == hash(dataclasses.replace(guarantee))  # type: ignore[type-var]
    with pytest.raises(dataclasses.FrozenInstanceError):
        guarantee.rho = 2.0  # type: ignore[attr-defined]


def test_pure_dp_allows_no_gaussian_mechanism() -> None:
    with pytest.raises(
        PrivacyError, match=r"^PureDP\(epsilon=1.0\) cannot be met .*; add a delta.*or ask for ZCDP or GDP\.$"
    ):
        PureDP(1.0).pcost_allowed()


@given(budgets)
def test_zcdp_and_gdp_round_trips_are_exact(value: float) -> None:
    assert ZCDP(value).pcost_allowed() == 2 * Fraction(value)
    assert GDP(value).pcost_allowed() == Fraction(value) ** 2
    assert ZCDP.of_pcost(ZCDP(value).pcost_allowed()) == ZCDP(value)
    assert GDP.of_pcost(GDP(value).pcost_allowed()) == GDP(value)


@given(rationals | budgets)
def test_claims_are_the_smallest_true_floats(pcost: Fraction | float) -> None:
    exact, rho, mu = Fraction(pcost), ZCDP.of_pcost(pcost).rho, GDP.of_pcost(pcost).mu
    assert Fraction(rho) * 2 >= exact > Fraction(math.nextafter(rho, 0)) * 2
    assert Fraction(mu) ** 2 >= exact > Fraction(math.nextafter(mu, 0)) ** 2


@settings(max_examples=60, deadline=None)
@given(st.floats(-6, math.log10(50)), st.floats(-30, math.log10(0.5)))
def test_approx_dp_round_trip_never_gains_privacy(log_epsilon: float, log_delta: float) -> None:
    budget = ApproxDP(10**log_epsilon, 10**log_delta)
    pcost = budget.pcost_allowed()
    assert Fraction(float(pcost)) == pcost
    at_delta = ApproxDP.of_pcost(pcost, delta=budget.delta)
    at_epsilon = ApproxDP.of_pcost(pcost, epsilon=budget.epsilon)
    # Within the budget, because the pcost was rounded down; and close to it.
    assert at_delta.epsilon <= budget.epsilon
    assert at_epsilon.delta <= budget.delta
    assert at_epsilon.delta == pytest.approx(budget.delta, rel=1e-9)
    # A claim taken as a budget allows at least what was spent.
    assert at_epsilon.pcost_allowed() >= pcost * (1 - Fraction(1, 10**15))


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1.0, 50.0])
@pytest.mark.parametrize("delta", [1e-30, 1e-9, 0.5])
def test_pcost_allowed_is_below_the_truth_by_less_than_1e12th(epsilon: float, delta: float) -> None:
    def true_delta(pcost: mpmath.mpf) -> mpmath.mpf:
        m, e = mpmath.sqrt(pcost), mpmath.mpf(epsilon)
        return mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)

    with mpmath.workdps(200):
        pcost = mpmath.mpf(float(ApproxDP(epsilon, delta).pcost_allowed()))
        assert true_delta(pcost) <= delta < true_delta(pcost * (1 + mpmath.mpf(10) ** -12))


@settings(max_examples=40, deadline=None)
@given(st.floats(1e-12, 1e3), st.floats(1.0, 4.0))
def test_claims_grow_with_pcost(pcost: float, factor: float) -> None:
    more = pcost * factor
    assert ZCDP.of_pcost(pcost).rho <= ZCDP.of_pcost(more).rho
    assert GDP.of_pcost(pcost).mu <= GDP.of_pcost(more).mu
    assert ApproxDP.of_pcost(pcost, delta=1e-9).epsilon <= ApproxDP.of_pcost(more, delta=1e-9).epsilon


@settings(max_examples=40, deadline=None)
@given(st.builds(Fraction, st.integers(1, 10**9), st.integers(1, 10**9)))
def test_approx_dp_claims_are_true_in_the_far_tail(pcost: Fraction) -> None:
    """At epsilon = 20 mu + pcost/2 the last bit of mu moves delta by hundreds of its own."""
    epsilon = 20 * math.sqrt(pcost) + float(pcost) / 2
    with mpmath.workdps(100):
        m, e = mpmath.sqrt(mpmath.mpf(pcost.numerator) / pcost.denominator), mpmath.mpf(epsilon)
        true = mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)
        assert ApproxDP.of_pcost(pcost, epsilon=epsilon).delta >= true


def test_an_epsilon_of_zero_is_claimed_as_the_smallest_float() -> None:
    assert ApproxDP.of_pcost(1e-20, delta=0.1) == ApproxDP(math.ulp(0.0), 0.1)


@pytest.mark.parametrize("claim", [ZCDP.of_pcost, GDP.of_pcost, lambda pcost: ApproxDP.of_pcost(pcost, delta=0.1)])
@pytest.mark.parametrize("pcost", [0, -1.0, math.nan, math.inf, True, "1", None])
def test_what_is_no_pcost_is_refused(claim, pcost: object) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(PrivacyError, match=r"^pcost must be .*\.$"):
        claim(pcost)


def test_exactly_one_of_delta_and_epsilon_is_asked() -> None:
    with pytest.raises(PrivacyError, match="exactly one of delta and epsilon"):
        ApproxDP.of_pcost(1.0)
    with pytest.raises(PrivacyError, match="exactly one of delta and epsilon"):
        ApproxDP.of_pcost(1.0, delta=0.1, epsilon=1.0)


def test_a_claim_of_delta_one_is_refused() -> None:
    with pytest.raises(PrivacyError, match=r"^epsilon=1e-06 needs delta 1 .*; give a larger epsilon\.$"):
        ApproxDP.of_pcost(2500, epsilon=1e-6)


def test_a_claim_no_float_holds_is_refused() -> None:
    with pytest.raises(PrivacyError, match=r"^pcost must be a finite number of at least 0"):
        ZCDP.of_pcost(Fraction(10**400))


def test_a_budget_below_every_float_is_refused() -> None:
    with pytest.raises(PrivacyError, match=r"too small for a float; give a larger epsilon or delta\.$"):
        ApproxDP(1e-200, 1e-200).pcost_allowed()


@given(rationals | st.builds(lambda q, k: q * Fraction(2) ** k, rationals, st.integers(-3000, 900)))
def test_rounding_is_directed_and_tight(number: Fraction) -> None:
    above, below = round_up(number), round_down(number)
    assert Fraction(below) <= number <= Fraction(above)
    assert below == above == number or math.nextafter(below, math.inf) == above
    root = root_up(number)
    assert Fraction(root) ** 2 >= number > Fraction(math.nextafter(root, 0)) ** 2


def test_rounding_at_the_ends_of_the_floats() -> None:
    assert round_up(Fraction(10**400)) == math.inf
    assert round_down(Fraction(10**400)) == np.finfo(float).max
    assert round_up(Fraction(1, 10**400)) == math.ulp(0.0)
    assert round_down(Fraction(1, 10**400)) == 0.0
    assert root_up(Fraction(0)) == 0.0
    assert root_up(9 + Fraction(1, 2**400)) == math.nextafter(3.0, 4.0)
