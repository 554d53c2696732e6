"""Google's and Azure's stores by their emulators, and Flight SQL: the laws of every engine, on servers that CI lacks.

    npm install azurite; pip install gcp-storage-emulator adbc-driver-flightsql
    python -m benchmarks.emulators [--azurite node_modules/.bin/azurite-blob]

For each store and each kind of file, and for a Flight SQL server of our own with DuckDB behind it: the same counts,
errors and fingerprints as every engine, and whether data that is overwritten after it was checked is noticed. The
stores are asked without credentials, so that how Arrow finds those in the environment is not tried.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import hashlib
import hmac
import importlib.util
import json
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

import residua as rs
from benchmarks.flight_server import Server, served
from benchmarks.show import print_rows
from residua.errors import SourceError
from residua.source import source_of
from tests.conformance import engines, test_source_engines as suite

# Azurite's own account, which its documentation prints.
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
GOOGLE = """
import sys, time
from http.server import ThreadingHTTPServer
from gcp_storage_emulator import server
server.server.HTTPServer = ThreadingHTTPServer  # one connection would block the others
server.create_server("127.0.0.1", int(sys.argv[1]), in_memory=True, default_bucket="people").start()
sys.stdin.read()
"""
_NUMBERS = count()
Put = Callable[[str, bytes], str]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(command: list[str], port: int) -> Iterator[None]:
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, stdin=subprocess.PIPE, **quiet)
    try:
        for _ in range(600):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        else:
            raise TimeoutError(f"{command[0]} does not listen")
        yield
    finally:
        process.terminate()
        process.wait()


@contextmanager
def google() -> Iterator[Put]:
    port = free_port()

    def put(name: str, content: bytes) -> str:
        told = urllib.parse.urlencode({"uploadType": "media", "name": name})
        url = f"http://127.0.0.1:{port}/upload/storage/v1/b/people/o?{told}"
        urllib.request.urlopen(urllib.request.Request(url, content, {"Content-Type": "text/plain"})).read()
        return f"gs://anonymous@people/{name}?endpoint_override=127.0.0.1:{port}&scheme=http"

    with running([sys.executable, "-c", GOOGLE, str(port)], port):
        yield put


@contextmanager
def azure(azurite: Path) -> Iterator[Put]:
    from pyarrow.fs import AzureFileSystem

    port = free_port()
    options = ["--silent", "--disableTelemetry", "--inMemoryPersistence", "--skipApiVersionCheck"]
    command = ["node", str(azurite), *options, "--blobHost", "127.0.0.1", "--blobPort", str(port)]
    there = {f"{kind}_storage_authority": f"127.0.0.1:{port}" for kind in ("blob", "dfs")}

    def put(name: str, content: bytes) -> str:
        with files.open_output_stream(f"people/{name}", compression=None) as out:
            out.write(content)
        told = urllib.parse.urlencode({**there, "enable_tls": "false", "credential_kind": "anonymous"}, safe=":")
        return f"abfs://people@{ACCOUNT}.dfs.core.windows.net/{name}?{told}"

    with running(command, port):
        public_container(port)
        schemes = {"blob_storage_scheme": "http", "dfs_storage_scheme": "http"}
        files = AzureFileSystem(ACCOUNT, account_key=KEY, **there, **schemes)
        yield put


def public_container(port: int) -> None:
    """A container that anybody may read."""
    told = {
        "x-ms-blob-public-access": "container",
        "x-ms-date": datetime.now(UTC).strftime("%a, %d %b %Y %H:%M:%S GMT"),
        "x-ms-version": "2021-12-02",
    }
    headers = "".join(f"{name}:{value}\n" for name, value in sorted(told.items()))
    signed = f"PUT{chr(10) * 12}{headers}/{ACCOUNT}/{ACCOUNT}/people\nrestype:container"
    digest = hmac.new(base64.b64decode(KEY), signed.encode(), hashlib.sha256).digest()
    told["Authorization"] = f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}"
    url = f"http://127.0.0.1:{port}/{ACCOUNT}/people?restype=container"
    urllib.request.urlopen(urllib.request.Request(url, None, told, method="PUT")).read()


def kinds(put: Put) -> dict[str, Callable[[pa.Table, Path], Any]]:
    """The same records as files of each kind in a store."""

    def elsewhere(uri: str, old: str, new: str) -> str:
        place, query = uri.rsplit("?", 1)
        assert place.endswith(old)
        return f"{place.removesuffix(old)}{new}?{query}"

    def csv_pattern(table: pa.Table, folder: Path) -> Any:
        number, half = next(_NUMBERS), len(table) // 3
        for name, part in (("a", table[:half]), ("b", table[half:])):
            pa_csv.write_csv(part, folder / f"{name}.csv")
            uri = put(f"{number}/{name}.csv", (folder / f"{name}.csv").read_bytes())
        return elsewhere(uri, "b.csv", "*.csv")

    def parquet_folder(table: pa.Table, folder: Path) -> Any:
        number, half = next(_NUMBERS), len(table) // 3
        for name, part in (("1/a", table[:half]), ("2/b", table[half:])):
            pq.write_table(part, folder / "a.parquet", row_group_size=100)
            uri = put(f"{number}/{name}.parquet", (folder / "a.parquet").read_bytes())
        return elsewhere(uri, "/2/b.parquet", "")

    def json_lines_gz(table: pa.Table, folder: Path) -> Any:
        lines = "".join(json.dumps(row) + "\n" for row in table.to_pylist()).encode()
        return put(f"{next(_NUMBERS)}.jsonl.gz", gzip.compress(lines, mtime=0))

    return {"CSV files by a pattern": csv_pattern, "a folder of Parquet": parquet_folder, "JSON lines": json_lines_gz}


def counts(engine: Any, folder: Path) -> None:
    for unknown, missing in (("other", "drop"), ("drop", "other")):
        suite.test_every_engine_counts_the_same_records(engine, unknown, missing, folder)


def fingerprints(engine: Any, folder: Path) -> None:
    rows = [(*row, 1) for row in engines.records(dirty=True)]
    found = engines.opened(engine(engines.table_of(rows), folder)).fingerprint()
    assert found == source_of(engines.table_of(rows)).fingerprint()


def changes(put: Put, folder: Path) -> None:
    """A file that is overwritten by one of the same length between check and count releases nothing."""
    domain = rs.Domain({"sex": ["F", "M"]})
    plan = rs.plan(rs.marginals(domain, ways=[1]), rs.ZCDP(rho=0.5))
    ledger = rs.Ledger(folder / "a.ledger", rs.ZCDP(rho=0.5))
    uri = put("changing.csv", b"sex\nF\nM\n")

    def changing() -> rs.Ledger:
        put("changing.csv", b"sex\nF\nF\n")
        return ledger

    with pytest.raises(SourceError, match=r"changed.* Debit 1 of the ledger stands"):
        rs.measure(plan, uri, ledger=changing)


def absent(put: Put, folder: Path) -> None:
    uri = put("there.csv", b"sex\nF\n").replace("there.csv", "not-there.csv")
    with pytest.raises(SourceError, match="there is no file"):
        source_of(uri).columns()


def flight_engine(server: Server) -> Callable[[pa.Table, Path], Any]:
    def made(table: pa.Table, folder: Path) -> Any:
        name = f"people{next(_NUMBERS)}"
        server.hold(name, table)
        return partial(rs.Source.sql, f"grpc://127.0.0.1:{server.port}", f"SELECT * FROM {name}")

    return made


LAWS: dict[str, Callable[[Any, Path], None]] = {
    "counts": counts,
    "weights": suite.test_every_engine_counts_weighted_rows_as_so_many_records,
    "errors": suite.test_every_engine_names_all_columns_with_values_outside_and_quotes_none_unless_asked,
    "fingerprints": fingerprints,
}


def outcome(law: Callable[[], None]) -> str:
    try:
        law()
    except Exception as problem:
        return f"{type(problem).__name__}: {str(problem).splitlines()[0][:60]}"
    return "holds"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--azurite", type=Path, default=Path("node_modules/.bin/azurite-blob"))
    given = parser.parse_args()
    stores: dict[str, Any] = {}
    if importlib.util.find_spec("gcp_storage_emulator"):
        stores["gs:// (gcp-storage-emulator)"] = google()
    if given.azurite.exists():
        stores["abfs:// (Azurite)"] = azure(given.azurite)
    lines = []
    for name, store in stores.items():
        with store as put:
            for kind, engine in kinds(put).items():
                for law, holds in LAWS.items():
                    with tempfile.TemporaryDirectory() as folder:
                        lines.append([name, kind, law, outcome(lambda h=holds, e=engine, f=folder: h(e, Path(f)))])
            for law, holds in (("data changed underneath", changes), ("a file that is absent", absent)):
                with tempfile.TemporaryDirectory() as folder:
                    lines.append([name, "a CSV file", law, outcome(lambda h=holds, p=put, f=folder: h(p, Path(f)))])
    if importlib.util.find_spec("adbc_driver_flightsql"):
        with served() as server:
            engine = flight_engine(server)
            for law, holds in LAWS.items():
                with tempfile.TemporaryDirectory() as folder:
                    found = outcome(lambda h=holds, e=engine, f=folder: h(e, Path(f)))
                    lines.append(["grpc:// (Flight SQL)", "a query", law, found])
    if not lines:
        sys.exit("none of them is installed; see python -m benchmarks.emulators --help")
    print_rows("Stores by their emulators", ["store", "records as", "law", ""], lines)


if __name__ == "__main__":
    main()
