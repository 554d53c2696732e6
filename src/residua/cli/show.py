"""What the command prints: plans and tables for people, JSON for machines."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import typer
from rich.console import Console
from rich.table import Table as RichTable

from residua.plan.residual import ResidualPlan
from residua.plan.storage import guarantee_to_body, unit_to_body
from residua.privacy import describe
from residua.release import Table

ROWS_SHOWN = 40
_ANY_WIDTH = 10_000
# Names and labels are shown as they are: "[red]" is no markup, ":smile:" no picture.
out = Console(markup=False, emoji=False, highlight=False, soft_wrap=True)
err = Console(markup=False, emoji=False, stderr=True, highlight=False, soft_wrap=True)


def plan_facts(plan: ResidualPlan) -> dict[str, Any]:
    """A plan's facts as plain values, for `--json`."""
    workload = plan.workload
    assert workload is not None
    variances = plan.marginal_variances(workload)
    return {
        "objective": plan.objective,
        "gap": plan.gap if math.isfinite(plan.gap) else None,
        "unit": unit_to_body(plan.unit),
        "guarantee": guarantee_to_body(plan.guarantee),
        "privacy": describe(plan.unit_pcost).to_dict(),
        "marginals": [
            {"attributes": list(names), "cells": int(cells), "variance": v, "stddev": math.sqrt(v), "weight": weight}
            for names, cells, v, weight in zip(
                workload.sets, workload.cells, variances.tolist(), workload.weights.tolist(), strict=True
            )
        ],
    }


def print_json(facts: Any) -> None:
    """Prints plain values as JSON, for machines."""
    typer.echo(json.dumps(facts, indent=1))


def print_plan(plan: ResidualPlan, *, everything: bool = False) -> None:
    """A plan's marginals with their expected errors, then its privacy and its gap."""
    workload = plan.workload
    assert workload is not None
    variances = plan.marginal_variances(workload)
    relative = workload.weights / workload.weights.max()
    order = np.arange(len(workload)) if everything else np.arange(min(len(workload), ROWS_SHOWN))
    table = RichTable(box=None, pad_edge=False, header_style="bold")
    for title, justify in (("marginal", "left"), ("cells", "right"), ("stddev", "right"), ("weight", "right")):
        table.add_column(title, justify=justify)  # type: ignore[arg-type]
    for i in order:
        names = " × ".join(workload.sets[i]) or "(total)"
        table.add_row(names, f"{int(workload.cells[i]):,}", f"{math.sqrt(variances[i]):,.3f}", f"{relative[i]:.3g}")
    print_whole(table)
    if len(order) < len(workload):
        out.print(f"… {len(workload) - len(order):,} more marginals (--all shows them)")
    stddevs = np.sqrt(variances)
    total = float((workload.cells * variances).sum() / workload.cells.sum())
    out.print(
        f"\n{len(workload):,} marginals, {workload.queries:,} cells; "
        f"stddev {stddevs.min():,.3f} to {stddevs.max():,.3f}, "
        f"root mean square {math.sqrt(total):,.3f}"
    )
    print_privacy(plan)


def print_privacy(plan: ResidualPlan) -> None:
    """What a plan guarantees, in every currency, and how far from optimal it can be."""
    costs = describe(plan.unit_pcost)
    out.print(f"Guarantee   {plan.guarantee!r}, for {plan.unit}")
    out.print(f"            {costs}")
    proven = f"proven within {plan.gap:.2g} of the best possible" if math.isfinite(plan.gap) else "not compared"
    proven = "proven the best possible" if plan.gap == 0 else proven
    out.print(f"Objective   {plan.objective}: {proven}")


def print_table(table: Table, *, rows: int | None = ROWS_SHOWN) -> None:
    """A published table with error bars."""
    shown = RichTable(box=None, pad_edge=False, header_style="bold")
    names = [*table.attributes, "estimate", "stddev", "lower", "upper"]
    for name in names:
        shown.add_column(name, justify="left" if name in table.attributes else "right")
    count = len(table) if rows is None else min(len(table), rows)
    for i in range(count):
        cells = (table.columns[name][i] for name in names)
        shown.add_row(*(f"{cell:,.1f}" if isinstance(cell, float) else str(cell) for cell in cells))
    print_whole(shown)
    if count < len(table):
        out.print(f"… {len(table) - count:,} more rows (--all shows them, --csv writes them)")


def print_whole(table: RichTable) -> None:
    """Prints a table as wide as it is: a narrow terminal breaks lines, but no number is cut short."""
    for column in table.columns:
        column.no_wrap = True
    width = table.__rich_measure__(out, out.options.update(max_width=_ANY_WIDTH)).maximum
    out.print(table, width=width, crop=False)


@contextmanager
def progress_bar() -> Iterator[Any]:
    """A callback `(step, done, total)` that draws a bar on a terminal, and nothing elsewhere."""
    if not err.is_terminal:  # rich would write empty lines
        yield lambda step, done, total: None
        return
    from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

    with Progress(
        TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), console=err, transient=True
    ) as bars:
        tasks: dict[str, TaskID] = {}

        def update(step: str, done: int, total: int | None) -> None:
            if step not in tasks:
                tasks[step] = bars.add_task(step, total=total)
            bars.update(tasks[step], completed=done, total=total)

        yield update
