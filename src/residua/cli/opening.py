"""What a path holds: a release, a projection, estimates, a saved plan, a specification, facts. Only that is loaded."""

from __future__ import annotations

import io
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import residua as rs
from residua import cli
from residua.errors import FileError, PlanError
from residua.files import MOST_PLAN, read_regular
from residua.folders import require_free
from residua.machine import pyarrow as pa

if TYPE_CHECKING:
    from residua.plans.contract import Plan
    from residua.release import Answered

_PLAN = b'{"format":"residua plan"'  # how every saved plan begins
_MADE = {"projection.json": "projection", "estimates.json": "estimates"}  # from a release


def kind_of(folder: Path) -> str:
    """What a folder holds by the names of its files: a projection, estimates, or else a release."""
    return next((kind for name, kind in _MADE.items() if (folder / name).is_file()), "release")


def load_published(folder: Path, known: Sequence[Path] | None = None) -> Answered | rs.Projected | rs.Estimated:
    """Reads a release, beside the facts of files if some are named, a projection or estimates.

    Raises:
        PlanError: facts beside numbers that are no release.
    """
    if known:
        if kind_of(folder) != "release":
            raise PlanError("--known is for releases; residua project and estimate take known tables of their own.")
        return rs.Release.load(folder).given(read_facts(known))
    match kind_of(folder):
        case "projection":
            return rs.Projected.load(folder)
        case "estimates":
            return rs.Estimated.load(folder)
    return rs.Release.load(folder)


def plan_at(path: Path) -> Plan:
    """A saved plan, or the best one for a specification."""
    return rs.Plan.load(path) if is_plan(path) else cli.planning.make_plan(cli.spec.read_spec(path))


def require_plan_or_free(path: Path) -> None:
    """Refuses to write a plan over anything that is not a plan: the ledger, the data, the specification.

    Raises:
        FileError: the file is something else, or the folder around it is missing or closed to us.
    """
    if not is_plan(path) or path.is_symlink():
        taken = "exists and is not a plan of residua; choose another name, only a plan is replaced."
        require_free(path, argument="save", taken=taken)


def is_plan(path: Path) -> bool:
    """Whether a file is a saved plan, by how it begins."""
    try:
        with path.open("rb") if path.is_file() else io.BytesIO() as file:
            return file.read(len(_PLAN)) == _PLAN
    except OSError:
        return False


def _listed(path: Path) -> dict[Any, Any]:
    """The `[facts]` of a TOML file."""
    try:
        facts = tomllib.loads(read_regular(path, most=MOST_PLAN, follow=True).decode()).get("facts")
    except (ValueError, RecursionError) as problem:
        raise PlanError(f"--known {str(path)!r} is not TOML: {problem}.") from None
    if not isinstance(facts, dict) or not facts:
        raise PlanError(f"--known {str(path)!r} has no [facts]; write one, such as [facts] total = 32561.")
    return {() if name == "total" else name: number for name, number in facts.items()}


def read_facts(paths: Sequence[Path]) -> dict[Any, Any]:
    """Public tables from files: all columns but `count` are attributes; of TOML files, their `[facts]`:

    [facts]
    total = 32561                                    the number of records
    sex = { Female = 10771 }                         label = count, of all values or some
    "county.state" = { CA = 812 }                    groups of a level
    "age >= 65 and sex = 'Male'" = 843               a condition in SQL

    Raises:
        PlanError: files that hold no facts, or the same twice.
    """
    facts: dict[Any, Any] = {}
    for path in paths:
        if path.suffix == ".toml":
            facts |= _listed(path)
            continue
        table = _read(path)
        names = tuple(name for name in table.column_names if name != "count")
        if "count" not in table.column_names:
            raise PlanError(f"--known {str(path)!r} has no column 'count'; it has {', '.join(table.column_names)}.")
        if names in facts:
            raise PlanError(f"--known {str(path)!r}: the table on {', '.join(names)} is given twice; give it once.")
        facts[names] = table
    return facts


def _read(path: Path) -> Any:
    try:
        if path.suffix == ".parquet":
            return pa.parquet.read_table(path)
        with path.open("rb") as file, pa.csv.open_csv(file) as reader:
            names = reader.schema.names
        # Labels as they are written: 007 is not 7.
        types = {name: pa.string() for name in names if name != "count"}
        options = pa.csv.ConvertOptions(column_types=types, strings_can_be_null=False)
        return pa.csv.read_csv(path, convert_options=options)
    except OSError as problem:
        raise FileError(f"cannot read --known {str(path)!r}: {problem.strerror or problem}.") from None
    except pa.ArrowInvalid as problem:
        raise FileError(f"--known {str(path)!r} is not a table: {problem}; correct it.") from None
