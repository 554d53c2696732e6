"""Scores as integers: how far tables are from public ones, with a price that is exact.

The score of a table A is `‖m_A − μ_A‖₁`, with m the true counts and μ a table that is public already. μ is rounded to
whole numbers of 2^-16 first: `μ = M / 2^16`, so that `2^16` scores are integers, and what one record does to them is
exact, too. One record added or removed changes one cell of m by 1, hence each score by at most 1 (the triangle
inequality); k records of a person by at most k, wherever they are; a record that is replaced by at most 2. So n scores
move by at most `Δ √n` in all, and with normal noise of deviation σ they cost `n Δ² / σ²`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from residua.domain import Domain
from residua.errors import PlanError, VerificationError
from residua.linalg.arrays import Integers
from residua.linalg.lattice import closure
from residua.linalg.layout import Layout, batches, layout_of
from residua.plans.blocks import POINT, WORD, Batch, Blocks, Profile, even, require_scales, rounded_up
from residua.plans.noise import NORMAL, Noise
from residua.privacy import AddRemove, Unit

GRID = 2**16  # steps of one count
_BATCH_CELLS = 1_000_000


def records_moved(unit: Unit) -> int:
    """By how much one table changes at most, in absolute values added up, for this unit of protection."""
    contribution = unit.contribution
    return 2 if contribution is None else contribution.records


@dataclass(frozen=True, eq=False)
class ScoreBlocks(Blocks):
    """Integer scores of tables: `Σ |2^16 m − M| − Σ M`, which is 0 where there are no records.

    Args:
        layout: the tables, each scored once.
        models: M, in this layout, not negative, (cells,).
        scale: of the noise of each score before rounding, in steps of the grid.
    """

    layout: Layout
    models: Integers
    scale: float

    @property
    def noise(self) -> Noise:
        """Normal."""
        return NORMAL

    @property
    def cells(self) -> int:
        """One integer per table."""
        return sum(len(group.numbers) for group in self.layout)

    @property
    def counted(self) -> Layout:
        """The tables themselves."""
        return self.layout

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Which models, with which noise."""
        return {"models": self.models, "scale": np.array([self.scale])}

    # ---- price

    def price(self, unit: Unit) -> Fraction:
        """`n Δ² / σ²`, in fractions, rounded up to a whole number of 2^-200.

        Raises:
            VerificationError: models that are not whole numbers of the grid, or noise that cannot be sampled.
        """
        require_scales(np.array([self.scale]))
        if self.models.dtype != np.int64 or self.models.shape != (self.layout.cells,):
            raise VerificationError("the models are not whole numbers, one per cell; this is a defect.")
        if len(self.models) and (int(self.models.min()) < 0 or self.most_records < 1):
            raise VerificationError("a model is negative, or too large for 64 bits; give tables of counts.")
        each = Fraction(GRID * records_moved(unit)) / Fraction(self.scale)
        return rounded_up(self.cells * each * each)

    def profile(self) -> Profile:
        """The same in every cell."""
        cost = self.price(AddRemove())
        return even(-(-cost.numerator * POINT // cost.denominator))

    @property
    def most_records(self) -> int:
        """How many records may be counted before a score could leave 64 bits: `2^16 N + Σ M` is the most it can be."""
        largest = max((int(total) for group in self.layout for total in self._totals(group)), default=0)
        return WORD // GRID - 2 * largest // GRID - 2

    def _totals(self, group: Any) -> Integers:
        """`Σ M` of each table of a group; models are below 2^40 counts each, which `compile_scores` sees to."""
        return np.asarray(group.view(self.models).reshape(len(group.numbers), -1).sum(axis=1))

    @property
    def totals(self) -> Integers:
        """`Σ M` of each table, in the order of the scores, (tables,)."""
        parts = [self._totals(group) for group in self.layout]
        return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)

    # ---- measuring

    def batches(self) -> Sequence[Batch]:
        """Tables of one shape, about a million cells at a time."""
        found, start = [], 0
        for group in self.layout:
            for part in batches(len(group.numbers), group.cells, _BATCH_CELLS):
                count = part.stop - part.start
                found.append(Batch(start, np.full(count, self.scale), (group, part)))
                start += count
        return found

    def integers(self, batch: Batch, tables: Integers) -> Integers:
        """The scores of a batch, exactly, (tables, 1)."""
        group, part = batch.work
        true = group.view(tables)[part].reshape(part.stop - part.start, -1)
        model = group.view(self.models)[part].reshape(true.shape)
        apart = true * GRID
        apart -= model
        np.abs(apart, out=apart)
        apart -= model
        return np.asarray(apart.sum(axis=1, keepdims=True))


def compile_scores(
    domain: Domain, models: Mapping[Sequence[str], Any], scale: float
) -> tuple[ScoreBlocks, list[tuple[int, ...]]]:
    """Scores of tables beside models of them, and the sets in the order of the scores.

    Args:
        domain: what the data may hold.
        models: attributes → a table of counts, not negative; the order of attributes is the order of its axes.
        scale: of the noise of each score, in counts.

    Raises:
        PlanError: no models, or a table of another shape, not finite or negative.
    """
    if not isinstance(models, Mapping) or not models:
        raise PlanError("models is empty or no mapping; give attributes → a table of counts that is public.")
    tables: dict[tuple[int, ...], NDArray[np.float64]] = {}
    for names, given in models.items():
        positions = list(domain.positions(domain.listed(names)))
        members = tuple(sorted(positions))
        table = np.asarray(given, dtype=np.float64)
        if table.shape != tuple(int(domain.sizes[i]) for i in positions):
            raise PlanError(f"the model of {tuple(names)!r} has shape {table.shape}; give one cell per value of each.")
        if not np.isfinite(table).all() or (table < 0).any() or float(table.sum()) >= 2.0**40:
            raise PlanError(f"the model of {tuple(names)!r} holds no counts: each must be finite and not negative.")
        if members in tables:
            raise PlanError(f"there are two models of {tuple(names)!r}; give one.")
        tables[members] = table.transpose(np.argsort(positions))
    by_size: dict[int, list[tuple[int, ...]]] = {}
    for members in tables:
        by_size.setdefault(len(members), []).append(members)
    rows = [np.array(sets, dtype=np.int32).reshape(len(sets), size) for size, sets in sorted(by_size.items())]
    lattice = closure(rows, len(domain))
    chosen = np.zeros(len(lattice), dtype=bool)
    for level in rows:
        chosen[lattice.find(level)] = True
    layout = layout_of(lattice, domain.sizes, chosen)
    flat = np.zeros(layout.cells, dtype=np.int64)
    order = [tuple(row) for group in layout for row in group.members.tolist()]
    starts = (group.start + group.cells * i for group in layout for i in range(len(group.numbers)))
    for members, start in zip(order, starts, strict=True):
        table = tables[members]
        flat[start : start + math.prod(table.shape)] = np.rint(table * GRID).astype(np.int64).ravel()
    flat.setflags(write=False)
    return ScoreBlocks(layout, flat, float(scale) * GRID), order
