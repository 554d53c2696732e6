"""Plans that differ by group: every fact against the dense matrix, every price against all changes of the data."""

from itertools import product

import cvxpy as cp
import numpy as np
import pyarrow as pa
import pytest

import residua as rs
from residua.errors import PlanError
from residua.measurement import noisy as noisy_module
from residua.plans.measurements import Portion
from residua.plans.verifier import composed_cost
from residua.projection.problems import problem_of
from residua.projection.strata import totals_of
from residua.source import source_of
from residua.source.checking import SomeGroups

DOMAIN = rs.Domain({"age": rs.Integers(0, 3), "state": ["A", "B", "C"], "sex": ["F", "M"], "job": ["x", "y"]})
BUDGET = rs.ZCDP(0.5)
ONE = rs.plan(rs.marginals(DOMAIN, [("age",), ("sex",)]), BUDGET)
TWO = rs.plan(rs.marginals(DOMAIN, [("age", "sex")]), BUDGET)
SUMS = rs.plan(rs.prefixes(DOMAIN, "age"), BUDGET, form=rs.Matrix())
STEPS = rs.plan(rs.prefixes(DOMAIN, "age", by=["sex"]), BUDGET)
PLANS = {"one": ONE, "two": TWO, "sums": SUMS, "steps": STEPS}
CHOSEN = {("A", "x"): "one", ("A", "y"): "two", ("B", "x"): "two", ("B", "y"): "sums", ("C", "x"): "steps"}
MIXED = rs.by_group(PLANS, by=["state", "job"], chosen=CHOSEN)
CELLS = np.random.default_rng(5).integers(200, 400, (4, 3, 2, 2))


def records(cells: np.ndarray) -> pa.Table:
    codes = np.unravel_index(np.repeat(np.arange(cells.size), cells.ravel()), cells.shape)
    return pa.table({n: np.array(DOMAIN[n].labels)[c] for n, c in zip(DOMAIN.names, codes, strict=True)})


DATA = records(CELLS)


def gamma(plan: rs.Plan) -> np.ndarray:
    """Γ over all 48 cells, from the rows of each group's own plan, group by group: not from the form's own code."""
    found = np.zeros((48, 48))
    cells = np.arange(48).reshape(4, 3, 2, 2)
    for k, (state, job) in enumerate(product(range(3), range(2))):
        number = int(plan.chosen[k])
        if number < 0:
            continue
        grouping, rows = plan.members[number].over_cells()
        inner = rows[:, grouping.columns]
        wide = np.zeros((len(rows), 48))
        shape = [4 if i == 0 else 2 for i in grouping.attributes]
        for age, sex in product(range(4), range(2)):
            at = np.ravel_multi_index([{0: age, 2: sex}[i] for i in grouping.attributes], shape) if shape else 0
            wide[:, cells[age, state, sex, job]] = inner[:, at]
        found += wide.T @ wide
    return found


GAMMA = gamma(MIXED)
WORKLOADS = [
    rs.marginals(DOMAIN, [("state", "job"), ("job",), (), ("age", "state", "job")]),
    rs.prefixes(DOMAIN, "age", by=["state"]),
    rs.queries(DOMAIN, ["state = 'A' and sex = 'F'", "age < 2", "state = 'B' and age = 1", "state <> 'C' and age > 2"]),
    rs.marginals(DOMAIN, [("age", "state", "sex", "job")]),
    rs.product(DOMAIN, {"state": np.array([[1.0, -2.0, 0.0], [0.5, 3.0, 0.0]]), "job": np.array([[2.0, 0.0]])}),
]


@pytest.mark.parametrize("workload", WORKLOADS, ids=["tables", "prefixes", "conditions", "all cells", "weighed groups"])
def test_variances_and_covariances_are_those_of_the_dense_matrix(workload):
    rows = workload.listed().over((0, 1, 2, 3)).toarray()
    inverse = np.linalg.pinv(GAMMA, rcond=1e-12)
    answered = np.abs(rows @ inverse @ GAMMA - rows).max(axis=1) < 1e-9
    found = MIXED.variances(workload)
    assert np.array_equal(np.isfinite(found), answered)
    assert found[answered] == pytest.approx(np.einsum("ij,jk,ik->i", rows, inverse, rows)[answered], rel=1e-9)
    if answered.all():
        assert MIXED.covariance(workload) == pytest.approx(rows @ inverse @ rows.T, rel=1e-9, abs=1e-9)


def test_over_cells_is_the_dense_matrix():
    grouping, rows = MIXED.over_cells()
    wide = np.where(grouping.columns >= 0, rows[:, grouping.columns], 0.0)
    order = np.arange(48).reshape([DOMAIN.sizes[i] for i in grouping.attributes])
    assert grouping.attributes == (0, 1, 2, 3)
    assert wide[:, order.ravel()].T @ wide[:, order.ravel()] == pytest.approx(GAMMA, abs=1e-12)


TOTAL, WEAK = (rs.plan(rs.marginals(DOMAIN, [()]), rs.ZCDP(rho)) for rho in (0.5, 0.1))
COSTED = {
    **PLANS,
    "total": TOTAL,
    "weak": WEAK,
    "weak two": rs.plan(rs.marginals(DOMAIN, [("age", "sex")]), rs.ZCDP(0.1)),
}
CHOICES = {
    "mixed": CHOSEN,
    "totals": dict.fromkeys(CHOSEN, "total"),  # a record that stays in its group changes nothing
    "one group": {("A", "x"): "total"},  # one that leaves it pays once
    "two unequal": {("A", "x"): "total", ("B", "y"): "weak"},
    "the cheap ones": {("A", "x"): "weak", ("B", "y"): "weak two"},  # what nobody chose costs nothing
    "one of two tables": {("A", "y"): "two", ("C", "y"): "weak"},  # the dearest replacement stays within a group
}
UNITS = [rs.AddRemove(), rs.AddRemove(2), rs.ReplaceOne(), rs.Person(2, one_per="state")]


def cost(matrix: np.ndarray, unit: object) -> float:
    """What the worst change of the data costs, by trying all."""
    diagonal = np.diag(matrix)
    swaps = diagonal[:, None] + diagonal[None, :] - 2 * matrix
    pairs = diagonal[:, None] + diagonal[None, :] + 2 * matrix
    state = np.indices((4, 3, 2, 2))[1].ravel()
    worst = {
        UNITS[0]: diagonal.max(),
        UNITS[1]: pairs.max(),
        UNITS[2]: swaps.max(),
        UNITS[3]: max(np.where(state[:, None] != state[None, :], pairs, 0).max(), diagonal.max()),
    }
    return float(worst[unit])


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("unit", UNITS, ids=str)
def test_the_price_is_that_of_the_worst_change_of_the_data(unit, choice):
    """Exact; of persons with limits a bound, exact where another group is as costly as the costliest."""
    plans = {name: plan.replaced(unit=unit, guarantee=rs.ZCDP(50.0)) for name, plan in COSTED.items()}
    plan = rs.by_group(plans, by=["state", "job"], chosen=CHOICES[choice])
    truth, price = cost(gamma(plan), unit), float(plan.measurements.price(unit))
    assert price >= truth * (1 - 1e-12)
    assert plan.unit_pcost == pytest.approx(price, rel=1e-6)
    assert price == pytest.approx(truth, rel=1e-6) or (isinstance(unit, rs.Person) and choice != "mixed")


def test_what_is_measured_twice_in_a_group_costs_both():
    """Measurements of the same groups are priced together, group by group, as the sum of their matrices is."""
    first = rs.by_group(COSTED, by=["state", "job"], chosen={("A", "x"): "one", ("B", "x"): "weak"})
    second = rs.by_group(COSTED, by=["state", "job"], chosen={("A", "x"): "weak two", ("B", "y"): "two"})
    assert float(composed_cost([first, second])) == pytest.approx(cost(gamma(first) + gamma(second), UNITS[0]))
    profile = first.measurements.profile()
    assert [float(value) / 2.0**200 for value in profile.values] == pytest.approx([1.0, 0.0, 0.2, 0.0, 0.0, 0.0])


def test_groups_do_not_add_up():
    assert MIXED.pcost == pytest.approx(1.0)
    a = rs.by_group({"one": ONE}, by=["state", "job"], chosen={("A", "x"): "one"})
    b = rs.by_group({"two": TWO}, by=["state", "job"], chosen={("B", "x"): "two"})
    assert float(composed_cost([a, b])) == pytest.approx(1.0)
    assert float(composed_cost([a, a])) == pytest.approx(2.0)
    assert (a + b).pcost == pytest.approx(1.0)


def test_algebra_is_that_of_the_matrices():
    first, second = rs.by_group(ONE, by=["state", "job"]), rs.by_group(TWO, by=["state", "job"])
    both = gamma(first + MIXED)
    assert both == pytest.approx(gamma(first) + GAMMA, abs=1e-6)
    shared = rs.common([first, second])
    assert first.can_answer(shared)
    assert second.can_answer(shared)
    assert not shared.can_answer(first)
    rest = rs.residual(second, given=shared)
    assert gamma(rest) + gamma(shared) == pytest.approx(gamma(second), abs=1e-9)
    missing = rs.top_up(MIXED, given=shared)
    assert np.linalg.eigvalsh(gamma(missing) + gamma(shared) - GAMMA).min() > -1e-6
    nested = {group: name for group, name in CHOSEN.items() if name in ("one", "two")}
    wanted = rs.by_group({"one": ONE, "two": TWO}, by=["state", "job"], chosen=nested)
    assert float(composed_cost([shared, rs.top_up(wanted, given=shared)])) == pytest.approx(1.0, rel=1e-6)


def test_a_release_is_unbiased_saved_loaded_and_pooled(tmp_path):
    ledger = rs.Ledger(tmp_path / "l", rs.ZCDP(1.0))
    release, other = (rs.measure(MIXED, DATA, ledger=ledger) for _ in range(2))
    table = release.table(["state", "job"]).columns
    truth = CELLS.sum(axis=(0, 2)).ravel()
    known = np.isfinite(table["stddev"])
    assert known.tolist() == [True, True, True, True, True, False]
    assert (np.abs(table["estimate"] - truth)[known] < 6 * table["stddev"][known]).all()
    release.save(tmp_path / "r")
    again = rs.Release.load(tmp_path / "r")
    assert np.array_equal(again.estimates(["state", "job"]), release.estimates(["state", "job"]), equal_nan=True)
    pool = rs.pooled([again, other])
    assert pool.plan.variance({"state": "A"}) == pytest.approx(release.plan.variance({"state": "A"}) / 2, rel=1e-6)
    halfway = (release.count({"state": "A"}).estimate + other.count({"state": "A"}).estimate) / 2
    assert pool.count({"state": "A"}).estimate == pytest.approx(halfway, abs=1e-3)
    pool.save(tmp_path / "pool")
    assert rs.Release.load(tmp_path / "pool").count({"state": "A"}) == pool.count({"state": "A"})
    with pytest.raises(PlanError, match="does not answer"):
        release.count({"state": "C"})


def test_a_projection_is_the_nearest_in_every_group(tmp_path):
    """Against CVXPY, group by group, with the rows of each group's own plan."""
    few = records(np.random.default_rng(3).integers(0, 3, (4, 3, 2, 2)))
    release = rs.measure(MIXED, few, ledger=rs.Ledger(tmp_path / "l", BUDGET))
    projected = rs.project(release)
    problem = problem_of(release.plan, projected.terms)
    least = 0.0
    for rows, seen in zip(problem._rows, problem._split(problem.observed(release)), strict=True):
        for each in seen:
            h, (total,) = cp.Variable(rows.shape[1], nonneg=True), totals_of(rows, each[None])
            kept = [cp.sum(h) == total] if total == total else []
            least += cp.Problem(cp.Minimize(cp.sum_squares(rows @ h - each)), kept).solve(solver="CLARABEL")
    assert projected.distance == pytest.approx(least, rel=1e-5)
    assert projected.distance <= least + projected.gap + 1e-6
    cells = projected.estimates(["state", "job", "age", "sex"])
    assert np.isnan(cells[2, 1]).all()  # nothing was measured there
    assert (cells.reshape(6, -1)[:5] >= 0).all()
    assert cells[:2].sum(axis=(1, 2, 3)) == pytest.approx(projected.estimates(["state"])[:2])
    projected.save(tmp_path / "p")
    again = rs.Projected.load(tmp_path / "p")
    assert np.array_equal(again.estimates(["age", "state"]), projected.estimates(["age", "state"]), equal_nan=True)
    with pytest.raises(PlanError, match="without facts"):
        rs.project(release, total=100)


@pytest.mark.parametrize("cells", [1, 20, 10_000], ids=["one by one", "few", "all"])
def test_portions_of_groups_measure_what_all_at_once_would(cells, monkeypatch):
    """Without noise, the integers of every group are those of its own table, however many are counted at a time."""
    monkeypatch.setattr(noisy_module, "PORTION_CELLS", cells)
    monkeypatch.setattr(noisy_module, "_drawn", lambda measurements, batch, shape: np.zeros(shape, dtype=np.int64))
    still = source_of(DATA).checked(DOMAIN)
    assert still.kept

    def counted(portion, layout):
        some = None if portion.groups is None else SomeGroups(DOMAIN.sizes, portion.by, portion.groups)
        return still.count(layout, None, None, some).tables

    portions = noisy_module.portions_of(MIXED.measurements, kept=True)
    assert len(portions) > 1
    found = noisy_module.noisy_in_portions(MIXED.measurements, portions, counted, None)
    assert np.array_equal(
        found, noisy_module.noisy_in_portions(MIXED.measurements, [Portion(MIXED.measurements)], counted, None)
    )
    estimates = MIXED.estimator(MIXED.measurements, found).marginal((0, 1, 3))
    truth = CELLS.sum(axis=2).astype(float)
    known = np.isfinite(estimates)
    assert known.any()
    assert estimates[known] == pytest.approx(truth[known], abs=1e-6)


def test_estimates_have_the_variances_stated(tmp_path):
    """Every group has the same records, so that groups are the repetitions; false alarm below one in a million."""
    many = rs.Domain({"group": rs.Integers(0, 2999), "age": rs.Integers(0, 3), "sex": ["F", "M"]})
    plans = {
        "two": rs.plan(rs.marginals(many, [("age", "sex")]), BUDGET),
        "sums": rs.plan(rs.prefixes(many, "age"), BUDGET, form=rs.Matrix()),
    }
    plan = rs.by_group(plans, by=["group"], chosen=["two", "sums"] * 1500)
    inside = pa.table({"age": [0, 1, 1, 2], "sex": ["F", "M", "F", "M"]})
    data = pa.table(
        {
            "group": np.repeat(np.arange(3000), 4),
            "age": np.tile(inside["age"].to_numpy(), 3000),
            "sex": np.tile(inside["sex"].to_numpy(zero_copy_only=False), 3000),
        }
    )
    release = rs.measure(plan, data, ledger=rs.Ledger(tmp_path / "l", BUDGET))
    found = release.estimates(["group", "age"])
    for start in (0, 1):
        mine = found[start::2] - np.array([1, 2, 1, 0])
        stated = release.plan.covariance(rs.product(many, {"group": np.eye(3000)[[start]], "age": np.eye(4)}))
        assert np.abs(mine.mean(axis=0) / np.sqrt(np.diag(stated) / 1500)).max() < 5.8
        errors = np.sqrt((np.outer(np.diag(stated), np.diag(stated)) + stated**2) / 1500)
        assert np.abs((np.cov(mine.T) - stated) / errors).max() < 6.3


def test_planned_differently_in_another_order_of_by():
    turned = rs.by_group(PLANS, by=["job", "state"], chosen={(b, a): name for (a, b), name in CHOSEN.items()})
    assert np.array_equal(turned.chosen, MIXED.chosen)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"by": []}, "names no attributes"),
        ({"by": ["nowhere"]}, "by: unknown attribute; there are"),
        ({"by": ["age"]}, "'one' measures 'age', which makes groups"),
        ({"chosen": {("A", "z"): "one"}}, "is no group of state, job"),
        ({"chosen": {("A", "x"): "three"}}, "is not among those given"),
        ({"chosen": ["one"]}, "give one for each of 6 groups"),
        ({"chosen": None}, "say with chosen"),
    ],
)
def test_what_means_nothing_is_refused(change, says):
    asked = {"by": ["state", "job"], "chosen": CHOSEN, **change}
    with pytest.raises(PlanError, match=says):
        rs.by_group(PLANS, **asked)
    laplace = rs.plan(rs.marginals(DOMAIN, [("age",)]), rs.PureDP(1.0))
    with pytest.raises(PlanError, match="normal noise"):
        rs.by_group(laplace, by=["state"])
