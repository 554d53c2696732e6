"""Writes who publishes residua, of packaging/owner.toml, into every file that says so: `python scripts/owner.py`."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]
# File → what stands around each of these values there.
PLACES = {
    "pyproject.toml": [(r'authors = \[\{ name = "(.*?)" \}\]', "name")],
    "CITATION.cff": [(r'(?m)^authors:\n  - name: "?(.*?)"?$', "name")],
    "r/DESCRIPTION": [(r'person\("(.*?)"', "name"), (r'email = "(.*?)"', "email")],
    "paper/paper.md": [(r"authors:\n  - name: (.*)", "name"), (r"affiliations:\n  - name: (.*)", "affiliation")],
}


def written(file: str, owner: dict[str, str]) -> str:
    """The text of a file with these values."""
    text = (ROOT / file).read_text("utf-8")
    for pattern, key in PLACES[file]:
        found = re.search(pattern, text)
        if found is None:
            raise SystemExit(f"{file} has no place for the {key}")
        text = text[: found.start(1)] + owner[key] + text[found.end(1) :]
    return text


def owner() -> dict[str, str]:
    """What packaging/owner.toml says."""
    return tomllib.loads((ROOT / "packaging" / "owner.toml").read_text("utf-8"))


if __name__ == "__main__":
    for file in PLACES:
        (ROOT / file).write_text(written(file, owner()), "utf-8")
