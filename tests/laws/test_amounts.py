"""Amounts: exact units, prices against every pair of neighbours, errors as stated, and what is refused."""

import json
import subprocess
import sys
from decimal import Decimal
from fractions import Fraction
from functools import partial
from itertools import combinations_with_replacement, product
from pathlib import Path

import numpy as np
import openpyxl
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest

import residua as rs
from residua.domain.codec import encode
from residua.errors import DomainError, FileError, PlanError, ResiduaError, SourceError, WorkloadError
from residua.measurement.noisy import margins, maximal_layout, with_noise
from residua.measurement.parts import in_parts
from residua.source import source_of
from residua.source.counting import count
from tests.cli.command import inside

CELLS = {"sex": ["F", "M"], "region": ["n", "s", "w"]}
PAY = rs.Amount(0, 30, unit=10)  # 3 units
DOMAIN = rs.Domain(CELLS | {"pay": PAY})
TWO = rs.Domain(CELLS | {"pay": PAY, "debt": rs.Amount(-1, 1, unit=0.5)})  # 3 and 4 units: 12 parts
ASKED = rs.marginals(DOMAIN, [("sex", "region"), ("sex", "pay"), ("region", "pay")])


# ---- units: one rule for every type


@pytest.mark.parametrize(
    "amount", [rs.Amount(0, 1, unit=0.1), rs.Amount(-5, 5, unit=2.5), rs.Amount(100, 350, unit=50)]
)
def test_units_are_exact_whatever_the_type(amount):
    low, high, unit = (Fraction(str(part)) for part in (amount.low, amount.high, amount.unit))
    ties = [low + (k + Fraction(1, 2)) * unit for k in range(-2, amount.steps + 2)]
    near = [tie + Fraction(sign, 10**9) for tie in ties for sign in (-1, 0, 1)]
    decimals = [Decimal(each.numerator) / Decimal(each.denominator) for each in near]
    exact = [int((min(max(Fraction(each), low), high) - low) / unit + Fraction(1, 2)) for each in decimals]
    texts = [f"{each:f}" for each in decimals]
    columns = [
        pa.array(texts),
        pa.array([f" {each:E}" for each in decimals]),
        pa.array(decimals, pa.decimal128(30, 12)),
        pa.array([float(text) for text in texts]),
        pa.array(texts).dictionary_encode(),
        pa.array(texts, pa.large_string()),
    ]
    for column in columns:
        assert encode(amount, column).tolist() == exact


def test_what_is_no_finite_number_follows_the_policies():
    column = pa.array(["3", "", "inf", "-Infinity", "x", "nan", "1e999", "1e-999999999", "0." + "3" * 9000, "true"])
    assert encode(rs.Amount(0, 10), column).tolist() == [3, -2, -1, -1, -1, -2, -1, 0, 0, 1]
    assert encode(rs.Amount(-1.5, 1.5), pa.array(["1e-999999999", "-1e-9", "1e-9"])).tolist() == [2, 1, 2]
    assert encode(rs.Amount(0, 10), pa.array([None, float("nan"), float("inf")])).tolist() == [-2, -2, -1]
    with pytest.raises(DomainError, match="no cell of other values"):
        rs.Amount(0, 10, missing="other")


# ---- counting: a record is a mean of its ends


def _counted(domain, plan, rows):
    """What is counted of rows, for the measurements of a plan, in parts of records."""
    table = pa.table({name: list(column) for name, column in zip(domain.names, zip(*rows, strict=True), strict=True)})
    wanted = plan.measurements.counted
    layout = maximal_layout(wanted.lattice, wanted.sizes, np.flatnonzero(wanted.starts >= 0))
    return margins(layout, count(source_of(table), domain, layout).tables, wanted)


def test_tables_hold_the_units_of_every_amount():
    rng = np.random.default_rng(0)
    rows = [
        (rng.choice(["F", "M"]), rng.choice(["n", "s", "w"]), rng.uniform(-5, 40), rng.uniform(-2, 2))
        for _ in range(300)
    ]
    plan = rs.plan(rs.marginals(TWO, [("sex", "pay"), ("region", "debt"), ("sex", "region")]), rs.ZCDP(0.5))
    tables = _counted(TWO, plan, rows)
    assert TWO.parts == 12
    for group in plan.measurements.counted:
        for members, counted in zip(group.members.tolist(), group.view(tables), strict=True):
            names = [TWO.names[i] for i in members]
            expected = np.zeros(counted.shape)
            for row in rows:
                place, high = [], 1.0
                for name, value in zip(TWO.names, row, strict=True):
                    if name not in names:
                        continue
                    attribute = TWO[name]
                    place.append(slice(None) if attribute.summed else attribute.labels.index(value))
                    if attribute.summed:
                        share = encode(attribute, pa.array([value]))[0] / attribute.steps
                        high = np.array([1 - share, share])
                expected[tuple(place)] += 12 * high
            np.testing.assert_allclose(counted, expected, atol=1e-9)


# ---- price: every pair of neighbours, from the integers that are really measured


def _vectors(domain, plan):
    """Of every record (cell and amount): what it adds to all measurements, each over its noise scale."""
    measurements, vectors = plan.measurements, {}
    values = [list(attribute.labels) for attribute in domain.attributes.values() if not attribute.summed]
    amounts = [
        [attribute.low + k * attribute.unit for k in range(attribute.steps + 1)]
        for attribute in domain.attributes.values()
        if attribute.summed
    ]
    for record in product(*values, *amounts):
        tables = np.array(_counted(domain, plan, [record]))
        parts = []
        for batch in measurements.batches():
            own = np.array(measurements.integers(batch, tables.copy()), dtype=float)
            parts.append((own / in_parts(batch, domain.parts).scales[:, None]).ravel())
        vectors[record] = np.concatenate(parts)
    return vectors


def _norm(vector, plan):
    return float(vector @ vector) if plan.noise.gaussian else float(np.abs(vector).sum())


BUDGETS = {"normal": rs.ZCDP(0.5), "laplace": rs.PureDP(1.0)}


@pytest.mark.parametrize("noise", BUDGETS)
@pytest.mark.parametrize("domain", [DOMAIN, TWO], ids=["one", "two"])
def test_the_price_is_that_of_the_worst_record(noise, domain):
    workload = rs.marginals(domain, ways=[1, 2])
    plan = rs.plan(workload, BUDGETS[noise])
    vectors = list(_vectors(domain, plan).values())
    price = float(plan.measurements.cost(plan.unit))
    worst = max(_norm(vector, plan) for vector in vectors)
    assert worst <= price * (1 + 1e-12)
    assert worst == pytest.approx(price, rel=1e-9)  # and no more than that is paid


@pytest.mark.parametrize("noise", BUDGETS)
@pytest.mark.parametrize(
    "unit",
    [rs.AddRemove(2), rs.ReplaceOne(), rs.Person(2), rs.Person(2, "region"), rs.Person(2, ["sex", "region"])],
    ids=str,
)
def test_no_unit_changes_more_than_it_pays_for(noise, unit):
    plan = rs.plan(ASKED, BUDGETS[noise], unit=unit)
    vectors = _vectors(DOMAIN, plan)
    price = float(plan.measurements.cost(unit))
    limits = dict(getattr(unit, "limits", {}))
    pairs = []
    for (a, first), (b, second) in combinations_with_replacement(vectors.items(), 2):
        if isinstance(unit, rs.ReplaceOne):
            pairs.append(first - second)
        elif all(a[DOMAIN.position(name)] != b[DOMAIN.position(name)] for name in limits):
            pairs.append(first + second)
    worst = max(_norm(each, plan) for each in pairs)
    assert worst <= price * (1 + 1e-12)
    if not limits:
        assert worst == pytest.approx(price, rel=1e-6)


# ---- errors as stated


@pytest.mark.parametrize(("noise", "draws", "kurtosis"), [("normal", 1000, 3), ("laplace", 3000, 6)])
def test_sums_err_as_stated(noise, draws, kurtosis):
    rng = np.random.default_rng(3)
    rows = [(rng.choice(["F", "M"]), rng.choice(["n", "s", "w"]), 30 * rng.random()) for _ in range(40)]
    plan = rs.plan(ASKED, BUDGETS[noise])
    tables, cells = _counted(DOMAIN, plan, rows), plan.measurements.cells

    def sums_of(noisy):
        return rs.Release(plan, plan.measurements, noisy).table(["sex", "pay"]).estimates[:, 0]

    steps = 2**40 * np.eye(cells, dtype=np.int64)
    reading = np.array([sums_of(step) for step in steps]) / 2**40  # estimates are linear in what was measured
    noisy = [with_noise(plan.measurements, np.array(tables), parts=DOMAIN.parts) for _ in range(draws)]
    sums, stated = (
        np.array(noisy) @ reading,
        float(rs.Release(plan, plan.measurements, noisy[0]).table(["sex", "pay"]).stddev.max()),
    )
    units = [encode(PAY, pa.array([row[2]]))[0] * 10.0 for row in rows]
    truth = np.array([sum(u for u, row in zip(units, rows, strict=True) if row[0] == sex) for sex in ("F", "M")])
    errors = (sums - truth) / stated
    # A mean is within 5.2 of its deviations, a mean square within 6.2 of its own (Edgeworth's correction for the tails
    # of a Laplace square included): together with false alarms of less than one in a million.
    assert np.abs(errors.mean(axis=0)).max() < 5.2 / np.sqrt(draws)
    assert np.abs((errors**2).mean(axis=0) - 1).max() < 6.2 * np.sqrt((kurtosis - 1) / draws)


# ---- releases


def _data(n=3000):
    rng = np.random.default_rng(5)
    return pa.table(
        {
            "sex": rng.choice(["F", "M"], n),
            "region": rng.choice(["n", "s", "w"], n),
            "pay": [f"{value:.2f}" for value in rng.gamma(2.0, 8.0, n)],
            "person": rng.integers(0, n // 2, n),
        }
    )


def _measured(folder, domain=DOMAIN, unit=None, data=None, budget=None, **options):
    budget = rs.ZCDP(5.0) if budget is None else budget
    unit = rs.AddRemove() if unit is None else unit
    plan = rs.plan(rs.marginals(domain, ways=[1, 2]), budget, unit=unit)
    ledger = rs.Ledger.create(folder / "a.ledger", rs.ZCDP(100.0), unit=unit)
    return rs.measure(plan, _data() if data is None else data, ledger=ledger, **options), ledger


def test_a_release_of_sums_is_one_debit_and_survives_its_folder(tmp_path):
    release, ledger = _measured(tmp_path, out=tmp_path / "release")
    assert len(ledger.entries) == 1
    data = _data().to_pandas()
    true = np.rint(data["pay"].astype(float).clip(0, 30) / 10).groupby(data["sex"]).sum() * 10
    table = rs.Release.load(tmp_path / "release").table(["sex", "pay"])
    assert table.columns["pay"] == ["sum", "sum"]
    assert np.abs(table.estimates[:, 0] - true.to_numpy()).max() < 7 * float(np.max(table.stddev))
    titles = [each.title for each in release.tables()]
    assert "sex × pay: sum" in titles
    assert "sex × region" in titles
    mean = release.mean("pay", by=["sex"])
    assert "above 30 as 30" in mean.note
    assert "was not measured" in mean.note
    assert sum(release.sum("pay", by=["region"]).columns["estimate"]) == pytest.approx(
        release.sum("pay").columns["estimate"][0]
    )
    assert rs.project(release).table(["sex", "pay"]).columns["pay"] == ["sum", "sum"]


def test_sums_tell_how_many_records_were_clipped(tmp_path):
    domain = rs.Domain(CELLS | {"pay": rs.Amount(0, 30, unit=10, clipped="beyond"), "beyond": ["false", "true"]})
    data = source_of(_data()).with_columns({"beyond": "CAST(pay AS DOUBLE) > 30"})
    release, _ = _measured(tmp_path, domain, data=data)
    assert "% of the records (" in release.mean("pay").note
    with pytest.raises(DomainError, match="clipped='nobody' is no attribute"):
        rs.Domain(CELLS | {"pay": rs.Amount(0, 30, unit=10, clipped="nobody")})


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "frame", "dictionary", "decimal", "computed"])
def test_every_source_tells_which_amounts_were_clipped_without_a_column_for_it(tmp_path, kind):
    """By name and number alone: `clipped` and the bounds, whatever the records are kept in."""
    pay = ["-1", "0", "12.5", "30", "30.01", "1e3", "-0.5", "29.99", "", "x"] * 20
    rows = {"sex": ["F", "M"] * 100, "pay": pay}
    numbers = [float(each) if each not in ("", "x") else None for each in pay]
    if kind == "csv":
        lines = [f"{sex};{each.replace('.', ',')}" for sex, each in zip(*rows.values(), strict=True)]
        (tmp_path / "pay.csv").write_text("\n".join(["sex;pay", *lines]), encoding="utf-8")
        source = rs.Source.csv(tmp_path / "pay.csv", delimiter=";", decimal=",")
    elif kind == "jsonl":
        lines = [json.dumps({"sex": sex, "pay": each}) for sex, each in zip(rows["sex"], numbers, strict=True)]
        (tmp_path / "pay.jsonl").write_text("\n".join(lines), encoding="utf-8")
        source = rs.Source.jsonl(tmp_path / "pay.jsonl")
    else:
        column = {"dictionary": pa.array(pay).dictionary_encode(), "frame": pa.array(pay), "computed": pa.array(pay)}
        column |= {"parquet": pa.array(numbers), "decimal": pa.array(numbers).cast(pa.decimal128(12, 2))}
        table = pa.table({"sex": rows["sex"], "pay": column[kind]})
        pq.write_table(table, tmp_path / "pay.parquet")
        source = rs.Source.parquet(tmp_path / "pay.parquet") if kind == "parquet" else rs.Source.frame(table)
        source = source.with_columns({"other": "1"}) if kind == "computed" else source
    amount = rs.Amount(0, 30, unit=10, clipped="beyond", unknown="drop", missing="drop")
    domain = rs.Domain({"sex": ["F", "M"], "beyond": ["false", "true"], "pay": amount})
    plan = rs.plan(rs.marginals(domain, [("sex", "beyond"), ("pay",)]), rs.ZCDP(1e6))
    release = rs.measure(plan, source, ledger=rs.Ledger(tmp_path / "l", rs.ZCDP(1e6)))
    found = release.table(["sex", "beyond"]).estimates
    outside = [sum(n is not None and not 0 <= n <= 30 for n in numbers[start::2]) for start in (0, 1)]
    known = [sum(n is not None for n in numbers[start::2]) for start in (0, 1)]
    np.testing.assert_allclose(found, [[n - o, o] for n, o in zip(known, outside, strict=True)], atol=0.1)


def _heavy(tmp_path, largest, *, by_sex=True, spent=0.2):
    """A tenth of the records has the largest amount that there can be: what clipping hides is as much as it can."""
    pay = rs.Amount(0, 30, unit=10, clipped="beyond", largest=largest)
    domain = rs.Domain({"sex": ["F", "M"], "pay": pay, "beyond": ["false", "true"]})
    amounts = np.tile(np.r_[np.arange(0, 27, 3), float(largest or 90)], 60)
    data = pa.table({"sex": ["F"] * 200 + ["M"] * 400, "pay": amounts})
    source = source_of(data).with_columns({"beyond": "pay > 30"})
    asked = [("sex", "pay"), ("sex", "beyond") if by_sex else ("beyond",)]
    plan = rs.plan(rs.marginals(domain, asked), rs.ZCDP(spent))
    ledger = rs.Ledger(tmp_path / "l", rs.ZCDP(1e4))
    return partial(rs.measure, plan, source, ledger=ledger), np.array([amounts[:200].sum(), amounts[200:].sum()])


@pytest.mark.parametrize("by_sex", [True, False])
def test_intervals_hold_what_clipping_hides_where_it_is_bounded(tmp_path, by_sex):
    """At the worst: all that is clipped is the largest. False alarm: 25 misses of 120 at 5 %, 1e-9."""
    measured, true = _heavy(tmp_path, 90, by_sex=by_sex)
    missed, narrow = 0, []
    for _ in range(40):
        release = measured()
        sums, whole = release.sum("pay", by=["sex"]), release.mean("pay")
        missed += int(((true < sums.lower) | (true > sums.upper)).sum())
        missed += not whole.lower <= true.sum() / 600 <= whole.upper
        narrow.append(float(whole.upper))
    assert missed < 25
    assert max(narrow) < 90 * 0.5  # and say something
    assert "of which none is above 90" in sums.note
    mean = release.mean("pay", by=["sex"])
    assert ("of which none is above 90" in mean.note) is by_sex  # else said in words that nothing bounds it
    assert by_sex or "for how many by group was not measured" in mean.note


def test_without_a_largest_amount_nothing_is_bounded_and_every_number_says_so(tmp_path):
    measured, true = _heavy(tmp_path, None, spent=200.0)
    release = measured()
    sums = release.sum("pay", by=["sex"])
    assert (true > sums.upper).all()
    for said in (sums.note, release.mean("pay").note, release.table(["sex", "pay"]).note):
        assert "in no interval" in said
    release.report(tmp_path / "page.html")
    assert "in no interval" in (tmp_path / "page.html").read_text()
    release.export(tmp_path / "csv", "datapackage")
    said = (tmp_path / "csv" / "datapackage.json").read_text()
    assert "in no interval" in said
    assert "Estimated count," not in said


def test_amounts_beyond_the_largest_are_unknown_and_stop_before_anything_is_spent(tmp_path):
    bounded = rs.Amount(0, 30, unit=10, largest=90)
    column = pa.array(["30.5", "90", "90.01", "-0.01", "0", "inf", None])
    assert encode(bounded, column).tolist() == [3, 3, -1, -1, 0, -1, -2]
    assert rs.Domain.load(_saved(tmp_path, rs.Domain({"pay": bounded})))["pay"] == bounded
    with pytest.raises(DomainError, match="largest=20 is below high=30"):
        rs.Amount(0, 30, unit=10, largest=20)
    assert "so that none was clipped" in rs.Amount(0, 30, unit=10, largest=30).counts("pay")


def _saved(folder, domain):
    domain.save(folder / "domain.toml")
    return folder / "domain.toml"


@pytest.mark.parametrize("noise", [rs.ZCDP(50.0), rs.ZCDP(0.5)])
def test_groups_of_people_have_sums_of_their_own(tmp_path, noise):
    """One plan within each region: the price of one, sums and means as of the records."""
    inner = rs.plan(rs.marginals(DOMAIN, [("sex", "pay"), ("sex",)]), noise)
    plan = rs.by_group(inner, by=["region"])
    assert plan.pcost == pytest.approx(inner.pcost, rel=1e-9)
    data = pa.table({"sex": ["F", "M", "M"] * 300, "region": ["n", "s", "s"] * 300, "pay": [10.0, 44.0, 20.0] * 300})
    release = rs.measure(plan, data, ledger=rs.Ledger(tmp_path / "l", rs.ZCDP(100.0)))
    sums = release.sum("pay", by=["region", "sex"])
    true = np.array([[3000.0, 0.0], [0.0, 15000.0], [0.0, 0.0]])
    assert (np.abs(sums.estimate - true) < 7 * sums.stddev).all()
    np.testing.assert_allclose(release.table(["region", "sex", "pay"]).estimates[..., 0].T, sums.estimate.T)


def test_of_persons_the_same_records_are_counted_and_summed(tmp_path):
    """Everyone's pay is 30, so that the sum is 30 times the number of records that are counted."""
    data = _data().set_column(2, "pay", pa.array(["30"] * 3000))
    source = source_of(data).with_options(person=("person",))
    release, _ = _measured(tmp_path, unit=rs.Person(2), data=source)
    error = release.sum("pay").columns["estimate"][0] - 30 * release.count().estimate
    assert abs(error) < 30 * 7 * float(release.sum("pay").columns["stddev"][0]) / 30


# ---- what is refused


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (lambda release: release.median("pay"), "no values"),
        (lambda release: release.gini("pay"), "no values"),
        (lambda release: release.share(["pay"]), "no values"),
        (lambda release: release.count({"pay": "low"}), "no values"),
        (lambda release: release.count("pay > 10"), "no values"),
        (lambda release: release.top(["pay"]), "no values"),
        (lambda release: release.mean("pay", by=["pay"]), "no values"),
        (lambda release: release.mean("pay", values=[0, 1]), "leave values out"),
        (lambda release: release.table(["pay"], queries={"pay": "prefixes"}), "ask for its 'sum'"),
        (lambda release: release.table(["sex"], queries={"sex": "sum"}), "is no amount"),
        (lambda release: release.given({"pay": [1, 2]}), "leave the amount out"),
        (lambda release: rs.project(release, known={("pay",): [1, 2]}), "leave the amount out"),
        (lambda release: rs.estimate(release).rows(), "leave them out"),
    ],
)
def test_amounts_have_no_values(release, ask, says):
    with pytest.raises(ResiduaError, match=says):
        ask(release)


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    return _measured(tmp_path_factory.mktemp("amounts"))[0]


@pytest.mark.parametrize(
    ("declared", "says"),
    [
        (lambda: rs.Amount(0, float("inf")), "not a number"),
        (lambda: rs.Amount(1, 0), "low < high"),
        (lambda: rs.Amount(0, 1, unit=0.3), "whole units"),
        (lambda: rs.Amount(0, 1e9), "whole units"),
        (lambda: rs.Amount(1e12, 1e12 + 10), "too large"),
        (lambda: rs.Domain({"a": rs.Amount(0, 65521), "b": rs.Amount(0, 65519)}), "coarser ones"),
        (lambda: rs.Domain(CELLS | {"pay": PAY}, impossible=[{"sex": "F", "pay": "high"}]), "amount"),
    ],
)
def test_bad_declarations(declared, says):
    with pytest.raises(DomainError, match=says):
        declared()


def test_two_amounts_share_no_table():
    assert all(len({"pay", "debt"} & set(names)) < 2 for names in rs.marginals(TWO, ways=[2, 3]).sets)
    with pytest.raises(WorkloadError, match="two amounts"):
        rs.marginals(TWO, [("pay", "debt")])


def test_nothing_is_spent_on_amounts_that_cannot_be_measured(tmp_path):
    bad = _data().set_column(2, "pay", pa.array(["12.5"] * 2999 + ["lots"]))
    fine = rs.Domain(CELLS | {"pay": rs.Amount(0, 2**20)})
    plan = rs.plan(rs.queries(fine, ["sex = 'F'"]) + rs.marginals(fine, [("pay",)]), rs.ZCDP(1e-9))
    ledger = rs.Ledger.create(tmp_path / "a.ledger", rs.ZCDP(100.0))
    with pytest.raises(PlanError, match="choose coarser units"):
        rs.measure(plan, _data(), ledger=ledger)
    with pytest.raises(SourceError, match="'pay' has values outside"):
        rs.measure(rs.plan(ASKED, rs.ZCDP(1.0)), bad, ledger=ledger)
    assert not ledger.entries
    dropping = rs.Domain(CELLS | {"pay": rs.Amount(0, 30, unit=10, unknown="drop")})
    release = rs.measure(rs.plan(rs.marginals(dropping, ways=[0, 1]), rs.ZCDP(50.0)), bad, ledger=ledger)
    assert abs(release.count().estimate - 2999) < 1


def test_files_say_amounts_and_forged_ones_are_refused(tmp_path):
    plan = rs.plan(ASKED, rs.ZCDP(0.5))
    path = tmp_path / "plan.json"
    plan.save(path)
    assert rs.Plan.load(path).domain == DOMAIN
    path.write_text(path.read_text().replace('"unit":10', '"unit":15'))
    with pytest.raises(FileError):
        rs.Plan.load(path)
    DOMAIN.save(tmp_path / "domain.toml")
    assert rs.Domain.load(tmp_path / "domain.toml") == DOMAIN


# ---- where they are published


def test_every_format_says_what_sums_are_measured_in_and_what_was_clipped(tmp_path):
    """The Euro stands in every format, at the sums alone; and both verifiers accept the release."""
    domain = rs.Domain(CELLS | {"pay": rs.Amount(0, 30, unit=10, measured_in="EUR")})
    release, _ = _measured(tmp_path, domain, out=tmp_path / "release")
    for name in ("csv", "csvw", "px", "sdmx", "jsonstat", "parquet"):
        written = release.export(tmp_path / name, name, language="de")
        sums = [path for path in written if "sum" in path.name]
        assert len(sums) == 3, name  # in all, by sex and by region
        files = {path: path.read_bytes().decode("utf-8", "replace") for path in (tmp_path / name).iterdir()}
        text = "".join(files.values())
        assert text.count("EUR") >= 3 or name == "parquet", name
        assert "Summe" in text, name
        for path in written if name in ("px", "jsonstat", "parquet") else ():  # each file says what it estimates
            kinds = ("eine Anzahl,", "eine Summe gekappter Beträge,")
            assert [kind in files[path].replace('"\n"', "") for kind in kinds] == [path not in sums, path in sums], path
    for listing in ("csv/datapackage.json", "csvw/csv-metadata.json"):
        assert (tmp_path / listing).read_text().count("für eine Summe gekappter Beträge,") == len(sums)
    [book] = set(release.export(tmp_path / "xlsx", "xlsx"))
    sheets = openpyxl.load_workbook(book)
    assert any("Unit: EUR" in str(sheet["A2"].value) for sheet in sheets)
    [path] = release.export(tmp_path / "long", "long-csv")
    assert ",sum" in path.read_text().replace('"', "")
    note = release.table(["pay"]).note
    assert "above 30 as 30" in note
    page = tmp_path / "page.html"
    release.report(page)
    assert "sex × pay: sum" in page.read_text()
    verifier = Path(__file__).parents[2] / "verifier" / "residua_verify.py"
    done = subprocess.run([sys.executable, verifier, tmp_path / "release"], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["covered"] is True


def test_from_a_specification_to_sums_on_the_command_line(tmp_path):
    pacsv.write_csv(_data().drop_columns("person"), tmp_path / "firms.csv")
    (tmp_path / "spec.toml").write_text(SPEC)
    assert inside("ledger", "create", "spec.toml", cwd=tmp_path).code == 0
    assert inside("release", "spec.toml", "--out", "out", cwd=tmp_path).code == 0
    release = rs.Release.load(tmp_path / "out")
    for command, said in (
        ("table out sex pay", release.table(["sex", "pay"])),
        ("sum out pay --by sex", release.sum("pay", by=["sex"])),
        ("mean out pay --by sex", release.mean("pay", by=["sex"])),
    ):
        shown = inside(*command.split(), "--json", cwd=tmp_path)
        assert shown.code == 0, shown.err
        assert f"{said.columns['estimate'][0]:.4f}"[:6] in shown.out


SPEC = """
[source]
path = "firms.csv"
[privacy]
rho = 5.0
[ledger]
path = "firms.ledger"
rho = 5.0
[[workload]]
ways = [1, 2]
[domain]
sex = ["F", "M"]
region = ["n", "s", "w"]
pay = { low = 0, high = 30, unit = 10 }
"""


# ---- what is wanted of sums is wanted in their unit


@pytest.mark.parametrize("wanted", [{"stddev": 20.0}, {"stddev": {("sex", "pay"): 20.0, ("sex", "region"): 3.0}}])
def test_targets_of_sums_are_met_in_their_unit(wanted):
    plan = rs.plan(rs.marginals(DOMAIN, [("sex", "pay"), ("sex", "region")]), **wanted)
    sums = plan.variances(rs.product(DOMAIN, {"pay": "sum", "sex": "identity"}))
    assert np.sqrt(sums).max() <= 20.0 * (1 + 1e-6)
    counts = 20.0 if isinstance(wanted["stddev"], float) else 3.0
    assert np.sqrt(plan.variance(["sex", "region"])).max() <= counts * (1 + 1e-6)


# ---- where to clip


def test_clips_weigh_noise_against_what_is_lost():
    domain = rs.Domain(CELLS | {"pay": rs.Amount(5, 30, unit=5)})
    for budget, power in ((rs.ZCDP(0.5), 2), (rs.PureDP(1.0), 1)):
        plan = rs.plan(rs.marginals(domain, [("sex", "pay"), ("region",)]), budget)
        asked = {"amounts": [0, 10, 20, 90], "records": 8, "by": ["sex"], "highs": [20, 60, 100]}
        table = rs.clips(plan, "pay", **asked, wanted=1000.0)
        for high, row in zip((20, 60, 100), table, strict=True):
            other = rs.Domain(CELLS | {"pay": rs.Amount(5, high, unit=5)})
            sums = rs.plan(rs.marginals(other, [("sex", "pay"), ("region",)]), budget)
            [stated] = {
                round(float(v), 6) for v in sums.variances(rs.product(other, {"pay": "sum", "sex": "identity"}))
            }
            assert row["noise"] ** 2 == pytest.approx(stated, rel=1e-6)
            assert row["bias"] == pytest.approx(8 * (5 - max(90 - high, 0)) / 4)
            assert row["error"] == pytest.approx(np.hypot(row["noise"], row["bias"]))
            assert row["cost"] == pytest.approx((row["noise"] / np.sqrt(1e6 - row["bias"] ** 2)) ** power)
        assert table.best["cost"] == min(table["cost"])
        assert len(rs.clips(plan, "pay", amounts=range(6, 30), records=5)) > 2
        for wrong in ({"amounts": []}, {"records": 0}, {"highs": [1]}, {"wanted": -1}):
            with pytest.raises(PlanError):
                rs.clips(plan, "pay", **{**asked, **wrong})
        with pytest.raises(PlanError, match="is no amount"):
            rs.clips(plan, "sex", amounts=[1], records=1)


def test_what_knows_no_amounts_refuses_them_before_anything_is_spent(tmp_path):
    domain = rs.Domain({"month": rs.Integers(1, 12), "pay": rs.Amount(0, 1000)})
    data = pa.table({"month": [1] * 40, "pay": [3] * 40})
    ledger = rs.Ledger(tmp_path / "l", rs.ZCDP(0.5))
    plan = rs.plan(rs.prefixes(domain, "month"), rs.ZCDP(0.5), form=rs.Axis())
    with pytest.raises(rs.ResiduaError, match="amounts"):
        rs.Continual(tmp_path / "growing", ledger=ledger, plan=plan)
    with pytest.raises(rs.ResiduaError, match="amounts"):
        rs.score(domain, {("month",): [40.0] + [0.0] * 11}, data, rs.ZCDP(0.1), ledger=ledger)
    session = rs.Session(data, rs.ZCDP(0.5), ledger=tmp_path / "s")
    with pytest.raises(rs.ResiduaError, match="amounts"):
        session.adapt(rs.marginals(domain, ways=[1]), rs.ZCDP(0.5))
    assert ledger.entries == rs.Ledger(tmp_path / "s").entries == ()


@pytest.mark.parametrize(("largest", "sure"), [(None, False), (60, False), (30, True)])
def test_sums_of_which_nobody_knows_what_clipping_hides_are_not_called_reliable(tmp_path, largest, sure):
    """Their noise may be small; what lies above the bound may be most of the sum, and is in no interval."""
    domain = rs.Domain(CELLS | {"pay": rs.Amount(0, 30, unit=10, largest=largest)})
    plan = rs.plan(rs.marginals(domain, [("sex", "pay"), ("sex",)]), rs.ZCDP(0.5))
    data = pa.table({"sex": ["F", "M"] * 400, "region": ["n", "s"] * 400, "pay": [10, 30] * 400})
    release = rs.measure(plan, data, ledger=rs.Ledger(tmp_path / "l", rs.ZCDP(0.5)))
    numbers = {
        "table": release.table(["sex", "pay"]),
        "sum": release.sum("pay", by=["sex"]),
        "mean": release.mean("pay"),
        "difference": release.difference("sex", of="pay"),
        "ratio": release.ratio("pay", {}),
        "projected": rs.project(release).table(["sex", "pay"]),
    }
    for name, each in numbers.items():
        assert ("reliable" in each.flagged().columns["quality"]) == sure, name
    assert "reliable" in release.table(["sex"]).flagged().columns["quality"], "counts are not clipped"
