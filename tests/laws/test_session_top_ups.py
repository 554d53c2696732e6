"""Top-ups: nothing is paid twice, and the ledger holds the exact cost of everything measured together."""

import tempfile
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import example, given, settings, strategies as st

import residua as rs
from residua.errors import PlanError
from residua.plans.verifier import composed_cost, priced
from tests.laws.sessions import BUDGET, CELLS, DATA, DOMAIN, OLD, ONE, THREE, TWO, YOUNG, Open, within


def test_asking_again_costs_nothing_and_is_not_even_recorded(opened: Open) -> None:
    session = opened()
    first = session.release(TWO)
    assert session.price(TWO) == 0
    again = session.release(TWO)
    assert len(session.ledger.entries) == 1
    assert again.estimates(("sex", "age")) == pytest.approx(first.estimates(("sex", "age")))
    assert session.price(rs.common([ONE, TWO])) == 0  # nor does anything within it


def test_a_top_up_pays_for_the_difference_and_pools_everything(opened: Open) -> None:
    session = opened(rs.ZCDP(2.0))
    session.release(ONE)
    together = composed_cost([ONE, rs.top_up(TWO, given=ONE)])
    assert session.price(TWO) == together - priced(ONE)[1]
    release = session.release(TWO)
    assert session.ledger.spent_exactly == together < priced(ONE)[1] + priced(TWO)[1]
    assert (release.plan.variances(TWO.workload) <= TWO.variances(TWO.workload) * (1 + 1e-9)).all()
    assert (release.plan.variances(ONE.workload) <= ONE.variances(ONE.workload) * (1 + 1e-9)).all()
    within(release, ("sex", "age"))


def test_disjoint_cells_are_free_but_recorded_before_the_data_is_read(opened: Open) -> None:
    session = opened()
    session.release(YOUNG)
    spent = session.ledger.spent_exactly
    assert session.price(OLD) == 0
    release = session.release(OLD)
    assert session.ledger.spent_exactly == spent
    [_, second] = session.ledger.entries
    assert (second.cost, second.detail["part"]) == (0, 2)
    assert float(Fraction(second.detail["alone"])) == pytest.approx(float(priced(OLD)[1]), rel=1e-6)
    assert release.count({"age": "old"}).stddev == pytest.approx(1.0, rel=1e-6)
    assert release.count({"age": "young"}).stddev == pytest.approx(1.0, rel=1e-6)
    assert abs(release.count({"age": "old"}).estimate - CELLS[:, 2].sum()) < 6


def test_other_debits_of_the_ledger_add_as_scalars(opened: Open, tmp_path: Path) -> None:
    session = opened(rs.ZCDP(1.0))
    session.release(YOUNG)
    rs.measure(rs.plan(YOUNG.workload, rs.ZCDP(0.25)), DATA, ledger=session.ledger)
    session.release(OLD)
    costs = [entry.cost for entry in session.ledger.entries]
    assert costs[2] == 0
    assert session.status.spent_exactly == costs[0]
    assert session.ledger.spent_exactly == costs[0] + costs[1]


@settings(max_examples=12, deadline=None)
@example(["look", "one"])
@given(st.lists(st.sampled_from(["one", "two", "three", "young", "old", "look"]), min_size=1, max_size=4))
def test_the_ledger_holds_the_exact_cost_of_everything_measured(asked: list[str]) -> None:
    plans = {"one": ONE, "two": TWO, "three": THREE, "young": YOUNG, "old": OLD}
    with tempfile.TemporaryDirectory() as folder:
        session = rs.Session(DATA, rs.ZCDP(10.0), ledger=f"{folder}/a.ledger")
        for name in asked:
            if name == "look":
                session.choose([ONE, THREE])
            else:
                release = session.release(plans[name])
                workload = plans[name].workload
                found = release.answers(workload).columns["stddev"] ** 2
                assert (found <= plans[name].variances(workload) * (1 + 1e-6)).all()
        measured = [part.planned for part in session._folder.parts().values()]
        exact = composed_cost(measured)
        assert exact <= session.ledger.spent_exactly <= exact * (1 + Fraction(1, 10**6))
        # Finishing pays the plan's own price, which is above that of its parts by what rounding saved (decision 9).
        assert session.ledger.spent_exactly <= sum(priced(plan)[1] for plan in measured) * (1 + Fraction(1, 10**9))
        alone = {**plans, "look": rs.common([ONE, THREE])}
        assert session.ledger.spent_exactly <= sum(priced(alone[name])[1] for name in asked)


@pytest.mark.parametrize("unit", [rs.ReplaceOne(), rs.AddRemove(3)])
def test_other_units_are_charged_exactly_as_well(tmp_path: Path, unit: rs.AddRemove | rs.ReplaceOne) -> None:
    one = rs.independent(ONE.workload, rs.ZCDP(0.5), unit=unit)
    three = rs.independent(THREE.workload, rs.ZCDP(0.5), unit=unit)
    session = rs.Session(DATA, rs.ZCDP(0.5), ledger=tmp_path / "a.ledger", unit=unit)
    session.choose([one, three]).finish(three)
    assert session.ledger.spent_exactly == priced(three)[1]
    with pytest.raises(PlanError, match="the ledger"):
        session.release(ONE if isinstance(unit, rs.ReplaceOne) else rs.plan(ONE.workload, rs.ZCDP(0.1)))


@pytest.mark.parametrize("kind", ["residual", "product", "dense"])
def test_the_total_that_a_replaced_record_leaves_as_it_is_costs_nothing(tmp_path: Path, kind: str) -> None:
    """Nothing is missing but (some of) the total: it is measured, free, and the plan is as accurate as it says."""
    unit = rs.ReplaceOne()
    if kind == "dense":
        rows = [[[1, -1]], [[1, -1], [1, 1]]]
        less, more = (rs.independent(rs.explicit(DOMAIN, w, on=["sex"]), BUDGET, unit=unit) for w in rows)
    else:
        asked = rs.marginals(DOMAIN, ways=1) if kind == "residual" else rs.prefixes(DOMAIN, "age")
        more = rs.plan(asked, BUDGET, unit=unit, form=rs.Lattice())
        precisions = more.precisions.copy()
        precisions[0] /= 4
        less = more.replaced(precisions=precisions)
    session = rs.Session(DATA, rs.ZCDP(2.0), ledger=tmp_path / "a.ledger", unit=unit)
    session.release(less)
    spent = session.ledger.spent_exactly
    assert session.price(more) < Fraction(1, 10**12)  # a bound on rounding, where matrices are in floating point
    release = session.release(more)
    assert session.ledger.spent_exactly - spent < Fraction(1, 10**12)
    assert len(session.ledger.entries) == 2
    found = release.answers(more.workload).columns["stddev"] ** 2
    assert found == pytest.approx(more.variances(more.workload), rel=1e-6)
    assert session.price(more) == 0


def test_a_look_at_nothing_but_the_total_costs_a_replaced_record_nothing(tmp_path: Path) -> None:
    unit = rs.ReplaceOne()
    plans = {name: rs.independent(rs.marginals(DOMAIN, [(), (name,)]), BUDGET, unit=unit) for name in ("sex", "age")}
    session = rs.Session(DATA, BUDGET, ledger=tmp_path / "a.ledger", unit=unit)
    choice = session.choose(plans)
    assert (len(session.ledger.entries), session.ledger.spent_exactly) == (1, 0)
    assert list(choice.signal("age").labels) == ["total"]
    choice.release.save(tmp_path / "look")
    assert "no cost" in (tmp_path / "look" / "PRIVACY.md").read_text()
    assert choice.nested is False
    session = rs.Session(DATA, ledger=tmp_path / "a.ledger")
    assert session.choice is not None
    session.choice.finish("age")
    assert session.ledger.spent_exactly == priced(plans["age"])[1]
