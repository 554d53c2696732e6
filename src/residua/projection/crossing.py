"""Tables of a family in coordinates along their axes, and which coordinates a table shares with smaller ones.

The coordinates of a table on A are an array with one axis per attribute, place 0 along an axis being the
total over that attribute. Those with 0 along the axes of A∖S are the coordinates y_S of the smaller set S. Only the
corner without any 0 is A's own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

from residua.linalg.arrays import Booleans, Floats, Integers
from residua.linalg.lattice import Group, Layout, SetFamily, batches, layout_of
from residua.projection import axis_kernels
from residua.projection.axes import Coordinates, PrefixSums

T = TypeVar("T", bound=np.generic)
_BATCH_CELLS = 500_000


@dataclass(frozen=True, eq=False)
class Alike(Group):
    """Some tables with the same axes, next to each other in a buffer.

    Args:
        axes: of each of them.
        Others as for `Group`.
    """

    axes: tuple[Coordinates, ...]

    def own(self, tables: Floats) -> Floats:
        """The tables' own coordinates, (tables, own cells), from all of them, (tables, cells)."""
        corner = tables.reshape(-1, *self.shape)[(slice(None), *[slice(1, None)] * len(self.axes))]
        return corner.reshape(len(self.numbers), math.prod(n - 1 for n in self.shape))

    @cached_property
    def sums_axis(self) -> int | None:
        """The axis along which these tables are kept as prefix sums, of which there is one; None: all in values."""
        return next((k for k, axis in enumerate(self.axes) if axis.in_sums), None)

    @property
    def last_weight(self) -> float:
        """How much the last prefix sum, the total along the axis, weighs beside the others."""
        assert self.sums_axis is not None
        return self.axes[self.sums_axis].total_length

    @cached_property
    def even(self) -> Floats:
        """One record spread evenly, as these tables are kept, (cells,)."""
        return crossed([axis.even_kept if isinstance(axis, PrefixSums) else axis.even for axis in self.axes])

    @cached_property
    def even_values(self) -> Floats:
        """One record spread evenly, in values, (cells,)."""
        return self.even if self.sums_axis is None else crossed([axis.even for axis in self.axes])

    def even_without(self, zeros: Booleans) -> Floats:
        """`even` without what it has in impossible cells of these tables, (tables, cells)."""
        values = np.where(zeros, 0.0, self.even_values)
        if self.sums_axis is None:
            return values
        sums = np.cumsum(values.reshape(-1, *self.shape), axis=self.sums_axis + 1)
        return np.roll(sums, 1, axis=self.sums_axis + 1).reshape(values.shape)

    @cached_property
    def cell_weights(self) -> Floats:
        """`Π d_i` of every cell, (cells,)."""
        return crossed([axis.cell_weights for axis in self.axes])

    @cached_property
    def lengths(self) -> Floats:
        """`Π length_i` of every own coordinate; of others nothing that matters, (cells,)."""
        return crossed([np.concatenate([[1.0], axis.lengths]) for axis in self.axes])

    def up(self, coordinates: Floats) -> Floats:
        """From coordinates to tables as they are kept, (tables, cells) each."""
        tables = coordinates.reshape(-1, *self.shape)
        for k, axis in enumerate(self.axes):
            tables = tables if k == self.sums_axis else axis.lifted(tables, k + 1)
        return np.array(tables, order="C").reshape(coordinates.shape)

    def down(self, tables: Floats) -> Floats:
        """What the coordinates see of a function linear in the tables: the transpose of `up`."""
        coordinates = tables.reshape(-1, *self.shape)
        for k, axis in enumerate(self.axes):
            coordinates = coordinates if k == self.sums_axis else axis.lowered(coordinates, k + 1)
        return np.ascontiguousarray(coordinates).reshape(tables.shape)

    def inverse(self, tables: Floats) -> Floats:
        """From tables as they are kept to coordinates, (tables, cells) each."""
        coordinates = tables.reshape(-1, *self.shape)
        for k, axis in enumerate(self.axes):
            if k != self.sums_axis:
                coordinates = np.concatenate(
                    [coordinates.sum(axis=k + 1, keepdims=True), axis.own(coordinates, k + 1)], axis=k + 1
                )
        return np.ascontiguousarray(coordinates).reshape(tables.shape)

    def values(self, tables: Floats) -> Floats:
        """The cells of tables as they are kept, (tables, cells) each."""
        if self.sums_axis is None:
            return tables
        cells = self.axes[self.sums_axis].lifted(tables.reshape(-1, *self.shape), self.sums_axis + 1)
        return np.ascontiguousarray(cells).reshape(tables.shape)

    def fibres(self, tables: NDArray[T]) -> NDArray[T]:
        """Tables with their prefix sums along the last axis but one, (…, outer, n, inner), without copying."""
        assert self.sums_axis is not None
        outer, inner = math.prod(self.shape[: self.sums_axis]), math.prod(self.shape[self.sums_axis + 1 :])
        return tables.reshape(*tables.shape[:-1], outer, self.shape[self.sums_axis], inner)


def crossed(vectors: Sequence[Floats]) -> Floats:
    """The outer product of vectors, flat."""
    product = np.ones(1)
    for vector in vectors:
        product = np.multiply.outer(product, vector).ravel()
    return product


@dataclass(frozen=True, eq=False)
class Crossing:
    """Where the tables of some sets of a family lie, and where their coordinates come from.

    Args:
        lattice: the family.
        axes: of each attribute; attributes alike have the same object.
        chosen: which sets' tables are laid out, (sets,).
    """

    lattice: SetFamily
    axes: Sequence[Coordinates]
    chosen: Booleans

    named: ClassVar[str] = "coordinates"

    @property
    def evens(self) -> list[Floats]:
        """Of each axis."""
        return [axis.even for axis in self.axes]

    def margin(self, attribute: int, total: Floats, own: Floats) -> Floats:
        """The table of one attribute from the total and its own coordinates."""
        return self.axes[attribute].lifted(np.concatenate([np.ravel(total), own.ravel()]), 0)

    @cached_property
    def given_layout(self) -> Layout:
        """Where the own coordinates of every set of the family lie, (n_i − 1) along each axis."""
        return layout_of(self.lattice, np.array([axis.size - 1 for axis in self.axes], dtype=np.int64))

    @cached_property
    def parts(self) -> tuple[Alike, ...]:
        """The chosen tables in the order of their buffer: those with the same axes together, in batches."""
        known = {id(axis): number for number, axis in enumerate(self.axes)}
        kinds = np.array([known[id(axis)] for axis in self.axes], dtype=np.int64)
        parts: list[Alike] = []
        start = 0
        for group in layout_of(self.lattice, kinds, self.chosen):  # by kind of axis where others go by size
            axes = tuple(self.axes[kind] for kind in group.shape)
            shape = tuple(axis.size for axis in axes)
            for part in batches(len(group.numbers), math.prod(shape), _BATCH_CELLS):
                parts.append(Alike(group.numbers[part], group.members[part], shape, start, axes))
                start = parts[-1].stop
        return tuple(parts)

    @property
    def cells(self) -> int:
        """How long the buffer is."""
        return self.parts[-1].stop if self.parts else 0

    def own(self, part: Alike) -> tuple[Integers, Integers]:
        """Where the tables' own coordinates lie in the buffer, and among all coordinates, (tables, own cells) each."""
        return self._corner(part, (1,) * len(part.axes))

    def shared(self, part: Alike) -> tuple[Integers, Integers]:
        """Where the coordinates that belong to smaller sets lie in the buffer, and among all coordinates, (cells,)."""
        corners = [corner for corner in product((0, 1), repeat=len(part.axes)) if not all(corner)]
        places = [self._corner(part, corner) for corner in corners]
        nothing = np.zeros(0, dtype=np.int64)
        here, there = (np.concatenate([nothing, *(pair[k].ravel() for pair in places)]) for k in (0, 1))
        return here, there

    def _corner(self, part: Alike, corner: tuple[int, ...]) -> tuple[Integers, Integers]:
        """The coordinates of the subset of axes that a corner (1 for each axis in it) stands for."""
        kept = np.flatnonzero(corner)
        places = np.zeros(1, dtype=np.int64)
        for axis, inside in zip(part.axes, corner, strict=True):
            along = np.arange(1, axis.size) if inside else np.zeros(1, dtype=np.int64)
            places = np.add.outer(places * axis.size, along).ravel()
        starts = self.given_layout.starts[self.lattice.find(part.members[:, kept])]
        begins = part.start + part.cells * np.arange(len(part.numbers))
        return begins[:, None] + places, starts[:, None] + np.arange(len(places))

    def gather(self, coordinates: Floats) -> Floats:
        """The tables' coordinates, own and shared, in a new buffer."""
        buffer = np.empty(self.cells)
        for part in self.parts:
            for here, there in (self.own(part), self.shared(part)):
                buffer[here] = coordinates[there]
        return buffer


@dataclass(frozen=True, eq=False)
class Below:
    """The coordinates that tables share with smaller sets: one number for each, however many tables it is in.

    Args:
        places: of these among all coordinates, increasing, (low,).
        sets: the set of each, (low,).
        lengths: `Π length_i` of each, (low,).
        here: where they are needed in the buffer of tables, part by part, (shared,).
        which: which of them is needed there, (shared,).
        spans: for each part, by the number of its first table, its piece of `here`.
    """

    places: Integers
    sets: Integers
    lengths: Floats
    here: Integers
    which: Integers
    spans: Mapping[int, slice]

    @staticmethod
    def of(crossing: Crossing) -> Below:
        """What the chosen tables of a crossing share."""
        lower = Crossing(crossing.lattice, crossing.axes, ~crossing.chosen)
        nothing = np.zeros(0, dtype=np.int64)
        places, sets, lengths = [nothing], [nothing], [np.zeros(0)]
        for part in lower.parts:
            there = lower.own(part)[1]
            places.append(there.ravel())
            sets.append(np.repeat(part.numbers, there.shape[1]))
            lengths.append(np.tile(crossed([axis.lengths for axis in part.axes]), len(there)))
        order = np.argsort(np.concatenate(places))
        ordered = np.concatenate(places)[order]
        here, which, spans, start = [nothing], [nothing], {}, 0
        for part in crossing.parts:
            at, there = crossing.shared(part)
            here.append(at)
            which.append(np.searchsorted(ordered, there))
            spans[int(part.numbers[0])] = slice(start, start + len(at))
            start += len(at)
        return Below(
            places=ordered,
            sets=np.concatenate(sets)[order],
            lengths=np.concatenate(lengths)[order],
            here=np.concatenate(here),
            which=np.concatenate(which),
            spans=spans,
        )

    def spread(self, low: Floats, buffer: Floats) -> None:
        """Writes the shared coordinates into the buffer of tables."""
        buffer[self.here] = low[self.which]

    def collect(self, part: Alike, tables: Floats, out: Floats) -> None:
        """Reads the shared coordinates of some tables, (tables, cells), into their piece of `out`, (shared,)."""
        span = self.spans[int(part.numbers[0])]
        out[span] = tables.ravel()[self.here[span] - part.start]

    def summed(self, collected: Floats) -> Floats:
        """What all tables collected of each, summed, (low,)."""
        return np.bincount(self.which, collected, len(self.places)).astype(np.float64)


_OF_LEVEL = 0.5  # of the mean length of level ends; measured, anything from 0.1 to 1 does


def weighed(crossing: Crossing, coordinates: Floats, zeros: Booleans) -> Crossing:
    """The same tables with these weights, from given coordinates of all sets; where an axis has several, the least.

    Args:
        crossing: where the tables lie.
        coordinates: of every set, (cells,).
        zeros: which cells of the tables are impossible, in the order of the crossing's buffer, or nothing.
    """
    buffer = crossing.gather(coordinates)
    level_of: dict[int, float] = {}
    for part in crossing.parts:
        if part.sums_axis is None:
            continue
        sums, even = part.fibres(part.up(part.rows(buffer))), part.fibres(part.even[None])
        ties = part.fibres(part.rows(zeros)) if zeros.size else axis_kernels.NO_ZEROS
        rising = axis_kernels.nearest_rising(sums, ties, even, 0.0, 1.0)
        level = float((rising == rising[:, :, :1]).sum(axis=2).mean())
        axis = id(part.axes[part.sums_axis])
        level_of[axis] = min(level_of.get(axis, np.inf), level)
    known = {
        id(axis): replace(axis, last=max(_OF_LEVEL * level_of[id(axis)], 1.0))
        for axis in crossing.axes
        if isinstance(axis, PrefixSums) and id(axis) in level_of
    }
    return replace(crossing, axes=[known.get(id(axis), axis) for axis in crossing.axes])


@dataclass(frozen=True, eq=False)
class Interior:
    """Tables with given margins and no empty cell, for one record: `δ ⊗ e_i + (1 − δ) ⊗ q'_i`, e_i positive.

    Args:
        evenness: δ; 0 if there are none, or if they are not known.
        rests: q' of each attribute, adding up to 1.
    """

    evenness: float
    rests: Sequence[Floats]

    def coordinates(self, layout: Layout, even: Sequence[Floats], rests: Sequence[Floats]) -> Floats:
        """The coordinates of these tables on all sets of a layout, from those of e and of q' along each attribute."""
        tables = np.empty(layout.cells)
        for group in layout:
            parts = self.evenness * _crossed(group, even) + (1.0 - self.evenness) * _crossed(group, rests)
            group.view(tables)[...] = parts
        return tables


def interior_of(fixed: Mapping[tuple[int, ...], Floats], even: Sequence[Floats]) -> Interior:
    """The interior of all tables with given margins (attribute positions → cells); `even` is e of each attribute."""
    shares: list[Floats] = list(even)
    if not fixed:
        return Interior(1.0, shares)
    total = float(fixed.get((), np.asarray(0.0)))
    if total <= 0 or any(len(members) > 1 for members in fixed):
        return Interior(0.0, shares)
    for members, cells in fixed.items():
        if members:
            shares[members[0]] = cells / total
    delta = min(float((share / e).min()) for share, e in zip(shares, even, strict=True))
    if not 1e-12 < delta < 1.0 - 1e-12:
        return Interior(float(delta > 0.5), even)
    return Interior(delta, [(share - delta * e) / (1.0 - delta) for share, e in zip(shares, even, strict=True)])


def _crossed(group: Group, vectors: Sequence[Floats]) -> Floats:
    """Outer products of the members' vectors, (tables, n_1, …, n_k)."""
    tables = np.ones(len(group.numbers))
    for j in range(group.members.shape[1]):
        along = np.stack([vectors[i] for i in group.members[:, j]])
        tables = tables[..., None] * along.reshape(len(along), *[1] * j, along.shape[1])
    return tables
