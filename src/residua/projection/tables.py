"""Tables of biased numbers that agree with each other, made from a release: projections, estimates, whole numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

import numpy as np

from residua.errors import PlanError
from residua.linalg.arrays import Floats
from residua.plans.tails import check_confidence
from residua.published.replicates import Replicates
from residua.quoting import Answering, Points
from residua.release.base import Release
from residua.release.tabled import Errors, Tabled
from residua.workload import AttributeQueries, Where, Workload, applied, queries, selected


class MadeFrom(Tabled):
    """Tables made from a release, of the attributes of its plan's domain."""

    release: Release  # that they were made from

    plan = planned = property(attrgetter("release.plan"), doc="The release's plan.")
    receipt = property(attrgetter("release.receipt"), doc="What the ledger recorded when the release was paid for.")
    counted = property(attrgetter("release.counted"), doc="What tables count, where that is not every record.")

    def missing_records(
        self, names: tuple[str, ...] | None, estimates: Floats, confidence: float
    ) -> tuple[dict[str, Floats], Floats | float]:
        """As of the release."""
        return self.release.missing_records(names, estimates, confidence)

    def _answering(self) -> Answering:
        return Points(self.domain, self.estimates, self.biased, self.counted)

    def ends(self, workload: Workload, estimates: Floats, confidence: float, together: float) -> Mapping[str, Any]:
        """The ends of intervals around the answers to every query of a workload, `lower` and `upper`, (queries,) each.

        Args:
            workload: one term, or queries.
            estimates: the answers, (queries,).
            confidence: how often an interval holds the truth, at least.
            together: how many of them hold at once.
        """
        return {}

    def _told(self, workload: Workload, confidence: float | None) -> tuple[Floats, Errors]:
        if workload.domain != self.domain:
            raise PlanError("the projection and the workload are over different domains; declare one domain for both.")
        answers = self.answered(workload)
        if confidence is None:
            return answers, lambda together: {}
        check_confidence(confidence)
        return answers, lambda together: self.ends(workload, answers, confidence, together)

    def answered(self, workload: Workload) -> Floats:
        """The answers to every query, (queries,); each from the table of its own attributes."""
        if workload.in_parts:
            answers = np.empty(workload.queries)
            for part, places in workload.placed():
                answers[places] = self.answered(part)
            return answers
        if workload.plain:
            return np.concatenate([self.estimates(names).ravel() for names in workload.sets])
        if workload.with_rows:
            return np.concatenate([self._of_term(term).ravel() for term in workload.terms()])
        return self._of_queries(workload)

    def _of_term(self, term: Sequence[tuple[int, AttributeQueries]]) -> Floats:
        """What a product asks, (rows, …)."""
        return np.asarray(applied(term, self.estimates([self.domain.names[i] for i, _ in term])))

    def _of_queries(self, workload: Workload) -> Floats:
        """The answers to queries over the cells of some attributes, (queries,)."""
        return np.asarray(workload.matrix @ self.estimates(workload.names).ravel())

    def count(self, where: Where | str | None = None) -> float:
        """How many records have these values: a dictionary, or a condition in SQL, as `Release.count` takes it."""
        if isinstance(where, str):
            return float(self.answers(queries(self.domain, [where])).estimates[0])
        chosen = selected(self.domain, {} if where is None else where)
        total = self.estimates(tuple(chosen))
        for coefficients in reversed(list(chosen.values())):
            total = total @ coefficients
        return float(total)

    def _replicated(self, drawn: Sequence[Any], note: str) -> Replicates[Any]:
        """Replicates of these tables, with the columns that their file has."""
        names, workload = tuple(self.domain.names[i] for i in sorted(self.plan.measured_attributes)), self.plan.workload
        names += ("query",) if workload is not None and workload.single_queries is not None else ()
        return Replicates(tuple(drawn), names, note)
