"""One table measured many times at once, through the measuring step's own noise."""

from __future__ import annotations

import numpy as np

from residua.measurement.noisy import margins, maximal_layout, with_noise
from residua.plans.measurements import Batch, Measurements


class Copies:
    """Blocks whose every measurement is made many times: what `with_noise` asks of blocks.

    Args:
        measurements: what is measured each time.
        runs: how often.
    """

    in_place = False

    def __init__(self, measurements: Measurements, runs: int) -> None:
        self.measurements, self.runs = measurements, runs
        self.noise, self.cells = measurements.noise, measurements.cells * runs

    def batches(self) -> list[Batch]:
        return [Batch(0, np.repeat(each.scales, self.runs), each) for each in self.measurements.batches()]

    def correlation(self, batch: Batch) -> object:
        return self.measurements.correlation(batch.work)

    def integers(self, batch: Batch, tables: np.ndarray) -> np.ndarray:
        return np.repeat(self.measurements.integers(batch.work, tables.copy()), self.runs, axis=0)

    def store(self, batch: Batch, measured: np.ndarray, out: np.ndarray) -> None:
        once = measured.reshape(-1, self.runs, measured.shape[1])
        places = np.full(self.measurements.cells, -1)
        self.measurements.store(batch.work, np.arange(once[:, 0].size).reshape(once[:, 0].shape), places)
        here = np.flatnonzero(places >= 0)
        out.reshape(self.runs, -1)[:, here] = once.swapaxes(0, 1).reshape(self.runs, -1)[:, places[here]]


def unlike(draws: np.ndarray, stated: np.ndarray) -> tuple[float, int]:
    """How far the second moments of draws are from those stated: chi-square, nearly, and its degrees of freedom."""
    white = draws @ np.linalg.inv(np.linalg.cholesky(stated)).T
    k, runs = white.shape[1], len(white)
    apart = white.T @ white / runs - np.eye(k)
    off = (apart[np.triu_indices(k, 1)] ** 2).sum()
    return float(runs * (off + (np.diag(apart) ** 2).sum() / 2)), k * (k + 1) // 2


def tables_of(measurements: Measurements, x: np.ndarray) -> np.ndarray:
    """The true tables behind the blocks, from the table x of all attributes."""
    wanted = measurements.counted
    layout = maximal_layout(wanted.lattice, wanted.sizes, np.flatnonzero(wanted.starts >= 0))
    away = [tuple(set(range(x.ndim)) - set(row.tolist())) for group in layout for row in group.members]
    return margins(layout, np.concatenate([x.sum(axis=axes).ravel() for axes in away]).astype(np.int64), wanted)


def measured(measurements: Measurements, x: np.ndarray, runs: int) -> np.ndarray:
    """What so many runs measure of the table x, (runs, measurements)."""
    return with_noise(Copies(measurements, runs), tables_of(measurements, x)).reshape(runs, -1)
