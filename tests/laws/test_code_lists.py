"""Code lists with levels: read from files, looked up, kept in files, and refused where they do not nest."""

from __future__ import annotations

import json

import numpy as np
import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tomli_w
from typer.testing import CliRunner

import residua as rs
from residua.cli.main import app
from residua.domain.codec import encode
from residua.errors import DomainError
from tests.laws.trees import measurements

ROWS = [("b1", "t1", "c1"), ("b2", "t1", "c1"), ("b3", "t2", "c1"), ("b4", "t3", "c2")]


def written(folder, rows, header, name="codes.csv"):
    path = folder / name
    path.write_text("\n".join([",".join(header), *(",".join(row) for row in rows)]) + "\n")
    return path


def test_columns_parents_parquet_and_arrays_say_the_same(tmp_path):
    columns = rs.CodeList.from_file(written(tmp_path, ROWS, ("block", "tract", "county")), levels=["tract", "county"])
    pairs = [(b, t) for b, t, _ in ROWS] + [("t1", "c1"), ("t2", "c1"), ("t3", "c2")]
    unlisted = rs.CodeList.from_parents(
        written(tmp_path, pairs, ("code", "parent"), "p.csv"), levels=["tract", "county"]
    )
    rooted = written(tmp_path, [*pairs, ("c1", ""), ("c2", "")], ("code", "parent"), "r.csv")
    pq.write_table(
        pa.table(dict(zip(("block", "tract", "county"), zip(*ROWS, strict=True), strict=True))), tmp_path / "c.parquet"
    )
    given = rs.CodeList(
        [b for b, _, _ in ROWS], levels={"tract": [t for _, t, _ in ROWS], "county": [c for *_, c in ROWS]}
    )
    assert columns == unlisted == given
    assert columns == rs.CodeList.from_parents(rooted, child="code", parent="parent", levels=["tract", "county"])
    assert columns == rs.CodeList.from_file(tmp_path / "c.parquet", "block", levels=["tract", "county"])
    assert hash(columns) == hash(given)
    assert columns.level("county").codes.tolist() == [0, 0, 0, 1]
    assert columns != rs.CodeList([b for b, _, _ in ROWS], levels={"tract": [t for _, t, _ in ROWS]})


def test_labels_are_a_tuple_that_is_never_made():
    labels = measurements(50, unknown="other").labels
    assert len(labels) == 51
    assert list(labels)[-1] == labels[-1] == "(other)"
    assert labels.index("b0031") == 31
    assert "b0031" in labels
    assert "b00310" not in labels
    assert labels[3:5] == ["b0003", "b0004"]
    with pytest.raises(ValueError, match="no label"):
        labels.index("x")


def test_a_list_with_semicolons_and_commas_in_its_names_is_read_and_its_encoding_named(tmp_path):
    file = tmp_path / "codes.csv"
    file.write_text('code;name\n09162;München, Stadt\n09761;"Augsburg; Stadt"\n', encoding="utf-8-sig")
    assert list(rs.CodeList.from_file(file).labels) == ["09162", "09761"]
    assert list(rs.CodeList.from_file(file, "name").labels) == ["München, Stadt", "Augsburg; Stadt"]
    for text in ("Kürzel;Name\n1;a\n", "code;name\n1;Kürzel\n"):
        file.write_bytes(text.encode("cp1252"))
        with pytest.raises(DomainError, match="UTF-8"):
            rs.CodeList.from_file(file)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())])
def test_codes_are_looked_up_whatever_holds_them(kind):
    listed = rs.CodeList(["10", "9", "é", "008"], unknown="drop")
    column = pa.array(["é", "10", "8", "", None, "008", "1", "100000"]).cast(kind)
    assert encode(listed, column).tolist() == [2, 0, -1, -2, -2, 3, -1, -1]
    assert encode(listed, pa.array([9, 10, 8])).tolist() == [1, 0, -1]


def test_files_keep_them(tmp_path):
    domain = rs.Domain({"block": measurements(300, missing="other"), "sex": ["F", "M"]})
    domain.save(tmp_path / "d.toml")
    assert rs.Domain.load(tmp_path / "d.toml") == domain
    written(tmp_path, ROWS, ("block", "tract", "county"))
    (tmp_path / "s.toml").write_text('[domain.block]\ncodes = { file = "codes.csv", levels = ["tract", "county"] }\n')
    assert rs.Domain.load(tmp_path / "s.toml")["block"].size == 4


@pytest.mark.parametrize(
    ("rows", "header", "options", "match"),
    [
        ([*ROWS, ("b1", "t1", "c1")], ("b", "t", "c"), {"levels": ["t", "c"]}, "listed twice"),
        ([*ROWS, ("b5", "t1", "c2")], ("b", "t", "c"), {"levels": ["t", "c"]}, "does not nest"),
        ([*ROWS, ("b5", "", "c2")], ("b", "t", "c"), {"levels": ["t", "c"]}, "has blanks"),
        (ROWS, ("b", "t", "c"), {"levels": ["x"]}, "no column 'x'"),
        (ROWS, ("b", "t", "c"), {"levels": "t"}, "not a list of names"),
        (ROWS, ("b", "ranges", "c"), {"levels": ["ranges"]}, "kind of query"),
    ],
)
def test_mistakes_in_a_file_of_columns_are_named(tmp_path, rows, header, options, match):
    with pytest.raises(DomainError, match=match):
        rs.CodeList.from_file(written(tmp_path, rows, header), **options)


@pytest.mark.parametrize(
    ("pairs", "match"),
    [
        ([("a", "b"), ("b", "a")], "goes round in circles"),
        ([("a", "t"), ("b", "u"), ("t", "c")], "not listed as a code"),
        ([("a", "t"), ("b", "c"), ("t", "c"), ("c", "")], "levels above it"),
        ([("a", "t"), ("t", "c"), ("c", "n"), ("n", "")], "more than 2 levels"),
    ],
)
def test_mistakes_in_a_file_of_parents_are_named(tmp_path, pairs, match):
    with pytest.raises(DomainError, match=match):
        rs.CodeList.from_parents(written(tmp_path, pairs, ("code", "parent")), levels=["tract", "county"])


def test_packed_codes_that_were_changed_are_refused(tmp_path):
    domain = rs.Domain({"block": measurements(30)})
    domain.save(tmp_path / "d.toml")
    text = (tmp_path / "d.toml").read_text()
    for before, after in (("number = 30", "number = 31"), ("width = 5", "width = 4"), ('name = "county"', 'name = ""')):
        assert before in text
        (tmp_path / "d.toml").write_text(text.replace(before, after, 1))
        with pytest.raises(DomainError):
            rs.Domain.load(tmp_path / "d.toml")


def test_a_specification_plans_releases_and_reads_a_tree(tmp_path):
    random = np.random.default_rng(0)
    rows = [(f"b{i:04d}", f"t{i // 7}", f"c{i // 70}") for i in range(1400)]
    written(tmp_path, rows, ("block", "tract", "county"))
    data = pa.table({"block": [f"b{i:04d}" for i in random.integers(0, 1400, 3000)], "sex": ["F", "M"] * 1500})
    pq.write_table(data, tmp_path / "data.parquet")
    (tmp_path / "spec.toml").write_text(
        """[source]
path = "data.parquet"

[privacy]
rho = 1.0

[ledger]
path = "l.ledger"

[domain.block]
codes = { file = "codes.csv", levels = ["tract", "county"] }

[domain.sex]
values = ["F", "M"]

[[workload]]
hierarchy = "block"
by = ["sex"]
"""
    )
    run = CliRunner()
    out = str(tmp_path / "out")
    planned = run.invoke(app, ["plan", str(tmp_path / "spec.toml"), "--json"])
    assert planned.exit_code == 0, planned.output
    assert json.loads(planned.stdout)["gap"] < 2e-3
    assert run.invoke(app, ["ledger", "create", str(tmp_path / "spec.toml")]).exit_code == 0
    released = run.invoke(app, ["release", str(tmp_path / "spec.toml"), "--out", out])
    assert released.exit_code == 0, released.output
    table = run.invoke(app, ["table", out, "block=tract within county=c3", "sex"])
    assert table.exit_code == 0, table.output
    assert "t30" in table.output


def test_labels_that_are_not_utf_8_are_refused():
    """As a reader of Parquet hands them over, which takes the file's word for it."""
    with pytest.raises(DomainError, match="not encoded in UTF-8"):
        rs.CodeList(np.array([b"a1", b"\xb7\xb7"]))


def test_codes_in_levels_have_names_too(tmp_path):
    (tmp_path / "blocks.csv").write_text(
        "block;tract;name\n01;9;Köln, Süd\n02;9;Kiel\n".encode("cp1252").decode("latin-1"), "latin-1"
    )
    blocks = rs.CodeList.from_file(tmp_path / "blocks.csv", levels=["tract"], names="name", encoding="cp1252")
    assert {code: said.title[""] for code, said in blocks.words.meanings.items()} == {"01": "Köln, Süd", "02": "Kiel"}
    (tmp_path / "parents.csv").write_text("code,parent,name\n01,9,Süd\n02,9,\n9,,Land\n")
    parents = rs.CodeList.from_parents(tmp_path / "parents.csv", levels=["tract"], names="name")
    assert {code: said.title[""] for code, said in parents.words.meanings.items()} == {"01": "Süd", "9": "Land"}
    declared = {"codes": {"file": "parents.csv", "parent": "parent", "levels": ["tract"], "names": "name"}}
    (tmp_path / "d.toml").write_text(
        tomli_w.dumps({"domain": {"block": {**declared, "title": "Block", "meanings": {"02": "Nord"}}}})
    )
    block = rs.Domain.load(tmp_path / "d.toml")["block"]
    assert {code: said.title[""] for code, said in block.words.meanings.items()} == {
        "01": "Süd",
        "02": "Nord",
        "9": "Land",
    }
    assert (block.words.title[""], block.words.meanings.get("7")) == ("Block", None)


def test_groups_are_called_by_the_names_of_an_sdmx_code_list(tmp_path):
    codes = [{"id": "09162", "name": "München", "parent": "09"}, {"id": "01002", "name": "Kiel", "parent": "01"}]
    groups = [{"id": "09", "names": {"de": "Bayern", "en": "Bavaria"}}, {"id": "01", "name": "Schleswig-Holstein"}]
    (tmp_path / "k.json").write_text(json.dumps({"data": {"codelists": [{"id": "CL", "codes": [*codes, *groups]}]}}))
    place = rs.CodeList.from_parents(tmp_path / "k.json", levels=["land"])
    domain = rs.Domain({"place": place})
    plan = rs.plan(rs.hierarchy(domain, "place"), rs.ZCDP(1e6))
    data = pa.table({"place": ["09162"] * 2 + ["01002"]})
    release = rs.measure(plan, data, ledger=rs.Ledger(tmp_path / "a.ledger", rs.ZCDP(1e6)))
    release.export(tmp_path / "out", format="xlsx", language="de")
    text = [
        str(cell.value)
        for sheet in openpyxl.load_workbook(tmp_path / "out" / "tables.xlsx")
        for row in sheet
        for cell in row
    ]
    assert {"München", "Kiel", "Bayern", "Schleswig-Holstein"} <= set(text)
    assert release.count("place = 'München'").estimate == release.count({"place": "09162"}).estimate
    with pytest.raises(rs.ResiduaError):
        release.count("place = 'Bayern'")  # a group is no value
