"""Everything that one person can do on a small domain, and what it costs: the brute force for prices."""

from functools import cache
from itertools import combinations_with_replacement, product

import numpy as np

from residua.plans.matrix.measurements import MatrixMeasurements
from tests.laws import dense


@cache
def everyone(sizes: tuple[int, ...], records: int, limits: tuple[tuple[int, int], ...]) -> np.ndarray:
    """Every z: all ways to have at most so many records within limits (position, most per value), (persons, cells)."""
    cells = np.array(list(product(*map(range, sizes)))).reshape(-1, len(sizes))
    found = [np.zeros(len(cells), dtype=int)]
    for count in range(1, records + 1):
        for chosen in combinations_with_replacement(range(len(cells)), count):
            values = cells[list(chosen)]
            if all(np.bincount(values[:, i]).max() <= most for i, most in limits):
                found.append(np.bincount(chosen, minlength=len(cells)))
    return np.array(found)


def persons_of(plan) -> np.ndarray:
    """Everyone that the plan's unit allows."""
    limits = tuple((plan.domain.position(name), most) for name, most in plan.unit.contribution.limits)
    return everyone(tuple(plan.domain.sizes.tolist()), plan.unit.contribution.records, limits)


def measured_rows(measurements, sizes) -> np.ndarray:
    """What is measured as rows over all cells of the domain, each over its noise scale: from the integers alone."""
    sizes = [int(n) for n in sizes]
    if isinstance(measurements, MatrixMeasurements):
        shape = [n if i in measurements.attributes else 1 for i, n in enumerate(sizes)]
        columns = np.broadcast_to(measurements.columns.reshape(shape), sizes).ravel()
        return (
            np.append(measurements.strategy, np.zeros((len(measurements.strategy), 1)), axis=1)[:, columns]
            / measurements.scale
        )
    found = []
    for number, t, s in zip(measurements.measured, measurements.grids, measurements.scales, strict=True):
        members = measurements.lattice.members(int(number))
        parts = (measurements.strategies[i].matrix if i in members else np.ones((1, n)) for i, n in enumerate(sizes))
        found.append(dense.kron(parts) * (t / s))
    return np.vstack(found)


def true_cost(measurements, plan) -> float:
    """The largest `zᵀΓz` of what blocks measure."""
    return float(((persons_of(plan) @ measured_rows(measurements, plan.domain.sizes).T) ** 2).sum(axis=1).max())
