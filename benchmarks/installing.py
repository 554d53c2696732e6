"""Which Python, which way of installing → the first release in how many seconds: `python -m benchmarks.installing`.

Wheel and sdist are built once. Each row installs into an environment of its own, with the newest versions that the
index has, and then runs `residua demo`, whose first run compiles and keeps what is compiled; without the extra
`measure`, it plans the demo instead. Interpreters are those of
this machine (on the path, or of pyenv); others are named as not there. `--versions 3.13 3.14` asks for some, and
`--built FOLDER` for what was built before; `bash scripts/python314` runs this with Debian's Python 3.14.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.show import print_rows

VERSIONS = ("3.11", "3.12", "3.13", "3.14")
ROOT = Path(__file__).parents[1]


def interpreter(version: str) -> str | None:
    """An interpreter of this version."""
    kept = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python"))
    return str(kept[-1]) if kept else shutil.which(f"python{version}")


def run(*command: str | Path, cwd: Path) -> float:
    """Runs a command; how many seconds it took."""
    start = time.perf_counter()
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, env=env, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{' '.join(map(str, command))}: {(done.stderr or done.stdout).strip().splitlines()[-1]}")
    return time.perf_counter() - start


def megabytes(folder: Path) -> float:
    """The size of what is in a folder, each file once."""
    files = {
        (file.stat().st_dev, file.stat().st_ino): file.stat().st_size for file in folder.rglob("*") if file.is_file()
    }
    return sum(files.values()) / 1e6


def by_pip(python: str, package: Path, folder: Path, *, extra: str = "[measure]") -> tuple[float, float, float]:
    """A virtual environment and pip."""
    install = run(python, "-m", "venv", "env", cwd=folder)
    empty = megabytes(folder / "env")
    install += run(folder / "env" / "bin" / "pip", "install", "--quiet", f"{package}{extra}", cwd=folder)
    size = megabytes(folder / "env") - empty
    first = ["demo"] if extra else ["plan", ROOT / "src" / "residua" / "demo_data" / "adult.toml"]
    return install, size, run(folder / "env" / "bin" / "residua", *first, cwd=folder)


def by_pip_alone(python: str, package: Path, folder: Path) -> tuple[float, float, float]:
    """The same without the extra that measures."""
    return by_pip(python, package, folder, extra="")


def by_uv(python: str, package: Path, folder: Path) -> tuple[float, float, float]:
    """`uvx`: an environment that uv makes, keeps and finds again."""
    uv = [sys.executable, "-m", "uv", "tool", "run", "--cache-dir", folder / "kept", "--python", python]
    whole = f"{package}[measure]"
    install = run(*uv, "--from", whole, "residua", "--version", cwd=folder)
    size = megabytes(folder / "kept")
    return install, size, run(*uv, "--from", whole, "residua", "demo", cwd=folder)


def by_pipx(python: str, package: Path, folder: Path) -> tuple[float, float, float]:
    """`pipx install`: a command with an environment of its own."""
    os.environ |= {"PIPX_HOME": str(folder / "pipx"), "PIPX_BIN_DIR": str(folder / "bin")}
    install = run(sys.executable, "-m", "pipx", "install", "--python", python, f"{package}[measure]", cwd=folder)
    size = megabytes(folder / "pipx")
    return install, size, run(folder / "bin" / "residua", "demo", cwd=folder)


WAYS: dict[str, tuple[str, Callable[[str, Path, Path], tuple[float, float, float]]]] = {
    "pip, wheel, without an extra": ("*.whl", by_pip_alone),
    "pip, wheel": ("*.whl", by_pip),
    "pip, sdist": ("*.tar.gz", by_pip),
    "uvx, wheel": ("*.whl", by_uv),
    "pipx, wheel": ("*.whl", by_pipx),
}


def rows(versions: Sequence[str], built: Path | None) -> list[list[str]]:
    """A row for each interpreter and way."""
    shown = []
    with tempfile.TemporaryDirectory() as made:
        if built is None:
            built = Path(made)
            run(sys.executable, "-m", "build", "--outdir", made, ROOT, cwd=ROOT)
        for version in versions:
            python = interpreter(version)
            for way, (pattern, install) in WAYS.items():
                named = [f"{platform.system()} {platform.machine()}", version, way]
                if python is None:
                    shown.append([*named, "not there", "", ""])
                    continue
                with tempfile.TemporaryDirectory() as folder:
                    try:
                        seconds, size, first = install(python, next(built.glob(pattern)), Path(folder))
                        shown.append([*named, f"{seconds:.0f}", f"{size:.0f}", f"{first:.1f}"])
                    except RuntimeError as problem:
                        shown.append([*named, str(problem)[-80:], "", ""])
                print(*shown[-1], sep="  ", flush=True)
    return shown


if __name__ == "__main__":
    asked = argparse.ArgumentParser()
    asked.add_argument("--versions", nargs="+", default=VERSIONS)
    asked.add_argument("--built", type=Path)
    shown = rows(**vars(asked.parse_args()))
    print_rows("First release", ["platform", "Python", "way", "installed in s", "MB", "first release in s"], shown)
