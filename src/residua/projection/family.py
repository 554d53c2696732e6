"""Projection of releases of tables of a family of sets: all tables at once, never forming the cells of the domain.

The squared distance is `Σ_S w_S ‖r_S − r̂_S‖²` in residuals r_S, orthogonal to each other. In the release's own metric
w_S is the precision, if the noise is alike in all directions of each residual space. In the plain one, squared
differences summed over the cells of all asked tables, `w_S = Σ_{A⊇S} Π_{i∈A∖S} 1/n_i`. (Of products prefixes, ranges or
groups are asked, not cells: `asked.py`.)

Raising the negative cells of many large tables distorts the small ones, however precise they are. In the
metric "margins", the usual one, small tables weigh more than their precision: those of one attribute 256 times, others
below the largest 4 times. (Decision 8 has the comparison that led there.)
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np

from residua.domain import impossible_cells
from residua.errors import PlanError
from residua.linalg.arrays import Booleans, Floats, Integers
from residua.linalg.lattice import Lattice, closure
from residua.linalg.layout import Layout, batches, layout_of
from residua.plans.lattice.plan import LatticePlan
from residua.projection.consistent import ConsistentTables, centred
from residua.projection.facts import shown
from residua.projection.problem import Fit, Problem, Progress, Terms
from residua.workload import renumber

Margins = dict[tuple[int, ...], Floats]  # attribute positions → cells
_BATCH_CELLS = 500_000
_ONE_ATTRIBUTE, _BELOW_LARGEST = 256.0, 4.0


@dataclass(frozen=True, eq=False)
class FamilyProblem(Problem):
    """Projection of releases of a plan for a family of sets.

    Args:
        plan: the plan, with the precisions really measured.
        terms: what the tables must meet.
    """

    plan: LatticePlan
    terms: Terms

    def __post_init__(self) -> None:
        for fact in self.terms.facts:
            if self._find(fact.members) < 0:
                raise PlanError(
                    f"known: the release has no table on {shown(self.plan.domain, fact.members)}, so that nothing in "
                    "it can be made to agree; leave the fact out, or release a table that holds these attributes."
                )

    # ---- the sets

    @cached_property
    def lattice(self) -> Lattice:
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
        return np.isfinite(self.plan.facts.cell_variances)

    @property
    @abstractmethod
    def _asked(self) -> Integers:
        """Numbers of the sets that were asked for and are answered."""

    @cached_property
    def layout(self) -> Layout:
        """Where each set's residual lies in a flat buffer."""
        return layout_of(self.lattice, self.plan.domain.sizes)

    @cached_property
    def _numbers(self) -> Integers:
        """Each set's number in the plan's own family."""
        if self.lattice.same_sets(self.plan.lattice):
            return np.arange(len(self.lattice))
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
    def spectrum(self) -> tuple[Floats, Floats]:
        """The variances of the noise along orthogonal directions of the metric, and how many directions have each."""
        variances = self.plan.noise_variances[self._numbers]
        measured = np.isfinite(variances)
        return (self.weights[measured] * variances[measured]), self._dimensions[measured]

    @property
    def cells(self) -> float:
        """How many numbers a squared distance is spread over: directions measured (by weight), or cells asked."""
        if self.terms.metric != "plain":
            return self.noise_sums[0]
        return float(self.lattice.products(self.plan.domain.sizes.astype(np.float64))[self._asked].sum())

    def moved(self, observed: Floats, fit: Fit) -> float:
        """The squared distance of a fit from what was observed, in the metric."""
        assert isinstance(fit, ConsistentTables)
        return self._squared(observed, fit.residuals)

    def size(self, fit: Fit) -> float:
        """The squared length of a fit in the metric."""
        assert isinstance(fit, ConsistentTables)
        return self._squared(fit.residuals, None)

    def _squared(self, first: Floats, second: Floats | None) -> float:
        total = 0.0
        for group in self.layout:
            weights = self.weights[group.numbers]
            for part in batches(len(group.numbers), group.cells, _BATCH_CELLS):
                apart = group.view(first)[part]
                apart = apart if second is None else apart - group.view(second)[part]
                total += float(weights[part] @ (apart.reshape(len(apart), -1) ** 2).sum(axis=1))
        return total

    # ---- the work

    def quieted(self, observed: Floats) -> Floats:
        """What was observed, each set's residual shrunk by how much of its length noise explains.

        The factor is `(1 − c σ²/‖r‖²)₊`, as James and Stein's. For k directions c is k, what noise makes of `‖r‖²/σ²`,
        and three standard deviations of that (below `2 (k − 2)`, up to which shrinking never hurts on average, from 26
        directions on). A residual that noise explains becomes zero: its table is then what smaller tables say.
        """
        found = np.array(observed)
        variances = self.plan.noise_variances[self._numbers]
        k = self._dimensions
        c = k + 3.0 * np.sqrt(2.0 * k)
        away = c * np.where(np.isfinite(variances), variances, 0.0)
        for group in self.layout:
            tables = group.view(found)
            if not group.shape:
                continue  # the total stays
            for part in batches(len(group.numbers), group.cells, _BATCH_CELLS):
                squares = (tables[part].reshape(-1, group.cells) ** 2).sum(axis=1)
                kept = np.maximum(1.0 - away[group.numbers[part]] / np.maximum(squares, 1e-300), 0.0)
                tables[part] *= kept.reshape(-1, *[1] * len(group.shape))
        return found

    def solve(self, observed: Floats, progress: Progress | None = None) -> ConsistentTables:
        """The nearest consistent tables that meet the terms."""
        from residua.projection.local import nearest_consistent

        if self.terms.shrunk:
            observed = self.quieted(observed)
        found = nearest_consistent(
            self.lattice,
            self.plan.domain.sizes,
            observed,
            self.weights,
            fixed={members: centred(cells) for members, cells in self._known_margins().items()},
            zeros=self.zeros() if self.terms.nonnegative else None,
            nonnegative=self.terms.nonnegative,
            tolerance=self.terms.tolerance,
            progress=progress,
        )
        return ConsistentTables(self.lattice, self.plan.domain.sizes, found.coordinates, found.gap, found.infeasibility)

    def unprojected(self, observed: Floats) -> ConsistentTables:
        """The observed estimates themselves, as tables."""
        return ConsistentTables(self.lattice, self.plan.domain.sizes, observed, 0.0, 0.0)

    def fit_of(self, array: Floats, gap: float, infeasibility: float) -> ConsistentTables:
        """The fit that a saved projection keeps."""
        return ConsistentTables(self.lattice, self.plan.domain.sizes, array, gap, infeasibility)

    def _known_margins(self) -> Margins:
        """The tables that the facts tell, all their margins included."""
        found: Margins = {}
        for fact in self.terms.facts:
            for size in range(len(fact.members) + 1):
                for subset in combinations(fact.members, size):
                    found.setdefault(subset, fact.margin(subset))
        return found

    def zeros(self) -> Booleans | None:
        """Which cells of the largest tables are impossible, flat in the order of their layout; None if none is.

        Smaller tables are sums of these, so that their impossible cells follow.
        """
        domain = self.plan.domain
        if not domain.impossible:
            return None
        layout = layout_of(self.lattice, domain.sizes, self.lattice.is_maximal)
        found = np.zeros(layout.cells, dtype=bool)
        about = [set(domain.positions(rule.names)) for rule in domain.impossible]
        for group in layout:
            tables = group.view(found)
            for number, members in enumerate(group.members.tolist()):
                if any(one <= set(members) for one in about):
                    mask = impossible_cells(domain, [domain.names[i] for i in members])
                    tables[number] = False if mask is None else mask
        return found if found.any() else None

    def error(self, fit: Fit, truth: Fit) -> float:
        """The mean absolute difference over all cells of the asked tables."""
        total, cells = 0.0, 0
        for number in self._asked:
            members = self.lattice.members(int(number))
            apart = np.abs(fit.marginal(members) - truth.marginal(members))
            total, cells = total + float(apart.sum()), cells + apart.size
        return total / cells

    def _find(self, members: tuple[int, ...]) -> int:
        return int(self.lattice.find(np.array([members], dtype=np.int32).reshape(1, -1))[0])
