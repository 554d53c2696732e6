"""A test that hangs is ended and named; one that is busy, or waits for what is busy, is not."""

import subprocess
import sys
from pathlib import Path

TESTS = """
import subprocess, sys, threading, time
def test_busy():
    end = time.process_time() + 0.8
    while time.process_time() < end:
        pass
def test_waits_for_what_is_busy():
    work = "import time; end = time.process_time() + 0.8\\nwhile time.process_time() < end: pass"
    subprocess.run([sys.executable, "-c", work], check=True)
def test_waits_for_what_sleeps():
    assert subprocess.run(["sleep", "60"]).returncode == 0
def test_hangs():
    threading.Event().wait()
"""
RUN = """
import sys, pytest
sys.path.insert(0, sys.argv[1])
from tests.hangs import Hangs
sys.exit(pytest.main(["-v", "-p", "no:cacheprovider", sys.argv[2]], plugins=[Hangs(2.0, 0.02, 0.4)]))
"""


def test_what_hangs_is_named_and_what_is_busy_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-c", RUN, str(Path(__file__).parents[1]), str(tmp_path / "test_some.py")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 70
    ended = [line.split()[:2] for line in done.stdout.splitlines() if "::test_" in line and "PASSED" in line]
    assert [name.split("::")[1] for name, _ in ended] == ["test_busy", "test_waits_for_what_is_busy"], done.stdout
    assert "test_waits_for_what_sleeps hangs: less than 0.02 s of a processor's time in 2 s" in done.stderr
    assert "test_waits_for_what_sleeps FAILED" in done.stdout
    assert "test_hangs hangs" in done.stderr
    assert "in test_hangs" in done.stderr  # where it waits
