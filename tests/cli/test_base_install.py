"""`pip install residua` without an extra: what plans and reads works, and all else says how to install what it needs.

Modules are hidden from a process of its own. What is here runs the command and Python as somebody without them would.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from residua.machine import MEASURING
from tests.cli.command import inside, released

HIDDEN = [*MEASURING, "llvmlite", "pandas", "polars"]
BASE = """
import contextlib, io, json, sys
hidden, commands, script = json.loads(sys.argv[1])
for name in hidden:
    sys.modules[name] = None
from residua.cli.main import main
import residua as rs
domain = rs.Domain({"age": rs.Integers(0, 3), "sex": ["F", "M"]})
ended = []
for args in commands:
    out, err, code = io.StringIO(), io.StringIO(), 0
    sys.argv = ["residua", *args]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
    ended.append([code, out.getvalue(), err.getvalue()])
for line in script:
    try:
        ended.append([0, str(eval(line)), ""])
    except Exception as problem:
        ended.append([2, "", str(problem)])
print(json.dumps(ended))
"""
REMEDY = 'pip install "residua[measure]"'


def base(
    folder: Path, commands: list[list[str]], script: Sequence[str] = (), hidden: Sequence[str] = HIDDEN
) -> list[tuple[int, str, str]]:
    """How commands and expressions end in one process from which libraries are hidden."""
    asked = [sys.executable, "-c", BASE, json.dumps([hidden, commands, script])]
    done = subprocess.run(asked, cwd=folder, capture_output=True, text=True, check=True)
    return [tuple(each) for each in json.loads(done.stdout)]


WORKS: list[list[str]] = [
    ["plan", "spec.toml"],
    ["plan", "spec.toml", "--margin", "25", "--save", "plan.json"],
    ["report", "plan.json", "--out", "plan.html"],
    ["table", "out", "age"],
    ["table", "out", "age", "sex", "--csv"],
    ["count", "out", "sex = 'F' and age >= 2"],
    ["mean", "out", "age", "--by", "sex"],
    ["share", "out", "sex=F"],
    ["median", "out", "age"],
    ["report", "out", "--out", "report.html"],
    ["tables", "out", "--out", "csv"],
    ["tables", "out", "--out", "px", "--format", "px"],
    ["tables", "out", "--out", "jsonstat", "--format", "jsonstat"],
    ["verify", "out", "--ledger", "people.ledger"],
    ["ledger", "show", "people.ledger"],
    ["doctor"],
    ["init", "people.csv", "--out", "drafted.toml"],
    ["init", "office.csv", "--out", "office.toml"],
    ["init", "wide.tsv", "--out", "wide.toml"],
]
PLANS = [
    "rs.plan(rs.marginals(domain, ways=[1, 2]), rs.ApproxDP(1.0, 1e-6))",
    "rs.plan(rs.marginals(domain, ways=[1, 2]), rs.PureDP(1.0))",
    "rs.plan(rs.prefixes(domain, 'age') + rs.marginals(domain, ways=2), rs.ZCDP(0.5))",
    "rs.plan(rs.ranges(domain, 'age'), rs.ZCDP(0.5))",
    "rs.plan(rs.explicit(domain, [[1, 1, 0, 0, 0, 0, 0, 0], [0, 0, 1, 0, 0, 0, 0, 1]]), rs.ZCDP(0.5))",
    "rs.Release.load('out').table(['age'])._repr_html_()",
    "rs.Release.load('out').rounded().table(['age'])",
]
RELEASE = ["release", "spec.toml", "--out", "again"]
LONG = 'rs.plan(rs.prefixes(rs.Domain({"day": rs.Integers(0, 199)}), "day"), rs.ZCDP(1))'
REFUSED: list[tuple[Any, str]] = [
    (RELEASE, "records, "),
    (["discover", "spec.toml", "sex", "--rho", "0.1", "--delta", "1e-9"], "records, "),
    (["tables", "out", "--out", "again", "--format", "parquet"], "tables as Arrow, Parquet or SDMX, "),
    (["project", "out", "--out", "again"], "projecting, "),
    (["count", "out", "sex = 'F' or age >= 2"], "(dates, OR, mistyped names)"),
    (["demo", "--out", "again"], "measuring, "),
]


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[tuple[int, str, str]]]:
    """The folder of a release, and how all that is asked below ends in one process."""
    folder = tmp_path_factory.mktemp("base")
    released(folder)
    (folder / "office.csv").write_text("Größe;Tag\n1,5;31.01.2024\n2,25;13.02.2024\n", encoding="utf-8-sig")
    (folder / "wide.tsv").write_text("Größe\tTag\n1\t2024-01-31\n2\t2024-02-13\n", encoding="utf-16")
    (folder / "before").write_bytes((folder / "people.ledger").read_bytes())
    return folder, base(folder, WORKS + [args for args, _ in REFUSED], [*PLANS, LONG])


def test_what_plans_and_reads_needs_no_extra(ended: tuple[Path, list[tuple[int, str, str]]]) -> None:
    folder, told = ended
    works = told[: len(WORKS)] + told[-1 - len(PLANS) : -1]
    for asked, (code, out, err) in zip([*WORKS, *PLANS], works, strict=True):
        assert (code, err) == (0, ""), (asked, err)
        assert out or "--out" in asked, asked
    inside("tables", "out", "--out", "compared", cwd=folder)
    for file in (folder / "compared").glob("*.csv"):  # as with PyArrow
        assert file.read_bytes() == (folder / "csv" / file.name).read_bytes()
    for data, drafted in (("people.csv", "drafted.toml"), ("office.csv", "office.toml"), ("wide.tsv", "wide.toml")):
        (folder / "arrow").mkdir(exist_ok=True)
        (folder / "arrow" / data).write_bytes((folder / data).read_bytes())
        inside("init", data, "--out", drafted, cwd=folder / "arrow")
        assert (folder / "arrow" / drafted).read_bytes() == (folder / drafted).read_bytes()


def test_what_needs_the_extra_says_so_in_a_sentence_and_nothing_is_spent(
    ended: tuple[Path, list[tuple[int, str, str]]],
) -> None:
    folder, told = ended
    told = told[len(WORKS) : -1 - len(PLANS)] + told[-1:] + base(folder, [RELEASE], hidden=["numba", "llvmlite"])
    refused = [*REFUSED, (LONG, "planning along more than 128 values, "), (RELEASE, "measuring, ")]
    for (asked, needs), (code, out, err) in zip(refused, told, strict=True):
        assert (code, out) == (2 if asked == LONG else 5, ""), (asked, err)
        assert needs in err, (asked, err)
        assert err.strip().endswith(f"which is not installed; run: {REMEDY}"), (asked, err)
    assert not (folder / "again").exists()
    assert (folder / "people.ledger").read_bytes() == (folder / "before").read_bytes()
