"""The page of what has to be trusted names the files of its import contract, all of them, and tests that exist."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from scripts.trust import ROOT, code_lines, parts

MOST = 9_000  # code lines


def test_the_page_lists_the_files_of_the_contract_and_each_is_there():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (listed,) = [each["source_modules"] for each in contracts if "docs/trust.md" in each["name"]]
    files = [file for part in parts().values() for file in part]
    modules = [".".join(file.relative_to(ROOT / "src").with_suffix("").parts) for file in files]
    assert sorted(modules) == sorted(listed)
    assert all(file.is_file() for file in files)
    assert 1_000 < sum(map(code_lines, files)) < MOST


def test_the_tests_that_the_page_names_are_there():
    named = re.findall(r"`tests/(\w+/test_\w+\.py)`", (ROOT / "docs" / "trust.md").read_text())
    assert len(named) > 10
    assert [name for name in named if not (Path(__file__).parent / name).is_file()] == []


def test_every_sampler_conversion_and_line_of_the_ledger_is_trusted():
    files = {file for part in parts().values() for file in part}
    there = [*(ROOT / "src/residua/noise").glob("*.py"), *(ROOT / "src/residua/measurement").glob("*.py")]
    assert {file for file in there if file.name != "__init__.py"} <= files
