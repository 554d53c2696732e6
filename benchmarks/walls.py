"""Other walls: publishing everything, counting, labels and mappings, each beside the figure that it stood at.

    python -m benchmarks.walls [light] [name …] [--beside OTHER/src]

Every line runs in a process of its own; CPU seconds of all its threads, and the most memory that it had. `light` leaves
out what takes more than 3 GB or a minute. With `--beside` the same lines run with another checkout first, where it can.
Commands are run as people run them, once they ran before: with bytecode and compiled loops on disk. Files go into
memory (`/dev/shm`) where there is that: on a disk that others used, the system took between 2 and 19 CPU s for the same
files. Arrow's own figure is measured in the same run.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

CACHE = Path(tempfile.gettempdir()) / "residua-walls"
Line = Callable[[], dict[str, Any]]
LINES: dict[str, tuple[str, str, bool, Line]] = {}  # name → (what, where it stood, whether it is heavy, how)


def line(what: str, stood: str, *, heavy: bool = False) -> Callable[[Line], Line]:
    def named(run: Line) -> Line:
        LINES[run.__name__] = (what, stood, heavy, run)
        return run

    return named


def clocked(run: Callable[[], Any]) -> tuple[float, float, Any]:
    """CPU seconds, seconds, and what came of it."""
    wall, begun = time.perf_counter(), cpu()
    found = run()
    return cpu() - begun, time.perf_counter() - wall, found


def cpu() -> float:
    return sum(
        own.ru_utime + own.ru_stime
        for own in (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    )


def released(attributes: int, *, sizes: list[int] | None = None) -> Path:
    """A release of all tables of up to three of so many attributes of ten values (or one table), kept on disk."""
    folder = CACHE / (f"release-{attributes}" if sizes is None else "release-one")
    if folder.exists():
        return folder
    CACHE.mkdir(exist_ok=True)
    import numpy as np
    import pyarrow as pa

    import residua as rs

    rng = np.random.default_rng(0)
    domain = rs.Domain.of_sizes({f"a{i:02d}": n for i, n in enumerate(sizes or [10] * attributes)})
    asked = rs.marginals(domain, ways=range(4)) if sizes is None else rs.marginals(domain, [domain.names])
    plan = rs.plan(asked, rs.ZCDP(0.5))
    data = pa.table({name: rng.integers(0, domain[name].size, 50_000).astype(np.int16) for name in domain.names})
    with tempfile.TemporaryDirectory() as place:
        rs.measure(plan, data, ledger=rs.Ledger(f"{place}/ledger", rs.ZCDP(0.5)), out=folder)
    return folder


def opened(folder: Path) -> Any:
    import residua as rs
    from residua.linalg import kernels  # noqa: F401 – compiled before the clock starts

    release = rs.Release.load(folder)
    next(iter(release.tables())) if len(release.sets) > 1 else None
    return release


@line("`tables()`, 20,876 tables of 50 attributes", "220 a second")
def tables() -> dict[str, Any]:
    release = opened(released(50))
    spent, _, count = clocked(lambda: sum(1 for _ in release.tables()))
    return {"cpu": spent, "said": f"{count:,} tables, {count / spent:,.0f} a second"}


def place() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else CACHE)


def run(folder: Path, form: str, out: str) -> None:
    env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(CACHE / "bytecode")}
    call = [sys.executable, "-m", "residua", "tables", str(folder), "--out", out, "--format", form]
    subprocess.run(call, check=True, capture_output=True, env=env)


def command(form: str, arrow: Callable[[str], str] | None = None) -> dict[str, Any]:
    folder = released(50)
    small = released(20)
    with place() as there:
        run(small, form, f"{there}/small")  # bytecode and compiled loops are on disk
        begun = resource.getrusage(resource.RUSAGE_CHILDREN).ru_stime
        spent, wall, _ = clocked(lambda: run(folder, form, f"{there}/out"))
        system = resource.getrusage(resource.RUSAGE_CHILDREN).ru_stime - begun
        files = list(Path(there, "out").iterdir())
        size = sum(path.stat().st_size for path in files) / 1e6
    with place() as there:
        beside = "" if arrow is None else f"; {arrow(there)}"
    rate = 19.7e6 / spent / 1e6
    said = f"{wall:.0f} s, {system:.1f} of it the system's, {len(files):,} files, {size:,.0f} MB, "
    return {"cpu": spent, "said": f"{said}{rate:.1f} million cells per CPU s{beside}"}


@line("`residua tables --out --format long`, the same", "stopped after 700 s (as CSV)")
def long() -> dict[str, Any]:
    return command("long")


@line("`residua tables --out --format long-csv`, the same", "16.4; Arrow 10.6")
def long_csv() -> dict[str, Any]:
    return command("long-csv", arrow_long)


@line("`residua tables --out` (a CSV file for each table), the same", "33.5; Arrow 17")
def csv() -> dict[str, Any]:
    return command("csv", arrow_files)


def arrow_long(there: str) -> str:
    """Arrow's own `write_csv` of a million rows of the long file, in memory already."""
    import pyarrow.csv
    import pyarrow.parquet

    run(released(20), "long", f"{there}/long")
    whole = pyarrow.parquet.read_table(f"{there}/long/tables.parquet")
    spent, _, _ = clocked(lambda: pyarrow.csv.write_csv(whole, f"{there}/out.csv"))
    return f"Arrow's own write_csv, in memory already: {19.7e6 / whole.num_rows * spent:.1f} (scaled)"


def arrow_files(there: str) -> str:
    """Arrow's own `write_csv` of tables of 1,000 rows into a file each, in memory already."""
    import pyarrow.csv

    from residua.formats.cube import cube_of

    tables = [table for table in released_tables(20) if len(table.attributes) == 3]
    batches = [batch for i, table in enumerate(tables) for batch in cube_of(table, i + 1, None).batches()]

    def write() -> None:
        for i, batch in enumerate(batches):
            pyarrow.csv.write_csv(batch, f"{there}/{i}.csv")

    spent, _, _ = clocked(write)
    return f"Arrow's own write_csv, in memory already: {19.7e6 / (1000 * len(batches)) * spent:.1f} (scaled)"


def released_tables(attributes: int) -> list[Any]:
    return list(opened(released(attributes)).tables())


@line("one table of 10⁸ cells, written as long Parquet", "> 10 GB as a frame", heavy=True)
def one_large() -> dict[str, Any]:
    release = opened(released(3, sizes=[1000, 1000, 100]))
    with tempfile.TemporaryDirectory(dir=CACHE) as place:
        spent, _, files = clocked(lambda: release.export(f"{place}/out", "long"))
        size = files[0].stat().st_size / 1e9
    return {"cpu": spent, "said": f"{1e8 / spent / 1e6:.1f} million cells a second, {size:.2f} GB"}


@line("the same table as an Arrow frame, labels as dictionaries", "> 10 GB as a frame", heavy=True)
def one_frame() -> dict[str, Any]:
    release = opened(released(3, sizes=[1000, 1000, 100]))
    spent, _, frame = clocked(lambda: release.table(release.domain.names).to_arrow(compact=True))
    return {"cpu": spent, "said": f"{frame.num_rows:,} rows, {frame.nbytes / 1e9:.1f} GB"}


@line("a release of 162 million cells on disk", "1.3 GB, zlib halves it", heavy=True)
def disk() -> dict[str, Any]:
    spent, _, folder = clocked(lambda: released(100))
    held = list((folder / "measurements").iterdir())
    size = sum(path.stat().st_size for path in held)
    cells = 161_700_000 + 495_000 + 1000 + 1
    return {"cpu": spent, "said": f"{size / 1e6:,.0f} MB, {8 * size / cells:.1f} bits a cell (made, written)"}


@line("… opened, and one table of three attributes read", "", heavy=True)
def one_of_many() -> dict[str, Any]:
    import residua as rs

    folder = released(100)
    spent, _, release = clocked(lambda: rs.Release.load(folder))
    read, _, _ = clocked(lambda: release.table(["a10", "a50", "a90"]))
    parts = release.noisy.part.cache_info().misses
    return {"cpu": spent + read, "said": f"open {spent:.1f} s, table {read:.1f} s, {parts} of 155 parts read"}


class Threads:
    """CPU seconds of each thread of this process meanwhile, the busiest first, as the system counts them."""

    def __init__(self) -> None:
        self.first: dict[str, float] = {}
        self.last: dict[str, float] = {}
        self.ended = threading.Event()
        self.watching = threading.Thread(target=self.watch)

    def watch(self) -> None:
        own = str(threading.get_native_id())
        while True:
            for task in Path("/proc/self/task").iterdir():
                try:
                    fields = (task / "stat").read_text().rpartition(")")[2].split()
                except OSError:  # it ended
                    continue
                if task.name != own:
                    self.last[task.name] = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
                    self.first.setdefault(task.name, self.last[task.name] if not self.ready else 0.0)
            self.ready = True
            self.begun.set()
            if self.ended.wait(0.05):
                return

    def __enter__(self) -> Threads:
        self.ready, self.begun = False, threading.Event()
        self.watching.start()
        self.begun.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self.watching.join()

    def __str__(self) -> str:
        spent = sorted((self.last[name] - self.first[name] for name in self.last), reverse=True)
        return " + ".join(f"{each:.1f}" for each in spent if each >= 0.05 * max(spent))


def counted_rows(rows: int) -> dict[str, Any]:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    import residua as rs
    from residua.linalg.lattice import all_sets, closure, layout_of
    from residua.source import source_of

    domain = rs.Domain.of_sizes([10] * 10)
    path = CACHE / f"{rows}.parquet"
    CACHE.mkdir(exist_ok=True)
    if not path.exists():
        rng = np.random.default_rng(0)
        schema = pa.schema([(name, pa.uint8()) for name in domain.names])
        with pq.ParquetWriter(path, schema) as writer:
            for _ in range(0, rows, 10**6):
                writer.write_table(
                    pa.table([rng.integers(0, 10, 10**6, dtype=np.uint8) for _ in range(10)], schema=schema)
                )
    lattice = closure([all_sets(10, 3)], 10)
    layout = layout_of(lattice, domain.sizes, lattice.is_maximal)
    little = source_of(pa.table({name: np.zeros(2 * 10**6, np.uint8) for name in domain.names}))
    little.count(domain, layout)  # compiled before the clock starts
    source = source_of(path)
    read, read_wall, _ = clocked(lambda: sum(batch.num_rows for batch in source.batches(domain.names)))
    with Threads() as at_checking:
        check, check_wall, checked = clocked(lambda: source.checked(domain))
    with Threads() as at_counting:
        count, count_wall, _ = clocked(lambda: checked.count(layout, None, None))
    shares = f"; by thread: checking {at_checking}, counting {at_counting}; read again: {'no' * checked.kept or 'yes'}"
    said = f"reading alone {read:.1f} ({read_wall:.1f}), checking {check:.1f} ({check_wall:.1f}), "
    return {"cpu": check + count, "said": said + f"counting {count:.1f} ({count_wall:.1f}) CPU s (s){shares}"}


@line("10⁷ rows, 120 tables", "a tenth of the next")
def counting() -> dict[str, Any]:
    return counted_rows(10**7)


@line("10⁸ rows, 120 tables", "reading 4, checking 9, counting 15 s", heavy=True)
def counting_more() -> dict[str, Any]:
    return counted_rows(10**8)


def labels_of(rows: int) -> tuple[Any, Any, Any]:
    import numpy as np
    import pyarrow as pa

    import residua as rs

    rng = np.random.default_rng(0)
    labels = [f"label-{i:07d}" for i in rng.permutation(10**6)]
    table = pa.table({"a": pa.array(labels).take(pa.array(rng.integers(0, 10**6, rows)))})
    return rs.Domain({"a": labels}), table, pa.table({"a": labels, "code": np.arange(10**6)})


@line("4 million rows with a million text labels, counted", "50 s")
def labels() -> dict[str, Any]:
    from residua.linalg.lattice import all_sets, closure, layout_of
    from residua.source import source_of

    domain, table, _ = labels_of(int(os.environ.get("RESIDUA_WALLS_ROWS", "4000000")))
    lattice = closure([all_sets(1, 1)], 1)
    layout = layout_of(lattice, domain.sizes, lattice.is_maximal)
    spent, _, counted = clocked(lambda: source_of(table).count(domain, layout))
    assert int(counted.tables.sum()) == table.num_rows
    return {"cpu": spent, "said": f"{table.num_rows:,} rows"}


@line("… the same by DuckDB, joined to the list", "1.2 s")
def labels_by_duckdb() -> dict[str, Any]:
    import duckdb

    _, table, listed = labels_of(4_000_000)
    with duckdb.connect() as connection:
        connection.register("rows", table)
        connection.register("listed", listed)
        query = "SELECT code, count(*) FROM rows JOIN listed USING (a) GROUP BY code"
        spent, _, _ = clocked(lambda: connection.execute(query).fetchnumpy())
    return {"cpu": spent, "said": ""}


@line("targets as a mapping, 200 attributes ≤ 3-way (1.3 million sets)", "24 s, 95 % of it reading the mapping")
def targets() -> dict[str, Any]:
    import residua as rs

    asked = rs.marginals(rs.Domain.of_sizes([3] * 200), ways=range(1, 4))
    mapping = {names: 1.0 + len(names) for names in asked.sets}
    objective = rs.MaxVariance(mapping)
    rs.plan(rs.marginals(rs.Domain.of_sizes([3] * 3), ways=1), targets=1.0)  # libraries
    reading, _, _ = clocked(lambda: objective.scales(asked))
    return {"cpu": reading, "said": f"{len(mapping):,} sets read"}


@line("a specification with 19,900 [[workload]] entries, each a pair of 200 attributes with its target", "")
def specification() -> dict[str, Any]:
    import residua as rs
    from residua.cli.spec import read_spec

    domain = rs.Domain.of_sizes([3] * 200)
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "spec.toml"
        domain.save(path)
        pairs = rs.marginals(domain, ways=2).sets
        entries = [f'[[workload]]\nsets = [["{a}", "{b}"]]\nvariance = {100 + i}' for i, (a, b) in enumerate(pairs)]
        text = path.read_text() + '\n[source]\npath = "x.csv"\n[ledger]\npath = "l"\nrho = 1.0\n'
        path.write_text(text + "\n".join(entries))
        spent, _, _ = clocked(lambda: read_spec(path))
    return {"cpu": spent, "said": f"{len(entries):,} entries"}


@line("levels of 5 million values: declared, planned, saved", "refused above 2²⁰ values")
def levels() -> dict[str, Any]:
    import residua as rs

    def made() -> Any:
        income = rs.Integers(0, 4_999_999, levels={"thousand": [*range(0, 5_000_000, 1000), 4_999_999]})
        return rs.plan(rs.hierarchy(rs.Domain({"income": income}), "income"), rs.ZCDP(0.5))

    spent, _, plan = clocked(made)
    return {"cpu": spent, "said": f"{type(plan).__name__}, gap {plan.gap:.1e}"}


def run_one(name: str) -> None:
    found = LINES[name][3]()
    found["peak"] = (
        max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)) / 1e6
    )
    print(json.dumps(found))


def measured(name: str, sources: str | None) -> dict[str, Any]:
    env = {**os.environ, **({"PYTHONPATH": sources} if sources else {})}
    call = [sys.executable, "-m", "benchmarks.walls", "--one", name]
    try:
        done = subprocess.run(call, capture_output=True, text=True, env=env, timeout=1200)
    except subprocess.TimeoutExpired:
        return {"cpu": float("inf"), "said": "stopped after 20 minutes", "peak": float("nan")}
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["?"])[-1][:110]
        return {"cpu": float("nan"), "said": said, "peak": float("nan")}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main(arguments: list[str]) -> None:
    """Prints one table."""
    beside = arguments[arguments.index("--beside") + 1] if "--beside" in arguments else None
    asked = [each for each in arguments if each in LINES]
    chosen = asked or [name for name in LINES if "light" not in arguments or not LINES[name][2]]
    print(f"| what | stood at | {'before, CPU s | ' if beside else ''}CPU s | GB at most | |")
    print(f"|---|---|{'---|' if beside else ''}---|---|---|")
    for name in chosen:
        what, stood, _, _ = LINES[name]
        before = ""
        if beside:
            old = measured(name, beside)
            before = f"{old['cpu']:.1f} ({old['peak']:.1f} GB) {old['said']} | "
        now = measured(name, None)
        print(f"| {what} | {stood} | {before}{now['cpu']:.1f} | {now['peak']:.1f} | {now['said']} |", flush=True)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        run_one(sys.argv[2])
    else:
        main(sys.argv[1:])
