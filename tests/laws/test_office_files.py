"""What the dictionary of a statistical file declares becomes the draft of a domain; sheets are read as other tables."""

import datetime as dt
import sys
import tomllib
from pathlib import Path

import openpyxl
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyreadstat
import pytest

import residua as rs
from residua.errors import SourceError
from residua.source import Source, source_of
from tests.cli.command import inside

ANSWERS = pd.DataFrame(
    {
        "sex": [1.0, 2.0, 1.0, 9.0],
        "region": ["09", "01", "09", "09"],
        "born": [dt.date(1987, 12, 31), dt.date(1990, 2, 1), dt.date(1990, 2, 1), dt.date(1999, 1, 1)],
        "case": [4711, 12, 13, 14],
    }
)
LABELS = {"sex": {1: "männlich", 2: "weiblich", 9: "keine Angabe"}, "region": {"01": "Kiel", "09": "München"}}


def spss(folder: Path) -> Path:
    pyreadstat.write_sav(
        ANSWERS,
        folder / "answers.sav",
        column_labels={"sex": "Geschlecht"},
        variable_value_labels=LABELS,
        missing_ranges={"sex": [9]},
        variable_format={"case": "F5.0"},
    )
    return folder / "answers.sav"


def stata(folder: Path) -> Path:
    known = {"sex": {1: "männlich", 2: "weiblich"}}
    pyreadstat.write_dta(
        ANSWERS, folder / "answers.dta", column_labels={"sex": "Geschlecht"}, variable_value_labels=known
    )
    return folder / "answers.dta"


def test_labels_and_missing_codes_become_the_drafted_domain(tmp_path: Path) -> None:
    spss(tmp_path)
    done = inside("init", "answers.sav", cwd=tmp_path)
    assert done.code == 0, done.err
    text = (tmp_path / "spec.toml").read_text()
    assert not [secret for secret in ("4711", "1987", "1990") if secret in text]
    drafted = tomllib.loads(text)["domain"]
    assert drafted["sex"] == {
        "values": [1, 2],
        "missing": "other",
        "title": "Geschlecht",
        "meanings": {"1": "männlich", "2": "weiblich"},
    }
    assert drafted["region"] == {"values": ["01", "09"], "meanings": {"01": "Kiel", "09": "München"}}
    assert "(dates: first" in text.partition("[domain.")[2]
    assert "(whole numbers: low" in text
    spec = text.replace("rho = 0.5", "rho = 1e8").partition('\n[domain."born"]')[0]
    (tmp_path / "spec.toml").write_text(
        spec + '\n[domain.born]\nfirst = 1980-01-01\nlast = 1999-12-31\nunit = "year"\n'
    )
    done = inside("release", "spec.toml", "--out", "out", cwd=tmp_path)
    assert done.code == 0, done.err
    table = rs.Release.load(tmp_path / "out").table("sex")
    # rho is 1e8: noise reaches a half with a chance below 10^-300
    assert [round(count) for count in table.columns["estimate"]] == [2, 1, 1]


def test_stata_labels_are_read_too(tmp_path: Path) -> None:
    draft = source_of(stata(tmp_path)).drafted()
    assert draft.declared == {
        "sex": {"values": [1, 2], "title": "Geschlecht", "meanings": {"1": "männlich", "2": "weiblich"}}
    }
    assert draft.kinds == {"sex": "numbers", "region": "text", "born": "dates", "case": "numbers"}


def test_the_same_records_as_csv_have_the_same_fingerprint(tmp_path: Path) -> None:
    pa_csv.write_csv(pa.Table.from_pandas(ANSWERS, preserve_index=False), tmp_path / "all.csv")
    absent = ANSWERS.assign(sex=[1, 2, 1, None])
    pa_csv.write_csv(pa.Table.from_pandas(absent, preserve_index=False), tmp_path / "absent.csv")
    assert source_of(stata(tmp_path)).fingerprint() == source_of(tmp_path / "all.csv").fingerprint()
    assert source_of(spss(tmp_path)).fingerprint() == source_of(tmp_path / "absent.csv").fingerprint()


@pytest.mark.parametrize("rows", [8, 11])
def test_chunks_are_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int) -> None:
    many = pd.concat([ANSWERS] * 3, ignore_index=True)[:rows].assign(case=range(rows))
    pyreadstat.write_sav(many, tmp_path / "many.sav")
    whole = source_of(tmp_path / "many.sav").fingerprint()
    monkeypatch.setattr("residua.source.office_files.BATCH_ROWS", 1)  # chunks of four rows
    assert source_of(tmp_path / "many.sav").fingerprint() == whole


def workbook(path: Path, *sheets: str) -> Path:
    book = openpyxl.Workbook()
    book.active.title = sheets[0]  # type: ignore[union-attr]
    for name in sheets[1:]:
        book.create_sheet(name)
    for sheet in book.worksheets:
        for row in ([None], ["sex", "born", 2024, None], ["w", dt.date(1990, 2, 1), 1.5, 7], [None] * 4, ["m", "x", 2]):
            sheet.append(row)
    book.save(path)
    return path


def test_a_sheet_is_read_as_its_cells_are(tmp_path: Path) -> None:
    source = source_of(workbook(tmp_path / "a.xlsx", "one"))
    (batch,) = source.batches(source.columns())
    assert batch.to_pydict() == {"sex": ["w", "m"], "born": ["1990-02-01", "x"], "2024": [1.5, 2.0]}
    workbook(tmp_path / "b.xlsx", "one", "two")
    with pytest.raises(SourceError, match="has the sheets 'one', 'two'; say which one with sheet = 'one'"):
        source_of(tmp_path / "b.xlsx").columns()
    with pytest.raises(SourceError, match="has no sheet 'three'; it has 'one', 'two'"):
        Source.excel(tmp_path / "b.xlsx", sheet="three").columns()
    assert inside("init", "b.xlsx", cwd=tmp_path).code == 0
    assert tomllib.loads((tmp_path / "spec.toml").read_text())["source"] == {"path": "b.xlsx", "sheet": "one"}


@pytest.mark.parametrize(
    ("name", "library", "extra"), [("a.xlsx", "python_calamine", "excel"), ("a.sav", "pyreadstat", "spss")]
)
def test_damage_and_absent_libraries_are_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, library: str, extra: str
) -> None:
    (tmp_path / name).write_bytes(b"Anna Schmidt F32")
    with pytest.raises(SourceError, match=f"{name}' cannot be read") as caught:
        source_of(tmp_path / name).columns()
    assert "Anna" not in str(caught.value)
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(SourceError, match=rf'pip install "residua\[{extra}\]"'):
        source_of(tmp_path / name).columns()


def sheet(path: Path, rows: list[list[object]]) -> Path:
    book = openpyxl.Workbook()
    for row in rows:
        book.worksheets[0].append(row)
    book.save(path)
    return path


def test_a_sheet_is_drafted_with_the_kinds_of_its_columns_and_a_title_is_no_name(tmp_path: Path) -> None:
    rows = [["Ort", "Tag", "Wert", "Anzahl", "Kreis"], *[["Kiel", dt.datetime(2024, 1, 31), 1.5, 7, "01002"]] * 3]
    plain = source_of(sheet(tmp_path / "plain.xlsx", rows)).drafted()
    assert plain.kinds == {"Ort": "text", "Tag": "dates", "Wert": "numbers", "Anzahl": "whole numbers", "Kreis": "text"}
    with pytest.raises(SourceError, match=r"names 1 of 5 columns.*remove what is above"):
        source_of(sheet(tmp_path / "title.xlsx", [["Bevölkerung 2024"], [], *rows])).drafted()
    assert source_of(sheet(tmp_path / "one.xlsx", [["a"], [1]])).drafted().kinds == {"a": "whole numbers"}
