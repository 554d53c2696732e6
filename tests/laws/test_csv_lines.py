"""CSV files give back every label, however odd, and numbers with the decimals that their errors justify."""

import csv
import io

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import residua as rs
from residua.formats import long
from residua.formats.export import export

ODD = ["a,b", 'say "no"', "two\nlines", "\r", "", "NA", "null", "é 東京 \U0001f600", " x ", "=1+1", "-5", "'"]


@pytest.mark.parametrize("spreadsheet", [False, True])
def test_labels_come_back_and_ends_are_rounded_outwards(spreadsheet, tmp_path):
    domain = rs.Domain({'na"me, odd': ODD, "whole": rs.Integers(-3, 3)})
    data = pa.table({'na"me, odd': ODD * 7, "whole": [-3, -2, -1, 0, 1, 2, 3] * 12})
    plan = rs.plan(rs.marginals(domain, ways=[2]), rs.ZCDP(0.5))
    release = rs.measure(plan, data, ledger=rs.Ledger(tmp_path / "ledger", rs.ZCDP(0.5)))
    [path] = export(release, tmp_path / "tables", "csv", spreadsheet=spreadsheet)
    with path.open(encoding="utf-8", newline="") as file:
        header, *rows = csv.reader(file)
    assert header[:2] == ['na"me, odd', "whole"]
    seen = list(dict.fromkeys(row[0] for row in rows))
    assert len(rows) == len(ODD) * 7
    assert len(seen) == len(ODD)
    assert not spreadsheet or not any(label.startswith(("=", "-5")) for label in seen)
    assert spreadsheet or seen == ODD
    table = release.table(list(domain.names)).columns
    told = {name: np.array([float(row[header.index(name)]) for row in rows]) for name in ("lower", "upper")}
    assert (told["lower"] <= table["lower"]).all()
    assert (told["upper"] >= table["upper"]).all()


@pytest.mark.parametrize("kind", ["marginals", "levels", "projected"])
def test_a_long_csv_file_has_the_rows_of_the_long_parquet_file(kind, monkeypatch, tmp_path):
    odd = rs.Domain({'a "x", y': ODD, "b": rs.Integers(0, 3, levels={"half": [0, 2, 3]}), "c": ["p", "q", "r"]})
    data = pa.table({'a "x", y': ODD * 10, "b": [0, 1, 2, 3] * 30, "c": ["p", "q", "r", "p"] * 30})
    asked = rs.hierarchy(odd, "b", by=["c"]) if kind == "levels" else rs.marginals(odd, ways=range(4))
    release = rs.measure(rs.plan(asked, rs.ZCDP(0.5)), data, ledger=rs.Ledger(tmp_path / "ledger", rs.ZCDP(0.5)))
    published = rs.project(release) if kind == "projected" else release
    monkeypatch.setattr(long, "ROWS", 50)  # tables come in parts
    for form in ("long", "long-csv"):
        published.export(tmp_path / form, form)
    wanted = pq.read_table(tmp_path / "long" / "tables.parquet")
    columns = [
        wanted[name].cast(pa.string()) if "_" in name or name == "table" else wanted[name]
        for name in wanted.column_names
    ]
    sink = io.BytesIO()
    pa.csv.write_csv(pa.table(columns, wanted.column_names), sink)
    assert (tmp_path / "long-csv" / "tables.csv").read_bytes() == sink.getvalue()
