"""Memory, secured before the debit: what measuring takes is allocated, touched if scarce, and given back."""

from __future__ import annotations

import os

import numpy as np

from residua.errors import PlanError
from residua.machine import free_bytes
from residua.measurement.noisy import SHARE_CELLS, counted_alone
from residua.plans.blocks import Blocks
from residua.plans.groups.blocks import GroupBlocks

_PAGE = 4096 // 8  # cells of eight bytes
_BATCH_CELLS = 1_000_000  # that noise is drawn for at once, at least
_MOST_COVERING = 2**24  # cells of the larger tables that small ones may be counted through


def secure_memory(blocks: Blocks, *, kept: bool = False) -> None:
    """Refuses a plan that would run out of memory after the debit.

    Where more than half of what is free is needed, every page is touched: a process that is ended for its memory while
    doing so has spent nothing.

    Args:
        blocks: what will be measured.
        kept: whether the records are kept, so that groups are counted in shares.

    Raises:
        PlanError: there is not enough memory. Nothing is spent.
    """
    cells = cells_in_shares(blocks) if kept and isinstance(blocks, GroupBlocks) else cells_needed(blocks)
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


def cells_in_shares(blocks: GroupBlocks) -> int:
    """The same where groups are counted share by share."""
    largest = max((cells_needed(blocks.share(k, part)) for k, part in blocks.shares(SHARE_CELLS)), default=0)
    return largest + blocks.cells


def cells_needed(blocks: Blocks) -> int:
    """The most cells of eight bytes that are held at once: counts, tables below them, measurements, and batches."""
    wanted = blocks.counted
    each = np.concatenate([np.prod(wanted.sizes[level], axis=1, dtype=np.float64) for level in wanted.lattice.levels])
    counted, below, largest = each[wanted.lattice.is_maximal].sum(), each.sum(), each.max()
    if not blocks.in_place and counted_alone(wanted):  # read as they are counted
        below, largest = 0, 0
    picked = 0 if wanted.cells == below or not below else wanted.cells
    measured = 0 if blocks.in_place else blocks.cells
    batches = max(2 * largest, 3 * min(_BATCH_CELLS * (os.cpu_count() or 1), blocks.cells))  # and copies, in threads
    covering = min(_MOST_COVERING, 4 * counted)
    return int(counted + below + picked + measured + batches + covering + blocks.drawn_at_once)
