"""How accurate a projection is: a bound that holds whatever the data, and a simulation that is an indication.

The truth t lies in the convex set that is projected onto (if the public facts are true), so that for the release y and
its projection p, in the metric of the projection, `‖p − t‖² ≤ ‖y − t‖² − ‖y − p‖²` (the angle at p is obtuse). The
last term is known, and `‖y − t‖² = Σ a_i z_i²` with standard normal z and known a. What was found is within √gap of p.

Where the release moved further than its noise reaches at the bound's confidence, nothing is left to bound: either that
was a rare release, or a fact is false. Then no bound is stated.

Reference: factorization-and-projection, equation 43; Laurent and Massart (2000), Lemma 1, for the tail of Σ a_i z_i².
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from residua.linalg.arrays import Floats
from residua.projection.problem import Fit, Progress, ProjectionProblem

CONFIDENCE = 0.999
_DOUBT = 1e-6
_CHECK = "a public fact, a structural zero or the domain may be wrong"


@dataclass(frozen=True)
class Bound:
    """A bound on the root mean square error, in the metric of the projection.

    Guarantee: if the public facts and structural zeros are true, both figures hold together with this confidence.

    Args:
        released: of the release's unbiased estimates.
        projected: of the projection; more than `released` at most by what the gap leaves open, unless the total is the
            release's own, which is noisy. Infinite where none can be stated: the projection moved the release further
            than its noise reaches.
        unit: what they are measured in: "standard deviations" of the measured noise, or "counts" (of all that was
            asked).
        confidence: how often the bound holds.
        doubtful: the projection moved the release further than its noise explains in all but one case in a million:
            then a public fact, a structural zero or the domain is wrong.
    """

    released: float
    projected: float
    unit: str
    confidence: float = CONFIDENCE
    doubtful: bool = False

    def __str__(self) -> str:
        if math.isinf(self.projected):
            return f"not bounded: these conditions are further from the release than its noise reaches ({_CHECK})"
        return (
            f"at most {self.projected:,.4g} {self.unit} (root mean square, {self.confidence:.1%} confidence; "
            f"the release itself: {self.released:,.4g})"
        )


def bound_of(problem: ProjectionProblem, observed: Floats, fit: Fit) -> Bound:
    """The bound of a projection, from what was observed and what was found."""
    moved = problem.moved(observed, fit)
    least = max(moved - fit.gap, 0.0)  # the nearest tables are no nearer
    miss = 1.0 - CONFIDENCE
    if not problem.terms.total_stddev:
        reach = _tail(problem.noise_sums, miss)
        left = (math.sqrt(reach - least) + math.sqrt(fit.gap)) ** 2 if moved < reach else math.inf
        doubtful = least > _tail(problem.noise_sums, _DOUBT)
    else:
        reach = _tail(problem.noise_sums, miss / 2)
        left, _ = _with_noisy_total(problem, fit, least, miss / 2)
        _, farthest = _with_noisy_total(problem, fit, least, _DOUBT / 2)
        doubtful = least > farthest
    cells = problem.cells
    return Bound(math.sqrt(reach / cells), math.sqrt(left / cells), problem.unit, doubtful=doubtful)


def _with_noisy_total(problem: ProjectionProblem, fit: Fit, least: float, miss: float) -> tuple[float, float]:
    """Squared bounds on `‖p − t‖` and `‖y − p‖` when the total that was met is the release's own, off by δ.

    The first is infinite where the least possible `‖y − p‖²` is above the second.

    The truth scaled to that total, `t' = t (1 + δ/n)`, is in the set: `‖p − t'‖² ≤ ‖y − t'‖² − ‖y − p‖²`, and t' is
    within `a = |δ/n| ‖t‖ ≤ |δ/n| (‖p‖ + ‖p − t‖)` of t. The last step refers to what is bounded: it is iterated.
    """
    reach = math.sqrt(_tail(problem.noise_sums, miss))
    room = math.sqrt(fit.gap)
    simple = reach + math.sqrt(least + fit.gap)  # ‖p − t‖ ≤ ‖y − t‖ + ‖y − p‖
    total = float(fit.marginal(()))
    off = -NormalDist().inv_cdf(miss / 2) * problem.terms.total_stddev
    share = off / (total - off) if total > off else math.inf  # of the true total, which may be as small as that
    length, error = math.sqrt(problem.size(fit)), 0.0
    for _ in range(100):
        apart = share * (length + error)
        if not apart < 1e150:
            return simple**2, math.inf
        error = math.sqrt(max((reach + apart) ** 2 - least, 0.0)) + apart + room
    farthest = (reach + apart) ** 2
    return (min(error, simple) ** 2 if least < farthest else math.inf), farthest


def _tail(noise_sums: tuple[float, float, float], miss: float) -> float:
    """What `Σ a_i z_i²` exceeds with probability at most `miss`."""
    total, squares, largest = noise_sums
    x = -math.log(miss)
    return total + 2.0 * math.sqrt(x * squares) + 2.0 * x * largest


@dataclass(frozen=True)
class SimulatedError:
    """Mean absolute errors over everything that was asked, if the projected tables were the truth.

    An indication, not a bound: releases are simulated from the plan with the projection itself as the data. No real
    data is touched, and it costs nothing.

    Args:
        released: of unbiased estimates.
        projected: of their projections.
        simulations: how many releases were simulated.
    """

    released: float
    projected: float
    simulations: int

    def __str__(self) -> str:
        releases = "1 release" if self.simulations == 1 else f"{self.simulations} releases"
        return (
            f"{self.projected:,.4g} (unprojected {self.released:,.4g}); mean absolute error over what was asked, "
            f"{releases} simulated as if the projected tables were the truth"
        )


def simulated_error(
    problem: ProjectionProblem,
    truth: Fit,
    simulations: int,
    *,
    done: Progress | None = None,
    progress: Progress | None = None,
) -> SimulatedError:
    """Mean absolute errors of releases simulated from a problem's plan as if a fit were the truth, and projected.

    Args:
        problem: the projection.
        truth: what is taken for the data.
        simulations: how many releases to simulate.
        done: called with how many are done, and the error so far.
        progress: as for `problem.solve`.
    """
    random = np.random.default_rng()
    errors = np.zeros((simulations, 2))
    for i in range(simulations):
        observed = problem.simulated(truth, random)
        fits = (problem.unprojected(observed), problem.solve(observed, progress))
        errors[i] = [problem.error(fit, truth) for fit in fits]
        if done is not None:
            done(i + 1, float(errors[: i + 1, 1].mean()))
    released, projected = errors.mean(axis=0)
    return SimulatedError(float(released), float(projected), simulations)
