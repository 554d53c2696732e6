"""What product plans measure is priced from its integers alone."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

import residua as rs
from residua.errors import PlanError, VerificationError
from residua.linalg.lattice import closure
from residua.plans.product.set_measurements import ResidualMeasurements
from residua.plans.strategy import Rows
from residua.plans.verifier import priced
from tests.laws.dense import kron, replacement
from tests.laws.instances import verified_cost
from tests.laws.product_plans import SETTINGS, all_cells, workloads


@given(workloads(), st.sampled_from([rs.AddRemove(), rs.ReplaceOne()]))
@SETTINGS
def test_the_price_is_that_of_the_integers(workload, unit):
    if isinstance(unit, rs.ReplaceOne) and np.ptp(all_cells(workload), axis=1).max() < 1e-12:
        with pytest.raises(PlanError, match="without noise"):
            rs.plan(workload, rs.GDP(mu=1.0), unit=unit, form=rs.Lattice())
        return
    plan = rs.plan(workload, rs.GDP(mu=1.0), unit=unit, form=rs.Lattice())
    measurements, cost = priced(plan)
    gamma = np.zeros((int(np.prod(plan.domain.sizes)),) * 2)
    rows = list(measurements.lattice)
    for number, t, s in zip(measurements.measured, measurements.grids, measurements.scales, strict=True):
        B = kron(
            a.matrix.astype(float) if i in rows[number] else np.ones((1, a.size))
            for i, a in enumerate(measurements.strategies)
        )
        gamma += (t / s) ** 2 * B.T @ B
    truth = replacement(gamma) if isinstance(unit, rs.ReplaceOne) else np.diag(gamma).max()
    assert cost >= truth * (1 - 1e-12)
    assert cost <= rs.GDP(mu=1.0).pcost_allowed()
    if isinstance(unit, rs.AddRemove):
        assert float(cost) == pytest.approx(truth, rel=1e-9)
    assert measurements.noise_variances == pytest.approx(plan.noise_variances[measurements.measured], rel=1e-9)
    assert measurements.most_records >= 2**28


def test_an_entry_that_has_no_absolute_value_in_64_bits_is_priced_all_the_same():
    # |−2^63| is negative in 64 bits: taken for small, it would put the parity of a count into the highest bit.
    strategy = Rows(3, np.array([[-(2**63), 0, 2**25]]))
    assert strategy.norm == 2**126
    assert strategy.largest == 2**63
    lattice = closure([np.array([[0]], dtype=np.int32)], 1)
    arrays = np.array([3]), np.array([1]), np.array([1]), np.array([2.0**26])
    measurements = ResidualMeasurements(lattice, *arrays, strategies=(strategy,))
    with pytest.raises(VerificationError):
        verified_cost(measurements, rs.GDP(1.0), rs.AddRemove())


def test_altered_blocks_are_refused():
    domain = rs.Domain.of_sizes({"a": 5, "b": 3})
    plan = rs.plan(rs.prefixes(domain, "a", by=["b"]), rs.GDP(mu=1.0))
    measurements = plan.compile()

    def price(**changes):
        fields = ("lattice", "sizes", "strategies", "measured", "grids", "scales", "drops")
        altered = ResidualMeasurements(**({name: getattr(measurements, name) for name in fields} | changes))
        return verified_cost(altered, plan.guarantee, plan.unit)

    assert price() <= 1
    with pytest.raises(VerificationError, match="altered"):
        price(scales=measurements.scales * 0.99)
    with pytest.raises(VerificationError, match="altered"):
        price(strategies=(Rows(5, plan.strategies[0].matrix * 2), plan.strategies[1]))
    with pytest.raises(VerificationError, match="noise scale"):
        price(scales=measurements.scales * np.nan)
    with pytest.raises(VerificationError, match="whole number"):
        price(grids=measurements.grids * 1.5)
    with pytest.raises(VerificationError, match="strategies do not fit"):
        price(strategies=plan.strategies[::-1])
    with pytest.raises(VerificationError, match="overflow"):
        price(grids=measurements.grids * 2**40)
