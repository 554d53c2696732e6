"""The engineer's walk: exit codes, JSON, allotments, verify, a forged release, a lost and a restored ledger."""

import os
import subprocess
from pathlib import Path
from unittest import mock

from tests.cli.command import inside

SCRIPT = Path(__file__).parents[2] / "scripts" / "engineer"
# A residua that asks this process, which has everything loaded: the script runs as it is, some 25 seconds quicker.
SHIM = """#!/bin/bash
printf '%s\\0' "$@" >"$ASKING/ask"
code=$(cat "$ASKING/answer")
cat "$ASKING/out"
cat "$ASKING/err" >&2
exit "$code"
"""


def test_the_walk_is_as_documented(tmp_path: Path) -> None:
    folder, asking = tmp_path / "walk", tmp_path / "asking"
    folder.mkdir()
    asking.mkdir()
    (asking / "residua").write_text(SHIM)
    (asking / "residua").chmod(0o755)
    os.mkfifo(asking / "ask")
    os.mkfifo(asking / "answer")
    env = {**os.environ, "ASKING": str(asking), "PATH": f"{asking}:{os.environ['PATH']}"}
    walk = f'bash "{SCRIPT}" "{folder}" >"{asking}/said" 2>&1; printf "END\\0%s\\0" $? >"{asking}/ask"'
    with subprocess.Popen(["bash", "-c", walk], env=env):
        while (args := (asking / "ask").read_bytes().decode().split("\0")[:-1])[0] != "END":
            with mock.patch.dict(os.environ, RESIDUA_LOG="night.jsonl"):  # as the script says
                done = inside(*args, cwd=folder, ledger=False)
            (asking / "out").write_text(done.out)
            (asking / "err").write_text(done.err)
            (asking / "answer").write_text(str(done.code))
    said = (asking / "said").read_text()
    assert args[1] == "0", said
    assert "The walk is done" in said
