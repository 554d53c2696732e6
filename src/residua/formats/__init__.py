"""The formats in which statistical offices publish tables: what each holds is in docs/formats.md."""

from residua.formats.export import FORMATS, export

__all__ = ["FORMATS", "export"]
