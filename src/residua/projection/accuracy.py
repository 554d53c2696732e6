"""How accurate a projection is, and what it says of itself: a bound whatever the data, or an indication by simulation.

The truth t lies in the convex set that is projected onto (if the public facts are true), so that for the release y and
its projection p, in the metric of the projection, `‖p − t‖² ≤ ‖y − t‖² − ‖y − p‖²` (the angle at p is obtuse). The
last term is known, and `‖y − t‖² = Σ a_i z_i²` with standard normal z and known a. What was found is within √gap of p.

Where the release moved further than its noise reaches at the bound's confidence, nothing is left to bound: either that
was a rare release, or a fact is false. Then no bound is stated.

Reference: factorization-and-projection, equation 43; Laurent and Massart (2000), Lemma 1, for the tail of Σ a_i z_i².
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from residua.domain.facts import listed, shown
from residua.language import mark, say, say_many
from residua.linalg.arrays import Floats
from residua.privacy.costs import stated
from residua.projection.problem import Fit, Progress, ProjectionProblem
from residua.published.table import protects
from residua.showing import printable

if TYPE_CHECKING:
    from residua.projection.project import Projected
    from residua.projection.tables import MadeFrom

CONFIDENCE = 0.999
_RARE = 1e-6  # how often a true fact is doubted
_CHECK = mark("a public fact, a structural zero or the domain may be wrong")


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
            words = mark("not bounded: these conditions are further from the release than its noise reaches ({why})")
            return say(words, why=say(_CHECK))
        words = mark(
            "at most {projected:,.4g} {unit} (root mean square, {confidence:.1%} confidence; the release itself: "
            "{released:,.4g})"
        )
        figures = {"projected": self.projected, "confidence": self.confidence, "released": self.released}
        return say(words, unit=say(self.unit), **figures)


def bound_of(problem: ProjectionProblem, observed: Floats, fit: Fit) -> Bound:
    """The bound of a projection, from what was observed and what was found."""
    moved = problem.moved(observed, fit)
    least = max(moved - fit.gap, 0.0)  # the nearest tables are no nearer
    miss = 1.0 - CONFIDENCE
    if problem.terms.own_totals:  # noisy, so that the truth need not have them: ‖p − t‖ ≤ ‖y − t‖ + ‖y − p‖
        reach = _tail(problem.noise_sums, miss)
        farthest = sum(math.sqrt(_tail(sums, _RARE / 2)) for sums in (problem.noise_sums, problem.total_sums)) ** 2
        doubtful = least > farthest
        left = math.inf if doubtful else (math.sqrt(reach) + math.sqrt(moved)) ** 2
    elif not problem.terms.total_stddev:
        reach = _tail(problem.noise_sums, miss)
        left = (math.sqrt(reach - least) + math.sqrt(fit.gap)) ** 2 if moved < reach else math.inf
        doubtful = least > _tail(problem.noise_sums, _RARE)
    else:
        reach = _tail(problem.noise_sums, miss / 2)
        left, _ = _with_noisy_total(problem, fit, least, miss / 2)
        _, farthest = _with_noisy_total(problem, fit, least, _RARE / 2)
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
        return say_many(
            "{projected:,.4g} (unprojected {released:,.4g}); mean absolute error over what was asked, 1 release "
            "simulated as if the projected tables were the truth",
            "{projected:,.4g} (unprojected {released:,.4g}); mean absolute error over what was asked, {n} releases "
            "simulated as if the projected tables were the truth",
            self.simulations, projected=self.projected, released=self.released,
        )  # fmt: skip


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


BIASED = mark("biased, without standard deviations")
WARNING = mark(
    "These estimates are biased: raising cells that came out negative lowers others. They have no standard deviations "
    "or covariances; take those from the release. Their intervals are the release's own, cut at what is known."
)

_MOST_NAMED = 10
METRICS = {
    "margins": mark("the release's own metric (squares weighted by covariance) with small tables weighing more"),
    "covariance": mark("the release's own metric (squares weighted by covariance)"),
    "plain": mark("plain squares over all that was asked (attributes of products in several ways: no less than that)"),
}


_INDICATION = mark(
    "This is an indication, not a bound: releases were simulated from the plan as if these tables, themselves made "
    "from a private release, were the data."
)
_SHRUNK = mark(
    "The noise of the release is large beside the total. So each set's interaction was first shrunk by as much as "
    "noise explains of it (James and Stein); what noise explains altogether was taken to be nothing."
)
_OWN_TOTALS = mark(
    "the total of each group is exactly what the release says of it, or is estimated from that where it is less than "
    "three standard deviations above zero"
)
_DOUBT = mark(
    "**The release is further from these conditions than its noise explains in all but one case in a million: a public "
    "fact, a structural zero or the declared domain is wrong, and what is said here of accuracy does not hold.**"
)


def statement_of(
    title: str, warning: str, met: Sequence[str], done: Sequence[str], accuracy: Sequence[str], of: MadeFrom
) -> str:
    """What tables without error bars say of themselves, as Markdown: what they meet, what was done, how accurate."""
    lines = [
        f"# {title}",
        "",
        say(warning),
        "",
        say("What these tables meet:"),
        "",
        *(f"- {one}" for one in met),
        *(f"- {say('nobody has {rule}', rule=str(rule))}" for rule in of.domain.impossible),
        "",
        *done,
        "",
        f"## {say('Accuracy')}",
        "",
        *accuracy,
        "",
        f"## {say('Privacy')}",
        "",
        say(
            "Computed from a release alone ({guarantee}, for {unit}); no data was touched and nothing more was spent.",
            guarantee=stated(of.plan.guarantee, of.receipt),
            unit=protects(of.plan.unit, of.receipt),
        ),
        "",
    ]
    return "\n".join(map(printable, lines))  # a name cannot add a line


def projection_statement(projected: Projected) -> str:
    """What was done and how accurate it is, as Markdown."""
    terms = projected.terms
    met = [
        *([say("no cell is negative")] if terms.nonnegative else []),
        say("all tables agree with each other"),
        *(_fact(projected, fact.members) for fact in terms.facts),
        *([say(_OWN_TOTALS)] if terms.own_totals else []),
    ]
    done = [
        *_left_out(projected),
        *([say("Every table {counted}.", counted=counted), ""] if (counted := projected.counted) else []),
        *([say(_SHRUNK)] if terms.shrunk else []),
        *_nearness(projected),
    ]
    return statement_of(say("Projection"), WARNING, met, done, _accuracy(projected), projected)


def _nearness(projected: Projected) -> list[str]:
    """How near the tables are, and to what; that none are nearer is said only where a gap is proven."""
    missed = {"missed": projected.infeasibility, "metric": say(METRICS[projected.terms.metric])}
    if math.isinf(projected.gap):
        near = mark(
            "They are near to what the release says (after shrinking, where that was done), and not proven to be the "
            "nearest by {metric}; no condition is missed by more than {missed:.2g} counts."
        )
        return [say(near, **missed)]
    if projected.terms.shrunk:
        nearest = mark(
            "Among all tables that do, they are the nearest to that by {metric}; the squared distance is proven within "
            "{gap:.2g} of the least possible, and no condition is missed by more than {missed:.2g} counts."
        )
        return [say(nearest, gap=projected.gap, **missed)]
    nearest = mark(
        "Among all tables that do, they are the nearest to the release by {metric}; the squared distance, "
        "{distance:,.6g}, is proven within {gap:.2g} of the least possible, and no condition is missed by more than "
        "{missed:.2g} counts."
    )
    return [say(nearest, distance=projected.distance, gap=projected.gap, **missed)]


def _left_out(projected: Projected) -> list[str]:
    """Tables that were asked about, and of which the release tells too little to project them."""
    missing = projected.left_out
    if not missing:
        return []
    named = listed([shown(projected.domain, members) for members in missing], _MOST_NAMED)
    words = mark(
        "Not among them, because the release does not tell all their cells: {named}. Take what was asked of these from "
        "the release."
    )
    return [say(words, named=named), ""]


def _accuracy(projected: Projected) -> list[str]:
    doubt = ["", say(_DOUBT)] if projected.bound and projected.bound.doubtful else []
    if projected.simulated is None:
        return [*_bound(projected), *doubt]
    return [
        *_bound(projected),
        "",
        say("Simulated: {error}.", error=str(projected.simulated)),
        say(_INDICATION),
        *doubt,
    ]


def _bound(projected: Projected) -> list[str]:
    bound = projected.bound
    if bound is None and projected.terms.shrunk:
        return [
            say("No bound is given: interactions were shrunk by their noise, which helps on the whole, not always.")
        ]
    if bound is None and math.isinf(projected.gap):
        return [say("No bound is given: these tables are not proven to be the nearest to the release.")]
    if bound is None:
        return [
            say("No bound is given: the release is biased itself (an approximate plan), or its noise is not normal.")
        ]
    if math.isinf(bound.projected):
        words = mark(
            "No bound is given: these conditions are further from the release than its noise reaches with "
            "{confidence:.1%} confidence. A public fact, a structural zero or the declared domain may be wrong."
        )
        return [say(words, confidence=bound.confidence)]
    words = mark(
        "A bound that holds whatever the data, if the public facts above are true: the error of the projection is "
        "{bound}."
    )
    lines = [say(words, bound=str(bound))]
    if not projected.terms.total_stddev and not projected.terms.own_totals:
        lines.append(say("In the metric above, the projection is never further from the truth than the release."))
    return lines


def _fact(projected: Projected, members: tuple[int, ...]) -> str:
    if members:
        words = mark("the marginal on {names} is exactly what is publicly known")
        return say(words, names=shown(projected.domain, members))
    if projected.terms.total_stddev:
        return say("the total is exactly what the release says of it")
    return say("the total is exactly what is publicly known")
