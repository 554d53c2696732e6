"""Published numbers as tidy tables: columns, error bars, quality flags, and the formats they are written in."""

from residua.published.columns import Columns, Flagged
from residua.published.quality import qualities
from residua.published.table import Table

__all__ = ["Columns", "Flagged", "Table", "qualities"]
