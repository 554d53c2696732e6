"""The command line. What its commands do is loaded when one is run, so that `residua --help` stays quick."""
# ruff: noqa: F401 – for the type checker

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from residua.cli import (
        accounts,
        auditing,
        comparing,
        deriving,
        discovering,
        doctor,
        exporting,
        looking,
        opening,
        persons,
        planning,
        quoting,
        sessions,
        show,
        spec,
        starting,
        steps,
        tables,
    )


def __getattr__(name: str) -> Any:
    try:
        return import_module(f"{__name__}.{name}")
    except ModuleNotFoundError as problem:
        if problem.name != f"{__name__}.{name}":  # a library, not a command
            raise
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
