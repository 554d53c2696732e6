"""Plans of any kinds together: nobody pays less than the truth, found by brute force from what is really measured."""

import itertools
import random
from functools import cache

import numpy as np
import pytest

import residua as rs
from residua.plans.verifier import price
from residua.testing.case import changes_of, measured_by
from tests.laws.every_plan import NAMES, made

NORMAL = [name for name in NAMES if made(name).noise.gaussian]
TOGETHER = [
    names
    for count in (2, 3)
    for names in itertools.combinations(NORMAL, count)
    if len({made(name).domain for name in names}) == 1
]
SOME = random.Random(26).sample(TOGETHER, 60)


@cache
def gamma(name):
    """The privacy cost matrix of what a plan really measures, (cells, cells)."""
    plan = made(name)
    measured = measured_by(plan.measurements, [int(n) for n in plan.domain.sizes])
    return measured.gamma(measured.bare)


def units_of(domain):
    first, second, *_ = domain.names
    limited = [rs.Person(2, one_per=first), rs.Person(3, per={second: 2}), rs.Person(3, per={first: 1, second: 2})]
    return [rs.AddRemove(), rs.ReplaceOne(), *limited]


def check(names, price):
    domain = made(names[0]).domain
    whole = sum(gamma(name) for name in names)
    measured = [made(name).measurements for name in names]
    for unit in units_of(domain):
        own, changes = float(price(measured, unit)), changes_of(domain, unit)
        truth = float(np.einsum("ij,jk,ik->i", changes, whole, changes).max())
        assert own >= truth * (1 - 1e-7), f"{unit}: {own} is less than the truth, {truth}"
        assert own <= sum(float(each.price(unit)) for each in measured) * (1 + 1e-12), (
            f"{unit}: more than each by itself"
        )


@pytest.mark.parametrize("names", SOME, ids=" + ".join)
def test_together_nobody_pays_less_than_the_truth_nor_more_than_each_by_itself(names):
    check(names, price)


@pytest.mark.parametrize("names", SOME[:5], ids=" + ".join)
def test_a_verifier_that_forgets_a_measurement_is_found(names):
    with pytest.raises(AssertionError, match="less than the truth"):
        check(names, lambda measured, unit: price(measured[1:], unit))


@pytest.mark.parametrize("most_cells", [2**20, 0], ids=["listed", "too many to list"])
def test_a_record_that_moves_from_one_plan_to_another_pays_both(monkeypatch, most_cells):
    monkeypatch.setattr("residua.plans.cells.MOST_CELLS", most_cells)
    domain = rs.Domain({"age": rs.Integers(0, 9)})
    halves = [rs.plan(rs.queries(domain, [half]), rs.GDP(1.0)) for half in ("age < 5", "age >= 5")]
    measured = [plan.measurements for plan in halves]
    assert float(price(measured, rs.AddRemove())) == pytest.approx(1.0 if most_cells else 2.0, rel=1e-6)
    assert float(price(measured, rs.ReplaceOne())) == pytest.approx(2.0, rel=1e-6)
