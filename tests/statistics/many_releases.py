"""Many releases of one plan at once, as one that answers: quoted numbers and their intervals, (releases, groups)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

import residua as rs
from residua.linalg.arrays import along
from residua.plans.contract import Plan
from residua.plans.quotes import PlanAnswers
from residua.quoting import Quotable, Quoted, Term
from tests.statistics.copies import measured


@dataclass(frozen=True, eq=False)
class ManyReleases(Quotable):
    """So many releases of a plan of a true table, through the measuring step's own noise.

    Args:
        plan: the plan.
        x: the true counts, one axis per attribute of the domain.
        runs: how many releases.
    """

    plan: Plan
    x: np.ndarray
    runs: int
    note: str = ""
    remark: str = ""
    lacks: float = 0.0

    @property
    def domain(self) -> rs.Domain:
        return self.plan.domain

    def _answering(self) -> ManyReleases:
        return self

    @cached_property
    def tables(self) -> np.ndarray:
        """The estimated tables: estimates are linear in the measurements, so the reading is asked once per integer."""
        measurements = self.plan.compile()
        whole = tuple(range(len(self.domain)))
        unit = np.eye(measurements.cells, dtype=np.int64)
        linear = np.array([self.plan.estimator(measurements, row).marginal(whole).ravel() for row in unit])
        return (measured(measurements, self.x, self.runs) @ linear).reshape(self.runs, *self.x.shape)

    @cached_property
    def noise(self) -> PlanAnswers:
        measurements = self.plan.compile()
        estimator = self.plan.estimator(measurements, np.zeros(measurements.cells, dtype=np.int64))
        return PlanAnswers(estimator.plan, estimator)

    def estimates(self, term: Term) -> np.ndarray:
        return _applied(term, self.tables)

    def covariances(self, first: Term, second: Term, crossed: tuple[int, ...] = ()) -> np.ndarray:
        return self.noise.covariances(first, second, crossed)

    def widths(self, first, second, factors, confidence, together):
        return self.noise.widths(first, second, factors, confidence, together)


@dataclass(frozen=True, eq=False)
class Truth(Quotable):
    """The true numbers."""

    domain: rs.Domain
    x: np.ndarray
    note: str = "true"
    remark: str = ""
    lacks: float = 0.0

    def _answering(self) -> Truth:
        return self

    def estimates(self, term: Term) -> np.ndarray:
        return _applied(term, self.x[None].astype(float))[0]

    def covariances(self, *asked: object) -> None:
        return None

    def widths(self, *asked: object) -> float:
        raise AssertionError


def _applied(term: Term, tables: np.ndarray) -> np.ndarray:
    for axis, size in enumerate(term.domain.sizes.tolist()):
        rows = term.rows.get(axis)
        tables = along(np.ones((1, size)) if rows is None else rows, tables, axis + 1)
    return tables.reshape(len(tables), *term.shape)


Ask = Callable[[Quotable], Quoted]


@dataclass(frozen=True)
class Coverage:
    """How often intervals held the truth, of each group; how wide they were; how many were unbounded."""

    held: np.ndarray
    delta: np.ndarray
    width: float
    unbounded: float


def coverage(many: ManyReleases, ask: Ask) -> Coverage:
    """What many releases say, beside the truth."""
    truth = np.asarray(ask(Truth(many.domain, many.x)).estimate)
    found = ask(many)
    slack = 1e-9 * (1 + np.abs(truth))
    held = ((found.lower <= truth + slack) & (truth - slack <= found.upper)).mean(axis=0)
    widths = found.upper - found.lower
    finite = np.isfinite(widths)
    delta = (np.abs(found.estimate - truth) <= 1.96 * found.stddev + slack).mean(axis=0)
    return Coverage(held, delta, float(np.median(widths[finite])) if finite.any() else np.inf, float(1 - finite.mean()))
