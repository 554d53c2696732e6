"""Every command takes --json, and what it then prints is JSON and nothing else."""

import json
from pathlib import Path
from typing import Any

import pytest
import typer

from residua.cli.main import app
from tests.cli.command import inside, released


def commands(group: object, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    below = getattr(group, "commands", None)
    if below is None:
        return [path]
    return [one for name, command in below.items() for one in commands(command, (*path, name))]


@pytest.mark.parametrize("path", commands(typer.main.get_command(app)), ids=" ".join)
def test_every_command_takes_json(path: tuple[str, ...], tmp_path: Path) -> None:
    assert "--json" in inside(*path, "--help", cwd=tmp_path).out


@pytest.mark.parametrize("path", commands(typer.main.get_command(app)), ids=" ".join)
def test_every_argument_and_option_says_what_it_is(path: tuple[str, ...]) -> None:
    command: Any = typer.main.get_command(app)
    for name in path:
        command = command.commands[name]
    assert command.help
    assert "Args" not in command.help
    assert not [one.name for one in command.params if not one.help]


@pytest.mark.parametrize(
    ("words", "wrote"),
    [
        (["project", "out", "--out", "projected"], "projected"),
        (["tables", "out", "--out", "all", "--format", "long"], "all/tables.parquet"),
        (["report", "out", "--out", "page.html"], "page.html"),
        (["init", "people.csv", "--out", "new: odd; name.toml"], "new: odd; name.toml"),
        (["tables", "out"], None),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_what_was_written_is_named(words: list[str], wrote: str | None, tmp_path: Path) -> None:
    released(tmp_path)
    done = inside(*words, "--json", cwd=tmp_path)
    assert done.code == 0, done.err
    said = json.loads(done.out)
    assert said["said"]
    if wrote is not None:
        assert said["wrote"] == [wrote]
        assert (tmp_path / wrote).exists()


def test_a_mistake_prints_no_json(tmp_path: Path) -> None:
    done = inside("project", "nowhere", "--out", "projected", "--json", cwd=tmp_path)
    assert done.refused
    assert done.out == ""
