"""Files that version 0.1.0 wrote are read as they were meant: plans, releases, projections, ledgers and a session."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

import residua as rs

FILES = Path(__file__).parents[1] / "version_0_1_0"
FACTS = json.loads((FILES / "facts.json").read_text())
KINDS = sorted(FACTS)


@pytest.mark.parametrize("kind", KINDS)
def test_a_plan_has_the_facts_it_had(kind):
    plan, facts = rs.Plan.load(FILES / f"{kind}.json"), FACTS[kind]
    assert plan.pcost == pytest.approx(facts["pcost"], rel=1e-12)
    assert plan.unit_pcost == pytest.approx(facts["unit_pcost"], rel=1e-12)
    assert plan.gap == pytest.approx(facts["gap"])
    assert plan.variances(plan.workload) == pytest.approx(np.array(facts["variances"]), rel=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_a_saved_plan_is_the_same_file_again(kind, tmp_path):
    rs.Plan.load(FILES / f"{kind}.json").save(tmp_path / "again.json")
    old, new = (json.loads(path.read_text()) for path in (FILES / f"{kind}.json", tmp_path / "again.json"))
    assert new == old


@pytest.mark.parametrize("kind", KINDS)
def test_a_release_has_the_answers_it_had(kind):
    release, facts = rs.Release.load(FILES / f"{kind}_release"), FACTS[kind]
    found = release.answers(release.planned.workload).columns
    assert found["estimate"] == pytest.approx(np.array(facts["estimates"]), rel=1e-9, abs=1e-6)
    assert found["stddev"] == pytest.approx(np.array(facts["stddevs"]), rel=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_a_projection_is_read(kind):
    assert float(rs.Projected.load(FILES / f"{kind}_projection").estimates(())) == pytest.approx(
        FACTS[kind]["projected_total"]
    )


def test_a_plan_for_replacements_is_read():
    assert rs.Plan.load(FILES / "replace_one.json").unit == rs.ReplaceOne()


@pytest.mark.parametrize("kind", KINDS)
def test_a_ledger_is_read(kind, tmp_path):
    shutil.copy(FILES / f"{kind}.ledger", tmp_path / "ledger")
    assert len(rs.Ledger(tmp_path / "ledger").entries) == 1


def test_a_session_goes_on(tmp_path):
    for name in ("session", "session.ledger", "data.csv"):
        place = FILES / name
        (shutil.copytree if place.is_dir() else shutil.copy)(place, tmp_path / name)
    session = rs.Session(
        tmp_path / "data.csv", rs.ZCDP(1.0), ledger=tmp_path / "session.ledger", state=tmp_path / "session"
    )
    domain = rs.Release.load(FILES / "session_release").domain
    release = session.release(rs.plan(rs.marginals(domain, ways=1), rs.ZCDP(0.5)))
    assert abs(release.count().estimate - 600) < 30
