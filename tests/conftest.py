"""Settings for all tests, and the figures that they record, at the end of a run."""

import gc
import os
import shutil
import subprocess
import sys
from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import settings

from tests.compiling import compile_once
from tests.core import HERE, CoreFiles, is_core

# No deadline: dense brute force is slow on a busy machine. The same examples every time: a red run can be repeated.
settings.register_profile("laws", deadline=None, derandomize=True)
settings.load_profile("laws")


# Before any test is imported, so that what importing runs is traced; of several processes those that run tests.
TRACED: Any = None
if os.environ.get("TRACED_LINES"):
    from tests.traced_lines import TracedLines  # coverage is not there at the lowest versions

    TRACED = TracedLines()


CHECKOUT = HERE.parent
BEFORE, LEFT = set[str](), set[str]()  # files of the checkout that git does not know, and those that tests left behind


def _unknown_files() -> set[str]:
    """The files of the checkout that git neither keeps nor ignores; none without a checkout or git."""
    if not (CHECKOUT / ".git").exists() or shutil.which("git") is None:
        return set()
    asked = ["git", "-C", str(CHECKOUT), "status", "--porcelain", "--untracked-files=all"]
    told = subprocess.run(asked, capture_output=True, text=True, check=False)
    return {line for line in told.stdout.splitlines() if line.startswith("??")}


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "core: the laws that matter, in under a minute; listed in tests/core.py")
    alone = not getattr(config.option, "numprocesses", None)
    if sys.platform == "linux" and (alone or hasattr(config, "workerinput")) and not config.option.usepdb:
        from tests.hangs import Hangs  # Windows has no `resource`

        config.pluginmanager.register(Hangs(), "hangs")
    if TRACED is not None and (alone or hasattr(config, "workerinput")):
        config.pluginmanager.register(TRACED, "traced lines")
    if config.option.markexpr == "core":
        config.pluginmanager.register(CoreFiles(), "core files")
    if hasattr(config, "workerinput"):
        compile_once()
    else:
        BEFORE.update(_unknown_files())


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fails where tests left files behind in the checkout: they belong in `tmp_path`."""
    if not hasattr(session.config, "workerinput"):
        LEFT.update(_unknown_files() - BEFORE)
        if LEFT and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Looks for no garbage while 7,500 tests are collected, which took a fifth of that time, nor in them later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_unconfigure() -> None:
    gc.unfreeze()  # extension modules complain of what is left at the end


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Prints figures that tests record, by name; they come with the tests' reports, from other processes too."""
    reports = [report for outcome in ("passed", "failed") for report in terminalreporter.stats.get(outcome, [])]
    figures = {tuple(each) for report in reports for each in getattr(report, "user_properties", [])}
    for name in sorted({name for name, _ in figures}):
        terminalreporter.section(name)
        for line in sorted(line for of, line in figures if of == name):
            terminalreporter.line(line)
    if LEFT:
        terminalreporter.section("left behind in the checkout; tests write into tmp_path")
        for line in sorted(LEFT):
            terminalreporter.line(line)


@pytest.hookimpl(tryfirst=True)  # before -m picks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the laws that matter, of the table in `core.py`, and keeps tests that share a fixture in one process."""
    for item in items:
        if _shares(item) and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(item.path.stem))
        if item.path.is_relative_to(HERE) and is_core(item.path.relative_to(HERE).as_posix(), _name(item)):
            item.add_marker("core")


def _shares(item: pytest.Item) -> bool:
    """Whether a test asks for a fixture that is made once for its module: in each process that runs one of these."""
    asked = getattr(getattr(item, "_fixtureinfo", None), "name2fixturedefs", {})
    return any(each[-1].scope == "module" and each[-1].baseid for each in asked.values())


def _name(item: pytest.Item) -> str:
    return str(getattr(item, "originalname", item.name))
