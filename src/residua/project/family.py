"""Projection of releases of tables of a family of sets: all tables at once, never forming the cells of the domain.

The squared distance is `Σ_S w_S ‖r_S − r̂_S‖²` in residuals r_S, orthogonal to each other. In the release's own metric
w_S is the precision, if the noise is alike in all directions of each residual space. In the plain one, squared
differences summed over the cells of all asked tables, `w_S = Σ_{A⊇S} Π_{i∈A∖S} 1/n_i`.

Margins first: many raised cells of large tables would push small, precise tables about. So tables of one attribute can
be projected by themselves and then kept, like public facts. That is always possible: any such tables have a common
distribution, the independent one. Attributes that larger facts or structural zeros are about are not kept.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from residua.domain import impossible_cells
from residua.errors import PlanError
from residua.linalg.lattice import Lattice, closure
from residua.linalg.layout import Layout, batches, layout_of
from residua.plan.product.plan import ProductPlan
from residua.plan.residual.plan import ResidualPlan
from residua.project.consistent import ConsistentTables, centred
from residua.project.fact_cells import shown
from residua.project.facts import Fact
from residua.project.problem import Fit, Problem, Progress, Terms
from residua.workload import renumber

Floats = NDArray[np.float64]
Margins = dict[tuple[int, ...], Floats]  # attribute positions → cells
_BATCH_CELLS = 500_000
_MOST_EVEN = 1e-5


@dataclass(frozen=True, eq=False)
class FamilyProblem(Problem):
    """Projection of releases of a plan for a family of sets.

    Args:
        plan: the plan, with the precisions really measured.
        terms: what the tables must meet.
        most_attributes: how many attributes a table may have to take part; None for any number.
    """

    plan: ResidualPlan | ProductPlan
    terms: Terms
    most_attributes: int | None = field(default=None, kw_only=True)

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
        if self.most_attributes is not None:
            answered = answered & (plan.lattice.set_sizes <= self.most_attributes)
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
    @abstractmethod
    def _answered(self) -> NDArray[np.bool_]:
        """Which sets of the plan's own family have a table that the release answers, (sets,)."""

    @property
    @abstractmethod
    def _asked(self) -> NDArray[np.int64]:
        """Numbers of the sets that were asked for and are answered."""

    @cached_property
    def layout(self) -> Layout:
        """Where each set's residual lies in a flat buffer."""
        return layout_of(self.lattice, self.plan.domain.sizes)

    @cached_property
    def _numbers(self) -> NDArray[np.int64]:
        """Each set's number in the plan's own family."""
        if self.lattice.same_sets(self.plan.lattice):
            return np.arange(len(self.lattice))
        return renumber(self.lattice, self.plan.lattice)

    # ---- the metric

    @cached_property
    def weights(self) -> Floats:
        """w_S, (sets,); a set with an empty residual weighs nothing that matters."""
        if self.terms.metric == "covariance":
            precisions = self.plan.precisions[self._numbers]
            return np.where(precisions > 0, precisions, 1.0)
        asked = np.zeros(len(self.lattice))
        asked[self._asked] = 1.0
        plain = self.lattice.sum_over_supersets(asked, 1.0 / self.plan.domain.sizes)
        return np.where(plain > 0, plain, plain[plain > 0].min(initial=1.0))

    @property
    def unit(self) -> str:  # type: ignore[override]
        """What distances are measured in."""
        return "standard deviations" if self.terms.metric == "covariance" else "counts"

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
        """How many numbers a squared distance is spread over: directions measured, or cells asked."""
        if self.terms.metric == "covariance":
            return float(self.spectrum[1].sum())
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

    def solve(self, observed: Floats, progress: Progress | None = None) -> ConsistentTables:
        """The nearest consistent tables that meet the terms."""
        known = self._known_margins()
        if self.terms.margins_first and len(self.lattice.levels) > 2 and not self._is_met(observed, known):
            known = {**known, **self._first_margins(observed, known)}
        return self._nearest(observed, known, progress)

    def _first_margins(self, observed: Floats, known: Margins) -> Margins:
        """The tables of one attribute, and the total, projected without the larger ones.

        A tiny share of the records is spread evenly, so that the larger tables keep room to move (`interior.py`).
        """
        facts = tuple(Fact(members, cells) for members, cells in known.items() if len(members) < 2)
        terms = replace(self.terms, facts=facts, margins_first=False)
        first = replace(self, terms=terms, most_attributes=1)
        places = self.layout.starts[renumber(first.lattice, self.lattice)]
        part = np.empty(first.layout.cells)
        for group in first.layout:
            group.view(part).reshape(len(group.numbers), -1)[:] = observed[
                places[group.numbers][:, None] + np.arange(group.cells)
            ]
        fit = first.solve(part)
        domain = self.plan.domain
        larger = [set(members) for members in known] + [set(domain.positions(rule.names)) for rule in domain.impossible]
        bound = set().union(*(members for members in larger if len(members) > 1))
        kept = [(), *((i,) for i in first.lattice.levels[1].ravel().tolist() if i not in bound)]
        return {members: self._lifted(members, fit) for members in kept if members not in known}

    def _lifted(self, members: tuple[int, ...], fit: ConsistentTables) -> Floats:
        """A table of one attribute, with a tiny share spread evenly if it is not in there already; or the total."""
        cells = fit.marginal(members)
        if not members:
            return cells
        share = min(20.0 * self.terms.tolerance, _MOST_EVEN)
        even = share * float(fit.marginal(())) * self._even(members[0])
        return cells if (cells >= even * (1.0 - 1e-6)).all() else (1.0 - share) * cells + even

    def _is_met(self, observed: Floats, known: Margins) -> bool:
        """Whether the tables as observed meet everything already."""
        tables = self.unprojected(observed)
        room = 1e-12 * abs(float(tables.marginal(())))
        if any(np.abs(tables.marginal(members) - cells).max() > room for members, cells in known.items()):
            return False
        domain = self.plan.domain
        for number in np.flatnonzero(self.lattice.is_maximal):
            members = self.lattice.members(int(number))
            cells, mask = tables.marginal(members), impossible_cells(domain, [domain.names[i] for i in members])
            if cells.min() < -room or (mask is not None and np.abs(cells[mask]).max(initial=0.0) > room):
                return False
        return True

    def _even(self, attribute: int) -> Floats:
        """One record spread evenly over an attribute's values."""
        size = int(self.plan.domain.sizes[attribute])
        return np.full(size, 1.0 / size)

    def misfit(self, observed: Floats) -> tuple[float, float]:
        """How far the facts are from what was observed, a sum of squares in standard deviations, and of how many."""
        tables, squares, count = self.unprojected(observed), 0.0, 0.0
        for members, cells in self._known_margins().items():
            number = self._find(members)
            if members or not self.terms.total_stddev:
                apart = self._own(members, tables.marginal(members) - cells)
                squares += float((apart**2).sum() * self.plan.precisions[self._numbers[number]])
                count += float(self._dimensions[number])
        return squares, count

    def _own(self, members: tuple[int, ...], table: Floats) -> Floats:
        """The part of a table that its own measurement tells, in which the noise is alike in all directions."""
        return centred(table)

    def _nearest(self, observed: Floats, known: Margins, progress: Progress | None) -> ConsistentTables:
        """The nearest consistent tables with these margins."""
        from residua.project.local import nearest_consistent

        found = nearest_consistent(
            self.lattice,
            self.plan.domain.sizes,
            observed,
            self.weights,
            fixed={members: centred(cells) for members, cells in known.items()},
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

    def zeros(self) -> NDArray[np.bool_] | None:
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
