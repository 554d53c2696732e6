"""Synthetic rows: as many as asked, near the estimates, possible, meeting public tables; whole files or none."""

import errno

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

import residua as rs
from residua.errors import FileError, PlanError
from residua.estimation import filling
from tests.laws.estimations import RULES, SIZES, measured, records, released, subsets, truth

DATA = records(np.random.default_rng(1))


@pytest.fixture(scope="module")
def estimated(tmp_path_factory):
    return rs.estimate(released(tmp_path_factory.mktemp("rows"), DATA, impossible=RULES), total=3000)


def tables_of(rows):
    """The rows' own tables, by attributes."""
    table = rows.to_arrow()
    columns = {name: table[name].to_numpy() for name in table.column_names}
    return columns, {names: truth(columns, names) for names in subsets(3)[1:]}


def far(rows, estimated, ways):
    _, tables = tables_of(rows)
    scale = len(rows) / estimated.total
    apart = [np.abs(t - scale * estimated.estimates(n)).sum() for n, t in tables.items() if len(n) == ways]
    return float(np.mean(apart)) / len(rows)


@pytest.mark.parametrize("n", [1, 7, 3000, 40_000])
@pytest.mark.parametrize("part", [65_536, 1_000])
def test_rows_are_as_many_as_asked_single_tables_are_rounded_and_no_row_is_impossible(estimated, monkeypatch, n, part):
    monkeypatch.setattr(filling, "_PART", part)
    monkeypatch.setattr(filling, "_FEWEST", part)
    rows = estimated.rows(n)
    assert len(rows) == n
    columns, tables = tables_of(rows)
    for name in SIZES:
        assert len(columns[name]) == n
        expected = estimated.estimates([name]) * n / estimated.total
        assert np.abs(tables[name,] - expected).max() < 1
    assert tables["a", "d"][0, 4] == 0


@pytest.mark.parametrize("part", [65_536, 1_000])
def test_tables_of_rows_are_nearer_to_the_estimates_than_those_of_records_drawn_one_by_one(
    estimated, monkeypatch, part
):
    """Draws of single records miss tables by the square root of counts; controlled choice does not."""
    monkeypatch.setattr(filling, "_PART", part)
    monkeypatch.setattr(filling, "_FEWEST", part)
    rows = estimated.rows(3000)
    random = np.random.default_rng(3)
    for ways, share in ((2, 0.3), (3, 0.7)):
        drawn = []
        for names in subsets(3):
            if len(names) == ways:
                table = estimated.estimates(names).ravel()
                drawn.append(np.abs(random.multinomial(3000, table / table.sum()) - table).sum() / 3000)
        assert far(rows, estimated, ways) < share * np.mean(drawn)
    assert far(estimated.rows(200_000), estimated, 2) < 0.005


def test_public_tables_are_met_exactly_in_whole_numbers(tmp_path):
    release = released(tmp_path, DATA, rho=0.01, impossible=RULES)
    known = {("b", "c"): truth(DATA, "bc"), ("a", "d"): truth(DATA, "ad")}
    rows = rs.estimate(release, known=known).rows()
    _, tables = tables_of(rows)
    assert len(rows) == 3000
    for names, counts in known.items():
        np.testing.assert_array_equal(tables[names], counts)
    three = rs.estimate(release, known={("a", "b", "d"): truth(DATA, "abd")}).rows()
    np.testing.assert_array_equal(tables_of(three)[1]["a", "b", "d"], truth(DATA, "abd"))


def test_public_tables_are_met_in_parts_as_well(tmp_path, monkeypatch):
    monkeypatch.setattr(filling, "_PART", 512)
    monkeypatch.setattr(filling, "_FEWEST", 512)
    release = released(tmp_path, DATA, rho=0.01, impossible=RULES)
    known = {("b", "c"): truth(DATA, "bc")}
    rows = rs.estimate(release, known=known).rows()
    np.testing.assert_array_equal(tables_of(rows)[1]["b", "c"], known["b", "c"])


def test_public_tables_are_met_where_an_estimate_says_that_nobody_is(tmp_path):
    """Sex tells job exactly, in the data and in the estimate, but not in what is public: what is public is met."""
    domain = rs.Domain({"sex": ["F", "M"], "age": rs.Integers(0, 4), "job": ["no", "yes"]})
    data = pa.table({"sex": ["F", "M"] * 500, "age": [0, 1, 2, 1, 0] * 200, "job": ["no", "yes"] * 500})
    for _ in range(10):
        release = measured(tmp_path, data, rs.plan(rs.marginals(domain, ways=[1, 2]), rs.ZCDP(0.1)))
        for known in ({("sex",): [500, 500]}, {("job",): [400, 600]}, {("sex",): [500, 500], ("job",): [503, 497]}):
            rows = rs.estimate(release, total=1000, known=known).rows().to_arrow()
            for (name,), counts in known.items():
                codes = rows[name].to_pylist()
                assert [codes.count(label) for label in domain[name].labels] == counts


def test_every_look_gives_the_same_rows_and_a_generator_repeats_them(estimated):
    rows = estimated.rows(500)
    assert rows.to_arrow().equals(rows.to_arrow())
    first, second = (estimated.rows(500, random=np.random.default_rng(7)).to_arrow() for _ in range(2))
    assert first.equals(second)
    assert not rows.to_arrow().equals(first)
    state = np.random.get_state()[1].copy()
    estimated.rows(10).to_arrow()
    assert (np.random.get_state()[1] == state).all()  # no global generator is touched


def test_frames_and_files_hold_labels_and_say_what_they_are(tmp_path):
    domain = rs.Domain(
        {"sex": ["F", "M"], "age": rs.Integers(3, 5), "only": ["x"], "odd": rs.Integers(0, 1, missing="other")}
    )
    plan = rs.plan(rs.marginals(domain, ways=[0, 1, 2]), rs.ZCDP(1.0))
    data = {"sex": ["F", "M", "M"] * 50, "age": [3, 4, 5] * 50, "only": ["x"] * 150, "odd": [0, 1, None] * 50}
    rows = rs.estimate(measured(tmp_path, data, plan), total=150).rows()
    rows.to_parquet(tmp_path / "rows.parquet")
    rows.to_csv(tmp_path / "rows.csv")
    table = pyarrow.parquet.read_table(tmp_path / "rows.parquet")
    assert b"no row is a person" in table.schema.metadata[b"note"]
    assert b"rho" in table.schema.metadata[b"guarantee"] or b"ZCDP" in table.schema.metadata[b"guarantee"]
    assert set(table["sex"].to_pylist()) == {"F", "M"}
    assert set(table["age"].to_pylist()) == {3, 4, 5}
    assert set(table["odd"].to_pylist()) == {"0", "1", "(other)"}
    assert (
        pyarrow.csv.read_csv(tmp_path / "rows.csv").to_pylist()
        == pa.table(rows).cast(pyarrow.csv.read_csv(tmp_path / "rows.csv").schema).to_pylist()
    )
    assert rows.to_pandas()["age"].tolist() == rows.to_polars()["age"].to_list() == table["age"].to_pylist()
    few = rs.estimate(measured(tmp_path, data, plan), total=150).rows(20, attributes=["age", "sex"])
    assert few.to_arrow().column_names == ["age", "sex"]
    with pytest.raises(FileError, match="exists"):
        rows.to_parquet(tmp_path / "rows.parquet")
    rows.to_parquet(tmp_path / "rows.parquet", overwrite=True)


def test_a_full_disk_leaves_nothing_behind(tmp_path, estimated, monkeypatch):
    import os

    def full(handle):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(FileError, match="No space left on device; nothing was written"):
        estimated.rows(100).to_parquet(tmp_path / "rows.parquet")
    assert not list(tmp_path.iterdir())
    with pytest.raises(FileError, match="cannot write"):
        estimated.rows(100).to_csv(tmp_path / "nowhere" / "rows.csv")


def test_bad_input_is_refused_in_a_sentence(estimated):
    for n in (0, -1, 2.5, True, 10**11, "many"):
        with pytest.raises(PlanError, match="n="):
            estimated.rows(n)
    with pytest.raises(PlanError, match="random=7"):
        estimated.rows(5, random=7)
    with pytest.raises(ValueError, match="unknown attribute; there are 'a'"):
        estimated.rows(5, attributes=["z"])
    with pytest.raises(PlanError, match="attributes"):
        estimated.rows(5, attributes=[])


def test_rules_of_four_attributes_hold(tmp_path):
    rules = [{"a": [0, 1], "b": [0], "c": [0], "d": [0, 1, 2]}]
    keep = ~((DATA["a"] < 2) & (DATA["b"] == 0) & (DATA["c"] == 0) & (DATA["d"] < 3))
    data = {name: column[keep] for name, column in DATA.items()}
    columns, _ = tables_of(rs.estimate(released(tmp_path, data, rho=0.001, impossible=rules)).rows())
    assert not ((columns["a"] < 2) & (columns["b"] == 0) & (columns["c"] == 0) & (columns["d"] < 3)).any()


def test_of_many_attributes_each_rests_on_those_that_tell_most_of_it(tmp_path, monkeypatch):
    monkeypatch.setattr(filling, "PAIRS", 2)
    monkeypatch.setattr(filling, "PARENTS", 2)
    wide = rs.Domain.of_sizes([2] * 8)
    random = np.random.default_rng(0)
    many = {name: random.integers(0, 2, 500) for name in wide.names}
    many[wide.names[7]] = many[wide.names[0]]
    plan = rs.plan_estimates(rs.marginals(wide, ways=[1, 2]), rs.ZCDP(10.0))
    rows = rs.estimate(measured(tmp_path, many, plan), total=500).rows(500)
    assert max(len(step.givens) for step in rows.steps) == 3  # two pairs and one table of three
    table = rows.to_arrow()
    assert np.mean(table[wide.names[0]].to_numpy() == table[wide.names[7]].to_numpy()) > 0.95
