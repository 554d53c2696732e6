"""Reports and formats of a release of many tables: seconds, megabytes, and the memory that more tables take.

    python -m benchmarks.publishing

All tables of up to two of 40 attributes (821 tables) beside those of 20 (211): a format that streams needs about as
much memory for both. Each is written in a process of its own.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

FORMATS = ("report", "csv", "parquet", "long", "jsonstat", "px", "xlsx", "sdmx")


def released(attributes: int, folder: Path) -> None:
    """A release of all tables of up to two attributes, saved."""
    import pyarrow as pa

    import residua as rs

    domain = rs.Domain.of_sizes({f"a{i:02d}": 10 for i in range(attributes)})
    plan = rs.plan(rs.marginals(domain, ways=[0, 1, 2]), rs.ZCDP(1.0))
    data = pa.table({name: list(range(10)) * 100 for name in domain.names})
    rs.measure(plan, data, ledger=rs.Ledger(folder / f"{attributes}.ledger", rs.ZCDP(1.0))).save(
        folder / str(attributes)
    )


def written(folder: Path, attributes: int, form: str) -> None:
    """Writes in one form; prints seconds, megabytes written, and megabytes of memory at the peak above the start."""
    import residua as rs

    release = rs.Release.load(folder / str(attributes))
    next(release.tables())  # libraries that every form needs
    before, begun = peak(), time.process_time()
    target = folder / f"{attributes}-{form}"
    if form == "report":
        release.report(target)
        size = target.stat().st_size
    else:
        release.export(target, form)
        size = sum(path.stat().st_size for path in target.iterdir())
    print(f"{time.process_time() - begun:.2f} {size / 1e6:.2f} {(peak() - before) / 1e3:.0f}")


def peak() -> int:
    """The most memory that this process has had, in kB."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0])


def main() -> None:
    """Prints one table."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for attributes in (20, 40):
            released(attributes, folder)
        heads = " ".join(f"{words:>18} {'MB':>7} {'memory':>7}" for words in ("211 tables: CPU s", "821 tables: CPU s"))
        print(f"{'form':<10} {heads}")
        for form in FORMATS:
            cells: list[str] = []
            for attributes in (20, 40):
                command = [sys.executable, "-m", "benchmarks.publishing", name, str(attributes), form]
                done = subprocess.run(command, capture_output=True, text=True, check=True)
                cells += done.stdout.split()
            print(f"{form:<10} {cells[0]:>18} {cells[1]:>7} {cells[2]:>7} {cells[3]:>18} {cells[4]:>7} {cells[5]:>7}")


if __name__ == "__main__":
    if len(sys.argv) == 4:
        written(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
    else:
        main()
