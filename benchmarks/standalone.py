"""A standalone Spark cluster on loopback, and small sessions: for tests and benchmarks.

Master and workers are started as Spark's scripts do (`spark-class org.apache.spark.deploy…`), with a compiler that
starts quickly, and ended by their own process numbers.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
LOOPBACK = {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
_EXECUTOR = "CoarseGrainedExecutorBackend"


def settings(folder: Path, **more: str) -> dict[str, str]:
    """What every small session is told."""
    told = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": f"{QUICK} -Dderby.system.home={folder}",
        "spark.executor.extraJavaOptions": QUICK,
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "local"),
    }
    return told | {name.replace("_", "."): value for name, value in more.items()}


def started(master: str, told: dict[str, str]) -> Any:
    """A classic session."""
    os.environ.update(LOOPBACK)
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master)
    for name, value in told.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")  # its own errors would quote data
    return session


@dataclass(frozen=True)
class Cluster:
    """Where the master listens, and the processes."""

    master: str
    processes: tuple[subprocess.Popen[bytes], ...]

    def executors(self) -> list[int]:
        """The process numbers of the executors that run below the workers."""
        parents = {process.pid for process in self.processes}
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            try:
                command = (path / "cmdline").read_bytes()
                parent = int((path / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue
            if _EXECUTOR.encode() in command and parent in parents:
                found.append(int(path.name))
        return sorted(found)

    def kill_one(self) -> int:
        """Kills one executor, as a machine that fails would."""
        executor = self.executors()[0]
        os.kill(executor, signal.SIGKILL)
        return executor


@contextmanager
def standalone(folder: Path, workers: int = 2, cores: int = 1, memory: str = "1g") -> Iterator[Cluster]:
    """A master and workers, as long as the block lasts; each worker has an address of its own.

    Spark repeats a slow task on another host only.
    """
    import pyspark

    home = Path(pyspark.__file__).parent
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    master = f"spark://127.0.0.1:{port}"
    environment = (
        os.environ
        | LOOPBACK
        | {
            "SPARK_HOME": str(home),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": QUICK,
            "SPARK_LOCAL_DIRS": str(folder / "shuffle"),
        }
    )
    kinds = [["master.Master", "--port", str(port)]]
    kinds += [
        ["worker.Worker", "--cores", str(cores), "--memory", memory, "--work-dir", str(folder / f"work-{i}"), master]
        for i in range(workers)
    ]
    started: list[subprocess.Popen[bytes]] = []
    logs = [folder / f"{i}.log" for i in range(len(kinds))]
    try:
        for (kind, *arguments), log in zip(kinds, logs, strict=True):
            command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}"]
            host = f"127.0.0.{len(started) or 1}"
            options = ["--host", host, "--webui-port", "0", *arguments]
            with log.open("wb") as written:
                started.append(
                    subprocess.Popen([*command, *options], env=environment, stdout=written, stderr=subprocess.STDOUT)
                )
        for log in logs[1:]:
            _wait(log, r"Successfully registered with master")
        yield Cluster(master, tuple(started))
    finally:
        for process in reversed(started):
            process.terminate()
        for process in started:
            process.wait(timeout=30)


def _wait(log: Path, pattern: str, seconds: float = 300) -> None:
    until = time.monotonic() + seconds
    while not re.search(pattern, log.read_text(errors="replace")):
        if time.monotonic() > until:
            raise TimeoutError(f"{pattern!r} is not in {log}:\n{log.read_text(errors='replace')[-2000:]}")
        time.sleep(0.1)
