"""Kills, copies, rollbacks and races of everything that is kept beside a ledger: `python -m benchmarks.interleavings`.

Prints for each door how many schedules there are, how many were run (every n-th where each takes long; `--every 1`
takes all), and how what was done in them ended; exits with 1 if copies ever learned more than was paid.
"""

import argparse
import itertools
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.interleavings import DOORS, Schedules, run

# door → moves after the copy, and which schedules are run: every n-th, n a prime that divides no number of places
RUN = {
    "ledgers": [(1, 1)],
    "continual releases": [(1, 1), (2, 11)],
    "sessions": [(1, 1)],
    "choices": [(1, 5)],
    "choices in strata": [(1, 7)],
    "adapted sessions": [(1, 23)],
    "releases": [(1, 1), (2, 1)],
    "scores": [(1, 1), (2, 1)],
    "records per person": [(1, 1), (2, 1)],
    "executors": [(1, 11)],
    "executors, named files": [(1, 11)],
}


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("doors", nargs="*", choices=[[], *DOORS])
    asked.add_argument("--every", type=int, help="run every n-th schedule of each door")
    given = asked.parse_args()
    wrong = total = 0
    print("| door | schedules | run | done | refused | killed | learned more than paid | seconds |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    for door in given.doors or DOORS:
        began, number, ran, bad = time.monotonic(), 0, 0, []
        endings: Counter[str] = Counter()
        for moves, every in RUN[door]:
            number += sum(1 for _ in Schedules(door, moves))
            for schedule in itertools.islice(Schedules(door, moves), 0, None, given.every or every):
                ran += 1
                try:
                    endings += run(door, schedule)
                except AssertionError as problem:
                    bad.append(str(problem))
        told = " | ".join(f"{endings[ending]:,}" for ending in ("done", "refused", "killed"))
        print(f"| {door} | {number:,} | {ran:,} | {told} | {len(bad)} | {time.monotonic() - began:.0f} |", flush=True)
        for line in bad[:5]:
            print("   ", line[:600])
        wrong, total = wrong + len(bad), total + ran
    print(f"{total:,} interleavings, {wrong} in which copies won")
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
