"""A likelihood-ratio attack on 300 ordered values crossed with three others, against the claimed curve.

python -m benchmarks.axis_audit [releases of each neighbour, 10000]

Two tables differ in one record of the most expensive cell. The attack is the best there is for normal noise. It is
compared with the curve δ(ε) that the guarantee claims, at four ε, in standard errors: above 5.2 is a breach (one false
alarm in a million for all of them), far below 0 a loose claim. Then the same with half the noise, a breach. The means,
variances and covariances of 2,000 releases at this size, and the rounded noise, are tests of the suite
(`tests/statistics/test_crossed_axes.py`).
"""

import sys
import time

from benchmarks.show import print_rows
from residua.noise.normals import Normals
from tests.statistics.test_crossed_axes import breach, crossed


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    plan = crossed(300, 50.0)
    rows = [audited("as planned", plan, runs)]
    floats = Normals.floats
    Normals.floats = lambda self, part: tuple(each / 2 for each in floats(self, part))  # type: ignore[method-assign]
    rows.append(audited("half the noise", plan, max(runs // 4, 100)))
    columns = ("mechanism", "releases of each", "standard errors above the claim", "CPU s")
    print_rows("300 values crossed with three others, prefixes, GDP(1)", columns, rows)


def audited(name: str, plan: object, runs: int) -> tuple[str, ...]:
    start = time.process_time()
    found = breach(plan, runs)
    return name, f"{runs:,}", f"{found:.1f}", f"{time.process_time() - start:.0f}"


if __name__ == "__main__":
    main()
