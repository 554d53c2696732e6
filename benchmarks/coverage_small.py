"""Coverage on a domain so small that thousands of releases are projected and estimated: ten forms of plan, 40 cells.

What is linear in the measurements (estimates of the release, and beside facts) is asked once for each measurement, and
all releases are then one product of matrices; the first of them is asked directly too, and must agree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import residua as rs
from benchmarks import coverage_cases as cases
from residua.release import Release
from tests.statistics.copies import measured

ASKED = [("age", "sex", "paid"), ("sex", "paid"), ("age",)]
DATA = ("flights, 1 in 500", "hardly any")
_UNIT = 2**20  # so that differences of ends have enough digits
ROUNDED = ("marginals", "tree", "tables")


def rows(releases: int, slow: int, wanted: Callable[..., bool], held: Any) -> Iterator[list[str]]:
    """A row for each form, data set and post-processing; `slow` of the releases are estimated by a model."""
    data = cases.SIMULATED | cases.real_tables()
    for name in DATA:
        for form, (noise, make) in cases.FORMS.items():
            if wanted("small", form, noise, name):
                for after, kept in _of_form(make(), data[name], releases, form in ROUNDED, held).items():
                    yield ["cell", form.strip(), noise, after, f"small: {name}", *kept.figures(widths=True)]
        for noise, budget in (("Gaussian", rs.ZCDP(0.5)), ("Laplace", rs.PureDP(1.0))):
            if wanted("small estimates", noise, name):
                plan = rs.plan(rs.marginals(cases.DOMAIN, ways=[1, 2]), budget)
                for kind, kept in _estimated(plan, data[name], slow, held).items():
                    form = "marginals" if noise == "Gaussian" else "tables"
                    yield [kind, form, noise, "estimated", f"small: {name}", *kept.figures(widths=True)]


def _of_form(plan: Any, x: Any, releases: int, rounded: bool, held: Any) -> dict[str, Any]:
    asked = rs.marginals(plan.domain, ASKED)
    truth = cases.truths(asked, x)
    measurements = plan.measurements
    drawn = measured(measurements, x, 2 * releases)
    known = {(): int(x.sum()), "paid": x.sum(axis=(0, 1))}
    after = ["", "own, cut at 0", "given", "change", "projected"]
    kinds = {kind: held(truth) for kind in (*after, "projected, narrower", "whole numbers")}
    own = _affine(plan, drawn[:releases], lambda release: release.answers(asked))
    kinds[""].add(truth, *own)
    kinds["own, cut at 0"].add(truth, *own, cut=True)
    kinds["given"].add(truth, *_affine(plan, drawn[:releases], lambda release: release.given(known).answers(asked)))
    for now, before in zip(drawn[:releases], drawn[releases:], strict=True):
        release = Release(plan, measurements, now)
        table = rs.change(release, Release(plan, measurements, before), by=("sex", "paid"))
        kinds["change"].sizes = x.sum(axis=0).ravel()
        kinds["change"].add(np.zeros(4), np.ravel(table.lower), np.ravel(table.upper))
        projected = rs.project(release, simulations=0)
        kinds["projected"].add(truth, *_ends(projected.answers(asked)))
        if plan.noise.gaussian:
            kinds["projected, narrower"].add(truth, *_ends(projected.narrower().answers(asked)))
        if rounded:
            kinds["whole numbers"].add(truth, *_ends(release.rounded().answers(asked)))
    return {kind: each for kind, each in kinds.items() if each.held}


def _estimated(plan: Any, x: Any, releases: int, held: Any) -> dict[str, Any]:
    """Pairs, and the table of all three attributes, which is not asked for, and not measured under normal noise."""
    pairs, whole = (rs.marginals(plan.domain, ways=[ways]) for ways in (2, 3))
    other = "cell of three" if plan.supports(plan.domain.names) else "cell, not measured"
    kinds = {"cell": held(cases.truths(pairs, x)), other: held(cases.truths(whole, x))}
    for row in measured(plan.measurements, x, releases):
        estimated = rs.estimate(Release(plan, plan.measurements, row))
        for asked, kept in zip((pairs, whole), kinds.values(), strict=True):
            kept.add(kept.sizes, *_ends(estimated.answers(asked)))
    return kinds


def _ends(table: Any) -> tuple[Any, Any]:
    return table["lower"], table["upper"]


def _affine(plan: Any, drawn: Any, read: Callable[[Release], Any]) -> Any:
    """Both ends of every interval of every release, (2, releases, numbers)."""
    measurements, cells = plan.measurements, drawn.shape[1]
    unit = np.vstack([np.zeros(cells, np.int64), _UNIT * np.eye(cells, dtype=np.int64)])
    ends = np.array([_ends(read(Release(plan, measurements, row))) for row in unit])  # (1 + cells, 2, numbers)
    every = np.einsum("rc,cen->ern", drawn / _UNIT, ends[1:] - ends[0]) + ends[0][:, None]
    np.testing.assert_allclose(every[:, 0], _ends(read(Release(plan, measurements, drawn[0]))), rtol=1e-6, atol=1e-6)
    return every
