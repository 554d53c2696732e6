"""Bounded contributions: at most five records of each person, beside DuckDB's window function, in one run.

    python -m benchmarks.persons [--full] [--folder /tmp]

Ten records per person on average, in Parquet, in no order; five attributes, all 2-way tables. Each line is a process of
its own: seconds of wall clock and of processor, and the most memory it held. `no bound` is the same counting of all
records. DuckDB numbers each person's records by a hash, keeps five, and counts two tables of two attributes; it
decides by a hash of its own, and all of its memory (8 GB at most) is counted. `--full` adds 10⁸ rows with 10⁷ persons.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.show import print_rows

SIZES = {"month": 12, "region": 50, "sex": 2, "age": 90, "answer": 5}
RECORDS = 5


def write(path: Path, rows: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(1)
    writer = None
    for low in range(0, rows, 2**20):
        n = min(2**20, rows - low)
        columns = {"id": rng.integers(10**9, 10**9 + max(rows // 10, 1), size=n)}
        columns |= {name: rng.integers(size, size=n).astype(np.int16) for name, size in SIZES.items()}
        table = pa.table(columns)
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def bounded(path: Path, person: bool) -> int:
    import residua as rs
    from residua.linalg.lattice import all_sets, closure, layout_of
    from residua.source.bound import bound_of

    domain = rs.Domain({name: rs.Integers(0, size - 1) for name, size in SIZES.items()})
    lattice = closure([all_sets(len(domain), 2)], len(domain))
    layout = layout_of(lattice, domain.sizes, lattice.is_maximal)
    source = rs.Source.parquet(path, person="id" if person else None)
    bound = bound_of(rs.Person(RECORDS), domain, bytes(range(32))) if person else None
    tables = source.count(domain, layout, None, bound).tables
    first = layout.groups[0]
    return int(tables[first.start : first.start + first.cells].sum())


def windowed(path: Path) -> int:
    import duckdb

    with duckdb.connect() as connection:
        connection.execute("SET memory_limit = '8GB'")
        connection.execute(f"SET temp_directory = '{path.parent}'")
        order = f"hash(id, {', '.join(SIZES)})"
        numbered = f"SELECT *, row_number() OVER (PARTITION BY id ORDER BY {order}) AS place FROM '{path}'"
        connection.execute(f"CREATE TEMP TABLE kept AS SELECT * FROM ({numbered}) WHERE place <= {RECORDS}")
        pairs = [("month", "region"), ("sex", "age")]
        return sum(
            len(connection.execute(f"SELECT {a}, {b}, count(*) FROM kept GROUP BY ALL").fetchall()) for a, b in pairs
        )


def one(kind: str, path: Path) -> None:
    start, used = time.perf_counter(), time.process_time()
    found = windowed(path) if kind == "duckdb" else bounded(path, kind == "bounded")
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    line = {"wall": time.perf_counter() - start, "cpu": time.process_time() - used, "gb": most, "counted": found}
    sys.stdout.write(json.dumps(line))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--folder", default=None)
    parser.add_argument("--one", nargs=2)
    asked = parser.parse_args()
    if asked.one:
        one(asked.one[0], Path(asked.one[1]))
        return
    names = {"counted": "residua, no bound", "bounded": "residua, at most 5 of each", "duckdb": "DuckDB, row_number()"}
    lines = []
    with tempfile.TemporaryDirectory(dir=asked.folder) as folder:
        for rows in (10**6, 10**7, *((10**8,) if asked.full else ())):
            path = Path(folder) / f"{rows}.parquet"
            write(path, rows)
            for kind, name in names.items():
                if kind == "duckdb" and rows > 10**7:  # it takes minutes and disk
                    continue
                command = [sys.executable, "-m", "benchmarks.persons", "--one", kind, str(path)]
                done = subprocess.run(command, capture_output=True, text=True)
                if done.returncode:
                    lines.append([f"{rows:,}", name, "failed", done.stderr.strip().splitlines()[-1][:60], ""])
                    continue
                told = json.loads(done.stdout)
                lines.append([f"{rows:,}", name, f"{told['wall']:.1f}", f"{told['cpu']:.1f}", f"{told['gb']:.2f}"])
            path.unlink()
    print_rows("At most five records of each person, ten on average", ["rows", "method", "s", "CPU s", "GB"], lines)


if __name__ == "__main__":
    main()
