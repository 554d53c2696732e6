"""The seam between data and counting: records are asked for tables of counts.

By default it streams Arrow record batches of named columns through the codec, which says what a value means, so that
the same data gives the same counts whatever holds it; an engine that can count where the data is overrides `count`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from itertools import chain
from typing import TYPE_CHECKING, Any, Self

from residua.errors import SourceError, named
from residua.machine import duckdb, pyarrow as pa
from residua.source.digest import Digest, plain_batch
from residua.source.options import NO_OPTIONS, Options
from residua.sql import Expression, SqlError, engine_words, expression_sandbox, row_expression, within_time

if TYPE_CHECKING:
    from residua.domain import Domain
    from residua.linalg.lattice import Layout
    from residua.source.bound import PersonBound
    from residua.source.checking import Checked
    from residua.source.counting import Counted, Progress

BATCH_ROWS = 65_536


@dataclass(frozen=True)
class Draft:
    """What a first specification can say of records without a value of theirs.

    Args:
        kinds: column → "whole numbers", "numbers", "dates" or "text"; nothing where that is not known.
        notation: what [source] must say, so that they are read.
        declared: column → what the file itself declares that it may hold, as the settings of a domain.
    """

    kinds: Mapping[str, str]
    notation: Mapping[str, Any] = field(default_factory=dict)
    declared: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


class Records(ABC):
    """Records to be counted, read in batches so that memory does not grow with their number.

    What every engine is: it says which columns there are and streams them; `residua.source.Source` makes each.

    Guarantee: an error about data names columns and kinds of problems, and no value of any record, unless
    `show_values` was asked for.

    Args:
        options: what is said of the records: how many each row stands for, whose they are, whether errors may quote
            them.
    """

    # Whether two readings are the same unless somebody changed the data meanwhile; what does not fit into memory is
    # read twice (`residua.source.checking`), and a difference is then explained by this.
    repeatable: bool = True
    # Whether workers of the engine can measure and write a release by themselves (`residua.measurement.on_spark`).
    has_executors: bool = False

    def __init__(self, options: Options = NO_OPTIONS) -> None:
        self.options = options

    def with_options(self, **changed: Any) -> Self:
        """The same records, with something else said of them."""
        other = copy(self)
        other.options = replace(self.options, **changed)
        return other

    @property
    def counts(self) -> str | None:
        """The column of pre-aggregated counts, if there is one."""
        return self.options.counts

    @property
    def show_values(self) -> bool:
        """Whether error messages may quote values of the data."""
        return self.options.show_values

    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """The names of the columns there are."""

    def drafted(self) -> Draft:
        """What a first specification can say of the columns; no record is kept."""
        return Draft(dict.fromkeys(self.columns(), ""))

    @abstractmethod
    def _read(self, columns: Sequence[str]) -> Iterator[Any]:
        """Record batches of these columns, which are known to exist."""

    def fingerprint(self) -> str:
        """A digest that tells this dataset from another, so that a ledger notices a wrong one.

        It is computed from all columns of all records, in any order (`residua.source.digest`): the same records have
        the same fingerprint in every engine, where their values are spelled alike. Keep it beside the ledger, never in
        a release. `count` gives it as well.
        """
        digest = Digest()
        with self.snapshot() as still:
            for _ in still.digested((), digest):
                pass
        return digest.fingerprint

    @contextmanager
    def snapshot(self) -> Iterator[Self]:
        """The same records, however often they are read within this context, where the engine can hold them still.

        What it cannot hold still (files, frames) is read as it is, and the fingerprint tells whether it changed.
        """
        yield self

    def rows_hint(self) -> int | None:
        """About how many rows there are, if that is cheap to say; for progress only."""
        return None

    def count(
        self, domain: Domain, layout: Layout, progress: Progress | None = None, bound: PersonBound | None = None
    ) -> Counted:
        """The true counts of every table of a layout: what `residua.measurement` asks for, and nothing else does.

        Guarantee: every table counts the same records: a record that any attribute of the domain leaves out is in
        none, whether or not that attribute is in a table.

        An engine that overrides this must give exactly what the default gives: the policies of the domain, the counts,
        counts below 2^62, errors that name every column with values the domain refuses, and the fingerprint of the
        records that were counted, found in the same reading.

        Args:
            domain: what the records may hold; all its attributes are read.
            layout: the tables, in the order of the domain's attributes.
            progress: called after each batch with the rows read and a guess of how many there are.
            bound: how many records of each person are counted, by `residua.source.bound`; all when not given.

        Raises:
            SourceError: data that cannot be read, values that the domain refuses, or counts of 2^62 and more.
        """
        from residua.source.counting import count

        return count(self.with_codes(text_columns(domain)), domain, layout, progress, bound)

    def checked(self, domain: Domain, progress: Progress | None = None, bound: PersonBound | None = None) -> Checked:
        """Reads the records once to see that they fit the domain, before anything is spent (`residua.source.checking`).

        Args:
            domain: what the records may hold.
            progress: called after each batch.
            bound: how many records of one person are counted at most.

        Raises:
            SourceError: as `count`.
        """
        from residua.source.checking import Checked

        own = self.with_codes(text_columns(domain))
        return Checked(own, domain, progress, bound, keep=type(self).count is Records.count)

    def with_codes(self, codes: frozenset[str]) -> Records:
        """The same records, where these columns are known to hold text; for engines that must know."""
        return self

    def digested(self, columns: Sequence[str], digest: Digest) -> Iterator[Any]:
        """Arrow record batches of these columns, while all columns there are go into a digest.

        Raises:
            SourceError: a column that is not there, or data that cannot be read.
        """
        asked = list(columns)
        self.check(asked)
        names = [*asked, *(name for name in self.columns() if name not in asked)]
        for batch in self.batches(names):
            digest.add(batch, names)
            yield batch.select(asked)
        pa.default_memory_pool().release_unused()  # what reading took is not kept for the next reading

    def batches(self, columns: Sequence[str]) -> Iterator[Any]:
        """Arrow record batches of these columns, in the order asked for.

        Raises:
            SourceError: a column that is not there, or data that cannot be read.
        """
        self.check(columns)
        for batch in self._read(columns):
            yield plain_batch(batch.select(list(columns)) if batch.schema.names != list(columns) else batch)

    def check(self, columns: Sequence[str]) -> None:
        """Refuses columns that are not there.

        Raises:
            SourceError: names what is missing and what was probably meant.
        """
        there = self.columns()
        missing = [name for name in columns if name not in there]
        if len(missing) == len(columns) and missing and there and not self.show_values:
            # Where no name is as expected, they may be the values of a first record, read as a header.
            raise SourceError(f"{self} has no column {listed(missing)}; check its header, or rename the attributes.")
        require_columns(missing, there, str(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self})"

    def with_columns(self, expressions: Mapping[str, str]) -> Records:
        """The same records with columns computed from their own, or in place of them.

        Guarantee: an expression sees one record at a time, and neither files nor network; the fingerprint is that of
        the records as they are.

        Args:
            expressions: column → SQL over the columns of one record. Delimited text is text:
                `"CAST(dep_time AS INTEGER) // 100"`.

        Example:
            >>> import pyarrow as pa
            >>> from residua.source import Source
            >>> data = Source.frame(pa.table({"born": [1990, 2010]})).with_columns({"adult": "born < 2006"})
            >>> [batch.to_pydict() for batch in data.batches(["adult"])]
            [{'adult': [True, False]}]
        """
        return ComputedSource(self, expressions) if expressions else self


class ComputedSource(Records):
    """A source with computed columns. Fingerprint: that of the records as they are.

    Args:
        source: where the records come from.
        expressions: column → SQL over the columns of one record.
    """

    def __init__(self, source: Records, expressions: Mapping[str, str]) -> None:
        super().__init__(source.options)
        self.repeatable = source.repeatable
        self._source = source
        self._parsed = {name: parsed_expression(name, text) for name, text in expressions.items()}

    def __str__(self) -> str:
        return str(self._source)

    def columns(self) -> tuple[str, ...]:
        """The source's own columns, and the computed ones."""
        return tuple(dict.fromkeys([*self._source.columns(), *self._parsed]))

    def with_codes(self, codes: frozenset[str]) -> Records:
        """The source's own columns of text."""
        other = copy(self)
        other._source = self._source.with_codes(codes - set(self._parsed))
        return other

    def rows_hint(self) -> int | None:
        """The source's own guess."""
        return self._source.rows_hint()

    def fingerprint(self) -> str:
        """The source's own."""
        return self._source.fingerprint()

    @contextmanager
    def snapshot(self) -> Iterator[Self]:
        """The source's own, with the same columns computed from it."""
        with self._source.snapshot() as still:
            computed = copy(self)
            computed._source = still
            yield computed

    def check(self, columns: Sequence[str]) -> None:
        """Refuses columns that do not exist, whether asked for or used in an expression."""
        self._source.check(self._needed(columns))

    def _needed(self, columns: Sequence[str]) -> list[str]:
        return needed_columns(self._parsed, columns)

    def _read(self, columns: Sequence[str]) -> Iterator[Any]:
        needed = self._needed(columns)
        yield from self._computed(columns, needed, self._source.batches(needed or self._source.columns()[:1]))

    def digested(self, columns: Sequence[str], digest: Digest) -> Iterator[Any]:
        """Batches of these columns; the records as they are go into the digest."""
        needed = self._needed(columns)
        yield from self._computed(columns, needed, self._source.digested(needed or self._source.columns()[:1], digest))

    def _computed(self, columns: Sequence[str], needed: list[str], batches: Iterator[Any]) -> Iterator[Any]:
        place = {name: f"c{i}" for i, name in enumerate(needed)}  # DuckDB would take A and a for one
        chosen = {name: self._parsed[name].renamed(place) if name in self._parsed else place[name] for name in columns}
        with expression_sandbox() as engine:
            for batch in batches:
                table = pa.Table.from_batches([batch]).rename_columns(list(place.values()) or ["c0"])
                engine.register("records", table)
                # All columns through one SELECT, so that a record stays together whatever the order.
                try:
                    with within_time(engine):
                        computed = _arrow(engine, chosen.values())
                except duckdb.Error as problem:
                    raise self._failure(engine, chosen, problem) from None
                yield from computed.rename_columns(list(columns)).combine_chunks().to_batches()

    def _failure(self, engine: Any, chosen: Mapping[str, str], problem: Exception) -> SourceError:
        failed = []
        for name, text in chosen.items():
            try:
                _arrow(engine, [text])
            except duckdb.Error:
                failed.append(name)
        words = engine_words(problem, values=self.show_values)
        listed = ", ".join(repr(name) for name in failed or chosen)
        return SourceError(f"the expression of {listed} failed in DuckDB ({words}); correct it, or use TRY_CAST.")


def text_columns(domain: Domain) -> frozenset[str]:
    """The attributes whose values are text."""
    return frozenset(name for name in domain.names if domain[name].is_text)


def needed_columns(parsed: Mapping[str, Expression], columns: Sequence[str]) -> list[str]:
    """The columns that must be read to have these, of which some are computed."""
    needed = (parsed[name].names if name in parsed else (name,) for name in columns)
    return list(dict.fromkeys(chain.from_iterable(needed)))


def listed(names: Sequence[str]) -> str:
    """The first names, as messages list them."""
    return ", ".join(repr(name) for name in names[:12]) + (", …" if len(names) > 12 else "")


def parsed_expression(name: str, text: object) -> Expression:
    """An expression that computes a column.

    Raises:
        SourceError: it is not one expression over the columns of one record.
    """
    if not isinstance(text, str) or not text.strip():
        raise SourceError(f"the expression of {name!r} is {named(text)}; write SQL over the columns of one record.")
    try:
        return row_expression(text)
    except SqlError as problem:
        raise SourceError(f"the expression of {name!r}, {named(text[:60])}, is refused: {problem}.") from None


def _arrow(engine: Any, texts: Any) -> Any:
    relation = engine.sql(f"SELECT {', '.join(f'({text}) AS x{i}' for i, text in enumerate(texts))} FROM records")
    return (getattr(relation, "to_arrow_table", None) or relation.fetch_arrow_table)()


def require_columns(columns: Sequence[str], there: Sequence[str], where: str) -> None:
    """Refuses columns that are not there.

    Raises:
        SourceError: it says which, and what was probably meant.
    """
    missing = [name for name in columns if name not in there]
    if not missing:
        return
    near = {name: get_close_matches(name, there, n=1, cutoff=0.6) for name in missing}
    named = ", ".join(repr(name) + (f" (is it {near[name][0]!r}?)" if near[name] else "") for name in missing)
    raise SourceError(
        f"{where} has no column {named}; it has {listed(there) or 'none'}: rename the column or the attribute."
    )


def distinct(names: Sequence[str], what: str, *, show_names: bool = True) -> tuple[str, ...]:
    """The names, of which no two may be the same; columns without a name, which nobody can ask for, are left out."""
    named = [name for name in names if name.strip()]
    twice = [name for i, name in enumerate(named) if name in named[:i]]
    if twice:
        listed = ", ".join(repr(name) for name in dict.fromkeys(twice)) if show_names else "alike in the first line"
        raise SourceError(f"{what} has two columns named {listed}; rename one of them.")
    return tuple(named)
