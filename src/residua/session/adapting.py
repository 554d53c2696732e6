"""`session.adapt`: look at everything, learn how strong interactions are, spend the rest where it helps estimates most.

Three steps, each paid before it reads the data: a look at everything, scores of larger tables (how far what the look
says of them is from the data), and the rest. What the rest measures is decided by what was released, and nothing
else; so the costs add up, and each measurement's noise is independent of the choices before it.

adaptations/0001.json     what is asked, within what; the scores once they are measured; that it has ended

That file lets an adaptation go on after a crash. Each of its debits names it and its step in the ledger, so that what
it has spent is never counted from memory.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from residua.errors import PlanError, SessionError, named
from residua.estimation import Estimated, estimate
from residua.estimation.observed import Observed, observed_of
from residua.estimation.planning import planned, require_estimable
from residua.estimation.spending import precisions_after
from residua.estimation.tables import EstimatedTables
from residua.files import read_document, write_document
from residua.folders import DAMAGE
from residua.linalg.arrays import Floats
from residua.measurement.job import Job
from residua.measurement.score import Scores, scored, scores_within
from residua.plans.noise import NORMAL
from residua.plans.product.plan import ProductPlan
from residua.plans.verifier import composed_cost, priced
from residua.privacy import GDP, Guarantee, Nothing
from residua.privacy.guarantees import affordable, guarantee_to_body
from residua.release import Release
from residua.session.accounts import SessionStanding
from residua.session.measuring import Measuring, Missing, require_domain
from residua.workload import Workload

KIND, VERSION = "residua session adaptation", 1


@dataclass(frozen=True, eq=False, repr=False)
class Adapted:
    """What `session.adapt` has measured, with exact error bars, and the estimates made from it.

    Guarantee: `release` is unbiased, with exact variances and intervals, whatever was chosen on the way: the noise of
    each measurement is independent of what was chosen before it. `estimated` is biased towards a model.

    Args:
        release: everything that the session has measured, pooled.
        scores: how far the estimates of larger tables were from the data, after the look; None if not asked.
        spent: what the adaptation has debited, step by step, pcosts: "look", "scores", "rest".
    """

    release: Release
    scores: Scores | None
    spent: Mapping[str, Fraction]

    @cached_property
    def estimated(self) -> Estimated:
        """Tables of any attributes that borrow strength from all that was measured; made when first asked for."""
        return estimate(self.release)

    def __repr__(self) -> str:
        steps = ", ".join(f"{step} pcost {float(cost):.4g}" for step, cost in self.spent.items())
        return f"Adapted({steps})"


@dataclass(frozen=True, eq=False)
class Adaptation:
    """One adaptation as its document holds it.

    Args:
        path: the document.
        number: its number.
        asked: what it is for: the tables and their weights, the budget, the shares, as they are written.
        scores: once they are measured.
        ended: whether all is spent.
    """

    path: Path
    number: int
    asked: Mapping[str, Any]
    scores: Scores | None = None
    ended: bool = False

    def written(self, *, scores: Scores | None = None, ended: bool = False) -> Adaptation:
        """The same with more known, on disk."""
        now = replace(self, scores=scores or self.scores, ended=ended or self.ended)
        kept = now.scores
        body = {
            "asked": dict(self.asked),
            "ended": now.ended,
            "scores": None if kept is None else {**vars(kept), "values": kept.values.tolist()},
        }
        write_document(self.path, KIND, VERSION, body)
        return now


def asked_for(workload: Workload, budget: Guarantee, look: float, scores: float) -> dict[str, Any]:
    """What an adaptation is for, in words and numbers that are equal if and only if it is the same one."""
    if workload.domain.amounts:
        raise PlanError("workload: its domain has amounts, to which no adaptation is made; leave them out.")
    tables = msgspec.json.encode([workload.sets, workload.weights.tolist(), workload.domain.sizes.tolist()])
    return {
        "tables": len(workload),
        "digest": hashlib.sha256(tables).hexdigest(),
        "budget": guarantee_to_body(budget),
        "look": look,
        "scores": scores,
    }


LOOK, SCORES = 0.25, 0.005  # at most: what they take is missing elsewhere where they find nothing
_USUAL, _BEFORE = {"look": LOOK, "scores": SCORES}, {"look": 0.5, "scores": 0.02}


def adaptation_in(folder: Path, asked: Mapping[str, Any]) -> Adaptation:
    """The adaptation that asks for this, ended or not; a new one if there is none.

    Where the shares are today's usual ones, one that was begun with those of before is gone on with.
    """
    place = folder / "adaptations"
    place.mkdir(mode=0o700, exist_ok=True)
    there = [_read(file) for file in sorted(place.glob("*.json")) if file.stem.isdecimal()]
    before = {**asked, **_BEFORE} if {**asked, **_USUAL} == asked else asked
    for each in there:
        if each.asked in (asked, before):
            return each
    number = max((each.number for each in there), default=0) + 1
    return Adaptation(place / f"{number:04d}.json", number, asked).written()


def _read(file: Path) -> Adaptation:
    try:
        body = read_document(file, KIND, VERSION)
        kept = body["scores"]
        scores = None
        if kept is not None:
            names = tuple(tuple(str(name) for name in one) for one in kept["attributes"])
            values = np.array(kept["values"], dtype=np.float64)
            if values.shape != (len(names),) or not np.isfinite(values).all():
                raise ValueError("its scores are none")
            scores = Scores(names, values, float(kept["stddev"]), int(kept["sequence"]), str(kept["digest"]))
        return Adaptation(file, int(file.stem), body["asked"], scores, bool(body["ended"]))
    except DAMAGE as problem:
        raise SessionError(
            f"the adaptation {str(file)!r} cannot be read ({str(problem).rstrip('.')}); restore the file from a copy, "
            "or delete it to begin anew: what it spent stays spent."
        ) from None


_TELLING = 0.05  # of the records: scores whose noise is above this find nothing, and are not asked for
_PRECISE = 0.005  # of the records: scores whose noise is below this find no more
_MOST_SCORED = 20_000  # tables: beyond, making their models takes minutes
_TRIES = 24
_NOTHING_LEFT = Fraction(1, 10**6)  # of the budget: less is not worth a measurement


class Adaptive(Measuring):
    """How a session spends by itself."""

    def adapt(self, workload: Workload, budget: Guarantee, *, look: float = LOOK, scores: float = SCORES) -> Adapted:
        """Spends a budget so that the *estimates* of these tables become as good as possible, looking on the way.

        Guarantee: all steps together debit at most the budget, exactly accounted; each is on disk before the data is
        counted. What is measured keeps exact variances (`Adapted.release`). Killed at any moment, calling it again with
        the same arguments goes on where it was: nothing is paid for twice, but for a step that was debited and not yet
        kept, which stays spent. Once it has ended, calling it again costs nothing.

        Args:
            workload: the tables wanted, made by `rs.marginals`.
            budget: what all steps may spend: `rs.ZCDP`, `rs.GDP` or `rs.ApproxDP`.
            look: the share of the budget for the look, between 0 and 1.
            scores: the most that scores of tables of three or more attributes may take; 0 for none. They are paid for
                only if their noise will be below a twentieth of the records that the look counted, since else they
                would find nothing; and no more is paid than makes it a two-hundredth.

        Raises:
            PlanError: not marginals, a pure guarantee, another domain, or shares that are none.
            LedgerError: the ledger, or the session's own budget, does not allow all of it. Nothing is spent.

        Example:
            >>> import residua as rs, pyarrow as pa, tempfile
            >>> domain = rs.Domain({"sex": ["F", "M"], "answer": ["no", "yes", "unsure"], "job": ["no", "yes"]})
            >>> data = pa.table({"sex": ["F", "M"] * 600, "answer": ["no", "yes", "no"] * 400, "job": ["no"] * 1200})
            >>> folder = tempfile.TemporaryDirectory()
            >>> session = rs.Session(data, rs.ZCDP(0.5), ledger=f"{folder.name}/survey.ledger")
            >>> adapted = session.adapt(rs.marginals(domain, ways=3), rs.ZCDP(0.1))
            >>> list(adapted.spent), float(sum(adapted.spent.values())) <= 0.2         # pcost, twice rho
            (['look', 'scores', 'rest'], True)
            >>> adapted.estimated.estimates(["sex", "answer", "job"]).shape
            (2, 3, 2)
            >>> folder.cleanup()
        """
        self._require_normal("adapt")
        _check(workload, budget, look, scores)
        with self._folder.locked():
            at = self._standing()
            require_domain(planned(workload, budget, self._ledger.unit), at.plans)
            done = adaptation_in(self._folder.path, asked_for(workload, budget, look, scores))
            if not done.ended:
                done = self._adapted(done, workload, budget, done.asked["look"], done.asked["scores"])
            return Adapted(self._pooled(self._standing(), None), done.scores, self._spent(done))

    def _adapted(
        self, done: Adaptation, workload: Workload, budget: Guarantee, look: float, scores: float
    ) -> Adaptation:
        """What is left to do of an adaptation."""
        at, allowed, unit = self._standing(), budget.pcost_allowed(), self._ledger.unit
        name = {"adaptation": f"{self._folder.identity.key}:{done.number}"}
        scored_sets = _scored(workload) if scores else []
        if not self._spent(done):
            self._account.require(at, allowed, "the adaptation")
        if not self._kept("look", name, at):
            share = (allowed - sum(self._spent(done).values(), Fraction(0))) * Fraction(look)
            plan = planned(workload, _within(budget, share), unit)
            at = self._finished(plan, at, "adapt: look", "the look", {**name, "step": "look"})
        known = self._pooled(at, None)
        estimated = estimate(known, progress=self._tell)
        tables, count = estimated._tables, estimated.total
        asked = scored_sets and done.scores is None and "scores" not in self._spent(done)
        most = min(scores, _share_for(len(scored_sets), float(allowed), _PRECISE * count))
        if asked and most >= _share_for(len(scored_sets), float(allowed), _TELLING * count):
            models, own = _models(tables, scored_sets, self._tell), _within(budget, allowed * Fraction(most))
            done = done.written(scores=self._scored(known, models, own, name))
        left = allowed - sum(self._spent(done).values(), Fraction(0))
        if not self._kept("rest", name, at) and left > allowed * _NOTHING_LEFT:
            proportions = planned(workload, budget, unit, count)
            measured = _measured(observed_of(known), proportions)
            ratio = proportions.unit_pcost / max(proportions.pcost, 1e-300)
            whole = float(measured @ proportions.costs) + float(left) / ratio
            kept = ({}, 0.0) if done.scores is None else _by_members(done.scores, known)
            wanted = precisions_after(proportions, measured, tables, whole, *kept)
            missing = _rest(proportions, np.maximum(wanted - measured, 0.0), budget, at, left)
            if missing is not None:
                self._measured(missing, at, "adapt: rest", "the rest", {**name, "step": "rest"})
        return done.written(ended=True)

    def _spent(self, done: Adaptation) -> dict[str, Fraction]:
        """What an adaptation has debited, by step; from the ledger itself."""
        spent: dict[str, Fraction] = {}
        for entry in self._ledger.entries:
            if entry.detail.get("adaptation") == f"{self._folder.identity.key}:{done.number}":
                step = str(entry.detail.get("step", "rest"))
                spent[step] = spent.get(step, Fraction(0)) + entry.cost
        return spent

    def _kept(self, step: str, name: Mapping[str, str], at: SessionStanding) -> bool:
        """Whether a step was paid for and its part is there."""
        kept = (at.debits[number].detail for number in at.parts)
        return any({**name, "step": step}.items() <= detail.items() for detail in kept)

    def _scored(
        self, known: Release, models: dict[Sequence[str], Floats], budget: Guarantee, name: Mapping[str, str]
    ) -> Scores:
        """Pays for scores, and measures them."""
        unit = self._ledger.unit
        measurements = scores_within(known.domain, models, budget, unit)
        cost = NORMAL.promised(measurements.cost(unit), budget)
        detail = {"scores_of": self._folder.identity.key, "step": "scores", **name}
        pay = self._account.paying(lambda _: cost, "adapt: scores", "the scores", detail, self._data.options.whose)
        return scored(Job(measurements, known.domain, unit, self._data, pay, self._progress))


def _check(workload: Workload, budget: Guarantee, look: float, scores: float) -> None:
    require_estimable(workload, budget, "budget")
    for name, share in (("look", look), ("scores", scores)):
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share < 1:
            raise PlanError(f"{name}={named(share)} is not a share of the budget below 1; say 0.5, for example.")
    if not 0 < look < 1 - scores:
        raise PlanError(f"look={look!r} and scores={scores!r} leave nothing for the look, or for the rest; give less.")


def _within(budget: Guarantee, amount: Fraction) -> Guarantee:
    """So much of a budget, rounded down, as a guarantee of its type; or as GDP where that has none."""
    own = affordable(budget, amount)
    return affordable(GDP(1.0), amount) if isinstance(own, Nothing) else own


def _scored(workload: Workload) -> list[tuple[int, ...]]:
    """The tables asked for whose own interaction a look at pairs leaves open; none if they are too many."""
    numbers = workload.numbers[workload.lattice.set_sizes[workload.numbers] > 2]
    return [workload.lattice.members(int(n)) for n in numbers] if len(numbers) <= _MOST_SCORED else []


def _share_for(scores: int, pcost: float, stddev: float) -> float:
    """The share of a budget that so many scores with this noise take."""
    return scores / (pcost * stddev**2)


def _measured(observed: Observed, plan: ProductPlan) -> Floats:
    """How precisely each set of a plan was measured, (sets,)."""
    precisions = [1.0 / variance if (variance := observed.variance(members)) > 0 else 0.0 for members in plan.lattice]
    return np.array(precisions)


def _models(
    tables: EstimatedTables, sets: list[tuple[int, ...]], tell: Callable[[str, int, int], None]
) -> dict[Sequence[str], Floats]:
    """What the look says of larger tables."""
    names = tables.observed.domain.names
    models: dict[Sequence[str], Floats] = {}
    for number, members in enumerate(sets):
        models[tuple(names[i] for i in members)] = tables.table(members)
        if number % 50 == 0:
            tell("making models", number, len(sets))
    return models


def _by_members(scores: Scores, known: Release) -> tuple[dict[tuple[int, ...], float], float]:
    places = (tuple(known.domain.positions(names)) for names in scores.attributes)
    return dict(zip(places, scores.values.tolist(), strict=True)), scores.stddev


def _rest(
    proportions: ProductPlan, precisions: Floats, budget: Guarantee, at: SessionStanding, left: Fraction
) -> Missing | None:
    """The most of these precisions that can be paid for with what is left; None if that is nothing."""
    domain, lattice, unit = proportions.domain, proportions.lattice, proportions.unit
    asked: Any = {"workload": proportions.workload, "objective": "estimates that borrow strength, after a look"}

    def scaled(scale: float) -> Missing:
        extra = ProductPlan(domain, lattice, precisions * scale, guarantee=budget, unit=unit, **asked)
        measurements, alone = priced(extra)
        return Missing(extra, measurements, alone, composed_cost([*at.plans, extra]), settled=True)

    alone = ProductPlan(domain, lattice, precisions, unit=unit).unit_pcost
    scale = float(left) / alone * (1.0 - 2.0**-40) if alone else math.inf
    if not math.isfinite(scale):
        return None
    best = scaled(scale)
    low, high = scale, math.inf
    for _ in range(_TRIES):  # the increment may be less than the price alone: other records are the most expensive
        if at.increment(best.together) >= left * (1 - _NOTHING_LEFT):
            break
        scale = low * float(left / max(at.increment(best.together), left / 4)) if math.isinf(high) else (low + high) / 2
        tried = scaled(scale * (1.0 - 2.0**-40))
        if at.increment(tried.together) <= left and tried.alone <= budget.pcost_allowed():
            best, low = tried, scale
        else:
            high = scale
    return best
