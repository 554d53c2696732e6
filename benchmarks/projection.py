"""Projection: the error of Adult's ≤3-way tables before and after, and 100 attributes.

`python -m benchmarks.projection [adult] [wide]` (both by default; Theorem 3.1 is on the page of `benchmarks.paper`).
`--kind products` asks prefixes of five attributes instead of cells. `--releases N` sets how many releases of Adult are
averaged at each rho (3 by default), `--tolerance T` how far each projection goes, `--metric covariance` or `plain` in
which sense. Both go through `rs.measure` and `rs.project`, as users do.
"""

from __future__ import annotations

import argparse
import csv
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import residua as rs
from benchmarks.show import print_rows
from residua.workload import Workload

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "adult.csv"


# ---- Adult


def adult_codes() -> tuple[np.ndarray, list[int]]:
    """The 14 attributes of the residual-planner paper (all but education-num), numbers in equal bins, (14, records)."""
    with DATA.open(encoding="utf-8") as file:
        records = list(csv.DictReader(file))
    codes, sizes = [], []
    for name, low, width, size in (
        ("fnlwgt", 0, 15_000, 100),
        ("capital-gain", 0, 1_000, 100),
        ("capital-loss", 0, 44, 100),
        ("hours-per-week", 1, 1, 99),
        ("age", 17, 1, 85),
    ):
        codes.append((np.array([int(record[name]) for record in records]) - low) // width)
        sizes.append(size)
    for name in ("native-country", "education", "occupation", "workclass", "marital-status", "relationship", "race",
                 "sex", "income"):  # fmt: skip
        values, code = np.unique([record[name] for record in records], return_inverse=True)
        codes.append(code)
        sizes.append(len(values))
    return np.array(codes), sizes


def workload_of(domain: rs.Domain, kind: str, ways: int) -> Workload:
    """All tables of up to so many attributes: cells, or prefixes of the five numeric attributes and cells of others."""
    if kind == "marginals":
        return rs.marginals(domain, ways=range(ways + 1))
    return rs.product(domain, dict.fromkeys(domain.names[:5], "prefixes"), ways=range(ways + 1))


class Truth:
    """True tables, counted when asked for."""

    def __init__(self, domain: rs.Domain, codes: np.ndarray) -> None:
        self.domain, self.codes = domain, codes

    def table(self, members: tuple[int, ...]) -> np.ndarray:
        shape = [int(self.domain.sizes[i]) for i in members]
        index = np.zeros(self.codes.shape[1], dtype=np.int64)
        for i, n in zip(members, shape, strict=True):
            index = index * n + self.codes[i]
        return np.bincount(index, minlength=int(np.prod(shape, dtype=np.int64))).reshape(shape)

    def errors(self, plan: Any, *answered: Any) -> np.ndarray:
        """The mean absolute error over the cells of all tables, and of those of 1, 2, … attributes, (kinds, answered).

        Every table is read off on its own, as users do; that margins equal smaller tables is checked on the way.
        """
        most = len(plan.lattice.levels) - 1
        sums, cells = np.zeros((most + 1, len(answered))), np.zeros(most + 1)
        for members in plan.lattice:
            names, truth = [self.domain.names[i] for i in members], self.table(members)
            cells[len(members)] += truth.size
            sums[len(members)] += [np.abs(each.estimates(names) - truth).sum() for each in answered]
        ways = sums[1:] / cells[1:, None]
        return np.vstack([sums.sum(axis=0) / cells.sum(), ways])


def feasibility(plan: Any, projected: Any) -> tuple[float, float]:
    """The least cell, and the worst mismatch of a table's margins with the smaller tables, as shares of the total."""
    names, total, least, apart = plan.domain.names, projected.count(), np.inf, 0.0
    for members in plan.lattice:
        table = projected.estimates([names[i] for i in members])
        least = min(least, float(table.min()))
        for axis in range(table.ndim):
            below = projected.estimates([names[i] for j, i in enumerate(members) if j != axis])
            apart = max(apart, float(np.abs(table.sum(axis=axis) - below).max()))
    if least < 0 or apart > 1e-9 * total:
        raise AssertionError(f"not feasible: least cell {least}, margins apart by {apart}, total {total}")
    return least / total, apart / total


def measured(plan: Any, codes: np.ndarray, rho: float) -> Any:
    """A release through source and ledger."""
    data = pa.table(dict(zip(plan.domain.names, codes, strict=True)))
    with tempfile.TemporaryDirectory() as folder:
        return rs.measure(plan, data, ledger=rs.Ledger(f"{folder}/ledger", rs.ZCDP(rho)))


def shown(errors: np.ndarray) -> str:
    return f"{errors[0]:.4g} ({', '.join(f'{x:.3g}' for x in errors[1:])})"


def projected_row(plan: Any, codes: np.ndarray, rho: float, releases: int, **terms: Any) -> list[str]:
    """One row of a table: errors before and after, averaged over releases, and what the projection took."""
    truth = Truth(plan.domain, codes)
    errors, facts = [], []
    for _ in range(releases):
        release, rounds = measured(plan, codes, rho), [0]
        start, spent = time.perf_counter(), time.process_time()
        projected = rs.project(release, **terms, progress=lambda done, gap, rounds=rounds: rounds.append(done))
        taken = time.perf_counter() - start, time.process_time() - spent
        errors.append(truth.errors(plan, release, projected))
        distance = projected.distance
        facts.append((rounds[-1], projected.gap / distance, *feasibility(plan, projected), *taken))
        line = f"rho {rho:g}: {shown(errors[-1][:, 0])} -> {shown(errors[-1][:, 1])}"
        print(f"{line}, {rounds[-1]} rounds, {taken[0]:.0f} s, gap {facts[-1][1]:.1e}", flush=True)
    mean = np.mean(errors, axis=0)
    worse = sum(bool(each[0, 1] > each[0, 0]) for each in errors)
    rounds, gaps, _, apart, wall, cpu = np.array(facts).T
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    return [
        *(
            f"{rho:g}",
            f"{releases}",
            shown(mean[:, 0]),
            shown(mean[:, 1]),
            f"{mean[0, 0] / mean[0, 1]:.0f}",
            f"{worse}",
        ),
        *(f"{rounds.mean():.0f}", f"{gaps.max():.0e}", f"{apart.max():.0e}", f"{wall.mean():.0f}", f"{cpu.mean():.0f}"),
        f"{peak:.1f}",
    ]


COLUMNS = [
    "rho",
    "releases",
    "MAE released",
    "MAE projected",
    "ratio",
    "worse",
    "rounds",
    "gap",
    "margins apart / total",
]
COLUMNS += ["s", "CPU s", "peak GB"]


def show_adult(kind: str, releases: int, rhos: tuple[float, ...], **terms: Any) -> None:
    codes, sizes = adult_codes()
    workload = workload_of(rs.Domain.of_sizes(sizes), kind, 3)
    rows = [projected_row(rs.plan(workload, rs.ZCDP(rho)), codes, rho, releases, **terms) for rho in rhos]
    said = ", ".join(f"{name} {value}" for name, value in terms.items() if value is not None)
    print_rows(f"Adult, all ≤3-way {kind} (470 tables, 21,043,262 cells), {said or 'usual terms'}", COLUMNS, rows)


# ---- many attributes


def show_wide(kind: str, **terms: Any) -> None:
    random = np.random.default_rng(0)
    codes = (10 * random.beta(1.0, 4.0, (100, 50_000))).astype(np.int64)
    plan: Any = rs.plan(workload_of(rs.Domain.of_sizes([10] * 100), kind, 2), rs.ZCDP(rho=0.1))
    row = projected_row(plan, codes, 0.1, 1, **terms)
    print_rows(f"100 ten-valued attributes, all ≤2-way {kind} (5,051 tables), 50,000 records", COLUMNS, [row])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=["adult", "wide"])
    parser.add_argument("--kind", choices=("marginals", "products"), default="marginals")
    parser.add_argument("--releases", type=int, default=3)
    parser.add_argument("--tolerance", type=float)
    parser.add_argument("--metric", choices=("margins", "covariance", "plain"))
    parser.add_argument("--rho", type=float, action="append")
    asked = parser.parse_args()
    terms = {"metric": asked.metric, "tolerance": asked.tolerance}
    if "wide" in asked.parts:
        show_wide(asked.kind, **terms)
    if "adult" in asked.parts:
        show_adult(asked.kind, asked.releases, tuple(asked.rho or (0.01, 0.1, 1.0)), **terms)


if __name__ == "__main__":
    main()
