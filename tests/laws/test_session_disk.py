"""A session killed before any operation of the disk goes on: what was measured is there or was lost, and stays paid."""

import os
import re
import subprocess
import sys
from pathlib import Path


def test_a_session_goes_on_from_wherever_it_was_killed() -> None:
    root = Path(__file__).parents[2]
    settings = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), *sys.path])}
    done = subprocess.run(
        [sys.executable, "-m", "tests.laws.session_crashes", "17"],
        cwd=root,
        env=settings,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.search(r"recovered at points up to (\d+)", done.stdout)
    assert found is not None
    assert int(found.group(1)) > 100  # looking, finishing and topping up are more than a hundred operations
