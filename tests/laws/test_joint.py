"""Blockwise plans against dense matrices: random small domains, random queries of pairs and triples, nested levels."""

from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest

import residua as rs
from residua.errors import PlanError, VerificationError
from residua.plans.blockwise.facts import BlockRows, in_classes
from residua.plans.blockwise.measurements import BlockwiseMeasurements
from residua.plans.blockwise.plan import BlockwisePlan
from residua.plans.levels import AttributeLevels, axis_of, closed, refines
from residua.plans.matrix.plan import MatrixPlan
from residua.plans.planners.posing import posed
from residua.plans.solver.blockwise import BlockwiseTotal
from residua.plans.solver.orbits import orbits
from residua.plans.verifier import priced
from residua.testing import check_plan
from residua.workload import Workload

SEEDS = range(3)


def side_by_side(parts):
    """Workloads as they stand, tables unmerged."""
    return Workload(parts[0].domain, tuple(piece for part in parts for piece in part.pieces))


def random_workload(seed):
    """Queries of random sets of two or three attributes, groups, prefixes and values beside them."""
    rng = np.random.default_rng(seed)
    sizes = {f"a{i}": int(n) for i, n in enumerate(rng.integers(3, 5, 3))}
    domain = rs.Domain.of_sizes(sizes)
    names = list(sizes)
    parts = [rs.prefixes(domain, names[0]), 2.0 * rs.marginals(domain, [(names[1], names[2])])]
    groups = (np.arange(sizes[names[1]]) // 2 == np.arange(2)[:, None]).astype(float)
    parts.append(rs.product(domain, {names[1]: groups, names[0]: "identity"}))
    for members in list(combinations(names, 2))[: int(rng.integers(1, 4))]:
        cells = int(np.prod([sizes[name] for name in members]))
        rows = rng.integers(-1, 2, (int(rng.integers(2, 6)), cells)).astype(float)
        rows[:, 0] += 1 - (rows != 0).any(axis=1)  # no query is nothing
        parts.append(rs.explicit(domain, rows, on=members, weight=float(rng.uniform(0.5, 2))))
    return side_by_side(parts)


@pytest.fixture(scope="module", params=SEEDS)
def planned(request):
    workload = random_workload(request.param)
    return workload, rs.plan(workload, rs.GDP(1.0), form=rs.Lattice())


def dense(plan):
    """Γ over all cells, and queries over the same."""
    grouping, rows = plan.over_cells()
    return grouping, rows.T @ rows


def test_the_law_of_every_plan_holds(planned):
    _, plan = planned
    assert isinstance(plan, BlockwisePlan)
    check_plan(plan)


def test_both_gaps_hold_against_the_dense_optimum(planned):
    workload, plan = planned
    best = rs.plan(workload.listed(), rs.GDP(1.0), form=rs.Matrix(), tolerance=1e-4)
    assert isinstance(best, MatrixPlan)
    mine, least = plan.total_variance(workload), best.total_variance(workload)
    assert least * (1 - 2e-3) <= mine <= least * 1.05
    assert mine <= least * (1 + plan.gap_any) * (1 + 1e-6)
    assert plan.gap < 0.05


def sums_of_pairs(d, n=10):
    """Prefixes of each attribute, and of each pair the sums up to every number."""
    domain = rs.Domain.of_sizes([n] * d)
    i, j = np.indices((n, n))
    rows = np.array([(i + j <= c).ravel() for c in range(2 * n - 1)])
    pairs = [rs.explicit(domain, rows, on=pair) for pair in combinations(domain.names, 2)]
    return side_by_side([*(rs.prefixes(domain, name) for name in domain.names), *pairs])


def test_the_bound_of_a_split_is_below_what_its_plans_reach_and_close_to_it():
    """Where the search has converged a bound that claims a little too much lies above a plan of the same split."""
    axes, terms = posed(sums_of_pairs(3))
    found = orbits(axes, terms, closed(term.table for term in terms))
    solved = BlockwiseTotal(axes, found).solve(1e-4, 40)
    assert solved.bound <= solved.loss * (1.0 + 1e-9)
    assert solved.loss <= solved.bound * 1.005


def test_plans_by_the_same_rows_combine_block_by_block(planned):
    workload, plan = planned
    less = plan.replaced(precisions=plan.precisions * np.linspace(0.2, 0.8, len(plan.precisions)))
    both = rs.common([plan, less])
    assert np.array_equal(both.precisions, less.precisions)
    assert plan.can_answer(less)
    assert not less.can_answer(plan)
    rest = rs.residual(plan, given=less)
    together = less + rest
    assert np.allclose(together.variances(workload), plan.variances(workload), rtol=1e-9)
    _, gamma = dense(plan)
    _, one = dense(less)
    _, other = dense(rest)
    assert np.allclose(one + other, gamma, atol=1e-9)


@pytest.mark.parametrize("rho", [1e-6, 1e-3, 1e3])
def test_any_sensible_budget_can_be_measured(rho):
    """Also of blocks that nobody asks for, which are measured a ten-thousandth as strongly."""
    plan = rs.plan(
        rs.queries(rs.Domain.of_sizes([3, 3, 2]), ["a0 < a1", "a1 = 1 and a2 = 1"]), rs.ZCDP(rho), form=rs.Blockwise()
    )
    assert plan.measurements.cost(rs.AddRemove()) <= 2 * rho


def test_what_matters_little_can_be_measured_at_a_small_budget():
    """Its block is measured weakly, by integers with fewer bits where its noise could not be sampled otherwise."""
    domain = rs.Domain.of_sizes([3, 3, 2])
    little = rs.explicit(domain, np.eye(6), on=["a1", "a2"], weight=1e-12)
    workload = side_by_side([rs.explicit(domain, np.eye(9)[:4], on=["a0", "a1"]), little])
    plan = rs.plan(workload, rs.ZCDP(1e-6), form=rs.Blockwise())
    assert plan.measurements.cost(rs.AddRemove()) <= 2e-6
    assert np.isfinite(plan.variances(workload)).all()


def test_the_total_alone_has_a_profile():
    total = BlockwiseMeasurements((AttributeLevels(3),), ((),), (BlockRows(np.array([[5]])),), np.array([2.0]))
    assert total.profile().largest == total.cost(rs.AddRemove()) == Fraction(25, 4)


def test_altered_blocks_are_refused():
    plan = rs.plan(random_workload(0), rs.GDP(1.0), form=rs.Lattice())
    louder = plan.replaced(precisions=plan.precisions * 1.01)
    with pytest.raises(VerificationError, match="more than"):
        priced(louder)


def test_a_sum_of_workloads_asks_the_same_as_the_listed_one():
    workload = random_workload(3)
    listed = workload.listed()
    rows = np.vstack([part.listed().over(workload.attributes).toarray() for part in workload.parts])
    assert np.array_equal(listed.matrix.toarray(), rows)
    domain = rs.Domain.of_sizes({"a": 3, "b": 4, "c": 2})
    asked = rs.queries(domain, {"x": "a >= 1", "y": "b = 2 and c = 0", "z": "a = 0"})
    assert asked.labels == ("x", "y", "z")
    assert asked.matrix.toarray().sum(axis=1).tolist() == [16.0, 3.0, 8.0]
    assert (3 * asked).weights.tolist() == [3.0, 3.0, 3.0]


def test_ten_attributes_of_ten_values_beside_querysmasher():
    """RMSE at pcost 1 of all 1- and 2-way affine queries and absolute differences: QuerySmasher 8.0604 and 8.5640."""
    domain = rs.Domain.of_sizes([10] * 10)
    i, j = np.indices((10, 10))
    affine = np.array([(i + j <= c).ravel() for c in range(19)])
    apart = np.array([(abs(i - j) <= c).ravel() for c in range(10)])
    for rows, most in ((affine, 7.5), (apart, 7.8)):
        parts = [rs.prefixes(domain, name) for name in domain.names]
        parts += [rs.explicit(domain, rows, on=pair) for pair in combinations(domain.names, 2)]
        workload = sum(parts[1:], parts[0])
        plan = rs.plan(workload, rs.GDP(1.0))
        assert np.sqrt(plan.total_variance(workload) / workload.queries) < most
        assert len(plan.strategies) == 3  # the total, an attribute, a pair: each is solved once
        assert plan.gap < 0.01
        assert plan.cost <= 1


def test_four_attributes_of_ten_values_beside_the_dense_optimum():
    """The dense plan takes two minutes and has an RMSE of 3.559 (benchmarks.joint); what all plans can save is told."""
    workload = sums_of_pairs(4)
    plan = rs.plan(workload, rs.GDP(1.0), form=rs.Lattice())
    ours = plan.total_variance(workload) / workload.queries
    assert 1.0 <= ours / 3.559**2 <= 1.006
    assert ours / (1.0 + plan.gap_any) <= 3.5595**2
    assert "of the best of all plans" in str(plan)


@pytest.mark.parametrize("asked", ["values", "prefixes"])
def test_levels_are_blocks_of_their_own(asked):
    domain = rs.Domain.of_sizes({"a": 16, "b": 3})
    groups = rs.product(domain, {"a": np.kron(np.eye(4), np.ones(4)), "b": "identity"})
    workload = groups + (rs.marginals(domain, [("a",)]) if asked == "values" else rs.prefixes(domain, "a"))
    plan = rs.plan(workload, rs.GDP(1.0))
    assert isinstance(plan, BlockwisePlan)
    assert plan.axes[0].depth == 2
    assert max(plan.gap, plan.gap_any) < 0.02
    assert rs.plan(workload, rs.GDP(1.0), form=rs.Lattice()).gap > 0.1


def test_products_are_read_at_the_levels_they_need():
    """Variances and covariances of products are those of the same queries listed one by one, over the finest levels."""
    domain = rs.Domain.of_sizes([4, 6, 5])
    halves, first = np.array([[1.0, 1, 0, 0], [0, 0, 1, 1]]), np.array([[1.0, 1, 1, 0, 0]])
    asked = (
        rs.product(domain, {"a0": halves, "a1": "prefixes"})
        + rs.product(domain, {"a1": "ranges", "a2": first})
        + rs.marginals(domain, [("a0", "a1")])
    )
    plan = rs.plan(asked, rs.ZCDP(0.5), form=rs.Blockwise())
    assert max(axis.depth for axis in plan.axes) > 1
    others = rs.marginals(domain, [(), ("a0",), ("a2",), ("a1", "a2")]) + rs.product(domain, {"a0": 2 * halves})
    for workload in (asked, others):
        listed = workload.listed()
        one_by_one = plan.variances(listed)
        assert plan.variances(workload) == pytest.approx(one_by_one, rel=1e-9)
        assert np.isfinite(one_by_one).any()
    assert plan.covariance(asked) == pytest.approx(plan.covariance(asked.listed()), rel=1e-9, abs=1e-12)


def test_what_is_answered_does_not_depend_on_the_last_bit():
    """Values of one class are compared before anything is computed: products of equal columns need not be equal."""
    domain = rs.Domain.of_sizes({"a": 64, "b": 115})
    random = np.random.default_rng(0)
    rough = np.repeat(random.uniform(0.1, 1.0, (40, 8)), [10, 20, 10, 15, 20, 15, 15, 10], axis=1)
    fine = random.uniform(0.1, 1.0, (40, 7))[:, random.integers(0, 7, 64)]
    axes = [axis_of(64, [np.unique(fine, axis=1, return_inverse=True)[1].ravel()])]
    axes.append(axis_of(115, [np.unique(rough, axis=1, return_inverse=True)[1].ravel()]))
    rows = np.einsum("ij,kl->ikjl", fine, rough).reshape(1600, *domain.sizes)
    short, lost = in_classes(axes, (0, 1), rows)
    assert short.shape == (1600, 7, 8)
    assert not lost.any()
    rows[3, 5, 7] += 1e-12
    assert in_classes(axes, (0, 1), rows)[1].tolist() == [k == 3 for k in range(1600)]


def test_levels_are_nested_whatever_is_asked():
    partitions = [np.array([0, 0, 1, 1, 1]), np.array([0, 1, 1, 2, 2]), np.array([0, 0, 0, 0, 1])]
    axis = axis_of(5, partitions)
    assert axis.depth == len(set(axis.starts)) - 2
    for fine, coarse in zip(axis.classes[1:], axis.classes, strict=False):
        assert refines(fine, coarse)
    assert all(any(refines(own, one) for own in axis.classes) for one in partitions)


def test_what_is_too_large_or_not_offered_says_so():
    domain = rs.Domain.of_sizes({"a": 100, "b": 100, "c": 100, "d": 100})
    rng = np.random.default_rng(0)
    wide = [rs.explicit(domain, rng.integers(0, 2, (3, 10_000)), on=pair) for pair in (("a", "b"), ("c", "d"))]
    with pytest.raises(PlanError, match="group values"):
        rs.plan(wide[0] + wide[1], rs.GDP(1.0))
