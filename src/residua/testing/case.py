"""A plan beside its matrices: what it really measures, one record at a time, and what laws compare it with."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, cast

import numpy as np

from residua.domain import Domain
from residua.errors import ResiduaError
from residua.linalg.arrays import Booleans, Floats, Integers
from residua.machine import csr_array
from residua.plans.contract import Plan
from residua.plans.measurements import Batch, Measurements
from residua.plans.noise import Noise
from residua.privacy import Unit
from residua.workload import Workload, explicit, marginals

_MOST_CHANGES = 20_000
_NEVER = np.iinfo(np.int64).min


@dataclass(frozen=True, eq=False)
class Measured:
    """What measurements are, as matrices over all cells of a domain.

    Args:
        kind: normal or Laplace noise.
        rows: the integers, (measurements, cells).
        scales: the noise scale of each; not a number where noise is correlated, (measurements,).
        noise: the covariance of what is added, rounding to integers included, (measurements, measurements).
        bare: the same before rounding, which is what the price rests on.
    """

    kind: Noise
    rows: Integers
    scales: Floats
    noise: Floats
    bare: Floats

    @property
    def correlated(self) -> bool:
        """Whether some noise is correlated."""
        return bool(np.isnan(self.scales).any())

    def gamma(self, noise: Floats) -> Floats:
        """The privacy cost matrix under this noise, (cells, cells)."""
        return np.asarray(self.rows.T @ inverse(noise) @ self.rows)

    def costs(self, changes: Integers) -> list[Fraction]:
        """What each change of the counts, (changes, cells), costs: its squared norm, or for Laplace noise its L1 norm.

        As fractions, exactly; where noise is correlated, in floats, lowered by more than their rounding.
        """
        if self.correlated:
            costs = np.einsum("ij,jk,ik->i", changes, self.gamma(self.bare), changes)
            return [Fraction(cost) for cost in (costs * (1 - 1e-7)).tolist()]
        total = [Fraction(0)] * len(changes)
        for scale in np.unique(self.scales).tolist():
            for number, row in enumerate((changes @ self.rows[self.scales == scale].T).astype(object)):
                if self.kind.gaussian:
                    total[number] += Fraction(int((row * row).sum())) / Fraction(scale) ** 2
                else:
                    total[number] += Fraction(int(np.abs(row).sum())) / Fraction(scale)
        return total

    def largest_cost(self, changes: Integers) -> Fraction:
        """The largest cost of some changes, (changes, cells); exactly that of those which are largest in floats."""
        if self.correlated:
            return max(self.costs(changes))
        moved = np.abs(changes @ self.rows.T / self.scales)
        costs = (moved**2).sum(axis=1) if self.kind.gaussian else moved.sum(axis=1)
        return max(self.costs(np.unique(changes[costs >= costs.max() * (1 - 1e-9)], axis=0)[:64]))


def inverse(noise: Floats) -> Floats:
    """The inverse of a covariance matrix."""
    variances = np.diag(noise)
    if np.array_equal(noise, np.diag(variances)):
        return np.diag(1 / variances)
    return np.asarray(np.linalg.inv(noise))


def measured_by(measurements: Measurements, sizes: Sequence[int]) -> Measured:
    """Measures one record in every cell, one after the other.

    Args:
        measurements: what is measured.
        sizes: how many values each attribute of the domain has.
    """
    cells = math.prod(sizes)
    columns = [measured_exactly(measurements, sizes, unit) for unit in np.eye(cells, dtype=np.int64)]
    scales, (noise, bare) = np.full(measurements.cells, np.nan), np.zeros((2, measurements.cells, measurements.cells))
    for batch, at, _ in _batches(measurements, _tables(measurements, sizes, np.zeros(cells, dtype=np.int64))):
        along = measurements.correlation(batch)
        if along is None:
            scales[at] = np.broadcast_to(batch.scales[:, None], at.shape)
            noise[at, at], bare[at, at] = measurements.noise.variance(scales[at]), scales[at] ** 2
            continue
        own = np.full((1, 1), float(batch.scales[0]) ** 2)  # on the grid, along one ordered attribute or two
        for each in along:
            own = np.kron(own, each.applied(csr_array(np.eye(each.size))))
        for row in at:
            bare[np.ix_(row, row)] = own
            noise[np.ix_(row, row)] = own + np.eye(len(row)) / 12
    return Measured(measurements.noise, np.array(columns).reshape(cells, -1).T, scales, noise, bare)


def measured_exactly(measurements: Measurements, sizes: Sequence[int], counts: Integers) -> Integers:
    """The measurements of a full table without noise, (measurements,).

    Args:
        measurements: what is measured.
        sizes: how many values each attribute of the domain has.
        counts: of every cell of the domain, (cells,).

    Raises:
        AssertionError: some measurement is never made, or not an integer.
    """
    noisy = np.full(measurements.cells, _NEVER)
    for _, at, integers in _batches(measurements, _tables(measurements, sizes, counts)):
        if integers.dtype != np.int64:
            raise AssertionError(f"what is measured is of type {integers.dtype}, not whole numbers")
        noisy[at] = integers
    if (noisy == _NEVER).any():
        raise AssertionError("some measurements are in no batch")
    return noisy


def _tables(measurements: Measurements, sizes: Sequence[int], counts: Integers) -> Integers:
    """The tables that must be known to measure, from a full table."""
    full, tables = counts.reshape(sizes), np.zeros(measurements.counted.cells, dtype=np.int64)
    for group in measurements.counted:
        view = group.view(tables)
        for number, members in enumerate(group.members.tolist()):
            view[number] = full.sum(axis=tuple(i for i in range(len(sizes)) if i not in members))
    return tables


def _batches(measurements: Measurements, tables: Integers) -> Iterator[tuple[Batch, Integers, Integers]]:
    """Every batch, where its integers lie among all measurements, and what they are, (tables, cells) each."""
    for batch in measurements.batches():
        integers = measurements.integers(batch, tables)
        values, numbers = integers.copy(), np.arange(integers.size, dtype=np.int64).reshape(integers.shape)
        if measurements.in_place:  # the integers are a view of the tables: see where it lies
            mark = np.iinfo(np.int64).max - integers.size
            integers[...] = mark + numbers
            places = np.flatnonzero(tables >= mark)
            at = places[np.argsort(tables[places])]
            integers[...] = values
        else:
            out = np.full(measurements.cells, -1, dtype=np.int64)
            measurements.store(batch, numbers, out)
            at = np.argsort(out, kind="stable")[len(out) - integers.size :]
        yield batch, at.reshape(integers.shape), values


def changes_of(domain: Domain, unit: Unit) -> Integers:
    """What a unit can change in the counts: all of it where that is not too much, (changes, cells)."""
    sizes = [int(n) for n in domain.sizes]
    n = math.prod(sizes)
    one = np.eye(n, dtype=np.int64)
    if unit.contribution is None:
        i, j = (some[:: len(some) // _MOST_CHANGES + 1] for some in np.triu_indices(n, 1))
        apart = one[i] - one[j] if n > 1 else np.zeros((1, 1), dtype=np.int64)
        return np.vstack([apart, one]) if domain.drops else apart
    limits = [(domain.position(name), most) for name, most in unit.contribution.limits]
    if not limits:
        return unit.contribution.records * one
    codes = np.indices(sizes).reshape(len(sizes), n)
    changes = []
    for records in range(1, unit.contribution.records + 1):
        if math.comb(n + records - 1, records) > _MOST_CHANGES:
            break
        chosen = np.array(list(itertools.combinations_with_replacement(range(n), records)))
        allowed = np.ones(len(chosen), dtype=bool)
        for position, most in limits:
            values = np.sort(codes[position][chosen], axis=1)
            if most < records:
                allowed &= (values[:, most:] != values[:, : records - most]).all(axis=1)
        changes.append(one[chosen[allowed]].sum(axis=1))
    return np.vstack(changes)


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
        return cast("Plan", self.plan.estimator(self.plan.measurements, zeros).plan)

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
        return cast("Floats", workload.over(tuple(range(len(self.sizes)))).toarray())

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
