"""Estimates once some sums are known, of any plan: conditioning on equalities.

With F the known sums, f their values and C the covariances of the noise, the best linear unbiased estimate of q is

    q̂ − C_qF C_FF⁺ (F̂ − f),      with covariances      C_qp − C_qF C_FF⁺ C_Fp.

That is done here, for any plan and some thousand sums. Estimators whose structure needs no such matrix take what they
can first (`Estimator.conditioned`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from typing import Any, cast

import numpy as np

from residua.errors import PlanError
from residua.linalg.arrays import Floats, Integers
from residua.plans.contract import Uncertainty
from residua.plans.estimator import CONTRADICTION, Equality, Estimator, contradiction
from residua.plans.quotes import picked
from residua.quoting import Term
from residua.workload import Workload, marginals

_REDUNDANT = 1e-10  # of the variance before any fact: a combination of facts with less follows from the others
_MOST_ENTRIES = 2**27
_MOST_LISTED = 2**13  # cells of a table beside sums that are no products of rows


@dataclass(frozen=True, eq=False)
class Conditional(Uncertainty):
    """How estimates err once something is known: less. All that is not about errors is as it was.

    Args:
        own: how they err without it: the plan as it was measured, or that beside other facts.
    """

    own: Any

    # What the table may hold, what was asked, the noise, whom it protects, the bias, and what makes groups: as before.
    domain = property(attrgetter("own.domain"))
    workload = property(attrgetter("own.workload"))
    noise = property(attrgetter("own.noise"))
    unit = property(attrgetter("own.unit"))
    bias = property(attrgetter("own.bias"))
    by_names = property(attrgetter("own.by_names"))


class _Product:
    """The matrix `A Bᵀ`, of which entries are made as they are asked for."""

    def __init__(self, first: Floats, second: Floats) -> None:
        self.first, self.second = first, second

    def __getitem__(self, at: tuple[Integers, Integers]) -> Floats:
        return np.asarray(np.einsum("...d,...d->...", self.first[at[0]], self.second[at[1]]))


@dataclass(frozen=True, eq=False)
class BesideSums(Conditional):
    """How estimates err once some sums are known.

    Args:
        parts: queries, and which of them are known.
        scales: the standard deviation of each sum before any fact, (sums,).
        Others as for `Conditional`.
    """

    parts: tuple[tuple[Workload, Integers], ...]
    scales: Floats

    def with_sums(self, workload: Workload) -> Floats:
        """Covariances of every query with every known sum, (queries, sums).

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
        return np.hstack([self.own._covariance(workload, known)[:, chosen] for known, chosen in self.parts])

    @cached_property
    def _spectrum(self) -> tuple[Floats, Floats]:
        """Eigenvalues and eigenvectors of the sums' covariances, in units of their first standard deviations."""
        whole = np.vstack([self.with_sums(known)[chosen] for known, chosen in self.parts])
        values, vectors = np.linalg.eigh((whole + whole.T) / 2 / self.scales[:, None] / self.scales)
        return values, vectors

    @cached_property
    def root(self) -> Floats:
        """A root of `C_FF⁺`, (sums, directions)."""
        values, vectors = self._spectrum
        kept = values > _REDUNDANT
        return np.asarray(vectors[:, kept] / np.sqrt(values[kept]) / self.scales[:, None])

    def contradicted(self, lacking: Floats, sizes: Floats) -> int | None:
        """Which sum cannot be what it is said to be, if any, from what estimates lack of each."""
        values, vectors = self._spectrum
        lost = vectors[:, values <= _REDUNDANT]
        apart = np.abs(lost @ (lost.T @ (lacking / self.scales))) * self.scales
        worst = int(apart.argmax())
        return worst if apart[worst] > CONTRADICTION * max(1.0, float(np.abs(sizes).max())) else None

    def _whitened(self, workload: Workload) -> Floats:
        """`C_qF` times the root: what facts take off variances is its squared length, (queries, directions)."""
        return np.asarray(self.with_sums(workload) @ self.root)

    def _variances(self, workload: Workload) -> Floats:
        variances = np.array(self.own._variances(workload))
        many = workload.tabular and len(workload) > 1
        taken = [np.square(self._whitened(each)).sum(axis=1) for each in (workload.each() if many else [workload])]
        return np.where(np.isfinite(variances), np.maximum(variances - np.concatenate(taken), 0.0), np.inf)

    def _covariance(self, first: Workload, second: Workload) -> Floats:
        return np.asarray(self.own._covariance(first, second) - self._whitened(first) @ self._whitened(second).T)

    def _paired(self, first: Term, second: Term, crossed: tuple[int, ...]) -> Floats:
        taken = _Product(self._whitened(first.workload), self._whitened(second.workload))
        own: Floats = self.own._paired(first, second, crossed)
        return own - picked(cast("Floats", taken), first, second, crossed)


@dataclass(frozen=True, eq=False)
class ConditionalEstimator(Estimator):
    """Estimates beside known sums.

    Args:
        own: the estimates without them.
        values: what the sums are, (sums,).
        Others, of how they err and of what was measured, as for `Estimator`.
    """

    own: Estimator
    values: Floats

    @property
    def summary(self) -> str:
        """What was measured, in words, and how much is known."""
        return f"{self.own.summary} Beside it {len(self.values):,} sums are known."

    @cached_property
    def lacking(self) -> Floats:
        """By how much estimates exceed the known sums, (sums,)."""
        parts = self.plan.parts
        return np.concatenate([self.own.answers(known)[0][chosen] for known, chosen in parts]) - self.values

    @cached_property
    def _weights(self) -> Floats:
        root = self.plan.root
        return np.asarray(root @ (root.T @ self.lacking))

    def _taken(self, workload: Workload) -> Floats:
        """What the facts take off the estimate of every query, (queries,)."""
        return np.asarray(self.plan.with_sums(workload) @ self._weights)

    def marginal(self, positions: tuple[int, ...]) -> Floats:
        """The estimate, less what the facts take off it."""
        names = [self.plan.domain.names[i] for i in positions]
        own = self.own.marginal(positions)
        return own - self._taken(marginals(self.plan.domain, [names])).reshape(own.shape)

    def estimates(self, workload: Workload) -> Floats:
        """The estimate of every query, less what the facts take off it."""
        return self.own.estimates(workload) - self._taken(workload)

    def answers(self, workload: Workload) -> tuple[Floats, Floats]:
        """Of groups that cannot tell, what the estimator itself says."""
        return self.own.answers(workload)[0] - self._taken(workload), self.plan.variances(workload)

    combination = Estimator.as_query

    def _whitened(self) -> Floats:
        """Refuses: facts are no measurements."""
        raise PlanError("a release beside facts has no measurements of its own; pool or project the release itself.")


def conditioned(first: Uncertainty, estimator: Estimator, equalities: Sequence[Equality]) -> Estimator:
    """Estimates beside any sums that are known.

    Args:
        first: how estimates err before any fact.
        estimator: the estimates, beside facts that were taken before.
        equalities: the sums.

    Raises:
        PlanError: what was not measured, or facts that contradict each other.
    """
    parts = tuple(each.queries for each in equalities)
    before, now = (
        [np.sqrt(each.variances(workload)[chosen]) for workload, chosen in parts] for each in (first, estimator.plan)
    )
    for each, stddevs in zip(equalities, now, strict=True):
        if not np.isfinite(stddevs).all():
            raise PlanError(
                f"facts: the release does not tell {each.what}, so that nothing follows from it; leave it out, or know "
                "whole marginals."
            )
    scales = np.concatenate([np.where(np.isfinite(a), a, b) for a, b in zip(before, now, strict=True)])
    plan = BesideSums(estimator.plan, parts, np.where(scales > 0, scales, 1.0))
    values = np.concatenate([each.values[each.known].ravel() for each in equalities])
    known = ConditionalEstimator(plan, estimator.measurements, estimator.noisy, estimator, values)
    wrong = plan.contradicted(known.lacking, values)
    if wrong is not None:
        ends = np.cumsum([len(each) for each in now])
        raise contradiction(equalities[int(np.searchsorted(ends, wrong, side="right"))].what)
    return known
