"""Queries that tie attributes together, and attributes asked in several ways: error at pcost 1, proofs, time, memory.

python -m benchmarks.joint
"""

import resource
import time
from functools import reduce
from itertools import combinations
from operator import add

import numpy as np

import residua as rs
from benchmarks.paper.workloads import sf1_persons
from benchmarks.products import mixtures
from benchmarks.show import print_rows

# QuerySmasher (2026), RMSE at pcost 1, and residua's matrix plan where it was run.
KNOWN = {
    ("ranges", 10): (11.2666, None),
    ("affine", 10): (8.0604, None),
    ("absolute differences", 10): (8.5640, None),
    ("affine", 2): (2.382, 2.229),
    ("affine", 3): (3.119, 2.899),
    ("affine", 4): (3.844, 3.559),
}
COLUMNS = ("workload", "queries", "QuerySmasher", "matrix plan", "RMSE", "gap", "gap, any plan", "CPU s", "MB")


def main() -> None:
    planned(pairs(2, 3, "affine"))  # imports
    rows = []
    for (kind, d), (known, matrix) in KNOWN.items():
        rows.append((f"{kind}, 1- and 2-way, [10]^{d}", *planned(pairs(d, 10, kind), known, matrix)))
    for d in (2, 10):
        workload = pairs(d, 10 if d > 2 else 8, "random")
        best = None
        if d == 2:
            listed = rs.explicit(workload.domain, workload.matrix)
            best = _rmse(rs.plan(listed, rs.GDP(1.0)), listed)
        rows.append((f"50 random rows of each pair, {d} attributes", *planned(workload, None, best)))
    for name, workload in mixtures().items():
        rows.append((name, *planned(workload)))
    workload, known = sf1_persons()
    print(f"SF1 by one Kronecker strategy: {known['one Kronecker strategy']:.3f}; by three groups of them: 2.189")
    rows.append(("Census SF1, tables of persons", *planned(workload)))
    print_rows("Joint queries and several strategies per attribute, at privacy cost 1", COLUMNS, rows)


def pairs(d, n, kind):
    """Prefixes (or ranges) of each of d attributes of n values, and queries of each pair."""
    domain = rs.Domain.of_sizes([n] * d)
    if kind == "ranges":
        return rs.product(domain, dict.fromkeys(domain.names, "ranges"), ways=[1, 2])
    i, j = np.indices((n, n))
    rng = np.random.default_rng(0)
    found = [rs.prefixes(domain, name) for name in domain.names]
    for pair in combinations(domain.names, 2):
        if kind == "affine":
            rows = np.array([(i + j <= c).ravel() for c in range(2 * n - 1)])
        elif kind == "absolute differences":
            rows = np.array([(abs(i - j) <= c).ravel() for c in range(n)])
        else:
            rows = rng.integers(0, 2, (50, n * n))
        found.append(rs.explicit(domain, rows, on=pair))
    return reduce(add, found)


def planned(workload, known=None, matrix=None):
    """One row of the table."""
    start = time.process_time()
    form = None if workload.tabular else rs.Lattice()
    plan = rs.plan(workload, rs.GDP(1.0), form=form)
    seconds = time.process_time() - start
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    figures = (f"{figure:.3f}" if figure else "" for figure in (known, matrix))
    gaps = (f"{100 * gap:.2f} %" if np.isfinite(gap) else "" for gap in (plan.gap, plan.gap_any))
    rmse = _rmse(plan, workload)
    return f"{workload.queries:,}", *figures, f"{rmse:.4f}", *gaps, f"{seconds:.1f}", f"{memory:.0f}"


def _rmse(plan, workload):
    return float(np.sqrt(plan.total_variance(workload) / workload.queries))


if __name__ == "__main__":
    main()
