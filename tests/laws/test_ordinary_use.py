"""What an outsider found to end in a raw error on ordinary use: it is answered, or refused in a sentence.

(Headers of code lists that are not UTF-8 are in `test_code_lists.py`.)
"""

import json

import numpy as np
import pytest

import residua as rs
from residua.errors import FileError, PlanError
from residua.testing import check_plan
from residua.testing.case import Case
from tests.laws.every_plan import made
from tests.resealed import sealed

DOMAIN = rs.Domain({"t": rs.Integers(0, 9, levels={"g": [0, 2, 10]}), "s": ["a", "b"], "u": ["x", "y", "z"]})


def test_a_tree_and_an_attribute_that_it_was_not_asked_for():
    plan = rs.plan(rs.hierarchy(DOMAIN, "t", by=["s"]), rs.ZCDP(0.5), form=rs.Tree())
    estimator = plan.estimator(plan.measurements, np.zeros(plan.measurements.cells, dtype=np.int64))
    for names in (["u"], ["t", "u"], ["u", "s"]):
        assert not plan.supports(names)
        assert not plan.supports(rs.marginals(DOMAIN, [names]))
        with pytest.raises(PlanError, match="does not answer the marginal"):
            plan.variance(names)
        with pytest.raises(PlanError, match="does not answer all"):
            estimator.answers(rs.marginals(DOMAIN, [names]))
    with pytest.raises(PlanError, match="does not answer all"):
        plan.variance({"u": "x"})


def test_two_crossed_axes_and_a_replaced_record():
    domain = rs.Domain({"m": rs.Integers(0, 5), "d": rs.Integers(0, 4), "s": ["F", "M"]})
    workload = rs.prefixes(domain, ["m", "d"], by=["s"])
    plan = rs.plan(workload, rs.ZCDP(0.5), unit=rs.ReplaceOne(), form=rs.Axis(("m", "d")))
    assert plan.axes == (0, 1)
    assert 1 - 1e-8 < plan.cost <= 1
    check_plan(plan)


@pytest.mark.parametrize(
    "asked", [["a1 <= 0", "a0 = 2 and a1 >= 3"], ["a0 = 2 and a1 >= 3"], ["1", "a0 = 2"], ["1"]], ids=str
)
def test_blocks_of_queries_that_tell_few_values_apart(asked):
    plan = rs.plan(rs.queries(rs.Domain.of_sizes({"a0": 4, "a1": 5}), asked), rs.ZCDP(0.5), form=rs.Blockwise())
    check_plan(plan)


@pytest.mark.parametrize("empty", [{"pieces": [], "places": None}, {"pieces": [{"families": []}], "places": None}])
def test_a_sealed_plan_of_buckets_that_asks_for_nothing(empty, tmp_path):
    body = {**made("runs").to_body(), "workload": empty}
    text = json.dumps(body, default=lambda array: np.asarray(array).tolist()).encode()
    (tmp_path / "plan.json").write_bytes(sealed("residua plan", 1, text))
    with pytest.raises(FileError, match="does not hold a valid plan"):
        rs.Plan.load(tmp_path / "plan.json")


def test_a_constant_query_of_noise_per_set():
    workload = rs.prefixes(DOMAIN, "t", by=["s"]) + rs.marginals(DOMAIN, [("s",)])
    plan = rs.plan(workload, rs.ZCDP(0.5), form=rs.Axis(apart=True))
    (total,) = plan.variances(rs.queries(DOMAIN, ["1"]))
    assert total == pytest.approx(float(plan.variance([])))
    assert plan.covariance(rs.queries(DOMAIN, ["1"])) == pytest.approx(total)


def test_comparing_products():
    domain = rs.Domain({"m": rs.Integers(0, 9), "s": ["F", "M"]})
    for workload in (rs.prefixes(domain, "m", by=["s"]), rs.product(domain, {"m": "prefixes"}, ways=2)):
        names = [each.name for each in rs.analysis.compare(workload, rs.ZCDP(0.5))]
        assert "independent noise" in names
    with pytest.raises(PlanError, match="is not a workload"):
        rs.analysis.compare(None, rs.ZCDP(0.5))


@pytest.mark.parametrize("name", ["axis, crossed", "two axes", "axis, crossed, levels"])
def test_noise_along_axes_is_read_with_others_where_cells_are_few(name):
    """As rows with independent noise of variance 1: they are those of the plan, and of counts without noise exact."""
    plan = made(name)
    case = Case(plan)
    counts = np.random.default_rng(3).integers(0, 50, case.measured.rows.shape[1])
    cells, rows, values = plan.estimator(plan.measurements, case.measured.rows @ counts).whitened()
    lifted = cells.over(tuple(range(len(plan.domain))), plan.domain.sizes)
    assert np.allclose(rows @ np.bincount(lifted, counts), values)
    gamma = case.measured.gamma(case.measured.noise)
    assert np.abs((rows.T @ rows)[np.ix_(lifted, lifted)] - gamma).max() < 1e-5 * np.diag(gamma).max()
    assert np.allclose(rows @ np.linalg.pinv(rows.T @ rows) @ rows.T, np.eye(len(rows)))
