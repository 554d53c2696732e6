"""How often the intervals of quoted numbers hold the truth: 2,000 releases per row, through the real noise.

`python -m benchmarks.coverage [releases]`. Every kind of number, for every form of plan and both kinds of noise, with
easy data and with hard data (groups of a few records, denominators near zero, quantiles at the ends, few values).
A percentage has a standard error of 0.5. Quantiles are values, not continuous: their intervals hold at least so often.
`delta` is what the first-order interval, estimate ± 1.96 standard errors, would have held.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

import numpy as np

import residua as rs
from benchmarks.show import print_rows
from tests.statistics.many_releases import ManyReleases, coverage
from tests.statistics.quoted_cases import CASES, PLANS, TABLES


def rows(releases: int) -> Iterator[list[str]]:
    for form, plan in PLANS.items():
        for ease, x in TABLES.items():
            many = ManyReleases(plan(), x, releases)
            for name, ask in CASES.items():
                start = time.process_time()
                found = coverage(many, ask)
                spent = time.process_time() - start
                held = 100 * np.atleast_1d(found.held)
                delta = 100 * np.atleast_1d(found.delta)
                yield [
                    form,
                    ease,
                    name,
                    f"{held.mean():.1f}",
                    f"{held.min():.1f}",
                    f"{held.max():.1f}",
                    f"{delta.min():.1f}",
                    f"{found.width:.3g}",
                    f"{100 * found.unbounded:.1f}",
                    f"{spent:.1f}",
                ]


def fine_quantiles(releases: int) -> Iterator[list[str]]:
    """Quantiles of 100 values with few records each: every value tested by itself, and a band over all inverted."""
    domain = rs.Domain({"v": rs.Integers(0, 99)})
    plans = {
        "values": rs.plan(rs.marginals(domain, ways=[0, 1]), rs.ZCDP(rho=0.5)),
        "prefixes": rs.plan(rs.prefixes(domain, "v"), rs.ZCDP(rho=0.5)),
    }
    for form, plan in plans.items():
        for records in (1, 5, 100):
            many = ManyReleases(plan, np.full(100, records), releases)
            for q in (0.05, 0.5, 0.95):
                alone = coverage(many, lambda of, q=q: of.quantile("v", q))
                band = coverage(many, lambda of, q=q: of.quantile("v", q, simultaneous=None if of.note else "table"))
                figures = (100 * alone.held, alone.width, 100 * band.held, band.width)
                yield [form, str(records), f"{q}", *(f"{float(each):.1f}" for each in figures)]


def main() -> None:
    releases = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    columns = [
        "plan",
        "data",
        "number",
        "held %",
        "least",
        "most",
        "delta least",
        "median width",
        "unbounded %",
        "CPU s",
    ]
    print_rows(f"95 % intervals over {releases:,} releases", columns, list(rows(releases)))
    columns = ["plan", "records per value", "quantile", "held %", "median width", "band held %", "band width"]
    print_rows("95 % intervals of quantiles of 100 values", columns, list(fine_quantiles(releases)))


if __name__ == "__main__":
    main()
