"""How many threads linear algebra takes: one, while matrices are small.

The threads of a BLAS library wait for each other by spinning. On small matrices they save nothing, and on a machine
that has other work to do each call waits for a thread that is not running: 500 prefixes were planned in 3 seconds with
one thread and in up to 155 with two (benchmarks/threads.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

LARGE = 1024  # rows


@cache
def _libraries() -> Any:
    """The BLAS libraries of this process, looked for once, with those that SciPy brings."""
    import scipy.linalg  # noqa: F401  # brings its own
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


@contextmanager
def threads_for(side: float) -> Iterator[None]:
    """Linear algebra on matrices of about this many rows: with one thread, unless they are so large that more help."""
    if side > LARGE:
        yield
        return
    with _libraries().limit(limits=1):
        yield
