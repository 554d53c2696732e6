"""The engines of the conformance suite: each puts the same table where it reads from, and hands over what is read.

A row is a function (table, folder) → what `source_of` takes, or a function of options that makes the source. To add
one, write it, and name it in `ENGINES`; if it spells values otherwise than Arrow does, in `SPELLED_OTHERWISE` as well.
"""

import contextlib
import gzip
import json
import sqlite3
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import ibis
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyarrow.feather import write_feather

from residua.domain import Bins, Categories, Domain, Integers, Policy
from residua.linalg.lattice import Layout, closure, layout_of
from residua.source import Source, source_of
from tests.conformance import postgres, stores

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
UNKNOWN: dict[str, Any] = {"age": 200, "sex": "female", "region": -1, "income": -0.5, "flag": None, "code": " 01"}


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


def csv_office(table: pa.Table, folder: Path) -> Any:
    """As an office saves it: semicolons, Windows' encoding, decimal commas, thousands set apart."""
    table = table.set_column(3, "income", pa.array([_german(value) for value in table["income"].to_pylist()]))
    pa_csv.write_csv(table, folder / "u.csv", pa_csv.WriteOptions(delimiter=";"))
    (folder / "o.csv").write_bytes((folder / "u.csv").read_bytes().decode().encode("cp1252"))
    return partial(Source.csv, folder / "o.csv", delimiter=";", encoding="cp1252", decimal=",")


def _german(value: float | None) -> str | None:
    return None if value is None else f"{value:,.2f}".translate(str.maketrans(",.", ".,")).rstrip("0").rstrip(",")


def csv_utf16(table: pa.Table, folder: Path) -> Any:
    (folder / "w.csv").write_text(csv_one(table, folder).read_text(), encoding="utf-16")
    return partial(Source.csv, folder / "w.csv", encoding="utf-16")


def excel(table: pa.Table, folder: Path) -> Any:
    """The sheet of a workbook; text that looks like a number is text, and there is another sheet."""
    import openpyxl

    book = openpyxl.Workbook()
    sheet = book.create_sheet("people")
    sheet.append(table.column_names)
    for row in table.to_pylist():
        sheet.append([*row.values()])
    book.save(folder / "a.xlsx")
    return partial(Source.excel, folder / "a.xlsx", sheet="people")


def _without_truth_values(table: pa.Table) -> pd.DataFrame:
    """Which neither SPSS nor Stata nor SAS has: they are text."""
    return table.set_column(4, "flag", table["flag"].cast(pa.string())).to_pandas()


def spss(table: pa.Table, folder: Path) -> Any:
    import pyreadstat

    pyreadstat.write_sav(_without_truth_values(table), folder / "a.sav", compress=True)
    return folder / "a.sav"


def stata(table: pa.Table, folder: Path) -> Any:
    import pyreadstat

    pyreadstat.write_dta(_without_truth_values(table), folder / "a.dta")
    return folder / "a.dta"


def sas(table: pa.Table, folder: Path) -> Any:
    import pyreadstat

    pyreadstat.write_xport(_without_truth_values(table), folder / "a.xpt")
    return folder / "a.xpt"


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
    """Aggregated in the query, so that the count is a HUGEINT."""
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


def postgresql(table: pa.Table, folder: Path) -> Any:
    return partial(Source.sql, postgres.server(), postgres.ingested(table))


def postgresql_adbc(table: pa.Table, folder: Path) -> Any:
    """Through an open connection, with a count that is a numeric and text that is an enumeration."""
    query = (
        f"SELECT age::numeric(9, 2) AS age, sex, region, income, flag, code, n::numeric FROM {postgres.ingested(table)}"
    )
    return partial(Source.adbc, postgres.standing(), query)


def sqlite(table: pa.Table, folder: Path) -> Any:
    """Columns without types, and truth values as text: SQLite has none."""
    with contextlib.closing(sqlite3.connect(folder / "people.db")) as connection, connection:
        connection.execute(f"CREATE TABLE people ({', '.join(table.column_names)})")
        rows = [[str(v).lower() if isinstance(v, bool) else v for v in row.values()] for row in table.to_pylist()]
        connection.executemany("INSERT INTO people VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
    return partial(Source.sql, f"sqlite:///{folder / 'people.db'}", "SELECT * FROM people")


def ibis_duckdb(table: pa.Table, folder: Path) -> Any:
    database, _ = duckdb_file(table, folder)
    people = ibis.duckdb.connect(str(database), read_only=True).table("people")
    return people.filter(people.age.isnull() | (people.age > 0))


def ibis_sqlite(table: pa.Table, folder: Path) -> Any:
    """Whose types are declared: ibis believes them."""
    sqlite(table, folder)
    kinds = {"int16": "INTEGER", "int32": "INTEGER", "int64": "INTEGER", "double": "REAL"}
    with contextlib.closing(sqlite3.connect(folder / "people.db")) as connection, connection:
        declared = ", ".join(f"{field.name} {kinds.get(str(field.type), 'TEXT')}" for field in table.schema)
        connection.execute(f"CREATE TABLE typed ({declared})")
        connection.execute("INSERT INTO typed SELECT * FROM people")
    return ibis.sqlite.connect(folder / "people.db").table("typed")


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
    csv_office,
    csv_utf16,
    excel,
    spss,
    stata,
    sas,
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
    postgresql,
    postgresql_adbc,
    sqlite,
    ibis_duckdb,
    ibis_sqlite,
    computed,
    *stores.ENGINES,
]


SPELLED_OTHERWISE = {csv_pandas, pandas_read_csv, computed}  # "10.0" and "True", or columns of their own


def opened(data: Any, **options: Any) -> Source:
    return data(**options) if callable(data) else source_of(data, **options)


every_engine = pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: engine.__name__)
