"""Large releases on disk: packed in parts into room that was reserved, read part by part, each against its digest."""

import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import residua as rs
from residua.errors import FileError
from residua.release import folder as folders, parts
from residua.release.parts import PartedIntegers, part_bytes, part_room

DOMAIN = rs.Domain.of_sizes({"a": 4, "b": 3, "c": 5, "d": 2, "e": 4})


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(folders, "PACKED_CELLS", 100)
    monkeypatch.setattr(parts, "PART_CELLS", 40)


@pytest.fixture(params=["normal", "laplace"])
def saved(request, tmp_path):
    budget = rs.ZCDP(0.5) if request.param == "normal" else rs.PureDP(1.0)
    plan = rs.plan(rs.marginals(DOMAIN, ways=[0, 1, 2, 3]), budget)
    rng = np.random.default_rng(3)
    data = pa.table({name: rng.integers(0, DOMAIN[name].size, 500) for name in DOMAIN})
    return rs.measure(plan, data, ledger=rs.Ledger(tmp_path / "ledger", budget), out=tmp_path / "release"), tmp_path


def test_what_was_packed_is_read_again(saved):
    release, folder = saved
    assert isinstance(release.noisy, PartedIntegers)
    assert not (folder / "release" / "measurements.npy").exists()
    whole = np.asarray(release.noisy)
    in_memory = rs.Release(release.planned, release.measurements, whole.copy(), release.receipt)
    for mine, theirs in zip(release.tables(), in_memory.tables(), strict=True):
        np.testing.assert_array_equal(mine.estimates, theirs.estimates)
    np.testing.assert_array_equal(release.estimates(["e", "a"]), in_memory.estimates(["e", "a"]))
    again = folder / "again"
    release.save(again)
    np.testing.assert_array_equal(np.asarray(rs.Release.load(again).noisy), whole)
    files = sorted(path.name for path in (again / "measurements").iterdir())
    assert len(files) == -(-len(whole) // 40) > 5


def test_one_table_is_read_without_the_rest(saved):
    release, folder = saved
    again = rs.Release.load(folder / "release")
    again.estimator.plan  # noqa: B018 – of plans as tables, what lies below is pooled when it is first asked
    count = len(list((folder / "release" / "measurements").iterdir()))
    if release.planned.noise.name == "normal":
        again.table(["a"])
        assert again.noisy.part.cache_info().misses <= 3 < count


def test_a_part_that_was_changed_or_is_missing_is_refused(saved):
    _, folder = saved
    last = max((folder / "release" / "measurements").iterdir())
    content = last.read_bytes()
    last.write_bytes(content[:-20] + bytes([content[-20] ^ 1]) + content[-19:])
    damaged = rs.Release.load(folder / "release")  # what is not read is not looked at
    with pytest.raises(FileError, match="was changed after it was written"):
        list(damaged.tables())
    last.unlink()
    with pytest.raises(FileError, match="lacks 'measurements/part-"):
        rs.Release.load(folder / "release")


def test_room_for_every_part_is_kept_before_anything_is_spent(tmp_path, monkeypatch):
    plan = rs.plan(rs.marginals(DOMAIN, ways=[3]), rs.ZCDP(0.5))
    with folders.reserve(tmp_path / "release", plan, plan.measurements) as place:
        held = [path.stat() for path in (place.partial / "measurements").iterdir()]
        assert sum(each.st_blocks * 512 for each in held) >= 9 * plan.measurements.cells
    assert not (tmp_path / "release").exists()

    def full(handle: int, size: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(folders, "keep_room", full)
    with (
        pytest.raises(FileError, match="nothing was spent"),
        folders.reserve(tmp_path / "release", plan, plan.measurements),
    ):
        pass
    assert not list(Path(tmp_path).iterdir())
    shutil.rmtree(tmp_path)


@pytest.mark.parametrize("kind", ["extreme", "noise", "equal", "one"])
def test_no_part_is_longer_than_its_room(kind):
    rng = np.random.default_rng(4)
    ends = np.array([-(2**63), 2**63 - 1])
    integers = {
        "extreme": rng.choice(ends, 5000),
        "noise": np.rint(rng.normal(0, 2e6, 5000)).astype(np.int64),
        "equal": np.zeros(5000, dtype=np.int64),
        "one": ends[:1],
    }[kind]
    content = part_bytes(integers)
    assert len(content) <= part_room(len(integers))
    read = pa.BufferReader(content)
    np.testing.assert_array_equal(pa.parquet.read_table(read).column(0).to_numpy(), integers)
    if kind == "noise":  # the entropy of a normal variable, and less than three bits more
        bits = 8 * (len(content) - 1000) / len(integers)
        assert bits < np.log2(2e6 * np.sqrt(2 * np.pi * np.e)) + 3
