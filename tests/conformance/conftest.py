"""A real browser, and what tests of the planner page share besides: a server for each file, and one tab."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from tests.conformance.planner import Server, Tab

# As root there is no sandbox; the others keep the browser itself from calling home.
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
WAIT = 120_000  # milliseconds, for whatever a page does: on a busy machine the 30 seconds of Playwright pass


def _patient(make: Callable[..., Any]) -> Callable[..., Any]:
    """A maker of pages or contexts, which wait long enough for what is asked of them."""

    def made(**options: Any) -> Any:
        page = make(**options)
        page.set_default_timeout(WAIT)
        return page

    return made


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    from tests.conformance.planner import SPEC, Server

    path = tmp_path_factory.mktemp("planner") / "survey.toml"
    path.write_text(SPEC)
    made = Server(path)
    yield made
    with made.process:  # which closes its pipe
        made.process.terminate()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for each file: while it is there, an event loop runs, and tests of other files may need their own."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=FLAGS, timeout=WAIT)
        opened.new_context, opened.new_page = _patient(opened.new_context), _patient(opened.new_page)  # type: ignore[method-assign]
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def tab(browser: Browser, server: Server) -> Tab:
    from tests.conformance.planner import Tab

    return Tab(browser, server)


@pytest.fixture
def page(tab: Tab, server: Server) -> Iterator[Page]:
    """The page, opened anew; what it asks for and complains about must be nothing from outside, and nothing."""
    tab.page.set_viewport_size({"width": 1300, "height": 900})
    tab.page.goto(f"http://{server.host}/")
    tab.page.wait_for_selector("#errors table")
    for draft in tab.page.locator("#alert button:is(:text('Discard it'), .close)").all()[:1]:  # of the test before
        draft.click()
    yield tab.page
    own = f"http://{server.host}/"
    assert [url for url in tab.requests if not url.startswith((own, f"blob:{own}"))] == []
    killed = server.process.poll() is not None
    assert [words for words in tab.complaints if not (killed and "ERR_CONNECTION_REFUSED" in words)] == []
