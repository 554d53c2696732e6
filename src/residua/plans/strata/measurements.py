"""What plans that differ by group really measure: each group the integers of its own plan, with its own noise.

The measurements stand member by member, and within a member group by group: what one group measured is contiguous.

Groups are disjoint, so that a record pays in its own group alone: Γ is block-diagonal, one block for each group. One
record added or removed costs the largest diagonal entry of any block. A record replaced within a group costs what the
group's own plan says; one that moves from a group to another costs both, `Γ_ii + Γ_jj`, for no measurement sees both
cells. A person's records cost `Σ_g k_g² max diag Γ_g` at most with k_g records in group g, and `Σ_g k_g²` is at most
the number of pairs of a person's records that can agree on the group.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Self

import numpy as np

from residua.linalg.arrays import Array, Integers
from residua.linalg.lattice import Layout, batches, layout_of_sets
from residua.plans.cells import Grouping
from residua.plans.contract import Plan
from residua.plans.measurements import Batch, Measurements, Portion, holding
from residua.plans.verifier import Profile, even, price
from residua.privacy import AddRemove, ReplaceOne
from residua.privacy.costs import Reach

_BATCH_CELLS = 1 << 18


@dataclass(frozen=True, eq=False)
class StrataMeasurements(Measurements):
    """Integer measurements of each group by the member chosen for it.

    Args:
        sizes: how many values each attribute of the domain has, (attributes,).
        by: positions of the attributes that make groups, increasing.
        members: what is measured in a group, one for each plan.
        chosen: which member each group has, −1 for none, (groups,).
    """

    sizes: Integers
    by: tuple[int, ...]
    members: tuple[Measurements, ...]
    chosen: Integers

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """How many groups have each member."""
        return tuple(np.bincount(self.chosen[self.chosen >= 0], minlength=len(self.members)).tolist())

    @cached_property
    def places(self) -> tuple[Integers, ...]:
        """The groups that have each member, increasing."""
        return tuple(np.flatnonzero(self.chosen == k) for k in range(len(self.members)))

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Where each member's measurements begin, and how many there are in all at the end."""
        sizes = [measurements.cells * count for measurements, count in zip(self.members, self.counts, strict=True)]
        return tuple(np.cumsum([0, *sizes]).tolist())

    @property
    def cells(self) -> int:
        """How many integers are measured."""
        return self.starts[-1]

    def of_member(self, noisy: Array, k: int) -> Array:
        """What a member measured, (groups that have it, cells)."""
        return noisy[self.starts[k] : self.starts[k + 1]].reshape(self.counts[k], self.members[k].cells)

    # ---- files

    def arrays(self) -> dict[str, Array]:
        """Which member each group has, and the sets, grids and scales of all members, one after the other."""
        own = [measurements.arrays() for measurements in self.members]
        none = np.zeros(0, dtype=np.int64)
        return {
            "measured": np.concatenate([self.chosen, *(each.get("measured", none) for each in own)]),
            "grids": np.concatenate([none, *(each.get("grids", np.ones(len(each["scales"]), int)) for each in own)]),
            "scales": np.concatenate([np.zeros(0), *(each["scales"] for each in own)]),
        }

    def with_arrays(self, arrays: Mapping[str, Array], members: Sequence[Plan]) -> StrataMeasurements:
        """The same measurements with the grids and scales that a file keeps."""
        members_kept, start = [], {"measured": len(self.chosen), "grids": 0, "scales": 0}
        for measurements, plan in zip(self.members, members, strict=True):
            mine = {}
            for name, array in {"grids": measurements.arrays()["scales"], **measurements.arrays()}.items():
                mine[name] = arrays[name][start[name] : start[name] + len(array)]
                start[name] += len(array)
            members_kept.append(plan.saved_measurements(mine))
        return StrataMeasurements(self.sizes, self.by, tuple(members_kept), self.chosen)

    # ---- price

    @property
    def names(self) -> tuple[str, ...]:  # type: ignore[override]
        """Those of the members."""
        return self.members[0].names if self.members else ()

    @property
    def kin(self) -> Hashable:
        """That make the same groups."""
        return type(self), self.by

    def check(self) -> None:
        """Refuses a member that cannot be measured exactly."""
        for measurements, count in zip(self.members, self.counts, strict=True):
            if count:
                measurements.check()

    @classmethod
    def added(cls, several: Sequence[Self]) -> Fraction:
        """The most expensive group's."""
        return _largest_two(_kinds(several))[0]

    @classmethod
    def replaced(cls, several: Sequence[Self]) -> Fraction:
        """Within a group, or from a group to another, which costs both."""
        kinds = _kinds(several)
        within = [price(kind, ReplaceOne()) for kind, _ in kinds if kind]
        return max([sum(_largest_two(kinds), Fraction(0)), *within])

    @classmethod
    def limited(cls, several: Sequence[Self], reach: Reach) -> Fraction:
        """By the pairs of a person's records that can agree on the group."""
        return reach.agreeing(several[0].by) * cls.added(several)

    def profile(self) -> Profile:
        """The most expensive cell of each group."""
        costs = [even(each.price(AddRemove())).everywhere for each in self.members]
        whole = np.array([0, *costs], dtype=object)
        return Profile(Grouping(self.by, np.arange(len(self.chosen))), whole[self.chosen + 1], 0, crossed=True)

    @property
    def most_records(self) -> int:
        """How many records may be counted before a measurement could leave 64 bits."""
        return min(measurements.most_records for measurements in self.members)

    # ---- measuring

    def portions(self, most_cells: int) -> Sequence[Portion]:
        """All groups that measure something, some of one member at a time."""
        portions: list[Portion] = []
        for k, (member, count) in enumerate(zip(self.members, self.counts, strict=True)):
            tables = {rows.attributes for rows in member.tables}
            each = sum(math.prod(int(self.sizes[i]) for i in attributes) for attributes in tables)
            for part in batches(count, max(each, 1), most_cells):
                start = self.starts[k] + part.start * self.members[k].cells
                portions.append(
                    Portion(self._portion(k, part.stop - part.start), start, k, self.by, self.places[k][part])
                )
        return portions or super().portions(most_cells)

    def _portion(self, k: int, groups: int) -> StrataMeasurements:
        """What so many groups of a member measure, as if there were no others, numbered by the first of `by`."""
        sizes = np.array(self.sizes, dtype=np.int64)
        sizes[list(self.by)] = 1
        sizes[self.by[0]] = groups
        return StrataMeasurements(sizes, self.by, (self.members[k],), np.zeros(groups, dtype=np.int64))

    @cached_property
    def counted(self) -> Layout:
        """The tables of the members, each crossed with what makes groups: those that no other contains."""
        used = [member for member, count in zip(self.members, self.counts, strict=True) if count]
        sets = {tuple(sorted({*self.by, *rows.attributes})) for member in used for rows in member.tables}
        return layout_of_sets(sets, self.sizes, maximal=True)

    def batches(self) -> Sequence[Batch]:
        """One table of one member, some groups at a time."""
        some_batches = []
        for k, member in enumerate(self.members):
            for rows in member.tables:
                table = math.prod(int(self.sizes[i]) for i in rows.attributes)
                for part in batches(self.counts[k], max(rows.cells, table), _BATCH_CELLS):
                    scales = np.full(part.stop - part.start, rows.scale)
                    some_batches.append(Batch(0, scales, (k, rows, part)))
        return some_batches

    def integers(self, batch: Batch, tables: Integers) -> Integers:
        """What a batch measures, exactly and without noise, (groups, cells)."""
        k, rows, part = batch.work
        own = self._tables(tables, rows.attributes, self.places[k][part])
        return np.asarray(self.members[k].of_tables(rows, own))

    def _tables(self, tables: Integers, attributes: tuple[int, ...], groups: Integers) -> Integers:
        """The true tables of some groups, (groups, n_1, …, n_k)."""
        table, members = holding(self.counted, tables, tuple(sorted({*self.by, *attributes})))
        summed = [i for i in members if i not in self.by and i not in attributes]
        grouped = table.transpose([members.index(i) for i in (*self.by, *attributes, *summed)])
        chosen = grouped[np.unravel_index(groups, [int(self.sizes[i]) for i in self.by])]
        return np.asarray(chosen.sum(axis=tuple(range(1 + len(attributes), chosen.ndim))) if summed else chosen)

    def store(self, batch: Batch, measured: Integers, out: Integers) -> None:
        """Each group's integers among its own."""
        k, rows, part = batch.work
        self.of_member(out, k)[part, rows.start : rows.start + rows.cells] = measured


def _kinds(several: Sequence[StrataMeasurements]) -> list[tuple[list[Measurements], int]]:
    """For each kind of group all that is measured in it, by all of these, and how many groups are of it."""
    kinds, counts = np.unique(np.stack([one.chosen for one in several], axis=1), axis=0, return_counts=True)
    held = [[one.members[k] for one, k in zip(several, kind, strict=True) if k >= 0] for kind in kinds.tolist()]
    return list(zip(held, counts.tolist(), strict=True))


def _largest_two(kinds: Sequence[tuple[Sequence[Measurements], int]]) -> tuple[Fraction, Fraction]:
    """What the most expensive cell of each of the two most expensive groups costs."""
    costs = [price(kind, AddRemove()) if kind else Fraction(0) for kind, _ in kinds]
    each = sorted(cost for cost, (_, count) in zip(costs, kinds, strict=True) for _ in range(min(count, 2)))
    second, first = [Fraction(0), Fraction(0), *each][-2:]
    return first, second
