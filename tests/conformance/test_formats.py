"""What is written in each format is read back equal by a library that is not ours, with its metadata."""

from __future__ import annotations

import gc
import json
from pathlib import Path

import duckdb
import frictionless
import numpy as np
import openpyxl
import pandas as pd
import polars as pl
import pyarrow.parquet
import pytest
from csvw import TableGroup
from pyaxis import pyaxis
from pyjstat import pyjstat
from pysdmx.errors import Invalid
from pysdmx.io import get_datasets, read_sdmx

import residua as rs
from residua.formats import FORMATS
from residua.formats.cube import cube_of
from residua.published.quality import CODES, FLAGS, grades, sizes_for
from tests.published import NAME, domain, release

GUARANTEE = "ZCDP(rho=0.1)"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Path]]:
    folder = tmp_path_factory.mktemp("formats")
    return {name: release().export(folder / name, name, title="People") for name in FORMATS}


def tables() -> list[rs.Table]:
    return list(release().tables())


def flags(table: rs.Table) -> list[str]:
    return [FLAGS[i] for i in grades(table["estimate"], table["stddev"])]


def near(found: object, wanted: object) -> bool:
    """As many digits as the standard error justifies."""
    return np.allclose(np.asarray(found, dtype=float), np.asarray(wanted, dtype=float), rtol=0, atol=0.0051)


def test_every_format_has_its_files_and_a_module(written):
    for name, files in written.items():
        assert len(files) == (1 if name.startswith("long") else len(tables())), name
        assert all(path.is_file() for path in files)
        assert (Path(rs.__file__).parent / "formats" / f"{FORMATS[name][0]}.py").is_file()


def test_data_package_is_valid_and_read_back(written):
    package = frictionless.Package(str(written["csv"][0].parent / "datapackage.json"))
    report = package.validate()
    assert report.valid, report.flatten(["title", "note"])
    for resource, table in zip(package.resources, tables(), strict=True):
        rows = resource.read_rows()
        assert near([row["estimate"] for row in rows], table["estimate"])
        assert near([row["stddev"] for row in rows], table["stddev"])
        for key in table.keys:
            assert [row[key] for row in rows] == list(table[key])
    told = package.to_descriptor()["residua"]
    assert told["guarantee"] == GUARANTEE
    assert told["unit"] == "records"
    assert told["protects"] == "adding or removing one record"


def test_csvw_is_read_back(written):
    group = TableGroup.from_file(written["csv"][0].parent / "csv-metadata.json")
    assert len(group.tables) == len(tables())
    for found, table in zip(group.tables, tables(), strict=True):
        rows = list(found.iterdicts(strict=True))
        names = {column.name: str(column.titles.getfirst()) for column in found.tableSchema.columns}
        rows = [{names.get(key, key): value for key, value in row.items()} for row in rows]
        assert near([row["estimate"] for row in rows], table["estimate"])
        assert [row["quality_flag" if "quality" in table.keys else "quality"] for row in rows] == flags(table)
        for key in table.keys:
            assert [row[key] for row in rows] == list(table[key])
        assert GUARANTEE in found.common_props["dc:description"]


def test_beside_csv_stands_what_was_asked_for(written):
    assert {path.suffix for path in written["datapackage"][0].parent.iterdir()} == {".csv", ".json"}
    assert not (written["datapackage"][0].parent / "csv-metadata.json").exists()
    assert not (written["csvw"][0].parent / "datapackage.json").exists()


@pytest.mark.filterwarnings("ignore:Shouldn't use this function:DeprecationWarning")  # pyjstat calls itself
def test_json_stat_is_read_back(written):
    for path, table in zip(written["jsonstat"], tables(), strict=True):
        text = path.read_text()
        frame = pyjstat.Dataset.read(text).write("dataframe")
        kept = frame[frame["Measure"] == "Estimate"] if table.keys else frame[frame.iloc[:, -2] == "Estimate"]
        assert near(kept["value"], table["estimate"])
        content = json.loads(text)
        measures = content["size"][-1]
        assert content["status"][::measures] == [CODES[FLAGS.index(flag)] for flag in flags(table)]
        assert content["extension"]["residua"]["guarantee"] == GUARANTEE
        assert GUARANTEE in content["note"][0]
    sex = json.loads(written["jsonstat"][1].read_text())["dimension"]["SEX"]
    assert sex["label"] == "Sex"
    assert sex["category"] == {"index": ["2", "1"], "label": {"2": "Female", "1": "Male"}}


def test_px_is_read_back(written):
    for path, table in zip(written["px"], tables(), strict=True):
        found = pyaxis.parse(str(path), encoding="utf-8")
        frame, metadata = found["DATA"], found["METADATA"]
        values = pd.to_numeric(frame["DATA"]).to_numpy().reshape(len(table), -1)
        assert near(values[:, 0], table["estimate"])
        assert near(values[:, 1], table["stddev"])
        assert [FLAGS[int(i) - 1] for i in values[:, 4]] == flags(table)
        assert metadata["UNITS"] == ["records"]
        assert GUARANTEE in "".join(metadata["NOTEX"])
    text = written["px"][1].read_text()
    assert 'CODES("Sex")="2","1";' in text
    assert 'VALUES[de]("Geschlecht")="weiblich","männlich";' in text
    assert 'LANGUAGES="en","de";' in text


def test_sdmx_is_valid_and_read_back(written):
    for path, table in zip(written["sdmx"], tables(), strict=True):
        structure = path.with_name(path.name.replace(".csv", ".structure.json"))
        message = read_sdmx(structure, validate=True)  # against the schema of SDMX-JSON 2.0
        flow = message.get_dataflows()[0]
        assert GUARANTEE in flow.description
        (found,) = get_datasets(path, structure)
        assert near(found.data["OBS_VALUE"], table["estimate"])
        assert near(found.data["STD_ERR"], table["stddev"])
        assert [FLAGS[CODES.index(code)] for code in found.data["OBS_QUALITY"]] == flags(table)
        assert set(found.data["UNIT_MEASURE"]) == {"records"}
    sex = read_sdmx(written["sdmx"][1].with_name(written["sdmx"][1].stem + ".structure.json"))
    codes = next(each for each in sex.get_codelists() if each.id.endswith("SEX"))
    assert {code.id: code.name for code in codes.items} == {"2": "Female", "1": "Male"}


def test_the_schema_of_sdmx_would_notice(written, tmp_path):
    content = json.loads(written["sdmx"][1].with_name(written["sdmx"][1].stem + ".structure.json").read_text())
    content["data"]["dataStructures"][0]["dataStructureComponents"]["groups"] = []
    (tmp_path / "bad.json").write_text(json.dumps(content))
    with pytest.raises(Invalid, match="Validation"):
        read_sdmx(tmp_path / "bad.json", validate=True)


def test_workbook_is_read_back_and_no_label_is_a_formula(written):
    assert len(set(written["xlsx"])) == 1
    book = openpyxl.load_workbook(written["xlsx"][0], data_only=False)
    notes = "\n".join(str(cell) for row in book["Notes"].iter_rows(values_only=True) for cell in row if cell)
    for wanted in (GUARANTEE, "adding or removing one record", "records", "coefficient of variation at most 16.5 %"):
        assert wanted in notes
    assert all(cell.data_type in "sn" for sheet in book for row in sheet.iter_rows() for cell in row), "a formula"
    contents, notes, *sheets, rows = book.worksheets
    assert [contents.title, notes.title, rows.title] == ["Contents", "Notes", "All numbers"]
    links = [cell.hyperlink for row in contents.iter_rows(min_row=8) for cell in row if cell.hyperlink]
    assert [link.location.partition("!")[0].strip("'") for link in links] == [sheet.title for sheet in sheets]
    heads, *cells = rows.iter_rows(values_only=True)
    frame = pd.DataFrame(cells, columns=heads)
    for sheet, (number, table) in zip(sheets, enumerate(tables(), start=1), strict=True):
        own = frame[frame["No."] == number]
        assert near(own["Estimate"], table["estimate"])
        assert near(own["Standard error"], table["stddev"])
        assert own["Quality"].tolist() == flags(table)
        assert "records" in sheet["A2"].value
        assert len(sheet.title) <= 31
        assert sheet.freeze_panes
    assert frame[frame["No."] == 2][["Attribute 1", "Value 1", "Code 1"]].to_numpy().tolist() == [
        ["Sex", "Female", "2"], ["Sex", "Male", "1"]
    ]  # fmt: skip


def test_a_sheet_has_the_totals_that_the_release_states_with_their_own_errors(written):
    book = openpyxl.load_workbook(written["xlsx"][0])
    (sheet,) = [each for each in book if each["A1"].value == "age × Sex"]
    rows = [[cell.value for cell in row] for row in sheet.iter_rows(min_row=8)]
    assert [row[0] for row in rows[1:]] == [*range(12), "Other", "Total"]
    assert [each for row in sheet.iter_rows(min_row=7, max_row=7, values_only=True) for each in row if each] == [
        "Female", "Male", "Total",
    ]  # fmt: skip
    numbers = np.array([row[1:7] for row in rows[1:]], dtype=float)
    for place, names in (
        (np.s_[:-1, :4], ["age", "sex"]),
        (np.s_[:-1, 4:], ["age"]),
        (np.s_[-1:, :4], ["sex"]),
        (np.s_[-1:, 4:], []),
    ):
        table = release().table(names)
        shown = numbers[place].reshape(-1, 2)
        assert near(shown[:, 0], table["estimate"])
        assert near(shown[:, 1], (table["upper"] - table["lower"]) / 2)
    for row in sheet.iter_rows(min_row=9, min_col=2, max_col=2):  # the letter of a poor number is part of its format
        value, margin = row[0].value, row[0].offset(0, 1).value
        poor = grades(value, margin / 1.959964)
        assert row[0].number_format.endswith(["_ _U", '" C"', '" U"'][int(poor)])


def test_codes_stay_when_a_value_is_inserted(tmp_path):
    def codes(values: list[str]) -> dict[str, str]:
        workload = rs.marginals(rs.Domain({"sex": values, "n": rs.Bins([0, 10, 20])}), ways=1)
        table = next(iter(rs.plan(workload, rs.ZCDP(1)).workload.sets))
        estimates = np.zeros(len(values))
        (axis,) = cube_of(rs.Table(workload.domain, table, estimates, 1.0, 1.0), 1).dimensions
        return dict(zip(axis.labels, axis.codes, strict=True))

    few, more = codes(["männlich", "weiblich"]), codes(["divers", "männlich", "ohne Angabe", "weiblich"])
    assert few.items() <= more.items()
    assert len(set(more.values())) == 4


def test_parquet_carries_its_metadata(written):
    for path, table in zip(written["parquet"], tables(), strict=True):
        found = pyarrow.parquet.read_table(path)
        assert near(found["estimate"], table["estimate"])
        told = json.loads(found.schema.metadata[b"residua"])
        assert told["guarantee"] == GUARANTEE
        assert told["quality"]["unreliable"] == "coefficient of variation above 33.3 %"


def test_titles_come_in_the_language_asked_for(tmp_path):
    (_, sex, *_) = release().export(tmp_path / "de", "jsonstat", language="de")
    assert json.loads(sex.read_text())["dimension"]["SEX"]["category"]["label"] == {"2": "weiblich", "1": "männlich"}


def test_whole_numbers_are_numbers_in_a_workbook_and_titles_are_in_the_language_asked_for(tmp_path):
    release().export(tmp_path / "tables", "xlsx", language="de")
    book = openpyxl.load_workbook(tmp_path / "tables" / "tables.xlsx")
    (ages,) = [sheet for sheet in book if sheet["A1"].value == "age"]
    cells = [row[0].value for row in ages.iter_rows(min_row=7)]
    assert cells == [*range(12), "Sonstige", "Insgesamt"]
    (sexes,) = [sheet for sheet in book if sheet["A1"].value == "Geschlecht"]
    assert [row[0].value for row in sexes.iter_rows(min_row=7)] == ["weiblich", "männlich", "Insgesamt"]
    release().export(tmp_path / "csvw", "csvw", language="de")
    assert "F: weiblich; M: männlich" in (tmp_path / "csvw" / "csv-metadata.json").read_text(encoding="utf-8")


def test_a_projection_is_written_with_intervals_and_says_that_it_is_biased(tmp_path):
    projected = rs.project(release())
    for name in ("csv", "xlsx", "jsonstat", "px", "sdmx", "parquet"):
        files = projected.export(tmp_path / name, name)
        assert files
    frame = pd.read_csv(projected.export(tmp_path / "again", "csv")[1])
    assert list(frame.columns) == ["sex", "estimate", "lower", "upper"]
    assert (frame["lower"] <= frame["estimate"]).all()
    assert (frame["estimate"] <= frame["upper"]).all()
    assert "biased" in json.loads((tmp_path / "again" / "datapackage.json").read_text())["description"]
    wider = pd.read_csv(projected.export(tmp_path / "surer", "csv", confidence=0.999)[1])
    assert (wider["upper"] - wider["lower"] > frame["upper"] - frame["lower"]).all()
    long = pd.read_parquet(projected.export(tmp_path / "long", "long")[0])
    assert long.columns[-3:].tolist() == ["estimate", "lower", "upper"]


def test_what_cannot_be_written_leaves_nothing_behind(tmp_path, monkeypatch):
    with pytest.raises(rs.ResiduaError, match="is not known; use one of csv"):
        release().export(tmp_path / "x", "docx")
    (tmp_path / "there").mkdir()
    with pytest.raises(rs.ResiduaError, match="exists already"):
        release().export(tmp_path / "there", "csv")
    from residua.formats import px

    monkeypatch.setattr(px, "lines", lambda *_: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(rs.ResiduaError, match="No space left"):
        release().export(tmp_path / "full", "px")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["there"]


def test_a_missing_library_names_the_command_that_installs_it(tmp_path, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "xlsxwriter", None)
    monkeypatch.delitem(sys.modules, "residua.formats.workbook", raising=False)
    with pytest.raises(rs.ResiduaError, match=r'pip install "residua\[xlsx\]"'):
        release().export(tmp_path / "x", "xlsx")


def test_tables_stream(tmp_path, monkeypatch):
    """A table is written before the next one is made."""
    order: list[str] = []
    from residua.formats import jsonstat

    made, kept = rs.Release.tables, jsonstat.JsonStat.add

    def counted(self, **options):
        for table in made(self, **options):
            order.append("made")
            yield table

    def added(self, cube):
        order.append("written")
        return kept(self, cube)

    monkeypatch.setattr(rs.Release, "tables", counted)
    monkeypatch.setattr(jsonstat.JsonStat, "add", added)
    release().export(tmp_path / "x", "jsonstat")
    assert order == ["made", "written"] * (len(order) // 2)


def test_flags_and_sizes_say_the_same():
    for stddev in (0.1, 3.0, 1e5):
        reliable, caution = sizes_for(stddev)
        around = np.array([1.0001 * reliable, 0.9999 * reliable, 1.0001 * caution, 0.9999 * caution])
        assert grades(around, stddev).tolist() == [0, 1, 1, 2]
        assert grades(-around, stddev).tolist() == [0, 1, 1, 2]
    assert grades([0.0, np.nan], [0.0, 1.0]).tolist() == [2, 2]


def test_codes_are_distinct_whatever_the_labels():
    labels = ["_1", "a b", "_2", "x", "a/b", "__1"]
    declared = rs.Domain({"v": rs.Categories(labels).described(meanings={"x": {"code": "_1"}})})
    table = rs.Table(declared, ("v",), np.arange(6.0), 1.0, 2.0)
    (dimension,) = cube_of(table, 1).dimensions
    assert len(set(dimension.codes)) == len(labels)
    assert dimension.codes[3] == "_1"


def test_other_tools_take_a_table_as_it_is():
    for names in (["sex"], ["age", "sex"], [NAME]):
        table = release().table(names)
        wanted = table.to_pandas()
        assert pl.DataFrame(table).to_dict(as_series=False) == {key: list(wanted[key]) for key in wanted}
        relation = duckdb.from_arrow(table)
        assert [tuple(row) for row in wanted.itertuples(index=False)] == relation.fetchall()
        pd.testing.assert_frame_equal(pd.DataFrame.from_arrow(table), wanted, check_dtype=False)


def test_a_table_is_rows_and_columns():
    table = release().table(["age", "sex"])
    rows = list(table)
    assert len(rows) == len(table) == 26
    assert rows[3] == table[3] == table[-23] == table[3:4][0]
    assert table["estimate"] is table.columns["estimate"]
    (row,) = table[{"age": "4", "sex": "F"}]
    assert row["estimate"] == release().count({"age": 4, "sex": "F"}).estimate
    for wrong in ("nothing", 2.5, {"nothing": 1}):
        with pytest.raises(rs.ResiduaError):
            table[wrong]
    with pytest.raises(IndexError):
        table[26]


def test_words_change_nothing_that_is_counted(tmp_path):
    bare = rs.Domain(
        {name: rs.Categories(domain()[name].labels) if name == "sex" else domain()[name] for name in domain()}
    )
    assert bare == domain()
    assert hash(bare) == hash(domain())
    domain().save(tmp_path / "d.toml")
    assert rs.Domain.load(tmp_path / "d.toml")["sex"].words == domain()["sex"].words
    release().plan.save(tmp_path / "p.json")
    assert rs.Plan.load(tmp_path / "p.json").domain["sex"].words == domain()["sex"].words


@pytest.mark.parametrize(
    "words",
    [
        {"title": 5},
        {"title": {"english!": "x"}},
        {"title": {"en": 5}},
        {"code": "a b"},
        {"code": 5},
        {"meanings": {"X": "unknown"}},
        {"meanings": {"F": {"colour": "red", "title": "x"}}},
        {"meanings": {"F": {"code": "1"}, "M": {"code": "1"}}},
        {"meanings": ["F"]},
        {"description": ["x"]},
    ],
)
def test_words_that_mean_nothing_are_refused(words):
    with pytest.raises(rs.ResiduaError):
        rs.Categories(["F", "M"]).described(**words)


@pytest.mark.parametrize("format", ["csv", "xlsx"])
def test_an_interruption_leaves_nothing_behind_and_says_nothing(tmp_path, monkeypatch, format, capfd):
    """Half-written files are let go of: no library finishes them afterwards."""
    made = rs.Release.tables

    def interrupted(self, **options):
        yield next(made(self, **options))
        raise KeyboardInterrupt

    monkeypatch.setattr(rs.Release, "tables", interrupted)
    with pytest.raises(KeyboardInterrupt):
        release().export(tmp_path / "x", format)
    gc.collect()
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")


def test_an_unknown_language_is_refused(tmp_path):
    with pytest.raises(rs.ResiduaError, match="take en, de, fr, or"):
        release().export(tmp_path / "x", "csv", language="xx")
