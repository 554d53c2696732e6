"""`residua project`, and `residua table` and `residua answers` of what it writes."""

import csv
import io
import json

import pyarrow as pa
import pyarrow.parquet
import pytest

import residua as rs
from tests.cli.command import SPEC, inside, released

RULES = '\n[[domain.impossible]]\nsex = "F"\nage = { low = 1, high = 1 }\n'


def test_a_release_is_projected_shown_and_rounded(tmp_path):
    released(tmp_path, spec=SPEC.replace("rho = 0.5", "rho = 0.0005") + RULES)
    (tmp_path / "sex.csv").write_text("sex,count\nF,800\nM,1200\n")
    done = inside("project", "out", "--out", "projected", "--total", "2000", "--known", "sex.csv", cwd=tmp_path)
    assert done.code == 0, done.err
    assert "biased" in done.out
    assert "root mean square" in done.out
    assert "small tables weighing more" in done.out
    assert "nothing was spent" in done.out
    shown = inside("table", "projected", "sex", "age", cwd=tmp_path)
    assert shown.code == 0, shown.err
    assert "biased" in shown.err
    assert "stddev" not in shown.out
    rows = list(csv.DictReader(io.StringIO(inside("table", "projected", "sex", "age", "--full", cwd=tmp_path).out)))
    cells = {(row["sex"], row["age"]): float(row["estimate"]) for row in rows}
    assert min(cells.values()) >= 0
    assert cells["F", "1"] == 0
    assert sum(cells["F", str(age)] for age in range(4)) == pytest.approx(800, abs=1e-3)
    rounded = inside("table", "projected", "sex", "age", "--csv", "--rounded", cwd=tmp_path).out
    counts = [int(row["estimate"]) for row in csv.DictReader(io.StringIO(rounded))]
    assert (sum(counts[:4]), sum(counts[4:])) == (800, 1200)
    answers = inside("answers", "projected", "--csv", cwd=tmp_path)
    assert len(answers.out.splitlines()) == 1 + 1 + 2 + 4 + 8
    assert rs.Projected.load(tmp_path / "projected").count() == pytest.approx(2000)


def test_plain_released_and_simulated(tmp_path):
    released(tmp_path)
    arguments = ("--metric", "plain", "--total", "released", "--simulate", "2")
    done = inside("project", "out", "--out", "projected", *arguments, cwd=tmp_path)
    assert done.code == 0, done.err
    assert "2 releases simulated" in done.out
    assert "counts (root mean square" in done.out
    total = rs.Release.load(tmp_path / "out").count().estimate
    assert rs.Projected.load(tmp_path / "projected").count() == pytest.approx(total)


def test_mistakes_are_one_sentence_and_leave_nothing(tmp_path):
    released(tmp_path)
    (tmp_path / "sex.csv").write_text("sex,count\nF,800\nM,1300\n")
    (tmp_path / "age.csv").write_text("age,n\n0,1\n")
    for arguments, told in (
        (("--metric", "best"), "metric='best'"),
        (("--total", "many"), "neither a number nor 'released'"),
        (("--total", "-5"), "is not a count"),
        (("--known", "none.csv"), "cannot read --known"),
        (("--known", "age.csv"), "has no column 'count'"),
        (("--known", "sex.csv", "--total", "2000"), "2,000 against 2,100"),
        (("--known", "sex.csv", "--known", "sex.csv"), "given twice"),
    ):
        done = inside("project", "out", "--out", "projected", *arguments, cwd=tmp_path)
        assert (done.refused, told in done.err) == (True, True), (arguments, done.err)
        assert not (tmp_path / "projected").exists()
    assert inside("project", "out", "--out", "out", cwd=tmp_path).refused
    assert "no release folder" in inside("project", "nowhere", "--out", "projected", cwd=tmp_path).err


def test_projections_have_intervals_each_by_itself_and_releases_are_rounded_too(tmp_path):
    released(tmp_path)
    assert inside("project", "out", "--out", "projected", cwd=tmp_path).code == 0
    done = inside("table", "projected", "sex", "--confidence", "0.9", cwd=tmp_path)
    assert (done.code, "upper" in done.out, "90 % intervals" in done.out + done.err) == (0, True, True)
    done = inside("count", "projected", "sex = 'F'", cwd=tmp_path)
    assert (done.code, "95 % interval" in done.out) == (0, True), done.out
    done = inside("table", "projected", "sex", "--simultaneous", "table", cwd=tmp_path)
    assert (done.code, "each by itself" in done.err) == (2, True)
    done = inside("replicates", "projected", "-n", "2", "--out", "drawn.parquet", cwd=tmp_path)
    assert (done.code, "2 replicates" in done.out) == (0, True), done.err
    table = pyarrow.parquet.read_table(tmp_path / "drawn.parquet")
    assert table.column_names[:2] == ["replicate", "table"]
    assert table.column_names[-1] == "value"
    assert set(table["replicate"].to_pylist()) == {1, 2}
    done = inside("replicates", "out", "--out", "none.parquet", cwd=tmp_path)
    assert (done.code, "residua project" in done.err) == (2, True)
    done = inside("project", "projected", "--out", "again", cwd=tmp_path)
    assert (done.code, "is a projection already" in done.err) == (2, True)
    done = inside("table", "out", "sex", "--rounded", cwd=tmp_path)
    assert (done.code, "rounded by at most" in done.out) == (0, True), done.err
    done = inside("table", "out", "sex", "--rounded", "--suppress", "unreliable", "--json", cwd=tmp_path)
    assert all(
        row["estimate"] is None or row["estimate"] == int(row["estimate"]) for row in json.loads(done.out)["rows"]
    )
    assert "stddev" in inside("table", "out", "sex", "--confidence", "0.9", cwd=tmp_path).out


def test_all_tables_are_written_in_whole_numbers_with_poor_ones_blank(tmp_path):
    released(tmp_path)
    assert inside("project", "out", "--out", "projected", cwd=tmp_path).code == 0
    for folder in ("out", "projected"):
        options = ("--rounded", "--suppress", "unreliable")
        done = inside("tables", folder, *options, "--out", f"{folder}-tables", cwd=tmp_path)
        assert (done.code, "Rounded: numbers moved by" in done.out) == (0, True), done.err
        tables = [
            list(csv.DictReader(io.StringIO(file.read_text())))
            for file in (tmp_path / f"{folder}-tables").glob("*.csv")
        ]
        shown = [row["estimate"] for rows in tables for row in rows if row["estimate"]]
        assert len(tables) == 4
        assert all(float(each) == int(float(each)) >= 0 for each in shown)
        [both] = [rows for rows in tables if {"sex", "age"} <= set(rows[0])]
        [alone] = [rows for rows in tables if "sex" in rows[0] and "age" not in rows[0]]
        if all(row["estimate"] for row in both):
            for row in alone:
                own = [float(each["estimate"]) for each in both if each["sex"] == row["sex"]]
                assert sum(own) == float(row["estimate"])
        inside("tables", folder, *options, cwd=tmp_path)  # says how and not where: into ./tables
        again = inside("tables", folder, *options, cwd=tmp_path)
        assert (again.refused, "out='tables' exists already" in again.err) == (True, True)
        bad = inside("tables", folder, "--suppress", "bad", "--out", "none", cwd=tmp_path)
        assert (bad.refused, "suppress='bad'" in bad.err, (tmp_path / "none").exists()) == (True, True, False)


def test_of_a_tree_nothing_is_said_of_a_gap(tmp_path):
    places = [f"p{i}" for i in range(1200)]
    levels = {"district": {f"d{j}": places[j::60] for j in range(60)}}
    domain = rs.Domain({"place": rs.Categories(places, levels=levels)})
    plan = rs.plan(rs.hierarchy(domain, "place"), rs.ZCDP(0.5))
    assert type(plan).__name__ == "ProductPlan"
    release = rs.measure(plan, pa.table({"place": places * 3}), ledger=rs.Ledger(tmp_path / "ledger", rs.ZCDP(0.5)))
    release.save(tmp_path / "out")
    done = inside("project", "out", "--out", "projected", cwd=tmp_path)
    assert done.code == 0, done.err
    assert "Distance" in done.out
    told = done.out + (tmp_path / "projected" / "PROJECTION.md").read_text() + repr(rs.project(release))
    for word in ("Gap", "gap", "inf ", "within inf", "Among all tables", "biased itself"):
        assert word not in told
