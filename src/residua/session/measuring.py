"""How a session measures: it finds what is missing of a plan, pays for it, counts, keeps the part, and pools all parts.

What is missing is chosen so that everything together costs what the plan alone would have cost, to the last bit, where
what was measured before lies within the plan: rounding to integers is against us on both sides, so that the noise is
raised by a few parts in 10^14 until the exact sum fits, and the plan's own exact price is debited.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from operator import add
from typing import Any, cast

from residua.errors import PlanError, SessionError, named
from residua.measurement.job import Job, Progress
from residua.measurement.measure import carry_out
from residua.plans.algebra import common, top_up
from residua.plans.contract import Plan
from residua.plans.measurements import Measurements
from residua.plans.noise import Currency
from residua.plans.operators.contract import MOST_DENSE
from residua.plans.product.algebra import by_residuals
from residua.plans.strata.making import kinds_of
from residua.plans.strata.plan import StrataPlan
from residua.plans.verifier import composed_price, priced, require_plan
from residua.privacy import Guarantee, Unit
from residua.release import Release, reserve
from residua.release.pooled import pool_of, require_poolable
from residua.session.accounts import Account, SessionStanding
from residua.session.recommend import answerable
from residua.session.state import digest_of_measured
from residua.source import Source
from residua.source.options import Tallies
from residua.workload import Workload

_CLOSE = Fraction(1, 2**16)
_LOWERED = (0.0, 2.0**-46, 2.0**-40, 2.0**-34, 2.0**-28, 2.0**-22, 2.0**-17)


@dataclass(frozen=True, eq=False)
class Missing:
    """A measurement that is still to be made.

    Args:
        plan: what to measure.
        measurements: what that comes down to.
        alone: what it costs alone, exactly.
        together: what it costs together with what is held, exactly.
        settled: whether that is what the wanted plan costs, or clearly more because other things are held too.
    """

    plan: Plan
    measurements: Measurements
    alone: Fraction
    together: Fraction
    settled: bool


def missing(wanted: Plan, held: Sequence[Plan]) -> Missing | None:
    """What is to be measured so that all together is as accurate as the wanted plan; None if nothing is.

    Args:
        wanted: the plan.
        held: what was measured already.

    Raises:
        PlanError: plans that cannot be combined.
        VerificationError: the plan is not what it promises.
    """
    measurements, whole = priced(wanted)
    if not held:
        return Missing(wanted, measurements, whole, whole, True)
    rest = promising(top_up(wanted, given=held), wanted.guarantee)
    if not rest.pcost:
        return None
    if not rest.noise.gaussian:  # epsilons add up, whatever is done
        own, alone = priced(rest)
        return Missing(rest, own, alone, composed_price([*held, rest]), True)
    first: Missing | None = None
    for share in _LOWERED:
        plan = rest.scaled(1 - share) if share else rest
        measurements, alone = priced(plan)
        together = composed_price([*held, plan])
        if together <= whole:
            return Missing(plan, measurements, alone, whole, True)
        first = first or Missing(plan, measurements, alone, together, together > whole * (1 + _CLOSE))
        if first.settled:
            break
    return first


def promising(plan: Plan, guarantee: Guarantee | None) -> Plan:
    """The same plan, with a guarantee to check against if it has none because its unit pays nothing for it.

    Replacing a record does not change the total. What is measured is then free, and the verifier says so; but it needs
    a promise to check.
    """
    return plan if plan.guarantee is not None or not plan.pcost else plan.replaced(guarantee=guarantee)


Tell = Callable[[str, int, int | None], None]
_LOWERED_LOOKS = (0.0, 2.0**-30, 2.0**-24, 2.0**-18)


def look_at(
    candidates: Mapping[str, Plan], held: Sequence[Plan], tell: Tell
) -> tuple[Missing | None, dict[str, Missing]]:
    """The look to take, None if it is known, and what would then be left of each candidate that it does not answer.

    Args:
        candidates: the candidates by name.
        held: what was measured already.
        tell: called with the step, how much is done, and of how much if known.

    Raises:
        PlanError: nothing in common, or candidates that cannot be compared.
    """
    tell("comparing", 0, None)
    both = shared(list(candidates.values()), lambda rounds, gap: tell("comparing", rounds, None))
    if both.pcost == 0:
        raise PlanError("the candidates have nothing in common, so that there is nothing to look at; release one.")
    for share in _LOWERED_LOOKS:
        look = missing(both.scaled(1 - share) if share else both, held)
        after = held if look is None else [*held, look.plan]
        left: dict[str, Missing] = {}
        for done, (name, plan) in enumerate(candidates.items()):
            tell("pricing", done, len(candidates))
            rest = missing(plan, after)
            if rest is not None:
                left[name] = rest
        if all(rest.settled for rest in left.values()):
            break
    return look, left


def was_taken(candidates: Sequence[Plan], held: Sequence[Plan]) -> bool:
    """Whether what was measured holds the look at these candidates."""
    return missing(shared(candidates).scaled(1 - 2 * _LOWERED_LOOKS[-1]), held) is None


def require_telling(name: str, primary: Plan, known: Sequence[Plan]) -> None:
    """Refuses, before it is paid for, a look after which no query of the primary analysis could be estimated.

    Args:
        name: the first candidate's name.
        primary: the first candidate; one without a workload asks for nothing that could be missed.
        known: what will have been measured after the look.

    Raises:
        PlanError: none of its queries is answerable.
    """
    if primary.workload is None or any(_tells(plan, primary, primary.workload) for plan in known):
        return
    # What no part answers alone, several may answer together.
    if len(known) < 2 or answerable(reduce(add, known), primary.workload) is None:
        raise PlanError(
            f"the look would answer no query of {name!r}, so that nothing could be said of the candidates; nothing was "
            "spent: put another candidate first, or release one. In Python, blind=True looks nonetheless, for "
            "choice.compatible."
        )


def _tells(known: Plan, primary: Plan, workload: Workload) -> bool:
    """Whether some query is answerable; in the same groups, within one of them, whose queries are far fewer."""
    if known.by_names and known.by_names == primary.by_names:
        met, _ = kinds_of([cast("StrataPlan", known), cast("StrataPlan", primary)])
        return any(_tells(mine, own, own.workload) for mine, own in met if mine and own and own.workload is not None)
    return answerable(known, workload) is not None


def shared(plans: Sequence[Plan], progress: Callable[[int, float], None] | None = None) -> Plan:
    """What these plans have in common, ready to be measured."""
    return promising(common(list(plans), progress=progress), plans[0].guarantee)


_MOST_KEPT = 8


class Memory:
    """What is missing of the latest few plans, for one state of a session: the numbers of its parts."""

    def __init__(self) -> None:
        # Replaced as one, so that no thread takes what was found beside other parts.
        self._state: tuple[tuple[int, ...], dict[Plan, Missing | None]] = ((), {})

    def note(self, parts: tuple[int, ...], known: Mapping[Plan, Missing | None]) -> None:
        """Keeps what was found beside these parts, and forgets what was found beside others."""
        self._state = (parts, dict(known))

    def find(
        self, plan: Plan, parts: tuple[int, ...], held: Sequence[Plan], begin: Callable[[], None]
    ) -> Missing | None:
        """What is missing of a plan.

        Args:
            plan: the plan, or one that measures the same.
            parts: the numbers of the parts that are there.
            held: what they measured.
            begin: called before it is worked out.
        """
        beside, known = self._state
        if beside != parts:
            known = {}
            self._state = (parts, known)
        for other in list(known):
            if other is plan or same_plan(other, plan):
                return known[other]
        begin()
        rest = missing(plan, held)
        if len(known) < _MOST_KEPT:
            known[plan] = rest
        return rest


def poolable(plan: Plan, unit: Unit, currency: Currency = "pcost") -> Plan:
    """A plan, once it is known that a session for this unit of protection can measure it and pool what it measures.

    Raises:
        PlanError: no plan, one with another noise than the session's or with a bias, or one for another unit.
    """
    require_plan(plan)
    if plan.correlated is not None and plan.correlated.size > MOST_DENSE:
        plan = by_residuals(plan)  # too long for a matrix: read together with plans that share its noise
    if plan.noise.currency != currency:
        noise = "ZCDP, GDP or ApproxDP" if currency == "pcost" else "PureDP"
        raise PlanError(
            f"{plan!r} cannot be pooled with what a session measures; nothing was spent: use rs.measure, or plan "
            f"with {noise}, as its ledger counts."
        )
    if plan.unit != unit:
        raise PlanError(f"the plan protects {plan.unit}, the ledger {unit}; plan for that unit.")
    if plan.bias:
        raise PlanError("a biased plan cannot be pooled with others; plan without bias.")
    return plan


def by_name(candidates: Sequence[Plan] | Mapping[str, Plan], unit: Unit) -> dict[str, Plan]:
    """At least two plans over one domain, with names: their own, or "plan 1", "plan 2", …."""
    if not isinstance(candidates, Sequence | Mapping) or len(candidates) < 2:
        raise PlanError("candidates must be at least two plans; to measure one, use session.release.")
    if not isinstance(candidates, Mapping):
        candidates = {f"plan {i}": plan for i, plan in enumerate(candidates, 1)}
    plans: dict[str, Plan] = {str(name): poolable(plan, unit) for name, plan in candidates.items()}
    first = next(iter(plans.values()))
    for name, plan in plans.items():
        if plan.domain != first.domain:
            raise PlanError(f"the candidate {named(name)} is over another domain; plan all candidates over one domain.")
    return plans


def require_domain(plan: Plan, held: Sequence[Plan]) -> None:
    """Refuses a plan over another domain than what was measured."""
    if held and plan.domain != held[0].domain:
        raise PlanError(
            "the plan and what the session has measured are over different domains; nothing was spent: plan over the "
            "session's domain, or make another session with a folder of its own as state."
        )


def name_of(candidate: str | Plan, candidates: Mapping[str, Plan]) -> str:
    """The name of a candidate, given by name or as the plan itself."""
    if isinstance(candidate, str):
        if candidate in candidates:
            return candidate
        raise PlanError(f"there is no candidate {named(candidate)}; there are {', '.join(map(repr, candidates))}.")
    for name, plan in candidates.items():
        if plan is candidate or same_plan(plan, candidate):
            return name
    raise PlanError(f"{named(candidate)} is not one of the candidates; name one of {', '.join(map(repr, candidates))}.")


def same_plan(first: Plan, second: Plan) -> bool:
    """Whether two plans measure the same, as a plan read from a file and its original do."""
    return type(first) is type(second) and first.domain == second.domain and first.to_body() == second.to_body()


def workload_of(plan: Plan, name: str) -> Workload:
    """What a candidate asks."""
    if plan.workload is None:
        raise PlanError(f"the candidate {name!r} was planned without a workload; say which queries are meant.")
    return plan.workload


class Measuring:
    """What choices, top-ups and adaptations share.

    Args:
        account: what may be spent, and all that was.
        data: where the records are.
        progress: called with the step, how much is done, and of how much if known.
        notice: called with how many records followed a policy.
    """

    def __init__(
        self, account: Account, data: Source, progress: Progress | None, notice: Callable[[Tallies], None] | None
    ) -> None:
        self._account, self._data, self._progress, self._notice = account, data, progress, notice
        self._folder, self._ledger, self._memory = account.folder, account.ledger, Memory()

    def _standing(self) -> SessionStanding:
        return self._account.standing()

    def _checked(self, plan: Plan) -> Plan:
        return poolable(plan, self._ledger.unit, self._ledger.currency)

    def _require_normal(self, verb: str) -> None:
        """Refuses what would waste budget where epsilons add up."""
        if self._ledger.currency == "epsilon":
            raise SessionError(
                f"a session with a budget of PureDP cannot {verb}: a look and the rest of a plan cost more together "
                "than the plan; nothing was spent: use session.release, or a ledger with ZCDP, GDP or ApproxDP."
            )

    def _tell(self, step: str, done: int, total: int | None) -> None:
        if self._progress is not None:
            self._progress(step, done, total)

    def _missing(self, plan: Plan, at: SessionStanding) -> Missing | None:
        require_domain(plan, at.plans)
        return self._memory.find(plan, tuple(at.parts), at.plans, lambda: self._tell("pricing", 0, None))

    def _price(self, missing: Missing | None, at: SessionStanding) -> Fraction:
        """What measuring what is missing would debit."""
        return Fraction(0) if missing is None else at.increment(missing.together)

    def _measured(
        self, missing: Missing, at: SessionStanding, purpose: str, what: str, step: Mapping[str, Any] | None = None
    ) -> SessionStanding:
        """Pays for a measurement, makes it, and keeps it."""
        assert missing.measurements.currency == self._ledger.currency
        if at.parts and composed_price([*at.plans, missing.plan]) > missing.together:  # it may be known for a while
            raise SessionError("the measurement costs more than was worked out; this is a defect, nothing was spent.")
        self._account.require(at, self._price(missing, at), what)
        if at.parts:
            require_poolable(list(at.parts.values()), missing.plan, missing.measurements)
        number, digest = at.next_part, digest_of_measured(missing.plan, missing.measurements)

        def cost(now: SessionStanding) -> Fraction:
            if now.next_part != number:
                raise SessionError("another copy of the session is in use; nothing was spent: use the latest copy.")
            return now.increment(missing.together)

        detail = {"session": self._folder.identity.key, "part": number, "measures": digest}
        detail |= {"alone": str(missing.alone), **(step or {})}
        pay = self._account.paying(cost, purpose, what, detail, self._data.options.whose)
        with reserve(self._folder.place(number), missing.plan, missing.measurements) as room:
            # What cannot be read back would be paid for and lost: seen before the debit.
            if digest_of_measured(Plan.load(room.partial / "plan.json"), missing.measurements) != digest:
                raise SessionError("the measurement cannot be kept as it is; this is a defect, nothing was spent.")
            plan = missing.plan
            job = Job(missing.measurements, plan.domain, plan.unit, self._data, pay, self._progress, self._notice)
            room.commit(carry_out(plan, job, missing.alone))
        return self._standing()

    def _finished(
        self, plan: Plan, at: SessionStanding, purpose: str, what: str, step: Mapping[str, Any] | None = None
    ) -> SessionStanding:
        """Where the session stands once what is missing of a plan was measured."""
        missing = self._missing(plan, at)
        return at if missing is None else self._measured(missing, at, purpose, what, step)

    def _pooled(self, at: SessionStanding, workload: Workload | None) -> Release:
        """Everything measured, as one release; its receipt names the latest debit, which stands for all before it."""
        pooled = pool_of(list(at.parts.values()), workload, same_records=True)
        last = at.debits[max(at.parts)]
        latest = {"sequence": last.sequence, "time": last.time, "digest": last.digest}
        return Release(pooled.planned, pooled.measurements, pooled.noisy, {**latest, **pooled.receipt})
