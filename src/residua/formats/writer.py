"""What every format has in common: a writer that takes tables one after the other, and knows how to end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path

from residua.formats.about import About
from residua.formats.cube import Cube


class Writer(ABC):
    """Writes tables into a folder, one after the other; none is kept.

    Args:
        folder: where; it becomes visible when all is written.
        about: what stands beside every table.
    """

    def __init__(self, folder: Path, about: About) -> None:
        self.folder, self.about = folder, about

    @abstractmethod
    def add(self, cube: Cube) -> Path:
        """Writes a table; the file it is in."""

    def close(self) -> None:  # noqa: B027 – most have nothing to do
        """Writes what stands beside all tables."""

    def abandon(self) -> None:  # noqa: B027
        """Lets go of what is open, when something went wrong: the folder disappears."""
