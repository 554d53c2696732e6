"""Starting the planner page: a port on loopback that the system chooses, a link that works once, and a browser."""

from __future__ import annotations

import asyncio
import socket
import threading
import webbrowser
from collections.abc import Callable
from pathlib import Path

from residua.errors import FileError
from residua.ui.documents import Desk


def serve(path: Path | None, *, browser: bool, say: Callable[[str], object]) -> None:
    """Serves the page until it is interrupted.

    Args:
        path: the specification to open and to save to; the bundled example, and nothing to save to, if left out.
        browser: whether to open the page.
        say: shows a line to the user.

    Raises:
        FileError: the libraries for it are not installed, or no port is free.
        SpecError: the file is not a specification.
    """
    try:
        import starlette
        import uvicorn
    except ImportError:
        raise FileError("the planner page needs Starlette and uvicorn; run: pip install 'residua[ui]'") from None
    del starlette
    desk = Desk(path)
    from residua.ui.app import Pages
    from residua.ui.guard import Guard
    from residua.ui.planning import Planner

    door = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        door.bind(("127.0.0.1", 0))
        door.listen(64)  # so that whoever is quicker than we are waits
    except OSError as problem:
        raise FileError(f"no port on this machine can be used: {problem.strerror}.") from None
    guard = Guard(Pages(desk, Planner()).app(), door.getsockname()[1])
    settings = uvicorn.Config(
        guard,
        log_config=None,
        log_level="critical",
        access_log=False,  # the link holds a token
        lifespan="on",
        ws="none",
        http="h11",
        loop="asyncio",
        server_header=False,
        limit_concurrency=32,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=1,
    )
    say(f"The planner is at {guard.link}")
    say("The link works once, on this machine. No data is read. Ctrl-C stops it.")
    if browser:  # aside, because some browsers do not return
        threading.Thread(target=webbrowser.open, args=(guard.link,), daemon=True).start()
    try:
        asyncio.run(uvicorn.Server(settings).serve(sockets=[door]))
    except KeyboardInterrupt:
        say("Stopped.")
