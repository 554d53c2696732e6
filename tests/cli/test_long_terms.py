"""Tables too long to list: listed with their number of rows, left out of files, reported by their mean error."""

import warnings
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import residua as rs
from tests.cli.command import inside

DOMAIN = rs.Domain({"v": rs.Integers(0, 11_999)})
RANGES = "72,006,000"


def saved(path: Path, workload) -> rs.Release:
    plan = rs.plan(workload, rs.ZCDP(0.5))
    release = rs.measure(plan, pa.table({"v": range(0, 12_000, 7)}), ledger=rs.Ledger(path / "ledger", rs.ZCDP(0.5)))
    release.save(path / "out")
    return release


@pytest.fixture(scope="module")
def alone(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("alone")
    saved(path, rs.ranges(DOMAIN, "v"))
    return path


@pytest.fixture(scope="module")
def beside(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("beside")
    saved(path, rs.ranges(DOMAIN, "v") + rs.prefixes(DOMAIN, "v"))
    return path


@pytest.mark.parametrize("case", ["alone", "beside"])
def test_it_is_listed_and_reported(case, request) -> None:
    folder = request.getfixturevalue(case)
    listed = inside("tables", "out", cwd=folder)
    assert listed.code == 0, listed.err
    assert listed.out.splitlines()[-1].split() == ["v:", "ranges", RANGES]
    assert ("v: prefixes" in listed.out) == (case == "beside")
    reported = inside("report", "out", cwd=folder)
    assert reported.code == 0, reported.err
    page = (folder / "report.html").read_text()
    release = rs.Release.load(folder / "out")
    (error,) = release.plan.variances(rs.ranges(DOMAIN, "v"), per="term") ** 0.5
    assert f"<td>{RANGES}</td><td>{error:.3g}</td>" in page


@pytest.mark.parametrize(
    "words", [("answers", "out"), ("table", "out", "v=ranges"), ("tables", "out", "--out", "all", "--format", "long")]
)
def test_alone_it_is_refused_in_a_sentence_for_the_command_line(alone: Path, words: tuple[str, ...]) -> None:
    done = inside(*words, cwd=alone)
    assert done.refused
    assert done.err.count("\n") == 1
    for part in ("'v: ranges'", RANGES, "residua count", "residua quantile"):
        assert part in done.err
    assert "per=" not in done.err
    assert not (alone / "all").exists()


def test_beside_others_it_alone_is_left_out(beside: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")  # as for users; in tests they are errors
        done = inside("tables", "out", "--out", "all", "--format", "long", cwd=beside)
    assert done.code == 0, done.err
    assert "'v: ranges'" in done.err
    assert "left out" in done.err
    assert pq.read_table(beside / "all" / "tables.parquet")["table"].unique().to_pylist() == ["v: prefixes"]
    release = rs.Release.load(beside / "out")
    assert [table.title for table in release.tables(most=20_000)] == ["v: prefixes"]
    with pytest.raises(rs.ResiduaError, match="too many to list"):
        next(release.tables())
    with pytest.warns(UserWarning, match="left out"):
        assert len(release.export(beside / "apart", "parquet")) == 1


def test_a_projection_leaves_it_out_too(beside: Path) -> None:
    projected = rs.project(rs.Release.load(beside / "out"), simulations=0)
    assert [table.title for table in projected.tables(most=20_000)] == ["v: prefixes"]
    for ask in (
        lambda: next(projected.tables()),
        projected.answers,
        lambda: projected.table(["v"], queries={"v": "ranges"}),
    ):
        with pytest.raises(rs.ResiduaError, match="residua count"):
            ask()
