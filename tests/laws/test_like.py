"""Plans like another: they measure by its strategies, so that the two combine exactly over any number of cells."""

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import residua as rs
from residua.errors import PlanError
from residua.plans import ProductPlan
from residua.plans.planners.lattice import common_ground
from residua.plans.product.algebra import agree
from residua.plans.verifier import priced
from tests.laws.product_plans import gamma

WIDE = rs.Domain.of_sizes({"a": 100, "b": 60, "c": 4})


def asked(kind, domain=WIDE):
    return {
        "prefixes": rs.prefixes(domain, "a", by=["b"]),
        "ranges": rs.ranges(domain, "a") + rs.prefixes(domain, "b", by=["c"]),
        "values": rs.marginals(domain, ways=2),
        "one": rs.marginals(domain, [("a",)]),
    }[kind]


@pytest.mark.parametrize(("first", "second"), [("prefixes", "ranges"), ("prefixes", "values"), ("values", "ranges")])
def test_plans_like_another_combine_exactly_at_any_scale(first, second):
    one = rs.plan(asked(first), rs.ZCDP(0.5))
    two = rs.plan(asked(second), rs.ZCDP(0.3), form=rs.Lattice(like=one))
    assert agree([one, two])
    shared = rs.common([one, two])
    assert 0 < shared.pcost < two.pcost
    for plan in (one, two):
        left = rs.residual(plan, given=shared)
        assert shared.pcost + left.pcost == pytest.approx(plan.pcost, rel=1e-9)
        assert priced(shared)[1] + priced(left)[1] <= plan.guarantee.pcost_allowed()
        both = (shared + left).variances(plan.workload)
        assert both == pytest.approx(plan.variances(plan.workload), rel=1e-9)
    missing = rs.top_up(two, given=one)
    assert (one + missing).can_answer(two)
    assert missing.pcost < two.pcost


def test_without_like_the_error_names_the_remedy_and_the_remedy_works():
    one, two = (rs.plan(asked(kind), rs.ZCDP(0.5)) for kind in ("prefixes", "ranges"))
    with pytest.raises(PlanError, match=r"6,000 cells.*form=rs\.Lattice\(like=other\)"):
        rs.common([one, two])
    assert rs.common([one, rs.plan(asked("ranges"), rs.ZCDP(0.5), form=rs.Lattice(like=one))]).pcost > 0


@given(st.sampled_from(["prefixes", "ranges", "values"]), st.sampled_from(["prefixes", "ranges", "values", "one"]))
@settings(max_examples=12, deadline=None)
def test_a_plan_like_another_is_a_plan_like_any_other(first, second):
    """Its facts are those of Γ, and its gap counts what the foreign strategies cost."""
    domain = rs.Domain.of_sizes({"a": 5, "b": 4, "c": 2})
    one = rs.plan(asked(first, domain), rs.GDP(1.0))
    workload = asked(second, domain)
    two = rs.plan(workload, rs.GDP(1.0), form=rs.Lattice(like=one))
    for mine, others in zip(two.strategies, one.strategies, strict=True):
        assert mine == others
    assert isinstance(one, ProductPlan)
    assert isinstance(two, ProductPlan)
    if two.plain:
        assert one.plain
        return
    G = gamma(two)
    assert np.diag(G).max() == pytest.approx(two.pcost, rel=1e-9)
    W = workload.listed().over((0, 1, 2)).toarray()
    inverse = np.linalg.pinv(G, rcond=1e-11, hermitian=True)
    assert two.variances(workload) == pytest.approx(np.einsum("ij,jk,ik->i", W, inverse, W), rel=1e-6)
    free = rs.plan(workload, rs.GDP(1.0))
    masses = workload.weights * workload.cells
    loss, best = (
        float(masses @ plan.variances(workload, per="term"))
        if not plan.plain
        else float(np.repeat(workload.weights, workload.cells.astype(int)) @ plan.variances(workload))
        for plan in (two, free)
    )
    assert loss >= best * (1 - 1e-6)
    # The same blocks measured by the best strategies for the same spread would be within the gap: it is not zero.
    assert 0 <= two.gap < 1.5
    assert two.objective == "TotalVariance"


def test_targets_and_maxima_like_another():
    one = rs.plan(asked("prefixes"), rs.ZCDP(0.5))
    workload = rs.ranges(WIDE, "a", by=["c"])
    for two in (
        rs.plan(workload, targets=9.0, form=rs.Lattice(like=one)),
        rs.plan(workload, rs.ZCDP(0.5), minimise=rs.MaxVariance(), form=rs.Lattice(like=one)),
    ):
        assert two.strategies[0] == one.strategies[0]
        assert np.isfinite(two.gap)
    assert rs.plan(workload, targets=9.0, form=rs.Lattice(like=one)).variances(workload).max() <= 9.0


def test_the_sum_of_workloads_is_a_common_ground():
    crossed = rs.product(WIDE, {"a": "prefixes", "b": "prefixes", "c": "prefixes"})
    single = rs.prefixes(WIDE, "a")
    fine = rs.plan(single, rs.ZCDP(0.5))
    with pytest.raises(PlanError, match=r"too fine.*sum of the workloads"):
        rs.plan(crossed, rs.ZCDP(1e-6), form=rs.Lattice(like=fine.replaced(strategies=_finer(fine))))
    ground = rs.plan(crossed + single, rs.ZCDP(0.5))
    plans = [rs.plan(workload, rs.ZCDP(0.5), form=rs.Lattice(like=ground)) for workload in (crossed, single)]
    assert rs.common(plans).pcost > 0


def test_few_cells_and_marginals_need_no_common_ground():
    small = rs.Domain.of_sizes({"a": 5, "b": 4, "c": 2})
    assert common_ground([asked("prefixes", small), asked("ranges", small)]) is None
    assert common_ground([asked("values"), asked("one")]) is None
    assert common_ground([asked("prefixes"), rs.queries(WIDE, ["a < 3"])]) is None
    ground = common_ground([asked("prefixes"), asked("one")])
    assert agree([rs.plan(asked(kind), rs.ZCDP(0.5), form=rs.Lattice(like=ground)) for kind in ("prefixes", "one")])


def _finer(plan):
    """The strategies times 2^30, as nobody would plan them."""
    first = plan.strategies[0]
    return (type(first)(first.size, first.matrix * 2**30), *plan.strategies[1:])


def test_a_strategy_that_sees_too_little_is_refused():
    coarse = rs.plan(rs.product(WIDE, {"a": np.kron(np.eye(4), np.ones(25))}), rs.ZCDP(0.5))
    assert coarse.strategies[0].count == 3
    with pytest.raises(PlanError, match="too little of 'a'"):
        rs.plan(rs.prefixes(WIDE, "a"), rs.ZCDP(0.5), form=rs.Lattice(like=coarse))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda one: rs.plan(asked("one"), rs.PureDP(1.0), form=rs.Lattice(like=one)), "Gaussian"),
        (lambda one: rs.plan(asked("one"), rs.ZCDP(0.5), form=rs.Lattice(like="one")), "not a plan"),
        (
            lambda one: rs.plan(rs.marginals(rs.Domain.of_sizes([3]), ways=1), rs.ZCDP(0.5), form=rs.Lattice(like=one)),
            "another domain",
        ),
    ],
)
def test_bad_input(make, words):
    with pytest.raises(PlanError, match=words):
        make(rs.plan(asked("one"), rs.ZCDP(0.5)))
