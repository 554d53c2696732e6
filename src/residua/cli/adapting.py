"""`residua session adapt`: spends a plan's budget by itself, and writes what was measured, and estimates if asked."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from residua.cli.places import require_free
from residua.cli.session_spec import SessionSpec
from residua.cli.sessions import opened, write_release
from residua.cli.show import out as screen
from residua.cli.show import progress_bar
from residua.cli.steps import checked_source
from residua.errors import SpecError
from residua.estimation import estimate
from residua.estimation.statement import WARNING
from residua.privacy import Guarantee


def run_adaptation(
    spec: SessionSpec,
    name: str,
    out: Path,
    estimates: Path | None,
    look: float,
    scores: float,
    *,
    show_values: bool,
) -> None:
    """Adapts a session to the tables of a plan, within its budget."""
    require_free(out)
    if estimates is not None:
        require_free(estimates, "folder of estimates")
    if name not in spec.plans:
        raise SpecError(f"there is no plan {name!r}; there are {', '.join(map(repr, spec.plans))}.")
    wanted = spec.plans[name].spec
    checked_source(wanted)
    with opened(spec, show_values=show_values) as session:
        adapted = session.adapt(wanted.workload, cast("Guarantee", wanted.guarantee), look=look, scores=scores)
    for step, cost in adapted.spent.items():
        screen.print(f"Step {step:<7} rho {float(cost / 2):.6g}")
    write_release(session, adapted.release, out)
    if estimates is not None:
        with progress_bar() as show:
            made = estimate(adapted.release, progress=lambda what, done, of: show(what, done, of))
            made.save(estimates)
        screen.print(f"Wrote {estimates}: estimates from {out}. {WARNING}")
