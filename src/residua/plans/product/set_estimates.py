"""From measurements back to marginals: the unique unbiased linear estimate, all tables consistent.

`m̂_A = Σ_{S⊆A} (⊗_{i∈S} F_i ⊗_{i∈A∖S} v_i) y_S / t_S`, facet by facet: the table of `⊗F_i y_A / t_A`, then along each
axis `x ← x + (margin − Σ x) v_i` in turn: k passes instead of 2^k. With plain strategies (v = 1/n) all tables of one
shape are rebuilt at once, and streamed.

Reference: residual-planner, Algorithm 2 and Theorem 4.7.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from residua.linalg.arrays import Floats, Integers
from residua.linalg.lattice import Group, Layout, SetFamily, batches, facets_of, layout_of, rebuild
from residua.plans.product.set_measurements import ResidualMeasurements

_BATCH_CELLS = 500_000  # they stay in the cache between being made and being used


class _Measured(Protocol):
    """Where each residual lies in a buffer, and what one step of its numbers stands for, inverted."""

    @property
    def lattice(self) -> SetFamily: ...  # The family of sets

    @property
    def sizes(self) -> Integers: ...  # How many values each attribute has

    @property
    def measured(self) -> Integers: ...  # Numbers of the sets something is known of

    @property
    def units(self) -> Floats: ...  # What one step stands for, inverted, of each of those

    @property
    def layout(self) -> Layout: ...  # Where their tables lie


@dataclass(frozen=True, eq=False)
class SetsAlone:
    """What was measured of some sets alone."""

    lattice: SetFamily
    sizes: Integers
    measured: Integers
    units: Floats
    layout: Layout


@dataclass(frozen=True, eq=False)
class PlainReconstruction:
    """Reads marginals off measurements by plain strategies.

    Args:
        measurements: what was measured, and on which grid.
        noisy: the noisy integers (or pooled numbers) in the order of `measurements.layout`, (cells,).
    """

    measurements: _Measured
    noisy: NDArray[Any]

    @cached_property
    def layout(self) -> Layout:
        """All sets of the family, measured or not."""
        if len(self.measurements.measured) == len(self.measurements.lattice):
            return self.measurements.layout
        return layout_of(self.measurements.lattice, self.measurements.sizes)

    @cached_property
    def _steps(self) -> Floats:
        """`1/(t Π n_i)` of each set; NaN where a residual is neither measured nor empty, so that it shows."""
        lattice = self.measurements.lattice
        steps = np.where(lattice.products(1.0 - 1.0 / self.measurements.sizes) > 0, np.nan, 0.0)
        steps[self.measurements.measured] = 1.0 / self.measurements.units
        return steps

    def marginal(self, members: tuple[int, ...]) -> Floats:
        """The estimate of one marginal, (n_1, …, n_k), attributes in the domain's order.

        What no measurement sees counts as zero: the cells themselves are unbiased only where the plan supports them,
        queries of them wherever it supports those.
        """
        known: dict[tuple[int, ...], Floats] = {}
        for size in range(len(members) + 1):
            for subset in combinations(members, size):
                number = self.measurements.lattice.find(np.array(subset, dtype=np.int32).reshape(1, -1))
                seen = number[0] >= 0 and np.isfinite(self._steps[number[0]])
                table = np.empty((1, *(int(self.measurements.sizes[i]) for i in subset)))
                margins = [known[subset[:j] + subset[j + 1 :]].ravel() for j in range(size)]
                starts = np.cumsum([0, *(margin.size for margin in margins)])[:-1]
                lower = np.concatenate([*margins, np.empty(0)])
                given = self._integers(number, table) if seen else np.zeros(table.shape, self.noisy.dtype)
                steps = self._steps[number] if seen else np.zeros(1)
                rebuild(given, steps, lower, starts.reshape(1, -1), table)
                known[subset] = table[0]
        return known[members]

    def within(self, family: SetFamily) -> PlainReconstruction:
        """The same for a smaller family alone, with no more measurements than its tables need, in memory.

        Args:
            family: sets of this one's family; those of attributes with one value may be others.
        """
        own = self.measurements
        numbers = np.concatenate([own.lattice.find(level) for level in family.levels])
        units = np.zeros(len(own.lattice))
        units[own.measured] = own.units
        chosen = np.where(numbers >= 0, units[numbers], 0.0) > 0
        layout = layout_of(family, own.sizes, chosen)
        needed = np.empty(layout.cells, dtype=self.noisy.dtype)
        for group in layout:
            tables = group.view(needed)
            for part in batches(len(tables), group.cells, _BATCH_CELLS):
                tables[part] = self._integers(numbers[group.numbers[part]], tables[part])
        measured = np.flatnonzero(chosen)
        return PlainReconstruction(SetsAlone(family, own.sizes, measured, units[numbers[measured]], layout), needed)

    def all_marginals(self) -> Iterator[tuple[Group, slice, Floats]]:
        """All marginals of the family, smallest first, in batches: (group, which of its tables, estimates).

        The estimates are (tables, n_1, …, n_k), and are overwritten once the next batch is asked for.
        """
        lower, base = np.empty(0), 0
        scratch = np.empty(max(_BATCH_CELLS, *(group.cells for group in self.layout)))
        for size in range(len(self.measurements.lattice.levels)):
            groups = [group for group in self.layout if len(group.shape) == size]
            start, stop = groups[0].start, groups[-1].stop
            last = size == len(self.measurements.lattice.levels) - 1
            kept = np.empty(0 if last else stop - start)
            for group in groups:
                facets = facets_of(group, self.layout) - base
                for part in batches(len(group.numbers), group.cells, _BATCH_CELLS):
                    numbers = group.numbers[part]
                    tables = scratch[: len(numbers) * group.cells].reshape(len(numbers), *group.shape)
                    rebuild(self._integers(numbers, tables), self._steps[numbers], lower, facets[part], tables)
                    if not last:
                        at = group.start - start + group.cells * part.start
                        kept[at : at + tables.size] = tables.ravel()
                    yield group, part, tables
            lower, base = kept, start

    def _integers(self, numbers: Integers, like: NDArray[Any]) -> NDArray[Any]:
        """The measurements of tables of one shape; zeros where nothing was measured. A view where they adjoin."""
        cells = like[0].size
        starts = self.measurements.layout.starts[numbers]
        if starts[0] >= 0 and (np.diff(starts) == cells).all():
            return self.noisy[starts[0] : starts[0] + like.size].reshape(like.shape)
        integers = np.zeros((len(numbers), cells), dtype=self.noisy.dtype)
        measured = np.flatnonzero(starts >= 0)
        integers[measured] = self.noisy[starts[measured, None] + np.arange(cells)]
        return integers.reshape(like.shape)


@dataclass(frozen=True, eq=False)
class CrossedReconstruction:
    """Reads marginals off measurements by any strategies; of many measurements of the same blocks at once, if given.

    Args:
        measurements: what was measured, and on which grid.
        noisy: the noisy integers in the order of `measurements.layout`, (cells,) or (many, cells).
    """

    measurements: ResidualMeasurements
    noisy: NDArray[Any]

    @property
    def _many(self) -> tuple[int, ...]:
        return self.noisy.shape[:-1]

    def marginal(self, members: tuple[int, ...]) -> Floats:
        """The estimate of one marginal, (…, n_1, …, n_k), attributes in the domain's order.

        What no measurement sees counts as zero: the cells themselves are unbiased only where the plan supports them,
        queries of them wherever it supports those.
        """
        known: dict[tuple[int, ...], Floats] = {}
        first = len(self._many)
        for size in range(len(members) + 1):
            for subset in combinations(members, size):
                table = self.part(subset)
                for place, i in enumerate(subset):
                    axis = first + place
                    margin = known[subset[:place] + subset[place + 1 :]] - table.sum(axis=axis)
                    along = [-1 if a == axis else 1 for a in range(first + size)]
                    table = table + np.expand_dims(margin, axis) * self.measurements.strategies[i].spread.reshape(along)
                known[subset] = table
        return known[members]

    def part(self, subset: tuple[int, ...]) -> Floats:
        """`(⊗ F_i) y_S / t_S`: what the block on S adds to what its facets tell, (…, n_1, …, n_k)."""
        measurements = self.measurements
        number = int(measurements.lattice.find(np.array(subset, dtype=np.int32).reshape(1, -1))[0])
        start = int(measurements.layout.starts[number]) if number >= 0 else -1
        if start < 0:
            return np.zeros([*self._many, *(int(measurements.sizes[i]) for i in subset)])
        shape = [int(measurements.rows[i]) for i in subset]
        place = slice(start, start + int(np.prod(shape)))
        own = self.noisy[:, place] if self._many else self.noisy[place]  # parts take slices alone
        table = own.reshape((*self._many, *shape)) / measurements.on_lattice[0][number]
        for axis, i in enumerate(subset, start=len(self._many)):
            table = measurements.strategies[i].recover(table, axis)
        return np.asarray(table)
