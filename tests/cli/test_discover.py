"""`residua discover`: from a draft to a specification that releases, paid for and said."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from residua.cli.main import app
from residua.errors import LedgerError, SpecError
from residua.measurement import Ledger


def run(*arguments: object) -> str:
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture
def draft(tmp_path: Path) -> Path:
    rows = [f"{job},{20 + i % 40}" for i, job in enumerate(["nurse", "clerk"] * 200)]
    (tmp_path / "people.csv").write_text("\n".join(["job,age", *rows, "astronaut,33", ""]))
    spec = tmp_path / "spec.toml"
    run("init", tmp_path / "people.csv", "--out", spec)
    spec.write_text(spec.read_text().replace("[ledger]", "[ledger]\ndiscovery_delta = 1e-8"))
    return spec


def test_a_draft_becomes_a_specification_that_releases(draft: Path) -> None:
    before = draft.read_text()
    run("ledger", "create", draft)
    told = run("discover", draft, "job", "--rho", 0.1, "--delta", 1e-9)
    assert "2 categories" in told
    assert "astronaut" not in told
    facts = json.loads(
        run("discover", draft, "age", "--rho", 0.1, "--delta", 1e-9, "--kind", "whole numbers", "--json")
    )
    assert facts["attribute"] == {"low": 20, "high": 99, "unknown": "other", "missing": "other"}
    content = tomllib.loads(draft.read_text())
    assert content["domain"]["job"]["values"] == ["clerk", "nurse"]
    assert content["domain"]["age"] == facts["attribute"]
    assert {**content, "domain": {}} == {**tomllib.loads(before), "domain": {}}
    assert before.partition("[domain.")[0].strip() in draft.read_text(), "comments stay"
    assert "# The values of 'job' were discovered with" in draft.read_text()
    shown = json.loads(run("ledger", draft.parent / "people.ledger", "--json"))
    assert shown["discovery_delta"] == {"allowed": 1e-8, "spent": 2e-9}
    assert [entry["delta"] for entry in shown["entries"]] == [1e-9, 1e-9]
    draft.write_text(draft.read_text().replace("rho = 0.5", "rho = 0.2"))
    run("check", draft)
    run("release", draft, "--out", draft.parent / "release")


def test_what_cannot_be_written_or_paid_for_is_refused_before_anything_is_spent(draft: Path) -> None:
    run("ledger", "create", draft)
    with pytest.raises(SpecError, match="say how much to spend"):
        run("discover", draft, "job", "--delta", 1e-9)
    with pytest.raises(LedgerError, match="left for discovering values"):
        run("discover", draft, "job", "--rho", 0.1, "--delta", 1e-3)
    draft.write_text('domain = { job = { values = ["a"] } }\n' + draft.read_text().partition('[domain."job"]')[0])
    with pytest.raises(SpecError, match="a table of its own"):
        run("discover", draft, "job", "--rho", 0.1, "--delta", 1e-9)
    assert Ledger(draft.parent / "people.ledger").entries == ()
