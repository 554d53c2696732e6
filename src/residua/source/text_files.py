"""Files of text: delimited (CSV, TSV), every field as text, read block by block; JSON lines, one column per key."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from copy import copy
from dataclasses import replace
from itertools import chain, islice
from typing import Any, Unpack

import msgspec

from residua.errors import SourceError
from residua.machine import pyarrow as pa, there
from residua.source.dialect import COMMAS, TABS, Dialect, Notation, recognised
from residua.source.digest import Digest
from residua.source.files import File, FilesSource, Paths, opened, size_of
from residua.source.options import NO_OPTIONS, Options, explained
from residua.source.records import BATCH_ROWS, Draft, Records, distinct, listed, require_columns

_BLOCK = 1 << 20  # bytes; larger blocks leave the cache and are slower
_SAMPLE_BYTES = 1 << 16
_SAMPLE_LINES = 1000  # of JSON that are looked at for keys, before all are


class DelimitedSource(FilesSource):
    """Delimited text files with a header each.

    A file may lack its header, and its first line is then a record: names are taken for values until one that was asked
    for is among them.
    """

    def __init__(self, paths: Paths, options: Options = NO_OPTIONS, **notation: Unpack[Notation]) -> None:
        super().__init__(paths, options)
        given = {name: value for name, value in notation.items() if value is not None}
        usual = usual_dialect(self.files[0])
        self.dialect = replace(usual, **given) if given else usual  # type: ignore[arg-type]
        self._columns: tuple[str, ...] | None = None
        self._codes: frozenset[str] = frozenset()  # columns of text, where the decimal mark says nothing

    def with_codes(self, codes: frozenset[str]) -> DelimitedSource:
        """The same records, of which these columns hold text; their fingerprint does not depend on it."""
        if self.dialect.decimal == ".":
            return self
        other = copy(self)
        other._codes = codes
        return other

    def digested(self, columns: Sequence[str], digest: Digest) -> Iterator[Any]:
        """Batches of these columns; into the digest goes every field as if its column held numbers."""
        if not self._codes:
            yield from super().digested(columns, digest)
            return
        self.check(columns)
        names = [*columns, *(name for name in self.columns() if name not in columns)]
        for batch in self.batches(names):
            digest.add(self.dialect.with_numbers(batch, self._codes), names)
            yield batch.select(list(columns))

    def columns(self) -> tuple[str, ...]:
        """The names in the header; all files must have the same ones, in any order."""
        if self._columns is None:
            first, *others = [self._names(path) for path in self.files]
            for path, header in zip(self.files[1:], others, strict=True):
                if set(header) != set(first):
                    odd = f" ({sorted(set(header) ^ set(first))[0]!r} is in one only)" if self.show_values else ""
                    raise SourceError(
                        f"{str(path)!r} and {str(self.files[0])!r} do not have the same columns in their first lines"
                        f"{odd}; pass files of one table."
                    )
            self._columns = first
        return self._columns

    def _names(self, path: File) -> tuple[str, ...]:
        return distinct(_header(path, self.dialect), repr(str(path)), show_names=self.show_values)

    def drafted(self) -> Draft:
        """The columns as the head of the first file shows that they are written."""
        with _streamed(self.files[0]) as raw:
            dialect, kinds = recognised(raw.read(_BLOCK))
        same = copy(self)
        same.dialect, same._columns = dialect, None
        names = same.columns()
        return Draft(
            {name: kinds.get(name, "") for name in names}, dialect.notation(usual_dialect(self.files[0]).delimiter)
        )

    def check(self, columns: Sequence[str]) -> None:
        """Refuses columns that are not there; the files have the same ones."""
        if columns and not self.show_values and not set(columns) & set(self.columns()):
            raise SourceError(
                f"{self} has no column {listed(columns)} in its first line, which must name the columns, separated by "
                f"{self.dialect.delimiter!r}; add it, or give the delimiter."
            )
        Records.check(self, columns)

    def rows_hint(self) -> int | None:
        """Guessed from the length of the first lines; unknown for compressed files."""
        if any(path.suffix in (".gz", ".bz2", ".zst") for path in self.files):
            return None
        with opened(self.files[0]) as file:
            sample = file.read(_SAMPLE_BYTES)
        sizes = [size_of(path) for path in self.files]
        if None in sizes:
            return None
        return int(sum(size for size in sizes if size is not None) / max(len(sample), 1) * sample.count(b"\n"))

    def _read_one(self, path: File, columns: Sequence[str]) -> Iterator[Any]:
        with _delimited(path, self.dialect, self.show_values) as raw:
            stream = _QuoteCounter(raw)
            try:
                reader = pa.csv.open_csv(
                    stream,
                    read_options=pa.csv.ReadOptions(block_size=_BLOCK),
                    parse_options=pa.csv.ParseOptions(delimiter=self.dialect.delimiter, newlines_in_values=True),
                    convert_options=pa.csv.ConvertOptions(
                        column_types={name: pa.string() for name in columns},
                        include_columns=list(columns),
                        null_values=[],
                        strings_can_be_null=False,
                    ),
                )
            except pa.ArrowInvalid as problem:
                if "Empty CSV" in str(problem):  # a header without a line end: zero records
                    return
                raise
            # One batch behind, so that a file that ends in the middle is refused before its last batch is used.
            held = None
            with reader:
                for batch in reader:
                    if held is not None:
                        yield held
                    plain = not self.dialect.rewriters and self.dialect.decimal == "."
                    held = batch if plain else self.dialect.read(batch, self._codes)
            if stream.quotes % 2:
                raise SourceError(
                    f"{str(path)!r} has a quote that is never closed; repair the file (it may be truncated)."
                )
            if held is not None:
                yield held


class _QuoteCounter(io.RawIOBase):
    """Passes bytes on and counts quotes: in sound files they come in pairs, and Arrow does not check."""

    def __init__(self, raw: Any) -> None:
        super().__init__()
        self._raw = raw
        self.quotes = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        content: bytes = self._raw.read(size if size >= 0 else None)
        self.quotes += content.count(b'"')
        return content


def usual_dialect(path: File) -> Dialect:
    """How a file is written where nothing is said: with tabs in `.tsv`, else with commas."""
    return TABS if ".tsv" in {suffix.lower() for suffix in path.suffixes} else COMMAS


def _header(path: File, dialect: Dialect) -> tuple[str, ...]:
    with _explained(path, dialect), _streamed(path) as raw:
        text = io.TextIOWrapper(raw, encoding="utf-8" if dialect.is_utf8 else dialect.encoding, newline="")
        lines = (line.removeprefix("\ufeff") for line in text)
        rows = csv.reader(lines, delimiter=dialect.delimiter, strict=True)
        header = next((tuple(row) for row in rows if row), None)
    if header is None:
        raise SourceError(f"{str(path)!r} is empty; the first line must name the columns.")
    if header[0].lower().startswith("sep="):
        raise SourceError(f"{str(path)!r} begins with a line for Excel, 'sep=…'; remove that line.")
    return header


@contextmanager
def _delimited(path: File, dialect: Dialect, show_values: bool = False) -> Iterator[Any]:
    """A file that is read as delimited text, as UTF-8."""
    with _explained(path, dialect, show_values), _streamed(path) as raw:
        yield raw if dialect.is_utf8 else pa.transcoding_input_stream(raw, dialect.encoding, "utf-8")


def _explained(path: File, dialect: Dialect, show_values: bool = False) -> AbstractContextManager[None]:
    """Says what is wrong with delimited text. Row numbers are left out: the last is a count."""

    def sentence(problem: Exception) -> str:
        return f"{str(path)!r} {_sentence(str(problem), dialect.encoding, show_values)}"

    of_arrow = [pa.ArrowInvalid] if there("pyarrow") else []
    return explained(sentence, *of_arrow, csv.Error, UnicodeError)


@contextmanager
def _streamed(path: File) -> Iterator[Any]:
    """A file from its beginning, unpacked."""
    sentence = f"{str(path)!r} cannot be unpacked or read; it is damaged or truncated: copy it again."
    with explained(sentence, OSError), opened(path, stream=True) as raw:
        yield raw


def _sentence(problem: str, encoding: str, show_values: bool) -> str:
    fields = re.search(r"Expected (\d+) columns, got (\d+)(?:: (.*))?", problem, flags=re.DOTALL)
    if fields:
        row = f", beginning {(fields[3] or '').strip()[:40]!r}" if show_values else ""
        return (
            f"has a row of {fields[2]} fields where the header has {fields[1]}{row}; "
            "repair the row (the file may be truncated)."
        )
    if "utf" in problem.lower() or "codec" in problem:
        return (
            f"is not {encoding.upper()} text; say what it is, such as encoding = 'cp1252' (residua init recognises it)."
        )
    if "straddl" in problem or "out of sync" in problem or "unexpected end of data" in problem:
        return "has a quote that is never closed, or a row longer than a megabyte; repair the file."
    return "is not sound delimited text; check its quotes and its delimiter."


class JsonLinesSource(FilesSource):
    """Files of JSON lines."""

    def _names(self, path: File) -> tuple[str, ...]:
        return _keys(path, _SAMPLE_LINES)

    def check(self, columns: Sequence[str]) -> None:
        """Refuses keys that are in no line of any file; a file without lines has zero records, whatever their keys."""
        there: dict[str, None] = {}
        for most in (_SAMPLE_LINES, None):  # a rare key may come late
            for path in self.files:
                there.update(dict.fromkeys(_keys(path, most)))
            if all(name in there for name in columns):
                return
        if there:
            require_columns(columns, tuple(there), str(self))

    def _read_one(self, path: File, columns: Sequence[str]) -> Iterator[Any]:
        for rows in _rows(path):
            arrays = [typed_array([row.get(name) for row in rows], name, path) for name in columns]
            yield pa.RecordBatch.from_arrays(arrays, names=list(columns))

    def digested(self, columns: Sequence[str], digest: Digest) -> Iterator[Any]:
        """Batches of these keys; all others go into the digest. A key that no line has is noticed at the end."""
        there: dict[str, None] = {}
        for path in self.files:
            for rows in _rows(path):
                keys = dict.fromkeys(chain.from_iterable(rows))
                there.update(keys)
                others = [name for name in keys if name.strip() and name not in columns]
                arrays = [typed_array([row.get(name) for row in rows], name, path) for name in columns]
                arrays += [typed_array([_flat(row.get(name)) for row in rows], name, path) for name in others]
                batch = pa.RecordBatch.from_arrays(arrays, names=[*columns, *others])
                digest.add(batch)
                yield batch.select(list(columns))
        if there:
            require_columns(columns, tuple(there), str(self))


def _flat(value: Any) -> Any:
    """A value that nobody counts, nested ones as text, for the digest alone."""
    return msgspec.json.encode(value, order="sorted").decode() if isinstance(value, list | dict) else value


def _keys(path: File, most: int | None) -> tuple[str, ...]:
    with _lines(path) as lines:
        return tuple(dict.fromkeys(chain.from_iterable(islice(lines, most))))


def _rows(path: File) -> Iterator[list[dict[str, Any]]]:
    with _lines(path) as lines:
        while rows := list(islice(lines, BATCH_ROWS)):
            yield rows


def typed_array(values: list[Any], name: str, path: File) -> Any:
    """Values as one type: truth values, whole numbers or numbers where they are all that, else text."""
    kinds = {type(value) for value in values} - {type(None)}
    if kinds & {dict, list}:
        raise SourceError(f"{str(path)!r}: the key {name!r} holds lists or objects; flatten them first.")
    if kinds <= {str}:
        return pa.array(values, pa.string())
    if kinds == {bool}:
        return pa.array(values, pa.bool_())
    if kinds == {int} and all(value is None or -(2**63) <= value < 2**63 for value in values):
        return pa.array(values, pa.int64())
    if kinds <= {int, float} and all(type(value) is not int or abs(value) <= 2**53 for value in values):
        return pa.array([None if value is None else float(value) for value in values], pa.float64())
    texts = [value if value is None or isinstance(value, str) else str(value).lower() for value in values]
    return pa.array(texts, pa.string())


@contextmanager
def _lines(path: File) -> Iterator[Iterator[dict[str, Any]]]:
    decoder = msgspec.json.Decoder(dict[str, Any])
    wrong = f"{str(path)!r} has a line that is not one JSON object; repair it (the file may be truncated)."
    deep = f"{str(path)!r} has a line that is nested too deeply; flatten it."
    not_json = explained(wrong, msgspec.DecodeError, UnicodeDecodeError)
    with not_json, explained(deep, RecursionError), _streamed(path) as raw:
        yield (decoder.decode(line) for line in io.BufferedReader(raw) if line.strip())
