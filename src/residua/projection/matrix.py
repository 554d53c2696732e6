"""Projection of releases of matrix plans: the histogram with the nearest answers, over cells merged where they may be.

The distance is `‖F h − t‖`. In the release's own metric F is the measured space scaled to noise of variance one; in the
plain one `‖W h − a‖` with the asked queries W and their unbiased answers a, through the triangular factor of W alone.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from residua.domain import impossible_cells
from residua.domain.facts import shown
from residua.errors import PlanError
from residua.linalg.arrays import Booleans, Floats, Integers
from residua.plans.contract import Plan
from residua.plans.matrix.plan import MatrixPlan
from residua.plans.product.plan import ProductPlan
from residua.projection.problem import Fit, Histogram, Progress, ProjectionProblem, Terms, spectral_sums
from residua.projection.simplex import nearest_histogram


class MatrixProblem(ProjectionProblem):
    """Projection of releases of a matrix plan; observed are coordinates in the measured space, (r,)."""

    plan: MatrixPlan
    in_metrics = ("covariance", "plain")
    no_other = (
        "releases of explicit queries are projected to one histogram, which has all its margins at once; leave metric "
        "out, or say 'covariance' or 'plain'."
    )

    @classmethod
    def posed(cls, plan: Plan, terms: Terms) -> ProjectionProblem:
        """The problem of the matrix that a plan is."""
        return cls(plan.space, terms)

    def __post_init__(self) -> None:
        for fact in self.terms.facts:
            if not set(fact.members) <= set(self.plan.attributes):
                raise PlanError(
                    f"known: the release is about {', '.join(self.plan.names)} and cannot be made to agree with "
                    f"{shown(self.plan.domain, fact.members)}; leave the fact out, or ask queries about it."
                )

    # ---- the variables: cells that neither a query, nor a fact, nor a rule tells apart are one

    @cached_property
    def _possible(self) -> Booleans:
        mask = impossible_cells(self.plan.domain, self.plan.names)
        return np.ones(self.plan.columns.size, dtype=bool) if mask is None else ~mask.ravel()

    @cached_property
    def _fact_cells(self) -> list[Integers]:
        """For each fact, which of its cells each cell of the plan's attributes belongs to."""
        cells = []
        for fact in self.terms.facts:
            numbers = np.arange(fact.values.size).reshape(fact.values.shape)
            wide = [n if i in fact.members else 1 for i, n in zip(self.plan.attributes, self.plan.shape, strict=True)]
            cells.append(np.broadcast_to(numbers.reshape(wide), self.plan.shape).ravel())
        return cells

    @cached_property
    def _groups(self) -> tuple[Integers, Integers]:
        """The variable of each cell, −1 where impossible, (cells,); and a cell of each variable, (variables,)."""
        keys = np.stack([self.plan.columns, *self._fact_cells])[:, self._possible]
        _, first, inverse = np.unique(keys, axis=1, return_index=True, return_inverse=True)
        group = np.full(self.plan.columns.size, -1, dtype=np.int64)
        group[self._possible] = inverse.ravel()
        return group, np.flatnonzero(self._possible)[first]

    # ---- the metric

    @cached_property
    def _root(self) -> Floats:
        """What turns coordinates in the measured space into coordinates of the metric, (·, r)."""
        s = self.plan.factors[1]
        if self.terms.metric == "covariance":
            return np.diag(s / np.sqrt(self.plan.noise_variance))
        if self.plan.workload is None:
            raise PlanError("metric='plain' needs the queries that were asked; this release was measured without any.")
        return np.asarray(np.linalg.qr(self.plan.coordinates(self.plan.workload)).R)

    @property
    def noise_sums(self) -> tuple[float, float, float]:
        """Of the noise in the measured space, along orthogonal directions of the metric."""
        noise = self._root / self.plan.factors[1] * np.sqrt(self.plan.noise_variance)
        return spectral_sums(np.linalg.svd(noise, compute_uv=False) ** 2)

    @property
    def cells(self) -> float:
        """How many numbers a squared distance is spread over: directions measured, or queries asked."""
        asked = self.plan.workload
        plain = self.terms.metric == "plain" and asked is not None
        return float(asked.queries) if plain and asked is not None else float(len(self.plan.factors[1]))

    def seen(self, fit: Fit) -> Floats:
        """A histogram in coordinates of the measured space."""
        asked = self.plan.columns >= 0
        merged = np.bincount(self.plan.columns[asked], fit.array.ravel()[asked], self.plan.strategy.shape[1])
        return np.asarray(self.plan.factors[2] @ merged)

    def squared(self, observed: Floats) -> float:
        """Of a vector in the measured space."""
        return super().squared(self._root @ observed)

    # ---- the work

    def solve(self, observed: Floats, progress: Progress | None = None) -> Histogram:
        """The histogram that meets the terms and whose answers are nearest."""
        F = self.queries()
        measured = np.ones(F.shape[1], dtype=bool) if self._untold is None else F.any(axis=0)
        nearest = nearest_histogram(
            F[:, measured],
            self._root @ observed,
            total=self.total(),
            equalities=self.equalities(),
            nonnegative=self.terms.nonnegative,
            tolerance=self.terms.tolerance,
            progress=progress,
        )
        counts = np.zeros(F.shape[1])
        counts[measured] = nearest.coordinates
        return self.fit_of(self.spread(counts), nearest.gap, nearest.infeasibility)

    @cached_property
    def _untold(self) -> Booleans | None:
        """The cells that no measured query counts, if there are any and no total limits them, (n, …)."""
        cells = (self.plan.columns < 0) & self._possible
        return cells.reshape(self.plan.shape) if cells.any() and self.total() is None else None

    @property
    def left_out(self) -> tuple[tuple[int, ...], ...]:
        """All of its tables, where some cells are not told."""
        return () if self._untold is None else (self.plan.attributes,)

    def total(self) -> float | None:
        """The total that the facts imply, if there is any."""
        return float(self.terms.facts[0].values.sum()) if self.terms.facts else None

    def equalities(self) -> tuple[Floats, Floats] | None:
        """The facts other than the total as equations over the variables: (equations, variables) and (equations,)."""
        _, first = self._groups
        rows, values = [], []
        for fact, cells in zip(self.terms.facts, self._fact_cells, strict=True):
            if fact.members:
                rows.append((cells[first] == np.arange(fact.values.size)[:, None]).astype(np.float64))
                values.append(fact.values.ravel())
        return (np.vstack(rows), np.concatenate(values)) if rows else None

    def queries(self) -> Floats:
        """F: the metric's coordinates of one record in each variable, (·, variables)."""
        _, first = self._groups
        columns = self.plan.columns[first]
        return np.where(columns >= 0, (self._root @ self.plan.factors[2])[:, np.maximum(columns, 0)], 0.0)

    def spread(self, h: Floats) -> Floats:
        """Counts of the variables shared out evenly among their cells, one axis per attribute."""
        group, first = self._groups
        each = np.append(h / np.bincount(group[group >= 0], minlength=len(first)), 0.0)
        return np.asarray(each[group].reshape(self.plan.shape))

    def unprojected(self, observed: Floats) -> Histogram:
        """Some histogram (with negative cells) whose answers are the unbiased estimates."""
        h = self.plan.factors[2].T @ observed
        each = np.append(h / np.bincount(self.plan.columns[self.plan.columns >= 0], minlength=len(h)), 0.0)
        return self.fit_of(each[self.plan.columns].reshape(self.plan.shape), 0.0, 0.0)

    def fit_of(self, array: Floats, gap: float, infeasibility: float) -> Histogram:
        """The fit that a saved projection keeps."""
        if array.shape != self.plan.shape:
            raise ValueError("the counts do not fit the plan; they belong to another projection")
        return Histogram(array, gap, infeasibility, self.plan.attributes, self._untold)

    def read(self, estimator: Any) -> Floats:
        """The measured vector in the orthonormal basis of the measured space, (r,)."""
        U, s, _ = self.plan.factors
        return np.asarray((U.T @ estimator.noisy.astype(np.float64)) / s)

    def error(self, fit: Fit, truth: Fit) -> float:
        """The mean absolute difference over all asked queries; without a workload, over the measured directions."""
        apart = self.seen(fit) - self.seen(truth)
        asked = self.plan.workload
        return float(np.abs(apart if asked is None else self.plan.coordinates(asked) @ apart).mean())


class AxisProblem(ProjectionProblem):
    """Projection of releases along one attribute alone; observed are prefix sums, (n,)."""

    plan: ProductPlan
    no_other = "along an axis it is squares over prefixes; leave metric out."

    def __post_init__(self) -> None:
        self.only_total("along an axis")

    @property
    def bounded(self) -> bool:  # type: ignore[override]
        """Where the noise is correlated along the axis."""
        return self.plan.correlated is not None

    def read(self, estimator: Any) -> Floats:
        """The estimated prefix sums."""
        return np.cumsum(estimator.marginal((self.plan.attribute,)))

    def solve(self, observed: Floats, progress: Progress | None = None) -> Histogram:
        """The nearest prefix sums that meet the terms."""
        from scipy.optimize import isotonic_regression  # takes long to load

        total = float(self.terms.facts[0].values) if self.terms.facts else None
        open_ones = observed if total is None else observed[:-1]
        if self.terms.nonnegative and len(open_ones):
            open_ones = np.clip(isotonic_regression(open_ones).x, 0.0, total)
        return self.unprojected(open_ones if total is None else np.append(open_ones, total))

    def unprojected(self, observed: Floats) -> Histogram:
        """The released counts."""
        return self.fit_of(np.diff(observed, prepend=0.0), 0.0, 0.0)

    def fit_of(self, array: Floats, gap: float, infeasibility: float) -> Histogram:
        """The fit that a saved projection keeps."""
        if array.shape != (self.plan.size,):
            raise ValueError("the counts do not fit the plan; they belong to another projection")
        return Histogram(array, gap, infeasibility, (self.plan.attribute,))

    def seen(self, fit: Fit) -> Floats:
        """All prefix sums."""
        return np.cumsum(fit.array)

    @property
    def noise_sums(self) -> tuple[float, float, float]:
        """The sum of the variances of all prefixes; no eigenvalue is above the largest sum of a row."""
        path = self.plan.correlated
        if path is None:
            raise PlanError("no bound is known for projections with Laplace noise; simulate errors instead.")
        sums, _ = path.strategy.noise.variances()
        ones = csr_array(np.ones((1, self.plan.size)))
        total, largest = path.factor * float(sums.sum()), path.factor * float(path.strategy.noise.applied(ones).max())
        return total, total * largest, largest

    @property
    def cells(self) -> float:
        """One number per prefix."""
        return float(self.plan.size)
