"""What is measured of a tree: the residual in every node, as integers, with a noise scale per node; and its estimates.

For each measured level, the nodes' tables on the short attributes are measured as
`y = t (⊗ (n_i I − 11ᵀ)) m + round(s z)`. A record is in one node of each level: it pays `t² Π n_i (n_i − 1)/s²` for
every measured node on its way to the root, or with Laplace noise `t/s`. Estimates are least squares, one pass up and
one down; the pass up goes through the finest level in parts and keeps sums over parents alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple, cast

import numpy as np

from residua.errors import VerificationError
from residua.linalg.arrays import Floats, Integers
from residua.linalg.kernels import add_rows
from residua.linalg.lattice import batches, centre
from residua.plans.noise import INVISIBLE_SCALE, LAPLACE, LARGEST_SCALE
from residua.plans.operators.contract import Piece, RecordCosts
from residua.plans.operators.nesting import AnyRows, Nesting, Nodes, TreeRows, tree_rows
from residua.plans.verifier import require_scales
from residua.workload import AttributeQueries

_FINE = 2.0**14  # the least noise scale in steps of the grid: rounding adds less than a part in 10^9 to the variance
_BATCH_CELLS = 2_000_000
_PART = 4_000_000  # integers read at once


class Passes(NamedTuple):
    """Least squares over a tree: what was measured, the estimates of all nodes above the finest level by level, and by
    how much the parents of the finest level differ from the sums of what was measured below them."""

    measured: Integers
    inner: dict[int, Floats]
    change: Floats


@dataclass(frozen=True, eq=False)
class TreePiece(Piece):
    """The residual on short attributes in the nodes of a tree; nodes of the finest level first.

    Args:
        scales: the noise scale of each node, per level from the finest measured to the root: an array of one number
            for a whole level, of none where a level is not measured; of the finest level one per parent.
        Others as for `Piece`.
    """

    operator: Any  # a `TreeNodes`, which knows this module
    scales: tuple[Floats, ...]

    @property
    def nesting(self) -> Nesting:
        """The levels."""
        return cast("Nesting", self.operator.nesting)

    @property
    def start(self) -> int:
        """The finest measured level."""
        return int(self.operator.start)

    @property
    def inner(self) -> list[int]:
        """The measured levels above the finest."""
        return [self.start + k for k in range(1, len(self.scales)) if len(self.scales[k])]

    @cached_property
    def places(self) -> dict[int, int]:
        """Where the integers of each measured level begin; under −1 where they all end."""
        at, begun = 0, {}
        for level in [self.start, *self.inner]:
            begun[level] = at
            at += self.nesting.sizes[level] * self.fibres
        return {**begun, -1: at}

    @property
    def cells(self) -> int:
        """One residual per measured node."""
        return self.places[-1]

    def scales_of(self, level: int, nodes: slice) -> Floats:
        """The noise scale of some nodes of a level, (nodes,)."""
        own = self.scales[level - self.start]
        if len(own) == 1:
            return np.full(len(range(*nodes.indices(self.nesting.sizes[level]))), own[0])
        return own[self.nesting.parents[level][nodes]] if level == self.start else own[nodes]

    # ---- price

    def record_costs(self, size: int) -> RecordCosts:
        """What a record pays on its way from a value to the root; exactly where each level has one noise scale."""
        self._check(size)
        if self.operator.noise == LAPLACE:
            if self.members or any(len(scales) > 1 for scales in self.scales):
                raise VerificationError("Laplace noise is for counts of nodes, with one scale per level; plan again.")
            levels = [self.grid / Fraction(float(a[0])) if len(a) else Fraction(0) for a in self.scales]
            return RecordCosts(sum(levels, Fraction(0)), replaced=2 * sum(levels[:-1], Fraction(0)))
        factor = self.grid**2 * self.heaviest
        if all(len(scales) <= 1 for scales in self.scales):
            return RecordCosts(sum((factor / Fraction(float(s)) ** 2 for a in self.scales for s in a), Fraction(0)))
        way = self._ways(float(factor))
        uneven = np.broadcast_to(way, size) if len(way) == 1 else way[self.nesting.between(0, self._above)]
        # Every term is positive: three roundings per term, one per sum, and a few more.
        return RecordCosts(Fraction(0), uneven, Fraction(8 + 4 * (len(self.scales) + 1), 2**52))

    @property
    def _above(self) -> int:
        """The level of the parents of the finest level."""
        return min(self.start + 1, self.nesting.root)

    def _ways(self, factor: float) -> Floats:
        """Sums of costs from the root to the nodes of the finest level, by parent."""
        root, way = self.nesting.root, np.zeros(1)
        for level in range(root, self.start - 1, -1):
            if self.start < level < root:
                way = way[self.nesting.parents[level]] if len(way) > 1 else way
            scales = self.scales[level - self.start]
            if len(scales):
                way = way + factor / (scales * scales)
        return way

    def _check(self, size: int) -> None:
        nesting = self.nesting
        if nesting.sizes[0] != size or len(self.scales) != nesting.root - self.start + 1:
            raise VerificationError("the levels or noise scales are not those of the attribute; plan again.")
        if not isinstance(self.grid, int) or self.grid < 1:
            raise VerificationError("a grid factor is not a positive whole number; only integers are measured.")
        for k, scales in enumerate(self.scales):
            level = self.start + k
            full = nesting.sizes[self._above] if k == 0 else nesting.sizes[level]
            if len(scales) not in ((1, full) if k == 0 else (0, 1, full)):
                raise VerificationError("grids or noise scales do not fit the levels; plan again.")
            require_scales(scales)

    @property
    def scale_list(self) -> Floats:
        """Those of all levels."""
        return np.concatenate(self.scales)

    # ---- measuring

    def batches(self) -> Sequence[tuple[int, Floats, Any]]:
        """The values some at a time; all coarser levels together."""
        parts: list[tuple[int, Floats, Any]] = []
        if self.start == 0:
            listed = batches(self.nesting.sizes[0], self.fibres, _BATCH_CELLS)
            parts += [(some.start * self.fibres, self.scales_of(0, some), some) for some in listed]
        coarse = self._coarse
        if coarse:
            scales = np.concatenate([self.scales_of(level, slice(None)) for level in coarse])
            parts.append((self.places[coarse[0]], scales, None))
        return parts

    @property
    def _coarse(self) -> list[int]:
        return self.inner if self.start == 0 else [self.start, *self.inner]

    def integers(self, which: Any, table: Integers) -> Integers:
        """`t Ĉ m` of some nodes, exactly, (nodes, fibres); the root alone from the table without the attribute."""
        if not self.operator.has_values:
            return self._residual(table.reshape(1, self.fibres).copy())
        values = np.moveaxis(table, -1, 0).reshape(self.nesting.sizes[0], self.fibres)
        if which is not None:
            return self._residual(np.array(values[which]))
        coarse = self._coarse
        nodes = [np.zeros((self.nesting.sizes[coarse[0]], self.fibres), dtype=np.int64)]
        onto = self.nesting.between(0, coarse[0])
        for some in batches(len(onto), self.fibres, _BATCH_CELLS):
            _add_rows(onto[some], np.ascontiguousarray(values[some]), nodes[0])
        for low, high in pairwise(coarse):
            above = np.zeros((self.nesting.sizes[high], self.fibres), dtype=np.int64)
            _add_rows(self.nesting.between(low, high), nodes[-1], above)
            nodes.append(above)
        return self._residual(np.concatenate(nodes))

    def _residual(self, counts: Integers) -> Integers:
        counts = np.ascontiguousarray(counts)
        centre(counts.reshape(-1, *self.sizes))
        counts *= self.grid
        return counts

    # ---- estimates: least squares over the tree

    def _measured(self, measured: Integers, level: int, rows: slice) -> Integers:
        """What was measured of some nodes, on the grid, (nodes, fibres)."""
        low, high, _ = rows.indices(self.nesting.sizes[level])
        start = self.places[level]
        part = measured[start + low * self.fibres : start + high * self.fibres]
        return np.asarray(part, dtype=np.int64).reshape(-1, self.fibres)

    def prepared(self, measured: Integers) -> Passes:
        """One pass up the tree, and one down to the parents of the finest level."""
        nesting, unit, start = self.nesting, self.unit, self.start
        solved, precisions = self.operator.solved, self.operator.precisions
        if start == nesting.root:
            root = {start: self._measured(measured, start, slice(None)) / unit}
            return Passes(measured, root, np.zeros((0, self.fibres)))
        sums = np.zeros((nesting.sizes[start + 1], self.fibres), dtype=np.int64)
        for rows in batches(nesting.sizes[start], self.fibres, _PART):
            _add_rows(nesting.parents[start][rows], self._measured(measured, start, rows), sums)
        up, below = {}, {start + 1: sums / unit}
        for level in range(start + 1, nesting.root + 1):
            k = level - start
            z, u = solved.z[k][:, None], solved.u[k][:, None]
            up[level] = below[level] * (z / u)
            if len(self.scales[k]):
                tau = np.broadcast_to(precisions[k], nesting.sizes[level])[:, None]
                up[level] += z * tau * (self._measured(measured, level, slice(None)) / unit)
            if level < nesting.root:
                above = np.zeros((nesting.sizes[level + 1], self.fibres))
                _add_rows(nesting.parents[level], up[level], above)
                below[level + 1] = above
        for level in range(nesting.root - 1, start, -1):
            change = up[level + 1] - below[level + 1]
            up[level] += solved.k[level - start][:, None] * change[nesting.parents[level]]
        return Passes(measured, up, up[start + 1] - below[start + 1])

    def nodes(self, prepared: Passes, rows: Nodes) -> Floats:
        """Estimates of the residual in some nodes, (nodes, fibres)."""
        nesting = self.nesting
        measured, inner, change = prepared
        if rows.level > self.start or self.start == nesting.root:
            return rows.picked(inner[rows.level])
        parent = rows.picked(nesting.parents[self.start])
        if rows.chosen is None:
            own = self._measured(measured, self.start, slice(None)) / self.unit
        else:
            start, cells = self.places[self.start], np.arange(self.fibres)
            own = measured[start + rows.chosen[:, None] * self.fibres + cells] / self.unit
        own += self.operator.solved.k[0][parent][:, None] * change[parent]
        return np.asarray(own)

    def values(self, prepared: Passes) -> Floats:
        """Estimates at all values; below the finest measured level spread evenly."""
        own = self.nodes(prepared, Nodes(self.start))
        if self.start == 0:
            return own
        onto = self.nesting.between(0, self.start)
        return np.asarray((own / np.bincount(onto, minlength=len(own))[:, None])[onto])

    def estimates(self, prepared: Passes, asked: AttributeQueries | Nodes | None) -> Floats:
        """Along what is asked of the tree, or of some of its nodes."""
        listed = [asked] if isinstance(asked, Nodes) else tree_rows(asked, self.nesting)
        parts = [self._along(prepared, rows) for rows in listed]
        return np.concatenate(parts) if len(parts) > 1 else parts[0]

    def _along(self, prepared: Passes, rows: TreeRows) -> Floats:
        if isinstance(rows, Nodes) and rows.level >= self.start:
            return self.nodes(prepared, rows)
        values = self.values(prepared)
        if isinstance(rows, Nodes):
            return rows.picked(values)
        if isinstance(rows, AnyRows):
            return np.asarray(rows.given @ values)
        sums = np.cumsum(values, axis=0)
        if not rows.ranges:
            return np.asarray(sums)
        first, last = rows.ends()
        return np.asarray(sums[last] - np.concatenate([np.zeros((1, sums.shape[1])), sums])[first])

    def whitened(self, measured: Integers) -> Floats:
        """What was measured of each node, over its deviation."""
        rows = [np.zeros((0, self.fibres))]
        for level in self.operator.measured():
            values = self._measured(measured, level, slice(None)) / self.unit
            rows.append(values * np.sqrt(self.operator.precisions_of(level))[:, None])
        return np.concatenate(rows)


def _add_rows(parents: Any, rows: Any, out: Any) -> None:
    """Adds each row to its parent's."""
    add_rows(parents, rows, out)


# ---- for planners


def piece_of(tree: Any, members: tuple[int, ...], sizes: tuple[int, ...]) -> TreePiece:
    """The residual on some short attributes in every measured node, with noise rounded up."""
    per_scale = 2.0 if tree.noise == LAPLACE else 1.0  # the variance of noise of scale 1
    deviations = [1.0 / np.sqrt(per_scale * each) if each.any() else np.zeros(0) for each in tree.precisions]
    if not len(deviations[0]):
        raise VerificationError("the finest level of the tree is not measured; plan again.")
    least = min(float(each.min()) for each in deviations if len(each)) * math.prod(sizes)
    most = max(float(each.max()) for each in deviations if len(each)) * math.prod(sizes)
    if not 0 < least <= most < math.inf:
        raise VerificationError("the noise of the tree is no number; plan again.")
    fine = INVISIBLE_SCALE if tree.noise == LAPLACE else _FINE
    grid = max(2 ** math.ceil(math.log2(fine / least)), 1) if least < fine else 1
    while grid > 1 and grid * most > LARGEST_SCALE / 2:
        grid //= 2
    unit = float(grid * math.prod(sizes))
    scales = tuple(each * (unit * (1.0 + 2.0**-50)) for each in deviations)
    exact = tuple(unit**2 / tree.noise.variance(each) if len(each) else np.zeros(1) for each in scales)
    return TreePiece(members, sizes, replace(tree, precisions=exact), grid, scales)
