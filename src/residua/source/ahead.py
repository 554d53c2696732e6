"""Reading one batch ahead: while a batch is checked and counted, a thread reads the next."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TypeVar

T = TypeVar("T")


def ahead(items: Iterator[T]) -> Iterator[T]:
    """The items of a generator, in order; one more than was asked for is made, in one thread of its own."""
    end = object()
    with closing(items), ThreadPoolExecutor(max_workers=1) as reader:  # type: ignore[type-var]  # it is a generator
        coming = reader.submit(next, items, end)
        while (item := coming.result()) is not end:
            coming = reader.submit(next, items, end)
            yield item  # type: ignore[misc]
