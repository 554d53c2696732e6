"""All tables of a release, a projection or estimates in whole numbers that add up: one rounding, the same for all."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from itertools import combinations
from operator import attrgetter
from pathlib import Path
from typing import Any, cast

import numpy as np

from residua.errors import PlanError
from residua.linalg.arrays import Floats, Integers
from residua.projection.rounding import Names, attribute_by_attribute, cumulated, differences, require_few, searched
from residua.projection.tables import MadeFrom
from residua.release.tabled import Tabled
from residua.release.tables import is_listable, parts_of, term_of
from residua.showing import shown_by
from residua.workload import AskedRows, Workload, applied

MOST_ATTRIBUTES = 6  # of a table: a cell may move by 2 to the power of one less
_KEPT = 4096  # tables of cumulated sums


@dataclass(frozen=True, eq=False, repr=False)
class Rounded(MadeFrom):
    """Every table in whole numbers; made by `release.rounded()`, and of projections and estimates.

    Guarantee: margins of a table are the tables of their attributes, exactly, whichever is asked for first; levels,
    prefixes and ranges are sums of cells. The numbers follow from the published ones, without randomness: there is no
    second rounding to average with. Of what is not negative nothing is. Intervals hold what those before rounding
    hold: each reaches further by as much as its own number moved. Of a release, a sum over a box of a table of k
    attributes moves by at most 2^(k−1).

    Args:
        published: a release, alone or beside facts, a projection or estimates.
    """

    published: Any

    @property
    def release(self) -> Any:  # type: ignore[override]
        """What was measured."""
        return self.published.release if self.published.biased else self.published

    plan = planned = property(attrgetter("published.planned"), doc="What was asked for.")
    nonnegative = property(attrgetter("published.nonnegative"), doc="Whether no cell is negative.")
    biased = property(attrgetter("published.biased"), doc="What is said of the numbers before rounding.")

    def estimates(self, attributes: Sequence[str]) -> Floats:
        """The marginal on these attributes in whole numbers, an array with one axis each, in this order.

        Raises:
            PlanError: it is not answered, or cannot be rounded with all others.
        """
        positions = self.domain.positions(self.domain.listed(attributes))
        members = tuple(self.domain.names[i] for i in sorted(positions))
        if len(members) > MOST_ATTRIBUTES:
            raise PlanError(f"tables are rounded up to {MOST_ATTRIBUTES} attributes; {members!r} are more.")
        cells = self._counts(members) if self.nonnegative else differences(self._cumulated(members))
        cells = cells[np.ix_(*(np.argsort(self._orders[name]) for name in members))]
        return np.array(cells.transpose(np.argsort(np.argsort(positions))), dtype=np.float64, order="C")

    @cached_property
    def _orders(self) -> dict[str, Integers]:
        """The values of each attribute so that those of one group, of every level, follow each other."""
        groups: dict[str, list[Any]] = {
            name: [level.codes for level in self.domain[name].hierarchy] for name in self.domain.names
        }
        return {name: np.lexsort([np.arange(self.domain[name].size), *codes]) for name, codes in groups.items()}

    def _values(self, members: Names) -> Floats:
        """What is rounded, with the values of each attribute in that order."""
        return np.asarray(self.published.estimates(members)[np.ix_(*(self._orders[name] for name in members))])

    # ---- numbers of any sign, and single attributes

    @cached_property
    def _cumulated(self) -> Any:
        """Attributes → the rounded sums over all cells up to each one."""

        @lru_cache(maxsize=_KEPT)
        def sums(members: Names) -> Integers:
            return cumulated(self._values(members), lambda axis: sums(members[:axis] + members[axis + 1 :]))

        return sums

    # ---- numbers that are not negative

    def _counts(self, members: Names) -> Integers:
        if len(members) < 2:
            return differences(self._cumulated(members))
        for group in self._groups:
            if set(members) <= group:
                held = self._held(tuple(sorted(group, key=self.domain.names.index)))
                whole = next((names for names in held if set(members) <= set(names)), None)
                if whole is not None:
                    gone = tuple(i for i, name in enumerate(whole) if name not in members)
                    return np.asarray(held[whole].sum(axis=gone))
        if len(members) == 2:
            return self._one(members)
        facets = {facet: self._counts(facet) for facet in combinations(members, len(members) - 1)}
        return self._searched([members], facets)[members]  # it was not asked for: its margins decide

    def _one(self, members: Names) -> Integers:
        """A table by itself, with its single attributes as they are everywhere."""
        margins = [differences(self._cumulated((name,))) for name in members]
        return attribute_by_attribute(self._values(members), margins)

    @cached_property
    def _asked(self) -> list[Names]:
        """The tables of three attributes and more that were asked for, those within others left out."""
        workload = None if self.plan.workload is None else self.plan.workload.tables
        sets = [] if workload is None else sorted({s for s in workload.sets if len(s) > 2}, key=len, reverse=True)
        largest: list[Names] = []
        within: set[frozenset[str]] = set()
        for names in sets:
            own = frozenset(names)
            if own not in within and not (len(own) < len(sets[0]) and any(own < set(each) for each in largest)):
                largest.append(names)
                within.add(own)
        return largest

    @cached_property
    def _groups(self) -> list[set[str]]:
        """Attributes of those tables that share two attributes and more, with each other or through others."""
        groups: list[set[str]] = []
        place: dict[frozenset[str], int] = {}
        for names in self._asked:
            pairs = [frozenset((a, b)) for i, a in enumerate(names) for b in names[:i]]
            met = sorted({place[pair] for pair in pairs if pair in place})
            home = met[0] if met else len(groups)
            if not met:
                groups.append(set())
            groups[home] |= set(names)
            for other in met[1:]:
                groups[home] |= groups[other]
                groups[other] = set()
                place.update({pair: home for pair, at in place.items() if at == other})
            place.update(dict.fromkeys(pairs, home))
        return groups

    @cached_property
    def _held(self) -> Any:
        """A group → its tables, rounded together."""

        @cache
        def tables(group: Names) -> dict[Names, Integers]:
            own = [names for names in self._asked if set(names) <= set(group)]
            if len(own) == 1:
                return {own[0]: self._one(own[0])}
            return self._searched(own, {(name,): differences(self._cumulated((name,))) for name in group})

        return tables

    def _searched(self, sets: Sequence[Names], margins: Mapping[Names, Integers]) -> dict[Names, Integers]:
        require_few(sum(math.prod(self.domain[name].size for name in names) for names in sets))
        found = searched({names: self._values(names) for names in sets}, margins)
        if found is None:
            raise PlanError(
                "no whole numbers near the tables of three attributes and more were found that are not negative and "
                "agree; round the release, or ask for tables of two attributes."
            )
        return found

    # ---- tables, each beside the one before rounding

    def table(
        self, attributes: Sequence[str], *, queries: Mapping[str, AskedRows] | None = None, **options: Any
    ) -> Any:
        """As of what was published, in whole numbers."""
        names = self.domain.listed(attributes)
        own = self.published.table(names, queries=queries, **options)
        [term] = term_of(self.domain, names, queries or {}).terms()
        return own.rounded_to(self._of_term(term).transpose(np.argsort(np.argsort(self.domain.positions(names)))))

    def tables(self, *, most: int | None = None, **options: Any) -> Iterator[Any]:
        """As of what was published, in whole numbers."""
        for own, cells in zip(self.published.tables(most=most, **options), self._cells(most), strict=True):
            yield own.rounded_to(cells)

    def _cells(self, most: int | None) -> Iterator[Floats]:
        workload = None if self.plan.workload is None else self.plan.workload.tables
        for term in () if workload is None else workload.terms():
            if most is None or is_listable(term, most):
                whole = applied(term, self.estimates([self.domain.names[i] for i, _ in term]))
                yield from (np.array(whole[part.rows], order="C") for part in parts_of(self.domain, term))

    def answers(self, workload: Workload | None = None, **options: Any) -> Any:
        """As of what was published; queries that no table tells are rounded each by itself."""
        asked = self.plan.workload if workload is None else workload
        own = self.published.answers(workload, **options)
        try:
            cells = self.answered(asked) if asked is not None else own.estimates
        except PlanError:
            cells = own.estimates
        return own.rounded_to(np.rint(cells))

    def rounded(self) -> Rounded:
        """Itself."""
        return self

    def export(self, folder: str | Path, format: str = "csv", **options: Any) -> list[Path]:
        """Writes every table that was asked for into a folder; see `Release.export`."""
        return cast("list[Path]", shown_by("export")(self, folder, format, **options))

    def __repr__(self) -> str:
        return f"Rounded({self.published!r})"


def rounded(published: Tabled) -> Rounded:
    """All tables of a release, a projection or estimates in whole numbers; see `Exported.rounded`.

    Raises:
        PlanError: numbers that are biased because the plan is.
    """
    rounding = Rounded(published)
    if rounding.plan.bias:
        raise PlanError("a release of a plan with a bias has no intervals, and is not rounded; publish it as it is.")
    return rounding
