"""The page of what has to be trusted names the files of its import contract, all of them, and tests that exist."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from scripts.trust import CORE, ROOT, code_lines, lines_beside, parts

MOST, MOST_CORE = 8_000, 4_500  # code lines
PRICED_OR_MEASURED = re.compile(
    r" *(?:def|class) (added|batches|check|composed\w*|correlation|counted|integers|limited|piece|price[ds]?|profile|"
    r"record_costs|replaced|sampled|store|\w*Blocks|\w*Piece)\b"
)


def test_the_page_lists_the_files_of_the_contract_and_each_is_there():
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (listed,) = [each["source_modules"] for each in contracts if "docs/trust.md" in each["name"]]
    files = [file for part in parts().values() for file in part]
    modules = [".".join(file.relative_to(ROOT / "src").with_suffix("").parts) for file in files]
    assert sorted(modules) == sorted(listed)
    assert all(file.is_file() for file in files)
    assert 1_000 < sum(map(code_lines, files)) < MOST
    assert 1_000 < sum(code_lines(file) for name in CORE for file in parts()[name]) < MOST_CORE


def test_what_is_not_counted_of_a_trusted_file_neither_prices_nor_measures():
    files = [file for part in parts().values() for file in part]
    beside = []
    for file in files:
        source = file.read_text(encoding="utf-8")
        lines, uncounted = source.splitlines(), lines_beside(source)
        beside += [f"{file.name}: {lines[number - 1]}" for number in sorted(uncounted)]
    assert len(beside) > 500
    assert [line for line in beside if PRICED_OR_MEASURED.match(line.partition(": ")[2])] == []


def test_the_tests_that_the_page_names_are_there():
    named = re.findall(r"`tests/(\w+/test_\w+\.py)`", (ROOT / "docs" / "trust.md").read_text())
    assert len(named) > 10
    assert [name for name in named if not (Path(__file__).parent / name).is_file()] == []


def test_every_sampler_conversion_and_line_of_the_ledger_is_trusted():
    files = {file for part in parts().values() for file in part}
    there = [*(ROOT / "src/residua/noise").glob("*.py"), *(ROOT / "src/residua/measurement").glob("*.py")]
    assert {file for file in there if file.name != "__init__.py"} <= files
