"""Draws per second of the exact samplers, beside NumPy's inexact normal and OpenDP's integer Gaussian, on one core."""

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import opendp.prelude as dp
from rich.console import Console
from rich.table import Table

from residua.noise import rounded_laplace, rounded_normal

DRAWS = 1 << 22
OPENDP_DRAWS = 2000
REPEATS = 5
SCALES = (1000.0, 1e6)


@dataclass(frozen=True)
class Row:
    """One sampler at one scale; the ratios are to the peers at the same scale."""

    sampler: str
    scale: float
    draws_per_second: float
    of_numpy: float
    of_opendp: float


def rows() -> list[Row]:
    """Measure every sampler at every scale, best of five runs each."""
    result = []
    for scale in SCALES:
        speeds = {
            "residua normal": speed(lambda s=scale: rounded_normal(s, DRAWS), DRAWS),
            "residua Laplace": speed(lambda s=scale: rounded_laplace(s, DRAWS), DRAWS),
            "NumPy normal + rint (inexact)": speed(numpy_normal(scale), DRAWS),
            "OpenDP integer Gaussian": speed(opendp_gaussian(scale), OPENDP_DRAWS),
        }
        numpy, opendp = list(speeds.values())[2:]
        result += [Row(name, scale, rate, rate / numpy, rate / opendp) for name, rate in speeds.items()]
    return result


def speed(draw: Callable[[], object], draws: int) -> float:
    """Return draws per second, the best of REPEATS after one to warm up."""
    draw()
    best = float("inf")
    for _ in range(REPEATS):
        start = time.perf_counter()
        draw()
        best = min(best, time.perf_counter() - start)
    return draws / best


def numpy_normal(scale: float) -> Callable[[], object]:
    rng = np.random.default_rng()
    return lambda: np.rint(rng.normal(0.0, scale, DRAWS)).astype(np.int64)


def opendp_gaussian(scale: float) -> Callable[[], object]:
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float)
    measurement = dp.m.make_gaussian(*space, scale=scale)
    zeros = [0] * OPENDP_DRAWS
    return lambda: measurement(zeros)


def main() -> None:
    """Print the table."""
    table = Table("sampler", "scale", "draws/s", "× NumPy", "× OpenDP", title="Noise, one core")
    for row in rows():
        table.add_row(
            row.sampler,
            f"{row.scale:,.0f}",
            f"{row.draws_per_second:,.0f}",
            f"{row.of_numpy:.3g}",
            f"{row.of_opendp:.3g}",
        )
    Console().print(table)


if __name__ == "__main__":
    main()
