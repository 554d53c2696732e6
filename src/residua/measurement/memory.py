"""Memory, secured before the debit: what measuring takes is allocated, touched if scarce, and given back."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np

from residua.errors import PlanError
from residua.plans.blocks import Blocks

_PAGE = 4096 // 8  # cells of eight bytes
_BATCH_CELLS = 1_000_000  # that noise is drawn for at once, at least
_MOST_COVERING = 2**24  # cells of the larger tables that small ones may be counted through


def secure_memory(blocks: Blocks) -> None:
    """Refuses a plan that would run out of memory after the debit.

    Where more than half of what is free is needed, every page is touched: a process that is ended for its memory while
    doing so has spent nothing.

    Raises:
        PlanError: there is not enough memory. Nothing is spent.
    """
    needed, free = 8 * cells_needed(blocks), free_bytes()
    if free is None or needed <= free:
        try:
            reserved = np.empty(needed // 8, dtype=np.int64)
            if free is None or needed > free // 2:  # touching takes up to a tenth of the time that measuring takes
                reserved[::_PAGE] = 0
        except MemoryError:
            free = None
        else:
            return
    there = f" and about {free / 1e9:.1f} GB are free" if free is not None else ", more than can be had"
    raise PlanError(
        f"measuring this plan takes about {needed / 1e9:.1f} GB of memory{there}; nothing was spent: free some, or ask "
        "for fewer or smaller tables."
    )


def cells_needed(blocks: Blocks) -> int:
    """The most cells of eight bytes that are held at once: counts, tables below them, measurements, and batches."""
    wanted = blocks.counted
    each = np.concatenate([np.prod(wanted.sizes[level], axis=1, dtype=np.float64) for level in wanted.lattice.levels])
    counted, below, largest = each[wanted.lattice.is_maximal].sum(), each.sum(), each.max()
    picked = 0 if wanted.cells == below else wanted.cells
    measured = 0 if blocks.in_place else blocks.cells
    batches = max(2 * largest, 3 * min(_BATCH_CELLS * (os.cpu_count() or 1), blocks.cells))  # and copies, in threads
    covering = min(_MOST_COVERING, 4 * counted)
    return int(counted + below + picked + measured + batches + covering)


def free_bytes() -> int | None:
    """What the system, or the container this process runs in, has left; nothing where that cannot be told."""
    found = [_available(), _container()]
    return min((one for one in found if one is not None), default=None)


def _available() -> int | None:
    try:
        match = re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text())
    except OSError:
        return None
    return int(match[1]) * 1024 if match else None


def _container() -> int | None:
    group = Path("/sys/fs/cgroup")
    try:
        limit = (group / "memory.max").read_text().strip()
        used = int((group / "memory.current").read_text())
        cache = re.search(r"^inactive_file (\d+)", (group / "memory.stat").read_text(), flags=re.MULTILINE)
    except (OSError, ValueError):
        return None
    return int(limit) - used + int(cache[1] if cache else 0) if limit.isdigit() else None
