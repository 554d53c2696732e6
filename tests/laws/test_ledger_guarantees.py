"""What a ledger has spent and has left are guarantees, rounded against us; as numbers they work with a warning."""

from fractions import Fraction
from pathlib import Path

import pytest

import residua as rs
from residua.errors import PrivacyError
from residua.measurement import Ledger
from residua.privacy import Guarantee, Nothing, describe, epsilon_of
from residua.privacy.exact import epsilon_of_rho
from tests.laws.sessions import DATA as TABLE, ONE

BUDGETS = [rs.ZCDP(0.7), rs.GDP(1.3), rs.ApproxDP(1.1, 1e-7), rs.PureDP(0.9)]
DATA = "sha256:1f3c"


def debit(ledger: Ledger, cost: Fraction) -> None:
    ledger.debit(cost, purpose="tables", dataset=DATA, currency=ledger.currency)


def allowed(guarantee: object) -> Fraction:
    if isinstance(guarantee, rs.PureDP):
        return Fraction(guarantee.epsilon)
    return guarantee.pcost_allowed()  # type: ignore[attr-defined, no-any-return]


@pytest.mark.parametrize("budget", BUDGETS, ids=repr)
def test_spent_is_rounded_up_and_what_remains_can_be_spent(tmp_path: Path, budget: Guarantee) -> None:
    ledger = Ledger(tmp_path / "a.ledger", budget)
    assert (ledger.spent, ledger.remaining) == (Nothing(), budget)
    for part in (Fraction(1, 3), Fraction(1, 7), Fraction(1, 10**9)):
        debit(ledger, ledger.remaining_exactly * part)
        assert type(ledger.spent) is type(ledger.remaining) is type(budget)
        if not isinstance(budget, rs.ApproxDP):
            assert 0 <= allowed(ledger.spent) - ledger.spent_exactly < Fraction(1, 10**15)
        else:
            assert ledger.spent == rs.ApproxDP.of_pcost(ledger.spent_exactly, delta=budget.delta)
        left = allowed(ledger.remaining)
        assert 0 <= ledger.remaining_exactly - left < left * Fraction(1, 10**9)
    debit(ledger, allowed(ledger.remaining))
    debit(ledger, ledger.remaining_exactly) if ledger.remaining_exactly else None
    assert ledger.remaining == Nothing()
    assert ledger.spent.epsilon_at(1e-6) > 0


def test_a_plan_can_be_made_for_what_remains_and_none_for_nothing(tmp_path: Path) -> None:
    domain = rs.Domain({"sex": ["F", "M"]})
    for budget in BUDGETS:
        ledger = Ledger(tmp_path / f"{type(budget).__name__}.ledger", budget)
        debit(ledger, ledger.remaining_exactly / 3)
        plan = rs.plan(rs.marginals(domain, ways=1), ledger.remaining)
        assert plan.guarantee == ledger.remaining
    with pytest.raises(PrivacyError, match="nothing is left to spend"):
        rs.plan(rs.marginals(domain, ways=1), Nothing())


def test_a_sessions_status_tells_guarantees_too(tmp_path: Path) -> None:
    session = rs.Session(TABLE, rs.ZCDP(1.0), ledger=tmp_path / "a.ledger")
    assert (session.status.spent, session.status.remaining) == (Nothing(), rs.ZCDP(1.0))
    session.release(ONE)
    assert session.status.spent == session.ledger.spent
    assert session.status.remaining == session.ledger.remaining


def test_every_guarantee_tells_what_theorems_allow() -> None:
    zcdp, gdp, pure = rs.ZCDP(0.5), rs.GDP(1.0), rs.PureDP(1.0)
    assert zcdp.epsilon(1e-6) == zcdp.epsilon_at(1e-6) == epsilon_of_rho(0.5, 1e-6)
    assert gdp.epsilon(1e-6) == gdp.epsilon_at(1e-6) == epsilon_of(1.0, 1e-6) == describe(1).epsilons[0]
    assert (gdp.rho, pure.rho, pure.epsilon_at(1e-9)) == (0.5, 0.5, 1.0)
    approx = rs.ApproxDP(1.0, 1e-6)
    assert approx.epsilon_at(1e-6) == approx.epsilon_at(1e-3) == 1.0
    with pytest.raises(PrivacyError, match="says nothing at delta"):
        approx.epsilon_at(1e-7)
    with pytest.raises(PrivacyError, match="no theorem goes there"):
        _ = approx.rho
    assert (Nothing().rho, Nothing().mu, Nothing().epsilon(1e-6), Nothing().epsilon_at(0.5)) == (0.0, 0.0, 0.0, 0.0)
    for guarantee in (zcdp, gdp, pure):
        with pytest.raises(PrivacyError, match="delta"):
            guarantee.epsilon_at(0.0)


def test_guarantees_are_values(tmp_path: Path) -> None:
    assert len({rs.ZCDP(0.5), rs.ZCDP(0.5), rs.GDP(0.5), rs.PureDP(0.5), Nothing()}) == 4
    assert Ledger(tmp_path / "a.ledger", rs.ZCDP(0.5)).spent == Nothing()
    assert rs.ZCDP(0.5) not in (0.5, 1, "much", rs.GDP(0.5))
