"""All tables in one long Parquet file: a row for each cell, a row group for each batch of tables, labels once.

Columns: `table` (the attributes, such as `age × sex`), `attribute_1`, `value_1`, …, `estimate` and, of a release,
`stddev`. Attributes, values and names of tables are dictionaries. Releases of many marginals are rebuilt in batches of
tables of one shape and written as they come; no more than a batch is in memory.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from residua.domain import Domain
from residua.errors import PlanError
from residua.formats.about import About
from residua.formats.cube import cube_of
from residua.linalg.arrays import Floats, Integers
from residua.plans.lattice.plan import LatticePlan
from residua.release import Release
from residua.workload import Marginals, tables_in

if TYPE_CHECKING:
    import pyarrow

NAME = "tables.parquet"


@dataclass(frozen=True, eq=False)
class _Cells:
    """Cells of several tables of one shape.

    Args:
        members: the attributes of each table, (tables, k).
        estimates: (tables, n_1, …, n_k).
        stddevs: one for each table, or each cell; None of a projection.
        labels: of one table whose rows are not its attributes' values, the labels along each axis.
    """

    members: Integers
    estimates: Floats
    stddevs: Floats | None
    labels: tuple[tuple[str, ...], ...] | None = None


@dataclass(eq=False)
class LongFile:
    """A long Parquet file that is being written.

    Args:
        domain: whose labels are written.
        ways: the most attributes that a table has.
        about: what readers must know.
        errors: whether there is a column of standard deviations.
        path: the file.
    """

    domain: Domain
    ways: int
    about: About
    errors: bool
    path: Path

    @cached_property
    def _labels(self) -> tuple[Any, list[Integers]]:
        """All labels of the domain once, as text, and where those of each attribute are."""
        import pyarrow

        texts = [np.array([str(label) for label in self.domain[name].labels], dtype=object) for name in self.domain]
        known, places = np.unique(np.concatenate(texts), return_inverse=True)
        cuts = np.cumsum([len(each) for each in texts])[:-1]
        return pyarrow.array(known, pyarrow.string()), [
            part.astype(np.int32) for part in np.split(places.ravel(), cuts)
        ]

    @cached_property
    def schema(self) -> pyarrow.Schema:
        """The columns, with what readers must know."""
        import pyarrow

        text = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
        pairs = [(f"{kind}_{j}", text) for j in range(1, self.ways + 1) for kind in ("attribute", "value")]
        numbers = [("estimate", pyarrow.float64()), *([("stddev", pyarrow.float64())] if self.errors else [])]
        known = {"notes": list(self.about.notes), **self.about.plain()}
        metadata = {"title": self.about.title, "residua": json.dumps(known, ensure_ascii=False)}
        return pyarrow.schema([("table", text), *pairs, *numbers], metadata=metadata)

    @cached_property
    def writer(self) -> Any:
        """What writes row groups."""
        import pyarrow.parquet

        texts = [name for name in self.schema.names if name not in ("estimate", "stddev")]
        return pyarrow.parquet.ParquetWriter(
            self.path, self.schema, compression="zstd", compression_level=1, use_dictionary=texts
        )

    def add(self, cells: _Cells) -> None:
        """Writes tables of one shape as a row group."""
        import pyarrow

        count, shape = len(cells.members), cells.estimates.shape
        size = cells.estimates[0].size
        labels, places = self._labels
        names = pyarrow.array(self.domain.names, pyarrow.string())
        titles = pyarrow.array([" × ".join(self.domain.names[i] for i in row) or "total" for row in cells.members])
        dictionary = pyarrow.DictionaryArray.from_arrays
        columns = [dictionary(np.repeat(np.arange(count, dtype=np.int32), size), titles)]
        for j in range(self.ways):
            if j < cells.members.shape[1]:
                which = np.repeat(cells.members[:, j].astype(np.int32), size)
                along = [1] * (len(shape) - 1)
                along[j] = shape[j + 1]
                own = cells.labels[j] if cells.labels is not None else None
                codes = [np.arange(len(own), dtype=np.int32)] if own else [places[i] for i in cells.members[:, j]]
                spread = np.broadcast_to(np.stack(codes).reshape(len(codes), *along), shape)
                known = labels if own is None else pyarrow.array(own, pyarrow.string())
                columns += [dictionary(which, names), dictionary(np.ascontiguousarray(spread).ravel(), known)]
            else:
                columns += [pyarrow.nulls(count * size, self.schema.field("table").type)] * 2
        columns.append(pyarrow.array(cells.estimates.ravel()))
        if cells.stddevs is not None:
            wide = cells.stddevs if cells.stddevs.size == cells.estimates.size else np.repeat(cells.stddevs, size)
            columns.append(pyarrow.array(np.ravel(wide)))
        self.writer.write_batch(pyarrow.record_batch(columns, schema=self.schema), row_group_size=count * size)


def write_long(published: Any, path: Path, about: About) -> int:
    """Writes every table that was asked for; says how many cells there were."""
    workload = tables_in(published.planned.workload if isinstance(published, Release) else published.plan.workload)
    if workload is None:
        raise PlanError("this release was not asked for tables, so that there are none to write; use csv or parquet.")
    sets = workload.sets
    ways = max((len(names) for names in sets), default=0)
    file = LongFile(published.domain, ways, about, isinstance(published, Release), path)
    written = 0
    try:
        for cells in _streamed(published) if _in_batches(published) else _one_by_one(published):
            file.add(cells)
            written += cells.estimates.size
    finally:
        file.writer.close()
    return written


def _in_batches(published: Any) -> bool:
    """Whether all its tables are rebuilt in batches of one shape."""
    return (
        isinstance(published, Release)
        and isinstance(published.plan, LatticePlan)
        and published.plan.plain
        and isinstance(published.planned.workload, Marginals)
    )


def _streamed(release: Any) -> Iterator[_Cells]:
    """The tables that were asked for, among all that are rebuilt."""
    plan, asked = release.plan, release.planned.workload
    numbers = asked.lattice
    wanted = np.zeros(len(plan.lattice), dtype=bool)
    for k in range(len(numbers.levels)):
        rows = asked.numbers[(asked.numbers >= numbers.offsets[k]) & (asked.numbers < numbers.offsets[k + 1])]
        wanted[plan.lattice.find(numbers.levels[k][rows - numbers.offsets[k]])] = True
    stddevs = np.sqrt(plan.facts.cell_variances)
    for group, part, tables in release.all_estimates():
        chosen = np.flatnonzero(wanted[group.numbers[part]])
        if len(chosen):
            own = group.numbers[part][chosen]
            yield _Cells(group.members[part][chosen], tables[chosen], stddevs[own])


def _one_by_one(published: Any) -> Iterator[_Cells]:
    for number, table in enumerate(published.tables(), start=1):
        cube = cube_of(table, number, None, full=True)
        members = np.array([published.domain.positions([each.name for each in cube.dimensions])], dtype=np.int64)
        shape = tuple(len(each.labels) for each in cube.dimensions)
        errors = cube.measures.get("stddev")
        yield _Cells(
            members.reshape(1, -1),
            np.asarray(cube.measures["estimate"], dtype=np.float64).reshape(1, *shape),
            None if errors is None else np.asarray(errors, dtype=np.float64),
            tuple(tuple(map(str, each.labels)) for each in cube.dimensions),
        )
