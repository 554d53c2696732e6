"""What measured residuals say: marginals rebuilt from their blocks, all consistent, and any queries of them.

The unique unbiased linear estimate is `m̂_A = Σ_{S⊆A} (⊗_{i∈S} F_i ⊗_{i∈A∖S} v_i) y_S / t_S`, facet by facet: the table
of `⊗F_i y_A / t_A`, then along each axis `x ← x + (margin − Σ x) v_i` in turn: k passes instead of 2^k. With plain
strategies (v = 1/n) all tables of one shape are rebuilt at once, and streamed.

Reference: residual-planner, Algorithm 2 and Theorem 4.7.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from residua.errors import PlanError
from residua.language import mark, say, say_many
from residua.linalg.arrays import Array, Floats, Integers, along, contrasts
from residua.linalg.lattice import Group, Layout, Set, SetFamily, batches, facets_of, layout_of, rebuild, subsets
from residua.plans.estimator import Clique, Equality, Estimator
from residua.plans.product.conditional import with_margins
from residua.plans.product.crossed_measurements import CrossedMeasurements
from residua.plans.product.set_measurements import ResidualMeasurements

_BATCH_CELLS = 500_000  # they stay in the cache between being made and being used


@dataclass(frozen=True, eq=False)
class Reconstruction:
    """Rebuilds marginals from what was measured of plain residuals, or pooled.

    Args:
        lattice: the family of sets.
        sizes: how many values each attribute has, (attributes,).
        measured: numbers of the sets something is known of, increasing, (blocks,).
        units: what one step of their numbers stands for, inverted, (blocks,).
        layout: where their tables lie.
        noisy: the noisy integers (or pooled numbers) in the order of the layout, (cells,).
    """

    lattice: SetFamily
    sizes: Integers
    measured: Integers
    units: Floats
    layout: Layout
    noisy: Array

    @cached_property
    def _whole(self) -> Layout:
        """Where the tables of all sets lie, measured or not."""
        return self.layout if len(self.measured) == len(self.lattice) else layout_of(self.lattice, self.sizes)

    @cached_property
    def _steps(self) -> Floats:
        """`1/(t Π n_i)` of each set; NaN where a residual is neither measured nor empty, so that it shows."""
        steps = np.where(self.lattice.products(1.0 - 1.0 / self.sizes) > 0, np.nan, 0.0)
        steps[self.measured] = 1.0 / self.units
        return steps

    def marginal(self, members: Set) -> Floats:
        """The estimate of one marginal, (n_1, …, n_k), attributes in the domain's order.

        What no measurement sees counts as zero: the cells themselves are unbiased only where the plan supports them,
        queries of them wherever it supports those.
        """
        known: dict[Set, Floats] = {}
        for subset in subsets(members):
            number = self.lattice.find(np.array(subset, dtype=np.int32).reshape(1, -1))
            seen = number[0] >= 0 and np.isfinite(self._steps[number[0]])
            table = np.empty((1, *(int(self.sizes[i]) for i in subset)))
            margins = [known[subset[:j] + subset[j + 1 :]].ravel() for j in range(len(subset))]
            starts = np.cumsum([0, *(margin.size for margin in margins)])[:-1]
            lower = np.concatenate([*margins, np.empty(0)])
            given = self._integers(number, table) if seen else np.zeros(table.shape, self.noisy.dtype)
            rebuild(given, self._steps[number] if seen else np.zeros(1), lower, starts.reshape(1, -1), table)
            known[subset] = table[0]
        return known[members]

    def within(self, family: SetFamily) -> Reconstruction:
        """The same for a smaller family alone, with no more measurements than its tables need, in memory.

        Args:
            family: sets of this one's family; those of attributes with one value may be others.
        """
        numbers = np.concatenate([self.lattice.find(level) for level in family.levels])
        units = np.zeros(len(self.lattice))
        units[self.measured] = self.units
        chosen = np.where(numbers >= 0, units[numbers], 0.0) > 0
        layout = layout_of(family, self.sizes, chosen)
        needed = np.empty(layout.cells, dtype=self.noisy.dtype)
        for group in layout:
            tables = group.view(needed)
            for part in batches(len(tables), group.cells, _BATCH_CELLS):
                tables[part] = self._integers(numbers[group.numbers[part]], tables[part])
        measured = np.flatnonzero(chosen)
        return Reconstruction(family, self.sizes, measured, units[numbers[measured]], layout, needed)

    def all_marginals(self) -> Iterator[tuple[Group, slice, Floats]]:
        """All marginals of the family, smallest first, in batches: (group, which of its tables, estimates).

        The estimates are (tables, n_1, …, n_k), and are overwritten once the next batch is asked for.
        """
        lower, base = np.empty(0), 0
        scratch = np.empty(max(_BATCH_CELLS, *(group.cells for group in self._whole)))
        for size in range(len(self.lattice.levels)):
            groups = [group for group in self._whole if len(group.shape) == size]
            start, stop = groups[0].start, groups[-1].stop
            last = size == len(self.lattice.levels) - 1
            kept = np.empty(0 if last else stop - start)
            for group in groups:
                facets = facets_of(group, self._whole) - base
                for part in batches(len(group.numbers), group.cells, _BATCH_CELLS):
                    numbers = group.numbers[part]
                    tables = scratch[: len(numbers) * group.cells].reshape(len(numbers), *group.shape)
                    rebuild(self._integers(numbers, tables), self._steps[numbers], lower, facets[part], tables)
                    if not last:
                        at = group.start - start + group.cells * part.start
                        kept[at : at + tables.size] = tables.ravel()
                    yield group, part, tables
            lower, base = kept, start

    def _integers(self, numbers: Integers, like: Array) -> Array:
        """The measurements of tables of one shape; zeros where nothing was measured. A view where they adjoin."""
        cells = like[0].size
        starts = self.layout.starts[numbers]
        if starts[0] >= 0 and (np.diff(starts) == cells).all():
            return self.noisy[starts[0] : starts[0] + like.size].reshape(like.shape)
        integers = np.zeros((len(numbers), cells), dtype=self.noisy.dtype)
        measured = np.flatnonzero(starts >= 0)
        integers[measured] = self.noisy[starts[measured, None] + np.arange(cells)]
        return integers.reshape(like.shape)


class FamilyEstimator(Estimator):
    """What is read off marginals of a family of sets, whatever noise was added to them."""

    @property
    @abstractmethod
    def reconstruction(self) -> Reconstruction | None:
        """What rebuilds marginals, all of one shape at once; None where strategies are not plain."""

    @property
    def _streamed(self) -> Reconstruction:
        if self.reconstruction is None:
            raise PlanError("these measurements are not read in batches; read the tables one by one.")
        return self.reconstruction

    def marginal(self, positions: Set) -> Floats:
        """Rebuilt from its blocks and those of its margins."""
        return self._streamed.marginal(positions)

    def all_marginals(self) -> Iterator[tuple[Group, slice, Floats]]:
        """Every marginal of the family in batches of equal shape, streamed; see `Reconstruction.all_marginals`."""
        return super().all_marginals() if self.reconstruction is None else self.reconstruction.all_marginals()

    def part(self, family: SetFamily) -> Reconstruction:
        """What rebuilds the marginals of a smaller family, with no more measurements in memory than these need.

        Raises:
            PlanError: strategies that do not rebuild tables in batches.
        """
        return self._streamed.within(family)


@dataclass(frozen=True, eq=False)
class ResidualEstimator(FamilyEstimator):
    """Estimates from measured blocks.

    Args:
        beside: what else is known, in words.
        Others as for `Estimator`.
    """

    measurements: ResidualMeasurements
    beside: str = ""

    @cached_property
    def reconstruction(self) -> Reconstruction | None:
        """All tables of one shape at once where every strategy is plain."""
        own = self.measurements
        if not own.plain or self.noisy.ndim > 1:
            return None
        return Reconstruction(own.lattice, own.sizes, own.measured, own.units, own.layout, self.noisy)

    def marginal(self, positions: Set) -> Floats:
        """Rebuilt from its blocks and those of its margins, along each axis by the attribute's strategy."""
        if self.reconstruction is not None:
            return self.reconstruction.marginal(positions)
        known: dict[Set, Floats] = {}
        first = self.noisy.ndim - 1
        for subset in subsets(positions):
            table = self._block(subset)
            for axis, i in enumerate(subset, start=first):
                table = self.measurements.strategies[i].recover(table, axis)
            for axis, i in enumerate(subset, start=first):
                margin = known[tuple(j for j in subset if j != i)] - table.sum(axis=axis)
                rest = np.multiply.outer(margin, self.measurements.strategies[i].spread)
                table = table + np.moveaxis(rest, -1, axis)
            known[subset] = table
        return known[positions]

    def _block(self, subset: Set) -> Floats:
        """`y_S / t_S`: what was measured of a block, as numbers of records, (…, r_1, …, r_k); 0 where nothing was."""
        measurements, many = self.measurements, self.noisy.shape[:-1]
        number = measurements.lattice.number(subset)
        if number < 0 or not measurements.chosen[number]:
            return np.zeros([*many, *(measurements.strategies[i].count for i in subset)])
        place, shape, grid = measurements.where(number)
        own = self.noisy[:, place] if many else self.noisy[place]  # parts take slices alone
        return np.asarray(own.reshape((*many, *shape)) / grid)

    @property
    def summary(self) -> str:
        """What was measured, in words."""
        measurements, workload = self.measurements, self.plan.workload
        asked, queries = (0, 0) if workload is None else (len(workload), workload.queries)
        if measurements.plain:
            wanted = say_many("1 table was asked for.", "{n} tables were asked for.", asked) + " "
            measured = say("What was measured: {cells} noisy integers.", cells=measurements.cells)
            return f"{wanted if asked else ''}{measured}{self.beside}"
        shaped = [
            name for name, one in zip(self.plan.domain.names, measurements.strategies, strict=True) if not one.plain
        ]
        words = mark(
            "{asked} terms with {queries:,.0f} queries were asked for. What was measured: {cells} noisy integers in "
            "{blocks} blocks over {attributes} attributes, with strategies of their own on {names}."
        )
        figures = {"blocks": len(measurements.measured), "attributes": len(self.plan.domain), "asked": asked}
        return say(words, **figures, names=", ".join(shaped), cells=measurements.cells, queries=queries) + self.beside

    def conditioned(self, equalities: Sequence[Equality]) -> tuple[Estimator, Sequence[Equality]]:
        """Whole marginals are measurements of blocks without noise."""
        whole = [each for each in equalities if each.is_marginal]
        if not whole:
            return self, equalities
        return with_margins(self, whole), [each for each in equalities if not each.is_marginal]

    def _whitened(self) -> Floats:
        """The blocks one by one, along orthonormal contrasts where a strategy is plain."""
        measurements, strategies = self.measurements, self.measurements.strategies
        roots = np.sqrt(self.plan.precisions[measurements.measured]) / measurements.units
        whitened = [np.zeros(0)]
        for number, root in zip(measurements.measured.tolist(), roots.tolist(), strict=True):
            members = measurements.lattice.members(number)
            place, shape, _ = measurements.where(number)
            table = self.noisy[place].reshape(shape).astype(np.float64)
            for axis, i in enumerate(members):
                if strategies[i].plain:  # n numbers of rank n − 1
                    table = along(contrasts(shape[axis]), table, axis)
            whitened.append(table.ravel() * root)
        return np.concatenate(whitened)

    def cliques(self) -> list[Clique]:
        """The residual of every set measured, where strategies are plain."""
        measurements = self.measurements
        if not measurements.plain:
            return super().cliques()
        stddevs = np.sqrt(measurements.noise_variances)
        cliques = []
        for number, unit, stddev in zip(measurements.measured.tolist(), measurements.units, stddevs, strict=True):
            place, _, _ = measurements.where(number)
            cliques.append(Clique(measurements.lattice.members(number), self.noisy[place] / unit, float(stddev)))
        return cliques


class CrossedEstimator(ResidualEstimator):
    """Estimates from measured blocks, some of them prefix sums along axes."""

    measurements: CrossedMeasurements

    reconstruction = None  # tables are rebuilt one by one

    def _block(self, subset: Set) -> Floats:
        """Of all that tell the block, their mean by precision."""
        measurements = self.measurements
        total, weight = np.zeros([measurements.strategies[i].count for i in subset]), 0.0
        for number, precision in self._telling(subset):
            total += precision * self._measured(number, subset)
            weight += precision
        return total / weight if weight else total

    def _telling(self, subset: tuple[int, ...]) -> list[tuple[int, float]]:
        """The measured sets that tell this one, and their precisions of it."""
        measurements, own = self.measurements, self.measurements.own_precisions
        wanted = measurements.lattice.number(subset)
        telling = [(wanted, float(own[wanted]))] if wanted >= 0 and own[wanted] else []
        for number, (_, _, members, axes) in measurements.along.items():
            summed = [i for i in members if i not in subset]
            if number != wanted and set(subset) < set(members) and set(summed) <= {members[at] for at in axes}:
                tells = np.prod([measurements.strategies[i].tells for i in summed])
                telling.append((number, float(own[number] * tells)))
        return telling

    def _measured(self, number: int, subset: tuple[int, ...]) -> Floats:
        """A measured set, axes that are not in the subset summed, as numbers of records, (r_1, …, r_k)."""
        at, shape, grid = self.measurements.where(number)
        table = self.noisy[at].reshape(shape)
        for axis, i in reversed(list(enumerate(self.measurements.lattice.members(number)))):
            if i not in subset:
                table = np.take(table, -1, axis=axis)  # the last running sum is the total
        return np.asarray(table / grid)

    @property
    def summary(self) -> str:
        """What was measured, in words."""
        names, workload, measurements = self.plan.domain.names, self.plan.workload, self.measurements
        axes = " and ".join(repr(names[i]) for i in self.plan.axes)
        asked = 0 if workload is None else len(workload)
        words = mark(
            "{blocks} blocks, of which {along} are prefix sums along {axes} with noise correlated along it, {cells} "
            "noisy integers in all; {asked} terms were asked for."
        )
        figures = {"blocks": len(measurements.measured), "along": len(measurements.along), "cells": measurements.cells}
        return say(words, **figures, axes=axes, asked=asked)

    def conditioned(self, equalities: Sequence[Equality]) -> tuple[Estimator, Sequence[Equality]]:
        """Nothing: blocks are told by others too."""
        return self, equalities

    def _whitened(self) -> Floats:
        """From the best estimates of all cells, which are few: rows L with `LᵀL = Γ` have independent noise there."""
        grouping, rows = self.plan.over_cells()
        return np.asarray(rows @ self.marginal(grouping.attributes).ravel())
