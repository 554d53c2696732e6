"""Hierarchies on one attribute: named levels, each a coarser way to tell the values apart, nested in one another.

Levels are declared from the finest to the coarsest (county → state → nation). A level is a mapping from each of its
groups to what it holds, or from each member to its group; members are labels of the level below, or of the attribute's
own values. Where values are numbers, a list of edges says the same: groups closed on the left, the last on both sides.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from residua.domain.words import OTHER as OTHER, interval_labels, listed
from residua.errors import DomainError, kind_of, named, nearest

_MOST_VALUES = 2**20
_KINDS = ("identity", "prefixes", "ranges", "hierarchy")  # what else may be asked of an attribute, by name


@dataclass(frozen=True, eq=False)
class Level:
    """Groups of an attribute's values.

    Args:
        name: what the level is called, such as `state`.
        labels: a label for every group.
        codes: the group of every cell of the attribute, an array of 32-bit integers; the cell of other values is a
            group of its own, the last.
    """

    name: str
    labels: Sequence[str]
    codes: NDArray[np.int32]

    def __post_init__(self) -> None:
        codes = np.asarray(self.codes, dtype=np.int32)
        codes.setflags(write=False)
        object.__setattr__(self, "codes", codes)

    def __len__(self) -> int:
        return len(self.labels)

    @cached_property
    def digest(self) -> bytes:
        """What two equal levels have in common, and no others."""
        return hashlib.sha256("\0".join([self.name, *self.labels, ""]).encode() + self.codes.tobytes()).digest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Level) and (self is other or self.digest == other.digest)

    def __hash__(self) -> int:
        return hash(self.digest)

    def matrix(self) -> NDArray[np.float64]:
        """One row per group: 1 where the cell belongs to it, (groups, cells)."""
        return np.asarray(np.arange(len(self))[:, None] == self.codes[None, :], dtype=np.float64)


@dataclass(frozen=True)
class DeclaredCells:
    """The cells whose groups are declared: their labels, and where they lie if they are numbers.

    Args:
        labels: a label for every declared cell.
        starts: the least number in each cell, None where values are no numbers.
        end: the largest number in the last cell.
        whole: whether a cell is one whole number.
    """

    labels: Sequence[str | int]
    starts: Sequence[float] | None = None
    end: float = math.nan
    whole: bool = False


def levels_of(declared: object, cells: DeclaredCells, has_other: bool) -> tuple[Level, ...]:
    """The levels that a declaration names, finest first, each checked to be made of whole groups of the one below.

    Raises:
        DomainError: a value in no group or in two, a group that cuts through one below it, or no declaration at all.
    """
    if isinstance(declared, tuple) and all(isinstance(level, Level) for level in declared):
        declared = settings_of_levels(declared, cells)
    if not isinstance(declared, Mapping):
        raise DomainError(
            f"levels={named(declared)} is not a mapping; pass {{level: {{group: [members]}}}}, finest first."
        )
    many = len(cells.labels) > _MOST_VALUES
    if many and not all(cells.starts is not None and _by_numbers(groups) for groups in declared.values()):
        where = "declare them with rs.CodeList" if cells.starts is None else "give the edges of their groups"
        raise DomainError(f"levels of more than {_MOST_VALUES:,} values are not listed by their members; {where}.")
    levels: list[Level] = []
    for name, groups in declared.items():
        check_level_name(name)
        labels, codes = _grouped(name, groups, cells, levels[-1] if levels else None)
        if has_other:
            if OTHER in labels:
                raise DomainError(
                    f"level {named(name)}: {OTHER!r} is the name of the cell for other values; rename it."
                )
            codes = np.append(codes, len(labels))
            labels = (*labels, OTHER)
        level = Level(name, labels, codes.astype(np.int32))
        if levels:
            check_nested(levels[-1], level)
        levels.append(level)
    return tuple(levels)


def _by_numbers(groups: object) -> bool:
    """Whether groups are told by their edges."""
    return _is_list(groups) or (isinstance(groups, Mapping) and "edges" in groups)


def check_level_name(name: object) -> None:
    """Refuses what is no name of a level.

    Raises:
        DomainError: no text, or the name of a kind of query.
    """
    if not isinstance(name, str) or not name.strip():
        raise DomainError(f"level name {kind_of(name)} is not a name; use non-empty text.")
    if name in _KINDS:
        raise DomainError(f"level name {named(name)} is a kind of query; rename the level.")


def settings_of_levels(levels: Sequence[Level], cells: DeclaredCells) -> dict[str, object]:
    """The levels as plain values that `levels_of` reads: edges where groups are runs of numbers, else members."""
    return {level.name: _edges_of(level, cells) or _members(level, cells) for level in levels}


def _grouped(
    name: str, groups: Any, cells: DeclaredCells, below: Level | None
) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """The groups' labels, and the group of every declared cell."""
    if cells.starts is not None and _by_numbers(groups):
        return _by_edges(name, groups, cells, cells.starts)
    if not isinstance(groups, Mapping) or not groups:
        edges = ", or a list of edges" if cells.starts is not None else ""
        raise DomainError(f"a level is {kind_of(groups)}; give a mapping from groups to lists of members{edges}.")
    groups = {group: listed(members) for group, members in groups.items()}
    if all(_is_list(members) for members in groups.values()):
        pairs = [(member, group) for group, members in groups.items() for member in members]
    else:
        pairs = list(groups.items())
    for member, group in pairs:
        if not isinstance(group, str) or not group.strip():
            raise DomainError(f"the group {kind_of(group)} is not a label; use text.")
        if not isinstance(member, str | int):
            raise DomainError(f"level {name!r}: {kind_of(member)} is not a value of the attribute; correct it.")
    group_of = dict(pairs)
    if len(group_of) < len(pairs):
        twice = next(member for member, times in Counter(member for member, _ in pairs).items() if times > 1)
        raise DomainError(
            f"level {name!r}: a member is in two groups{nearest(twice, cells.labels)[0]}; put it into one."
        )
    labels = tuple(dict.fromkeys(group for _, group in pairs))
    empty = [group for group in groups if _is_list(groups[group]) and group not in labels]
    if empty:
        raise DomainError(
            f"level {name!r}: group number {[*groups].index(empty[0]) + 1} is empty; give it members or leave it out."
        )
    return labels, _codes_of_members(name, group_of, labels, cells, below)


def _codes_of_members(
    name: str, group_of: dict[Any, str], labels: tuple[str, ...], cells: DeclaredCells, below: Level | None
) -> NDArray[np.int64]:
    number = {label: i for i, label in enumerate(labels)}
    declared = _declared_groups(below, cells) if below is not None else ()
    # Members are the values when they are all of them (so files are read as they were written), else groups below.
    through = set(group_of) != set(cells.labels) and set(group_of) <= set(declared)
    members: Sequence[Any] = declared if through else cells.labels
    known, meant = {*cells.labels, *declared}, set(members)
    outside = [m for m in group_of if m not in known] or [m for m in group_of if m not in meant]
    if outside:
        also = f", nor a group of level {below.name!r}" if below is not None else ""
        shown, remedy = nearest(outside[0], members)
        raise DomainError(f"level {name!r}: a member{shown} is not a value of the attribute{also}; {remedy}")
    absent = [member for member in members if member not in group_of]
    if absent:
        raise DomainError(f"level {name!r}: {absent[0]!r} is in no group; put every value into one.")
    codes = np.array([number[group_of[member]] for member in members], dtype=np.int64)
    if through and below is not None:
        return codes[below.codes[: len(cells.labels)]]
    return codes


def _by_edges(
    name: str, declared: Any, cells: DeclaredCells, starts: Sequence[float]
) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    if not _is_list(declared) and set(declared) - {"edges", "labels"}:
        raise DomainError(f"level {name!r} has other keys than edges and labels; leave them out.")
    given, named = (declared, ()) if _is_list(declared) else (declared["edges"], declared.get("labels", ()))
    edges = _numbers(name, given)
    # Whole numbers are distinguished from the first one on: beyond 2^53 floats could not.
    origin = starts[0] if cells.whole else 0.0
    at = np.array([start - origin for start in starts], dtype=np.float64)
    cuts = np.array([edge - origin for edge in edges], dtype=np.float64)
    if cuts[0] > at[0] or cuts[-1] < cells.end - origin:
        value = cells.labels[0] if cuts[0] > at[0] else cells.labels[-1]
        raise DomainError(f"level {name!r}: {value!r} is in no group; let the edges span all values.")
    through = [cut for cut in cuts[1:-1] if not cells.whole and cut not in at]
    if through:
        value = cells.labels[int(np.searchsorted(at, through[0])) - 1]
        raise DomainError(f"level {name!r}: the edge {through[0]:g} cuts through {value!r}; use edges of the bins.")
    codes = np.minimum(np.searchsorted(cuts, at, side="right") - 1, len(cuts) - 2)
    empty = sorted(set(range(len(cuts) - 1)) - set(codes.tolist()))
    if empty:
        left, right = edges[empty[0]], edges[empty[0] + 1]
        raise DomainError(f"level {name!r}: no value lies between {left:g} and {right:g}; leave that group out.")
    groups = len(edges) - 1
    if not _is_list(named):
        raise DomainError(f"level {name!r}: its labels are no list; give one text per group.")
    labels = tuple(named) or _edge_labels(edges, codes, cells)
    if not all(isinstance(label, str) for label in labels) or len(labels) != groups or len(set(labels)) != groups:
        raise DomainError(f"level {name!r}: {groups} groups need as many different labels, as text.")
    return labels, codes.astype(np.int64)


def _numbers(name: str, given: Any) -> list[float]:
    """Edges as numbers, whole ones kept whole."""
    try:
        # Whole numbers beyond all floats are no edges either.
        edges = [
            edge if isinstance(edge, int) and not isinstance(edge, bool) and float(edge) else float(edge)
            for edge in given
        ]
    except (TypeError, ValueError, OverflowError):
        raise DomainError("the edges of a level are not numbers; list them in increasing order.") from None
    if len(edges) < 2 or not all(a < b for a, b in pairwise(edges)):
        raise DomainError("the edges of a level are not two or more numbers in increasing order; sort them.")
    return edges


def _edge_labels(edges: Sequence[float], codes: NDArray[np.intp], cells: DeclaredCells) -> tuple[str, ...]:
    if not cells.whole:
        return interval_labels(edges)
    firsts = np.searchsorted(codes, np.arange(len(edges) - 1))
    lasts = [*(firsts[1:] - 1), len(codes) - 1]
    ends = [(cells.labels[int(a)], cells.labels[int(b)]) for a, b in zip(firsts, lasts, strict=True)]
    return tuple(f"{a} to {b}" if a != b else f"{a}" for a, b in ends)


def check_nested(below: Level, level: Level) -> None:
    """Every group below must lie in one group here."""
    finer, coarser = below.codes, level.codes
    first = np.zeros(len(below), dtype=np.int32)
    first[finer[::-1]] = coarser[::-1]
    straddling = np.flatnonzero(first[finer] != coarser)
    if len(straddling):
        cell = int(straddling[0])
        group = below.labels[finer[cell]]
        one, two = level.labels[first[finer[cell]]], level.labels[coarser[cell]]
        raise DomainError(
            f"level {level.name!r} does not nest: {group!r} of level {below.name!r} lies partly in {one!r} and partly "
            f"in {two!r}; list the levels from the finest to the coarsest, each made of whole groups of the last."
        )


def _declared_groups(level: Level, cells: DeclaredCells) -> Sequence[str]:
    """The groups without the one of other values, which every level has if the attribute has it."""
    return level.labels[:-1] if len(level.codes) > len(cells.labels) else level.labels


def _members(level: Level, cells: DeclaredCells) -> dict[str, list[str | int]]:
    members: dict[str, list[str | int]] = {label: [] for label in _declared_groups(level, cells)}
    for label, code in zip(cells.labels, level.codes.tolist(), strict=False):
        members[level.labels[code]].append(label)
    return members


def _edges_of(level: Level, cells: DeclaredCells) -> dict[str, object] | None:
    codes = level.codes[: len(cells.labels)]
    if cells.starts is None or (np.diff(codes, prepend=codes[0]) < 0).any():
        return None
    firsts = np.searchsorted(codes, np.unique(codes))
    last = cells.end + 1 if cells.whole else cells.end  # a last group of one whole number still needs two edges
    edges = [*(cells.starts[int(i)] for i in firsts), last]
    # JSON has no infinity: it is written as text, which `float` reads.
    plain = [edge if math.isfinite(edge) else str(edge) for edge in edges]
    return {"edges": plain, "labels": [level.labels[codes[int(i)]] for i in firsts]}


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence | np.ndarray | range) and not isinstance(value, str)
