"""All tables in one long CSV file, by compiled loops: the same bytes that Arrow writes of the same rows, in less time.

Labels are text once, with the name of their attribute before them; the standard deviation that all cells of a table
have is text once too. Estimates are made into text by Arrow, with every digit.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from residua.domain import Domain
from residua.formats.behind import Behind
from residua.formats.lines import Texts, header_of, quoted, texts_of
from residua.linalg.arrays import Floats, Integers
from residua.linalg.layout import batches

TOTAL = "total"  # the table without attributes
_ROWS = 1 << 14  # that are made at once: their lines stay in the cache


class LongCsv:
    """A long CSV file that is being written.

    Args:
        domain: whose labels are written.
        ways: the most attributes that a table has.
        names: of the columns.
        path: the file.
        behind: what writes while the next rows are made.
    """

    def __init__(self, domain: Domain, ways: int, names: Sequence[str], path: Path, behind: Behind) -> None:
        self.domain, self.ways, self.behind = domain, ways, behind
        self.file = path.open("wb")
        self.file.write(header_of(names))
        self._out = np.empty(0, dtype=np.uint8)  # used again and again, by the one thread that writes

    @cached_property
    def _labels(self) -> tuple[Texts, Integers]:
        """Attribute and value, of all values of all attributes, and which is the first of each attribute."""
        own = [[str(label) for label in self.domain[name].labels] for name in self.domain]
        texts = texts_of([_pair(name, label) for name, each in zip(self.domain, own, strict=True) for label in each])
        return texts, np.cumsum([0, *map(len, own)])[:-1]

    def add(
        self,
        members: Integers,
        estimates: Floats,
        stddevs: Floats | None,
        labels: Sequence[Sequence[str]] | None,
        title: str | None = None,
    ) -> None:
        """Writes tables of one shape.

        Args:
            members: the attributes of each table, (tables, k).
            estimates: (tables, n_1, …, n_k).
            stddevs: one for each table, or each cell; None of a projection.
            labels: of one table whose rows are not its attributes' values, the labels along each axis.
            title: of one table, which it is where its attributes alone do not say so.
        """
        size, shape = max(estimates[0].size, 1), np.array(estimates.shape[1:], dtype=np.int64)
        texts, firsts = self._labels
        each = stddevs is not None and stddevs.size != len(members)
        if labels is not None:
            names = [self.domain.names[i] for i in members[0]]
            texts = texts_of([_pair(name, one) for name, own in zip(names, labels, strict=True) for one in own])
            places = np.cumsum([0, *map(len, labels)])[:-1].reshape(1, -1)
        else:
            places = firsts[members]
        for part in batches(len(members), size, _ROWS):
            titles = titles_of(self.domain, members[part]) if title is None else [title]
            leads = texts_of([f"{quoted(each)},".encode() for each in titles])
            for first in range(0, size, _ROWS):
                rows = slice(first, min(first + _ROWS, size))
                numbers = estimates[part].reshape(-1, size)[:, rows].flatten()  # a copy: they are used again
                bars = stddevs if stddevs is None else stddevs.reshape(-1)[rows if each else part]
                where = (texts, places[part], shape, first)
                self.behind.do(self._write, leads, where, numbers, bars)

    def _write(
        self, leads: Texts, where: tuple[Texts, Integers, Integers, int], numbers: Floats, stddevs: Floats | None
    ) -> None:
        from residua.formats.lines_kernel import joined_lines

        texts, firsts, sizes, first = where
        own = _told(numbers, ",," * (self.ways - len(sizes)), "\n" if stddevs is None else "")
        tails = texts_of([b""] * len(firsts)) if stddevs is None else _wide(_told(stddevs, ",", "\n"))
        longest = sum(int(np.diff(each.ends).max(initial=0)) for each in (leads, tails, *[texts] * len(sizes)))
        if len(self._out) < len(own.text) + len(numbers) * longest:
            self._out = np.empty(len(own.text) + len(numbers) * longest, dtype=np.uint8)
        length = joined_lines(*leads, *texts, firsts, sizes, first, *own, *tails, self._out)
        self.file.write(self._out[:length].data)

    def close(self) -> None:
        """Ends the file, once all that was handed over is written."""
        self.behind.wait()
        self.file.close()

    def abandon(self) -> None:
        """Lets go of the file, when something went wrong."""
        self.behind.abandon()
        with suppress(OSError):
            self.file.close()


def titles_of(domain: Domain, members: Integers) -> list[str]:
    """What marginals are called, by their attributes, (tables, k)."""
    return [" × ".join(domain.names[i] for i in row) or TOTAL for row in members]


def _pair(name: str, label: str) -> bytes:
    return f"{quoted(name)},{quoted(label)},".encode()


def _told(numbers: Floats, before: str, after: str) -> Texts:
    """Numbers as text with every digit, between two texts."""
    import pyarrow as pa
    import pyarrow.compute as pc

    values = pa.Array.from_buffers(pa.float64(), len(numbers), [None, pa.py_buffer(np.ascontiguousarray(numbers))])
    texts = pc.cast(values, pa.string())
    if before or after:
        texts = pc.binary_join_element_wise(before, texts, after, "")
    _, ends, text = texts.buffers()
    places: NDArray[Any] = np.frombuffer(ends, dtype=np.int32)[: len(numbers) + 1]
    return Texts(np.frombuffer(text, dtype=np.uint8)[: places[-1]], places)


def _wide(texts: Texts) -> Texts:
    return Texts(texts.text, texts.ends.astype(np.int64))
