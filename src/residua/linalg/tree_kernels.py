"""Compiled loops over the nodes of a tree."""

from __future__ import annotations

from typing import Any

from residua.compiling import compiled


@compiled
def add_rows(parents: Any, rows: Any, out: Any) -> None:
    """Adds each row to its parent's."""
    for i in range(rows.shape[0]):
        to = parents[i]
        for j in range(rows.shape[1]):
            out[to, j] += rows[i, j]
