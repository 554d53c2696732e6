"""Known facts in files: public tables, or the `[facts]` of a specification or of a TOML file of their own.

[facts]
total = 32561                                    the number of records
sex = { Female = 10771 }                         label = count, of all values or some
"county.state" = { CA = 812 }                    groups of a level
"age >= 65 and sex = 'Male'" = 843               a condition in SQL
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from residua.errors import FileError, PlanError
from residua.files import MOST_PLAN, read_regular


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
    """Public tables from files: all columns but `count` are attributes; of TOML files, their `[facts]`.

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
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    try:
        if path.suffix == ".parquet":
            return pyarrow.parquet.read_table(path)
        with path.open("rb") as file, pyarrow.csv.open_csv(file) as reader:
            names = reader.schema.names
        # Labels as they are written: 007 is not 7.
        types = {name: pa.string() for name in names if name != "count"}
        options = pyarrow.csv.ConvertOptions(column_types=types, strings_can_be_null=False)
        return pyarrow.csv.read_csv(path, convert_options=options)
    except OSError as problem:
        raise FileError(f"cannot read --known {str(path)!r}: {problem.strerror or problem}.") from None
    except pa.ArrowInvalid as problem:
        raise FileError(f"--known {str(path)!r} is not a table: {problem}; correct it.") from None
