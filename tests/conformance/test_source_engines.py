"""One conformance suite for every engine: the same records, whatever holds them, give the same counts."""

import gzip
import itertools
import json
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyarrow.feather import write_feather

import residua as rs
from residua.domain import Bins, Categories, Domain, Integers, Policy
from residua.errors import SourceError
from residua.linalg.lattice import closure
from residua.linalg.layout import Layout, layout_of
from residua.source import Source, source_of
from residua.source.bound import Bound
from residua.source.counting import Counted, Progress

ROWS = 500
SCHEMA = pa.schema(
    [
        ("age", pa.int16()),
        ("sex", pa.string()),
        ("region", pa.int32()),
        ("income", pa.float64()),
        ("flag", pa.bool_()),
        ("code", pa.string()),
        ("n", pa.int64()),
    ]
)
NAMES = SCHEMA.names[:-1]
GOOD: dict[str, list[Any]] = {
    "age": [17, 18, 39, 90],
    "sex": ["Female", "Male", "non, binary", 'said "x"', "two\nlines"],
    "region": [3, 1, 2],
    "income": [0.0, 9.99, 10.0, 1e6],
    "flag": [True, False],
    "code": ["01", "1", "é"],
}
UNKNOWN: dict[str, Any] = {
    "age": 200,
    "sex": "female",
    "region": -1,
    "income": -0.5,
    "flag": None,
    "code": " 01",
}


def domain_with(unknown: Policy, missing: Policy) -> Domain:
    policy: dict[str, Any] = {"unknown": unknown, "missing": missing}
    return Domain(
        {
            "age": Integers(17, 90, **policy),
            "sex": Categories(GOOD["sex"], **policy),
            "region": Categories([3, 1, 2], **policy),
            "income": Bins([0, 10, float("inf")], **policy),
            "flag": Categories(["false", "true"], **policy),
            "code": Categories(["01", "1", "é"], **policy),
        }
    )


def records(dirty: bool) -> list[tuple[Any, ...]]:
    rng = np.random.default_rng(7)
    made = []
    for _ in range(ROWS):
        row = []
        for name in NAMES:
            value, luck = GOOD[name][rng.integers(len(GOOD[name]))], rng.random()
            row.append(value if not dirty or luck > 0.1 else None if luck > 0.05 else UNKNOWN[name])
        made.append(tuple(row))
    return made


def code_of(name: str, value: Any, domain: Domain) -> int | None:
    """The cell of one value by plain Python, nothing when the record is dropped."""
    attribute = domain[name]
    if name == "age":
        place = value - 17 if value is not None and 17 <= value <= 90 else None
    elif name == "income":
        place = (0 if value < 10 else 1) if value is not None and value >= 0 else None
    else:
        listed = [False, True] if name == "flag" else GOOD[name]
        place = listed.index(value) if value is not None and value in listed else None
    if place is not None:
        return place
    policy = attribute.missing if value is None else attribute.unknown
    return attribute.size - 1 if policy == "other" else None


def layout_over(domain: Domain) -> Layout:
    # `code` is in no table: it still decides which records there are.
    sets = [np.array([[0, 1]]), np.array([[0, 2]]), np.array([[1, 2, 3]]), np.array([[4]])]
    lattice = closure([rows.astype(np.int32) for rows in sets], len(domain))
    return layout_of(lattice, domain.sizes, lattice.is_maximal)


def expected(rows: list[tuple[Any, ...]], domain: Domain) -> np.ndarray:
    layout = layout_over(domain)
    buffer = np.zeros(layout.cells, dtype=np.int64)
    for row in rows:
        codes = [code_of(name, value, domain) for name, value in zip(NAMES, row, strict=True)]
        if None in codes:
            continue
        for group in layout:
            for table, members in enumerate(group.members):
                group.view(buffer)[(table, *(codes[i] for i in members))] += 1
    return buffer


def table_of(rows: list[tuple[Any, ...]]) -> pa.Table:
    """The distinct records with how often each occurs (`n`), or every record once."""
    columns = list(zip(*rows, strict=True))
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], SCHEMA)


def halves(table: pa.Table) -> tuple[pa.Table, pa.Table]:
    half = table.num_rows // 3
    return table[:half], table[half:]


def csv_one(table: pa.Table, folder: Path) -> Any:
    pa_csv.write_csv(table, folder / "a.csv")
    return folder / "a.csv"


def csv_many(table: pa.Table, folder: Path) -> Any:
    for name, part in zip("ab", halves(table), strict=True):
        order = table.column_names if name == "a" else table.column_names[::-1]
        pa_csv.write_csv(part.select(order), folder / f"{name}.csv")
    return [str(folder / "b.csv"), folder / "a.csv"]


def csv_glob(table: pa.Table, folder: Path) -> Any:
    csv_many(table, folder)
    return str(folder / "*.csv")


def csv_gz(table: pa.Table, folder: Path) -> Any:
    csv_one(table, folder)
    (folder / "a.csv.gz").write_bytes(gzip.compress((folder / "a.csv").read_bytes(), mtime=0))
    return str(folder / "a.csv.gz")


def tsv(table: pa.Table, folder: Path) -> Any:
    pa_csv.write_csv(table, folder / "a.tsv", pa_csv.WriteOptions(delimiter="\t"))
    return folder / "a.tsv"


def csv_pandas(table: pa.Table, folder: Path) -> Any:
    """As pandas writes it, with "True" and "False", a byte-order mark, and two columns of index without a name."""
    frame = table.to_pandas(types_mapper={pa.int16(): pd.Int16Dtype(), pa.int32(): pd.Int32Dtype()}.get)
    frame.index = pd.MultiIndex.from_arrays([range(len(frame)), range(len(frame))])
    frame.to_csv(folder / "p.csv", encoding="utf-8-sig", lineterminator="\r\n")
    return folder / "p.csv"


def parquet_one(table: pa.Table, folder: Path) -> Any:
    pq.write_table(table, folder / "a.parquet", row_group_size=100)
    return folder / "a.parquet"


def parquet_many(table: pa.Table, folder: Path) -> Any:
    for name, part in zip("ab", halves(table), strict=True):
        pq.write_table(part, folder / f"{name}.parquet")
    return str(folder / "?.parquet")


def parquet_folder(table: pa.Table, folder: Path) -> Any:
    for name, part in zip(("1/a", "2/b"), halves(table), strict=True):
        (folder / "all" / name).parent.mkdir(parents=True)
        pq.write_table(part, folder / "all" / f"{name}.parquet")
    (folder / "all" / "_SUCCESS.parquet").write_bytes(b"")
    return folder / "all"


def parquet_hive(table: pa.Table, folder: Path) -> Any:
    if not len(table):
        (folder / "hive" / "code=01").mkdir(parents=True)
        pq.write_table(table.drop_columns("code"), folder / "hive" / "code=01" / "none.parquet")
    else:
        pq.write_to_dataset(table, folder / "hive", partition_cols=["code"])
    return str(folder / "hive")


def feather(table: pa.Table, folder: Path) -> Any:
    write_feather(table, folder / "a.feather", chunksize=100)
    return folder / "a.feather"


def json_lines(table: pa.Table, folder: Path) -> Any:
    lines = [
        json.dumps({k: v for k, v in row.items() if v is not None or i % 2}) for i, row in enumerate(table.to_pylist())
    ]
    (folder / "a.jsonl").write_text("\n".join(lines) + "\n\n")
    return folder / "a.jsonl"


def json_lines_gz(table: pa.Table, folder: Path) -> Any:
    json_lines(table, folder)
    (folder / "a.ndjson.gz").write_bytes(gzip.compress((folder / "a.jsonl").read_bytes(), mtime=0))
    return str(folder / "a.ndjson.gz")


def pandas_read_csv(table: pa.Table, folder: Path) -> Any:
    """As plain `pd.read_csv` gives it: with chunks of text, and an index nobody uses."""
    frame = pd.read_csv(csv_pandas(table, folder), dtype={"code": "str"}, keep_default_na=False, na_values=[""])
    chunked = pa.concat_tables(halves(table))
    for name in ("sex", "code"):
        frame[name] = pd.arrays.ArrowStringArray(chunked[name].cast(pa.large_string()))
    return frame


def pandas_frame(table: pa.Table, folder: Path) -> Any:
    return table.to_pandas()  # whole numbers with absent values become floats


def pandas_nullable(table: pa.Table, folder: Path) -> Any:
    frame = table.to_pandas().convert_dtypes()
    frame["sex"] = frame["sex"].astype("category")
    return frame


def polars_frame(table: pa.Table, folder: Path) -> Any:
    return pl.from_arrow(table)


def polars_categorical(table: pa.Table, folder: Path) -> Any:
    return pl.from_arrow(table).with_columns(pl.col("sex", "code").cast(pl.Categorical))


def polars_lazy(table: pa.Table, folder: Path) -> Any:
    return pl.from_arrow(table).lazy()


def arrow_table(table: pa.Table, folder: Path) -> Any:
    return pa.concat_tables(halves(table))


def arrow_types(table: pa.Table, folder: Path) -> Any:
    kinds = [pa.decimal128(9, 2), pa.string_view(), pa.float32(), pa.float64(), pa.bool_(), pa.large_string()]
    columns = [column.cast(kind) for column, kind in zip(table.columns, [*kinds, pa.uint64()], strict=True)]
    columns[5] = columns[5].dictionary_encode()
    return pa.table(columns, names=table.column_names)


def arrow_reader(table: pa.Table, folder: Path) -> Any:
    return table.to_reader(max_chunksize=64)


def arrow_dataset(table: pa.Table, folder: Path) -> Any:
    parquet_many(table, folder)
    return ds.dataset(folder, format="parquet")


def arrow_stream(table: pa.Table, folder: Path) -> Any:
    class Stream:
        def __arrow_c_stream__(self, requested_schema: object = None) -> object:
            return table.__arrow_c_stream__(requested_schema)

    return Stream()


def duckdb_file(table: pa.Table, folder: Path) -> Any:
    with duckdb.connect(str(folder / "people.duckdb")) as connection:
        connection.register("records", table)
        connection.execute("CREATE TABLE people AS SELECT * FROM records")
    return (folder / "people.duckdb", "SELECT * FROM people;")


def duckdb_sum(table: pa.Table, folder: Path) -> Any:
    """Aggregated in the query, so that the weight is a HUGEINT."""
    database, _ = duckdb_file(table, folder)
    names = ", ".join(NAMES)
    return (database, f"SELECT {names}, sum(n) AS n FROM people GROUP BY ALL")


def duckdb_relation(table: pa.Table, folder: Path) -> Any:
    return duckdb.from_arrow(table)


def sql_over_csv(table: pa.Table, folder: Path) -> Any:
    path = csv_one(table, folder)
    return partial(Source.sql, {"people": path}, "SELECT * FROM people WHERE true")


def sql_over_parquet(table: pa.Table, folder: Path) -> Any:
    path = parquet_many(table, folder)
    return partial(Source.sql, {"people": path}, "people")


def computed(table: pa.Table, folder: Path) -> Any:
    pq.write_table(table.rename_columns(["Age", *table.column_names[1:]]), folder / "c.parquet")
    made = {"age": '"Age" + 0', "code": "code || ''"}
    return lambda **options: Source.parquet(folder / "c.parquet", **options).with_columns(made)


ENGINES: list[Callable[[pa.Table, Path], Any]] = [
    csv_one,
    csv_many,
    csv_glob,
    csv_gz,
    tsv,
    csv_pandas,
    parquet_one,
    parquet_many,
    parquet_folder,
    parquet_hive,
    feather,
    json_lines,
    json_lines_gz,
    pandas_read_csv,
    pandas_frame,
    pandas_nullable,
    polars_frame,
    polars_categorical,
    polars_lazy,
    arrow_table,
    arrow_types,
    arrow_reader,
    arrow_dataset,
    arrow_stream,
    duckdb_file,
    duckdb_relation,
    sql_over_csv,
    sql_over_parquet,
    computed,
]


def opened(data: Any, **options: Any) -> Source:
    return data(**options) if callable(data) else source_of(data, **options)


every_engine = pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.__name__)


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


@pytest.mark.parametrize("engine", [*ENGINES, duckdb_sum], ids=lambda engine: engine.__name__)
def test_every_engine_counts_weighted_rows_as_so_many_records(engine: Callable[..., Any], tmp_path: Path) -> None:
    rows, domain = records(dirty=True), domain_with("other", "drop")
    weighted = [(*row, n) for row, n in Counter(rows).items()] + [(*rows[0], 0)]
    source = opened(engine(table_of(weighted), tmp_path), weight="n")
    counted = source.count(domain, layout_over(domain))
    assert np.array_equal(counted.tables, expected(rows, domain))
    plain = source_of(table_of([(*row, 1) for row in rows])).count(domain, layout_over(domain))
    assert (dict(counted.dropped), dict(counted.other)) == (dict(plain.dropped), dict(plain.other))


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
def test_no_records_count_as_zero(engine: Callable[..., Any], tmp_path: Path) -> None:
    """Whether a table is empty is confidential: it is measured like any other."""
    domain = domain_with("error", "error")
    counted = opened(engine(SCHEMA.empty_table(), tmp_path)).count(domain, layout_over(domain))
    assert not counted.tables.any()


@every_engine
def test_a_fingerprint_is_stable_and_notices_one_changed_value(engine: Callable[..., Any], tmp_path: Path) -> None:
    rows = [(*row, 1) for row in records(dirty=True)]
    changed = [*rows[:-1], (*rows[-1][:-1], 2)]
    folders = [tmp_path / name for name in "abc"]
    for folder in folders:
        folder.mkdir()
    prints = [
        opened(engine(table_of(data), folder)).fingerprint()
        for data, folder in zip((rows, rows, changed), folders, strict=True)
    ]
    assert prints[0] == prints[1] != prints[2]


def test_a_frames_fingerprint_depends_neither_on_chunks_nor_on_the_library() -> None:
    table = table_of([(*row, 1) for row in records(dirty=True)])
    chunked = pa.Table.from_batches(table.to_batches(max_chunksize=7))
    prints = {
        source_of(frame).fingerprint()
        for frame in (table, chunked, pl.from_arrow(table), pl.from_arrow(table).lazy(), table.to_reader())
    }
    assert len(prints) == 1
    assert source_of(table.slice(3, 20)).fingerprint() == source_of(table[3:23].combine_chunks()).fingerprint()
    assert source_of(table.rename_columns([*"abcdefg"])).fingerprint() not in prints


def test_a_querys_fingerprint_does_not_depend_on_the_order_of_its_records(tmp_path: Path) -> None:
    database, _ = duckdb_file(table_of([(*row, 1) for row in records(dirty=True)]), tmp_path)
    up, down, fewer = (
        Source.duckdb(database, f"FROM people {clause}").fingerprint()
        for clause in ("ORDER BY age, sex", "ORDER BY income DESC", "WHERE age > 17")
    )
    assert up == down != fewer


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
        assert counted.dropped[name] == dropped


def test_an_engine_may_count_where_the_data_is() -> None:
    """The seam: a source that counts by itself is asked for tables and never for records."""

    class Counting(Source):
        def columns(self) -> tuple[str, ...]:
            return ("sex", "n")

        def _read(self, columns: Sequence[str]) -> Iterator[Any]:
            raise AssertionError("asked for records")

        def fingerprint(self) -> str:
            return "elsewhere"

        def count(
            self, domain: Domain, layout: Layout, progress: Progress | None = None, bound: Bound | None = None
        ) -> Counted:
            tables = np.array([30] if layout.cells == 1 else [10, 20], dtype=np.int64)
            return Counted(tables, {}, {})

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


@pytest.mark.parametrize("made", ["sample", "chance", "lazy"])
def test_what_gives_other_records_at_every_reading_is_refused_before_the_debit(made: str, tmp_path: Path) -> None:
    domain = Domain({"a": Integers(0, 99_999)})
    plan = rs.plan(rs.marginals(domain, ways=[0]), rs.ZCDP(rho=0.5))
    ledger = rs.Ledger(tmp_path / "a.ledger", rs.ZCDP(rho=0.5))
    with duckdb.connect() as connection:
        queries = {
            "sample": "SELECT a FROM range(100000) t(a) USING SAMPLE 10%",
            "chance": "SELECT a FROM range(100000) t(a) WHERE random() < 0.5",
        }
        lazy = pl.LazyFrame({"a": range(100_000)}).map_batches(lambda frame: frame.sample(1000))
        data = Source.duckdb(connection, queries[made]) if made in queries else lazy
        with pytest.raises(SourceError, match="gives other records at every reading"):
            rs.measure(plan, data, ledger=ledger)
    assert not ledger.entries
