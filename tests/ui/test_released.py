"""A release on the planner page: the same numbers as `Release.table`, and no folder but that of the command line."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

import residua as rs
from residua.errors import SpecError
from residua.ui.app import Pages
from residua.ui.documents import Desk
from residua.ui.planning import PlanningProcesses
from residua.ui.worker import answer


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("released")
    domain = rs.Domain({"age": rs.Integers(0, 9), "sex": ["F", "M"]})
    data = pa.table({"age": [1, 2, 2, 5, 9] * 400, "sex": ["F", "M", "M", "F", "M"] * 400})
    plan = rs.plan(rs.marginals(domain, ways=[0, 1, 2]), rs.ZCDP(rho=0.5))
    rs.measure(plan, data, ledger=rs.Ledger(place / "l.ledger", rs.ZCDP(rho=0.5))).save(place / "release")
    return place / "release"


def asked(folder: Path, **ask: object) -> dict:
    told = answer({"task": "released", "name": "", "folder": str(folder), "ask": ask})
    return msgspec.json.decode(msgspec.json.encode(told))  # as the server is sent it


def test_tables_quotes_and_projections_are_those_of_the_release(folder: Path) -> None:
    release = rs.Release.load(folder)
    about = asked(folder)
    assert [tuple(one["names"]) for one in about["tables"]] == list(release.sets)
    assert "at most 69.2 times in 100" in about["said"]
    assert about["advice"] == release.advice
    for names in release.sets:
        table, shown = release.table(names), asked(folder, names=list(names))
        assert len(shown["rows"]) + shown["more"] == len(table)
        assert [row[len(names)] for row in shown["rows"]] == table.estimates.ravel().tolist()
        assert (shown["picture"] is None) == (not names)
    projected = asked(folder, names=["age", "sex"], projected=True)
    assert all(row[2] >= 0 for row in projected["rows"])
    quoted = asked(folder, quote="mean", of="age", by="sex")
    assert [float(row[1]) for row in quoted["rows"]] == pytest.approx(
        release.mean("age", by=["sex"]).estimate, abs=0.05
    )
    assert len(asked(folder, quote="share", of="sex")["rows"]) == 2


@pytest.mark.parametrize(
    "ask",
    [
        {"names": ["no"]},
        {"names": 3},
        {"quote": "mean", "of": "sex"},
        {"quote": "load", "of": "sex"},
        {"quote": "mean", "of": ["x"]},
    ],
)
def test_what_a_release_does_not_hold_is_a_sentence(folder: Path, ask: dict) -> None:
    told = asked(folder, **ask)
    assert "mistake of residua" not in told["error"]


def test_a_page_can_name_no_other_folder(folder: Path, tmp_path: Path) -> None:
    """Whatever it sends: the folder is that of the command line, and without one there is none."""
    assert Desk(folder).released == folder
    pages = Pages(Desk(tmp_path / "spec.toml"), PlanningProcesses())
    with pytest.raises(SpecError, match="no release was named"):
        asyncio.run(pages.released({"folder": str(folder), "ask": {"names": []}}))
