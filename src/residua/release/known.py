"""Estimates once some sums are known, of any plan.

With F the known sums, f their values and C the covariances of the noise, the best linear unbiased estimate of q is

    q̂ − C_qF C_FF⁺ (F̂ − f),      with covariances      C_qp − C_qF C_FF⁺ C_Fp.

`KnownSums` is that formula, for any plan and some thousand sums; two structures need no such matrix
(`known_structure.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from residua.domain import Domain
from residua.errors import PlanError
from residua.linalg.arrays import Floats, Integers
from residua.plans.cells import Grouping
from residua.plans.contract import Plan
from residua.plans.estimator import Answerable, Estimator, combination_query
from residua.plans.measurements import Measurements
from residua.plans.noise import Noise
from residua.plans.quotes import picked
from residua.plans.tails import check_confidence, mixed_reach, width
from residua.quoting import Term
from residua.workload import Workload, marginals

REDUNDANT = 1e-10  # of the variance before any fact: a combination of facts with less follows from the others
CONTRADICTION = 1e-6  # of the largest fact: facts that differ by less are the same number
_MOST_ENTRIES = 2**27
_MOST_LISTED = 2**13  # cells of a table beside sums that are no products of rows


def contradiction(what: str) -> PlanError:
    """What is said of facts that cannot all be true."""
    return PlanError(f"facts contradict each other: {what} cannot hold beside the others; correct one of them.")


# ---- any sums, by a matrix


@dataclass(frozen=True, eq=False)
class Sums:
    """Known sums, and how the estimates of a plan vary with them.

    Args:
        plan: what they are known beside.
        parts: queries, and which of them are known.
        scales: the standard deviation of each sum before any fact, (sums,).
    """

    plan: Plan
    parts: tuple[tuple[Workload, Integers], ...]
    scales: Floats

    def covariances(self, workload: Workload) -> Floats:
        """Of every query with every known sum, (queries, sums).

        Raises:
            PlanError: too many.
        """
        if workload.queries * len(self.scales) > _MOST_ENTRIES:
            raise PlanError(
                f"{workload.queries:,} numbers beside {len(self.scales):,} known sums are too many at once; ask for "
                "smaller tables, or name facts that are whole marginals or nodes of a hierarchy."
            )
        listed = any(not known.tabular for known, _ in self.parts)
        if listed and workload.tabular and workload.cells.max(initial=0.0) > _MOST_LISTED:
            raise PlanError(
                "a table this large cannot be read beside facts in SQL; name them by dictionaries, "
                "{'sex': 'Female', 'age': rs.between(65, None)}, or ask for smaller tables."
            )
        return np.hstack([self.plan._covariance(workload, known)[:, chosen] for known, chosen in self.parts])

    @cached_property
    def _spectrum(self) -> tuple[Floats, Floats]:
        """Eigenvalues and eigenvectors of the sums' covariances, in units of their first standard deviations."""
        whole = np.vstack([self.covariances(known)[chosen] for known, chosen in self.parts])
        values, vectors = np.linalg.eigh((whole + whole.T) / 2 / self.scales[:, None] / self.scales)
        return values, vectors

    @cached_property
    def root(self) -> Floats:
        """A root of `C_FF⁺`, (sums, directions)."""
        values, vectors = self._spectrum
        kept = values > REDUNDANT
        return np.asarray(vectors[:, kept] / np.sqrt(values[kept]) / self.scales[:, None])

    def contradicted(self, lacking: Floats, sizes: Floats) -> int | None:
        """Which sum cannot be what it is said to be, if any, from what estimates lack of each."""
        values, vectors = self._spectrum
        lost = vectors[:, values <= REDUNDANT]
        apart = np.abs(lost @ (lost.T @ (lacking / self.scales))) * self.scales
        worst = int(apart.argmax())
        return worst if apart[worst] > CONTRADICTION * max(1.0, float(np.abs(sizes).max())) else None

    def whitened(self, workload: Workload) -> Floats:
        """`C_qF` times the root: what facts take off variances is its squared length, (queries, directions)."""
        return np.asarray(self.covariances(workload) @ self.root)


class _Product:
    """The matrix `A Bᵀ`, of which entries are made as they are asked for."""

    def __init__(self, first: Floats, second: Floats) -> None:
        self.first, self.second = first, second

    def __getitem__(self, at: tuple[Integers, Integers]) -> Floats:
        return np.asarray(np.einsum("...d,...d->...", self.first[at[0]], self.second[at[1]]))


@dataclass(frozen=True, eq=False)
class KnownPlan(Plan):
    """How a measured plan errs once some sums are known: less.

    Args:
        own: the plan.
        sums: what is known.
    """

    own: Plan
    sums: Sums

    @classmethod
    def beside(cls, own: Plan, sums: Sums) -> KnownPlan:
        """The plan beside these sums."""
        kept = {field.name: getattr(own, field.name) for field in fields(Plan) if field.name != "domain"}
        return cls(own.domain, own, sums, **kept)

    @property
    def noise(self) -> Noise:
        """That of the plan."""
        return self.own.noise

    @property
    def by_names(self) -> tuple[str, ...]:
        """Those of the plan."""
        return self.own.by_names

    def _variances(self, workload: Workload) -> Floats:
        variances = np.array(self.own._variances(workload))
        many = workload.tabular and len(workload) > 1
        taken = [np.square(self.sums.whitened(each)).sum(axis=1) for each in (workload.each() if many else [workload])]
        return np.where(np.isfinite(variances), np.maximum(variances - np.concatenate(taken), 0.0), np.inf)

    def _covariance(self, first: Workload, second: Workload) -> Floats:
        return self.own._covariance(first, second) - self.sums.whitened(first) @ self.sums.whitened(second).T

    def _paired(self, first: Term, second: Term, crossed: tuple[int, ...]) -> Floats:
        taken = _Product(self.sums.whitened(first.workload), self.sums.whitened(second.workload))
        return self.own._paired(first, second, crossed) - picked(cast("Floats", taken), first, second, crossed)

    @property
    def measured_attributes(self) -> tuple[int, ...]:
        """Those of the plan."""
        return self.own.measured_attributes

    def compile(self) -> Measurements:
        """Refuses: facts are known, not measured."""
        raise PlanError("facts are known, not measured; measure, save or combine the plan of the release itself.")

    def saved_measurements(self, arrays: Mapping[str, NDArray[Any]]) -> Measurements:
        """Refuses."""
        return self.compile()

    def estimator(self, measurements: Measurements, noisy: NDArray[Any]) -> Estimator:
        """Refuses."""
        raise PlanError("facts are known, not measured; ask the release for estimates.")

    def kept(self) -> dict[str, Any]:
        """Refuses."""
        return cast("dict[str, Any]", self.compile())

    @classmethod
    def of_kept(cls, domain: Domain, body: dict[str, Any], stated: dict[str, Any]) -> KnownPlan:
        """Refuses."""
        raise ValueError("a plan beside facts is not kept in files")


@dataclass(frozen=True, eq=False)
class KnownSums(Estimator):
    """Estimates beside known sums.

    Args:
        own: the estimates without them.
        plan: how they err.
        values: what the sums are, (sums,).
    """

    own: Estimator
    plan: KnownPlan
    values: Floats

    @property
    def noisy(self) -> NDArray[Any]:  # type: ignore[override]
        """What was measured."""
        return self.own.noisy

    @property
    def summary(self) -> str:
        """What was measured, in words, and how much is known."""
        return f"{self.own.summary} Beside it {len(self.values):,} sums are known."

    @cached_property
    def lacking(self) -> Floats:
        """By how much estimates exceed the known sums, (sums,)."""
        parts = self.plan.sums.parts
        return np.concatenate([self.own.answers(known)[0][chosen] for known, chosen in parts]) - self.values

    @cached_property
    def _weights(self) -> Floats:
        root = self.plan.sums.root
        return np.asarray(root @ (root.T @ self.lacking))

    def marginal(self, positions: tuple[int, ...]) -> Floats:
        """The estimate, less what the facts take off it."""
        names = [self.plan.domain.names[i] for i in positions]
        own = self.own.marginal(positions)
        return own - (self.plan.sums.covariances(marginals(self.plan.domain, [names])) @ self._weights).reshape(
            own.shape
        )

    def estimates(self, workload: Workload) -> Floats:
        """The estimate of every query, less what the facts take off it."""
        return np.asarray(self.own.estimates(workload) - self.plan.sums.covariances(workload) @ self._weights)

    def answers(self, workload: Workload) -> tuple[Floats, Floats]:
        """Of groups that cannot tell, what the estimator itself says."""
        estimates, _ = self.own.answers(workload)
        return estimates - self.plan.sums.covariances(workload) @ self._weights, self.plan.variances(workload)

    def combination(self, combination: Any) -> tuple[float, float]:
        """As one query."""
        estimate, variance = self.answers(combination_query(self.plan.domain, combination))
        return float(estimate[0]), float(variance[0])

    def whitened(self) -> tuple[Grouping, Floats, Floats]:
        """Refuses: facts are no measurements."""
        raise PlanError("a release beside facts has no measurements of its own; pool or project the release itself.")

    def widths(self, asked: Answerable, confidence: float, together: float) -> float | Floats:
        """Of Laplace noise a bound for whatever is a sum of it."""
        return widths_beside(self.plan, asked, confidence, together)


def widths_beside(plan: Plan, asked: Answerable, confidence: float, together: float) -> float | Floats:
    """How many standard deviations intervals reach; of Laplace noise no more than any sum of such noises strays."""
    if plan.noise.gaussian:
        return width(confidence, together)
    check_confidence(confidence)
    count = asked.queries if isinstance(asked, Workload) else 1
    if isinstance(asked, tuple):
        count = plan.domain.cells(asked)
    return mixed_reach(np.ones(count), (1.0 - confidence) / together)
