"""A standalone cluster of two workers on loopback, whose executors get residua from the driver.

Then they are killed in the middle, slowed down until Spark repeats a task, and left without randomness.
"""

import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import residua as rs
from benchmarks.standalone import Cluster, settings, standalone, started
from residua.errors import SourceError, VerificationError
from residua.formats import on_spark
from residua.source import Source, source_of, spark
from tests.conformance import engines

pytestmark = pytest.mark.xdist_group("spark")
SIZES = dict.fromkeys("abcdefgh", 5)

# What Python runs first on an executor. residua is not there; randomness is absent, and naming a part slow the first
# time, while the test says so with a file.
EXECUTOR = """
import os, sys, time
sys.path[:] = [each for each in sys.path if not os.path.isdir(os.path.join(each, "residua"))]
here, link, urandom = os.path.dirname(os.path.abspath(__file__)), os.link, os.urandom

def slow_link(source, path, **more):
    slow = os.path.join(here, "slow-" + os.path.basename(path))
    try:
        os.rename(slow, slow + "-taken")
        first = True
    except FileNotFoundError:
        first = False
    if os.path.exists(slow + "-taken"):
        with open(os.path.join(here, "attempts"), "a") as attempts:
            attempts.write(os.path.basename(path) + "\\n")
    until = time.monotonic() + 600
    while first and not os.path.exists(path) and time.monotonic() < until:
        time.sleep(0.05)
    return link(source, path, **more)

os.link = slow_link
os.urandom = lambda size: bytes(size) if os.path.exists(os.path.join(here, "no-randomness")) else urandom(size)
"""


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that the executors' Python looks into first."""
    folder = tmp_path_factory.mktemp("there")
    (folder / "sitecustomize.py").write_text(EXECUTOR)
    return folder


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory, there: Path) -> Iterator[tuple[Cluster, Any]]:
    """Executors that have what residua needs, but not residua."""
    folder = tmp_path_factory.mktemp("cluster")
    with standalone(folder, memory="512m") as running:
        told = {"spark.executor.memory": "512m", "spark.sql.shuffle.partitions": "20", "spark.task.maxFailures": "4"}
        told |= {"spark.executorEnv.PYTHONPATH": str(there), "spark.speculation": "true"}
        told |= {"spark.speculation.quantile": "0.1", "spark.speculation.minTaskRuntime": "2s"}
        session = started(running.master, settings(folder) | told)
        yield running, session
        session.stop()


@pytest.fixture(scope="module")
def cluster(bare: tuple[Cluster, Any], tmp_path_factory: pytest.TempPathFactory) -> tuple[Cluster, Any]:
    """The same executors once residua was sent to them, as docs/spark.md says."""
    packed = tmp_path_factory.mktemp("packed") / "residua"
    package = Path(rs.__file__).parent
    bare[1].addArtifacts(shutil.make_archive(str(packed), "zip", package.parent, package.name), pyfile=True)
    return bare


def made(folder: Path, session: Any, monkeypatch: Any) -> tuple[rs.Plan, pa.Table, Any, rs.Ledger]:
    monkeypatch.setattr(spark, "_BLOCK_CELLS", 100)
    rng = np.random.default_rng(3)
    table = pa.table({name: rng.integers(0, size, 2000) for name, size in SIZES.items()})
    plan = rs.plan(rs.marginals(rs.Domain.of_sizes(SIZES), ways=[1, 2, 3]), rs.ZCDP(rho=1e6))
    return plan, table, session.createDataFrame(table).repartition(4), rs.Ledger(folder / "a.ledger", rs.ZCDP(rho=2e6))


def whole(folder: Path, table: pa.Table, plan: rs.Plan, ledger: rs.Ledger) -> None:
    """Nothing is lost, nothing doubled, nothing left behind."""
    parts = sorted(path.name for path in (folder / "out" / "measurements").iterdir())
    assert parts == [f"part-{i:05d}.parquet" for i in range(len(parts))]
    assert len(ledger.entries) == 1
    assert sorted(path.name for path in folder.iterdir()) == ["a.ledger", "out"]
    for group, part, estimates in rs.Release.load(folder / "out").all_estimates():
        for members, found in zip(group.members[part], estimates, strict=True):
            codes = [table.column(int(i)).to_numpy() for i in members]
            places = np.ravel_multi_index(codes, found.shape) if codes else np.zeros(len(table), dtype=int)
            truth = np.bincount(places, minlength=found.size).reshape(found.shape)
            deviation = float(np.sqrt(np.max(plan.variance([plan.domain.names[i] for i in members]))))
            # Noise is far below one record: one that is lost or counted twice would show. False alarms: 1e-12.
            assert np.abs(found - truth).max() < 8 * deviation < 0.25


def test_executors_without_residua_are_told_of_before_anything_is_spent(
    bare: tuple[Cluster, Any], tmp_path: Path, monkeypatch: Any
) -> None:
    plan, _, frame, ledger = made(tmp_path, bare[1], monkeypatch)
    with pytest.raises(
        SourceError, match=r"the executors have no residua: .* set PYSPARK_PYTHON .* or send it with spark\."
    ):
        rs.measure(plan, frame, ledger=ledger, out=tmp_path / "out")
    assert not ledger.entries
    assert [path.name for path in tmp_path.iterdir()] == ["a.ledger"]


def test_a_cluster_counts_what_every_engine_counts(cluster: tuple[Cluster, Any]) -> None:
    rows, domain = engines.records(dirty=True), engines.domain_with("other", "drop")
    table = engines.table_of([(*row, 1) for row in rows])
    data = Source.spark(cluster[1].createDataFrame(table).repartition(3))
    counted = data.count(domain, engines.layout_over(domain))
    assert np.array_equal(counted.tables, engines.expected(rows, domain))
    assert counted.fingerprint == source_of(table).fingerprint()


def test_an_executor_that_cannot_measure_is_found_before_the_debit(
    cluster: tuple[Cluster, Any], there: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    plan, _, frame, ledger = made(tmp_path, cluster[1], monkeypatch)
    (there / "no-randomness").touch()
    try:
        with pytest.raises(VerificationError, match=r"an executor cannot measure: .*the entropy source is broken"):
            rs.measure(plan, frame, ledger=ledger, out=tmp_path / "out")
    finally:
        (there / "no-randomness").unlink()
    assert not ledger.entries
    assert [path.name for path in tmp_path.iterdir()] == ["a.ledger"]


def test_a_task_that_spark_repeats_gives_nobody_a_second_noisy_copy(
    cluster: tuple[Cluster, Any], there: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    """The first attempt has drawn its noise and waits before it names its file; the repeated one names it."""
    plan, table, frame, ledger = made(tmp_path, cluster[1], monkeypatch)
    slow = there / "slow-part-00003.parquet"
    slow.touch()
    rs.measure(plan, frame, ledger=ledger, out=tmp_path / "out")
    assert (there / "attempts").read_text().split() == ["part-00003.parquet"] * 2  # both had noise of their own
    whole(tmp_path, table, plan, ledger)


def test_an_executor_killed_in_the_middle_loses_nothing_and_doubles_nothing(
    cluster: tuple[Cluster, Any], tmp_path: Path, monkeypatch: Any
) -> None:
    running, session = cluster
    plan, table, frame, ledger = made(tmp_path, session, monkeypatch)
    killed: list[tuple[int, int]] = []  # which process, when how many parts were written
    over = threading.Event()

    def kill_when_begun() -> None:
        while not over.wait(0.01):
            written = len(list(tmp_path.glob(".out.partial-*/measuring/part-*")))
            if written:
                killed.append((running.kill_one(), written))
                return

    killer = threading.Thread(target=kill_when_begun)
    killer.start()
    try:
        release = rs.measure(plan, frame, ledger=ledger, out=tmp_path / "out")
    finally:
        over.set()
        killer.join()
    ((_, written),) = killed
    assert 0 < written < len(list((tmp_path / "out" / "measurements").iterdir()))  # it was the middle
    whole(tmp_path, table, plan, ledger)
    assert release.receipt["sequence"] == 1
    monkeypatch.setattr(on_spark, "BLOCK_CELLS", 500)
    files = release.export(tmp_path / "tables", "parquet", spark=session)
    assert len(files) > 5
    stacked, asked = pq.read_table(tmp_path / "tables"), list(release.tables())
    assert stacked.num_rows == sum(len(each) for each in asked)
