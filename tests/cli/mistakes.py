"""What every mistake must come to: one sentence on standard error, a code by its kind, and nothing spent or written."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.cli.command import COMMAND, SPEC, Ended, inside, released, with_ledger

RELEASE = ("release", "spec.toml", "--out", "out")


def everything(folder: Path) -> dict[str, object]:
    """Every file, folder and link below a folder, with its content."""
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        found[str(path)] = path.readlink() if path.is_symlink() else path.read_bytes() if path.is_file() else None
    return found


def one_sentence(done: Ended, *parts: str) -> None:
    """An exit code of a refusal, one line on standard error, no traceback, nothing on standard output."""
    assert done.refused, done
    assert done.out == ""
    assert done.err.startswith("residua: "), done.err
    assert done.err.count("\n") == 1, done.err
    assert done.err.rstrip("\n").endswith((".", "?", "residua init."))
    assert "Traceback" not in done.err
    for part in parts:
        assert part in done.err, (part, done.err)


def refused(folder: Path, *parts: str, args: tuple[str, ...] = RELEASE, run: Callable[..., Ended] = inside) -> None:
    """One sentence with these parts; and the folder (ledger and all) is as it was."""
    with_ledger(args, folder)
    before = everything(folder)
    one_sentence(run(*args, cwd=folder), *parts)
    assert everything(folder) == before


def spent(folder: Path, rho: float = 0.5) -> Path:
    """A ledger from which this release's dataset has taken its share."""
    released(folder, spec=SPEC.replace("rho = 0.5", f"rho = {rho}"), out="earlier")
    (folder / "spec.toml").write_text(SPEC)
    return folder / "people.ledger"


def started(before: str, *args: str, cwd: Path) -> Ended:
    program = f"import os, sys; {before}os.execv(sys.argv[1], sys.argv[1:])"
    done = subprocess.run(
        [sys.executable, "-c", program, str(COMMAND), *args], cwd=cwd, capture_output=True, text=True, timeout=600
    )
    return Ended(done.returncode, done.stdout, done.stderr)
