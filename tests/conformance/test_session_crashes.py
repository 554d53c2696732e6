"""A session killed at any moment: what was debited stays spent, what was measured is kept, and the session goes on.

Victims are forked from a process that has imported everything; they die of a real SIGKILL, at named points of the code
(just before or after something reaches the disk) or after a random time.
"""

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import residua as rs
from residua.plans.verifier import priced

NURSERY = """
import importlib, json, os, signal, sys, time
from pathlib import Path
import residua as rs
door = importlib.import_module("residua.measurement.measure")
from residua.release.folder import Reserved
from residua.session import session as sessions
from residua.session.state import Folder
from residua.source import checking

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

def before(owner, name):
    setattr(owner, name, die)

def after(owner, name):
    real = getattr(owner, name)
    def wrapped(*args, **options):
        real(*args, **options)
        die()
    setattr(owner, name, wrapped)

def rename_dies(part):
    real = Path.rename
    def wrapped(self, target):
        if part in str(self):
            die()
        return real(self, target)
    Path.rename = wrapped

POINTS = {
    "nothing": lambda: None,
    "before the debit": lambda: before(rs.Ledger, "debit"),
    "after the debit": lambda: after(rs.Ledger, "debit"),
    "after checking": lambda: after(checking, "count"),
    "after counting": lambda: after(checking.Checked, "count"),
    "before writing": lambda: before(Reserved, "commit"),
    "before naming the part": lambda: rename_dies("parts"),
    "before naming the choice": lambda: rename_dies("choices"),
    "after writing": lambda: after(Reserved, "commit"),
    "before the end is noted": lambda: before(Folder, "end_choice"),
    "after the end is noted": lambda: after(Folder, "end_choice"),
}

def work(folder, job):
    domain = rs.Domain.of_sizes({"a": 40, "b": 50})
    plans = [rs.independent(rs.marginals(domain, ways=k), rs.ZCDP(0.5)) for k in (1, 2)]
    session = rs.Session(f"{folder}/data.parquet", rs.ZCDP(50.0), ledger=f"{folder}/a.ledger")
    if job == "look":
        session.choose(plans)
    elif job == "finish":
        session.choice.finish("plan 2")
    else:
        session.release(plans[1])

work(sys.argv[1], "look")  # warm
print("warm", flush=True)
for order in sys.stdin:
    order = json.loads(order)
    begun = time.monotonic()
    victim = os.fork()
    if victim == 0:
        code = 99
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            POINTS[order["point"]]()
            work(order["folder"], order["job"])
            code = 0
        finally:
            os._exit(code)
    if order["after"] is not None:
        time.sleep(order["after"])
        os.kill(victim, signal.SIGKILL)
    status = os.waitpid(victim, 0)[1]
    print(json.dumps({"code": os.waitstatus_to_exitcode(status), "took": time.monotonic() - begun}), flush=True)
"""
DOMAIN = rs.Domain.of_sizes({"a": 40, "b": 50})
ONE, TWO = (rs.independent(rs.marginals(DOMAIN, ways=k), rs.ZCDP(0.5)) for k in (1, 2))
TRUTH = 400
DATA = pa.table({"a": np.repeat(np.arange(10), TRUTH), "b": np.repeat(np.arange(10), TRUTH)})
LOOK, WHOLE = priced(rs.common([ONE, TWO]))[1], priced(TWO)[1]


class Nursery:
    """Sessions used by forked processes."""

    def __init__(self, folder: Path) -> None:
        fresh(folder)
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", NURSERY, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(Path(rs.__file__).parents[1])},
        )
        assert self._hear() == "warm"

    def use(self, folder: Path, job: str, point: str = "nothing", after: float | None = None) -> tuple[int, float]:
        """The exit code (−9: killed) and the seconds it took."""
        assert self.process.stdin is not None
        order = {"folder": str(folder), "job": job, "point": point, "after": after}
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        fact = json.loads(self._hear())
        return fact["code"], fact["took"]

    def _hear(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the nursery died"
        return line.strip()


@pytest.fixture(scope="module")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    nursery = Nursery(tmp_path_factory.mktemp("nursery"))
    yield nursery
    with nursery.process:
        assert nursery.process.stdin is not None
        nursery.process.stdin.close()


def fresh(folder: Path) -> Path:
    pyarrow.parquet.write_table(DATA, folder / "data.parquet")
    return folder


def reopened(folder: Path) -> rs.Session:
    """The session after a crash, sound: what it holds was paid for, and its estimates are what they say."""
    session = rs.Session(str(folder / "data.parquet"), rs.ZCDP(50.0), ledger=folder / "a.ledger")
    known = session.known
    if known is not None:
        total = known.count()
        assert abs(total.estimate - 10 * TRUTH) < 8 * total.stddev
    for path in session.path.rglob("*.npy"):
        content = path.read_bytes()
        held = np.frombuffer(content[: len(content) // 8 * 8], dtype=np.int64)
        assert np.count_nonzero(held == TRUTH) < 10
    return session


# What stands in the ledger after a kill at each point of the look, and what is kept of it.
LOOKS = {
    "before the debit": (0, None),
    "after the debit": (LOOK, None),
    "after checking": (0, None),
    "after counting": (LOOK, None),
    "before writing": (LOOK, None),
    "before naming the part": (LOOK, LOOK),  # whole, though without its name: found again
    "before naming the choice": (0, None),
    "after writing": (LOOK, LOOK),
}


@pytest.mark.parametrize("point", LOOKS)
def test_a_look_that_is_killed_is_spent_or_not_begun_and_the_session_resumes(
    nursery: Nursery, tmp_path: Path, point: str
) -> None:
    folder, (spent, kept) = fresh(tmp_path), LOOKS[point]
    assert nursery.use(folder, "look", point)[0] == -signal.SIGKILL
    session = reopened(folder)
    assert session.ledger.spent_exactly == spent
    choice = session.choose([ONE, TWO])
    # A look that was kept costs nothing the second time; one that was lost is paid for again.
    assert session.ledger.spent_exactly == (spent if kept else spent + LOOK)
    choice.finish(TWO)
    assert session.ledger.spent_exactly == WHOLE + (0 if kept else spent)
    assert session.status.lost == ((1,) if spent and not kept else ())


FINISHES = {
    "before the debit": (0, False),
    "after the debit": (WHOLE - LOOK, False),
    "before writing": (WHOLE - LOOK, False),
    "before naming the part": (WHOLE - LOOK, True),
    "after writing": (WHOLE - LOOK, True),
    "before the end is noted": (WHOLE - LOOK, True),
    "after the end is noted": (WHOLE - LOOK, True),
}


@pytest.mark.parametrize("point", FINISHES)
def test_power_lost_between_look_and_finish_loses_at_most_the_finish(
    nursery: Nursery, tmp_path: Path, point: str
) -> None:
    folder, (more, kept) = fresh(tmp_path), FINISHES[point]
    assert nursery.use(folder, "look")[0] == 0
    assert nursery.use(folder, "finish", point)[0] == -signal.SIGKILL
    session = reopened(folder)
    assert session.ledger.spent_exactly == LOOK + more
    choice = session.choice
    if point == "after the end is noted":
        assert choice is None
        release = session.release(TWO)
    else:
        assert choice is not None
        release = choice.finish("plan 2")
    # What was lost counts with what it costs alone.
    lost = 0 if kept or not more else Fraction(session.ledger.entries[1].detail["alone"])
    assert session.ledger.spent_exactly == WHOLE + lost
    assert release.plan.variance(("a", "b")) == pytest.approx(TWO.variance(("a", "b")), rel=1e-9)


def test_kills_at_random_moments(nursery: Nursery, tmp_path: Path) -> None:
    folder, rng, killed = fresh(tmp_path), random.Random(), 0
    whole = max(nursery.use(fresh(tmp_path), "release")[1], 0.05)
    # Forty, and more while too few were killed. How long a run takes is learned: machines get busier and idler.
    for i in range(2000):
        if i % 4 == 0:
            folder = tmp_path / str(i)
            folder.mkdir()
            fresh(folder)
        code, _ = nursery.use(folder, rng.choice(["look", "release"]), after=whole * rng.random())
        assert code in (0, -signal.SIGKILL)
        killed += code != 0
        whole *= 1.25 if code else 0.8
        if (folder / "a.ledger").exists():
            session = reopened(folder)
            parts = [part.planned for part in session._folder.parts().values()]
            assert session.ledger.spent_exactly >= sum(priced(plan)[1] for plan in parts)
        if i >= 39 and killed > 5:
            break
    assert killed > 5
    assert nursery.use(folder, "release")[0] == 0  # nothing that was left behind is in the way
    assert reopened(folder).price(TWO) == 0
