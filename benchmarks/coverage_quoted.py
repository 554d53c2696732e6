"""Coverage of numbers that people quote, on every form of plan, for thousands of releases at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np

import residua as rs
from benchmarks import coverage_cases as cases
from benchmarks.coverage_held import Group, Held, Row
from residua.quoting import Quotable, ratios
from tests.statistics.many_releases import ManyReleases, Truth
from tests.statistics.quoted_cases import CASES as ASKED

RELEASES = {"Gaussian": 10_000, "correlated": 10_000, "Laplace": 2_000}  # they cost little
LISTED = 3


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


def listed(form: str, releases: int) -> Iterator[Row]:
    """The three largest of twenty counts, place by place, and their ranks: sizes are the largest true counts'."""
    noise, make = cases.FORMS[form]
    tables = {name: cases.small_tables()[name] for name in ("a handful", cases.REAL)}
    tables["twenty equal counts"] = np.full((10, 2, 2), 10)
    with patch.object(ratios, "_DRAWS", (1, 1)):  # how probable the order is, is not asked here
        for name, x in tables.items():
            many, x = ManyReleases(make(), x, releases), x.sum(axis=2)
            rows = np.array(
                [_first_three(_One(many, k), x) for k in range(releases)]
            )  # (releases, 2 × 3, three places)
            largest = np.sort(x.ravel())[::-1][:LISTED]
            for number, (true, low, high) in (("count", rows.swapaxes(0, 1)[:3]), ("rank", rows.swapaxes(0, 1)[3:])):
                for place, words in enumerate(("first", "second", "third")):
                    held = Held(largest[[place]])
                    held.add(*(each[:, [place]] for each in (true, low, high)))
                    yield f"{number} listed {words} among the largest", form.strip(), noise, "", name, held


def _first_three(of: Quotable, x: Any) -> list[Any]:
    """Of each place, the true count and its interval; and the true rank and its interval."""
    top = of.top(["age", "sex"], LISTED)
    true = x[np.array(top["age"]).astype(int), np.array([["F", "M"].index(one) for one in top["sex"]])]
    low, high = np.array(top["rank_lower"]), np.array(top["rank_upper"])
    # of equal counts any order is true: an interval holds if it meets the ranks that the count may have
    least, most = (np.array([cells.sum() for cells in compared]) for compared in (
        [x > one for one in true], [x >= one for one in true]))  # fmt: skip
    return [true, top["lower"], top["upper"], np.clip(low, least + 1, most), low, high]


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
QUOTED |= {f"lists: {form.strip()}, {noise}": partial(listed, form) for form, (noise, _) in cases.FORMS.items()}
