"""Adult's 1-, 2- and 3-way tables by every method: mean ‖estimate − truth‖₁/N, same data, unit and delta.

`python -m benchmarks.beside_aim [--ways 1 2 3] [--epsilons 0.1 1 10] [--seeds 3] [--megabytes 4 80] [--methods …]`.
Methods: `estimates` (with synthetic rows made from them), `release` (unbiased, and its projection), `aim`. One line is
printed per run, one table in the end. AIM with a tree of 80 MB takes up to an hour per run; `--large-steps` (50) and
`--large-seeds` (1) bound it.
"""

from __future__ import annotations

import argparse
import time
from itertools import combinations
from typing import Any

import numpy as np

import residua as rs
from benchmarks.aim import Aim, rho_of
from benchmarks.estimates import DELTA, EPSILONS, adult, floor, independence, measured, truth
from benchmarks.junction import Clique, megabytes
from benchmarks.show import print_rows

METHODS = ["estimates", "release", "aim"]
_SMALL = 4.0  # megabytes


class Adult:
    """The data, its true tables, and errors beside them."""

    def __init__(self) -> None:
        self.domain, self.data, self.codes = adult()
        self.sizes = [int(size) for size in self.domain.sizes]
        self.tables: dict[Clique, Any] = {}

    def truth(self, clique: Clique) -> Any:
        """The true table, counted once."""
        if clique not in self.tables:
            self.tables[clique] = truth(self.codes, self.domain.sizes, clique)
        return self.tables[clique]

    def sets(self, ways: int) -> list[Clique]:
        """All tables of so many attributes."""
        return list(combinations(range(len(self.sizes)), ways))

    def far(self, ways: int, table: Any) -> float:
        """The mean over tables of ‖estimate − truth‖₁/N."""
        apart = [np.abs(table(clique) - self.truth(clique)).sum() for clique in self.sets(ways)]
        return float(np.mean(apart)) / len(self.codes)

    def named(self, made: Any) -> Any:
        """Tables by positions, of what takes names."""
        return lambda clique: made.estimates([self.domain.names[i] for i in clique])


def by_estimates(adult: Adult, ways: int, epsilon: float) -> dict[str, float]:
    start = time.process_time()
    plan = rs.plan_estimates(rs.marginals(adult.domain, ways=ways), rs.ApproxDP(epsilon, DELTA))
    made = rs.estimate(measured(plan, adult.data))
    tables = {clique: adult.named(made)(clique) for clique in adult.sets(ways)}
    spent = time.process_time() - start
    found = {"estimates": adult.far(ways, tables.__getitem__), "CPU s": spent}
    rows = np.concatenate(list(made.rows().codes()))
    scale = made.total / len(rows)
    own = {clique: truth(rows, adult.domain.sizes, clique) * scale for clique in adult.sets(ways)}
    found["rows"] = adult.far(ways, own.__getitem__)
    apart = [np.abs(own[clique] - tables[clique]).sum() for clique in adult.sets(ways)]
    found["rows beside estimates"] = float(np.mean(apart)) / made.total
    found["rows CPU s"] = time.process_time() - start - spent
    return found


def by_release(adult: Adult, ways: int, epsilon: float) -> dict[str, float]:
    release = measured(rs.plan(rs.marginals(adult.domain, ways=ways), rs.ApproxDP(epsilon, DELTA)), adult.data)
    projected = rs.project(release, tolerance=1e-2 if ways > 2 else None, simulations=0)
    return {
        "unbiased": adult.far(ways, adult.named(release)),
        "projected": adult.far(ways, adult.named(projected)),
    }


def by_aim(adult: Adult, ways: int, epsilon: float, most: float, steps: int, seed: int) -> dict[str, float]:
    start = time.process_time()
    random = np.random.default_rng(seed)
    aim = Aim(adult.truth, adult.sizes, ways, rho_of(epsilon, DELTA), most, steps, random)
    model = aim.run()
    spent = time.process_time() - start
    size = megabytes(adult.sizes, aim.measured)
    name = f"AIM {most:g} MB"
    return {
        name: adult.far(ways, model.table),
        f"{name} CPU s": spent,
        f"{name} rounds": aim.rounds,
        f"{name} tree": size,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ways", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--epsilons", type=float, nargs="+", default=list(EPSILONS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--large-seeds", type=int, default=1)
    parser.add_argument("--megabytes", type=float, nargs="+", default=[4.0, 80.0])
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--large-steps", type=int, default=50)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    given = parser.parse_args()
    adult = Adult()
    lines, names = [], {"ways": None, "epsilon": None}
    for ways in given.ways:
        truths = {clique: adult.truth(clique) for clique in adult.sets(ways)}
        for epsilon in given.epsilons:
            runs: list[dict[str, float]] = []
            for seed in range(given.seeds):
                before = len(runs)
                if "estimates" in given.methods:
                    runs.append(by_estimates(adult, ways, epsilon))
                if "release" in given.methods:
                    runs.append(by_release(adult, ways, epsilon))
                for most in given.megabytes if "aim" in given.methods else []:
                    if most <= _SMALL or seed < given.large_seeds:
                        steps = given.steps if most <= _SMALL else given.large_steps
                        runs.append(by_aim(adult, ways, epsilon, most, steps, seed))
                print(ways, epsilon, seed, *runs[before:], flush=True)
            runs.append({"independence": independence(adult.domain, adult.codes, truths)})
            runs.append({"no noise": floor(adult.domain, adult.codes, truths)})
            line = {name: float(np.mean([run[name] for run in runs if name in run])) for run in runs for name in run}
            lines.append({"ways": ways, "epsilon": epsilon, **line})
            names.update(dict.fromkeys(line))
    shown = [[f"{line[name]:.4g}" if name in line else "" for name in names] for line in lines]
    print_rows(
        "Adult, 15 attributes: mean ‖estimate − truth‖₁/N, delta 1e-9, one record added or removed", names, shown
    )


if __name__ == "__main__":
    main()
