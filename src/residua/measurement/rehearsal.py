"""A rehearsal before the debit: what measuring needs is loaded and tried on nothing, so that no library fails after it.

Noise is drawn and thrown away, once as it will be drawn and once where only ball arithmetic decides; the integers of
empty tables are computed; made-up rows are counted by the compiled loop; memory that measuring takes is allocated,
touched if scarce, and given back. Nothing here sees a record.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from importlib.metadata import PackageNotFoundError, version

import numpy as np
from numpy.typing import NDArray

from residua.errors import PlanError, ResiduaError, VerificationError
from residua.linalg.arrays import Integers
from residua.linalg.conductances import nesting_of, star_network
from residua.linalg.lattice import closure, layout_of
from residua.linalg.nested_noise import AxisNoise, NestedNoise
from residua.linalg.path import OrderedNoise, range_path
from residua.machine import free_bytes
from residua.measurement.noisy import counted_alone
from residua.noise.correlated import exactly_ordered, rounded_ordered
from residua.noise.samplers import LAPLACE, NORMAL, refine, rounded
from residua.plans.measurements import Batch, Measurements, Portion
from residua.plans.noise import ORDERED
from residua.source.accumulate import PLAIN_WORK, Accumulator, Way

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
    fitting = np.where(sizes <= _MOST_CELLS, sizes, -1)
    return measurements.batches()[int(fitting.argmax())]


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
    exact = [refine(tail, Fraction(scale), int(word), _Known()) for word in _WORDS]
    if known.tolist() != exact:
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
            accumulator = Accumulator(layout, None, pool, way)
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
_BATCH_CELLS = 1_000_000  # that noise is drawn for at once, at least
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
    batches = max(
        2 * largest, 3 * min(_BATCH_CELLS * (os.cpu_count() or 1), measurements.cells)
    )  # and copies, in threads
    covering = min(_MOST_COVERING, 4 * counted)
    return int(counted + below + picked + measured + batches + covering + measurements.drawn_at_once)
