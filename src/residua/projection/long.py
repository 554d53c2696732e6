"""Long marginal tables for other programs: attributes and a column `count`, one file per table, and an index."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from residua.errors import PlanError
from residua.files import write_atomically
from residua.folders import whole_folder
from residua.projection.tables import CountTable
from residua.workload import Marginals

if TYPE_CHECKING:
    from residua.projection.projected import Projected


def export_long(
    projected: Projected,
    folder: Path,
    sets: Iterable[Sequence[str]] | None = None,
    *,
    form: str = "csv",
    rounded: bool = False,
) -> list[Path]:
    """Writes tables of a projection in long form into a new folder, whole or not at all.

    Args:
        projected: where the tables come from.
        folder: to be made; `index.csv` in it says which file holds which attributes.
        sets: which tables; by default all that were asked for.
        form: "csv" or "parquet".
        rounded: whole counts by controlled rounding, instead of estimates.

    Returns:
        The files of the tables, in the order of the sets.

    Raises:
        PlanError: an unanswerable table, or no table named where none was asked for.
        FileError: the folder exists, or cannot be written.
    """
    if form not in ("csv", "parquet"):
        raise PlanError(f"form={form!r} is not 'csv' or 'parquet'; use one of them.")
    workload = projected.plan.workload
    if sets is None:
        if not isinstance(workload, Marginals):
            raise PlanError("sets: the release was not asked for marginals; name the tables, [('age', 'sex'), …].")
        sets = workload.sets
    named = [tuple(names) for names in sets]
    files = [f"{i:04d}{_slug(names)}.{form}" for i, names in enumerate(named, start=1)]
    lines = ["file,attributes,cells"]
    with whole_folder(folder, "folder of tables") as partial:
        for names, file in zip(named, files, strict=True):
            table = projected.rounded(names) if rounded else _counts(projected, names)
            if form == "csv":
                table.to_csv(partial / file, full=True)
            else:
                table.to_parquet(partial / file)
            quoted = " ".join(names).replace('"', '""')
            lines.append(f'{file},"{quoted}",{len(table)}')
        write_atomically(partial / "index.csv", ("\n".join(lines) + "\n").encode())
    return [Path(folder) / file for file in files]


def _counts(projected: Projected, names: tuple[str, ...]) -> CountTable:
    return CountTable(projected.domain, names, projected.estimates(names))


def _slug(names: Sequence[str]) -> str:
    """The attributes' names as far as every file system takes them."""
    return "".join("-" + re.sub(r"[^\w]+", "_", name)[:20] for name in names)[:80] or "-total"
