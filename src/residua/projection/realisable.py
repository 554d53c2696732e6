"""Whether some dataset has given tables: a histogram with them, an inequality that proves there is none, or not known.

Tables that agree with each other and are not negative need not belong to any dataset: of three binary attributes, each
pair can say "always different". Where their sets form a tree (a hypergraph without cycles) agreement is enough.
Otherwise a histogram h ≥ 0 is looked for whose margins `A h` differ from the tables t by at most r in any cell, with
the least r, by linear programming. Its dual is a proof: for any weights y on the cells of the tables and any histogram
h with total n, `yᵀA h ≥ n · min_c (Aᵀy)_c`; tables for which `yᵀt` is less than that by m are missed by every dataset
by at least `m/‖y‖₁` in some cell. Both are recomputed from h and y, whatever the solver says. Over more cells than can
be listed the nearest dataset is found cell by cell (`column_generation.py`), with the same two proofs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from residua.domain import Domain, impossible_cells
from residua.linalg.arrays import Floats
from residua.projection.column_generation import nearest_dataset

MOST_CELLS = 100_000
MOST_IN_TABLES = 800  # of tables whose nearest dataset is found cell by cell, which takes minutes
_NEAR = 1e-6  # of the total: a dataset that misses no cell by more has the tables
_FEW_NUMBERS = 2**20
_MISSED = "no dataset with this total has these tables: every one misses some cell by {:,.3g} or more"


@dataclass(frozen=True, eq=False)
class Realisable:
    """Whether some dataset has the tables, counts in it not necessarily whole.

    Args:
        verdict: True, False, or None where it is not known.
        reason: why, in words.
        attributes: what the axes of the histogram are.
        histogram: a dataset as counts of cells, the nearest found; None where none was formed.
        records: the same of more cells than are listed: counts of some cells, each a tuple of codes; None otherwise.
        distance: how far its tables are from the given ones, in counts of one cell.
        inequality: attributes → weights of a table's cells, whose sum over all tables no dataset can have; None where
            there is none.
        missed: by how much every dataset misses some cell, at least, proven.
    """

    verdict: bool | None
    reason: str
    attributes: tuple[str, ...] = ()
    histogram: Floats | None = None
    distance: float = math.inf
    inequality: Mapping[tuple[str, ...], Floats] | None = None
    missed: float = 0.0
    records: Mapping[tuple[int, ...], float] | None = None

    def __bool__(self) -> bool:
        return self.verdict is True


def realisable_tables(domain: Domain, tables: Mapping[tuple[int, ...], Floats]) -> Realisable:
    """Whether some dataset has these tables.

    Args:
        domain: what its attributes are.
        tables: positions of attributes (increasing) → the table, not negative; all agree, and none is within another.
    """
    if not tables:
        return Realisable(None, "not known: the projection holds no tables of attributes")
    total = float(next(iter(tables.values())).sum())
    if any(float(table.min()) < -_NEAR * max(total, 1.0) for table in tables.values()):
        return Realisable(False, "a cell is negative")
    used = sorted({i for members in tables for i in members})
    names = tuple(domain.names[i] for i in used)
    if not domain.impossible and is_tree(list(tables)):
        return Realisable(True, "the tables agree, and their attributes form a tree: some dataset has them", names)
    sizes = [int(domain.sizes[i]) for i in used]
    cells = math.prod(sizes)
    if cells > MOST_CELLS or cells * len(tables) > _FEW_NUMBERS * 16:
        own = {tuple(used.index(i) for i in members): table for members, table in tables.items()}
        return _cell_by_cell(own, names, sizes, forbidden=bool(domain.impossible))
    return _by_programming(domain, tables, used, names, sizes)


def _cell_by_cell(
    tables: Mapping[tuple[int, ...], Floats], names: tuple[str, ...], sizes: Sequence[int], *, forbidden: bool
) -> Realisable:
    """By column generation, where not too much is asked of it."""
    many, total = sum(table.size for table in tables.values()), float(next(iter(tables.values())).sum())
    if forbidden or many > MOST_IN_TABLES:
        why = "cells are declared impossible" if forbidden else f"{many:,} cells of tables are more than are tried"
        return Realisable(None, f"not known: {math.prod(sizes):,} cells cannot be listed, and {why}", names)
    near = _NEAR * max(total, 1.0)
    nearest = nearest_dataset(tables, sizes, near)
    if nearest is None:
        return Realisable(None, "not known: the tables tie too many attributes together to search their cells", names)
    y = np.concatenate([table.ravel() for table in nearest.tables.values()])
    distance, missed = float(np.abs(y).max()), max(nearest.missed, 0.0) / max(float(np.abs(y).sum()), 1e-300)
    kept = nearest.counts > 0
    cells = map(tuple, nearest.cells[kept].tolist())
    records = dict(zip(cells, nearest.counts[kept].tolist(), strict=True))
    if distance <= near:
        return Realisable(True, "the records have these tables", names, None, distance, records=records)
    weights = {tuple(names[i] for i in members): table for members, table in nearest.tables.items()}
    verdict, reason = (False, _MISSED.format(missed)) if missed > near else (None, "not known: too close to tell")
    return Realisable(verdict, reason, names, None, distance, weights, missed, records)


def is_tree(sets: Sequence[tuple[int, ...]]) -> bool:
    """Whether a hypergraph has no cycle: sets that share attributes with one other alone can be taken off, one by one.

    Example:
        >>> is_tree([(0, 1), (1, 2), (2, 3)]), is_tree([(0, 1), (1, 2), (0, 2)]), is_tree([(0, 1), (1, 2), (0, 1, 2)])
        (True, False, True)
    """
    left = [frozenset(each) for each in sets]
    while len(left) > 1:
        for place, one in enumerate(left):
            others = left[:place] + left[place + 1 :]
            shared = one & frozenset().union(*others)
            if any(shared <= other for other in others):
                left = others
                break
        else:
            return False
    return True


def _by_programming(
    domain: Domain,
    tables: Mapping[tuple[int, ...], Floats],
    used: Sequence[int],
    names: tuple[str, ...],
    sizes: Sequence[int],
) -> Realisable:
    from scipy.optimize import linprog
    from scipy.sparse import csr_array, hstack, vstack

    t = np.concatenate([table.ravel() for table in tables.values()])
    total = float(next(iter(tables.values())).sum())
    mask = impossible_cells(domain, names)
    possible = np.arange(math.prod(sizes)) if mask is None else np.flatnonzero(~mask.ravel())
    places = _places(tables, used, sizes)[:, possible]
    columns = np.tile(np.arange(len(possible)), len(places))
    A: Any = csr_array((np.ones(places.size), (places.ravel(), columns)), shape=(len(t), len(possible)))
    ones = csr_array(np.ones((len(t), 1)))
    limits = vstack([hstack([A, -ones]), hstack([-A, -ones])], format="csr")
    cost = np.append(np.zeros(len(possible)), 1.0)
    solved = linprog(cost, A_ub=limits, b_ub=np.concatenate([t, -t]), bounds=(0, None), method="highs")
    if solved.x is None:
        return Realisable(None, f"not known: the linear program was not solved ({solved.message})", names)
    h = np.maximum(solved.x[:-1], 0.0)
    distance = float(np.abs(A @ h - t).max())
    histogram = np.zeros(math.prod(sizes))
    histogram[possible] = h
    histogram = histogram.reshape(sizes)
    near = _NEAR * max(total, 1.0)
    if distance <= near:
        return Realisable(True, "the histogram has these tables", names, histogram, distance)
    m = len(t)
    dual = np.asarray(solved.ineqlin.marginals)
    y = dual[m:] - dual[:m]
    missed = max(total * float((A.T @ y).min()) - float(y @ t), 0.0) / max(float(np.abs(y).sum()), 1e-300)
    ends = np.cumsum([table.size for table in tables.values()])[:-1]
    weights = {
        tuple(domain.names[i] for i in members): part.reshape(table.shape)
        for (members, table), part in zip(tables.items(), np.split(y, ends), strict=True)
    }
    if missed > near:
        return Realisable(False, _MISSED.format(missed), names, histogram, distance, weights, missed)
    return Realisable(None, "not known: too close to tell", names, histogram, distance, weights, missed)


def _places(
    tables: Mapping[tuple[int, ...], Floats], used: Sequence[int], sizes: Sequence[int]
) -> np.ndarray[Any, Any]:
    """Which cell of each table every cell of the histogram is in, counted on from table to table, (tables, cells)."""
    codes = np.indices(sizes).reshape(len(sizes), -1)
    start, rows = 0, []
    for members, table in tables.items():
        axes = [used.index(i) for i in members]
        rows.append(
            start + np.ravel_multi_index(tuple(codes[axes]), table.shape) if axes else np.full(codes.shape[1], start)
        )
        start += table.size
    return np.array(rows)
