"""The newcomer's walk: how many modules one release passes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

WALK = Path(__file__).parents[1] / "scripts" / "walk.py"
MOST = {"csv": 60, "frame": 60}


def test_the_walk_of_one_release_does_not_grow(record_property):
    done = subprocess.run([sys.executable, WALK], capture_output=True, text=True, check=True)
    walks = [part.splitlines() for part in done.stdout.split("A release of a ")[1:]]
    walked = {head.split(":")[0]: len(modules) for head, *modules in walks}
    for kind, modules in walked.items():
        record_property("the newcomer's walk", f"a release of a {kind} passes {modules} modules")
    assert walked.keys() == MOST.keys()
    assert all(0 < walked[kind] <= MOST[kind] for kind in MOST)
