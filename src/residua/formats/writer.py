"""What formats have in common: a writer that takes tables one after the other, and threads that write behind it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from pathlib import Path
from types import TracebackType
from typing import Any

from residua.formats.about import About
from residua.formats.cube import Cube


class Writer(ABC):
    """Writes tables into a folder, one after the other; none is kept.

    Args:
        folder: where; it becomes visible when all is written.
        about: what stands beside every table.
        format: which, of a writer of several.
        spreadsheet: of CSV, whether its text must not start a formula.
        ways: how many attributes the largest table has.
    """

    def __init__(self, folder: Path, about: About, *, format: str, spreadsheet: bool = False, ways: int = 1) -> None:
        self.folder, self.about, self.format, self.spreadsheet, self.ways = folder, about, format, spreadsheet, ways

    @abstractmethod
    def add(self, cube: Cube) -> Path:
        """Writes a table; the file it is in."""

    def close(self) -> None:  # noqa: B027 – most have nothing to do
        """Writes what stands beside all tables."""

    def abandon(self) -> None:  # noqa: B027
        """Lets go of what is open, when something went wrong: the folder disappears."""


class Behind:
    """Writing behind the caller's back: does what it is given in threads while the next table is made, a bounded number
    of things at a time; what fails is raised at a later call.

    Args:
        threads: how many things are done at once.
        most: how many may be waiting or under way before `do` waits for the oldest.
    """

    def __init__(self, threads: int, most: int) -> None:
        self._pool = ThreadPoolExecutor(threads)
        self._most = most
        self._pending: deque[Future[Any]] = deque()

    def do(self, job: Callable[..., Any], *arguments: Any) -> None:
        """Hands over a call, and waits if there are too many."""
        while len(self._pending) >= self._most:
            self._pending.popleft().result()
        self._pending.append(self._pool.submit(copy_context().run, job, *arguments))

    def wait(self) -> None:
        """Waits until all is done."""
        while self._pending:
            self._pending.popleft().result()

    def __enter__(self) -> Behind:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.wait()
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Lets what is under way end, and does nothing of the rest."""
        self._pool.shutdown(wait=True, cancel_futures=True)
