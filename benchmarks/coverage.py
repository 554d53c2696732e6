"""How often 95 % intervals hold the truth: every kind of number, form of plan, noise, post-processing and cell size.

`ADULT=adult-coded.csv python -m benchmarks.coverage [--releases 2000] [--slow 200] [--only TEXT …] [--csv FILE]`. Every
release goes through the measuring step's own noise. `--only small` has all kinds of post-processing on small domains,
so that 2,000 releases are affordable; `--slow` is how many are estimated by a model, and of large domains projected,
up to a second each. A row is one kind of number on one plan of one data set; its figures are by the true count of the
cell, or of the group that a share, mean or quantile is of: how many of 100 intervals held (and their mean width, of
tables). A figure below 93.5 that chance does not explain is a defect, and marked. Quantiles are values, not continuous:
their intervals hold at least so often.
"""

from __future__ import annotations

import argparse
import csv
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

import residua as rs
from benchmarks import coverage_cases as cases, coverage_small
from benchmarks.show import print_rows
from tests.statistics.many_releases import ManyReleases, Truth
from tests.statistics.quoted_cases import CASES as QUOTED

SIZES = {"0": 0, "1 to 4": 1, "5 to 19": 5, "20 to 99": 20, "100 and more": 100}
LEAST = 93.5
COLUMNS = ["number", "form", "noise", "after", "data", *SIZES, "releases"]


@dataclass
class Held:
    """How often intervals held, by the size of the cell."""

    sizes: Any  # of each number, (numbers,)
    held: list[Any] = field(default_factory=list)
    width: list[Any] = field(default_factory=list)

    def add(self, truth: Any, lower: Any, upper: Any, cut: bool = False) -> None:
        """One release, (numbers,), or many, (releases, numbers)."""
        slack = 1e-6 * (1 + np.abs(truth))
        held = (lower - slack <= truth) & (truth <= upper + slack)
        width = np.maximum(upper, 0) - np.maximum(lower, 0) if cut else upper - lower
        self.held += list(np.reshape(held, (-1, len(self.sizes))))
        self.width += list(np.reshape(width, (-1, len(self.sizes))))

    def figures(self, widths: bool) -> list[str]:
        """One for each size, and how many releases."""
        place = np.searchsorted(list(SIZES.values()), self.sizes, side="right") - 1
        found = []
        for k in range(len(SIZES)):
            chosen = place == k
            if not chosen.any():
                found.append("")
                continue
            held, width = np.array(self.held)[:, chosen], np.array(self.width)[:, chosen]
            each = 100 * held.mean(axis=1)
            share, error = each.mean(), each.std() / np.sqrt(len(each))
            mark = "**" if share < LEAST and share + 4 * error < 95 else ""
            wide = f" ({np.mean(width[np.isfinite(width)]):,.3g})" if widths and np.isfinite(width).any() else ""
            found.append(f"{mark}{share:.1f}{mark}{wide}")
        return [*found, f"{len(self.held):,}"]


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--releases", type=int, default=2000)
    options.add_argument("--slow", type=int, default=200, help="of projections and estimates")
    options.add_argument("--only", nargs="*", default=[], help="rows that hold one of these texts")
    options.add_argument("--csv", type=Path, help="where all rows are written")
    chosen = options.parse_args()
    rows = []
    for row in every_row(chosen.releases, chosen.slow, lambda *words: _wanted(words, chosen.only)):
        rows.append(row)
        print(*row, sep=" | ", flush=True)
    print_rows(f"95 % intervals that held, % (mean width); below {LEAST} is marked", COLUMNS, rows)
    if chosen.csv is not None:
        with chosen.csv.open("w", newline="") as file:
            csv.writer(file).writerows([COLUMNS, *rows])
    defects = sum("**" in cell for row in rows for cell in row)
    print(f"{len(rows):,} rows; {defects:,} figures below {LEAST} %; {time.process_time():,.0f} CPU seconds")


Wanted = Callable[..., bool]


def _wanted(words: tuple[str, ...], only: list[str]) -> bool:
    return not only or any(text in " | ".join(words) for text in only)


def every_row(releases: int, slow: int, wanted: Wanted) -> Iterator[list[str]]:
    yield from quoted(releases, wanted)
    yield from coverage_small.rows(releases, slow, wanted, Held)
    for name, case in cases.CASES.items():
        yield from tables(name, case, releases, slow, wanted)
    yield from persons(releases, wanted)
    yield from surveys(releases, wanted)


# ---- numbers that people quote


def quoted(releases: int, wanted: Wanted) -> Iterator[list[str]]:
    data = cases.SIMULATED | cases.real_tables()
    for form, (noise, make) in cases.FORMS.items():
        for name, x in data.items():
            if not wanted("quoted", form, noise, name):
                continue
            plan = make()
            many, truth = ManyReleases(plan, x, releases), Truth(plan.domain, x)
            by = {(): x.sum(), (10,): x.sum(axis=(1, 2)), (2, 10): x.sum(axis=2).T}
            for number, ask in QUOTED.items():
                true, found = np.asarray(ask(truth).estimate), ask(many)
                groups = x.sum(axis=(0, 1)) if number.startswith("share") else x.sum(axis=(0, 2))
                exists = np.isfinite(np.ravel(true))  # no share is of nobody
                if not exists.any():
                    continue
                held = Held(np.ravel((by | {(2,): groups})[true.shape])[exists])
                ends = (np.reshape(end, (releases, -1))[:, exists] for end in (found.lower, found.upper))
                held.add(np.ravel(true)[exists], *ends)
                yield [number, form.strip(), noise, "", name, *held.figures(widths=False)]


# ---- tables, and what is made of them


def tables(name: str, case: cases.Case, releases: int, slow: int, wanted: Wanted) -> Iterator[list[str]]:
    """Cells as they are released, beside facts, changed, projected, estimated and rounded."""
    if not wanted("cells", name, case.form, case.noise):
        return
    plan, x = cases.planned(case)
    truth = cases.truths(plan.workload, x)
    after = ("", "given", "change", "own, cut at 0", "projected", "projected, narrower", "estimated")
    kinds = {kind: Held(truth) for kind in after}
    marginal = plan.domain.names[-1]
    known = {(): int(x.sum()), marginal: x.sum(axis=tuple(range(x.ndim - 1)))}
    facts = plan.supports([marginal]) and plan.supports([])
    beyond = [each for each in _beyond(plan) if case.noise == "Gaussian"]
    bounds = {names: Held(np.ravel(_marginal(plan, x, names))) for names in beyond}
    last = None
    for k, release in enumerate(cases.releases(plan, x, releases)):
        own = release.answers()
        kinds[""].add(truth, own["lower"], own["upper"])
        if k < slow:
            kinds["own, cut at 0"].add(truth, own["lower"], own["upper"], cut=True)
            if facts:
                table = release.given(known).answers()
                kinds["given"].add(truth, table["lower"], table["upper"])
            projected = rs.project(release, simulations=0, **case.projecting)
            table = projected.answers()
            kinds["projected"].add(truth, table["lower"], table["upper"])
            if plan.noise.gaussian:
                table = projected.narrower().answers()
                kinds["projected, narrower"].add(truth, table["lower"], table["upper"])
            if beyond:
                estimated = rs.estimate(release)
                table = estimated.answers()
                kinds["estimated"].add(truth, table["lower"], table["upper"])
                for names, held in bounds.items():
                    table = estimated.table(names)
                    held.add(np.ravel(_marginal(plan, x, names)), table["lower"], table["upper"])
        if last is not None and k % 2 and plan.supports(plan.domain.names[:2]):
            names = plan.domain.names[:2]
            moved = rs.change(release, last, by=names)
            kinds["change"].sizes = np.ravel(_marginal(plan, x, names))
            kinds["change"].add(np.zeros(moved.estimate.size), np.ravel(moved.lower), np.ravel(moved.upper))
        last = release
    for after, held in kinds.items():
        if held.held:
            yield ["cell", case.form, case.noise, after, name, *held.figures(widths=True)]
    if bounds:
        held = Held(np.concatenate([each.sizes for each in bounds.values()]))
        held.held = list(np.concatenate([each.held for each in bounds.values()], axis=1))
        held.width = list(np.concatenate([each.width for each in bounds.values()], axis=1))
        yield ["cell, not measured", case.form, case.noise, "estimated", name, *held.figures(widths=True)]


def _marginal(plan: Any, x: Any, names: tuple[str, ...]) -> Any:
    positions = plan.domain.positions(names)
    return x.sum(axis=tuple(i for i in range(x.ndim) if i not in positions))


def _beyond(plan: Any) -> list[tuple[str, ...]]:
    """A few tables of three attributes that the plan does not answer, if pairs were asked."""
    sets = plan.workload.tables.sets if plan.workload is not None and plan.workload.plain else ()
    if max(map(len, sets), default=0) != 2 or len(plan.domain) < 3:
        return []
    names = plan.domain.names
    return [names[:3], names[-3:]]


# ---- persons, and samples of a population


def persons(releases: int, wanted: Wanted) -> Iterator[list[str]]:
    """Three records of each person: what is counted, and what is left out. A person's records are of one kind."""
    if not wanted("persons", "Person(3)"):
        return
    domain = rs.Domain({"region": rs.Integers(0, 5), "kind": rs.Integers(0, 3)})
    random, unit = np.random.default_rng(8), rs.Person(3)
    cell = np.concatenate([np.repeat(np.arange(24), random.zipf(1.5, 24).clip(0, 800)), np.zeros(4000, int)])
    owned = random.geometric(0.4, len(cell))
    who = np.repeat(np.arange(len(cell)), owned)
    data = pa.table({"person": who, "region": cell[who] // 4, "kind": cell[who] % 4})
    plan = rs.plan(rs.marginals(domain, ways=[0, 1, 2]), rs.ZCDP(1.0), unit=unit)
    counted, left = (np.bincount(cell, each, minlength=24).reshape(6, 4)
                     for each in (np.minimum(owned, 3), np.maximum(owned - 3, 0)))  # fmt: skip
    truth = cases.truths(plan.workload, counted)
    cells, out = Held(truth), Held(np.r_[left.sum(), left.sum(axis=1)])
    with tempfile.TemporaryDirectory() as folder:
        for k in range(releases):
            ledger = rs.Ledger(f"{folder}/{k}", rs.ZCDP(1.0), unit=unit)
            release = rs.measure(plan, rs.Source.frame(data, person="person"), ledger=ledger)
            own = release.answers()
            cells.add(truth, own["lower"], own["upper"])
            both = [release.left_out.table(names) for names in ((), ("region",))]
            out.add(out.sizes, *(np.concatenate([each[end] for each in both]) for end in ("lower", "upper")))
    yield ["cell of what is counted", "marginals", "Gaussian", "", "persons, 3 records", *cells.figures(widths=True)]
    yield ["records left out", "marginals", "Gaussian", "", "persons, 3 records", *out.figures(widths=True)]


def surveys(releases: int, wanted: Wanted) -> Iterator[list[str]]:
    """Totals of a population of 200,000, of which a new sample is drawn for every release.

    Each person by itself, with chances that differ; or so many of each region. Sizes are of expected respondents.
    """
    if not wanted("surveys", "weighted"):
        return
    random = np.random.default_rng(4)
    people = pd.DataFrame({"region": random.choice(4, 200_000, p=[0.5, 0.3, 0.15, 0.05])})
    people["kind"] = np.minimum(random.geometric(0.5, 200_000) - 1, 5)
    apart = np.array([0.005, 0.01, 0.03, 0.1])[people["region"]] * np.where(people["kind"] > 2, 2, 1)
    drawn = {0: 500, 1: 600, 2: 900, 3: 1000}
    members = [np.flatnonzero(people["region"] == region) for region in drawn]
    by_region = np.array([n / len(own) for n, own in zip(drawn.values(), members, strict=True)])[people["region"]]
    designs: dict[str, tuple[Any, Callable[[], Any], dict[str, dict[str, Any]]]] = {
        "apart": (apart, lambda: random.random(len(people)) < apart, {"bound": {"squares": None}, "squares": {}}),
        "in strata": (
            by_region,
            lambda: np.concatenate(
                [random.choice(own, n, replace=False) for own, n in zip(members, drawn.values(), strict=True)]
            ),
            {"squares": {}, "squares, strata": {"strata": {"region": drawn}}},
        ),
    }
    domain, weights = (
        rs.Domain({"region": rs.Integers(0, 3), "kind": rs.Integers(0, 5)}),
        rs.Weights("w", most=200, step=0.5),
    )
    true = _with_margins(cases.counted(people[["region", "kind"]], (4, 6)))
    places = np.ravel_multi_index((people["region"], people["kind"]), (4, 6))
    for name, budget in (("rho = 0.5", rs.ZCDP(0.5)), ("rho = 5", rs.ZCDP(5.0)), ("epsilon = 5", rs.PureDP(5.0))):
        plan = rs.plan(rs.marginals(domain, ways=[0, 1, 2]), budget, unit=weights.protects)
        twice = rs.PureDP(2 * budget.epsilon) if isinstance(budget, rs.PureDP) else rs.ZCDP(2 * budget.rho)
        for design, (chance, draw, kinds) in designs.items():
            sizes = _with_margins(np.bincount(places, chance, minlength=24).reshape(4, 6))
            found = {kind: Held(sizes) for kind in kinds}
            for _ in range(releases):
                sample = people.assign(w=1 / chance).iloc[np.flatnonzero(one) if (one := draw()).dtype == bool else one]
                with tempfile.TemporaryDirectory() as folder:
                    ledger = rs.Ledger(f"{folder}/ledger", twice, unit=weights.protects)
                    survey = rs.measure_survey(plan, rs.Source.frame(sample, weights=weights), ledger=ledger)
                for kind, options in kinds.items():
                    totals = rs.weighted(survey.release, **{"squares": survey.squares, **options})
                    own = [totals.table(names) for names in ((), ("region",), ("kind",), ("region", "kind"))]
                    found[kind].add(true, *(np.concatenate([each[end] for each in own]) for end in ("lower", "upper")))
            noise = "Gaussian" if plan.noise.gaussian else "Laplace"
            for kind, held in found.items():
                words = ["total of a population", "marginals", noise, f"weighted: {kind}", f"drawn {design}, {name}"]
                yield [*words, *held.figures(widths=True)]


def _with_margins(cells: Any) -> Any:
    return np.concatenate([[cells.sum()], cells.sum(axis=1), cells.sum(axis=0), cells.ravel()])


if __name__ == "__main__":
    main()
