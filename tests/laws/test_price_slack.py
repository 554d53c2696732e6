"""How far prices are above the truth: as `docs/privacy.md` states it, against brute force over all changes."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import residua as rs
from residua.testing.case import Case, changes_of, measured_by
from tests.laws.every_plan import made

_PAGE = (Path(__file__).parents[2] / "docs" / "privacy.md").read_text(encoding="utf-8")
STATED = {
    kind: (float(replaced), float(person))
    for kind, replaced, person in re.findall(r"^\| ([^|]+) \| ([\d.]+) \| ([\d.]+) \|$", _PAGE, re.MULTILINE)
}
PLANS = {
    "marginals": "marginals, replaced",
    "products of rows": "products, crossed",
    "one matrix": "matrix",
    "blockwise": "blockwise",
    "a tree, crossed": "tree, crossed",
    "strata": "by group, limited",
    "correlated noise along one attribute": "axis",
    "the same with levels": "axis, levels",
    "the same, crossed": "axis, crossed",
    "correlated noise per set": "noise per set",
    "tables, with Laplace noise": "tables",
    "nested buckets, with Laplace noise": "runs",
}


def above(plan, unit):
    """The price over what the most expensive change of the data costs."""
    truth = Case(plan).measured.largest_cost(changes_of(plan.domain, unit))
    return float(plan.measurements.price(unit) / truth)


@pytest.mark.parametrize("kind", PLANS)
def test_prices_are_no_further_above_the_truth_than_stated(kind):
    plan = made(PLANS[kind])
    sizes = {name: plan.domain[name].size for name in plan.domain.names if plan.domain[name].size > 1}
    longest = max(sizes, key=lambda name: sizes[name])
    replaced = above(plan, rs.ReplaceOne())
    persons = [rs.Person(2, one_per=name) for name in sizes] + [rs.Person(3, per={longest: 2})]
    person = max(above(plan, unit) for unit in persons)
    assert replaced == pytest.approx(STATED[kind][0], abs=0.006)
    assert person == pytest.approx(STATED[kind][1], abs=0.006)


@pytest.mark.parametrize("seed", range(6))
def test_operators_that_differ_by_set_are_never_priced_below_the_truth(seed):
    """What one set takes from another in the price of residuals it may not take where their operators differ."""
    numbers, plan = np.random.default_rng(seed), made("tree, crossed")
    for _ in range(8):
        parts = {
            members: replace(each, precisions=tuple(p * 10 ** numbers.uniform(-2, 2, len(p)) for p in each.precisions))
            for members, each in plan.parts.items()
        }
        measurements = plan.with_parts(parts).measurements
        measured = measured_by(measurements, plan.domain.sizes.tolist())
        for name in plan.domain.names[:2]:
            for unit in (rs.Person(2, one_per=name), rs.Person(3, per={name: 2})):
                truth = measured.largest_cost(changes_of(plan.domain, unit))
                assert truth <= measurements.price(unit)


def test_the_page_states_each_kind():
    assert set(STATED) == set(PLANS)
