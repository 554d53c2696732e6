"""Data that changes after it was checked, in every engine: what was checked is measured, or nothing is, as documented.

Spark's are in test_spark.py, those of Delta and Iceberg in test_clouds.py.
"""

import contextlib
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import ibis
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

import residua as rs
from residua.errors import SourceError
from residua.source import Source
from tests.conformance import postgres
from tests.conformance.ledgers import Interrupted
from tests.conformance.stores import store

BEFORE, AFTER = (pa.table({"sex": ["F"] * women + ["M"] * (100 - women)}) for women in (30, 60))
DOMAIN = rs.Domain({"sex": ["F", "M"]})
Made = tuple[Any, Callable[[], object]]  # what is measured, and what changes it underneath


def csv(folder: Path) -> Made:
    pa_csv.write_csv(BEFORE, folder / "a.csv")
    return folder / "a.csv", lambda: pa_csv.write_csv(AFTER, folder / "a.csv")


def parquet(folder: Path) -> Made:
    pq.write_table(BEFORE, folder / "a.parquet")
    return folder / "a.parquet", lambda: pq.write_table(AFTER, folder / "a.parquet")


def object_store(folder: Path) -> Made:
    def put(table: pa.Table) -> str:
        return store().put("underneath.csv", ("sex\n" + "\n".join(table["sex"].to_pylist())).encode())

    return put(BEFORE), lambda: put(AFTER)


def pandas(folder: Path) -> Made:
    frame = BEFORE.to_pandas()
    return frame, lambda: frame.__setitem__("sex", AFTER["sex"].to_pandas())


def arrow(folder: Path) -> Made:
    """Over memory that somebody else writes to."""
    codes = np.array([0] * 30 + [1] * 70, dtype=np.int8)
    sexes = pa.DictionaryArray.from_arrays(pa.array(codes), ["F", "M"])
    return pa.table({"sex": sexes}), lambda: codes.__setitem__(slice(60), 0)


def polars_lazy(folder: Path) -> Made:
    path, change = parquet(folder)
    return pl.scan_parquet(path), change


def duckdb_open(folder: Path) -> Made:
    connection = duckdb.connect()
    connection.register("given", BEFORE)
    connection.execute("CREATE TABLE people AS SELECT * FROM given")
    other = connection.cursor()
    return Source.duckdb(connection, "people"), lambda: other.execute("UPDATE people SET sex = 'F'")


def postgresql(folder: Path) -> Made:
    name = postgres.ingested(BEFORE)
    return Source.sql(postgres.server(), name), lambda: postgres.run(f"UPDATE {name} SET sex = 'F'")


def _sqlite(folder: Path) -> Callable[[], None]:
    def run(*statements: str) -> None:
        with contextlib.closing(sqlite3.connect(folder / "people.db")) as connection, connection:
            for statement in statements:
                connection.execute(statement)

    values = ", ".join(f"('{sex}')" for sex in BEFORE["sex"].to_pylist())
    run("PRAGMA journal_mode = wal", "CREATE TABLE people (sex TEXT)", f"INSERT INTO people VALUES {values}")
    return lambda: run("UPDATE people SET sex = 'F'")


def sqlite(folder: Path) -> Made:
    change = _sqlite(folder)
    return Source.sql(f"sqlite:///{folder / 'people.db'}", "people"), change


def ibis_table(folder: Path) -> Made:
    change = _sqlite(folder)
    return ibis.sqlite.connect(folder / "people.db").table("people"), change


FILES = [
    csv,
    parquet,
    object_store,
    pandas,
    arrow,
]  # too large to keep, they are read again: no longer what was checked
ENGINES = [*FILES, polars_lazy, duckdb_open, postgresql, sqlite, ibis_table]


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.__name__)
def test_what_was_checked_is_measured_or_nothing_is(
    engine: Callable[[Path], Made], kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not kept:
        if engine not in FILES:
            pytest.skip("what a query does that is too large to keep is said in test_source_changes.py")
        monkeypatch.setattr("residua.source.checking._MOST_KEPT", 0)
    source, change = engine(tmp_path)
    plan = rs.plan(rs.marginals(DOMAIN, ways=[1]), rs.ZCDP(rho=1e4))
    ledger = Interrupted(tmp_path / "a.ledger", rs.ZCDP(rho=1e4), change)
    if kept:
        release = rs.measure(plan, source, ledger=ledger)
        assert np.round(release.estimates(["sex"])).tolist() == [30, 70]  # false alarms: below 1e-12
    else:
        with pytest.raises(SourceError, match=r"changed .*Debit 1 of the ledger stands"):
            rs.measure(plan, source, ledger=ledger)
    assert len(ledger.entries) == 1
