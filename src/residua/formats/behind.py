"""Writing behind the caller's back: the next table is made while threads write the ones before it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any


class Behind:
    """Does what it is given in threads, a bounded number of things at a time; what fails is raised at a later call.

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
        self._pending.append(self._pool.submit(job, *arguments))

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
