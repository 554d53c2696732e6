"""Engines: counting through residua beside the engine's own GROUP BY and GROUPING SETS, on the same data in one run.

    python -m benchmarks.engines [--rows 10000000] [--wide-rows 1000000] [--engines duckdb,postgresql]

Two datasets: 13 attributes of 2 to 20 values, and 100 attributes of 10; all tables of at most two attributes each. Each
way runs in a process of its own; CPU seconds are of that process, and of the PostgreSQL server's where it takes part;
memory is the highest the process ever had, above what it had before it began. `check and count` is what a release
does: everything is read twice, or read once and kept. GROUP BY is one query for each of the tables with two attributes
(of 4,950 tables 50 are asked for, of SQLite's 78 three, and the seconds scaled up, which the table says);
GROUPING SETS one query for all of them, where an engine takes that many. Both give counts by value, without checking
any value, and without cells that are empty. PostgreSQL is a server of its own, started as for the tests.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.show import print_rows

TICKS = os.sysconf("SC_CLK_TCK")
Result = tuple[float, float, float]


def shapes(name: str) -> list[int]:
    return [2, 3, 5, 7, 9, 10, 12, 14, 16, 16, 18, 20, 20] if name == "13" else [10] * 100


def codes(name: str, rows: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    return {f"a{i:02d}": rng.integers(0, n, rows).astype(np.int8) for i, n in enumerate(shapes(name))}


def domain_of(name: str) -> Any:
    from residua.domain import Domain, Integers

    return Domain({f"a{i:02d}": Integers(0, n - 1) for i, n in enumerate(shapes(name))})


def layout_for(domain: Any) -> Any:
    from residua.linalg.lattice import all_sets, closure, layout_of

    lattice = closure([all_sets(len(domain), 2)], len(domain))
    return layout_of(lattice, domain.sizes, lattice.is_maximal)


def prepare(name: str, rows: int, folder: Path, engines: list[str]) -> None:
    """Writes the same records for every engine."""
    import duckdb
    import pyarrow as pa
    import pyarrow.csv as pa_csv
    import pyarrow.parquet as pq

    table = pa.table(codes(name, rows))
    if "parquet" in engines:
        pq.write_table(table, folder / "a.parquet")
    if "csv" in engines:
        pa_csv.write_csv(table, folder / "a.csv")
    if "duckdb" in engines:
        with duckdb.connect(str(folder / "a.duckdb")) as connection:
            connection.register("records", table)
            connection.execute("CREATE TABLE people AS SELECT * FROM records")
    if "postgresql" in engines:
        from tests.conformance import postgres

        postgres.run("DROP TABLE IF EXISTS people")
        with postgres.connected() as connection, connection.cursor() as cursor:
            for batch in table.to_batches(max_chunksize=1 << 18):
                cursor.adbc_ingest("people", pa.Table.from_batches([batch]), mode="create_append")
        postgres.run("ANALYZE people")
    if "sqlite" in engines:
        with contextlib.closing(sqlite3.connect(folder / "a.db")) as connection, connection:
            connection.execute(f"CREATE TABLE people ({', '.join(table.column_names)})")
            marks = ", ".join("?" * table.num_columns)
            for batch in table.to_batches(max_chunksize=1 << 16):
                columns = [column.to_pylist() for column in batch.columns]
                connection.executemany(f"INSERT INTO people VALUES ({marks})", zip(*columns, strict=True))


def source_for(engine: str, folder: Path, uri: str) -> Any:
    from residua.source import Source, source_of

    if engine == "duckdb":
        return Source.duckdb(folder / "a.duckdb", "people")
    if engine == "postgresql":
        return Source.sql(uri, "people")
    if engine == "sqlite":
        return Source.sql(f"sqlite:///{folder / 'a.db'}", "people")
    return source_of(folder / f"a.{engine}")


def ours(name: str, engine: str, folder: Path, uri: str) -> None:
    """What a release does: check, then count what was checked."""
    domain = domain_of(name)
    with source_for(engine, folder, uri).snapshot() as source:
        found = source.checked(domain)
        found.count(layout_for(domain), None, None)


def own(name: str, engine: str, how: str, folder: Path, uri: str) -> None:
    """The engine's own counting."""
    columns = list(codes(name, 1))
    pairs = [", ".join(pair) for pair in itertools.combinations(columns, 2)]
    if how == "GROUP BY":
        pairs = pairs[:: scale(name, engine)]
        asked = [f"SELECT {pair}, count(*) FROM people GROUP BY {pair}" for pair in pairs]
    else:
        sets = ", ".join(f"({pair})" for pair in pairs)
        asked = [f"SELECT {', '.join(columns)}, count(*) FROM people GROUP BY GROUPING SETS ({sets})"]
    for query in asked:
        _ask(engine, query, folder, uri)


def scale(name: str, engine: str) -> int:
    """How many tables each one that is asked for stands for."""
    return 99 if name == "100" else 26 if engine == "sqlite" else 1


def peak_megabytes() -> float:
    """The most memory this process had since it began (ru_maxrss would count its parent's)."""
    return next(int(line.split()[1]) for line in Path("/proc/self/status").open() if line.startswith("VmHWM")) / 1024


def _ask(engine: str, query: str, folder: Path, uri: str) -> None:
    if engine == "duckdb":
        import duckdb

        with duckdb.connect(str(folder / "a.duckdb"), read_only=True) as connection:
            connection.execute(query).fetchall()
    elif engine == "postgresql":
        import adbc_driver_postgresql.dbapi as driver

        with driver.connect(uri, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute(query)
            cursor.fetch_arrow_table()
    else:
        with contextlib.closing(sqlite3.connect(folder / "a.db")) as connection:
            connection.execute(query).fetchall()


def server_seconds(uri: str) -> float:
    """CPU seconds of all processes of the PostgreSQL server, also of those that ended."""
    if not uri:
        return 0.0
    folder = uri.split("host=")[1].split("&")[0]
    parent = int((Path(folder) / "data" / "postmaster.pid").read_text().splitlines()[0])
    total = 0.0
    for place in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = place.read_text().rpartition(")")[2].split()
            if int(place.parent.name) == parent:
                total += sum(map(int, fields[11:15]))
            elif int(fields[1]) == parent:
                total += sum(map(int, fields[11:13]))
    return total / TICKS


def child(arguments: list[str]) -> None:
    """One way, in this process: prints wall and CPU seconds and megabytes."""
    name, engine, how, folder, uri = arguments
    import pyarrow  # noqa: F401  (not what is measured)

    import residua.source.counting  # noqa: F401

    before = peak_megabytes()
    wall, spent = time.perf_counter(), time.process_time()
    if how == "residua":
        ours(name, engine, Path(folder), uri)
    else:
        own(name, engine, how, Path(folder), uri)
    print(time.perf_counter() - wall, time.process_time() - spent, peak_megabytes() - before)


def timed(name: str, engine: str, how: str, folder: Path, uri: str, most: float) -> Result | str:
    served = server_seconds(uri)
    command = [sys.executable, "-m", "benchmarks.engines", "--child", name, engine, how, str(folder), uri]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=most)
    except subprocess.TimeoutExpired:
        return f"over {most:.0f} s"
    except subprocess.CalledProcessError as problem:
        return f"refused ({problem.stderr.strip().splitlines()[-1][:50]})"
    wall, spent, peak = map(float, done.stdout.split())
    times = scale(name, engine) if how == "GROUP BY" else 1
    return times * wall, times * (spent + server_seconds(uri) - served), peak


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--wide-rows", type=int, default=1_000_000)
    parser.add_argument("--engines", default="parquet,csv,duckdb,postgresql,sqlite")
    parser.add_argument("--seconds", type=float, default=600, help="the most that one way may take")
    parser.add_argument("--child", nargs=5)
    given = parser.parse_args()
    if given.child:
        child(given.child)
        return
    engines = given.engines.split(",")
    uri = ""
    if "postgresql" in engines:
        from tests.conformance import postgres

        uri = postgres.server()
    for name, rows in (("13", given.rows), ("100", given.wide_rows)):
        if not rows:
            continue
        lines = []
        with tempfile.TemporaryDirectory(dir="/var/tmp") as place:
            prepare(name, rows, Path(place), engines)
            for engine in engines:
                ways: list[str] = ["residua"]
                ways += ["GROUP BY"] if engine in ("duckdb", "postgresql", "sqlite") else []
                ways += ["GROUPING SETS"] if engine in ("duckdb", "postgresql") else []
                for way in ways:
                    found = timed(name, engine, way, Path(place), uri if engine == "postgresql" else "", given.seconds)
                    told = (
                        [found, "", ""]
                        if isinstance(found, str)
                        else [f"{found[0]:.1f}", f"{found[1]:.1f}", f"{found[2]:.0f}"]
                    )
                    part = scale(name, engine) if way == "GROUP BY" else 1
                    note = f", one table in {part}, scaled" if part > 1 else ""
                    lines.append([engine, "check and count" if way == "residua" else f"its own {way}{note}", *told])
                    print(*lines[-1], file=sys.stderr)
        tables = len(shapes(name)) * (len(shapes(name)) - 1) // 2
        print_rows(
            f"{rows:,} records, {name} attributes, {tables:,} tables of two",
            ["engine", "way", "s", "CPU s", "MB"],
            lines,
        )


if __name__ == "__main__":
    main()
