"""All tables in one long Parquet file: read back by DuckDB, every number of every table, and what readers must know."""

import json

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import residua as rs
from tests.cli.command import inside

DOMAIN = rs.Domain({"age": rs.Integers(0, 4), "sex": ["F", "M"], "job": ["none", "F"]})  # one label in two attributes
DATA = pa.table({"age": [0, 1, 1, 2, 4] * 40, "sex": ["F", "M", "M", "F", "M"] * 40, "job": ["none", "F"] * 100})


def released(tmp_path, workload):
    plan = rs.plan(workload, rs.ZCDP(0.5))
    return rs.measure(plan, DATA, ledger=rs.Ledger(tmp_path / "ledger", rs.ZCDP(0.5)))


@pytest.mark.parametrize("kind", ["marginals", "prefixes", "projected"])
def test_every_table_is_there_and_nothing_else(tmp_path, kind):
    asked = rs.marginals(DOMAIN, [(), ("sex", "age"), ("age", "sex", "job")])
    release = released(tmp_path, rs.prefixes(DOMAIN, "age", by=["sex"]) if kind == "prefixes" else asked)
    published = rs.project(release) if kind == "projected" else release
    (file,) = published.export(tmp_path / "out", "long")
    columns = "value_1, value_2" if kind == "prefixes" else "value_1, value_2, value_3"
    rows = duckdb.sql(f"SELECT \"table\", {columns}, estimate FROM '{file}'").fetchall()
    wanted = []
    for table in published.tables():
        names = " × ".join(sorted(table.attributes, key=DOMAIN.names.index)) or "total"
        labels = [[str(x) for x in table.columns[key]] for key in table.keys] or []
        for i, estimate in enumerate(table.columns["estimate"]):
            cell = dict(zip(table.attributes, (column[i] for column in labels), strict=True))
            ordered = [cell[name] for name in DOMAIN.names if name in cell]
            wanted.append((names, *ordered, *[None] * (columns.count("value") - len(ordered)), estimate))
    assert len(rows) == len(wanted)
    assert [row[:-1] for row in sorted(rows, key=str)] == [row[:-1] for row in sorted(wanted, key=str)]
    found = {row[:-1]: row[-1] for row in rows}
    assert [found[row[:-1]] for row in wanted] == pytest.approx([row[-1] for row in wanted])
    about = json.loads(pq.read_schema(file).metadata[b"residua"])
    assert "ZCDP" in about["guarantee"]
    assert ("stddev" in pq.read_schema(file).names) == (kind != "projected")


def test_standard_errors_and_the_command(tmp_path):
    release = released(tmp_path, rs.marginals(DOMAIN, [("age",), ("sex", "job")]))
    release.save(tmp_path / "release")
    done = inside("tables", "release", "--out", "all", "--format", "long", cwd=tmp_path)
    assert done.code == 0
    assert "all tables in one file" in done.out
    file = tmp_path / "all" / "tables.parquet"
    got = duckdb.sql(f"SELECT DISTINCT stddev FROM '{file}' WHERE attribute_1 = 'age'").fetchall()
    assert np.ravel(got) == pytest.approx(np.sqrt(release.plan.variance(["age"]))[:1])
    count = duckdb.sql(f"SELECT count(*) FROM '{file}' WHERE attribute_2 = 'job' AND value_2 = 'F'").fetchall()
    assert count == [(2,)]


def test_tables_that_stand_beside_queries_are_tables(tmp_path):
    tables = rs.marginals(DOMAIN, [("age",), ("sex", "job")])
    release = released(tmp_path, rs.queries(DOMAIN, ["age >= 2 and sex = 'F'"]) + tables)
    for published in (release, rs.project(release)):
        assert [table.attributes for table in published.tables()] == [("age",), ("sex", "job")]
    assert release.sets == tuple(tables.sets)
    (file,) = release.export(tmp_path / "out", "long")
    assert len(pq.read_table(file)) == 5 + 4
    written = release.export(tmp_path / "apart", "parquet")
    assert sorted(len(pq.read_table(one)) for one in written if one.suffix == ".parquet") == [1, 4, 5]  # and the query
