"""Serving the planner page, and who may speak to it: this machine, this browser, this page; others get a sentence.

The server listens on loopback, at a port that the system chooses, unless told otherwise. Its link holds a token that
works once and becomes a cookie that scripts cannot read and other sites cannot send (HttpOnly, SameSite=Strict). A
request must name the host by its number, so that no name on the web can be pointed at it (DNS rebinding), or as the
proxy in front of it is called, and must come from our own page (Origin, Sec-Fetch-Site). Answers load nothing but what
lies beside them, run no inline code, and are not kept.
"""

from __future__ import annotations

import asyncio
import hmac
import re
import secrets
import socket
import threading
import webbrowser
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, parse_qs, urlsplit

from residua.errors import FileError
from residua.ui.documents import Desk
from residua.ui.planning import PlanningProcesses, TooLongError

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

MOST_BODY = 2**23  # bytes of a request
HEAD_SECONDS = 10  # between two looks for connections that do not send the whole head of a request
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}
_ENCODED = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
_PATH = re.compile(r"(/[A-Za-z0-9._~-]+)*")
_WORDS = {
    400: "This request cannot be understood.",
    403: "This link is not, or no longer, valid. Start the planner again: residua ui",
    405: "This page takes no such request.",
    413: "This is too long for the planner.",
    421: "The planner answers to its own address alone; use the link that residua ui printed.",
}


def serve(
    path: Path | None,
    *,
    browser: bool,
    say: Callable[[str], object],
    host: str = "127.0.0.1",
    port: int = 0,
    root: str = "",
) -> None:
    """Serves the page until it is interrupted.

    Args:
        path: the specification to open and to save to; the bundled example, and nothing to save to, if left out.
        browser: whether to open the page.
        say: shows a line to the user.
        host: the address to listen on, by its number.
        port: where; any that is free if 0.
        root: where people reach it behind a proxy: `https://plans.example/planner`, or `/planner` at this address.

    Raises:
        FileError: the libraries for it are not installed, the port is not free, or nobody could reach the page.
        SpecError: the file is not a specification.
    """
    try:
        import starlette
        import uvicorn
    except ImportError:
        raise FileError('the planner page needs Starlette and uvicorn; run: pip install "residua[ui]"') from None
    del starlette
    desk = Desk(path)
    from residua.ui.app import Pages

    public, own = _public(root), f"[{host}]" if ":" in host else host
    if not public.netloc and host in ("0.0.0.0", "::"):
        raise FileError(f"--host {host} is every address; say which one people use: --root-path https://HOST/PATH")
    door = _listening(host, port)
    guard = Guard(Pages(desk, PlanningProcesses()).app(), f"{own}:{door.getsockname()[1]}", public)
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
        timeout_notify=HEAD_SECONDS,
    )
    server = uvicorn.Server(settings)
    settings.callback_notify = impatient(server.server_state.connections)
    say(f"The planner is at {guard.link}")
    say("The link works once. No data is read. Ctrl-C stops it.")
    if not public.netloc and not host.startswith("127.") and host != "::1":
        say("Others on the network can read along: put a proxy with TLS in front, and give its address as --root-path.")
    if browser:  # aside, because some browsers do not return
        threading.Thread(target=webbrowser.open, args=(guard.link,), daemon=True).start()
    try:
        asyncio.run(server.serve(sockets=[door]))
    except KeyboardInterrupt:
        say("Stopped.")


def _listening(host: str, port: int) -> socket.socket:
    door = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    try:
        if port:  # which a server that just stopped may still seem to hold
            door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        door.bind((host, port))
        door.listen(64)  # so that whoever is quicker than we are waits
    except (OSError, OverflowError) as problem:
        door.close()
        why = getattr(problem, "strerror", None) or str(problem)
        raise FileError(f"cannot listen on {host} at port {port}: {why}; give another --host or --port.") from None
    return door


def _public(root: str) -> SplitResult:
    """Where people reach the page, taken apart; a path alone is one at our own address."""
    try:
        parts = urlsplit(root.rstrip("/"))
        sound = bool(parts.netloc) == (parts.scheme in ("http", "https")) and not (parts.query or parts.fragment)
    except ValueError:
        sound = False
    if not sound or (root and not parts.netloc and not root.startswith("/")) or not _PATH.fullmatch(parts.path):
        raise FileError(f"--root-path {root!r} is no address; write https://HOST/PATH, or /PATH.")
    return parts


def impatient(connections: Collection[Any]) -> Callable[[], Awaitable[None]]:
    """What ends each connection that, at two looks in a row, waits for the same head of a request to be whole.

    uvicorn has no limit of time for that: whoever sent half a head, often enough, would keep everybody else away.
    """
    before: dict[Any, Any] = {}

    async def look() -> None:
        nonlocal before
        waiting = {one: one.cycle for one in connections if one.cycle is None or one.cycle.response_complete}
        for one, cycle in waiting.items():
            if one in before and before[one] is cycle:
                one.transport.abort()
        before = waiting

    return look


class Guard:
    """Lets requests of our own page through, with a limit on their length.

    Args:
        app: what answers them.
        own: where the server listens, host and port.
        public: where people reach it: an address, or a path at our own.
    """

    def __init__(self, app: App, own: str, public: SplitResult) -> None:
        self._app = app
        self._hosts = {own, public.netloc or own}  # a proxy may pass on either
        self._origin = f"{public.scheme or 'http'}://{public.netloc or own}"
        self._root = public.path
        self._cookie = f"residua-{own.rpartition(':')[2]}"  # cookies know no ports: two planners must not share one
        self._ending = f"HttpOnly; SameSite=Strict; Path={self._root or '/'}" + "; Secure" * (public.scheme == "https")
        self._secret = secrets.token_urlsafe(32)
        self._token: str | None = secrets.token_urlsafe(32)

    @property
    def link(self) -> str:
        """The link that opens the page, once."""
        return f"{self._origin}{self._root}/?token={self._token}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Judges a request."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            raise RuntimeError("the planner speaks HTTP only")
        headers, root = _headers(scope), self._root + "/"
        if scope["path"].startswith(root):  # a proxy that does not take it off
            scope["path"] = scope["path"].removeprefix(self._root)
        if headers is None or headers.get("host") not in self._hosts:
            await _refuse(421, send)
        elif not self._from_us(scope["method"], headers):
            await _refuse(403, send)
        elif scope["path"] == "/" and b"token=" in scope["query_string"]:
            await self._enter(scope, headers, send)
        elif not self._known(headers):
            await _refuse(403, send)
        elif not headers.get("content-length", "0").isdigit() or int(headers.get("content-length", "0")) > MOST_BODY:
            await _refuse(413, send)
        else:
            await self._app(scope, _limited(receive), _guarded(send))

    async def _enter(self, scope: Scope, headers: dict[str, str], send: Send) -> None:
        """The token, once, becomes a cookie; whoever has the cookie needs no token."""
        home = f"{self._root}/".encode()
        given = parse_qs(scope["query_string"].decode("ascii", "replace")).get("token", [""])[0]
        if self._token is not None and hmac.compare_digest(given.encode(), self._token.encode()):
            self._token = None
            cookie = f"{self._cookie}={self._secret}; {self._ending}"
            await _reply(303, b"", send, [(b"location", home), (b"set-cookie", cookie.encode())])
        elif scope["method"] == "GET" and self._known(headers):
            await _reply(303, b"", send, [(b"location", home)])
        else:
            await _refuse(403, send)

    def _known(self, headers: dict[str, str]) -> bool:
        try:
            cookie = SimpleCookie(headers.get("cookie", "")).get(self._cookie)
        except CookieError:
            return False
        return cookie is not None and hmac.compare_digest(cookie.value.encode(), self._secret.encode())

    def _from_us(self, method: str, headers: dict[str, str]) -> bool:
        """Whether our own page asks; a GET may also be typed by hand, and then has no origin."""
        if headers.get("sec-fetch-site", "none" if method == "GET" else "same-origin") not in ("same-origin", "none"):
            return False
        origin = headers.get("origin")
        return origin == self._origin if origin is not None else method in ("GET", "HEAD")


async def _refuse(status: int, send: Send) -> None:
    """A sentence that says no."""
    await _reply(status, _WORDS[status].encode(), send, [(b"content-type", b"text/plain; charset=utf-8")])


def _headers(scope: Scope) -> dict[str, str] | None:
    """Headers by name; None where one that we judge by is given twice."""
    by_name: dict[str, str] = {}
    for name, value in scope["headers"]:
        key = name.decode("latin-1").lower()
        if key in by_name and key in ("host", "origin", "content-length", "sec-fetch-site", "cookie"):
            return None
        by_name[key] = value.decode("latin-1")
    return by_name


async def _reply(status: int, body: bytes, send: Send, headers: list[tuple[bytes, bytes]]) -> None:
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [*headers, length, *_ENCODED]})
    await send({"type": "http.response.body", "body": body})


def _limited(receive: Receive) -> Receive:
    length = 0

    async def receive_less() -> Message:
        nonlocal length
        message = await receive()
        length += len(message.get("body", b""))
        if length > MOST_BODY:
            raise TooLongError
        return message

    return receive_less


def _guarded(send: Send) -> Send:
    async def send_guarded(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [*message.get("headers", []), *_ENCODED]
        await send(message)

    return send_guarded
