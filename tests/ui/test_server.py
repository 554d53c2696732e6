"""The server of the planner page, by its own door, without a browser."""

from __future__ import annotations

import http.client
import re
import socket
import subprocess
import sys
import time
from urllib.parse import urlsplit

SERVER = """
from residua.ui import serve
serve.HEAD_SECONDS = 1
serve.serve(None, browser=False, say=lambda line: print(line, flush=True))
"""


def asked(host: str, path: str) -> int:
    speaking = http.client.HTTPConnection(host, timeout=60)
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
            for _ in range(300):  # until the server is up and holds all of them
                if (status := asked(address.netloc, "/")) == 503:
                    break
                time.sleep(0.1)
            assert status == 503
            for _ in range(300):
                if (status := asked(address.netloc, f"/?{address.query}")) != 503:
                    break
                time.sleep(0.1)
            assert status == 303, "the link still works"
        finally:
            for half in halves:
                half.close()
            server.terminate()
