"""Bad input of every kind: one clear sentence that names the file or column and the remedy, and no count."""

import contextlib
import gzip
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyarrow.feather import write_feather

from residua.domain import Domain, Integers
from residua.errors import SourceError
from residua.linalg.lattice import closure, layout_of
from residua.source import Source, source_of
from residua.source.counting import count

DOMAIN = Domain({"a": Integers(0, 9, unknown="drop"), "b": ["x", "y"]})
LATTICE = closure([np.array([[0, 1]], dtype=np.int32)], 2)
LAYOUT = layout_of(LATTICE, DOMAIN.sizes, LATTICE.is_maximal)


def total(data: Any, **options: Any) -> int:
    return int(count(source_of(data, **options), DOMAIN, LAYOUT).tables.sum())


def refusal(data: Any, **options: Any) -> str:
    """The sentence, which must be one line, end properly, and come without a chain of causes."""
    with pytest.raises(SourceError) as caught:
        total(data, **options)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    message = str(caught.value)
    assert "\n" not in message
    assert message.endswith(".")
    return message


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "is empty; the first line must name the columns"),
        (b"\n\n", "is empty; the first line must name the columns"),
        (b"a,b\n1,x\n2\n", "has a row of 1 fields where the header has 2; repair"),
        (b"a,b\n1,x\n2,x,y\n", "has a row of 3 fields where the header has 2; repair"),
        (b'a,b\n1,x\n2,"y\n1,x\n', "quote that is never closed"),
        (b'a,b\n1,x\n2,"y', "quote that is never closed"),
        (b"a,a\n1,2\n", "has two columns named alike in the first line; rename one"),
        (b"a,b\n1,\xff\n", "is not UTF-8 text; say what it is"),
        (b"a,\xff\n1,x\n", "is not UTF-8 text; say what it is"),
        (b"a;b\n1;x\n", "has no column 'a', 'b' in its first line"),
        (b"a,c\n1,x\n", "has no column 'b'; it has 'a', 'c'"),
    ],
    ids=lambda value: repr(value)[:30] if isinstance(value, bytes) else "",
)
def test_malformed_csv(content: bytes, told: str, tmp_path: Path) -> None:
    message = refusal(written(tmp_path / "bad.csv", content))
    assert told in message
    assert "bad.csv" in message


def test_an_error_deep_in_a_long_csv_is_noticed_and_told_without_a_row_number(tmp_path: Path) -> None:
    lines = b"1,x\n" * 600_000
    assert total(written(tmp_path / "good.csv", b"a,b\n" + lines)) == 600_000
    for end in (b"2\n", b'2,"x\n', b"2,x,x\n"):
        message = refusal(written(tmp_path / "long.csv", b"a,b\n" + lines + end))
        assert not any(number in message for number in ("600000", "600,000", "600001", "600002"))
    message = refusal(written(tmp_path / "long.csv", b'a,b\n1,"x\n' + lines))
    assert "never closed" in message


@pytest.mark.parametrize("content", [b"Smith,Smith,7\nJones,May,8\n", b"Smith,7\nJones,8\n"])
def test_a_file_without_a_header_shows_no_record(content: bytes, tmp_path: Path) -> None:
    path = written(tmp_path / "h.csv", content)
    assert "Smith" not in refusal(path)
    assert "Smith" in refusal(path, show_values=True)
    for tables, query in (({"t": path}, "SELECT a, b FROM t"), ({"t": path}, "t")):
        assert "Smith" not in refusal(Source.sql(tables, query))


@pytest.mark.parametrize("content", [b"a,b\n", b"a,b", b"\xef\xbb\xbfa,b\r\n", b"\n\na,b\n\n"])
def test_a_header_without_rows_holds_zero_records(content: bytes, tmp_path: Path) -> None:
    assert total(written(tmp_path / "none.csv", content)) == 0


def test_text_is_taken_as_it_stands(tmp_path: Path) -> None:
    domain = Domain({"b": ["01", "1", "", "NA", "null"]})
    lattice = closure([np.array([[0]], dtype=np.int32)], 1)
    path = written(tmp_path / "t.csv", b'c,b\n1,01\n1,1\n1,\n1,""\n1,NA\n1,null\n1,"null"\n')
    counted = count(source_of(path), domain, layout_of(lattice, domain.sizes, lattice.is_maximal))
    assert counted.tables.tolist() == [1, 1, 2, 1, 2]


def test_damaged_gzip(tmp_path: Path) -> None:
    packed = gzip.compress(b"a,b\n" + os.urandom(50_000).hex().encode() + b",x\n")
    for name, content in (("cut", packed[:-2000]), ("plain", b"a,b\n1,x\n"), ("nothing", b"")):
        message = refusal(written(tmp_path / f"{name}.csv.gz", content))
        assert "damaged or truncated" in message or "is empty" in message


def test_every_member_of_a_gzip_is_read(tmp_path: Path) -> None:
    """Packed files that were put one after the other are one file; stopping at the first would lose records."""
    content = gzip.compress(b"a,b\n1,x\n") + gzip.compress(b"2,y\n" * 100_000) + gzip.compress(b"3,x\n")
    assert total(written(tmp_path / "members.csv.gz", content)) == 100_002


def test_line_ends_of_every_kind(tmp_path: Path) -> None:
    for i, end in enumerate((b"\n", b"\r\n", b"\r")):
        assert total(written(tmp_path / f"{i}.csv", end.join([b"a,b", b"1,x", b"2,y"]))) == 2


def test_damaged_parquet(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    path = tmp_path / "whole.parquet"
    pq.write_table(pa.table({"a": rng.integers(0, 10, 50_000), "b": rng.choice(["x", "y"], 50_000)}), path)
    assert total(path) == 50_000
    content = bytearray(path.read_bytes())
    told = "is not a sound Parquet file; it is damaged or truncated"
    assert told in refusal(written(tmp_path / "cut.parquet", bytes(content[:-1000])))
    assert told in refusal(written(tmp_path / "empty.parquet", b""))
    assert told in refusal(written(tmp_path / "text.parquet", b"a,b\n1,x\n"))
    content[10:3000] = bytes(2990)  # the footer is sound, the pages are not
    assert told in refusal(written(tmp_path / "holed.parquet", bytes(content)))


def test_files_that_are_not_there_or_not_files(tmp_path: Path) -> None:
    assert "there is no file" in refusal(tmp_path / "no.csv")
    assert "there is no file" in refusal(str(tmp_path / "no.parquet"))
    assert "no file matches" in refusal(str(tmp_path / "*.csv"))
    (tmp_path / "d.csv").mkdir()
    assert "is a folder; name its files" in refusal(tmp_path / "d.csv")
    file = written(tmp_path / "a.csv", b"a,b\n1,x\n")
    assert "twice" in refusal([file, str(file)])
    assert "twice" in refusal([file, str(tmp_path / "[a].csv")])
    assert "cannot tell what" in refusal(written(tmp_path / "a.dat", b"a,b\n"))
    assert "mixes files of different kinds" in refusal([file, tmp_path / "a.parquet"])
    assert "is a list that holds no paths" in refusal([])
    assert "is a list that holds no paths" in refusal([1, 2])
    assert "is a database" in refusal(written(tmp_path / "a.duckdb", b""))
    assert "NUL" in refusal("a\0b.csv")
    assert "NUL" in refusal("a\0b")
    assert "NUL" in refusal(("a\0b.duckdb", "people"))
    assert "no .parquet or .pq files" in refusal(tmp_path)
    gone = source_of(written(tmp_path / "gone.csv", b"a,b\n1,x\n"))
    (tmp_path / "gone.csv").unlink()
    with pytest.raises(SourceError, match="there is no file"):
        gone.fingerprint()
    with pytest.raises(SourceError, match="there is no file"):
        list(gone.batches(["a"]))


def test_damaged_feather_and_json_lines(tmp_path: Path) -> None:
    write_feather(
        pa.table({"a": [1, 2] * 20, "b": ["x", "y"] * 20}), tmp_path / "a.feather", compression="uncompressed"
    )
    content = (tmp_path / "a.feather").read_bytes()
    for damaged in (b"", content[:-100], b"a,b\n1,x\n"):
        assert "is not a sound Feather file" in refusal(written(tmp_path / "b.feather", damaged))
    rng = np.random.default_rng()
    for _ in range(60):  # offsets that point nowhere are noticed before they are followed
        bent = np.frombuffer(content, np.uint8).copy()
        bent[rng.integers(len(bent), size=3)] ^= np.uint8(1) << rng.integers(8, dtype=np.uint8)
        with contextlib.suppress(SourceError):
            total(written(tmp_path / "b.feather", bent.tobytes()))
    good = b'{"a": 1, "b": "x"}\n'
    assert total(written(tmp_path / "a.jsonl", good * 3)) == 3
    for line in (b'{"a": 1, "b": ', b"[1]\n", b"3\n", b"\xff\n"):
        message = refusal(written(tmp_path / "a.jsonl", good * 2000 + line))
        assert "has a line that is not one JSON object" in message
    assert "holds lists or objects" in refusal(written(tmp_path / "a.jsonl", good + b'{"a": [1], "b": "x"}\n'))
    assert "has no column 'b'" in refusal(written(tmp_path / "a.jsonl", b'{"a": 1}\n' * 2000))
    late = written(tmp_path / "a.jsonl", b'{"b": "x"}\n' * 1500 + good)
    assert "attribute 'a' has absent values" in refusal(late)
    written(tmp_path / "cut.jsonl.gz", gzip.compress(os.urandom(50_000).hex().encode())[:-2000])
    assert "not one JSON object" in refusal(tmp_path / "cut.jsonl.gz") or "damaged" in refusal(
        tmp_path / "cut.jsonl.gz"
    )


def test_hive_partitions_that_do_not_fit(tmp_path: Path) -> None:
    for part in ("b=x", "c=x"):
        (tmp_path / part).mkdir()
        pq.write_table(pa.table({"a": [1]}), tmp_path / part / "1.parquet")
    assert "are not partitioned alike" in refusal(tmp_path)
    (tmp_path / "c=x" / "1.parquet").unlink()
    assert total(tmp_path) == 1
    before = source_of(tmp_path).fingerprint()
    (tmp_path / "b=x").rename(tmp_path / "b=y")
    assert source_of(tmp_path).fingerprint() != before
    pq.write_table(pa.table({"a": [1], "b": ["x"]}), tmp_path / "b=y" / "1.parquet")
    assert "has the column 'b' and lies in a folder of that name" in refusal(tmp_path)


def test_every_bad_column_is_named_at_once(tmp_path: Path) -> None:
    rows = b"a,b,n\n" + b"1,x,1\n" * 100_000
    message = refusal(written(tmp_path / "a.csv", rows + b"1,z,1\n1,,1\n,x,-1\n"), counts="n")
    assert message == (
        "column 'n' does not count records: it holds values that are not whole numbers ≥ 0; correct them, or leave "
        "counts out if these are survey weights, which are not counts, rounded or not. attribute 'b' has "
        "values outside its domain; declare them (show_values=True, or --show-values, shows some), or say "
        "unknown='other' or unknown='drop'. attributes 'a', 'b' have absent values; fill them in, or say "
        "missing='other' or missing='drop'."
    )


def test_columns_without_a_name_are_ignored(tmp_path: Path) -> None:
    assert total(written(tmp_path / "a.csv", b",a,b,\n0,1,x,9\n")) == 1


def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", b"a,b\n1,x\n")
    path.chmod(0)
    before = os.geteuid()
    if before == 0:  # root may read everything: be somebody else for a moment
        for folder in (tmp_path, *tmp_path.parents):
            if folder.stat().st_uid == 0 and folder not in (Path("/"), Path("/tmp")):
                folder.chmod(0o755)
        os.seteuid(65534)
    try:
        assert "may not be read" in refusal(path)
    finally:
        os.seteuid(before)


def test_files_of_different_tables(tmp_path: Path) -> None:
    first = written(tmp_path / "1.csv", b"a,b\n1,x\n")
    second = written(tmp_path / "2.csv", b"a,c\n1,x\n")
    assert "do not have the same columns in their first lines; pass" in refusal([first, second])
    assert "('b' is in one only)" in refusal([first, second], show_values=True)
    pq.write_table(pa.table({"a": [1], "b": ["x"]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"a": [1], "c": ["x"]}), tmp_path / "2.parquet")
    assert "2.parquet' has no column 'b'" in refusal(str(tmp_path / "*.parquet"))


def test_frames_that_cannot_be_read() -> None:
    assert "two columns named 'a'" in refusal(pd.DataFrame([[1, 2, "x"]], columns=["a", "a", "b"]))
    assert "two columns named 'a'" in refusal(pa.table([[1], [2]], names=["a", "a"]))
    mixed = pd.DataFrame({"a": [1, "x", 2.5], "b": ["x", "y", "x"], "c": [1, 2, 3]}, dtype=object)
    assert "the pandas DataFrame mixes types in 'a' (or" in refusal(mixed)
    for odd in (pd.arrays.SparseArray([0, 1, 2]), pd.Series([2**70, 1, 2]), pd.Series([1j, 2j, 3j])):
        assert "mixes types in 'a', 'c' (or" in refusal(mixed.assign(a=odd, c=odd), counts="c")
    assert "has the type list" in refusal(pa.table({"a": [[1]], "b": ["x"]}))
    assert "has the type timestamp" in refusal(pd.DataFrame({"a": pd.to_datetime(["2024-01-01"]), "b": ["x"]}))
    for thing in (3, None, object(), {"a": 1}, np.zeros(3)):
        assert "which cannot be read; pass a path" in refusal(thing)
    broken = pl.LazyFrame({"a": ["q"], "b": ["x"]}).with_columns(pl.col("a").cast(pl.Int64))
    assert "cannot be read" in refusal(broken)


def test_a_dataset_whose_file_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": np.arange(50_000) % 10, "b": ["x"] * 50_000}), path)
    dataset = ds.dataset(path)
    content = bytearray(path.read_bytes())
    content[10:3000] = bytes(len(content[10:3000]))
    path.write_bytes(bytes(content))
    refusal(dataset)


def test_databases_and_queries_that_fail(tmp_path: Path) -> None:
    path = tmp_path / "p.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE people AS SELECT 1 AS a, 'x' AS b")
    assert total((path, "people")) == 1
    assert total((path, "SELECT * FROM people -- all of them")) == 1
    assert "there is no database" in refusal((tmp_path / "no.duckdb", "people"))
    assert "is refused: syntax error" in refusal((path, "SELEC a"))
    assert "failed in DuckDB" in refusal((path, "nobody"))
    assert "failed in DuckDB" in refusal((path, "SELECT a::DATE AS a, b FROM people"))
    assert "failed in DuckDB" in refusal((path, "SELECT error('no') AS a, b FROM people"))
    assert "cannot be computed or converted" in refusal((path, "SELECT a, b::INTEGER AS b FROM people"))
    assert "'x'" in refusal((path, "SELECT a, b::INTEGER AS b FROM people"), show_values=True)
    assert "failed in DuckDB" in refusal((written(tmp_path / "t.duckdb", b"a,b\n1,x\n" * 2000), "people"))
    with pytest.raises(SourceError, match="is no query"):
        Source.duckdb(path, " ")
    with pytest.raises(SourceError, match="is no database"):
        Source.duckdb(3, "people")
    with duckdb.connect() as connection:
        assert total((connection, "SELECT 1 AS a, 'y' AS b")) == 1


LEAKS = {
    "two of them": "SELECT * FROM people; SELECT * FROM people",
    "second statement": "SELECT * FROM people; COPY people TO '{leak}'",
    "closed parenthesis": "SELECT a, b FROM people); COPY people TO '{leak}'; SELECT * FROM (SELECT a, b FROM people",
    "copy": "COPY people TO '{leak}'",
    "attach": "ATTACH '{leak}' AS other",
    "delete": "DELETE FROM people RETURNING a, b",
    "written beside": "WITH gone AS (DELETE FROM people RETURNING a, b) SELECT * FROM gone",
    "settings": "SET enable_external_access = true",
    "pragma": "PRAGMA database_list",
}


@pytest.mark.parametrize("leak", LEAKS.values(), ids=LEAKS)
@pytest.mark.parametrize("own", [False, True], ids=["file", "connection"])
def test_a_query_is_exactly_one_select(leak: str, own: bool, tmp_path: Path) -> None:
    path = tmp_path / "p.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE people AS SELECT 1 AS a, 'x' AS b")
        if own:
            assert "is refused" in refusal((connection, leak.format(leak=tmp_path / "leak")))
    assert "is refused" in refusal((path, leak.format(leak=tmp_path / "leak")))
    assert total((path, "people")) == 1
    assert sorted(file.name for file in tmp_path.iterdir()) == ["p.duckdb"]


@pytest.mark.parametrize("read", ["read_csv('{f}')", "read_text('{f}')", "glob('{f}')", "'{f}'", "secret"])
def test_a_query_on_a_database_file_reaches_no_other_file(read: str, tmp_path: Path) -> None:
    path, secret = tmp_path / "p.duckdb", written(tmp_path / "f.csv", b"a,b\n1,x\n")
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE people AS SELECT 1 AS a, 'x' AS b")
        estimator = f"SELECT 1 AS a, 'x' AS b FROM {read.format(f=secret)}"
        if read != "secret":
            assert total((connection, estimator)) == 1  # what an open connection may do is up to who opened it
    assert "failed in DuckDB" in refusal((path, estimator))


def test_options_that_mean_nothing(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", b"a,b\n1,x\n")
    for delimiter in ("ab", "é", "\0", "\n", ""):
        with pytest.raises(SourceError, match="delimiter="):
            Source.csv(path, delimiter=delimiter)
    with pytest.raises(SourceError, match="counts="):
        Source.csv(path, counts="")
    with pytest.raises(SourceError, match="say it where it is made"):
        source_of(Source.csv(path), counts="n")
    assert "has no column 'n'" in refusal(path, counts="n")
    semicolons = written(tmp_path / "s.csv", b"a;b\n1;x\n")
    assert total(Source.csv(semicolons, delimiter=";")) == 1


@pytest.mark.parametrize("weight", ["n", "", None])
def test_a_weight_is_refused_wherever_counts_are_taken(weight: str | None, tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", b"a,b,n\n1,x,400\n")
    says = (
        "survey weights are not counts: one respondent would change a table by their weight.*"
        r'Say weights=rs\.Weights\(.*counts = "n"'
    )
    for made in (Source.csv, Source.parquet, Source.frame, Source.spark, source_of):
        with pytest.raises(SourceError, match=says):
            made(path, weight=weight)
    with pytest.raises(SourceError, match=says):
        Source.sql({"data": path}, "data", weight=weight)  # type: ignore[call-arg]


def test_two_paths_are_two_files_and_not_a_query(tmp_path: Path) -> None:
    files = tuple(str(written(tmp_path / f"{i}.csv", b"a,b\n1,x\n")) for i in range(2))
    assert total(files) == 2


@pytest.mark.parametrize("content", [b"a,b,n\n1,x,-3\n", b"a,b,n\n1,x,\n", b"a,b,n\n1,x,2.5\n"])
def test_counts_in_text_that_count_nothing(content: bytes, tmp_path: Path) -> None:
    message = refusal(written(tmp_path / "w.csv", content), counts="n")
    assert "column 'n' does not count records: it holds values that are not whole numbers" in message


def test_the_hint_of_a_csv_is_about_right(tmp_path: Path) -> None:
    path = written(tmp_path / "h.csv", b"a,b\n" + b"1,x\n" * 50_000)
    assert source_of(path).rows_hint() == pytest.approx(50_000, rel=0.05)
    assert source_of(written(tmp_path / "h.csv.gz", gzip.compress(path.read_bytes()))).rows_hint() is None


def test_importing_the_package_loads_no_engine() -> None:
    engines = ("pandas", "polars", "duckdb", "numba", "pyarrow")
    code = f"import sys, residua.source.counting; print([m for m in {engines} if m in sys.modules])"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "[]"


_MEASURE = """
import resource, sys
from residua.domain import Domain
from residua.linalg.lattice import all_sets, closure
from residua.linalg.lattice import layout_of
from residua.source import source_of
from residua.source.counting import count
domain = Domain({name: [f"a rather long label {i}" for i in range(9)] for name in "abcd"})
lattice = closure([all_sets(4, 2)], 4)
path = sys.argv[1]
source = source_of((path, "SELECT * FROM t") if path.endswith(".duckdb") else path)
count(source, domain, layout_of(lattice, domain.sizes, lattice.is_maximal))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


@pytest.mark.parametrize("suffix", ["csv", "parquet", "duckdb"])
def test_memory_does_not_grow_with_the_rows(suffix: str, tmp_path: Path) -> None:
    """Two million rows take 220 MB as text; reading them takes little more than reading a hundred thousand."""
    peaks = []
    for rows in (100_000, 2_000_000):
        path = tmp_path / f"{rows}.{suffix}"
        label = "'a rather long label ' || (hash(i) % 9)"
        query = f"SELECT {label} AS a, {label} AS b, {label} AS c, {label} AS d FROM range({rows}) t(i)"
        with duckdb.connect(str(path) if suffix == "duckdb" else ":memory:") as connection:
            connection.execute(f"CREATE TABLE t AS {query}" if suffix == "duckdb" else f"COPY ({query}) TO '{path}'")
        shown = subprocess.run([sys.executable, "-c", _MEASURE, str(path)], capture_output=True, text=True, check=True)
        peaks.append(int(shown.stdout))
    assert peaks[1] - peaks[0] < 70, peaks


def test_tables_that_a_query_cannot_have(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", b"a,b\n1,x\n")
    assert "differ in case only" in refusal(Source.sql({"t": pa.table({"a": [1], "A": [2]})}, "t"))
    for tables in ({}, 3, {"t": path, "T": path}, {"": path}, {1: path}):
        with pytest.raises(SourceError, match="table"):
            Source.sql(tables, "SELECT 1")  # type: ignore[arg-type]
    lines = written(tmp_path / "a.jsonl", b'{"a": 1, "b": "x"}\n' * 70_000 + b'{"a": "one", "b": "x"}\n')
    assert "has a column of several types" in refusal(Source.sql({"t": lines}, "t"))
    assert total(Source.sql({"t": path, "u": lines}, "SELECT t.* FROM t WHERE t.b IN (SELECT b FROM t)")) == 1
