"""A choice for each group: one look, verdicts, steps, one debit; and the same from the command line."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import residua as rs
from residua.errors import LedgerError, PlanError, SessionError
from tests.cli.command import inside

TRACTS = [f"t{i}" for i in range(6)]
DOMAIN = rs.Domain({"tract": TRACTS, "age": rs.Integers(0, 5), "sex": ["F", "M"]})
BUDGET = rs.ZCDP(0.5)
PAIRS = np.repeat(np.eye(3), 2, axis=1)
CHAIN = {
    "total": rs.plan(rs.marginals(DOMAIN, [()]), BUDGET),
    "three": rs.plan(rs.product(DOMAIN, {"age": PAIRS}), BUDGET),
    "six": rs.plan(rs.marginals(DOMAIN, [("age",)]), BUDGET),
}
ONE = rs.plan(rs.marginals(DOMAIN, [("age",), ("sex",)]), BUDGET)
TWO = rs.plan(rs.marginals(DOMAIN, [("age", "sex")]), BUDGET)
COUNTS = np.array([2, 30, 3000, 3, 200, 5000])  # people in each tract


def people() -> pa.Table:
    tract = np.repeat(np.arange(6), COUNTS)
    place = np.concatenate([np.arange(n) for n in COUNTS])
    sex = np.array(["F", "M"])[(place // 6) % 2]
    return pa.table({"tract": np.array(TRACTS)[tract], "age": place % 6, "sex": sex})


DATA = people()


@pytest.fixture
def session(tmp_path: Path) -> rs.Session:
    return rs.Session(DATA, rs.ZCDP(0.5), ledger=tmp_path / "ledger")


def test_each_group_gets_its_own_and_all_together_cost_one(session):
    choice = session.choose({"one": ONE, "two": TWO}, by=["tract"])
    looked = session.ledger.spent.rho
    assert 0 < looked < 0.5
    verdicts = choice.recommend(share=0.9, snr=20)
    assert [verdicts[t] for t in ("t0", "t2", "t5")] == [None, "two", "two"]
    decided = {**verdicts, "t1": "one", "t3": None}
    assert session.ledger.spent.rho == looked  # facts cost nothing
    release = choice.finish(decided)
    assert session.ledger.spent_exactly == pytest.approx(1.0, rel=1e-9)
    assert session.ledger.spent_exactly <= 1
    for tract, wanted in (("t2", TWO), ("t1", ONE)):
        within = release.plan.variance({"tract": tract, "age": 3})
        assert within == pytest.approx(wanted.variance({"age": 3}), rel=1e-6)
    cell = release.table(["tract", "age", "sex"]).columns
    told = np.isfinite(cell["stddev"]).reshape(6, 12)
    assert told.all(axis=1).tolist() == [choice_of == "two" for choice_of in decided.values()]
    assert not told[1].any()
    truth = np.array([[250, 250]] * 6)
    found = release.estimates(["tract", "age", "sex"])[2]
    assert np.abs(found - truth).max() < 6 * np.sqrt(TWO.variance({"age": 0, "sex": "F"}))
    with pytest.raises(SessionError, match="this choice is closed"):
        choice.finish({"t0": "one"})


def test_chains_are_walked_group_by_group(session, tmp_path):
    choice = session.choose(CHAIN, by=["tract"])
    assert choice.nested
    first = session.ledger.spent.rho
    verdicts = choice.recommend(share=0.5, snr=20)
    assert verdicts.stepping.tolist() == [False, False, True, False, True, True] or verdicts.stepping[[2, 5]].all()
    choice = choice.step(["t2", "t5"])
    assert choice.depths.tolist() == [0, 0, 1, 0, 0, 1]
    assert first < session.ledger.spent.rho < 0.5
    again = rs.Session(DATA, ledger=tmp_path / "ledger")  # another process goes on
    resumed = again.choice
    assert isinstance(resumed, type(choice))
    assert resumed.depths.tolist() == choice.depths.tolist()
    release = resumed.finish({"t2": "six", "t5": "three", "t4": "total", "t1": "total"})
    assert again.ledger.spent_exactly == pytest.approx(1.0, rel=1e-6)
    assert again.ledger.spent_exactly <= 1
    assert release.plan.variance({"tract": "t2", "age": 1}) == pytest.approx(
        CHAIN["six"].variance({"age": 1}), rel=1e-3
    )
    assert release.count({"tract": "t4"}).estimate == pytest.approx(200, abs=8)


def test_what_cannot_be_is_refused_unpaid(session, tmp_path):
    with pytest.raises(PlanError, match="which makes groups"):
        session.choose({"one": ONE, "two": TWO}, by=["age"])
    large = {"one": ONE, "two": rs.plan(rs.marginals(DOMAIN, [("age", "sex")]), rs.ZCDP(0.75))}
    with pytest.raises(LedgerError):
        session.choose(large, by=["tract"])
    assert session.ledger.spent_exactly == 0
    choice = session.choose({"one": ONE, "two": TWO}, by=["tract"])
    spent = session.ledger.spent_exactly
    for given, says in (
        ({"t9": "one"}, "is no group of tract"),
        ({"t1": "three"}, "is not among those given; there are 'one', 'two'"),
        ({}, "no group has a candidate"),
    ):
        with pytest.raises(PlanError, match=says):
            choice.finish(given)
    with pytest.raises(PlanError, match="not nested"):
        choice.step()
    assert session.ledger.spent_exactly == spent


SPEC = """
[source]
path = "people.parquet"
[privacy]
rho = 0.5
[domain.tract]
values = ["t0", "t1", "t2", "t3", "t4", "t5"]
[domain.age]
low = 0
high = 5
[domain.sex]
values = ["F", "M"]
[session]
by = ["tract"]
[[plan.one.workload]]
sets = [["age"], ["sex"]]
[[plan.two.workload]]
sets = [["age", "sex"]]
"""


def test_from_the_command_line(tmp_path):
    import pyarrow.parquet as pq

    pq.write_table(DATA, tmp_path / "people.parquet")
    (tmp_path / "spec.toml").write_text(SPEC)

    def run(*words: str, refused: bool = False) -> str:
        done = inside("session", words[0], "spec.toml", *words[1:], cwd=tmp_path)
        assert done.refused if refused else done.code == 0, (done.out, done.err)
        return done.err if refused else done.out

    run("open")
    assert "needs a rule" in run("look", "--verdicts", "v.csv", refused=True)
    shown = run("look", "--share", "0.9", "--snr", "20", "--verdicts", "v.csv")
    assert "6 groups of tract" in shown
    assert "finish two" in shown
    told = json.loads(run("look", "--share", "0.9", "--snr", "20", "--json"))
    assert sum(told["recommendation"]["groups"].values()) == 6
    text = (tmp_path / "v.csv").read_text()
    assert '"t2","two",false' in text
    (tmp_path / "v.csv").write_text(text.replace('"t2","two"', '"t9","two"'))
    assert "which is no group" in run("finish", "--groups", "v.csv", "--out", "out", refused=True)
    assert "say what to finish" in run("finish", "--out", "out", refused=True)
    (tmp_path / "v.csv").write_text(text.replace('"t2","two"', '"t2","one"'))
    assert "Wrote out" in run("finish", "--groups", "v.csv", "--out", "out")
    release = rs.Release.load(tmp_path / "out")
    assert release.plan.variance({"tract": "t2", "age": 0}) == pytest.approx(ONE.variance({"age": 0}), rel=1e-6)
    assert inside("table", "out", "tract", "age", cwd=tmp_path).code == 0
    assert inside("tables", "out", "--out", "tables", cwd=tmp_path).code == 0
    assert inside("report", "out", "--out", "r.html", cwd=tmp_path).code == 0
