"""A ledger among real processes: killed at any moment, racing for the last budget, creating at once."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest

import residua
from residua.measurement.ledger import Ledger
from residua.privacy import ZCDP

# Imports once, then forks workers on demand: an import of residua takes longer than most workers live.
CREW = """
import json, os, sys
from fractions import Fraction
from residua.errors import LedgerError
from residua.measurement.ledger import Ledger
from residua.privacy import ZCDP

def tell(**fact):
    os.write(1, (json.dumps(fact) + "\\n").encode())  # short, so written at once

def work(number, job, path, cost, rho):
    try:
        if job == "create":
            Ledger(path, ZCDP(rho * (number + 1)))
            return tell(created=number)
        ledger = Ledger(path, ZCDP(rho))
        while True:
            tell(digest=ledger.debit(Fraction(cost), purpose=f"worker {number}", dataset="data").digest)
    except LedgerError as refused:
        tell(refused=str(refused))

for order in sys.stdin:
    order = json.loads(order)
    count, waiting, gate, workers = order.pop("count"), *os.pipe(), []
    for number in range(count):
        worker = os.fork()
        if worker == 0:
            try:
                os.close(gate)
                os.read(waiting, 1)
                work(number, **order)
            finally:
                os._exit(0)
        workers.append(worker)
    tell(workers=workers)
    os.close(waiting)
    os.close(gate)
    for worker in workers:
        os.waitpid(worker, 0)
    tell(done=True)
"""


class Crew:
    """Worker processes that start together; what they tell comes back as one list."""

    def __init__(self) -> None:
        path = str(Path(residua.__file__).parents[1])
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", CREW],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
        )

    def start(self, count: int, job: str, path: Path, cost: str = "1", rho: float = 1e9) -> list[int]:
        order = {"count": count, "job": job, "path": str(path), "cost": cost, "rho": rho}
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(order).encode() + b"\n")
        self.process.stdin.flush()
        workers: list[int] = self.hear()["workers"]  # type: ignore[assignment]
        return workers

    def finish(self) -> list[dict[str, object]]:
        facts = []
        while "done" not in (fact := self.hear()):
            facts.append(fact)
        return facts

    def hear(self) -> dict[str, object]:
        assert self.process.stdout is not None
        fact: dict[str, object] = json.loads(self.process.stdout.readline())
        return fact


@pytest.fixture(scope="module")
def crew() -> Iterator[Crew]:
    crew = Crew()
    yield crew
    with crew.process:
        assert crew.process.stdin is not None
        crew.process.stdin.close()


def test_a_debit_that_returned_survives_kill_9_and_the_ledger_stays_readable(crew: Crew, tmp_path: Path) -> None:
    rng, told = random.Random(), 0
    for round_ in range(100):
        path = tmp_path / f"{round_ // 10}.ledger"  # each tenth round also kills a creation
        before = Ledger(path).entries if path.exists() else ()
        [worker] = crew.start(1, "debit", path)
        facts = [crew.hear() for _ in range(rng.randrange(6))]  # none: may be killed before the ledger is there
        time.sleep(rng.uniform(0, 0.004))
        os.kill(worker, signal.SIGKILL)
        reported = [fact["digest"] for fact in facts + crew.finish()]
        if not path.exists():
            assert reported == []
            continue
        entries = Ledger(path).entries
        digests = [entry.digest for entry in entries[len(before) :]]
        assert entries[: len(before)] == before
        assert digests[: len(reported)] == reported
        assert len(digests) <= len(reported) + 1
        told += len(reported)
    assert told > 100  # 250 are waited for, on average, so fewer is impossible in practice
    for path in tmp_path.glob("*.ledger"):
        Ledger(path).debit(1, purpose="afterwards", dataset="data")


@pytest.mark.parametrize("winners", [1, 60])
def test_processes_racing_for_the_last_budget_win_exactly_what_is_left(
    crew: Crew, tmp_path: Path, winners: int
) -> None:
    for round_ in range(20 if winners == 1 else 2):
        path, rho = tmp_path / f"{round_}.ledger", 0.5
        cost = Fraction(1, winners)
        ledger = Ledger(path, ZCDP(rho))
        crew.start(8, "debit", path, str(cost), rho)
        facts = crew.finish()
        won = [fact["digest"] for fact in facts if "digest" in fact]
        refused = [str(fact["refused"]) for fact in facts if "refused" in fact]
        assert len(won) == winners
        assert len(refused) == 8
        assert all("is exhausted: rho 0 left" in message for message in refused)
        assert sorted(map(str, won)) == sorted(entry.digest for entry in ledger.entries)
        assert ledger.remaining_exactly == 0


def test_of_processes_creating_at_once_one_wins_and_the_others_check_its_budget(crew: Crew, tmp_path: Path) -> None:
    for round_ in range(20):
        path = tmp_path / f"{round_}.ledger"
        crew.start(8, "create", path, rho=0.25)
        facts = crew.finish()
        [winner] = [fact["created"] for fact in facts if "created" in fact]
        refused = [str(fact["refused"]) for fact in facts if "refused" in fact]
        assert isinstance(winner, int)
        budget = ZCDP(0.25 * (winner + 1))
        assert Ledger(path).budget == budget
        assert len(refused) == 7
        assert all(f"has the budget {budget!r}" in message for message in refused)
    assert len(list(tmp_path.iterdir())) == 20  # and no temporary file is left
