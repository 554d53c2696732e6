"""Where the records come from: one protocol, the engines behind it, and the counting of tables."""

from residua.source.given import source_of
from residua.source.source import Source

__all__ = ["Source", "source_of"]
