"""Adding batches of codes to many tables by whichever way is cheapest so far.

Three ways give the same counts: NumPy (slow but ready at once), the compiled kernel on the tables themselves, and
the compiled kernel on covering tables that are summed down at the end. Work starts with the first and moves on
when enough has been seen, or is announced, for the next to pay.
"""

from __future__ import annotations

from concurrent.futures import Executor
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from residua.linalg.layout import Layout
from residua.source.covering import Covering, cost_per_row, covering_of, sum_down
from residua.source.tables import Codes, add_plainly, tables_of_layout

PLAIN_WORK = 2e8  # increments that NumPy does in about the time Numba takes to load
Way = Literal["plain", "direct", "covering"]


class Accumulator:
    """Counts of all tables of a layout, added to batch by batch.

    Args:
        layout: the tables.
        rows_hint: about how many rows will come, if known.
        pool: threads for the kernel.
        way: one of the three ways, for tests and benchmarks; chosen by cost when not given.
    """

    def __init__(self, layout: Layout, rows_hint: int | None, pool: Executor, way: Way | None = None) -> None:
        self._tables = tables_of_layout(layout)
        self._counts = np.zeros(layout.cells, dtype=np.int64)
        self._pool = pool
        self._hint = rows_hint or 0
        self._rows = 0
        self._forced = way
        self._covering: Covering | None = None
        self._covering_counts: NDArray[np.int64] | None = None
        self._sought = False

    def add(self, codes: Codes, rows: int, weights: NDArray[np.int64] | None) -> None:
        """Adds the first `rows` columns of codes, (attributes, capacity), each `weights` times (or once)."""
        self._rows += rows
        way = self._forced or self._way(max(self._hint, self._rows))
        if way == "covering" and self._covering_counts is None:
            way = "covering" if self._seek() else "direct"
        if way == "plain":
            add_plainly(self._tables, codes, rows, weights, self._counts)
            return
        from residua.source.kernel import add_compiled

        if way == "covering" and self._covering is not None and self._covering_counts is not None:
            add_compiled(self._covering.tables, codes, rows, weights, self._covering_counts, self._pool)
        else:
            add_compiled(self._tables, codes, rows, weights, self._counts, self._pool)

    def finish(self) -> NDArray[np.int64]:
        """The counts, in the layout's buffer. Nothing may be added afterwards."""
        if self._covering is not None and self._covering_counts is not None:
            sum_down(self._covering, self._covering_counts, self._tables, self._counts)
            self._covering_counts = None
        return self._counts

    def _way(self, rows: int) -> Way:
        if rows * len(self._tables) < PLAIN_WORK:
            return "plain"
        covering = self._found()
        if covering is None:
            return "direct"
        saved = cost_per_row(self._tables.cells) - covering.cost_per_row
        return "covering" if rows * saved > covering.cost_to_sum else "direct"

    def _found(self) -> Covering | None:
        if not self._sought:
            self._covering = covering_of(self._tables)
            self._sought = True
        return self._covering

    def _seek(self) -> bool:
        covering = self._found()
        if covering is not None:
            self._covering_counts = np.zeros(covering.cells, dtype=np.int64)
        return covering is not None
