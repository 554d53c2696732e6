"""A first specification from the header of a CSV file. Only names are taken: values must come from elsewhere."""

from __future__ import annotations

import csv
import json
from pathlib import Path

from residua.cli.show import out
from residua.errors import FileError, SpecError
from residua.files import write_atomically

_HEAD = """\
# A specification for residua. Complete the domain below, then run: residua plan {spec}
#
# WARNING: what each column may hold must come from public knowledge (a questionnaire, a code list, a law), never
# from the data: a domain learned from the data reveals who is in it.

[source]
path = {path}            # CSV or Parquet, a glob, or a list of files; relative to this file
# weight = "n"           # a column of counts, if the data is aggregated already

[privacy]
rho = 0.5                # or mu = 1.0, or epsilon = 4.9 with delta = 1e-6
# records = 1            # the most records one person has

[ledger]
path = {ledger}          # one ledger a dataset; it is debited before the data is read
# rho = 1.0              # the whole budget of the dataset, fixed when the ledger is made

[objective]
minimise = "total"       # total variance; or "max", or "p-norm" with p = 2

[[workload]]
ways = [1, 2]            # every column's own table, and all pairs
# [[workload]]
# sets = [[{first}]]     # single tables; weight = 2.0 makes them matter twice as much
# stddev = 10            # a target for each cell, instead of [privacy]: residua finds the least privacy needed

# Each column in one of these ways:
#   values = ["no", "yes"]                  the categories (text, or all whole numbers)
#   low = 0, high = 120                     every whole number between (two lines)
#   edges = [0, 18, 65, inf]                bins, closed on the left; labels = ["child", "adult", "old"]
#   size = 10                               codes 0 to 9
# unknown = "error" | "other" | "drop"      a value outside the domain: stop, count in "(other)", or leave out
# missing = "error" | "other" | "drop"      an absent value
"""


def write_draft(data: Path, path: Path) -> None:
    """Writes a specification with a table for each column of a CSV file.

    Raises:
        FileError: the data cannot be read, or the specification exists.
        SpecError: the file has no usable header.
    """
    if path.exists():
        raise FileError(f"out={str(path)!r} exists already; choose another name with --out.")
    names = _header(data)
    relative = data if data.is_absolute() or data.parent == path.parent else data.absolute()
    shown = relative.name if data.parent == path.parent else str(relative)
    head = _HEAD.format(
        spec=path.name, path=json.dumps(shown), ledger=json.dumps(f"{data.stem}.ledger"), first=json.dumps(names[0])
    )
    tables = "".join(f"\n[domain.{json.dumps(name)}]\nvalues = []  # to be declared\n" for name in names)
    write_atomically(path, (head + tables).encode())
    out.print(f"Drafted {path} with {len(names)} columns.", markup=False)
    out.print("Declare what each may hold, from public knowledge and never from the data, then run:", markup=False)
    out.print(f"  residua plan {path}", markup=False)


def _header(data: Path) -> list[str]:
    try:
        with data.open(newline="", encoding="utf-8-sig") as file:
            names = next(csv.reader(file), [])
    except OSError as problem:
        raise FileError(f"cannot read {str(data)!r}: {problem.strerror}.") from None
    except (UnicodeDecodeError, csv.Error):
        raise SpecError(f"{str(data)!r} is not a CSV file with a header in UTF-8.") from None
    if not names or any(not name.strip() for name in names) or len(set(names)) < len(names):
        raise SpecError(f"{str(data)!r} has no header of distinct names; give every column a name.")
    return names
