"""The server of the planner page, by its own door, without a browser."""

from __future__ import annotations

import contextlib
import http.client
import re
import socket
import subprocess
import sys
import time
from urllib.parse import urlsplit

import pytest
from typer.testing import CliRunner

from residua.cli.main import app

SERVER = """
from residua.ui import serve
serve.HEAD_SECONDS = 3
serve.serve(None, browser=False, say=lambda line: print(line, flush=True))
"""


def asked(host: str, path: str) -> int:
    speaking = http.client.HTTPConnection(host, timeout=600)
    try:
        speaking.request("GET", path)
        return speaking.getresponse().status
    finally:
        speaking.close()


def test_half_sent_requests_keep_the_page_away_for_a_while_only() -> None:
    """64 of them, without a cookie: whoever does not send the whole head of a request is let go."""
    with subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        link = re.search(r"http://\S+", server.stdout.readline())
        assert link is not None
        address = urlsplit(link[0])
        assert address.hostname is not None
        assert address.port is not None
        halves = [socket.create_connection((address.hostname, address.port)) for _ in range(64)]
        try:
            for half in halves:
                half.sendall(b"GET / HTTP/1.1\r\nHost: ")
            for _ in range(3000):  # until the server is up and holds all of them
                if (status := asked(address.netloc, "/")) == 503:
                    break
                time.sleep(0.1)
            assert status == 503
            for _ in range(3000):
                if (status := asked(address.netloc, f"/?{address.query}")) != 503:
                    break
                time.sleep(0.1)
            assert status == 303, "the link still works"
        finally:
            for half in halves:
                half.close()
            server.terminate()


PROXY = """
import sys
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

upstream, strips, keeps_host = sys.argv[1], sys.argv[2] == "strips", sys.argv[3] == "keeps"

class Proxy(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def forward(self):
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        path = self.path.removeprefix("/planner") if strips else self.path
        headers = {name: value for name, value in self.headers.items() if keeps_host or name.lower() != "host"}
        behind = HTTPConnection(upstream, timeout=600)
        behind.request(self.command, path, body, headers)
        answer = behind.getresponse()
        self.send_response_only(answer.status)
        for name, value in answer.getheaders():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(answer.read())
        behind.close()
    do_GET = do_POST = forward
    def log_message(self, *_):
        pass

door = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[4])), Proxy)
door.serve_forever()
"""


def free_port() -> int:
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        return int(door.getsockname()[1])


@pytest.mark.parametrize(("path", "host"), [("strips", "keeps"), ("leaves", "replaces")])
def test_behind_a_proxy_the_page_answers_to_its_public_address(path: str, host: str) -> None:
    """Whether the proxy takes the path off or not, and passes its own host on or ours; other origins are refused."""
    front = free_port()
    public = f"http://127.0.0.1:{front}/planner"
    command = [sys.executable, "-m", "residua", "ui", "--no-browser", "--root-path", public, "--port"]
    for _ in range(5):  # another process may take the port between
        own = free_port()
        server = subprocess.Popen([*command, str(own)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert server.stdout is not None
        if line := server.stdout.readline():
            break
    proxy = subprocess.Popen([sys.executable, "-c", PROXY, f"127.0.0.1:{own}", path, host, str(front)])
    try:
        link = re.sub(r"\s", "", line.partition(" at ")[2] + (server.stdout.readline() if "token" not in line else ""))
        assert link.startswith(f"{public}/?token=")

        def ask(method: str, path: str, **headers: str) -> http.client.HTTPResponse:
            body = b'{"which":"first"}' if method == "POST" else None
            with contextlib.closing(http.client.HTTPConnection(f"127.0.0.1:{front}", timeout=600)) as speaking:
                speaking.request(method, path, body, {"Content-Type": "application/json", **headers})
                answer = speaking.getresponse()
                answer.read()
            return answer

        for _ in range(6000):
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", front)).close()
                break
            time.sleep(0.1)
        entered = ask("GET", link.removeprefix(f"http://127.0.0.1:{front}"))
        assert (entered.status, entered.getheader("location")) == (303, "/planner/")
        cookie, _, ending = str(entered.getheader("set-cookie")).partition(";")
        assert "Path=/planner" in ending
        assert ask("GET", "/planner/", Cookie=cookie).status == 200
        assert ask("GET", "/planner/planner.js", Cookie=cookie).status == 200
        origin = f"http://127.0.0.1:{front}"
        assert ask("POST", "/planner/start", Cookie=cookie, Origin=origin).status == 200
        for change in ({"Origin": f"http://127.0.0.1:{own}"}, {"Cookie": ""}):
            assert ask("POST", "/planner/start", **{"Cookie": cookie, "Origin": origin, **change}).status == 403
        if host == "keeps":
            assert ask("GET", "/planner/", Cookie=cookie, Host="planner.example.org").status == 421
    finally:
        proxy.terminate()
        server.terminate()
        proxy.wait(600)
        server.communicate(timeout=600)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--host", "0.0.0.0"], "--root-path https://HOST/PATH"),
        (["--root-path", "planner"], "write https://HOST/PATH, or /PATH"),
        (["--root-path", "/a b"], "write https://HOST/PATH, or /PATH"),
        (["--host", "203.0.113.7"], "give another --host or --port"),
        (["--port", "70000"], "give another --host or --port"),
    ],
)
def test_an_address_that_nobody_could_use_is_refused(options: list[str], words: str) -> None:
    refused = CliRunner().invoke(app, ["ui", "--no-browser", *options])
    assert words in str(refused.exception)
