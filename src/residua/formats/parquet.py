"""Parquet, with what a reader must know in the file's own metadata."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

from residua.formats.cube import Cube
from residua.formats.writer import Writer
from residua.machine import pyarrow


class Parquet(Writer):
    """Writes one Parquet file per table."""

    def add(self, cube: Cube) -> Path:
        """Writes a table; its metadata is JSON under the key `residua`, and the title under `title`."""
        titles = {each.name: {"title": each.title, "values": dict(zip(map(str, each.labels), each.titles, strict=True))}
                  for each in cube.dimensions}  # fmt: skip
        metadata = self.about.beside(cube.counted).metadata(cube.title, dimensions=titles)
        path = self.folder / f"{cube.name}.parquet"
        batches = cube.batches()
        first = next(batches)
        with pyarrow.parquet.ParquetWriter(path, first.schema.with_metadata(metadata)) as writer:
            for batch in chain([first], batches):
                writer.write_batch(batch.replace_schema_metadata(metadata))
        return path
