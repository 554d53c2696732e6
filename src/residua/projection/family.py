"""Projection of releases of tables of a family of sets: all tables at once, never forming the cells of the domain.

Tables are kept as residuals, so that they agree by construction. The squared distance is `Σ_S w_S ‖r_S − r̂_S‖²` in
residuals r_S, orthogonal to each other. In the release's own metric w_S is the precision, if the noise is alike in all
directions of each residual space. In the plain one, squared differences summed over the cells of all asked tables,
`w_S = Σ_{A⊇S} Π_{i∈A∖S} 1/n_i`. (Of products prefixes, ranges or groups are asked, not cells: `asked.py`.)

Raising the negative cells of many large tables distorts the small ones, however precise they are. In the
metric "margins", the usual one, small tables weigh more than their precision: those of one attribute 256 times, others
below the largest 4 times. (Decision 8 has the comparison that led there.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np

from residua.domain import impossible_cells
from residua.domain.facts import shown
from residua.errors import PlanError
from residua.linalg.arrays import Booleans, Floats, Integers, centred
from residua.linalg.lattice import Layout, SetFamily, batches, closure, layout_of
from residua.plans.cells import MOST_COLUMNS
from residua.plans.product.plan import ProductPlan
from residua.projection.alternating import nearest
from residua.projection.arrangement import Arrangement
from residua.projection.column_generation import nearest_dataset
from residua.projection.local import Residuals
from residua.projection.problem import MANY_CELLS, Fit, Progress, ProjectionProblem, spectral_sums
from residua.projection.realisable import cells_of
from residua.workload import renumber


@dataclass(frozen=True, eq=False)
class ConsistentTables(Fit):
    """What the projection of a release of marginals found.

    Args:
        layout: where each set's residual lies; tables of its sets can be read off.
        Others as for `Fit`; kept are the residuals `r_S = C_S m_S` of every set, (cells,).
    """

    layout: Layout

    def supports(self, members: Sequence[int]) -> bool:
        """Whether the marginal on these attributes can be read off."""
        return self.layout.lattice.number(members) >= 0

    @property
    def largest(self) -> tuple[tuple[int, ...], ...]:
        """The sets within no other."""
        lattice = self.layout.lattice
        return tuple(lattice.members(int(number)) for number in np.flatnonzero(lattice.is_maximal))

    def residual(self, members: Sequence[int]) -> Floats:
        """The residual of one set (positions, increasing)."""
        start = self.layout.starts[self.layout.lattice.number(members)]
        shape = [int(self.layout.sizes[i]) for i in members]
        return self.array[start : start + int(np.prod(shape, dtype=np.int64))].reshape(shape)

    def marginal(self, members: Sequence[int]) -> Floats:
        """`m_A = Σ_{S⊆A} spread(r_S) / Π_{i∈A∖S} n_i`: the marginal on these attributes (positions, increasing)."""
        sizes = self.layout.sizes
        table = np.zeros([int(sizes[i]) for i in members])
        for size in range(len(members) + 1):
            for subset in combinations(members, size):
                wide = [int(sizes[i]) if i in subset else 1 for i in members]
                spread = np.prod([float(sizes[i]) for i in members if i not in subset])
                table += self.residual(subset).reshape(wide) / spread
        return table


Margins = dict[tuple[int, ...], Floats]  # attribute positions → cells
_BATCH_CELLS = 500_000
_NOTHING = 1e-15  # of the squared length of what was observed: rounding
_ONE_ATTRIBUTE, _BELOW_LARGEST = 256.0, 4.0


class FamilyProblem(ProjectionProblem):
    """Projection of releases of a plan for a family of sets, the noise alike in all directions of each residual.

    Noisy tables are projected as with normal noise of the covariance that their pool has.
    """

    plan: ProductPlan
    in_metrics = ("margins", "covariance", "plain")

    @classmethod
    def is_small(cls, plan: ProductPlan) -> bool:
        """Whether all tables have few cells."""
        cells: float = plan.lattice.products(plan.domain.sizes.astype(np.float64)).sum()
        return bool(cells <= MANY_CELLS)

    def __post_init__(self) -> None:
        if self.terms.realisable and ([f.members for f in self.terms.facts] != [()] or not self.terms.nonnegative):
            raise PlanError(
                f"realisable=True over more than {MOST_COLUMNS:,} cells takes a total, no other known marginals, and "
                "no negative cells; leave known, nonnegative and total='free' out."
            )
        for fact in self.terms.facts:
            if self.lattice.number(fact.members) < 0:
                raise PlanError(
                    f"known: the release has no table on {shown(self.plan.domain, fact.members)}, so that nothing in "
                    "it can be made to agree; leave the fact out, or release a table that holds these attributes."
                )

    # ---- the sets

    @cached_property
    def lattice(self) -> SetFamily:
        """The sets whose tables the release answers."""
        plan, answered = self.plan, self._answered
        if answered.all():
            return plan.lattice
        if not answered.any():
            raise PlanError("the release answers no table, not even the total; there is nothing to project.")
        # Every subset of an answered set is answered, so that these sets are a family of their own.
        bounds = plan.lattice.offsets
        return closure(
            [level[answered[a:b]] for level, a, b in zip(plan.lattice.levels, bounds[:-1], bounds[1:], strict=True)],
            plan.lattice.attributes,
        )

    @property
    def left_out(self) -> tuple[tuple[int, ...], ...]:
        """The attributes of tables that the release is about without telling all their cells."""
        own = self.plan.lattice
        return tuple(own.members(int(number)) for number in np.flatnonzero(~self._answered))

    @property
    def _answered(self) -> Booleans:
        """Which sets of the plan's own family have a table that the release answers, (sets,)."""
        return np.isfinite(self.plan.cell_variances)

    @cached_property
    def _asked(self) -> Integers:
        """Numbers of the sets that a term is about and that are answered, and of those in no larger one."""
        largest, workload = np.flatnonzero(self.lattice.is_maximal), self.plan.workload
        if workload is None:
            return largest
        asked = np.concatenate([family.numbers for family in workload.families])
        numbers = renumber(workload.lattice, self.lattice)[asked]
        return np.union1d(numbers[numbers >= 0], largest)

    @cached_property
    def layout(self) -> Layout:
        """Where each set's residual lies in a flat buffer."""
        return layout_of(self.lattice, self.plan.domain.sizes)

    @cached_property
    def _numbers(self) -> Integers:
        """Each set's number in the plan's own family."""
        return renumber(self.lattice, self.plan.lattice)

    # ---- the metric

    @cached_property
    def weights(self) -> Floats:
        """w_S, (sets,); a set with an empty residual weighs nothing that matters."""
        if self.terms.metric != "plain":
            precisions = self.plan.precisions[self._numbers]
            return np.where(precisions > 0, precisions, 1.0) * self._factors
        asked = np.zeros(len(self.lattice))
        asked[self._asked] = 1.0
        plain = self.lattice.sum_over_supersets(asked, 1.0 / self.plan.domain.sizes)
        return np.where(plain > 0, plain, plain[plain > 0].min())

    @property
    def _factors(self) -> Floats:
        """How much more than its precision each set weighs, (sets,)."""
        small = np.where(self.lattice.set_sizes == 1, _ONE_ATTRIBUTE, _BELOW_LARGEST)
        return np.where((self.terms.metric == "covariance") | self.lattice.is_maximal, 1.0, small)

    @cached_property
    def _dimensions(self) -> Floats:
        return self.lattice.products((self.plan.domain.sizes - 1).astype(np.float64))

    @property
    def noise_sums(self) -> tuple[float, float, float]:
        """Of noise alike in all directions of each residual space."""
        variances = self.plan.noise_variances[self._numbers]
        measured = np.isfinite(variances)
        return spectral_sums(self.weights[measured] * variances[measured], self._dimensions[measured])

    @property
    def _finite_variances(self) -> Floats:
        """The variances of the noise, 0 of residuals that are empty, (sets,)."""
        variances = self.plan.noise_variances[self._numbers]
        return np.where(np.isfinite(variances), variances, 0.0)

    @property
    def cells(self) -> float:
        """How many numbers a squared distance is spread over: directions measured (by weight), or cells asked."""
        if self.terms.metric != "plain":
            return self.noise_sums[0]
        return float(self.lattice.products(self.plan.domain.sizes.astype(np.float64))[self._asked].sum())

    def seen(self, fit: Fit) -> Floats:
        """The residuals."""
        return fit.array

    def squared(self, observed: Floats) -> float:
        """`Σ_S w_S ‖r_S‖²`."""
        return self._weighed(self.layout, observed)

    def _weighed(self, layout: Layout, tables: Floats) -> float:
        """The squared length of tables of all sets in a layout, each by its weight."""
        total = 0.0
        for group in layout:
            rows = group.rows(tables)
            total += float(self.weights[group.numbers] @ np.einsum("ti,ti->t", rows, rows))
        return total

    # ---- the work

    def read(self, estimator: Any) -> Floats:
        """The residuals of unbiased estimates, in the order of the problem's layout, (cells,)."""
        measured = estimator.reconstruction
        observed, units = np.zeros(self.layout.cells), np.ones(len(measured.lattice))
        units[measured.measured] = measured.units
        for group in self.layout:
            numbers = self._numbers[group.numbers]
            starts, tables = measured.layout.starts[numbers], group.view(observed)
            for part in batches(len(numbers), group.cells, _BATCH_CELLS):
                seen = np.flatnonzero(starts[part] >= 0)  # an unmeasured residual is empty: zero
                values = measured.noisy[starts[part][seen, None] + np.arange(group.cells)]
                values = (values / units[numbers[part][seen], None]).reshape(-1, *group.shape)
                tables[part.start + seen] = centred(values, 1)
        return observed

    def shrunk(self, observed: Floats) -> Floats:
        """What was observed, each set's residual shrunk by how much of its length noise explains.

        The factor is `(1 − c σ²/‖r‖²)₊`, as James and Stein's. For k directions c is k, what noise makes of `‖r‖²/σ²`,
        and three standard deviations of that (below `2 (k − 2)`, up to which shrinking never hurts on average, from 26
        directions on). A residual that noise explains becomes zero: its table is then what smaller tables say.
        """
        shrunk, k = np.array(observed), self._dimensions
        away = (k + 3.0 * np.sqrt(2.0 * k)) * self._finite_variances
        away[0] = 0.0  # the total stays
        for group in self.layout:
            rows = group.rows(shrunk)
            squares = np.einsum("ti,ti->t", rows, rows)
            rows *= np.maximum(1.0 - away[group.numbers] / np.maximum(squares, 1e-300), 0.0)[:, None]
        return shrunk

    def solve(self, observed: Floats, progress: Progress | None = None) -> ConsistentTables:
        """The nearest consistent tables that meet the terms."""
        if self.terms.realisable:
            return self._of_a_dataset(observed, progress)
        solution = nearest(
            *self._method(),
            self._coordinates(observed),
            self.weights,
            fixed={members: self._own(members, cells) for members, cells in self._known_margins().items()},
            zeros=self.zeros() if self.terms.nonnegative else None,
            nonnegative=self.terms.nonnegative,
            tolerance=self.terms.tolerance,
            progress=progress,
        )
        return self.fit_of(self._residuals(solution.coordinates), solution.gap, solution.infeasibility)

    def _of_a_dataset(self, observed: Floats, progress: Progress | None) -> ConsistentTables:
        """The nearest tables of a dataset with the total that is among the terms.

        A gap is small beside the squared distance, or beside what noise makes of it: the truth is as far off.
        """
        sets = [self.lattice.members(number) for number in range(len(self.lattice))]
        used = sorted({i for each in sets for i in each})
        weights = np.sqrt(self.weights)
        of = cells_of(
            self.plan.domain,
            [tuple(used.index(i) for i in each) for each in sets],
            used,
            factors=weights.tolist(),
            central=True,
        )
        wanted, (total,) = self._coordinates(observed), (float(fact.margin(())) for fact in self.terms.facts)
        rows = [wanted[a : a + n] * w for a, n, w in zip(self.layout.starts, self._cells, weights, strict=True)]
        t = np.concatenate(rows)

        noise = self.noise_sums[0]

        def enough(q: Floats, gap: float, missed: float) -> bool:
            return gap <= max(self.terms.tolerance * max(float(q @ q), noise), _NOTHING * float(t @ t))

        best = nearest_dataset(of, t, total, enough, progress)
        array = np.zeros(self.layout.cells)
        for a, n, w, table in zip(self.layout.starts, self._cells, weights, best.tables.values(), strict=True):
            array[a : a + n] = table.ravel() / w + wanted[a : a + n]
        return self.fit_of(array, best.gap, 0.0)

    @cached_property
    def _cells(self) -> Integers:
        """Of the table of each set, (sets,)."""
        return self.lattice.products(self.plan.domain.sizes.astype(np.float64)).astype(np.int64)

    def _method(self) -> tuple[Any, Any]:
        """What solves the problem, and how tables lie in the coordinates that it takes."""
        return Residuals, Arrangement(self.lattice, self.plan.domain.sizes)

    def _coordinates(self, observed: Floats) -> Floats:
        """The coordinates of all sets from the residuals of their tables."""
        return self.shrunk(observed) if self.terms.shrunk else observed

    def _residuals(self, coordinates: Floats) -> Floats:
        """The residuals of all tables from the coordinates of all sets."""
        return coordinates

    def _own(self, members: tuple[int, ...], table: Floats) -> Floats:
        """The own coordinates of a table, one axis per attribute."""
        return centred(table)

    def unprojected(self, observed: Floats) -> ConsistentTables:
        """The observed estimates themselves, as tables."""
        return self.fit_of(observed, 0.0, 0.0)

    def fit_of(self, array: Floats, gap: float, infeasibility: float) -> ConsistentTables:
        """The fit that a saved projection keeps."""
        if array.shape != (self.layout.cells,):
            raise ValueError("the residuals do not fit the sets; they belong to another projection.")
        return ConsistentTables(array, gap, infeasibility, self.layout)

    def _known_margins(self) -> Margins:
        """The tables that the facts tell, all their margins included."""
        margins: Margins = {}
        for fact in self.terms.facts:
            for size in range(len(fact.members) + 1):
                for subset in combinations(fact.members, size):
                    margins.setdefault(subset, fact.margin(subset))
        return margins

    def zeros(self) -> Booleans | None:
        """Which cells of the largest tables are impossible, flat in the order of their layout; None if none is.

        Smaller tables are sums of these, so that their impossible cells follow.
        """
        domain = self.plan.domain
        if not domain.impossible:
            return None
        layout = layout_of(self.lattice, domain.sizes, self.lattice.is_maximal)
        impossible = np.zeros(layout.cells, dtype=bool)
        about = [set(domain.positions(rule.names)) for rule in domain.impossible]
        for group in layout:
            tables = group.view(impossible)
            for number, members in enumerate(group.members.tolist()):
                if any(one <= set(members) for one in about):
                    mask = impossible_cells(domain, [domain.names[i] for i in members])
                    tables[number] = False if mask is None else mask
        return impossible if impossible.any() else None
