"""Releases: estimates, error bars, tables and folders, from noisy integers alone."""

from residua.release.base import Estimate, Release
from residua.release.dense import DenseRelease
from residua.release.folder import reserve
from residua.release.product import ProductRelease
from residua.release.residual import ResidualRelease
from residua.release.table import Answers, Table

__all__ = ["Answers", "DenseRelease", "Estimate", "ProductRelease", "Release", "ResidualRelease", "Table", "reserve"]
