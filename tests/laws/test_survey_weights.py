"""Survey weights are clipped, priced by the clip, and give totals of the population with noise and sampling error."""

import math
from dataclasses import replace
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

import residua as rs
from residua.errors import DomainError, LedgerError, PlanError, SourceError
from residua.linalg.lattice import closure, layout_of
from residua.plans.verifier import priced
from tests.statistics.copies import measured

DOMAIN = rs.Domain({"region": ["n", "s"], "age": rs.Integers(0, 3)})
CELLS = layout_of(closure([np.array([[0, 1]], dtype=np.int32)], 2), DOMAIN.sizes, np.array([False, False, False, True]))
WEIGHTS = rs.Weights("w", most=20, step=0.25)


def sample(size: int, seed: int = 1) -> tuple[pa.Table, np.ndarray]:
    """Respondents drawn each by itself from 40,000 people, weighed by 1/probability; and the people of each cell."""
    random = np.random.default_rng(seed)
    region, age = random.integers(0, 2, 40_000), random.integers(0, 4, 40_000)
    chance = np.where(region == 0, 0.1, 0.25) * size
    drawn = random.random(40_000) < chance
    table = {"region": np.array(["n", "s"])[region[drawn]], "age": age[drawn], "w": 1 / chance[drawn]}
    return pa.table(table), np.bincount(4 * region + age, minlength=8)


@pytest.mark.parametrize("weight", [0, 0.1, 0.13, 7.3, 19.99, 20, 1e300])
def test_a_respondent_changes_one_cell_by_no_more_than_the_clip(weight: float) -> None:
    data = pa.table({"region": ["s"], "age": [2], "w": [weight]})
    tables = rs.Source.frame(data, weights=WEIGHTS).count(DOMAIN, CELLS).tables
    assert tables.sum() == tables[6] == round(min(weight, 20) * 4)
    assert tables[6] <= WEIGHTS.steps == 80


@pytest.mark.parametrize("wrong", [-1.0, float("nan"), float("inf"), None])
def test_what_is_no_weight_is_refused_without_a_value(wrong: float | None) -> None:
    data = pa.table({"region": ["s"], "age": [2], "w": pa.array([wrong], pa.float64())})
    with pytest.raises(SourceError, match="survey weights that are no numbers"):
        rs.Source.frame(data, weights=WEIGHTS).count(DOMAIN, CELLS)


def test_the_price_is_that_of_the_clip_squared_and_nothing_less_is_taken(tmp_path: Path) -> None:
    data, _ = sample(1)
    source = rs.Source.frame(data, weights=WEIGHTS)
    asked = rs.marginals(DOMAIN, ways=[1, 2])
    plan = rs.plan(asked, rs.ZCDP(0.5), unit=WEIGHTS.protects)
    measurements, cost = priced(plan)
    assert cost == 80**2 * measurements.cost(rs.AddRemove()) <= 1
    assert cost > Fraction(999_999, 1_000_000)
    pure = rs.plan(asked, rs.PureDP(1.0), unit=WEIGHTS.protects)
    assert priced(pure)[1] == 80 * pure.measurements.cost(rs.AddRemove())
    for unit in (rs.AddRemove(), rs.AddRemove(records=79), rs.ReplaceOne()):
        ledger = rs.Ledger(tmp_path / f"{len(list(tmp_path.iterdir()))}.ledger", rs.ZCDP(0.5), unit=unit)
        with pytest.raises(SourceError, match=r"changes tables by 80 steps.*unit=AddRemove\(records=80\)"):
            rs.measure(rs.plan(asked, rs.ZCDP(0.5), unit=unit), source, ledger=ledger)
        assert ledger.spent_exactly == 0
    axis = rs.plan(rs.prefixes(rs.Domain({"age": rs.Integers(0, 3)}), "age"), rs.ZCDP(0.5), form=rs.Axis())
    continual = rs.Continual(tmp_path / "c", ledger=rs.Ledger(tmp_path / "c.ledger", rs.ZCDP(0.5)), plan=axis)
    with pytest.raises(SourceError, match="80 steps"):
        continual.append(source)
    with pytest.raises(SourceError, match="80 steps"):
        rs.Session(source, rs.ZCDP(0.5), ledger=tmp_path / "s.ledger").release(rs.plan(asked, rs.ZCDP(0.5)))


def test_totals_cover_the_population_and_say_what_protection_adds(tmp_path: Path) -> None:
    plan = rs.plan(rs.marginals(DOMAIN, ways=[1, 2]), rs.ZCDP(2.0), unit=WEIGHTS.protects)
    held, cells = 0, 0
    for seed in range(60):
        data, people = sample(1, seed)
        ledger = rs.Ledger(tmp_path / f"{seed}.ledger", rs.ZCDP(2.0), unit=WEIGHTS.protects)
        release = rs.measure(plan, rs.Source.frame(data, weights=WEIGHTS), ledger=ledger)
        table = rs.weighted(release).table(["region", "age"])
        held += int(((table["lower"] <= people) & (people <= table["upper"])).sum())
        cells += 8
        assert np.allclose(table["noise"] ** 2 + table["sampling"] ** 2, table["stddev"] ** 2)
        assert np.allclose(table["protection"], table["noise"] ** 2 / table["stddev"] ** 2)
    assert 0 < table["protection"].max() < 0.1
    assert float(table.to_csv().splitlines()[1].rpartition(",")[2]) > 0  # digits of its own, beside numbers of people
    assert float(repr(table).splitlines()[1].split()[-1]) > 0
    # The bound on the sampling error is twice the truth: 99 % would hold; 90 % of 480 fail once in a billion.
    assert held > 0.9 * cells
    assert "strata and clusters are not used" in table.note
    assert "without sampling error" in release.table(["age"]).note
    assert "reliable" not in release.table(["age"]).flagged().columns["quality"]
    total = rs.weighted(release, ratio=10).total()
    assert total.lower < 40_000 < total.upper or abs(total.estimate - 40_000) < 5 * total.stddev
    release.save(tmp_path / "release")
    assert rs.weighted(rs.Release.load(tmp_path / "release")).total() == rs.weighted(release).total()
    assert "survey weights in column 'w'" in (tmp_path / "release" / "PRIVACY.md").read_text()
    for wrong in ({"ratio": 21}, {"ratio": 0}, {"design_effect": float("inf")}, {"ratio": True}):
        with pytest.raises(PlanError, match="is not a positive number"):
            rs.weighted(release, **wrong)  # type: ignore[arg-type]


def survey(tmp_path: Path, data: pa.Table, rho: float, name: str = "s") -> rs.release.Weighted:
    fine = rs.Weights("w", most=20, step=0.01)
    plan = rs.plan(rs.marginals(DOMAIN, ways=[0, 1, 2]), rs.ZCDP(0.95 * rho), unit=fine.protects)
    ledger = rs.Ledger(tmp_path / f"{name}.ledger", rs.ZCDP(rho), unit=fine.protects)
    return rs.measure_survey(plan, rs.Source.frame(data, weights=fine), ledger=ledger)


@pytest.mark.parametrize("weight", [0, 0.1, 7.3, 10, 19.99, 20, 1e300])
def test_squares_of_weights_are_no_more_steps_than_weights_have(weight: float) -> None:
    data = pa.table({"region": ["s"], "age": [2], "w": [weight]})
    tables = rs.Source.frame(data, weights=WEIGHTS.squares).count(DOMAIN, CELLS).tables
    assert tables.sum() == tables[6] == math.ceil(min(weight, 20) ** 2 / 400 * 80 - 1e-9) <= 80
    assert WEIGHTS.squares.protects == WEIGHTS.protects


def test_a_survey_is_paid_for_twice_and_its_sampling_error_is_that_of_the_data(tmp_path: Path) -> None:
    data, _ = sample(1)
    totals = survey(tmp_path, data, 1e6)  # hardly any noise: what is worked out is the textbook's
    ledger = rs.Ledger(tmp_path / "s.ledger")
    assert [float(each.cost) for each in ledger.entries] == pytest.approx([1.9e6, 0.1e6], rel=1e-3)
    frame = data.to_pandas()
    squares = (frame["w"] ** 2).groupby(frame["region"]).sum().to_numpy()
    assert totals.table(["region"])["sampling"] ** 2 == pytest.approx(squares, rel=0.02)
    cells = (frame["w"] ** 2).groupby([frame["region"], frame["age"]]).sum().to_numpy()
    found = totals.table(["region", "age"])["sampling"] ** 2
    assert found[:4] == pytest.approx(cells[:4], rel=0.02)  # the north's weights are the largest of both margins
    assert (found[4:] > cells[4:]).all()
    assert totals.total().stddev ** 2 == pytest.approx(squares.sum(), rel=0.02)
    assert totals.table(["region"])["protection"].max() < 1e-3
    assert "from measured squares" in totals.table(["age"]).note
    assert "squares of the survey weights" in totals.squares.table(["age"]).note
    # Strata: all of a stratum are in it, whatever the sample; of an age within it, a binomial share is.
    drawn = frame["region"].value_counts()
    strata = rs.weighted(totals.release, squares=totals.squares, strata={"region": {k: int(drawn[k]) for k in "ns"}})
    assert (strata.table(["region"])["sampling"] < 0.2 * totals.table(["region"])["sampling"]).all()
    share = frame.groupby("region")["age"].value_counts(normalize=True).sort_index().to_numpy()
    weight, number = np.repeat([10.0, 4.0], 4), np.repeat(drawn[["n", "s"]].to_numpy(), 4)
    within = weight**2 * number**2 / (number - 1) * share * (1 - share)
    assert strata.table(["region", "age"])["sampling"][:4] ** 2 == pytest.approx(within[:4], rel=0.03)
    assert (strata.table(["age"])["sampling"] ** 2 > within.reshape(2, 4).sum(axis=0)).all()
    assert "in strata of 'region'; clusters are not used" in strata.table(["age"]).note


@pytest.mark.parametrize("why", [LedgerError("the disk is full."), RuntimeError("Anna Schmidt"), KeyboardInterrupt()])
@pytest.mark.parametrize("kept", [False, True])
def test_tables_are_not_lost_if_the_squares_fail(tmp_path: Path, why: BaseException, kept: bool) -> None:
    data, _ = sample(1)
    plan = rs.plan(rs.marginals(DOMAIN, ways=[1]), rs.ZCDP(0.5), unit=WEIGHTS.protects)
    ledger = rs.Ledger(tmp_path / "l", rs.ZCDP(1.0), unit=WEIGHTS.protects)
    real = rs.measure
    calls: list[rs.Release] = []

    def second_fails(*args: Any, **options: Any) -> rs.Release:
        if calls:
            raise why
        calls.append(real(*args, **options))
        return calls[0]

    survey, where = partial(rs.measure_survey, plan, rs.Source.frame(data, weights=WEIGHTS), ledger=ledger), "out"
    out = {"out": tmp_path / where} if kept else {}
    with patch("residua.measurement.survey.measure", second_fails):
        if isinstance(why, Exception) and not kept:
            with pytest.warns(UserWarning, match="their bound is taken") as said:
                totals = survey()
            assert "Anna" not in str(said[0].message)
            assert totals.release is calls[0]
            assert (totals.table(["region"])["sampling"] > 0).all()
        else:
            with pytest.raises(type(why)) as problem:
                survey(**out)
            assert "not lost" in problem.value.__notes__[-1]
            assert problem.value.release is calls[0]
            assert not kept or rs.Release.load(tmp_path / where).table(["region"]) is not None


def test_what_a_survey_cannot_be_is_refused_before_anything_is_spent(tmp_path: Path) -> None:
    data, _ = sample(1)
    plan = rs.plan(rs.marginals(DOMAIN, ways=[1]), rs.ZCDP(0.5), unit=WEIGHTS.protects)
    ledger = rs.Ledger(tmp_path / "l", rs.ZCDP(0.5), unit=WEIGHTS.protects)
    source = rs.Source.frame(data, weights=WEIGHTS)
    with pytest.raises(LedgerError, match="plan for 95 % of what is left"):
        rs.measure_survey(plan, source, ledger=ledger)
    with pytest.raises(SourceError, match="no survey weights"):
        rs.measure_survey(plan, data, ledger=ledger)
    with pytest.raises(PlanError, match="sampling=1"):
        rs.measure_survey(plan, source, ledger=ledger, sampling=1)
    assert ledger.spent_exactly == 0
    one, other = survey(tmp_path, data, 1.0), survey(tmp_path, data, 1.0, "other")
    for wrong in (
        {"squares": other.squares},
        {"squares": one.release},
        {"strata": {"age": {}}},
        {"strata": {"sex": {}}},
        {"strata": {"region": {"n": 1, "s": 5}}},
    ):
        with pytest.raises(PlanError, match=r"squares|strata"):
            rs.weighted(one.release, **wrong)  # type: ignore[arg-type]
    with pytest.raises(PlanError, match="not one of survey weights"):
        rs.weighted(one.squares)  # type: ignore[arg-type]


VILLAGES = rs.Domain({"village": rs.Integers(0, 39), "region": ["n", "s"], "kind": rs.Integers(0, 1)})


def _villages(tmp_path: Path, rho: float) -> tuple[rs.Release, np.ndarray]:
    """Forty villages drawn as a whole, 12 of the north and 28 of the south; and their totals by kind, (40, 2, 2)."""
    random = np.random.default_rng(4)
    village = np.repeat(np.arange(40), random.integers(1, 15, 40))
    data = {"village": village, "region": np.where(village < 12, "n", "s"), "w": np.where(village < 12, 10.0, 4.0)}
    data["kind"] = (random.random(len(village)) < 0.2 + 0.6 * (village % 3 == 0)).astype(int)
    unit = WEIGHTS.protects
    plan = rs.plan(rs.marginals(VILLAGES, ways=[0, 1, 2, 3]), rs.ZCDP(rho), unit=unit)
    ledger = rs.Ledger(tmp_path / f"{rho}.ledger", rs.ZCDP(rho), unit=unit)
    totals = np.zeros((40, 2, 2))
    np.add.at(totals, (village, (village >= 12).astype(int), data["kind"]), data["w"])
    return rs.measure(plan, rs.Source.frame(pa.table(data), weights=WEIGHTS), ledger=ledger), totals


def test_clusters_have_the_variance_between_their_totals(tmp_path: Path) -> None:
    release, totals = _villages(tmp_path, 1e8)
    by_kind = totals.sum(axis=1)
    apart = rs.weighted(release, clusters="village").table(["kind"])
    assert apart["sampling"] ** 2 == pytest.approx(40 * by_kind.var(axis=0, ddof=1), rel=1e-2)
    assert (apart["upper"] - apart["lower"])[0] == pytest.approx(2 * 2.0227 * apart["sampling"][0], rel=1e-2)  # t of 39
    strata = rs.weighted(release, clusters="village", strata={"region": {"n": 12, "s": 28}})
    within = 12 * by_kind[:12].var(axis=0, ddof=1) + 28 * by_kind[12:].var(axis=0, ddof=1)
    assert strata.table(["kind"])["sampling"] ** 2 == pytest.approx(within, rel=1e-2)
    both = strata.table(["region", "kind"])["sampling"].reshape(2, 2) ** 2
    assert both.sum(axis=0) == pytest.approx(within, rel=1e-2)
    assert "between clusters of 'village'" in strata.table(["kind"]).note
    assert "clusters are not used" not in strata.table(["kind"]).note
    with pytest.raises(PlanError, match="ask for tables of other attributes"):
        strata.table(["village"])
    for wrong in ("town", 3):
        with pytest.raises(PlanError, match="clusters="):
            rs.weighted(release, clusters=wrong)  # type: ignore[arg-type]


def test_the_noise_of_cluster_totals_is_taken_off_their_variance(tmp_path: Path) -> None:
    """Squares of noise are ten times the variance here; 50 releases, whose mean is 8 standard deviations inside."""
    release, totals = _villages(tmp_path, 0.035)
    truth = 40 * totals.sum(axis=1).var(axis=0, ddof=1)
    noise = (release.table(["village", "kind"]).stddev * WEIGHTS.step) ** 2 * np.ones((40, 2))
    assert (noise.sum(axis=0) > 8 * truth).all()
    drawn = measured(release.plan.measurements, np.rint(totals / WEIGHTS.step).astype(int), 50)
    many = [rs.weighted(replace(release, noisy=row), clusters="village").table(["kind"]) for row in drawn]
    mean = np.mean([table["sampling"] ** 2 for table in many], axis=0)
    assert (mean > truth).all()
    assert (mean < 0.65 * noise.sum(axis=0)).all()


@pytest.mark.parametrize("given", [{"most": 20, "step": 0.3}, {"most": 0}, {"most": 2**30, "step": 0.1}, {"most": "5"}])
def test_weights_that_mean_nothing_are_refused(given: dict[str, float]) -> None:
    with pytest.raises(SourceError):
        rs.Weights("w", **given)
    with pytest.raises(SourceError, match="neither counts nor person"):
        rs.Source.frame(sample(1)[0], weights=WEIGHTS, person="age")
    with pytest.raises(SourceError, match=r"rs\.Weights"):
        rs.Source.frame(sample(1)[0], weights="w")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["noise", "sampling", "protection"])
def test_an_attribute_is_no_column_of_totals(name: str) -> None:
    with pytest.raises(DomainError, match="is a column of published tables"):
        rs.Domain({name: rs.Integers(0, 1)})
