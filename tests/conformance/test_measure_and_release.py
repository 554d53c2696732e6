"""From data to published tables through the real door: real files, a real ledger, real folders."""

import gc
import json
import pickle
import shutil
from collections.abc import Mapping
from itertools import combinations, permutations

import numpy as np
import pyarrow as pa
import pytest

import residua as rs
from residua.errors import FileError, LedgerError, PlanError, SourceError
from residua.measurement.noisy import margins, maximal_layout
from residua.release import Release
from residua.source.counting import Counted
from tests.secrets import says


@pytest.fixture(scope="module")
def domain():
    return rs.Domain(
        {
            "sex": ["F", "M"],
            "age": rs.Integers(0, 3),
            "region": rs.Categories(["n", "s", "w"], unknown="other"),
            "one": rs.Categories(["only"]),
        }
    )


@pytest.fixture(scope="module")
def records():
    random = np.random.default_rng(7)
    n = 5000
    return pa.table(
        {
            "sex": random.choice(["F", "M"], n),
            "age": random.integers(0, 4, n),
            "region": random.choice(["n", "s", "w", "elsewhere"], n, p=[0.5, 0.2, 0.2, 0.1]),
            "one": ["only"] * n,
        }
    )


def true_table(domain, records, names):
    """An independent count."""
    shape = [domain[name].size for name in names]
    table = np.zeros(shape)
    columns = []
    for name in names:
        labels = list(domain[name].labels)
        columns.append([labels.index(v) if v in labels else len(labels) - 1 for v in records[name].to_pylist()])
    np.add.at(table, tuple(np.array(c) for c in columns), 1 if names else len(records))
    return table


@pytest.fixture
def make(tmp_path, domain, records):
    def release(rho=0.5, ways=range(4), **kwargs):
        plan = rs.plan(rs.marginals(domain, ways=ways), rs.ZCDP(rho=rho))
        ledger = rs.Ledger(tmp_path / f"{rho}.ledger", rs.ZCDP(rho=1000.0))
        return rs.measure(plan, records, ledger=ledger, **kwargs)

    return release


def test_tables_are_near_the_truth_and_agree_with_each_other(make, domain, records):
    release = make()
    for size in range(4):
        for names in combinations(domain.names, size):
            estimates = release.estimates(names)
            error = (estimates - true_table(domain, records, names)) / np.sqrt(release.plan.variance(names))
            assert abs(error).max() < 7  # false alarm below 1e-9 over all cells
            for axis, _ in enumerate(names):
                smaller = release.estimates([*names[:axis], *names[axis + 1 :]])
                assert np.allclose(estimates.sum(axis=axis), smaller, atol=1e-6)


def test_the_order_of_attributes_only_turns_the_table(make):
    release = make()
    for names in permutations(("sex", "age", "region")):
        turned = release.estimates(names).transpose([names.index(n) for n in ("sex", "age", "region")])
        assert np.allclose(turned, release.estimates(("sex", "age", "region")), atol=1e-9)
        frame = release.table(names).to_pandas()
        assert list(frame.columns) == [*names, "estimate", "stddev", "lower", "upper"]
        cell = frame[(frame.sex == "M") & (frame.age == 2) & (frame.region == "(other)")]
        assert float(cell.estimate.iloc[0]) == pytest.approx(release.estimates(("sex", "age", "region"))[1, 2, 3])


def test_all_estimates_streams_what_estimates_gives(make, domain):
    release = make()
    seen = 0
    for group, part, tables in release.all_estimates():
        for members, table in zip(group.members[part], tables, strict=True):
            names = [domain.names[i] for i in members]
            assert np.allclose(table, release.estimates(names), atol=1e-9)
            seen += 1
    assert seen == len(release.planned.lattice)


def test_estimates_equal_the_formula_of_the_paper(make, domain):
    """Σ_{S⊆A} spread(C_S z_S) / Π_{i∈A∖S} n_i, coded plainly."""
    release = make()
    measurements, layout = release.measurements, release.measurements.layout

    def centred(number):
        group = next(g for g in layout if number in g.numbers)
        place = int(np.flatnonzero(group.numbers == number)[0])
        z = group.view(release.noisy)[place] / measurements.units[np.flatnonzero(measurements.measured == number)[0]]
        for axis in range(z.ndim):
            z = z - z.mean(axis=axis, keepdims=True)
        return z

    members = (0, 1, 2)
    total = np.zeros([int(domain.sizes[i]) for i in members])
    for size in range(4):
        for subset in combinations(members, size):
            number = int(measurements.lattice.find(np.array(subset, dtype=np.int32).reshape(1, -1))[0])
            r = centred(number)
            shape = [int(domain.sizes[i]) if i in subset else 1 for i in members]
            total = total + r.reshape(shape) / np.prod([domain.sizes[i] for i in members if i not in subset])
    assert np.allclose(total, release.estimates(("sex", "age", "region")), atol=1e-8)


def test_count_and_combination_have_the_plans_deviation(make):
    release = make()
    women = release.count({"sex": "F", "age": [1, 2]})
    table = release.estimates(("sex", "age"))
    assert women.estimate == pytest.approx(table[0, 1] + table[0, 2])
    matrix = release.plan.covariance(("sex", "age"))
    picked = np.zeros(8)
    picked[[1, 2]] = 1
    assert women.stddev == pytest.approx(np.sqrt(picked @ matrix @ picked))
    assert women.upper - women.estimate == pytest.approx(1.959964 * women.stddev, rel=1e-6)
    assert release.count().stddev == pytest.approx(np.sqrt(release.plan.variance([])))
    contrast = release.combination({("age",): [1, -1, 0, 0], ("sex",): [2, 0]})
    assert contrast.stddev > 0.1


def test_a_saved_release_loads_without_data_and_is_the_same(make, tmp_path):
    release = make()
    release.save(tmp_path / "out")
    loaded = rs.Release.load(tmp_path / "out")
    assert np.array_equal(loaded.noisy, release.noisy)
    assert np.array_equal(loaded.estimates(("sex", "age")), release.estimates(("sex", "age")))
    assert np.array_equal(loaded.plan.variance(("sex", "age")), release.plan.variance(("sex", "age")))
    assert dict(loaded.receipt) == dict(release.receipt)
    statement = (tmp_path / "out" / "PRIVACY.md").read_text()
    assert "rho = 0.5" in statement
    assert "epsilon" in statement
    assert "adding or removing one record" in statement
    assert {p.name for p in (tmp_path / "out").iterdir()} == {
        "release.json", "plan.json", "measurements.npy", "measured.json", "codebook.toml", "PRIVACY.md",
    }  # fmt: skip
    with pytest.raises(FileError, match="exists already"):
        release.save(tmp_path / "out")
    assert [p for p in tmp_path.iterdir() if "partial" in p.name] == []


@pytest.mark.parametrize(
    "name", ["release.json", "plan.json", "measurements.npy", "measured.json", "codebook.toml", "PRIVACY.md"]
)
def test_a_changed_byte_in_any_file_is_noticed(make, tmp_path, name):
    make().save(tmp_path / "out")
    path = tmp_path / "out" / name
    content = bytearray(path.read_bytes())
    for place in {len(content) // 2, len(content) - 2, 30}:
        changed = bytearray(content)
        changed[place] ^= 1
        path.write_bytes(changed)
        with pytest.raises(FileError):
            rs.Release.load(tmp_path / "out")
    path.unlink()
    with pytest.raises(FileError):
        rs.Release.load(tmp_path / "out")


def numbers_in(thing, seen=None):
    """Every number that can be reached from an object through its attributes, items and arrays."""
    seen = set() if seen is None else seen
    if id(thing) in seen:
        return set()
    seen.add(id(thing))
    if isinstance(thing, np.ndarray):
        return set(thing.ravel().tolist()) | numbers_in(thing.base, seen)
    if isinstance(thing, int | float | np.number):
        return {thing}
    if isinstance(thing, str | bytes | type) or thing is None:
        return set()
    inside = list(thing.values()) if isinstance(thing, Mapping) else []
    inside += list(thing) if isinstance(thing, list | tuple | set | frozenset) else []
    inside += list(vars(thing).values()) if hasattr(thing, "__dict__") else []
    return set().union(*(numbers_in(part, seen) for part in inside))


def test_nothing_confidential_leaves_the_measuring_step(tmp_path, capsys):
    """A dataset whose true counts are all rare numbers: none is found in any object or file of a release."""
    domain = rs.Domain({"a": ["x", "y"], "b": ["u", "v", "w"]})
    cells = {
        ("x", "u"): 15413,
        ("x", "v"): 27919,
        ("x", "w"): 39157,
        ("y", "u"): 48271,
        ("y", "v"): 51803,
        ("y", "w"): 64661,
    }
    data = pa.table({"a": [k[0] for k in cells], "b": [k[1] for k in cells], "n": list(cells.values())})
    rows, columns = [82489, 164735], [63684, 79722, 103818]
    secrets = [*cells.values(), *rows, *columns, sum(rows)]
    plan = rs.plan(rs.marginals(domain, ways=[0, 1, 2]), rs.ZCDP(rho=0.5))
    ledger = rs.Ledger(tmp_path / "l", rs.ZCDP(rho=0.5))
    release = rs.measure(plan, rs.Source.frame(data, counts="n"), ledger=ledger)
    release.save(tmp_path / "out")
    release.table(["a", "b"]), release.count({"a": "x"})  # whatever is computed later is walked, too
    # Centred true measurements are as secret as the counts.
    layout = maximal_layout(plan.lattice, domain.sizes, plan.compile().measured)
    true = margins(layout, np.array(list(cells.values())), release.measurements.layout)
    from residua.linalg.lattice import centre

    grids = np.zeros(len(plan.lattice), dtype=np.int64)
    grids[release.measurements.measured] = release.measurements.grids
    exact = []
    for group in release.measurements.layout:
        tables = group.view(true).copy()
        centre(tables)
        exact += (tables.reshape(len(tables), -1) * grids[group.numbers, None]).ravel().tolist()
    exact = [value for value in exact if value]
    # A noisy number equals its true one by chance, one draw in a million; two at once never happen.
    held = numbers_in(release)
    assert len(held) > 12
    assert not held & set(secrets)
    assert len(held & set(exact)) <= 1
    assert numbers_in({"nested": [release, np.array(list(cells.values()))]}) >= set(cells.values())  # it would be seen
    for path in [*(tmp_path / "out").iterdir(), tmp_path / "l"]:
        content = path.read_bytes()
        if path.suffix == ".npy":
            assert len(set(np.load(path).ravel().tolist()) & {*secrets, *exact}) <= 1
        for secret in secrets:
            assert not says(secret, content), path.name
            assert int(secret).to_bytes(8, "little") not in content, path.name
    for shown in (repr(release), str(release.receipt), *capsys.readouterr()):
        assert not any(says(secret, shown) for secret in secrets)


def test_true_counts_are_not_even_reachable_through_pickle(make):
    assert b"Counted" not in pickle.dumps(dict(make().receipt))


def test_margins_are_those_of_the_maximal_tables():
    domain = rs.Domain.of_sizes([2, 3, 4, 2])
    workload = rs.marginals(domain, [("a0", "a1", "a2"), ("a1", "a3"), ("a2", "a3")])
    everything = np.arange(len(workload.lattice))
    layout = maximal_layout(workload.lattice, domain.sizes, everything)
    x = np.random.default_rng(1).integers(0, 50, domain.sizes)
    tables = np.concatenate(
        [x.sum(axis=tuple(i for i in range(4) if i not in row)).ravel() for g in layout for row in g.members]
    )
    from residua.linalg.lattice import layout_of

    wanted = layout_of(workload.lattice, domain.sizes)
    found = margins(layout, tables, wanted)
    for group in wanted:
        for row, table in zip(group.members, group.view(found), strict=True):
            assert np.array_equal(table, x.sum(axis=tuple(i for i in range(4) if i not in row)))


def test_measuring_only_what_is_left_of_a_plan(domain, records, tmp_path):
    """A residual plan skips sets in the middle of the lattice; what it measures is still right."""
    wide = rs.plan(rs.marginals(domain, ways=range(4)), rs.ZCDP(0.5))
    narrow = rs.plan(rs.marginals(domain, ways=[1]), rs.ZCDP(0.5))
    shared = rs.common([wide, narrow])
    left = rs.residual(wide, given=shared)
    ledger = rs.Ledger(tmp_path / "l", rs.ZCDP(1.0))
    release = rs.measure(left, records, ledger=ledger)
    assert ledger.spent_exactly < 1
    assert not release.plan.supports(["sex", "age", "region"]) or (release.plan.variance(["sex"]) > 0).all()
    assert release.estimator.marginal((0, 1, 2)).shape == (2, 4, 4)


def test_the_ledger_is_debited_first_and_exactly_once(domain, records, tmp_path):
    plan = rs.plan(rs.marginals(domain, ways=[1]), rs.ZCDP(0.4))
    ledger = rs.Ledger(tmp_path / "l", rs.ZCDP(1.0))
    rs.measure(plan, records, ledger=ledger, purpose="first")
    rs.measure(plan, records, ledger=str(tmp_path / "l"), purpose="second")
    assert [entry.purpose for entry in ledger.entries] == ["first", "second"]
    with pytest.raises(LedgerError, match="exhausted"):
        rs.measure(plan, records, ledger=ledger)
    assert len(ledger.entries) == 2
    with pytest.raises(LedgerError, match="another dataset"):
        rs.measure(rs.plan(rs.marginals(domain, ways=[1]), rs.ZCDP(0.1)), records.slice(1), ledger=ledger)


@pytest.mark.parametrize(("column", "value", "message"), [("sex", "X", "sex"), ("age", 9, "age"), ("age", None, "age")])
def test_a_value_the_domain_refuses_stops_before_anything_is_spent(domain, records, tmp_path, column, value, message):
    values = records[column].to_pylist()
    values[17] = value
    broken = records.set_column(records.column_names.index(column), column, [values])
    ledger = rs.Ledger(tmp_path / "l", rs.ZCDP(1.0))
    plan = rs.plan(rs.marginals(domain, ways=[1]), rs.ZCDP(0.4))
    with pytest.raises(SourceError, match=message):
        rs.measure(plan, broken, ledger=ledger)
    assert ledger.spent_exactly == 0


def test_notice_is_for_the_curator_only(domain, records, tmp_path):
    seen = []
    ledger = rs.Ledger(tmp_path / "l", rs.ZCDP(1.0))
    plan = rs.plan(rs.marginals(domain, ways=[1]), rs.ZCDP(0.4))
    rs.measure(plan, records, ledger=ledger, notice=seen.append)
    assert seen[0].other["region"] == records["region"].to_pylist().count("elsewhere")


def test_empty_data_is_measured_like_any_other(domain, records, tmp_path):
    ledger = rs.Ledger(tmp_path / "l", rs.ZCDP(1.0))
    plan = rs.plan(rs.marginals(domain, ways=[0, 1]), rs.ZCDP(0.5))
    release = rs.measure(plan, records.slice(0, 0), ledger=ledger)
    assert abs(release.count().estimate) < 8 * release.count().stddev


def unanswered(release):
    """A table of a release that lacks it: the same without the largest tables."""
    few = rs.plan(rs.marginals(release.domain, ways=[1]), rs.ZCDP(0.5))
    lacking = rs.Release(few, few.measurements, np.zeros(few.measurements.cells, dtype=np.int64), release.receipt)
    return lacking.table(["sex", "age", "region"])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda r: r.table(["sex", "nope"]), "unknown attribute"),
        (unanswered, "does not answer"),
        (lambda r: r.table(["sex"], confidence=1.0), "confidence"),
        (lambda r: r.table(["sex"], confidence=float("nan")), "confidence"),
        (lambda r: r.table(["sex"], simultaneous="all"), "simultaneous"),
        (lambda r: r.count({"sex": "X"}), "not a value"),
        (lambda r: r.count({"sex": []}), "names no value"),
        (lambda r: r.combination({}), "combination is empty"),
        (lambda r: r.combination({("sex",): [1, 2, 3]}), "shape"),
        (lambda r: r.save("/nonexistent/folder/out"), "does not exist"),
        (lambda r: rs.Release.load("/nonexistent"), "no release folder"),
        (lambda r: rs.measure("plan", None, ledger="x"), "not a plan"),
        (lambda r: rs.measure(r.planned, None, ledger="/nonexistent"), "nonexistent"),
    ],
)
def test_bad_questions(make, call, message):
    with pytest.raises(rs.ResiduaError, match=message):
        call(make())


def test_the_ledgers_unit_must_be_the_plans(domain, records, tmp_path):
    ledger = rs.Ledger(tmp_path / "l", rs.ZCDP(1.0), unit=rs.AddRemove(2))
    with pytest.raises(LedgerError, match="unit"):
        rs.measure(rs.plan(rs.marginals(domain, ways=1), rs.ZCDP(0.5)), records, ledger=ledger)


def test_tables_in_every_form(make, tmp_path):
    table = make().table(["sex", "region"], simultaneous="table")
    frame = table.to_pandas()
    assert len(frame) == 8
    assert table.to_polars().height == 8
    assert table.to_arrow().num_rows == 8
    text = table.to_csv(tmp_path / "t.csv")
    assert text.splitlines()[0] == '"sex","region","estimate","stddev","lower","upper"'
    assert (tmp_path / "t.csv").read_text() == text
    table.to_parquet(tmp_path / "t.parquet")
    import pyarrow.parquet as pq

    assert pq.read_table(tmp_path / "t.parquet").equals(table.to_arrow())
    assert "estimate" in repr(table)
    wider = make().table(["sex", "region"], simultaneous="release")
    assert wider.width > table.width > make().table(["sex", "region"]).width


def test_a_release_of_another_plan_is_refused(make):
    release = make()
    with pytest.raises(PlanError, match="do not fit"):
        Release(release.planned, release.measurements, release.noisy[:-1])


def test_two_attributes_of_equal_size_do_not_share_state(tmp_path):
    """Same size, different treatment: one is asked alone and precisely, the other only in a pair."""
    domain = rs.Domain.of_sizes({"a": 4, "b": 4})
    plan = rs.plan(rs.marginals(domain, [("a",)], weight=1000.0) + rs.marginals(domain, [("b",)]), rs.ZCDP(0.5))
    assert plan.variance(["a"]).max() < plan.variance(["b"]).min() / 5
    data = pa.table({"a": [0] * 900 + [1] * 100, "b": [3] * 1000})
    release = rs.measure(plan, data, ledger=rs.Ledger(tmp_path / "l", rs.ZCDP(0.5)))
    assert release.table(["a"]).stddev.max() < release.table(["b"]).stddev.min()
    assert release.estimates(["a"])[0] > 800
    assert release.estimates(["b"])[3] > 800


def test_a_release_folder_can_be_moved(make, tmp_path):
    make().save(tmp_path / "out")
    shutil.move(tmp_path / "out", tmp_path / "elsewhere")
    rs.Release.load(tmp_path / "elsewhere").table(["sex"])
    body = json.loads((tmp_path / "elsewhere" / "release.json").read_text())
    assert body["format"] == "residua release"


def test_a_biased_release_gives_no_intervals(tmp_path):
    domain = rs.Domain({"x": rs.Integers(0, 7)})
    workload = rs.explicit(domain, np.tril(np.ones((8, 8))))
    plan = rs.plan(workload, rs.ZCDP(0.005), form=rs.Matrix(bias=0.3))
    data = pa.table({"x": np.arange(800) % 8})
    release = rs.measure(plan, data, ledger=rs.Ledger(tmp_path / "l", rs.ZCDP(0.005)))
    answers = release.answers(plan.workload)
    assert np.isnan(answers.columns["lower"]).all()
    release.save(tmp_path / "out")
    statement = (tmp_path / "out" / "PRIVACY.md").read_text()
    assert "root mean square over the queries" in statement


def test_the_statement_never_claims_more_than_is_true(make, tmp_path):
    make().save(tmp_path / "out")
    statement = (tmp_path / "out" / "PRIVACY.md").read_text()
    assert "epsilon = 4.8866 at delta = 1e-06" in statement  # 4.88655… rounded up


def counts_alive():
    gc.collect()
    return sum(isinstance(each, Counted) for each in gc.get_objects())


def test_what_goes_wrong_after_the_debit_says_so_and_keeps_no_count(domain, records, tmp_path):
    ledger = rs.Ledger(tmp_path / "l", rs.ZCDP(1.0))
    plan = rs.plan(rs.marginals(domain, ways=[1]), rs.ZCDP(0.4))

    def progress(step, done, total):
        if step == "adding noise":
            raise RuntimeError("the terminal is gone")

    before = counts_alive()
    with pytest.raises(RuntimeError, match="gone") as caught:
        rs.measure(plan, records, ledger=ledger, progress=progress)
    assert "Debit 1 of the ledger stands" in caught.value.__notes__[0]
    assert counts_alive() == before  # with all frames of the error, and what their variables lead to
    frame = caught.value.__traceback__
    while frame is not None:
        if frame.tb_frame.f_code.co_name in ("residual_measurements", "add_noise", "counter"):
            assert not frame.tb_frame.f_locals
        frame = frame.tb_next
    with pytest.raises(LedgerError, match="not a ledger"):
        rs.measure(plan, records, ledger=7)
    huge = pa.table({"sex": ["F"], "age": [1], "region": ["n"], "one": ["only"], "n": [2**50]})
    with pytest.raises(SourceError, match="more records"):
        rs.measure(plan, rs.Source.frame(huge, counts="n"), ledger=rs.Ledger(tmp_path / "m", rs.ZCDP(1.0)))
    assert rs.Ledger(tmp_path / "m").spent_exactly == 0
