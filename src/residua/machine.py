"""What the machine has: libraries, processors, threads, compiled loops, free memory; answers remembered.

Libraries that not everybody needs or has are loaded when first used; where one is missing, a sentence says what to do.
`pip install residua` brings what plans and reads; what measuring needs beyond that is the extra `measure`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, cached_property, update_wrapper, wraps
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from residua.errors import FileError, ResiduaError

# What the extra `measure` brings (pyproject.toml), and what needs it.
MEASURING = {
    "numba": "measuring, projecting, estimating, and planning along more than 128 values, need Numba",
    "pyarrow": "records, large releases, and tables as Arrow, Parquet or SDMX, need PyArrow",
    "duckdb": "databases, and conditions other than numbers compared and labels in quotes after = or !=, joined by "
    "AND (dates, OR, mistyped names), need DuckDB",
    "charset_normalizer": "text that is not UTF-8 needs charset-normalizer",
}


def there(library: str) -> bool:
    """Whether it is installed; it is not loaded."""
    return find_spec(library) is not None


def missing(sentence: str, kind: type[ResiduaError] = ResiduaError) -> ResiduaError:
    """The error that a library is not installed: of whichever kind, the command ends with the code of the machine."""
    problem = kind(sentence)
    problem.exit_code = FileError.exit_code
    return problem


def load(module: str) -> Any:
    """A module, imported.

    Raises:
        ResiduaError: it is one of those that only measuring needs, and not installed.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as problem:
        needed = MEASURING.get((problem.name or "").partition(".")[0])
        if needed is None:
            raise
        raise missing(f'{needed}, which is not installed; run: pip install "residua[measure]"') from None


class _OnDemand:
    """A module that is imported when one of its names, or a module in it, is first asked for."""

    def __init__(self, name: str) -> None:
        self._module = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # which tools ask of everything
            raise AttributeError(name)
        module = load(self._module)
        value = getattr(module, name) if hasattr(module, name) else load(f"{self._module}.{name}")
        setattr(self, name, value)
        return value

    def maker(self, name: str) -> Any:
        """What makes an array of this module."""
        return lambda *args, **options: getattr(self, name)(*args, **options)


if TYPE_CHECKING:
    import duckdb as duckdb
    import pyarrow as pyarrow
    from pyarrow import compute as compute, parquet as parquet
    from scipy import linalg as linalg
    from scipy.sparse import (
        block_array as block_array,
        coo_array as coo_array,
        csr_array as csr_array,
        eye_array as eye_array,
        kron as kron,
        vstack as vstack,
    )
else:
    duckdb, pyarrow = map(_OnDemand, ("duckdb", "pyarrow"))
    compute, parquet = map(_OnDemand, ("pyarrow.compute", "pyarrow.parquet"))
    linalg, _sparse = _OnDemand("scipy.linalg"), _OnDemand("scipy.sparse")
    _makers = ("block_array", "coo_array", "csr_array", "eye_array", "kron", "vstack")
    block_array, coo_array, csr_array, eye_array, kron, vstack = map(_sparse.maker, _makers)


def processors() -> int:
    """How many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


LARGE = 1024  # rows of a matrix


@cache
def _libraries() -> Any:
    """The BLAS libraries of this process, looked for once, with those that SciPy brings."""
    import scipy.linalg  # noqa: F401  # brings its own
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


@contextmanager
def threads_for(side: float) -> Iterator[None]:
    """Linear algebra on matrices of about this many rows: with one thread, unless they are so large that more help.

    The threads of a BLAS library wait for each other by spinning. On small matrices they save nothing, and on a machine
    that has other work to do each call waits for a thread that is not running: 500 prefixes were planned in 3 seconds
    with one thread and in up to 155 with two (benchmarks/threads.py).
    Where there is no matrix (one row), no library is looked for: that would take longer than most such plans.
    """
    if side <= 1 or side > LARGE:
        yield
        return
    with _libraries().limit(limits=1):
        yield


P = ParamSpec("P")
R = TypeVar("R")


def remembered(method: Callable[P, R]) -> Callable[P, R]:
    """A method of a value that does not change: works out once what it answers to the same arguments."""

    @wraps(method)
    def once(*given: P.args, **named: P.kwargs) -> R:
        known: dict[Any, R] = vars(given[0]).setdefault(f"_known_{method.__name__}", {})
        key = (*given[1:], *named.items())
        if key not in known:
            known[key] = method(*given, **named)
        return known[key]

    return once


class _Loop:
    """A function that is compiled when it is first called, with those that it calls: until then nobody waits for it."""

    def __init__(self, function: Any, **options: Any) -> None:
        update_wrapper(self, function)
        self._options = options

    def __call__(self, *given: Any) -> Any:
        return self._compiled(*given)

    @cached_property
    def _compiled(self) -> Any:
        numba = load("numba")
        function = vars(self)["__wrapped__"]
        with _COMPILING:
            try:
                made = numba.njit(nogil=True, **self._options)(function)
            except RuntimeError:  # neither the package nor the user has a folder that can be written to
                made = numba.njit(nogil=True, **{**self._options, "cache": False})(function)
            vars(self)["_compiled"] = made  # before those that it calls: they may call it
            known = function.__globals__
            known |= {name: one._compiled for name, one in list(known.items()) if isinstance(one, _Loop)}
        return made


_COMPILING = RLock()


def compiled(function: Any, *, fastmath: bool = False) -> Any:
    """The function, compiled when first called, with the arithmetic of IEEE 754 as it is written.

    Args:
        function: the loop; it is kept on disk where there is a folder for it.
        fastmath: with sums in whatever order is fastest; callers check that everything is finite.
    """
    return _Loop(function, cache=True, fastmath=fastmath)


def compiled_loosely(function: Any) -> Any:
    """The same, with sums in whatever order is fastest; callers check that everything is finite."""
    return compiled(function, fastmath=True)


def compiled_inline(function: Any) -> Any:
    """A small part of compiled functions, kept with those that call it."""
    return _Loop(function)


def free_bytes() -> int | None:
    """How many bytes of memory are free; None where that is unknown."""
    return min((one for one in [_available(), _container()] if one is not None), default=None)


def _available() -> int | None:
    try:
        match = re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text())
    except OSError:
        return None
    return int(match[1]) * 1024 if match else None


def _container() -> int | None:
    group = Path("/sys/fs/cgroup")
    try:
        limit = (group / "memory.max").read_text().strip()
        used = int((group / "memory.current").read_text())
        cache = re.search(r"^inactive_file (\d+)", (group / "memory.stat").read_text(), flags=re.MULTILINE)
    except (OSError, ValueError):
        return None
    return int(limit) - used + int(cache[1] if cache else 0) if limit.isdigit() else None
