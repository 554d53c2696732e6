"""Code lists of millions of values in nested levels: a nation's blocks, products, diagnoses."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Unpack, cast

import numpy as np
from numpy.typing import NDArray

from residua.domain.attributes import Attribute, Label, Policies
from residua.domain.described import is_description, parents_of_list
from residua.domain.label_files import columns_of_file, levels_of_parents
from residua.domain.labels import (
    LabelArray,
    labels_of,
    packed_codes,
    packed_labels,
    text_of,
    unpacked_codes,
    unpacked_labels,
)
from residua.domain.levels import OTHER, Level, check_level_name, check_nested
from residua.errors import DomainError, named

if TYPE_CHECKING:
    from residua.domain.values import Lookup

_KEYS = {"column", "child", "parent", "levels", "names", "encoding"}


@dataclass(frozen=True, eq=False)
class CodeList(Attribute):
    """A list of codes, up to tens of millions of them, in nested levels. Codes are text.

    Labels and groups are arrays, never Python objects, so that 8 million blocks take a second to declare and less than
    half a gigabyte. A hierarchy over many values is planned as a tree (docs/hierarchies.md).

    Args:
        values: the codes, as an Arrow or NumPy array or a list of text; each once.
        unknown: policy for a value not listed.
        missing: policy for an absent value.
        levels: level → the group of every value, an array of labels as long as `values`; finest level first.

    Raises:
        DomainError: no values, a code listed twice, or levels that do not nest.

    Example:
        >>> block = CodeList(["0101", "0102", "0201"], levels={"tract": ["01", "01", "02"]})
        >>> block.size, list(block.level("tract").labels), block.level("tract").codes.tolist()
        (3, ['01', '02'], [0, 0, 1])
    """

    kind: ClassVar[str] = "codes"
    values: Any = field(kw_only=False)

    def __post_init__(self) -> None:
        given = self.levels
        object.__setattr__(self, "levels", ())
        super().__post_init__()
        coded = isinstance(given, tuple) and all(isinstance(level, Level) for level in given)
        object.__setattr__(self, "levels", given if coded else self._nested(given) if given else ())

    def _validate(self) -> None:
        if isinstance(self.values, str):
            raise DomainError(f"values={named(self.values)} is not a list of codes; pass an array or a list of text.")
        values = self.values.array if isinstance(self.values, LabelArray) else labels_of(self.values, "values")
        object.__setattr__(self, "values", LabelArray(values) if len(values) else ())

    def _nested(self, given: Any) -> tuple[Level, ...]:
        if not isinstance(given, Mapping):
            raise DomainError(f"levels={named(given)} is not a mapping; pass {{level: the group of every value}}.")
        levels: list[Level] = []
        for name, groups in given.items():
            check_level_name(name)
            each = labels_of(groups, f"level number {len(levels) + 1}: its groups")
            if len(each) != self.declared:
                raise DomainError(f"a level has {len(each):,} groups for {self.declared:,} values; give one per value.")
            labels, codes = _numbered(each)
            levels.append(self._level(name, labels, codes))
            if len(levels) > 1:
                check_nested(levels[-2], levels[-1])
        return tuple(levels)

    def _level(self, name: str, labels: NDArray[np.bytes_], codes: NDArray[np.int32]) -> Level:
        if self.has_other:
            codes = np.append(codes, np.int32(len(labels)))
        return Level(name, LabelArray(labels, OTHER if self.has_other else None), codes)

    @classmethod
    def from_file(
        cls,
        path: str | Path,
        column: str | None = None,
        *,
        levels: Sequence[str] = (),
        names: str | None = None,
        encoding: str | None = None,
        **policies: Unpack[Policies],
    ) -> CodeList:
        """The codes that a CSV or Parquet file lists, with a column for each level.

        The file must be public knowledge, such as a code list, and never the data.

        Args:
            path: `.csv`, `.tsv` or `.parquet`.
            column: the column of the codes; the first by default.
            levels: the columns of the levels, finest first; each holds the group of the code in its row.
            names: the column of what the codes are called, which people are shown.
            encoding: of text, UTF-8 by default.
            policies: unknown, for a value not listed; missing, for an absent one.
        """
        above = _names(levels)
        columns = columns_of_file(path, [column, *above, *([names] if names else [])], encoding=encoding)
        groups = dict(zip(above, columns[1 : 1 + len(above)], strict=True))
        titles: Any = columns[-1] if names else []
        return cls(columns[0], levels=groups, **policies)._called(columns[0], titles)

    @classmethod
    def from_parents(
        cls,
        path: str | Path,
        *,
        levels: Sequence[str],
        child: str | None = None,
        parent: str | None = None,
        names: str | None = None,
        encoding: str | None = None,
        **policies: Unpack[Policies],
    ) -> CodeList:
        """The codes that a two-column file lists: every code with its parent, on all levels.

        The values are the codes that are nobody's parent, in the order of the file. Codes without a parent are the
        groups of the coarsest level.

        Args:
            path: `.csv`, `.tsv` or `.parquet`; or an SDMX structure, `.json` or `.xml`.
            levels: what the levels above the values are called, finest first.
            child: the column of the codes; the first by default. Of an SDMX structure, which of several code lists.
            parent: the column of their parents; the second by default.
            names: the column of what codes and groups are called, which people are shown; an SDMX structure has them.
            encoding: of text, UTF-8 by default.
            policies: unknown, for a value not listed; missing, for an absent one.
        """
        above = _names(levels)
        titles: Any
        if is_description(path):
            codes, titles, of = parents_of_list(path, child)
            children, parents = labels_of(codes, "codes"), labels_of(of, "codes")
        else:
            wanted = [child, parent, *([names] if names else [])]
            children, parents, *titles = columns_of_file(path, wanted, blank=True, encoding=encoding)
            titles = titles[0] if names else []
        values, groups = levels_of_parents(children, parents, len(above))
        return cls(values, levels=dict(zip(above, groups, strict=True)), **policies)._called(children, titles)

    def _called(self, codes: Any, titles: Any) -> CodeList:
        """The same, with what the codes, and groups among them, are called."""
        named = {
            text_of(code): text_of(title) if isinstance(title, bytes) else title
            for code, title in zip(codes, titles, strict=False)
            if title
        }
        return self.described(meanings=named)

    @property
    def declared_labels(self) -> Sequence[Label]:
        """The codes themselves."""
        return cast("Sequence[Label]", self.values)

    @cached_property
    def labels(self) -> Any:
        """A label for every cell, in the order of their codes."""
        return LabelArray(self.values.array, OTHER) if self.has_other else self.values

    @property
    def lookup(self) -> Lookup:
        """What finds codes in data, made once."""
        lookup: Lookup = self.values.lookup
        return lookup

    def settings(self) -> dict[str, object]:
        """The declaration as plain values, for files, levels included."""
        levels, below = [], np.arange(self.declared, dtype=np.int32)
        for level in self.hierarchy:
            codes = level.codes[: self.declared]
            first = np.zeros(int(below.max()) + 1, dtype=np.int32)
            first[below] = codes
            labels = packed_labels(cast("LabelArray", level.labels).array)
            levels.append({"name": level.name, "labels": labels, "of": packed_codes(first)})
            below = codes
        return {"codes": {"labels": packed_labels(self.values.array), "levels": levels}}

    def level_settings(self) -> Any:
        """No settings of their own: levels are among those of the attribute."""
        return {}

    @classmethod
    def of_settings(cls, codes: Any, folder: Path = Path(), **policies: Unpack[Policies]) -> CodeList:
        """What `codes = …` declares: a file, `{ file = "blocks.csv", levels = ["tract"] }`, or packed codes."""
        if not isinstance(codes, Mapping):
            raise DomainError(
                f'codes={named(codes)} names no file; write {{ file = "blocks.csv", levels = ["tract"] }}.'
            )
        if "file" in codes:
            rest = {key: value for key, value in codes.items() if key != "file"}
            if not isinstance(codes["file"], str) or set(rest) - _KEYS:
                raise DomainError(
                    f"codes has the keys {sorted(codes)}; use file, levels, names, encoding, and column, or child and "
                    "parent."
                )
            parents = {"child", "parent"} & set(rest) or is_description(codes["file"])
            reader: Any = cls.from_parents if parents else cls.from_file
            return cast("CodeList", reader(folder / codes["file"], **rest, **policies))
        try:
            values = unpacked_labels(codes["labels"])
            plain, below, levels = cls(values, **policies), np.arange(len(values), dtype=np.int32), []
            for each in codes["levels"]:
                check_level_name(each["name"])
                labels, first = unpacked_labels(each["labels"]), unpacked_codes(each["of"])
                if not len(first) or first.min() < 0 or first.max() >= len(labels) or len(first) <= below.max():
                    raise DomainError(
                        f"level {named(each['name'])} does not fit the one below it; copy the file again."
                    )
                below = first[below]
                if np.bincount(below, minlength=len(labels)).min() == 0:
                    raise DomainError(f"level {named(each['name'])} has an empty group; copy the file again.")
                levels.append(plain._level(each["name"], labels, below))
        except (KeyError, TypeError, ValueError, OverflowError) as problem:
            raise DomainError(f"packed codes cannot be read ({problem}); copy the file again.") from None
        return cls(plain.values, levels=tuple(levels), **policies)

    @cached_property
    def _digest(self) -> bytes:
        levels = b"".join(level.digest for level in self.hierarchy)
        policy = f"{self.unknown} {self.missing} ".encode()
        return hashlib.sha256(policy + self.values.digest + levels).digest()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CodeList) and (self is other or self._digest == other._digest)

    def __hash__(self) -> int:
        return hash(self._digest)

    def __repr__(self) -> str:
        names = ", ".join(f"{level.name}: {len(level):,}" for level in self.hierarchy)
        return f"CodeList({self.declared:,} codes{', ' if names else ''}{names})"


def _names(levels: Any) -> list[str]:
    if isinstance(levels, str) or not isinstance(levels, Sequence) or not all(isinstance(x, str) for x in levels):
        raise DomainError(f"levels={named(levels)} is not a list of names; name the levels, finest first.")
    return list(levels)


def _numbered(each: NDArray[np.bytes_]) -> tuple[NDArray[np.bytes_], NDArray[np.int32]]:
    """The distinct labels in the order of their first appearance, and which one each is."""
    changes = np.flatnonzero(np.concatenate([[True], each[1:] != each[:-1]]))  # neighbours are alike: sort the runs
    distinct, first, inverse = np.unique(each[changes], return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty(len(order), dtype=np.int32)
    place[order] = np.arange(len(order), dtype=np.int32)
    runs = np.diff(np.append(changes, len(each)))
    return distinct[order], np.repeat(place[inverse.ravel()], runs)
