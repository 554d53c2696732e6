"""`session.adapt` dies at one disk operation after another, and goes on: `python -m tests.laws.adapt_crashes STRIDE`.

Each child is ended, without any clearing up, before its k-th operation. What it left is opened again and adapted to the
end. In a process of its own, because it forks.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa

import residua as rs
from tests.laws.session_crashes import died

DOMAIN = rs.Domain.of_sizes({"a": 2, "b": 3, "c": 2})
RANDOM = np.random.default_rng(3)
DATA = pa.table({name: RANDOM.integers(0, int(size), 500) for name, size in zip("abc", DOMAIN.sizes, strict=True)})
BUDGET = rs.ZCDP(0.5)
WORKLOAD = rs.marginals(DOMAIN, ways=3)


def opened(folder: str) -> rs.Session:
    return rs.Session(DATA, rs.ZCDP(0.6), ledger=f"{folder}/a.ledger")


def work(folder: str) -> None:
    opened(folder).adapt(WORKLOAD, BUDGET)


def recover(folder: str) -> tuple[str, ...]:
    """Goes on from what is there, within the one budget; says which steps were debited before."""
    session = opened(folder)
    entries = session.ledger.entries
    steps = tuple(str(entry.detail.get("step")) for entry in entries)
    kept = len(session.status.parts)
    adapted = session.adapt(WORKLOAD, BUDGET)
    spent = session.ledger.spent_exactly
    assert spent == sum(adapted.spent.values()) <= BUDGET.pcost_allowed()
    assert session.ledger.entries[: len(entries)] == entries  # what was debited stays debited
    again = [str(entry.detail.get("step")) for entry in session.ledger.entries]
    assert again.count("scores") <= 1
    assert again.count("rest") <= 1
    assert again.count("look") <= 1 + (steps == ("look",) and not kept)  # a lost look is made again, from the rest
    counted = adapted.release.table(["a", "b"])
    true = np.zeros((2, 3))
    np.add.at(true, (DATA["a"].to_numpy(), DATA["b"].to_numpy()), 1.0)
    far = np.abs(counted.columns["estimate"] - true.ravel()) / counted.columns["stddev"]
    assert far.max() < 8  # false alarm: below one in a million over all points
    once_more = opened(folder).adapt(WORKLOAD, BUDGET)
    assert session.ledger.spent_exactly == spent
    np.testing.assert_array_equal(once_more.release.estimates(["a", "b"]), adapted.release.estimates(["a", "b"]))
    left = [path.name for path in Path(session.path).rglob(".*")]
    assert left == [], f"left behind: {left}"
    return steps


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        work(folder)  # imports and caches, once
    k, seen = 1, set()
    while True:
        with tempfile.TemporaryDirectory() as folder:
            if not died(k, folder, work):
                break
            seen.add(recover(folder))
        k += int(sys.argv[1])
    told = sorted("+".join(steps) or "nothing" for steps in seen)
    print(f"recovered at points up to {k} after {', '.join(told)}")


if __name__ == "__main__":
    main()
