"""A published table as formats see it: dimensions with codes and titles, measures, and a flag per number."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from residua.domain import OTHER, Attribute, Domain
from residua.domain.words import said, title_in_words, title_of
from residua.formats.about import MEASURES
from residua.language import say
from residua.linalg.arrays import Floats
from residua.machine import pyarrow as pa
from residua.published.quality import COLUMN, FLAGS, grades, shortened, shortened_to
from residua.published.streaming import axis_labels, batches, decimals
from residua.published.table import LEFT_OUT
from residua.showing import printable

_CODE = re.compile(r"[A-Za-z0-9_@$-]{1,64}")
_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,62}")


@dataclass(frozen=True)
class Dimension:
    """One axis of a table.

    Args:
        name: the attribute's name, the column's in tidy files.
        code: what code lists call it, an identifier.
        title, description: for people, in the language asked for.
        labels: the values as they stand in tidy files.
        codes: a code per value, distinct.
        titles: a title per value.
    """

    name: str
    code: str
    title: str
    description: str
    labels: tuple[Any, ...]
    codes: tuple[str, ...]
    titles: tuple[str, ...]

    @cached_property
    def whole(self) -> bool:
        """Whether all values are whole numbers."""
        return all(isinstance(label, int) for label in self.labels)


@dataclass(frozen=True, eq=False)
class Cube:
    """A table with its metadata.

    Args:
        number: its place among the tables, from 1.
        title: what it is, in the language asked for.
        dimensions: its axes.
        table: the published numbers.
        full: every digit, instead of as many as the standard errors justify.
        stem: what its file is called after, in every language alike; its title if left out.
        margin: the table over some of its axes alone, if that was published too.
    """

    number: int
    title: str
    dimensions: tuple[Dimension, ...]
    table: Any
    full: bool = False
    stem: str = ""
    margin: Callable[[tuple[int, ...]], Any] | None = None

    @property
    def name(self) -> str:
        """A name for a file, without an ending."""
        return f"{self.number:04d}-{plain(self.stem or self.title)}".rstrip("-")

    @property
    def counted(self) -> bool:
        """Whether its numbers are counts, and not sums of an amount."""
        return not self.table.domain.holds_amounts(self.table.attributes)

    @property
    def contents(self) -> str:
        """What its numbers are."""
        return say("Counts") if self.counted else say("Sums")

    def unit(self, counts: str) -> str:
        """What its numbers are measured in: sums in the unit of the amount, others as given."""
        own: str = self.table.domain.unit_of(self.table.attributes)
        return own or say(counts)

    @property
    def shape(self) -> tuple[int, ...]:
        """How many values each axis has."""
        return tuple(len(each.labels) for each in self.dimensions)

    def __len__(self) -> int:
        return len(self.table)

    @property
    def has_bars(self) -> bool:
        """Whether there are standard errors, and flags by them."""
        return self.table.stddev is not None

    @cached_property
    def measure_names(self) -> tuple[str, ...]:
        """The columns of numbers that say something."""
        own = (name for name in MEASURES if name not in LEFT_OUT and not self._unknown(name))
        return (*own, *(name for name in LEFT_OUT if name in self.table.beside))

    @cached_property
    def measures(self) -> dict[str, Floats]:
        """Column → numbers, flat: estimate, and where there are any stddev, lower, upper and what was left out."""
        columns = self.table.columns if self.full else shortened(self.table.columns)
        # An infinite standard error says that a number is not told, like no number at all.
        return {name: np.where(np.isinf(columns[name]), np.nan, columns[name]) for name in self.measure_names}

    def flags(self, names: Sequence[str]) -> list[str | None]:
        """Each number's flag by its name among these three; None for a number that is not told, or has no error bar."""
        if not self.has_bars:
            return [None] * len(self)
        columns = self.table.columns
        places = grades(columns["estimate"], columns["stddev"], doubtful=self.table.doubtful).tolist()
        finite = np.isfinite(columns["estimate"]).tolist()
        return [names[i] if known else None for i, known in zip(places, finite, strict=True)]

    @cached_property
    def complete(self) -> bool:
        """Whether every number is there, without making the columns."""
        given = [self.table.estimates, *([self.table.stddev] if "stddev" in self.measure_names else [])]
        return all(bool(np.isfinite(values).all()) for values in given)

    @property
    def flag_column(self) -> str:
        """What the column of flags is called."""
        taken = {each.name for each in self.dimensions}
        name = COLUMN
        while name in taken:
            name += "_flag"
        return name

    @property
    def decimals(self) -> int:
        """How many decimals the numbers have."""
        digits = (f"{value:.15g}".partition(".")[2] for value in self.measures["estimate"][:100])
        return max((len(part) for part in digits if "e" not in part), default=0)

    def batches(self) -> Iterator[Any]:
        """The columns of tidy files, flags among them, as Arrow record batches, made as they are asked for."""
        flags, places = pa.array(FLAGS), None if self.full else decimals(self.table)
        names = [*self.table.keys, *self.measure_names, *([self.flag_column] if self.has_bars else [])]
        doubtful, first = self.table.doubtful, 0
        for keys, exact in batches(self.table):
            numbers = exact if places is None else shortened_to(exact, places)
            columns = [*keys, *(pa.array(numbers[name], mask=_untold(numbers[name])) for name in self.measure_names)]
            if self.has_bars:
                own = slice(first, first := first + len(exact["estimate"]))
                doubts = None if doubtful is None else doubtful[own]
                graded = grades(exact["estimate"], exact["stddev"], doubtful=doubts)
                columns.append(flags.take(pa.array(graded, mask=_untold(exact["estimate"]))))
            yield pa.RecordBatch.from_arrays(columns, names)

    def _unknown(self, name: str) -> bool:
        """Whether a column of error bars says nothing of any cell."""
        if name == "estimate":
            return False
        known: Any = self.table.stddevs
        if known is None:
            known = self.table.ends.get(name, np.nan)
        elif name != "stddev":
            known = known * np.ravel(self.table.width)
        return bool(np.isnan(known).all())


def _untold(numbers: Floats) -> NDArray[np.bool_] | None:
    """Which numbers are not told; None where all are, as nearly always."""
    finite = np.isfinite(numbers)
    return None if finite.all() else ~finite


def cube_of(
    table: Any,
    number: int,
    *,
    full: bool = False,
    known: dict[str, Dimension] | None = None,
    margin: Callable[[tuple[int, ...]], Any] | None = None,
) -> Cube:
    """A published table as formats see it, with titles in the language that is spoken.

    Args:
        table: what was published.
        number: its place among the tables.
        full: every digit.
        known: the axes of attributes by their values, kept from table to table.
        margin: the table over some of its axes alone, if that was published too.
    """
    domain: Domain = table.domain
    dimensions = tuple(
        _known(known, domain[name], name, labels)
        for name, labels in zip(table.attributes, axis_labels(table), strict=True)
    )
    named = " × ".join(table.attributes) or "(total)"
    stem = table.title or named
    return Cube(number, printable(title_in_words(domain, stem)), _distinct(dimensions), table, full, stem, margin)


def _known(known: dict[str, Dimension] | None, attribute: Attribute, name: str, labels: Sequence[Any]) -> Dimension:
    if known is None or labels is not attribute.labels:
        return dimension(attribute, name, labels)
    if name not in known:
        known[name] = dimension(attribute, name, labels)
    return known[name]


def dimension(attribute: Attribute, name: str, labels: Sequence[Any]) -> Dimension:
    """An attribute, or prefixes, ranges or a level of it, as an axis."""
    words = attribute.words
    titles = tuple(printable(title_of(attribute, label)) for label in labels)
    title, description = said(words.title) or name, said(words.description)
    code = words.code if _IDENTIFIER.fullmatch(words.code) else identifier(words.code or name)
    return Dimension(
        name, code, printable(title), printable(description), tuple(labels), _codes(attribute, labels), titles
    )


def identifier(name: str) -> str:
    """A name as formats want identifiers: letters, digits and `_`, a letter first.

    Example:
        >>> identifier("marital-status"), identifier("5-year age"), identifier("年齢")
        ('MARITAL_STATUS', 'A_5_YEAR_AGE', 'A')
    """
    plain_name = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_").upper()[:60]
    return plain_name if plain_name[:1].isalpha() else f"A_{plain_name}".rstrip("_")


def plain(title: str) -> str:
    """A title as part of a file's name."""
    return re.sub(r"[^\w]+", "-", title).strip("-")[:100]


def _codes(attribute: Attribute, labels: Sequence[Any]) -> tuple[str, ...]:
    """A code per value: the declared one, else one made of its label alone, whatever other values there are."""
    declared = {label: named.code for label, named in attribute.words.meanings.items() if named.code}
    taken = set(declared.values())
    codes: list[str] = []
    for label in map(str, labels):
        code = declared.get(label) or code_of(label)
        while code in taken and label not in declared:
            code = f"_{code}"
        taken.add(code)
        codes.append(code)
    return tuple(codes)


def code_of(label: str) -> str:
    """The code of a value that declares none: its label where that can be one, else its letters and a short digest.

    Guarantee: it does not change when other values come or go; an interval keeps it when it is no longer the last.

    Example:
        >>> code_of("F"), code_of("männlich"), code_of("[0, 10)"), code_of("[0, 10]"), code_of("(other)")
        ('F', 'mannlich_c1e0a9', '0_10_932e8d', '0_10_932e8d', '_O')
    """
    if _CODE.fullmatch(label):
        return label
    if label == OTHER:
        return "_O"  # as SDMX has it
    letters = unicodedata.normalize("NFKD", label).encode("ascii", "ignore").decode()
    digest = hashlib.sha256(label.rstrip("])").encode("utf-8", "surrogatepass")).hexdigest()[:6]
    return f"{re.sub(r'[^A-Za-z0-9]+', '_', letters).strip('_')[:50]}_{digest}"


def _distinct(dimensions: tuple[Dimension, ...]) -> tuple[Dimension, ...]:
    """Two attributes whose names make one identifier are told apart by a number."""
    codes = [each.code for each in dimensions]
    if len(set(codes)) == len(codes):
        return dimensions
    from dataclasses import replace

    return tuple(replace(each, code=f"{each.code}_{i + 1}") for i, each in enumerate(dimensions))
