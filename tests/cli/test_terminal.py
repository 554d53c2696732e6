"""The command for people: the demonstration, progress in a terminal, interruptions and help."""

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

import residua as rs
from residua.cli.main import app
from tests.cli.command import COMMAND, SPEC, in_terminal, inside, near, process, released, visible
from tests.cli.session_command import with_plans


def test_demo_runs_twice_in_an_empty_folder(tmp_path: Path) -> None:
    for run, name in ((process, "residua-demo"), (inside, "residua-demo-2")):
        done = run("demo", cwd=tmp_path)
        assert (done.code, done.err) == (0, "")
        made = tmp_path / name
        assert {path.name for path in made.iterdir()} == {
            "adult.toml", "adult.parquet", "adult.ledger", "ATTRIBUTION.md", "release",
        }  # fmt: skip
        assert "CC BY 4.0" in (made / "ATTRIBUTION.md").read_text()
        release = rs.Release.load(made / "release")
        assert len(release.sets) == 1 + 13 + 78
        assert near(release, 32_561)
        for part in ("Female", "Bachelors", ">50K", "estimate", "Where to look next", f"{name}/release/PRIVACY.md"):
            assert part in done.out
        advised = re.findall(r"^  \S*residua (.*?)(?:   .*)?$", done.out, flags=re.MULTILINE)
        assert len(advised) == 8
    for line in advised:  # every command that it advises works
        assert inside(*line.split(), cwd=tmp_path).code == 0


def test_demo_in_a_terminal_shows_progress_and_leaves_clean_output(tmp_path: Path) -> None:
    code, written = in_terminal("demo", cwd=tmp_path)
    assert code == 0
    assert "counting" in written  # the bar was there,
    screen = visible(written)
    assert not any(word in line for line in screen for word in ("counting", "adding noise", "━"))  # and is gone
    assert written.count("\x1b[?25l") == written.count("\x1b[?25h")  # the cursor is shown again
    assert any("92 tables were asked for" in line for line in screen)
    table = screen.index(next(line for line in screen if line.startswith("sex     estimate")))
    assert re.fullmatch(r"Female  [\d,.]+ +[\d,.]+ +[\d,.]+ +[\d,.]+", screen[table + 1])
    assert re.fullmatch(r"Male    [\d,.]+ +[\d,.]+ +[\d,.]+ +[\d,.]+", screen[table + 2])
    assert screen[[i for i, line in enumerate(screen) if line][-1]].endswith("the privacy statement")


def test_an_error_in_a_terminal_is_one_line(tmp_path: Path) -> None:
    code, written = in_terminal("plan", "nowhere.toml", cwd=tmp_path)
    assert code == 2
    [line] = [line for line in visible(written) if line]
    assert line.startswith("residua: cannot read the specification 'nowhere.toml'")


WRITES_FOR_LONG = """
import signal, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # whoever runs the tests may ignore it
from residua.cli.main import main
from residua.release.folder import Reserved
Reserved.commit = lambda place, *release: time.sleep(600)
main()
"""


def interrupted(made: Path) -> tuple[int, str]:
    """How a demonstration ended that was interrupted while it wrote its release, and what it said."""
    child = subprocess.Popen(
        [sys.executable, "-c", WRITES_FOR_LONG, "demo", "--out", made.name],
        cwd=made.parent,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while child.poll() is None and not list(made.glob(".release.partial-*")):
        time.sleep(0.002)
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=600)
    return child.returncode, err


def test_interrupted_says_where_to_look_and_leaves_nothing_half_written(tmp_path: Path) -> None:
    made = tmp_path / "demo"
    code, err = interrupted(made)
    assert code == 130
    assert err.startswith("residua: interrupted")
    assert "residua ledger" in err
    assert "Traceback" not in err
    assert {path.name for path in made.iterdir()} <= {"adult.toml", "adult.parquet", "adult.ledger", "ATTRIBUTION.md"}
    if (made / "adult.ledger").exists():
        assert len(rs.Ledger(made / "adult.ledger").entries) <= 1


def test_long_planning_says_what_it_takes_and_stops_when_asked(tmp_path: Path) -> None:
    spec = SPEC.replace("high = 3", "high = 499").replace("ways = [0, 1, 2]", 'prefixes = "age"')
    spec = spec.replace("rho = 0.5", "epsilon = 1.0")  # with Laplace noise up to 512 values are searched for long
    (tmp_path / "spec.toml").write_text(spec, encoding="utf-8")
    with subprocess.Popen(
        [str(COMMAND), "plan", "spec.toml"], cwd=tmp_path, stderr=subprocess.PIPE, text=True
    ) as child:
        assert child.stderr is not None
        assert "takes about" in child.stderr.readline()
        child.send_signal(signal.SIGINT)
        assert child.stderr.readline() == "residua: interrupted while planning; nothing was written or spent.\n"
        assert child.wait(timeout=600) == 130


def test_output_that_nobody_reads_is_no_traceback(tmp_path: Path) -> None:
    released(tmp_path, spec=SPEC.replace("high = 3", "high = 9999"))
    done = subprocess.run(
        f"{COMMAND} table out age --csv | head -n 1", shell=True, cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout.startswith('"age"')
    assert "Traceback" not in done.stderr


def test_help_and_usage(tmp_path: Path) -> None:
    assert process("--help", cwd=tmp_path).code == 0
    for command in ("demo", "init", "plan", "release", "table", "ledger"):
        done = CliRunner().invoke(app, [command, "--help"])
        assert done.exit_code == 0
    for wrong in ([], ["tabel"], ["release", "spec.toml"], ["plan"], ["table", "out", "--confidence", "much"]):
        assert inside(*wrong, cwd=tmp_path).refused


def test_a_session_in_a_terminal_shows_progress_and_all_that_it_prints(tmp_path: Path) -> None:
    with_plans(tmp_path)
    for words, parts in {
        ("open",): ["Left   rho 1"],
        ("look", "coarse", "fine", "--share", "0.5", "--snr", "20"): [
            "SNR under fine",
            "To finish fine",
            "Recommended",
        ],
        ("finish", "fine", "--out", "out"): ["Wrote out", "Spent by the session"],
        ("status",): ["Choice 1 between coarse, fine: finished 'fine'", "Left   rho"],
    }.items():
        command = ("session", words[0], "spec.toml", *words[1:])
        if words[0] in ("look", "finish"):
            code, written = in_terminal(*command, cwd=tmp_path)
            assert "pricing" in written
            left = "\n".join(visible(written))
            assert "━" not in left
        else:
            done = inside(*command, cwd=tmp_path)
            code, left = done.code, done.out
        assert code == 0
        for part in parts:
            assert part in left


def test_an_interrupted_session_says_where_to_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*args: object, **options: object) -> None:
        raise KeyboardInterrupt

    with_plans(tmp_path)
    inside("session", "open", "spec.toml", cwd=tmp_path)
    monkeypatch.setattr(rs.Session, "choose", interrupted)
    done = inside("session", "look", "spec.toml", "coarse", "fine", cwd=tmp_path)
    assert done.code == 130
    assert "residua: interrupted; a debit already made stands" in done.err
