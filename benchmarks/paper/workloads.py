"""The workloads of the fitness-for-use experiments, built from the paper's text, with their target variances; and the
Census tables of persons (SF1 2010) as products."""

import itertools
import json
from functools import reduce
from operator import add
from pathlib import Path

import numpy as np

import residua as rs
from residua.workload import Workload


def prefixes(d: int) -> np.ndarray:
    """§7.1: how many records have value ≤ i, for every i."""
    return np.tril(np.ones((d, d)))


def random_ranges(d: int, seed: int = 0) -> np.ndarray:
    """§7.3: 2d ranges whose end points are uniform."""
    ends = np.sort(np.random.default_rng(seed).integers(0, d, size=(2 * d, 2)), axis=1)
    cell = np.arange(d)
    return ((ends[:, :1] <= cell) & (cell <= ends[:, 1:])).astype(float)


def random_targets(count: int, seed: int = 1) -> np.ndarray:
    """§7.3: targets from uniform(1, 10), read as integers (see `published_ranges`)."""
    return np.random.default_rng(seed).integers(1, 11, size=count).astype(float)


def published_ranges(d: int, targets: bool) -> tuple[np.ndarray, np.ndarray]:
    """§7.3: the instances of Tables 5 and 6 themselves.

    The authors' public program (cmla-psu/matrixqueries) draws, from NumPy's legacy generator with seed 0, for each
    query one end point, the other, and where targets are random an integer from 1 to 10.
    """
    draw = np.random.RandomState(0)
    W, c, cell = np.zeros((2 * d, d)), np.ones(2 * d), np.arange(d)
    for j in range(2 * d):
        ends = sorted((draw.randint(d), draw.randint(d)))
        W[j] = (ends[0] <= cell) & (cell <= ends[1])
        if targets:
            c[j] = draw.randint(1, 11)
    return W, c


def random_signs(d: int) -> np.ndarray:
    """§7.4: the instances of Table 7: 2d rows of ±1.

    The text has heads one time in five; the authors' program calls `choice(2, size, [0.8, 0.2])`, whose third argument
    is `replace`, so that the coin is fair.
    """
    return np.random.RandomState(0).choice(2, size=(2 * d, d)) * 2.0 - 1.0


def random_signs_targets(d: int) -> np.ndarray:
    """§7.4: the targets of Table 8, drawn after the queries: integers, 1 to 3 for a tenth, 10 to 15 for others."""
    draw = np.random.RandomState(0)
    draw.choice(2, size=(2 * d, d))
    few = 2 * d // 10
    return np.concatenate([draw.randint(1, 4, size=few), draw.randint(10, 16, size=2 * d - few)]).astype(float)


def pl94() -> tuple[np.ndarray, np.ndarray]:
    """§7.2: voting age, ethnicity, six single races, 57 combinations, and the identity; targets 1, 2 and 4."""
    subsets = [s for size in range(1, 7) for s in itertools.combinations(range(6), size)]
    assert len(subsets) == 63
    age, ethnicity, race = (axis.ravel() for axis in np.indices((2, 2, 63)))
    rows = [age == value for value in (0, 1)] + [ethnicity == value for value in (0, 1)]
    rows += [race == k for k in range(63)]  # the first six are single races
    W = np.vstack([np.array(rows, dtype=float), np.eye(252)])
    targets = np.concatenate([np.ones(4 + 6), np.full(57, 2.0), np.full(252, 4.0)])
    return W, targets


def age_pyramid(voting: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """§7.5: prefixes of 116 ages for men, women and both; if `voting`, also [18, 115], and targets 1 or 10."""
    ages = np.tril(np.ones((116, 116)))
    targets = np.full(116, 10.0)
    targets[17] = 1.0
    if voting:
        ages = np.vstack([ages, (np.arange(116) >= 18).astype(float)])
        targets = np.append(targets, 1.0)
    none = np.zeros_like(ages)
    W = np.vstack([np.hstack([ages, none]), np.hstack([none, ages]), np.hstack([ages, ages])])
    return W, (np.tile(targets, 3) if voting else np.ones(len(W)))


def age_pyramid_of_the_program() -> tuple[np.ndarray, np.ndarray]:
    """§7.5 as the authors' public program has it, which is what Table 9 was printed from.

    Ranges end at 115 instead of beginning at 0; the target 1 is on row 98, ages 98 to 115; and `add_1[18:116] = 1` on
    an array of one row sets nothing, so that the rows for [18, 115] are empty.
    """
    ages, none = np.triu(np.ones((116, 116))), np.zeros((116, 116))
    W = np.vstack([np.hstack([ages, none]), np.hstack([none, ages]), np.hstack([ages, ages])])
    targets = np.full(116, 10.0)
    targets[98] = 1.0
    return W, np.tile(targets, 3)


def sf1_persons() -> tuple[Workload, dict]:
    """The 33 products of 0/1 rows that HDMM's authors make of the Census tables, and errors known at privacy cost 1."""
    given = json.loads((Path(__file__).parent / "sf1_persons.json").read_text())
    domain = rs.Domain.of_sizes(given["sizes"])
    rows = {kind: [set(values) for values in sums] for kind, sums in given["rows"].items()}

    def term(asked: dict[str, str]) -> Workload:
        matrices = {
            name: np.array([[float(value in row) for value in range(given["sizes"][name])] for row in rows[kind]])
            for name, kind in asked.items()
        }
        return rs.product(domain, matrices) if matrices else rs.marginals(domain, [()])

    return reduce(add, map(term, given["terms"])), given["rmse_at_pcost_1"]
