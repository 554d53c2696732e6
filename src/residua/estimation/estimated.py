"""Estimates: tables of any attributes, measured or not, that borrow strength from everything measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from residua.errors import PlanError
from residua.estimation.accuracy import TableAccuracy, accuracy_of
from residua.estimation.facts import Members, Public
from residua.estimation.fit import Fitted
from residua.estimation.observed import observed_of
from residua.estimation.tables import Tables
from residua.linalg.arrays import Floats
from residua.plans.contract import Plan
from residua.projection.tabled import Tabled
from residua.projection.tables import ProjectedTable
from residua.release.base import Release
from residua.showing import Exported
from residua.workload import AskedRows

if TYPE_CHECKING:
    from residua.estimation.rows import SyntheticRows

MOST_CELLS = 4_000_000
MOST_ATTRIBUTES = 8


@dataclass(frozen=True, eq=False, repr=False)
class EstimatedTable(ProjectedTable):
    """A table of estimates, tidy: attributes, estimate; biased towards a model.

    Args:
        accuracy: how accurate the table of cells is said to be, and on what grounds.
        Others as for `ProjectedTable`.
    """

    accuracy: TableAccuracy | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Estimated(Exported, Tabled):
    """Model-based tables of any attributes, made from a release alone. Made by `rs.estimate`.

    Guarantee: no data is touched and no privacy is spent. No cell is negative, impossible cells are exactly zero, and
    public facts are met. Tables agree on the margins they share, up to `accuracy(…).apart` counts: for up to three
    attributes a few millionths of the total, or a ten-thousandth where there is little but noise; more, where tables of
    three were measured that no table of four has. They are biased towards a model; `accuracy` says how accurate a table
    is estimated to be, which is not a bound. What was measured keeps its exact variances and intervals in the release.

    Args:
        release: what was measured.
        public: what is known besides.
        fitted: the tables of single attributes and pairs.
        total_given: whether the total is public.
    """

    release: Release
    public: Public
    fitted: Fitted
    total_given: bool

    @property
    def plan(self) -> Plan:  # type: ignore[override]
        """The release's plan."""
        return self.release.plan

    @property
    def nonnegative(self) -> bool:
        """Always."""
        return True

    @property
    def biased(self) -> str:
        """What is said of its numbers."""
        from residua.estimation.statement import MODEL_BASED

        return MODEL_BASED

    @cached_property
    def _tables(self) -> Tables:
        return Tables(observed_of(self.release), self.public, self.fitted)

    @property
    def total(self) -> float:
        """The number of records, public or estimated."""
        return self.fitted.total

    def _members(self, attributes: Sequence[str]) -> tuple[Members, list[int]]:
        positions = list(self.domain.positions(self.domain.listed(attributes)))
        cells = self.domain.cells(list(attributes))
        if cells > MOST_CELLS or len(positions) > MOST_ATTRIBUTES:
            raise PlanError(
                f"the table on {tuple(attributes)!r} has {cells:,} cells of {len(positions)} attributes; ask for at "
                f"most {MOST_CELLS:,} cells of {MOST_ATTRIBUTES} attributes."
            )
        return tuple(sorted(positions)), positions

    def estimates(self, attributes: Sequence[str]) -> Floats:
        """The table of these attributes, measured or not, an array with one axis each, in this order.

        Raises:
            PlanError: too many cells or attributes.
        """
        members, positions = self._members(attributes)
        found = self._tables.table(members)
        return np.array(found.transpose(np.argsort(np.argsort(positions))), order="C")

    def accuracy(self, attributes: Sequence[str]) -> TableAccuracy:
        """How accurate the table of these attributes is estimated to be, and what it rests on."""
        members, _ = self._members(attributes)
        found = self._tables.interactions(members)
        return accuracy_of(self.domain, tuple(attributes), found, self.fitted.concentrations, self.total)

    def table(self, attributes: Sequence[str], *, queries: Mapping[str, AskedRows] | None = None) -> EstimatedTable:
        """The table of these attributes, or of prefixes, ranges or levels of them; `[]` for the total.

        Args:
            attributes: which attributes, in the order of the columns.
            queries: attribute → `"prefixes"`, `"ranges"`, `"hierarchy"`, the name of one of its levels, or a matrix;
                the other attributes by their values.
        """
        made = super().table(attributes, queries=queries)
        accuracy = self.accuracy(attributes)
        return EstimatedTable(
            made.domain, made.attributes, made.estimates, made.labels, made.title, made.counted, accuracy
        )

    def rows(
        self,
        n: int | None = None,
        *,
        attributes: Sequence[str] | None = None,
        random: np.random.Generator | None = None,
    ) -> SyntheticRows:
        """Synthetic rows whose tables are near the estimates: frames, Arrow batches, Parquet, CSV.

        Attribute by attribute: the chances of each value are raked to the estimated tables of pairs and triples with
        the attributes before it, over the rows themselves, and turned into values so that counts stay near their
        expectations. No junction tree is needed, and any number of attributes and rows is taken. No data is touched
        and nothing is spent, however many rows are made.

        Args:
            n: how many rows; None is the estimated total, to the next whole number.
            attributes: the columns; all by default.
            random: where the choices among equally good rows come from; a fresh generator by default. They are no
                noise: they protect nothing, and may be repeated (`np.random.default_rng(7)`) or published.

        Raises:
            PlanError: no number of rows, or an unknown attribute.

        Example:
            >>> import pyarrow as pa, residua as rs, tempfile
            >>> domain = rs.Domain({"sex": ["F", "M"], "age": rs.Integers(0, 4), "job": ["no", "yes"]})
            >>> data = pa.table({"sex": ["F", "M"] * 500, "age": [0, 1, 2, 1, 0] * 200, "job": ["no", "yes"] * 500})
            >>> plan = rs.plan(rs.marginals(domain, ways=[1, 2]), rs.ZCDP(0.1))
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     release = rs.measure(plan, data, ledger=rs.Ledger(f"{folder}/l", rs.ZCDP(0.1)))
            >>> rows = rs.estimate(release, total=1000, known={("sex",): [500, 500]}).rows().to_arrow()
            >>> rows.num_rows, rows.column_names, rows["sex"].to_pylist().count("F")
            (1000, ['sex', 'age', 'job'], 500)
        """
        from residua.estimation.rows import rows_of

        return rows_of(self, n, attributes, random)

    @property
    def contradicted(self) -> tuple[tuple[str, ...], ...]:
        """The pairs whose measurements the model does not explain; there the measurements decide."""
        from residua.estimation.accuracy import ODD

        names = self.domain.names
        return tuple((names[i], names[j]) for i, j in np.argwhere(np.triu(self.fitted.doubt > ODD, 1)).tolist())

    @property
    def statement(self) -> str:
        """What was done and how accurate it is, in Markdown, for people."""
        from residua.estimation.statement import estimation_statement

        return estimation_statement(self)

    @property
    def receipt(self) -> Mapping[str, Any]:  # type: ignore[override]
        """What the ledger recorded when the release was paid for."""
        return self.release.receipt

    def save(self, path: str | Path) -> None:
        """Writes the estimates as a folder, whole or not at all; the folder must not exist."""
        from residua.estimation.folder import save_estimates

        save_estimates(self, Path(path))

    @staticmethod
    def load(path: str | Path) -> Estimated:
        """Reads saved estimates, refusing ones that were changed. Needs neither data nor ledger.

        Raises:
            FileError: missing, damaged, changed, or of another version.
        """
        from residua.estimation.folder import load_estimates

        return load_estimates(Path(path))

    def __repr__(self) -> str:
        return f"Estimated({self.plan.guarantee!r}, total={self.total:,.1f}; biased towards a model)"
