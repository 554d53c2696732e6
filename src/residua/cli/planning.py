"""The best plan of a specification, and how it is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from residua.cli.show import err, out, print_json, progress_bar
from residua.plans import plan as best_plan
from residua.plans.contract import Plan
from residua.plans.planners.axis import Axis
from residua.plans.planners.forecast import watched
from residua.plans.planners.lattice import Lattice
from residua.plans.planners.offers import Planner
from residua.report.plan_text import plan_facts, plan_lines

if TYPE_CHECKING:
    from residua.cli.spec import Spec
    from residua.privacy import Guarantee


def print_plan(plan: Plan, *, as_json: bool = False, everything: bool = False) -> None:
    """What was asked with its expected errors, then the plan's privacy and its gap."""
    if as_json:
        print_json(plan_facts(plan))
        return
    for part in plan_lines(plan, everything=everything):
        out.print(part)


def make_plan(spec: Spec, like: Plan | None = None) -> Plan:
    """The best plan for a specification; with the strategies of another if one is given."""
    if spec.for_estimates:
        from residua.estimation import plan_estimates

        return plan_estimates(spec.workload, cast("Guarantee", spec.guarantee), unit=spec.unit, records=spec.records)
    shares: list[float] = []  # of the predicted time, where that is long; rounds then say nothing more

    def share_over(share: float) -> None:
        shares.append(share)
        show("planning", round(1000 * share), 1000)

    try:
        with progress_bar() as show, watched(share_over):
            return best_plan(
                spec.workload,
                spec.guarantee,
                minimise=spec.minimise,
                targets=spec.targets,
                unit=spec.unit,
                tolerance=spec.tolerance,
                noise="laplace" if spec.least_epsilon else None,
                form=_form(spec, like),
                progress=lambda rounds, gap: None if shares else show("planning", rounds, None),
            )
    except KeyboardInterrupt:
        err.print("residua: interrupted while planning; nothing was written or spent.")
        raise


def _form(spec: Spec, like: Plan | None) -> Planner[Plan] | None:
    """The form of plan that a specification asks for; what is planned like another has that one's strategies."""
    if like is not None:
        return Lattice(like=like)
    return Axis() if spec.axis else None
