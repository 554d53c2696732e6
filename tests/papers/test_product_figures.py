"""Prefixes on the large attributes of CPS, Adult and Loans at privacy cost 1: below the best published errors; and the
Census tables of persons."""

import numpy as np
import pytest

import residua as rs
from benchmarks.paper.workloads import sf1_persons
from residua.plans.verifier import priced

SIZES = {
    "CPS": [100, 50, 7, 4, 2],
    "Adult": [100, 100, 100, 99, 85, 42, 16, 15, 9, 7, 6, 5, 2, 2],
    "Loans": [101, 101, 101, 101, 3, 8, 36, 6, 51, 4, 5, 15],
}
ORDERED = {"CPS": 2, "Adult": 5, "Loans": 4}
# Data, ways, the least error of plans with the plain split (what has been published is above), and ours.
FIGURES = [
    ("CPS", [1], 3.135, 3.0630),
    ("CPS", [2], 6.192, 5.8159),
    ("CPS", [3], 7.886, 7.2998),
    ("CPS", [0, 1, 2, 3], 8.141, 7.5624),
    ("Adult", [3], 45.56, 43.695),
    ("Loans", [2], 14.58, 14.1885),
]


@pytest.mark.parametrize(("data", "ways", "published", "ours"), FIGURES)
def test_errors_of_prefixes(data, ways, published, ours):
    domain = rs.Domain.of_sizes(SIZES[data])
    workload = rs.product(domain, dict.fromkeys(domain.names[: ORDERED[data]], "prefixes"), ways=ways)
    plan = rs.plan(workload, rs.GDP(mu=1.0))
    rmse = float(np.sqrt(workload.cells @ plan.variances(workload, per="term") / workload.queries))
    assert rmse <= ours < published
    assert rmse >= 0.99 * ours
    assert plan.gap <= 1e-4
    _, cost = priced(plan)
    assert 1 - 1e-9 <= cost <= 1


def test_little_is_left_on_cps():
    """No plan whatever has an error more than half a percent below ours (the plain split's is 3.135)."""
    domain = rs.Domain.of_sizes(SIZES["CPS"])
    plan = rs.plan(rs.product(domain, {"a0": "prefixes", "a1": "prefixes"}, ways=1), rs.GDP(mu=1.0))
    assert np.sqrt(1 + plan.gap_any) <= 1.005


def test_census_tables_of_persons():
    """Between the two errors known of unions and single products of strategies; how far from its class is stated."""
    workload, known = sf1_persons()
    queries = workload.weights * workload.cells  # a table asked twice counts twice
    plan = rs.plan(workload, rs.GDP(mu=1.0), form=rs.Lattice())
    rmse = np.sqrt(queries @ plan.variances(workload, per="term") / queries.sum())
    assert queries.sum() == 4151
    assert known["three groups of Kronecker strategies"] < rmse < known["one Kronecker strategy"]
    # The planner stops within its tolerance, and linear algebra rounds differently on other processors: 2.2410, 2.2443.
    assert rmse == pytest.approx(2.241, rel=5e-3)
    assert plan.gap == pytest.approx(0.64, abs=0.01)
    assert plan.variances(workload) @ np.repeat(workload.weights, workload.cells.astype(int)) == pytest.approx(
        queries.sum() * rmse**2
    )


def test_census_tables_of_persons_by_a_strategy_for_each_block():
    """Far better than unions of products of strategies, within 2 % of the best in its class; about 10 seconds."""
    workload, known = sf1_persons()
    plan = rs.plan(workload, rs.GDP(mu=1.0))
    variances = plan.variances(workload)
    rmse = np.sqrt(variances.mean())
    assert rmse <= 2.0 < known["three groups of Kronecker strategies"]
    assert plan.gap <= 0.02
    assert float(priced(plan)[1]) <= 1.0
    assert plan.total_variance(workload) == pytest.approx(
        variances @ np.repeat(workload.weights, workload.cells.astype(int))
    )
