"""Counting: residua beside plain DuckDB, NumPy and bare compiled loops, on the same data in one run.

    python benchmarks/counting.py [rows]

Times are seconds of wall clock and of processor, best of three (of one where it takes long). `bare kernel` counts
codes that are already encoded in memory: the floor under every other line.
"""

import itertools
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from residua.demo_data import demo_folder
from residua.domain import Categories, Domain, Integers
from residua.linalg.lattice import Layout, all_sets, closure, layout_of
from residua.source import source_of
from residua.source.accumulate import Accumulator, Way, tables_of_layout
from residua.source.counting import count

BLOCK = 1 << 16


@dataclass(frozen=True)
class Row:
    data: str
    method: str
    wall: float
    processor: float


def timed(data: str, method: str, run: Callable[[], object], repeats: int = 3) -> Row:
    best = Row(data, method, float("inf"), float("inf"))
    for _ in range(repeats):
        wall, processor = time.perf_counter(), time.process_time()
        run()
        wall, processor = time.perf_counter() - wall, time.process_time() - processor
        best = Row(data, method, min(best.wall, wall), min(best.processor, processor))
    return best


def three_way(domain: Domain) -> Layout:
    lattice = closure([all_sets(len(domain), 3)], len(domain))
    return layout_of(lattice, domain.sizes, lattice.is_maximal)


def bare_kernel(layout: Layout, codes: np.ndarray, way: Way) -> np.ndarray:
    with ThreadPoolExecutor() as pool:
        accumulator = Accumulator(tables_of_layout(layout), codes.shape[1], pool, way)
        for start in range(0, codes.shape[1], BLOCK):
            block = np.ascontiguousarray(codes[:, start : start + BLOCK])
            accumulator.add(block, block.shape[1], None)
        return accumulator.finish()


def bincount(layout: Layout, codes: np.ndarray) -> np.ndarray:
    """Full columns, one table at a time: what most people write first."""
    out = np.zeros(layout.cells, dtype=np.int64)
    for group in layout:
        for table, members in enumerate(group.members):
            places = np.ravel_multi_index(tuple(codes[members]), group.shape)
            group.view(out)[table] = np.bincount(places, minlength=group.cells).reshape(group.shape)
    return out


def group_by(names: tuple[str, ...], layout: Layout, records: str, connection: Any) -> None:
    for group in layout:
        for members in group.members:
            columns = ", ".join(f'"{names[i]}"' for i in members)
            connection.execute(f"SELECT {columns}, count(*) FROM {records} GROUP BY ALL").fetchall()


def synthetic(total: int, folder: Path) -> Iterator[Row]:
    rng = np.random.default_rng(0)
    domain = Domain.of_sizes([10] * 10)
    layout = three_way(domain)
    codes = rng.integers(0, 10, (10, total), dtype=np.uint8)
    table = pa.table(dict(zip(domain.names, codes, strict=True)))
    path = folder / "synthetic.parquet"
    pq.write_table(table, path)
    data = f"{total:.0e} × 10, memory"
    ways: list[Way] = ["covering", "direct"]
    for way in ways:
        yield timed(data, f"bare kernel, {way}", lambda way=way: bare_kernel(layout, codes, way))  # type: ignore[misc]
    yield timed(data, "residua count (Arrow)", lambda: count(source_of(table), domain, layout))
    yield timed(data, "NumPy bincount", lambda: bincount(layout, codes), 1)
    with duckdb.connect() as connection:
        connection.execute("SET enable_progress_bar = false")
        connection.register("arrow", table)
        connection.execute("CREATE TABLE records AS SELECT * FROM arrow")
        run = lambda: group_by(domain.names, layout, "records", connection)  # noqa: E731
        yield timed(data, "DuckDB GROUP BY each", run, 1)
        data = f"{total:.0e} × 10, Parquet"
        yield timed(data, "residua count", lambda: count(source_of(path), domain, layout))
        run = lambda: group_by(domain.names, layout, f"'{path}'", connection)  # noqa: E731
        yield timed(data, "DuckDB GROUP BY each", run, 1)


def hundred_columns() -> Row:
    domain = Domain.of_sizes([10] * 100)
    layout = three_way(domain)
    rng = np.random.default_rng(1)
    table = pa.table({name: rng.integers(0, 10, 50_000, dtype=np.uint8) for name in domain.names})
    return timed("5e4 × 100, 161,700 tables", "residua count", lambda: count(source_of(table), domain, layout), 1)


def adult(folder: Path) -> Iterator[Row]:
    table = pq.read_table(demo_folder() / "adult.parquet")
    path = folder / "adult.csv"
    pa_csv.write_csv(pa.table({name: table[name].to_pylist() for name in table.column_names}), path)
    table = pa_csv.read_csv(path)
    attributes: dict[str, Any] = {}
    for name in table.column_names:
        column = table[name]
        if name in ("capital-gain", "capital-loss"):
            continue  # thousands of values: a curator would declare bins
        if pa.types.is_integer(column.type):
            attributes[name] = Integers(min(column.to_pylist()), max(column.to_pylist()))
        else:
            attributes[name] = Categories(tuple(sorted(set(column.to_pylist()))))
    domain = Domain(attributes)
    layout = three_way(domain)
    data = f"Adult, {sum(len(g.numbers) for g in layout)} tables"
    yield timed(data, "residua count (CSV)", lambda: count(source_of(path), domain, layout))
    with duckdb.connect() as connection:
        connection.execute("SET enable_progress_bar = false")
        connection.execute(f"CREATE TABLE records AS SELECT * FROM read_csv('{path}')")
        run = lambda: group_by(domain.names, layout, "records", connection)  # noqa: E731
        yield timed(data, "DuckDB GROUP BY each", run)


def rows(total: int = 10**7) -> Iterator[Row]:
    """Every measurement, as it is made."""
    with tempfile.TemporaryDirectory() as folder:
        yield from itertools.chain(adult(Path(folder)), synthetic(total, Path(folder)), [hundred_columns()])


def main() -> None:
    total = int(float(sys.argv[1])) if len(sys.argv) > 1 else 10**7
    print(f"{'data':28}{'method':28}{'wall s':>8}{'cpu s':>8}")
    for row in rows(total):
        print(f"{row.data:28}{row.method:28}{row.wall:8.2f}{row.processor:8.2f}", flush=True)


if __name__ == "__main__":
    main()
