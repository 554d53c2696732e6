"""Queries that each touch a few attributes of many: listed over the cells of their own attributes, never of all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property, reduce
from operator import add
from typing import TYPE_CHECKING, Any

import numpy as np

from residua.errors import WorkloadError
from residua.linalg.arrays import Floats, Integers
from residua.printable import printable
from residua.workload.explicit import Explicit
from residua.workload.marginals import Marginals, checked_weight, united
from residua.workload.products import Products, as_explicit

if TYPE_CHECKING:
    from scipy.sparse import csr_array

Part = Explicit | Products | Marginals


class Joint(Explicit):
    """Explicit queries in parts, each over its own attributes. Made by `queries`, and by adding workloads.

    It is an `Explicit` workload in all respects; the matrix over the cells of all its attributes is formed only where
    it is asked for, and where those are few enough.

    Args:
        parts: workloads over one domain.
        places: which query of the whole each query of the parts is, part by part; in order if left out.
    """

    parts: tuple[Part, ...]
    places: Integers

    def __init__(self, parts: Sequence[Part], places: Integers | None = None) -> None:
        queries = sum(part.queries for part in parts)
        set_field = object.__setattr__
        set_field(self, "domain", parts[0].domain)
        set_field(self, "parts", tuple(parts))
        set_field(self, "places", np.arange(queries) if places is None else places)
        self.places.setflags(write=False)

    @property
    def queries(self) -> int:
        """How many queries there are."""
        return len(self.places)

    @cached_property
    def attributes(self) -> tuple[int, ...]:
        """Positions of the attributes that some query names, increasing."""
        found: set[int] = set()
        for part in self.parts:
            if isinstance(part, Explicit):
                found.update(part.attributes)
            else:
                found.update(self.domain.position(name) for names in part.sets for name in names)
        return tuple(sorted(found))

    @cached_property
    def matrix(self) -> csr_array:
        """One row per query over the cells of all attributes, where these can be listed, (queries, cells).

        Raises:
            WorkloadError: they are too many.
        """
        from scipy.sparse import csr_array, vstack

        rows = [as_explicit(part).over(self.attributes) for part in self.parts]
        return csr_array(vstack(rows, format="csr")[np.argsort(self.places)])

    def listed(self) -> Explicit:
        """The same queries over the cells of all their attributes together, where these can be listed."""
        return Explicit(self.domain, self.attributes, self.matrix, self.labels, self.weights)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """A label for every query."""
        found = [label for part in self.parts for label in part.query_labels()]
        return tuple(found[i] for i in np.argsort(self.places))

    @cached_property
    def weights(self) -> Floats:
        """How much each query's variance matters, (queries,)."""
        found = np.empty(self.queries)
        found[self.places] = np.concatenate([_weights(part) for part in self.parts])
        found.setflags(write=False)
        return found

    def __add__(self, other: Explicit | Marginals) -> Explicit:
        return joined(self, other) if isinstance(other, Part) else NotImplemented

    __radd__ = __add__

    def __mul__(self, factor: float) -> Joint:
        checked_weight(factor)
        return Joint([part * factor for part in self.parts], self.places)

    __rmul__ = __mul__

    def __repr__(self) -> str:
        names = [self.domain.names[i] for i in self.attributes]
        listed = printable(", ".join(names[:8])) + (" and others" if len(names) > 8 else "")
        return f"Explicit({self.queries:,} queries in {len(self.parts):,} parts of {listed})"


def added(parts: Sequence[Part]) -> Part:
    """The sum of workloads, their queries in the order given; of marginals in one step, however many there are."""
    if len(parts) > 1 and any(isinstance(part, Explicit) for part in parts):
        return Joint(parts)
    plain = [part for part in parts if isinstance(part, Marginals)]
    return united(plain) if len(plain) == len(parts) else reduce(add, parts)


def joined(first: Any, second: Any) -> Joint:
    """Two workloads of one domain as one, the first one's queries first; neither is listed over more attributes."""
    if first.domain != second.domain:
        raise WorkloadError("the two workloads are over different domains; declare one domain for both.")
    parts = [*_parts(first), *_parts(second)]
    places = np.concatenate([_places(first), first.queries + _places(second)])
    return Joint(parts, places)


def parts_of(workload: Joint) -> Iterator[tuple[Part, Integers]]:
    """A workload's parts as they were given, with their places in the whole."""
    start = 0
    for part in workload.parts:
        yield part, workload.places[start : start + part.queries]
        start += part.queries


def tables_in(workload: Part | None) -> Marginals | Products | None:
    """What a workload asks in tables: all of it, the parts of it that are tables, or None."""
    if not isinstance(workload, Joint):
        return None if isinstance(workload, Explicit) else workload
    tables = [part for part in workload.parts if not isinstance(part, Explicit)]
    found = added(tables) if tables else None
    assert not isinstance(found, Explicit)  # none of them was
    return found


def queries_in(workload: Part | None) -> Explicit | None:
    """What a workload asks as single queries: all of it, the parts of it that are no tables, or None."""
    if not isinstance(workload, Joint):
        return workload if isinstance(workload, Explicit) else None
    queries = [part for part in workload.parts if isinstance(part, Explicit)]
    if not queries or len(queries) == len(workload.parts):
        return workload if queries else None
    return Joint(queries)


def _parts(workload: Any) -> tuple[Part, ...]:
    return workload.parts if isinstance(workload, Joint) else (workload,)


def _places(workload: Any) -> Integers:
    return workload.places if isinstance(workload, Joint) else np.arange(workload.queries)


def _weights(part: Part) -> Floats:
    if isinstance(part, Explicit):
        return part.weights
    return np.repeat(part.weights, part.cells.astype(np.int64))
