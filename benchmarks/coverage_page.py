"""What the benchmark of coverage writes: a file of every row, and the table of `docs/uncertainty.md` made from it."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import NormalDist

from benchmarks.coverage_held import SIZES

DOCS = Path(__file__).parent.parent / "docs"
FILE, PAGE = DOCS / "_static" / "coverage.csv", DOCS / "uncertainty.md"
COLUMNS = ("group", "number", "form", "noise", "after", "data", "size", "cells", "held", "error", "width", "releases")
PROMISED = 95.0
UNPROMISED = "as if"  # what is shown so that nobody does it
BEGIN, END = "<!-- written by python -m benchmarks.coverage -->", "<!-- end of what is written -->"


def read() -> list[dict[str, str]]:
    with FILE.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def write() -> None:
    """The page, from the file."""
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(text[: text.index(BEGIN)] + written(read()) + text[text.index(END) + len(END) :], encoding="utf-8")


def written(rows: Sequence[dict[str, str]]) -> str:
    """What stands between the marks, and the marks."""
    return f"{BEGIN}\n\n{page(rows)}\n\n{END}"


def page(rows: Sequence[dict[str, str]]) -> str:
    """The table, a line for each number, form, noise and post-processing, and what follows from all rows."""
    own = _widths(rows)
    lines = ["| number | form, noise | after | " + " | ".join(SIZES) + " | plans and data sets, releases |"]
    lines.append("|" + "---|" * (4 + len(SIZES)))
    every: dict[tuple[str, ...], list[dict[str, str]]] = defaultdict(list)
    for row in rows:
        every[row["number"], _form(row), row["after"] or "as released"].append(row)
    for words, of in every.items():
        figures = [_figure([row for row in of if row["size"] == size], own) for size in SIZES]
        cases = len({(row["form"], row["noise"], row["data"]) for row in of})
        releases = " or ".join(f"{n:,}" for n in sorted({int(row["releases"]) for row in of}))
        lines.append("| " + " | ".join([*words, *figures, f"{cases}, {releases}"]) + " |")
    return "\n".join([verdict(rows), "", *lines])


def _form(row: dict[str, str]) -> str:
    """Quoted numbers, of which there are many, are shown for all forms together."""
    return f"{'all forms' if row['group'].startswith(('quoted', 'lists')) else row['form']}, {row['noise']}"


def _widths(rows: Sequence[dict[str, str]]) -> dict[tuple[str, ...], float]:
    """Of the release's own intervals cut at 0, by form, noise, data and size."""
    cut = [row for row in rows if row["number"] == "cell" and row["after"] == "own, cut at 0"]
    return {(row["form"], row["noise"], row["data"], row["size"]): float(row["width"]) for row in cut}


def _figure(rows: Sequence[dict[str, str]], own: dict[tuple[str, ...], float]) -> str:
    """Of all data sets: how many of 100 held, weighted by cells, its standard error, and the ratio of widths."""
    if not rows:
        return ""
    cells = [float(row["cells"]) for row in rows]
    held = sum(n * float(row["held"]) for n, row in zip(cells, rows, strict=True)) / sum(cells)
    error = sum((n * float(row["error"])) ** 2 for n, row in zip(cells, rows, strict=True)) ** 0.5 / sum(cells)
    places = [(row["form"], row["noise"], row["data"], row["size"]) for row in rows]
    ratios = [float(row["width"]) / own[at] for row, at in zip(rows, places, strict=True) if own.get(at)]
    wide = (
        f" · {sum(ratios) / len(ratios):.2f}"
        if ratios and rows[0]["number"] == "cell" and rows[0]["after"] != "change"
        else ""
    )
    return f"{held:.1f} ± {error:.2f}{wide}"


def verdict(rows: Sequence[dict[str, str]]) -> str:
    """The least figures, and how many are below what is promised by more than chance explains."""
    rows = [row for row in rows if UNPROMISED not in row["after"]]
    unit = NormalDist()
    apart = [(float(row["held"]) - PROMISED) / max(float(row["error"]), 0.01) for row in rows]
    limit = -unit.inv_cdf(1 - 0.01 / len(rows))
    low = [row for row, z in zip(rows, apart, strict=True) if z < limit]
    least = min(rows, key=lambda row: float(row["held"]))
    where = _named(least).rpartition(":")[0]
    said = (
        f"{len(rows):,} figures in all ([every row](_static/coverage.csv)). The least is {float(least['held']):.1f} %, "
    )
    said += f"with a standard error of {float(least['error']):.2f} ({where}). Below {PROMISED:g} % by more than "
    said += f"{-limit:.1f} standard errors, which chance does to one of so many figures once in a hundred runs, "
    said += "is none" if not low else f"are {len(low)}"
    return said + (": " + "; ".join(map(_named, low)) if low else "") + ". " + _of_small(rows)


def _of_small(rows: Sequence[dict[str, str]]) -> str:
    """Whether zeros and numbers below five hold less than is promised, one by one and together."""
    small = [row for row in rows if row["size"] in list(SIZES)[:2]]
    apart = min((float(row["held"]) - PROMISED) / max(float(row["error"]), 0.01) for row in small)
    by_chance = -NormalDist().inv_cdf(1 - 1 / len(small))
    together = defaultdict(list)
    for row in small:
        together[row["number"], row["after"] or "as released"].append(row)
    figures = {words: _figure(of, {}) for words, of in together.items()}
    least = min(figures, key=lambda words: float(figures[words].split()[0]))
    return (
        f"Of zeros and numbers below five there are {len(small):,} figures, the lowest {-apart:.1f} standard errors "
        f"below {PROMISED:g} %; of so many that are exact, the lowest is about {-by_chance:.1f} below. Over all plans "
        f"and data sets the least that a kind of number has is {figures[least]} ({', '.join(least)})."
    )


def _named(row: dict[str, str]) -> str:
    words = [row[name] for name in ("number", "form", "noise", "after", "data", "size") if row[name]]
    return f"{', '.join(words)}: {float(row['held']):.1f}"
