"""Folders that strangers wrote: nothing hangs or fills the memory, and what was measured is what the plan says."""

import json
import os
import shutil
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import residua as rs
from residua.errors import FileError, ResiduaError, SessionError
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


@pytest.mark.parametrize("forged", ["compressed", "claimed", "more", "fewer", "objects"])
def test_an_archive_holds_exactly_the_arrays_of_its_plan_and_takes_no_more_memory(tmp_path: Path, forged: str) -> None:
    folder = Path(shutil.copytree(saved() / "residual_release", tmp_path / "release"))
    with np.load(folder / "measured.npz") as held:
        arrays = dict(held)
    if forged == "compressed":
        np.savez_compressed(folder / "measured.npz", **(arrays | {"scales": np.zeros(2**22)}))  # 32 MB, in 32 KB
    elif forged == "claimed":
        content = (folder / "measured.npz").read_bytes()
        stated = f"({len(arrays['scales'])},)".encode()
        assert stated in content
        (folder / "measured.npz").write_bytes(content.replace(stated, b"(99999999,)"[: len(stated) - 2] + b",)"))
    elif forged == "more":
        np.savez(folder / "measured.npz", **arrays, extra=arrays["scales"])
    elif forged == "fewer":
        np.savez(folder / "measured.npz", **{name: arrays[name] for name in ("measured", "scales")})
    else:
        np.savez(folder / "measured.npz", **(arrays | {"scales": arrays["scales"].astype(object)}))
    reseal(folder)
    tracemalloc.start()
    with pytest.raises(FileError):
        rs.Release.load(folder)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**22


@pytest.mark.parametrize("kind", [*KINDS, "session"])
def test_blocks_that_are_not_what_the_plan_says_are_refused(tmp_path: Path, kind: str) -> None:
    folder = Path(shutil.copytree(saved() / f"{kind}_release", tmp_path / "release"))
    with np.load(folder / "measured.npz") as held:
        arrays = dict(held)
    forgeries = [arrays | {"scales": arrays["scales"] / 1000}, arrays | {"scales": arrays["scales"] * np.nan}]
    if "grids" in arrays:
        forgeries.append(arrays | {"grids": arrays["grids"] * 2})
        forgeries.append(arrays | {"grids": arrays["grids"] * 1024, "scales": arrays["scales"] * 1024})
        forgeries.append(arrays | {"measured": arrays["measured"] - 1})
    for forged in forgeries:
        np.savez(folder / "measured.npz", **forged)
        reseal(folder)
        with pytest.raises(FileError, match="other sets or other noise"):
            rs.Release.load(folder)
    np.savez(folder / "measured.npz", **arrays)
    reseal(folder)
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
