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
        names = table.title if kind == "prefixes" else " × ".join(table.attributes) or "total"
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


@pytest.mark.parametrize("format", ["long", "long-csv"])
@pytest.mark.parametrize("kind", ["released", "projected"])
def test_a_row_says_which_table_of_its_attribute_it_belongs_to(tmp_path, format, kind):
    nested = rs.Domain({"age": rs.Integers(0, 4, levels={"half": [0, 2, 4]}), "sex": ["F", "M"], "job": ["none", "F"]})
    asked = rs.hierarchy(nested, "age") + rs.prefixes(nested, "age", by=["sex"]) + rs.marginals(nested, [(), ("age",)])
    release = released(tmp_path, asked)
    release.save(tmp_path / "release")
    rs.project(release).save(tmp_path / "projected")
    folder = "release" if kind == "released" else "projected"
    done = inside("tables", folder, "--out", "out", "--format", format, cwd=tmp_path)
    assert done.code == 0, done.err
    (file,) = (path for path in (tmp_path / "out").iterdir() if path.name.startswith("tables."))
    rows = dict(duckdb.sql(f"SELECT \"table\", count(*) FROM '{file}' GROUP BY 1").fetchall())
    assert rows == {"age: half": 2, "age": 5, "age: prefixes × sex": 10, "total": 1, "age (2)": 5}
    sums = dict(duckdb.sql(f"SELECT \"table\", sum(estimate) FROM '{file}' GROUP BY 1").fetchall())
    assert [sums["age: half"], sums["age"], sums["age (2)"]] == pytest.approx([sums["total"]] * 3)
    listed = [
        line.rsplit(maxsplit=1)[0].strip() for line in inside("tables", folder, cwd=tmp_path).out.splitlines()[1:]
    ]
    assert {title.strip("()") if title == "(total)" else title for title in listed} == set(rows)


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
