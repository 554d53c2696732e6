"""Checking, fingerprint and counting see one dataset: it is read once, or changes underneath are noticed."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import residua as rs
from residua.domain import Domain, Integers
from residua.errors import LedgerError, SourceError
from residua.linalg.lattice import closure, layout_of
from residua.source import Source, source_of
from residua.source.bound import bound_of
from residua.source.checking import Checked, KeptCodes
from residua.source.digest import Digest
from tests.conformance.engines import domain_with, every_engine, layout_over, opened, records, table_of
from tests.conformance.ledgers import Interrupted

DOMAIN = Domain({"a": Integers(0, 99_999)})
BUDGET = rs.ZCDP(rho=0.5)


def plan_of(domain: Domain) -> rs.Plan:
    return rs.plan(rs.marginals(domain, ways=[0]), BUDGET)


class Watched(Source):
    """A source that counts its readings, and does something after the first."""

    def __init__(self, inner: Source, then: Callable[[], object] = lambda: None) -> None:
        super().__init__(inner.options)
        self.repeatable, self._inner, self._then, self.estimators = inner.repeatable, inner, then, 0

    def columns(self) -> tuple[str, ...]:
        return self._inner.columns()

    def _read(self, columns: Sequence[str]) -> Iterator[Any]:
        raise AssertionError("the records are read through digested()")

    def digested(self, columns: Sequence[str], digest: Digest) -> Iterator[Any]:
        self.estimators += 1
        yield from self._inner.digested(columns, digest)
        if self.estimators == 1:
            self._then()


@every_engine
def test_every_engine_is_read_once_where_codes_fit_into_memory(engine: Callable[..., Any], tmp_path: Path) -> None:
    rows = [(*row, 1) for row in records(dirty=True)]
    source = Watched(opened(engine(table_of(rows), tmp_path)))
    domain = domain_with("other", "drop")
    rs.measure(plan_of(domain), source, ledger=rs.Ledger(tmp_path / "a.ledger", BUDGET))
    assert source.estimators == 1


@every_engine
def test_what_is_counted_later_is_what_was_checked(engine: Callable[..., Any], tmp_path: Path) -> None:
    source = opened(engine(table_of([(*row, 2) for row in records(dirty=True)]), tmp_path), counts="n")
    domain = domain_with("other", "drop")
    layout = layout_over(domain)
    with source.snapshot() as still:
        found = still.checked(domain)
        counted = found.count(layout, None, None)
    direct = source.count(domain, layout)
    assert np.array_equal(counted.tables, direct.tables)
    assert (dict(counted.tallies.dropped), dict(counted.tallies.other)) == (
        dict(direct.tallies.dropped),
        dict(direct.tallies.other),
    )
    assert found.fingerprint == counted.fingerprint == direct.fingerprint == source.fingerprint()


def test_a_file_changed_between_check_and_count_is_counted_as_it_was_checked(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a\n1\n2\n")
    source, layout = Source.csv(path), layout_total()
    found = source.checked(DOMAIN)
    path.write_text("a\n1\n2\n3\n-1\n")
    counted = found.count(layout, None, None)
    assert (counted.tables.tolist(), counted.fingerprint) == ([2], found.fingerprint)


@pytest.mark.parametrize("kept", [True, False])
def test_ids_changed_in_a_frame_are_not_the_ones_that_choose(
    kept: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arrow frames point at memory of others: what is kept of them must not."""
    if not kept:
        monkeypatch.setattr("residua.source.checking._MOST_KEPT", 0)
    ids = np.arange(100)
    frame = pa.table({"a": np.arange(100) % 2, "id": pa.array(ids)})
    unit = rs.Person(records=1)
    plan = rs.plan(rs.marginals(rs.Domain({"a": rs.Integers(0, 1)}), ways=[1]), rs.ZCDP(rho=1e4), unit=unit)

    def change() -> None:
        ids[:] = 0  # one person where there were a hundred

    ledger = Interrupted(tmp_path / "a.ledger", rs.ZCDP(rho=1e4), change, unit=unit)
    if kept:
        release = rs.measure(plan, Source.frame(frame, person="id"), ledger=ledger)
        assert np.round(release.estimates(["a"])).tolist() == [50, 50]  # false alarms: below 1e-12
        left_out = release.left_out.count()
        assert abs(left_out.estimate) < 6 * left_out.stddev < 10  # nobody's; false alarms: one in 5·10⁸
    else:
        with pytest.raises(SourceError, match="changed after it was checked"):
            rs.measure(plan, Source.frame(frame, person="id"), ledger=ledger)


def test_a_large_file_changed_between_check_and_count_is_refused_and_the_debit_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("residua.source.checking._MOST_KEPT", 0)  # so that it is read twice
    path = tmp_path / "a.csv"
    path.write_text("a,b\n1,x\n2,y\n")
    ledger = rs.Ledger(tmp_path / "a.ledger", BUDGET)
    changed = Watched(Source.csv(path), lambda: path.write_text("a,b\n1,x\n2,z\n"))
    with pytest.raises(SourceError, match=r"^the data changed after it was checked\. Debit 1 of the ledger stands"):
        rs.measure(plan_of(DOMAIN), changed, ledger=ledger)
    assert len(ledger.entries) == 1


def test_a_change_to_a_bad_value_is_refused_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("residua.source.checking._MOST_KEPT", 0)
    path = tmp_path / "a.csv"
    path.write_text("a\n1\n")
    changed = Watched(Source.csv(path), lambda: path.write_text("a\n-1\n"))
    with pytest.raises(SourceError, match=r"^the data changed after it was checked: attribute 'a' has values outside"):
        rs.measure(plan_of(DOMAIN), changed, ledger=rs.Ledger(tmp_path / "a.ledger", BUDGET))


@pytest.mark.parametrize("made", ["sample", "chance", "lazy"])
def test_what_gives_other_records_at_every_reading_is_read_once(made: str, tmp_path: Path) -> None:
    ledger = rs.Ledger(tmp_path / "a.ledger", BUDGET)
    with duckdb.connect() as connection:
        queries = {
            "sample": "SELECT a FROM range(100000) t(a) USING SAMPLE 10%",
            "chance": "SELECT a FROM range(100000) t(a) WHERE random() < 0.5",
        }
        lazy = pl.LazyFrame({"a": range(100_000)}).map_batches(lambda frame: frame.sample(1000))
        source = Watched(Source.duckdb(connection, queries[made]) if made in queries else source_of(lazy))
        rs.measure(plan_of(DOMAIN), source, ledger=ledger)
        assert source.estimators == 1
        with pytest.raises(LedgerError, match="another dataset"):  # every reading is one
            rs.measure(plan_of(DOMAIN), source, ledger=ledger)
    assert len(ledger.entries) == 1


@pytest.mark.parametrize("no_person", ["drop", "apart"])
def test_a_query_whose_records_are_bounded_per_person_runs_once_and_chooses_by_the_ledgers_key(no_person: Any) -> None:
    rng = np.random.default_rng(4)
    names = [None if i < 3 else f"p{i}" for i in rng.integers(0, 60, 500)]
    table = pa.table({"a": rng.integers(-3, 4, 500), "id": names, "n": rng.integers(0, 3, 500)})
    domain = rs.Domain({"a": rs.Integers(0, 3, unknown="drop")})
    lattice = closure([np.array([[0]], dtype=np.int32)], 1)
    layout, unit = layout_of(lattice, domain.sizes), rs.Person(records=2)
    trial, real = (bound_of(unit, domain, bytes([i]) * 32) for i in (1, 2))
    options: dict[str, Any] = {"person": "id", "no_person": no_person, "counts": "n"}
    with duckdb.connect() as connection:
        connection.register("rows", table)
        connection.execute("CREATE TABLE people AS SELECT * FROM rows")
        source = Watched(Source.duckdb(connection, "SELECT * FROM people", **options))
        counted = source.checked(domain, bound=trial).count(layout, None, real)
        assert source.estimators == 1
    theirs = source_of(table, **options).count(domain, layout, None, real)
    assert np.array_equal(counted.tables, theirs.tables)
    assert (counted.tallies.no_person, counted.tallies.loss.dropped) == (
        theirs.tallies.no_person,
        theirs.tallies.loss.dropped,
    )
    assert np.array_equal(counted.tallies.loss.held, theirs.tallies.loss.held)
    other = source_of(table, **options).count(domain, layout, None, trial)
    assert not np.array_equal(other.tables, theirs.tables)  # the key decides


def test_what_is_too_large_to_keep_is_read_again_and_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("residua.source.checking._MOST_KEPT", 1000)
    ledger = rs.Ledger(tmp_path / "a.ledger", BUDGET)
    with duckdb.connect() as connection:
        steady = Watched(Source.duckdb(connection, "SELECT a FROM range(10000) t(a)"))
        assert steady.checked(DOMAIN).count(layout_total(), None, None).tables.tolist() == [10_000]
        assert steady.estimators == 2
        with pytest.raises(SourceError, match=r"changed after it was checked \(or it gives other records at every"):
            rs.measure(
                plan_of(DOMAIN),
                Source.duckdb(connection, "SELECT a FROM range(10000) t(a) WHERE random() < 0.5"),
                ledger=ledger,
            )
    assert len(ledger.entries) == 1


def layout_total() -> Any:
    return layout_of(closure([], 1), DOMAIN.sizes)


def test_a_database_is_read_in_one_snapshot_while_somebody_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("residua.source.checking._MOST_KEPT", 0)  # so that it is read twice
    with duckdb.connect() as connection:
        connection.execute("CREATE TABLE people AS SELECT a FROM range(1000) t(a)")
        source = Source.duckdb(connection, "people")
        with source.snapshot() as still:
            found = still.checked(DOMAIN)
            connection.execute("INSERT INTO people SELECT 7 FROM range(1000)")
            assert found.count(layout_total(), None, None).tables.tolist() == [1000]
        assert source.count(DOMAIN, layout_total()).tables.tolist() == [2000]


def test_what_is_kept_is_given_up_when_nothing_is_measured(tmp_path: Path) -> None:
    """A budget that does not allow it leaves no records in the traceback."""
    ledger = rs.Ledger(tmp_path / "a.ledger", rs.ZCDP(rho=0.1))
    with duckdb.connect() as connection, pytest.raises(LedgerError, match="exhausted") as caught:
        rs.measure(plan_of(DOMAIN), Source.duckdb(connection, "SELECT a FROM range(99) t(a)"), ledger=ledger)
    frames, trace = [], caught.value.__traceback__
    while trace is not None:
        frames += list(trace.tb_frame.f_locals.values())
        trace = trace.tb_next
    (checked,) = [value for value in frames if isinstance(value, Checked)]
    assert checked.records == 0
    kept, tallies = (vars(checked).pop(name) for name in ("_codes", "_tallies"))
    assert (tallies.dropped, tallies.other, tallies.no_person, tallies.loss) == ({}, {}, 0, None)
    assert isinstance(kept, KeptCodes)
    assert not list(kept.batches())
    names = {"_source": None, "_domain": DOMAIN, "records": 0, "fingerprint": checked.fingerprint}
    assert vars(checked) == names  # it leads to no count and to nothing that was kept
