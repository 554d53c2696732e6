"""How one begins: the demonstration on bundled data, and a first specification from the columns of a file."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from itertools import count
from pathlib import Path
from string import Template
from typing import Any

import tomli_w

from residua.cli.show import command_name, out, print_table, print_written
from residua.cli.sources import refuse_credentials
from residua.cli.spec import read_spec
from residua.cli.steps import create_ledger, run_release
from residua.demo_data import demo_folder
from residua.domain.described import described_columns, is_declared
from residua.errors import FileError, SpecError
from residua.files import is_uri, write_atomically
from residua.machine import load
from residua.source import source_of
from residua.source.records import Draft

_TODO = "values = []  # declare what it may hold{}, or delete these two lines"
_HINTS = {
    "": "",
    "text": "",
    "whole numbers": " (whole numbers: low = … and high = …)",
    "numbers": " (numbers: edges = […])",
    "dates": " (dates: first = … and last = …)",
}
_USUAL = {"delimiter": ";", "encoding": "cp1252", "decimal": ",", "date_format": "%d.%m.%Y"}  # what is often to be said
_MEANT = {
    "delimiter": "of delimited text, if it is not a comma (or, in .tsv, a tab)",
    "encoding": "if it is not UTF-8",
    "decimal": "1.234,5 is 1234.5",
    "sheet": "of the workbook",
    "date_format": "day %d, month %m (or its name, %b), year %Y (or %y); a list of several",
}
_SHOWN = (["sex"], ["sex", "income"], ["education"])


def run_demo(folder: Path | None) -> None:
    """Copies the bundled data and specification into a folder, releases there, and shows a few tables."""
    for library in ("numba", "pyarrow"):  # what is missing is said before anything is written
        load(library)
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
    spec = read_spec(target / "adult.toml")
    create_ledger(spec)
    release = run_release(spec, target / "release", None, show_values=False, on_executors=False, as_json=False)
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
        f"{command} project {target}/release --out {target}/projected   no negative counts, tables that agree",
        f"{command} ledger {target}/adult.ledger            what was spent, and what is left",
        f"{command} audit {target}/release                  its price, and whether the guarantee covers it",
        f"{command} plan {target}/adult.toml                what was known before any data was read",
        f"{target}/adult.toml                             the specification: change it and release again",
        f"{target}/release/PRIVACY.md                     the privacy statement",
    ):
        out.print("  " + line)


def write_draft(data: str, path: Path, described: Path | None = None) -> None:
    """Drafts a specification with a table for each column of a file; columns without a name are left out.

    Args:
        data: the file.
        path: the specification.
        described: a file that describes the columns: a Data Package, a DDI codebook, an SDMX structure.

    Raises:
        SourceError: the data cannot be read, or has no usable header.
        SpecError: no column has a name.
        FileError: the specification exists or cannot be written.
    """
    if path.exists():
        raise FileError(f"out={str(path)!r} exists already; choose another name with --out.")
    refuse_credentials({"path": data})
    draft = _drafted(data)
    names = tuple(draft.kinds)
    columns = {} if described is None else described_columns(described)
    draft = replace(draft, declared={**draft.declared, **{name: columns[name] for name in names if name in columns}})
    head = Template((files("residua.cli") / "draft.txt").read_text("utf-8")).substitute(
        spec=path.name,
        path=_quoted(_written(data, path)),
        ledger=_quoted(f"{Path(data).stem}.ledger"),
        first=_quoted(names[0]),
        notation=_notation(draft),
    )
    tables = "".join(_table(name, kind, draft.declared.get(name, {})) for name, kind in draft.kinds.items())
    write_atomically(path, (head + tables).encode())
    print_written(path, verb="Drafted", rest=f" with {len(names)} columns.")
    if draft.notation:
        said = ", ".join(f"{name} = {_written_as(value)}" for name, value in draft.notation.items())
        out.print(f"Recognised from the head of the file: {said}. Correct it under [source] where it is wrong.")
    if declared := [name for name, settings in draft.declared.items() if is_declared(settings)]:
        where = "The labels in the file declare" if described is None else f"{described} declares"
        out.print(f"{where} {len(declared)} of them; check that this is the public code list, and not from the data.")
    if absent := [name for name in columns if name not in draft.kinds]:
        out.print(f"{described} describes {len(absent)} that the data does not have: {', '.join(absent[:8])}.")
    out.print("Declare what each may hold, from public knowledge and never from the data, then run:")
    out.print(f"  residua plan {path}")


def _table(name: str, kind: str, declared: Mapping[str, Any]) -> str:
    """The table of a column: what its file declares, or what is left to do."""
    todo = "" if is_declared(declared) else _TODO.format(_HINTS[kind]) + "\n"
    said = tomli_w.dumps({"domain": {name: declared}}).partition("\n")[2] if declared else ""
    return f"\n[domain.{_quoted(name)}]\n{todo}{said}"


def _written(data: str, path: Path) -> str:
    """How a specification at `path` names the data."""
    if is_uri(data):
        return data
    place = Path(data)
    return place.name if place.parent == path.parent else str(place.absolute())


def _drafted(data: str) -> Draft:
    """The names as `residua release` will read them, and what else may be said."""
    draft = source_of(data).drafted()
    if not draft.kinds:
        raise SpecError(f"{data!r} has no column with a name; name them in the first line.")
    own = {name: kind for name, kind in draft.kinds.items() if not name.startswith("__index_level_")}  # of pandas
    return replace(draft, kinds=own or draft.kinds)


def _notation(draft: Draft) -> str:
    """How the file is written, as lines of [source]; what is usual is shown as a comment."""
    said = {**_USUAL, **draft.notation}
    lines = [f"{name} = {_written_as(value)}" for name, value in said.items()]
    return "\n".join(
        f"{'' if name in draft.notation else '# '}{line:<{24 - 2 * (name not in draft.notation)}} # {_MEANT[name]}"
        for name, line in zip(said, lines, strict=True)
    )


def _written_as(value: str | Sequence[str]) -> str:
    return _quoted(value) if isinstance(value, str) else f"[{', '.join(map(_quoted, value))}]"


def _quoted(text: str) -> str:
    """As a string of TOML: JSON's, except that TOML knows no surrogate pairs and no bare DEL."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
