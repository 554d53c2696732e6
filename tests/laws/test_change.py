"""Change between releases: independent noise, exact intervals of differences, Fieller's for relative change."""

import numpy as np
import pytest

import residua as rs
from residua.errors import PlanError
from residua.plans.tails import mixed_reach, width
from residua.release import Release
from residua.testing.case import measured_exactly

DOMAIN = rs.Domain({"age": rs.Integers(0, 3, levels={"half": [0, 2, 3]}), "sex": ["F", "M"]})
PLAN = rs.plan(rs.marginals(DOMAIN, ways=[1, 2]), rs.ZCDP(0.5))
OTHER = rs.plan(rs.marginals(DOMAIN, ways=[1, 2]), rs.ZCDP(0.1))
PURE = rs.plan(rs.marginals(DOMAIN, ways=[2]), rs.PureDP(1.0))


def release(plan, seed, shift=0.0):
    measurements = plan.measurements
    noisy = np.rint(measurements.simulated(np.random.default_rng(seed)) + shift).astype(np.int64)
    return Release(plan, measurements, noisy)


def test_a_change_is_the_difference_with_both_variances():
    this, last = release(PLAN, 1), release(OTHER, 2)
    changed = rs.change(this, last, by=["sex", "age"], confidence=0.9)
    now, before = (each.table(["sex", "age"]) for each in (this, last))
    assert changed["estimate"] == pytest.approx(now["estimate"] - before["estimate"])
    stddev = np.hypot(now["stddev"], before["stddev"])
    assert changed["stddev"] == pytest.approx(stddev)
    assert changed["upper"] - changed["lower"] == pytest.approx(2 * width(0.9, 1.0) * stddev)
    assert changed["relative"] == pytest.approx(now["estimate"] / before["estimate"] - 1)
    assert changed["sex"] == now["sex"]
    assert len(rs.change(this, last, by={"age": "half"})) == 2
    assert rs.change(this, last, where={"sex": "F"}).estimate == pytest.approx(
        this.count({"sex": "F"}).estimate - last.count({"sex": "F"}).estimate
    )
    together = rs.change(this, last, by=["sex"], simultaneous="table")
    assert (together.upper > rs.change(this, last, by=["sex"]).upper).all()


def test_relative_changes_without_bounds_say_so_and_facts_make_changes_surer():
    this, last = release(PLAN, 3), release(PLAN, 4)
    changed = rs.change(this, last, by=["age"])
    assert "reaches zero" in changed.note
    known = last.given({"age": [1_000, 2_000, 10, 50]})
    surer = rs.change(this, known, by=["age"])
    assert (surer.stddev < changed.stddev).all()
    assert np.isfinite(surer["relative_upper"]).all()


def test_relative_intervals_are_those_of_independent_numbers():
    """Each end r of Fieller's interval solves `(a − r b)² = z² (v + r² w)`: no covariance."""
    counts = measured_exactly(PLAN.measurements, (4, 2), np.arange(100, 500, 50))
    this, last = release(PLAN, 5, counts), release(PLAN, 6, counts)
    changed = rs.change(this, last, by=["age"])
    tables = [each.table(["age"]) for each in (this, last)]
    (a, b), (v, w) = ([each["estimate"] for each in tables], [each["stddev"] ** 2 for each in tables])
    for name in ("relative_lower", "relative_upper"):
        r = np.asarray(changed[name]) + 1
        assert (a - r * b) ** 2 == pytest.approx(width(0.95, 1.0) ** 2 * (v + r**2 * w), rel=1e-6)


@pytest.mark.parametrize(("this", "last"), [(PLAN, PURE), (PURE, PLAN), (PURE, PURE)])
def test_intervals_with_laplace_noise_reach_as_far_as_any_sum_of_such_noise(this, last):
    changed = rs.change(release(this, 1), release(last, 2), by=["sex"])
    reach = float(mixed_reach(np.ones(1), 0.05)[0])
    assert changed["upper"] - changed["estimate"] == pytest.approx(reach * changed["stddev"])
    assert reach > 1.01 * width(0.95, 1.0)


@pytest.mark.parametrize(("this", "last"), [(PLAN, OTHER), (PURE, PURE), (PLAN, PURE)])
def test_intervals_hold_the_truth_at_least_as_often_as_they_say(this, last):
    """Each cell by itself: 5 standard deviations of 400 draws are 0.055, and of 64 draws 0.136; seeds are fixed."""
    held = []
    draws, reach = (400, 0.055) if this.noise.gaussian and last.noise.gaussian else (64, 0.136)
    for seed in range(draws):
        changed = rs.change(release(this, 2 * seed), release(last, 2 * seed + 1), by=["sex", "age"])
        held.append((changed["lower"] <= 0) & (changed["upper"] >= 0))
    share = np.mean(held, axis=0)
    assert (share > 0.95 - reach).all()
    if this.noise.gaussian and last.noise.gaussian:
        assert (share < 0.95 + reach).all()


def test_what_has_no_change_is_refused():
    one = release(PLAN, 1)
    with pytest.raises(PlanError, match="the same release"):
        rs.change(one, one)
    with pytest.raises(PlanError, match="last=3"):
        rs.change(one, 3)
    with pytest.raises(PlanError, match="no intervals"):
        rs.change(one, release(PLAN.replaced(bias=0.1), 2))
    other = rs.Domain({"age": rs.Integers(0, 3), "sex": ["M", "F"]})
    plan = rs.plan(rs.marginals(other, ways=[1]), rs.ZCDP(0.5))
    with pytest.raises(PlanError, match="'sex' are not the same"):
        rs.change(one, release(plan, 2), by=["sex"])
