"""Laplace plans at epsilon 1: root mean square error of the integers measured, beside the reference, and seconds.

python -m benchmarks.pure [cells …]
"""

from __future__ import annotations

import sys
import time

import numpy as np

import residua as rs
from benchmarks.show import print_rows
from residua.plan.dense.solver.queries import AllRanges

# What the issue asks for, and identity's error (SOLVERS.md §5).
REFERENCE = {
    ("prefix", 256): (7.35, 16.031),
    ("range", 256): (8.06, 13.115),
    ("prefix", 512): (8.47, 22.650),
    ("range", 512): (9.60, 18.511),
}


def _matrix(kind: str, n: int) -> np.ndarray:
    return np.tril(np.ones((n, n))) if kind == "prefix" else AllRanges(n).block(0, n * (n + 1) // 2)


def queries(cells: list[int]) -> list[list[str]]:
    """One row a workload of ordered cells."""
    rows = []
    for n in cells:
        for kind in ("prefix", "range"):
            workload = rs.explicit(rs.Domain.of_sizes({"x": n}), _matrix(kind, n))
            start = time.perf_counter()
            plan = rs.plan(workload, rs.PureDP(1.0))
            seconds = time.perf_counter() - start
            rmse = float(np.sqrt(plan.variances(workload).mean()))
            bound = float(np.sqrt(plan.lower_bound / workload.queries))
            asked, identity = REFERENCE.get((kind, n), (float("nan"), float("nan")))
            rows.append(
                [
                    f"{kind} {n}",
                    f"{rmse:.4f}",
                    f"{asked:.2f}",
                    f"{identity:.2f}",
                    f"{bound:.2f}",
                    plan.candidates[0].name,
                    f"{seconds:.1f}",
                ]
            )
    return rows


def marginals() -> list[list[str]]:
    """One row a workload of marginals."""
    rows = []
    for attributes, size, ways in ((100, 10, [1, 2]), (100, 2, [1]), (12, 4, [1, 2, 3])):
        workload = rs.marginals(rs.Domain.of_sizes({f"x{i}": size for i in range(attributes)}), ways=ways)
        start = time.perf_counter()
        plan = rs.plan(workload, rs.PureDP(1.0))
        seconds = time.perf_counter() - start
        even = rs.independent(workload, rs.PureDP(1.0))
        masses = workload.cells
        found, baseline = (
            float(np.sqrt(np.average(p.marginal_variances(workload), weights=masses))) for p in (plan, even)
        )
        rows.append(
            [
                f"{attributes} × {size} values, ways {ways}",
                f"{found:,.1f}",
                f"{baseline:,.1f}",
                f"{len(plan.measured):,} of {len(workload):,}",
                f"{seconds:.1f}",
            ]
        )
    return rows


def main(cells: list[int]) -> None:
    """Prints both tables."""
    print_rows(
        "Laplace strategies, epsilon 1",
        ["workload", "RMSE", "asked for", "identity", "lower bound", "strategy", "seconds"],
        queries(cells),
    )
    print_rows(
        "Laplace marginals, epsilon 1",
        ["workload", "RMSE", "even split", "measured", "seconds"],
        marginals(),
    )


if __name__ == "__main__":
    main([int(argument) for argument in sys.argv[1:]] or [256, 512])
