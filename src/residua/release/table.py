"""A published table: one row a cell, with its estimate, its standard deviation and an interval."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from residua.domain import Domain
from residua.errors import ResiduaError
from residua.files import write_atomically

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

Floats = NDArray[np.float64]
_SHOWN = 10


@dataclass(frozen=True, eq=False)
class Table:
    """A marginal's estimates with error bars, tidy: attributes, estimate, stddev, lower, upper.

    Args:
        domain: where the labels come from.
        attributes: the table's attributes, in the order asked.
        estimates: unbiased estimates, (n_1, …, n_k).
        stddev: the standard deviation of each cell.
        width: how many standard deviations the intervals reach either side.
    """

    domain: Domain
    attributes: tuple[str, ...]
    estimates: Floats
    stddev: float
    width: float

    def __post_init__(self) -> None:
        self.estimates.setflags(write=False)

    def __len__(self) -> int:
        return self.estimates.size

    @cached_property
    def columns(self) -> dict[str, Any]:
        """The columns by name: labels as lists, numbers as arrays, a value a cell."""
        shape = self.estimates.shape
        columns: dict[str, Any] = {}
        for axis, name in enumerate(self.attributes):
            labels = np.array(self.domain[name].labels, dtype=object)
            codes = np.broadcast_to(
                np.arange(shape[axis]).reshape([-1 if a == axis else 1 for a in range(len(shape))]), shape
            )
            columns[name] = labels[codes.ravel()].tolist()
        flat = self.estimates.ravel()
        reach = self.width * self.stddev
        numbers = {"estimate": flat, "stddev": np.full(flat.size, self.stddev)}
        return {**columns, **numbers, "lower": flat - reach, "upper": flat + reach}

    def to_arrow(self) -> pyarrow.Table:
        """The table as a pyarrow Table."""
        import pyarrow

        return pyarrow.table(self.columns)

    def to_pandas(self) -> pandas.DataFrame:
        """The table as a pandas DataFrame."""
        frame: pandas.DataFrame = _extra("pandas").DataFrame(self.columns)
        return frame

    def to_polars(self) -> polars.DataFrame:
        """The table as a Polars DataFrame."""
        frame: polars.DataFrame = _extra("polars").DataFrame(self.columns)
        return frame

    def to_csv(self, path: str | Path | None = None) -> str:
        """The table as CSV text, also written to a file if one is named."""
        import io

        import pyarrow.csv

        buffer = io.BytesIO()
        pyarrow.csv.write_csv(self.to_arrow(), buffer)
        if path is not None:
            write_atomically(Path(path), buffer.getvalue())
        return buffer.getvalue().decode()

    def to_parquet(self, path: str | Path) -> None:
        """Writes the table as a Parquet file."""
        import io

        import pyarrow.parquet

        buffer = io.BytesIO()
        pyarrow.parquet.write_table(self.to_arrow(), buffer)
        write_atomically(Path(path), buffer.getvalue())

    def __repr__(self) -> str:
        names = [*self.attributes, "estimate", "stddev", "lower", "upper"]
        rows = [names]
        for i in range(min(len(self), _SHOWN)):
            cells = [self.columns[name][i] for name in names]
            rows.append([f"{cell:.1f}" if isinstance(cell, float) else str(cell) for cell in cells])
        widths = [max(len(row[j]) for row in rows) for j in range(len(names))]
        lines = ["  ".join(cell.rjust(w) for cell, w in zip(row, widths, strict=True)) for row in rows]
        return "\n".join([*lines, *([f"… {len(self) - _SHOWN:,} more rows"] if len(self) > _SHOWN else [])])


def _extra(name: str) -> Any:
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError:
        raise ResiduaError(f"{name} is not installed; install it with: pip install 'residua[{name}]'") from None
