"""What a session promises: nothing is wasted, nothing is paid twice, and the ledger holds the exact cost of the sum."""

import shutil
import threading
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import residua as rs
from residua.errors import FileError, LedgerError, PlanError, SessionError, SourceError
from residua.plan.composition import composed_cost
from residua.plan.kinds import priced
from residua.session.missing import missing

DOMAIN = rs.Domain({"sex": ["F", "M"], "age": ["young", "middle", "old"], "smokes": ["no", "yes"]})
CELLS = np.arange(12).reshape(2, 3, 2) * 30 + 50


def table(cells: np.ndarray = CELLS) -> pa.Table:
    at = np.repeat(np.arange(12), cells.ravel())
    names = [
        np.array(DOMAIN[name].labels)[code]
        for name, code in zip(DOMAIN.names, np.unravel_index(at, (2, 3, 2)), strict=True)
    ]
    return pa.table(dict(zip(DOMAIN.names, names, strict=True)))


DATA = table()
ONE = rs.independent(rs.marginals(DOMAIN, ways=1), rs.ZCDP(0.5))
TWO = rs.independent(rs.marginals(DOMAIN, ways=2), rs.ZCDP(0.5))
THREE = rs.independent(rs.marginals(DOMAIN, ways=3), rs.ZCDP(0.5))
YOUNG = rs.plan(rs.queries(DOMAIN, {"young": "age = 'young'"}), rs.ZCDP(0.5))
OLD = rs.plan(rs.queries(DOMAIN, {"old": "age = 'old'"}), rs.ZCDP(0.5))
BUDGET = rs.ZCDP(0.5)
Open = Callable[..., rs.Session]


@pytest.fixture
def opened(tmp_path: Path) -> Open:
    def session(budget: rs.ZCDP | None = BUDGET, data: pa.Table = DATA, **options: object) -> rs.Session:
        return rs.Session(data, budget, ledger=tmp_path / "a.ledger", **options)

    return session


def within(release: rs.Release, names: tuple[str, ...], sigmas: float = 6.0) -> None:
    """The estimates are near the truth, as far as their stated standard deviation says."""
    shown = release.table(names)
    drop = tuple(i for i, name in enumerate(DOMAIN.names) if name not in names)
    truth = CELLS.sum(axis=drop).ravel()
    assert (abs(shown.columns["estimate"] - truth) <= sigmas * shown.columns["stddev"]).all()


# ---- choices


@pytest.mark.parametrize("chosen", ["one", "two", "three"])
def test_a_finished_choice_costs_exactly_the_chosen_plan_and_is_as_accurate(opened: Open, chosen: str) -> None:
    session, plans = opened(), {"one": ONE, "two": TWO, "three": THREE}
    choice = session.choose(plans)
    assert session.ledger.spent == priced(rs.common(list(plans.values())))[1]  # the look, and nothing more
    assert 0 < session.ledger.spent < priced(plans[chosen])[1]
    release = choice.finish(chosen)
    assert session.ledger.spent == priced(plans[chosen])[1]
    workload = plans[chosen].workload
    assert release.plan.variances(workload) == pytest.approx(plans[chosen].variances(workload), rel=1e-9)
    within(release, plans[chosen].workload.sets[0])


def test_stopping_after_the_look_costs_only_the_look(opened: Open) -> None:
    session = opened()
    choice = session.choose([ONE, TWO])
    look = session.ledger.spent
    choice.stop()
    assert session.ledger.spent == look == priced(rs.common([ONE, TWO]))[1]
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
    assert session.ledger.spent == priced(rs.common([TWO, THREE]))[1]  # the second look holds the first
    assert rest.recommend(share=0.5, snr=1.0).candidate == "three"
    with pytest.raises(PlanError, match="only two candidates"):
        rest.step()
    with pytest.raises(SessionError, match="went on as choice 2"):
        choice.finish("one")
    rest.finish("two")
    assert session.ledger.spent == priced(TWO)[1]


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
    spent = session.ledger.spent
    assert not choice.nested
    with pytest.raises(PlanError, match="not nested"):
        choice.step()
    assert choice.recommend(share=0.5, snr=1.0).candidate == "plan 3"  # judged at once, since no step is possible
    assert session.ledger.spent == spent
    choice.finish("plan 2")
    assert session.ledger.spent == priced(plans[1])[1]


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


# ---- top-ups


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
    assert session.ledger.spent == together < priced(ONE)[1] + priced(TWO)[1]
    assert (release.plan.variances(TWO.workload) <= TWO.variances(TWO.workload) * (1 + 1e-9)).all()
    assert (release.plan.variances(ONE.workload) <= ONE.variances(ONE.workload) * (1 + 1e-9)).all()
    within(release, ("sex", "age"))


def test_disjoint_cells_are_free_but_recorded_before_the_data_is_read(opened: Open) -> None:
    session = opened()
    session.release(YOUNG)
    spent = session.ledger.spent
    assert session.price(OLD) == 0
    release = session.release(OLD)
    assert session.ledger.spent == spent
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
    assert session.status.spent == costs[0]
    assert session.ledger.spent == costs[0] + costs[1]


@settings(max_examples=12, deadline=None)
@given(st.lists(st.sampled_from(["one", "two", "three", "young", "old", "look"]), min_size=1, max_size=4))
def test_the_ledger_holds_the_exact_cost_of_everything_measured(asked: list[str]) -> None:
    import tempfile

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
        assert exact <= session.ledger.spent <= exact * (1 + Fraction(1, 10**6))
        assert session.ledger.spent <= sum(priced(plan)[1] for plan in measured)


# ---- units of protection


@pytest.mark.parametrize("unit", [rs.ReplaceOne(), rs.AddRemove(3)])
def test_other_units_are_charged_exactly_as_well(tmp_path: Path, unit: rs.AddRemove | rs.ReplaceOne) -> None:
    one = rs.independent(ONE.workload, rs.ZCDP(0.5), unit=unit)
    three = rs.independent(THREE.workload, rs.ZCDP(0.5), unit=unit)
    session = rs.Session(DATA, rs.ZCDP(0.5), ledger=tmp_path / "a.ledger", unit=unit)
    session.choose([one, three]).finish(three)
    assert session.ledger.spent == priced(three)[1]
    with pytest.raises(PlanError, match="the ledger"):
        session.release(ONE if isinstance(unit, rs.ReplaceOne) else rs.plan(ONE.workload, rs.ZCDP(0.1)))


# ---- restarts


def test_a_session_goes_on_after_a_restart(opened: Open) -> None:
    opened().choose({"one": ONE, "two": TWO})
    session = opened(budget=None)
    choice = session.choice
    assert choice is not None
    look = session.ledger.spent
    assert session.status.choices == {1: (("one", "two"), "open")}
    choice.finish(TWO)  # given as the plan: recognised by what it measures
    assert session.ledger.spent == priced(TWO)[1] > look
    assert opened().choice is None
    assert opened().price(TWO) == 0
    within(opened().release(TWO), ("sex", "smokes"))


def test_a_debit_whose_part_was_lost_stays_spent(opened: Open) -> None:
    import shutil

    session = opened(rs.ZCDP(1.5))
    session.release(YOUNG)
    session.release(OLD)  # free, since disjoint
    shutil.rmtree(session.path / "parts" / "0002")
    session = opened(budget=None)
    assert session.status.lost == (2,)
    # What was lost may have been seen: it now counts with what it costs alone.
    before = session.ledger.spent
    session.release(OLD)
    assert session.ledger.spent - before == Fraction(session.ledger.entries[1].detail["alone"])
    assert float(session.ledger.spent) == pytest.approx(float(before + priced(OLD)[1]), rel=1e-6)
    assert set(session.status.parts) == {1, 3}


def test_a_session_made_whole_from_a_part_that_lacked_only_its_name(opened: Open) -> None:
    session = opened()
    session.release(ONE)
    part = session.path / "parts" / "0001"
    part.rename(part.with_name(".0001.partial-0a1b2c3d"))
    (session.path / "parts" / ".0002.partial-00000000").mkdir()
    session = opened()
    session.release(ONE)
    assert len(session.ledger.entries) == 1
    assert [path.name for path in (session.path / "parts").iterdir()] == ["0001"]


def test_a_part_that_was_compiled_differently_counts_with_its_own_price_as_well(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    from residua.session import accounts

    session = opened(rs.ZCDP(2.0))
    session.release(ONE)
    assert session.price(TWO) < priced(TWO)[1]
    before = session.price(TWO)
    monkeypatch.setattr(accounts, "_as_compiled", lambda part: False)
    assert session.price(TWO) == before + priced(ONE)[1]


def test_a_release_names_the_latest_debit(opened: Open, tmp_path: Path) -> None:
    session = opened()
    release = session.choose([ONE, TWO]).finish(TWO)
    assert release.receipt["digest"] == session.ledger.entries[-1].digest
    release.save(tmp_path / "out")
    again = rs.Release.load(tmp_path / "out")
    assert session.ledger.contains(again.receipt["digest"])
    assert again.estimates(("sex", "age")) == pytest.approx(release.estimates(("sex", "age")))
    assert again.receipt["pcost"] == pytest.approx(float(session.ledger.spent), rel=1e-9)


def test_a_session_that_died_while_it_was_made_is_made_again(opened: Open, tmp_path: Path) -> None:
    folder = tmp_path / "a.ledger.session"
    (folder / "parts").mkdir(parents=True)
    (folder / ".session.json.x1y2").write_text("{")
    opened().release(ONE)
    assert {path.name for path in folder.iterdir()} == {"parts", "choices", "lock", "session.json"}


# ---- refusals


def test_a_candidate_dearer_than_the_budget_is_refused_before_anything_is_spent(opened: Open) -> None:
    session = opened()
    dear = rs.independent(rs.marginals(DOMAIN, ways=2), rs.ZCDP(0.6))
    with pytest.raises(LedgerError, match=r"the candidate 'plan 2' is dearer than the budget: rho 0\.5 left"):
        session.choose([ONE, dear])
    with pytest.raises(LedgerError, match="dearer than the budget"):
        session.release(dear)
    assert session.ledger.entries == ()
    assert session.status.choices == {}


def test_a_limit_of_the_sessions_own_holds_within_a_larger_ledger(tmp_path: Path) -> None:
    ledger = rs.Ledger(tmp_path / "a.ledger", rs.ZCDP(5.0))
    session = rs.Session(DATA, rs.ZCDP(0.5), ledger=ledger)
    session.release(ONE)
    with pytest.raises(LedgerError, match="dearer than the budget"):
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
    with pytest.raises(PlanError, match="different domains"):
        session.release(other)
    assert len(session.ledger.entries) == 1


def test_what_cannot_be_read_back_is_not_paid_for(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    from residua.session import missing as steps

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


def test_a_session_of_another_dataset_is_refused(opened: Open, tmp_path: Path) -> None:
    opened().release(ONE)
    other = table(CELLS + 1)
    with pytest.raises(LedgerError, match="another dataset"):
        opened(data=other)
    fresh = rs.Ledger(tmp_path / "b.ledger", rs.ZCDP(0.5))
    with pytest.raises(SessionError, match="belongs to another dataset"):
        rs.Session(other, ledger=fresh, state=tmp_path / "a.ledger.session")
    with pytest.raises(SessionError, match="belongs to another ledger"):
        rs.Session(DATA, ledger=fresh, state=tmp_path / "a.ledger.session")
    assert fresh.entries == ()


def test_a_session_whose_ledger_is_gone_makes_no_new_one(opened: Open, tmp_path: Path) -> None:
    opened().release(ONE)
    (tmp_path / "a.ledger").unlink()
    with pytest.raises(SessionError, match="restore the ledger"):
        opened()
    assert not (tmp_path / "a.ledger").exists()


def test_a_look_at_data_that_does_not_fit_leaves_nothing_behind(tmp_path: Path) -> None:
    data = pa.table({"sex": ["F", "X"], "age": ["old", "old"], "smokes": ["no", "no"]})
    session = rs.Session(data, BUDGET, ledger=tmp_path / "a.ledger")
    with pytest.raises(SourceError, match="X"):
        session.choose([ONE, TWO])
    assert session.status.choices == {}
    assert session.ledger.entries == ()
    assert session.choice is None
    assert session.known is None


def test_a_part_that_is_not_what_was_paid_for_is_noticed(opened: Open, tmp_path: Path) -> None:
    import shutil

    from residua.release.kinds import release_of

    session = opened()
    session.release(ONE)
    part = session.path / "parts" / "0001"
    receipt = rs.Release.load(part).receipt
    shutil.rmtree(part)
    blocks, _ = priced(YOUNG)
    release_of(YOUNG, blocks, np.zeros(blocks.cells, dtype=np.int64), receipt).save(part)
    with pytest.raises(SessionError, match="is not what was paid for"):
        opened()


def test_a_ledger_that_was_rolled_back_is_noticed(opened: Open) -> None:
    session = opened()
    before = session.ledger.path.read_bytes()
    session.release(ONE)
    session.ledger.path.write_bytes(before)
    with pytest.raises(SessionError, match="has no debit"):
        opened()


def test_an_older_copy_of_the_folder_counts_the_later_parts_as_lost(opened: Open, tmp_path: Path) -> None:
    import shutil

    session = opened(rs.ZCDP(1.5))
    session.release(YOUNG)
    shutil.copytree(session.path, tmp_path / "copy")
    session.release(OLD)
    copy = opened(None, state=tmp_path / "copy")
    assert copy.status.lost == (2,)
    copy.release(OLD)
    assert float(session.ledger.spent) == pytest.approx(float(priced(YOUNG)[1] + priced(OLD)[1]), rel=1e-6)


def test_a_session_in_use_refuses_a_second_user(opened: Open) -> None:
    session = opened()
    with session._folder.locked(), pytest.raises(SessionError, match="in use by another process or thread"):
        session.release(ONE)
    session.release(ONE)


def test_a_debit_that_comes_in_between_is_waited_out(opened: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    session, debit, moved = opened(rs.ZCDP(1.0)), rs.Ledger.debit, []

    def raced(ledger: rs.Ledger, cost: Fraction, **options: object) -> object:
        if not moved:
            moved.append(debit(ledger, Fraction(1, 8), purpose="another", dataset=DATA_PRINT))
        return debit(ledger, cost, **options)

    DATA_PRINT = rs.Source.frame(DATA).fingerprint()
    monkeypatch.setattr(rs.Ledger, "debit", raced)
    session.release(ONE)
    assert [entry.purpose for entry in session.ledger.entries] == ["another", "release"]
    assert session.status.spent == priced(ONE)[1]


def test_a_folder_that_is_something_else_is_refused(opened: Open, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "diary.txt").write_text("dear diary")
    with pytest.raises(FileError, match="is not a session"):
        opened(state=tmp_path / "mine")
    with pytest.raises(FileError, match="cannot make the session folder"):
        opened(state=tmp_path / "no" / "such")
    with pytest.raises(FileError, match="no ledger"):
        rs.Session(DATA, ledger=tmp_path / "missing.ledger")


def test_threads_that_release_at_once_pay_once(opened: Open) -> None:
    session = opened()
    problems: list[Exception] = []

    def work() -> None:
        while True:
            try:
                opened(None).release(ONE)
                return
            except SessionError as problem:
                if "in use" not in str(problem):
                    problems.append(problem)
                    return

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert len(session.ledger.entries) == 1


def test_no_true_count_is_kept_anywhere(opened: Open) -> None:
    session = opened()
    session.choose([ONE, TWO]).finish(TWO)
    for path in session.path.rglob("*.npy"):
        held = np.load(path)
        assert not np.isin(held, CELLS.sum(axis=2)).all()
    fingerprint = rs.Source.frame(DATA).fingerprint()
    for path in session.path.rglob("*"):
        if path.is_file():
            assert fingerprint.encode() not in path.read_bytes()


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
    assert session.ledger.spent == 0
    assert not list((session.path / "parts").iterdir())


def test_pure_dp_has_no_session_and_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(SessionError, match="Gaussian noise"):
        rs.Session(DATA, rs.PureDP(1.0), ledger=tmp_path / "ledger")
    assert not list(tmp_path.iterdir())
    ledger = rs.Ledger(tmp_path / "pure", rs.PureDP(1.0))
    for held in (ledger, ledger.path):
        with pytest.raises(SessionError, match="Gaussian noise"):
            rs.Session(DATA, ledger=held)
    assert [path.name for path in tmp_path.iterdir()] == ["pure"]


def test_a_candidate_exchanged_on_disk_is_refused_before_anything_is_spent(tmp_path: Path) -> None:
    session = rs.Session(DATA, rs.ZCDP(50.0), ledger=tmp_path / "ledger")
    choice = session.choose([ONE, TWO])
    spent = session.ledger.spent
    for part in (session.path / "parts").iterdir():
        shutil.rmtree(part)
    rs.plan(rs.marginals(DOMAIN, ways=1), rs.PureDP(9.0)).save(session.path / "choices" / "0001" / "00.json")
    session = rs.Session(DATA, ledger=session.ledger)
    with pytest.raises(PlanError, match="cannot be pooled"):
        session.finish_choice(1, next(iter(choice.candidates)))
    assert session.ledger.spent == spent
