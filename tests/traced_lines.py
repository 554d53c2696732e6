"""Which lines of residua the tests run, cheaply: the first case of every test is traced, its other cases are not.

A line that only a later case runs counts as not run: the figure is a lower bound. Tracing every case takes a third more
processor time. Each process writes a file of its own; `coverage combine` joins them.
"""

from __future__ import annotations

from collections.abc import Generator
from importlib import import_module
from pkgutil import walk_packages
from typing import Any

import coverage
import pytest


class TracedLines:
    """A plugin of pytest, for runs with `TRACED_LINES=1` in the environment."""

    def __init__(self) -> None:
        self.coverage = coverage.Coverage(data_suffix=True, source_pkgs=["residua"])
        self.seen: set[tuple[Any, str]] = set()
        self.coverage.start()

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self) -> Generator[None, Any, Any]:
        """Traces what importing runs: of all modules, whichever test would import them first."""
        try:
            for module in walk_packages(import_module("residua").__path__, "residua."):
                if not module.name.endswith("__main__"):
                    import_module(module.name)
            return (yield)
        finally:
            self.coverage.stop()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """Traces the first case of a test, and what is set up for it."""
        test = (item.path, str(getattr(item, "originalname", item.name)))
        if test in self.seen:
            return (yield)
        self.seen.add(test)
        self.coverage.start()
        try:
            return (yield)
        finally:
            self.coverage.stop()

    def pytest_sessionfinish(self) -> None:
        """Writes the file of this process."""
        self.coverage.save()
