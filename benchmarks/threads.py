"""Planning beside other work: `python -m benchmarks.threads`.

500 prefixes are planned while other processes keep every core busy: with the threads that the BLAS library takes by
itself, and as residua plans. Wall time; each in a process of its own.
"""

import multiprocessing
import os
import subprocess
import sys

from benchmarks.show import print_rows

SIZE = 500
PLAN = f"""
import sys, time
import residua.machine as threads
if sys.argv[1] == "library":
    threads.LARGE = 0
import residua as rs
domain = rs.Domain({{"x": rs.Integers(0, {SIZE - 1})}})
begun = time.perf_counter()
rs.plan(rs.prefixes(domain, "x"), rs.ZCDP(0.5), form=rs.Lattice())
print(time.perf_counter() - begun)
"""


def busy() -> None:
    """Keeps a core busy."""
    while True:
        pass


def seconds(threads: str) -> float:
    """How long planning takes."""
    environment = {key: value for key, value in os.environ.items() if not key.endswith("_NUM_THREADS")}
    command = [sys.executable, "-W", "ignore", "-c", PLAN, threads]
    return float(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)


def main() -> None:
    """Prints one table."""
    rows = []
    for load in (0, os.cpu_count() or 1):
        others = [multiprocessing.Process(target=busy, daemon=True) for _ in range(load)]
        for other in others:
            other.start()
        rows.append((str(load), f"{seconds('library'):.1f}", f"{seconds('residua'):.1f}"))
        for other in others:
            other.terminate()
    print_rows(f"{SIZE} prefixes, seconds", ("other processes", "the library's threads", "as residua plans"), rows)


if __name__ == "__main__":
    main()
