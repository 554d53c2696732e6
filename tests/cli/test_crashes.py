"""`residua release` killed at any moment, and two of them racing: never a release without its debit, never half a one.

Most victims are forked from a process that has imported everything and released once, since a start costs more
than a release; they run the command's own entry point and die of a real SIGKILL. Some are the installed command.
"""

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import residua as rs
from residua.cli.spec import read_spec
from residua.cli.steps import create_ledger
from residua.errors import ResiduaError
from tests.cli.command import COMMAND, FILES

# 60 000 cells and 4 000 records, so that every step takes some milliseconds.
SPEC = """
[source]
path = "people.csv"
[privacy]
rho = 0.001
[ledger]
path = "people.ledger"
rho = 1000.0
[[workload]]
ways = [0, 1, 2]
[domain.a]
size = 200
[domain.b]
size = 300
"""
TRUTH = 400  # how many records are in each cell that has any: a number that noise of stddev 30 seldom gives ten times
DATA = "a,b\n" + "".join(f"{cell},{cell}\n" for cell in range(10) for _ in range(TRUTH))

# Reads {"folder", "out", "after"} a line; forks a release and kills it after so many seconds (null: not at all).
NURSERY = """
import json, os, signal, sys, time
from residua.cli.main import main

def run(folder, out):
    os.chdir(folder)
    sys.argv = ["residua", "release", "spec.toml", "--out", out]
    try:
        main()
    except SystemExit as end:
        return end.code or 0

for order in sys.stdin:
    order = json.loads(order)
    if order["after"] == "warm":
        run(order["folder"], order["out"])
        sys.stdout.write("warm\\n")
        sys.stdout.flush()
        continue
    begun = time.monotonic()
    victim = os.fork()
    if victim == 0:
        try:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, 1)
            os._exit(run(order["folder"], order["out"]))
        finally:
            os._exit(99)
    if order["after"] is not None:
        time.sleep(order["after"])
        os.kill(victim, signal.SIGKILL)
    status = os.waitpid(victim, 0)[1]
    sys.stdout.write(json.dumps({"code": os.waitstatus_to_exitcode(status), "took": time.monotonic() - begun}) + "\\n")
    sys.stdout.flush()
"""


def declare(folder: Path, spec: str = SPEC) -> None:
    """Writes the data and a specification."""
    (folder / "spec.toml").write_text(spec)
    (folder / "people.csv").write_text(DATA)
    create_ledger(read_spec(folder / "spec.toml"))


class Nursery:
    """Releases by forked processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        declare(folder)
        self.process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", NURSERY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._order("warm", "warm")
        while self._hear() != "warm":
            pass

    def release(self, out: str, after: float | None = None) -> tuple[int, float]:
        """The exit code (−9: killed) and the seconds it took."""
        self._order(out, after)
        fact = json.loads(self._hear())
        return fact["code"], fact["took"]

    def _order(self, out: str, after: float | str | None) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"folder": str(self.folder), "out": out, "after": after}) + "\n")
        self.process.stdin.flush()

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


def sound(folder: Path, name: str) -> str:
    """Checks all that must hold after a crash, and says how far the release had come.

    The ledger is readable. A folder under the release's name is a whole release, and its debit is in the ledger.
    What else is left behind is an unfinished folder that nothing takes for a release and that holds no true count.
    """
    ledger = folder / "people.ledger"
    entries = rs.Ledger(ledger).entries  # readable
    debited = any(entry.purpose == f"released as {name}" for entry in entries)
    left = list(folder.glob(f".{name}.partial-*"))
    for partial in left:
        noisy = partial / "measurements.npy"
        if noisy.exists():
            content = noisy.read_bytes()
            held = np.frombuffer(content[: len(content) // 8 * 8], dtype=np.int64)  # a header of 8k bytes, then cells
            assert np.count_nonzero(held == TRUTH) < 10
            assert debited or not held.any()  # before the debit, nothing at all
        if not (partial / "release.json").exists():
            with pytest.raises(ResiduaError):
                rs.Release.load(partial)
    if not (folder / name).exists():
        return "debited" if debited else "prepared" if left else "nothing"
    assert {path.name for path in (folder / name).iterdir()} == FILES
    release = rs.Release.load(folder / name)  # checks every digest
    assert release.estimates(["a", "b"]).shape == (200, 300)
    assert abs(release.count().estimate - 10 * TRUTH) < 8 * release.count().stddev
    assert rs.Ledger(ledger).contains(release.receipt["digest"])
    assert debited
    return "released"


def test_a_hundred_kills_at_random_moments(nursery: Nursery) -> None:
    folder = nursery.folder
    runs = [nursery.release(f"whole-{i}") for i in range(5)]
    assert [code for code, _ in runs] == [0] * 5
    whole = sorted(took for _, took in runs)[2]
    rng, phases = random.Random(), {"nothing": 0, "prepared": 0, "debited": 0, "released": 0}
    killed = 0
    # A hundred, and more while too few were killed or a phase was never met: then the kills would have tested little.
    for i in range(1000):
        if i % 10 == 9:  # lives, and tells how long a run takes by now: machines get busier and idler
            code, whole = nursery.release(f"out-{i}")
            assert code == 0
        else:  # evenly over the run, a little beyond its end
            code, took = nursery.release(f"out-{i}", after=whole * 1.1 * (i % 50 + rng.random()) / 50)
            whole = took if code == 0 else whole
        assert code in (0, -signal.SIGKILL)
        killed += code != 0
        phases[sound(folder, f"out-{i}")] += 1
        if i >= 99 and killed > 60 and all(phases.values()):
            break
    assert killed > 60, killed
    assert all(phases.values()), phases
    assert any(not (one / "release.json").exists() for one in folder.glob(".out-*.partial-*"))  # and was not loaded
    # Nothing that was left behind is in the way.
    assert nursery.release("afterwards")[0] == 0
    assert sound(folder, "afterwards") == "released"


def test_kills_of_the_installed_command(tmp_path: Path) -> None:
    declare(tmp_path)
    whole = 0.0
    for i, share in enumerate((None, 0.0, 0.3, 0.6, 0.8, 0.95)):
        args = [str(COMMAND), "release", "spec.toml", "--out", f"real-{i}"]
        child = subprocess.Popen(args, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        # It starts for a second or so; the interesting time begins when it writes its first file.
        while not list(tmp_path.glob(f".real-{i}.partial-*")) and child.poll() is None:
            time.sleep(0.001)
        begun = time.monotonic()
        if share is None:
            assert child.wait(600) == 0
            whole = time.monotonic() - begun
        else:
            time.sleep(share * whole)
            child.kill()
            child.wait()
        assert sound(tmp_path, f"real-{i}") == "released" or share is not None
    done = subprocess.run([str(COMMAND), "ledger", "people.ledger", "--json"], cwd=tmp_path, capture_output=True)
    assert done.returncode == 0


def test_two_processes_race_for_the_last_budget(tmp_path: Path) -> None:
    declare(tmp_path, SPEC.replace("rho = 1000.0", "rho = 0.0015"))
    names = ["one", "two"]
    racers = [
        subprocess.Popen(
            [str(COMMAND), "release", "spec.toml", "--out", name],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in names
    ]
    said = [racer.communicate(timeout=600)[1] for racer in racers]
    assert sorted(racer.returncode for racer in racers) == [0, 4], said
    [loser] = [i for i, racer in enumerate(racers) if racer.returncode]
    assert said[loser].startswith("residua: the budget of ")
    assert "is exhausted" in said[loser]
    assert sound(tmp_path, names[1 - loser]) == "released"
    assert not (tmp_path / names[loser]).exists()
    assert len(rs.Ledger(tmp_path / "people.ledger").entries) == 1
    assert list(tmp_path.glob(".*")) == []
