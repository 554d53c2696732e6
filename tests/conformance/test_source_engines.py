"""One conformance suite for every engine: the same records, whatever holds them, give the same counts."""

import itertools
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pytest

import residua as rs
from residua.domain import Domain, Policy
from residua.errors import SourceError
from residua.linalg.lattice import Layout, closure, layout_of
from residua.source import Source, source_of
from residua.source.bound import PersonBound, bound_of
from residua.source.counting import Counted, Progress
from residua.source.options import Tallies
from tests.conformance.engines import (
    ENGINES,
    NAMES,
    ROWS,
    SCHEMA,
    SPELLED_OTHERWISE,
    arrow_reader,
    code_of,
    domain_with,
    duckdb_sum,
    every_engine,
    expected,
    layout_over,
    opened,
    records,
    table_of,
)


@every_engine
@pytest.mark.parametrize("unknown", ["other", "drop"])
@pytest.mark.parametrize("missing", ["other", "drop"])
def test_every_engine_counts_the_same_records(
    engine: Callable[..., Any], unknown: Policy, missing: Policy, tmp_path: Path
) -> None:
    rows, domain = records(dirty=True), domain_with(unknown, missing)
    source = opened(engine(table_of([(*row, 1) for row in rows]), tmp_path))
    extra = {name for name in source.columns() if name == "Age" or name.startswith("Unnamed: ")}
    assert set(source.columns()) - extra == set(SCHEMA.names)
    counted = source.count(domain, layout_over(domain))
    assert np.array_equal(counted.tables, expected(rows, domain))


@every_engine
def test_every_engine_adds_up_the_same_amounts(engine: Callable[..., Any], tmp_path: Path) -> None:
    """9.99 lies in the middle between two units, -0.5 and a million beyond the bounds."""
    rows, amount = records(dirty=True), rs.Amount(0, 30, unit=0.02, missing="drop")
    domain = Domain({"sex": rs.Categories(["Male", "Female"], unknown="drop", missing="drop"), "income": amount})
    counted = opened(engine(table_of([(*row, 1) for row in rows]), tmp_path)).count(domain, _of_both(domain))
    units = {0.0: 0, 9.99: 500, 10.0: 500, 1e6: 1500, -0.5: 0}
    sums = Counter[tuple[str, int]]()
    for _, sex, _, income, *_ in rows:
        if sex in ("Male", "Female") and income is not None:
            sums[sex, 0] += 1500 - units[income]
            sums[sex, 1] += units[income]
    assert counted.tables.tolist() == [sums[sex, end] for sex in ("Male", "Female") for end in (0, 1)]


def _of_both(domain: Domain) -> Layout:
    lattice = closure([np.array([[0, 1]], dtype=np.int32)], 2)
    return layout_of(lattice, domain.sizes, lattice.is_maximal)


@pytest.mark.parametrize("engine", [*ENGINES, duckdb_sum], ids=lambda engine: engine.__name__)
def test_every_engine_counts_weighted_rows_as_so_many_records(engine: Callable[..., Any], tmp_path: Path) -> None:
    rows, domain = records(dirty=True), domain_with("other", "drop")
    weighted = [(*row, n) for row, n in Counter(rows).items()] + [(*rows[0], 0)]
    source = opened(engine(table_of(weighted), tmp_path), counts="n")
    counted = source.count(domain, layout_over(domain))
    assert np.array_equal(counted.tables, expected(rows, domain))
    plain = source_of(table_of([(*row, 1) for row in rows])).count(domain, layout_over(domain))
    assert (dict(counted.tallies.dropped), dict(counted.tallies.other)) == (
        dict(plain.tallies.dropped),
        dict(plain.tallies.other),
    )


@every_engine
def test_every_engine_names_all_columns_with_values_outside_and_quotes_none_unless_asked(
    engine: Callable[..., Any], tmp_path: Path
) -> None:
    bad = [*records(dirty=False), (17, "female", 3, 0.0, True, "01"), (17, "Male", 3, -0.5, True, "01")]
    data, domain = engine(table_of([(*row, 1) for row in bad]), tmp_path), domain_with("error", "drop")
    with pytest.raises(SourceError) as caught:
        opened(data).count(domain, layout_over(domain))
    assert str(caught.value) == (
        "attributes 'sex', 'income' have values outside their domains; declare them (show_values=True, or "
        "--show-values, shows some), or say unknown='other' or unknown='drop'."
    )
    if engine is not arrow_reader:  # which can be read only once
        with pytest.raises(SourceError, match=r"'sex' \(such as 'female'\), 'income' \(such as '?-0.5'?\) have"):
            opened(data, show_values=True).count(domain, layout_over(domain))


@every_engine
def test_every_engine_stops_at_an_absent_value(engine: Callable[..., Any], tmp_path: Path) -> None:
    bad = [*records(dirty=False), (17, "Female", 3, None, True, "01")]
    source = opened(engine(table_of([(*row, 1) for row in bad]), tmp_path))
    domain = domain_with("drop", "error")
    with pytest.raises(SourceError, match="attribute 'income' has absent values"):
        source.count(domain, layout_over(domain))


@every_engine
def test_every_engine_names_the_missing_column_and_the_one_probably_meant(
    engine: Callable[..., Any], tmp_path: Path
) -> None:
    source = opened(engine(table_of([(*row, 1) for row in records(dirty=False)]), tmp_path))
    with pytest.raises(SourceError, match=r"has no column 'regoin' \(is it 'region'\?\), 'zzz'; it has '"):
        list(source.batches(["age", "regoin", "zzz"]))


@every_engine
def test_every_engine_bounds_persons_alike(engine: Callable[..., Any], tmp_path: Path) -> None:
    """At most two records of each of sixty persons, the same ones in every engine: a key and the records decide."""
    rows, domain = [(*row, i % 60) for i, row in enumerate(records(dirty=True))], domain_with("other", "other")
    bound = bound_of(rs.Person(records=2), domain, bytes(range(32)))
    found = opened(engine(table_of(rows), tmp_path), person="n").count(domain, layout_over(domain), None, bound)
    judge = source_of(table_of(rows), person="n").count(domain, layout_over(domain), None, bound)
    assert np.array_equal(found.tables, judge.tables)
    assert found.fingerprint == judge.fingerprint or engine in SPELLED_OTHERWISE
    first = layout_over(domain).groups[0]
    assert found.tables[first.start : first.start + first.cells].sum() == 120


@every_engine
def test_no_records_count_as_zero(engine: Callable[..., Any], tmp_path: Path) -> None:
    """Whether a table is empty is confidential: it is measured like any other."""
    domain = domain_with("error", "error")
    counted = opened(engine(SCHEMA.empty_table(), tmp_path)).count(domain, layout_over(domain))
    assert not counted.tables.any()


@pytest.mark.parametrize("dirty", list(itertools.product(["other", "drop"], repeat=2)), ids=str)
def test_a_value_outside_the_domain_is_never_counted_in_one_table_and_dropped_from_another(
    dirty: tuple[Policy, Policy],
) -> None:
    rows, domain = records(dirty=True), domain_with(*dirty)
    layout = layout_over(domain)
    counted = source_of(table_of([(*row, 1) for row in rows])).count(domain, layout)
    totals = {int(t.sum()) for group in layout for t in group.view(counted.tables)}
    kept = [all(code_of(n, v, domain) is not None for n, v in zip(NAMES, row, strict=True)) for row in rows]
    assert totals == {sum(kept)}
    assert sum(kept) == ROWS or "drop" in dirty
    for name in NAMES:
        dropped = sum(code_of(name, row[NAMES.index(name)], domain) is None for row in rows)
        assert counted.tallies.dropped[name] == dropped


def test_an_engine_may_count_where_the_data_is() -> None:
    """The seam: a source that counts by itself is asked for tables and never for records."""

    class Counting(Source):
        def columns(self) -> tuple[str, ...]:
            return ("sex", "n")

        def _read(self, columns: Sequence[str]) -> Iterator[Any]:
            raise AssertionError("asked for records")

        def count(
            self, domain: Domain, layout: Layout, progress: Progress | None = None, bound: PersonBound | None = None
        ) -> Counted:
            tables = np.array([30] if layout.cells == 1 else [10, 20], dtype=np.int64)
            return Counted(tables, Tallies({}, {}), "elsewhere")

    domain = Domain({"sex": ["F", "M"]})
    plan = rs.plan(rs.marginals(domain, [("sex",)]), rs.ZCDP(rho=1e4))
    with tempfile.TemporaryDirectory() as folder:
        release = rs.measure(plan, Counting(), ledger=rs.Ledger(f"{folder}/a.ledger", rs.ZCDP(rho=1e4)))
    assert release.estimates(["sex"]) == pytest.approx([10, 20], abs=0.3)


@pytest.mark.parametrize("made", ["query", "relation"])
def test_names_that_differ_in_case_only_are_two_columns(made: str) -> None:
    with duckdb.connect() as connection:
        sql = "SELECT 'x' AS a, 'y' AS \"A\""
        source = Source.duckdb(connection, sql) if made == "query" else source_of(connection.sql(sql))
        assert source.columns() == ("a", "A")
        (batch,) = source.batches(["A", "a"])
        assert batch.to_pydict() == {"A": ["y"], "a": ["x"]}
        with pytest.raises(SourceError, match="has no column 'N'"):
            list(source_of(connection.sql("SELECT 1 AS n")).batches(["N"]))
