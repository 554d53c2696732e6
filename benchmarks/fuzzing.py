"""Thousands of mutations of every kind of file: `python -m benchmarks.fuzzing [MUTATIONS [DOOR …]] [--seed N]`.

Prints how the readings ended, the most time and memory that one took, and every wrong ending with its seed; exits with
1 if there is one. Memory is limited, so that a file that claims too much fails rather than fills the machine.
"""

import argparse
import random
import resource
import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.fuzzing import DOORS, fuzz

MOST_MEMORY = 8 * 2**30


def main() -> int:
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("mutations", nargs="?", type=int, default=3_000)
    asked.add_argument("doors", nargs="*", choices=[[], *DOORS])
    asked.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    given = asked.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    warnings.simplefilter("error")
    wrong = 0
    for door in given.doors or DOORS:
        endings = fuzz(door, given.mutations, given.seed)
        print(f"{door}: {given.mutations} mutations, seed {given.seed}: {endings}", flush=True)
        for line in sorted(set(endings.wrong)):
            print("   ", line[:400])
        wrong += len(endings.wrong)
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
