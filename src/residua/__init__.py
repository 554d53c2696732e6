"""residua publishes tables of counts under differential privacy.

Declare a domain, ask a workload, plan the best noise for a budget or for accuracy targets, measure once, publish.

    import residua as rs

Importing does nothing: each name of `__init__.pyi` is looked up in its package when it is first used, and so are the
libraries behind it.
"""

import re
from importlib import import_module
from typing import Any

from residua import showing as _showing

__version__ = "1.0.0"

# Name → the package that has it; of a module that is itself a public name, none. Asked of the loader: it may be a zip.
_STUB = __spec__.loader.get_data(re.sub(r"\.pyc?$", ".pyi", __file__)).decode()
_HOME = {name: package for package, name in re.findall(r"^from residua\.?(\w*) import (\w+)", _STUB, re.MULTILINE)}
__all__ = sorted(_HOME)

# What plans, releases and tables are shown by: loaded when a report, a picture or a file is first asked for.
_showing.register(
    fragment="report.fragments",
    plan_text="report.plan_text",
    write_report="report.contents",
    export="formats.export",
    given="release.given",
    rounded="projection.rounded",
)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'residua' has no attribute {name!r}")
    package = _HOME[name]
    value = getattr(import_module(f"residua.{package}"), name) if package else import_module(f"residua.{name}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
