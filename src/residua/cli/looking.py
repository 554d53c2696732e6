"""Choices on the command line: the look at a specification's plans, what it tells, and plans that changed since."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import Any

from residua.cli.group_choices import print_group_choice, read_verdicts
from residua.cli.places import require_free
from residua.cli.session_spec import SessionSpec
from residua.cli.sessions import print_spent
from residua.cli.show import ROWS_SHOWN, err, out, plain_table, print_json
from residua.errors import PlanError, SessionError, SpecError
from residua.plans.algebra import common
from residua.plans.contract import Plan
from residua.release import Release
from residua.session import Choice, GroupChoice, Recommendation, Session
from residua.session.candidates import name_of, same_plan
from residua.session.recommend import By, check_rule, judged_by
from residua.session.signal import REACH, answerable

_MOST_LISTED = 2**22


@dataclass(frozen=True)
class Rule:
    """When a candidate is good enough: a share of the queries with a signal-to-noise ratio."""

    share: float
    snr: float
    by: By


def asked_rule(share: float | None, snr: float | None, by: str) -> Rule | None:
    """The rule that was asked for, None if none was; a rule that means nothing is refused before anything is spent."""
    judged = judged_by(by)
    if share is None and snr is None:
        return None
    if share is None or snr is None:
        raise SpecError("--share and --snr belong together; give both, such as --share 0.5 --snr 20.")
    check_rule(share, snr, judged)
    return Rule(share, snr, judged)


def take_look(session: Session, candidates: Mapping[str, Plan], digests: Mapping[str, str]) -> Choice:
    """The look at some candidates; the one taken already if they are those of the open choice."""
    require_listable(candidates)
    choice = session.choice
    if choice is not None and list(choice.candidates) == list(candidates):
        if _same(choice, candidates, digests):
            err.print("This look was taken already; it costs nothing to see it again.")
            return choice
        err.print("The specification was changed since the last look; this is a new one.")
    return session.choose(candidates, origins={name: digests[name] for name in candidates})


def print_look_price(session: Session, candidates: Mapping[str, Plan], *, as_json: bool) -> None:
    """What a look would cost, and each candidate in all; nothing is spent."""
    price, whole = session.price_look(candidates)
    left = session.status.remaining_exactly
    if as_json:
        rhos = {name: float(cost / 2) for name, cost in whole.items()}
        print_json({"look_rho": float(price / 2), "rho_in_all": rhos, "remaining_rho": float(left / 2)})
        return
    out.print(f"The look would cost rho {float(price / 2):.6g}; nothing was spent.")
    for name, cost in whole.items():
        short = "" if cost <= left else ", more than is left"
        out.print(f"{name}: rho {float(cost / 2):.6g} in all, the look included{short}")
    out.print(f"Left: rho {float(left / 2):.6g}")


def open_choice(session: Session, number: int | None = None) -> Choice:
    """The choice with this number; the latest if left out, and no older one, so that nothing is finished twice."""
    if number is not None:
        return session.resume(number)
    choices = session.status.choices
    if not choices:
        raise SessionError("no choice is open; take a look first: residua session look SPEC.toml")
    latest = max(choices)
    end = choices[latest][1]
    if end == "open":
        return session.resume(latest)
    older = [f"choice {n} between {', '.join(names)}" for n, (names, end) in choices.items() if end == "open"]
    still = f" Still open: {'; '.join(older)}; say which with --choice." if older else ""
    raise SessionError(
        f"no choice is open: the latest, choice {latest}, {end}; nothing was spent: look again, or release a plan."
        f"{still}"
    )


def require_unchanged(choice: Choice, names: Iterable[str], digests: Mapping[str, str]) -> None:
    """Refuses, before anything is spent, candidates that are not what the specification now says.

    Raises:
        PlanError: not a candidate.
        SessionError: its plan is gone from the specification, or it or the domain was changed since the look.
    """
    for name in names:
        origin = choice.origins.get(name_of(name, choice.candidates))
        if origin is None:
            err.print(f"{name!r} was not read from a specification; the plan that the session keeps is meant.")
        elif origin != digests.get(name):
            what = "was changed" if name in digests else "is gone from the specification"
            raise SessionError(
                f"[plan.{name}] (or the domain, privacy or objective it shares) {what} since the look; nothing was "
                "spent: put it back as it was, or look at it as it is now, which costs only what that adds: "
                "residua session look SPEC.toml"
            )


def require_listable(candidates: Mapping[str, Plan]) -> None:
    """Refuses, before anything is spent, a look that answers more queries than can be shown one by one."""
    name, first = next(iter(candidates.items()))
    if first.workload is None or first.workload.queries <= _MOST_LISTED or len(candidates) < 2:
        return
    part = answerable(common(list(candidates.values())), first.workload)
    if part is not None and part.queries > _MOST_LISTED:
        raise PlanError(
            f"the look would answer {part.queries:,} queries of {name!r}, too many to list; nothing was spent: put a "
            "plan that asks for less first."
        )


def require_groups(spec: SessionSpec, rule: Rule | None, verdicts: Path | None) -> None:
    """Refuses, before anything is spent, a file of verdicts where there are none."""
    if verdicts is None:
        return
    if not spec.by:
        raise SpecError("--verdicts is for groups; write [session] by = [...], or leave the option out.")
    if rule is None:
        raise SpecError("--verdicts needs a rule; give --share and --snr, such as --share 0.5 --snr 20.")
    require_free(verdicts)


def finished_choice(choice: Choice, name: str | None, groups: Path | None) -> Release:
    """A choice finished by one candidate's name, or by a file with one for each group."""
    if (name is None) == (groups is None):
        raise SpecError("say what to finish: a candidate's name, or with groups --groups FILE.csv.")
    if groups is None:
        return choice.finish(str(name))
    return _in_groups(choice).finish(read_verdicts(_in_groups(choice), groups)[0])


def stepped(choice: Choice, groups: Path | None) -> Choice:
    """A choice after a step, everywhere or in the groups that a file says so of."""
    return choice.step() if groups is None else _in_groups(choice).step(read_verdicts(_in_groups(choice), groups)[1])


def _in_groups(choice: Choice) -> GroupChoice:
    if not isinstance(choice, GroupChoice):
        raise SpecError("--groups is for groups; write [session] by = [...] before the look, or leave the option out.")
    return choice


def print_choice(
    session: Session, choice: Choice, rule: Rule | None, *, as_json: bool = False, verdicts: Path | None = None
) -> None:
    """Estimates so far, signal-to-noise bounds under every candidate, and what the rule recommends."""
    if isinstance(choice, GroupChoice):
        print_group_choice(session, choice, rule, as_json=as_json, verdicts=verdicts)
        return
    signals = {name: choice.signal(name) for name in choice.candidates}
    advice = None if rule is None else choice.recommend(share=rule.share, snr=rule.snr, by=rule.by)
    left = {name: float(session.price(plan) / 2) for name, plan in choice.candidates.items()}
    if as_json:
        columns = {n: {key: _plain(value) for key, value in s.columns.items()} for n, s in signals.items()}
        print_json({"candidates": columns, "rho_to_finish": left, "recommendation": advice and _advice(advice)})
        return
    first = next(iter(signals.values()))
    table = plain_table(("query", "left"), ("estimate", "right"), *((f"SNR under {name}", "right") for name in signals))
    for i in range(min(len(first), ROWS_SHOWN)):
        ratios = (f"{s.lower[i]:,.1f} to {s.upper[i]:,.1f}" for s in signals.values())
        table.add_row(first.labels[i], f"{first.estimates[i]:,.1f}", *ratios)
    out.print(table)
    if len(first) > ROWS_SHOWN:
        out.print(f"… {len(first) - ROWS_SHOWN:,} more queries (--json shows them)")
    held = 2 * NormalDist().cdf(REACH) - 1
    out.print(
        f"(SNR: bounds at {REACH:g} standard deviations of what is known, which hold with {held:.2%} each by itself)"
    )
    primary = choice.candidates[first.candidate].workload
    if primary is not None and len(first) < primary.queries:
        out.print(
            f"{len(first):,} of the {primary.queries:,} queries of {first.candidate} can be estimated so far; only "
            "they are shown and judged"
        )
    for name, rho in left.items():
        out.print(f"To finish {name}: rho {rho:.6g}")
    print_spent(session)
    if advice is not None:
        what = {"finish": f"finish {advice.candidate}", "step": "step on", "stop": "stop here"}[advice.action]
        out.print(f"Recommended: {what}; {advice.reason}.")


def _same(choice: Choice, candidates: Mapping[str, Plan], digests: Mapping[str, str]) -> bool:
    """Whether a choice is between these plans, made from the same specification."""
    return all(
        choice.origins[name] == digests[name] if name in choice.origins else same_plan(choice.candidates[name], plan)
        for name, plan in candidates.items()
    )


def _plain(values: Iterable[Any]) -> list[Any]:
    """For JSON, which has no infinity: None where a candidate cannot answer."""
    return [v if isinstance(v, str) else float(v) if math.isfinite(v) else None for v in values]


def _advice(advice: Recommendation) -> dict[str, Any]:
    return {"action": advice.action, "candidate": advice.candidate, "reason": advice.reason, "shares": advice.shares}
