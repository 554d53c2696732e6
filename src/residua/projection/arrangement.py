"""How the projection lays out its tables: maximal tables apart from those below, long axes last, facets found once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from residua.linalg.arrays import Floats, Integers
from residua.linalg.lattice import SetFamily, closure
from residua.linalg.layout import Group, Layout, batches, layout_of
from residua.projection import table_kernels

T = TypeVar("T", bound=np.generic)
_BATCH_CELLS = 250_000


@dataclass(frozen=True, eq=False)
class TableBatch:
    """Some maximal tables of one shape: where they, their margins and their own means lie.

    Args:
        numbers: the sets' numbers in the arrangement's lattice, (tables,).
        shape: how many values each axis has, (k,).
        starts: where each table begins among the maximal tables, (tables,).
        facets: where each margin without one axis begins among the lower tables, (tables, k).
        owned: where each table's own means along one axis begin, (tables, k).
    """

    numbers: Integers
    shape: Integers
    starts: Integers
    facets: Integers
    owned: Integers


@dataclass(frozen=True, eq=False)
class Arrangement:
    """The sets of a family with attributes renumbered by size, so that rows are long and loops are fast.

    Args:
        given: the family as it came.
        given_sizes: how many values each attribute has, in the order in which they came.
    """

    given: SetFamily
    given_sizes: Integers

    @cached_property
    def _order(self) -> Integers:
        return np.argsort(self.given_sizes, kind="stable")

    @cached_property
    def sizes(self) -> Integers:
        """How many values each renumbered attribute has, increasing."""
        return self.given_sizes[self._order]

    @cached_property
    def lattice(self) -> SetFamily:
        """The family over renumbered attributes."""
        return closure([self._renamed(level) for level in self.given.levels], self.given.attributes)

    def _renamed(self, rows: NDArray[np.int32]) -> NDArray[np.int32]:
        rank = np.argsort(self._order).astype(np.int32)
        return np.sort(rank[rows], axis=1)

    @cached_property
    def numbers(self) -> Integers:
        """The number here of each set as it came, (sets,)."""
        return np.concatenate([self.lattice.find(self._renamed(level)) for level in self.given.levels])

    # ---- where tables lie

    @cached_property
    def top(self) -> Layout:
        """The maximal tables."""
        return layout_of(self.lattice, self.sizes, self.lattice.is_maximal)

    @cached_property
    def low(self) -> Layout:
        """All others."""
        return layout_of(self.lattice, self.sizes, ~self.lattice.is_maximal)

    @cached_property
    def low_sets(self) -> Integers:
        """The set of every cell of the lower tables, (cells,)."""
        sets = np.empty(self.low.cells, dtype=np.int64)
        for group in self.low:
            group.view(sets).reshape(len(group.numbers), -1)[:] = group.numbers[:, None]
        return sets

    def gather(self, layout: Layout, given: NDArray[T], given_layout: Layout) -> NDArray[T]:
        """Tables as they came, in the layout `given_layout`, into one of the layouts here."""
        out = np.zeros(layout.cells, dtype=given.dtype)
        for source, target in self._copies(layout, given_layout):
            out[target] = given[source]
        return out

    def scatter(self, layout: Layout, tables: Floats, given_layout: Layout, out: Floats) -> None:
        """Tables from one of the layouts here back to where they came from."""
        for source, target in self._copies(layout, given_layout):
            out[source] = tables[target]

    def _copies(self, layout: Layout, given_layout: Layout) -> Iterator[tuple[Integers, Integers]]:
        """Cells in the given layout and the same cells here, in batches."""
        for group in given_layout:
            # Sets of one shape are renumbered alike: by size, and by position where sizes are equal.
            axes = np.argsort(group.shape, kind="stable")
            cells = np.arange(group.cells).reshape(group.shape).transpose(axes).ravel()
            starts = layout.starts[self.numbers[group.numbers]]
            begins = group.start + group.cells * np.arange(len(group.numbers))
            for part in batches(len(group.numbers), group.cells, _BATCH_CELLS):
                here = starts[part] >= 0
                yield begins[part][here, None] + cells, starts[part][here, None] + np.arange(group.cells)

    # ---- the maximal tables

    @cached_property
    def parts(self) -> tuple[TableBatch, ...]:
        """The maximal tables in parts, of about equal work."""
        parts, start = [], 0
        for group in self.top:
            lengths = group.cells // np.array(group.shape, dtype=np.int64)
            ends = np.concatenate([[0], np.cumsum(lengths)[:-1]])
            owned = start + np.arange(len(group.numbers))[:, None] * lengths.sum() + ends
            start += int(lengths.sum()) * len(group.numbers)
            facets = self._facets(group)
            shape = np.array(group.shape, dtype=np.int64)
            for part in batches(len(group.numbers), group.cells, _BATCH_CELLS):
                numbers = group.numbers[part]
                parts.append(TableBatch(numbers, shape, self.top.starts[numbers], facets[part], owned[part]))
        return tuple(sorted(parts, key=lambda part: -len(part.numbers) * int(part.shape.prod())))

    def _facets(self, group: Group) -> Integers:
        places = [
            self.low.starts[self.lattice.find(np.delete(group.members, j, axis=1))] for j in range(len(group.shape))
        ]
        return np.stack(places, axis=1)

    @cached_property
    def owned_cells(self) -> int:
        """How many means the maximal tables have of their own."""
        return sum(int((part.shape.prod() // part.shape).sum()) * len(part.numbers) for part in self.parts)

    # ---- the lower tables

    @cached_property
    def low_tables(self) -> tuple[Integers, Integers, Integers, Integers]:
        """Start, shape, number of axes and starts of the facets of every lower table, small sets first."""
        lattice, numbers = self.lattice, np.flatnonzero(~self.lattice.is_maximal)
        ways = lattice.set_sizes[numbers]
        shapes = np.ones((len(numbers), max(len(lattice.levels) - 1, 1)), dtype=np.int64)
        facets = np.zeros_like(shapes)
        for k, level in enumerate(lattice.levels):
            here = ways == k
            members = level[numbers[here] - lattice.offsets[k]]
            shapes[here, :k] = self.sizes[members]
            for j in range(k):
                facets[here, j] = self.low.starts[lattice.find(np.delete(members, j, axis=1))]
        return self.low.starts[numbers], shapes, ways, facets

    def centre(self, tables: Floats) -> None:
        """Centres the lower tables along every axis, in place."""
        starts, shapes, ways, _ = self.low_tables
        table_kernels.centre_each(tables, starts, shapes, ways)

    def centre_top(self, tables: Floats) -> None:
        """Centres the maximal tables along every axis, in place."""
        for part in self.parts:
            self.centre_part(tables, part)

    def centre_part(self, tables: Floats, part: TableBatch) -> None:
        """Centres some maximal tables along every axis, in place."""
        shapes = np.broadcast_to(part.shape, (len(part.numbers), part.shape.size))
        table_kernels.centre_each(tables, part.starts, shapes, np.full(len(part.numbers), part.shape.size))

    def rebuild(self, residuals: Floats) -> Floats:
        """The lower tables from their residuals."""
        tables = residuals.copy()
        table_kernels.rebuild_each(tables, *self.low_tables)
        return tables

    def summed_down(self, own: Floats, weights: Floats) -> Floats:
        """`q_S = Σ_{A⊃S} weight_A · mean of A's table over A∖S` for every lower set, from the tables' own means.

        A table reaches S along |A∖S|! chains of facets, j of them into a facet j steps down: hence the division by j.
        """
        total = np.zeros(self.low.cells)
        for ways, numbers, pairs in self._from_own:
            here = np.zeros(self.low.cells)
            table_kernels.add_means(own, here, *pairs, weights[numbers])
            total += here
            for j in range(2, ways + 1):
                below = np.zeros(self.low.cells)
                pairs = self._downward[ways - j + 1]
                table_kernels.add_means(here, below, *pairs, np.full(len(pairs[0]), 1.0 / j))
                total += below
                here = below
        return total

    @cached_property
    def _from_own(self) -> tuple[tuple[int, Integers, tuple[Integers, ...]], ...]:
        """For each size of maximal sets: the set of each of their own means, and where it goes (as it is)."""
        by_size = []
        for ways in sorted({part.shape.size for part in self.parts}):
            parts = [part for part in self.parts if part.shape.size == ways]
            lengths = [np.broadcast_to(part.shape.prod() // part.shape, part.owned.shape) for part in parts]
            begins, inners, places = (
                np.concatenate([array.ravel() for array in arrays])
                for arrays in ([part.owned for part in parts], lengths, [part.facets for part in parts])
            )
            numbers = np.concatenate([np.repeat(part.numbers, ways) for part in parts])
            one = np.ones(len(begins), dtype=np.int64)
            by_size.append((int(ways), numbers, (begins, one, one, inners, places)))
        return tuple(by_size)

    @cached_property
    def _downward(self) -> dict[int, tuple[Integers, ...]]:
        """For each size of lower sets: every table and axis, and where the mean along it goes."""
        starts, shapes, ways, facets = self.low_tables
        by_size = {}
        for k in range(1, int(ways.max(initial=0)) + 1):
            here = ways == k
            columns = [
                (
                    starts[here],
                    shapes[here, :j].prod(axis=1),
                    shapes[here, j],
                    shapes[here, j + 1 : k].prod(axis=1),
                    facets[here, j],
                )
                for j in range(k)
            ]
            by_size[k] = tuple(np.concatenate(arrays) for arrays in zip(*columns, strict=True))
        return by_size
