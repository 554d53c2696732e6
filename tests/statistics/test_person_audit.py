"""Datasets that differ in one person with many records cannot be told apart better than claimed: 200,000 releases each.

The attacker knows the plan, both datasets and the secret key, and uses the likelihood ratio of everything released,
which is the best test there is.
"""

import math
from statistics import NormalDist

import numpy as np
import pyarrow as pa
import pytest

import residua as rs
from residua.linalg.lattice import closure, layout_of
from residua.plans.verifier import priced
from residua.privacy import delta_of
from residua.source.bound import bound_of
from tests.statistics.test_audit import ALARM, RELEASES, scores

DOMAIN = rs.Domain({"a": rs.Integers(0, 2), "b": rs.Integers(0, 1)})
EVERYONE = {"x": [(0, 0)] * 30, "y": [(1, 1)] * 2, "z": [(2, 1)] * 9}


def counted(people: dict[str, list[tuple[int, int]]], unit: rs.Person, key: bytes) -> np.ndarray:
    """What a release counts of a dataset: the table of everything, through the counting itself."""
    rows = [(who, *record) for who, records in people.items() for record in records]
    table = pa.table(dict(zip(("who", "a", "b"), map(list, zip(*rows, strict=True)), strict=True)))
    lattice = closure([np.array([[0, 1]], dtype=np.int32)], 2)
    layout = layout_of(lattice, DOMAIN.sizes, lattice.is_maximal)
    source = rs.Source.frame(table, person="who")
    return source.count(DOMAIN, layout, None, bound_of(unit, DOMAIN, key)).tables.reshape(3, 2)


def worst_breach(unit: rs.Person, enforced: rs.Person, joins: list[tuple[int, int]]) -> float:
    """How many standard errors the best attack beats the claim for `unit` by, where `enforced` is what is counted."""
    plan = rs.plan(rs.marginals(DOMAIN, ways=[1, 2]), rs.GDP(mu=1.0), unit=unit)
    mu, key = math.sqrt(priced(plan)[1]), bytes(range(32))
    with_p, without_p = counted({**EVERYONE, "p": joins}, enforced, key), counted(EVERYONE, enforced, key)
    added = with_p - without_p
    more, fewer = scores(plan, with_p, added), scores(plan, without_p, added)
    middle, worst = (more.mean() + fewer.mean()) / 2, -math.inf
    for p_scores, q_scores, sign in ((more, fewer, 1), (fewer, more, -1)):
        for epsilon in (0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0):
            p, q = ((sign * (each - middle) > epsilon).mean() for each in (p_scores, q_scores))
            p0, q0 = (NormalDist().cdf(half - epsilon / mu) for half in (mu / 2, -mu / 2))
            error = math.sqrt((p0 * (1 - p0) + math.exp(2 * epsilon) * q0 * (1 - q0)) / RELEASES)
            worst = max(worst, (p - math.exp(epsilon) * q - delta_of(mu, epsilon)) / error)
    return worst


@pytest.mark.parametrize("joins", [[(1, 0)] * 40, [(0, 0), (1, 1), (2, 0)] * 20], ids=["all alike", "of three kinds"])
def test_one_person_with_many_records_cannot_be_seen_better_than_claimed(joins: list[tuple[int, int]]) -> None:
    unit = rs.Person(3)
    breach = worst_breach(unit, unit, joins)
    assert breach < -NormalDist().inv_cdf(ALARM / 14)
    if len(set(joins)) == 1:
        assert breach > -6  # three records in the most expensive cell are all that the claim allows for


def test_a_bound_that_is_not_kept_is_caught() -> None:
    assert worst_breach(rs.Person(3), rs.Person(4), [(1, 0)] * 40) > 20
