"""Loops compiled by Numba when first called, and kept on disk where there is a folder for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F) -> F:
    """The function, compiled with the arithmetic of IEEE 754 as it is written."""
    return _kept(function, fastmath=False)


def compiled_loosely(function: F) -> F:
    """The same, with sums in whatever order is fastest; callers check that everything is finite."""
    return _kept(function, fastmath=True)


def compiled_inline(function: F) -> F:
    """A small part of compiled functions, kept with those that call it."""
    return cast("F", numba.njit(nogil=True)(function))


def _kept(function: F, *, fastmath: bool) -> F:
    try:
        return cast("F", numba.njit(nogil=True, cache=True, fastmath=fastmath)(function))
    except RuntimeError:  # neither the package nor the user has a folder that can be written to
        return cast("F", numba.njit(nogil=True, fastmath=fastmath)(function))
