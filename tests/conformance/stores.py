"""Servers on loopback that hold the records of the conformance suite: an object store, the web, and lakes on disk."""

from __future__ import annotations

import atexit
import gzip
import json
import logging
import os
from functools import cache, partial
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from pyarrow.feather import write_feather

from residua.source import Source

SECRET = "hush-hush-hush"  # what must never be seen again
BUCKET = "people"
_NUMBERS = count()


class Store:
    """An S3 server on loopback (moto's), by the address and the credentials that the environment gives."""

    def __init__(self) -> None:
        from moto.server import ThreadedMotoServer

        logging.getLogger("werkzeug").setLevel(logging.CRITICAL)  # or it would print every request
        server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        server.start()
        atexit.register(server.stop)
        host, port = server.get_host_and_port()
        self.url = f"http://{host}:{port}"
        os.environ.update(
            AWS_ENDPOINT_URL=self.url,
            AWS_ACCESS_KEY_ID="somebody",
            AWS_SECRET_ACCESS_KEY=SECRET,
            AWS_REGION="us-east-1",
            AWS_ALLOW_HTTP="true",  # for deltalake
            AWS_EC2_METADATA_DISABLED="true",
        )
        from pyarrow.fs import S3FileSystem

        self.files = S3FileSystem(endpoint_override=self.url, allow_bucket_creation=True)
        self.files.create_dir(BUCKET)

    def put(self, name: str, content: bytes) -> str:
        """Uploads an object; returns its URI."""
        with self.files.open_output_stream(f"{BUCKET}/{name}", compression=None) as out:
            out.write(content)
        return f"s3://{BUCKET}/{name}"

    def put_folder(self, folder: Path) -> str:
        """Uploads all files below a folder, to a prefix of their own; returns its URI."""
        prefix = f"{next(_NUMBERS)}/data"
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                self.put(f"{prefix}/{file.relative_to(folder).as_posix()}", file.read_bytes())
        return f"s3://{BUCKET}/{prefix}"

    def web(self, uri: str) -> str:
        """The same object by plain HTTP: this store asks nobody who they are."""
        return uri.replace("s3:/", self.url)


@cache
def store() -> Store:
    """The one store of this process, started when first needed."""
    return Store()


def s3_csv_pattern(table: pa.Table, folder: Path) -> Any:
    (folder / "up").mkdir()
    half = len(table) // 3
    for name, part in (("a", table[:half]), ("b", table[half:])):
        pa_csv.write_csv(part, folder / "up" / f"{name}.csv")
    return store().put_folder(folder / "up") + "/*.csv"


def s3_parquet_hive(table: pa.Table, folder: Path) -> Any:
    if len(table):
        pq.write_to_dataset(table, folder / "hive", partition_cols=["code"])
    else:
        (folder / "hive" / "code=01").mkdir(parents=True)
        pq.write_table(table.drop_columns("code"), folder / "hive" / "code=01" / "none.parquet")
    return store().put_folder(folder / "hive")


def s3_feather(table: pa.Table, folder: Path) -> Any:
    write_feather(table, folder / "a.feather", chunksize=100)
    return store().put(f"{next(_NUMBERS)}.feather", (folder / "a.feather").read_bytes())


def s3_json_lines_gz(table: pa.Table, folder: Path) -> Any:
    lines = "".join(json.dumps(row) + "\n" for row in table.to_pylist()).encode()
    return store().put(f"{next(_NUMBERS)}.jsonl.gz", gzip.compress(lines, mtime=0))


def web_csv(table: pa.Table, folder: Path) -> Any:
    pa_csv.write_csv(table, folder / "w.csv")
    return store().web(store().put(f"{next(_NUMBERS)} w.csv", (folder / "w.csv").read_bytes())).replace(" ", "%20")


def web_parquet(table: pa.Table, folder: Path) -> Any:
    pq.write_table(table, folder / "w.parquet", row_group_size=100)
    uri = store().put(f"{next(_NUMBERS)}.parquet", (folder / "w.parquet").read_bytes())
    return store().web(uri) + f"?signature={SECRET}"


def delta_table(table: pa.Table, folder: Path) -> Any:
    from deltalake import write_deltalake

    write_deltalake(folder / "delta", table, partition_by=["sex"])
    return partial(Source.delta, folder / "delta")


def iceberg_table(table: pa.Table, folder: Path) -> Any:
    from pyiceberg.catalog.sql import SqlCatalog

    place = folder / "ice"
    place.mkdir()
    catalogue = SqlCatalog("people", uri=f"sqlite:///{place}/catalogue.db", warehouse=place.as_uri())
    catalogue.create_namespace("census")
    wide = table.set_column(0, "age", table["age"].cast(pa.int32()))  # Iceberg knows no smaller whole numbers
    made = catalogue.create_table("census.people", schema=wide.schema)
    made.append(wide)
    catalogue.close()
    return partial(Source.iceberg, made.metadata_location)


ENGINES = [
    s3_csv_pattern,
    s3_parquet_hive,
    s3_feather,
    s3_json_lines_gz,
    web_csv,
    web_parquet,
    delta_table,
    iceberg_table,
]
