"""One long ordered axis: error at privacy cost 1, its certificate, time and memory, beside what is usual.

python -m benchmarks.axis [most values, 1000000]
"""

import resource
import sys
import tempfile
import time

import numpy as np
import pyarrow as pa

import residua as rs
from benchmarks.show import print_rows

KNOWN = {  # the optimum of a prototype, to all digits it printed
    ("prefixes", 1_024): 2.95545, ("prefixes", 10_000): 3.67045, ("prefixes", 100_000): 4.39680,
    ("ranges", 1_024): 3.51508, ("ranges", 10_000): 4.53357, ("ranges", 100_000): 5.56636,
    ("ranges", 1_000_000): 6.60047,
}  # fmt: skip


def main() -> None:
    most = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    rows = []
    for n in (1_024, 10_000, 100_000, 1_000_000, 10_000_000):
        if n <= most:
            rows += [planned(n, kind) for kind in ("prefixes", "ranges", "prefixes, largest")]
    columns = (
        "asked",
        "values",
        "RMSE",
        "known",
        "gap",
        "square root",
        "tree, plain sums",
        "plan s",
        "measure s",
        "read s",
        "MB",
    )
    print_rows("One ordered axis at privacy cost 1 (CPU seconds; MB at most so far)", columns, rows)


def planned(n: int, kind: str) -> tuple[object, ...]:
    domain = rs.Domain({"time": rs.Integers(0, n - 1)})
    workload = rs.ranges(domain, "time") if kind == "ranges" else rs.prefixes(domain, "time")
    largest = kind.endswith("largest")
    start = time.process_time()
    plan = rs.plan(workload, rs.GDP(1.0), minimise=rs.MaxVariance() if largest else rs.TotalVariance())
    seconds = time.process_time() - start
    error = np.sqrt(plan.variances(workload).max() if largest else plan.total_variance(workload) / workload.queries)
    measuring, reading = measured(plan, domain, n)
    return (
        kind,
        f"{n:,}",
        f"{error:.5f}",
        str(KNOWN.get((kind, n), "")),
        f"{plan.gap:.1e}",
        "" if kind == "ranges" else f"{square_root(n, largest):.3f}",
        f"{tree(n, kind == 'ranges'):.3f}" if not largest else "",
        f"{seconds:.1f}",
        f"{measuring:.1f}",
        f"{reading:.1f}",
        str(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024),
    )


def measured(plan: rs.Plan, domain: rs.Domain, n: int) -> tuple[float, float]:
    """Seconds of measuring a million records, and of reading all prefixes with their variances."""
    data = pa.table({"time": np.random.default_rng(0).integers(0, n, 1_000_000)})
    with tempfile.TemporaryDirectory() as folder:
        start = time.process_time()
        release = rs.measure(plan, data, ledger=rs.Ledger(f"{folder}/ledger", rs.GDP(1.0)))
        half = time.process_time()
        release.answers(rs.prefixes(domain, "time"))
        return half - start, time.process_time() - half


def square_root(n: int, largest: bool) -> float:
    """The Toeplitz square root of all prefixes: `B = C`, lower triangular with coefficients `(2k choose k)/4^k`."""
    k = np.arange(1, n)
    squares = np.concatenate([[1.0], np.cumprod(1 - 1 / (2 * k)) ** 2])
    rows = np.cumsum(squares)
    return float(np.sqrt((rows[-1] if largest else rows.mean()) * rows[-1]))


def tree(n: int, ranges: bool) -> float:
    """The best weighted b-ary tree, each query the sum of its nodes (no least squares), branchings b from 2 to 64."""
    best = np.inf
    for b in range(2, 65):
        levels = int(np.ceil(np.log(n) / np.log(b) - 1e-9))
        nodes = np.full(levels, (b - 1) / 2 * (2 if ranges else 1))  # of each level that a query has on average
        best = min(best, np.sqrt(nodes).sum() ** 2)  # budget goes by the square root
    return float(np.sqrt(best))


if __name__ == "__main__":
    main()
