"""All tables in one long Parquet or CSV file: a row for each cell, a row group for each batch of tables, labels once.

Columns: `table` (its title, such as `age × sex` or `date: month`), `attribute_1`, `value_1`, …, `estimate` and, of a
release, `stddev`. Attributes, values and titles of tables are dictionaries. Releases of many marginals are rebuilt in
batches of tables of one shape and written as they come; no more than a batch, or one table and a batch of its rows, is
in memory.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from residua.domain import Domain
from residua.errors import PlanError
from residua.folders import write_synced
from residua.formats.about import About
from residua.formats.lines import texts_of
from residua.formats.writer import Behind
from residua.linalg.arrays import Floats, Integers
from residua.linalg.layout import batches
from residua.published.streaming import codes_along
from residua.release import Release
from residua.release.queried import MOST_ROWS
from residua.workload import Workload

if TYPE_CHECKING:
    import pyarrow

NAMES = {"long": "tables.parquet", "long-csv": "tables.csv"}
_ABOUT = "about.json"  # beside CSV, which has no place for it
TOTAL = "total"  # the table without attributes
ROWS = 1 << 18  # of a row group: what is made for it is small enough to be used again by the next
_KEPT_CELLS = 4096  # of a table whose columns are kept for the next


@dataclass(frozen=True, eq=False)
class LongCells:
    """Cells of several tables of one shape.

    Args:
        members: the attributes of each table, (tables, k).
        estimates: (tables, n_1, …, n_k).
        stddevs: one for each table, or each cell; None of a projection.
        labels: of one table whose rows are not its attributes' values, the labels along each axis.
        title: of one table, which it is where its attributes alone do not say so.
    """

    members: Integers
    estimates: Floats
    stddevs: Floats | None
    labels: tuple[tuple[str, ...], ...] | None = None
    title: str | None = None


@dataclass(eq=False)
class LongFile:
    """A long Parquet file that is being written.

    Args:
        domain: whose labels are written.
        ways: the most attributes that a table has.
        about: what readers must know.
        errors: whether there is a column of standard deviations.
        path: the file.
        behind: what writes while the next rows are made.
    """

    domain: Domain
    ways: int
    about: About
    errors: bool
    path: Path
    behind: Behind

    @cached_property
    def _labels(self) -> tuple[Any, list[Integers]]:
        """All labels of the domain once, as text, and where those of each attribute are."""
        texts = [np.array([str(label) for label in self.domain[name].labels], dtype=object) for name in self.domain]
        known, places = np.unique(np.concatenate(texts), return_inverse=True)
        cuts = np.cumsum([len(each) for each in texts])[:-1]
        return _texts(known.tolist()), [part.astype(np.int32) for part in np.split(places.ravel(), cuts)]

    def _codes(self, attribute: int, stride: int, first: int, stop: int) -> Integers:
        """Where the labels of an attribute are that is the axis of a table with this stride, of some rows."""
        places = self._labels[1][attribute]
        codes: Integers = places[codes_along(len(places), stride, first, stop)]
        return codes

    @cached_property
    def _kept_codes(self) -> Callable[..., Integers]:
        """The same, kept: thousands of small tables have the same few columns."""
        return lru_cache(maxsize=2048)(self._codes)

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
        """What writes batches of rows."""
        import pyarrow.csv
        import pyarrow.parquet

        if self.path.suffix == ".csv":
            return pyarrow.csv.CSVWriter(self.path, self.schema)
        texts = [name for name in self.schema.names if name not in ("estimate", "stddev")]
        return pyarrow.parquet.ParquetWriter(
            self.path,
            self.schema,
            compression="zstd",
            compression_level=1,
            use_dictionary=texts,
            # Arrow's own pool gives memory back to the system and asks for it again with every row group.
            memory_pool=pyarrow.system_memory_pool(),
            # Of labels they take as long as writing the numbers, and no reader skips by them; by tables readers do.
            write_statistics=["table", *(name for name in self.schema.names if name not in texts)],
        )

    def add(self, cells: LongCells) -> None:
        """Writes tables of one shape, as a row group each time there are enough rows."""
        size = max(cells.estimates[0].size, 1)
        for part in batches(len(cells.members), size, ROWS):
            for first in range(0, size, ROWS):
                batch = self._batch(cells, part, slice(first, min(first + ROWS, size)))
                self.behind.do(_write, self.writer, batch)

    def close(self) -> None:
        """Ends the file, once all that was handed over is written."""
        self.behind.wait()
        self.writer.close()

    def abandon(self) -> None:
        """Lets go of the file, when something went wrong: what it says after that hides why."""
        self.behind.abandon()
        with suppress(Exception):
            self.writer.close()

    def _batch(self, cells: LongCells, part: slice, rows: slice) -> pyarrow.RecordBatch:
        """Some rows of some tables."""
        import pyarrow

        members, size, own = cells.members[part], cells.estimates[0].size, rows.stop - rows.start
        labels = self._labels[0] if cells.labels is None else None
        names = self.domain.names
        titles = (
            [" × ".join(names[i] for i in row) or TOTAL for row in members] if cells.title is None else [cells.title]
        )
        columns = [_dictionary(np.repeat(np.arange(len(members), dtype=np.int32), own), _texts(titles))]
        stride = size
        for j in range(self.ways):
            if j >= members.shape[1]:
                columns += [pyarrow.nulls(len(members) * own, self.schema.field("table").type)] * 2
                continue
            which = np.repeat(members[:, j].astype(np.int32), own)
            count = cells.estimates.shape[j + 1]
            stride //= count
            if cells.labels is not None:
                codes = codes_along(count, stride, rows.start, rows.stop).astype(np.int32, copy=False)
                known = _texts(cells.labels[j])
            else:
                make = self._kept_codes if size <= _KEPT_CELLS else self._codes
                codes = np.concatenate([make(i, stride, rows.start, rows.stop) for i in members[:, j].tolist()])
                known = labels
            columns += [_dictionary(which, _texts(names)), _dictionary(codes, known)]
        # A copy: the rows are written while what the estimates are kept in is used again.
        columns.append(_array(cells.estimates[part].reshape(len(members), -1)[:, rows].flatten()))
        if cells.stddevs is not None:
            alike = cells.stddevs.size == len(cells.members)
            wide = np.repeat(cells.stddevs[part], own) if alike else cells.stddevs.reshape(-1)[rows]
            columns.append(_array(wide))
        return pyarrow.record_batch(columns, schema=self.schema)


# Arrays are made of their bytes: `pyarrow.array` imports pandas where that is installed, half a second, for nothing.


def _array(numbers: NDArray[Any]) -> Any:
    """Numbers as an Arrow array, without copying."""
    import pyarrow

    content = pyarrow.py_buffer(np.ascontiguousarray(numbers))
    return pyarrow.Array.from_buffers(pyarrow.from_numpy_dtype(numbers.dtype), len(numbers), [None, content])


def _texts(texts: Sequence[str]) -> Any:
    """Texts as an Arrow array."""
    import pyarrow

    text, ends = texts_of([each.encode() for each in texts])
    buffers = [None, pyarrow.py_buffer(ends.astype(np.int32)), pyarrow.py_buffer(text)]
    return pyarrow.Array.from_buffers(pyarrow.string(), len(texts), buffers)


def _dictionary(codes: NDArray[Any], texts: Any) -> Any:
    import pyarrow

    return pyarrow.DictionaryArray.from_arrays(_array(codes), texts)


def _write(writer: Any, batch: pyarrow.RecordBatch) -> None:
    """Writes rows; to Parquet as a group of their own."""
    import pyarrow.parquet

    if isinstance(writer, pyarrow.parquet.ParquetWriter):
        writer.write_batch(batch, row_group_size=len(batch))
    else:
        writer.write_batch(batch)


def write_long(published: Any, path: Path, about: About) -> int:
    """Writes every table that was asked for; says how many cells there were."""
    asked: Workload | None = (published.planned if isinstance(published, Release) else published.plan).workload
    workload = None if asked is None else asked.tables
    if workload is None:
        raise PlanError("this release was not asked for tables, so that there are none to write; use csv or parquet.")
    sets = workload.sets
    ways = max((len(names) for names in sets), default=0)
    written = 0
    with Behind(threads=1, most=2) as behind:
        file = LongFile(published.domain, ways, about, isinstance(published, Release), path, behind)
        try:
            for cells in _streamed(published) if _in_batches(published) else _one_by_one(published):
                file.add(cells)
                written += cells.estimates.size
            file.close()
        except BaseException:
            file.abandon()
            raise
    if path.suffix == ".csv":
        known = {"title": about.title, "notes": list(about.notes), **about.plain()}
        write_synced(path.with_name(_ABOUT), json.dumps(known, ensure_ascii=False, indent=1).encode())
    return written


def _in_batches(published: Any) -> bool:
    """Whether all its tables are rebuilt in batches of one shape."""
    family, asked = published.plan.family, published.plan.workload
    alone = isinstance(published, Release) and family is published.plan
    return alone and family.plain and asked is not None and asked.plain


def _streamed(release: Any) -> Iterator[LongCells]:
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
            all_of_them = len(chosen) == len(tables)  # as when it is one large one
            yield LongCells(group.members[part][chosen], tables if all_of_them else tables[chosen], stddevs[own])


def numbered(name: str, seen: Counter[str]) -> str:
    """A name as it is; one that was seen before gets a number."""
    seen[name] += 1
    return name if seen[name] == 1 else f"{name} ({seen[name]})"


def _one_by_one(published: Any) -> Iterator[LongCells]:
    seen: Counter[str] = Counter()
    for table in published.tables(most=MOST_ROWS):
        title = numbered(table.title if table.attributes else TOTAL, seen)
        order = np.argsort(published.domain.positions(table.attributes))
        given = table.labels or [published.domain[name].labels for name in table.attributes]
        labels = tuple(tuple(map(str, given[i])) for i in order)
        errors = getattr(table, "stddev", None)
        if errors is not None:
            errors = np.broadcast_to(errors, table.estimates.shape).transpose(order).reshape(-1)
        members = np.sort(published.domain.positions(table.attributes)).reshape(1, -1)
        yield LongCells(members, table.estimates.transpose(order)[None], errors, labels, title)
