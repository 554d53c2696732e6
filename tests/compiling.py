"""What one process compiles, another does not compile at the same time: it waits, and loads what is kept on disk."""

from __future__ import annotations

import functools
import os
import tempfile
from pathlib import Path
from typing import Any


def compile_once() -> None:
    """A lock around the compiler, for each function: in a fresh clone two processes would compile all twice."""
    if os.name != "posix":
        return
    import fcntl

    from numba.core.dispatcher import Dispatcher

    compile_now = Dispatcher.compile

    @functools.wraps(compile_now)
    def compiled(self: Any, signature: Any) -> Any:
        name = f"residua-{os.getuid()}-{self.py_func.__module__}.{self.py_func.__qualname__}.compiling"
        with (Path(tempfile.gettempdir()) / name.replace("/", "_")).open("w") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # goes with the file
            return compile_now(self, signature)

    Dispatcher.compile = compiled
