"""Scores: exact integers, a price that no change of records exceeds, debited before data, and noise as stated."""

from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest

import residua as rs
from residua.errors import LedgerError, PlanError, PrivacyError, VerificationError
from residua.measurement.score import GRID, ScoreMeasurements, compile_scores

DOMAIN = rs.Domain.of_sizes({"a": 3, "b": 2, "c": 2})
RANDOM = np.random.default_rng(3)
CODES = np.stack([RANDOM.integers(0, n, 400) for n in (3, 2, 2)], 1)
MODELS = {
    ("b", "a"): RANDOM.random((2, 3)) * 150,
    ("c",): [100.25, 300.0],
    (): 398.5,
    ("a", "b", "c"): np.full((3, 2, 2), 33.0),
}


def data_of(codes=CODES):
    return pa.table({name: codes[:, i] for i, name in enumerate("abc")})


def table(codes, members):
    sizes = [int(DOMAIN.sizes[i]) for i in members]
    flat = np.ravel_multi_index([codes[:, i] for i in members], sizes) if members else np.zeros(len(codes), int)
    return np.bincount(flat, minlength=int(np.prod(sizes))).reshape(sizes)


def exact_scores(codes, measurements, order):
    """The integers, by Python alone."""
    found = []
    starts = {
        m: s for g in measurements.layout for m, s in zip(map(tuple, g.members.tolist()), _starts(g), strict=True)
    }
    for members in order:
        true = table(codes, members).ravel().tolist()
        model = measurements.models[starts[members] : starts[members] + len(true)].tolist()
        found.append(sum(abs(GRID * m - int(x)) for m, x in zip(true, model, strict=True)) - sum(map(int, model)))
    return found


def _starts(group):
    return [group.start + group.cells * i for i in range(len(group.numbers))]


def counted(codes, measurements):
    flat = np.zeros(measurements.layout.cells, dtype=np.int64)
    for group in measurements.layout:
        for members, start in zip(group.members.tolist(), _starts(group), strict=True):
            flat[start : start + group.cells] = table(codes, members).ravel()
    return flat


def measured(codes, measurements):
    tables = counted(codes, measurements)
    return np.concatenate([measurements.integers(batch, tables).ravel() for batch in measurements.batches()]).tolist()


@pytest.mark.parametrize("unit", [rs.AddRemove(), rs.AddRemove(3), rs.ReplaceOne(), rs.Person(2)])
def test_no_change_of_records_costs_more_than_the_price_and_some_change_costs_that(unit):
    measurements = compile_scores(DOMAIN, MODELS, 7.0)
    order = measurements.order
    before = exact_scores(CODES, measurements, order)
    assert measured(CODES, measurements) == before
    worst, records = Fraction(0), getattr(unit, "records", 1)
    for cell in range(12):
        row = np.array([np.unravel_index(cell, (3, 2, 2))])
        changes = [np.concatenate([CODES, np.repeat(row, records, axis=0)])]
        if isinstance(unit, rs.ReplaceOne):
            changes = [np.concatenate([CODES[:k], row, CODES[k + 1 :]]) for k in range(0, 400, 7)]
        for codes in changes:
            moved = [Fraction(x - y) for x, y in zip(exact_scores(codes, measurements, order), before, strict=True)]
            worst = max(worst, sum(x * x for x in moved) / Fraction(measurements.scale) ** 2)
    price = measurements.cost(unit)
    assert worst <= price
    far = compile_scores(DOMAIN, {("a", "b", "c"): np.full((3, 2, 2), 1e6)}, 7.0)
    order = far.order
    assert far.cost(rs.AddRemove(3)) - Fraction(9, 49) < Fraction(1, 2**150)  # every record brings it nearer by 1
    more = exact_scores(np.concatenate([CODES, CODES[:3]]), far, order)[0]
    assert abs(more - exact_scores(CODES, far, order)[0]) == 3 * GRID


def test_the_verifier_refuses_what_is_not_what_it_says():
    measurements = compile_scores(DOMAIN, MODELS, 7.0)
    for wrong in (
        ScoreMeasurements(measurements.layout, measurements.models, 0.1),
        ScoreMeasurements(measurements.layout, measurements.models.astype(float), 7.0),  # type: ignore[arg-type]
        ScoreMeasurements(measurements.layout, -measurements.models, 7.0),
        ScoreMeasurements(measurements.layout, np.full_like(measurements.models, 2**60), 7.0),
        ScoreMeasurements(measurements.layout, measurements.models[:-1], 7.0),
    ):
        with pytest.raises(VerificationError):
            wrong.cost(rs.AddRemove())


def test_scores_are_unbiased_with_the_noise_stated_and_the_exact_price(tmp_path):
    """False alarm: 6 standard deviations of 200 means, and of their variance, below one in a million."""
    ledger = rs.Ledger(tmp_path / "l", rs.ZCDP(100.0))
    many = {names: np.asarray(model) for names, model in MODELS.items()}
    found = [rs.score(DOMAIN, many, data_of(), rs.ZCDP(0.02), ledger=ledger) for _ in range(25)]
    values, stddev = np.array([one.values for one in found]), found[0].stddev
    assert stddev == pytest.approx(np.sqrt(4 / 0.04), rel=1e-6)
    allowed = 25 * rs.ZCDP(0.02).pcost_allowed()
    assert allowed * (1 - Fraction(1, 2**40)) < ledger.spent_exactly <= allowed
    places = {names: tuple(sorted(names)) for names in many}
    for i, names in enumerate(found[0].attributes):
        given = next(n for n in many if places[n] == tuple(sorted(names)))
        model = many[given] if tuple(given) == names else many[given].T
        true = np.abs(table(CODES, ["abc".index(n) for n in names]) - model).sum()
        assert abs(values[:, i].mean() - true) < 6 * stddev / 5 + 0.01
    assert 0.55 < values.std(axis=0).mean() / stddev < 1.5
    assert (found[0].upper(0.999999) > found[0].values).all()


def test_bad_input_is_refused_before_anything_is_spent(tmp_path):
    ledger = rs.Ledger(tmp_path / "l", rs.ZCDP(1.0))

    def scored(models=MODELS, budget=None, domain=DOMAIN, data=None):
        return rs.score(domain, models, data_of() if data is None else data, budget or rs.ZCDP(0.1), ledger=ledger)

    for models in ({}, {("a",): [1.0, 2.0]}, {("a",): [1.0, -2.0, 1.0]}, {("a",): [1.0, np.nan, 1.0]}):
        with pytest.raises(PlanError):
            scored(models)
    with pytest.raises(PlanError, match="two models"):
        scored({("a", "b"): np.ones((3, 2)), ("b", "a"): np.ones((2, 3))})
    with pytest.raises(PrivacyError, match="normal"):
        scored(budget=rs.PureDP(1.0))
    with pytest.raises(PlanError, match="domain="):
        scored(domain="x")
    with pytest.raises(rs.ResiduaError):
        scored(data=pa.table({"a": [7], "b": [0], "c": [0]}))
    with pytest.raises(LedgerError, match="exhausted"):
        scored(budget=rs.ZCDP(2.0))
    assert ledger.spent_exactly == 0
