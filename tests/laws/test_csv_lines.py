"""CSV files are the same bytes whether Arrow or the compiled loops write them, whatever the labels and numbers are."""

import io

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import residua as rs
from residua.formats import delimited, lines, long
from residua.formats.cube import cube_of
from residua.projection.biased_table import ProjectedTable

ODD = ["a,b", 'say "no"', "two\nlines", "\r", "", "NA", "null", "é 東京 \U0001f600", " x ", "=1+1", "-5", "'"]
DOMAIN = rs.Domain(
    {
        'na"me, odd': rs.Categories(ODD),
        "whole": rs.Integers(-3, 11),
        "mixed": rs.Integers(0, 2, unknown="other"),
        "quality": ["x", "y"],
    }
)
TIES = [0.0, -0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 0.05, 0.15, 0.25, -0.35, 0.005, 1.005, 2.675, -0.4, 0.4999999999999999]
SIZES = [1e-9, -1e-7, 9.99e-7, 1e-6, 99999.5, 123456789.125, 9999999999.0, -9999999999.4]


def by_arrow(cube, spreadsheet=False):
    sink = io.BytesIO()
    batches = [delimited._inert(each) if spreadsheet else each for each in cube.batches()]
    pa.csv.write_csv(pa.Table.from_batches(batches), sink)
    return sink.getvalue()


def by_loops(cube, spreadsheet=False):
    return b"".join(bytes(part) for part in lines.lines_of(cube, spreadsheet=spreadsheet))


def table(attributes, numbers, stddev, width=1.96):
    shape = tuple(DOMAIN[name].size for name in attributes)
    estimates = np.resize(np.asarray(numbers, dtype=float), shape)
    if np.ndim(stddev):
        stddev = np.resize(stddev, shape)
    return rs.Table(DOMAIN, tuple(attributes), estimates, stddev, width)


@pytest.mark.parametrize("spreadsheet", [False, True])
@pytest.mark.parametrize("stddev", [0.3, 1.0, 107.1, 2.5e7, [0.7, 3.0, 12.0, 0.011]])
@pytest.mark.parametrize("attributes", [(), ("whole",), ('na"me, odd', "whole"), ("mixed", 'na"me, odd', "quality")])
def test_bytes_are_those_of_arrow(attributes, stddev, spreadsheet):
    random = np.random.default_rng(len(attributes)).normal(0, 300, 200)
    cube = cube_of(table(attributes, [*TIES, *SIZES[4:6], *random, *(1e4 * random)], stddev), 1)
    assert by_loops(cube, spreadsheet) == by_arrow(cube, spreadsheet)


@pytest.mark.parametrize("stddev", [1e-3, 1e-6])
def test_small_numbers_are_those_of_arrow(stddev):
    units = np.random.default_rng(1).integers(-(10**6), 10**6, 400) * stddev / 7
    told = np.where(np.abs(units) < 1e-3, 1e-3, units)  # whose ends have no exponents
    cube = cube_of(table(("whole", 'na"me, odd'), [*told, 1e-3, 0.25], stddev, width=0.5), 1)
    assert by_loops(cube) == by_arrow(cube)


@pytest.mark.parametrize(
    ("number", "stddev"),
    [(1e10, 1e3), (-2e10, 0.3), (1e15, 1e3), (1e300, 1e3), (np.inf, 1.0), (np.nan, 1.0), (1e-7, 1e-6), (1e10, 1e-6)],
)
def test_what_takes_an_exponent_or_is_not_told_is_left_to_arrow(number, stddev, tmp_path):
    cube = cube_of(table(("whole",), [1.0, 2.0, number], stddev), 1)
    with pytest.raises(lines.OtherForm):
        by_loops(cube)
    delimited._write([(tmp_path / "x.csv", cube)], True, False)
    assert (tmp_path / "x.csv").read_bytes() == by_arrow(cube)


def test_projections_and_all_digits(tmp_path):
    shape = (len(ODD), 15)
    numbers = np.abs(np.random.default_rng(2).normal(0, 50, shape))
    cube = cube_of(ProjectedTable(DOMAIN, ('na"me, odd', "whole"), numbers), 1)
    assert by_loops(cube) == by_arrow(cube)
    full = cube_of(table(("whole",), TIES, 3.0), 1, full=True)
    assert lines.lines_of(full, spreadsheet=False) is None


def test_large_tables_come_in_parts_and_one_that_cannot_go_on_is_written_again(monkeypatch, tmp_path):
    numbers = np.random.default_rng(3).normal(0, 50, len(ODD) * 15)
    monkeypatch.setattr(lines, "_BUFFER", 2000)
    for last in (1.0, 1e12):
        numbers[-1] = last
        cube = cube_of(table(('na"me, odd', "whole"), numbers, [3.0, 4.0], np.linspace(1, 2, len(numbers))), 1)
        path = tmp_path / "x.csv"
        delimited._write([(path, cube)], True, False)
        assert path.read_bytes() == by_arrow(cube)


def test_a_folder_is_the_same_by_either_way(monkeypatch, tmp_path):
    domain = rs.Domain({"a": ["x", "y,z"], "b": rs.Integers(0, 3), "c": ["p", "q", "r"]})
    data = pa.table({"a": ["x", "y,z"] * 50, "b": [0, 1, 2, 3] * 25, "c": ["p", "q", "r", "p"] * 25})
    plan = rs.plan(rs.marginals(domain, ways=range(4)), rs.ZCDP(0.5))
    release = rs.measure(plan, data, ledger=rs.Ledger(tmp_path / "ledger", rs.ZCDP(0.5)))
    found = []
    monkeypatch.setattr(delimited, "_WORTH_LOADING", 0)
    for way in ("loops", "arrow"):
        if way == "arrow":
            monkeypatch.setattr(delimited, "lines_of", lambda *_, **__: None)
        release.export(tmp_path / way, "csv")
        found.append({path.name: path.read_bytes() for path in (tmp_path / way).iterdir()})
    assert found[0] == found[1]
    assert len(found[0]) == 8 + 2


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
