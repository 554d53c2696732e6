"""Anderson acceleration of a fixed point in log-weights: the step that would have cancelled the last residuals.

From the last few points u and residuals r it finds the combination whose residual is smallest, and steps from there.
"Smallest" is measured in the metric diag(weights), in which the Hessian of the dual has its spectrum in [0, 1]: a
weight on its way to zero has a residual that never vanishes, and in the plain metric it drowns all others (that is
what made the unweighted form erratic: 150 rounds without an answer on random ranges, 20 with it).

Reference: Walker and Ni 2011, "Anderson acceleration for fixed-point iterations", in its difference form.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from residua.linalg.arrays import Floats

_MEMORY = 5
_DEPENDENT = 1e-12  # ridge on the cosines between differences: those that agree so far add rounding error only
_LEAST = 1e-200  # square of a difference that counts as none
_UP, _DOWN = 1.0, -4.0  # farthest an accelerated step may move a log-weight


class Acceleration:
    """Remembers the last differences of points and residuals."""

    def __init__(self) -> None:
        self.last: tuple[Floats, Floats] | None = None
        self.points: deque[Floats] = deque(maxlen=_MEMORY)
        self.residuals: deque[Floats] = deque(maxlen=_MEMORY)

    @property
    def used(self) -> bool:
        """Whether the last step was more than the plain one."""
        return bool(self.points)

    def forget(self) -> None:
        """Starts afresh; the next step is the plain one."""
        self.last = None
        self.points.clear()
        self.residuals.clear()

    def step(self, point: Floats, residual: Floats, weights: Floats, exponent: float) -> Floats:
        """The step from `point`, (n,): `exponent · residual` when nothing is remembered.

        Args:
            point: logarithms of the weights, (n,).
            residual: what a plain step with exponent 1 would add to them, (n,).
            weights: the metric, (n,).
            exponent: over-relaxation of the plain step.
        """
        if self.last is not None:
            self.points.append(point - self.last[0])
            self.residuals.append(residual - self.last[1])
        self.last = point, residual
        plain = exponent * residual
        if not self.points:
            return plain
        moved, changed = np.array(self.points), np.array(self.residuals)
        seen = changed * weights
        gram = seen @ changed.T
        scale = 1.0 / np.sqrt(np.maximum(np.diagonal(gram), _LEAST))
        gram = gram * scale * scale[:, None]
        gram[np.diag_indices(len(gram))] += _DEPENDENT
        share = scale * np.linalg.solve(gram, scale * (seen @ residual))
        return np.asarray(np.clip(plain - share @ (moved + exponent * changed), _DOWN, _UP))
