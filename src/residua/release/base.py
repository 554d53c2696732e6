"""What every release is: noisy integers and how they were made, from which answers are read without data."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from residua.domain import Domain, Label
from residua.errors import PlanError
from residua.plan.base import Blocks, Plan
from residua.release.intervals import width
from residua.release.table import Answers, Table
from residua.workload import Explicit, Marginals

Floats = NDArray[np.float64]
Simultaneous = Literal["table", "release"]
Combination = Mapping[Sequence[str], ArrayLike]
Asked = tuple[str, ...] | Explicit | Marginals | Combination


@dataclass(frozen=True)
class Estimate:
    """One published number with its error bar."""

    estimate: float
    stddev: float
    lower: float
    upper: float


class Release(ABC):
    """What was measured, once. Holds no true count; all answers are post-processing and agree with each other.

    Guarantee: estimates are unbiased, with exactly the variances and covariances that `release.plan` states. Where a
    plan was asked for with a bias, they are unbiased for the nearby queries `release.plan.workload`, and no intervals
    are given.
    """

    planned: Plan
    blocks: Blocks
    measurements: NDArray[np.int64]
    receipt: Mapping[str, Any]

    def __post_init__(self) -> None:
        if self.measurements.dtype != np.int64 or self.measurements.shape != (self.blocks.cells,):
            raise PlanError("the measurements do not fit the plan; they belong to another one.")
        if self.measurements.flags.writeable:
            self.measurements.setflags(write=False)

    @property
    def domain(self) -> Domain:
        """What the table may hold."""
        return self.planned.domain

    @property
    @abstractmethod
    def asked_cells(self) -> float:
        """How many numbers were asked for."""

    @property
    @abstractmethod
    def summary(self) -> str:
        """What was measured, in a sentence."""

    @abstractmethod
    def estimates(self, attributes: Sequence[str]) -> Floats:
        """Unbiased estimates of the marginal on these attributes, an array with one axis each, in this order."""

    @abstractmethod
    def _stddev(self, attributes: Sequence[str]) -> float | Floats:
        """The standard deviations of a marginal's cells: one for all, or an array."""

    @abstractmethod
    def _combined(self, combination: Mapping[Sequence[str], ArrayLike]) -> tuple[float, float]:
        """Estimate and variance of a linear combination of cells."""

    @abstractmethod
    def _answered(self, workload: Explicit | Marginals) -> tuple[Floats, Floats]:
        """Estimates and variances of every query of a workload."""

    def table(
        self, attributes: Sequence[str], *, confidence: float = 0.95, simultaneous: Simultaneous | None = None
    ) -> Table:
        """The marginal on these attributes with error bars.

        Args:
            attributes: which attributes, in the order of the columns; `[]` for the total.
            confidence: how often an interval holds the truth.
            simultaneous: `"table"` for intervals that all hold together with that confidence over this table,
                `"release"` over all numbers that were asked for.

        Raises:
            PlanError: the release cannot answer this marginal.
        """
        estimates = self.estimates(attributes)
        together = self._together(simultaneous, estimates.size)
        reach = self._widths(tuple(attributes), confidence, together)
        return Table(self.domain, tuple(attributes), estimates, self._stddev(attributes), reach)

    def answers(
        self,
        workload: Explicit | Marginals,
        *,
        confidence: float = 0.95,
        simultaneous: Simultaneous | None = None,
    ) -> Answers:
        """The answers to every query of a workload with error bars.

        Raises:
            PlanError: a query cannot be answered from what was measured.
        """
        estimates, variances = self._answered(workload)
        reach = self._widths(workload, confidence, self._together(simultaneous, len(estimates)))
        return Answers(tuple(workload.query_labels()), estimates, np.sqrt(variances), reach)

    def combination(self, combination: Mapping[Sequence[str], ArrayLike], *, confidence: float = 0.95) -> Estimate:
        """A linear combination of cells with its exact standard deviation: attribute set → coefficients."""
        value, variance = self._combined(combination)
        stddev = float(np.sqrt(variance))
        reach = float(np.max(self._widths(combination, confidence, 1.0))) * stddev
        return Estimate(value, stddev, value - reach, value + reach)

    def count(
        self, where: Mapping[str, Label | Iterable[Label]] | None = None, *, confidence: float = 0.95
    ) -> Estimate:
        """How many records have these values: attribute → a label, or several; nothing for the total.

        Example: `release.count({"sex": "Female", "age": range(18, 65)})`.
        """
        where = where or {}
        coefficients = np.ones(())
        for name, wanted in where.items():
            coefficients = np.multiply.outer(coefficients, _mask(self.domain, name, wanted))
        return self.combination({tuple(where): coefficients}, confidence=confidence)

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

    def _widths(self, asked: Asked, confidence: float, together: float) -> float | Floats:
        """How many standard deviations intervals reach: one figure for all, or one for each number, flat.

        Gaussian answers here; NaN for a biased plan, whose intervals would not hold the truth.
        """
        reach = width(confidence, together)
        return float("nan") if self.planned.bias else reach

    def _together(self, simultaneous: Simultaneous | None, cells: int) -> float:
        """How many intervals must hold at once."""
        if simultaneous not in (None, "table", "release"):
            raise PlanError(f"simultaneous={simultaneous!r} is not 'table', 'release' or None.")
        if simultaneous is None:
            return 1.0
        return float(cells) if simultaneous == "table" else max(self.asked_cells, float(cells))


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
