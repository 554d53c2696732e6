"""SciPy's linear algebra and sparse arrays, loaded when first used: whoever only reads tables waits for neither."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scipy import linalg as linalg
    from scipy.sparse import coo_array as coo_array
    from scipy.sparse import csr_array as csr_array
    from scipy.sparse import eye_array as eye_array
    from scipy.sparse import kron as kron
else:

    class _OnDemand:
        """A module that is imported when one of its names is first asked for."""

        def __init__(self, name: str) -> None:
            self._module = name

        def __getattr__(self, name: str) -> Any:
            value = getattr(import_module(self._module), name)
            setattr(self, name, value)
            return value

        def maker(self, name: str) -> Any:
            """What makes an array of this module."""
            return lambda *args, **options: getattr(self, name)(*args, **options)

    linalg, _sparse = _OnDemand("scipy.linalg"), _OnDemand("scipy.sparse")
    coo_array, csr_array, eye_array, kron = map(_sparse.maker, ("coo_array", "csr_array", "eye_array", "kron"))
