"""A session killed before any operation of the disk goes on: what was measured is there or was lost, and stays paid."""

import os
import re
import subprocess
import sys
from pathlib import Path


def crashes(module: str, stride: int) -> re.Match[str]:
    root = Path(__file__).parents[2]
    settings = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), *sys.path])}
    done = subprocess.run(
        [sys.executable, "-m", f"tests.laws.{module}", str(stride)],
        cwd=root,
        env=settings,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.search(r"recovered at points up to (\d+)(.*)", done.stdout)
    assert found is not None
    return found


def test_a_session_goes_on_from_wherever_it_was_killed() -> None:
    found = crashes("session_crashes", 17)
    assert int(found.group(1)) > 100  # looking, finishing and topping up are more than a hundred operations


def test_an_adaptation_goes_on_from_wherever_it_was_killed_within_its_one_budget() -> None:
    """Eleven points here; `python -m tests.laws.adapt_crashes 1` takes them all."""
    found = crashes("adapt_crashes", 19)
    assert int(found.group(1)) > 100
    for steps in (" nothing", " look", " look+scores", " look+scores+rest"):
        assert steps in found.group(2)  # killed before and after each debit
