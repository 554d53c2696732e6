"""Laplace noise at epsilon 1: root mean square error per query of every strategy tried, and of the integers measured.

The seconds are CPU time of one thread (set OMP_NUM_THREADS=1), so that other work on the machine does not count.

python -m benchmarks.pure [cells …]; with a single 0, no search on few cells, but trees and marginals alone.
"""

from __future__ import annotations

import sys
import time

import numpy as np

import residua as rs
from benchmarks.show import print_rows
from residua.linalg.intervals import Intervals

# The errors to reach.
ASKED = {("prefix", 256): 7.35, ("range", 256): 8.06, ("prefix", 512): 8.47, ("range", 512): 9.60}
LONG = [512, 1024, 4096, 10**4, 10**5, 10**6]
NAMED = ("identity", "wavelet", "hierarchy", "L2 optimum", "identity plus")


def _matrix(kind: str, n: int) -> np.ndarray:
    return np.tril(np.ones((n, n))) if kind == "prefix" else Intervals.every(n).block(0, n * (n + 1) // 2)


def _named(plan: rs.Plan, name: str, queries: int) -> str:
    """The error of the best strategy of one name (whatever its branching, augmented or rotated)."""
    losses = [each.loss for each in plan.candidates if each.name.split(",")[0].split(" of ")[0] == name]
    return f"{np.sqrt(min(losses) / queries):.3f}"


def queries(cells: list[int]) -> list[list[str]]:
    """One row per workload of ordered cells."""
    rows = []
    for n in cells:
        for kind in ("prefix", "range"):
            workload = rs.explicit(rs.Domain.of_sizes({"x": n}), _matrix(kind, n))
            start = time.process_time()
            plan = rs.plan(workload, rs.PureDP(1.0))
            seconds = time.process_time() - start
            rmse = float(np.sqrt(plan.variances(workload).mean()))
            bound = float(np.sqrt(plan.lower_bound / workload.queries))
            rows.append(
                [
                    f"{kind} {n}",
                    *(_named(plan, name, workload.queries) for name in NAMED),
                    f"{rmse:.4f}",
                    f"{ASKED.get((kind, n), float('nan')):.2f}",
                    f"{bound:.2f}",
                    f"{seconds:.1f}",
                ]
            )
    return rows


def long_axes(sizes: list[int]) -> list[list[str]]:
    """One row per workload of many ordered values, by trees."""
    rows = []
    for n in sizes:
        domain = rs.Domain({"x": rs.Integers(0, n - 1)})
        for kind, workload in (("prefixes", rs.prefixes(domain, "x")), ("ranges", rs.ranges(domain, "x"))):
            start = time.process_time()
            plan = rs.plan(workload, rs.PureDP(1.0), form=rs.Tree())
            seconds = time.process_time() - start
            losses = {each.name: each.loss for each in plan.candidates}
            known = (losses["identity"], losses["binary tree of a wavelet"], plan.lower_bound)
            rows.append(
                [
                    f"{kind} {n:,}",
                    f"{np.sqrt(plan.total_variance(workload) / workload.queries):.3f}",
                    *(f"{np.sqrt(loss / workload.queries):.3f}" for loss in known),
                    " · ".join(f"{count:,}" for count in plan.parts[()].counts[::-1]),
                    f"{seconds:.1f}",
                ]
            )
    return rows


def marginals() -> list[list[str]]:
    """One row per workload of marginals."""
    rows = []
    for attributes, size, ways in ((100, 10, [1, 2]), (200, 10, [1, 2]), (100, 2, [1]), (12, 4, [1, 2, 3])):
        workload = rs.marginals(rs.Domain.of_sizes({f"x{i}": size for i in range(attributes)}), ways=ways)
        start = time.process_time()
        plan = rs.plan(workload, rs.PureDP(1.0))
        seconds = time.process_time() - start
        even = rs.independent(workload, rs.PureDP(1.0))
        masses = workload.cells
        found, baseline = (
            float(np.sqrt(np.average(p.variances(workload, per="term"), weights=masses))) for p in (plan, even)
        )
        rows.append(
            [
                f"{attributes} × {size} values, ways {ways}",
                f"{found:,.1f}",
                f"{baseline:,.1f}",
                f"{len(plan.measurements.measured):,} of {len(workload):,}",
                f"{seconds:.1f}",
            ]
        )
    return rows


def main(cells: list[int]) -> None:
    """Prints both tables."""
    print_rows(
        "Laplace strategies, epsilon 1",
        ["workload", *NAMED, "plan (integers)", "asked for", "lower bound", "CPU s"],
        queries(cells),
    )
    print_rows(
        "Laplace trees over many values, epsilon 1",
        ["workload", "RMSE", "identity", "wavelet's tree", "lower bound", "nodes per level", "CPU s"],
        long_axes(LONG),
    )
    print_rows("Laplace marginals, epsilon 1", ["workload", "RMSE", "even split", "measured", "CPU s"], marginals())


if __name__ == "__main__":
    main([int(argument) for argument in sys.argv[1:] if int(argument)] if sys.argv[1:] else [256, 512])
