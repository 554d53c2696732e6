"""What a plan's print says of its objective and its noise, with the figures of other choices for this very workload."""

import math
import re

import numpy as np
import pytest

import residua as rs
from residua.cli.spec import spec_of
from residua.report import alternatives as module
from residua.report.contents import report_html
from residua.ui.facts import facts_of

DOMAIN = rs.Domain.of_sizes({"a": 10, "b": 3, "c": 50, "s": 2})
WORKLOAD = rs.marginals(DOMAIN, ways=[1, 2])
BUDGET = rs.ZCDP(rho=0.05)
FEW = "small tables have the largest errors"


def figures(plan, workload=WORKLOAD):
    largest = math.sqrt(plan.variances(workload).max())
    return f"{largest:.3g} (root mean square {math.sqrt(plan.variances(workload).mean()):.3g})"


def test_a_total_says_that_small_tables_have_the_largest_errors_and_what_others_would_give():
    plan = rs.plan(WORKLOAD, BUDGET)
    text = str(plan)
    assert f"{FEW} (17 in a table of 2 and 4.75 in a table of 500): a total over all cells" in text
    even = rs.plan(WORKLOAD, BUDGET, minimise=rs.MaxVariance(), tolerance=1e-2)
    weighted = rs.plan(rs.marginals(DOMAIN, ways=[1, 2], weight="1/cells"), BUDGET)
    offered = (
        f'{figures(even)} with MaxVariance or {figures(weighted)} with weight="1/cells", instead of {figures(plan)}'
    )
    assert f"largest standard deviation {offered}" in text
    assert FEW.capitalize() in report_html(plan)
    assert "with MaxVariance or" in report_html(plan)


def test_sums_of_amounts_are_not_compared_with_counts():
    domain = rs.Domain({"a": range(10), "s": [0, 1], "cost": rs.Amount(0, 500)})
    text = str(rs.plan(rs.marginals(domain, ways=[1, 2]), BUDGET))
    [few] = re.findall(rf"{FEW} \(.* in a table of (\d+) and .* in a table of 20\)", text)
    assert int(few) == 2
    assert "would weigh small tables more" in text
    assert "largest standard deviation" not in text


def test_with_laplace_noise_alternatives_have_the_price_of_plans_that_were_made():
    """A short search finds them: no figure is below what planning itself gives, and none far above."""
    domain = rs.Domain.of_sizes({"a": 10, "b": 3, "s": 2})
    workload = rs.marginals(domain, ways=[1, 2])
    text = str(rs.plan(workload, rs.PureDP(1.0)))
    words = r'largest standard deviation ([\d.]+) .* with MaxVariance or ([\d.]+) .* with weight="1/cells", instead of '
    offered = map(float, re.search(words, text).groups())
    even = rs.plan(workload, rs.PureDP(1.0), minimise=rs.MaxVariance())
    weighted = rs.plan(rs.marginals(domain, ways=[1, 2], weight="1/cells"), rs.PureDP(1.0))
    for figure, plan in zip(offered, (even, weighted), strict=True):
        assert 0.99 <= figure / math.sqrt(plan.variances(workload).max()) < 1.1


@pytest.mark.parametrize(
    ("workload", "options"),
    [
        (rs.marginals(DOMAIN, [("a",)]), {}),
        (rs.marginals(rs.Domain.of_sizes({"a": 4, "b": 4}), ways=1), {}),
        (WORKLOAD, {"minimise": rs.MaxVariance()}),
        (WORKLOAD, {"minimise": rs.PNormVariance(3.0)}),
        (rs.explicit(DOMAIN, np.eye(3), on=["b"]), {}),
    ],
)
def test_nothing_is_said_where_tables_are_alike_or_something_else_was_minimised(workload, options):
    assert FEW not in str(rs.plan(workload, BUDGET, **options))


def test_ordered_attributes_are_compared_by_their_largest_variance():
    workload = rs.prefixes(DOMAIN, "c", by=["b"]) + rs.prefixes(DOMAIN, "c")
    plan = rs.plan(workload, BUDGET)
    assert f"with MaxVariance, instead of {figures(plan, workload)}" in str(plan)


def test_what_would_take_long_is_not_planned(monkeypatch):
    plans = [rs.plan(WORKLOAD, BUDGET), rs.plan(WORKLOAD, rs.PureDP(1.0))]
    monkeypatch.setattr(module, "_MOST_TABLES", 3)
    monkeypatch.setattr(module, "_MOST_SPLIT", 3)
    monkeypatch.setattr(module, "best_plan", None)  # whoever calls it fails
    normal, laplace = map(str, plans)
    for text in (normal, laplace):
        assert 'MaxVariance or weight="1/cells" would weigh small tables more' in text
    assert "epsilon comes without a delta; with a delta the noise would be normal" in laplace


def test_planning_itself_compares_nothing(monkeypatch):
    monkeypatch.setattr(module, "best_plan", None)
    rs.plan(WORKLOAD, BUDGET)
    rs.plan(WORKLOAD, rs.PureDP(1.0))


def test_an_epsilon_without_a_delta_says_that_noise_is_laplace_and_what_a_delta_would_give():
    workload = rs.marginals(rs.Domain.of_sizes({f"a{i}": 4 for i in range(12)}), ways=2)
    plan, normal = rs.plan(workload, rs.PureDP(1.0)), rs.plan(workload, rs.ApproxDP(1.0, 1e-6))
    own, other = (math.sqrt(each.variances(workload).mean()) for each in (plan, normal))
    assert other < own
    said = f"root mean square {own:.3g}; normal noise with a delta of 1e-06 would have {other:.3g}"
    assert f"Noise       Laplace, because epsilon comes without a delta: {said}" in str(plan)
    assert "Laplace" not in str(normal)


def test_a_loose_bound_is_not_called_a_proof_of_the_best():
    plan = rs.plan(WORKLOAD, rs.PureDP(1.0))
    (times,) = re.findall(r"not proven the best; the best possible is at most ([\d.]+) times better", str(plan))
    assert plan.gap >= 1
    assert plan.gap + 1 <= float(times) <= (plan.gap + 1) * 1.05
    assert "Objective   TotalVariance: proven the best possible" in str(rs.plan(WORKLOAD, BUDGET))
    assert "It is not proven the best; the best possible is at most" in report_html(plan)


def test_the_planner_page_says_the_same(tmp_path):
    content = {
        "domain": {"a": {"values": ["x", "y"]}, "b": {"values": ["p", "q", "r"]}},
        "workload": [{"ways": [1, 2]}],
        "privacy": {"epsilon": 1.0},
    }
    remarks = facts_of(spec_of(content, tmp_path), {})["remarks"]
    assert any(remark.startswith(f"Sizes: {FEW}") for remark in remarks)
    assert any(remark.startswith("Noise: Laplace, because epsilon comes without a delta") for remark in remarks)
