"""Quoted numbers before any data: what they would be, and how accurate, for an assumed distribution.

`plan.assuming(10_000).mean("age", by=["sex"])` takes the numbers from the assumed distribution and their errors from
the plan: the intervals are those around an estimate that happens to be the truth.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from residua.domain import Domain, Label
from residua.errors import PlanError
from residua.linalg.arrays import Floats
from residua.plans.quotes import MOST_PAIRS, PlanAnswers, picked
from residua.quoting import Answering, Quotable, Term

Assumed = Mapping[str | tuple[str, ...], Mapping[Label, float] | ArrayLike]


class Forecasts(Quotable):
    """The quoted numbers of a plan: what they would be, and how accurate, for an assumed distribution."""

    domain: Domain

    @property
    def alike(self) -> bool:
        """Whether all values of an attribute are measured alike."""
        return False

    def _covariance(self, first: Any, second: Any) -> Floats:
        raise NotImplementedError

    def _paired(self, first: Term, second: Term, crossed: tuple[int, ...]) -> Floats:
        """Covariances place by place, from those of all queries; forms know better ways."""
        if math.prod(first.shape) * math.prod(second.shape) > MOST_PAIRS:
            raise PlanError("these groups are too many for a plan of this form; ask for fewer.")
        return picked(self._covariance(first.workload, second.workload), first, second, crossed)

    def assuming(self, records: float, distribution: Assumed | None = None) -> AssumedAnswers:
        """What numbers quoted from a release of this plan would be like: `plan.assuming(10_000).mean("age")`.

        Args:
            records: how many records are assumed.
            distribution: attribute → {label: weight} or an array of weights, one per value; a tuple of attributes → an
                array with one axis each. Attributes that are not named are spread evenly; those named apart are
                independent.

        Raises:
            PlanError: not a number of records, or weights that do not fit.
        """
        if isinstance(records, bool) or not isinstance(records, int | float | np.number) or not 0 < records < math.inf:
            raise PlanError(f"records={records!r} is not a positive number; say how many records are assumed.")
        plan: Any = self
        blocks = None if plan.noise.gaussian else plan.blocks
        reading = None if blocks is None else plan.reading(blocks, np.zeros(blocks.cells, dtype=np.int64))
        return AssumedAnswers(plan, reading, float(records), tuple(_factors(self.domain, distribution or {})))

    def _answering(self) -> Answering:
        raise PlanError(
            "a plan has no data; say how many records to assume: plan.assuming(10_000) has the numbers of that many."
        )


@dataclass(frozen=True, eq=False)
class AssumedAnswers(PlanAnswers, Quotable):
    """An assumed distribution and a plan's errors. Made by `plan.assuming`.

    Args:
        plan, reading: as of `PlanAnswers`.
        records: how many are assumed.
        factors: independent parts of the distribution: the attributes of each, and weights that add up to 1.
    """

    records: float
    factors: tuple[tuple[tuple[int, ...], Floats], ...]

    def _answering(self) -> Answering:
        return self

    def estimates(self, term: Term) -> Floats:
        """The assumed counts."""
        self.require(term)
        counts = np.full(term.shape, self.records)
        for members, weights in self.factors:
            part, axes = weights, []
            for i in members:
                rows = term.rows.get(i)
                part = part.sum(axis=0) if rows is None else np.moveaxis(np.tensordot(rows, part, axes=(1, 0)), 0, -1)
                axes += [] if rows is None else [i]
            counts = counts * _spread(part, axes, list(term.rows))
        return counts


def _spread(part: Floats, axes: Sequence[int], order: Sequence[int]) -> Floats:
    """A part over some attributes, in the order of a term's."""
    arranged = np.transpose(part, np.argsort(axes)) if axes else part
    sizes = dict(zip(sorted(axes), arranged.shape, strict=True))
    return arranged.reshape([sizes.get(i, 1) for i in order])


def _factors(domain: Domain, given: Assumed) -> Iterator[tuple[tuple[int, ...], Floats]]:
    """Independent parts of the assumed distribution, each adding up to 1; the rest is even."""
    if not isinstance(given, Mapping):
        raise PlanError(f"distribution={given!r} is not a mapping from attributes to weights.")
    seen: set[int] = set()
    for names, weights in given.items():
        members = domain.positions((names,) if isinstance(names, str) else names)
        if seen & set(members):
            raise PlanError(f"distribution names an attribute of {names!r} twice; give each once.")
        seen |= set(members)
        yield members, _weights(domain, names, members, weights)
    for i, size in enumerate(domain.sizes.tolist()):
        if i not in seen:
            yield (i,), np.full(size, 1.0 / size)


def _weights(domain: Domain, names: Any, members: tuple[int, ...], given: Any) -> Floats:
    shape = tuple(int(domain.sizes[i]) for i in members)
    if isinstance(given, Mapping) and len(members) == 1:
        labels = domain[domain.names[members[0]]].labels
        stray = [label for label in given if label not in labels]
        if stray:
            raise PlanError(f"distribution: {stray[0]!r} is not a value of {names!r}; see domain[{names!r}].labels.")
        given = [given.get(label, 0.0) for label in labels]
    try:
        weights = np.array(given, dtype=np.float64)
    except (TypeError, ValueError):
        weights = np.empty(0)
    if weights.shape != shape or not np.isfinite(weights).all() or (weights < 0).any() or not weights.sum() > 0:
        raise PlanError(f"distribution: the weights of {names!r} must be not negative, not all 0, of shape {shape}.")
    return np.asarray(weights / weights.sum())
