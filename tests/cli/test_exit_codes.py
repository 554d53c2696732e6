"""Exit codes say of which kind a refusal is; a check refuses what a release would, and spends nothing."""

import json
from pathlib import Path
from unittest import mock

import pytest

import residua as rs
from residua.cli import spec as spec_module
from tests.cli.command import DATA, SPEC, inside
from tests.cli.mistakes import RELEASE, everything, refused

CHECK, DRY = ("check", "spec.toml"), (*RELEASE, "--dry-run")


@pytest.mark.parametrize("args", [RELEASE, DRY, CHECK], ids=["release", "dry run", "check"])
@pytest.mark.parametrize("kind", ["usage", "data", "budget", "lost ledger"])
def test_the_kinds_of_refusals(folder: Path, args: tuple[str, ...], kind: str) -> None:
    spec, data, code = SPEC, DATA, 4
    if kind == "usage":
        spec, code = SPEC.replace("rho = 0.5", "rho = -1"), 2
    elif kind == "data":
        data, code = DATA + "X,1\n", 3
    elif kind == "budget":
        spec = SPEC.replace("rho = 0.5", "rho = 1.5")
    (folder / "spec.toml").write_text(spec)
    (folder / "people.csv").write_text(data)
    if kind != "lost ledger":
        rs.Ledger(folder / "people.ledger", rs.ZCDP(1.0))
    before = everything(folder)
    done = inside(*args, cwd=folder, ledger=False)
    assert done.code == code, done
    assert everything(folder) == before


def test_files_and_mistakes_of_ours_have_codes_of_their_own(folder: Path) -> None:
    assert inside("table", "nowhere", "age", cwd=folder).code == 5
    for problem, code in ((OSError(28, "No space left"), 5), (MemoryError(), 5), (RuntimeError("ours"), 70)):
        with mock.patch.object(spec_module, "read_spec", side_effect=problem):
            done = inside("plan", "spec.toml", cwd=folder)
        assert done.code == code
    assert "a mistake of residua" in done.err


@pytest.mark.parametrize("args", [DRY, CHECK], ids=["dry run", "check"])
def test_a_check_spends_and_writes_nothing_and_draws_no_noise(folder: Path, args: tuple[str, ...]) -> None:
    ledger = rs.Ledger(folder / "people.ledger", rs.ZCDP(1.0))
    before = everything(folder)
    with mock.patch("residua.measurement.job.Job._counted", side_effect=AssertionError("counted")):
        done = inside(*args, cwd=folder)
    assert done.code == 0, done
    assert "Nothing stands in the way" in done.out
    assert "ZCDP(rho=0.5)" in done.out
    assert everything(folder) == before
    assert ledger.spent_exactly == 0
    assert json.loads(inside(*CHECK, "--json", cwd=folder).out)["refused"] is False
    done = json.loads(inside(*RELEASE, "--json", cwd=folder).out)
    assert ledger.contains(done["receipt"]["digest"])
    refused(folder, "exists already", args=DRY)
