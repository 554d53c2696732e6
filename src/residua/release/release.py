"""A release: noisy integers and how they were made, from which every table is read without touching data again."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from residua.domain import Domain, Label
from residua.errors import PlanError
from residua.linalg.layout import Group
from residua.plan.blocks import ResidualBlocks
from residua.plan.residual import ResidualPlan
from residua.release.estimates import Estimator
from residua.release.intervals import width
from residua.release.table import Table

Floats = NDArray[np.float64]
Simultaneous = Literal["table", "release"]


@dataclass(frozen=True)
class Estimate:
    """One published number with its error bar."""

    estimate: float
    stddev: float
    lower: float
    upper: float


@dataclass(frozen=True, eq=False)
class Release:
    """What was measured, once. Holds no true count; all tables are post-processing and agree with each other.

    Guarantee: estimates are unbiased, with exactly the variances and covariances that `release.plan` states.

    Args:
        planned: the plan as it was made.
        blocks: what was really measured.
        measurements: the noisy integers, in the order of `blocks.layout`, (cells,).
        receipt: what the ledger recorded when it was debited.
    """

    planned: ResidualPlan
    blocks: ResidualBlocks
    measurements: NDArray[np.int64]
    receipt: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.measurements.dtype != np.int64 or self.measurements.shape != (self.blocks.layout.cells,):
            raise PlanError("the measurements do not fit the plan; they belong to another one.")
        if self.measurements.flags.writeable:
            self.measurements.setflags(write=False)

    @property
    def domain(self) -> Domain:
        """What the table may hold."""
        return self.planned.domain

    @cached_property
    def plan(self) -> ResidualPlan:
        """The plan with the precisions really measured, the rounding of noise to integers included."""
        precisions = np.zeros(len(self.planned.lattice))
        precisions[self.blocks.measured] = 1.0 / self.blocks.noise_variances
        return replace(self.planned, precisions=precisions)

    @cached_property
    def _estimator(self) -> Estimator:
        return Estimator(self.blocks, self.measurements)

    @property
    def sets(self) -> tuple[tuple[str, ...], ...]:
        """The marginals that were asked for."""
        return self.planned.workload.sets if self.planned.workload is not None else ()

    def estimates(self, attributes: Sequence[str]) -> Floats:
        """Unbiased estimates of the marginal on these attributes, an array with one axis each, in this order.

        Raises:
            PlanError: the release cannot answer this marginal.
        """
        names = tuple(attributes)
        self.plan.variance(names)
        positions = self.domain.positions(names)
        order = np.argsort(np.argsort(positions))
        return np.array(self._estimator.marginal(tuple(sorted(positions))).transpose(order), order="C")

    def table(
        self, attributes: Sequence[str], *, confidence: float = 0.95, simultaneous: Simultaneous | None = None
    ) -> Table:
        """The marginal on these attributes with error bars.

        Args:
            attributes: which attributes, in the order of the columns; `[]` for the total.
            confidence: how often an interval holds the truth.
            simultaneous: `"table"` for intervals that all hold together with that confidence over this table,
                `"release"` over all tables that were asked for.
        """
        if simultaneous not in (None, "table", "release"):
            raise PlanError(f"simultaneous={simultaneous!r} is not 'table', 'release' or None.")
        estimates = self.estimates(attributes)
        together = {None: 1.0, "table": float(estimates.size), "release": max(self._asked_cells, estimates.size)}[
            simultaneous
        ]
        stddev = math.sqrt(self.plan.variance(attributes))
        return Table(self.domain, tuple(attributes), estimates, stddev, width(confidence, together))

    def combination(self, combination: Mapping[Sequence[str], ArrayLike], *, confidence: float = 0.95) -> Estimate:
        """A linear combination of cells with its exact standard deviation: attribute set → coefficients."""
        stddev = math.sqrt(self.plan.combination_variance(combination))
        value = sum(
            float((self.estimates(tuple(names)) * np.asarray(coefficients, dtype=np.float64)).sum())
            for names, coefficients in combination.items()
        )
        reach = width(confidence) * stddev
        return Estimate(value, stddev, value - reach, value + reach)

    def count(
        self, where: Mapping[str, Label | Iterable[Label]] | None = None, *, confidence: float = 0.95
    ) -> Estimate:
        """How many records have these values: attribute → a label, or several; nothing for the total.

        Example: `release.count({"sex": "Female", "age": range(18, 65)})`.
        """
        where = where or {}
        masks = [_mask(self.domain, name, wanted) for name, wanted in where.items()]
        coefficients = np.ones(())
        for mask in masks:
            coefficients = np.multiply.outer(coefficients, mask)
        return self.combination({tuple(where): coefficients}, confidence=confidence)

    def all_estimates(self) -> Iterator[tuple[Group, slice, Floats]]:
        """Every marginal of the closure in batches of equal shape, streamed; see `Estimator.all_marginals`."""
        return self._estimator.all_marginals()

    @cached_property
    def _asked_cells(self) -> float:
        return float(self.planned.workload.queries) if self.planned.workload is not None else 1.0

    def save(self, path: str | Path) -> None:
        """Writes the release as a folder, whole or not at all; the folder must not exist."""
        from residua.release.folder import reserve

        with reserve(Path(path), self.planned, self.blocks) as place:
            place.commit(self)

    @staticmethod
    def load(path: str | Path) -> Release:
        """Reads a saved release, refusing one that was changed. Needs neither data nor ledger.

        Raises:
            FileError: missing, damaged, changed, or of another version.
        """
        from residua.release.folder import load_release

        return load_release(Path(path))

    def __repr__(self) -> str:
        return f"Release({len(self.sets):,} tables, {self.planned.guarantee!r}, {self.planned.unit})"


def _mask(domain: Domain, name: str, wanted: Label | Iterable[Label]) -> Floats:
    labels = domain[name].labels
    chosen = [wanted] if isinstance(wanted, str | int) else list(wanted)
    unknown = [label for label in chosen if label not in labels]
    if unknown or not chosen or len(set(chosen)) < len(chosen):
        what = f"{unknown[0]!r} is not a value of {name!r}" if unknown else f"{name!r} needs distinct labels"
        raise PlanError(f"where: {what}; see domain[{name!r}].labels.")
    mask = np.zeros(len(labels))
    mask[[labels.index(label) for label in chosen]] = 1.0
    return mask
