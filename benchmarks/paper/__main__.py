"""`python -m benchmarks.paper residual-planner | fitness-for-use | … | all`: the tables and figures of a paper.

Writes one HTML page per paper, and every figure as SVG beside it. `--full` computes the rows that take long; `--data
brazil.npy` gives data that cannot be had from us (see each page); `--to` names the folder (build/papers).
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from benchmarks.paper import (
    common_mechanism,
    factorization_and_projection,
    fitness_for_use,
    matrix_mechanism,
    residual_planner,
)
from benchmarks.paper.page import page, summary
from benchmarks.paper.tables import Asked

PAPERS = {
    "residual-planner": residual_planner,
    "fitness-for-use": fitness_for_use,
    "common-mechanism": common_mechanism,
    "matrix-mechanism": matrix_mechanism,
    "factorization-and-projection": factorization_and_projection,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.paper", description=__doc__)
    parser.add_argument("paper", choices=[*PAPERS, "all"])
    parser.add_argument("--full", action="store_true", help="compute the rows that take long, too")
    parser.add_argument("--data", action="append", default=[], help="a file of data, such as brazil.npy")
    parser.add_argument("--to", type=Path, default=Path("build/papers"), help="folder of the pages")
    given = parser.parse_args()
    given.to.mkdir(parents=True, exist_ok=True)
    asked = Asked(given.full, tuple(given.data))
    for name in PAPERS if given.paper == "all" else [given.paper]:
        paper, start = PAPERS[name], time.process_time()
        tables = paper.tables(asked)
        drawings = paper.drawings(tables, asked)
        missing = [text for file, text in paper.MISSING.items() if asked.file(file) is None]
        (given.to / f"{name}.html").write_text(
            page(paper.TITLE, paper.ABOUT, tables, drawings, missing), encoding="utf-8"
        )
        for number, drawing in enumerate(drawings, start=1):
            (given.to / f"{name}-{number}.svg").write_text(drawing.svg + "\n", encoding="utf-8")
        print(f"{given.to / name}.html: {summary(tables)}; {len(drawings)} figures; "
              f"{time.process_time() - start:.0f} CPU seconds", flush=True)  # fmt: skip
        for table in tables:
            for line in table.unexplained():
                print(f"  not known: {line}")


if __name__ == "__main__":
    main()
