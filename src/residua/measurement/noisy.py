"""Counts in, noisy integers out, whatever the form of the plan. True counts end here."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from residua.errors import SourceError, VerificationError
from residua.linalg.arrays import Floats, Integers
from residua.linalg.layout import Layout
from residua.measurement.margins import margins, maximal_layout
from residua.noise import rounded_laplace, rounded_normal
from residua.plans.blocks import Batch, Blocks

Count = Callable[[Layout], Integers]  # counts the tables of a layout from the data, once
Step = Callable[[int, int | None], None]
Draw = Callable[[Floats, tuple[int, ...]], Integers]
_DRAWN_BY: dict[str, Draw] = {"normal": rounded_normal, "laplace": rounded_laplace}
_WORTH_THREADS = 50_000  # cells: below, starting threads costs more than they save


def noisy(blocks: Blocks, count: Count, progress: Step | None) -> Integers:
    """What measuring these blocks gives, (cells,)."""
    return with_noise(blocks, _counted(blocks, count), progress)


def with_noise(blocks: Blocks, tables: Integers, progress: Step | None = None) -> Integers:
    """The measurements of true tables, in the layout of `blocks.counted`, which may be overwritten, (cells,)."""
    out = tables if blocks.in_place else np.empty(blocks.cells, dtype=np.int64)
    draw = _DRAWN_BY[blocks.noise.name]

    def measured(batch: Batch) -> int:
        integers = blocks.integers(batch, tables)
        if blocks.in_place and not np.shares_memory(integers, tables):  # noise added to a copy would be no noise
            raise VerificationError(
                "the tables do not adjoin in memory; this is a defect of residua, nothing was released."
            )
        integers += draw(batch.scales, integers.shape)
        if not blocks.in_place:
            blocks.store(batch, integers, out)
        return int(integers.size)

    _in_threads(measured, list(blocks.batches()), blocks.cells, progress)
    return out


def _counted(blocks: Blocks, count: Count) -> Integers:
    """The true tables behind the blocks: the maximal ones counted from the data, the others summed from them."""
    wanted = blocks.counted
    layout = maximal_layout(wanted.lattice, wanted.sizes, np.flatnonzero(wanted.starts >= 0))
    counts = count(layout)
    first = layout.groups[0]
    if int(counts[first.start : first.start + first.cells].sum()) > blocks.most_records:
        raise SourceError("there are more records than 64-bit measurements can hold; split the data.")
    return margins(layout, counts, wanted)


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
