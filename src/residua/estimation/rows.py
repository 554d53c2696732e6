"""Synthetic rows: records that nobody is, whose tables are near the estimates; frames, Arrow batches, files."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from residua.domain import Domain
from residua.errors import PlanError, named
from residua.estimation.filling import Codes, Step, filled, steps_of
from residua.estimation.fit import Progress
from residua.files import whole_file
from residua.machine import pyarrow
from residua.privacy.costs import stated
from residua.published.columns import library
from residua.published.streaming import of_one_type
from residua.published.table import protects, what_is_counted
from residua.showing import with_bar

if TYPE_CHECKING:
    import pandas
    import polars

    from residua.estimation.estimate import Estimated

NOTE = (
    "synthetic rows made from estimates under differential privacy: no row is a person's record, tables of rows are "
    "biased as the estimates are, and have no error bars; see the release for unbiased tables with intervals"
)
_MOST_ROWS = 10**10


@dataclass(frozen=True, eq=False, repr=False)
class SyntheticRows:
    """Rows whose tables are near the estimates. Made by `Estimated.rows`; computed when they are looked at.

    Guarantee: computed from estimates alone: no data is touched and no privacy is spent, however many rows are made.
    There are exactly `len(rows)` rows; each attribute's own table is the estimated one in whole numbers, within one
    per value; no row is in an impossible cell. A public table is met as exactly, if no other public table shares its
    last attribute (in the order of the rows' making) and structural zeros leave room. Every look gives the same rows.

    Args:
        domain: where the labels come from.
        attributes: the columns.
        steps: how they are made.
        count: how many rows.
        entropy: what the choices among equally good rows are drawn from. It is no noise, and protects nothing.
        guarantee: what protects the release that they come from, in words.
        counted: what a row stands for, in words, where that is not every record.
    """

    domain: Domain
    attributes: tuple[str, ...]
    steps: tuple[Step, ...]
    count: int
    entropy: int
    guarantee: str
    counted: str = ""

    def __len__(self) -> int:
        return self.count

    @property
    def note(self) -> str:
        """What a reader of the rows must know."""
        return f"{NOTE}; {self.counted}" if self.counted else NOTE

    @cached_property
    def schema(self) -> pyarrow.Schema:
        """The columns' types: text as dictionaries, whole numbers as they are; notes in the metadata."""
        fields = [
            pyarrow.field(
                name,
                pyarrow.dictionary(pyarrow.int32(), pyarrow.string())
                if pyarrow.types.is_string(labels.type)
                else labels.type,
            )
            for name, labels in self._labels.items()
        ]
        return pyarrow.schema(fields, metadata={"note": self.note, "guarantee": self.guarantee})

    @cached_property
    def _labels(self) -> dict[str, Any]:
        return {name: pyarrow.array(of_one_type(self.domain[name].labels).tolist()) for name in self.attributes}

    def codes(self, progress: Progress | None = None) -> Iterator[Codes]:
        """The rows as codes, (rows of a part, attributes), part by part."""
        random = np.random.default_rng(self.entropy)
        places = [self.domain.position(name) for name in self.attributes]
        for part in filled(self.steps, len(self.domain), self.count, random, progress or (lambda *told: None)):
            yield part[:, places]

    def batches(self, progress: Progress | None = None) -> Iterator[pyarrow.RecordBatch]:
        """The rows as Arrow batches of some ten thousand rows; no more than one is held at a time.

        Args:
            progress: called with what is being done, how much is done, and of how much.
        """
        for part in self.codes(progress):
            columns = []
            for number, labels in enumerate(self._labels.values()):
                codes = pyarrow.array(part[:, number], type=pyarrow.int32())
                if pyarrow.types.is_string(labels.type):
                    columns.append(pyarrow.DictionaryArray.from_arrays(codes, labels))
                else:
                    columns.append(labels.take(codes))
            yield pyarrow.record_batch(columns, schema=self.schema)

    def to_arrow(self) -> pyarrow.Table:
        """All rows as a pyarrow Table."""
        return pyarrow.Table.from_batches(list(self.batches()), schema=self.schema)

    def to_pandas(self) -> pandas.DataFrame:
        """All rows as a pandas DataFrame; text columns are categorical."""
        library("pandas")
        frame: pandas.DataFrame = self.to_arrow().to_pandas()
        return frame

    def to_polars(self) -> polars.DataFrame:
        """All rows as a Polars DataFrame."""
        frame: polars.DataFrame = library("polars").from_arrow(self.to_arrow())
        return frame

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        reader = pyarrow.RecordBatchReader.from_batches(self.schema, self.batches())
        return reader.__arrow_c_stream__(requested_schema)

    @with_bar("making rows")
    def to_parquet(self, path: str | Path, *, overwrite: bool = False, progress: Progress | bool | None = None) -> None:
        """Writes the rows as a Parquet file, part by part, whole or not at all.

        Args:
            path: the file.
            overwrite: replace a file that is there.
            progress: `True` draws a bar; or a function, called with what is done, how much, and of how much.

        Raises:
            FileError: something is there, or it cannot be written. Nothing is left behind.
        """
        with (
            whole_file(Path(path), ours=lambda head: overwrite) as file,
            pyarrow.parquet.ParquetWriter(file, self.schema) as to,
        ):
            for batch in self.batches(None if isinstance(progress, bool) else progress):
                to.write_batch(batch)

    @with_bar("making rows")
    def to_csv(self, path: str | Path, *, overwrite: bool = False, progress: Progress | bool | None = None) -> None:
        """Writes the rows as a CSV file, part by part, whole or not at all; arguments as for `to_parquet`."""
        plain = pyarrow.schema([(name, labels.type) for name, labels in self._labels.items()])
        with whole_file(Path(path), ours=lambda head: overwrite) as file, pyarrow.csv.CSVWriter(file, plain) as to:
            for batch in self.batches(None if isinstance(progress, bool) else progress):
                to.write_table(pyarrow.Table.from_batches([batch]).cast(plain))

    def __repr__(self) -> str:
        return f"SyntheticRows({self.count:,} rows of {len(self.attributes)} attributes; {self.guarantee})"


def rows_of(
    estimated: Estimated, count: int | None, attributes: Sequence[str] | None, random: np.random.Generator | None
) -> SyntheticRows:
    """The rows that `Estimated.rows` promises."""
    if count is None:
        count = max(1, round(estimated.total))
    if isinstance(count, bool) or not isinstance(count, int | np.integer) or not 1 <= count <= _MOST_ROWS:
        raise PlanError(f"n={named(count)} is not a number of rows; give a whole number from 1 to {_MOST_ROWS:,}.")
    if random is not None and not isinstance(random, np.random.Generator):
        raise PlanError(f"random={named(random)} is not a generator; give np.random.default_rng(…), or leave it out.")
    domain = estimated.domain
    names = domain.names if attributes is None else domain.listed(attributes)
    if not names:
        raise PlanError("attributes: rows without attributes hold nothing; name at least one, or leave it out.")
    if domain.holds_amounts(names):
        raise PlanError("attributes: of amounts sums are known and no values, so that rows have none; leave them out.")
    steps = steps_of(estimated._tables, domain.positions(names))
    entropy = secrets.randbits(128) if random is None else int(random.integers(2**63))
    plan, receipt = estimated.plan, estimated.receipt
    protected = f"{stated(plan.guarantee, receipt)}, for {protects(plan.unit, receipt)}"
    return SyntheticRows(domain, tuple(names), tuple(steps), int(count), entropy, protected, what_is_counted(plan.unit))
