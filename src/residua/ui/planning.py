"""Planning beside the server: processes that can be ended, so that a newer question or a limit of time stops them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from residua.errors import PlanError

LIMIT = 10.0  # seconds, before the page asks whether it shall go on
PATIENT = 300.0  # seconds, if it shall
_GRACE = 1.0  # seconds: what is done by then is not worth a new process
_LONGEST = 2**26  # bytes of an answer
_PAUSE = 0.05


class SupersededError(Exception):
    """A newer question of the same page made this one needless."""


class SlowError(Exception):
    """There was no answer within the limit."""


class TooLongError(Exception):
    """A request that is longer than allowed."""


class PlanningProcesses:
    """A process that plans, and a second one as soon as the first may have to be ended.

    Args:
        command: what a process runs; `worker.py` if left out.
    """

    def __init__(self, command: Sequence[str] = (sys.executable, "-m", "residua.ui.worker")) -> None:
        self._command = command
        self._free: asyncio.Queue[asyncio.subprocess.Process] = asyncio.Queue()
        self._all: set[asyncio.subprocess.Process] = set()
        self._loading: set[asyncio.Task[None]] = set()
        self._latest: dict[str, int] = {}
        self._turn = asyncio.Lock()

    async def start(self) -> None:
        """Starts a process, which loads its libraries meanwhile."""
        await self._begin()

    async def stop(self) -> None:
        """Ends all processes."""
        for process in list(self._all):
            await self._end(process)
        await asyncio.gather(*self._loading)

    async def ask(self, request: Mapping[str, Any], *, page: str = "", limit: float = LIMIT) -> dict[str, Any]:
        """The answer of a process.

        Args:
            request: what `worker.answer` takes.
            page: whose question it is: a newer one of the same page supersedes it. Nobody's if left out.
            limit: seconds.

        Raises:
            SupersededError: a newer question came.
            SlowError: there is no answer within the limit.
            PlanError: the process ended by itself, as when memory runs out.
        """
        mine = self._latest[page] = self._latest.get(page, 0) + 1 if page else 0
        async with self._turn:
            if self._latest[page] != mine:
                raise SupersededError
            return await self._asked(request, page, mine, limit)

    def supersede(self, page: str) -> None:
        """Lets go whatever the page has asked."""
        self._latest[page] = self._latest.get(page, 0) + 1

    async def _asked(self, request: Mapping[str, Any], page: str, mine: int, limit: float) -> dict[str, Any]:
        process = await self._free.get()
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(ConnectionError):
            process.stdin.write(pickle.dumps(dict(request)))
            await process.stdin.drain()
        started, reading = time.monotonic(), asyncio.ensure_future(process.stdout.readline())
        try:
            while not reading.done():
                await asyncio.wait([reading], timeout=_PAUSE)
                passed = time.monotonic() - started
                if reading.done():
                    break
                if passed > limit:
                    raise SlowError
                if passed > _GRACE / 2 and self._free.empty() and not self._loading:
                    await self._begin()  # warm, should this one be ended
                if passed > _GRACE and self._latest[page] != mine:
                    raise SupersededError
            line = reading.result()
        except (SlowError, SupersededError, asyncio.CancelledError):
            reading.cancel()
            await self._replace(process)
            raise
        if not line:
            await self._replace(process)
            raise PlanError(
                "planning was ended from outside, as when memory runs out; ask for fewer or smaller tables."
            )
        self._free.put_nowait(process)
        answer: dict[str, Any] = msgspec.json.decode(line)
        return answer

    async def _replace(self, process: asyncio.subprocess.Process) -> None:
        await self._end(process)
        if self._free.empty() and not self._loading:
            await self._begin()

    async def _begin(self) -> None:
        process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            limit=_LONGEST,
            start_new_session=True,  # so that what it starts ends with it, and Ctrl-C is the server's
        )
        self._all.add(process)
        loading = asyncio.create_task(self._loaded(process))
        self._loading.add(loading)
        loading.add_done_callback(self._loading.discard)

    async def _loaded(self, process: asyncio.subprocess.Process) -> None:
        """Waits for the line by which a process says that it is there: on a busy machine longer than any limit."""
        assert process.stdout is not None
        await process.stdout.readline()
        self._free.put_nowait(process)

    async def _end(self, process: asyncio.subprocess.Process) -> None:
        self._all.discard(process)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if os.name == "posix":
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.kill()
        await process.wait()
