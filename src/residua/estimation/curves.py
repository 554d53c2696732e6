"""What more precision would bring: the expected error of an interaction, by how precisely it is measured.

Once a residual was looked at, each of its cells has a posterior over the variances of its deviation from the model. A
cell whose deviation has variance v, measured with noise of variance s², errs by `√(2/π · v s² / (v + s²))` on average.
The sum over cells and scales is a curve in s², which is all that spending needs to know of a table.
"""

from __future__ import annotations

import math

import numpy as np

from residua.estimation.shrinkage import Prior, responsibilities
from residua.linalg.arrays import Floats

FACTORS = 4.0 ** np.arange(9)  # of the precision that it was measured with
_MOST_CELLS = 1_500
MEAN = math.sqrt(2.0 / math.pi)  # of the absolute value of a standard normal


def error_curve(deviation: Floats, model: Floats, variance: float, prior: Prior) -> Floats:
    """The expected sum of absolute errors at each multiple of the precision, (factors,).

    Args:
        deviation: what was measured, minus the model.
        model: the model's table.
        variance: of the noise of a cell.
        prior: what is believed of the deviations.
    """
    stride = max(1, deviation.size // _MOST_CELLS)
    scales, share = responsibilities(deviation, model, variance, prior, stride)
    noise = variance / FACTORS
    found = [float((share * np.sqrt(scales * s / (scales + s))).sum()) for s in noise]
    return MEAN * deviation.size / len(share) * np.array(found)


def at_precisions(curves: Floats, measured: Floats, wanted: Floats) -> tuple[Floats, Floats]:
    """The error of each set at a precision no less than measured, and how it falls: `−d log error / d log τ`.

    Args:
        curves: one per set, (sets, factors).
        measured: the precision at the first factor, (sets,).
        wanted: (sets,).
    """
    step = math.log(FACTORS[1])
    at = np.clip(np.log(np.maximum(wanted / measured, 1.0)) / step, 0.0, None)
    left = np.minimum(at.astype(np.int64), len(FACTORS) - 2)
    logs = np.log(np.maximum(curves, 1e-300))
    rows = np.arange(len(curves))
    low, high = logs[rows, left], logs[rows, left + 1]
    slopes = np.clip((low - high) / step, 0.0, 0.5)
    inside = np.minimum(at - left, 1.0)
    beyond = np.maximum(at - left - 1.0, 0.0)  # past the last factor the error falls as noise does
    errors = np.exp(low - slopes * step * inside - 0.5 * step * beyond)
    # Between two points the slope moves from one piece to the next, so that rounds settle.
    after = np.clip((logs[rows, left + 1] - logs[rows, np.minimum(left + 2, len(FACTORS) - 1)]) / step, 0.0, 0.5)
    after = np.where(left + 2 < len(FACTORS), after, 0.5)
    return errors, (1.0 - inside) * slopes + inside * after
