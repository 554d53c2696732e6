"""What is asked along an axis, by kind; and floats as text, for the files that keep plans of axes."""

from __future__ import annotations

import base64
import zlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from residua.linalg.arrays import Floats
from residua.linalg.path import Path, ends_path, prefix_path, range_path


@dataclass(frozen=True)
class Asked:
    """What is asked along the axis: the weight of each prefix (one for all, or one for each), range and value.

    Or, alone, `ends`: weights of the n + 1 running sums, from that of nothing on; a range has the product of two.
    """

    prefixes: float | tuple[float, ...] = 0.0
    ranges: float = 0.0
    values: float = 0.0
    ends: tuple[float, ...] = ()

    def path(self, n: int) -> Path:
        """The Gram matrix of the queries."""
        if self.ends:
            return ends_path(np.array(self.ends))
        if isinstance(self.prefixes, tuple):
            return replace(prefix_path(np.array(self.prefixes)), values=self.values)
        return range_path(n, self.prefixes, self.ranges, self.values)

    def to_body(self) -> dict[str, Any]:
        """The weights as plain values."""
        asked = {**vars(self)}
        if self.ends:
            asked["ends"] = packed(np.array(self.ends))
        else:
            del asked["ends"]
        if isinstance(self.prefixes, tuple):
            asked["prefixes"] = packed(np.array(self.prefixes))
        return asked

    @classmethod
    def of_body(cls, body: dict[str, Any]) -> Asked:
        """The weights that plain values describe."""
        asked = dict(body)
        if isinstance(asked["prefixes"], str):
            asked["prefixes"] = tuple(unpacked(asked["prefixes"]).tolist())
        if "ends" in asked:
            asked["ends"] = tuple(unpacked(asked["ends"]).tolist())
        return cls(**asked)


def packed(values: Floats) -> str:
    """Floats as text: what they are, exactly, in a quarter of the room of decimals."""
    return base64.b85encode(zlib.compress(np.ascontiguousarray(values, dtype="<f8").tobytes(), 6)).decode()


def unpacked(text: str) -> Floats:
    """The floats that packed text holds."""
    raw = zlib.decompressobj().decompress(base64.b85decode(text), 2**30)
    return np.frombuffer(raw, dtype="<f8").astype(np.float64)
