"""The pages that are made from the sources are current, and no page or docstring cites what a reader cannot open."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from scripts import architecture, reference

ROOT = Path(__file__).parents[1]
ELSEWHERE = re.compile(r"\b(DESIGN|SOLVERS|STYLE)\b|\bissue \d|shared/")
LINK = re.compile(r"\]\(([^)#:]+)(?:#[^)]*)?\)")
PATH = re.compile(r"`((?:docs|tests|scripts|benchmarks)/[\w./-]*|[\w/]+\.py)`")


@pytest.mark.parametrize("page", [architecture, reference], ids=["architecture", "reference"])
def test_what_is_made_from_the_sources_is_current(page):
    committed = page.PICTURE if page is architecture else page.PAGE
    assert committed.read_text() == page.drawn(), f"run: bash scripts/docs, and commit {committed.relative_to(ROOT)}"


def test_the_picture_shows_an_import_that_breaks_the_contract():
    contract = architecture.Contract("one way", (("a.high",), ("a.low",)))
    drawn = "".join(architecture.panel(contract, {("a.low", "a.high")}, 0))
    assert "a.low imports a.high" in drawn


def _texts() -> list[Path]:
    kinds = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("src/**/*.py"), *ROOT.glob("benchmarks/*.*")]
    return [path for path in kinds if path.suffix in {".md", ".py"}]


def test_nothing_outside_the_repository_is_cited():
    found = {str(path.relative_to(ROOT)): ELSEWHERE.findall(path.read_text()) for path in _texts()}
    assert {path: words for path, words in found.items() if words} == {}


def test_every_link_and_path_leads_somewhere():
    missing = []
    for page in (path for path in _texts() if path.name != "CHANGELOG.md"):
        text = page.read_text()
        near = [page.parent, *page.parents, ROOT / "src" / "residua"]  # a docstring names its neighbours
        wanted = [(path, near) for path in PATH.findall(text)]
        wanted += [(link, [page.parent]) for link in LINK.findall(text) if page.suffix == ".md"]
        missing += [
            (page.name, path) for path, places in wanted if not any((place / path).exists() for place in places)
        ]
    assert missing == []


def test_the_map_names_folders_that_there_are_and_fits_two_pages():
    text = (ROOT / "docs" / "architecture.md").read_text()
    folders = re.findall(r"`([a-z_]+(?:/[a-z_]+)*/)`", text)
    assert len(folders) > 20
    assert [name for name in folders if not any((at / name).is_dir() for at in (ROOT, ROOT / "src" / "residua"))] == []
    assert len(re.sub(r"[|]|---", " ", text).split()) <= 1_020


def test_the_readme_is_two_screens():
    """Its first commands set everything up; one example; ten links at most; the rest is the site's."""
    text = (ROOT / "README.md").read_text()
    assert text.split("```sh\n")[1].split()[:2] == ["bash", "scripts/demo"]
    assert len(re.findall(r"(?<!!)\[[^\]]*\]\(", text)) <= 10
    assert text.count("```python") == 1
    assert len(text.splitlines()) <= 70
