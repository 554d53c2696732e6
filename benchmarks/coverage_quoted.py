"""Coverage of numbers that people quote, on every form of plan, for thousands of releases at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import residua as rs
from benchmarks import coverage_cases as cases
from benchmarks.coverage_held import Group, Held, Row
from residua.quoting import Quotable
from tests.statistics.many_releases import ManyReleases, Truth
from tests.statistics.quoted_cases import CASES as ASKED

RELEASES = {"Gaussian": 10_000, "correlated": 10_000, "Laplace": 2_000}  # they cost little
LISTED, LISTS = 3, ("a handful", cases.REAL)


def quoted(form: str, releases: int) -> Iterator[Row]:
    """Everything that can be asked of ten ages, two sexes and two incomes."""
    noise, make = cases.FORMS[form]
    for name, x in cases.small_tables().items():
        plan = make()
        many, truth = ManyReleases(plan, x, RELEASES[noise]), Truth(plan.domain, x)
        by = {(): x.sum(), (10,): x.sum(axis=(1, 2)), (2, 10): x.sum(axis=2).T}
        for number, ask in ASKED.items():
            true, found = np.asarray(ask(truth).estimate), ask(many)
            groups = x.sum(axis=(0, 1)) if number.startswith("share") else x.sum(axis=(0, 2))
            exists = np.isfinite(np.ravel(true))  # no share is of nobody
            if exists.any():
                held = Held(np.ravel((by | {(2,): groups})[true.shape])[exists])
                ends = (np.reshape(end, (many.runs, -1))[:, exists] for end in (found.lower, found.upper))
                held.add(np.ravel(true)[exists], *ends)
                yield number, form.strip(), noise, "", name, held
        if name in LISTS:
            yield from _listed(many, releases // 4, form.strip(), noise, name)


@dataclass(frozen=True, eq=False)
class _One(Quotable):
    """One of many releases."""

    many: ManyReleases
    place: int
    note: str = ""
    remark: str = ""
    lacks: float = 0.0

    @property
    def domain(self) -> rs.Domain:
        return self.many.domain

    def _answering(self) -> Any:
        return self

    def estimates(self, term: Any) -> Any:
        one = ManyReleases(self.many.plan, self.many.x, 1)
        one.__dict__["tables"] = self.many.tables[self.place : self.place + 1]
        return one.estimates(term)[0]

    def covariances(self, *asked: Any) -> Any:
        return self.many.noise.covariances(*asked)

    def widths(self, *asked: Any) -> Any:
        return self.many.noise.widths(*asked)


def _listed(many: ManyReleases, releases: int, *words: str) -> Iterator[Row]:
    """The three largest of twenty counts, and their ranks: sizes are those of the largest cells."""
    x = many.x.sum(axis=2)
    ranks = (
        [1 + (x > x[cell]).sum() for cell in np.ndindex(x.shape)],
        [(x >= x[cell]).sum() for cell in np.ndindex(x.shape)],
    )
    first, last = (np.reshape(each, x.shape) for each in ranks)
    counts, places = Held(np.sort(x.ravel())[::-1][:LISTED]), Held(np.sort(x.ravel())[::-1][:LISTED])
    for k in range(releases):
        top = _One(many, k).top(["age", "sex"], LISTED)
        cells = np.array(top["age"]).astype(int), np.array([["F", "M"].index(one) for one in top["sex"]])
        true = x[cells]
        counts.add(true, top["lower"], top["upper"])
        # of equal counts any order is true: an interval holds if it meets the ranks that the count may have
        low, high = np.array(top["rank_lower"]), np.array(top["rank_upper"])
        nearest = np.clip(low, first[cells], last[cells])
        places.add(nearest, low, high)
    form, noise, name = words
    yield "count in a list of the largest", form, noise, "", name, counts
    yield "rank in a list of the largest", form, noise, "", name, places


def bins(releases: int) -> Iterator[Row]:
    """Ages in bins of two, of which means and sums are asked: they hold the records' own, wherever these lie."""
    ages = rs.Bins([-0.5, 1.5, 3.5, 5.5, 7.5, 9.5])
    domain = rs.Domain({"age": ages, "sex": ["F", "M"], "paid": ["no", "yes"]})
    for noise, budget in (("Gaussian", rs.ZCDP(0.5)), ("Laplace", rs.PureDP(1.0))):
        plan = rs.plan(rs.marginals(domain, ways=[1, 2, 3]), budget)
        for name, x in cases.small_tables().items():
            many = ManyReleases(plan, x.reshape(5, 2, 2, 2).sum(axis=1), RELEASES[noise])
            by_sex, values = x.sum(axis=2), np.arange(10)
            exists = by_sex.sum(axis=0) > 0
            for number, true in (
                ("mean", values @ by_sex / np.maximum(by_sex.sum(axis=0), 1)),
                ("sum", values @ by_sex),
            ):
                found = getattr(many, number)("age", by=["sex"])
                held = Held(by_sex.sum(axis=0)[exists])
                held.add(true[exists], found.lower[:, exists], found.upper[:, exists])
                yield f"{number} over bins", "marginals" if noise == "Gaussian" else "tables", noise, "", name, held


QUOTED: dict[str, Group] = {f"quoted: {form.strip()}, {noise}": partial(quoted, form)
                            for form, (noise, _) in cases.FORMS.items()}  # fmt: skip
QUOTED["quoted: bins"] = bins
