"""What one column may hold: categories, integers, bins, or an anonymous number of values.

An attribute is declared, never learned from data. It says which cells exist and what happens to a value
outside them (`unknown`) and to an absent one (`missing`): `"error"` stops before anything is spent,
`"other"` counts it in a cell of its own, `"drop"` leaves the whole record out of every table.
"""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Literal, TypedDict, Unpack, get_args

from residua.domain.label_files import values_of_file
from residua.domain.levels import OTHER, DeclaredCells, Level, levels_of, settings_of_levels
from residua.domain.words import Described, Words, interval_labels, listed, plain
from residua.errors import DomainError, kind_of, named, nearest

Policy = Literal["error", "other", "drop"]
Label = str | int
_MOST_VALUES = 2**31 - 1


class Policies(TypedDict, total=False):
    """What happens to values that are not declared, and to absent ones, by name."""

    unknown: Policy
    missing: Policy


class LeveledPolicies(Policies, total=False):
    """The same, and a hierarchy."""

    levels: Mapping[str, Any] | tuple[Level, ...]


@dataclass(frozen=True, kw_only=True)
class Attribute(Described, ABC):
    """A column's declared values, with a policy for values outside them and for absent ones.

    `levels` may declare a hierarchy, from the finest level to the coarsest; see `residua.domain.levels`.
    """

    kind: ClassVar[str]
    summed: ClassVar[bool] = False  # whether it is added up, so that a record is a mean of its two ends
    unknown: Policy = "error"
    missing: Policy = "error"
    levels: Mapping[str, Any] | Sequence[str] | tuple[Level, ...] = field(default=(), hash=False, repr=False)
    words: Words = field(default=Words(), compare=False, repr=False)

    def __post_init__(self) -> None:
        for argument, value in (("unknown", self.unknown), ("missing", self.missing)):
            if value not in get_args(Policy):
                raise DomainError(f"{argument}={named(value)} is no policy; use 'error', 'other' or 'drop'.")
        self._validate()
        if self.declared < 1:
            raise DomainError(f"an attribute ({self.kind}) without values holds nothing; declare at least one value.")
        if self.size > _MOST_VALUES:
            raise DomainError(f"an attribute of {self.size:,} values is too large; declare bins instead.")
        object.__setattr__(self, "levels", levels_of(self.levels, self._cells, self.has_other) if self.levels else ())

    @abstractmethod
    def _validate(self) -> None:
        """Refuses what is not a declaration; may put fields into their final form."""

    @property
    def is_text(self) -> bool:
        """Whether its values are text, so that 1.234 is one and no number; bins and dates have only labels."""
        return self.kind in ("categories", "codes") and isinstance(self.declared_labels[0], str)

    @property
    def declared(self) -> int:
        """How many values are declared, the cell of other values not included."""
        return len(self.declared_labels)

    @property
    @abstractmethod
    def declared_labels(self) -> Sequence[Label]:
        """A label for every declared value, in the order of their codes."""

    @abstractmethod
    def settings(self) -> dict[str, object]:
        """The declaration as plain values, for files, without policies and levels."""

    @property
    def _cells(self) -> DeclaredCells:
        """What levels group: labels, and where cells lie if they are numbers."""
        return DeclaredCells(self.declared_labels)

    @property
    def hierarchy(self) -> tuple[Level, ...]:
        """The declared levels, finest first, the values themselves not among them."""
        assert isinstance(self.levels, tuple)
        return self.levels

    def level(self, name: str) -> Level:
        """The level of this name.

        Raises:
            DomainError: there is none.
        """
        for level in self.hierarchy:
            if level.name == name:
                return level
        shown, _ = nearest(name, [level.name for level in self.hierarchy])
        there = ", ".join(repr(level.name) for level in self.hierarchy) or "none"
        raise DomainError(f"there is no level{shown} (declared: {there}); declare levels={{…}} on the attribute.")

    def level_settings(self) -> Any:
        """The levels as plain values, for files."""
        return settings_of_levels(self.hierarchy, self._cells)

    @property
    def has_other(self) -> bool:
        """Whether some values are counted in a cell of their own."""
        return "other" in (self.unknown, self.missing)

    @property
    def size(self) -> int:
        """How many cells the attribute has, the cell of other values included (it is the last one)."""
        return self.declared + self.has_other

    @property
    def coded(self) -> int:
        """How many codes values have: one per cell, unless they are added up."""
        return self.size

    @cached_property
    def labels(self) -> tuple[Label, ...]:
        """A label for every cell, in the order of their codes."""
        return (*self.declared_labels, *((OTHER,) if self.has_other else ()))


@dataclass(frozen=True)
class Categories(Attribute):
    """A list of values, all text or all whole numbers.

    Args:
        values: the categories in the order of the published table; `False` and `True` are spelled "false" and "true".
        unknown: policy for a value not listed.
        missing: policy for an absent value.
        levels: level → group → members, finest level first, for a hierarchy.

    Raises:
        DomainError: no values, a value listed twice, text and numbers mixed, or levels that do not nest.

    Example:
        >>> Categories(["Female", "Male"], missing="other").labels
        ('Female', 'Male', '(other)')
        >>> county = Categories(["Kern", "Napa", "Erie"], levels={"state": {"CA": ["Kern", "Napa"], "NY": ["Erie"]}})
        >>> county.level("state").codes.tolist()
        [0, 0, 1]
    """

    kind: ClassVar[str] = "categories"
    values: tuple[Label, ...] = field(kw_only=False)

    def _validate(self) -> None:
        given = listed(self.values)
        if isinstance(given, str) or not isinstance(given, Sequence):
            raise DomainError(f"values={named(given)} is not a list of categories; pass a list of labels.")
        values = tuple(_spelled(plain(value)) for value in given)
        kinds = {type(value) for value in values}
        if kinds - {str} and kinds - {int}:
            raise DomainError("categories must be all text or all whole numbers; quote them all or none.")
        if len(set(values)) < len(values):
            places: dict[Label, int] = {}
            again = next(n for n, value in enumerate(values, 1) if places.setdefault(value, n) != n)
            first = places[values[again - 1]]
            raise DomainError(f"category {again:,} is listed twice, as category {first:,} too; list each once.")
        if OTHER in values and self.has_other:
            raise DomainError(f"category {OTHER!r} is the name of the cell for other values; rename it.")
        object.__setattr__(self, "values", values)

    @classmethod
    def from_file(
        cls,
        path: str | Path,
        column: str | None = None,
        *,
        names: str | None = None,
        encoding: str | None = None,
        **policies: Unpack[LeveledPolicies],
    ) -> Categories:
        """The categories that a file lists: text with one per line, or a column of a CSV file (the first if not named).

        The file must be public knowledge, such as a code list, and never the data. `names` is the column of what they
        are called, which people are shown; of a file of two columns it is the second. Policies (unknown, missing) and
        levels are those of every attribute.
        """
        values = values_of_file(path, column, names, encoding)
        return cls(tuple(values), **policies).described(
            meanings={value: name for value, name in values.items() if name}
        )

    @property
    def declared_labels(self) -> Sequence[Label]:
        """The categories themselves."""
        return self.values

    @cached_property
    def lookup(self) -> Any:
        """What finds categories in data, made once: a `Lookup` of text, or `NumberLookup`."""
        from residua.domain.values import Lookup, NumberLookup

        return Lookup(self.values) if isinstance(self.values[0], str) else NumberLookup(self.values)

    def settings(self) -> dict[str, object]:
        """The declaration as plain values, for files."""
        return {"values": list(self.values)}


@dataclass(frozen=True)
class Integers(Attribute):
    """Every whole number from `low` to `high`, both included.

    Raises:
        DomainError: a bound that is not a whole number, or `low` above `high`.

    Example:
        >>> Integers(17, 90).size
        74
        >>> Integers(17, 90, levels={"band": [17, 25, 65, 90]}).level("band").labels
        ('17 to 24', '25 to 64', '65 to 90')
    """

    kind: ClassVar[str] = "integers"
    low: int = field(kw_only=False)
    high: int = field(kw_only=False)

    def _validate(self) -> None:
        for argument, value in (("low", plain(self.low)), ("high", plain(self.high))):
            object.__setattr__(self, argument, value)
            if not isinstance(value, int) or isinstance(value, bool) or abs(value) >= 2**62:
                raise DomainError(
                    f"{argument}={named(value)} is not a whole number below 2^62; give whole numbers as bounds."
                )
        if self.low > self.high:
            raise DomainError(f"low={self.low} is above high={self.high}; exchange them.")

    @property
    def declared_labels(self) -> Sequence[Label]:
        """The whole numbers themselves."""
        return range(self.low, self.high + 1)

    @property
    def _cells(self) -> DeclaredCells:
        return DeclaredCells(self.declared_labels, range(self.low, self.high + 1), self.high, whole=True)

    def settings(self) -> dict[str, object]:
        """The declaration as plain values, for files."""
        return {"low": self.low, "high": self.high}


@dataclass(frozen=True)
class Bins(Attribute):
    """Intervals between consecutive edges, closed on the left; the last one is closed on both sides.

    Edges may be infinite. `Bins.of_intervals` takes pairs instead and insists that they touch.

    Args:
        edges: at least two numbers in increasing order.
        bin_labels: a label for each bin; intervals such as `[0, 10)` when not given.

    Raises:
        DomainError: unsorted or repeated edges, NaN, or another number of labels than of bins.

    Example:
        >>> Bins([0, 18, 65, float("inf")]).labels
        ('[0, 18)', '[18, 65)', '[65, inf]')
    """

    kind: ClassVar[str] = "bins"
    edges: tuple[float, ...] = field(kw_only=False)
    bin_labels: tuple[str, ...] = field(kw_only=False, default=())

    def _validate(self) -> None:
        edges = _numbers("edges", self.edges)
        if len(edges) < 2:
            raise DomainError(f"edges: {len(edges)} make no bin; give at least two edges.")
        for place, (left, right) in enumerate(pairwise(edges), 1):
            if not left < right:
                raise DomainError(
                    f"edges {place} and {place + 1} are not in increasing order; sort them and list each once."
                )
        given = listed(self.bin_labels)
        if isinstance(given, str) or not isinstance(given, Sequence):
            raise DomainError(f"labels={named(given)} is not a list; give one label for each bin.")
        labels = tuple(plain(label) for label in given) or interval_labels(edges)
        if not all(isinstance(label, str) for label in labels):
            raise DomainError("labels of bins must be text; quote them.")
        if len(labels) != len(edges) - 1 or len(set(labels)) != len(labels):
            raise DomainError(f"{len(edges) - 1} bins need as many different labels, not {len(set(labels))}.")
        if OTHER in labels and self.has_other:
            raise DomainError(f"label {OTHER!r} is the name of the cell for other values; rename it.")
        object.__setattr__(self, "edges", edges)
        object.__setattr__(self, "bin_labels", labels)

    @classmethod
    def of_intervals(
        cls, intervals: Sequence[Sequence[float]], labels: Sequence[str] = (), **policies: Unpack[LeveledPolicies]
    ) -> Bins:
        """Bins from (lower, upper) pairs, which must touch and not overlap; unknown, missing and levels as for all."""
        given, labels = listed(intervals), listed(labels)
        if isinstance(given, str) or not isinstance(given, Sequence):
            raise DomainError(f"intervals={named(intervals)} is not a list; give (lower, upper) pairs.")
        pairs = [_numbers("intervals", pair) for pair in given]
        for pair in pairs:
            if len(pair) != 2:
                raise DomainError(f"an interval of {len(pair)} numbers is not a pair; give (lower, upper).")
        for (_, upper), (lower, _) in pairwise(pairs):
            if lower < upper:
                raise DomainError(
                    f"bins overlap between {lower:g} and {upper:g}; let each begin where the last one ends."
                )
            if lower > upper:
                raise DomainError(f"no bin covers {upper:g} to {lower:g}; declare one, or let the bins touch.")
        edges = (*(pair[0] for pair in pairs), *(pair[1] for pair in pairs[-1:]))
        if isinstance(labels, str) or not isinstance(labels, Sequence):
            raise DomainError(f"labels={named(labels)} is not a list; give one label for each bin.")
        return cls(edges, tuple(labels), **policies)

    @property
    def declared_labels(self) -> Sequence[Label]:
        """The bins' labels."""
        return self.bin_labels

    @property
    def _cells(self) -> DeclaredCells:
        return DeclaredCells(self.bin_labels, self.edges[:-1], self.edges[-1])

    def settings(self) -> dict[str, object]:
        """The declaration as plain values, for files."""
        # JSON has no infinity: it is written as text, which `edges` accepts.
        edges = [edge if math.isfinite(edge) else str(edge) for edge in self.edges]
        return {"edges": edges, "labels": list(self.bin_labels)}


@dataclass(frozen=True)
class Anonymous(Attribute):
    """A number of values without names, coded 0, 1, 2, …

    Example:
        >>> Anonymous(3).labels
        (0, 1, 2)
    """

    kind: ClassVar[str] = "anonymous"
    values: int = field(kw_only=False)

    def _validate(self) -> None:
        if not isinstance(self.values, int) or isinstance(self.values, bool):
            raise DomainError(f"size={kind_of(self.values)} is not a whole number; give the number of values.")

    @property
    def declared(self) -> int:
        """How many values there are; no range has the length of the largest that may be asked for."""
        return self.values

    @property
    def declared_labels(self) -> Sequence[Label]:
        """The codes themselves."""
        return range(self.values)

    @property
    def _cells(self) -> DeclaredCells:
        return DeclaredCells(self.declared_labels, range(self.values), self.values - 1, whole=True)

    def settings(self) -> dict[str, object]:
        """The declaration as plain values, for files."""
        return {"size": self.values}


def _spelled(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


def _numbers(argument: str, values: Sequence[float | str]) -> tuple[float, ...]:
    given = listed(values)
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise DomainError(f"{argument}={kind_of(given)} is not a list of numbers; give numbers in increasing order.")
    numbers = [float(value) if value in ("inf", "-inf") else plain(value) for value in given]
    for value in numbers:
        if isinstance(value, bool) or not isinstance(value, int | float) or value != value or _beyond(value):
            raise DomainError(
                f"{argument} holds {kind_of(value)}, which is not a number; give numbers in increasing order."
            )
    return tuple(float(value) for value in numbers)


def _beyond(value: float) -> bool:
    """Whether this is a whole number that no float holds."""
    return isinstance(value, int) and abs(value) > sys.float_info.max
