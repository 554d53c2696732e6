"""How often intervals hold the truth: of estimated tables by size of cell, and of numbers from replicates and rows.

`python -m benchmarks.replicated tables FILE.csv …` or `… numbers [RELEASES]`. Tables: of a CSV of codes (whole numbers
from 0 on), six attributes at random, pairs measured at epsilon 0.1, 1 and 10; the release answers pairs, and bounds
triples. Numbers: a mean and regression coefficients of synthetic rows, combined over ten replicates, for the records
themselves and (with sampling) for the population that they were drawn from.
"""

from __future__ import annotations

import sys
import tempfile
from itertools import combinations
from typing import Any

import numpy as np
import pyarrow as pa

import residua as rs
from benchmarks.show import print_rows

SIZES = {"0": (0, 0), "1 to 4": (1, 4), "5 to 19": (5, 19), "20 to 99": (20, 99), "100 and more": (100, np.inf)}


def estimated(codes: Any, sizes: Any, budget: Any) -> rs.Estimated:
    domain = rs.Domain.of_sizes([int(n) for n in sizes])
    plan = rs.plan_estimates(rs.marginals(domain, ways=[1, 2]), budget)
    data = pa.table({name: codes[:, i] for i, name in enumerate(domain.names)})
    with tempfile.TemporaryDirectory() as folder:
        return rs.estimate(rs.measure(plan, data, ledger=rs.Ledger.create(f"{folder}/ledger", budget)))


def on_tables(files: list[str]) -> None:
    rows = []
    for file in files:
        every = np.loadtxt(file, delimiter=",", skiprows=1, dtype=np.int64)
        for epsilon in (0.1, 1.0, 10.0):
            held: dict[tuple[int, str], list[float]] = {}
            for seed in range(3):
                random = np.random.default_rng(seed)
                codes = every[:, random.permutation(every.shape[1])[:6]]
                sizes = codes.max(axis=0) + 1
                made = estimated(codes, sizes, rs.ApproxDP(epsilon, 1e-9))
                for members in (s for k in (2, 3) for s in combinations(range(6), k)):
                    shape = sizes[list(members)]
                    if shape.prod() > 20_000:
                        continue
                    true = np.bincount(np.ravel_multi_index(codes[:, members].T, shape), minlength=int(shape.prod()))
                    columns = made.table([made.domain.names[i] for i in members]).columns
                    lower, upper = columns["lower"], columns["upper"]
                    for name, (least, most) in SIZES.items():
                        at = (true >= least) & (true <= most)
                        sums = held.setdefault((len(members), name), [0.0, 0.0, 0.0])
                        sums[0] += at.sum()
                        sums[1] += ((lower <= true) & (true <= upper))[at].sum()
                        sums[2] += (upper - lower)[at].sum()
            for ways in (2, 3):
                of = [held[ways, name] for name in SIZES]
                cells = [f"{100 * inside / n:.1f} ({width / n:,.0f})" if n > 20 else "" for n, inside, width in of]
                rows.append([file.rsplit("/", 1)[-1], f"{epsilon:g}", f"{ways}-way", *cells])
                print(*rows[-1], flush=True)
    print_rows("95 % intervals that hold, % (mean width), by true size", ["data", "epsilon", "", *SIZES], rows)


def drawn(random: Any, records: int) -> Any:
    """Schooling, work and income, which depend on each other."""
    school = random.choice(4, records, p=[0.2, 0.4, 0.3, 0.1])
    work = (random.random(records) < 0.4 + 0.12 * school).astype(np.int64)
    income = np.clip(np.round(1 + 0.8 * school + 1.5 * work + random.normal(0, 1.3, records)), 0, 7).astype(np.int64)
    return np.stack([school, work, income], axis=1)


def numbers(codes: Any) -> tuple[Any, Any]:
    """The mean of income and its regression on schooling and work, and their variances by sampling."""
    y, x = codes[:, 2].astype(float), np.column_stack([np.ones(len(codes)), codes[:, :2]])
    inverse = np.linalg.inv(x.T @ x)
    coefficients = inverse @ x.T @ y
    noise = float(((y - x @ coefficients) ** 2).mean())
    return np.r_[y.mean(), coefficients], np.r_[y.var() / len(y), noise * np.diag(inverse)]


def of_rows(made: rs.Estimated) -> Any:
    return numbers(np.concatenate(list(made.rows().codes())))[0]


def on_numbers(releases: int) -> None:
    population = numbers(drawn(np.random.default_rng(1), 2_000_000))[0]
    random, rows = np.random.default_rng(2), []
    for rho in (0.0005, 0.005, 0.5):
        held = np.zeros((3, 4))
        for _ in range(releases):
            codes = drawn(random, 2000)
            made = estimated(codes, [4, 2, 8], rs.ZCDP(rho))
            replicates = made.replicates(10)
            true, within = numbers(codes)
            one, wide = (replicates.combined(made, of_rows, within=variance) for variance in (0.0, within))
            naive = 1.96 * np.sqrt(within)
            held[0] += (one.lower <= true) & (true <= one.upper)
            held[1] += (wide.lower <= population) & (population <= wide.upper)
            held[2] += np.abs(one.estimate - population) <= naive
        for name, each in zip(("of the records", "of the population", "rows taken for data"), held, strict=True):
            rows.append([f"{rho:g}", name, *(f"{100 * share:.0f}" for share in each / releases)])
            print(*rows[-1], flush=True)
    columns = ["rho", "intervals", "mean", "intercept", "schooling", "work"]
    print_rows(f"2,000 records, {releases} releases, 10 replicates: 95 % intervals that hold, %", columns, rows)


if __name__ == "__main__":
    if "numbers" in sys.argv:
        after = sys.argv[sys.argv.index("numbers") + 1 :]
        on_numbers(int(after[0]) if after else 100)
    else:
        on_tables(sys.argv[2:])
