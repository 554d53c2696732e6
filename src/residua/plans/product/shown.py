"""How a product plan is shown to people: what it measures, in words."""

from __future__ import annotations

from typing import Any


def described(plan: Any) -> tuple[tuple[str, str], ...]:
    """How a plan is measured, or what could be better, with a heading."""
    if plan.shares is not None:
        shares = plan.shares[plan.tables.measured]
        low, high = f"{shares.min():.3g}", f"{shares.max():.3g}"
        each = low if low == high else f"{low} to {high}"
        return (("Measured", f"{len(shares):,} marginals, at epsilon {each} each"),)
    if not plan.parts:
        return (("Better?", f"{plan.advice}, or [objective] dense = true"),) if plan.advice else ()
    along = [operator for operator in plan.parts.values() if operator.has_values] or [*plan.parts.values()]
    heading, text = along[0].described(plan.domain[plan.name], plan.name)
    crossed = [plan.domain.names[i] for i in plan.measured_attributes if i != plan.attribute]
    text += f", crossed with {', '.join(crossed)} in {len(plan.parts):,} sets" if crossed else ""
    return ((heading, f"{text}; {plan.measurements.cells:,} integers are measured"),)


def listed_tables(plan: Any) -> list[dict[str, Any]]:
    """The marginals that are measured as they are, each with its share of epsilon."""
    measured = plan.tables.measured
    rows = [plan.lattice.members(number) for number in measured.tolist()]
    return [
        {"attributes": [plan.domain.names[i] for i in row], "epsilon": share}
        for row, share in zip(rows, plan.shares[measured].tolist(), strict=True)
    ]


def in_brief(plan: Any) -> str:
    """What is measured and what it costs, in a few words."""
    cost = f"pcost={plan.pcost:.6g}" if plan.noise.gaussian else f"epsilon={plan.epsilon:.6g}"
    measured = int((plan.precisions > 0).sum())
    if plan.shares is not None:
        return f"{len(plan.tables.measured):,} marginals, {cost}"
    if plan.attribute >= 0:
        kinds = ", ".join(dict.fromkeys(operator.kind for operator in plan.parts.values()))
        return f"{plan.size:,} values of {plan.name!r} by {kinds or 'nothing'}, {measured:,} sets, {cost}"
    return f"{measured:,} {'residuals' if plan.plain else 'measurements'}, {cost}"
