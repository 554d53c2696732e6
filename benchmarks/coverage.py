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


if __name__ == "__main__":
    main()
