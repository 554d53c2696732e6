"""Saved estimates come back whole, without data or ledger, and notice every change; so by the command."""

import csv
import io

import numpy as np
import pytest

import residua as rs
from residua.errors import FileError
from residua.estimation.folder import _FILES, NAME
from tests.cli.command import SPEC, inside, released as by_command
from tests.laws.estimations import RULES, records, released, subsets

DATA = records(np.random.default_rng(1))


@pytest.fixture(scope="module")
def estimated(tmp_path_factory):
    release = released(tmp_path_factory.mktemp("release"), DATA, impossible=RULES)
    return rs.estimate(release, known={("c",): np.bincount(DATA["c"])})


def test_estimates_come_back_as_they_were(tmp_path, estimated):
    estimated.save(tmp_path / "estimates")
    again = rs.Estimated.load(tmp_path / "estimates")
    for names in subsets(3):
        np.testing.assert_array_equal(again.estimates(names), estimated.estimates(names))
        assert str(again.accuracy(names)) == str(estimated.accuracy(names))
    assert again.statement == estimated.statement == (tmp_path / "estimates" / "ESTIMATES.md").read_text()
    assert again.receipt == estimated.receipt
    with pytest.raises(FileError, match="exists already"):
        estimated.save(tmp_path / "estimates")


@pytest.mark.parametrize("name", [*_FILES, NAME, "release/measurements.npy", "release/release.json"])
def test_a_changed_or_missing_file_is_refused(tmp_path, estimated, name):
    estimated.save(tmp_path / "estimates")
    path = tmp_path / "estimates" / name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(FileError):
        rs.Estimated.load(tmp_path / "estimates")
    path.unlink()
    with pytest.raises(FileError):
        rs.Estimated.load(tmp_path / "estimates")


def test_the_command_estimates_shows_and_refuses(tmp_path):
    by_command(tmp_path, spec=SPEC.replace("rho = 0.5", "rho = 0.001"))
    done = inside("estimate", "out", "--out", "estimates", "--total", "2,000", cwd=tmp_path)
    assert done.code == 0, done.err
    assert "nothing was spent" in done.out
    shown = inside("table", "estimates", "sex", "age", cwd=tmp_path)
    assert "root mean square error about" in shown.err.replace("\n", " ")
    assert "biased towards a model" in shown.err.replace("\n", " ")
    rows = list(csv.DictReader(io.StringIO(inside("table", "estimates", "sex", "age", "--full", cwd=tmp_path).out)))
    assert sum(float(row["estimate"]) for row in rows) == pytest.approx(2000, abs=0.01)
    rounded = inside("table", "estimates", "sex", "--rounded", "--csv", cwd=tmp_path).out
    assert sum(int(row["estimate"]) for row in csv.DictReader(io.StringIO(rounded))) == 2000
    assert inside("count", "estimates", "age >= 1", cwd=tmp_path).code == 0
    assert inside("tables", "estimates", cwd=tmp_path).code == 0
    for arguments, told in (
        (("out", "--out", "estimates"), "exists already"),
        (("estimates", "--out", "again"), "made from a release"),
        (("out", "--out", "again", "--total", "many"), "not a number"),
        (("nowhere", "--out", "again"), "no release folder"),
    ):
        refused = inside("estimate", *arguments, cwd=tmp_path)
        assert refused.refused
        assert told in refused.err.replace("\n", " ")
        assert not (tmp_path / "again").exists()
