"""A plan beside its matrices: all that laws compare it with, and how they say that it differs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from residua.errors import ResiduaError
from residua.linalg.arrays import Booleans, Floats
from residua.plans.contract import Plan
from residua.testing.measured import Measured, measured_by
from residua.workload import Workload, explicit, marginals

_SLACK = {False: 1e-6, True: 2e-5}  # of stated variances, by whether noise is correlated: passes in floats
_MOST_QUERIES = 1_000


@dataclass(frozen=True, eq=False)
class Case:
    """A plan, and what dense linear algebra says of what it really measures.

    Args:
        plan: the plan.
    """

    plan: Plan

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        """How many values each attribute has."""
        return tuple(int(n) for n in self.plan.domain.sizes)

    @cached_property
    def measured(self) -> Measured:
        """What is really measured."""
        return measured_by(self.plan.measurements, self.sizes)

    @cached_property
    def truth(self) -> Plan:
        """The plan as it was really measured, the rounding of noise included."""
        zeros = np.zeros(self.plan.measurements.cells, dtype=np.int64)
        as_measured: Plan = self.plan.estimator(self.plan.measurements, zeros).plan
        return as_measured

    @property
    def slack(self) -> float:
        """By how much, relatively, stated variances may differ from those of matrices."""
        return _SLACK[self.measured.correlated]

    @cached_property
    def _known(self) -> Floats:
        return self.measured.gamma(self.measured.noise)

    @cached_property
    def inverse(self) -> Floats:
        """Γ⁺ of what is measured, rounding included, (cells, cells)."""
        return np.asarray(np.linalg.pinv(self._known, rcond=1e-11, hermitian=True))

    def rows(self, workload: Workload) -> Floats:
        """Queries over all cells, (queries, cells)."""
        dense: Floats = workload.over(tuple(range(len(self.sizes)))).toarray()
        return dense

    def answered(self, W: Floats) -> Booleans:
        """Which rows are combinations of what is measured, (queries,)."""
        off = np.abs(W @ self.inverse @ self._known - W)
        return np.asarray((off <= 1e-5 * np.abs(W).max(axis=1, initial=1e-9, keepdims=True)).all(axis=1))

    def variances(self, W: Floats) -> Floats:
        """Of every row, infinite where it cannot be answered, (queries,)."""
        return np.where(self.answered(W), np.einsum("ij,jk,ik->i", W, self.inverse, W), np.inf)

    @cached_property
    def tables(self) -> dict[tuple[str, ...], tuple[Floats, Floats]]:
        """Attributes of every small marginal, its rows over all cells, and its variances, one axis per attribute."""
        names = self.plan.domain.names
        dense = {}
        for some in (some for k in range(min(len(names), 3) + 1) for some in itertools.combinations(names, k)):
            shape = [self.plan.domain[name].size for name in some]
            if math.prod(shape) <= _MOST_QUERIES:
                W = self.rows(marginals(self.plan.domain, [some]))
                dense[some] = W, self.variances(W).reshape(shape)
        return dense

    @cached_property
    def workloads(self) -> dict[str, Workload]:
        """What the laws ask: what was asked, the same listed, combinations, one-valued attributes, and constants."""
        domain, cells = self.plan.domain, math.prod(self.sizes)
        asked: dict[str, Workload] = {
            "a constant": explicit(domain, np.ones((1, 1)), on=[]),
            "one and a half of everything": explicit(domain, np.full((1, cells), 1.5)),
            "nothing": explicit(domain, np.zeros((1, cells))),
        }
        own = self.plan.workload
        if own is not None and own.queries <= _MOST_QUERIES:
            mixed = np.random.default_rng(5).integers(-2, 3, (4, own.queries)) @ self.rows(own)
            asked |= {"what was asked": own, "what was asked, listed": own.listed()}
            asked["combinations of what was asked"] = explicit(domain, mixed)
        for name, size in zip(domain.names, self.sizes, strict=True):
            if size == 1:
                asked[f"{name!r}, which has one value"] = marginals(domain, [(name,)])
        return asked

    @cached_property
    def dense(self) -> dict[str, tuple[Floats, Floats]]:
        """The rows of every workload over all cells, and their variances."""
        rows = {what: self.rows(workload) for what, workload in self.workloads.items()}
        return {what: (W, self.variances(W)) for what, W in rows.items()}


def require(holds: object, sentence: str) -> None:
    """Says in a sentence what does not hold.

    Raises:
        AssertionError: it does not.
    """
    if not bool(holds):
        raise AssertionError(sentence)


def require_close(stated: Any, truth: Any, slack: float, what: str, scale: Any = None) -> None:
    """Requires numbers to be those of dense matrices, up to a slack relative to them, or to a scale.

    Raises:
        AssertionError: other numbers, or infinite ones in other places.
    """
    stated, truth = np.asarray(stated, dtype=float), np.asarray(truth, dtype=float)
    require(stated.shape == truth.shape, f"{what}: shape {stated.shape}, not {truth.shape}")
    finite = np.isfinite(truth)
    require(np.array_equal(np.isfinite(stated), finite), f"{what}: answered in other places than it can be")
    size = np.abs(truth) if scale is None else np.broadcast_to(scale, truth.shape)
    close = np.abs(stated[finite] - truth[finite]) <= slack * size[finite] + 1e-9
    require(close.all(), f"{what}: {stated.ravel()[:6]}, in truth {truth.ravel()[:6]}")


def require_refusal(action: Callable[[], object], what: str, error: type[ResiduaError] = ResiduaError) -> None:
    """Requires an error of ours, in a sentence.

    Raises:
        AssertionError: nothing was refused.
    """
    try:
        action()
    except error as problem:
        require(len(str(problem).split()) > 3, f"{what} is refused without a sentence: {problem!r}")
        return
    raise AssertionError(f"{what} is not refused")
