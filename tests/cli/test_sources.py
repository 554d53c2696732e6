"""What [source] and [domain] may say: delimiters, queries over files, computed columns, code lists, dates, formats."""

import contextlib
import sqlite3
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.feather import write_feather

import residua as rs
from residua.cli.sources import open_source
from residua.cli.spec import read_spec
from tests.cli.command import DATA, SPEC, inside

SALES = """\
;when;shop;amount
0;2024-01-31T23:10:00;b;5
1;2024-02-01 08:00:00;a;70
2;2024-03-01 09:00:00;a;200
"""
SALES_SPEC = """
[source]
delimiter = ";"
query = "SELECT s.*, kind FROM sales s JOIN shops ON shop = code"
[source.tables]
sales = "data/s*.csv"
shops = "data/shops.txt"
[privacy]
rho = 1e4
[[workload]]
ways = [1]
[domain.month]
expression = '"when"'
first = 2024-01-01
last = 2024-03-31
unit = "month"
levels = ["quarter"]
[domain.shop]
values = { file = "codes.csv", column = "code" }
[domain.large]
expression = "CAST(amount AS INTEGER) >= 100"
values = [false, true]
[domain.kind]
values = { file = "kinds.txt" }
"""


@pytest.fixture
def sales(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "sales.csv").write_text(SALES)
    (tmp_path / "data" / "shops.txt").write_text("code;kind\na;street\nb;mall\n")
    (tmp_path / "codes.csv").write_text("name,code\nAlpha,a\nBeta,b\nGamma,c\n")
    (tmp_path / "kinds.txt").write_text("mall\n\nstreet\n")
    (tmp_path / "spec.toml").write_text(SALES_SPEC)
    return tmp_path


def test_a_query_over_files_with_computed_columns_code_lists_and_dates(sales: Path) -> None:
    done = inside("release", "spec.toml", "--out", "out", cwd=sales)
    assert done.code == 0, done.err
    release = rs.Release.load(sales / "out")
    expected = {"month": [1, 1, 1], "shop": [2, 1, 0], "large": [2, 1], "kind": [1, 2]}
    for name, counts in expected.items():
        assert release.estimates([name]) == pytest.approx(counts, abs=0.5)
    assert release.table(["month"]).columns["month"] == ["2024-01", "2024-02", "2024-03"]


@pytest.mark.parametrize("kind", ["feather", "folder", "hive", "jsonl", "semicolons", "query"])
def test_every_format_by_path(kind: str, tmp_path: Path) -> None:
    table = pa.table({"sex": ["F", "M", "M"], "age": [1, 2, 3]})
    (tmp_path / "d").mkdir()
    match kind:
        case "feather":
            write_feather(table, tmp_path / "d" / "a.feather")
            source = 'path = "d/*.feather"'
        case "folder":
            pq.write_table(table, tmp_path / "d" / "a.parquet")
            source = 'path = "d"'
        case "hive":
            pq.write_to_dataset(table, tmp_path / "d", partition_cols=["sex"])
            source = 'path = "d"'
        case "jsonl":
            (tmp_path / "d" / "a.jsonl").write_text(
                '{"sex": "F", "age": 1}\n{"sex": "M", "age": 2}\n{"sex": "M", "age": 3}\n'
            )
            source = 'path = "d/a.jsonl"'
        case "semicolons":
            (tmp_path / "d" / "a.csv").write_text("sex;age\nF;1\nM;2\nM;3\n")
            source = 'path = "d/a.csv"\ndelimiter = ";"'
        case _:
            (tmp_path / "d" / "a.csv").write_text("s;age\nF;0\nM;1\nM;2\n")
            source = 'path = "d/a.csv"\ndelimiter = ";"\nquery = "SELECT s AS sex, age::INT + 1 AS age FROM data"'
    (tmp_path / "spec.toml").write_text(SPEC.replace('path = "people.csv"', source))
    batches = list(open_source(read_spec(tmp_path / "spec.toml")).batches(["sex", "age"]))
    rows = sorted((row["sex"], int(row["age"])) for batch in batches for row in batch.to_pylist())
    assert rows == [("F", 1), ("M", 2), ("M", 3)]


MISTAKES = {
    "no file of values": ('file = "codes.csv"', 'file = "no.csv"', "is not a file; check the path"),
    "no column of values": ('column = "code"', 'column = "no"', "has no column 'no'; it has 'name', 'code'"),
    "a key of values": ('column = "code"', 'colum = "code"', "values has the keys"),
    "a column of lines": ('"kinds.txt"', '"kinds.txt", column = "x"', "leave column out"),
    "a window": ("CAST(amount AS INTEGER) >= 100", "sum(amount) OVER () > 1", "window function"),
    "an aggregate": ("CAST(amount AS INTEGER) >= 100", "max(amount) > 1", "sums over rows"),
    "a subquery": ("CAST(amount AS INTEGER) >= 100", "(SELECT true)", "without subqueries"),
    "chance": ("CAST(amount AS INTEGER) >= 100", "random() > 0.5", "not the same every time"),
    "no expression": ('"CAST(amount AS INTEGER) >= 100"', "3", "the expression of 'large' is 3"),
    "no date": ("2024-03-31", "'2024-03-32'", "is not a date"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes_are_found_before_data_is_read(case: str, sales: Path) -> None:
    old, new, told = MISTAKES[case]
    assert SALES_SPEC.count(old) == 1
    (sales / "spec.toml").write_text(SALES_SPEC.replace(old, new))
    done = inside("plan", "spec.toml", cwd=sales)
    assert done.refused
    assert told in done.err


def test_a_draft_leaves_out_columns_without_a_name(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("," + DATA.replace("\n", "\n0,").removesuffix("0,"))
    assert inside("init", "d.csv", cwd=tmp_path).code == 0
    assert '[domain."sex"]' in (tmp_path / "spec.toml").read_text()
    assert '[domain.""]' not in (tmp_path / "spec.toml").read_text()


def uri_spec(tmp_path: Path, uri: str) -> Path:
    (tmp_path / "s.toml").write_text(
        f'[source]\nuri = "{uri}"\nquery = "people"\n[domain]\nsex = ["F", "M"]\n[privacy]\nrho = 1e6\n'
        '[[workload]]\nways = [1]\n[ledger]\npath = "a.ledger"\n'
    )
    return tmp_path / "s.toml"


def test_a_database_is_named_by_its_uri(tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / "people.db")) as connection, connection:
        connection.execute("CREATE TABLE people (sex)")
        connection.executemany("INSERT INTO people VALUES (?)", [["F"]] * 3 + [["M"]] * 4)
    uri_spec(tmp_path, "sqlite:///people.db")
    assert inside("release", "s.toml", "--out", "out", cwd=tmp_path).code == 0
    assert [round(value) for value in rs.Release.load(tmp_path / "out").estimates(["sex"])] == [3, 4]


@pytest.mark.parametrize(
    "uri",
    [
        "postgresql://bob:hunter2@host/db",
        "postgresql://host/db?user=bob&password=hunter2",
        "postgresql://bob:a?hunter2@host/db",
        "postgresql://host/db#x?password=hunter2",
    ],
)
def test_a_password_in_a_specification_is_refused_and_not_repeated(tmp_path: Path, uri: str) -> None:
    uri_spec(tmp_path, uri)
    for command in (["plan", "s.toml"], ["release", "s.toml", "--out", "out"]):
        done = inside(*command, cwd=tmp_path)
        assert done.refused
        assert "[source] uri holds a password or a token" in done.err.replace("\n", " ")
        assert "hunter2" not in done.out + done.err
    assert not (tmp_path / "a.ledger").exists()
