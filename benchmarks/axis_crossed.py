"""Long axes crossed with others: Adult with ages, hours and capital gains to the dollar, and a minute's axis.

`python -m benchmarks.axis_crossed [plan]`: planned alone, or also measured, saved and read. Without Adult's CSV file,
records are drawn at random.
"""

from __future__ import annotations

import csv
import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

import residua as rs
from benchmarks.show import print_rows
from residua.workload import Workload

DATA = Path(__file__).resolve().parents[2] / "shared" / "data" / "adult.csv"
OTHERS = ("workclass", "marital-status", "race", "sex", "income")
LONG = {"age": (17, 90), "hours-per-week": (1, 99), "capital-gain": (0, 99_999)}


def adult() -> tuple[rs.Domain, pa.Table]:
    """Three ordered attributes, one of 10⁵ values, and five others."""
    if DATA.exists():
        with DATA.open() as file:
            records = list(csv.DictReader(file))
        columns = {name: [record[name] for record in records] for name in (*LONG, *OTHERS)}
    else:
        random = np.random.default_rng(0)
        columns = {name: random.integers(low, high + 1, 48_842).tolist() for name, (low, high) in LONG.items()}
        columns |= {name: random.integers(0, 5, 48_842).astype(str).tolist() for name in OTHERS}
    attributes = {name: rs.Integers(*ends) for name, ends in LONG.items()}
    attributes |= {name: sorted(set(columns[name])) for name in OTHERS}  # public: the code lists of the survey
    data = {name: [int(each) for each in columns[name]] if name in LONG else columns[name] for name in columns}
    return rs.Domain(attributes), pa.table(data)


def asked(domain: rs.Domain) -> Workload:
    """All single attributes and pairs, and gains by two others, ordered attributes by prefixes."""
    prefixes = dict.fromkeys(LONG, "prefixes")
    triples = [("capital-gain", a, b) for k, a in enumerate(OTHERS) for b in OTHERS[k + 1 :]]
    return rs.product(domain, prefixes, ways=[1, 2]) + rs.product(domain, prefixes, sets=triples)


def clock() -> float:
    return time.process_time()


def adult_rows(measured: bool) -> list[tuple[str, ...]]:
    domain, data = adult()
    workload = asked(domain)
    rows = [("terms, queries", f"{len(workload):,}, {workload.queries:,}")]
    start = clock()
    plan = rs.plan(workload, rs.GDP(1.0))
    rows += [
        ("plan, CPU s", f"{clock() - start:.1f}"),
        ("root mean square error at mu = 1", f"{np.sqrt(plan.total_variance(workload) / workload.queries):.3f}"),
        ("gap", f"{plan.gap:.2g} against {plan.comparison_class}"),
        ("noisy integers", f"{plan.measurements.cells:,}"),
    ]
    if measured:
        with tempfile.TemporaryDirectory() as folder:
            start = clock()
            release = rs.measure(plan, data, ledger=rs.Ledger(f"{folder}/ledger", rs.GDP(1.0)))
            rows.append(("measure, CPU s", f"{clock() - start:.1f}"))
            start = clock()
            release.save(f"{folder}/out")
            size = sum(each.stat().st_size for each in Path(f"{folder}/out").iterdir())
            rows.append(("save, CPU s; MB on disk", f"{clock() - start:.1f}; {size / 1e6:.0f}"))
            release = rs.Release.load(f"{folder}/out")
            start = clock()
            answers = release.answers(rs.prefixes(domain, "capital-gain", by=["sex"]))
            truth = np.zeros((100_000, 2))
            sexes = np.searchsorted(domain["sex"].labels, np.array(data["sex"]))
            np.add.at(truth, (np.array(data["capital-gain"]), sexes), 1)
            off = (answers.estimates - truth.cumsum(axis=0).ravel()) / answers.stddev
            rows.append(("all gains by sex, read, CPU s", f"{clock() - start:.1f}"))
            rows.append(("their error over the stated deviation, rms", f"{np.sqrt((off**2).mean()):.2f}"))
    rows.append(("memory at most, MB", f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024:,}"))
    return rows


def sizes_rows() -> list[tuple[str, ...]]:
    """Prefixes of n values crossed with 2 × 9 others, and all tables without them."""
    rows = []
    for n in (1_000, 10_000, 100_000, 1_000_000):
        domain = rs.Domain({"minute": rs.Integers(0, n - 1), "sex": ["F", "M"], "region": list("abcdefghi")})
        workload = rs.product(domain, {"minute": "prefixes"}, ways=[1, 2, 3])
        start = clock()
        plan = rs.plan(workload, rs.GDP(1.0))
        error = np.sqrt(plan.total_variance(workload) / workload.queries)
        rows.append((f"{n:,} × 2 × 9", f"{error:.4f}", f"{plan.gap:.1e}", f"{clock() - start:.1f}"))
    return rows


def main() -> None:
    print_rows("Prefixes crossed with others at privacy cost 1", ("values", "RMSE", "gap", "plan s"), sizes_rows())
    print_rows("Adult: gains to the dollar, ages and hours by prefixes", ("", ""), adult_rows("plan" not in sys.argv))


if __name__ == "__main__":
    main()
