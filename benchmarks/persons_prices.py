"""How much less variance persons need when prices know what they can do: `python -m benchmarks.persons_prices`.

Each row is one unit of protection: the least total (or largest) variance at rho 0.5, beside `AddRemove(records=k)`,
which pays k² times its most expensive cell. "table by table" are the ratios of the mean variances of single tables.
"above" is by how much the price can be above what some person really costs, "gap" how far the plan can be from the best
of its class at that price, "any plan" how far from any plan whatever at what persons really cost.
"""

import math
import time

import residua as rs
from benchmarks.show import print_rows
from residua.workload import Workload

BUDGET = rs.ZCDP(0.5)
SURVEY = rs.Domain.of_sizes({"month": 12, "region": 16, "sex": 2})
Least = rs.TotalVariance | rs.MaxVariance
WIDE = rs.Domain.of_sizes({"month": 12, **{f"a{i}": 4 for i in range(40)}})


def percent(share: float) -> str:
    return "–" if math.isinf(share) else f"{100 * share:.2g} %" if share > 1e-9 else "0"


def row(what: str, workload: Workload, unit: rs.Person, objective: rs.TotalVariance | rs.MaxVariance) -> list[str]:
    started = time.perf_counter()
    plan = rs.plan(workload, BUDGET, unit=unit, minimise=objective)
    seconds = time.perf_counter() - started
    old = rs.plan(workload, BUDGET, unit=rs.AddRemove(unit.records), minimise=objective)
    ratios = plan.variances(workload, per="term") / old.variances(workload, per="term")
    if isinstance(objective, rs.MaxVariance):
        ratio = float(plan.variances(workload).max() / old.variances(workload).max())
    else:
        masses = workload.weights * workload.cells
        ratio = float((masses @ plan.variances(workload, per="term")) / (masses @ old.variances(workload, per="term")))
    limits = ", ".join(f"{most} per {name}" for name, most in unit.limits.items()) or "no limit"
    return [
        what,
        f"{unit.records} records, {limits}",
        type(objective).__name__,
        f"{ratio:.3f}",
        f"{1 / ratio:.1f} ×",
        f"{ratios.min():.3f} to {ratios.max():.3f}",
        percent(plan.slack),
        percent(plan.gap),
        percent(plan.gap_any),
        f"{seconds:.2f}",
    ]


def main() -> None:
    two_way = rs.marginals(SURVEY, ways=[0, 1, 2])
    prefixes = rs.product(SURVEY, {"month": "prefixes", "region": "identity"}) + rs.marginals(SURVEY, ways=1)
    total, largest = rs.TotalVariance(), rs.MaxVariance()
    persons = [
        rs.Person(12),
        rs.Person(12, one_per="month"),
        rs.Person(12, per={"month": 1, "region": 3}),
        rs.Person(12, per={"region": 3}),
        rs.Person(12, per={"month": 2}),
        rs.Person(4, one_per="month"),
        rs.Person(100, one_per="month"),
    ]
    rows = [row("≤ 2-way", two_way, person, total) for person in persons]
    rows += [row("≤ 2-way", two_way, person, largest) for person in persons[1:3]]
    rows += [row("prefixes of months × region", prefixes, person, total) for person in persons[1:3]]
    wide = rs.marginals(WIDE, ways=[0, 1, 2, 3])
    rows += [row(f"≤ 3-way, 41 attributes, {len(wide):,} tables", wide, persons[1], total)]
    columns = ["asked", "person", "least", "variance", "saved", "table by table", "above", "gap", "any plan", "s"]
    title = "Variance for persons beside AddRemove(records=k), 12 months × 16 regions × sex, rho 0.5"
    print_rows(title, columns, rows)


if __name__ == "__main__":
    main()
