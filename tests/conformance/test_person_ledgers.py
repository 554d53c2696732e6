"""What one ledger, session or pool may say of people: prices only where the same records count, all costs stated."""

import re
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import residua as rs
from residua.errors import LedgerError, SessionError, SourceError
from residua.release.folder import privacy_statement


@pytest.mark.parametrize("other", [{"person": "id"}, {"person": ["ssn", "id"]}, {"person": "ssn", "counts": "n"}])
def test_a_session_pools_prices_only_while_the_same_records_are_counted(other: dict[str, Any], tmp_path: Path) -> None:
    # Each person has a young and an old record, of which one is counted; another column chooses others, and both would
    # be measured at the price of one.
    who = [i // 2 for i in range(200)]
    data = pa.table({"ssn": [f"s{i}" for i in who], "id": who, "n": [1, 3] * 100, "age": [2, 7] * 100})
    domain, unit = rs.Domain({"age": rs.Integers(0, 9)}), rs.Person(records=1)
    young, old = (rs.plan(rs.queries(domain, [asked]), rs.GDP(1.0), unit=unit) for asked in ("age < 5", "age >= 5"))
    path = tmp_path / "a.ledger"
    session = rs.Session(rs.Source.frame(data, person="ssn"), rs.GDP(1.0), ledger=path, unit=unit)
    session.release(young)
    with pytest.raises(SessionError, match="counts other records"):
        rs.Session(rs.Source.frame(data, **other), ledger=path)
    assert len(rs.Ledger(path).entries) == 1
    again = rs.Session(rs.Source.frame(data, person="ssn"), ledger=path)
    assert again.price(old) == 0
    apart = rs.Session(rs.Source.frame(data, **other), ledger=path, state=tmp_path / "other")
    assert apart.price(old) > 0.97


@pytest.mark.parametrize("budget", [rs.ZCDP(0.1), rs.PureDP(1.0)])
def test_what_is_stated_includes_what_was_left_out(budget: Any, tmp_path: Path) -> None:
    data = pa.table({"who": [i // 4 for i in range(400)], "sex": ["F", "M"] * 200})
    unit = rs.Person(records=2)
    plan = rs.plan(rs.marginals(rs.Domain({"sex": ["F", "M"]}), ways=1), budget, unit=unit)
    ledger = rs.Ledger(tmp_path / "a.ledger", type(budget)(10.0), unit=unit)
    release = rs.measure(plan, rs.Source.frame(data, person="who"), ledger=ledger, left_out=0.9)
    release.save(tmp_path / "r")
    release.report(tmp_path / "r.html")
    release.export(tmp_path / "csv", "csv")
    texts = [repr(release), *(path.read_text() for path in (tmp_path / "r/PRIVACY.md", tmp_path / "r.html"))]
    texts.append((tmp_path / "csv/datapackage.json").read_text())
    for text in texts:
        found = re.findall(r"(?:ZCDP|PureDP)\((?:rho|epsilon)=([0-9.]+)\)", text)
        assert found
        assert min(map(float, found)) > 9 * next(iter(vars(budget).values()))


def test_an_error_holds_no_record_not_even_behind_it(tmp_path: Path) -> None:
    (tmp_path / "bad.csv").write_text("who,sex\n1,F,secret-of-somebody\n")
    (tmp_path / "bad.jsonl").write_text('{"who": 1, "sex": "F"}\n{"who": secret-of-somebody}\n')
    mixed = pd.DataFrame({"who": [1, "secret-of-somebody"], "sex": ["F", "M"]})
    domain, unit = rs.Domain({"sex": ["F", "M"]}), rs.Person(records=2)
    plan = rs.plan(rs.marginals(domain, ways=1), rs.ZCDP(0.5), unit=unit)
    ledger = rs.Ledger(tmp_path / "a.ledger", rs.ZCDP(1.0), unit=unit)
    bad = [
        rs.Source.csv(tmp_path / "bad.csv", person="who"),
        rs.Source.jsonl(tmp_path / "bad.jsonl", person="who"),
        rs.Source.frame(mixed, person="who"),
    ]
    for source in bad:
        with pytest.raises(SourceError) as caught:
            rs.measure(plan, source, ledger=ledger)
        assert caught.value.__context__ is None
        with pytest.raises(SourceError) as caught:
            rs.records_per_person(source, domain, rs.ZCDP(0.1), ledger=ledger)
        assert caught.value.__context__ is None
    assert not ledger.entries


def test_a_pool_adds_up_what_persons_pay_unless_the_same_records_were_counted(tmp_path: Path) -> None:
    # Under two ledgers the young record of some person is counted in one release, and the old one in the other.
    data = pa.table({"who": [i // 2 for i in range(200)], "age": [2, 7] * 100})
    domain, unit = rs.Domain({"age": rs.Integers(0, 9)}), rs.Person(records=1)
    source = rs.Source.frame(data, person="who")
    plans = [rs.plan(rs.queries(domain, [asked]), rs.GDP(1.0), unit=unit) for asked in ("age < 5", "age >= 5")]
    ledgers = [rs.Ledger(tmp_path / f"{i}.ledger", rs.GDP(1.0), unit=unit) for i in range(2)]
    releases = [rs.measure(plan, source, ledger=one) for plan, one in zip(plans, ledgers, strict=True)]
    pool = rs.pooled(releases, same_people=True)
    assert pool.receipt["pcost"] == pytest.approx(1.96)  # what was left out is not pooled
    assert pool.planned.guarantee.mu == pytest.approx(1.96**0.5)
    session = rs.Session(source, rs.GDP(1.0), ledger=tmp_path / "c.ledger", unit=unit)
    for plan in plans:
        session.release(plan)
    assert session.known is not None
    assert session.known.receipt["pcost"] == pytest.approx(0.98)


def test_to_one_ledger_a_person_is_always_the_same(tmp_path: Path) -> None:
    data = pa.table({"patient": [0] * 300, "row": list(range(300)), "age": [2, 7] * 150})
    domain, unit = rs.Domain({"age": rs.Integers(0, 9)}), rs.Person(records=1)
    plan = rs.plan(rs.marginals(domain, ways=1), rs.GDP(0.5), unit=unit)
    ledger = rs.Ledger(tmp_path / "a.ledger", rs.GDP(1.0), unit=unit)
    release = rs.measure(plan, rs.Source.frame(data, person="patient"), ledger=ledger)
    assert "All records with the same `patient` are one person's." in privacy_statement(release)
    for other in ({"person": "row"}, {"person": ["patient", "row"]}, {"person": "patient", "no_person": "drop"}):
        with pytest.raises(LedgerError, match=r"a person is who has one .patient.[^;]*; .*Nothing was spent"):
            rs.measure(plan, rs.Source.frame(data, **other), ledger=ledger)
        with pytest.raises(LedgerError, match="a person is who has one 'patient'"):
            rs.records_per_person(rs.Source.frame(data, **other), domain, rs.GDP(0.1), ledger=ledger)
    assert len(ledger.entries) == 1
