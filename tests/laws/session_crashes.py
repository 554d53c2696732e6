"""Dies at one disk operation after another, and goes on from there: `python -m tests.laws.session_crashes STRIDE`.

Each child looks, finishes and tops up, and is ended, without any clearing up, before its k-th operation. What it left
is opened again and finished. In a process of its own, because it forks.
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import residua as rs
from residua.plans.verifier import composed_cost, priced
from tests.laws.sessions import DATA, ONE, TWO, YOUNG

_OPERATIONS = ("fsync", "rename", "replace", "mkdir", "open", "unlink", "posix_fallocate")
_DIED = 9


def opened(folder: str) -> rs.Session:
    return rs.Session(DATA, rs.ZCDP(50.0), ledger=f"{folder}/a.ledger")


def work(folder: str) -> None:
    session = opened(folder)
    session.choose({"one": ONE, "two": TWO}).finish("two")
    session.release(YOUNG)


def die_at(k: int) -> None:
    """Ends this process before its k-th operation of the disk."""
    done = 0

    def counted(operation: Callable[..., Any]) -> Callable[..., Any]:
        def instead(*args: Any, **options: Any) -> Any:
            nonlocal done
            done += 1
            if done == k:
                os._exit(_DIED)
            return operation(*args, **options)

        return instead

    for name in _OPERATIONS:
        setattr(os, name, counted(getattr(os, name)))
    shutil.rmtree = counted(shutil.rmtree)


def died(k: int, folder: str, work: Callable[[str], None]) -> bool:
    """Whether a child that was to die at its k-th operation did, and did not come to its end first."""
    child = os.fork()
    if not child:
        try:
            die_at(k)
            work(folder)
        except BaseException as problem:
            print(k, repr(problem), flush=True)
            os._exit(1)
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, _DIED), f"point {k}: exit {code}"
    return code == _DIED


def recover(folder: str) -> None:
    """Goes on from what is there: nothing is forgotten, nothing is paid twice but what was lost."""
    session = opened(folder)
    before, status = session.ledger.spent_exactly, session.status
    parts = [part.planned for part in session._folder.parts().values()]
    assert not parts or composed_cost(parts) <= before
    assert len(status.parts) + len(status.lost) == len(session.ledger.entries)
    lost = sum((Fraction(session.ledger.entries[n - 1].detail["alone"]) for n in status.lost), Fraction(0))
    choice = session.choice
    if choice is not None:
        release = choice.finish("two")
    elif session.price(TWO):
        release = session.choose({"one": ONE, "two": TWO}).finish("two")
    else:
        release = session.release(TWO)
    young = 3 in status.parts or 3 in status.lost
    assert session.ledger.spent_exactly <= (before if young else priced(TWO)[1] + lost)
    assert (release.plan.variances(TWO.workload) <= TWO.variances(TWO.workload) * (1 + 1e-6)).all()
    # What is new pays for what was lost as well, which somebody may have seen.
    if session.ledger.spent_exactly > before:
        now = [part.planned for part in session._folder.parts().values()]
        assert composed_cost(now) + lost <= session.ledger.spent_exactly
    left = [path.name for path in Path(session.path).rglob(".*")]
    assert left == [], f"left behind: {left}"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        work(folder)  # imports and caches, once
    k = 1
    while True:
        with tempfile.TemporaryDirectory() as folder:
            if not died(k, folder, work):
                break
            recover(folder)
        k += int(sys.argv[1])
    print(f"recovered at points up to {k}")


if __name__ == "__main__":
    main()
