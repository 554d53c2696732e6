"""`residua release`, `table` and `ledger`: whole folders, one debit each, and the numbers of the library."""

import io
import json
import re
from pathlib import Path

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import residua as rs
from tests.cli.command import DATA, FILES, RECORDS, SPEC, in_terminal, inside, near, process, released
from tests.secrets import says


def test_release_writes_a_whole_folder_and_debits_once(folder: Path) -> None:
    done = process("release", "spec.toml", "--out", "out", cwd=folder)
    assert (done.code, done.err) == (0, "")
    assert "Wrote out: " in done.out
    assert "4 tables were asked for" in done.out
    assert {path.name for path in folder.iterdir()} == {"spec.toml", "people.csv", "people.ledger", "out"}
    assert {path.name for path in (folder / "out").iterdir()} == FILES
    ledger, release = rs.Ledger(folder / "people.ledger"), rs.Release.load(folder / "out")
    [entry] = ledger.entries
    assert entry.purpose == "released as out"
    assert entry.digest == release.receipt["digest"]
    assert ledger.budget == rs.ZCDP(1.0)
    assert float(ledger.spent_exactly) == pytest.approx(1.0, rel=1e-9)
    statement = (folder / "out" / "PRIVACY.md").read_text()
    assert "rho = 0.5" in statement
    assert "adding or removing one record" in statement
    total = release.count()
    assert abs(total.estimate - len(RECORDS)) < 7 * total.stddev  # false alarm below 1e-11
    for shown in (done.out, statement):
        assert not says(len(RECORDS), shown)


def test_paths_are_relative_to_the_specification(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    done = inside("release", str(folder / "spec.toml"), "--out", "mine", cwd=elsewhere)
    assert done.code == 0, done.err
    assert {path.name for path in elsewhere.iterdir()} == {"mine"}
    assert (folder / "people.ledger").exists()


@pytest.mark.parametrize("name", ["plain", "data[1]"])
@pytest.mark.parametrize("paths", ['"part-*.csv"', '["part-1.csv", "part-2.csv"]', '"part-[12].csv"'])
def test_many_files_and_patterns(tmp_path: Path, name: str, paths: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    for i in (1, 2):
        (folder / f"part-{i}.csv").write_text(DATA)
    assert near(released(folder, spec=SPEC.replace('"people.csv"', paths)), 2 * len(RECORDS))


def test_a_file_whose_name_looks_like_a_pattern(tmp_path: Path) -> None:
    (tmp_path / "people[1].csv").write_text(DATA)
    assert near(released(tmp_path, spec=SPEC.replace("people.csv", "people[1].csv")), len(RECORDS))


def test_parquet_a_database_and_counts(tmp_path: Path) -> None:
    table = pa.table({"sex": [sex for sex, _ in RECORDS], "age": [age for _, age in RECORDS], "n": [3] * len(RECORDS)})
    pq.write_table(table, tmp_path / "people.parquet")
    with duckdb.connect(str(tmp_path / "people.duckdb")) as connection:
        connection.register("arrow", table)
        connection.execute("CREATE TABLE people AS SELECT * FROM arrow")
    sources = {
        "a": ('path = "people.parquet"', 1),
        "b": ('path = "people.parquet"\ncounts = "n"', 3),
        "c": ('database = "people.duckdb"\nquery = "people"', 1),
        "d": ('database = "people.duckdb"\nquery = "SELECT * FROM people WHERE sex = \'M\'"\ncounts = "n"', 1.8),
    }
    for name, (source, factor) in sources.items():
        spec = SPEC.replace('path = "people.csv"', source).replace("people.ledger", f"{name}.ledger")
        assert near(released(tmp_path, spec=spec, out=name), round(factor * len(RECORDS)))


def test_policies_are_told_on_the_terminal_only(folder: Path) -> None:
    (folder / "people.csv").write_text(DATA + "X,1\n" * 77 + "F,9\n" * 88)
    spec = SPEC.replace('values = ["F", "M"]', 'values = ["F", "M"]\nunknown = "other"')
    (folder / "spec.toml").write_text(spec.replace("high = 3", 'high = 3\nunknown = "drop"'))
    logged = inside("release", "spec.toml", "--out", "logged", cwd=folder)  # no terminal: a log must not keep counts
    assert logged.code == 0
    assert logged.err == ""  # not even that there is something to say
    assert "88 records" not in logged.out
    assert "77 records" not in logged.out
    code, shown = in_terminal("release", "spec.toml", "--out", "out", cwd=folder)
    assert code == 0
    assert "88 records left out for 'age'" in shown
    assert "77 records counted as other in 'sex'" in shown
    assert "for your eyes only" in shown
    for path in (folder / "out").iterdir():
        assert b"88 records" not in path.read_bytes()
    assert "(other)" in inside("table", "out", "sex", cwd=folder).out
    (folder / "people.ledger").unlink()
    asked = inside("release", "spec.toml", "--out", "asked", "--show-values", cwd=folder)
    assert "88 records left out for 'age'" in asked.err


def test_a_second_release_debits_the_same_ledger_and_the_third_is_refused(folder: Path) -> None:
    for name in ("first", "second"):
        assert inside("release", "spec.toml", "--out", name, cwd=folder).code == 0
    refused = inside("release", "spec.toml", "--out", "third", cwd=folder)
    assert refused.refused
    assert "is exhausted" in refused.err
    assert [entry.purpose for entry in rs.Ledger(folder / "people.ledger").entries] == [
        "released as first",
        "released as second",
    ]
    assert not (folder / "third").exists()


def test_a_ledger_without_a_stated_budget_gets_the_releases_own(folder: Path) -> None:
    released(folder, spec=SPEC.replace("rho = 1.0\n", ""))
    ledger = rs.Ledger(folder / "people.ledger")
    assert ledger.budget == rs.ZCDP(0.5)
    assert float(ledger.remaining_exactly) < 1e-6
    assert inside("release", "spec.toml", "--out", "again", cwd=folder).refused


@pytest.mark.parametrize(
    ("asked", "options", "kwargs"),
    [
        (["sex", "age"], [], {}),
        (["age", "sex"], [], {}),
        (["age"], ["--confidence", "0.5"], {"confidence": 0.5}),
        (["age"], ["--simultaneous", "table"], {"simultaneous": "table"}),
        (["age"], ["--simultaneous", "release", "--confidence", "0.99"],
         {"simultaneous": "release", "confidence": 0.99}),
        ([], [], {}),
    ],
)  # fmt: skip
def test_table_as_csv_is_the_librarys_table(tmp_path: Path, asked: list[str], options: list[str], kwargs: dict) -> None:  # type: ignore[type-arg]
    release = released(tmp_path)
    done = inside("table", "out", *asked, *options, "--full", cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
    expected = release.table(asked, **kwargs).to_pandas()
    frame = pd.read_csv(io.StringIO(done.out))
    assert list(frame.columns) == [*asked, "estimate", "stddev", "lower", "upper"]
    pd.testing.assert_frame_equal(frame, expected, check_dtype=False, rtol=1e-12)


def test_table_for_people_holds_the_same_numbers(tmp_path: Path) -> None:
    release = released(tmp_path)
    done = process("table", "out", "age", "sex", cwd=tmp_path)
    header, *rows, note = done.out.splitlines()
    assert note == "(lower to upper: 95 % intervals, each by itself)"
    assert header.split() == ["age", "sex", "estimate", "stddev", "lower", "upper"]
    expected = release.table(["age", "sex"]).to_pandas()
    assert len(rows) == len(expected) == 8
    for row, (_, cell) in zip(rows, expected.iterrows(), strict=True):
        age, sex, *numbers = row.split()
        assert (int(age), sex) == (cell["age"], cell["sex"])
        for text, name in zip(numbers, ("estimate", "stddev", "lower", "upper"), strict=True):
            assert float(text.replace(",", "")) == pytest.approx(cell[name], abs=0.051)


def test_the_total_needs_no_attributes(tmp_path: Path) -> None:
    release = released(tmp_path)
    lines = inside("table", "out", cwd=tmp_path).out.splitlines()
    assert len(lines) == 3
    assert float(lines[1].split()[0].replace(",", "")) == pytest.approx(release.count().estimate, abs=0.051)


def test_labels_are_shown_as_they_are_and_no_number_is_cut_short(tmp_path: Path) -> None:
    """Neither markup nor pictures; and a column wider than the terminal does not squeeze the numbers."""
    labels = ["[red]x[/red]", "[/]", ":smile:", "a label of many words " * 6]
    name = "[bold]an attribute[/bold] :smile: with a name that is longer than a narrow terminal, as some are"
    spec = SPEC.replace('values = ["F", "M"]', f"values = {json.dumps(labels)}")
    (tmp_path / "people.csv").write_text(f'sex,"{name}"\n' + "".join(f"{label},1\n" for label in labels))
    release = released(tmp_path, spec=spec.replace("domain.age", f'domain."{name}"'), out="[red]out")
    shown = inside("table", "[red]out", "sex", name, "--all", cwd=tmp_path).out.splitlines()
    assert name in shown[0]
    for row, cell in zip(shown[1:-1], release.table(["sex", name]).to_pandas()["upper"], strict=True):
        assert row.split()[-1] == f"{cell:,.1f}"
    for label in labels:
        assert sum(row.startswith(label.rstrip()) for row in shown) == 4
    assert name in inside("plan", "spec.toml", cwd=tmp_path).out
    assert "released as [red]out" in inside("ledger", "people.ledger", cwd=tmp_path).out


def test_long_tables_are_cut_short_unless_all_is_asked_for(tmp_path: Path) -> None:
    released(tmp_path, spec=SPEC.replace("high = 3", "high = 99"))
    short = inside("table", "out", "age", cwd=tmp_path).out
    assert "… 60 more rows" in short
    assert len(short.splitlines()) == 43
    assert len(inside("table", "out", "age", "--all", cwd=tmp_path).out.splitlines()) == 102
    assert len(inside("table", "out", "age", "--csv", cwd=tmp_path).out.splitlines()) == 101


def test_ledger_shows_history_and_what_is_left(tmp_path: Path) -> None:
    rs.Ledger(tmp_path / "people.ledger", rs.ZCDP(1.0))
    assert "nothing spent yet" in inside("ledger", "people.ledger", cwd=tmp_path).out
    released(tmp_path)
    released(tmp_path, spec=SPEC.replace("rho = 0.5", "rho = 0.125"), out="second")
    shown = process("ledger", "people.ledger", cwd=tmp_path)
    assert (shown.code, shown.err) == (0, "")
    assert re.search(r"^1 .*released as out +normal +0.5 +50.0%$", shown.out, flags=re.MULTILINE)
    assert re.search(r"^2 .*released as second +normal +0.125 +12.5%$", shown.out, flags=re.MULTILINE)
    assert "Left   rho 0.375 of 1" in shown.out
    assert "Spent" in shown.out
    facts = json.loads(inside("ledger", "people.ledger", "--json", cwd=tmp_path).out)
    ledger = rs.Ledger(tmp_path / "people.ledger")
    assert [entry["digest"] for entry in facts["entries"]] == [entry.digest for entry in ledger.entries]
    assert [entry["sequence"] for entry in facts["entries"]] == [1, 2]
    assert facts["remaining"]["rho"] == pytest.approx(0.375, rel=1e-9)
    assert facts["spent"]["rho"] == pytest.approx(0.625, rel=1e-9)
    assert facts["budget"] == {"kind": "zcdp", "rho": 1.0}
