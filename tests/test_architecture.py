"""The shape of the tree: what import-linter's layers do not say."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

ROOT = Path(__file__).parents[1] / "src" / "residua"
LARGEST = 400  # lines: beyond, two ideas live in a file


# Cycles that are still there, to be taken apart one by one; a test fails when one of them is gone.
CYCLES: set[frozenset[str]] = set()


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    return grimp.build_graph("residua", cache_dir=None)  # lazy and type-only imports count


def test_no_cycle_of_modules_anywhere():
    graph = grimp.build_graph("residua", cache_dir=None, exclude_type_checking_imports=True)  # lazy imports count
    modules = sorted(graph.modules)
    place = {name: i for i, name in enumerate(modules)}
    edges = [(place[a], place[b]) for a in modules for b in graph.find_modules_directly_imported_by(a)]
    rows, columns = zip(*edges, strict=True)
    matrix = csr_array((np.ones(len(edges)), (rows, columns)), shape=(len(modules), len(modules)))
    _, component = connected_components(matrix, connection="strong")
    members = [{modules[i].removeprefix("residua.") for i in np.flatnonzero(component == c)} for c in set(component)]
    assert {frozenset(cycle) for cycle in members if len(cycle) > 1} == CYCLES


def test_no_cycle_of_modules_in_plans(graph):
    modules = {name for name in graph.modules if name.startswith("residua.plans.")}
    needs = {name: graph.find_modules_directly_imported_by(name) & modules for name in modules}
    TopologicalSorter(needs).prepare()  # says so, if there is one


def test_no_two_packages_of_plans_import_each_other(graph):
    pairs = set(_package_pairs(graph))
    assert not {pair for pair in pairs if pair[::-1] in pairs}


def _package_pairs(graph: grimp.ImportGraph) -> Iterator[tuple[str, str]]:
    packages = {path.parent.name for path in (ROOT / "plans").glob("*/__init__.py")}
    for name in graph.modules:
        for other in graph.find_modules_directly_imported_by(name):
            homes = [part.split(".")[2] if part.startswith("residua.plans.") else "" for part in (name, other)]
            if homes[0] != homes[1] and set(homes) <= packages:
                yield homes[0], homes[1]


def test_no_module_is_too_long():
    long = {str(path.relative_to(ROOT)): len(path.read_text().splitlines()) for path in ROOT.rglob("*.py")}
    assert {name: lines for name, lines in long.items() if lines > LARGEST} == {}


def test_no_class_is_defined_twice():
    homes: dict[str, list[str]] = {}
    for path in ROOT.rglob("*.py"):
        for name in re.findall(r"^class (\w+)", path.read_text(), re.MULTILINE):
            homes.setdefault(name, []).append(str(path.relative_to(ROOT)))
    assert {name: files for name, files in homes.items() if len(files) > 1} == {}


def test_importing_loads_no_library_before_it_is_needed():
    heavy = "{'numpy', 'scipy', 'numba', 'duckdb', 'pyarrow', 'flint'}"
    loaded = f"import sys, residua; print(sorted({heavy} & set(sys.modules)))"
    asked = "import sys, residua as rs; rs.marginals(rs.Domain.of_sizes([2]), ways=1)"
    asked += f"; print(sorted(({heavy} - {{'numpy'}}) & set(sys.modules)))"
    for script in (loaded, asked):
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        assert done.stdout == "[]\n"


def test_planning_marginals_loads_no_compiler():
    script = "import sys, residua as rs; rs.plan(rs.marginals(rs.Domain.of_sizes([2, 3]), ways=1), rs.ZCDP(1))"
    script += "; print('numba' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_loops_are_compiled_where_no_folder_can_keep_them():
    loads = re.compile(r"^\s*(import|from) numba|load\(.numba", re.MULTILINE)
    using = [path for path in ROOT.rglob("*.py") if loads.search(path.read_text())]
    assert [path.name for path in using] == ["machine.py"]
    script = "import numba.core.caching as caching; caching.CacheImpl._locator_classes = []\n"
    script += "from importlib import import_module\n"
    for path in [*ROOT.rglob("*kernel*.py"), ROOT / "noise" / "table.py"]:
        module = ".".join(path.relative_to(ROOT.parent).with_suffix("").parts)
        script += f"loops = [one for one in vars(import_module('{module}')).values() if hasattr(one, '_compiled')]\n"
        script += "assert loops\n"
    subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)


def test_importing_residua_takes_less_than_a_twentieth_of_a_second():
    """Processor time of the import alone, once in ten times: whatever else the machine does."""
    code = "import time; start = time.process_time(); import residua; print(time.process_time() - start)"
    runs = (subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True) for _ in range(10))
    assert any(float(run.stdout) < 0.05 for run in runs)
