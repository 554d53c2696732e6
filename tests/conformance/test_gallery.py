"""The ten tasks of the gallery run, cell by cell; `scripts/site` runs them once more, to show what they print."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path

import pytest

PAGES = sorted((Path(__file__).parents[2] / "docs" / "gallery").glob("*.md"))


@pytest.mark.parametrize("page", PAGES, ids=[page.stem for page in PAGES])
def test_every_cell_of_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    cells = re.findall(r"```\{code-cell\} python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    assert len(cells) >= 2
    names: dict[str, object] = {}
    for number, cell in enumerate(cells, start=1):
        exec(compile(cell, f"{page.name}, cell {number}", "exec"), names)


def test_the_list_of_tasks_has_every_page() -> None:
    told = (PAGES[0].parents[1] / "gallery.md").read_text(encoding="utf-8")
    assert {name.partition("/")[2] for name in re.findall(r"^gallery/\S+$", told, re.MULTILINE)} == {
        page.stem for page in PAGES
    }
    assert all(f"(gallery/{page.stem}.md)" in told for page in PAGES)
