"""Counting on Spark beside Spark's own GROUP BY and GROUPING SETS: all tables of up to two attributes.

python -m benchmarks.spark [--reduced] [--part 13|100]

In one Java machine with the usual compiler. CPU seconds are those of the Java machine and its Python workers; `cold` is
the first count of the session, with Python workers to start. Where a GROUP BY for every table would take hours, some
are run and the rest is extrapolated, which is said. Memory is the largest resident set, Python workers together.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import residua as rs
from benchmarks.show import print_rows
from benchmarks.standalone import settings, started
from residua.source import Source

FILES = 8
SAMPLE = 20  # tables counted by GROUP BY where all would take too long
MOST_WORK = 10**8  # rows times tables that are counted in full by Spark's own ways


def tree() -> dict[int, tuple[str, float, int]]:
    """This process's children and theirs: name, CPU seconds, bytes."""
    parents, found, tick = {}, {}, os.sysconf("SC_CLK_TCK")
    for path in Path("/proc").glob("[0-9]*"):
        try:
            text = (path / "stat").read_text()
        except OSError:
            continue
        name, rest = text.split("(", 1)[1].rsplit(")", 1)[0], text.rsplit(")", 1)[1].split()
        parents[int(path.name)] = int(rest[1])
        cpu = sum(int(rest[i]) for i in (11, 12, 13, 14)) / tick
        found[int(path.name)] = (name, cpu, int(rest[21]) * os.sysconf("SC_PAGE_SIZE"))

    def below(pid: int) -> bool:
        while pid > 1 and pid in parents:
            pid = parents[pid]
            if pid == os.getpid():
                return True
        return False

    return {pid: figures for pid, figures in found.items() if below(pid)}


@contextmanager
def memory() -> Iterator[dict[str, int]]:
    most, over = {"java": 0, "python": 0, "driver": 0}, threading.Event()

    def watch() -> None:
        while not over.wait(0.1):
            now = tree()
            java = sum(size for name, _, size in now.values() if name == "java")
            most["java"] = max(most["java"], java)
            most["python"] = max(most["python"], sum(size for _, _, size in now.values()) - java)
            own = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            most["driver"] = max(most["driver"], own)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield most
    finally:
        over.set()
        thread.join()


def timed(work: Callable[[], Any]) -> tuple[Any, float, float]:
    cpu, clock = sum(spent for _, spent, _ in tree().values()) + time.process_time(), time.perf_counter()
    found = work()
    spent = sum(spent for _, spent, _ in tree().values()) + time.process_time() - cpu
    return found, max(spent, 0.0), time.perf_counter() - clock


def written(folder: Path, sizes: list[int], rows: int) -> Path:
    rng, place = np.random.default_rng(0), folder / f"{rows}x{len(sizes)}"
    place.mkdir()
    for part in range(FILES):
        columns = {f"a{i}": rng.integers(0, n, rows // FILES, dtype=np.int16) for i, n in enumerate(sizes)}
        pq.write_table(pa.table(columns), place / f"{part}.parquet")
    return place


def run(session: Any, place: Path, sizes: list[int], rows: int) -> None:
    domain = rs.Domain.of_sizes({f"a{i}": n for i, n in enumerate(sizes)})
    plan = rs.plan(rs.marginals(domain, ways=[1, 2]), rs.ZCDP(rho=0.5))
    layout, sets = plan.measurements.counted, [s for k in (1, 2) for s in combinations(domain.names, k)]
    frame = session.read.parquet(str(place))
    lines, reference = [], None

    def line(name: str, cpu: float, clock: float, most: dict[str, int] | None, note: str = "") -> None:
        sized = [f"{most[k] / 1e6:,.0f}" for k in ("driver", "java", "python")] if most else ["", "", ""]
        lines.append([name, f"{cpu:.1f}", f"{clock:.1f}", *sized, note])

    for tasks in (2, 4):
        for warm in ("cold", "warm"):
            with memory() as most:
                source = Source.spark(frame.coalesce(tasks))
                counted, cpu, clock = timed(lambda source=source: source.count(domain, layout))
            line(f"residua, {tasks} tasks, {warm}", cpu, clock, most)
            assert reference is None or np.array_equal(counted.tables, reference)
            reference = counted.tables
    sampled = sets if rows * len(sets) <= MOST_WORK else sets[:: len(sets) // SAMPLE]

    def group_by() -> int:
        return sum(frame.groupBy(*chosen).count().toArrow().num_rows for chosen in sampled)

    _, cpu, clock = timed(group_by)
    share = len(sets) / len(sampled)
    note = "" if share == 1 else f"extrapolated from {len(sampled)} tables"
    line("a GROUP BY for each table", cpu * share, clock * share, None, note)
    if len(sizes) <= 32:
        tenth = 10 if rows * len(sets) > MOST_WORK else 1
        part = frame if tenth == 1 else frame.sample(1 / tenth, seed=0)
        part.createOrReplaceTempView("records")
        columns = ", ".join(domain.names)
        listed = ", ".join(f"({', '.join(chosen)})" for chosen in sets)
        query = f"SELECT {columns}, count(*) AS n FROM records GROUP BY GROUPING SETS ({listed})"
        _, cpu, clock = timed(lambda: session.sql(query).toArrow())
        note = "" if tenth == 1 else "extrapolated from a tenth of the rows"
        line("one GROUPING SETS", cpu * tenth, clock * tenth, None, note)
    else:
        lines.append(["one GROUPING SETS", "", "", "", "", "", "more than 64 columns: not possible"])
    header = ["", "CPU s", "clock s", "driver, Python MB", "Java MB", "Python workers MB", ""]
    print_rows(f"{rows:,} rows × {len(sizes)} attributes, {len(sets):,} tables, {layout.cells:,} cells", header, lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--reduced", action="store_true", help="a tenth of the rows")
    parser.add_argument("--part", type=int, choices=(13, 100), help="only the one with so many attributes")
    given = parser.parse_args()
    scale = 10 if given.reduced else 1
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        told = settings(folder) | {"spark.driver.extraJavaOptions": "", "spark.sql.codegen.wholeStage": "true"}
        told |= {"spark.driver.memory": "3g", "spark.default.parallelism": str(FILES)}
        session = started("local[4]", told | {"spark.sql.shuffle.partitions": "4"})
        for sizes, rows in (([2, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 15, 16], 10**7), ([10] * 100, 10**6)):
            if given.part in (None, len(sizes)):
                run(session, written(folder, sizes, rows // scale), sizes, rows // scale)
        session.stop()


if __name__ == "__main__":
    main()
