"""Choices: a look that no candidate wastes, what it tells, and the exact price of the one that is finished."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import residua as rs
from residua.errors import PlanError, SessionError
from residua.plans.verifier import composed_cost, priced
from residua.session.measuring import missing, require_telling
from tests.laws.sessions import BUDGET, CELLS, DOMAIN, ONE, THREE, TWO, Open, within

CHAIN = {"total": (), "sex": ("sex",), "age": ("age",)}


@pytest.mark.parametrize("chosen", ["one", "two", "three"])
def test_a_finished_choice_costs_exactly_the_chosen_plan_and_is_as_accurate(opened: Open, chosen: str) -> None:
    session, plans = opened(), {"one": ONE, "two": TWO, "three": THREE}
    choice = session.choose(plans)
    assert session.ledger.spent_exactly == priced(rs.common(list(plans.values())))[1]  # the look, and nothing more
    assert 0 < session.ledger.spent_exactly < priced(plans[chosen])[1]
    release = choice.finish(chosen)
    assert session.ledger.spent_exactly == priced(plans[chosen])[1]
    workload = plans[chosen].workload
    assert release.plan.variances(workload) == pytest.approx(plans[chosen].variances(workload), rel=1e-9)
    within(release, plans[chosen].workload.sets[0])


def test_stopping_after_the_look_costs_only_the_look(opened: Open) -> None:
    session = opened()
    choice = session.choose([ONE, TWO])
    look = session.ledger.spent_exactly
    choice.stop()
    assert session.ledger.spent_exactly == look == priced(rs.common([ONE, TWO]))[1]
    with pytest.raises(SessionError, match="stopped after the look"):
        choice.finish(ONE)
    within(choice.release, ("sex",))


def test_the_look_answers_what_the_candidates_share_and_bounds_the_signal(opened: Open) -> None:
    choice = opened().choose({"one": ONE, "three": THREE})
    shared = rs.common([ONE, THREE])
    found = choice.estimates()
    assert found.columns["query"][:2] == ["sex=F", "sex=M"]
    assert found.columns["stddev"] == pytest.approx(np.sqrt(shared.variances(ONE.workload)), rel=1e-9)
    assert found.columns["upper"] - found.columns["lower"] == pytest.approx(2 * 1.959964 * found.columns["stddev"])
    for name, plan in (("one", ONE), ("three", THREE)):
        signal = choice.signal(name)
        stddevs = np.sqrt(plan.variances(ONE.workload))
        assert signal.lower == pytest.approx((signal.estimates - 3 * found.columns["stddev"]) / stddevs)
        assert signal.upper == pytest.approx((signal.estimates + 3 * found.columns["stddev"]) / stddevs)
        assert len(signal) == ONE.workload.queries
    truth = CELLS.sum(axis=(1, 2))[0]
    assert (
        choice.signal("one", reach=6.0).columns["lower"][0]
        < truth
        < choice.signal("one", reach=6.0).columns["upper"][0]
    )


def test_the_recommendation_follows_the_stated_rule(opened: Open) -> None:
    choice = opened().choose({"one": ONE, "three": THREE})
    ratios = choice.signal("three").estimate
    middle = float(np.median(ratios))
    assert choice.recommend(share=0.5, snr=middle * 0.999).candidate == "three"
    assert choice.recommend(share=1.0, snr=float(ratios.min()) * 1.001).candidate == "one"  # it is twice as accurate
    stop = choice.recommend(share=0.5, snr=1e6)
    assert (stop.action, stop.candidate) == ("stop", None)
    cautious = choice.recommend(share=0.5, snr=middle * 0.999, by="lower")
    assert cautious.candidate == "one"
    assert cautious.shares["three"]["lower"] < 0.5 <= cautious.shares["three"]["upper"]
    for bad in ({"share": 0.0, "snr": 1.0}, {"share": 1.5, "snr": 1.0}, {"share": 0.5, "snr": -1.0}):
        with pytest.raises(PlanError, match="is not a positive number"):
            choice.recommend(**bad)
    with pytest.raises(PlanError, match="by="):
        choice.recommend(share=0.5, snr=1.0, by="luck")


def test_a_chain_of_candidates_is_walked_step_by_step(opened: Open) -> None:
    session = opened()
    choice = session.choose({"one": ONE, "two": TWO, "three": THREE})
    assert choice.nested
    assert choice.recommend(share=0.5, snr=1.0).action == "step"
    rest = choice.step()
    assert list(rest.candidates) == ["two", "three"]
    assert session.ledger.spent_exactly == priced(rs.common([TWO, THREE]))[1]  # the second look holds the first
    assert rest.recommend(share=0.5, snr=1.0).candidate == "three"
    with pytest.raises(PlanError, match="only two candidates"):
        rest.step()
    with pytest.raises(SessionError, match="went on as choice 2"):
        choice.finish("one")
    rest.finish("two")
    assert session.ledger.spent_exactly == priced(TWO)[1]


@pytest.mark.parametrize("seed", range(12))
def test_any_candidates_can_be_finished_at_exactly_their_own_price(seed: int) -> None:
    """Two to four random strategies, dense and residual mixed: the look and the rest cost the plan, to the last bit."""
    rng = np.random.default_rng(seed)
    cells = int(rng.integers(2, 8))
    domain = rs.Domain.of_sizes({"a": cells})
    plans: list[rs.Plan] = [rs.independent(rs.marginals(domain, ways=1), BUDGET)] if seed % 3 == 0 else []
    while len(plans) < 2 + seed % 3:
        rows = rng.integers(-2, 3, (int(rng.integers(1, cells + 2)), cells)).astype(float)
        rows[0] = 1
        asked = rs.explicit(domain, rows[abs(rows).sum(axis=1) > 0])
        plans.append(rs.independent(asked, BUDGET) if rng.random() < 0.5 else rs.plan(asked, BUDGET))
    look = rs.common(plans)
    for plan in plans:
        rest = missing(plan, [look])
        if rest is None:
            assert plan.pcost == pytest.approx(look.pcost, rel=1e-6)
            continue
        assert rest.settled
        assert composed_cost([look, rest.plan]) <= rest.together == priced(plan)[1]
        variances = (look + rest.plan).variances(plan.workload)
        assert variances == pytest.approx(plan.variances(plan.workload), rel=1e-5)


def test_a_step_that_would_waste_budget_is_refused(tmp_path: Path) -> None:
    domain = rs.Domain.of_sizes({"a": 2})
    rows = ([[1, 0], [1, 1]], [[2, 1], [0, 2]], [[1, 1], [0, 1]])
    plans = [rs.independent(rs.explicit(domain, W), BUDGET) for W in rows]
    session = rs.Session(pa.table({"a": [0] * 50 + [1] * 70}), BUDGET, ledger=tmp_path / "a.ledger")
    choice = session.choose(plans)
    spent = session.ledger.spent_exactly
    assert not choice.nested
    with pytest.raises(PlanError, match="not nested"):
        choice.step()
    assert choice.recommend(share=0.5, snr=1.0).candidate == "plan 3"  # judged at once, since no step is possible
    assert session.ledger.spent_exactly == spent
    choice.finish("plan 2")
    assert session.ledger.spent_exactly == priced(plans[1])[1]


def test_compatible_datasets_spread_as_far_as_the_look_allows(opened: Open) -> None:
    choice = opened().choose({"one": ONE, "three": THREE})
    found = choice.compatible("three", samples=12)
    assert found.answers.shape == (12, 12)
    assert (found.answers > -1e-6).all()
    total = choice.release.count()
    assert found.answers.sum(axis=1) == pytest.approx(total.estimate, abs=3 * total.stddev)
    assert found.ratio > 5  # single cells may be anything that the margins allow; the noise is 1
    own = choice.compatible("one", samples=12)
    assert own.ratio < 5 < found.ratio
    with pytest.raises(PlanError, match="directions"):
        choice.compatible("one", directions=np.ones((3, 2)))


def test_a_blind_look_is_taken_only_on_demand_and_still_bounds_what_may_vary(opened: Open) -> None:
    sex, age = (rs.independent(rs.marginals(DOMAIN, [(name,)]), BUDGET) for name in ("sex", "age"))
    session = opened(rs.ZCDP(2.0))
    with pytest.raises(PlanError, match=r"would answer no query of 'plan 1'.*nothing was spent"):
        session.choose([sex, age])  # they share the total alone
    assert session.ledger.entries == ()
    assert session.status.choices == {}
    choice = session.choose([sex, age], blind=True)
    assert session.ledger.spent_exactly == priced(rs.common([sex, age]))[1]
    assert choice.compatible("plan 1", samples=4).answers.sum(axis=1) == pytest.approx(CELLS.sum(), abs=60)
    choice.finish("plan 2")
    assert session.ledger.spent_exactly == priced(age)[1]
    session.release(sex)
    assert list(session.choose([sex, age]).signal("plan 1").labels) == ["sex=F", "sex=M"]  # known, so that it tells


def test_what_several_parts_answer_only_together_is_told(opened: Open) -> None:
    """Neither the men nor the look, which is the total, tells how many women there are; both do."""
    men = rs.plan(rs.queries(DOMAIN, {"men": "sex = 'M'"}), BUDGET)
    women = rs.independent(rs.explicit(DOMAIN, [[1, 0]], on=["sex"]), BUDGET)
    total = rs.independent(rs.marginals(DOMAIN, ways=0), BUDGET)
    sex = rs.independent(rs.marginals(DOMAIN, [("sex",)]), BUDGET)
    session = opened(rs.ZCDP(5.0))
    session.release(men)
    asking = total.replaced(workload=None)
    require_telling("women", women, [men, asking])
    for known in ([men], [asking], [men, men]):
        with pytest.raises(PlanError, match="no query of 'women'"):
            require_telling("women", women, known)
    require_telling("none", sex.replaced(workload=None), [asking])  # asks for nothing


def test_a_step_that_would_tell_nothing_is_refused_before_it_is_paid(opened: Open) -> None:
    plans = {name: rs.independent(rs.marginals(DOMAIN, [names]), BUDGET) for name, names in CHAIN.items()}
    session = opened()
    choice = session.choose(plans)
    spent = session.ledger.spent_exactly
    assert choice.nested
    with pytest.raises(PlanError, match="no query of 'sex'"):
        choice.step()
    assert session.ledger.spent_exactly == spent
    assert session.status.choices[1][1] == "open"
    rest = choice.step(blind=True)
    rest.finish("age")
    assert session.ledger.spent_exactly == priced(plans["age"])[1]
