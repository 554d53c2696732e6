"""Every planner's certificate against the dense optimum, where terms repeat, overlap, weigh, or are constant.

The law: no mechanism has a loss × pcost below what the plan claims to be proven, `loss × pcost / (1 + gap)`; the dense
solver, whose own certificate is checked from the workload alone, has a mechanism to compare with; where persons are
limited, some mechanisms at what the most expensive of all persons pays.
"""

import re
from functools import cache

import numpy as np
import pytest

import residua as rs
from residua.errors import PlanError, WorkloadError
from residua.plans.solver.level import least_replacement
from residua.plans.solver.solve import least_privacy, least_total
from tests.laws.person_costs import everyone

DOMAIN = rs.Domain(
    {
        "place": rs.Integers(0, 11, levels={"county": {i: f"c{i // 3}" for i in range(12)}}),
        "sex": ["F", "M"],
        "one": ["x"],
    }
)
SIZES = (12, 2, 1)
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
    "prefixes and values": rs.prefixes(DOMAIN, "place") + 2 * VALUES,
    "an empty query": rs.explicit(DOMAIN, np.vstack([np.zeros(24), np.ones(24), np.tril(np.ones((24, 24)))[::5]])),
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
    "terms": rs.MaxVariance(over="terms"),
}
UNITS = {
    "record": rs.AddRemove(),
    "limited": rs.Person(2, one_per="sex"),
    "limited twice": rs.Person(3, per={"place": 1, "sex": 2}),
    "replaced": rs.ReplaceOne(),
}
ELSEWHERE = "form=|apart=|single queries alone|by one matrix"  # how planners say that something is not of their kind


@cache
def matrix_of(asked: str) -> np.ndarray:
    """The queries over all cells, (queries, cells)."""
    queries = WORKLOADS[asked].listed()
    shape = [n if i in queries.attributes else 1 for i, n in enumerate(SIZES)]
    columns = np.broadcast_to(np.arange(queries.matrix.shape[1]).reshape(shape), SIZES).ravel()
    return queries.matrix.toarray()[:, columns]


@cache
def reference(asked: str, objective: str, unit: str):
    """What some mechanism achieves, and what none goes below: loss × what the unit pays for it."""
    W = matrix_of(asked)
    if objective == "terms":
        return by_terms(asked)
    scaled = W * np.sqrt(factors(asked, objective))[:, None]
    if unit == "replaced":
        distinct = scaled[:, np.sort(np.unique(scaled, axis=1, return_index=True)[1])]
        best = least_replacement(distinct[distinct.any(axis=1)], 1e-6, total=objective == "total", removable=False)
        return (np.inf, 0.0) if best is None else (best.loss, best.bound)  # None: queries leave a direction out
    solve = least_total if objective == "total" else least_privacy
    dense = solve(scaled, 1.0, 1e-6)
    if unit == "record":
        return dense.achieved, dense.bound
    contribution = UNITS[unit].contribution
    limits = tuple((DOMAIN.position(name), most) for name, most in contribution.limits)
    persons = everyone(SIZES, contribution.records, limits)
    achieved = np.inf
    for share in (0.0, 0.1, 0.3, 0.6, 0.9, 1.0):  # some mechanisms, paid for by the most expensive person there is
        gamma = (1 - share) * dense.gamma[np.ix_(dense.columns, dense.columns)] + share * np.eye(len(dense.columns))
        variances = np.einsum("ij,jk,ik->i", scaled, np.linalg.pinv(gamma, rcond=1e-10), scaled)
        paid = float(np.einsum("ij,jk,ik->i", persons, gamma, persons).max())
        achieved = min(achieved, float(variances.sum() if objective == "total" else variances.max()) * paid)
    return achieved, dense.bound  # one record is a person


@cache
def by_terms(asked: str):
    """Rounds in which terms with a large mean variance gain weight: the best mechanism seen, and the best bound."""
    workload, W = WORKLOADS[asked], matrix_of(asked)
    rows = workload.cells.astype(int)
    terms = np.repeat(np.arange(len(rows)), rows)
    weights, achieved, bound = np.full(len(rows), 1.0 / len(rows)), np.inf, 0.0
    for _ in range(40):
        dense = least_total(W, (weights * workload.weights / rows)[terms], 1e-5)
        means = np.bincount(terms, dense.variances) / rows * workload.weights
        achieved, bound = min(achieved, float(means.max())), max(bound, dense.bound)
        weights = np.maximum(weights * means**2, 1e-6 * (weights * means**2).max())
        weights /= weights.sum()
    return achieved, bound


def factors(asked: str, objective: str):
    """What each variance is multiplied by."""
    queries = WORKLOADS[asked].listed()
    return np.full(queries.queries, 1 / 3) if objective == "one target" else queries.weights


def loss(plan, asked: str, objective: str) -> float:
    workload = WORKLOADS[asked]
    if objective == "terms":
        return float((plan.variances(workload, per="term") * workload.weights).max())
    each = plan.variances(workload) * factors(asked, objective)
    return float(each.sum() if objective == "total" else each.max())


OTHERS = ("duplicated and weighted", "crossed", "prefixes and values", "tables", "an empty query")
CASES = [(asked, objective, "record") for asked in WORKLOADS for objective in OBJECTIVES]
CASES += [(asked, one, unit) for asked in OTHERS for one in ("total", "largest") for unit in [*UNITS][1:]]


def planned(asked: str, guarantee: rs.PureDP | rs.GDP, **options) -> rs.Plan | None:
    """The plan; None where it is not of the form's kind, and that is said."""
    try:
        return rs.plan(WORKLOADS[asked], guarantee, **options)
    except PlanError as problem:
        if not re.search(ELSEWHERE, str(problem)):
            raise
        return None


@pytest.mark.parametrize(("asked", "objective", "unit"), CASES)
def test_no_mechanism_beats_what_a_plan_says_is_proven(asked, objective, unit):
    achieved, bound = reference(asked, objective, unit)
    for name, form in FORMS.items():
        if objective == "terms" and name.startswith("tree"):
            continue  # each level is a term there
        plan = planned(asked, rs.GDP(1.0), minimise=OBJECTIVES[objective], form=form, unit=UNITS[unit])
        if plan is None:
            continue
        product = loss(plan, asked, objective) * plan.unit_pcost
        assert product >= bound * (1 - 1e-6), name
        if plan.comparison_class == "the best possible":
            assert product / (1 + plan.gap) <= achieved * (1 + 1e-6), name
        if objective == "total":
            assert product / (1 + getattr(plan, "gap_any", np.inf)) <= achieved * (1 + 1e-6), name


@pytest.mark.parametrize("unit", ["record", "limited", "replaced"])
@pytest.mark.parametrize("objective", ["total", "largest"])
@pytest.mark.parametrize("asked", ["constant", "prefixes and values", "tables"])
def test_no_laplace_strategy_beats_what_a_plan_says_is_proven(asked, objective, unit):
    """Noise on single cells, and on every row asked, is Laplace noise too; so are all planners' plans."""
    W, person, options = matrix_of(asked), UNITS[unit], {"unit": UNITS[unit], "minimise": OBJECTIVES[objective]}
    scaled = W * np.sqrt(factors(asked, objective))[:, None]
    forms = (None, rs.Tree()) if asked != "tables" else (None,)
    plans = [plan for form in forms if (plan := planned(asked, rs.PureDP(1.0), form=form, **options)) is not None]
    losses = [loss(plan, asked, objective) for plan in plans]
    records = 2 if unit == "replaced" else getattr(person, "records", None) or person.contribution.records
    for strategy in (np.eye(W.shape[1]), np.vstack([np.eye(W.shape[1]), W]), np.vstack([np.eye(W.shape[1]), W[-2:]])):
        inverse = np.linalg.inv(strategy.T @ strategy)
        variances = 2 * (records * np.abs(strategy).sum(axis=0).max()) ** 2
        each = variances * np.einsum("ij,jk,ik->i", scaled, inverse, scaled)
        losses.append(float(each.sum() if objective == "total" else each.max()))
    for plan, own in zip(plans, losses, strict=False):
        assert plan.unit_epsilon <= 1.0
        assert plan.lower_bound <= min(losses) * (1 + 1e-6)
        assert own / (1 + plan.gap) <= min(losses) * (1 + 1e-6)


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
