"""Reading from an object store and from the web, on loopback, beside the same files on disk: time and memory.

    python -m benchmarks.clouds [ROWS]

Each row is a process of its own, which checks and fingerprints all records once. Memory is what it held at most
beyond what it held when everything was loaded. The server is moto's, in Python: it, not residua, sets the pace.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

BUCKET = "bench"


def read_one(place: str) -> None:
    """Reads a source; prints seconds and megabytes."""
    import residua as rs
    from residua.source import source_of

    domain = rs.Domain({name: rs.Integers(0, 9) for name in "abcdef"})
    rs.Source.frame(pa.table({name: [1, 2] for name in "abcdef"})).checked(domain)
    lake = place.removeprefix("delta:")
    source = rs.Source.delta(lake) if lake != place else source_of(place)
    before, start = _most(), time.perf_counter()
    source.checked(domain)
    print(time.perf_counter() - start, _most() - before)


def _most() -> float:
    """The most megabytes that this process held; `ru_maxrss` would begin with those of its parent."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def main(rows: int) -> None:
    import logging

    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.CRITICAL)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    url = "http://{}:{}".format(*server.get_host_and_port())
    os.environ.update(AWS_ENDPOINT_URL=url, AWS_ACCESS_KEY_ID="a", AWS_SECRET_ACCESS_KEY="b", AWS_REGION="us-east-1")
    from deltalake import write_deltalake
    from pyarrow.fs import S3FileSystem

    store = S3FileSystem(endpoint_override=url, allow_bucket_creation=True)
    store.create_dir(BUCKET)
    rng = np.random.default_rng(1)
    table = pa.table({name: rng.integers(0, 10, rows, dtype=np.int8) for name in "abcdef"})
    with tempfile.TemporaryDirectory() as folder:
        pa_csv.write_csv(table, f"{folder}/x.csv")
        pq.write_table(table, f"{folder}/x.parquet", row_group_size=rows // 8)
        write_deltalake(f"{folder}/delta", table)
        for name in ("x.csv", "x.parquet"):
            with store.open_output_stream(f"{BUCKET}/{name}") as out:
                out.write(Path(folder, name).read_bytes())
        print(f"{rows:,} rows of 6 columns; CSV {Path(folder, 'x.csv').stat().st_size / 1e6:.0f} MB\n")
        print(f"{'read from':28}{'seconds':>9}{'of disk':>9}{'MB more':>9}")
        disk: dict[str, float] = {}
        places = {
            "CSV on disk": f"{folder}/x.csv",
            "CSV at s3://": f"s3://{BUCKET}/x.csv",
            "CSV at http://": f"{url}/{BUCKET}/x.csv",
            "Parquet on disk": f"{folder}/x.parquet",
            "Parquet at s3://": f"s3://{BUCKET}/x.parquet",
            "Parquet at http://": f"{url}/{BUCKET}/x.parquet",
            "Parquet of a Delta table": f"delta:{folder}/delta",
        }
        for name, place in places.items():
            done = subprocess.run(
                [sys.executable, "-m", "benchmarks.clouds", "--read", place], capture_output=True, text=True, check=True
            )
            seconds, more = (float(part) for part in done.stdout.split())
            base = disk.setdefault(name.split()[0], seconds)
            print(f"{name:28}{seconds:9.2f}{seconds / base:9.1f}{more:9.0f}")
    server.stop()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--read"]:
        read_one(sys.argv[2])
    else:
        main(int(sys.argv[1]) if len(sys.argv) > 1 else 2_000_000)
