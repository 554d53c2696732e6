"""Between reading and counting: records are gathered by person, and each person's are chosen among.

Rows are packed: a hash of the person and the record's codes, a few 64-bit numbers each. They are held in memory while
they fit and in a file of our own beyond: when memory is full they are parted by the person's hash and written; at the
end each part, which is complete by person, is read back alone.

Ids are text, whole numbers, dates or times, spelled as for a digest, and from then on a keyed hash stands for them. The
whole number 7, the text "7", and 7.0 (whole numbers with gaps are such in pandas, and in what it writes as text) are
one id; so are texts that differ in the space around them only. Null, NaN, blank text and what programs write for null
("NA", "NULL", …) are absent: taken for ids, they would make one person of many. Nothing else is changed: "007" is not
7, and "n1" is not "N1".
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from residua.disk import read_at, write_at
from residua.domain.values import is_null, is_text, laid_out
from residua.errors import SourceError
from residua.machine import compute as pc, pyarrow as pa
from residua.source.accumulate import Columns, Weights, taken
from residua.source.bound import Loss, PersonBound, Words, chosen_packed, packed, unpacked
from residua.source.digest import WHOLE, spelled
from residua.source.options import Options, Problems, explained
from residua.source.person_kernel import hash_texts

_HELD_BYTES = 2**28  # of rows in memory; choosing takes about three times as much
PARTS = 256  # of persons, by their hashes
_READ_ROWS = 2**20


class Gathering:
    """Rows by person, until all are there.

    Guarantee: memory stays bounded unless one person's rows outgrow it. The file is the owner's alone (mode 0600) and
    has no name from the moment it exists: it vanishes with the process, however that ends.

    Args:
        bound: how many records of a person are counted.
        weighted: whether rows stand for several records.
    """

    def __init__(self, bound: PersonBound, *, weighted: bool) -> None:
        self._bound, self._weighted = bound, weighted
        self._held: list[Words] = []
        self._bytes = 0
        self._file: IO[bytes] | None = None
        self._end = 0
        self._pieces: list[list[tuple[int, int]]] = [[] for _ in range(PARTS)]  # (offset, bytes) in the file
        self.loss = Loss.none()
        self.done = 0  # rows that were chosen among

    def close(self) -> None:
        """Forgets all rows; the file is gone."""
        self._held.clear()
        if self._file is not None:
            self._file.close()

    def add(self, persons: Words, codes: Sequence[NDArray[Any]], weights: Weights) -> None:
        """Adds rows: whose they are, (rows, 2), a column of codes per attribute, how many records each stands for."""
        rows = packed(persons, codes, weights, self._bound)
        self._held.append(rows)
        self._bytes += rows.nbytes
        if self._bytes >= _HELD_BYTES:
            self._write()

    def chosen(self) -> Iterator[tuple[list[NDArray[np.int32]], NDArray[np.int64]]]:
        """What is counted: columns of codes, and how many records each row stands for; the loss is known afterwards."""
        if self._file is not None and self._held:
            self._write()
        for rows in self._parts():
            at, counts, loss = chosen_packed(rows, self._bound, weighted=self._weighted)
            self.loss += loss
            self.done += len(rows)
            for low in range(0, len(at), _READ_ROWS):
                part = slice(low, low + _READ_ROWS)
                yield unpacked(rows[at[part]], self._bound), counts[part]

    def _parts(self) -> Iterator[Words]:
        """All rows, each part complete by person."""
        if self._file is None:
            held, self._held = self._held, []
            if held:
                yield np.concatenate(held)
            return
        width = 2 + self._bound.words + self._weighted
        for pieces in self._pieces:
            rows = np.empty((sum(size for _, size in pieces) // (8 * width), width), dtype=np.uint64)
            view, filled = rows.view(np.uint8).reshape(-1).data, 0
            with explained(_no_room, OSError):
                for offset, size in pieces:
                    _read(self._file, view[filled : filled + size], offset)
                    filled += size
            if len(rows):
                yield rows

    def _write(self) -> None:
        with explained(_no_room, OSError):
            if self._file is None:
                self._file = tempfile.TemporaryFile(dir=place(), buffering=0)  # noqa: SIM115 (`close` closes it)
            rows = np.concatenate(self._held)
            self._held, self._bytes = [], 0
            for part, piece in by_part(rows):
                _write(self._file, piece.view(np.uint8).reshape(-1).data, self._end)
                self._pieces[part].append((self._end, piece.nbytes))
                self._end += piece.nbytes


def by_part(rows: Words) -> Iterator[tuple[int, Words]]:
    """Packed rows by the part of their persons, each part that has some."""
    parts = (rows[:, 1] >> np.uint64(56)).astype(np.uint8)  # the other half of the hash is sorted by
    order = np.argsort(parts, kind="stable")
    ends = np.cumsum(np.bincount(parts, minlength=PARTS)).tolist()
    for part, (begin, end) in enumerate(pairwise([0, *ends])):
        if end > begin:
            yield part, rows[order[begin:end]]


def place() -> Path:
    """Where the file goes: $TMPDIR, else /var/tmp, which is on a disk where /tmp may be memory, else what there is."""
    usual = Path("/var/tmp")
    if not os.environ.get("TMPDIR") and usual.is_dir() and os.access(usual, os.W_OK):
        return usual
    return Path(tempfile.gettempdir())


def _write(file: IO[bytes], content: memoryview, offset: int) -> None:
    while content:
        written = write_at(file.fileno(), content, offset)
        content, offset = content[written:], offset + written


def _read(file: IO[bytes], into: memoryview, offset: int) -> None:
    while into:
        read = read_at(file.fileno(), len(into), offset)
        if not read:
            raise OSError(None, "the file ends early")
        into[: len(read)] = read
        into, offset = into[len(read) :], offset + len(read)


def _no_room(problem: Exception) -> str:
    why = getattr(problem, "strerror", None)
    return (
        f"records do not fit into memory at once to be sorted by person, and {str(place())!r} does not take them "
        f"({why}); make room there, or name another folder with the environment variable TMPDIR."
    )


Count = Callable[[Columns, NDArray[np.int64]], None]  # columns of codes, and how many records each row stands for


class Persons:
    """Rows on their way to the tables: each person's are gathered and chosen among; nobody's follow their policy."""

    def __init__(self, options: Options, bound: PersonBound, gathering: Gathering | None = None) -> None:
        self._names, self._policy = options.person, options.no_person
        self._bound = bound
        self._gathering = gathering or Gathering(bound, weighted=options.counts is not None)
        self.nobody = 0
        self._apart = 0

    @property
    def loss(self) -> Loss:
        """What was left out, once finished."""
        return self._gathering.loss + Loss.of_persons_apart(self._apart)

    def close(self) -> None:
        """Forgets all rows."""
        self._gathering.close()

    def add(self, codes: Columns, weights: Weights, ids: Any, problems: Problems, count: Count) -> None:
        """Adds rows, whose ids are in a batch of their own; `count` counts those of nobody that count."""
        try:
            persons, absent = person_hashes(ids.columns, self._names, self._bound.person_key)
        except SourceError as problem:
            problems.say(str(problem))
            return
        if absent.any():
            self._without(*taken(codes, weights, absent), problems, count)
            persons, (codes, weights) = persons[~absent], taken(codes, weights, ~absent)
        self._gathering.add(persons, codes, weights)

    def _without(self, codes: Columns, weights: Weights, problems: Problems, count: Count) -> None:
        if self._policy == "refuse":
            named = ", ".join(map(repr, self._names))
            problems.say(
                f"column {named} does not say of every record whose it is; fill it in, or say no_person='drop', or "
                "no_person='apart' where no two such records are one person's."
            )
            return
        weights = np.ones(len(codes[0]), np.int64) if weights is None else weights
        if self._policy == "drop":
            self.nobody += int(weights.sum())
        else:
            self._apart += int(weights.sum())
            count(codes, weights)

    def finish(self, count: Count, progress: Callable[[int], None]) -> None:
        """Chooses, and hands what is counted to the tables; says after each part how many rows were chosen among."""
        for codes, counts in self._gathering.chosen():
            count(codes, counts)
            progress(self._gathering.done)


_ABSENT = ("", "NA", "N/A", "#N/A", "<NA>", "NaN", "nan", "NaT", "None", "none", "NULL", "null", "\\N")


def person_hashes(columns: Sequence[Any], names: Sequence[str], key: tuple[Any, Any]) -> tuple[Words, Any]:
    """A 128-bit keyed hash of each record's person, (rows, 2), and which rows have none, (rows,).

    Several columns are a person together; a row that lacks one of them has none. Two persons have the same hash with
    probability 2^-128: among n persons with less than n² 2^-129, whatever their ids, to whoever does not have the key.

    Args:
        columns: Arrow arrays, one per column that names the person.
        names: what they are called, for messages.
        key: two 64-bit numbers.

    Raises:
        SourceError: a column whose type tells no person.
    """
    order = sorted(range(len(names)), key=lambda i: names[i])  # in whichever order they were named
    hashes = [_hashes(columns[i], names[i], key) for i in order]
    absent = np.logical_or.reduce([gone for _, gone in hashes])
    if len(hashes) == 1:
        return hashes[0][0], absent
    together = np.ascontiguousarray(np.concatenate([words for words, _ in hashes], axis=1))
    offsets = np.arange(len(together) + 1, dtype=np.int64) * (16 * len(hashes))
    return hashed_texts(together.view(np.uint8).ravel(), offsets, key), absent


def _hashes(column: Any, name: str, key: tuple[Any, Any]) -> tuple[Words, NDArray[np.bool_]]:
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.unify_dictionaries().chunks) if column.num_chunks else pa.array([], pa.null())
    if pa.types.is_dictionary(column.type):
        if len(column.dictionary) > len(column):
            return _hashes(column.dictionary_decode(), name, key)
        words, gone = _hashes(column.dictionary, name, key)
        words, gone = np.append(words, np.zeros((1, 2), np.uint64), axis=0), np.append(gone, True)
        places = column.indices.cast(pa.int64()).fill_null(len(gone) - 1).to_numpy(zero_copy_only=False)
        return words[places], gone[places]
    texts = id_texts(column, name)
    gone = is_null(texts)
    offsets, values = laid_out(texts)
    return hashed_texts(values, offsets, key), gone


def hashed_texts(values: NDArray[np.uint8], offsets: NDArray[np.int64], key: tuple[Any, Any]) -> Words:
    """A 128-bit keyed hash of each text, (texts, 2)."""
    out = np.empty((len(offsets) - 1, 2), dtype=np.uint64)
    hash_texts(values, offsets, *key, out)
    return out


def id_texts(column: Any, name: str) -> Any:
    """Ids as texts, null where absent.

    Raises:
        SourceError: the column's type tells no person, or it holds numbers that are not whole.

    Example:
        >>> id_texts(pa.array([7.0, None, float("nan")]), "id").to_pylist()
        ['7', None, None]
        >>> id_texts(pa.array([" N1", "7.0", "007", "", "NA"]), "id").to_pylist()
        ['N1', '7', '007', None, None]
    """
    kind = column.type
    if pa.types.is_null(kind):
        return pa.nulls(len(column), pa.large_string())
    if is_text(kind):
        return _without_space(column)
    if pa.types.is_integer(kind):
        return column.cast(pa.large_string())
    if pa.types.is_floating(kind):
        return _of_floats(column, name)
    if pa.types.is_decimal(kind):
        texts = _without_space(column.cast(pa.large_string()))
        if pc.any(pc.match_substring_regex(texts, r"[^-0-9]")).as_py():
            raise _not_whole(name)
        return texts
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return spelled(column.cast(pa.date32()) if pa.types.is_date(kind) else column)
    raise SourceError(
        f"column {name!r} has the type {kind}; convert it to text, whole numbers or dates, to tell persons."
    )


def _without_space(column: Any) -> Any:
    texts = pc.utf8_trim_whitespace(column.cast(pa.large_string()))
    if pc.any(pc.match_substring(texts, ".0")).as_py():
        texts = pc.replace_substring_regex(texts, r"^(-?[0-9]+)\.0+$", r"\1")
    return pc.if_else(pc.is_in(texts, pa.array(_ABSENT, pa.large_string())), pa.scalar(None, pa.large_string()), texts)


def _of_floats(column: Any, name: str) -> Any:
    numbers = column.cast(pa.float64()).fill_null(np.nan).to_numpy(zero_copy_only=False)
    gone = np.isnan(numbers)
    plain = np.where(gone, 0.0, numbers)
    if not ((np.abs(plain) < WHOLE) & (np.floor(plain) == plain)).all():
        raise _not_whole(name)
    return pa.array(plain.astype(np.int64), mask=gone).cast(pa.large_string())


def _not_whole(name: str) -> SourceError:
    return SourceError(
        f"column {name!r} holds numbers that are not whole, or too large to be told apart; give ids as text."
    )
