"""One conformance suite for every engine: the same records, whatever holds them, give the same counts."""

import gzip
import itertools
from collections import Counter
from collections.abc import Callable
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

from residua.domain import Bins, Categories, Domain, Integers, Policy
from residua.errors import SourceError
from residua.linalg.lattice import closure
from residua.linalg.layout import Layout, layout_of
from residua.source import Source, source_of
from residua.source.counting import count

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
    (folder / "a.csv.gz").write_bytes(gzip.compress((folder / "a.csv").read_bytes()))
    return str(folder / "a.csv.gz")


def tsv(table: pa.Table, folder: Path) -> Any:
    pa_csv.write_csv(table, folder / "a.tsv", pa_csv.WriteOptions(delimiter="\t"))
    return folder / "a.tsv"


def csv_pandas(table: pa.Table, folder: Path) -> Any:
    """As pandas writes it, with a byte-order mark; truth values spelled as the domain does, for text is exact."""
    frame = table.to_pandas(types_mapper={pa.int16(): pd.Int16Dtype(), pa.int32(): pd.Int32Dtype()}.get)
    frame["flag"] = frame["flag"].map({True: "true", False: "false"})
    frame.to_csv(folder / "p.csv", index=False, encoding="utf-8-sig", lineterminator="\r\n")
    return folder / "p.csv"


def parquet_one(table: pa.Table, folder: Path) -> Any:
    pq.write_table(table, folder / "a.parquet", row_group_size=100)
    return folder / "a.parquet"


def parquet_many(table: pa.Table, folder: Path) -> Any:
    for name, part in zip("ab", halves(table), strict=True):
        pq.write_table(part, folder / f"{name}.parquet")
    return str(folder / "?.parquet")


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


ENGINES: list[Callable[[pa.Table, Path], Any]] = [
    csv_one,
    csv_many,
    csv_glob,
    csv_gz,
    tsv,
    csv_pandas,
    parquet_one,
    parquet_many,
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
]
every_engine = pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.__name__)


@every_engine
@pytest.mark.parametrize("unknown", ["other", "drop"])
@pytest.mark.parametrize("missing", ["other", "drop"])
def test_every_engine_counts_the_same_records(
    engine: Callable[..., Any], unknown: Policy, missing: Policy, tmp_path: Path
) -> None:
    rows, domain = records(dirty=True), domain_with(unknown, missing)
    source = source_of(engine(table_of([(*row, 1) for row in rows]), tmp_path))
    assert set(source.columns()) == set(SCHEMA.names)
    counted = count(source, domain, layout_over(domain))
    assert np.array_equal(counted.tables, expected(rows, domain))


@pytest.mark.parametrize("engine", [*ENGINES, duckdb_sum], ids=lambda engine: engine.__name__)
def test_every_engine_counts_weighted_rows_as_so_many_records(engine: Callable[..., Any], tmp_path: Path) -> None:
    rows, domain = records(dirty=True), domain_with("other", "drop")
    weighted = [(*row, n) for row, n in Counter(rows).items()] + [(*rows[0], 0)]
    source = source_of(engine(table_of(weighted), tmp_path), weight="n")
    counted = count(source, domain, layout_over(domain))
    assert np.array_equal(counted.tables, expected(rows, domain))
    plain = count(source_of(table_of([(*row, 1) for row in rows])), domain, layout_over(domain))
    assert (dict(counted.dropped), dict(counted.other)) == (dict(plain.dropped), dict(plain.other))


@every_engine
def test_every_engine_stops_at_a_value_outside_the_domain(engine: Callable[..., Any], tmp_path: Path) -> None:
    bad = [*records(dirty=False), (17, "female", 3, 0.0, True, "01")]
    source = source_of(engine(table_of([(*row, 1) for row in bad]), tmp_path))
    domain = domain_with("error", "drop")
    with pytest.raises(SourceError) as caught:
        count(source, domain, layout_over(domain))
    assert str(caught.value) == (
        "attribute 'sex' has values outside its domain, such as 'female'; declare them, "
        "or say unknown='other' or unknown='drop'."
    )


@every_engine
def test_every_engine_stops_at_an_absent_value(engine: Callable[..., Any], tmp_path: Path) -> None:
    bad = [*records(dirty=False), (17, "Female", 3, None, True, "01")]
    source = source_of(engine(table_of([(*row, 1) for row in bad]), tmp_path))
    domain = domain_with("drop", "error")
    with pytest.raises(SourceError, match="attribute 'income' has absent values"):
        count(source, domain, layout_over(domain))


@every_engine
def test_every_engine_names_the_missing_column_and_the_one_probably_meant(
    engine: Callable[..., Any], tmp_path: Path
) -> None:
    source = source_of(engine(table_of([(*row, 1) for row in records(dirty=False)]), tmp_path))
    with pytest.raises(SourceError, match=r"has no column 'regoin' \(is it 'region'\?\), 'zzz'; it has '"):
        list(source.batches(["age", "regoin", "zzz"]))


@every_engine
def test_no_records_count_as_zero(engine: Callable[..., Any], tmp_path: Path) -> None:
    """Whether a table is empty is confidential: it is measured like any other."""
    domain = domain_with("error", "error")
    counted = count(source_of(engine(SCHEMA.empty_table(), tmp_path)), domain, layout_over(domain))
    assert not counted.tables.any()


@every_engine
def test_a_fingerprint_is_stable_and_notices_one_changed_value(engine: Callable[..., Any], tmp_path: Path) -> None:
    rows = [(*row, 1) for row in records(dirty=True)]
    changed = [*rows[:-1], (*rows[-1][:-1], 2)]
    folders = [tmp_path / name for name in "abc"]
    for folder in folders:
        folder.mkdir()
    prints = [
        source_of(engine(table_of(data), folder)).fingerprint()
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
    counted = count(source_of(table_of([(*row, 1) for row in rows])), domain, layout)
    totals = {int(t.sum()) for group in layout for t in group.view(counted.tables)}
    kept = [all(code_of(n, v, domain) is not None for n, v in zip(NAMES, row, strict=True)) for row in rows]
    assert totals == {sum(kept)}
    assert sum(kept) == ROWS or "drop" in dirty
    for name in NAMES:
        dropped = sum(code_of(name, row[NAMES.index(name)], domain) is None for row in rows)
        assert counted.dropped[name] == dropped
