"""A session on a specification: opens it, makes its plans, shows its status, and writes what it releases."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from residua.cli.session_spec import NamedPlan, SessionSpec
from residua.cli.show import err, out, print_json, progress_bar
from residua.cli.sources import notice, open_source
from residua.cli.steps import make_plan
from residua.errors import FileError, SessionError, SpecError
from residua.measurement import Ledger
from residua.plans import by_group, independent
from residua.plans.contract import Plan
from residua.plans.joint.plan import JointPlan
from residua.plans.planners.ground import common_ground
from residua.privacy import PureDP
from residua.release import Release
from residua.session import Session
from residua.session.opening import check_place, require_gaussian

if TYPE_CHECKING:
    from collections.abc import Iterator


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
        require_gaussian(budget)  # before the ledger is made
        if not first.ledger_path.parent.is_dir():
            raise SpecError(f"the folder of [ledger] path, {str(first.ledger_path.parent)!r}, does not exist; make it.")
        check_place(spec.state)
    ledger = Ledger(first.ledger_path, budget, unit=first.unit)
    try:
        with progress_bar() as show:
            yield Session(
                open_source(first, show_values=show_values),
                ledger=ledger,
                state=spec.state,
                progress=show,
                notice=partial(notice, show_values=show_values),
            )
    except KeyboardInterrupt:
        err.print("residua: interrupted; a debit already made stands, see: residua session status SPEC.toml")
        raise


def plans_of(spec: SessionSpec, names: Sequence[str], *, least: int = 1) -> dict[str, Plan]:
    """The named plans, all if none is named, in the order of the file or of the names."""
    for i, name in enumerate(names):
        if name not in spec.plans:
            raise SpecError(f"there is no plan {name!r}; there are {', '.join(map(repr, spec.plans))}.")
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
    listed = not spec.workload.tabular and not isinstance(ground, JointPlan)
    return make_plan(spec, None if listed or isinstance(spec.guarantee, PureDP) else ground)


def print_status(session: Session, *, as_json: bool = False) -> None:
    """What was measured, what was spent and is left, and what is being chosen."""
    status, ledger = session.status, session.ledger
    if as_json:
        print_json(
            {
                "state": str(session.path),
                "ledger": str(ledger.path),
                "parts": {str(n): summary for n, summary in status.parts.items()},
                "lost": list(status.lost),
                "spent": {"pcost": float(status.spent_exactly), "rho": float(status.spent_exactly / 2)},
                "remaining": {"pcost": float(status.remaining_exactly), "rho": float(status.remaining_exactly / 2)},
                "choices": [
                    {"number": n, "candidates": list(names), "end": end} for n, (names, end) in status.choices.items()
                ],
            }
        )
        return
    out.print(f"Session {session.path}, ledger {ledger.path}, for {ledger.unit}")
    for number, summary in status.parts.items():
        out.print(f"Part {number}   {summary}")
    for number in status.lost:
        out.print(f"Part {number}   was paid for and lost; the debit stands")
    for number, (names, end) in status.choices.items():
        out.print(f"Choice {number} between {', '.join(names)}: {end}")
    out.print(f"Spent  rho {float(status.spent_exactly / 2):.6g}")
    out.print(f"Left   rho {float(status.remaining_exactly / 2):.6g}")


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
    out.print(f"Wrote {folder}: {release.summary}")
    print_spent(session)


def print_spent(session: Session) -> None:
    """What the session has spent, and what is left."""
    status = session.status
    spent, left = float(status.spent_exactly / 2), float(status.remaining_exactly / 2)
    out.print(f"Spent by the session: rho {spent:.6g}; left: rho {left:.6g}")
