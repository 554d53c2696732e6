"""Folders that strangers wrote: nothing hangs or fills the memory, and what was measured is what the plan says."""

import json
import os
import shutil
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import residua as rs
from residua.errors import FileError, ResiduaError, SessionError
from residua.files import read_document
from residua.session.state import lock
from tests.resealed import body_of, reseal, reseal_document
from tests.saved import KINDS, saved


@pytest.fixture(params=["residual_release", "residual_projection"])
def given(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved() / request.param, tmp_path / request.param))


def load(folder: Path) -> object:
    return rs.Projected.load(folder) if folder.name.endswith("projection") else rs.Release.load(folder)


def files(folder: Path) -> list[Path]:
    """Every file of a folder, also those of the release inside a projection."""
    return sorted(file for file in folder.rglob("*") if file.is_file())


@pytest.mark.parametrize(
    "turn",
    [
        lambda file: file.symlink_to("/dev/zero"),
        lambda file: file.symlink_to(saved() / "data.csv"),
        os.mkfifo,
        lambda file: file.mkdir(),
    ],
    ids=["endless device", "link", "pipe", "folder"],
)
def test_what_is_no_regular_file_is_refused_at_once(given: Path, turn: Callable[[Path], None]) -> None:
    for file in files(given):
        kept = file.read_bytes()
        file.unlink()
        turn(file)
        with pytest.raises(FileError):
            load(given)
        file.rmdir() if file.is_dir() and not file.is_symlink() else file.unlink()
        file.write_bytes(kept)
    load(given)


@pytest.mark.parametrize(
    "turn",
    [lambda path: path.symlink_to(saved() / "residual_projection" / "release"), os.mkfifo, Path.touch],
    ids=["link", "pipe", "file"],
)
def test_a_projection_whose_release_is_no_folder_of_its_own_is_refused(
    tmp_path: Path, turn: Callable[[Path], None]
) -> None:
    folder = Path(shutil.copytree(saved() / "residual_projection", tmp_path / "projection"))
    shutil.rmtree(folder / "release")
    with pytest.raises(FileError):
        rs.Projected.load(folder)
    turn(folder / "release")
    with pytest.raises(FileError):
        rs.Projected.load(folder)


def test_a_pipe_or_device_as_a_plan_is_refused_at_once_and_a_link_of_the_users_is_followed(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), tmp_path):
        with pytest.raises(FileError, match="not a regular file"):
            rs.Plan.load(path)
    (tmp_path / "latest.json").symlink_to(saved() / "residual.json")
    assert rs.Plan.load(tmp_path / "latest.json").domain == rs.Plan.load(saved() / "residual.json").domain


def test_files_longer_than_the_plan_allows_are_not_read(given: Path) -> None:
    for file in files(given):
        length = file.stat().st_size
        os.truncate(file, 2**40)  # a hole: it takes no room, but reading it takes an hour
        with pytest.raises(FileError, match=r"longer|fewer|does not hold|damaged"):
            load(given)
        os.truncate(file, length)
    load(given)


def _arrays(folder: Path) -> dict[str, Any]:
    body = read_document(folder / "measured.json", "residua measurements", 1)
    return {name: np.array(numbers) for name, numbers in body.items()}


def _forge(folder: Path, arrays: dict[str, Any]) -> None:
    body = {name: array.tolist() for name, array in arrays.items()}
    reseal_document(folder / "measured.json", json.dumps(body).encode())
    reseal(folder)


@pytest.mark.parametrize("forged", ["longer", "more", "fewer", "objects", "texts"])
def test_what_was_measured_are_exactly_the_arrays_of_its_plan_and_takes_no_more_memory(
    tmp_path: Path, forged: str
) -> None:
    folder = Path(shutil.copytree(saved() / "residual_release", tmp_path / "release"))
    arrays = _arrays(folder)
    forgeries = {
        "longer": arrays | {"scales": np.zeros(2**20)},
        "more": arrays | {"extra": arrays["scales"]},
        "fewer": {name: arrays[name] for name in ("measured", "scales")},
        "objects": arrays | {"scales": np.array([None] * len(arrays["scales"]))},
        "texts": arrays | {"scales": arrays["scales"].astype(str)},
    }
    _forge(folder, forgeries[forged])
    tracemalloc.start()
    with pytest.raises(FileError):
        rs.Release.load(folder)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**22


@pytest.mark.parametrize("kind", [*KINDS, "session"])
def test_blocks_that_are_not_what_the_plan_says_are_refused(tmp_path: Path, kind: str) -> None:
    folder = Path(shutil.copytree(saved() / f"{kind}_release", tmp_path / "release"))
    arrays = _arrays(folder)
    forgeries = [arrays | {"scales": arrays["scales"] / 1000}, arrays | {"scales": arrays["scales"] * 0.0}]
    if "grids" in arrays:
        forgeries.append(arrays | {"grids": arrays["grids"] * 2})
        forgeries.append(arrays | {"grids": arrays["grids"] * 1024, "scales": arrays["scales"] * 1024})
        forgeries.append(arrays | {"measured": arrays["measured"] - 1})
    for forged in forgeries:
        _forge(folder, forged)
        with pytest.raises(FileError, match="other sets or other noise"):
            rs.Release.load(folder)
    _forge(folder, arrays)
    rs.Release.load(folder)


@pytest.mark.parametrize("receipt", [[], "paid", {"pcost": "much"}, {"pcost": -1}, {"epsilon": True}, {"a": {}}])
def test_a_receipt_that_is_none_is_refused(given: Path, receipt: object) -> None:
    inside = given / "release" if given.name.endswith("projection") else given  # a projection keeps its release's
    body = json.loads(body_of((inside / "release.json").read_bytes()))
    reseal_document(inside / "release.json", json.dumps(body | {"receipt": receipt}).encode())
    reseal(given)
    with pytest.raises(FileError, match="receipt"):
        load(given)


def test_nothing_in_a_session_is_a_link_or_a_pipe(tmp_path: Path) -> None:
    shutil.copy(saved() / "session.ledger", tmp_path / "session.ledger")
    session = Path(shutil.copytree(saved() / "session", tmp_path / "session"))
    (tmp_path / "elsewhere").mkdir(mode=0o755)
    targets = ["session.json", "parts", "choices", "choices/0001/00.json", "choices/0001/names.json"]
    for turn in (lambda path: path.symlink_to(tmp_path / "elsewhere"), os.mkfifo):
        for name in targets:
            (session / name).rename(tmp_path / "kept")
            turn(session / name)
            with pytest.raises(ResiduaError):
                _ = rs.Session(saved() / "data.csv", ledger=tmp_path / "session.ledger", state=session).status
            (session / name).unlink()
            (tmp_path / "kept").rename(session / name)
    (session / "lock").unlink()
    (session / "lock").symlink_to(tmp_path / "made")
    with pytest.raises(SessionError, match="cannot be locked"), lock(session):
        pass
    assert not (tmp_path / "made").exists()
    assert (tmp_path / "elsewhere").stat().st_mode & 0o777 == 0o755
