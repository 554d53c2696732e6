"""Releases of long axes crossed with others projected at once, and plans over one tree combined.

python -m benchmarks.long_projection [values of the axis …] [--crossed 60x40 1440x365] [--leaves 2000000]

First: prefixes of an ordered attribute crossed with 16 × 2 values, all tables of one release projected to non-negative
ones that add up; 1,000 values in running sums and with matrices, longer axes in running sums alone; each also with
structural zeros (a fifth of the values for one sex, the ends of the axis for two regions). Then the same of two
attributes asked by prefixes, crossed with 2 values, to a gap of 1e-3 and to the usual one. Then: what three plans over
one tree have in common, the difference, a top-up, and a session that looks and finishes.
"""

import argparse
import resource
import tempfile
import time
from unittest import mock

import numpy as np
import pyarrow as pa

import residua as rs
from benchmarks.show import print_rows
from residua.projection import products

BUDGET = rs.GDP(1.0)
REGIONS, SEXES = [f"r{k:02}" for k in range(16)], ["f", "m"]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("values", nargs="*", type=int, default=[1_000, 10_000, 100_000])
    parser.add_argument("--crossed", nargs="*", default=["60x40", "300x150", "1440x365"])
    parser.add_argument("--leaves", type=int, default=2_000_000)
    asked = parser.parse_args()
    columns = ("values", "tables kept as", "rounds", "CPU s", "gap", "least cell", "MB at most")
    rows = [row for n in asked.values for row in projections(n)]
    print_rows("All tables of n × 16 × 2 projected at once", columns, rows)
    rows = [row for each in asked.crossed for row in projections_of_two(*map(int, each.split("x")))]
    print_rows("All tables of m × n × 2 projected at once, prefixes of both", columns, rows)
    if asked.leaves:
        print_rows(f"Plans over one tree of {asked.leaves:,} leaves × 2 × 4", ("step", "CPU s"), combined(asked.leaves))


def projections(n: int) -> list[tuple[str, ...]]:
    release = crossed_release(n)
    ways = (True, False) if n <= 1_000 else (True,)
    rows = [projected(release, f"{n:,}", in_sums=in_sums) for in_sums in ways]
    return [*rows, projected(crossed_release(n, impossible=True), f"{n:,}, zeros", in_sums=True)]


def projections_of_two(m: int, n: int) -> list[tuple[str, ...]]:
    release = release_of_two(m, n)
    ways = (True, False) if m * n <= 10_000 else (True,)
    rows = [projected(release, f"{m:,} × {n:,}", in_sums=in_sums) for in_sums in ways]
    return [projected(release, f"{m:,} × {n:,}, to 1e-3", in_sums=True, tolerance=1e-3), *rows]


def projected(release: rs.Release, values: str, *, in_sums: bool, tolerance: float | None = None) -> tuple[str, ...]:
    rounds = [0]
    with mock.patch.multiple(products, longest=lambda plan: 0 if in_sums else 4096):
        start = time.process_time()
        found = rs.project(release, simulations=0, tolerance=tolerance, progress=lambda done, _: rounds.append(done))
        took = time.process_time() - start
    least = float(found.fit.marginal(range(3)).min())
    name, gap = "running sums" if in_sums else "matrices", found.gap / max(found.distance, 1e-300)
    return values, name, f"{rounds[-1]:,}", f"{took:.1f}", f"{gap:.1e}", f"{least:.2g}", megabytes()


def crossed_release(n: int, *, impossible: bool = False) -> rs.Release:
    rng, rows = np.random.default_rng(0), 30 * n
    late, ends = rs.between(n // 2, n // 2 + n // 5), [0, 1, n - 2, n - 1]
    rules = [{"time": late, "sex": "f"}, {"time": ends, "region": REGIONS[3:5]}] if impossible else []
    domain = rs.Domain({"time": rs.Integers(0, n - 1), "region": REGIONS, "sex": SEXES}, impossible=rules)
    data = pa.table(
        {
            "time": np.minimum((rng.beta(2, 5, rows) * n).astype(int), n - 1),
            "region": pa.array(REGIONS).take(pa.array(rng.integers(0, 16, rows) ** 2 % 16)),
            "sex": pa.array(SEXES).take(pa.array(rng.integers(0, 2, rows))),
        }
    )
    workload = rs.product(domain, {"time": "prefixes"}, ways=[1, 2, 3])
    return released(rs.plan(workload, BUDGET, form=rs.Axis()), data)


def release_of_two(m: int, n: int) -> rs.Release:
    rng, rows = np.random.default_rng(0), 2 * m * n
    domain = rs.Domain({"minute": rs.Integers(0, m - 1), "day": rs.Integers(0, n - 1), "sex": SEXES})
    data = pa.table(
        {
            "minute": np.minimum((rng.beta(2, 5, rows) * m).astype(int), m - 1),
            "day": rng.integers(0, n, rows),
            "sex": pa.array(SEXES).take(pa.array(rng.integers(0, 2, rows))),
        }
    )
    workload = rs.product(domain, {"minute": "prefixes", "day": "prefixes"}, ways=[1, 2, 3])
    return released(rs.plan(workload, BUDGET, form=rs.Axis(("minute", "day")), tolerance=1e-2), data)


def released(plan: rs.Plan, data: pa.Table) -> rs.Release:
    with tempfile.TemporaryDirectory() as folder:
        return rs.measure(plan, data, ledger=rs.Ledger(f"{folder}/ledger", BUDGET))


def combined(leaves: int) -> list[tuple[str, str]]:
    rng = np.random.default_rng(0)
    county = np.unique(np.sort(rng.integers(0, max(leaves // 30, 1), leaves)), return_inverse=True)[1]
    levels = {"county": codes("c", 6, county), "state": codes("s", 4, county // 60)}
    block = rs.CodeList(codes("b", 7, np.arange(leaves)), levels=levels)
    domain = rs.Domain({"block": block, "sex": SEXES, "age": list("abcd")})
    asked = [
        rs.product(domain, {"block": "hierarchy", **dict.fromkeys(by, "identity")})
        for by in ("", ["sex"], ["sex", "age"])
    ]
    steps = Steps()
    whole = steps.timed("plan for all three", lambda: rs.plan(asked[0] + asked[1] + asked[2], BUDGET))
    plans = steps.timed("one for each, like it", lambda: [rs.plan(w, BUDGET, form=rs.Tree(like=whole)) for w in asked])
    steps.timed("common", lambda: rs.common(plans))
    steps.timed("residual", lambda: rs.residual(plans[1], given=rs.common(plans[:2])))
    steps.timed("top-up", lambda: rs.top_up(plans[2], given=plans[0]))
    rows = 3 * leaves
    data = pa.table(
        {
            "block": pa.array(codes("b", 7, np.arange(leaves))).take(pa.array(rng.integers(0, leaves, rows))),
            "sex": pa.array(SEXES).take(pa.array(rng.integers(0, 2, rows))),
            "age": pa.array(list("abcd")).take(pa.array(rng.integers(0, 4, rows))),
        }
    )
    with tempfile.TemporaryDirectory() as folder:
        session = rs.Session(data, ledger=rs.Ledger(f"{folder}/ledger", BUDGET))
        choice = steps.timed(
            "look", lambda: session.choose(dict(zip(("places", "by sex", "by sex and age"), plans, strict=True)))
        )
        steps.timed("finish", lambda: choice.finish("by sex and age"))
    return [*steps.rows, ("MB at most", megabytes())]


class Steps:
    """What was done, and how long each step took."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, str]] = []

    def timed(self, name, work):
        start = time.process_time()
        done = work()
        self.rows.append((name, f"{time.process_time() - start:.2f}"))
        return done


def codes(letter: str, width: int, numbers: np.ndarray) -> np.ndarray:
    return np.char.add(letter, np.char.zfill(numbers.astype(str), width))


def megabytes() -> str:
    return f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f}"


if __name__ == "__main__":
    main()
