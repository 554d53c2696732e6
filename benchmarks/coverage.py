"""How often 95 % intervals hold the truth: every kind of number, form of plan, noise, post-processing and cell size.

`ADULT=adult-coded.csv python -m benchmarks.coverage` runs everything (some 100 CPU minutes), writes every row to
`docs/_static/coverage.csv` and the tables of `docs/uncertainty.md` from that file: no figure there is copied by hand.
`--only TEXT …` runs the groups whose names hold one of these texts, and replaces their rows; `--page` writes the page
from the file alone; `--releases N` is for trying it out.

Every release goes through the measuring step's own noise. A row is one kind of number on one plan of one data set. Its
figures are by the true count of the cell, or of the group that a share, mean or quantile is of: how many of 100
intervals held, and how wide they were on average. Cells of one release err together, so standard errors are those of
the releases' means: their number is what counts, not that of the cells. What is linear in the measurements is worked
out for all releases at once, and its first release is asked directly too and must agree.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Iterable

from benchmarks.coverage_cells import CELLS
from benchmarks.coverage_held import Row
from benchmarks.coverage_page import COLUMNS, FILE, read, verdict, write
from benchmarks.coverage_quoted import QUOTED
from benchmarks.coverage_samples import SAMPLES

GROUPS = {**QUOTED, **CELLS, **SAMPLES}


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--releases", type=int, default=2000)
    options.add_argument("--only", nargs="*", default=[], help="groups whose names hold one of these texts")
    options.add_argument("--page", action="store_true", help="write the page from the file, and run nothing")
    chosen = options.parse_args()
    for name, group in {} if chosen.page else GROUPS.items():
        if not chosen.only or any(text in name for text in chosen.only):
            began = time.process_time()
            rows = list(group(chosen.releases))
            _kept(name, rows)
            print(f"{name}: {len(rows)} rows, {time.process_time() - began:,.0f} CPU seconds", flush=True)
    write()
    print(verdict(read()))


def _kept(group: str, rows: Iterable[Row]) -> None:
    """The rows of a group take the place of those that the file has."""
    every = [row for row in (read() if FILE.exists() else []) if row["group"] != group]
    every += [dict(zip(COLUMNS, map(str, (group, *row, *figures)), strict=True)) for *row, held in rows
              for figures in held.figures()]  # fmt: skip
    place = {name: k for k, name in enumerate(GROUPS)}
    every.sort(key=lambda row: place.get(row["group"], len(place)))
    with FILE.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(every)


if __name__ == "__main__":
    main()
