"""A test that hangs shows within two minutes: no processor time passes, in it or in whatever it started.

A busy machine makes no hang: what waits for a processor gets one now and then, so that no law needs a short wait.
"""

from __future__ import annotations

import faulthandler
import os
import resource
import signal
import threading
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

SECONDS, LEAST = 120.0, 2.0  # of waiting, with less than this of a processor's time
_LOOKS, _AFTER = 24, 10.0  # in that time; seconds for a test to end by itself, when what it started is gone


def descendants() -> dict[int, float]:
    """Every process that this one started, and those that they did, with the processor time it has used."""
    tick, parents, used = os.sysconf("SC_CLK_TCK"), dict[int, int](), dict[int, float]()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it ended meanwhile
            continue
        number = int(stat.parent.name)
        parents[number], used[number] = int(fields[1]), sum(map(int, fields[11:15])) / tick
    ours = {os.getpid()}
    while more := {number for number, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return {number: used[number] for number in ours - {os.getpid()}}


def spent() -> float:
    """The processor time of this process and of all that it started, also of what ended, but not of this thread."""
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in usage) + sum(descendants().values()) - time.thread_time()


class Hangs:
    """A plugin of pytest that ends what a hanging test has started; and this process, if the test hangs on."""

    def __init__(self, seconds: float = SECONDS, least: float = LEAST, after: float = _AFTER) -> None:
        self.seconds, self.least, self.after = seconds, least, after
        self.running: str | None = None
        self.stderr = os.fdopen(os.dup(2), "w")  # before pytest puts a file in its place
        threading.Thread(target=self._watch, daemon=True).start()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Says which test is running."""
        self.running = item.nodeid
        try:
            return (yield)
        finally:
            self.running = None

    def _watch(self) -> None:
        test, since, used = None, time.monotonic(), 0.0
        while True:
            time.sleep(self.seconds / _LOOKS)
            running, now = self.running, time.monotonic()
            if running is None or running != test:
                test, since, used = running, now, spent() if running else 0.0
            elif now - since >= self.seconds / 4 and abs(spent() - used) >= self.least:
                since, used = now, spent()
            elif now - since >= self.seconds:
                self._end(running)

    def _end(self, test: str) -> None:
        self.stderr.write(f"\n{test} hangs: less than {self.least:g} s of a processor's time in {self.seconds:g} s\n")
        self.stderr.flush()
        faulthandler.dump_traceback(self.stderr)
        for number in descendants():
            os.kill(number, signal.SIGKILL)
        time.sleep(self.after)
        if self.running == test:
            os._exit(70)  # pytest-xdist says which test ran, and goes on in another process
