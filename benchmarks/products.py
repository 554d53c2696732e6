"""Prefixes and ranges on many attributes: error at privacy cost 1, its certificate, time and memory.

python -m benchmarks.products
"""

import resource
import time

import numpy as np

import residua as rs
from benchmarks.show import print_rows

SIZES = {
    "CPS": [100, 50, 7, 4, 2],
    "Adult": [100, 100, 100, 99, 85, 42, 16, 15, 9, 7, 6, 5, 2, 2],
    "Loans": [101, 101, 101, 101, 3, 8, 36, 6, 51, 4, 5, 15],
}
ORDERED = {"CPS": 2, "Adult": 5, "Loans": 4}
WAYS = {"1": [1], "2": [2], "3": [3], "<=3": [0, 1, 2, 3]}
# The least error with the plain split of residual plans; published codes are at or above it.
PLAIN = {
    "CPS": [3.135, 6.192, 7.886, 8.141],
    "Adult": [5.047, 17.191, 45.56, 45.47],
    "Loans": [4.671, 14.58, 35.00, 34.93],
}


def main() -> None:
    planned("", rs.prefixes(rs.Domain.of_sizes([4]), "a0"), None)  # imports
    rows = []
    for data, sizes in SIZES.items():
        domain = rs.Domain.of_sizes(sizes)
        asked = dict.fromkeys(domain.names[: ORDERED[data]], "prefixes")
        for (name, ways), plain in zip(WAYS.items(), PLAIN[data], strict=True):
            rows.append(planned(f"{data} prefixes, {name}-way", rs.product(domain, asked, ways=ways), plain))
    domain = rs.Domain.of_sizes(np.linspace(10, 50, 40).round().astype(int))
    pairs = rs.product(domain, dict.fromkeys(domain.names, "ranges"), ways=2)
    rows.append(planned("40 attributes of 10 to 50, ranges, all pairs", pairs, None))
    columns = ("workload", "queries", "plain split", "RMSE", "gain %", "gap", "gap, any plan", "CPU s", "MB")
    print_rows("Products at privacy cost 1: root mean square error over all queries", columns, rows)


def planned(name, workload, plain):
    start = time.process_time()
    plan = rs.plan(workload, rs.GDP(mu=1.0))
    seconds = time.process_time() - start
    rmse = float(np.sqrt(workload.cells @ plan.term_variances(workload) / workload.queries))
    left = plan.gap_any
    return (
        name,
        f"{workload.queries:,}",
        "" if plain is None else f"{plain:.3f}",
        f"{rmse:.4f}",
        "" if plain is None else f"{100 * (1 - rmse / plain):.1f}",
        f"{plan.gap:.1e}",
        f"{left:.1e}" if np.isfinite(left) else "",
        f"{seconds:.1f}",
        f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024}",
    )


if __name__ == "__main__":
    main()
