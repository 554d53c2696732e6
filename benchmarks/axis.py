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
from residua.workload import Workload

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
            rows += [planned(n, kind) for kind in ("prefixes", "ranges", "prefixes, largest", "ranges, largest")]
    columns = (
        "asked",
        "values",
        "RMSE",
        "known",
        "gap",
        "square root",
        "best tree",
        "plan s",
        "measure s",
        "read s",
        "MB",
    )
    print_rows("One ordered axis at privacy cost 1 (CPU seconds; MB at most so far)", columns, rows)


def planned(n: int, kind: str) -> tuple[object, ...]:
    domain = rs.Domain({"time": rs.Integers(0, n - 1)})
    workload = rs.ranges(domain, "time") if kind.startswith("ranges") else rs.prefixes(domain, "time")
    largest = kind.endswith("largest")
    start = time.process_time()
    minimise = rs.MaxVariance() if largest else rs.TotalVariance()
    plan = rs.plan(workload, rs.GDP(1.0), minimise=minimise, form=rs.Axis())
    seconds = time.process_time() - start
    error = np.sqrt(largest_of(plan, workload) if largest else plan.total_variance(workload) / workload.queries)
    measuring, reading = measured(plan, domain, n)
    return (
        kind,
        f"{n:,}",
        f"{error:.5f}",
        str(KNOWN.get((kind, n), "")),
        f"{plan.gap:.1e}",
        "" if kind.startswith("ranges") else f"{square_root(n, largest):.3f}",
        f"{tree(n, kind == 'ranges'):.3f}" if not largest else "",
        f"{seconds:.1f}",
        f"{measuring:.1f}",
        f"{reading:.1f}",
        str(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024),
    )


def largest_of(plan: rs.Plan, workload: Workload) -> float:
    """The largest variance; of more ranges than can be listed, a bound of it."""
    if workload.queries < 2**25:
        return float(plan.variances(workload).max())
    return float(plan.largest_variances(workload).max())


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
    """The best weighted b-ary tree with least squares, one weight per level, branchings b from 2 to 16.

    A node's children differ in a space of their own, orthogonal to all others: there `Γ = Σ_k τ_k T_kᵀT_k` is the
    number `Σ_{k below} τ_k b^(L−k)`, so that the total variance is a sum of one term per level. n is filled up to a
    power of b.
    """
    best = np.inf
    for b in range(2, 17):
        levels = int(np.ceil(np.log(n) / np.log(b) - 1e-9))
        sizes = float(b) ** np.arange(levels, -1, -1)  # of a node of each level, the root first
        energies = np.array([energy(n, b, int(size), ranges) for size in sizes[:-1]])
        whole = constant(n, int(sizes[0]), ranges)
        reach = np.triu(np.ones((levels + 1, levels + 1))) * sizes  # the constant, then what differs below each level
        best = min(best, least(np.append(whole, energies), reach))
    return float(np.sqrt(best / (n * (n + 1) / 2 if ranges else n)))


def steps(n: int, b: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """For a cut after 0 … n values, the energy of the step in the space of one node's children, and their means."""
    cuts = np.arange(n + 1, dtype=np.float64)
    inside = cuts % size
    child = size // b
    full, part = np.divmod(inside, child)
    part = part / child
    return cuts, child * (full + part**2 - (full + part) ** 2 / b)


def energy(n: int, b: int, size: int, ranges: bool) -> float:
    """`Σ ‖P w‖²` over all prefixes or ranges w, P onto what differs among the children of nodes of this size."""
    _, each = steps(n, b, size)
    if not ranges:
        return float(each.sum())
    child = size // b
    ramp = np.maximum(n - np.arange(-(-n // size) * size, dtype=np.float64), 0.0)  # the sum of all steps
    means = ramp.reshape(-1, b, child).mean(axis=2)
    apart = child * ((means - means.mean(axis=1, keepdims=True)) ** 2).sum()
    return float((n + 1) * each.sum() - apart)


def constant(n: int, size: int, ranges: bool) -> float:
    """The same for the constant: a step of k values has the energy k²/size."""
    cuts = np.arange(n + 1, dtype=np.float64)
    each = cuts**2 / size
    return float((n + 1) * each.sum() - cuts.sum() ** 2 / size) if ranges else float(each.sum())


def least(energies: np.ndarray, reach: np.ndarray) -> float:
    """`min Σ_l energies_l / (reach τ)_l` over weights τ that add up to 1, by multiplicative steps."""
    tau = np.full(reach.shape[1], 1.0 / reach.shape[1])
    for _ in range(5_000):
        known = reach @ tau
        pull = reach.T @ (energies / known**2)
        loss = float((energies / known).sum())
        if pull.max() <= loss * (1 + 1e-6):
            break
        tau = tau * np.sqrt(pull / loss)
        tau /= tau.sum()
    return loss


if __name__ == "__main__":
    main()
