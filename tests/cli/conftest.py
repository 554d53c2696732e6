"""The folder that most tests of the command run in."""

from pathlib import Path

import pytest

from tests.cli.command import DATA, SPEC


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "spec.toml").write_text(SPEC, encoding="utf-8")
    (tmp_path / "people.csv").write_text(DATA, encoding="utf-8")
    return tmp_path
