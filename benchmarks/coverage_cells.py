"""Coverage of cells: as released, cut at 0, beside facts, changed, projected, estimated, in whole numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

import residua as rs
from benchmarks import coverage_cases as cases
from benchmarks.coverage_held import Group, Held, Row
from residua.release import Release
from tests.statistics.copies import measured

ROUNDED = ("marginals", "tree", "tables")  # among the small ones; the others are groups of their own
LINEAR = 20_000  # releases of what is linear in the measurements
_UNIT = 2**20  # so that differences of ends have enough digits


def small(form: str, releases: int) -> Iterator[Row]:
    """Forty cells and two margins; those of `REAL` are projected too, and of three forms rounded."""
    noise, make = cases.FORMS[form]
    plan = make()
    asked = rs.marginals(plan.domain, [("age", "sex", "paid"), ("sex", "paid"), ("age",)])
    slopes: dict[str, Any] = {}
    for name, x in cases.small_tables().items():
        known = {(): int(x.sum()), "paid": x.sum(axis=(0, 1))}
        kinds = _linear(plan, x, asked, known, LINEAR, slopes)
        if name == cases.REAL:
            kinds |= _each(plan, x, asked, releases, rounded=form in ROUNDED)
        for after, held in kinds.items():
            yield "cell", form.strip(), noise, after, name, held


def whole(form: str, releases: int) -> Iterator[Row]:
    """The cells of `REAL` in whole numbers, as released and projected."""
    noise, make = cases.FORMS[form]
    plan, x = make(), cases.small_tables()[cases.REAL]
    asked = rs.marginals(plan.domain, [("age", "sex", "paid"), ("sex", "paid"), ("age",)])
    kinds = {kind: Held(cases.truths(asked, x)) for kind in ("whole numbers", "projected, whole")}
    for row in measured(plan.measurements, x, releases):
        release = Release(plan, plan.measurements, row)
        for held, published in zip(kinds.values(), (release, rs.project(release, simulations=0)), strict=True):
            held.add(held.sizes, *_ends(published.rounded().answers(asked)))
    for after, held in kinds.items():
        yield "cell", form.strip(), noise, after, cases.REAL, held


def large(name: str, releases: int) -> Iterator[Row]:
    """Hundreds or thousands of cells."""
    case = cases.CASES[name]
    plan, x = cases.planned(case)
    last = plan.domain.names[-1]
    known = {(): int(x.sum()), last: x.sum(axis=tuple(range(x.ndim - 1)))}
    kinds = _linear(plan, x, plan.workload, known if plan.supports([last]) else None, releases, {})
    kinds |= _each(plan, x, plan.workload, releases, rounded=False, **case.projecting)
    for after, held in kinds.items():
        yield "cell", case.form, case.noise, after, name, held


def _linear(plan: Any, x: Any, asked: Any, known: Any, releases: int, slopes: dict[str, Any]) -> dict[str, Held]:
    """Slopes are the same for every data set; they are worked out for the first."""
    truth, drawn = cases.truths(asked, x), measured(plan.measurements, x, 2 * releases)
    now, before = drawn[:releases], drawn[releases:]
    kinds = {kind: Held(truth) for kind in ("", "own, cut at 0")}
    own = _affine(plan, now, lambda release: _ends(release.answers(asked)), slopes, "own")
    kinds[""].add(truth, *own)
    kinds["own, cut at 0"].add(truth, *own, cut=True)
    if known is not None:
        kinds["given"] = Held(truth)
        beside = _affine(plan, now, lambda release: _ends(release.given(known).answers(asked)), slopes, "given")
        kinds["given"].add(truth, *beside)
    names = plan.domain.names[-2:]
    if plan.supports(names):
        kinds["change"] = Held(np.ravel(_marginal(plan, x, names)))
        nothing, none = (Release(plan, plan.measurements, np.zeros(plan.measurements.cells, np.int64)) for _ in "12")
        later = _affine(plan, now, lambda release: _changed(release, nothing, names), slopes, "later")
        earlier = _affine(plan, before, lambda release: _changed(nothing, release, names), slopes, "earlier")
        still = np.array(_changed(nothing, none, names))[:, None]
        kinds["change"].add(np.zeros(still.shape[-1]), *(later + earlier - still))
    return kinds


def _each(plan: Any, x: Any, asked: Any, releases: int, rounded: bool, **projecting: Any) -> dict[str, Held]:
    truth = cases.truths(asked, x)
    kinds = {kind: Held(truth) for kind in ("projected", "projected, narrower", "whole numbers", "projected, whole")}
    for row in measured(plan.measurements, x, releases):
        release = Release(plan, plan.measurements, row)
        projected = rs.project(release, simulations=0, **projecting)
        kinds["projected"].add(truth, *_ends(projected.answers(asked)))
        if plan.noise.gaussian:
            kinds["projected, narrower"].add(truth, *_ends(projected.narrower().answers(asked)))
        if rounded:
            kinds["whole numbers"].add(truth, *_ends(release.rounded().answers(asked)))
            kinds["projected, whole"].add(truth, *_ends(projected.rounded().answers(asked)))
    return {kind: each for kind, each in kinds.items() if each.held}


def estimated(noise: str, releases: int) -> Iterator[Row]:
    """Pairs, and the table of all three attributes, which is not asked for, nor measured under normal noise."""
    plan = rs.plan(rs.marginals(cases.DOMAIN, ways=[1, 2]), rs.ZCDP(0.5) if noise == "Gaussian" else rs.PureDP(1.0))
    pairs, whole = (rs.marginals(plan.domain, ways=[ways]) for ways in (2, 3))
    x, form = cases.small_tables()[cases.REAL], "marginals" if noise == "Gaussian" else "tables"
    other = "cell of a table that was not asked" if plan.supports(plan.domain.names) else "cell, not measured"
    kinds = {"cell": Held(cases.truths(pairs, x)), other: Held(cases.truths(whole, x))}
    for row in measured(plan.measurements, x, releases):
        made = rs.estimate(Release(plan, plan.measurements, row))
        for asked, held in zip((pairs, whole), kinds.values(), strict=True):
            held.add(held.sizes, *_ends(made.answers(asked)))
    for number, held in kinds.items():
        yield number, form, noise, "estimated", cases.REAL, held


def relative(releases: int) -> Iterator[Row]:
    """Changes between two releases, of different data, absolute and relative, asked one by one."""
    x, y = cases.small_tables()[cases.REAL], cases.small_tables()["flights, one of sixteen carriers"]
    for form in ("marginals", "tables"):
        noise, make = cases.FORMS[form]
        plan, names = make(), ("sex", "paid")
        now, before = (np.ravel(each.sum(axis=0)) for each in (x, y))
        kinds, exists = {"change": Held(before), "relative change": Held(before[before > 0])}, before > 0
        rows = (measured(plan.measurements, each, releases) for each in (x, y))
        for one, other in zip(*rows, strict=True):
            moved = rs.change(Release(plan, plan.measurements, one), Release(plan, plan.measurements, other), by=names)
            kinds["change"].add(now - before, np.ravel(moved.lower), np.ravel(moved.upper))
            ends = (np.array(moved[f"relative_{end}"], float)[exists] for end in ("lower", "upper"))
            kinds["relative change"].add(now[exists] / before[exists] - 1, *ends)
        for number, held in kinds.items():
            yield number, form, noise, "", "from flights to Adult", held


def _changed(this: Release, last: Release, names: Any) -> tuple[Any, Any]:
    moved = rs.change(this, last, by=names)
    return np.ravel(moved.lower), np.ravel(moved.upper)


def _marginal(plan: Any, x: Any, names: tuple[str, ...]) -> Any:
    positions = plan.domain.positions(names)
    return x.sum(axis=tuple(i for i in range(x.ndim) if i not in positions))


def _ends(table: Any) -> tuple[Any, Any]:
    return table["lower"], table["upper"]


def _affine(plan: Any, drawn: Any, read: Callable[[Release], Any], slopes: dict[str, Any], kind: str) -> Any:
    """Both ends of every interval of every release, (2, releases, numbers).

    They are affine in the measurements: of more releases than measurements, each measurement is asked for its slope.
    """
    measurements, cells = plan.measurements, drawn.shape[1]
    if cells > len(drawn):
        return np.stack([read(Release(plan, measurements, row)) for row in drawn], axis=1)
    start = np.array(read(Release(plan, measurements, np.zeros(cells, np.int64))))  # (2, numbers)
    if kind not in slopes:
        unit = _UNIT * np.eye(cells, dtype=np.int64)
        slopes[kind] = np.array([read(Release(plan, measurements, row)) for row in unit]) - start
    every = np.einsum("rc,cen->ern", drawn / _UNIT, slopes[kind], optimize=True) + start[:, None]
    np.testing.assert_allclose(every[:, 0], read(Release(plan, measurements, drawn[0])), rtol=1e-6, atol=1e-3)
    return every


CELLS: dict[str, Group] = {f"small: {form.strip()}, {noise}": partial(small, form)
                           for form, (noise, _) in cases.FORMS.items()}  # fmt: skip
CELLS |= {f"whole numbers: {form.strip()}, {noise}": partial(whole, form)
          for form, (noise, _) in cases.FORMS.items() if form not in ROUNDED}  # fmt: skip
CELLS |= {f"large: {name}": partial(large, name) for name in cases.CASES}
CELLS |= {f"estimated: {noise}": partial(estimated, noise) for noise in ("Gaussian", "Laplace")}
CELLS["relative changes"] = relative
