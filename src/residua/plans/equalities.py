"""Facts that are known from elsewhere, as equalities: what some sums of cells are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from residua.domain import Domain
from residua.errors import PlanError
from residua.linalg.arrays import Floats, Integers
from residua.workload import AttributeQueries, MatrixRows, Workload, product
from residua.workload.files import workload_of_body, workload_to_body

CONTRADICTION = 1e-6  # of the largest fact: facts that differ by less are the same number


def contradiction(what: str) -> PlanError:
    """What is said of facts that cannot all be true."""
    return PlanError(f"facts contradict each other: {what} cannot hold beside the others; correct one of them.")


@dataclass(frozen=True, eq=False)
class Equality:
    """Known sums: all or some of the products of rows of some attributes, or of listed queries.

    Args:
        what: what is known, in words.
        domain: what the table may hold.
        asked: position of an attribute, increasing → its rows; None where queries are listed.
        values: what is known, one axis per attribute, or flat; NaN where nothing is.
        listed: the queries, if they are.
    """

    what: str
    domain: Domain
    asked: Mapping[int, AttributeQueries] | None
    values: Floats
    listed: Workload | None = None

    @cached_property
    def known(self) -> Any:
        """Which of them are known."""
        return ~np.isnan(self.values)

    @property
    def members(self) -> tuple[int, ...]:
        """The attributes, by position."""
        return tuple(self.asked or ())

    @property
    def is_marginal(self) -> bool:
        """Whether it is a marginal, and whole."""
        return self.asked is not None and all(each.plain for each in self.asked.values()) and bool(self.known.all())

    @cached_property
    def queries(self) -> tuple[Workload, Integers]:
        """A workload, and which of its queries are known; of single cells, no more rows than these have."""
        if self.asked is None:
            assert self.listed is not None
            return self.listed, np.flatnonzero(self.known)
        places = np.nonzero(self.known) if self.known.ndim else ()
        rows, at = {}, []
        for (i, each), place in zip(self.asked.items(), places, strict=True):
            used, inverse = np.unique(place, return_inverse=True)
            some = len(used) < each.rows
            rows[i] = MatrixRows(each.size, each.sparse()[used].toarray()) if some else each
            at.append(inverse)
        names = {self.domain.names[i]: each for i, each in rows.items()}
        shape = [each.rows for each in rows.values()]
        chosen = np.ravel_multi_index(tuple(at), shape) if shape else np.zeros(1, dtype=np.int64)
        return product(self.domain, names, sets=[tuple(names)]), np.asarray(chosen, dtype=np.int64)

    # ---- files

    def to_body(self) -> dict[str, Any]:
        """What is known, as plain values."""
        rows = {self.domain.names[i]: each for i, each in (self.asked or {}).items()}
        workload = self.listed if self.asked is None else product(self.domain, rows, sets=[tuple(rows)])
        at = np.flatnonzero(self.known)
        return {
            "what": self.what,
            "asked": workload_to_body(workload),
            "crossed": self.asked is not None,
            "at": at.tolist(),
            "values": self.values.ravel()[at].tolist(),
        }

    @classmethod
    def of_body(cls, domain: Domain, body: dict[str, Any]) -> Equality:
        """The equality that plain values describe."""
        workload = workload_of_body(domain, body["asked"])
        if workload is None:
            raise ValueError("a fact is of nothing")
        asked = dict(next(iter(workload.terms()))) if body["crossed"] else None
        shape = [workload.queries] if asked is None else [each.rows for each in asked.values()]
        values = np.full(shape, np.nan)
        values.reshape(-1)[body["at"]] = body["values"]
        return cls(str(body["what"]), domain, asked, values, workload)
