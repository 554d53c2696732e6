"""Many tables as rows of one file, or of some: a row for each cell, a row group for each batch of tables, labels once.

Columns: `table` (its title, such as `age × sex` or `date: month`), `attribute_1`, `value_1`, …, `estimate`, then
`stddev` of a release and, where intervals are wanted, `lower`, `upper` and a flag; of a projection `lower` and `upper`;
`left_out` and its interval, where a bound on persons left records out.
Attributes, values and titles of tables are dictionaries. Releases of many marginals are rebuilt in batches of tables of
one shape and written as they come; no more than a batch, or one table and a batch of its rows, is in memory.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from residua.domain import Domain
from residua.errors import PlanError
from residua.folders import write_synced
from residua.formats.about import About
from residua.formats.writer import Behind
from residua.linalg.arrays import Floats
from residua.linalg.lattice import batches
from residua.machine import pyarrow
from residua.plans.targets import USUAL_CONFIDENCE
from residua.projection.rounded import Rounded
from residua.published.quality import COLUMN, FLAGS, Flag, grades, shortened
from residua.published.streaming import axis_labels, codes_along
from residua.published.table import LEFT_OUT
from residua.release import Answered
from residua.release.left_out import left_out_columns
from residua.release.tables import MOST_ROWS, rebuilt_batches
from residua.workload import Workload

NAMES = {"long": "tables.parquet", "long-csv": "tables.csv"}
_ABOUT = "about.json"  # beside CSV, which has no place for it
NUMBERS = ("estimate", "stddev", "lower", "upper")
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
        widths: how many standard deviations the intervals of each table reach; None if they are not wanted.
        ends: of the intervals of one table of a projection, or of rounded numbers, flat, by column.
        lacks: which share of itself each number lacks (`Release.lacks`).
        beside: what was left out of each number, flat, by column; nothing where that was not measured.
    """

    members: NDArray[Any]
    estimates: Floats
    stddevs: Floats | None
    labels: tuple[tuple[str, ...], ...] | None = None
    title: str | None = None
    widths: Floats | None = None
    ends: Mapping[str, Floats] = field(default_factory=dict)
    lacks: float = 0.0
    beside: Mapping[str, Floats] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class LongRows:
    """Makes the rows of long files.

    Args:
        domain: whose labels are written.
        ways: the most attributes that a table has.
        about: what readers must know.
        numbers: which of `NUMBERS` there are, all of them with a flag, and of `LEFT_OUT`.
        full: every digit, in place of as many as each table's standard deviation justifies.
        flagged: whether numbers with intervals have flags.
    """

    domain: Domain
    ways: int
    about: About
    numbers: tuple[str, ...]
    full: bool = True
    flagged: bool = True

    @cached_property
    def schema(self) -> pyarrow.Schema:
        """The columns, with what readers must know."""
        text = pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
        fields = [("table", text)]
        fields += [(f"{kind}_{j}", text) for j in range(1, self.ways + 1) for kind in ("attribute", "value")]
        fields += [(name, pyarrow.float64()) for name in self.numbers]
        if self.flagged and self.numbers == NUMBERS:
            fields.append((COLUMN, pyarrow.dictionary(pyarrow.int8(), pyarrow.string())))
        return pyarrow.schema(fields, metadata=self.about.metadata(self.about.title))

    def writer(self, sink: Any) -> pyarrow.parquet.ParquetWriter:
        """What writes the rows to Parquet."""
        numbers = [name for name in self.schema.names if name in NUMBERS]
        return pyarrow.parquet.ParquetWriter(
            sink,
            self.schema,
            compression="zstd",
            compression_level=1,
            use_dictionary=[name for name in self.schema.names if name not in numbers],
            # Arrow's own pool gives memory back to the system and asks for it again with every row group.
            memory_pool=pyarrow.system_memory_pool(),
            # Of labels they take as long as writing the numbers, and no reader skips by them; by tables readers do.
            write_statistics=["table", *numbers],
        )

    def batches(self, cells: LongCells) -> Iterator[pyarrow.RecordBatch]:
        """The rows of tables of one shape, enough for a row group at a time."""
        size = max(cells.estimates[0].size, 1)
        for part in batches(len(cells.members), size, ROWS):
            for first in range(0, size, ROWS):
                yield self._batch(cells, part, slice(first, min(first + ROWS, size)))

    def _batch(self, cells: LongCells, part: slice, rows: slice) -> pyarrow.RecordBatch:
        """Some rows of some tables."""
        members, size, own = cells.members[part], cells.estimates[0].size, rows.stop - rows.start
        names = self.domain.names
        titles = [" × ".join(names[i] for i in row) or TOTAL for row in members]
        table = np.repeat(np.arange(len(members), dtype=np.int32), own)
        columns = [_dictionary(table, _texts(titles if cells.title is None else [cells.title]))]
        stride = size
        for j, count in enumerate(cells.estimates.shape[1:]):
            stride //= count
            if cells.labels is not None:
                codes = codes_along(count, stride, rows.start, rows.stop).astype(np.int32, copy=False)
                known = _texts(cells.labels[j])
            else:
                make = self._kept_codes if size <= _KEPT_CELLS else self._codes
                codes = np.concatenate([make(i, stride, rows.start, rows.stop) for i in members[:, j].tolist()])
                known = self._labels[0]
            which = np.repeat(members[:, j].astype(np.int32), own)
            columns += [_dictionary(which, _texts(names)), _dictionary(codes, known)]
        blank = pyarrow.nulls(len(table), self.schema.field("table").type)
        columns += [blank] * (2 * (self.ways - members.shape[1]))
        left_out = [self._left_out(cells, part, rows, name) for name in self.numbers if name in LEFT_OUT]
        return pyarrow.record_batch([*columns, *self._numbers(cells, part, rows, table), *left_out], schema=self.schema)

    def _left_out(self, cells: LongCells, part: slice, rows: slice, name: str) -> Any:
        """What was left out of the numbers of some rows; blank where that was not measured."""
        own = len(cells.estimates[part]) * (rows.stop - rows.start)
        if name not in cells.beside:
            return pyarrow.nulls(own, pyarrow.float64())
        return _told(cells.beside[name].reshape(len(cells.members), -1)[part, rows].flatten())

    def _numbers(self, cells: LongCells, part: slice, rows: slice, table: NDArray[np.int32]) -> list[Any]:
        """Estimates and, where they are wanted, error bars and flags of some rows."""
        # A copy: the rows are written while what the estimates are kept in is used again.
        estimates = cells.estimates[part].reshape(-1, cells.estimates[0].size)[:, rows].flatten()
        if cells.stddevs is None:
            return [_told(estimates), *(_told(each[rows]) for each in cells.ends.values())]
        alike = cells.stddevs.size == len(cells.members)
        stddevs = cells.stddevs[part][table] if alike else cells.stddevs.reshape(-1)[rows]
        if cells.widths is None:
            tell = _told if self.about.changed else _array
            return [tell(estimates), tell(stddevs), *(tell(each[rows]) for each in cells.ends.values())]
        reach = cells.widths[part][table] * stddevs
        numbers = dict(zip(NUMBERS, (estimates, stddevs, estimates - reach, estimates + reach), strict=True))
        doubtful = cells.lacks * np.abs(estimates) > reach if cells.lacks else None
        flags = _dictionary(grades(estimates, stddevs, doubtful=doubtful).astype(np.int8), _texts(FLAGS))
        if not self.full:
            numbers = _cut_by_table(numbers, cells.stddevs[part], table)
        return [*map(_array, numbers.values()), flags]

    @cached_property
    def _labels(self) -> tuple[Any, list[NDArray[np.int32]]]:
        """All labels of the domain once, as text, and where those of each attribute are."""
        texts = [np.array([str(label) for label in self.domain[name].labels], dtype=object) for name in self.domain]
        known, places = np.unique(np.concatenate(texts), return_inverse=True)
        cuts = np.cumsum([len(each) for each in texts])[:-1]
        return _texts(known.tolist()), [part.astype(np.int32) for part in np.split(places.ravel(), cuts)]

    def _codes(self, attribute: int, stride: int, first: int, stop: int) -> NDArray[np.int32]:
        """Where the labels of an attribute are that is the axis of a table with this stride, of some rows."""
        places = self._labels[1][attribute]
        codes: NDArray[np.int32] = places[codes_along(len(places), stride, first, stop)]
        return codes

    @cached_property
    def _kept_codes(self) -> Callable[..., NDArray[np.int32]]:
        """The same, kept: thousands of small tables have the same few columns."""
        return lru_cache(maxsize=2048)(self._codes)


def _cut_by_table(numbers: dict[str, Floats], stddevs: Floats, table: NDArray[Any]) -> dict[str, Floats]:
    """As `shortened` cuts each table by itself: those whose standard deviations justify the same digits at once."""
    shorter = {name: np.array(column) for name, column in numbers.items()}
    digits = np.ceil(2 - np.log10(stddevs))
    for each in np.unique(digits):
        here = (digits == each)[table]
        for name, cut in shortened({name: column[here] for name, column in numbers.items()}).items():
            shorter[name][here] = cut
    return shorter


# Arrays are made of their bytes: `pyarrow.array` imports pandas where that is installed, half a second, for nothing.


def _array(numbers: NDArray[Any]) -> Any:
    """Numbers as an Arrow array, without copying."""
    content = pyarrow.py_buffer(np.ascontiguousarray(numbers))
    return pyarrow.Array.from_buffers(pyarrow.from_numpy_dtype(numbers.dtype), len(numbers), [None, content])


def _told(numbers: Floats) -> Any:
    """Numbers as an Arrow array, blank where they are suppressed."""
    hidden = np.isnan(numbers)
    return pyarrow.array(numbers, mask=hidden) if hidden.any() else _array(numbers)


def _texts(texts: Sequence[str]) -> Any:
    """Texts as an Arrow array."""
    return pyarrow.array(list(texts), pyarrow.string())


def _dictionary(codes: NDArray[Any], texts: Any) -> Any:
    return pyarrow.DictionaryArray.from_arrays(_array(codes), texts)


def write_long(published: Any, path: Path, about: About, suppress: Flag | None = None) -> None:
    """Writes every table that was asked for into one file, Parquet or CSV by its name."""
    asked: Workload | None = published.planned.workload
    workload = None if asked is None else asked.tables
    if workload is None:
        raise PlanError("this release was not asked for tables, so that there are none to write; use csv or parquet.")
    ways = max((len(names) for names in workload.sets), default=0)
    bars = NUMBERS[2:] if about.biased else NUMBERS[1:] if isinstance(published, Rounded) else NUMBERS[1:2]
    names = (NUMBERS[0], *bars, *(LEFT_OUT if about.left_out else ()))
    rows = LongRows(published.domain, ways, about, names, flagged=False)
    as_csv = path.suffix == ".csv"
    writer = pyarrow.csv.CSVWriter(path, rows.schema) if as_csv else rows.writer(path)
    with Behind(threads=1, most=2) as behind:
        try:
            batched = suppress is None and _in_batches(published)
            for cells in _streamed(published) if batched else _one_by_one(published, about, suppress, names):
                for batch in rows.batches(cells):
                    behind.do(writer.write_batch, batch)
            behind.wait()
            writer.close()
        except BaseException:  # what closing says after that hides why
            behind.abandon()
            with contextlib.suppress(Exception):
                writer.close()
            raise
    if as_csv:
        write_synced(path.with_name(_ABOUT), about.metadata(about.title)["residua"].encode())


def _in_batches(published: Any) -> bool:
    """Whether all its tables are rebuilt in batches of one shape."""
    family, asked = published.plan.family, published.plan.workload
    alone = isinstance(published, Answered) and family is published.plan
    return alone and family.plain and asked is not None and asked.plain and not asked.domain.amounts


def _streamed(release: Any) -> Iterator[LongCells]:
    """The tables that were asked for, among all that are rebuilt."""
    asked = release.planned.workload
    stddevs = np.sqrt(release.plan.variances(asked, per="term"))
    for batch in rebuilt_batches(release.estimator, asked, np.arange(len(asked))):
        beside = _beside(release, batch.members)
        yield LongCells(batch.members, batch.estimates, stddevs[batch.terms], beside=beside)


def _beside(release: Any, members: NDArray[Any]) -> dict[str, Floats]:
    """What was left out of the total, or of tables of one attribute each."""
    if release.left_out is None or members.shape[1] > 1:
        return {}
    names = [tuple(release.domain.names[i] for i in row) for row in members.tolist()]
    columns = [left_out_columns(release.left_out, each, USUAL_CONFIDENCE) for each in names]
    return {name: np.concatenate([each[name] for each in columns]) for name in LEFT_OUT}


def numbered(name: str, seen: Counter[str]) -> str:
    """A name as it is; one that was seen before gets a number."""
    seen[name] += 1
    return name if seen[name] == 1 else f"{name} ({seen[name]})"


def _one_by_one(published: Any, about: About, suppress: Flag | None, columns: Sequence[str]) -> Iterator[LongCells]:
    seen: Counter[str] = Counter()
    for exact in published.tables(confidence=about.confidence or USUAL_CONFIDENCE, most=MOST_ROWS):
        table = exact if suppress is None else exact.suppressed(suppress)
        title = numbered(table.title if table.attributes else TOTAL, seen)
        order = np.argsort(published.domain.positions(table.attributes))
        given = axis_labels(table)
        labels = tuple(tuple(map(str, given[i])) for i in order)
        errors = table.stddev
        if errors is not None:
            errors = np.broadcast_to(errors, table.estimates.shape).transpose(order).reshape(-1)
        members = np.sort(published.domain.positions(table.attributes)).reshape(1, -1)
        own = {name: table.columns[name].reshape(table.estimates.shape) for name in NUMBERS[2:] if name in columns}
        ends = {name: each.transpose(order).reshape(-1) for name, each in own.items()}
        estimates = table.estimates.transpose(order)[None]
        yield LongCells(members, estimates, errors, labels, title, ends=ends, beside=table.beside)
