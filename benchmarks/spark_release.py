"""A release of 2·10⁸ cells on a standalone Spark cluster with executors of 1 GB, one of which is killed in the middle.

python -m benchmarks.spark_release [--attributes 108] [--rows 50000] [--folder DIR]

All marginals of up to three of 108 attributes of 10 values: 204,156 tables of 1,000 cells and those below. The workers,
the driver and the folder are on this machine. Memory is the largest resident set seen, of the Java machine and of its
Python workers apart; times are of the clock, beside whatever else runs. Then the executors rebuild all tables and write
them as one dataset.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import residua as rs
from benchmarks.show import print_rows
from benchmarks.standalone import Cluster, settings, standalone, started

_PAGE = os.sysconf("SC_PAGE_SIZE")


class Watch:
    """The largest memory of executors, their Python workers and the driver; and the killing of one executor."""

    def __init__(self, cluster: Cluster, folder: Path, kill_after: int | None) -> None:
        self._cluster, self._folder, self._kill_after = cluster, folder, kill_after
        self.most = {"executor, Java": 0, "executor, Python": 0, "driver, Java": 0, "driver, Python": 0}
        self.killed_after: int | None = None

    @contextmanager
    def running(self) -> Iterator[None]:
        over = threading.Event()
        thread = threading.Thread(target=self._watch, args=(over,))
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _watch(self, over: threading.Event) -> None:
        while not over.wait(0.2):
            self._note()
            written = len(list(self._folder.glob(".out.partial-*/measuring/part-*")))
            if self.killed_after is None and self._kill_after is not None and written >= self._kill_after:
                self._cluster.kill_one()
                self.killed_after = written

    def _note(self) -> None:
        parents, sizes, names = {}, {}, {}
        for path in Path("/proc").glob("[0-9]*"):
            try:
                stat = (path / "stat").read_text()
            except OSError:
                continue
            pid, name, rest = int(path.name), stat.split("(", 1)[1].rsplit(")", 1)[0], stat.rsplit(")", 1)[1].split()
            parents[pid], sizes[pid], names[pid] = int(rest[1]), int(rest[21]) * _PAGE, name
        executors = set(self._cluster.executors())
        for pid, size in sizes.items():
            above, line = parents[pid], [pid]
            while above in parents and above > 1:
                line.append(above)
                above = parents[above]
            kind = "Java" if names[pid] == "java" else "Python"
            if executors & set(line):
                where = "executor"
            elif os.getpid() in line and not {process.pid for process in self._cluster.processes} & set(line):
                where = "driver"
            else:
                continue
            key = f"{where}, {kind}"
            self.most[key] = max(self.most[key], size)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--attributes", type=int, default=108)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--folder", type=Path, default=None)
    told = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=told.folder, ignore_cleanup_errors=True) as name:
        run(Path(name), told.attributes, told.rows)


def run(folder: Path, attributes: int, rows: int) -> None:
    rng = np.random.default_rng(0)
    table = pa.table({f"a{i}": rng.integers(0, 10, rows, dtype=np.int8) for i in range(attributes)})
    pq.write_table(table, folder / "records.parquet")
    domain = rs.Domain.of_sizes({f"a{i}": 10 for i in range(attributes)})
    begin = time.perf_counter()
    plan = rs.plan(rs.marginals(domain, ways=[1, 2, 3]), rs.ZCDP(rho=0.5))
    planned = time.perf_counter() - begin
    with standalone(folder, memory="1g") as cluster:
        more = {"spark.executor.memory": "1g", "spark.sql.shuffle.partitions": "40", "spark.task.maxFailures": "8"}
        session = started(cluster.master, settings(folder) | more)
        data = rs.Source.spark(session.read.parquet(str(folder / "records.parquet")).repartition(4))
        ledger = rs.Ledger(folder / "a.ledger", rs.ZCDP(rho=0.5))
        watch = Watch(cluster, folder, plan.measurements.cells // (1 << 20) // 4)
        steps: dict[str, float] = {}
        begin = time.perf_counter()
        with watch.running():
            rs.measure(
                plan,
                data,
                ledger=ledger,
                out=folder / "out",
                progress=lambda step, *_: steps.setdefault(step, time.perf_counter()) and None,
            )
        measured = time.perf_counter() - begin
        rebuilding = Watch(cluster, folder, None)
        begin = time.perf_counter()
        with rebuilding.running():
            files = rs.Release.load(folder / "out").export(folder / "tables", "parquet", spark=session)
        rebuilt = time.perf_counter() - begin
        session.stop()
    left = sorted(path.name for path in folder.rglob("*") if "shuffle" in path.name and path.is_file())
    begin = time.perf_counter()
    release = rs.Release.load(folder / "out")
    loaded = time.perf_counter() - begin
    scores = []
    for _ in range(200):
        members = np.sort(rng.choice(attributes, 3, replace=False))
        places = np.ravel_multi_index([table.column(int(i)).to_numpy() for i in members], (10, 10, 10))
        names = [f"a{i}" for i in members]
        error = release.estimates(names).ravel() - np.bincount(places, minlength=1000)
        scores.append(error / np.sqrt(np.ravel(plan.variance(names))))
    parts = list((folder / "out" / "measurements").iterdir())
    rows, wrong = 0, 0
    for path in files:
        found = pq.ParquetFile(path)
        rows += found.metadata.num_rows
        title = found.read_row_group(0, columns=["table"]).column(0)[0].as_py()
        own = release.table(title.split(" × ")).columns
        error = (
            np.array(found.read_row_group(0, columns=["estimate"]).column(0)[: len(own["stddev"])]) - own["estimate"]
        )
        wrong += bool((np.abs(error) > own["stddev"] / 100).any())  # digits are cut there
    figures = [
        ["cells", f"{release.measurements.cells:,}"],
        ["parts written, each once", f"{len(parts):,}"],
        ["bytes of parts", f"{sum(path.stat().st_size for path in parts) / 1e9:.2f} GB"],
        ["parts written when an executor was killed", str(watch.killed_after)],
        ["debits", str(len(ledger.entries))],
        ["planning", f"{planned:.0f} s"],
        ["checking, counting, noise, writing", f"{measured:.0f} s"],
        ["opening the release", f"{loaded:.1f} s"],
        ["error over stated deviation, 200 tables (should be 1)", f"{np.sqrt(np.mean(np.square(scores))):.4f}"],
        ["shuffle files left after the session", str(len(left))],
        *([f"memory, {where}", f"{size / 1e6:,.0f} MB"] for where, size in watch.most.items()),
        ["all tables rebuilt and written by the executors", f"{rebuilt:.0f} s"],
        ["rows of the dataset, in files", f"{rows:,} in {len(files):,}"],
        ["bytes of the dataset", f"{sum(path.stat().st_size for path in files) / 1e9:.2f} GB"],
        ["files whose first table is not the release's", str(wrong)],
        *([f"memory while rebuilding, {where}", f"{size / 1e6:,.0f} MB"] for where, size in rebuilding.most.items()),
    ]
    print_rows("A release on a standalone cluster, two workers of one core and 1 GB", ["", ""], figures)


if __name__ == "__main__":
    main()
