"""Folders that the tests of the command run in."""

from pathlib import Path

import pytest

from tests.cli.session_command import DATA, SPEC


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "people.csv").write_text(DATA)
    (tmp_path / "spec.toml").write_text(SPEC)
    return tmp_path
