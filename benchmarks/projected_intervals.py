"""How often intervals of projected numbers hold the truth, and how wide they are, by cell size.

`ADULT=adult-coded.csv python -m benchmarks.projected_intervals [releases] [calibrated] [case …]`. Adult is public, and
`ADULT` names its coded file, beside its domain; all other data are simulated. `own` is the release's interval cut at
zero, `safe` that of the projection, `calibrated` a narrower one with 99 replicates, over fewer releases, which is not
offered because it does not hold on all data. Classes are by true count. The figures of `calibrated` were chosen with
marginals of three of Adult (education, marital status, occupation, race, sex) and with simulated geometric counts, at
rho = 0.02 with the total public: not with anything simulated here.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import residua as rs
from benchmarks.show import print_rows

ADULT = Path(os.environ.get("ADULT", "adult-coded.csv"))
CLASSES = {"0": (0, 0), "1 to 4": (1, 4), "5 to 19": (5, 19), "20 to 99": (20, 99), "100 and more": (100, np.inf)}
Case = tuple[Callable[[], pd.DataFrame], Callable[[rs.Domain], Any], Any, dict[str, Any]]


def adult(*names: str) -> pd.DataFrame:
    return pd.read_csv(ADULT, usecols=list(names))[list(names)]


def zipf() -> pd.DataFrame:
    """Skewed and dependent: most of 15 × 10 × 12 × 6 cells are empty."""
    random, n = np.random.default_rng(11), 6000
    a = np.minimum(random.zipf(1.6, n) - 1, 14)
    b = (a + np.minimum(random.geometric(0.5, n) - 1, 9)) % 10
    return pd.DataFrame({"a": a, "b": b, "c": random.binomial(11, 0.1 + 0.05 * b), "d": random.integers(0, 6, n)})


def mixture() -> pd.DataFrame:
    """Three groups of people, 3,000 in all."""
    random, n = np.random.default_rng(3), 3000
    kind = random.choice(3, n, p=[0.7, 0.25, 0.05])
    columns = {
        name: random.poisson(np.array(means)[kind]) % size
        for name, means, size in [("a", (1, 4, 9), 16), ("b", (0.2, 2, 5), 9), ("c", (3, 0.5, 6), 12)]
    }
    return pd.DataFrame(columns)


PEOPLE = ("education", "marital-status", "relationship", "race", "sex", "income>50K")
MARGINALS = {
    "two": lambda domain: rs.marginals(domain, ways=[1, 2]),
    "three": lambda domain: rs.marginals(domain, ways=[1, 2, 3]),
}
CASES: dict[str, Case] = {
    "Adult, marginals of two": (lambda: adult(*PEOPLE), MARGINALS["two"], rs.ZCDP(0.1), {}),
    "Adult, public total": (lambda: adult(*PEOPLE), MARGINALS["two"], rs.ZCDP(0.005), {"total": 48842}),
    "Adult, marginals of three": (lambda: adult(*PEOPLE[1:]), MARGINALS["three"], rs.ZCDP(0.2), {}),
    "Adult, Laplace": (lambda: adult(*PEOPLE), MARGINALS["two"], rs.PureDP(1.0), {}),
    "Adult, prefixes": (
        lambda: adult("hours-per-week", "race", "sex"),
        lambda domain: rs.product(domain, {"hours-per-week": "prefixes"}, sets=[tuple(domain.names)]),
        rs.ZCDP(0.02),
        {},
    ),
    "Zipf, marginals of two": (zipf, MARGINALS["two"], rs.ZCDP(0.05), {}),
    "Zipf, marginals of three": (zipf, MARGINALS["three"], rs.ZCDP(0.05), {"metric": "covariance"}),
    "mixture, marginals of two": (mixture, MARGINALS["two"], rs.ZCDP(0.05), {}),
    "mixture, cells": (mixture, lambda domain: rs.marginals(domain, [tuple(domain.names)]), rs.ZCDP(0.02), {}),
}


def domain_of(frame: pd.DataFrame) -> rs.Domain:
    sizes = json.loads(ADULT.with_name("adult-coded-domain.json").read_text()) if ADULT.exists() else {}
    return rs.Domain({name: rs.Integers(0, sizes.get(name, int(frame[name].max()) + 1) - 1) for name in frame})


def truths(frame: pd.DataFrame, workload: Any) -> Any:
    """What was asked, of public data, by counting."""
    counts = []
    for term in workload.terms():
        names = [workload.domain.names[i] for i, _ in term]
        table = np.zeros([int(workload.domain[name].size) for name in names])
        np.add.at(table, tuple(frame[name].to_numpy() for name in names), 1)
        counts.append(rs.workload.applied(term, table).ravel())
    return np.concatenate(counts)


def calibrated(release: Any, projected: Any) -> dict[str, Any]:
    """Of numbers below two standard deviations: quantiles of replicates, and mirrored, within safe ones of 97 %."""
    safe, wide = projected.answers(), projected.answers(confidence=0.97)
    p = safe["estimate"]
    apart = np.sort([each.answers(confidence=None)["estimate"] - p for each in projected.replicates(99)], axis=0)
    first, last = apart[1], apart[-2]
    small = p < 2.0 * release.answers()["stddev"]
    lower = np.clip(p + np.minimum(first, -last), wide["lower"], wide["upper"])
    upper = np.clip(p + np.maximum(last, -first), wide["lower"], wide["upper"])
    return {
        "lower": np.where(small, np.minimum(lower, p), safe["lower"]),
        "upper": np.where(small, np.maximum(upper, p), safe["upper"]),
    }


def rows(case: str, releases: int, calibrated: int) -> Iterator[list[str]]:
    data, asking, guarantee, options = CASES[case]
    frame = data()
    workload = asking(domain_of(frame))
    plan, truth = rs.plan(workload, guarantee), truths(frame, workload)
    held: dict[str, list[Any]] = {"own": [], "safe": [], "calibrated": []}
    for k in range(releases):
        with tempfile.TemporaryDirectory() as folder:
            release = rs.measure(plan, frame, ledger=rs.Ledger.create(f"{folder}/ledger", guarantee))
        projected = rs.project(release, **options)
        kinds = {"own": release.answers(), "safe": projected.answers()}
        if k < calibrated:
            kinds["calibrated"] = calibrated(release, projected)
        for kind, table in kinds.items():
            lower, upper = (np.maximum(table[end], 0.0) for end in ("lower", "upper"))
            held[kind].append((np.where((lower - 1e-6 <= truth) & (truth <= upper + 1e-6), 100.0, 0.0), upper - lower))
    for name, (low, high) in CLASSES.items():
        chosen = (truth >= low) & (truth <= high)
        if chosen.any():
            means = [
                np.mean([each[:, chosen].mean() for each in np.array(own)[:, [j]]])
                for own in held.values()
                for j in (0, 1)
            ]
            yield [case, name, str(int(chosen.sum())), *(f"{mean:.1f}" for mean in means)]


def main() -> None:
    releases, calibrated = (int(sys.argv[i]) if len(sys.argv) > i else usual for i, usual in ((1, 100), (2, 10)))
    columns = ["data and plan", "count", "cells"]
    columns += [f"{kind}{what}" for kind in ("own", "safe", "calibrated") for what in (" held %", " width")]
    for case in sys.argv[3:] or CASES:
        print_rows(
            f"95 % intervals over {releases:,} releases ({calibrated:,} calibrated)",
            columns,
            list(rows(case, releases, calibrated)),
        )


if __name__ == "__main__":
    main()
