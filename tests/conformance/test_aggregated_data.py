"""Data that were counted before they came: what is protected is one of the counted records, and everything says so."""

from pathlib import Path

import pyarrow as pa
import pytest

import residua as rs
from residua.formats.about import about
from residua.release.folder import privacy_statement
from residua.report.contents import report_html

DOMAIN = rs.Domain({"sex": ["F", "M"], "answer": ["no", "yes"]})
WORKLOAD = rs.marginals(DOMAIN, ways=[1, 2])
ROWS = {"sex": ["F", "F", "M", "M"], "answer": ["no", "yes"] * 2, "n": [300, 200, 100, 400]}
SAYS = "(records as counted in column 'n')"


def released(ledger: rs.Ledger, counts: str | None = "n") -> rs.Release:
    source = rs.Source.frame(pa.table(ROWS), counts=counts)
    return rs.measure(rs.plan(WORKLOAD, rs.ZCDP(rho=0.1)), source, ledger=ledger)


def test_the_statement_the_report_and_exports_say_that_records_were_counted_before(tmp_path: Path) -> None:
    ledger = rs.Ledger(tmp_path / "a.ledger", rs.ZCDP(rho=1.0))
    release = released(ledger)
    release.save(tmp_path / "release")
    again = rs.Release.load(tmp_path / "release")
    assert again.receipt["counts"] == "n"
    statement = (tmp_path / "release" / "PRIVACY.md").read_text()
    assert f"adding or removing one record {SAYS}." in statement
    assert "for one of the records so counted, not for a row" in statement
    assert "survey weights, one respondent would be as many records as the weight says" in statement
    words = about(again.plan, again.receipt, title="", confidence=None, biased=False)
    assert SAYS in words.protection
    assert SAYS in repr(again)
    projected, estimated = rs.project(again), rs.estimate(again)
    assert SAYS in projected.statement
    for thing in (again, projected, estimated):
        assert "records as counted in column" in report_html(thing)


def test_records_that_come_one_by_one_are_not_said_to_be_aggregated(tmp_path: Path) -> None:
    release = released(rs.Ledger(tmp_path / "a.ledger", rs.ZCDP(rho=1.0)), counts=None)
    assert "counts" not in release.receipt
    assert "aggregated" not in privacy_statement(release)
    assert "column" not in repr(release)


def test_pools_and_sessions_say_it_too(tmp_path: Path) -> None:
    ledger = rs.Ledger(tmp_path / "a.ledger", rs.ZCDP(rho=1.0))
    assert SAYS in privacy_statement(rs.pooled([released(ledger), released(ledger)]))
    session = rs.Session(rs.Source.frame(pa.table(ROWS), counts="n"), rs.ZCDP(rho=1.0), ledger=tmp_path / "b.ledger")
    assert SAYS in privacy_statement(session.release(rs.plan(WORKLOAD, rs.ZCDP(rho=0.1))))


def test_releases_of_two_populations_are_not_averaged(tmp_path: Path) -> None:
    """1,000 women and 3,000 men on two ledgers would become 501 and 1,500."""
    plan, ledgers = rs.plan(WORKLOAD, rs.ZCDP(rho=0.1)), {}
    releases = {}
    for sex, people in {"F": 1_000, "M": 3_000}.items():
        ledgers[sex] = rs.Ledger(tmp_path / f"{sex}.ledger", rs.ZCDP(rho=1.0))
        data = pa.table({"sex": [sex] * people, "answer": ["no", "yes"] * (people // 2)})
        releases[sex] = rs.measure(plan, data, ledger=ledgers[sex])
        assert releases[sex].receipt["ledger"] == ledgers[sex].identity == rs.Ledger(ledgers[sex].path).identity
    releases["M"].save(tmp_path / "men")
    loaded = rs.Release.load(tmp_path / "men")
    with pytest.raises(rs.ResiduaError, match=r"different people.*Pool releases of one ledger.*same_people=True"):
        rs.pooled([releases["F"], loaded])
    # A pool remembers whose it is, also one that was declared to be of the same people.
    more = rs.measure(plan, pa.table({"sex": ["F"] * 1_000, "answer": ["no", "yes"] * 500}), ledger=ledgers["F"])
    women = rs.pooled([releases["F"], more])
    assert abs(women.count({"sex": "F"}).estimate - 1_000) < 50
    with pytest.raises(rs.ResiduaError, match="different ledgers"):
        rs.pooled([women, loaded])
    declared = rs.pooled([releases["F"], loaded], same_people=True)
    assert declared.receipt["ledger"] == ", ".join(sorted(one.identity for one in ledgers.values()))
    with pytest.raises(rs.ResiduaError, match="different ledgers"):
        rs.pooled([declared, more])


def test_releases_over_other_domains_or_for_other_units_are_not_pooled(tmp_path: Path) -> None:
    other = rs.Domain({"sex": ["F", "M"], "answer": ["no", "yes", "unknown"]})
    first = released(rs.Ledger(tmp_path / "a.ledger", rs.ZCDP(rho=1.0)))
    plan = rs.plan(rs.marginals(other, ways=1), rs.ZCDP(rho=0.1))
    second = rs.measure(plan, pa.table(ROWS), ledger=rs.Ledger(tmp_path / "b.ledger", rs.ZCDP(rho=1.0)))
    replacing = rs.plan(WORKLOAD, rs.ZCDP(rho=0.1), unit=rs.ReplaceOne())
    ledger = rs.Ledger(tmp_path / "c.ledger", rs.ZCDP(rho=1.0), unit=rs.ReplaceOne())
    third = rs.measure(replacing, pa.table(ROWS), ledger=ledger)
    for one, says in ((second, "different domains; give"), (third, "different units; give")):
        with pytest.raises(rs.ResiduaError, match=says):
            rs.pooled([first, one], same_people=True)
