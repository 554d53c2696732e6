"""Whether some dataset has given tables: a histogram with them, an inequality that proves there is none, or not known.

Tables that agree with each other and are not negative need not belong to any dataset: of three binary attributes, each
pair can say "always different". Where their sets form a tree (a hypergraph without cycles) agreement is enough.
Otherwise the dataset whose tables are nearest is found, cell by cell (`column_generation.py`). What is left between the
two is a proof: for any weights y on the cells of the tables and any histogram h with total n,
`yᵀA h ≥ n · min_c (Aᵀy)_c`; tables for which `yᵀt` is less than that by m are missed by every dataset by at least
`m/‖y‖₁` in some cell.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from residua.domain import Domain, impossible_cells
from residua.linalg.arrays import Floats
from residua.projection.column_generation import MOST_LISTED, Cells, nearest_dataset

MOST_CELLS = 2**20  # of a histogram that is written out
MOST_ROWS = 4096  # cells of tables whose nearest dataset is found cell by cell, which takes minutes
_NEAR = 1e-6  # of the total: a dataset that misses no cell by more has the tables
_TIGHT = 1.0 - 1e-4  # of the squared distance: what is proven of datasets, which is as far at best
_SETTLED = 1e-14  # of the squared total: a squared distance that is as good as 0
_MISSED = "no dataset with this total has these tables: every one misses some cell by {:,.3g} or more"


@dataclass(frozen=True, eq=False)
class Realisable:
    """Whether some dataset has the tables, counts in it not necessarily whole.

    Args:
        verdict: True, False, or None where it is not known.
        reason: why, in words.
        attributes: what the axes of the histogram are.
        histogram: a dataset as counts of cells, the nearest found; None where none was formed.
        records: the same as counts of some cells, each a tuple of codes; None where none was formed.
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
    of = cells_of(domain, [tuple(used.index(i) for i in members) for members in tables], used)
    if not of.searchable or of.rows > MOST_ROWS:
        few = "their attributes tie too many cells together" if of.rows <= MOST_ROWS else f"{of.rows:,} cells of tables"
        return Realisable(None, f"not known: {math.prod(of.sizes):,} cells cannot be searched ({few})", names)
    t, near = np.concatenate([table.ravel() for table in tables.values()]), _NEAR * max(total, 1.0)

    def enough(q: Floats, gap: float, missed: float) -> bool:
        return float(np.abs(q).max()) <= near or missed > _TIGHT * float(q @ q) or gap <= _SETTLED * total**2

    nearest = nearest_dataset(of, t, total, enough)
    y = np.concatenate([table.ravel() for table in nearest.tables.values()])
    distance, missed = float(np.abs(y).max()), max(nearest.missed, 0.0) / max(float(np.abs(y).sum()), 1e-300)
    records = dict(zip(map(tuple, nearest.cells.tolist()), nearest.counts.tolist(), strict=True))
    histogram = np.zeros(of.sizes) if math.prod(of.sizes) <= MOST_CELLS else None
    if histogram is not None:
        histogram[tuple(nearest.cells.T)] = nearest.counts
    if distance <= near:
        return Realisable(True, "the records have these tables", names, histogram, distance, records=records)
    weights = {tuple(names[i] for i in members): table for members, table in nearest.tables.items()}
    verdict, reason = (False, _MISSED.format(missed)) if missed > near else (None, "not known: too close to tell")
    return Realisable(verdict, reason, names, histogram, distance, weights, missed, records)


def cells_of(domain: Domain, sets: Sequence[tuple[int, ...]], used: Sequence[int], **how: Any) -> Cells:
    """All cells of some attributes, for tables of sets of them (positions among those)."""
    sizes = [int(domain.sizes[i]) for i in used]
    about = any(set(domain.positions(rule.names)) <= set(used) for rule in domain.impossible)
    few = about and math.prod(sizes) <= MOST_LISTED
    forbidden = impossible_cells(domain, tuple(domain.names[i] for i in used)) if few else None
    return Cells(sets, sizes, forbidden, unsearchable=about and not few, **how)


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
