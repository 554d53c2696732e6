"""How office files are written is recognised from their head, and they are read as the same records written plainly."""

import csv
import itertools
import tomllib
from datetime import date, datetime
from pathlib import Path

import pytest

import residua as rs
from residua.errors import SourceError
from residua.source import Source, source_of
from residua.source.dialect import Dialect, recognised
from tests.cli.command import inside

DAYS = [date(1968, 12, 31), date(1985, 7, 8), date(2000, 2, 29), date(2024, 1, 31), date(2024, 5, 3), date(2024, 10, 9)]
GERMAN = [
    "Januar",
    "Februar",
    "März",
    "April",
    "Mai",
    "Juni",
    "Juli",
    "August",
    "September",
    "Oktober",
    "November",
    "Dezember",
]
FRENCH = [
    "janvier",
    "février",
    "mars",
    "avril",
    "mai",
    "juin",
    "juillet",
    "août",
    "septembre",
    "octobre",
    "novembre",
    "décembre",
]


def written(path: Path, rows: list[list[str]], delimiter: str, encoding: str) -> Path:
    with path.open("w", encoding=encoding, newline="") as file:
        csv.writer(file, delimiter=delimiter).writerows(rows)
    return path


def plain(path: Path, **notation: object) -> list[dict[str, list[str]]]:
    source = Source.csv(path, **notation)  # type: ignore[arg-type]
    return [batch.to_pydict() for batch in source.batches(source.columns())]


RECORDS = [
    ["Größe", "Tag", "AGS", "Name"],
    *([f"{1234.5 + i}", f"{d}", f"0916{i}", f"Müller, {i}"] for i, d in enumerate(DAYS)),
]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16"])
def test_what_is_recognised_reads_the_same_records(tmp_path: Path, delimiter: str, encoding: str) -> None:
    expected = plain(written(tmp_path / "plain.csv", RECORDS, ",", "utf-8"))
    for decimal, form in itertools.product(".,", ["%Y-%m-%d", "%d.%m.%Y", "%m/%d/%Y", "%d-%b-%Y"]):
        rows = [RECORDS[0]]
        for number, day, *rest in RECORDS[1:]:
            shown = f"{float(number):,.1f}".translate(str.maketrans(",.", ".,")) if decimal == "," else number
            rows.append([shown, date.fromisoformat(day).strftime(form), *rest])
        file = written(tmp_path / "office.csv", rows, delimiter, encoding)
        draft = source_of(file).drafted()
        assert draft.kinds == {"Größe": "numbers", "Tag": "dates", "AGS": "text", "Name": "text"}
        assert plain(file, **draft.notation) == expected, (decimal, form, draft.notation)
        assert Source.csv(file, **draft.notation).fingerprint() == source_of(tmp_path / "plain.csv").fingerprint()


@pytest.mark.parametrize(
    ("line_end", "encoding"), [("\r", "cp1252"), ("\r\n", "utf-16-le"), ("\n", "utf-16-be"), ("\r", "utf-8-sig")]
)
def test_files_of_old_and_odd_programs_are_recognised(tmp_path: Path, line_end: str, encoding: str) -> None:
    text = line_end.join(["Ort;Größe;Tag", *["Köln;1,5;31.01.1990"] * 20, ""])
    path = tmp_path / "odd.csv"
    path.write_bytes(text.encode(encoding))
    draft = source_of(path).drafted()
    assert draft.kinds == {"Ort": "text", "Größe": "numbers", "Tag": "dates"}
    plain = written(
        tmp_path / "plain.csv", [["Ort", "Größe", "Tag"], *[["Köln", "1.5", "1990-01-31"]] * 20], ",", "utf-8"
    )
    assert Source.csv(path, **draft.notation).fingerprint() == source_of(plain).fingerprint()


def test_the_line_that_tells_excel_the_delimiter_names_no_column(tmp_path: Path) -> None:
    (tmp_path / "excel.csv").write_text("sep=;\nOrt;Tag\nKiel;3\n")
    for read in (lambda: source_of(tmp_path / "excel.csv").drafted(), source_of(tmp_path / "excel.csv").columns):
        with pytest.raises(SourceError, match="a line for Excel, 'sep=…'; remove that line"):
            read()


@pytest.mark.parametrize(
    "form", ["%d.%m.%Y", "%m/%d/%Y", "%Y/%m/%d", "%d. %B %Y", "%d-%b-%y", "%Y%m%d", "%d.%m.%Y %H:%M"]
)
def test_dates_are_read_as_the_calendar_has_them(tmp_path: Path, form: str) -> None:
    days = [d for d in DAYS if "%y" not in form or d.year > 1968]
    texts = [[d.strftime(form)] for d in days]
    (read,) = plain(
        written(tmp_path / "a.csv", [["tag"], *texts, ["30.02.2024"], ["x"]], ";", "utf-8"), date_format=form
    )
    assert read["tag"] == [*map(str, days), "30.02.2024", "x"]


def test_months_have_names_in_several_languages_and_times_stay(tmp_path: Path) -> None:
    names = [f"3. {name} 2024" for name in (*GERMAN, *FRENCH)] + ["3. Mrz. 2024", "3. jui 2024"]
    rows = [["tag"], *([name] for name in names)]
    (read,) = plain(written(tmp_path / "a.csv", rows, ";", "utf-8"), date_format="%d. %B %Y")
    assert read["tag"] == [*[f"2024-{m:02d}-03" for m in range(1, 13)] * 2, "2024-03-03", "3. jui 2024"]
    rows = [["tag"], ["3/2024 07:05:09"]]
    (read,) = plain(written(tmp_path / "a.csv", rows, ";", "utf-8"), date_format="%m/%Y %H:%M:%S")
    assert read["tag"] == [str(datetime(2024, 3, 1, 7, 5, 9))]


def test_only_whole_fields_that_are_numbers_change(tmp_path: Path) -> None:
    fields = [
        "1,5",
        "-1.234.567,25",
        "1 234",
        "1.234",
        "12",
        "007",
        " 2,50 ",
        "1,2,3",
        "1.23",
        "a 1,5",
        "1.2.2024",
        ",",
        "",
    ]
    same = ["1.5", "-1234567.25", "1234", "1234", "12", "007", "2.50", *fields[7:]]
    file = written(tmp_path / "a.csv", [["x", "y"], *([field, "z"] for field in fields)], ";", "utf-8")
    (read,) = plain(file, delimiter=";", decimal=",")
    assert read["x"] == same


def test_two_columns_of_dates_that_could_be_confused_keep_one_form() -> None:
    both = b"a;b\n01/02/2024;01/31/2024\n03/04/2024;02/28/2024\n"
    assert recognised(both)[0].date_format == ("%m/%d/%Y",)
    odd = b"a;b\n31/01/2024;01/31/2024\n31/01/2024;01/31/2024\n31/01/2024;01/31/2024\n"
    assert len(recognised(odd)[0].date_format) == 1
    with pytest.raises(SourceError, match="the same text may have"):
        Dialect(date_format=["%d/%m/%Y", "%m/%d/%Y"])


def test_a_first_line_that_is_a_record_is_not_drafted(tmp_path: Path) -> None:
    written(tmp_path / "a.csv", [["Anna Schmidt", "31.12.1987", "4711"], ["Bo", "1.2.1990", "12"]], ";", "utf-8")
    done = inside("init", "a.csv", cwd=tmp_path)
    assert done.code == 3
    assert "first line seems to be a record" in done.err
    assert not [secret for secret in SECRETS if secret in done.err]
    assert not (tmp_path / "spec.toml").exists()
    written(tmp_path / "b.csv", [["Kreis", "2020", "2021"], ["a", "1", "2"]], ";", "utf-8")  # years name columns
    assert inside("init", "b.csv", cwd=tmp_path).code == 0


@pytest.mark.parametrize(
    ("notation", "words"),
    [
        ({"encoding": "cp9999"}, "encoding='cp9999' is not known; write 'cp1252'"),
        ({"encoding": 3}, "encoding=3 is not known"),
        ({"encoding": "base64"}, "encoding='base64' is not known"),
        ({"decimal": ";"}, "decimal=';' is not a decimal mark"),
        ({"date_format": "%Q"}, "date_format='%Q' is not a form of dates"),
        ({"date_format": "%d.%m"}, "is not a form of dates"),
        ({"date_format": "%d.%m.%m.%Y"}, "names a part of the date twice"),
        ({"date_format": 5}, "date_format=5 is not a form"),
        ({"encoding": "ascii"}, "is not ASCII text; say what it is, such as encoding = 'cp1252'"),
        ({"encoding": "utf-16"}, "is not UTF-16 text"),
    ],
)
def test_what_means_nothing_is_refused(tmp_path: Path, notation: dict[str, object], words: str) -> None:
    file = written(tmp_path / "a.csv", [["x"], ["ü"]], ";", "cp1252")
    with pytest.raises(SourceError, match=words.replace("(", r"\(").replace(".", r"\.")):
        plain(file, **notation)


SECRETS = ["Anna Schmidt", "F32", "1987", "4711", "81,25"]


def test_a_draft_holds_no_value_and_an_office_file_goes_to_tables_without_sql(tmp_path: Path) -> None:
    rows = [["Größe", "Geburtstag", "Fall", "Name", "Diagnose"]]
    rows += [["81,25", "31.12.1987", "4711", "Anna Schmidt", "F32"], ["91,5", "1.2.1990", "12", "Bo Öhm", "G40"]]
    written(tmp_path / "fälle.csv", rows, ";", "cp1252")
    done = inside("init", "fälle.csv", cwd=tmp_path)
    assert done.code == 0, done.err
    draft = (tmp_path / "spec.toml").read_text()
    assert not [secret for secret in SECRETS if secret in draft + done.out]
    said = tomllib.loads(draft)["source"]
    assert said == {
        "path": "fälle.csv",
        "delimiter": ";",
        "encoding": "cp1252",
        "decimal": ",",
        "date_format": "%d.%m.%Y",
    }
    head = draft.partition('\n[domain."Größe"]')[0].replace("rho = 0.5", "rho = 1e8")
    (tmp_path / "spec.toml").write_text(
        head + '\n[domain."Größe"]\nedges = [0, 85.5, 200]\n[domain.Geburtstag]\nfirst = 1980-01-01\n'
        'last = 1999-12-31\nunit = "month"\nlevels = ["year"]\n'
    )
    done = inside("release", "spec.toml", "--out", "out", cwd=tmp_path)
    assert done.code == 0, done.err
    release = rs.Release.load(tmp_path / "out")
    # rho is 1e8: noise reaches 0.05 with a chance below 10^-300
    assert [round(x) for x in release.table(["Größe"]).columns["estimate"]] == [1, 1]
    count = inside("count", "out", "Geburtstag < '1988-01-01'", cwd=tmp_path)
    assert count.code == 0, count.err
    assert ": 1.0 (" in count.out
