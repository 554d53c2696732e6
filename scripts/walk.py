"""Prints the newcomer's walk: which modules one release passes, in the order in which functions are first entered.

The release is the first example of README.md, from the domain to a folder that is loaded again, with data from a CSV
file and from a frame. What importing runs does not count: all modules are imported before. A test holds that the walk
does not grow.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from types import FrameType

import pyarrow.parquet as parquet
from pyarrow import csv

import residua as rs
from residua.demo_data import demo_folder

ROOT = Path(rs.__file__).parent


def released(source: object, folder: str) -> None:
    """One release: declared, planned, measured, read, saved and loaded."""
    domain = rs.Domain(
        {"age": rs.Bins([17, 25, 35, 45, 55, 65, 91]), "sex": ["Female", "Male"], "income": ["<=50K", ">50K"]}
    )
    plan = rs.plan(rs.marginals(domain, ways=[1, 2]), rs.ZCDP(rho=0.5))
    release = rs.measure(plan, source, ledger=rs.Ledger(f"{folder}/adult.ledger", rs.ZCDP(rho=0.5)))
    release.table(["sex", "income"])
    release.save(f"{folder}/release")
    rs.Release.load(f"{folder}/release").table(["sex", "income"])


def walk(kind: str) -> list[str]:
    """The modules that a release of a "csv" file or a "frame" passes, as paths below `src/residua`, in order."""
    for module in walk_packages(rs.__path__, "residua."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
    entered: dict[str, None] = {}

    def enter(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_name not in ("<module>", "__getattr__"):  # names that are looked up
            entered[frame.f_code.co_filename] = None

    people = parquet.read_table(demo_folder() / "adult.parquet")
    with tempfile.TemporaryDirectory() as folder:
        csv.write_csv(people, f"{folder}/adult.csv")
        source = f"{folder}/adult.csv" if kind == "csv" else people.to_pandas()
        threading.setprofile(enter)
        sys.setprofile(enter)
        try:
            released(source, folder)
        finally:
            sys.setprofile(None)
            threading.setprofile(None)
    return [Path(name).relative_to(ROOT).as_posix() for name in entered if Path(name).is_relative_to(ROOT)]


if __name__ == "__main__":
    for kind in ("csv", "frame"):
        modules = walk(kind)
        print(f"A release of a {kind}: {len(modules)} modules", *modules, sep="\n  ")
