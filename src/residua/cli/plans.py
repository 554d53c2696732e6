"""What the command says of a plan: every table's or query's expected error, the privacy, and the gap."""

from __future__ import annotations

from residua.cli.show import out
from residua.plans.contract import Plan
from residua.report.plan_text import plan_facts, plan_lines, privacy_lines

__all__ = ["plan_facts", "print_plan", "print_privacy"]


def print_plan(plan: Plan, *, everything: bool = False) -> None:
    """What was asked with its expected errors, then the plan's privacy and its gap."""
    for part in plan_lines(plan, everything=everything):
        out.print(part)


def print_privacy(plan: Plan) -> None:
    """What a plan guarantees, in every currency, and how far from optimal it can be."""
    for line in privacy_lines(plan):
        out.print(line)
