"""What a plan really measures, as matrices over all cells, one record at a time; and what changes of the data cost."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from residua.domain import Domain
from residua.linalg.arrays import Floats, Integers
from residua.plans.measurements import Batch, Measurements
from residua.plans.noise import Noise
from residua.privacy import Unit

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
            moved = (changes @ self.rows[self.scales == scale].T).astype(object)
            for number, row in enumerate(moved):
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
    from scipy.sparse import csr_array

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
