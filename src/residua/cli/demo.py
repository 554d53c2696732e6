"""The demonstration: the bundled Adult data, all 1- and 2-way tables at rho = 0.5."""

from __future__ import annotations

import shutil
import sys
from itertools import count
from pathlib import Path

from residua.cli.show import out, print_table
from residua.cli.spec import read_spec
from residua.cli.steps import run_release
from residua.demo_data import demo_folder
from residua.errors import FileError

_SHOWN = (["sex"], ["sex", "income"], ["education"])


def run_demo(folder: Path | None) -> None:
    """Copies the bundled data and specification into a folder, releases there, and shows a few tables."""
    target = folder or next(path for path in _names() if not path.exists())
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
    command = "residua" if shutil.which("residua") else str(Path(sys.argv[0]))
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


def _names() -> list[Path]:
    numbered = (Path(f"residua-demo-{number}") for number in count(2))
    return [Path("residua-demo"), *(next(numbered) for _ in range(998))]
