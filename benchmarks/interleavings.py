"""Kills, copies, rollbacks and races of everything that is kept beside a ledger: `python -m benchmarks.interleavings`.

Prints for each door how many schedules there are, how many were run (every n-th where each takes long; `--every 1`
takes all), and how what was done in them ended; exits with 1 if copies ever learned more than was paid. With
`--power-loss`, every state in which power loss may leave the disk, and what comes of it.
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests import power_loss
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


Work = tuple[list[Any], int, Callable[[Any], Counter[str]]]  # what is possible, which of it is run, and how


def schedules(door: str) -> Iterator[Work]:
    for moves, every in RUN[door]:
        yield list(Schedules(door, moves)), every, partial(run, door)


def power_losses(door: str) -> Iterator[Work]:
    for deed in DOORS[door].deeds:
        yield list(power_loss.losses(door, deed)), 1, lambda state, deed=deed: power_loss.run(*state, deed)


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("doors", nargs="*", choices=[[], *DOORS])
    asked.add_argument("--every", type=int, help="run every n-th schedule of each door")
    asked.add_argument("--power-loss", action="store_true")
    given = asked.parse_args()
    wrong = total = 0
    print("| door | possible | run | done | refused | killed | learned more than paid | seconds |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    for door in given.doors or DOORS:
        began, number, ran, bad = time.monotonic(), 0, 0, []
        endings: Counter[str] = Counter()
        for possible, every, work in power_losses(door) if given.power_loss else schedules(door):
            number += len(possible)
            for each in possible[:: given.every or every]:
                ran += 1
                try:
                    endings += work(each)
                except AssertionError as problem:
                    bad.append(str(problem))
        told = " | ".join(f"{endings[ending]:,}" for ending in ("done", "refused", "killed"))
        print(f"| {door} | {number:,} | {ran:,} | {told} | {len(bad)} | {time.monotonic() - began:.0f} |", flush=True)
        for line in bad[:5]:
            print("   ", line[:600])
        wrong, total = wrong + len(bad), total + ran
    print(f"{total:,} in all, {wrong} in which more was learned than paid")
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
