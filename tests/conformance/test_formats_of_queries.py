"""Queries, and tables of groups that are not all told, in every format, read back by other libraries."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

import frictionless
import numpy as np
import openpyxl
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
from csvw import TableGroup
from pyaxis import pyaxis
from pyjstat import pyjstat
from pysdmx.io import get_datasets

import residua as rs
from tests.conformance.test_formats import near

FORMATS = ("csv", "datapackage", "csvw", "parquet", "xlsx", "jsonstat", "px", "sdmx")
DOMAIN = rs.Domain({"age": rs.Integers(0, 9), "sex": ["F", "M"], "region": ["north", "south", "east"]})
BUDGET = rs.ZCDP(0.6)


def people() -> pa.Table:
    place = np.random.default_rng(5)
    sex, region = np.array(["F", "M"]), np.array(["north", "south", "east"])
    ages = place.integers(0, 10, 3_000)
    return pa.table({"age": ages, "sex": sex[ages % 2], "region": region[place.integers(0, 3, 3_000)]})


def measured(plan: rs.Plan) -> rs.Release:
    return rs.measure(plan, people(), ledger=rs.Ledger(Path(mkdtemp()) / "people.ledger", BUDGET))


@cache
def queried(summed: bool = False) -> rs.Release:
    asked = {"grown, or not": "age >= 5", "women": "sex = 'F'", **({"years": "age"} if summed else {})}
    return measured(rs.plan(rs.queries(DOMAIN, asked), rs.ZCDP(0.5)))


@cache
def grouped() -> rs.Release:
    one = rs.plan(rs.marginals(DOMAIN, [("age",), ("sex",)]), rs.ZCDP(0.5))
    two = rs.plan(rs.marginals(DOMAIN, [("age", "sex")]), rs.ZCDP(0.5))
    chosen = {("north",): "one", ("south",): "two"}
    return measured(rs.by_group({"one": one, "two": two}, by=["region"], chosen=chosen))


pytestmark = pytest.mark.filterwarnings("ignore:Shouldn't use this function:DeprecationWarning")  # pyjstat calls itself


def read(path: Path, form: str) -> pd.DataFrame:
    """Estimates and standard errors of one table, as another library reads them."""
    if form == "csv":
        return pd.read_csv(path)
    if form == "datapackage":
        (resource,) = [
            r for r in frictionless.Package(str(path.parent / "datapackage.json")).resources if r.path == path.name
        ]
        return pd.DataFrame([dict(row) for row in resource.read_rows()]).astype({"estimate": float, "stddev": float})
    if form == "csvw":
        group = TableGroup.from_file(path.parent / "csv-metadata.json")
        (table,) = [each for each in group.tables if str(each.url) == path.name]
        names = {column.name: str(column.titles.getfirst()) for column in table.tableSchema.columns}
        rows = [{names[key]: value for key, value in row.items()} for row in table.iterdicts(strict=True)]
        return pd.DataFrame(rows).astype({"estimate": float, "stddev": float})
    if form == "parquet":
        return pyarrow.parquet.read_table(path).to_pandas()
    if form == "xlsx":
        heads, *rows = openpyxl.load_workbook(path).worksheets[-1].iter_rows(values_only=True)
        frame = pd.DataFrame(rows, columns=heads).rename(columns={"Estimate": "estimate", "Standard error": "stddev"})
        return frame[frame["No."] == 1]
    if form == "jsonstat":
        frame = pyjstat.Dataset.read(path.read_text()).write("dataframe")
        wanted = {"estimate": "Estimate", "stddev": "Standard error"}
        return pd.DataFrame(
            {name: frame[frame["Measure"] == title]["value"].to_numpy() for name, title in wanted.items()}
        )
    if form == "px":
        found = pd.to_numeric(pyaxis.parse(str(path), encoding="utf-8")["DATA"]["DATA"], errors="coerce")
        values = found.to_numpy().reshape(-1, 5)
        return pd.DataFrame({"estimate": values[:, 0], "stddev": values[:, 1]})
    (found,) = get_datasets(path, path.with_name(path.name.replace(".csv", ".structure.json")))
    return found.data.rename(columns={"OBS_VALUE": "estimate", "STD_ERR": "stddev"})


@pytest.mark.parametrize("form", FORMATS)
def test_answers_to_queries_are_one_table(tmp_path, form):
    (path,) = queried().export(tmp_path / form, form)
    frame, wanted = read(path, form), queried().answers().columns
    assert near(frame["estimate"], wanted["estimate"])
    assert near(frame["stddev"], wanted["stddev"])
    assert "grown, or not" in path.read_bytes().decode(errors="ignore") or form in ("xlsx", "parquet", "sdmx")


@pytest.mark.parametrize("form", FORMATS)
def test_what_is_not_told_is_blank_and_has_no_flag(tmp_path, form):
    files = grouped().export(tmp_path / form, form)
    frame, wanted = read(files[0], form), next(grouped().tables()).columns
    told = np.isfinite(wanted["stddev"])
    assert 0 < told.sum() < len(told)
    estimates, errors = (frame[name].to_numpy(dtype=float) for name in ("estimate", "stddev"))
    assert np.array_equal(np.isfinite(estimates), told)
    assert np.array_equal(np.isfinite(errors), told)
    assert near(estimates[told], wanted["estimate"][told])
    if form in ("csv", "parquet"):
        assert np.array_equal(frame["quality"].notna(), told)
    if form == "jsonstat":
        status = json.loads(files[0].read_text())["status"]
        assert [each is not None for each in status[::4]] == told.tolist()


def test_the_unit_of_sums_is_not_records(tmp_path):
    for summed, unit in ((False, "records"), (True, "as each query says")):
        (path,) = queried(summed).export(tmp_path / f"{summed}", "jsonstat")
        told = json.loads(path.read_text())
        assert told["extension"]["residua"]["unit"] == unit
        assert told["dimension"]["MEASURE"]["category"]["unit"]["estimate"]["label"] == unit


def test_a_projection_of_queries_is_written_too(tmp_path):
    projected = rs.project(queried())
    (path,) = projected.export(tmp_path / "x", "csv")
    assert near(pd.read_csv(path)["estimate"], projected.answers().columns["estimate"])
    with pytest.raises(rs.ResiduaError, match="use csv"):
        queried().export(tmp_path / "long", "long")
