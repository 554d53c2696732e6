"""Counts in, noisy integers out: how each kind of plan is measured. True counts end here."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from residua.errors import SourceError, VerificationError
from residua.linalg.layout import Group, Layout, batches
from residua.linalg.modes import integer_kronecker
from residua.linalg.tables import centre
from residua.measurement.margins import margins, maximal_layout
from residua.noise import rounded_laplace, rounded_normal
from residua.plans.contract import Blocks
from residua.plans.lattice.blocks import ProductBlocks
from residua.plans.lattice.price import most_product_records
from residua.plans.lattice.residual_blocks import ResidualBlocks
from residua.plans.lattice.residual_verify import most_records
from residua.plans.matrix.blocks import StrategyBlocks, most_strategy_records
from residua.plans.matrix.dense_blocks import DenseBlocks
from residua.plans.matrix.pure_blocks import PureBlocks
from residua.plans.tables.blocks import PureMarginalBlocks, most_pure_marginal_records

Integers = NDArray[np.int64]
Count = Callable[[Layout], Integers]  # counts the tables of a layout from the data, once
Step = Callable[[int, int | None], None]
Noise = Callable[[float, tuple[int, ...]], Integers]
_BATCH_CELLS = 1_000_000
_WORTH_THREADS = 50_000  # cells: below, starting threads costs more than they save


def noisy(blocks: Blocks, count: Count, progress: Step | None) -> Integers:
    """What measuring these blocks gives, (cells,)."""
    return _MEASURED_BY[type(blocks)](blocks, count, progress)


def residual_measurements(blocks: ResidualBlocks, count: Count, progress: Step | None) -> Integers:
    """`t · Ĉ_S m_S + round(s z)` for every measured set, in the order of the blocks' layout, (cells,)."""
    tables = _counted(blocks, count, blocks.layout, most_records(blocks))
    add_noise(blocks, tables, progress)
    return tables


def product_measurements(blocks: ProductBlocks, count: Count, progress: Step | None) -> Integers:
    """`t · (⊗_{i∈S} R_i) m_S + round(s z)` for every measured set, in the order of the blocks' layout, (cells,)."""
    tables = _counted(blocks, count, blocks.counted, most_product_records(blocks))
    grids, scales = _on_lattice(blocks)
    measured = np.empty(blocks.cells, dtype=np.int64)
    starts = blocks.counted.starts

    def noised(group: Group, places: Integers) -> int:
        numbers, members = group.numbers[places], group.members[places[0]]
        shape = [int(blocks.sizes[i]) for i in members]
        cells = np.arange(int(np.prod(shape)))
        m = tables[starts[numbers, None] + cells].reshape(len(places), *shape)
        strategies = [blocks.strategies[i] for i in members]
        y = integer_kronecker([None if one.identity else one.matrix for one in strategies], m)
        group.view(measured)[places] = noisy_integers(y, grids[numbers], scales[numbers])
        return group.cells * len(places)

    parts = [
        (group, alike[part])
        for group in blocks.layout
        for alike in blocks.alike(group)
        for part in batches(len(alike), group.cells, _BATCH_CELLS)
    ]
    _in_threads(noised, parts, blocks.cells, progress)
    return measured


def noisy_integers(integers: Integers, grids: Integers, scales: NDArray[np.float64]) -> Integers:
    """`t x + round(s z)` for integers of any shape, (tables, …), each table with its grid factor and noise scale."""
    cells = integers.reshape(len(integers), -1) * grids[:, None]
    return (cells + rounded_normal(scales, cells.shape)).reshape(integers.shape)


def dense_measurements(blocks: DenseBlocks, count: Count, progress: Step | None) -> Integers:
    """`B x + round(s z)`, z standard normal, (rows,)."""
    return _strategy_measurements(blocks, rounded_normal, count, progress)


def pure_measurements(blocks: PureBlocks, count: Count, progress: Step | None) -> Integers:
    """`B x + round(s z)`, z standard Laplace, (rows,)."""
    return _strategy_measurements(blocks, rounded_laplace, count, progress)


def _strategy_measurements(blocks: StrategyBlocks, noise: Noise, count: Count, progress: Step | None) -> Integers:
    x = blocks.merged(count(blocks.counted))
    _require_room(int(x.sum()), most_strategy_records(blocks))
    measurements = blocks.strategy @ x
    measurements += noise(blocks.scale, measurements.shape)
    if progress:
        progress(len(measurements), len(measurements))
    return np.asarray(measurements)


def pure_marginal_measurements(blocks: PureMarginalBlocks, count: Count, progress: Step | None) -> Integers:
    """`t · m_A + round(s z)`, z standard Laplace, for every measured set, in the order of the layout, (cells,)."""
    layout = maximal_layout(blocks.lattice, blocks.sizes, blocks.measured)
    counts = count(layout)
    first = layout.groups[0]
    records = int(counts[first.start : first.start + first.cells].sum())
    _require_room(records, most_pure_marginal_records(blocks))
    tables = margins(layout, counts, blocks.layout)
    del counts
    place = np.searchsorted(blocks.measured, np.arange(len(blocks.lattice)))
    done = 0
    for group in blocks.layout:
        for part in batches(len(group.numbers), group.cells, _BATCH_CELLS):
            at = place[group.numbers[part]]
            start = group.start + group.cells * part.start
            cells = tables[start : start + group.cells * len(at)].reshape(len(at), group.cells)  # a view: it adjoins
            cells *= blocks.grids[at, None]
            cells += rounded_laplace(blocks.scales[at], cells.shape)
            done += cells.size
            if progress:
                progress(done, len(tables))
    return tables


def add_noise(blocks: ResidualBlocks, tables: Integers, progress: Step | None) -> None:
    """`m ← t · Ĉ m + round(s z)` for every measured table, in place, in batches."""
    grids, scales = _on_lattice(blocks)

    def noised(group: Group, part: slice) -> int:
        numbers = group.numbers[part]
        add_noise_to(group.view(tables)[part], grids[numbers], scales[numbers])
        return group.cells * len(numbers)

    parts = [
        (group, part) for group in blocks.layout for part in batches(len(group.numbers), group.cells, _BATCH_CELLS)
    ]
    _in_threads(noised, parts, len(tables), progress)


def add_noise_to(tables: Integers, grids: Integers, scales: NDArray[np.float64]) -> None:
    """The same for tables of one shape, (tables, n_1, …, n_k), each with its grid factor and noise scale."""
    centre(tables)
    cells = tables.reshape(len(tables), -1)
    if not np.shares_memory(cells, tables):  # noise added to a copy would be no noise
        raise VerificationError(
            "the tables do not adjoin in memory; this is a defect of residua, nothing was released."
        )
    cells *= grids[:, None]
    cells += rounded_normal(scales, cells.shape)


def _counted(blocks: ResidualBlocks | ProductBlocks, count: Count, wanted: Layout, most: int) -> Integers:
    """The true tables of a layout: the maximal ones counted from the data, the others summed from them."""
    layout = maximal_layout(blocks.lattice, blocks.sizes, blocks.measured)
    counts = count(layout)
    first = layout.groups[0]
    _require_room(int(counts[first.start : first.start + first.cells].sum()), most)
    return margins(layout, counts, wanted)


def _on_lattice(blocks: ResidualBlocks | ProductBlocks) -> tuple[Integers, NDArray[np.float64]]:
    """Grid factor and noise scale of every set of the family, 0 where nothing is measured."""
    grids, scales = np.zeros(len(blocks.lattice), dtype=np.int64), np.zeros(len(blocks.lattice))
    grids[blocks.measured], scales[blocks.measured] = blocks.grids, blocks.scales
    return grids, scales


def _in_threads(work: Callable[..., int], parts: Sequence[tuple[Any, ...]], total: int, progress: Step | None) -> None:
    """Does every part of the work; each says how many cells it did."""
    done = 0
    with contextlib.ExitStack() as stack:
        mapped: Callable[..., Iterable[int]] = map
        if len(parts) > 1 and total > _WORTH_THREADS:
            # Drawing noise leaves the interpreter free most of the time: threads help; each draw has its own entropy.
            mapped = stack.enter_context(ThreadPoolExecutor(max_workers=os.cpu_count())).map
        for cells in mapped(work, *zip(*parts, strict=True)):
            done += cells
            if progress:
                progress(done, total)


def _require_room(records: int, most: int) -> None:
    if records > most:
        raise SourceError("there are more records than 64-bit measurements can hold; split the data.")


_MEASURED_BY: dict[type[Blocks], Callable[[Any, Count, Step | None], Integers]] = {
    ResidualBlocks: residual_measurements,
    DenseBlocks: dense_measurements,
    ProductBlocks: product_measurements,
    PureBlocks: pure_measurements,
    PureMarginalBlocks: pure_marginal_measurements,
}
