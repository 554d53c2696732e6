"""Adaptive spending beside one plan, and tables where a model of low rank is wrong.

`python -m benchmarks.adapting [adult] [wrong]` (both by default). Adult: all three-way tables, `session.adapt` beside
`rs.plan_estimates`, one release each, every third table. Wrong: seven attributes made like flights (a destination all
but decides its carriers), singles and pairs beside the unbiased release, as ratios of root mean square errors.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa

import residua as rs
from benchmarks.estimates import DELTA, EPSILONS, adult, compared, measured, truth
from benchmarks.show import print_rows


def on_adult() -> None:
    domain, data, codes = adult()
    workload = rs.marginals(domain, ways=3)
    every = {w: list(combinations(range(len(domain)), w))[:: 3 if w == 3 else 1] for w in (1, 2, 3)}
    truths = {w: {m: truth(codes, domain.sizes, m) for m in sets} for w, sets in every.items()}
    rows = []
    for epsilon in EPSILONS:
        budget = rs.ApproxDP(epsilon, DELTA)
        for name in ("one plan", "adapted"):
            start = time.process_time()
            if name == "adapted":
                with tempfile.TemporaryDirectory() as folder:
                    session = rs.Session(data, budget, ledger=f"{folder}/ledger")
                    made = session.adapt(workload, budget).estimated
            else:
                made = rs.estimate(measured(rs.plan_estimates(workload, budget), data))
            spent = time.process_time() - start
            found = [compared(made, domain, truths[w])[:2] for w in (1, 2, 3)]
            cells = [f"{error:.4f} ({ratio:.2f})" for error, ratio in found]
            rows.append([f"{epsilon:g}", name, *cells, f"{spent:.0f}"])
            print(*rows[-1], flush=True)
    columns = ["epsilon", "way", "1-way (stated/true)", "2-way", "3-way", "CPU s"]
    print_rows("Adult: mean ‖estimate − truth‖₁/N", columns, rows)


def flights(random: Any, records: int = 300_000) -> tuple[rs.Domain, pa.Table, Any]:
    """Seven attributes like those of flights: month, day, carrier, origin, destination, hour, delay."""
    to = random.choice(105, records, p=random.dirichlet(np.full(105, 0.5)))
    origin = np.where(random.random(records) < 0.5, random.integers(0, 3, 105)[to], random.integers(0, 3, records))
    carrier = random.integers(0, 16, (105, 3))[to, random.integers(0, 3, records)]
    month, day = random.integers(0, 12, records), random.integers(0, 31, records)
    hour = np.clip(random.normal(8 + carrier / 2, 3).round(), 0, 23).astype(np.int64)
    late = np.clip(random.poisson(1 + hour / 6 + 3 * (month == 6)), 0, 9)
    codes = np.stack([month, day, carrier, origin, to, hour, late], 1)
    domain = rs.Domain.of_sizes([12, 31, 16, 3, 105, 24, 10])
    return domain, pa.table({name: codes[:, i] for i, name in enumerate(domain.names)}), codes


def on_wrong() -> None:
    domain, data, codes = flights(np.random.default_rng(5))
    rows = []
    for name, planner in (("rs.plan", rs.plan), ("rs.plan_estimates", rs.plan_estimates)):
        for epsilon in (0.05, 0.5, 5.0):
            release = measured(planner(rs.marginals(domain, ways=[1, 2]), rs.ApproxDP(epsilon, 1e-6)), data)
            made = rs.estimate(release)
            row = [name, f"{epsilon:g}"]
            for ways in (1, 2):
                own = other = stated = worst = 0.0
                for members in combinations(range(len(domain)), ways):
                    true, names = truth(codes, domain.sizes, members), [domain.names[i] for i in members]
                    ours = float(((made.estimates(names) - true) ** 2).sum())
                    theirs = float(((release.estimates(names) - true) ** 2).sum())
                    own, other, worst = own + ours, other + theirs, max(worst, ours / theirs)
                    stated += made.accuracy(names).rmse ** 2 * true.size
                row += [f"{np.sqrt(own / other):.2f}", f"{np.sqrt(worst):.2f}", f"{np.sqrt(stated / own):.2f}"]
            rows.append(row)
            print(*row, flush=True)
    columns = ["plan", "epsilon"] + [f"{w}-way: {x}" for w in (1, 2) for x in ("error/release", "worst", "stated/true")]
    print_rows("High rank: errors of estimates beside those of the release", columns, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=["adult", "wrong", []])
    parts = parser.parse_args().parts or ["adult", "wrong"]
    if "wrong" in parts:
        on_wrong()
    if "adult" in parts:
        on_adult()


if __name__ == "__main__":
    main()
