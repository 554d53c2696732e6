"""Tables as Python's other tools expect them: rows to iterate, columns by name, and Arrow's PyCapsule interface."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, overload

import numpy as np

from residua.errors import PlanError
from residua.showing import Shown


class Tabular(Shown):
    """Columns of equal length that are also rows.

    Iterating gives the rows, each a dictionary. `table["estimate"]` is a column, `table[0]` a row, `table[2:5]` a list
    of rows, and `table[{"sex": "Female"}]` the rows with these labels. Polars, DuckDB and pandas take the table
    as it is.
    """

    @property
    @abstractmethod
    def columns(self) -> dict[str, Any]:
        """The columns by name: keys as lists, numbers as arrays."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def to_arrow(self) -> Any:
        """The table as a pyarrow Table."""

    def __iter__(self) -> Iterator[dict[str, Any]]:
        names = list(self.columns)
        lists = [
            np.asarray(values).tolist() if isinstance(values, np.ndarray) else values
            for values in self.columns.values()
        ]
        return (dict(zip(names, row, strict=True)) for row in zip(*lists, strict=True))

    @overload
    def __getitem__(self, wanted: int) -> dict[str, Any]: ...

    @overload
    def __getitem__(self, wanted: slice | Mapping[str, Any]) -> list[dict[str, Any]]: ...

    @overload
    def __getitem__(self, wanted: str) -> Any: ...

    def __getitem__(self, wanted: int | str | slice | Mapping[str, Any]) -> Any:
        if isinstance(wanted, str):
            self._require(wanted)
            return self.columns[wanted]
        if isinstance(wanted, Mapping):
            return self._rows_with(wanted)
        if isinstance(wanted, slice):
            return [self._row(i) for i in range(*wanted.indices(len(self)))]
        if isinstance(wanted, bool) or not isinstance(wanted, int | np.integer):
            raise PlanError(f"{wanted!r} is no column, row or set of labels; write table['estimate'] or table[0].")
        if not -len(self) <= wanted < len(self):
            raise IndexError(f"there is no row {wanted}; the table has {len(self):,}.")
        return self._row(int(wanted) % len(self))

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> Any:
        return self.to_arrow().schema.__arrow_c_schema__()

    def _require(self, name: str) -> None:
        if name not in self.columns:
            raise PlanError(f"there is no column {name!r}; there are {', '.join(map(repr, self.columns))}.")

    def _row(self, i: int) -> dict[str, Any]:
        return {name: _plain(values[i]) for name, values in self.columns.items()}

    def _rows_with(self, labels: Mapping[str, Any]) -> list[dict[str, Any]]:
        chosen = np.ones(len(self), dtype=bool)
        for name, label in labels.items():
            self._require(name)
            chosen &= np.fromiter((value == label for value in self.columns[name]), dtype=bool, count=len(self))
        return [self._row(int(i)) for i in np.flatnonzero(chosen)]


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
