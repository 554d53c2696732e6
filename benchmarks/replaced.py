"""Records replaced and losses of every kind: what plans reach beside CVXPY, or beside what is proven.

`python -m benchmarks.replaced`: small instances by a general solver over all mechanisms (over all noise on residuals,
for losses that do not grow with every variance), large ones with their proven gaps and CPU seconds. `--full` adds axes
of 512 and 1,024 values.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import cvxpy as cp
import numpy as np

import residua as rs
from benchmarks.show import print_rows
from residua.errors import LongWarning
from residua.plans.solver.replaced_axis import least_prefixes, least_ranges
from residua.workload import Workload

MU = rs.GDP(mu=1.0)
REPLACED = rs.ReplaceOne()


def sized(*sizes: int) -> rs.Domain:
    return rs.Domain.of_sizes(list(sizes))


def along(n: int) -> rs.Domain:
    return rs.Domain.of_sizes({"a": n})


def least_replaced(workload: Workload) -> float:
    """The least total variance of any mechanism at μ = 1 for one record replaced, the number of records being free."""
    W = np.asarray(workload.listed().matrix.toarray())
    W = W[:, 1:] - W[:, :1]
    n = W.shape[1]
    guarded = [*np.eye(n), *(np.eye(n)[i] - np.eye(n)[j] for i in range(n) for j in range(i))]
    sigma = cp.Variable((n, n), PSD=True)
    paid = [cp.matrix_frac(each, sigma) <= 1 for each in guarded]
    problem = cp.Problem(cp.Minimize(cp.trace(W.T @ W @ sigma)), paid)
    problem.solve(solver=cp.CLARABEL)
    return float(problem.value)


def long_axes() -> None:
    """Axes that are too long for all pairs of cells: what the plan is above what is proven of every plan."""
    rows = []
    for kind, least in (("prefixes", least_prefixes), ("ranges", least_ranges)):
        for n in (1_025, 2_000, 10_000, 100_000):
            asked, start = getattr(rs, kind)(along(n), "a"), time.process_time()
            plan = rs.plan(asked, MU, unit=REPLACED)
            took, reached = time.process_time() - start, plan.total_variance(asked)
            each = [f"{reached:.6g}", f"{least(n):.6g}", f"{plan.gap:.2%}", f"{took:.1f}"]
            rows.append([f"{n:,} {kind if kind == 'prefixes' else 'values, all ranges'}", *each])
    print_rows("Records replaced, long axes", ["asked", "plan", "no plan is below", "above", "CPU s"], rows)


def least_regular(workload: Workload, loss: Callable[[Any], Any]) -> float:
    """The least loss of any noise on residuals at μ = 1."""
    sizes, lattice = workload.domain.sizes, workload.lattice
    cost = lattice.products(1.0 - 1.0 / sizes)
    spread = np.stack([lattice.sum_over_subsets(cost * each, 1.0 / sizes**2.0) for each in np.eye(len(lattice))], 1)
    noise = cp.Variable(len(lattice), pos=True)
    problem = cp.Problem(cp.Minimize(loss(spread[workload.numbers] @ noise)), [cost @ cp.inv_pos(noise) <= 1])
    problem.solve(solver=cp.CLARABEL)
    return float(problem.value)


def small() -> None:
    """Total variance of a replaced record, and regular losses, beside CVXPY."""
    asked = {
        "2, 2, 3 values, up to 2-way": rs.marginals(sized(2, 2, 3), ways=[1, 2]),
        "three binary attributes, 1-way": rs.marginals(sized(2, 2, 2), ways=[1]),
        "6 prefixes": rs.prefixes(along(6), "a"),
        "8 prefixes": rs.prefixes(along(8), "a"),
        "all ranges of 6 values": rs.ranges(along(6), "a"),
    }
    rows = []
    for name, workload in asked.items():
        plan = rs.plan(workload, MU, unit=REPLACED)
        rows.append([name, *beside(plan.total_variance(workload), least_replaced(workload)), f"{plan.gap:.1e}"])
    signs = np.array([1.0, -1.0, 0.0, 0.0, 0.0, 0.0])
    losses: dict[str, tuple[rs.ConvexLoss, Callable[[Any], Any]]] = {
        "Σv + 3 |v₀ − v₁|": (
            rs.ConvexLoss(lambda v: float(v.sum() + 3 * abs(signs @ v)), lambda v: 1 + 3 * np.sign(signs @ v) * signs),
            lambda v: cp.sum(v) + 3 * cp.abs(signs @ v),
        ),
        "6 max v − 5 min v": (
            rs.ConvexLoss(
                lambda v: float(6 * v.max() - 5 * v.min()),
                lambda v: 6.0 * (np.arange(6) == v.argmax()) - 5.0 * (np.arange(6) == v.argmin()),
            ),
            lambda v: 6 * cp.max(v) - 5 * cp.min(v),
        ),
    }
    workload = rs.marginals(sized(2, 3, 4), ways=[1, 2])
    for name, (loss, expression) in losses.items():
        plan = rs.plan(workload, MU, minimise=loss)
        reached = loss.loss(workload, plan.variances(workload, per="term"))
        rows.append(
            [f"2, 3, 4 values: {name}", *beside(reached, least_regular(workload, expression)), f"{plan.gap:.1e}"]
        )
    print_rows("Beside a general solver", ["asked", "plan", "CVXPY", "above", "gap stated"], rows)


def beside(reached: float, least: float) -> list[str]:
    return [f"{reached:.5g}", f"{least:.5g}", f"{reached / least - 1:.1e}"]


def large(lengths: Sequence[int]) -> None:
    """Replaced records of many attributes and many values: beside what is proven, and beside records added."""
    asked = {
        "100 attributes of 10 values, up to 2-way": rs.marginals(sized(*[10] * 100), ways=[1, 2]),
        "20 attributes of 2 to 21 values, up to 2-way": rs.marginals(sized(*range(2, 22)), ways=[1, 2]),
        "30 attributes of 5 to 34 values, up to 2-way": rs.marginals(sized(*range(5, 35)), ways=[1, 2]),
        "100 attributes of 2 to 101 values, up to 2-way": rs.marginals(sized(*range(2, 102)), ways=[1, 2]),
        "21 attributes of 4 to 24 values, up to 3-way": rs.marginals(sized(*range(4, 25)), ways=[1, 2, 3]),
    }
    asked |= {f"{n:,} prefixes": rs.prefixes(along(n), "a") for n in lengths}
    asked |= {f"all ranges of {n} values": rs.ranges(along(n), "a") for n in lengths if n <= 300}
    rows = []
    for name, workload in asked.items():
        start = time.process_time()
        plan = rs.plan(workload, MU, unit=REPLACED)
        took = time.process_time() - start
        doubled = 2 * rs.plan(workload, MU).total_variance(workload)
        reached = plan.total_variance(workload)
        rows.append([name, f"{reached:.6g}", f"{reached / doubled:.3f}", f"{plan.gap:.1e}", f"{took:.1f}"])
    print_rows(
        "Records replaced, beside what is proven",
        ["asked", "total variance", "of twice a record added", "gap", "CPU s"],
        rows,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--full", action="store_true", help="axes of 512 and 1,024 values too")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LongWarning)
        small()
        long_axes()
        large((64, 128, 256, 512, 1024) if parser.parse_args().full else (64, 128))


if __name__ == "__main__":
    main()
