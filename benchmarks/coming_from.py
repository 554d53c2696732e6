"""Cell keys, record swapping and suppression beside residua, on the same tables: error, additivity, one attack.

    python -m benchmarks.coming_from

All tables of one and two of seven attributes of Adult. The other methods are written from their published descriptions
with usual parameters: cell keys with a perturbation of variance 2 and at most 5 that leaves zeros alone; 10 % of the
records swap their country with one of the same sex; cells below 10 are suppressed, and as many others as keep rows and
columns from telling them. The attack is differencing: does the office's count of a group change if one person joins it?
"""

from __future__ import annotations

import itertools
import math
import tempfile
from collections.abc import Callable

import numpy as np
import pandas as pd

import residua as rs
from benchmarks.show import print_rows
from residua.demo_data import demo_folder

NAMES = ("workclass", "education", "marital-status", "race", "sex", "native-country", "income")
KEYS, LARGEST, VARIANCE = 256, 5, 2.0
SWAPPED, THRESHOLD = 0.1, 10
TARGETS, GROUP = 400, 300

Table = np.ndarray
Tables = dict[tuple[int, ...], Table]


def counted(codes: np.ndarray, sizes: list[int], weights: np.ndarray | None = None) -> Tables:
    """All tables of one and two attributes: counts, or sums of `weights`."""
    sets = [(i,) for i in range(len(sizes))] + list(itertools.combinations(range(len(sizes)), 2))
    tables = {}
    for each in sets:
        shape = [sizes[i] for i in each]
        flat = np.ravel_multi_index([codes[:, i] for i in each], shape)
        tables[each] = np.bincount(flat, weights, math.prod(shape)).reshape(shape)
    return tables


def perturbation() -> np.ndarray:
    """What is added for each cell key: a rounded normal of the given variance, cut at the largest, (256,)."""
    steps = np.arange(-LARGEST, LARGEST + 1)
    scale = VARIANCE
    for _ in range(60):  # the variance after the cut is the one wanted
        mass = np.exp(-(steps**2) / (2 * scale))
        mass /= mass.sum()
        scale *= VARIANCE / float(mass @ steps**2)
    return steps[np.searchsorted(np.cumsum(mass), (np.arange(KEYS) + 0.5) / KEYS)]


NOISE = perturbation()


def perturbed(count: Table, key: Table) -> Table:
    """Cell keys: the same people give the same key, and so the same perturbation; zeros stay."""
    return np.where(count > 0, np.maximum(count + NOISE[key.astype(int) % KEYS], 0), 0)


def swapped(codes: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Pairs of records of the same sex exchange their countries."""
    codes, sex, place = codes.copy(), NAMES.index("sex"), NAMES.index("native-country")
    for value in range(2):
        chosen = random.permutation(np.flatnonzero(codes[:, sex] == value))
        half = int(len(chosen) * SWAPPED / 2)
        first, second = chosen[:half], chosen[half : 2 * half]
        codes[first, place], codes[second, place] = codes[second, place], codes[first, place].copy()
    return codes


def suppressed(table: Table) -> Table:
    """Small cells, and in rows and columns with a single one the next smallest too; suppressed cells are NaN."""
    hidden = (table > 0) & (table < THRESHOLD)
    for _ in range(20):
        before = hidden.sum()
        for axis in range(table.ndim):
            lines, marks = np.moveaxis(table, axis, -1), np.moveaxis(hidden, axis, -1)
            for line, mark in zip(
                lines.reshape(-1, table.shape[axis]), marks.reshape(-1, table.shape[axis]), strict=True
            ):
                if mark.sum() == 1:
                    mark[np.argmin(np.where(mark | (line == 0), np.inf, line))] = True
        if hidden.sum() == before:
            break
    return np.where(hidden, np.nan, table)


def row(name: str, truth: Tables, tables: Tables) -> list[str]:
    """Mean absolute errors, how far rows are from their totals, and what is not published."""
    of = [(truth[each].ravel(), np.asarray(tables[each]).ravel()) for each in truth]
    true, told = (np.concatenate(each) for each in zip(*of, strict=True))
    error = np.abs(told - true)
    classes = [true == 0, (true > 0) & (true < 10), (true >= 10) & (true < 100), true >= 100]
    pairs = [(each, side) for each in tables if len(each) == 2 for side in (0, 1)]
    apart = [np.abs(tables[each].sum(axis=1 - side) - tables[(each[side],)]).ravel() for each, side in pairs]
    off = float(np.nanmax(np.concatenate(apart)))
    errors = ["-" if np.isnan(error[some]).all() else f"{np.nanmean(error[some]):.2f}" for some in classes]
    return [name, *errors, f"{off:.1f}", f"{100 * np.isnan(told).mean():.0f} %"]


def attacked(ask: Callable[[np.ndarray], float], pairs: int, random: np.random.Generator) -> float:
    """How often an attacker is right who asks groups with and without a person: a difference is the person's."""
    right = 0
    for _ in range(TARGETS):
        there, target = int(random.integers(2)), random.integers(0, KEYS, 1)
        groups = random.integers(0, KEYS, (pairs, GROUP))  # the record keys of the people in each group
        differences = [ask(np.concatenate([group, target[:there]])) - ask(group) for group in groups]
        right += int(any(differences) == bool(there))
    return right / TARGETS


def by_cell_keys(people: np.ndarray) -> float:
    """The office's answer about a group, by cell keys."""
    return float(perturbed(np.array(len(people)), people.sum()))


def exactly(people: np.ndarray) -> float:
    """The office's answer about a group of 300 people by attributes that are neither swapped nor suppressed."""
    return float(len(people))


def main() -> None:
    random = np.random.default_rng()
    spec = rs.Domain.load(demo_folder() / "adult.toml")
    domain = rs.Domain({name: spec[name] for name in NAMES})
    frame = pd.read_parquet(demo_folder() / "adult.parquet")
    codes = np.column_stack([pd.Categorical(frame[name], categories=list(domain[name].labels)).codes for name in NAMES])
    sizes = [int(size) for size in domain.sizes]
    truth = counted(codes, sizes)
    keys = counted(codes, sizes, random.integers(0, KEYS, len(codes)).astype(float))
    methods: dict[str, Tables] = {
        "cell keys, variance 2": {each: perturbed(truth[each], keys[each]) for each in truth},
        "10 % of countries swapped": counted(swapped(codes, random), sizes),
        "suppressed below 10": {each: suppressed(truth[each]) for each in truth},
    }
    workload = rs.marginals(domain, ways=[1, 2])
    plans = {f"residua, rho {rho:g}": rs.plan(workload, rs.ZCDP(rho=rho)) for rho in (0.1, 0.5)}
    alike = rs.plan(workload, targets=VARIANCE)
    plans[f"residua, variance 2 everywhere: rho {alike.guarantee.rho:.2f}"] = alike
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, plan) in enumerate(plans.items()):
            release = rs.measure(plan, frame, ledger=rs.Ledger(f"{folder}/{number}", plan.guarantee))
            methods[name] = {each: release.estimates([NAMES[i] for i in each]) for each in truth}
            if number == 0:
                whole = rs.project(release).rounded()
                methods[f"{name}, projected, whole numbers"] = {
                    each: whole.table([NAMES[i] for i in each]).estimates for each in truth
                }
    head = ["method", "0", "1 to 9", "10 to 99", "100 and more", "rows off their totals by", "not published"]
    print_rows(
        "Mean absolute error of a cell, by its true count",
        head,
        [row(name, truth, tables) for name, tables in methods.items()],
    )
    rows = []
    for name, ask in (("cell keys", by_cell_keys), ("swapping, suppression", exactly)):
        rows.append([name, *(f"{100 * attacked(ask, pairs, random):.0f} %" for pairs in (1, 2, 5))])
    for name, plan in plans.items():  # whatever is asked is computed from one release: the bound of every attack
        bound = 0.5 * (1 + math.erf((2 * plan.guarantee.rho) ** 0.5 / 2 / 2**0.5))
        rows.append([name, *[f"at most {100 * bound:.0f} %"] * 3])
    print()
    print_rows(
        "Is this person counted? How often an attacker is right",
        ["having asked of", "1 pair of groups", "2 pairs", "5 pairs"],
        rows,
    )


if __name__ == "__main__":
    main()
