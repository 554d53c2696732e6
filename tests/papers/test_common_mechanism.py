"""The figures printed in the common-mechanism paper: examples 3.3, 3.8 and 3.12, and the budget saved."""

from pathlib import Path

import numpy as np
import pytest

import residua as rs
from benchmarks.paper.common_mechanism import BRAZIL, Pair, budget_saved
from benchmarks.paper.tables import DIFFERS, EQUAL
from residua.plans.matrix import loewner
from residua.plans.matrix.loewner import standardise
from tests.laws.dense import recreate


def cells(n):
    return rs.Domain({"x": rs.Integers(0, n - 1)})


def noisy(domain, rows):
    """Independent noise on each row, at privacy cost 1."""
    return rs.independent(rs.explicit(domain, np.array(rows, dtype=float)), rs.GDP(mu=1.0))


def test_example_3_3():
    Ba, Sa = np.array([[1.0, 1], [1, 0], [0, 1]]), 2 * np.eye(3)
    Bb, Sb = np.eye(2), np.array([[4, -2], [-2, 4]]) / 3
    A, C = loewner.derivation(Ba, Sa, Bb, Sb)
    assert np.allclose(A, np.array([[1, 2, -1], [1, -1, 2]]) / 3, atol=1e-14)
    assert C.shape == (2, 0)
    A, C = loewner.derivation(Bb, Sb, Ba, Sa)
    assert np.allclose(A, Ba, atol=1e-14)
    assert C.shape == (3, 1)  # the noise that consistency removes, in one direction (its sign is free)
    assert np.allclose(C @ C.T, 2 / 3 * np.outer([1, -1, -1], [1, -1, -1]), atol=1e-14)
    a, b = (standardise(np.linalg.solve(np.linalg.cholesky(S), rows)) for rows, S in ((Ba, Sa), (Bb, Sb)))
    assert loewner.answers(a, b.rows)
    assert loewner.answers(b, a.rows)
    plan = noisy(cells(2), Ba)
    assert np.allclose(plan.covariance(rs.explicit(cells(2), np.eye(2))), Sb, rtol=1e-8)
    A, C = rs.analysis.derivation(plan, plan)
    assert np.allclose(A @ A.T + C @ C.T, np.eye(3), atol=1e-8)


def test_example_3_8():
    domain = cells(3)
    total = rs.explicit(domain, np.ones((1, 3)))
    first, second = noisy(domain, np.ones((1, 3))), noisy(domain, np.vstack([np.ones((1, 3)), np.eye(3)]))
    assert first.variances(total) == pytest.approx([1.0], rel=1e-9)
    assert np.allclose(second.noise_variance / second.strategy.max() ** 2, 2.0)  # each row with variance 2
    assert np.allclose(second.reconstruction(total) * second.strategy.max(), [[0.75, 0.25, 0.25, 0.25]])
    third = first.replaced(scale=first.scale * np.sqrt(2.0))
    fourth = rs.common([first, second])
    assert fourth.variances(total) == pytest.approx([1.5], rel=1e-8)
    assert fourth.pcost == pytest.approx(1 / 1.5, rel=1e-8)
    assert first.can_answer(third)
    assert second.can_answer(third)
    assert fourth.can_answer(third)
    assert not third.can_answer(fourth)
    more = first.replaced(scale=first.scale * np.sqrt(1.49))
    assert first.can_answer(more)
    assert not second.can_answer(more)


def test_example_3_12():
    domain = rs.Domain.of_sizes({"one": 3, "two": 3})
    Q1, Q2 = np.kron(np.eye(3), np.ones((1, 3))), np.kron(np.ones((1, 3)), np.eye(3))
    dense = [noisy(domain, Q1), noisy(domain, Q2)]
    closed = [rs.independent(rs.marginals(domain, [name]), rs.GDP(1.0)) for name in (("one",), ("two",))]
    apart = np.array([[0, 1, -1], [-1, 1, 0]])
    rows = [np.kron(apart, np.ones((1, 3))), np.kron(np.ones((1, 3)), apart)]
    for candidates in (dense, closed, [dense[0], closed[1]], [closed[0], dense[1]]):
        common = rs.common(candidates)
        assert common.pcost == pytest.approx(1 / 3, rel=1e-8)
        assert np.allclose(common.variance(()), 3.0, rtol=1e-8)
        assert not common.supports(("one",))
        for which, plan in enumerate(candidates):
            left = rs.residual(plan, given=common)
            assert not left.supports(())
            if candidates is not closed:
                differences = rs.explicit(domain, rows[which])
                assert np.allclose(left.covariance(differences), [[2, 1], [1, 2]], rtol=1e-8)
    # Recreating M₁. (The paper prints −2/3 for the last weight of M*; only 1/3 makes the counts add up.)
    parts = [(np.ones((1, 9)), np.array([[3.0]])), (rows[0].astype(float), np.array([[2.0, 1.0], [1.0, 2.0]]))]
    whole, difference = recreate(Q1, np.eye(3), parts)
    assert np.allclose(whole, np.full((3, 1), 1 / 3), atol=1e-14)
    assert np.allclose(difference, np.array([[1, -2], [1, 1], [-2, 1]]) / 3, atol=1e-14)
    assert np.allclose(whole @ parts[0][0] + difference @ parts[1][0], Q1, atol=1e-14)
    covariance = whole @ parts[0][1] @ whole.T + difference @ parts[1][1] @ difference.T
    assert np.allclose(covariance, np.eye(3), atol=1e-14)


SAVINGS = [
    ("Brazil 1-way vs 2-way", {"age": 101, "gender": 2}, (1, 2), 50.5),
    ("HisRace 1-way vs 2-way", dict.fromkeys("abcdefg", 2), (1, 2), 75.0),
    ("HisRace 1-way vs identity", dict.fromkeys("abcdefg", 2), (1, 7), 6.25),
]


@pytest.mark.parametrize(("sizes", "ways", "saved"), [row[1:] for row in SAVINGS], ids=[row[0] for row in SAVINGS])
@pytest.mark.parametrize("kinds", ["residual", "dense", "mixed"])
def test_the_budget_saved(sizes, ways, saved, kinds):
    domain = rs.Domain.of_sizes(sizes)
    asked = [rs.marginals(domain, ways=k) for k in ways]
    if kinds != "residual":
        asked[0] = asked[0].listed()
    if kinds == "dense":
        asked[1] = asked[1].listed()
    candidates = [rs.independent(workload, rs.GDP(mu=1.0)) for workload in asked]
    common = rs.common(candidates)
    assert round(100 * common.pcost, 2) == pytest.approx(saved, abs=0.005)
    for plan in candidates:
        assert plan.can_answer(common)
        left = rs.residual(plan, given=common)
        assert left.pcost + common.pcost == pytest.approx(plan.pcost, rel=1e-7)
        assert (common + left).equivalent(plan)


def test_the_budget_saved_by_its_definition_and_as_printed():
    """The optimum that matches the look's variances costs less than the look, whose price is what the paper prints."""
    table = budget_saved()
    for _, (own, matched, beside) in table.rows:
        assert (own.verdict, matched.verdict, beside.verdict) == (EQUAL, EQUAL, DIFFERS)
        assert matched.ours < own.ours
    assert [round(row[1].ours, 2) for _, row in table.rows] == [73.84, 5.19, 50.44]


def test_choices_of_a_pair_on_made_up_groups():
    """Brazil's shares by hand: cells of age have two cells of noise 1/(2 rho), those of gender 101."""
    counts = np.zeros((3, 202))
    counts[1] = 3.0  # every age has 6
    counts[2, :2] = 1000.0
    pair = Pair(BRAZIL, 2, 1.0)
    assert pair.choices(counts, 0.3, 3.0)[:2] == pytest.approx((200 / 3, 100 / 3))
    assert pair.choices(counts, 0.3, 6.01)[:2] == pytest.approx((100, 0))
    # A count of 3 has a ratio of exactly 3 at rho 1: as good as at rho 2, so that Table 5 repeats its first row.
    edge = np.tile([2.0, 1.0], 101)[None]
    assert pair.choices(edge, 0.3, 3.0)[1] == 100
    assert pair.choices(edge, 0.3, 3.0001)[1] == 0


def test_every_function_of_analysis_is_in_the_reference():
    """`rs.analysis.derivation` (Lemma 3.2) among them, which is defined elsewhere."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "reference.md").read_text(encoding="utf-8")
    functions = [name for name in rs.analysis.__all__ if name[0].islower()]
    assert "derivation" in functions
    assert [name for name in functions if f"rs.analysis.{name}(" not in page] == []
