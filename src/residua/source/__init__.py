"""Where the records come from: one protocol, the engines behind it, and the counting of tables."""

from residua.source.source import Source, source_of
from residua.source.weights import Weights

__all__ = ["Source", "Weights", "source_of"]
