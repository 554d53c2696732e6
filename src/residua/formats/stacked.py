"""Many tables as rows of one Parquet dataset: for releases with more tables than a folder should have files.

A row is a cell: which table, its attributes and their values in pairs of columns (blank where a table has fewer), the
estimate, its error bars and its flag: the columns of `long.py`, and more. A block is some tables that follow each
other; it is rebuilt by the kernels of every release from no more measurements than its tables need, and is the content
of one file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from residua.errors import PlanError
from residua.formats.about import About
from residua.linalg.arrays import Floats, Integers
from residua.linalg.lattice import SetFamily, closure
from residua.linalg.layout import Group, layout_of
from residua.plans.product.set_facts import Facts
from residua.plans.tails import check_confidence
from residua.published.quality import COLUMN, FLAGS, grades, shortened
from residua.release import Release
from residua.workload import Workload

BLOCK_CELLS = 1 << 20  # of one file, unless a table has more
_ROWS = 1 << 19  # that are made at once
_NUMBERS = ("estimate", "stddev", "lower", "upper")


@dataclass(frozen=True, eq=False)
class Stacked:
    """The tables that a release was asked for, in blocks.

    Args:
        release: of marginals.
        confidence: how often an interval holds the truth.
        full: every digit.
        block_cells: about how many cells a block has.

    Raises:
        PlanError: tables of another kind, or a confidence that is none.
    """

    release: Release
    confidence: float = 0.95
    full: bool = False
    block_cells: int = BLOCK_CELLS

    def __post_init__(self) -> None:
        family, asked = self.release.plan.family, self.release.planned.workload
        if family is None or not family.plain or asked is None or not asked.plain:
            raise PlanError("executors rebuild tables of marginals only; leave spark= away, or --on-executors.")
        check_confidence(self.confidence)

    @property
    def _asked(self) -> Workload:
        workload = self.release.planned.workload
        assert workload is not None  # it is plain
        return workload

    @cached_property
    def blocks(self) -> list[Integers]:
        """The numbers of the sets of each block in the family that was asked for."""
        asked = self._asked
        chosen = np.zeros(len(asked.lattice), dtype=bool)
        chosen[asked.numbers] = True
        layout = layout_of(asked.lattice, self.release.domain.sizes, chosen)
        numbers = np.concatenate([group.numbers for group in layout])
        cells = np.concatenate([np.full(len(group.numbers), group.cells) for group in layout])
        places = (np.cumsum(cells) - cells) // self.block_cells
        return np.split(numbers, np.flatnonzero(np.diff(places)) + 1)

    @property
    def ways(self) -> int:
        """How many attributes the largest table has."""
        return int(self._asked.lattice.set_sizes[self._asked.numbers].max(initial=0))

    def block(self, number: int, about: About) -> Any:
        """The content of the file of one block, with what a reader must know in its metadata."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        notes = {"residua": json.dumps({"notes": list(about.notes), **about.plain()}, ensure_ascii=False)}
        schema = self._schema.with_metadata({"title": about.title, **notes})
        coded = [field.name for field in schema if pa.types.is_dictionary(field.type)]
        sink = pa.BufferOutputStream()
        with pq.ParquetWriter(
            sink, schema, compression="zstd", compression_level=1, use_dictionary=[*coded, "stddev"]
        ) as writer:
            for columns in self._rows(self.blocks[number]):
                writer.write_table(pa.table(columns, schema=schema))
        return sink.getvalue()

    def _rows(self, numbers: Integers) -> Iterator[list[Any]]:
        """The columns of some tables, some rows at a time."""
        lattice = self._asked.lattice
        sizes = lattice.set_sizes[numbers]
        rows = [lattice.levels[k][numbers[sizes == k] - lattice.offsets[k]] for k in np.unique(sizes)]
        family = closure(rows, lattice.attributes)
        wanted = np.zeros(len(family), dtype=bool)
        for level in rows:
            wanted[family.find(level)] = True
        reading: Any = self.release.reading
        stddevs = np.sqrt(self._variances(family))
        for group, part, tables in reading.part(family).all_marginals():
            kept = np.flatnonzero(wanted[group.numbers[part]])
            at = kept + part.start
            estimates = tables.reshape(len(tables), -1)[kept]
            bars = stddevs[group.numbers[at]], self._widths(group.members[at])
            for first in range(0, estimates.size, _ROWS):
                places = np.arange(first, min(first + _ROWS, estimates.size))
                table, cell = np.divmod(places, group.cells)
                numbered = self._numbers(estimates.ravel()[places], *bars, table)
                yield [*self._keys(group, at, table, cell), *numbered]

    def _widths(self, members: Integers) -> Floats:
        """How many standard deviations the intervals of each table reach, (tables,)."""
        reading, names = self.release.reading, self.release.domain.names
        if self.release.planned.noise.currency != "epsilon":  # the same for all
            return np.full(len(members), reading.widths((), self.confidence, 1.0))
        sets = [tuple(names[i] for i in row) for row in members.tolist()]
        return np.array([reading.widths(each, self.confidence, 1.0) for each in sets], dtype=np.float64)

    def _variances(self, family: SetFamily) -> Floats:
        """Of a cell of each table of a family, as the plan that was measured says."""
        facts: Facts = self.release.reading.plan.family.facts
        numbers = np.concatenate([facts.lattice.find(level) for level in family.levels])
        noise = np.where(numbers >= 0, facts.noise[numbers], np.inf)
        return Facts(facts.domain, family, noise, facts.strategies).cell_variances

    def _numbers(self, estimates: Floats, stddevs: Floats, widths: Floats, table: Integers) -> list[Any]:
        """Estimates, error bars and flags of rows; digits as each table's own standard deviation justifies."""
        import pyarrow as pa

        each = stddevs[table]
        reach = widths[table] * each
        columns = dict(zip(_NUMBERS, (estimates, each, estimates - reach, estimates + reach), strict=True))
        flags = grades(estimates, each)
        if not self.full:
            columns = _cut_by_table(columns, stddevs, table)
        flagged = pa.DictionaryArray.from_arrays(pa.array(flags, pa.int8()), pa.array(FLAGS))
        return [*(pa.array(columns[name]) for name in _NUMBERS), flagged]

    def _keys(self, group: Group, at: Integers, table: Integers, cell: Integers) -> list[Any]:
        """Which table each row is of, and the attributes and values that it stands for."""
        import pyarrow as pa

        names = self.release.domain.names
        members = group.members[at]
        titles = pa.array([" × ".join(names[i] for i in row) or "total" for row in members.tolist()], pa.string())
        columns = [pa.DictionaryArray.from_arrays(pa.array(table, pa.int32()), titles)]
        codes = np.unravel_index(cell, group.shape) if group.shape else ()
        offsets, places, texts = self._labels
        for j, code in enumerate(codes):
            owner = members[table, j]
            columns.append(pa.DictionaryArray.from_arrays(pa.array(owner, pa.int32()), pa.array(names)))
            columns.append(pa.DictionaryArray.from_arrays(pa.array(places[offsets[owner] + code], pa.int32()), texts))
        blank = pa.nulls(len(table), _text())
        return [*columns, *[blank] * (2 * (self.ways - len(codes)))]

    @cached_property
    def _labels(self) -> tuple[Integers, NDArray[np.int64], Any]:
        """Where each attribute's labels begin, the place of each among the distinct ones, and these."""
        import pyarrow as pa

        domain = self.release.domain
        every = [str(label) for name in domain.names for label in domain[name].labels]
        place = {text: i for i, text in enumerate(dict.fromkeys(every))}
        offsets = np.cumsum([0, *domain.sizes[:-1].tolist()])
        return offsets, np.array([place[text] for text in every]), pa.array(list(place), pa.string())

    @cached_property
    def _schema(self) -> Any:
        import pyarrow as pa

        pairs = [(f"{what}_{j + 1}", _text()) for j in range(self.ways) for what in ("attribute", "value")]
        numbers = [(name, pa.float64()) for name in _NUMBERS]
        return pa.schema([("table", _text()), *pairs, *numbers, (COLUMN, pa.dictionary(pa.int8(), pa.string()))])


def _text() -> Any:
    import pyarrow as pa

    return pa.dictionary(pa.int32(), pa.string())


def _cut_by_table(columns: dict[str, Floats], stddevs: Floats, table: Integers) -> dict[str, Floats]:
    """As `shortened` cuts each table by itself: those whose standard deviations justify the same digits at once."""
    shorter = {name: np.array(column) for name, column in columns.items()}
    digits = np.ceil(2 - np.log10(stddevs))
    for each in np.unique(digits):
        here = (digits == each)[table]
        for name, cut in shortened({name: column[here] for name, column in columns.items()}).items():
            shorter[name][here] = cut
    return shorter
