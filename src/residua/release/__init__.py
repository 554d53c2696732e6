"""Releases: estimates, error bars, tables and folders, from noisy integers alone."""

from residua.published.table import Table
from residua.release.base import Answered, Estimate, Release
from residua.release.change import change
from residua.release.folder import reserve
from residua.release.given import Given
from residua.release.pooled import pooled
from residua.release.weighted import Weighted, squares_folder, weighted

__all__ = [
    "Answered",
    "Estimate",
    "Given",
    "Release",
    "Table",
    "Weighted",
    "change",
    "pooled",
    "reserve",
    "squares_folder",
    "weighted",
]
