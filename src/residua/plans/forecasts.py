"""Quoted numbers before any data: what they would be, and how accurate, for an assumed distribution.

`plan.mean("age", by=["sex"], records=10_000)` takes the numbers from the assumed distribution and their errors from the
plan: the intervals are those around an estimate that happens to be the truth.
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
from residua.plans.quotes import MOST_PAIRS, NoiseOf, picked
from residua.published.table import what_is_counted
from residua.quoting import Answering, Quotable, Quoted, Term

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

    def assuming(self, records: float, distribution: Assumed | None = None) -> Forecast:
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
        factors = tuple(_factors(self.domain, distribution or {}))
        return Forecast(self, float(records), factors)

    def _answering(self) -> Answering:
        raise PlanError("records: a plan has no data; say how many records to assume, such as records=10_000.")

    def _forecast(self, records: float | None, assumed: Assumed | None) -> Forecast:
        if records is None:
            raise PlanError("records: a plan has no data; say how many records to assume, such as records=10_000.")
        return self.assuming(records, assumed)

    # ---- the same questions as of a release; what each takes is explained there

    def share(
        self, *asked: Any, records: float | None = None, assumed: Assumed | None = None, **options: Any
    ) -> Quoted:
        """Which share of the records has each value, for so many `records` as `assumed`; see `Release.share`."""
        return self._forecast(records, assumed).share(*asked, **options)

    def ratio(
        self, *asked: Any, records: float | None = None, assumed: Assumed | None = None, **options: Any
    ) -> Quoted:
        """A ratio of counts, for so many `records` as `assumed`; see `Release.ratio`."""
        return self._forecast(records, assumed).ratio(*asked, **options)

    def mean(self, *asked: Any, records: float | None = None, assumed: Assumed | None = None, **options: Any) -> Quoted:
        """The mean of a numeric attribute, for so many `records` as `assumed`; see `Release.mean`."""
        return self._forecast(records, assumed).mean(*asked, **options)

    def sum(self, *asked: Any, records: float | None = None, assumed: Assumed | None = None, **options: Any) -> Quoted:
        """The sum of a numeric attribute, for so many `records` as `assumed`; see `Release.sum`."""
        return self._forecast(records, assumed).sum(*asked, **options)

    def quantile(
        self, *asked: Any, records: float | None = None, assumed: Assumed | None = None, **options: Any
    ) -> Quoted:
        """A quantile of an attribute, for so many `records` as `assumed`; see `Release.quantile`."""
        return self._forecast(records, assumed).quantile(*asked, **options)

    def median(
        self, *asked: Any, records: float | None = None, assumed: Assumed | None = None, **options: Any
    ) -> Quoted:
        """The median of an attribute, for so many `records` as `assumed`; see `Release.median`."""
        return self._forecast(records, assumed).median(*asked, **options)

    def gini(self, *asked: Any, records: float | None = None, assumed: Assumed | None = None, **options: Any) -> Quoted:
        """The Gini coefficient of an attribute, for so many `records` as `assumed`; see `Release.gini`."""
        return self._forecast(records, assumed).gini(*asked, **options)

    def difference(
        self, *asked: Any, records: float | None = None, assumed: Assumed | None = None, **options: Any
    ) -> Quoted:
        """The difference between groups, for so many `records` as `assumed`; see `Release.difference`."""
        return self._forecast(records, assumed).difference(*asked, **options)

    def relative_difference(
        self, *asked: Any, records: float | None = None, assumed: Assumed | None = None, **options: Any
    ) -> Quoted:
        """A relative difference, for so many `records` as `assumed`; see `Release.relative_difference`."""
        return self._forecast(records, assumed).relative_difference(*asked, **options)

    def standardised(
        self, *asked: Any, records: float | None = None, assumed: Assumed | None = None, **options: Any
    ) -> Quoted:
        """A standardised rate, for so many `records` as `assumed`; see `Release.standardised`."""
        return self._forecast(records, assumed).standardised(*asked, **options)

    def top(self, *asked: Any, records: float | None = None, assumed: Assumed | None = None, **options: Any) -> Quoted:
        """The largest counts, for so many `records` as `assumed`; see `Release.top`."""
        return self._forecast(records, assumed).top(*asked, **options)


@dataclass(frozen=True, eq=False)
class Forecast(Quotable):
    """An assumed distribution and a plan's errors. Made by `plan.assuming`."""

    plan: Any
    records: float
    factors: tuple[tuple[tuple[int, ...], Floats], ...]

    @property
    def domain(self) -> Domain:
        """What the table may hold."""
        domain: Domain = self.plan.domain
        return domain

    @property
    def note(self) -> str:
        """Errors are known."""
        return ""

    @property
    def remark(self) -> str:
        """What a release would count."""
        return what_is_counted(self.plan.unit)

    def _answering(self) -> Answering:
        return self

    @property
    def _noise(self) -> NoiseOf:
        blocks = self.plan.blocks if not self.plan.noise.gaussian else None
        reading = None if blocks is None else self.plan.reading(blocks, np.zeros(blocks.cells, dtype=np.int64))
        return NoiseOf(self.plan, reading, "plan")

    def estimates(self, term: Term) -> Floats:
        """The assumed counts."""
        self._noise.require(term)
        found = np.full(term.shape, self.records)
        for members, weights in self.factors:
            part, axes = weights, []
            for i in members:
                rows = term.rows.get(i)
                part = part.sum(axis=0) if rows is None else np.moveaxis(np.tensordot(rows, part, axes=(1, 0)), 0, -1)
                axes += [] if rows is None else [i]
            found = found * _spread(part, axes, list(term.rows))
        return found

    def covariances(self, first: Term, second: Term, crossed: tuple[int, ...] = ()) -> Floats:
        """The plan's."""
        return self._noise.covariances(first, second, crossed)

    def widths(
        self, first: Term, second: Term | None, factors: Floats, confidence: float, together: float
    ) -> float | Floats:
        """The plan's."""
        return self._noise.widths(first, second, factors, confidence, together)


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
        found = np.array(given, dtype=np.float64)
    except (TypeError, ValueError):
        found = np.empty(0)
    if found.shape != shape or not np.isfinite(found).all() or (found < 0).any() or not found.sum() > 0:
        raise PlanError(f"distribution: the weights of {names!r} must be not negative, not all 0, of shape {shape}.")
    return np.asarray(found / found.sum())
