"""Walls of projection and planning, before and after: Adult projected, the largest variances, 500 attributes.

`python -m benchmarks.walls_projection [adult] [largest] [attributes]` (all three by default). "Before" was measured at
commit 5bd951c and is printed as it was then, with the release or workload it was measured on; "after" is measured now.
`adult` projects a release of all ≤3-way tables of Adult (21 million cells) at rho = 0.1 to a gap of 1e-3; `--release
DIR` takes a saved one, `--keep DIR` saves the one that is measured, so that two versions can be run on the same.
"""

from __future__ import annotations

import argparse
import resource
import time
from typing import Any

import numpy as np

import residua as rs
from benchmarks.projection import Truth, adult_codes, feasibility, measured, shown, workload_of
from benchmarks.show import print_rows

COLUMNS = ["wall", "before", "after", "CPU s", "peak GB"]


def peak() -> str:
    """The most memory this process has had."""
    return f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.1f}"


def adult(release_folder: str | None, keep: str | None) -> list[list[str]]:
    """Projection of Adult: rounds, seconds, proven gap, errors."""
    codes, sizes = adult_codes()
    if release_folder:
        release: Any = rs.Release.load(release_folder)
    else:
        plan = rs.plan(workload_of(rs.Domain.of_sizes(sizes), "marginals", 3), rs.ZCDP(0.1))
        release = measured(plan, codes, 0.1)
    if keep:
        release.save(keep)
    rounds, start = [0], time.process_time()
    projected = rs.project(release, tolerance=1e-3, simulations=0, progress=lambda done, gap: rounds.append(done))
    spent, most = time.process_time() - start, peak()
    errors = Truth(release.domain, codes).errors(release.plan, projected)
    _, apart = feasibility(release.plan, projected)
    gap = projected.gap / projected.distance
    after = f"{rounds[-1]} rounds, gap {gap:.0e}, margins apart {apart:.0e}, errors {shown(errors[:, 0])}"
    before = "650 rounds, 107.7 CPU s, gap 6e-04, margins apart 8e-16, errors 0.1707 (42.4, 2.27, 0.155)"
    return [["Adult, ≤3-way, projected", before, after, f"{spent:.1f}", most]]


def largest() -> list[list[str]]:
    """The sum of the 100 largest variances of 50 attributes."""
    rows = []
    for name, sizes in (("of 10 values", [10] * 50), ("of 2 to 20 values", [2 + 7 * i % 19 for i in range(50)])):
        workload = rs.marginals(rs.Domain.of_sizes(sizes), ways=range(4))
        rounds, start = [0], time.process_time()
        plan = rs.plan(
            workload,
            rs.ZCDP(0.5),
            minimise=rs.LargestVariances(100),
            progress=lambda done, gap, rounds=rounds: rounds.append(done),
        )
        spent = time.process_time() - start
        after = f"LargestVariances(100): {rounds[-1]} rounds, gap {plan.gap:.0e}"
        before = "ConvexLoss: gap 2.6 after 108 rounds, 50 CPU s, stopped" if name == "of 10 values" else "not run"
        rows.append([f"100 largest variances, 50 attributes {name}, ≤3-way", before, after, f"{spent:.2f}", peak()])
        rows.append(general(workload, name))
    return rows


def general(workload: Any, name: str) -> list[str]:
    """The same as a loss of which only the value and a subgradient are known, to one per cent."""

    def gradient(variances: Any) -> Any:
        slope = np.zeros_like(variances)
        slope[np.argpartition(variances, -100)[-100:]] = 1.0
        return slope

    loss = rs.ConvexLoss(lambda variances: float(np.sort(variances)[-100:].sum()), gradient)
    rounds, start = [0], time.process_time()
    plan = rs.plan(
        workload, rs.ZCDP(0.5), minimise=loss, tolerance=0.01, progress=lambda done, gap: rounds.append(done)
    )
    spent = time.process_time() - start
    before = "gap 1.1 after 50 CPU s, stopped" if name == "of 10 values" else "not run"
    after = f"ConvexLoss: {rounds[-1]} rounds, gap {plan.gap:.1e}"
    return [f"the same, {name}, as any convex loss", before, after, f"{spent:.1f}", peak()]


def attributes(counts: tuple[int, ...]) -> list[list[str]]:
    """All ≤3-way tables of many attributes, planned."""
    rows = []
    for count in counts:
        start = time.process_time()
        workload = rs.marginals(rs.Domain.of_sizes([10] * count), ways=range(4))
        plan = rs.plan(workload, rs.ZCDP(0.5))
        spent = time.process_time() - start
        before = "refused (more than 20,000,000 tables)" if count >= 500 else "planned"
        rows.append(
            [
                f"{count} attributes, ≤3-way",
                before,
                f"{len(workload):,} tables, gap {plan.gap:.0e}",
                f"{spent:.0f}",
                peak(),
            ]
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=["largest", "attributes", "adult"])
    parser.add_argument("--release")
    parser.add_argument("--keep")
    parser.add_argument("--attributes", type=int, action="append")
    asked = parser.parse_args()
    rows = []
    if "largest" in asked.parts:
        rows += largest()
    if "attributes" in asked.parts:
        rows += attributes(tuple(asked.attributes or (400, 500)))
    if "adult" in asked.parts:
        rows += adult(asked.release, asked.keep)
    print_rows("Walls of projection and planning", COLUMNS, rows)


if __name__ == "__main__":
    main()
