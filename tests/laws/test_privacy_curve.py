"""The Gaussian curve against mpmath at 200 digits, against its own integral, and against dp-accounting."""

import itertools
import math
from fractions import Fraction

import mpmath
import pytest
from hypothesis import given, settings, strategies as st

from residua.errors import PrivacyError
from residua.privacy import delta_of, epsilon_of, exact, mu_of

MUS = (1e-8, 1e-5, 1e-3, 0.1, 1.0, 3.0, 12.5, 50.0)
EPSILONS = (1e-6, 1e-4, 0.01, 0.5, 1.0, 8.0, 50.0)
DELTAS = (1e-30, 1e-18, 1e-9, 1e-6, 1e-3, 0.1, 0.5)
TINY = math.ulp(0.0)


def powers(low: float, high: float) -> st.SearchStrategy[float]:
    return st.floats(math.log10(low), math.log10(high)).map(lambda power: 10.0**power)


def truth(mu: float, epsilon: float) -> mpmath.mpf:
    """delta(mu, epsilon) by mpmath, through normal distribution functions rather than erfc."""
    with mpmath.workdps(200):
        m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
        return mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m)


def check_delta(mu: float, epsilon: float) -> None:
    answer, true = delta_of(mu, epsilon), truth(mu, epsilon)
    assert answer >= true
    assert answer == TINY or math.nextafter(answer, 0) < true


def check_epsilon(mu: float, delta: float) -> None:
    answer = epsilon_of(mu, delta)
    assert truth(mu, answer) <= delta
    assert answer == 0 or truth(mu, math.nextafter(answer, 0)) > delta


def check_mu(epsilon: float, delta: float) -> None:
    answer = mu_of(epsilon, delta)
    assert truth(answer, epsilon) <= delta
    assert truth(math.nextafter(answer, math.inf), epsilon) > delta


@pytest.mark.parametrize(("mu", "epsilon"), list(itertools.product(MUS, (0.0, *EPSILONS))))
def test_delta_is_the_smallest_float_not_below_the_truth(mu: float, epsilon: float) -> None:
    check_delta(mu, epsilon)


@pytest.mark.parametrize(("mu", "delta"), list(itertools.product(MUS, DELTAS)))
def test_epsilon_is_the_smallest_float_not_below_the_truth(mu: float, delta: float) -> None:
    check_epsilon(mu, delta)


@pytest.mark.parametrize(("epsilon", "delta"), list(itertools.product(EPSILONS, DELTAS)))
def test_mu_is_the_largest_float_not_above_the_truth(epsilon: float, delta: float) -> None:
    check_mu(epsilon, delta)


@settings(max_examples=60, deadline=None)
@given(powers(1e-8, 50), powers(1e-6, 50), powers(1e-30, 0.5))
def test_directed_rounding_everywhere(mu: float, epsilon: float, delta: float) -> None:
    check_delta(mu, epsilon)
    check_epsilon(mu, delta)
    check_mu(epsilon, delta)


@pytest.mark.parametrize(("mu", "epsilon"), [(1e-300, 1e-300), (1e5, 5e9), (1e5, 1e30), (1.0, 1e300), (1e5, 0.0)])
def test_delta_far_outside_the_usual_range(mu: float, epsilon: float) -> None:
    answer = delta_of(mu, epsilon)
    with mpmath.workdps(1000):
        m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
        true = mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m) if epsilon < 1e20 else 0
        assert answer >= true
        assert answer == TINY or math.nextafter(answer, 0) < true


def test_a_delta_of_one_is_one() -> None:
    assert delta_of(50.0, 1e-6) == 1.0


def test_epsilon_is_zero_where_delta_suffices_at_zero() -> None:
    assert epsilon_of(0.1, 0.5) == 0.0
    # 2Φ(mu/2) − 1 is the delta at epsilon 0: on either side of it.
    at_zero = delta_of(0.1, 0.0)
    assert epsilon_of(0.1, at_zero) == 0.0
    assert epsilon_of(0.1, math.nextafter(at_zero, 0)) > 0.0


@pytest.mark.parametrize("delta", [1e-300, 1e-30, 1e-6, 0.5, 1 - 2**-53])
@pytest.mark.parametrize("mu", [1.00001e5, 1e7, 1e12])
def test_beyond_the_largest_mu_the_bound_is_safe_and_close(mu: float, delta: float) -> None:
    epsilon = epsilon_of(mu, delta)
    assert truth(mu, epsilon) <= delta
    assert truth(mu, epsilon * (1 - 1e-3)) > delta
    assert delta_of(mu, epsilon) == 1.0
    assert math.isfinite(epsilon_of(1e154, delta))


def test_mu_stops_at_its_largest_value() -> None:
    assert mu_of(1e20, 0.1) == 1e5
    assert mu_of(1e300, 1e-30) == 1e5


@pytest.mark.parametrize(("mu", "epsilon"), [(0.2, 0.1), (1.0, 1.0), (3.0, 2.0), (0.5, 4.0), (8.0, 50.0)])
def test_curve_is_the_integral_of_its_slope(mu: float, epsilon: float) -> None:
    """∂delta/∂mu = φ(mu/2 − epsilon/mu): a formula without the cancelling difference."""
    with mpmath.workdps(40):
        slope = lambda m: mpmath.npdf(m / 2 - mpmath.mpf(epsilon) / m) if m else mpmath.mpf(0)  # noqa: E731
        integral = mpmath.quad(slope, mpmath.linspace(0, mu, 12))
        assert delta_of(mu, epsilon) == pytest.approx(float(integral), rel=1e-14)


@settings(max_examples=25, deadline=None)
@given(powers(1e-8, 50), powers(1e-6, 50), powers(1e-30, 0.5), st.floats(1.0, 3.0))
def test_curve_is_monotone_in_every_argument(mu: float, epsilon: float, delta: float, factor: float) -> None:
    assert delta_of(mu, epsilon) <= delta_of(mu * factor, epsilon)
    assert delta_of(mu, epsilon * factor) <= delta_of(mu, epsilon)
    assert epsilon_of(mu, delta) <= epsilon_of(mu * factor, delta)
    assert epsilon_of(mu, delta) <= epsilon_of(mu, delta / factor)
    assert mu_of(epsilon, delta) <= mu_of(epsilon * factor, delta)
    assert mu_of(epsilon, delta / factor) <= mu_of(epsilon, delta)


@pytest.mark.parametrize("bits", [24, 40, 64])
@pytest.mark.parametrize(("mu", "epsilon", "delta"), [(1.0, 1.0, 1e-6), (1e-3, 1e-4, 1e-9), (1e-8, 1e-6, 1e-12)])
def test_a_starved_precision_is_still_safe(
    monkeypatch: pytest.MonkeyPatch, bits: int, mu: float, epsilon: float, delta: float
) -> None:
    """With too few bits to decide, the answers grow looser, never wrong."""
    best = delta_of(mu, epsilon), epsilon_of(mu, delta), mu_of(epsilon, delta)
    monkeypatch.setattr(exact, "_PRECISIONS", (bits,))
    loose = delta_of(mu, epsilon), epsilon_of(mu, delta), mu_of(epsilon, delta)
    assert loose[0] >= best[0]
    assert loose[1] >= best[1]
    assert loose[2] <= best[2]
    if bits == 24:
        assert loose != best  # the law above was put to the test


def test_the_working_precision_is_put_back() -> None:
    before = exact.ctx.prec
    epsilon_of(1.0, 1e-6)
    assert exact.ctx.prec == before


@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-12])
@pytest.mark.parametrize("mu", [0.01, 0.3, 1.0, 4.0, 20.0])
def test_agrees_with_dp_accounting(mu: float, delta: float) -> None:
    import dp_accounting  # takes seconds, so only here

    theirs = dp_accounting.get_epsilon_gaussian(sigma=1 / mu, delta=delta)
    assert epsilon_of(mu, delta) == pytest.approx(theirs, rel=1e-8, abs=1e-10)
    if theirs > 0:
        assert 1 / mu_of(theirs, delta) == pytest.approx(
            dp_accounting.get_sigma_gaussian(epsilon=theirs, delta=delta), rel=1e-8
        )


@pytest.mark.parametrize("mu", [0.5, 2.0])
def test_agrees_with_a_privacy_loss_distribution(mu: float) -> None:
    from dp_accounting.pld import privacy_loss_distribution

    pld = privacy_loss_distribution.from_gaussian_mechanism(1 / mu, value_discretization_interval=1e-3)
    pessimistic = pld.get_delta_for_epsilon(1.0)
    assert delta_of(mu, 1.0) <= pessimistic
    assert delta_of(mu, 1.0) == pytest.approx(pessimistic, rel=2e-3)


def test_the_figure_everybody_knows() -> None:
    assert epsilon_of(mu=1.0, delta=1e-6) == pytest.approx(4.88655, abs=5e-6)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: delta_of(0.0, 1.0), "mu"),
        (lambda: delta_of(1.0, -1.0), "epsilon"),
        (lambda: delta_of(1.0, math.inf), "epsilon"),
        (lambda: epsilon_of(math.nan, 0.1), "mu"),
        (lambda: epsilon_of(1.0, 1.0), "delta"),
        (lambda: epsilon_of(1.0, 0.0), "delta"),
        (lambda: mu_of(0.0, 0.1), "epsilon"),
        (lambda: mu_of(1.0, 1.5), "delta"),
    ],
)
def test_arguments_out_of_range_are_refused(call, name: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(PrivacyError, match=rf"^{name} must be .*; (give|use) .*\.$"):
        call()


def test_a_rational_epsilon_is_rounded_against_us() -> None:
    tenth = Fraction(1, 10)  # the nearest float is above it, and would tell too small a delta
    assert Fraction(float(tenth)) > tenth
    with mpmath.workdps(200):
        exact = mpmath.mpf(1) / 10
        m = mpmath.mpf(0.003)  # far in the tail, where the last bit of epsilon moves delta by hundreds of its own
        true = mpmath.ncdf(m / 2 - exact / m) - mpmath.exp(exact) * mpmath.ncdf(-m / 2 - exact / m)
        assert delta_of(0.003, tenth) >= true  # type: ignore[arg-type]
