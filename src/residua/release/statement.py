"""The privacy statement that goes with a release, for people to read."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from residua.plans.tolerances import nearness
from residua.privacy import AddRemove, Person, PureDP, describe
from residua.privacy.costs import Currencies, printed, stated
from residua.published.table import what_is_counted
from residua.showing import printable

if TYPE_CHECKING:
    from residua.release.base import Release


def in_currencies(currency: str, cost: float) -> list[tuple[str, str, str]]:
    """A cost in every currency: the name of each, the figure, rounded up, and which kind of privacy it is of."""
    if currency == "epsilon":
        costs: PureDP | Currencies = PureDP(cost)
        epsilons = [("epsilon", printed(cost), "pure differential privacy: no delta")]
    else:
        costs = describe(cost)
        figures = (f"{printed(e)} at delta = {delta:g}" for e, delta in zip(costs.epsilons, costs.deltas, strict=True))
        epsilons = [("epsilon", figure, "approximate differential privacy") for figure in figures]
    return [
        ("rho", printed(costs.rho), "zero-concentrated differential privacy"),
        ("mu", printed(costs.mu), "Gaussian differential privacy"),
        *epsilons,
    ]


def _of_persons(release: Release) -> list[str]:
    """What a bound on a person's records means for the numbers."""
    unit = release.planned.unit
    if isinstance(unit, AddRemove) and unit.records > 1:
        return [f"That no person has more than {unit.records:,} records was declared, not enforced.", ""]
    if not isinstance(unit, Person):
        return []
    columns = printable(str(release.receipt.get("person", "")))
    said = [
        *([f"A person is who has one `{columns}`."] if columns else []),
        f"The bound on each person's records was enforced: every table {what_is_counted(unit)}.",
        "They were chosen at random from that person's own, by a secret kept with the ledger. Numbers are lower",
        "than the true ones by what was left out, which no error bar shows.",
    ]
    left_out = release.left_out
    if left_out is not None:
        most = release.receipt["left_out_most"]
        said.append(
            f"About {left_out.estimate:,.0f} records were left out (standard deviation {left_out.stddev:,.0f}; no more"
            f" than {most:,} of any person are in this figure). The cost above includes that of this figure."
        )
    return [*said, ""]


def privacy_statement(release: Release) -> str:
    """What was measured, whom the noise protects and how well, as Markdown."""
    plan, currency = release.planned, release.measurements.currency
    noise = "normal" if currency == "pcost" else "Laplace"
    cost = release.receipt.get(currency, plan.unit_pcost if currency == "pcost" else plan.unit_epsilon)
    bias = []
    if plan.bias:
        bias = [
            f"Answers are biased: on n records they may be off systematically by n times {plan.bias:.6g}, as a",
            "root mean square over the queries (single queries by more). No intervals are given.",
            "",
        ]
    lines = [
        "# Privacy statement",
        "",
        f"Guarantee: {stated(plan.guarantee, release.receipt)}, for {plan.unit}.",
        "",
        "The same cost in every currency (each figure rounded up):",
        "",
        *(f"- {name} = {figure} ({kind})" for name, figure, kind in in_currencies(currency, cost)),
        "",
        "## What was measured",
        "",
        release.summary,
        f"Each integer is an exact linear combination of counts plus rounded {noise} noise, sampled exactly",
        "from the operating system's randomness. No true count is in this folder. All tables are post-processing of",
        "the same measurements: they agree with each other, and publishing more of them costs nothing.",
        "",
        f"Planned for: {plan.objective}"
        + (f", stated to be {nearness(plan.gap, plan.comparison_class)}." if 0 < plan.gap < math.inf else "."),
        "",
        *bias,
        *_of_persons(release),
        "Values outside the declared domain and missing values followed the policies in `codebook.toml`.",
        "",
    ]
    return "\n".join(map(printable, lines))  # a name cannot add a line
