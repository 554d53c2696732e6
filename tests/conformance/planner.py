"""The planner page as tests see it: the real command's server, one tab of a real browser, and what is done there."""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from urllib.parse import urlsplit

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Dialog, Page, expect

expect.set_options(timeout=120_000)
SPEC = """\
# A survey, for the tests.

[source]
path = "/secret/people.csv"

[privacy]
rho = 0.5

[[workload]]
ways = [0, 1, 2]

[domain.age]
low = 0
high = 9

[domain.sex]
values = ["F", "M"]
"""


# After ten seconds the page asks whether it shall go on: on a busy machine that would come between tests and answers.
START = """
import residua.ui.planning
residua.ui.planning.LIMIT = 300.0
from residua.cli.main import main
main()
"""


class Server:
    """The command, with drafts beside the file instead of in the home of whoever runs the tests."""

    def __init__(self, path: Path) -> None:
        self.path, self.state = path, path.parent / "state"
        command = [sys.executable, "-c", START, "ui", str(path), "--no-browser"]
        env = os.environ | dict.fromkeys(("XDG_STATE_HOME", "LOCALAPPDATA"), str(self.state))
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=env)
        assert self.process.stdout is not None
        link = re.search(r"http://\S+", self.process.stdout.readline())
        assert link is not None
        self.link, self.cookie = link[0], ""
        self.host = urlsplit(self.link).netloc

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> tuple[int, str, dict[str, str]]:
        """A request without a browser; with the page's cookie and origin unless others are given."""
        told = {"Host": self.host, "Origin": f"http://{self.host}", "Cookie": self.cookie, **headers}
        told = {name.replace("_", "-"): value for name, value in told.items() if value is not None}
        text = None if body is None else body if isinstance(body, bytes) else json.dumps(body)
        if text is not None:
            told.setdefault("Content-Type", "application/json")
        speaking = http.client.HTTPConnection(self.host, timeout=600)
        try:
            speaking.request(method, path, text, told)
            answer = speaking.getresponse()
            return answer.status, answer.read().decode(), {k.lower(): v for k, v in answer.getheaders()}
        finally:
            speaking.close()


class Tab:
    """One page for all tests, what it asked for, and what it complained about."""

    def __init__(self, browser: Browser, server: Server) -> None:
        self.page = browser.new_context(accept_downloads=True).new_page()
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("console", lambda message: self.complaints.append(message.text))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", self._dialog)
        self.page.goto(server.link)
        assert self.page.url == f"http://{server.host}/", "the token leaves the address"
        (cookie,) = self.page.context.cookies()
        assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
        server.cookie = f"{cookie['name']}={cookie['value']}"

    def _dialog(self, dialog: Dialog) -> None:
        if dialog.type != "beforeunload":
            self.complaints.append(dialog.message)
        dialog.accept()


def planned(page: Page) -> None:
    """Waits until the newest question is answered; a change says at once that it is being planned."""
    expect(page.locator("#answer")).to_have_attribute("aria-busy", "false")


def open_all(page: Page) -> None:
    """Opens whatever is folded, and what that brings to light."""
    closed = page.locator("details:not([open]) > summary:visible")
    for _ in range(10):  # of the columns one is open at a time
        if not closed.count():
            return
        closed.last.click()


def errors(page: Page) -> dict[str, str]:
    rows = page.locator("#errors tbody tr").all()
    return {row.locator("th").inner_text(): row.locator("td").nth(1).inner_text() for row in rows}


def step(page: Page, name: str) -> None:
    page.click(f"[data-step={name}]")


def downloaded(page: Page, button: str) -> str:
    with page.expect_download() as waiting:
        page.click(button)
    return Path(waiting.value.path()).read_text()


def toml(page: Page) -> dict:
    before = page.locator("[data-step][aria-current]").get_attribute("data-step")
    step(page, "publish")
    text = downloaded(page, "#download")
    step(page, str(before))
    return tomllib.loads(text)


def upload(page: Page, text: str, name: str = "sent.toml") -> None:
    page.set_input_files("#chosen", {"name": name, "mimeType": "text/plain", "buffer": text.encode()})
    if page.locator("dialog").count():
        page.get_by_role("button", name="Go on without it").click()
    expect(page.locator("#file")).to_contain_text(name)
    planned(page)


def check_accessible(page: Page) -> None:
    """All of axe, in light and in dark."""
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme=scheme)
        found = Axe().run(page, options={"resultTypes": ["violations"]})
        assert found.violations_count == 0, (scheme, found.generate_report())
