"""A bound on each person's records, through every engine and whole releases: the same records, whatever holds them."""

import contextlib
import json
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyarrow.feather import write_feather

import residua as rs
from residua.errors import LedgerError, PlanError, PrivacyError, SourceError
from residua.measurement.persons import show_records_per_person
from residua.source import source_of
from residua.source.bound import Loss
from tests.conformance import postgres
from tests.conformance.stores import store
from tests.laws.person_choices import DOMAIN, Record, chosen_plainly, counted, everyone_plainly

UNIT = rs.Person(4, per={"month": 2})
OPTIONS: dict[str, Any] = {"person": "who", "no_person": "drop"}


def people(rng: np.random.Generator) -> dict[str, list[Record]]:
    sizes = rng.integers(1, 12, size=60)
    return {str(1000 + i): [tuple(map(int, rng.integers(DOMAIN.sizes))) for _ in range(n)] for i, n in enumerate(sizes)}


def table_of(held: dict[str, list[Record]], rng: np.random.Generator) -> pa.Table:
    """The records in any order, ids as whole numbers; a tenth more are nobody's."""
    rows = [(int(who), *record) for who, records in held.items() for record in records]
    rows += [(None, 0, 0, 0)] * (len(rows) // 10)
    rows = [rows[i] for i in rng.permutation(len(rows))]
    columns = {name: [DOMAIN[name].labels[row[i + 1]] for row in rows] for i, name in enumerate(DOMAIN.names)}
    return pa.table({"who": pa.array([row[0] for row in rows], pa.int64()), **columns})


def csv(table: pa.Table, folder: Path) -> rs.Source:
    pa_csv.write_csv(table[:50], folder / "a.csv")
    pa_csv.write_csv(table[50:], folder / "b.csv")
    return rs.Source.csv(str(folder / "*.csv"), **OPTIONS)


def csv_of_pandas(table: pa.Table, folder: Path) -> rs.Source:
    table.to_pandas().to_csv(folder / "p.csv", index=False)  # whole numbers with gaps: 1000.0
    return rs.Source.csv(folder / "p.csv", **OPTIONS)


def parquet(table: pa.Table, folder: Path) -> rs.Source:
    pq.write_table(table, folder / "a.parquet", row_group_size=37)
    return rs.Source.parquet(folder / "a.parquet", **OPTIONS)


def feather(table: pa.Table, folder: Path) -> rs.Source:
    write_feather(table, folder / "a.feather", chunksize=41)
    return rs.Source.feather(folder / "a.feather", **OPTIONS)


def json_lines(table: pa.Table, folder: Path) -> rs.Source:
    (folder / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))
    return rs.Source.jsonl(folder / "a.jsonl", **OPTIONS)


def database(table: pa.Table, folder: Path) -> rs.Source:
    with duckdb.connect(folder / "a.duckdb") as made:
        made.register("held", table)
        made.execute("CREATE TABLE visits AS SELECT * FROM held")
    return rs.Source.duckdb(folder / "a.duckdb", "visits", **OPTIONS)


def postgresql(table: pa.Table, folder: Path) -> rs.Source:
    return rs.Source.sql(postgres.server(), postgres.ingested(table), **OPTIONS)


def sqlite_file(table: pa.Table, folder: Path) -> Path:
    with contextlib.closing(sqlite3.connect(folder / "a.db")) as made, made:
        kinds = {"int64": "INTEGER", "double": "REAL", "bool": "BOOLEAN"}
        columns = ", ".join(f"{field.name} {kinds.get(str(field.type), 'TEXT')}" for field in table.schema)
        made.execute(f"CREATE TABLE visits ({columns})")
        marks = ", ".join("?" * table.num_columns)
        made.executemany(f"INSERT INTO visits VALUES ({marks})", [tuple(row.values()) for row in table.to_pylist()])
    return folder / "a.db"


def sqlite(table: pa.Table, folder: Path) -> rs.Source:
    return rs.Source.sql(f"sqlite:///{sqlite_file(table, folder)}", "visits", **OPTIONS)


def ibis_table(table: pa.Table, folder: Path) -> rs.Source:
    import ibis  # an extra: scripts/lowest does without it

    return source_of(ibis.sqlite.connect(sqlite_file(table, folder)).table("visits"), **OPTIONS)


def object_store(table: pa.Table, folder: Path) -> rs.Source:
    pq.write_table(table, folder / "o.parquet")
    return source_of(store().put("visits.parquet", (folder / "o.parquet").read_bytes()), **OPTIONS)


def text_ids(table: pa.Table) -> pa.Table:
    return table.set_column(0, "who", table["who"].cast(pa.string()).dictionary_encode())


ENGINES: dict[str, Callable[[pa.Table, Path], rs.Source]] = {
    "csv": csv,
    "csv of pandas": csv_of_pandas,
    "parquet": parquet,
    "feather": feather,
    "json lines": json_lines,
    "duckdb": database,
    "postgresql": postgresql,
    "sqlite": sqlite,
    "ibis": ibis_table,
    "s3_parquet": object_store,
    "arrow": lambda table, _: rs.Source.frame(table, **OPTIONS),
    "arrow, text": lambda table, _: rs.Source.frame(text_ids(table), **OPTIONS),
    "dataset": lambda table, _: rs.Source.frame(ds.dataset(table), **OPTIONS),
    "pandas": lambda table, _: rs.Source.frame(table.to_pandas(), **OPTIONS),
    "pandas, nullable": lambda table, _: rs.Source.frame(table.to_pandas(types_mapper=pd.ArrowDtype), **OPTIONS),
    "polars": lambda table, _: rs.Source.frame(pl.from_arrow(table), **OPTIONS),
    "polars, lazy": lambda table, _: rs.Source.frame(pl.from_arrow(table).lazy(), **OPTIONS),  # type: ignore[union-attr]
    "sql": lambda table, _: rs.Source.sql({"visits": table}, "SELECT * FROM visits ORDER BY month", **OPTIONS),
    "computed": lambda table, _: rs.Source.frame(table, **OPTIONS).with_columns({"month": "month + 0"}),
}


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_counts_the_same_records_of_each_person(engine: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(sum(map(ord, engine)))
    held = people(np.random.default_rng(1))
    made = ENGINES[engine](table_of(held, rng), tmp_path)
    assert counted(made, UNIT) == everyone_plainly(held, UNIT)


@pytest.mark.parametrize("engine", ENGINES)
def test_one_person_more_is_at_most_k_records_more_in_every_engine(engine: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    held, joins = people(rng), [tuple(map(int, rng.integers(DOMAIN.sizes))) for _ in range(90)]
    for name in ("without", "with"):
        (tmp_path / name).mkdir()
    without = counted(ENGINES[engine](table_of(held, rng), tmp_path / "without"), UNIT)
    more = counted(ENGINES[engine](table_of({**held, "77": joins}, rng), tmp_path / "with"), UNIT)
    assert not without - more
    change = more - without
    assert change == chosen_plainly("77", joins, UNIT)
    assert change.total() <= 4
    assert max(Counter(record[0] for record in change.elements()).values()) <= 2


@pytest.fixture
def visits() -> pa.Table:
    return table_of(people(np.random.default_rng(5)), np.random.default_rng(6))


@pytest.fixture
def source(visits: pa.Table) -> rs.Source:
    return rs.Source.frame(visits, **OPTIONS)


def plan_for(unit: Any = UNIT, rho: float = 1e5) -> rs.Plan:
    return rs.plan(rs.marginals(DOMAIN, ways=[1, 3]), rs.ZCDP(rho), unit=unit)


def rounded(release: rs.Release) -> list[int]:
    return np.rint(release.estimates(DOMAIN.names)).astype(int).ravel().tolist()


def test_all_releases_and_sessions_of_a_ledger_count_the_same_records(
    source: rs.Source, visits: pa.Table, tmp_path: Path
) -> None:
    """At a budget that leaves less than half a record of noise."""
    path = tmp_path / "a.ledger"
    ledger = rs.Ledger(path, rs.ZCDP(1e6), unit=UNIT)
    first = rounded(rs.measure(plan_for(), source, ledger=ledger))
    again = rounded(rs.measure(plan_for(), source, ledger=rs.Ledger(path)))
    session = rs.Session(source, ledger=path)
    assert first == again == rounded(session.release(plan_for()))
    true = counted(source, UNIT, key=rs.Ledger(path).choosing_key)
    assert first == [true[tuple(map(int, cell))] for cell in np.ndindex(*DOMAIN.sizes)]
    others = [
        rounded(rs.measure(plan_for(), source, ledger=rs.Ledger(tmp_path / f"{i}.ledger", rs.ZCDP(1e5), unit=UNIT)))
        for i in range(3)
    ]
    assert any(other != first for other in others)  # another key, another choice


def test_a_smaller_bound_counts_some_of_the_same_records_in_one_ledger(source: rs.Source, tmp_path: Path) -> None:
    ledger = rs.Ledger(tmp_path / "a.ledger", rs.ZCDP(1e6), unit=rs.Person(4))
    four, two = (np.array(rounded(rs.measure(plan_for(rs.Person(k)), source, ledger=ledger))) for k in (4, 2))
    assert (two <= four).all()
    assert two.sum() < four.sum()
    assert rs.Ledger(ledger.path, unit=rs.Person(2)).unit == rs.Person(4)


def test_data_and_unit_must_agree_before_anything_is_spent(visits: pa.Table, source: rs.Source, tmp_path: Path) -> None:
    persons = rs.Ledger(tmp_path / "p.ledger", rs.ZCDP(1e6), unit=UNIT)
    records = rs.Ledger(tmp_path / "r.ledger", rs.ZCDP(1e6))
    with pytest.raises(SourceError, match=r"does not say whose each record is; name the column with person="):
        rs.measure(plan_for(), visits, ledger=persons)
    with pytest.raises(SourceError, match=r"names a person column, 'who', but what is protected is adding or removing"):
        rs.measure(plan_for(rs.AddRemove()), source, ledger=records)
    with pytest.raises(SourceError, match="whose each record is"):
        rs.Session(visits, ledger=persons)
    with pytest.raises(SourceError, match="names a person column"):
        rs.Session(source, rs.ZCDP(1.0), ledger=tmp_path / "new.ledger")
    assert not (tmp_path / "new.ledger").exists()
    with pytest.raises(LedgerError, match="the ledger protects adding or removing one record"):
        rs.measure(plan_for(), source, ledger=records)
    whose = rs.Domain({"who": rs.Integers(0, 2000)})
    named = rs.plan(rs.marginals(whose, ways=1), rs.ZCDP(1.0), unit=rs.Person(2))
    with pytest.raises(SourceError, match="'who' says who the person is and cannot be counted as well"):
        rs.measure(named, source, ledger=persons)
    with pytest.raises(SourceError, match="table 'visits' names a person column"):
        rs.Source.sql({"visits": source}, "visits")
    assert persons.spent_exactly == records.spent_exactly == 0


def test_nobodys_records_are_refused_before_anything_is_spent(visits: pa.Table, tmp_path: Path) -> None:
    ledger = rs.Ledger(tmp_path / "a.ledger", rs.ZCDP(1e6), unit=UNIT)
    with pytest.raises(SourceError, match="'who' does not say of every record whose it is") as problem:
        rs.measure(plan_for(), rs.Source.frame(visits, person="who"), ledger=ledger)
    assert "debit" not in str(problem.value)
    assert ledger.spent_exactly == 0


def test_files_keep_the_person_and_no_secret(source: rs.Source, tmp_path: Path) -> None:
    ledger = rs.Ledger(tmp_path / "a.ledger", rs.ZCDP(1e6), unit=UNIT)
    assert rs.Ledger(ledger.path).unit == UNIT
    header = json.loads(ledger.path.read_text().splitlines()[0])
    release = rs.measure(plan_for(), source, ledger=ledger)
    release.save(tmp_path / "release")
    loaded = rs.Release.load(tmp_path / "release")
    assert loaded.planned.unit == UNIT
    said = "counts at most 4 records of each person, 2 in each value of 'month'"
    assert said in (tmp_path / "release" / "PRIVACY.md").read_text()
    assert said in loaded.table(["sex"]).note
    assert said in repr(loaded.table(["sex"]))
    assert loaded.table(["sex"]).to_arrow().schema.metadata[b"note"].decode() == loaded.table(["sex"]).note
    secret, salt = ledger.choosing_key, header["salt"]
    for file in filter(Path.is_file, (tmp_path / "release").rglob("*")):
        content = file.read_bytes()
        assert secret not in content
        assert secret.hex().encode() not in content
        assert salt.encode() not in content
    assert secret.hex() not in repr(ledger) + repr(release) + repr(vars(release))


def test_a_declared_bound_is_said_to_be_declared(visits: pa.Table, tmp_path: Path) -> None:
    unit = rs.AddRemove(records=5)
    plan = plan_for(unit)
    rs.measure(plan, visits, ledger=rs.Ledger(tmp_path / "a.ledger", rs.ZCDP(1e6), unit=unit)).save(tmp_path / "r")
    text = (tmp_path / "r" / "PRIVACY.md").read_text()
    assert "no person has more than 5 records was declared, not enforced" in text
    assert "at most" not in rs.Release.load(tmp_path / "r").table(["sex"]).note


def test_a_ledger_whose_key_was_changed_or_lost_is_refused(source: rs.Source, tmp_path: Path) -> None:
    path = tmp_path / "a.ledger"
    ledger = rs.Ledger(path, rs.ZCDP(1e6), unit=UNIT)
    rs.measure(plan_for(), source, ledger=ledger)
    salt = json.loads(path.read_text().splitlines()[0])["salt"]
    assert path.stat().st_mode & 0o777 == 0o600
    path.write_text(path.read_text().replace(salt, "0" * 32))
    with pytest.raises(LedgerError, match=r"line 1 of .* was changed after it was written"):
        rs.measure(plan_for(), source, ledger=path)
    path.unlink()
    with pytest.raises(rs.ResiduaError, match="there is no ledger"):
        rs.measure(plan_for(), source, ledger=path)


CREATE = """
import os, random, signal, sys, time
import residua as rs
rs.Ledger, rs.ZCDP, rs.Person  # loaded once, before the children
chance = random.Random(3)
for line in sys.stdin:
    children = []
    for _ in range(4):
        child = os.fork()
        if not child:
            key = rs.Ledger(line.strip(), rs.ZCDP(1.0), unit=rs.Person(5)).choosing_key
            os.write(1, f"{key.hex()}\\n".encode())
            os._exit(0)
        children.append(child)
    time.sleep(0.004 * chance.random())
    for child in chance.sample(children, 3):
        os.kill(child, signal.SIGKILL)  # not waited for yet: the number is still its own
    for child in children:
        os.waitpid(child, 0)
    os.write(1, b"done\\n")
"""


def test_killed_while_it_is_made_a_ledger_is_absent_or_has_one_key(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", CREATE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as crew:
        assert crew.stdin is not None
        assert crew.stdout is not None
        for number in range(20):
            path = tmp_path / f"{number}.ledger"
            crew.stdin.write(f"{path}\n")
            crew.stdin.flush()
            keys = set(iter(crew.stdout.readline, "done\n"))
            if path.exists():
                keys.add(rs.Ledger(path).choosing_key.hex() + "\n")
            assert len(keys) <= 1
        crew.stdin.close()
        assert crew.wait(timeout=600) == 0


def test_what_is_left_out_is_estimated_and_paid_for(tmp_path: Path) -> None:
    ids = np.repeat(np.arange(500), 12)
    table = pa.table({"who": ids, "month": ids % 4 + 1, "sex": ["F"] * len(ids), "answer": ["no"] * len(ids)})
    unit, ledger = rs.Person(4), rs.Ledger(tmp_path / "a.ledger", rs.ZCDP(10.0), unit=rs.Person(4))
    plan = plan_for(unit, rho=1.0)
    source = rs.Source.frame(table, person="who")
    release = rs.measure(plan, source, ledger=ledger, left_out=0.5, left_out_most=8)
    assert ledger.spent_exactly == pytest.approx(2 * 1.96, rel=1e-6)
    assert release.receipt["pcost"] == pytest.approx(2 * 1.96, rel=1e-6)
    assert release.left_out is not None
    found = release.left_out.count()
    assert abs(found.estimate - 500 * 8) < 6 * found.stddev < 200
    release.save(tmp_path / "r")
    assert rs.Release.load(tmp_path / "r").left_out.count() == found  # type: ignore[union-attr]
    assert "of their own" in (tmp_path / "r" / "PRIVACY.md").read_text()
    clipped = rs.measure(plan, source, ledger=ledger, left_out=0.5, left_out_most=2).left_out
    assert clipped is not None
    assert abs(clipped.count().estimate - 500 * 2) < 6 * clipped.count().stddev  # of each person two
    assert rs.measure(plan, source, ledger=ledger, left_out=0).left_out is None
    spent = ledger.spent_exactly
    for bad, message in (
        ({"left_out": rs.PureDP(1.0)}, "is not a share"),
        ({"left_out_most": 0}, "left_out_most=0"),
        ({"left_out": 0.99}, "exhausted"),
    ):
        with pytest.raises(rs.ResiduaError, match=message):
            rs.measure(plan, source, ledger=ledger, **bad)
    other = rs.Ledger(tmp_path / "b.ledger", rs.ZCDP(10.0))
    with pytest.raises(PlanError, match="left_out_most is about what is not counted"):
        rs.measure(plan_for(rs.AddRemove(), 1.0), table, ledger=other, left_out_most=5)
    assert ledger.spent_exactly == spent


def test_a_look_at_records_per_person(tmp_path: Path) -> None:
    ids = np.concatenate([np.arange(3000), np.repeat(np.arange(3000, 5000), 3), np.repeat(np.arange(5000, 5400), 20)])
    table = pa.table({"who": ids, "month": ids % 4 + 1, "sex": ["F"] * len(ids), "answer": ["no"] * len(ids)})
    source = rs.Source.frame(table, person="who")
    ledger = rs.Ledger(tmp_path / "a.ledger", rs.ZCDP(1.0), unit=rs.Person(1))
    look = rs.records_per_person(source, DOMAIN, rs.ZCDP(0.125), ledger=ledger, most=100)
    assert ledger.spent_exactly == pytest.approx(0.25)
    assert look.stddev == pytest.approx(2.0, rel=0.02)
    at = dict(zip(look.labels, look.counts.tolist(), strict=True))
    for label, true in {"1": 3000, "2": 0, "3": 2000, "16 to 22": 400, "100 or more": 0}.items():
        assert abs(at[label] - true) < 2 * 6
    assert abs(look.persons().estimate - 5400) < 6 * look.persons().stddev
    left = look.left_out(3)
    assert left.estimate == pytest.approx(400 * 16, abs=6 * left.stddev)  # the middle of 16 to 22 is 19
    assert look.recommend(share=0.5) == 3
    assert 14 <= look.recommend(share=0.9) <= 17  # 17,000 records: at 16, 15,400 of them
    shown: list[Loss] = []
    show_records_per_person(source, DOMAIN, shown.append)
    assert (shown[0].held[1], shown[0].held[3], shown[0].held[20]) == (3000, 2000, 400)
    pure = rs.Ledger(tmp_path / "b.ledger", rs.PureDP(1.0), unit=rs.Person(1))
    assert rs.records_per_person(source, DOMAIN, rs.PureDP(0.5), ledger=pure).left_out(3).stddev > 0
    assert pure.spent_exactly == pytest.approx(0.5)
    for call, kind, message in (
        (lambda: rs.records_per_person(table, DOMAIN, rs.ZCDP(0.1), ledger=ledger), SourceError, "whose each"),
        (lambda: rs.records_per_person(source, DOMAIN, rs.ZCDP(9.0), ledger=ledger), LedgerError, "exhausted"),
        (lambda: rs.records_per_person(source, DOMAIN, rs.ZCDP(0.1), ledger=ledger, most=0), PrivacyError, "most=0"),
        (lambda: rs.records_per_person(source, DOMAIN, rs.ZCDP(1e-30), ledger=ledger), PrivacyError, "more noise"),
        (lambda: look.recommend(share=1.0), PrivacyError, "share=1.0"),
    ):
        with pytest.raises(kind, match=message):
            call()
    assert ledger.spent_exactly == pytest.approx(0.25)
    short = rs.records_per_person(source, DOMAIN, rs.ZCDP(0.1), ledger=ledger, most=10)
    with pytest.raises(PrivacyError, match="10 records or more"):
        short.recommend()
