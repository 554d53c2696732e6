"""Choices on the command line: the look at a specification's plans, what it tells, and what is decided by it.

With groups, each has a verdict of its own: what the look recommends is written as a file, and what was decided read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import NormalDist
from typing import Any

from residua.cli.sessions import SessionSpec, print_spent
from residua.cli.show import ROWS_SHOWN, err, out, print_json, print_written
from residua.errors import FileError, PlanError, SessionError, SpecError
from residua.folders import require_free
from residua.machine import pyarrow
from residua.plans.algebra import common
from residua.plans.contract import Plan
from residua.release import Release
from residua.screen import PlainTable
from residua.session import Choice, GroupChoice, Session, Verdicts
from residua.session.measuring import name_of, same_plan
from residua.session.recommend import REACH, answerable, check_rule, judged_by

_MOST_LISTED = 2**22
_CANDIDATE = "candidate"


Rule = dict[str, Any]  # as `Choice.recommend` takes it: when a candidate is good enough


def asked_rule(share: float | None, snr: float | None, by: str) -> Rule | None:
    """The rule that was asked for, None if none was; a rule that means nothing is refused before anything is spent."""
    judged = judged_by(by)
    if share is None and snr is None:
        return None
    if share is None or snr is None:
        raise SpecError("--share and --snr belong together; give both, such as --share 0.5 --snr 20.")
    check_rule(share, snr, judged)
    return {"share": share, "snr": snr, "by": judged}


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
    return _in_groups(choice).finish(_read_verdicts(_in_groups(choice), groups)[0])


def stepped(choice: Choice, groups: Path | None) -> Choice:
    """A choice after a step, everywhere or in the groups that a file says so of."""
    return choice.step() if groups is None else _in_groups(choice).step(_read_verdicts(_in_groups(choice), groups)[1])


def _in_groups(choice: Choice) -> GroupChoice:
    if not isinstance(choice, GroupChoice):
        raise SpecError("--groups is for groups; write [session] by = [...] before the look, or leave the option out.")
    return choice


def print_choice(
    session: Session, choice: Choice, rule: Rule | None, *, as_json: bool = False, verdicts: Path | None = None
) -> None:
    """Estimates so far, signal-to-noise bounds under every candidate, and what the rule recommends."""
    if isinstance(choice, GroupChoice):
        _print_group_choice(session, choice, rule, as_json=as_json, verdicts=verdicts)
        return
    signals = {name: choice.signal(name) for name in choice.candidates}
    advice = None if rule is None else choice.recommend(**rule)
    left = {name: float(session.price(plan) / 2) for name, plan in choice.candidates.items()}
    if as_json:
        columns = {name: signal.columns for name, signal in signals.items()}  # null where a candidate cannot answer
        print_json({"candidates": columns, "rho_to_finish": left, "recommendation": advice and vars(advice)})
        return
    first = next(iter(signals.values()))
    table = PlainTable(["query"], ["estimate", *(f"SNR under {name}" for name in signals)])
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


def _print_group_choice(
    session: Session, choice: GroupChoice, rule: Rule | None, *, as_json: bool, verdicts: Path | None
) -> None:
    """What each candidate would cost to finish and, by the rule, how many groups should have which."""
    advice = None if rule is None else choice.recommend(**rule)
    left = {name: float(session.price(plan) / 2) for name, plan in choice.candidates.items()}
    if verdicts is not None and advice is not None:
        _write(choice, advice, verdicts)
    if as_json:
        print_json({"groups": len(choice.groups), "by": list(choice.by), "rho_to_finish": left, **_advised(advice)})
        return
    out.print(f"{len(choice.groups):,} groups of {', '.join(choice.by)}")
    for name, rho in left.items():
        out.print(f"To finish {name} in all groups: rho {rho:.6g}")
    print_spent(session)
    if advice is None:
        return
    table = PlainTable(["recommended"], ["groups"])
    steps = int(advice.stepping.sum())
    for candidate, count in advice.counts.items():
        if candidate is not None:
            table.add_row(f"finish {candidate}", f"{count:,}")
    table.add_row("step on", f"{steps:,}")
    table.add_row("leave at the look", f"{int((advice.chosen < 0).sum()) - steps:,}")
    out.print(table)
    if verdicts is not None:
        then = f"residua session finish --groups {verdicts}"
        print_written(verdicts, f": change it where you know better, then: {then}")


def _read_verdicts(choice: GroupChoice, path: Path) -> tuple[dict[Any, str | None], list[Any]]:
    """What a file says of groups: the candidate of each, and those in which to step.

    Raises:
        FileError: no such file, or it cannot be read.
        SpecError: columns are missing, or a value is no group.
    """
    try:
        text = dict.fromkeys((*choice.by, _CANDIDATE), pyarrow.string())
        read = pyarrow.csv.read_csv(path, convert_options=pyarrow.csv.ConvertOptions(column_types=text))
    except (OSError, pyarrow.ArrowInvalid) as problem:
        raise FileError(f"--groups {str(path)!r} cannot be read as CSV ({problem}).") from None
    lacking = [name for name in (*choice.by, _CANDIDATE) if name not in read.column_names]
    if lacking:
        raise SpecError(
            f"--groups {str(path)!r} has no column {lacking[0]!r}; it needs {', '.join(choice.by)} and candidate, as "
            "residua session look --verdicts writes them."
        )
    known = {_text(group): group for group in choice.groups}
    rows = list(zip(*(read[name].to_pylist() for name in choice.by), strict=True))
    unknown = [row for row in rows if row not in known]
    if unknown or len(set(rows)) < len(rows):
        what = f"{unknown[0]!r}, which is no group" if unknown else "a group twice"
        raise SpecError(f"--groups {str(path)!r} names {what}; give each group of {', '.join(choice.by)} once.")
    chosen = {known[row]: name or None for row, name in zip(rows, read[_CANDIDATE].to_pylist(), strict=True)}
    step = read["step"].to_pylist() if "step" in read.column_names else [False] * len(rows)
    return chosen, [known[row] for row, on in zip(rows, step, strict=True) if on]


def _write(choice: GroupChoice, advice: Verdicts, path: Path) -> None:
    require_free(path)
    try:
        pyarrow.csv.write_csv(advice.to_arrow(choice.by), path)
    except OSError as problem:
        raise FileError(f"--verdicts {str(path)!r} cannot be written ({problem}).") from None


def _text(group: Any) -> tuple[str, ...]:
    return tuple(map(str, group)) if isinstance(group, tuple) else (str(group),)


def _advised(advice: Verdicts | None) -> dict[str, Any]:
    if advice is None:
        return {"recommendation": None}
    counts = {("none" if name is None else name): count for name, count in advice.counts.items()}
    return {"recommendation": {"groups": counts, "step": int(advice.stepping.sum())}}
