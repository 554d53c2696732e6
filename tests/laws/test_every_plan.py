"""One law over everything: each plan of the table is what dense matrices say, by `residua.testing.check_plan`."""

from dataclasses import replace
from fractions import Fraction
from functools import cache, partial

import numpy as np
import pytest

import residua as rs
from residua.errors import PlanError
from residua.plans.verifier import even
from residua.testing import LAWS, Case, check_plan
from tests.laws.every_plan import NAMES, made


@cache
def case(name):
    return Case(made(name))


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("plan", NAMES)
def test_the_law_holds(plan, law):
    LAWS[law](case(plan))


PLANTED = {
    "is_measured": ("blocks.integers", lambda true: lambda *given: true(*given) ** 2),
    "is_priced": ("blocks.price", lambda true: lambda unit: true(unit) * (1 - Fraction(1, 10**9))),
    "is_priced_together": ("blocks.profile", lambda true: lambda: even(Fraction(0))),
    "states_facts": ("_variances", lambda true: lambda workload: true(workload) * (1 - 1e-4)),
    "states_covariances": ("_covariance", lambda true: lambda *given: true(*given) * (1 - 1e-4)),
    "estimates_best": ("estimator", lambda true: lambda measurements, measured: true(measurements, np.flip(measured))),
    "is_as_accurate_as_stated": ("compile", lambda true: lambda: louder(true())),
    "is_kept_in_files": ("to_body", lambda true: lambda: halved(true())),
    "has_algebra": ("__add__", lambda true: lambda other: other),
}


def louder(measurements):
    return replace(measurements, scales=measurements.scales * 1.01)


def halved(body):
    return {**body, "precisions": [tau / 2 for tau in body["precisions"]]}


@pytest.mark.parametrize("law", LAWS)
def test_a_planted_defect_is_found(law, monkeypatch):
    """Each law fails once what it is about is a little wrong: none can only pass."""
    where, wrong = PLANTED[law]
    plan = made("products").replaced()
    check_plan(plan, laws=[law])
    holder = type(plan.measurements if where.startswith("blocks.") else plan)
    name = where.removeprefix("blocks.")
    true = getattr(holder, name)
    monkeypatch.setattr(holder, name, lambda self, *given: wrong(partial(true, self))(*given))
    with pytest.raises(AssertionError, match=law):
        check_plan(plan.replaced(), laws=[law])


def test_what_is_no_plan_has_a_bias_or_too_many_cells_is_refused():
    with pytest.raises(PlanError, match="not a plan"):
        check_plan("plan")
    many = rs.Domain.of_sizes([50, 50])
    with pytest.raises(PlanError, match="2,500"):
        check_plan(rs.plan(rs.marginals(many, ways=[1]), rs.ZCDP(0.5)))
