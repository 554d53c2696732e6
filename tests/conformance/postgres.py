"""A PostgreSQL server of our own, on a socket in a temporary folder, which ends with the process that started it."""

import atexit
import itertools
import os
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

_NUMBERS = itertools.count()
_SETTINGS = "-c listen_addresses= -c fsync=off -c autovacuum=off -c shared_buffers=16MB -c max_connections=20"


@cache
def server() -> str:
    """The URI of the server, which is started when first asked for."""
    folder = Path(tempfile.mkdtemp(prefix="residua-pg-"))
    as_user, owner = [], os.geteuid()
    if owner == 0:  # PostgreSQL refuses to run as root
        as_user = ["runuser", "-u", "postgres", "--"]
        shutil.chown(folder, "postgres")
    tools = _tools()
    told = {"check": True, "cwd": folder, "capture_output": True}
    made = ["-D", str(folder / "data"), "-A", "trust", "-U", "tester", "-E", "UTF8", "--locale=C", "--no-sync"]
    subprocess.run([*as_user, str(tools / "initdb"), *made], **told)  # type: ignore[call-overload]
    control = [*as_user, str(tools / "pg_ctl"), "-D", str(folder / "data")]
    settings = f"-k {folder} {_SETTINGS}"
    with (folder / "log").open("w") as log:  # not a pipe: the server would hold it open
        subprocess.run([*control, "-w", "-o", settings, "start"], check=True, cwd=folder, stdout=log, stderr=log)
    # It stops when this process ends, however that happens: the other end of its standard input is then closed.
    stop = f"cat >/dev/null; {' '.join(control)} -m immediate stop; rm -rf {folder}"
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "start_new_session": True, "cwd": "/"}
    stopper = subprocess.Popen(["sh", "-c", stop], stdin=subprocess.PIPE, **quiet)  # type: ignore[call-overload]
    atexit.register(_stopped, stopper)
    return f"postgresql:///postgres?host={folder}&user=tester"


def _stopped(stopper: Any) -> None:
    stopper.stdin.close()
    stopper.wait()


@cache
def standing() -> Any:
    """One open connection for all who need one that stays open."""
    connection = connected()
    atexit.register(connection.close)
    return connection


def _tools() -> Path:
    found = [*sorted(map(str, Path("/usr/lib/postgresql").glob("*/bin/initdb"))), shutil.which("initdb") or ""]
    found = [path for path in found if path]
    if not found:
        raise RuntimeError("there is no PostgreSQL server; scripts/test installs it: apt-get install postgresql")
    return Path(found[-1]).parent


def connected(**options: Any) -> Any:
    """A connection that may write."""
    import adbc_driver_postgresql.dbapi as driver

    return driver.connect(server(), autocommit=True, **options)


def run(*statements: str) -> None:
    """Runs statements."""
    with connected() as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def ingested(table: Any) -> str:
    """A new table of the server that holds these records."""
    name = f"people_{next(_NUMBERS)}"
    with connected() as connection, connection.cursor() as cursor:
        cursor.adbc_ingest(name, table, mode="create")
    return name
