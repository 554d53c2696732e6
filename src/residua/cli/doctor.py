"""`residua doctor` and `--version`: what is installed, and which parts of this machine work. It sends nothing."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from importlib.resources import files
from pathlib import Path

from residua import __version__
from residua.cli.show import out, print_json
from residua.disk import keep_room, lock, sync, unlock
from residua.errors import ResiduaError
from residua.machine import free_bytes, processors
from residua.screen import PlainTable

_FOR_DEVELOPERS = ("docs", "test", "bench")
_MEASURE = "measure"  # which extras that read data bring
_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)[^;]*(?:;.*extra == ['\"]([\w-]+)['\"])?")


@dataclass(frozen=True)
class Part:
    """A part of the installation or the machine.

    Attributes:
        name: what it is.
        works: whether it is there and does what it must.
        needed: whether residua is of no use without it.
        detail: its version, or what to do.
    """

    name: str
    works: bool
    needed: bool
    detail: str


def version_line() -> str:
    """The version, with the commit that it was built from where that is known."""
    commit = _commit()
    return f"residua {__version__}" + (f" (commit {commit[:12]})" if commit else "")


def print_parts(*, as_json: bool) -> bool:
    """Prints every part; whether all that is needed works."""
    parts = [*_libraries(), *_machine()]
    fine = all(part.works for part in parts if part.needed)
    if as_json:
        print_json(
            {"version": __version__, "commit": _commit(), "fine": fine, "parts": [asdict(part) for part in parts]}
        )
        return fine
    out.print(f"{version_line()}, Python {platform.python_version()}, {platform.platform()}")
    words = {(True, True): "ok", (True, False): "ok", (False, True): "MISSING", (False, False): "not there"}
    rows = [[part.name, words[part.works, part.needed], part.detail] for part in parts]
    out.print(PlainTable(["part", "", ""], [], rows))
    reads = f'Declaring, planning and reading work; measuring needs: pip install "residua[{_MEASURE}]"'
    measures = all(part.works for part in parts if part.name == f"[{_MEASURE}]")
    works = "All that is needed works." if measures else reads
    out.print(works if fine else "Something that is needed does not work.")
    return fine


def _commit() -> str | None:
    """The commit in the wheel, or that of the checkout which is installed as it is."""
    built = files("residua") / "commit.txt"
    if built.is_file():
        return built.read_text().strip()
    root = Path(str(files("residua"))).parents[1]
    if not (root / ".git").exists() or shutil.which("git") is None:
        return None
    asked = subprocess.run(["git", "-C", root, "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return asked.stdout.strip() or None


def _libraries() -> Iterator[Part]:
    """Every library that is declared, and each extra as a whole."""
    extras: dict[str, list[str]] = {}
    declared = requires("residua") or ()
    for requirement in sorted(declared, key=lambda line: _MEASURE not in line.partition("extra == ")[2]):
        name, extra = _REQUIREMENT.match(requirement).groups()  # type: ignore[union-attr]
        if extra is None:
            there = _installed(name)
            yield Part(name, there is not None, needed=True, detail=there or "pip install residua installs it")
        elif extra not in _FOR_DEVELOPERS and (extra == _MEASURE or name not in extras.get(_MEASURE, ())):
            extras.setdefault(extra, []).append(name)
    for extra, names in extras.items():
        own = [f"{name} {_installed(name)}" for name in names if _installed(name)]
        whole = len(own) == len(names)
        detail = ", ".join(own) if whole else f'pip install "residua[{extra}]"'
        yield Part(f"[{extra}]", whole, needed=False, detail=detail)


def _installed(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _machine() -> Iterator[Part]:
    """What files, memory and other programs there are."""
    for name, tried in (("locks", _locks), ("durable writes", _writes)):
        works, detail = _tried(tried)
        yield Part(name, works, needed=True, detail=detail)
    memory = free_bytes()
    free = "free memory unknown" if memory is None else f"{memory / 1e9:.1f} GB free"
    yield Part("machine", True, needed=True, detail=f"{processors()} processors, {free}")
    encoding = sys.stdout.encoding or "none"
    unicode = encoding.lower().replace("-", "") == "utf8"
    yield Part("UTF-8 output", unicode, needed=False, detail=encoding if unicode else f"{encoding}; set PYTHONUTF8=1")
    java = shutil.which("java")
    yield Part("Java, for Spark", java is not None, needed=False, detail=java or "install a Java runtime")


def _tried(work: Callable[[Path], str]) -> tuple[bool, str]:
    try:
        with tempfile.TemporaryDirectory(dir=Path.cwd(), prefix=".residua-doctor-") as folder:
            return True, work(Path(folder) / "file")
    except (OSError, ResiduaError) as problem:
        return False, str(problem)


def _locks(path: Path) -> str:
    """Holds a file, and sees that another opening of it cannot."""
    with path.open("wb") as first, path.open("wb") as second:
        lock(first.fileno())
        try:
            lock(second.fileno(), wait=False)
        except BlockingIOError:
            unlock(first.fileno())
            return f"two processes cannot spend one budget in {path.parents[1]}"
    raise OSError(f"{path.parents[1]} grants one lock twice; keep ledgers on a local disk")


def _writes(path: Path) -> str:
    """Writes, syncs and replaces a file, as a ledger does."""
    with path.open("wb") as file:
        keep_room(file.fileno(), 4096)
        file.write(b"residua")
        file.flush()
        sync(file.fileno())
    other = path.with_suffix(".new")
    other.write_bytes(b"residua")
    other.replace(path)
    return "files are reserved, synced and replaced"
