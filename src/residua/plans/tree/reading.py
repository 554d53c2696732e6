"""Estimates from measurements of a tree: least squares, one pass up and one down, whatever is asked read off that.

The pass up goes through the measurements of the finest level in parts and keeps sums over their parents alone, so that
tables of any level but the finest are read without holding the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from residua.errors import PlanError
from residua.linalg.arrays import Floats, Integers
from residua.plans.cells import Grouping
from residua.plans.questions import combined, in_one_table
from residua.plans.reading import Answerable, Combination, Reading
from residua.plans.tree.blocks import TreeBlocks
from residua.plans.tree.intervals import laplace_widths
from residua.plans.tree.rows import AnyRows, Nodes, Runs, Term, TreeRows, short_factors, terms_of, tree_rows
from residua.workload import Identity, Workload

_PART = 4_000_000  # integers read at once


@dataclass(frozen=True, eq=False)
class TreeReading(Reading):
    """Estimates over a tree.

    Args:
        plan: the plan as it was measured.
        blocks: what was measured.
        measurements: the noisy integers, (cells,).
    """

    plan: Any
    blocks: TreeBlocks
    measurements: Integers

    @property
    def summary(self) -> str:
        """What was measured, in words."""
        levels = self.blocks.nesting.root + 1
        return f"{self.blocks.cells:,} integers in the nodes of {self.plan.name!r}, on {levels} levels."

    # ---- least squares over the tree

    def _measured(self, number: int, level: int, rows: slice) -> Integers:
        """What was measured of some nodes, on the grid, (nodes, cells)."""
        each = self.blocks.sets[number]
        low, high, _ = rows.indices(self.blocks.nesting.sizes[level])
        start = self.blocks.place(number, level)
        part = self.measurements[start + low * each.cells : start + high * each.cells]
        return np.asarray(part, dtype=np.int64).reshape(-1, each.cells)

    @cached_property
    def _kept(self) -> dict[int, tuple[dict[int, Floats], Floats]]:
        return {}

    def _inner(self, number: int) -> tuple[dict[int, Floats], Floats]:
        """Estimates of all nodes above the finest level; and of the next one, sums of what is measured below it."""
        if number not in self._kept:
            self._kept[number] = self._passes(number)
        return self._kept[number]

    def _passes(self, number: int) -> tuple[dict[int, Floats], Floats]:
        from residua.plans.tree.kernels import add_rows  # loads Numba

        each, nesting = self.blocks.sets[number], self.blocks.nesting
        solved, unit, start = self.plan.facts[number].solved, each.unit, each.start
        if start == nesting.root:
            return {start: self._measured(number, start, slice(None)) / unit}, np.zeros((0, each.cells))
        sums = np.zeros((nesting.sizes[start + 1], each.cells), dtype=np.int64)
        for rows in self._parts(number):
            add_rows(nesting.parents[start][rows], self._measured(number, start, rows), sums)
        up, below = {}, {start + 1: sums / unit}
        for level in range(start + 1, nesting.root + 1):
            k = level - start
            z, u = solved.z[k][:, None], solved.u[k][:, None]
            up[level] = below[level] * (z / u)
            if len(each.scales[k]):
                tau = np.broadcast_to(self.plan.precisions[number][k], nesting.sizes[level])[:, None]
                up[level] += z * tau * (self._measured(number, level, slice(None)) / unit)
            if level < nesting.root:
                above = np.zeros((nesting.sizes[level + 1], each.cells))
                add_rows(nesting.parents[level], up[level], above)
                below[level + 1] = above
        for level in range(nesting.root - 1, start, -1):
            parent = nesting.parents[level]
            change = up[level + 1] - below[level + 1]
            up[level] += solved.k[level - start][:, None] * change[parent]
        return up, up[start + 1] - below[start + 1]

    def _parts(self, number: int) -> Iterator[slice]:
        each = self.blocks.sets[number]
        rows = max(_PART // each.cells, 1)
        size = self.blocks.nesting.sizes[each.start]
        return (slice(low, min(low + rows, size)) for low in range(0, size, rows))

    def nodes(self, number: int, rows: Nodes) -> Floats:
        """Estimates of the residual of one set in some nodes, (nodes, cells)."""
        each, nesting = self.blocks.sets[number], self.blocks.nesting
        inner, change = self._inner(number)
        if rows.level > each.start or each.start == nesting.root:
            return rows.picked(inner[rows.level])
        solved, parent = self.plan.facts[number].solved, rows.picked(nesting.parents[each.start])
        if rows.chosen is None:
            own = self._measured(number, each.start, slice(None)) / each.unit
        else:
            start, cells = self.blocks.place(number, each.start), np.arange(each.cells)
            own = self.measurements[start + rows.chosen[:, None] * each.cells + cells] / each.unit
        own += solved.k[0][parent][:, None] * change[parent]
        return np.asarray(own)

    def _along(self, number: int, rows: TreeRows) -> Floats:
        """Estimates of the residual of one set along what is asked of the tree, (rows, cells)."""
        if isinstance(rows, Nodes):
            return self.nodes(number, rows)
        if isinstance(rows, Runs) and self.blocks.sets[number].start == 0:
            sums = np.cumsum(self.nodes(number, Nodes(0)), axis=0)
            if not rows.ranges:
                return np.asarray(sums)
            first, last = rows.ends()
            return np.asarray(sums[last] - np.concatenate([np.zeros((1, sums.shape[1])), sums])[first])
        level, coefficients = self.plan.facts[number].injected(rows)
        return np.asarray(coefficients.T @ self.nodes(number, Nodes(level)))

    # ---- what is read off

    def _term(self, asked: Term) -> Floats:
        """Estimates of all queries of one term, one axis per attribute in the domain's order."""
        parts = [self.rows(asked, rows) for rows in tree_rows(asked.get(self.plan.attribute), self.plan.nesting)]
        found = np.concatenate(parts) if len(parts) > 1 else parts[0]
        if self.plan.attribute not in asked:
            return np.asarray(found[0])
        return np.moveaxis(found, 0, sorted(asked).index(self.plan.attribute))

    def rows(self, asked: Term, rows: TreeRows) -> Floats:
        """Estimates of some rows along the tree crossed with what is asked of short attributes, the tree first."""
        plan = self.plan
        short = tuple(i for i in sorted(asked) if i != plan.attribute)
        factors = {i: short_factors(asked[i], int(plan.domain.sizes[i])) for i in short}
        number = {facts.members: k for k, facts in enumerate(plan.facts)}
        shape = (rows.count(plan.nesting), *(len(factors[i][0]) for i in short))
        total = np.zeros(shape)
        for facts, _ in plan.needed(short, factors):
            own = number[facts.members]
            found = self._along(own, rows).reshape(-1, *self.blocks.sets[own].sizes)
            for axis, i in enumerate(short, start=1):
                matrix, _, means = factors[i]
                if i in facts.members:
                    found = found - found.mean(axis=axis, keepdims=True)  # noise has no part outside the residual
                    plain = matrix.shape[0] == matrix.shape[1] and np.array_equal(matrix, np.eye(len(matrix)))
                    found = found if plain else np.moveaxis(np.tensordot(found, matrix, (axis, 1)), -1, axis)
                else:
                    found = np.expand_dims(found, axis) * _on_axis(means, axis, found.ndim + 1)
            total += found
        return total

    def read(self, asked: Term) -> Floats:
        """Estimates of all queries of one term, one axis per attribute in the domain's order."""
        self._require(asked)
        return self._term(asked)

    def marginal(self, positions: tuple[int, ...]) -> Floats:
        """The estimate of a marginal, attributes in the domain's order."""
        asked: Term = {i: Identity(int(self.plan.domain.sizes[i])) for i in positions}
        return self.read(asked)

    def _require(self, asked: Term) -> None:
        if not np.isfinite(self.plan._mean(asked)):
            raise PlanError("this release cannot answer that from its tree; plan for a workload that asks for it.")

    def answers(self, workload: Workload) -> tuple[Floats, Floats]:
        """Estimates and variances of every query, (queries,) each."""
        if not workload.tabular:
            return self._listed(workload)
        terms = [asked for asked, _ in terms_of(workload)]
        for asked in terms:
            self._require(asked)
        estimates = [self._term(asked).ravel() for asked in terms]
        return (estimates[0] if len(terms) == 1 else np.concatenate(estimates)), self.plan._variances(workload)

    def _listed(self, workload: Workload) -> tuple[Floats, Floats]:
        variances = self.plan._variances(workload)
        if not np.isfinite(variances).all():
            raise PlanError("this release cannot answer a query from its tree; plan for a workload that asks for it.")
        attributes = tuple(sorted({*workload.attributes, self.plan.attribute}))
        shape = [int(self.plan.domain.sizes[i]) for i in attributes]
        rows = workload.over(attributes)
        return np.array(
            [self._table(attributes, rows[[k]].toarray().reshape(shape)) for k in range(len(variances))]
        ), variances

    def _table(self, members: tuple[int, ...], table: Floats) -> float:
        number = {facts.members: k for k, facts in enumerate(self.plan.facts)}
        found = 0.0
        for facts, rows in self.plan.projected(members, table):
            # Row and column of the same cell: what the residual of that cell contributes.
            found += float(np.trace(self._along(number[facts.members], AnyRows(rows))))
        return found

    def combination(self, combination: Combination) -> tuple[float, float]:
        """Estimate and variance of a linear combination of cells."""
        variance = self.plan.combination_variance(combination)
        if not np.isfinite(variance):
            raise PlanError("this release cannot answer that from its tree; plan for a workload that asks for it.")
        members, table = in_one_table(self.plan.domain, combined(self.plan.domain, combination))
        return self._table(members, table), variance

    def widths(self, asked: Answerable, confidence: float, together: float) -> float | Floats:
        """For Laplace noise, from what each measurement contributes to each answer."""
        if self.plan.noise.gaussian:
            return super().widths(asked, confidence, together)
        return laplace_widths(self.plan, self.blocks, asked, confidence, together)

    def whitened(self) -> tuple[Grouping, Floats, Floats]:
        """Cells, rows and measurements whose noise is independent with variance 1."""
        if not self.plan.noise.gaussian:
            raise PlanError(f"{self.plan!r} has Laplace noise; give releases with Gaussian noise.")
        grouping, rows = self.plan.over_cells()
        found, tree = [np.zeros(0)], self.plan.attribute
        for number, (each, facts) in enumerate(zip(self.blocks.sets, self.plan.facts, strict=True)):
            for level in facts.measured():
                values = self._measured(number, level, slice(None)) / each.unit
                values *= np.sqrt(facts.precisions_of(level))[:, None]
                before = sum(i < tree for i in each.members)
                found.append(np.moveaxis(values.reshape(-1, *each.sizes), 0, before).ravel())
        return grouping, rows, np.concatenate(found)


def _on_axis(values: Floats, axis: int, ndim: int) -> Floats:
    return values.reshape([-1 if a == axis else 1 for a in range(ndim)])
