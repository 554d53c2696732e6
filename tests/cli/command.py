"""How the tests of the command run it: as a real process, or in this one; and a small specification to run it on."""

import contextlib
import io
import os
import pty
import re
import select
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import residua as rs
from residua.cli.main import main
from residua.cli.spec import read_spec
from residua.cli.steps import create_ledger

COMMAND = Path(sys.executable).with_name("residua")

SPEC = """
[source]
path = "people.csv"

[privacy]
rho = 0.5

[ledger]
path = "people.ledger"
rho = 1.0

[[workload]]
ways = [0, 1, 2]

[domain.sex]
values = ["F", "M"]

[domain.age]
low = 0
high = 3
"""
RECORDS = [("F", 0), ("M", 1), ("F", 2), ("M", 3), ("M", 3)] * 400
DATA = "sex,age\n" + "".join(f"{sex},{age}\n" for sex, age in RECORDS)
FILES = {"release.json", "plan.json", "measurements.npy", "measured.json", "codebook.toml", "PRIVACY.md"}


@dataclass(frozen=True)
class Ended:
    """How a run of the command ended."""

    code: int
    out: str
    err: str

    @property
    def refused(self) -> bool:
        """Whether it refused, for whichever reason; tests/cli/test_exit_codes.py has the codes."""
        return self.code in (2, 3, 4, 5)


def with_ledger(args: tuple[str, ...], cwd: Path) -> None:
    """Makes the ledger of a specification that is to be released and has none, as a user does once."""
    if args[:1] in (("release",), ("persons",)):
        with contextlib.suppress(rs.ResiduaError, IndexError), contextlib.chdir(cwd):
            create_ledger(read_spec(Path(args[1])))


def process(*args: str, cwd: Path, ledger: bool = True, **settings: object) -> Ended:
    """Runs the installed command, as a user does; what it releases has a ledger, unless that is not wanted."""
    if ledger:
        with_ledger(args, cwd)
    env = {**os.environ, "PYTHONWARNINGS": "error::RuntimeWarning", "COLUMNS": "80"}
    done = subprocess.run(  # type: ignore[call-overload]
        [str(COMMAND), *args], cwd=cwd, capture_output=True, text=True, env=env, timeout=600, **settings
    )
    return Ended(done.returncode, done.stdout, done.stderr)


def inside(*args: str, cwd: Path, ledger: bool = True) -> Ended:
    """Runs the command in this process, which is a second quicker; exceptions that it lets through are errors."""
    if ledger:
        with_ledger(args, cwd)
    out, err, code = io.StringIO(), io.StringIO(), 0
    with contextlib.chdir(cwd), mock.patch.object(sys, "argv", ["residua", *args]):  # noqa: SIM117
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                main()
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    return Ended(code, out.getvalue(), err.getvalue())


def released(folder: Path, *, spec: str = SPEC, out: str = "out") -> rs.Release:
    """A release of the small specification, made by the command."""
    (folder / "spec.toml").write_text(spec, encoding="utf-8")
    if not (folder / "people.csv").exists():
        (folder / "people.csv").write_text(DATA, encoding="utf-8")
    done = inside("release", "spec.toml", "--out", out, cwd=folder)
    assert done.code == 0, done.err
    return rs.Release.load(folder / out)


def near(release: rs.Release, count: int) -> bool:
    """Whether the total is within 8 deviations: false alarm below 1e-14, power 1 against what the tests change."""
    total = release.count()
    return abs(total.estimate - count) < 8 * total.stddev


def in_terminal(*args: str, cwd: Path) -> tuple[int, str]:
    """Runs the command in a pseudo-terminal; returns its exit code and all it wrote."""
    master, slave = pty.openpty()
    env = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", "LINES": "40"}
    child = subprocess.Popen([str(COMMAND), *args], cwd=cwd, stdin=slave, stdout=slave, stderr=slave, env=env)
    os.close(slave)
    written = b""
    while select.select([master], [], [], 600)[0]:
        try:
            part = os.read(master, 65_536)
        except OSError:  # Linux says so when the last writer is gone
            break
        if not part:
            break
        written += part
    os.close(master)
    return child.wait(600), written.decode()


def visible(written: str) -> list[str]:
    """What stays on the screen: a small terminal that knows what progress bars use."""
    lines, row = [""], 0
    column = 0
    for token in re.findall(r"\x1b\[[?\d;]*[A-Za-z]|\r|\n|[^\x1b\r\n]+", written):
        if token == "\n":
            row, column = row + 1, 0
            lines += [""] * (row + 1 - len(lines))
        elif token == "\r":
            column = 0
        elif token.startswith("\x1b["):
            if token.endswith("A"):
                row = max(0, row - int(token[2:-1] or 1))
            elif token.endswith("K"):
                lines[row] = "" if token == "\x1b[2K" else lines[row][:column]
        else:
            lines[row] = lines[row][:column].ljust(column) + token + lines[row][column + len(token) :]
            column += len(token)
    return [line.rstrip() for line in lines]
