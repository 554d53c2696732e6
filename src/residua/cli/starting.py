"""How one begins: the demonstration on bundled data, and a first specification from the columns of a file."""

from __future__ import annotations

import json
import shutil
from itertools import count
from pathlib import Path

from residua.cli.show import command_name, out, print_table
from residua.cli.sources import refuse_credentials
from residua.cli.spec import read_spec
from residua.cli.steps import run_release
from residua.demo_data import demo_folder
from residua.errors import FileError, SpecError
from residua.files import write_atomically
from residua.source import source_of
from residua.source.uris import is_uri

_SHOWN = (["sex"], ["sex", "income"], ["education"])
_HEAD = """\
# A specification for residua. Complete the domain below, then run: residua plan {spec}
#
# WARNING: what each column may hold must come from public knowledge (a questionnaire, a code list, a law), never
# from the data: a domain learned from the data reveals who is in it.

[source]
path = {path}            # CSV, Parquet, Feather, JSON lines; a glob, a list, a folder; s3://…; relative to this file
# delimiter = ";"        # of delimited text, if it is not a comma (or, in .tsv, a tab)
# query = "SELECT …"     # one SELECT over the table `data`, if the records are not as you want them
# weight = "n"           # a column of counts, if the data is aggregated already
# person = "id"          # the column that says whose each record is, if people have several; see [privacy] records

[privacy]
rho = 0.5                # or mu = 1.0, or epsilon = 4.9 with delta = 1e-6
# records = 1            # the most records one person has; with person above, the most of each that are counted

[ledger]
path = {ledger}          # one ledger per population; it is debited before the data is read
# rho = 1.0              # the whole budget of the dataset, fixed when the ledger is made

# [objective]
# minimise = "max"       # the largest variance; "total" (usual without targets), "largest" with count = 10, or
#                        # "p-norm" with p = 2

[[workload]]
ways = [1, 2]            # every column's own table, and all pairs
# [[workload]]
# sets = [[{first}]]     # single tables; weight = 2.0 makes them matter twice as much
# [[workload]]
# prefixes = {first}     # or ranges, or hierarchy (every level): along one column, by = ["…"] crossed with others
# stddev = 10            # a target for each cell of an entry (or margin = 20: within 20, 95 times in 100); give each
#                        # [[workload]] one and leave [privacy] rho out, and residua finds the least privacy needed

# Each column you want in one of these ways; delete the others:
#   values = ["no", "yes"]                  the categories (text, all whole numbers, or true and false)
#   values = {{ file = "codes.csv", column = "code" }}    from a code list; or a text file, one value per line
#   low = 0, high = 120                     every whole number between (two lines)
#   edges = [0, 18, 65, inf]                bins, closed on the left; labels = ["child", "adult", "old"]
#   first = 2024-01-01, last = 2024-12-31   days (two lines); unit = "month"; levels = ["month", "quarter", "year"]
#   size = 10                               codes 0 to 9
#   levels = {{ band = [0, 18, 65, 120] }}    groups of the values, for [[workload]] hierarchy = "…"
#   codes = {{ file = "blocks.csv", levels = ["tract", "county"] }}    a long code list with a column for each level
# unknown = "error" | "other" | "drop"      a value outside the domain: stop, count in "(other)", or leave out
# missing = "error" | "other" | "drop"      an absent value
# expression = "…"                          SQL over the columns of one record, instead of a column of this name
"""


def run_demo(folder: Path | None) -> None:
    """Copies the bundled data and specification into a folder, releases there, and shows a few tables."""
    names = (Path("residua-demo" if number == 1 else f"residua-demo-{number}") for number in count(1))
    target = folder or next(path for path in names if not path.exists())
    try:
        target.mkdir(parents=True)
        for name in ("adult.toml", "adult.parquet", "ATTRIBUTION.md"):
            shutil.copyfile(demo_folder() / name, target / name)
    except OSError as problem:
        raise FileError(
            f"cannot write the demo folder {str(target)!r}: {problem.strerror}; choose another with --out."
        ) from None
    out.print("Adult data (UCI, CC BY 4.0): 32,561 people, 13 attributes. All tables of up to 2 attributes.")
    out.print()
    release = run_release(read_spec(target / "adult.toml"), target / "release")
    for attributes in _SHOWN:
        out.print()
        print_table(release.table(attributes))
    age = release.count({"age": range(18, 66), "sex": "Female"})
    interval = f"{age.lower:,.0f} to {age.upper:,.0f}"
    out.print(f"\nWomen aged 18 to 65: {age.estimate:,.0f} (standard deviation {age.stddev:,.0f}; 95 %: {interval})")
    command = command_name()
    out.print("\nWhere to look next:")
    for line in (
        f"{command} table {target}/release age sex          any table of up to 2 attributes, with error bars",
        f"{command} table {target}/release race --csv       the same as CSV",
        f"{command} mean {target}/release age --by sex      what people quote: also share, median, quantile, top",
        f"{command} report {target}/release                 one page for people, with pictures",
        f"{command} project {target}/release --out {target}/projected   no negative counts, tables that could be true",
        f"{command} ledger {target}/adult.ledger            what was spent, and what is left",
        f"{command} plan {target}/adult.toml                what was known before any data was read",
        f"{target}/adult.toml                             the specification: change it and release again",
        f"{target}/release/PRIVACY.md                     the privacy statement",
    ):
        out.print("  " + line)


def write_draft(data: str, path: Path) -> None:
    """Drafts a specification with a table for each column of a file; columns without a name are left out.

    Raises:
        SourceError: the data cannot be read, or has no usable header.
        SpecError: no column has a name.
        FileError: the specification exists or cannot be written.
    """
    if path.exists():
        raise FileError(f"out={str(path)!r} exists already; choose another name with --out.")
    refuse_credentials({"path": data})
    names = _header(data)
    head = _HEAD.format(
        spec=path.name,
        path=_quoted(_written(data, path)),
        ledger=_quoted(f"{Path(data).stem}.ledger"),
        first=_quoted(names[0]),
    )
    todo = "values = []  # declare what it may hold, or delete these two lines"
    tables = "".join(f"\n[domain.{_quoted(name)}]\n{todo}\n" for name in names)
    write_atomically(path, (head + tables).encode())
    out.print(f"Drafted {path} with {len(names)} columns.")
    out.print("Declare what each may hold, from public knowledge and never from the data, then run:")
    out.print(f"  residua plan {path}")


def _written(data: str, path: Path) -> str:
    """How a specification at `path` names the data."""
    if is_uri(data):
        return data
    place = Path(data)
    if place.parent == path.parent:
        return place.name
    return str(place.absolute())


def _header(data: str) -> tuple[str, ...]:
    """The names as `residua release` will read them."""
    names = source_of(data).columns()
    if not names:
        raise SpecError(f"{data!r} has no column with a name; name them in the first line.")
    return tuple(name for name in names if not name.startswith("__index_level_")) or names  # pandas's index in Parquet


def _quoted(text: str) -> str:
    """As a string of TOML: JSON's, except that TOML knows no surrogate pairs and no bare DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
