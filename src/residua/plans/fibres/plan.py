"""Plans along one long axis crossed with short attributes, each set of which has noise of its own along the axis."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from residua.domain import Domain, domain_of_settings
from residua.errors import PlanError
from residua.linalg.arrays import Floats
from residua.linalg.lattice import Lattice, closure
from residua.plans.axis.asked import packed
from residua.plans.axis.rows import terms_of
from residua.plans.axis.strategy import Ordered, ordered_of_body
from residua.plans.blocks import Blocks
from residua.plans.bodies import (
    asked_of_body,
    asked_to_body,
    check_claims,
    head_of_body,
    head_to_body,
)
from residua.plans.cells import Grouping
from residua.plans.contract import Plan
from residua.plans.fibres.blocks import FibreBlocks, compile_fibres, saved_fibres
from residua.plans.fibres.facts import FibreFacts
from residua.plans.fibres.reading import FibreReading
from residua.plans.lattice.crossed import ROUNDING
from residua.plans.noise import ORDERED, Noise
from residua.plans.questions import combined, in_one_table
from residua.privacy import AddRemove, Guarantee, Unit
from residua.privacy.exact import round_up
from residua.quoting import Term
from residua.workload import Workload


@dataclass(frozen=True, eq=False)
class FibrePlan(Plan):
    """For each set of short attributes, fibres along the axis with noise of their own: the dense optimum in passes.

    Guarantee: measuring this plan satisfies `guarantee` for `unit`; no unbiased linear mechanism with Gaussian noise
    has a loss below this one's by more than a factor `1 + gap`, the finite number of poles included.

    Args:
        domain: what the table may hold.
        attribute: the position of the axis.
        sets: the sets of short attributes that are measured, each with its positions in order.
        noises: the noise along the axis of each; None where a set is measured without the axis.
        factors: of each, what the variance of its noise is multiplied by, or the variance itself, (sets,).
        guarantee: what measuring the plan guarantees.
        unit: whom it protects.
        workload: what was asked for.
        objective: what the plan was optimised for, in words.
        gap: how far from the best possible it may be.
    """

    kinds: ClassVar[tuple[str, ...]] = ("fibres",)

    domain: Domain
    attribute: int
    sets: tuple[tuple[int, ...], ...]
    noises: tuple[Ordered | None, ...]
    factors: Floats
    guarantee: Guarantee | None
    unit: Unit = field(default_factory=AddRemove)
    workload: Workload | None = None
    objective: str = ""
    gap: float = np.inf

    def __post_init__(self) -> None:
        factors = np.array(self.factors, dtype=np.float64)
        if factors.shape != (len(self.sets),) or len(self.noises) != len(self.sets) or not (factors > 0).all():
            raise PlanError("the sets, their noise and its factors do not fit; plan again.")
        if len(set(self.sets)) < len(self.sets) or any(self.attribute in members for members in self.sets):
            raise PlanError("a set of attributes is measured twice, or holds the axis; plan again.")
        factors.setflags(write=False)
        object.__setattr__(self, "factors", factors)

    @property
    def noise(self) -> Noise:
        """Normal, correlated along the axis."""
        return ORDERED

    @cached_property
    def lattice(self) -> Lattice:
        """All sets of attributes of which a table is known, the axis among them."""
        rows = [
            np.array([sorted((*members, self.attribute) if noise is not None else members)], dtype=np.int32)
            for members, noise in zip(self.sets, self.noises, strict=True)
        ]
        sizes = sorted({row.shape[1] for row in rows} - {0})
        return closure(
            [np.concatenate([row for row in rows if row.shape[1] == size]) for size in sizes], len(self.domain)
        )

    @cached_property
    def complete(self) -> frozenset[tuple[int, ...]]:
        """The sets of which all values of the axis were asked, by prefixes, ranges or values; not by levels alone."""
        if self.workload is None:
            return frozenset(self.sets)
        asked = [
            {*term} - {self.attribute}
            for term, _ in terms_of(self.workload)
            if self.attribute in term
            and any(part.along in ("prefixes", "ranges", "values") for part in term[self.attribute].parts())
        ]
        return frozenset(members for members in self.sets if any({*members} <= each for each in asked))

    # ---- cost

    @cached_property
    def pcost(self) -> float:
        """The privacy cost for one record added or removed."""
        return round_up(self.blocks.cost(AddRemove()))

    @property
    def unit_pcost(self) -> float:
        """The privacy cost for the plan's unit of protection."""
        return round_up(self.blocks.cost(self.unit))

    @property
    def slack(self) -> float:
        """0 where the price is exact; infinite for replacements and limited persons, of whom a bound alone is known."""
        reach = self.unit.contribution
        return math.inf if reach is None or reach.limits else 0.0

    # ---- accuracy

    @cached_property
    def facts(self) -> FibreFacts:
        """What follows from the noise, rounding included."""
        rounded = self.factors * (1 + ROUNDING)
        known = {
            members: (noise, float(factor if noise is not None else own))
            for members, noise, factor, own in zip(self.sets, self.noises, rounded, self.factors, strict=True)
        }
        return FibreFacts(self.domain.sizes, self.attribute, known)

    def _variances(self, workload: Workload) -> Floats:
        if not workload.tabular:
            return self.facts.variances(workload)
        return np.concatenate([self.facts.table(term).ravel() for term in workload.terms()])

    def _term_variances(self, workload: Workload) -> Floats:
        if not workload.tabular:
            return self.facts.variances(workload)
        return np.array([self.facts.mean(term) for term in workload.terms()])

    def _covariance(self, first: Workload, second: Workload) -> Floats:
        if not first.tabular or not second.tabular:
            return self.facts.covariance(*(_listed(each) for each in (first, second)))
        terms = [list(each.terms()) for each in (first, second)]
        return np.block([[self.facts.pair(one, other) for other in terms[1]] for one in terms[0]])

    def _paired(self, first: Term, second: Term, crossed: tuple[int, ...]) -> Floats:
        """Variances from those of products of rows; covariances from those of all queries."""
        if first is second and not crossed:
            return self._variances(first.workload).reshape(first.shape)
        return super()._paired(first, second, crossed)

    def combination_variance(self, combination: Mapping[Sequence[str], ArrayLike]) -> float:
        """Variance of a linear combination of cells: attribute set → coefficients, an array over its cells.

        Raises:
            PlanError: the plan cannot answer it.
        """
        members, total = in_one_table(self.domain, combined(self.domain, combination))
        row = Workload.of_matrix(self.domain, members, csr_array(total.reshape(1, -1)), ("",), np.ones(1))
        found = float(self.facts.variances(row)[0])
        if not np.isfinite(found):
            raise PlanError("this plan does not answer this combination; plan for a workload that asks for it.")
        return found

    # ---- measuring

    def compile(self) -> FibreBlocks:
        """Running sums on grids, and tables without the axis."""
        known = dict(zip(self.sets, zip(self.noises, self.factors.tolist(), strict=True), strict=True))
        return compile_fibres(self.domain, self.lattice, self.attribute, known)

    def saved_blocks(self, arrays: Mapping[str, NDArray[Any]]) -> FibreBlocks:
        """The sets, grids and scales that a file keeps, with the plan's own noise."""
        return saved_fibres(self.compile(), arrays)

    def reading(self, blocks: Blocks, measurements: NDArray[Any]) -> FibreReading:
        """Tables rebuilt from fibres."""
        assert isinstance(blocks, FibreBlocks)
        return FibreReading(self, blocks, measurements)

    @property
    def measured_attributes(self) -> tuple[int, ...]:
        """Positions of the attributes of which more than the total is measured."""
        return tuple(sorted({self.attribute, *(j for members in self.sets for j in members)}))

    # ---- algebra

    def over_cells(self) -> tuple[Grouping, Floats]:
        """None.

        Raises:
            PlanError: always.
        """
        raise PlanError(
            "a plan with noise of its own for each set of attributes is not combined with others; plan with "
            "form=rs.Axis(), and others like that plan (form=rs.Lattice(like=…))."
        )

    def scaled(self, factor: float) -> FibrePlan:
        """The same plan with all its precisions multiplied by a number."""
        return self.replaced(factors=self.factors / factor)

    # ---- what people are shown

    @property
    def remarks(self) -> tuple[tuple[str, str], ...]:
        """How the axis is measured, and whether the price is a bound alone."""
        along = [len(noise.poles) for noise in self.noises if noise is not None]
        told = (
            f"{int(self.domain.sizes[self.attribute]):,} values of {self.domain.names[self.attribute]!r}, with noise "
            f"of its own for each of {len(along):,} sets of the other attributes, in {min(along)} to {max(along)} parts"
        )
        loose = ("Price", "a bound; what it really costs is not computed and may be much less")
        return (("Axis", told), loose) if self.slack else (("Axis", told),)

    @property
    def details(self) -> dict[str, Any]:
        """That the price is a bound of unknown slack, where it is."""
        return {"price_slack": None} if self.slack else {}

    def __repr__(self) -> str:
        return (
            f"FibrePlan({len(self.sets):,} sets along {self.domain.names[self.attribute]!r}, pcost={self.pcost:.6g}, "
            f"{self.guarantee!r}, gap={self.gap:.2g})"
        )

    # ---- files

    def to_body(self) -> dict[str, Any]:
        """The plan as plain values; the weights of the cells, which all sets share, as packed text."""
        shared = next(noise for noise in self.noises if noise is not None)
        return {
            **head_to_body("fibres", self),
            "attribute": self.attribute,
            "q": packed(shared.q),
            "fibres": [
                {"members": list(members), "factor": factor, "noise": None if noise is None else _without_q(noise)}
                for members, noise, factor in zip(self.sets, self.noises, self.factors.tolist(), strict=True)
            ],
            **asked_to_body(self.workload),
        }

    @classmethod
    def of_body(cls, body: dict[str, Any]) -> FibrePlan:
        """The plan that plain values describe; every invariant is checked again."""
        domain = domain_of_settings(body["domain"])
        attribute, fibres = body["attribute"], body["fibres"]
        sets = tuple(tuple(each["members"]) for each in fibres)
        places = [attribute, *(j for members in sets for j in members)]
        if not all(isinstance(i, int) and 0 <= i < len(domain) for i in places):
            raise ValueError("it measures an attribute that the domain lacks")
        if any(list(members) != sorted(set(members)) for members in sets):
            raise ValueError("a set of attributes is not in order")
        size = int(domain.sizes[attribute])
        known = {}  # sets that ask alike share their noise
        for each in fibres:
            if each["noise"] is not None and (key := json.dumps(each["noise"], sort_keys=True)) not in known:
                known[key] = ordered_of_body({**each["noise"], "q": body["q"]}, size)
        made = cls(
            domain,
            attribute,
            sets,
            tuple(
                None if each["noise"] is None else known[json.dumps(each["noise"], sort_keys=True)] for each in fibres
            ),
            np.array([float(each["factor"]) for each in fibres]),
            workload=asked_of_body(domain, body),
            **head_of_body(body),
        )
        check_claims(made)
        return made


def _without_q(noise: Ordered) -> dict[str, Any]:
    body = dict(noise.to_body()["axis"])
    del body["q"]
    return body


def _listed(workload: Workload) -> Workload:
    return workload if not workload.tabular else workload.listed()
