"""Settings for all tests, and the figures that they record, at the end of a run."""

import os
from typing import Any

import pytest
from hypothesis import settings

from tests.core import HERE, CoreFiles, is_core

# No deadline: dense brute force is slow on a busy machine. The same examples every time: a red run can be repeated.
settings.register_profile("laws", deadline=None, derandomize=True)
settings.load_profile("laws")


# Before any test is imported, so that what importing runs is traced; of several processes those that run tests.
TRACED: Any = None
if os.environ.get("TRACED_LINES"):
    from tests.traced_lines import TracedLines  # coverage is not there at the lowest versions

    TRACED = TracedLines()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "core: the laws that matter, in under a minute; listed in tests/core.py")
    alone = not getattr(config.option, "numprocesses", None)
    if TRACED is not None and (alone or hasattr(config, "workerinput")):
        config.pluginmanager.register(TRACED, "traced lines")
    if config.option.markexpr == "core":
        config.pluginmanager.register(CoreFiles(), "core files")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Prints figures that tests record, by name; they come with the tests' reports, from other processes too."""
    reports = [report for outcome in ("passed", "failed") for report in terminalreporter.stats.get(outcome, [])]
    figures = {tuple(each) for report in reports for each in getattr(report, "user_properties", [])}
    for name in sorted({name for name, _ in figures}):
        terminalreporter.section(name)
        for line in sorted(line for of, line in figures if of == name):
            terminalreporter.line(line)


@pytest.hookimpl(tryfirst=True)  # before -m picks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the laws that matter; the table is in `core.py`."""
    for item in items:
        if item.path.is_relative_to(HERE) and is_core(item.path.relative_to(HERE).as_posix(), _name(item)):
            item.add_marker("core")


def _name(item: pytest.Item) -> str:
    return str(getattr(item, "originalname", item.name))
