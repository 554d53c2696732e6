"""A session on a specification with several named plans: read, opened, its plans made, its status shown.

[[plan.NAME.workload]]   what the plan asks, as in [[workload]]
[plan.NAME]              independent = true for equal independent noise instead of the best
[plan.NAME.privacy]      rho | mu | epsilon and delta; [privacy] of the file if left out
[plan.NAME.objective]    as [objective]
[session]                state = "folder"; beside the ledger if left out
                         by = ["attribute", …]: a choice within each group of these
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any, cast

from residua.cli.accounts import ledger_options
from residua.cli.objectives import SPENDING, known_keys, section
from residua.cli.planning import make_plan
from residua.cli.show import err, out, print_json, print_written, progress_bar
from residua.cli.sources import notice, open_source
from residua.cli.spec import Spec, flag, read_content, spec_of
from residua.cli.steps import checked_source
from residua.errors import FileError, SessionError, SpecError
from residua.estimation import estimate
from residua.estimation.statement import WARNING
from residua.files import require_path
from residua.folders import require_free
from residua.measurement import Ledger
from residua.plans import by_group, independent
from residua.plans.contract import Plan
from residua.plans.planners.lattice import common_ground
from residua.privacy import Guarantee, PureDP
from residua.release import Release
from residua.session import Session
from residua.session.state import check_place

_PLAN = {"workload", "privacy", "objective", "independent"}


@dataclass(frozen=True, eq=False)
class NamedPlan:
    """One candidate.

    Args:
        spec: what it asks, and within what.
        independent: whether its noise is just independent, not the best.
        digest: of all in the file that decides what it measures; formatting and comments do not count.
    """

    spec: Spec
    independent: bool
    digest: str


@dataclass(frozen=True, eq=False)
class SessionSpec:
    """What a specification says about a session, checked."""

    plans: Mapping[str, NamedPlan]
    budget: Guarantee | None
    state: Path
    by: tuple[str, ...] = ()

    @property
    def any(self) -> Spec:
        """What all plans share: domain, source, ledger and unit."""
        return next(iter(self.plans.values())).spec

    def named(self, name: str) -> NamedPlan:
        """The plan of a name.

        Raises:
            SpecError: there is none.
        """
        if name not in self.plans:
            raise SpecError(f"there is no plan {name!r}; there are {', '.join(map(repr, self.plans))}.")
        return self.plans[name]

    @property
    def digests(self) -> dict[str, str]:
        """What each plan is made from, by name."""
        return {name: plan.digest for name, plan in self.plans.items()}


def read_session_spec(path: Path, out: Path | None = None) -> SessionSpec:
    """Reads and checks a specification file with named plans, once a release could be written to `out`.

    Raises:
        FileError: `out` is taken.
        SpecError: the file is missing, is not TOML, or says something that means nothing.
    """
    if out is not None:
        require_free(out)
    content = read_content(path)
    named = content.get("plan")
    if not isinstance(named, Mapping) or not named:
        raise SpecError(f"{path.name} has no named plans; write [[plan.NAME.workload]] for each candidate.")
    plans = {name: _plan(content, name, settings, path) for name, settings in named.items()}
    first = next(iter(plans.values())).spec
    if {"left_out", "left_out_most"} & set(content.get("privacy", {})):
        raise SpecError("[privacy] left_out is for residua release; a session does not estimate it: remove it.")
    if first.weights is not None:
        raise SpecError("[source] weights are for residua release; a session counts records: remove them.")
    known_keys("[session]", content.get("session", {}), {"state", "by"})
    stated = content.get("session", {}).get("state")
    if stated is not None and not isinstance(stated, str):
        raise SpecError(f"[session] state = {stated!r} is not a path; name the session's folder.")
    default = first.ledger_path.with_name(f"{first.ledger_path.name}.session")
    state = default if stated is None else first.folder / stated
    require_path(state)
    return SessionSpec(plans, first.ledger_budget, state, _by(content.get("session", {}), first))


def _by(settings: Mapping[str, Any], spec: Spec) -> tuple[str, ...]:
    by = settings.get("by", [])
    known = isinstance(by, list) and all(isinstance(name, str) and name in spec.domain.names for name in by)
    if not known or len(set(by)) < len(by):
        raise SpecError(f"[session] by = {by!r} is not a list of attributes of the domain; name each once.")
    return tuple(by)


def _plan(content: Mapping[str, Any], name: str, settings: Any, path: Path) -> NamedPlan:
    where = f"[plan.{name}]"
    known_keys(where, settings, _PLAN)
    independent = flag(where, settings, "independent")
    privacy = settings.get("privacy")
    if privacy is not None:
        known_keys(f"[plan.{name}.privacy]", privacy, set(SPENDING))
    shared = dict(section(content, "privacy"))
    if privacy is not None:  # the unit stays the file's own: a session protects one
        shared = {**{key: value for key, value in shared.items() if key not in SPENDING}, **privacy}
    own = {
        **{key: value for key, value in content.items() if key not in ("plan", "workload")},
        "workload": settings.get("workload"),
        "privacy": shared,
        "objective": settings.get("objective", content.get("objective", {})),
    }
    spec = spec_of(own, path, where)
    if independent and spec.guarantee is None:
        raise SpecError(f"{where} independent noise needs a budget; write [plan.{name}.privacy] rho = 0.5.")
    decides = {key: own[key] for key in ("domain", "workload", "privacy", "objective")}
    if by := (content.get("session") or {}).get("by"):
        decides["by"] = by
    digest = hashlib.sha256(json.dumps([decides, independent], default=str).encode()).hexdigest()
    return NamedPlan(spec, independent, digest)


@contextmanager
def opened(spec: SessionSpec, *, create: bool = False, show_values: bool = False) -> Iterator[Session]:
    """The session of a specification; made only if asked to.

    Progress is shown until the block ends: print afterwards, or the bars take with them what was printed below them.
    """
    first = spec.any
    if not create and not (spec.state / "session.json").exists():
        raise SessionError(f"there is no session {str(spec.state)!r} yet; begin with: residua session open SPEC.toml")
    budget = spec.budget
    if not first.ledger_path.exists():
        if (spec.state / "session.json").exists():
            raise SessionError(
                f"the session {str(spec.state)!r} is there, but its ledger {str(first.ledger_path)!r} is not; restore "
                "the ledger, for what was spent is in it."
            )
        budget = budget or first.guarantee
        if budget is None:
            raise SpecError("say what the session may spend: [ledger] rho = 1.0, for example.")
        if not first.ledger_path.parent.is_dir():
            raise SpecError(f"the folder of [ledger] path, {str(first.ledger_path.parent)!r}, does not exist; make it.")
        check_place(spec.state)
    ledger = Ledger(first.ledger_path, budget, unit=first.unit, **ledger_options(first))
    try:
        with progress_bar() as show:
            data, said = open_source(first, show_values=show_values), partial(notice, show_values=show_values)
            yield Session(data, ledger=ledger, state=spec.state, progress=show, notice=said)
    except KeyboardInterrupt:
        err.print("residua: interrupted; a debit already made stands, see: residua session status SPEC.toml")
        raise


def plans_of(spec: SessionSpec, names: Sequence[str], *, least: int = 1) -> dict[str, Plan]:
    """The named plans, all if none is named, in the order of the file or of the names."""
    for i, name in enumerate(names):
        spec.named(name)
        if name in names[:i]:
            raise SpecError(f"the plan {name!r} is named twice; name each once.")
    wanted = names or list(spec.plans)
    if len(wanted) < least:
        raise SpecError(
            f"{wanted[0]!r} alone leaves nothing to choose; name at least two plans, or measure one with: "
            "residua session release SPEC.toml NAME --out DIR"
        )
    # The strategies are those for all plans of the file, whichever are named, so that a plan is always the same.
    best = {name: named.spec for name, named in spec.plans.items() if not named.independent}
    ground = common_ground([one.workload for one in best.values()])
    plans = {name: _planned(spec.plans[name], ground) for name in wanted}
    return {name: by_group(plan, by=spec.by) for name, plan in plans.items()} if spec.by else plans


def _planned(named: NamedPlan, ground: Plan | None) -> Plan:
    spec = named.spec
    if named.independent and spec.guarantee is not None:
        return independent(spec.workload, spec.guarantee, unit=spec.unit)
    if spec.axis and ground is not None:
        raise SpecError(
            "[objective] axis is for a plan by itself, and plans of a session share noise that suits all; remove it."
        )
    of_sets = ground is not None and ground.family is not None  # which tables alone are planned like
    apart = (of_sets and not spec.workload.tabular) or isinstance(spec.guarantee, PureDP)
    return make_plan(spec, None if apart else ground)


def print_status(session: Session, *, as_json: bool = False) -> None:
    """What was measured, what was spent and is left, and what is being chosen."""
    status, ledger = session.status, session.ledger
    if as_json:
        parts = {str(n): summary for n, summary in status.parts.items()}
        left = {"spent": status.spent_exactly, "remaining": status.remaining_exactly}
        amounts = {name: _amounts(session, amount) for name, amount in left.items()}
        choices = [{"number": n, "candidates": list(names), "end": end} for n, (names, end) in status.choices.items()]
        facts = {"state": str(session.path), "ledger": str(ledger.path), "parts": parts, "lost": list(status.lost)}
        print_json({**facts, **amounts, "choices": choices})
        return
    out.print(f"Session {session.path}, ledger {ledger.path}, for {ledger.unit}")
    for number, summary in status.parts.items():
        out.print(f"Part {number}   {summary}")
    for number in status.lost:
        out.print(f"Part {number}   was paid for and lost; the debit stands")
    for number, (names, end) in status.choices.items():
        out.print(f"Choice {number} between {', '.join(names)}: {end}")
    out.print(f"Spent  {_in_words(session, status.spent_exactly)}")
    out.print(f"Left   {_in_words(session, status.remaining_exactly)}")


def _amounts(session: Session, amount: Fraction) -> dict[str, float]:
    """An amount as the session's ledger counts: an epsilon, or a pcost and the rho that it is."""
    if session.ledger.currency == "epsilon":
        return {"epsilon": float(amount)}
    return {"pcost": float(amount), "rho": float(amount / 2)}


def _in_words(session: Session, amount: Fraction) -> str:
    name, value = list(_amounts(session, amount).items())[-1]
    return f"{name} {value:.6g}"


def write_release(session: Session, release: Release, folder: Path) -> None:
    """Writes a pooled release; if that fails, asking for it again costs nothing."""
    try:
        release.save(folder)
    except FileError:
        err.print(
            "residua: the measurements are safe in the session; this costs nothing more: "
            "residua session release SPEC.toml NAME --out DIR"
        )
        raise
    print_written(folder, f": {release.summary}")
    print_spent(session)


def print_spent(session: Session) -> None:
    """What the session has spent, and what is left."""
    spent, left = session.status.spent_exactly, session.status.remaining_exactly
    out.print(f"Spent by the session: {_in_words(session, spent)}; left: {_in_words(session, left)}")


def run_adaptation(
    spec: SessionSpec, name: str, target: Path, estimates: Path | None, *, show_values: bool, **shares: float
) -> None:
    """Adapts a session to the tables of a plan, within its budget; shares are as for `Session.adapt`."""
    require_free(target)
    if estimates is not None:
        require_free(estimates, "folder of estimates")
    wanted = spec.named(name).spec
    checked_source(wanted)
    with opened(spec, show_values=show_values) as session:
        adapted = session.adapt(wanted.workload, cast("Guarantee", wanted.guarantee), **shares)
    for step, cost in adapted.spent.items():
        out.print(f"Step {step:<7} rho {float(cost / 2):.6g}")
    write_release(session, adapted.release, target)
    if estimates is not None:
        with progress_bar() as show:
            estimate(adapted.release, progress=show).save(estimates)
        print_written(estimates, f": estimates from {target}. {WARNING}")
