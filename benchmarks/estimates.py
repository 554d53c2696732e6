"""Estimates that borrow strength: Adult's 1-, 2- and 3-way tables beside AIM, and 100 attributes.

`python -m benchmarks.estimates [adult] [wide]` (both by default). `--seeds N` sets how many releases are averaged (3),
`--ways` and `--epsilons` which of Adult's figures are made; `--unbiased` adds the unbiased release and its projection,
planned by `rs.plan` (minutes). Truth is counted here, apart from everything measured; releases go through
`rs.measure`. AIM's figures are printed here, not measured: an own implementation on a junction tree of 4 MB, each
workload by itself.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import resource
import tempfile
import time
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import residua as rs
from benchmarks.show import print_rows

DATA = Path(os.environ.get("RESIDUA_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
DELTA = 1e-9
EPSILONS = (0.1, 1.0, 10.0)
AIM = {3: (0.312, 0.127, 0.073), 2: (0.164, 0.053, 0.027), 1: (0.052, 0.008, 0.001)}


def adult() -> tuple[rs.Domain, pa.Table, Any]:
    with (DATA / "adult-coded.csv").open() as file:
        rows = list(csv.reader(file))
    sizes = json.loads((DATA / "adult-coded-domain.json").read_text())
    codes = np.array(rows[1:], dtype=np.int64)
    domain = rs.Domain.of_sizes({name: sizes[name] for name in rows[0]})
    return domain, pa.table({name: codes[:, i] for i, name in enumerate(rows[0])}), codes


def truth(codes: Any, sizes: Any, members: tuple[int, ...]) -> Any:
    shape = [int(sizes[i]) for i in members]
    flat = np.ravel_multi_index([codes[:, i] for i in members], shape)
    return np.bincount(flat, minlength=int(np.prod(shape))).reshape(shape).astype(np.float64)


def measured(plan: Any, data: pa.Table) -> rs.Release:
    with tempfile.TemporaryDirectory() as folder:
        return rs.measure(plan, data, ledger=rs.Ledger(f"{folder}/ledger", plan.guarantee))


def compared(made: Any, domain: rs.Domain, truths: dict[tuple[int, ...], Any]) -> tuple[float, float, float, float]:
    """Mean L1 error over N, the ratio of stated to true RMS error, the largest `apart`, seconds of estimates."""
    far, stated, squares, apart, spent = [], 0.0, 0.0, 0.0, 0.0
    for members, true in truths.items():
        names = [domain.names[i] for i in members]
        start = time.process_time()
        table = made.estimates(names)
        spent += time.process_time() - start
        far.append(float(np.abs(table - true).sum()) / float(true.sum()))
        if isinstance(made, rs.Estimated):
            accuracy = made.accuracy(names)
            stated += accuracy.rmse**2 * table.size
            squares += float(((table - true) ** 2).sum())
            apart = max(apart, accuracy.apart)
    return float(np.mean(far)), float(np.sqrt(stated / squares)) if squares else np.nan, apart, spent


def independence(domain: rs.Domain, codes: Any, truths: dict[tuple[int, ...], Any]) -> float:
    far = []
    for members, true in truths.items():
        product = np.ones(())
        for i in members:
            product = np.multiply.outer(product, truth(codes, domain.sizes, (i,)) / len(codes))
        far.append(float(np.abs(product * len(codes) - true).sum()) / len(codes))
    return float(np.mean(far))


def floor(domain: rs.Domain, codes: Any, truths: dict[tuple[int, ...], Any]) -> float:
    """Three-way tables raked from the true pairs: what two-way tables without noise say."""
    from residua.estimation.raking import raked

    far = []
    for members, true in truths.items():
        if len(members) < 3:
            return 0.0
        table, _ = raked(np.ones_like(true), [true.sum(axis=axis) for axis in range(3)], rounds=100)
        far.append(float(np.abs(table - true).sum()) / len(codes))
    return float(np.mean(far))


def on_adult(seeds: int, unbiased: bool, numbers: list[int], epsilons: list[float]) -> None:
    domain, data, codes = adult()
    rows = []
    for ways in numbers:
        workload = rs.marginals(domain, ways=ways)
        truths = {m: truth(codes, domain.sizes, m) for m in combinations(range(len(domain)), ways)}
        plain = f"{independence(domain, codes, truths):.4f}"
        best = f"{floor(domain, codes, truths):.4f}"
        for epsilon in epsilons:
            aim = dict(zip(EPSILONS, AIM[ways], strict=True)).get(epsilon, np.nan)
            found, seconds = [], []
            for _ in range(seeds):
                start = time.process_time()
                plan = rs.plan_estimates(workload, rs.ApproxDP(epsilon, DELTA))
                made = rs.estimate(measured(plan, data))
                whole = time.process_time() - start
                found.append(compared(made, domain, truths))
                seconds.append(whole + found[-1][3])
            error, ratio = (float(np.mean([one[j] for one in found])) for j in (0, 1))
            beside = ["", ""]
            if unbiased:
                release = measured(rs.plan(workload, rs.ApproxDP(epsilon, DELTA)), data)
                projected = rs.project(release, tolerance=1e-2, simulations=0)
                beside = [f"{compared(one, domain, truths)[0]:.4f}" for one in (release, projected)]
            each = " ".join(f"{one[0]:.4f}" for one in found)
            rows.append(
                [f"{ways}", f"{epsilon:g}", f"{error:.4f}", each, f"{aim:.3f}", f"{error / aim - 1:+.0%}", *beside]
            )
            ratios = " ".join(f"{one[1]:.2f}" for one in found)
            apart = f"{max(one[2] for one in found):.2g}"
            rows[-1] += [plain, best, f"{ratio:.2f} ({ratios})", apart, f"{max(seconds):.1f}"]
            print(*rows[-1], flush=True)
    columns = ["ways", "epsilon", "estimates", "each seed", "AIM 4 MB", "beside AIM", "unbiased", "projected"]
    columns += ["independence", "no noise", "stated/true RMS", "apart", "CPU s"]
    print_rows("Adult, 15 attributes: mean ‖estimate − truth‖₁/N, delta 1e-9", columns, rows)


def on_wide(projecting: bool = False, attributes: int = 100, values: int = 10, records: int = 100_000) -> None:
    random = np.random.default_rng(7)
    classes = random.integers(0, 8, records)
    shares = random.dirichlet(np.full(values, 0.5), (attributes, 8))
    codes = np.stack(
        [(random.random((records, 1)) > np.cumsum(shares[i], axis=1)[classes]).sum(axis=1) for i in range(attributes)],
        1,
    ).clip(0, values - 1)
    codes[:, 1] = (codes[:, 0] + random.integers(0, 2, records)) % values  # one pair that nearly decides the other
    codes[:, 4] = (codes[:, 2] + codes[:, 3]) % values  # and one interaction of three without any of two
    domain = rs.Domain.of_sizes([values] * attributes)
    data = pa.table({name: codes[:, i] for i, name in enumerate(domain.names)})
    workload = rs.marginals(domain, ways=[1, 2, 3])
    for name, planner in (("rs.plan_estimates", rs.plan_estimates), ("rs.plan", rs.plan)):
        plan = planner(workload, rs.ApproxDP(1.0, DELTA))
        release = measured(plan, data)
        start = time.process_time()
        made = rs.estimate(release)
        fit = time.process_time() - start
        start = time.process_time()
        projected = rs.project(release, tolerance=1e-3) if projecting else None
        spent_projecting = time.process_time() - start
        rows = []
        for ways in (1, 2, 3):
            chosen = [tuple(sorted(random.choice(attributes, ways, replace=False).tolist())) for _ in range(60)]
            truths = {m: truth(codes, domain.sizes, m) for m in [*chosen, *([(2, 3, 4)] if ways == 3 else [])]}
            error, ratio, apart, spent = compared(made, domain, truths)
            noisy = compared(release, domain, truths)[0]
            rows.append([f"{ways}", f"{error:.4f}", f"{noisy:.4f}", f"{ratio:.2f}", f"{apart:.2g}"])
            rows[-1] += [f"{1000 * spent / len(truths):.1f}", f"{fit:.0f}"]
            if projected is not None:
                rows[-1] += [f"{compared(projected, domain, truths)[0]:.4f}", f"{spent_projecting:.0f}"]
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        title = f"{attributes} attributes of {values} values, {name}, epsilon 1; {memory:.1f} GB at most"
        columns = ["ways", "estimates", "unbiased", "stated/true RMS", "apart", "ms per table", "fit CPU s"]
        columns += ["projected", "CPU s"] if projecting else []
        print_rows(title, columns, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=["adult", "wide", []])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--unbiased", action="store_true")
    parser.add_argument("--projected", action="store_true", help="project the release of 100 attributes, too")
    parser.add_argument("--ways", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--epsilons", type=float, nargs="+", default=list(EPSILONS))
    given = parser.parse_args()
    parts = given.parts or ["adult", "wide"]
    if "adult" in parts:
        on_adult(given.seeds, given.unbiased, given.ways, given.epsilons)
    if "wide" in parts:
        on_wide(given.projected)


if __name__ == "__main__":
    main()
