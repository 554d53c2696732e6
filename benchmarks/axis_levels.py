"""Months and years beside prefixes of days: the stated gap, the loss beside the dense optimum, time.

python -m benchmarks.axis_levels [most days, 100000]
"""

import datetime
import sys
import tempfile
import time

import numpy as np
import pyarrow as pa

import residua as rs
from benchmarks.show import print_rows
from residua.workload import Workload

BEFORE = {  # noise along a path, prefixes at the ends of groups heavier: gap, and loss beside the dense optimum
    (120, "prefixes, levels"): "1.003", (120, "prefixes, months × 5"): "8.9e-02, 1.018",
    (120, "prefixes, months × 30"): "2.5e-01, 1.098", (120, "ranges, levels × 100"): "1.006",
    (120, "largest: prefixes, levels"): "1.007", (120, "largest: values at a quarter"): "1.17",
    (120, "largest: months at a quarter"): "2.6e-01, 1.07",
    (3_653, "prefixes, months × 30"): "3.2e-01", (3_653, "largest: prefixes, levels"): "4.8e-03",
    (3_653, "largest: months at a quarter"): "2.2e-01", (3_653, "largest: months at a tenth"): "1.4e+00",
    (20_000, "prefixes, levels"): "2.1e-02", (20_000, "largest: prefixes, levels"): "2.2e-03",
}  # fmt: skip


def main() -> None:
    most = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    rows = [planned(n, kind) for n in (120, 3_653, 20_000, 100_000) if n <= most for kind in kinds(n)]
    columns = ("asked", "days", "loss", "gap", "beside dense", "before", "plan s", "measure s")
    print_rows("Levels beside prefixes at privacy cost 1 (CPU seconds)", columns, rows)
    crossed = [together(n, kind) for n in (3_653, 20_000) if n <= most for kind in designs(n)]
    columns = ("asked", "days", "RMSE", "gap", "in two plans", "plan s", "measure s")
    print_rows("Crossed with 8 regions × 2 sexes: one plan, and two with the budget split best", columns, crossed)


def designs(n: int) -> dict[str, tuple[Workload, Workload, rs.MaxVariance | None]]:
    """Prefixes, and levels, of n days by other attributes."""
    first = datetime.date(1900, 1, 1)
    day = rs.Dates(first, first + datetime.timedelta(days=n - 1), levels=["month", "year"])
    domain = rs.Domain({"day": day, "region": list("abcdefgh"), "sex": ["F", "M"]})

    def by(kind: str, *names: str) -> Workload:
        return rs.product(domain, {"day": kind}, sets=[("day", *names)])

    return {
        "prefixes by region, months by region": (by("prefixes", "region"), by("month", "region"), None),
        "the largest of these": (by("prefixes", "region"), by("month", "region"), rs.MaxVariance()),
        "prefixes by region, all levels by region and sex": (
            *(by("prefixes", "region"), by("hierarchy", "region", "sex")),
            None,
        ),
        "prefixes, months by region": (by("prefixes"), by("month", "region"), None),
        "prefixes, all levels by region and sex": (by("prefixes"), by("hierarchy", "region", "sex"), None),
    }


def together(n: int, kind: str) -> tuple[object, ...]:
    one, other, objective = designs(n)[kind]
    workload = one + other
    start = time.process_time()
    plan = rs.plan(workload, rs.GDP(1.0), minimise=objective or rs.TotalVariance())
    seconds = time.process_time() - start
    if objective is not None:
        worst = f"{plan.variances(workload).max() ** 0.5:.4f}"
        return kind, f"{n:,}", worst, f"{plan.gap:.1e}", "", f"{seconds:.1f}", f"{measured(plan):.1f}"
    loss = plan.total_variance(workload)
    apart = sum(rs.plan(each, rs.GDP(1.0)).total_variance(each) ** 0.5 for each in (one, other)) ** 2
    return (
        *(kind, f"{n:,}", f"{(loss / workload.queries) ** 0.5:.4f}", f"{plan.gap:.1e}"),
        f"{(apart / workload.queries) ** 0.5:.4f}, {apart / loss * (1 + plan.gap) - 1:.1e}",
        *(f"{seconds:.1f}", f"{measured(plan):.1f}"),
    )


def kinds(n: int) -> dict[str, tuple[Workload, rs.MaxVariance | None]]:
    """What is asked of n days, and by which objective."""
    first = datetime.date(1900, 1, 1)
    levels = ["month", "year"]
    domain = rs.Domain({"day": rs.Dates(first, first + datetime.timedelta(days=n - 1), levels=levels)})
    prefixes, values = rs.prefixes(domain, "day"), rs.product(domain, {"day": "identity"})
    hierarchy, months = rs.hierarchy(domain, "day"), rs.product(domain, {"day": "month"})

    def targets(rows: int, target: float) -> rs.MaxVariance:
        return rs.MaxVariance(targets=np.repeat([1.0, target], [n, rows]))

    groups = months.queries
    return {
        "prefixes, levels": (prefixes + hierarchy, None),
        "prefixes, months × 5": (prefixes + 5 * months, None),
        "prefixes, months × 30": (prefixes + 30 * months, None),
        "ranges, levels × 100": (rs.ranges(domain, "day") + 100 * hierarchy, None),
        "largest: prefixes, levels": (prefixes + hierarchy, rs.MaxVariance()),
        "largest: values at a quarter": (prefixes + values, targets(n, 0.25)),
        "largest: months at a quarter": (prefixes + months, targets(groups, 0.25)),
        "largest: months at a tenth": (prefixes + months, targets(groups, 0.1)),
    }


def planned(n: int, kind: str) -> tuple[object, ...]:
    workload, objective = kinds(n)[kind]
    minimise = rs.TotalVariance() if objective is None else objective
    start = time.process_time()
    plan = rs.plan(workload, rs.GDP(1.0), minimise=minimise, form=rs.Axis())
    seconds = time.process_time() - start
    loss = loss_of(plan, workload, objective)
    beside = ""
    if n <= 120:
        dense = rs.plan(workload, rs.GDP(1.0), minimise=minimise, form=rs.Matrix(), tolerance=1e-4)
        beside = f"{loss / loss_of(dense, workload, objective):.4f}"
    return (
        kind,
        f"{n:,}",
        f"{loss:.6g}",
        f"{plan.gap:.1e}",
        beside,
        BEFORE.get((n, kind), ""),
        f"{seconds:.1f}",
        f"{measured(plan):.1f}",
    )


def loss_of(plan: rs.Plan, workload: Workload, objective: rs.MaxVariance | None) -> float:
    if objective is None:
        return float(plan.total_variance(workload))
    scales = np.repeat(objective.scales(workload), workload.cells.astype(int))
    return float((plan.variances(workload) / scales).max())


def measured(plan: rs.Plan) -> float:
    """Seconds of measuring a thousand records."""
    labelled = [(name, plan.domain[name].labels) for name in plan.domain.names]
    columns = {name: [labels[i % len(labels)] for i in range(1_000)] for name, labels in labelled}
    data = pa.table(columns)
    with tempfile.TemporaryDirectory() as folder:
        start = time.process_time()
        rs.measure(plan, data, ledger=rs.Ledger(f"{folder}/ledger", rs.GDP(1.0)))
        return time.process_time() - start


if __name__ == "__main__":
    main()
