"""What pyproject.toml declares is what scripts/lowest tests, and what a stranger is told of the package."""

from __future__ import annotations

import re
import runpy
import sys
import tomllib
from importlib.metadata import metadata
from importlib.resources import files
from pathlib import Path

import pytest
import yaml

from residua import __version__
from residua.machine import MEASURING

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
TESTED = ("measure", "pandas", "polars")  # extras that the core tests need
LOWEST = dict(
    line.split(" ;")[0].split("==")
    for line in (ROOT / "requirements" / "lowest.txt").read_text().splitlines()
    if not line.startswith("#")
)


def _floors(requirements: list[str]) -> dict[str, str]:
    parsed = [re.fullmatch(r"([A-Za-z0-9-]+)(?:\[\w,-]+\])?>=([\d.]+)", one) for one in requirements]
    assert all(parsed), requirements
    return {one[1]: one[2] for one in parsed if one}


def _number(version: str) -> tuple[int, ...]:
    parts = [int(part) for part in version.split(".")]
    while parts and not parts[-1]:
        parts.pop()
    return tuple(parts)


@pytest.mark.parametrize("group", ["dependencies", *TESTED])
def test_the_lowest_versions_that_are_declared_are_the_ones_that_are_tested(group: str) -> None:
    declared = PROJECT["dependencies"] if group == "dependencies" else PROJECT["optional-dependencies"][group]
    for name, floor in _floors(declared).items():
        assert _number(LOWEST[name]) == _number(floor), f"{name}: compile requirements/lowest.txt again"


@pytest.mark.parametrize("name", ["constraints.txt", "requirements/lowest.txt", "requirements/lowest.in"])
def test_requirements_name_packages_and_versions_and_no_host(name: str) -> None:
    for line in (ROOT / name).read_text().splitlines():
        assert line.startswith("#") or re.fullmatch(r"[a-z0-9.-]+==[\w.]+( ; .+)?", line), line
        assert "://" not in line
        assert "--index" not in line


def test_the_metadata_are_complete() -> None:
    told = metadata("residua")
    assert told["License-Expression"] == "Apache-2.0"
    assert set(told.get_all("License-File") or ()) == {"LICENSE", "NOTICE"}
    classifiers = told.get_all("Classifier") or ()
    assert {f"Programming Language :: Python :: 3.{minor}" for minor in (11, 12, 13, 14)} < set(classifiers)
    assert "Typing :: Typed" in classifiers
    assert (Path(str(files("residua"))) / "py.typed").is_file()
    assert told["Requires-Python"] == ">=3.11"


CONDA_NAMES = {"duckdb": "python-duckdb"}


def test_the_conda_recipe_and_the_citation_say_what_the_project_says() -> None:
    recipe = yaml.safe_load((ROOT / "packaging" / "conda" / "recipe.yaml").read_text())
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {recipe["context"]["version"], citation["version"], __version__} == {PROJECT["version"]}
    assert {recipe["about"]["license"], citation["license"]} == {PROJECT["license"]}
    whole = PROJECT["dependencies"] + PROJECT["optional-dependencies"]["measure"]  # conda has no extras
    floors = {CONDA_NAMES.get(name, name): floor for name, floor in _floors(whole).items()}
    run = dict(line.split(" >=") for line in recipe["requirements"]["run"])
    assert run == {"python": PROJECT["requires-python"].removeprefix(">="), **floors}


def test_what_measuring_needs_is_one_extra_and_every_sentence_names_it() -> None:
    named = {name.replace("-", "_") for name in _floors(PROJECT["optional-dependencies"]["measure"])}
    assert named == set(MEASURING)


def test_workflows_run_the_command_of_the_readme() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text())
    commands = [step["run"] for step in workflow["jobs"]["test"]["steps"] if "run" in step]
    assert commands == [(ROOT / ".ci" / "run").read_text().splitlines()[-1]]
    assert commands[0] in (ROOT / "README.md").read_text()
    for path in [*(ROOT / ".github").rglob("*.yml"), ROOT / ".readthedocs.yaml"]:
        assert isinstance(yaml.safe_load(path.read_text()), dict), path


def test_the_manual_page_says_what_the_command_says() -> None:
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        from man import page
    finally:
        sys.path.pop(0)
    assert (ROOT / "packaging" / "man" / "residua.1").read_text() == page(), "run: bash scripts/docs"


def test_who_publishes_is_said_in_one_place() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "owner.py"))
    for file in script["PLACES"]:
        assert script["written"](file, script["owner"]()) == (ROOT / file).read_text("utf-8"), "run: scripts/owner.py"
    other = {name: f"another {name}" for name in script["owner"]()}
    told = "".join(script["written"](file, other) for file in script["PLACES"])
    assert [told.count(value) for value in other.values()] == [4, 1, 1]


def test_addresses_are_those_that_the_publisher_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    hook = runpy.run_path(str(ROOT / "hatch_build.py"))["CustomMetadataHook"](str(ROOT), {})
    stated: dict[str, dict[str, str]] = {}
    monkeypatch.setenv("RESIDUA_REPOSITORY", "https://example.org/residua/")
    hook.update(stated)
    assert stated["urls"]["Issues"] == "https://example.org/residua/issues"
    monkeypatch.delenv("RESIDUA_REPOSITORY")
    hook.update(stated)
    assert stated["urls"] == {}
