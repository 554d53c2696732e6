"""Coverage for persons, for samples of a population, and of numbers computed from replicates and synthetic rows."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

import residua as rs
from benchmarks import coverage_cases as cases
from benchmarks.coverage_held import Group, Held, Row
from residua.release import Release
from tests.statistics.copies import measured


def _one(names: tuple[str, ...], read: Callable[..., Any]) -> tuple[Any, Any]:
    tables = [read(list(names[:k])) for k in range(len(names) + 1)]
    return tuple(np.concatenate([each[end] for each in tables]) for end in ("lower", "upper"))  # type: ignore[return-value]


# ---- persons


def persons(releases: int) -> Iterator[Row]:
    """Three records of each person, with the noise of one release drawn anew: what is counted, and what is left out."""
    domain = rs.Domain({"region": rs.Integers(0, 5), "kind": rs.Integers(0, 3)})
    random, unit = np.random.default_rng(8), rs.Person(3)
    cell = np.concatenate([np.repeat(np.arange(24), random.zipf(1.5, 24).clip(0, 800)), np.zeros(4000, int)])
    owned = random.geometric(0.4, len(cell))
    who = np.repeat(np.arange(len(cell)), owned)
    data = pa.table({"person": who, "region": cell[who] // 4, "kind": cell[who] % 4})  # a person's are of one kind
    plan = rs.plan(rs.marginals(domain, ways=[0, 1, 2]), rs.ZCDP(1.0), unit=unit)
    counted, left = (np.bincount(cell, each, minlength=24).reshape(6, 4)
                     for each in (np.minimum(owned, 3), np.clip(owned - 3, 0, 30)))  # fmt: skip
    truth = cases.truths(plan.workload, counted)
    cells, out = Held(truth), Held(np.r_[left.sum(), left.sum(axis=1)])
    with tempfile.TemporaryDirectory() as folder:
        ledger = rs.Ledger(f"{folder}/ledger", rs.ZCDP(1.0), unit=unit)
        release = rs.measure(plan, rs.Source.frame(data, person="person"), ledger=ledger)
    beside = release.left_out
    assert beside is not None
    for row, rest in zip(*(measured(of.measurements, x, releases)
                           for of, x in ((release, counted), (beside, left))), strict=True):  # fmt: skip
        again = replace(release, noisy=row, left_out=replace(beside, noisy=rest))
        own = again.answers()
        cells.add(truth, own["lower"], own["upper"])
        out.add(out.sizes, *_one(("region",), again.left_out.table))
    yield "cell of what is counted", "marginals", "Gaussian", "", "persons, three records of each", cells
    yield "records left out", "marginals", "Gaussian", "", "persons, three records of each", out


# ---- surveys: a new sample of 200,000 people for every release


REGIONS, KINDS, PEOPLE = np.array([0.5, 0.3, 0.15, 0.05]), 6, 200_000
WEIGHTS = rs.Weights("w", most=200, step=0.5)


def surveys(noise: str, releases: int) -> Iterator[Row]:
    """Each person drawn by itself, with chances that differ; or so many of each region."""
    random = np.random.default_rng(4)
    region = random.choice(4, PEOPLE, p=REGIONS)
    kind = np.minimum(random.geometric(0.5, PEOPLE) - 1, KINDS - 1)
    cells = np.bincount(region * KINDS + kind, minlength=4 * KINDS)
    apart = np.repeat([0.005, 0.01, 0.03, 0.1], KINDS) * np.tile(np.where(np.arange(KINDS) > 2, 2, 1), 4)
    drawn, in_region = np.array([500, 600, 900, 1000]), cells.reshape(4, KINDS).sum(axis=1)
    by_region = np.repeat(drawn / in_region, KINDS)
    strata = {"strata": {"region": dict(enumerate(drawn.tolist()))}}
    one_by_one: dict[str, Any] = {"bound": {"squares": None}, "squares": {}}
    stratified: dict[str, Any] = {"squares": {}, "squares, strata": strata}

    def by_stratum() -> Any:
        own = zip(cells.reshape(4, KINDS), drawn, strict=True)
        return np.concatenate([random.multivariate_hypergeometric(each, n, method="marginals") for each, n in own])

    designs = {
        "each drawn by itself": (apart, lambda: random.binomial(cells, apart), one_by_one),
        "drawn in strata": (by_region, by_stratum, stratified),
    }
    domain = rs.Domain({"region": rs.Integers(0, 3), "kind": rs.Integers(0, KINDS - 1)})
    budget = rs.ZCDP(0.5) if noise == "Gaussian" else rs.PureDP(5.0)
    survey, true = _survey(domain, budget, pa.table({"region": [0], "kind": [0], "w": [1.0]})), cells.reshape(4, KINDS)
    both = np.concatenate([[true.sum()], true.sum(axis=1), true.ravel()])
    for design, (chance, draw, kinds) in designs.items():
        expected = (cells * chance).reshape(4, KINDS)
        held = {
            kind: Held(np.concatenate([[expected.sum()], expected.sum(axis=1), expected.ravel()])) for kind in kinds
        }
        for _ in range(releases):
            again = _redrawn(survey, draw().reshape(4, KINDS), (1 / chance).reshape(4, KINDS))
            for kind, options in kinds.items():
                totals = rs.weighted(again.release, **{"squares": again.squares, **options})
                held[kind].add(both, *_one(("region", "kind"), totals.table))
        form = "marginals" if noise == "Gaussian" else "tables"
        for kind, each in held.items():
            yield "total of a population", form, noise, f"weighted: {kind}", design, each


def clusters(releases: int) -> Iterator[Row]:
    """Forty of 400 villages, drawn as a whole, whose people are alike."""
    random = np.random.default_rng(6)
    villages, kinds = 400, 4
    sizes, alike = 20 + random.geometric(0.03, villages), random.dirichlet([6.0, 3.0, 2.0, 0.7], villages)
    people = np.array([random.multinomial(n, p) for n, p in zip(sizes, alike, strict=True)])
    domain = rs.Domain({"village": rs.Integers(0, villages - 1), "kind": rs.Integers(0, kinds - 1)})
    data = pa.table({"village": [0], "kind": [0], "w": [1.0]})
    survey = _survey(domain, rs.ZCDP(0.5), data, rs.Weights("w", most=20, step=0.5))
    true = people.sum(axis=0)
    ways = {"clusters": {"clusters": "village"}, "squares, as if no clusters": {}}
    held = {way: Held(true / 10) for way in ways}
    for _ in range(releases):
        sample = np.zeros_like(people)
        chosen = random.choice(villages, 40, replace=False)
        sample[chosen] = people[chosen]
        again = _redrawn(survey, sample, np.full(people.shape, 10.0))
        for way, options in ways.items():
            table = rs.weighted(again.release, squares=again.squares, **options).table(["kind"])
            held[way].add(true, table["lower"], table["upper"])
    for way, each in held.items():
        yield "total of a population", "marginals", "Gaussian", f"weighted: {way}", "40 of 400 villages", each


def _survey(domain: rs.Domain, budget: Any, data: Any, weights: Any = WEIGHTS) -> Any:
    plan = rs.plan(rs.marginals(domain, ways=[0, 1, 2]), budget, unit=weights.protects)
    twice = rs.PureDP(2 * budget.epsilon) if isinstance(budget, rs.PureDP) else rs.ZCDP(2 * budget.rho)
    with tempfile.TemporaryDirectory() as folder:
        ledger = rs.Ledger(f"{folder}/ledger", twice, unit=weights.protects)
        return rs.measure_survey(plan, rs.Source.frame(data, weights=weights), ledger=ledger)


def _redrawn(survey: Any, sample: Any, weights: Any) -> Any:
    """The same, of so many respondents of each cell, all of the same weight: as the source would count them."""
    options = rs.Weights("w", *(float(survey.release.receipt[f"weights_{key}"]) for key in ("most", "step")))
    releases = []
    for of, release in ((options, survey.release), (options.squares, survey.squares)):
        steps = of.of(pa.array(weights.ravel()), None).reshape(sample.shape)
        row = measured(release.measurements, sample * steps, 1)[0]
        releases.append(replace(release, noisy=row))
    return replace(survey, release=releases[0], squares=releases[1])


# ---- replicates and synthetic rows, on data of which no rule was chosen

ROWS_COST = 20  # times those of others


def by_tables(releases: int) -> Iterator[Row]:
    """Means and a share, of ten replicates of a projection's tables."""
    x, plan = cases.small_tables()[cases.REAL], _of_pairs()
    held = Held(np.full(4, x.sum()))
    for row in measured(plan.measurements, x, releases):
        projected = rs.project(Release(plan, plan.measurements, row), simulations=0)
        of = projected.replicates(10).combined(projected, _means)
        held.add(_means(x), of.lower, of.upper)
    yield "means by replicates", "marginals", "Gaussian", "projected", cases.REAL, held


def by_rows(releases: int) -> Iterator[Row]:
    """The mean and the regression coefficients of ten replicates' rows: some 1.6 CPU seconds per release."""
    x, plan = cases.small_tables()[cases.REAL], _of_pairs()
    true, held = _numbers(np.repeat(np.argwhere(x >= 0), x.ravel(), axis=0)), Held(np.full(4, x.sum()))
    for row in measured(plan.measurements, x, releases // ROWS_COST):
        made = rs.estimate(Release(plan, plan.measurements, row))
        of = made.replicates(10).combined(made, lambda one: _numbers(np.concatenate(list(one.rows().codes()))))
        held.add(true, of.lower, of.upper)
    yield "means, coefficients by replicates", "marginals", "Gaussian", "synthetic rows", cases.REAL, held


def _of_pairs() -> rs.Plan:
    return rs.plan(rs.marginals(cases.DOMAIN, ways=[1, 2]), rs.ZCDP(0.05))


def _numbers(codes: Any) -> Any:
    """The mean age, and income regressed on age and sex."""
    y, terms = codes[:, 2].astype(float), np.column_stack([np.ones(len(codes)), codes[:, :2]])
    return np.r_[codes[:, 0].mean(), np.linalg.lstsq(terms, y, rcond=None)[0]]


def _means(of: Any) -> Any:
    """Of age, of men's and of women's, and the share of the well paid."""
    ages = of.sum(axis=2) if isinstance(of, np.ndarray) else of.table(["age", "sex"])["estimate"].reshape(10, 2)
    paid = of.sum(axis=(0, 1)) if isinstance(of, np.ndarray) else of.table(["paid"])["estimate"]
    by_sex = np.arange(10) @ ages / np.maximum(ages.sum(axis=0), 1e-9)
    return np.r_[np.arange(10) @ ages.sum(axis=1) / ages.sum(), by_sex, paid[1] / paid.sum()]


SAMPLES: dict[str, Group] = {"persons": persons, "surveys: Gaussian": partial(surveys, "Gaussian")}
SAMPLES |= {"surveys: Laplace": partial(surveys, "Laplace"), "surveys: clusters": clusters}
SAMPLES |= {"replicates: tables": by_tables, "replicates: synthetic rows": by_rows}
