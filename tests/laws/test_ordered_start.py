"""Searches for strategies of ordered attributes begin at the dense optimum of the attribute alone."""

import numpy as np
import pytest

import residua as rs
from residua.plans.solver.ordered import FEWEST_VALUES as FEW, ordered_start
from residua.workload import Identity
from residua.workload.asking import Prefixes, Ranges

KINDS = {
    "prefixes": (Prefixes,),
    "ranges": (Ranges,),
    "prefixes and values": (Prefixes, Identity),
    "all": (Identity, Ranges, Prefixes),
}


@pytest.mark.parametrize("kinds", KINDS.values(), ids=KINDS)
def test_it_is_the_dense_optimum(kinds: tuple[type, ...]) -> None:
    """No cell is more expensive than others, and the spread is that of the best noise."""
    asked = [kind(FEW) for kind in kinds]
    found = ordered_start(asked)
    assert found is not None
    q, v = found
    G = sum(each.gram() / each.gram().trace() for each in asked)
    energies, U = np.linalg.eigh(np.sqrt(q)[:, None] * G * np.sqrt(q))
    root = (U * np.sqrt(np.maximum(energies, 0.0))) @ U.T
    np.testing.assert_allclose(np.diag(root) / (q * root.trace()), 1.0, atol=2e-3)
    inverse = np.sqrt(q)[:, None] * np.linalg.inv(root) * np.sqrt(q)
    np.testing.assert_allclose(v, inverse.sum(axis=1) / inverse.sum(), atol=1e-4)


def test_other_rows_and_few_values_have_none() -> None:
    """Equal weights are where these begin."""
    assert ordered_start([Prefixes(FEW - 1)]) is None
    assert ordered_start([Prefixes(FEW, other=True)]) is None
    assert ordered_start([Identity(FEW)]) is None
    halves = rs.Integers(0, FEW - 1, levels={"half": {"a": range(FEW // 2), "b": range(FEW // 2, FEW)}})
    levels = rs.hierarchy(rs.Domain({"x": halves}), "x").families[0].queries[0]
    assert ordered_start([Prefixes(FEW), levels]) is None


def test_one_round_suffices_alone() -> None:
    """Fifteen without it."""
    domain, seen = rs.Domain({"x": rs.Integers(0, FEW - 1)}), []
    plan = rs.plan(rs.prefixes(domain, "x"), rs.GDP(1.0), progress=lambda rounds, gap: seen.append(rounds))
    assert max(seen) <= 2
    assert plan.gap < 1e-6
