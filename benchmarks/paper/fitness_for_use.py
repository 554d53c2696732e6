"""Fitness for use: Tables 2 to 9 and Figures 1 to 3, on the instances of the authors' public program.

What the text leaves open is read off that program (cmla-psu/matrixqueries): "GM" is noise on every *cell*; "HM" a tree
over the cells; "CA" has a thousandth of the mean diagonal as regulariser; targets are integers; all are compared at the
privacy cost at which SM-II stopped, which is above the optimum. Ours is at the certified optimum.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
from scipy.stats import norm

import residua as rs
from benchmarks.paper import PUBLISHED
from benchmarks.paper.charts import lines
from benchmarks.paper.tables import Asked, Drawing, Entry, Table
from benchmarks.paper.workloads import (
    age_pyramid_of_the_program,
    pl94,
    prefixes,
    published_ranges,
    random_signs,
    random_signs_targets,
)
from residua.plans.solver.solve import least_privacy, least_total

TITLE = "Optimizing fitness-for-use of differentially private linear queries"
ABOUT = (
    "Largest variance over target of noise on cells (GM), a tree (HM) and the least total error (CA), at the privacy "
    "cost of the best mechanism; ours is certified to 1e-3."
)
MISSING: dict[str, str] = {}
PRINTED = PUBLISHED["fitness_for_use"]
RATIOS = PRINTED["max_variance_ratio_of_baselines"]
MECHANISMS = ["GM", "HM", "CA", "SM-II"]
AT_PL94, AT_AGES = 2.971, 1.63476145  # where SM-II stopped, by Table 4, and in the authors' program


def least_total_error(W: np.ndarray) -> np.ndarray:
    """Variances of CA at privacy cost 1."""
    gram = W.T @ W
    gram += 1e-3 * np.trace(gram) / len(gram) * np.eye(len(gram))
    return ((W @ least_total(np.linalg.cholesky(gram).T, tolerance=1e-5).recovery) ** 2).sum(axis=1)


def tree_variances(W: np.ndarray, width: int | None) -> np.ndarray:
    """Variances at privacy cost 1 of a root, neighbouring groups of so many cells (None: no groups), and cells."""
    d = W.shape[1]
    levels = [np.ones((1, d)), np.eye(d)]
    if width is not None:
        levels.insert(1, (np.arange(d) // width == np.arange(-(-d // width))[:, None]).astype(float))
    return len(levels) * ((W @ np.linalg.pinv(np.vstack(levels))) ** 2).sum(axis=1)


def ratios_at_cost_1(W: np.ndarray, targets: np.ndarray, width: int | None) -> np.ndarray:
    """The largest variance over target of GM, HM and CA, at privacy cost 1."""
    each = [(W**2).sum(axis=1), tree_variances(W, width), least_total_error(W)]
    return np.array([(variances / targets).max() for variances in each])


@cache
def ranges(d: int, random_targets: bool) -> tuple[np.ndarray, float]:
    """The ratios of Tables 5 and 6 at privacy cost 1, and the least privacy cost."""
    W, c = published_ranges(d, random_targets)
    return ratios_at_cost_1(W, c, {128: 12, 512: 23}.get(d, math.isqrt(d))), least_privacy(W, c).pcost


@cache
def signs(d: int, random_targets: bool) -> tuple[np.ndarray, float]:
    """The same of Tables 7 and 8."""
    W = random_signs(d)
    c = random_signs_targets(d) if random_targets else np.ones(len(W))
    return ratios_at_cost_1(W, c, math.isqrt(d) if d >= 256 else None), least_privacy(W, c).pcost


def compared(ratios: np.ndarray, pcost: float, printed: Sequence[float]) -> list[Entry]:
    """Ours at the optimum beside what is printed at SM-II's cost, which GM gives away."""
    stopped = float(ratios[0] / printed[0])
    above, entries = 100 * (stopped / pcost - 1), []
    for theirs, ratio in zip(printed, [*ratios, pcost], strict=True):
        there = float(ratio) / stopped
        explained = abs(there - theirs) <= 0.006 + 0.004 * theirs  # the digits of both
        because = f"printed at SM-II's privacy cost, {above:.1f} % above the optimum" if explained else ""
        entries.append(Entry(theirs, float(ratio) / pcost, 2, because))
    return entries


def tables(asked: Asked) -> list[Table]:
    """Tables 2 to 9."""
    return [
        costs(),
        times(),
        fixed("Table 4", "PL94: largest variance over target", *pl94(), 16, AT_PL94, RATIOS["PL94"],
              f"At privacy cost {AT_PL94}, where SM-II must have stopped: 25.7 % above the optimum, 2.3633."),
        over_sizes("Table 5", "Ranges, all targets 1", "range_uniform_d", False, ranges),
        over_sizes("Table 6", "Ranges, random targets", "range_random_targets_d", True, ranges),
        over_sizes("Table 7", "Random ±1 queries, all targets 1", "random_uniform_d", False, signs),
        over_sizes("Table 8", "Random ±1 queries, random targets", "random_random_targets_d", True, signs),
        fixed("Table 9", "Age pyramid: largest variance over target", *age_pyramid_of_the_program(), 16, AT_AGES,
              RATIOS["age_pyramid"],
              "Not the queries of the text: in the authors' program the rows for [18, 115] are empty (an index on the "
              "wrong axis), ranges end at 115, and the target 1 is on ages 98 to 115. So read, at the privacy cost "
              "written there (6.2 % above the optimum, 1.5389), GM and HM are as printed. CA is 4.77: their solver "
              "takes at most 30 rounds; why it is 5.30 is not known.",
              "" ),
        optima(),
    ]  # fmt: skip


def costs() -> Table:
    figures = PRINTED["prefix_privacy_cost"]
    rows = []
    for d, printed in zip(figures["d"], figures["value"], strict=True):
        ours = least_privacy(prefixes(d), tolerance=1e-6).pcost
        rows.append((str(d), [Entry(printed, ours, 2), Entry(printed, ours, 2)]))
    return Table("Table 2", "Privacy cost (squared) of d prefixes", ["interior point", "SM-II"], rows)


def times() -> Table:
    figures, rows = PRINTED["seconds"], []
    for d, slow, fast in zip(figures["d"], figures["gradient_descent"], figures["sm2"], strict=True):
        start = time.process_time()
        least_privacy(prefixes(d))
        spent, machine = time.process_time() - start, "seconds of another machine, and our solver to 1e-3"
        rows.append((str(d), [Entry(slow, None, 2, "it was not run"), Entry(fast, spent, 3, machine)]))
    return Table("Table 3", "Seconds for d prefixes", ["gradient descent", "SM-II, and ours"], rows)


def fixed(
    name: str, title: str, W: np.ndarray, c: np.ndarray, width: int, at: float, printed: Sequence[float], remark: str,
    because: str = "",
) -> Table:  # fmt: skip
    """A table of one row at a given privacy cost."""
    ours = [*(ratios_at_cost_1(W, c, width) / at), 1.0]
    entries = [Entry(a, float(b), 2, because) for a, b in zip(printed, ours, strict=True)]
    return Table(name, title, MECHANISMS, [("ratio", entries)], remark)


def over_sizes(
    name: str, title: str, key: str, random: bool, instance: Callable[[int, bool], tuple[np.ndarray, float]]
) -> Table:
    """One row per number of cells."""
    sizes = (64, 128, 256, 512, 1024)
    rows = [(f"d = {d}", compared(*instance(d, random), RATIOS[key][str(d)])) for d in sizes]
    remarks = {
        "Table 5": "HM is a tree of two levels with √d groups; at 128 and 512 cells, which are no squares, its groups "
        "are not known, and those nearest to the printed figures are taken (12 and 23 cells).",
        "Table 6": 'The targets "from uniform(1, 10)" are integers from 1 to 10 in the authors\' program.',
        "Table 7": "The text has heads one time in five; the program calls choice(2, size, [0.8, 0.2]), whose third "
        "argument is `replace`, so that the coin is fair. HM is a root and the cells up to 128 cells, with √d "
        "groups between them beyond.",
        "Table 8": "Targets are integers from 1 to 3 and from 10 to 15 in the program, drawn after the queries.",
    }
    return Table(name, title, MECHANISMS, rows, remarks[name])


def optima() -> Table:
    """Least privacy costs that were recomputed independently."""
    from benchmarks.paper.workloads import age_pyramid

    cases = {
        "PL94, targets 1 / 2 / 4": pl94(),
        "PL94, all targets 1": (pl94()[0], 1.0),
        "age pyramid, [0,17]": age_pyramid(),
        "age pyramid, 116 prefixes": age_pyramid(voting=False),
        "prefix 256": (prefixes(256), 1.0),
    }
    rows = []
    for name, (W, c) in cases.items():
        (known,) = [value for key, value in PRINTED["recomputed"].items() if key.startswith(name)]
        found = least_privacy(W, c, tolerance=1e-5)
        rows.append((name, [Entry(known["pcost"], found.pcost, 4, within=found.achieved - found.bound)]))
    whole = least_privacy(age_pyramid()[0], 1.0, tolerance=1e-4).pcost
    rows.append(("age pyramid with [18,115], all targets 1", [Entry(7.115, whole, 3)]))
    return Table("Optima", "Least privacy costs, recomputed independently", ["privacy cost"], rows,
                 "These are not the paper's figures, but its workloads as the text defines them.")  # fmt: skip


# ---- figures


def drawings(made: Sequence[Table], asked: Asked) -> list[Drawing]:
    """Figures 1 to 3, and Tables 5 to 8 as lines."""
    curves = {
        f"Δ = {cost:g}": [(e, _delta(cost, e)) for e in np.linspace(0.0, 3.0, 61)] for cost in (0.2, 0.5, 1.0, 2.0)
    }
    figures = [
        Drawing("Figure 1", "Curves of epsilon and delta for different privacy costs.",
                lines("ε, δ curves", curves, "ε", "δ", marks=False)),
        Drawing("Figure 2", "Workload A: one-way marginals with targets 1, 2, 3, …; the paper prints no numbers.",
                _marginals("Workload A", False)),
        Drawing("Figure 3", "Workload B: two-way marginals with the first attribute, targets 1, 2, 3, ….",
                _marginals("Workload B", True)),
    ]  # fmt: skip
    for table in made[3:7]:
        series: dict[str, list[tuple[float, float]]] = {}
        for k, name in enumerate(MECHANISMS[:3]):
            for kind in ("printed", "ours"):
                points = [(float(label[4:]), getattr(entries[k], kind)) for label, entries in table.rows]
                series[f"{name}, {kind}"] = [point for point in points if point[1] is not None]
        svg = lines(table.title, series, "cells", "largest variance over target", log="xy")
        figures.append(Drawing(f"{table.name} drawn", table.title, svg))
    return figures


def _delta(cost: float, epsilon: float) -> float:
    """Corollary 1: the least delta at which noise of this privacy cost (not squared) is (epsilon, delta)-DP."""
    return float(norm.cdf(cost / 2 - epsilon / cost) - math.exp(epsilon) * norm.cdf(-cost / 2 - epsilon / cost))


def _marginals(title: str, two_way: bool) -> str:
    """Largest variance over target at the least privacy cost, for 2 to 8 binary attributes."""
    series: dict[str, list[tuple[float, float]]] = {name: [] for name in ("GM (cells)", "HM", "CA", "SM-II")}
    for d in range(2, 9):
        domain = rs.Domain.of_sizes([2] * d)
        names = domain.names
        sets = [(names[0], name) for name in names[1:]] if two_way else [(name,) for name in names]
        asked, targets = rs.marginals(domain, sets), {each: float(k + 1) for k, each in enumerate(sets)}
        best = rs.plan(asked, targets=targets)
        budget = rs.GDP(mu=math.sqrt(best.pcost))
        scales = np.repeat(list(targets.values()), 4 if two_way else 2)
        plans = [
            make(asked, budget) for make in (rs.analysis.on_cells, rs.analysis.hierarchical, rs.analysis.regularised)
        ]
        for name, plan in zip(series, [*plans, best], strict=True):
            series[name].append((d, float((plan.variances(asked) / scales).max())))
    return lines(title, series, "number of attributes", "largest variance over target", log="y")
