"""From integer measurements back to marginals: the unique unbiased linear estimate, all tables consistent.

With `z = y / (t Π n_i)` the estimate of marginal A is the table whose centred part is that of z_A and whose margins
are the estimates of A's facets: `x ← x + (margin − Σ x)/n_i` along each axis in turn. This equals
`Σ_{S⊆A} spread(C_S z_S) / Π_{i∈A∖S} n_i` with k passes instead of 2^k.

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

from residua.linalg.lattice import Lattice
from residua.linalg.layout import Group, Layout, batches, layout_of
from residua.linalg.tables import facets_of, rebuild

Floats = NDArray[np.float64]
_BATCH_CELLS = 500_000  # they stay in the cache between being made and being used


class Measured(Protocol):
    """Where each residual lies in a buffer, and what one step of its numbers stands for, inverted."""

    @property
    def lattice(self) -> Lattice:
        """The family of sets."""
        ...

    @property
    def sizes(self) -> NDArray[np.int64]:
        """How many values each attribute has."""
        ...

    @property
    def measured(self) -> NDArray[np.int64]:
        """Numbers of the sets something is known of."""
        ...

    @property
    def units(self) -> Floats:
        """What one step stands for, inverted, of each of those."""
        ...

    @property
    def layout(self) -> Layout:
        """Where their tables lie."""
        ...


@dataclass(frozen=True, eq=False)
class Estimator:
    """Reads marginals off measurements of residuals.

    Args:
        blocks: what was measured, and on which grid.
        measurements: the noisy integers (or pooled numbers) in the order of `blocks.layout`, (cells,).
    """

    blocks: Measured
    measurements: NDArray[Any]

    @cached_property
    def layout(self) -> Layout:
        """All sets of the family, measured or not."""
        if len(self.blocks.measured) == len(self.blocks.lattice):
            return self.blocks.layout
        return layout_of(self.blocks.lattice, self.blocks.sizes)

    @cached_property
    def _steps(self) -> Floats:
        """`1/(t Π n_i)` of each set; NaN where a residual is neither measured nor empty, so that it shows."""
        lattice = self.blocks.lattice
        steps = np.where(lattice.products(1.0 - 1.0 / self.blocks.sizes) > 0, np.nan, 0.0)
        steps[self.blocks.measured] = 1.0 / self.blocks.units
        return steps

    def marginal(self, members: tuple[int, ...]) -> Floats:
        """The estimate of one marginal, (n_1, …, n_k), attributes in the domain's order."""
        known: dict[tuple[int, ...], Floats] = {}
        for size in range(len(members) + 1):
            for subset in combinations(members, size):
                number = self.blocks.lattice.find(np.array(subset, dtype=np.int32).reshape(1, -1))
                table = np.empty((1, *(int(self.blocks.sizes[i]) for i in subset)))
                margins = [known[subset[:j] + subset[j + 1 :]].ravel() for j in range(size)]
                starts = np.cumsum([0, *(margin.size for margin in margins)])[:-1]
                lower = np.concatenate([*margins, np.empty(0)])
                rebuild(self._integers(number, table), self._steps[number], lower, starts.reshape(1, -1), table)
                known[subset] = table[0]
        return known[members]

    def all_marginals(self) -> Iterator[tuple[Group, slice, Floats]]:
        """All marginals of the family, smallest first, in batches: (group, which of its tables, estimates).

        The estimates are (tables, n_1, …, n_k), and are overwritten once the next batch is asked for.
        """
        lower, base = np.empty(0), 0
        scratch = np.empty(max(_BATCH_CELLS, *(group.cells for group in self.layout)))
        for size in range(len(self.blocks.lattice.levels)):
            groups = [group for group in self.layout if len(group.shape) == size]
            start, stop = groups[0].start, groups[-1].stop
            last = size == len(self.blocks.lattice.levels) - 1
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

    def _integers(self, numbers: NDArray[np.int64], like: Floats) -> NDArray[Any]:
        """The measurements of tables of one shape; zeros where nothing was measured. A view where they adjoin."""
        cells = like[0].size
        starts = self.blocks.layout.starts[numbers]
        if starts[0] >= 0 and (np.diff(starts) == cells).all():
            return self.measurements[starts[0] : starts[0] + like.size].reshape(like.shape)
        integers = np.zeros((len(numbers), cells), dtype=self.measurements.dtype)
        measured = np.flatnonzero(starts >= 0)
        integers[measured] = self.measurements[starts[measured, None] + np.arange(cells)]
        return integers.reshape(like.shape)
