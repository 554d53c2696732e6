"""The matrix mechanism: Figures 1 to 5, Table 1, the examples, Theorems 11 and 12, and strategies found by search."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

import residua as rs
from benchmarks.paper import PUBLISHED
from benchmarks.paper.charts import lines, matrices
from benchmarks.paper.tables import Asked, Drawing, Entry, Table
from residua.linalg.intervals import Intervals
from residua.plans.search.strategies import Judged, haar, hierarchy, sensitivity

TITLE = "Optimizing linear counting queries under differential privacy (the matrix mechanism)"
ABOUT = "The examples on four cells through the public API, at epsilon 1; and what the search for strategies finds."
MISSING: dict[str, str] = {}
PRINTED = PUBLISHED["matrix_mechanism"]
STRATEGIES = {"I4": np.eye(4), "H4": hierarchy(4), "Y4": haar(4)}
LOWER = "a lower sensitivity than the printed one was found for the same error profile"
PROFILES = {"H4": ("H4_error_profile_times_21", 21), "Y4": ("Y4_error_profile_times_8", 8)}


def measured(strategy: np.ndarray) -> rs.Plan:
    """Laplace noise on the rows of a strategy at epsilon 1, by the public API."""
    domain = rs.Domain.of_sizes({"x": strategy.shape[1]})
    return rs.independent(rs.explicit(domain, strategy), rs.PureDP(epsilon=1.0))


def tables(asked: Asked) -> list[Table]:
    """Sensitivities, error profiles, eigenvalues, total errors, and searched strategies."""
    return [sensitivities(), reconstructions(), profiles(), eigenvalues(), growth(asked), searched(asked)]


def sensitivities() -> Table:
    rows = []
    for name, strategy in STRATEGIES.items():
        plan = measured(strategy)
        lower = PRINTED["profile_equivalent_with_lower_sensitivity"].get(name)
        least = None if lower is None else sensitivity(rs.analysis.least_sensitivity(plan.error_profile))
        rows.append(
            (name, [Entry(PRINTED["sensitivity_L1"][name], plan.sensitivity, 3), Entry(lower, least, 3, LOWER)])
        )
    return Table("Examples 2 and 7", "Sensitivity, and the least for the same error profile (Figure 4)",
                 ["sensitivity", "profile-equivalent"], rows)  # fmt: skip


def reconstructions() -> Table:
    """Figure 2: how the first cell is computed from what is measured."""
    everything = rs.explicit(rs.Domain.of_sizes({"x": 4}), np.eye(4))
    printed = {"Y4": np.array([1, 1, 2, 0]) / 4, "H4": np.array([3, 5, -2, 13, -8, -1, -1]) / 21}
    rows = []
    for name, weights in printed.items():
        plan = measured(STRATEGIES[name])
        ours = plan.reconstruction(everything)[0] * plan.strategy.max()
        entries = [Entry(float(a), float(b), 4) for a, b in zip(weights, ours, strict=True)]
        rows.append((name, [*entries, *[Entry(None, None)] * (7 - len(entries))]))
    columns = [f"weight {k + 1}" for k in range(7)]
    return Table("Examples 3 and 4", "The first cell, from what is measured (Figure 2)", columns, rows)


def profiles() -> Table:
    rows = []
    for name, (key, factor) in PROFILES.items():
        profile = measured(STRATEGIES[name]).error_profile * factor
        for i, row in enumerate(PRINTED[key]):
            entries = [Entry(a, float(b), 3) for a, b in zip(row, profile[i], strict=True)]
            rows.append((f"{name}, row {i + 1}, times {factor}", entries))
    return Table("Figure 3", "Error profiles of H4 and Y4", [f"cell {k + 1}" for k in range(4)], rows)


def eigenvalues() -> Table:
    """Table 1, for n = 16."""
    k, rows = 4, []
    of_tree, of_wavelet = (np.linalg.eigvalsh(each.T @ each) for each in (hierarchy(16), haar(16)))
    places = np.cumsum([2 ** (k - j) for j in range(1, k + 1)]) - 1
    for j, place in enumerate(places, start=1):
        entries = [Entry(2**j - 1, float(of_tree[place]), 3), Entry(2**j, float(of_wavelet[place]), 3)]
        rows.append((f"order {2 ** (k - j)}", entries))
    rows.append(("the total", [Entry(31, float(of_tree[-1]), 3), Entry(16, float(of_wavelet[-1]), 3)]))
    return Table("Table 1", "Eigenvalues for n = 16", ["H", "Y"], rows)


def _losses(most: int) -> dict[str, list[tuple[float, float]]]:
    made = {"I": np.eye, "H": hierarchy, "Y": haar}
    return {
        name: [(n, 2 * Judged(Intervals.every(n), False).loss(make(n))) for n in (2**k for k in range(3, most + 1))]
        for name, make in made.items()
    }


def growth(asked: Asked) -> Table:
    """Theorem 12: total errors of all ranges at epsilon 1, as powers of n and of log n."""
    losses = _losses(11 if asked.full else 10)
    rows = []
    for name, expected in (("I", 3.0), ("H", 2.0), ("Y", 2.0)):
        n, loss = np.array(losses[name]).T
        power = np.polyfit(np.log(n), np.log(loss), 1)[0]
        logs = np.polyfit(np.log(np.log2(n)), np.log(loss / n**2), 1)[0] if name != "I" else math.nan
        why = "a power of log₂ n beside n², over 8 to 1,024 cells, raises the slope"
        entries = [Entry(expected, float(power), 2, why if name != "I" else "n(n+1)(n+2)/6 is n³/6 only for large n")]
        tends = "log³ n is the limit; over 8 to 1,024 cells the slope is below it"
        entries.append(Entry(None if name == "I" else 3.0, None if name == "I" else float(logs), 2, tends))
        rows.append((name, entries))
    return Table("Theorem 12", "Total error of all ranges: fitted powers", ["power of n", "power of log n"], rows)


def searched(asked: Asked) -> Table:
    """What the search finds for prefixes; the paper has no figures."""
    best = {8: 70.26, 9: 85.29, 10: 100.59}
    rows = []
    for n, known in best.items():
        domain = rs.Domain.of_sizes({"x": n})
        asked_of = rs.explicit(domain, np.tril(np.ones((n, n))))
        plan = rs.plan(asked_of, rs.PureDP(epsilon=1.0))
        ours = float(plan.variances(asked_of).sum())
        why = "ours is lower" if ours < known else f"the search ends {ours / known - 1:.1%} above"
        identity = float(rs.analysis.on_cells(asked_of, rs.PureDP(epsilon=1.0)).variances(asked_of).sum())
        rows.append(
            (
                f"{n} prefixes",
                [
                    Entry(known, ours, 2, why),
                    Entry(None, identity, 2),
                    Entry(None, 2 * rs.analysis.singular_value_bound(asked_of), 2),
                ],
            )
        )
    return Table("Problem 1", "Total variance of prefixes under pure DP, epsilon 1",
                 ["best known (plain signed descents)", "noise on cells", "singular value bound"], rows,
                 "Not in the paper, which computes no optimal strategies. No bound is near: what is open.")  # fmt: skip


def drawings(made: Sequence[Table], asked: Asked) -> list[Drawing]:
    """Figures 1 to 5, and the growth of Theorem 12."""
    inverse = {f"{name}⁺": np.linalg.pinv(strategy) for name, strategy in STRATEGIES.items()}
    profile = {f"({name}ᵗ{name})⁻¹": np.linalg.inv(each.T @ each) for name, each in STRATEGIES.items()}
    lower = {
        f"{name}′, sensitivity {sensitivity(found):.3f}": found
        for name in ("H4", "Y4")
        for found in [rs.analysis.least_sensitivity(measured(STRATEGIES[name]).error_profile)]
    }
    angle = np.linspace(0, 2 * np.pi, 181)
    circle = np.stack([np.cos(angle), np.sin(angle)])
    ellipses = {}
    for name, M in (("w M₁ wᵗ = 1", np.eye(2)), ("w M₂ wᵗ = 1", np.array([[2.0, -1.5], [-1.5, 2.0]]))):
        points = np.linalg.solve(np.linalg.cholesky(M).T, circle)
        ellipses[name] = [(float(a), float(b)) for a, b in points.T]
    return [
        Drawing("Figure 1", "Query matrices on four cells.", matrices("I₄, H₄ and Y₄", STRATEGIES, 0)),
        Drawing("Figure 2", "How cells are estimated from noisy answers.", matrices("Reconstruction", inverse)),
        Drawing("Figure 3", "Error profiles.", matrices("Error profiles", profile, 3)),
        Drawing("Figure 4", "Profile-equivalent strategies of lower sensitivity.", matrices("Figure 4", lower)),
        Drawing("Figure 5", "Queries of error 1 under two profiles.",
                lines("Figure 5", ellipses, "c₁", "c₂", marks=False, square=True)),
        Drawing("Theorem 12 drawn", "Total error of all ranges at epsilon 1.",
                lines("All ranges", _losses(10), "cells", "total error", log="xy")),
    ]  # fmt: skip
