"""Seconds to plan all ≤3-way marginals of d ten-valued attributes, beside CVXPY with its default open solver."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from typing import Any

import numpy as np

from benchmarks.show import print_rows

SIZES = (10, 20, 50, 100, 200)
COLUMNS = [
    "d",
    "marginals",
    "total (s)",
    "max (s)",
    "gap",
    "rounds",
    "CVXPY max (s)",
    "ratio",
    "CVXPY above ours",
    "peak MB",
]


def ours(d: int) -> dict[str, Any]:
    """Plans both objectives in this process and reports seconds, gap and peak memory."""
    import residua as rs

    domain = rs.Domain.of_sizes([10] * d)
    start = time.perf_counter()
    workload = rs.marginals(domain, ways=range(4))
    rs.plan(workload, rs.GDP(mu=1.0))
    total = time.perf_counter() - start
    rounds = []
    start = time.perf_counter()
    workload = rs.marginals(domain, ways=range(4))
    plan = rs.plan(
        workload, rs.GDP(mu=1.0), minimise=rs.MaxVariance(), progress=lambda done, gap: rounds.append((done, gap))
    )
    largest = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    return {
        "marginals": len(workload),
        "total": total,
        "max": largest,
        "gap": plan.gap,
        "rounds": len(rounds),
        "value": float(plan.variances(workload, per="term").max()),
        "peak": peak,
    }


def cvxpy_seconds(d: int) -> tuple[float, float]:
    """The same max-variance problem given to CVXPY: seconds to solve, and the value found."""
    import cvxpy as cp
    from scipy.sparse import csr_array

    import residua as rs
    from residua.plans.solver.closed_form import MarginalGame

    workload = rs.marginals(rs.Domain.of_sizes([10] * d), ways=range(4))
    coefficients = MarginalGame(workload.lattice, workload.domain.sizes)
    lattice, size = workload.lattice, len(workload.lattice)

    weight = coefficients.dilution[0]
    frontier = (np.arange(size), np.arange(size), np.ones(size))
    for with_i, without_i in lattice.covers:  # row A, column S for every S ⊆ A, one attribute at a time
        below = np.full(size, -1)
        below[with_i] = without_i
        keep = below[frontier[1]] >= 0
        extra = (frontier[0][keep], below[frontier[1][keep]], frontier[2][keep] * weight)
        frontier = tuple(np.concatenate([a, b]) for a, b in zip(frontier, extra, strict=True))
    rows, columns, values = frontier
    matrix = csr_array((values * coefficients.cost[columns], (rows, columns)), shape=(size, size))
    start = time.perf_counter()
    noise = cp.Variable(size, pos=True)
    bound = cp.Variable()
    problem = cp.Problem(
        cp.Minimize(bound), [matrix @ noise <= bound, cp.sum(cp.multiply(coefficients.cost, cp.inv_pos(noise))) <= 1]
    )
    problem.solve()
    return time.perf_counter() - start, float(bound.value)


def rows(limit: float = 60.0) -> list[list[str]]:
    """One row per size; CVXPY up to where it takes longer than `limit` seconds. Each in a process of its own."""
    found = []
    last = 0.0
    for d in SIZES:
        mine = _apart("ours", d)
        cvx = "–"
        ratio = excess = "–"
        if last < limit:
            last, value = _apart("cvxpy_seconds", d)
            cvx, ratio = f"{last:.2f}", f"{last / mine['max']:.0f}×"
            excess = f"{value / mine['value'] - 1:+.1e}"
        found.append(
            [
                str(d),
                f"{mine['marginals']:,}",
                f"{mine['total']:.3f}",
                f"{mine['max']:.3f}",
                f"{mine['gap']:.1e}",
                f"{mine['rounds']}",
                cvx,
                ratio,
                excess,
                f"{mine['peak']:.0f}",
            ]
        )
    return found


def _apart(function: str, d: int) -> Any:
    """Runs a function of this module in a fresh process, so that its memory is its own."""
    code = f"import json; from benchmarks.planning import {function}; print(json.dumps({function}({d})))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    import json

    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    print_rows("Planning all ≤3-way marginals of d ten-valued attributes", COLUMNS, rows())


if __name__ == "__main__":
    main()
