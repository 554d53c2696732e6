"""An adaptation killed at any moment goes on where it was: nothing is paid twice, and no more than the budget."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import residua as rs

VICTIM = """
import os, signal, sys
import residua as rs
from residua.release.folder import Reserved
from residua.session import adapting

def dying(turn, owner, name, late):
    seen = [0]
    real = getattr(owner, name)
    def wrapped(*args, **options):
        seen[0] += 1
        if seen[0] == turn and not late:
            os.kill(os.getpid(), signal.SIGKILL)
        made = real(*args, **options)
        if seen[0] == turn and late:
            os.kill(os.getpid(), signal.SIGKILL)
        return made
    setattr(owner, name, wrapped)

POINTS = {
    "before the debit": (rs.Ledger, "debit", False),
    "after the debit": (rs.Ledger, "debit", True),
    "after writing": (Reserved, "commit", True),
    "before a note": (adapting.Adaptation, "written", False),
    "after a note": (adapting.Adaptation, "written", True),
}
def work(folder):
    domain = rs.Domain.of_sizes({"a": 3, "b": 4, "c": 2})
    session = rs.Session(f"{folder}/data.parquet", rs.ZCDP(0.5), ledger=f"{folder}/a.ledger")
    session.adapt(rs.marginals(domain, ways=3), rs.ZCDP(0.5))

work(sys.argv[1])  # warm
for order in sys.argv[2:]:  # forked from one process that has loaded everything
    folder, point, turn = order.split("|")
    victim = os.fork()
    if victim == 0:
        dying(int(turn), *POINTS[point])
        work(folder)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(victim, 0)[1]) == -signal.SIGKILL, order
"""
DOMAIN = rs.Domain.of_sizes({"a": 3, "b": 4, "c": 2})
ALLOWED = rs.ZCDP(0.5).pcost_allowed()
KILLS = [
    ("before the debit", 2),
    *(("after the debit", n) for n in (1, 2, 3)),
    ("after writing", 1),
    ("before a note", 2),
    ("after a note", 3),
]
LOST = {("after the debit", 1): "look", ("after the debit", 2): "scores", ("before a note", 2): "scores"}
LOST |= {("after the debit", 3): "rest"}


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, int], Path]:
    """A folder for each kill, as it was left."""
    random = np.random.default_rng(0)
    a, b = random.integers(0, 3, 2000), random.integers(0, 4, 2000)
    folders = {kill: tmp_path_factory.mktemp("killed") for kill in KILLS}
    warm = tmp_path_factory.mktemp("warm")
    for folder in (warm, *folders.values()):
        pyarrow.parquet.write_table(pa.table({"a": a, "b": b, "c": (a + b) % 2}), folder / "data.parquet")
    orders = [f"{folder}|{point}|{turn}" for (point, turn), folder in folders.items()]
    environment = {**os.environ, "PYTHONPATH": str(Path(rs.__file__).parents[1])}
    subprocess.run([sys.executable, "-W", "ignore", "-c", VICTIM, str(warm), *orders], env=environment, check=True)
    return folders


@pytest.mark.parametrize(("point", "turn"), KILLS)
def test_killed_at_any_moment_it_goes_on_and_nothing_is_paid_twice(
    killed: dict[tuple[str, int], Path], point: str, turn: int
) -> None:
    tmp_path = killed[point, turn]
    ledger = rs.Ledger(tmp_path / "a.ledger")
    before = {entry.purpose: entry.cost for entry in ledger.entries}
    session = rs.Session(str(tmp_path / "data.parquet"), rs.ZCDP(0.5), ledger=ledger)
    adapted = session.adapt(rs.marginals(DOMAIN, ways=3), rs.ZCDP(0.5))
    entries = [entry.purpose for entry in ledger.entries]
    lost = LOST.get((point, turn))
    for step in ("look", "scores", "rest"):
        again = step == lost == "look"  # nothing can be done without it: it is taken again, from what is left
        assert entries.count(f"adapt: {step}") == (2 if again else 1)
    assert all(entry.cost == before[entry.purpose] for entry in ledger.entries[: len(before)])
    assert ALLOWED * (1 - 1e-5) < ledger.spent_exactly <= ALLOWED
    assert sum(adapted.spent.values()) == ledger.spent_exactly
    assert (adapted.scores is None) == (lost == "scores")
    total = adapted.release.count()
    assert abs(total.estimate - 2000) < 8 * total.stddev
    assert session.adapt(rs.marginals(DOMAIN, ways=3), rs.ZCDP(0.5)).spent == adapted.spent
