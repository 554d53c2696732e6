"""Projection: Theorem 3.1 in practice, the error of Adult's ≤3-way tables before and after, and 100 attributes.

`python -m benchmarks.projection [theorem] [adult] [wide]` (all three by default). `theorem` also writes the plot
docs/projection.svg. `--releases N` sets how many releases of Adult are averaged at each rho (3 by default),
`--tolerance T` how far each projection goes (1e-6), `--metric plain` by plain squares.
No noise here protects anything: it is drawn by NumPy.
"""

from __future__ import annotations

import argparse
import csv
import resource
import time
from pathlib import Path
from typing import Any

import numpy as np

import residua as rs
from benchmarks.show import print_rows
from residua.linalg.layout import layout_of
from residua.project.consistent import ConsistentTables
from residua.project.local import nearest_consistent
from residua.project.simplex import nearest_histogram

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "adult.csv"
PLOT = Path(__file__).resolve().parents[1] / "docs" / "projection.svg"
RECORDS = 32_561


# ---- Theorem 3.1


def theorem(k: int = 4096, m: int = 256, repeats: int = 5) -> list[tuple[int, float, float, float]]:
    """(n, error of noise, error after projection, the proof's bound), root mean square over queries, at rho = 1/2.

    In the paper's units a histogram sums to 1 and c = 1: σ = √k/n. The bound is (51) with
    E max |⟨c_j, Z⟩| ≤ σ √k √(2 ln 2m).
    """
    random = np.random.default_rng(0)
    F = random.choice([-1.0, 1.0], (k, m))
    rows = []
    for n in (2**i for i in range(4, 15)):
        sigma = np.sqrt(k) / n
        before, after = [], []
        for _ in range(repeats):
            a = F @ (random.multinomial(n, random.dirichlet(np.ones(m))) / n)
            noisy = a + sigma * random.standard_normal(k)
            fit = nearest_histogram(F, noisy, total=1.0)
            before.append(np.linalg.norm(noisy - a) / np.sqrt(k))
            after.append(np.linalg.norm(F @ fit.histogram - a) / np.sqrt(k))
            if after[-1] > before[-1]:
                raise AssertionError("projection increased the error")
        bound = np.sqrt(2.0 * sigma * np.sqrt(2.0 * np.log(2.0 * m)) / np.sqrt(k))
        rows.append((n, float(np.mean(before)), float(np.mean(after)), float(bound)))
    return rows


def plot(rows: list[tuple[int, float, float, float]]) -> str:
    """A small logarithmic plot as SVG."""
    names = ("Gaussian noise", "noise + projection", "Theorem 3.1 (its proof's bound)")
    colours = ("#888888", "#0b6e99", "#c0504d")
    low, high = -3.2, 1.0

    def x(n: float) -> float:
        return 60 + (np.log2(n) - 4) * 40

    def y(error: float) -> float:
        return 20 + (high - np.log10(error)) / (high - low) * 280

    parts = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 700 350" font-family="sans-serif" font-size="12">']
    parts.append('<rect width="700" height="350" fill="white"/>')
    for power in range(int(low), int(high) + 1):
        at = y(10.0**power)
        parts.append(f'<line x1="60" x2="460" y1="{at:.1f}" y2="{at:.1f}" stroke="#dddddd"/>')
        parts.append(f'<text x="52" y="{at + 4:.1f}" text-anchor="end">{10.0**power:g}</text>')
    for n, *_ in rows[::2]:
        parts.append(f'<text x="{x(n):.1f}" y="318" text-anchor="middle">{n}</text>')
    parts.append('<text x="260" y="340" text-anchor="middle">records n</text>')
    for j, (name, colour) in enumerate(zip(names, colours, strict=True), start=1):
        points = " ".join(f"{x(row[0]):.1f},{y(row[j]):.1f}" for row in rows)
        dashes = ' stroke-dasharray="5 4"' if j == 3 else ""
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>')
        parts.append(f'<text x="475" y="{y(rows[-1][j]) + 4:.1f}" fill="{colour}">{name}</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def show_theorem() -> None:
    rows = theorem()
    PLOT.write_text(plot(rows), encoding="utf-8")
    columns = ["n", "Gaussian noise", "noise + projection", "bound of the proof", "noise / projected"]
    shown = [[f"{n:,}", f"{a:.4f}", f"{b:.4f}", f"{c:.4f}", f"{a / b:.1f}"] for n, a, b, c in rows]
    print_rows("Error per query, k = 4,096 random ±1 queries, 256 cells, c = 1", columns, shown)


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


def truth_of(plan: Any, codes: np.ndarray) -> np.ndarray:
    layout = layout_of(plan.lattice, plan.domain.sizes)
    truth = np.empty(layout.cells)
    for group in layout:
        for j, members in enumerate(group.members):
            index = np.zeros(codes.shape[1], dtype=np.int64)
            for i in members:
                index = index * plan.domain.sizes[i] + codes[i]
            start = group.start + j * group.cells
            truth[start : start + group.cells] = np.bincount(index, minlength=group.cells)
    return truth


def noisy_residuals(plan: Any, truth: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """What a release observes, in floating point: the true tables' residuals with the plan's noise."""
    layout = layout_of(plan.lattice, plan.domain.sizes)
    observed = truth.copy()
    for group in layout:
        tables = group.view(observed)
        for j, number in enumerate(group.numbers):
            table = tables[j] + random.standard_normal(group.shape) / np.sqrt(plan.precisions[number])
            for axis in range(table.ndim):
                table = table - table.mean(axis=axis, keepdims=True)
            tables[j] = table
    return observed


def rebuilt(plan: Any, residuals: np.ndarray) -> np.ndarray:
    """All marginals from their residuals."""
    layout = layout_of(plan.lattice, plan.domain.sizes)
    tables = residuals.copy()
    for number, members in enumerate(plan.lattice):
        shape = [int(plan.domain.sizes[i]) for i in members]
        start = layout.starts[number]
        table = tables[start : start + int(np.prod(shape))].reshape(shape)
        for axis in range(len(shape)):
            facet = np.array([[*members[:axis], *members[axis + 1 :]]], dtype=np.int32).reshape(1, -1)
            below = layout.starts[int(plan.lattice.find(facet)[0])]
            margin = tables[below : below + table.size // shape[axis]].reshape(shape[:axis] + shape[axis + 1 :])
            table += np.expand_dims((margin - table.sum(axis=axis)) / shape[axis], axis)
    return tables


def weights_of(plan: Any, metric: str) -> np.ndarray:
    """What each residual weighs: its precision, or in plain squares what it adds to the cells of all tables."""
    if metric == "covariance":
        return np.asarray(plan.precisions)
    return np.asarray(plan.lattice.sum_over_supersets(np.ones(len(plan.lattice)), 1.0 / plan.domain.sizes))


def infeasibility(plan: Any, residuals: np.ndarray) -> tuple[float, float]:
    """The least cell, and the worst mismatch of a table's margins with the smaller tables, as shares of the total.

    Every table is read off on its own, as users do. Margins of every size agree if those one attribute less do.
    """
    fit = ConsistentTables(plan.lattice, plan.domain.sizes, residuals, 0.0, 0.0)
    total, least, apart = float(fit.marginal(())), np.inf, 0.0
    for members in plan.lattice:
        table = fit.marginal(members)
        least = min(least, float(table.min()))
        for axis in range(table.ndim):
            below = fit.marginal((*members[:axis], *members[axis + 1 :]))
            apart = max(apart, float(np.abs(table.sum(axis=axis) - below).max()))
    if least < -1e-9 * total or apart > 1e-9 * total:
        raise AssertionError(f"not feasible: least cell {least}, margins apart by {apart}, total {total}")
    return least / total, apart / total


def by_ways(plan: Any, apart: np.ndarray) -> list[float]:
    """The mean of the cells of all 1-, 2- and 3-way tables, and of all together."""
    layout, found = layout_of(plan.lattice, plan.domain.sizes), []
    for ways in (1, 2, 3):
        groups = [group.view(apart) for group in layout if len(group.shape) == ways]
        found.append(sum(float(part.sum()) for part in groups) / sum(part.size for part in groups))
    return [float(apart.mean()), *found]


def show_adult(releases: int, tolerance: float, metric: str, rhos: tuple[float, ...] = (0.01, 0.1, 1.0)) -> None:
    codes, sizes = adult_codes()
    workload = rs.marginals(rs.Domain.of_sizes(sizes), ways=range(4))
    rows = []
    for rho in rhos:
        plan: Any = rs.plan(workload, rs.ZCDP(rho=rho))
        truth, weights = truth_of(plan, codes), weights_of(plan, metric)
        before, after, facts = [], [], []
        for seed in range(releases):
            observed = noisy_residuals(plan, truth, np.random.default_rng(seed))
            before.append(by_ways(plan, np.abs(rebuilt(plan, observed) - truth)))
            start = time.process_time()
            fit = nearest_consistent(
                plan.lattice, plan.domain.sizes, observed, weights, fixed={(): observed[0]}, tolerance=tolerance
            )
            seconds = time.process_time() - start
            after.append(by_ways(plan, np.abs(rebuilt(plan, fit.coordinates) - truth)))
            least, apart = infeasibility(plan, fit.coordinates)
            facts.append((fit.rounds, fit.gap / fit.distance, least, apart, seconds))
            shown = f"MAE {before[-1][0]:.4f} -> {after[-1][0]:.4f}, {fit.rounds} rounds, {seconds:.0f} CPU s"
            print(f"rho {rho:g}, {metric}: {shown}, gap {facts[-1][1]:.1e}, margins {apart:.0e}", flush=True)
        worse = sum(b[0] > a[0] for a, b in zip(before, after, strict=True))
        a, b = np.mean(before, axis=0), np.mean(after, axis=0)
        rounds, gaps, least, apart, seconds = np.array(facts).T
        row = [f"{rho:g}", str(releases), *(f"{x[0]:.4g} ({x[1]:.3g}, {x[2]:.3g}, {x[3]:.3g})" for x in (a, b))]
        row += [f"{a[0] / b[0]:.1f}", str(worse), f"{rounds.mean():.0f}", f"{gaps.max():.0e}", f"{least.min():.0e}"]
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
        rows.append([*row, f"{apart.max():.0e}", f"{seconds.mean():.0f}", f"{peak:.1f}"])
    columns = ["rho", "releases", "MAE before (1-, 2-, 3-way)", "MAE after", "ratio", "worse", "rounds", "gap"]
    columns += ["least cell / total", "margins apart / total", "CPU s", "peak GB"]
    title = f"Adult, all ≤3-way marginals (470 tables, 21,043,262 cells), {metric} metric, tolerance {tolerance:g}"
    print_rows(title, columns, rows)


# ---- many attributes


def show_wide(tolerance: float) -> None:
    plan: Any = rs.plan(rs.marginals(rs.Domain.of_sizes([10] * 100), ways=range(3)), rs.ZCDP(rho=0.1))
    random = np.random.default_rng(0)
    codes = (10 * random.beta(1.0, 4.0, (100, 50_000))).astype(np.int64)
    truth = truth_of(plan, codes)
    observed = noisy_residuals(plan, truth, random)
    start, spent = time.perf_counter(), time.process_time()
    fit = nearest_consistent(
        plan.lattice, plan.domain.sizes, observed, plan.precisions, fixed={(): observed[0]}, tolerance=tolerance
    )
    wall, cpu = time.perf_counter() - start, time.process_time() - spent
    before = np.abs(rebuilt(plan, observed) - truth).mean()
    tables = rebuilt(plan, fit.coordinates)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    row = [str(len(plan.lattice)), f"{fit.rounds}", f"{fit.gap / fit.distance:.1e}", f"{tables.min() / 50_000:.0e}"]
    row += [f"{before:.3f}", f"{np.abs(tables - truth).mean():.3f}", f"{wall:.1f}", f"{cpu:.1f}", f"{peak:.1f}"]
    columns = ["tables", "rounds", "gap", "least cell / total", "MAE before", "MAE after", "s", "CPU s", "peak GB"]
    print_rows("100 ten-valued attributes, all ≤2-way marginals, 50,000 records, rho = 0.1", columns, [row])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", default=["theorem", "adult", "wide"])
    parser.add_argument("--releases", type=int, default=3)
    parser.add_argument("--tolerance", type=float, default=1e-6)
    parser.add_argument("--metric", choices=("covariance", "plain"), default="covariance")
    parser.add_argument("--rho", type=float, action="append")
    asked = parser.parse_args()
    if "theorem" in asked.parts:
        show_theorem()
    if "wide" in asked.parts:
        show_wide(asked.tolerance)
    if "adult" in asked.parts:
        show_adult(asked.releases, asked.tolerance, asked.metric, tuple(asked.rho or (0.01, 0.1, 1.0)))


if __name__ == "__main__":
    main()
