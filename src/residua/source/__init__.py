"""Where the records come from: one protocol, the engines behind it, and the counting of tables."""

from residua.source.source import Source, source_of

__all__ = ["Source", "source_of"]
