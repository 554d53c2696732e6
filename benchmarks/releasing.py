"""Measuring and reconstructing all ≤3-way marginals of d ten-valued attributes, beside copying the same bytes."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from typing import Any

import numpy as np

from benchmarks.show import print_rows

SIZES = (20, 50, 100)
RECORDS = 50_000
COLUMNS = [
    "d",
    "tables",
    "cells",
    "plan (s)",
    "check+count (s)",
    "noise (s)",
    "reconstruct (s)",
    "copy (s)",
    "ratio",
    "peak MB",
]


def run(d: int) -> dict[str, Any]:
    """One release through `rs.measure`, timed step by step, in this process."""
    import pyarrow as pa

    import residua as rs
    from residua.linalg import kernels  # compiled before the clock starts
    from residua.noise import rounded_normal

    kernels.centre(np.zeros((1, 8), dtype=np.int64), np.array([2, 2, 2]))
    kernels.rebuild(
        np.zeros((1, 2), dtype=np.int64),
        np.ones(1),
        np.array([2]),
        np.zeros(1),
        np.zeros((1, 1), dtype=np.int64),
        np.zeros((1, 2)),
    )
    rounded_normal(1000, 10)
    random = np.random.default_rng()
    domain = rs.Domain.of_sizes([10] * d)
    data = pa.table({name: random.integers(0, 10, RECORDS).astype(np.int8) for name in domain.names})
    clock = {"start": time.perf_counter()}
    plan = rs.plan(rs.marginals(domain, ways=range(4)), rs.ZCDP(rho=0.5))
    planned = time.perf_counter()

    def progress(step: str, done: int, total: int | None) -> None:
        clock[step] = time.perf_counter()

    with tempfile.TemporaryDirectory() as folder:
        ledger = rs.Ledger(f"{folder}/synth.ledger", rs.ZCDP(rho=0.5))
        release = rs.measure(
            plan, data, ledger=ledger, progress=progress, notice=lambda _: progress("counted", 0, None)
        )
    source = release.noisy
    target = np.zeros_like(source)  # touched, so that page faults are not on the clock
    reconstructed = copied = np.inf
    for _ in range(3):  # the best of three, for both
        cells = tables = 0
        start = time.perf_counter()
        for _, part, estimates in release.all_estimates():
            cells += estimates.size
            tables += part.stop - part.start
        reconstructed = min(reconstructed, time.perf_counter() - start)
        start = time.perf_counter()
        target[:] = source
        copied = min(copied, time.perf_counter() - start)
    return {
        "tables": tables,
        "cells": cells,
        "plan": planned - clock["start"],
        "count": clock["counted"] - planned,
        "noise": clock["adding noise"] - clock["counted"],
        "reconstruct": reconstructed,
        "copy": copied,
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3,
    }


def rows() -> list[list[str]]:
    found = []
    for d in SIZES:
        code = f"import json; from benchmarks.releasing import run; print(json.dumps(run({d})))"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        r = json.loads(done.stdout.splitlines()[-1])
        steps = [f"{r[key]:.2f}" for key in ("plan", "count", "noise", "reconstruct")]
        ratio = f"{r['reconstruct'] / r['copy']:.1f}×"
        found.append(
            [str(d), f"{r['tables']:,}", f"{r['cells']:,}", *steps, f"{r['copy']:.3f}", ratio, f"{r['peak']:.0f}"]
        )
    return found


def main() -> None:
    print_rows("Measuring and reconstructing all ≤3-way marginals of d ten-valued attributes", COLUMNS, rows())


if __name__ == "__main__":
    main()
