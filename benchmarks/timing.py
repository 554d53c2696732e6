"""Whether time tells of the data: `python -m benchmarks.timing [REPETITIONS]`.

Two neighbouring data sets, which differ in one record, are measured in turn, in an order drawn afresh each time, and so
are two that differ in what noise is drawn for (a count of 0, a count of a million) and two that differ in their number
of records by a tenth, where a difference is expected. Welch's t compares the processor's time that each took: beyond
5.0 a difference is there (a false alarm in two million). The least difference that would be seen at the same spread,
5 standard errors, is printed beside it.
"""

import math
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa

import residua as rs
from residua.noise import rounded_laplace, rounded_normal

CELLS, RECORDS, SEEN = 100_000, 100_000, 5.0
DOMAIN = rs.Domain({"sex": ["F", "M"], "age": rs.Integers(0, 99)})
PLAN = rs.plan(rs.marginals(DOMAIN, ways=[1, 2]), rs.ZCDP(0.5))
Work = Callable[[], object]


def records(number: int, changed: bool = False) -> pa.Table:
    """So many records; one of them is another where changed."""
    sex, age = np.arange(number) % 2, np.arange(number) % 100
    sex[-1], age[-1] = (0, 7) if changed else (1, 93)
    return pa.table({"sex": pa.array(["F", "M"]).take(pa.array(sex)), "age": age})


def released(table: pa.Table, folder: str) -> Work:
    """A whole release: checked, debited, counted, with noise."""

    def release() -> object:
        path = Path(folder) / "ledger"
        path.unlink(missing_ok=True)
        return rs.measure(PLAN, table, ledger=rs.Ledger(path, rs.ZCDP(0.5)))

    return release


def with_noise(counts: int, sampler: Callable[..., np.ndarray]) -> Work:
    """Noise on as many cells of this count, as a release adds it."""
    tables = np.full(CELLS, counts)
    return lambda: tables + sampler(20.0, CELLS)


def compared(one: Work, other: Work, repetitions: int) -> tuple[float, float, float]:
    """The mean times, and Welch's t; each pair in an order of its own, and the slowest twentieth of both left out."""
    works = (one, other)
    times: tuple[list[float], list[float]] = ([], [])
    for work in works * 3:
        work()  # libraries are loaded, loops compiled
    for _ in range(repetitions):
        for which in random.sample((0, 1), 2):
            began = time.process_time_ns()
            works[which]()
            times[which].append((time.process_time_ns() - began) / 1e6)
    limit = statistics.quantiles([*times[0], *times[1]], n=20)[-1]  # of both together: what the machine did meanwhile
    first, second = ([each for each in own if each <= limit] for own in times)
    spread = math.sqrt(sum(statistics.variance(own) / len(own) for own in (first, second)))
    return (
        statistics.fmean(first),
        statistics.fmean(second),
        (statistics.fmean(second) - statistics.fmean(first)) / spread,
    )


def main() -> int:
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    seen = []
    print(
        "| compared | one, ms | other, ms | Welch's t | would be seen | seen |\n|---|---|---|---|---|---|", flush=True
    )
    with tempfile.TemporaryDirectory() as folder:
        pairs = {
            "normal noise on counts of 0 and of 1,000,000": (
                with_noise(0, rounded_normal),
                with_noise(10**6, rounded_normal),
            ),
            "Laplace noise on the same": (with_noise(0, rounded_laplace), with_noise(10**6, rounded_laplace)),
            "a release, one record changed": (
                released(records(RECORDS), folder),
                released(records(RECORDS, True), folder),
            ),
            "a release, one record more": (released(records(RECORDS), folder), released(records(RECORDS + 1), folder)),
            "a release, a tenth more records": (
                released(records(RECORDS), folder),
                released(records(RECORDS * 11 // 10), folder),
            ),
        }
        for name, (one, other) in pairs.items():
            first, second, t = compared(one, other, repetitions)
            least = SEEN * abs(second - first) / abs(t) if t else math.nan
            told = [f"{first:.3f}", f"{second:.3f}", f"{t:+.1f}", f"{least:.3f} ms", "yes" if abs(t) > SEEN else "no"]
            print(f"| {name} | {' | '.join(told)} |", flush=True)
            seen += [name] if abs(t) > SEEN else []
    return int(any("tenth" not in name for name in seen))


if __name__ == "__main__":
    sys.exit(main())
