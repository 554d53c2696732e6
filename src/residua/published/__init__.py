"""Published numbers as tidy tables: columns, error bars, quality flags, and the formats they are written in."""

from residua.published.quality import Flagged, qualities
from residua.published.table import Answers, Columns, Rows, Table

__all__ = ["Answers", "Columns", "Flagged", "Rows", "Table", "qualities"]
