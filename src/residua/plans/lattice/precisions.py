"""Precisions on a family of attribute sets: how plans for marginals and products say what they measure."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from residua.domain import Domain
from residua.errors import PlanError
from residua.linalg.lattice import Lattice
from residua.workload import renumber

Floats = NDArray[np.float64]
ORDER_TOLERANCE = 2.0**-30  # relative; precisions closer than this are one: a measurement's own rounding is 1e-13


class Measured(Protocol):
    """A plan that measures sets of a family."""

    @property
    def lattice(self) -> Lattice:
        """The family."""
        ...

    @property
    def precisions(self) -> Floats:
        """τ_S, (sets,)."""
        ...


def checked_precisions(given: Floats, lattice: Lattice, costs: Floats) -> Floats:
    """Precisions, one for each set, read-only; an empty block (of no cost) is known without measuring.

    Raises:
        PlanError: the wrong number of them, or one that is negative or not finite.
    """
    precisions = np.array(given, dtype=np.float64)
    if precisions.shape != (len(lattice),):
        raise PlanError(f"precisions has shape {precisions.shape}; give one for each of {len(lattice)} sets.")
    if not (np.isfinite(precisions).all() and (precisions >= 0).all()):
        raise PlanError("precisions must be finite and not negative.")
    precisions[costs == 0] = 0.0
    precisions.setflags(write=False)
    return precisions


def inverse(precisions: Floats) -> Floats:
    """`σ²_S = 1/τ_S` for every set, infinite where nothing is measured, (sets,)."""
    with np.errstate(divide="ignore"):
        return np.asarray(1.0 / precisions)


def on(lattice: Lattice, plan: Measured) -> Floats:
    """A plan's precisions on a family that holds its own, (sets,)."""
    if plan.lattice.same_sets(lattice):
        return plan.precisions
    precisions = np.zeros(len(lattice))
    precisions[renumber(plan.lattice, lattice)] = plan.precisions
    return precisions


def checked_coefficients(domain: Domain, names: tuple[str, ...], given: ArrayLike) -> Floats:
    """Coefficients of the cells of a marginal, one axis an attribute, in the order of the names.

    Raises:
        PlanError: of another shape, not finite, or not numbers.
    """
    shape = tuple(int(domain[name].size) for name in names)
    try:
        coefficients = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        coefficients = np.empty(0)
    if coefficients.shape != shape or not np.isfinite(coefficients).all():
        raise PlanError(f"the coefficients of {names!r} must be finite and of shape {shape}.")
    return coefficients
