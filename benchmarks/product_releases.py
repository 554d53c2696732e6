"""Measuring prefixes of many attributes through the real door, and reading every published table.

python -m benchmarks.product_releases

Adult's sizes, synthetic records, the five ordered attributes asked by prefixes; the check is that the errors of what is
published are, as a root mean square over all queries, what the plan stated.
"""

from __future__ import annotations

import resource
import tempfile
import time

import numpy as np

import residua as rs
from benchmarks.products import ORDERED, SIZES
from benchmarks.show import print_rows

RECORDS = 50_000
WAYS = {"≤1": [0, 1], "≤2": [0, 1, 2], "3": [3]}
MOST_READ = 60_000_000  # queries: beyond, no more tables are read back


def released(ways: list[int]) -> list[str]:
    import pyarrow as pa

    domain = rs.Domain.of_sizes(SIZES["Adult"])
    asked = rs.product(domain, dict.fromkeys(domain.names[: ORDERED["Adult"]], "prefixes"), ways=ways)
    random = np.random.default_rng()
    codes = {
        name: (n * random.beta(2, 3, RECORDS)).astype(np.int64)
        for name, n in zip(domain.names, domain.sizes, strict=True)
    }
    start = time.perf_counter()
    plan = rs.plan(asked, rs.GDP(mu=1.0))
    planned = time.perf_counter() - start
    clock: dict[str, float] = {}

    def progress(step: str, done: int, total: int | None) -> None:
        clock[step] = time.perf_counter()

    with tempfile.TemporaryDirectory() as folder:
        ledger = rs.Ledger(f"{folder}/adult.ledger", rs.GDP(mu=1.0))
        begun = time.perf_counter()
        release = rs.measure(plan, pa.table(codes), ledger=ledger, progress=progress)
        measured = time.perf_counter()
    squares, read, reading = 0.0, 0, 0.0
    stated = 0.0
    tables = release.tables()
    while read < MOST_READ:
        start = time.perf_counter()
        table = next(tables, None)
        reading += time.perf_counter() - start
        if table is None:
            break
        squares += float(((table.estimates - _truth(table, codes)) ** 2).sum())
        stated += float((np.broadcast_to(table.stddev, table.estimates.shape) ** 2).sum())
        read += table.estimates.size
    noise = clock["adding noise"] - clock["counting"]
    return [
        f"{asked.queries:,}",
        f"{len(release.noisy):,}",
        f"{planned:.1f}",
        f"{clock['counting'] - begun:.1f}",
        f"{noise:.1f}",
        f"{reading:.1f}",
        f"{(stated / max(read, 1)) ** 0.5:.3f}",
        f"{(squares / max(read, 1)) ** 0.5:.3f}",
        f"{measured - begun:.1f}",
        f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3:.0f}",
    ]


def _truth(table: rs.Table, codes: dict[str, np.ndarray]) -> np.ndarray:
    shape = table.estimates.shape
    if not table.attributes:
        return np.array(float(RECORDS))
    flat = np.ravel_multi_index(tuple(codes[name] for name in table.attributes), shape)
    truth = np.bincount(flat, minlength=table.estimates.size).reshape(shape)
    for axis, name in enumerate(table.attributes):
        if f"{name}: prefixes" in table.title.split(" × "):
            truth = truth.cumsum(axis=axis)
    return truth


def main() -> None:
    released([1])  # engines loaded and loops compiled before the clock starts
    rows = [[name, *released(ways)] for name, ways in WAYS.items()]
    columns = (
        "ways",
        "queries",
        "integers",
        "plan (s)",
        "count (s)",
        "noise (s)",
        "tables (s)",
        "stated",
        "found",
        "measure (s)",
        "peak MB",
    )
    print_rows(
        "Adult with five prefix attributes, released: seconds, and root mean square errors over all queries",
        columns,
        rows,
    )


if __name__ == "__main__":
    main()
