"""What other package managers make of this repository: a conda package is built, the container's recipe is linted."""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest
import rattler_build as conda
from hatchling import __file__ as hatchling_file

from tests.test_requirements import PROJECT, ROOT

SITE = Path(hatchling_file).parents[1]


def _python(folder: Path) -> Path:
    """What a conda package of this interpreter holds: a prefix of its own that sees what is installed here."""
    version = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    packages, home = folder / "lib" / version / "site-packages", Path(os.path.realpath(sys.executable))
    packages.mkdir(parents=True)
    (folder / "bin").mkdir()
    (folder / "bin" / "python").symlink_to(home)
    (folder / "bin" / version).symlink_to(home)
    (folder / "pyvenv.cfg").write_text(f"home = {home.parent}\n")
    (packages / "here.pth").write_text(f"{SITE}\n{sysconfig.get_path('purelib')}\n")
    return folder


def test_the_conda_recipe_builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By rattler-build, from a channel of empty packages at the lowest versions that the recipe names, and this Python.

    The channel of the world is out of reach of tests; that its packages have the names of ours is not shown here.
    """
    monkeypatch.setenv("RATTLER_CACHE_DIR", str(tmp_path / "cache"))
    (rendered,) = conda.Stage0Recipe.from_file(ROOT / "packaging" / "conda" / "recipe.yaml").render(
        conda.VariantConfig()
    )
    asked = rendered.recipe.to_dict()["requirements"]
    channel = tmp_path / "channel"
    for line in sorted({*asked["host"], *asked["run"]}):
        name, _, version = line.partition(" >=")
        files = _python(tmp_path / "python") if name == "python" else None
        number = "{}.{}.{}".format(*sys.version_info) if files else version or "1"
        conda.assemble_package(name, number, "noarch", "0", channel / "noarch", files_dir=files, noarch="generic")
    done = rendered.run_build(output_dir=channel, channels=[channel.as_uri()], package_format="conda:1")
    (package,) = done.packages
    with zipfile.ZipFile(package) as parts:
        assert {name.split("-")[0] for name in parts.namelist()} == {"metadata.json", "info", "pkg"}
    assert (done.name, done.version) == (PROJECT["name"], PROJECT["version"])
    assert package.stat().st_size > 10**6
    index = json.loads((channel / "noarch" / "repodata.json").read_text())
    (entry,) = (each for each in index["packages.conda"].values() if each["name"] == PROJECT["name"])
    assert sorted(entry["depends"]) == sorted(asked["run"])


def test_what_the_container_copies_is_enough_to_build_the_wheel_that_is_tested(tmp_path: Path) -> None:
    """No engine that builds images runs here: the folder is filled as COPY would, and pip's backend builds from it."""
    _, first, *_ = (ROOT / "Containerfile").read_text().split("\nFROM ")
    for line in re.findall(r"^COPY (.*)$", first, re.MULTILINE):
        *names, _ = line.split()
        for name in names:
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            copy(ROOT / name, tmp_path / name)
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", "dist"]
    subprocess.run(command, cwd=tmp_path, capture_output=True, check=True)
    with zipfile.ZipFile(next((tmp_path / "dist").iterdir())) as wheel:
        names = wheel.namelist()
    assert {"residua/cli/main.py", "residua/tests/core.py"} <= set(names)
    assert any(name.endswith("man1/residua.1") for name in names)


def test_the_container_has_nothing_to_lint() -> None:
    command = [str(Path(sys.executable).with_name("hadolint")), "--no-color", str(ROOT / "Containerfile")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
