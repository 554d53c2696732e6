"""Counts in, noisy integers out, whatever the form of the plan; and the rehearsal before the debit.

The maximal sets are counted; those of every set below are summed from them, never counted again. True counts end here.

Before the debit, what measuring needs is loaded and tried on nothing, so that no library fails after it. Noise is drawn
and thrown away, once as it will be drawn and once where only ball arithmetic decides; the integers of empty tables are
computed; made-up rows are counted by the compiled loop; memory that measuring takes is allocated, touched if scarce,
and given back. The rehearsal sees no record.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from functools import partial
from importlib.metadata import PackageNotFoundError, version

import numpy as np
from numpy.typing import NDArray

from residua.errors import PlanError, ResiduaError, SourceError, VerificationError
from residua.linalg.arrays import Floats, Integers
from residua.linalg.conductances import AxisNoise, NestedNoise, nesting_of, star_network
from residua.linalg.lattice import Group, Layout, SetFamily, batches, closure, layout_of
from residua.linalg.path import OrderedNoise, range_path
from residua.machine import free_bytes
from residua.measurement.parts import in_parts, in_records
from residua.noise import rounded_laplace, rounded_normal
from residua.noise.correlated import exactly_ordered, rounded_field, rounded_ordered
from residua.noise.samplers import LAPLACE, NORMAL, refine, rounded
from residua.plans.measurements import Batch, Measurements, Portion
from residua.plans.noise import ORDERED
from residua.source.accumulate import PLAIN_WORK, Accumulator, Way, tables_of_layout

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


def noisy(measurements: Measurements, count: Count, progress: Step | None, parts: int = 1) -> Integers:
    """What measuring these measurements gives, (cells,)."""
    return with_noise(measurements, _counted(measurements, count), progress, parts)


def noisy_in_portions(
    measurements: Measurements,
    portions: Sequence[Portion],
    count: Callable[[Portion, Layout], Integers],
    progress: Step | None,
    parts: int = 1,
) -> Integers:
    """The same portion by portion: only the tables of one are held."""
    if portions[0].measurements is measurements:
        return noisy(measurements, partial(count, portions[0]), progress, parts)
    out = np.empty(measurements.cells, dtype=np.int64)
    done = 0

    def step(cells: int, _: int | None) -> None:
        if progress:
            progress(done + cells, measurements.cells)

    for portion in portions:
        measured = noisy(portion.measurements, partial(count, portion), step, parts)
        out[portion.start : portion.start + len(measured)] = measured
        done += len(measured)
    return out


def with_noise(measurements: Measurements, tables: Integers, progress: Step | None = None, parts: int = 1) -> Integers:
    """The measurements of true tables, in the layout of `measurements.counted`, which may be overwritten, (cells,)."""
    out = tables if measurements.in_place else np.empty(measurements.cells, dtype=np.int64)

    def measured(batch: Batch) -> int:
        integers = measurements.integers(batch, tables)
        if measurements.in_place and not np.shares_memory(integers, tables):  # noise added to a copy would be no noise
            raise VerificationError(
                "the tables do not adjoin in memory; this is a defect of residua, nothing was released."
            )
        integers += _drawn(measurements, batch if parts == 1 else in_parts(batch, parts), integers.shape)
        if parts > 1:
            in_records(integers, parts)
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


_LIBRARIES = ("numpy", "numba", "python-flint", "pyarrow")
_MOST_CELLS = 1_000_000  # of the batch that is tried: some milliseconds
_DRAWS = 64
_WAYS: tuple[Way, Way] = ("direct", "plain")
_WORDS = np.array([2**45 + 1, 2**50 + 3, 2**60, 2**63 + 2**62 + 7], dtype=np.uint64)  # the first is beyond the table


def rehearse(measurements: Measurements, rows: int | None) -> None:
    """Tries what measuring these measurements will do.

    Args:
        measurements: what will be measured.
        rows: about how many rows will be counted, if known: few are counted without the compiled loop.

    Raises:
        VerificationError: a library is missing, of a version that does not work, or computes wrongly. Nothing is spent.
    """
    try:
        batch = _tried(measurements)
        _draw(measurements, batch)
        _integers(measurements, batch)
        if rows is None or 2 * rows * sum(len(group.numbers) for group in measurements.counted) > PLAIN_WORK:
            _count()
    except ResiduaError:
        raise
    except Exception as problem:
        raise VerificationError(
            f"a rehearsal of measuring failed on this machine, with {_versions()} ({type(problem).__name__}: "
            f"{problem}); nothing was spent: install the versions that residua asks for."
        ) from None


def _tried(measurements: Measurements) -> Batch:
    """The largest batch that is quickly done, or else the first."""
    sizes = np.diff([*(batch.start for batch in measurements.batches()), measurements.cells])
    return measurements.batches()[int(np.where(sizes <= _MOST_CELLS, sizes, -1).argmax())]


def _draw(measurements: Measurements, batch: Batch) -> None:
    """Draws as they will be drawn, and some whose words are known, which ball arithmetic must confirm."""
    if measurements.noise == ORDERED:
        noises = [noise for each in measurements.batches() for noise in measurements.correlation(each) or ()]
        _draw_ordered(any(isinstance(noise, NestedNoise) for noise in noises))
        return
    tail = {"normal": NORMAL, "laplace": LAPLACE}[measurements.noise.name]
    scale = float(batch.scales[0])
    fresh = rounded(tail, batch.scales[:1], (1, _DRAWS), None)
    if fresh.shape != (1, _DRAWS) or fresh.dtype != np.int64 or ((fresh == fresh[0, 0]).all() and scale > math.e):
        raise _wrong("noise")
    known = rounded(tail, scale, len(_WORDS), _Known())
    if known.tolist() != [refine(tail, Fraction(scale), int(word), _Known()) for word in _WORDS]:
        raise _wrong("noise")


def _draw_ordered(nested: bool) -> None:
    """Noise along a short axis, in floats and in balls; with nested groups, if there will be some."""
    q, poles, weights = np.full(_DRAWS, 1 / _DRAWS), np.array([0.1, 5.0]), np.array([3.0, 7.0])
    noise: AxisNoise = OrderedNoise(range_path(_DRAWS, 1.0, 1.0, 0.5), q, poles, weights)
    if nested:
        tree = nesting_of(_DRAWS, [(0, 9), (3, 9), (20, _DRAWS - 1)])
        assert tree is not None
        noise = NestedNoise(star_network(tree, np.ones(_DRAWS), 1.0, q, np.ones(3)), q, poles, weights)
    fresh = rounded_ordered(noise, 2**10, 1)
    known, exact = rounded_ordered(noise, 2**10, 1, _entropy=_Known()), exactly_ordered(noise, 2**10, _entropy=_Known())
    if (fresh == fresh[0, 0]).all() or not np.array_equal(known[0], exact):
        raise _wrong("noise")


class _Known:
    """The same words every time: for draws that are compared and thrown away, never for noise."""

    def words(self, count: int) -> NDArray[np.uint64]:
        return np.resize(_WORDS, count)


def _integers(measurements: Measurements, batch: Batch) -> None:
    """The integers of empty tables, which are zero whatever the strategy."""
    tables: Integers = np.zeros(measurements.counted.cells, dtype=np.int64)  # pages that are not touched take no memory
    if measurements.integers(batch, tables).any():
        raise _wrong("integers")


def _count() -> None:
    """Made-up rows, counted by the compiled loop and by NumPy."""
    layout = layout_of(closure([np.array([[0, 1]], dtype=np.int32)], 2), np.array([2, 3]))
    codes = np.array([[0, 1, 1, 0], [2, 0, 0, 1]], dtype=np.uint8)
    counted = []
    with ThreadPoolExecutor(max_workers=1) as pool:
        for way in _WAYS:
            accumulator = Accumulator(tables_of_layout(layout), None, pool, way)
            accumulator.add(codes, 4, None)
            counted.append(accumulator.finish())
    if not np.array_equal(counted[0], counted[1]):
        raise _wrong("counts")


def _wrong(what: str) -> VerificationError:
    return VerificationError(
        f"a rehearsal of measuring gave wrong {what} on this machine, with {_versions()}; nothing was spent: install "
        "the versions that residua asks for."
    )


def _versions() -> str:
    return ", ".join(f"{name} {_version(name)}" for name in _LIBRARIES)


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "missing"


_PAGE = 4096 // 8  # cells of eight bytes
_DRAWN_CELLS = 1_000_000  # that noise is drawn for at once, at least
_MOST_COVERING = 2**24  # cells of the larger tables that small ones may be counted through


def secure_memory(measurements: Measurements, portions: Sequence[Portion]) -> None:
    """Refuses a plan that would run out of memory after the debit.

    Where more than half of what is free is needed, every page is touched: a process that is ended for its memory while
    doing so has spent nothing.

    Args:
        measurements: what will be measured.
        portions: what is measured one after the other.

    Raises:
        PlanError: there is not enough memory. Nothing is spent.
    """
    cells = max(cells_needed(portion.measurements) for portion in portions) + (
        0 if portions[0].measurements is measurements else measurements.cells
    )
    needed, free = 8 * cells, free_bytes()
    if free is None or needed <= free:
        try:
            reserved = np.empty(needed // 8, dtype=np.int64)
            if free is None or needed > free // 2:  # touching takes up to a tenth of the time that measuring takes
                reserved[::_PAGE] = 0
        except MemoryError:
            free = None
        else:
            return
    there = f" and about {free / 1e9:.1f} GB are free" if free is not None else ", more than can be allocated"
    raise PlanError(
        f"measuring this plan takes about {needed / 1e9:.1f} GB of memory{there}; nothing was spent: free some, or ask "
        "for fewer or smaller tables."
    )


def cells_needed(measurements: Measurements) -> int:
    """The most cells of eight bytes that are held at once: counts, tables below them, measurements, and batches."""
    wanted = measurements.counted
    each = np.concatenate([np.prod(wanted.sizes[level], axis=1, dtype=np.float64) for level in wanted.lattice.levels])
    counted, below, largest = each[wanted.lattice.is_maximal].sum(), each.sum(), each.max()
    if not measurements.in_place and counted_alone(wanted):  # read as they are counted
        below, largest = 0, 0
    picked = 0 if wanted.cells == below or not below else wanted.cells
    measured = 0 if measurements.in_place else measurements.cells
    at_once = 3 * min(_DRAWN_CELLS * (os.cpu_count() or 1), measurements.cells)  # and copies, in threads
    batches = max(2 * largest, at_once)
    covering = min(_MOST_COVERING, 4 * counted)
    return int(counted + below + picked + measured + batches + covering + measurements.drawn_at_once)
