"""What a session refuses, before anything is spent."""

from pathlib import Path

import pyarrow as pa
import pytest

import residua as rs
from residua.errors import FileError, LedgerError, PlanError, SessionError, SourceError
from tests.laws.sessions import BUDGET, DATA, DOMAIN, OLD, ONE, THREE, TWO, YOUNG, Open


def test_a_candidate_dearer_than_the_budget_is_refused_before_anything_is_spent(opened: Open) -> None:
    session = opened()
    dear = rs.independent(rs.marginals(DOMAIN, ways=2), rs.ZCDP(0.6))
    with pytest.raises(LedgerError, match=r"the candidate 'plan 2' costs more than the budget: rho 0\.5 left"):
        session.choose([ONE, dear])
    with pytest.raises(LedgerError, match="costs more than the budget"):
        session.release(dear)
    assert session.ledger.entries == ()
    assert session.status.choices == {}


def test_a_limit_of_the_sessions_own_holds_within_a_larger_ledger(tmp_path: Path) -> None:
    ledger = rs.Ledger(tmp_path / "a.ledger", rs.ZCDP(5.0))
    session = rs.Session(DATA, rs.ZCDP(0.5), ledger=ledger)
    session.release(ONE)
    with pytest.raises(LedgerError, match="costs more than the budget"):
        session.release(THREE)
    with pytest.raises(SessionError, match="has the budget"):
        rs.Session(DATA, rs.ZCDP(0.7), ledger=ledger)


def test_candidates_must_be_plans_over_one_domain(opened: Open) -> None:
    session = opened()
    other = rs.independent(rs.marginals(rs.Domain.of_sizes({"a": 2}), ways=1), rs.ZCDP(0.5))
    with pytest.raises(PlanError, match="'plan 2' is over another domain"):
        session.choose([ONE, other])
    with pytest.raises(PlanError, match="at least two plans"):
        session.choose([ONE])
    with pytest.raises(PlanError, match="at least two plans"):
        session.choose(ONE)
    with pytest.raises(PlanError, match="is not a plan"):
        session.choose([ONE, "two"])
    with pytest.raises(PlanError, match="nothing in common"):
        session.choose([YOUNG, OLD])
    session.release(ONE)
    for attempt in (session.release, session.price, lambda plan: session.choose([plan, plan])):
        with pytest.raises(PlanError, match="what the session has measured are over different domains"):
            attempt(other)
    assert len(session.ledger.entries) == 1


def test_what_cannot_be_read_back_is_not_paid_for(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    from residua.session import measuring as steps

    monkeypatch.setattr(steps, "top_up", lambda plan, given: rs.top_up(plan, given=given).replaced(gap=-1.0))
    session = opened(rs.ZCDP(5.0))
    session.release(YOUNG)
    with pytest.raises(FileError, match="does not hold a valid plan"):
        session.release(OLD)
    assert len(session.ledger.entries) == 1


def test_finishing_twice_is_refused(opened: Open) -> None:
    choice = opened(rs.ZCDP(5.0)).choose([ONE, TWO])
    choice.finish(ONE)
    with pytest.raises(SessionError, match=r"this choice is closed: it finished 'plan 1'"):
        choice.finish(ONE)
    with pytest.raises(SessionError, match="closed"):
        choice.finish(TWO)
    with pytest.raises(PlanError, match="is not one of the candidates"):
        choice.finish(THREE)
    with pytest.raises(PlanError, match="no candidate 'plan 3'"):
        choice.finish("plan 3")


def test_a_look_at_data_that_does_not_fit_leaves_nothing_behind(tmp_path: Path) -> None:
    data = pa.table({"sex": ["F", "X"], "age": ["old", "old"], "smokes": ["no", "no"]})
    session = rs.Session(data, BUDGET, ledger=tmp_path / "a.ledger")
    with pytest.raises(SourceError, match="'sex' has values outside"):
        session.choose([ONE, TWO])
    assert session.status.choices == {}
    assert session.ledger.entries == ()
    assert session.choice is None
    assert session.known is None


@pytest.mark.parametrize(
    "plan",
    [
        rs.plan(rs.marginals(DOMAIN, ways=1), rs.PureDP(2.0)),
        rs.plan(rs.queries(DOMAIN, {"young": "age = 'young'"}), rs.PureDP(2.0)),
    ],
    ids=["pure marginals", "pure"],
)
def test_a_plan_that_cannot_be_pooled_is_refused_before_anything_is_spent(tmp_path: Path, plan: rs.Plan) -> None:
    # An epsilon would be debited as if it were a pcost, and the release could not be read.
    session = rs.Session(DATA, rs.ZCDP(50.0), ledger=tmp_path / "ledger")
    for attempt in (session.price, session.release, lambda plan: session.choose([plan, plan])):
        with pytest.raises(PlanError, match="cannot be pooled"):
            attempt(plan)
    assert session.ledger.spent_exactly == 0
    assert not list((session.path / "parts").iterdir())


def test_budgets_of_two_currencies_are_refused_and_leave_nothing_behind(tmp_path: Path) -> None:
    ledger = rs.Ledger(tmp_path / "pure", rs.PureDP(1.0))
    for held in (ledger, ledger.path):
        with pytest.raises(SessionError, match="not counted alike"):
            rs.Session(DATA, rs.ZCDP(0.5), ledger=held)
    assert [path.name for path in tmp_path.iterdir()] == ["pure"]
