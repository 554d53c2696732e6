"""Estimates that borrow strength: they agree, are not negative, meet what is known; without noise, the truth."""

from itertools import combinations

import numpy as np
import pyarrow as pa
import pytest

import residua as rs
from residua.errors import PlanError
from residua.release import Release
from tests.laws.estimations import RULES, domain_of_four, measured, parity, records, released, subsets, truth

DATA = records(np.random.default_rng(1))


def consistent(estimated, most=4, nearly=1e-3):
    """No table has a negative cell; margins of tables are the tables of those margins as stated, of three closely."""
    for names in subsets(most):
        table = estimated.estimates(names)
        assert table.min() >= 0
        stated = estimated.accuracy(names).apart
        assert stated <= nearly * estimated.total or len(names) > 3
        as_stated(estimated, names, stated)


def as_stated(estimated, names, stated):
    """All margins of a table are near the tables of fewer attributes."""
    table, atol = estimated.estimates(names), 1e-8 * estimated.total + 1.001 * stated
    for size in range(len(names)):
        for kept in combinations(names, size):
            margin = table.sum(axis=tuple(axis for axis, name in enumerate(names) if name not in kept))
            np.testing.assert_allclose(margin, estimated.estimates(kept), atol=atol)


@pytest.mark.parametrize(("rho", "nearly"), [(1e-5, 1e-3), (0.05, 1e-6)])  # where all is noise, pairs contradict most
@pytest.mark.parametrize("ways", [(0, 1), (0, 1, 2), (0, 1, 2, 3)])
def test_tables_agree_and_are_not_negative_measured_or_not(tmp_path, rho, nearly, ways):
    consistent(rs.estimate(released(tmp_path, DATA, rho=rho, ways=ways)), nearly=nearly)


def test_margins_of_all_sizes_are_as_near_as_stated_where_all_is_noise():
    """Of six attributes pairs were up to twice as far as the margins that the table was raked to."""
    domain = rs.Domain.of_sizes([2] * 6)
    plan = rs.plan(rs.marginals(domain, ways=[0, 1, 2, 3]), rs.ZCDP(1e-4))
    measurements, random = plan.measurements, np.random.default_rng(0)
    for _ in range(8):
        noise = np.rint(random.normal(size=measurements.cells) * measurements.scales.max()).astype(np.int64)
        estimated = rs.estimate(Release(plan, measurements, noise), total=3000)
        as_stated(estimated, domain.names, estimated.accuracy(domain.names).apart)


def test_public_facts_are_met_exactly_and_impossible_cells_are_zero(tmp_path):
    release = released(tmp_path, DATA, rho=0.01, impossible=RULES)
    known = {("b", "c"): truth(DATA, "bc"), ("d",): truth(DATA, "d")}
    estimated = rs.estimate(release, total=3000, known=known)
    consistent(estimated)
    assert estimated.total == 3000
    np.testing.assert_array_equal(estimated.estimates(["b", "c"]), truth(DATA, "bc"))
    np.testing.assert_array_equal(estimated.estimates(["c", "b"]), truth(DATA, "bc").T)
    np.testing.assert_array_equal(estimated.estimates(["b"]), truth(DATA, "b"))
    np.testing.assert_allclose(estimated.estimates(["a", "b", "d"]).sum(axis=(0, 1)), truth(DATA, "d"), atol=0.01)
    for names in (["a", "d"], ["a", "c", "d"], ["a", "b", "c", "d"]):
        assert (estimated.estimates(names)[0, ..., 4] == 0).all()
    with pytest.raises(PlanError, match="contradict"):
        rs.estimate(release, total=2999, known=known)


def test_without_noise_the_truth_is_returned(tmp_path):
    estimated = rs.estimate(released(tmp_path, DATA, rho=1e6))
    for names in subsets(3):
        np.testing.assert_allclose(estimated.estimates(names), truth(DATA, names), atol=0.5)
    assert estimated.accuracy(["a", "b", "c"]).rmse < 0.5


def test_more_budget_helps_and_estimates_are_better_than_unbiased_tables_where_noise_is_large(tmp_path):
    names = ["a", "b", "d"]
    far = []
    for rho in (1e-4, 1e-2, 1.0):
        errors = []
        for _ in range(3):
            release = released(tmp_path, DATA, rho=rho)
            tables = rs.estimate(release).estimates(names), release.estimates(names)
            errors.append([np.abs(table - truth(DATA, names)).sum() for table in tables])
        far.append(np.mean(errors, axis=0))
    assert far[0][0] > far[1][0] > far[2][0]
    assert far[0][0] < 0.7 * far[0][1]
    assert far[2][0] < 1.3 * far[2][1]


def test_a_wrong_model_is_noticed_and_does_no_harm(tmp_path):
    data = parity(np.random.default_rng(2))
    errors = []
    for _ in range(6):
        release = released(tmp_path, data, rho=0.01)
        estimated = rs.estimate(release)
        accuracy = estimated.accuracy(["a", "b", "c"])
        assert ("a", "b", "c") in accuracy.contradicted
        assert "contradict" in str(accuracy)
        tables = estimated.estimates(("a", "b", "c")), release.estimates(("a", "b", "c"))
        errors.append([np.abs(table - truth(data, "abc")).sum() for table in tables])
    own, unbiased = np.mean(errors, axis=0)
    assert own < 1.05 * unbiased
    unmeasured = rs.estimate(released(tmp_path, data, rho=0.01, ways=(0, 1, 2))).accuracy(["a", "b", "c"])
    assert unmeasured.unmeasured == unmeasured.unknown == (("a", "b", "c"),)  # it does not claim to know


def test_stated_errors_are_right_on_average(tmp_path):
    """The logarithm of the ratio varies by 0.09 (twelve runs): 0.55 and 1.75 are six standard deviations away."""
    stated, true = 0.0, 0.0
    for _ in range(4):
        estimated = rs.estimate(released(tmp_path, DATA, rho=0.003))
        for names in subsets(3)[1:]:
            table = estimated.estimates(names)
            stated += estimated.accuracy(names).rmse ** 2
            true += float(((table - truth(DATA, names)) ** 2).mean())
    assert 0.55 < np.sqrt(stated / true) < 1.75


def test_an_attribute_that_nearly_decides_another_and_a_model_that_is_wrong_do_no_harm(tmp_path):
    """Structure of high rank, which a mixture fits badly, at much budget: as good as the release, table by table.

    Pairs that were moved by raking before it converged erred three times as much.
    """
    random = np.random.default_rng(5)
    x = random.choice(40, 30_000, p=random.dirichlet(np.full(40, 0.5)))
    y = random.integers(0, 12, (40, 3))[x, random.integers(0, 3, len(x))]
    z = np.clip(random.poisson(1 + y / 3), 0, 9)
    w = random.integers(0, 8, len(x))
    sizes = {"x": 40, "y": 12, "z": 10, "w": 8}
    domain, codes = rs.Domain.of_sizes(sizes), {"x": x, "y": y, "z": z, "w": w}
    plan = rs.plan(rs.marginals(domain, ways=[1, 2]), rs.ApproxDP(4.0, 1e-6))
    squares: dict[tuple[str, ...], list[float]] = {}
    for _ in range(3):
        release = rs.measure(plan, pa.table(codes), ledger=rs.Ledger(tmp_path / f"l{len(squares)}{_}", plan.guarantee))
        estimated = rs.estimate(release)
        for names in [("x",), ("y",), ("z",), ("w",), ("x", "y"), ("y", "z"), ("x", "z"), ("z", "w"), ("y", "w")]:
            true = np.zeros([sizes[name] for name in names])
            np.add.at(true, tuple(codes[name] for name in names), 1.0)
            for i, table in enumerate((estimated.estimates(names), release.estimates(names))):
                squares.setdefault(names, [0.0, 0.0])[i] += float(((table - true) ** 2).sum())
    ratios = {names: np.sqrt(own / other) for names, (own, other) in squares.items()}
    assert max(ratios.values()) < 1.7, ratios
    both = np.array([pair for names, pair in squares.items() if len(names) == 2]).sum(axis=0)
    single = np.array([pair for names, pair in squares.items() if len(names) == 1]).sum(axis=0)
    assert np.sqrt(both[0] / both[1]) < 1.1
    assert np.sqrt(single[0] / single[1]) < 1.3  # twelve tables: chance


def test_every_noise_unit_and_form(tmp_path):
    domain = domain_of_four()
    three = rs.marginals(domain, ways=[0, 1, 2])
    plans = [
        rs.plan(three, rs.PureDP(2.0)),
        rs.plan(three, rs.GDP(0.5), unit=rs.ReplaceOne()),
        rs.plan_estimates(three, rs.ApproxDP(1.0, 1e-6)),
        rs.plan_estimates(three, rs.ZCDP(0.1), unit=rs.ReplaceOne()),
        rs.plan(rs.prefixes(domain, "d"), rs.ZCDP(0.1)),
        rs.plan(rs.queries(domain, {"all": "1", "young": "d <= 1"}), rs.ZCDP(0.1)),
    ]
    for plan in plans:
        estimated = rs.estimate(measured(tmp_path, DATA, plan), total=3000)
        consistent(estimated, 3)
    first, second = (released(tmp_path, DATA, rho=0.01) for _ in range(2))
    consistent(rs.estimate(rs.pooled([first, second], same_people=True)), 3)


def test_plans_for_estimates_cost_what_they_may_and_ask_for_normal_noise(tmp_path):
    workload = rs.marginals(domain_of_four(), ways=3)
    for unit in (rs.AddRemove(), rs.AddRemove(3), rs.ReplaceOne()):
        plan = rs.plan_estimates(workload, rs.ZCDP(0.1), unit=unit)
        assert 0.999 * 0.2 < plan.cost <= 0.2
    with pytest.raises(PlanError, match="guarantee="):
        rs.plan_estimates(workload, rs.PureDP(1.0))
    with pytest.raises(PlanError, match="workload="):
        rs.plan_estimates(rs.prefixes(domain_of_four(), "d"), rs.ZCDP(0.1))  # type: ignore[arg-type]


def test_bad_input_is_refused_in_a_sentence(tmp_path):
    release = released(tmp_path, DATA, ways=(1, 2))
    estimated = rs.estimate(release, total=3000)
    with pytest.raises(PlanError, match="release="):
        rs.estimate(DATA)  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="total="):
        rs.estimate(release, total=-1)
    with pytest.raises(PlanError, match="nobody"):
        rs.estimate(release, total=0)
    with pytest.raises(ValueError, match="unknown attribute; there are 'a'"):
        estimated.estimates(["z"])
    wide = rs.Domain({"x": rs.Integers(0, 4999), "y": rs.Integers(0, 4999)})
    plan = rs.plan(rs.marginals(wide, ways=[0, 1]), rs.ZCDP(1.0))
    data = pa.table({"x": [1, 2, 3], "y": [0, 1, 0]})
    made = rs.measure(plan, data, ledger=rs.Ledger(tmp_path / "wide", rs.ZCDP(1.0)))
    with pytest.raises(PlanError, match="25,000,000 cells"):
        rs.estimate(made, total=3)


def test_tables_prefixes_rounding_counts_and_answers_as_of_a_projection(tmp_path):
    estimated = rs.estimate(released(tmp_path, DATA), total=3000)
    table = estimated.table(["c", "d"], queries={"d": "prefixes"})
    np.testing.assert_allclose(table.estimates, estimated.estimates(["c", "d"]).cumsum(axis=1))
    assert table.accuracy.attributes == ("c", "d")
    assert estimated.rounded().table(["c", "d"]).estimates.sum() == 3000
    assert estimated.count({"c": 1}) == pytest.approx(estimated.estimates(["c"])[1])
    assert len(list(estimated.tables())) == 1 + 4 + 6 + 4
    assert estimated.answers().estimates.min() >= 0


def test_a_poorly_measured_total_is_positive_and_near_what_single_tables_say(tmp_path):
    """A projection is no worse than no data: a negative total is not freed to whatever noise makes of it."""
    for _ in range(3):  # and 7 standard deviations of a total that is noise alone
        release = released(tmp_path, DATA, rho=2e-9)
        noise = float(release.table(()).columns["stddev"][0])
        assert 0 < rs.project(release, simulations=0).count() < 7 * noise
        assert 0 < rs.estimate(release).total < 7 * noise


def test_weights_by_the_number_of_cells(tmp_path):
    domain = domain_of_four()
    for weight, power in (("1/sqrt(cells)", -0.5), ("1/cells", -1.0)):
        workload = rs.marginals(domain, ways=[1, 2], weight=weight)
        np.testing.assert_allclose(workload.weights, workload.cells**power)
    with pytest.raises(rs.ResiduaError, match="weight='cells'"):
        rs.marginals(domain, ways=2, weight="cells")


def test_what_was_not_measured_at_all_is_said_to_be_unknown(tmp_path):
    domain = domain_of_four()
    plan = rs.plan(rs.marginals(domain, [(), ("a", "b"), ("c",)]), rs.ZCDP(0.1))
    estimated = rs.estimate(measured(tmp_path, DATA, plan))
    consistent(estimated, 3)
    assert estimated.accuracy(["a", "b", "c"]).unknown == (("a", "c"), ("b", "c"), ("a", "b", "c"))
    assert ("d",) in estimated.accuracy(["d"]).unknown
    assert estimated.accuracy(["a", "b"]).unknown == ()
