"""Commands load what they need and no more: modules are counted, because seconds depend on the machine."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.command import released

HEAVY = ("numba", "duckdb", "pyarrow", "scipy", "pandas", "jinja2")
OURS = ("residua.plans.planners", "residua.estimation", "residua.projection", "residua.source", "residua.measurement")
COUNTED = """
import json, sys
sys.argv = ["residua", *sys.argv[1:]]
from residua.cli.main import main
try:
    main()
except SystemExit:
    pass
sys.stderr.write(json.dumps(sorted(sys.modules)))
"""


def loaded(*args: str, cwd: Path) -> set[str]:
    """The modules that a command has loaded when it ends."""
    done = subprocess.run([sys.executable, "-c", COUNTED, *args], cwd=cwd, capture_output=True, text=True, check=True)
    return set(json.loads(done.stderr))


@pytest.mark.parametrize(
    ("args", "most"),
    [
        (["--help"], 350),
        (["table", "out", "age"], 650),
        (["count", "out"], 650),
        (["count", "out", "sex = 'F'"], 650),
        (["mean", "out", "age"], 650),
    ],
)
def test_what_reads_a_release_loads_neither_planners_nor_libraries_of_theirs(
    tmp_path: Path, args: list[str], most: int
) -> None:
    released(tmp_path)
    modules = loaded(*args, cwd=tmp_path)
    assert not [name for name in (*HEAVY, *OURS) if name in modules]
    assert len(modules) <= most


def test_a_plan_loads_no_data(tmp_path: Path) -> None:
    released(tmp_path)
    modules = loaded("plan", "spec.toml", cwd=tmp_path)
    assert not [
        name
        for name in ("numba", "duckdb", "pyarrow", "residua.measurement", "residua.estimation", "residua.projection")
        if name in modules
    ]
    assert len(modules) <= 900
