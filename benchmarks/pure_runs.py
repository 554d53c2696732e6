"""Rows over runs of ordered values beside trees, Laplace noise at epsilon 1: `python -m benchmarks.pure_runs [1024 …]`.

Root mean square errors per query, of the integers that are measured. The seconds are CPU time of one thread (set
OMP_NUM_THREADS=1), the search and the loss of what it found included. Searched identity plus is that of
`benchmarks.pure` up to 512 values (up to a minute), and that of PIdentity (McKenna and others, 2018) on 1,024.
"""

from __future__ import annotations

import sys
import time

import numpy as np

import residua as rs
from benchmarks.show import print_rows
from residua.plans.operators.buckets import NestedBuckets
from residua.plans.planners.pure_tree import _whole
from residua.plans.product.plan import ProductPlan
from residua.plans.search.runs import weighted_runs

SIZES = [256, 512, 1024, 4096, 10**4, 10**5, 10**6]
SEARCHED = {
    ("prefixes", 256): 7.320,
    ("ranges", 256): 8.054,
    ("prefixes", 512): 8.403,
    ("ranges", 512): 9.526,
    ("prefixes", 1024): 9.52,
    ("ranges", 1024): 11.08,
}
COLUMNS = ["workload", "tree", "rows over runs", "less", "identity plus, searched", "parts of a run", "CPU s"]


def main(sizes: list[int]) -> None:
    """Prints one table."""
    rows = []
    for n in sizes:
        domain = rs.Domain({"x": rs.Integers(0, n - 1)})
        for kind, workload in (("prefixes", rs.prefixes(domain, "x")), ("ranges", rs.ranges(domain, "x"))):
            tree = rs.plan(workload, rs.PureDP(1.0), form=rs.Tree())
            begun = time.process_time()
            found = weighted_runs(n, float(kind == "prefixes"), float(kind == "ranges"), 0.0)
            plans = [
                ProductPlan.along(domain, 0, {(): NestedBuckets(n, *_whole(each.rows, 1.0))}, guarantee=rs.PureDP(1.0))
                for each in found
            ]
            best = min(plans, key=lambda plan: plan.total_variance(workload))
            seconds = time.process_time() - begun
            error, known = (np.sqrt(plan.total_variance(workload) / workload.queries) for plan in (best, tree))
            searched = SEARCHED.get((kind, n))
            rows.append(
                [
                    f"{kind}, {n:,}",
                    f"{known:.3f}",
                    f"{error:.3f}",
                    f"{100 * (1 - error / known):.1f} %",
                    "" if searched is None else f"{searched:.3f} (+{100 * (error / searched - 1):.1f} %)",
                    " · ".join(str(b) for b in best.parts[()].shape.parts[::-1]),
                    f"{seconds:.1f}",
                ]
            )
            print(*rows[-1], flush=True)
    print_rows("Laplace noise at epsilon 1, root mean square error", COLUMNS, rows)


if __name__ == "__main__":
    main([int(each) for each in sys.argv[1:]] or SIZES)
