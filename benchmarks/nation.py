"""A synthetic nation: 8 million blocks on six levels × 2 sexes × 23 age groups, 330 million people, on one machine.

python -m benchmarks.nation [--scale 1.0] [--folder DIR]

50 states, 3,000 counties, 73,000 tracts, 240,000 groups, 8 million blocks, with unequal branching; every table of every
level by sex and age, and all its margins. People are simulated, pre-aggregated, and written as Parquet with a column of
counts. Seconds are of the clock, beside whatever else runs; memory is the largest resident set of the process. `--scale
0.01` makes a nation of 80,000 blocks in seconds.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import residua as rs
from benchmarks.show import print_rows

LEVELS = (("state", 50), ("county", 3_000), ("tract", 73_000), ("group", 240_000), ("block", 8_000_000))
PEOPLE = 330_000_000
SEXES = ["female", "male"]
AGES = [f"{low} to {low + 3}" for low in range(0, 88, 4)] + ["88 and over"]
_BATCH = 20_000  # blocks simulated at a time


class Steps:
    """Seconds, memory and remarks of each step."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, str, str, str, str]] = []

    def __call__(self, name: str, start: tuple[float, float], remark: str = "") -> None:
        clock, cpu = time.perf_counter() - start[0], time.process_time() - start[1]
        self.rows.append((name, f"{clock:.1f}", f"{cpu:.1f}", f"{peak():.1f}", remark))
        print(f"{name}: {clock:.1f} s, {cpu:.1f} CPU s, {peak():.1f} GB at most; {remark}", flush=True)


def now() -> tuple[float, float]:
    return time.perf_counter(), time.process_time()


def peak() -> float:
    """The largest resident set so far, in GB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def geography(folder: Path, scale: float) -> Path:
    """A code list: every block with its group, tract, county and state, one column each."""
    random = np.random.default_rng(1)
    sizes = [max(round(n * scale), 2) for _, n in LEVELS]
    codes, columns, above = np.zeros(1, dtype=np.int64), {}, np.array([b""])
    for (name, _), size in zip(LEVELS, sizes, strict=True):
        shares = random.gamma(1.5, 1.0, len(above))
        more = random.choice(len(above), size - len(above), p=shares / shares.sum()) if size > len(above) else []
        parents = np.sort(np.concatenate([np.arange(len(above)), np.asarray(more, dtype=np.int64)]))[:size]
        width = {"state": 2, "county": 3, "tract": 4, "group": 2, "block": 4}[name]
        first = np.searchsorted(parents, np.arange(len(above)))
        place = (np.arange(size) - first[parents] + 1).astype(f"U{width}")
        labels = np.char.add(above[parents], np.char.encode(np.char.zfill(place, width), "ascii"))
        columns = {key: values[parents] for key, values in columns.items()}
        columns[name], above = labels, labels
        codes = parents
    del codes
    made = pa.table({name: pa.array(columns[name].astype("U")) for name in [name for name, _ in LEVELS][::-1]})
    path = folder / "geography.parquet"
    pq.write_table(made, path, compression="zstd")
    return path


def people(folder: Path, measurements: pa.Array, scale: float) -> tuple[Path, int, int]:
    """Counts of people by block, sex and age, rows of zero left out; how many people and rows there are."""
    random = np.random.default_rng(2)
    n = len(measurements)
    size = random.gamma(0.6, 1.0, n) * (random.random(n) < 0.72)
    size *= PEOPLE * scale / size.sum() / 2  # of each sex
    pyramid = np.concatenate([np.full(15, 1.0), np.linspace(1.0, 0.1, 8)])
    pyramid /= 2 * pyramid.sum()
    path, persons, rows = folder / "people.parquet", 0, 0
    schema = pa.schema([("block", pa.string()), ("sex", pa.string()), ("age", pa.string()), ("people", pa.int64())])
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for low in range(0, n, _BATCH):
            here = size[low : low + _BATCH]
            ages = random.dirichlet(30 * pyramid, len(here))
            drawn = random.poisson(here[:, None, None] * np.stack([ages, ages], axis=1))
            block, sex, age = np.nonzero(drawn)
            counts = drawn[block, sex, age]
            part = [
                pa.DictionaryArray.from_arrays(
                    pa.array(block.astype(np.int32)), measurements[low : low + len(here)]
                ).cast(pa.string()),
                pa.DictionaryArray.from_arrays(pa.array(sex.astype(np.int8)), pa.array(SEXES)).cast(pa.string()),
                pa.DictionaryArray.from_arrays(pa.array(age.astype(np.int8)), pa.array(AGES)).cast(pa.string()),
                pa.array(counts.astype(np.int64)),
            ]
            writer.write_table(pa.table(part, schema))
            persons, rows = persons + int(counts.sum()), rows + len(counts)
    return path, persons, rows


def disk(path: Path) -> str:
    each = [p.stat().st_size for p in path.rglob("*") if p.is_file()] if path.is_dir() else [path.stat().st_size]
    return f"{sum(each) / 1e9:.2f} GB on disk"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--folder", type=Path, default=None)
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(dir=given.folder))
    try:
        run(folder, given.scale)
    finally:
        shutil.rmtree(folder)


def made(folder: Path, scale: float, steps: Steps) -> tuple[Path, Path]:
    """The data, made in a process of its own, so that its memory is not counted."""
    start = now()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            path = geography(folder, scale)
            persons, rows = people(folder, pq.read_table(path, columns=["block"])["block"].combine_chunks(), scale)[1:]
            (folder / "told").write_text(f"{persons:,} people in {rows:,} rows")
            code = 0
        finally:
            os._exit(code)
    if os.waitpid(child, 0)[1]:
        raise SystemExit("the data could not be made")
    told = (folder / "told").read_text()
    steps("simulate and write the data", start, f"{told}, {disk(folder / 'people.parquet')}")
    return folder / "geography.parquet", folder / "people.parquet"


def run(folder: Path, scale: float) -> None:
    steps = Steps()
    geo, data = made(folder, scale, steps)
    start = now()
    block = rs.CodeList.from_file(geo, "block", levels=["group", "tract", "county", "state"])
    domain = rs.Domain({"block": block, "sex": SEXES, "age": AGES})
    steps("declare the domain from the code list", start, repr(block))
    asked = {"block": "hierarchy", "sex": "identity", "age": "identity"}
    workload = rs.product(domain, asked) + rs.hierarchy(domain, "block")
    start = now()
    plan = rs.plan(workload, rs.ZCDP(rho=2.0), form=rs.Tree())
    steps("plan", start, f"{plan.measurements.cells:,} integers, gap {plan.gap:.1e} against all plans")
    accuracy(domain, plan)
    start = now()
    out = folder / "release"
    source = rs.Source.parquet(data, counts="people")
    ledger = rs.Ledger(folder / "ledger", rs.ZCDP(rho=2.0))
    rs.measure(plan, source, ledger=ledger, out=out)
    steps("check, debit, count, add noise, save", start, disk(out))
    start = now()
    release = rs.Release.load(out)
    steps("load the release", start)
    county = str(block.level("county").labels[len(block.level("county")) // 2])
    for title, queries in reads(county):
        start = now()
        table = release.table(["block", "sex", "age"], queries=queries)
        steps(title, start, f"{len(table):,} rows")
    start = now()
    projected = rs.project(release, simulations=0)
    steps("project: no negative count, levels add up", start)
    start = now()
    states = projected.table(["block"], queries={"block": "state"})
    steps("read the projected states", start, f"{len(states):,} rows")
    checks(release, projected, states)
    columns = ("step", "seconds", "CPU s", "GB so far", "")
    print_rows(
        f"A nation of {len(block.labels):,} blocks, {plan.measurements.cells:,} measurements", columns, steps.rows
    )


def reads(county: str) -> list[tuple[str, dict[str, Any]]]:
    """What is read off the release."""
    return [
        ("first table: all states (passes over all that was measured)", {"block": "state"}),
        ("all counties by sex and age", {"block": "county"}),
        (f"the tracts of county {county}", {"block": f"tract within county={county}"}),
        (f"the blocks of county {county}", {"block": f"identity within county={county}"}),
    ]


def accuracy(domain: rs.Domain, plan: rs.Plan) -> None:
    """The standard deviation of a table's cell on each level."""
    rows = []
    for level in ("state", "county", "tract", "group", "identity"):
        totals = rs.product(domain, {"block": level}) if level != "identity" else rs.marginals(domain, [("block",)])
        cells = rs.product(domain, {"block": level, "sex": "identity", "age": "identity"})
        means = [float(plan.variances(each, per="term")[0]) ** 0.5 for each in (totals, cells)]
        rows.append((level, f"{means[0]:.2f}", f"{means[1]:.2f}"))
    print_rows("Root mean square standard deviation at rho = 2", ("level", "total", "by sex and age"), rows)


def checks(release: rs.Release, projected: rs.Projected, states: Any) -> None:
    """What must hold, looked at once."""
    measurements = projected.estimates(["block"])
    assert measurements.min() >= 0
    assert abs(measurements.sum() - states.estimates.sum()) < 1e-6 * measurements.sum()
    assert abs(float(release.estimates([])) - measurements.sum()) < 1e-6 * measurements.sum()


if __name__ == "__main__":
    main()
