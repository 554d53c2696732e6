"""The server of the planner page: who may ask, what it answers to nonsense, and what is kept when it is killed.

The last test kills it.
"""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from tests.conformance.planner import SPEC, check_accessible, downloaded, planned, step, toml, upload

pytestmark = pytest.mark.xdist_group("planner")


def test_the_token_works_once_and_others_are_refused(server, page):
    """Also: a foreign host, origin or cookie; a body that is too long or means nothing; no trace, no data."""
    token = urlsplit(server.link).query
    assert server.ask("GET", f"/?{token}", Cookie="", Origin=None)[0] == 403, "once"
    assert server.ask("GET", "/?token=wrong", Cookie="", Origin=None)[0] == 403
    assert server.ask("GET", "/", Origin=None)[0] == 200
    for change in (
        {"Host": "planner.example.org"},
        {"Host": f"localhost:{server.host.split(':')[1]}"},
        {"Host": "127.0.0.1"},
        {"Cookie": ""},
        {"Cookie": server.cookie[:-1] + "x"},
        {"Origin": "https://example.org"},
        {"Origin": "null"},
        {"Origin": None},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ):
        status, words, headers = server.ask("POST", "/start", {"which": "first"}, **change)
        assert status in (403, 421), change
        assert "survey" not in words
        assert "default-src 'none'" in headers["content-security-policy"]
    assert server.ask("POST", "/start", {"which": "first"})[0] == 200
    assert server.ask("POST", "/open", b"x" * (2**23 + 1))[0] == 413
    assert server.ask("POST", "/open", b"{}", Content_Type="text/plain")[0] == 415
    assert server.ask("POST", "/open", b"[" * 100_000)[0] == 400
    assert server.ask("GET", "/plan", Origin=None)[0] == 404
    for path in ("/../pyproject.toml", "/static/page.html", "/etc/passwd", "/docs", "/openapi.json"):
        assert server.ask("GET", path, Origin=None)[0] == 404
    for body in ({}, {"document": "d1"}, {"document": 7, "form": []}, {"document": "d1", "form": {"attributes": 3}}):
        status, words, _ = server.ask("POST", "/plan", {"page": "p", **body})
        assert status == 200
        assert "error" in json.loads(words)
        assert "Traceback" not in words
    policy = server.ask("GET", "/", Origin=None)[2]["content-security-policy"]
    assert "unsafe" not in policy
    text = "".join(server.ask("GET", path, Origin=None)[1] for path in ("/", "/planner.js"))
    assert re.search(r"<script(?![^>]*src=)|style=|onclick=|innerHTML|eval\(", text) is None


def test_a_draft_is_opened_where_the_file_of_the_command_line_is(page, server):
    """What was kept of a page whose server was gone; the sections that no page sees are those of the file."""
    form = json.loads(server.ask("POST", "/start", {"which": "first"})[1])["form"]
    form["attributes"][0]["high"] = "42"
    draft = {"kind": "residua draft", "form": form}
    page.set_input_files("#chosen", {"name": "d.json", "mimeType": "", "buffer": json.dumps(draft).encode()})
    planned(page)
    found = toml(page)
    assert (found["domain"]["age"]["high"], found["source"]["path"]) == (42, "/secret/people.csv")
    for bad in (b"{}", b"{", json.dumps({"kind": "residua draft", "form": {"attributes": 3}}).encode()):
        page.set_input_files("#chosen", {"name": "d.json", "mimeType": "", "buffer": bad})
        expect(page.locator("#alert")).to_contain_text("neither a specification nor a page")
    assert toml(page)["domain"]["age"]["high"] == 42, "and the page is as it was"


def test_a_killed_server_is_noticed_and_the_work_is_kept(page, server):
    """The page says so, keeps every field, and hands out a draft, which another planner opens."""
    upload(page, SPEC)
    pid = server.process.pid
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    assert children
    server.process.send_signal(signal.SIGKILL)
    server.process.wait(20)
    step(page, "columns")
    page.locator("#attributes summary").first.click()
    page.get_by_label("To", exact=True).fill("77")
    expect(page.locator("#alert")).to_contain_text("has stopped")
    assert page.get_by_label("To", exact=True).input_value() == "77"
    draft = downloaded(page, "#draft")
    assert json.loads(draft)["form"]["attributes"][0]["high"] == "77"
    check_accessible(page)
    for child in children:  # what plans has ended too, or is a zombie that waits for its parent
        status = Path(f"/proc/{child}/status")
        assert not status.exists() or "State:\tZ" in status.read_text()
