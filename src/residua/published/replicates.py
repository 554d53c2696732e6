"""Replicates of published tables, for whoever computes on: one long Parquet file of all of them.

Columns: `replicate`, from 1; `table`, its title; a column for each attribute that any table has, as text, empty in
tables without it; and `value`. A row for each cell of each table of each replicate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar, overload

import numpy as np
from numpy.typing import ArrayLike

from residua.errors import PlanError, named
from residua.files import whole_file
from residua.linalg.arrays import Floats
from residua.machine import pyarrow as pa
from residua.published.streaming import ROWS, axis_labels, label_arrays

T = TypeVar("T")
_OWN = ("replicate", "table", "value")


@dataclass(frozen=True, eq=False)
class Combined:
    """Numbers with intervals by replicates; each array in the shape of the statistic."""

    estimate: Floats
    stddev: Floats
    lower: Floats
    upper: Floats


@dataclass(frozen=True, eq=False, repr=False)
class Replicates(Sequence[T], Generic[T]):
    """What would have been published instead, had the noise been other: as many draws as were asked for.

    Indexing gives one of them, whose tables are read as those that were published.

    Args:
        drawn: the replicates; each has `asked_tables`, without intervals here.
        attributes: the attributes that any of their tables has.
        note: what readers must know, in a sentence.
        redrawn: for estimates that are shrunk: as many more, from the release's own measurements with noise once more,
            made when `combined` asks for them.
    """

    drawn: tuple[T, ...]
    attributes: tuple[str, ...]
    note: str
    redrawn: Callable[[], tuple[T, ...]] | None = None

    def __post_init__(self) -> None:
        for name in self.attributes:
            if name in _OWN:
                raise PlanError(f"the attribute {named(name)} would be taken for a column of its own; rename it.")

    def __len__(self) -> int:
        return len(self.drawn)

    @overload
    def __getitem__(self, place: int) -> T: ...

    @overload
    def __getitem__(self, place: slice) -> Sequence[T]: ...

    def __getitem__(self, place: int | slice) -> T | Sequence[T]:
        return self.drawn[place]

    @property
    def schema(self) -> pa.Schema:
        """The columns, with the note."""
        text = pa.dictionary(pa.int32(), pa.string())
        labels = [(name, text) for name in ("table", *self.attributes)]
        return pa.schema([("replicate", pa.int32()), *labels, ("value", pa.float64())], metadata={"note": self.note})

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All rows, one table of one replicate after the other."""
        text, schema = pa.dictionary(pa.int32(), pa.string()), self.schema
        for number, replicate in enumerate(self.drawn, start=1):
            for table in replicate.asked_tables(confidence=None):  # type: ignore[attr-defined]
                labels = label_arrays([list(map(str, each)) for each in axis_labels(table)], compact=True)
                values, title = table.estimates.reshape(-1), table.title or " × ".join(table.attributes) or "total"
                for first in range(0, values.size, ROWS):
                    own = values[first : first + ROWS]
                    given = dict(zip(table.attributes, labels(first, first + len(own)), strict=True))
                    zeros = pa.array(np.zeros(len(own), dtype=np.int32))
                    columns = [
                        pa.array(np.full(len(own), number, dtype=np.int32)),
                        pa.DictionaryArray.from_arrays(zeros, [title]),
                        *(given[name].cast(text) if name in given else pa.nulls(len(own), text)
                          for name in self.attributes),
                        pa.array(own),
                    ]  # fmt: skip
                    yield pa.RecordBatch.from_arrays(columns, schema=schema)

    def combined(
        self, published: T, statistic: Callable[[T], ArrayLike], *, within: ArrayLike = 0.0, confidence: float = 0.95
    ) -> Combined:
        """A number computed from what was published, or several (means, coefficients), with intervals.

        With q the number and q_j that of each of m replicates, the error of q from the protection is about that of q_j
        from q, bias included: `T = Σ_j (q_j − q)² / m + within`, and the interval is `q ± t √T`, t the quantile of
        Student's distribution with m degrees of freedom. Estimates are shrunk already where replicates of them begin,
        which then vary too little: of estimates the same sum over m replicates of the release, with noise once more, is
        added (which takes as long again).

        Args:
            published: what the replicates are of.
            statistic: what is computed; of synthetic rows, for example `lambda one: mean_income(one.rows())`.
            within: the variance that the number would have by sampling alone, as other programs state it, for intervals
                that hold the value in the population that the records are a sample of; 0 for that of the records.
            confidence: how often an interval is to hold the truth; 94 to 100 % was measured for 95 (docs/synthetic.md).

        Reference: Efron and Tibshirani (1993), §8 (the parametric bootstrap); Raghunathan, Reiter and Rubin (2003) for
            sampling beside it.
        """
        from scipy.special import stdtrit

        if isinstance(confidence, bool) or not 0 < confidence < 1:
            raise PlanError(f"confidence={named(confidence)} is not a probability between 0 and 1, such as 0.95.")
        own = np.asarray(statistic(published), dtype=np.float64)
        variance = np.asarray(within, dtype=np.float64)
        for drawn in (self.drawn, self.redrawn() if self.redrawn is not None else ()):
            if drawn:
                apart = np.stack([np.asarray(statistic(one), dtype=np.float64) - own for one in drawn])
                variance = variance + (apart**2).mean(axis=0)
        stddev = np.sqrt(variance)
        reach = float(stdtrit(len(self.drawn), (1.0 + confidence) / 2.0)) * stddev
        return Combined(own, stddev, own - reach, own + reach)

    def to_parquet(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Writes all replicates as one Parquet file, whole or not at all.

        Args:
            path: the file.
            overwrite: replace a file that is there.

        Raises:
            FileError: something is there, or it cannot be written. Nothing is left behind.
        """
        with (
            whole_file(Path(path), ours=lambda head: overwrite) as file,
            pa.parquet.ParquetWriter(file, self.schema, compression="zstd") as to,
        ):
            for batch in self.batches():
                to.write_batch(batch)

    def __repr__(self) -> str:
        return f"Replicates({len(self):,} of {type(self.drawn[0]).__name__}; {self.note})"


def check_count(n: object) -> int:
    """How many replicates, once that is known to be a number of them.

    Raises:
        PlanError: it is none.
    """
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        raise PlanError(f"n={named(n)} is not a positive whole number of replicates; 50 is a good one.")
    return n
