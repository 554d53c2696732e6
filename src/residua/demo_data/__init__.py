"""Bundled example data: UCI Adult, CC BY 4.0; see ATTRIBUTION.md."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path


def demo_folder() -> Path:
    """The folder of the bundled specification and data."""
    return Path(str(files("residua.demo_data")))
