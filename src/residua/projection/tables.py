"""Tables of a projection: estimates or whole counts, without error bars, since biased numbers have none."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from residua.domain import Domain, Label
from residua.errors import PlanError
from residua.files import write_atomically
from residua.folders import whole_folder
from residua.linalg.arrays import Floats
from residua.published.columns import Columns
from residua.published.table import label_columns, what_is_counted

if TYPE_CHECKING:
    from residua.projection.tabled import Tabled


@dataclass(frozen=True, eq=False, repr=False)
class ProjectedTable(Columns):
    """A table of a projection, tidy: attributes, estimate. There is no error bar: the estimates are biased.

    Args:
        domain: where the labels come from.
        attributes: the table's attributes, in the order asked.
        estimates: not negative, consistent with every other table of the projection, (n_1, …, n_k).
        labels: what each row of each axis is, where that is not the attributes' values (prefixes, ranges, levels).
        title: which table this is, in words.
        counted: what is counted, in words, where that is not every record.
    """

    domain: Domain
    attributes: tuple[str, ...]
    estimates: Floats
    labels: tuple[Sequence[Label], ...] | None = None
    title: str = ""
    counted: str = ""

    def __post_init__(self) -> None:
        self.estimates.setflags(write=False)

    @property
    def keys(self) -> tuple[str, ...]:
        """The table's attributes."""
        return self.attributes

    @property
    def note(self) -> str:
        """What is counted, where that is not every record."""
        return self.counted

    def __len__(self) -> int:
        return self.estimates.size

    @cached_property
    def columns(self) -> dict[str, Any]:
        """The columns by name: labels as lists, estimates as an array."""
        labels = label_columns(self.domain, self.attributes, self.estimates.shape, self.labels)
        return {**labels, "estimate": self.estimates.ravel()}


@dataclass(frozen=True, eq=False, repr=False)
class CountTable(Columns):
    """A marginal in whole or fractional counts, as other programs read it: attributes, count.

    Args:
        domain: where the labels come from.
        attributes: the table's attributes, in the order asked.
        counts: one per cell, (n_1, …, n_k).
        margin_error: how far a margin of the table is from that of the table it was rounded from, at most.
        counted: what is counted, in words, where that is not every record.
    """

    domain: Domain
    attributes: tuple[str, ...]
    counts: NDArray[Any]
    margin_error: float = 0.0
    counted: str = ""

    def __post_init__(self) -> None:
        self.counts.setflags(write=False)
        if "count" in self.attributes:
            raise PlanError("the attribute 'count' would be taken for the column of counts; rename it in the domain.")

    @property
    def keys(self) -> tuple[str, ...]:
        """The table's attributes."""
        return self.attributes

    @property
    def note(self) -> str:
        """What is counted, where that is not every record."""
        return self.counted

    def __len__(self) -> int:
        return self.counts.size

    @cached_property
    def columns(self) -> dict[str, Any]:
        """The columns by name: labels as lists, counts as an array."""
        return {**label_columns(self.domain, self.attributes, self.counts.shape), "count": self.counts.ravel()}


@dataclass(frozen=True, eq=False, repr=False)
class ProjectedAnswers(Columns):
    """Answers of a projection: query, estimate. There is no error bar: the estimates are biased."""

    labels: tuple[str, ...]
    estimates: Floats
    counted: str = ""

    @property
    def keys(self) -> tuple[str, ...]:
        """The query's label."""
        return ("query",)

    @property
    def note(self) -> str:
        """What is counted, where that is not every record."""
        return self.counted

    def __len__(self) -> int:
        return len(self.estimates)

    @cached_property
    def columns(self) -> dict[str, Any]:
        """The columns by name: labels as a list, estimates as an array."""
        return {"query": list(self.labels), "estimate": self.estimates}


def export_long(
    projected: Tabled,
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
        if workload is None or not workload.plain:
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


def _counts(projected: Tabled, names: tuple[str, ...]) -> CountTable:
    return CountTable(projected.domain, names, projected.estimates(names), counted=what_is_counted(projected.plan.unit))


def _slug(names: Sequence[str]) -> str:
    """The attributes' names as far as every file system takes them."""
    return "".join("-" + re.sub(r"[^\w]+", "_", name)[:20] for name in names)[:80] or "-total"
