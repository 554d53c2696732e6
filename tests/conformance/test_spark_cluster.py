"""A standalone cluster of two workers on loopback, an executor of which is killed in the middle of a release."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import residua as rs
from benchmarks.standalone import Cluster, settings, standalone, started
from residua.source import Source, source_of, spark
from tests.conformance import engines

pytestmark = pytest.mark.xdist_group("spark")
SIZES = dict.fromkeys("abcdefgh", 5)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, Any]]:
    folder = tmp_path_factory.mktemp("cluster")
    with standalone(folder, memory="512m") as running:
        told = {"spark.executor.memory": "512m", "spark.sql.shuffle.partitions": "20", "spark.task.maxFailures": "8"}
        session = started(running.master, settings(folder) | told)
        yield running, session
        session.stop()


def test_a_cluster_counts_what_every_engine_counts(cluster: tuple[Cluster, Any]) -> None:
    rows, domain = engines.records(dirty=True), engines.domain_with("other", "drop")
    table = engines.table_of([(*row, 1) for row in rows])
    data = Source.spark(cluster[1].createDataFrame(table).repartition(3))
    counted = data.count(domain, engines.layout_over(domain))
    assert np.array_equal(counted.tables, engines.expected(rows, domain))
    assert counted.fingerprint == source_of(table).fingerprint()


def test_an_executor_killed_in_the_middle_loses_nothing_and_doubles_nothing(
    cluster: tuple[Cluster, Any], tmp_path: Path, monkeypatch: Any
) -> None:
    running, session = cluster
    monkeypatch.setattr(spark, "_BLOCK_CELLS", 100)
    rng = np.random.default_rng(3)
    table = pa.table({name: rng.integers(0, size, 2000) for name, size in SIZES.items()})
    plan = rs.plan(rs.marginals(rs.Domain.of_sizes(SIZES), ways=[1, 2, 3]), rs.ZCDP(rho=1e6))
    ledger = rs.Ledger(tmp_path / "a.ledger", rs.ZCDP(rho=2e6))
    killed: list[tuple[int, int]] = []  # which process, when how many parts were written
    over = threading.Event()

    def kill_when_begun() -> None:
        while not over.wait(0.01):
            written = len(list(tmp_path.glob(".out.partial-*/measurements/part-*")))
            if written:
                killed.append((running.kill_one(), written))
                return

    killer = threading.Thread(target=kill_when_begun)
    killer.start()
    try:
        release = rs.measure(plan, session.createDataFrame(table).repartition(4), ledger=ledger, out=tmp_path / "out")
    finally:
        over.set()
        killer.join()
    parts = sorted(path.name for path in (tmp_path / "out" / "measurements").iterdir())
    ((_, written),) = killed
    assert 0 < written < len(parts)  # it was the middle
    assert parts == [f"part-{i:05d}.parquet" for i in range(len(parts))]
    assert len(ledger.entries) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.ledger", "out"]
    for group, part, estimates in rs.Release.load(tmp_path / "out").all_estimates():
        for members, found in zip(group.members[part], estimates, strict=True):
            codes = [table.column(int(i)).to_numpy() for i in members]
            places = np.ravel_multi_index(codes, found.shape) if codes else np.zeros(len(table), dtype=int)
            truth = np.bincount(places, minlength=found.size).reshape(found.shape)
            deviation = float(np.sqrt(np.max(plan.variance([plan.domain.names[i] for i in members]))))
            # Noise is far below one record: one that is lost or counted twice would show. False alarms: 1e-12.
            assert np.abs(found - truth).max() < 8 * deviation < 0.25
    assert release.receipt["sequence"] == 1
