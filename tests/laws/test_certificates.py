"""Every planner's certificate against the dense optimum, where terms repeat, overlap, weigh, or are constant.

The law: no mechanism has a loss × pcost below what the plan claims to be proven, `loss × pcost / (1 + gap)`; the dense
solver, whose own certificate is checked from the workload alone, has a mechanism to compare with.
"""

from functools import cache

import numpy as np
import pytest

import residua as rs
from residua.errors import PlanError, WorkloadError
from residua.plans.solver.solve import least_privacy, least_total

DOMAIN = rs.Domain(
    {
        "place": rs.Integers(0, 11, levels={"county": {i: f"c{i // 3}" for i in range(12)}}),
        "sex": ["F", "M"],
        "one": ["x"],
    }
)
LEVELS, VALUES = rs.hierarchy(DOMAIN, "place"), rs.marginals(DOMAIN, [("place",)])
COUNTIES = rs.product(DOMAIN, {"place": "county"})
WORKLOADS = {
    "duplicated": LEVELS + VALUES,
    "duplicated and weighted": 3 * LEVELS + 0.5 * VALUES + 0.25 * COUNTIES,
    "overlapping": LEVELS + COUNTIES + rs.product(DOMAIN, {"place": "county", "sex": "identity"}),
    "crossed": rs.hierarchy(DOMAIN, "place", by=["sex"]) + LEVELS + 2 * rs.marginals(DOMAIN, [("sex",)]),
    "constant": LEVELS + 4 * rs.marginals(DOMAIN, [()]),
    "of one value": LEVELS + rs.marginals(DOMAIN, [("place", "one"), ("one",)]),
    "ordered": rs.prefixes(DOMAIN, "place") + LEVELS + 2 * VALUES,
    "ranges": rs.ranges(DOMAIN, "place") + 5 * rs.prefixes(DOMAIN, "place"),
    "tables": rs.marginals(DOMAIN, ways=[0, 1, 2]) + 3 * VALUES,
}
FORMS = {
    "chosen": None,
    "lattice": rs.Lattice(),
    "matrix": rs.Matrix(),
    "tree": rs.Tree(),
    "tree by levels": rs.Tree(precisions="level"),
    "axis": rs.Axis(),
    "axis apart": rs.Axis(apart=True),
    "blockwise": rs.Blockwise(),
}
OBJECTIVES = {
    "total": rs.TotalVariance(),
    "largest": rs.MaxVariance(),
    "one target": rs.MaxVariance(3.0),
}


@cache
def reference(asked: str, objective: str):
    """What some mechanism achieves, and what none goes below: loss × pcost of the dense optimum."""
    queries = WORKLOADS[asked].listed()
    if objective == "total":
        found = least_total(queries.matrix, queries.weights, 1e-6)
    else:
        found = least_privacy(queries.matrix, 1.0 / factors(asked, objective), 1e-6)
    return found.achieved, found.bound


def factors(asked: str, objective: str):
    """What each variance is multiplied by."""
    queries = WORKLOADS[asked].listed()
    return np.full(queries.queries, 1 / 3) if objective == "one target" else queries.weights


def loss(plan, asked: str, objective: str) -> float:
    each = plan.variances(WORKLOADS[asked]) * factors(asked, objective)
    return float(each.sum() if objective == "total" else each.max())


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("asked", WORKLOADS)
@pytest.mark.parametrize("form", FORMS)
def test_no_mechanism_beats_what_a_plan_says_is_proven(form, asked, objective):
    try:
        plan = rs.plan(WORKLOADS[asked], rs.GDP(1.0), minimise=OBJECTIVES[objective], form=FORMS[form])
    except PlanError as problem:
        if "form=" not in str(problem) and "apart" not in str(problem):
            raise
        return  # not of that kind, and said so
    achieved, bound = reference(asked, objective)
    product = loss(plan, asked, objective) * plan.pcost
    assert product >= bound * (1 - 1e-6)
    if plan.comparison_class == "the best possible":
        assert product / (1 + plan.gap) <= achieved * (1 + 1e-6)
    assert product / (1 + getattr(plan, "gap_any", np.inf)) <= achieved * (1 + 1e-6)


@pytest.mark.parametrize("form", ["tree", "chosen", "blockwise"])
def test_a_table_asked_twice_costs_no_more_privacy(form):
    """With a wanted largest variance, asking again for what is asked anyway changes nothing."""
    once = rs.plan(LEVELS, at_most=2.0, minimise=rs.MaxVariance(), form=FORMS[form])
    twice = rs.plan(LEVELS + VALUES, at_most=2.0, minimise=rs.MaxVariance(), form=FORMS[form])
    assert twice.pcost <= once.pcost * (1 + once.gap + 1e-6)


def test_queries_that_are_zero_everywhere_are_refused():
    with pytest.raises(WorkloadError, match="zero"):
        rs.product(DOMAIN, {"place": np.zeros((1, 12))})
    with pytest.raises(WorkloadError, match="zero"):
        rs.queries(DOMAIN, ["place < 0"])
