"""Files in stores, on the web and in lakes: no credential is seen again, changes are noticed, errors are sentences."""

import http.server
import itertools
import os
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import residua as rs
from residua.errors import ResiduaError, SourceError
from residua.source import Source, source_of
from residua.source.remote import parse_uri, redacted
from tests.cli.command import DATA, SPEC, inside
from tests.conformance.stores import BUCKET, SECRET, store
from tests.secrets import says

DOMAIN = rs.Domain({"sex": ["F", "M"], "age": rs.Integers(0, 3)})
PLAN = rs.plan(rs.marginals(DOMAIN, ways=[1, 2]), rs.ZCDP(rho=0.5))
TABLE = pa.table({"sex": ["F", "M"] * 50, "age": [0, 1, 2, 3] * 25})

LEAKY = {
    "a password": f"s3://somebody:{SECRET}@people/a.csv",
    "a key alone": f"s3://{SECRET}@people/a.csv",
    "a password with a slash": f"s3://somebody:{SECRET}/x@people/a.csv",
    "a secret in the query": f"s3://people/a.csv?secret_key={SECRET}",
    "a password of the web": f"https://somebody:{SECRET}@example.org/a.csv",
    "a token as user": f"https://{SECRET}@example.org/a.csv",
    "a key of Azure": f"abfss://box:{SECRET}@account.dfs.core.windows.net/a.csv",
    "a client secret": f"abfss://box@account.dfs.core.windows.net/a.csv?client_secret={SECRET}",
    "a password with a quote": f"s3://somebody:it's {SECRET}@people/a.csv",
    "a key with a quote": f"s3://it's{SECRET}@people/a.csv",
    "another scheme": f"ftp://somebody:{SECRET}@example.org/a.csv",
}
DOORS: dict[str, Callable[[str], Any]] = {
    "source_of": source_of,
    "a list": lambda uri: source_of([uri]),
    "csv": Source.csv,
    "parquet": Source.parquet,
    "delta": Source.delta,
    "iceberg": lambda uri: Source.iceberg(uri.replace("a.csv", "a.metadata.json")),
    "a table of a query": lambda uri: Source.sql({"people": uri}, "people"),
    "a database": lambda uri: Source.duckdb(uri, "people"),
    "a list that is none": lambda uri: source_of([uri, 3]),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("case", LEAKY)
def test_a_credential_in_a_uri_is_refused_and_not_repeated(case: str, door: str) -> None:
    with pytest.raises(SourceError) as caught:
        DOORS[door](LEAKY[case])
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("case", LEAKY)
def test_a_credential_in_a_specification_is_refused_by_every_command(case: str, tmp_path: Path) -> None:
    sources = [f'path = "{LEAKY[case]}"', f'path = ["a.csv", "{LEAKY[case]}"]', f'delta = "{LEAKY[case]}"']
    if "alone" not in case and "user" not in case and "key with" not in case:  # a name that Spark may know
        sources.append(f'spark = "{LEAKY[case].replace("s3:", "s3a:")}"')
    for source in sources:
        (tmp_path / "spec.toml").write_text(SPEC.replace('path = "people.csv"', source))
        for command in (["plan", "spec.toml"], ["release", "spec.toml", "--out", "out"]):
            done = inside(*command, cwd=tmp_path)
            assert done.refused
            assert SECRET not in done.out + done.err
    done = inside("init", LEAKY[case], cwd=tmp_path)
    assert done.refused
    assert SECRET not in done.out + done.err
    assert not (tmp_path / "people.ledger").exists()


def test_a_signature_is_taken_from_python_and_refused_in_a_specification(tmp_path: Path) -> None:
    signed = store().web(store().put("signed.csv", DATA.encode())) + f"?X-Amz-Signature={SECRET}"
    source = source_of(signed)
    assert source.columns() == ("sex", "age")
    assert SECRET not in f"{source} {source!r} {source.files!r}"  # type: ignore[attr-defined]
    (tmp_path / "spec.toml").write_text(SPEC.replace("people.csv", signed))
    done = inside("plan", "spec.toml", cwd=tmp_path)
    assert done.refused
    assert "has a query, which may be a signature" in done.err
    assert SECRET not in done.out + done.err


def test_what_is_hidden_and_what_is_not() -> None:
    shown = "abfss://box@account.dfs.core.windows.net/year=2024/a.csv"
    assert redacted(shown) == str(parse_uri(shown)) == shown
    assert redacted("s3://people/a b/ü.csv") == str(parse_uri("s3://people/a b/ü.csv"))
    assert str(parse_uri("s3://people/a.csv?region=eu-west-1&scheme=http")) == "s3://people/a.csv"
    assert redacted("no URI at all, a:b@c") == "no URI at all, a:b@c"


def test_a_release_from_a_store_by_the_command_holds_no_secret_and_counts_what_the_local_file_counts(
    tmp_path: Path,
) -> None:
    uri = store().put("by/command.csv", DATA.encode())
    (tmp_path / "spec.toml").write_text(SPEC.replace("people.csv", uri))
    done = inside("release", "spec.toml", "--out", "out", cwd=tmp_path)
    assert done.code == 0, done.err
    written = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    assert SECRET.encode() not in written
    assert SECRET not in done.out + done.err
    total = rs.Release.load(tmp_path / "out").count()
    assert abs(total.estimate - 2000) < 8 * total.stddev  # false alarm below 1e-14
    # The same bytes here are the same dataset: the ledger takes them.
    (tmp_path / "people.csv").write_text(DATA)
    rs.measure(PLAN, tmp_path / "people.csv", ledger=tmp_path / "people.ledger")
    assert inside("init", uri, "--out", "new.toml", cwd=tmp_path).code == 0
    assert f'path = "{uri}"' in (tmp_path / "new.toml").read_text()


def _put(uri: str, table: pa.Table) -> None:
    with store().files.open_output_stream(uri.removeprefix("s3://")) as out:
        pq.write_table(table, out)


@pytest.mark.parametrize("web", [False, True], ids=["store", "web"])
def test_data_that_changes_after_the_debit_is_noticed(
    web: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("residua.source.checking._MOST_KEPT", 0)  # so that it is read twice
    uri = f"s3://{BUCKET}/changing-{web}.parquet"
    _put(uri, TABLE)
    ledger = rs.Ledger(tmp_path / "a.ledger", rs.ZCDP(rho=1.0))
    real = rs.Ledger.debit

    def debit(self: rs.Ledger, *args: Any, **kwargs: Any) -> Any:
        entry = real(self, *args, **kwargs)
        _put(uri, TABLE.set_column(1, "age", pa.array([3, 2, 1, 0] * 25)))  # as many bytes, other records
        return entry

    monkeypatch.setattr(rs.Ledger, "debit", debit)
    with pytest.raises(SourceError, match=r"changed .*Debit 1 of the ledger stands"):
        rs.measure(PLAN, store().web(uri) if web else uri, ledger=ledger)


def test_data_that_changes_before_the_debit_costs_nothing(tmp_path: Path) -> None:
    uri = f"s3://{BUCKET}/changed.parquet"
    _put(uri, TABLE)
    source = source_of(uri)
    assert source.columns() == ("sex", "age")
    _put(uri, TABLE.slice(4))
    ledger = rs.Ledger(tmp_path / "a.ledger", rs.ZCDP(rho=1.0))
    with pytest.raises(SourceError, match=r"'s3://people/changed.parquet' changed while it was read"):
        rs.measure(PLAN, source, ledger=ledger)
    assert ledger.remaining == rs.ZCDP(rho=1.0)


def test_patterns_and_folders_mean_in_a_store_what_they_mean_here(tmp_path: Path) -> None:
    names = ["a.csv", "b.csv", "ab.csv", ".h.csv", "x/a.csv", "x/y/a.csv", ".x/a.csv", "[z].csv", "x/_u/c.parquet"]
    for name in names:
        (tmp_path / "glob" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "glob" / name).write_text(DATA)
    root = store().put_folder(tmp_path / "glob")
    for pattern in ("*.csv", "?.csv", "*/a.csv", "**/a.csv", "**/*.csv", "[ab]*.csv", "x/*.csv", "[[]z].csv"):
        here = [
            Path(str(file)).relative_to(tmp_path / "glob").as_posix() for file in _files(tmp_path / "glob", pattern)
        ]
        there = [str(file).removeprefix(root + "/") for file in _files(root, pattern)]
        assert here == there, pattern
    for bad, told in {
        f"{root}/*.tsv": "no file matches",
        f"{root}/no.csv": "there is no file",
        root: "is a folder; name its files",
        "s3://nobody/a.csv": "there is no file",
        "s3://people": "names no file",
        store().url + "/people/no.csv": "there is no file",
    }.items():
        with pytest.raises(SourceError, match=told):
            Source.csv(bad)
    with pytest.raises(SourceError, match=r"no \.parquet or \.pq files in the folder"):
        Source.parquet(root)
    with pytest.raises(SourceError, match="twice, which would count it twice"):
        Source.csv([f"{root}/a.csv", f"{root}/a.csv"])


def _files(root: object, pattern: str) -> Any:
    return Source.csv(f"{root}/{pattern}").files  # type: ignore[attr-defined]


@pytest.fixture
def plain_server(tmp_path: Path) -> Iterator[str]:
    """Python's own server, which knows neither ranges nor ETags."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_server_without_ranges_gives_text_and_is_told_of_where_that_does_not_do(
    plain_server: str, tmp_path: Path
) -> None:
    (tmp_path / "a.csv").write_text(DATA)
    big = pa.table({"sex": ["F", "M"] * 5000, "age": list(range(10_000))})
    pq.write_table(big, tmp_path / "a.parquet", compression="none", use_dictionary=False)
    assert sum(batch.num_rows for batch in source_of(f"{plain_server}/a.csv").batches(["sex"])) == 2000
    with pytest.raises(SourceError, match=r"cannot be read to its end|not a sound Parquet file"):
        list(source_of(f"{plain_server}/a.parquet").batches(["sex"]))
    with pytest.raises(SourceError, match="there is no file"):
        source_of(f"{plain_server}/b.csv")


def test_a_server_that_is_not_there_is_a_sentence() -> None:
    with pytest.raises(SourceError, match=r"'http://127.0.0.1:9/a.csv' cannot be read .* check the file, the address"):
        source_of("http://127.0.0.1:9/a.csv")


def test_a_store_that_refuses_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    from pyarrow.fs import FSSpecHandler, PyFileSystem

    from residua.source import remote

    class Refusing:
        protocol = "s3"

        def info(self, path: str) -> Any:
            raise OSError(f"AWS Error ACCESS_DENIED during HeadObject operation: {SECRET}")

    monkeypatch.setattr(remote, "_store", lambda place, settings: (PyFileSystem(FSSpecHandler(Refusing())), "people"))
    with pytest.raises(SourceError, match="may not be read with the credentials that the environment gives") as caught:
        source_of("s3://people/a.csv")
    assert SECRET not in str(caught.value)


def test_a_delta_table_is_read_at_one_version(tmp_path: Path) -> None:
    from deltalake import write_deltalake

    place = str(tmp_path / "delta")
    write_deltalake(place, TABLE)
    source = Source.delta(place)
    write_deltalake(place, TABLE.slice(0, 10), mode="append")
    assert _rows(source) == _rows(Source.delta(place, version=0)) == 100
    assert _rows(Source.delta(place)) == 110
    assert str(source) == f"the Delta table {place!r} at version 0"
    ledger = rs.Ledger(tmp_path / "a.ledger", rs.ZCDP(rho=1.0))
    rs.measure(PLAN, source, ledger=ledger)
    with pytest.raises(ResiduaError, match="another dataset"):
        rs.measure(PLAN, Source.delta(place), ledger=ledger)
    (tmp_path / "spec.toml").write_text(SPEC.replace('path = "people.csv"', 'delta = "delta"\nversion = 1'))
    assert inside("release", "spec.toml", "--out", "out", cwd=tmp_path).code == 0
    for made, told in (
        (lambda: Source.delta(place, version=7), "cannot be read"),
        (lambda: Source.delta(place, version=-1), "version=-1 is not a number of a version"),
        (lambda: Source.delta(tmp_path), "cannot be read"),
        (lambda: Source.delta(3), "no path of a Delta table"),  # type: ignore[arg-type]
    ):
        with pytest.raises(SourceError, match=told):
            made()


def test_a_delta_table_whose_rows_the_library_cannot_tell_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import deltalake

    deltalake.write_deltalake(tmp_path / "delta", TABLE)
    real = deltalake.DeltaTable.protocol
    odd = lambda self: real(self)._replace(min_reader_version=3, reader_features=["deletionVectors"])  # noqa: E731
    monkeypatch.setattr(deltalake.DeltaTable, "protocol", odd)
    with pytest.raises(SourceError, match="uses deletionVectors, which cannot be streamed"):
        Source.delta(tmp_path / "delta")


def test_a_delta_table_in_a_store(tmp_path: Path) -> None:
    from deltalake import write_deltalake

    store()
    write_deltalake(f"s3://{BUCKET}/lake", TABLE, storage_options={"AWS_S3_ALLOW_UNSAFE_RENAME": "true"})
    assert _rows(Source.delta(f"s3://{BUCKET}/lake")) == 100


def test_an_iceberg_table_is_read_at_one_snapshot_and_found_by_its_catalogue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyiceberg.catalog import load_catalog

    monkeypatch.setenv("PYICEBERG_CATALOG__SURVEY__TYPE", "sql")
    monkeypatch.setenv("PYICEBERG_CATALOG__SURVEY__URI", f"sqlite:///{tmp_path}/catalogue.db")
    monkeypatch.setenv("PYICEBERG_CATALOG__SURVEY__WAREHOUSE", tmp_path.as_uri())
    catalogue = load_catalog(
        "survey", uri=f"sqlite:///{tmp_path}/catalogue.db", warehouse=tmp_path.as_uri(), type="sql"
    )
    catalogue.create_namespace("census")
    table = catalogue.create_table("census.people", schema=TABLE.schema)
    assert _rows(Source.iceberg(table)) == 0  # nothing was ever written to it
    table.append(TABLE)
    first = table.current_snapshot()
    assert first is not None
    source = Source.iceberg(table)
    table.append(TABLE.slice(0, 10))
    assert _rows(source) == _rows(Source.iceberg(table, snapshot=first.snapshot_id)) == 100
    assert _rows(Source.iceberg(table.metadata_location)) == 110
    ledger = rs.Ledger(tmp_path / "a.ledger", rs.ZCDP(rho=1.0))
    rs.measure(PLAN, source, ledger=ledger)
    with pytest.raises(SourceError, match="has no snapshot 5"):
        Source.iceberg(table, snapshot=5)
    for bad in ("people", "survey.census.nobody", str(tmp_path / "no.metadata.json"), 3):
        with pytest.raises(SourceError, match=r"no Iceberg table|cannot be read"):
            Source.iceberg(bad)
    catalogue.close()


@pytest.mark.parametrize(
    ("module", "extra", "make"),
    [
        ("deltalake", "delta", lambda: Source.delta("x")),
        ("pyiceberg.catalog", "iceberg", lambda: Source.iceberg("a.b.c")),
        ("fsspec.implementations.http", "web", lambda: Source.csv("http://127.0.0.1:9/a.csv")),
    ],
)
def test_a_library_that_is_absent_is_named_with_the_command_that_installs_it(
    module: str, extra: str, make: Callable[[], Source], monkeypatch: pytest.MonkeyPatch
) -> None:
    from residua.source import remote

    remote._web.cache_clear()
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(SourceError, match=rf'which is not installed; run: pip install "residua\[{extra}\]"'):
        make()


def test_a_specification_names_a_version_for_a_lake_only(tmp_path: Path) -> None:
    (tmp_path / "people.csv").write_text(DATA)
    for line, told in (("version = 1", "version belongs to delta"), ("snapshot = 1", "snapshot belongs to iceberg")):
        (tmp_path / "spec.toml").write_text(SPEC.replace("[privacy]", f"{line}\n[privacy]"))
        done = inside("release", "spec.toml", "--out", "out", cwd=tmp_path)
        assert done.refused
        assert told in done.err


def _rows(source: Source) -> int:
    return sum(batch.num_rows for batch in source.batches(["sex", "age"]))


def test_the_environment_is_where_credentials_are() -> None:
    store()
    assert os.environ["AWS_SECRET_ACCESS_KEY"] == SECRET  # what the tests above look for is what the store was given


SECRETIVE = pa.table({"sex": ["F", "M"] * 68 + ["F"], "age": [0, 1, 2, 3] * 34 + [3]})  # 137 records


def _object(kind: str, folder: Path) -> tuple[Callable[[], Source], Callable[[Callable[[bytes], bytes]], None]]:
    """Data of one kind in a store or a lake: how it is opened, and how its bytes are changed."""
    if kind in ("delta", "iceberg"):
        if kind == "delta":
            from deltalake import write_deltalake

            write_deltalake(folder / "lake", SECRETIVE)
            made = Source.delta(folder / "lake")
        else:
            from pyiceberg.catalog import load_catalog

            catalogue = load_catalog("x", uri=f"sqlite:///{folder}/c.db", warehouse=folder.as_uri(), type="sql")
            catalogue.create_namespace("n")
            table = catalogue.create_table("n.t", schema=SECRETIVE.schema)
            table.append(SECRETIVE)
            catalogue.close()
            made = Source.iceberg(table)

        def change(how: Callable[[bytes], bytes]) -> None:
            for path in folder.rglob("*.parquet"):
                path.write_bytes(how(path.read_bytes()))

        return lambda: made, change
    name, content = f"cut-{folder.name}.{kind}", pa.BufferOutputStream()
    if kind == "parquet":
        pq.write_table(SECRETIVE, content)
    else:
        import pyarrow.csv

        pyarrow.csv.write_csv(SECRETIVE, content)
    whole = content.getvalue().to_pybytes()
    uri = store().put(name, whole)

    def put(how: Callable[[bytes], bytes]) -> None:
        store().put(name, how(whole))

    return lambda: source_of(uri), put


CHANGES: dict[str, Callable[[bytes], bytes]] = {
    "cut in half": lambda content: content[: len(content) // 2],
    "cut at its end": lambda content: content[:-3],
    "cut after a line": lambda content: content[
        : content.rfind(b"\n", 0, len(content) // 2) + 1
    ],  # fewer, whole records
    "empty": lambda content: b"",
    "as long, and other bytes": lambda content: content[:20] + bytes(len(content) - 20),
}


CUT = [
    (kind, how, when)
    for kind, how, when in itertools.product(["parquet", "csv", "delta", "iceberg"], CHANGES, ["before", "after"])
    if (kind, how, when) != ("csv", "cut after a line", "before")  # a whole file of fewer records
]


@pytest.mark.parametrize(("kind", "how", "when"), CUT)
def test_an_object_that_is_cut_or_changed_is_a_sentence_without_a_count(
    kind: str, how: str, when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the check nothing is spent; after the debit the debit stands, and what was checked is counted or nothing.

    (A reader of Delta tables knows where the columns are, and does not look at the end of a file again.)
    """
    precise = rs.plan(rs.marginals(DOMAIN, ways=[1, 2]), rs.ZCDP(rho=1e4))
    monkeypatch.setattr("residua.source.checking._MOST_KEPT", 0)  # so that it is read twice
    opened, change = _object(kind, tmp_path)
    ledger = rs.Ledger(tmp_path / "a.ledger", rs.ZCDP(rho=1e4))
    source, real = opened(), rs.Ledger.debit
    if when == "before":
        change(CHANGES[how])
    else:

        def debit(self: rs.Ledger, *args: Any, **kwargs: Any) -> Any:
            entry = real(self, *args, **kwargs)
            change(CHANGES[how])
            return entry

        monkeypatch.setattr(rs.Ledger, "debit", debit)
    words = ""
    try:
        total = rs.measure(precise, source, ledger=ledger).count().estimate
    except ResiduaError as problem:
        words = str(problem)
    if words:
        assert not says(137, words)
        assert words.isprintable()
        assert ("Debit 1 of the ledger stands" in words) == (when == "after")
    else:
        assert (kind, when) == ("delta", "after")
        assert "cut" in how
        assert abs(total - 137) < 0.5  # more than 20 standard deviations
    assert len(ledger.entries) == (when == "after")
