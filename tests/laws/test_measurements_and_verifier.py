"""What is measured: integer blocks realise the plan, and the verifier prices them exactly, from themselves alone."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import residua as rs
from residua.errors import PrivacyError, VerificationError
from residua.plans.product import set_price as verify
from residua.plans.product.set_measurements import ResidualMeasurements
from residua.plans.strategy import plain_strategies
from residua.plans.verifier import priced
from tests.laws.instances import verified_cost


@st.composite
def plans(draw, unit=None):
    least = 2 if isinstance(unit, rs.ReplaceOne) else 1  # replacing a record must change something
    sizes = draw(st.lists(st.integers(least, 4), min_size=1, max_size=3))
    domain = rs.Domain.of_sizes(sizes)
    workload = rs.marginals(domain, ways=range(draw(st.integers(least - 1, len(sizes))) + 1))
    rho = draw(st.floats(1e-4, 50))
    units = st.sampled_from([rs.AddRemove(), rs.AddRemove(3)])
    return rs.plan(workload, rs.ZCDP(rho), unit=unit or draw(units))


def dense_blocks(measurements: ResidualMeasurements, domain: rs.Domain) -> list[tuple[np.ndarray, Fraction]]:
    """Every block as an explicit integer matrix on all cells of the domain, with its noise scale."""
    found = []
    for number, t, s in zip(measurements.measured, measurements.grids, measurements.scales, strict=True):
        matrix = np.ones((1, 1), dtype=object)
        for i, n in enumerate(domain.sizes.tolist()):
            inside = i in measurements.lattice.members(int(number))
            factor = n * np.eye(n, dtype=int) - 1 if inside else np.ones((1, n), dtype=int)
            matrix = np.kron(matrix, factor.astype(object))
        found.append((matrix * int(t), Fraction(float(s))))
    return found


def exact_gamma(measurements: ResidualMeasurements, domain: rs.Domain) -> np.ndarray:
    return sum((matrix.T.dot(matrix) * (1 / (s * s)) for matrix, s in dense_blocks(measurements, domain)))


@given(plans())
@settings(max_examples=60, deadline=None)
def test_cost_is_that_of_the_explicit_integer_matrices_and_never_less(plan):
    measurements = plan.compile()
    truth = plan.unit.scaled(max(np.diag(exact_gamma(measurements, plan.domain))))
    cost = verified_cost(measurements, plan.guarantee, plan.unit)
    assert truth <= cost <= truth + Fraction(1, 2**150)
    assert cost <= plan.guarantee.pcost_allowed()
    assert cost >= plan.guarantee.pcost_allowed() * (1 - Fraction(1, 10**11))  # and the budget is used


@given(plans(unit=rs.ReplaceOne()))
@settings(max_examples=40, deadline=None)
def test_replacement_cost_is_that_of_the_worst_pair_of_cells(plan):
    measurements = plan.compile()
    gamma = exact_gamma(measurements, plan.domain)
    cells = range(len(gamma))
    truth = max(gamma[i, i] + gamma[j, j] - 2 * gamma[i, j] for i, j in product(cells, cells))
    cost = verified_cost(measurements, plan.guarantee, plan.unit)
    assert truth <= cost <= truth + Fraction(1, 2**150)


def test_replacement_bound_for_many_attributes_is_never_less(monkeypatch):
    plan = rs.plan(rs.marginals(rs.Domain.of_sizes([2, 3, 4]), ways=[1, 2]), rs.ZCDP(0.5), unit=rs.ReplaceOne())
    measurements = plan.compile()
    exact = verified_cost(measurements, rs.ZCDP(5.0), plan.unit)
    monkeypatch.setattr(verify, "MOST_ENUMERATED", 0)
    assert exact <= verified_cost(measurements, rs.ZCDP(5.0), plan.unit) <= 4 * exact


@given(plans())
@settings(max_examples=40, deadline=None)
def test_blocks_have_the_plans_noise(plan):
    measurements = plan.compile()
    planned = plan.noise_variances[measurements.measured]
    assert np.allclose(measurements.noise_variances, planned, rtol=1e-9)
    assert (measurements.noise_variances >= planned).all()


def altered(measurements: ResidualMeasurements, **changes) -> ResidualMeasurements:
    names = ("lattice", "sizes", "measured", "grids", "scales", "strategies")
    fields = {name: getattr(measurements, name) for name in names}
    return ResidualMeasurements(**{**fields, **changes})


def test_blocks_alike_but_for_their_grid_or_scale_are_told_apart():
    """Precisions are computed once for blocks that are alike; here each differs from another in one thing only."""
    domain = rs.Domain.of_sizes({"a": 3, "b": 3, "c": 3, "d": 2})
    lattice = rs.marginals(domain, ways=1).lattice
    scales, grids = np.array([2.0, 2.0, 4.0, 2.0]), np.array([1, 8, 1, 1], dtype=np.int64)
    measurements = ResidualMeasurements(
        lattice, domain.sizes, np.arange(1, 5), grids, scales, plain_strategies(domain.sizes)
    )
    # t² n (n − 1) / s² of each block
    assert verified_cost(measurements, rs.ZCDP(500.0), rs.AddRemove()) == Fraction(3, 2) + 96 + Fraction(
        3, 8
    ) + Fraction(1, 2)


@pytest.fixture(scope="module")
def plan():
    return rs.plan(rs.marginals(rs.Domain.of_sizes([3, 4]), ways=[1, 2]), rs.ZCDP(rho=0.5))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda b: {"scales": b.scales / 2}, "more than"),
        (lambda b: {"scales": b.scales * (1 - 1e-9)}, "more than"),
        (lambda b: {"grids": b.grids * 2}, "more than"),
        (lambda b: {"grids": b.grids + 0.5}, "whole number"),
        (lambda b: {"grids": b.grids * 0}, "whole number"),
        (lambda b: {"scales": np.where(np.arange(len(b.scales)) == 1, np.nan, b.scales)}, "outside"),
        (lambda b: {"scales": np.where(np.arange(len(b.scales)) == 1, np.inf, b.scales)}, "outside"),
        (lambda b: {"scales": b.scales * 0}, "outside"),
        (lambda b: {"scales": -b.scales}, "outside"),
        (lambda b: {"scales": b.scales[:-1]}, "incomplete"),
        (lambda b: {"measured": b.measured * 0}, "twice"),
        (lambda b: {"grids": b.grids * 0 + 2**31, "scales": b.scales * 0 + 2.0**40}, "overflow"),
    ],
)
def test_the_verifier_refuses_what_was_altered(plan, change, message):
    measurements = plan.compile()
    with pytest.raises(VerificationError, match=message):
        verified_cost(altered(measurements, **change(measurements)), plan.guarantee, plan.unit)


def test_a_plan_altered_after_planning_is_refused_at_the_door(plan, tmp_path):
    import pyarrow as pa

    dearer = plan.replaced(precisions=plan.precisions * 1.001)
    ledger = rs.Ledger(tmp_path / "l", rs.ZCDP(10.0))
    data = pa.table({"a0": [0, 1], "a1": [0, 3]})
    with pytest.raises(VerificationError, match="costs"):
        rs.measure(dearer, data, ledger=ledger)
    assert ledger.spent_exactly == 0


def test_nothing_to_measure_and_noise_out_of_range(plan):
    with pytest.raises(VerificationError, match="nothing to measure"):
        rs.residual(plan, given=plan).compile()
    with pytest.raises(VerificationError, match="too large"):
        rs.plan(rs.marginals(plan.domain, ways=2), rs.ZCDP(rho=1e-26)).compile()
    with pytest.raises(PrivacyError, match="no privacy"):
        rs.plan(rs.marginals(plan.domain, ways=2), rs.ZCDP(rho=1e22)).compile()


def test_most_records_leaves_room_in_64_bits(plan):
    measurements = plan.compile()
    records = measurements.most_records
    for matrix, s in dense_blocks(measurements, plan.domain):
        assert int(abs(matrix).max()) * records + 64 * s < 2**63


@pytest.mark.parametrize("policy", [{"unknown": "drop"}, {"missing": "drop"}])
def test_replacing_a_record_may_remove_it_where_a_policy_drops(policy):
    """A record changed to a value that is left out is a record removed: the worst pair has an all-zero column."""
    domain = rs.Domain({"a": rs.Categories(["x", "y"], **policy), "b": ["u", "v", "w"]})
    workload = rs.marginals(domain, [()], weight=1e6) + rs.marginals(domain, ways=1)
    plan = rs.plan(workload, rs.ZCDP(0.5), unit=rs.ReplaceOne())
    measurements = plan.compile()
    gamma = exact_gamma(measurements, domain)
    gamma = np.block([[gamma, np.zeros((6, 1), dtype=object)], [np.zeros((1, 7), dtype=object)]])
    worst = max(gamma[i, i] + gamma[j, j] - 2 * gamma[i, j] for i, j in product(range(7), range(7)))
    cost = verified_cost(measurements, plan.guarantee, plan.unit)
    assert worst <= cost <= 1
    assert plan.unit_pcost == pytest.approx(float(worst))
    kept = rs.Domain({"a": ["x", "y"], "b": ["u", "v", "w"]})
    free = rs.plan(
        rs.marginals(kept, [()], weight=1e6) + rs.marginals(kept, ways=1), rs.ZCDP(0.5), unit=rs.ReplaceOne()
    )
    assert free.pcost > 10 * plan.pcost  # without the policy the total never changes, and is nearly free


@pytest.mark.parametrize("drops", [False, True])
def test_dense_plans_for_replacements_pass_their_own_verifier(drops):
    policy = {"unknown": "drop"} if drops else {}
    domain = rs.Domain({"x": rs.Categories(list("abcd"), **policy)})
    random = np.random.default_rng(5)
    for _ in range(40):
        workload = rs.explicit(domain, np.vstack([random.integers(-2, 3, (3, 4)), [[1, 1, 1, 1]]]))
        for kwargs in ({"guarantee": rs.ZCDP(0.5)}, {"targets": [1e4, 1e4, 1e4, 1.0]}):
            plan = rs.plan(workload, **kwargs, unit=rs.ReplaceOne())
            cost = verified_cost(plan.compile(), plan.guarantee, plan.unit)
            wide = plan.strategy[:, np.maximum(plan.columns, 0)] * (plan.columns >= 0)
            columns = [*wide.T, *([np.zeros(len(wide), dtype=int)] if drops else [])]
            square = Fraction(plan.scale) ** 2
            worst = max(sum(int(v) ** 2 for v in a - b) / square for a, b in product(columns, columns))
            assert worst <= cost <= plan.guarantee.pcost_allowed()


def test_the_total_is_protected_where_a_changed_record_may_be_dropped():
    domain = rs.Domain({"sex": rs.Categories(["F", "M"], unknown="drop")})
    plan = rs.plan(rs.marginals(domain, ways=[0]), rs.ZCDP(0.5), unit=rs.ReplaceOne())
    assert 0.99 < float(priced(plan)[1]) <= 1
    assert plan.gap <= 1e-4  # a record removed costs as much as one added
