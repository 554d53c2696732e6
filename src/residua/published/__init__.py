"""Published numbers as tidy tables: columns, error bars, quality flags, and the formats they are written in."""

from residua.published.columns import Columns, Flagged
from residua.published.quality import qualities
from residua.published.table import Answers, Rows, Table

__all__ = ["Answers", "Columns", "Flagged", "Rows", "Table", "qualities"]
