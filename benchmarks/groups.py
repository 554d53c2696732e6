"""A choice for each group through a real session: `python -m benchmarks.groups [groups …]`.

A synthetic country: groups of people whose sizes are spread as those of states × occupations are (log-normal), each
with a table of 10 × 10 × 20 cells (2,000). Candidates are one-way and two-way tables; the rule asks for at least half
of the one-way cells with a signal-to-noise ratio of 20. The session looks, decides, finishes, and what it spent and
how far its estimates are from the truth stand beside what was promised.
"""

import multiprocessing
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import residua as rs
from benchmarks.show import print_rows

RHO, SHARE, SNR = 0.5, 0.5, 20.0
SIZES = {"a": 10, "b": 10, "c": 20}


def country(groups: int, folder: str) -> None:
    """Writes people by group, with values that depend on each other a little, and how many of each `a` there are."""
    random = np.random.default_rng()
    people = np.minimum(random.lognormal(5.0, 1.5, groups), 20_000).astype(int) + 1
    group = np.repeat(np.arange(groups), people)
    a = random.integers(0, 10, len(group), dtype=np.int64)
    b = (a + random.integers(0, 4, len(group))) % 10
    c = random.integers(0, 20, len(group), dtype=np.int64)
    pq.write_table(pa.table({"group": group, "a": a, "b": b, "c": c}), Path(folder) / "people.parquet")
    np.save(Path(folder) / "truth.npy", np.bincount(group * 10 + a, minlength=groups * 10))


def apart(work: Callable[..., None], *arguments: object) -> None:
    """Runs something in a process of its own, whose memory is not counted here."""
    process = multiprocessing.get_context("spawn").Process(target=work, args=arguments)
    process.start()
    process.join()


def run(groups: int) -> tuple[str, ...]:
    """One session; a row of the table."""
    domain = rs.Domain({"group": rs.Integers(0, groups - 1), **{k: rs.Integers(0, n - 1) for k, n in SIZES.items()}})
    plans = {
        "one": rs.plan(rs.marginals(domain, [("a",), ("b",), ("c",)]), rs.ZCDP(RHO)),
        "two": rs.plan(rs.marginals(domain, [("a", "b"), ("a", "c"), ("b", "c")]), rs.ZCDP(RHO)),
    }
    with tempfile.TemporaryDirectory() as folder:
        apart(country, groups, folder)
        began, cpu = time.perf_counter(), time.process_time()
        session = rs.Session(f"{folder}/people.parquet", rs.ZCDP(RHO), ledger=f"{folder}/ledger")
        choice = session.choose(plans, by=["group"])
        look = session.ledger.spent.rho
        verdicts = choice.recommend(share=SHARE, snr=SNR)
        release = choice.finish(verdicts)
        seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
        table = release.table(["group", "a"]).columns
        disk = sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file()) / 1e6
        spent, truth = float(session.ledger.spent_exactly / 2), np.load(f"{folder}/truth.npy")
    ratio = (table["estimate"] - truth) / table["stddev"]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    counts = verdicts.counts
    told = (f"{counts['one']:,}", f"{counts['two']:,}", f"{counts[None]:,}")
    return (
        f"{groups:,}", f"{truth.sum():,}", *told, f"{look:.4f}", f"{spent:.9f}", f"{np.std(ratio):.4f}",
        f"{seconds:.1f}", f"{cpu:.1f}", f"{memory:,.0f}", f"{disk:,.0f}",
    )  # fmt: skip


def main() -> None:
    """Prints the table."""
    wanted = [int(text) for text in sys.argv[1:]] or [1_000, 10_307, 73_000]
    heads = (
        "groups", "people", "one-way", "two-way", "neither", "look rho", "spent rho", "error/stated",
        "s", "CPU s", "peak MB", "disk MB",
    )  # fmt: skip
    title = f"A choice for each group at rho {RHO}: tables of 2,000 cells within each"
    print_rows(title, heads, [run(groups) for groups in wanted])


if __name__ == "__main__":
    main()
