"""Settings for all tests."""

from pathlib import Path

import pytest
from hypothesis import settings

from tests.core import is_core

HERE = Path(__file__).parent

# No deadline: dense brute force is slow on a busy machine. The same examples every time: a red run can be repeated.
settings.register_profile("laws", deadline=None, derandomize=True)
settings.load_profile("laws")


@pytest.hookimpl(tryfirst=True)  # before -m picks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the laws that matter; the table is in `core.py`."""
    for item in items:
        if item.path.is_relative_to(HERE) and is_core(item.path.relative_to(HERE).as_posix(), _name(item)):
            item.add_marker("core")


def _name(item: pytest.Item) -> str:
    return str(getattr(item, "originalname", item.name))
