"""Databases through ADBC: a real PostgreSQL server and SQLite; types, transactions, secrets, and one SELECT only."""

import contextlib
import gc
import logging
import sqlite3
import subprocess
import sys
import threading
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import residua as rs
from residua.domain import Categories, Dates, Domain, Integers
from residua.errors import SourceError
from residua.linalg.lattice import closure, layout_of
from residua.source import Source
from residua.source.adbc import Address
from residua.sql import SqlError, plain_select
from tests.conformance import postgres

PASSWORD = "hunter2-x"


def pg(query: str, **options: Any) -> Source:
    return Source.sql(postgres.server(), query, **options)


def counts(source: Source, domain: Domain) -> list[int]:
    lattice = closure([np.array([[0]], dtype=np.int32)], len(domain))
    tables = source.count(domain, layout_of(lattice, domain.sizes, lattice.is_maximal)).tables
    return [int(n) for n in tables]


@pytest.fixture(scope="module")
def typed() -> str:
    postgres.run(
        "CREATE TYPE mood AS ENUM ('sad', 'glad')",
        "CREATE TABLE typed (n numeric(9, 2), big numeric, id uuid, mood mood, at timestamp, zoned timestamptz, "
        "day date, flag boolean, small real, doc jsonb, c varchar(3), away inet)",
        "INSERT INTO typed VALUES (39, 'NaN', '12345678-1234-5678-1234-567812345678', 'glad', '2024-01-31 12:00', "
        "'2024-01-31 23:00+00', '2024-01-31', true, 0.5, '{}', 'x', '10.0.0.1'), "
        "(40.50, 12345678901234567890, NULL, 'sad', '2024-02-01', '2024-02-01 00:30+00', '2024-02-01', "
        "false, 2, NULL, '', NULL)",
    )
    return "typed"


TYPES: list[tuple[str, Any, list[int]]] = [
    ("n", Integers(39, 40, unknown="other"), [1, 0, 1]),
    ("n", Categories(["39", "40.5"]), [1, 1]),
    ("big", Categories(["12345678901234567890"], missing="other"), [1, 1]),
    ("id", Categories(["12345678-1234-5678-1234-567812345678"], missing="other"), [1, 1]),
    ("mood", Categories(["sad", "glad"]), [1, 1]),
    ("at", Dates("2024-01-31", "2024-02-01"), [1, 1]),
    ("zoned", Dates("2024-01-31", "2024-02-01"), [1, 1]),
    ("day", Dates("2024-01-31", "2024-02-01"), [1, 1]),
    ("flag", Categories(["false", "true"]), [1, 1]),
    ("small", Categories(["0.5", "2"]), [1, 1]),
    ("c", Categories(["x"], missing="other"), [1, 1]),
]


@pytest.mark.parametrize(("column", "attribute", "wanted"), TYPES, ids=[name for name, _, _ in TYPES])
def test_every_type_of_postgresql_is_read(typed: str, column: str, attribute: Any, wanted: list[int]) -> None:
    assert counts(pg(typed), Domain({column: attribute})) == wanted


def test_a_type_that_holds_no_values_we_know_is_named(typed: str) -> None:
    with pytest.raises(SourceError, match="column 'away' has the type binary; convert it to text, numbers or dates"):
        counts(pg(typed), Domain({"away": ["10.0.0.1"]}))


def test_the_transaction_sees_one_state_and_may_only_read() -> None:
    name = postgres.ingested(pa.table({"a": [1, 2]}))
    with pg(name).snapshot() as still:
        before = still.fingerprint()
        postgres.run(f"INSERT INTO {name} VALUES (2)")
        assert still.fingerprint() == before != pg(name).fingerprint()
        modes = "current_setting('transaction_isolation') AS a, current_setting('transaction_read_only') AS b"
        asked = pg(f"SELECT {modes}")
        with asked.snapshot() as held:
            (batch,) = held.batches(["a", "b"])
        assert batch.to_pylist() == [{"a": "repeatable read", "b": "on"}]
    postgres.run("CREATE FUNCTION meddle() RETURNS int LANGUAGE sql AS 'DELETE FROM pg_description RETURNING 1'")
    with pytest.raises(SourceError, match="cannot execute DELETE in a read-only transaction"):
        pg("SELECT meddle() AS a").fingerprint()


def test_a_release_while_somebody_writes_is_of_one_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer commits pairs all the time; every release sees whole pairs, whether it reads once or twice."""
    name = postgres.ingested(pa.table({"a": ["x", "y"] * 500}))
    stop, wrote = threading.Event(), threading.Event()

    def write() -> None:
        with postgres.connected() as connection, connection.cursor() as cursor:
            while not stop.is_set():
                cursor.execute(f"INSERT INTO {name} VALUES ('x'), ('y')")
                wrote.set()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        wrote.wait()
        domain = Domain({"a": ["x", "y"]})
        plan = rs.plan(rs.marginals(domain, ways=[1]), rs.ZCDP(rho=1e6))
        for number, most in enumerate((1 << 30, 0)):  # kept, and read again
            monkeypatch.setattr("residua.source.checking._MOST_KEPT", most)
            ledger = rs.Ledger(tmp_path / f"{number}.ledger", rs.ZCDP(rho=1e6))
            x, y = rs.measure(plan, pg(name), ledger=ledger).estimates(["a"])
            assert round(x) == round(y) > 500
    finally:
        stop.set()
        writer.join()


def test_an_error_in_the_middle_leaves_nothing_open(tmp_path: Path) -> None:
    query = "SELECT 'x' AS a, 4611686018427387903::bigint AS n FROM generate_series(1, 200000)"
    plan = rs.plan(rs.marginals(Domain({"a": ["x"]}), ways=[0]), rs.ZCDP(rho=1))
    with pytest.raises(SourceError, match=r"add up to 2\^62 or more"):
        rs.measure(plan, pg(query, counts="n"), ledger=rs.Ledger(tmp_path / "a.ledger", rs.ZCDP(rho=1)))
    gc.collect()
    left = "SELECT count(*) AS n FROM pg_stat_activity WHERE query LIKE '%, 200000)%' AND pid <> pg_backend_pid()"
    assert [batch.to_pylist() for batch in pg(left).batches(["n"])] == [[{"n": 0}]]


def test_records_come_in_batches() -> None:
    sizes = [batch.num_rows for batch in pg("SELECT g AS a FROM generate_series(1, 300000) g").batches(["a"])]
    assert sum(sizes) == 300_000
    assert max(sizes) <= 65_536


REFUSED = [
    "SELECT 1; DROP TABLE people",
    "DELETE FROM people",
    "WITH gone AS (DELETE FROM people RETURNING *) SELECT * FROM gone",
    "SELECT * INTO copy FROM people",
    "COPY people TO PROGRAM 'sh'",
    "SELECT 1) TO STDOUT; DELETE FROM people; COPY (SELECT 2",
    "SELECT 'it''s; fine' /* ; */ -- ;\n; SELECT 2",
    "SELECT $tag$ ; $tag$ ; SELECT 1",
    "SELECT 'open",
    "SELECT 1 /* open",
    "SELECT (1",
    "",
    "SELECT 1) AS a; (SELECT 2",
]


# Engines differ in what is a text or a name; where a look for quotes alone sees one, an engine would see SQL.
HIDDEN = {
    "an escaped quote": ("postgresql", r"SELECT E'\'') AS a; COMMIT; DROP TABLE people; --'"),
    "a text that goes on": ("postgresql", "SELECT E'a' -- b\n'\\'') AS a; COMMIT; DROP TABLE people; --'"),
    "a name with dollars": ("postgresql", "SELECT a$$ FROM t) AS r; COMMIT; DROP TABLE people; --$$"),
    "a comment in a comment": ("postgresql", "SELECT 1 /* /* */ ' */) AS a; COMMIT; DROP TABLE people; --'"),
    "a name in brackets": ("sqlite", "SELECT [a'b] FROM t) AS r; DROP TABLE people; --'"),
    "a comment of BigQuery": ("bigquery", "SELECT 1 # '\n) AS r; DROP TABLE people; # '"),
    "three quotes": ("bigquery", "SELECT ''' ' ''') AS r; DROP TABLE people; --'"),
    "a comment of Snowflake": ("snowflake", "SELECT 1 // '\n) AS r; DROP TABLE people; // '"),
}


@pytest.mark.parametrize("name", HIDDEN)
def test_a_second_statement_is_seen_however_the_engine_quotes(name: str) -> None:
    dialect, query = HIDDEN[name]
    for read_as in (dialect, None):  # an engine that is not known may be any
        with pytest.raises(SqlError, match=r"one SELECT|never closed|without its pair"):
            plain_select(query, read_as)


def test_hidden_statements_are_refused_before_anything_is_asked(tmp_path: Path) -> None:
    name = postgres.ingested(pa.table({"a": [1]}))
    for dialect, query in HIDDEN.values():
        if dialect == "postgresql":
            with pytest.raises(SourceError, match="is refused"):
                pg(query.replace("people", name))
    with contextlib.closing(sqlite3.connect(tmp_path / "a.db")) as connection, connection:
        connection.execute("CREATE TABLE t ([a'b])")
    with pytest.raises(SourceError, match="is refused"):
        Source.sql(f"sqlite:///{tmp_path / 'a.db'}", HIDDEN["a name in brackets"][1])
    assert Source.sql(f"sqlite:///{tmp_path / 'a.db'}", "SELECT [a'b] FROM t").columns() == ("a'b",)
    assert [len(batch) for batch in pg(f"SELECT * FROM {name}").batches(["a"])] == [1]


@pytest.mark.parametrize("query", REFUSED)
def test_only_one_select_is_asked(query: str) -> None:
    with pytest.raises(SourceError, match=r"one SELECT|never closed|without its pair|is no query"):
        Source.sql("postgresql://nowhere/x", query)


ACCEPTED = {
    "people": "SELECT * FROM people",
    'public."Odd name"': 'SELECT * FROM public."Odd name"',
    "SELECT ';' AS a, \"de;lete from\", $$ ; $$ FROM t -- delete from x;": None,
    "WITH a AS (SELECT 1 AS b) SELECT * FROM a;": None,
    "(SELECT 1) UNION (VALUES (2))": None,
    "select deleted, updated_at from inserts": None,
    r"SELECT E'it\'s; ' AS a, '\' AS b, doc['key'] #>> '{a,b}' AS c FROM t": None,
}


@pytest.mark.parametrize("query", ACCEPTED)
def test_every_select_is_taken_as_it_is(query: str) -> None:
    assert plain_select(query, "postgresql") == (ACCEPTED[query] or query.rstrip(";"))


def test_the_server_refuses_what_slips_through(monkeypatch: pytest.MonkeyPatch) -> None:
    name = postgres.ingested(pa.table({"a": [1]}))
    monkeypatch.setattr("residua.source.adbc.plain_select", lambda query, dialect: query)
    for query in (f"DELETE FROM {name} RETURNING a", f"SELECT 1) AS a; DELETE FROM {name}; SELECT * FROM (SELECT 2"):
        with pytest.raises(SourceError, match="failed in the database"):
            pg(query).fingerprint()
    assert [len(batch) for batch in pg(f"SELECT * FROM {name}").batches(["a"])] == [1]


def test_errors_quote_no_value_unless_asked() -> None:
    name = postgres.ingested(pa.table({"a": ["secret value"]}))
    with pytest.raises(SourceError) as caught:
        pg(f"SELECT a::int AS a FROM {name}").fingerprint()
    assert "secret" not in "".join(traceback.format_exception(caught.value))
    assert "a value cannot be computed or converted" in str(caught.value)
    with pytest.raises(SourceError, match="secret value"):
        pg(f"SELECT a::int AS a FROM {name}", show_values=True).fingerprint()
    with pytest.raises(SourceError, match=r'failed in the database \(.*relation "nope" does not exist'):
        pg("nope").columns()


URIS = [
    f"postgresql://bob:{PASSWORD}@127.0.0.1:1/x",
    f"postgresql://127.0.0.1:1/x?user=bob&password={PASSWORD}",
    f"postgresql://bob:{PASSWORD}@[::1/x",
    f"postgresql://bob:{PASSWORD}@127.0.0.1:1/x?nonsense=1",
    f"postgresql://bob:a/{PASSWORD}@127.0.0.1:1/x",
    f"postgresql://bob:a?{PASSWORD}@127.0.0.1:1/x",  # libpq takes it for a part of the password
    f"postgresql://bob:a#{PASSWORD}@127.0.0.1:1/x",
    f"postgresql://127.0.0.1:1/x#y?password={PASSWORD}",  # libpq knows no fragments
    f"postgresql://127.0.0.1:1/x?pass%77ord={PASSWORD}",
    f"postgresql://bob@corp:{PASSWORD}@127.0.0.1:1/x",
    f"postgresql://bob:it's {PASSWORD}@127.0.0.1:1/x",
]
OPEN_URIS = [
    "postgresql://host:5432/db?user=bob@corp",
    "postgresql://bob@[::1]:5432/db?passfile=/etc/x&sslkey=/etc/key",
    "postgresql://one:1,two:2/db",
    "sqlite:///C:/a@b.db",
]


@pytest.mark.parametrize("uri", URIS)
def test_a_password_is_in_no_message_nor_text(uri: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    source = Source.sql(uri, "people")
    with pytest.raises(SourceError, match="cannot be reached") as caught:
        source.fingerprint()
    said = "".join(traceback.format_exception(caught.value)) + caplog.text
    assert PASSWORD not in said + repr(source) + str(source) + repr(source.options) + repr(Address(uri))
    assert caught.value.__context__ is None or PASSWORD not in str(caught.value.__context__)


@pytest.mark.parametrize("uri", URIS)
def test_every_uri_with_a_password_is_known_to_have_one(uri: str) -> None:
    assert Address(uri).secrets
    assert PASSWORD not in str(Address(uri))


@pytest.mark.parametrize("uri", OPEN_URIS)
def test_a_uri_without_a_password_is_known_to_have_none(uri: str) -> None:
    assert not Address(uri).secrets


def test_what_is_no_uri_is_not_repeated() -> None:
    with pytest.raises(SourceError, match="there is no driver for this database") as caught:
        Source.sql(f"host=a password={PASSWORD} application_name=b://c", "people")
    assert PASSWORD not in str(caught.value)


def test_a_password_is_in_no_file_that_a_release_leaves(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The server lets everybody in, whatever the password."""
    caplog.set_level(logging.DEBUG)
    name = postgres.ingested(pa.table({"a": ["x", "y"]}))
    domain = Domain({"a": ["x", "y"]})
    plan = rs.plan(rs.marginals(domain, ways=[1]), rs.ZCDP(rho=1))
    ledger = rs.Ledger(tmp_path / "a.ledger", rs.ZCDP(rho=1))
    source = Source.sql(f"{postgres.server()}&password={PASSWORD}", name)
    release = rs.measure(plan, source, ledger=ledger, out=tmp_path / "out")
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) > 5
    for path in files:
        assert PASSWORD.encode() not in path.read_bytes()
    assert PASSWORD not in caplog.text + repr(release) + repr(ledger)


def test_a_server_that_is_not_there_is_said_with_its_reason_where_there_is_no_password() -> None:
    with pytest.raises(SourceError, match=r"^postgresql://127\.0\.0\.1:1/x cannot be reached \(.*[Cc]onnect"):
        Source.sql("postgresql://127.0.0.1:1/x", "people").columns()


def test_a_driver_that_is_not_installed_or_not_known_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SourceError, match=r"run: pip install adbc-driver-snowflake$"):
        Source.sql("snowflake://account/db", "people").columns()
    with pytest.raises(SourceError, match="there is no driver for mysql:// databases; there are postgresql, "):
        Source.sql("mysql://bob:x@host/db", "people")
    with pytest.raises(SourceError, match="connection is a Connection, no ADBC connection"):
        Source.adbc(sqlite3.connect(":memory:"), "people")
    with pytest.raises(SourceError, match="write postgresql://host/database"):
        Source.sql("people.db", "people")


@pytest.fixture
def mixed(tmp_path: Path) -> str:
    with contextlib.closing(sqlite3.connect(tmp_path / "a b.db")) as connection, connection:
        connection.execute("CREATE TABLE t (a, b)")
        values = [*range(2000), "old", 2.5, 0.1 + 0.2, 1e300, None, "", b"\x01"]
        connection.executemany("INSERT INTO t VALUES (?, 'x')", [(value,) for value in values])
    return f"sqlite:///{tmp_path / 'a b.db'}"


def test_mixed_types_of_sqlite_are_text(mixed: str) -> None:
    values = [value for batch in Source.sql(mixed, "t").batches(["a"]) for value in batch.column(0).to_pylist()]
    assert values[:3] == ["0", "1", "2"]
    assert values[2000:] == ["old", "2.5", "0.30000000000000004", "1.0e+300", None, "", "\x01"]


def test_sqlite_is_opened_for_reading_and_a_file_that_is_not_there_is_not_made(mixed: str, tmp_path: Path) -> None:
    with Source.sql(mixed, "t").snapshot() as still:
        before = still.fingerprint()
        write = "import sqlite3; c = sqlite3.connect('a b.db', timeout=0); c.execute('DELETE FROM t'); c.commit()"
        # In a process of its own: SQLite's locks do not hold within one.
        ended = subprocess.run([sys.executable, "-c", write], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert "database is locked" in ended.stderr
        assert still.fingerprint() == before
    with pytest.raises(SourceError, match=r"there is no database '.*none\.db'; check the path"):
        Source.sql(f"sqlite:///{tmp_path / 'none.db'}", "t").columns()
    assert not (tmp_path / "none.db").exists()
