"""Releases: estimates, error bars, tables and folders, from noisy integers alone."""

from residua.release.folder import reserve
from residua.release.release import Estimate, Release
from residua.release.table import Table

__all__ = ["Estimate", "Release", "Table", "reserve"]
