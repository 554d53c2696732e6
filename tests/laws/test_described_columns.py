"""Data Packages, DDI codebooks and SDMX structures declare domains; what is none of them is refused in a sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pysdmx.io import write_sdmx
from pysdmx.io.format import Format
from pysdmx.model import Code, Codelist

import residua as rs
from residua.domain.described import described_columns, parents_of_list
from residua.errors import DomainError
from tests.cli.command import inside

PACKAGE = {
    "resources": [
        {
            "path": "people.csv",
            "schema": {
                "missingValues": ["", "-9"],
                "fields": [
                    {"name": "sex", "type": "string", "title": "Sex", "constraints": {"enum": ["F", "M"]}},
                    {"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 9, "required": True}},
                    {"name": "edu", "type": "integer", "categories": [{"value": 1, "label": "low"}, {"value": 2}]},
                    {"name": "born", "type": "date", "constraints": {"minimum": "2001-01-01", "maximum": "2001-12-31"}},
                    {"name": "member", "type": "boolean", "missingValues": []},
                    {"name": "income", "type": "number"},
                ],
            },
        }
    ]
}
DDI = """<?xml version="1.0"?><codeBook xmlns="ddi:codebook:2_5"><dataDscr>
<var name="sex"><labl>Geschlecht</labl><catgry><catValu>1</catValu><labl>männlich</labl></catgry>
<catgry><catValu>2</catValu><labl>weiblich</labl><catStat type="freq">512</catStat></catgry>
<catgry missing="Y"><catValu>-9</catValu></catgry><varFormat type="numeric"/></var>
<var name="age" intrvl="contin"><invalrng><item VALUE="-9"/></invalrng><valrng><range min="0" max="99"/></valrng>
<sumStat type="max">91</sumStat></var>
<var name="kreis"><labl xml:lang="de">Kreis</labl><labl xml:lang="en">District</labl>
<catgry><catValu>09162</catValu><labl>München, Stadt</labl></catgry>
<catgry><catValu>01002</catValu><labl>Kiel</labl></catgry></var>
<var name="free"/></dataDscr></codeBook>"""
NAMES = '<com:Name xml:lang="en">{}</com:Name><com:Name xml:lang="de">{}</com:Name>'
SDMX = """<mes:Structure xmlns:mes="m" xmlns:str="s" xmlns:com="c"><str:Codelist id="CL_SEX">
<str:Code id="F">{names}</str:Code><str:Code id="M"/></str:Codelist>
<str:Codelist id="CL_GEO"><str:Code id="DE"/><str:Code id="DE1">{parent}</str:Code>
<str:Code id="DE2">{parent}</str:Code></str:Codelist>
<str:ConceptScheme id="CS">
<str:Concept id="SEX"><com:Name>Sex</com:Name></str:Concept></str:ConceptScheme>
<str:Dimension id="GENDER"><str:ConceptIdentity>{concept}</str:ConceptIdentity><str:LocalRepresentation>
<str:Enumeration>{list}</str:Enumeration></str:LocalRepresentation></str:Dimension>
<str:Dimension id="FREQ"/></mes:Structure>"""
URN = "urn:sdmx:org.sdmx.infomodel"
VERSIONS = {
    "2.1": {
        "parent": '<str:Parent><Ref id="DE"/></str:Parent>',
        "concept": '<Ref id="SEX" maintainableParentID="CS"/>',
        "list": '<Ref id="CL_SEX" agencyID="O"/>',
    },
    "3.0": {
        "parent": "<str:Parent>DE</str:Parent>",
        "concept": f"{URN}.conceptscheme.Concept=O:CS(1.0).SEX",
        "list": f"{URN}.codelist.Codelist=O:CL_SEX(1.0)",
    },
}


def written(folder: Path, name: str, content: str | dict[str, Any]) -> Path:
    path = folder / name
    path.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
    return path


def test_a_data_package_declares_its_columns(tmp_path: Path) -> None:
    draft = rs.Domain.draft(written(tmp_path, "datapackage.json", PACKAGE))
    assert list(draft.origins) == ["sex", "age", "edu", "born", "member", "income"]
    expected = {
        "sex": rs.Categories(["F", "M"], unknown="other", missing="other"),
        "age": rs.Integers(0, 9),
        "edu": rs.Categories([1, 2], unknown="other", missing="other"),
        "born": rs.Dates("2001-01-01", "2001-12-31", unknown="other", missing="other"),
        "member": rs.Categories(["false", "true"]),
    }
    assert dict(draft.attributes) == expected
    assert draft.attributes["sex"].words.title[""] == "Sex"
    assert draft.attributes["edu"].words.meanings["1"].title[""] == "low"
    with pytest.raises(DomainError, match="'income'"):
        draft.declared()


def test_a_codebook_declares_its_variables_and_no_statistic_of_the_data(tmp_path: Path) -> None:
    path = written(tmp_path, "study.xml", DDI)
    draft = rs.Domain.draft(path)
    assert dict(draft.attributes) == {
        "sex": rs.Categories([1, 2], unknown="other", missing="other"),
        "age": rs.Integers(0, 99, unknown="other", missing="other"),
        "kreis": rs.Categories(["09162", "01002"]),
    }
    assert dict(draft.attributes["kreis"].words.title) == {"de": "Kreis", "en": "District"}
    assert draft.attributes["kreis"].words.meanings["09162"].title[""] == "München, Stadt"
    assert not {"512", "91"} & set(str(described_columns(path)).replace("'", " ").split())
    frame = pa.table({"sex": [1, 2, -9, None]})
    only = rs.Domain({"sex": draft.attributes["sex"]})
    assert rs.Source.frame(frame).with_columns({}).columns() == ("sex",)
    ledger = rs.Ledger(tmp_path / "l", rs.ZCDP(1e6))
    release = rs.measure(rs.plan(rs.marginals(only, ways=1), rs.ZCDP(9e5)), frame, ledger=ledger)
    assert release.table(["sex"]).estimates.round().tolist() == [1, 1, 2]


@pytest.mark.parametrize("version", VERSIONS)
def test_sdmx_structures_declare_dimensions_by_their_code_lists(tmp_path: Path, version: str) -> None:
    text = SDMX.format(names=NAMES.format("Female", "weiblich"), **VERSIONS[version])
    path = written(tmp_path, "structure.xml", text)
    draft = rs.Domain.draft(path)
    assert dict(draft.attributes) == {"GENDER": rs.Categories(["F", "M"])}
    assert draft.attributes["GENDER"].words.title[""] == "Sex"
    assert dict(draft.attributes["GENDER"].words.meanings["F"].title) == {"en": "Female", "de": "weiblich"}
    assert "FREQ" in draft.origins
    assert rs.Categories.from_file(path, "CL_GEO").values == ("DE", "DE1", "DE2")
    places = rs.CodeList.from_parents(path, child="CL_GEO", levels=["country"])
    assert list(places.labels) == ["DE1", "DE2"]
    assert list(places.level("country").labels) == ["DE"]
    settings = f'[domain.geo]\ncodes = {{ file = "{path.name}", child = "CL_GEO", levels = ["country"] }}\n'
    assert rs.Domain.load(written(tmp_path, "domain.toml", settings))["geo"] == places
    settings = f'[domain.sex]\nvalues = {{ file = "{path.name}", column = "CL_SEX" }}\n'
    sex = rs.Domain.load(written(tmp_path, "domain.toml", settings))["sex"]
    assert sex.words.meanings["F"].title["de"] == "weiblich"


@pytest.mark.parametrize("form", [Format.STRUCTURE_SDMX_JSON_2_0_0, Format.STRUCTURE_SDMX_JSON_2_1_0], ids=str)
def test_code_lists_that_pysdmx_writes_are_read(tmp_path: Path, form: Format) -> None:
    codes = [Code(id="09162", name="München, Stadt"), Code(id="01002", name="Kiel")]
    path = tmp_path / "kreise.json"
    write_sdmx([Codelist(id="CL_KREIS", name="Kreise", agency="O", version="1.0", items=codes)], form, output_path=path)
    read = rs.Categories.from_file(path)  # there is only one
    assert read.values == ("09162", "01002")
    assert read.words.meanings["09162"].title[""] == "München, Stadt"
    assert parents_of_list(path, None) == (["09162", "01002"], ["München, Stadt", "Kiel"], ["", ""])


def test_what_we_publish_as_sdmx_declares_the_domain_again(tmp_path: Path) -> None:
    domain = rs.Domain({"SEX": rs.Categories(["F", "M"]).described("Sex", meanings={"F": "Female"}), "AGE": ["a", "b"]})
    plan = rs.plan(rs.marginals(domain, ways=[2]), rs.ZCDP(0.5))
    data = pa.table({"SEX": ["F", "M"] * 50, "AGE": ["a", "b"] * 50})
    release = rs.measure(plan, data, ledger=rs.Ledger(tmp_path / "l", rs.ZCDP(1.0)))
    files = release.export(tmp_path / "out", "sdmx")
    [structure] = {path for file in files for path in file.parent.rglob("*structure*.json")}
    draft = rs.Domain.draft(structure)
    assert {name: each.labels for name, each in draft.attributes.items()} == {"SEX": ("F", "M"), "AGE": ("a", "b")}


def test_a_damaged_description_is_refused_in_a_sentence(tmp_path: Path) -> None:
    whole = {"a.json": json.dumps(PACKAGE), "b.xml": DDI, "c.xml": SDMX.format(names="", **VERSIONS["2.1"])}
    for name, text in whole.items():
        for cut in range(0, len(text) - 1, 37):
            with pytest.raises(DomainError):
                rs.Domain.draft(written(tmp_path, name, text[:cut]))
    for wrong in (
        "[]",
        "{}",
        '{"fields": [3]}',
        '{"resources": 3}',
        '{"data": {"codelists": [{}]}}',
        '{"fields": "x"}',
    ):
        with pytest.raises(DomainError):
            rs.Domain.draft(written(tmp_path, "a.json", wrong))
    for wrong, said in (("nowhere.json", "No such file"), ("a.csv", "does not end in")):
        with pytest.raises(DomainError, match=said):
            described_columns(tmp_path / wrong)
    with pytest.raises(DomainError, match="it has 'sex', 'kreis'"):
        rs.Categories.from_file(written(tmp_path, "b.xml", DDI), "age")


def test_from_a_file_and_its_package_to_a_release_without_declaring_by_hand(tmp_path: Path) -> None:
    fields = PACKAGE["resources"][0]["schema"]["fields"][:-1]  # type: ignore[index]
    written(tmp_path, "datapackage.json", {"resources": [{"schema": {"missingValues": ["-9"], "fields": fields}}]})
    rows = "F;1;1;03.05.2001;true\nM;2;-9;04.06.2001;false\n" * 200
    written(tmp_path, "people.csv", f"sex;age;edu;born;member\n{rows}")
    done = inside("init", "people.csv", "--domain", "datapackage.json", cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
    assert "datapackage.json declares 5" in done.out
    assert inside("ledger", "create", "spec.toml", cwd=tmp_path).code == 0
    assert inside("release", "spec.toml", "--out", "out", cwd=tmp_path).code == 0
    table = rs.Release.load(tmp_path / "out").table(["edu"])
    assert abs(table.estimates - [200, 0, 200]).max() < 200
    assert inside("init", "people.csv", "--domain", "people.csv", "--out", "x.toml", cwd=tmp_path).code == 2
