"""Whole numbers that span a space: its reduced rows, recognised as fractions.

A space spanned by whole numbers has one basis that is the identity on chosen cells (reduced echelon form), and its
entries are fractions; for tables, ranges and hierarchies their denominators are small. What is measured in such a basis
stays in the space exactly, however its coefficients are rounded.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import linalg

from residua.linalg.arrays import Floats, Integers
from residua.plans.matrix.loewner import standardise

LARGEST_DENOMINATOR = 720
_LARGEST_ENTRY = 2**16
_RECOGNISED = 1e-9  # how close an entry must be to a fraction; rounding errors are far below
_MOST_WORK = 2**28
_INDEPENDENT = 1e-6  # of orthonormal rows, how much of a cell must be new for it to be independent of others


def integer_rows(space: Floats) -> Integers | None:
    """Independent integer rows that span the same space as given rows, or None if none are recognised.

    Args:
        space: rows that span it, (rows, cells); the rank is theirs to RANK_TOLERANCE.
    """
    space = standardise(space).space
    rank, cells = space.shape
    if rank == cells:
        return np.eye(cells, dtype=np.int64)
    if not rank:
        return np.zeros((0, cells), dtype=np.int64)
    for pivots in (_leftmost(space), linalg.qr(space, mode="r", pivoting=True)[1][:rank]):
        found = _fractions(np.asarray(np.linalg.solve(space[:, pivots], space), dtype=np.float64))
        if found is not None and _inside(found, space):
            return found.astype(np.int64)
    return None


def joint_integer_rows(spaces: Sequence[Floats]) -> Integers | None:
    """Independent integer rows that span several spaces together, if each of them is recognised."""
    found = [integer_rows(space) for space in spaces]
    if not found or any(rows is None for rows in found):
        return None
    stacked = np.vstack([rows for rows in found if rows is not None])
    rank = int(np.linalg.matrix_rank(stacked.astype(np.float64)))
    return np.asarray(stacked[np.sort(linalg.qr(stacked.T.astype(np.float64), mode="r", pivoting=True)[1][:rank])])


def _leftmost(space: Floats) -> Integers:
    """The first cells on which the space is independent: for tables these reduce it to small whole numbers."""
    rank, cells = space.shape
    basis = np.zeros((rank, rank))
    pivots: list[int] = []
    for cell in range(cells):
        column = space[:, cell]
        for _ in range(2):  # once more for the digits lost the first time
            column = column - basis[: len(pivots)].T @ (basis[: len(pivots)] @ column)
        size = float(np.linalg.norm(column))
        if size > _INDEPENDENT:
            basis[len(pivots)] = column / size
            pivots.append(cell)
            if len(pivots) == rank:
                return np.array(pivots)
    return np.asarray(linalg.qr(space, mode="r", pivoting=True)[1][:rank])


def _fractions(reduced: Floats) -> Floats | None:
    """Rows times their common denominators, None if one has none that is small."""
    rank, cells = reduced.shape
    found = np.zeros((rank, cells))
    left = np.arange(rank)
    for denominator in range(1, LARGEST_DENOMINATOR + 1):
        if len(left) * cells * (LARGEST_DENOMINATOR - denominator) > _MOST_WORK and denominator > 16:
            return None
        scaled = reduced[left] * denominator
        whole = np.rint(scaled)
        good = np.abs(scaled - whole).max(axis=1) <= _RECOGNISED * denominator
        found[left[good]] = whole[good]
        left = left[~good]
        if not len(left):
            return found if np.abs(found).max() <= _LARGEST_ENTRY else None
    return None


def _inside(rows: Floats, space: Floats) -> bool:
    outside = rows - (rows @ space.T) @ space
    return bool(np.linalg.norm(outside, axis=1).max() <= _RECOGNISED * np.linalg.norm(rows, axis=1).max())
