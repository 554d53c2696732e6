"""Counts in, noisy integers out, whatever the form of the plan. True counts end here.

The maximal sets are counted; those of every set below are summed from them, never counted again.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np

from residua.errors import SourceError, VerificationError
from residua.linalg.arrays import Floats, Integers
from residua.linalg.lattice import Group, Layout, SetFamily, batches, closure, layout_of
from residua.noise import rounded_laplace, rounded_normal
from residua.noise.correlated import rounded_ordered
from residua.noise.fields import rounded_field
from residua.plans.measurements import Batch, Measurements, Portion

_BATCH_CELLS = 4_000_000
PORTION_CELLS = 1 << 22  # that the tables of some groups have together


def maximal_layout(lattice: SetFamily, sizes: Integers, measured: Integers) -> Layout:
    """The sets that must be counted from data: those measured that no other measured set contains."""
    rows = [
        level[np.isin(np.arange(lattice.offsets[k], lattice.offsets[k + 1]), measured)]
        for k, level in enumerate(lattice.levels)
    ]
    needed = closure(rows, lattice.attributes)
    return layout_of(needed, sizes, needed.is_maximal)


def margins(counted: Layout, tables: Integers, wanted: Layout) -> Integers:
    """The tables of all wanted sets, in their own layout, from the tables of maximal sets. (cells,)"""
    lattice, sizes = counted.lattice, counted.sizes
    everything = layout_of(lattice, sizes)
    buffer = np.empty(everything.cells, dtype=np.int64)
    parents, axes = _parents(lattice, sizes)
    place = {group.shape: group for group in everything}
    maximal = counted.starts >= 0
    for group in reversed(everything.groups):
        target = group.view(buffer).reshape(len(group.numbers), -1)
        here = np.flatnonzero(maximal[group.numbers])
        _gather(tables, counted.starts[group.numbers[here]], target, here)
        rest = np.flatnonzero(~maximal[group.numbers])
        for shape, axis, rows in _by_parent(parents[group.numbers[rest]], axes[group.numbers[rest]], lattice, sizes):
            above = place[shape]
            for part in batches(len(rows), above.cells, _BATCH_CELLS):
                chosen = rest[rows[part]]
                at = (everything.starts[parents[group.numbers[chosen]]] - above.start) // above.cells
                target[chosen] = above.view(buffer)[at].sum(axis=axis + 1).reshape(len(chosen), -1)
    return _picked(everything, buffer, wanted)


def _parents(lattice: SetFamily, sizes: Integers) -> tuple[Integers, Integers]:
    """For each set, a set with one attribute more (−1 for none), the one with the fewest values, and its axis."""
    parents = np.full(len(lattice), -1, dtype=np.int64)
    added = np.zeros(len(lattice), dtype=np.int64)
    for i in np.argsort(-sizes, kind="stable"):
        with_i, without_i = lattice.covers[i]
        parents[without_i], added[without_i] = with_i, i
    axes = np.zeros(len(lattice), dtype=np.int64)
    for k, level in enumerate(lattice.levels):
        block = slice(lattice.offsets[k], lattice.offsets[k + 1])
        axes[block] = (level < added[block, None]).sum(axis=1)
    return parents, axes


def _by_parent(
    parents: Integers, axes: Integers, lattice: SetFamily, sizes: Integers
) -> list[tuple[tuple[int, ...], int, Integers]]:
    """Rows whose parents have one shape and lose the same axis."""
    if not len(parents):
        return []
    size = int(lattice.set_sizes[parents[0]])
    shapes = sizes[lattice.levels[size][parents - lattice.offsets[size]]]
    keys, inverse = np.unique(np.column_stack([shapes, axes]), axis=0, return_inverse=True)
    return [
        (tuple(int(n) for n in key[:-1]), int(key[-1]), np.flatnonzero(inverse.ravel() == j))
        for j, key in enumerate(keys)
    ]


def _gather(tables: Integers, starts: Integers, target: Integers, rows: Integers) -> None:
    cells = target.shape[1]
    if len(rows) == len(target) and (np.diff(starts) == cells).all() and len(rows):
        target[:] = tables[starts[0] : starts[0] + target.size].reshape(target.shape)
        return
    for row, start in zip(rows.tolist(), starts.tolist(), strict=True):
        target[row] = tables[start : start + cells]


def _picked(everything: Layout, buffer: Integers, wanted: Layout) -> Integers:
    """The wanted tables, in the wanted order; the buffer itself when that is already so."""
    if wanted.cells == everything.cells and wanted.lattice.same_sets(everything.lattice):
        return buffer
    picked = np.empty(wanted.cells, dtype=np.int64)
    for group in wanted:
        numbers = everything.lattice.find(group.members)
        _gather(buffer, everything.starts[numbers], _flat(group, picked), np.arange(len(numbers)))
    return picked


def _flat(group: Group, buffer: Integers) -> Integers:
    return group.view(buffer).reshape(len(group.numbers), -1)


Count = Callable[[Layout], Integers]  # counts the tables of a layout from the data
Step = Callable[[int, int | None], None]
Draw = Callable[[Floats, tuple[int, ...]], Integers]
_DRAWN_BY: dict[str, Draw] = {"normal": rounded_normal, "ordered": rounded_normal, "laplace": rounded_laplace}
_WORTH_THREADS = 50_000  # cells: below, starting threads costs more than they save


def portions_of(measurements: Measurements, *, kept: bool) -> Sequence[Portion]:
    """What is measured one after the other: parts where records are kept to count them again and again, else all."""
    return measurements.portions(PORTION_CELLS) if kept else [Portion(measurements)]


def noisy(measurements: Measurements, count: Count, progress: Step | None) -> Integers:
    """What measuring these measurements gives, (cells,)."""
    return with_noise(measurements, _counted(measurements, count), progress)


def noisy_in_portions(
    measurements: Measurements,
    portions: Sequence[Portion],
    count: Callable[[Portion, Layout], Integers],
    progress: Step | None,
) -> Integers:
    """The same portion by portion: only the tables of one are held."""
    if portions[0].measurements is measurements:
        return noisy(measurements, partial(count, portions[0]), progress)
    out = np.empty(measurements.cells, dtype=np.int64)
    done = 0

    def step(cells: int, _: int | None) -> None:
        if progress:
            progress(done + cells, measurements.cells)

    for portion in portions:
        measured = noisy(portion.measurements, partial(count, portion), step)
        out[portion.start : portion.start + len(measured)] = measured
        done += len(measured)
    return out


def with_noise(measurements: Measurements, tables: Integers, progress: Step | None = None) -> Integers:
    """The measurements of true tables, in the layout of `measurements.counted`, which may be overwritten, (cells,)."""
    out = tables if measurements.in_place else np.empty(measurements.cells, dtype=np.int64)

    def measured(batch: Batch) -> int:
        integers = measurements.integers(batch, tables)
        if measurements.in_place and not np.shares_memory(integers, tables):  # noise added to a copy would be no noise
            raise VerificationError(
                "the tables do not adjoin in memory; this is a defect of residua, nothing was released."
            )
        integers += _drawn(measurements, batch, integers.shape)
        if not measurements.in_place:
            measurements.store(batch, integers, out)
        return int(integers.size)

    _in_threads(measured, list(measurements.batches()), measurements.cells, progress)
    return out


def _drawn(measurements: Measurements, batch: Batch, shape: tuple[int, ...]) -> Integers:
    """The noise of a batch, exactly sampled."""
    correlated = measurements.correlation(batch)
    if correlated is not None:  # along the axis of each row of the batch, or along two
        grid = int(batch.scales[0])
        first, *others = correlated
        for second in others:
            return rounded_field(first, second, grid, shape[0]).reshape(shape)
        return rounded_ordered(first, grid, shape[0])
    return _DRAWN_BY[measurements.noise.name](batch.scales, shape)


def _counted(measurements: Measurements, count: Count) -> Integers:
    """The true tables behind the measurements: the maximal ones counted from the data, the others summed from them."""
    wanted = measurements.counted
    layout = maximal_layout(wanted.lattice, wanted.sizes, np.flatnonzero(wanted.starts >= 0))
    counts = count(layout)
    first = layout.groups[0]
    if int(counts[first.start : first.start + first.cells].sum()) > measurements.most_records:
        raise SourceError("there are more records than 64-bit measurements can hold; split the data.")
    return counts if counted_alone(wanted) and not measurements.in_place else margins(layout, counts, wanted)


def counted_alone(wanted: Layout) -> bool:
    """Whether all tables that are wanted are counted, and none is summed from another."""
    return bool((wanted.lattice.is_maximal == (wanted.starts >= 0)).all())


def _in_threads(work: Callable[[Batch], int], parts: list[Batch], total: int, progress: Step | None) -> None:
    """Does every part of the work; each says how many cells it did."""
    done = 0
    with contextlib.ExitStack() as stack:
        mapped: Callable[..., Iterable[int]] = map
        if len(parts) > 1 and total > _WORTH_THREADS:
            # Drawing noise leaves the interpreter free most of the time: threads help; each draw has its own entropy.
            mapped = stack.enter_context(ThreadPoolExecutor(max_workers=os.cpu_count())).map
        for cells in mapped(work, parts):
            done += cells
            if progress:
                progress(done, total)
