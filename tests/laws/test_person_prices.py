"""What a person can cost: never more than the price, over everything that persons can do; and plans that know it."""

from fractions import Fraction
from itertools import combinations

import cvxpy as cp
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

import residua as rs
from residua import Person
from residua.errors import PlanError, VerificationError
from residua.plans.contract import Plan
from residua.plans.matrix.plan import MatrixPlan
from residua.plans.product.plan import ProductPlan
from residua.plans.statements import unit_to_body
from residua.plans.strategy import Plain, Rows
from residua.plans.verifier import composed_cost, priced
from residua.privacy.costs import Reach
from tests.laws.person_costs import measured_rows, persons_of, true_cost

ROUNDING = 1e-9
BUDGET = rs.ZCDP(0.5)


@st.composite
def units(draw, most_records=4, limited=False):
    """A small domain and a person in it."""
    sizes = draw(st.lists(st.integers(1, 3), min_size=1, max_size=3).filter(lambda sizes: np.prod(sizes) <= 12))
    domain = rs.Domain.of_sizes(sizes)
    records = draw(st.integers(2, most_records))
    some = draw(st.lists(st.sampled_from(domain.names), unique=True, min_size=int(limited), max_size=len(sizes)))
    return domain, Person(records, per={name: draw(st.integers(1, records - 1)) for name in some})


def numbers(draw, count, lowest=0.0):
    """Positive numbers of very different sizes, some 0."""
    each = st.one_of(st.just(lowest), st.floats(0.01, 1.0), st.floats(1e-4, 100.0))
    return np.array(draw(st.lists(each, min_size=count, max_size=count)))


@st.composite
def any_strategy(draw, size):
    if size == 1 or draw(st.booleans()):
        return Plain(size)
    entries = st.integers(-4, 4)
    rows = np.array([[draw(entries) for _ in range(size)] for _ in range(draw(st.integers(1, size - 1)))])
    return Rows(size, rows) if np.linalg.matrix_rank(np.vstack([np.ones(size), rows])) > len(rows) else Plain(size)


@st.composite
def lattice_plans(draw, plain=False):
    """Any precisions of any strategies, planned by nobody."""
    domain, unit = draw(units())
    lattice = rs.marginals(domain, ways=range(len(domain) + 1)).lattice
    precisions = numbers(draw, len(lattice))
    strategies = tuple(Plain(int(n)) if plain else draw(any_strategy(int(n))) for n in domain.sizes)
    plan = ProductPlan(domain, lattice, precisions, strategies, guarantee=rs.ZCDP(1e9), unit=unit)
    return plan if plan.precisions.any() else plan.replaced(precisions=np.eye(len(lattice))[0])


@st.composite
def matrix_plans(draw):
    """Any whole numbers over any merged cells."""
    domain, unit = draw(units())
    cells = int(np.prod(domain.sizes))
    groups = np.array([draw(st.integers(-1, cells - 1)) for _ in range(cells)])
    groups[0] = 0
    columns = np.searchsorted(np.unique(groups[groups >= 0]), groups)
    columns[groups < 0] = -1
    entries = st.integers(-5, 5)
    B = np.array([[draw(entries) for _ in range(columns.max() + 1)] for _ in range(draw(st.integers(1, 4)))])
    B[0, 0] += not B.any()
    return MatrixPlan(domain, tuple(range(len(domain))), columns, B, 4.0, guarantee=rs.ZCDP(1e9), unit=unit)


# ---- prices


@given(st.one_of(lattice_plans(), lattice_plans(plain=True), matrix_plans()))
@settings(max_examples=150, deadline=None)
def test_nobody_costs_more_than_the_price_and_the_price_is_no_more_than_k_squared(plan):
    truth, price = true_cost(plan.measurements, plan), plan.measurements.price(plan.unit)
    assert truth <= float(price) * (1 + ROUNDING)
    assert price <= plan.unit.scaled(plan.measurements.price(rs.AddRemove())) * (1 + Fraction(1, 10**12))
    assert float(price) == pytest.approx(plan.unit_pcost, rel=1e-6)  # what the plan says of itself


@given(st.one_of(lattice_plans(), matrix_plans()))
@settings(max_examples=60, deadline=None)
def test_a_price_is_no_looser_than_the_plan_says(plan):
    assert true_cost(plan.measurements, plan) >= plan.unit_pcost / (1 + plan.slack) * (1 - 1e-6)
    assert bool([word for word, _ in plan.remarks if word == "Price"]) == (plan.slack > 1e-6)


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_several_plans_are_priced_together(data):
    first = data.draw(st.one_of(lattice_plans(), lattice_plans(plain=True), matrix_plans()))
    lattice = rs.marginals(first.domain, ways=range(len(first.domain) + 1)).lattice
    precisions = numbers(data.draw, len(lattice), lowest=0.1)
    second = ProductPlan(first.domain, lattice, precisions, guarantee=rs.ZCDP(1e9), unit=first.unit)
    rows = np.vstack([measured_rows(plan.measurements, first.domain.sizes) for plan in (first, second)])
    truth = float(((persons_of(first) @ rows.T) ** 2).sum(axis=1).max())
    together = composed_cost([first, second])
    assert truth <= float(together) * (1 + ROUNDING)
    assert together <= first.measurements.price(first.unit) + second.measurements.price(first.unit)


@given(units(limited=True))
@settings(max_examples=40, deadline=None)
def test_plans_of_marginals_are_priced_exactly_where_one_attribute_is_limited(case):
    domain, unit = case
    name, most = unit.contribution.limits[0]
    unit = Person(unit.records, per={name: most})
    plan = rs.plan(rs.marginals(domain, ways=range(len(domain) + 1)), BUDGET, unit=unit)
    assert true_cost(plan.measurements, plan) == pytest.approx(float(plan.measurements.price(unit)), rel=ROUNDING)
    assert plan.slack == pytest.approx(0.0, abs=ROUNDING)
    assert not plan.remarks


def test_the_month_that_only_one_record_of_a_person_is_in():
    domain = rs.Domain.of_sizes({"month": 12, "sex": 2})
    lattice = rs.marginals(domain, ways=[0, 1, 2]).lattice  # total, month, sex, both
    unit = Person(12, one_per="month")

    def price(*precisions):
        return ProductPlan(domain, lattice, np.array(precisions, float), unit=unit).unit_pcost

    assert price(1, 0, 0, 0) == pytest.approx(144)  # the total
    assert price(0, 0, 1, 0) == pytest.approx(144 / 2)  # sex: all alike
    assert price(1 / 12, 1, 0, 0) == pytest.approx(12)  # the table of months, not its residual
    assert price(0, 0, 1 / 12, 1) == pytest.approx(12 / 2)
    assert price(1, 12, 0, 0) == pytest.approx(144)  # whoever has a record in every month says nothing about months


def test_pairs_that_agree():
    for records, limit in [(12, 1), (12, 5), (7, 7), (1, 3)]:
        sizes = [limit] * (records // limit) + [records % limit]
        assert Reach(records, {0: limit}).agreeing([0]) == sum(n * n for n in sizes)
    assert Reach(6, {0: 2, 1: 3}).agreeing([0, 1]) == Reach(6, {0: 2, 1: 3}).agreeing([0]) == 12


# ---- plans


def optimum(workload, unit):
    """The least total variance at a price of 1, by CVXPY, from the definitions."""
    sizes, sets = workload.domain.sizes.tolist(), [frozenset(row) for row in workload.lattice]
    limits = {workload.domain.position(name): most for name, most in unit.contribution.limits}
    records = min([unit.records, *(most * sizes[i] for i, most in limits.items())])
    kappa = [np.prod([1 - 1 / sizes[i] for i in row]) for row in sets]
    tau = cp.Variable(len(sets), nonneg=True)
    noise = cp.inv_pos(tau)
    loss = 0
    for number, weight, cells in zip(workload.numbers, workload.weights, workload.cells, strict=True):
        asked = sets[number]
        part = [
            kappa[j] * np.prod([1 / sizes[i] ** 2 for i in asked - row]) if row <= asked else 0.0
            for j, row in enumerate(sets)
        ]
        loss = loss + weight * cells * (np.array(part) @ noise)
    price, scale = 0, float(workload.weights @ workload.cells)
    for row in sets:
        inner = np.array(
            [
                np.prod([-1 / sizes[i] for i in other - row]) if row <= other and other - row <= set(limits) else 0.0
                for other in sets
            ]
        )
        least = min([limits[i] for i in row if i in limits], default=records)
        full, rest = divmod(records, least)
        paid = np.prod([1 - 1 / sizes[i] for i in row if i not in limits]) * (full * least**2 + rest**2)
        price = price + paid * cp.pos(inner @ tau)
    problem = cp.Problem(cp.Minimize(loss / scale), [price <= records**2])
    return problem.solve(solver=cp.CLARABEL, tol_gap_rel=1e-7, tol_gap_abs=1e-7) * scale * records**2


@pytest.mark.parametrize("seed", range(6))
def test_total_variance_is_the_least_that_persons_as_priced_allow(seed):
    rng = np.random.default_rng(seed)
    domain = rs.Domain.of_sizes(rng.integers(2, 7, size=3).tolist())
    names = rng.permutation(domain.names)[: 1 + seed % 3]
    unit = Person(6, per={str(name): int(rng.integers(1, 6)) for name in names})
    workload = rs.marginals(domain, ways=[1], weight=3.0) + rs.marginals(domain, ways=[2])
    plan = rs.plan(workload, rs.GDP(1.0), unit=unit)
    achieved = float((workload.weights * workload.cells) @ plan.variances(workload, per="term")) * 0.98  # of the budget
    best = optimum(workload, unit)
    assert achieved / (1 + plan.gap) <= best * (1 + 1e-5)
    assert best <= achieved * (1 + 1e-5)
    assert plan.gap <= 2e-5
    assert (plan.gap == 0) == (len(unit.limits) == 1)
    assert plan.gap <= plan.gap_any < np.inf  # no plan whatever, at what persons really cost


@given(units(limited=True), st.sampled_from([rs.TotalVariance(), rs.MaxVariance(), rs.PNormVariance(3.0)]))
@settings(max_examples=40, deadline=None)
def test_plans_for_persons_are_never_worse_than_plans_for_k_records(case, objective):
    domain, unit = case
    workload = rs.marginals(domain, ways=range(len(domain) + 1))
    plan = rs.plan(workload, BUDGET, unit=unit, minimise=objective)
    k_squared = rs.plan(workload, BUDGET, unit=rs.AddRemove(unit.records), minimise=objective)
    loss, other = (objective.loss(workload, each.variances(workload, per="term")) for each in (plan, k_squared))
    assert loss * 0.98 <= other * (1 + 1e-4)
    assert plan.gap <= 1e-4
    assert float(priced(plan)[1]) == pytest.approx(0.98, rel=1e-9)  # all of the budget but what is for those left out
    other = rs.independent(workload, BUDGET, unit=unit)
    assert float(priced(other)[1]) == pytest.approx(0.98, rel=1e-9)
    assert plan.unit == unit
    assert objective.loss(workload, other.variances(workload, per="term")) >= loss * (1 - 1e-4)


@pytest.mark.parametrize("objective", [rs.TotalVariance(), rs.MaxVariance()])
@pytest.mark.parametrize("per", [{"a": 1}, {"a": 2, "b": 1}, {"b": 3}])
def test_products_for_persons(objective, per):
    domain = rs.Domain.of_sizes({"a": 4, "b": 3})
    workload = rs.product(domain, {"a": "prefixes", "b": "identity"}) + rs.marginals(domain, ways=[0, 1])
    unit = Person(4, per=per)
    plan = rs.plan(workload, BUDGET, unit=unit, minimise=objective)
    k_squared = rs.plan(workload, BUDGET, unit=rs.AddRemove(4), minimise=objective)
    total = isinstance(objective, rs.TotalVariance)
    loss, other = ((v.sum() if total else v.max()) for v in (plan.variances(workload), k_squared.variances(workload)))
    assert loss < other
    assert np.isfinite(plan.gap)
    truth = true_cost(plan.measurements, plan)
    assert truth <= float(priced(plan)[1]) * (1 + ROUNDING)
    # The certificate: the plan for k records is of some class too, and no better for this unit than the bound allows.
    assert loss / (1 + plan.gap) <= other * true_cost(k_squared.measurements, plan) * (1 + 1e-6)
    dense = rs.plan(workload, BUDGET, unit=unit, form=rs.Matrix(), minimise=objective)
    assert true_cost(dense.measurements, dense) <= float(priced(dense)[1]) * (1 + ROUNDING)
    assert np.isfinite(dense.gap)


@pytest.mark.parametrize("asked", ["identity", "prefixes", "ranges"])
def test_products_for_replacements_have_a_gap(asked):
    domain = rs.Domain.of_sizes({"a": 4, "b": 3})
    workload = rs.product(domain, {"a": asked, "b": "identity"}) + rs.marginals(domain, ways=[0, 1])
    plan = rs.plan(workload, BUDGET, unit=rs.ReplaceOne(), form=rs.Lattice())
    assert 0 <= plan.gap < np.inf
    bound = plan.variances(workload).sum() / (1 + plan.gap)
    rng = np.random.default_rng(1)
    for _ in range(200):  # plans of the same class: other precisions, the total known better and better
        precisions = plan.precisions * rng.uniform(0.2, 5.0, len(plan.precisions))
        precisions[0] *= 10 ** rng.uniform(0, 6)
        other = plan.replaced(precisions=precisions)
        assert other.variances(workload).sum() * other.unit_pcost >= bound * (1 - 1e-9)
    assert plan.slack < 1.0


def test_least_privacy_for_persons():
    domain = rs.Domain.of_sizes({"month": 12, "region": 4})
    workload = rs.marginals(domain, ways=[1, 2])
    plan, k_squared = (
        rs.plan(workload, targets=100.0, unit=unit) for unit in (Person(12, one_per="month"), rs.AddRemove(12))
    )
    assert plan.variances(workload).max() <= 100.0
    assert plan.guarantee.rho < k_squared.guarantee.rho
    assert float(plan.measurements.price(plan.unit)) <= 2 * plan.guarantee.rho


def test_limits_change_nothing_but_the_number_of_records_under_pure_dp():
    domain = rs.Domain.of_sizes({"a": 3, "b": 2})
    for workload in (rs.marginals(domain, ways=[1, 2]), rs.explicit(domain, np.eye(6))):
        whole = rs.PureDP(1.0 / 0.98)  # a little of which is for what is left out
        person = rs.plan(workload, whole, unit=Person(5, one_per="a"))  # three of them at most
        same = rs.plan(workload, rs.PureDP(1.0), unit=rs.AddRemove(3))
        assert np.allclose(person.variances(workload), same.variances(workload))
        # Nobody has two records that are alike: that three cost three times as much is proven of no other mechanism.
        assert person.lower_bound == pytest.approx(same.lower_bound / 9, rel=1e-6)
        assert person.gap == pytest.approx(9 * (1 + same.gap) - 1, rel=1e-6)
        assert priced(person)[1] <= whole.epsilon * 0.98
        assert person.unit_epsilon == pytest.approx(1.0)


def test_algebra_of_plans_for_persons():
    domain = rs.Domain.of_sizes({"month": 6, "sex": 2})
    unit = Person(6, per={"month": 2})
    small = rs.plan(rs.marginals(domain, ways=1), rs.ZCDP(0.2), unit=unit)
    large = rs.plan(rs.marginals(domain, ways=[1, 2]), rs.ZCDP(0.7), unit=unit)
    missing = rs.top_up(large, given=[small])
    assert composed_cost([small, missing]) <= composed_cost([small]) + composed_cost([missing])
    shared = rs.common([small, large])
    left = rs.residual(large, given=shared)
    assert composed_cost([shared, left]) <= composed_cost([large])
    assert (small + large).unit_pcost <= float(composed_cost([small]) + composed_cost([large])) * (1 + 1e-9)


# ---- refusals


def test_an_attribute_that_the_domain_lacks_cannot_be_limited():
    domain = rs.Domain.of_sizes({"a": 3, "b": 2})
    for workload in (rs.marginals(domain, ways=1), rs.explicit(domain, np.eye(6))):
        for guarantee in (BUDGET, rs.PureDP(1.0)):
            with pytest.raises(PlanError, match="'month'"):
                rs.plan(workload, guarantee, unit=Person(3, one_per="month"))
        with pytest.raises(PlanError, match="'month'"):
            rs.independent(workload, BUDGET, unit=Person(3, one_per="month"))


@pytest.mark.parametrize("form", [None, rs.Matrix()])
def test_a_plan_that_was_altered_is_not_measured(form, tmp_path):
    domain = rs.Domain.of_sizes({"month": 6, "sex": 2})
    plan = rs.plan(rs.marginals(domain, ways=[1, 2]), BUDGET, unit=Person(6, one_per="month"), form=form)
    priced(plan)
    plan.save(tmp_path / "plan.json")
    kept = Plan.load(tmp_path / "plan.json")
    assert kept.unit == plan.unit
    assert kept.cost == plan.cost
    with pytest.raises(VerificationError, match="more than"):
        priced(plan.scaled(1 + 1e-6))
    for unit in (rs.AddRemove(6), Person(6), Person(6, per={"month": 2})):
        with pytest.raises(VerificationError, match="more than"):
            priced(plan.replaced(unit=unit))
        body = {**plan.to_body(), "unit": unit_to_body(unit)}
        with pytest.raises(ValueError, match="costs more"):
            type(plan).of_body(body)


def test_sets_are_cheap_or_dear_as_the_limits_say():
    domain = rs.Domain.of_sizes({"month": 12, "region": 4, "sex": 2})
    workload = rs.marginals(domain, ways=[1, 2])
    plan = rs.plan(workload, BUDGET, unit=Person(12, one_per="month"))
    old = rs.plan(workload, BUDGET, unit=rs.AddRemove(12))
    ratios = dict(
        zip(workload.sets, plan.variances(workload, per="term") / old.variances(workload, per="term"), strict=True)
    )
    with_month = [ratio for names, ratio in ratios.items() if "month" in names]
    without = [ratio for names, ratio in ratios.items() if "month" not in names]
    assert max(with_month) < 0.2 < min(without) < max(without) < 0.5


def test_limits_never_cost_more_than_none():
    domain = rs.Domain.of_sizes({"a": 3, "b": 4})
    lattice = rs.marginals(domain, ways=[0, 1, 2]).lattice
    rng = np.random.default_rng(0)
    for _ in range(20):
        precisions = rng.uniform(0, 1, 4) ** 3 + 1e-3
        limits = {"a": 2, "b": 1}
        prices = {
            names: ProductPlan(
                domain, lattice, precisions, unit=Person(4, per={n: limits[n] for n in names})
            ).unit_pcost
            for size in range(3)
            for names in combinations(limits, size)
        }
        assert max(prices.values()) == prices[()]


def test_a_session_pays_for_all_its_releases_together(tmp_path):
    domain = rs.Domain.of_sizes({"month": 6, "sex": 2})
    months = np.arange(120) % 6
    data = pa.table({"who": np.arange(120) // 4, "month": months, "sex": months % 2})
    unit = Person(6, one_per="month")
    session = rs.Session(
        rs.Source.frame(data, person="who"), rs.ZCDP(2.0), ledger=tmp_path / "a.ledger", state=tmp_path / "s", unit=unit
    )
    plans = [rs.plan(rs.marginals(domain, ways=ways), rs.ZCDP(0.3), unit=unit) for ways in (1, 2)]
    for plan in plans:
        session.release(plan)
    spent = float(session.ledger.spent_exactly)
    assert spent == pytest.approx(session.known.planned.unit_pcost, rel=1e-6)  # what both measured, pooled
    assert 0.6 < spent < sum(plan.unit_pcost for plan in plans)  # the second tells some of the first
