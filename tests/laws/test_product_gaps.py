"""What product plans claim about others: bounds, gaps, and where a dense plan would be better."""

import re
import warnings

import numpy as np
import pytest
from hypothesis import given, strategies as st

import residua as rs
from residua.errors import GapWarning
from residua.plans.product.bounds import class_bound
from residua.plans.saddle import Effort
from residua.plans.solver.tilting import designed
from tests.laws.dense import kron
from tests.laws.product_plans import SETTINGS, all_cells, dense_variances, workloads


@given(workloads())
@SETTINGS
def test_no_plan_beats_the_bounds(workload):
    plan = rs.plan(workload, rs.GDP(mu=1.0), form=rs.Lattice())
    loss = float((workload.weights * workload.cells) @ plan.variances(workload, per="term"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", GapWarning)
        best = rs.plan(workload.listed(), rs.GDP(mu=1.0))
    optimum = float(best.workload.weights @ best.variances(best.workload))
    assert loss >= optimum / (1 + best.gap) * (1 - 1e-9)
    assert loss / (1 + plan.gap_any) <= optimum * (1 + 1e-9)
    assert loss <= 1.35 * optimum  # products are that good even where an attribute is asked in two ways


@pytest.mark.parametrize("minimise", [rs.TotalVariance(), rs.MaxVariance()])
def test_an_attribute_asked_in_groups_by_one_family_and_not_at_all_by_another(minimise):
    """The second family's values of a are not measured, and nobody asks for them."""
    domain = rs.Domain.of_sizes({"a": 6, "b": 4})
    workload = rs.ranges(domain, "a", by=["b"], listed=[(0, 2), (3, 5)]) + rs.prefixes(domain, "b")
    plan = rs.plan(workload, rs.GDP(mu=1.0), minimise=minimise, form=rs.Lattice())
    found = plan.variances(workload)
    np.testing.assert_allclose(found, dense_variances(plan, all_cells(workload)))
    means = [part.mean() for part in np.split(found, np.cumsum(workload.cells.astype(int))[:-1])]
    np.testing.assert_allclose(plan.variances(workload, per="term"), means)
    assert plan.gap < 0.1


@given(workloads())
@SETTINGS
def test_the_bound_of_a_class_is_below_what_its_members_reach(workload):
    """Not clipped at zero as a plan's gap is: a bound that were a little too high would show here."""
    design = designed(workload, rs.TotalVariance(), Effort(), [None] * len(workload.domain))
    game = design.game()
    spreads = [
        np.full(int(n), 1 / n) if s is None else s.spread
        for n, s in zip(workload.domain.sizes, design.strategies, strict=True)
    ]
    cells = [None if s is None else s.cells for s in design.strategies]
    bound = class_bound(workload, design.weights, game.dilutions, design.grams, spreads, cells)
    reached = game.value(design.weights)
    assert bound <= reached * (1 + 1e-9)
    if len(workload.families) == 1:
        assert bound >= reached * (1 - 1e-4)


@given(workloads(), st.data())
@SETTINGS
def test_the_gap_holds_within_the_class_of_the_plans_split(workload, data):
    """No other blocks on the same split, however strange, do better than the bound."""
    plan = rs.plan(workload, rs.GDP(mu=1.0), form=rs.Lattice())
    weights = workload.weights * workload.cells
    bound = float(weights @ plan.variances(workload, per="term")) / (1 + plan.gap)
    rng = np.random.default_rng(data.draw(st.integers(0, 2**20)))
    W, inverse = all_cells(workload), np.zeros((int(np.prod(plan.domain.sizes)),) * 2)
    gamma = np.zeros_like(inverse)
    for members, tau in zip(plan.lattice, plan.precisions, strict=True):
        if tau == 0:
            continue
        R = kron(s.matrix / s.unit if i in members else np.ones((1, s.size)) for i, s in enumerate(plan.strategies))
        F = kron(s.recovery * s.unit if i in members else s.spread[:, None] for i, s in enumerate(plan.strategies))
        H = np.eye(len(R)) + 0.3 * rng.standard_normal((len(R), len(R)))
        M = tau * rng.uniform(0.7, 1.4) * (H @ H.T)
        gamma += R.T @ M @ R
        inverse += F @ np.linalg.inv(M) @ F.T
    loss = float(np.repeat(workload.weights, workload.cells.astype(int)) @ np.einsum("ij,jk,ik->i", W, inverse, W))
    assert loss * np.diag(gamma).max() >= bound * (1 - 1e-6)


def test_the_largest_variance_is_near_the_fitness_for_use_optimum():
    workload = rs.prefixes(rs.Domain.of_sizes({"a": 16}), "a")
    plan = rs.plan(workload, targets=1.0)
    assert plan.variances(workload).max() <= 1.0
    assert plan.pcost == pytest.approx(2.9054, rel=3e-3)  # fitness-for-use, Table 2
    assert plan.pcost / (1 + plan.gap) <= 2.9055
    total = rs.plan(workload, plan.guarantee)
    assert total.variances(workload).max() > 1.1


SMALL = rs.Domain.of_sizes({"a": 12, "b": 6})
MIXED = {
    "prefixes beside values": rs.prefixes(SMALL, "a") + rs.prefixes(SMALL, "b") + rs.marginals(SMALL, ways=2),
    "each way": rs.prefixes(SMALL, "a", by=["b"]) + rs.prefixes(SMALL, "b", by=["a"]),
    "groups beside values": rs.product(SMALL, {"a": np.kron(np.eye(3), np.ones(4)), "b": "identity"})
    + rs.marginals(SMALL, [("a",)]),
}


@pytest.mark.parametrize("name", MIXED)
def test_where_a_dense_plan_is_better_the_plan_says_by_how_much(name):
    workload = MIXED[name]
    plan = rs.plan(workload, rs.GDP(1.0), form=rs.Lattice())
    saved = int(re.search(r"over 72 cells .* (\d+)% less variance at most: .*rs\.explicit", plan.advice)[1]) / 100
    listed = rs.explicit(SMALL, workload)
    dense = rs.plan(listed, rs.GDP(1.0))
    loss = float((workload.weights * workload.cells) @ plan.variances(workload, per="term"))
    gain = 1 - float(listed.weights @ dense.variances(listed)) / loss
    assert saved - 0.02 < gain <= saved


def test_nothing_is_advised_where_little_is_to_be_gained_or_cells_are_many():
    assert rs.plan(rs.prefixes(SMALL, "a", by=["b"]), rs.GDP(1.0)).advice == ""
    wide = rs.Domain.of_sizes({"a": 60, "b": 40})
    plan = rs.plan(rs.prefixes(wide, "a") + rs.marginals(wide, ways=2), rs.GDP(1.0), form=rs.Lattice())
    assert plan.gap > 0.01
    assert plan.advice == ""
    largest = rs.plan(MIXED["prefixes beside values"], rs.GDP(1.0), minimise=rs.MaxVariance())
    assert "less variance: list" in largest.advice  # by how much is not known
