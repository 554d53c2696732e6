"""`residua estimate` and what reads its folder: every kind of release, every way to ask, every format, rows."""

import csv
import io
import json

import pyarrow.parquet as pq
import pytest

import residua as rs
from tests.cli import session_command
from tests.cli.command import inside, released

SPEC = """
[source]
path = "people.csv"
PERSON

[privacy]
PRIVACY

[ledger]
path = "people.ledger"

[[workload]]
WORKLOAD

[domain.sex]
values = ["F", "M"]

[domain.age]
low = 0
high = 5

[domain.county]
values = ["Kern", "Napa", "Erie"]

[domain.county.levels.state]
CA = ["Kern", "Napa"]
NY = ["Erie"]
"""
RECORDS = [(i % 300, "FM"[i % 2], i % 6, ["Kern", "Napa", "Erie"][(i // 2) % 3]) for i in range(1200)]
DATA = "id,sex,age,county\n" + "".join(f"{n},{s},{a},{c}\n" for n, s, a, c in RECORDS)
KINDS = {
    "rho": ("rho = 0.1", "ways = [0, 1, 2]", ""),
    "mu": ("mu = 0.5", "ways = [0, 1, 2]", ""),
    "approximate": ("epsilon = 1.0\ndelta = 1e-9", "ways = [0, 1, 2]", ""),
    "pure": ("epsilon = 2.0", "ways = [0, 1, 2]", ""),
    "replaced": ("rho = 0.1\nreplace = true", "ways = [0, 1, 2]", ""),
    "persons": ("rho = 0.1\nrecords = 4", "ways = [0, 1, 2]", 'person = "id"'),
    "products": ("rho = 0.1", 'product = { age = "prefixes", sex = "identity" }\nways = [0, 1, 2]', ""),
}


def spec_of(kind):
    privacy, workload, person = KINDS[kind]
    return SPEC.replace("PRIVACY", privacy).replace("WORKLOAD", workload).replace("PERSON", person)


def estimated(folder, kind="rho"):
    (folder / "people.csv").write_text(DATA, encoding="utf-8")
    released(folder, spec=spec_of(kind))
    done = inside("estimate", "out", "--out", "estimates", "--total", "1200", cwd=folder)
    assert done.code == 0, done.err
    return rs.Estimated.load(folder / "estimates")


def shown(folder, *words):
    done = inside(*words, cwd=folder)
    assert done.code == 0, done.err
    return done.out


def as_rows(text):
    return list(csv.DictReader(io.StringIO(text)))


@pytest.mark.parametrize("kind", KINDS)
def test_every_noise_and_unit_is_estimated_shown_and_made_into_rows(tmp_path, kind):
    made = estimated(tmp_path, kind)
    rows = as_rows(shown(tmp_path, "table", "estimates", "sex", "age", "county", "--full"))
    assert len(rows) == 36
    numbers = [float(row["estimate"]) for row in rows]
    assert min(numbers) >= 0
    assert numbers == pytest.approx(made.estimates(["sex", "age", "county"]).ravel().tolist(), abs=1e-9)
    assert "1,200 synthetic rows" in shown(tmp_path, "rows", "estimates", "--out", "rows.parquet").replace("\n", " ")
    assert pq.read_table(tmp_path / "rows.parquet").num_rows == 1200


def test_a_session_and_a_pool_are_estimated(tmp_path):
    folder = session_command.with_plans(tmp_path)
    session_command.run(folder, "open")
    session_command.run(folder, "release", "coarse", "--out", "one")
    session_command.run(folder, "release", "fine", "--out", "two")
    for name in ("one", "two"):
        assert "nothing was spent" in shown(folder, "estimate", name, "--out", f"{name}-estimates")
    first, second = (rs.Release.load(folder / name) for name in ("one", "two"))
    with pytest.raises(rs.ResiduaError, match="given twice"):  # what a session releases holds what it released before
        rs.pooled([first, second])
    plan = rs.plan(rs.marginals(second.domain, ways=[1]), rs.ZCDP(0.1))
    own = rs.measure(plan, folder / "people.csv", ledger=rs.Ledger(folder / "people.ledger"))
    rs.pooled([second, own]).save(folder / "pool")
    shown(folder, "estimate", "pool", "--out", "pool-estimates")
    assert rs.Estimated.load(folder / "pool-estimates").total > 0


def test_prefixes_ranges_levels_rounding_counts_answers_formats_and_the_report(tmp_path):
    made = estimated(tmp_path)
    prefixes = as_rows(shown(tmp_path, "table", "estimates", "sex", "age=prefixes", "--full"))
    assert [float(row["estimate"]) for row in prefixes] == pytest.approx(
        made.estimates(["sex", "age"]).cumsum(axis=1).ravel().tolist()
    )
    assert len(as_rows(shown(tmp_path, "table", "estimates", "age=ranges", "--full"))) == 21
    states = as_rows(shown(tmp_path, "table", "estimates", "county=state", "--full"))
    counties = made.estimates(["county"])
    assert [float(row["estimate"]) for row in states] == pytest.approx([counties[:2].sum(), counties[2]])
    whole = as_rows(shown(tmp_path, "table", "estimates", "sex", "county", "--rounded", "--csv"))
    assert sum(int(row["estimate"]) for row in whole) == 1200
    counted = json.loads(shown(tmp_path, "count", "estimates", "age >= 3 and sex = 'F'", "--json"))
    assert counted["estimate"] == pytest.approx(float(made.estimates(["sex", "age"])[0, 3:].sum()))
    assert len(as_rows(shown(tmp_path, "answers", "estimates", "--full"))) == 1 + 11 + 12 + 6 + 18
    assert "mean" in shown(tmp_path, "mean", "estimates", "age")
    for form in ("csv", "parquet", "long", "xlsx", "jsonstat", "px", "sdmx", "datapackage", "csvw"):
        shown(tmp_path, "tables", "estimates", "--out", f"tables-{form}", "--format", form)
        assert any((tmp_path / f"tables-{form}").iterdir())
    shown(tmp_path, "report", "estimates", "--out", "report.html")
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "biased" in page
    assert "biased towards a model" in (tmp_path / "estimates" / "ESTIMATES.md").read_text(encoding="utf-8")


def test_rows_by_the_command_and_its_mistakes(tmp_path):
    estimated(tmp_path)
    shown(tmp_path, "rows", "estimates", "--out", "few.csv", "-n", "50", "--attribute", "county", "--attribute", "sex")
    rows = as_rows((tmp_path / "few.csv").read_text(encoding="utf-8"))
    assert len(rows) == 50
    assert list(rows[0]) == ["county", "sex"]
    for words, told in (
        (("estimates", "--out", "few.csv"), "exists already"),
        (("estimates", "--out", "rows.txt"), "neither .parquet nor .csv"),
        (("out", "--out", "rows.csv"), "run residua estimate on the release first"),
        (("nowhere", "--out", "rows.csv"), "nowhere"),
        (("estimates", "--out", "rows.csv", "-n", "0"), "number of rows"),
        (("estimates", "--out", "rows.csv", "--attribute", "height"), "unknown attribute; there are 'sex'"),
        (("estimates", "--out", "absent/rows.csv"), "cannot write"),
    ):
        refused = inside("rows", *words, cwd=tmp_path)
        assert refused.refused, words
        assert told in refused.err.replace("\n", " "), refused.err
        assert not (tmp_path / "rows.csv").exists()
