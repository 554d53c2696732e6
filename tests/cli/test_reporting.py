"""`residua report` and `residua tables --format` write what the library writes, and refuse in one sentence."""

from pathlib import Path

import pytest

import residua as rs
from residua.report.contents import report_html
from tests.cli.command import SPEC, inside, released
from tests.cli.session_command import run, with_plans


def test_reports_of_releases_projections_plans_and_specifications(tmp_path: Path) -> None:
    release = released(tmp_path)
    inside("project", "out", "--out", "projected", cwd=tmp_path)
    inside("plan", "spec.toml", "--save", "plan.json", cwd=tmp_path)
    (tmp_path / "half.toml").write_text(SPEC.replace("rho = 0.5", "rho = 0.25"))
    told = {
        ("out",): report_html(release, title="T"),
        ("projected",): report_html(rs.Projected.load(tmp_path / "projected"), title="T"),
        ("plan.json",): report_html(rs.Plan.load(tmp_path / "plan.json"), title="T"),
        ("spec.toml",): report_html(release.planned, title="T"),
    }
    for words, wanted in told.items():
        done = inside("report", *words, "--out", "r.html", "--title", "T", cwd=tmp_path)  # over the last one
        assert done.code == 0, done.err
        assert done.out.startswith("Wrote r.html")
        assert (tmp_path / "r.html").read_text() == wanted
    done = inside("report", "plan.json", "half.toml", cwd=tmp_path)
    assert done.code == 0, done.err
    assert "1.414" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("report", "nowhere"), "there is no release folder, saved plan or specification 'nowhere'"),
        (("difference", "out", "age"), "say which to compare: 0=1 1=-1"),
        (("report", "people.csv"), "not TOML"),
        (("report", "out", "--out", "people.csv"), "exists and is something else"),
        (("report", "out", "--out", "no/where.html"), "cannot write"),
        (("report", "out", "spec.toml"), "two plans"),
        (("report", "spec.toml", "out"), "is a folder"),
        (("tables", "out", "--out", "t", "--format", "docx"), "use one of csv"),
        (("tables", "out", "--out", "t", "--format", "px", "--spreadsheet"), "is for CSV"),
        (("tables", "out", "--out", "t", "--language", "xx"), "declare titles"),
    ],
)
def test_mistakes_are_one_sentence_and_write_nothing(tmp_path: Path, words: tuple[str, ...], told: str) -> None:
    released(tmp_path)
    before = sorted(path.name for path in tmp_path.iterdir())
    done = inside(*words, cwd=tmp_path)
    assert done.refused
    assert told in done.err
    assert done.err.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == before


@pytest.mark.parametrize("format", ["parquet", "xlsx", "jsonstat", "px", "sdmx", "datapackage", "csvw"])
def test_tables_in_a_format_are_listed_with_their_files(tmp_path: Path, format: str) -> None:
    release = released(tmp_path)
    done = inside("tables", "out", "--out", "t", "--format", format, "--title", "People", cwd=tmp_path)
    assert done.code == 0, done.err
    wanted = [
        str(path.relative_to(tmp_path)).replace("again", "t") for path in release.export(tmp_path / "again", format)
    ]
    assert [line.split()[-2] for line in done.out.splitlines()[1:]] == wanted


def test_what_is_printed_of_a_plan_is_what_the_command_prints(tmp_path: Path) -> None:
    released(tmp_path)
    shown = inside("plan", "spec.toml", "--save", "plan.json", cwd=tmp_path).out
    printed = str(rs.Plan.load(tmp_path / "plan.json"))
    assert [line.rstrip() for line in shown.rstrip().split("\n")] == printed.split("\n")


def test_a_session_is_reported(tmp_path: Path) -> None:
    folder = with_plans(tmp_path)
    run(folder, "open")
    run(folder, "release", "coarse", "--out", "coarse")
    assert run(folder, "report", "--out", "s.html").startswith("Wrote s.html")
    assert "What the session did" in (tmp_path / "s.html").read_text()
