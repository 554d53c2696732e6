"""What we write never replaces what is not ours: a ledger, data, another kind of file."""

import os
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

import residua as rs
from residua.errors import FileError
from tests.cli.command import inside
from tests.laws.sessions import DOMAIN, ONE, TWO
from tests.saved import saved

BLOCKS = ONE.compile()
RELEASE = rs.Release(ONE, BLOCKS, np.zeros(BLOCKS.cells, dtype=np.int64), {"pcost": 1.0})
TABLE = RELEASE.table([RELEASE.domain.names[0]])
OTHER = RELEASE.table([RELEASE.domain.names[1]])
WRITERS: dict[str, Callable[[Path], object]] = {
    "plan": ONE.save,
    "domain": DOMAIN.save,
    "csv": TABLE.to_csv,
    "parquet": TABLE.to_parquet,
}


@pytest.mark.parametrize("what", WRITERS)
def test_what_is_not_ours_is_not_overwritten_and_what_is_ours_is(tmp_path: Path, what: str) -> None:
    write, target = WRITERS[what], tmp_path / "target"
    OTHER.to_parquet(tmp_path / "other.parquet")
    others = [
        saved() / "data.csv",
        saved() / "residual.ledger",
        saved() / "session" / "session.json",
        tmp_path / "other.parquet",
    ]
    for other in others:
        target.write_bytes(other.read_bytes())
        with pytest.raises(FileError, match=r"exists and is something else.*Nothing was written"):
            write(target)
        assert target.read_bytes() == other.read_bytes()
    target.unlink()
    write(target)
    first = target.stat().st_ino
    write(target)  # over an older one
    assert target.stat().st_ino != first
    assert list(tmp_path.glob(".target*")) == []


def test_an_empty_file_is_nothing_to_lose_and_a_folder_or_pipe_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    ONE.save(tmp_path / "empty")
    TWO.save(tmp_path / "empty")
    assert rs.Plan.load(tmp_path / "empty").equivalent(TWO)
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", tmp_path / "nul\0"):
        with pytest.raises(FileError):
            ONE.save(path)


def test_another_table_is_overwritten_only_when_asked(tmp_path: Path) -> None:
    TABLE.to_csv(tmp_path / "t.csv")
    with pytest.raises(FileError, match="something else"):
        OTHER.to_csv(tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_text() != OTHER.to_csv(tmp_path / "t.csv", overwrite=True)[:-1]
    OTHER.to_parquet(tmp_path / "t.csv", overwrite=True)


def test_the_command_does_not_save_a_plan_over_the_ledger_or_the_data(tmp_path: Path) -> None:
    from tests.cli.command import DATA, SPEC

    (tmp_path / "spec.toml").write_text(SPEC)
    (tmp_path / "people.csv").write_text(DATA)
    rs.Ledger(tmp_path / "people.ledger", rs.ZCDP(1.0))
    for name in ("people.ledger", "people.csv", "spec.toml"):
        before = (tmp_path / name).read_bytes()
        with mock.patch("residua.cli.planning.make_plan", side_effect=AssertionError):  # refused before planning
            done = inside("plan", "spec.toml", "--save", name, cwd=tmp_path)
        assert done.refused
        assert "is not a plan of residua" in done.err
        assert (tmp_path / name).read_bytes() == before
    for _ in range(2):
        assert inside("plan", "spec.toml", "--save", "plan.json", cwd=tmp_path).code == 0
