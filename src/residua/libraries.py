"""Libraries that not everybody needs or has: loaded when first used; where one is missing, a sentence says what to do.

`pip install residua` brings what plans and reads; what measuring needs beyond that is the extra `measure`.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

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
