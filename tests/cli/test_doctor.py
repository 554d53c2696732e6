"""`residua doctor` says what works, and what to do about what does not; `--version` names the commit."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from residua import __version__
from residua.cli import doctor
from tests.cli.command import inside


def parts(folder: Path) -> dict[str, dict[str, object]]:
    return {part["name"]: part for part in json.loads(inside("doctor", "--json", cwd=folder).out)["parts"]}


def test_everything_that_the_tests_need_is_there_and_nothing_is_left_behind(tmp_path: Path) -> None:
    done = inside("doctor", cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
    assert "All that is needed works." in done.out
    found = parts(tmp_path)
    assert all(part["works"] for name, part in found.items() if name != "UTF-8 output"), found
    assert {"numpy", "[pandas]", "[spark]", "locks", "durable writes"} < set(found)
    assert not {"[test]", "[docs]", "[bench]"} & set(found)
    assert not list(tmp_path.iterdir())


def test_what_is_missing_is_named_with_its_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = doctor._installed
    monkeypatch.setattr(doctor, "_installed", lambda name: None if name in ("polars", "numpy", "numba") else real(name))
    done = inside("doctor", cwd=tmp_path)
    assert done.code == 1
    assert 'pip install "residua[polars]"' in done.out
    assert 'pip install "residua[measure]"' in done.out
    assert [line.split()[1] for line in done.out.splitlines() if line.startswith("numpy ")] == ["MISSING"]
    assert "Something that is needed does not work." in done.out


def test_without_the_extra_it_says_what_works_and_what_measuring_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = doctor._installed
    monkeypatch.setattr(doctor, "_installed", lambda name: None if name == "numba" else real(name))
    done = inside("doctor", cwd=tmp_path)
    assert done.code == 0
    last = 'Declaring, planning and reading work; measuring needs: pip install "residua[measure]"'
    assert done.out.splitlines()[-1] == last


def test_a_disk_that_grants_a_lock_twice_is_no_place_for_a_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "lock", lambda handle, **how: None)
    assert "keep ledgers on a local disk" in str(parts(tmp_path)["locks"]["detail"])
    assert inside("doctor", cwd=tmp_path).code == 1


def test_the_version_names_the_commit_of_a_checkout_or_of_the_wheel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = inside("--version", cwd=tmp_path).out
    assert said.startswith(f"residua {__version__}")
    (tmp_path / "commit.txt").write_text("0123456789abcdef\n")
    monkeypatch.setattr(doctor, "files", lambda package: tmp_path)
    assert doctor.version_line() == f"residua {__version__} (commit 0123456789ab)"
    (tmp_path / "commit.txt").unlink()
    assert doctor.version_line() == f"residua {__version__}"
    source, package = tmp_path / "src", tmp_path / "src" / "residua"
    package.mkdir(parents=True)
    monkeypatch.setattr(doctor, "files", lambda name: package)
    as_someone = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    calm = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull}
    for order in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "first"]):
        subprocess.run([*as_someone, *order], check=True, env=calm)
    assert source.is_dir()
    assert " (commit " in doctor.version_line()
