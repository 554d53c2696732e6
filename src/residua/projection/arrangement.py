"""How tables kept as residuals lie, maximal tables apart from those below, and the repair of cells still negative.

Attributes are renumbered by size, so that rows are long and loops are fast.

Feasibility repair gives each cell that is still negative mass of its own, and takes the same share of everything. Let
D_A be what the cells of the maximal table A lack. The histogram `h = Σ_A D_A ⊗ Π_{i∉A} p_i` over the whole domain is
not negative, and neither is any of its tables; that on A has at least D_A. So `(1 − s) y + s t h/D`, with t the total
of the tables y, D that of h and `s = D/(D + t)`, has no negative cell and the total t. Nothing over the whole domain is
formed: h's table on S is the sum of what all A ⊇ S lack, made to have the margins of h, along each axis in turn, by
adding p_i times what they differ by.

p is the tables' own margin of each attribute, so that h changes single attributes little and puts most of its mass
where there are records. Where margins of single attributes are public, a product of margins is mixed in that makes up
for what h has too much of, so that they stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from residua.linalg.arrays import Floats, Integers, centred
from residua.linalg.lattice import Group, Layout, SetFamily, batches, closure, facets_of, layout_of
from residua.projection import table_kernels
from residua.projection.crossing import Interior

T = TypeVar("T", bound=np.generic)
_BATCH_CELLS = 250_000


@dataclass(frozen=True, eq=False)
class TableBatch(Group):
    """Some maximal tables of one shape: where they, their margins and their own means lie.

    Args:
        facets: where each margin without one axis begins among the lower tables, (tables, k).
        owned: where each table's own means along one axis begin, (tables, k).
        Others as for `Group`.
    """

    facets: Integers
    owned: Integers

    @cached_property
    def starts(self) -> Integers:
        """Where each table begins among the maximal tables, (tables,)."""
        return self.start + self.cells * np.arange(len(self.numbers))

    @cached_property
    def sides(self) -> Integers:
        """How many values each axis has, (k,)."""
        return np.array(self.shape, dtype=np.int64)

    def own(self, tables: Floats) -> Floats:
        """The tables' own coordinates, (tables, cells): all of them."""
        return tables

    def store_means(self, tables: Floats, means: Floats) -> None:
        """Writes the means of tables, (tables, cells), along each axis where they are owned."""
        for axis, owned in enumerate(self.owned.T, start=1):
            mean = tables.reshape(-1, *self.shape).mean(axis=axis).reshape(len(tables), -1)
            means[owned[:, None] + np.arange(mean.shape[1])] = mean


@dataclass(frozen=True, eq=False)
class Arrangement:
    """The sets of a family with attributes renumbered by size.

    Args:
        given: the family as it came.
        given_sizes: how many values each attribute has, in the order in which they came.
    """

    given: SetFamily
    given_sizes: Integers

    named: ClassVar[str] = "residuals"

    def __post_init__(self) -> None:
        object.__setattr__(self, "given_sizes", np.asarray(self.given_sizes, dtype=np.int64))

    @cached_property
    def given_layout(self) -> Layout:
        """Where the residual of every set lies as it came."""
        return layout_of(self.given, self.given_sizes)

    @cached_property
    def evens(self) -> list[Floats]:
        """Equal shares of the values of each attribute as it came."""
        return [np.full(int(n), 1.0 / n) for n in self.given_sizes]

    def margin(self, attribute: int, total: Floats, own: Floats) -> Floats:
        """The table of one attribute from the total and its residual."""
        return own + total / own.size

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
        return np.sort(np.argsort(self._order).astype(np.int32)[rows], axis=1)

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
        return np.concatenate([np.repeat(group.numbers, group.cells) for group in self.low])

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

    def single(self, attribute: int, top: Floats, low: Floats) -> Floats | None:
        """The part of a buffer that is about one attribute alone, (values,); None if no set has the attribute."""
        number = self.lattice.number((attribute,))
        if number < 0:
            return None
        layout, tables = (self.low, low) if self.low.starts[number] >= 0 else (self.top, top)
        return tables[layout.starts[number] :][: self.sizes[attribute]]

    # ---- the maximal tables

    @cached_property
    def parts(self) -> tuple[TableBatch, ...]:
        """The maximal tables in parts, of about equal work."""
        parts, end = [], 0
        for group in self.top:
            lengths = group.cells // np.array(group.shape, dtype=np.int64)
            places = np.concatenate([[0], np.cumsum(lengths)[:-1]])
            owned = end + np.arange(len(group.numbers))[:, None] * lengths.sum() + places
            end += int(lengths.sum()) * len(group.numbers)
            facets = facets_of(group, self.low)
            for part in batches(len(group.numbers), group.cells, _BATCH_CELLS):
                start = group.start + group.cells * part.start
                parts.append(
                    TableBatch(group.numbers[part], group.members[part], group.shape, start, facets[part], owned[part])
                )
        return tuple(sorted(parts, key=lambda part: part.start - part.stop))

    @cached_property
    def owned_cells(self) -> int:
        """How many means the maximal tables have of their own."""
        return sum(int((part.cells // part.sides).sum()) * len(part.numbers) for part in self.parts)

    # ---- the lower tables

    @cached_property
    def low_tables(self) -> tuple[Integers, Integers, Integers, Integers, Integers]:
        """Start, shape, number of axes, starts of the facets and of the axes' shares of each lower table, in order."""
        lattice, numbers = self.lattice, np.flatnonzero(~self.lattice.is_maximal)
        ways = lattice.set_sizes[numbers]
        shapes = np.ones((len(numbers), max(len(lattice.levels) - 1, 1)), dtype=np.int64)
        facets, begins = np.zeros_like(shapes), np.zeros_like(shapes)
        for k, level in enumerate(lattice.levels):
            here = ways == k
            members = level[numbers[here] - lattice.offsets[k]]
            shapes[here, :k], begins[here, :k] = self.sizes[members], self._begins[members]
            for j in range(k):
                facets[here, j] = self.low.starts[lattice.find(np.delete(members, j, axis=1))]
        return self.low.starts[numbers], shapes, ways, facets, begins

    def centre(self, tables: Floats) -> None:
        """Centres the lower tables along every axis, in place."""
        for group in self.low:
            group.view(tables)[...] = centred(group.view(tables), 1)

    @cached_property
    def even(self) -> Floats:
        """Equal shares of the values of every attribute, (values of all,)."""
        return np.repeat(1.0 / self.sizes, self.sizes)

    @cached_property
    def _begins(self) -> Integers:
        """Where the values of each attribute begin among those of all."""
        return np.cumsum(self.sizes) - self.sizes

    def with_margins(self, tables: Floats, part: TableBatch, lower: Floats, shares: Floats) -> None:
        """Gives maximal tables the margins in `lower`, spread by the attributes' shares, in place."""
        shapes, ways = np.broadcast_to(part.sides, part.members.shape), np.full(len(part.members), len(part.shape))
        begins = self._begins[part.members]
        table_kernels.spread_each(tables, part.starts, shapes, ways, lower, part.facets, shares, begins)

    def consistent(self, tables: Floats, shares: Floats) -> None:
        """Gives the lower tables each other's margins, spread by the attributes' shares, small sets first, in place."""
        starts, shapes, ways, facets, begins = self.low_tables
        table_kernels.spread_each(tables, starts, shapes, ways, tables, facets, shares, begins)

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
        for ways in sorted({len(part.shape) for part in self.parts}):
            parts = [part for part in self.parts if len(part.shape) == ways]
            begins = np.concatenate([part.owned.ravel() for part in parts])
            inners = np.concatenate([np.tile(part.cells // part.sides, len(part.numbers)) for part in parts])
            places = np.concatenate([part.facets.ravel() for part in parts])
            numbers = np.concatenate([np.repeat(part.numbers, ways) for part in parts])
            one = np.ones(len(begins), dtype=np.int64)
            by_size.append((ways, numbers, (begins, one, one, inners, places)))
        return tuple(by_size)

    @cached_property
    def _downward(self) -> dict[int, tuple[Integers, ...]]:
        """For each size of lower sets: every table and axis, and where the mean along it goes."""
        starts, shapes, ways, facets, _ = self.low_tables
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


@dataclass(frozen=True, eq=False)
class Repair:
    """What is to be mixed in, for tables of total 1, in residuals of the maximal tables and of those below.

    Args:
        share: s, how much of it.
        top: its residuals of the maximal tables, (cells,).
        low: its residuals of those below, (cells,).
    """

    share: float
    top: Floats
    low: Floats


def repair_of(
    arrangement: Arrangement,
    top: Floats,
    low: Floats,
    least: Floats,
    fixed: Mapping[int, Floats],
    on_parts: Callable[[Callable[[TableBatch], None]], object],
) -> Repair | None:
    """What to mix into residuals so that no cell is below zero; None if nothing has to be, or nothing helps.

    Args:
        arrangement: where tables lie.
        top: residuals of the maximal tables, (cells,).
        low: of the tables below them, (cells,), of a positive total.
        least: what the cells of each set should have at least before anything is taken from them, (sets,).
        fixed: attributes (as renumbered) whose margin must stay, and that margin's shares, all positive.
        on_parts: does some work on each part of the maximal tables.
    """

    def margin(tables: Floats, lower: Floats, attribute: int) -> Floats:
        single = arrangement.single(attribute, tables, lower)
        return np.ones(arrangement.sizes[attribute]) if single is None else np.maximum(single, 0.0)

    total = float(low[arrangement.low.starts[0]])
    tables, h = top.copy(), low.copy()
    arrangement.consistent(h, arrangement.even)
    on_parts(lambda part: arrangement.with_margins(tables, part, h, arrangement.even))
    margins = [margin(tables, h, i) for i in range(len(arrangement.sizes))]
    own = np.empty(arrangement.owned_cells)

    def lacking(part: TableBatch) -> None:
        rows = part.rows(tables)
        rows[:] = np.maximum(least[part.numbers, None] - rows, 0.0)
        part.store_means(rows, own)

    on_parts(lacking)
    cells = arrangement.lattice.products(arrangement.sizes.astype(np.float64))
    h = arrangement.summed_down(own, cells) / cells[arrangement.low_sets]
    mass = float(h[arrangement.low.starts[0]])
    if not mass > 0.0:
        return None
    rests = [margin / margin.sum() for margin in margins]
    shares = np.concatenate(rests)
    arrangement.consistent(h, shares)
    on_parts(lambda part: arrangement.with_margins(tables, part, h, shares))
    parts = {i: margin(tables, h, i) / mass for i in fixed}
    theta = min([1.0, *(float((share / np.maximum(parts[i], 1e-300)).min()) for i, share in fixed.items())])
    if not theta > 1e-9:
        return None

    def scaled(part: TableBatch) -> None:
        part.view(tables)[...] = centred(part.view(tables), 1) * (theta / mass)

    on_parts(scaled)
    arrangement.centre(h)
    h *= theta / mass
    if theta < 1.0:
        for i, share in fixed.items():
            rests[i] = (share - theta * parts[i]) / (1.0 - theta)
        product, zero = [rest - 1.0 / len(rest) for rest in rests], [np.zeros(len(rest)) for rest in rests]
        for layout, out in ((arrangement.top, tables), (arrangement.low, h)):
            out += Interior(theta, product).coordinates(layout, zero, product)
    h[arrangement.low.starts[0]] = 1.0
    return Repair(mass / (mass + total * theta) * (1.0 + 1e-9), tables, h)
