"""Spark, classic and through Connect, goes through the suite of every engine, whole or cut into blocks."""

import json
import logging
import os
import socket
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import residua as rs
from benchmarks.standalone import settings, started
from residua.cli.main import app
from residua.domain import Domain, Integers
from residua.errors import FileError, PlanError, SourceError
from residua.formats import on_spark
from residua.linalg.lattice import Layout, closure, layout_of
from residua.source import Source, source_of, spark
from residua.source.bound import bound_of
from tests.conformance import (
    engines,
    test_source_changes as changes,
    test_source_engines as suite,
    test_source_fingerprints as fingerprints,
)
from tests.conformance.ledgers import Interrupted

SMALL = {"a": 4, "b": 3, "c": 5, "d": 2}
pytestmark = pytest.mark.xdist_group("spark")  # one Java machine for all


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """A classic session on two threads, and one of Spark Connect, served by the same Java machine."""
    folder = tmp_path_factory.mktemp("spark")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    told = {
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": port,
    }
    classic = started("local[2]", settings(folder) | told)
    from pyspark.sql.connect.session import SparkSession

    connect = SparkSession.builder.remote(f"sc://127.0.0.1:{port}").create()
    yield {"classic": classic, "connect": connect}
    connect.stop()
    classic.stop()


def engine_of(session: Any) -> Callable[[pa.Table, Path], Any]:
    def made(table: pa.Table, folder: Path) -> Any:
        if len(table):
            frame = session.createDataFrame(table)
        else:  # Connect makes no frame of no rows
            nothing = pa.Table.from_pylist([dict.fromkeys(table.column_names)], table.schema)
            frame = session.createDataFrame(nothing).where("1 = 0")
        return lambda **options: Source.spark(frame, **options)

    return made


def one_table(domain: Domain) -> Layout:
    lattice = closure([np.arange(len(domain), dtype=np.int32)[None]], len(domain))
    return layout_of(lattice, domain.sizes, lattice.is_maximal)


def counts_alike(engine: Any, folder: Path) -> None:
    for unknown, missing in (("other", "drop"), ("drop", "other")):
        suite.test_every_engine_counts_the_same_records(engine, unknown, missing, folder)


def fingerprints_alike(engine: Any, folder: Path) -> None:
    rows = [(*row, 1) for row in engines.records(dirty=True)]
    found = [
        engines.opened(engine(engines.table_of(data), folder)).fingerprint()
        for data in (rows, rows[::-1], [*rows[:-1], (*rows[-1][:-1], 2)])
    ]
    assert found[0] == found[1] != found[2]
    assert found[0] == source_of(engines.table_of(rows)).fingerprint()  # the same records, wherever they are


LAWS: list[Callable[[Any, Path], None]] = [
    counts_alike,
    suite.test_every_engine_adds_up_the_same_amounts,
    suite.test_every_engine_counts_weighted_rows_as_so_many_records,
    suite.test_every_engine_names_all_columns_with_values_outside_and_quotes_none_unless_asked,
    suite.test_every_engine_stops_at_an_absent_value,
    suite.test_every_engine_names_the_missing_column_and_the_one_probably_meant,
    suite.test_every_engine_bounds_persons_alike,
    suite.test_no_records_count_as_zero,
    changes.test_what_is_counted_later_is_what_was_checked,
    fingerprints_alike,
]
# What runs on all other engines and not here as it is: for another one that says the same, or because Spark's executors
# count, and no records are read here.
OTHERWISE = {
    suite.test_every_engine_counts_the_same_records: counts_alike,
    fingerprints.test_the_same_records_have_the_same_fingerprint_in_every_engine: fingerprints_alike,
    fingerprints.test_a_fingerprint_is_stable_and_notices_one_changed_value: fingerprints_alike,
    changes.test_every_engine_is_read_once_where_codes_fit_into_memory: None,
}


def test_no_law_of_all_engines_is_left_out() -> None:
    found = {
        law
        for module in (suite, fingerprints, changes)
        for law in vars(module).values()
        if any(mark.args[:1] == ("engine",) for mark in getattr(law, "pytestmark", []))
    }
    assert found == {*LAWS, *OTHERWISE} - {counts_alike, fingerprints_alike}


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__.removeprefix("test_"))
@pytest.mark.parametrize("way", ["classic", "blocks", "connect"])
def test_spark_is_an_engine_like_any_other(
    law: Callable[[Any, Path], None], way: str, sessions: dict[str, Any], tmp_path: Path, monkeypatch: Any
) -> None:
    if way == "blocks":  # as large layouts are: shuffled block by block, here of few cells
        monkeypatch.setattr(spark, "_SMALL_CELLS", 0)
        monkeypatch.setattr(spark, "_BLOCK_CELLS", 200)
    law(engine_of(sessions["connect" if way == "connect" else "classic"]), tmp_path)


@pytest.mark.parametrize("way", ["classic", "connect"])
def test_names_are_columns_by_their_place_and_frames_are_recognised(way: str, sessions: dict[str, Any]) -> None:
    frame = sessions[way].createDataFrame(pa.table({"a": ["x"], "A": ["y"], "odd `name.b": [1.5]}))
    source = source_of(frame)
    assert source.columns() == ("a", "A", "odd `name.b")
    (batch,) = source.batches(["odd `name.b", "A"])
    assert batch.to_pydict() == {"odd `name.b": [1.5], "A": ["y"]}
    with pytest.raises(SourceError, match="two columns named 'a'"):
        source_of(frame.toDF("a", "a", "b"))


@pytest.mark.parametrize("way", ["classic", "connect"])
def test_errors_of_spark_quote_no_value_unless_asked(way: str, sessions: dict[str, Any], caplog: Any) -> None:
    caplog.set_level(logging.DEBUG)
    frame = sessions[way].createDataFrame(pa.table({"a": ["confidential"]})).selectExpr("cast(a as int) as a")
    domain = Domain({"a": Integers(0, 9)})
    asked: list[Callable[[], Any]] = [
        lambda: Source.spark(frame).count(domain, one_table(domain)),
        lambda: list(Source.spark(frame).batches(["a"])),  # streamed
        Source.spark(frame).fingerprint,
    ]
    for ask in asked:
        with pytest.raises(SourceError, match=r"failed in Spark \(") as caught:
            ask()
        assert "confidential" not in "".join(traceback.format_exception(caught.value))
        assert caught.value.__context__ is None
    assert "confidential" not in caplog.text
    with pytest.raises(SourceError, match="confidential"):
        Source.spark(frame, show_values=True).count(domain, one_table(domain))


def test_columns_are_computed_on_the_executors(sessions: dict[str, Any]) -> None:
    table = pa.table({"born": [1990, 2010, 2011, None]})
    data = Source.spark(sessions["classic"].createDataFrame(table)).with_columns({"adult": "born < 2006"})
    domain = Domain({"adult": rs.Categories(["false", "true"], missing="drop")})
    counted = data.count(domain, one_table(domain))
    assert counted.tables.tolist() == [2, 1]
    assert dict(counted.tallies.dropped) == {"adult": 1}
    with pytest.raises(SourceError, match="'bron'"):
        Source.spark(sessions["classic"].createDataFrame(table)).with_columns({"adult": "bron < 2006"}).count(
            domain, one_table(domain)
        )


@pytest.mark.parametrize("way", ["classic", "connect"])
def test_a_frame_that_gives_other_records_at_every_reading_releases_nothing(
    way: str, sessions: dict[str, Any], tmp_path: Path
) -> None:
    domain = Domain({"a": Integers(0, 99_999)})
    plan = rs.plan(rs.marginals(domain, ways=[0]), rs.ZCDP(rho=0.5))

    def chance(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            yield batch.slice(int.from_bytes(os.urandom(2)) % 1000)

    frame = sessions[way].range(100_000).selectExpr("id as a").mapInArrow(chance, "a long")
    ledger = rs.Ledger(tmp_path / "a.ledger", rs.ZCDP(rho=0.5))
    with pytest.raises(SourceError, match=r"the data changed after it was checked.* Debit 1 of the ledger stands"):
        rs.measure(plan, frame, ledger=ledger)


# ---- releases in parts


def parted(session: Any, folder: Path, monkeypatch: Any, table: pa.Table) -> tuple[rs.Plan, rs.Ledger, Source]:
    monkeypatch.setattr(spark, "_BLOCK_CELLS", 25)
    domain = Domain.of_sizes(SMALL)
    plan = rs.plan(rs.marginals(domain, ways=[1, 2, 3]), rs.ZCDP(rho=1e6))
    frame = session.createDataFrame(table)
    return plan, rs.Ledger(folder / "a.ledger", rs.ZCDP(rho=2e6)), Source.spark(frame)


@pytest.mark.parametrize("way", ["classic", "blocks", "connect"])
def test_the_same_records_of_each_person_are_counted(way: str, sessions: dict[str, Any], monkeypatch: Any) -> None:
    if way == "blocks":
        monkeypatch.setattr(spark, "_SMALL_CELLS", 0)
        monkeypatch.setattr(spark, "_BLOCK_CELLS", 25)
    rng = np.random.default_rng(9)
    table = small_table(400).append_column(
        "id", pa.array([None if i % 7 == 0 else f"p{i}" for i in rng.integers(0, 40, 400)])
    )
    table = table.append_column("n", pa.array(rng.integers(0, 3, 400)))
    domain = Domain.of_sizes(SMALL)
    bound = bound_of(rs.Person(records=3, one_per="b"), domain, bytes(range(32)))
    session = sessions["connect" if way == "connect" else "classic"]
    frame = session.createDataFrame(table).repartition(3)
    for options in ({"no_person": "drop"}, {"no_person": "apart", "counts": "n"}):
        mine = Source.spark(frame, person="id", **options).count(domain, one_table(domain), None, bound)
        theirs = source_of(table, person="id", **options).count(domain, one_table(domain), None, bound)
        assert np.array_equal(mine.tables, theirs.tables)
        assert mine.tallies.no_person == theirs.tallies.no_person
        assert np.array_equal(mine.tallies.loss.held, theirs.tallies.loss.held)
        assert np.array_equal(mine.tallies.loss.lost, theirs.tallies.loss.lost)
    with pytest.raises(SourceError, match="column 'id' does not say of every record whose it is"):
        Source.spark(frame, person="id").count(domain, one_table(domain), None, bound)


def small_table(rows: int) -> pa.Table:
    rng = np.random.default_rng(5)
    return pa.table({name: rng.integers(0, size, rows) for name, size in SMALL.items()})


@pytest.mark.parametrize(("way", "rows"), [("classic", 300), ("connect", 300), ("classic", 0)])
def test_a_release_in_parts_is_a_release_like_any_other(
    way: str, rows: int, sessions: dict[str, Any], tmp_path: Path, monkeypatch: Any
) -> None:
    table = small_table(rows)
    plan, ledger, data = parted(sessions[way], tmp_path, monkeypatch, table)
    seen = []
    rs.measure(plan, data, ledger=ledger, out=tmp_path / "out", notice=seen.append)
    release = rs.Release.load(tmp_path / "out")
    assert len(ledger.entries) == len(seen) == 1
    parts = sorted((tmp_path / "out" / "measurements").iterdir())
    assert len(parts) > 5
    shape = (4, 5, 2)
    truth = np.zeros(shape)
    np.add.at(truth, tuple(table[name].to_numpy() for name in "acd"), 1)
    assert np.abs(release.estimates(["a", "c", "d"]) - truth).max() < 0.2  # 100 standard deviations
    assert 0 < release.noisy.part.cache_info().currsize < len(parts)  # the others were not read
    whole = rs.Release(plan, release.measurements, np.asarray(release.noisy), release.receipt)
    for (_, _, mine), (_, _, theirs) in zip(release.all_estimates(), whole.all_estimates(), strict=True):
        assert np.array_equal(mine, theirs)
    release.save(tmp_path / "copy")
    assert np.array_equal(rs.Release.load(tmp_path / "copy").noisy, np.asarray(release.noisy))


@pytest.mark.parametrize("way", ["classic", "connect"])
def test_tables_rebuilt_on_executors_are_those_of_the_release_digit_for_digit(
    way: str, sessions: dict[str, Any], tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(spark, "_BLOCK_CELLS", 40)
    monkeypatch.setattr(on_spark, "BLOCK_CELLS", 15)
    sizes = {name: Integers(0, size - 1) for name, size in SMALL.items()}
    domain = Domain({**sizes, "one": ["only"], "sex": ["F", "M"]})
    asked = [(), ("one",), ("b",), ("a", "c"), ("a", "one", "d"), ("b", "c", "d"), ("sex",)]  # not all that lie below
    plan = rs.plan(rs.marginals(domain, asked), rs.ZCDP(rho=0.5))
    rows = small_table(300)
    rows = rows.append_column("one", pa.array(["only"] * 300)).append_column("sex", pa.array(["F", "M", "M"] * 100))
    ledger = rs.Ledger(tmp_path / "a.ledger", rs.ZCDP(rho=2.0))
    release = rs.measure(plan, sessions[way].createDataFrame(rows), ledger=ledger, out=tmp_path / "out")
    files = release.export(tmp_path / "all", "parquet", spark=sessions[way], confidence=0.9, title="People")
    assert len(files) == len(list((tmp_path / "all").glob("*.parquet"))) > 2
    found = pq.read_table(tmp_path / "all")
    assert json.loads(found.schema.metadata[b"residua"])["confidence"] == 0.9
    number = 0
    for path in release.export(tmp_path / "apart", "parquet", confidence=0.9):
        table = pq.read_table(path)
        names = table.column_names[: table.column_names.index("estimate")]
        mine = found.filter(pc.equal(found["table"].cast(pa.string()), " × ".join(names) or "total"))
        for column in table.column_names[len(names) :]:
            assert mine[column].to_pylist() == table[column].to_pylist()
        for j in range(3):
            wanted = [names[j]] * len(table) if j < len(names) else [None] * len(table)
            assert mine[f"attribute_{j + 1}"].to_pylist() == wanted
            values = [str(v) for v in table[names[j]].to_pylist()] if j < len(names) else wanted
            assert mine[f"value_{j + 1}"].to_pylist() == values
        number += len(table)
    assert number == len(found)
    with pytest.raises(FileError, match="exists already"):
        release.export(tmp_path / "all", "parquet", spark=sessions[way])
    with pytest.raises(PlanError, match="as parquet"):
        release.export(tmp_path / "no", "csv", spark=sessions[way])
    with pytest.raises(PlanError, match="is no Spark session"):
        release.export(tmp_path / "no", "parquet", spark="local")
    with pytest.raises(PlanError, match="as parquet"):
        rs.project(release).export(tmp_path / "no", "parquet", spark=sessions[way])
    last = sorted((tmp_path / "out" / "measurements").iterdir())[-1]
    last.write_bytes(last.read_bytes()[::-1])
    with pytest.raises(FileError, match=r"cannot write the tables: .* was changed after it was written"):
        release.export(tmp_path / "no", "parquet", spark=sessions[way])
    assert not [path for path in tmp_path.iterdir() if "no" in path.name]
    whole = rs.Release(
        plan, release.measurements, np.zeros(release.measurements.cells, dtype=np.int64), release.receipt
    )
    with pytest.raises(PlanError, match="in parts"):
        whole.export(tmp_path / "no", "parquet", spark=sessions[way])


def test_executors_count_at_most_so_many_records_of_each_person(
    sessions: dict[str, Any], tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(spark, "_BLOCK_CELLS", 25)
    table = small_table(300).append_column("id", pa.array(np.random.default_rng(2).integers(0, 40, 300)))
    domain, unit = Domain.of_sizes(SMALL), rs.Person(records=3)
    plan = rs.plan(rs.marginals(domain, ways=[1, 2]), rs.ZCDP(rho=1e7), unit=unit)
    ledger = rs.Ledger(tmp_path / "a.ledger", rs.ZCDP(rho=1e7), unit=unit)
    data = Source.spark(sessions["classic"].createDataFrame(table).repartition(3), person="id")
    seen = []
    release = rs.measure(plan, data, ledger=ledger, out=tmp_path / "out", notice=seen.append)
    bound = bound_of(unit, domain, ledger.choosing_key)
    counted = source_of(table, person="id").count(domain, one_table(domain), None, bound)
    truth = counted.tables.reshape(4, 3, 5, 2).sum(axis=(1, 2))
    assert truth.sum() < 3 * 40 + 1 < 300
    assert np.abs(release.estimates(["a", "d"]) - truth).max() < 0.2
    assert seen[0].loss.dropped == counted.tallies.loss.dropped == 300 - truth.sum()


def test_a_changed_or_missing_part_is_noticed(sessions: dict[str, Any], tmp_path: Path, monkeypatch: Any) -> None:
    plan, ledger, data = parted(sessions["classic"], tmp_path, monkeypatch, small_table(50))
    release = rs.measure(plan, data, ledger=ledger, out=tmp_path / "out")
    last = sorted((tmp_path / "out" / "measurements").iterdir())[-1]
    last.write_bytes(last.read_bytes()[::-1])
    with pytest.raises(FileError, match="was changed after it was written"):
        np.asarray(release.noisy)
    last.unlink()
    with pytest.raises(FileError, match="lacks 'measurements/part-"):
        rs.Release.load(tmp_path / "out")


def test_what_cannot_be_written_is_refused_before_the_debit(
    sessions: dict[str, Any], tmp_path: Path, monkeypatch: Any
) -> None:
    plan, ledger, data = parted(sessions["classic"], tmp_path, monkeypatch, small_table(50))
    listed = rs.plan(rs.queries(plan.domain, ["a > 1", "b = 2"]), rs.ZCDP(rho=1.0))
    with pytest.raises(PlanError, match="not measured on executors"):
        rs.measure(listed, data, ledger=ledger, out=tmp_path / "out")
    with pytest.raises(FileError, match="does not exist; make it first"):
        rs.measure(plan, data, ledger=ledger, out=tmp_path / "nowhere" / "out")
    with pytest.raises(FileError, match="out=5 is no path"):
        rs.measure(plan, data, ledger=ledger, out=5)
    (tmp_path / "taken").mkdir()
    with pytest.raises(FileError, match="exists already"):
        rs.measure(plan, data, ledger=ledger, out=tmp_path / "taken")
    assert not ledger.entries
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.ledger", "taken"]


def test_blocks_of_other_records_than_were_checked_are_never_measured(
    sessions: dict[str, Any], tmp_path: Path, monkeypatch: Any
) -> None:
    table = small_table(50)
    plan, _, _ = parted(sessions["classic"], tmp_path, monkeypatch, table)
    kept = {"compression": None, "use_dictionary": False, "write_statistics": False}  # the same bytes in length
    pq.write_table(table, tmp_path / "a.parquet", **kept)
    data = Source.spark(str(tmp_path / "a.parquet"))

    def change() -> None:
        changed = table.set_column(0, "a", pa.array((table["a"].to_numpy() + 1) % 4))
        pq.write_table(changed, tmp_path / "a.parquet", **kept)

    ledger = Interrupted(tmp_path / "a.ledger", rs.ZCDP(rho=2e6), change)
    with pytest.raises(SourceError, match=r"the data changed after it was checked\. Debit 1 of the ledger stands"):
        rs.measure(plan, data, ledger=ledger, out=tmp_path / "out")
    assert len(ledger.entries) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.ledger", "a.parquet"]


def test_the_command_releases_a_table_of_the_session_on_this_machine_or_on_executors(
    sessions: dict[str, Any], tmp_path: Path
) -> None:
    sessions["classic"].createDataFrame(small_table(200)).createOrReplaceTempView("people")
    domain = "".join(f"[domain.{name}]\nlow = 0\nhigh = {size - 1}\n" for name, size in SMALL.items())
    spec = tmp_path / "spec.toml"
    spec.write_text(
        f'[source]\nspark = "people"\n{domain}[[workload]]\nways = [1, 2]\n[privacy]\nrho = 1e5\n'
        '[ledger]\npath = "a.ledger"\nrho = 2e5\n'
    )
    assert CliRunner().invoke(app, ["ledger", "create", str(spec)]).exit_code == 0
    for name, more in (("here", []), ("there", ["--on-executors"])):
        done = CliRunner().invoke(app, ["release", str(spec), "--out", str(tmp_path / name), *more])
        assert done.exit_code == 0, done.output
        found = rs.Release.load(tmp_path / name).estimates(["a", "d"])
        truth = np.zeros((4, 2))
        np.add.at(truth, tuple(small_table(200)[column].to_numpy() for column in "ad"), 1)
        assert np.abs(found - truth).max() < 0.5
        assert (tmp_path / name / "measurements").is_dir() == (name == "there")
    written = CliRunner().invoke(
        app, ["tables", str(tmp_path / "there"), "--out", str(tmp_path / "all"), "--on-executors", "--full"]
    )
    assert written.exit_code == 0, written.output
    assert "with all tables, a row per cell" in written.output
    found = pq.read_table(tmp_path / "all").to_pandas()
    assert found[found["table"] == "a × d"]["estimate"].tolist() == (
        rs.Release.load(tmp_path / "there").estimates(["a", "d"]).ravel().tolist()
    )
    here = ["tables", str(tmp_path / "here"), "--out", str(tmp_path / "no"), "--on-executors"]
    assert CliRunner().invoke(app, here).exit_code != 0  # it is not in parts
    spec.write_text(spec.read_text().replace('spark = "people"', 'path = "people.csv"'))
    refused = CliRunner().invoke(app, ["release", str(spec), "--out", str(tmp_path / "no"), "--on-executors"])
    assert refused.exit_code != 0
    with pytest.raises(SourceError, match=r"'nobody' failed in Spark \(TABLE_OR_VIEW_NOT_FOUND"):
        Source.spark("nobody")


@pytest.mark.parametrize("blocks", [False, True])
def test_executors_measure_amounts(blocks: bool, sessions: dict[str, Any], tmp_path: Path, monkeypatch: Any) -> None:
    """Sums and counts are those of the records, within seven standard deviations; the noise is there, and is stated."""
    if blocks:
        monkeypatch.setattr(spark, "_SMALL_CELLS", 0)
        monkeypatch.setattr(spark, "_BLOCK_CELLS", 2)
    domain = rs.Domain({"sex": ["F", "M"], "pay": rs.Amount(0, 30, unit=10), "debt": rs.Amount(-1, 1, unit=0.5)})
    rows = pa.table({"sex": ["F", "M", "M"] * 400, "pay": [12.0, 31.0, 4.0] * 400, "debt": [0.5, -3.0, 1.0] * 400})
    plan = rs.plan(rs.marginals(domain, [("sex", "pay"), ("sex", "debt")]), rs.ZCDP(2.0))
    ledger = rs.Ledger(tmp_path / "l", rs.ZCDP(9.0))
    frame = sessions["classic"].createDataFrame(rows.to_pandas())
    release = rs.measure(plan, frame, ledger=ledger, out=tmp_path / "out")
    for name, true in (("pay", [4000, 12000]), ("debt", [200, 0])):
        table = release.table(["sex", name])
        errors = (table.estimates[:, 0] - true) / table.stddev[:, 0]
        assert np.abs(errors).max() < 7
        assert np.abs(errors).max() > 1e-9
    fine = rs.Domain({"sex": ["F", "M"], "pay": rs.Amount(0, 2**20, unit=1)})
    loud = rs.plan(rs.marginals(fine, [("sex", "pay")]), rs.ZCDP(1e-9))
    with pytest.raises(PlanError, match=r"choose coarser units\. Nothing was spent"):
        rs.measure(loud, frame.select("sex", "pay"), ledger=ledger, out=tmp_path / "more")
    assert len(ledger.entries) == 1
