"""Doctests of one file alone must see the public names: `rs.measure` is the function, not its module of the same name.

Names are looked up when they are first used, and pytest would set a module that it imports by itself in their place.
"""

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_collection() -> None:
    """Looks all public names up: not before the lines that imports run are traced (tests/traced_lines.py)."""
    import residua

    for name in residua.__all__:
        getattr(residua, name)
