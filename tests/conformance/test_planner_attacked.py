"""A hostile page beside the planner's, in the same browser and with its cookie: it reads nothing and changes nothing.

The hostile page is served twice: at another port of the same address, which a browser counts as the same site and
sends strict cookies to, and under a name, from another site.
"""

from __future__ import annotations

import http.server
import secrets
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.conformance.conftest import FLAGS
from tests.conformance.planner import SPEC, Server, Tab

pytestmark = pytest.mark.xdist_group("planner")

ATTACKS = """
async ([planner, where]) => {
  const seen = {};
  const note = (name, work) => work().then(found => seen[name] = found, error => seen[name] = "refused");
  const body = JSON.stringify({which: "first"});
  for (const path of ["/", "/planner.js", "/start", "/plan", "/open"]) {
    await note("read " + path, async () => {
      const answer = await fetch(planner + path, {credentials: "include"});
      return answer.status + " " + (await answer.text());
    });
    await note("blind " + path, async () => {
      const answer = await fetch(planner + path, {mode: "no-cors", credentials: "include", method: "POST", body,
        headers: {"content-type": "text/plain"}});
      return answer.type + " " + answer.status + (await answer.text());
    });
    await note("ask " + path, async () => {
      const answer = await fetch(planner + path, {credentials: "include", method: "POST", body,
        headers: {"content-type": "application/json"}});
      return answer.status + " " + (await answer.text());
    });
  }
  await note("script", () => new Promise((well, badly) => {
    const script = document.createElement("script");
    script.src = planner + "/planner.js"; script.onload = () => well("ran"); script.onerror = badly;
    document.body.append(script);
  }));
  await note("frame", () => new Promise(well => {
    const frame = document.createElement("iframe");
    frame.src = planner + "/";
    frame.onload = () => { let text = "refused"; try { text = frame.contentDocument.body.innerText } catch {}
      well(text || "refused") };
    document.body.append(frame);
  }));
  await note("window", async () => {
    const other = open(planner + "/");
    await new Promise(well => setTimeout(well, 1500));
    try { return other.document.body.innerText } catch { return "refused" } finally { other && other.close() }
  });
  return seen;
}
"""


@pytest.fixture(scope="module")
def hostile() -> Iterator[int]:
    """The port of a server that serves an empty page."""

    class Empty(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(b"<!doctype html><title>hostile</title><body></body>")

        def log_message(self, *args: object) -> None:
            pass

    served = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Empty)
    thread = threading.Thread(target=served.serve_forever)
    thread.start()
    yield served.server_port
    served.shutdown()
    thread.join()
    served.server_close()


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"], ids=["same site", "another site"])
def test_a_hostile_page_reads_nothing_and_runs_nothing(name: str, hostile: int, tab: Tab, server: Server) -> None:
    sent: list[str] = []
    answers: list[tuple[str, int]] = []
    context = tab.page.context
    page = context.new_page()
    page.on("request", lambda request: sent.append(f"{request.method} {request.url}"))
    page.on("response", lambda answer: answers.append((answer.url, answer.status)))
    page.goto(f"http://{name}:{hostile}/")
    seen = page.evaluate(ATTACKS, [f"http://{server.host}", name])
    page.close()
    assert len([each for each in sent if server.host in each]) >= 15
    # A window that it opens is a page of its own, which it cannot look into.
    assert {status for url, status in answers if server.host in url} <= {403, 421}
    assert set(seen.values()) <= {"refused", "opaque 0"}, seen


def test_a_name_that_is_pointed_at_the_planner_reaches_nothing(browser: Browser, server: Server) -> None:
    """DNS rebinding: the browser takes planner.example.org for this machine, as a hostile name server would have it."""
    rebound = browser.browser_type.launch(
        executable_path="/usr/bin/chromium", args=[*FLAGS, "--host-resolver-rules=MAP planner.example.org 127.0.0.1"]
    )
    try:
        page = rebound.new_page()
        answer = page.goto(f"http://planner.example.org:{server.host.split(':')[1]}/?token=x")
        assert answer is not None
        assert answer.status == 421
        assert "survey" not in page.content()
    finally:
        rebound.close()


def test_a_token_is_not_found_by_guessing(tmp_path: Path) -> None:
    """256 bits; and no guess is answered otherwise than another, near or far, while the right one still opens."""
    (tmp_path / "survey.toml").write_text(SPEC)
    fresh = Server(tmp_path / "survey.toml")
    with fresh.process:
        right = fresh.link.partition("token=")[2]
        guesses = [secrets.token_urlsafe(32) for _ in range(100)]
        guesses += [right[:n] for n in range(0, len(right), 7)] + [right[:-1] + "x", right.swapcase(), right * 2]
        answers = {fresh.ask("GET", f"/?token={guess}", Cookie="", Origin=None)[:2] for guess in guesses}
        cookies = fresh.ask("GET", "/", Cookie="residua-1=x; residua-2=y", Origin=None)[0]
        opened = fresh.ask("GET", f"/?token={right}", Cookie="", Origin=None)[0]
        fresh.process.terminate()
    assert len(right) >= 43
    assert len(answers) == 1
    assert answers.pop()[0] == cookies == 403
    assert opened == 303
