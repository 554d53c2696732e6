"""Plans over nested levels of one attribute, crossed with short ones, and everything that follows without data."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, reduce
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from residua.domain import Domain, domain_of_settings
from residua.errors import PlanError, VerificationError
from residua.linalg.arrays import Floats
from residua.plans.blocks import Blocks
from residua.plans.bodies import (
    asked_of_body,
    asked_to_body,
    check_claims,
    head_of_body,
    head_to_body,
)
from residua.plans.candidates import Candidate, tried
from residua.plans.cells import MOST_COLUMNS, Grouping
from residua.plans.contract import Plan
from residua.plans.noise import INVISIBLE_SCALE, LAPLACE, LARGEST_SCALE, NORMAL, Noise
from residua.plans.questions import combined, in_one_table
from residua.plans.tree.blocks import TreeBlocks
from residua.plans.tree.facts import SetFacts
from residua.plans.tree.nesting import Nesting, branched, nesting_of
from residua.plans.tree.packing import laplace_of_body, laplace_to_body, packed, unpacked
from residua.plans.tree.projecting import covariances_listed, over_cells, projected
from residua.plans.tree.reading import TreeReading
from residua.plans.tree.rows import AnyRows, Term, inner_products, short_factors, terms_of, tree_rows
from residua.plans.tree.sets import SetOfNodes
from residua.privacy import AddRemove, Guarantee, Unit
from residua.privacy.exact import round_up
from residua.quoting import Term as QuotedTerm
from residua.workload import Workload

_FINE = 2.0**14  # the least noise scale in steps of the grid: rounding adds less than a part in 10^9 to the variance


@dataclass(frozen=True, eq=False)
class TreePlan(Plan):
    """Every node of a tree measured, each with its own precision; crossed with residuals of short attributes.

    With Laplace noise, counts of nodes alone are measured, with one precision per level.

    Guarantee: measuring this plan satisfies `guarantee` for `unit`; no unbiased linear mechanism with noise of its kind
    has a loss below this one's by more than a factor `1 + gap`.

    Args:
        domain: what the table may hold.
        attribute: the position of the attribute with levels.
        sets: the sets of short attributes, by position; the empty one is the count of the node itself.
        starts: the finest measured level of each set; 0 are the values.
        precisions: of each set, per level from the finest to the root: one number for a whole level (0 where it is not
            measured), or one per node; of the finest level one per parent.
        guarantee: what measuring the plan guarantees.
        unit: whom it protects.
        workload: what was asked for.
        objective: what the plan was optimised for, in words.
        gap: how far from the best possible it may be.
        noise: normal, or Laplace.
        counts: how many nodes each level between values and root has, fine to coarse, where these are no declared
            levels but runs of neighbouring values.
        candidates: with Laplace noise, the trees that were tried, best first; the first is the one measured.
        lower_bound: no plan with Laplace noise has a smaller loss at this budget; loose; 0 when nothing is proven.
    """

    kinds: ClassVar[tuple[str, ...]] = ("tree", "pure tree")

    domain: Domain
    attribute: int
    sets: tuple[tuple[int, ...], ...]
    starts: tuple[int, ...]
    precisions: tuple[tuple[Floats, ...], ...]
    guarantee: Guarantee | None
    unit: Unit = field(default_factory=AddRemove)
    workload: Workload | None = None
    objective: str = ""
    gap: float = np.inf
    noise: Noise = NORMAL
    counts: tuple[int, ...] | None = None
    candidates: tuple[Candidate, ...] = ()
    lower_bound: float = 0.0

    @property
    def name(self) -> str:
        """The attribute with levels."""
        return self.domain.names[self.attribute]

    @cached_property
    def nesting(self) -> Nesting:
        """Its levels."""
        if self.counts is not None:
            return branched(int(self.domain.sizes[self.attribute]), self.counts)
        return nesting_of(self.domain[self.name])

    @cached_property
    def facts(self) -> tuple[SetFacts, ...]:
        """How accurately each set is known in every node."""
        nesting = self.nesting
        return tuple(
            SetFacts(nesting, members, start, found)
            for members, start, found in zip(self.sets, self.starts, self.precisions, strict=True)
        )

    # ---- cost

    @cached_property
    def pcost(self) -> float:
        """The privacy cost for one record added or removed; `epsilon²` for Laplace noise."""
        return self._cost(AddRemove())

    @cached_property
    def unit_pcost(self) -> float:
        """The privacy cost for the plan's unit of protection."""
        return self._cost(self.unit)

    def _cost(self, unit: Unit) -> float:
        cost = self.blocks.cost(unit) if self.sets else Fraction(0)
        return round_up(Fraction(round_up(cost)) ** 2 if self.noise == LAPLACE else cost)

    @cached_property
    def epsilon(self) -> float:
        """What Laplace noise costs for one record added or removed, rounded up."""
        return round_up(self.blocks.cost(AddRemove())) if self.noise == LAPLACE else super().epsilon

    @cached_property
    def unit_epsilon(self) -> float:
        """What Laplace noise costs the plan's unit of protection, rounded up."""
        return round_up(self.blocks.cost(self.unit)) if self.noise == LAPLACE else super().epsilon

    @property
    def slack(self) -> float:
        """0 where the price is exact; infinite for replacements and limited persons, of whom a bound alone is known."""
        reach = self.unit.contribution
        if self.noise == LAPLACE:
            return 0.0
        return math.inf if reach is None or reach.limits else 0.0

    # ---- accuracy

    def _short(self, asked: Term) -> tuple[int, ...]:
        return tuple(i for i in sorted(asked) if i != self.attribute)

    def _term(self, asked: Term) -> Floats:
        """Variances of all queries of one term, one axis per attribute in the domain's order."""
        short = self._short(asked)
        factors = {i: short_factors(asked[i], int(self.domain.sizes[i])) for i in short}
        parts = []
        for rows in tree_rows(asked.get(self.attribute), self.nesting):
            total: Any = 0.0
            for facts, each in self.needed(short, factors):
                if facts is None:
                    total = total + np.where(each > 0, np.inf, np.zeros((rows.count(self.nesting), *each.shape)))
                else:
                    total = total + np.multiply.outer(facts.variances(rows), each)
            parts.append(total)
        found = np.concatenate(parts)
        if self.attribute not in asked:
            return np.asarray(found[0])
        return np.moveaxis(found, 0, sorted(asked).index(self.attribute))

    def needed(self, short: tuple[int, ...], factors: Any) -> list[tuple[SetFacts | None, Floats]]:
        """The sets that rows of short attributes need, None for one that lacks; with what each contributes per row."""
        known = {facts.members: facts for facts in self.facts}
        found: list[tuple[SetFacts | None, Floats]] = []
        for chosen in range(2 ** len(short)):
            members = tuple(i for k, i in enumerate(short) if chosen >> k & 1)
            each = [factors[i][1] if i in members else factors[i][2] ** 2 for i in short]
            product = reduce(np.multiply.outer, each, np.ones(()))
            if np.any(product):
                found.append((known.get(members), product))
        return found

    def _variances(self, workload: Workload) -> Floats:
        if not workload.tabular:
            return np.array([self._listed(workload, row) for row in range(workload.queries)])
        return np.concatenate([self._term(asked).ravel() for asked, _ in terms_of(workload)])

    def _listed(self, workload: Workload, row: int) -> float:
        """The variance of one explicit query; infinite where it cannot be answered."""
        attributes = tuple(sorted({*workload.attributes, self.attribute}))
        shape = [int(self.domain.sizes[i]) for i in attributes]
        table = workload.over(attributes)[[row]].toarray().reshape(shape)
        return self._table_variance(attributes, table)

    def _term_variances(self, workload: Workload) -> Floats:
        if not workload.tabular:
            return super()._term_variances(workload)
        return np.array([self._mean(asked) for asked, _ in terms_of(workload)])

    def _mean(self, asked: Term) -> float:
        short = self._short(asked)
        factors = {i: short_factors(asked[i], int(self.domain.sizes[i])) for i in short}
        needed, total, count = self.needed(short, factors), 0.0, 0
        for rows in tree_rows(asked.get(self.attribute), self.nesting):
            many = rows.count(self.nesting)
            count += many
            for facts, each in needed:
                total += many * (np.inf if facts is None else facts.mean_variance(rows) * float(np.mean(each)))
        return float(total / count)

    def _covariance(self, first: Workload, second: Workload) -> Floats:
        if not (first.tabular and second.tabular):
            return covariances_listed(self.attribute, self.facts, first, second)
        one, other = list(terms_of(first)), list(terms_of(second))
        return np.block([[self._between(a, b) for b, _ in other] for a, _ in one])

    def _between(self, one: Term, other: Term) -> Floats:
        """Covariances of the queries of two terms, (queries, queries)."""
        short = tuple(sorted({*self._short(one), *self._short(other)}))
        sizes = {i: int(self.domain.sizes[i]) for i in short}
        rows = {i: (short_factors(one.get(i), sizes[i])[0], short_factors(other.get(i), sizes[i])[0]) for i in short}
        firsts = tree_rows(one.get(self.attribute), self.nesting)
        seconds = tree_rows(other.get(self.attribute), self.nesting)
        total: Any = 0.0
        for facts in self.facts:
            if not set(facts.members) <= set(short):
                continue
            centred = [inner_products(*rows[i], centred=i in facts.members) for i in short]
            if not all(each.any() for each in centred):
                continue
            along = np.block([[facts.covariances(a, b) for b in seconds] for a in firsts])
            before = sum(i < self.attribute for i in short)
            total = total + reduce(np.kron, [*centred[:before], along, *centred[before:]])
        return np.asarray(total)

    def _paired(self, first: QuotedTerm, second: QuotedTerm, crossed: tuple[int, ...]) -> Floats:
        """Variances by levels; covariances from those of all queries."""
        if first is second and not crossed:
            return self._variances(first.workload).reshape(first.shape)
        return super()._paired(first, second, crossed)

    def combination_variance(self, combination: Mapping[Any, ArrayLike]) -> float:
        """Variance of a linear combination of cells."""
        members, total = in_one_table(self.domain, combined(self.domain, combination))
        return self._table_variance(members, total)

    def _table_variance(self, members: tuple[int, ...], table: Floats) -> float:
        found = 0.0
        for facts, rows in self.projected(members, table):
            if facts is None:
                return math.inf
            covariances = facts.variances(AnyRows(rows))
            found += float(covariances.sum())
        return found

    def projected(self, members: tuple[int, ...], table: Floats) -> list[tuple[SetFacts | None, Floats]]:
        """Coefficients over cells as one row over the values for each cell of each set, (cells of S, values)."""
        known = {facts.members: facts for facts in self.facts}
        parts = projected(self.attribute, self.nesting.sizes[0], members, table)
        return [(known.get(inside), rows) for inside, rows in parts]

    # ---- measuring

    def compile(self) -> TreeBlocks:
        """Residuals in every measured node, with noise rounded up."""
        if not self.sets:
            raise VerificationError("the plan has nothing to measure; what it answers is already known.")
        sets = []
        for members, start, precisions in zip(self.sets, self.starts, self.precisions, strict=True):
            sizes = tuple(int(self.domain.sizes[i]) for i in members)
            per_scale = 2.0 if self.noise == LAPLACE else 1.0  # the variance of noise of scale 1
            stddevs = [1.0 / np.sqrt(per_scale * found) if found.any() else np.zeros(0) for found in precisions]
            least = min(float(each.min()) for each in stddevs if len(each)) * math.prod(sizes)
            most = max(float(each.max()) for each in stddevs if len(each)) * math.prod(sizes)
            fine = INVISIBLE_SCALE if self.noise == LAPLACE else _FINE
            grid = max(2 ** math.ceil(math.log2(fine / least)), 1) if least < fine else 1
            while grid > 1 and grid * most > LARGEST_SCALE / 2:
                grid //= 2
            unit = grid * math.prod(sizes) * (1.0 + 2.0**-50)
            sets.append(SetOfNodes(members, sizes, start, grid, tuple(each * unit for each in stddevs)))
        drops, names = self.domain.drops, self.domain.names
        return TreeBlocks(self.domain.sizes, self.attribute, self.nesting, tuple(sets), drops, self.noise, names)

    def saved_blocks(self, arrays: Mapping[str, NDArray[Any]]) -> TreeBlocks:
        """As compiled."""
        return self.compile()

    def reading(self, blocks: Blocks, measurements: NDArray[Any]) -> TreeReading:
        """Estimates from measurements by least squares over the tree."""
        assert isinstance(blocks, TreeBlocks)
        measured = tuple(
            tuple(each.unit**2 / self.noise.variance(scales) if len(scales) else np.zeros(1) for scales in each.scales)
            for each in blocks.sets
        )
        return TreeReading(self.replaced(precisions=measured), blocks, measurements)

    @property
    def measured_attributes(self) -> tuple[int, ...]:
        """The tree, and the short attributes."""
        return tuple(sorted({self.attribute, *(i for members in self.sets for i in members)}))

    # ---- algebra

    def over_cells(self) -> tuple[Grouping, Floats]:
        """Rows L with `LᵀL = Γ` over the cells of all measured attributes, of few cells."""
        if self.noise == LAPLACE:
            return super().over_cells()
        self.require_short()
        attributes = self.measured_attributes
        shape = [int(self.domain.sizes[i]) for i in attributes]
        rows = over_cells(self.facts, self.nesting, self.attribute, attributes, shape)
        return Grouping(attributes, np.arange(math.prod(shape))), rows

    def require_short(self) -> None:
        """Refuses a tree that is too large to be combined with other plans, or read with their releases.

        Raises:
            PlanError: it is.
        """
        cells = math.prod(int(self.domain.sizes[i]) for i in self.measured_attributes)
        if cells > MOST_COLUMNS:
            raise PlanError(
                f"a tree over {cells:,} cells is too large for a matrix; combine it with plans over the same tree that "
                f"take its strategy, form=rs.Tree(like=other), or plans over at most {MOST_COLUMNS:,} cells, or "
                "measure it by itself with rs.measure."
            )

    def scaled(self, factor: float) -> TreePlan:
        """The same plan with all its precisions multiplied by a number."""
        return self.replaced(precisions=tuple(tuple(each * factor for each in levels) for levels in self.precisions))

    # ---- what people are shown

    @property
    def remarks(self) -> tuple[tuple[str, str], ...]:
        """How the tree is measured, and whether its price is a bound alone."""
        sizes = " · ".join(
            f"{n:,}{f' {name}' if name else ''}"
            for name, n in zip(self.nesting.names[::-1], self.nesting.sizes[::-1], strict=True)
        )
        crossed = {self.domain.names[i] for members in self.sets for i in members}
        by = f", crossed with {', '.join(sorted(crossed))}" if crossed else ""
        loose = ("Price", "a bound; what it really costs is not computed and may be less")
        told = ("Tree", f"nodes of {self.name!r}: {sizes}{by}; {self.blocks.cells:,} integers are measured")
        return (told, *tried(self.candidates, self.gap), *((loose,) if self.slack else ()))

    @property
    def details(self) -> dict[str, Any]:
        """That the price is a bound of unknown slack, where it is."""
        found = super().details
        return {**found, "price_slack": None} if self.slack else found

    def __repr__(self) -> str:
        cost = f"epsilon={self.epsilon:.6g}" if self.noise == LAPLACE else f"pcost={self.pcost:.6g}"
        return (
            f"TreePlan({self.nesting.sizes[0]:,} values of {self.name!r} on {self.nesting.root + 1} levels, "
            f"{len(self.sets)} sets, {cost}, {self.guarantee!r}, gap={self.gap:.2g})"
        )

    # ---- files

    def to_body(self) -> dict[str, Any]:
        """The plan as plain values; precisions as packed text."""
        body = {
            **head_to_body("tree" if self.noise == NORMAL else "pure tree", self),
            "attribute": self.attribute,
            "members": [list(members) for members in self.sets],
            "starts": list(self.starts),
            "precisions": [[packed(each) for each in found] for found in self.precisions],
            **asked_to_body(self.workload, "asked"),
        }
        if self.noise == NORMAL:
            return body
        return {**body, **laplace_to_body(self.counts, self.candidates, self.lower_bound)}

    @classmethod
    def of_body(cls, body: dict[str, Any]) -> TreePlan:
        """The plan that plain values describe; every invariant is checked again."""
        domain = domain_of_settings(body["domain"])
        made = cls(
            domain,
            int(body["attribute"]),
            tuple(tuple(int(i) for i in members) for members in body["members"]),
            tuple(int(start) for start in body["starts"]),
            tuple(tuple(unpacked(each) for each in found) for found in body["precisions"]),
            **head_of_body(body),
            workload=asked_of_body(domain, body, "asked"),
            **(laplace_of_body(body) if body["kind"] == "pure tree" else {}),
        )
        if not all(0 <= start <= made.nesting.root for start in made.starts):
            raise ValueError("it measures a level that the attribute lacks")
        if not len(made.sets) == len(made.starts) == len(made.precisions):
            raise ValueError("its sets and precisions do not fit")
        check_claims(made)  # compiles and prices it: the verifier checks every array
        return made
